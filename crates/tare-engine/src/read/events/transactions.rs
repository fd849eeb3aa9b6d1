//! `events_transactions_*`.

use std::ops::ControlFlow;

use tare_sync::journal;

use super::stream::{Open, Streamed};
use super::{CopiedBlock, EventFacts, PlacedEvent, Sources, nesting_of, timer};
use crate::Engine;
use crate::layout::ring::RECORD_TIMED;
use crate::layout::transaction::{OPEN_WORDS, TransactionEvent, XidParts, decode, read_open};
use crate::read::Scale;
use crate::setup::instrument::fixed;
use crate::snapshot::*;
use crate::thread::Thread;

/// A transaction and the parts of its XA identifier.
pub(super) struct RecordedTransaction {
    event: TransactionEvent,
    xid: [Vec<u8>; 2],
}

impl RecordedTransaction {
    fn new((event, xid): (TransactionEvent, XidParts<'_>)) -> RecordedTransaction {
        RecordedTransaction { event, xid: xid.map(|part| part.bytes().to_vec()) }
    }
}

impl EventFacts for RecordedTransaction {
    const TYPE: EventType = EventType::Transaction;
    fn id(&self) -> u64 {
        self.event.id
    }
    fn end(&self) -> u64 {
        self.event.end
    }
    fn end_event_id(&self) -> u64 {
        self.event.end_event_id
    }
    fn flags(&self) -> u8 {
        self.event.flags
    }
    fn decode(blocks: &[CopiedBlock]) -> Vec<(usize, Self)> {
        let mut events = Vec::new();
        for (at, block) in blocks.iter().enumerate() {
            decode(&block.words, |event, xid| events.push((at, RecordedTransaction::new((event, xid)))));
        }
        events
    }
}

impl Streamed for RecordedTransaction {
    const TYPE: EventType = EventType::Transaction;
    type Event<'w> = RecordedTransaction;
    type ThreadProgress = ();
    fn ended(event: &RecordedTransaction) -> Option<u64> {
        (event.event.flags & RECORD_TIMED != 0).then_some(event.event.end)
    }
    fn read<'w>(
        _: &mut Open<()>,
        first: u64,
        words: &'w [u64],
        mut each: impl FnMut(u64, Option<Self::Event<'w>>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let (mut next, mut flow) = (first, ControlFlow::Continue(()));
        decode(words, |event, xid| {
            if flow.is_continue() {
                flow = each(next, Some(RecordedTransaction::new((event, xid))));
                next += 1;
            }
        });
        flow
    }
}

impl Engine {
    /// Returns the rows of `events_transactions_*`.
    pub fn transactions(&self, asked: impl Into<ReadRequest<Scope>>) -> Vec<TransactionRow> {
        let asked = asked.into();
        let scale = Scale::of(self);
        let records = match asked.what {
            Scope::Current => self.current_transactions(asked),
            _ => self.ended(asked),
        };
        let sources = Sources::of(self, asked.parts);
        records.iter().map(|seen| self.transaction_row(seen, scale, &sources)).collect()
    }

    fn current_transactions(&self, asked: ReadRequest<Scope>) -> Vec<PlacedEvent<RecordedTransaction>> {
        let shown = self.shown(EventType::Transaction, asked);
        let copy = |found| {
            let seen = self.copy_transaction(found)?;
            let is_shown = if seen.has_ended() { shown.shows(&seen) } else { shown.shows_running(&seen) };
            (seen.event.id() != 0 && is_shown).then_some(seen)
        };
        self.live_threads_of(asked.thread).into_iter().filter_map(copy).collect()
    }

    /// Returns the transaction that a thread is in, or was in last.
    pub(super) fn transaction_of(&self, thread: &Thread) -> Option<TransactionEvent> {
        self.copy_transaction(thread.found()).map(|seen| seen.event.event)
    }

    fn copy_transaction(
        &self,
        (thread_id, thread): (u64, &Thread),
    ) -> Option<PlacedEvent<RecordedTransaction>> {
        let open = &thread.transaction;
        let words = self.arena.slice(self.arena.offset_of(open), OPEN_WORDS);
        let mut copied = [0; OPEN_WORDS];
        for _ in 0..64 {
            if open.version.read(|_| journal::copy(words, &mut copied)).is_some() {
                let event = RecordedTransaction::new(read_open(&copied)?);
                let seen = PlacedEvent { thread_id, moment: 0, opened: 0, event };
                return self.still_lives(thread, thread_id).then_some(seen);
            }
            std::hint::spin_loop();
        }
        None
    }

    pub(super) fn transaction_row(
        &self,
        seen: &PlacedEvent<RecordedTransaction>,
        scale: Scale,
        sources: &Sources<'_>,
    ) -> TransactionRow {
        let RecordedTransaction { event, xid: [gtrid, bqual] } = &seen.event;
        let host = self.host.get();
        let part = |part: &[u8]| (event.xa.is_some() && !part.is_empty()).then(|| xid_text(part));
        let (domain, server, sequence) = event.gtid;
        let [savepoints, rollback_to_savepoint, release_savepoint] = event.savepoints;
        TransactionRow {
            head: EventHead {
                thread_id: seen.thread_id,
                event_id: event.id,
                end_event_id: seen.has_ended().then_some(event.end_event_id),
                name: self.registry.name(fixed::TRANSACTION),
                source: sources.name(event.source),
                timer: timer(scale, event.start, event.end, event.flags),
                nesting: nesting_of(event.nesting.0, event.nesting.1),
            },
            state: event.state,
            trx_id: (event.trx_id != 0).then_some(event.trx_id),
            // Shown for every transaction, with zeros if none was given, as in the built-in.
            gtid: Some(format!("{domain}-{server}-{sequence}")),
            xid_format_id: event.xa.map(|(format_id, _)| format_id),
            xid_gtrid: part(gtrid),
            xid_bqual: part(bqual),
            xa_state: event.xa.and_then(|(_, state)| host?.xa_state_name(state)),
            read_only: event.read_only,
            isolation_level: host.and_then(|host| host.isolation_name(event.isolation)),
            autocommit: event.autocommit,
            savepoints,
            rollback_to_savepoint,
            release_savepoint,
        }
    }
}

/// Returns a part of an XA identifier: as text if it is printable, else in hexadecimal.
fn xid_text(bytes: &[u8]) -> String {
    if bytes.iter().all(|byte| (b' '..=b'~').contains(byte)) {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let hex: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    format!("0x{hex}")
}
