//! HOT PATH: the short way of waits that are no leaves and nest in no other wait: in a straight line, and without a call.

use std::hint::cold_path;
use std::sync::atomic::Ordering::Relaxed;

use super::record::{Ended, MOST_WORDS, OpenWait, first_word, write_wide_at};
use super::{Source, WAIT_LEAF, WAIT_RECORDED, WAIT_SHORT, Wait, last_event_id, start_unrecorded};
use crate::Engine;
use crate::clock::cycles;
use crate::count::bank::READY;
use crate::count::cell::StatCell;
use crate::memory::arena::{Base, Own};
use crate::record::journal::parent_of;
use crate::record::ring::{RECORD_TIMED, WAIT_DEPTH};
use crate::record::{Start, operation};
use crate::setup::instrument::{ENABLED, TIMED, fixed};
use crate::snapshot::ClassId;
use crate::thread::{BANK_OWN, Thread, current};

/// Flags of a wait that say how it began, and which depth it has.
const WAY: u32 = WAIT_SHORT | WAIT_LEAF | (WAIT_DEPTH as u32 - 1) << 8;

/// What a wait brings to its end on the short way.
#[derive(Clone, Copy)]
pub(crate) struct Brought {
    /// It stands for as many events.
    pub(crate) events: u64,
    pub(crate) amount: Option<u64>,
}

/// What a wait is for that begins here.
#[derive(Clone, Copy)]
pub(crate) struct What {
    pub(crate) class: ClassId,
    pub(crate) operation: u8,
    /// Index of the table; 255: none.
    pub(crate) index: u8,
}

impl Engine {
    /// As [`Engine::start_wait`], if all is as usual. `look` finds the object, and whether waits for it are usual, and `note`
    /// notes it. Fast path only; on `Slow` call that one.
    #[inline(always)]
    pub(crate) fn start_wait_fast<T>(
        &self,
        what: What,
        source: Source,
        look: impl Fn() -> (T, bool),
        note: impl FnOnce(&OpenWait, T),
    ) -> Start<Wait> {
        self.start_outer_wait(what, source, look, note, |thread| parent_of(thread.parent.own()))
    }

    /// Begins the wait for the next command, which belongs to none, if all is as usual. Fast path only; on `Slow` call
    /// [`Engine::start_wait`].
    #[inline(always)]
    pub fn start_idle_wait_fast(&self, source: Source) -> Start<Wait> {
        let what = What { class: fixed::IDLE, operation: operation::IDLE, index: 255 };
        self.start_outer_wait(what, source, || ((), true), |open, ()| open.set_object(0, 0), |_| (0, 0))
    }

    /// Each thing is written before the next one is looked at: so few registers are needed.
    #[inline(always)]
    fn start_outer_wait<T>(
        &self,
        what: What,
        source: Source,
        look: impl Fn() -> (T, bool),
        note: impl FnOnce(&OpenWait, T),
        nesting: impl FnOnce(&Thread) -> (u64, u8),
    ) -> Start<Wait> {
        let What { class, operation, index } = what;
        let Some(thread) = current() else { return Start::Slow };
        if !self.is_settled(thread) {
            return Start::Slow;
        }
        let entry = thread.banks[BANK_OWN].settled_entry(self.arena.base(), class);
        if entry & READY == 0 {
            cold_path();
            let wait = if look().1 { start_unrecorded(thread, entry, class, 0) } else { None };
            return wait.map_or(Start::Slow, Start::Began);
        }
        if thread.wait_depth.own() != 0 {
            return Start::Slow;
        }
        let (object, is_usual) = look();
        if !is_usual {
            return Start::Slow;
        }
        let open = &thread.open[0];
        open.set_source(source.0);
        note(open, object);
        let nesting = open.nest(nesting(thread));
        open.set_what(first_word(class, operation, index, RECORD_TIMED | thread.usual_histories()) | nesting);
        thread.wait_depth.store(1, Relaxed);
        let id = thread.next_event_id();
        let start = cycles();
        open.show(id, start);
        let flags = WAIT_SHORT | WAIT_RECORDED | u32::from(ENABLED | TIMED) | u32::from(class) << 16;
        Start::Began(Wait { thread, start, flags, cell: 0, record: 0 })
    }

    /// As [`Engine::end_wait`], of a wait for the next command, if all is as usual. Fast path only; on false call that one.
    #[inline(always)]
    pub fn end_idle_wait_fast(&self, wait: &Wait) -> bool {
        let brought = Brought { events: 1, amount: None };
        self.end_wait_fast(self.arena.base(), fixed::IDLE, wait, brought, |_| ())
    }

    /// As [`Engine::end_wait`], if all is as usual. `count` is told how long it took, in ticks. Fast path only; on false call
    /// that one: nothing has happened.
    #[inline(always)]
    pub(crate) fn end_wait_fast(
        &self,
        base: Base,
        class: ClassId,
        wait: &Wait,
        brought: Brought,
        count: impl FnOnce(u64),
    ) -> bool {
        let thread = wait.thread;
        if wait.flags & WAY != WAIT_SHORT || !self.is_settled(thread) {
            return false;
        }
        // Asked again: an event inside it may have settled for another cell.
        let Some(cell) = thread.banks[BANK_OWN].marked_cell(base, class, wait.marks()) else { return false };
        let cell: &StatCell = base.at(cell);
        let ticks;
        if wait.flags & WAIT_RECORDED != 0 {
            let Some(place) = thread.waits.place(MOST_WORDS) else { return false };
            ticks = cycles().saturating_sub(wait.start);
            count(ticks);
            let end_event_id = last_event_id(thread);
            thread.wait_depth.store(0, Relaxed);
            let open = &thread.open[0];
            let ended = Ended { ticks, amount: brought.amount, end_event_id };
            write_wide_at(&thread.waits, base, place, open, ended);
            open.end();
        } else {
            cold_path();
            ticks = cycles().saturating_sub(wait.start);
            count(ticks);
        }
        cell.add_span(self, thread, brought.events, 0, ticks);
        true
    }
}
