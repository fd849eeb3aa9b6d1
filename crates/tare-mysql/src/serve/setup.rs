//! `setup_instruments` and `setup_consumers` as the server has them, to read: an UPDATE is for the server's
//! own tables.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use tare_engine::Engine;
use tare_tables::{Column, Query, RowSink, SqlType, Table, Value};

use crate::server::presence::while_there;
use crate::server::{consumers, events, instruments, memory};

pub(super) const YES_NO: SqlType = SqlType::Enum(&["YES", "NO"]);

pub(super) const fn column(name: &'static str, sql_type: SqlType, doc: &'static str) -> Column {
    Column { name, sql_type, nullable: false, default: None, doc }
}

pub(super) const fn nullable(name: &'static str, sql_type: SqlType, doc: &'static str) -> Column {
    Column { nullable: true, ..column(name, sql_type, doc) }
}

pub(super) fn yes_no(is_so: bool) -> Value<'static> {
    if is_so { "YES" } else { "NO" }.into()
}

fn is_on(flag: &AtomicU8) -> Value<'static> {
    yes_no(flag.load(Relaxed) != 0)
}

/// The table `setup_instruments`.
pub(super) struct Instruments;

impl Table for Instruments {
    fn name(&self) -> &'static str {
        "setup_instruments"
    }

    fn doc(&self) -> &'static str {
        "The instruments whose events tare counts, and whether the server has them on. The server's own table has those of \
         errors and of its Performance Schema's memory, too."
    }

    fn columns(&self) -> &[Column] {
        const {
            &[
                column("NAME", SqlType::VarChar(128), "Name of the instrument."),
                column("ENABLED", YES_NO, "Whether its events are counted."),
                nullable("TIMED", YES_NO, "Whether its events are timed; NULL for memory."),
            ]
        }
    }

    fn scan(&self, _: &Engine, _: &Query<'_>, sink: RowSink<'_>) {
        let rows = while_there(|| {
            let timed = instruments::all().chain(events::all()).map(|class| (class, is_on(&class.timed)));
            let untimed = memory::classes().map(|class| (class, Value::Null));
            let row = |(class, timed)| {
                let name = instruments::name(class).unwrap_or_default().to_owned();
                [name.into(), is_on(&class.enabled), timed]
            };
            timed.chain(untimed).map(row).collect::<Vec<[Value<'static>; 3]>>()
        });
        let _ended = rows.iter().flatten().try_for_each(|row| sink(row));
    }
}

/// The table `setup_consumers`.
pub(super) struct Consumers;

impl Table for Consumers {
    fn name(&self) -> &'static str {
        "setup_consumers"
    }

    fn doc(&self) -> &'static str {
        "The consumers, and whether the server has them on."
    }

    fn columns(&self) -> &[Column] {
        const {
            &[
                column("NAME", SqlType::VarChar(64), "Name of the consumer."),
                column("ENABLED", YES_NO, "Whether it is on."),
            ]
        }
    }

    fn scan(&self, _: &Engine, _: &Query<'_>, sink: RowSink<'_>) {
        let _ended =
            consumers::all().try_for_each(|(consumer, flag)| sink(&[consumer.name().into(), is_on(flag)]));
    }
}
