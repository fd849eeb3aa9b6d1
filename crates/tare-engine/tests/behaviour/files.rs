//! Files and sockets.

use tare_engine::snapshot::*;

use tare_rig::*;

/// Counts and bytes: times differ from query to query while the clock is being calibrated.
fn figures(io: IoStat) -> [(u64, u64); 3] {
    [io.read, io.write, io.misc].map(|part| (part.stat.count, part.bytes))
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
