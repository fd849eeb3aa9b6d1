//! What a thread waits for, from what its slab, its session and the operating system say.
//!
//! Waits that are noted in the slab come first: they are exact. At levels that note none, and for what no instrument
//! reports, the operating system says whether the thread runs, and the session in which stage it waits.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::blockers::{Blocker, Blockers};
use super::record::WAIT_ROW_LOCK;
use super::{Scheduler, ThreadState};
use crate::Engine;
use crate::layout::wait::WaitEvent;
use crate::setup::instrument::fixed;
use crate::snapshot::{self, ClassId, Kind, ObjectName, SessionState, WaitClass};
use crate::thread::Thread;

/// What a thread does.
#[derive(Default)]
pub(super) struct Doing {
    pub(super) state: Option<SessionState>,
    pub(super) class: Option<WaitClass>,
    /// Instrument of the wait; 0: none.
    pub(super) wait: ClassId,
    /// The noted wait, or the table access that the thread is in.
    pub(super) noted: Option<WaitEvent>,
    pub(super) object: Option<ObjectName>,
    pub(super) blocker: Option<Blocker>,
}

/// What the stages of the host say of the thread's wait, by instrument.
#[derive(Default)]
pub(super) struct StageWaits(HashMap<ClassId, Option<WaitClass>>);

impl StageWaits {
    /// Returns what a thread in this stage waits for; `None`: the stage does not say.
    pub(super) fn class(&mut self, engine: &Engine, stage: ClassId) -> Option<WaitClass> {
        let ask = || engine.host.get()?.stage_wait(engine.registry.name(stage));
        if stage == 0 { None } else { *self.0.entry(stage).or_insert_with(ask) }
    }
}

/// The sources by which the threads of one sample are judged.
pub(super) struct Judge<'a> {
    pub(super) engine: &'a Engine,
    pub(super) scheduler: &'a mut dyn Scheduler,
    pub(super) blockers: Blockers,
    pub(super) stages: &'a mut StageWaits,
}

impl Judge<'_> {
    /// Returns what a thread does that is in the middle of a statement. `cpu` is the CPU time it had used a moment ago.
    pub(super) fn working(&mut self, thread: &'static Thread, cpu: Option<Duration>) -> Doing {
        let waits = self.engine.waits_in_progress(thread);
        if let Some(wait) = waited_for(self.engine, &waits) {
            return self.noted(thread, wait);
        }
        let accessed = waits.last().cloned();
        let os_id = thread.os_id.load(Relaxed);
        let runs = |state| Doing {
            state: Some(state),
            class: Some(WaitClass::Cpu),
            noted: accessed.clone(),
            ..Doing::default()
        };
        if cpu.is_none() || self.scheduler.cpu_time(os_id) != cpu {
            return runs(SessionState::OnCpu);
        }
        if let Some(waits) = self.row_lock(thread, &accessed, false) {
            return waits;
        }
        let class = match self.scheduler.state(os_id) {
            Some(ThreadState::Waits(class)) => class,
            Some(ThreadState::Ready) => return runs(SessionState::Runnable),
            None => return runs(SessionState::OnCpu),
        };
        // It may have begun to wait since.
        let waits = self.engine.waits_in_progress(thread);
        if let Some(wait) = waited_for(self.engine, &waits) {
            return self.noted(thread, wait);
        }
        let accessed = waits.last().cloned();
        self.row_lock(thread, &accessed, true).unwrap_or_else(|| self.unnoted(thread, accessed, class))
    }

    /// Returns what a background thread does; `None`: it sleeps. `cpu` is the CPU time it had used at the last sample.
    pub(super) fn background(
        &mut self,
        thread: &'static Thread,
        [before, cpu]: [Option<Duration>; 2],
    ) -> Option<Doing> {
        let waits = self.engine.waits_in_progress(thread);
        if let Some(wait) = waited_for(self.engine, &waits) {
            let rests = self.engine.registry.kind(wait.class).is_rest();
            return (!rests).then(|| self.noted(thread, wait));
        }
        if cpu.is_none() || before == cpu {
            return None;
        }
        let os_id = thread.os_id.load(Relaxed);
        let runs = |state| Doing { state: Some(state), class: Some(WaitClass::Cpu), ..Doing::default() };
        if self.scheduler.cpu_time(os_id) != cpu {
            return Some(runs(SessionState::OnCpu));
        }
        match self.scheduler.state(os_id)? {
            ThreadState::Ready => Some(runs(SessionState::Runnable)),
            ThreadState::Waits(Some(WaitClass::File)) => Some(waiting(WaitClass::File)),
            ThreadState::Waits(_) => None,
        }
    }

    /// Returns what a thread does that is in this wait.
    fn noted(&mut self, thread: &Thread, wait: WaitEvent) -> Doing {
        let kind = self.engine.registry.kind(wait.class);
        let class = WaitClass::of(kind, self.stages.class(self.engine, self.engine.stage_of(thread)));
        let (object, blocker) = match kind {
            Kind::Metadata => self.metadata_lock(thread),
            kind => {
                let object = self.engine.object_name(kind, wait.object, wait.index);
                (Some(object), self.blockers.of_synch(self.engine, thread, &wait))
            }
        };
        let object = object.filter(|object| object.object_type.is_some());
        // What the stage calls a lock is one, whatever condition it waits on.
        let (object, blocker) = match class {
            WaitClass::MetadataLock | WaitClass::UserLock if kind == Kind::Cond => self.metadata_lock(thread),
            _ => (object, blocker),
        };
        Doing { wait: wait.class, noted: Some(wait), object, blocker, ..waiting(class) }
    }

    /// Returns that a thread waits for a row lock, if it does. `does_wait`: the operating system says that it waits.
    fn row_lock(&mut self, thread: &Thread, accessed: &Option<WaitEvent>, does_wait: bool) -> Option<Doing> {
        let session = self.engine.session_of(thread)?;
        let wait = self.engine.host.get()?.row_lock_wait(session, does_wait)?;
        let blocker = wait.holder.and_then(|holder| self.blockers.of_session(self.engine, holder));
        let object = accessed
            .as_ref()
            .map(|it| self.engine.object_name(self.engine.registry.kind(it.class), it.object, it.index));
        let noted = accessed.clone();
        Some(Doing { wait: WAIT_ROW_LOCK, noted, object, blocker, ..waiting(WaitClass::RowLock) })
    }

    /// Returns what a thread waits for of which nothing is noted. `class` is what the operating system says.
    fn unnoted(&mut self, thread: &Thread, accessed: Option<WaitEvent>, class: Option<WaitClass>) -> Doing {
        let told = self.stages.class(self.engine, self.engine.stage_of(thread));
        let is_table_lock = accessed.as_ref().is_some_and(|it| it.class == fixed::TABLE_LOCK);
        let class =
            told.or(is_table_lock.then_some(WaitClass::TableLock)).or(class).unwrap_or(WaitClass::Other);
        match class {
            WaitClass::MetadataLock | WaitClass::UserLock => {
                let (object, blocker) = self.metadata_lock(thread);
                Doing { wait: fixed::METADATA, object, blocker, ..waiting(class) }
            }
            WaitClass::TableLock => Doing { wait: fixed::TABLE_LOCK, noted: accessed, ..waiting(class) },
            _ => waiting(class),
        }
    }

    fn metadata_lock(&mut self, thread: &Thread) -> (Option<ObjectName>, Option<Blocker>) {
        let found = self.blockers.of_metadata(self.engine, thread);
        found.map_or((None, None), |(object, blocker)| (Some(object), blocker))
    }
}

fn waiting(class: WaitClass) -> Doing {
    Doing { state: Some(SessionState::Waiting), class: Some(class), ..Doing::default() }
}

/// Returns the wait in progress that says what a thread waits for.
fn waited_for(engine: &Engine, waits: &[WaitEvent]) -> Option<WaitEvent> {
    snapshot::waited_for(waits, |wait| Some(engine.registry.kind(wait.class))).cloned()
}
