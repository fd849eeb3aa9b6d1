//! The evidence for [`crate::abi::lists`].

use super::Evidence;

/// The evidence for the lists and for what is read of their records.
pub(super) const EVIDENCE: [Evidence; 17] = [
    // The list of threads: 0xa8, its pages; 0x48 and 0x50 of a page, its records and their number; 256
    // pages of 256, 0x1180 bytes each; 0x208, the version, of which 3 says that it is in use, if it is 2.
    (
        c"_ZN16cursor_by_thread8rnd_nextEv",
        &[
            b"\x3D\xFF\xFF\0\0",
            b"\x4D\x8D\x8C\xD3\xA8\0\0\0",
            b"\x48\x69\xF0\x80\x11\0\0",
            b"\x4C\x8B\x51\x48",
            b"\x48\x8B\x41\x50",
            b"\x8B\x86\x08\x02\0\0\x83\xE0\x03\x83\xF8\x02",
        ],
        192,
    ),
    // The list of accounts: 128 pages of 128, 0x3c0 bytes each; 0x1e8, the version.
    (
        c"_ZN17cursor_by_account8rnd_nextEv",
        &[
            b"\x81\xFE\xFF\x3F\0\0",
            b"\x4D\x8D\x84\xC2\xA8\0\0\0",
            b"\x48\x69\xF6\xC0\x03\0\0",
            b"\x4C\x8B\x48\x48",
            b"\x48\x8B\x40\x50",
            b"\x8B\x86\xE8\x01\0\0\x83\xE0\x03\x83\xF8\x02",
        ],
        192,
    ),
    // That of users: 5 * 128 bytes each.
    (
        c"_ZN14cursor_by_user8rnd_nextEv",
        &[
            b"\x3D\xFF\x3F\0\0",
            b"\x4D\x8D\x8C\xD3\xA8\0\0\0",
            b"\x48\x8D\x34\x80\x48\xC1\xE6\x07",
            b"\x4C\x8B\x51\x48",
            b"\x48\x8B\x41\x50",
            b"\x8B\x86\xE8\x01\0\0\x83\xE0\x03\x83\xF8\x02",
        ],
        192,
    ),
    // That of hosts: 0x340 bytes each.
    (
        c"_ZN14cursor_by_host8rnd_nextEv",
        &[
            b"\x81\xFE\xFF\x3F\0\0",
            b"\x4D\x8D\x84\xC2\xA8\0\0\0",
            b"\x48\x69\xF6\x40\x03\0\0",
            b"\x4C\x8B\x48\x48",
            b"\x48\x8B\x40\x50",
            b"\x8B\x86\xE8\x01\0\0\x83\xE0\x03\x83\xF8\x02",
        ],
        192,
    ),
    // That of metadata locks: 1,024 pages of 1,024, 512 bytes each; 0, the version.
    (
        c"_ZN20table_metadata_locks8rnd_nextEv",
        &[
            b"\x81\xFE\xFF\xFF\x0F\0",
            b"\x4D\x8D\x84\xC2\xA8\0\0\0",
            b"\x48\xC1\xE6\x09",
            b"\x4C\x8B\x48\x48",
            b"\x48\x8B\x40\x50",
            b"\x8B\x06\x83\xE0\x03\x83\xF8\x02",
        ],
        192,
    ),
    // A thread: its version; PARENT_THREAD_ID; the version of its session; user and host with their lengths;
    // the group.
    (
        c"_ZN13table_threads8make_rowEP10PFS_thread",
        &[
            b"\x44\x8B\xB6\x08\x02\0\0",
            b"\x49\x8B\x94\x24\x60\x02\0\0",
            b"\x41\x8B\x94\x24\xE8\x06\0\0",
            b"\x49\x8D\x8C\x24\xF0\x06\0\0",
            b"\x49\x8B\x84\x24\x50\x07\0\0",
            b"\x49\x8D\x8C\x24\x58\x07\0\0",
            b"\x49\x8B\x84\x24\x58\x08\0\0",
            b"\x41\x8B\x84\x24\xE8\x09\0\0",
        ],
        320,
    ),
    // Its schema; the version of its statement, and its text; the command and its last number; since when;
    // the stage, and how much of its name is no state.
    (
        c"_ZN13table_threads8make_rowEP10PFS_thread",
        &[
            b"\x49\x8D\x94\x24\x60\x08\0\0",
            b"\x41\x8B\xB4\x24\x18\x0A\0\0",
            b"\x49\x8B\x84\x24\x20\x09\0\0",
            b"\x49\x8D\x84\x24\x28\x0A\0\0",
            b"\x41\x8B\x84\x24\x28\x0E\0\0",
            b"\x41\x8B\x84\x24\x08\x0A\0\0\xBA\x22\0\0\0",
            b"\x49\x8B\x84\x24\x10\x0A\0\0",
            b"\x41\x8B\xBC\x24\x1C\x0A\0\0",
            b"\x41\x2B\x85\xB8\0\0\0",
        ],
        640,
    ),
    // The kind of its connection; its memory; the engine; telemetry.
    (
        c"_ZN13table_threads8make_rowEP10PFS_thread",
        &[
            b"\x41\x8B\x84\x24\x0C\x0A\0\0",
            b"\x49\x8D\xB4\x24\x20\x11\0\0",
            b"\x41\x0F\xB6\x84\x24\x2C\x0E\0\0",
            b"\x49\x83\xBC\x24\x68\x11\0\0\0",
        ],
        704,
    ),
    // The characters of its group.
    (c"_ZN13table_threads8make_rowEP10PFS_thread", &[b"\x41\x0F\xB6\x8C\x24\x28\x09\0\0"], 1152),
    // An account's user and host.
    (
        c"_ZN15PFS_account_row8make_rowEP11PFS_account",
        &[
            b"\x48\x8D\x96\xF0\x01\0\0",
            b"\x48\x8B\x86\x50\x02\0\0",
            b"\x48\x8D\x96\x58\x02\0\0",
            b"\x48\x8B\x86\x58\x03\0\0",
        ],
        96,
    ),
    // A user's name, and a host's.
    (
        c"_ZN12PFS_user_row8make_rowEP8PFS_user",
        &[b"\x48\x8D\x96\xF0\x01\0\0", b"\x48\x8B\x86\x50\x02\0\0"],
        40,
    ),
    (
        c"_ZN12PFS_host_row8make_rowEP8PFS_host",
        &[b"\x48\x8D\x96\xF0\x01\0\0", b"\x48\x8B\x86\xF0\x02\0\0"],
        40,
    ),
    // What an account, a user and a host keep of connections that have ended.
    (
        c"_ZN27PFS_connection_stat_visitor13visit_accountEP11PFS_account",
        &[b"\x48\x8B\x8E\x78\x03\0\0", b"\x48\x8B\x96\x80\x03\0\0", b"\x48\x8B\x86\x88\x03\0\0"],
        32,
    ),
    (
        c"_ZN27PFS_connection_stat_visitor10visit_userEP8PFS_user",
        &[b"\x48\x8B\x8E\x58\x02\0\0", b"\x48\x8B\x96\x60\x02\0\0", b"\x48\x8B\x86\x68\x02\0\0"],
        32,
    ),
    (
        c"_ZN27PFS_connection_stat_visitor10visit_hostEP8PFS_host",
        &[b"\x48\x8B\x8E\xF8\x02\0\0", b"\x48\x8B\x96\0\x03\0\0", b"\x48\x8B\x86\x08\x03\0\0"],
        32,
    ),
    // The user of an account, and the account and the user of a thread.
    (
        c"_ZN23PFS_connection_iterator10visit_userEP8PFS_userbbbP22PFS_connection_visitor",
        &[
            b"\x48\x39\x9E\x68\x03\0\0",
            b"\x49\x8B\xBE\x70\x10\0\0",
            b"\x48\x39\x98\x68\x03\0\0",
            b"\x49\x39\x9E\x68\x10\0\0",
        ],
        768,
    ),
    // The same of hosts.
    (
        c"_ZN23PFS_connection_iterator10visit_hostEP8PFS_hostbbbP22PFS_connection_visitor",
        &[b"\x48\x39\x9E\x70\x03\0\0", b"\x48\x39\x98\x70\x03\0\0", b"\x49\x39\x9E\x60\x10\0\0"],
        768,
    ),
];

/// The evidence for metadata locks.
pub(super) const OF_LOCKS: [Evidence; 3] = [
    // OBJECT_INSTANCE_BEGIN, LOCK_TYPE, LOCK_DURATION, LOCK_STATUS and the source of a lock; its key, and
    // whose it is.
    (
        c"_ZN20table_metadata_locks8make_rowEP17PFS_metadata_lock",
        &[
            b"\x48\x8B\x46\x10",
            b"\x8B\x86\xA4\x01\0\0",
            b"\x8B\x86\xA8\x01\0\0",
            b"\x8B\x86\xAC\x01\0\0",
            b"\x49\x8B\xBC\x24\xB0\x01\0\0",
            b"\x8B\xB6\xB8\x01\0\0",
            b"\x49\x8D\x74\x24\x18",
            b"\x66\x41\x0F\x6F\x84\x24\xC0\x01\0\0",
        ],
        112,
    ),
    // Its key's text at 0x1e and lengths before that; the namespaces, and which of them have names in two
    // forms.
    (
        c"_Z20create_metadata_lockPvPK7MDL_keyiiiPKcj",
        &[
            b"\x3C\x12",
            b"\xB9\xE0\x81\x04\0",
            b"\x48\x8D\x7B\x1E",
            b"\x66\x89\x43\x18",
            b"\x66\x89\x43\x1A",
            b"\x66\x89\x43\x1C",
        ],
        256,
    ),
    // The status.
    (c"_Z31pfs_set_metadata_lock_status_vcP17PSI_metadata_locki", &[b"\x89\xB7\xAC\x01\0\0"], 16),
];
