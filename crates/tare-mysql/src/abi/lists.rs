//! Layouts of the built-in's lists of threads, accounts, users, hosts and metadata locks, and of their
//! records as far as tables show them.

use std::ffi::CStr;

use super::events::THREAD_TELEMETRY;

/// A list of the built-in's records (`PFS_buffer_scalable_container`): pages that are added and never moved.
#[derive(Debug)]
pub struct ListLayout {
    /// The exported variable that has it.
    pub name: &'static CStr,
    /// The most pages it can have.
    pub most_pages: usize,
    /// The size of a record in bytes.
    pub record: usize,
    /// Where a record has its version, whose last two bits say whether it is in use.
    pub version: usize,
}

/// Where a list has the addresses of its pages.
pub const PAGES: usize = 0xA8;
/// Where a page has the address of its first record.
pub const PAGE_START: usize = 0x48;
/// Where a page has the number of its records.
pub const PAGE_COUNT: usize = 0x50;
/// The part of a version that says whether the record is in use.
pub const VERSION_STATE: u32 = 3;
/// The state of a record that is in use, and that nobody changes.
pub const IN_USE: u32 = 2;

/// The list of threads.
pub static THREADS: ListLayout =
    ListLayout { name: c"global_thread_container", most_pages: 256, record: 0x1180, version: 0x208 };
/// The list of accounts.
pub static ACCOUNTS: ListLayout =
    ListLayout { name: c"global_account_container", most_pages: 128, record: 0x3C0, version: 0x1E8 };
/// The list of users.
pub static USERS: ListLayout =
    ListLayout { name: c"global_user_container", most_pages: 128, record: 0x280, version: 0x1E8 };
/// The list of hosts.
pub static HOSTS: ListLayout =
    ListLayout { name: c"global_host_container", most_pages: 128, record: 0x340, version: 0x1E8 };
/// The list of metadata locks.
pub static METADATA_LOCKS: ListLayout =
    ListLayout { name: c"global_mdl_container", most_pages: 1024, record: 0x200, version: 0 };

/// A text in a record: its first byte, and its length in 64 bits.
pub type Text = (usize, usize);

/// The part of a thread's record that is read.
pub const THREAD_PART: (usize, usize) = (super::THREAD_INSTRUMENTED, THREAD_TELEMETRY + 8);
/// PARENT_THREAD_ID; 0: none.
pub const THREAD_PARENT: usize = 0x260;
/// The version of what identifies the session: user, host and group.
pub const THREAD_SESSION_VERSION: usize = 0x6E8;
/// The session's user.
pub const THREAD_USER: Text = (0x6F0, 0x750);
/// Its host.
pub const THREAD_HOST: Text = (0x758, 0x858);
/// Its default schema, of the statement's version.
pub const THREAD_SCHEMA: Text = (0x860, 0x920);
/// RESOURCE_GROUP.
pub const THREAD_GROUP: usize = 0x928;
/// The length of RESOURCE_GROUP, in 32 bits.
pub const THREAD_GROUP_LENGTH: usize = 0x9E8;
/// The number of CONNECTION_TYPE.
pub const THREAD_CONNECTION: usize = 0xA0C;
/// When the command began, in seconds since 1970; 0: never.
pub const THREAD_SINCE: usize = 0xA10;
/// The version of the statement.
pub const THREAD_STATEMENT_VERSION: usize = 0xA18;
/// The statement's text.
pub const THREAD_INFO: usize = 0xA28;
/// The length of that text, in 32 bits.
pub const THREAD_INFO_LENGTH: usize = 0xE28;
/// Whether a secondary engine executes it.
pub const THREAD_SECONDARY: usize = 0xE2C;
/// The server's session of the thread, by address.
pub const THREAD_THD: usize = 0x1050;
/// The addresses of its host, user and account.
pub const THREAD_OWNERS: [usize; 3] = [0x1060, 0x1068, 0x1070];

/// Where an instrument of stages has the length of the part of its name that is no state.
pub const STAGE_PREFIX_LENGTH: usize = 0xB8;

/// The user of an account or of a user.
pub const PARTY_USER: Text = (0x1F0, 0x250);
/// The host of an account.
pub const ACCOUNT_HOST: Text = (0x258, 0x358);
/// The addresses of an account's user and host.
pub const ACCOUNT_OWNERS: [usize; 2] = [0x368, 0x370];
/// The name of a host.
pub const HOST_NAME: Text = (0x1F0, 0x2F0);
/// Where an account, a user and a host have the number of connections that have ended, and the most
/// controlled and the most memory of one.
pub const ENDED: [usize; 3] = [0x378, 0x258, 0x2F8];

/// The part of a metadata lock's record that is read.
pub const LOCK_PART: (usize, usize) = (0, 0x1D0);
/// The key: lengths of the part that is compared, of the schema's and of the object's name in 16 bits each.
pub const LOCK_KEY: usize = 0x18;
/// The key's text: the namespace, schema and name, each of these with a zero. The text of some namespaces
/// ([`HAS_SPELLING`]) goes on behind what is compared, with the name as it was written.
pub const LOCK_TEXT: usize = 0x1E;
/// The namespaces whose names have a form in which they are compared, by bit.
pub const HAS_SPELLING: u32 = 0x48_1E0;
/// The last namespace.
pub const LAST_NAMESPACE: u8 = 0x12;
/// OBJECT_INSTANCE_BEGIN.
pub const LOCK_IDENTITY: usize = 0x10;
/// LOCK_TYPE.
pub const LOCK_TYPE: usize = 0x1A4;
/// LOCK_DURATION.
pub const LOCK_DURATION: usize = 0x1A8;
/// LOCK_STATUS.
pub const LOCK_STATUS: usize = 0x1AC;
/// The name of the source file that has wanted the lock.
pub const LOCK_FILE: usize = 0x1B0;
/// The line in that file, in 32 bits.
pub const LOCK_LINE: usize = 0x1B8;
/// OWNER_THREAD_ID; 0: unknown.
pub const LOCK_OWNER: usize = 0x1C0;
/// OWNER_EVENT_ID.
pub const LOCK_EVENT: usize = 0x1C8;

/// A metadata lock that is waited for, and one that is granted.
pub const PENDING: u32 = 0;
/// See [`PENDING`].
pub const GRANTED: u32 = 1;
