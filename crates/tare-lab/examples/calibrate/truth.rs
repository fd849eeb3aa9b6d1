//! Handicaps of known size, all kinds and sizes side by side, alone and beside a neighbour: is the truth in the interval?

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tare_lab::analysis::{Analysis, Difference, SettingAnalysis, Verdict};
use tare_lab::journal;
use tare_lab::record::{Measure, Record, Slice};
use tare_lab::setting::Setting;
use tare_lab::statistics::median;

use crate::handicap::{Burned, Handicap, KINDS, Plugin, SIZES, log, options};
use crate::{KEPT, Result, SERVER, USERS, alone, document, machine, per_transaction, study};

/// Seconds in which it is measured what a transaction takes.
const PRICED: u32 = 4;
/// Stands for the plugin's folder.
const PLUGIN: &str = "{plugin}";
/// The base, and the twin it gets.
const BASE: &str = "none";
const TWIN: &str = "none again";
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

// ---------------------------------------------------------------------------------------------------------------------
// Measuring

/// All runs are blocks of one study, so that servers are started once; each run is analysed by itself.
fn measured(folder: &Path, runs: u32, blocks: u32) -> Result<Vec<Run>> {
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
    Ok((0..runs).filter_map(|run| Run::of(&records, &burned, run * blocks..(run + 1) * blocks)).collect())
}

/// CPU time of the server for a transaction without a handicap, in seconds: about, for sizes to be about what they are called.
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

/// What each place burned in each block's turns. A turn in which there was next to nothing to pay (while a driver connects) is none,
/// nor is an unmeasured slice.
fn burned(log: &str) -> BTreeMap<u32, BTreeMap<usize, Burned>> {
    let mut blocks = BTreeMap::new();
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

// ---------------------------------------------------------------------------------------------------------------------
// Judging

/// What a run found, and what was true.
#[derive(Debug)]
struct Run {
    /// By handicap.
    found: Vec<Found>,
    /// Whether the base's twin was called a cost.
    false_alarm: bool,
    /// The twin's mean of all turns.
    twin: Option<Difference>,
}

#[derive(Clone, Copy, Debug)]
struct Found {
    calm: Difference,
    mean: Difference,
    verdict: Verdict,
    /// What was burned, over what the base and its twin were charged with: in calm rounds, and in all.
    truth_calm: f64,
    truth_mean: f64,
}

impl Run {
    fn of(
        records: &[Record],
        burned: &BTreeMap<u32, BTreeMap<usize, Burned>>,
        blocks: std::ops::Range<u32>,
    ) -> Option<Run> {
        let records = cut(records, &blocks);
        let analysis = Analysis::of(&records)?;
        let cell = analysis.cells.first()?;
        let reference = Reference::of(&records);
        // One that a kill cut off from its truth is left out.
        let blocks = blocks.map(|block| burned.get(&block)).collect::<Option<Vec<_>>>()?;
        let found = (1..).zip(Handicap::all()).map(|(place, handicap)| {
            let mut sum = Burned::default();
            blocks.iter().filter_map(|block| block.get(&place)).for_each(|burned| sum += *burned);
            Found::of(cell.setting(&handicap.name())?, sum.seconds / sum.payments, reference)
        });
        let twin = cell.setting(TWIN)?;
        Some(Run {
            found: found.collect::<Option<_>>()?,
            false_alarm: matches!(twin.verdict, Some(Verdict::Costs { .. })),
            twin: twin.mean,
        })
    }
}

impl Found {
    /// `paid`: CPU time burned for a transaction, in seconds.
    fn of(setting: &SettingAnalysis, paid: f64, reference: Reference) -> Option<Found> {
        Some(Found {
            calm: setting.cost?,
            mean: setting.mean?,
            verdict: setting.verdict?,
            truth_calm: paid / reference.calm,
            truth_mean: paid / reference.mean,
        })
    }

    /// Whether what the verdict claims is true. One that claims nothing is not wrong.
    fn is_right(&self) -> bool {
        match self.verdict {
            Verdict::Costs { bursty: true, .. } => covers(self.mean, self.truth_mean),
            Verdict::Costs { bursty: false, .. } => {
                covers(self.calm, self.truth_calm) || covers(self.calm, self.truth_mean)
            }
            Verdict::NoMoreThan { share } => self.truth_mean <= share,
            Verdict::Inconclusive { .. } => true,
        }
    }

    fn is_bursty(&self) -> bool {
        matches!(self.verdict, Verdict::Costs { bursty: true, .. })
    }
}

fn covers(difference: Difference, truth: f64) -> bool {
    difference.interval.is_some_and(|(low, high)| (low..=high).contains(&truth))
}

/// The records of some blocks, as a study of their own.
fn cut(records: &[Record], blocks: &std::ops::Range<u32>) -> Vec<Record> {
    let kept = records.iter().filter_map(|record| match record {
        Record::Header(header) => {
            let mut header = header.clone();
            header.most_blocks = blocks.end - blocks.start;
            Some(Record::Header(header))
        }
        Record::Slice(slice) if blocks.contains(&slice.block) => Some(record.clone()),
        _ => None,
    });
    kept.collect()
}

/// What a transaction of the base and its twin was charged with, in seconds.
#[derive(Clone, Copy, Debug)]
struct Reference {
    calm: f64,
    mean: f64,
}

impl Reference {
    #[allow(clippy::cast_precision_loss)] // counts far below 2^53
    fn of(records: &[Record]) -> Reference {
        let slices: Vec<&Slice> = records
            .iter()
            .filter_map(|record| match record {
                Record::Slice(slice) if [BASE, TWIN].contains(&slice.setting.as_str()) => {
                    Some(slice.as_ref())
                }
                _ => None,
            })
            .collect();
        // Turns are charged by statements, slices at a stretch (of a machine too busy for turns) by transactions.
        let of = |charge: &dyn Fn(&Slice) -> f64| -> Vec<f64> {
            let per_transaction = |s: &&Slice| match s.turns.len() {
                0 => s.charged(Measure::Cpu),
                _ => charge(s) * s.queries as f64 / s.transactions as f64,
            };
            slices.iter().map(per_transaction).collect()
        };
        let calm = of(&|s| {
            let mut charges: Vec<f64> = s.turns.iter().map(|turn| turn.charged(Measure::Cpu)).collect();
            charges.retain(|charge| charge.is_finite());
            charges.sort_by(f64::total_cmp);
            median(&charges[..charges.len().div_ceil(4)])
        });
        let mean = of(&|s| s.mean_charge(Measure::Cpu));
        Reference { calm: median(&calm), mean: mean.iter().sum::<f64>() / mean.len() as f64 }
    }
}

#[allow(clippy::cast_precision_loss)] // few
fn table(condition: &str, runs: &[Run]) -> String {
    let count = runs.len();
    let mut text = format!(
        "{condition}:\n\n| handicap | | truth, mean | mean of all turns: found | ± | covers the truth | calm rounds: found | ± | covers \
         it | bursty | verdict is right |\n|---|---|---|---|---|---|---|---|---|---|---|\n"
    );
    for (place, handicap) in Handicap::all().enumerate() {
        let all: Vec<Found> = runs.iter().map(|run| run.found[place]).collect();
        let average = |of: &dyn Fn(&Found) -> f64| all.iter().map(of).sum::<f64>() / count as f64 * 100.0;
        let how_many = |of: &dyn Fn(&Found) -> bool| all.iter().filter(|found| of(found)).count();
        let width = |d: Difference| d.plus_minus().unwrap_or(f64::NAN);
        let name = if place % SIZES.len() == 0 { KINDS[handicap.kind].0 } else { "" };
        let _ = writeln!(
            text,
            "| {name} | {}% | {:.2}% | {:.2}% | {:.1} | {} of {count} | {:.2}% | {:.1} | {} of {count} | {} | {} of {count} |",
            handicap.size * 100.0,
            average(&|f| f.truth_mean),
            average(&|f| f.mean.share),
            average(&|f| width(f.mean)),
            how_many(&|f| covers(f.mean, f.truth_mean)),
            average(&|f| f.calm.share),
            average(&|f| width(f.calm)),
            how_many(&|f| covers(f.calm, f.truth_calm)),
            how_many(&Found::is_bursty),
            how_many(&Found::is_right),
        );
    }
    let alarms = runs.iter().filter(|run| run.false_alarm).count();
    let covered = runs.iter().filter(|run| run.twin.is_some_and(|twin| covers(twin, 0.0))).count();
    let _ = writeln!(
        text,
        "\nThe base against itself: called a cost in {alarms} of {count} runs; its mean of all turns covers 0 in {covered}.\n"
    );
    text
}
