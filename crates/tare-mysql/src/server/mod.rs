//! The server seen from tare: its threads, its instruments, its settings, and what the engine asks of a host.

pub(crate) mod carriers;
pub(crate) mod consumers;
pub(crate) mod digest;
pub(crate) mod events;
mod flags;
pub(crate) mod further_rows;
mod governed;
mod host;
pub(crate) mod instruments;
pub(crate) mod lists;
pub(crate) mod lock_waits;
pub(crate) mod memory;
pub(crate) mod metadata_locks;
pub(crate) mod parties;
pub(crate) mod presence;
pub(crate) mod programs;
pub(crate) mod routing;
pub(crate) mod sessions;
pub(crate) mod thread;
pub(crate) mod threads;

pub(crate) use host::ServerHost;

/// Has the engine follow the consumers, and makes every instrument known to it, so that those without an
/// event have rows, too.
pub(crate) fn meet_all() {
    consumers::follow();
    instruments::meet_all();
    events::meet_all();
    memory::meet_all();
}
