//! Things that last: locks, files, sockets, tables, programs, prepared statements.

use tare_engine::objects::ObjectRule;
use tare_engine::operation;
use tare_engine::snapshot::*;
use tare_engine::*;

use crate::driver::*;

/// Counts and bytes: times differ from query to query while the clock is being calibrated.
fn figures(io: IoStat) -> [(u64, u64); 3] {
    [io.read, io.write, io.misc].map(|part| (part.stat.count, part.bytes))
}

#[test]
fn a_mutex_knows_its_owner() {
    let rig = Rig::new();
    let thread = rig.connect();
    let mutex = rig.init_synch(rig.class.mutex, 0x10).unwrap();
    let owner = |rig: Rig| rig.synchs()[0].locked_by_thread_id;
    assert_eq!(owner(rig), None);
    rig.lock(mutex);
    assert_eq!(owner(rig), Some(thread.thread_id()));
    rig.unlock_mutex(mutex);
    assert_eq!(owner(rig), None);
    let row = &rig.synchs()[0];
    assert_eq!((row.kind, row.name, row.object_instance_begin), (Kind::Mutex, MUTEX, 0x10));
    rig.destroy_synch(mutex);
    assert!(rig.synchs().is_empty());
}

#[test]
fn a_rwlock_knows_its_writer_and_counts_its_readers() {
    let rig = Rig::new();
    let thread = rig.connect();
    let lock = rig.init_synch(rig.class.rwlock, 0x20).unwrap();
    let state = |rig: Rig| {
        let row = rig.synchs().remove(0);
        (row.locked_by_thread_id, row.read_locked_by_count)
    };
    for readers in 1..=2 {
        let wait = rig.start_synch_wait(lock, operation::RWLOCK, here()).unwrap();
        rig.add_synch_reader(lock, wait.thread());
        rig.end_synch_wait(&wait);
        assert_eq!(state(rig), (None, readers));
    }
    rig.unlock_rwlock(lock);
    rig.unlock_rwlock(lock);
    rig.unlock_rwlock(lock);
    assert_eq!(state(rig), (None, 0));
    let wait = rig.start_synch_wait(lock, operation::RWLOCK + 1, here()).unwrap();
    rig.set_synch_owner(lock, wait.thread());
    rig.end_synch_wait(&wait);
    assert_eq!(state(rig), (Some(thread.thread_id()), 0));
    rig.unlock_rwlock(lock);
    let wait = rig.start_synch_wait(lock, operation::RWLOCK + 3, here()).unwrap();
    rig.end_synch_wait(&wait);
    assert_eq!(state(rig), (None, 0), "it was not taken");
    assert_eq!(rig.thread_wait(thread, RWLOCK).count, 4);
    let operations: Vec<_> = rig.waits(Scope::History).iter().map(|row| row.operation).collect();
    assert_eq!(operations, ["read_lock", "read_lock", "write_lock", "try_write_lock"]);
}

/// Switches every instrument of locks.
fn switch_locks(rig: Rig, on: bool) {
    for class in [rig.class.mutex, rig.class.rwlock] {
        rig.set_instrument(class, Some(on), None);
    }
}

/// Takes a lock to read.
fn read_lock(rig: Rig, lock: SynchRef) {
    if let Some(wait) = rig.start_synch_wait(lock, operation::RWLOCK, here()) {
        rig.add_synch_reader(lock, wait.thread());
        rig.end_synch_wait(&wait);
    }
}

#[test]
fn nobody_knows_whose_a_lock_is_that_was_held_while_locks_were_off() {
    let rig = Rig::new();
    let thread = rig.connect();
    let [mutex, kept] = [0x10, 0x18].map(|at| rig.init_synch(rig.class.mutex, at).unwrap());
    let rwlock = rig.init_synch(rig.class.rwlock, 0x20).unwrap();
    let held = || -> Vec<(Option<u64>, u32)> {
        rig.synchs().iter().map(|row| (row.locked_by_thread_id, row.read_locked_by_count)).collect()
    };
    let nobodys: Vec<(Option<u64>, u32)> = vec![(None, 0); 3];
    let lock = || {
        rig.lock(mutex);
        rig.lock(kept);
        read_lock(rig, rwlock);
    };
    let id = Some(thread.thread_id());
    let everybodys = vec![(id, 0), (id, 0), (None, 1)];
    lock();
    assert_eq!(held(), everybodys);
    switch_locks(rig, false);
    assert_eq!(held(), nobodys, "who gives them back tells nobody");
    rig.unlock_mutex(mutex);
    rig.unlock_rwlock(rwlock);
    switch_locks(rig, true);
    assert_eq!(held(), nobodys, "two have been given back");
    rig.unlock_mutex(kept);
    lock();
    assert_eq!(held(), everybodys, "they are known again, once each");
    rig.unlock_rwlock(rwlock);
    assert_eq!(held()[2], (None, 0));
    // Nothing was counted while they were off, and all else was.
    assert_eq!((rig.thread_wait(thread, MUTEX).count, rig.thread_wait(thread, RWLOCK).count), (4, 2));
}

#[test]
fn a_lock_that_is_taken_while_locks_are_switched_on_is_nobodys_until_it_is_taken_again() {
    let rig = Rig::new();
    let thread = rig.connect();
    let mutex = rig.init_synch(rig.class.mutex, 0x10).unwrap();
    let owner = || rig.synchs()[0].locked_by_thread_id;
    let wait = rig.start_synch_wait(mutex, operation::MUTEX, here()).unwrap();
    switch_locks(rig, false);
    // Whatever the thread does meanwhile, and settles for.
    rig.wait(rig.class.cond);
    rig.set_synch_owner(mutex, wait.thread());
    rig.end_synch_wait(&wait);
    rig.unlock_mutex(mutex);
    assert_eq!(owner(), None);
    switch_locks(rig, true);
    assert_eq!((owner(), rig.thread_wait(thread, MUTEX).count), (None, 1));
    rig.lock(mutex);
    assert_eq!(owner(), Some(thread.thread_id()));
}

#[test]
fn rwlocks_stay_known_while_mutexes_are_switched() {
    let rig = Rig::new();
    let thread = rig.connect();
    let rwlock = rig.init_synch(rig.class.rwlock, 0x20).unwrap();
    let written = rig.init_synch(rig.class.rwlock, 0x28).unwrap();
    read_lock(rig, rwlock);
    let wait = rig.start_synch_wait(written, operation::RWLOCK + 1, here()).unwrap();
    rig.set_synch_owner(written, wait.thread());
    rig.end_synch_wait(&wait);
    let id = Some(thread.thread_id());
    for on in [false, true, false, true] {
        rig.set_instrument(rig.class.mutex, Some(on), None);
        rig.wait(rig.class.cond);
        let held: Vec<_> =
            rig.synchs().iter().map(|row| (row.locked_by_thread_id, row.read_locked_by_count)).collect();
        assert_eq!(held, [(None, 1), (id, 0)]);
    }
    rig.unlock_rwlock(rwlock);
    rig.unlock_rwlock(written);
    assert!(rig.synchs().iter().all(|row| (row.locked_by_thread_id, row.read_locked_by_count) == (None, 0)));
}

#[test]
fn a_thread_remembers_many_read_locks_and_says_which_it_forgot() {
    let rig = Rig::new();
    rig.connect();
    const REMEMBERED: u64 = 32 + 512;
    let locks: Vec<_> = (0..600).map(|at| rig.init_synch(rig.class.rwlock, at).unwrap()).collect();
    let readers = || rig.synchs().iter().map(|row| row.read_locked_by_count).sum::<u32>();
    for (at, lock) in (1..).zip(&locks) {
        let wait = rig.start_synch_wait(lock, operation::RWLOCK, here()).unwrap();
        rig.add_synch_reader(lock, wait.thread());
        rig.end_synch_wait(&wait);
        let lost = rig.losses_of("read_locks_lost");
        assert_eq!(lost, u64::saturating_sub(at, REMEMBERED), "{at} held");
    }
    assert_eq!(u64::from(readers()), REMEMBERED);
    // In whatever order they are given back.
    let (early, late) = locks.split_at(300);
    late.iter().for_each(|lock| rig.unlock_rwlock(lock));
    assert_eq!(readers(), 300);
    early.iter().for_each(|lock| rig.unlock_rwlock(lock));
    assert_eq!(readers(), 0);
}

#[test]
fn a_file_is_found_by_name_and_by_descriptor() {
    let rig = Rig::new();
    rig.connect();
    assert!(rig.find_file(rig.class.file, b"/data/t.ibd", false).is_none());
    let file = rig.find_file(rig.class.file, b"/data/t.ibd", true).unwrap();
    let again = rig.find_file(rig.class.file, b"/data/t.ibd", true).unwrap();
    assert!(std::ptr::eq(file, again));
    rig.bind_file(5, Some(file));
    assert!(rig.file_of(5).is_some_and(|found| std::ptr::eq(found, file)));
    rig.file_io(file, io::FILE_READ, 100);
    rig.file_io(file, io::FILE_WRITE, 20);
    rig.file_io(file, io::FILE_OPEN, 0);
    let rows = rig.files();
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((&*row.file_name, row.event_name, row.open_count), ("/data/t.ibd", FILE, 2));
    assert_eq!((row.io.read.bytes, row.io.read.stat.count), (100, 1));
    assert_eq!((row.io.write.bytes, row.io.write.stat.count), (20, 1));
    assert_eq!(row.io.misc.stat.count, 1);
    let (name, io) = rig.file_summary().remove(0);
    assert_eq!((name, figures(io)), (FILE, figures(row.io)));
    let wait = rig.waits(Scope::History).remove(0);
    assert_eq!((wait.operation, wait.number_of_bytes), ("read", Some(100)));
    assert_eq!((wait.object.object_type, wait.object.name.as_deref()), (Some("FILE"), Some("/data/t.ibd")));
    rig.bind_file(5, None);
    assert!(rig.file_of(5).is_none());
    rig.release_file(file);
    rig.release_file(file);
    rig.release_file(file);
    assert_eq!(rig.files()[0].open_count, 0);
}

#[test]
fn descriptors_out_of_range_are_nobodys_and_counted() {
    let rig = Rig::new();
    let file = rig.find_file(rig.class.file, b"/a", true).unwrap();
    for fd in [-1, i32::MAX, 1 << 16] {
        rig.bind_file(fd, Some(file));
        assert!(rig.file_of(fd).is_none());
    }
    assert_eq!(rig.losses_of("file_handles_lost"), 3);
}

#[test]
fn a_renamed_file_keeps_its_figures_and_replaces_what_was_there() {
    let rig = Rig::new();
    rig.connect();
    let (file, replaced) = (b"/tmp/#sql-1".as_slice(), b"/data/t.ibd".as_slice());
    let handle = rig.find_file(rig.class.file, file, true).unwrap();
    let old = rig.find_file(rig.class.file, replaced, true).unwrap();
    rig.file_io(handle, io::FILE_WRITE, 7);
    rig.file_io(old, io::FILE_WRITE, 1);
    rig.rename_file(file, replaced);
    let rows = rig.files();
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!((&*rows[0].file_name, rows[0].io.write.bytes), ("/data/t.ibd", 7));
    assert!(rig.find_file(rig.class.file, file, false).is_none());
    assert!(rig.find_file(rig.class.file, replaced, false).is_some_and(|f| std::ptr::eq(f, handle)));
    assert_eq!(rig.file_summary()[0].1.write.bytes, 8, "what the replaced file did counts on");
    rig.rename_file(replaced, replaced);
    assert_eq!(rig.files().len(), 1, "onto itself");
    rig.rename_file(b"/nowhere", b"/else");
    assert_eq!(rig.files().len(), 1);
}

#[test]
fn a_deleted_file_is_forgotten_but_what_it_did_counts_on() {
    let rig = Rig::new();
    rig.connect();
    let file = rig.find_file(rig.class.file, b"/a", true).unwrap();
    rig.file_io(file, io::FILE_READ, 5);
    rig.destroy_file(file);
    rig.destroy_file(file);
    assert!(rig.files().is_empty());
    assert_eq!(rig.file_summary()[0].1.read.bytes, 5);
    let name = || rig.waits(Scope::History)[0].object.name.clone();
    assert_eq!(name().as_deref(), Some("/a"), "what was recorded keeps its name");
    // A place rests for a while before it is used again.
    for n in 0..200 {
        let other = rig.find_file(rig.class.file, format!("/{n}").as_bytes(), true).unwrap();
        rig.destroy_file(other);
    }
    rig.find_file(rig.class.file, b"/b", true).unwrap();
    assert_eq!(name(), None, "until its place is used again");
    assert_eq!(rig.files()[0].io, IoStat::default());
}

#[test]
fn io_on_a_deleted_file_counts_for_its_instrument() {
    // A temporary file is often deleted first and used then.
    let rig = Rig::new();
    rig.connect();
    let file = rig.find_file(rig.class.file, b"/tmp/x", true).unwrap();
    rig.destroy_file(file);
    rig.file_io(file, io::FILE_WRITE, 9);
    assert_eq!(rig.global_wait(FILE).count, 1);
    assert_eq!(rig.file_summary()[0].1.write.bytes, 9);
}

#[test]
fn a_file_without_an_instance_counts_for_its_instrument() {
    let rig = Rig::new();
    rig.connect();
    let wait = rig.start_file_wait(rig.class.file, None, io::FILE_READ).unwrap();
    rig.end_file_wait(&wait, None, io::FILE_READ, 3);
    assert_eq!(rig.file_summary()[0].1.read.bytes, 3);
}

#[test]
fn many_files_come_and_go() {
    let rig = Rig::new();
    rig.connect();
    let mut before = 0;
    for round in 0..5 {
        for n in 0..2_000 {
            let name = format!("/tmp/{round}/{n}");
            let file = rig.find_file(rig.class.file, name.as_bytes(), true).unwrap();
            rig.file_io(file, io::FILE_READ, 1);
            rig.destroy_file(file);
        }
        if round == 0 {
            before = rig.memory().0;
        }
    }
    assert_eq!(rig.memory().0, before);
    assert_eq!(rig.file_summary()[0].1.read.stat.count, 10_000);
    assert_eq!(rig.losses(), 0);
}

#[test]
fn a_socket_counts_by_direction_and_nothing_while_idle() {
    let rig = Rig::new();
    let thread = rig.connect();
    let socket = rig.init_socket(rig.class.socket, Some(9), b"::1", 3306).unwrap();
    rig.set_socket_thread_owner(socket);
    rig.socket_io(socket, io::SOCKET_RECV, 4);
    rig.socket_io(socket, io::SOCKET_SEND, 8);
    rig.socket_io(socket, io::SOCKET_OPT, 0);
    rig.set_socket_idle(socket, true);
    rig.socket_io(socket, io::SOCKET_RECV, 1000);
    assert!(rig.sockets()[0].idle);
    rig.set_socket_idle(socket, false);
    let row = rig.sockets().remove(0);
    assert_eq!((row.event_name, row.socket_id, &*row.ip, row.port), (SOCKET, 9, "::1", 3306));
    assert_eq!(row.thread_id, Some(thread.thread_id()));
    assert_eq!((row.io.read.bytes, row.io.write.bytes, row.io.misc.stat.count), (4, 8, 1));
    let (name, io) = rig.socket_summary().remove(0);
    assert_eq!((name, figures(io)), (SOCKET, figures(row.io)));
    let wait = rig.waits(Scope::History).remove(1);
    assert_eq!((wait.operation, wait.number_of_bytes), ("send", Some(8)));
    assert_eq!(wait.object.name.as_deref(), Some("::1:3306"));
    rig.destroy_socket(socket);
    rig.destroy_socket(socket);
    assert!(rig.sockets().is_empty());
    assert_eq!(figures(rig.socket_summary().remove(0).1), figures(row.io), "it counts on, once");
}

#[test]
fn a_socket_counts_what_others_do_with_it_while_its_owner_does() {
    const EACH: u64 = 200_000;
    let rig = Rig::new();
    let socket = rig.init_socket(rig.class.socket, Some(9), b"::1", 3306).unwrap();
    // Whoever accepts a connection does the first things with its socket.
    rig.connect();
    rig.socket_io(socket, io::SOCKET_OPT, 0);
    let work = |owns: bool| {
        rig.connect();
        if owns {
            rig.set_socket_thread_owner(socket);
        }
        (0..EACH).for_each(|_| rig.socket_io(socket, io::SOCKET_OPT, 2));
    };
    std::thread::scope(|scope| {
        for owns in [true, false, false] {
            scope.spawn(move || work(owns));
        }
    });
    let all = [(0, 0), (0, 0), (3 * EACH + 1, 6 * EACH)];
    assert_eq!((figures(rig.sockets()[0].io), figures(rig.socket_summary()[0].1)), (all, all));
    rig.reset(Reset::Sockets);
    assert_eq!(figures(rig.sockets()[0].io), [(0, 0); 3]);
    rig.socket_io(socket, io::SOCKET_OPT, 0);
    rig.destroy_socket(socket);
    assert_eq!(figures(rig.socket_summary()[0].1), [(0, 0), (0, 0), (1, 0)], "it counts on, once");
}

#[test]
fn a_table_counts_by_index_and_operation_and_keeps_it_when_closed() {
    let rig = Rig::new();
    rig.connect();
    let share = rig.share("shop", "orders", &["PRIMARY", "by_date", "c", "d", "e"]);
    let (one, other) = (rig.open_table(share, 0x1).unwrap(), rig.open_table(share, 0x2).unwrap());
    for table in [one, other] {
        rig.table_io(table, 0, 0, 10);
        rig.table_io(table, 1, 4, 1);
        rig.table_io(table, 2, MAX_INDEXES, 1);
        rig.table_lock(table, 0);
        rig.table_lock(table, 10);
    }
    let check = |rig: Rig| {
        let row = rig.tables().remove(0);
        assert_eq!((row.object_type, &*row.schema, &*row.name), ("TABLE", "shop", "orders"));
        let names: Vec<_> = row.indexes.iter().map(|index| index.name.as_deref()).collect();
        let wanted = [Some("PRIMARY"), Some("by_date"), Some("c"), Some("d"), Some("e"), None];
        assert_eq!(names, wanted);
        assert_eq!(row.indexes[0].io.fetch.count, 20);
        assert_eq!(row.indexes[1].io, TableIoStat::default());
        assert_eq!(row.indexes[4].io.insert.count, 2);
        assert_eq!(row.indexes[5].io.update.count, 2);
        let locks: Vec<u64> = row.locks.0.iter().map(|stat| stat.count).collect();
        assert_eq!(locks, [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    };
    check(rig);
    rig.close_table(one);
    check(rig);
    rig.close_table(other);
    check(rig);
    let wait = rig.waits(Scope::History).remove(0);
    assert_eq!(wait.object.schema.as_deref(), Some("shop"));
    assert_eq!(
        (wait.object.name.as_deref(), wait.object.index.as_deref()),
        (Some("orders"), Some("PRIMARY"))
    );
    assert_eq!(wait.operation, "fetch");
    assert_eq!(wait.object_instance_begin, 1);
}

#[test]
fn a_dropped_table_is_forgotten_and_open_handles_close_quietly() {
    let rig = Rig::new();
    rig.connect();
    let share = rig.share("db", "t", &["PRIMARY"]);
    let table = rig.open_table(share, 1).unwrap();
    rig.table_io(table, 0, 0, 3);
    rig.drop_table_share(&TableName { temporary: false, schema: b"db", name: b"t" });
    assert!(rig.tables().is_empty());
    rig.share("db", "t", &["PRIMARY"]);
    rig.close_table(table);
    assert_eq!(rig.tables()[0].indexes[0].io.fetch.count, 0, "the new table is another table");
    rig.drop_table_share(&TableName { temporary: false, schema: b"db", name: b"nothing" });
}

#[test]
fn rows_of_a_table_whose_keys_are_others_are_counted_anew() {
    let others: [&[&str]; 4] = [&["PRIMARY"], &["PRIMARY", "k", "l"], &["PRIMARY", "l"], &[]];
    for keys in others {
        let rig = Rig::new();
        rig.connect();
        let use_it = |keys: &[&str]| {
            let table = rig.open_table(rig.share("db", "t", keys), 1).unwrap();
            rig.table_io(table, 0, 0, 5);
            rig.table_io(table, 1, MAX_INDEXES, 1);
            rig.table_lock(table, 0);
            rig.close_table(table);
        };
        use_it(&["PRIMARY", "k"]);
        use_it(&["PRIMARY", "k"]);
        let row = rig.tables().remove(0);
        assert_eq!(
            (row.indexes[0].io.fetch.count, row.locks.0[0].count),
            (10, 2),
            "the same keys, the same table"
        );
        rig.share("db", "t", keys);
        let row = rig.tables().remove(0);
        let names: Vec<_> = row.indexes.iter().map(|index| index.name.as_deref().unwrap()).collect();
        assert_eq!(names, keys, "and no row without an index");
        assert!(row.indexes.iter().all(|index| index.io == TableIoStat::default()), "{row:?}");
        assert_eq!(row.locks.0[0].count, 2, "locks have no index");
        assert_eq!(rig.global_wait(TABLE_IO).count, 12, "what was done is done");
    }
}

#[test]
fn time_that_brought_no_row_shows_with_the_rows_that_come() {
    let rig = Rig::new();
    let thread = rig.connect();
    let table = rig.open_table(rig.share("db", "t", &["PRIMARY"]), 1).unwrap();
    let (nothing, before) = (Stat::default(), rig.lost());
    let shown = || {
        let fetch = rig.tables()[0].indexes[0].io.fetch;
        [fetch, rig.thread_wait(thread, TABLE_IO), rig.global_wait(TABLE_IO)]
    };
    rig.table_io(table, 0, 0, 0);
    assert_eq!(shown(), [nothing; 3]);
    rig.table_io(table, 0, 0, 2);
    assert!(shown().iter().all(|stat| stat.count == 2 && stat.sum_ps > stat.max_ps), "{:?}", shown());
    rig.table_io(table, 1, 0, 0);
    rig.close_table(table);
    rig.delete_thread(thread);
    assert_eq!(rig.tables()[0].indexes[0].io.insert, nothing);
    assert_eq!(rig.lost(), before);
}

#[test]
fn an_event_on_a_table_that_is_gone_names_no_index() {
    let rig = Rig::new();
    rig.connect();
    let table = rig.open_table(rig.share("db", "t", &["PRIMARY"]), 1).unwrap();
    rig.table_io(table, 0, 0, 1);
    let named = || {
        let object = rig.waits(Scope::History).remove(0).object;
        (object.name, object.index)
    };
    assert_eq!(named(), (Some("t".into()), Some("PRIMARY".into())));
    rig.drop_table_share(&TableName { temporary: false, schema: b"db", name: b"t" });
    assert_eq!(named(), (Some("t".into()), None));
}

#[test]
fn a_table_share_is_one_per_name_and_temporary_tables_are_others() {
    let rig = Rig::new();
    rig.connect();
    let one = rig.share("db", "t", &[]);
    assert!(std::ptr::eq(one, rig.share("db", "t", &[])));
    assert!(!std::ptr::eq(one, rig.share("db", "u", &[])));
    let temporary = TableName { temporary: true, schema: b"db", name: b"t" };
    assert!(!std::ptr::eq(one, rig.table_share(&temporary, [].into_iter()).unwrap()));
    let types: Vec<_> = rig.tables().iter().map(|row| row.object_type).collect();
    assert_eq!(types.iter().filter(|t| **t == "TEMPORARY TABLE").count(), 1);
}

#[test]
fn a_table_the_rules_leave_out_is_not_watched() {
    let rig = Rig::new();
    rig.connect();
    let table = rig.open_table(rig.share("mysql", "user", &["PRIMARY"]), 1).unwrap();
    rig.table_io(table, 0, 0, 3);
    rig.table_lock(table, 0);
    assert_eq!(rig.global_wait(TABLE_IO).count, 0);
    assert!(!rig.tables()[0].enabled);
}

fn object_rule(object_type: u8, schema: &str, name: &str, enabled: bool, timed: bool) -> ObjectRule {
    ObjectRule { object_type, schema: schema.to_owned(), name: name.to_owned(), enabled, timed }
}

#[test]
fn a_rule_that_changes_acts_at_once_on_what_there_is() {
    let rig = Rig::new();
    rig.connect();
    let table = rig.open_table(rig.share("db", "t", &["PRIMARY"]), 1).unwrap();
    let program = rig.program(objects::PROCEDURE, b"db", b"p").unwrap();
    let counted = || {
        let counts = || [TABLE_IO, TABLE_LOCK].map(|name| rig.global_wait(name).count);
        let before = counts();
        rig.reset(Reset::Events(EventType::Wait, Scope::History));
        rig.table_io(table, 0, 0, 3);
        rig.table_lock(table, 0);
        let after = counts();
        let timed = rig.waits(Scope::History).iter().filter(|row| row.head.timer.wait_ps.is_some()).count();
        (after[0] - before[0], after[1] - before[1], timed)
    };
    assert_eq!(counted(), (3, 1, 2));
    let untimed = object_rule(objects::TABLE, "db", "%", true, false);
    rig.add_rule(untimed.clone()).unwrap();
    assert_eq!(counted(), (3, 1, 0), "counted without times");
    assert!(rig.replace_rule(ObjectRule { enabled: false, ..untimed.clone() }));
    assert_eq!(counted(), (0, 0, 0));
    assert!(!rig.tables()[0].enabled);
    assert!(rig.remove_rule(&untimed));
    assert_eq!(counted(), (3, 1, 2), "the rule about every schema decides again");
    assert!(!rig.remove_rule(&untimed) && !rig.replace_rule(untimed), "it is gone");

    assert!(rig.start_program(program).is_some_and(|start| start != 0));
    rig.add_rule(object_rule(objects::PROCEDURE, "db", "p", true, false)).unwrap();
    assert_eq!(rig.start_program(program), Some(0), "a call without a time");
    rig.reset(Reset::ObjectRules);
    assert_eq!(rig.start_program(program), None);
    assert_eq!(counted(), (0, 0, 0), "without rules nothing is watched");
    assert!(rig.rules::<ObjectRule>().is_empty());
}

#[test]
fn a_table_watched_no_more_forgets_what_closed_handles_counted() {
    let rig = Rig::new();
    rig.connect();
    let share = rig.share("db", "t", &[]);
    let table = rig.open_table(share, 1).unwrap();
    rig.table_io(table, 0, MAX_INDEXES, 3);
    rig.table_lock(table, 0);
    rig.close_table(table);
    let counted = || {
        let table = &rig.tables()[0];
        (table.indexes.iter().map(|index| index.io.fetch.count).sum::<u64>(), table.locks.0[0].count)
    };
    let rule = |enabled| object_rule(objects::TABLE, "db", "t", enabled, true);
    rig.add_rule(rule(true)).unwrap();
    assert_eq!(counted(), (3, 1));
    assert!(rig.replace_rule(rule(false)) && rig.replace_rule(rule(true)));
    assert_eq!(counted(), (0, 0));
}

#[test]
fn rules_are_one_per_key_and_bounded() {
    let rig = Rig::new();
    assert_eq!(rig.rules::<ObjectRule>().len(), 20);
    let rule = |n: usize| object_rule(objects::TABLE, "db", &n.to_string(), true, true);
    assert_eq!(rig.add_rule(rule(0)), Ok(()));
    assert_eq!(rig.add_rule(ObjectRule { timed: false, ..rule(0) }), Err(RuleError::Duplicate));
    assert_eq!(rig.rules::<ObjectRule>().last(), Some(&rule(0)), "the first one stays as it was");
    for n in 1..MAX_RULES - 20 {
        assert_eq!(rig.add_rule(rule(n)), Ok(()));
    }
    assert_eq!(rig.add_rule(rule(MAX_RULES)), Err(RuleError::Full));
}

#[test]
fn a_table_made_while_rules_change_is_decided_by_the_last_of_them() {
    let rig = Rig::new();
    let rule = object_rule(objects::TABLE, "db", "%", false, false);
    for round in 0..200 {
        let name = format!("t{round}");
        std::thread::scope(|threads| {
            threads.spawn(|| {
                rig.connect();
                rig.share("db", &name, &[]);
            });
            if round % 2 == 0 { rig.add_rule(rule.clone()).unwrap() } else { assert!(rig.remove_rule(&rule)) }
        });
        let table = rig.tables().into_iter().find(|table| table.name == name).unwrap();
        assert_eq!(table.enabled, round % 2 != 0, "{name}");
    }
}

#[test]
fn the_key_names_of_an_altered_table_are_the_new_ones() {
    let rig = Rig::new();
    rig.connect();
    rig.share("db", "t", &["PRIMARY", "old"]);
    rig.share("db", "t", &["PRIMARY"]);
    let names: Vec<_> = rig.tables()[0].indexes.iter().map(|index| index.name.clone().unwrap()).collect();
    assert_eq!(names, ["PRIMARY"]);
}

#[test]
fn a_metadata_lock_is_named_until_its_place_is_used_again() {
    let rig = Rig::new();
    rig.connect();
    let what =
        MetadataName { namespace: 3, names: b"db.t", schema_len: 2, lock_type: 1, duration: 1, status: 0 };
    let lock = rig.create_metadata_lock(0x77, || Some(what), here()).unwrap();
    let wait = rig.start_metadata_wait(lock, here()).unwrap();
    rig.end_wait(&wait, 1, None);
    rig.set_metadata_lock_status(lock, 1);
    let row = rig.waits(Scope::History).remove(0);
    assert_eq!((row.head.name, row.operation), (METADATA, "metadata lock"));
    assert_eq!(row.object.object_type, Some("TABLE"));
    assert_eq!((row.object.schema.as_deref(), row.object.name.as_deref()), (Some("db"), Some("t")));
    rig.destroy_metadata_lock(lock);
    // Locks nobody waits for come and go by the thousand: they leave it its name.
    for n in 0..2_000 {
        let other = rig.create_metadata_lock(n, || Some(what), here()).unwrap();
        rig.destroy_metadata_lock(other);
    }
    assert_eq!(rig.waits(Scope::History)[0].object.name.as_deref(), Some("t"));
    let named = |n| {
        let other = rig.create_metadata_lock(n, || Some(what), here()).unwrap();
        let wait = rig.start_metadata_wait(other, here()).unwrap();
        rig.end_wait(&wait, 1, None);
        rig.destroy_metadata_lock(other);
        rig.waits(Scope::HistoryLong)[0].object.name.is_some()
    };
    assert!((0..60).all(named));
    assert!(!(60..200).all(named));
}

#[test]
fn metadata_locks_are_rows_while_somebody_has_or_awaits_them() {
    let rig = Rig::new();
    let thread = rig.connect();
    rig.wait(rig.class.mutex);
    let what =
        MetadataName { namespace: 3, names: b"db.t", schema_len: 2, lock_type: 1, duration: 1, status: 0 };
    let lock = rig.create_metadata_lock(0x77, || Some(what), here()).unwrap();
    let row = rig.metadata_locks().remove(0);
    assert_eq!((row.object.object_type, row.object_instance_begin), (Some("TABLE"), 0x77));
    assert_eq!((row.object.schema.as_deref(), row.object.name.as_deref()), (Some("db"), Some("t")));
    assert_eq!((row.lock_type, row.duration, row.status), ("SHARED", "TRANSACTION", "PENDING"));
    assert_eq!(row.source.as_deref(), Some("place.cc:42"));
    assert_eq!(row.owner_thread_id, thread.thread_id());
    assert!(row.owner_event_id > 0);
    rig.set_metadata_lock_status(lock, 1);
    assert_eq!(rig.metadata_locks()[0].status, "GRANTED");
    let schema =
        MetadataName { namespace: 2, names: b"db", schema_len: 2, lock_type: 0, duration: 0, status: 1 };
    rig.create_metadata_lock(0x78, || Some(schema), here()).unwrap();
    let schema = rig.metadata_locks().into_iter().find(|row| row.object.object_type == Some("SCHEMA"));
    assert_eq!(schema.unwrap().object.name, None);
    rig.destroy_metadata_lock(lock);
    assert_eq!(rig.metadata_locks().len(), 1);
}

#[test]
fn an_open_table_shows_who_uses_it_and_how_it_is_locked() {
    let rig = Rig::new();
    let thread = rig.connect();
    let table = rig.open_table(rig.share("db", "t", &["PRIMARY"]), 0x99).unwrap();
    rig.set_table_lock(table, false, Some(9));
    rig.set_table_lock(table, true, Some(4));
    let row = rig.table_handles().remove(0);
    assert_eq!((row.object_type, &*row.schema, &*row.name), ("TABLE", "db", "t"));
    assert_eq!((row.object_instance_begin, row.owner_thread_id), (0x99, thread.thread_id()));
    assert_eq!((row.internal_lock, row.external_lock), (Some("WRITE"), Some("READ EXTERNAL")));
    rig.set_table_lock(table, false, None);
    rig.unbind_table(table);
    let row = rig.table_handles().remove(0);
    assert_eq!((row.owner_thread_id, row.owner_event_id, row.internal_lock), (0, 0, None));
    let rule = |enabled| object_rule(objects::TABLE, "db", "t", enabled, true);
    rig.add_rule(rule(false)).unwrap();
    assert!(rig.table_handles().is_empty(), "of a table that is not watched nothing is shown");
    rig.replace_rule(rule(true));
    assert_eq!(rig.table_handles().len(), 1);
    rig.drop_table_share(&TableName { temporary: false, schema: b"db", name: b"t" });
    assert!(rig.table_handles().is_empty(), "of a dropped table nothing is known");
    rig.close_table(table);
}

#[test]
fn a_prepared_statement_counts_until_it_is_truncated_and_on_after_it() {
    let rig = Rig::new();
    let thread = rig.connect();
    let program = rig.program(objects::PROCEDURE, b"db", b"p").unwrap();
    let prepared = rig.create_prepared(0x55, 3, b"stmt", 12, Some(program)).unwrap();
    rig.set_prepared_text(prepared, b"select ?");
    let run = |preparing| {
        let statement = rig.begin(rig.class.statement, "select 1").unwrap();
        rig.add_statement_counter(statement, Counter::RowsSent, 2);
        let ended = rig.end_statement(statement, None);
        rig.count_prepared(prepared, preparing, ended);
    };
    run(true);
    run(false);
    run(false);
    rig.count_reprepare(prepared);
    let row = rig.prepared_statements().remove(0);
    assert_eq!((row.object_instance_begin, row.statement_id), (0x55, 3));
    assert_eq!((row.name.as_deref(), &*row.sql_text), (Some("stmt"), "select ?"));
    assert_eq!((row.owner_thread_id, row.owner_event_id), (thread.thread_id(), 12));
    assert_eq!((row.owner.object_type, row.owner.name.as_deref()), (Some("PROCEDURE"), Some("p")));
    assert!(row.prepare.sum_ps > 0);
    assert_eq!((row.prepare.count, row.reprepare.count), (1, 1));
    assert_eq!((row.execute.stat.count, row.execute.sum.rows_sent), (2, 4));
    rig.reset(Reset::Prepared);
    let row = rig.prepared_statements().remove(0);
    assert_eq!((row.prepare, row.reprepare, row.execute), Default::default());
    assert_eq!(row.sql_text, "select ?", "the statement is still there");
    run(false);
    rig.drop_program(objects::PROCEDURE, b"db", b"p");
    let row = rig.prepared_statements().remove(0);
    assert_eq!((row.prepare.count, row.execute.stat.count, row.execute.sum.rows_sent), (0, 1, 2));
    assert_eq!(row.owner.name, None);
    rig.destroy_prepared(prepared);
    assert!(rig.prepared_statements().is_empty());
}

#[test]
fn truncate_forgets_what_programs_did_and_leaves_the_programs() {
    let rig = Rig::new();
    rig.connect();
    let program = rig.program(objects::PROCEDURE, b"db", b"p").unwrap();
    let call = || {
        let start = rig.start_program(program).unwrap();
        let statement = rig.begin(rig.class.nested_statement, "set x = 1").unwrap();
        let ended = rig.end_statement(statement, None);
        rig.count_program_statement(program, ended);
        rig.end_program(program, start);
    };
    call();
    rig.reset(Reset::Objects);
    assert_eq!(rig.programs()[0].calls.count, 1, "that is about tables, as in the reference");
    rig.reset(Reset::Programs);
    let row = rig.programs().remove(0);
    assert_eq!((row.calls, row.statements), Default::default());
    call();
    assert_eq!((rig.programs()[0].calls.count, rig.programs()[0].statements.stat.count), (1, 1));
}

#[test]
fn a_program_counts_its_calls_and_its_statements() {
    let rig = Rig::new();
    rig.connect();
    let program = rig.program(objects::FUNCTION, b"db", b"f").unwrap();
    assert!(std::ptr::eq(program, rig.program(objects::FUNCTION, b"db", b"f").unwrap()));
    assert!(!std::ptr::eq(program, rig.program(objects::PROCEDURE, b"db", b"f").unwrap()));
    for _ in 0..3 {
        let start = rig.start_program(program).unwrap();
        let statement = rig.begin(rig.class.nested_statement, "set x = 1").unwrap();
        rig.add_statement_counter(statement, Counter::RowsSent, 2);
        let ended = rig.end_statement(statement, None);
        rig.count_program_statement(program, ended);
        rig.end_program(program, start);
    }
    let row = rig.programs().into_iter().find(|row| row.object_type == "FUNCTION").unwrap();
    assert_eq!((&*row.schema, &*row.name), ("db", "f"));
    assert_eq!((row.calls.count, row.statements.stat.count, row.statements.sum.rows_sent), (3, 3, 6));
    rig.drop_program(objects::FUNCTION, b"db", b"f");
    assert_eq!(rig.programs().len(), 1);
    assert!(rig.program(objects::FUNCTION, b"mysql", b"f").is_some());
    let unwatched = rig.program(objects::FUNCTION, b"mysql", b"f").unwrap();
    assert!(rig.start_program(unwatched).is_none());
}

#[test]
fn prepared_statements_come_and_go_without_taking_memory() {
    let rig = Rig::new();
    rig.connect();
    let mut before = None;
    for round in 0..1_500 {
        let prepared = rig.create_prepared(1, round, b"stmt", 1, None).unwrap();
        rig.set_prepared_text(prepared, b"select ?");
        let statement = rig.begin(rig.class.statement, "select 1").unwrap();
        let ended = rig.end_statement(statement, None);
        rig.count_prepared(prepared, true, ended);
        rig.count_prepared(prepared, false, ended);
        rig.count_reprepare(prepared);
        rig.destroy_prepared(prepared);
        if round == 1_400 {
            before = Some(rig.memory().0);
        }
    }
    assert_eq!(before, Some(rig.memory().0));
}

#[test]
fn waits_for_a_lock_count_for_it_where_the_host_wants_that() {
    let rig = Rig::new();
    let threads = [rig.connect(), rig.connect()];
    let [one, other] = [1, 2].map(|identity| rig.init_synch(rig.class.mutex, identity).unwrap());
    let wait = |lock: SynchRef, thread: ThreadRef| {
        rig.on(thread, || {
            if let Some(wait) = rig.start_synch_wait(lock, operation::MUTEX, here()) {
                rig.end_counted_synch_wait(lock, &wait);
            }
        });
    };
    let counts = || {
        let rows = rig.synchs();
        [1, 2].map(|identity| {
            rows.iter().find(|row| row.object_instance_begin == identity).unwrap().waits.count
        })
    };
    for thread in threads {
        (0..5).for_each(|_| wait(one, thread));
        wait(other, thread);
    }
    assert_eq!(counts(), [10, 2]);
    assert_eq!(rig.global_wait(MUTEX).count, 12, "and for the instrument");
    let stat = rig.synchs()[0].waits;
    assert!(0 < stat.sum_ps && stat.min_ps <= stat.max_ps && stat.max_ps <= stat.sum_ps);
    // Untimed, off, truncated.
    rig.set_instrument(rig.class.mutex, Some(true), Some(false));
    wait(other, threads[0]);
    rig.set_instrument(rig.class.mutex, Some(false), Some(false));
    wait(other, threads[0]);
    assert_eq!(counts(), [10, 3]);
    rig.reset(Reset::Instances);
    assert_eq!(counts(), [0, 0]);
    assert_eq!(rig.global_wait(MUTEX).count, 13);
}
