//! For whom a thread waits. Only what is certain is named: of a lock without a known owner nobody is.

use std::collections::HashMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use super::HostLock;
use crate::instance::{MetadataSlot, Synch};
use crate::layout::wait::WaitEvent;
use crate::memory::pool::{Pool, read_named};
use crate::memory::text;
use crate::read::lock_object;
use crate::snapshot::{Kind, ObjectName};
use crate::thread::Thread;
use crate::{Engine, Host};

/// A thread that another one waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Blocker {
    pub(super) thread_id: u64,
    pub(super) processlist_id: u64,
}

/// A metadata lock that is held or waited for.
struct Lock {
    seen: HostLock,
    /// Where the engine has it, with its generation and status; `None`: the host keeps it.
    slot: Option<(&'static MetadataSlot, u32, u8)>,
}

impl Lock {
    /// Returns whether it is still granted or waited for as it was.
    fn is_still(&self, engine: &Engine, host: &dyn Host) -> bool {
        let Some((slot, generation, status)) = self.slot else { return host.is_lock_still(&self.seen) };
        let held = engine.arena.hold(Pool::MetadataLocks, slot);
        held.is_some() && slot.status.load(Relaxed) == status && slot.head.is_still(generation)
    }
}

/// How often a sample reads all metadata locks at most. Between two threads that it asks about, locks come
/// and go.
const READINGS: u32 = 4;

/// What one sample has to know of all threads to tell who blocks whom. Read when first needed.
#[derive(Default)]
pub(super) struct Blockers {
    locks: Vec<Lock>,
    /// How often `locks` has been read.
    readings: u32,
    /// Each live thread, by THREAD_ID.
    threads: Option<HashMap<u64, Live>>,
}

/// A thread that lived when threads were looked through.
struct Live {
    thread: &'static Thread,
    processlist_id: u64,
    session: u64,
}

impl Blockers {
    /// Returns the owner of the mutex or rwlock that a thread waits for.
    pub(super) fn of_synch(&mut self, engine: &Engine, thread: &Thread, wait: &WaitEvent) -> Option<Blocker> {
        let kind = engine.registry.kind(wait.class);
        let pool = match kind {
            Kind::Mutex => Pool::Mutexes,
            Kind::Rwlock | Kind::Sxlock => Pool::Rwlocks,
            _ => return None,
        };
        let owner = read_named(&engine.arena, pool, wait.object, |synch: &Synch| synch.owner.load(Relaxed))?;
        self.live(engine, thread, engine.demands.owner(kind, owner)?)
    }

    /// Returns the object of the metadata lock that a thread waits for, and who is in its way.
    pub(super) fn of_metadata(
        &mut self,
        engine: &Engine,
        thread: &Thread,
    ) -> Option<(ObjectName, Option<Blocker>)> {
        let host = *engine.host.get()?;
        let own = thread.thread_id.load(Relaxed);
        let at = self.wanted(engine, host, own)?;
        let wanted = &self.locks[at].seen;
        let blocks = |is_granted: bool| {
            let is_in_the_way = |lock: &&Lock| {
                let seen = &lock.seen;
                seen.owner_thread != own
                    && seen.is_granted == is_granted
                    && (seen.namespace, &seen.key) == (wanted.namespace, &wanted.key)
                    && host.is_lock_in_the_way(wanted.namespace, wanted.lock_type, seen.lock_type, is_granted)
                    && lock.is_still(engine, host)
            };
            self.locks.iter().find(is_in_the_way).map(|lock| lock.seen.owner_thread)
        };
        let (object, blocking) = (wanted.object.clone(), blocks(true).or_else(|| blocks(false)));
        Some((object, blocking.and_then(|blocking| self.live(engine, thread, blocking))))
    }

    /// Returns the place in `locks` of the lock that a thread waits for at present.
    fn wanted(&mut self, engine: &Engine, host: &dyn Host, own: u64) -> Option<usize> {
        let is_wanted = |lock: &Lock| {
            lock.seen.owner_thread == own && !lock.seen.is_granted && lock.is_still(engine, host)
        };
        let mut found = self.locks.iter().position(is_wanted);
        if found.is_none() && self.readings < READINGS {
            self.readings += 1;
            self.locks = engine.locks(host);
            found = self.locks.iter().position(is_wanted);
        }
        found
    }

    /// Returns the thread that runs a session at present.
    pub(super) fn of_session(&mut self, engine: &Engine, session: u64) -> Option<Blocker> {
        let (thread_id, live) = self.threads(engine).iter().find(|(_, live)| live.session == session)?;
        // The host may have given the session's place to another one since.
        let runs_it =
            live.thread.session.load(Acquire) == session && engine.still_lives(live.thread, *thread_id);
        runs_it.then_some(Blocker { thread_id: *thread_id, processlist_id: live.processlist_id })
    }

    fn live(&mut self, engine: &Engine, waiting: &Thread, thread_id: u64) -> Option<Blocker> {
        let is_other = thread_id != waiting.thread_id.load(Relaxed);
        let live = self.threads(engine).get(&thread_id).filter(|_| is_other)?;
        Some(Blocker { thread_id, processlist_id: live.processlist_id })
    }

    fn threads(&mut self, engine: &Engine) -> &HashMap<u64, Live> {
        self.threads.get_or_insert_with(|| {
            let facts = |thread: &'static Thread| {
                let thread_id = thread.thread_id.load(Relaxed);
                let processlist_id = thread.processlist_id.load(Relaxed);
                let live = Live { thread, processlist_id, session: thread.session.load(Acquire) };
                // Another one may have got the slab meanwhile.
                engine.still_lives(thread, thread_id).then_some((thread_id, live))
            };
            engine.slabs().filter_map(facts).collect()
        })
    }
}

impl Engine {
    /// Returns all metadata locks that are granted or waited for.
    fn locks(&self, host: &dyn Host) -> Vec<Lock> {
        if let Some(kept) = host.metadata_locks() {
            return kept.into_iter().map(|seen| Lock { seen, slot: None }).collect();
        }
        let mut locks = Vec::new();
        self.pools.each::<MetadataSlot>(&self.arena, Pool::MetadataLocks, |slot| {
            let Some(generation) = slot.head.generation_in_use() else { return };
            let status = slot.status.load(Relaxed);
            let is_granted = match host.lock_status_name(status) {
                Some("GRANTED") => true,
                Some("PENDING") => false,
                _ => return,
            };
            let seen = HostLock {
                owner_thread: slot.owner_thread.load(Relaxed),
                namespace: slot.namespace.load(Relaxed),
                lock_type: slot.lock_type.load(Relaxed),
                is_granted,
                key: text::read(&slot.names, slot.names_len.load(Relaxed).into()),
                object: lock_object(slot, host),
                ..HostLock::default()
            };
            let lock = Lock { seen, slot: Some((slot, generation, status)) };
            if slot.head.is_still(generation) {
                locks.push(lock);
            }
        });
        locks
    }
}
