//! Writing of measured prices as a price file.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Bound;

use tare_budget::price::{ConnectionCost, Distance};
use tare_budget::{Cost, Kind, Level, Prices};

use super::fit::Fit;

/// The comments at the top of a price file.
#[derive(Clone, Debug)]
pub struct PriceFileHead<'a> {
    /// Name of the provider in price files.
    pub provider: &'a str,
    /// The server and its version.
    pub server: &'a str,
    /// Description of the machine.
    pub machine: &'a str,
    /// How the prices were measured.
    pub how: &'a str,
    /// Duration of a run of [`Work`](tare_budget::Work) during the measurement, in nanoseconds, if known.
    pub work_ns: Option<f64>,
}

/// Returns the text of the file. An event costs its price when disabled, plus the difference of its level.
/// Disabled events cost `off` times the `believed` price. A kind with too few events costs the fit's factor
/// times the `believed` price, and the file says so.
#[must_use]
pub fn write(head: &PriceFileHead<'_>, fit: &Fit, off: Cost, believed: &Prices) -> String {
    let mut text = String::from(
        "# The price of an event: nanoseconds of the server's CPU time, by kind and level. docs/explanation/budget.md says how it is used.\n\n",
    );
    let PriceFileHead { provider, server, machine, how, work_ns } = head;
    let _ = write!(
        text,
        "[origin]\nprovider = {provider:?}\nserver = {server:?}\nmachine = {machine:?}\nmeasured = true\nhow = \"\"\"\n{how}\"\"\"\n"
    );
    if let Some(ns) = work_ns {
        let _ = write!(
            text,
            "\n# How fast the machine was: what a fixed piece of work took on it meanwhile. Prices go by what it takes elsewhere.\n\
             [work]\nns = {ns:.0}\n"
        );
    }
    if let Some(Distance { ns, power, least, most }) = believed.distance {
        let _ = write!(
            text,
            "\n# Not measured here, but what was believed: see docs/explanation/budget.md.\n\
             [distance]\nns = {ns}\npower = {power}\nleast = {least}\nmost = {most}\n"
        );
    }
    for kind in Kind::ALL {
        let own_off = off.times(believed.cost(kind, Level::Off).ns);
        let levels: BTreeMap<Level, Cost> = match fit.prices.get(&kind) {
            Some(levels) => {
                let above = levels.iter().map(|(level, cost)| (*level, cost.plus(own_off)));
                above.chain([(Level::Off, own_off)]).collect()
            }
            None => {
                let _ = write!(
                    text,
                    "\n# It had too few events to be measured: {:.2} times what was believed, as all the others together.",
                    fit.factor
                );
                Level::priced().map(|it| (it, believed.cost(kind, it).times(fit.factor))).collect()
            }
        };
        let _ = write!(text, "\n[price.{kind}]\n");
        for (level, cost) in &levels {
            // A level that is missing costs the same as the next higher one.
            let above = levels.range((Bound::Excluded(*level), Bound::Unbounded)).next();
            if above.is_none_or(|(_, above)| above != cost) {
                let _ = writeln!(text, "{level} = {}", of(*cost));
            }
        }
    }
    text
}

/// Formats the cost of a connection besides its events.
#[must_use]
pub fn connection(connecting: &ConnectionCost) -> String {
    let mut text = String::from(
        "\n# What a connection costs besides its events, with everything off and with everything on.\n[connection]\n",
    );
    for (name, cost) in [("off", connecting.off), ("on", connecting.on)] {
        let _ = writeln!(text, "{name} = {}", of(cost));
    }
    text
}

/// Formats a cost.
fn of(cost: Cost) -> String {
    let [ns, low, high] = [cost.ns, cost.low, cost.high].map(figure);
    format!("{{ ns = {ns}, low = {low}, high = {high} }}")
}

/// Rounds to hundredths of a nanosecond, which is finer than any measurement.
fn figure(ns: f64) -> String {
    let text = format!("{ns:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(ns: f64) -> Cost {
        Cost { ns, low: ns / 2.0, high: ns * 2.0 }
    }

    #[test]
    fn what_is_written_is_read_and_says_what_was_not_measured() {
        let prices = [(
            Kind::Mutex,
            [(Level::Counts, cost(4.0)), (Level::Sums, cost(4.0)), (Level::Exact, cost(10.0))].into(),
        )];
        let fit = Fit { prices: prices.into(), factor: 2.0, contradiction: 1.0 };
        let shipped = include_str!("../../../tare-budget/tests/prices/mysql.toml");
        let shipped = Prices::read(shipped).expect("it can be read");
        let head = PriceFileHead {
            provider: "mysql",
            server: "MySQL \"9\"",
            machine: "m",
            how: "By tare price.\nTwice.",
            work_ns: Some(40123.4),
        };
        let text = write(&head, &fit, cost(1.0), &shipped);
        let read = Prices::read(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(read.origin.server, "MySQL \"9\"");
        assert_eq!(read.work_ns, Some(40123.0));
        assert!(read.origin.measured && read.origin.how.ends_with("Twice."));
        // The shipped price of a disabled mutex event is 1 ns.
        assert_eq!(read.cost(Kind::Mutex, Level::Off), cost(1.0));
        assert_eq!(read.cost(Kind::Mutex, Level::Counts), cost(5.0));
        assert_eq!(read.cost(Kind::Mutex, Level::Sums), cost(5.0));
        assert_eq!(read.cost(Kind::Mutex, Level::History), cost(11.0));
        for level in Level::ALL {
            assert_eq!(read.cost(Kind::Stage, level), shipped.cost(Kind::Stage, level).times(2.0), "{level}");
        }
        assert!(
            text.contains("2.00 times what was believed, as all the others together.\n[price.stage]"),
            "{text}"
        );
    }
}
