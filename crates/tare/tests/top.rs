//! `tare top` as a user runs it: in a pseudo-terminal, driven by keys, on a server under load that is
//! restarted below it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::pty::{Winsize, openpty};
use tare_testkit::load::SysbenchLoad;
use tare_testkit::server::{LIMIT, Server, StartSettings};
use tare_testkit::subject::TestProvider;
use tare_testkit::{eventually, poll};

const LOAD: SysbenchLoad =
    SysbenchLoad { workload: "oltp_read_write", threads: 2, tables: 1, rows: 1000, prepared: false };

/// A program in a terminal of its own.
struct Screen {
    child: Child,
    keys: File,
    output: Receiver<Vec<u8>>,
    terminal: vt100::Parser,
}

impl Screen {
    /// Starts it in a terminal of 24 lines and 80 columns.
    fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Screen {
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        let pair = openpty(Some(&size), None).expect("a pseudo-terminal");
        for end in [&pair.master, &pair.slave] {
            // The program gets the terminal as its own, and must not hold the other end open.
            fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).expect("a descriptor");
        }
        let end = |slave: &OwnedFd| Stdio::from(slave.try_clone().expect("a descriptor"));
        // A session of its own, so that the terminal of whoever runs the test is not the program's; and one
        // that is not told when the terminal goes, as under nohup.
        let mut command = Command::new("setsid");
        let deaf = r#"trap "" HUP; exec "$0" "$@""#;
        command
            .args(["--wait", "--ctty", "sh", "-c", deaf, env!("CARGO_BIN_EXE_tare"), "top"])
            .args(arguments);
        command.env_remove("NO_COLOR").env("TERM", "xterm-256color").envs(environment.iter().copied());
        command.stdin(end(&pair.slave)).stdout(end(&pair.slave)).stderr(end(&pair.slave));
        let child = command.spawn().expect("it starts");
        drop((command, pair.slave));
        let keys = File::from(pair.master);
        let mut from = keys.try_clone().expect("a descriptor");
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Screen { child, keys, output, terminal: vt100::Parser::new(24, 80, 0) }
    }

    /// Closes the terminal's other end.
    fn hang_up(&mut self) {
        self.output = channel().1;
        self.keys = File::open("/dev/null").expect("a device");
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("it listens");
    }

    fn picture(&self) -> String {
        self.terminal.screen().contents()
    }

    /// Reads what it draws until that is so.
    fn wait(&mut self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let begin = Instant::now();
        loop {
            let picture = self.picture();
            if is_so(&picture) {
                return picture;
            }
            assert!(begin.elapsed() < LIMIT, "not {what}:\n{picture}");
            if let Ok(bytes) = self.output.recv_timeout(Duration::from_millis(200)) {
                self.terminal.process(&bytes);
            }
        }
    }

    fn wait_for(&mut self, text: &str) -> String {
        self.wait(text, |picture| picture.contains(text))
    }

    /// Waits for its end, and gives all that was drawn after the terminal was given back.
    fn end(&mut self) -> Option<i32> {
        let ended = poll(LIMIT, || self.child.try_wait().expect("asked"));
        let status = ended.unwrap_or_else(|| panic!("it does not end:\n{}", self.picture()));
        // The terminal's other end closes with the last program that has it.
        while let Ok(bytes) = self.output.recv_timeout(LIMIT) {
            self.terminal.process(&bytes);
        }
        status.code()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn endpoint(server: &Server) -> String {
    server.endpoint().to_str().expect("UTF-8").to_owned()
}

/// The rows of a list with a text.
fn rows<'p>(picture: &'p str, text: &str) -> Vec<&'p str> {
    picture.lines().filter(|line| line.contains(text)).collect()
}

#[test]
fn it_ends_with_its_terminal() {
    let _turn = tare_testkit::turn();
    let server = Server::start(StartSettings::new(TestProvider::tare())).expect("a server");
    let mut screen = Screen::start(&["--socket", &endpoint(&server), "--interval", "500ms"], &[]);
    screen.wait_for("[1 statements]");
    screen.hang_up();
    assert_eq!(screen.end(), Some(0));
}

#[test]
fn keys_drive_it_under_load_and_it_survives_a_restart() {
    let _turn = tare_testkit::turn();
    let mut server = Server::start(StartSettings::new(TestProvider::tare())).expect("a server");
    LOAD.prepare(&server).expect("tables");
    let load = LOAD.start(&server, 600).expect("a load");
    let socket = endpoint(&server);
    let mut screen = Screen::start(&["--socket", &socket, "--interval", "500ms"], &[]);

    let picture = screen.wait("rates", |it| it.contains("over ") && it.contains("statements/s"));
    assert!(picture.starts_with("tare top  MariaDB"), "{picture}");
    screen.wait("statements of the load", |it| it.contains("SELECT `c` FROM"));
    for (key, title, some) in [
        ("2", "[2 waits]", "io/table/sql/handler"),
        ("3", "[3 locks]", "WAITS FOR"),
        ("4", "[4 tables]", "sbtest1"),
        ("5", "[5 files]", "FILE"),
        ("6", "[6 memory]", "innodb/"),
        ("7", "[7 threads]", "root@localhost"),
        ("\t", "[1 statements]", "COMMIT"),
    ] {
        screen.press(key);
        screen.wait(title, |it| it.contains(title) && it.contains(some));
    }

    screen.press("?");
    screen.wait_for("this help");
    screen.press("?");
    screen.wait("without help", |it| !it.contains("this help") && it.contains("COMMIT"));
    screen.press("/commit\r");
    screen.wait("filtered", |it| it.contains("only rows with “commit”") && rows(it, "SELECT").is_empty());
    screen.press("\x1b");
    screen.wait("all rows", |it| !rows(it, "SELECT").is_empty());
    screen.press("s");
    screen.wait_for("AVG▼");
    screen.press("SS");
    screen.wait_for("RATE/s▼");
    screen.press("p");
    screen.wait_for("PAUSED");
    screen.press(" ");
    screen.wait("going on", |it| !it.contains("PAUSED"));
    screen.press("+");
    screen.wait_for("every 1 s");
    screen.press("-");
    screen.wait_for("every 0.5 s");

    screen.press("/`c` from\r");
    screen.wait_for("only rows with");
    screen.press("\r");
    let detail = screen.wait("a digest in detail", |it| {
        it.contains("Stages of the last") && it.contains("Samples:") && it.contains("Waits of the last")
    });
    assert!(detail.contains("WHERE ID"), "the whole text: {detail}");
    screen.press("\x1b");
    screen.wait_for("only rows with");
    screen.press("\x1b");

    // The server goes away, and comes back with a load.
    drop(load);
    server.stop().expect("it stops");
    screen.wait_for("trying again");
    server.resume().expect("it starts");
    let load = LOAD.start(&server, 600).expect("a load");
    screen.wait("the server again", |it| it.contains("answers again") || it.contains("over "));
    screen.wait("rates again", |it| it.contains("over ") && it.contains("SELECT `c` FROM"));
    drop(load);

    screen.press("q");
    assert_eq!(screen.end(), Some(0), "{}", screen.picture());
    assert!(!screen.terminal.screen().alternate_screen(), "the terminal is given back");
    assert!(!screen.terminal.screen().hide_cursor(), "with its cursor");
}

#[test]
fn ctrl_c_and_a_signal_give_the_terminal_back() {
    let _turn = tare_testkit::turn();
    let server = Server::start(StartSettings::new(TestProvider::tare())).expect("a server");
    let socket = endpoint(&server);
    for by_key in [true, false] {
        let mut screen = Screen::start(&["--socket", &socket, "--view", "threads"], &[]);
        screen.wait_for("[7 threads]");
        if by_key {
            screen.press("\x03");
        } else {
            let program = child_of(screen.child.id());
            let pid = nix::unistd::Pid::from_raw(program);
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("it runs");
        }
        assert_eq!(screen.end(), Some(0));
        assert!(!screen.terminal.screen().alternate_screen());
    }
}

/// The program that `setsid` runs: itself, or where it had to fork, its child.
fn child_of(pid: u32) -> i32 {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let child = children.split_whitespace().next().and_then(|it| it.parse().ok());
    child.unwrap_or(i32::try_from(pid).expect("a pid"))
}

#[test]
fn without_colours_it_draws_none() {
    let _turn = tare_testkit::turn();
    let server = Server::start(StartSettings::new(TestProvider::tare())).expect("a server");
    let socket = endpoint(&server);
    for (environment, coloured) in [(&[("NO_COLOR", "1")][..], false), (&[], true)] {
        let mut screen = Screen::start(&["--socket", &socket, "--view", "waits"], environment);
        screen.wait_for("TIME/s▼");
        let cells = (0..24).flat_map(|y| (0..80).map(move |x| (y, x)));
        let colour = |(y, x)| {
            screen.terminal.screen().cell(y, x).is_some_and(|cell| {
                cell.fgcolor() != vt100::Color::Default || cell.bgcolor() != vt100::Color::Default
            })
        };
        assert_eq!(cells.into_iter().any(colour), coloured, "{}", screen.picture());
    }
}

fn tare(arguments: &[&str]) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tare"));
    command.arg("top").args(arguments).stdin(Stdio::null()).env_remove("TARE_DSN");
    command.output().expect("it runs")
}

/// Until a load gives load: there is little to be seen in the first second of a client's.
fn wait_for_commits(server: &Server) {
    let mut client = server.client().expect("a client");
    let mut commits = || client.query_first::<(String, u64), _>("SHOW GLOBAL STATUS LIKE 'Com_commit'");
    let is_busy = || commits().expect("a row").is_some_and(|(_, count)| count >= 10);
    eventually("something is committed", LIMIT, is_busy);
}

#[test]
fn once_is_one_look_for_people_and_for_programs() {
    let _turn = tare_testkit::turn();
    for provider in [TestProvider::tare(), TestProvider::BuiltIn] {
        let server = Server::start(StartSettings::new(provider)).expect("a server");
        LOAD.prepare(&server).expect("tables");
        let load = LOAD.start(&server, 600).expect("a load");
        wait_for_commits(&server);
        let dsn = format!(
            "mysql://root@localhost?socket={}",
            server.socket().display().to_string().replace('/', "%2F")
        );
        let socket = endpoint(&server);
        let from = if server.settings.provider.is_tare() { ["--socket", &socket] } else { ["--dsn", &dsn] };
        let json = tare(&[&from[..], &["--once", "--format=json", "--interval", "1s"]].concat());
        assert!(json.status.success(), "{}", String::from_utf8_lossy(&json.stderr));
        let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
        let rows = json["sheets"]["statements"].as_array().expect("rows");
        let commit = rows.iter().find(|row| row["statement"].as_str() == Some("COMMIT "));
        let commit = commit.or(rows.iter().find(|row| row["statement"].as_str() == Some("COMMIT")));
        let rate = commit.and_then(|row| row["rate_per_s"].as_f64()).expect("a rate");
        assert!(rate > 0.0, "{json:#}");
        assert!(json["totals"]["statements_per_s"].as_f64().expect("a rate") > rate, "{json:#}");

        for view in ["waits", "locks", "tables", "files", "memory", "threads"] {
            let text = tare(&[&from[..], &["--once", "--interval", "500ms", "--view", view]].concat());
            let text = String::from_utf8(text.stdout).expect("UTF-8");
            assert!(text.lines().next().is_some_and(|line| line.contains(view)), "{text}");
            assert!(!text.contains('\x1b'), "{text}");
        }
        drop(load);
    }
}

#[test]
fn where_it_cannot_work_it_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = |arguments: &[&str]| {
        let ended = tare(arguments);
        assert_eq!(ended.status.code(), Some(1), "{arguments:?}");
        String::from_utf8(ended.stderr).expect("UTF-8")
    };
    let datadir = folder.path().to_str().expect("UTF-8");
    assert!(said(&["--datadir", datadir]).contains("--once"), "no terminal");
    let gone = said(&["--once", "--datadir", datadir]);
    assert!(gone.contains("tare.sock") && gone.contains("no answer"), "{gone}");
    assert!(gone.contains("`tare doctor`") && gone.contains("--dsn"), "what to do: {gone}");
    let secret = said(&["--once", "--dsn", "mysql://root:secret@127.0.0.1:1"]);
    assert!(!secret.contains("secret"), "{secret}");
}
