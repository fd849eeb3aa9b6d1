//! Stages that nobody tells of. Even one that nobody wants is the thread's state, so that a host has to tell of it. But a host
//! that knows itself which stage a session is in need not tell while no stage is wanted and none is in progress. Which one it is
//! in is asked then when somebody reads it.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::Engine;
use crate::clock::ticks;
use crate::count::cell::{Family, StatCell};
use crate::count::session::Session;
use crate::memory::arena::Own;
use crate::record::wait::Source;
use crate::setup::instrument::lock;
use crate::snapshot::{ClassId, Kind};
use crate::thread::choice::UNKNOWN_STAGE as UNKNOWN;
use crate::thread::filter::ATTRIBUTED;
use crate::thread::{BANK_OWN, BANK_UNATTRIBUTED, Thread, ThreadRef, current};

/// While the host tells of no stage.
const NOW: u64 = u64::MAX;

/// Whose stage the host is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StagedSession {
    /// A thread's session.
    Named(Session),
    /// That of a thread whose sessions the host does not tell of: where it finds it, see [`Engine::set_thread_place`].
    At(u64),
}

/// Since when the host tells of stages, in ticks, if it once did not; 0: it always has.
pub(crate) struct Untold(AtomicU64);

impl Untold {
    pub(crate) const fn new() -> Untold {
        Untold(AtomicU64::new(0))
    }

    fn is_now(&self) -> bool {
        self.0.load(Acquire) == NOW
    }

    fn ever_was(&self) -> bool {
        self.0.load(Acquire) != 0
    }

    /// Whether nobody heard how a stage ended that began at this moment. (It began in a call that was under way when the host
    /// stopped telling.) Of one without a time nobody knows.
    pub(crate) fn hid_end_of(&self, start: u64) -> bool {
        let since = self.0.load(Acquire);
        since == NOW || start != 0 && start < since
    }
}

impl Engine {
    /// Whether the host tells of no stage: it called for that, by [`crate::Host::leave_stages_untold`].
    pub fn are_stages_untold(&self) -> bool {
        self.untold.is_now()
    }

    /// A stage in progress has ended, or its thread has. If it was the last one, and no other is wanted, the host need not tell
    /// of any.
    #[cold]
    #[inline(never)]
    pub(crate) fn leave_stages_if_last(&self) {
        let _one_at_a_time = lock(&self.filters);
        self.leave_stages_untold();
    }

    /// The host need tell of no stage any more, if none is wanted and none is in progress. Under the lock of the filters.
    pub(crate) fn leave_stages_untold(&self) {
        if self.wants(Kind::Stage) || self.untold.is_now() {
            return;
        }
        let Some(host) = self.host.get() else { return };
        let mut live = self.slabs().filter(|thread| thread.alive.load(Acquire) == 1);
        if live.any(Thread::is_in_stage) {
            return;
        }
        let before = self.untold.0.swap(NOW, Release);
        if !host.leave_stages_untold() {
            self.untold.0.store(before, Release);
        }
    }

    /// The host is about to tell of stages. Under the lock of the filters.
    pub(crate) fn tell_stages(&self) {
        if self.untold.is_now() {
            // Where no thread is yet, none has a stage that nobody told of.
            let since = if self.threads.load(Relaxed) == 0 { 0 } else { ticks().max(1) };
            self.untold.0.store(since, Release);
        }
    }

    /// The calling thread looks anew: what it was told last is no state of now, if it was in no stage.
    pub(crate) fn forget_untold_stage(&self, thread: &Thread) {
        if self.untold.ever_was() && !thread.is_in_stage() {
            thread.stage_label.store(UNKNOWN, Relaxed);
        }
    }

    /// The stage a thread is in, for readers; 0: in none.
    pub(crate) fn stage_of(&self, thread: &Thread) -> ClassId {
        let label = thread.stage_label.load(Relaxed);
        let is_untold = self.untold.is_now() || label == UNKNOWN;
        if !is_untold && (!self.untold.ever_was() || self.is_settled(thread)) {
            return label as ClassId;
        }
        let ask = || self.host.get()?.session_stage(self.staged_session(thread)?);
        match ask() {
            Some(told) => ClassId::try_from(told).unwrap_or(0),
            None if is_untold => 0,
            None => label as ClassId,
        }
    }

    /// A stage begins that is skipped. One in progress, of another level, ends, and which one it is in the session says.
    pub fn leave_stage(&self) {
        let Some(thread) = current() else { return };
        if thread.is_in_stage() {
            self.end_stage();
        }
        thread.stage_label.store(UNKNOWN, Relaxed);
    }

    /// The stage the calling thread's session says it is in; `None`: in none, or nobody knows. The host may make a system call: for
    /// statements that have become slow.
    fn own_stage(&self, thread: &Thread) -> Option<ClassId> {
        let class = self.host.get()?.session_stage(self.staged_session(thread)?)?;
        let class = ClassId::try_from(class).ok().filter(|class| *class != 0)?;
        (self.registry.kind(class) == Kind::Stage && self.is_sampled(Kind::Stage, class)).then_some(class)
    }

    /// The stage in progress, of a statement that was not chosen and has become slow, is recorded from now on.
    #[cold]
    #[inline(never)]
    pub(crate) fn resume_stage(&self, thread: &Thread) {
        if thread.is_in_stage() || thread.stage_label.own() != UNKNOWN {
            return;
        }
        if let Some(class) = self.own_stage(thread) {
            self.start_stage(class, Source(0));
        }
    }

    /// As [`Engine::resume_stage`], of a chosen statement, before its weight falls to 1: what the stage has taken until now counts by
    /// the choice, and the rest of it once. So does the stage: it would be resumed in any other statement.
    #[cold]
    #[inline(never)]
    pub(crate) fn split_stage(&self, thread: &'static Thread, now: u64) {
        let start = thread.stage_start.own();
        let of_short_way = thread.stage_cell.own() != 0;
        let class = if of_short_way { thread.stage_label.own() } else { thread.stage_class.own() } as ClassId;
        if class == 0 || start == 0 || self.own_stage(thread) != Some(class) {
            return;
        }
        let bank = if thread.mask() & ATTRIBUTED != 0 { BANK_OWN } else { BANK_UNATTRIBUTED };
        if let Some(cell) = self.cell::<StatCell>(thread, bank, class, Family::Stages) {
            let taken = now.saturating_sub(start);
            cell.stat.add_time(taken.wrapping_mul(self.weight_of(thread, Kind::Stage, class, start).time));
            thread.stage_start.store(now, Relaxed);
        }
    }

    fn staged_session(&self, thread: &Thread) -> Option<StagedSession> {
        let place = || Some(thread.place.load(Relaxed)).filter(|place| *place != 0);
        self.session_of(thread).map(StagedSession::Named).or_else(|| place().map(StagedSession::At))
    }

    /// Where the host finds which session the thread runs that began here, as long as it is not told of one
    /// ([`Engine::begin_session`]). The place is the host's: only the host follows it.
    pub fn set_thread_place(&self, thread: ThreadRef, place: u64) {
        thread.slab().place.store(place, Relaxed);
    }

    /// What [`Engine::stage_of`] is called; `None`: it is in none.
    pub(crate) fn stage_name(&self, thread: &Thread) -> Option<&'static str> {
        let class = self.stage_of(thread);
        (class != 0 && self.registry.kind(class) == Kind::Stage).then(|| self.registry.name(class))
    }
}

impl Thread {
    /// Whether a stage is in progress.
    pub(crate) fn is_in_stage(&self) -> bool {
        self.stage_cell.own() | self.stage_class.own() != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_whose_end_nobody_heard_is_none() {
        let engine = Engine::small();
        let thread = engine.new_thread(0, None, None).expect("memory");
        engine.set_current_thread(Some(thread));
        engine.consumers.store(u32::MAX, Relaxed);
        assert!(engine.set_thread(thread.thread_id(), Some(true), None));
        let thread = thread.slab();
        // Each as a call leaves it that was under way when the host stopped telling.
        let begin = || {
            thread.stage_class.store(1, Relaxed);
            thread.stage_start.store(ticks(), Relaxed);
        };
        engine.untold.0.store(NOW, Relaxed);
        begin();
        engine.end_stage();
        assert!(!thread.is_in_stage() && engine.untold.hid_end_of(0));
        begin();
        engine.tell_stages();
        assert!(!engine.are_stages_untold() && engine.untold.hid_end_of(thread.stage_start.own()));
        engine.end_stage();
        assert!(!thread.is_in_stage());
        assert!(!engine.untold.hid_end_of(ticks()) && !engine.untold.hid_end_of(0));
    }
}
