//! The tables of statements, stages and transactions.

use super::Served;

/// Lists tables: the name, the server's class of each, and its indexes.
macro_rules! served {
    ($($name:literal, $class:literal, $indexes:expr;)*) => {
        [$(Served { name: $name, symbols: symbols!($class), indexes: $indexes }),*]
    };
}

/// The tables of statements, stages and transactions.
pub(super) static EVENTS: [Served; 27] = served! {
    "events_stages_current", "27table_events_stages_current", &[&["THREAD_ID", "EVENT_ID"]];
    "events_stages_history", "27table_events_stages_history", &[&["THREAD_ID", "EVENT_ID"]];
    "events_stages_history_long", "32table_events_stages_history_long", &[];
    "events_stages_summary_global_by_event_name", "31table_esgs_global_by_event_name", &[&["EVENT_NAME"]];
    "events_stages_summary_by_thread_by_event_name", "34table_esgs_by_thread_by_event_name", &[&["THREAD_ID", "EVENT_NAME"]];
    "events_stages_summary_by_account_by_event_name", "35table_esgs_by_account_by_event_name", &[&["USER", "HOST", "EVENT_NAME"]];
    "events_stages_summary_by_user_by_event_name", "32table_esgs_by_user_by_event_name", &[&["USER", "EVENT_NAME"]];
    "events_stages_summary_by_host_by_event_name", "32table_esgs_by_host_by_event_name", &[&["HOST", "EVENT_NAME"]];
    "events_statements_current", "31table_events_statements_current", &[&["THREAD_ID", "EVENT_ID"]];
    "events_statements_history", "31table_events_statements_history", &[&["THREAD_ID", "EVENT_ID"]];
    "events_statements_history_long", "36table_events_statements_history_long", &[];
    "events_statements_summary_global_by_event_name", "31table_esms_global_by_event_name", &[&["EVENT_NAME"]];
    "events_statements_summary_by_thread_by_event_name", "34table_esms_by_thread_by_event_name", &[&["THREAD_ID", "EVENT_NAME"]];
    "events_statements_summary_by_account_by_event_name", "35table_esms_by_account_by_event_name", &[&["USER", "HOST", "EVENT_NAME"]];
    "events_statements_summary_by_user_by_event_name", "32table_esms_by_user_by_event_name", &[&["USER", "EVENT_NAME"]];
    "events_statements_summary_by_host_by_event_name", "32table_esms_by_host_by_event_name", &[&["HOST", "EVENT_NAME"]];
    "events_transactions_current", "33table_events_transactions_current", &[&["THREAD_ID", "EVENT_ID"]];
    "events_transactions_history", "33table_events_transactions_history", &[&["THREAD_ID", "EVENT_ID"]];
    "events_transactions_history_long", "38table_events_transactions_history_long", &[];
    "events_transactions_summary_global_by_event_name", "30table_ets_global_by_event_name", &[&["EVENT_NAME"]];
    "events_transactions_summary_by_thread_by_event_name", "33table_ets_by_thread_by_event_name", &[&["THREAD_ID", "EVENT_NAME"]];
    "events_transactions_summary_by_account_by_event_name", "34table_ets_by_account_by_event_name", &[&["USER", "HOST", "EVENT_NAME"]];
    "events_transactions_summary_by_user_by_event_name", "31table_ets_by_user_by_event_name", &[&["USER", "EVENT_NAME"]];
    "events_transactions_summary_by_host_by_event_name", "31table_ets_by_host_by_event_name", &[&["HOST", "EVENT_NAME"]];
    "events_statements_summary_by_digest", "20table_esms_by_digest", &[&["SCHEMA_NAME", "DIGEST"]];
    "events_statements_histogram_global", "17table_esmh_global", &[&["BUCKET_NUMBER"]];
    "events_statements_histogram_by_digest", "20table_esmh_by_digest", &[&["SCHEMA_NAME", "DIGEST", "BUCKET_NUMBER"]];
};
