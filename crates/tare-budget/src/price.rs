//! Cost per event: nanoseconds of the server's CPU time, by kind and level, with intervals. Also the price
//! files they are read from.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use crate::kind::{Kind, Level};

/// A cost in nanoseconds, with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// Best estimate.
    pub ns: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Cost {
    /// No cost.
    pub const NOTHING: Cost = Cost { ns: 0.0, low: 0.0, high: 0.0 };

    /// Returns the cost of so many events.
    #[must_use]
    pub fn times(self, events: f64) -> Cost {
        Cost { ns: self.ns * events, low: self.low * events, high: self.high * events }
    }

    /// Returns the sum of two costs. The ends of the intervals are added, too: errors of different costs may
    /// have the same cause.
    #[must_use]
    pub fn plus(self, other: Cost) -> Cost {
        Cost { ns: self.ns + other.ns, low: self.low + other.low, high: self.high + other.high }
    }

    /// Returns the excess over another cost, at least 0.
    pub(crate) fn less(self, other: Cost) -> Cost {
        let [ns, low, high] = [self.ns - other.ns, self.low - other.low, self.high - other.high];
        let ns = ns.max(0.0);
        Cost { ns, low: low.clamp(0.0, ns), high: high.max(ns) }
    }
}

/// The Performance Schema whose events have these costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PricedProvider {
    /// Tare.
    Tare,
    /// MariaDB's own Performance Schema.
    MariaDb,
    /// MySQL's Performance Schema.
    MySql,
}

/// Origin of a price file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceOrigin {
    /// The Performance Schema measured.
    pub provider: PricedProvider,
    /// The server it was measured with.
    pub server: String,
    /// The machine it was measured on.
    pub machine: String,
    /// Whether the costs are measured; false if estimated.
    pub measured: bool,
    /// Method.
    pub how: String,
}

/// Dependence of an event's cost on the distance between events: the further apart they are, the more of an
/// event's code and data has left the processor's first caches since the one before.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Distance {
    /// Distance at which costs are as in the file: nanoseconds of the server's CPU time from one event to the
    /// next.
    pub ns: f64,
    /// Exponent of the distance in the factor.
    pub power: f64,
    /// Smallest factor.
    pub least: f64,
    /// Largest factor.
    pub most: f64,
}

impl Distance {
    fn factor(&self, ns: f64) -> f64 {
        (ns / self.ns).powf(self.power).clamp(self.least, self.most)
    }

    fn check(&self) -> Result<(), &'static str> {
        let numbers = [self.ns, self.power, self.least, self.most];
        if !numbers.into_iter().all(|it| it.is_finite() && it > 0.0) {
            return Err("ns, power, least and most are numbers above 0");
        }
        if self.least > self.most { Err("least <= most does not hold") } else { Ok(()) }
    }
}

/// Cost of a connection besides its events: setting up before the first one, adding up after the last one.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectionCost {
    /// Cost while everything is off.
    pub off: Cost,
    /// Cost while everything is on.
    pub on: Cost,
}

impl ConnectionCost {
    /// No cost.
    pub const NOTHING: ConnectionCost = ConnectionCost { off: Cost::NOTHING, on: Cost::NOTHING };

    /// Returns the cost while this part of its instruments is on.
    #[must_use]
    pub fn at(&self, part: f64) -> Cost {
        self.off.times(1.0 - part).plus(self.on.times(part))
    }

    fn check(&self) -> Result<(), &'static str> {
        check(&self.off)?;
        check(&self.on)?;
        if self.off.ns > self.on.ns { Err("off <= on does not hold") } else { Ok(()) }
    }
}

/// The machine that a price file was measured on.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct MeasuredMachine {
    /// Time of a run of [`Work`](crate::Work) during the measurement, in nanoseconds.
    ns: f64,
}

impl MeasuredMachine {
    fn check(&self) -> Result<(), &'static str> {
        if self.ns.is_finite() && self.ns > 0.0 { Ok(()) } else { Err("ns is a number above 0") }
    }
}

/// Largest factor by which a machine may be slower or faster than the one measured. Larger values are
/// clamped.
const MOST: f64 = 4.0;

/// Cost per event of each kind at each level.
#[derive(Clone, Debug, PartialEq)]
pub struct Prices {
    /// Origin of the price file.
    pub origin: PriceOrigin,
    /// Dependence on the distance between events; `None`: there is none.
    pub distance: Option<Distance>,
    /// Cost of a connection besides its events.
    pub connection: ConnectionCost,
    /// Time of a run of [`Work`](crate::Work) on the machine of these costs, in nanoseconds; `None`: unknown.
    pub work_ns: Option<f64>,
    /// Factor by which the machine of these costs is slower than the one measured; `None`: unknown.
    pub machine: Option<f64>,
    /// Part of statements that are chosen if sampled, which determines the cost of [`Level::Sampled`].
    pub(crate) chosen: f64,
    costs: BTreeMap<Kind, BTreeMap<Level, Cost>>,
}

/// Error in a price file, with its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PriceError {
    /// The file is not TOML, or does not have this structure.
    #[error("line {line}: {why}")]
    Shape {
        /// The line, from 1.
        line: usize,
        /// Message of the parser.
        why: String,
    },
    /// Unknown kind or level.
    #[error("line {line}, {key}: no such {what}; there are {known}")]
    Name {
        /// The line, from 1.
        line: usize,
        /// The key found.
        key: String,
        /// What the key should name: a kind or a level.
        what: &'static str,
        /// The allowed names.
        known: String,
    },
    /// Invalid value.
    #[error("line {line}, {key}: {why}")]
    Value {
        /// The line, from 1.
        line: usize,
        /// Kind and level.
        key: String,
        /// The fault of the value.
        why: &'static str,
    },
    /// Kind without a price.
    #[error("[price.{kind}] is missing: every kind needs the price of one level at least")]
    Missing {
        /// The kind.
        kind: &'static str,
    },
}

type PriceTable = BTreeMap<Spanned<String>, BTreeMap<Spanned<String>, Spanned<Cost>>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceFile {
    origin: PriceOrigin,
    distance: Option<Spanned<Distance>>,
    connection: Option<Spanned<ConnectionCost>>,
    work: Option<Spanned<MeasuredMachine>>,
    price: PriceTable,
}

impl Prices {
    /// Reads a price file. Statements sent as text default to the costs of other statements.
    ///
    /// # Errors
    ///
    /// Returns a [`PriceError`] with line and key.
    pub fn read(text: &str) -> Result<Prices, PriceError> {
        let line = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
        let file: PriceFile = toml::from_str(text).map_err(|error| PriceError::Shape {
            line: line(error.span().map_or(0, |span| span.start)),
            why: error.message().to_owned(),
        })?;
        let checked = |key: &str, at: usize, is: Result<(), &'static str>| {
            is.map_err(|why| PriceError::Value { line: line(at), key: key.into(), why })
        };
        if let Some(it) = &file.distance {
            checked("distance", it.span().start, it.get_ref().check())?;
        }
        if let Some(it) = &file.connection {
            checked("connection", it.span().start, it.get_ref().check())?;
        }
        if let Some(it) = &file.work {
            checked("work", it.span().start, it.get_ref().check())?;
        }
        let mut costs: BTreeMap<Kind, BTreeMap<Level, Cost>> = BTreeMap::new();
        for (name, levels) in &file.price {
            let kind = Kind::named(name.get_ref()).ok_or_else(|| PriceError::Name {
                line: line(name.span().start),
                key: format!("price.{}", name.get_ref()),
                what: "kind",
                known: Kind::ALL.map(Kind::name).join(", "),
            })?;
            for (level, cost) in levels {
                let key = format!("price.{kind}.{}", level.get_ref());
                let at = line(level.span().start);
                let named = Level::priced().find(|it| it.name() == level.get_ref());
                let level = named.ok_or_else(|| PriceError::Name {
                    line: at,
                    key: key.clone(),
                    what: "level",
                    known: Level::priced().map(Level::name).collect::<Vec<_>>().join(", "),
                })?;
                check(cost.get_ref()).map_err(|why| PriceError::Value { line: at, key, why })?;
                costs.entry(kind).or_default().insert(level, *cost.get_ref());
            }
        }
        if let Some(statement) = costs.get(&Kind::Statement).cloned() {
            costs.entry(Kind::Query).or_insert(statement);
        }
        match Kind::ALL.into_iter().find(|kind| !costs.contains_key(kind)) {
            Some(kind) => Err(PriceError::Missing { kind: kind.name() }),
            None => Ok(Prices {
                origin: file.origin,
                distance: file.distance.map(Spanned::into_inner),
                connection: file.connection.map_or(ConnectionCost::NOTHING, Spanned::into_inner),
                work_ns: file.work.map(|it| it.into_inner().ns),
                machine: None,
                chosen: 1.0,
                costs,
            }),
        }
    }

    /// Returns the costs that ship for a provider.
    ///
    /// # Examples
    ///
    /// ```
    /// use tare_budget::{Kind, Level, PricedProvider, Prices};
    ///
    /// let prices = Prices::shipped(PricedProvider::Tare)?;
    /// let mutex = |level| prices.cost(Kind::Mutex, level).ns;
    /// assert!(mutex(Level::Off) <= mutex(Level::Sums) && mutex(Level::Sums) <= mutex(Level::Exact));
    /// # Ok::<(), tare_budget::PriceError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Never fails: a test reads all of them.
    pub fn shipped(provider: PricedProvider) -> Result<Prices, PriceError> {
        Prices::read(match provider {
            PricedProvider::Tare => include_str!("../prices/tare.toml"),
            PricedProvider::MariaDb => include_str!("../prices/mariadb.toml"),
            PricedProvider::MySql => include_str!("../prices/mysql.toml"),
        })
    }

    /// Returns the factor of costs where events are `ns` nanoseconds of the server's CPU time apart. 1 if
    /// there are no events.
    #[must_use]
    pub fn factor(&self, ns: f64) -> f64 {
        self.distance.filter(|_| ns.is_finite() && ns > 0.0).map_or(1.0, |distance| distance.factor(ns))
    }

    /// Returns the costs of events that are `ns` nanoseconds apart. The cost of a connection stays.
    #[must_use]
    pub fn at_distance(&self, ns: f64) -> Prices {
        let factor = self.factor(ns);
        let mut there = Prices { distance: None, ..self.clone() };
        there.multiply(factor);
        there
    }

    /// Returns the costs on a machine where a run of [`Work`](crate::Work) takes `work_ns`. They stay the
    /// same if its time is unknown for either machine.
    #[must_use]
    pub fn on_machine(&self, work_ns: Option<f64>) -> Prices {
        let known = self.work_ns.zip(work_ns.filter(|it| it.is_finite() && *it > 0.0));
        let mut here = self.clone();
        let Some((there, now)) = known else { return here };
        let factor = (now / there).clamp(1.0 / MOST, MOST);
        here.multiply(factor);
        let ConnectionCost { off, on } = self.connection;
        here.connection = ConnectionCost { off: off.times(factor), on: on.times(factor) };
        // The same distance takes so much longer here.
        here.distance = self.distance.map(|it| Distance { ns: it.ns * factor, ..it });
        here.work_ns = self.work_ns.map(|it| it * factor);
        here.machine = Some(self.machine.unwrap_or(1.0) * factor);
        here
    }

    /// Returns the costs where this part of statements is chosen.
    #[must_use]
    pub fn choosing(&self, chosen: f64) -> Prices {
        Prices { chosen: chosen.clamp(0.0, 1.0), ..self.clone() }
    }

    /// Multiplies the costs of events, not those of a connection.
    fn multiply(&mut self, factor: f64) {
        self.costs.values_mut().flat_map(BTreeMap::values_mut).for_each(|cost| *cost = cost.times(factor));
    }

    /// Returns the costs where a disabled event of this kind costs nothing.
    pub(crate) fn free_if_off(mut self, kind: Kind) -> Prices {
        self.costs.entry(kind).or_default().insert(Level::Off, Cost::NOTHING);
        self
    }

    /// Returns the cost of an event. A level without a price costs as much as the next higher one that has
    /// one, or else the highest. [`Level::Sampled`] lies between the costs in a chosen statement and in
    /// another one.
    #[must_use]
    pub fn cost(&self, kind: Kind, level: Level) -> Cost {
        match level {
            Level::Sampled => {
                let unchosen = self.listed(kind, kind.unchosen());
                unchosen.plus(self.listed(kind, Level::Lean).less(unchosen).times(self.chosen))
            }
            _ => self.listed(kind, level),
        }
    }

    fn listed(&self, kind: Kind, level: Level) -> Cost {
        let Some(levels) = self.costs.get(&kind) else { return Cost::NOTHING };
        let above = levels.range(level..).next();
        above.or_else(|| levels.last_key_value()).map_or(Cost::NOTHING, |(_, cost)| *cost)
    }
}

fn check(cost: &Cost) -> Result<(), &'static str> {
    if ![cost.ns, cost.low, cost.high].into_iter().all(|it| it.is_finite() && it >= 0.0) {
        return Err("a price is a number of nanoseconds, 0 or more");
    }
    if !(cost.low <= cost.ns && cost.ns <= cost.high) {
        return Err("low <= ns <= high does not hold");
    }
    Ok(())
}
