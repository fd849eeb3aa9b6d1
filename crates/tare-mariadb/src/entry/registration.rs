//! Registration of instruments: builds their names and returns their keys.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint};
use std::sync::atomic::Ordering;

use tare_engine::Registration;
use tare_engine::snapshot::{Kind, Properties};
use tare_host::process::ENGINE;
use tare_host::process::guard;

use super::pointer::{state, text};
use crate::abi::types::{
    CondInfo, FileInfo, MemoryInfo, MutexInfo, RwlockInfo, SocketInfo, StageInfo, StatementInfo, ThreadInfo,
};
use crate::host::command;
use crate::interpose::folder::STORAGE_ENGINE_LOADED;

/// The flag of memory accounted for the server as a whole, and of other singletons.
const FLAG_GLOBAL: c_int = 1;
/// The flag of a statement that becomes another one after it is parsed.
const FLAG_MUTABLE: c_int = 1 << 1;
/// The flag of a stage that reports progress.
const FLAG_STAGE_PROGRESS: c_int = 1 << 3;
/// The flag of an rwlock with shared-exclusive mode.
const FLAG_SX: c_int = 1 << 4;
/// The instruments that MySQL marks as a client's; MariaDB has no such mark.
const OF_CLIENTS: [&str; 2] = ["thread/sql/one_connection", "wait/io/socket/sql/client_connection"];
/// The longest name of an instrument in bytes.
const NAME_MAX: usize = 128;

/// The category in which that storage engine registers.
const STORAGE_ENGINE: &str = "federated";

/// Registers one instrument and returns its key; 0 if it cannot be instrumented.
fn register(kind: Kind, prefix: &str, category: *const c_char, name: *const c_char, flags: c_int) -> c_uint {
    if name.is_null() {
        return 0;
    }
    let category = String::from_utf8_lossy(text!(category));
    let name = String::from_utf8_lossy(text!(name));
    if category == STORAGE_ENGINE {
        STORAGE_ENGINE_LOADED.store(true, Ordering::Relaxed);
    }
    let slash = if category.is_empty() { "" } else { "/" };
    let full = format!("{prefix}{category}{slash}{name}");
    if full.len() > NAME_MAX || category.contains('/') {
        return 0;
    }
    c_uint::from(ENGINE.register(Registration {
        kind,
        name: &full,
        properties: Properties {
            global: flags & FLAG_GLOBAL != 0,
            progress: kind == Kind::Stage && flags & FLAG_STAGE_PROGRESS != 0,
            user: OF_CLIENTS.contains(&&*full),
            mutable: kind == Kind::Statement && flags & FLAG_MUTABLE != 0,
        },
    }))
}

macro_rules! register_array {
    ($slot:ident, $info:ty, $kind:expr) => {
        pub(super) unsafe extern "C" fn $slot(category: *const c_char, infos: *mut $info, count: c_int) {
            guard((), || {
                for at in 0..usize::try_from(count).unwrap_or(0) {
                    let Some(info) = state!(infos.wrapping_add(at), $info) else { return };
                    let kind: fn(c_int) -> (Kind, &'static str) = $kind;
                    let (kind, prefix) = kind(info.flags);
                    let key = register(kind, prefix, category, info.name, info.flags);
                    super::pointer::write!(info.key, key);
                }
            });
        }
    };
}

register_array!(register_mutex, MutexInfo, |_| (Kind::Mutex, "wait/synch/mutex/"));
register_array!(register_rwlock, RwlockInfo, |flags| match flags & FLAG_SX {
    0 => (Kind::Rwlock, "wait/synch/rwlock/"),
    _ => (Kind::Sxlock, "wait/synch/sxlock/"),
});
register_array!(register_cond, CondInfo, |_| (Kind::Cond, "wait/synch/cond/"));
register_array!(register_thread, ThreadInfo, |_| (Kind::Thread, "thread/"));
register_array!(register_file, FileInfo, |_| (Kind::File, "wait/io/file/"));
register_array!(register_socket, SocketInfo, |_| (Kind::Socket, "wait/io/socket/"));
register_array!(register_memory, MemoryInfo, |_| (Kind::Memory, "memory/"));

pub(super) unsafe extern "C" fn register_stage(
    category: *const c_char,
    infos: *mut *mut StageInfo,
    count: c_int,
) {
    guard((), || {
        for at in 0..usize::try_from(count).unwrap_or(0) {
            let Some(info) = state!(infos.wrapping_add(at), *mut StageInfo) else { return };
            if let Some(info) = state!(info, StageInfo) {
                info.key = register(Kind::Stage, "stage/", category, info.name, info.flags);
            }
        }
    });
}

pub(super) unsafe extern "C" fn register_statement(
    category: *const c_char,
    infos: *mut StatementInfo,
    count: c_int,
) {
    guard((), || {
        for at in 0..usize::try_from(count).unwrap_or(0) {
            let Some(info) = state!(infos.wrapping_add(at), StatementInfo) else { return };
            // The array of commands has holes.
            if !info.name.is_null() {
                if text!(category) == command::CATEGORY.as_bytes() {
                    command::register(&String::from_utf8_lossy(text!(info.name)), at as c_int);
                }
                info.key = register(Kind::Statement, "statement/", category, info.name, info.flags);
            }
        }
    });
}
