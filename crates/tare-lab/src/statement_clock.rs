//! CPU time of a server whose process cannot be seen: what it says that its statements used.
//!
//! MariaDB counts it while `userstat` is on, and shows it as `Cpu_time`, in microseconds. What its own threads do (purge, writing
//! pages) is not in it, nor what passes between statements.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mysql::prelude::Queryable;

use crate::Result;
use crate::target::Target;

/// A connection on which the server is asked.
#[derive(Clone, Debug)]
pub struct StatementClock {
    target: Target,
    connection: Arc<Mutex<mysql::Conn>>,
}

impl StatementClock {
    /// Of a server; `None` where it does not count.
    pub fn of(target: &Target) -> Result<Option<StatementClock>> {
        let mut connection = target.connect()?;
        let counts: Option<u8> = connection.query_first("SELECT @@GLOBAL.userstat").unwrap_or_default();
        let connection = Arc::new(Mutex::new(connection));
        Ok((counts == Some(1)).then(|| StatementClock { target: target.clone(), connection }))
    }

    /// Of all statements that have ended, so far.
    pub fn now(&self) -> Result<Duration> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let row: Option<(String, f64)> = connection
            .query_first("SHOW GLOBAL STATUS LIKE 'Cpu_time'")
            .map_err(|e| self.target.refused(e))?;
        Ok(Duration::from_secs_f64(row.map_or(0.0, |(_, seconds)| seconds.max(0.0))))
    }
}
