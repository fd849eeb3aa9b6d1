//! One writer and one reader at the same place, as fast as they can: each pair was wrong once, or easily is.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tare_engine::snapshot::*;
use tare_engine::*;

use crate::rows::*;
use tare_rig::*;

/// Runs `write` over and over until `read` has been called `reads` times.
pub(crate) fn race(reads: u32, write: impl Fn(u64) + Sync, read: impl Fn()) {
    let (done, writes) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                write(writes.load(Relaxed));
                writes.fetch_add(1, Relaxed);
            }
        });
        while writes.load(Relaxed) == 0 {
            std::thread::yield_now();
        }
        let reads = || (0..reads).for_each(|_| read());
        let reader = std::panic::catch_unwind(std::panic::AssertUnwindSafe(reads));
        done.store(true, Relaxed);
        reader.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

#[test]
fn a_current_transaction_is_read_whole() {
    let rig = Rig::new();
    let thread = rig.thread();
    let write = |n: u64| {
        let n = n % 1000 + 1;
        rig.on(thread, || {
            let start = TransactionStart { trx_id: n, ..transaction_start(n.is_multiple_of(2)) };
            let mut transaction = rig.open_transaction(&start).unwrap();
            rig.start_transaction(&mut transaction, here());
            rig.add_savepoints(&transaction, Savepoint::Set, n % 7);
            rig.set_transaction_gtid(&transaction, 1, 2, n);
            rig.end_transaction(&transaction, n.is_multiple_of(3));
        });
    };
    race(20_000, write, || rig.transactions(Scope::Current).iter().for_each(check_transaction));
}

#[test]
fn recycled_blocks_are_read_whole_or_not_at_all() {
    let rig = Rig::with(Config { history_size: [1; 4], history_long_size: [0; 4], ..small() });
    let things = RowThings::new(rig);
    let thread = rig.thread();
    let write = |n: u64| {
        rig.on(thread, || {
            rig.file_io(things.files[n as usize % 3], io::FILE_READ, FILES[n as usize % 3].len() as u64);
        });
    };
    race(1_000, write, || {
        for scope in [Scope::Current, Scope::History] {
            let rows = rig.waits(scope);
            assert!(rows.len() <= 1, "{rows:?}");
            rows.iter().for_each(check_wait);
        }
    });
}

#[test]
fn blocks_that_change_hands_are_their_owners() {
    // Two threads exchange blocks over the long history; each one's events are of its own instrument.
    let rig = Rig::with(Config { history_size: [1; 4], history_long_size: [64; 4], ..small() });
    let threads = [(rig.thread(), rig.class.mutex, MUTEX), (rig.thread(), rig.class.rwlock, RWLOCK)];
    let write = |n: u64| {
        let (thread, class, _) = threads[n as usize / 64 % 2];
        rig.on(thread, || rig.wait(class));
    };
    race(1_000, write, || {
        for row in rig.waits(Scope::HistoryLong) {
            let owner = threads.iter().find(|(thread, ..)| thread.thread_id() == row.head.thread_id);
            assert_eq!(owner.expect("a known thread").2, row.head.name, "{row:?}");
        }
    });
}

#[test]
fn threads_that_end_are_left_out_by_those_who_read_them() {
    let rig = Rig::new();
    let things = RowThings::new(rig);
    let write = |n: u64| {
        let own = OwnRows::connect(rig, &things);
        let mut random = RowRandom::new(n);
        let mut issued = Issued::default();
        for _ in 0..n % 20 {
            event(rig, &things, &own, &mut random, &mut issued);
        }
        own.disconnect(rig);
    };
    race(300, write, || {
        for row in rig.wait_rows(Grouping::Thread) {
            assert!(row.stat.count <= 20 * 50, "{row:?}");
        }
        for row in rig.statement_rows(Grouping::Thread) {
            assert!(row.stat.stat.count <= 20, "{row:?}");
        }
        rig.statements(Scope::Current).iter().for_each(check_statement);
        rig.digests();
    });
}

#[test]
fn who_asks_for_one_thread_never_gets_another_in_its_slab() {
    let rig = Rig::new();
    let things = RowThings::new(rig);
    let latest = AtomicU64::new(0);
    let write = |n: u64| {
        let own = OwnRows::connect(rig, &things);
        latest.store(own.id, Relaxed);
        let mut random = RowRandom::new(n);
        event(rig, &things, &own, &mut random, &mut Issued::default());
        own.disconnect(rig);
    };
    race(20_000, write, || {
        let id = latest.load(Relaxed);
        let asked = ReadRequest { what: Scope::Current, thread: Some(id), parts: Parts::ALL };
        let heads = [
            rig.transactions(asked).into_iter().map(|row| row.head.thread_id).collect::<Vec<u64>>(),
            rig.statements(asked).into_iter().map(|row| row.head.thread_id).collect(),
            rig.stages(asked).into_iter().map(|row| row.head.thread_id).collect(),
            rig.waits(asked).into_iter().map(|row| row.head.thread_id).collect(),
            rig.threads_of(ThreadKey::Thread(id)).into_iter().map(|row| row.thread_id).collect(),
        ];
        assert!(heads.iter().flatten().all(|of| *of == id), "asked for {id}: {heads:?}");
    });
}

#[test]
fn a_thread_that_ends_between_two_rows_of_a_reader_leads_nowhere() {
    let rig = Rig::with(Config { history_long_size: [0; 4], ..small() });
    let (first, second) = (rig.thread(), rig.thread());
    rig.on(second, || rig.wait(rig.class.mutex));
    let mut owners = Vec::new();
    rig.wait_summary(Grouping::Thread, &mut |row| {
        if owners.is_empty() {
            // Its slab's block is the last given back, and the first taken again: as a ring, full of numbers
            // that were never places.
            rig.delete_thread(second);
            rig.on(first, || (0..500).for_each(|_| _ = rig.wait(rig.class.rwlock)));
        }
        owners.push(row.owner.thread_id);
        ControlFlow::Continue(())
    });
    assert!(owners.iter().all(|owner| *owner == first.thread_id()), "{owners:?}");
}

#[test]
fn sums_are_whole_while_threads_end() {
    // 100 waits before, and each thread adds one and ends: the sum never falls and never leaps.
    let rig = Rig::new();
    let write = |_| {
        let thread = rig.connect();
        rig.wait(rig.class.mutex);
        rig.delete_thread(thread);
    };
    let last = Cell::new(0);
    race(2_000, write, || {
        let count = rig.global_wait(MUTEX).count;
        assert!(count >= last.get(), "{} then, {count} now", last.get());
        last.set(count);
    });
}

#[test]
fn digests_entered_while_others_truncate_are_counted_where_they_belong() {
    let rig = Rig::new();
    let thread = rig.thread();
    let queries = ["select a", "select b", "insert c", "delete d"];
    race(
        2_000,
        |n| rig.on(thread, || rig.query(queries[n as usize % 4])),
        || {
            rig.reset(Reset::Digests);
            for row in rig.digests() {
                let text = row.digest.as_ref().and_then(Spelling::text);
                assert!(text.is_some_and(|text| queries.contains(&text)), "{text:?}");
            }
        },
    );
    rig.reset(Reset::Digests);
    rig.on(thread, || queries.iter().for_each(|query| rig.query(query)));
    let counts: Vec<u64> = rig.digests().iter().map(|row| row.stat.stat.count).collect();
    assert_eq!(counts, [1; 4], "no thread goes on counting for what was forgotten");
}

#[test]
fn an_event_never_shows_another_files_name() {
    // Files come and go, so slots are used again; the bytes of an event say which name is its file's.
    let rig = Rig::with(Config { history_size: [200; 4], history_long_size: [0; 4], ..small() });
    let thread = rig.thread();
    let write = |n: u64| {
        let name = FILES[n as usize % 3];
        rig.on(thread, || {
            let file = rig.find_file(rig.class.file, name.as_bytes(), true).unwrap();
            rig.file_io(file, io::FILE_READ, name.len() as u64);
            rig.destroy_file(file);
        });
    };
    race(1_000, write, || {
        rig.waits(Scope::History).iter().for_each(check_wait);
        for row in rig.files() {
            assert!(FILES.contains(&&*row.file_name), "{row:?}");
        }
    });
}

#[test]
fn a_file_that_is_renamed_has_one_name_or_the_other() {
    let rig = Rig::new();
    let names =
        [b"/data/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".as_slice(), b"/data/bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"];
    let file = rig.find_file(rig.class.file, names[0], true).unwrap();
    let write = |n: u64| rig.rename_file(names[n as usize % 2], names[(n as usize + 1) % 2]);
    race(20_000, write, || {
        for row in rig.files() {
            assert!(names.contains(&row.file_name.as_bytes()), "{row:?}");
        }
    });
    assert_eq!(rig.files().len(), 1);
    rig.destroy_file(file);
}

#[test]
fn tables_that_come_and_go_are_read_whole() {
    let rig = Rig::new();
    rig.connect();
    let write = |n: u64| {
        let share = rig.share("db", ["t", "another"][n as usize % 2], &["PRIMARY"]);
        let table = rig.open_table(share, 1).unwrap();
        rig.table_io(table, 0, 0, 5);
        rig.close_table(table);
        let name = ["t", "another"][n as usize % 2].as_bytes();
        rig.drop_table_share(&TableName { temporary: false, schema: b"db", name });
    };
    let write = |n: u64| {
        if n == 0 {
            rig.connect();
        }
        write(n);
    };
    race(5_000, write, || {
        for row in rig.tables() {
            assert_eq!(row.schema, "db", "{row:?}");
            assert!(["t", "another"].contains(&&*row.name), "{row:?}");
            for index in row.indexes {
                assert!(matches!(index.io.fetch.count, 0 | 5), "{index:?}");
            }
        }
    });
}

#[test]
fn handles_closed_at_once_after_a_reset_lose_nothing() {
    const ROUNDS: u64 = 300;
    let rig = Rig::new();
    rig.connect();
    let keys: Vec<String> = (0..MAX_INDEXES).map(|key| format!("k{key}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let share = rig.share("db", "t", &keys);
    let gate = Barrier::new(3);
    let closer = || {
        rig.connect();
        for _ in 0..ROUNDS {
            let table = rig.open_table(share, 1).unwrap();
            gate.wait();
            (0..MAX_INDEXES).for_each(|key| rig.table_io(table, 0, key, 1));
            gate.wait();
            rig.close_table(table);
            gate.wait();
        }
    };
    let wrong: Vec<Stat> = std::thread::scope(|scope| {
        (0..2).for_each(|_| _ = scope.spawn(closer));
        let round = |_| {
            // What is left of the last round's handles is of before the reset.
            rig.reset(Reset::TableIo);
            (0..3).for_each(|_| _ = gate.wait());
            let stats = rig.tables().remove(0).indexes.into_iter().map(|index| index.io.fetch);
            stats
                .filter(|io| io.count != 2 || io.min_ps > io.max_ps || u128::from(io.max_ps) > io.sum_ps)
                .collect::<Vec<_>>()
        };
        (0..ROUNDS).flat_map(round).collect()
    });
    assert!(wrong.is_empty(), "{} figures of {ROUNDS} rounds, such as {:?}", wrong.len(), wrong[0]);
}

#[test]
fn waits_of_several_threads_for_one_lock_are_all_counted_for_it() {
    let rig = Rig::new();
    let lock = rig.init_synch(rig.class.rwlock, 1).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let thread = rig.connect();
                for _ in 0..5_000 {
                    let wait = rig.start_synch_wait(lock, operation::RWLOCK, here()).unwrap();
                    rig.end_counted_synch_wait(lock, &wait);
                }
                rig.delete_thread(thread);
            });
        }
    });
    let own = rig.synchs().remove(0).waits;
    assert_eq!((own.count, rig.global_wait(RWLOCK).count), (20_000, 20_000));
    assert!(own.min_ps <= own.max_ps && u128::from(own.max_ps) <= own.sum_ps);
}

#[test]
fn what_a_connection_leaves_while_its_account_is_forgotten_goes_to_its_user() {
    const ERRORS: &[KnownError] = &[KnownError { number: 1062, name: "ER_DUP_ENTRY", sqlstate: "23000" }];
    let rig = Rig::with(Config { errors: ERRORS, ..small() });
    let ended = AtomicU64::new(0);
    let write = |_| {
        let thread = rig.thread();
        rig.set_thread_account(thread, b"a", b"x");
        rig.on(thread, || rig.error_raised(1062));
        rig.delete_thread(thread);
        ended.fetch_add(1, Relaxed);
    };
    race(3_000, write, || rig.reset(Reset::Connections(Grouping::Account)));
    let of_user = |row: &Summary<ErrorStat>| row.owner.user.as_deref() == Some("a");
    let raised = rig
        .error_rows(Grouping::User)
        .iter()
        .filter(|row| of_user(row))
        .map(|row| row.stat.raised)
        .sum::<u64>();
    assert_eq!(raised, ended.into_inner());
}

#[test]
fn table_access_of_a_statement_that_was_not_chosen_is_its_own_threads() {
    let rig = Rig::with(Config {
        instruments: Box::new(|_| Initial { level: Recording::Sampled, ..Initial::default() }),
        ..small()
    });
    rig.set_sampling(SampleRate::OneIn(1_000_000), Duration::from_secs(3600));
    rig.adjust_sampling();
    // Threads come one after the other in one slab; which table it is says which thread.
    let names = ["even", "odd"];
    rig.connect();
    let tables = names.map(|name| rig.open_table(rig.share("db", name, &["PRIMARY"]), 1).unwrap());
    let fetch = |often: usize, inside: &dyn Fn()| {
        let thread = rig.connect();
        let table = tables[thread.thread_id() as usize % 2];
        rig.statement(rig.class.statement, "select", |_| {
            for _ in 0..often {
                let wait = rig.start_tallied_table_io(table, 0, 0).unwrap();
                inside();
                rig.end_table_io_wait(table, &wait, 0, 0, 1);
            }
        });
        rig.delete_thread(thread);
    };
    let check = || {
        let waits = rig.waits(Scope::Current);
        let rows: Vec<&WaitRow> = waits.iter().filter(|row| row.head.name == TABLE_IO).collect();
        for row in &rows {
            assert_eq!(row.object.name.as_deref(), Some(names[row.head.thread_id as usize % 2]), "{row:?}");
        }
        rows.len()
    };
    fetch(1, &|| assert_eq!(check(), 1));
    // The more threads there are, the longer it takes from one look at a thread to the next.
    (0..100).for_each(|_| _ = rig.thread());
    race(2_000, |_| fetch(20, &|| ()), || _ = check());
}

#[test]
fn programs_that_come_and_go_are_read_whole() {
    let rig = Rig::new();
    let names = [b"aaaaaaaaaaaaaaaa".as_slice(), b"bbbbbbbbbbbbbbbb"];
    let write = |n: u64| {
        let name = names[n as usize % 2];
        rig.program(1, name, name).unwrap();
        rig.drop_program(1, name, name);
    };
    race(200_000, write, || rig.programs().iter().for_each(|row| assert_eq!(row.schema, row.name)));
}

#[test]
fn a_running_execution_shows_its_own_statements_text() {
    let rig = Rig::with(Config {
        instruments: Box::new(|_| Initial { level: Recording::Sampled, ..Initial::default() }),
        extended: true,
        ..small()
    });
    rig.set_sampling(SampleRate::OneIn(1_000_000), Duration::from_secs(3600));
    rig.adjust_sampling();
    let write = |_| {
        let thread = rig.connect();
        let sql = format!("select {}", thread.thread_id());
        let prepared = rig.create_prepared(1, 1, b"", 1, None).unwrap();
        rig.set_prepared_text(prepared, sql.as_bytes());
        let mut bytes = [0; 1024];
        let tokens =
            DigestTokens { bytes: tokens_of(&sql, &mut bytes), charset: 33, cut: false, hash: last_bytes };
        let statement = rig.begin(rig.class.statement, &sql).unwrap();
        rig.set_prepared_digest(prepared, statement, &tokens);
        rig.end_statement(statement, None);
        let statement = rig.begin(rig.class.statement, "").unwrap();
        rig.execute_prepared(statement, prepared);
        rig.end_statement(statement, None);
        rig.destroy_prepared(prepared);
        rig.delete_thread(thread);
    };
    race(50_000, write, || {
        for row in rig.statements(Scope::Current) {
            let own = format!("select {}", row.head.thread_id);
            assert!(row.sql_text.as_ref().is_none_or(|sql| *sql == own), "{row:?}");
        }
    });
}

#[test]
fn what_was_counted_for_an_index_is_not_shown_for_another() {
    let rig = Rig::new();
    // The other tables take their time.
    (0..50).for_each(|at| _ = rig.share("db", &format!("other{at}"), &["PRIMARY"]));
    // Through one index rows are only fetched, and through the other only inserted.
    let write = |n: u64| {
        if n == 0 {
            rig.connect();
        }
        let table = rig.open_table(rig.share("db", "t", &[["fetch", "insert"][n as usize % 2]]), 1).unwrap();
        (0..n % 5).for_each(|_| rig.table_io(table, n as u8 % 2, 0, 1));
        rig.close_table(table);
    };
    race(1_000, write, || {
        for index in rig.tables().into_iter().flat_map(|row| row.indexes) {
            match index.name.as_deref() {
                Some("fetch") => assert_eq!(index.io.insert.count, 0, "{index:?}"),
                Some("insert") => assert_eq!(index.io.fetch.count, 0, "{index:?}"),
                name => assert_eq!(name, Some("PRIMARY")),
            }
        }
    });
}

#[test]
fn sessions_of_another_in_a_forgotten_accounts_place_are_not_its_users() {
    const MANY: u64 = 1 << 40;
    let rig = Rig::new();
    let session = |user: &str, host: &str, questions: u64| {
        let thread = rig.thread();
        rig.set_thread_account(thread, user.as_bytes(), host.as_bytes());
        let handle = thread.thread_id();
        rig.host.sessions.lock().unwrap().insert(handle, vec![questions, 0]);
        rig.begin_session(thread, handle);
        rig.delete_thread(thread);
        rig.host.sessions.lock().unwrap().remove(&handle);
    };
    let stays = rig.thread();
    rig.set_thread_account(stays, b"a", b"z");
    // The accounts behind it take their time.
    let write = |n: u64| {
        session("a", "x", 1);
        if n == 0 {
            (0..50).for_each(|at| {
                let thread = rig.thread();
                rig.set_thread_account(thread, b"other", format!("h{at}").as_bytes());
            });
        }
        rig.reset(Reset::Connections(Grouping::Account));
        session("b", "y", MANY);
        rig.reset(Reset::Connections(Grouping::Account));
    };
    race(2_000, write, || {
        let of_a = |row: &SessionCountersRow| row.owner.user.as_deref() == Some("a");
        let row = rig.session_sums(Grouping::User).into_iter().find(of_a);
        assert!(row.is_none_or(|row| row.counters[0] < MANY));
    });
}

#[test]
fn statements_of_threads_that_end_are_counted_once_for_sampling() {
    let rig = Rig::with(Config {
        instruments: Box::new(|_| Initial { level: Recording::Sampled, ..Initial::default() }),
        ..small()
    });
    rig.set_sampling(SampleRate::OneIn(1_000_000), Duration::from_secs(3600));
    (0..100).for_each(|_| _ = rig.thread());
    let begun = AtomicU64::new(0);
    let write = |_| {
        let thread = rig.connect();
        (0..20).for_each(|_| rig.query("select"));
        begun.fetch_add(20, Relaxed);
        rig.delete_thread(thread);
    };
    rig.adjust_sampling();
    race(3_000, write, || rig.adjust_sampling());
    rig.adjust_sampling();
    assert_eq!(rig.sampling().begun, begun.into_inner());
}
