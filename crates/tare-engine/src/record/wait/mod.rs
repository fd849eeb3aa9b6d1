//! HOT PATH: waits of every kind. The start reads the clock and notes the object. The end adds to a cell and
//! writes a record.

mod free;
mod object;
mod short;
mod state;
mod untimed;

use std::hint::cold_path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::Engine;
use crate::clock::{cycles, ticks};
use crate::histogram::Lowest;
use crate::layout::bank::{READY, SUMMED, UNTIMED, place};
use crate::layout::cell::{StatCell, SummaryFamily};
use crate::layout::histograms::CellEvents;
use crate::layout::journal::{ComingRecord, parent, parent_of};
use crate::layout::ring::{RECORD_HISTORY, RECORD_LONG, RECORD_TIMED, WAIT_DEPTH, WAITS};
use crate::layout::wait::{
    BegunWait, EndedWait, Leaf, MOST_WORDS, NO_AMOUNT, OpenWait, REACH, begin_leaf, end_leaf, first_word,
    leave_leaf, operation_of, void_leaf, write_wide,
};
use crate::memory::arena::{Offset, Own};
use crate::memory::lost::Lost;
use crate::memory::pool::Object;
use crate::record::{Start, operation};
use crate::setup::filter::{ATTRIBUTED, HISTORY, LONG, UNATTRIBUTED, is_event};
use crate::setup::instrument::{ENABLED, TIMED};
use crate::snapshot::{ClassId, EventType};
use crate::thread::{BANK_OWN, BANK_UNATTRIBUTED, Thread, ThreadHandle, ThreadRef, current};
pub use free::UntimedLock;
pub use object::{Source, WaitObject};
pub(crate) use short::{WaitKind, WaitTotals};
use state::WaitState;

/// A wait in progress: what the host keeps between start and end, in its own memory.
#[derive(Clone, Copy)]
pub struct Wait {
    pub(crate) thread: &'static Thread,
    pub(crate) start: u64,
    state: WaitState,
    /// The place of the cell of a leaf, recorded or summed up.
    cell: Offset,
    /// The place of the record of a leaf.
    record: Offset,
}

impl Wait {
    /// Returns state, places, thread and start for the host to keep.
    #[inline(always)]
    pub fn pack(self) -> (u32, u64, ThreadRef, u64) {
        let places = u64::from(self.cell) << 32 | u64::from(self.record);
        (self.state.bits(), places, self.thread.handle(), self.start)
    }

    /// Restores a wait from the values of [`Wait::pack`].
    ///
    /// # Safety
    /// [`Wait::pack`] returned these values for a wait that has not ended. They say where in the engine's
    /// memory its end is written.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub unsafe fn unpack(state: u32, places: u64, thread: &'static ThreadHandle, start: u64) -> Wait {
        let (state, cell, record) = (WaitState::from_bits(state), (places >> 32) as u32, places as u32);
        Wait { thread: thread.slab(), start, state, cell, record }
    }

    /// Returns the thread that waits.
    #[inline(always)]
    pub fn thread(&self) -> ThreadRef {
        self.thread.handle()
    }

    #[inline(always)]
    pub(crate) fn class(&self) -> ClassId {
        self.state.class()
    }

    #[inline(always)]
    pub(crate) fn timed(&self) -> bool {
        self.state.is_timed()
    }

    #[inline(always)]
    fn bank(&self) -> usize {
        if self.state.has(WaitState::UNATTRIBUTED) { BANK_UNATTRIBUTED } else { BANK_OWN }
    }

    /// Returns its state in the slab, if it is recorded.
    #[inline(always)]
    fn open(&self) -> Option<&'static OpenWait> {
        self.state.has(WaitState::RECORDED).then(|| &self.thread.open[self.state.depth()])
    }
}

impl Engine {
    /// Begins a wait of the calling thread. `None`: there is nothing to do at the end either.
    #[inline(always)]
    pub fn start_wait(&self, class: ClassId, object: WaitObject, source: Source) -> Option<Wait> {
        match self.start_class_wait_fast(class, object, source) {
            Start::Began(wait) => Some(wait),
            Start::Off => None,
            Start::Slow => {
                let switches = self.registry.switches(class);
                if switches & ENABLED == 0 {
                    return None;
                }
                self.start_wait_slow(current()?, class, switches, object, source)
            }
        }
    }

    /// Begins a wait of the calling thread. Fast path only (everything enabled), without a call; on `Slow`
    /// call
    /// [`Engine::start_wait`].
    #[inline(always)]
    pub fn start_class_wait_fast(&self, class: ClassId, object: WaitObject, source: Source) -> Start<Wait> {
        let Some(thread) = current() else { return Start::Off };
        let base = self.arena.base();
        let depth = thread.wait_depth.own() as usize;
        let settled = self.is_settled(thread);
        let entry = if settled { thread.banks[BANK_OWN].settled_entry(base, class) } else { 0 };
        if entry & READY != 0 && depth < WAIT_DEPTH {
            let start = cycles();
            let histories = thread.usual_histories();
            note_wait(
                thread,
                noted(class, object, RECORD_TIMED | histories),
                start,
                source,
                object.address,
                object.name,
            );
            let state = WaitState::timed(class).with(WaitState::SHORT).with(WaitState::RECORDED);
            let state = state.at_depth(depth);
            return Start::Began(Wait { thread, start, state, cell: 0, record: 0 });
        }
        cold_path();
        start_unrecorded(thread, entry, class, false).map_or(Start::Slow, Start::Began)
    }

    /// Begins a wait for an object whose waits are not timed.
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
        self.start_wait_slow(current()?, class, switches, object, source)
    }

    /// Returns whether an instrument is disabled: nothing is noted of its events, in any thread.
    #[inline(always)]
    pub fn is_off(&self, class: ClassId) -> bool {
        self.registry.switches(class) & ENABLED == 0
    }

    /// Begins a leaf on the fast path: a wait for an instance in which no other event can begin. Ended by
    /// [`Engine::end_leaf_wait_fast`]. On `Slow`, call [`Engine::start_wait`].
    #[inline(always)]
    pub(crate) fn start_leaf_wait_fast<const WORDS: usize>(
        &self,
        of: Object,
        operation: u8,
        source: Source,
    ) -> Start<Wait> {
        let class = of.class();
        match self.begin_leaf_wait::<WORDS>(of, class, operation, source) {
            Some(wait) => Start::Began(wait),
            None => {
                cold_path();
                if self.is_off(class) { Start::Off } else { Start::Slow }
            }
        }
    }

    /// Begins a leaf. `None`: nothing has happened.
    #[inline(always)]
    fn begin_leaf_wait<const WORDS: usize>(
        &self,
        of: Object,
        class: ClassId,
        operation: u8,
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
            return start_unrecorded(thread, entry, class, true);
        }
        let (parent, began) = nesting(thread);
        let began = || began.own();
        let leaf = || leaf(thread, of, operation, source);
        let (start, record) = begin_leaf::<WORDS>(&thread.waits, base, parent, began, leaf, cycles)?;
        thread.next_event_id();
        let state = WaitState::timed(class).with(WaitState::SHORT).with(WaitState::LEAF);
        Some(Wait { thread, start, state, cell: place(entry), record })
    }

    #[cold]
    #[inline(never)]
    fn start_wait_slow(
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
        if self.make_ready(thread, &thread.usual_waits, class, SummaryFamily::Waits).is_some() {
            // Perhaps only the journal was not ready for a leaf.
            self.prepare_waits(thread, (thread.event_id.own(), cycles()));
        }
        let mask = thread.mask();
        if mask & (ATTRIBUTED | UNATTRIBUTED) == 0 {
            return None;
        }
        let mut state = WaitState::new(class, switches);
        if mask & UNATTRIBUTED != 0 {
            state = state.with(WaitState::UNATTRIBUTED);
        }
        let start = if switches & TIMED != 0 { ticks() } else { 0 };
        let bits = Thread::bits(mask, EventType::Wait);
        if is_event(mask, EventType::Wait, switches) {
            let timed = if switches & TIMED != 0 { RECORD_TIMED } else { 0 };
            let what = noted(class, object, timed | kept(bits));
            state = state.with(self.open_wait(thread, what, start, source, object));
        }
        Some(Wait { thread, start, state, cell: 0, record: 0 })
    }

    /// Notes the start of a wait, and returns the flags and the depth that say so.
    fn open_wait(
        &self,
        thread: &'static Thread,
        what: u64,
        start: u64,
        source: Source,
        object: WaitObject,
    ) -> WaitState {
        let depth = thread.wait_depth.load(Relaxed) as usize;
        if depth >= WAIT_DEPTH {
            self.losses.count(Lost::Lockers);
            return WaitState::NONE;
        }
        note_wait(thread, what, start, source, object.address, object.name);
        WaitState::RECORDED.at_depth(depth)
    }

    /// Ends a wait that stands for `n` events: the rows of a batch, otherwise 1. Returns its duration in
    /// ticks; `None`: it was not timed.
    #[inline(always)]
    pub fn end_wait(&self, wait: &Wait, n: u64, amount: Option<u64>) -> Option<u64> {
        if wait.state.has(WaitState::TALLIED) {
            cold_path();
            self.tally(wait, n);
            return None;
        }
        self.end_class_wait_fast(wait, n, amount).or_else(|| self.end_wait_slow(*wait, n, amount))
    }

    /// Ends a wait as [`Engine::end_wait`] does. Fast path only; if it returns `None`, nothing has happened:
    /// call that one.
    #[inline(always)]
    pub fn end_class_wait_fast(&self, wait: &Wait, n: u64, amount: Option<u64>) -> Option<u64> {
        let base = self.arena.base();
        // Looked up again, because an event inside it may have moved the instrument to another cell.
        if wait.state.is_short()
            && self.is_settled(wait.thread)
            && let Some(cell) =
                wait.thread.banks[BANK_OWN].marked_cell(base, wait.class(), wait.state.marks())
        {
            let of = CellEvents::new(self.registry.kind(wait.class()).lowest(), wait.class());
            let taken = base.at::<StatCell>(cell).add_span(self, wait.thread, of, n, wait.start, cycles());
            if wait.state.has(WaitState::RECORDED) {
                self.close_wait(wait.thread, wait.state.depth(), taken, amount.unwrap_or(NO_AMOUNT));
            }
            return Some(taken);
        }
        None
    }

    /// Ends a leaf that [`Engine::start_leaf_wait_fast`] began, on the fast path, and returns its duration in
    /// ticks. `None`: call [`Engine::end_wait`].
    #[inline(always)]
    pub(crate) fn end_leaf_wait_fast(&self, wait: &Wait, lowest: Lowest, amount: Option<u64>) -> Option<u64> {
        let settled = self.is_settled(wait.thread);
        let base = self.arena.base();
        if !wait.state.has(WaitState::LEAF) || !settled {
            cold_path();
            if !settled || !wait.state.has(WaitState::SUMMED_LEAF) {
                return None;
            }
            let cell = base.at::<StatCell>(wait.cell);
            return Some(cell.add_span(
                self,
                wait.thread,
                CellEvents::new(lowest, wait.class()),
                1,
                wait.start,
                cycles(),
            ));
        }
        let ticks = cycles().saturating_sub(wait.start);
        if !end_leaf(base, wait.record, ticks, amount) {
            return None;
        }
        let of = CellEvents::new(lowest, wait.class());
        base.at::<StatCell>(wait.cell).add_span(self, wait.thread, of, 1, 0, ticks);
        Some(ticks)
    }

    /// Begins a wait of the calling thread that is only counted although its instrument's waits are timed.
    #[inline(always)]
    pub(crate) fn start_tallied_wait(&self, class: ClassId) -> Option<Wait> {
        let state = WaitState::new(class, ENABLED).with(WaitState::TALLIED);
        Some(Wait { thread: current()?, start: 0, state, cell: 0, record: 0 })
    }

    /// Ends a wait that [`Engine::start_tallied_wait`] began, on the fast path. Returns false if nothing has
    /// happened, or if it is another wait: call [`Engine::end_wait`].
    #[inline(always)]
    pub(crate) fn end_tallied_wait_fast(&self, wait: &Wait, n: u64) -> bool {
        if !wait.state.has(WaitState::TALLIED) || !self.is_settled(wait.thread) {
            return false;
        }
        let base = self.arena.base();
        let Some(cell) = wait.thread.banks[BANK_OWN].marked_cell(base, wait.class(), READY | SUMMED) else {
            return false;
        };
        wait.thread.tallied.store(0, Relaxed);
        base.at::<StatCell>(cell).stat.add_untimed(n);
        true
    }

    /// Ends any wait that [`Engine::start_tallied_wait`] began.
    #[cold]
    #[inline(never)]
    fn tally(&self, wait: &Wait, n: u64) {
        let thread = wait.thread;
        if self.end_tallied_wait_fast(wait, n) {
            return;
        }
        thread.tallied.store(0, Relaxed);
        if !self.is_settled(thread) {
            self.settle(thread);
        }
        self.make_ready(thread, &thread.usual_waits, wait.class(), SummaryFamily::Waits);
        let mask = thread.mask();
        if mask & (ATTRIBUTED | UNATTRIBUTED) == 0 {
            return;
        }
        let bank = if mask & UNATTRIBUTED == 0 { BANK_OWN } else { BANK_UNATTRIBUTED };
        if let Some(cell) = self.cell::<StatCell>(thread, bank, wait.class(), SummaryFamily::Waits) {
            cell.stat.add_untimed(n);
        }
    }

    #[cold]
    #[inline(never)]
    fn end_wait_slow(&self, wait: Wait, n: u64, amount: Option<u64>) -> Option<u64> {
        let thread = wait.thread;
        if wait.state.has(WaitState::COUNTED)
            && self.is_settled(thread)
            && let Some(cell) = thread.banks[BANK_OWN].marked_cell(self.arena.base(), wait.class(), UNTIMED)
        {
            self.arena.at::<StatCell>(cell).stat.add_untimed(n);
            return None;
        }
        let end = if wait.timed() { ticks() } else { 0 };
        let taken = end.saturating_sub(wait.start);
        if let Some(cell) =
            self.cell::<StatCell>(wait.thread, wait.bank(), wait.class(), SummaryFamily::Waits)
        {
            let of = CellEvents::new(self.registry.kind(wait.class()).lowest(), wait.class());
            cell.add_unusual(self, thread, of, n, wait.timed().then_some(taken));
        }
        if wait.state.has(WaitState::LEAF) {
            self.end_leaf_slow(&wait, taken, amount);
        } else if let Some(open) = wait.open() {
            open.leave(unwanted_histories(wait.thread));
            self.close_wait(wait.thread, wait.state.depth(), taken, amount.unwrap_or(NO_AMOUNT));
        }
        wait.timed().then_some(taken)
    }

    fn end_leaf_slow(&self, wait: &Wait, ticks: u64, amount: Option<u64>) {
        let (thread, base) = (wait.thread, self.arena.base());
        leave_leaf(base, wait.record, unwanted_histories(thread));
        if end_leaf(base, wait.record, ticks, amount) {
            return;
        }
        let (parent, _) = nesting(thread);
        // The slab has one more place than the maximum depth.
        if let Some(open) = thread.open.get(thread.wait_depth.own() as usize) {
            void_leaf(&thread.waits, base, wait.record, parent, open);
            let ended = EndedWait { ticks, amount, end_event_id: open.id() };
            if !write_wide(&thread.waits, base, open, ended) {
                self.write_unready_wait(thread, open, ended);
            }
            open.end();
        }
    }

    /// Writes the record of a wait that is no leaf. One function for all kinds of waits, so that its code is
    /// more often in the cache.
    #[inline(never)]
    fn close_wait(&self, thread: &Thread, depth: usize, ticks: u64, amount: u64) {
        thread.wait_depth.store(depth as u32, Relaxed);
        let Some(open) = thread.open.get(depth) else { return };
        let ended = EndedWait { ticks, amount: open.amount(amount), end_event_id: last_event_id(thread) };
        if !write_wide(&thread.waits, self.arena.base(), open, ended) {
            self.write_unready_wait(thread, open, ended);
        }
        open.end();
    }

    /// Writes the record of a wait after preparing the journal.
    #[cold]
    #[inline(never)]
    fn write_unready_wait(&self, thread: &Thread, open: &OpenWait, ended: EndedWait) {
        if self.prepare_waits(thread, (open.id(), open.start())) {
            write_wide(&thread.waits, self.arena.base(), open, ended);
        }
    }

    /// Prepares the journal for any record. Returns false if there is no memory, and an event is lost.
    #[cold]
    #[inline(never)]
    fn prepare_waits(&self, thread: &Thread, (id, time): (u64, u64)) -> bool {
        let (parent, began) = nesting(thread);
        let parent_began = began.own();
        let coming = ComingRecord { words: MOST_WORDS, id, time, parent, parent_began, gap: false };
        self.prepare_journal(thread, &thread.waits, &WAITS, &REACH, &coming)
    }

    /// Changes the object of a wait in progress, such as a file that became known while it was opened.
    pub fn set_wait_object(&self, wait: &Wait, address: usize, name: u32) {
        if let Some(open) = wait.open() {
            open.set_object(address as u64, name);
        }
    }

    /// Restarts the clock of a wait that was announced before it began, as for files.
    #[inline(always)]
    pub fn restart_wait(&self, wait: &mut Wait, source: Source, amount: u64) {
        if wait.timed() {
            wait.start = ticks();
        }
        if let Some(open) = wait.open() {
            open.restart(wait.start, source.0, amount);
        }
    }
}

/// Returns what is known of a leaf that begins.
#[inline(always)]
fn leaf(thread: &Thread, of: Object, operation: u8, source: Source) -> Leaf {
    let (id, usual) = (thread.event_id.own(), thread.usual_waits.own());
    Leaf { id, usual, class: of.class(), operation, source: source.0, object: of.name() }
}

/// Begins a wait that is summed up, or only counted, as its cell's marks say.
#[inline(always)]
fn start_unrecorded(thread: &'static Thread, entry: u32, class: ClassId, is_leaf: bool) -> Option<Wait> {
    match entry & (SUMMED | UNTIMED) {
        0 => None,
        UNTIMED => Some(Wait {
            thread,
            start: 0,
            state: WaitState::new(class, ENABLED).with(WaitState::COUNTED),
            cell: 0,
            record: 0,
        }),
        _ => {
            const SHORT: WaitState = WaitState::SHORT.with(WaitState::SUMMED);
            let state = WaitState::timed(class).with(if is_leaf { WaitState::SUMMED_LEAF } else { SHORT });
            let cell = if is_leaf { place(entry) } else { 0 };
            Some(Wait { thread, start: cycles(), state, cell, record: 0 })
        }
    }
}

/// Returns the first word of a wait that begins and is no leaf.
#[inline(always)]
fn noted(class: ClassId, object: WaitObject, flags: u8) -> u64 {
    first_word(class, object.operation, object.index, flags)
}

/// Notes a wait in the slab, after those in progress. One function with arguments in registers for all kinds
/// of waits, so that its code is more often in the cache.
#[inline(never)]
fn note_wait(thread: &'static Thread, what: u64, start: u64, source: Source, address: usize, object: u32) {
    let depth = thread.wait_depth.own() as usize;
    let Some(open) = thread.open.get(depth) else { return };
    let parent = match operation_of(what) {
        // The wait for the next command nests in nothing.
        operation::IDLE => 0,
        _ => nesting(thread).0,
    };
    let id = thread.next_event_id();
    let begun = BegunWait { id, what, parent, source: source.0, address: address as u64, object };
    open.begin(&begun, start);
    thread.wait_depth.store(depth as u32 + 1, Relaxed);
}

/// Returns the END_EVENT_ID of a wait that ends now: the last id assigned, to this event or one inside it.
#[inline(always)]
fn last_event_id(thread: &Thread) -> u64 {
    thread.event_id.own().wrapping_sub(1)
}

/// Returns the event that a wait nests in which begins now, encoded by [`parent`], and when that event began.
#[inline(always)]
fn nesting(thread: &Thread) -> (u64, &AtomicU64) {
    let depth = thread.wait_depth.own() as usize;
    if let Some(outer) = depth.checked_sub(1).and_then(|outer| thread.open.get(outer))
        && outer.id() != 0
    {
        return (parent(outer.id(), EventType::Wait as u32), outer.began());
    }
    let parent = thread.parent.own();
    (parent, began(thread, parent))
}

/// Returns the start of the stage or statement that an outer wait nests in. If there is none, that of the
/// latest one.
#[inline(always)]
fn began(thread: &Thread, parent: u64) -> &AtomicU64 {
    let (_, of) = parent_of(parent);
    if of == EventType::Stage as u8 { &thread.stage_start } else { &thread.statement_start }
}

/// Returns the histories that were disabled while a wait lasted; they do not get it, as in the built-in.
fn unwanted_histories(thread: &Thread) -> u8 {
    match thread.mask() {
        0 => 0,
        mask => (RECORD_HISTORY | RECORD_LONG) & !kept(Thread::bits(mask, EventType::Wait)),
    }
}

/// Returns the flags of a record for a thread's history bits.
#[inline(always)]
pub(crate) const fn kept(bits: u32) -> u8 {
    const { assert!(HISTORY == RECORD_HISTORY as u32 && LONG == RECORD_LONG as u32) };
    (bits & (HISTORY | LONG)) as u8
}
