//! The slabs of the built-in's threads.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use tare_engine::snapshot::{Kind, Properties};
use tare_engine::{Registration, ThreadRef};
use tare_host::process::ENGINE;

use super::thread::{ServerThread, settled};
use super::{consumers, events, instruments};
use crate::abi::layout::layout;

/// A thread of the built-in's and its slab; `None`: there was no memory.
type Slabs = HashMap<u64, (ServerThread, Option<ThreadRef>)>;

static SLABS: OnceLock<Mutex<Slabs>> = OnceLock::new();

fn slabs() -> MutexGuard<'static, Slabs> {
    SLABS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the slab of a thread the calling thread's. Makes the slab if it is new. Returns false if it has
/// none.
pub(super) fn enter(thread: ServerThread, id: u64) -> bool {
    consumers::follow();
    events::follow_transactions();
    let (_, slab) = *slabs().entry(id).or_insert_with(|| (thread, new_slab(thread, id)));
    ENGINE.set_current_thread(slab);
    slab.is_some()
}

fn new_slab(thread: ServerThread, id: u64) -> Option<ThreadRef> {
    let kind = Kind::Thread;
    let name = thread.class().and_then(instruments::name).unwrap_or("thread/sql/any");
    let class = ENGINE.register(Registration { kind, name, properties: Properties::default() });
    let slab = ENGINE.new_thread(class, None, None)?;
    ENGINE.set_thread_id(slab, id);
    // Not the server's session, but the thread: the host answers by what the built-in keeps of it.
    ENGINE.begin_session(slab, thread.address().addr() as u64);
    ENGINE.set_thread_flags(slab, true, thread.flag(layout().thread.history));
    Some(slab)
}

/// Copies what the built-in keeps of threads into their slabs: what their sessions execute, PROCESSLIST_ID
/// and THREAD_OS_ID. The server sets them without telling tare.
pub(crate) fn refresh() {
    for (thread, slab) in slabs().values() {
        let Some(slab) = *slab else { continue };
        ENGINE.set_thread_command(slab, thread.number(layout().thread.command).load(Relaxed));
        ENGINE.set_thread_processlist_id(slab, thread.word(layout().thread.processlist_id).load(Relaxed));
        ENGINE.set_thread_os_id(slab, thread.word(layout().thread.os_id).load(Relaxed));
    }
}

/// Ends a thread: what its slab has counted is added to its account and to the whole.
pub(crate) fn end(thread: ServerThread) {
    let ended = slabs().remove(&thread.id());
    if let Some((_, Some(slab))) = ended {
        ENGINE.disown_memory(slab);
        ENGINE.delete_thread(slab);
    }
}

/// Notes the account of the calling thread.
pub(crate) fn set_account(user: &[u8], host: &[u8]) {
    if settled().is_some()
        && let Some(slab) = ENGINE.current_thread()
    {
        ENGINE.set_thread_account(slab, user, host);
    }
}

/// Notes the user of the calling thread, whose host stays.
pub(crate) fn set_user(user: &[u8]) {
    if settled().is_none() {
        return;
    }
    if let Some(slab) = ENGINE.current_thread() {
        let set = |host: &[u8]| {
            ENGINE.set_thread_account(slab, user, host);
            true
        };
        let _set = ENGINE.with_account(slab, |_, host| set(host)) || set(b"");
    }
}

/// Notes which threads have histories, after somebody has updated that.
pub(crate) fn follow_histories() {
    for (thread, slab) in slabs().values() {
        if let Some(slab) = slab {
            ENGINE.set_thread_flags(slab, true, thread.flag(layout().thread.history));
        }
    }
}
