//! The evidence for [`crate::abi::lists`].

use std::ffi::CStr;

use tare_host::instructions::Fact::{Address, Element, Member, Number, Reads, Writes};

use super::super::disable_reason::DisableReason;
use super::{Evidence, Program};
use crate::abi::layout::Layout;
use crate::abi::lists::{self, PAGES, ServerList};

/// The functions that go through lists, with the variables that have these.
const CURSORS: [(&CStr, &ServerList); 5] = [
    (c"_ZN16cursor_by_thread8rnd_nextEv", &lists::THREADS),
    (c"_ZN17cursor_by_account8rnd_nextEv", &lists::ACCOUNTS),
    (c"_ZN14cursor_by_user8rnd_nextEv", &lists::USERS),
    (c"_ZN14cursor_by_host8rnd_nextEv", &lists::HOSTS),
    (c"_ZN20table_metadata_locks8rnd_nextEv", &lists::METADATA_LOCKS),
];

/// Checks where lists have the addresses of their pages: a function adds that to the address of the list
/// or to the number of the page, or the compiler has.
pub(super) fn lists(program: &Program<'_>) -> Result<(), DisableReason> {
    for (cursor, list) in CURSORS {
        let (at, _) = program.symbol(list.name)?;
        let facts = program.facts(cursor)?;
        let from_list = facts.use_variable(at) && facts.have(Element(PAGES, 8));
        let to_number = facts.use_variable(at) && facts.have(Address(PAGES / 8));
        let to_pages = facts.use_variable(at + PAGES) || to_number;
        if !(from_list || to_pages && facts.have(Element(0, 8))) {
            return Err(DisableReason::unexpected(cursor));
        }
    }
    Ok(())
}

/// Returns the evidence for the lists and for what is read of their records.
pub(super) fn evidence(layout: &Layout) -> Vec<Evidence> {
    let [account, user, host] = layout.parties.ended;
    let words = |at| vec![Reads(at, 8), Reads(at + 8, 8), Reads(at + 16, 8)];
    vec![
        // The list of threads: 0xa8, its pages; 0x48 and 0x50 of a page, its records and their number; 256
        // pages of 256, 0x1180 bytes each; 0x208, the version, of which 3 says that it is in use, if it is 2.
        (
            c"_ZN16cursor_by_thread8rnd_nextEv",
            vec![
                Number(0xFFFF),
                Number(layout.threads.record),
                Reads(0x48, 8),
                Reads(0x50, 8),
                Reads(layout.threads.version, 4),
                Number(3),
                Number(2),
            ],
        ),
        // The list of accounts: 128 pages of 128, 0x3c0 bytes each; 0x1e8, the version.
        (
            c"_ZN17cursor_by_account8rnd_nextEv",
            vec![
                Number(0x3FFF),
                Number(layout.accounts.record),
                Reads(0x48, 8),
                Reads(0x50, 8),
                Reads(layout.accounts.version, 4),
                Number(3),
                Number(2),
            ],
        ),
        // That of users: 5 * 128 bytes each.
        (
            c"_ZN14cursor_by_user8rnd_nextEv",
            vec![
                Number(0x3FFF),
                Element(0, 4),
                Number(7),
                Reads(0x48, 8),
                Reads(0x50, 8),
                Reads(layout.users.version, 4),
                Number(3),
                Number(2),
            ],
        ),
        // That of hosts: 0x340 bytes each.
        (
            c"_ZN14cursor_by_host8rnd_nextEv",
            vec![
                Number(0x3FFF),
                Number(layout.hosts.record),
                Reads(0x48, 8),
                Reads(0x50, 8),
                Reads(layout.hosts.version, 4),
                Number(3),
                Number(2),
            ],
        ),
        // That of metadata locks: 1,024 pages of 1,024, 512 bytes each; 0, the version.
        (
            c"_ZN20table_metadata_locks8rnd_nextEv",
            vec![
                Number(0xFFFFF),
                Number(9),
                Reads(0x48, 8),
                Reads(0x50, 8),
                Reads(0, 4),
                Number(3),
                Number(2),
            ],
        ),
        // A thread: its version; PARENT_THREAD_ID; the version of its session; user and host with their
        // lengths; the group.
        (
            c"_ZN13table_threads8make_rowEP10PFS_thread",
            vec![
                Reads(layout.threads.version, 4),
                Reads(layout.thread.parent, 8),
                Reads(layout.thread.session_version, 4),
                Address(layout.thread.user.0),
                Reads(layout.thread.user.1, 8),
                Address(layout.thread.host.0),
                Reads(layout.thread.host.1, 8),
                Reads(layout.thread.group_length, 4),
            ],
        ),
        // Its schema; the version of its statement, and its text; the command and its last number; since
        // when; the stage, and how much of its name is no state.
        (
            c"_ZN13table_threads8make_rowEP10PFS_thread",
            vec![
                Address(layout.thread.schema.0),
                Reads(layout.thread.statement_version, 4),
                Reads(layout.thread.schema.1, 8),
                Address(layout.thread.info),
                Reads(layout.thread.info_length, 4),
                Reads(layout.thread.command, 4),
                Number(0x22),
                Reads(layout.thread.since, 8),
                Reads(layout.thread.stage, 4),
                Reads(0xB8, 4),
            ],
        ),
        // The kind of its connection; its memory; the engine; telemetry.
        (
            c"_ZN13table_threads8make_rowEP10PFS_thread",
            vec![
                Reads(layout.thread.connection, 4),
                Member(layout.thread.memory),
                Reads(layout.thread.secondary, 1),
                Reads(layout.thread.telemetry, 8),
            ],
        ),
        // The characters of its group.
        (c"_ZN13table_threads8make_rowEP10PFS_thread", vec![Reads(layout.thread.group, 1)]),
        // An account's user and host.
        (
            c"_ZN15PFS_account_row8make_rowEP11PFS_account",
            vec![
                Address(layout.parties.user.0),
                Reads(layout.parties.user.1, 8),
                Address(layout.parties.account_host.0),
                Reads(layout.parties.account_host.1, 8),
            ],
        ),
        // A user's name, and a host's.
        (
            c"_ZN12PFS_user_row8make_rowEP8PFS_user",
            vec![Address(layout.parties.user.0), Reads(layout.parties.user.1, 8)],
        ),
        (
            c"_ZN12PFS_host_row8make_rowEP8PFS_host",
            vec![Address(layout.parties.host.0), Reads(layout.parties.host.1, 8)],
        ),
        // What an account, a user and a host keep of connections that have ended.
        (c"_ZN27PFS_connection_stat_visitor13visit_accountEP11PFS_account", words(account)),
        (c"_ZN27PFS_connection_stat_visitor10visit_userEP8PFS_user", words(user)),
        (c"_ZN27PFS_connection_stat_visitor10visit_hostEP8PFS_host", words(host)),
        // The user of an account, and the account and the user of a thread.
        (
            c"_ZN23PFS_connection_iterator10visit_userEP8PFS_userbbbP22PFS_connection_visitor",
            vec![
                Reads(layout.parties.account_owners[0], 8),
                Reads(layout.thread.owners[2], 8),
                Reads(layout.thread.owners[1], 8),
            ],
        ),
        // The same of hosts.
        (
            c"_ZN23PFS_connection_iterator10visit_hostEP8PFS_hostbbbP22PFS_connection_visitor",
            vec![Reads(layout.parties.account_owners[1], 8), Reads(layout.thread.owners[0], 8)],
        ),
    ]
}

/// Returns the evidence for metadata locks.
pub(super) fn of_locks(layout: &Layout) -> Vec<Evidence> {
    vec![
        // OBJECT_INSTANCE_BEGIN, LOCK_TYPE, LOCK_DURATION, LOCK_STATUS and the source of a lock; its key, and
        // whose it is.
        (
            c"_ZN20table_metadata_locks8make_rowEP17PFS_metadata_lock",
            vec![
                Reads(0x10, 8),
                Reads(0x1A4, 4),
                Reads(0x1A8, 4),
                Reads(0x1AC, 4),
                Reads(0x1B0, 8),
                Reads(0x1B8, 4),
                Address(0x18),
                Reads(0x1C0, 8),
                Reads(0x1C8, 8),
            ],
        ),
        // Its key's text at 0x1e and lengths before that; the namespaces, and which of them have names in two
        // forms.
        (
            c"_Z20create_metadata_lockPvPK7MDL_keyiiiPKcj",
            vec![
                Number(layout.spelled_numbers[0]),
                Number(layout.spelled_numbers[1]),
                Address(0x1E),
                Writes(0x18, 2),
                Writes(0x1A, 2),
                Writes(0x1C, 2),
            ],
        ),
        // The status.
        (c"_Z31pfs_set_metadata_lock_status_vcP17PSI_metadata_locki", vec![Writes(0x1AC, 4)]),
    ]
}
