//! The exact cost: instructions that recording one transaction takes, and lines it writes, against the figures on record.

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const TRANSACTIONS: u64 = 500;

/// The levels, the least first.
const LEVELS: [&str; 4] = ["counts", "sums", "lean", "exact"];

/// What is on record.
struct Record {
    rustc: String,
    /// By level.
    instructions: [u64; LEVELS.len()],
    /// Where nothing is wanted.
    off: u64,
    /// At level lean, with what only the shape `extended` shows.
    extended: u64,
    /// Bytes of the lines that are written at level lean.
    written: u64,
    tolerance_percent: u64,
}

impl Record {
    fn read() -> Record {
        let text = include_str!("instructions.toml");
        let value = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix('='));
            line.unwrap_or_else(|| panic!("no {key}")).trim().trim_matches('"').to_owned()
        };
        let number = |key: &str| value(key).parse().unwrap_or_else(|_| panic!("{key} is no number"));
        Record {
            rustc: value("rustc"),
            instructions: LEVELS.map(number),
            off: number("off"),
            extended: number("extended"),
            written: number("written"),
            tolerance_percent: number("tolerance_percent"),
        }
    }
}

/// Standard output of a program, or `None` where it is not installed.
fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned() + &said)
}

/// The release example, built.
fn replay() -> PathBuf {
    let mut build = Command::new(env!("CARGO"));
    build.args([
        "build",
        "--quiet",
        "--locked",
        "--release",
        "--package",
        "tare-engine",
        "--example",
        "replay",
    ]);
    output(build.current_dir(env!("CARGO_MANIFEST_DIR"))).expect("cargo");
    // This test lies in <target>/<profile>/deps.
    let test = std::env::current_exe().expect("a path");
    let target = test.ancestors().nth(3).expect("a target folder");
    let release = |target: &Path| target.join("release/examples/replay");
    release(target)
}

fn instructions(replay: &Path, level: &str) -> Option<u64> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--toggle-collect=*measured*", "--callgrind-out-file=/dev/null"]);
    let said = output(valgrind.arg(replay).arg(TRANSACTIONS.to_string()).arg(level))?;
    let collected = said.lines().find_map(|line| line.split_once("Collected : "));
    let total: u64 = collected.expect("a figure").1.trim().parse().expect("a number");
    Some(total / TRANSACTIONS)
}

/// Holds what a transaction costs now against the record, by what the replay is told; `None` where valgrind is not installed.
fn hold<const N: usize>(modes: [(&str, u64); N]) -> Option<[u64; N]> {
    let record = Record::read();
    let replay = replay();
    let rustc = output(Command::new("rustc").arg("--version")).expect("rustc");
    let is_compared = rustc.contains(&format!("rustc {} ", record.rustc));
    if !is_compared {
        println!("skipped: the figures on record are of rustc {}, this is {}", record.rustc, rustc.trim());
    }
    let mut all = [0; N];
    for (at, (mode, on_record)) in modes.into_iter().enumerate() {
        let Some(now) = instructions(&replay, mode) else {
            println!("skipped: valgrind is not installed; scripts/setup.sh installs it");
            return None;
        };
        println!("instructions per transaction, {mode}: {now}, on record {on_record}");
        let most = on_record * (100 + record.tolerance_percent) / 100;
        assert!(
            now <= most || !is_compared,
            "{now} instructions per transaction at {mode}, {on_record} on record"
        );
        if now < on_record * (100 - record.tolerance_percent) / 100 {
            println!("cheaper than on record: write {now} into tests/instructions.toml");
        }
        all[at] = now;
    }
    Some(all)
}

#[test]
fn a_transaction_costs_no_more_instructions_than_on_record() {
    let record = Record::read();
    let costs = hold(std::array::from_fn::<_, 4, _>(|at| (LEVELS[at], record.instructions[at])));
    assert!(costs.is_none_or(|costs| costs.is_sorted()), "who keeps less pays less");
}

#[test]
fn a_transaction_of_which_nothing_is_wanted_costs_no_more_instructions_than_on_record() {
    let record = Record::read();
    hold([("off", record.off), ("no-consumers", record.off)]);
}

#[test]
fn a_transaction_costs_no_more_instructions_than_on_record_in_the_extended_shape() {
    let record = Record::read();
    hold([("extended", record.extended)]);
}

/// Bytes of a line.
const LINE: u64 = 64;
/// Where valgrind puts the stack of a program's first thread: above this. It is warm whatever is recorded.
const STACK: u64 = 0x1f_f000_0000;

/// Bytes of the lines that a transaction writes; `None` where valgrind is not installed.
fn written(replay: &Path, transactions: u64) -> Option<u64> {
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=lackey", "--trace-mem=yes", "--log-fd=2"])
        .arg(replay)
        .arg(transactions.to_string());
    let mut child = valgrind.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().ok()?;
    let hexadecimal = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    // The replay says so before it begins, and cannot run ahead of who reads its trace.
    let said = BufReader::new(child.stdout.take()?);
    let beginning = std::thread::spawn(move || {
        let mut lines = said.lines().map_while(Result::ok);
        let place = lines.find_map(|line| hexadecimal(line.strip_prefix("beginnings are written to ")?));
        (place, lines.count())
    });
    let (mut transactions_seen, mut lines_written, mut lines) = (0, 0, HashSet::new());
    let mut trace = Vec::new();
    // A line is ` S address,size` or ` M address,size`; the place is known at the end only, so what is written is kept.
    for line in BufReader::new(child.stderr.take()?).lines().map_while(Result::ok) {
        let Some((" S" | " M", access)) = line.split_at_checked(2) else { continue };
        let Some((address, size)) = access.trim().split_once(',') else { continue };
        if let (Some(address), Ok(size)) = (hexadecimal(address), size.parse::<u64>())
            && address < STACK
        {
            trace.push((address, size));
        }
    }
    assert!(child.wait().ok()?.success(), "the replay failed under valgrind");
    let beginning = beginning.join().ok()?.0.expect("the replay says where");
    for (address, size) in trace {
        if address == beginning {
            lines_written += lines.len() as u64;
            transactions_seen += 1;
            lines.clear();
        } else if transactions_seen > 0 {
            lines.extend(address / LINE..=(address + size - 1) / LINE);
        }
    }
    assert_eq!(transactions_seen, transactions, "each has begun once");
    // What comes after the beginning of the last one is not only its own.
    Some(lines_written * LINE / (transactions_seen - 1))
}

#[test]
fn a_transaction_writes_no_more_lines_than_on_record() {
    let record = Record::read();
    let Some(now) = written(&replay(), 20) else {
        println!("skipped: valgrind is not installed; scripts/setup.sh installs it");
        return;
    };
    println!("KiB of lines written per transaction: {:.1}, on record {:.1}", kib(now), kib(record.written));
    let most = record.written * (100 + record.tolerance_percent) / 100;
    assert!(now <= most, "{now} bytes of lines per transaction, {} on record", record.written);
    assert!(now > 0, "a transaction writes something");
}

#[expect(clippy::cast_precision_loss, reason = "some thousands")]
fn kib(bytes: u64) -> f64 {
    bytes as f64 / 1024.0
}
