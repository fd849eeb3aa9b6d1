//! The head of the screen: server, uptime, load, and overhead.

use std::time::{Duration, SystemTime};

use super::Reader;
use crate::ash::is_active;
use crate::source::{Address, Error, Kind, Row};
use crate::top::look::{Content, Head};

/// Locks whose acquisitions are timed only if they waited, at every level except `exact`.
const LOCKS: [&str; 3] = ["wait/synch/mutex/", "wait/synch/rwlock/", "wait/synch/sxlock/"];

impl Reader {
    pub(super) fn head(&mut self) -> Result<Head, Error> {
        let mut head = Head { place: self.place(), server: self.server.clone(), ..Head::default() };
        if self.source.kind() == Kind::Tare {
            let filter = "WHERE `NAME` = 'lost' OR `NAME` LIKE 'budget%' OR `NAME` LIKE 'price%'";
            for row in self.source.rows("tare_status", &["NAME", "VALUE"], filter)? {
                let (name, value) = (row.text(0).unwrap_or_default(), row.text(1).unwrap_or_default());
                match name.as_str() {
                    "lost" => head.lost = row.count(1),
                    _ => head.budget.push((name, value)),
                }
            }
        }
        match self.source.address() {
            Address::Socket(_) => self.load_by_tables(&mut head)?,
            Address::Account(_) => self.load_by_status(&mut head)?,
        }
        Ok(head)
    }

    /// Returns the number of sessions that have something to do now, if they are not among what the view
    /// shows anyway; `None` where nothing tells.
    pub(super) fn active_now(&mut self, content: &Content) -> Result<Option<u64>, Error> {
        if self.off.is_some() {
            return Ok(None);
        }
        if let Content::Threads(threads) = content {
            let active = threads.iter().filter(|thread| thread.is_active()).count() as u64;
            // A server has threads: where none is seen, they could not be read.
            return Ok((!threads.is_empty()).then_some(active));
        }
        let columns = ["PROCESSLIST_ID", "PROCESSLIST_COMMAND", "PROCESSLIST_STATE"];
        let filter = "WHERE `PROCESSLIST_ID` IS NOT NULL AND `PROCESSLIST_COMMAND` <> 'Sleep'";
        let rows = match self.source.rows("threads", &columns, filter) {
            Ok(rows) => rows,
            Err(error) if error.is_passing() => return Err(error),
            Err(_) => return Ok(None),
        };
        let own = self.own;
        let is_one = |row: &&Row| {
            let (command, state) = (row.text(1).unwrap_or_default(), row.text(2).unwrap_or_default());
            row.number(0) != own && is_active(&command, &state)
        };
        Ok(Some(rows.iter().filter(is_one).count() as u64))
    }

    /// Returns host and port, or this machine's name and the socket.
    fn place(&self) -> String {
        let address = self.source.address().to_string();
        if !address.starts_with('/') {
            return address;
        }
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        format!("{} {address}", host.trim()).trim_start().to_owned()
    }

    /// Reads the server's own counters by SQL.
    fn load_by_status(&mut self, head: &mut Head) -> Result<(), Error> {
        let sql = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Uptime', 'Threads_connected', 'Questions')";
        for row in passing(self.source.ask(sql))? {
            match row.str(0).as_deref() {
                Some("Uptime") => head.uptime = row.number(1).map(Duration::from_secs),
                Some("Threads_connected") => head.connections = row.number(1),
                _ => head.queries = row.number(1),
            }
        }
        Ok(())
    }

    /// Computes the same over the endpoint, which has no status variables, from the age of its socket,
    /// accounts and statements.
    fn load_by_tables(&mut self, head: &mut Head) -> Result<(), Error> {
        let started = self.source.started()?;
        head.uptime = started.and_then(|started| SystemTime::now().duration_since(started).ok());
        head.connections = self.connections()?;
        let filter = "WHERE `EVENT_NAME` LIKE 'statement/sql/%' OR `EVENT_NAME` = 'statement/com/Execute'";
        let table = "events_statements_summary_global_by_event_name";
        let counts = passing(self.source.rows(table, &["COUNT_STAR"], filter))?;
        head.queries = Some(counts.iter().map(|row| row.count(0)).sum());
        Ok(())
    }

    /// Counts the open connections over the endpoint; `None` where nothing tells.
    fn connections(&mut self) -> Result<Option<u64>, Error> {
        let is_mysql = self.server.starts_with("MySQL");
        // MySQL's accounts have some of the server's own threads, too, whose command is Daemon.
        let (table, column, filter) = match is_mysql {
            true => (
                "threads",
                "PROCESSLIST_ID",
                "WHERE `PROCESSLIST_ID` IS NOT NULL AND `PROCESSLIST_COMMAND` <> 'Daemon'",
            ),
            false => ("accounts", "CURRENT_CONNECTIONS", "WHERE `USER` IS NOT NULL"),
        };
        match self.source.rows(table, &[column], filter) {
            Ok(rows) if is_mysql => Ok(Some(rows.len() as u64)),
            Ok(rows) => Ok(Some(rows.iter().map(|row| row.count(0)).sum())),
            Err(error) if error.is_passing() => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// Returns the instruments of locks whose uncontended acquisitions are not timed. Other servers time all
    /// or none.
    pub(super) fn untimed(&mut self) -> Result<Vec<String>, Error> {
        if self.source.kind() != Kind::Tare {
            return Ok(vec![]);
        }
        let filter = "WHERE `NAME` LIKE 'wait/synch/%'";
        let rows = passing(self.source.rows("tare_levels", &["NAME", "LEVEL"], filter))?;
        let untimed = |row: &Row| {
            let name = row.text(0)?;
            let is_lock = LOCKS.iter().any(|lock| name.starts_with(lock));
            (is_lock && row.str(1).as_deref() != Some("exact")).then_some(name)
        };
        Ok(rows.iter().filter_map(untimed).collect())
    }
}

/// Makes errors about what an account may not read, or a server does not have, an empty answer.
pub(super) fn passing<T: Default>(answer: Result<T, Error>) -> Result<T, Error> {
    match answer {
        Err(error) if !error.is_passing() => Ok(T::default()),
        other => other,
    }
}
