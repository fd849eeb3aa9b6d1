//! Handicaps of known size, all kinds and sizes side by side, alone and beside a neighbour: is the truth in
//! the interval?

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tare_lab::journal;
use tare_lab::setting::Setting;
use tare_lab::statistics::median;

use crate::handicap::{Blocks, Burned, Handicap, Plugin, log, options};
use crate::judgement::{Calibration, judged, table};
use crate::{KEPT, Result, SERVER, USERS, alone, document, machine, per_transaction, study};

/// Seconds in which it is measured what a transaction takes.
const PRICED: u32 = 4;
/// Stands for the plugin's folder.
const PLUGIN: &str = "{plugin}";
/// The base, and the A/A control it gets.
pub(crate) const BASE: &str = "none";
pub(crate) const CONTROL: &str = "none again";
/// How long a neighbour takes a core, and how long it leaves it, at most.
const BURST: Duration = Duration::from_millis(1500);

/// Measures so many runs of so many blocks without a neighbour, then as many with one.
pub(crate) fn find(runs: u32, blocks: u32) -> Result<()> {
    let mut text = String::new();
    for (condition, folder) in
        [("Alone", "alone"), ("Beside a neighbour that takes a core in bursts", "neighbour")]
    {
        let folder = PathBuf::from(format!("{KEPT}/truth-{folder}-{runs}x{blocks}"));
        let neighbour = folder.ends_with(format!("truth-neighbour-{runs}x{blocks}")).then(Neighbour::start);
        let all = measured(&folder, runs, blocks)?;
        drop(neighbour);
        let _ = write!(text, "{}", table(condition, &all));
    }
    let head = format!(
        "{runs} runs of {blocks} blocks, each handicap 0.2 s in a block in turns of 20 ms, {USERS} connections, all switched on one \
         server ({}).\n\n",
        machine()
    );
    print!("{text}");
    document("truth", &(head + &text))
}

/// A thread that takes a core for a moment, and leaves it for another, until it is dropped.
struct Neighbour {
    over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Neighbour {
    fn start() -> Neighbour {
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            let mut random = fastrand::Rng::with_seed(5);
            while !seen.load(Ordering::Relaxed) {
                let ends = Instant::now() + BURST.mul_f64(random.f64());
                let mut sum = 0_u64;
                while Instant::now() < ends {
                    sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
                }
                std::thread::sleep(BURST.mul_f64(random.f64()));
            }
        });
        Neighbour { over, thread: Some(thread) }
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.thread.take().map(std::thread::JoinHandle::join);
    }
}

/// All runs are blocks of one study, so that servers are started once; each run is analysed by itself.
fn measured(folder: &Path, runs: u32, blocks: u32) -> Result<Calibration> {
    fs::create_dir_all(folder)?;
    let plugin = Plugin::build()?;
    let transaction = transaction(folder, &plugin)?;
    let burned_in = folder.join("burned.txt");
    let mut read = 0;
    let mut each = |done: f64, blocks: usize| -> Result<()> {
        // What the server wrote since the last block, and that a block is whole.
        let written = fs::read_to_string(log(plugin.folder())).unwrap_or_default();
        let mut kept = fs::read_to_string(&burned_in).unwrap_or_default();
        kept.push_str(written.get(read..).unwrap_or_default());
        let _ = writeln!(kept, "block {blocks}");
        read = written.len();
        fs::write(&burned_in, kept)?;
        eprint!("\r{}: {:.0}% ", folder.display(), done * 100.0);
        Ok(())
    };
    let text = definition(transaction, runs * blocks);
    let here = |text: &str| text.replace(PLUGIN, &plugin.folder().display().to_string());
    let mut failed = Ok(());
    study("handicap", text, &here, folder, 1, &mut |done, blocks| {
        if failed.is_ok() {
            failed = each(done, blocks);
        }
    })?;
    failed?;
    eprintln!();
    let records = journal::read(folder)?;
    let burned = burned(&fs::read_to_string(&burned_in)?);
    Ok(judged(&records, &burned, runs, blocks).ok_or("the study lacks a setting")?)
}

/// CPU time of the server for a transaction without a handicap, in seconds: about, for sizes to be about what
/// they are called.
fn transaction(folder: &Path, plugin: &Plugin) -> Result<f64> {
    let kept = folder.join("transaction");
    if let Ok(text) = fs::read_to_string(&kept) {
        return Ok(text.trim().parse()?);
    }
    let (bench, server, load) = alone(&Setting::plain("price", options(plugin.folder()).into()))?;
    let seconds = per_transaction(&bench, &server, &load, PRICED)?;
    fs::write(kept, seconds.to_string())?;
    Ok(seconds)
}

/// The study, but for where the plugin is: one that goes on must be the same.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // some microseconds
fn definition(transaction: f64, blocks: u32) -> String {
    let options = options(Path::new(PLUGIN)).map(|option| format!("\"{option}\"")).join(", ");
    let log = log(Path::new(PLUGIN));
    let setting = |place: usize, name: &str, kind: usize, nanoseconds: u64| {
        format!(
            r#"
[[setting]]
name = "{name}"
options = [{options}]
environment = {{ LAB_HANDICAP_LOG = "{}" }}
switch = ["DO lab_handicap({place}, {kind}, {nanoseconds})"]
stretch = false
"#,
            log.display()
        )
    };
    let mut settings = setting(0, BASE, 0, 0);
    for (place, handicap) in (1..).zip(Handicap::all()) {
        let nanoseconds = (handicap.size * transaction * 1e9).round() as u64;
        settings += &setting(place, &handicap.name(), handicap.kind + 1, nanoseconds);
    }
    format!(
        r#"question = "Is a handicap of known size found?"
slice_seconds = 0.2
turn_milliseconds = 20
blocks = {blocks}
blocks_per_start = {blocks}
minutes = 600
precision = 0.005
margin = 0.01
stop_early = false
{SERVER}{settings}
[[workload]]
name = "handicap"
run = "handicap"
options = {{ table-size = 20000 }}
users = [{USERS}]
"#
    )
}

/// What each place burned in each block's turns. A turn in which there was next to nothing to pay (while a
/// driver connects) is none, nor is an unmeasured slice.
fn burned(log: &str) -> Blocks {
    let mut blocks = Blocks::new();
    let mut block: Vec<(usize, Burned)> = vec![];
    for line in log.lines() {
        block.extend(Burned::read(line));
        if let Some(number) = line.strip_prefix("block ").and_then(|number| number.parse::<u32>().ok()) {
            let usual = median(&block.iter().map(|(_, b)| b.payments).collect::<Vec<_>>());
            let is_turn = |b: &Burned| (usual / 4.0..usual * 8.0).contains(&b.payments);
            let mut sums: BTreeMap<usize, Burned> = BTreeMap::new();
            for (place, burned) in block.drain(..).filter(|(_, b)| is_turn(b)) {
                *sums.entry(place).or_default() += burned;
            }
            blocks.insert(number - 1, sums);
        }
    }
    blocks
}
