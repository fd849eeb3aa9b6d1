//! The clocks events can be timed with.

use tare_engine::snapshot::TimerRow;

use crate::column::{column, nullable, signed};
use crate::definition::TableDef;
use crate::table::SqlType::{BigInt, Enum};
use crate::table::Value;

/// `performance_timers`
pub static PERFORMANCE_TIMERS: TableDef<TimerRow> = TableDef::new(
    "performance_timers",
    "The clocks of this machine. Times in all tables are picoseconds, whatever clock took them.",
    &[&[
        column(
            "TIMER_NAME",
            Enum(&["CYCLE", "NANOSECOND", "MICROSECOND", "MILLISECOND", "TICK"]),
            "Name of the clock.",
            |row| row.name.into(),
        ),
        nullable(
            "TIMER_FREQUENCY",
            BigInt,
            "Units per second; NULL where the clock does not exist.",
            |row| row.frequency.map_or(Value::Null, signed),
        ),
        nullable("TIMER_RESOLUTION", BigInt, "Smallest step, in units.", |row| {
            row.resolution.map_or(Value::Null, signed)
        }),
        nullable("TIMER_OVERHEAD", BigInt, "Cost of reading the clock once, in cycles.", |row| {
            row.overhead.map_or(Value::Null, signed)
        }),
    ]],
    |engine, emit| {
        let _ = engine.timers().iter().try_for_each(emit);
    },
);
