//! What watching took of the server's CPU time: events times price, instrument by instrument.

use crate::kind::{Kind, Level};
use crate::price::{Cost, Prices};
use crate::recording;

/// The name under which the account lists what reading the counts took.
pub const OWN: &str = "(reading the counts)";
/// That of what connections cost besides their events.
pub const CONNECTIONS: &str = "(connections)";

/// An instrument's events between two looks.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The instrument.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// What was kept of each event.
    pub level: Level,
    /// How events of its family are recorded; `None`: as the level says.
    pub recording: Option<Level>,
    /// How many there were.
    pub events: f64,
}

/// What one instrument cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// Its events.
    pub entry: Entry,
    /// Nanoseconds, all of them together.
    pub cost: Cost,
}

/// In how many of these connections an instrument with so many events had some: all, as far as they go.
#[must_use]
pub fn presence(events: f64, connected: f64) -> f64 {
    if connected > 0.0 { (events / connected).min(1.0) } else { 0.0 }
}

/// The part of what connections had of instruments that is on.
fn part_on(entries: &[Entry], connected: f64) -> f64 {
    let all = |only_on: bool| -> f64 {
        let wanted = entries.iter().filter(|it| !only_on || it.level > Level::Off);
        wanted.map(|it| presence(it.events, connected)).sum()
    };
    all(true) / all(false).max(f64::MIN_POSITIVE)
}

/// The account of one look.
#[derive(Clone, Debug, PartialEq)]
pub struct Account {
    /// The CPU time the server used, or could have used where only that is known, in nanoseconds.
    pub cpu: f64,
    /// Of that, what reading the counts took.
    pub own: f64,
    /// Connections that were made.
    pub connected: f64,
    /// What all of them cost besides their events.
    pub connecting: Cost,
    /// How many times as slow the machine is as the one that prices were measured on; `None`: nobody knows.
    pub machine: Option<f64>,
    /// Instruments that cost something, the dearest first.
    pub shares: Vec<Share>,
    /// All together, reading and connections included.
    pub total: Cost,
}

/// How far apart events are in so much CPU time: nanoseconds of it from one to the next. Allocations and errors are no events
/// of their own.
#[must_use]
pub fn distance(events: impl Iterator<Item = (Kind, f64)>, cpu: f64) -> f64 {
    cpu / events.filter(|(kind, _)| kind.is_timed()).map(|(_, events)| events).sum::<f64>()
}

impl Account {
    /// Puts prices, of events as far apart as these, to events and to connections that were made.
    #[must_use]
    pub fn of(prices: &Prices, entries: Vec<Entry>, connected: f64, cpu: f64, own: f64) -> Account {
        let connecting = prices.connection.at(part_on(&entries, connected)).times(connected);
        let price = |entry: Entry| {
            let of_one = recording::cost(prices, entry.kind, entry.level, entry.recording);
            Share { cost: of_one.times(entry.events), entry }
        };
        let mut shares: Vec<Share> = entries.into_iter().map(price).collect();
        shares.retain(|share| share.cost.high > 0.0);
        shares.sort_by(|a, b| b.cost.ns.total_cmp(&a.cost.ns).then_with(|| a.entry.name.cmp(&b.entry.name)));
        let reading = Cost { ns: own, low: own, high: own };
        let total = shares.iter().fold(reading.plus(connecting), |sum, share| sum.plus(share.cost));
        Account { cpu, own, connected, connecting, machine: prices.machine, shares, total }
    }

    /// A cost as a share of the CPU time: 0.01 is 1%.
    #[must_use]
    pub fn share_of(&self, cost: Cost) -> Cost {
        if self.cpu <= 0.0 { Cost::NOTHING } else { cost.times(1.0 / self.cpu) }
    }

    /// The share of all.
    #[must_use]
    pub fn share(&self) -> Cost {
        self.share_of(self.total)
    }
}
