//! The reader of samples. It reads only the tables that the view shows, each once per sample.

mod active;
mod digest;
mod head;
mod locks;
mod need;
mod overview;
mod own_socket;
mod statements;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use tare_server::sql::{literal, literals};

use super::look::{
    About, Ask, Content, Counted, DIGESTS, INDEXES, Key, Look, THREAD_WAITS, Tally, Thread, View,
};
use crate::source::{Address, Error, Kind, Row, Source};

/// A reader of samples from a server.
pub struct Reader {
    source: Source,
    /// A connection to the server's own socket beside tare's, once it has been tried; `None` inside: there is
    /// none.
    own_socket: Option<Option<Source>>,
    /// Id of the connection over which it reads; `None`: the endpoint's have none.
    own: Option<u64>,
    began: Instant,
    server: String,
    /// Reason why there is no data at all.
    off: Option<String>,
    /// Whether executions of prepared statements count for digests.
    executions_have_digests: bool,
    /// Digests whose texts have been returned.
    told: HashSet<Key>,
    /// Subject of the last sample, and what was missing for it.
    lacked: Option<(Ask, Vec<String>)>,
    /// Time of the latest row of the active session history that was returned, as the server writes it.
    latest: Option<String>,
    /// Schemas and digests whose texts have been returned with that history.
    named: HashSet<(Option<String>, String)>,
    /// Threads that others waited for, whose accounts have been asked for.
    blockers: HashSet<u64>,
    /// Whether it has a source to replicate from, once that has been asked.
    is_replica: Option<bool>,
    /// Number of the server's processors.
    processors: Option<u64>,
}

impl Reader {
    /// Connects.
    ///
    /// # Errors
    ///
    /// Those of [`Source::open`].
    pub fn open(address: Address) -> Result<Self, Error> {
        let mut source = Source::open(address)?;
        let mut own = None;
        if matches!(source.address(), Address::Account(_)) {
            // As over the endpoint.
            source.execute("SET time_zone = '+00:00'")?;
            own = source.ask("SELECT CONNECTION_ID()")?.first().and_then(|row| row.number(0));
        }
        let is_off = is_off(&mut source)?;
        let server = describe(&mut source)?;
        let executions_have_digests = have_digests(&mut source)?;
        let off = is_off.then(|| {
            "The server's Performance Schema is off, and so nothing is counted. Load tare into it (tare install), or \
             start it with performance_schema = ON in its option file."
                .to_owned()
        });
        Ok(Self {
            source,
            own_socket: None,
            own,
            began: Instant::now(),
            server,
            off,
            executions_have_digests,
            told: HashSet::new(),
            lacked: None,
            latest: None,
            named: HashSet::new(),
            blockers: HashSet::new(),
            is_replica: None,
            processors: None,
        })
    }

    /// Takes a sample.
    ///
    /// # Errors
    ///
    /// [`Error::Gone`]. What the server does not have, or this account may not read, becomes a note of the
    /// sample.
    pub fn look(&mut self, ask: &Ask) -> Result<Look, Error> {
        let mut notes: Vec<String> = self.off.iter().cloned().collect();
        if notes.is_empty() {
            notes = self.lacking(ask)?;
        }
        let mut head = self.head()?;
        head.overview = self.overview()?;
        let moment = self.moment()?;
        let (history, now) = (self.active_sessions()?, self.now(moment));
        let content = self.content(ask, &mut notes)?;
        head.active = self.active_now(&content)?;
        let texts = match (&content, ask.view) {
            (Content::Counted(rows), View::Statements) => self.texts(rows, &mut notes)?,
            _ => vec![],
        };
        let untimed = match (&ask.about, ask.view) {
            (Some(About::Thread(_)), _) | (None, View::Waits) => self.untimed()?,
            _ => vec![],
        };
        Ok(Look { ask: ask.clone(), moment, head, content, history, now, texts, untimed, notes })
    }

    /// Returns what is missing for a view. Checked when the view is new, and again while something is
    /// missing.
    fn lacking(&mut self, ask: &Ask) -> Result<Vec<String>, Error> {
        if let Some((last, lacked)) = &self.lacked
            && last == ask
            && lacked.is_empty()
        {
            return Ok(vec![]);
        }
        let mut notes = vec![];
        need::check(self, ask, &mut notes)?;
        self.lacked = Some((ask.clone(), notes.clone()));
        Ok(notes)
    }

    /// Returns the time on the server's clock, or on this machine's for the endpoint.
    fn moment(&mut self) -> Result<Duration, Error> {
        if matches!(self.source.address(), Address::Socket(_)) {
            return Ok(self.began.elapsed());
        }
        let clock = self.source.ask("SELECT UNIX_TIMESTAMP(SYSDATE(6))")?;
        let seconds: Option<f64> = clock.first().and_then(|row| row.text(0)?.parse().ok());
        Ok(seconds.and_then(|it| Duration::try_from_secs_f64(it).ok()).unwrap_or(self.began.elapsed()))
    }

    fn content(&mut self, ask: &Ask, notes: &mut Vec<String>) -> Result<Content, Error> {
        Ok(match &ask.about {
            Some(About::Digest { schema, digest }) => {
                let filter = format!("WHERE {}", both("SCHEMA_NAME", schema.as_deref(), "DIGEST", digest));
                let row = self.counted(&DIGESTS, &filter, notes)?;
                Content::Digest(row, Box::new(self.digest(schema.as_deref(), digest, notes)?))
            }
            Some(About::Prepared { text }) => {
                let filter = format!("WHERE `SQL_TEXT` = {}", literal(text));
                Content::Prepared(self.prepared(&filter, notes)?)
            }
            Some(About::Table { schema, name }) => {
                let filter = format!("WHERE {}", both("OBJECT_SCHEMA", Some(schema), "OBJECT_NAME", name));
                Content::Table(self.counted(&INDEXES, &filter, notes)?)
            }
            Some(About::Thread(id)) => {
                let filter = format!("WHERE `THREAD_ID` = {id}");
                let waits = self.counted(&THREAD_WAITS, &filter, notes)?;
                let thread = self.threads(&[*id], true, notes)?.into_iter().next();
                Content::Thread(waits, Box::new(thread))
            }
            None => match (ask.view, ask.view.tally()) {
                (View::Statements, _) => Content::Counted(self.statements(notes)?),
                (_, Some(tally)) => Content::Counted(self.counted(tally, "", notes)?),
                (View::Locks, None) => Content::Locks(self.locks(notes)?),
                (_, None) => Content::Threads(self.threads(&[], false, notes)?),
            },
        })
    }

    /// Returns rows of a table; notes what cannot be read.
    fn rows(
        &mut self,
        table: &str,
        columns: &[&str],
        filter: &str,
        notes: &mut Vec<String>,
    ) -> Result<Vec<Row>, Error> {
        noted(table, self.source.rows(table, columns, filter), notes)
    }

    fn counted(
        &mut self,
        tally: &Tally,
        filter: &str,
        notes: &mut Vec<String>,
    ) -> Result<Vec<Counted>, Error> {
        let columns: Vec<&str> = [tally.keys, tally.counters, tally.gauges].concat();
        let (keys, counters) = (tally.keys.len(), tally.counters.len());
        let counted = |row: &Row| Counted {
            key: (0..keys).map(|at| row.text(at)).collect(),
            // A memory counter of the built-in may be negative for a moment, after other threads have freed
            // memory.
            counters: (keys..keys + counters).map(|at| row.count(at)).collect(),
            gauges: (keys + counters..columns.len()).map(|at| row.signed(at)).collect(),
        };
        Ok(self.rows(tally.table, &columns, filter, notes)?.iter().map(counted).collect())
    }

    /// Returns threads, all or those given; idle ones with their last statement if `last_statement`.
    fn threads(
        &mut self,
        ids: &[u64],
        last_statement: bool,
        notes: &mut Vec<String>,
    ) -> Result<Vec<Thread>, Error> {
        let named = (!ids.is_empty()).then(|| {
            let list: Vec<String> = ids.iter().map(u64::to_string).collect();
            format!("`THREAD_ID` IN ({})", list.join(", "))
        });
        let which = |more: Option<&str>| match (&named, more) {
            (None, None) => String::new(),
            (Some(one), None) => format!("WHERE {one}"),
            (None, Some(one)) => format!("WHERE {one}"),
            (Some(one), Some(other)) => format!("WHERE {one} AND {other}"),
        };
        let in_progress = which(Some("`END_EVENT_ID` IS NULL"));
        let rows = self.rows("threads", &THREAD, &which(None), notes)?;
        let mut threads: Vec<Thread> = rows.iter().map(thread).collect();
        // All that it does is to read this.
        threads.retain(|thread| self.own.is_none() || thread.connection != self.own);
        let statements = if last_statement { which(None) } else { in_progress.clone() };
        let statements = self.rows("events_statements_current", &STATEMENT, &statements, notes)?;
        let waits = self.rows("events_waits_current", &WAIT, &in_progress, notes)?;
        for thread in &mut threads {
            // Of nested statements the outermost comes first.
            if let Some(row) = statements.iter().find(|row| row.number(0) == Some(thread.id)) {
                thread.statement = thread.statement.take().or_else(|| row.text(5));
                if row.number(1).is_none() {
                    (thread.statement_time, thread.examined, thread.sent) =
                        (row.number(2), row.number(3), row.number(4));
                }
            }
            if let Some(row) = waits.iter().rfind(|row| row.number(0) == Some(thread.id)) {
                thread.wait = row.text(1).filter(|name| name != "idle");
                let parts: Vec<String> = [row.text(2), row.text(3)].into_iter().flatten().collect();
                thread.object = Some(parts.join(".")).filter(|name| !name.is_empty());
            }
        }
        Ok(threads)
    }
}

const STATEMENT: [&str; 6] =
    ["THREAD_ID", "END_EVENT_ID", "TIMER_WAIT", "ROWS_EXAMINED", "ROWS_SENT", "SQL_TEXT"];
const WAIT: [&str; 4] = ["THREAD_ID", "EVENT_NAME", "OBJECT_SCHEMA", "OBJECT_NAME"];
const THREAD: [&str; 10] = [
    "THREAD_ID",
    "NAME",
    "PROCESSLIST_ID",
    "PROCESSLIST_USER",
    "PROCESSLIST_HOST",
    "PROCESSLIST_DB",
    "PROCESSLIST_COMMAND",
    "PROCESSLIST_TIME",
    "PROCESSLIST_STATE",
    "PROCESSLIST_INFO",
];

fn thread(row: &Row) -> Thread {
    let account = row.text(3).map(|user| row.text(4).map(|host| format!("{user}@{host}")).unwrap_or(user));
    Thread {
        id: row.count(0),
        name: row.text(1).unwrap_or_default(),
        connection: row.number(2).filter(|id| *id > 0),
        account,
        schema: row.text(5),
        command: row.text(6),
        seconds: row.number(7),
        state: row.text(8).filter(|state| !state.is_empty()),
        statement: row.text(9),
        ..Thread::default()
    }
}

/// Returns whether the Performance Schema is off. The endpoint exists only where tare runs.
fn is_off(source: &mut Source) -> Result<bool, Error> {
    if source.kind() == Kind::Tare {
        return Ok(false);
    }
    let rows = source.ask("SELECT @@performance_schema")?;
    Ok(rows.first().and_then(|row| row.number(0)) == Some(0))
}

/// Returns whether executions of prepared statements count for digests: with tare they do, unless that is
/// switched off.
fn have_digests(source: &mut Source) -> Result<bool, Error> {
    if source.kind() != Kind::Tare {
        return Ok(false);
    }
    Ok(source.status("prepared_digests")?.as_deref() == Some("ON"))
}

/// Describes the server's version and the provider of its Performance Schema.
fn describe(source: &mut Source) -> Result<String, Error> {
    if source.kind() != Kind::Tare {
        let name = if source.kind() == Kind::MySql { "MySQL" } else { "MariaDB" };
        return Ok(format!("{name} {}, without tare", short_version(source.version())));
    }
    let tare = source.status("version")?.unwrap_or_default();
    let server = source.status("server_version")?.unwrap_or_default();
    let name = if server.contains("MariaDB") { "MariaDB" } else { "MySQL" };
    Ok(format!("{name} {}, tare {tare}", short_version(&server)))
}

/// Shortens `10.11.19-MariaDB-0+deb12u1` to `10.11.19`.
fn short_version(version: &str) -> &str {
    version.split('-').next().unwrap_or_default()
}

/// Returns a condition on two columns, the first of which may be NULL.
fn both(first: &str, value: Option<&str>, second: &str, other: &str) -> String {
    let first =
        value.map_or_else(|| format!("`{first}` IS NULL"), |it| format!("`{first}` = {}", literal(it)));
    format!("{first} AND `{second}` = {}", literal(other))
}

/// Returns the rows of a table; notes why they cannot be read.
fn noted(table: &str, rows: Result<Vec<Row>, Error>, notes: &mut Vec<String>) -> Result<Vec<Row>, Error> {
    match rows {
        Ok(_) | Err(Error::Gone { .. }) => return rows,
        Err(Error::Absent { .. }) => notes.push(format!("Not there: this server has no table {table}.")),
        Err(error) => notes.push(format!("Not there: {table}: {error}")),
    }
    Ok(vec![])
}

fn one_of(column: &str, values: &[&str]) -> String {
    format!("WHERE `{column}` IN ({})", literals(values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_within_their_quotes() {
        assert_eq!(both("A", None, "B", r"x'\y"), r"`A` IS NULL AND `B` = 'x''\\y'");
        assert_eq!(one_of("D", &["a", "b"]), "WHERE `D` IN ('a', 'b')");
        assert_eq!(short_version("10.11.19-MariaDB-0+deb12u1"), "10.11.19");
    }
}
