//! The workflow in `docs/ci/`: its step that judges passes on what the lab says, the lab takes its arguments,
//! and what the study takes has been installed before.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const WORKFLOW: &str = "docs/ci/budget.yml";

/// A file of the workspace.
fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The script of the step of that name, as the file has it.
fn script(step: &str) -> String {
    let text = read(WORKFLOW);
    let mut lines = text.lines().skip_while(|l| l.trim() != format!("- name: {step}")).skip(1);
    let head = lines.next().expect("the step's script");
    assert_eq!(head.trim(), "run: |");
    let indent = head.len() - head.trim_start().len() + 2;
    let body: Vec<&str> =
        lines.map_while(|line| line.get(indent..)).take_while(|l| !l.starts_with('-')).collect();
    assert!(!body.is_empty(), "no script of {step}");
    body.join("\n")
}

/// Runs it as such a system does, with a program in the lab's place that ends with `status`; gives the step's
/// status, what it printed, and the arguments the program had. One at a time: another test's child, forked
/// while the program is written, would hold it open, and what is open for writing cannot be run.
fn judged(status: i32) -> (Option<i32>, String, Vec<String>) {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("target/release/tare");
    fs::create_dir_all(program.parent().expect("a folder")).expect("a folder");
    fs::write(&program, format!("#!/bin/sh\nprintf '%s\\n' \"$@\" > arguments\nexit {status}\n"))
        .expect("a program");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("permissions");
    let ended = Command::new("sh")
        .args(["-e", "-c", &script("Judge")])
        .current_dir(folder.path())
        .env("GITHUB_STEP_SUMMARY", "summary.md")
        .output()
        .expect("sh runs");
    let arguments = fs::read_to_string(folder.path().join("arguments")).expect("it was run");
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    (ended.status.code(), said, arguments.lines().map(Into::into).collect())
}

#[test]
fn a_failure_fails_the_step_and_what_is_unknown_warns() {
    let _turn = tare_testkit::turn();
    for (status, expected) in [(0, 0), (3, 3), (1, 1), (130, 130), (4, 0)] {
        let (ended, said, _) = judged(status);
        assert_eq!(ended, Some(expected), "of {status}: {said}");
        assert_eq!(said.contains("::warning"), status == 4, "of {status}: {said}");
    }
}

#[test]
fn the_lab_takes_its_arguments_and_knows_its_study() {
    let _turn = tare_testkit::turn();
    let (_, _, arguments) = judged(0);
    let tare = |arguments: &[String]| {
        let output = Command::new(env!("CARGO_BIN_EXE_tare")).args(arguments).output().expect("tare runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    // A server too many: it gets as far as the study's own.
    let more: Vec<String> =
        arguments.iter().cloned().chain(["--server".into(), "other=/nowhere".into()]).collect();
    let (status, said) = tare(&more);
    assert!(
        status == Some(2) && said.contains("`pfs-default` starts no server `other`"),
        "{status:?}: {said}"
    );
    let wrong: Vec<String> = more.iter().map(|a| a.replace("20%", "20")).collect();
    let (status, said) = tare(&wrong);
    assert!(status == Some(2) && said.contains("such as 3%"), "{status:?}: {said}");
}

/// A bare container has neither a server nor what gives it load, and `make build` installs neither.
#[test]
fn what_the_study_takes_is_installed_before_it_is_judged() {
    let text = read(WORKFLOW);
    let (before, _) = text.split_once("- name: Judge").expect("the step");
    let steps = before.lines().filter_map(|line| line.trim().strip_prefix("- run: make "));
    let targets: Vec<&str> = steps.flat_map(str::split_whitespace).collect();
    assert!(["setup", "build"].iter().all(|target| targets.contains(target)), "{targets:?}");
    // What `make setup` is.
    let makefile = read("Makefile");
    let recipe = makefile.lines().skip_while(|line| !line.starts_with("setup:")).nth(1);
    assert_eq!(recipe, Some("\t@scripts/setup.sh"));
    let setup = read("scripts/setup.sh");
    let (_, behind) = setup.split_once("= --build ]; then").expect("what building alone takes");
    let (more, _) = behind.split_once("\nfi\n").expect("what the rest takes");
    for package in ["mariadb-server", "sysbench"] {
        assert!(more.contains(&format!("|| want {package}\n")), "no {package}: {more}");
    }
}
