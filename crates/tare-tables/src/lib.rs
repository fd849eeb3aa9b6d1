//! All tables as data: name, doc, columns, source, reset. Knows neither wire formats nor hosts.
//!
//! A table is one [`TableDef`]: groups of columns (name, type, meaning and getter side by side) and a source
//! of rows. A table whose rows the host itself has is a [`ViewDef`], with SQL in place of getters. To add a
//! table, add a declaration and a line in [`TABLES`].

pub mod account;
pub mod budget;
mod change;
mod column;
mod condition;
mod ddl;
mod definition;
pub mod digest;
mod document;
pub mod error;
pub mod event;
pub mod handle;
pub mod histogram;
pub mod host_cache;
mod kept;
pub mod level;
pub mod lock;
pub mod log;
pub mod mysql;
pub mod object;
mod present;
pub mod program;
mod record;
#[cfg(test)]
mod refusal;
pub mod replication;
#[cfg(test)]
mod sample;
pub mod server;
pub mod session;
pub mod setup;
mod statistic;
pub mod status;
pub mod stream;
pub mod summary;
pub mod sync;
mod table;
pub mod thread;
pub mod timer;
pub mod variable;
mod view;

use std::sync::LazyLock;

pub use column::ColumnDef;
pub use ddl::{ddl, sql_type_text};
pub use definition::{Emit, TableDef};
pub use document::markdown;
pub use kept::{Kept, Test};
pub use present::PresentRows;
pub use status::{StatusRow, StatusValue, set_status_source};
pub use stream::{Put, Rows, STREAMS, Stream};
pub use table::{
    Access, Column, Columns, Condition, Operator, Query, Sink, SqlType, Table, TableError, Value, Values,
};
pub use view::{ViewColumn, ViewDef};

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
            let all = TABLES.iter().chain(FURTHER).chain(mysql::absent::TABLES);
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

/// Tables of MySQL that MariaDB lacks. For tables that are always empty see [`mysql`].
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

/// All tables of the shape `strict`, in the order of `docs/reference/tables.md`.
pub static TABLES: &[&dyn Table] = &[
    &status::STATUS,
    &level::LEVELS,
    &budget::PRICES,
    &budget::DECISIONS,
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
