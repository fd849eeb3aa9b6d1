//! The functions of statements, stages and transactions that lead here.

use super::{Led, Told};
use crate::entry::{lives, programs, stage, statement, transaction};

/// Returns the functions that this library's stand in for.
pub(super) fn replaced() -> [Led; 12] {
    [
        (c"_Z18pfs_start_stage_v1jPKci", stage::start_stage as *const () as usize),
        (c"_Z16pfs_end_stage_v1v", stage::end_stage as *const () as usize),
        (
            c"_Z25pfs_set_statement_text_vcP20PSI_statement_lockerPKcj",
            statement::set_statement_text as *const () as usize,
        ),
        (
            c"_Z29pfs_set_statement_query_id_vcP20PSI_statement_lockery",
            statement::set_statement_query_id as *const () as usize,
        ),
        (
            c"_Z17pfs_digest_end_vcP17PSI_digest_lockerPK18sql_digest_storage",
            statement::digest_end as *const () as usize,
        ),
        (
            c"_Z36pfs_get_thread_transaction_locker_v1P31PSI_transaction_locker_state_v1PKvPKyibb",
            transaction::get_thread_transaction_locker as *const () as usize,
        ),
        (
            c"_Z24pfs_start_transaction_v1P22PSI_transaction_lockerPKcj",
            transaction::start_transaction as *const () as usize,
        ),
        (
            c"_Z26pfs_set_transaction_xid_v1P22PSI_transaction_lockerPKvi",
            transaction::set_transaction_xid as *const () as usize,
        ),
        (
            c"_Z31pfs_set_transaction_xa_state_v1P22PSI_transaction_lockeri",
            transaction::set_transaction_xa_state as *const () as usize,
        ),
        (
            c"_Z28pfs_set_transaction_trxid_v1P22PSI_transaction_lockerPKy",
            transaction::set_transaction_trxid as *const () as usize,
        ),
        (c"_Z34gtid_set_performance_schema_valuesPK3THD", transaction::set_gtid as *const () as usize),
        (
            c"_Z22pfs_end_transaction_v1P22PSI_transaction_lockerb",
            transaction::end_transaction as *const () as usize,
        ),
    ]
}

/// Returns those of them that a server from before 9.0 does not have, nor call.
pub(super) fn of_newer() -> [Led; 1] {
    [(
        c"_Z17pfs_digest_set_vcP20PSI_statement_lockerPK18sql_digest_storage",
        statement::digest_end as *const () as usize,
    )]
}

/// Returns the functions that still do their work as well, or in some cases.
pub(super) fn told() -> [Told; 7] {
    [
        (
            c"_Z22pfs_start_statement_vcP20PSI_statement_lockerPKcjS2_j",
            statement::start_statement as *const () as usize,
            &statement::START,
        ),
        (
            c"_Z23pfs_refine_statement_vcP20PSI_statement_lockerj",
            statement::refine_statement as *const () as usize,
            &statement::REFINE,
        ),
        (
            c"_Z20pfs_end_statement_vcP20PSI_statement_lockerPv",
            statement::end_statement as *const () as usize,
            &statement::END,
        ),
        (
            c"_ZN23table_setup_instruments17update_row_valuesEP5TABLEPKhPhPP5Field",
            lives::update_instrument as *const () as usize,
            &lives::UPDATE_INSTRUMENT,
        ),
        (
            c"_Z22find_or_create_programP10PFS_thread16enum_object_typePKcjS3_j",
            programs::find_program as *const () as usize,
            &programs::FIND_PROGRAM,
        ),
        (
            c"_Z12drop_programP10PFS_thread16enum_object_typePKcjS3_j",
            programs::drop_program as *const () as usize,
            &programs::DROP_PROGRAM,
        ),
        (
            c"_Z20create_prepared_stmtPvP10PFS_threadP11PFS_programP21PFS_events_statementsjPKcjS7_j",
            programs::create_prepared as *const () as usize,
            &programs::CREATE_PREPARED,
        ),
    ]
}
