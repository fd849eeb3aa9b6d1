//! Where the members of the built-in's objects lie that are elsewhere in another series of MySQL.
//!
//! All else in [`crate::abi`] is the same in each of them.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ffi::CStr;

use super::lists::{ListLayout, Text};

/// The layouts of one series.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// The first version with it, as it is shown.
    pub series: &'static str,
    /// `initialize_performance_schema`. Of its arguments only the first is looked at; their types tell the
    /// interface's version.
    pub initialize: &'static CStr,
    /// A thread (`PFS_thread`).
    pub thread: ThreadLayout,
    /// The built-in's record of a thread's transaction.
    pub transaction: TransactionLayout,
    /// Where the server's session (`THD`) has the number of its statement.
    pub query_id: usize,
    /// The list of threads.
    pub threads: ListLayout,
    /// The list of accounts.
    pub accounts: ListLayout,
    /// The list of users.
    pub users: ListLayout,
    /// The list of hosts.
    pub hosts: ListLayout,
    /// An account, a user and a host.
    pub parties: PartyLayout,
    /// The namespaces of metadata locks whose names have a form in which they are compared, by bit.
    pub spelled_namespaces: u32,
    /// The numbers by which the server tells these from the others.
    pub spelled_numbers: [usize; 2],
    /// Where the built-in's sizes (`PFS_global_param`) have those of what is kept here: the statements of a
    /// thread's history, those of the long history, the digests. They have 64 bits each.
    pub sizes: [usize; 3],
}

/// Where a thread has its members.
#[derive(Clone, Copy, Debug)]
pub struct ThreadLayout {
    /// Whether it is instrumented.
    pub instrumented: usize,
    /// Whether it has histories.
    pub history: usize,
    /// The place of its next event of waits; these are [`super::WAIT_SIZE`] apart.
    pub next_wait: usize,
    /// The number of its next event.
    pub event_id: usize,
    /// Its number.
    pub id: usize,
    /// PARENT_THREAD_ID; 0: none.
    pub parent: usize,
    /// PROCESSLIST_ID; 0: it serves no client.
    pub processlist_id: usize,
    /// THREAD_OS_ID.
    pub os_id: usize,
    /// Its instrument.
    pub class: usize,
    /// The version of what identifies the session: user, host and group.
    pub session_version: usize,
    /// The session's user.
    pub user: Text,
    /// Its host.
    pub host: Text,
    /// Its default schema, of the statement's version.
    pub schema: Text,
    /// RESOURCE_GROUP.
    pub group: usize,
    /// The length of RESOURCE_GROUP, in 32 bits.
    pub group_length: usize,
    /// What the session executes, in the server's numbering of commands.
    pub command: usize,
    /// The number of CONNECTION_TYPE.
    pub connection: usize,
    /// When the command began, in seconds since 1970; 0: never.
    pub since: usize,
    /// The version of the statement.
    pub statement_version: usize,
    /// The key of its stage, which is the state in `threads`.
    pub stage: usize,
    /// The statement's text.
    pub info: usize,
    /// The length of that text, in 32 bits.
    pub info_length: usize,
    /// Whether a secondary engine executes it.
    pub secondary: usize,
    /// The server's session of the thread, by address.
    pub thd: usize,
    /// The session whose limit the thread's memory counts for; 0: none.
    pub memory_session: usize,
    /// The addresses of its host, user and account.
    pub owners: [usize; 3],
    /// Its [`super::memory::SessionMemory`].
    pub memory: usize,
    /// Its telemetry session; null: there is none.
    pub telemetry: usize,
}

impl ThreadLayout {
    /// Returns the part of a thread's record that is read.
    pub fn part(&self) -> (usize, usize) {
        (self.instrumented, self.telemetry + 8)
    }
}

/// Where the record of a thread's transaction (`PFS_events_transactions`) is, and its members.
#[derive(Clone, Copy, Debug)]
pub struct TransactionLayout {
    /// The record within the thread.
    pub record: usize,
    /// Whether an identifier or a state was told, in 8 bits.
    pub is_told: usize,
    /// The identifier (`xid_t`).
    pub xid: usize,
    /// The state, in 32 bits.
    pub xa_state: usize,
}

/// Where accounts, users and hosts have their members.
#[derive(Clone, Copy, Debug)]
pub struct PartyLayout {
    /// The user of an account or of a user.
    pub user: Text,
    /// The host of an account.
    pub account_host: Text,
    /// The addresses of an account's user and host.
    pub account_owners: [usize; 2],
    /// The name of a host.
    pub host: Text,
    /// Where an account, a user and a host have the number of connections that have ended, and the most
    /// controlled and the most memory of one.
    pub ended: [usize; 3],
}

/// How far behind the key of a thread's stage its progress is, in every series.
pub const PROGRESS_AFTER_STAGE: usize = 4;

/// The layouts that are known, the newest first.
pub const LAYOUTS: [Layout; 4] = [V9_7, V8_4, V8_4_EARLY, V8_0];

const INITIALIZE: &CStr = c"_Z29initialize_performance_schemaP16PFS_global_paramPP20PSI_thread_bootstrapPP19PSI_mutex_bootstrapPP20PSI_rwlock_bootstrapPP18PSI_cond_bootstrapPP18PSI_file_bootstrapPP20PSI_socket_bootstrapPP19PSI_table_bootstrapPP17PSI_mdl_bootstrapPP18PSI_idle_bootstrapPP19PSI_stage_bootstrapPP23PSI_statement_bootstrapPP25PSI_transaction_bootstrapPP20PSI_memory_bootstrapPP19PSI_error_bootstrapPP23PSI_data_lock_bootstrapPP20PSI_system_bootstrapPP25PSI_tls_channel_bootstrapPP20PSI_metric_bootstrapPP25PSI_logs_client_bootstrap";

/// The same without metrics and logs.
const INITIALIZE_8_0: &CStr = c"_Z29initialize_performance_schemaP16PFS_global_paramPP20PSI_thread_bootstrapPP19PSI_mutex_bootstrapPP20PSI_rwlock_bootstrapPP18PSI_cond_bootstrapPP18PSI_file_bootstrapPP20PSI_socket_bootstrapPP19PSI_table_bootstrapPP17PSI_mdl_bootstrapPP18PSI_idle_bootstrapPP19PSI_stage_bootstrapPP23PSI_statement_bootstrapPP25PSI_transaction_bootstrapPP20PSI_memory_bootstrapPP19PSI_error_bootstrapPP23PSI_data_lock_bootstrapPP20PSI_system_bootstrapPP25PSI_tls_channel_bootstrap";

const V9_7: Layout = Layout {
    series: "9.7",
    initialize: INITIALIZE,
    thread: ThreadLayout {
        instrumented: 0x1E8,
        history: 0x1E9,
        next_wait: 0x1F8,
        event_id: 0x200,
        id: 0x258,
        parent: 0x260,
        processlist_id: 0x268,
        os_id: 0x270,
        class: 0x278,
        session_version: 0x6E8,
        user: (0x6F0, 0x750),
        host: (0x758, 0x858),
        schema: (0x860, 0x920),
        group: 0x928,
        group_length: 0x9E8,
        command: 0xA08,
        connection: 0xA0C,
        since: 0xA10,
        statement_version: 0xA18,
        stage: 0xA1C,
        info: 0xA28,
        info_length: 0xE28,
        secondary: 0xE2C,
        thd: 0x1050,
        memory_session: 0x1058,
        owners: [0x1060, 0x1068, 0x1070],
        memory: 0x1120,
        telemetry: 0x1168,
    },
    transaction: TransactionLayout { record: 0xEA8, is_told: 0xE0, xid: 0xE8, xa_state: 0x180 },
    query_id: 0x25A8,
    threads: ListLayout { record: 0x1180, version: 0x208 },
    accounts: ListLayout { record: 0x3C0, version: 0x1E8 },
    users: ListLayout { record: 0x280, version: 0x1E8 },
    hosts: ListLayout { record: 0x340, version: 0x1E8 },
    parties: PartyLayout {
        user: (0x1F0, 0x250),
        account_host: (0x258, 0x358),
        account_owners: [0x368, 0x370],
        host: (0x1F0, 0x2F0),
        ended: [0x378, 0x258, 0x2F8],
    },
    spelled_namespaces: 0x48_1E0,
    spelled_numbers: [0x12, 0x48_1E0],
    sizes: [0x110, 0x118, 0x120],
};

const V8_4: Layout = Layout {
    series: "8.4",
    initialize: INITIALIZE,
    thread: ThreadLayout {
        instrumented: 0x1C8,
        history: 0x1C9,
        next_wait: 0x1D8,
        event_id: 0x1E0,
        id: 0x238,
        parent: 0x240,
        processlist_id: 0x248,
        os_id: 0x250,
        class: 0x258,
        session_version: 0x6C8,
        user: (0x6D0, 0x730),
        host: (0x738, 0x838),
        schema: (0x840, 0x900),
        group: 0x908,
        group_length: 0x9C8,
        command: 0x9E8,
        connection: 0x9EC,
        since: 0x9F0,
        statement_version: 0x9F8,
        stage: 0x9FC,
        info: 0xA08,
        info_length: 0xE08,
        secondary: 0xE0C,
        thd: 0x1030,
        memory_session: 0x1038,
        owners: [0x1040, 0x1048, 0x1050],
        memory: 0x1100,
        telemetry: 0x1148,
    },
    transaction: TransactionLayout { record: 0xE88, is_told: 0xE0, xid: 0xE8, xa_state: 0x180 },
    query_id: 0x2528,
    threads: ListLayout { record: 0x1180, version: 0x1E8 },
    accounts: ListLayout { record: 0x380, version: 0x1C8 },
    users: ListLayout { record: 0x280, version: 0x1C8 },
    hosts: ListLayout { record: 0x300, version: 0x1C8 },
    parties: PartyLayout {
        user: (0x1D0, 0x230),
        account_host: (0x238, 0x338),
        account_owners: [0x348, 0x350],
        host: (0x1D0, 0x2D0),
        ended: [0x358, 0x238, 0x2D8],
    },
    spelled_namespaces: 0x81E0,
    spelled_numbers: [3, 0xF],
    sizes: [0x110, 0x118, 0x120],
};

/// The first of 8.4, up to 8.4.8 at least, whose built-in has no metrics and logs yet.
const V8_4_EARLY: Layout = Layout { initialize: INITIALIZE_8_0, sizes: V8_0.sizes, ..V8_4 };

const V8_0: Layout = Layout {
    series: "8.0",
    initialize: INITIALIZE_8_0,
    thread: ThreadLayout {
        thd: 0xFE0,
        memory_session: 0xFE8,
        owners: [0xFF0, 0xFF8, 0x1000],
        memory: 0x10B0,
        telemetry: 0x10F8,
        ..V8_4.thread
    },
    transaction: TransactionLayout { record: 0xE88, is_told: 0x90, xid: 0x98, xa_state: 0x130 },
    query_id: 0x24E0,
    threads: ListLayout { record: 0x1100, version: 0x1E8 },
    sizes: [0x100, 0x108, 0x110],
    ..V8_4
};

/// The layout of this server.
struct ServerLayout(UnsafeCell<Layout>);

// SAFETY: it is written once, by the only thread, before anything else of this library runs; see `set`.
unsafe impl Sync for ServerLayout {}

static LAYOUT: ServerLayout = ServerLayout(UnsafeCell::new(LAYOUTS[0]));

/// Returns the layout of this server.
#[inline(always)]
pub fn layout() -> &'static Layout {
    // SAFETY: nobody writes any more.
    unsafe { &*LAYOUT.0.get() }
}

/// Sets the layout of this server.
///
/// # Safety
///
/// No other thread exists, and nobody keeps what [`layout`] has returned.
pub unsafe fn set(layout: &Layout) {
    // SAFETY: as the caller promises.
    unsafe { *LAYOUT.0.get() = *layout }
}
