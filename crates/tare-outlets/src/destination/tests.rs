use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{Read, Seek};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};

use nix::libc::O_NONBLOCK;

use super::*;

/// A `Control` that lets the log run, or end.
pub(super) struct Hand {
    is_over: bool,
}

const GOES_ON: &Hand = &Hand { is_over: false };
pub(super) const ENDS: &Hand = &Hand { is_over: true };

impl Control for Hand {
    fn is_over(&self) -> bool {
        self.is_over
    }
    fn reopens(&self) -> bool {
        false
    }
    fn tell(&self, _line: &str) {}
}

fn open(destination: &Destination, hand: &'static Hand) -> DestinationWriter<'static> {
    DestinationWriter::open(destination, "statements", hand).expect("a place").expect("nobody is waited for")
}

/// Returns the sizes of a log's old files, by their numbers.
fn old_files(path: &Path) -> BTreeMap<u32, u64> {
    (1..100)
        .filter_map(|number| {
            let metadata = fs::metadata(format!("{}.{number}", path.display())).ok()?;
            Some((number, metadata.len()))
        })
        .collect()
}

fn file(rotation: Rotation) -> (tempfile::TempDir, PathBuf, DestinationWriter<'static>) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("slow.log");
    let sink = open(&Destination::File(path.clone(), rotation), GOES_ON);
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

/// Puts a record of 20 bytes, and rotates before it if that is due; returns the result of that.
fn log(sink: &mut DestinationWriter<'_>) -> Option<io::Result<()>> {
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
    // Another file has its name.
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
    // Modes that are wider than the umask allows, or narrower than the default.
    for given in [0o664, 0o600] {
        fs::set_permissions(&path, Permissions::from_mode(given)).expect("a mode");
        log(&mut sink);
        assert!(matches!(log(&mut sink), Some(Ok(()))));
        assert_eq!((mode(&path), mode(&folder.path().join("slow.log.1"))), (given, given), "rotated");
        fs::remove_file(&path).expect("removed");
        sink.reopen().expect("opened");
        assert_eq!(mode(&path), given, "opened anew");
    }
    // What logrotate has created stays as it is.
    fs::remove_file(&path).expect("removed");
    fs::write(&path, "").expect("a file");
    fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("a mode");
    sink.reopen().expect("opened");
    assert_eq!(mode(&path), 0o644);
}

#[test]
fn a_full_disk_is_said_once_counted_and_got_over() {
    // A device that is always full, instead of the file.
    let (_folder, path, mut sink) = file(Rotation::default());
    let full = OpenOptions::new().append(true).open("/dev/full").expect("the device");
    let OpenTarget::File { file, .. } = &mut sink.open else { panic!("a file") };
    let good = std::mem::replace(file, full.into());
    let mut news = Vec::new();
    for _ in 0..3 {
        (0..10).for_each(|_| sink.put("lost\n", 2));
        let flushed = sink.flush();
        assert_eq!((flushed.written, flushed.unwritten, flushed.untold), (0, 10, 20));
        news.extend(flushed.news);
    }
    assert!(matches!(&news[..], [line] if line.contains("No space left")), "{news:?}");
    let OpenTarget::File { file, .. } = &mut sink.open else { panic!("a file") };
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
    let mut sink = open(&Destination::File(folder.path().join("unused"), Rotation::default()), GOES_ON);
    sink.open = OpenTarget::Syslog(Syslog::connect(at.clone()).expect("somebody listens"));
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
/// Environment variable of the child process in the test below.
const SHOWS: &str = "TARE_TEST_SHOWS";

#[test]
fn a_terminal_is_given_no_orders() {
    if std::env::var_os(SHOWS).is_some() {
        let mut sink = open(&Destination::Output, GOES_ON);
        sink.put(HOSTILE, 0);
        assert_eq!(sink.flush().written, 1);
        return;
    }
    let name = "destination::tests::a_terminal_is_given_no_orders";
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

/// Makes a named pipe.
fn pipe(folder: &Path) -> PathBuf {
    let path = folder.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo");
    assert!(made.success());
    path
}

/// Opens a pipe for non-blocking reads.
fn reader(pipe: &Path) -> File {
    OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(pipe).expect("a pipe")
}

#[test]
fn a_pipe_is_not_moved_away() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = pipe(folder.path());
    let _reader = reader(&path);
    let rotation = Rotation { size: Some(20), time: Some(Duration::ZERO), keep: 0 };
    let mut sink = open(&Destination::File(path.clone(), rotation), GOES_ON);
    for _ in 0..3 {
        assert!(log(&mut sink).is_none());
        assert_eq!(sink.flush().written, 1);
    }
    assert!(fs::symlink_metadata(&path).expect("it is there").file_type().is_fifo());
    assert_eq!(old_files(&path), BTreeMap::new());
}

#[test]
fn a_link_that_has_taken_the_files_place_is_not_moved_away() {
    let (folder, path, mut sink) = file(Rotation { size: Some(20), time: None, keep: 2 });
    let moved = folder.path().join("moved");
    fs::rename(&path, &moved).expect("moved");
    std::os::unix::fs::symlink(&moved, &path).expect("a link");
    for _ in 0..3 {
        log(&mut sink);
    }
    sink.flush();
    assert!(fs::symlink_metadata(&path).expect("it is there").is_symlink());
    assert_eq!((old_files(&path), fs::metadata(&moved).expect("a file").len()), (BTreeMap::new(), 60));
}

#[test]
fn a_pipe_that_nobody_reads_keeps_nobody_from_ending() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = pipe(folder.path());
    let destination = Destination::File(path.clone(), Rotation::default());
    assert!(DestinationWriter::open(&destination, "statements", ENDS).expect("no error").is_none());
    // The reader comes later.
    let coming = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        reader(&path)
    });
    let mut sink = open(&destination, GOES_ON);
    let mut reader = coming.join().expect("a reader");
    sink.put("read\n", 0);
    assert_eq!(sink.flush().written, 1);
    let mut read = [0; 10];
    assert_eq!(reader.read(&mut read).expect("a record"), 5);
}

#[test]
fn a_reader_that_takes_nothing_keeps_nobody_from_ending() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = pipe(folder.path());
    let mut reader = reader(&path);
    let mut sink = open(&Destination::File(path, Rotation::default()), ENDS);
    let record = format!("{}\n", "x".repeat(99));
    let put = |sink: &mut DestinationWriter<'_>, count| (0..count).for_each(|_| sink.put(&record, 1));
    // More than a pipe holds, which is 64 KiB.
    put(&mut sink, 1000);
    let flushed = sink.flush();
    assert!(flushed.written > 0 && flushed.unwritten > 0 && sink.is_gone(), "{flushed:?}");
    assert_eq!((flushed.written + flushed.unwritten, flushed.untold), (1000, flushed.unwritten));
    assert!(flushed.news.is_some_and(|line| line.contains("its reader takes nothing")));
    // After reading there is room again.
    let mut read = vec![];
    let emptied = reader.read_to_end(&mut read).expect_err("there may be more");
    assert_eq!(emptied.kind(), io::ErrorKind::WouldBlock);
    assert_eq!(read.len() as u64 / 100, flushed.written);
    put(&mut sink, 10);
    assert_eq!(sink.flush().written, 10);
}

#[test]
fn a_reader_that_takes_its_time_is_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = pipe(folder.path());
    let mut reader = reader(&path);
    let mut sink = open(&Destination::File(path, Rotation::default()), ENDS);
    let record = format!("{}\n", "x".repeat(99));
    let reading = std::thread::spawn(move || {
        let (mut piece, mut read) = ([0; 10_000], 0);
        // It ends when the writer closes it; until then it may be empty.
        loop {
            match reader.read(&mut piece) {
                Ok(0) => return read,
                Ok(some) => read += some,
                Err(_) => {}
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    (0..5000).for_each(|_| sink.put(&record, 0));
    let flushed = sink.flush();
    assert_eq!((flushed.written, flushed.unwritten, sink.is_gone()), (5000, 0, false), "{:?}", flushed.news);
    drop(sink);
    assert_eq!(reading.join().expect("no panic"), 500_000);
}

/// Environment variable with the folder for the child process in the test below.
const CHILD: &str = "TARE_TEST_FILLS_UP";

#[test]
fn a_disk_that_fills_up_keeps_whole_records_and_goes_on_with_one() {
    if let Some(folder) = std::env::var_os(CHILD) {
        return fill_up(Path::new(&folder));
    }
    let folder = tempfile::tempdir().expect("a folder");
    // A file may have 8 KiB, so a record fails in the middle.
    let mut shell = std::process::Command::new("bash");
    shell.args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$0\" --exact \"$1\""]);
    shell.arg(std::env::current_exe().expect("this program"));
    shell.arg("destination::tests::a_disk_that_fills_up_keeps_whole_records_and_goes_on_with_one");
    let output = shell.env(CHILD, folder.path()).output().expect("bash");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

fn fill_up(folder: &Path) {
    let path = folder.join("slow.log");
    let mut sink = open(&Destination::File(path.clone(), Rotation::default()), GOES_ON);
    // Somebody makes room.
    fill(&mut sink, &path, || fs::write(&path, "").expect("room"));
    // A shell opens it like this for `>> FILE` and for `> FILE`.
    for is_added_to in [true, false] {
        let output = folder.join("output");
        let file = match is_added_to {
            true => OpenOptions::new().create(true).append(true).open(&output),
            false => File::create(&output),
        };
        let file = file.expect("a file");
        let mut other = file.try_clone().expect("the same file");
        let mut sink = open(&Destination::File(path.clone(), Rotation::default()), GOES_ON);
        sink.open = OpenTarget::Output(file.into());
        fill(&mut sink, &output, || other.set_len(0).and_then(|()| other.rewind()).expect("room"));
    }
}

/// Writes more than there is room for, twice.
fn fill(sink: &mut DestinationWriter<'_>, path: &Path, mut make_room: impl FnMut()) {
    let record = format!("{}\n", "x".repeat(99));
    let lines = || fs::read_to_string(path).expect("text").lines().map(str::len).collect::<Vec<_>>();
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
        // The room left after an incomplete record is not used for a part of the next one.
        (0..2).for_each(|n| sink.put(&record, n));
        assert_eq!(sink.flush().written, 0);
        assert_eq!(lines(), [99; 81]);
        make_room();
    }
}
