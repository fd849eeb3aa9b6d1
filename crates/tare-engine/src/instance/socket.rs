//! HOT PATH: sockets.

use std::hint::cold_path;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::Engine;
use crate::histogram::Lowest;
use crate::layout::cell::{IoCell, IoCounts, MISC, READ, SampleWeight, SummaryFamily, Viewer, WRITE};
use crate::memory::arena::Own;
use crate::memory::lost::Lost;
use crate::memory::pool::{self, Pool, SlotHead, USED};
use crate::memory::text;
use crate::record::wait::{Source, Wait, WaitObject};
use crate::record::{Start, operation};
use crate::snapshot::{ClassId, Kind};
use crate::thread::current;

use crate::layout::reference::reference;

/// A socket.
#[repr(C)]
pub(crate) struct SocketSlot {
    pub(crate) head: SlotHead,
    pub(crate) fd: AtomicI32,
    pub(crate) idle: AtomicU8,
    pub(crate) ip_len: AtomicU8,
    pub(crate) port: AtomicU16,
    pub(crate) thread_id: AtomicU64,
    pub(crate) epoch: AtomicU32,
    _pad: AtomicU32,
    /// OBJECT_INSTANCE_BEGIN.
    pub(crate) identity: AtomicU64,
    pub(crate) ip: [AtomicU64; 6],
    /// I/O by the owner: plain sums with one writer.
    pub(crate) io: IoCounts,
    /// I/O by other threads: by the one that accepted the socket before it had an owner, and by one that
    /// shuts it down to kill the session.
    pub(crate) others: IoCounts,
}

impl SocketSlot {
    /// Clears what the owner did before the reset.
    #[cold]
    #[inline(never)]
    fn begin_epoch(&self, now: u32) {
        self.io.clear_shared();
        self.epoch.store(now, Relaxed);
    }
}

reference! {
    /// Reference to a socket.
    SocketRef, SocketHandle, SocketSlot
}

impl Engine {
    /// Creates a socket. `None`: its instrument is unknown, or there is no memory.
    pub fn init_socket(&self, class: ClassId, fd: Option<i32>, ip: &[u8], port: u16) -> Option<SocketRef> {
        if class == 0 {
            return None;
        }
        let Some(handle) = self.pools.take::<SocketHandle>(&self.arena, Pool::Sockets, class) else {
            self.losses.count(Lost::SocketInstances);
            return None;
        };
        handle.slot.epoch.store(self.epochs[SummaryFamily::Sockets as usize].load(Relaxed), Relaxed);
        handle.slot.identity.store(handle.address().addr() as u64, Relaxed);
        self.set_socket_info(handle, fd, Some((ip, port)));
        handle.slot.head.publish();
        Some(handle)
    }

    /// Destroys a socket. Its I/O remains counted for its instrument.
    pub fn destroy_socket(&self, socket: SocketRef) {
        let slot = &socket.slot;
        if slot.head.state() != USED {
            return;
        }
        self.folds.begin();
        if let Some(ended) = self.ended_io.bank.cell::<IoCell>(&self.arena, slot.head.class()) {
            self.each_io(slot, |io| io.fold(&ended.io));
        }
        self.pools.give(&self.arena, Pool::Sockets, socket);
        self.folds.end();
    }

    /// Calls `f` with all sums of a socket since the last TRUNCATE.
    pub(crate) fn each_io(&self, socket: &SocketSlot, mut f: impl FnMut(&IoCounts)) {
        if self.counts_for(SummaryFamily::Sockets, Viewer::Global, socket.epoch.load(Relaxed)) {
            f(&socket.io);
        }
        f(&socket.others);
    }

    /// Sets descriptor and peer, where given.
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

    /// Sets OBJECT_INSTANCE_BEGIN of a socket that the host describes elsewhere as well.
    pub fn set_socket_identity(&self, socket: SocketRef, identity: u64) {
        socket.slot.identity.store(identity, Relaxed);
    }

    /// Makes the calling thread the owner of a socket.
    pub fn set_socket_thread_owner(&self, socket: SocketRef) {
        let id = current().map_or(0, |thread| thread.thread_id.load(Relaxed));
        socket.slot.thread_id.store(id, Relaxed);
    }

    /// Sets STATE to IDLE or ACTIVE.
    pub fn set_socket_idle(&self, socket: SocketRef, idle: bool) {
        socket.slot.idle.store(u8::from(idle), Relaxed);
    }

    /// Begins a socket operation. Nothing is recorded while the socket is idle, as in the built-in.
    pub fn start_socket_wait(&self, socket: SocketRef, operation: u8, source: Source) -> Option<Wait> {
        match self.start_socket_wait_fast(socket, operation, source) {
            Start::Began(wait) => Some(wait),
            Start::Off => None,
            Start::Slow => self.start_inner_socket_wait(&socket.slot, operation::SOCKET + operation, source),
        }
    }

    /// Begins an operation that is counted but not timed.
    pub fn start_untimed_socket_wait(
        &self,
        socket: SocketRef,
        operation: u8,
        source: Source,
    ) -> Option<Wait> {
        let slot = &socket.slot;
        let (address, name) = (slot.identity.load(Relaxed) as usize, pool::name(&slot.head));
        let operation = operation::SOCKET + (operation & 15);
        let object = WaitObject { address, name, index: 255, operation };
        self.start_untimed_wait(slot.head.class(), object, source)
    }

    /// Returns whether the socket's instrument is off.
    #[inline(always)]
    pub fn is_socket_off(&self, socket: SocketRef) -> bool {
        self.is_off(socket.slot.head.class())
    }

    /// Returns whether to skip an operation on a socket in the calling thread.
    #[inline(always)]
    pub fn skips_socket(&self, socket: SocketRef) -> bool {
        self.skips_class(socket.slot.head.class())
    }

    /// Begins an operation inside another wait, or where the fast path is not ready.
    fn start_inner_socket_wait(&self, slot: &SocketSlot, operation: u8, source: Source) -> Option<Wait> {
        let (address, name) = (slot.identity.load(Relaxed) as usize, pool::name(&slot.head));
        self.start_wait(slot.head.class(), WaitObject { address, name, index: 255, operation }, source)
    }

    /// Begins a socket operation. Fast path only; on `Slow` call [`Engine::start_socket_wait`].
    #[inline(always)]
    pub fn start_socket_wait_fast(&self, socket: SocketRef, operation: u8, source: Source) -> Start<Wait> {
        let slot = &socket.slot;
        if slot.idle.load(Relaxed) != 0 {
            cold_path();
            return Start::Off;
        }
        self.start_outer_leaf_wait_fast(&slot.head, operation::SOCKET + (operation & 15), source)
    }

    /// Ends a socket operation. `operation` is a number of the PSI interface.
    pub fn end_socket_wait(&self, socket: SocketRef, wait: &Wait, operation: u8, bytes: u64) {
        if self.end_socket_wait_fast(socket, wait, operation, bytes) {
            return;
        }
        let leaf = self.end_leaf_wait_fast(wait, Lowest::Wide, Some(bytes));
        let taken = leaf.or_else(|| self.end_wait(wait, 1, Some(bytes)));
        let (slot, part) = (&socket.slot, part_of(operation));
        if slot.thread_id.load(Relaxed) != wait.thread.thread_id.own() {
            let weight = self.weight_on(wait, slot.head.class());
            return slot.others.add_shared(part, taken, bytes, weight);
        }
        let now = self.epochs[SummaryFamily::Sockets as usize].load(Relaxed);
        if slot.epoch.load(Relaxed) != now {
            slot.begin_epoch(now);
        }
        self.add_socket(wait, slot, part, taken, bytes);
    }

    /// Counts an operation on a socket that the calling thread owns.
    #[inline(always)]
    fn add_socket(&self, wait: &Wait, slot: &SocketSlot, part: usize, taken: Option<u64>, bytes: u64) {
        if wait.thread.is_weighted() {
            cold_path();
            let weight = self.weight_on(wait, slot.head.class());
            return slot.io.add_weighted(part, taken, bytes, weight);
        }
        slot.io.add(part, taken, bytes);
    }

    /// Returns the factors by which a thread counts an operation on a socket of this instrument.
    fn weight_on(&self, wait: &Wait, class: ClassId) -> SampleWeight {
        let thread = wait.thread;
        if thread.is_weighted() {
            self.weight_of(thread, Kind::Socket, class, wait.start)
        } else {
            SampleWeight::ONE
        }
    }

    /// Ends a socket operation. Fast path only; on false call [`Engine::end_socket_wait`].
    #[inline(always)]
    pub fn end_socket_wait_fast(&self, socket: SocketRef, wait: &Wait, operation: u8, bytes: u64) -> bool {
        let slot = &socket.slot;
        let now = self.epochs[SummaryFamily::Sockets as usize].load(Relaxed);
        if slot.thread_id.load(Relaxed) != wait.thread.thread_id.own() || slot.epoch.load(Relaxed) != now {
            return false;
        }
        self.end_outer_leaf_wait_fast(wait, Lowest::Wide, bytes, |taken| {
            self.add_socket(wait, slot, part_of(operation), taken, bytes);
        })
    }
}

/// Returns which part of a socket's sums an operation belongs to. From 4 on, operations alternate between
/// write and read.
#[inline(always)]
const fn part_of(operation: u8) -> usize {
    match operation.wrapping_sub(4) {
        at @ 0..6 if at % 2 == 0 => WRITE,
        0..6 => READ,
        _ => MISC,
    }
}
