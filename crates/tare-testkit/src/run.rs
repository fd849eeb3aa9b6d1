//! The run of one script on a server, and what it leaves in the tables.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;

use crate::declaration::{ComparedRows, ComparedTables, ComparisonWay, Ways};
use crate::difference::Misnamed;
use crate::figure::Capture;
use crate::history::{ClockSources, Events, KINDS, newest_ended, ordinals, statistic_contradictions};
use crate::schema::{SchemaConnection, SchemaRow};
use crate::script::Script;
use crate::server::{LIMIT, Server};
use crate::session::ScriptConnections;
use crate::{Failure, Result};

/// A server and how it is compared, which is the same for all scripts.
#[derive(Debug)]
pub struct ComparedServer<'a> {
    pub(crate) server: &'a Server,
    pub(crate) clocks: ClockSources,
    pub(crate) misnamed: &'a [Misnamed],
    /// How columns are compared.
    pub(crate) ways: Ways,
    /// Every table, with every way it is compared.
    pub(crate) looked_at: Vec<(String, &'a ComparedTables)>,
    /// Names of all instruments.
    pub(crate) names: HashSet<String>,
    /// Columns of every table.
    pub(crate) columns: BTreeMap<String, Vec<String>>,
}

impl ComparedServer<'_> {
    /// Runs a script and captures the figures it leaves, which `schema` reads.
    ///
    /// # Errors
    /// When a statement of the script ends differently than it must, or a query fails.
    pub fn script(
        &self,
        script: &Script,
        schema: &mut SchemaConnection,
        capture: &mut Capture,
    ) -> Result<()> {
        let place = format!("o_{}", script.name);
        self.wait_until_alone(schema)?;
        let mut admin = self.server.client()?;
        admin.query_drop(format!("DROP DATABASE IF EXISTS {place}"))?;
        admin.query_drop(format!("CREATE DATABASE {place}"))?;
        for user in script.users.values() {
            admin.query_drop(format!("CREATE USER IF NOT EXISTS {user}@localhost"))?;
            admin.query_drop(format!("GRANT ALL ON *.* TO {user}@localhost"))?;
        }
        let old_sockets = sockets(schema)?;
        let mut session = ScriptConnections::open(self.server, script, &place)?;
        let mut run = ScriptRun {
            watch: self,
            script: &script.name,
            place,
            users: script.users.values().cloned().collect(),
            ids: session.ids(),
            threads: Vec::new(),
            old_sockets,
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
        for (at, ending) in session.run(script)?.into_iter().enumerate() {
            capture.put("endings", &script.name, format!("{}", at + 1), "ENDING", ending);
        }
        wait_for_end(schema, &session.closed())?;
        run.settle(schema)?;
        run.elapsed = begin.elapsed();
        let after = run.snapshot(schema)?;
        run.note_counts(&before, &after, capture);
        run.note_held(schema, capture)?;
        // The built-in's times are out of order in several tables; see differences.toml.
        if self.clocks == ClockSources::One {
            run.check_statistics(schema, capture)?;
        }
        for (at, thread) in run.threads.iter().enumerate() {
            run.note_events(schema, at, *thread, &after, capture)?;
        }
        drop(session);
        // Until then nobody else can roll back the branches they prepared.
        wait_for_end(schema, &run.ids)
    }

    /// Waits until all other connections have ended, because their end is part of no script.
    fn wait_until_alone(&self, schema: &mut SchemaConnection) -> Result<()> {
        let own = usize::from(self.server.serves_tables());
        wait_while(|| {
            let there = schema.rows_where("threads", &[("NAME", "thread/sql/one_connection")])?.len();
            Ok((there > own).then(|| "connections of before never end".into()))
        })
    }

    /// Removes what a script has left behind.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn clear(&self, script: &Script, schema: &mut SchemaConnection) -> Result<()> {
        let mut admin = self.server.client()?;
        // Sessions that still use what is dropped here are about to end.
        admin.query_drop("SET SESSION lock_wait_timeout = 30")?;
        let branches: Vec<(i64, usize, usize, Vec<u8>)> = admin.query("XA RECOVER")?;
        for (_, length, _, data) in branches {
            let (id, branch) = data.split_at(length.min(data.len()));
            let [id, branch] = [id, branch].map(String::from_utf8_lossy);
            // It may report that the branch was rolled back already, which is fine.
            let _ = admin.query_drop(format!("XA ROLLBACK '{id}', '{branch}'"));
        }
        for place in ["", "_b"] {
            admin.query_drop(format!("DROP DATABASE IF EXISTS o_{}{place}", script.name))?;
        }
        // The next script's users start from zero.
        let reset = ["events_statements_summary_by_digest", "accounts", "users"];
        reset.into_iter().try_for_each(|table| schema.truncate(table))
    }
}

/// A script in progress.
struct ScriptRun<'a> {
    watch: &'a ComparedServer<'a>,
    script: &'a str,
    place: String,
    users: HashSet<String>,
    ids: Vec<u64>,
    threads: Vec<u64>,
    old_sockets: HashSet<String>,
    data: String,
    temporary: String,
    elapsed: Duration,
}

/// Values by (table, script, key) and column.
type CapturedValues = BTreeMap<(String, String, String), BTreeMap<String, String>>;

/// Most digits in the number of a script's row.
const MOST_DIGITS_OF_A_ROW: usize = 9;

/// The column with the number of merged rows.
const COUNT: &str = "count";

/// A table and one way to compare it.
pub(crate) struct TableComparison<'a> {
    pub(crate) table: &'a str,
    pub(crate) how: &'a ComparedTables,
    pub(crate) ways: &'a Ways,
}

impl TableComparison<'_> {
    /// Returns rows by key, with the compared values. In rows with equal keys, counts are added up and other
    /// values are listed. `portable` makes a text independent of the server's place.
    pub(crate) fn fold<'r>(
        &self,
        rows: impl Iterator<Item = &'r SchemaRow>,
        portable: impl Fn(&str) -> String,
    ) -> BTreeMap<String, BTreeMap<String, String>> {
        let mut folded: BTreeMap<String, Vec<&SchemaRow>> = BTreeMap::new();
        for row in rows.filter(|row| self.how.wants(name(row))) {
            folded.entry(portable(&join(row, &self.how.key))).or_default().push(row);
        }
        let fold = |rows: Vec<&SchemaRow>| {
            let count = (!self.how.uncounted).then(|| (COUNT.to_owned(), rows.len().to_string()));
            let columns = rows[0].columns().iter().filter(|column| !self.how.key.contains(column));
            let ways = columns.filter_map(|c| Some((c, self.ways.of(self.table, c)?)));
            let compared = ways.filter(|(_, way)| *way != ComparisonWay::Otherwise);
            compared.map(|(c, way)| (c.clone(), portable(&self.alike(&rows, c, way)))).chain(count).collect()
        };
        folded.into_iter().map(|(key, rows)| (key, fold(rows))).collect()
    }

    fn alike(&self, rows: &[&SchemaRow], column: &str, way: ComparisonWay) -> String {
        if way == ComparisonWay::Some {
            let values = rows.iter().map(|row| something(row.get(column)));
            return values.max_by_key(|value| value.len()).unwrap_or(NULL).to_owned();
        }
        let numbers = rows.iter().map(|row| row.get(column)?.parse::<i128>().ok());
        if let (true, Some(sum)) = (self.how.is_counted(), numbers.sum::<Option<i128>>()) {
            return sum.to_string();
        }
        let values: BTreeSet<&str> = rows.iter().map(|row| row.get(column).unwrap_or(NULL)).collect();
        values.into_iter().collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn put(
        &self,
        rows: BTreeMap<String, BTreeMap<String, String>>,
        script: &str,
        capture: &mut Capture,
    ) {
        for (key, cells) in rows {
            capture.put_row(self.table, script, key, cells);
        }
    }
}

const NULL: &str = "NULL";

/// Returns the class of a value of which only the presence is compared.
fn something(value: Option<&str>) -> &'static str {
    match value {
        None => NULL,
        Some("" | "0" | "0000-00-00 00:00:00") => "nothing",
        Some(_) => "something",
    }
}

/// Returns a row's event or variable.
fn name(row: &SchemaRow) -> &str {
    let names = ["EVENT_NAME", "NAME", "VARIABLE_NAME"];
    names.into_iter().find_map(|column| row.get(column)).unwrap_or_default()
}

/// Returns the column that identifies a row's connection.
pub(crate) fn owner(columns: &[String]) -> Option<&'static str> {
    let owners = ["THREAD_ID", "OWNER_THREAD_ID", "PROCESSLIST_ID"];
    owners.into_iter().find(|owner| columns.iter().any(|column| column == owner))
}

impl ScriptRun<'_> {
    fn name(&self, at: usize) -> String {
        format!("{}.{}", self.script, at + 1)
    }

    /// Waits until the connections wait for their clients again.
    fn settle(&self, schema: &mut SchemaConnection) -> Result<()> {
        let mut last = None;
        let pause = Duration::from_millis(10);
        std::thread::sleep(pause);
        let rest = tare_server::poll_every(pause, LIMIT, || match self.waits(schema) {
            Ok(now) => (last.replace(now.clone()) == Some(now)).then_some(Ok(())),
            Err(error) => Some(Err(error)),
        });
        let restless = || Failure::Setup(format!("{}: the connection never comes to rest", self.script));
        rest.unwrap_or_else(|| Err(restless()))
    }

    /// Returns the number of waits of each connection so far.
    fn waits(&self, schema: &mut SchemaConnection) -> Result<Vec<u64>> {
        let of = |thread: &u64| {
            let filter = [("THREAD_ID", &*thread.to_string())];
            let rows = schema.rows_where("events_waits_summary_by_thread_by_event_name", &filter)?;
            Ok(rows.iter().filter_map(|row| row.number("COUNT_STAR")).sum())
        };
        self.threads.iter().map(of).collect()
    }

    fn snapshot(&self, schema: &mut SchemaConnection) -> Result<CapturedValues> {
        let mut snapshot = CapturedValues::new();
        for (table, how) in self.watch.looked_at.iter().filter(|(_, how)| how.is_counted()) {
            let look = TableComparison { table, how, ways: &self.watch.ways };
            let mut note = |script: &str, rows: Vec<SchemaRow>| {
                let ours = rows.iter().filter(|row| self.is_ours(how.rows, row));
                for (key, cells) in look.fold(ours, |text| self.portable(text)) {
                    snapshot.insert((table.clone(), script.to_owned(), key), cells);
                }
            };
            match how.rows {
                ComparedRows::Connections => {
                    for at in 0..self.threads.len() {
                        let (column, id) = self.owner(at, &self.watch.columns[table]);
                        note(&self.name(at), schema.rows_where(table, &[(column, &id)])?);
                    }
                }
                // A script without users has none.
                ComparedRows::Users if self.users.is_empty() => {}
                ComparedRows::Schema => {
                    let schemas = ["OBJECT_SCHEMA", "SCHEMA_NAME"];
                    let column = schemas.into_iter().find(|it| how.key.iter().any(|key| key == it));
                    note(
                        self.script,
                        schema.rows_where(table, &[(column.unwrap_or_default(), &self.place)])?,
                    );
                }
                _ => note(self.script, schema.rows(table)?),
            }
        }
        Ok(snapshot)
    }

    /// Returns the column by which a table identifies a connection, and its number there.
    fn owner(&self, at: usize, columns: &[String]) -> (&'static str, String) {
        match owner(columns) {
            Some("PROCESSLIST_ID") => ("PROCESSLIST_ID", self.ids[at].to_string()),
            column => (column.unwrap_or("THREAD_ID"), self.threads[at].to_string()),
        }
    }

    fn is_ours(&self, rows: ComparedRows, row: &SchemaRow) -> bool {
        match rows {
            ComparedRows::Files => row.text("FILE_NAME").contains(&format!("/{}/", self.place)),
            ComparedRows::Users => self.users.contains(row.text("USER")),
            ComparedRows::Hosts => row.get("HOST").is_some(),
            ComparedRows::Sockets => !self.old_sockets.contains(row.text("OBJECT_INSTANCE_BEGIN")),
            _ => true,
        }
    }

    /// Makes a text portable: without the path of this server's data directory, without process and
    /// connection ids in the names of intermediate files, and without the number of a nonexistent row, which
    /// the server prints from uninitialized memory in a warning from a trigger.
    fn portable(&self, text: &str) -> String {
        let text = text.replace(&self.data, "<data>").replace(&self.temporary, "<tmp>");
        if let Some((before, row)) = text.rsplit_once(" at row ")
            && row.len() > MOST_DIGITS_OF_A_ROW
        {
            return format!("{before} at row <any>");
        }
        let Some(at) = text.find("/#sql-") else { return text };
        let (before, name) = text.split_at(at + "/#sql-".len());
        let Some((use_, ids)) = name.split_once('-') else { return text };
        let rest = ids.trim_start_matches(|c: char| c.is_ascii_hexdigit() || c == '-');
        format!("{before}{use_}-<ids>{rest}")
    }

    fn note_counts(&self, before: &CapturedValues, after: &CapturedValues, capture: &mut Capture) {
        for (row, now) in after {
            let was = before.get(row);
            let less = |column: &String, now: &String| {
                let was = was.and_then(|was| was.get(column)).map_or(Ok(0), |was| was.parse::<i128>());
                match (was, now.parse::<i128>()) {
                    (Ok(was), Ok(now)) if column != COUNT => (now - was).to_string(),
                    _ => now.clone(),
                }
            };
            let cells = now.iter().map(|(column, now)| (column.clone(), less(column, now)));
            let (table, script, key) = row;
            capture.put_row(table, script, key.clone(), cells);
        }
    }

    /// Captures what the connections and their users have when the script is over.
    fn note_held(&self, schema: &mut SchemaConnection, capture: &mut Capture) -> Result<()> {
        for (table, how) in self.watch.looked_at.iter().filter(|(_, how)| how.rows == ComparedRows::Held) {
            let look = TableComparison { table, how, ways: &self.watch.ways };
            if owner(&self.watch.columns[table]).is_none() {
                let rows = schema.rows(table)?;
                let ours = rows.iter().filter(|row| self.is_ours(ComparedRows::Users, row));
                look.put(look.fold(ours, str::to_owned), self.script, capture);
                continue;
            }
            for at in 0..self.threads.len() {
                let (column, id) = self.owner(at, &self.watch.columns[table]);
                let rows = schema.rows_where(table, &[(column, &id)])?;
                look.put(look.fold(rows.iter(), |text| self.portable(text)), &self.name(at), capture);
            }
        }
        Ok(())
    }

    /// Checks that counts of idle connections and objects do not contradict themselves.
    fn check_statistics(&self, schema: &mut SchemaConnection, capture: &mut Capture) -> Result<()> {
        let mut check = |table: &str, rows: Vec<SchemaRow>| {
            let found = rows.iter().flat_map(statistic_contradictions);
            capture.violations.extend(found.map(|it| format!("{} {table}: {it}", self.script)));
        };
        for (table, how) in &self.watch.looked_at {
            match how.rows {
                ComparedRows::Connections => {
                    for thread in &self.threads {
                        check(table, schema.rows_where(table, &[("THREAD_ID", &thread.to_string())])?);
                    }
                }
                ComparedRows::Schema if how.key.iter().any(|key| key == "OBJECT_SCHEMA") => {
                    check(table, schema.rows_where(table, &[("OBJECT_SCHEMA", &self.place)])?);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn note_events(
        &self,
        schema: &mut SchemaConnection,
        at: usize,
        thread: u64,
        after: &CapturedValues,
        capture: &mut Capture,
    ) -> Result<()> {
        let mut histories = Vec::new();
        for (table, kind) in KINDS {
            let mut rows = schema.long_history(table, thread)?;
            for entry in self.watch.misnamed {
                *capture.misnamed.entry(entry.name.clone()).or_default() += entry.correct(table, &mut rows);
            }
            histories.push((table, kind, rows));
        }
        let rows = histories.iter().flat_map(|(_, kind, rows)| rows.iter().map(|row| (*kind, row))).collect();
        let events = Events { rows, names: &self.watch.names, clocks: self.watch.clocks };
        let found = events.violations();
        capture.violations.extend(found.into_iter().map(|v| format!("{}: {v}", self.name(at))));
        self.check_sums(at, &histories[1].2, self.elapsed, capture);
        let begins =
            histories.iter().flat_map(|(_, _, rows)| rows).filter_map(|row| row.number("TIMER_START"));
        let begin = begins.min();
        for (table, _, rows) in &histories {
            let mut found = self.missing(at, table, rows, after);
            found.extend(self.beyond_long(schema, thread, table, rows, capture)?);
            if !found.is_empty() && !self.is_flooded(schema, table, begin)? {
                capture.violations.extend(found);
            }
        }
        let mut called = HashMap::new();
        for (_, kind, rows) in &histories {
            ordinals(kind, rows, &mut called);
        }
        for (table, _, rows) in &histories {
            let table = format!("events_{table}_history_long");
            self.note_history(&table, &self.name(at), rows, &called, capture);
        }
        Ok(())
    }

    fn note_history(
        &self,
        table: &str,
        script: &str,
        rows: &[SchemaRow],
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
            let telling = row.cells().filter_map(|(column, value)| {
                let shown = match self.watch.ways.of(table, column)? {
                    ComparisonWay::Equal => self.portable(value.unwrap_or(NULL)),
                    ComparisonWay::Some => something(value).to_owned(),
                    ComparisonWay::Otherwise => return None,
                };
                Some((column, shown))
            });
            capture.put_row(table, script, key, [("parent", parent.to_owned())].into_iter().chain(telling));
        }
        for (name, count) in counts {
            capture.put(table, script, name, "rows", count.to_string());
        }
        let order = rows.iter().map(|row| row.text("EVENT_NAME").to_owned()).collect();
        capture.orders.insert((table.to_owned(), script.to_owned()), order);
    }

    /// Returns what the short history has that is not among the newest events of the long one.
    fn beyond_long(
        &self,
        schema: &mut SchemaConnection,
        thread: u64,
        events: &str,
        long: &[SchemaRow],
        capture: &mut Capture,
    ) -> Result<Vec<String>> {
        let table = format!("events_{events}_history");
        let mut short = schema.rows_where(&table, &[("THREAD_ID", &thread.to_string())])?;
        self.watch.misnamed.iter().for_each(|entry| _ = entry.correct(events, &mut short));
        let newest = newest_ended(long, short.len());
        // Times are converted anew each time they are read.
        let cells = |row: &SchemaRow| -> Vec<(String, Option<String>)> {
            let telling =
                row.cells().filter(|(c, _)| self.watch.ways.of(&table, c) != Some(ComparisonWay::Some));
            telling.map(|(column, value)| (column.to_owned(), value.map(str::to_owned))).collect()
        };
        let is_there = |row: &SchemaRow| newest.iter().any(|other| cells(row) == cells(other));
        let strange = short.iter().filter(|row| !is_there(row));
        let told = |row: &SchemaRow| {
            format!("{}: {table} holds {:?}, the long one does not", self.script, cells(row))
        };
        let strange = strange.map(told).collect();
        if !short.is_empty() {
            capture.read.insert(table);
        }
        Ok(strange)
    }

    /// Returns events that the summary counts but the history lacks, although it is long enough for a script.
    fn missing(&self, at: usize, events: &str, rows: &[SchemaRow], after: &CapturedValues) -> Vec<String> {
        let summary = format!("events_{events}_summary_by_thread_by_event_name");
        let mut kept: HashMap<&str, u64> = HashMap::new();
        for row in rows.iter().filter(|row| row.get("END_EVENT_ID").is_some()) {
            *kept.entry(row.text("EVENT_NAME")).or_default() += 1;
        }
        let mut missing = Vec::new();
        for ((table, script, name), cells) in after {
            // One event of table I/O may stand for many rows, each of which is counted; and the built-in
            // counts deletions, renames and closes of files without recording events.
            let apart = name == "wait/io/table/sql/handler" || name.starts_with("wait/io/file/");
            let Some(counted) = cells.get("COUNT_STAR") else { continue };
            if *table != summary || *script != self.name(at) || apart {
                continue;
            }
            let kept = kept.get(name.as_str()).copied().unwrap_or_default();
            if counted.parse() != Ok(kept) {
                let text =
                    format!("{}: {counted} of {name} are counted, {kept} in the history", self.name(at));
                missing.push(text);
            }
        }
        missing
    }

    /// Returns whether other threads fill the long history: while a table is altered, InnoDB's purge requests
    /// it again and again, with a million stages per second.
    fn is_flooded(&self, schema: &mut SchemaConnection, events: &str, begin: Option<u64>) -> Result<bool> {
        let rows = schema.rows(&format!("events_{events}_history_long"))?;
        let is_ours =
            |row: &SchemaRow| row.number("THREAD_ID").is_some_and(|thread| self.threads.contains(&thread));
        let since = rows.iter().filter(|row| row.number("TIMER_START") >= begin);
        let mut others: HashMap<&str, usize> = HashMap::new();
        for row in since.filter(|row| !is_ours(row)) {
            *others.entry(row.text("THREAD_ID")).or_default() += 1;
        }
        let size = format!("SELECT @@performance_schema_events_{events}_history_long_size");
        let size: Option<i64> = self.watch.server.client()?.query_first(size)?;
        let is_flooded =
            size.is_some_and(|size| size > 0 && 2 * others.values().sum::<usize>() >= size as usize);
        if let Some((thread, count)) =
            others.into_iter().max_by_key(|(_, count)| *count).filter(|_| is_flooded)
        {
            let name = schema.value("threads", &[("THREAD_ID", thread)], "NAME")?.unwrap_or_default();
            println!(
                "{}: {count} of {} events in the long history of {events} are {name}'s",
                self.script,
                rows.len()
            );
        }
        Ok(is_flooded)
    }

    /// Checks that a connection has not executed for longer than its script took.
    fn check_sums(&self, at: usize, statements: &[SchemaRow], elapsed: Duration, capture: &mut Capture) {
        let outer = statements.iter().filter(|row| row.number("NESTING_EVENT_LEVEL") == Some(0));
        let sum: u64 = outer.filter_map(|row| row.number("TIMER_WAIT")).sum();
        // The server's clock and the test's may differ in rate by what NTP allows, which is far less than
        // this.
        let bound = elapsed.as_nanos() * 1010;
        if u128::from(sum) > bound {
            capture.violations.push(format!("{}: {sum} ps of statements in {elapsed:?}", self.name(at)));
        }
    }
}

fn join(row: &SchemaRow, columns: &[String]) -> String {
    columns.iter().map(|column| row.get(column).unwrap_or(NULL)).collect::<Vec<_>>().join(".")
}

/// Waits until closed connections are counted as such: their threads are gone.
fn wait_for_end(schema: &mut SchemaConnection, closed: &[u64]) -> Result<()> {
    wait_while(|| {
        for id in closed {
            if schema.thread_of(*id)?.is_some() {
                return Ok(Some(format!("connection {id} never ends")));
            }
        }
        Ok(None)
    })
}

/// Waits until nothing is missing any more; `missing` returns the error in case it stays so.
fn wait_while(mut missing: impl FnMut() -> Result<Option<String>>) -> Result<()> {
    let mut last = Ok(None);
    tare_server::poll(LIMIT, || {
        last = missing();
        !matches!(last, Ok(Some(_)))
    });
    last?.map_or(Ok(()), |failure| Err(Failure::Setup(failure)))
}

fn sockets(schema: &mut SchemaConnection) -> Result<HashSet<String>> {
    let rows = schema.rows("socket_summary_by_instance")?;
    Ok(rows.iter().map(|row| row.text("OBJECT_INSTANCE_BEGIN").to_owned()).collect())
}
