//! The evidence for the layouts of statements, stages and transactions.

use std::ffi::CStr;

use tare_host::instructions::Fact::{self, Address, Number, Reads, Writes};

use super::Evidence;
use crate::abi::layout::{Layout, PROGRESS_AFTER_STAGE};

/// A function of the server that sets the text of a statement; the built-in's for that; and the variable with
/// the length of the longest.
pub(super) const SETS_TEXT: &CStr = c"_ZN13sp_instr_stmt7executeEP3THDPj";
/// See [`SETS_TEXT`].
pub(super) const SET_TEXT: &CStr = c"_Z25pfs_set_statement_text_vcP20PSI_statement_lockerPKcj";
/// See [`SETS_TEXT`].
pub(super) const LONGEST_TEXT: &CStr = c"pfs_max_sqltext";
/// What sets a text in a locker.
pub(super) const TEXT: [Fact; 3] = [Writes(0x198, 8), Writes(0x1A0, 4), Writes(0x1A4, 1)];

/// Returns the evidence for each number in [`crate::abi::events`].
pub(super) fn evidence(layout: &Layout) -> Vec<Evidence> {
    vec![
        // 0x10(%rdi): a statement's instrument; 0x1a8(%rdi): its program; 0x1168(%r14): a thread's telemetry
        // session; 0x1d0(%r15): that of the statement; 0x200(%r14): a thread's next event; 4 and 8: flags.
        (
            c"_Z22pfs_start_statement_vcP20PSI_statement_lockerPKcjS2_j",
            vec![
                Reads(0x10, 8),
                Reads(0x1A8, 8),
                Reads(layout.thread.telemetry, 8),
                Writes(0x1D0, 8),
                Reads(layout.thread.event_id, 8),
                Writes(8, 4),
                Writes(4, 4),
            ],
        ),
        // The locker: lock time 0x58, rows 0x60, counters 0x70 … 0xc0, digest 0xc8, text 0x198 and 0x1a0. The
        // diagnostics: status 0x8c, message 0x90, state 0x294, number 0x29c, rows 0x2a0, warnings 0x2b0. The
        // sums of a program 0x1a8, of a prepared statement 0x690 and 0x6d8.
        (
            c"_Z20pfs_end_statement_vcP20PSI_statement_lockerPv",
            vec![
                Reads(0x58, 8),
                Reads(0x60, 8),
                Reads(0x68, 8),
                Reads(0x70, 8),
                Reads(0xC0, 8),
                Reads(0xC8, 8),
                Reads(0x198, 8),
                Reads(0x1A0, 4),
                Reads(0x8C, 4),
                Address(0x90),
                Address(0x294),
                Reads(0x29C, 4),
                Reads(0x2A0, 8),
                Reads(0x2B0, 4),
                Reads(0x1A8, 8),
                Writes(0x1A8, 8),
                Number(1),
                Reads(0x690, 8),
                Writes(0x690, 8),
                Reads(0x6D8, 8),
                Writes(0x6D8, 8),
            ],
        ),
        // Of a program: type 0x10, schema 0x18 and 0xd8, name 0xe0 and 0x1a0, CPU time 0x260; of a prepared
        // statement's executions: 0x790.
        (
            c"_Z20pfs_end_statement_vcP20PSI_statement_lockerPv",
            vec![
                Reads(0x10, 1),
                Address(0x18),
                Reads(0xD8, 8),
                Address(0xE0),
                Reads(0x1A0, 8),
                Reads(0x260, 8),
                Writes(0x260, 8),
                Reads(0x790, 8),
                Writes(0x790, 8),
            ],
        ),
        // The sums of a program, and those of a prepared statement.
        (c"_ZN21table_esms_by_program8make_rowEP11PFS_program", vec![Reads(0x1A8, 8), Reads(0x278, 8)]),
        (
            c"_ZN29table_prepared_stmt_instances8make_rowEP17PFS_prepared_stmt",
            vec![Reads(0x4F0, 8), Reads(0x690, 8), Reads(0x6A8, 8), Reads(0x6D8, 8), Reads(0x7A8, 8)],
        ),
        // Those of later preparations.
        (c"_Z30pfs_reprepare_prepared_stmt_vcP17PSI_prepared_stmt", vec![Writes(0x6B0, 8)]),
        // 0x50(%rbx): the event that prepares; 0x1a8(%rbx): its program; 0x1b0(%rbx) ← the prepared
        // statement.
        (
            c"_Z27pfs_create_prepared_stmt_vcPvjP20PSI_statement_lockerPKcmS3_m",
            vec![Reads(0x50, 8), Reads(0x1A8, 8), Writes(0x1B0, 8)],
        ),
        // The number of a session's statement.
        (c"_Z20open_temporary_tableP3THDP9Table_ref", vec![Reads(layout.query_id, 8)]),
        // mov 0x20(%r13) and 8(%r13), 0x4f0(%r15): the event in which it was prepared.
        (
            c"_Z20create_prepared_stmtPvP10PFS_threadP11PFS_programP21PFS_events_statementsjPKcjS7_j",
            vec![Reads(0x20, 8), Writes(0x4F0, 8), Reads(8, 8)],
        ),
        // mov %rsi, 0x60(%rdi); testb $4, 8(%rdi): nothing else happens while the flags are 0.
        (
            c"_Z30pfs_set_statement_rows_sent_vcP20PSI_statement_lockery",
            vec![Writes(0x60, 8), Reads(8, 1), Number(4)],
        ),
        // movb $1, 2(%rdi) and 3(%rdi)
        (c"_Z34pfs_set_statement_no_index_used_vcP20PSI_statement_locker", vec![Writes(2, 1), Number(1)]),
        (
            c"_Z39pfs_set_statement_no_good_index_used_vcP20PSI_statement_locker",
            vec![Writes(3, 1), Number(1)],
        ),
        // add %rsi, 0xb8(%rdi)
        (
            c"_Z30pfs_inc_statement_sort_rows_vcP20PSI_statement_lockerm",
            vec![Reads(0xB8, 8), Writes(0xB8, 8)],
        ),
        // mov %rsi, 0x1b0(%rdi); movb $0, (%rdi): a prepared statement is executed.
        (
            c"_Z28pfs_execute_prepared_stmt_vcP20PSI_statement_lockerP17PSI_prepared_stmt",
            vec![Writes(0x1B0, 8), Writes(0, 1)],
        ),
        // testb $8, 4(%rdi): the digest is wanted.
        (c"_Z19pfs_digest_start_vcP20PSI_statement_locker", vec![Reads(4, 1), Number(8)]),
        // testb $4, 4(%rdi): the text is. 0x194(%rdi): the character set.
        (
            c"_Z25pfs_set_statement_text_vcP20PSI_statement_lockerPKcj",
            vec![Reads(4, 1), Number(4), Reads(0x194, 4)],
        ),
        // The tokens: length 8, address 0x38.
        (c"_Z19compute_digest_hashPK18sql_digest_storagePh", vec![Reads(8, 8), Reads(0x38, 8)]),
        // Their capacity 0x40, their character set 0x30. The length of a text of the server's: 8.
        (
            c"_Z19compute_digest_textPK18sql_digest_storageP6String",
            vec![Reads(0x40, 4), Reads(0x30, 4), Writes(8, 8)],
        ),
        // 0xa1c(%rbx): a thread's stage; 0xa20(%rbx): its progress; testb $8, 8(%r12): whether it reports
        // one.
        (
            c"_Z18pfs_start_stage_v1jPKci",
            vec![
                Writes(layout.thread.stage, 4),
                Writes(layout.thread.stage + PROGRESS_AFTER_STAGE, 8),
                Reads(8, 1),
                Number(8),
            ],
        ),
        // 0x28(%rdi): the record of a transaction; what is told of it there.
        (
            c"_Z26pfs_set_transaction_xid_v1P22PSI_transaction_lockerPKvi",
            vec![
                Reads(0x28, 8),
                Writes(layout.transaction.is_told, 1),
                Writes(layout.transaction.xid, 8),
                Writes(layout.transaction.xid + 0x90, 8),
                Writes(layout.transaction.xa_state, 4),
            ],
        ),
        // A transaction's locker: instrument 8, thread 0x10, savepoints 0x40.
        (
            c"_Z36pfs_get_thread_transaction_locker_v1P31PSI_transaction_locker_state_v1PKvPKyibb",
            vec![
                Writes(8, 8),
                Writes(0x10, 8),
                Writes(0x40, 8),
                Writes(0x50, 8),
                Address(layout.transaction.record),
            ],
        ),
        // add %rsi, 0x40(%rdi); testb $4, (%rdi): nothing else happens while the flags are 0.
        (
            c"_Z33pfs_inc_transaction_savepoints_v1P22PSI_transaction_lockerm",
            vec![Reads(0x40, 8), Writes(0x40, 8), Reads(0, 1), Number(4)],
        ),
    ]
}
