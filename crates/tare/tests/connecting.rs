//! Commands come to a server as every client does: a user's options, files and mistakes, on running servers.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use mysql::prelude::Queryable;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::pty::openpty;
use nix::sys::termios::{LocalFlags, tcgetattr};
use tare_testkit::eventually;
use tare_testkit::server::{LIMIT, Server, StartSettings};
use tare_testkit::subject::TestProvider;
use tempfile::TempDir;

/// A password with all that means something somewhere.
const PASSWORD: &str = r#"p#/?:@%41 [x]'"\"#;

fn server(provider: TestProvider) -> Server {
    let server = Server::start(StartSettings::new(provider).option("--plugin-load-add=auth_ed25519"))
        .expect("a server");
    let mut root = server.client().expect("a client");
    let quoted = tare_server::sql::literal(PASSWORD);
    for statement in [
        format!("CREATE USER agent@localhost IDENTIFIED VIA ed25519 USING PASSWORD({quoted})"),
        "GRANT SELECT, UPDATE ON performance_schema.* TO agent@localhost".to_owned(),
        "GRANT PROCESS ON *.* TO agent@localhost".to_owned(),
        "CREATE USER nobody@localhost IDENTIFIED BY 'n'".to_owned(),
    ] {
        root.query_drop(statement).expect("an account");
    }
    server
}

/// Where a user is at home.
struct Home(TempDir);

impl Home {
    fn new() -> Home {
        Home(tempfile::tempdir().expect("a folder"))
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.path().join(name);
        fs::write(&path, text).expect("a file");
        path.display().to_string()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tare"));
        command.args(arguments).env("HOME", self.0.path()).stdin(Stdio::null());
        for variable in ["TARE_DSN", "MYSQL_PWD", "MYSQL_TCP_PORT", "MYSQL_UNIX_PORT", "TARE_LAB_PASSWORD"] {
            command.env_remove(variable);
        }
        command
    }

    fn tare(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("tare runs")
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

fn done(output: &Output) -> String {
    assert!(output.status.success(), "{:?}: {}", output.status, said(output));
    said(output)
}

/// A value of an option file, quoted.
fn filed(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

const LOOK: [&str; 4] = ["top", "--once", "--format=json", "--interval=500ms"];

fn look(more: &[&str]) -> Vec<String> {
    LOOK.iter().chain(more).map(|it| (*it).to_owned()).collect()
}

#[test]
fn a_password_with_any_character_comes_by_every_way() {
    let _turn = tare_testkit::turn();
    let server = server(TestProvider::BuiltIn);
    let socket = server.socket().display().to_string();
    let home = Home::new();
    let group = format!("[client]\nsocket={socket}\nuser=agent\npassword={}\n", filed(PASSWORD));
    let file = home.file("my.cnf", &group);
    let dsn = format!("mysql://agent:{}@localhost?socket={socket}", encoded(PASSWORD));
    let dsn_file = home.file("dsn", &dsn);
    let ways: [&[&str]; 6] = [
        &["-S", &socket, "-u", "agent", &format!("-p{PASSWORD}")],
        &["--socket", &socket, "--user=agent", &format!("--password={PASSWORD}"), "--ssl-mode=PREFERRED"],
        &["--dsn", &dsn],
        &["--dsn-file", &dsn_file],
        &["--defaults-file", &file],
        &["--defaults-extra-file", &file],
    ];
    for way in ways {
        let arguments = look(way);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let text = done(&home.tare(&arguments));
        assert!(text.contains("\"sheets\""), "{way:?}: {text}");
    }
    done(&home.command(&LOOK).env("TARE_DSN", &dsn).output().expect("tare runs"));
    done(
        &home
            .command(&[&LOOK[..], &["-S", &socket, "-u", "agent"]].concat())
            .env("MYSQL_PWD", PASSWORD)
            .output()
            .expect("it runs"),
    );
    home.file(".my.cnf", &group);
    done(&home.tare(&LOOK));
    assert!(!home.tare(&[&LOOK[..], &["--no-defaults"]].concat()).status.success());
}

#[test]
fn a_socket_is_said_to_be_the_servers_or_tares() {
    let _turn = tare_testkit::turn();
    let server = server(TestProvider::tare());
    let Some(server) = server.on_its_port() else { return };
    let (own, endpoint) = (server.socket().display().to_string(), server.endpoint().display().to_string());
    let home = Home::new();
    let text = done(&home.tare(&["status", "-S", &own, "-u", "root"]));
    assert!(
        text.contains(&format!("{own} is the server's own socket")) && text.contains("tare is active"),
        "{text}"
    );
    let text = done(&home.tare(&["status", "--socket", &endpoint]));
    assert!(text.contains("tare is active") && !text.contains("own socket"), "{text}");
    let alias = server.data().join("alias");
    std::os::unix::fs::symlink(&endpoint, &alias).expect("a link");
    let text = done(&home.tare(&["status", "--socket", &alias.display().to_string()]));
    assert!(text.contains("is tare's socket"), "{text}");
    for command in ["govern", "weigh", "price"] {
        let output = home.tare(&[command, "--socket", &endpoint]);
        assert_eq!(output.status.code(), Some(1), "{command}: {}", said(&output));
        assert!(!said(&output).contains("not supported"), "{command}: {}", said(&output));
    }
    let text = done(&home.tare(&["slowlog", "-S", &own, "-u", "root", "--for", "100ms"]));
    assert!(text.contains("0 lost in the server"), "{text}");
}

#[test]
fn what_keeps_a_user_out_is_a_sentence_that_helps() {
    let _turn = tare_testkit::turn();
    let server = server(TestProvider::BuiltIn);
    let socket = server.socket().display().to_string();
    let home = Home::new();
    let commands: [&[&str]; 6] = [
        &LOOK,
        &["snapshot", "-"],
        &["price", "--for", "1s"],
        &["weigh", "--for", "1s"],
        &["govern"],
        &["lab", "record", "/dev/null"],
    ];
    for command in commands {
        for (user, password) in [
            ("agent", "wrong-secret"),
            ("agant1", "wrong-secret"),
            ("agant2", "wrong-secret"),
            ("nobody", "x-secret"),
        ] {
            let dsn = format!("mysql://{user}:{password}@localhost?socket={socket}");
            let state = home.0.path().display().to_string();
            let mut all: Vec<&str> = command.to_vec();
            all.extend(["--dsn", &dsn]);
            if ["weigh", "govern"].contains(&command[0]) {
                all.extend(["--state", &state]);
            }
            let output = home.tare(&all);
            let text = said(&output);
            assert_eq!(output.status.code(), Some(1), "{command:?} {user}: {text}");
            assert!(text.contains("password") && !text.contains("GRANT"), "{command:?} {user}: {text}");
            for word in ["secret", "MySqlError", "ParseError", "panicked", " { "] {
                assert!(!text.contains(word), "{command:?} {user}: {word}: {text}");
            }
        }
        for dsn in [
            "mysql://agent:#hidden@db1",
            "mysql://agent:hid/den@db1",
            "mysql://agent:a?hidden@db1",
            "mysql://agent:hidden@db1:port",
            "mysql://agent:hidden",
        ] {
            let mut all: Vec<&str> = command.to_vec();
            all.extend(["--dsn", dsn]);
            let output = home.tare(&all);
            let text = said(&output);
            assert!(
                !output.status.success() && text.contains("percent-encode the password"),
                "{dsn}: {text}"
            );
            assert!(!text.contains("hid"), "{command:?} {dsn}: {text}");
        }
    }
    let rights = home.tare(&[&LOOK[..], &["-S", &socket, "-u", "nobody", "-pn"]].concat());
    assert!(said(&rights).contains("GRANT SELECT") || rights.status.success(), "{}", said(&rights));
}

#[test]
fn a_password_is_asked_for_and_not_shown() {
    let _turn = tare_testkit::turn();
    let server = server(TestProvider::BuiltIn);
    let socket = server.socket();
    let home = Home::new();
    let typed = typing(&home, &socket, PASSWORD);
    assert!(typed.contains("Enter password:") && typed.contains("\"sheets\""), "{typed}");
    assert!(!typed.contains(PASSWORD), "it is shown: {typed}");
    let without =
        home.tare(&[&LOOK[..], &["-S", &socket.display().to_string(), "-u", "agent", "-p"]].concat());
    assert!(!without.status.success(), "{}", said(&without));
}

/// Runs the command on a terminal of its own and types the password when it is asked for; returns what is
/// shown.
fn typing(home: &Home, socket: &Path, password: &str) -> String {
    let pair = openpty(None, None).expect("a pseudo-terminal");
    for end in [&pair.master, &pair.slave] {
        // The command must not hold the other end open.
        fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).expect("a descriptor");
    }
    let end = || Stdio::from(pair.slave.try_clone().expect("a descriptor"));
    let mut command = Command::new("setsid");
    command.args(["--wait", "--ctty", env!("CARGO_BIN_EXE_tare")]).args(LOOK);
    command.arg("-S").arg(socket).args(["-u", "agent", "-p"]).env("HOME", home.0.path());
    let mut child = command.stdin(end()).stdout(end()).stderr(end()).spawn().expect("it starts");
    drop((command, pair.slave));
    let mut terminal = fs::File::from(pair.master);
    let (mut seen, mut byte) = (vec![], [0]);
    while !seen.ends_with(b"password: ") && terminal.read(&mut byte).is_ok_and(|read| read > 0) {
        seen.extend_from_slice(&byte);
    }
    // What is typed while it still echoes would be shown.
    eventually("it does not echo", LIMIT, || {
        tcgetattr(&terminal).is_ok_and(|it| !it.local_flags.contains(LocalFlags::ECHO))
    });
    terminal.write_all(format!("{password}\n").as_bytes()).expect("typed");
    // A terminal that nobody has any more ends with an error.
    while terminal.read(&mut byte).is_ok_and(|read| read > 0) {
        seen.extend_from_slice(&byte);
    }
    let _ended = child.wait();
    String::from_utf8_lossy(&seen).into_owned()
}
