//! `events_transactions_*`.

use std::sync::atomic::Ordering::Relaxed;

use tare_sync::record;

use super::words::Words;
use super::{Block, Event, Seen, Sources, nesting_of, timer};
use crate::Engine;
use crate::read::Scale;
use crate::record::ring::{LINE_WORDS, TRANSACTION_LINES, XID_BYTES};
use crate::snapshot::*;
use crate::thread::Thread;

/// A transaction's record, or the slab's, copied out.
struct TransactionWords(Words);

impl Event for TransactionWords {
    const TYPE: EventType = EventType::Transaction;
    fn id(&self) -> u64 {
        self.0.0[0]
    }
    fn end(&self) -> u64 {
        self.0.0[2]
    }
    fn end_event_id(&self) -> u64 {
        self.0.0[4]
    }
    fn flags(&self) -> u8 {
        self.0.u8(6, 3)
    }
    fn decode(blocks: &[Block]) -> Vec<(usize, Self)> {
        let mut events = Vec::new();
        for (number, block) in blocks.iter().enumerate() {
            let records = block.words.chunks((TRANSACTION_LINES * LINE_WORDS) as usize);
            let events_of = records.map_while(|words| Words::first(words, words.len()));
            events.extend(events_of.map(|words| (number, TransactionWords(words))));
        }
        events
    }
}

impl Engine {
    /// `events_transactions_*`.
    pub fn transactions(&self, asked: impl Into<Asked<Scope>>) -> Vec<TransactionRow> {
        let asked = asked.into();
        let scale = Scale::of(self);
        let records = match asked.what {
            Scope::Current => self.current_transactions(asked),
            _ => self.ended(asked),
        };
        let sources = Sources::of(self);
        records.iter().map(|seen| self.transaction_row(seen, scale, &sources)).collect()
    }

    fn current_transactions(&self, asked: Asked<Scope>) -> Vec<Seen<TransactionWords>> {
        let shown = self.shown(EventType::Transaction, asked);
        let copy = |thread: &'static Thread| {
            let seen = self.copy_transaction(thread)?;
            let is_shown = if seen.has_ended() { shown.shows(&seen) } else { shown.shows_running(&seen) };
            (seen.event.id() != 0 && is_shown).then_some(seen)
        };
        self.live_threads_of(asked.thread).into_iter().filter_map(copy).collect()
    }

    fn copy_transaction(&self, thread: &Thread) -> Option<Seen<TransactionWords>> {
        let thread_id = thread.thread_id.load(Relaxed);
        let offset = self.arena.offset_of(&thread.transaction);
        let words = self.arena.slice(offset, size_of_val(&thread.transaction) / 8);
        for _ in 0..64 {
            let copy =
                thread.transaction_version.read(|_| words.iter().map(record::copy).collect::<Vec<u64>>());
            if let Some(copy) = copy {
                let seen = Seen { thread_id, moment: 0, opened: 0, event: TransactionWords(Words(copy)) };
                return self.still_lives(thread, thread_id).then_some(seen);
            }
            std::hint::spin_loop();
        }
        None
    }

    fn transaction_row(
        &self,
        seen: &Seen<TransactionWords>,
        scale: Scale<'_>,
        sources: &Sources<'_>,
    ) -> TransactionRow {
        let record = &seen.event.0;
        let w = &record.0;
        let host = self.host.get();
        let (gtrid, bqual) = (record.u16(12, 0) as usize, record.u16(12, 1) as usize);
        let xa = record.u8(6, 6) != 0;
        let has_gtid = record.u8(7, 2) != 0;
        TransactionRow {
            head: EventHead {
                thread_id: seen.thread_id,
                event_id: w[0],
                end_event_id: (w[2] != 0).then_some(w[4]),
                name: self.registry.name(record.u16(6, 0)),
                source: sources.name(w[3]),
                timer: timer(scale, w[1], w[2], record.u8(6, 3)),
                nesting: nesting_of(w[5], record.u8(6, 2)),
            },
            state: match record.u8(6, 4) {
                2 => TransactionState::Committed,
                3 => TransactionState::RolledBack,
                _ => TransactionState::Active,
            },
            trx_id: (w[8] != 0).then_some(w[8]),
            // Shown for every transaction: zeros where none was given, as in the reference.
            gtid: Some(match has_gtid {
                true => format!("{}-{}-{}", record.u32(12, 1), w[13], w[14]),
                false => "0-0-0".to_owned(),
            }),
            xid_format_id: xa.then(|| record.u32(7, 1).cast_signed()),
            xid_gtrid: (xa && gtrid > 0).then(|| xid_text(&record.text(15, gtrid))),
            xid_bqual: (xa && bqual > 0).then(|| xid_text(&record.text(15 + XID_BYTES / 16, bqual))),
            xa_state: host.filter(|_| xa).and_then(|host| host.xa_state_name(record.u8(6, 7))),
            read_only: record.u8(7, 0) != 0,
            isolation_level: host.and_then(|host| host.isolation_name(record.u8(6, 5))),
            autocommit: record.u8(7, 1) != 0,
            savepoints: w[9],
            rollback_to_savepoint: w[10],
            release_savepoint: w[11],
        }
    }
}

/// An XA identifier's part: as it is where printable, in hexadecimal elsewhere.
fn xid_text(bytes: &[u8]) -> String {
    if bytes.iter().all(|byte| (b' '..=b'~').contains(byte)) {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let hex: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    format!("0x{hex}")
}
