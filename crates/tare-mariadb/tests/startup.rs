//! When tare disables itself, and that nothing is left of it then.

mod preload;

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use preload::{Start, example, lines, output, preloaded, provider, text};
use tare_testkit::host::HostProgram;

/// The shell shows what its environment holds after the constructors, and so what its children inherit.
const SHOW_PRELOAD: [&str; 2] = ["-c", "echo \"$LD_PRELOAD\""];

/// A program that looks like a server of this version.
fn imitation(program: &str, version: &str, libraries: &[&Path]) -> Command {
    let mut command = preloaded(program, libraries);
    command.env("TARE_EXAMPLE_VERSION", version);
    command
}

#[test]
fn a_program_that_is_no_server_is_left_alone() {
    let tare = provider();
    let shell = output(preloaded("/bin/sh", &[&tare]).args(SHOW_PRELOAD));
    assert_eq!(text(&shell.stderr), "");
    assert_eq!(text(&shell.stdout).trim_end(), tare.to_str().unwrap(), "a server it starts later needs it");
}

#[test]
fn an_unknown_version_is_refused_in_one_line() {
    for version in ["10.5.29-MariaDB", "12.0.2-MariaDB-log", "8.0.36", "11.80.1-MariaDB"] {
        let shell = output(&mut imitation("true", version, &[&provider(), &example("imitation")]));
        let log = text(&shell.stderr);
        assert_eq!(lines(&log).len(), 1, "{log}");
        assert!(lines(&log)[0].contains("[Warning] tare: disables itself"), "{log}");
        assert!(lines(&log)[0].contains(version), "{log}");
        assert!(lines(&log)[0].contains("supported: MariaDB 10.6, 10.11, 11.4, 11.8"), "{log}");
        assert!(log.contains("hook untouched"), "{log}");
    }
    let shell = output(&mut imitation("true", "", &[&provider(), &example("imitation")]));
    assert!(text(&shell.stderr).contains("does not tell its version"), "{}", text(&shell.stderr));
}

#[test]
fn a_known_version_gets_the_hook() {
    for version in ["10.11.19-MariaDB-0+deb12u1", "11.4.5-MariaDB", "11.8.9-MariaDB-log"] {
        let shell = output(&mut imitation("true", version, &[&provider(), &example("imitation")]));
        assert_eq!(text(&shell.stderr), "hook set\n", "{version}");
    }
}

#[test]
fn children_of_a_server_do_not_inherit_tare_and_keep_the_rest() {
    let (tare, other) = (provider(), example("imitation"));
    for version in ["10.11.19-MariaDB", "10.5.29-MariaDB"] {
        let shell = output(imitation("/bin/sh", version, &[&tare, &other]).args(SHOW_PRELOAD));
        assert_eq!(text(&shell.stdout).trim_end(), other.to_str().unwrap());
        let shell = output(imitation("/bin/sh", version, &[&other, &tare]).args(SHOW_PRELOAD));
        assert_eq!(text(&shell.stdout).trim_end(), other.to_str().unwrap());
    }
}

#[test]
fn runs_that_print_and_end_print_the_same() {
    let host = HostProgram::find().unwrap();
    for arguments in
        [&["--help"][..], &["--verbose", "--help"], &["--version"], &["-V"], &["--print-defaults"]]
    {
        let arguments = || std::iter::once("--no-defaults").chain(arguments.iter().copied());
        let with = output(preloaded(&host.mariadbd, &[&provider()]).args(arguments()));
        let without = output(preloaded(&host.mariadbd, &[]).args(arguments()));
        assert_eq!(text(&with.stdout), text(&without.stdout), "{:?}", arguments().collect::<Vec<_>>());
        assert_eq!(lines(&text(&with.stderr)), Vec::<&str>::new());
        assert_eq!(with.status, without.status);
    }
}

#[test]
fn an_option_file_that_is_a_pipe_is_the_servers() {
    let host = HostProgram::find().unwrap();
    let printed = |libraries: &[&Path]| {
        let mut command = preloaded(&host.mariadbd, libraries);
        command.args(["--defaults-file=/dev/stdin", "--print-defaults"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut server = command.spawn().unwrap();
        server.stdin.take().unwrap().write_all(b"[mysqld]\nmax_connections=4711\n").unwrap();
        let ended = server.wait_with_output().unwrap();
        (text(&ended.stdout), text(&ended.stderr))
    };
    let with = printed(&[&provider()]);
    assert!(with.0.contains("--max_connections=4711"), "{with:?}");
    assert_eq!(with, printed(&[]));
}

#[test]
fn a_bootstrap_run_is_left_alone() {
    let _turn = tare_testkit::turn();
    let host = HostProgram::find().unwrap();
    let home = host.new_home().unwrap();
    let mut command = preloaded(&host.mariadbd, &[&provider()]);
    command.args(["--no-defaults", "--bootstrap", "--user=mysql", "--innodb-log-file-size=8M"]);
    command.arg(format!("--datadir={}", home.path().join("data").display()));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut server = command.spawn().unwrap();
    server.stdin.take().unwrap().write_all(b"create database made_by_bootstrap;\n").unwrap();
    let ended = server.wait_with_output().unwrap();
    let log = text(&ended.stderr);
    assert!(ended.status.success(), "{log}");
    assert!(home.path().join("data/made_by_bootstrap").is_dir(), "{log}");
    assert_eq!(lines(&log).len(), 1, "{log}");
    assert!(lines(&log)[0].contains("[Note] tare: disables itself"), "{log}");
    assert!(lines(&log)[0].contains("bootstrap"), "{log}");
}

/// The init file is read when the tables are served already.
#[test]
fn a_start_that_fails_after_the_tables_are_served_ends_as_ever() {
    let _turn = tare_testkit::turn();
    let host = HostProgram::find().unwrap();
    let end = |libraries: &[&Path]| {
        let home = host.new_home().unwrap();
        let mut command = preloaded(&host.mariadbd, libraries);
        command.args(["--no-defaults", "--skip-networking", "--user=mysql", "--init-file=/nonexistent"]);
        command.args(["--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M"]);
        command.arg(format!("--datadir={}", home.path().join("data").display()));
        command.arg(format!("--socket={}", home.path().join("socket").display()));
        command.args(host.basedir.iter().map(|base| format!("--basedir={}", base.display())));
        let ended = output(&mut command);
        let log = text(&ended.stderr);
        assert!(log.contains("/nonexistent"), "{log}");
        assert!(!home.path().join("data/tare.sock").exists());
        (ended.status, lines(&log).len())
    };
    let (with, told) = end(&[&provider()]);
    assert_eq!((with, 0), end(&[]));
    assert!(told > 1, "it was about to serve, and said what is missing");
}

#[test]
fn a_data_directory_is_installed_as_ever() {
    let _turn = tare_testkit::turn();
    let host = HostProgram::find().unwrap();
    let home = host.new_home().unwrap();
    let data = home.path().join("fresh");
    let mut command = preloaded(host.install_program().unwrap(), &[&provider()]);
    command.args(["--no-defaults", "--user=mysql", "--skip-test-db", "--innodb-log-file-size=8M"]);
    command.args(["--auth-root-authentication-method=normal", &format!("--datadir={}", data.display())]);
    command.args(host.basedir.iter().map(|base| format!("--basedir={}", base.display())));
    let ended = output(&mut command);
    let log = text(&ended.stdout) + &text(&ended.stderr);
    assert!(ended.status.success(), "{log}");
    assert!(data.join("mysql/proc.frm").is_file(), "{log}");
    for line in lines(&log) {
        assert!(line.contains("bootstrap"), "{line}");
    }
}

#[test]
fn the_builtin_performance_schema_wins() {
    let _turn = tare_testkit::turn();
    let server = Start::with_tare().argument("--performance-schema=ON").run();
    assert_eq!(server.value("select @@performance_schema"), "1");
    assert_ne!(server.value("select count(*) from performance_schema.setup_instruments"), "0");
    let log = server.stderr();
    assert_eq!(lines(&log).len(), 1, "{log}");
    assert!(lines(&log)[0].contains("performance_schema=ON, command line"), "{log}");
}

#[test]
fn a_wrong_option_is_named_with_file_and_line_and_the_server_runs() {
    let _turn = tare_testkit::turn();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("my.cnf");
    std::fs::write(&file, "[mysqld]\nmax_connections=42\n[tare]\n\nmemory-max=5\n").unwrap();
    let mut start = Start::with_tare();
    start.defaults = format!("--defaults-file={}", file.display()).into();
    let mut server = start.run();
    assert_eq!(server.value("select @@max_connections"), "42");
    assert_eq!(server.value("select @@performance_schema"), "0");
    let log = server.stderr();
    assert_eq!(lines(&log).len(), 1, "{log}");
    let expected = format!(
        "{}, line 5: option memory-max: wrong value '5'; allowed: 8M to 4G (bytes, or with K, M or G)",
        file.display()
    );
    assert!(lines(&log)[0].contains(&expected), "{log}");
    assert!(server.stop().success());
}

#[test]
fn an_init_file_finds_the_tables() {
    let _turn = tare_testkit::turn();
    if !HostProgram::find().unwrap().has_federated() {
        println!("skipped: the server has no FEDERATED plugin");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let file = folder.path().join("init.sql");
    std::fs::write(&file, "CREATE TABLE mysql.seen SELECT COUNT(*) AS n FROM performance_schema.threads;\n")
        .unwrap();
    let start = Start::with_tare().argument("--plugin-load-add=ha_federatedx");
    let server = start.argument(format!("--init-file={}", file.display())).run();
    assert_ne!(server.value("select n from mysql.seen"), "0");
}

#[test]
fn where_the_system_gives_no_file_in_memory_the_tables_are_the_servers_own() {
    let _turn = tare_testkit::turn();
    if !HostProgram::find().unwrap().has_federated() {
        println!("skipped: the server has no FEDERATED plugin, and that is said first");
        return;
    }
    let mut start = Start::with_tare().argument("--plugin-load-add=ha_federatedx");
    start.libraries.insert(0, example("no_memory_files"));
    let mut server = start.run();
    assert_eq!(server.value("select count(*) from performance_schema.threads"), "0");
    assert_eq!(server.value("select @@performance_schema"), "0");
    let log = server.stderr();
    let told: Vec<&str> = lines(&log).into_iter().filter(|line| line.contains("[Warning]")).collect();
    assert_eq!(told.len(), 1, "{log}");
    assert!(told[0].contains("the system gives no file in memory: Permission denied"), "{log}");
    assert!(server.stop().success());
}

#[test]
fn the_line_is_in_the_log_file_and_only_there() {
    let _turn = tare_testkit::turn();
    let start = Start::with_tare().argument("--log-error=log.err");
    let server = start.environment("TARE_OPTIONS", "tables=ON;enabled=OFF").run();
    let log = std::fs::read_to_string(server.home().join("data/log.err")).unwrap();
    assert_eq!(lines(&log).len(), 1, "{log}");
    assert!(lines(&log)[0].contains("[Note] tare: disables itself"), "{log}");
    assert!(lines(&log)[0].contains("enabled=OFF"), "{log}");
    assert_eq!(lines(&server.stderr()), Vec::<&str>::new());
    assert_eq!(server.value("select 1"), "1");
}
