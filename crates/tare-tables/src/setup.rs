//! What is instrumented and where events go: the tables one changes to control the engine.

use tare_engine::Engine;
use tare_engine::snapshot::{Consumer, Instrument, Kind};

use crate::column::{ColumnDef, YES_NO, column, yes_no};
use crate::definition::{Changes, TableDef};
use crate::table::SqlType::VarChar;
use crate::table::{TableError, Value};

/// A consumer and whether it is on.
pub type ConsumerState = (Consumer, bool);

/// `setup_instruments`
pub static INSTRUMENTS: TableDef<Instrument> = TableDef::new(
    "setup_instruments",
    "The instrumented points of the server. An UPDATE acts at once, on what already exists too: mutexes and \
     rwlocks included, which in the reference must be chosen at start-up.",
    &[INSTRUMENT_COLUMNS],
    |engine, emit| {
        let _ = engine.instruments().iter().filter(|it| it.kind != Kind::Thread).try_for_each(emit);
    },
)
.indexed(&[&["NAME"]])
.updated(&["ENABLED", "TIMED"], update_instrument);

const INSTRUMENT_COLUMNS: &[ColumnDef<Instrument>] = &[
    column("NAME", VarChar(128), "Name of the instrument.", |row| row.name.into()),
    column("ENABLED", YES_NO, "Whether its events are recorded. May be updated.", |row| yes_no(row.enabled)),
    column(
        "TIMED",
        YES_NO,
        "Whether its events are timed. May be updated; stays NO for memory instruments.",
        |row| yes_no(row.timed),
    ),
];

fn update_instrument(engine: &Engine, changes: &Changes<'_>) -> Result<bool, TableError> {
    let enabled = changes.flag("ENABLED")?;
    let timed = changes.flag("TIMED")?;
    let Some(Value::Text(name)) = changes.held("NAME") else { return Ok(false) };
    let Some(instrument) = engine.instruments().into_iter().find(|it| it.name == *name) else {
        return Ok(false);
    };
    // Memory has no duration: the reference accepts TIMED = 'YES' and leaves it at NO.
    let timed = timed.filter(|_| instrument.kind != Kind::Memory);
    engine.set_instrument(instrument.id, enabled, timed);
    Ok(true)
}

/// `setup_consumers`
pub static CONSUMERS: TableDef<ConsumerState> = TableDef::new(
    "setup_consumers",
    "Where events may go. A consumer works only while those above it do: global_instrumentation, then \
     thread_instrumentation, then `_current`, then `_history` and `_history_long`.",
    &[CONSUMER_COLUMNS],
    |engine, emit| {
        let _ = Consumer::ALL.iter().try_for_each(|&it| emit(&(it, engine.consumer(it))));
    },
)
.indexed(&[&["NAME"]])
.updated(&["ENABLED"], update_consumer);

const CONSUMER_COLUMNS: &[ColumnDef<ConsumerState>] = &[
    column("NAME", VarChar(64), "Name of the consumer.", |(consumer, _)| consumer.name().into()),
    column("ENABLED", YES_NO, "Whether it takes events. May be updated.", |(_, on)| yes_no(*on)),
];

fn update_consumer(engine: &Engine, changes: &Changes<'_>) -> Result<bool, TableError> {
    let enabled = changes.flag("ENABLED")?;
    let Some(Value::Text(name)) = changes.held("NAME") else { return Ok(false) };
    let consumer = Consumer::ALL.into_iter().find(|consumer| consumer.name() == name);
    let (Some(consumer), Some(on)) = (consumer, enabled) else { return Ok(false) };
    engine.set_consumer(consumer, on);
    Ok(true)
}
