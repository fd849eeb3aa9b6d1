//! For whom a thread waits. Only what is certain is named: of a lock without a known owner nobody is.

use std::collections::HashMap;
use std::sync::atomic::{
    Ordering::{Acquire, Relaxed},
    fence,
};

use crate::instance::{MetadataSlot, Synch};
use crate::layout::wait::WaitEvent;
use crate::memory::pool::{Pool, resolve};
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
    thread_id: u64,
    namespace: u8,
    kind: u8,
    is_granted: bool,
    names: Vec<u8>,
    object: ObjectName,
}

/// What one sample has to know of all threads to tell who blocks whom. Read when first needed.
#[derive(Default)]
pub(super) struct Blockers {
    locks: Option<Vec<Lock>>,
    /// PROCESSLIST_ID of each live thread, and its session.
    threads: Option<HashMap<u64, (u64, u64)>>,
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
        let owner = {
            let (_held, synch) = resolve::<Synch>(&engine.arena, pool, wait.object)?;
            synch.owner.load(Relaxed)
        };
        fence(Acquire);
        // If the slot has been reused, this was the owner of another lock.
        resolve::<Synch>(&engine.arena, pool, wait.object)?;
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
        let locks = self.locks.get_or_insert_with(|| engine.locks(host));
        let wanted = locks.iter().find(|lock| lock.thread_id == own && !lock.is_granted)?;
        let blocks = |is_granted: bool| {
            let is_in_the_way = |lock: &&Lock| {
                lock.thread_id != own
                    && lock.is_granted == is_granted
                    && (lock.namespace, &lock.names) == (wanted.namespace, &wanted.names)
                    && host.is_lock_in_the_way(wanted.namespace, wanted.kind, lock.kind, is_granted)
            };
            locks.iter().find(is_in_the_way).map(|lock| lock.thread_id)
        };
        let (object, blocking) = (wanted.object.clone(), blocks(true).or_else(|| blocks(false)));
        Some((object, blocking.and_then(|blocking| self.live(engine, thread, blocking))))
    }

    /// Returns the thread that runs a session.
    pub(super) fn of_session(&mut self, engine: &Engine, session: u64) -> Option<Blocker> {
        let mut threads = self.threads(engine).iter();
        let (thread_id, (processlist_id, _)) = threads.find(|(_, (_, its))| *its == session)?;
        Some(Blocker { thread_id: *thread_id, processlist_id: *processlist_id })
    }

    fn live(&mut self, engine: &Engine, waiting: &Thread, thread_id: u64) -> Option<Blocker> {
        let is_other = thread_id != waiting.thread_id.load(Relaxed);
        let (processlist_id, _) = self.threads(engine).get(&thread_id).filter(|_| is_other)?;
        Some(Blocker { thread_id, processlist_id: *processlist_id })
    }

    fn threads(&mut self, engine: &Engine) -> &HashMap<u64, (u64, u64)> {
        self.threads.get_or_insert_with(|| {
            let live = engine.slabs().filter(|thread| thread.alive.load(Acquire) == 1);
            let facts = |thread: &'static Thread| {
                let facts = (thread.processlist_id.load(Relaxed), thread.session.load(Acquire));
                (thread.thread_id.load(Relaxed), facts)
            };
            live.map(facts).collect()
        })
    }
}

impl Engine {
    /// Returns all metadata locks that are granted or waited for.
    fn locks(&self, host: &dyn Host) -> Vec<Lock> {
        let mut locks = Vec::new();
        self.pools.each::<MetadataSlot>(&self.arena, Pool::MetadataLocks, |slot| {
            let generation = slot.head.generation();
            let is_granted = match host.lock_status_name(slot.status.load(Relaxed)) {
                Some("GRANTED") => true,
                Some("PENDING") => false,
                _ => return,
            };
            let lock = Lock {
                thread_id: slot.owner_thread.load(Relaxed),
                namespace: slot.namespace.load(Relaxed),
                kind: slot.lock_type.load(Relaxed),
                is_granted,
                names: text::read(&slot.names, slot.names_len.load(Relaxed).into()),
                object: lock_object(slot, host),
            };
            if slot.head.is_still(generation) {
                locks.push(lock);
            }
        });
        locks
    }
}
