//! TRUNCATE of everything that can be truncated.

use tare_engine::snapshot::*;
use tare_engine::*;

use tare_rig::*;

fn events(rig: Rig, n: u64) {
    for _ in 0..n {
        rig.wait(rig.class.mutex);
        rig.stage(rig.class.stage);
        rig.end_stage();
        rig.transaction(false, |_| rig.query("select 1"));
    }
}

/// (waits, stages, statements, transactions) of a thread and of all.
fn counts(rig: Rig, thread: ThreadRef) -> ([u64; 4], [u64; 4]) {
    let own = [
        rig.thread_wait(thread, MUTEX).count,
        rig.thread_stage(thread, STAGE).count,
        rig.thread_statement(thread, STATEMENT).stat.count,
        rig.thread_transaction(thread).read_write.count,
    ];
    (own, global(rig))
}

fn global(rig: Rig) -> [u64; 4] {
    [
        rig.global_wait(MUTEX).count,
        rig.global_stage(STAGE).count,
        rig.global_statement(STATEMENT).stat.count,
        rig.global_transaction().read_write.count,
    ]
}

const TYPES: [EventType; 4] =
    [EventType::Wait, EventType::Stage, EventType::Statement, EventType::Transaction];

fn reset_all(rig: Rig, level: Grouping) {
    for of in TYPES {
        rig.reset(Reset::Summary(of, level));
    }
}

#[test]
fn a_reset_by_thread_folds_upward() {
    for level in [Grouping::Thread, Grouping::Account, Grouping::User, Grouping::Host] {
        let rig = Rig::new();
        let thread = rig.connect();
        events(rig, 5);
        reset_all(rig, level);
        assert_eq!(counts(rig, thread), ([0; 4], [5; 4]), "{level:?} at once");
        events(rig, 2);
        assert_eq!(counts(rig, thread), ([2; 4], [7; 4]), "{level:?} later");
        rig.delete_thread(thread);
        assert_eq!(global(rig), [7; 4], "{level:?} after the end");
    }
}

#[test]
fn a_global_reset_of_waits_leaves_the_threads_and_others_take_them_along() {
    let rig = Rig::new();
    let thread = rig.connect();
    events(rig, 5);
    reset_all(rig, Grouping::Global);
    assert_eq!(counts(rig, thread), ([5, 0, 0, 0], [0; 4]), "at once");
    events(rig, 2);
    assert_eq!(counts(rig, thread), ([7, 2, 2, 2], [2; 4]), "later");
    rig.delete_thread(thread);
    assert_eq!(global(rig), [2; 4]);
}

#[test]
fn a_global_reset_forgets_what_had_ended() {
    let rig = Rig::new();
    let thread = rig.connect();
    events(rig, 5);
    rig.delete_thread(thread);
    assert_eq!(global(rig), [5; 4]);
    reset_all(rig, Grouping::Global);
    assert_eq!(global(rig), [0; 4]);
}

#[test]
fn a_thread_that_ends_right_after_a_reset_brings_nothing_back() {
    let rig = Rig::new();
    let (one, other) = (rig.thread(), rig.thread());
    rig.on(one, || events(rig, 3));
    rig.on(other, || events(rig, 4));
    reset_all(rig, Grouping::Global);
    rig.delete_thread(one);
    assert_eq!(counts(rig, other), ([4, 0, 0, 0], [0; 4]));
    reset_all(rig, Grouping::Thread);
    assert_eq!(counts(rig, other), ([0; 4], [0; 4]));
    rig.delete_thread(other);
    assert_eq!(global(rig), [0; 4]);
}

#[test]
fn resets_follow_each_other_in_any_order() {
    let rig = Rig::new();
    let thread = rig.connect();
    let (mut own, mut all) = (0, 0);
    for round in 0u64..60 {
        events(rig, round % 3);
        own += round % 3;
        all += round % 3;
        match round * 7 % 5 {
            0 => {
                rig.reset(Reset::Summary(EventType::Wait, Grouping::Global));
                all = 0;
            }
            1 => {
                rig.reset(Reset::Summary(EventType::Wait, Grouping::Thread));
                own = 0;
            }
            _ => {}
        }
        assert_eq!(rig.thread_wait(thread, MUTEX).count, own, "own in round {round}");
        assert_eq!(rig.global_wait(MUTEX).count, all, "all in round {round}");
    }
}

#[test]
fn unattributed_events_survive_a_reset_by_thread_and_not_a_global_one() {
    let rig = Rig::new();
    let thread = rig.connect();
    rig.set_consumer(Consumer::ThreadInstrumentation, false);
    events(rig, 3);
    reset_all(rig, Grouping::Thread);
    assert_eq!(counts(rig, thread), ([0; 4], [3; 4]));
    events(rig, 1);
    assert_eq!(counts(rig, thread), ([0; 4], [4; 4]));
    reset_all(rig, Grouping::Global);
    assert_eq!(counts(rig, thread), ([0; 4], [0; 4]));
    events(rig, 1);
    assert_eq!(counts(rig, thread), ([0; 4], [1; 4]));
}

fn event_counts(rig: Rig, of: EventType) -> [usize; 3] {
    [Scope::Current, Scope::History, Scope::HistoryLong].map(|scope| match of {
        EventType::Wait => rig.waits(scope).len(),
        EventType::Stage => rig.stages(scope).len(),
        EventType::Statement => rig.statements(scope).len(),
        EventType::Transaction => rig.transactions(scope).len(),
    })
}

#[test]
fn truncated_events_are_gone_and_later_ones_are_there() {
    for timed in [true, false] {
        for of in TYPES {
            let rig = Rig::new();
            for instrument in rig.instruments() {
                rig.set_instrument(instrument.id, None, Some(timed));
            }
            rig.connect();
            events(rig, 3);
            // A stage that has ended is no current one.
            let last = usize::from(of != EventType::Stage);
            assert_eq!(event_counts(rig, of), [last, 3, 3]);
            for (at, scope) in [Scope::Current, Scope::History, Scope::HistoryLong].into_iter().enumerate() {
                let mut expected = event_counts(rig, of);
                expected[at] = 0;
                rig.reset(Reset::Events(of, scope));
                assert_eq!(event_counts(rig, of), expected, "{of:?} {scope:?} timed {timed}");
            }
            events(rig, 2);
            assert_eq!(event_counts(rig, of), [last, 2, 2], "{of:?} timed {timed}, later");
            let others = TYPES.into_iter().filter(|other| *other != of);
            for other in others {
                assert_eq!(event_counts(rig, other)[1], 5, "{other:?} was not truncated");
            }
        }
    }
}

#[test]
fn an_event_in_progress_is_no_longer_current_once_truncated_and_ends_all_the_same() {
    let rig = Rig::new();
    rig.connect();
    rig.wait_around(rig.class.mutex, || {
        for scope in [Scope::Current, Scope::History, Scope::HistoryLong] {
            rig.reset(Reset::Events(EventType::Wait, scope));
        }
        assert_eq!(event_counts(rig, EventType::Wait), [0, 0, 0]);
        rig.wait(rig.class.mutex);
        assert_eq!(event_counts(rig, EventType::Wait)[1..], [1, 1]);
    });
    assert_eq!(event_counts(rig, EventType::Wait), [1, 2, 2]);
}

#[test]
fn truncated_digests_are_forgotten_and_begin_anew() {
    let rig = Rig::new();
    let (one, other) = (rig.thread(), rig.thread());
    for thread in [one, other] {
        rig.on(thread, || rig.query("select 1"));
        rig.on(thread, || rig.query("select a"));
    }
    assert_eq!(rig.digests().iter().map(|row| row.stat.stat.count).sum::<u64>(), 4);
    rig.reset(Reset::Digests);
    assert!(rig.digests().is_empty());
    assert!(rig.statements(Scope::History).iter().all(|row| row.digest.is_some()), "events keep theirs");
    rig.on(one, || rig.query("select 2"));
    let rows = rig.digests();
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].stat.stat.count, rows[0].digest.as_ref().unwrap().text()), (1, Some("select ?")));
    rig.delete_thread(other);
    assert_eq!(rig.digests().iter().map(|row| row.stat.stat.count).sum::<u64>(), 1);
}

#[test]
fn truncated_files_and_sockets_count_from_zero() {
    let rig = Rig::new();
    rig.connect();
    let (file, gone) =
        (rig.find_file(rig.class.file, b"/a", true), rig.find_file(rig.class.file, b"/b", true));
    let (file, gone) = (file.unwrap(), gone.unwrap());
    let socket = rig.init_socket(rig.class.socket, Some(3), b"127.0.0.1", 3306).unwrap();
    let closed = rig.init_socket(rig.class.socket, Some(4), b"127.0.0.1", 3307).unwrap();
    for _ in 0..2 {
        rig.file_io(file, io::FILE_READ, 10);
        rig.file_io(gone, io::FILE_WRITE, 10);
        rig.socket_io(socket, io::SOCKET_SEND, 10);
        rig.socket_io(closed, io::SOCKET_RECV, 10);
    }
    rig.destroy_file(gone);
    rig.destroy_socket(closed);
    let files = |rig: Rig| rig.file_summary()[0].1;
    let sockets = |rig: Rig| rig.socket_summary()[0].1;
    assert_eq!((files(rig).read.bytes, files(rig).write.bytes), (20, 20));
    assert_eq!((sockets(rig).read.bytes, sockets(rig).write.bytes), (20, 20));
    rig.reset(Reset::Files);
    assert_eq!((files(rig), rig.files()[0].io), (IoStat::default(), IoStat::default()));
    assert_eq!(sockets(rig).read.bytes, 20, "sockets are not files");
    rig.reset(Reset::Sockets);
    assert_eq!((sockets(rig), rig.sockets()[0].io), (IoStat::default(), IoStat::default()));
    rig.file_io(file, io::FILE_READ, 1);
    rig.socket_io(socket, io::SOCKET_SEND, 1);
    assert_eq!((files(rig).read.stat.count, files(rig).read.bytes), (1, 1));
    assert_eq!((sockets(rig).write.stat.count, sockets(rig).write.bytes), (1, 1));
    rig.reset(Reset::Sockets);
    rig.destroy_socket(socket);
    assert_eq!(sockets(rig), IoStat::default(), "what was reset does not come back");
    rig.reset(Reset::Summary(EventType::Wait, Grouping::Account));
    assert_eq!(files(rig).read.bytes, 1, "they are no account's");
    rig.reset(Reset::Summary(EventType::Wait, Grouping::Global));
    assert_eq!(files(rig), IoStat::default(), "and part of all waits");
}

#[test]
fn truncated_tables_count_from_zero_through_open_handles_too() {
    let waits = Reset::Summary(EventType::Wait, Grouping::Global);
    for reset in [Reset::TableIo, Reset::TableLock, Reset::Objects, waits] {
        let rig = Rig::new();
        rig.connect();
        let share = rig.share("db", "t", &["PRIMARY"]);
        let (open, closed) = (rig.open_table(share, 1).unwrap(), rig.open_table(share, 2).unwrap());
        for table in [open, closed] {
            rig.table_io(table, 0, 0, 5);
            rig.table_lock(table, 0);
        }
        rig.close_table(closed);
        let io = |rig: Rig| rig.tables()[0].indexes[0].io.fetch.count;
        let locks = |rig: Rig| rig.tables()[0].locks.0[0].count;
        assert_eq!((io(rig), locks(rig)), (10, 2));
        rig.reset(reset);
        let (kept_io, kept_locks) = match reset {
            Reset::TableIo => (0, 2),
            Reset::TableLock => (10, 0),
            _ => (0, 0),
        };
        assert_eq!((io(rig), locks(rig)), (kept_io, kept_locks), "{reset:?} at once");
        rig.table_io(open, 0, 0, 1);
        rig.table_lock(open, 0);
        assert_eq!((io(rig), locks(rig)), (kept_io + 1, kept_locks + 1), "{reset:?} later");
        rig.close_table(open);
        assert_eq!((io(rig), locks(rig)), (kept_io + 1, kept_locks + 1), "{reset:?} after the close");
    }
}

#[test]
fn a_transaction_whose_row_was_truncated_is_forgotten_and_counted() {
    let rig = Rig::new();
    let thread = rig.connect();
    let ids = |scope| rig.transaction_ids(thread, scope);
    rig.transaction(false, |_| rig.reset(Reset::Events(EventType::Transaction, Scope::Current)));
    rig.transaction(false, |_| ());
    let second = ids(Scope::Current);
    assert_eq!((second.len(), ids(Scope::History), ids(Scope::HistoryLong)), (1, second.clone(), second));
    assert_eq!(rig.thread_transaction(thread).read_write.count, 2);
    // Nor does a later one bring it back.
    rig.reset(Reset::Events(EventType::Transaction, Scope::Current));
    assert_eq!(ids(Scope::History).len(), 1);
}
