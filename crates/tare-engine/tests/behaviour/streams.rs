//! Streams: every ended statement and transaction once, in order, and what was missed counted.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::ControlFlow;

use proptest::prelude::*;
use tare_engine::snapshot::*;
use tare_engine::*;

use tare_rig::*;

/// A reader and what it has come to.
#[derive(Default)]
struct Reader {
    cursor: Cursor,
    rows: Vec<StatementRow>,
    origins: Vec<EventOrigin>,
    lost: u64,
    position: u64,
    blocks: ByBlocks,
}

/// Reads the same by blocks, and holds it against the rows.
#[derive(Default)]
struct ByBlocks {
    cursor: Cursor,
    names: HashMap<ClassId, &'static str>,
    digests: HashMap<[u64; 2], DigestText>,
}

impl ByBlocks {
    fn read(&mut self, rig: Rig, rows: &[StatementRow], origins: &[EventOrigin]) -> StreamPart {
        let ByBlocks { cursor, names, digests } = self;
        let (mut told, mut at, scale) = (HashMap::new(), 0, rig.scale());
        let texts = BlockTexts { sql: true, digest: true };
        rig.stream_statement_blocks(cursor, texts, &mut |row| {
            match row {
                BlockRow::Name(class, name) => assert!(names.insert(class, name).is_none(), "told twice"),
                BlockRow::Digest(key, digest) => _ = digests.insert(key, digest.clone()),
                BlockRow::Text(number, text) => _ = told.insert(number, text.map(str::to_owned)),
                BlockRow::Block(block) => {
                    RecordedStatement::read(block.words, block.first, |of| {
                        if of.number >= block.new_from {
                            let digest = of.digest().and_then(|key| digests.get(&key));
                            let sql = told.remove(&of.number);
                            let sql = sql.unwrap_or_else(|| of.sql_text().map(Cow::into_owned));
                            let said = (names[&of.class()], sql, digest);
                            compare(&of, &block, said, scale, &rows[at], &origins[at]);
                            at += 1;
                        }
                    });
                    assert!(told.is_empty(), "texts of no statement: {told:?}");
                }
            }
            ControlFlow::Continue(())
        })
    }
}

fn compare(
    of: &RecordedStatement<'_>,
    block: &StatementBlock<'_>,
    (name, sql, digest): (&str, Option<String>, Option<&DigestText>),
    scale: Scale,
    row: &StatementRow,
    origin: &EventOrigin,
) {
    let StatementRow { head, counters, .. } = row;
    assert_eq!((block.thread_id, name), (head.thread_id, head.name));
    assert_eq!((sql, digest), (row.sql_text.clone(), row.digest.as_deref()));
    assert_eq!(of.wait().map(|ticks| scale.ps(ticks)), head.timer.wait_ps);
    assert_eq!(scale.wall_us(of.end().unwrap_or(block.opened)), origin.ended_us);
    assert_eq!(
        (block.processlist_id, block.user, block.host),
        (origin.processlist_id, origin.user.as_deref(), origin.host.as_deref())
    );
    assert_eq!(of.counters(), *counters);
    assert_eq!(of.current_schema().as_deref(), row.current_schema.as_deref());
    assert_eq!((of.errno(), of.nesting_level()), (row.mysql_errno, row.nesting_level.into()));
    assert_eq!(of.message_text().as_deref(), row.message_text.as_deref());
    let [schema, name] = of.program().unwrap_or_default();
    assert_eq!(
        (schema.as_deref(), name.as_deref()),
        (row.object.schema.as_deref(), row.object.name.as_deref())
    );
}

impl Reader {
    fn begin(rig: Rig) -> Reader {
        let mut reader = Reader::default();
        assert_eq!(reader.read(rig).read, 0);
        reader
    }

    fn read(&mut self, rig: Rig) -> StreamPart {
        let piece = rig.stream_statements(&mut self.cursor, Parts::ALL, &mut |statement, origin| {
            self.rows.push(statement.row());
            self.origins.push(origin.clone());
            ControlFlow::Continue(())
        });
        let new = self.rows.len() - piece.read as usize;
        assert_eq!(self.blocks.read(rig, &self.rows[new..], &self.origins[new..]), piece);
        self.lost += piece.lost;
        self.position = piece.position;
        piece
    }

    /// Reads until there is no more.
    fn catch_up(&mut self, rig: Rig) {
        while self.read(rig).more {}
    }

    fn texts(&self) -> Vec<&str> {
        self.rows.iter().map(|row| row.sql_text.as_deref().expect("a text")).collect()
    }
}

fn texts(of: std::ops::Range<u64>) -> Vec<String> {
    of.map(|n| format!("select {n}")).collect()
}

fn run(rig: Rig, of: std::ops::Range<u64>) {
    texts(of).iter().for_each(|sql| rig.query(sql));
}

#[test]
fn what_ends_after_the_first_read_is_read_once_and_whole() {
    let rig = Rig::new();
    rig.connect();
    run(rig, 0..30);
    let mut reader = Reader::begin(rig);
    run(rig, 30..35);
    reader.read(rig);
    reader.read(rig);
    let open = rig.begin(rig.class.statement, "select 38").expect("recorded");
    run(rig, 35..38);
    reader.read(rig);
    assert_eq!(reader.texts(), texts(30..38), "what lasts is not read");
    rig.finish(open, "select 38");
    reader.read(rig);
    assert_eq!(reader.texts(), texts(30..39));
    assert_eq!((reader.lost, reader.position), (0, 39));
    let row = reader.rows.last().expect("rows");
    assert_eq!(row.digest.as_ref().expect("a digest").text, "select ??");
    assert!(row.head.end_event_id.is_some() && row.head.timer.wait_ps.is_some());
}

#[test]
fn a_long_history_is_read_in_pieces() {
    let rig = Rig::with(Config { history_long_size: [70_000; 4], ..small() });
    rig.connect();
    let mut reader = Reader::begin(rig);
    run(rig, 0..60_000);
    let first = reader.read(rig);
    assert!(first.more && first.read < 60_000, "{first:?}");
    reader.catch_up(rig);
    assert_eq!((reader.rows.len(), reader.lost), (60_000, 0));
    assert!(reader.texts() == texts(0..60_000), "in order");
}

#[test]
fn what_was_overwritten_is_counted() {
    let rig = Rig::new();
    rig.connect();
    let (mut fast, mut slow) = (Reader::begin(rig), Reader::begin(rig));
    for from in (0..5_000).step_by(50) {
        run(rig, from..from + 50);
        fast.read(rig);
    }
    slow.read(rig);
    assert_eq!((fast.rows.len(), fast.lost), (5_000, 0), "one reader's pace is no other's");
    assert!(slow.lost > 4_000, "{}", slow.lost);
    assert_eq!(slow.rows.len() as u64 + slow.lost, 5_000);
    let last = texts(4_900..5_000);
    assert!(
        slow.texts().ends_with(&last.iter().map(String::as_str).collect::<Vec<_>>()),
        "the last ones are there"
    );
}

#[test]
fn who_comes_and_goes_between_two_reads_is_read_with_its_name() {
    let rig = Rig::new();
    let mut reader = Reader::begin(rig);
    for n in 0..3 {
        let thread = rig.connect();
        rig.set_thread_account(thread, format!("user{n}").as_bytes(), b"host");
        rig.set_thread_processlist_id(thread, 100 + n);
        rig.query("select 1");
        // COM_CHANGE_USER
        rig.set_thread_account(thread, b"another", b"host");
        rig.query("select 2");
        rig.transaction(false, |_| ());
        rig.delete_thread(thread);
    }
    reader.catch_up(rig);
    let seen: Vec<_> = reader
        .origins
        .iter()
        .zip(reader.texts())
        .map(|(origin, sql)| (origin.processlist_id, origin.user.as_deref(), origin.host.as_deref(), sql))
        .collect();
    let names = ["user0", "user1", "user2"];
    let expected: Vec<_> = (0..3)
        .flat_map(|n| {
            let id = Some(100 + n as u64);
            [(id, Some(names[n]), Some("host"), "select 1"), (id, Some("another"), Some("host"), "select 2")]
        })
        .collect();
    assert_eq!((seen, reader.lost), (expected, 0));
    let now = rig.threads().len();
    assert_eq!(now, 0);
}

#[test]
fn what_ended_threads_did_is_counted_when_nothing_is_left_of_it() {
    let rig = Rig::new();
    let mut reader = Reader::begin(rig);
    for _ in 0..200 {
        let thread = rig.connect();
        run(rig, 0..7);
        rig.delete_thread(thread);
    }
    reader.catch_up(rig);
    assert!(reader.lost > 0 && !reader.rows.is_empty());
    assert_eq!(reader.rows.len() as u64 + reader.lost, 1_400);
    assert_eq!(reader.position, 1_400);
}

#[test]
fn a_truncated_history_is_read_all_the_same() {
    let rig = Rig::new();
    rig.connect();
    let mut reader = Reader::begin(rig);
    run(rig, 0..10);
    rig.reset(Reset::Events(EventType::Statement, Scope::HistoryLong));
    rig.reset(Reset::Events(EventType::Statement, Scope::History));
    reader.read(rig);
    assert_eq!((reader.texts(), reader.lost), (texts(0..10).iter().map(String::as_str).collect(), 0));
}

#[test]
fn transactions_are_read_as_statements_are() {
    let rig = Rig::new();
    rig.connect();
    let mut cursor = Cursor::default();
    let mut read = Vec::new();
    for expected in [0, 4, 0] {
        let piece = rig.stream_transactions(&mut cursor, Parts::ALL, &mut |row, _| {
            read.push((row.head.event_id, row.state));
            ControlFlow::Continue(())
        });
        assert_eq!((piece.read, piece.lost), (expected, 0));
        if expected == 0 && read.is_empty() {
            (0..4).for_each(|n| _ = rig.transaction(n % 2 == 0, |_| ()));
        }
    }
    assert_eq!(read, (1..=4).map(|id| (id, TransactionState::Committed)).collect::<Vec<_>>());
}

#[test]
fn what_there_is_no_memory_for_is_counted() {
    let rig = Rig::with(Config { memory_max: 1 << 20, ..Config::default() });
    let thread = rig.connect();
    // A level and a cell, but no ring yet.
    rig.set_consumer(Consumer::EventsStatementsHistory, false);
    rig.set_consumer(Consumer::EventsStatementsHistoryLong, false);
    rig.query("select 0");
    rig.set_consumer(Consumer::EventsStatementsHistory, true);
    let others: Vec<_> = std::iter::from_fn(|| rig.new_thread(rig.class.thread, Some(1), None)).collect();
    while rig.init_synch(rig.class.mutex, 1).is_some() {}
    let mut reader = Reader::begin(rig);
    run(rig, 0..100);
    reader.read(rig);
    assert_eq!((reader.rows.len(), reader.lost), (0, rig.losses_of("events_statements_lost")));
    assert_eq!(reader.lost, 100);
    others.into_iter().for_each(|other| rig.delete_thread(other));
    rig.set_current_thread(Some(thread));
    run(rig, 100..110);
    reader.read(rig);
    assert_eq!((reader.texts(), reader.lost), (texts(100..110).iter().map(String::as_str).collect(), 100));
}

#[test]
fn blocks_have_all_that_is_recorded_of_a_statement() {
    let rig = Rig::new();
    rig.connect();
    let mut reader = Reader::begin(rig);
    let long = "x".repeat(2 * MAX_SQL_TEXT);
    for sql in ["", "select 1", "select 'größer'", &long, "select 2"] {
        let statement = rig.begin(rig.class.statement, sql).expect("memory");
        use Counter::*;
        for (n, counter) in
            [LockTime, RowsSent, SortScan, RowsExamined, NoGoodIndexUsed].into_iter().enumerate()
        {
            rig.set_statement_counter(statement, counter, n as u64 + 3);
        }
        let outcome = Outcome { errno: 1146, message: b"no such table", errors: 1, ..Outcome::default() };
        rig.set_statement_outcome(statement, &outcome);
        rig.finish(statement, "select 1");
    }
    let program = rig.program(objects::PROCEDURE, b"db", b"p");
    for n in 0..3 {
        let statement = rig.open_statement(rig.class.nested_statement, 33, program).expect("memory");
        rig.start_statement(statement, b"db", here());
        if n < 2 {
            reader.read(rig);
        }
        rig.end_statement(statement, None);
    }
    reader.read(rig);
    assert_eq!((reader.rows.len(), reader.lost), (8, 0));
    let named = reader.rows.iter().filter(|row| row.object.name.as_deref() == Some("p")).count();
    assert_eq!(named, 3, "read from the middle of a block, too");
}

#[test]
fn the_layout_that_readers_elsewhere_know_is_the_one_they_are_told() {
    // Recorded by format 2. Should this fail, raise `RecordedStatement::FORMAT`, and record anew.
    let words = [
        0x9_000B,
        1000,
        0,
        4000,
        0x9_0007,
        0x21_0000_001C,
        0x802,
        5,
        3,
        2,
        u64::from_le_bytes(*b"db\0\0\0\0\0\0"),
        u64::from_le_bytes(*b"select 1"),
    ];
    let mut seen = 0;
    RecordedStatement::read(&words, 7, |of| {
        seen += 1;
        let StatementCounters { lock_time_ps, rows_sent, rows_examined, .. } = of.counters();
        assert_eq!((of.number, of.class()), (7, 7));
        assert_eq!((lock_time_ps, rows_sent, rows_examined), (5_000_000, 3, 2));
        assert_eq!((of.wait(), of.end()), (Some(3000), Some(4000)));
        assert_eq!(
            (of.current_schema().as_deref(), of.sql_text().as_deref()),
            (Some("db"), Some("select 1"))
        );
    });
    assert_eq!((seen, RecordedStatement::FORMAT), (1, 2));
}

/// What may happen between two moments.
#[derive(Clone, Debug)]
enum Step {
    Run { thread: usize, statements: u64 },
    Reconnect { thread: usize },
    Read { reader: usize },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..4usize, 1..60u64).prop_map(|(thread, statements)| Step::Run { thread, statements }),
        1 => (0..4usize).prop_map(|thread| Step::Reconnect { thread }),
        2 => (0..3usize).prop_map(|reader| Step::Read { reader }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn any_words_are_statements_or_none(words in prop::collection::vec(
        prop_oneof![any::<u64>(), 0..32u64, any::<u64>().prop_map(|word| word & 0xFF00_FF0F_00FF)], 0..512)
    ) {
        let mut seen = 0;
        RecordedStatement::read(&words, 0, |of| {
            seen += 1;
            let _texts = (of.sql_text(), of.current_schema(), of.program(), of.message_text());
            let _numbers = (of.counters(), of.wait(), of.end(), of.digest());
        });
        prop_assert!(seen <= words.len());
    }

    #[test]
    fn rows_and_lost_add_up_whatever_happens(steps in prop::collection::vec(step(), 1..80)) {
        let rig = Rig::new();
        let mut threads: Vec<ThreadRef> = (0..4).map(|_| rig.thread()).collect();
        let mut readers: Vec<Reader> = (0..3).map(|_| Reader::begin(rig)).collect();
        let mut done = 0;
        for step in steps {
            match step {
                Step::Run { thread, statements } => rig.on(threads[thread], || {
                    run(rig, done..done + statements);
                    done += statements;
                }),
                Step::Reconnect { thread } => {
                    rig.delete_thread(threads[thread]);
                    threads[thread] = rig.thread();
                }
                Step::Read { reader } => {
                    let reader = &mut readers[reader];
                    reader.catch_up(rig);
                    prop_assert_eq!(reader.rows.len() as u64 + reader.lost, done);
                    prop_assert_eq!(reader.position, done);
                }
            }
        }
        for reader in &mut readers {
            reader.catch_up(rig);
            prop_assert_eq!(reader.rows.len() as u64 + reader.lost, done);
            let mut keys: Vec<_> = reader.rows.iter().map(|row| (row.head.thread_id, row.head.event_id)).collect();
            let in_order = keys.iter().enumerate().all(|(at, key)| {
                keys[..at].iter().rev().find(|earlier| earlier.0 == key.0).is_none_or(|earlier| earlier.1 < key.1)
            });
            prop_assert!(in_order, "in order per thread");
            let rows = keys.len();
            keys.sort_unstable();
            keys.dedup();
            prop_assert_eq!(keys.len(), rows, "each once");
        }
    }
}

/// Whose the stream says waits and stages are.
fn users(rig: Rig, cursors: &mut [Cursor; 2]) -> [Vec<String>; 2] {
    let mut users = [const { Vec::new() }; 2];
    let [of_waits, of_stages] = &mut users;
    let name = |origin: &EventOrigin| origin.user.as_deref().unwrap_or("nobody").to_owned();
    rig.stream_waits(&mut cursors[0], Parts::NONE, &mut |_, origin| {
        of_waits.push(name(origin));
        ControlFlow::Continue(())
    });
    rig.stream_stages(&mut cursors[1], Parts::NONE, &mut |_, origin| {
        of_stages.push(name(origin));
        ControlFlow::Continue(())
    });
    users
}

#[test]
fn waits_and_stages_are_their_accounts() {
    let rig = Rig::new();
    let mut cursors = [Cursor::default(), Cursor::default()];
    users(rig, &mut cursors);
    let event = || {
        rig.wait(rig.class.mutex);
        rig.stage(rig.class.stage);
        rig.end_stage();
    };
    let thread = rig.connect();
    event();
    for user in ["ann", "bob"] {
        rig.set_thread_account(thread, user.as_bytes(), b"x");
        event();
        event();
    }
    // What a connection did before it said whose it is was its account's.
    let expected = ["ann", "ann", "ann", "bob", "bob"].map(str::to_owned);
    assert_eq!(users(rig, &mut cursors), [expected.to_vec(), expected.to_vec()]);
}

#[test]
fn a_block_that_is_begun_anew_takes_no_others_along() {
    let rig = Rig::with(Config { history_size: [100; 4], ..small() });
    rig.set_consumer(Consumer::EventsStatementsHistoryLong, false);
    let (one, other) = (rig.connect(), rig.connect());
    let mut cursor = Cursor::default();
    let nothing = &mut |_: &StreamedStatement<'_>, _: &EventOrigin| ControlFlow::Continue(());
    rig.stream_statements(&mut cursor, Parts::NONE, nothing);
    rig.on(one, || run(rig, 0..1));
    rig.on(other, || run(rig, 1..131));
    let mut seen = Vec::new();
    let piece = rig.stream_statements(&mut cursor, Parts::ALL, &mut |statement, _| {
        if seen.is_empty() {
            // The oldest block of the other thread, which is to be read next, is filled anew.
            rig.on(other, || run(rig, 131..190));
        }
        seen.push(statement.row().sql_text.expect("a text"));
        ControlFlow::Continue(())
    });
    let all = piece.read + piece.lost;
    assert!(piece.lost > 0 && piece.lost <= 60, "a block at most: {piece:?}, {seen:?}");
    assert!(all >= 131 && seen.len() as u64 == piece.read, "{piece:?}");
}

#[test]
fn a_forgotten_account_has_no_names_rather_than_those_of_another_in_its_users_place() {
    let rig = Rig::new();
    let mut reader = Reader::default();
    reader.read(rig);
    for (user, host) in [("ann", "x"), ("ann", "y"), ("bob", "x"), ("bob", "y")] {
        let thread = rig.thread();
        rig.set_thread_account(thread, user.as_bytes(), host.as_bytes());
        rig.on(thread, || rig.query("select 1"));
        rig.delete_thread(thread);
    }
    [Grouping::User, Grouping::Host].into_iter().for_each(|of| rig.reset(Reset::Connections(of)));
    let thread = rig.thread();
    rig.set_thread_account(thread, b"eve", b"z");
    // Threads that came since the last read are read by the next one.
    (0..2).for_each(|_| _ = reader.read(rig));
    let names = reader.origins.iter().map(|it| (it.user.as_deref(), it.host.as_deref()));
    assert_eq!(names.collect::<Vec<_>>(), [(None, None); 4]);
}
