//! HOT PATH: the fast path of waits that nest in no other wait: in a straight line, and without a call.

use std::hint::cold_path;
use std::sync::atomic::Ordering::Relaxed;

use super::state::WaitState;
use super::{Source, Wait, WaitObject, began, last_event_id, start_unrecorded};
use crate::Engine;
use crate::clock::cycles;
use crate::histogram::Lowest;
use crate::layout::bank::{READY, SUMMED, UNTIMED, place};
use crate::layout::cell::StatCell;
use crate::layout::histograms::CellEvents;
use crate::layout::wait::{
    EndedWait, Leaf, MOST_WORDS, OpenWait, begin_leaf, end_leaf, usual_word, write_wide_at,
};
use crate::memory::arena::{Base, Own};
use crate::memory::pool::{SlotHead, name};
use crate::record::{Start, operation};
use crate::setup::instrument::fixed;
use crate::snapshot::ClassId;
use crate::thread::{BANK_OWN, Thread, current};

/// What a wait brings to its end on the fast path.
#[derive(Clone, Copy)]
pub(crate) struct WaitTotals {
    /// The number of events it stands for.
    pub(crate) events: u64,
    pub(crate) amount: Option<u64>,
}

/// The kind of wait that begins here.
#[derive(Clone, Copy)]
pub(crate) struct WaitKind {
    class: ClassId,
    /// The first word of its records, encoded by [`usual_word`].
    word: u32,
}

impl WaitKind {
    /// Creates a kind of wait. `index` is that of the table; 255: none.
    #[inline(always)]
    pub(crate) const fn new(class: ClassId, operation: u8, index: u8) -> WaitKind {
        WaitKind { class, word: usual_word(class, operation, index) }
    }
}

impl Engine {
    /// Begins a wait on the fast path. `look` finds the object, and whether its waits may take the fast path;
    /// `note` notes it. On `Slow`, call [`Engine::start_wait`].
    #[inline(always)]
    pub(crate) fn start_wait_fast<T>(
        &self,
        what: WaitKind,
        source: Source,
        look: impl Fn(Base) -> (T, bool),
        note: impl FnOnce(&OpenWait, T),
    ) -> Start<Wait> {
        self.start_outer_wait(what, source, look, note, |thread| thread.parent.own())
    }

    /// Begins the wait for the next command, which nests in nothing.
    pub fn start_idle_wait(&self, source: Source) -> Option<Wait> {
        match self.start_idle_wait_fast(source) {
            Start::Began(wait) => Some(wait),
            Start::Off => None,
            Start::Slow => self.start_wait(fixed::IDLE, WaitObject::new(0, operation::IDLE), source),
        }
    }

    /// Ends the wait for the next command.
    pub fn end_idle_wait(&self, wait: &Wait) {
        if !self.end_idle_wait_fast(wait) {
            self.end_wait(wait, 1, None);
        }
    }

    /// Begins the wait for the next command on the fast path. On `Slow`, call [`Engine::start_idle_wait`].
    #[inline(always)]
    pub fn start_idle_wait_fast(&self, source: Source) -> Start<Wait> {
        let what = WaitKind::new(fixed::IDLE, operation::IDLE, 255);
        self.start_outer_wait(what, source, |_| ((), true), |open, ()| open.set_object(0, 0), |_| 0)
    }

    /// Begins a wait that nests in no other. Each part is written before the next is read, so that few
    /// registers are needed.
    #[inline(always)]
    fn start_outer_wait<T>(
        &self,
        what: WaitKind,
        source: Source,
        look: impl Fn(Base) -> (T, bool),
        note: impl FnOnce(&OpenWait, T),
        parent: impl FnOnce(&Thread) -> u64,
    ) -> Start<Wait> {
        let WaitKind { class, word } = what;
        let Some(thread) = current() else { return Start::Slow };
        if !self.is_settled(thread) {
            return Start::Slow;
        }
        let base = self.arena.base();
        let entry = thread.banks[BANK_OWN].settled_entry(base, class);
        if entry & READY == 0 {
            cold_path();
            let wait = if look(base).1 { start_unrecorded(thread, entry, class, false) } else { None };
            return wait.map_or(Start::Slow, Start::Began);
        }
        if thread.wait_depth.own() != 0 {
            return Start::Slow;
        }
        let (object, is_usual) = look(base);
        if !is_usual {
            return Start::Slow;
        }
        let open = &thread.open[0];
        open.set_source(source.0);
        note(open, object);
        open.set_parent(parent(thread));
        open.set_what(u64::from(word.wrapping_add(thread.usual_waits.own())));
        thread.wait_depth.store(1, Relaxed);
        let id = thread.next_event_id();
        let start = cycles();
        open.show(id, start);
        let state = WaitState::timed(class).with(WaitState::SHORT).with(WaitState::RECORDED);
        Start::Began(Wait { thread, start, state, cell: 0, record: 0 })
    }

    /// Ends the wait for the next command on the fast path. Returns false if [`Engine::end_idle_wait`] must
    /// be called.
    #[inline(always)]
    pub fn end_idle_wait_fast(&self, wait: &Wait) -> bool {
        let brought = WaitTotals { events: 1, amount: None };
        self.end_wait_fast(self.arena.base(), fixed::IDLE, wait, Lowest::Wide, brought, |_| ())
    }

    /// Ends a wait on the fast path. `count` is given its time in ticks; `None`: it was not timed. Returns
    /// false if nothing has happened: call [`Engine::end_wait`].
    #[inline(always)]
    pub(crate) fn end_wait_fast(
        &self,
        base: Base,
        class: ClassId,
        wait: &Wait,
        lowest: Lowest,
        brought: WaitTotals,
        count: impl FnOnce(Option<u64>),
    ) -> bool {
        if !wait.state.is_outermost_recorded() {
            cold_path();
            return match wait.state.has(WaitState::COUNTED) {
                false => self.end_summed_wait(wait, lowest, brought.events, |ticks| count(Some(ticks))),
                true => self.end_counted_wait(wait, brought.events, || count(None)),
            };
        }
        let thread = wait.thread;
        if !self.is_settled(thread) {
            return false;
        }
        // Looked up again, because an event inside it may have moved the instrument to another cell.
        let Some(cell) = thread.banks[BANK_OWN].marked_cell(base, class, READY) else { return false };
        let Some(at) = thread.waits.place(MOST_WORDS) else { return false };
        let ticks = cycles().saturating_sub(wait.start);
        count(Some(ticks));
        let end_event_id = last_event_id(thread);
        thread.wait_depth.store(0, Relaxed);
        let open = &thread.open[0];
        let ended = EndedWait { ticks, amount: brought.amount, end_event_id };
        write_wide_at(&thread.waits, base, at, open, ended);
        open.end();
        base.at::<StatCell>(cell).add_span(
            self,
            thread,
            CellEvents::new(lowest, class),
            brought.events,
            0,
            ticks,
        );
        true
    }

    /// Ends a wait on the fast path that is summed up and not recorded. Returns false if nothing has
    /// happened.
    #[inline(always)]
    fn end_summed_wait(&self, wait: &Wait, lowest: Lowest, events: u64, count: impl FnOnce(u64)) -> bool {
        let (thread, base) = (wait.thread, self.arena.base());
        if !wait.state.is_outermost_summed() || !self.is_settled(thread) {
            return false;
        }
        let cell = thread.banks[BANK_OWN].marked_cell(base, wait.class(), SUMMED);
        let Some(cell) = cell else { return false };
        let ticks = cycles().saturating_sub(wait.start);
        count(ticks);
        base.at::<StatCell>(cell).add_span(
            self,
            thread,
            CellEvents::new(lowest, wait.class()),
            events,
            0,
            ticks,
        );
        true
    }

    /// Ends a wait on the fast path that is only counted. Returns false if nothing has happened.
    #[inline(always)]
    fn end_counted_wait(&self, wait: &Wait, events: u64, count: impl FnOnce()) -> bool {
        if !wait.state.has(WaitState::COUNTED) || !self.is_settled(wait.thread) {
            return false;
        }
        let base = self.arena.base();
        let Some(cell) = wait.thread.banks[BANK_OWN].marked_cell(base, wait.class(), UNTIMED) else {
            return false;
        };
        base.at::<StatCell>(cell).stat.add_untimed(events);
        count();
        true
    }

    /// Begins a leaf with an amount on the fast path, if it nests in no other wait. On `Slow` nothing has
    /// happened.
    #[inline(always)]
    pub(crate) fn start_outer_leaf_wait_fast(
        &self,
        of: &SlotHead,
        operation: u8,
        source: Source,
    ) -> Start<Wait> {
        let Some(thread) = current() else { return Start::Slow };
        let (class, base) = (of.class(), self.arena.base());
        if !self.is_settled(thread) {
            return Start::Slow;
        }
        let entry = thread.banks[BANK_OWN].settled_entry(base, class);
        if entry & READY == 0 {
            cold_path();
            return start_unrecorded(thread, entry, class, true).map_or(Start::Slow, Start::Began);
        }
        if thread.wait_depth.own() != 0 {
            return Start::Slow;
        }
        // A wait of microseconds may begin a little early, so that no register must be kept until later.
        let start = cycles();
        let parent = thread.parent.own();
        let began = begin_leaf::<4>(
            &thread.waits,
            base,
            parent,
            || began(thread, parent).own(),
            || Leaf {
                id: thread.event_id.own(),
                usual: thread.usual_waits.own(),
                class,
                operation,
                source: source.0,
                object: name(of),
            },
            || start,
        );
        let Some((start, record)) = began else { return Start::Slow };
        thread.next_event_id();
        let state = WaitState::timed(class).with(WaitState::SHORT).with(WaitState::LEAF);
        Start::Began(Wait { thread, start, state, cell: place(entry), record })
    }

    /// Ends a leaf that [`Engine::start_outer_leaf_wait_fast`] began, on the fast path. `count` is given its
    /// time in ticks; `None`: it was not timed. Returns false if nothing has happened: call
    /// [`Engine::end_wait`].
    #[inline(always)]
    pub(crate) fn end_outer_leaf_wait_fast(
        &self,
        wait: &Wait,
        lowest: Lowest,
        amount: u64,
        count: impl FnOnce(Option<u64>),
    ) -> bool {
        let base = self.arena.base();
        if !wait.state.has(WaitState::LEAF.with(WaitState::SUMMED_LEAF)) || !self.is_settled(wait.thread) {
            cold_path();
            return self.end_counted_wait(wait, 1, || count(None));
        }
        let ticks = cycles().saturating_sub(wait.start);
        if wait.state.has(WaitState::LEAF) && !end_leaf(base, wait.record, ticks, Some(amount)) {
            return false;
        }
        count(Some(ticks));
        let of = CellEvents::new(lowest, wait.class());
        base.at::<StatCell>(wait.cell).add_span(self, wait.thread, of, 1, 0, ticks);
        true
    }
}
