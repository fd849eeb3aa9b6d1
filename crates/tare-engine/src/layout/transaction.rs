//! HOT PATH: the records of transactions: layout, writer and decoder.
//!
//! A transaction in progress is noted in its thread's slab ([`OpenTransaction`]), where it can be read until
//! the next one begins. It is recorded when it ends:
//!
//! | words | hold |
//! |---|---|
//! | the head | what and id, start, source, end, state and END_EVENT_ID and which values are set |
//! | one for each value | what it nests in and TRX_ID; savepoints, GTID, XA: those that are not zero |
//! | texts | of XA transactions only: both parts of the identifier, each of which begins with a word |

use std::mem::offset_of;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, Release},
};

use tare_sync::Seqlock;

use crate::layout::journal::{OWN_KINDS, kind};
use crate::layout::ring::{Appending, RECORD_TIMED, Ring};
use crate::layout::values::{self, SparseValues};
use crate::memory::arena::{ArenaView, Base, LINE, Own};
use crate::memory::text::{self, CopiedText};
use crate::snapshot::{EventType, TransactionState};

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
    /// Whether ACCESS_MODE is READ ONLY.
    pub read_only: bool,
    /// Whether AUTOCOMMIT is on.
    pub autocommit: bool,
}

/// A kind of savepoint command.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Savepoint {
    Set,
    RollbackTo,
    Release,
}

/// The only kind of record of transactions.
const TRANSACTION: u64 = OWN_KINDS;

/// The positions in the first word: flags ([`RECORD_TIMED`] and its neighbours), access mode, AUTOCOMMIT,
/// isolation level, id. The word stays as it is at the beginning; only a record has the flags of the
/// histories.
const FLAGS: u32 = 3;
const READ_ONLY: u64 = 1 << 8;
const AUTOCOMMIT: u64 = 1 << 9;
const ISOLATION: u32 = 10;
const ID: u32 = 16;
/// The flag of a transaction in progress that has an identifier. Not read in records.
const HAS_XID: u64 = 1 << 14;
/// The positions of what is known at the end, in the word that says which values are set: the state,
/// END_EVENT_ID.
const STATE: u32 = 8;
const END_ID: u32 = 16;

/// The words of the head.
const HEAD: usize = 5;
const VALUES: usize = 8;
const NESTING: usize = 0;
const TRX_ID: usize = 1;
/// The values that every transaction has, zero or not: writing both costs less than checking.
const USUAL: u64 = 1 << NESTING | 1 << TRX_ID;
const SAVEPOINTS: usize = 2;
const ROLLBACKS: usize = 3;
const RELEASES: usize = 4;
const GTID_SOURCE: usize = 5;
const GTID_SEQUENCE: usize = 6;
const XA: usize = 7;
/// The positions in the value of XA, behind the identifier's format: the lengths of its parts, the state, and
/// a flag that keeps the value from being zero.
const GTRID_LEN: u32 = 32;
const BQUAL_LEN: u32 = 40;
const XA_STATE: u32 = 48;
const IS_XA: u64 = 1 << 63;

/// The words of one part of an XA identifier (64 bytes).
const PART_WORDS: usize = 8;

/// A thread's transaction in progress, or its last one. What every transaction changes comes first, in one
/// cache line.
#[repr(C, align(64))]
pub(crate) struct OpenTransaction {
    /// The seqlock, odd while a transaction begins and while other words change that belong together.
    pub(crate) version: Seqlock,
    /// The first word of its record, without the kind and the histories, but with [`HAS_XID`].
    what: AtomicU64,
    start: AtomicU64,
    source: AtomicU64,
    /// The end in ticks; 0 while it lasts, 1 if it was not timed. Written last: whoever sees it sees the rest
    /// of the end, which is read after it.
    end: AtomicU64,
    set: AtomicU64,
    values: [AtomicU64; VALUES],
    gtrid: [AtomicU64; PART_WORDS],
    bqual: [AtomicU64; PART_WORDS],
    /// The identifier, encoded like the value of XA, even while it is unknown whether this is an XA
    /// transaction.
    xid: AtomicU64,
}

// SAFETY: meets `ArenaView`: atomics only, alignment 64, less than a block.
#[allow(unsafe_code)]
unsafe impl ArenaView for OpenTransaction {}
const _: () = assert!(offset_of!(OpenTransaction, values) + 8 * TRX_ID < LINE);

/// The words of a transaction in progress.
pub(crate) const OPEN_WORDS: usize = size_of::<OpenTransaction>() / 8;

/// The operations of its thread.
impl OpenTransaction {
    /// Begins a transaction that nests in the statement whose id `nesting` returns, if that is not 0. It has
    /// no time until it starts.
    #[inline(always)]
    pub(crate) fn begin(
        &self,
        id: impl FnOnce() -> u64,
        begun: &TransactionStart,
        timed: bool,
        nesting: impl FnOnce() -> u64,
    ) {
        let flags = u64::from(if timed { RECORD_TIMED } else { 0 });
        let what = flags << FLAGS
            | if begun.read_only { READ_ONLY } else { 0 }
            | if begun.autocommit { AUTOCOMMIT } else { 0 }
            // A level that does not fit four bits has no name either.
            | u64::from(begun.isolation.min(0xF)) << ISOLATION;
        self.version.change(|| {
            self.what.store(what | id() << ID, Relaxed);
            for word in [&self.start, &self.source, &self.end] {
                word.store(0, Relaxed);
            }
            self.values[NESTING].store(nesting(), Relaxed);
            self.values[TRX_ID].store(begun.trx_id, Relaxed);
            self.set.store(USUAL, Release);
        });
    }

    /// Notes an identifier of whatever kind.
    pub(crate) fn note_xid(&self, xid: &Xid<'_>) {
        self.version.change(|| self.write_xid(xid));
    }

    fn write_xid(&self, xid: &Xid<'_>) {
        let (gtrid, bqual) = (text::write(&self.gtrid, xid.gtrid), text::write(&self.bqual, xid.bqual));
        let format = u64::from(xid.format_id.cast_unsigned());
        self.xid.store(format | (gtrid as u64) << GTRID_LEN | (bqual as u64) << BQUAL_LEN, Relaxed);
        self.what.store(self.what.own() | HAS_XID, Relaxed);
    }

    #[inline(always)]
    fn values(&self) -> SparseValues<'_, VALUES> {
        SparseValues { set: &self.set, words: &self.values }
    }

    /// Returns the EVENT_ID.
    #[inline(always)]
    pub(crate) fn id(&self) -> u64 {
        self.what.own() >> ID
    }

    /// Returns the EVENT_ID while it is open, otherwise 0.
    #[inline(always)]
    pub(crate) fn open_id(&self) -> u64 {
        // Branch-free, as both cases are common.
        self.id() & u64::from(self.end.own() == 0).wrapping_neg()
    }

    /// Returns when its clock started, in ticks.
    #[inline(always)]
    pub(crate) fn started(&self) -> u64 {
        self.start.own()
    }

    /// Starts its clock.
    #[inline(always)]
    pub(crate) fn start(&self, start: u64, source: u64) {
        self.source.store(source, Relaxed);
        self.start.store(start, Release);
    }

    /// Makes it an XA transaction with this identifier and state.
    pub(crate) fn set_xid(&self, xid: &Xid<'_>, xa_state: u8) {
        self.version.change(|| {
            self.write_xid(xid);
            self.put_xa_state(xa_state);
        });
    }

    /// Makes it an XA transaction in this state.
    pub(crate) fn set_xa_state(&self, xa_state: u8) {
        self.version.change(|| self.put_xa_state(xa_state));
    }

    #[cold]
    #[inline(never)]
    fn put_xa_state(&self, xa_state: u8) {
        let xid = if self.what.own() & HAS_XID == 0 { 0 } else { self.xid.own() };
        self.values().put(XA, xid | u64::from(xa_state) << XA_STATE | IS_XA);
    }

    pub(crate) fn set_gtid(&self, domain: u32, server: u32, sequence: u64) {
        self.version.change(|| {
            self.values().put(GTID_SOURCE, u64::from(domain) | u64::from(server) << 32);
            self.values().put(GTID_SEQUENCE, sequence);
        });
    }

    /// Sets the storage engine's id, unless it has one.
    pub(crate) fn set_trx_id(&self, trx_id: u64) {
        if self.values().get(TRX_ID) == 0 {
            self.values().put(TRX_ID, trx_id);
        }
    }

    /// Counts savepoint commands.
    pub(crate) fn add_savepoints(&self, what: Savepoint, by: u64) {
        let value = match what {
            Savepoint::Set => SAVEPOINTS,
            Savepoint::RollbackTo => ROLLBACKS,
            Savepoint::Release => RELEASES,
        };
        self.values().add(value, by);
    }

    /// Returns whether it is an XA transaction.
    #[inline(always)]
    pub(crate) fn is_xa(&self) -> bool {
        self.set.own() & 1 << XA != 0
    }

    /// Returns whether it is in progress and has only the values that all transactions have.
    #[inline(always)]
    pub(crate) fn is_usual(&self) -> bool {
        self.set.own() == USUAL
    }

    /// Ends a timed transaction that has only the values that all have, and records it for these histories,
    /// which are flags of a record.
    #[inline(always)]
    pub(crate) fn end_usual(
        &self,
        mut to: Appending<'_>,
        (end, end_event_id): (u64, u64),
        committed: bool,
        histories: u8,
    ) {
        let set = ended(USUAL, end_event_id, committed);
        self.set.store(set, Relaxed);
        self.end.store(end, Release);
        to.put_all([self.start.own(), self.source.own(), end, set]);
        to.put_all([NESTING, TRX_ID].map(|value| self.values[value].own()));
        to.show(self.record(histories));
    }

    /// Ends it, at `end` in ticks, or 1 if it was not timed.
    pub(crate) fn end(&self, end: u64, end_event_id: u64, committed: bool) {
        // A host may end one transaction more than once.
        let values = self.set.own() & SparseValues::<VALUES>::ALL;
        self.set.store(ended(values, end_event_id, committed), Relaxed);
        self.end.store(end, Release);
    }

    /// Ends an XA transaction, whose state changes at the same time.
    pub(crate) fn end_xa(&self, end: u64, end_event_id: u64, committed: bool) {
        /// XA COMMITTED and ROLLBACK ONLY in the interface's own numbers.
        const XA_STATES: [u8; 2] = [4, 3];
        self.version.change(|| {
            self.put_xa_state(XA_STATES[usize::from(!committed)]);
            self.end(end, end_event_id, committed);
        });
    }

    /// Returns where its record is to be written; `None`: the block is full.
    #[inline(always)]
    pub(crate) fn place<'a>(&self, ring: &'a Ring, base: Base) -> Option<Appending<'a>> {
        ring.append(base, HEAD + VALUES + 2 * PART_WORDS)
    }

    /// Records it for these histories.
    pub(crate) fn write(&self, mut to: Appending<'_>, histories: u8) {
        self.write_values(&mut to);
        let xa = self.values().get(XA);
        if xa != 0 {
            for (part, len) in [&self.gtrid, &self.bqual].into_iter().zip(parts_of(xa)) {
                to.copy(part.as_chunks().0, text::words(len));
            }
        }
        to.show(self.record(histories));
    }

    fn write_values(&self, to: &mut Appending<'_>) {
        let set = self.set.own();
        let [start, source, end] = [&self.start, &self.source, &self.end].map(Own::own);
        to.put_all([start, source, end, set]);
        self.values().write(set, to);
    }

    /// Returns the first word of its record.
    #[inline(always)]
    fn record(&self, histories: u8) -> u64 {
        self.what.own() | u64::from(histories) << FLAGS | TRANSACTION
    }
}

/// Returns the word that says which values are set, for the end of a transaction.
#[inline(always)]
fn ended(values: u64, end_event_id: u64, committed: bool) -> u64 {
    let state = if committed { TransactionState::Committed } else { TransactionState::RolledBack };
    values | (state as u64) << STATE | end_event_id << END_ID
}

/// Returns the lengths of the parts of an XA identifier, in bytes.
#[inline(always)]
fn parts_of(xa: u64) -> [usize; 2] {
    [GTRID_LEN, BQUAL_LEN].map(|at| (xa >> at) as usize & 0xFF)
}

/// A transaction, as a reader sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TransactionEvent {
    pub(crate) id: u64,
    pub(crate) end_event_id: u64,
    /// Id and type of the event it nests in.
    pub(crate) nesting: (u64, u8),
    /// The flag [`RECORD_TIMED`] and its neighbours.
    pub(crate) flags: u8,
    pub(crate) start: u64,
    /// The end in ticks; 0 while it lasts, 1 if it was not timed.
    pub(crate) end: u64,
    pub(crate) source: u64,
    pub(crate) state: TransactionState,
    pub(crate) read_only: bool,
    pub(crate) autocommit: bool,
    pub(crate) isolation: u8,
    pub(crate) trx_id: u64,
    /// The numbers of savepoints set, rolled back to, and released.
    pub(crate) savepoints: [u64; 3],
    /// The domain, server and sequence.
    pub(crate) gtid: (u32, u32, u64),
    /// The identifier's format and the state of an XA transaction.
    pub(crate) xa: Option<(i32, u8)>,
}

/// Both parts of an XA identifier; empty if there is none.
pub(crate) type XidParts<'a> = [CopiedText<'a>; 2];

/// Decodes the transactions in a block's words, in the order in which they ended.
pub(crate) fn decode<'a>(mut words: &'a [u64], mut each: impl FnMut(TransactionEvent, XidParts<'a>)) {
    while let Some((event, parts, rest)) = read(words) {
        each(event, parts);
        words = rest;
    }
}

/// Returns the transaction in the record at the beginning of these words, and the words behind it; `None`:
/// there is none.
fn read(words: &[u64]) -> Option<(TransactionEvent, XidParts<'_>, &[u64])> {
    let (head, rest) = words.split_first_chunk::<HEAD>()?;
    if kind(head[0]) != TRANSACTION {
        return None;
    }
    let (values, rest) = values::read(head[HEAD - 1], rest)?;
    let [gtrid, bqual] = parts_of(values[XA]);
    let (gtrid, rest) = CopiedText::first(rest, gtrid)?;
    let (bqual, rest) = CopiedText::first(rest, bqual)?;
    Some((event(head, &values), [gtrid, bqual], rest))
}

/// Returns the transaction of an [`OpenTransaction`] whose words a reader has copied.
pub(crate) fn read_open(words: &[u64; OPEN_WORDS]) -> Option<(TransactionEvent, XidParts<'_>)> {
    let (_version, words) = words.split_first()?;
    let (head, rest) = words.split_first_chunk::<HEAD>()?;
    let (values, rest) = rest.split_first_chunk()?;
    let values = values::known(head[HEAD - 1], values);
    let [gtrid, bqual] = parts_of(values[XA]);
    let (gtrid, _) = CopiedText::first(rest, gtrid)?;
    let (bqual, _) = CopiedText::first(rest.get(PART_WORDS..)?, bqual)?;
    Some((event(head, &values), [gtrid, bqual]))
}

fn event(&[what, start, source, end, set]: &[u64; HEAD], values: &[u64; VALUES]) -> TransactionEvent {
    let &[nesting, trx_id, savepoints, rolled_back, released, gtid, sequence, xa] = values;
    TransactionEvent {
        id: what >> ID,
        end_event_id: set >> END_ID,
        nesting: (nesting, EventType::Statement as u8),
        flags: (what >> FLAGS) as u8 & 7,
        start,
        end,
        source,
        state: match set >> STATE & 3 {
            _ if end == 0 => TransactionState::Active,
            2 => TransactionState::Committed,
            3 => TransactionState::RolledBack,
            _ => TransactionState::Active,
        },
        read_only: what & READ_ONLY != 0,
        autocommit: what & AUTOCOMMIT != 0,
        isolation: (what >> ISOLATION) as u8 & 0xF,
        trx_id,
        savepoints: [savepoints, rolled_back, released],
        gtid: (gtid as u32, (gtid >> 32) as u32, sequence),
        xa: (xa != 0).then_some(((xa as u32).cast_signed(), (xa >> XA_STATE) as u8)),
    }
}
