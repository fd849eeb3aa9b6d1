//! Sample rows of setup tables, and of the provider itself.

use tare_engine::objects::{self, ObjectRule};
use tare_engine::snapshot::*;
use tare_engine::{ActorRule, Recording};

use super::{Sample, some};
use crate::declarations::budget::{DecisionRow, NumberWithInterval, PriceRow};
use crate::declarations::handle::InstanceRow;
use crate::declarations::setup::ConsumerState;
use crate::declarations::status::StatusRow;

impl Sample for Instrument {
    fn full() -> Self {
        Instrument {
            id: 1,
            kind: Kind::Memory,
            name: "memory/sql/THD::main_mem_root",
            enabled: true,
            timed: true,
            level: Recording::Lean,
            held: true,
            changes: 0,
            properties: Properties { global: true, user: true, ..Properties::default() },
        }
    }
    fn bare() -> Self {
        Instrument {
            enabled: false,
            timed: false,
            held: false,
            changes: 0,
            properties: Properties::default(),
            ..Self::full()
        }
    }
}

impl Sample for PriceRow {
    fn full() -> Self {
        PriceRow {
            name: "wait/synch/mutex/sql/LOCK_open".to_owned(),
            kind: Some("mutex"),
            level: Some("lean"),
            events: 7,
            nanoseconds: NumberWithInterval { value: 9.0, low: 4.5, high: 18.0 },
            share: NumberWithInterval { value: 0.01, low: 0.005, high: 0.02 },
        }
    }
    fn bare() -> Self {
        PriceRow { name: "(reading the counts)".to_owned(), kind: None, level: None, ..Self::full() }
    }
}

impl Sample for DecisionRow {
    fn full() -> Self {
        DecisionRow {
            id: 3,
            time_us: 1_700_000_000_000_000,
            name: some("wait/synch/mutex/sql/LOCK_open"),
            from: Some("lean"),
            to: Some("off"),
            why: "over budget".to_owned(),
            share: 0.02,
            budget: 0.01,
        }
    }
    fn bare() -> Self {
        DecisionRow { name: None, from: None, to: None, ..Self::full() }
    }
}

impl Sample for ThreadInstrument {
    fn full() -> Self {
        let properties = Properties { global: true, ..Properties::default() };
        ThreadInstrument { id: 1, name: "thread/sql/main", enabled: true, history: true, properties }
    }
    fn bare() -> Self {
        ThreadInstrument { enabled: false, history: false, properties: Properties::default(), ..Self::full() }
    }
}

impl Sample for ConsumerState {
    fn full() -> Self {
        (Consumer::StatementsDigest, true)
    }
    fn bare() -> Self {
        (Consumer::EventsStagesCurrent, false)
    }
}

impl Sample for ActorRule {
    fn full() -> Self {
        let text = str::to_owned;
        ActorRule { host: text("h"), user: text("ann"), role: text("%"), enabled: true, history: true }
    }
    fn bare() -> Self {
        ActorRule { user: String::new(), enabled: false, history: false, ..Self::full() }
    }
}

impl Sample for ObjectRule {
    fn full() -> Self {
        let (schema, name) = ("test".to_owned(), "%".to_owned());
        ObjectRule { object_type: objects::TABLE, schema, name, enabled: true, timed: true }
    }
    fn bare() -> Self {
        ObjectRule { schema: String::new(), enabled: false, timed: false, ..Self::full() }
    }
}

impl Sample for TimerRow {
    fn full() -> Self {
        TimerRow {
            name: "CYCLE",
            frequency: Some(2_000_000_000),
            resolution: Some(1),
            overhead: Some(u64::MAX),
        }
    }
    fn bare() -> Self {
        TimerRow { name: "TICK", frequency: None, resolution: None, overhead: None }
    }
}

impl Sample for TimerSetting {
    fn full() -> Self {
        TimerSetting { name: "idle", timer: "TICK" }
    }
    fn bare() -> Self {
        Self::full()
    }
}

impl Sample for InstanceRow {
    fn full() -> Self {
        InstanceRow::of_file(&FileRow::full())
    }
    fn bare() -> Self {
        InstanceRow::of_socket(&SocketRow::bare())
    }
}

impl Sample for StatusRow {
    fn full() -> Self {
        ("version".into(), "0".to_owned().into())
    }
    fn bare() -> Self {
        ("x".repeat(100).into(), "y".repeat(2000).into())
    }
}
