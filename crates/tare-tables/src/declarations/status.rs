//! The table `tare_status`: version, memory, losses and consumers from the engine, and the rows that the host
//! registers.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::OnceLock;

use tare_engine::Engine;

use super::budget;
use crate::framework::change::RowChanges;
use crate::framework::column::column;
use crate::framework::definition::{Emit, TableDef};
use crate::table::SqlType::VarChar;
use crate::table::{TableError, Value};

/// Name and value of a row.
pub type StatusRow = (Cow<'static, str>, StatusValue);

/// A value of `tare_status`.
#[derive(Clone)]
pub enum StatusValue {
    /// A value that is known.
    Known(String),
    /// A value that is expensive, so it is computed only if read.
    Asked(Rc<dyn Fn() -> String>),
}

impl StatusValue {
    fn text(&self) -> Cow<'_, str> {
        match self {
            StatusValue::Known(text) => Cow::Borrowed(text),
            StatusValue::Asked(ask) => Cow::Owned(ask()),
        }
    }
}

impl From<String> for StatusValue {
    fn from(text: String) -> Self {
        StatusValue::Known(text)
    }
}

/// Function that returns the host's own rows of `tare_status`. Called each time the table is read.
pub type StatusSource = fn() -> Vec<StatusRow>;

static HOST_SOURCE: OnceLock<StatusSource> = OnceLock::new();

/// Registers the source of the host's rows in `tare_status`: its version, its interface, its settings. It
/// stays for the life of the process. Returns false if there is one already.
pub fn set_status_source(source: StatusSource) -> bool {
    HOST_SOURCE.set(source).is_ok()
}

/// The table `tare_status`.
pub static STATUS: TableDef<StatusRow> = TableDef::new(
    "tare_status",
    "A table of tare itself: its state and settings, its use of memory, what did not fit, and which consumers are on. Rows that \
     may be updated: `level`, `sample`, `slow_after`, `budget`, `budget_p95` and `budget_strict`, with the values of the options \
     of these names.",
    &[&[
        column("NAME", VarChar(64), "What the row is about.", |(name, _): &StatusRow| name.clone().into()),
        column("VALUE", VarChar(1024), "Its value, as text.", |(_, value): &StatusRow| {
            Value::Text(value.text())
        }),
    ]],
    |engine, _, emit| {
        let _ = own_rows(engine, emit);
    },
)
.indexed(&[&["NAME"]])
.updated(&["VALUE"], update);

fn update(_: &Engine, changes: &RowChanges<'_>) -> Result<bool, TableError> {
    match (changes.held("NAME"), changes.value("VALUE")) {
        (Some(Value::Text(name)), Some(Value::Text(value))) => budget::set(name, value).map(|()| true),
        _ => Err(TableError::WrongUsage),
    }
}

fn own_rows(engine: &Engine, emit: Emit<'_, StatusRow>) -> ControlFlow<()> {
    let mut told = |name, value| emit(&(name, value));
    told("version".into(), env!("CARGO_PKG_VERSION").to_owned().into())?;
    let host_rows = HOST_SOURCE.get().map(|source| source()).unwrap_or_default();
    host_rows.into_iter().try_for_each(|(name, value)| told(name, value))?;
    let mut row = |name: Cow<'static, str>, value: String| told(name, value.into());

    let (used, cap) = engine.memory();
    row("memory_used".into(), used.to_string())?;
    row("memory_cap".into(), cap.to_string())?;

    row("digests_evicted".into(), engine.evicted_digests().to_string())?;
    let lost = engine.lost();
    row("lost".into(), lost.iter().map(|it| it.lost).sum::<u64>().to_string())?;
    lost.iter().try_for_each(|it| row(it.name.into(), it.lost.to_string()))?;

    engine.consumers().try_for_each(|consumer| {
        let state = if engine.consumer(consumer) { "YES" } else { "NO" };
        row(format!("consumer_{}", consumer.name()).into(), state.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Query, Table, Value};

    fn host_rows() -> Vec<StatusRow> {
        let abi = StatusValue::Asked(Rc::new(|| "10.11".to_owned()));
        vec![("endpoint".into(), "x".repeat(2000).into()), ("abi".into(), abi)]
    }

    fn read() -> Vec<(String, String)> {
        let mut rows = Vec::new();
        STATUS.scan(&tare_engine::Engine::new(), &Query::ALL, &mut |row| {
            let [Value::Text(name), Value::Text(value)] = [row.value(0), row.value(1)] else {
                panic!("not two texts")
            };
            rows.push((name.to_string(), value.to_string()));
            ControlFlow::Continue(())
        });
        rows
    }

    #[test]
    fn the_status_tells_of_tare_and_of_its_host() {
        let named = |rows: &[(String, String)], wanted: &str| -> Option<String> {
            rows.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone())
        };
        let alone = read();
        assert_eq!(named(&alone, "version").as_deref(), Some(env!("CARGO_PKG_VERSION")));
        assert_eq!(named(&alone, "lost").as_deref(), Some("0"));
        assert!(named(&alone, "memory_used").is_some() && named(&alone, "memory_cap").is_some());
        assert!(named(&alone, "consumer_statements_digest").is_some());
        assert_eq!(named(&alone, "abi"), None);

        assert!(set_status_source(host_rows));
        assert!(!set_status_source(host_rows), "the first stays");
        let hosted = read();
        assert_eq!(hosted.len(), alone.len() + 2);
        assert_eq!(named(&hosted, "abi").as_deref(), Some("10.11"));
        assert_eq!(named(&hosted, "endpoint").map(|path| path.len()), Some(1024), "cut to its column");
    }
}
