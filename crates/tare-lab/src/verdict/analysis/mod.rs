//! The results of a study, computed from its records alone, while it runs and afterwards.
//!
//! Slices are compared within their block (`comparison`), by their calm rounds and by the mean of all turns.
//! Where setting and base run in processes of their own, the layout of a process's memory makes it a little
//! faster or slower for its whole life. Blocks of the same two processes are then one observation: their
//! centre. The intervals of both figures stay valid however often they are computed while the study runs
//! ([`crate::sequential`]). The verdict rests on the calm rounds, unless the mean of all turns contradicts
//! them.

mod medians;
mod verdict;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::results::effort;
use crate::results::record::{
    Cell, CpuSource, End, Header, Measure, Note, Reason, Record, SettingFacts, Slice,
};
use crate::statistics::course::Estimate;
use crate::statistics::sequential::{Errors, Looks};
use crate::verdict::comparison::{ComparedMetric, Comparison};
use verdict::VerdictEvidence;

pub use crate::verdict::comparison::BlockCost;
pub use crate::verdict::difference::{Amount, Difference};
pub(crate) use medians::every_second;
pub use medians::{Medians, Seconds, THROUGHPUT};
pub use verdict::Verdict;

/// A study's results.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Analysis {
    /// The study, the machine and the settings.
    pub header: Header,
    /// Every workload at every number of connections, in the study's order.
    pub cells: Vec<CellAnalysis>,
    /// Remarks for the reader.
    pub notes: Vec<Note>,
    /// How the study ended; `None` while it runs and after a kill.
    pub end: Option<End>,
}

/// Results of a workload at a number of connections.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CellAnalysis {
    /// The workload and its connections.
    pub cell: Cell,
    /// Arrivals of transactions per second, where they come at a rate.
    pub rate: Option<f64>,
    /// All settings of this cell in the study's order, including those without a slice.
    pub settings: Vec<SettingAnalysis>,
}

/// Results of a setting under a workload.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SettingAnalysis {
    /// Name of the setting.
    pub name: String,
    /// Name of the setting it is compared with; its own if it is the base.
    pub base: String,
    /// Whether it is the A/A control: a copy of the base, whose difference is noise.
    pub control: bool,
    /// Number of blocks in which it was measured.
    pub blocks: usize,
    /// Number of independent observations behind its differences (see the module).
    pub units: usize,
    /// Medians over its slices; all NaN without slices.
    pub medians: Medians,
    /// Distribution of transactions per second over its seconds.
    pub seconds: Seconds,
    /// Means over its slices with standard errors, each slice taken as a run, by name: [`THROUGHPUT`] and the
    /// workload's own figures. Empty with fewer than two slices.
    pub runs: BTreeMap<String, Estimate>,
    /// Difference from the base in each block, in order; 0.01 is 1% more.
    pub blocks_cost: Vec<BlockCost>,
    /// Difference in the charge per transaction, by the study's measure: in calm rounds, or over whole slices
    /// where they do not take turns. It is precise for constant costs. `None` for the base itself.
    pub cost: Option<Difference>,
    /// The same difference as the mean of all turns, including the server's work between them. It leaves
    /// nothing out, so it includes occasional costs. `None` for the base itself.
    pub mean: Option<Difference>,
    /// Difference in transactions per second; -0.01 is 1% fewer.
    pub throughput: Option<Difference>,
    /// Difference in the 95th percentile of latency.
    pub p95: Option<Difference>,
    /// Difference in the server's resident memory, in bytes. `None` for the base itself, where setting and
    /// base share a process, and where a process ran before the study.
    pub memory: Option<Amount>,
    /// Verdict on the cost. `None` for the base itself, and before the first whole block.
    pub verdict: Option<Verdict>,
    /// Whether no more blocks are needed: the interval is as narrow as the study asks, or lies within the
    /// margin.
    pub reached: bool,
    /// Work of the server per transaction, by the names of [`crate::effort::FIGURES`]; counted over an
    /// unmeasured slice.
    pub effort: BTreeMap<String, f64>,
}

impl Analysis {
    /// Analyses the records of a study; `None` without a header. [`crate::journal::read`] reads those of a
    /// folder.
    ///
    /// # Examples
    ///
    /// ```
    /// use tare_lab::analysis::{Analysis, Verdict};
    /// use tare_lab::budget::{Budget, BudgetOutcome, outcome};
    /// use tare_lab::record::Record;
    ///
    /// # let setting = |name: &str| serde_json::json!({
    /// #     "name": name, "meaning": "", "server": "mariadb", "made_by": [], "base": "off",
    /// #     "control": name == "off again",
    /// # });
    /// # let settings = ["off", "off again", "on"].map(setting);
    /// # let header = serde_json::json!({
    /// #     "kind": "header", "format": 1, "tare": "0.1.0", "started": "2026-01-02T03:04:05Z", "study": "example",
    /// #     "question": "What does it cost?", "quick": false, "seed": 1, "slice_seconds": 1.0, "precision": 0.005,
    /// #     "margin": 0.01, "most_blocks": 20, "blocks_per_start": 20, "definition": "",
    /// #     "machine": {
    /// #         "cpu_model": "", "cpus": 2, "memory_bytes": 0, "kernel": "", "system": "", "hypervisor": null,
    /// #     },
    /// #     "servers": [], "settings": settings,
    /// #     "cells": [{ "workload": "reads", "users": 2 }],
    /// # });
    /// # let slice = |setting: &str, block: u32, cpu: f64| serde_json::json!({
    /// #     "kind": "slice", "workload": "reads", "users": 2, "setting": setting, "block": block, "turn": 0,
    /// #     "at": f64::from(block), "seconds": 1.0, "transactions": 1000, "queries": 16000, "errors": 0,
    /// #     "cpu_user": cpu, "cpu_system": 0.0, "cpu_sidecars": 0.0, "resident_bytes": 0, "context_switches": 0,
    /// #     "logged_bytes": 0, "steal": 0.0, "load": 2.0, "per_second": [1000.0],
    /// #     "latency": { "mean": 0.002, "p50": 0.002, "p95": 0.003, "p99": 0.004, "histogram": [] },
    /// # });
    /// // 20 blocks of a study. Its setting `on` takes 5% more CPU time per transaction than `off`.
    /// let mut lines = vec![header];
    /// for block in 0..20 {
    ///     let noise = 0.002 * f64::from(block % 5);
    ///     lines.push(slice("off", block, 1.0 + noise));
    ///     lines.push(slice("off again", block, 1.004 - noise / 2.0));
    ///     lines.push(slice("on", block, 1.05 + noise / 2.0));
    /// }
    /// let records: Vec<Record> = lines.into_iter().map(serde_json::from_value).collect::<Result<_, _>>()?;
    ///
    /// let analysis = Analysis::of(&records).expect("a header");
    /// let on = analysis.cells[0].setting("on").expect("a setting");
    /// assert!(matches!(on.verdict, Some(Verdict::Costs { .. })), "{on:?}");
    /// assert!((on.cost.expect("measured").share - 0.05).abs() < 0.01);
    ///
    /// let budget: Budget = "3%".parse()?;
    /// assert_eq!(outcome(&budget.judge(&analysis)), BudgetOutcome::Failed);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of(records: &[Record]) -> Option<Analysis> {
        let header = records.iter().find_map(|r| match r {
            Record::Header(header) => Some(header.as_ref().clone()),
            _ => None,
        })?;
        let mut slices: BTreeMap<(&Cell, &str), Vec<&Slice>> = BTreeMap::new();
        let (mut notes, mut end) = (vec![], None);
        for record in records {
            match record {
                Record::Slice(s) => slices.entry((&s.cell, s.setting.as_str())).or_default().push(s),
                Record::Note(note) => notes.push(note.clone()),
                Record::End(e) => end = Some(e.clone()),
                Record::Header(_)
                | Record::Maximum(_)
                | Record::Calls(_)
                | Record::Effort(_)
                | Record::Profile(_) => {}
            }
            // A study that continues after its end has not ended.
            if matches!(record, Record::Slice(_)) {
                end = None;
            }
        }
        let over = end.as_ref().is_some_and(|e: &End| e.reason == Reason::OutOfTime);
        let of_cell = |cell: &Cell| {
            let slices = |name: &str| slices.get(&(cell, name)).cloned().unwrap_or_default();
            let with_effort = |analysis: SettingAnalysis| {
                let effort = effort::last(records, cell, &analysis.name);
                SettingAnalysis {
                    effort: effort.map(|e| e.per_transaction.clone()).unwrap_or_default(),
                    ..analysis
                }
            };
            let each = |s: &SettingFacts| {
                let own = slices(&s.name);
                let control =
                    header.settings.iter().find(|t| t.control && t.base == s.base && t.name != s.name);
                let control = control.map(|t| slices(&t.name)).unwrap_or_default();
                let compared = Comparison::of(&own, &slices(&s.base), &control);
                let analysis = setting(&header, s, &own, &compared, false);
                // A setting that had enough before the last slices came keeps its analysis.
                if over && !analysis.reached { setting(&header, s, &own, &compared, true) } else { analysis }
            };
            let rate = records.iter().find_map(|r| match r {
                Record::Slice(slice) if slice.cell == *cell => slice.rate,
                _ => None,
            });
            CellAnalysis {
                cell: cell.clone(),
                rate,
                settings: header.settings_of(cell).map(each).map(with_effort).collect(),
            }
        };
        let cells = header.cells.iter().map(of_cell).collect();
        Some(Analysis { cells, header, notes, end })
    }

    /// Returns whether every setting of every cell has what the study asks for.
    pub fn reached(&self) -> bool {
        self.cells.iter().flat_map(|c| &c.settings).all(|s| s.reached)
    }
}

impl SettingAnalysis {
    /// Returns the difference that the verdict states: the mean of all turns if the cost comes in bursts or
    /// only the mean's interval reaches that far, else the difference in calm rounds.
    pub fn told(&self) -> Option<Difference> {
        match self.verdict? {
            Verdict::Costs { bursty: true, .. } => self.mean,
            Verdict::NoMoreThan { share } => {
                self.mean.filter(|m| m.interval.is_some_and(|(_, high)| high == share)).or(self.cost)
            }
            _ => self.cost,
        }
    }
}

impl CellAnalysis {
    /// Returns the setting of that name.
    pub fn setting(&self, name: &str) -> Option<&SettingAnalysis> {
        self.settings.iter().find(|s| s.name == name)
    }

    /// Returns the difference of the A/A control, which shows the size of noise.
    pub fn noise(&self) -> Option<Difference> {
        self.settings.iter().find(|s| s.control)?.cost
    }
}

/// Analyses one setting. `over`: the study's time is over and this is its last analysis.
fn setting(
    header: &Header,
    facts: &SettingFacts,
    own: &[&Slice],
    compared: &Comparison<'_>,
    over: bool,
) -> SettingAnalysis {
    let is_base = facts.name == facts.base;
    let most = most(header, compared.is_of_processes());
    let judged = |errors: Errors, units: &[f64]| {
        let looks = if over { Looks::until(errors, most, units.len()) } else { Looks::at_most(errors, most) };
        looks.judge(units).filter(|_| !is_base).map(|j| (j.value, j.interval.map(|e| (e.low, e.high))))
    };
    // Blocks on one server differ by symmetric noise. The bias of processes may be skewed.
    let errors = if compared.is_of_processes() { Errors::Skewed } else { Errors::Symmetric };
    let calm = |figure: ComparedMetric| {
        let (value, interval) = judged(errors, &compared.calm(figure))?;
        let interval = interval.map(|(low, high)| (low.exp_m1(), high.exp_m1()));
        Some(Difference { share: value.exp_m1(), interval })
    };
    let mean = judged(Errors::Skewed, &compared.mean(header.measure));
    let mean = mean.map(|(share, interval)| Difference { share, interval });
    let charged = ComparedMetric::Charge(header.measure);
    let cost = calm(charged);
    let units = compared.calm(charged).len();
    let evidence = cost.zip(mean).map(|(calm, mean)| VerdictEvidence { calm, mean });
    SettingAnalysis {
        name: facts.name.clone(),
        base: facts.base.clone(),
        control: facts.control,
        blocks: own.len(),
        units,
        medians: Medians::of(own, header.measure, processors(header, facts)),
        seconds: Seconds::of(own),
        runs: medians::of_runs(own),
        blocks_cost: compared.blocks(header.measure),
        throughput: calm(ComparedMetric::Throughput),
        p95: calm(ComparedMetric::Charge(Measure::P95)),
        memory: judged(Errors::Skewed, &compared.memory())
            .map(|(value, interval)| Amount { value, interval }),
        verdict: evidence.map(|e| e.verdict(header, units, seconds_of(own))),
        reached: is_base || evidence.is_some_and(|e| e.is_enough(header, facts)),
        effort: BTreeMap::new(),
        cost,
        mean,
    }
}

/// Returns the number of this machine's processors, if the setting's server is a process here.
fn processors(header: &Header, facts: &SettingFacts) -> Option<f64> {
    let server = header.servers.iter().find(|s| s.name == facts.server);
    let is_here = server.is_none_or(|s| s.cpu == CpuSource::Process);
    Some(f64::from(header.machine.cpus)).filter(|n| is_here && *n > 0.0)
}

/// Returns the highest possible number of observations.
fn most(header: &Header, of_processes: bool) -> usize {
    let blocks = header.most_blocks;
    (if of_processes { blocks.div_ceil(header.blocks_per_start.max(1)) } else { blocks }) as usize
}

/// Returns the seconds from the first slice's start to the last one's end.
fn seconds_of(slices: &[&Slice]) -> f64 {
    let first = slices.iter().map(|s| s.at).fold(f64::INFINITY, f64::min);
    let last = slices.iter().map(|s| s.at + s.seconds).fold(0.0, f64::max);
    (last - first).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::record::{Latency, Machine, Turn};
    use crate::verdict::budget::Budget;
    use crate::verdict::budget::BudgetOutcome;

    const PRECISION: f64 = 0.005;
    const MARGIN: f64 = 0.01;

    fn header(blocks_per_start: u32) -> Header {
        let facts = |name: &str, control| SettingFacts {
            name: name.into(),
            meaning: String::new(),
            server: "s".into(),
            made_by: vec![],
            base: "off".into(),
            control,
        };
        Header {
            format: crate::results::record::FORMAT,
            tare: "0".into(),
            started: String::new(),
            study: "test".into(),
            question: String::new(),
            quick: false,
            seed: 1,
            slice_seconds: 1.0,
            turn_milliseconds: 100,
            precision: PRECISION,
            margin: MARGIN,
            measure: Measure::Cpu,
            budget: None,
            driver: None,
            most_blocks: 20,
            blocks_per_start,
            definition: String::new(),
            machine: Machine::default(),
            servers: vec![],
            files: BTreeMap::new(),
            settings: vec![facts("off", false), facts("off again", true), facts("on", false)],
            cells: vec![cell()],
            only: BTreeMap::new(),
        }
    }

    fn cell() -> Cell {
        Cell { workload: "w".into(), users: 2, percent: None }
    }

    fn slice(setting: &str, block: u32, process: Option<u32>, cpu: f64) -> Record {
        Record::Slice(Box::new(Slice {
            cell: cell(),
            setting: setting.into(),
            block,
            turn: 0,
            turns: vec![],
            process,
            at: f64::from(block) * 60.0,
            seconds: 60.0,
            rate: None,
            transactions: 1000,
            queries: 1000,
            errors: 0,
            cpu_user: cpu,
            cpu_system: 0.0,
            cpu_sidecars: 0.0,
            cpu_beside: 0.0,
            resident_sidecars: 0,
            resident_bytes: 0,
            context_switches: 0,
            logged_bytes: 0,
            steal: 0.0,
            load: 0.0,
            latency: Latency::default(),
            per_second: vec![],
            scrapes: vec![],
            figures: BTreeMap::new(),
        }))
    }

    /// Makes records of a machine that slows down all the time; `on` costs `cost` more, with noise up to
    /// `noise`.
    fn study(blocks: u32, cost: f64, noise: f64, processes: impl Fn(u32) -> Option<u32>) -> Vec<Record> {
        let mut records = vec![Record::Header(Box::new(header(2)))];
        for block in 0..blocks {
            let base = 10.0 + f64::from(block);
            let wave = noise * (f64::from(block * 7 % 11) - 5.0) / 5.0;
            let process = |n| processes(block).map(|p| p * 3 + n);
            records.push(slice("off", block, process(0), base));
            records.push(slice("off again", block, process(1), base * (1.0 + wave / 4.0)));
            records.push(slice("on", block, process(2), base * (1.0 + cost + wave)));
        }
        records
    }

    fn on(records: &[Record]) -> SettingAnalysis {
        Analysis::of(records).expect("a header").cells[0].setting("on").expect("on").clone()
    }

    #[test]
    fn turns_are_compared_round_by_round_and_a_wild_one_is_nothing() {
        let with = |setting: &str, cpu: [f64; 5]| match slice(setting, 0, None, 1.0) {
            Record::Slice(s) => {
                let turns = cpu.map(|cpu| Turn { cpu, after: 0.0, seconds: 0.1, queries: 100 });
                Record::Slice(Box::new(Slice { turns: turns.into(), ..*s }))
            }
            other => other,
        };
        // The machine slows down from round to round; in one of them something else ran.
        let records = [
            Record::Header(Box::new(header(1))),
            with("off", [1.0, 2.0, 3.0, 4.0, 5.0]),
            with("on", [1.1, 2.2, 3.3, 9.0, 5.5]),
        ];
        let analysis = Analysis::of(&records).expect("a header");
        let cost = analysis.cells[0].setting("on").expect("on").blocks_cost[0].share;
        assert!((cost - 0.1).abs() < 1e-9, "{cost}");
    }

    #[test]
    fn calm_rounds_are_told_from_the_others_and_favour_neither() {
        // A neighbour slows down every other turn of either setting, by up to two thirds.
        let mut random = fastrand::Rng::with_seed(3);
        let mut turns = |cost: f64| -> Vec<Turn> {
            let turn = |random: &mut fastrand::Rng| {
                let noise = if random.bool() { random.f64() * 2.0 / 3.0 } else { random.f64() / 100.0 };
                Turn { cpu: (1.0 + cost) * (1.0 + noise), after: 0.0, seconds: 0.025, queries: 100 }
            };
            (0..40).map(|_| turn(&mut random)).collect()
        };
        let mut records = vec![Record::Header(Box::new(header(1)))];
        for block in 0..20 {
            for (setting, cost) in [("off", 0.0), ("off again", 0.0), ("on", 0.01)] {
                let Record::Slice(whole) = slice(setting, block, None, 1.0) else { unreachable!("a slice") };
                records.push(Record::Slice(Box::new(Slice { turns: turns(cost), ..*whole })));
            }
        }
        let analysis = Analysis::of(&records).expect("a header");
        for (setting, cost) in [("off again", 0.0), ("on", 0.01)] {
            let found = analysis.cells[0].setting(setting).and_then(|s| s.cost).expect("a cost");
            let (low, high) = found.interval.expect("20 blocks");
            assert!((low..=high).contains(&cost) && high - low < 0.008, "{setting}: {low} to {high}");
        }
    }

    #[test]
    fn a_cost_is_found_on_a_machine_that_drifts() {
        let on = on(&study(20, 0.10, 0.01, |_| None));
        let Some(Verdict::Costs { share, plus_minus, bursty: false }) = on.verdict else {
            panic!("{:?}", on.verdict)
        };
        assert!((share - 0.10).abs() < 0.003 && plus_minus < 0.01, "{share} ± {plus_minus}");
        assert_eq!((on.blocks, on.units), (20, 20));
        assert!(on.throughput.is_some_and(|t| t.share.abs() < 1e-9));
    }

    #[test]
    fn no_difference_is_bounded_by_the_margin() {
        let records = study(20, 0.0, 0.004, |_| None);
        let on = on(&records);
        let Some(Verdict::NoMoreThan { share }) = on.verdict else { panic!("{:?}", on.verdict) };
        assert!(share > 0.0 && share < MARGIN && on.reached, "{share}");
        assert!(Analysis::of(&records).expect("a header").reached());
    }

    #[test]
    fn what_is_not_clear_says_how_long_it_would_take() {
        let on = on(&study(12, 0.004, 0.08, |_| None));
        let Some(Verdict::Inconclusive { needs_minutes: Some(n) }) = on.verdict else {
            panic!("{:?}", on.verdict)
        };
        assert!(n > 12.0 && !on.reached, "{n}");
    }

    #[test]
    fn too_few_blocks_have_no_interval() {
        let on = on(&study(4, 0.10, 0.01, |_| None));
        assert_eq!(on.cost.expect("an estimate").interval, None);
        assert_eq!(on.verdict, Some(Verdict::Inconclusive { needs_minutes: None }));
    }

    #[test]
    fn with_a_budget_enough_is_known_when_it_is_judged() {
        let mut records = study(12, 0.10, 0.04, |_| None);
        assert!(!on(&records).reached, "not as precise as the study asks");
        for (budget, outcome) in
            [("3%", BudgetOutcome::Failed), ("10%", BudgetOutcome::Unknown), ("20%", BudgetOutcome::Passed)]
        {
            let Record::Header(header) = &mut records[0] else { panic!("the header comes first") };
            let budget: Budget = budget.parse().expect("a budget");
            header.budget = Some(budget);
            let analysis = Analysis::of(&records).expect("a header");
            let judged = budget.judge(&analysis);
            assert_eq!((judged.len(), judged[0].setting.as_str()), (1, "on"), "no base and no A/A control");
            assert_eq!(
                (judged[0].outcome, on(&records).reached),
                (outcome, outcome != BudgetOutcome::Unknown)
            );
            assert_eq!(
                analysis.reached(),
                outcome != BudgetOutcome::Unknown,
                "the A/A control is not waited for"
            );
        }
    }

    #[test]
    fn a_study_out_of_time_says_more_than_one_that_goes_on() {
        let mut records = study(12, 0.0, 0.02, |_| None);
        let width = |records: &[Record]| on(records).cost.and_then(|c| c.plus_minus()).expect("an interval");
        let before = width(&records);
        records.push(Record::End(End { at: 800.0, reason: Reason::OutOfTime }));
        assert!(width(&records) < before);
    }

    #[test]
    fn blocks_of_the_same_two_processes_are_one_observation() {
        assert_eq!(on(&study(20, 0.1, 0.01, |block| Some(block / 2))).units, 10);
    }

    /// The base is a running server that is never restarted; each start of the setting's server is an
    /// observation.
    #[test]
    fn a_server_that_runs_is_compared_with_the_starts_of_another_one() {
        let mut records = study(20, 0.1, 0.01, |block| Some(block / 2));
        for record in &mut records {
            let Record::Slice(slice) = record else { continue };
            slice.resident_bytes = 1 << 30;
            slice.process = slice.process.filter(|_| slice.setting != "on");
        }
        let analysis = Analysis::of(&records).expect("a header");
        let [control, on] =
            ["off again", "on"].map(|name| analysis.cells[0].setting(name).expect("it is there"));
        assert_eq!((on.blocks, on.units, control.units), (20, 10, 10));
        assert!(on.memory.is_none() && control.memory.is_some(), "what it holds came before the study");
    }

    #[test]
    fn a_workload_of_one_server_is_about_its_settings_only() {
        let mut records = study(20, 0.1, 0.01, |_| None);
        let Record::Header(header) = &mut records[0] else { panic!("the header comes first") };
        header.only = BTreeMap::from([("w".to_owned(), "s".to_owned())]);
        let other =
            SettingFacts { name: "elsewhere".into(), server: "t".into(), ..header.settings[0].clone() };
        header.settings.push(other);
        let analysis = Analysis::of(&records).expect("a header");
        assert!(analysis.cells[0].setting("elsewhere").is_none());
        assert!(analysis.cells[0].setting("on").is_some());
    }

    #[test]
    fn a_base_that_was_cut_off_pairs_with_nothing() {
        let mut records = study(5, 0.1, 0.01, |_| None);
        records.push(slice("on", 5, None, 10.0));
        let on = on(&records);
        assert_eq!((on.blocks, on.units, on.blocks_cost.len()), (6, 5, 5));
    }
}
