//! The account: overhead as a part of the server's CPU time, as events times cost per event, instrument by
//! instrument.

pub(crate) mod recording;

use crate::board::{Board, Held};
use crate::kind::{Kind, Level};
use crate::price::{Cost, Prices};

/// Name under which the account lists the cost of reading the counts.
pub const OWN: &str = "(reading the counts)";
/// Name under which the account lists the cost of connections besides their events.
pub const CONNECTIONS: &str = "(connections)";

/// Events of an instrument between two samples.
#[derive(Clone, Debug, PartialEq)]
pub struct InstrumentEvents {
    /// Name of the instrument.
    pub name: String,
    /// Kind of the instrument.
    pub kind: Kind,
    /// Level of the instrument.
    pub level: Level,
    /// Level at which events of its family are recorded; `None`: the instrument's level decides.
    pub recording: Option<Level>,
    /// Number of events.
    pub events: f64,
}

/// Cost of one instrument.
#[derive(Clone, Debug, PartialEq)]
pub struct CostShare {
    /// The events.
    pub entry: InstrumentEvents,
    /// Cost of all these events, in nanoseconds.
    pub cost: Cost,
}

/// Returns the part of these connections in which an instrument with so many events had at least one,
/// assuming that they are spread as widely as possible.
#[must_use]
pub fn presence(events: f64, connected: f64) -> f64 {
    if connected > 0.0 { (events / connected).min(1.0) } else { 0.0 }
}

/// Returns the part of the connections' instruments that is on, weighed by [`presence`].
fn part_on(entries: &[InstrumentEvents], connected: f64) -> f64 {
    let all = |only_on: bool| -> f64 {
        let wanted = entries.iter().filter(|it| !only_on || it.level > Level::Off);
        wanted.map(|it| presence(it.events, connected)).sum()
    };
    all(true) / all(false).max(f64::MIN_POSITIVE)
}

/// The account of one sample.
#[derive(Clone, Debug, PartialEq)]
pub struct CostAccount {
    /// CPU time the server used, or could have used where only that is known, in nanoseconds.
    pub cpu: f64,
    /// Part of `cpu` that reading the counts took, in nanoseconds.
    pub own: f64,
    /// Number of connections that were made.
    pub connected: f64,
    /// Cost of all connections besides their events.
    pub connecting: Cost,
    /// Factor by which the machine is slower than the one the costs were measured on; `None`: unknown.
    pub machine: Option<f64>,
    /// Instruments with a cost, the most expensive first.
    pub shares: Vec<CostShare>,
    /// Total cost, including reading and connections.
    pub total: Cost,
}

/// Returns the average distance of events in nanoseconds of CPU time. Allocations and errors do not count as
/// events.
#[must_use]
pub fn distance(events: impl Iterator<Item = (Kind, f64)>, cpu: f64) -> f64 {
    cpu / events.filter(|(kind, _)| kind.is_timed()).map(|(_, events)| events).sum::<f64>()
}

impl CostAccount {
    /// Multiplies events and connections by their costs.
    ///
    /// # Examples
    ///
    /// ```
    /// use tare_budget::{CostAccount, InstrumentEvents, Kind, Level, PricedProvider, Prices};
    ///
    /// let entry = InstrumentEvents {
    ///     name: "statement/sql/select".to_owned(),
    ///     kind: Kind::Statement,
    ///     level: Level::Lean,
    ///     recording: None,
    ///     events: 1000.0,
    /// };
    /// let prices = Prices::shipped(PricedProvider::Tare)?;
    /// // In a second of CPU time, of which reading the counts took a millisecond.
    /// let account = CostAccount::of(&prices, vec![entry], 0.0, 1e9, 1e6);
    /// assert!(account.share().ns > 0.001 && account.share().low <= account.share().high);
    /// # Ok::<(), tare_budget::PriceError>(())
    /// ```
    #[must_use]
    pub fn of(
        prices: &Prices,
        entries: Vec<InstrumentEvents>,
        connected: f64,
        cpu: f64,
        own: f64,
    ) -> CostAccount {
        let connecting = prices.connection.at(part_on(&entries, connected)).times(connected);
        let price = |entry: InstrumentEvents| {
            let of_one = recording::cost(prices, entry.kind, entry.level, entry.recording);
            CostShare { cost: of_one.times(entry.events), entry }
        };
        let mut shares: Vec<CostShare> = entries.into_iter().map(price).collect();
        shares.retain(|share| share.cost.high > 0.0);
        shares.sort_by(|a, b| b.cost.ns.total_cmp(&a.cost.ns).then_with(|| a.entry.name.cmp(&b.entry.name)));
        let reading = Cost { ns: own, low: own, high: own };
        let total = shares.iter().fold(reading.plus(connecting), |sum, share| sum.plus(share.cost));
        CostAccount { cpu, own, connected, connecting, machine: prices.machine, shares, total }
    }

    /// Returns a cost as a share of the CPU time: 0.01 is 1%.
    #[must_use]
    pub fn share_of(&self, cost: Cost) -> Cost {
        if self.cpu <= 0.0 { Cost::NOTHING } else { cost.times(1.0 / self.cpu) }
    }

    /// Returns the total cost as a share of the CPU time: 0.01 is 1%.
    #[must_use]
    pub fn share(&self) -> Cost {
        self.share_of(self.total)
    }
}

/// Returns the cost of the switches that are held for this reason. It explains why a budget cannot be kept.
#[must_use]
pub fn held_cost(board: &Board, account: &CostAccount, held: Held) -> Cost {
    let is_held = |name: &str| board.iter().any(|it| it.name == name && it.held == Some(held));
    let shares = account.shares.iter().filter(|share| is_held(&share.entry.name));
    shares.fold(Cost::NOTHING, |sum, share| sum.plus(share.cost))
}
