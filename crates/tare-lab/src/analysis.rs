//! What the records of a study say: computed from them alone, while it runs and afterwards.
//!
//! Slices are compared within their block, as logarithms of ratios; those taken in turns round by round, by the calm ones.
//! Where setting and base ran in processes of their own, where a process's memory came to lie makes it a little faster or
//! slower for as long as it lives; blocks of the same two processes are then one observation ([`unit`](self)), their centre.
//! Verdicts come from one interval ([`crate::sequential`]), valid however often this is computed while the study runs.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::record::{Cell, End, Header, Measure, Note, Reason, Record, SettingFacts, Slice};
use crate::sequential::{Looks, centre};
use crate::statistics::median;

/// What a cost may be uncertain by, as a share of itself, when that is more than the study's precision.
const RELATIVE_PRECISION: f64 = 0.05;
/// Of a block's rounds, one in so many is calm enough to be compared by.
const CALM: usize = 4;
/// Turns of a slice without which its sums say more, and the fewest rounds to compare by.
const LEAST_TURNS: usize = 3;

/// A study's results.
#[derive(Clone, Debug, Serialize)]
pub struct Analysis {
    /// What was measured, on what.
    pub header: Header,
    /// Every workload at every number of connections, in the study's order.
    pub cells: Vec<CellAnalysis>,
    /// What a reader should know.
    pub notes: Vec<Note>,
    /// How it ended; `None` while it runs and after a kill.
    pub end: Option<End>,
}

/// A workload at a number of connections.
#[derive(Clone, Debug, Serialize)]
pub struct CellAnalysis {
    /// Which.
    pub cell: Cell,
    /// Every setting it is about, in the study's order, those without a slice included.
    pub settings: Vec<SettingAnalysis>,
}

/// A setting under a workload.
#[derive(Clone, Debug, Serialize)]
pub struct SettingAnalysis {
    /// Its name.
    pub name: String,
    /// What it is compared with; its own name if it is the base.
    pub base: String,
    /// Whether it is the base's twin: its difference is noise.
    pub twin: bool,
    /// Blocks in which it was measured.
    pub blocks: usize,
    /// Independent observations that its differences rest on (see the module).
    pub units: usize,
    /// Medians over its slices; all NaN without any.
    pub medians: Medians,
    /// How each block's charge differs from the base's in the same block, in order; 0.01 is 1% more.
    pub blocks_cost: Vec<BlockCost>,
    /// What a transaction is charged more than in the base, by the study's measure. `None` for the base itself.
    pub cost: Option<Difference>,
    /// How transactions per second differ; -0.01 is 1% fewer.
    pub throughput: Option<Difference>,
    /// How the 95th percentile of latency differs.
    pub p95: Option<Difference>,
    /// What can be said of the cost. `None` for the base itself, and before the first whole block.
    pub verdict: Option<Verdict>,
    /// Whether more blocks are not wanted: the interval is as narrow as the study asks, or lies within the margin.
    pub reached: bool,
}

/// One block's difference.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct BlockCost {
    /// The block.
    pub block: u32,
    /// When its slice began, in seconds since the study began.
    pub at: f64,
    /// Charge over the base's, less one.
    pub share: f64,
}

/// Medians over the slices of a setting. Times are seconds.
#[derive(Clone, Debug, Serialize)]
pub struct Medians {
    /// What a transaction is charged with, by the study's measure.
    pub charged: f64,
    /// Server CPU per transaction.
    pub cpu: f64,
    /// Of it in the kernel.
    pub cpu_system: f64,
    /// CPU of the sidecars per transaction.
    pub cpu_sidecars: f64,
    /// Transactions per second.
    pub tps: f64,
    /// Statements per second.
    pub qps: f64,
    /// Mean latency.
    pub latency: f64,
    /// Half of the transactions take at most this.
    pub p50: f64,
    /// 95 of 100 take at most this.
    pub p95: f64,
    /// 99 of 100 take at most this.
    pub p99: f64,
    /// Resident memory of the server, bytes.
    pub resident_bytes: f64,
    /// Context switches per transaction.
    pub context_switches: f64,
    /// Bytes logged per second.
    pub logged_bytes: f64,
    /// Share of the machine's time given to others by its hypervisor.
    pub steal: f64,
    /// Errors per second.
    pub errors: f64,
    /// Figures the workload reports of itself.
    pub figures: BTreeMap<String, f64>,
}

/// A relative difference from the base: 0.01 is 1% more.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Hodges and Lehmann's estimate.
    pub share: f64,
    /// The range it lies in with 95% confidence, lower end and upper; `None` while there is too little to say.
    pub interval: Option<(f64, f64)>,
}

impl Difference {
    /// Half the width of the interval.
    pub fn plus_minus(&self) -> Option<f64> {
        self.interval.map(|(low, high)| (high - low) / 2.0)
    }
}

/// What can be said of a cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// It differs from the base by more than noise explains: *costs X% ± Y* (a negative share is a gain).
    Costs {
        /// The cost; 0.01 is 1%.
        share: f64,
        /// Half the width of its interval.
        plus_minus: f64,
    },
    /// It is equivalent to the base within the margin: *no more than X%*.
    NoMoreThan {
        /// The upper end of the interval.
        share: f64,
    },
    /// *inconclusive: needs about N more minutes*.
    Inconclusive {
        /// Minutes of the same study until one of the others can be expected; `None` when that cannot be told yet.
        needs_minutes: Option<f64>,
    },
}

impl Analysis {
    /// Of the records of a study; `None` without a header.
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
                Record::Header(_) | Record::Calls(_) | Record::Profile(_) => {}
            }
            // A study that goes on after its end has not ended.
            if matches!(record, Record::Slice(_)) {
                end = None;
            }
        }
        let over = end.as_ref().is_some_and(|e: &End| e.reason == Reason::OutOfTime);
        let of_cell = |cell: &Cell| {
            let slices = |name: &str| slices.get(&(cell, name)).cloned().unwrap_or_default();
            let each = |s: &SettingFacts| {
                let (own, base) = (slices(&s.name), slices(&s.base));
                let analysis = setting(&header, s, &own, &base, false);
                // What had been reached before was ended by what was seen; it stays as it was.
                if over && !analysis.reached { setting(&header, s, &own, &base, true) } else { analysis }
            };
            CellAnalysis { cell: cell.clone(), settings: header.settings_of(cell).map(each).collect() }
        };
        let cells = header.cells.iter().map(of_cell).collect();
        Some(Analysis { cells, header, notes, end })
    }

    /// Whether every setting of every cell has what the study asks for.
    pub fn reached(&self) -> bool {
        self.cells.iter().flat_map(|c| &c.settings).all(|s| s.reached)
    }
}

impl CellAnalysis {
    /// A setting by name.
    pub fn setting(&self, name: &str) -> Option<&SettingAnalysis> {
        self.settings.iter().find(|s| s.name == name)
    }

    /// The twin's difference: what noise looks like here.
    pub fn noise(&self) -> Option<Difference> {
        self.settings.iter().find(|s| s.twin)?.cost
    }
}

/// `over`: the study's time is, and this look is the last.
fn setting(
    header: &Header,
    facts: &SettingFacts,
    own: &[&Slice],
    base: &[&Slice],
    over: bool,
) -> SettingAnalysis {
    let pairs = pairs(own, base);
    let is_base = facts.name == facts.base;
    let difference = |figure: Figure| {
        let units = units(&pairs, figure);
        let most = most(header, shared(&pairs));
        let looks = if over { Looks::until(most, units.len()) } else { Looks::at_most(most) };
        difference(&looks, &units).filter(|_| !is_base)
    };
    let charged = Figure::Charge(header.measure);
    let cost = difference(charged);
    let units = units(&pairs, charged);
    SettingAnalysis {
        name: facts.name.clone(),
        base: facts.base.clone(),
        twin: facts.twin,
        blocks: own.len(),
        units: units.len(),
        medians: Medians::of(own, header.measure),
        blocks_cost: pairs.iter().map(|p| p.cost(header.measure)).collect(),
        throughput: difference(Figure::Throughput),
        p95: difference(Figure::Charge(Measure::P95)),
        verdict: cost.map(|c| verdict(header, c, units.len(), seconds_of(own))),
        reached: is_base || cost.is_some_and(|c| reached(header, c)),
        cost,
    }
}

/// A slice and the base's of the same block.
#[derive(Clone, Copy, Debug)]
struct Pair<'a> {
    own: &'a Slice,
    base: &'a Slice,
}

/// What two slices are compared by.
#[derive(Clone, Copy, Debug)]
enum Figure {
    /// What a transaction is charged with.
    Charge(Measure),
    /// Transactions per second.
    Throughput,
}

impl Pair<'_> {
    fn log_ratio(&self, figure: Figure) -> f64 {
        match figure {
            Figure::Charge(measure) => self.by_turns(measure).unwrap_or_else(|| {
                // Of sums, where there are no turns.
                (self.own.charged(measure) / self.base.charged(measure)).ln()
            }),
            Figure::Throughput => -self.log_ratio(Figure::Charge(Measure::Time)),
        }
    }

    /// The median over the calm rounds: those in which setting and base together were charged least. The machine takes turns
    /// at its own pace, and what it does beside costs some of them much more; both count alike in the choice, so that it
    /// favours neither.
    fn by_turns(&self, measure: Measure) -> Option<f64> {
        let rounds = self.own.turns.iter().zip(&self.base.turns);
        let charges = rounds.map(|(own, base)| (own.charged(measure).ln(), base.charged(measure).ln()));
        let mut charges: Vec<(f64, f64)> = charges.filter(|(own, base)| (own + base).is_finite()).collect();
        charges.sort_by(|one, other| (one.0 + one.1).total_cmp(&(other.0 + other.1)));
        let calm = charges.get(..LEAST_TURNS.max(charges.len() / CALM))?;
        Some(median(&calm.iter().map(|(own, base)| own - base).collect::<Vec<_>>()))
    }

    fn cost(&self, measure: Measure) -> BlockCost {
        let share = self.log_ratio(Figure::Charge(measure)).exp_m1();
        BlockCost { block: self.own.block, at: self.own.at, share }
    }

    /// The two processes that measured it; `None` when it was one, or when they are not ours to start anew.
    fn processes(&self) -> Option<(u32, u32)> {
        self.own.process.zip(self.base.process).filter(|(own, base)| own != base)
    }
}

fn pairs<'a>(own: &[&'a Slice], base: &[&'a Slice]) -> Vec<Pair<'a>> {
    let base: BTreeMap<u32, &Slice> = base.iter().map(|s| (s.block, *s)).collect();
    let mut pairs: Vec<Pair<'_>> =
        own.iter().filter_map(|own| Some(Pair { own, base: base.get(&own.block)? })).collect();
    pairs.sort_by_key(|p| p.own.block);
    pairs
}

/// Whether blocks share processes, so that several make one observation.
fn shared(pairs: &[Pair<'_>]) -> bool {
    pairs.iter().any(|p| p.processes().is_some())
}

/// Log ratios of a figure, one per independent observation. What is not finite (nothing done) says nothing.
fn units(pairs: &[Pair<'_>], figure: Figure) -> Vec<f64> {
    let mut of_processes: BTreeMap<(u32, u32), Vec<f64>> = BTreeMap::new();
    let mut units = vec![];
    for pair in pairs {
        let ratio = pair.log_ratio(figure);
        match pair.processes() {
            _ if !ratio.is_finite() => {}
            Some(processes) => of_processes.entry(processes).or_default().push(ratio),
            None => units.push(ratio),
        }
    }
    units.extend(of_processes.values().map(|ratios| centre(ratios)));
    units
}

fn difference(looks: &Looks, units: &[f64]) -> Option<Difference> {
    let judged = looks.judge(units)?;
    let interval = judged.interval.map(|e| (e.low.exp_m1(), e.high.exp_m1()));
    Some(Difference { share: judged.value.exp_m1(), interval })
}

/// Observations there can be.
fn most(header: &Header, shared: bool) -> usize {
    let blocks = header.most_blocks;
    (if shared { blocks.div_ceil(header.blocks_per_start.max(1)) } else { blocks }) as usize
}

fn verdict(header: &Header, cost: Difference, units: usize, seconds: f64) -> Verdict {
    let Some((low, high)) = cost.interval else {
        return Verdict::Inconclusive { needs_minutes: None };
    };
    let plus_minus = (high - low) / 2.0;
    if low > 0.0 || high < 0.0 {
        return Verdict::Costs { share: cost.share, plus_minus };
    }
    if low > -header.margin && high < header.margin {
        return Verdict::NoMoreThan { share: high };
    }
    // The interval narrows with the root of the observations; the nearer of the other two verdicts is waited for.
    let wanted = cost.share.abs().max(header.margin - cost.share.abs());
    #[allow(clippy::cast_precision_loss)] // few
    let more = units as f64 * ((plus_minus / wanted).powi(2) - 1.0).max(0.0);
    #[allow(clippy::cast_precision_loss)]
    let per_unit = seconds / units as f64 / 60.0;
    Verdict::Inconclusive { needs_minutes: Some(more * per_unit) }
}

fn reached(header: &Header, cost: Difference) -> bool {
    let Some((low, high)) = cost.interval else { return false };
    let precise = (high - low) / 2.0 <= header.precision.max(RELATIVE_PRECISION * cost.share.abs());
    let equivalent = low > -header.margin && high < header.margin;
    precise || equivalent
}

/// How long the study has been at it: from the first slice's beginning to the last's end.
fn seconds_of(slices: &[&Slice]) -> f64 {
    let first = slices.iter().map(|s| s.at).fold(f64::INFINITY, f64::min);
    let last = slices.iter().map(|s| s.at + s.seconds).fold(0.0, f64::max);
    (last - first).max(0.0)
}

impl Medians {
    #[allow(clippy::cast_precision_loss)] // counts of a slice are far below 2^53
    fn of(slices: &[&Slice], measure: Measure) -> Medians {
        let over =
            |figure: &dyn Fn(&Slice) -> f64| median(&slices.iter().map(|s| figure(s)).collect::<Vec<_>>());
        let figures: std::collections::BTreeSet<&String> =
            slices.iter().flat_map(|s| s.figures.keys()).collect();
        let figure = |name: &String| {
            let values: Vec<f64> = slices.iter().filter_map(|s| s.figures.get(name).copied()).collect();
            (name.clone(), median(&values))
        };
        Medians {
            charged: over(&|s| s.charged(measure)),
            cpu: over(&|s| s.per_transaction(s.cpu_user + s.cpu_system)),
            cpu_system: over(&|s| s.per_transaction(s.cpu_system)),
            cpu_sidecars: over(&|s| s.per_transaction(s.cpu_sidecars)),
            tps: over(&|s| s.transactions as f64 / s.seconds),
            qps: over(&|s| s.queries as f64 / s.seconds),
            latency: over(&|s| s.latency.mean),
            p50: over(&|s| s.latency.p50),
            p95: over(&|s| s.latency.p95),
            p99: over(&|s| s.latency.p99),
            resident_bytes: over(&|s| s.resident_bytes as f64),
            context_switches: over(&|s| s.per_transaction(s.context_switches as f64)),
            logged_bytes: over(&|s| s.logged_bytes as f64 / s.seconds),
            steal: over(&|s| s.steal),
            errors: over(&|s| s.errors as f64 / s.seconds),
            figures: figures.into_iter().map(figure).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Latency, Machine, Turn};

    const PRECISION: f64 = 0.005;
    const MARGIN: f64 = 0.01;

    fn header(blocks_per_start: u32) -> Header {
        let facts = |name: &str, twin| SettingFacts {
            name: name.into(),
            meaning: String::new(),
            server: "s".into(),
            made_by: vec![],
            base: "off".into(),
            twin,
        };
        Header {
            format: crate::record::FORMAT,
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
            most_blocks: 20,
            blocks_per_start,
            definition: String::new(),
            machine: Machine::default(),
            servers: vec![],
            settings: vec![facts("off", false), facts("off again", true), facts("on", false)],
            cells: vec![cell()],
            only: BTreeMap::new(),
        }
    }

    fn cell() -> Cell {
        Cell { workload: "w".into(), users: 2 }
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
            transactions: 1000,
            queries: 1000,
            errors: 0,
            cpu_user: cpu,
            cpu_system: 0.0,
            cpu_sidecars: 0.0,
            resident_bytes: 0,
            context_switches: 0,
            logged_bytes: 0,
            steal: 0.0,
            load: 0.0,
            latency: Latency::default(),
            per_second: vec![],
            figures: BTreeMap::new(),
        }))
    }

    /// A machine that gets slower all the time; `on` costs `cost` more, give or take `noise` by turns.
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
                let turns = cpu.map(|cpu| Turn { cpu, seconds: 0.1, queries: 100 });
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
        // A neighbour costs every other turn, of either setting, between nothing and two thirds.
        let mut random = fastrand::Rng::with_seed(3);
        let mut turns = |cost: f64| -> Vec<Turn> {
            let turn = |random: &mut fastrand::Rng| {
                let noise = if random.bool() { random.f64() * 2.0 / 3.0 } else { random.f64() / 100.0 };
                Turn { cpu: (1.0 + cost) * (1.0 + noise), seconds: 0.025, queries: 100 }
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
        let Some(Verdict::Costs { share, plus_minus }) = on.verdict else { panic!("{:?}", on.verdict) };
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
