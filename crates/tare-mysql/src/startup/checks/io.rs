//! The evidence for [`crate::abi::io`], and for who calls what is led.

use std::ffi::CStr;

use tare_host::code::distance_of_call;

use super::super::constructor::INITIALIZE;
use super::super::disable_reason::DisableReason;
use super::{Evidence, code};

/// The evidence for each number in [`crate::abi::io`].
pub(super) const EVIDENCE: [Evidence; 18] = [
    // 0x220(%rsi): a file's instrument, of which 4 says that it is on; 4(%rsi) and 5(%rbx): the file's flags;
    // what its locker has at 0, 4, 8, 0x18 and 0x20; 0xb0 and 0x1f8: the thread's events.
    (
        c"_Z36pfs_get_thread_file_stream_locker_vcP24PSI_file_locker_state_v1P8PSI_file18PSI_file_operation",
        &[
            b"\x4C\x8B\xAE\x20\x02\x00\x00\x41\x80\x7D\x04\x00",
            b"\x80\x7E\x04\x00",
            b"\x0F\xB6\x73\x05",
            b"\x49\x89\x5C\x24\x08",
            b"\x41\x89\x54\x24\x04",
            b"\x4D\x89\x6C\x24\x18",
            b"\x49\x89\x44\x24\x20",
            b"\x48\x81\x80\xF8\x01\x00\x00\xB0\x00\x00\x00",
        ],
        448,
    ),
    // 0x228(%r8): a file's sums, of which reads are at 8, writes at 0x30, others at 0x58; a locker's
    // operation, file, instrument and thread; 4: it is an event.
    (
        c"_Z20pfs_end_file_wait_vcP15PSI_file_lockerm",
        &[
            b"\x49\x8D\x90\x28\x02\x00\x00",
            b"\x48\x8D\x50\x08",
            b"\x48\x8D\x50\x30",
            b"\x48\x8D\x50\x58",
            b"\x4C\x8B\x47\x08",
            b"\x4C\x8B\x57\x18",
            b"\x44\x8B\x49\x04",
            b"\x48\x8B\x5F\x20",
            b"\xF6\x01\x04",
        ],
        448,
    ),
    // 0x40(%rdi): the last word of a file's locker.
    (c"_Z22pfs_start_file_wait_vcP15PSI_file_lockermPKcj", &[b"\x48\x8B\x57\x40"], 128),
    // 0x18(%rax): a file's name; 0x218(%rax): its length.
    (
        c"_Z15end_file_renameP10PFS_threadP8PFS_filePKci",
        &[b"\x48\x8D\x78\x18", b"\x48\xC7\x80\x18\x02\x00\x00\x00\x00\x00\x00"],
        256,
    ),
    // The built-in's files by descriptor have 8 bytes each, and their number 8.
    (
        c"_Z40pfs_get_thread_file_descriptor_locker_vcP24PSI_file_locker_state_v1i18PSI_file_operation",
        &[b"\x48\x3B\x30", b"\x4C\x8D\x34\xF0", b"\x49\xC7\x06\x00\x00\x00\x00"],
        448,
    ),
    // 8(%rsi) and 0xb4(%rsi): a socket is timed, and is idle; 0xb8(%rsi): its instrument; 0x18(%rsi): its
    // identity.
    (
        c"_Z24pfs_start_socket_wait_v1P26PSI_socket_locker_state_v1P10PSI_socket20PSI_socket_operationmPKcj",
        &[
            b"\x80\x7E\x08\x00",
            b"\x80\xBE\xB4\x00\x00\x00\x00",
            b"\x4C\x8B\x9E\xB8\x00\x00\x00",
            b"\x4C\x8B\x56\x18",
        ],
        640,
    ),
    // 0x20(%rbx): the thread that uses a socket; 0x30(%rbx): its address, of 0xb0(%rbx) bytes.
    (
        c"_Z30pfs_set_socket_thread_owner_v1P10PSI_socket",
        &[b"\x48\x89\x7B\x20", b"\x48\x8D\x73\x30", b"\x8B\x93\xB0\x00\x00\x00"],
        96,
    ),
    // 0x28(%rdi): its descriptor; 0x80: how long its address may be.
    (
        c"_Z22pfs_set_socket_info_v1P10PSI_socketPKiPK8sockaddrj",
        &[b"\x89\x47\x28", b"\xB8\x80\x00\x00\x00", b"\x89\x8F\xB0\x00\x00\x00", b"\x88\x47\x30"],
        288,
    ),
    // 0xc0, 0xe8 and 0x110: its reads, writes and other operations.
    (
        c"_Z14destroy_socketP10PFS_socket",
        &[
            b"\x48\x8B\x8F\xC0\x00\x00\x00",
            b"\x48\x8B\x88\xE8\x00\x00\x00",
            b"\x48\x8B\x88\x10\x01\x00\x00",
        ],
        256,
    ),
    // (%rsi), 2(%rsi): I/O of an open table is on, and timed; 0x20(%rsi): its definition; 0x28(%rsi): its
    // identity; 4(%rbx), 0x38(%rbx): operation and index in the built-in's locker, which is as long.
    (
        c"_Z26pfs_start_table_io_wait_v1P22PSI_table_locker_stateP9PSI_table22PSI_table_io_operationjPKcj",
        &[
            b"\x80\x3E\x00",
            b"\x80\x7E\x02\x00",
            b"\x4C\x8B\x46\x20",
            b"\x48\x8B\x7E\x28",
            b"\x44\x89\x6B\x38",
        ],
        560,
    ),
    // 1(%rsi), 3(%r12): its locks are on, and timed; 0x23f8 and 0x23fc: their kinds; 0x63: none.
    (
        c"_Z28pfs_start_table_lock_wait_v1P22PSI_table_locker_stateP9PSI_table24PSI_table_lock_operationmPKcj",
        &[
            b"\x80\x7E\x01\x00",
            b"\x41\x80\x7C\x24\x03\x00",
            b"\x41\x89\x9C\x24\xF8\x23\x00\x00",
            b"\x41\xC7\x84\x24\xFC\x23\x00\x00\x63\x00\x00\x00",
            b"\x41\x89\x5E\x38",
        ],
        672,
    ),
    // cmp $2, %r13: F_UNLCK; cmp $1, %r13d and mov $8, %ebx: F_RDLCK and the kinds of external locks;
    // sub $3, %r13d and cmp $8: the first and the last type of an internal lock.
    (
        c"_Z28pfs_start_table_lock_wait_v1P22PSI_table_locker_stateP9PSI_table24PSI_table_lock_operationmPKcj",
        &[
            b"\x49\x83\xFD\x02",
            b"\x41\x83\xFD\x01",
            b"\xBB\x08\x00\x00\x00",
            b"\x41\x83\xED\x03",
            b"\x41\x83\xFD\x08",
        ],
        672,
    ),
    // Of a definition: 0x10 and 0xd0, the schema; 0xd8 and 0x198, the name; 8, the type; 4 and 5, its flags;
    // 0x1a0, the number of keys.
    (
        c"_Z26find_or_create_table_shareP10PFS_threadbPK11TABLE_SHARE",
        &[
            b"\x48\x8D\x48\x10",
            b"\x48\xC7\x80\xD0\x00\x00\x00",
            b"\x48\x8D\x88\xD8\x00\x00\x00",
            b"\x48\xC7\x80\x98\x01\x00\x00",
            b"\x88\x50\x08",
            b"\x88\x50\x04",
            b"\x88\x50\x05",
            b"\x89\x90\xA0\x01\x00\x00",
        ],
        544,
    ),
    // and $-2, add $6: the type is 4, or 6 if it is temporary.
    (
        c"_Z26find_or_create_table_shareP10PFS_threadbPK11TABLE_SHARE",
        &[b"\x83\xE0\xFE\x83\xC0\x06"],
        256,
    ),
    // 0x1c0(%rdi, %rcx, 8): the sums of its keys.
    (
        c"_ZN15PFS_table_share25find_or_create_index_statEPK11TABLE_SHAREj",
        &[b"\x4C\x8D\x84\xCF\xC0\x01\x00\x00"],
        32,
    ),
    // 4(%rbx), 0xc4(%rbx): the name of a key.
    (
        c"_Z29create_table_share_index_statPK11TABLE_SHAREj",
        &[b"\x48\x8D\x7B\x04", b"\x89\x83\xC4\x00\x00\x00"],
        256,
    ),
    // 0x1b8(%rdi): the sums of its locks.
    (c"_ZN15PFS_table_share24find_or_create_lock_statEv", &[b"\x48\x8B\x97\xB8\x01\x00\x00"], 32),
    // 8(%rax): the first of these.
    (c"_Z28create_table_share_lock_statv", &[b"\x48\x8D\x50\x08", b"\x48\x83\xC2\x20"], 128),
];

/// A function of the program, and one that it calls by name: what is led is not part of it.
pub(super) type Call = (&'static CStr, &'static CStr);

/// What events and the tables need.
pub(super) const CALLS: [Call; 16] = [
    (c"_Z25pfs_end_file_open_wait_vcP15PSI_file_lockerPv", c"_Z20pfs_end_file_wait_vcP15PSI_file_lockerm"),
    (
        c"_Z48pfs_end_file_open_wait_and_bind_to_descriptor_vcP15PSI_file_lockeri",
        c"_Z20pfs_end_file_wait_vcP15PSI_file_lockerm",
    ),
    (c"_Z26pfs_end_file_close_wait_vcP15PSI_file_lockeri", c"_Z20pfs_end_file_wait_vcP15PSI_file_lockerm"),
    (
        c"_Z27pfs_end_file_rename_wait_vcP15PSI_file_lockerPKcS2_i",
        c"_Z20pfs_end_file_wait_vcP15PSI_file_lockerm",
    ),
    (
        c"_Z27pfs_end_file_rename_wait_vcP15PSI_file_lockerPKcS2_i",
        c"_Z15end_file_renameP10PFS_threadP8PFS_filePKci",
    ),
    (
        c"_Z27pfs_start_file_open_wait_vcP15PSI_file_lockerPKcj",
        c"_Z22pfs_start_file_wait_vcP15PSI_file_lockermPKcj",
    ),
    (c"_Z26pfs_end_file_close_wait_vcP15PSI_file_lockeri", c"_Z12destroy_fileP10PFS_threadP8PFS_fileb"),
    (c"_Z18pfs_init_socket_v1jPKiPK8sockaddrj", c"_Z13create_socketP16PFS_socket_classPKiPK8sockaddrj"),
    (c"_Z21pfs_destroy_socket_v1P10PSI_socket", c"_Z14destroy_socketP10PFS_socket"),
    (c"_Z18pfs_close_table_v1P11TABLE_SHAREP9PSI_table", c"_Z13destroy_tableP9PFS_table"),
    (c"_Z19pfs_rebind_table_v1P15PSI_table_sharePKvP9PSI_table", c"_Z13destroy_tableP9PFS_table"),
    (
        c"_Z22pfs_get_table_share_v1bP11TABLE_SHARE",
        c"_Z26find_or_create_table_shareP10PFS_threadbPK11TABLE_SHARE",
    ),
    (c"_Z23pfs_drop_table_share_v1bPKciS0_i", c"_Z16drop_table_shareP10PFS_threadbPKcjS2_j"),
    (INITIALIZE, c"_Z16init_instrumentsPK16PFS_global_param"),
    (INITIALIZE, c"_Z10init_errorPK16PFS_global_param"),
    (c"_Z16pfs_malloc_arrayP24PFS_builtin_memory_classmmi", c"_Z10pfs_mallocP24PFS_builtin_memory_classmi"),
];

/// What the socket needs.
pub(super) const OF_SOCKET: [Call; 1] = [(c"_Z11mysqld_mainiPPc", c"_Z20start_handle_managerv")];

/// What tables of sessions need.
pub(super) const OF_SESSIONS: [Call; 1] =
    [(c"_Z15cleanup_accountv", c"_ZN21PFS_account_allocator10free_arrayEP17PFS_account_array")];

/// What waits for rows need.
pub(super) const OF_ROW_LOCKS: [Call; 2] = [
    (c"_Z24lock_wait_suspend_threadP9que_thr_t", c"_Z14thd_wait_beginP3THDi"),
    (c"_Z24lock_wait_suspend_threadP9que_thr_t", c"_Z12thd_wait_endP3THD"),
];

/// Checks that functions call what is led by name.
pub(super) fn calls(calls: &[Call]) -> Result<(), DisableReason> {
    for &(caller, called) in calls {
        let to = code(called)?.as_ptr().addr();
        let calls = |window: &[u8]| {
            let from = window.as_ptr().addr();
            matches!(window[0], 0xE8 | 0xE9)
                && distance_of_call(from, to).is_some_and(|distance| window[1..] == distance.to_le_bytes())
        };
        if !code(caller)?.windows(5).any(calls) {
            return Err(DisableReason::Unexpected(caller.to_string_lossy().into_owned()));
        }
    }
    Ok(())
}
