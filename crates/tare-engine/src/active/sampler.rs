//! One sample: which threads are active, and a record of each.

use std::collections::HashMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Duration;

use super::Scheduler;
use super::blockers::Blockers;
use super::names::{KnownNames, joined};
use super::record::{NO_OPERATION, Record};
use super::waiting::{Doing, Judge, StageWaits, Working};
use crate::clock::{Scale, ticks, wall_us};
use crate::layout::ring::RECORD_TIMED;
use crate::memory::text;
use crate::read::{RunningStatement, RunningTransaction};
use crate::snapshot::{ObjectName, SessionState, WaitClass};
use crate::thread::Thread;
use crate::{DigestHash, Engine};

/// Digest of each thread's statement, by THREAD_ID, with the statement's EVENT_ID and start.
type Digests = HashMap<u64, (u64, Option<u64>, DigestHash)>;

/// What the one thread that samples remembers from one sample to the next.
#[derive(Default)]
pub struct Sampler {
    names: KnownNames,
    stages: StageWaits,
    /// The time of the last sample, by the monotonic clock, in ticks.
    last: Option<u64>,
    /// What background threads were doing at the last sample, by THREAD_ID.
    background: HashMap<u64, Background>,
    /// Digest of each thread's statement at the last sample, by EVENT_ID and start.
    digests: Digests,
    /// The maps of the sample before that one, for their memory.
    spare: (HashMap<u64, Background>, Digests),
}

/// A background thread at a sample.
#[derive(Clone, Copy)]
struct Background {
    cpu: Duration,
    /// Whether it slept. As long as it uses no CPU time, it does so still.
    slept: bool,
}

/// How much later than due a sample is at most on a busy machine, in microseconds. Before one that is later
/// still there was no sampling.
const LATE_US: u64 = 5_000_000;

/// The statement that a thread is in.
struct Statement<'a> {
    running: Option<&'a RunningStatement>,
    digest: Option<DigestHash>,
    transaction: Option<RunningTransaction>,
}

/// What one sample shares.
struct Sample<'a> {
    engine: &'a Engine,
    judge: Judge<'a>,
    names: &'a mut KnownNames,
    before: (&'a HashMap<u64, Background>, &'a Digests),
    background: HashMap<u64, Background>,
    digests: Digests,
    scale: Scale,
    time_us: u64,
    row_us: u64,
}

impl Engine {
    /// Takes a sample: appends a record of every session that is not idle and of every background thread that
    /// is not asleep. A row stands for the time since the sampler's last sample, or for `interval`, if that
    /// is the first or is longer ago because nobody sampled. Returns the number of records.
    pub fn sample_active(
        &self,
        sampler: &mut Sampler,
        scheduler: &mut dyn Scheduler,
        interval: Duration,
    ) -> usize {
        let scale = Scale::of(self);
        let (now, usual) = (ticks(), u64::try_from(interval.as_micros()).unwrap_or(u64::MAX));
        let since = sampler.last.replace(now).map(|last| us(scale, now.saturating_sub(last)));
        let (mut background, mut digests) = std::mem::take(&mut sampler.spare);
        background.clear();
        digests.clear();
        let mut sample = Sample {
            engine: self,
            judge: Judge {
                engine: self,
                scheduler,
                blockers: Blockers::default(),
                stages: &mut sampler.stages,
            },
            names: &mut sampler.names,
            before: (&sampler.background, &sampler.digests),
            background,
            digests,
            scale,
            time_us: wall_us(),
            row_us: since.filter(|since| *since <= usual.saturating_add(LATE_US)).unwrap_or(usual),
        };
        let live = self.slabs().filter(|thread| thread.alive.load(Acquire) == 1);
        let count = live.filter(|thread| sample.take(thread)).count();
        let Sample { background, digests, .. } = sample;
        sampler.spare.0 = std::mem::replace(&mut sampler.background, background);
        sampler.spare.1 = std::mem::replace(&mut sampler.digests, digests);
        self.active.count_sample();
        count
    }
}

impl Sample<'_> {
    /// Appends a record of a thread; returns false if it is not active.
    fn take(&mut self, thread: &'static Thread) -> bool {
        let id = thread.thread_id.load(Relaxed);
        let Some(record) = self.record(id, thread) else { return false };
        // A thread that has ended meanwhile, and another one in its slab, would be mixed up.
        let is_whole = self.engine.still_lives(thread, id);
        if is_whole {
            self.engine.active.append(&record);
        }
        is_whole
    }

    /// Returns the record of what a thread is doing. `None`: its session is idle, or it sleeps in the
    /// background.
    fn record(&mut self, id: u64, thread: &'static Thread) -> Option<Record> {
        let command = thread.command.load(Relaxed).checked_sub(1);
        let is_in_statement = thread.statement_depth.load(Relaxed) != 0;
        let host = self.engine.host.get()?;
        let is_session = thread.processlist_id.load(Relaxed) != 0;
        let works = is_in_statement || is_session && command.is_some_and(|it| host.is_working_command(it));
        // Most connections end here.
        if !works && is_session && command.is_none_or(|it| host.is_idle_command(it)) {
            return None;
        }
        // Most background threads sleep.
        let in_background = if works { None } else { Some(self.background(id, thread)?) };
        // A statement first: it may have ended when it is known what the thread waits for.
        let statements = if works { self.engine.statements_in_progress(thread) } else { Vec::new() };
        let statement = Statement {
            running: statements.last(),
            digest: self.digest(id, thread, &statements),
            transaction: self.engine.transaction_in_progress(thread),
        };
        let working = Working { thread, statements: &statements };
        let doing = in_background.unwrap_or_else(|| self.judge.working(working));
        Some(Record { thread_id: id, ..self.begun(thread, &statement, &doing) })
    }

    /// Returns what a background thread does; `None`: it sleeps.
    fn background(&mut self, id: u64, thread: &'static Thread) -> Option<Doing> {
        let cpu = self.judge.scheduler.cpu_time(thread.os_id.load(Relaxed));
        let before = self.before.0.get(&id).copied();
        let sleeps_still = before.is_some_and(|before| before.slept && cpu == Some(before.cpu));
        let judge = &mut self.judge;
        let doing = (!sleeps_still)
            .then(|| judge.background(thread, [before.map(|before| before.cpu), cpu]))
            .flatten();
        if let Some(cpu) = cpu {
            self.background.insert(id, Background { cpu, slept: doing.is_none() });
        }
        doing
    }

    /// Returns the digest of the innermost statement that has one.
    fn digest(&mut self, id: u64, thread: &Thread, statements: &[RunningStatement]) -> Option<DigestHash> {
        statements.iter().rev().find_map(|statement| {
            let known = self.before.1.get(&id);
            let known = known.filter(|(event, start, _)| (*event, *start) == (statement.id, statement.start));
            let hash = known.map(|(_, _, hash)| *hash);
            let hash = hash.or_else(|| self.engine.digest_in_progress(thread, statement))?;
            self.digests.insert(id, (statement.id, statement.start, hash));
            Some(hash)
        })
    }

    /// Returns a record with all but THREAD_ID: the ages, the texts' places, and what `doing` says of the
    /// wait.
    fn begun(&mut self, thread: &Thread, statement: &Statement<'_>, doing: &Doing) -> Record {
        let Statement { running: statement, digest, transaction: trx } = statement;
        let now = ticks();
        let age = |start: u64| us(self.scale, now.saturating_sub(start));
        let wait = doing.noted.as_ref().filter(|_| doing.wait != 0);
        let timed = wait.filter(|wait| wait.start != 0 && wait.flags & RECORD_TIMED != 0);
        let blocker = doing.blocker.unwrap_or_default();
        let connection = |id: u64| u32::try_from(id).unwrap_or(0);
        let [user, host, db] = self.engine.session_texts(thread);
        let schema = statement.map(|it| it.schema.clone()).filter(|schema| !schema.is_empty()).unwrap_or(db);
        let texts = self.engine.active.texts();
        let object = doing.object.as_ref().map_or_else(Vec::new, object_text);
        Record {
            time_us: self.time_us,
            row_us: self.row_us,
            thread_id: 0,
            processlist_id: connection(thread.processlist_id.load(Relaxed)),
            blocking_processlist_id: connection(blocker.processlist_id),
            event_id: statement.map_or(0, |it| it.id),
            account: self.names.name(texts, &joined([&user, &host])),
            schema: self.names.name(texts, &schema),
            digest: digest.map_or(0, |hash| self.names.name(texts, hash.as_bytes())),
            object: self.names.name(texts, &object),
            thread: thread.class.load(Relaxed),
            stage: doing.stage,
            wait: doing.wait,
            operation: wait.map_or(NO_OPERATION, |wait| wait.operation),
            class: doing.class.unwrap_or(WaitClass::Cpu),
            state: doing.state.unwrap_or(SessionState::OnCpu),
            statement_us: statement.and_then(|it| it.start).map(age),
            wait_us: timed.map(|wait| age(wait.start)),
            trx_us: trx.as_ref().and_then(|trx| trx.start).map(age),
            blocking_thread_id: blocker.thread_id,
            trx_id: trx.as_ref().map_or(0, |trx| trx.trx_id),
        }
    }
}

impl Engine {
    /// Returns user, host and default schema of a thread's session.
    fn session_texts(&self, thread: &Thread) -> [Vec<u8>; 3] {
        let Some(texts) = thread.text(self) else { return Default::default() };
        thread.read_texts(|| {
            [
                text::read(&texts.user, texts.user_len.load(Relaxed) as usize),
                text::read(&texts.host, texts.host_len.load(Relaxed) as usize),
                text::read(&texts.db, texts.db_len.load(Relaxed) as usize),
            ]
        })
    }
}

fn us(scale: Scale, ticks: u64) -> u64 {
    scale.ps(ticks) / 1_000_000
}

fn object_text(ObjectName { object_type, schema, name, index }: &ObjectName) -> Vec<u8> {
    let part = |part: &Option<String>| part.as_ref().map_or_else(Vec::new, |part| part.clone().into_bytes());
    joined([object_type.unwrap_or_default().as_bytes(), &part(schema), &part(name), &part(index)])
}
