//! Verdicts in words, the same in the page, in the terminal and in the files.
//!
//! They never claim more than the interval says. An interval that starts near 0 may mean a negligible cost,
//! so it is not called one. Near is the reach of the A/A control's interval in the same cell; and within the
//! margin, half of the interval's own width.

use super::{measured, unit};
use crate::machine::MOST_STOLEN;
use crate::results::record::{CpuSource, Header, Measure, SettingFacts};
use crate::statistics::median;
use crate::verdict::analysis::{Analysis, CellAnalysis, Difference, SettingAnalysis, Verdict};

/// Medians that differ by less than this share do not contradict anything.
const SEEN: f64 = 0.005;

/// The claim about a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It costs.
    Costs,
    /// It saves.
    Saves,
    /// It costs something, which may be negligible.
    MayCost,
    /// It saves something, which may be negligible.
    MaySave,
    /// It is equivalent to the base within the margin.
    Equal,
    /// There is no result yet.
    Unclear,
}

impl Claim {
    /// Returns a word for it: a class of the page's style sheet, and a value in the files.
    pub fn word(self) -> &'static str {
        match self {
            Claim::Costs => "costs",
            Claim::Saves => "gains",
            Claim::MayCost => "may-cost",
            Claim::MaySave => "may-gain",
            Claim::Equal => "equal",
            Claim::Unclear => "unclear",
        }
    }

    /// Returns a symbol for it, because colour alone is not accessible.
    pub(super) fn sign(self) -> &'static str {
        match self {
            Claim::Costs => "▲",
            Claim::Saves => "▼",
            Claim::MayCost => "△",
            Claim::MaySave => "▽",
            Claim::Equal => "≈",
            Claim::Unclear => "?",
        }
    }

    /// Returns the claim for several cells: the worst of them.
    pub(super) fn worst(claims: impl IntoIterator<Item = Claim>) -> Claim {
        const ORDER: [Claim; 6] =
            [Claim::Costs, Claim::MayCost, Claim::Unclear, Claim::Saves, Claim::MaySave, Claim::Equal];
        let place = |claim: &Claim| ORDER.iter().position(|c| c == claim);
        claims.into_iter().min_by_key(place).unwrap_or(Claim::Unclear)
    }
}

/// A verdict in words. `Display` prints all of it.
#[derive(Clone, Debug, PartialEq)]
pub struct VerdictWording {
    /// The claim.
    pub claim: Claim,
    /// The verdict without the interval.
    pub words: String,
    /// A short form for a column.
    pub short: String,
    /// The interval to add: `2.7% to 3.5%`.
    pub interval: Option<String>,
    /// The difference that it states.
    cost: Option<Difference>,
    /// Upper bound of the difference.
    far: f64,
    /// Whether the cost comes in bursts.
    bursty: bool,
}

impl std::fmt::Display for VerdictWording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.words)?;
        self.interval.as_ref().map_or(Ok(()), |interval| write!(f, " ({interval})"))
    }
}

/// Words the verdict on a setting of a cell; `None` for a base, and before the first whole block.
pub fn said(header: &Header, cell: &CellAnalysis, setting: &SettingAnalysis) -> Option<VerdictWording> {
    let verdict = setting.verdict?;
    let cost = setting.told();
    Some(match verdict {
        Verdict::Costs { bursty, .. } => {
            let said = excluded(cost?, near(header, cell, setting, cost?));
            let how = if bursty { ", bursty" } else { "" };
            VerdictWording { words: said.words + how, short: said.short + how, bursty, ..said }
        }
        Verdict::NoMoreThan { share } => {
            let words = format!("no more than {}", unit::percent(share.max(0.0), Some(share.max(0.0))));
            VerdictWording {
                claim: Claim::Equal,
                short: words.clone(),
                words,
                interval: None,
                cost,
                far: share.max(0.0),
                bursty: false,
            }
        }
        Verdict::Inconclusive { needs_minutes } => {
            let needed = needs_minutes.map(|minutes| unit::estimated_span(minutes.max(1.0) * 60.0));
            let (words, short) = needed.map_or(("too few blocks".into(), "too few blocks".into()), |span| {
                (format!("needs about {span} more"), format!("{span} more"))
            });
            let [words, short] = [words, short].map(|why| format!("inconclusive: {why}"));
            VerdictWording {
                claim: Claim::Unclear,
                words,
                short,
                interval: None,
                cost,
                far: f64::NAN,
                bursty: false,
            }
        }
    })
}

/// Words a difference whose interval excludes 0. If it starts closer to 0 than `near`, it is not called a
/// cost.
fn excluded(cost: Difference, near: f64) -> VerdictWording {
    let (low, high) = cost.interval.unwrap_or((cost.share, cost.share));
    let saves = high < 0.0;
    let (from, to) = if saves { (-high, -low) } else { (low, high) };
    let shown = |share: f64| unit::percent(share, cost.plus_minus());
    let (claim, words) = match (saves, from < near) {
        (false, false) => (Claim::Costs, format!("costs {}", shown(cost.share))),
        (true, false) => (Claim::Saves, format!("saves {}", shown(cost.share))),
        (false, true) => (Claim::MayCost, format!("may cost up to {}", shown(to))),
        (true, true) => (Claim::MaySave, format!("may save up to {}", shown(to))),
    };
    let interval = Some(format!("{} to {}", shown(from), shown(to)));
    VerdictWording { claim, short: words.clone(), words, interval, cost: Some(cost), far: to, bursty: false }
}

/// Returns the distance from 0 that counts as near (see the module). The A/A control itself is judged by the
/// margin alone.
fn near(header: &Header, cell: &CellAnalysis, setting: &SettingAnalysis, cost: Difference) -> f64 {
    let bursty = matches!(setting.verdict, Some(Verdict::Costs { bursty: true, .. }));
    let controls = cell.settings.iter().filter(|s| s.control && !setting.control);
    let noise = controls.filter_map(|s| if bursty { reach_of(s.mean) } else { reach(s) });
    noise.fold(cost.plus_minus().map_or(0.0, |half| half.min(header.margin)), f64::max)
}

/// Returns how far a setting's interval reaches from 0.
pub(super) fn reach(setting: &SettingAnalysis) -> Option<f64> {
    reach_of(setting.cost)
}

fn reach_of(difference: Option<Difference>) -> Option<f64> {
    difference?.interval.map(|(low, high)| low.abs().max(high.abs()))
}

/// Words the verdicts on a setting in every cell that has one.
pub(super) fn everywhere(analysis: &Analysis, name: &str) -> Vec<VerdictWording> {
    let cells = analysis.cells.iter();
    cells.filter_map(|cell| said(&analysis.header, cell, measured(cell).find(|s| s.name == name)?)).collect()
}

/// Words several verdicts on one setting. The range of several estimates is not an interval, so both are
/// given.
pub(super) fn together(all: &[VerdictWording]) -> String {
    if let [one] = all {
        return one.to_string();
    }
    let of = |claim: Claim| all.iter().filter(|s| s.claim == claim).collect::<Vec<_>>();
    let mut parts = vec![];
    for (claim, verb) in [(Claim::Costs, "costs"), (Claim::Saves, "saves")] {
        parts.extend(
            estimates(&of(claim)).map(|range| format!("{verb} {range}{}", count(of(claim).len(), all))),
        );
    }
    for (claim, words) in [
        (Claim::MayCost, "may cost up to"),
        (Claim::MaySave, "may save up to"),
        (Claim::Equal, "no more than"),
    ] {
        parts.extend(farthest(&of(claim)).map(|far| format!("{words} {far}{}", count(of(claim).len(), all))));
    }
    if let unclear @ 1.. = of(Claim::Unclear).len() {
        parts.push(format!("inconclusive{}", count(unclear, all)));
    }
    if let bursty @ 1.. = all.iter().filter(|s| s.bursty).count() {
        parts.push(format!("bursty{}", count(bursty, all)));
    }
    parts.join("; ")
}

fn count(n: usize, all: &[VerdictWording]) -> String {
    match all.len() {
        2 if n == 2 => " in both cells".into(),
        cells if n == cells => format!(" in all {n} cells"),
        cells => format!(" in {n} of {cells} cells"),
    }
}

/// Formats the lowest and the highest estimate, and the reach of their intervals: `1.2% to 1.7%, intervals
/// from 0.8% to 2.1%`.
fn estimates(said: &[&VerdictWording]) -> Option<String> {
    let (estimates, reach) = ranges(said)?;
    Some(format!("{estimates}, intervals from {reach},"))
}

/// Formats the range of estimates, and the reach of their intervals.
fn ranges(said: &[&VerdictWording]) -> Option<(String, String)> {
    let costs: Vec<Difference> = said.iter().filter_map(|s| s.cost).collect();
    let (first, rest) = costs.split_first()?;
    let ends = |d: &Difference| d.interval.map_or((d.share, d.share), |i| i);
    let (mut share, mut reach) = ((first.share, first.share), ends(first));
    for cost in rest {
        share = (share.0.min(cost.share), share.1.max(cost.share));
        reach = (reach.0.min(ends(cost).0), reach.1.max(ends(cost).1));
    }
    let fine = costs.iter().filter_map(Difference::plus_minus).reduce(f64::min);
    // A saving is a negative difference, so the smallest saving is the highest difference.
    let range = |(low, high): (f64, f64)| {
        let (from, to) = if high < 0.0 { (high, low) } else { (low, high) };
        let (from, to) = (unit::percent(from, fine), unit::percent(to, fine));
        if from == to { from } else { format!("{from} to {to}") }
    };
    Some((range(share), range(reach)))
}

/// Formats the highest bound of several verdicts of a kind.
fn farthest(said: &[&VerdictWording]) -> Option<String> {
    let most = said.iter().map(|s| s.far).reduce(f64::max)?;
    let equal = said.iter().all(|s| s.claim == Claim::Equal);
    let fine = said.iter().filter_map(|s| s.cost?.plus_minus()).reduce(f64::min);
    Some(unit::percent(most, if equal { Some(most) } else { fine }))
}

/// Words the base of a setting, and where both ran: `against off on mariadb 10.11.19-MariaDB`.
pub fn against(header: &Header, facts: &SettingFacts) -> String {
    let on = |name: &str| {
        let version = header.servers.iter().find(|s| s.name == name).map(|s| s.version.as_str());
        format!("{name} {}", version.unwrap_or_default()).trim_end().to_owned()
    };
    let base = header.settings.iter().find(|s| s.name == facts.base).unwrap_or(facts);
    if base.server == facts.server {
        format!("against {} on {}", base.name, on(&facts.server))
    } else {
        format!("on {} against {} on {}", on(&facts.server), base.name, on(&base.server))
    }
}

/// Words a measure.
pub fn charged(measure: Measure) -> &'static str {
    match measure {
        Measure::Cpu => "server CPU per transaction",
        Measure::Time => "time per transaction",
        Measure::P95 => "95th percentile of latency",
    }
}

/// Words the source of a server's CPU time.
pub fn cpu_source(source: CpuSource) -> &'static str {
    match source {
        CpuSource::Process => "CPU time: its process's clock",
        CpuSource::Statements => {
            "CPU time: what its statements used, as it says (Cpu_time), without its own threads"
        }
        CpuSource::Nowhere => "CPU time: not known",
    }
}

/// Summarizes the study in a line that can be repeated: the verdict on each setting first, then what it is
/// of, the base, its server, and the size of noise.
pub fn in_short(analysis: &Analysis) -> String {
    let header = &analysis.header;
    let mut compared: Vec<(String, Vec<String>)> = vec![];
    for facts in header.settings.iter().filter(|s| s.name != s.base && !s.control) {
        let all = everywhere(analysis, &facts.name);
        let words = if all.is_empty() { "was not measured".into() } else { briefly(&all) };
        let (against, words) = (against(header, facts), format!("{} {words}", facts.name));
        match compared.iter_mut().find(|(known, _)| *known == against) {
            Some((_, said)) => said.push(words),
            None => compared.push((against, vec![words])),
        }
    }
    let controls = analysis.cells.iter().flat_map(|c| c.settings.iter().filter(|s| s.control));
    let noise = controls.filter_map(reach).reduce(f64::max);
    let noise =
        noise.map_or("noise unknown".into(), |n| format!("noise within {}", unit::percent(n, Some(n))));
    let of = charged(header.measure);
    if let [(against, said)] = compared.as_slice() {
        return format!("In short: {}. This is {of} {against}; {noise}.", said.join("; "));
    }
    let all: Vec<String> =
        compared.iter().map(|(against, said)| format!("{} ({against})", said.join("; "))).collect();
    format!("In short: {}. This is {of}; {noise}.", all.join("; "))
}

/// Words several verdicts on one setting in as few words as are true: what is sure, and of how many cells it
/// is not.
fn briefly(all: &[VerdictWording]) -> String {
    if let [one] = all {
        return one.to_string();
    }
    let of = |claim: Claim| all.iter().filter(|s| s.claim == claim).collect::<Vec<_>>();
    let cells = |count: usize| {
        if count == all.len() { String::new() } else { format!(" in {count} of {} cells", all.len()) }
    };
    let mut parts = vec![];
    let mut sure = 0;
    for (claim, verb) in [(Claim::Costs, "costs"), (Claim::Saves, "saves")] {
        let said = of(claim);
        if let Some((range, _)) = ranges(&said) {
            parts.push(format!("{verb} {range}{}", cells(said.len())));
            sure += said.len();
        }
    }
    let equal = of(Claim::Equal);
    if let Some(far) = farthest(&equal) {
        parts.push(format!("costs no more than {far}{}", cells(equal.len())));
        sure += equal.len();
    }
    let may = of(Claim::MayCost);
    if let Some(far) = farthest(&may).filter(|_| of(Claim::Costs).is_empty()) {
        parts.push(format!("may cost up to {far}{}", cells(may.len())));
        sure += may.len();
    }
    match all.len() - sure {
        0 => {}
        unsure if unsure == all.len() => parts.push("is not known yet".into()),
        unsure => parts.push(format!("not known in {unsure}")),
    }
    parts.join(", ")
}

/// Returns warnings, such as that the machine was busy with other work.
pub fn warnings(analysis: &Analysis) -> Vec<String> {
    let settings = analysis.cells.iter().flat_map(measured);
    let steal = median(&settings.map(|s| s.medians.steal).collect::<Vec<_>>());
    let stolen = (steal > MOST_STOLEN).then(|| {
        format!(
            "Warning: while the study ran the hypervisor gave {} of the machine's time to others.",
            unit::percent(steal, None)
        )
    });
    analysis.header.machine.others.warning().into_iter().chain(stolen).collect()
}

/// Returns a remark if the medians of transactions per second contradict the verdict: they run over all
/// slices, so they include drift, while the verdict compares within blocks.
pub fn contradiction(header: &Header, cell: &CellAnalysis, setting: &SettingAnalysis) -> Option<String> {
    let claim = said(header, cell, setting)?.claim;
    let base = cell.setting(&setting.base)?;
    let more = setting.medians.tps / base.medians.tps - 1.0;
    let contradicts = match claim {
        Claim::Costs | Claim::MayCost => more > SEEN,
        Claim::Saves | Claim::MaySave => more < -SEEN,
        Claim::Equal => more.abs() > header.margin,
        Claim::Unclear => false,
    };
    let paired = setting.throughput.filter(|_| contradicts)?;
    let direction = if more > 0.0 { "above" } else { "below" };
    Some(format!(
        "its median of transactions per second is {} {direction} the base's, as medians run over all blocks; within blocks the \
         difference is {}",
        unit::percent(more, None),
        unit::change(paired.share, paired.plus_minus())
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(share: f64, low: f64, high: f64, near: f64) -> VerdictWording {
        excluded(Difference { share, interval: Some((low, high)) }, near)
    }

    fn equal(high: f64) -> VerdictWording {
        let cost = Some(Difference { share: 0.0, interval: Some((-high, high)) });
        VerdictWording {
            claim: Claim::Equal,
            words: String::new(),
            short: String::new(),
            interval: None,
            cost,
            far: high,
            bursty: false,
        }
    }

    #[test]
    fn a_cost_is_said_with_its_interval() {
        assert_eq!(of(0.031, 0.027, 0.035, 0.01).to_string(), "costs 3.1% (2.7% to 3.5%)");
        assert_eq!(of(-0.02, -0.03, -0.015, 0.01).to_string(), "saves 2.0% (1.5% to 3.0%)");
        assert_eq!(of(0.45, 0.41, 0.5, 0.01).claim, Claim::Costs);
    }

    #[test]
    fn what_begins_near_zero_is_not_called_a_cost() {
        // These were once worded "costs 2.5% ± 3.3" and "costs 40.7% ± 59.9".
        assert_eq!(of(0.025, 0.002, 0.068, 0.01).to_string(), "may cost up to 6.8% (0.2% to 6.8%)");
        assert_eq!(of(0.407, 0.001, 1.199, 0.01).to_string(), "may cost up to 120% (0% to 120%)");
        assert_eq!(of(-0.02, -0.035, -0.002, 0.01).to_string(), "may save up to 3.5% (0.2% to 3.5%)");
        assert_eq!(of(0.031, 0.027, 0.035, 0.03).claim, Claim::MayCost, "the noise reaches farther");
    }

    #[test]
    fn estimates_of_several_cells_are_not_passed_off_as_an_interval() {
        let (low, high) = (of(0.012, 0.011, 0.016, 0.01), of(0.017, 0.013, 0.021, 0.01));
        assert_eq!(
            together(&[high.clone(), low.clone()]),
            "costs 1.2% to 1.7%, intervals from 1.1% to 2.1%, in both cells"
        );
        let unclear = VerdictWording { claim: Claim::Unclear, cost: None, ..equal(0.0) };
        let all = together(&[low.clone(), equal(0.0049), of(0.025, 0.002, 0.068, 0.01), unclear]);
        assert_eq!(
            all,
            "costs 1.2%, intervals from 1.1% to 1.6%, in 1 of 4 cells; may cost up to 6.8% in 1 of 4 cells; no more than 0.5% in \
             1 of 4 cells; inconclusive in 1 of 4 cells"
        );
        let bursty = together(&[VerdictWording { bursty: true, ..low.clone() }, high]);
        assert_eq!(
            bursty,
            "costs 1.2% to 1.7%, intervals from 1.1% to 2.1%, in both cells; bursty in 1 of 2 cells"
        );
        assert_eq!(together(&[low]), "costs 1.2% (1.1% to 1.6%)");
        let saves = together(&[of(-0.02, -0.03, -0.015, 0.01), of(-0.05, -0.06, -0.04, 0.01)]);
        assert_eq!(saves, "saves 2.0% to 5.0%, intervals from 1.5% to 6.0%, in both cells");
    }

    #[test]
    fn a_line_to_repeat_says_what_is_sure_and_where_it_is_not() {
        let (low, high) = (of(0.012, 0.011, 0.016, 0.01), of(0.017, 0.013, 0.021, 0.01));
        let unclear = VerdictWording { claim: Claim::Unclear, cost: None, ..equal(0.0) };
        let may = of(0.025, 0.002, 0.068, 0.01);
        for (all, expected) in [
            (vec![low.clone()], "costs 1.2% (1.1% to 1.6%)"),
            (vec![low.clone(), high.clone()], "costs 1.2% to 1.7%"),
            (vec![low.clone(), high, may.clone()], "costs 1.2% to 1.7% in 2 of 3 cells, not known in 1"),
            (
                vec![low, equal(0.0049), may.clone(), unclear.clone()],
                "costs 1.2% in 1 of 4 cells, costs no more than 0.5% in 1 of 4 cells, not known in 2",
            ),
            (vec![may.clone(), may.clone()], "may cost up to 6.8%"),
            (vec![may, unclear.clone()], "may cost up to 6.8% in 1 of 2 cells, not known in 1"),
            (vec![equal(0.0049), equal(0.003)], "costs no more than 0.5%"),
            (vec![unclear.clone(), unclear], "is not known yet"),
        ] {
            assert_eq!(briefly(&all), expected);
        }
    }

    #[test]
    fn the_worst_stands_for_all() {
        assert_eq!(Claim::worst([Claim::Equal, Claim::Unclear]), Claim::Unclear);
        assert_eq!(Claim::worst([Claim::MayCost, Claim::Unclear, Claim::Costs]), Claim::Costs);
    }
}
