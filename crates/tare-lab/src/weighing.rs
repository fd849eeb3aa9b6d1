//! Weighs what settings cost on a server that runs, under the load it has.
//!
//! Statements switch the server from setting to setting every few milliseconds, in an order drawn anew for every round. What
//! a statement of its load takes of the server's CPU time in one setting is compared with the first one within the round: what the
//! machine, its neighbours or the load do takes longer than that, and hits all settings alike. Nobody drives the server and nobody is
//! held up, so a second of a busy server tells more than one of a study does; but what it tells is of this server, this load and this
//! hour.
//!
//! Two figures come of the rounds, each with a 95% interval: what is usual, by Hodges and Lehmann's centre, and the mean of all of them.
//! Rounds that follow each other are put together into batches, whose figures are taken for independent, with Student's t over
//! them: so long a load may go on as it is. How long it is going to take is said before, and nobody looks meanwhile.

mod governor;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use serde::Serialize;

use crate::guest::{self, Guest};
use crate::interrupt::Interrupt;
use crate::process;
use crate::signed_rank::centre;
use crate::statistics::{self, Estimate};
use crate::target::{Tally, Target};
use crate::{Error, Result};

pub use governor::Obstacle;

/// Independent observations that the rounds are put together into.
const BATCHES: usize = 24;
/// The fewest rounds in one.
const LEAST: usize = 4;
/// The server has this long to notice that it was switched.
const SETTLING: Duration = Duration::from_millis(1);
/// How long the load is looked at before anything is switched.
const SAMPLE: Duration = Duration::from_millis(300);
/// What keeps others from weighing the same server.
const LOCK: &str = "tare weigh";

/// What a setting is called that is the first one again: it shows the noise.
pub const AGAIN: &str = "again";

/// A setting: statements that switch the server to it, whatever it was at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// The statements.
    pub statements: Vec<String>,
}

/// What is to be weighed.
#[derive(Clone, Debug)]
pub struct Weighing<'a> {
    /// The server's process, which is on this machine; `None`: whoever listens there.
    pub pid: Option<u32>,
    /// Two or more; the others are compared with the first one.
    pub settings: &'a [Setting],
    /// How long.
    pub time: Duration,
    /// How long each setting has the server in a round.
    pub window: Duration,
}

/// Rounds that an answer takes, each with a statement in every window.
pub const WANTED: usize = BATCHES * LEAST;

impl Weighing<'_> {
    /// Rounds there is room for, where switching takes no time.
    #[must_use]
    pub fn rounds_at_most(&self) -> u64 {
        u64::try_from(self.time.as_millis() / self.round().as_millis().max(1)).unwrap_or(u64::MAX)
    }

    /// How long a round takes at least: a window of each setting, and of the first one again.
    #[must_use]
    pub fn round(&self) -> Duration {
        (self.window + SETTLING) * u32::try_from(self.settings.len() + 1).unwrap_or(u32::MAX)
    }
}

/// A server that nobody else weighs, and that is as it was before anybody did.
#[derive(Debug)]
pub struct Subject {
    target: Target,
    folder: PathBuf,
    /// Holds the lock.
    connection: mysql::Conn,
}

/// What was found.
#[derive(Clone, Debug, Serialize)]
pub struct Weights {
    /// The server's version.
    pub version: String,
    /// Rounds that were compared.
    pub rounds: usize,
    /// Rounds in which some setting had no statement.
    pub empty: usize,
    /// Milliseconds that a setting had the server in each of them.
    pub window_ms: f64,
    /// Milliseconds that switching took, on average.
    pub switching_ms: f64,
    /// Statements in a window, on average.
    pub statements: f64,
    /// The settings, the first one first.
    pub settings: Vec<Weight>,
}

/// What a setting was found to cost.
#[derive(Clone, Debug, Serialize)]
pub struct Weight {
    /// Its name.
    pub name: String,
    /// Microseconds of the server's CPU time for a statement, on average.
    pub statement_us: f64,
    /// How much more that is than in the first one, usually: 0.01 is 1% more. `None` for the first one.
    pub usual: Option<Estimate>,
    /// The same of the means of all rounds.
    pub mean: Option<Estimate>,
}

impl Subject {
    /// The server, from which others are kept from now on. What somebody who was killed has left in `folder`, which is this server's
    /// alone, is put back. Before anybody looks at what is on.
    ///
    /// # Errors
    /// The server refuses, another one weighs it, or it has a governor.
    pub fn new(target: &Target, folder: &Path) -> std::result::Result<Subject, Obstacle> {
        let mut connection = target.connect()?;
        let locked: Option<Option<u8>> =
            connection.exec_first("SELECT GET_LOCK(?, 0)", (LOCK,)).map_err(|e| target.refused(e))?;
        if locked.flatten() != Some(1) {
            return Err(Error::Weighed(target.name()).into());
        }
        governor::refuse_beside(target, &mut connection)?;
        guest::settle_on(folder, target)?;
        // A budget that a killed one has left is gone by now.
        governor::refuse_within(target, &mut connection)?;
        Ok(Subject { target: target.clone(), folder: folder.into(), connection })
    }

    /// A connection to it.
    pub fn connection(&mut self) -> &mut mysql::Conn {
        &mut self.connection
    }

    /// Statements a second that its load has now.
    ///
    /// # Errors
    /// The server refuses, or the user wants to end.
    #[allow(clippy::cast_precision_loss)] // far below 2^53
    pub fn rate(&self, interrupt: &Interrupt) -> Result<f64> {
        let mut tally = Tally::of(&self.target)?;
        let begun = Instant::now();
        interrupt.sleep(SAMPLE)?;
        Ok(tally.since()? as f64 / begun.elapsed().as_secs_f64())
    }

    /// Variables that settings give a value to and of which each session has one of its own, which it copies when it connects.
    pub fn copied(&mut self, settings: &[Setting]) -> Vec<String> {
        let statements = settings.iter().flat_map(|setting| &setting.statements);
        let mut names: Vec<&str> = statements.flat_map(|statement| guest::assigned(statement)).collect();
        names.sort_unstable();
        names.dedup();
        // Of a variable that is the whole server's alone no session's value can be read.
        names.retain(|name| self.connection.query_drop(format!("SELECT @@SESSION.{name}")).is_ok());
        names.into_iter().map(str::to_owned).collect()
    }

    /// Weighs, and puts back what was switched, whatever happens.
    ///
    /// # Errors
    /// The server refuses, or is not on this machine, or has too little load.
    pub fn weigh(self, weighing: &Weighing<'_>, interrupt: &Interrupt) -> Result<Weights> {
        let Subject { target, folder, mut connection } = self;
        let statements = weighing.settings.iter().flat_map(|setting| &setting.statements);
        let mut guest = Guest::on(target.clone(), &folder, 0, statements)?;
        let pid = weighing.pid.or(guest.pid).ok_or_else(|| Error::Elsewhere(target.name()))?;
        let version: Option<String> =
            connection.query_first("SELECT VERSION()").map_err(|e| target.refused(e))?;
        let tally = Tally::of(&target)?;
        let mut scale =
            Scale { weighing, target: &target, pid, connection, tally, switching: Duration::ZERO };
        let rounds = scale.rounds(interrupt);
        let switching = scale.switching;
        guest.leave()?;
        let rounds = Rounds { of: rounds?, switching, version: version.unwrap_or_default() };
        rounds.weights(weighing, &target)
    }
}

/// What a setting's window saw: CPU time in seconds, and statements.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    cpu: f64,
    statements: u64,
}

struct Scale<'a> {
    weighing: &'a Weighing<'a>,
    target: &'a Target,
    pid: u32,
    connection: mysql::Conn,
    tally: Tally,
    switching: Duration,
}

impl Scale<'_> {
    /// Rounds until the time is over: what each setting saw, the first one again at the end.
    fn rounds(&mut self, interrupt: &Interrupt) -> Result<Vec<Vec<Seen>>> {
        let ends = Instant::now() + self.weighing.time;
        let settings = self.weighing.settings.len();
        let mut order: Vec<usize> = (0..=settings).collect();
        let (mut random, mut rounds) = (fastrand::Rng::new(), vec![]);
        while Instant::now() < ends {
            random.shuffle(&mut order);
            let mut round = vec![Seen::default(); order.len()];
            for &place in &order {
                round[place] = self.window(place % settings, interrupt)?;
            }
            rounds.push(round);
        }
        Ok(rounds)
    }

    fn window(&mut self, setting: usize, interrupt: &Interrupt) -> Result<Seen> {
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
        Ok(Seen { cpu, statements: self.tally.since()? })
    }
}

/// What all rounds saw.
struct Rounds {
    of: Vec<Vec<Seen>>,
    switching: Duration,
    version: String,
}

impl Rounds {
    #[allow(clippy::cast_precision_loss)] // far below 2^53
    fn weights(self, weighing: &Weighing<'_>, target: &Target) -> Result<Weights> {
        let all = self.of.len();
        let whole: Vec<Vec<Seen>> = self
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

/// What a setting costs by these rounds.
fn weight(rounds: &[Vec<Seen>], place: usize, name: String) -> Weight {
    let of_batch = |figure: fn(&[Vec<Seen>], usize) -> f64| {
        let size = rounds.len() / BATCHES;
        // What is left over belongs to the last one.
        let batch =
            |n: usize| &rounds[n * size..if n + 1 == BATCHES { rounds.len() } else { (n + 1) * size }];
        let figures: Vec<f64> = (0..BATCHES).map(|n| figure(batch(n), place)).collect();
        (place != 0).then(|| statistics::mean_interval(&figures).map(Estimate::exp_m1)).flatten()
    };
    Weight { name, statement_us: taken(rounds, place) * 1e6, usual: of_batch(usual), mean: of_batch(mean) }
}

/// CPU time of a statement over all rounds, in seconds.
#[allow(clippy::cast_precision_loss)] // far below 2^53
fn taken(rounds: &[Vec<Seen>], place: usize) -> f64 {
    let cpu: f64 = rounds.iter().map(|round| round[place].cpu).sum();
    let statements: u64 = rounds.iter().map(|round| round[place].statements).sum();
    cpu / statements as f64
}

/// The logarithm of what a statement takes against the first setting, usually.
#[allow(clippy::cast_precision_loss)] // far below 2^53
fn usual(rounds: &[Vec<Seen>], place: usize) -> f64 {
    let each = |seen: &Seen| seen.cpu / seen.statements as f64;
    let ratios: Vec<f64> = rounds.iter().map(|round| (each(&round[place]) / each(&round[0])).ln()).collect();
    centre(&ratios)
}

/// The same of the mean.
fn mean(rounds: &[Vec<Seen>], place: usize) -> f64 {
    (taken(rounds, place) / taken(rounds, 0)).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds in which a statement of the second setting takes so much more than one of the first, on a machine whose speed wanders.
    fn rounds(n: usize, more: f64) -> Vec<Vec<Seen>> {
        let mut random = fastrand::Rng::with_seed(7);
        let mut speed = 1.0;
        (0..n)
            .map(|_| {
                speed = f64::clamp(speed + (random.f64() - 0.5) * 0.2, 0.5, 2.0);
                let mut seen = |factor: f64| {
                    let statements = random.u64(200..400);
                    let noise = 1.0 + (random.f64() - 0.5) * 0.1;
                    Seen { cpu: statements as f64 * 1e-5 * speed * factor * noise, statements }
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
