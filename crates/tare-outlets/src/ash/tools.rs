//! Connections of tare's own tools, which the history leaves out.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use crate::source::{Error, Source};

/// Least time between two looks.
const PAUSE: Duration = Duration::from_secs(10);
/// The program's name, which clients tell when they connect.
const OF_TARE: &str = "SELECT DISTINCT `PROCESSLIST_ID` FROM `performance_schema`.`session_connect_attrs` \
     WHERE `ATTR_NAME` = 'program_name' AND (`ATTR_VALUE` = 'tare' OR `ATTR_VALUE` LIKE '%/tare')";

/// The connections known to be tare's, and those known to be others.
pub(super) struct Tools {
    tools: HashSet<u64>,
    /// Largest number of a connection when it was last asked.
    known: u64,
    asked: Instant,
    own: u64,
}

impl Tools {
    pub(super) fn of(source: &mut Source) -> Result<Tools, Error> {
        let own = source.ask("SELECT CONNECTION_ID()")?.first().map_or(0, |row| row.count(0));
        let mut tools = Tools { tools: HashSet::new(), known: own, asked: Instant::now(), own };
        tools.ask(source)?;
        Ok(tools)
    }

    /// Asks again if there are connections that were not there before, though not too often.
    pub(super) fn look(&mut self, source: &mut Source, connections: &HashSet<u64>) -> Result<(), Error> {
        let youngest = connections.iter().max().copied().unwrap_or(0);
        if youngest > self.known && self.asked.elapsed() >= PAUSE {
            self.known = youngest;
            self.ask(source)?;
        }
        Ok(())
    }

    pub(super) fn has(&self, connection: u64) -> bool {
        connection == self.own || self.tools.contains(&connection)
    }

    fn ask(&mut self, source: &mut Source) -> Result<(), Error> {
        self.asked = Instant::now();
        match source.ask(OF_TARE) {
            Ok(rows) => self.tools = rows.iter().filter_map(|row| row.number(0)).collect(),
            Err(error) if error.is_passing() => return Err(error),
            // Without the table nobody tells.
            Err(_) => {}
        }
        Ok(())
    }
}
