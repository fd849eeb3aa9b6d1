//! What tare itself is doing: its version, memory, losses and consumers, and what the host adds.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::OnceLock;

use tare_engine::Engine;
use tare_engine::snapshot::Consumer;

use crate::column::column;
use crate::definition::{Emit, TableDef};
use crate::table::SqlType::VarChar;

/// A name and its value.
pub type StatusRow = (Cow<'static, str>, String);

/// Gives the host's own rows of `tare_status`, each time the table is read.
pub type StatusSource = fn() -> Vec<StatusRow>;

static HOST_SOURCE: OnceLock<StatusSource> = OnceLock::new();

/// Lets the host add rows to `tare_status`: its version, the interface it uses, its settings. The first
/// source stays for the life of the process; false if there was one already.
pub fn set_status_source(source: StatusSource) -> bool {
    HOST_SOURCE.set(source).is_ok()
}

/// `tare_status`
pub static STATUS: TableDef<StatusRow> = TableDef::new(
    "tare_status",
    "A table of tare's own, not in the reference: version, memory in bytes, what did not fit, which \
     consumers are on, and what the host says of itself.",
    &[&[
        column("NAME", VarChar(64), "What the row is about.", |(name, _)| clipped(name, 64).into()),
        column("VALUE", VarChar(1024), "Its value, as text.", |(_, value)| clipped(value, 1024).into()),
    ]],
    |engine, emit| {
        let _ = own_rows(engine, emit);
    },
);

fn own_rows(engine: &Engine, emit: Emit<'_, StatusRow>) -> ControlFlow<()> {
    let mut row = |name: Cow<'static, str>, value: String| emit(&(name, value));
    row("version".into(), env!("CARGO_PKG_VERSION").to_owned())?;
    let host_rows = HOST_SOURCE.get().map(|source| source()).unwrap_or_default();
    host_rows.into_iter().try_for_each(|(name, value)| row(name, value))?;

    let (used, cap) = engine.memory();
    row("memory_used".into(), used.to_string())?;
    row("memory_cap".into(), cap.to_string())?;

    let lost = engine.lost();
    row("lost".into(), lost.iter().map(|it| it.lost).sum::<u64>().to_string())?;
    lost.iter().try_for_each(|it| row(it.name.into(), it.lost.to_string()))?;

    Consumer::ALL.into_iter().try_for_each(|consumer| {
        let state = if engine.consumer(consumer) { "YES" } else { "NO" };
        row(format!("consumer_{}", consumer.name()).into(), state.to_owned())
    })
}

/// At most `limit` characters: what a host says of itself has no bound, the column has.
fn clipped(text: &str, limit: usize) -> String {
    text.chars().take(limit).collect()
}
