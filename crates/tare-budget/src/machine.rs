//! Prices as they are on this machine, which is not always as fast as the one they were measured on, nor as itself.

use crate::price::Prices;

/// What a look is of what is known of the machine: its speed changes from second to second, and within hours.
const WEIGHT: f64 = 1.0 / 6.0;

/// Prices, there and here.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    measured: Prices,
    here: Prices,
    /// What a run of [`Work`](crate::Work) took at the last looks, in nanoseconds.
    work_ns: Option<f64>,
}

impl Machine {
    pub(crate) fn new(measured: Prices) -> Machine {
        Machine { here: measured.clone(), measured, work_ns: None }
    }

    /// The prices as they were measured.
    pub(crate) fn measured(&self) -> &Prices {
        &self.measured
    }

    /// The prices here, of late.
    pub(crate) fn prices(&self) -> &Prices {
        &self.here
    }

    /// Takes what a look found.
    pub(crate) fn learn(&mut self, work_ns: Option<f64>) {
        let Some(now) = work_ns else { return };
        self.work_ns = Some(self.work_ns.map_or(now, |before| before + (now - before) * WEIGHT));
        self.here = self.measured.on_machine(self.work_ns);
    }

    /// The prices as a look finds them that is not to be remembered.
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
        let text = include_str!("../tests/prices/mysql.toml");
        let with_work = text.replacen("[price.", "[work]\nns = 100\n\n[price.", 1);
        let machine = |text: &str| Machine::new(Prices::read(text).expect("prices"));
        let ns = |prices: &Prices| prices.cost(Kind::Stage, Level::Sums).ns;
        let mut known = machine(&with_work);
        let there = ns(known.measured());
        let times = |machine: &Machine| (ns(machine.prices()) / there * 1e6).round() / 1e6;
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
