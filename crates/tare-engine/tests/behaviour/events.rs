//! Single events: ids, nesting, names, objects, texts.

use tare_engine::operation;
use tare_engine::snapshot::*;
use tare_engine::*;

use tare_rig::*;

#[test]
fn a_wait_says_where_when_and_on_what() {
    let rig = Rig::new();
    let thread = rig.connect();
    let mutex = rig.init_synch(rig.class.mutex, 0xABCD).unwrap();
    rig.lock(mutex);
    let rows = rig.waits(Scope::History);
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!(row.head.thread_id, thread.thread_id());
    assert_eq!((row.head.event_id, row.head.end_event_id), (1, Some(1)));
    assert_eq!(row.head.name, MUTEX);
    assert_eq!(row.head.source.as_deref(), Some("place.cc:42"));
    assert_eq!(row.head.nesting, None);
    assert_eq!(row.operation, "lock");
    assert_eq!(row.object_instance_begin, 0xABCD);
    assert_eq!(row.number_of_bytes, None);
    let Timer { start_ps: Some(start), end_ps: Some(end), wait_ps: Some(wait) } = row.head.timer else {
        panic!("{:?}", row.head.timer)
    };
    assert_eq!(end - start, wait);
}

#[test]
fn an_untimed_wait_has_no_times_but_is_recorded_and_counted() {
    let rig = Rig::new();
    let thread = rig.connect();
    rig.set_instrument(rig.class.mutex, None, Some(false));
    assert!(rig.wait(rig.class.mutex));
    let row = &rig.waits(Scope::History)[0];
    assert_eq!(row.head.timer, Timer::default());
    assert_eq!(row.head.end_event_id, Some(1));
    assert_eq!(rig.thread_wait(thread, MUTEX), Stat { count: 1, ..Stat::default() });
}

#[test]
fn waits_in_waits_nest_in_them_and_the_outer_one_ends_last() {
    let rig = Rig::new();
    let thread = rig.connect();
    rig.wait_around(rig.class.file, || {
        rig.wait_around(rig.class.rwlock, || rig.wait(rig.class.mutex));
        rig.wait(rig.class.mutex);
    });
    let rows = rig.waits(Scope::History);
    let seen: Vec<_> =
        rows.iter().map(|row| (row.head.event_id, row.head.end_event_id, row.head.nesting)).collect();
    assert_eq!(
        seen,
        [
            (3, Some(3), Some((2, EventType::Wait))),
            (2, Some(3), Some((1, EventType::Wait))),
            (4, Some(4), Some((1, EventType::Wait))),
            (1, Some(4), None),
        ]
    );
    assert_eq!(rig.wait_ids(thread, Scope::Current), [1], "the outermost is the last that ended");
}

#[test]
fn current_waits_are_the_ones_in_progress_or_else_the_last() {
    let rig = Rig::new();
    let thread = rig.connect();
    assert!(rig.waits(Scope::Current).is_empty());
    rig.wait(rig.class.mutex);
    assert_eq!(rig.wait_ids(thread, Scope::Current), [1]);
    rig.wait_around(rig.class.file, || {
        rig.wait_around(rig.class.mutex, || {
            let rows = rig.waits(Scope::Current);
            let ids: Vec<_> = rows.iter().map(|row| (row.head.event_id, row.head.end_event_id)).collect();
            assert_eq!(ids, [(2, None), (3, None)]);
            for row in rows {
                let timer = row.head.timer;
                assert!(timer.end_ps >= timer.start_ps, "{timer:?}");
            }
        });
    });
    assert_eq!(rig.wait_ids(thread, Scope::Current), [2]);
}

#[test]
fn the_last_wait_is_the_last_even_where_some_are_not_timed() {
    let rig = Rig::new();
    let thread = rig.connect();
    rig.set_instrument(rig.class.mutex, None, Some(false));
    rig.wait(rig.class.rwlock);
    rig.wait(rig.class.mutex);
    assert_eq!(rig.wait_ids(thread, Scope::Current), [2]);
    assert_eq!(rig.wait_ids(thread, Scope::History), [1, 2]);
}

#[test]
fn a_wait_that_lasts_is_shown_once_however_many_happen_inside() {
    // The record in progress moves from block to block of the ring.
    let rig = Rig::new();
    let thread = rig.connect();
    rig.wait_around(rig.class.file, || {
        for n in 0..1_000 {
            rig.wait(rig.class.mutex);
            if n % 37 == 0 {
                assert_eq!(rig.wait_ids(thread, Scope::Current), [1], "after {n}");
            }
        }
    });
    assert_eq!(rig.wait_ids(thread, Scope::Current), [1]);
    let last = rig.waits(Scope::History).pop().unwrap();
    assert_eq!((last.head.event_id, last.head.end_event_id), (1, Some(1001)));
    assert_eq!(last.head.name, FILE);
    let long = rig.wait_ids(thread, Scope::HistoryLong);
    assert_eq!(long.iter().filter(|id| **id == 1).count(), 1, "{long:?}");
    rig.wait(rig.class.mutex);
    assert_eq!(rig.wait_ids(thread, Scope::Current), [1002]);
}

#[test]
fn waits_too_deep_are_counted_but_not_recorded() {
    let rig = Rig::new();
    let thread = rig.connect();
    fn nest(rig: Rig, depth: usize) {
        if depth > 0 {
            rig.wait_around(rig.class.mutex, || nest(rig, depth - 1));
        }
    }
    nest(rig, 12);
    assert_eq!(rig.thread_wait(thread, MUTEX).count, 12);
    let recorded = rig.waits(Scope::History).len() as u64;
    assert_eq!(recorded + rig.losses_of("locker_lost"), 12);
    nest(rig, 1);
    assert_eq!(rig.waits(Scope::Current).len(), 1, "the stack is empty again");
}

#[test]
fn stages_nest_in_the_statement_and_waits_in_the_stage() {
    let rig = Rig::new();
    rig.connect();
    rig.statement(rig.class.statement, "select 1", |_| {
        rig.stage(rig.class.stage);
        rig.wait(rig.class.mutex);
        rig.stage(rig.class.stage_two);
        rig.wait(rig.class.mutex);
        rig.end_stage();
        rig.wait(rig.class.mutex);
    });
    let statements = rig.statements(Scope::History);
    assert_eq!((statements[0].head.event_id, statements[0].head.end_event_id), (1, Some(6)));
    let stages = rig.stages(Scope::History);
    let seen: Vec<_> = stages
        .iter()
        .map(|row| (row.head.name, row.head.event_id, row.head.end_event_id, row.head.nesting))
        .collect();
    let in_statement = Some((1, EventType::Statement));
    assert_eq!(seen, [(STAGE, 2, Some(3), in_statement), (STAGE_TWO, 4, Some(5), in_statement)]);
    let nesting: Vec<_> = rig.waits(Scope::History).iter().map(|row| row.head.nesting).collect();
    assert_eq!(nesting, [Some((2, EventType::Stage)), Some((4, EventType::Stage)), in_statement]);
}

#[test]
fn a_stage_ends_at_the_moment_the_next_begins() {
    let rig = Rig::new();
    rig.connect();
    rig.stage(rig.class.stage);
    rig.stage(rig.class.stage_two);
    rig.end_stage();
    let rows = rig.stages(Scope::History);
    let (end, start) = (rows[0].head.timer.end_ps.unwrap(), rows[1].head.timer.start_ps.unwrap());
    assert!(end.abs_diff(start) <= 1, "but for rounding: {end} {start}");
}

#[test]
fn a_stage_in_progress_shows_its_progress_and_keeps_it_when_it_ends() {
    let rig = Rig::new();
    let thread = rig.connect();
    let progress = rig.stage(rig.class.stage_with_progress).expect("it reports progress");
    progress[0].store(3, std::sync::atomic::Ordering::Relaxed);
    progress[1].store(10, std::sync::atomic::Ordering::Relaxed);
    let current = rig.stages(Scope::Current);
    assert_eq!((current[0].head.end_event_id, current[0].progress), (None, Some((3, 10))));
    assert!(rig.current_stage_progress().is_some());
    assert!(rig.stage(rig.class.stage).is_none(), "this one reports none");
    assert!(rig.current_stage_progress().is_none());
    assert_eq!(rig.stages(Scope::History)[0].progress, Some((3, 10)));
    assert_eq!(rig.stage_ids(thread, Scope::Current), [2]);
    assert_eq!(rig.stages(Scope::Current)[0].progress, None);
    let state = |rig: &Rig| rig.threads().pop().unwrap().state;
    assert_eq!(state(&rig).as_deref(), Some("one"));
    rig.end_stage();
    assert_eq!(state(&rig), None);
}

#[test]
fn a_statement_carries_everything_the_host_said() {
    let rig = Rig::new();
    let thread = rig.connect();
    let sql = "select name from t where id = 17";
    let statement = rig.begin(rig.class.statement, sql).unwrap();
    rig.add_statement_counter(statement, Counter::RowsSent, 2);
    rig.add_statement_counter(statement, Counter::RowsSent, 3);
    rig.set_statement_counter(statement, Counter::RowsExamined, 9);
    rig.set_statement_counter(statement, Counter::LockTime, 7);
    let running = rig.statements(Scope::Current).pop().unwrap();
    assert_eq!((running.head.end_event_id, running.sql_text.as_deref()), (None, Some(sql)));
    let outcome = Outcome {
        errno: 1146,
        sqlstate: Some(*b"42S02"),
        message: b"Table 'db.t' doesn't exist",
        errors: 1,
        warnings: 2,
        rows_affected: 4,
    };
    rig.set_statement_outcome(statement, &outcome);
    rig.end_statement(
        statement,
        Some(&DigestTokens { bytes: b"select ?", charset: 33, cut: false, hash: last_bytes }),
    );
    for scope in [Scope::Current, Scope::History, Scope::HistoryLong] {
        let row = rig.statements(scope).pop().unwrap();
        assert_eq!(row.head.thread_id, thread.thread_id());
        assert_eq!(row.head.name, STATEMENT);
        assert_eq!(row.sql_text.as_deref(), Some(sql));
        assert!(!row.sql_text_cut);
        assert_eq!(row.digest.unwrap().text, "select ?");
        assert_eq!(row.current_schema.as_deref(), Some("db"));
        assert_eq!(row.mysql_errno, 1146);
        assert_eq!(row.returned_sqlstate.as_deref(), Some("42S02"));
        assert_eq!(row.message_text.as_deref(), Some("Table 'db.t' doesn't exist"));
        let expected = StatementCounters {
            lock_time_ps: 7_000_000,
            errors: 1,
            warnings: 2,
            rows_affected: 4,
            rows_sent: 5,
            rows_examined: 9,
            ..StatementCounters::default()
        };
        assert_eq!(row.counters, expected);
        assert_eq!((row.nesting_level, row.head.nesting), (0, None));
        assert_eq!(row.object.name, None);
    }
}

#[test]
fn a_long_text_is_cut_and_says_so() {
    let rig = Rig::with(Config { max_sql_text_length: 10, ..small() });
    rig.connect();
    for (sql, shown, cut) in
        [("0123456789", "0123456789", false), ("0123456789x", "0123456...", true), ("abc", "abc", false)]
    {
        rig.query(sql);
        for scope in [Scope::Current, Scope::History] {
            let row = rig.statements(scope).pop().unwrap();
            assert_eq!((row.sql_text.as_deref(), row.sql_text_cut), (Some(shown), cut));
        }
    }
}

#[test]
fn of_several_statements_in_a_packet_each_has_its_own_text() {
    let rig = Rig::with(Config { max_sql_text_length: 16, ..small() });
    let thread = rig.connect();
    // What the host says at first, and when it has parsed the statement.
    for (sql, parsed, shown) in [
        ("do 1; do 2", "do 1", "do 1"),
        ("do 1+f(); do 2", "do 1", "do 1+f(); do 2"), // no statement ends there
        ("do 2; do 3", "do 7", "do 2; do 3"),
        ("do 123; do 4", "do 123; do 4", "do 123; do 4"),
        ("do 1234567890123; do 5", "do 1234567890123", "do 1234567890123"),
        ("do 123456789012; do 5", "do 123456789012", "do 123456789012"),
    ] {
        rig.set_thread_info(thread, Some(sql.as_bytes()));
        let statement = rig.begin(rig.class.statement, sql).expect("a statement");
        rig.set_thread_info(thread, Some(parsed.as_bytes()));
        rig.finish(statement, parsed);
        rig.set_thread_info(thread, None);
        for scope in [Scope::Current, Scope::History] {
            let row = rig.statements(scope).pop().unwrap();
            assert_eq!((row.sql_text.as_deref(), row.sql_text_cut), (Some(shown), false), "{sql}");
        }
    }
}

#[test]
fn every_length_of_text_survives_the_ring() {
    let rig = Rig::with(Config { max_sql_text_length: MAX_SQL_TEXT as u32, ..small() });
    rig.connect();
    let text: String = ('a'..='z').cycle().take(MAX_SQL_TEXT + 100).collect();
    for len in (1..80).chain([1023, 1024, 1025, MAX_SQL_TEXT - 1, MAX_SQL_TEXT, MAX_SQL_TEXT + 1]) {
        rig.query(&text[..len]);
        let row = rig.statements(Scope::History).pop().unwrap();
        let shown = row.sql_text.unwrap();
        let cut = len > MAX_SQL_TEXT;
        let expected = if cut { format!("{}...", &text[..MAX_SQL_TEXT - 3]) } else { text[..len].to_owned() };
        assert_eq!(shown, expected);
        assert_eq!(row.sql_text_cut, cut);
    }
}

#[test]
fn nested_statements_know_their_parent_level_and_program() {
    let rig = Rig::new();
    rig.connect();
    let program = rig.program(objects::PROCEDURE, b"db", b"fill").unwrap();
    rig.statement(rig.class.statement, "call fill()", |_| {
        let inner = rig.open_statement(rig.class.nested_statement, 33, Some(program)).unwrap();
        rig.start_statement(inner, b"db", here());
        let running: Vec<_> =
            rig.statements(Scope::Current).iter().map(|row| (row.head.event_id, row.nesting_level)).collect();
        assert_eq!(running, [(1, 0), (2, 1)]);
        let ended = rig.end_statement(inner, None);
        rig.count_program_statement(program, ended);
    });
    let row = rig.statements(Scope::History).remove(0);
    assert_eq!(row.head.nesting, Some((1, EventType::Statement)));
    assert_eq!((row.nesting_level, row.head.name), (1, NESTED));
    assert_eq!(row.object.object_type, Some("PROCEDURE"));
    assert_eq!((row.object.schema.as_deref(), row.object.name.as_deref()), (Some("db"), Some("fill")));
    assert_eq!(rig.statements(Scope::Current).len(), 1, "the last top-level one, once none runs");
}

#[test]
fn statements_nested_too_deeply_are_lost_and_counted() {
    let rig = Rig::new();
    rig.connect();
    let open: Vec<_> = (0..15).map(|_| rig.begin(rig.class.statement, "select 1")).collect();
    let opened: Vec<_> = open.into_iter().flatten().collect();
    assert_eq!(opened.len() as u64 + rig.losses_of("nested_statement_lost"), 15);
    for statement in opened.into_iter().rev() {
        rig.finish(statement, "select 1");
    }
    let counted = rig.global_statement(STATEMENT).stat.count;
    assert_eq!(counted + rig.losses_of("nested_statement_lost"), 15);
}

#[test]
fn a_refined_statement_counts_as_what_it_became() {
    let rig = Rig::new();
    let thread = rig.connect();
    let statement = rig.begin(rig.class.statement, "insert").unwrap();
    assert!(rig.refine_statement(statement, rig.class.statement_two));
    rig.finish(statement, "insert");
    assert_eq!(rig.thread_statement(thread, STATEMENT).stat.count, 0);
    assert_eq!(rig.thread_statement(thread, STATEMENT_TWO).stat.count, 1);
    assert_eq!(rig.statements(Scope::History)[0].head.name, STATEMENT_TWO);
}

#[test]
fn a_statement_refined_to_what_is_off_is_forgotten() {
    let rig = Rig::new();
    rig.connect();
    rig.set_instrument(rig.class.statement_two, Some(false), None);
    let statement = rig.begin(rig.class.statement, "insert").unwrap();
    assert!(!rig.refine_statement(statement, rig.class.statement_two));
    assert!(rig.statements(Scope::History).is_empty());
    assert_eq!(rig.global_statement(STATEMENT).stat.count, 0);
    rig.query("select 1");
    assert_eq!(rig.statements(Scope::History)[0].nesting_level, 0, "its level is free again");
}

#[test]
fn a_transaction_that_is_ended_twice_says_each_time_when() {
    let rig = Rig::new();
    rig.connect();
    rig.transaction(false, |transaction| {
        rig.query("SELECT 1");
        rig.end_transaction(transaction, true);
        rig.query("SELECT 2");
        rig.query("SELECT 3");
    });
    let rows = rig.transactions(Scope::History);
    let ids: Vec<_> = rows.iter().map(|row| (row.head.event_id, row.head.end_event_id)).collect();
    assert_eq!(ids, [(1, Some(2)), (1, Some(4))]);
}

#[test]
fn a_transaction_nests_in_the_statement_that_began_it_and_later_statements_in_it() {
    let rig = Rig::new();
    rig.connect();
    let mut open = None;
    rig.statement(rig.class.statement, "begin", |_| {
        let mut transaction = rig.open_transaction(&transaction_start(false)).unwrap();
        rig.start_transaction(&mut transaction, here());
        open = Some(transaction);
    });
    rig.query("select 1");
    let transaction = open.unwrap();
    let running = rig.transactions(Scope::Current).pop().unwrap();
    assert_eq!((running.state, running.head.end_event_id), (TransactionState::Active, None));
    rig.add_savepoints(&transaction, Savepoint::Set, 2);
    rig.add_savepoints(&transaction, Savepoint::RollbackTo, 1);
    rig.add_savepoints(&transaction, Savepoint::Release, 3);
    rig.set_transaction_gtid(&transaction, 1, 2, 3);
    rig.set_transaction_trx_id(&transaction, 5);
    rig.set_transaction_trx_id(&transaction, 6);
    rig.end_transaction(&transaction, false);
    for scope in [Scope::Current, Scope::History, Scope::HistoryLong] {
        let row = rig.transactions(scope).pop().unwrap();
        assert_eq!(row.state, TransactionState::RolledBack);
        assert_eq!(row.head.nesting, Some((1, EventType::Statement)));
        assert_eq!((row.savepoints, row.rollback_to_savepoint, row.release_savepoint), (2, 1, 3));
        assert_eq!((row.gtid.as_deref(), row.trx_id), (Some("1-2-3"), Some(5)));
        assert_eq!(
            (row.isolation_level, row.read_only, row.autocommit),
            (Some("REPEATABLE READ"), false, true)
        );
        assert_eq!(row.xa_state, None);
    }
    let second = &rig.statements(Scope::History)[1];
    assert_eq!(second.head.nesting, Some((2, EventType::Transaction)));
}

#[test]
fn an_xa_transaction_shows_its_identifier_and_state() {
    let rig = Rig::new();
    rig.connect();
    let xid = Xid { format_id: 1, gtrid: b"order-1", bqual: &[0, 255] };
    let mut transaction = rig.open_transaction(&transaction_start(false)).unwrap();
    rig.note_transaction_xid(&transaction, &xid);
    rig.start_transaction(&mut transaction, here());
    rig.set_transaction_xid(&transaction, &xid, 1);
    rig.set_transaction_xa_state(&transaction, 3);
    let running = rig.transactions(Scope::Current).pop().unwrap();
    assert_eq!(running.xa_state, Some("PREPARED"));
    rig.end_transaction(&transaction, true);
    let row = rig.transactions(Scope::History).pop().unwrap();
    assert_eq!(row.xa_state, Some("COMMITTED"));
    assert_eq!(row.xid_format_id, Some(1));
    assert_eq!((row.xid_gtrid.as_deref(), row.xid_bqual.as_deref()), (Some("order-1"), Some("0x00FF")));
}

#[test]
#[allow(unsafe_code)]
fn packed_handles_come_back_as_they_were() {
    let rig = Rig::new();
    let thread = rig.connect();
    let wait = rig.start_wait(rig.class.mutex, WaitObject::new(1, operation::MUTEX), here()).unwrap();
    let (flags, place, of, start) = wait.pack();
    // SAFETY: just packed, and ended here and nowhere else.
    let wait = unsafe { Wait::unpack(flags, place, of, start) };
    rig.end_wait(&wait, 1, None);
    let (place, of) = rig.begin(rig.class.statement, "select 1").unwrap().pack();
    // SAFETY: packed just now, by this thread.
    let statement = unsafe { Statement::unpack(place, of.address()) }.unwrap();
    rig.finish(statement, "select 1");
    let mut transaction = rig.open_transaction(&transaction_start(true)).unwrap();
    rig.start_transaction(&mut transaction, here());
    let (flags, of, start) = transaction.pack();
    // SAFETY: packed just now, by this thread.
    let transaction = unsafe { Transaction::unpack(flags, of, start) };
    rig.end_transaction(&transaction, true);
    assert_eq!(rig.thread_wait(thread, MUTEX).count, 1);
    assert_eq!(rig.thread_statement(thread, STATEMENT).stat.count, 1);
    assert_eq!(rig.thread_transaction(thread).read_only.count, 1);
    assert_eq!(rig.wait_ids(thread, Scope::History), [1]);
    assert_eq!(rig.statement_ids(thread, Scope::History), [2]);
    assert_eq!(rig.transaction_ids(thread, Scope::History), [3]);
}
