//! HOT PATH: waits, of every kind. Start reads the clock and takes a line; end adds to a cell.

use std::hint::cold_path;
use std::sync::atomic::Ordering::Relaxed;

use tare_sync::record;

use crate::Engine;
use crate::clock::{cycles, ticks};
use crate::count::bank::{READY, SUMMED, place};
use crate::count::cell::{Family, StatCell};
use crate::memory::arena::{Base, Offset, Own};
use crate::memory::lost::Lost;
use crate::record::operation;
use crate::record::ring::{RECORD_HISTORY, RECORD_LONG, RECORD_TIMED, WAIT_DEPTH, WAITS, WaitRecord};
use crate::setup::instrument::{ENABLED, TIMED};
use crate::snapshot::{ClassId, EventType};
use crate::thread::filter::{ATTRIBUTED, CURRENT, HISTORY, LONG, UNATTRIBUTED};
use crate::thread::{BANK_OWN, BANK_UNATTRIBUTED, Thread, ThreadHandle, ThreadRef, current};

/// A place in the host's source: the address of a static file name and a line, in one word.
#[derive(Clone, Copy, Debug)]
pub struct Source(pub(crate) u64);

impl Source {
    /// `file` is a string constant of the host, or null; a line is less than 65,536.
    #[inline(always)]
    pub fn new(file: *const std::ffi::c_char, line: u32) -> Source {
        Source((file.addr() as u64) << 16 | u64::from(line as u16))
    }
}

/// What a wait is for.
#[derive(Clone, Copy, Debug)]
pub struct WaitObject {
    /// OBJECT_INSTANCE_BEGIN.
    pub address: usize,
    /// The instance that knows the name: see `instance::Name`; 0: none.
    pub name: u32,
    /// Index of the table; 255: none.
    pub index: u8,
    /// See [`crate::record::operation`].
    pub operation: u8,
}

impl WaitObject {
    /// An object without name and index.
    #[inline(always)]
    pub const fn new(address: usize, operation: u8) -> WaitObject {
        WaitObject { address, name: 0, index: 255, operation }
    }
}

const WAIT_RECORDED: u32 = 1 << 4;
const WAIT_UNATTRIBUTED: u32 = 1 << 5;
/// Began on the short way: timed, attributed, ticks are cycles. Recorded, or only summed up.
const WAIT_SHORT: u32 = 1 << 6;
/// No event can begin before it ends: its record is where it was begun, says class and start, and its own id is its
/// END_EVENT_ID.
const WAIT_LEAF: u32 = 1 << 7;
/// As a leaf, but only summed up: it has a start and the place of its cell, and no record.
const WAIT_SUMMED_LEAF: u32 = 1 << 12;

/// A wait in progress: what the host keeps between start and end, in its own memory.
#[derive(Clone, Copy)]
pub struct Wait {
    pub(crate) thread: &'static Thread,
    /// Not of a leaf.
    pub(crate) start: u64,
    /// Switches in bits 0–3, the flags above; not of a leaf: depth << 8, class << 16.
    flags: u32,
    /// Of a leaf: the place of its record.
    record: Offset,
    /// Of a leaf, recorded or summed up: the place of its cell.
    cell: Offset,
}

impl Wait {
    /// Flags, places, thread and start, to be kept by the host.
    #[inline(always)]
    pub fn pack(self) -> (u32, u64, ThreadRef, u64) {
        let places = u64::from(self.cell) << 32 | u64::from(self.record);
        (self.flags, places, self.thread.handle(), self.start)
    }

    /// The reverse of [`Wait::pack`].
    #[inline(always)]
    pub fn unpack(flags: u32, places: u64, thread: &'static ThreadHandle, start: u64) -> Wait {
        Wait { thread: thread.slab(), start, flags, record: places as u32, cell: (places >> 32) as u32 }
    }

    #[inline(always)]
    pub(crate) fn class(&self) -> ClassId {
        (self.flags >> 16) as ClassId
    }

    #[inline(always)]
    pub(crate) fn timed(&self) -> bool {
        self.flags & u32::from(TIMED) != 0
    }

    #[inline(always)]
    fn bank(&self) -> usize {
        if self.flags & WAIT_UNATTRIBUTED == 0 { BANK_OWN } else { BANK_UNATTRIBUTED }
    }

    #[inline(always)]
    fn depth(&self) -> usize {
        (self.flags >> 8) as usize & (WAIT_DEPTH - 1)
    }

    #[inline(always)]
    fn open_record(&self, engine: &Engine) -> Option<&'static WaitRecord> {
        if self.flags & WAIT_RECORDED == 0 {
            return None;
        }
        match self.thread.open[self.depth()].load(Relaxed) {
            0 => None,
            offset => Some(engine.arena.at(offset)),
        }
    }
}

impl Engine {
    /// Begins a wait of the calling thread. `None`: nothing to do at the end either.
    ///
    /// What is usual (everything on, room in the ring) is done here, without a call; the rest elsewhere.
    #[inline(always)]
    pub fn start_wait(&self, class: ClassId, object: WaitObject, source: Source) -> Option<Wait> {
        let thread = current()?;
        let base = self.arena.base();
        let depth = thread.wait_depth.own() as usize;
        let settled = self.is_settled(thread);
        let entry = if settled { thread.banks[BANK_OWN].settled_entry(base, class) } else { 0 };
        if entry & READY != 0
            && depth < WAIT_DEPTH
            && let Some(offset) = thread.waits.line()
        {
            let usual = thread.usual_waits.own();
            let start = cycles();
            let record: &WaitRecord = base.at(offset);
            record.amount.store(u64::MAX, Relaxed);
            let nests_in = wait_parent(thread, base, depth, object);
            fill_wait(thread, base, offset, &Begin { class, object, source, start, nests_in, flags: usual });
            thread.open[depth].store(offset, Relaxed);
            thread.wait_depth.store(depth as u32 + 1, Relaxed);
            let flags = WAIT_SHORT | WAIT_RECORDED | u32::from(ENABLED | TIMED);
            let flags = flags | (depth as u32) << 8 | u32::from(class) << 16;
            return Some(Wait { thread, start, flags, record: 0, cell: 0 });
        }
        cold_path();
        if entry & SUMMED != 0 {
            let flags = WAIT_SHORT | u32::from(ENABLED | TIMED) | u32::from(class) << 16;
            return Some(Wait { thread, start: cycles(), flags, record: 0, cell: 0 });
        }
        let switches = self.registry.switches(class);
        if switches & ENABLED == 0 {
            return None;
        }
        self.start_unusual_wait(thread, class, switches, object, source)
    }

    /// As [`Engine::start_wait`], for an object whose waits are not timed.
    #[cold]
    #[inline(never)]
    pub(crate) fn start_untimed_wait(
        &self,
        class: ClassId,
        object: WaitObject,
        source: Source,
    ) -> Option<Wait> {
        let switches = self.registry.switches(class) & !TIMED;
        if switches & ENABLED == 0 {
            return None;
        }
        self.start_unusual_wait(current()?, class, switches, object, source)
    }

    /// Whether an instrument is switched off.
    #[inline(always)]
    pub(crate) fn is_off(&self, class: ClassId) -> bool {
        self.registry.switches(class) & ENABLED == 0
    }

    /// As [`Engine::start_wait`], for a wait in which no other event can begin, and only if all is as usual: else
    /// nothing has happened, and [`Engine::start_wait`] does it. Ended by [`Engine::end_usual_leaf_wait`].
    #[inline(always)]
    pub(crate) fn start_usual_leaf_wait(
        &self,
        class: ClassId,
        object: WaitObject,
        source: Source,
    ) -> Option<Wait> {
        let thread = current()?;
        if !self.is_settled(thread) {
            return None;
        }
        let base = self.arena.base();
        let entry = thread.banks[BANK_OWN].settled_entry(base, class);
        if entry & READY == 0 {
            cold_path();
            let flags = WAIT_SUMMED_LEAF | u32::from(ENABLED | TIMED) | u32::from(class) << 16;
            let summed = || Wait { thread, start: cycles(), flags, record: 0, cell: place(entry) };
            return (entry & SUMMED != 0).then(summed);
        }
        let cell = place(entry);
        let record = thread.waits.line()?;
        let start = cycles();
        let depth = thread.wait_depth.own() as usize;
        let flags = thread.usual_waits.own();
        let nests_in = inner_parent(thread, base, depth);
        fill_wait(thread, base, record, &Begin { class, object, source, start, nests_in, flags });
        let flags = WAIT_SHORT | WAIT_LEAF | u32::from(ENABLED | TIMED);
        Some(Wait { thread, start: 0, flags, record, cell })
    }

    #[cold]
    #[inline(never)]
    fn start_unusual_wait(
        &self,
        thread: &'static Thread,
        class: ClassId,
        switches: u8,
        object: WaitObject,
        source: Source,
    ) -> Option<Wait> {
        if !self.is_settled(thread) {
            self.settle(thread);
        }
        self.make_ready(thread, &thread.usual_waits, class, Family::Waits);
        let mask = thread.mask();
        if mask & (ATTRIBUTED | UNATTRIBUTED) == 0 {
            return None;
        }
        let mut flags = u32::from(class) << 16 | u32::from(switches & (ENABLED | TIMED));
        if mask & UNATTRIBUTED != 0 {
            flags |= WAIT_UNATTRIBUTED;
        }
        let start = if switches & TIMED != 0 { ticks() } else { 0 };
        let bits = Thread::bits(mask, EventType::Wait);
        if bits & CURRENT != 0 {
            let timed = if switches & TIMED != 0 { RECORD_TIMED } else { 0 };
            flags |= self.open_wait(thread, class, object, source, start, timed | kept(bits));
        }
        Some(Wait { thread, start, flags, record: 0, cell: 0 })
    }

    /// Records the start; returns the flags that say so.
    fn open_wait(
        &self,
        thread: &'static Thread,
        class: ClassId,
        object: WaitObject,
        source: Source,
        start: u64,
        flags: u8,
    ) -> u32 {
        let depth = thread.wait_depth.load(Relaxed) as usize;
        if depth >= WAIT_DEPTH {
            self.losses.count(Lost::Lockers);
            return 0;
        }
        let Some(offset) = thread.waits.line().or_else(|| self.next_wait_block(thread)) else { return 0 };
        let base = self.arena.base();
        base.at::<WaitRecord>(offset).amount.store(u64::MAX, Relaxed);
        let flags = u32::from(flags) << 24;
        let nests_in = wait_parent(thread, base, depth, object);
        fill_wait(thread, base, offset, &Begin { class, object, source, start, nests_in, flags });
        thread.open[depth].store(offset, Relaxed);
        thread.wait_depth.store(depth as u32 + 1, Relaxed);
        WAIT_RECORDED | (depth as u32) << 8
    }

    #[cold]
    #[inline(never)]
    fn next_wait_block(&self, thread: &'static Thread) -> Option<Offset> {
        let depth = (thread.wait_depth.load(Relaxed) as usize).min(WAIT_DEPTH);
        if self.advance(thread, &thread.waits, &WAITS, &thread.open[..depth]) {
            thread.waits.line()
        } else {
            None
        }
    }

    /// Ends a wait that stands for `n` events (rows of a batch; 1 elsewhere). Returns its duration in ticks,
    /// if it was timed.
    #[inline(always)]
    pub fn end_wait(&self, wait: &Wait, n: u64, amount: Option<u64>) -> Option<u64> {
        let base = self.arena.base();
        let recorded = wait.flags & WAIT_RECORDED != 0;
        let mark = if recorded { READY } else { SUMMED };
        // Asked again: an event inside it may have settled for another cell.
        if wait.flags & (WAIT_SHORT | WAIT_LEAF) == WAIT_SHORT
            && self.is_settled(wait.thread)
            && let Some(cell) = wait.thread.banks[BANK_OWN].marked_cell(base, wait.class(), mark)
        {
            let end = cycles();
            let taken = base.at::<StatCell>(cell).stat.add_span(n, wait.start, end);
            if recorded {
                self.close_wait(wait, end, amount);
            }
            return Some(taken);
        }
        self.end_unusual_wait(wait, n, amount)
    }

    /// Ends a wait [`Engine::start_usual_leaf_wait`] began, if all is as usual still, and returns its duration in ticks;
    /// else nothing has happened, and [`Engine::end_wait`] does it.
    #[inline(always)]
    pub(crate) fn end_usual_leaf_wait(&self, wait: &Wait, amount: Option<u64>) -> Option<u64> {
        let settled = self.is_settled(wait.thread);
        let base = self.arena.base();
        if wait.flags & WAIT_LEAF == 0 || !settled {
            cold_path();
            let summed = settled && wait.flags & WAIT_SUMMED_LEAF != 0;
            return summed.then(|| base.at::<StatCell>(wait.cell).stat.add_span(1, wait.start, cycles()));
        }
        let end = cycles();
        let record: &WaitRecord = base.at(wait.record);
        let taken = base.at::<StatCell>(wait.cell).stat.add_span(1, record.start.own(), end);
        close_leaf(record, end, amount);
        Some(taken)
    }

    #[cold]
    #[inline(never)]
    fn end_unusual_wait(&self, wait: &Wait, n: u64, amount: Option<u64>) -> Option<u64> {
        let end = if wait.timed() { ticks() } else { 0 };
        let (class, start) = match wait.flags & WAIT_LEAF {
            0 => (wait.class(), wait.start),
            _ => self.arena.at::<WaitRecord>(wait.record).began(),
        };
        let taken = end.saturating_sub(start);
        if let Some(cell) = self.cell::<StatCell>(wait.thread, wait.bank(), class, Family::Waits) {
            if wait.timed() {
                cell.stat.add(n, taken);
            } else {
                cell.stat.add_untimed(n);
            }
        }
        if wait.flags & WAIT_LEAF != 0 {
            leave_histories(wait.thread, self.arena.at(wait.record));
            close_leaf(self.arena.at(wait.record), end, amount);
        } else if wait.flags & WAIT_RECORDED != 0 {
            if let Some(record) = wait.open_record(self) {
                leave_histories(wait.thread, record);
            }
            self.close_wait(wait, end, amount);
        }
        wait.timed().then_some(taken)
    }

    #[inline(always)]
    fn close_wait(&self, wait: &Wait, end: u64, amount: Option<u64>) {
        let thread = wait.thread;
        let depth = wait.depth();
        thread.wait_depth.store(depth as u32, Relaxed);
        let offset = thread.open[depth].load(Relaxed);
        if offset == 0 {
            return;
        }
        let record: &WaitRecord = self.arena.at(offset);
        if let Some(amount) = amount {
            record.amount.store(amount, Relaxed);
        }
        // END_EVENT_ID is the last id given out, by this event or one inside it.
        record.end_event_id.store((thread.event_id.own() as u32).wrapping_sub(1), Relaxed);
        // An untimed wait has ended, too: 1 is no moment.
        record::end(&record.end, end.max(1));
    }

    /// Changes the object of a wait in progress: a file that became known while it was opened.
    pub fn set_wait_object(&self, wait: &Wait, address: usize, name: u32) {
        if let Some(record) = wait.open_record(self) {
            let what = record.object.load(Relaxed) & 0xFFFF;
            record.object.store((address as u64) << 16 | what, Relaxed);
            let what = record.what.load(Relaxed) & 0xFFFF_FFFF;
            record.what.store(what | u64::from(name) << 32, Relaxed);
        }
    }

    /// Restarts the clock of a wait that was announced before it began (files).
    #[inline(always)]
    pub fn restart_wait(&self, wait: &mut Wait, source: Source, amount: u64) {
        if wait.timed() {
            wait.start = ticks();
        }
        if let Some(record) = wait.open_record(self) {
            record.start.store(wait.start, Relaxed);
            record.source.store(source.0, Relaxed);
            record.amount.store(amount, Relaxed);
        }
    }
}

/// A wait that begins.
struct Begin {
    class: ClassId,
    object: WaitObject,
    source: Source,
    start: u64,
    /// Id and type of the event it nests in.
    nests_in: (u64, u32),
    /// In the uppermost byte.
    flags: u32,
}

/// Writes its record, all but the amount.
#[inline(always)]
fn fill_wait(thread: &'static Thread, base: Base, offset: Offset, begin: &Begin) {
    let Begin { class, object, source, start, nests_in: (parent, parent_type), flags } = begin;
    let record: &WaitRecord = base.at(offset);
    let event_id = thread.next_event_id();
    record.start.store(*start, Relaxed);
    record.end.store(0, Relaxed);
    record.source.store(source.0, Relaxed);
    let what = u64::from(object.operation) << 8 | u64::from(*parent_type);
    record.object.store((object.address as u64) << 16 | what, Relaxed);
    record.nesting.store(*parent as u32, Relaxed);
    record.end_event_id.store(event_id as u32, Relaxed);
    let what = u32::from(*class) | u32::from(object.index) << 16 | flags;
    record.what.store(u64::from(what) | u64::from(object.name) << 32, Relaxed);
    record::publish(&record.stamp, thread.waits.stamp(event_id));
    base.expect_write_behind(offset);
}

/// Writes the end of a leaf's record; its own id is there already.
#[inline(always)]
fn close_leaf(record: &WaitRecord, end: u64, amount: Option<u64>) {
    if let Some(amount) = amount {
        record.amount.store(amount, Relaxed);
    }
    record::end(&record.end, end);
}

/// The event a wait at `depth` nests in.
#[inline(always)]
fn wait_parent(thread: &'static Thread, base: Base, depth: usize, object: WaitObject) -> (u64, u32) {
    match object.operation {
        // The wait for the next command belongs to none.
        operation::IDLE => (0, 0),
        _ => inner_parent(thread, base, depth),
    }
}

/// As [`wait_parent`], for a wait that is not the one for the next command.
#[inline(always)]
fn inner_parent(thread: &'static Thread, base: Base, depth: usize) -> (u64, u32) {
    if let Some(outer) = depth.checked_sub(1).and_then(|outer| thread.open.get(outer)) {
        let outer = outer.own();
        if outer != 0 {
            return (record::id(base.at::<WaitRecord>(outer).stamp.own()), EventType::Wait as u32);
        }
    }
    (thread.parent_id.own(), thread.parent_type.own())
}

/// A wait does not go to the histories that were switched off while it lasted, as in the reference.
fn leave_histories(thread: &Thread, record: &WaitRecord) {
    let mask = thread.mask();
    if mask != 0 {
        let left = (RECORD_HISTORY | RECORD_LONG) & !kept(Thread::bits(mask, EventType::Wait));
        record.what.store(record.what.load(Relaxed) & !(u64::from(left) << 24), Relaxed);
    }
}

/// Record flags from a thread's history bits.
#[inline(always)]
pub(crate) const fn kept(bits: u32) -> u8 {
    let mut flags = 0;
    if bits & HISTORY != 0 {
        flags |= RECORD_HISTORY;
    }
    if bits & LONG != 0 {
        flags |= RECORD_LONG;
    }
    flags
}
