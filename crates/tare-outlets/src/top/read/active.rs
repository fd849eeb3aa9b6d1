//! Reading of new rows of the active session history.

use tare_server::sql::literal;

use super::Reader;
use super::head::passing;
use crate::source::{Error, Kind};
use crate::top::activity::Activity;

const TABLE: &str = "tare_active_session_history";
const COLUMNS: [&str; 3] = ["SAMPLE_TIME", "WAIT_CLASS", "USECS_PER_ROW"];

impl Reader {
    /// Returns the activity with what has been added since the last sample; `None` where the server has no such history.
    pub(super) fn activity(&mut self) -> Result<Option<Activity>, Error> {
        if self.source.kind() != Kind::Tare {
            return Ok(None);
        }
        let filter = match self.activity.latest() {
            Some(latest) => format!("WHERE `SAMPLE_TIME` > {}", literal(latest)),
            None => String::new(),
        };
        let rows = passing(self.source.rows(TABLE, &COLUMNS, &filter))?;
        for row in &rows {
            self.activity.add(
                &row.text(0).unwrap_or_default(),
                &row.text(1).unwrap_or_default(),
                row.count(2),
            );
        }
        if self.activity.processors.is_none() {
            let filter = "WHERE `NAME` = 'processors'";
            let found = passing(self.source.rows("tare_status", &["VALUE"], filter))?;
            self.activity.processors = found.first().and_then(|row| row.number(0));
        }
        Ok(self.activity.latest().is_some().then(|| self.activity.clone()))
    }
}
