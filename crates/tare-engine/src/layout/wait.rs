//! HOT PATH: the records of waits: layout, writer and decoder.
//!
//! A *leaf* is a wait in which no other event begins. Its record is in the journal from its start, as the
//! last one, and is completed when it ends. Any other wait is noted in its thread's slab while it lasts
//! ([`OpenWait`]), and recorded when it ends.
//!
//! | record | words |
//! |---|---|
//! | leaf | what, source, object and ticks |
//! | leaf with an amount | and the amount |
//! | uncontended lock | what and object, source |
//! | other | what, source, address, id, start, parent, ticks, object, distance to END_EVENT_ID, amount |

use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};

use tare_sync::journal;

use crate::layout::journal::{EventJournal, Marks, OWN_KINDS, RecordReach, kind, parent_of};
use crate::layout::ring::{RECORD_HISTORY, RECORD_LONG, RECORD_TIMED};
use crate::memory::arena::{Base, Offset, Own};
use crate::memory::pool;
use crate::snapshot::ClassId;

/// The kinds of records: an unfinished leaf, a finished leaf, a leaf recorded elsewhere, any other wait, an
/// uncontended lock.
const LASTING: u64 = OWN_KINDS;
const LEAF: u64 = LASTING + 1;
const VOID: u64 = LASTING + 2;
const WIDE: u64 = LASTING + 3;
const FREE: u64 = LASTING + 4;

/// The positions in every first word: whether the histories want it, operation, class.
const HISTORIES: u32 = 3;
const OPERATION: u32 = 5;
const CLASS: u32 = 11;
/// The positions in a leaf's first word: whether it has an amount, distances of id and start from the base.
const LEAF_AMOUNT: u64 = 1 << 22;
const LEAF_ID: u32 = 23;
const LEAF_START: u32 = 32;
/// The positions in any other first word: index, whether it has an amount, whether it was timed.
const INDEX: u32 = 22;
const AMOUNT: u64 = 1 << 30;
const TIMED: u64 = 1 << 31;

/// The reach of a leaf from the last base.
pub(crate) const REACH: RecordReach =
    RecordReach { id_bits: LEAF_START - LEAF_ID, time_bits: 64 - LEAF_START };
/// The words of the longest record.
pub(crate) const MOST_WORDS: u32 = 9;

/// A wait, as a reader sees it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct WaitEvent {
    pub(crate) id: u64,
    pub(crate) end_event_id: u64,
    /// Id and type of the event it nests in.
    pub(crate) nesting: (u64, u8),
    pub(crate) class: ClassId,
    pub(crate) operation: u8,
    /// The index of a table; 255: none.
    pub(crate) index: u8,
    /// The flags [`RECORD_TIMED`], [`RECORD_HISTORY`] and [`RECORD_LONG`].
    pub(crate) flags: u8,
    pub(crate) start: u64,
    /// The end in ticks; 0 while it lasts, 1 if it was not timed.
    pub(crate) end: u64,
    pub(crate) source: u64,
    /// OBJECT_INSTANCE_BEGIN; `None`: the object knows it.
    pub(crate) address: Option<u64>,
    /// The slot of its object: see `pool::name`.
    pub(crate) object: u32,
    pub(crate) amount: Option<u64>,
}

/// Returns the part of a first word that says class and operation.
#[inline(always)]
const fn what(class: ClassId, operation: u8) -> u64 {
    (operation as u64) << OPERATION | (class as u64) << CLASS
}

/// Returns the operation in a first word.
#[inline(always)]
pub(crate) const fn operation_of(word: u64) -> u8 {
    (word >> OPERATION & 0x3F) as u8
}

/// Returns the part of a leaf's first word that says which histories want it, and the kind. It is never 0.
pub(crate) const fn leaf_of(flags: u8) -> u32 {
    ((flags & (RECORD_HISTORY | RECORD_LONG)) as u32) << (HISTORIES - 1) | LASTING as u32
}

/// Returns the histories in a word of [`leaf_of`].
#[inline(always)]
pub(crate) const fn histories_of(leaf: u32) -> u8 {
    (leaf >> (HISTORIES - 1)) as u8 & (RECORD_HISTORY | RECORD_LONG)
}

/// The amount that stands for none.
pub(crate) const NO_AMOUNT: u64 = u64::MAX;

/// A wait in progress that is no leaf: one cache line. `id` is written last at its start and cleared first at
/// its end.
#[repr(C)]
pub(crate) struct OpenWait {
    id: AtomicU64,
    /// The first word of its record.
    what: AtomicU64,
    start: AtomicU64,
    source: AtomicU64,
    object: AtomicU32,
    _pad: AtomicU32,
    address: AtomicU64,
    /// The event it nests in, encoded by [`crate::layout::journal::parent`].
    parent: AtomicU64,
    /// The amount, valid only if the first word says so.
    amount: AtomicU64,
}

/// What is known when a wait begins that is no leaf.
pub(crate) struct BegunWait {
    pub(crate) id: u64,
    /// The first word, encoded by [`first_word`].
    pub(crate) what: u64,
    /// The event it nests in, encoded by [`crate::layout::journal::parent`].
    pub(crate) parent: u64,
    pub(crate) source: u64,
    pub(crate) address: u64,
    pub(crate) object: u32,
}

/// Returns the first word of a record that is no leaf's, without an amount. `flags` are [`RECORD_TIMED`],
/// [`RECORD_HISTORY`], [`RECORD_LONG`].
#[inline(always)]
pub(crate) const fn first_word(class: ClassId, operation: u8, index: u8, flags: u8) -> u64 {
    let histories = (flags & (RECORD_HISTORY | RECORD_LONG)) as u64;
    let timed = (flags & RECORD_TIMED) as u64 * TIMED;
    WIDE | what(class, operation) | histories << (HISTORIES - 1) | (index as u64) << INDEX | timed
}

/// Returns the first word of a timed wait, less what [`leaf_of`] adds for the histories that want it.
#[inline(always)]
pub(crate) const fn usual_word(class: ClassId, operation: u8, index: u8) -> u32 {
    (first_word(class, operation, index, RECORD_TIMED) - LASTING) as u32
}

const _: () = assert!(RECORD_TIMED == 1);

impl OpenWait {
    /// Begins a wait.
    #[inline(always)]
    pub(crate) fn begin(&self, wait: &BegunWait, start: u64) {
        self.set_source(wait.source);
        self.set_object(wait.address, wait.object);
        self.set_parent(wait.parent);
        self.set_what(wait.what);
        self.show(wait.id, start);
    }

    /// Sets the place in the host's source where a wait begins.
    #[inline(always)]
    pub(crate) fn set_source(&self, source: u64) {
        self.source.store(source, Relaxed);
    }

    /// Sets what a wait nests in that begins.
    #[inline(always)]
    pub(crate) fn set_parent(&self, parent: u64) {
        self.parent.store(parent, Relaxed);
    }

    /// Sets the first word of a wait that begins, encoded by [`first_word`].
    #[inline(always)]
    pub(crate) fn set_what(&self, what: u64) {
        self.what.store(what, Relaxed);
    }

    /// Shows a wait to readers, once all of it is known.
    #[inline(always)]
    pub(crate) fn show(&self, id: u64, start: u64) {
        self.start.store(start, Relaxed);
        self.id.store(id, Release);
    }

    /// Removes a wait that has ended or never was.
    #[inline(always)]
    pub(crate) fn end(&self) {
        self.id.store(0, Release);
    }

    /// Returns the EVENT_ID, for the thread itself; 0: there is none.
    #[inline(always)]
    pub(crate) fn id(&self) -> u64 {
        self.id.own()
    }

    /// Returns the amount it ends with, for the thread itself: `at_its_end`, or the one known before if that
    /// is [`NO_AMOUNT`].
    #[inline(always)]
    pub(crate) fn amount(&self, at_its_end: u64) -> Option<u64> {
        let known = self.what.own() & AMOUNT != 0;
        match at_its_end {
            NO_AMOUNT => known.then(|| self.amount.own()),
            amount => Some(amount),
        }
    }

    /// Returns its start in ticks, for the thread itself.
    #[inline(always)]
    pub(crate) fn start(&self) -> u64 {
        self.start.own()
    }

    /// Returns the word of its start.
    #[inline(always)]
    pub(crate) fn began(&self) -> &AtomicU64 {
        &self.start
    }

    /// Sets its object, once that is known. Only the thread itself calls it.
    #[inline(always)]
    pub(crate) fn set_object(&self, address: u64, object: u32) {
        self.address.store(address, Relaxed);
        self.object.store(object, Relaxed);
    }

    /// Restarts it, with an amount that is known. Only the thread itself calls it.
    pub(crate) fn restart(&self, start: u64, source: u64, amount: u64) {
        self.start.store(start, Relaxed);
        self.source.store(source, Relaxed);
        self.amount.store(amount, Relaxed);
        self.what.store(self.what.own() | AMOUNT, Release);
    }

    /// Takes it out of histories that do not want it any more, given as [`RECORD_HISTORY`] and
    /// [`RECORD_LONG`].
    pub(crate) fn leave(&self, histories: u8) {
        self.what.store(self.what.own() & !(u64::from(histories) << (HISTORIES - 1)), Relaxed);
    }

    /// Returns what a reader sees of it; `None`: there is no wait, or it ended meanwhile.
    pub(crate) fn read(&self) -> Option<WaitEvent> {
        let id = self.id.load(Acquire);
        let (what, amount) = (self.what.load(Acquire), self.amount.load(Relaxed));
        let wait = WaitEvent {
            id,
            nesting: parent_of(self.parent.load(Relaxed)),
            index: (what >> INDEX) as u8,
            flags: common(what).flags | if what & TIMED != 0 { RECORD_TIMED } else { 0 },
            start: self.start.load(Relaxed),
            source: self.source.load(Relaxed),
            address: Some(self.address.load(Relaxed)),
            object: self.object.load(Relaxed),
            amount: Some(amount).filter(|_| what & AMOUNT != 0),
            ..common(what)
        };
        fence(Acquire);
        (id != 0 && self.id.load(Relaxed) == id).then_some(wait)
    }
}

/// Returns what every first word says.
fn common(word: u64) -> WaitEvent {
    WaitEvent {
        id: 0,
        end_event_id: 0,
        nesting: (0, 0),
        class: (word >> CLASS & 0x7FF) as ClassId,
        operation: operation_of(word),
        index: 255,
        flags: (word >> (HISTORIES - 1)) as u8 & (RECORD_HISTORY | RECORD_LONG),
        start: 0,
        end: 0,
        source: 0,
        address: None,
        object: 0,
        amount: None,
    }
}

/// Writes the record of a leaf that begins, and returns its start and its place. `None`: the journal is not
/// ready for it. `parent` is the event it nests in, and `began` returns when that began. `WORDS` is 4 with an
/// amount, otherwise 3.
///
/// `clock` is called as late as possible. Everything known before is written before, and takes no register
/// meanwhile.
#[inline(always)]
pub(crate) fn begin_leaf<const WORDS: usize>(
    journal: &EventJournal,
    base: Base,
    parent: u64,
    began: impl FnOnce() -> u64,
    leaf: impl FnOnce() -> Leaf,
    clock: impl FnOnce() -> u64,
) -> Option<(u64, Offset)> {
    let place = journal.place_in(base, WORDS as u32, parent, began)?;
    let (at, leaf) = (place as usize, leaf());
    base.word(at + 1).store(leaf.source, Relaxed);
    base.word(at + 2).store(u64::from(leaf.object), Relaxed);
    if WORDS == 4 {
        base.word(at + 3).store(0, Relaxed);
    }
    let amount = if WORDS == 4 { LEAF_AMOUNT } else { 0 };
    let id = journal.id(leaf.id);
    let what = what(leaf.class, leaf.operation) | amount | u64::from(leaf.usual) | id << LEAF_ID;
    let start = clock();
    let time = journal.time(start);
    if !REACH.has(id, time) {
        return None;
    }
    journal::show(base.word(at), what | time << LEAF_START, base.word(at + WORDS));
    journal.ring.set_next(place + WORDS as u32);
    journal.ring.count();
    Some((start, place))
}

/// Writes the record of an uncontended lock, if the journal is ready for it. It has no time: it came right
/// after the event before it. See also [`begin_leaf`].
#[inline(always)]
pub(crate) fn write_free(
    journal: &EventJournal,
    base: Base,
    parent: u64,
    began: impl FnOnce() -> u64,
    free: impl FnOnce() -> UncontendedLock,
) -> bool {
    let Some(place) = journal.place_in(base, 2, parent, began) else { return false };
    let free = free();
    let id = journal.id(free.id);
    if !REACH.has(id, 0) {
        return false;
    }
    let word = free.object | free.operation | u64::from(free.usual) | FREE | id << LEAF_ID;
    journal.append::<2, 3>(base, place, [word, free.source]);
    journal.ring.count();
    true
}

// Setting the bits of `FREE` turns an unfinished leaf, as `leaf_of` encodes it, into an uncontended lock.
const _: () = assert!(LASTING | FREE == FREE);
const _: () = assert!(CLASS == pool::CLASS && LEAF_START == pool::NAME);

/// An uncontended lock.
pub(crate) struct UncontendedLock {
    pub(crate) id: u64,
    /// The kind and the histories, encoded by [`leaf_of`].
    pub(crate) usual: u32,
    /// The operation, encoded by [`free_operation`].
    pub(crate) operation: u64,
    pub(crate) source: u64,
    /// The object, see [`pool::SlotHead::object`].
    pub(crate) object: u64,
}

/// Returns what the record of an uncontended lock says of the operation.
#[inline(always)]
pub(crate) const fn free_operation(operation: u8) -> u64 {
    (operation as u64) << OPERATION
}

/// A leaf that begins.
pub(crate) struct Leaf {
    pub(crate) id: u64,
    /// The kind and the histories, encoded by [`leaf_of`].
    pub(crate) usual: u32,
    pub(crate) class: ClassId,
    pub(crate) operation: u8,
    pub(crate) source: u64,
    /// The slot of its object: see `pool::name`.
    pub(crate) object: u32,
}

/// Completes the record of a leaf that ends. Returns false if it took too long for its record.
#[inline(always)]
pub(crate) fn end_leaf(base: Base, record: Offset, ticks: u64, amount: Option<u64>) -> bool {
    if ticks >> 32 != 0 {
        return false;
    }
    let [what, _, object] = base.at::<[AtomicU64; 3]>(record);
    if let Some(amount) = amount {
        base.at::<[AtomicU64; 4]>(record)[3].store(amount, Relaxed);
    }
    object.store(object.own() | ticks << 32, Relaxed);
    what.store(what.own() ^ (LASTING ^ LEAF), Release);
    true
}

/// Takes a leaf out of histories that do not want it any more, given as [`RECORD_HISTORY`] and
/// [`RECORD_LONG`].
pub(crate) fn leave_leaf(base: Base, record: Offset, histories: u8) {
    let [what] = base.at::<[AtomicU64; 1]>(record);
    what.store(what.own() & !(u64::from(histories) << (HISTORIES - 1)), Relaxed);
}

/// Takes an unfinished leaf, the last record, back from the journal and notes it in `open`, to be recorded
/// like other waits.
pub(crate) fn void_leaf(journal: &EventJournal, base: Base, record: Offset, parent: u64, open: &OpenWait) {
    let [what, source, object] = base.at::<[AtomicU64; 3]>(record);
    let leaf = read_leaf([what.own(), source.own(), object.own()], &journal.marks(parent_of(parent)));
    what.store(what.own() ^ (LASTING ^ VOID), Release);
    journal.ring.uncount();
    let begun = BegunWait {
        id: leaf.id,
        what: first_word(leaf.class, leaf.operation, 255, leaf.flags),
        parent,
        source: leaf.source,
        address: 0,
        object: leaf.object,
    };
    open.begin(&begun, leaf.start);
}

/// Writes the record of a wait that ends and is noted in `open`, if there is room.
#[inline(always)]
pub(crate) fn write_wide(journal: &EventJournal, base: Base, open: &OpenWait, ended: EndedWait) -> bool {
    let Some(place) = journal.place(MOST_WORDS) else { return false };
    write_wide_at(journal, base, place, open, ended);
    true
}

/// Writes the record of a wait that ends and is noted in `open`, at a place with enough room.
#[inline(always)]
pub(crate) fn write_wide_at(
    journal: &EventJournal,
    base: Base,
    place: Offset,
    open: &OpenWait,
    ended: EndedWait,
) {
    let at = place as usize;
    let put = |word: usize, value| base.word(at + word).store(value, Relaxed);
    put(1, open.source.own());
    put(2, open.address.own());
    let id = open.id.own();
    put(3, id);
    put(4, open.start.own());
    put(5, open.parent.own());
    put(6, ended.ticks);
    put(7, u64::from(open.object.own()) | ended.end_event_id.wrapping_sub(id) << 32);
    let (flag, words) = match ended.amount {
        Some(amount) => {
            put(8, amount);
            (AMOUNT, 9)
        }
        // The place of the amount becomes the end.
        None => (0, 8),
    };
    journal::show(base.word(at), open.what.own() | flag, base.word(at + words));
    journal.ring.set_next(place + words as u32);
    journal.ring.count();
}

/// The end of a wait.
#[derive(Clone, Copy)]
pub(crate) struct EndedWait {
    pub(crate) ticks: u64,
    pub(crate) amount: Option<u64>,
    pub(crate) end_event_id: u64,
}

/// Decodes the waits in a block's words, in the order in which their records begin. The last one may be
/// unfinished.
pub(crate) fn decode(mut words: &[u64], mut each: impl FnMut(WaitEvent)) {
    let mut marks = Marks::default();
    // When the last event with a time ended, or began.
    let mut now = 0;
    loop {
        let len = match marks.read(words) {
            Some(mark) => {
                now = now.max(marks.base_time).max(marks.parent_began);
                mark.words
            }
            None => match read(words, &marks, now) {
                Some((wait, len)) => {
                    if let Some(wait) = wait {
                        now = now.max(wait.start).max(wait.end);
                        each(wait);
                    }
                    len
                }
                None => return,
            },
        };
        words = &words[len..];
    }
}

/// Returns whether the last record before word `next` of a block may be an unfinished leaf. What it says is
/// only certain of the words of one that is none.
pub(crate) fn may_last(words: &[AtomicU64], next: usize) -> bool {
    let begins = |len: usize, amount: u64| {
        let word = next.checked_sub(len).and_then(|at| words.get(at));
        word.is_some_and(|word| {
            let word = word.load(Acquire);
            kind(word) == LASTING && word & LEAF_AMOUNT == amount
        })
    };
    begins(3, 0) || begins(4, LEAF_AMOUNT)
}

/// Returns an unfinished leaf, given its first three words.
fn read_leaf([word, source, object]: [u64; 3], marks: &Marks) -> WaitEvent {
    let common = common(word);
    WaitEvent {
        id: marks.base_id.wrapping_add(word >> LEAF_ID & ((1 << REACH.id_bits) - 1)),
        nesting: marks.parent,
        flags: common.flags | RECORD_TIMED,
        start: marks.base_time.wrapping_add(word >> LEAF_START),
        source,
        object: object as u32,
        ..common
    }
}

/// Returns the wait in the record at the beginning of these words, and the record's length; `None`: there is
/// none.
fn read(words: &[u64], marks: &Marks, now: u64) -> Option<(Option<WaitEvent>, usize)> {
    let word = *words.first()?;
    let common = common(word);
    match kind(word) {
        LASTING | LEAF | VOID => {
            let mut wait = read_leaf(*words.first_chunk()?, marks);
            let len = if word & LEAF_AMOUNT == 0 { 3 } else { 4 };
            let amount = *words.get(len - 1)?;
            if kind(word) == LEAF {
                wait.end_event_id = wait.id;
                wait.end = wait.start.wrapping_add(words[2] >> 32);
                wait.amount = Some(amount).filter(|_| len == 4);
            }
            Some((Some(wait).filter(|_| kind(word) != VOID), len))
        }
        FREE => {
            let mut wait = read_leaf([word, *words.get(1)?, word >> LEAF_START], marks);
            wait.end_event_id = wait.id;
            (wait.start, wait.end) = (now, now.max(1));
            Some((Some(wait), 2))
        }
        WIDE => {
            let [_, source, address, id, start, parent, ticks, object] = *words.first_chunk()?;
            let amount = if word & AMOUNT == 0 { None } else { Some(*words.get(8)?) };
            let len = if amount.is_some() { 9 } else { 8 };
            let timed = word & TIMED != 0;
            let wait = WaitEvent {
                id,
                end_event_id: id.wrapping_add(object >> 32),
                nesting: parent_of(parent),
                index: (word >> INDEX) as u8,
                flags: common.flags | if timed { RECORD_TIMED } else { 0 },
                start,
                end: if timed { start.wrapping_add(ticks) } else { 1 },
                source,
                address: Some(address).filter(|address| *address != 0),
                object: object as u32,
                amount,
                ..common
            };
            Some((Some(wait), len))
        }
        _ => None,
    }
}
