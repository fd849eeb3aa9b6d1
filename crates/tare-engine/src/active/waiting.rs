//! What a thread waits for, from what its slab, its session and the operating system say.
//!
//! Waits that are noted in the slab come first: they are exact. At levels that note none, and for what no
//! instrument reports, the operating system says whether the thread runs, and the session in which stage it
//! waits.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::blockers::{Blocker, Blockers};
use super::record::WAIT_ROW_LOCK;
use super::{Scheduler, ThreadState};
use crate::Engine;
use crate::layout::wait::WaitEvent;
use crate::read::RunningStatement;
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
    /// Instrument of the stage; 0: none.
    pub(super) stage: ClassId,
}

impl Doing {
    fn running(state: SessionState, stage: ClassId) -> Doing {
        Doing { state: Some(state), class: Some(WaitClass::Cpu), stage, ..Doing::default() }
    }
}

/// A thread that is in the middle of statements. Whatever is read of it may be of the next one, so it is
/// asked afterwards whether it is [still](Self::is_still) in the same.
#[derive(Clone, Copy)]
pub(super) struct Working<'a> {
    pub(super) thread: &'static Thread,
    /// Outermost first.
    pub(super) statements: &'a [RunningStatement],
}

/// What a thread has noted of what it does.
struct Notes {
    /// Outermost first.
    waits: Vec<WaitEvent>,
    stage: ClassId,
}

impl Working<'_> {
    fn is_still(self, engine: &Engine) -> bool {
        engine.is_still_in(self.thread, self.statements)
    }

    /// Returns the waits that the thread has noted in the same statement; `None`: it is in another one.
    fn waits(self, engine: &Engine) -> Option<Vec<WaitEvent>> {
        let waits = engine.waits_in_progress(self.thread);
        self.is_still(engine).then_some(waits)
    }

    /// Adds the stage to waits that were noted in the same statement; `None`: it is in another one.
    fn notes(self, engine: &Engine, waits: Vec<WaitEvent>) -> Option<Notes> {
        // The host may have to ask the operating system for it.
        let notes = Notes { waits, stage: engine.stage_of(self.thread) };
        self.is_still(engine).then_some(notes)
    }

    /// Returns what the thread has noted by now in the same statement; `None`: it is in another one.
    fn notes_now(self, engine: &Engine) -> Option<Notes> {
        self.notes(engine, engine.waits_in_progress(self.thread))
    }
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
    /// Returns what a thread does that is in the middle of a statement. A thread that has got to another
    /// statement meanwhile runs.
    pub(super) fn working(&mut self, working: Working<'_>) -> Doing {
        self.still_working(working).unwrap_or_else(|| Doing::running(SessionState::OnCpu, 0))
    }

    /// Returns what a thread does that is in the middle of a statement; `None`: it is in another one. Most of
    /// what this takes are calls of the operating system.
    fn still_working(&mut self, working: Working<'_>) -> Option<Doing> {
        let waits = working.waits(self.engine)?;
        if let Some(wait) = waited_for(self.engine, &waits) {
            let stage = working.notes(self.engine, waits)?.stage;
            return Some(self.noted(working, wait, stage));
        }
        let class = match self.scheduler.state(working.thread.os_id.load(Relaxed)) {
            Some(ThreadState::Waits(class)) => class,
            state => return self.ready(working, waits, state),
        };
        // It may have begun to wait since.
        let notes = working.notes_now(self.engine)?;
        if let Some(wait) = waited_for(self.engine, &notes.waits) {
            return Some(self.noted(working, wait, notes.stage));
        }
        Some(self.row_lock(working, &notes, true).unwrap_or_else(|| self.unnoted(working, notes, class)))
    }

    /// Returns what a thread does that is ready to run, or whose state is unknown. If it uses CPU time while
    /// its stage is read, it runs.
    fn ready(
        &mut self,
        working: Working<'_>,
        waits: Vec<WaitEvent>,
        state: Option<ThreadState>,
    ) -> Option<Doing> {
        let os_id = working.thread.os_id.load(Relaxed);
        let before = self.scheduler.cpu_time(os_id);
        let notes = working.notes(self.engine, waits)?;
        let runs = before.is_none() || self.scheduler.cpu_time(os_id) != before;
        let state = match state {
            _ if runs => SessionState::OnCpu,
            Some(_) => SessionState::Runnable,
            None => match self.row_lock(working, &notes, false) {
                Some(waits) => return Some(waits),
                None => SessionState::OnCpu,
            },
        };
        Some(Doing { noted: notes.waits.last().cloned(), ..Doing::running(state, notes.stage) })
    }

    /// Returns what a background thread does; `None`: it sleeps. `cpu` is the CPU time it had used at the
    /// last sample.
    pub(super) fn background(
        &mut self,
        thread: &'static Thread,
        [before, cpu]: [Option<Duration>; 2],
    ) -> Option<Doing> {
        let waits = self.engine.waits_in_progress(thread);
        if let Some(wait) = waited_for(self.engine, &waits) {
            let rests = self.engine.registry.kind(wait.class).is_rest();
            let working = Working { thread, statements: &[] };
            return (!rests).then(|| self.noted(working, wait, self.engine.stage_of(thread)));
        }
        if cpu.is_none() || before == cpu {
            return None;
        }
        let os_id = thread.os_id.load(Relaxed);
        let runs = |state| Doing::running(state, self.engine.stage_of(thread));
        if self.scheduler.cpu_time(os_id) != cpu {
            return Some(runs(SessionState::OnCpu));
        }
        match self.scheduler.state(os_id)? {
            ThreadState::Ready => Some(runs(SessionState::Runnable)),
            ThreadState::Waits(Some(WaitClass::File)) => {
                Some(waiting(WaitClass::File, self.engine.stage_of(thread)))
            }
            ThreadState::Waits(_) => None,
        }
    }

    /// Returns what a thread does that is in this wait, and in this stage.
    fn noted(&mut self, working: Working<'_>, wait: WaitEvent, stage: ClassId) -> Doing {
        let kind = self.engine.registry.kind(wait.class);
        let class = WaitClass::of(kind, self.stages.class(self.engine, stage));
        let (object, blocker) = match kind {
            Kind::Metadata => self.metadata_lock(working),
            kind => {
                let object = self.engine.object_name(kind, wait.object, wait.index);
                (Some(object), self.blockers.of_synch(self.engine, working.thread, &wait))
            }
        };
        let object = object.filter(|object| object.object_type.is_some());
        // What the stage calls a lock is one, whatever condition it waits on.
        let (object, blocker) = match class {
            WaitClass::MetadataLock | WaitClass::UserLock if kind == Kind::Cond => {
                self.metadata_lock(working)
            }
            _ => (object, blocker),
        };
        Doing { wait: wait.class, noted: Some(wait), object, blocker, ..waiting(class, stage) }
    }

    /// Returns that a thread waits for a row lock, if it does. `does_wait`: the operating system says that it
    /// waits.
    fn row_lock(&mut self, working: Working<'_>, notes: &Notes, does_wait: bool) -> Option<Doing> {
        let session = self.engine.session_of(working.thread)?;
        let host = self.engine.host.get()?;
        let wait = host.row_lock_wait(session, does_wait)?;
        let blocker = wait.holder.and_then(|holder| self.blockers.of_session(self.engine, holder));
        // While it waits for a holder, that keeps its session. Once it has got the lock, the holder may be
        // another one.
        let blocker = blocker.filter(|_| host.row_lock_wait(session, does_wait) == Some(wait));
        let now = working.waits(self.engine)?;
        let accessed = notes.waits.last().filter(|it| now.last().is_some_and(|now| now.id == it.id));
        let object = accessed
            .map(|it| self.engine.object_name(self.engine.registry.kind(it.class), it.object, it.index));
        let noted = accessed.cloned();
        Some(Doing {
            wait: WAIT_ROW_LOCK,
            noted,
            object,
            blocker,
            ..waiting(WaitClass::RowLock, notes.stage)
        })
    }

    /// Returns what a thread waits for of which nothing is noted. `class` is what the operating system says.
    fn unnoted(&mut self, working: Working<'_>, notes: Notes, class: Option<WaitClass>) -> Doing {
        let Notes { mut waits, stage } = notes;
        let accessed = waits.pop();
        let told = self.stages.class(self.engine, stage);
        let is_table_lock = accessed.as_ref().is_some_and(|it| it.class == fixed::TABLE_LOCK);
        let class =
            told.or(is_table_lock.then_some(WaitClass::TableLock)).or(class).unwrap_or(WaitClass::Other);
        match class {
            WaitClass::MetadataLock | WaitClass::UserLock => {
                let (object, blocker) = self.metadata_lock(working);
                Doing { wait: fixed::METADATA, object, blocker, ..waiting(class, stage) }
            }
            WaitClass::TableLock => {
                Doing { wait: fixed::TABLE_LOCK, noted: accessed, ..waiting(class, stage) }
            }
            _ => waiting(class, stage),
        }
    }

    fn metadata_lock(&mut self, working: Working<'_>) -> (Option<ObjectName>, Option<Blocker>) {
        let found = self.blockers.of_metadata(self.engine, working.thread);
        // It may be that of the next statement.
        let found = found.filter(|_| working.is_still(self.engine));
        found.map_or((None, None), |(object, blocker)| (Some(object), blocker))
    }
}

fn waiting(class: WaitClass, stage: ClassId) -> Doing {
    Doing { state: Some(SessionState::Waiting), class: Some(class), stage, ..Doing::default() }
}

/// Returns the wait in progress that says what a thread waits for.
fn waited_for(engine: &Engine, waits: &[WaitEvent]) -> Option<WaitEvent> {
    snapshot::waited_for(waits, |wait| Some(engine.registry.kind(wait.class))).cloned()
}
