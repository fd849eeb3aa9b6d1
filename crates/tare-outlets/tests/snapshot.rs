//! Snapshots of running servers: all of it comes back, and what is written is whole or not there.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use mysql::prelude::Queryable;
use tare_outlets::snapshot::{
    self, Error, Snapshot, SnapshotSink, SnapshotTarget, SnapshotTotals, TableChoice, TableHead, Tail, Value,
    Watcher,
};
use tare_outlets::{Address, Source};
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::subject::TestProvider;

const ALL: TableChoice = TableChoice { tables: vec![], text: true };

fn endpoint(server: &Server) -> Source {
    Source::open(Address::Socket(server.endpoint())).expect("the endpoint")
}

fn account(server: &Server) -> Source {
    let socket = server.socket().to_str().expect("UTF-8").replace('/', "%2F");
    let address = Address::dsn(&format!("mysql://root@localhost?socket={socket}")).expect("an address");
    Source::open(address).expect("the server")
}

fn take(
    source: &mut Source,
    path: &Path,
    choice: &TableChoice,
    force: bool,
) -> Result<SnapshotTotals, Error> {
    let header = snapshot::header(source, choice)?;
    snapshot::write(&SnapshotTarget::named(path)?, &header, force, |sink| {
        snapshot::take(source, choice, sink, &|| false)
    })
}

fn everything(path: &Path) -> Snapshot {
    Snapshot::read(path, &|_, _| true).unwrap_or_else(|error| panic!("{error}"))
}

/// Hands on what it gets to two, and keeps it.
struct Both<'a> {
    one: &'a mut dyn SnapshotSink,
    other: &'a mut dyn SnapshotSink,
    kept: BTreeMap<String, (TableHead, Vec<Vec<Value>>)>,
    table: String,
}

impl SnapshotSink for Both<'_> {
    fn begin(&mut self, head: &TableHead) -> Result<(), Error> {
        self.table = head.table.clone();
        self.kept.insert(head.table.clone(), (head.clone(), vec![]));
        self.one.begin(head).and_then(|()| self.other.begin(head))
    }

    fn row(&mut self, row: &[Value]) -> Result<(), Error> {
        self.kept.get_mut(&self.table).expect("it began").1.push(row.to_vec());
        self.one.row(row).and_then(|()| self.other.row(row))
    }

    fn end(&mut self, tail: &Tail) -> Result<(), Error> {
        self.one.end(tail).and_then(|()| self.other.end(tail))
    }

    fn finish(&mut self, totals: &SnapshotTotals) -> Result<(), Error> {
        self.one.finish(totals).and_then(|()| self.other.finish(totals))
    }
}

#[test]
fn every_table_comes_back_from_both_forms() {
    let _turn = tare_testkit::turn();
    let server = Server::start(StartSettings::new(TestProvider::tare()).tare_option("shape", "extended"))
        .expect("a server");
    let mut client = server.client().expect("a client");
    client.query_drop("CREATE DATABASE `odd <name> \"é\"`").expect("a schema");
    client.query_drop("CREATE TABLE `odd <name> \"é\"`.`t<'>` (a INT, KEY(a)) SELECT 1 a").expect("a table");
    client.query_drop("SELECT 'é ∞ \\\\ \\0 \"', _latin1 X'FF'").expect("a statement");
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    for mut source in [endpoint(&server), account(&server)] {
        let header = snapshot::header(&mut source, &ALL).expect("a header");
        let (lines, tables) = (at("all.jsonl.gz"), at("all.parquet"));
        let mut kept = BTreeMap::new();
        snapshot::write(&SnapshotTarget::named(&lines).expect("a name"), &header, true, |one| {
            snapshot::write(&SnapshotTarget::named(&tables).expect("a name"), &header, true, |other| {
                let mut both = Both { one, other, kept: BTreeMap::new(), table: String::new() };
                let totals = snapshot::take(&mut source, &ALL, &mut both, &|| false);
                kept = std::mem::take(&mut both.kept);
                totals
            })
        })
        .expect("a snapshot");
        let of_server = source.tables().expect("tables");
        assert!(of_server.len() > 100 && of_server.iter().all(|name| kept.contains_key(name)), "all tables");
        for read in [everything(&lines), everything(&tables)] {
            assert_eq!(read.header, header);
            assert_eq!(read.tables.len(), kept.len());
            for (name, (head, rows)) in &kept {
                let table = read.table(name).unwrap_or_else(|| panic!("no {name}"));
                assert_eq!(&table.head, head);
                assert_eq!(table.tail.rows, rows.len() as u64, "{name}");
                assert_eq!(&table.rows, rows, "{name}");
            }
        }
        let (histograms, buckets) = &kept["events_statements_histogram_by_digest"];
        let count = histograms.columns.iter().position(|it| it.name == "COUNT_BUCKET").expect("a column");
        let of_digests = kept["events_statements_summary_by_digest"].1.len();
        assert!(buckets.len() >= of_digests / 2 && buckets.len() < of_digests * 450, "{}", buckets.len());
        assert!(
            buckets.iter().all(|row| row[count].count() > Some(0)),
            "buckets that hold nothing are left out"
        );
        let texts = &kept["events_statements_history"];
        let place = texts.0.columns.iter().position(|it| it.name == "SQL_TEXT").expect("a column");
        assert!(texts.1.iter().any(|row| row[place].text().is_some_and(|text| text.contains('∞'))));
        assert_eq!(header.provider, "tare");
        assert!(header.version.contains("MariaDB") && header.started_at.is_some(), "{header:?}");
        assert_eq!(
            kept.contains_key("show_global_variables"),
            matches!(source.address(), Address::Account(_))
        );
    }
    let mode = |name: &str| fs::metadata(at(name)).expect("it is there").permissions().mode() & 0o777;
    assert_eq!((mode("all.jsonl.gz"), mode("all.parquet")), (0o600, 0o700), "statements are nobody else's");
    opens_elsewhere(&at("all.parquet"));
}

/// Parquet is for other programs: DuckDB opens each of the files and finds what is in them.
fn opens_elsewhere(folder: &Path) {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/duckdb/bin/python");
    let python = std::env::var_os("TARE_DUCKDB_PYTHON").map_or(installed, Into::into);
    let script = "import duckdb, glob, sys\n\
        for name in glob.glob(sys.argv[1] + '/*.parquet'):\n    \
            duckdb.sql(f\"SELECT count(*) FROM '{name}'\").fetchall()\n\
        print(*duckdb.sql(f\"SELECT count(*), max(typeof(TIMER_WAIT)), max(typeof(SQL_TEXT)) \
            FROM '{sys.argv[1]}/events_statements_history.parquet' WHERE SQL_TEXT LIKE '%∞%'\").fetchall()[0])";
    let there = Command::new(&python).args(["-c", "import duckdb"]).output();
    if !there.is_ok_and(|output| output.status.success()) {
        let python = python.display();
        return println!(
            "skipped: {python} has no duckdb (make setup installs it; TARE_DUCKDB_PYTHON names another Python)"
        );
    }
    let said = Command::new(&python).args(["-c", script]).arg(folder).output().expect("it runs");
    let text = String::from_utf8_lossy(&said.stdout);
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    assert!(text.trim_end().ends_with("UBIGINT VARCHAR") && !text.starts_with("0 "), "{text}");
}

/// Who waits for a snapshot, and what it was told.
struct Told(std::cell::RefCell<Vec<(String, usize, usize)>>);

impl Watcher for Told {
    fn is_stopping(&self) -> bool {
        false
    }

    fn reading(&self, table: &str, number: usize, of: usize) {
        self.0.borrow_mut().push((table.to_owned(), number, of));
    }
}

#[test]
fn who_waits_is_told_of_every_table_before_it_is_read_and_none_is_looked_at_in_vain() {
    let _turn = tare_testkit::turn();
    let settings = StartSettings::new(TestProvider::tare()).tare_option("shape", "extended");
    let server = Server::start(settings).expect("a server");
    let mut source = endpoint(&server);
    let header = snapshot::header(&mut source, &ALL).expect("a header");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("all.jsonl");
    let told = Told(std::cell::RefCell::default());
    let target = SnapshotTarget::named(&path).expect("a name");
    let totals =
        snapshot::write(&target, &header, false, |sink| snapshot::take(&mut source, &ALL, sink, &told));
    let tables = usize::try_from(totals.expect("a snapshot").tables).expect("a number");
    let told = told.0.into_inner();
    let numbers: Vec<_> = told.iter().map(|(_, number, of)| (*number, *of)).collect();
    assert_eq!(numbers, (1..=tables).map(|number| (number, tables)).collect::<Vec<_>>());
    let read = everything(&path);
    assert!(told.iter().all(|(table, ..)| read.table(table).is_some()));
    // A look at the server's memory that fails is repeated two hundred times, and takes a second on a busy
    // machine.
    let lost = source.rows("tare_status", &["VALUE"], "WHERE `NAME` = 'observations_lost'").expect("a row");
    assert_eq!(lost[0].number(0), Some(0));
}

#[test]
fn what_is_written_is_whole_or_not_there() {
    let _turn = tare_testkit::turn();
    let server = Server::start(StartSettings::new(TestProvider::tare())).expect("a server");
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let names = || {
        let entries = fs::read_dir(folder.path()).expect("a folder").flatten();
        entries.map(|entry| entry.file_name().into_string().expect("UTF-8")).collect::<Vec<_>>()
    };
    let some = TableChoice { tables: vec!["setup_%".into(), "THREADS".into()], text: true };
    for name in ["a.jsonl", "a.parquet"] {
        let mut source = endpoint(&server);
        let totals = take(&mut source, &at(name), &some, false).expect("a snapshot");
        let read = everything(&at(name));
        assert_eq!((totals.tables, totals.unread), (read.tables.len() as u64, 0));
        assert!(
            read.tables.contains_key("threads")
                && read.tables.keys().all(|it| it == "threads" || it.starts_with("setup_"))
        );
        let again = take(&mut source, &at(name), &some, false).expect_err("it is there");
        assert!(matches!(again, Error::Exists { .. }) && again.to_string().contains("--force"), "{again}");
        let header = snapshot::header(&mut source, &some).expect("a header");
        let stopped =
            snapshot::write(&SnapshotTarget::named(&at(name)).expect("a name"), &header, true, |sink| {
                snapshot::take(&mut source, &some, sink, &|| true)
            });
        assert!(matches!(stopped, Err(Error::Interrupted)), "{stopped:?}");
        assert_eq!(everything(&at(name)).header, read.header, "what was there stays");
        take(&mut endpoint(&server), &at(name), &some, true).expect("another in its place");
    }
    assert_eq!(names().len(), 2, "nothing else is left: {:?}", names());
    let none = TableChoice { tables: vec!["no_such_%".into()], text: true };
    let error = take(&mut endpoint(&server), &at("b.jsonl"), &none, false).expect_err("no table");
    assert!(error.to_string().contains("no_such_%"), "{error}");
    assert!(matches!(take(&mut endpoint(&server), &at("c.txt"), &some, false), Err(Error::Name { .. })));
    fs::create_dir(at("mine.parquet")).expect("a folder");
    fs::write(at("mine.parquet/thesis.tex"), "dear").expect("a file");
    let foreign = take(&mut endpoint(&server), &at("mine.parquet"), &some, true).expect_err("not ours");
    assert!(matches!(foreign, Error::Foreign { .. }), "{foreign}");
    assert_eq!(names().len(), 3, "{:?}", names());

    let text = fs::read_to_string(at("a.jsonl")).expect("text");
    let cut = &text[..text.trim_end().rfind('\n').expect("a line") + 1];
    for (wrong, why) in
        [(cut, "cut off"), ("", "early"), ("{\"a\":1}\n", "no snapshot"), (&text[9..], "line 1")]
    {
        fs::write(at("wrong.jsonl"), wrong).expect("written");
        let error = Snapshot::read(&at("wrong.jsonl"), &|_, _| true).expect_err(why).to_string();
        assert!(error.contains(why), "{why}: {error}");
    }
}

#[test]
fn a_full_disk_is_said_and_nothing_is_left() {
    let _turn = tare_testkit::turn();
    let folder = tempfile::tempdir().expect("a folder");
    let mount = |arguments: &[&str]| Command::new("mount").args(arguments).arg(folder.path()).output();
    if !mount(&["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).is_ok_and(|it| it.status.success()) {
        println!("skipped: a file system of a few kilobytes cannot be mounted here (needs root)");
        return;
    }
    let server = Server::start(StartSettings::new(TestProvider::tare()));
    let errors: Vec<_> = ["a.jsonl", "a.jsonl.gz", "a.parquet"]
        .map(|name| {
            let server = server.as_ref().expect("a server");
            let error = take(&mut endpoint(server), &folder.path().join(name), &ALL, false);
            (error, fs::read_dir(folder.path()).expect("a folder").count())
        })
        .into();
    let gone = Command::new("umount").arg(folder.path()).status();
    assert!(gone.is_ok_and(|status| status.success()));
    for (error, left) in errors {
        let error = error.expect_err("no room").to_string();
        assert!(error.contains("No space left on device") && error.contains("a."), "{error}");
        assert_eq!(left, 0, "{error}");
    }
}

#[test]
fn statements_are_left_out_where_they_are_not_wanted_and_the_built_in_is_read_too() {
    let _turn = tare_testkit::turn();
    let server = Server::start(StartSettings::new(TestProvider::BuiltIn)).expect("a server");
    let mut client = server.client().expect("a client");
    client.query_drop("SELECT 'top secret'").expect("a statement");
    client.query_drop("SET @hidden = 'top secret'").expect("a variable");
    let switch = "ENABLED = 'YES' WHERE NAME LIKE";
    client
        .query_drop(format!("UPDATE performance_schema.setup_consumers SET {switch} 'events_transactions%'"))
        .expect("a switch");
    client
        .query_drop(format!("UPDATE performance_schema.setup_instruments SET {switch} 'transaction'"))
        .expect("a switch");
    for statement in
        ["XA START 'top secret of XA'", "XA END 'top secret of XA'", "XA ROLLBACK 'top secret of XA'"]
    {
        client.query_drop(statement).expect("a transaction");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    for text in [true, false] {
        let path = at(if text { "with.jsonl" } else { "without.jsonl" });
        take(&mut account(&server), &path, &TableChoice { tables: vec![], text }, false).expect("a snapshot");
        let read = everything(&path);
        assert_eq!((read.header.provider.as_str(), read.header.text), ("mariadb", text));
        assert_eq!(fs::read_to_string(&path).expect("text").contains("top secret"), text);
        let transactions = read.table("events_transactions_history").expect("transactions");
        let named = |row: &Vec<Value>| row.iter().any(|value| value.text() == Some("top secret of XA"));
        assert_eq!(transactions.rows.iter().any(named), text, "{transactions:?}");
        let variables = read.table("show_global_variables").expect("variables");
        assert!(variables.rows.len() > 500 && variables.rows.iter().any(|row| row[1].text() == Some("ON")));
        assert!(read.table("events_statements_summary_by_digest").expect("digests").rows.len() > 1);
    }
}

#[test]
fn what_may_not_be_read_is_left_out_and_said() {
    let _turn = tare_testkit::turn();
    let server = Server::start(StartSettings::new(TestProvider::BuiltIn)).expect("a server");
    let mut root = server.client().expect("a client");
    root.query_drop("CREATE USER little@localhost").expect("an account");
    root.query_drop("GRANT SELECT ON performance_schema.threads TO little@localhost").expect("a right");
    let socket = server.socket().to_str().expect("UTF-8").replace('/', "%2F");
    let address = Address::dsn(&format!("mysql://little@localhost?socket={socket}")).expect("an address");
    let mut source = Source::open(address).expect("the server");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("little.parquet");
    let totals = take(&mut source, &path, &ALL, false).expect("a snapshot");
    assert!(totals.unread > 0, "{totals:?}");
    let read = everything(&path);
    assert!(read.table("threads").is_some_and(|table| !table.rows.is_empty()));
    let unread: Vec<_> = read.tables.values().filter_map(|table| table.tail.error.as_deref()).collect();
    assert_eq!(unread.len() as u64, totals.unread);
    assert!(unread.iter().all(|why| why.contains("GRANT SELECT")), "{unread:?}");
}
