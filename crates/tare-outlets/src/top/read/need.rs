//! The consumers and instruments that a view needs, and how to enable them.

use super::Reader;
use crate::source::{Error, Kind};
use crate::top::look::{About, Ask, View};
use crate::units;

/// The requirements of a view.
struct Need {
    consumers: &'static [&'static str],
    /// Pattern of LIKE.
    instruments: &'static str,
}

fn need(ask: &Ask) -> Need {
    let (consumers, instruments): (&[&str], &str) = match (&ask.about, ask.view) {
        (Some(About::Digest { .. }), _) => (
            &["events_statements_history_long", "events_stages_history_long", "events_waits_history_long"],
            "stage/%",
        ),
        (Some(About::Table { .. }), _) | (None, View::Tables) => (&[], "wait/io/table/%"),
        (Some(About::Thread(_)), _) | (None, View::Threads) => {
            (&["events_statements_current", "events_waits_current"], "statement/%")
        }
        (Some(About::Prepared { .. }), _) | (None, View::Statements) => {
            (&["statements_digest"], "statement/%")
        }
        (None, View::Waits) => (&[], "wait/%"),
        (None, View::Locks) => (&[], "wait/lock/metadata/%"),
        (None, View::Files) => (&[], "wait/io/file/%"),
        (None, View::Memory) => (&[], "memory/%"),
    };
    Need { consumers, instruments }
}

/// Notes what is disabled, and how to enable it.
pub(super) fn check(reader: &mut Reader, ask: &Ask, notes: &mut Vec<String>) -> Result<(), Error> {
    let need = need(ask);
    let consumers = reader.rows("setup_consumers", &["NAME", "ENABLED"], "", notes)?;
    let above = ["global_instrumentation", "thread_instrumentation"];
    let wanted: Vec<&str> = above.iter().chain(need.consumers).copied().collect();
    let off = |name: &&&str| {
        let mut rows = consumers.iter();
        rows.any(|row| row.text(0).as_deref() == Some(name) && row.text(1).as_deref() == Some("NO"))
    };
    let off: Vec<&str> = wanted.iter().filter(off).copied().collect();
    if !off.is_empty() {
        notes.push(format!(
            "Off: consumers. UPDATE performance_schema.setup_consumers SET ENABLED = 'YES' WHERE NAME IN ('{}')",
            off.join("', '")
        ));
    }
    let filter = format!("WHERE `NAME` LIKE '{}'", need.instruments);
    let instruments = reader.rows("setup_instruments", &["ENABLED"], &filter, notes)?;
    let off = instruments.iter().filter(|row| row.text(0).as_deref() == Some("NO")).count();
    if off > 0 {
        let (off, all) = (units::count(off as u64), units::count(instruments.len() as u64));
        let timed = if need.instruments.starts_with("memory") { "" } else { ", TIMED = 'YES'" };
        notes.push(format!(
            "Off: {off} of {all} instruments {pattern}. UPDATE performance_schema.setup_instruments SET ENABLED = \
             'YES'{timed} WHERE NAME LIKE '{pattern}'{start}",
            pattern = need.instruments,
            start = at_start(reader.source.kind(), need.instruments)
        ));
    }
    Ok(())
}

/// Returns a remark on what the built-in can only enable at its start.
fn at_start(kind: Kind, instruments: &str) -> &'static str {
    match (kind, instruments) {
        (Kind::Tare, _) => "",
        (_, "wait/%") => {
            "; mutexes and the like only at start-up: performance-schema-instrument = 'wait/%=ON'"
        }
        (_, "memory/%") => "; what was allocated before is not counted",
        _ => "",
    }
}
