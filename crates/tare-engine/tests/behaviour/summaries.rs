//! Sums: counts, times, counters; by thread and global; over the end of threads.

use tare_engine::snapshot::*;
use tare_engine::*;

use tare_rig::*;

#[test]
fn counts_sums_least_and_greatest_agree_with_the_events() {
    let rig = Rig::new();
    let thread = rig.connect();
    for _ in 0..8 {
        rig.wait(rig.class.mutex);
    }
    let waits: Vec<u64> =
        rig.waits(Scope::History).iter().map(|row| row.head.timer.wait_ps.unwrap()).collect();
    let stat = rig.thread_wait(thread, MUTEX);
    assert_eq!(stat.count, 8);
    let near = |a: u64, b: u64| a.abs_diff(b) <= b / 100 + 8; // the clock is still being calibrated
    assert!(near(stat.sum_ps as u64, waits.iter().sum()), "{stat:?} {waits:?}");
    assert!(near(stat.min_ps, *waits.iter().min().unwrap()), "{stat:?} {waits:?}");
    assert!(near(stat.max_ps, *waits.iter().max().unwrap()), "{stat:?} {waits:?}");
    assert!(stat.min_ps <= stat.max_ps && u128::from(stat.max_ps) <= stat.sum_ps);
}

#[test]
fn a_wait_that_stands_for_many_rows_counts_them_all() {
    let rig = Rig::new();
    let thread = rig.connect();
    let share = rig.share("db", "t", &[]);
    let table = rig.open_table(share, 1).unwrap();
    rig.table_io(table, 0, MAX_INDEXES, 100);
    assert_eq!(rig.thread_wait(thread, TABLE_IO).count, 100);
    assert_eq!(rig.waits(Scope::History).len(), 1);
    assert_eq!(rig.waits(Scope::History)[0].number_of_bytes, Some(100));
}

#[test]
fn every_instrument_has_a_row_for_every_thread_even_if_nothing_happened() {
    let rig = Rig::new();
    let threads = [rig.thread(), rig.thread(), rig.thread()];
    let waits = rig.wait_rows(Grouping::Global);
    let names: Vec<_> = waits.iter().map(|row| row.name).collect();
    for name in [MUTEX, RWLOCK, COND, FILE, SOCKET, TABLE_IO, TABLE_LOCK, IDLE, METADATA] {
        assert_eq!(names.iter().filter(|other| **other == name).count(), 1, "{name}");
    }
    assert!(waits.iter().all(|row| row.stat == Stat::default()));
    assert_eq!(rig.wait_rows(Grouping::Thread).len(), waits.len() * threads.len());
    assert_eq!(rig.stage_rows(Grouping::Thread).len(), 3 * threads.len());
    assert_eq!(rig.statement_rows(Grouping::Thread).len(), 3 * threads.len());
    assert_eq!(rig.transaction_rows(Grouping::Thread).len(), threads.len());
    assert_eq!(rig.memory_rows(Grouping::Thread).len(), threads.len());
}

#[test]
fn a_reader_that_breaks_gets_no_more_rows() {
    let rig = Rig::new();
    let (_one, _other) = (rig.thread(), rig.thread());
    for level in [Grouping::Thread, Grouping::Global] {
        let mut rows = 0;
        rig.wait_summary(level, &mut |_| {
            rows += 1;
            if rows == 3 { std::ops::ControlFlow::Break(()) } else { std::ops::ControlFlow::Continue(()) }
        });
        assert_eq!(rows, 3);
    }
}

#[test]
fn threads_add_up_to_global_and_stay_in_it_when_they_end() {
    let rig = Rig::new();
    let threads = [rig.thread(), rig.thread(), rig.thread()];
    for (n, thread) in threads.iter().enumerate() {
        rig.on(thread, || {
            for _ in 0..=n {
                rig.wait(rig.class.mutex);
                rig.stage(rig.class.stage);
                rig.end_stage();
                rig.transaction(n == 1, |_| rig.query("select 1"));
            }
        });
    }
    let before = (
        rig.global_wait(MUTEX),
        rig.global_stage(STAGE),
        rig.global_statement(STATEMENT).sum,
        rig.global_transaction().read_write.count,
        rig.global_transaction().read_only.count,
    );
    assert_eq!((before.0.count, before.1.count, before.3, before.4), (6, 6, 4, 2));
    let sums = |rig: Rig| threads.iter().map(|thread| rig.thread_wait(thread, MUTEX).count).sum::<u64>();
    assert_eq!(sums(rig), 6);
    for thread in threads {
        rig.delete_thread(thread);
        assert_eq!(rig.global_wait(MUTEX).count, 6);
        assert_eq!(rig.global_stage(STAGE).count, 6);
        assert_eq!(rig.global_statement(STATEMENT).stat.count, 6);
        assert_eq!(rig.digests()[0].stat.stat.count, 6);
        let transactions = rig.global_transaction();
        assert_eq!((transactions.read_write.count, transactions.read_only.count), (4, 2));
    }
    assert!(rig.wait_rows(Grouping::Thread).is_empty());
    assert!(rig.threads().is_empty());
}

#[test]
fn statement_counters_add_up() {
    let rig = Rig::new();
    let thread = rig.connect();
    for n in 1..=3 {
        let statement = rig.begin(rig.class.statement, "select 1").unwrap();
        rig.add_statement_counter(statement, Counter::RowsSent, n);
        rig.set_statement_counter(statement, Counter::NoGoodIndexUsed, 1);
        rig.set_statement_outcome(statement, &Outcome { errors: 1, warnings: n, ..Outcome::default() });
        rig.end_statement(statement, None);
    }
    for sum in [rig.thread_statement(thread, STATEMENT).sum, rig.global_statement(STATEMENT).sum] {
        let expected = StatementCounters {
            errors: 3,
            warnings: 6,
            rows_sent: 6,
            no_good_index_used: 3,
            ..StatementCounters::default()
        };
        assert_eq!(sum, expected);
    }
}

#[test]
fn a_thread_row_says_what_the_host_said() {
    let rig = Rig::new();
    let thread = rig.new_thread(rig.class.thread, Some(12), Some(3)).unwrap();
    rig.set_thread_account(thread, b"alice", b"localhost");
    rig.set_thread_db(thread, b"shop");
    rig.set_thread_info(thread, Some(b"select 1"));
    rig.set_thread_command(thread, 3);
    rig.set_thread_connection_type(thread, 1);
    rig.set_thread_os_id(thread, 4711);
    let row = rig.threads().pop().unwrap();
    assert_eq!(row.name, "thread/test/one_connection");
    assert!(row.foreground && row.instrumented && row.history);
    assert_eq!((row.processlist_id, row.parent_thread_id, row.os_id), (Some(12), Some(3), Some(4711)));
    let texts = [row.user, row.host, row.db, row.info].map(Option::unwrap);
    assert_eq!(texts, ["alice", "localhost", "shop", "select 1"]);
    assert_eq!((row.command, row.connection_type), (Some("Query"), Some("Socket")));
    let mut account = Default::default();
    rig.with_account(thread, |user, host| {
        account = (user.to_vec(), host.to_vec());
        true
    });
    assert_eq!(account, (b"alice".to_vec(), b"localhost".to_vec()));
    rig.set_thread_db(thread, b"");
    rig.set_thread_info(thread, None);
    let row = rig.threads().pop().unwrap();
    assert_eq!((row.db, row.info), (None, None));
}

#[test]
fn connection_attributes_beyond_the_bound_are_cut_and_counted() {
    let rig = Rig::new();
    let thread = rig.thread();
    assert!(!rig.set_thread_connect_attrs(thread, &[b'a'; 512], 33));
    assert!(rig.set_thread_connect_attrs(thread, &[b'a'; 513], 33));
    assert_eq!(rig.losses_of("session_connect_attrs_lost"), 1);
}

#[test]
fn a_deleted_thread_is_deleted_once_and_is_nobodys_current() {
    let rig = Rig::new();
    let thread = rig.connect();
    rig.wait(rig.class.mutex);
    rig.delete_thread(thread);
    assert!(rig.current_thread().is_none());
    rig.delete_thread(thread);
    assert!(!rig.wait(rig.class.mutex), "nobody to count for");
    assert_eq!(rig.global_wait(MUTEX).count, 1);
    assert!(rig.waits(Scope::Current).is_empty());
}

#[test]
fn the_memory_of_an_ended_thread_is_used_again() {
    let rig = Rig::new();
    let cycle = || {
        let thread = rig.connect();
        for n in 0..200 {
            rig.wait(rig.class.mutex);
            rig.stage(rig.class.stage);
            rig.transaction(false, |_| rig.query(&format!("select {}", "x".repeat(n % 20))));
        }
        rig.delete_thread(thread);
    };
    // The long histories and the digests fill up first.
    (0..50).for_each(|_| cycle());
    let before = rig.memory().0;
    (0..50).for_each(|_| cycle());
    assert_eq!(rig.memory().0, before);
    assert_eq!(rig.losses(), 0, "{:?}", rig.lost());
}

#[test]
fn timers_are_the_references() {
    let rig = Rig::new();
    let names: Vec<_> = rig.timers().iter().map(|row| row.name).collect();
    assert_eq!(names, ["CYCLE", "NANOSECOND", "MICROSECOND", "MILLISECOND", "TICK"]);
}

#[test]
fn a_summary_of_sockets_is_the_sum_of_its_sockets() {
    let rig = Rig::new();
    rig.connect();
    let sockets: Vec<_> =
        (0..20).map(|fd| rig.init_socket(rig.class.socket, Some(fd), b"::1", 1).unwrap()).collect();
    for socket in &sockets {
        (0..10).for_each(|_| rig.socket_io(socket, io::SOCKET_RECV, 3));
    }
    let read = rig.socket_summary()[0].1.read;
    let each = rig.sockets();
    assert_eq!(read.stat.sum_ps, each.iter().map(|socket| socket.io.read.stat.sum_ps).sum::<u128>());
    assert_eq!(read.stat.count, 200);
    assert_eq!(read.stat.min_ps, each.iter().map(|socket| socket.io.read.stat.min_ps).min().unwrap());
    assert_eq!(read.stat.max_ps, each.iter().map(|socket| socket.io.read.stat.max_ps).max().unwrap());
}

/// The counts of the global summaries, those that are not 0.
fn summed(rig: Rig) -> Vec<(&'static str, u64)> {
    let mut all: Vec<(&'static str, u64)> = Vec::new();
    all.extend(rig.wait_rows(Grouping::Global).iter().map(|row| (row.name, row.stat.count)));
    all.extend(rig.stage_rows(Grouping::Global).iter().map(|row| (row.name, row.stat.count)));
    all.extend(rig.statement_rows(Grouping::Global).iter().map(|row| (row.name, row.stat.stat.count)));
    let transactions = rig.transaction_rows(Grouping::Global);
    let both = |stat: &TransactionStat| stat.read_write.count + stat.read_only.count;
    all.extend(transactions.iter().map(|row| (row.name, both(&row.stat))));
    let memory = rig.memory_rows(Grouping::Global);
    all.extend(memory.iter().map(|row| (row.name, row.stat.count_alloc + row.stat.count_free)));
    all.retain(|(_, count)| *count > 0);
    all.sort_unstable();
    all
}

fn counted(rig: Rig) -> Vec<(&'static str, u64)> {
    let mut counts = rig.event_counts();
    counts.sort_unstable();
    counts
}

#[test]
fn event_counts_are_those_of_the_global_summaries() {
    let rig = Rig::new();
    assert_eq!(counted(rig), []);
    let first = rig.connect();
    for _ in 0..3 {
        rig.wait(rig.class.mutex);
        rig.stage(rig.class.stage);
        rig.transaction(false, |_| rig.statement(rig.class.statement, "SELECT 1", |_| {}));
    }
    assert!(counted(rig).contains(&(MUTEX, 3)), "{:?}", counted(rig));
    assert_eq!(counted(rig), summed(rig));
    rig.delete_thread(first);
    let _other = rig.connect();
    rig.wait(rig.class.mutex);
    assert!(counted(rig).contains(&(MUTEX, 4)), "what has ended counts");
    assert_eq!(counted(rig), summed(rig));
    rig.reset(Reset::Summary(EventType::Wait, Grouping::Global));
    assert_eq!(counted(rig), summed(rig));
    assert!(
        !counted(rig).iter().any(|(name, _)| *name == MUTEX),
        "a reset cell that its thread has not seen yet"
    );
    rig.wait(rig.class.mutex);
    assert!(counted(rig).contains(&(MUTEX, 1)));
}
