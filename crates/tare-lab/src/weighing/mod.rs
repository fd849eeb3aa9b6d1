//! Measurement of the cost of settings on a running server, under its own load.
//!
//! Statements switch the server from setting to setting every few milliseconds, in a new random order for
//! every round. The CPU time of a statement in one setting is compared with the first setting's within the
//! round: changes of the machine, its neighbours or the load are slower, so they affect all settings alike.
//! Nothing drives or delays the server, so a second on a busy server tells more than one of a study; but it
//! tells only about this server, this load and this hour.
//!
//! The rounds give two figures, each with a 95% interval: the usual cost, by Hodges and Lehmann's centre, and
//! the mean of all rounds. Consecutive rounds form batches, whose figures are taken as independent, with
//! Student's t over them: the load may drift within a batch. The duration is fixed beforehand, without looks
//! in between.

mod governor;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use serde::Serialize;

use crate::process;
use crate::process::interrupt::Interrupt;
use crate::server::guest::{self, Guest};
use crate::server::target::{ServerTarget, StatementCounter};
use crate::statistics::signed_rank::centre;
use crate::statistics::{self, Estimate};
use crate::{Error, Result};

pub use governor::Obstacle;

/// Number of independent observations that the rounds are grouped into.
const BATCHES: usize = 24;
/// Fewest rounds in an observation.
const LEAST: usize = 4;
/// Time for the server to take up a switch.
const SETTLING: Duration = Duration::from_millis(1);
/// How long the load is observed before anything is switched.
const SAMPLE: Duration = Duration::from_millis(300);
/// Name of the lock that keeps others from weighing the same server.
const LOCK: &str = "tare weigh";

/// Name of the A/A control: the first setting again, which shows the noise.
pub const AGAIN: &str = "again";

/// A setting: statements that switch the server to it from any state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeighedSetting {
    /// Its name.
    pub name: String,
    /// The statements.
    pub statements: Vec<String>,
}

/// What to weigh.
#[derive(Clone, Debug)]
pub struct Weighing<'a> {
    /// The server's process, on this machine; `None`: the one that listens there.
    pub pid: Option<u32>,
    /// Two or more; the others are compared with the first one.
    pub settings: &'a [WeighedSetting],
    /// Total duration.
    pub time: Duration,
    /// Duration of each setting in a round.
    pub window: Duration,
}

/// Number of rounds needed for a result, each with a statement in every window.
pub const WANTED: usize = BATCHES * LEAST;

impl Weighing<'_> {
    /// Returns the highest possible number of rounds, if switching takes no time.
    #[must_use]
    pub fn rounds_at_most(&self) -> u64 {
        u64::try_from(self.time.as_millis() / self.round().as_millis().max(1)).unwrap_or(u64::MAX)
    }

    /// Returns the least duration of a round: a window of each setting, and of the first one again.
    #[must_use]
    pub fn round(&self) -> Duration {
        (self.window + SETTLING) * u32::try_from(self.settings.len() + 1).unwrap_or(u32::MAX)
    }
}

/// A server that nobody else weighs, in its original state.
#[derive(Debug)]
pub struct Subject {
    target: ServerTarget,
    folder: PathBuf,
    /// The connection that holds the lock.
    connection: mysql::Conn,
}

/// The result of weighing.
#[derive(Clone, Debug, Serialize)]
pub struct Weights {
    /// Version of the server.
    pub version: String,
    /// Rounds that were compared.
    pub rounds: usize,
    /// Rounds in which some setting had no statement.
    pub empty: usize,
    /// Length of each window in milliseconds.
    pub window_ms: f64,
    /// Mean time of switching in milliseconds.
    pub switching_ms: f64,
    /// Mean number of statements in a window.
    pub statements: f64,
    /// The settings, in order.
    pub settings: Vec<Weight>,
}

/// The cost of a setting.
#[derive(Clone, Debug, Serialize)]
pub struct Weight {
    /// Name of the setting.
    pub name: String,
    /// Mean CPU time of the server per statement, in microseconds.
    pub statement_us: f64,
    /// Usual relative cost against the first setting: 0.01 is 1% more. `None` for the first one.
    pub usual: Option<Estimate>,
    /// Relative cost by the mean of all rounds. `None` for the first one.
    pub mean: Option<Estimate>,
}

impl Subject {
    /// Locks the server against others, before its settings are read. First undoes what a killed process has
    /// left in `folder`, which must be for this server only.
    ///
    /// # Errors
    /// When the server refuses, is being weighed, or has a governor.
    pub fn new(target: &ServerTarget, folder: &Path) -> std::result::Result<Subject, Obstacle> {
        let mut connection = target.connect()?;
        let locked: Option<Option<u8>> =
            connection.exec_first("SELECT GET_LOCK(?, 0)", (LOCK,)).map_err(|e| target.refused(e))?;
        if locked.flatten() != Some(1) {
            return Err(Error::Weighed(target.name()).into());
        }
        governor::refuse_beside(target, &mut connection)?;
        guest::settle_on(folder, target)?;
        // The budget of a killed process is undone by now.
        governor::refuse_within(target, &mut connection)?;
        Ok(Subject { target: target.clone(), folder: folder.into(), connection })
    }

    /// Returns the connection to the server.
    pub fn connection(&mut self) -> &mut mysql::Conn {
        &mut self.connection
    }

    /// Returns the current statements per second of its load.
    ///
    /// # Errors
    /// When the server refuses, or the user interrupts.
    #[allow(clippy::cast_precision_loss)] // far below 2^53
    pub fn rate(&self, interrupt: &Interrupt) -> Result<f64> {
        let mut tally = StatementCounter::of(&self.target)?;
        let begun = Instant::now();
        interrupt.sleep(SAMPLE)?;
        Ok(tally.since()? as f64 / begun.elapsed().as_secs_f64())
    }

    /// Returns the variables set by settings of which each session has its own copy, taken when it connects.
    pub fn copied(&mut self, settings: &[WeighedSetting]) -> Vec<String> {
        let statements = settings.iter().flat_map(|setting| &setting.statements);
        let mut names: Vec<&str> = statements.flat_map(|statement| guest::assigned(statement)).collect();
        names.sort_unstable();
        names.dedup();
        // A variable with global scope only has no session value to read.
        names.retain(|name| self.connection.query_drop(format!("SELECT @@SESSION.{name}")).is_ok());
        names.into_iter().map(str::to_owned).collect()
    }

    /// Weighs, and undoes the switches in any case.
    ///
    /// # Errors
    /// When the server refuses, is not on this machine, or has too little load.
    pub fn weigh(self, weighing: &Weighing<'_>, interrupt: &Interrupt) -> Result<Weights> {
        let Subject { target, folder, mut connection } = self;
        let statements = weighing.settings.iter().flat_map(|setting| &setting.statements);
        let mut guest = Guest::on(target.clone(), &folder, 0, statements)?;
        let pid = weighing.pid.or(guest.pid).ok_or_else(|| Error::Elsewhere(target.name()))?;
        let version: Option<String> =
            connection.query_first("SELECT VERSION()").map_err(|e| target.refused(e))?;
        let tally = StatementCounter::of(&target)?;
        let mut scale =
            WeighingRun { weighing, target: &target, pid, connection, tally, switching: Duration::ZERO };
        let rounds = scale.rounds(interrupt);
        let switching = scale.switching;
        guest.leave()?;
        let rounds = Rounds { of: rounds?, switching, version: version.unwrap_or_default() };
        rounds.weights(weighing, &target)
    }
}

/// CPU time in seconds and statements of a setting's window.
#[derive(Clone, Copy, Debug, Default)]
struct WindowUsage {
    cpu: f64,
    statements: u64,
}

struct WeighingRun<'a> {
    weighing: &'a Weighing<'a>,
    target: &'a ServerTarget,
    pid: u32,
    connection: mysql::Conn,
    tally: StatementCounter,
    switching: Duration,
}

impl WeighingRun<'_> {
    /// Runs rounds until the time is over; returns the windows of each setting, the first setting's
    /// repetition last.
    fn rounds(&mut self, interrupt: &Interrupt) -> Result<Vec<Vec<WindowUsage>>> {
        let ends = Instant::now() + self.weighing.time;
        let settings = self.weighing.settings.len();
        let mut order: Vec<usize> = (0..=settings).collect();
        let (mut random, mut rounds) = (fastrand::Rng::new(), vec![]);
        while Instant::now() < ends {
            random.shuffle(&mut order);
            let mut round = vec![WindowUsage::default(); order.len()];
            for &place in &order {
                round[place] = self.window(place % settings, interrupt)?;
            }
            rounds.push(round);
        }
        Ok(rounds)
    }

    fn window(&mut self, setting: usize, interrupt: &Interrupt) -> Result<WindowUsage> {
        let begun = Instant::now();
        for statement in &self.weighing.settings[setting].statements {
            self.connection.query_drop(statement).map_err(|e| self.target.refused(e))?;
        }
        self.switching += begun.elapsed();
        interrupt.sleep(SETTLING)?;
        self.tally.since()?;
        let before = process::cpu_time(self.pid)?;
        interrupt.sleep(self.weighing.window)?;
        let cpu = process::cpu_time(self.pid)?.saturating_sub(before).as_secs_f64();
        Ok(WindowUsage { cpu, statements: self.tally.since()? })
    }
}

/// The data of all rounds.
struct Rounds {
    of: Vec<Vec<WindowUsage>>,
    switching: Duration,
    version: String,
}

impl Rounds {
    #[allow(clippy::cast_precision_loss)] // far below 2^53
    fn weights(self, weighing: &Weighing<'_>, target: &ServerTarget) -> Result<Weights> {
        let all = self.of.len();
        let whole: Vec<Vec<WindowUsage>> = self
            .of
            .into_iter()
            .filter(|round| round.iter().all(|seen| seen.statements > 0 && seen.cpu > 0.0))
            .collect();
        let windows = (whole.len() * (weighing.settings.len() + 1)) as f64;
        let statements: u64 = whole.iter().flatten().map(|seen| seen.statements).sum();
        if whole.len() < WANTED {
            return Err(Error::TooLittleLoad {
                server: target.name(),
                rounds: whole.len(),
                all,
                wanted: WANTED,
            });
        }
        let names = weighing.settings.iter().map(|setting| setting.name.clone());
        let settings = names.chain([AGAIN.to_owned()]).enumerate();
        Ok(Weights {
            version: self.version,
            rounds: whole.len(),
            empty: all - whole.len(),
            window_ms: weighing.window.as_secs_f64() * 1e3,
            switching_ms: self.switching.as_secs_f64() * 1e3
                / (all * (weighing.settings.len() + 1)).max(1) as f64,
            statements: statements as f64 / windows,
            settings: settings.map(|(place, name)| weight(&whole, place, name)).collect(),
        })
    }
}

/// Computes the cost of a setting.
fn weight(rounds: &[Vec<WindowUsage>], place: usize, name: String) -> Weight {
    let of_batch = |figure: fn(&[Vec<WindowUsage>], usize) -> f64| {
        let size = rounds.len() / BATCHES;
        // The remainder belongs to the last batch.
        let batch =
            |n: usize| &rounds[n * size..if n + 1 == BATCHES { rounds.len() } else { (n + 1) * size }];
        let figures: Vec<f64> = (0..BATCHES).map(|n| figure(batch(n), place)).collect();
        (place != 0).then(|| statistics::mean_interval(&figures).map(Estimate::exp_m1)).flatten()
    };
    Weight { name, statement_us: taken(rounds, place) * 1e6, usual: of_batch(usual), mean: of_batch(mean) }
}

/// Returns the CPU time per statement over all rounds, in seconds.
#[allow(clippy::cast_precision_loss)] // far below 2^53
fn taken(rounds: &[Vec<WindowUsage>], place: usize) -> f64 {
    let cpu: f64 = rounds.iter().map(|round| round[place].cpu).sum();
    let statements: u64 = rounds.iter().map(|round| round[place].statements).sum();
    cpu / statements as f64
}

/// Returns the logarithm of the usual ratio to the first setting.
#[allow(clippy::cast_precision_loss)] // far below 2^53
fn usual(rounds: &[Vec<WindowUsage>], place: usize) -> f64 {
    let each = |seen: &WindowUsage| seen.cpu / seen.statements as f64;
    let ratios: Vec<f64> = rounds.iter().map(|round| (each(&round[place]) / each(&round[0])).ln()).collect();
    centre(&ratios)
}

/// Returns the logarithm of the ratio of the means.
fn mean(rounds: &[Vec<WindowUsage>], place: usize) -> f64 {
    (taken(rounds, place) / taken(rounds, 0)).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes rounds in which a statement of the second setting costs `more` than one of the first, on a
    /// machine with varying speed.
    fn rounds(n: usize, more: f64) -> Vec<Vec<WindowUsage>> {
        let mut random = fastrand::Rng::with_seed(7);
        let mut speed = 1.0;
        (0..n)
            .map(|_| {
                speed = f64::clamp(speed + (random.f64() - 0.5) * 0.2, 0.5, 2.0);
                let mut seen = |factor: f64| {
                    let statements = random.u64(200..400);
                    let noise = 1.0 + (random.f64() - 0.5) * 0.1;
                    WindowUsage { cpu: statements as f64 * 1e-5 * speed * factor * noise, statements }
                };
                vec![seen(1.0), seen(1.0 + more), seen(1.0)]
            })
            .collect()
    }

    #[test]
    fn a_small_difference_is_found_on_a_machine_that_changes_its_speed() {
        let rounds = rounds(1000, 0.01);
        for figure in [|w: &Weight| w.usual, |w: &Weight| w.mean] {
            let of = |place| figure(&weight(&rounds, place, String::new()));
            assert!(of(0).is_none(), "the first one is what the others are compared with");
            let (more, again) = (of(1).expect("an estimate"), of(2).expect("an estimate"));
            assert!(more.low < 0.01 && 0.01 < more.high && more.low > 0.0, "{more:?}");
            assert!(again.low < 0.0 && 0.0 < again.high && again.half_width() < 0.005, "{again:?}");
        }
    }

    #[test]
    fn the_interval_is_as_wide_as_it_says() {
        let mut missed = 0;
        for chunk in rounds(BATCHES * 10 * 100, 0.0).chunks(BATCHES * 10) {
            let found = weight(chunk, 1, String::new()).usual.expect("an estimate");
            missed += u32::from(found.low > 0.0 || found.high < 0.0);
        }
        assert!((1..=11).contains(&missed), "{missed} of 100 intervals of 95% miss");
    }
}
