//! HOT PATH: transactions: one at a time per thread, kept in the slab while it runs.

pub(crate) mod record;

use std::hint::cold_path;
use std::sync::atomic::Ordering::Relaxed;

use crate::Engine;
use crate::clock::ticks;
use crate::count::cell::{Family, TransactionCell};
use crate::memory::arena::{Own, Use};
use crate::memory::lost::Lost;
use crate::record::ring::RingKind;
use crate::record::wait::{Source, kept};
use crate::setup::instrument::{ENABLED, TIMED, UNRECORDED, fixed};
use crate::snapshot::{EventType, Scope};
use crate::thread::filter::{ATTRIBUTED, CURRENT, HISTORY, LONG, UNATTRIBUTED};
use crate::thread::{BANK_OWN, BANK_UNATTRIBUTED, Thread, ThreadHandle, ThreadRef, current};
use record::OpenTransaction;

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
pub struct TransactionStart {
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
    ///
    /// # Safety
    /// The three came from one `pack`, of a transaction that has not ended, in this process. The calling thread is the one that
    /// runs it: nobody else writes to its slab meanwhile.
    #[allow(unsafe_code)]
    pub unsafe fn unpack(flags: u32, thread: &'static ThreadHandle, start: u64) -> Transaction {
        Transaction { thread: thread.slab(), start, flags }
    }

    /// Its start alone, which is the only thing that changes.
    #[inline(always)]
    pub fn start(&self) -> u64 {
        self.start
    }

    #[inline(always)]
    fn bank(&self) -> usize {
        if self.flags & OF_NOBODY == 0 { BANK_OWN } else { BANK_UNATTRIBUTED }
    }

    /// Where it is noted, if it is recorded.
    #[inline(always)]
    fn open(&self) -> Option<&'static OpenTransaction> {
        (self.flags & RECORDED != 0).then_some(&self.thread.transaction)
    }
}

impl Engine {
    /// Begins a transaction of the calling thread.
    #[inline(always)]
    pub fn open_transaction(&self, what: &TransactionStart) -> Option<Transaction> {
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
            let depth = thread.statement_depth.load(Relaxed) as usize;
            let nesting = depth.checked_sub(1).map_or(0, |depth| self.statement_event_id(thread, depth));
            thread.transaction.begin(thread.next_event_id(), what, switches & TIMED != 0, nesting);
        }
        Some(Transaction { thread, start: 0, flags })
    }

    /// It has an identifier; whether it is an XA transaction nobody knows yet.
    pub fn note_transaction_xid(&self, transaction: &Transaction, xid: &Xid<'_>) {
        if let Some(open) = transaction.open() {
            open.note_xid(xid);
        }
    }

    /// The transaction's clock starts.
    #[inline(always)]
    pub fn start_transaction(&self, transaction: &mut Transaction, source: Source) {
        if transaction.flags & u32::from(TIMED) != 0 {
            transaction.start = ticks();
        }
        if let Some(open) = transaction.open() {
            open.start(transaction.start, source.0);
        }
    }

    /// The XA identifier and state become known.
    pub fn set_transaction_xid(&self, transaction: &Transaction, xid: &Xid<'_>, xa_state: u8) {
        if let Some(open) = transaction.open() {
            open.set_xid(xid, xa_state);
        }
    }

    /// The XA state changes.
    pub fn set_transaction_xa_state(&self, transaction: &Transaction, xa_state: u8) {
        if let Some(open) = transaction.open() {
            open.set_xa_state(xa_state);
        }
    }

    /// The global transaction id becomes known: domain, server, sequence.
    pub fn set_transaction_gtid(&self, transaction: &Transaction, domain: u32, server: u32, sequence: u64) {
        if let Some(open) = transaction.open() {
            open.set_gtid(domain, server, sequence);
        }
    }

    /// The storage engine's id becomes known; the first one stays.
    pub fn set_transaction_trx_id(&self, transaction: &Transaction, trx_id: u64) {
        if let Some(open) = transaction.open() {
            open.set_trx_id(trx_id);
        }
    }

    /// Counts savepoint commands.
    pub fn add_savepoints(&self, transaction: &Transaction, what: Savepoint, by: u64) {
        if let Some(open) = transaction.open() {
            open.add_savepoints(what, by);
        }
    }

    /// Ends a transaction.
    #[inline(always)]
    pub fn end_transaction(&self, transaction: &Transaction, committed: bool) {
        let transaction = *transaction;
        let Transaction { thread, start, flags } = transaction;
        let cell = thread.banks[transaction.bank()].cell::<TransactionCell>(&self.arena, fixed::TRANSACTION);
        let now = self.epochs[Family::Transactions as usize].load(Relaxed);
        match cell.filter(|cell| cell.head.epoch.load(Relaxed) == now) {
            Some(cell) => self.end_counted(transaction, committed, Some(cell)),
            None => self.end_uncounted(thread, start, flags, committed),
        }
    }

    /// As [`Engine::end_transaction`], of the first one of a thread, or the first one since a reset.
    #[cold]
    #[inline(never)]
    fn end_uncounted(&self, thread: &'static Thread, start: u64, flags: u32, committed: bool) {
        let transaction = Transaction { thread, start, flags };
        let cell = self.cell(thread, transaction.bank(), fixed::TRANSACTION, Family::Transactions);
        self.end_counted(transaction, committed, cell);
    }

    /// Ends it and counts it in its cell, if there is one.
    #[inline(always)]
    fn end_counted(&self, transaction: Transaction, committed: bool, cell: Option<&TransactionCell>) {
        let Transaction { thread, start, flags } = transaction;
        let timed = flags & u32::from(TIMED) != 0;
        let end = if timed { ticks() } else { 0 };
        if let Some(cell) = cell {
            let counts = if flags & READ_ONLY != 0 { &cell.read_only } else { &cell.read_write };
            if timed {
                let taken = end.saturating_sub(start);
                counts.add(1, taken);
                if self.buckets.is_above_floor(taken) {
                    cold_path();
                    self.spread_long_event(thread, taken, Some(&cell.head), None);
                }
            } else {
                counts.add_untimed(1);
                self.spread_untimed_event(thread, Some(&cell.head), None);
            }
        }
        if let Some(open) = transaction.open() {
            let bits = Thread::bits(thread.mask(), EventType::Transaction);
            let end_event_id = thread.event_id.own() - 1;
            open.end(end | u64::from(end == 0), end_event_id, committed, kept(bits));
            // As in the built-in, a TRUNCATE of transactions in progress forgets them for good.
            let first =
                thread.hidden[EventType::Transaction as usize - 1][Scope::Current as usize].load(Relaxed);
            let is_wanted = bits & (HISTORY | LONG) != 0 && open.id() >= first;
            if is_wanted && !open.write(&thread.transactions, self.arena.base()) {
                self.record_in_next_block(thread);
            }
        }
    }

    /// Records an ended transaction for which the current block has no room.
    #[cold]
    #[inline(never)]
    fn record_in_next_block(&self, thread: &'static Thread) {
        if self.advance(thread, &thread.transactions, &TRANSACTIONS) {
            thread.transaction.write(&thread.transactions, self.arena.base());
        }
    }
}
