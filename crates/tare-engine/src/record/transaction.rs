//! HOT PATH: transactions: one at a time per thread, kept in the slab while it runs.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tare_sync::record;

use crate::Engine;
use crate::clock::ticks;
use crate::count::cell::{Family, TransactionCell};
use crate::memory::arena::Use;
use crate::memory::lost::Lost;
use crate::memory::text::{self, copy_own};
use crate::record::ring::{LINE_WORDS, TransactionRecord};
use crate::record::ring::{RECORD_TIMED, RingKind, TRANSACTION_LINES};
use crate::record::wait::{Source, kept};
use crate::setup::instrument::{ENABLED, TIMED, UNRECORDED, fixed};
use crate::snapshot::{EventType, TransactionState};
use crate::thread::filter::{ATTRIBUTED, CURRENT, HISTORY, LONG, UNATTRIBUTED};
use crate::thread::{BANK_OWN, BANK_UNATTRIBUTED, Thread, ThreadHandle, ThreadRef, current};

/// The ring of transactions.
pub(crate) const TRANSACTIONS: RingKind =
    RingKind { used: Use::Transactions, event: EventType::Transaction, lost: Lost::TransactionEvents };

/// An XA identifier.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Xid<'a> {
    pub format_id: i32,
    pub gtrid: &'a [u8],
    pub bqual: &'a [u8],
}

/// What the host says of a transaction when it begins.
#[derive(Clone, Copy, Debug)]
pub struct TransactionStart<'a> {
    /// The XA identifier, if one is set.
    pub xid: Option<Xid<'a>>,
    /// TRX_ID; 0: none.
    pub trx_id: u64,
    /// ISOLATION_LEVEL, as the host numbers them (read uncommitted 0 … serializable 3).
    pub isolation: u8,
    /// ACCESS_MODE is READ ONLY.
    pub read_only: bool,
    /// AUTOCOMMIT.
    pub autocommit: bool,
}

/// What a savepoint command counts as.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Savepoint {
    Set,
    RollbackTo,
    Release,
}

const RECORDED: u32 = 1 << 4;
const OF_NOBODY: u32 = 1 << 5;
const READ_ONLY: u32 = 1 << 6;

/// A transaction in progress: what the host keeps.
#[derive(Clone, Copy)]
pub struct Transaction {
    thread: &'static Thread,
    start: u64,
    flags: u32,
}

impl Transaction {
    /// Flags, thread and start, to be kept by the host.
    pub fn pack(self) -> (u32, ThreadRef, u64) {
        (self.flags, self.thread.handle(), self.start)
    }

    /// The reverse of [`Transaction::pack`].
    pub fn unpack(flags: u32, thread: &'static ThreadHandle, start: u64) -> Transaction {
        Transaction { thread: thread.slab(), start, flags }
    }

    fn record(&self) -> Option<&'static TransactionRecord> {
        (self.flags & RECORDED != 0).then_some(&self.thread.transaction)
    }
}

/// Changes a thread's transaction: readers copy it between two equal, even versions.
fn publish(thread: &Thread, change: impl FnOnce()) {
    thread.transaction_version.change(change);
}

impl Engine {
    /// Begins a transaction of the calling thread.
    pub fn open_transaction(&self, what: &TransactionStart<'_>) -> Option<Transaction> {
        let switches = self.registry.switches(fixed::TRANSACTION);
        if switches & ENABLED == 0 {
            return None;
        }
        let thread = current()?;
        let mask = thread.mask();
        if mask & (ATTRIBUTED | UNATTRIBUTED) == 0 {
            return None;
        }
        let mut flags = u32::from(switches & (ENABLED | TIMED));
        flags |= if mask & UNATTRIBUTED != 0 { OF_NOBODY } else { 0 };
        flags |= if what.read_only { READ_ONLY } else { 0 };
        if Thread::bits(mask, EventType::Transaction) & CURRENT != 0 && switches & UNRECORDED == 0 {
            flags |= RECORDED;
            let event_id = thread.next_event_id();
            publish(thread, || {
                thread.transaction.event_id.store(event_id, Relaxed);
                self.reset_transaction(thread, what, switches);
            });
        }
        Some(Transaction { thread, start: 0, flags })
    }

    fn reset_transaction(&self, thread: &Thread, what: &TransactionStart<'_>, switches: u8) {
        let record = &thread.transaction;
        for word in [&record.start, &record.end, &record.source, &record.end_event_id] {
            word.store(0, Relaxed);
        }
        for word in [&record.savepoints, &record.rollbacks, &record.releases] {
            word.store(0, Relaxed);
        }
        let depth = thread.statement_depth.load(Relaxed) as usize;
        let nesting = match depth {
            0 => 0,
            _ => self.statement_event_id(thread, depth - 1),
        };
        record.nesting_id.store(nesting, Relaxed);
        record.nesting_type.store(EventType::Statement as u8, Relaxed);
        record.class.store(fixed::TRANSACTION, Relaxed);
        // Until it starts it has no state of its own; its predecessor's would be wrong.
        record.state.store(TransactionState::Active as u8, Relaxed);
        record.flags.store(if switches & TIMED != 0 { RECORD_TIMED } else { 0 }, Relaxed);
        record.isolation.store(what.isolation, Relaxed);
        record.read_only.store(u8::from(what.read_only), Relaxed);
        record.autocommit.store(u8::from(what.autocommit), Relaxed);
        record.xa.store(0, Relaxed);
        record.xa_state.store(0, Relaxed);
        record.has_gtid.store(0, Relaxed);
        record.trx_id.store(what.trx_id, Relaxed);
        match &what.xid {
            Some(xid) => write_xid(record, xid),
            None => {
                record.gtrid_len.store(0, Relaxed);
                record.bqual_len.store(0, Relaxed);
            }
        }
    }

    fn statement_event_id(&self, thread: &Thread, depth: usize) -> u64 {
        match thread.statement_levels.get(depth).map_or(0, |level| level.load(Relaxed)) {
            0 => 0,
            level => self.arena.at::<crate::record::statement::Level>(level).record.event_id.load(Relaxed),
        }
    }

    /// The transaction's clock starts.
    pub fn start_transaction(&self, transaction: &mut Transaction, source: Source) {
        if transaction.flags & u32::from(TIMED) != 0 {
            transaction.start = ticks();
        }
        if let Some(record) = transaction.record() {
            publish(transaction.thread, || {
                record.start.store(transaction.start, Relaxed);
                record.source.store(source.0, Relaxed);
                record.state.store(TransactionState::Active as u8, Relaxed);
            });
            transaction.thread.transaction_open.store(1, Relaxed);
        }
    }

    /// The XA identifier and state become known.
    pub fn set_transaction_xid(&self, transaction: &Transaction, xid: &Xid<'_>, xa_state: u8) {
        if let Some(record) = transaction.record() {
            publish(transaction.thread, || {
                write_xid(record, xid);
                record.xa_state.store(xa_state, Relaxed);
                record.xa.store(1, Relaxed);
            });
        }
    }

    /// The XA state changes.
    pub fn set_transaction_xa_state(&self, transaction: &Transaction, xa_state: u8) {
        if let Some(record) = transaction.record() {
            record.xa_state.store(xa_state, Relaxed);
            record.xa.store(1, Relaxed);
        }
    }

    /// The global transaction id becomes known: domain, server, sequence.
    pub fn set_transaction_gtid(&self, transaction: &Transaction, domain: u32, server: u32, sequence: u64) {
        if let Some(record) = transaction.record() {
            publish(transaction.thread, || {
                record.gtid_domain.store(domain, Relaxed);
                record.gtid_server.store(u64::from(server), Relaxed);
                record.gtid_sequence.store(sequence, Relaxed);
                record.has_gtid.store(1, Relaxed);
            });
        }
    }

    /// The storage engine's id becomes known; the first one stays.
    pub fn set_transaction_trx_id(&self, transaction: &Transaction, trx_id: u64) {
        if let Some(record) = transaction.record().filter(|record| record.trx_id.load(Relaxed) == 0) {
            record.trx_id.store(trx_id, Relaxed);
        }
    }

    /// Counts savepoint commands.
    pub fn add_savepoints(&self, transaction: &Transaction, what: Savepoint, by: u64) {
        if let Some(record) = transaction.record() {
            let counter: &AtomicU64 = match what {
                Savepoint::Set => &record.savepoints,
                Savepoint::RollbackTo => &record.rollbacks,
                Savepoint::Release => &record.releases,
            };
            crate::count::cell::bump(counter, by);
        }
    }

    /// Ends a transaction.
    pub fn end_transaction(&self, transaction: &Transaction, committed: bool) {
        let Transaction { thread, start, flags } = *transaction;
        let timed = flags & u32::from(TIMED) != 0;
        let end = if timed { ticks() } else { 0 };
        let bank = if flags & OF_NOBODY == 0 { BANK_OWN } else { BANK_UNATTRIBUTED };
        let cell = self.cell::<TransactionCell>(thread, bank, fixed::TRANSACTION, Family::Transactions);
        if let Some(cell) = cell {
            let counts = if flags & READ_ONLY != 0 { &cell.read_only } else { &cell.read_write };
            if timed {
                counts.add(1, end.saturating_sub(start));
            } else {
                counts.add_untimed(1);
            }
        }
        if let Some(record) = transaction.record() {
            self.finish_transaction(thread, record, end, committed);
        }
    }

    fn finish_transaction(&self, thread: &'static Thread, record: &TransactionRecord, end: u64, done: bool) {
        /// XA COMMITTED and ROLLBACK ONLY in the interface's own numbers.
        const XA_STATES: [u8; 2] = [4, 3];
        let id = record.event_id.load(Relaxed);
        let bits = Thread::bits(thread.mask(), EventType::Transaction);
        publish(thread, || {
            let state = if done { TransactionState::Committed } else { TransactionState::RolledBack };
            record.state.store(state as u8, Relaxed);
            if record.xa.load(Relaxed) != 0 {
                record.xa_state.store(XA_STATES[usize::from(!done)], Relaxed);
            }
            record.end_event_id.store(thread.event_id.load(Relaxed) - 1, Relaxed);
            record.flags.store(record.flags.load(Relaxed) | kept(bits), Relaxed);
            record.end.store(end | u64::from(end == 0), Relaxed);
        });
        thread.transaction_open.store(0, Relaxed);
        if bits & (HISTORY | LONG) == 0 {
            return;
        }
        let ring = &thread.transactions;
        let words = TRANSACTION_LINES * LINE_WORDS;
        let place = ring.lines(&self.arena, words).or_else(|| {
            if self.advance(thread, ring, &TRANSACTIONS) { ring.lines(&self.arena, words) } else { None }
        });
        let Some(offset) = place else { return };
        // The identifier, half of the record, is shown of XA transactions only.
        let bytes = match record.xa.load(Relaxed) {
            0 => offset_of!(TransactionRecord, xid),
            _ => size_of::<TransactionRecord>(),
        };
        let from = self.arena.slice(self.arena.offset_of(record), bytes / 8);
        let to = self.arena.slice(offset, bytes / 8);
        copy_own(&to[1..], &from[1..]);
        record::publish(&to[0], ring.stamp(id));
    }
}

fn write_xid(record: &TransactionRecord, xid: &Xid<'_>) {
    record.xid_format.store(xid.format_id.cast_unsigned(), Relaxed);
    let half = record.xid.len() / 2;
    record.gtrid_len.store(text::write(&record.xid[..half], xid.gtrid) as u16, Relaxed);
    record.bqual_len.store(text::write(&record.xid[half..], xid.bqual) as u16, Relaxed);
}
