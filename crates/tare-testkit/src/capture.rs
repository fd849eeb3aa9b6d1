//! Passes all scripts over a server and notes every figure they leave in its tables.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;

use crate::difference::Misnamed;
use crate::figure::Capture;
use crate::history::{Clocks, Events, KINDS};
use crate::schema::{Row, Schema};
use crate::script::Script;
use crate::server::Server;
use crate::session::Session;
use crate::{Failure, Result};

/// Whose rows of a table count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Those of the script's connections, each by itself.
    Thread,
    /// Those whose column names the script's schema.
    Schema(&'static str),
    /// Those whose file lies in the script's schema.
    Files,
    /// Those of sockets that came with the script's connections, together.
    Sockets,
    /// Those of these names, whoever's: nobody but the script does such a thing.
    Names(&'static [&'static str]),
    /// Those of the script's users.
    Users,
    /// Those of clients' hosts.
    Hosts,
}

/// A table whose numbers a script changes.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// The table.
    pub table: &'static str,
    /// Which rows.
    pub scope: Scope,
    /// What tells rows apart.
    pub key: &'static [&'static str],
    /// True when the reference must give the same every time; else what it does not repeat is only listed.
    pub strict: bool,
}

const fn counted(table: &'static str, scope: Scope, key: &'static [&'static str], strict: bool) -> Counted {
    Counted { table, scope, key, strict }
}

const NAME: &[&str] = &["EVENT_NAME"];

const ACCOUNT: &[&str] = &["USER", "HOST", "EVENT_NAME"];
const USER: &[&str] = &["USER", "EVENT_NAME"];
const HOST: &[&str] = &["HOST", "EVENT_NAME"];

/// What is compared as "after less before". Columns that hold times are left out ([`is_counted`]).
pub const COUNTED: &[Counted] = &[
    counted("events_statements_summary_by_thread_by_event_name", Scope::Thread, NAME, true),
    counted("events_stages_summary_by_thread_by_event_name", Scope::Thread, NAME, true),
    counted("events_transactions_summary_by_thread_by_event_name", Scope::Thread, NAME, true),
    counted("events_waits_summary_by_thread_by_event_name", Scope::Thread, NAME, false),
    counted("memory_summary_by_thread_by_event_name", Scope::Thread, NAME, false),
    counted("accounts", Scope::Users, &["USER", "HOST"], true),
    counted("users", Scope::Users, &["USER"], true),
    counted("hosts", Scope::Hosts, &["HOST"], true),
    counted("events_statements_summary_by_account_by_event_name", Scope::Users, ACCOUNT, true),
    counted("events_statements_summary_by_user_by_event_name", Scope::Users, USER, true),
    counted(
        "events_statements_summary_by_host_by_event_name",
        Scope::Names(&["statement/sp/", "statement/scheduler/"]),
        HOST,
        true,
    ),
    counted("events_stages_summary_by_account_by_event_name", Scope::Users, ACCOUNT, true),
    counted("events_stages_summary_by_user_by_event_name", Scope::Users, USER, true),
    counted(
        "events_stages_summary_by_host_by_event_name",
        Scope::Names(&["stage/sql/User sleep", "stage/sql/Rolling back"]),
        HOST,
        true,
    ),
    counted("events_transactions_summary_by_account_by_event_name", Scope::Users, ACCOUNT, true),
    counted("events_transactions_summary_by_user_by_event_name", Scope::Users, USER, true),
    counted("events_waits_summary_by_account_by_event_name", Scope::Users, ACCOUNT, false),
    counted("events_waits_summary_by_user_by_event_name", Scope::Users, USER, false),
    counted("events_waits_summary_by_host_by_event_name", Scope::Names(&["wait/io/file/csv/"]), HOST, false),
    counted("memory_summary_by_account_by_event_name", Scope::Users, ACCOUNT, false),
    counted("memory_summary_by_user_by_event_name", Scope::Users, USER, false),
    counted(
        "memory_summary_by_host_by_event_name",
        Scope::Names(&["memory/sql/user_var_entry::value"]),
        HOST,
        false,
    ),
    counted(
        "table_io_waits_summary_by_table",
        Scope::Schema("OBJECT_SCHEMA"),
        &["OBJECT_TYPE", "OBJECT_SCHEMA", "OBJECT_NAME"],
        true,
    ),
    counted(
        "table_io_waits_summary_by_index_usage",
        Scope::Schema("OBJECT_SCHEMA"),
        &["OBJECT_TYPE", "OBJECT_SCHEMA", "OBJECT_NAME", "INDEX_NAME"],
        true,
    ),
    counted(
        "table_lock_waits_summary_by_table",
        Scope::Schema("OBJECT_SCHEMA"),
        &["OBJECT_TYPE", "OBJECT_SCHEMA", "OBJECT_NAME"],
        true,
    ),
    counted(
        "objects_summary_global_by_type",
        Scope::Schema("OBJECT_SCHEMA"),
        &["OBJECT_TYPE", "OBJECT_SCHEMA", "OBJECT_NAME"],
        true,
    ),
    counted(
        "events_statements_summary_by_digest",
        Scope::Schema("SCHEMA_NAME"),
        &["SCHEMA_NAME", "DIGEST"],
        true,
    ),
    counted(
        "events_statements_summary_by_program",
        Scope::Schema("OBJECT_SCHEMA"),
        &["OBJECT_TYPE", "OBJECT_SCHEMA", "OBJECT_NAME"],
        true,
    ),
    counted("file_instances", Scope::Files, &["FILE_NAME", "EVENT_NAME"], false),
    counted("file_summary_by_instance", Scope::Files, &["FILE_NAME", "EVENT_NAME"], false),
    counted(
        "file_summary_by_event_name",
        Scope::Names(&["wait/io/file/csv/", "wait/io/file/sql/"]),
        NAME,
        false,
    ),
    counted("socket_summary_by_instance", Scope::Sockets, NAME, false),
    counted(
        "events_waits_summary_by_instance",
        Scope::Names(&["wait/io/file/csv/", "wait/io/file/myisam/"]),
        NAME,
        false,
    ),
    counted(
        "events_statements_summary_global_by_event_name",
        Scope::Names(&["statement/sp/", "statement/scheduler/"]),
        NAME,
        true,
    ),
];

/// Tables compared row by row as they stand right after start-up: key columns, then what is compared.
pub const STANDING: &[(&str, &[&str], &[&str])] = &[
    ("setup_instruments", &["NAME"], &["ENABLED", "TIMED"]),
    ("setup_consumers", &["NAME"], &["ENABLED"]),
    ("setup_actors", &["HOST", "USER", "ROLE"], &["ENABLED", "HISTORY"]),
    ("setup_objects", &["OBJECT_TYPE", "OBJECT_SCHEMA", "OBJECT_NAME"], &["ENABLED", "TIMED"]),
    ("performance_timers", &["TIMER_NAME"], &[]),
    ("setup_timers", &["NAME"], &["TIMER_NAME"]),
    ("threads", &["NAME", "TYPE"], &["INSTRUMENTED", "HISTORY", "ROLE"]),
];

/// What a connection has when its script is over: the table, what tells rows apart, and what of the rest is compared. Rows
/// that are alike are compared together.
pub const HELD: &[(&str, &[&str], &[&str])] = &[
    (
        "metadata_locks",
        &["OBJECT_TYPE", "OBJECT_SCHEMA", "OBJECT_NAME"],
        &["LOCK_TYPE", "LOCK_DURATION", "LOCK_STATUS"],
    ),
    ("table_handles", &["OBJECT_TYPE", "OBJECT_SCHEMA", "OBJECT_NAME"], &["INTERNAL_LOCK", "EXTERNAL_LOCK"]),
    (
        "prepared_statements_instances",
        &["STATEMENT_NAME", "SQL_TEXT"],
        &[
            "STATEMENT_ID",
            "OWNER_OBJECT_TYPE",
            "OWNER_OBJECT_SCHEMA",
            "OWNER_OBJECT_NAME",
            "COUNT_REPREPARE",
            "COUNT_EXECUTE",
            "SUM_ERRORS",
            "SUM_WARNINGS",
            "SUM_ROWS_AFFECTED",
            "SUM_ROWS_SENT",
            "SUM_ROWS_EXAMINED",
            "SUM_CREATED_TMP_DISK_TABLES",
            "SUM_CREATED_TMP_TABLES",
            "SUM_SELECT_FULL_JOIN",
            "SUM_SELECT_FULL_RANGE_JOIN",
            "SUM_SELECT_RANGE",
            "SUM_SELECT_RANGE_CHECK",
            "SUM_SELECT_SCAN",
            "SUM_SORT_MERGE_PASSES",
            "SUM_SORT_RANGE",
            "SUM_SORT_ROWS",
            "SUM_SORT_SCAN",
            "SUM_NO_INDEX_USED",
            "SUM_NO_GOOD_INDEX_USED",
        ],
    ),
];

/// Columns of `threads` that a script's connection shows alike everywhere.
const THREAD_COLUMNS: &[&str] = &[
    "NAME",
    "TYPE",
    "PROCESSLIST_USER",
    "PROCESSLIST_HOST",
    "PROCESSLIST_DB",
    "PROCESSLIST_COMMAND",
    "PROCESSLIST_STATE",
    "PROCESSLIST_INFO",
    "ROLE",
    "INSTRUMENTED",
    "HISTORY",
    "CONNECTION_TYPE",
];

/// Columns of events that are no property of what happened but of when and where in memory it did.
const INCIDENTAL: &[&str] = &[
    "THREAD_ID",
    "EVENT_ID",
    "END_EVENT_ID",
    "EVENT_NAME",
    "TIMER_START",
    "TIMER_END",
    "TIMER_WAIT",
    "LOCK_TIME",
    "OBJECT_INSTANCE_BEGIN",
    "NESTING_EVENT_ID",
];

/// Whether a column of a summary holds a number that can repeat.
fn is_counted(column: &str) -> bool {
    let is_time = column.contains("TIMER")
        || column.ends_with("_STATEMENTS_WAIT")
        || column.ends_with("LOCK_TIME")
        || column.ends_with("_SEEN");
    !is_time && column != "OBJECT_INSTANCE_BEGIN" && column != "THREAD_ID"
}

/// True for the tables whose figures the reference must repeat.
pub fn is_strict(table: &str) -> bool {
    let waits = table.starts_with("events_waits");
    COUNTED.iter().find(|c| c.table == table).map_or(!waits, |c| c.strict)
}

/// One pass: a server that has just started, the scripts, and where their files are.
#[derive(Debug)]
pub struct Pass<'a> {
    /// A fresh server with everything on.
    pub server: &'a Server,
    /// In order.
    pub scripts: &'a [Script],
    /// Whether times of all kinds of events can be compared.
    pub clocks: Clocks,
    /// Events this server is known to show under a wrong name.
    pub misnamed: &'a [Misnamed],
}

impl Pass<'_> {
    /// Runs every script and notes the figures.
    ///
    /// # Errors
    /// When a script or a query fails.
    pub fn capture(&self) -> Result<Capture> {
        let mut capture = Capture::default();
        let mut schema = self.server.schema()?;
        copy_data(&self.server.data())?;
        self.standing(&mut schema, &mut capture)?;
        let names = names(&mut schema)?;
        for script in self.scripts {
            self.script(script, &mut schema, &names, &mut capture)?;
        }
        Ok(capture)
    }

    fn standing(&self, schema: &mut Schema, capture: &mut Capture) -> Result<()> {
        for (table, key, columns) in STANDING {
            let mut rows: Vec<(String, Row)> =
                schema.rows(table)?.into_iter().map(|row| (join(&row, key), row)).collect();
            rows.sort_by(|a, b| a.0.cmp(&b.0));
            let mut seen: HashMap<String, usize> = HashMap::new();
            for (key, row) in rows {
                *seen.entry(key.clone()).or_default() += 1;
                for column in *columns {
                    capture.put(table, "-", key.clone(), column, shown(&row, column));
                }
            }
            for (key, count) in seen {
                capture.put(table, "-", key, "count", count.to_string());
            }
        }
        Ok(())
    }

    fn script(
        &self,
        script: &Script,
        schema: &mut Schema,
        names: &HashSet<String>,
        capture: &mut Capture,
    ) -> Result<()> {
        let place = format!("o_{}", script.name);
        let mut admin = self.server.client()?;
        admin.query_drop(format!("DROP DATABASE IF EXISTS {place}"))?;
        admin.query_drop(format!("CREATE DATABASE {place}"))?;
        for user in script.users.values() {
            admin.query_drop(format!("CREATE USER IF NOT EXISTS {user}@localhost"))?;
            admin.query_drop(format!("GRANT ALL ON *.* TO {user}@localhost"))?;
        }
        let old_sockets = sockets(schema)?;
        let mut session = Session::open(self.server, script, &place)?;
        let mut run = Run {
            script: &script.name,
            place,
            users: script.users.values().cloned().collect(),
            ids: session.ids(),
            threads: Vec::new(),
            old_sockets,
            misnamed: self.misnamed,
            data: self.server.data().display().to_string(),
            temporary: self.server.temporary().display().to_string(),
            elapsed: Duration::ZERO,
        };
        for id in session.ids() {
            let thread = schema.thread_of(id)?;
            run.threads.push(
                thread.ok_or_else(|| Failure::Setup(format!("connection {id} is in no row of threads")))?,
            );
        }
        run.settle(schema)?;
        let before = run.snapshot(schema)?;
        let begin = Instant::now();
        session.run(script)?;
        wait_for_end(schema, &session.closed())?;
        run.settle(schema)?;
        run.elapsed = begin.elapsed();
        let after = run.snapshot(schema)?;
        run.note_counts(&before, &after, capture);
        run.note_threads(schema, capture)?;
        run.note_attributes(schema, capture)?;
        run.note_held(schema, capture)?;
        for (at, thread) in run.threads.iter().enumerate() {
            run.note_events(schema, at, *thread, (names, self.clocks, &after), capture)?;
        }
        Ok(())
    }
}

/// One script on its way.
struct Run<'a> {
    script: &'a str,
    place: String,
    users: HashSet<String>,
    ids: Vec<u64>,
    threads: Vec<u64>,
    old_sockets: HashSet<String>,
    misnamed: &'a [Misnamed],
    data: String,
    temporary: String,
    elapsed: Duration,
}

/// Numbers and texts by (table, script, key, column).
type Snapshot = BTreeMap<(&'static str, String, String, String), String>;

impl Run<'_> {
    fn name(&self, at: usize) -> String {
        format!("{}.{}", self.script, at + 1)
    }

    /// Waits until the connections have gone back to waiting for their client.
    fn settle(&self, schema: &mut Schema) -> Result<()> {
        let mut last = None;
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(10));
            let mut now = Vec::new();
            for thread in &self.threads {
                let filter = [("THREAD_ID", thread.to_string())];
                let filter = [(filter[0].0, filter[0].1.as_str())];
                let rows = schema.rows_where("events_waits_summary_by_thread_by_event_name", &filter)?;
                now.push(rows.iter().filter_map(|row| row.number("COUNT_STAR")).sum::<u64>());
            }
            let now = Some(now);
            if now == last {
                return Ok(());
            }
            last = now;
        }
        Err(Failure::Setup(format!("{}: the connection never comes to rest", self.script)))
    }

    fn snapshot(&self, schema: &mut Schema) -> Result<Snapshot> {
        let mut snapshot = Snapshot::new();
        for counted in COUNTED {
            if counted.scope != Scope::Thread {
                for row in schema.rows(counted.table)?.iter().filter(|row| self.is_ours(counted.scope, row)) {
                    self.note_row(counted, self.script.to_owned(), row, &mut snapshot);
                }
                continue;
            }
            for (at, thread) in self.threads.iter().enumerate() {
                for row in schema.rows_where(counted.table, &[("THREAD_ID", &thread.to_string())])? {
                    self.note_row(counted, self.name(at), &row, &mut snapshot);
                }
            }
        }
        Ok(snapshot)
    }

    fn is_ours(&self, scope: Scope, row: &Row) -> bool {
        match scope {
            Scope::Thread => true,
            Scope::Names(names) => names.iter().any(|name| row.text("EVENT_NAME").starts_with(name)),
            Scope::Schema(column) => row.text(column) == self.place,
            Scope::Files => row.text("FILE_NAME").contains(&format!("/{}/", self.place)),
            Scope::Users => self.users.contains(row.text("USER")),
            Scope::Hosts => row.get("HOST").is_some(),
            Scope::Sockets => !self.old_sockets.contains(row.text("OBJECT_INSTANCE_BEGIN")),
        }
    }

    fn note_row(&self, counted: &Counted, script: String, row: &Row, snapshot: &mut Snapshot) {
        let key = self.portable(&join(row, counted.key));
        for column in row.columns().iter().filter(|c| is_counted(c) && !counted.key.contains(&c.as_str())) {
            let cell = (counted.table, script.clone(), key.clone(), column.clone());
            let value = shown(row, column);
            let sum = match (snapshot.get(&cell).map(|v| v.parse::<i128>()), value.parse::<i128>()) {
                (Some(Ok(old)), Ok(new)) => (old + new).to_string(),
                _ => value,
            };
            snapshot.insert(cell, sum);
        }
    }

    /// Text without the place of this server's data directory, and without the process and connection ids in the
    /// names of the server's own intermediate files.
    fn portable(&self, text: &str) -> String {
        let text = text.replace(&self.data, "<data>").replace(&self.temporary, "<tmp>");
        let Some(at) = text.find("/#sql-") else { return text };
        let (before, name) = text.split_at(at + "/#sql-".len());
        let Some((use_, ids)) = name.split_once('-') else { return text };
        let rest = ids.trim_start_matches(|c: char| c.is_ascii_hexdigit() || c == '-');
        format!("{before}{use_}-<ids>{rest}")
    }

    fn note_counts(&self, before: &Snapshot, after: &Snapshot, capture: &mut Capture) {
        for (cell, now) in after {
            let (table, script, key, column) = cell;
            let was = before.get(cell).map_or("0", String::as_str);
            let value = match (was.parse::<i128>(), now.parse::<i128>()) {
                (Ok(was), Ok(now)) => (now - was).to_string(),
                _ => now.clone(),
            };
            capture.put(table, script, key.clone(), column, value);
        }
    }

    fn note_threads(&self, schema: &mut Schema, capture: &mut Capture) -> Result<()> {
        for (at, thread) in self.threads.iter().enumerate() {
            for row in schema.rows_where("threads", &[("THREAD_ID", &thread.to_string())])? {
                for column in THREAD_COLUMNS {
                    capture.put("threads", &self.name(at), "own", column, shown(&row, column));
                }
            }
        }
        Ok(())
    }

    /// What the clients said of themselves, in whatever order they did.
    fn note_attributes(&self, schema: &mut Schema, capture: &mut Capture) -> Result<()> {
        const TABLE: &str = "session_connect_attrs";
        for (at, id) in self.ids.iter().enumerate() {
            let rows = schema.rows_where(TABLE, &[("PROCESSLIST_ID", &id.to_string())])?;
            let mut positions: Vec<u64> =
                rows.iter().filter_map(|row| row.number("ORDINAL_POSITION")).collect();
            positions.sort_unstable();
            let positions = format!("{positions:?}");
            capture.put(TABLE, &self.name(at), "all", "ORDINAL_POSITION", positions);
            for row in &rows {
                let value = shown(row, "ATTR_VALUE");
                capture.put(TABLE, &self.name(at), row.text("ATTR_NAME"), "ATTR_VALUE", value);
            }
        }
        Ok(())
    }

    fn note_held(&self, schema: &mut Schema, capture: &mut Capture) -> Result<()> {
        for (at, thread) in self.threads.iter().enumerate() {
            for (table, key, columns) in HELD {
                let rows = schema.rows_where(table, &[("OWNER_THREAD_ID", &thread.to_string())])?;
                let mut alike: BTreeMap<String, Vec<String>> = BTreeMap::new();
                for row in &rows {
                    alike.entry(join(row, key)).or_default().push(join(row, columns));
                }
                for (key, mut rows) in alike {
                    rows.sort();
                    capture.put(table, &self.name(at), key, "rows", rows.join(", "));
                }
            }
        }
        Ok(())
    }

    fn note_events(
        &self,
        schema: &mut Schema,
        at: usize,
        thread: u64,
        (names, clocks, after): (&HashSet<String>, Clocks, &Snapshot),
        capture: &mut Capture,
    ) -> Result<()> {
        let mut histories = Vec::new();
        for (table, kind) in KINDS {
            let mut rows = schema.long_history(table, thread)?;
            for entry in self.misnamed {
                *capture.misnamed.entry(entry.name.clone()).or_default() += entry.correct(table, &mut rows);
            }
            histories.push((table, kind, rows));
        }
        let rows = histories.iter().flat_map(|(_, kind, rows)| rows.iter().map(|row| (*kind, row))).collect();
        let events = Events { rows, names, clocks };
        let found = events.violations();
        capture.violations.extend(found.into_iter().map(|v| format!("{}: {v}", self.name(at))));
        self.check_sums(at, &histories[1].2, self.elapsed, capture);
        for (table, _, rows) in &histories {
            self.check_kept(at, table, rows, after, capture);
        }
        let mut called = HashMap::new();
        for (_, kind, rows) in &histories {
            ordinals(kind, rows, &mut called);
        }
        for (table, _, rows) in &histories {
            let table = format!("events_{table}_history_long");
            self.note_history(&table, &self.name(at), rows, &called, capture);
        }
        self.check_short_histories(schema, thread, &histories, capture)
    }

    fn note_history(
        &self,
        table: &str,
        script: &str,
        rows: &[Row],
        called: &HashMap<u64, String>,
        capture: &mut Capture,
    ) {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for row in rows {
            let name = row.text("EVENT_NAME");
            let count = counts.entry(name).or_default();
            *count += 1;
            let key = format!("{name}#{count}");
            let parent = row.number("NESTING_EVENT_ID");
            let parent = parent.map_or("NULL", |id| called.get(&id).map_or("gone", String::as_str));
            let mut cells = vec![("parent", parent.to_owned())];
            let telling = row.cells().filter(|(column, _)| !INCIDENTAL.contains(column));
            cells.extend(telling.map(|(column, value)| (column, self.portable(value.unwrap_or("NULL")))));
            capture.put_row(table, script, key, &cells);
        }
        for (name, count) in counts {
            capture.put(table, script, name, "rows", count.to_string());
        }
        let order = rows.iter().map(|row| row.text("EVENT_NAME").to_owned()).collect();
        capture.orders.insert((table.to_owned(), script.to_owned()), order);
    }

    /// The short history holds the newest of what the long one holds.
    fn check_short_histories(
        &self,
        schema: &mut Schema,
        thread: u64,
        long: &[(&str, &str, Vec<Row>)],
        capture: &mut Capture,
    ) -> Result<()> {
        for (table, _, long) in long {
            let short = schema
                .rows_where(&format!("events_{table}_history"), &[("THREAD_ID", &thread.to_string())])?;
            let short: BTreeSet<u64> = short.iter().filter_map(|row| row.number("EVENT_ID")).collect();
            let newest: Vec<u64> = newest_ended(long, short.len());
            if !short.iter().all(|id| newest.contains(id)) {
                capture.violations.push(format!(
                    "{}: events_{table}_history holds {short:?}, the newest are {newest:?}",
                    self.script
                ));
            }
        }
        Ok(())
    }

    /// What the summary counts is in the history, which is long enough for a script: nothing seen is lost.
    fn check_kept(&self, at: usize, events: &str, rows: &[Row], after: &Snapshot, capture: &mut Capture) {
        let summary = format!("events_{events}_summary_by_thread_by_event_name");
        let mut kept: HashMap<&str, u64> = HashMap::new();
        for row in rows.iter().filter(|row| row.get("END_EVENT_ID").is_some()) {
            *kept.entry(row.text("EVENT_NAME")).or_default() += 1;
        }
        for ((table, script, name, column), counted) in after {
            // One event of table I/O may stand for many rows, each of which is counted; and the built-in counts
            // deletions, renames and closes of files that it does not tell of.
            let apart = name == "wait/io/table/sql/handler" || name.starts_with("wait/io/file/");
            if *table != summary || *script != self.name(at) || column != "COUNT_STAR" || apart {
                continue;
            }
            let kept = kept.get(name.as_str()).copied().unwrap_or_default();
            if counted.parse() != Ok(kept) {
                let text =
                    format!("{}: {counted} of {name} are counted, {kept} in the history", self.name(at));
                capture.violations.push(text);
            }
        }
    }

    /// A connection cannot have executed for longer than its script took.
    fn check_sums(&self, at: usize, statements: &[Row], elapsed: Duration, capture: &mut Capture) {
        let outer = statements.iter().filter(|row| row.number("NESTING_EVENT_LEVEL") == Some(0));
        let sum: u64 = outer.filter_map(|row| row.number("TIMER_WAIT")).sum();
        // The server's clock and the test's may differ in rate by what NTP allows, and far less than this.
        let bound = elapsed.as_nanos() * 1010;
        if u128::from(sum) > bound {
            capture.violations.push(format!("{}: {sum} ps of statements in {elapsed:?}", self.name(at)));
        }
    }
}

/// Event ids of those that ended last.
fn newest_ended(rows: &[Row], count: usize) -> Vec<u64> {
    let mut ended: Vec<(u64, u64)> =
        rows.iter().filter_map(|row| Some((row.number("END_EVENT_ID")?, row.number("EVENT_ID")?))).collect();
    ended.sort_unstable();
    ended.into_iter().rev().take(count).map(|(_, id)| id).collect()
}

/// Gives each event a name that does not depend on ids: its kind, its instrument and its position among those.
fn ordinals(kind: &str, rows: &[Row], called: &mut HashMap<u64, String>) {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for row in rows {
        let name = row.text("EVENT_NAME");
        let count = counts.entry(name).or_default();
        *count += 1;
        if let Some(id) = row.number("EVENT_ID") {
            called.insert(id, format!("{kind} {name}#{count}"));
        }
    }
}

/// Names of all instruments.
///
/// # Errors
/// When the table cannot be read.
pub fn names(schema: &mut Schema) -> Result<HashSet<String>> {
    Ok(schema.rows("setup_instruments")?.iter().map(|row| row.text("NAME").to_owned()).collect())
}

/// Waits until connections that were closed are counted as such: their threads are gone.
fn wait_for_end(schema: &mut Schema, closed: &[u64]) -> Result<()> {
    let begin = Instant::now();
    for id in closed {
        while schema.thread_of(*id)?.is_some() {
            if begin.elapsed() > Duration::from_secs(20) {
                return Err(Failure::Setup(format!("connection {id} never ends")));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    Ok(())
}

fn sockets(schema: &mut Schema) -> Result<HashSet<String>> {
    let rows = schema.rows("socket_summary_by_instance")?;
    Ok(rows.iter().map(|row| row.text("OBJECT_INSTANCE_BEGIN").to_owned()).collect())
}

fn join(row: &Row, columns: &[&str]) -> String {
    columns.iter().map(|column| shown(row, column)).collect::<Vec<_>>().join(".")
}

fn shown(row: &Row, column: &str) -> String {
    row.get(column).unwrap_or("NULL").to_owned()
}

/// Files for LOAD DATA INFILE lie in the data directory, where every server calls them alike.
fn copy_data(data: &Path) -> Result<()> {
    let folder = crate::script::folder().join("data");
    let entries = std::fs::read_dir(&folder).map_err(Failure::io(folder.display().to_string()))?;
    for entry in entries.filter_map(std::result::Result::ok) {
        let to = data.join(entry.file_name());
        std::fs::copy(entry.path(), &to).map_err(Failure::io(format!("copy {}", to.display())))?;
    }
    Ok(())
}
