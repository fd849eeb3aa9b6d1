//! HOT PATH: transactions: one at a time per thread, kept in the slab while it runs.

mod flags;

use std::hint::cold_path;
use std::sync::atomic::Ordering::Relaxed;

use crate::Engine;
use crate::clock::{cycles, ticks};
use crate::layout::cell::{Counts, SummaryFamily, TransactionCell};
use crate::layout::deferred::KNOWS_LONGEST;
use crate::layout::ring::TRANSACTIONS;
use crate::layout::transaction::{OpenTransaction, Savepoint, TransactionStart, Xid};
use crate::memory::arena::{Offset, Own};
use crate::record::wait::{Source, kept};
use crate::setup::filter::{ATTRIBUTED, CYCLES, HISTOGRAM, HISTORY, LONG, UNATTRIBUTED, is_event};
use crate::setup::instrument::{ENABLED, TIMED, fixed};
use crate::snapshot::{EventType, Scope};
use crate::thread::{BANK_OWN, BANK_UNATTRIBUTED, Thread, ThreadHandle, ThreadRef, current};
use flags::TransactionFlags;

/// The bits of a mask under which a transaction is [`TransactionFlags::IN_CYCLES`].
const USUAL_MASK: u32 = ATTRIBUTED | CYCLES;

/// A transaction in progress: what the host keeps.
#[derive(Clone, Copy)]
pub struct Transaction {
    thread: &'static Thread,
    /// The start in ticks; that of a recorded transaction is in the slab instead.
    start: u64,
    flags: TransactionFlags,
}

impl Transaction {
    /// Returns flags, thread and start for the host to keep.
    #[inline(always)]
    pub fn pack(self) -> (u32, ThreadRef, u64) {
        (self.flags.0, self.thread.handle(), self.start)
    }

    /// Restores a transaction from the values of [`Transaction::pack`].
    ///
    /// # Safety
    /// The three came from one `pack`, of a transaction that has not ended, in this process. The calling
    /// thread is the one that runs it: no other thread writes to its slab meanwhile.
    #[allow(unsafe_code)]
    #[inline(always)]
    pub unsafe fn unpack(flags: u32, thread: &'static ThreadHandle, start: u64) -> Transaction {
        Transaction { thread: thread.slab(), start, flags: TransactionFlags(flags) }
    }

    /// Returns the start, in ticks. Only this value changes between calls, and not even this one for a
    /// recorded transaction.
    #[inline(always)]
    pub fn start(&self) -> u64 {
        self.start
    }

    #[inline(always)]
    fn bank(&self) -> usize {
        if self.flags.has(TransactionFlags::UNATTRIBUTED) { BANK_UNATTRIBUTED } else { BANK_OWN }
    }

    /// Returns whether it is its thread's, recorded, and timed in cycles.
    #[inline(always)]
    fn is_usual(&self) -> bool {
        self.flags.is_usual()
    }

    #[inline(always)]
    fn is_timed(&self) -> bool {
        self.flags.is_timed()
    }

    /// Returns the statistic that counts it.
    #[inline(always)]
    fn counts<'a>(&self, cell: &'a TransactionCell) -> &'a Counts {
        if self.flags.has(TransactionFlags::READ_ONLY) { &cell.read_only } else { &cell.read_write }
    }

    /// Returns its state in the slab, if it is recorded.
    #[inline(always)]
    fn open(&self) -> Option<&'static OpenTransaction> {
        self.flags.has(TransactionFlags::RECORDED).then_some(&self.thread.transaction)
    }
}

impl Engine {
    /// Begins a transaction of the calling thread. `None`: there is nothing to do for it.
    pub fn open_transaction(&self, what: &TransactionStart) -> Option<Transaction> {
        if let Some(transaction) = self.open_transaction_fast(what) {
            return Some(transaction);
        }
        let switches = self.registry.switches(fixed::TRANSACTION);
        if switches & ENABLED == 0 {
            return None;
        }
        let thread = current()?;
        let mask = thread.mask();
        if mask & (ATTRIBUTED | UNATTRIBUTED) == 0 {
            return None;
        }
        let mut flags = TransactionFlags::new(switches, what.read_only);
        if mask & UNATTRIBUTED != 0 {
            flags = flags.with(TransactionFlags::UNATTRIBUTED);
        }
        if is_event(mask, EventType::Transaction, switches) {
            flags = flags.with(TransactionFlags::RECORDED);
            self.note_transaction(thread, what, switches & TIMED != 0);
        }
        Some(Transaction { thread, start: 0, flags })
    }

    /// Begins a transaction on the fast path, if it is its thread's and is timed in cycles or not at all.
    /// `None`: nothing has happened; call [`Engine::open_transaction`].
    #[inline(always)]
    pub fn open_transaction_fast(&self, what: &TransactionStart) -> Option<Transaction> {
        let switches = self.registry.switches(fixed::TRANSACTION);
        let thread = current()?;
        let mask = thread.mask();
        if switches & ENABLED == 0 || mask & USUAL_MASK != USUAL_MASK {
            return None;
        }
        let mut flags = TransactionFlags::new(switches, what.read_only).with(TransactionFlags::IN_CYCLES);
        if is_event(mask, EventType::Transaction, switches) {
            flags = flags.with(TransactionFlags::RECORDED);
            self.note_transaction(thread, what, switches & TIMED != 0);
        }
        Some(Transaction { thread, start: 0, flags })
    }

    /// Notes in the slab that a transaction begins.
    #[inline(always)]
    fn note_transaction(&self, thread: &Thread, what: &TransactionStart, timed: bool) {
        let depth = thread.statement_depth.load(Relaxed) as usize;
        let nesting = || depth.checked_sub(1).map_or(0, |depth| self.statement_event_id(thread, depth));
        thread.expect_stage_ids();
        thread.transaction.begin(|| thread.next_event_id(), what, timed, nesting);
    }

    /// Notes an identifier, which may or may not be that of an XA transaction.
    pub fn note_transaction_xid(&self, transaction: &Transaction, xid: &Xid<'_>) {
        if let Some(open) = transaction.open() {
            open.note_xid(xid);
        }
    }

    /// Starts the transaction's clock.
    pub fn start_transaction(&self, transaction: &mut Transaction, source: Source) {
        if transaction.is_timed() {
            transaction.start = ticks();
        }
        if let Some(open) = transaction.open() {
            open.start(transaction.start, source.0);
        }
    }

    /// Starts the clock of a timed and recorded transaction on the fast path; the host need not keep its
    /// start. Returns false if nothing has happened: call [`Engine::start_transaction`].
    #[inline(always)]
    pub fn start_transaction_fast(&self, transaction: &Transaction, source: Source) -> bool {
        let is_usual = transaction.is_usual();
        if is_usual {
            transaction.thread.transaction.start(cycles(), source.0);
        }
        is_usual
    }

    /// Sets the XA identifier and state.
    pub fn set_transaction_xid(&self, transaction: &Transaction, xid: &Xid<'_>, xa_state: u8) {
        if let Some(open) = transaction.open() {
            open.set_xid(xid, xa_state);
        }
    }

    /// Sets the XA state.
    pub fn set_transaction_xa_state(&self, transaction: &Transaction, xa_state: u8) {
        if let Some(open) = transaction.open() {
            open.set_xa_state(xa_state);
        }
    }

    /// Sets the global transaction id: domain, server, sequence.
    pub fn set_transaction_gtid(&self, transaction: &Transaction, domain: u32, server: u32, sequence: u64) {
        if let Some(open) = transaction.open() {
            open.set_gtid(domain, server, sequence);
        }
    }

    /// Sets the storage engine's id, unless it has one.
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
    pub fn end_transaction(&self, transaction: &Transaction, committed: bool) {
        if self.end_transaction_fast(transaction, committed)
            || self.end_unrecorded_transaction_fast(transaction)
        {
            return;
        }
        let Transaction { thread, start, .. } = *transaction;
        let start = transaction.open().map_or(start, OpenTransaction::started);
        let cell = self.cell(thread, transaction.bank(), fixed::TRANSACTION, SummaryFamily::Transactions);
        let timed = transaction.is_timed();
        let end = if timed { ticks() } else { 0 };
        if let Some::<&TransactionCell>(cell) = cell {
            let taken = timed.then(|| end.saturating_sub(start));
            match taken {
                Some(taken) => transaction.counts(cell).add(1, taken),
                None => transaction.counts(cell).add_untimed(1),
            }
            match taken {
                Some(taken) => {
                    let head = &cell.head;
                    self.bucket_event(thread, (self.arena.offset_of(head), head), taken, KNOWS_LONGEST);
                }
                None => self.bucket_untimed(thread, &cell.head, 1),
            }
        }
        if let Some(open) = transaction.open() {
            let end_with = if open.is_xa() { OpenTransaction::end_xa } else { OpenTransaction::end };
            end_with(open, end | u64::from(end == 0), last_event_id(thread), committed);
            let bits = Thread::bits(thread.mask(), EventType::Transaction);
            if bits & (HISTORY | LONG) != 0 && is_wanted(thread, open.id()) {
                self.record_transaction(thread, kept(bits));
            }
        }
    }

    /// Ends a timed and recorded transaction on the fast path. Returns false if nothing has happened: call
    /// [`Engine::end_unrecorded_transaction_fast`].
    #[inline(always)]
    pub fn end_transaction_fast(&self, transaction: &Transaction, committed: bool) -> bool {
        let (thread, base) = (transaction.thread, self.arena.base());
        let open = &thread.transaction;
        if !transaction.is_usual() || !open.is_usual() {
            cold_path();
            return false;
        }
        let Some(place) = self.usual_cell(base, thread, fixed::TRANSACTION, SummaryFamily::Transactions)
        else {
            return false;
        };
        let mask = thread.mask();
        let histories = kept(Thread::bits(mask, EventType::Transaction));
        if histories == 0 || !is_wanted(thread, open.id()) {
            cold_path();
            return false;
        }
        let Some(to) = open.place(&thread.transactions, base) else { return false };
        let end = cycles();
        open.end_usual(to, (end, last_event_id(thread)), committed, histories);
        self.count_transaction(transaction, place, mask, (open.started(), end));
        true
    }

    /// Ends a transaction that is not recorded or not timed on the fast path. Returns false if nothing has
    /// happened: call [`Engine::end_transaction`].
    #[inline(always)]
    pub fn end_unrecorded_transaction_fast(&self, transaction: &Transaction) -> bool {
        let (thread, base) = (transaction.thread, self.arena.base());
        let Some(place) = self.usual_cell(base, thread, fixed::TRANSACTION, SummaryFamily::Transactions)
        else {
            return false;
        };
        let (mask, timed) = (thread.mask(), transaction.is_timed());
        // Events without times are noted in histograms elsewhere.
        if !transaction.flags.is_unrecorded_in_cycles() || !timed && mask & HISTOGRAM != 0 {
            return false;
        }
        if timed {
            self.count_transaction(transaction, place, mask, (transaction.start, cycles()));
        } else {
            transaction.counts(base.at(place)).add_untimed(1);
        }
        true
    }

    /// Counts a timed transaction with this start and end, in ticks, in the cell at `place`.
    #[inline(always)]
    fn count_transaction(
        &self,
        transaction: &Transaction,
        place: Offset,
        mask: u32,
        (start, end): (u64, u64),
    ) {
        let cell: &TransactionCell = self.arena.at(place);
        let taken = end.saturating_sub(start);
        transaction.counts(cell).add(1, taken);
        if mask & HISTOGRAM != 0 {
            cold_path();
            self.bucket_event(transaction.thread, (place, &cell.head), taken, KNOWS_LONGEST);
        }
    }

    /// Records an ended transaction.
    fn record_transaction(&self, thread: &Thread, histories: u8) {
        let (open, ring, base) = (&thread.transaction, &thread.transactions, self.arena.base());
        let next = || self.advance(thread, ring, &TRANSACTIONS).then(|| open.place(ring, base)).flatten();
        if let Some(to) = open.place(ring, base).or_else(next) {
            open.write(to, histories);
        }
    }
}

/// Returns the END_EVENT_ID of a transaction that ends now.
#[inline(always)]
fn last_event_id(thread: &Thread) -> u64 {
    thread.event_id.own() - 1
}

/// Returns whether a transaction that ends may be recorded. A TRUNCATE while it was in progress prevents
/// that, as in the built-in.
#[inline(always)]
fn is_wanted(thread: &Thread, id: u64) -> bool {
    let first = &thread.hidden[EventType::Transaction as usize - 1][Scope::Current as usize];
    id >= first.load(Relaxed)
}
