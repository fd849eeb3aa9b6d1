//! The raw data of a study: one JSON object per line, appended after every slice.
//!
//! The file is the only state: a killed study continues from it, and every report is computed from it alone.
//! Lines are never changed or removed. The reader drops a last line that a kill has cut short. Times are
//! seconds and memory is bytes, unless a name says otherwise. Readers skip fields they do not know.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::budget::Budget;

/// The format's number, in [`Header::format`]; raised when it would mislead a reader of the old one.
pub const FORMAT: u32 = 1;

/// Number of checksum characters that are shown.
const SHORT: usize = 12;
/// One line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Record {
    /// The first line: what is measured, and where.
    Header(Box<Header>),
    /// Highest throughput of a workload, measured before rates are derived from it.
    Maximum(Maximum),
    /// One slice of load on one setting.
    Slice(Box<Slice>),
    /// Events that the Performance Schema of a setting counted over a slice.
    Calls(Calls),
    /// Work of a setting's server per transaction.
    Effort(Effort),
    /// Reference to a flame graph.
    Profile(Profile),
    /// Remark for the reader of the report: the study was resumed, a sidecar died, a setting had to be left
    /// out.
    Note(Note),
    /// End of the study, with the reason.
    End(End),
}

/// Description of what is measured, and of the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Header {
    /// [`FORMAT`] of the writer.
    pub format: u32,
    /// Version of tare that wrote it.
    pub tare: String,
    /// Start of the study, RFC 3339, UTC.
    pub started: String,
    /// Name of the study, such as `pfs-default`.
    pub study: String,
    /// Question that the study answers, in a sentence.
    pub question: String,
    /// Whether it was run with `--quick`.
    pub quick: bool,
    /// Seed of the order of slices and of every resampling.
    pub seed: u64,
    /// Length of a slice.
    pub slice_seconds: f64,
    /// Least length of the turns in which the slices of a block alternate; 0: no turns.
    #[serde(default)]
    pub turn_milliseconds: u32,
    /// Half-width of the interval to reach, as a share of the base: 0.005 is half a percent.
    pub precision: f64,
    /// Differences below this share do not matter.
    pub margin: f64,
    /// Measure that the verdicts are about.
    #[serde(default)]
    pub measure: Measure,
    /// Highest cost that settings may have, as a share. A study with a budget continues until every setting
    /// is judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// Command prefix of the load driver, such as `ssh load1`, if it was on another machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Highest number of blocks per cell, if nothing else ends the study before.
    pub most_blocks: u32,
    /// Blocks of a cell between two restarts of the servers.
    pub blocks_per_start: u32,
    /// Text of the study's file, so that it can be run again.
    pub definition: String,
    /// Machine that the study runs on.
    pub machine: Machine,
    /// Servers of the study.
    pub servers: Vec<ServerFacts>,
    /// SHA-256 of the measured files: `server NAME` is a server's program, `preload NAME` a preloaded object,
    /// `sidecar NAME` a sidecar's program, `recording PATH` and `data PATH` what is replayed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// Settings in the study's order.
    pub settings: Vec<SettingFacts>,
    /// Every workload at every number of connections.
    pub cells: Vec<Cell>,
    /// Workloads that run on a single server, and that server.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub only: BTreeMap<String, String>,
}

impl Header {
    /// Returns the settings of a cell, in the study's order.
    pub fn settings_of(&self, cell: &Cell) -> impl Iterator<Item = &SettingFacts> {
        let server = self.only.get(&cell.workload);
        self.settings.iter().filter(move |s| server.is_none_or(|server| s.server == *server))
    }
}

/// The charge of a transaction: the figure by which settings are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// CPU time per transaction of the server and of the sidecars that are charged.
    #[default]
    Cpu,
    /// Wall-clock time per transaction, the inverse of throughput.
    Time,
    /// 95th percentile of latency.
    P95,
}

/// The machine that a study ran on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// Processor model as the kernel names it.
    pub cpu_model: String,
    /// Number of usable logical processors.
    pub cpus: u32,
    /// Physical memory in bytes.
    pub memory_bytes: u64,
    /// Release of the kernel.
    pub kernel: String,
    /// Name and version of the distribution.
    pub system: String,
    /// Name of the hypervisor, if there is one and it can be detected.
    pub hypervisor: Option<String>,
    /// Mean clock frequency of the processors at the study's start, in MHz; 0 if unknown.
    #[serde(default)]
    pub clock_mhz: f64,
    /// Frequency governor, such as `performance`, if known.
    #[serde(default)]
    pub governor: Option<String>,
    /// Vulnerabilities of the processor, and the kernel's mitigation of each.
    #[serde(default)]
    pub vulnerabilities: BTreeMap<String, String>,
    /// Activity of other processes before the study.
    #[serde(default)]
    pub others: Others,
}

/// Activity of other processes while the study was idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Others {
    /// Load average over one minute.
    pub load: f64,
    /// Share of the processors' time that other processes used, over one second, or up to ten where the load
    /// average was high.
    pub busy: f64,
    /// Share of that time that the hypervisor gave to others.
    pub steal: f64,
    /// Number of processors.
    pub cpus: u32,
}

/// A server, as it describes itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerFacts {
    /// Name of the server in the study.
    pub name: String,
    /// `@@version`.
    pub version: String,
    /// `@@version_comment`.
    pub version_comment: String,
    /// Source of its CPU time.
    #[serde(default)]
    pub cpu: CpuSource,
}

/// Where the CPU time of a server is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CpuSource {
    /// The CPU clock of its process.
    #[default]
    Process,
    /// The sum that it reports for its statements (`Cpu_time`, counted with `userstat`), without its
    /// background threads.
    Statements,
    /// It cannot be read.
    Nowhere,
}

/// A setting: what is compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SettingFacts {
    /// Name, unique in the study.
    pub name: String,
    /// Meaning in words.
    pub meaning: String,
    /// Name of its server.
    pub server: String,
    /// Server options, statements and sidecars that make it, as a user would type them.
    pub made_by: Vec<String>,
    /// Name of the setting it is compared with; the base names itself.
    pub base: String,
    /// Whether it is the A/A control: identical to the base, so that its difference is noise.
    // Results of earlier versions say `twin`.
    #[serde(alias = "twin")]
    pub control: bool,
}

/// A workload at a number of connections.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// Name of the workload.
    pub workload: String,
    /// Number of connections.
    pub users: u32,
    /// Rate of arrival in percent of the highest throughput. Without it, each connection starts a transaction
    /// when its last one ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<u32>,
}

impl Cell {
    /// Returns the same cell without a rate: each connection runs as fast as it can.
    #[must_use]
    pub fn closed(&self) -> Cell {
        Cell { percent: None, ..self.clone() }
    }

    /// Describes the drive in words: `2 connections`, `8 connections at 30%`.
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

/// Highest throughput of a workload, measured without a rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Maximum {
    /// Workload and connections.
    #[serde(flatten)]
    pub cell: Cell,
    /// Name of the measured setting: the base.
    pub setting: String,
    /// Transactions per second.
    pub tps: f64,
}

/// One slice of load on one setting, with its measurements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slice {
    /// Workload and connections.
    #[serde(flatten)]
    pub cell: Cell,
    /// Name of the setting.
    pub setting: String,
    /// Number of its block within the cell, from 0; slices are compared within their block.
    pub block: u32,
    /// Position in the block's order, from 0.
    pub turn: u32,
    /// Turns of the slice, round by round; empty if it did not take turns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<Turn>,
    /// Number of the server's process, in the order of starts through the study. None for a server that the
    /// study does not start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
    /// Start in seconds since the study began, without the time while a study was interrupted.
    pub at: f64,
    /// Time under load in seconds, without the turns of others.
    pub seconds: f64,
    /// Arrivals of transactions per second, where they come at a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Transactions committed.
    pub transactions: u64,
    /// Statements.
    pub queries: u64,
    /// Errors that the driver ignored.
    pub errors: u64,
    /// CPU time of the server's process in user mode.
    pub cpu_user: f64,
    /// CPU time of the server's process in the kernel.
    pub cpu_system: f64,
    /// CPU time of the sidecars that are charged.
    pub cpu_sidecars: f64,
    /// CPU time of the sidecars that are not charged.
    #[serde(default)]
    pub cpu_beside: f64,
    /// Resident memory of all its sidecars at the end.
    #[serde(default)]
    pub resident_sidecars: u64,
    /// Resident memory of the server at the end.
    pub resident_bytes: u64,
    /// Context switches of the server's threads, voluntary and not.
    pub context_switches: u64,
    /// Growth of the setting's logs in bytes.
    pub logged_bytes: u64,
    /// Share of the machine's time that its hypervisor gave to others.
    pub steal: f64,
    /// The machine's load average over a minute, at the end.
    pub load: f64,
    /// Latency of transactions.
    pub latency: Latency,
    /// Transactions per second, second by second.
    pub per_second: Vec<f64>,
    /// Times of scrapes, in seconds since the load's start, ascending. Not recorded for a slice in turns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scrapes: Vec<f64>,
    /// Figures that a workload reports of itself, such as `notpm`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, f64>,
}

/// A turn of a slice. What happens before the first and after the last one is in the slice's sums only.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Turn {
    /// CPU time of the server's process until it had finished everything it received.
    pub cpu: f64,
    /// CPU time used from then until the next turn on the same server. Part of the mean of all turns, not of
    /// calm rounds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub after: f64,
    /// Length of the turn.
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
    /// Returns the charge of a statement in seconds; not finite without statements, or if the measure is not
    /// known by turn.
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
    /// Returns the charge of a transaction in seconds; not finite without transactions.
    pub fn charged(&self, measure: Measure) -> f64 {
        match measure {
            Measure::Cpu => (self.cpu_user + self.cpu_system + self.cpu_sidecars) / self.transactions as f64,
            Measure::Time => self.seconds / self.transactions as f64,
            Measure::P95 => self.latency.p95,
        }
    }

    /// Returns the charge per statement over all turns, including the server's work between them; without
    /// turns, the charge of a transaction. Only comparable with other slices of the same block.
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

    /// Returns transactions per second.
    pub fn tps(&self) -> f64 {
        self.transactions as f64 / self.seconds
    }

    /// Divides a count or a time by the number of transactions.
    pub fn per_transaction(&self, figure: f64) -> f64 {
        figure / self.transactions as f64
    }
}

/// Latency of transactions, in seconds. At a rate, it counts from the arrival.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Upper bounds of buckets with their counts, ascending, without empty buckets.
    pub histogram: Vec<(f64, u64)>,
}

/// Events that the Performance Schema of a setting counted over a slice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calls {
    /// Workload and connections.
    #[serde(flatten)]
    pub cell: Cell,
    /// Name of the setting.
    pub setting: String,
    /// Events per transaction by class of instrument (`wait/synch/mutex`, `stage`, …).
    pub per_transaction: BTreeMap<String, f64>,
    /// Number of enabled instruments. Missing where it could not be read, and in older results.
    #[serde(default)]
    pub instruments: Option<Instruments>,
}

/// Numbers of rows of `setup_instruments`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Instruments {
    /// Rows that are enabled.
    pub enabled: u64,
    /// All rows.
    pub all: u64,
}

/// Work of a setting's server per transaction, counted over an unmeasured slice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Effort {
    /// Workload and connections.
    #[serde(flatten)]
    pub cell: Cell,
    /// Name of the setting.
    pub setting: String,
    /// Whether the server was warm: the slice followed others, before a profile was taken.
    #[serde(default)]
    pub warm: bool,
    /// Figures of [`crate::effort::FIGURES`] per transaction (`instructions_per_cycle` is not divided); those
    /// that cannot be counted are missing.
    pub per_transaction: BTreeMap<String, f64>,
}

/// Reference to a flame graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Profile {
    /// Workload and connections.
    #[serde(flatten)]
    pub cell: Cell,
    /// Name of the setting.
    pub setting: String,
    /// Name of the file with folded stacks in the results' folder: `stack;stack;stack count` per line.
    pub stacks: String,
}

/// Remark for the reader of the report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Note {
    /// Time in seconds since the study began.
    pub at: f64,
    /// Text of the remark.
    pub text: String,
}

/// End of the study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct End {
    /// Time in seconds since the study began.
    pub at: f64,
    /// Reason of the end.
    pub reason: Reason,
}

/// Why a study ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Every setting is known as precisely as the study asks.
    TargetsReached,
    /// Every block that the study allows was measured.
    AllBlocks,
    /// The study's time was over.
    OutOfTime,
    /// A user interrupted it.
    Interrupted,
}

impl Reason {
    /// Returns whether a study with this reason is over; otherwise it can continue.
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

/// Shortens a checksum for display.
pub(crate) fn short(sum: &str) -> &str {
    sum.get(..SHORT).unwrap_or(sum)
}
