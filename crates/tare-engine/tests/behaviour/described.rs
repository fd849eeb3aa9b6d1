//! Files, sockets and tables of a host that describes them itself, and decides itself what is timed.

use tare_engine::snapshot::*;

use tare_rig::*;

#[test]
fn a_socket_has_the_identity_that_the_host_gives_it() {
    let rig = Rig::new();
    rig.connect();
    let socket = rig.init_socket(rig.class.socket, None, b"", 0).unwrap();
    rig.set_socket_thread_owner(socket);
    assert_ne!(rig.sockets()[0].object_instance_begin, 0, "its address, if the host gives none");
    rig.set_socket_identity(socket, 4711);
    rig.socket_io(socket, io::SOCKET_SEND, 8);
    assert_eq!(rig.sockets()[0].object_instance_begin, 4711);
    assert_eq!(rig.waits(Scope::History)[0].object_instance_begin, 4711);
}

#[test]
fn what_the_host_does_not_time_is_counted() {
    let rig = Rig::new();
    rig.connect();
    let socket = rig.init_socket(rig.class.socket, None, b"", 0).unwrap();
    rig.set_socket_thread_owner(socket);
    let wait = rig.start_untimed_socket_wait(socket, 4, here()).unwrap();
    rig.end_socket_wait(socket, &wait, 4, 8);
    let write = rig.sockets()[0].io.write;
    assert_eq!((write.stat.count, write.stat.sum_ps, write.bytes), (1, 0, 8));
    assert_eq!(rig.socket_ticks(socket)[..2], [1, 0]);

    let file = rig.find_file(rig.class.file, b"/data/t", true).unwrap();
    let wait = rig.start_untimed_file_wait(rig.class.file, Some(file), 7).unwrap();
    rig.end_file_wait(&wait, Some(file), 7, 16);
    let write = rig.files()[0].io.write;
    assert_eq!((write.stat.count, write.stat.sum_ps, write.bytes), (1, 0, 16));
    assert_eq!(rig.file_ticks(file)[..2], [1, 0]);

    let table = rig.open_table(rig.share("db", "t", &["PRIMARY"]), 1).unwrap();
    let wait = rig.start_untimed_table_io_wait(table, 0, 0, here()).unwrap();
    rig.end_table_io_wait(table, &wait, 0, 0, 3);
    let wait = rig.start_untimed_table_lock_wait(table, 10, here()).unwrap();
    rig.end_table_lock_wait(table, &wait, 10);
    let row = rig.tables().remove(0);
    assert_eq!((row.indexes[0].io.fetch.count, row.indexes[0].io.fetch.sum_ps), (3, 0));
    assert_eq!((row.locks.0[10].count, row.locks.0[10].sum_ps), (1, 0));
    assert_eq!(rig.tables_ticks()[0].1[..2], [4, 0]);
}

#[test]
fn a_file_keeps_its_counts_under_another_name() {
    let rig = Rig::new();
    rig.connect();
    let file = rig.find_file(rig.class.file, b"/data/old", true).unwrap();
    rig.file_io(file, 7, 16);
    rig.rename_file_to(file, b"/data/new");
    let row = rig.files().remove(0);
    assert_eq!((&*row.file_name, row.io.write.bytes), ("/data/new", 16));
    assert!(rig.find_file(0, b"/data/old", false).is_none());
}

#[test]
fn a_table_that_the_host_disables_keeps_the_counts_of_closed_handles() {
    let rig = Rig::new();
    rig.connect();
    let share = rig.share("mysql", "user", &["PRIMARY"]);
    rig.set_table_share_switches(share, true, true);
    let [closed, discarded] = [1, 2].map(|identity| rig.open_table(share, identity).unwrap());
    for table in [closed, discarded] {
        rig.table_io(table, 0, 0, 3);
    }
    let count = || rig.tables()[0].indexes[0].io.fetch.count;
    assert_eq!(count(), 6, "the host decides, not the rules");
    rig.discard_table(discarded);
    assert_eq!(count(), 3);
    rig.close_table(closed);
    assert_eq!(count(), 3);
    rig.set_table_share_switches(share, false, false);
    assert!(rig.tables()[0].is_shown);
    assert_eq!(count(), 3);
}
