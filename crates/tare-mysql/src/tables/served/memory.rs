//! The tables of memory, but for that of all: see [`crate::tables::refreshed`].

use super::{Served, symbols};

/// The tables of memory.
pub(super) static MEMORY: [Served; 4] = [
    Served {
        name: "memory_summary_by_thread_by_event_name",
        symbols: symbols!("34table_mems_by_thread_by_event_name"),
        indexes: &[&["THREAD_ID", "EVENT_NAME"]],
    },
    Served {
        name: "memory_summary_by_account_by_event_name",
        symbols: symbols!("35table_mems_by_account_by_event_name"),
        indexes: &[&["USER", "HOST", "EVENT_NAME"]],
    },
    Served {
        name: "memory_summary_by_user_by_event_name",
        symbols: symbols!("32table_mems_by_user_by_event_name"),
        indexes: &[&["USER", "EVENT_NAME"]],
    },
    Served {
        name: "memory_summary_by_host_by_event_name",
        symbols: symbols!("32table_mems_by_host_by_event_name"),
        indexes: &[&["HOST", "EVENT_NAME"]],
    },
];
