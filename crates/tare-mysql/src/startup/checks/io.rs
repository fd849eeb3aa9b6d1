//! The evidence for [`crate::abi::io`], and for who calls what is led.

use std::ffi::CStr;

use tare_host::instructions::Fact::{Address, Element, Number, Reads, Writes};

use super::super::disable_reason::DisableReason;
use super::{Evidence, Program};
use crate::abi::layout::Layout;

/// Returns the evidence for each number in [`crate::abi::io`].
pub(super) fn evidence(layout: &Layout) -> Vec<Evidence> {
    vec![
    // 0x220(%rsi): a file's instrument, of which 4 says that it is on; 4(%rsi) and 5(%rbx): the file's flags;
    // what its locker has at 0, 4, 8, 0x18 and 0x20; 0xb0 and 0x1f8: the thread's events.
    (c"_Z36pfs_get_thread_file_stream_locker_vcP24PSI_file_locker_state_v1P8PSI_file18PSI_file_operation", vec![Reads(0x220, 8), Reads(4, 1), Reads(5, 1), Writes(8, 8), Writes(4, 4), Writes(0x18, 8), Writes(0x20, 8), Reads(layout.thread.next_wait, 8), Writes(layout.thread.next_wait, 8), Number(0xB0)]),
    // 0x228(%r8): a file's sums, of which reads are at 8, writes at 0x30, others at 0x58; a locker's
    // operation, file, instrument and thread; 4: it is an event.
    (c"_Z20pfs_end_file_wait_vcP15PSI_file_lockerm", vec![Address(0x228), Address(8), Address(0x30), Address(0x58), Reads(8, 8), Reads(0x18, 8), Reads(4, 4), Reads(0x20, 8), Reads(0, 1), Number(4)]),
    // 0x40(%rdi): the last word of a file's locker.
    (c"_Z22pfs_start_file_wait_vcP15PSI_file_lockermPKcj", vec![Reads(0x40, 8)]),
    // 0x18(%rax): a file's name; 0x218(%rax): its length.
    (c"_Z15end_file_renameP10PFS_threadP8PFS_filePKci", vec![Address(0x18), Writes(0x218, 8)]),
    // The built-in's files by descriptor have 8 bytes each, and their number 8.
    (c"_Z40pfs_get_thread_file_descriptor_locker_vcP24PSI_file_locker_state_v1i18PSI_file_operation", vec![Reads(0, 8), Element(0, 8), Writes(0, 8)]),
    // 8(%rsi) and 0xb4(%rsi): a socket is timed, and is idle; 0xb8(%rsi): its instrument; 0x18(%rsi): its
    // identity.
    (c"_Z24pfs_start_socket_wait_v1P26PSI_socket_locker_state_v1P10PSI_socket20PSI_socket_operationmPKcj", vec![Reads(8, 1), Reads(0xB4, 1), Reads(0xB8, 8), Reads(0x18, 8)]),
    // 0x20(%rbx): the thread that uses a socket; 0x30(%rbx): its address, of 0xb0(%rbx) bytes.
    (c"_Z30pfs_set_socket_thread_owner_v1P10PSI_socket", vec![Writes(0x20, 8), Address(0x30), Reads(0xB0, 4)]),
    // 0x28(%rdi): its descriptor; 0x80: how long its address may be.
    (c"_Z22pfs_set_socket_info_v1P10PSI_socketPKiPK8sockaddrj", vec![Writes(0x28, 4), Number(0x80), Writes(0xB0, 4), Writes(0x30, 1)]),
    // 0xc0, 0xe8 and 0x110: its reads, writes and other operations.
    (c"_Z14destroy_socketP10PFS_socket", vec![Reads(0xC0, 8), Reads(0xE8, 8), Reads(0x110, 8)]),
    // (%rsi), 2(%rsi): I/O of an open table is on, and timed; 0x20(%rsi): its definition; 0x28(%rsi): its
    // identity; 4(%rbx), 0x38(%rbx): operation and index in the built-in's locker, which is as long.
    (c"_Z26pfs_start_table_io_wait_v1P22PSI_table_locker_stateP9PSI_table22PSI_table_io_operationjPKcj", vec![Reads(0, 1), Reads(2, 1), Reads(0x20, 8), Reads(0x28, 8), Writes(0x38, 4)]),
    // 1(%rsi), 3(%r12): its locks are on, and timed; 0x23f8 and 0x23fc: their kinds; 0x63: none.
    (c"_Z28pfs_start_table_lock_wait_v1P22PSI_table_locker_stateP9PSI_table24PSI_table_lock_operationmPKcj", vec![Reads(1, 1), Reads(3, 1), Writes(0x23F8, 4), Writes(0x23FC, 4), Number(0x63), Writes(0x38, 4)]),
    // cmp $2, %r13: F_UNLCK; cmp $1, %r13d and mov $8, %ebx: F_RDLCK and the kinds of external locks;
    // sub $3, %r13d and cmp $8: the first and the last type of an internal lock.
    (c"_Z28pfs_start_table_lock_wait_v1P22PSI_table_locker_stateP9PSI_table24PSI_table_lock_operationmPKcj", vec![Number(2), Number(1), Number(8), Number(3)]),
    // Of a definition: 0x10 and 0xd0, the schema; 0xd8 and 0x198, the name; 8, the type; 4 and 5, its flags;
    // 0x1a0, the number of keys.
    (c"_Z26find_or_create_table_shareP10PFS_threadbPK11TABLE_SHARE", vec![Address(0x10), Address(0xD8), Writes(8, 1), Writes(4, 1), Writes(5, 1), Writes(0x1A0, 4)]),
    // and $-2, add $6: the type is 4, or 6 if it is temporary.
    (c"_Z26find_or_create_table_shareP10PFS_threadbPK11TABLE_SHARE", vec![Number(0xFFFFFFFE), Number(6)]),
    // 0x1c0(%rdi, %rcx, 8): the sums of its keys.
    (c"_ZN15PFS_table_share25find_or_create_index_statEPK11TABLE_SHAREj", vec![Element(0x1C0, 8)]),
    // 4(%rbx), 0xc4(%rbx): the name of a key.
    (c"_Z29create_table_share_index_statPK11TABLE_SHAREj", vec![Address(4), Writes(0xC4, 4)]),
    // 0x1b8(%rdi): the sums of its locks.
    (c"_ZN15PFS_table_share24find_or_create_lock_statEv", vec![Reads(0x1B8, 8)]),
    // 8(%rax): the first of these.
    (c"_Z28create_table_share_lock_statv", vec![Address(8), Number(0x20)]),
    ]
}

/// A function of the program, and one that it calls by name: what is led is not part of it.
pub(super) type Call = (&'static CStr, &'static CStr);

/// Returns what events and the tables need.
pub(super) fn calls_of_all(layout: &Layout) -> [Call; 15] {
    [
        (
            c"_Z25pfs_end_file_open_wait_vcP15PSI_file_lockerPv",
            c"_Z20pfs_end_file_wait_vcP15PSI_file_lockerm",
        ),
        (
            c"_Z48pfs_end_file_open_wait_and_bind_to_descriptor_vcP15PSI_file_lockeri",
            c"_Z20pfs_end_file_wait_vcP15PSI_file_lockerm",
        ),
        (
            c"_Z26pfs_end_file_close_wait_vcP15PSI_file_lockeri",
            c"_Z20pfs_end_file_wait_vcP15PSI_file_lockerm",
        ),
        (
            c"_Z27pfs_end_file_rename_wait_vcP15PSI_file_lockerPKcS2_i",
            c"_Z20pfs_end_file_wait_vcP15PSI_file_lockerm",
        ),
        (
            c"_Z27pfs_end_file_rename_wait_vcP15PSI_file_lockerPKcS2_i",
            c"_Z15end_file_renameP10PFS_threadP8PFS_filePKci",
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
        (layout.initialize, c"_Z16init_instrumentsPK16PFS_global_param"),
        (layout.initialize, c"_Z10init_errorPK16PFS_global_param"),
        (
            c"_Z16pfs_malloc_arrayP24PFS_builtin_memory_classmmi",
            c"_Z10pfs_mallocP24PFS_builtin_memory_classmi",
        ),
    ]
}

/// What tells the number of a statement.
pub(super) const STATEMENT_NUMBER: Call = (
    c"_Z16dispatch_commandP3THDPK8COM_DATA19enum_server_command",
    c"_Z29pfs_set_statement_query_id_vcP20PSI_statement_lockery",
);

/// What tells the identifier of a distributed transaction.
pub(super) const TRANSACTION_XID: Call = (
    c"_ZN16Sql_cmd_xa_start14trans_xa_startEP3THD",
    c"_Z26pfs_set_transaction_xid_v1P22PSI_transaction_lockerPKvi",
);

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
pub(super) fn calls(program: &Program<'_>, calls: &[Call]) -> Result<(), DisableReason> {
    for &(caller, called) in calls {
        let (to, _) = program.symbol(called)?;
        if !program.facts(caller)?.call(to) {
            return Err(DisableReason::unexpected(caller));
        }
    }
    Ok(())
}
