//! What this library uses of the program: its variables, and the functions that it calls.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};
use std::mem::transmute;
use std::sync::atomic::{AtomicI64, AtomicPtr, AtomicU8};

use tare_host::process::symbol;

use super::checks::POOL_FUNCTIONS;
use super::disable_reason::DisableReason;
use crate::abi::Class;
use crate::abi::io::File;
use crate::abi::layout::{self, Layout};
use crate::entry::files::{DESCRIPTORS, Descriptors, RELEASE};
use crate::entry::lock_waits::{self, PoolFunctions};
use crate::entry::short;
use crate::server::{
    consumers, digest, events, instruments, lists, memory, metadata_locks, sessions, thread,
};
use crate::tables::refreshed::{FIND_LOCKS, FindLocks, MEMORY_SUMS};
use crate::tables::{
    READERS, ReadNumber, ReadText, Readers, SETTERS, SetDouble, SetEnded, SetNumber, SetText, SetTimestamp,
    Setters,
};

/// The lists of instruments of waits.
const LISTS: [&CStr; 5] = [
    c"_Z16find_mutex_classj",
    c"_Z17find_rwlock_classj",
    c"_Z15find_cond_classj",
    c"_Z15find_file_classj",
    c"_Z17find_socket_classj",
];

/// The flags of [`consumers::FOLLOWED`].
const FLAGS: [&CStr; consumers::FOLLOWED.len()] = [
    c"flag_global_instrumentation",
    c"flag_thread_instrumentation",
    c"flag_events_waits_current",
    c"flag_events_waits_history",
    c"flag_events_waits_history_long",
    c"flag_events_stages_current",
    c"flag_events_stages_history",
    c"flag_events_stages_history_long",
    c"flag_events_statements_current",
    c"flag_events_statements_history",
    c"flag_events_statements_history_long",
    c"flag_events_statements_cpu",
    c"flag_events_transactions_current",
    c"flag_events_transactions_history",
    c"flag_events_transactions_history_long",
    c"flag_statements_digest",
];

/// The instruments that are in no list.
const SINGLE: [&CStr; 4] =
    [c"global_table_io_class", c"global_table_lock_class", c"global_metadata_class", c"global_idle_class"];

fn found(name: &CStr) -> Result<*mut c_void, DisableReason> {
    symbol(name).ok_or_else(|| DisableReason::missing(name))
}

/// Makes the layout of the server known.
pub(super) fn set_layout(found: &Layout) {
    // SAFETY: only this thread exists, and nothing of the built-in's has been looked at yet.
    unsafe { layout::set(found) };
}

/// Finds everything and makes it known to the modules that use it.
pub(super) fn connect() -> Result<(), DisableReason> {
    // SAFETY: instruments, which live as long as the program.
    let single = SINGLE.iter().map(|name| found(name).map(|class| unsafe { &*class.cast::<Class>() }));
    let single = single.collect::<Result<Vec<_>, _>>()?;
    // SAFETY: a flag of one byte, which lives as long as the program.
    let flag = |name: &CStr| found(name).map(|flag| unsafe { &*flag.cast::<AtomicU8>() });
    consumers::set_places(FLAGS.iter().map(|name| flag(name)).collect::<Result<_, _>>()?);
    let _set_once = short::IDLE.set(single[3]);
    instruments::set_single(single);
    let lists = LISTS.iter().map(|name| found(name)).collect::<Result<Vec<_>, _>>()?;
    // SAFETY: the mangled names tell that each takes a number; each returns an instrument of its list or
    // null, and may be called from anywhere, as the built-in's own tables do.
    unsafe {
        let lists = lists.into_iter().map(|list| transmute::<*mut c_void, instruments::Find>(list)).collect();
        instruments::set_lists(lists);
    }
    connect_events()?;
    connect_io()?;
    connect_tables()?;
    thread::locate(found(c"THR_PFS")?);
    Ok(())
}

/// Finds the lists of the instruments of statements and stages, and the instrument of transactions.
fn connect_events() -> Result<(), DisableReason> {
    for (list, name) in
        [(&events::STAGES, c"_Z16find_stage_classj"), (&events::STATEMENTS, c"_Z20find_statement_classj")]
    {
        // SAFETY: as for the instruments of waits.
        unsafe { list.set_list(transmute::<*mut c_void, instruments::Find>(found(name)?)) };
    }
    // SAFETY: the mangled names tell the types of the arguments, and the checks their layouts.
    let functions = unsafe {
        digest::Functions {
            hash: transmute::<*mut c_void, digest::ComputeHash>(found(
                c"_Z19compute_digest_hashPK18sql_digest_storagePh",
            )?),
            text: transmute::<*mut c_void, digest::ComputeText>(found(
                c"_Z19compute_digest_textPK18sql_digest_storageP6String",
            )?),
            free: transmute::<*mut c_void, digest::Free>(found(c"_Z7my_freePv")?),
            charset: found(c"my_charset_bin")?.expose_provenance(),
        }
    };
    let _set_once = digest::FUNCTIONS.set(functions);
    // SAFETY: an instrument, which lives as long as the program.
    events::set_transaction(unsafe { &*found(c"global_transaction_class")?.cast::<Class>() });
    Ok(())
}

/// Finds what files and tables need.
fn connect_io() -> Result<(), DisableReason> {
    // SAFETY: variables of the program, which have these types and live as long; `checks` has seen their
    // use.
    let descriptors = unsafe {
        Descriptors {
            files: &*found(c"file_handle_array")?.cast(),
            count: &*found(c"file_handle_max")?.cast::<AtomicI64>(),
        }
    };
    let _set_once = DESCRIPTORS.set(descriptors);
    let release = found(c"_Z12release_fileP8PFS_file")?;
    // SAFETY: the mangled name tells its type.
    let _set_once =
        RELEASE.set(unsafe { transmute::<*mut c_void, unsafe extern "C" fn(*const File)>(release) });
    let find = found(c"_ZN15PFS_table_share24find_or_create_lock_statEv")?;
    // SAFETY: the mangled name tells that it is a member without arguments, and `checks` what it returns.
    let _set_once = FIND_LOCKS.set(unsafe { transmute::<*mut c_void, FindLocks>(find) });
    Ok(())
}

/// Finds what waits for rows need.
pub(super) fn connect_row_locks() -> Result<(), DisableReason> {
    let pool = found(POOL_FUNCTIONS)?;
    // SAFETY: a pointer, which lives as long as the program.
    let _set_once = lock_waits::POOL.set(unsafe { &*pool.cast::<AtomicPtr<PoolFunctions>>() });
    Ok(())
}

/// Finds what the owners of locks within InnoDB need.
pub(super) fn connect_row_owners() -> Result<(), DisableReason> {
    let transaction = found(c"_Z10thd_to_trxP3THD")?;
    // SAFETY: the mangled name tells its argument, and `checks` what it returns.
    let transaction = unsafe { transmute::<*mut c_void, lock_waits::Transaction>(transaction) };
    let _set_once = lock_waits::TRANSACTION.set(transaction);
    Ok(())
}

/// Finds what the tables of sessions need, and the rules by which metadata locks are in each other's way.
pub(super) fn connect_sessions() -> Result<(), DisableReason> {
    let commands = c"_ZN13Command_names7m_namesB5cxx11E";
    if !sessions::read_commands(found(commands)?.expose_provenance()) {
        return Err(DisableReason::unexpected(commands));
    }
    let rules = |name: &'static CStr| {
        metadata_locks::Rules::read(found(name)?.expose_provenance())
            .ok_or_else(|| DisableReason::unexpected(name))
    };
    let rules =
        [rules(c"_ZN8MDL_lock22m_scoped_lock_strategyE")?, rules(c"_ZN8MDL_lock22m_object_lock_strategyE")?];
    let _set_once = metadata_locks::RULES.set(rules);
    let connection = found(c"_Z17get_vio_type_name13enum_vio_typePPKcPi")?;
    // SAFETY: the mangled name tells its type.
    let connection = unsafe { transmute::<*mut c_void, sessions::ConnectionName>(connection) };
    let _set_once = sessions::CONNECTION_NAME.set(connection);
    for list in lists::ALL {
        let at = found(list.name())?;
        // SAFETY: a variable of the program, in which it has this list: `checks` has seen its use. The
        // built-in frees what it has after the function that `OF_SESSIONS` names.
        unsafe { list.set(at) };
    }
    Ok(())
}

/// Finds what memory needs.
pub(super) fn connect_memory() -> Result<(), DisableReason> {
    let (alloc, free) =
        (found(c"_ZN10PFS_thread13mem_cnt_allocEm")?, found(c"_ZN10PFS_thread12mem_cnt_freeEm")?);
    let (list, sums) = (found(c"_Z17find_memory_classj")?, found(c"global_instr_class_memory_array")?);
    memory::LIMIT_ALLOC.set(alloc.expose_provenance());
    memory::LIMIT_FREE.set(free.expose_provenance());
    // SAFETY: as for the instruments of waits.
    unsafe { memory::set_list(transmute::<*mut c_void, instruments::Find>(list)) };
    // SAFETY: a variable of the program, which has this type and lives as long; `checks` has seen its use.
    let _set_once = MEMORY_SUMS.set(unsafe { &*sums.cast() });
    Ok(())
}

/// Finds the functions of the service for tables that are not the built-in's own.
fn connect_tables() -> Result<(), DisableReason> {
    /// Returns a function of the server as one of the type that its mangled name tells.
    macro_rules! function {
        ($name:literal as $function:ty) => {
            // SAFETY: the mangled name tells the types of the arguments, and the structures are those of the
            // public service `pfs_plugin_table_v1`.
            unsafe { transmute::<*mut c_void, $function>(found($name)?) }
        };
    }
    let _set_once = SETTERS.set(Setters {
        varchar: function!(c"_Z32set_field_varchar_utf8mb4_len_v1P9PSI_fieldPKcj" as SetText),
        text: function!(c"_Z28set_field_varchar_utf8mb4_v1P9PSI_fieldPKc" as SetEnded),
        char: function!(c"_Z25set_field_char_utf8mb4_v1P9PSI_fieldPKcj" as SetText),
        ubigint: function!(c"_Z20set_field_ubigint_v1P9PSI_field13PSI_ulonglong" as SetNumber),
        bigint: function!(c"_Z19set_field_bigint_v1P9PSI_field12PSI_longlong" as SetNumber),
        uinteger: function!(c"_Z21set_field_uinteger_v1P9PSI_field9PSI_ulong" as SetNumber),
        integer: function!(c"_Z20set_field_integer_v1P9PSI_field8PSI_long" as SetNumber),
        long_text: function!(c"_Z17set_field_text_v1P9PSI_fieldPKcj" as SetText),
        timestamp: function!(c"_Z23set_field_timestamp2_v1P9PSI_fieldy" as SetTimestamp),
        double: function!(c"_Z19set_field_double_v1P9PSI_field10PSI_double" as SetDouble),
        enumeration: function!(c"_Z17set_field_enum_v1P9PSI_field13PSI_ulonglong" as SetNumber),
    });
    let _set_once = READERS.set(Readers {
        ubigint: function!(
            c"_Z19read_key_ubigint_v1P14PSI_key_readerP22PSI_plugin_key_ubiginti" as ReadNumber
        ),
        uinteger: function!(
            c"_Z20read_key_uinteger_v1P14PSI_key_readerP23PSI_plugin_key_uintegeri" as ReadNumber
        ),
        string: function!(c"_Z18read_key_string_v1P14PSI_key_readerP21PSI_plugin_key_stringi" as ReadText),
    });
    Ok(())
}
