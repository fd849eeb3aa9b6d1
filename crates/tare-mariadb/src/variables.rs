//! The server's own variables about the Performance Schema, made to speak of tare: clients ask `@@performance_schema`
//! before they ask a table, `performance_schema_*_size` for how much is kept, and `Performance_schema_*_lost` for what
//! was not.

use std::sync::OnceLock;

use tare_engine::{DESCRIPTORS, MAX_INSTRUMENTS, MAX_RULES, STATEMENT_DEPTH};

use crate::entry::ENGINE;
use crate::host::system_variable::VariableError;
use crate::host::{status_variable, system_variable};
use crate::options::Options;

/// What the server says where the built-in takes as many as are needed. Tare does so for most things: `memory-max`
/// bounds them all together.
const AS_NEEDED: i64 = -1;

/// What has no bound of its own.
const UNBOUNDED: [&str; 13] = [
    "max_cond_instances",
    "max_file_instances",
    "max_index_stat",
    "max_metadata_locks",
    "max_mutex_instances",
    "max_prepared_statements_instances",
    "max_program_instances",
    "max_rwlock_instances",
    "max_socket_instances",
    "max_table_handles",
    "max_table_instances",
    "max_table_lock_stat",
    "max_thread_instances",
];

/// Instruments of all kinds share one registry.
const CLASSES: [&str; 9] = [
    "max_cond_classes",
    "max_file_classes",
    "max_memory_classes",
    "max_mutex_classes",
    "max_rwlock_classes",
    "max_socket_classes",
    "max_stage_classes",
    "max_statement_classes",
    "max_thread_classes",
];

/// Every size by the part of its name after `performance_schema_`.
fn sizes(options: &Options) -> Vec<(&'static str, i64)> {
    let (short, long) = (&options.history_size, &options.history_long_size);
    let [accounts, users, hosts] = options.parties_size;
    let of_options = [
        ("accounts_size", accounts),
        ("hosts_size", hosts),
        ("users_size", users),
        ("session_connect_attrs_size", options.session_connect_attrs_size),
        ("digests_size", options.digests_size),
        ("max_digest_length", options.max_digest_length),
        ("max_sql_text_length", options.max_sql_text_length),
        ("events_waits_history_size", short.waits),
        ("events_stages_history_size", short.stages),
        ("events_statements_history_size", short.statements),
        ("events_transactions_history_size", short.transactions),
        ("events_waits_history_long_size", long.waits),
        ("events_stages_history_long_size", long.stages),
        ("events_statements_history_long_size", long.statements),
        ("events_transactions_history_long_size", long.transactions),
    ];
    let bounds = [
        ("max_file_handles", DESCRIPTORS),
        ("max_statement_stack", STATEMENT_DEPTH),
        ("setup_actors_size", MAX_RULES),
        ("setup_objects_size", MAX_RULES),
    ];
    let classes = CLASSES.map(|name| (name, MAX_INSTRUMENTS));
    let bounds = bounds.into_iter().chain(classes);
    let bounds = bounds.map(|(name, bound)| (name, i64::try_from(bound).unwrap_or(i64::MAX)));
    let unbounded = UNBOUNDED.map(|name| (name, AS_NEEDED));
    of_options.map(|(name, size)| (name, size.into())).into_iter().chain(bounds).chain(unbounded).collect()
}

static OUTCOME: OnceLock<Result<(), VariableError>> = OnceLock::new();

/// Whether the variables speak of tare, and why not; `None` when they were never to.
pub(crate) fn outcome() -> Option<&'static Result<(), VariableError>> {
    OUTCOME.get()
}

/// Makes the variables speak of tare. To be called once, on the server's main thread, when the tables are served and
/// before the first connection exists.
pub(crate) fn speak_of_tare(options: &Options) -> &'static Result<(), VariableError> {
    OUTCOME.get_or_init(|| {
        // The storage engine the tables are read through has instruments, as every plugin with locks has.
        if !ENGINE.instruments().iter().any(|it| it.name.contains("/federated")) {
            return Err(VariableError::NoStorageEngine);
        }
        let assignments = system_variable::assign(&sizes(options))?;
        status_variable::replace()?;
        assignments.make();
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_is_told_once() {
        let sizes = sizes(&Options::defaults());
        for (position, (name, size)) in sizes.iter().enumerate() {
            assert!(sizes[..position].iter().all(|(other, _)| other != name), "{name}");
            assert!(*size >= AS_NEEDED, "{name}");
        }
    }
}
