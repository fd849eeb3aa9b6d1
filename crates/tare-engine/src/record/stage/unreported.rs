//! Unreported stages. Even a disabled stage is the thread's state, so a host has to report it. But a host
//! that itself knows the stage of a session need not report any while no stage is enabled and none is in
//! progress. Readers then ask the host for the stage.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::Engine;
use crate::clock::ticks;
use crate::count::session::Session;
use crate::layout::cell::{StatCell, SummaryFamily};
use crate::memory::arena::Own;
use crate::record::wait::Source;
use crate::setup::filter::ATTRIBUTED;
use crate::setup::instrument::lock;
use crate::snapshot::{ClassId, Kind};
use crate::thread::choice::UNKNOWN_STAGE as UNKNOWN;
use crate::thread::{BANK_OWN, BANK_UNATTRIBUTED, Thread, ThreadRef, current};

/// The value while the host reports no stages.
const NOW: u64 = u64::MAX;

/// A session whose stage the host is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StagedSession {
    /// A thread's session.
    Named(Session),
    /// The session of a thread for which the host reports none, by the place where the host finds it. See
    /// [`Engine::set_thread_place`].
    At(u64),
}

/// The time since which the host reports stages, in ticks, if there was a time when it did not; 0: it always
/// has.
pub(crate) struct UnreportedStages(AtomicU64);

impl UnreportedStages {
    pub(crate) const fn new() -> UnreportedStages {
        UnreportedStages(AtomicU64::new(0))
    }

    fn is_now(&self) -> bool {
        self.0.load(Acquire) == NOW
    }

    fn ever_was(&self) -> bool {
        self.0.load(Acquire) != 0
    }

    /// Returns whether the end of a stage that began at `start` went unreported, because it began in a call
    /// that was in progress when the host stopped reporting. For a stage without a time this is unknown.
    pub(crate) fn hid_end_of(&self, start: u64) -> bool {
        let since = self.0.load(Acquire);
        since == NOW || start != 0 && start < since
    }
}

impl Engine {
    /// Returns whether the host reports no stages, since [`crate::Host::stop_reporting_stages`] returned
    /// true.
    pub fn are_stages_unreported(&self) -> bool {
        self.unreported.is_now()
    }

    /// Lets the host stop reporting stages, if the stage or thread that has just ended was the last one in a
    /// stage and no stage is enabled.
    #[cold]
    #[inline(never)]
    pub(crate) fn stop_reporting_stages_if_last(&self) {
        let _one_at_a_time = lock(&self.filters);
        self.stop_reporting_stages();
    }

    /// Lets the host stop reporting stages, if none is enabled and none is in progress. Callers hold the lock
    /// of the filters.
    pub(crate) fn stop_reporting_stages(&self) {
        if self.has_demand(Kind::Stage) || self.unreported.is_now() {
            return;
        }
        let Some(host) = self.host.get() else { return };
        let mut live = self.slabs().filter(|thread| thread.alive.load(Acquire) == 1);
        if live.any(Thread::is_in_stage) {
            return;
        }
        let before = self.unreported.0.swap(NOW, Release);
        if !host.stop_reporting_stages() {
            self.unreported.0.store(before, Release);
        }
    }

    /// Notes that the host is about to report stages. Callers hold the lock of the filters.
    pub(crate) fn resume_reporting_stages(&self) {
        if self.unreported.is_now() {
            // Before the first thread there is no unreported stage.
            let since = if self.threads.load(Relaxed) == 0 { 0 } else { ticks().max(1) };
            self.unreported.0.store(since, Release);
        }
    }

    /// Marks the stage of the calling thread as unknown, unless it is in one, when it reads the settings
    /// again: what was reported last may be out of date.
    pub(crate) fn forget_unreported_stage(&self, thread: &Thread) {
        if self.unreported.ever_was() && !thread.is_in_stage() {
            thread.stage_label.store(UNKNOWN, Relaxed);
        }
    }

    /// Returns the stage a thread is in, for readers; 0: none.
    pub(crate) fn stage_of(&self, thread: &Thread) -> ClassId {
        let label = thread.stage_label.load(Relaxed);
        let knows = self.host.get().is_some_and(|host| host.knows_stages());
        let is_unreported = self.unreported.is_now() || label == UNKNOWN || knows;
        if !is_unreported && (!self.unreported.ever_was() || self.is_settled(thread)) {
            return label as ClassId;
        }
        let ask = || self.host.get()?.session_stage(self.staged_session(thread)?);
        match ask() {
            Some(told) => ClassId::try_from(told).unwrap_or(0),
            None if is_unreported => 0,
            None => label as ClassId,
        }
    }

    /// Begins a stage that is skipped. One in progress, of another level, ends; the session knows the new
    /// one.
    pub fn leave_stage(&self) {
        let Some(thread) = current() else { return };
        if thread.is_in_stage() {
            self.end_stage();
        }
        thread.stage_label.store(UNKNOWN, Relaxed);
    }

    /// Returns the stage that the calling thread's session says it is in; `None` if it is in none, or if
    /// nobody knows. The host may make a system call, so only statements that have become slow ask.
    fn own_stage(&self, thread: &Thread) -> Option<ClassId> {
        let class = self.host.get()?.session_stage(self.staged_session(thread)?)?;
        let class = ClassId::try_from(class).ok().filter(|class| *class != 0)?;
        (self.registry.kind(class) == Kind::Stage && self.is_sampled(Kind::Stage, class)).then_some(class)
    }

    /// Records from now on the stage in progress of a statement that was not chosen and has become slow.
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

    /// Splits the stage in progress of a chosen statement that has become slow, before its weight falls to 1.
    /// What it has taken until now counts by the choice; the rest counts once, as in any other statement. See
    /// also
    /// [`Engine::resume_stage`].
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
        if let Some(cell) = self.cell::<StatCell>(thread, bank, class, SummaryFamily::Stages) {
            let taken = now.saturating_sub(start);
            cell.stat.add_time(taken.wrapping_mul(self.weight_of(thread, Kind::Stage, class, start).time));
            thread.stage_start.store(now, Relaxed);
        }
    }

    fn staged_session(&self, thread: &Thread) -> Option<StagedSession> {
        let place = || Some(thread.place.load(Relaxed)).filter(|place| *place != 0);
        self.session_of(thread).map(StagedSession::Named).or_else(|| place().map(StagedSession::At))
    }

    /// Sets the place where the host finds the session that a thread runs, used while none is reported with
    /// [`Engine::begin_session`]. Only the host follows the place.
    pub fn set_thread_place(&self, thread: ThreadRef, place: u64) {
        thread.slab().place.store(place, Relaxed);
    }

    /// Returns the name of the stage a thread is in; `None`: it is in none.
    pub(crate) fn stage_name(&self, thread: &Thread) -> Option<&'static str> {
        let class = self.stage_of(thread);
        (class != 0 && self.registry.kind(class) == Kind::Stage).then(|| self.registry.name(class))
    }
}

impl Thread {
    /// Returns whether a stage is in progress.
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
        // The states that a call leaves which was in progress when the host stopped reporting.
        let begin = || {
            thread.stage_class.store(1, Relaxed);
            thread.stage_start.store(ticks(), Relaxed);
        };
        engine.unreported.0.store(NOW, Relaxed);
        begin();
        engine.end_stage();
        assert!(!thread.is_in_stage() && engine.unreported.hid_end_of(0));
        begin();
        engine.resume_reporting_stages();
        assert!(!engine.are_stages_unreported() && engine.unreported.hid_end_of(thread.stage_start.own()));
        engine.end_stage();
        assert!(!thread.is_in_stage());
        assert!(!engine.unreported.hid_end_of(ticks()) && !engine.unreported.hid_end_of(0));
    }
}
