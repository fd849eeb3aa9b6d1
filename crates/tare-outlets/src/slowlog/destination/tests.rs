use std::collections::BTreeMap;

use super::*;

/// Old files of a log, by their numbers.
fn old_files(path: &Path) -> BTreeMap<u32, u64> {
    (1..100)
        .filter_map(|number| {
            let metadata = fs::metadata(format!("{}.{number}", path.display())).ok()?;
            Some((number, metadata.len()))
        })
        .collect()
}

fn file(rotation: Rotation) -> (tempfile::TempDir, PathBuf, Sink) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("slow.log");
    let sink = Sink::open(&Destination::File(path.clone(), rotation)).expect("a file");
    (folder, path, sink)
}

#[test]
fn a_file_makes_way_by_size_and_only_so_many_are_kept() {
    let (_folder, path, mut sink) = file(Rotation { size: Some(100), time: None, keep: 2 });
    for _ in 0..50 {
        if sink.is_due(0) {
            sink.flush();
            sink.rotate(0).expect("rotated");
        }
        sink.put("a record of 20 bytes", 0);
    }
    assert_eq!(sink.flush().unwritten, 0);
    assert_eq!(old_files(&path), BTreeMap::from([(1, 100), (2, 100)]));
    assert_eq!(fs::metadata(&path).expect("the log").len(), 100);
}

#[test]
fn a_file_makes_way_by_time() {
    let (_folder, path, mut sink) =
        file(Rotation { size: None, time: Some(Duration::from_secs(60)), keep: 5 });
    for second in 0..180 {
        if sink.is_due(second * 1_000_000) {
            sink.flush();
            sink.rotate(second * 1_000_000).expect("rotated");
        }
        sink.put("x", 0);
    }
    sink.flush();
    assert_eq!(old_files(&path), BTreeMap::from([(1, 60), (2, 60)]));
}

#[test]
fn a_file_that_was_moved_away_is_begun_anew() {
    let (folder, path, mut sink) = file(Rotation::default());
    sink.put("one", 0);
    sink.flush();
    fs::rename(&path, folder.path().join("moved")).expect("moved");
    sink.put("two", 0);
    sink.flush();
    sink.reopen().expect("opened");
    sink.put("three", 0);
    sink.flush();
    assert_eq!(fs::read_to_string(folder.path().join("moved")).expect("text"), "onetwo");
    assert_eq!(fs::read_to_string(path).expect("text"), "three");
}

/// Puts a record of 20 bytes, and rotates before it if that is due; returns what came of that.
fn log(sink: &mut Sink) -> Option<io::Result<()>> {
    let rotated = sink.is_due(0).then(|| {
        sink.flush();
        sink.rotate(0)
    });
    sink.put("a record of 20 bytes", 0);
    rotated
}

#[test]
fn a_file_that_is_gone_takes_no_old_one_with_it() {
    let (folder, path, mut sink) = file(Rotation { size: Some(20), time: None, keep: 2 });
    for _ in 0..3 {
        log(&mut sink);
    }
    sink.flush();
    assert_eq!(old_files(&path), BTreeMap::from([(1, 20), (2, 20)]));
    fs::remove_file(&path).expect("removed");
    fs::write(folder.path().join("slow.log.1"), "one").expect("a mark");
    fs::write(folder.path().join("slow.log.2"), "two").expect("a mark");
    assert!(matches!(log(&mut sink), Some(Ok(()))), "it is begun anew");
    sink.flush();
    assert_eq!(old_files(&path), BTreeMap::from([(1, 3), (2, 3)]));
    assert_eq!(fs::read_to_string(&path).expect("text"), "a record of 20 bytes");
    // Another file is in its place.
    fs::rename(&path, folder.path().join("moved")).expect("moved");
    fs::write(&path, "").expect("a new file");
    assert!(matches!(log(&mut sink), Some(Ok(()))));
    sink.flush();
    assert_eq!(old_files(&path), BTreeMap::from([(1, 3), (2, 3)]));
    assert_eq!(fs::metadata(&path).expect("the log").len(), 20);
}

#[test]
fn a_file_that_cannot_make_way_is_tried_again_when_it_has_grown_as_much() {
    let (folder, path, mut sink) = file(Rotation { size: Some(100), time: None, keep: 1 });
    let in_the_way = folder.path().join("slow.log.1");
    fs::create_dir(&in_the_way).expect("a folder");
    let tried: Vec<usize> = (0..20).filter(|_| matches!(log(&mut sink), Some(Err(_)))).collect();
    assert_eq!(tried, [5, 10, 15]);
    fs::remove_dir(&in_the_way).expect("removed");
    let moved: Vec<usize> = (20..30).filter(|_| matches!(log(&mut sink), Some(Ok(())))).collect();
    assert_eq!(moved, [20, 25]);
    sink.flush();
    assert_eq!([fs::metadata(&path), fs::metadata(in_the_way)].map(|it| it.expect("a file").len()), [100; 2]);
}

#[test]
fn a_file_that_cannot_make_way_is_tried_again_when_it_is_as_old() {
    let (folder, _path, mut sink) =
        file(Rotation { size: None, time: Some(Duration::from_secs(60)), keep: 1 });
    fs::create_dir(folder.path().join("slow.log.1")).expect("a folder");
    let tried = (0..200).filter(|second| {
        sink.put("x", 0);
        sink.is_due(second * 1_000_000) && sink.rotate(second * 1_000_000).is_err()
    });
    assert_eq!(tried.collect::<Vec<u64>>(), [60, 120, 180]);
}

#[test]
fn a_log_is_nobody_elses_and_new_files_are_as_the_old_ones() {
    let (folder, path, mut sink) = file(Rotation { size: Some(20), time: None, keep: 1 });
    let mode = |path: &Path| fs::metadata(path).expect("a file").permissions().mode() & 0o777;
    assert_eq!(mode(&path) & 0o027, 0, "others may not read it, and its group not write");
    // Wider than the umask allows, or narrower than ours.
    for given in [0o664, 0o600] {
        fs::set_permissions(&path, Permissions::from_mode(given)).expect("a mode");
        log(&mut sink);
        assert!(matches!(log(&mut sink), Some(Ok(()))));
        assert_eq!((mode(&path), mode(&folder.path().join("slow.log.1"))), (given, given), "rotated");
        fs::remove_file(&path).expect("removed");
        sink.reopen().expect("opened");
        assert_eq!(mode(&path), given, "opened anew");
    }
    // What logrotate has made already stays as it is.
    fs::remove_file(&path).expect("removed");
    fs::write(&path, "").expect("a file");
    fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("a mode");
    sink.reopen().expect("opened");
    assert_eq!(mode(&path), 0o644);
}

#[test]
fn a_full_disk_is_said_once_counted_and_got_over() {
    // A device that is always full, in the place of the file.
    let (_folder, path, mut sink) = file(Rotation::default());
    let full = OpenOptions::new().append(true).open("/dev/full").expect("the device");
    let Open::File { file, .. } = &mut sink.open else { panic!("a file") };
    let good = std::mem::replace(file, full);
    let mut news = Vec::new();
    for _ in 0..3 {
        (0..10).for_each(|_| sink.put("lost\n", 2));
        let flushed = sink.flush();
        assert_eq!((flushed.written, flushed.unwritten, flushed.untold), (0, 10, 20));
        news.extend(flushed.news);
    }
    assert!(matches!(&news[..], [line] if line.contains("No space left")), "{news:?}");
    let Open::File { file, .. } = &mut sink.open else { panic!("a file") };
    *file = good;
    sink.put("kept\n", 60);
    let flushed = sink.flush();
    assert_eq!((flushed.written, flushed.unwritten, flushed.untold), (1, 0, 0));
    assert!(flushed.news.is_some_and(|line| line.contains("30 statements were left out")));
    assert_eq!(fs::read_to_string(path).expect("text"), "kept\n");
}

#[test]
fn each_record_is_a_message_of_syslog_whoever_listens() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().join("log");
    let listen = || {
        let listener = UnixDatagram::bind(&at).expect("a socket");
        listener.set_read_timeout(Some(Duration::from_secs(10))).expect("a limit");
        listener
    };
    let heard = |listener: &UnixDatagram| {
        let mut message = [0; 100];
        let length = listener.recv(&mut message).expect("a message");
        String::from_utf8_lossy(&message[..length]).into_owned()
    };
    let mut listener = listen();
    let mut sink =
        Sink::open(&Destination::File(folder.path().join("unused"), Rotation::default())).expect("a file");
    sink.open = Open::Syslog(Syslog::connect(at.clone()).expect("somebody listens"));
    let mut log = |text: &str| {
        sink.put(text, 3);
        sink.put("{\"n\":2}\n", 4);
        let flushed = sink.flush();
        (flushed.written, flushed.unwritten, flushed.untold)
    };
    let begin = format!("<30>tare-slowlog[{}]: ", std::process::id());
    for _restart in 0..2 {
        assert_eq!(log("{\"n\":1}\n"), (2, 0, 0));
        assert_eq!(heard(&listener), format!("{begin}{{\"n\":1}}"));
        assert_eq!(heard(&listener), format!("{begin}{{\"n\":2}}"));
        drop(listener);
        assert_eq!(log("lost\n"), (0, 2, 7), "nobody listens");
        fs::remove_file(&at).expect("removed");
        listener = listen();
    }
}

const HOSTILE: &str = "SELECT '\u{1b}[2J\u{9b}31m\u{7f}\0\r',\t'ä'\n";
/// Set for the child of the test below.
const SHOWS: &str = "TARE_TEST_SHOWS";

#[test]
fn a_terminal_is_given_no_orders() {
    if std::env::var_os(SHOWS).is_some() {
        let mut sink = Sink::open(&Destination::Output).expect("standard output");
        sink.put(HOSTILE, 0);
        assert_eq!(sink.flush().written, 1);
        return;
    }
    let name = "slowlog::destination::tests::a_terminal_is_given_no_orders";
    let program = std::env::current_exe().expect("this program");
    let own = format!("{} --exact {name}", program.display());
    let output = |program: &str, arguments: &[&str]| {
        let output = std::process::Command::new(program).args(arguments).env(SHOWS, "").output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let piped = output("sh", &["-c", &own]).expect("a shell");
    assert!(piped.contains(HOSTILE), "a pipe gets every byte: {piped:?}");
    // A program that gives another one a terminal.
    let Ok(shown) = output("script", &["--quiet", "--command", &own, "/dev/null"]) else {
        println!("skipped: there is no script (package bsdutils)");
        return;
    };
    assert!(shown.contains("SELECT '\u{fffd}[2J\u{fffd}31m\u{fffd}\u{fffd}\u{fffd}',\t'ä'\r\n"), "{shown:?}");
}

/// Names the file of the child of the test below.
const CHILD: &str = "TARE_TEST_FILLS_UP";

#[test]
fn a_disk_that_fills_up_keeps_whole_records_and_goes_on_with_one() {
    if let Some(path) = std::env::var_os(CHILD) {
        return fill_up(Path::new(&path));
    }
    let folder = tempfile::tempdir().expect("a folder");
    // A file may have 8 KiB: what is beyond fails in the middle of a record.
    let mut shell = std::process::Command::new("bash");
    shell.args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$0\" --exact \"$1\""]);
    shell.arg(std::env::current_exe().expect("this program"));
    shell.arg("slowlog::destination::tests::a_disk_that_fills_up_keeps_whole_records_and_goes_on_with_one");
    let output = shell.env(CHILD, folder.path().join("slow.log")).output().expect("bash");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

fn fill_up(path: &Path) {
    let record = format!("{}\n", "x".repeat(99));
    let lines = || fs::read_to_string(path).expect("text").lines().map(str::len).collect::<Vec<_>>();
    let mut sink = Sink::open(&Destination::File(path.to_owned(), Rotation::default())).expect("a file");
    for _ in 0..2 {
        (0..100).for_each(|n| sink.put(&record, n));
        let flushed = sink.flush();
        let untold = (81..100).sum();
        assert_eq!(
            (flushed.written, flushed.unwritten, flushed.untold),
            (81, 19, untold),
            "{:?}",
            flushed.news
        );
        assert_eq!(lines(), [99; 81]);
        // Somebody makes room.
        fs::write(path, "").expect("room");
    }
}
