//! The runner of a study: it prepares servers, drives load in slices, records every slice, and ends when it
//! knows enough.
//!
//! A *life* is the time between two starts of the servers: for every cell an unmeasured slice of every
//! setting, then some blocks. Whether the results are precise enough is checked only between lives, when
//! every observation is complete.

pub mod attribution;
mod effort;
mod pace;
mod profiling;
mod remainder;
pub(crate) mod slicing;
mod spared;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;

use crate::Result;
use crate::definition::processes::used_servers;
use crate::definition::{Definition, SettingDef, WorkloadDef};
use crate::error::Error;
use crate::load::arrivals::Arrivals;
use crate::process::counters::Counters;
use crate::process::interrupt::Interrupt;
use crate::results::effort::is_known;
use crate::results::journal::Journal;
use crate::results::record::{Cell, End, Note, Others, Reason, Record, ServerFacts, Slice};
use crate::server::guest;
use crate::study::identity::check_same;
use crate::study::preparation::{PreparedStudy, check};
use crate::study::runner::slicing::{Slicer, Turns};
use crate::study::servers::bench::Bench;
use crate::study::servers::fleet::Fleet;
use crate::verdict::analysis::{Analysis, SettingAnalysis};
use pace::CellPace;

pub use super::order::{StudyEvent, StudyOrder};
use effort::EffortMeter;

/// Length of an unmeasured slice in seconds, if no setting gives one; longer where transactions are too rare.
const WARM_UP: u32 = 1;
/// Purpose number of the random order of turns, apart from that of slices.
const TURNS: u64 = 1 << 63;
/// Purpose number of the random order of the servers' first start.
const FIRST_START: u64 = u64::MAX;
/// Purpose number of the random arrivals of transactions.
const ARRIVALS: u64 = 1 << 62;

/// Prefix of the note that says why there are no hardware counters.
const NO_COUNTERS: &str = "no hardware counters (instructions, misses)";

/// Runs a study to its end and returns its analysis. On an error, measurements are kept, and everything that
/// was started has been stopped.
pub fn run(
    order: &StudyOrder,
    interrupt: &Interrupt,
    tell: &mut dyn FnMut(StudyEvent<'_>),
) -> Result<Analysis> {
    run_knowing(order, None, interrupt, tell)
}

/// Runs a study with the activity of other processes given by the caller, who observed it before starting
/// something. `None`: observes it now.
pub fn run_knowing(
    order: &StudyOrder,
    others: Option<Others>,
    interrupt: &Interrupt,
    tell: &mut dyn FnMut(StudyEvent<'_>),
) -> Result<Analysis> {
    let begun = Instant::now();
    check(order)?;
    let mut journal = Journal::open(&order.folder)?;
    for server in guest::settle(&order.folder, &order.credentials)? {
        tell(StudyEvent::Note(&format!(
            "what was left on {server} when the study was killed has been put back"
        )));
    }
    let known = Analysis::of(journal.records());
    if let Some(analysis) = &known {
        let is_over = analysis.end.as_ref().is_some_and(|e| e.reason.is_final());
        check_same(order, &analysis.header, is_over)?;
        if is_over {
            return Ok(analysis.clone());
        }
    }
    let header = known.as_ref().map(|analysis| &analysis.header);
    let mut prepared = PreparedStudy::new(order, header, others, interrupt, tell)?;
    let seed = header.map(|header| header.seed).or(order.seed).unwrap_or_else(|| fastrand::u64(..));
    let first = next_process(journal.records());
    let fleet = Fleet::new(&prepared.bench, &order.definition, &prepared.origins, &order.preloads, first)?;
    let mut run = StudyRun {
        order,
        bench: &prepared.bench,
        prepared: &prepared,
        fleet,
        journal: &mut journal,
        seed,
        begun,
        before: 0.0,
        paces: BTreeMap::new(),
        by_itself: None,
        failures: 0,
        counters: None,
    };
    let measured = run.begin(tell).and_then(|()| run.measure(tell));
    let ended = measured.and_then(|reason| run.profile(tell).map(|()| reason));
    let finished = run.finish(ended);
    drop(run);
    finished?;
    prepared.leave()?;
    Analysis::of(journal.records()).ok_or_else(|| Error::NoResults(order.folder.clone()))
}

fn next_process(records: &[Record]) -> u32 {
    let numbers = records.iter().filter_map(|r| match r {
        Record::Slice(slice) => slice.process,
        _ => None,
    });
    numbers.max().map_or(0, |n| n + 1)
}

/// A running study.
struct StudyRun<'a> {
    order: &'a StudyOrder,
    prepared: &'a PreparedStudy,
    bench: &'a Bench,
    fleet: Fleet<'a>,
    journal: &'a mut Journal,
    /// Seed of all random numbers; kept when the study is continued.
    seed: u64,
    begun: Instant,
    /// Seconds that it ran before it was interrupted.
    before: f64,
    /// Paces of the cells, learned from the unmeasured slices.
    paces: BTreeMap<Cell, CellPace>,
    /// Whether a setting's server works while idle, once known.
    by_itself: Option<bool>,
    /// Number of failed loads on healthy servers.
    failures: u32,
    /// The processor's counters, if it has any, once known.
    counters: Option<Option<Counters>>,
}

impl<'a> StudyRun<'a> {
    fn definition(&self) -> &Definition {
        &self.order.definition
    }

    /// Returns the seconds since the study began, without interruptions.
    fn now(&self) -> f64 {
        self.before + self.begun.elapsed().as_secs_f64()
    }

    /// Starts every server once, and writes the header, or a note that the study continues.
    fn begin(&mut self, tell: &mut dyn FnMut(StudyEvent<'_>)) -> Result<()> {
        tell(StudyEvent::Doing("starting servers"));
        let mut all: Vec<usize> = (0..self.definition().settings.len()).collect();
        self.random(FIRST_START).shuffle(&mut all);
        self.fleet.start(&all).map_err(|e| self.bench.explain(e))?;
        let servers = self.servers()?;
        let Some(analysis) = self.analysis() else {
            let PreparedStudy { identity, others, .. } = self.prepared;
            let header = identity.header(self.order, self.seed, servers, *others);
            return self.journal.append(Record::Header(Box::new(header)));
        };
        if analysis.header.servers != servers {
            let what = "the same study on another version of a server".into();
            return Err(Error::OtherResults { folder: self.order.folder.clone(), what });
        }
        self.before = last_moment(self.journal.records());
        let text = "cut off and resumed here; servers were started anew on freshly loaded data".into();
        self.journal.append(Record::Note(Note { at: self.before, text }))?;
        self.prepared.others.warning().map_or(Ok(()), |text| self.note(text))
    }

    /// Returns the servers' descriptions of themselves.
    fn servers(&mut self) -> Result<Vec<ServerFacts>> {
        let order = self.order;
        let mut facts = vec![];
        for server in used_servers(&order.definition) {
            let of = |s: &SettingDef| order.definition.server_of(s).name == server.name;
            let place = order.definition.settings.iter().position(of).unwrap_or(0);
            let ready = self.fleet.ready(place)?;
            let (target, cpu) = (&ready.target, ready.cpu_source());
            let versions: Option<(String, String)> = target
                .connect()?
                .query_first("SELECT @@version, @@version_comment")
                .map_err(|e| target.refused(e))?;
            let (version, version_comment) = versions.unwrap_or_default();
            facts.push(ServerFacts { name: server.name.clone(), version, version_comment, cpu });
        }
        Ok(facts)
    }

    fn analysis(&self) -> Option<Analysis> {
        Analysis::of(self.journal.records())
    }

    /// Measures life after life until there is a reason to end.
    fn measure(&mut self, tell: &mut dyn FnMut(StudyEvent<'_>)) -> Result<Reason> {
        let cells = self.definition().cells();
        loop {
            let wanted = self.wanted(&cells);
            if wanted.iter().all(|(_, settings)| settings.is_empty()) {
                let reached = self.analysis().is_some_and(|a| a.reached());
                return Ok(if reached { Reason::TargetsReached } else { Reason::AllBlocks });
            }
            if let Some(reason) = self.life(&wanted, tell)? {
                return Ok(reason);
            }
            self.fleet.stop()?;
        }
    }

    /// Returns what remains to be measured: the indexes of settings for every cell.
    fn wanted(&self, cells: &[Cell]) -> Vec<(Cell, Vec<usize>)> {
        let analysis = self.analysis();
        let of = |cell: &Cell| {
            let known = analysis.as_ref().and_then(|a| a.cells.iter().find(|c| c.cell == *cell));
            let is_known =
                |name: &str| known.and_then(|k| k.setting(name)).is_some_and(|s| s.reached && s.blocks > 0);
            remainder::wanted(self.definition(), cell, self.blocks(cell), is_known)
        };
        cells.iter().map(|cell| (cell.clone(), of(cell))).collect()
    }

    /// Returns the number of a cell's blocks, including an incomplete one.
    fn blocks(&self, cell: &Cell) -> u32 {
        let of = |record: &Record| match record {
            Record::Slice(slice) if slice.cell == *cell => Some(slice.block + 1),
            _ => None,
        };
        self.journal.records().iter().filter_map(of).max().unwrap_or(0)
    }

    /// Runs a life; returns the reason if the study ends.
    fn life(
        &mut self,
        wanted: &[(Cell, Vec<usize>)],
        tell: &mut dyn FnMut(StudyEvent<'_>),
    ) -> Result<Option<Reason>> {
        tell(StudyEvent::Doing("starting servers anew"));
        let mut random = self.random(u64::from(self.fleet.next_process()));
        self.start(wanted, &mut random)?;
        let mut order: Vec<&(Cell, Vec<usize>)> = wanted.iter().filter(|(_, s)| !s.is_empty()).collect();
        random.shuffle(&mut order);
        for (cell, settings) in order {
            while let Err(error) = self.find_maximum(cell, settings, tell) {
                self.spare(&format!("finding the maximum of {cell}"), error, tell)?;
            }
            let warm_ups = self.warm_up_seconds(cell, settings);
            let mut warmed = settings.clone();
            random.shuffle(&mut warmed);
            for place in warmed {
                self.learn_switching(cell, place)?;
                if !self.definition().warms_up(&self.definition().settings[place]) {
                    continue;
                }
                while let Err(error) = self.warm_up(cell, place, warm_ups[place], tell) {
                    self.spare(&format!("warming up for {cell}"), error, tell)?;
                }
            }
            for _ in 0..self.definition().blocks_per_start {
                let block = self.blocks(cell);
                if block >= self.definition().blocks {
                    break;
                }
                let began = self.now();
                let known = match self.block(cell, settings, block, tell) {
                    Ok(analysis) => analysis.is_some_and(|a| self.is_known(cell, &a)),
                    Err(error) => {
                        let what = format!("block {block} of {cell}");
                        self.spare(&what, error, tell)?;
                        false
                    }
                };
                let took = self.now() - began;
                if self.now() + took > self.definition().minutes * 60.0 && !self.owes_blocks() {
                    return Ok(Some(Reason::OutOfTime));
                }
                if known {
                    break;
                }
            }
        }
        Ok(None)
    }

    /// Starts the servers of these settings in random order, because the order may affect their memory
    /// layout.
    fn start(&mut self, wanted: &[(Cell, Vec<usize>)], random: &mut fastrand::Rng) -> Result<()> {
        let settings: BTreeSet<usize> = wanted.iter().flat_map(|(_, settings)| settings).copied().collect();
        let mut settings = Vec::from_iter(settings);
        random.shuffle(&mut settings);
        self.fleet.start(&settings).map_err(|e| self.bench.explain(e))?;
        if self.by_itself.is_none() {
            self.by_itself = Some(self.works_by_itself()?);
        }
        Ok(())
    }

    /// Returns whether a cell has fewer blocks than it gets in any case.
    fn owes(&self, cell: &Cell) -> bool {
        remainder::owes(self.definition(), cell, self.blocks(cell))
    }

    /// Returns whether some cell has fewer blocks than it gets in any case.
    fn owes_blocks(&self) -> bool {
        self.definition().cells().iter().any(|cell| self.owes(cell))
    }

    /// Returns whether a cell needs no more blocks, within a life. Only where each block is an observation:
    /// with separate processes a whole life is one, and stopping it by its results would bias it.
    fn is_known(&self, cell: &Cell, analysis: &Analysis) -> bool {
        let known = analysis.cells.iter().find(|c| c.cell == *cell);
        let enough = |s: &SettingAnalysis| s.reached && (s.name == s.base || s.units == s.blocks);
        let may_stop = self.definition().stop_early && !self.owes(cell);
        may_stop && known.is_some_and(|c| c.settings.iter().all(enough))
    }

    /// Measures a slice of every setting, in random order; returns the analysis after it.
    fn block(
        &mut self,
        cell: &Cell,
        settings: &[usize],
        block: u32,
        tell: &mut dyn FnMut(StudyEvent<'_>),
    ) -> Result<Option<Analysis>> {
        let mut order = settings.to_vec();
        self.random(place_of(self.definition(), cell) << 32 | u64::from(block)).shuffle(&mut order);
        self.slices(cell, &order, block, tell)?;
        let analysis = self.analysis();
        if let Some(analysis) = &analysis {
            let (done, left) = self.done();
            tell(StudyEvent::Block { analysis, done, left });
        }
        Ok(analysis)
    }

    /// Returns the used share of the time, or of the blocks of all cells, and the longest remaining time.
    fn done(&self) -> (f64, Duration) {
        let cells = self.definition().cells();
        let blocks: u32 = cells.iter().map(|cell| self.blocks(cell)).sum();
        #[allow(clippy::cast_precision_loss)] // few
        let all = f64::from(self.definition().blocks) * cells.len() as f64;
        let (of_blocks, limit) = (f64::from(blocks) / all, self.definition().minutes * 60.0);
        let left = (limit - self.now()).min(self.now() * (1.0 / of_blocks - 1.0)).max(0.0);
        ((self.now() / limit).max(of_blocks).min(1.0), Duration::from_secs_f64(left))
    }

    /// Returns the random numbers of a purpose; the same when a study is continued.
    fn random(&self, purpose: u64) -> fastrand::Rng {
        let mut mixed = fastrand::Rng::with_seed(purpose);
        fastrand::Rng::with_seed(self.seed ^ mixed.u64(..))
    }

    /// Runs an unmeasured slice. The first one of a cell counts the effort, because reading it costs, and so
    /// must not be part of a measured slice.
    fn warm_up(
        &mut self,
        cell: &Cell,
        place: usize,
        seconds: u32,
        tell: &mut dyn FnMut(StudyEvent<'_>),
    ) -> Result<()> {
        let setting = self.definition().settings[place].name.clone();
        tell(StudyEvent::Slice { cell, setting: &setting, measured: false });
        let known = is_known(self.journal.records(), cell, &setting);
        let slice = if known {
            self.whole(cell, place, seconds, 0, tell)?
        } else {
            self.watched(cell, place, seconds, false, tell)?
        };
        let pace = self.paces.entry(cell.clone()).or_default();
        pace.latency = pace.latency.max(slice.latency.mean);
        Ok(())
    }

    /// Runs a slice over which the effort is counted.
    fn watched(
        &mut self,
        cell: &Cell,
        place: usize,
        seconds: u32,
        warm: bool,
        tell: &mut dyn FnMut(StudyEvent<'_>),
    ) -> Result<Slice> {
        self.find_counters()?;
        let ready = self.fleet.ready(place)?;
        let watch = EffortMeter::begin(&ready, warm, self.counters.as_ref().and_then(Option::as_ref));
        let slice = self.whole(cell, place, seconds, 0, tell)?;
        let setting = &self.order.definition.settings[place].name;
        for record in watch.end(cell, setting, &ready.target, &slice) {
            self.journal.append(record)?;
        }
        Ok(slice)
    }

    /// Looks for the processor's counters; notes once if there are none.
    fn find_counters(&mut self) -> Result<()> {
        if self.counters.is_some() {
            return Ok(());
        }
        let found = Counters::find(self.bench.folder());
        let said = |r: &Record| matches!(r, Record::Note(note) if note.text.starts_with(NO_COUNTERS));
        self.counters = Some(found.as_ref().ok().cloned());
        match found {
            Err(why) if !self.journal.records().iter().any(said) => self.note(format!(
                "{NO_COUNTERS}: {why}. CPU time, switches, faults, and what servers count themselves are there all the same"
            )),
            _ => Ok(()),
        }
    }

    /// Measures and records slices of these settings, in this order.
    fn slices(
        &mut self,
        cell: &Cell,
        settings: &[usize],
        block: u32,
        tell: &mut dyn FnMut(StudyEvent<'_>),
    ) -> Result<()> {
        let definition = &self.order.definition;
        let seconds = definition.whole_slice_seconds();
        let says = |place: usize| StudyEvent::Slice {
            cell,
            setting: &definition.settings[place].name,
            measured: true,
        };
        if let Some(each) = self.turn(cell) {
            let random = self.random(place_of(definition, cell) << 32 | u64::from(block) | TURNS);
            let pace = self.paces.get(cell).copied().unwrap_or_default();
            let connecting = Duration::from_secs_f64(pace.connecting);
            let turns = Turns { seconds: definition.slice_seconds, each, connecting, random };
            let taken = self.slicer(cell).in_turns(settings, turns, &mut |place| tell(says(place)))?;
            for (turn, slice) in (0..).zip(taken) {
                self.journal.append(Record::Slice(Box::new(Slice { block, turn, ..slice })))?;
            }
            return Ok(());
        }
        for (turn, &place) in (0..).zip(settings) {
            tell(says(place));
            let slice = self.whole(cell, place, seconds, block, tell)?;
            self.journal.append(Record::Slice(Box::new(Slice { block, turn, ..slice })))?;
        }
        Ok(())
    }

    /// Measures a slice without turns. In a block, the transactions of all settings arrive at the same times;
    /// a repeated one has others.
    fn whole(
        &mut self,
        cell: &Cell,
        place: usize,
        seconds: u32,
        block: u32,
        tell: &mut dyn FnMut(StudyEvent<'_>),
    ) -> Result<Slice> {
        let purpose = place_of(self.definition(), cell) << 32 | u64::from(block) | ARRIVALS;
        let (random, spared) = (self.random(purpose), spared::spared(self.journal.records()));
        let arrivals = self.rate(cell).map(|rate| Arrivals::drawn(rate, random, spared));
        let mut slicer = self.slicer(cell);
        slicer.load.arrivals = arrivals;
        let slice = slicer.whole(place, seconds, &mut |progress| tell(StudyEvent::Second(progress)))?;
        let connecting = slicer.connecting.as_secs_f64();
        let pace = self.paces.entry(cell.clone()).or_default();
        pace.connecting = pace.connecting.max(connecting);
        Ok(slice)
    }

    fn slicer<'s>(&'s mut self, cell: &'s Cell) -> Slicer<'s, 'a> {
        let definition = &self.order.definition;
        let workload = workload_of(definition, cell);
        Slicer {
            bench: self.bench,
            settings: &definition.settings,
            load: self.prepared.loads.drive(workload, cell.users),
            workload,
            cell,
            begun: (self.begun, self.before),
            connecting: Duration::ZERO,
            fleet: &mut self.fleet,
        }
    }

    fn note(&mut self, text: String) -> Result<()> {
        let at = self.now();
        self.journal.append(Record::Note(Note { at, text }))
    }

    /// Checks data that can be checked, and records the end of the study.
    fn finish(&mut self, ended: Result<Reason>) -> Result<()> {
        let ended = ended.and_then(|reason| self.check_data().map(|()| reason));
        let at = self.now();
        match ended {
            Ok(reason) => self.journal.append(Record::End(End { at, reason })),
            Err(Error::Interrupted) if !self.journal.records().is_empty() => {
                self.journal.append(Record::End(End { at, reason: Reason::Interrupted }))?;
                Err(Error::Interrupted)
            }
            Err(error) => {
                if !self.journal.records().is_empty() {
                    let text = format!("stopped by an error: {error}");
                    let _ = self.journal.append(Record::Note(Note { at, text })); // the first error is the one to tell
                }
                Err(error)
            }
        }
    }

    fn check_data(&mut self) -> Result<()> {
        let order = self.order;
        for schema in self.prepared.loads.schemas.iter().filter(|s| s.checkable) {
            // One setting per server is enough, as they share the load.
            for server in &schema.servers {
                let of = |s: &SettingDef| order.definition.server_of(s).name == *server;
                let place = order.definition.settings.iter().position(of).unwrap_or(0);
                self.fleet.start(&[place])?;
                let target = self.fleet.ready(place)?.target;
                self.bench.driver.command(
                    &schema.load,
                    &target,
                    "check",
                    &self.bench.interrupt,
                    &mut |_| {},
                )?;
                let text =
                    format!("the data of {} on {server} is consistent after the run", schema.load.schema);
                self.journal.append(Record::Note(Note { at: self.now(), text }))?;
            }
        }
        Ok(())
    }
}

fn last_moment(records: &[Record]) -> f64 {
    let moment = |record: &Record| match record {
        Record::Slice(slice) => slice.at + slice.seconds,
        Record::Note(note) => note.at,
        Record::End(end) => end.at,
        _ => 0.0,
    };
    records.iter().map(moment).fold(0.0, f64::max)
}

/// Returns a cell's number, from 1.
fn place_of(definition: &Definition, cell: &Cell) -> u64 {
    definition.cells().iter().position(|c| c == cell).map_or(0, |place| place as u64 + 1)
}

/// Returns the workload of a cell, which is always one of the study's.
fn workload_of<'a>(definition: &'a Definition, cell: &Cell) -> &'a WorkloadDef {
    let found = definition.workloads.iter().find(|w| w.name == cell.workload);
    found.unwrap_or(&definition.workloads[0])
}
