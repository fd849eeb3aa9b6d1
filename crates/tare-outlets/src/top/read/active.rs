//! Reading of new rows of the active session history.

use std::time::{Duration, SystemTime};

use tare_server::sql::literal;

use super::head::passing;
use super::{Reader, one_of};
use crate::sessions::{COLUMNS, History, RUNNING, TABLE, account, day};
use crate::source::{Address, Error, Kind};
use crate::top::look::DIGESTS;

/// Time of the history that is read at first.
const HOUR: Duration = Duration::from_secs(3600);
/// Most digests that are queried by name; with more, all are read.
const NAMED: usize = 100;

impl Reader {
    /// Returns rows that were added since the last sample, with the texts of their digests; `None` where the
    /// server has no such history.
    pub(super) fn active_sessions(&mut self) -> Result<Option<History>, Error> {
        if self.source.kind() != Kind::Tare {
            return Ok(None);
        }
        let filter = match (&self.latest, self.source.address()) {
            (Some(latest), _) => format!("WHERE `SAMPLE_TIME` > {}", literal(latest)),
            // Another machine may have another time.
            (None, Address::Account(_)) => "WHERE `SAMPLE_TIME` > NOW(6) - INTERVAL 1 HOUR".to_owned(),
            (None, Address::Socket(_)) => {
                let hour = micros(SystemTime::now().checked_sub(HOUR));
                format!("WHERE `SAMPLE_TIME` > {}", literal(&day(hour.unwrap_or(0))))
            }
        };
        let rows = passing(self.source.rows(TABLE, &COLUMNS, &filter))?;
        let latest = rows.iter().filter_map(|row| row.text(0)).max();
        let mut history = History::default();
        history.extend(rows);
        if self.processors.is_none() {
            let found = self.source.status("processors");
            self.processors = passing(found)?.and_then(|number| number.parse().ok());
        }
        history.processors = self.processors;
        self.name_digests(&mut history)?;
        self.name_blockers(&mut history)?;
        self.latest = latest.or(self.latest.take());
        Ok(Some(history))
    }

    /// Adds the texts of digests that have not been returned yet. Of a statement that has not ended once, it
    /// is known while the statement is in progress.
    fn name_digests(&mut self, history: &mut History) -> Result<(), Error> {
        for (table, schema) in [(DIGESTS.table, "SCHEMA_NAME"), (RUNNING, "CURRENT_SCHEMA")] {
            let is_new = |(schema, digest): &(Option<&str>, &str)| {
                !self.named.contains(&(schema.map(str::to_owned), (*digest).to_owned()))
            };
            let digests: Vec<String> =
                history.unnamed().into_iter().filter(is_new).map(|(_, digest)| digest.to_owned()).collect();
            if digests.is_empty() {
                return Ok(());
            }
            let named: Vec<&str> = digests.iter().map(String::as_str).collect();
            let filter = if named.len() <= NAMED { one_of("DIGEST", &named) } else { String::new() };
            for row in passing(self.source.rows(table, &[schema, "DIGEST", "DIGEST_TEXT"], &filter))? {
                if let (schema, Some(digest), Some(text)) = (row.text(0), row.text(1), row.text(2)) {
                    history.name_digest(schema.as_deref(), &digest, &text);
                    self.named.insert((schema, digest));
                }
            }
        }
        Ok(())
    }

    /// Adds the accounts of threads that others wait for and that have no row because they are idle. Each is
    /// asked for once: a THREAD_ID is never used again.
    fn name_blockers(&mut self, history: &mut History) -> Result<(), Error> {
        let blockers: Vec<u64> =
            history.unnamed_blockers().into_iter().filter(|it| !self.blockers.contains(it)).collect();
        for some in blockers.chunks(NAMED) {
            let ids: Vec<String> = some.iter().map(u64::to_string).collect();
            let filter = format!("WHERE `THREAD_ID` IN ({})", ids.join(", "));
            let columns = ["THREAD_ID", "PROCESSLIST_USER", "PROCESSLIST_HOST"];
            for row in passing(self.source.rows("threads", &columns, &filter))? {
                if let Some(account) = account(row.str(1).as_deref(), row.str(2).as_deref()) {
                    history.name_thread(row.count(0), account);
                }
            }
        }
        self.blockers.extend(blockers);
        Ok(())
    }

    /// Returns the server's time in microseconds since 1970, by the clock of a sample.
    pub(super) fn now(&self, moment: Duration) -> Option<u64> {
        match self.source.address() {
            Address::Socket(_) => micros(Some(SystemTime::now())),
            Address::Account(_) => u64::try_from(moment.as_micros()).ok(),
        }
    }
}

fn micros(time: Option<SystemTime>) -> Option<u64> {
    let since = time?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    u64::try_from(since.as_micros()).ok()
}
