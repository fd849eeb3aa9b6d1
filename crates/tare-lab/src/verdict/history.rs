//! Several runs of a study, over time, versions or machines: what each found, what changed, and what can be
//! compared.
//!
//! Runs are ordered by their start. The last one defines the comparison: an earlier run counts for a setting
//! under a load if it had the same setting, base, load and measure; a setting may have had another name, if a
//! study says so (`formerly`). Other differences (machine, versions, builds, method) do not exclude a run;
//! they are listed, so that a change can be attributed to them.
//!
//! All runs are compared by the same figure: calm rounds, or the mean of all turns if the setting comes in
//! bursts in one of them. Whether a run finds bursts depends on the width of its intervals, and two different
//! figures would look like a change.

use std::collections::BTreeMap;

use crate::definition::{Definition, WorkloadDef};
use crate::results::record::{Cell, CpuSource, Header, SettingFacts, short};
use crate::statistics::course::{Estimate, SeriesShape};
use crate::verdict::analysis::{Analysis, Difference, SettingAnalysis, Verdict};
use tare_page::unit::{plain, time};

/// Half the width of a 95% interval, in standard errors. The lab's intervals allow for repeated looks, so
/// they are wider, and the conclusions here err on the side of no change.
const HALF_WIDTH: f64 = 1.96;

/// The results of a run.
#[derive(Clone, Debug)]
pub struct PastRun {
    /// Name of the run, such as its folder.
    pub name: String,
    /// Its analysis.
    pub analysis: Analysis,
    /// Its study, if this program can still parse it.
    definition: Option<Definition>,
}

/// Runs in order, and their common results.
#[derive(Clone, Debug)]
pub struct RunHistory {
    /// The runs, ordered by their start.
    pub runs: Vec<PastRun>,
    /// The cost of every setting of the last run, run by run.
    pub series: Vec<CostSeries>,
}

/// The cost of a setting under a load, run by run.
#[derive(Clone, Debug)]
pub struct CostSeries {
    /// The load.
    pub cell: Cell,
    /// The setting.
    pub setting: String,
    /// Whether it is the A/A control: changes of it come from the machine.
    pub control: bool,
    /// Whether the costs are means of all turns rather than of calm rounds.
    pub of_mean: bool,
    /// Indexes of the comparable runs, and the cost in each.
    pub points: Vec<(usize, Difference)>,
    /// Indexes of the other runs, and the reason.
    pub left_out: Vec<(usize, String)>,
    /// Its history. Indexes are those of `points` that have an interval.
    pub course: SeriesShape,
}

impl PastRun {
    /// Makes a run of an analysis read from a folder.
    pub fn new(name: String, analysis: Analysis) -> PastRun {
        let header = &analysis.header;
        let definition = Definition::read(&header.definition, &header.study, header.quick).ok();
        PastRun { name, analysis, definition }
    }

    fn header(&self) -> &Header {
        &self.analysis.header
    }

    fn workload(&self, cell: &Cell) -> Option<&WorkloadDef> {
        self.definition.as_ref()?.workloads.iter().find(|w| w.name == cell.workload)
    }

    /// Returns the results of a setting of `last` in this run, or the reason why they are not comparable.
    fn found(
        &self,
        last: &PastRun,
        names: &FormerNames,
        cell: &Cell,
        setting: &str,
    ) -> Result<&SettingAnalysis, String> {
        let found = self.analysis.cells.iter().find(|c| c.cell == *cell).ok_or("it has no such load")?;
        let own = names.facts(self.header(), setting).and_then(|facts| found.setting(&facts.name));
        let own = own.ok_or("it has no such setting")?;
        if self.header().measure != last.header().measure {
            return Err("it charges a transaction with something else (`measure`)".into());
        }
        self.same_load(last, cell)?;
        for name in [&own.name, &own.base] {
            names.same(self.header(), last.header(), name)?;
        }
        own.cost.map(|_| own).ok_or_else(|| "it was not measured".into())
    }

    fn same_load(&self, last: &PastRun, cell: &Cell) -> Result<(), String> {
        match (self.workload(cell), last.workload(cell)) {
            (Some(own), Some(other)) => {
                let options = |w: &WorkloadDef| w.run.options(&w.given());
                let same =
                    own.run == other.run && own.prepared == other.prepared && options(own) == options(other);
                if same {
                    Ok(())
                } else {
                    Err("its load was another one: `run`, `options` or `prepared`".into())
                }
            }
            _ if self.header().definition == last.header().definition => Ok(()),
            _ => Err("its load cannot be told: this version does not read its study any more".into()),
        }
    }
}

/// Former names of settings, each with the present one, as the studies of all runs tell.
#[derive(Debug)]
struct FormerNames(BTreeMap<String, String>);

impl FormerNames {
    fn of(runs: &[PastRun]) -> FormerNames {
        let settings =
            runs.iter().filter_map(|run| run.definition.as_ref()).flat_map(|study| &study.settings);
        let pairs = settings.flat_map(|s| s.formerly.iter().map(|former| (former.clone(), s.name.clone())));
        FormerNames(pairs.collect())
    }

    fn present<'a>(&'a self, name: &'a str) -> &'a str {
        self.0.get(name).map_or(name, String::as_str)
    }

    /// Returns a run's setting of this name, or the one that has or had this name in another run.
    fn facts<'a>(&self, header: &'a Header, name: &str) -> Option<&'a SettingFacts> {
        let is_same = |s: &&SettingFacts| self.present(&s.name) == self.present(name);
        header.settings.iter().find(|s| s.name == name).or_else(|| header.settings.iter().find(is_same))
    }

    /// Tells why a setting is not the same in two runs.
    fn same(&self, own: &Header, last: &Header, name: &str) -> Result<(), String> {
        let (Some(own), Some(last)) = (self.facts(own, name), self.facts(last, name)) else {
            return Err(format!("it has no setting `{name}`"));
        };
        let name = &own.name;
        if self.present(&own.base) != self.present(&last.base) {
            return Err(format!("`{name}` was compared with `{}`, not with `{}`", own.base, last.base));
        }
        if own.made_by != last.made_by {
            return Err(format!("`{name}` was made otherwise: {}", words(&own.made_by)));
        }
        Ok(())
    }
}

fn words(made_by: &[String]) -> String {
    if made_by.is_empty() { "without options".into() } else { made_by.join(" ") }
}

impl RunHistory {
    /// Makes the history of runs, given in any order; `None` for fewer than two.
    pub fn of(mut runs: Vec<PastRun>) -> Option<RunHistory> {
        runs.sort_by(|a, b| a.header().started.cmp(&b.header().started));
        let last = runs.last().filter(|_| runs.len() > 1)?;
        let names = FormerNames::of(&runs);
        let mut series = vec![];
        for cell in &last.analysis.cells {
            let compared = cell.settings.iter().filter(|s| s.name != s.base);
            series.extend(compared.map(|s| CostSeries::of(&runs, last, &names, &cell.cell, s)));
        }
        Some(RunHistory { runs, series })
    }

    /// Describes the differences between two runs other than the settings.
    pub fn differences(&self, from: usize, to: usize) -> Vec<String> {
        let (from, to) = (self.runs[from].header(), self.runs[to].header());
        let mut all = vec![];
        let mut differ = |what: &str, a: String, b: String| {
            if a != b {
                all.push(format!("{what} {a} → {b}"));
            }
        };
        differ("machine", machine(from), machine(to));
        differ("kernel", from.machine.kernel.clone(), to.machine.kernel.clone());
        for server in &to.servers {
            let before = from.servers.iter().find(|s| s.name == server.name);
            let version = before.map_or("not there", |s| s.version.as_str());
            differ(&format!("server {}", server.name), version.into(), server.version.clone());
            let source = before.map_or(server.cpu, |s| s.cpu);
            differ(&format!("CPU time of server {} from", server.name), read(source), read(server.cpu));
        }
        // A file that one run does not know is not a known difference.
        for (name, sum) in &to.files {
            let before = from.files.get(name).unwrap_or(sum);
            differ(&format!("SHA-256 of {name}"), short(before).into(), short(sum).into());
        }
        let driver = |h: &Header| h.driver.clone().unwrap_or_else(|| "this machine".into());
        differ("load from", driver(from), driver(to));
        differ("tare", from.tare.clone(), to.tare.clone());
        differ("measured in", slices(from), slices(to));
        let busy =
            |h: &Header| (if h.machine.others.warning().is_some() { "busy" } else { "at rest" }).to_owned();
        differ("machine's state", busy(from), busy(to));
        all
    }
}

/// Describes the source of CPU time.
fn read(source: CpuSource) -> String {
    let read = match source {
        CpuSource::Process => "its process",
        CpuSource::Statements => "its statements",
        CpuSource::Nowhere => "nowhere",
    };
    read.into()
}

fn machine(header: &Header) -> String {
    let m = &header.machine;
    #[allow(clippy::cast_precision_loss)] // as people say it
    let memory = plain((m.memory_bytes >> 20) as f64 / 1024.0);
    let rest = [m.hypervisor.clone(), m.governor.as_ref().map(|g| format!("governor {g}"))];
    let rest: String = rest.into_iter().flatten().map(|fact| format!(", {fact}")).collect();
    format!("{} × {}, {memory} GiB{rest}", m.cpus, m.cpu_model)
}

fn slices(header: &Header) -> String {
    let turns = match header.turn_milliseconds {
        0 => String::new(),
        turn => format!(", turns of {turn} ms"),
    };
    format!("slices of {}{turns}, {} blocks a start", time(header.slice_seconds), header.blocks_per_start)
}

impl CostSeries {
    fn of(
        runs: &[PastRun],
        last: &PastRun,
        names: &FormerNames,
        cell: &Cell,
        of_last: &SettingAnalysis,
    ) -> CostSeries {
        let (setting, control) = (&of_last.name, of_last.control);
        let (mut found, mut left_out) = (vec![], vec![]);
        for (place, run) in runs.iter().enumerate() {
            match run.found(last, names, cell, setting) {
                Ok(one) => found.push((place, one)),
                Err(why) => left_out.push((place, why)),
            }
        }
        let of_mean = found.iter().any(|(_, one)| is_bursty(one));
        let figure = |one: &SettingAnalysis| if of_mean { one.mean } else { one.cost };
        let points: Vec<(usize, Difference)> =
            found.into_iter().filter_map(|(place, one)| Some((place, figure(one)?))).collect();
        let known = points.iter().filter_map(|(_, cost)| estimate(*cost)).collect::<Vec<_>>();
        let course = SeriesShape::of(&known);
        CostSeries {
            cell: cell.clone(),
            setting: setting.clone(),
            control,
            of_mean,
            points,
            left_out,
            course,
        }
    }

    /// Returns the indexes, among all runs, of those with an interval.
    pub fn known(&self) -> Vec<usize> {
        self.points.iter().filter(|(_, cost)| estimate(*cost).is_some()).map(|(place, _)| *place).collect()
    }
}

fn is_bursty(found: &SettingAnalysis) -> bool {
    matches!(found.verdict, Some(Verdict::Costs { bursty: true, .. }))
}

fn estimate(cost: Difference) -> Option<Estimate> {
    let error = cost.plus_minus()? / HALF_WIDTH;
    (error > 0.0).then_some(Estimate { value: cost.share, error })
}
