//! HOT PATH: the records of statements: layout and writer. The decoder is in `decode`.
//!
//! While a statement runs it has a block of its own ([`OpenStatement`]), in which it can be read until the
//! next one of its level begins. It is recorded when it ends:
//!
//! | words | hold |
//! |---|---|
//! | the head | what and id, start, source, end, class and END_EVENT_ID, which values are set, text lengths |
//! | one for each value | counters, what it nests in, digest, error: those that are not zero |
//! | texts | schema, SQL text, schema and name of the program, message: each begins with a word |
//!
//! A program's statements follow each other. If the program was already named in the block, and no other
//! since, the record only says that.

use std::hint::cold_path;
use std::mem::offset_of;
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Relaxed, Release},
};

use tare_sync::Seqlock;

use crate::layout::cell::{Counts, SampleWeight};
use crate::layout::counters::{COUNTERS, MAXIMA, StatementSums};
use crate::layout::journal::OWN_KINDS;
use crate::layout::owner::StatementOwner;
use crate::layout::ring::{BEHIND, CHUNK, RECORD_TIMED, Ring};
use crate::layout::session_memory::MemoryBefore;
use crate::layout::statement_flags::StatementFlags;
use crate::layout::values::SparseValues;
use crate::memory::arena::{ArenaView, Base, BlockUse, LINE, Offset, Own, WORDS};
use crate::memory::text;
use crate::setup::instrument::TIMED;
use crate::snapshot::{ClassId, EventType};

/// The only kind of record of statements.
pub(crate) const STATEMENT: u64 = OWN_KINDS;

/// The positions in the first word: flags ([`RECORD_TIMED`] and its neighbours), type of the event it nests
/// in, nesting level, id. Only a record has the flags of the histories.
pub(crate) const FLAGS: u32 = 3;
pub(crate) const NESTING_TYPE: u32 = 6;
pub(crate) const NESTING_LEVEL: u32 = 9;
pub(crate) const ID: u32 = 16;
/// The position of END_EVENT_ID in the word of the class.
pub(crate) const END_ID: u32 = 16;
/// The positions of the character sets of the text and of the digest's identifiers, in the word that says
/// which values are set.
pub(crate) const CHARSET: u32 = 32;
pub(crate) const DIGEST_CHARSET: u32 = 48;
/// The positions in the word of lengths: the texts in their order, the program's type, whether the text was
/// cut.
pub(crate) const SCHEMA: Length = Length { at: 0, bits: 8 };
pub(crate) const TEXT: Length = Length { at: 8, bits: 12 };
pub(crate) const OBJECT_SCHEMA: Length = Length { at: 20, bits: 8 };
pub(crate) const OBJECT_NAME: Length = Length { at: 28, bits: 8 };
const MESSAGE: Length = Length { at: 36, bits: 12 };
pub(crate) const LENGTHS: [Length; 5] = [SCHEMA, TEXT, OBJECT_SCHEMA, OBJECT_NAME, MESSAGE];
/// The lengths of texts that few statements have: of a program, of a message.
const RARE: u64 = (1 << 48) - (1 << 20);
pub(crate) const OBJECT_TYPE: u32 = 48;
pub(crate) const TEXT_CUT: u64 = 1 << 56;
/// The flag of a program that is the one named last in the block.
pub(crate) const SAME_PROGRAM: u64 = 1 << 57;
/// Of an open statement: its text has not been copied. The first word of the text names the prepared
/// statement that has it.
pub(crate) const TEXT_PREPARED: u64 = 1 << 58;
/// The lengths of the program's names.
pub(crate) const PROGRAM_NAMES: u64 =
    OBJECT_SCHEMA.mask() << OBJECT_SCHEMA.at | OBJECT_NAME.mask() << OBJECT_NAME.at;

/// A text's length in bytes, as a field of the word of lengths.
#[derive(Clone, Copy)]
pub(crate) struct Length {
    at: u32,
    bits: u32,
}

impl Length {
    const fn mask(&self) -> u64 {
        (1 << self.bits) - 1
    }

    #[inline(always)]
    pub(crate) const fn of(&self, lengths: u64) -> usize {
        (lengths >> self.at & self.mask()) as usize
    }

    /// Returns the number of words of the text.
    #[inline(always)]
    pub(crate) const fn words(&self, lengths: u64) -> usize {
        text::words(self.of(lengths))
    }

    /// Returns the word of lengths with this length set to `len`.
    #[inline(always)]
    pub(crate) const fn set(&self, lengths: u64, len: usize) -> u64 {
        lengths & !(self.mask() << self.at) | (len as u64) << self.at
    }
}

/// The words of the head.
pub(crate) const HEAD: usize = 7;
/// The values: counters, then STATEMENT_ID, what it nests in, the digest's slot and generation, SQLSTATE and
/// number of the error. Those after the counters share a cache line with the schema, which is needed as
/// often.
pub(crate) const VALUES: usize = COUNTERS + 4;
/// The mask of the counters whose maximum is kept.
const MAXIMA_SET: u64 = (1 << MAXIMA) - 1;
pub(crate) const STATEMENT_ID: usize = COUNTERS;
pub(crate) const NESTING: usize = COUNTERS + 1;
pub(crate) const DIGEST: usize = COUNTERS + 2;
pub(crate) const ERROR: usize = COUNTERS + 3;
/// The position of the error's number.
pub(crate) const ERRNO: u32 = 40;

/// The words of a schema or object name: 64 characters of up to 3 bytes.
pub(crate) const NAME_WORDS: usize = 24;
/// The words of a message.
const MESSAGE_WORDS: usize = 48;
/// The words of a statement in progress that are not recorded; they take the place of those behind a record.
const OWN: usize = BEHIND + 1;
/// The words of SQL text: the rest of a block, in whole chunks.
const TEXT_WORDS: usize = (WORDS - HEAD - VALUES - OWN - 3 * NAME_WORDS - MESSAGE_WORDS) / CHUNK * CHUNK;
/// The longest SQL text that can be kept, in bytes.
pub const MAX_SQL_TEXT: usize = TEXT_WORDS * 8;

// Lengths fit their bits.
const _: () = assert!(NAME_WORDS * 8 < 1 << SCHEMA.bits && MESSAGE_WORDS * 8 < 1 << MESSAGE.bits);
const _: () = assert!(MAX_SQL_TEXT < 1 << TEXT.bits);

/// A statement in progress, or the last one of its level, in a block of its own.
#[repr(C)]
pub(crate) struct OpenStatement {
    /// The first word of its record, without the kind and the histories.
    what: AtomicU64,
    start: AtomicU64,
    source: AtomicU64,
    /// The end in ticks; 0 while it runs, 1 if it was not timed. Written last, and read before END_EVENT_ID.
    end: AtomicU64,
    class: AtomicU64,
    /// The mask of the values that are set, and until there is a digest where its tokens are
    /// ([`crate::record::statement::parsed`]).
    pub(crate) set: AtomicU64,
    pub(crate) lengths: AtomicU64,
    /// The seqlock, odd while the statement begins and while other words change that belong together.
    pub(crate) version: Seqlock,
    /// The switches, what is to be done at its end, and its level. Only for its thread.
    flags: AtomicU32,
    /// The thread's CPU time when it began, in nanoseconds, if it is wanted. Only for its thread.
    pub(crate) cpu_start: AtomicU64,
    /// The session's memory when it began. Only for its thread.
    pub(crate) memory: MemoryBefore,
    pub(crate) values: [AtomicU64; VALUES],
    /// The schema and behind it the SQL text, as they are recorded.
    pub(crate) texts: [AtomicU64; NAME_WORDS + TEXT_WORDS],
    pub(crate) object_schema: [AtomicU64; NAME_WORDS],
    pub(crate) object_name: [AtomicU64; NAME_WORDS],
    pub(crate) message: [AtomicU64; MESSAGE_WORDS],
    _rest: [AtomicU64; WORDS - HEAD - OWN - VALUES - 3 * NAME_WORDS - MESSAGE_WORDS - TEXT_WORDS],
}

// SAFETY: meets `ArenaView`: atomics only, alignment 8, exactly a block.
#[allow(unsafe_code)]
unsafe impl ArenaView for OpenStatement {}
const _: () = assert!(size_of::<OpenStatement>() == WORDS * 8);
const _: () = assert!(
    (offset_of!(OpenStatement, values) + STATEMENT_ID * 8) / LINE == offset_of!(OpenStatement, texts) / LINE
);
const _: () = assert!(offset_of!(OpenStatement, texts) <= BlockUse::Statement.zeroed() * 8);
// A block holds one of the longest records, and the end behind it.
const _: () = assert!(HEAD + VALUES + 3 * NAME_WORDS + MESSAGE_WORDS + TEXT_WORDS + BEHIND <= WORDS);

/// What is known when a statement begins.
pub(crate) struct BegunStatement<'a> {
    pub(crate) class: ClassId,
    pub(crate) charset: u32,
    pub(crate) switches: u8,
    pub(crate) depth: usize,
    /// The id of the statement it nests in, or 0, and the nesting level.
    pub(crate) nesting: (u64, u64),
    pub(crate) owner: Option<StatementOwner<'a>>,
}

/// What a statement's event knows of its digest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct DigestRef {
    /// The place of its slot; 0: it has no digest.
    pub(crate) slot: Offset,
    pub(crate) generation: u32,
    /// The number of its identifiers' character set.
    pub(crate) charset: u32,
}

impl DigestRef {
    /// Decodes a record's value and its word that says which values are set.
    pub(crate) fn of(value: u64, set: u64) -> DigestRef {
        DigestRef {
            slot: value as u32,
            generation: (value >> 32) as u32,
            charset: (set >> DIGEST_CHARSET) as u32,
        }
    }
}

impl OpenStatement {
    /// Returns whether the statement with this EVENT_ID and start is in progress on this level; for readers.
    pub(crate) fn is_running(&self, id: u64, start: u64) -> bool {
        let now = [self.what.load(Relaxed) >> ID, self.start.load(Relaxed), self.end.load(Relaxed)];
        now == [id, start, 0]
    }
}

/// The operations of its thread.
impl OpenStatement {
    /// Begins a statement whose EVENT_ID is `id`; 0: it is no event. It nests in `transaction` if that began
    /// within the statement around it. It has no time until its clock starts.
    #[inline(always)]
    pub(crate) fn begin(&self, begun: &BegunStatement<'_>, id: u64, transaction: u64) {
        let (outer, level) = begun.nesting;
        // If it nests in nothing, the type does not matter.
        let (nesting, of) = match transaction {
            inner if inner >= outer => (inner, EventType::Transaction),
            _ => (outer, EventType::Statement),
        };
        let flags = u64::from(if begun.switches & TIMED != 0 { RECORD_TIMED } else { 0 });
        let what = flags << FLAGS | (of as u64) << NESTING_TYPE | level << NESTING_LEVEL;
        let nests = u64::from(nesting != 0) << NESTING;
        self.version.change(|| {
            self.what.store(what | id << ID, Relaxed);
            for word in [&self.start, &self.source, &self.end, &self.lengths] {
                word.store(0, Relaxed);
            }
            self.class.store(begun.class.into(), Relaxed);
            self.set.store(u64::from(begun.charset as u16) << CHARSET | nests, Relaxed);
            self.values[NESTING].store(nesting, Relaxed);
            if let Some(owner) = &begun.owner
                && id != 0
            {
                self.set_owner(owner);
            }
        });
    }

    /// Starts its clock, before it has a text. Returns the time in ticks, or 0 if it is not timed. Whoever
    /// sees the length of the schema sees its text.
    #[inline(always)]
    pub(crate) fn start(&self, schema: &[u8], source: u64, now: impl FnOnce() -> u64) -> u64 {
        self.source.store(source, Relaxed);
        let len = text::write(&self.texts[..NAME_WORDS], schema);
        self.lengths.store(SCHEMA.set(self.lengths.own(), len), Release);
        let start = now();
        self.start.store(start, Release);
        start
    }

    /// Changes the class.
    #[inline(always)]
    pub(crate) fn refine(&self, class: ClassId) {
        self.class.store(class.into(), Relaxed);
    }

    /// Returns the flags and the level.
    #[inline(always)]
    pub(crate) fn flags(&self) -> StatementFlags {
        StatementFlags::from_bits(self.flags.own())
    }

    #[inline(always)]
    pub(crate) fn set_flags(&self, flags: StatementFlags) {
        self.flags.store(flags.bits(), Relaxed);
    }

    /// Makes the statement untimed.
    pub(crate) fn forget_time(&self) {
        self.what.store(self.what.own() & !(7 << FLAGS), Relaxed);
        self.set_flags(self.flags().without(StatementFlags::TIMED));
    }

    #[inline(always)]
    pub(crate) fn is_timed(&self) -> bool {
        self.flags().has(StatementFlags::TIMED)
    }

    #[inline(always)]
    pub(crate) fn class(&self) -> ClassId {
        self.class.own() as ClassId
    }

    /// Returns the words for the SQL text.
    #[inline(always)]
    pub(crate) fn text(&self, lengths: u64) -> &[AtomicU64] {
        let first = SCHEMA.words(lengths);
        self.texts.get(first..first + TEXT_WORDS).unwrap_or_default()
    }

    /// Sets SQL_TEXT, of which at most `bound` bytes are kept.
    #[inline(always)]
    pub(crate) fn set_text(&self, sql: &[u8], bound: usize) {
        self.version.change(|| {
            let lengths = self.lengths.own() & !(TEXT_CUT | TEXT_PREPARED);
            let len = text::write(self.text(lengths), &sql[..sql.len().min(bound)]);
            let cut = if len < sql.len() { TEXT_CUT } else { 0 };
            self.lengths.store(TEXT.set(lengths, len) | cut, Relaxed);
        });
    }

    /// Sets SQL_TEXT from a text in words, which may itself be `cut`; at most `bound` bytes are kept.
    #[inline(always)]
    pub(crate) fn copy_text(&self, (from, len, cut): (&[AtomicU64], usize, bool), bound: usize) {
        let kept = len.min(bound);
        self.version.change(|| {
            let lengths = self.lengths.own() & !(TEXT_CUT | TEXT_PREPARED);
            for (to, from) in self.text(lengths).iter().zip(from).take(text::words(kept)) {
                to.store(from.own(), Relaxed);
            }
            let cut = if cut || kept < len { TEXT_CUT } else { 0 };
            self.lengths.store(TEXT.set(lengths, kept) | cut, Relaxed);
        });
    }

    /// Makes the statement no event any more.
    pub(crate) fn hide(&self) {
        self.version.change(|| self.what.store(self.what.own() & ((1 << ID) - 1), Relaxed));
    }

    #[inline(always)]
    pub(crate) fn values(&self) -> SparseValues<'_, VALUES> {
        SparseValues { set: &self.set, words: &self.values }
    }

    /// Counts the statement in one statistic. All statistics share these few lines of code. Few counters are
    /// not zero.
    #[inline(never)]
    pub(crate) fn count(&self, stat: &Counts, counters: &StatementSums) {
        if self.is_timed() {
            stat.add(1, self.taken());
        } else {
            cold_path();
            stat.add_untimed(1);
        }
        let set = self.set.own();
        let mut left = set & ((1 << COUNTERS) - 1) & !MAXIMA_SET;
        while left != 0 {
            let at = left.trailing_zeros() as usize % 64;
            left &= left - 1;
            if let Some(counter) = self.values.get(at) {
                counters.add(at, counter.own());
            }
        }
        if set & MAXIMA_SET != 0 {
            // Written out, because hosts of the extended shape always set the first one.
            const { assert!(MAXIMA == 2) };
            if set & 1 != 0 {
                counters.raise(0, self.values[0].own());
            }
            if set & 2 != 0 {
                cold_path();
                counters.raise(1, self.values[1].own());
            }
        }
    }

    /// Counts the statement `times` more times.
    #[cold]
    #[inline(never)]
    pub(crate) fn count_again(&self, times: u64, stat: &Counts, counters: &StatementSums) {
        let taken = if self.is_timed() { self.taken() } else { 0 };
        stat.add_weighted(times, taken.wrapping_mul(times), SampleWeight::ONE);
        let set = self.set.own();
        for at in (MAXIMA..COUNTERS).filter(|at| set & 1 << at != 0) {
            counters.add(at, self.values[at].own().wrapping_mul(times));
        }
    }

    /// Returns the EVENT_ID; 0: it is not recorded.
    #[inline(always)]
    pub(crate) fn id(&self) -> u64 {
        self.what.own() >> ID
    }

    /// Returns the id of the event in which it nests; 0: it nests in none.
    pub(crate) fn nesting_id(&self) -> u64 {
        self.values().get(NESTING)
    }

    pub(crate) fn nesting_level(&self) -> u64 {
        self.what.own() >> NESTING_LEVEL & 0x7F
    }

    /// Returns when its clock started, in ticks; 0: it has not started, or it is not timed.
    #[inline(always)]
    pub(crate) fn started(&self) -> u64 {
        self.start.own()
    }

    /// Returns its end in ticks; see [`OpenStatement::end`].
    #[inline(always)]
    pub(crate) fn ended(&self) -> u64 {
        self.end.own()
    }

    /// Returns its time in ticks, if it was timed.
    #[inline(always)]
    pub(crate) fn taken(&self) -> u64 {
        self.taken_until(self.end.own())
    }

    /// Returns its time until `end`, in ticks.
    #[inline(always)]
    pub(crate) fn taken_until(&self, end: u64) -> u64 {
        end.saturating_sub(self.start.own())
    }

    /// Returns the current schema: its words, and its length in bytes.
    #[inline(always)]
    pub(crate) fn schema(&self) -> (&[AtomicU64], usize) {
        (&self.texts[..NAME_WORDS], SCHEMA.of(self.lengths.own()))
    }

    /// Sets how it ended.
    pub(crate) fn fail(&self, errno: u32, sqlstate: Option<[u8; 5]>, message: &[u8]) {
        self.version.change(|| {
            if !message.is_empty() {
                let len = text::write(&self.message, message);
                self.lengths.store(MESSAGE.set(self.lengths.own(), len), Relaxed);
            }
            let state = sqlstate.map_or(0, |[a, b, c, d, e]| u64::from_le_bytes([a, b, c, d, e, 0, 0, 0]));
            self.values().put(ERROR, state | u64::from(errno) << ERRNO);
        });
    }

    /// Sets STATEMENT_ID.
    #[inline(always)]
    pub(crate) fn set_statement_id(&self, id: u64) {
        self.values().put(STATEMENT_ID, id);
    }

    /// Returns STATEMENT_ID; 0: it is not known.
    pub(crate) fn statement_id(&self) -> u64 {
        self.values().get(STATEMENT_ID)
    }

    /// Returns its text, the length in bytes, the number of its character set, and whether it was cut.
    pub(crate) fn sql(&self) -> (&[AtomicU64], usize, u32, bool) {
        let lengths = self.lengths.own();
        (
            self.text(lengths),
            TEXT.of(lengths),
            (self.set.own() >> CHARSET) as u32 & 0xFFFF,
            lengths & TEXT_CUT != 0,
        )
    }

    /// Sets its digest, and the number of the character set of the identifiers.
    pub(crate) fn set_digest(&self, slot: Offset, generation: u32, charset: u32) {
        self.version.change(|| {
            self.values[DIGEST].store(u64::from(slot) | u64::from(generation) << 32, Relaxed);
            let set = self.set.own() | 1 << DIGEST | u64::from(charset as u16) << DIGEST_CHARSET;
            self.set.store(set, Relaxed);
        });
    }

    /// Ends it, at `end` in ticks, or 1 if it was not timed. Whoever sees the end sees `end_event_id`.
    #[inline(always)]
    pub(crate) fn end(&self, end: u64, end_event_id: u64) {
        self.class.store(u64::from(self.class()) | end_event_id << END_ID, Relaxed);
        self.end.store(end, Release);
    }

    /// Records it for these histories, which are flags of a record. Returns false if it has rare texts, or if
    /// the block is full.
    #[inline(always)]
    pub(crate) fn write(&self, ring: &Ring, base: Base, histories: u8) -> bool {
        let lengths = self.lengths.own();
        if lengths & RARE != 0 {
            cold_path();
            return false;
        }
        self.write_with(ring, base, histories, lengths, [])
    }

    /// Records it if its only rare texts are the names of the program named last in the block. Returns false
    /// otherwise, or if the block is full.
    pub(crate) fn write_of_same(&self, ring: &Ring, base: Base, histories: u8) -> bool {
        let lengths = self.lengths.own();
        lengths & RARE & !PROGRAM_NAMES == 0
            && self.write_with(ring, base, histories, lengths & !PROGRAM_NAMES | SAME_PROGRAM, [])
    }

    /// Returns whether it names a program.
    pub(crate) fn names_program(&self) -> bool {
        self.lengths.own() & PROGRAM_NAMES != 0
    }

    /// Records it with all its texts. Returns false if the block is full.
    pub(crate) fn write_long(&self, ring: &Ring, base: Base, histories: u8) -> bool {
        let rare = [
            (OBJECT_SCHEMA, &self.object_schema[..]),
            (OBJECT_NAME, &self.object_name),
            (MESSAGE, &self.message),
        ];
        self.write_with(ring, base, histories, self.lengths.own(), rare)
    }

    #[inline(always)]
    fn write_with<const RARE: usize>(
        &self,
        ring: &Ring,
        base: Base,
        histories: u8,
        lengths: u64,
        rare: [(Length, &[AtomicU64]); RARE],
    ) -> bool {
        let texts = SCHEMA.words(lengths) + TEXT.words(lengths);
        let words = texts + rare.iter().map(|(length, _)| length.words(lengths)).sum::<usize>();
        let Some(mut to) = ring.append(base, HEAD + VALUES + words) else { return false };
        let head = [&self.start, &self.source, &self.end, &self.class, &self.set];
        let [start, source, end, class, set] = head.map(Own::own);
        to.put_all([start, source, end, class, set, lengths]);
        self.values().write(set, &mut to);
        to.copy_here(self.texts.as_chunks().0, texts);
        for (length, from) in rare {
            to.copy(from.as_chunks().0, length.words(lengths));
        }
        to.show(self.what.own() | u64::from(histories) << FLAGS | STATEMENT);
        true
    }
}
