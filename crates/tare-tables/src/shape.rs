//! The lists of all tables.

use std::sync::LazyLock;

use crate::declarations::{
    absent, account, active, budget, digest, error, event, handle, histogram, host_cache, level, lock, log,
    object, program, replication, server, session, setup, status, summary, sync, thread, timer, variable,
};
use crate::table::Table;

/// Shape: which tables there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// The built-in's tables and tare's own: [`TABLES`].
    #[default]
    Strict,
    /// Also those in [`FURTHER`], and all columns of MySQL.
    Extended,
}

impl Shape {
    /// Returns the tables of this shape.
    pub fn tables(self) -> &'static [&'static dyn Table] {
        static ALL: LazyLock<Vec<&'static dyn Table>> = LazyLock::new(|| {
            let all = TABLES.iter().chain(FURTHER).chain(absent::TABLES);
            all.map(|table| table.extended().unwrap_or(*table)).collect()
        });
        match self {
            Shape::Strict => TABLES,
            Shape::Extended => &ALL,
        }
    }

    /// Returns the tables whose rows come from the engine. The others are views that the host reads itself.
    pub fn served(self) -> &'static [&'static dyn Table] {
        static SERVED: LazyLock<[Vec<&'static dyn Table>; 2]> = LazyLock::new(|| {
            let served = |shape: Shape| shape.tables().iter().copied().filter(|table| table.body().is_none());
            [Shape::Strict, Shape::Extended].map(|shape| served(shape).collect())
        });
        &SERVED[self as usize]
    }
}

/// Tables of MySQL that MariaDB lacks. For tables that are always empty see `mysql`.
pub static FURTHER: &[&dyn Table] = &[
    &setup::THREADS,
    &thread::PROCESSLIST,
    &error::GLOBAL,
    &error::THREAD,
    &error::ACCOUNT,
    &error::USER_NAME,
    &error::HOST_NAME,
    &log::ERROR_LOG,
    &log::LOG_STATUS,
    &lock::DATA_LOCKS,
    &lock::DATA_LOCK_WAITS,
    &variable::GLOBAL_VARIABLES,
    &variable::SESSION_VARIABLES,
    &replication::CONNECTION_STATUS,
    &variable::VARIABLES_BY_THREAD,
    &variable::VARIABLES_INFO,
    &variable::VARIABLES_METADATA,
    &variable::TLS_CHANNEL_STATUS,
    &variable::USER_DEFINED_FUNCTIONS,
    &variable::INNODB_REDO_LOG_FILES,
    &histogram::STATEMENTS,
    &histogram::BY_DIGEST,
    &histogram::STATEMENTS_BY_EVENT_NAME,
    &histogram::STAGES_BY_EVENT_NAME,
    &histogram::WAITS_BY_EVENT_NAME,
    &histogram::TRANSACTIONS_BY_EVENT_NAME,
];

/// All tables of the shape `strict`, in the order of their pages in `docs/reference/tables`.
pub static TABLES: &[&dyn Table] = &[
    &status::STATUS,
    &level::LEVELS,
    &budget::PRICES,
    &budget::DECISIONS,
    &active::HISTORY,
    &setup::INSTRUMENTS,
    &setup::CONSUMERS,
    &setup::ACTORS,
    &setup::OBJECTS,
    &thread::THREADS,
    &account::ACCOUNTS,
    &account::USERS,
    &account::HOSTS,
    &account::CONNECT_ATTRIBUTES,
    &timer::PERFORMANCE_TIMERS,
    &timer::SETUP_TIMERS,
    &event::wait::CURRENT,
    &event::wait::HISTORY,
    &event::wait::HISTORY_LONG,
    &event::stage::CURRENT,
    &event::stage::HISTORY,
    &event::stage::HISTORY_LONG,
    &event::statement::CURRENT,
    &event::statement::HISTORY,
    &event::statement::HISTORY_LONG,
    &event::transaction::CURRENT,
    &event::transaction::HISTORY,
    &event::transaction::HISTORY_LONG,
    &summary::wait::GLOBAL,
    &summary::wait::THREAD,
    &summary::wait::ACCOUNT,
    &summary::wait::USER_NAME,
    &summary::wait::HOST_NAME,
    &summary::stage::GLOBAL,
    &summary::stage::THREAD,
    &summary::stage::ACCOUNT,
    &summary::stage::USER_NAME,
    &summary::stage::HOST_NAME,
    &summary::statement::GLOBAL,
    &summary::statement::THREAD,
    &summary::statement::ACCOUNT,
    &summary::statement::USER_NAME,
    &summary::statement::HOST_NAME,
    &digest::BY_DIGEST,
    &program::BY_PROGRAM,
    &program::PREPARED,
    &summary::transaction::GLOBAL,
    &summary::transaction::THREAD,
    &summary::transaction::ACCOUNT,
    &summary::transaction::USER_NAME,
    &summary::transaction::HOST_NAME,
    &summary::memory::GLOBAL,
    &summary::memory::THREAD,
    &summary::memory::ACCOUNT,
    &summary::memory::USER_NAME,
    &summary::memory::HOST_NAME,
    &handle::FILE_INSTANCES,
    &handle::FILE_BY_EVENT_NAME,
    &handle::FILE_BY_INSTANCE,
    &handle::SOCKET_INSTANCES,
    &handle::SOCKET_BY_EVENT_NAME,
    &handle::SOCKET_BY_INSTANCE,
    &handle::WAITS_BY_INSTANCE,
    &object::IO_BY_TABLE,
    &object::IO_BY_INDEX,
    &object::LOCK_BY_TABLE,
    &object::OBJECTS,
    &object::HANDLES,
    &sync::METADATA_LOCKS,
    &sync::MUTEX_INSTANCES,
    &sync::RWLOCK_INSTANCES,
    &sync::COND_INSTANCES,
    &server::GLOBAL_STATUS,
    &server::SESSION_STATUS,
    &session::STATUS_BY_THREAD,
    &session::STATUS_BY_ACCOUNT,
    &session::STATUS_BY_USER,
    &session::STATUS_BY_HOST,
    &session::USER_VARIABLES_BY_THREAD,
    &server::SESSION_ACCOUNT_CONNECT_ATTRS,
    &host_cache::HOST_CACHE,
    &replication::CONNECTION_CONFIGURATION,
    &replication::APPLIER_CONFIGURATION,
    &replication::APPLIER_STATUS,
    &replication::APPLIER_STATUS_BY_COORDINATOR,
    &replication::APPLIER_STATUS_BY_WORKER,
];
