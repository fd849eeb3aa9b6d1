//! The transition from start-up to the provider.

use std::ffi::c_void;

use tare_engine::snapshot::{Consumer, Kind, Properties};
use tare_engine::{Config, Initial, Registration};
use tare_host::options::{DEFAULT_LEVEL, InstrumentSetting, LevelSetting, Options};
use tare_host::process::ENGINE;
use tare_host::process::log::{Severity, line};
use tare_tables::Shape;

use crate::abi::Series;
use crate::entry::{self, ServerHost, synch};
use crate::host::{errors, frequent, host_cache, query_id, replica, session, stage, user_variable};
use crate::jumps::{conditions, direct_calls, locks, preparation};
use crate::serve;
use crate::status::DisableReason;

/// Starts the provider and returns its function table in the layout of `series`.
///
/// Runs once, on the server's main thread, before any other thread exists.
///
/// # Errors
///
/// When the provider cannot start; the server then runs without it.
pub(crate) fn start(series: Series, options: &'static Options) -> Result<*const c_void, DisableReason> {
    entry::select(series);
    entry::when_ready(serve::begin);
    if options.leaves_locks() {
        synch::leave_off();
        let how = "name them (instrument = wait/synch/mutex/%=ON) or set max-mutex-instances to have them";
        line(
            Severity::Note,
            &format!("mutexes and rwlocks are not instrumented, as the budget is too small; {how}"),
        );
    }
    let memory = |error: std::io::Error| DisableReason::Memory(error.to_string());
    let conditions = match options.shape {
        Shape::Strict => Vec::new(),
        Shape::Extended => conditions::prepare(),
    };
    let errors = if conditions.is_empty() { &[] } else { errors::known(series) };
    ENGINE.start(Config { errors, ..config(options) }, &ServerHost).map_err(memory)?;
    register_own_memory();
    if options.shape == Shape::Extended {
        query_id::resolve();
    }
    if let Err(reason) = session::layout() {
        line(Severity::Warning, &format!("status_by_thread, _account, _user and _host stay empty: {reason}"));
    }
    if !stage::is_known() {
        let why = "the server does not say which one a session is in";
        line(Severity::Note, &format!("stages are reported even while all their instruments are off: {why}"));
    }
    if let Err(reason) = replica::select(series) {
        line(Severity::Note, &format!("the tables replication_* stay empty: {reason}"));
    }
    if let Err(reason) = host_cache::layout() {
        line(Severity::Warning, &format!("host_cache stays empty: {reason}"));
    }
    if let Err(reason) = user_variable::select(series) {
        line(Severity::Warning, &format!("user_variables_by_thread stays empty: {reason}"));
    }
    let table = entry::vtable(series, options);
    // If waits are also counted by instance, every lock uses the slots that do so.
    let locks = if options.synch_waits_by_instance { Vec::new() } else { locks::places(series) };
    direct_calls::redirect(series, table, &conditions.into_iter().chain(locks).collect::<Vec<_>>())?;
    if options.prepared_digests
        && let Err(reason) = preparation::route()
    {
        line(Severity::Warning, &format!("executions of prepared statements have no digest: {reason}"));
    }
    Ok(table)
}

fn config(options: &'static Options) -> Config {
    let switches = |name: &str| {
        // The built-in's own memory is always counted.
        let rule = if name.starts_with(OWN) { None } else { options.instrument(name) };
        let (enabled, timed) = match rule {
            Some(InstrumentSetting::Off) => (false, false),
            Some(InstrumentSetting::Counted) => (true, false),
            Some(InstrumentSetting::On) | None => (true, true),
        };
        let held = options.is_named(name);
        let enabled = enabled && !options.is_left(name);
        match options.level(name) {
            Some(LevelSetting::Off) => Initial { enabled: false, timed, level: DEFAULT_LEVEL, held },
            Some(LevelSetting::At(level)) => Initial { enabled, timed, level, held },
            None => Initial { enabled, timed, level: DEFAULT_LEVEL, held },
        }
    };
    let consumers = Consumer::ALL.into_iter();
    let consumers =
        consumers.filter(|consumer| options.consumer(consumer.name()).unwrap_or(!consumer.is_further()));
    let sizes = |sizes: &tare_host::options::EventSizes| {
        [sizes.transactions, sizes.statements, sizes.stages, sizes.waits]
    };
    Config {
        memory_max: usize::try_from(options.memory_max).unwrap_or(usize::MAX),
        history_size: sizes(&options.history_size),
        history_long_size: sizes(&options.history_long_size),
        digests_size: options.digests_size,
        sources: options.source,
        extended: options.shape == Shape::Extended,
        parties_size: options.parties_size,
        rules_size: options.rules_size,
        limits: options.limits.clone(),
        max_digest_length: options.max_digest_length,
        max_sql_text_length: options.max_sql_text_length,
        max_digest_sample_age: options.max_digest_sample_age,
        frequent: &frequent::INSTRUMENTS,
        session_connect_attrs_size: options.session_connect_attrs_size,
        synch_waits_by_instance: options.synch_waits_by_instance,
        reports_free_locks: false,
        instruments: Box::new(switches),
        consumers: consumers.collect(),
        errors: &[],
    }
}

/// Registers the names of the built-in's own buffers. It lists them among the memory instruments, and clients
/// sum them up.
fn register_own_memory() {
    for name in OWN_MEMORY {
        let name = &format!("{OWN}{name}");
        ENGINE.register(Registration {
            kind: Kind::Memory,
            name,
            properties: Properties { global: true, ..Properties::default() },
        });
    }
}

/// The prefix of the names of the built-in's buffers.
const OWN: &str = "memory/performance_schema/";

/// The names of the built-in's buffers.
const OWN_MEMORY: &[&str] = &[
    "mutex_instances",
    "rwlock_instances",
    "cond_instances",
    "file_instances",
    "socket_instances",
    "metadata_locks",
    "file_handle",
    "accounts",
    "events_waits_summary_by_account_by_event_name",
    "events_stages_summary_by_account_by_event_name",
    "events_statements_summary_by_account_by_event_name",
    "events_transactions_summary_by_account_by_event_name",
    "memory_summary_by_account_by_event_name",
    "events_stages_summary_global_by_event_name",
    "events_statements_summary_global_by_event_name",
    "memory_summary_global_by_event_name",
    "hosts",
    "events_waits_summary_by_host_by_event_name",
    "events_stages_summary_by_host_by_event_name",
    "events_statements_summary_by_host_by_event_name",
    "events_transactions_summary_by_host_by_event_name",
    "memory_summary_by_host_by_event_name",
    "threads",
    "events_waits_summary_by_thread_by_event_name",
    "events_stages_summary_by_thread_by_event_name",
    "events_statements_summary_by_thread_by_event_name",
    "events_transactions_summary_by_thread_by_event_name",
    "memory_summary_by_thread_by_event_name",
    "events_waits_history",
    "events_stages_history",
    "events_statements_history",
    "events_statements_history.tokens",
    "events_statements_history.sqltext",
    "events_statements_current",
    "events_statements_current.tokens",
    "events_statements_current.sqltext",
    "events_transactions_history",
    "session_connect_attrs",
    "users",
    "events_waits_summary_by_user_by_event_name",
    "events_stages_summary_by_user_by_event_name",
    "events_statements_summary_by_user_by_event_name",
    "events_transactions_summary_by_user_by_event_name",
    "memory_summary_by_user_by_event_name",
    "mutex_class",
    "rwlock_class",
    "cond_class",
    "thread_class",
    "file_class",
    "socket_class",
    "stage_class",
    "statement_class",
    "memory_class",
    "setup_actors",
    "setup_objects",
    "events_statements_summary_by_digest",
    "events_statements_summary_by_digest.tokens",
    "events_stages_history_long",
    "events_statements_history_long",
    "events_statements_history_long.tokens",
    "events_statements_history_long.sqltext",
    "events_transactions_history_long",
    "events_waits_history_long",
    "table_handles",
    "table_shares",
    "table_io_waits_summary_by_index_usage",
    "table_lock_waits_summary_by_table",
    "events_statements_summary_by_program",
    "prepared_statements_instances",
    "scalable_buffer",
];
