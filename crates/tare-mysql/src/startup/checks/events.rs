//! The evidence for the layouts of statements, stages and transactions.

use super::Evidence;

/// The evidence for each number in [`crate::abi::events`].
pub(super) const EVIDENCE: [Evidence; 17] = [
    // 0x10(%rdi): a statement's instrument; 0x1a8(%rdi): its program; 0x1168(%r14): a thread's telemetry
    // session; 0x1d0(%r15): that of the statement; 0x200(%r14): a thread's next event; 4 and 8: flags.
    (
        c"_Z22pfs_start_statement_vcP20PSI_statement_lockerPKcjS2_j",
        &[
            b"\x48\x8B\x47\x10",
            b"\x4C\x8B\xAF\xA8\x01\0\0",
            b"\x49\x8B\xBE\x68\x11\0\0",
            b"\x49\xC7\x87\xD0\x01\0\0\0\0\0\0",
            b"\x4D\x8B\x8E\0\x02\0\0",
            b"\x41\xC7\x47\x08\0\0\0\0",
            b"\x41\x89\x57\x04",
        ],
        1408,
    ),
    // The locker: lock time 0x58, rows 0x60, counters 0x70 … 0xc0, digest 0xc8, text 0x198 and 0x1a0. The
    // diagnostics: status 0x8c, message 0x90, state 0x294, number 0x29c, rows 0x2a0, warnings 0x2b0. The sums
    // of a program 0x1a8, of a prepared statement 0x690 and 0x6d8.
    (
        c"_Z20pfs_end_statement_vcP20PSI_statement_lockerPv",
        &[
            b"\x48\x8B\x43\x58",
            b"\x48\x8B\x43\x60",
            b"\x48\x8B\x43\x68",
            b"\xF3\x0F\x6F\x63\x70",
            b"\x48\x8B\x83\xC0\0\0\0",
            b"\x48\x8B\xBB\xC8\0\0\0",
            b"\x48\x8B\x83\x98\x01\0\0",
            b"\x8B\x83\xA0\x01\0\0",
            b"\x41\x8B\x87\x8C\0\0\0",
            b"\x49\x8D\x87\x90\0\0\0",
            b"\x49\x8D\x87\x94\x02\0\0",
            b"\x41\x8B\x87\x9C\x02\0\0",
            b"\xF3\x41\x0F\x7E\x9F\xA0\x02\0\0",
            b"\x66\x41\x0F\x6E\x97\xB0\x02\0\0",
            b"\x48\x83\x81\xA8\x01\0\0\x01",
            b"\x49\x83\x82\x90\x06\0\0\x01",
            b"\x49\x83\x82\xD8\x06\0\0\x01",
        ],
        3072,
    ),
    // Of a program: type 0x10, schema 0x18 and 0xd8, name 0xe0 and 0x1a0, CPU time 0x260; of a prepared
    // statement's executions: 0x790.
    (
        c"_Z20pfs_end_statement_vcP20PSI_statement_lockerPv",
        &[
            b"\x41\x0F\xBE\x7E\x10",
            b"\x49\x8D\x46\x18",
            b"\x49\x8B\x86\xD8\0\0\0",
            b"\x49\x8D\x86\xE0\0\0\0",
            b"\x49\x8B\x86\xA0\x01\0\0",
            b"\x48\x01\xB9\x60\x02\0\0",
            b"\x49\x01\xB2\x90\x07\0\0",
        ],
        5200,
    ),
    // 0x50(%rbx): the event that prepares; 0x1a8(%rbx): its program; 0x1b0(%rbx) ← the prepared statement.
    (
        c"_Z27pfs_create_prepared_stmt_vcPvjP20PSI_statement_lockerPKcmS3_m",
        &[b"\x48\x8B\x4B\x50", b"\x48\x8B\x93\xA8\x01\0\0", b"\x48\x89\x83\xB0\x01\0\0"],
        160,
    ),
    // mov 0x20(%r13) and 8(%r13), 0x4f0(%r15): the event in which it was prepared.
    (
        c"_Z20create_prepared_stmtPvP10PFS_threadP11PFS_programP21PFS_events_statementsjPKcjS7_j",
        &[b"\x49\x8B\x45\x20\x49\x89\x87\xF0\x04\0\0", b"\x49\x8B\x45\x08\x49\x89\x87\xF0\x04\0\0"],
        464,
    ),
    // mov %rsi, 0x60(%rdi); testb $4, 8(%rdi): nothing else happens while the flags are 0.
    (
        c"_Z30pfs_set_statement_rows_sent_vcP20PSI_statement_lockery",
        &[b"\x48\x89\x77\x60\xF6\x47\x08\x04"],
        20,
    ),
    // movb $1, 2(%rdi) and 3(%rdi)
    (c"_Z34pfs_set_statement_no_index_used_vcP20PSI_statement_locker", &[b"\xC6\x47\x02\x01"], 20),
    (c"_Z39pfs_set_statement_no_good_index_used_vcP20PSI_statement_locker", &[b"\xC6\x47\x03\x01"], 20),
    // add %rsi, 0xb8(%rdi)
    (c"_Z30pfs_inc_statement_sort_rows_vcP20PSI_statement_lockerm", &[b"\x48\x01\xB7\xB8\0\0\0"], 20),
    // mov %rsi, 0x1b0(%rdi); movb $0, (%rdi): a prepared statement is executed.
    (
        c"_Z28pfs_execute_prepared_stmt_vcP20PSI_statement_lockerP17PSI_prepared_stmt",
        &[b"\x48\x89\xB7\xB0\x01\0\0\xC6\x07\0"],
        16,
    ),
    // testb $8, 4(%rdi): the digest is wanted.
    (c"_Z19pfs_digest_start_vcP20PSI_statement_locker", &[b"\xF6\x47\x04\x08"], 16),
    // testb $4, 4(%rdi): the text is. 0x194(%rdi): the character set.
    (
        c"_Z25pfs_set_statement_text_vcP20PSI_statement_lockerPKcj",
        &[b"\xF6\x47\x04\x04", b"\x8B\x8F\x94\x01\0\0"],
        96,
    ),
    // The tokens: length 8, address 0x38.
    (c"_Z19compute_digest_hashPK18sql_digest_storagePh", &[b"\x48\x8B\x77\x08", b"\x48\x8B\x7F\x38"], 16),
    // Their capacity 0x40, their character set 0x30. The length of a text of the server's: 8.
    (
        c"_Z19compute_digest_textPK18sql_digest_storageP6String",
        &[b"\x39\x47\x40", b"\x8B\x7F\x30", b"\x48\xC7\x46\x08\0\0\0\0"],
        80,
    ),
    // 0xa1c(%rbx): a thread's stage; 0xa20(%rbx): its progress; testb $8, 8(%r12): whether it reports one.
    (
        c"_Z18pfs_start_stage_v1jPKci",
        &[b"\x44\x89\xA3\x1C\x0A\0\0", b"\x48\xC7\x83\x20\x0A\0\0\0\0\0\0", b"\x41\xF6\x44\x24\x08\x08"],
        480,
    ),
    // A transaction's locker: instrument 8, thread 0x10, savepoints 0x40.
    (
        c"_Z36pfs_get_thread_transaction_locker_v1P31PSI_transaction_locker_state_v1PKvPKyibb",
        &[b"\x4C\x89\x63\x08", b"\x48\x89\x43\x10", b"\x0F\x11\x43\x40", b"\x48\xC7\x43\x50\0\0\0\0"],
        304,
    ),
    // add %rsi, 0x40(%rdi); testb $4, (%rdi): nothing else happens while the flags are 0.
    (
        c"_Z33pfs_inc_transaction_savepoints_v1P22PSI_transaction_lockerm",
        &[b"\x48\x01\x77\x40\xF6\x07\x04"],
        20,
    ),
];
