//! The shims between the server's calls and the engine, one per slot and all of one shape: guard, null check,
//! engine call, typed fallback. Shims that begin frequent events are not called while their instruments are
//! off ([`routing`]). They leave the slow path to a C function, which does not unwind, by a tail call, so
//! that no register is saved.
//!
//! `host/FACTS.md` lists what the server guarantees about its arguments; `pointer` is the only file that
//! turns its pointers into references.

pub(crate) mod condition;
mod facts;
mod file;
pub(crate) mod lock;
mod memory;
mod metadata;
mod pointer;
pub(crate) mod preparation;
mod program;
mod registration;
pub(crate) mod routing;
mod server;
mod socket;
mod stage;
mod statement;
pub(crate) mod synch;
mod table;
mod thread;
mod transaction;

use std::ffi::c_void;

use tare_host::options::Options;

use crate::abi::{Series, vtable_135, vtable_136};
use crate::install::federated;

/// The schema of tare's own tables.
const SCHEMA: &[u8] = federated::SCHEMA.as_bytes();

pub(crate) use facts::select;
pub(crate) use server::ServerHost;
pub(crate) use thread::when_ready;

/// Defines every slot by name; a layout puts them in its order.
macro_rules! slots {
    ($layout:ident $(, $extra:ident: $shim:path)*) => {
        $layout::Vtable {
            register_mutex: registration::register_mutex,
            register_rwlock: registration::register_rwlock,
            register_cond: registration::register_cond,
            register_thread: registration::register_thread,
            register_file: registration::register_file,
            register_stage: registration::register_stage,
            register_statement: registration::register_statement,
            register_socket: registration::register_socket,
            init_mutex: synch::init_mutex,
            destroy_mutex: synch::destroy_mutex,
            init_rwlock: synch::init_rwlock,
            destroy_rwlock: synch::destroy_rwlock,
            init_cond: synch::init_cond,
            destroy_cond: synch::destroy_cond,
            init_socket: socket::init_socket,
            destroy_socket: socket::destroy_socket,
            get_table_share: table::get_table_share,
            release_table_share: table::release_table_share,
            drop_table_share: table::drop_table_share,
            open_table: table::open_table,
            unbind_table: table::unbind_table,
            rebind_table: table::rebind_table,
            close_table: table::close_table,
            create_file: file::create_file,
            spawn_thread: thread::spawn_thread,
            new_thread: thread::new_thread,
            set_thread_id: thread::set_thread_id,
            set_thread_thd: thread::set_thread_thd,
            set_thread_os_id: thread::set_thread_os_id,
            get_thread: thread::get_thread,
            set_thread_user: thread::set_thread_user,
            set_thread_account: thread::set_thread_account,
            set_thread_db: thread::set_thread_db,
            set_thread_command: thread::set_thread_command,
            set_connection_type: thread::set_connection_type,
            set_thread_start_time: thread::set_thread_start_time,
            set_thread_state: thread::set_thread_state,
            set_thread_info: thread::set_thread_info,
            set_thread: thread::set_thread,
            delete_current_thread: thread::delete_current_thread,
            delete_thread: thread::delete_thread,
            get_thread_file_name_locker: file::get_thread_file_name_locker,
            get_thread_file_stream_locker: file::get_thread_file_stream_locker,
            get_thread_file_descriptor_locker: file::get_thread_file_descriptor_locker,
            unlock_mutex: synch::unlock_mutex,
            unlock_rwlock: synch::unlock_rwlock,
            signal_cond: synch::signal_cond,
            broadcast_cond: synch::broadcast_cond,
            start_idle_wait: socket::start_idle_wait,
            end_idle_wait: socket::end_idle_wait,
            start_mutex_wait: synch::start_mutex_wait,
            end_mutex_wait: synch::end_mutex_wait,
            start_rwlock_rdwait: synch::start_rwlock_wait,
            end_rwlock_rdwait: synch::end_rwlock_rdwait,
            start_rwlock_wrwait: synch::start_rwlock_wait,
            end_rwlock_wrwait: synch::end_rwlock_wrwait,
            start_cond_wait: synch::start_cond_wait,
            end_cond_wait: synch::end_cond_wait,
            start_table_io_wait: table::start_table_io_wait,
            end_table_io_wait: table::end_table_io_wait,
            start_table_lock_wait: table::start_table_lock_wait,
            end_table_lock_wait: table::end_table_lock_wait,
            start_file_open_wait: file::start_file_open_wait,
            end_file_open_wait: file::end_file_open_wait,
            end_file_open_wait_and_bind_to_descriptor: file::end_file_open_wait_and_bind_to_descriptor,
            end_temp_file_open_wait_and_bind_to_descriptor:
                file::end_temp_file_open_wait_and_bind_to_descriptor,
            start_file_wait: file::start_file_wait,
            end_file_wait: file::end_file_wait,
            start_file_close_wait: file::start_file_close_wait,
            end_file_close_wait: file::end_file_close_wait,
            end_file_rename_wait: file::end_file_rename_wait,
            start_stage: stage::start_stage,
            get_current_stage_progress: stage::get_current_stage_progress,
            end_stage: stage::end_stage,
            get_thread_statement_locker: statement::get_thread_statement_locker::<false>,
            refine_statement: statement::refine_statement,
            start_statement: statement::start_statement,
            set_statement_text: statement::set_statement_text,
            set_statement_lock_time: statement::set_statement_lock_time,
            set_statement_rows_sent: statement::set_statement_rows_sent,
            set_statement_rows_examined: statement::set_statement_rows_examined,
            inc_statement_created_tmp_disk_tables: statement::inc_statement_created_tmp_disk_tables,
            inc_statement_created_tmp_tables: statement::inc_statement_created_tmp_tables,
            inc_statement_select_full_join: statement::inc_statement_select_full_join,
            inc_statement_select_full_range_join: statement::inc_statement_select_full_range_join,
            inc_statement_select_range: statement::inc_statement_select_range,
            inc_statement_select_range_check: statement::inc_statement_select_range_check,
            inc_statement_select_scan: statement::inc_statement_select_scan,
            inc_statement_sort_merge_passes: statement::inc_statement_sort_merge_passes,
            inc_statement_sort_range: statement::inc_statement_sort_range,
            inc_statement_sort_rows: statement::inc_statement_sort_rows,
            inc_statement_sort_scan: statement::inc_statement_sort_scan,
            set_statement_no_index_used: statement::set_statement_no_index_used,
            set_statement_no_good_index_used: statement::set_statement_no_good_index_used,
            end_statement: statement::end_statement::<false>,
            get_thread_transaction_locker: transaction::get_thread_transaction_locker,
            start_transaction: transaction::start_transaction,
            set_transaction_xid: transaction::set_transaction_xid,
            set_transaction_xa_state: transaction::set_transaction_xa_state,
            set_transaction_gtid: transaction::set_transaction_gtid,
            set_transaction_trxid: transaction::set_transaction_trxid,
            inc_transaction_savepoints: transaction::inc_transaction_savepoints,
            inc_transaction_rollback_to_savepoint: transaction::inc_transaction_rollback_to_savepoint,
            inc_transaction_release_savepoint: transaction::inc_transaction_release_savepoint,
            end_transaction: transaction::end_transaction,
            start_socket_wait: socket::start_socket_wait,
            end_socket_wait: socket::end_socket_wait,
            set_socket_state: socket::set_socket_state,
            set_socket_info: socket::set_socket_info,
            set_socket_thread_owner: socket::set_socket_thread_owner,
            create_prepared_stmt: program::create_prepared_stmt,
            destroy_prepared_stmt: program::destroy_prepared_stmt,
            reprepare_prepared_stmt: program::reprepare_prepared_stmt,
            execute_prepared_stmt: program::execute_prepared_stmt::<true>,
            set_prepared_stmt_text: program::set_prepared_stmt_text,
            digest_start: statement::digest_start,
            digest_end: statement::digest_end,
            set_thread_connect_attrs: thread::set_thread_connect_attrs,
            start_sp: program::start_sp,
            end_sp: program::end_sp,
            drop_sp: program::drop_sp,
            get_sp_share: program::get_sp_share,
            release_sp_share: program::release_sp_share,
            register_memory: registration::register_memory,
            memory_alloc: memory::memory_alloc::<false>,
            memory_realloc: memory::memory_realloc::<false>,
            memory_claim: memory::memory_claim::<false>,
            memory_free: memory::memory_free::<false>,
            unlock_table: table::unlock_table,
            create_metadata_lock: metadata::create_metadata_lock,
            set_metadata_lock_status: metadata::set_metadata_lock_status,
            destroy_metadata_lock: metadata::destroy_metadata_lock,
            start_metadata_wait: metadata::start_metadata_wait,
            end_metadata_wait: metadata::end_metadata_wait,
            set_thread_peer_port: thread::set_thread_peer_port,
            $($extra: $shim,)*
        }
    };
}

/// Builds the function table that the options ask for. The choice is made here once, so it costs nothing per
/// event.
macro_rules! table {
    ($slots:expr, $options:expr) => {{
        let mut table = $slots;
        if $options.synch_waits_by_instance {
            table.end_mutex_wait = synch::end_counted_mutex_wait;
            table.end_rwlock_rdwait = synch::end_counted_rwlock_rdwait;
            table.end_rwlock_wrwait = synch::end_counted_rwlock_wrwait;
            table.end_cond_wait = synch::end_counted_cond_wait;
        } else {
            table.start_rwlock_rdwait = synch::start_lean_rwlock_wait;
            table.start_rwlock_wrwait = synch::start_lean_rwlock_wait;
        }
        let extended = $options.shape == tare_tables::Shape::Extended;
        if extended {
            table.get_thread_statement_locker = statement::get_thread_statement_locker::<true>;
            table.end_statement = statement::end_statement::<true>;
            table.set_statement_text = statement::set_numbered_statement_text;
            table.memory_alloc = memory::memory_alloc::<true>;
            table.memory_realloc = memory::memory_realloc::<true>;
            table.memory_claim = memory::memory_claim::<true>;
            table.memory_free = memory::memory_free::<true>;
        }
        if !$options.prepared_digests {
            table.execute_prepared_stmt = program::execute_prepared_stmt::<false>;
        }
        if !$options.monitoring {
            table.create_metadata_lock = metadata::create_looked_at_metadata_lock;
            table.start_table_lock_wait = table::start_looked_at_table_lock_wait;
            table.end_statement = match extended {
                true => statement::end_looked_at_statement::<true>,
                false => statement::end_looked_at_statement::<false>,
            };
        }
        routing::keep(table)
    }};
}

/// Returns the function table in the layout of `series`.
pub(crate) fn vtable(series: Series, options: &Options) -> *const c_void {
    match series {
        Series::V10_6 | Series::V10_11 | Series::V11_4 => table!(slots!(vtable_135), options),
        Series::V11_8 => {
            table!(slots!(vtable_136, get_thread_class_name: thread::get_thread_class_name), options)
        }
    }
}
