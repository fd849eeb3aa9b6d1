//! HOT PATH: sockets.

use std::hint::cold_path;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::Engine;
use crate::count::cell::{Family, IoCell, IoCounts, MISC, READ, Viewer, WRITE};
use crate::memory::arena::Own;
use crate::memory::lost::Lost;
use crate::memory::pool::{self, Pool, SlotHead, USED};
use crate::memory::text;
use crate::record::wait::{Source, Wait, WaitObject};
use crate::record::{Start, operation};
use crate::snapshot::ClassId;
use crate::thread::current;

use super::reference;

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
    /// What its owner did: plain sums of one writer.
    pub(crate) io: IoCounts,
    /// What others did meanwhile: who accepted it, before it had an owner, and whoever kills a session shuts its socket
    /// down.
    pub(crate) others: IoCounts,
}

impl Socket {
    /// What its owner did before counts no more.
    #[cold]
    #[inline(never)]
    fn begin_epoch(&self, now: u32) {
        self.io.clear_shared();
        self.epoch.store(now, Relaxed);
    }
}

reference! {
    /// A socket.
    SocketRef, SocketHandle, Socket
}

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
        if let Some(ended) = self.ended_io.bank.cell::<IoCell>(&self.arena, slot.head.class()) {
            self.each_io(slot, |io| io.fold(&ended.io));
        }
        self.pools.give(&self.arena, Pool::Sockets, socket);
        self.folds.end();
    }

    /// Calls `f` with all that was done with a socket since the last TRUNCATE.
    pub(crate) fn each_io(&self, socket: &Socket, mut f: impl FnMut(&IoCounts)) {
        if self.counts_for(Family::Sockets, Viewer::Global, socket.epoch.load(Relaxed)) {
            f(&socket.io);
        }
        f(&socket.others);
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

    /// Begins a socket operation; nothing is recorded while the socket is idle, as in the built-in.
    #[inline(always)]
    pub fn start_socket_wait(&self, socket: SocketRef, operation: u8, source: Source) -> Option<Wait> {
        let slot = &socket.slot;
        if slot.idle.load(Relaxed) != 0 {
            return None;
        }
        let operation = operation::SOCKET + operation;
        match self.start_leaf_wait_fast::<4>(&slot.head, operation, source) {
            Start::Began(wait) => Some(wait),
            Start::Off => None,
            Start::Slow => self.start_socket_wait_slow(slot, operation, source),
        }
    }

    #[cold]
    #[inline(never)]
    fn start_socket_wait_slow(&self, slot: &Socket, operation: u8, source: Source) -> Option<Wait> {
        let (address, name) = (std::ptr::from_ref(slot) as usize, pool::name(&slot.head));
        self.start_wait(slot.head.class(), WaitObject { address, name, index: 255, operation }, source)
    }

    /// Ends a socket operation; `operation` in the interface's numbers.
    #[inline(always)]
    pub fn end_socket_wait(&self, socket: SocketRef, wait: &Wait, operation: u8, bytes: u64) {
        let taken =
            self.end_leaf_wait_fast(wait, Some(bytes)).or_else(|| self.end_socket_wait_slow(*wait, bytes));
        let slot = &socket.slot;
        let part = match operation {
            5 | 7 | 9 => READ,
            4 | 6 | 8 => WRITE,
            _ => MISC,
        };
        if slot.thread_id.load(Relaxed) != wait.thread.thread_id.own() {
            cold_path();
            return slot.others.add_shared(part, taken, bytes);
        }
        let now = self.epochs[Family::Sockets as usize].load(Relaxed);
        if slot.epoch.load(Relaxed) != now {
            slot.begin_epoch(now);
        }
        slot.io.add(part, taken, bytes);
    }

    #[cold]
    #[inline(never)]
    fn end_socket_wait_slow(&self, wait: Wait, bytes: u64) -> Option<u64> {
        self.end_wait(&wait, 1, Some(bytes))
    }
}
