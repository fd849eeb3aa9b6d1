//! HOT PATH: instances: one mutex, file, socket, table, handle, metadata lock, program, prepared statement.
//!
//! The host keeps a reference to an instance for as long as the thing itself lives. All of them are slots of
//! pools: never unmapped, so a stale reference reads a free slot, never a fault. Where blocks do not stay their
//! pool's ([`Pool::stays`]), whoever writes through a reference of the host's holds the block meanwhile.

use std::sync::atomic::{
    AtomicI32, AtomicU8, AtomicU16, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use tare_sync::Version;

use crate::arena::{Arena, Offset, Own, Use, View, WORDS};
use crate::cell::{COUNTERS, Counters, Counts, Family, IoCell, IoCounts, Viewer, bump};
use crate::index::Inserted;
use crate::instrument::{ENABLED, TIMED, fixed};
use crate::lost::Lost;
use crate::operation;
use crate::pool::{self, Pool, SlotHead, USED};
use crate::snapshot::{ClassId, Kind};
use crate::statement::NAME_WORDS;
use crate::thread::current;
use crate::wait::{Source, Wait, WaitObject};
use crate::{Engine, text};

macro_rules! reference {
    ($(#[$doc:meta])* $name:ident, $handle:ident, $slot:ident) => {
        $(#[$doc])*
        pub type $name = &'static $handle;

        /// What the host holds: opaque.
        #[repr(transparent)]
        pub struct $handle {
            slot: $slot,
        }

        #[allow(unsafe_code)]
        // SAFETY: nothing but the slot, which is a view.
        unsafe impl View for $handle {}

        impl $handle {
            /// What the host keeps.
            #[inline(always)]
            pub fn address(&'static self) -> *mut std::ffi::c_void {
                std::ptr::from_ref(self).cast_mut().cast()
            }

            /// The instance at an address the host kept.
            ///
            /// # Safety
            /// `address` is null or came from `address` of the same type in the same process.
            #[inline(always)]
            #[allow(unsafe_code)]
            pub unsafe fn from_address(address: *const std::ffi::c_void) -> Option<$name> {
                // SAFETY: the caller's promise; slots are never unmapped.
                unsafe { address.cast::<$handle>().as_ref() }
            }

            #[inline(always)]
            #[allow(dead_code)]
            pub(crate) fn slot(&'static self, _engine: &Engine) -> &'static $slot {
                &self.slot
            }
        }

        #[allow(unsafe_code)]
        // SAFETY: atomics only, alignment 8, `Pools::carve` checks that it fits a block.
        unsafe impl View for $slot {}
    };
}

/// A mutex, rwlock, sxlock or cond.
#[repr(C)]
pub(crate) struct Synch {
    pub(crate) head: SlotHead,
    /// OBJECT_INSTANCE_BEGIN.
    pub(crate) identity: AtomicU64,
    /// What changes has a line of its own: whoever begins to wait reads the one above, which then stays in every
    /// processor's cache.
    _pad: [AtomicU64; 5],
    /// THREAD_ID of the owner or writer; 0: none.
    pub(crate) owner: AtomicU64,
    /// Its own waits, where the host has them counted.
    pub(crate) waits: Counts,
}

reference! {
    /// A synchronisation object.
    SynchRef, SynchHandle, Synch
}

impl SynchHandle {
    #[inline(always)]
    fn wanted(&'static self, operation: u8) -> WaitObject {
        WaitObject::new(self.slot.identity.load(Relaxed) as usize, operation)
    }
}

/// A socket.
#[repr(C)]
pub(crate) struct Socket {
    pub(crate) head: SlotHead,
    pub(crate) fd: AtomicI32,
    pub(crate) idle: AtomicU8,
    pub(crate) ip_len: AtomicU8,
    pub(crate) port: AtomicU16,
    pub(crate) thread_id: AtomicU64,
    pub(crate) epoch: AtomicU32,
    _pad: AtomicU32,
    pub(crate) ip: [AtomicU64; 6],
    pub(crate) io: IoCounts,
}

reference! {
    /// A socket.
    SocketRef, SocketHandle, Socket
}

/// Words of a file name (512 bytes, as the reference).
pub(crate) const FILE_WORDS: usize = 64;

/// A file, open or not.
#[repr(C)]
pub(crate) struct File {
    pub(crate) head: SlotHead,
    pub(crate) hash: AtomicU64,
    pub(crate) open_count: AtomicU32,
    pub(crate) temporary: AtomicU32,
    pub(crate) name_len: AtomicU32,
    /// Odd while the file is renamed.
    version: Version,
    pub(crate) io: IoCounts,
    pub(crate) name: [AtomicU64; FILE_WORDS],
}

impl File {
    /// The name; `None` for one that is just being changed.
    pub(crate) fn name(&self) -> Option<String> {
        self.version.read(|_| text::read_string(&self.name, self.name_len.load(Relaxed) as usize))
    }
}

reference! {
    /// A file.
    FileRef, FileHandle, File
}

/// Indexes a table can have; one more entry is for access without an index.
pub const MAX_INDEXES: usize = 64;

/// A table's definition in use.
#[repr(C)]
pub(crate) struct TableShare {
    pub(crate) head: SlotHead,
    pub(crate) hash: AtomicU64,
    pub(crate) temporary: AtomicU8,
    /// ENABLED and TIMED, as `setup_objects` decides.
    pub(crate) watch: AtomicU8,
    pub(crate) keys: AtomicU8,
    _pad: [AtomicU8; 5],
    pub(crate) schema_len: AtomicU32,
    pub(crate) name_len: AtomicU32,
    pub(crate) schema: [AtomicU64; NAME_WORDS],
    pub(crate) name: [AtomicU64; NAME_WORDS],
    /// `TableIo` cells by index; the last is without index.
    pub(crate) io: [AtomicU32; MAX_INDEXES + 1],
    pub(crate) locks: AtomicU32,
    /// `KeyNames` slots, each of `KEYS_PER_SLOT` names.
    pub(crate) key_names: [AtomicU32; MAX_INDEXES / KEYS_PER_SLOT],
}

reference! {
    /// A table's definition in use.
    TableShareRef, TableShareHandle, TableShare
}

/// Schema and name of an object, each as words and bytes in use.
pub(crate) type NameWords<'a> = (&'a [AtomicU64], usize, &'a [AtomicU64], usize);

/// The usual `watch` of an object.
const WATCHED: u8 = ENABLED | TIMED;

impl TableShare {
    pub(crate) fn name_words(&self) -> NameWords<'_> {
        let (schema, name) = (self.schema_len.load(Relaxed), self.name_len.load(Relaxed));
        (&self.schema, schema as usize, &self.name, name as usize)
    }
}

/// Names a slot of key names holds.
pub(crate) const KEYS_PER_SLOT: usize = 4;

/// Names of some of a table's keys.
#[repr(C)]
pub(crate) struct KeyNames {
    pub(crate) head: SlotHead,
    pub(crate) lens: [AtomicU16; KEYS_PER_SLOT],
    pub(crate) names: [[AtomicU64; NAME_WORDS]; KEYS_PER_SLOT],
}

// SAFETY: atomics only, alignment 8, less than a block.
#[allow(unsafe_code)]
unsafe impl View for KeyNames {}

/// FETCH, INSERT, UPDATE, DELETE of one index of one handle or share.
#[repr(C)]
pub(crate) struct TableIo {
    pub(crate) head: SlotHead,
    pub(crate) epoch: AtomicU32,
    _pad: AtomicU32,
    pub(crate) parts: [Counts; 4],
}

// SAFETY: atomics only, alignment 8, less than a block.
#[allow(unsafe_code)]
unsafe impl View for TableIo {}

/// Kinds of table locks.
pub(crate) const LOCK_KINDS: usize = 11;

/// Locks of one handle or share, by kind.
#[repr(C)]
pub(crate) struct TableLocks {
    pub(crate) head: SlotHead,
    pub(crate) epoch: AtomicU32,
    _pad: AtomicU32,
    pub(crate) parts: [Counts; LOCK_KINDS],
}

// SAFETY: atomics only, alignment 8, less than a block.
#[allow(unsafe_code)]
unsafe impl View for TableLocks {}

/// What one handle or share counts, in a slot of its own that is made when first needed.
pub(crate) trait TableCounts: View {
    const POOL: Pool;
    const FAMILY: Family;
    const LOST: Lost;
    fn head(&self) -> &SlotHead;
    fn epoch(&self) -> &AtomicU32;
    fn parts(&self) -> &[Counts];
}

macro_rules! table_counts {
    ($type:ident, $family:ident, $lost:ident) => {
        impl TableCounts for $type {
            const POOL: Pool = Pool::$type;
            const FAMILY: Family = Family::$family;
            const LOST: Lost = Lost::$lost;
            fn head(&self) -> &SlotHead {
                &self.head
            }
            fn epoch(&self) -> &AtomicU32 {
                &self.epoch
            }
            fn parts(&self) -> &[Counts] {
                &self.parts
            }
        }
    };
}
table_counts!(TableIo, TableIo, IndexStats);
table_counts!(TableLocks, TableLock, TableLockStats);

/// An open table: used by one thread at a time.
#[repr(C)]
pub(crate) struct TableHandle {
    pub(crate) head: SlotHead,
    pub(crate) share: AtomicU32,
    pub(crate) share_generation: AtomicU32,
    pub(crate) identity: AtomicU64,
    pub(crate) owner_thread: AtomicU64,
    pub(crate) owner_event: AtomicU64,
    /// Lock kinds plus one; 0: none.
    pub(crate) internal_lock: AtomicU8,
    pub(crate) external_lock: AtomicU8,
    _pad: [AtomicU8; 2],
    pub(crate) locks: AtomicU32,
    pub(crate) io: [AtomicU32; MAX_INDEXES + 1],
}

reference! {
    /// An open table.
    TableRef, TableHandleHandle, TableHandle
}

/// A stored program.
#[repr(C)]
pub(crate) struct Program {
    pub(crate) head: SlotHead,
    pub(crate) hash: AtomicU64,
    /// ENABLED and TIMED, as `setup_objects` decides.
    pub(crate) watch: AtomicU8,
    pub(crate) object_type: AtomicU8,
    _pad: [AtomicU8; 6],
    pub(crate) schema_len: AtomicU32,
    pub(crate) name_len: AtomicU32,
    pub(crate) schema: [AtomicU64; NAME_WORDS],
    pub(crate) name: [AtomicU64; NAME_WORDS],
    pub(crate) calls: Counts,
    pub(crate) statements: Counts,
    pub(crate) counters: [AtomicU64; COUNTERS],
}

reference! {
    /// A stored program.
    ProgramRef, ProgramHandle, Program
}

impl Program {
    pub(crate) fn object_type(&self) -> u8 {
        self.object_type.load(Relaxed)
    }

    pub(crate) fn name_words(&self) -> NameWords<'_> {
        let (schema, name) = (self.schema_len.load(Relaxed), self.name_len.load(Relaxed));
        (&self.schema, schema as usize, &self.name, name as usize)
    }
}

/// A metadata lock granted or waited for.
#[repr(C)]
pub(crate) struct MetadataLock {
    pub(crate) head: SlotHead,
    pub(crate) identity: AtomicU64,
    pub(crate) owner_thread: AtomicU64,
    pub(crate) owner_event: AtomicU64,
    pub(crate) source: AtomicU64,
    pub(crate) namespace: AtomicU8,
    pub(crate) lock_type: AtomicU8,
    pub(crate) duration: AtomicU8,
    pub(crate) status: AtomicU8,
    pub(crate) schema_len: AtomicU16,
    pub(crate) name_len: AtomicU16,
    pub(crate) schema: [AtomicU64; NAME_WORDS],
    pub(crate) name: [AtomicU64; NAME_WORDS],
}

reference! {
    /// A metadata lock.
    MetadataRef, MetadataHandle, MetadataLock
}

/// Words of a prepared statement's text (1,024 bytes, as the reference).
pub(crate) const PREPARED_WORDS: usize = 128;

/// A prepared statement.
#[repr(C)]
pub(crate) struct Prepared {
    pub(crate) head: SlotHead,
    pub(crate) identity: AtomicU64,
    pub(crate) statement_id: AtomicU64,
    pub(crate) owner_thread: AtomicU64,
    pub(crate) owner_event: AtomicU64,
    pub(crate) program: AtomicU32,
    pub(crate) program_generation: AtomicU32,
    pub(crate) name_len: AtomicU32,
    pub(crate) text_len: AtomicU32,
    pub(crate) epoch: AtomicU32,
    _pad: AtomicU32,
    pub(crate) name: [AtomicU64; NAME_WORDS],
    pub(crate) text: [AtomicU64; PREPARED_WORDS],
    pub(crate) prepare: Counts,
    pub(crate) reprepare: Counts,
    pub(crate) execute: Counts,
    pub(crate) counters: [AtomicU64; COUNTERS],
}

reference! {
    /// A prepared statement.
    PreparedRef, PreparedHandle, Prepared
}

/// Mutexes, rwlocks, conds.
impl Engine {
    /// A synchronisation object begins to exist.
    pub fn init_synch(&self, class: ClassId, identity: usize) -> Option<SynchRef> {
        if class == 0 {
            return None;
        }
        let (pool, lost) = self.synch_pool(class);
        let Some(handle) = self.pools.take::<SynchHandle>(&self.arena, pool, class) else {
            self.losses.count(lost);
            return None;
        };
        handle.slot.identity.store(identity as u64, Relaxed);
        handle.slot.head.publish();
        Some(handle)
    }

    /// And ends.
    pub fn destroy_synch(&self, synch: SynchRef) {
        self.pools.give(&self.arena, self.synch_pool(synch.slot.head.class()).0, synch);
    }

    fn synch_pool(&self, class: ClassId) -> (Pool, Lost) {
        match self.registry.kind(class) {
            Kind::Mutex => (Pool::Mutexes, Lost::MutexInstances),
            Kind::Cond => (Pool::Conds, Lost::CondInstances),
            _ => (Pool::Rwlocks, Lost::RwlockInstances),
        }
    }

    /// Begins to wait for it; `operation` counts from the family's first.
    #[inline(always)]
    pub fn start_synch_wait(&self, synch: SynchRef, operation: u8, source: Source) -> Option<Wait> {
        self.start_usual_synch_wait(synch, operation, source)
            .or_else(|| self.start_wait(synch.slot.head.class(), synch.wanted(operation), source))
    }

    /// As [`Engine::start_synch_wait`], if all is as usual. `None` says nothing yet: ask that one.
    #[inline(always)]
    pub fn start_usual_synch_wait(&self, synch: SynchRef, operation: u8, source: Source) -> Option<Wait> {
        self.start_usual_leaf_wait(synch.slot.head.class(), synch.wanted(operation), source)
    }

    /// Whether the instrument is switched off, asked when [`Engine::start_usual_synch_wait`] said nothing.
    #[inline(always)]
    pub fn synch_is_off(&self, synch: SynchRef) -> bool {
        self.is_off(synch.slot.head.class())
    }

    /// The wait is over, for better or worse.
    #[inline(always)]
    pub fn end_synch_wait(&self, wait: &Wait) {
        if !self.end_usual_synch_wait(wait) {
            self.end_wait(wait, 1, None);
        }
    }

    /// As [`Engine::end_synch_wait`], and counts the wait for the object itself, too. Whoever waits for one object writes to
    /// one place then, so this is for hosts that were asked to.
    pub fn end_counted_synch_wait(&self, synch: SynchRef, wait: &Wait) {
        let taken = self.end_usual_leaf_wait(wait, None).or_else(|| self.end_wait(wait, 1, None));
        synch.slot.waits.add_shared(1, taken);
    }

    /// As [`Engine::end_synch_wait`], if all is as usual. False means that nothing has happened: ask that one.
    #[inline(always)]
    pub fn end_usual_synch_wait(&self, wait: &Wait) -> bool {
        self.end_usual_leaf_wait(wait, None).is_some()
    }

    /// The lock is the calling thread's: a mutex, or a rwlock to write or shared-exclusive.
    #[inline(always)]
    pub fn set_synch_owner(&self, synch: SynchRef, wait: &Wait) {
        synch.slot.owner.store(wait.thread.thread_id.own(), Relaxed);
    }

    /// The rwlock is the calling thread's, to read.
    #[inline(always)]
    pub fn add_synch_reader(&self, synch: SynchRef, wait: &Wait) {
        let (locks, lock) = (&wait.thread.read_locks, synch.address() as u64);
        if !locks.push(lock) && !locks.push_further(&self.arena, lock) {
            self.losses.count(Lost::ReadLocks);
        }
    }

    /// As [`Engine::add_synch_reader`], but not a second time: the lock may have been upgraded.
    pub fn add_synch_reader_once(&self, synch: SynchRef, wait: &Wait) {
        let address = synch.address() as u64;
        if wait.thread.read_locks.addresses(&self.arena).all(|held| held != address) {
            self.add_synch_reader(synch, wait);
        }
    }

    /// The mutex is nobody's.
    #[inline(always)]
    pub fn unlock_mutex(&self, synch: SynchRef) {
        synch.slot.owner.store(0, Relaxed);
    }

    /// Some lock of it is given back.
    #[inline(always)]
    pub fn unlock_rwlock(&self, synch: SynchRef) {
        let read =
            current().is_some_and(|thread| thread.read_locks.remove(&self.arena, synch.address() as u64));
        if !read {
            synch.slot.owner.store(0, Relaxed);
        }
    }
}

/// Locks a thread holds for reading, the latest last. Kept by the thread and not by the lock, which many read at the same
/// time. The first ones are in the slab; the further ones of a thread that ever held more are in a block.
#[repr(C)]
pub(crate) struct ReadLocks {
    held: AtomicU32,
    /// Where the block begins; 0: there is none.
    pub(crate) further: AtomicU32,
    locks: [AtomicU64; READ_LOCKS],
}

const READ_LOCKS: usize = 32;

impl ReadLocks {
    /// False where the slab is full.
    #[inline(always)]
    fn push(&self, lock: u64) -> bool {
        let held = self.held.own() as usize;
        let Some(place) = self.locks.get(held) else { return false };
        place.store(lock, Relaxed);
        self.held.store(held as u32 + 1, Release);
        true
    }

    /// False where the block is full, too, or there is none to be had.
    #[cold]
    #[inline(never)]
    fn push_further(&self, arena: &Arena, lock: u64) -> bool {
        if self.further.own() == 0 {
            let Some(block) = arena.take(Use::ReadLocks, 0) else { return false };
            self.further.store(block * WORDS as u32, Release);
        }
        let held = self.held.own() as usize;
        let Some(place) = self.place(arena, held) else { return false };
        place.store(lock, Relaxed);
        self.held.store(held as u32 + 1, Release);
        true
    }

    /// False where it is not one of them.
    #[inline(always)]
    fn remove(&self, arena: &Arena, lock: u64) -> bool {
        let held = self.held.own() as usize;
        if held == 0 {
            return false;
        }
        let last = held - 1;
        if self.locks.get(last).is_none_or(|latest| latest.own() != lock) {
            return self.remove_earlier(arena, last, lock);
        }
        self.held.store(last as u32, Relaxed);
        true
    }

    /// The latest one takes the place of the one that is removed.
    #[cold]
    #[inline(never)]
    fn remove_earlier(&self, arena: &Arena, last: usize, lock: u64) -> bool {
        let place = |at| self.place(arena, at);
        let mut places = (0..=last).rev().filter_map(place);
        let Some(found) = places.find(|held| held.own() == lock) else { return false };
        found.store(place(last).map_or(0, Own::own), Relaxed);
        self.held.store(last as u32, Relaxed);
        true
    }

    fn place(&self, arena: &Arena, at: usize) -> Option<&AtomicU64> {
        match self.locks.get(at) {
            Some(place) => Some(place),
            None => match self.further.load(Acquire) {
                0 => None,
                further => arena.words(further / WORDS as u32).get(at - READ_LOCKS),
            },
        }
    }

    /// For readers.
    pub(crate) fn addresses<'a>(&'a self, arena: &'a Arena) -> impl Iterator<Item = u64> + 'a {
        let held = self.held.load(Acquire) as usize;
        (0..held).map_while(|at| self.place(arena, at)).map(|lock| lock.load(Relaxed))
    }
}

/// Part of an [`IoCounts`].
pub(crate) const READ: usize = 0;
pub(crate) const WRITE: usize = 1;
pub(crate) const MISC: usize = 2;

/// Sockets.
impl Engine {
    /// A socket begins to exist.
    pub fn init_socket(&self, class: ClassId, fd: Option<i32>, ip: &[u8], port: u16) -> Option<SocketRef> {
        if class == 0 {
            return None;
        }
        let Some(handle) = self.pools.take::<SocketHandle>(&self.arena, Pool::Sockets, class) else {
            self.losses.count(Lost::SocketInstances);
            return None;
        };
        handle.slot.epoch.store(self.epochs[Family::Sockets as usize].load(Relaxed), Relaxed);
        self.set_socket_info(handle, fd, Some((ip, port)));
        handle.slot.head.publish();
        Some(handle)
    }

    /// And ends; what it did counts on for its instrument.
    pub fn destroy_socket(&self, socket: SocketRef) {
        let slot = &socket.slot;
        if slot.head.state() != USED {
            return;
        }
        self.folds.begin();
        if self.counts_for(Family::Sockets, Viewer::Global, slot.epoch.load(Relaxed))
            && let Some(ended) = self.ended_io.bank.cell::<IoCell>(&self.arena, slot.head.class())
        {
            slot.io.fold(&ended.io);
        }
        self.pools.give(&self.arena, Pool::Sockets, socket);
        self.folds.end();
    }

    /// Descriptor and peer become known.
    pub fn set_socket_info(&self, socket: SocketRef, fd: Option<i32>, peer: Option<(&[u8], u16)>) {
        let slot = &socket.slot;
        if let Some(fd) = fd {
            slot.fd.store(fd, Relaxed);
        }
        if let Some((ip, port)) = peer {
            slot.ip_len.store(text::write(&slot.ip, ip) as u8, Relaxed);
            slot.port.store(port, Relaxed);
        }
    }

    /// The calling thread owns the socket.
    pub fn set_socket_thread_owner(&self, socket: SocketRef) {
        let id = current().map_or(0, |thread| thread.thread_id.load(Relaxed));
        socket.slot.thread_id.store(id, Relaxed);
    }

    /// IDLE or ACTIVE.
    pub fn set_socket_idle(&self, socket: SocketRef, idle: bool) {
        socket.slot.idle.store(u8::from(idle), Relaxed);
    }

    /// Begins a socket operation; nothing is recorded while the socket is idle, as in the reference.
    #[inline(always)]
    pub fn start_socket_wait(&self, socket: SocketRef, operation: u8, source: Source) -> Option<Wait> {
        let slot = &socket.slot;
        if slot.idle.load(Relaxed) != 0 {
            return None;
        }
        let object = WaitObject {
            address: std::ptr::from_ref(slot) as usize,
            name: pool::name(&self.arena, slot),
            index: 255,
            operation: operation::SOCKET + operation,
        };
        self.start_usual_leaf_wait(slot.head.class(), object, source)
            .or_else(|| self.start_wait(slot.head.class(), object, source))
    }

    /// Ends a socket operation; `operation` in the interface's numbers.
    #[inline(always)]
    pub fn end_socket_wait(&self, socket: SocketRef, wait: &Wait, operation: u8, bytes: u64) {
        let taken =
            self.end_usual_leaf_wait(wait, Some(bytes)).or_else(|| self.end_wait(wait, 1, Some(bytes)));
        let slot = &socket.slot;
        let now = self.epochs[Family::Sockets as usize].load(Relaxed);
        if slot.epoch.load(Relaxed) != now {
            slot.io.clear_shared();
            slot.epoch.store(now, Relaxed);
        }
        let part = match operation {
            5 | 7 | 9 => READ,
            4 | 6 | 8 => WRITE,
            _ => MISC,
        };
        slot.io.add(part, taken, bytes);
    }
}

/// Files.
impl Engine {
    /// The file of this name; `create` makes it known and counts an open.
    pub fn find_file(&self, class: ClassId, name: &[u8], create: bool) -> Option<FileRef> {
        let name = &name[..name.len().min(FILE_WORDS * 8)];
        let hash = text::hash(1, name);
        let is = |offset: Offset| {
            let file: &File = self.arena.at(offset);
            file.head.state() == USED && text::equals(&file.name, file.name_len.load(Relaxed) as usize, name)
        };
        let found = match self.files.find(hash, is) {
            Some(offset) => Some(self.arena.at::<FileHandle>(offset)),
            None if create => self.enter_file(class, name, hash, is),
            None => None,
        };
        if let Some(file) = found.filter(|_| create)
            && let Some(_held) = self.arena.hold(Pool::Files, file)
        {
            file.slot.open_count.fetch_add(1, Relaxed);
        }
        found
    }

    fn enter_file(
        &self,
        class: ClassId,
        name: &[u8],
        hash: u64,
        is: impl Fn(Offset) -> bool,
    ) -> Option<FileRef> {
        let Some(handle) = self.pools.take::<FileHandle>(&self.arena, Pool::Files, class) else {
            self.losses.count(Lost::FileInstances);
            return None;
        };
        handle.slot.hash.store(hash, Relaxed);
        handle.slot.name_len.store(text::write(&handle.slot.name, name) as u32, Relaxed);
        handle.slot.head.publish();
        match self.files.insert(hash, self.arena.offset_of(handle), is) {
            Inserted::Here => Some(handle),
            Inserted::There(first) => {
                self.pools.give(&self.arena, Pool::Files, handle);
                Some(self.arena.at(first))
            }
            Inserted::Full => {
                self.pools.give(&self.arena, Pool::Files, handle);
                self.losses.count(Lost::FileInstances);
                None
            }
        }
    }

    /// The file behind a descriptor.
    #[inline(always)]
    pub fn file_of(&self, fd: i32) -> Option<FileRef> {
        match self.descriptors.words().get(usize::try_from(fd).ok()?)?.load(Relaxed) {
            0 => None,
            offset => Some(self.arena.at(offset as Offset)),
        }
    }

    /// A descriptor now means `file`; `None`: nothing any more.
    pub fn bind_file(&self, fd: i32, file: Option<FileRef>) {
        let words = self.descriptors.words();
        match usize::try_from(fd).ok().and_then(|fd| words.get(fd)) {
            Some(word) => {
                let offset = file.map_or(0, |file| self.arena.offset_of(file));
                word.store(u64::from(offset), Relaxed);
            }
            None => {
                if let Some(file) = file {
                    self.release_file(file);
                    self.losses.count(Lost::FileHandles);
                }
            }
        }
    }

    /// Instrument of a file.
    pub fn file_class(&self, file: FileRef) -> ClassId {
        file.slot.head.class()
    }

    /// A temporary file: it is forgotten when closed.
    pub fn set_file_temporary(&self, file: FileRef) {
        if let Some(_held) = self.arena.hold(Pool::Files, file) {
            file.slot.temporary.store(1, Relaxed);
        }
    }

    /// Whether it is.
    pub fn file_is_temporary(&self, file: FileRef) -> bool {
        file.slot.temporary.load(Relaxed) != 0
    }

    /// The file is closed once.
    pub fn release_file(&self, file: FileRef) {
        let count = &file.slot.open_count;
        if let Some(_held) = self.arena.hold(Pool::Files, file)
            && count.load(Relaxed) > 0
        {
            count.fetch_sub(1, Relaxed);
        }
    }

    /// The file exists no more; what it did counts on for its instrument.
    pub fn destroy_file(&self, file: FileRef) {
        let slot = &file.slot;
        let Some(_held) = self.arena.hold(Pool::Files, file).filter(|_| slot.head.state() == USED) else {
            return;
        };
        self.files.remove(slot.hash.load(Relaxed), self.arena.offset_of(file));
        self.folds.begin();
        if let Some(ended) = self.ended_io.bank.cell::<IoCell>(&self.arena, slot.head.class()) {
            slot.io.fold(&ended.io);
        }
        self.pools.give(&self.arena, Pool::Files, file);
        self.folds.end();
    }

    /// A file gets another name.
    pub fn rename_file(&self, from: &[u8], to: &[u8]) {
        let Some(file) = self.find_file(0, from, false) else { return };
        let Some(_held) = self.arena.hold(Pool::Files, file) else { return };
        // Whatever was known under the new name has been replaced.
        if let Some(replaced) = self.find_file(0, to, false).filter(|other| !std::ptr::eq(*other, file)) {
            self.destroy_file(replaced);
        }
        let slot = &file.slot;
        let to = &to[..to.len().min(FILE_WORDS * 8)];
        let offset = self.arena.offset_of(file);
        self.files.remove(slot.hash.load(Relaxed), offset);
        let hash = text::hash(1, to);
        slot.version.change(|| {
            slot.name_len.store(text::write(&slot.name, to) as u32, Relaxed);
            slot.hash.store(hash, Relaxed);
        });
        self.files.insert(hash, offset, |at| at == offset);
    }

    /// Begins a file operation; the clock starts at [`Engine::restart_wait`].
    #[inline(always)]
    pub fn start_file_wait(&self, class: ClassId, file: Option<FileRef>, operation: u8) -> Option<Wait> {
        let (address, name) = match file {
            Some(file) => (file.address().addr(), pool::name(&self.arena, &file.slot)),
            None => (0, 0),
        };
        let object = WaitObject { address, name, index: 255, operation: operation::FILE + operation };
        self.start_wait(class, object, Source(0))
    }

    /// Ends a file operation; `operation` in the interface's numbers.
    #[inline(always)]
    pub fn end_file_wait(&self, wait: &Wait, file: Option<FileRef>, operation: u8, bytes: u64) {
        if let Some(file) = file {
            self.set_wait_object(wait, file.address().addr(), pool::name(&self.arena, &file.slot));
        }
        let taken = self.end_wait(wait, 1, Some(bytes));
        let part = match operation {
            6 => READ,
            7 => WRITE,
            _ => MISC,
        };
        let held = file.and_then(|file| Some((self.arena.hold(Pool::Files, file)?, file)));
        match held {
            Some((_held, file)) if file.slot.head.state() == USED => {
                file.slot.io.add_shared(part, taken, bytes);
            }
            // Deleted while open, or never known: it counts for the instrument.
            _ => {
                if let Some(ended) = self.ended_io.bank.cell::<IoCell>(&self.arena, wait.class()) {
                    ended.io.add_shared(part, taken, bytes);
                }
            }
        }
    }
}

/// Tables.
impl Engine {
    /// A table is opened. `None`: nothing of it is instrumented.
    pub fn open_table(&self, share: TableShareRef, identity: usize) -> Option<TableRef> {
        let Some(table) = self.pools.take::<TableHandleHandle>(&self.arena, Pool::Handles, 0) else {
            self.losses.count(Lost::TableHandles);
            return None;
        };
        let slot = &table.slot;
        slot.share.store(self.arena.offset_of(share), Relaxed);
        slot.share_generation.store(share.slot.head.generation(), Relaxed);
        self.rebind_table(table, identity);
        slot.head.publish();
        Some(table)
    }

    /// Whether the table is in this schema.
    pub fn is_in_schema(&self, table: TableRef, schema: &[u8]) -> bool {
        let share: &TableShare = self.arena.at(table.slot.share.load(Relaxed));
        text::equals(&share.schema, share.schema_len.load(Relaxed) as usize, schema)
    }

    /// An open table is used again, by the calling thread.
    pub fn rebind_table(&self, table: TableRef, identity: usize) {
        let slot = &table.slot;
        slot.identity.store(identity as u64, Relaxed);
        if let Some(thread) = current() {
            slot.owner_thread.store(thread.thread_id.load(Relaxed), Relaxed);
            slot.owner_event.store(thread.event_id.load(Relaxed), Relaxed);
        }
    }

    /// What [`Engine::table_share`] gave the host for an open table's definition, as an address.
    pub fn share_of(&self, table: TableRef) -> *mut std::ffi::c_void {
        self.arena.at::<TableShareHandle>(table.slot.share.load(Relaxed)).address()
    }

    /// An open table goes back to the host's cache.
    pub fn unbind_table(&self, table: TableRef) {
        table.slot.owner_thread.store(0, Relaxed);
        table.slot.owner_event.store(0, Relaxed);
    }

    /// Begins table I/O; `index` is `MAX_INDEXES` without one.
    #[inline(always)]
    pub fn start_table_io_wait(
        &self,
        table: TableRef,
        operation: u8,
        index: usize,
        source: Source,
    ) -> Option<Wait> {
        let index = if index < MAX_INDEXES { index as u8 } else { 255 };
        self.start_table_wait(fixed::TABLE_IO, table, index, operation::TABLE_IO + operation, source)
    }

    /// Begins a wait for a table, if `setup_objects` says it is watched.
    #[inline(always)]
    fn start_table_wait(
        &self,
        class: ClassId,
        table: TableRef,
        index: u8,
        operation: u8,
        source: Source,
    ) -> Option<Wait> {
        let share: &TableShare = self.arena.at(table.slot.share.load(Relaxed));
        let object = WaitObject {
            address: table.slot.identity.load(Relaxed) as usize,
            name: pool::name(&self.arena, share),
            index,
            operation,
        };
        match share.watch.load(Relaxed) {
            WATCHED => self.start_wait(class, object, source),
            0 => None,
            _ => self.start_untimed_wait(class, object, source),
        }
    }

    /// Ends table I/O of `rows` rows.
    #[inline(always)]
    pub fn end_table_io_wait(&self, table: TableRef, wait: &Wait, operation: u8, index: usize, rows: u64) {
        let taken = self.end_wait(wait, rows, Some(rows));
        let place = &table.slot.io[index.min(MAX_INDEXES)];
        self.count_table::<TableIo>(place, operation as usize & 3, rows, taken);
    }

    /// Counts what an open table did, in the slot at `place`.
    #[inline(always)]
    fn count_table<C: TableCounts>(&self, place: &AtomicU32, part: usize, n: u64, taken: Option<u64>) {
        let now = self.epochs[C::FAMILY as usize].load(Relaxed);
        if place.load(Relaxed) == 0 && !self.make_table_counts::<C>(place, now) {
            return;
        }
        let counts: &C = self.arena.at(place.load(Relaxed));
        if counts.epoch().load(Relaxed) != now {
            counts.parts().iter().for_each(Counts::clear);
            counts.epoch().store(now, Relaxed);
        }
        add(&counts.parts()[part], n, taken);
    }

    #[cold]
    fn make_table_counts<C: TableCounts>(&self, place: &AtomicU32, epoch: u32) -> bool {
        let Some(counts) = self.pools.take::<C>(&self.arena, C::POOL, 0) else {
            self.losses.count(C::LOST);
            return false;
        };
        counts.epoch().store(epoch, Relaxed);
        counts.head().publish();
        place.store(self.arena.offset_of(counts), Release);
        true
    }

    /// Begins a table lock of a kind (0–10, the order of [`operation::TABLE_LOCK`]).
    #[inline(always)]
    pub fn start_table_lock_wait(&self, table: TableRef, kind: u8, source: Source) -> Option<Wait> {
        // The reference names the first index of a table that is locked.
        self.start_table_wait(fixed::TABLE_LOCK, table, 0, operation::TABLE_LOCK + kind, source)
    }

    /// Ends it.
    #[inline(always)]
    pub fn end_table_lock_wait(&self, table: TableRef, wait: &Wait, kind: u8) {
        let taken = self.end_wait(wait, 1, None);
        self.count_table::<TableLocks>(&table.slot.locks, kind as usize % LOCK_KINDS, 1, taken);
    }

    /// INTERNAL_LOCK and EXTERNAL_LOCK of an open table: a lock kind, or `None`.
    pub fn set_table_lock(&self, table: TableRef, external: bool, kind: Option<u8>) {
        let place = if external { &table.slot.external_lock } else { &table.slot.internal_lock };
        place.store(kind.map_or(0, |kind| kind + 1), Relaxed);
    }
}

#[inline(always)]
fn add(counts: &Counts, n: u64, taken: Option<u64>) {
    match taken {
        Some(taken) => counts.add(n, taken),
        None => counts.add_untimed(n),
    }
}

/// What the host says of a metadata lock.
#[derive(Clone, Copy, Debug)]
pub struct MetadataName<'a> {
    /// OBJECT_TYPE, as the host numbers namespaces.
    pub namespace: u8,
    /// OBJECT_SCHEMA.
    pub schema: &'a [u8],
    /// OBJECT_NAME.
    pub name: &'a [u8],
    /// LOCK_TYPE, LOCK_DURATION, LOCK_STATUS, as the host numbers them.
    pub lock_type: u8,
    #[allow(missing_docs)]
    pub duration: u8,
    #[allow(missing_docs)]
    pub status: u8,
}

/// An event names the metadata lock: its slot rests longer than others, whom nothing refers to once they are given up.
const WAITED_FOR: u32 = 1;

/// Metadata locks.
impl Engine {
    /// A metadata lock is asked for. What it is, is asked only where that is wanted.
    pub fn create_metadata_lock<'a>(
        &self,
        identity: usize,
        what: impl FnOnce() -> Option<MetadataName<'a>>,
        source: Source,
    ) -> Option<MetadataRef> {
        if self.is_off(fixed::METADATA) {
            return None;
        }
        let what = what()?;
        let thread = current()?;
        let stash = &thread.metadata_stash;
        let lock = self.pools.take_near::<MetadataHandle>(&self.arena, Pool::MetadataLocks, stash);
        let Some(lock) = lock else {
            self.losses.count(Lost::MetadataLocks);
            return None;
        };
        let slot = &lock.slot;
        slot.identity.store(identity as u64, Relaxed);
        slot.owner_thread.store(thread.thread_id.load(Relaxed), Relaxed);
        slot.owner_event.store(thread.event_id.load(Relaxed), Relaxed);
        slot.source.store(source.0, Relaxed);
        slot.namespace.store(what.namespace, Relaxed);
        slot.lock_type.store(what.lock_type, Relaxed);
        slot.duration.store(what.duration, Relaxed);
        slot.status.store(what.status, Relaxed);
        slot.schema_len.store(text::write(&slot.schema, what.schema) as u16, Relaxed);
        slot.name_len.store(text::write(&slot.name, what.name) as u16, Relaxed);
        slot.head.publish();
        Some(lock)
    }

    /// Its LOCK_STATUS changes.
    pub fn set_metadata_lock_status(&self, lock: MetadataRef, status: u8) {
        lock.slot.status.store(status, Relaxed);
    }

    /// It is given up.
    pub fn destroy_metadata_lock(&self, lock: MetadataRef) {
        match current() {
            Some(thread) if lock.slot.head.flags.load(Relaxed) != WAITED_FOR => {
                self.pools.give_near(&self.arena, Pool::MetadataLocks, &thread.metadata_stash, lock);
            }
            _ => self.pools.give(&self.arena, Pool::MetadataLocks, lock),
        }
    }

    /// Begins to wait for it.
    pub fn start_metadata_wait(&self, lock: MetadataRef, source: Source) -> Option<Wait> {
        lock.slot.head.flags.store(WAITED_FOR, Relaxed);
        let object = WaitObject {
            address: lock.slot.identity.load(Relaxed) as usize,
            name: pool::name(&self.arena, &lock.slot),
            index: 255,
            operation: operation::METADATA,
        };
        self.start_wait(fixed::METADATA, object, source)
    }
}

/// Stored programs.
impl Engine {
    /// The program of this name, made known if need be; `object_type` as in [`crate::objects`].
    pub fn program(&self, object_type: u8, schema: &[u8], name: &[u8]) -> Option<ProgramRef> {
        let hash = program_hash(object_type, schema, name);
        let is = |offset: Offset| is_program(self.arena.at(offset), object_type, schema, name);
        if let Some(offset) = self.programs.find(hash, is) {
            return Some(self.arena.at(offset));
        }
        let Some(program) = self.pools.take::<ProgramHandle>(&self.arena, Pool::Programs, 0) else {
            self.losses.count(Lost::Programs);
            return None;
        };
        let slot = &program.slot;
        slot.hash.store(hash, Relaxed);
        slot.object_type.store(object_type, Relaxed);
        slot.schema_len.store(text::write(&slot.schema, schema) as u32, Relaxed);
        slot.name_len.store(text::write(&slot.name, name) as u32, Relaxed);
        slot.head.publish();
        self.decide_object(&slot.watch, object_type, schema, name);
        match self.programs.insert(hash, self.arena.offset_of(program), is) {
            Inserted::Here => Some(program),
            Inserted::There(first) => {
                self.pools.give(&self.arena, Pool::Programs, program);
                Some(self.arena.at(first))
            }
            Inserted::Full => {
                self.losses.count(Lost::Programs);
                self.pools.give(&self.arena, Pool::Programs, program);
                None
            }
        }
    }

    /// A program is dropped.
    pub fn drop_program(&self, object_type: u8, schema: &[u8], name: &[u8]) {
        let hash = program_hash(object_type, schema, name);
        let is = |offset: Offset| is_program(self.arena.at(offset), object_type, schema, name);
        if let Some(offset) = self.programs.find(hash, is) {
            self.programs.remove(hash, offset);
            self.pools.give(&self.arena, Pool::Programs, self.arena.at::<ProgramHandle>(offset));
        }
    }

    /// Begins a call: `Some(start)` in ticks, 0 where untimed; `None` where the program is not watched.
    pub fn start_program(&self, program: ProgramRef) -> Option<u64> {
        let watch = program.slot.watch.load(Relaxed);
        if current()?.mask() == 0 || watch & ENABLED == 0 {
            return None;
        }
        Some(if watch & TIMED != 0 { crate::clock::ticks() } else { 0 })
    }

    /// Ends a call.
    pub fn end_program(&self, program: ProgramRef, start: u64) {
        let taken = (start != 0).then(|| crate::clock::ticks().saturating_sub(start));
        if let Some(_held) = self.arena.hold(Pool::Programs, program) {
            program.slot.calls.add_shared(1, taken);
        }
    }

    /// Counts an ended statement for the program it belongs to.
    pub fn count_program_statement(&self, program: ProgramRef, taken: Option<u64>, counters: Counters) {
        let slot = &program.slot;
        let Some(_held) = self.arena.hold(Pool::Programs, program) else { return };
        slot.statements.add_shared(1, taken);
        counters.each(|at, value| _ = slot.counters[at].fetch_add(value, Relaxed));
    }
}

fn program_hash(object_type: u8, schema: &[u8], name: &[u8]) -> u64 {
    text::hash(text::hash(16 + u64::from(object_type), schema), name)
}

fn is_program(program: &Program, object_type: u8, schema: &[u8], name: &[u8]) -> bool {
    program.head.state() == USED
        && program.object_type() == object_type
        && text::equals(&program.name, program.name_len.load(Relaxed) as usize, name)
        && text::equals(&program.schema, program.schema_len.load(Relaxed) as usize, schema)
}

/// Prepared statements.
impl Engine {
    /// A statement is prepared by the calling thread.
    pub fn create_prepared(
        &self,
        identity: usize,
        statement_id: u64,
        name: &[u8],
        event_id: u64,
        program: Option<ProgramRef>,
    ) -> Option<PreparedRef> {
        let thread = current()?;
        let Some(prepared) = self.pools.take::<PreparedHandle>(&self.arena, Pool::Prepared, 0) else {
            self.losses.count(Lost::PreparedStatements);
            return None;
        };
        let slot = &prepared.slot;
        slot.identity.store(identity as u64, Relaxed);
        slot.statement_id.store(statement_id, Relaxed);
        slot.owner_thread.store(thread.thread_id.load(Relaxed), Relaxed);
        slot.owner_event.store(event_id, Relaxed);
        slot.epoch.store(self.epochs[Family::Prepared as usize].load(Relaxed), Relaxed);
        slot.name_len.store(text::write(&slot.name, name) as u32, Relaxed);
        if let Some(program) = program {
            slot.program.store(self.arena.offset_of(program), Relaxed);
            slot.program_generation.store(program.slot.head.generation(), Relaxed);
        }
        slot.head.publish();
        Some(prepared)
    }

    /// Its text.
    pub fn set_prepared_text(&self, prepared: PreparedRef, sql: &[u8]) {
        let slot = &prepared.slot;
        if let Some(_held) = self.arena.hold(Pool::Prepared, prepared) {
            slot.text_len.store(text::write(&slot.text, sql) as u32, Relaxed);
        }
    }

    /// Counts a prepare or an execution that ended.
    pub fn count_prepared(
        &self,
        prepared: PreparedRef,
        preparing: bool,
        taken: Option<u64>,
        counters: Counters,
    ) {
        let Some(_held) = self.arena.hold(Pool::Prepared, prepared) else { return };
        let slot = self.prepared_of_today(prepared);
        if preparing {
            add(&slot.prepare, 1, taken);
        } else {
            add(&slot.execute, 1, taken);
            counters.each(|at, value| bump(&slot.counters[at], value));
        }
    }

    /// Counts a re-prepare.
    pub fn count_reprepare(&self, prepared: PreparedRef) {
        if let Some(_held) = self.arena.hold(Pool::Prepared, prepared) {
            self.prepared_of_today(prepared).reprepare.add_untimed(1);
        }
    }

    /// A prepared statement, without what it counted before the last TRUNCATE. Only its own session uses it.
    fn prepared_of_today(&self, prepared: PreparedRef) -> &'static Prepared {
        let slot = &prepared.slot;
        let now = self.epochs[Family::Prepared as usize].load(Relaxed);
        if slot.epoch.load(Relaxed) != now {
            [&slot.prepare, &slot.reprepare, &slot.execute].into_iter().for_each(Counts::clear);
            slot.counters.iter().for_each(|counter| counter.store(0, Relaxed));
            slot.epoch.store(now, Relaxed);
        }
        slot
    }

    /// It is deallocated.
    pub fn destroy_prepared(&self, prepared: PreparedRef) {
        self.pools.give(&self.arena, Pool::Prepared, prepared);
    }
}
