//! Costs on this machine, which may be slower or faster than the one they were measured on, and changes its
//! speed.

use crate::price::Prices;

/// Weight of one sample in the estimate of the machine's speed, which changes from second to second and
/// within hours.
const WEIGHT: f64 = 1.0 / 6.0;

/// Costs as measured, and on this machine.
#[derive(Clone, Debug)]
pub(crate) struct MachineCosts {
    measured: Prices,
    here: Prices,
    /// Smoothed time of a run of [`Work`](crate::Work) in nanoseconds; `None`: unknown.
    work_ns: Option<f64>,
}

impl MachineCosts {
    pub(crate) fn new(measured: Prices) -> MachineCosts {
        MachineCosts { here: measured.clone(), measured, work_ns: None }
    }

    /// Returns the costs as measured.
    pub(crate) fn measured(&self) -> &Prices {
        &self.measured
    }

    /// Returns the costs on this machine.
    pub(crate) fn prices(&self) -> &Prices {
        &self.here
    }

    /// Adds the time of a run from a sample, in nanoseconds; `None` changes nothing.
    pub(crate) fn learn(&mut self, work_ns: Option<f64>) {
        let Some(now) = work_ns else { return };
        self.work_ns = Some(self.work_ns.map_or(now, |before| before + (now - before) * WEIGHT));
        self.here = self.measured.on_machine(self.work_ns);
    }

    /// Returns the costs for a sample that is not added.
    pub(crate) fn at(&self, work_ns: Option<f64>) -> Prices {
        if self.work_ns.is_some() { self.here.clone() } else { self.measured.on_machine(work_ns) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::{Kind, Level};

    #[test]
    fn prices_follow_the_machine_but_not_each_look_of_it() {
        let text = include_str!("../../tests/prices/mysql.toml");
        let with_work = text.replacen("[price.", "[work]\nns = 100\n\n[price.", 1);
        let machine = |text: &str| MachineCosts::new(Prices::read(text).expect("prices"));
        let ns = |prices: &Prices| prices.cost(Kind::Stage, Level::Sums).ns;
        let mut known = machine(&with_work);
        let there = ns(known.measured());
        let times = |machine: &MachineCosts| (ns(machine.prices()) / there * 1e6).round() / 1e6;
        assert_eq!(times(&known), 1.0);
        assert!((ns(&known.at(Some(300.0))) / there - 3.0).abs() < 1e-9, "nothing is known yet");
        known.learn(Some(200.0));
        assert_eq!(times(&known), 2.0);
        known.learn(Some(80.0));
        assert_eq!(times(&known), 1.8);
        assert_eq!(ns(&known.at(Some(300.0))), ns(known.prices()));
        known.learn(None);
        assert_eq!(times(&known), 1.8);
        let mut unknown = machine(text);
        unknown.learn(Some(200.0));
        assert_eq!(times(&unknown), 1.0);
    }
}
