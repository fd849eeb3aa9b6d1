//! The functions of files, sockets and tables.

use super::{Led, Told};
use crate::entry::{files, sockets, tables};

/// Returns the functions that this library's stand in for.
pub(super) fn replaced() -> [Led; 12] {
    [
        (
            c"_Z22pfs_start_file_wait_vcP15PSI_file_lockermPKcj",
            files::start_file_wait as *const () as usize,
        ),
        (
            c"_Z27pfs_start_file_open_wait_vcP15PSI_file_lockerPKcj",
            files::start_file_open_or_close_wait as *const () as usize,
        ),
        (
            c"_Z28pfs_start_file_close_wait_vcP15PSI_file_lockerPKcj",
            files::start_file_open_or_close_wait as *const () as usize,
        ),
        (
            c"_Z36pfs_get_thread_file_stream_locker_vcP24PSI_file_locker_state_v1P8PSI_file18PSI_file_operation",
            files::get_thread_file_stream_locker as *const () as usize,
        ),
        (c"_Z20pfs_end_file_wait_vcP15PSI_file_lockerm", files::end_file_wait as *const () as usize),
        (
            c"_Z24pfs_start_socket_wait_v1P26PSI_socket_locker_state_v1P10PSI_socket20PSI_socket_operationmPKcj",
            sockets::start_socket_wait as *const () as usize,
        ),
        (
            c"_Z22pfs_set_socket_info_v1P10PSI_socketPKiPK8sockaddrj",
            sockets::set_socket_info as *const () as usize,
        ),
        (c"_Z22pfs_end_socket_wait_v1P17PSI_socket_lockerm", sockets::end_socket_wait as *const () as usize),
        (
            c"_Z26pfs_start_table_io_wait_v1P22PSI_table_locker_stateP9PSI_table22PSI_table_io_operationjPKcj",
            tables::start_table_io_wait as *const () as usize,
        ),
        (
            c"_Z24pfs_end_table_io_wait_v1P16PSI_table_lockery",
            tables::end_table_io_wait as *const () as usize,
        ),
        (
            c"_Z28pfs_start_table_lock_wait_v1P22PSI_table_locker_stateP9PSI_table24PSI_table_lock_operationmPKcj",
            tables::start_table_lock_wait as *const () as usize,
        ),
        (
            c"_Z26pfs_end_table_lock_wait_v1P16PSI_table_locker",
            tables::end_table_lock_wait as *const () as usize,
        ),
    ]
}

/// Returns the functions that still do their work as well.
pub(super) fn told() -> [Told; 12] {
    [
        (
            c"_Z34pfs_get_thread_file_name_locker_vcP24PSI_file_locker_state_v1j18PSI_file_operationPKcPKv",
            files::get_thread_file_name_locker as *const () as usize,
            &files::NAME_LOCKER,
        ),
        (
            c"_Z40pfs_get_thread_file_descriptor_locker_vcP24PSI_file_locker_state_v1i18PSI_file_operation",
            files::get_thread_file_descriptor_locker as *const () as usize,
            &files::DESCRIPTOR_LOCKER,
        ),
        (
            c"_Z29pfs_start_file_rename_wait_vcP15PSI_file_lockermPKcS2_S2_j",
            files::start_file_rename_wait as *const () as usize,
            &files::START_RENAME,
        ),
        (
            c"_Z12destroy_fileP10PFS_threadP8PFS_fileb",
            files::destroy_file as *const () as usize,
            &files::DESTROY_FILE,
        ),
        (
            c"_Z15end_file_renameP10PFS_threadP8PFS_filePKci",
            files::end_file_rename as *const () as usize,
            &files::END_RENAME,
        ),
        (
            c"_Z30pfs_set_socket_thread_owner_v1P10PSI_socket",
            sockets::set_socket_thread_owner as *const () as usize,
            &sockets::SET_OWNER,
        ),
        (
            c"_Z13create_socketP16PFS_socket_classPKiPK8sockaddrj",
            sockets::create_socket as *const () as usize,
            &sockets::CREATE_SOCKET,
        ),
        (
            c"_Z14destroy_socketP10PFS_socket",
            sockets::destroy_socket as *const () as usize,
            &sockets::DESTROY_SOCKET,
        ),
        (
            c"_Z13destroy_tableP9PFS_table",
            tables::destroy_table as *const () as usize,
            &tables::DESTROY_TABLE,
        ),
        (
            c"_Z26find_or_create_table_shareP10PFS_threadbPK11TABLE_SHARE",
            tables::find_or_create_table_share as *const () as usize,
            &tables::FIND_SHARE,
        ),
        (
            c"_Z16drop_table_shareP10PFS_threadbPKcjS2_j",
            tables::drop_table_share as *const () as usize,
            &tables::DROP_SHARE,
        ),
        (
            c"_Z34update_program_share_derived_flagsP10PFS_thread",
            tables::update_program_share_derived_flags as *const () as usize,
            &tables::UPDATE_SHARES,
        ),
    ]
}
