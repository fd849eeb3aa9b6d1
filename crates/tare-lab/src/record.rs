//! The raw data of a study: one JSON object per line, appended after every slice.
//!
//! The file is all there is: a killed study goes on from it, and every report is computed from it alone. Lines are never
//! changed or taken away; a last line that was cut short by a kill is dropped by the reader. Times are seconds, memory
//! bytes, unless a name says otherwise. Readers skip fields they do not know.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::budget::Budget;

/// The format's number, in [`Header::format`]; raised when a reader of the old one would be misled.
pub const FORMAT: u32 = 1;

/// One line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Record {
    /// The first line: what is measured, on what.
    Header(Box<Header>),
    /// The most transactions of a workload there were, found before rates are made of it.
    Maximum(Maximum),
    /// One slice of load on one setting.
    Slice(Box<Slice>),
    /// What the Performance Schema of a setting counted over a slice.
    Calls(Calls),
    /// What a transaction made the server of a setting do.
    Effort(Effort),
    /// A flame graph that was taken.
    Profile(Profile),
    /// Something a reader of the report should know: resumed, a sidecar that died, a setting that had to be left out.
    Note(Note),
    /// The study ended, and why.
    End(End),
}

/// What is measured, and on what machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Header {
    /// [`FORMAT`] of the writer.
    pub format: u32,
    /// Version of tare that wrote it.
    pub tare: String,
    /// When the study began, RFC 3339, UTC.
    pub started: String,
    /// The study's name, `pfs-default`.
    pub study: String,
    /// What it asks, in a sentence.
    pub question: String,
    /// Whether it was run with `--quick`.
    pub quick: bool,
    /// Seed of the order of slices and of every resampling.
    pub seed: u64,
    /// Length of a slice.
    pub slice_seconds: f64,
    /// Length of the turns in which the slices of a block are taken, at least; 0: each at a stretch.
    #[serde(default)]
    pub turn_milliseconds: u32,
    /// Half-width of the interval to reach, as a share of the base: 0.005 is half a percent.
    pub precision: f64,
    /// Differences below this share do not matter to anyone.
    pub margin: f64,
    /// What the verdicts are about.
    #[serde(default)]
    pub measure: Measure,
    /// What settings may cost at most, as a share, where the study was asked to judge that: it then goes on until that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// What started the load's driver, `ssh load1`, if it was elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Blocks of a cell at most, if nothing else ends the study before.
    pub most_blocks: u32,
    /// Blocks of a cell before the servers are started anew.
    pub blocks_per_start: u32,
    /// The study's file, whole, so that it can be run again.
    pub definition: String,
    /// The machine.
    pub machine: Machine,
    /// The servers.
    pub servers: Vec<ServerFacts>,
    /// SHA-256 of the files that are measured: `server NAME` is a server's program, `preload NAME` what settings preload,
    /// `sidecar NAME` a sidecar's program, `recording PATH` and `data PATH` what is replayed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// The settings, in the study's order.
    pub settings: Vec<SettingFacts>,
    /// What was driven: every workload at every number of connections.
    pub cells: Vec<Cell>,
    /// Workloads that run on one of the servers only, and that server.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub only: BTreeMap<String, String>,
}

impl Header {
    /// The settings that a cell is about, in the study's order.
    pub fn settings_of(&self, cell: &Cell) -> impl Iterator<Item = &SettingFacts> {
        let server = self.only.get(&cell.workload);
        self.settings.iter().filter(move |s| server.is_none_or(|server| s.server == *server))
    }
}

/// What a transaction is charged with: the figure that settings are compared by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// CPU time of the server, and of the setting's sidecars that are charged, per transaction.
    #[default]
    Cpu,
    /// Time of the clock per transaction: what throughput loses.
    Time,
    /// What 95 of 100 transactions take at most.
    P95,
}

/// The machine a study ran on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// As the kernel names it.
    pub cpu_model: String,
    /// Logical processors that may be used.
    pub cpus: u32,
    /// Physical memory.
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// The distribution's name and version.
    pub system: String,
    /// The hypervisor, where there is one and it can be told.
    pub hypervisor: Option<String>,
    /// Clock of the processors when the study began, in MHz, all of them on average; 0 where it is not told.
    #[serde(default)]
    pub clock_mhz: f64,
    /// What sets the clock, such as `performance`, where it can be told.
    #[serde(default)]
    pub governor: Option<String>,
    /// Vulnerabilities of the processor, and what the kernel does against each.
    #[serde(default)]
    pub vulnerabilities: BTreeMap<String, String>,
    /// What else ran before the study began.
    #[serde(default)]
    pub others: Others,
}

/// What ran on the machine when nothing of the study did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Others {
    /// The load average over a minute.
    pub load: f64,
    /// Share of the processors' time that other processes took, over a second, or over ten where the load average was high.
    pub busy: f64,
    /// Share of it that the hypervisor gave to others.
    pub steal: f64,
    /// Processors there are.
    pub cpus: u32,
}

/// A server, as it describes itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerFacts {
    /// The study's name for it.
    pub name: String,
    /// `@@version`.
    pub version: String,
    /// `@@version_comment`.
    pub version_comment: String,
    /// Where its CPU time is read.
    #[serde(default)]
    pub cpu: CpuSource,
}

/// Where the CPU time of a server is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CpuSource {
    /// The clock of its process.
    #[default]
    Process,
    /// What it says that its statements used (`Cpu_time`, counted with `userstat`): its own threads are not in it.
    Statements,
    /// It cannot be read.
    Nowhere,
}

/// A setting: what is compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SettingFacts {
    /// Unique in the study.
    pub name: String,
    /// What it means, in words.
    pub meaning: String,
    /// The server it runs on.
    pub server: String,
    /// Server options, statements and sidecars that make it, as one would type them.
    pub made_by: Vec<String>,
    /// The setting it is compared with; the base names itself.
    pub base: String,
    /// Whether it is the base's twin: identical to it, so that its difference is noise.
    pub twin: bool,
}

/// A workload at a number of connections.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// The workload's name.
    pub workload: String,
    /// Connections.
    pub users: u32,
    /// At which share of the most it can do transactions arrive, in percent. Without it every connection begins a transaction when
    /// its last one has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<u32>,
}

impl Cell {
    /// The same, every connection as fast as it goes on.
    #[must_use]
    pub fn closed(&self) -> Cell {
        Cell { percent: None, ..self.clone() }
    }

    /// How it is driven, in words: `2 connections`, `8 connections at 30%`.
    pub fn drive(&self) -> String {
        let connections =
            if self.users == 1 { "1 connection".into() } else { format!("{} connections", self.users) };
        self.percent.map_or(connections.clone(), |percent| format!("{connections} at {percent}%"))
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.workload, self.drive())
    }
}

/// The most transactions of a workload there were: every connection began one when its last one had ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Maximum {
    /// What was driven.
    #[serde(flatten)]
    pub cell: Cell,
    /// Whom: the base.
    pub setting: String,
    /// Transactions per second.
    pub tps: f64,
}

/// One slice of load on one setting, and what it took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slice {
    /// What was driven.
    #[serde(flatten)]
    pub cell: Cell,
    /// Whom.
    pub setting: String,
    /// The block of the cell it belongs to, from 0; slices are compared within their block.
    pub block: u32,
    /// Its place in the block's order, from 0.
    pub turn: u32,
    /// The turns it was taken in, round by round; none of one taken at a stretch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<Turn>,
    /// The server's process: numbered through the study, in the order they were started. A process that is not ours to start
    /// has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
    /// When it began, in seconds since the study began (what passed while a study lay killed not counted).
    pub at: f64,
    /// How long it had load: the time of the clock, without that in which others had their turns.
    pub seconds: f64,
    /// Transactions that were to arrive per second, where they came at a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Transactions committed.
    pub transactions: u64,
    /// Statements.
    pub queries: u64,
    /// Errors the driver met and ignored.
    pub errors: u64,
    /// CPU time of the server's process in user mode.
    pub cpu_user: f64,
    /// CPU time of the server's process in the kernel.
    pub cpu_system: f64,
    /// CPU time of the setting's sidecars that are charged.
    pub cpu_sidecars: f64,
    /// CPU time of those that are not.
    #[serde(default)]
    pub cpu_beside: f64,
    /// Resident memory of all its sidecars at the end.
    #[serde(default)]
    pub resident_sidecars: u64,
    /// Resident memory of the server at the end.
    pub resident_bytes: u64,
    /// Context switches of the server's threads, voluntary and not.
    pub context_switches: u64,
    /// Bytes the setting's logs grew by.
    pub logged_bytes: u64,
    /// Share of the machine's time its hypervisor gave to others.
    pub steal: f64,
    /// The machine's load average over a minute, at the end.
    pub load: f64,
    /// Latency of transactions.
    pub latency: Latency,
    /// Transactions per second, second by second.
    pub per_second: Vec<f64>,
    /// When its sidecars were asked, in seconds since its load began, ascending. Of a slice in turns nobody notes it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scrapes: Vec<f64>,
    /// Figures that a workload reports of itself, such as `notpm`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, f64>,
}

/// A turn of a slice. What happened before the first one and after the last is in the slice's sums only.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Turn {
    /// CPU time of the server's process, until it had ended what had reached it.
    pub cpu: f64,
    /// CPU time it used afterwards, until somebody's next turn on it. Part of the mean of all turns, not of calm rounds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub after: f64,
    /// How long it took.
    pub seconds: f64,
    /// Statements the server counted.
    pub queries: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde asks
fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

#[allow(clippy::cast_precision_loss)] // counts of a turn are far below 2^53
impl Turn {
    /// What a statement was charged with, in seconds; not finite where there was none, or where it is not known by turns.
    pub fn charged(&self, measure: Measure) -> f64 {
        match measure {
            Measure::Cpu => self.cpu / self.queries as f64,
            Measure::Time => self.seconds / self.queries as f64,
            Measure::P95 => f64::NAN,
        }
    }
}

#[allow(clippy::cast_precision_loss)] // counts of a slice are far below 2^53
impl Slice {
    /// What a transaction was charged with, in seconds. Not finite for a slice without a transaction.
    pub fn charged(&self, measure: Measure) -> f64 {
        match measure {
            Measure::Cpu => (self.cpu_user + self.cpu_system + self.cpu_sidecars) / self.transactions as f64,
            Measure::Time => self.seconds / self.transactions as f64,
            Measure::P95 => self.latency.p95,
        }
    }

    /// What all its turns were charged with, per statement, with what the server used between them; of one taken at a stretch
    /// what a transaction was charged with. Compared with other slices of its block only, which are taken alike.
    pub fn mean_charge(&self, measure: Measure) -> f64 {
        if self.turns.is_empty() || measure == Measure::P95 {
            return self.charged(measure);
        }
        let sum = |figure: fn(&Turn) -> f64| self.turns.iter().map(figure).sum::<f64>();
        let charged = match measure {
            Measure::Cpu => sum(|turn| turn.cpu + turn.after),
            Measure::Time | Measure::P95 => sum(|turn| turn.seconds),
        };
        charged / sum(|turn| turn.queries as f64)
    }

    /// Transactions per second.
    pub fn tps(&self) -> f64 {
        self.transactions as f64 / self.seconds
    }

    /// A count or a time, divided by the transactions.
    pub fn per_transaction(&self, figure: f64) -> f64 {
        figure / self.transactions as f64
    }
}

/// Latency of transactions, in seconds. Of those that came at a rate it is counted from when they were to begin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Mean.
    pub mean: f64,
    /// Half are at most this.
    pub p50: f64,
    /// 95 of 100 are at most this.
    pub p95: f64,
    /// 99 of 100 are at most this.
    pub p99: f64,
    /// Upper bounds of buckets and how many fell into each, ascending, empty buckets left out.
    pub histogram: Vec<(f64, u64)>,
}

/// What the Performance Schema of a setting counted over a slice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calls {
    /// What was driven.
    #[serde(flatten)]
    pub cell: Cell,
    /// Whom.
    pub setting: String,
    /// Events per transaction by class of instrument (`wait/synch/mutex`, `stage`, …).
    pub per_transaction: BTreeMap<String, f64>,
    /// How many instruments it has on. Not known where they could not be read, and of results of before.
    #[serde(default)]
    pub instruments: Option<Instruments>,
}

/// Rows of `setup_instruments`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Instruments {
    /// Those that are enabled.
    pub enabled: u64,
    /// All there are.
    pub all: u64,
}

/// What a transaction made the server of a setting do, counted over an unmeasured slice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Effort {
    /// What was driven.
    #[serde(flatten)]
    pub cell: Cell,
    /// Whom.
    pub setting: String,
    /// Whether its server was warm: the slice followed others, before a profile was taken.
    #[serde(default)]
    pub warm: bool,
    /// Figures of [`crate::effort::FIGURES`] per transaction (`instructions_per_cycle` as it is); what cannot be counted is not
    /// there.
    pub per_transaction: BTreeMap<String, f64>,
}

/// A flame graph that was taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Profile {
    /// What was driven.
    #[serde(flatten)]
    pub cell: Cell,
    /// Whom.
    pub setting: String,
    /// The folded stacks, in the results' folder: `stack;stack;stack count` per line.
    pub stacks: String,
}

/// Something a reader of the report should know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Note {
    /// In seconds since the study began.
    pub at: f64,
    /// In words.
    pub text: String,
}

/// The study ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct End {
    /// In seconds since the study began.
    pub at: f64,
    /// What limited it.
    pub reason: Reason,
}

/// What limited a study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Every setting is known as well as the study asks.
    TargetsReached,
    /// Every block that the study allows was measured.
    AllBlocks,
    /// The study's time was over.
    OutOfTime,
    /// Somebody ended it.
    Interrupted,
}

impl Reason {
    /// Whether a study that ended so is over; otherwise it can go on.
    pub fn is_final(self) -> bool {
        self != Reason::Interrupted
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::TargetsReached => "all targets reached",
            Reason::AllBlocks => "all blocks measured",
            Reason::OutOfTime => "out of time",
            Reason::Interrupted => "interrupted",
        })
    }
}
