//! Overhead and the decisions on it. The rows come from whoever keeps the budget.

use std::sync::OnceLock;

use tare_engine::Engine;

use super::level::LEVELS_NAMED;
use crate::framework::column::{ColumnDef, column, nullable};
use crate::framework::definition::TableDef;
use crate::table::SqlType::{BigIntUnsigned, DoubleUnsigned, Enum, TimestampMicros, VarChar};
use crate::table::{SqlType, TableError, Value};

/// A number with its interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NumberWithInterval {
    /// Best estimate.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// Cost of an instrument's events.
#[derive(Clone, Debug, PartialEq)]
pub struct PriceRow {
    /// Name of the instrument, or of another entry of the account.
    pub name: String,
    /// Kind of the instrument; `None`: not an instrument.
    pub kind: Option<&'static str>,
    /// Level of the instrument.
    pub level: Option<&'static str>,
    /// Number of events.
    pub events: u64,
    /// Cost per event in nanoseconds.
    pub nanoseconds: NumberWithInterval,
    /// Cost of all events, as a part of the server's CPU time.
    pub share: NumberWithInterval,
}

/// A change of level, or another message about the budget.
#[derive(Clone, Debug, PartialEq)]
pub struct DecisionRow {
    /// Number of the decision, ascending.
    pub id: u64,
    /// Microseconds since the Unix epoch.
    pub time_us: u64,
    /// Name of the instrument; `None`: concerns all of them.
    pub name: Option<String>,
    /// Level before.
    pub from: Option<&'static str>,
    /// Level after.
    pub to: Option<&'static str>,
    /// Reason of the decision.
    pub why: String,
    /// Total cost as a part of the server's CPU time.
    pub share: f64,
    /// Maximum cost as a part of the server's CPU time.
    pub budget: f64,
}

/// The keeper of the budget.
pub trait Keeper: Sync {
    /// Returns the last account.
    fn prices(&self) -> Vec<PriceRow>;
    /// Returns the last decisions, oldest first.
    fn decisions(&self) -> Vec<DecisionRow>;
    /// Sets a row of `tare_status`. `None`: the row does not belong to the keeper.
    fn set(&self, name: &str, value: &str) -> Option<Result<(), TableError>>;
}

static KEEPER: OnceLock<&'static dyn Keeper> = OnceLock::new();

/// Registers the keeper of the budget for the life of the process. Returns false if there is one already.
pub fn set_keeper(keeper: &'static dyn Keeper) -> bool {
    KEEPER.set(keeper).is_ok()
}

/// Sets a row of `tare_status`. Fails if no keeper has a row of this name.
pub(crate) fn set(name: &str, value: &str) -> Result<(), TableError> {
    KEEPER.get().and_then(|keeper| keeper.set(name, value)).unwrap_or(Err(TableError::WrongUsage))
}

/// The table `tare_prices`.
pub static PRICES: TableDef<PriceRow> = TableDef::new(
    "tare_prices",
    "A table of tare itself: the estimated overhead of each instrument, that is its events since the last reading times the cost \
     per event. With a budget the governor takes a reading every few seconds. Without one a SELECT on this table does, at most \
     once a second. The first row is the cost of the readings, the second that of new connections, without their \
     events.",
    &[PRICE_COLUMNS],
    |_: &Engine, _, emit| {
        let rows = KEEPER.get().map(|keeper| keeper.prices()).unwrap_or_default();
        let _ = rows.iter().try_for_each(emit);
    },
)
.indexed(&[&["NAME"]]);

const NANOSECONDS: SqlType = DoubleUnsigned(14, 3);
const PERCENT: SqlType = DoubleUnsigned(14, 6);

const PRICE_COLUMNS: &[ColumnDef<PriceRow>] = &[
    column(
        "NAME",
        VarChar(128),
        "Name of the instrument, as in setup_instruments, or `(reading the counts)`, `(connections)`.",
        |row| (&row.name).into(),
    ),
    nullable("KIND", VarChar(32), "Kind of event, which decides its cost, as in a price file.", |row| {
        row.kind.into()
    }),
    nullable("LEVEL", Enum(LEVELS_NAMED), "The level its events were taken at.", |row| row.level.into()),
    column(
        "EVENTS",
        BigIntUnsigned,
        "Number of events since the last reading; for an instrument that is off, an estimate of the events it would \
     have had. For table I/O these are waits, not rows; metadata locks count once for each transaction.",
        |row| row.events.into(),
    ),
    column("NS_PER_EVENT", NANOSECONDS, "Nanoseconds of the server's CPU time an event costs.", |row| {
        Value::Double(row.nanoseconds.value)
    }),
    column("NS_LOW", NANOSECONDS, "Lower end of its interval: what it may be at least.", |row| {
        Value::Double(row.nanoseconds.low)
    }),
    column("NS_HIGH", NANOSECONDS, "Upper end of the interval.", |row| Value::Double(row.nanoseconds.high)),
    column(
        "CPU_PERCENT",
        PERCENT,
        "Cost of these events, in percent of the CPU time that the server used.",
        |row| percent(row.share.value),
    ),
    column("CPU_PERCENT_LOW", PERCENT, "Lower end of its interval: what it may be at least.", |row| {
        percent(row.share.low)
    }),
    column("CPU_PERCENT_HIGH", PERCENT, "Upper end of the interval.", |row| percent(row.share.high)),
];

fn percent(share: f64) -> Value<'static> {
    Value::Double(share * 100.0)
}

/// The table `tare_decisions`.
pub static DECISIONS: TableDef<DecisionRow> = TableDef::new(
    "tare_decisions",
    "A table of tare itself: the last 1,000 decisions of the governor, which keeps the budget, the oldest first.",
    &[DECISION_COLUMNS],
    |_: &Engine, _, emit| {
        let rows = KEEPER.get().map(|keeper| keeper.decisions()).unwrap_or_default();
        let _ = rows.iter().try_for_each(emit);
    },
)
.indexed(&[&["DECISION_ID"], &["NAME"]]);

const DECISION_COLUMNS: &[ColumnDef<DecisionRow>] = &[
    column(
        "DECISION_ID",
        BigIntUnsigned,
        "Rises by one with each row, from 1 at the server's start.",
        |row| row.id.into(),
    ),
    column("DECISION_TIME", TimestampMicros, "When it was made; the same for all of one sample.", |row| {
        Value::Timestamp(row.time_us)
    }),
    nullable(
        "NAME",
        VarChar(128),
        "Name of the instrument, or of a group, such as `stage, all others`; NULL if the decision is about all, such \
     as how many statements are sampled.",
        |row| row.name.as_ref().into(),
    ),
    nullable("FROM_LEVEL", Enum(LEVELS_NAMED), "Its level before.", |row| row.from.into()),
    nullable("TO_LEVEL", Enum(LEVELS_NAMED), "Its level since.", |row| row.to.into()),
    column("WHY", VarChar(512), "The reason.", |row| (&row.why).into()),
    column(
        "CPU_PERCENT",
        PERCENT,
        "What all events cost in the reading it was made on, in percent of the CPU time.",
        |row| percent(row.share),
    ),
    column("BUDGET_PERCENT", PERCENT, "The budget, in percent of the CPU time; 0: no limit.", |row| {
        percent(row.budget)
    }),
];
