//! `tare install --restart` where a restart does not end, a unit does not run, or a server of several fails.

mod tree;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tare_testkit::eventually;
use tare_testkit::server::LIMIT;
use tree::{DROP_IN, OPTIONS, PROVIDER, SERVICE, Tree};

/// Another unit, and where its drop-in goes; of the two `mariadb.service` comes first.
fn second(tree: &Tree) -> PathBuf {
    tree.write("/lib/systemd/system/other.service", SERVICE);
    tree.at("/etc/systemd/system/other.service.d/zz-tare.conf")
}

#[test]
fn a_restart_that_does_not_end_is_ended_and_put_back() {
    let tree = Tree::new();
    let before = tree.listing();
    let mark = tree.at("/mark").display().to_string();
    let command = format!("[ ! -e {mark} ] || {{ echo again >{mark}; exit; }}; touch {mark}; sleep 60");
    let restart = ["install", "--limit", "2s", "--restart", "--restart-command", &command];
    let (status, outcome) = tree.outcome(&restart);
    assert_eq!((status, &outcome["state"]), (1, &"put-back".into()), "{outcome:#}");
    let why = outcome["why"].as_str().unwrap_or_default();
    assert!(why.ends_with("did not end within 2 s"), "{why}");
    assert_eq!(tree.read("/mark"), "again\n");
    assert_eq!(tree.listing(), before);
}

/// The logger of a service that a sysvinit script starts keeps running like this.
#[test]
fn what_a_restart_leaves_running_is_not_waited_for() {
    let tree = Tree::new();
    let background = tree.at("/background");
    let command = format!("sleep 60 & echo $! >{}; echo broken >&2; exit 3", background.display());
    let (status, outcome) = tree.outcome(&["install", "--restart", "--restart-command", &command]);
    let why = outcome["why"].as_str().unwrap_or_default();
    assert!(status == 1 && why.contains("broken"), "{outcome:#}");
    let pid: i32 = fs::read_to_string(background).expect("file").trim().parse().expect("a number");
    // The shell has started it, and it may not be `sleep` yet.
    let runs =
        |program: &[u8]| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(program));
    eventually("the shell becomes a program", LIMIT, || !(runs(b"sh") || runs(b"/bin/sh")));
    assert!(runs(b"sleep"), "it was not waited for");
    kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it runs still");
}

#[test]
fn who_asks_to_end_during_a_restart_has_it_put_back_and_the_others_left_alone() {
    let tree = Tree::new();
    second(&tree);
    let before = tree.listing();
    let mark = tree.at("/mark").display().to_string();
    // The second time it is restarted as it was.
    let command = format!("[ ! -e {mark} ] || exit 0; touch {mark}; kill -TERM $PPID; sleep 60");
    let (status, said) = tree.tare(&["install", "--restart", "--restart-command", &command]);
    assert_eq!(status, 130, "{said}");
    assert!(said.contains("mariadb.service: put back as it was"), "{said}");
    assert!(said.contains("\n  interrupted\n"), "{said}");
    assert!(said.contains("nothing was done to other.service"), "{said}");
    assert_eq!(tree.listing(), before);
}

#[test]
fn an_error_of_one_server_is_told_and_keeps_no_other_from_it() {
    let tree = Tree::new();
    let other = second(&tree);
    // Its drop-in cannot be written: there is no folder for it.
    tree.write("/etc/systemd/system/mariadb.service.d", "");
    let (status, said) = tree.tare(&["install", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&said).expect("JSON and nothing else");
    assert_eq!((status, &report["servers"][0]["state"]), (1, &"put-back".into()), "{report:#}");
    assert!(report["servers"][0]["why"].as_str().is_some_and(|why| why.contains("mariadb.service.d")));
    assert_eq!(report["servers"][1]["state"], "changed", "{report:#}");
    assert!(other.is_file());
}

#[test]
fn a_server_is_restarted_as_it_was_also_where_a_file_cannot_be_put_back() {
    let tree = Tree::new();
    let (options, mark) = (tree.at(OPTIONS).display().to_string(), tree.at("/mark"));
    let at = mark.display();
    let command = format!(
        "[ -e {at} ] && echo again >{at} && exit; touch {at} && rm {options} && mkdir -p {options}/x; exit 3"
    );
    let (status, outcome) = tree.outcome(&["install", "--restart", "--restart-command", &command]);
    assert_eq!((status, &outcome["state"]), (1, &"failed".into()), "{outcome:#}");
    assert!(outcome["why"].as_str().is_some_and(|why| why.contains("putting back")), "{outcome:#}");
    assert!(!tree.at(DROP_IN).exists());
    assert_eq!(fs::read_to_string(mark).expect("file"), "again\n");
}

/// Runs it with a stand-in for `systemctl` that says of every unit that it is in this state, and fails
/// otherwise. What it was asked.
fn restart_in_state(tree: &Tree, command: &str, state: &str) -> (Output, String) {
    let (folder, log) = (tree.at("/stand-in"), tree.at("/asked"));
    let script = format!("echo \"$@\" >>{}\n[ $1 != is-active ] || echo {state}\nexit 3", log.display());
    tree.program("/stand-in/systemctl", &script);
    let mut tare = Command::new(env!("CARGO_BIN_EXE_tare"));
    tare.args([command, "--restart", "--root"]).arg(tree.0.path());
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").expect("a path"));
    let output = tare.env("TARE_PROVIDER", tree.at(PROVIDER)).env("PATH", path).output();
    let asked = fs::read_to_string(&log).unwrap_or_default();
    fs::remove_file(log).expect("it was asked");
    (output.expect("tare runs"), asked)
}

#[test]
fn a_unit_that_does_not_run_is_not_started() {
    let tree = Tree::new();
    let before = tree.listing();
    for (command, is_installed) in [("install", true), ("uninstall", false)] {
        let (output, asked) = restart_in_state(&tree, command, "inactive");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("counts from the next start on"), "{said}");
        assert!(said.contains("is not active, and was not started"), "{said}");
        assert_eq!(asked, "is-active mariadb.service\n");
        assert_eq!(tree.at(DROP_IN).exists(), is_installed);
    }
    assert_eq!(tree.listing(), before);
    for state in ["active", "activating"] {
        let (output, asked) = restart_in_state(&tree, "install", state);
        assert_eq!(output.status.code(), Some(1), "systemctl fails");
        assert!(asked.contains("daemon-reload"), "{asked}");
    }
    assert_eq!(tree.listing(), before);
}
