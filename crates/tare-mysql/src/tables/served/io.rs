//! The tables of files, sockets and tables.

use super::{Served, symbols};

const BY_EVENT_NAME: &[&[&str]] = &[&["EVENT_NAME"]];
const BY_OBJECT: &[&[&str]] = &[&["OBJECT_TYPE", "OBJECT_SCHEMA", "OBJECT_NAME"]];

/// The tables of files, sockets and tables.
pub(super) static IO: [Served; 7] = [
    Served {
        name: "file_summary_by_event_name",
        symbols: symbols!("32table_file_summary_by_event_name"),
        indexes: BY_EVENT_NAME,
    },
    Served {
        name: "file_summary_by_instance",
        symbols: symbols!("30table_file_summary_by_instance"),
        indexes: &[&["OBJECT_INSTANCE_BEGIN"], &["FILE_NAME"], &["EVENT_NAME"]],
    },
    Served {
        name: "socket_summary_by_event_name",
        symbols: symbols!("34table_socket_summary_by_event_name"),
        indexes: BY_EVENT_NAME,
    },
    Served {
        name: "socket_summary_by_instance",
        symbols: symbols!("32table_socket_summary_by_instance"),
        indexes: &[&["OBJECT_INSTANCE_BEGIN"], &["EVENT_NAME"]],
    },
    Served {
        name: "table_io_waits_summary_by_table",
        symbols: symbols!("19table_tiws_by_table"),
        indexes: BY_OBJECT,
    },
    Served {
        name: "table_io_waits_summary_by_index_usage",
        symbols: symbols!("25table_tiws_by_index_usage"),
        indexes: &[&["OBJECT_TYPE", "OBJECT_SCHEMA", "OBJECT_NAME", "INDEX_NAME"]],
    },
    Served {
        name: "table_lock_waits_summary_by_table",
        symbols: symbols!("19table_tlws_by_table"),
        indexes: BY_OBJECT,
    },
];
