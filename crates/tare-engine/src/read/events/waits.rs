//! `events_waits_*`.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Relaxed;

use super::stream::{Open, Streamed};
use super::{CopiedBlock, EventFacts, PlacedEvent, Sources, nesting_of, timer};
use crate::Engine;
use crate::instance::{File, MetadataSlot, ShareSlot, SocketSlot, Synch};
use crate::layout::ring::RECORD_TIMED;
use crate::layout::wait::{OpenWait, WaitEvent, decode};
use crate::memory::arena::ArenaView;
use crate::memory::pool::{self, Pool};
use crate::memory::text;
use crate::read::Scale;
use crate::read::objects::lock_names;
use crate::record::operation;
use crate::setup::instrument::fixed;
use crate::snapshot::*;
use crate::thread::Thread;
use crate::thread::choice::Tallied;

impl EventFacts for WaitEvent {
    const TYPE: EventType = EventType::Wait;
    fn id(&self) -> u64 {
        self.id
    }
    fn end(&self) -> u64 {
        self.end
    }
    fn end_event_id(&self) -> u64 {
        self.end_event_id
    }
    fn flags(&self) -> u8 {
        self.flags
    }
    fn decode(blocks: &[CopiedBlock]) -> Vec<(usize, Self)> {
        let mut events = Vec::new();
        for (at, block) in blocks.iter().enumerate() {
            decode(&block.words, |wait| events.push((at, wait)));
        }
        events
    }
}

impl Streamed for WaitEvent {
    const TYPE: EventType = EventType::Wait;
    type Event<'w> = WaitEvent;
    type ThreadProgress = ();
    fn ended(event: &WaitEvent) -> Option<u64> {
        (event.flags & RECORD_TIMED != 0).then_some(event.end)
    }
    fn read<'w>(
        open: &mut Open<()>,
        first: u64,
        words: &'w [u64],
        mut each: impl FnMut(u64, Option<Self::Event<'w>>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let (mut next, mut flow) = (first, ControlFlow::Continue(()));
        decode(words, |wait| {
            let number = next;
            next += 1;
            // A wait in progress is its thread's last record, or was abandoned.
            if let Some(left) = open.number.take()
                && flow.is_continue()
            {
                flow = each(left, None);
            }
            if wait.end == 0 {
                open.number = Some(number);
            } else if flow.is_continue() {
                flow = each(number, Some(wait));
            }
        });
        flow
    }
}

/// Reduces a thread's waits in progress to the newest one and those it is nested in. The others ended during
/// the copy.
fn stack(mut running: Vec<WaitEvent>) -> Vec<WaitEvent> {
    running.sort_by_key(|wait| std::cmp::Reverse(wait.id));
    let mut wanted = running.first().map(|wait| wait.id);
    running.retain(|wait| {
        let is_wanted = wanted == Some(wait.id);
        if is_wanted {
            let (id, of) = wait.nesting;
            wanted = (of == EventType::Wait as u8).then_some(id);
        }
        is_wanted
    });
    running
}

impl Engine {
    /// Returns the rows of `events_waits_*`.
    pub fn waits(&self, asked: impl Into<ReadRequest<Scope>>) -> Vec<WaitRow> {
        let asked = asked.into();
        let scale = Scale::of(self);
        let waits = match asked.what {
            Scope::Current => self.current_waits(asked),
            _ => self.ended(asked),
        };
        let sources = Sources::of(self, asked.parts);
        waits.iter().map(|seen| self.wait_row(seen, scale, &sources)).collect()
    }

    /// Returns the waits in progress of each live thread, or the last ended one if there are none.
    fn current_waits(&self, asked: ReadRequest<Scope>) -> Vec<PlacedEvent<WaitEvent>> {
        let shown = self.shown(EventType::Wait, asked);
        let mut last: HashMap<u64, PlacedEvent<WaitEvent>> = HashMap::new();
        // Read waits in progress first: what ends meanwhile is written by then, or is read as it was.
        let known = |(id, thread): (&u64, &&'static Thread)| {
            let mut waits: Vec<WaitEvent> = thread.open.iter().filter_map(OpenWait::read).collect();
            if waits.is_empty() {
                waits.extend(self.tallied_wait(thread));
            }
            // A slab that belongs to another thread by now shows that thread's waits.
            self.still_lives(thread, *id).then_some((*id, waits))
        };
        let mut running: HashMap<u64, Vec<WaitEvent>> = shown.live.iter().filter_map(known).collect();
        for seen in self.records::<WaitEvent>(asked.thread) {
            if !seen.has_ended() {
                // A leaf in progress is its thread's last record, or was abandoned.
                running.entry(seen.thread_id).and_modify(|waits| waits.push(seen.event));
                continue;
            }
            let newer = |known: &PlacedEvent<WaitEvent>| known.ending() < seen.ending();
            if last.get(&seen.thread_id).is_none_or(newer) {
                last.insert(seen.thread_id, seen);
            }
        }
        let mut rows = Vec::new();
        for (thread_id, running) in running {
            if running.is_empty() {
                rows.extend(last.remove(&thread_id).filter(|seen| shown.shows(seen)));
                continue;
            }
            let seen = |event| PlacedEvent { thread_id, moment: 0, opened: 0, event };
            rows.extend(stack(running).into_iter().map(seen).filter(|seen| shown.shows_running(seen)));
        }
        rows.sort_by_key(|seen| (seen.thread_id, seen.event.id));
        rows
    }

    /// Returns the table I/O in progress of a thread whose statement was not chosen. It has no times, and the
    /// id that the thread's next event gets.
    pub(super) fn tallied_wait(&self, thread: &Thread) -> Option<WaitEvent> {
        let tallied = Tallied::of(thread.tallied.load(Relaxed))?;
        let depth = (thread.statement_depth.load(Relaxed) as usize).checked_sub(1)?;
        Some(WaitEvent {
            id: thread.event_id.load(Relaxed),
            nesting: (self.statement_event_id(thread, depth), EventType::Statement as u8),
            class: fixed::TABLE_IO,
            operation: tallied.operation,
            object: tallied.table,
            index: tallied.index,
            ..WaitEvent::default()
        })
    }

    pub(super) fn wait_row(
        &self,
        seen: &PlacedEvent<WaitEvent>,
        scale: Scale,
        sources: &Sources<'_>,
    ) -> WaitRow {
        let wait = &seen.event;
        let kind = self.registry.kind(wait.class);
        let amount = match kind {
            // The amount of a socket operation is known when it ends.
            Kind::Socket if wait.end == 0 => None,
            Kind::File | Kind::Socket | Kind::TableIo if operation::moves(wait.operation) => {
                wait.amount.map(u64::cast_signed)
            }
            _ => None,
        };
        WaitRow {
            head: EventHead {
                thread_id: seen.thread_id,
                event_id: wait.id,
                end_event_id: (wait.end != 0).then_some(wait.end_event_id),
                name: self.registry.name(wait.class),
                source: sources.name(wait.source),
                timer: timer(scale, wait.start, wait.end, wait.flags),
                nesting: nesting_of(wait.nesting.0, wait.nesting.1),
            },
            object: self.object_name(kind, wait.object, wait.index),
            object_instance_begin: wait.address.unwrap_or_else(|| self.object_address(kind, wait.object)),
            operation: operation::name(wait.operation),
            number_of_bytes: amount,
            flags: None,
        }
    }

    /// Returns OBJECT_INSTANCE_BEGIN for a wait's weak name; 0: unknown.
    fn object_address(&self, kind: Kind, name: u32) -> u64 {
        let synch =
            |pool| pool::read_named(&self.arena, pool, name, |synch: &Synch| synch.identity.load(Relaxed));
        let address = match kind {
            Kind::Mutex => synch(Pool::Mutexes),
            Kind::Cond => synch(Pool::Conds),
            Kind::Rwlock | Kind::Sxlock => synch(Pool::Rwlocks),
            Kind::Socket => pool::read_named(&self.arena, Pool::Sockets, name, |socket: &SocketSlot| {
                socket.identity.load(Relaxed)
            }),
            _ => None,
        };
        address.unwrap_or(0)
    }
    /// Returns the object of a wait's weak name; empty if the name is no longer valid.
    pub(crate) fn object_name(&self, kind: Kind, name: u32, index: u8) -> ObjectName {
        match kind {
            Kind::File => self.named(Pool::Files, name, |file: &File| ObjectName {
                object_type: Some("FILE"),
                name: (0..64).find_map(|_| file.name()),
                ..ObjectName::default()
            }),
            Kind::Socket => self.named(Pool::Sockets, name, |socket: &SocketSlot| {
                let ip = text::read_string(&socket.ip, socket.ip_len.load(Relaxed) as usize);
                ObjectName {
                    object_type: Some("SOCKET"),
                    name: Some(format!("{ip}:{}", socket.port.load(Relaxed))),
                    ..ObjectName::default()
                }
            }),
            Kind::TableIo | Kind::TableLock => {
                self.named(Pool::Tables, name, |share| self.table_name(share, index))
            }
            Kind::Metadata => self.named(Pool::MetadataLocks, name, |lock| self.lock_name(lock)),
            _ => ObjectName::default(),
        }
    }

    /// Returns what `read` makes of the slot with this weak name; empty if the name is not valid before and
    /// after.
    fn named<T: ArenaView>(&self, pool: Pool, name: u32, read: impl FnOnce(&T) -> ObjectName) -> ObjectName {
        pool::read_named(&self.arena, pool, name, |slot: &T| read(slot)).unwrap_or_default()
    }

    fn lock_name(&self, lock: &MetadataSlot) -> ObjectName {
        let namespace = lock.namespace.load(Relaxed);
        let object_type = self.host.get().and_then(|host| host.lock_namespace_name(namespace));
        let [schema, name] = lock_names(lock);
        ObjectName { object_type, schema, name, index: None }
    }

    fn table_name(&self, share: &ShareSlot, index: u8) -> ObjectName {
        let temporary = share.temporary.load(Relaxed) != 0;
        // The indexes of a dropped table are gone; its name stays known for a while.
        let is_key = index != 255 && index < share.keys.load(Relaxed);
        ObjectName {
            object_type: Some(if temporary { "TEMPORARY TABLE" } else { "TABLE" }),
            schema: Some(text::read_string(&share.schema, share.schema_len.load(Relaxed) as usize)),
            name: Some(text::read_string(&share.name, share.name_len.load(Relaxed) as usize)),
            index: if is_key { self.key_name(share, index as usize) } else { None },
        }
    }
}
