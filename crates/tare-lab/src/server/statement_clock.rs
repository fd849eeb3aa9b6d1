//! CPU time of a server whose process cannot be seen: what it reports for its statements.
//!
//! MariaDB counts it while `userstat` is on, and shows it as `Cpu_time`, in microseconds. It excludes the
//! server's background threads (purge, page writing) and the time between statements.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mysql::prelude::Queryable;

use crate::Result;
use crate::server::target::ServerTarget;

/// A connection on which the CPU time is read.
#[derive(Clone, Debug)]
pub struct StatementClock {
    target: ServerTarget,
    connection: Arc<Mutex<mysql::Conn>>,
}

impl StatementClock {
    /// Connects to a server; `None` where it does not count CPU time.
    pub fn of(target: &ServerTarget) -> Result<Option<StatementClock>> {
        let mut connection = target.connect()?;
        let counts: Option<u8> = connection.query_first("SELECT @@GLOBAL.userstat").unwrap_or_default();
        let connection = Arc::new(Mutex::new(connection));
        Ok((counts == Some(1)).then(|| StatementClock { target: target.clone(), connection }))
    }

    /// Returns the CPU time of all statements that have ended so far.
    pub fn now(&self) -> Result<Duration> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let row: Option<(String, f64)> = connection
            .query_first("SHOW GLOBAL STATUS LIKE 'Cpu_time'")
            .map_err(|e| self.target.refused(e))?;
        Ok(Duration::from_secs_f64(row.map_or(0.0, |(_, seconds)| seconds.max(0.0))))
    }
}
