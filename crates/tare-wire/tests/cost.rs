//! The exact cost of a stream: instructions that a statement takes the endpoint's thread, against the figures on record, and how
//! often a digest is spelled.

use std::path::{Path, PathBuf};
use std::process::Command;

const STATEMENTS: u64 = 20_000;
/// Digests that the example's statements have.
const DIGESTS: u64 = 40;

fn on_record(key: &str) -> String {
    let text = include_str!("cost.toml");
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix('='));
    line.unwrap_or_else(|| panic!("no {key}")).trim().trim_matches('"').to_owned()
}

fn number(key: &str) -> u64 {
    on_record(key).parse().unwrap_or_else(|_| panic!("{key} is no number"))
}

/// All that a program printed, or `None` where it is not installed.
fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned() + &said)
}

/// The release example, built.
fn example() -> PathBuf {
    let mut build = Command::new(env!("CARGO"));
    build.args([
        "build",
        "--quiet",
        "--locked",
        "--release",
        "--package",
        "tare-wire",
        "--example",
        "stream",
    ]);
    output(build.current_dir(env!("CARGO_MANIFEST_DIR"))).expect("cargo");
    // This test lies in <target>/<profile>/deps.
    let test = std::env::current_exe().expect("a path");
    let release = |target: &Path| target.join("release/examples/stream");
    release(test.ancestors().nth(3).expect("a target folder"))
}

/// The number behind these words.
fn said(output: &str, words: &str) -> u64 {
    let rest = output.lines().find_map(|line| line.split_once(words)).unwrap_or_else(|| panic!("{output}")).1;
    rest.trim().parse().unwrap_or_else(|_| panic!("{rest}"))
}

#[test]
fn a_statement_costs_no_more_instructions_than_on_record() {
    let example = example();
    let rustc = output(Command::new("rustc").arg("--version")).expect("rustc");
    let is_compared = rustc.contains(&format!("rustc {} ", on_record("rustc")));
    if !is_compared {
        println!(
            "skipped: the figures on record are of rustc {}, this is {}",
            on_record("rustc"),
            rustc.trim()
        );
    }
    for (mode, times) in
        [("full", STATEMENTS), ("normalised", STATEMENTS), ("none", STATEMENTS), ("polls", 200)]
    {
        let mut valgrind = Command::new("valgrind");
        valgrind.args([
            "--tool=callgrind",
            "--toggle-collect=*answer*query*",
            "--callgrind-out-file=/dev/null",
        ]);
        let Some(output) = output(valgrind.arg(&example).arg(times.to_string()).arg(mode)) else {
            println!("skipped: valgrind is not installed; scripts/setup.sh installs it");
            return;
        };
        let (now, before) = (said(&output, "Collected :") / times, number(mode));
        println!("instructions, {mode}: {now}, on record {before}");
        // Each digest once for each connection, however many statements have it; all ask for DIGEST.
        let spelled = said(&output, "digests spelled");
        assert!(spelled <= DIGESTS, "{spelled} digests were spelled for {mode}");
        let most = before * (100 + number("tolerance_percent")) / 100;
        assert!(now <= most || !is_compared, "{now} instructions for {mode}, {before} on record");
    }
}
