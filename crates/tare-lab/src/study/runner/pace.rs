//! The pace of a cell: the length of turns, and the rate of arrivals.

use std::time::Duration;

use super::{StudyEvent, StudyRun, WARM_UP, workload_of};
use crate::Result;
use crate::definition::SettingDef;
use crate::definition::recordings::goes_by_the_clock;
use crate::load::arrivals::Arrivals;
use crate::results::record::{Cell, Maximum, Measure, Record};
use crate::study::servers::idleness;

/// Least length of a turn in transaction latencies, so that few transactions span two turns.
const LATENCIES_PER_TURN: f64 = 10.0;
/// Least number of transactions in a turn of several connections, so that those that span two turns even out.
const TRANSACTIONS_PER_TURN: f64 = 160.0;
/// Least length of a turn in times of switching the server to its setting.
const SWITCHES_PER_TURN: f64 = 2.0;
/// Fewest turns per slice; with fewer, slices do not take turns.
const TURNS_PER_SLICE: f64 = 4.0;
/// Least length in seconds of the measurement of the highest throughput.
const MAXIMUM: u32 = 3;

/// Durations in a cell, in seconds, in the slowest setting.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CellPace {
    /// Latency of a transaction.
    pub(super) latency: f64,
    /// Time to switch a shared server.
    pub(super) switching: f64,
    /// Time to connect.
    pub(super) connecting: f64,
}

impl StudyRun<'_> {
    /// Returns the transactions per second of a cell with a rate: a share of the maximum, equal for all
    /// settings.
    pub(super) fn rate(&self, cell: &Cell) -> Option<f64> {
        Some(self.maximum(cell)? * f64::from(cell.percent?) / 100.0)
    }

    /// Returns the highest throughput of a cell, once it has been measured.
    pub(super) fn maximum(&self, cell: &Cell) -> Option<f64> {
        let of = |r: &Record| match r {
            Record::Maximum(m) if m.cell == cell.closed() => Some(m.tps),
            _ => None,
        };
        self.journal.records().iter().find_map(of)
    }

    /// Measures the highest throughput of a cell with a rate, on the base, without the rate.
    pub(super) fn find_maximum(
        &mut self,
        cell: &Cell,
        settings: &[usize],
        tell: &mut dyn FnMut(StudyEvent<'_>),
    ) -> Result<()> {
        let definition = &self.order.definition;
        let is_base = |place: &usize| {
            let setting = &definition.settings[*place];
            definition.base_of(setting) == setting.name
        };
        let base = settings.iter().copied().find(is_base).or(settings.first().copied());
        let (Some(place), true) = (base, cell.percent.is_some() && self.maximum(cell).is_none()) else {
            return Ok(());
        };
        let (cell, setting) = (cell.closed(), definition.settings[place].name.clone());
        tell(StudyEvent::Slice { cell: &cell, setting: &setting, measured: false });
        self.whole(&cell, place, WARM_UP, 0, tell)?;
        let seconds = definition.whole_slice_seconds().max(MAXIMUM);
        let slice = self.whole(&cell, place, seconds, 0, tell)?;
        self.journal.append(Record::Maximum(Maximum { cell, setting, tps: slice.tps() }))
    }

    /// Measures how long it takes to switch a server to a setting.
    pub(super) fn learn_switching(&mut self, cell: &Cell, place: usize) -> Result<()> {
        let switching = self.fleet.time_to_switch(place)?.as_secs_f64();
        let pace = self.paces.entry(cell.clone()).or_default();
        pace.switching = pace.switching.max(switching);
        Ok(())
    }

    /// Returns the length of a turn in a cell; `None` for slices without turns, where turns would have to be
    /// too long, or would change what is measured.
    pub(super) fn turn(&self, cell: &Cell) -> Option<Duration> {
        let definition = self.definition();
        let at_a_stretch = definition.turn_milliseconds == 0
            // A stopped driver does not stop arrivals.
            || cell.percent.is_some()
            || definition.measure == Measure::P95
            || self.fleet.asks_for_cpu()
            || goes_by_the_clock(workload_of(definition, cell))
            || definition.settings.iter().any(SettingDef::is_at_a_stretch)
            || self.by_itself == Some(true)
            || self.holds_others_up(cell);
        let pace = self.paces.get(cell)?;
        let each = (f64::from(definition.turn_milliseconds) / 1000.0)
            .max(pace.latency * LATENCIES_PER_TURN.min(TRANSACTIONS_PER_TURN / f64::from(cell.users)))
            .max(pace.switching * SWITCHES_PER_TURN);
        let enough = each * TURNS_PER_SLICE <= definition.slice_seconds;
        (enough && !at_a_stretch).then(|| Duration::from_secs_f64(each))
    }

    /// Returns whether a setting makes its server work while idle.
    pub(super) fn works_by_itself(&mut self) -> Result<bool> {
        let working = idleness::working(&self.order.definition, &mut self.fleet, &self.bench.interrupt)?;
        for name in &working {
            self.note(format!(
                "{name} makes its server work while nobody asks it anything: slices are taken at a stretch"
            ))?;
        }
        Ok(!working.is_empty())
    }

    /// Returns whether a stopped driver may hold locks that the driver of another setting waits for.
    fn holds_others_up(&self, cell: &Cell) -> bool {
        self.writes(cell) && (0..self.definition().settings.len()).any(|place| self.fleet.is_shared(place))
    }

    fn writes(&self, cell: &Cell) -> bool {
        workload_of(self.definition(), cell).run.writes
    }

    /// Returns the warm-up seconds of each setting of the study, where these are compared.
    pub(super) fn warm_up_seconds(&self, cell: &Cell, settings: &[usize]) -> Vec<u32> {
        let all: Vec<u32> = self.definition().settings.iter().map(|it| it.warm_up_seconds).collect();
        let seconds = if self.writes(cell) { alike(&all, settings) } else { all };
        seconds.into_iter().map(|it| Arrivals::enough(it, self.rate(cell))).collect()
    }
}

/// Raises the warm-up of these settings to the longest of them, because the load works on what it has
/// written.
fn alike(all: &[u32], settings: &[usize]) -> Vec<u32> {
    let longest = settings.iter().filter_map(|at| all.get(*at)).max().copied().unwrap_or_default();
    all.iter().map(|seconds| longest.max(*seconds)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_write_have_written_for_as_long() {
        assert_eq!(alike(&[1, 15, 60], &[0, 1]), [15, 15, 60]);
        assert_eq!(alike(&[1, 15, 60], &[2, 0]), [60; 3]);
        assert_eq!(alike(&[1, 15], &[]), [1, 15]);
    }
}
