//! Turns of servers that are all alike, recorded for a test that injects costs into them.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use tare_lab::journal;
use tare_lab::record::{Record, Turn};

use crate::{KEPT, Result, SERVER, USERS, study};

/// Where they are kept.
const TURNS: &str = "crates/tare-lab/tests/injection/turns.txt";
/// Settings, beside the base and its A/A control.
const ALIKE: usize = 4;

/// Measures so many blocks.
pub(crate) fn record(blocks: u32) -> Result<()> {
    let folder = PathBuf::from(format!("{KEPT}/turns-{blocks}"));
    study("turns", definition(blocks), &str::to_owned, &folder, 1, &mut |done, _| {
        eprint!("\r{:.0}% ", done * 100.0)
    })?;
    fs::write(TURNS, text(&journal::read(&folder)?))?;
    println!("\nwritten into {TURNS}");
    Ok(())
}

fn definition(blocks: u32) -> String {
    let settings: String = (0..=ALIKE).map(|n| format!("\n[[setting]]\nname = \"{n}\"\n")).collect();
    format!(
        r#"question = "What does nothing cost?"
slice_seconds = 1
blocks = {blocks}
blocks_per_start = {blocks}
minutes = 60
precision = 0.001
margin = 0.001
stop_early = false
{SERVER}{settings}
[[workload]]
name = "turns"
run = "oltp_read_only"
options = {{ table-size = 20000 }}
users = [{USERS}]
"#
    )
}

/// A line per slice: its block, then of every turn nanoseconds of CPU time, those after it, microseconds it
/// took, statements.
pub(crate) fn text(records: &[Record]) -> String {
    let mut text = String::new();
    for record in records {
        let Record::Slice(slice) = record else { continue };
        let _ = write!(text, "{}", slice.block);
        for Turn { cpu, after, seconds, queries } in &slice.turns {
            let _ = write!(text, " {:.0},{:.0},{:.0},{queries}", cpu * 1e9, after * 1e9, seconds * 1e6);
        }
        text.push('\n');
    }
    text
}
