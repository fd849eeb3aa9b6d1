//! HOT PATH: the instruments of memory, and the memory of sessions, which the built-in's objects keep: so
//! `threads`, `accounts` and its siblings are the built-in's, and limits the server's.
#![allow(unsafe_code)]

use std::ffi::{c_uint, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use tare_engine::snapshot::{ClassId, Consumer, Kind, Properties};
use tare_host::process::ENGINE;

use super::events::{follow_one, keep_off_of};
use super::instruments::{Find, name, register};
use super::presence::while_there;
use super::thread::ServerThread;
use crate::abi::Class;
use crate::abi::layout::layout;
use crate::abi::memory::{CONTROLLED, MemoryUse, SERVER_WIDE, SessionMemory};
use crate::original::Original;

/// The most instruments of memory. Those with a higher key are not counted.
const MOST: usize = 2048;

/// Instruments of memory, by key.
static KNOWN: [AtomicU32; MOST] = [const { AtomicU32::new(0) }; MOST];
static FIND: OnceLock<Find> = OnceLock::new();

/// The server's functions that count memory which `connection_memory_limit` controls.
pub(crate) static LIMIT_ALLOC: Original = Original::new();
/// See [`LIMIT_ALLOC`].
pub(crate) static LIMIT_FREE: Original = Original::new();
/// Their type.
pub(crate) type Limit = unsafe extern "C" fn(*mut c_void, usize);

/// An instrument of memory: the engine's number, 0 for none, and flags.
#[derive(Clone, Copy, Default)]
pub(crate) struct MemoryInstrument(u32);

impl MemoryInstrument {
    const CONTROLLED: u32 = 1 << 16;
    const SERVER_WIDE: u32 = 1 << 17;
    /// It is one of memory that belongs to the thread which allocates it.
    const OF_THREADS: u32 = 1 << 18;
    /// It is such a one, and the engine counts it.
    const USUAL: u32 = 1 << 19;
    /// The server has it on.
    const ENABLED: u32 = 1 << 20;

    #[inline(always)]
    pub(crate) fn class(self) -> ClassId {
        self.0 as ClassId
    }

    /// Returns whether its memory counts for the limits of a session.
    #[inline(always)]
    pub(crate) fn is_controlled(self) -> bool {
        self.0 & MemoryInstrument::CONTROLLED != 0
    }

    /// Returns whether its memory belongs to the thread that allocates it.
    #[inline(always)]
    pub(crate) fn is_of_threads(self) -> bool {
        self.0 & MemoryInstrument::OF_THREADS != 0
    }

    /// Returns whether its memory belongs to the thread that allocates it, and is counted.
    #[inline(always)]
    pub(crate) fn is_usual(self) -> bool {
        self.0 & MemoryInstrument::USUAL != 0
    }

    /// Returns whether the server has it on and the engine has not: its memory is only the sessions'.
    pub(crate) fn is_of_sessions_only(self) -> bool {
        let needed = MemoryInstrument::OF_THREADS | MemoryInstrument::ENABLED;
        self.0 & needed == needed
            && ENGINE.is_off(self.class())
            && ENGINE.consumer(Consumer::GlobalInstrumentation)
    }

    /// Returns whether its memory belongs to no thread.
    pub(crate) fn is_server_wide(self) -> bool {
        self.0 & MemoryInstrument::SERVER_WIDE != 0
    }
}

/// Sets the built-in's function that finds an instrument by its key.
///
/// # Safety
///
/// It may be called from any thread with any number, and returns null or an instrument that is never removed.
pub(crate) unsafe fn set_list(find: Find) {
    let _set_once = FIND.set(find);
}

/// Returns what is known of an instrument: nothing, if it is not met yet. `None`: it is not counted.
#[inline(always)]
pub(crate) fn known(key: c_uint) -> Option<MemoryInstrument> {
    KNOWN.get(key as usize).map(|known| MemoryInstrument(known.load(Relaxed)))
}

/// Returns what is known of an instrument, with which the engine is made known first; `None`: there is none,
/// or its memory is not counted.
pub(crate) fn met(key: c_uint) -> Option<MemoryInstrument> {
    match known(key)? {
        MemoryInstrument(0) => meet(key, class(key)?),
        known => Some(known),
    }
}

fn class(key: c_uint) -> Option<&'static Class> {
    // SAFETY: the promise of `set_list`.
    FIND.get().and_then(|find| unsafe { find(key).as_ref() })
}

#[cold]
fn meet(key: c_uint, class: &Class) -> Option<MemoryInstrument> {
    let known = KNOWN.get(key as usize)?;
    let properties = Properties { global: class.flags & SERVER_WIDE != 0, ..Properties::default() };
    let id = register(class, |_| Some(Kind::Memory), properties).filter(|id| *id != 0)?;
    let met = followed(id, class);
    known.store(met.0, Relaxed);
    Some(met)
}

/// Sets the engine's flags of an instrument to the built-in's, and returns what is known then.
fn followed(id: ClassId, class: &Class) -> MemoryInstrument {
    follow_one(id, class);
    MemoryInstrument(u32::from(id) | flags(id, class))
}

fn flags(id: ClassId, class: &Class) -> u32 {
    let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
    let is_of_threads = ENGINE.is_memory_of_threads(id);
    let (is_enabled, _) = ENGINE.instrument_flags(id);
    flag(is_of_threads, MemoryInstrument::OF_THREADS)
        | flag(class.enabled.load(Relaxed) != 0, MemoryInstrument::ENABLED)
        | flag(is_of_threads && is_enabled, MemoryInstrument::USUAL)
        | flag(class.enforced_flags.load(Relaxed) & CONTROLLED != 0, MemoryInstrument::CONTROLLED)
        | flag(class.flags & SERVER_WIDE != 0, MemoryInstrument::SERVER_WIDE)
}

/// Returns every instrument with its key.
fn all() -> impl Iterator<Item = (c_uint, &'static Class)> {
    (1..MOST as c_uint).map_while(|key| Some((key, class(key)?)))
}

/// Returns every instrument.
pub(crate) fn classes() -> impl Iterator<Item = &'static Class> {
    all().map(|(_, class)| class)
}

/// Returns the names of all instruments, with their numbers in the built-in's arrays.
pub(crate) fn numbers() -> impl Iterator<Item = (&'static str, usize)> {
    all().filter_map(|(_, class)| Some((name(class)?, class.index as usize)))
}

/// Makes every instrument known to the engine, so that those without an event have rows, too.
pub(crate) fn meet_all() {
    for (key, _) in all() {
        let _known = met(key);
    }
}

/// Returns the engine's number of an instrument; 0: it is not met yet.
fn id(key: c_uint) -> ClassId {
    known(key).map_or(0, MemoryInstrument::class)
}

/// Sets the engine's flags of every instrument to the built-in's, after somebody has updated those.
pub(crate) fn follow() {
    for (key, class) in all().filter(|(key, _)| id(*key) != 0) {
        KNOWN[key as usize].store(followed(id(key), class).0, Relaxed);
    }
}

/// Switches off what the server has off, after somebody has set levels, and notes what the engine counts.
pub(super) fn keep_off() {
    keep_off_of(|| all().map(|(key, class)| (id(key), class)).collect());
    while_there(|| {
        for (key, class) in all().filter(|(key, _)| id(*key) != 0) {
            let now = || u32::from(id(key)) | flags(id(key), class);
            // Somebody may update the built-in's meanwhile.
            while KNOWN[key as usize].load(Relaxed) != now() {
                KNOWN[key as usize].store(now(), Relaxed);
            }
        }
    });
}

impl MemoryUse {
    #[inline(always)]
    fn alloc(&self, bytes: u64) {
        let used = self.used.load(Relaxed).wrapping_add(bytes);
        self.used.store(used, Relaxed);
        if used > self.peak.load(Relaxed) {
            self.peak.store(used, Relaxed);
        }
    }

    #[inline(always)]
    fn free(&self, bytes: u64) {
        self.used.store(self.used.load(Relaxed).saturating_sub(bytes), Relaxed);
    }

    /// Begins a statement that is not nested.
    #[inline(always)]
    fn begin(&self) {
        self.keep_most();
        let used = self.used.load(Relaxed);
        self.peak.store(used, Relaxed);
        self.statement_peak.store(used, Relaxed);
    }

    /// Begins a nested statement. Returns what its end needs.
    fn begin_nested(&self) -> [u64; 2] {
        let before = self.end();
        self.begin();
        [self.used.load(Relaxed), before]
    }

    /// Ends a statement that is not nested. Returns the peak during it, which nobody reads before the next
    /// one begins.
    #[inline(always)]
    fn end(&self) -> u64 {
        self.peak.load(Relaxed).max(self.statement_peak.load(Relaxed))
    }

    /// Ends a nested statement. Returns by how much the peak during it exceeds what there was before.
    fn end_nested(&self, [used, before]: [u64; 2]) -> u64 {
        let most = self.end();
        self.keep_most();
        self.statement_peak.store(before, Relaxed);
        most.saturating_sub(used)
    }

    #[inline(always)]
    fn keep_most(&self) {
        let peak = self.peak.load(Relaxed);
        if peak > self.most.load(Relaxed) {
            self.most.store(peak, Relaxed);
        }
    }
}

impl ServerThread {
    #[inline(always)]
    fn memory(self) -> &'static SessionMemory {
        let at = self.word(layout().thread.memory);
        // SAFETY: a thread of the built-in's has these words at this place (`startup::checks`); none is ever
        // unmapped.
        unsafe { &*std::ptr::from_ref(at).cast::<SessionMemory>() }
    }

    /// Counts an allocation of the calling thread, which this is, for its session. May kill the session.
    #[inline(always)]
    pub(crate) fn session_alloc(self, bytes: u64, is_controlled: bool) {
        let memory = self.memory();
        memory.total.alloc(bytes);
        if is_controlled {
            memory.controlled.alloc(bytes);
            self.limit(&LIMIT_ALLOC, bytes);
        }
    }

    /// Counts a free of the calling thread, which this is, for its session.
    #[inline(always)]
    pub(crate) fn session_free(self, bytes: u64, is_controlled: bool) {
        let memory = self.memory();
        memory.total.free(bytes);
        if is_controlled {
            memory.controlled.free(bytes);
            self.limit(&LIMIT_FREE, bytes);
        }
    }

    #[inline(always)]
    fn limit(self, count: &Original, bytes: u64) {
        if self.word(layout().thread.memory_session).load(Relaxed) != 0 {
            // SAFETY: a function of this type, for a thread of the built-in's that has a session.
            unsafe { count.function::<Limit>()(self.address(), bytes as usize) };
        }
    }

    /// Begins a statement that is not nested.
    #[inline(always)]
    pub(crate) fn begin_memory(self) {
        let memory = self.memory();
        memory.controlled.begin();
        memory.total.begin();
    }

    /// Begins a nested statement. Returns what its end needs: for controlled memory, and for all.
    pub(crate) fn begin_nested_memory(self) -> [[u64; 2]; 2] {
        let memory = self.memory();
        [memory.controlled.begin_nested(), memory.total.begin_nested()]
    }

    /// Ends a statement that is not nested. Returns the peaks of controlled memory and of all.
    #[inline(always)]
    pub(crate) fn end_memory(self) -> [u64; 2] {
        let memory = self.memory();
        [memory.controlled.end(), memory.total.end()]
    }

    /// Ends a nested statement, as [`ServerThread::end_memory`] does.
    pub(crate) fn end_nested_memory(self, [controlled, total]: [[u64; 2]; 2]) -> [u64; 2] {
        let memory = self.memory();
        [memory.controlled.end_nested(controlled), memory.total.end_nested(total)]
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn peaks_are_those_of_the_built_in() {
        let word = || AtomicU64::new(0);
        let memory = MemoryUse { used: word(), peak: word(), statement_peak: word(), most: word() };
        memory.alloc(1000);
        memory.free(400);
        memory.begin();
        assert_eq!(memory.most.load(Relaxed), 1000);
        memory.alloc(300);
        let inner = memory.begin_nested();
        assert_eq!(inner, [900, 900]);
        memory.alloc(2000);
        memory.free(2500);
        assert_eq!(memory.end_nested(inner), 2000, "what it has added to what there was");
        assert_eq!(memory.end(), 2900);
        memory.free(10_000);
        assert_eq!((memory.used.load(Relaxed), memory.most.load(Relaxed)), (0, 2900));
    }
}
