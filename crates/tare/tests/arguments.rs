//! What is the same for all commands: exit statuses, where output goes, and names that are misspelt.

use std::fs;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

fn tare(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tare"));
    command.args(arguments).stdin(Stdio::null()).env_remove("TARE_DSN").env("HOME", "/nowhere");
    command.output().expect("tare runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Wrong arguments are status 2, whether clap sees them or the command.
#[test]
fn wrong_arguments_have_a_status_of_their_own() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name).display().to_string();
    fs::write(at("study.toml"), "question = \"?\"\nnonsense = 1\n").expect("written");
    let (wrong, absent) = (at("study.toml"), at("absent.toml"));
    let lines: [&[&str]; 17] = [
        &["nonsense"],
        &["top", "--nonsense"],
        &["top", "--interval", "2"],
        &["top", "--format", "json"],
        &["top", "--format", "xml"],
        &["demo", "--for", "1500ms"],
        &["lab", "run", "pfs-defualt"],
        &["lab", "run", &wrong],
        &["lab", "run", &absent],
        &["lab", "record", "x.rec"],
        &["lab", "replay", "--connections", "0", "x.rec"],
        &["export", "--no-web"],
        &["export", "--web.telemetry-path", "metrics"],
        &["export", "--web.listen-address", "nonsense"],
        &["doctor", "--unit", "no-such-unit"],
        &["install", "--unit", "no-such-unit"],
        &["completions", "csh"],
    ];
    for line in lines {
        // A bare number is how version 0.1 spelt seconds.
        let expected = if line == ["top", "--interval", "2"] { 1 } else { 2 };
        let output = tare(line);
        assert_eq!(output.status.code(), Some(expected), "{line:?}: {}", said(&output));
        assert!(!said(&output).is_empty(), "{line:?}");
    }
}

#[test]
fn what_cannot_be_done_is_an_error_and_no_wrong_argument() {
    let folder = folder();
    let absent = folder.path().join("absent").display().to_string();
    let lines: [&[&str]; 4] = [
        &["report", &absent, &absent],
        &["lab", "report", &absent],
        &["lab", "put-back", &absent],
        &["top", "--once", "--datadir", &absent],
    ];
    for line in lines {
        let output = tare(line);
        assert_eq!(output.status.code(), Some(1), "{line:?}: {}", said(&output));
    }
    assert_eq!(tare(&["status", "--datadir", &absent]).status.code(), Some(3));
    assert_eq!(tare(&["probe", &absent]).status.code(), Some(2));
    assert_eq!(tare(&["--help"]).status.code(), Some(0));
}

#[test]
fn each_help_has_its_exit_statuses() {
    for (line, words) in [
        (&["lab", "run"][..], "4    unknown: with --fail-above"),
        (&["status"], "3    tare is not active"),
        (&["doctor"], "2    something could not be checked"),
        (&["top"], "141  standard output was closed"),
    ] {
        let help = said(&tare(&[line, &["--help"]].concat()));
        assert!(help.contains("Exit status:") && help.contains(words), "{line:?}: {help}");
    }
}

#[test]
fn output_goes_to_a_file_all_of_it_or_nothing() {
    let folder = folder();
    let (file, absent) = (folder.path().join("status.json"), folder.path().join("absent"));
    let (at, absent) = (file.display().to_string(), absent.display().to_string());
    let output = tare(&["status", "--datadir", &absent, "--format", "json", "-o", &at]);
    assert_eq!((output.status.code(), said(&output).as_str()), (Some(3), ""));
    let report: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&file).expect("the file")).expect("JSON");
    assert_eq!(report["active"], false);

    // An error leaves the file as it was.
    let before = fs::read_to_string(&file).expect("the file");
    let output = tare(&["top", "--once", "--datadir", &absent, "-o", &at]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert_eq!(fs::read_to_string(&file).expect("the file"), before);
    let left = fs::read_dir(folder.path()).expect("the folder").count();
    assert_eq!(left, 1, "no other file is left");

    let nowhere = folder.path().join("none/x").display().to_string();
    let output = tare(&["status", "--datadir", &absent, "-o", &nowhere]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains(&format!("--output {nowhere}")), "{}", said(&output));

    // What is no regular file is written to.
    let output = tare(&["status", "--datadir", &absent, "-o", "/dev/stderr"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("tare is not active"), "{text}");
}

#[test]
fn the_name_that_was_meant_is_said() {
    for (line, words) in [
        (&["lab", "run", "pfs-defualt"][..], "did you mean `pfs-default`?"),
        (&["lab", "run", "tare-level"], "did you mean `tare-levels`?"),
        (&["lab", "bench", "--workloads", "oltp_read_onyl"], "did you mean `oltp_read_only`?"),
        (&["stauts"], "'status'"),
        (&["top", "--vew", "waits"], "'--view'"),
        (&["top", "--view", "wait"], "'waits'"),
    ] {
        let output = tare(line);
        assert_eq!(output.status.code(), Some(2), "{line:?}");
        assert!(said(&output).contains(words), "{line:?}: {}", said(&output));
    }
}

#[test]
fn shells_complete_commands_options_and_names() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = tare(&["completions", shell]);
        let text = said(&output);
        assert!(output.status.success(), "{shell}: {text}");
        // The generators of the others know no values.
        let names = ["pfs-default", "oltp_point_select"];
        let names = names.iter().filter(|_| ["bash", "zsh", "fish"].contains(&shell));
        for word in ["snapshot", "fail-above"].iter().chain(names) {
            assert!(text.contains(word), "{shell} lacks {word}");
        }
    }
    // As a shell would: the words of `tare lab run pfs-d`.
    let script = "eval \"$(cat)\"; COMP_WORDS=(tare lab run pfs-d); COMP_CWORD=3; _tare tare pfs-d run; \
                  printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut bash = Command::new("bash");
    let mut child =
        bash.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("bash");
    let completions = tare(&["completions", "bash"]).stdout;
    std::io::Write::write_all(&mut child.stdin.take().expect("piped"), &completions).expect("written");
    let output = child.wait_with_output().expect("it ends");
    assert!(said(&output).lines().any(|line| line == "pfs-default"), "{output:?}");
}
