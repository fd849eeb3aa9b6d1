//! The exact cost: instructions that recording one transaction takes, jumps, and lines it writes, against the
//! figures on record.

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use tare_rig::callgrind::{InstructionCounts, NO_VALGRIND, counted, counting, output, said};

const TRANSACTIONS: u64 = 500;

/// The levels, the least first.
const LEVELS: [&str; 4] = ["counts", "sums", "lean", "exact"];

const RECORD: InstructionCounts = InstructionCounts(include_str!("instructions.toml"));

fn instructions(replay: &Path, level: &str) -> Option<u64> {
    let mut valgrind = counting("*measured*");
    let output = output(valgrind.arg(replay).arg(TRANSACTIONS.to_string()).arg(level))?;
    Some(said(&output, "Collected : ") / TRANSACTIONS)
}

/// Holds what a transaction costs now against the record, by what the replay is told; `None` where valgrind
/// is not installed.
fn hold<const N: usize>(modes: [(&str, u64); N]) -> Option<[u64; N]> {
    let replay = counted("replay");
    let mut all = [0; N];
    for (at, (mode, on_record)) in modes.into_iter().enumerate() {
        let Some(now) = instructions(&replay, mode) else {
            println!("{NO_VALGRIND}");
            return None;
        };
        RECORD.hold(&format!("instructions, a transaction at {mode}"), now, on_record);
        all[at] = now;
    }
    Some(all)
}

#[test]
fn a_transaction_costs_no_more_instructions_than_on_record() {
    let costs = hold(LEVELS.map(|level| (level, RECORD.number(level))));
    assert!(costs.is_none_or(|costs| costs.is_sorted()), "who keeps less pays less");
}

#[test]
fn a_transaction_of_which_nothing_is_wanted_costs_no_more_instructions_than_on_record() {
    let off = RECORD.number("off");
    hold([("off", off), ("no-consumers", off)]);
}

#[test]
fn a_transaction_costs_no_more_instructions_than_on_record_in_the_extended_shape() {
    hold([("extended", RECORD.number("extended"))]);
}

#[test]
fn executions_of_prepared_statements_cost_no_more_instructions_than_on_record() {
    let costs = hold(["executed", "prepared"].map(|mode| (mode, RECORD.number(mode))));
    assert!(costs.is_none_or(|costs| costs.is_sorted()), "who shows less pays less");
}

#[test]
fn a_connection_costs_no_more_instructions_than_on_record() {
    hold([("connections", RECORD.number("connections"))]);
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
    // A line is ` S address,size` or ` M address,size`; the place is known at the end only, so what is
    // written is kept.
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
    let Some(now) = written(&counted("replay"), 20) else {
        println!("{NO_VALGRIND}");
        return;
    };
    let on_record = RECORD.number("written");
    println!("KiB of lines written per transaction: {:.1}, on record {:.1}", kib(now), kib(on_record));
    let most = on_record * (100 + RECORD.number("tolerance_percent")) / 100;
    assert!(now <= most, "{now} bytes of lines per transaction, {on_record} on record");
    assert!(now > 0, "a transaction writes something");
}

/// Jumps that the replay takes for as many transactions, calls and returns left out, and all it does before;
/// `None` where valgrind is not installed. Callgrind counts them also while it collects nothing.
fn jumps(replay: &Path, transactions: u64) -> Option<u64> {
    let counts = std::env::temp_dir().join(format!("tare-jumps-{}", std::process::id()));
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--collect-jumps=yes"]);
    valgrind.arg(format!("--callgrind-out-file={}", counts.display()));
    output(valgrind.arg(replay).arg(transactions.to_string()))?;
    let counted = std::fs::read_to_string(&counts).expect("callgrind writes what it counted");
    std::fs::remove_file(&counts).expect("that can be removed");
    // `jump=TAKEN …`, and of a condition `jcnd=TAKEN/MET …`.
    let taken = |line: &str| {
        let rest = line.strip_prefix("jump=").or_else(|| line.strip_prefix("jcnd="))?;
        rest.split(['/', ' ']).next()?.parse::<u64>().ok()
    };
    Some(counted.lines().filter_map(taken).sum())
}

#[test]
fn a_transaction_takes_no_more_jumps_than_on_record() {
    // Both include the transactions that warm the replay up.
    const FEW: u64 = 50;
    const MANY: u64 = 100;
    let replay = counted("replay");
    let [Some(few), Some(many)] = [FEW, MANY].map(|transactions| jumps(&replay, transactions)) else {
        println!("{NO_VALGRIND}");
        return;
    };
    let now = (many - few) / (MANY - FEW);
    RECORD.hold("jumps, a transaction", now, RECORD.number("jumps"));
    assert!(now > 0, "a transaction jumps");
}

#[expect(clippy::cast_precision_loss, reason = "some thousands")]
fn kib(bytes: u64) -> f64 {
    bytes as f64 / 1024.0
}
