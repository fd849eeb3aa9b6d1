//! Levels: how much is kept of each instrument's events.

use tare_engine::snapshot::{Instrument, Kind};
use tare_engine::{Engine, Recording};

use crate::framework::change::RowChanges;
use crate::framework::column::{ColumnDef, YES_NO, column, yes_no};
use crate::framework::definition::TableDef;
use crate::table::SqlType::{Enum, VarChar};
use crate::table::{TableError, Value};

/// The table `tare_levels`.
pub static LEVELS: TableDef<Instrument> = TableDef::new(
    "tare_levels",
    "A table of tare itself: how much is kept of the events of each instrument. An UPDATE takes effect at once. The \
     governor, which keeps the budget, does not change what was set in this way, by an option, or in \
     setup_instruments; HELD is then YES. \
     At level sampled the following are estimates from the statements that are recorded: stages, uncontended locks, sockets, idle \
     connections, table locks, times of table I/O, and instructions of stored programs other than SQL. All other \
     figures are exact. An uncontended lock is timed only at level exact; at other levels its TIMER_WAIT is 0. A \
     lock that was waited for is always timed.",
    &[COLUMNS],
    |engine, _, emit| {
        let _ = engine.instruments().iter().filter(|it| it.kind != Kind::Thread).try_for_each(emit);
    },
)
.indexed(&[&["NAME"]])
.updated(&["LEVEL", "HELD"], update);

const COLUMNS: &[ColumnDef<Instrument>] = &[
    column("NAME", VarChar(128), "Name of the instrument, as in setup_instruments.", |row| row.name.into()),
    column(
        "LEVEL",
        Enum(LEVELS_NAMED),
        "How much is kept. off: nothing, ENABLED is NO; counts: events are counted; sums: also timed, except \
     uncontended locks; sampled: also recorded, for one statement in every sample_weight (tare_status); lean: \
     recorded for every statement; exact: uncontended locks are timed, too. May be updated.",
        |row| if row.enabled { row.level.name() } else { OFF }.into(),
    ),
    column(
        "HELD",
        YES_NO,
        "Whether a person has set it, so that the governor does not change it. An UPDATE to NO lets the governor \
     change it, to YES keeps it as it is. May \
         be updated.",
        |row| yes_no(row.held),
    ),
];

/// The level of an instrument that is not enabled.
const OFF: &str = "off";
pub(crate) const LEVELS_NAMED: &[&str] = &[
    OFF,
    Recording::Counts.name(),
    Recording::Sums.name(),
    Recording::Sampled.name(),
    Recording::Lean.name(),
    Recording::Exact.name(),
];

fn update(engine: &Engine, changes: &RowChanges<'_>) -> Result<bool, TableError> {
    let level = match changes.value("LEVEL") {
        Some(Value::Text(name)) if name.eq_ignore_ascii_case(OFF) => None,
        Some(Value::Text(name)) => Some(Recording::named(name).ok_or(TableError::BadValue("LEVEL"))?),
        _ => return Err(TableError::BadValue("LEVEL")),
    };
    let Some(Value::Text(name)) = changes.held("NAME") else { return Ok(false) };
    let Some(instrument) = engine.instruments().into_iter().find(|it| it.name == *name) else {
        return Ok(false);
    };
    let held = changes.flag("HELD")?;
    if changes.held("LEVEL") != changes.value("LEVEL") {
        engine.set_level(instrument.id, level);
    }
    if let Some(held) = held {
        engine.set_held(instrument.id, held);
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_has_its_name() {
        let names: Vec<&str> = Recording::ALL.into_iter().map(Recording::name).collect();
        assert_eq!(names, LEVELS_NAMED[1..]);
    }
}
