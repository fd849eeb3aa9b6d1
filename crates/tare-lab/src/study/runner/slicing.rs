//! Measurement of slices: drives load and measures the server, each setting as a whole or all of a block in
//! turns.
//!
//! In turns, every setting of a block has its driver connected and stopped (`SIGSTOP`). One after the other,
//! in a new random order for every round, is continued for a moment. So settings are compared within
//! fractions of a second, and disturbances of the machine affect all of them alike.

use std::time::{Duration, Instant};

use crate::definition::{SettingDef, WorkloadDef};
use crate::load::{Drive, DriverEvent, DriverReport, DriverSecond, Load};
use crate::machine::{self, Ticks};
use crate::process::Usage;
use crate::process::priority::Ahead;
use crate::results::record::{Cell, Slice, Turn};
use crate::server::target::StatementCounter;
use crate::study::servers::bench::Bench;
use crate::study::servers::fleet::{Fleet, Ready};
use crate::study::servers::sidecar::{SidecarUsage, Sidecars};
use crate::{Error, Result};

/// How often a server with a stopped driver is checked for idleness.
const STEP: Duration = Duration::from_millis(1);
/// A server is idle when it works for less than one in so many parts of the time.
const IDLE: u32 = 10;
/// How long a shared server must be idle, so that the deferred work of a setting is charged to it and not to
/// the next one.
const SHARED_IDLE: Duration = Duration::from_millis(3);
/// Longest wait for idleness, in turns.
const TURNS_TO_IDLE: u32 = 4;
/// Least extra time of a block in turns for connecting, as the drivers connect one after the other; more if
/// connecting took longer when each connected alone.
const CONNECTING: Duration = Duration::from_secs(1);
const CONNECTING_BESIDE: f64 = 1.5;
/// Fewest turns of a setting for a valid block.
const LEAST_TURNS: usize = 2;

/// Measures the slices of a cell.
pub(crate) struct Slicer<'s, 'a> {
    pub(crate) bench: &'s Bench,
    pub(crate) fleet: &'s mut Fleet<'a>,
    pub(crate) settings: &'s [SettingDef],
    pub(crate) workload: &'s WorkloadDef,
    pub(crate) cell: &'s Cell,
    pub(crate) load: Load,
    /// When the study was started or continued, and the seconds it had run before.
    pub(crate) begun: (Instant, f64),
    /// How long the driver took to connect for a whole slice, once it has.
    pub(crate) connecting: Duration,
}

/// How a block takes turns.
pub(crate) struct Turns {
    /// Length of each slice in seconds, all its turns together.
    pub(crate) seconds: f64,
    /// Length of a turn.
    pub(crate) each: Duration,
    /// How long a driver takes to connect.
    pub(crate) connecting: Duration,
    /// Random numbers for the order of every round.
    pub(crate) random: fastrand::Rng,
}

/// A slice in progress.
struct RunningSlice {
    place: usize,
    server: Ready,
    drive: Drive,
    tally: StatementCounter,
    meter: SliceMeter,
    at: f64,
    /// When the driver's time is over.
    ends: Instant,
    /// When it was stopped.
    held: Instant,
    shortest_pause: Duration,
    active: Duration,
    turns: Vec<Turn>,
    /// CPU time of the server after its last turn, until that turn is closed.
    open: Option<Duration>,
    logged_bytes: u64,
    /// The sidecars, which run between turns, and their usage when the driver was connected.
    sidecars: (Sidecars, SidecarUsage),
}

/// How a driver's turn ended.
enum Went {
    On,
    /// The driver's time is over.
    Over,
    /// The driver ended before its time.
    Early,
}

impl Slicer<'_, '_> {
    /// Measures a slice of one setting without turns; passes the progress to `second`.
    pub(crate) fn whole(
        &mut self,
        place: usize,
        seconds: u32,
        second: &mut dyn FnMut(DriverSecond),
    ) -> Result<Slice> {
        self.take_whole(place, seconds, second).map_err(|e| self.fleet.explain(place, e))
    }

    fn take_whole(
        &mut self,
        place: usize,
        seconds: u32,
        second: &mut dyn FnMut(DriverSecond),
    ) -> Result<Slice> {
        let def = &self.settings[place];
        let ready = self.fleet.ready(place)?;
        let folder = self.bench.folder();
        let mut sidecars = Sidecars::start((place, def), 1, &ready, folder, &self.bench.interrupt)?;
        ready.empty_logs(&def.logs)?;
        let at = self.now();
        let mut meter = SliceMeter::default();
        let (called, mut begun) = (Instant::now(), Instant::now());
        let report =
            self.bench.driver.run(&self.load, &ready.target, seconds, &self.bench.interrupt, &mut |m| {
                match m {
                    DriverEvent::Started => {
                        begun = Instant::now();
                        meter.start(&ready, &sidecars)?;
                    }
                    DriverEvent::Ended => meter.stop(&ready, &sidecars)?,
                    DriverEvent::Second(progress) => second(progress),
                }
                Ok(())
            })?;
        self.connecting = begun.duration_since(called);
        sidecars.check()?;
        let mut scrapes = sidecars.scrapes_since(begun);
        scrapes.retain(|at| *at < report.seconds);
        Ok(Slice { scrapes, ..self.slice(place, &ready, at, &meter, report, 1.0)? })
    }

    /// Measures a slice of each of these settings, in turns, starting in the given order; reports each turn
    /// to `turn`.
    pub(crate) fn in_turns(
        &mut self,
        places: &[usize],
        mut turns: Turns,
        turn: &mut dyn FnMut(usize),
    ) -> Result<Vec<Slice>> {
        let settings = u32::try_from(places.len()).unwrap_or(u32::MAX);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // some seconds
        let time = {
            let load = turns.seconds * f64::from(settings);
            let connecting = CONNECTING + turns.connecting.mul_f64(f64::from(settings) * CONNECTING_BESIDE);
            (load + connecting.as_secs_f64()).ceil() as u32
        };
        let mut courses = vec![];
        for &place in places {
            turn(place);
            let begun = self.begin(place, (settings, time), turns.each);
            courses.push(begun.map_err(|e| self.fleet.explain(place, e))?);
        }
        let mut order: Vec<usize> = (0..courses.len()).collect();
        // A round that took longer, for instance because settings are switched, is likely to do so again.
        let mut round = (turns.each + STEP * 2) * settings;
        'rounds: while courses.iter().all(|c| Instant::now() + round < c.ends) {
            let begun = Instant::now();
            turns.random.shuffle(&mut order);
            for &i in &order {
                let place = courses[i].place;
                turn(place);
                close(&mut courses, i)?;
                match self.turn(&mut courses[i], turns.each).map_err(|e| self.fleet.explain(place, e))? {
                    Went::On => {}
                    Went::Over => break 'rounds, // the machine held this round up
                    Went::Early => {
                        let ended =
                            courses.swap_remove(i).drive.finish(&self.bench.interrupt, &mut |_| Ok(()));
                        let early = |r: DriverReport| Error::LoadReport {
                            why: "it ended before its time",
                            output: r.output,
                        };
                        return Err(self.fleet.explain(place, ended.map_or_else(|e| e, early)));
                    }
                }
            }
            round = round.max(begun.elapsed());
        }
        (0..courses.len()).try_for_each(|i| close(&mut courses, i))?;
        if let Some(course) = courses.iter().find(|it| it.turns.len() < LEAST_TURNS) {
            return Err(self.fleet.explain(course.place, Error::NoTurns { seconds: time }));
        }
        let mut slices = vec![];
        for course in courses {
            let place = course.place;
            turn(place);
            slices.push(self.end(course).map_err(|e| self.fleet.explain(place, e))?);
        }
        Ok(slices)
    }

    /// Starts the sidecars of one of `settings` settings, connects its driver and stops it.
    fn begin(&mut self, place: usize, (settings, time): (u32, u32), each: Duration) -> Result<RunningSlice> {
        let (ready, def) = (self.fleet.ready(place)?, &self.settings[place]);
        let (folder, interrupt) = (self.bench.folder(), &self.bench.interrupt);
        let sidecars = Sidecars::start((place, def), settings, &ready, folder, interrupt)?;
        ready.empty_logs(&def.logs)?;
        let at = self.now();
        let tally = StatementCounter::of(&ready.target)?;
        let mut drive = self.bench.driver.start(&self.load, &ready.target, time)?;
        let _ahead = Ahead::of_others();
        drive.until_started(&self.bench.interrupt)?;
        let started = Instant::now();
        let mut meter = SliceMeter::default();
        meter.start(&ready, &Sidecars::default())?;
        drive.hold(&self.bench.interrupt)?;
        let active = started.elapsed();
        self.drain(place, &ready, each)?;
        meter.stop(&ready, &Sidecars::default())?;
        self.fleet.switch_connected(place)?;
        let logged_bytes = ready.empty_logs(&def.logs)?;
        let used = sidecars.usage();
        Ok(RunningSlice {
            place,
            server: ready,
            drive,
            tally,
            meter,
            at,
            ends: started + Duration::from_secs(time.into()),
            held: started + active,
            shortest_pause: Duration::MAX,
            active,
            turns: vec![],
            open: None,
            logged_bytes,
            sidecars: (sidecars, used),
        })
    }

    /// Continues a setting's driver for a turn. A turn in which its time ran out is not counted.
    fn turn(&mut self, course: &mut RunningSlice, each: Duration) -> Result<Went> {
        if Instant::now() + each > course.ends {
            return Ok(Went::Over);
        }
        let _ahead = Ahead::of_others();
        let ready = self.resume(course)?;
        let (begun, before) = (Instant::now(), course.meter.usage.cpu);
        let slept = self.bench.interrupt.sleep(each);
        course.drive.hold(&self.bench.interrupt)?;
        course.held = Instant::now();
        let took = begun.elapsed();
        course.active += took;
        slept?;
        self.drain(course.place, &ready, each)?;
        course.meter.stop(&ready, &Sidecars::default())?;
        course.logged_bytes += ready.empty_logs(&self.settings[course.place].logs)?;
        let cpu = course.meter.usage.cpu.saturating_sub(before).as_secs_f64();
        let queries = course.tally.since()?;
        if course.held > course.ends {
            return Ok(Went::Over);
        }
        course.turns.push(Turn { cpu, after: 0.0, seconds: took.as_secs_f64(), queries });
        course.open = Some(ready.cpu()?);
        Ok(if course.drive.ended()? { Went::Early } else { Went::On })
    }

    /// Waits, for some turns at most, until a server has finished what it received before its driver was
    /// stopped.
    fn drain(&self, place: usize, ready: &Ready, each: Duration) -> Result<()> {
        let long_enough = if self.fleet.is_shared(place) { SHARED_IDLE } else { STEP };
        let ends = Instant::now() + each * TURNS_TO_IDLE;
        let (mut before, mut since) = (ready.cpu()?, Instant::now());
        while since.elapsed() < long_enough && Instant::now() < ends {
            std::thread::sleep(STEP);
            let now = ready.cpu()?;
            if now.saturating_sub(before) >= STEP / IDLE {
                since = Instant::now();
            }
            before = now;
        }
        Ok(())
    }

    /// Continues a driver, after switching the server to its setting.
    fn resume(&mut self, course: &mut RunningSlice) -> Result<Ready> {
        let ready = self.fleet.ready(course.place)?;
        ready.empty_logs(&self.settings[course.place].logs)?;
        course.tally.since()?;
        course.shortest_pause = course.shortest_pause.min(course.held.elapsed());
        course.meter.start(&ready, &Sidecars::default())?;
        course.drive.release();
        Ok(ready)
    }

    /// Continues a driver whose time is over until it ends, and parses its report.
    fn end(&mut self, mut course: RunningSlice) -> Result<Slice> {
        self.bench.interrupt.sleep(course.ends.saturating_duration_since(Instant::now()))?;
        let _ahead = Ahead::of_others();
        let ready = self.resume(&mut course)?;
        let (begun, meter) = (Instant::now(), &mut course.meter);
        let mut active = course.active;
        let report = course.drive.finish(&self.bench.interrupt, &mut |moment| {
            if moment == DriverEvent::Ended {
                active += begun.elapsed();
                meter.stop(&ready, &Sidecars::default())?;
            }
            Ok(())
        })?;
        let (sidecars, before) = &mut course.sidecars;
        sidecars.check()?;
        meter.sidecars = sidecars.usage().since(*before);
        let share = active.as_secs_f64() / report.seconds;
        let held_up = u64::from(self.cell.users) * (course.turns.len() as u64 + 1);
        #[allow(clippy::cast_precision_loss)] // far below 2^53
        let report = DriverReport {
            seconds: active.as_secs_f64(),
            latency: report.latency.without(course.shortest_pause.as_secs_f64(), held_up),
            per_second: vec![report.transactions as f64 / active.as_secs_f64()],
            ..report
        };
        let slice = self.slice(course.place, &ready, course.at, &course.meter, report, share)?;
        Ok(Slice { turns: course.turns, logged_bytes: course.logged_bytes + slice.logged_bytes, ..slice })
    }

    /// Makes the record of a load that had a `share` of the time since its start.
    fn slice(
        &self,
        place: usize,
        ready: &Ready,
        at: f64,
        meter: &SliceMeter,
        report: DriverReport,
        share: f64,
    ) -> Result<Slice> {
        let (cpu_user, cpu_system) = meter.usage.cpu_split();
        let def = &self.settings[place];
        Ok(Slice {
            cell: self.cell.clone(),
            setting: def.name.clone(),
            block: 0,
            turn: 0,
            turns: vec![],
            process: ready.process,
            at,
            seconds: report.seconds,
            rate: self.load.arrivals.map(|arrivals| arrivals.rate),
            transactions: report.transactions,
            queries: report.queries,
            errors: report.errors,
            cpu_user,
            cpu_system,
            cpu_sidecars: meter.sidecars.charged.as_secs_f64(),
            cpu_beside: meter.sidecars.beside.as_secs_f64(),
            resident_sidecars: meter.sidecars.resident,
            resident_bytes: ready.resident()?,
            context_switches: meter.usage.switches,
            logged_bytes: ready.empty_logs(&def.logs)?,
            steal: meter.steal(),
            load: machine::load(),
            figures: self.workload.run.figures(&report.output, share),
            latency: report.latency,
            per_second: report.per_second,
            scrapes: vec![],
        })
    }

    /// Returns the seconds since the study began.
    fn now(&self) -> f64 {
        self.begun.1 + self.begun.0.elapsed().as_secs_f64()
    }
}

/// Charges the CPU time that a server has used since the last turn on it to that turn: on a separate server,
/// everything between two of its turns; on a shared one, everything before the next turn.
fn close(courses: &mut [RunningSlice], next: usize) -> Result<()> {
    let pid = courses[next].server.pid;
    let Some(course) = courses.iter_mut().find(|c| c.server.pid == pid && c.open.is_some()) else {
        return Ok(());
    };
    if let (Some(open), Some(turn)) = (course.open.take(), course.turns.last_mut()) {
        turn.after = course.server.cpu()?.saturating_sub(open).as_secs_f64();
    }
    Ok(())
}

/// Sums up what a server and its sidecars use between `start` and `stop`.
#[derive(Debug, Default)]
struct SliceMeter {
    from: (Usage, SidecarUsage),
    usage: Usage,
    sidecars: SidecarUsage,
    /// When it was first started and last stopped.
    ticks: (Option<Ticks>, Ticks),
}

impl SliceMeter {
    fn start(&mut self, ready: &Ready, sidecars: &Sidecars) -> Result<()> {
        self.ticks.0.get_or_insert_with(Ticks::now);
        self.from = (ready.usage()?, sidecars.usage());
        Ok(())
    }

    fn stop(&mut self, ready: &Ready, sidecars: &Sidecars) -> Result<()> {
        self.usage += ready.usage()?.since(&self.from.0);
        self.sidecars += sidecars.usage().since(self.from.1);
        self.ticks.1 = Ticks::now();
        Ok(())
    }

    fn steal(&self) -> f64 {
        self.ticks.0.map_or(0.0, |first| self.ticks.1.stolen_since(first))
    }
}
