//! The pace of a cell: how long turns take, and how many transactions arrive.

use std::time::Duration;

use super::{Event, Run, WARM_UP, workload_of};
use crate::Result;
use crate::arrivals::Arrivals;
use crate::definition::SettingDef;
use crate::idleness;
use crate::record::{Cell, Maximum, Measure, Record};
use crate::replay::study::goes_by_the_clock;

/// A turn takes at least so many times what a transaction does: those it cuts in two are few.
const LATENCIES_PER_TURN: f64 = 10.0;
/// Of more connections a turn has at least so many transactions, all together: those cut in two even out.
const TRANSACTIONS_PER_TURN: f64 = 160.0;
/// A turn takes at least so many times what switching the server to its setting does.
const SWITCHES_PER_TURN: f64 = 2.0;
/// With fewer turns a slice is taken at a stretch.
const TURNS_PER_SLICE: f64 = 4.0;
/// The most transactions are counted for at least so many seconds.
const MAXIMUM: u32 = 3;

/// How long things take in a cell, in seconds, in the setting where they take longest.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// A transaction.
    pub(super) latency: f64,
    /// To switch a server that settings share.
    pub(super) switching: f64,
    /// To connect.
    pub(super) connecting: f64,
}

impl Run<'_> {
    /// Transactions of a cell per second, if they come at a rate: a share of the maximum, in every setting alike.
    pub(super) fn rate(&self, cell: &Cell) -> Option<f64> {
        Some(self.maximum(cell)? * f64::from(cell.percent?) / 100.0)
    }

    /// The most transactions of a cell per second, once they have been counted.
    pub(super) fn maximum(&self, cell: &Cell) -> Option<f64> {
        let of = |r: &Record| match r {
            Record::Maximum(m) if m.cell == cell.closed() => Some(m.tps),
            _ => None,
        };
        self.journal.records().iter().find_map(of)
    }

    /// Counts the most transactions of a cell with a rate per second, on the base, each connection as fast as it goes on.
    pub(super) fn find_maximum(
        &mut self,
        cell: &Cell,
        settings: &[usize],
        tell: &mut dyn FnMut(Event<'_>),
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
        tell(Event::Slice { cell: &cell, setting: &setting, measured: false });
        self.whole(&cell, place, WARM_UP, 0, tell)?;
        let seconds = definition.whole_slice_seconds().max(MAXIMUM);
        let slice = self.whole(&cell, place, seconds, 0, tell)?;
        self.journal.append(Record::Maximum(Maximum { cell, setting, tps: slice.tps() }))
    }

    /// Finds out how long it takes to switch a server to a setting.
    pub(super) fn learn_switching(&mut self, cell: &Cell, place: usize) -> Result<()> {
        let switching = self.fleet.time_to_switch(place)?.as_secs_f64();
        let pace = self.paces.entry(cell.clone()).or_default();
        pace.switching = pace.switching.max(switching);
        Ok(())
    }

    /// How long a turn takes in a cell; `None` where slices are taken at a stretch: turns would have to be too long to be of
    /// use, or would change what is measured.
    pub(super) fn turn(&self, cell: &Cell) -> Option<Duration> {
        let definition = self.definition();
        let at_a_stretch = definition.turn_milliseconds == 0
            // A driver that is held does not hold up what arrives.
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

    /// Whether a setting makes its server work while nobody asks it anything.
    pub(super) fn works_by_itself(&mut self) -> Result<bool> {
        let working = idleness::working(&self.order.definition, &mut self.fleet, &self.bench.interrupt)?;
        for name in &working {
            self.note(format!(
                "{name} makes its server work while nobody asks it anything: slices are taken at a stretch"
            ))?;
        }
        Ok(!working.is_empty())
    }

    /// Whether a driver that is held may hold locks that the driver of another setting waits for.
    fn holds_others_up(&self, cell: &Cell) -> bool {
        self.writes(cell) && (0..self.definition().settings.len()).any(|place| self.fleet.is_shared(place))
    }

    fn writes(&self, cell: &Cell) -> bool {
        workload_of(self.definition(), cell).workload().writes
    }

    /// How long each setting of the study warms up where these are compared.
    pub(super) fn warm_up_seconds(&self, cell: &Cell, settings: &[usize]) -> Vec<u32> {
        let all: Vec<u32> = self.definition().settings.iter().map(|it| it.warm_up_seconds).collect();
        let seconds = if self.writes(cell) { alike(&all, settings) } else { all };
        seconds.into_iter().map(|it| Arrivals::enough(it, self.rate(cell))).collect()
    }
}

/// Of these settings each warms up as long as the one that takes longest: what a load has written is what it works on.
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
