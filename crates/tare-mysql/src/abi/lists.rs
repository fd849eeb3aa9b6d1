//! Layouts of the built-in's lists of threads, accounts, users, hosts and metadata locks, and of their
//! records as far as tables show them.

use std::ffi::CStr;

use super::layout::Layout;

/// A list of the built-in's records (`PFS_buffer_scalable_container`): pages that are added and never moved.
#[derive(Debug)]
pub struct ServerList {
    /// The exported variable that has it.
    pub name: &'static CStr,
    /// The most pages it can have.
    pub most_pages: usize,
    /// Returns the layout of its records.
    pub layout: fn(&Layout) -> ListLayout,
}

/// The layout of a list's records.
#[derive(Clone, Copy, Debug)]
pub struct ListLayout {
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
pub static THREADS: ServerList =
    ServerList { name: c"global_thread_container", most_pages: 256, layout: |all| all.threads };
/// The list of accounts.
pub static ACCOUNTS: ServerList =
    ServerList { name: c"global_account_container", most_pages: 128, layout: |all| all.accounts };
/// The list of users.
pub static USERS: ServerList =
    ServerList { name: c"global_user_container", most_pages: 128, layout: |all| all.users };
/// The list of hosts.
pub static HOSTS: ServerList =
    ServerList { name: c"global_host_container", most_pages: 128, layout: |all| all.hosts };
/// The list of metadata locks.
pub static METADATA_LOCKS: ServerList = ServerList {
    name: c"global_mdl_container",
    most_pages: 1024,
    layout: |_| ListLayout { record: 0x200, version: 0 },
};

/// A text in a record: its first byte, and its length in 64 bits.
pub type Text = (usize, usize);

/// Where an instrument of stages has the length of the part of its name that is no state.
pub const STAGE_PREFIX_LENGTH: usize = 0xB8;

/// The part of a metadata lock's record that is read.
pub const LOCK_PART: (usize, usize) = (0, 0x1D0);
/// The key: lengths of the part that is compared, of the schema's and of the object's name in 16 bits each.
pub const LOCK_KEY: usize = 0x18;
/// The key's text: the namespace, schema and name, each of these with a zero. The text of some namespaces
/// ([`Layout::spelled_namespaces`]) goes on behind what is compared, with the name as it was written.
pub const LOCK_TEXT: usize = 0x1E;
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
