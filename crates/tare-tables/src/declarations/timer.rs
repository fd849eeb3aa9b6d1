//! The clocks with which events can be timed.

use tare_engine::Engine;
use tare_engine::snapshot::{TIMED_EVENTS, TIMER_NAMES, TimerRow, TimerSetting};

use crate::framework::change::RowChanges;
use crate::framework::column::{column, nullable, signed};
use crate::framework::definition::TableDef;
use crate::table::SqlType::{BigInt, Enum, VarChar};
use crate::table::{TableError, Value};

/// The table `performance_timers`.
pub static PERFORMANCE_TIMERS: TableDef<TimerRow> = TableDef::new(
    "performance_timers",
    "The clocks of this machine. Times in all tables are in picoseconds, whichever clock is used.",
    &[&[
        column("TIMER_NAME", Enum(TIMER_NAMES), "Name of the clock.", |row| row.name.into()),
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
    |engine, _, emit| {
        let _ = engine.timers().iter().try_for_each(emit);
    },
);

/// The table `setup_timers`.
pub static SETUP_TIMERS: TableDef<TimerSetting> = TableDef::new(
    "setup_timers",
    "The clock that events are timed with, as in MariaDB's own. An UPDATE is accepted and kept, but has no effect: \
     every event is timed with the most precise clock, CYCLE if the machine has it. It always reports a changed row, \
     and warning 1681, as in MariaDB's own: the table is deprecated.",
    &[&[
        column("NAME", VarChar(64), "Type of event.", |row: &TimerSetting| row.name.into()),
        column("TIMER_NAME", Enum(TIMER_NAMES), "Name of a clock. May be updated.", |row| row.timer.into()),
    ]],
    |engine, _, emit| {
        let _ = engine.timer_settings().iter().try_for_each(emit);
    },
)
.indexed(&[&["NAME"]])
.updated(&["TIMER_NAME"], update_timer);

fn update_timer(engine: &Engine, row: &RowChanges<'_>) -> Result<bool, TableError> {
    let known = |names: &[&'static str], column| {
        let text = row.text(column)?;
        let name = names.iter().copied().find(|name| name.eq_ignore_ascii_case(&text));
        name.ok_or(TableError::BadValue(column))
    };
    let name = known(&TIMED_EVENTS, "NAME")?;
    Ok(engine.set_timer(TimerSetting { name, timer: known(TIMER_NAMES, "TIMER_NAME")? }))
}
