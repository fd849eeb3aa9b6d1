//! The price of an event: nanoseconds of the server's CPU time, by kind and level, with intervals; and the file of them.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use crate::kind::{Kind, Level};

/// Nanoseconds, and between which they lie.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// The best guess.
    pub ns: f64,
    /// The interval's lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl Cost {
    /// Nothing.
    pub const NOTHING: Cost = Cost { ns: 0.0, low: 0.0, high: 0.0 };

    /// So many events.
    #[must_use]
    pub fn times(self, events: f64) -> Cost {
        Cost { ns: self.ns * events, low: self.low * events, high: self.high * events }
    }

    /// Both. Ends are added, too: what one price errs by, the others may err by as well.
    #[must_use]
    pub fn plus(self, other: Cost) -> Cost {
        Cost { ns: self.ns + other.ns, low: self.low + other.low, high: self.high + other.high }
    }

    /// What it is more than another, and at least nothing.
    pub(crate) fn less(self, other: Cost) -> Cost {
        let [ns, low, high] = [self.ns - other.ns, self.low - other.low, self.high - other.high];
        let ns = ns.max(0.0);
        Cost { ns, low: low.clamp(0.0, ns), high: high.max(ns) }
    }
}

/// Whose events they are prices of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// Tare.
    Tare,
    /// MariaDB's own Performance Schema.
    MariaDb,
    /// MySQL's.
    MySql,
}

/// Where prices come from.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// Whose events.
    pub provider: Provider,
    /// The server they were found with.
    pub server: String,
    /// The machine.
    pub machine: String,
    /// False where they are estimated.
    pub measured: bool,
    /// How they were found.
    pub how: String,
}

/// How an event's price goes with how far apart events are: the further, the more of its lines of code and data have left
/// the processor's first caches since the one before.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Distance {
    /// At this distance prices are as the file has them: nanoseconds of the server's CPU time from one event to the next.
    pub ns: f64,
    /// The power of the distance by which they go.
    pub power: f64,
    /// The least a price is multiplied by.
    pub least: f64,
    /// The most.
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

/// What a connection costs besides its events: what has to be there before its first, and what is added up after its last.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Connecting {
    /// While everything is off.
    pub off: Cost,
    /// While everything is on.
    pub on: Cost,
}

impl Connecting {
    /// Nothing.
    pub const NOTHING: Connecting = Connecting { off: Cost::NOTHING, on: Cost::NOTHING };

    /// What it costs while this part of its instruments is on.
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

/// The machine prices are of.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Measured {
    /// What a run of [`Work`](crate::Work) took there meanwhile, in nanoseconds.
    ns: f64,
}

impl Measured {
    fn check(&self) -> Result<(), &'static str> {
        if self.ns.is_finite() && self.ns > 0.0 { Ok(()) } else { Err("ns is a number above 0") }
    }
}

/// A machine may be as many times as slow as the one prices are of, or as fast. Whatever else is said of it is not believed.
const MOST: f64 = 4.0;

/// What an event of each kind costs at each level.
#[derive(Clone, Debug, PartialEq)]
pub struct Prices {
    /// Where they come from.
    pub origin: Origin,
    /// How they go with the distance between events; `None`: they do not.
    pub distance: Option<Distance>,
    /// What a connection costs besides.
    pub connection: Connecting,
    /// What a run of [`Work`](crate::Work) took where they were measured, in nanoseconds; `None`: nobody knows.
    pub work_ns: Option<f64>,
    /// How many times as slow as that the machine is which they are of by now; `None`: nobody knows.
    pub machine: Option<f64>,
    /// The part of statements that are chosen where they are sampled: what [`Level::Sampled`] costs goes by it.
    pub(crate) chosen: f64,
    costs: BTreeMap<Kind, BTreeMap<Level, Cost>>,
}

/// What is wrong with a price file, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PriceError {
    /// It is no TOML, or not of this shape.
    #[error("line {line}: {why}")]
    Shape {
        /// The line, from 1.
        line: usize,
        /// What the parser says.
        why: String,
    },
    /// No such kind or level.
    #[error("line {line}, {key}: no such {what}; there are {known}")]
    Name {
        /// The line.
        line: usize,
        /// What is there.
        key: String,
        /// A kind or a level.
        what: &'static str,
        /// What may be there.
        known: String,
    },
    /// A price that can be none.
    #[error("line {line}, {key}: {why}")]
    Value {
        /// The line.
        line: usize,
        /// Kind and level.
        key: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A kind without a price.
    #[error("[price.{kind}] is missing: every kind needs the price of one level at least")]
    Missing {
        /// The kind.
        kind: &'static str,
    },
}

type Table = BTreeMap<Spanned<String>, BTreeMap<Spanned<String>, Spanned<Cost>>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    origin: Origin,
    distance: Option<Spanned<Distance>>,
    connection: Option<Spanned<Connecting>>,
    work: Option<Spanned<Measured>>,
    price: Table,
}

impl Prices {
    /// Reads a price file. Without a price of their own statements sent as text cost what other ones do.
    ///
    /// # Errors
    ///
    /// [`PriceError`], which names the line and the key.
    pub fn read(text: &str) -> Result<Prices, PriceError> {
        let line = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
        let file: File = toml::from_str(text).map_err(|error| PriceError::Shape {
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
                connection: file.connection.map_or(Connecting::NOTHING, Spanned::into_inner),
                work_ns: file.work.map(|it| it.into_inner().ns),
                machine: None,
                chosen: 1.0,
                costs,
            }),
        }
    }

    /// The prices that ship for a provider.
    ///
    /// # Errors
    ///
    /// None: a test reads all of them.
    pub fn shipped(provider: Provider) -> Result<Prices, PriceError> {
        Prices::read(match provider {
            Provider::Tare => include_str!("../prices/tare.toml"),
            Provider::MariaDb => include_str!("../prices/mariadb.toml"),
            Provider::MySql => include_str!("../prices/mysql.toml"),
        })
    }

    /// What prices are multiplied by where events are so many nanoseconds of the server's CPU time apart; nothing where there are
    /// none.
    #[must_use]
    pub fn factor(&self, ns: f64) -> f64 {
        self.distance.filter(|_| ns.is_finite() && ns > 0.0).map_or(1.0, |distance| distance.factor(ns))
    }

    /// The prices of events that are so far apart. What a connection costs stays.
    #[must_use]
    pub fn at_distance(&self, ns: f64) -> Prices {
        let factor = self.factor(ns);
        let mut there = Prices { distance: None, ..self.clone() };
        there.multiply(factor);
        there
    }

    /// The prices on a machine where a run of [`Work`](crate::Work) takes so many nanoseconds. They stay where that is not known, here
    /// or there.
    #[must_use]
    pub fn on_machine(&self, work_ns: Option<f64>) -> Prices {
        let known = self.work_ns.zip(work_ns.filter(|it| it.is_finite() && *it > 0.0));
        let mut here = self.clone();
        let Some((there, now)) = known else { return here };
        let factor = (now / there).clamp(1.0 / MOST, MOST);
        here.multiply(factor);
        let Connecting { off, on } = self.connection;
        here.connection = Connecting { off: off.times(factor), on: on.times(factor) };
        // What is as far apart takes as much longer.
        here.distance = self.distance.map(|it| Distance { ns: it.ns * factor, ..it });
        here.work_ns = self.work_ns.map(|it| it * factor);
        here.machine = Some(self.machine.unwrap_or(1.0) * factor);
        here
    }

    /// The prices where this part of statements is chosen.
    #[must_use]
    pub fn choosing(&self, chosen: f64) -> Prices {
        Prices { chosen: chosen.clamp(0.0, 1.0), ..self.clone() }
    }

    /// Of events; what a connection costs stays.
    fn multiply(&mut self, factor: f64) {
        self.costs.values_mut().flat_map(BTreeMap::values_mut).for_each(|cost| *cost = cost.times(factor));
    }

    /// The prices where an event of a kind costs nothing if it is off.
    pub(crate) fn free_if_off(mut self, kind: Kind) -> Prices {
        self.costs.entry(kind).or_default().insert(Level::Off, Cost::NOTHING);
        self
    }

    /// What an event costs. A level without a price costs what the next higher one that has one does, or else the
    /// highest there is. At [`Level::Sampled`] it is between what it costs in a statement that is chosen and in one that is not.
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
