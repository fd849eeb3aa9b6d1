//! What `tare top` reads of running servers: tare's and the servers' own Performance Schemas.

use std::time::Duration;

use mysql::prelude::Queryable;
use tare_outlets::sessions::History;
use tare_outlets::top::look::{About, Ask, Content, Counted, Holder, Look, View};
use tare_outlets::top::page::{Block, Cell, Sheet};
use tare_outlets::top::read::Reader;
use tare_outlets::top::state::State;
use tare_outlets::{Address, Source};
use tare_testkit::active_load::ActiveSessions;
use tare_testkit::mysql_server::{Mysql, SERIES};
use tare_testkit::scene::{SCRIPTS, Scene, WaiterAndHolder};
use tare_testkit::server::{LIMIT, Server, StartSettings};
use tare_testkit::subject::TestProvider;
use tare_testkit::{eventually, poll_every};

fn start(provider: TestProvider) -> Server {
    Server::start(StartSettings::new(provider)).expect("a server")
}

fn account(socket: &std::path::Path) -> Address {
    let socket = socket.to_str().expect("UTF-8").replace('/', "%2F");
    Address::dsn(&format!("mysql://root@localhost?socket={socket}")).expect("an address")
}

fn ways(server: &Server) -> Vec<Reader> {
    let mut ways = vec![];
    if server.settings.provider.is_tare() {
        ways.push(Reader::open(Address::Socket(server.endpoint())).expect("the endpoint"));
    }
    if server.serves_tables() {
        ways.push(Reader::open(account(&server.socket())).expect("an account"));
    }
    ways
}

fn ask(view: View) -> Ask {
    Ask { view, about: None }
}

fn look(reader: &mut Reader, view: View) -> Look {
    reader.look(&ask(view)).expect("a look")
}

fn sheet(state: &State) -> Sheet {
    state.page().sheet().expect("a sheet").clone()
}

/// Cells of the row that has a text, by the columns' names.
fn row(sheet: &Sheet, text: &str, names: &[&str]) -> Vec<f64> {
    let has = |cell: &Cell| matches!(cell, Cell::Text(value) if value.contains(text));
    let row = sheet.rows.iter().find(|row| row.cells.iter().any(has));
    let row = row.unwrap_or_else(|| panic!("no {text} in {sheet:#?}"));
    let cell = |name: &&str| {
        let at = sheet.columns.iter().position(|column| column.name == *name).expect(name);
        row.cells[at].size().unwrap_or(-1.0)
    };
    names.iter().map(cell).collect()
}

/// Rounds a figure that was divided by seconds, and is multiplied with them again.
fn whole(rate: f64, seconds: f64) -> f64 {
    (rate * seconds).round()
}

fn counts_exactly(server: &Server) {
    let mut client = server.client().expect("a client");
    client.query_drop("CREATE DATABASE shop").expect("a schema");
    client.query_drop("CREATE TABLE shop.orders (id INT PRIMARY KEY, note TEXT)").expect("a table");
    client.query_drop("USE shop").expect("the schema");
    client.query_drop("INSERT INTO orders VALUES (1, 'a'), (2, 'b'), (3, 'c')").expect("rows");
    client.query_drop("SELECT note FROM orders WHERE note > 'a'").expect("seen before");
    let prepared = client.prep("SELECT note FROM orders WHERE id = ?").expect("prepared");
    for mut reader in ways(server) {
        let mut state = State::new(View::Statements, Duration::from_secs(1), "");
        state.take(look(&mut reader, View::Statements));
        for _ in 0..50 {
            client.query_drop("SELECT note FROM orders WHERE note > 'a'").expect("rows");
            client.exec_drop(&prepared, (2,)).expect("a row");
        }
        client.query_drop("SELECT nothing FROM orders").expect_err("no such column");
        // A statement ends after its answer, and before the next one begins.
        client.ping().expect("an answer");
        state.take(look(&mut reader, View::Statements));
        let (sheet, seconds) = (sheet(&state), seconds(&state));
        let names = ["rate_per_s", "sent_per_s", "no_index_per_s", "examined_per_sent", "errors_per_s"];
        let found = row(&sheet, "WHERE `note` >", &names);
        let expected = [50.0, 100.0, 50.0];
        assert_eq!([0, 1, 2].map(|at| whole(found[at], seconds)), expected, "{found:?}");
        assert_eq!(found[3], 1.5, "three are looked at for two");
        assert_eq!(whole(row(&sheet, "`nothing`", &names)[4], seconds), 1.0);
        // The built-in's executions have no digest: there it is the text that was prepared.
        let text = if server.settings.provider.is_tare() { "WHERE ID = ?" } else { "WHERE id = ?" };
        let found = row(&sheet, text, &names);
        assert_eq!(whole(found[0], seconds), 50.0, "executions of prepared statements: {found:?}");
        let ways =
            sheet.rows.iter().filter(|row| format!("{row:?}").to_lowercase().contains("where id =")).count();
        assert_eq!(ways, 1, "they are shown once: {sheet:#?}");
    }
}

fn seconds(state: &State) -> f64 {
    let json = tare_outlets::top::once::json(state, usize::MAX);
    json["seconds"].as_f64().expect("seconds")
}

#[test]
fn statements_are_counted_exactly_on_tare() {
    let _turn = tare_testkit::turn();
    counts_exactly(&start(TestProvider::tare()));
}

#[test]
fn statements_are_counted_exactly_on_the_built_in() {
    let _turn = tare_testkit::turn();
    counts_exactly(&start(TestProvider::BuiltIn));
}

#[test]
fn an_emptied_table_is_noticed() {
    let _turn = tare_testkit::turn();
    let server = start(TestProvider::tare());
    let mut client = server.client().expect("a client");
    for _ in 0..20 {
        client.query_drop("DO 1").expect("done");
    }
    let mut reader = Reader::open(Address::Socket(server.endpoint())).expect("the endpoint");
    let mut state = State::new(View::Statements, Duration::from_secs(1), "");
    state.take(look(&mut reader, View::Statements));
    let mut endpoint = mysql::Conn::new(
        mysql::OptsBuilder::new()
            .socket(Some(server.endpoint().to_string_lossy()))
            .user(Some("root"))
            .prefer_socket(false)
            .max_allowed_packet(Some(1 << 20)),
    )
    .expect("the endpoint");
    endpoint
        .query_drop("TRUNCATE TABLE performance_schema.events_statements_summary_by_digest")
        .expect("emptied");
    client.query_drop("DO 1").expect("done");
    // A statement is counted once its answer is on its way: certainly when the next one is answered.
    client.ping().expect("an answer");
    state.take(look(&mut reader, View::Statements));
    let json = tare_outlets::top::once::json(&state, usize::MAX);
    assert_eq!(json["reset"], true, "{json:#}");
    let rate = row(&sheet(&state), "DO ?", &["rate_per_s"])[0];
    assert_eq!(whole(rate, seconds(&state)), 1.0);
}

/// Looks at statements until none of them is prepared.
fn look_until_nothing_is_prepared(reader: &mut Reader) -> Look {
    eventually("nothing stays prepared", LIMIT, || {
        let found = look(reader, View::Statements);
        (!found.content.counted().iter().any(Counted::is_prepared)).then_some(found)
    })
}

#[test]
fn a_pool_that_ends_empties_no_table() {
    let _turn = tare_testkit::turn();
    let without = ("prepared-digests".to_owned(), "OFF".to_owned());
    let server = start(TestProvider::Tare(vec![without]));
    let mut client = server.client().expect("a client");
    for _ in 0..20 {
        client.query_drop("DO 1").expect("done");
    }
    let mut pool = server.client().expect("a client");
    for number in 0..100 {
        let prepared = pool.prep(format!("SELECT {number}")).expect("prepared");
        pool.exec_drop(&prepared, ()).expect("a row");
    }
    // A statement is counted once its answer is on its way: certainly when the next one is answered.
    pool.ping().expect("an answer");
    client.ping().expect("an answer");
    let mut reader = Reader::open(Address::Socket(server.endpoint())).expect("the endpoint");
    let mut state = State::new(View::Statements, Duration::from_secs(1), "");
    let before = look(&mut reader, View::Statements);
    let rows = before.content.counted();
    let prepared = rows.iter().filter(|row| row.is_prepared()).count();
    assert!(prepared == 100 && rows.len() < 2 * prepared, "they are not the most: {rows:#?}");
    state.take(before);
    client.query_drop("DO 1").expect("done");
    client.ping().expect("an answer");
    drop(pool);
    state.take(look_until_nothing_is_prepared(&mut reader));
    let json = tare_outlets::top::once::json(&state, usize::MAX);
    assert_eq!(json["reset"], false, "{json:#}");
    let rate = row(&sheet(&state), "DO ?", &["rate_per_s"])[0];
    assert_eq!(whole(rate, seconds(&state)), 1.0);
}

#[test]
fn what_is_off_is_said_with_what_to_do_until_it_is_on() {
    let _turn = tare_testkit::turn();
    let server = start(TestProvider::tare());
    let mut reader = Reader::open(Address::Socket(server.endpoint())).expect("the endpoint");
    assert_eq!(look(&mut reader, View::Statements).notes, [""; 0]);
    let mut source = Source::open(Address::Socket(server.endpoint())).expect("the endpoint");
    let switch = |on: &str| {
        format!(
            "UPDATE performance_schema.setup_consumers SET ENABLED = '{on}' WHERE NAME = 'statements_digest'"
        )
    };
    source.execute(&switch("NO")).expect("off");
    assert_eq!(look(&mut reader, View::Memory).notes, [""; 0], "it does not concern memory");
    let notes = look(&mut reader, View::Statements).notes;
    let [note] = &notes[..] else { panic!("{notes:?}") };
    let (_, statement) = note.split_once(". ").expect("what to do");
    assert!(statement.starts_with("UPDATE performance_schema.setup_consumers"), "{note}");
    source.execute(statement).expect("what it says can be done");
    assert_eq!(look(&mut reader, View::Statements).notes, [""; 0]);
}

#[test]
fn a_server_without_a_performance_schema_says_how_to_get_one() {
    let _turn = tare_testkit::turn();
    let server = start(TestProvider::Off);
    let mut reader = Reader::open(account(&server.socket())).expect("an account");
    for view in View::ALL {
        let found = look(&mut reader, view);
        assert!(found.notes[0].contains("is off") && found.notes[0].contains("tare install"), "{found:?}");
    }
}

#[test]
fn every_view_has_rows_on_tare_and_on_the_built_in() {
    let _turn = tare_testkit::turn();
    for provider in [TestProvider::tare(), TestProvider::BuiltIn] {
        let server = start(provider);
        let mut client = server.client().expect("a client");
        client.query_drop("CREATE DATABASE shop").expect("a schema");
        client.query_drop("CREATE TABLE shop.orders (id INT PRIMARY KEY)").expect("a table");
        client.query_drop("INSERT INTO shop.orders VALUES (1), (2)").expect("rows");
        let ending = if server.settings.provider.is_tare() {
            concat!(", tare ", env!("CARGO_PKG_VERSION"))
        } else {
            ", without tare"
        };
        for mut reader in ways(&server) {
            let named = look(&mut reader, View::Waits).head.server;
            assert!(named.starts_with("MariaDB 1") && named.ends_with(ending), "{named}");
            every_view(&mut reader);
        }
    }
}

/// Which server it is, and how busy.
fn has_a_head(look: &Look) {
    let head = &look.head;
    assert!(head.place.contains('/') && head.uptime.is_some() && head.queries.is_some(), "{head:?}");
    assert!(head.connections.is_some_and(|count| count > 0), "{head:?}");
}

fn every_view(reader: &mut Reader) {
    for view in View::ALL.into_iter().filter(|view| *view != View::Locks) {
        let found = look(reader, view);
        let lacks: Vec<&String> = found.notes.iter().filter(|note| note.starts_with("Not there")).collect();
        assert!(lacks.is_empty(), "{view:?}: {lacks:?}");
        has_a_head(&found);
        let mut state = State::new(view, Duration::from_secs(1), "");
        state.take(found);
        assert!(!sheet(&state).rows.is_empty(), "{view:?}");
    }
}

/// Returns how many sessions are active now, by the head and by the list of threads.
fn active(reader: &mut Reader) -> [Option<f64>; 2] {
    let mut state = State::new(View::Threads, Duration::from_secs(1), "");
    state.take(look(reader, View::Threads));
    let json = tare_outlets::top::once::json(&state, usize::MAX);
    [&json["active_now"], &json["totals"]["active"]].map(serde_json::Value::as_f64)
}

#[test]
fn sessions_that_hang_are_active() {
    let _turn = tare_testkit::turn();
    for provider in [TestProvider::tare(), TestProvider::BuiltIn] {
        let settings = StartSettings::new(provider).option("--innodb-lock-wait-timeout=600");
        let server = Server::start(settings).expect("a server");
        let load = ActiveSessions::all(&server);
        #[allow(clippy::cast_precision_loss)] // few
        let count = load.truth.len() as f64;
        for mut reader in ways(&server) {
            // Connections that begin or end are active for a moment.
            let found = poll_every(Duration::from_millis(50), LIMIT, || {
                let found = active(&mut reader);
                (found == [Some(count); 2]).then_some(())
            });
            found.unwrap_or_else(|| panic!("{count} are active, not {:?}", active(&mut reader)));
        }
    }
}

#[test]
fn who_is_idle_and_holds_a_lock_has_an_account() {
    let _turn = tare_testkit::turn();
    let server = start(TestProvider::tare());
    let mut load = ActiveSessions::new(&server);
    let holder = load.row_locks(2);
    for mut reader in ways(&server) {
        let mut history = History::default();
        let blocker = eventually("a sample has the holder", LIMIT, || {
            history.merge(&look(&mut reader, View::Statements).history.expect("a history"));
            let sums = history.sums(history.whole()?);
            sums.blockers.into_iter().find(|it| it.connection == Some(u64::from(holder)))
        });
        assert_eq!(blocker.account.as_deref(), Some("root@localhost"), "{blocker:?}");
        assert!(!blocker.was_active, "{blocker:?}");
    }
}

/// Waits until somebody waits for a lock.
fn look_until_somebody_waits(reader: &mut Reader, count: usize) -> State {
    // InnoDB looks at its locks anew only when nobody has asked for a tenth of a second.
    let found = poll_every(Duration::from_millis(150), LIMIT, || {
        let found = look(reader, View::Locks);
        let Content::Locks(locks) = &found.content else { panic!("{found:?}") };
        (locks.waits.len() >= count).then_some(found)
    });
    let mut state = State::new(View::Locks, Duration::from_secs(1), "");
    state.take(found.expect("somebody waits"));
    state
}

fn texts(sheet: &Sheet, name: &str) -> Vec<String> {
    let at = sheet.columns.iter().position(|column| column.name == name).expect(name);
    sheet
        .rows
        .iter()
        .map(|row| match &row.cells[at] {
            Cell::Text(text) => text.replace('\u{a0}', " "),
            _ => String::new(),
        })
        .collect()
}

fn queue_behind_an_alter(server: &Server) {
    let mut holder = server.client().expect("a client");
    holder.query_drop("CREATE DATABASE shop").expect("a schema");
    holder.query_drop("CREATE TABLE shop.orders (id INT PRIMARY KEY, note INT)").expect("a table");
    holder.query_drop("INSERT INTO shop.orders VALUES (1, 1)").expect("a row");
    holder.query_drop("BEGIN").expect("a transaction");
    holder.query_drop("SELECT * FROM shop.orders").expect("read");
    let run = |statement: &'static str| {
        let mut client = server.client().expect("a client");
        std::thread::spawn(move || client.query_drop(statement))
    };
    let mut readers = ways(server);
    let mut waiting = vec![run("ALTER TABLE shop.orders ADD COLUMN more INT")];
    look_until_somebody_waits(&mut readers[0], 1);
    waiting.push(run("SELECT COUNT(*) FROM shop.orders"));
    for reader in &mut readers {
        let state = look_until_somebody_waits(reader, 2);
        let sheet = sheet(&state);
        let who = texts(&sheet, "who");
        assert_eq!(who.len(), 3, "{sheet:#?}");
        assert!(who[0].starts_with(&format!("{} root@", holder.connection_id())), "{who:?}");
        let depth = |text: &String| text.chars().take_while(|c| !c.is_ascii_digit()).count();
        assert_eq!(who.iter().map(depth).collect::<Vec<_>>(), [0, 2, 4], "{who:?}");
        assert_eq!(texts(&sheet, "object")[1..], ["table shop.orders", "table shop.orders"]);
        let statements = texts(&sheet, "statement");
        assert!(statements[0].contains("last: SELECT * FROM shop.orders"), "{statements:?}");
        assert!(statements[1].starts_with("ALTER") && statements[2].contains("COUNT"), "{statements:?}");
        // A thread in detail, from the tree.
        let thread: u64 = texts(&sheet, "thread")[1].parse().expect("a number");
        let about = Some(About::Thread(thread));
        let detail = reader.look(&Ask { view: View::Locks, about }).expect("a look");
        let Content::Thread(_, thread) = &detail.content else { panic!("{detail:?}") };
        let thread = thread.as_ref().as_ref().expect("it is there");
        assert!(thread.statement.as_deref().expect("a statement").starts_with("ALTER"), "{thread:?}");
    }
    holder.query_drop("COMMIT").expect("it ends");
    for thread in waiting {
        thread.join().expect("no panic").expect("it goes on");
    }
}

#[test]
fn who_waits_for_a_table_is_told_on_tare() {
    let _turn = tare_testkit::turn();
    queue_behind_an_alter(&start(TestProvider::tare()));
}

#[test]
fn who_waits_for_a_table_is_told_on_the_built_in() {
    let _turn = tare_testkit::turn();
    queue_behind_an_alter(&start(TestProvider::BuiltIn));
}

/// Has one connection wait for another one's row, and looks.
fn waits_for_a_row(mut clients: impl FnMut() -> mysql::Conn, reader: &mut Reader) {
    let mut holder = clients();
    holder.query_drop("CREATE DATABASE bank").expect("a schema");
    holder.query_drop("CREATE TABLE bank.account (id INT PRIMARY KEY, sum INT)").expect("a table");
    holder.query_drop("INSERT INTO bank.account VALUES (7, 1)").expect("a row");
    holder.query_drop("BEGIN").expect("a transaction");
    holder.query_drop("UPDATE bank.account SET sum = 2 WHERE id = 7").expect("a lock");
    let mut other = clients();
    let waiting =
        std::thread::spawn(move || other.query_drop("UPDATE bank.account SET sum = 3 WHERE id = 7"));
    let state = look_until_somebody_waits(reader, 1);
    let sheet = sheet(&state);
    assert_eq!(sheet.rows.len(), 2, "{sheet:#?}");
    assert_eq!(texts(&sheet, "object")[1], "bank.account PRIMARY (7)");
    assert!(texts(&sheet, "wanted")[1].starts_with('X'), "{sheet:#?}");
    assert!(texts(&sheet, "statement")[0].contains("sum = 2"), "{sheet:#?}");
    assert!(texts(&sheet, "statement")[1].contains("sum = 3"), "{sheet:#?}");
    holder.query_drop("ROLLBACK").expect("it ends");
    waiting.join().expect("no panic").expect("it goes on");
    holder.query_drop("DROP DATABASE bank").expect("it goes");
}

#[test]
fn who_waits_for_a_row_is_told_by_innodb() {
    let _turn = tare_testkit::turn();
    let shapes = [
        StartSettings::new(TestProvider::tare()).tare_option("shape", "extended"),
        StartSettings::new(TestProvider::BuiltIn),
    ];
    for settings in shapes {
        let Some(server) = Server::start(settings).expect("a server").on_its_port() else { return };
        for mut reader in ways(&server) {
            waits_for_a_row(|| server.client().expect("a client"), &mut reader);
        }
    }
}

/// Pairs of connections that the view has.
fn pairs(look: &Look) -> Vec<WaiterAndHolder> {
    let Content::Locks(locks) = &look.content else { panic!("{look:?}") };
    let connection = |thread: u64| {
        let known = locks.threads.iter().find(|it| it.id == thread).expect("a thread");
        u32::try_from(known.connection.expect("a connection")).expect("a number")
    };
    let holder = |holder: Holder| match holder {
        Holder::Thread(thread) => Some(connection(thread)),
        Holder::Nobody | Holder::Unknown => None,
    };
    let mut pairs: Vec<WaiterAndHolder> =
        locks.waits.iter().map(|wait| (connection(wait.waiting), holder(wait.holding))).collect();
    pairs.sort_unstable();
    pairs
}

#[test]
fn only_those_are_in_the_way_of_a_row_that_hold_it() {
    let _turn = tare_testkit::turn();
    for provider in [TestProvider::BuiltIn, TestProvider::tare()] {
        let settings = StartSettings::new(provider)
            .option("--innodb-deadlock-detect=OFF")
            .option("--innodb-lock-wait-timeout=600");
        let Some(server) = Server::start(settings).expect("a server").on_its_port() else { continue };
        let mut reader = Reader::open(account(&server.socket())).expect("an account");
        for (name, script) in SCRIPTS {
            let mut scene = Scene::new(&server).expect("tables");
            script(&mut scene).unwrap_or_else(|error| panic!("{name}: {error}"));
            let found = look(&mut reader, View::Locks);
            let expected: Vec<WaiterAndHolder> = scene.truth.iter().copied().collect();
            assert_eq!(pairs(&found), expected, "{name}: {found:#?}");
        }
    }
}

#[test]
fn a_queue_for_a_row_has_a_row_for_each_waiter() {
    let _turn = tare_testkit::turn();
    let server = start(TestProvider::BuiltIn);
    let mut reader = Reader::open(account(&server.socket())).expect("an account");
    let mut holder = server.client().expect("a client");
    holder.query_drop("CREATE DATABASE bank").expect("a schema");
    holder.query_drop("CREATE TABLE bank.account (id INT PRIMARY KEY, sum INT)").expect("a table");
    holder.query_drop("INSERT INTO bank.account VALUES (7, 1)").expect("a row");
    holder.query_drop("BEGIN").expect("a transaction");
    holder.query_drop("UPDATE bank.account SET sum = 2 WHERE id = 7").expect("a lock");
    let waiting: Vec<_> = (1..=8)
        .map(|number| {
            let mut client = server.client().expect("a client");
            let statement = format!("UPDATE bank.account SET sum = {number} WHERE id = 7");
            let waiting = std::thread::spawn(move || client.query_drop(statement));
            let state = look_until_somebody_waits(&mut reader, number);
            assert_eq!(sheet(&state).rows.len(), number + 1, "{:#?}", sheet(&state));
            waiting
        })
        .collect();
    let state = look_until_somebody_waits(&mut reader, 8);
    // InnoDB names everybody who came before; only one of them holds it.
    let behind = texts(&sheet(&state), "waits_for_connection");
    assert_eq!(behind[1..], vec![holder.connection_id().to_string(); 8]);
    let kill = format!("KILL {} ends root@localhost, in the way of 8 that wait", holder.connection_id());
    assert!(state.page().blocks.contains(&Block::Text(kill)), "{:?}", state.page());
    holder.query_drop("ROLLBACK").expect("it ends");
    for thread in waiting {
        thread.join().expect("no panic").expect("it goes on");
    }
}

#[test]
fn a_digest_in_detail_has_samples_stages_and_waits() {
    let _turn = tare_testkit::turn();
    let server = Server::start(StartSettings::new(TestProvider::tare()).tare_option("shape", "extended"))
        .expect("a server");
    let mut client = server.client().expect("a client");
    client.query_drop("CREATE DATABASE shop").expect("a schema");
    client.query_drop("USE shop").expect("the schema");
    client.query_drop("CREATE TABLE orders (id INT PRIMARY KEY)").expect("a table");
    client.query_drop("INSERT INTO orders VALUES (1), (2)").expect("rows");
    for _ in 0..10 {
        client.query_drop("SELECT id FROM orders WHERE id = 2").expect("a row");
    }
    let mut reader = Reader::open(Address::Socket(server.endpoint())).expect("the endpoint");
    let list = look(&mut reader, View::Statements);
    let key = list.texts.iter().find(|(_, text)| text.contains("`orders` WHERE")).expect("told").0.clone();
    let about = About::Digest { schema: key[0].clone(), digest: key[1].clone().expect("a digest") };
    let found = reader.look(&Ask { view: View::Statements, about: Some(about) }).expect("a look");
    let Content::Digest(rows, digest) = &found.content else { panic!("{found:?}") };
    assert_eq!(rows[0].counters[0], 10);
    assert_eq!(digest.samples.len(), 5, "{digest:?}");
    for sample in &digest.samples {
        assert_eq!(sample.text.as_deref(), Some("SELECT id FROM orders WHERE id = 2"));
        assert_eq!((sample.sent, sample.examined, sample.error), (1, 1, 0));
    }
    let has = |parts: &[(String, u64)], name: &str| parts.iter().any(|(it, time)| it == name && *time > 0);
    assert!(has(&digest.stages, "stage/sql/Sending data"), "{digest:?}");
    assert!(has(&digest.waits, "wait/io/table/sql/handler"), "{digest:?}");
    assert_eq!(digest.buckets.iter().map(|(_, count)| count).sum::<u64>(), 10);
    assert_eq!(found.notes, [""; 0]);
}

#[test]
fn mysql_is_read_as_well() {
    let _turn = tare_testkit::turn();
    for series in SERIES {
        let Some(server) = Mysql::of_series(series, &[]).expect("a server") else { continue };
        let mut client = server.client().expect("a client");
        client.query_drop("CREATE DATABASE shop").expect("a schema");
        client.query_drop("CREATE TABLE shop.orders (id INT PRIMARY KEY)").expect("a table");
        client.query_drop("INSERT INTO shop.orders VALUES (1), (2)").expect("rows");
        let mut reader = Reader::open(account(&server.socket())).expect("an account");
        every_view(&mut reader);
        waits_for_a_row(|| server.client().expect("a client"), &mut reader);
        let found = look(&mut reader, View::Statements);
        let quantile = found.content.counted().iter().any(|row| row.gauges[1].is_some_and(|it| it > 0));
        // Histograms came with 8.
        assert_eq!(quantile, series != "5.7", "{series}: {found:?}");
        let mut state = State::new(View::Statements, Duration::from_secs(1), "");
        state.take(found);
        assert!(state.page().blocks.iter().any(|block| matches!(block, Block::Sheet(_))));
    }
}

#[test]
fn an_account_without_rights_is_told_what_it_needs() {
    let _turn = tare_testkit::turn();
    let server = start(TestProvider::BuiltIn);
    let mut root = server.client().expect("a client");
    root.query_drop("CREATE USER nobody@localhost").expect("an account");
    let socket = server.socket().to_str().expect("UTF-8").replace('/', "%2F");
    let address = Address::dsn(&format!("mysql://nobody@localhost?socket={socket}")).expect("an address");
    let mut reader = Reader::open(address).expect("it may connect");
    let notes = look(&mut reader, View::Statements).notes;
    assert!(notes.iter().any(|note| note.contains("GRANT SELECT ON performance_schema.*")), "{notes:?}");
}

#[test]
fn a_look_asks_for_each_table_once_and_for_few() {
    let _turn = tare_testkit::turn();
    let server = start(TestProvider::tare());
    let mut reader = Reader::open(Address::Socket(server.endpoint())).expect("the endpoint");
    let mut source = Source::open(Address::Socket(server.endpoint())).expect("the endpoint");
    let mut asked = || {
        let filter = "WHERE `NAME` = 'endpoint_selects'";
        source.rows("tare_status", &["VALUE"], filter).expect("rows")[0].count(0)
    };
    for (view, tables) in [
        // tare_status, accounts, threads and sums of statements for the head; the active session history for
        // its strip; digests, which have the executions of prepared statements,
        (View::Statements, 6),
        // and the levels of locks,
        (View::Waits, 7),
        // metadata locks that are waited for,
        (View::Locks, 6),
        (View::Tables, 6),
        (View::Files, 6),
        (View::Memory, 6),
        // statements and waits of threads.
        (View::Threads, 7),
    ] {
        // The first look also asks what is switched on, and for texts.
        look(&mut reader, view);
        look(&mut reader, view);
        let before = asked();
        look(&mut reader, view);
        let own = 1;
        assert_eq!(asked() - before - own, tables, "{view:?}");
    }
}
