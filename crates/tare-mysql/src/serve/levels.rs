//! `tare_levels`: how much the engine keeps of the events of each instrument that the server has on.

use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;

use tare_engine::Engine;
use tare_host::governor::Governed;
use tare_tables::level::LEVELS;
use tare_tables::{Access, Column, Query, RowSink, Table, TableError, Value};

use super::setup::yes_no;
use crate::server::presence::while_there;
use crate::server::{ServerHost, events, instruments, memory};

/// The level of what is off.
const OFF: &str = "off";

/// Returns the names of the instruments that the server has off.
fn off() -> HashSet<String> {
    let names = while_there(|| {
        let timed = instruments::all().chain(events::all());
        let off = timed.chain(memory::classes()).filter(|class| class.enabled.load(Relaxed) == 0);
        off.filter_map(instruments::name).map(str::to_owned).collect()
    });
    names.unwrap_or_default()
}

/// The table `tare_levels`.
pub(super) struct Levels;

impl Table for Levels {
    fn name(&self) -> &'static str {
        LEVELS.name()
    }

    fn doc(&self) -> &'static str {
        LEVELS.doc()
    }

    fn access(&self) -> Access {
        LEVELS.access()
    }

    fn columns(&self) -> &[Column] {
        LEVELS.columns()
    }

    fn scan(&self, engine: &Engine, _: &Query<'_>, sink: RowSink<'_>) {
        let off = off();
        let _ended = engine.instruments().iter().try_for_each(|instrument| {
            let is_on = instrument.enabled && !off.contains(instrument.name);
            let level = if is_on { instrument.level.name() } else { OFF };
            sink(&[instrument.name.into(), level.into(), yes_no(instrument.held)])
        });
    }

    fn update(&self, engine: &Engine, row: &[Value], set: &[(usize, Value)]) -> Result<bool, TableError> {
        let is_updated = LEVELS.update(engine, row, set)?;
        // What the server has off stays so.
        ServerHost.levels_changed();
        Ok(is_updated)
    }
}
