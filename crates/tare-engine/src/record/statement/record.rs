//! HOT PATH: what is written of statements: layout and writer; what reads it is in `decode`.
//!
//! While a statement lasts it has a block of its own ([`OpenStatement`]), in which it stays to be seen until the next one of
//! its level begins. What it was is recorded when it ends:
//!
//! | words | hold |
//! |---|---|
//! | the head | what and id, start, source, end, class and END_EVENT_ID, which values there are, lengths of the texts |
//! | one for each value | counters, what it nests in, digest, error: those that are not zero |
//! | texts | schema, SQL text, schema and name of the program, message: each begins with a word |
//!
//! A program's statements follow each other. Of one whose program was named before in its block, and no other since, the record
//! only says that.

use std::hint::cold_path;
use std::mem::offset_of;
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Relaxed, Release},
};

use tare_sync::Version;

use crate::count::cell::Counts;
use crate::count::counters::{COUNTERS, Counters, LARGEST};
use crate::memory::arena::{Base, LINE, Offset, Own, Use, View, WORDS};
use crate::memory::text;
use crate::record::journal::OWN_KINDS;
use crate::record::ring::{BEHIND, CHUNK, RECORD_TIMED, Ring};
use crate::record::statement::owner::Owner;
use crate::record::values::Values;
use crate::setup::instrument::TIMED;
use crate::snapshot::{ClassId, EventType};
use crate::thread::choice::Weight;
use crate::thread::memory::MemoryBefore;

/// The only kind of record there is of statements.
pub(super) const STATEMENT: u64 = OWN_KINDS;

/// Where the first word has what: flags as [`RECORD_TIMED`] and its neighbours, type of what it nests in, nesting level, id.
/// Of the flags only a record has those of the histories.
pub(super) const FLAGS: u32 = 3;
pub(super) const NESTING_TYPE: u32 = 6;
pub(super) const NESTING_LEVEL: u32 = 9;
pub(super) const ID: u32 = 16;
/// Where the word of the class has END_EVENT_ID.
pub(super) const END_ID: u32 = 16;
/// Where the word that says which values there are has the character sets of the text and of the digest's identifiers.
pub(super) const CHARSET: u32 = 32;
pub(super) const DIGEST_CHARSET: u32 = 48;
/// Where the word of lengths has whose, in the order of the texts; the program's type; whether the text was cut.
pub(super) const SCHEMA: Length = Length { at: 0, bits: 8 };
pub(super) const TEXT: Length = Length { at: 8, bits: 12 };
pub(super) const OBJECT_SCHEMA: Length = Length { at: 20, bits: 8 };
pub(super) const OBJECT_NAME: Length = Length { at: 28, bits: 8 };
const MESSAGE: Length = Length { at: 36, bits: 12 };
pub(super) const LENGTHS: [Length; 5] = [SCHEMA, TEXT, OBJECT_SCHEMA, OBJECT_NAME, MESSAGE];
/// Those of what few statements have: a program, a message.
const RARE: u64 = (1 << 48) - (1 << 20);
pub(super) const OBJECT_TYPE: u32 = 48;
pub(super) const TEXT_CUT: u64 = 1 << 56;
/// The program is the one named last in the block.
pub(super) const SAME_PROGRAM: u64 = 1 << 57;
/// Of an open statement: its text has not been copied. The first word of the text names the prepared statement that has it.
pub(super) const TEXT_PREPARED: u64 = 1 << 58;
/// The lengths of the program's names.
pub(super) const PROGRAM_NAMES: u64 =
    OBJECT_SCHEMA.mask() << OBJECT_SCHEMA.at | OBJECT_NAME.mask() << OBJECT_NAME.at;

/// A text's length, in bytes, in the word of lengths.
#[derive(Clone, Copy)]
pub(super) struct Length {
    at: u32,
    bits: u32,
}

impl Length {
    const fn mask(&self) -> u64 {
        (1 << self.bits) - 1
    }

    #[inline(always)]
    pub(super) const fn of(&self, lengths: u64) -> usize {
        (lengths >> self.at & self.mask()) as usize
    }

    /// Words of the text.
    #[inline(always)]
    pub(super) const fn words(&self, lengths: u64) -> usize {
        text::words(self.of(lengths))
    }

    /// Lengths in which this one is another.
    #[inline(always)]
    pub(super) const fn set(&self, lengths: u64, len: usize) -> u64 {
        lengths & !(self.mask() << self.at) | (len as u64) << self.at
    }
}

/// Words of the head.
pub(super) const HEAD: usize = 7;
/// Counters, and then the host's number of the statement, what it nests in, the digest's slot and generation, SQLSTATE and
/// number of the error. Those behind the counters share a line with the schema, and are as usual as that.
pub(super) const VALUES: usize = COUNTERS + 4;
pub(super) const STATEMENT_ID: usize = COUNTERS;
pub(super) const NESTING: usize = COUNTERS + 1;
pub(super) const DIGEST: usize = COUNTERS + 2;
pub(super) const ERROR: usize = COUNTERS + 3;
/// Where the number is.
pub(super) const ERRNO: u32 = 40;

/// Words of a schema or object name (64 characters of up to 3 bytes).
pub(crate) const NAME_WORDS: usize = 24;
/// Words of a message.
const MESSAGE_WORDS: usize = 48;
/// Words of SQL text: what a block has left, in whole chunks.
const TEXT_WORDS: usize = (WORDS - HEAD - VALUES - BEHIND - 3 * NAME_WORDS - MESSAGE_WORDS) / CHUNK * CHUNK;
/// The longest SQL text that can be kept, in bytes.
pub const MAX_SQL_TEXT: usize = TEXT_WORDS * 8;

// Lengths fit their bits.
const _: () = assert!(NAME_WORDS * 8 < 1 << SCHEMA.bits && MESSAGE_WORDS * 8 < 1 << MESSAGE.bits);
const _: () = assert!(MAX_SQL_TEXT < 1 << TEXT.bits);

/// A statement in progress, or the last one of its level: one block.
#[repr(C)]
pub(crate) struct OpenStatement {
    /// As in its record, but for the kind and the histories.
    what: AtomicU64,
    start: AtomicU64,
    source: AtomicU64,
    /// 0 while it lasts; of one that was not timed 1. Written last, and read before END_EVENT_ID.
    end: AtomicU64,
    class: AtomicU64,
    /// Which values there are, and until there is a digest where it is ([`super::parsed`]).
    pub(super) set: AtomicU64,
    pub(super) lengths: AtomicU64,
    /// Odd while it begins, and while other words change that are read together.
    pub(crate) version: Version,
    /// Its thread's alone: switches, what is to be done at its end, its level.
    pub(super) flags: AtomicU32,
    /// Likewise, where it is asked for: its thread's CPU time when it began, in nanoseconds.
    pub(super) cpu_start: AtomicU64,
    /// Likewise: what its session's memory was when it began.
    pub(super) memory: MemoryBefore,
    pub(super) values: [AtomicU64; VALUES],
    /// Schema, and behind it SQL text: as they are recorded.
    pub(super) texts: [AtomicU64; NAME_WORDS + TEXT_WORDS],
    pub(super) object_schema: [AtomicU64; NAME_WORDS],
    pub(super) object_name: [AtomicU64; NAME_WORDS],
    pub(super) message: [AtomicU64; MESSAGE_WORDS],
    _rest: [AtomicU64; WORDS - HEAD - 4 - VALUES - 3 * NAME_WORDS - MESSAGE_WORDS - TEXT_WORDS],
}

// SAFETY: atomics only, alignment 8, exactly a block.
#[allow(unsafe_code)]
unsafe impl View for OpenStatement {}
const _: () = assert!(size_of::<OpenStatement>() == WORDS * 8);
const _: () = assert!(
    (offset_of!(OpenStatement, values) + STATEMENT_ID * 8) / LINE == offset_of!(OpenStatement, texts) / LINE
);
const _: () = assert!(offset_of!(OpenStatement, texts) <= Use::Statement.zeroed() * 8);
// A block holds one of the longest records, and the end behind it.
const _: () = assert!(HEAD + VALUES + 3 * NAME_WORDS + MESSAGE_WORDS + TEXT_WORDS + BEHIND <= WORDS);

/// What a statement begins with.
pub(super) struct Begun<'a> {
    pub(super) class: ClassId,
    pub(super) charset: u32,
    /// Of its class.
    pub(super) switches: u8,
    /// Its level.
    pub(super) depth: usize,
    /// Id of the statement it nests in, or 0, and how deep.
    pub(super) nesting: (u64, u64),
    pub(super) owner: Option<Owner<'a>>,
}

/// What a statement's event knows of its digest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Digest {
    /// 0: it has none.
    pub(crate) slot: Offset,
    pub(crate) generation: u32,
    /// Number of the character set of its identifiers.
    pub(crate) charset: u32,
}

impl Digest {
    /// As a record has it: its value, and the word that says which values there are.
    pub(super) fn of(value: u64, set: u64) -> Digest {
        Digest {
            slot: value as u32,
            generation: (value >> 32) as u32,
            charset: (set >> DIGEST_CHARSET) as u32,
        }
    }
}

/// What its thread does with it.
impl OpenStatement {
    /// A statement begins, in an event with an id, or with none, and in a transaction if it is the innermost. Until its
    /// clock starts it has no time.
    #[inline(always)]
    pub(super) fn begin(&self, begun: &Begun<'_>, id: u64, transaction: u64) {
        let (outer, level) = begun.nesting;
        // Where it nests in nothing it does not matter in what.
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

    /// Its clock starts, before it has a text: the moment, or 0 where it has none. Who sees a length sees the text.
    #[inline(always)]
    pub(super) fn start(&self, schema: &[u8], source: u64, now: impl FnOnce() -> u64) -> u64 {
        self.source.store(source, Relaxed);
        let len = text::write(&self.texts[..NAME_WORDS], schema);
        self.lengths.store(SCHEMA.set(self.lengths.own(), len), Release);
        let start = now();
        self.start.store(start, Release);
        start
    }

    /// It turns out to be another one.
    #[inline(always)]
    pub(super) fn refine(&self, class: ClassId) {
        self.class.store(class.into(), Relaxed);
    }

    /// It is not timed any more.
    pub(super) fn forget_time(&self) {
        self.what.store(self.what.own() & !(7 << FLAGS), Relaxed);
        self.flags.store(self.flags.own() & !u32::from(TIMED), Relaxed);
    }

    #[inline(always)]
    pub(crate) fn is_timed(&self) -> bool {
        self.flags.own() & u32::from(TIMED) != 0
    }

    #[inline(always)]
    pub(crate) fn class(&self) -> ClassId {
        self.class.own() as ClassId
    }

    /// Where the SQL text is.
    #[inline(always)]
    pub(super) fn text(&self, lengths: u64) -> &[AtomicU64] {
        let first = SCHEMA.words(lengths);
        self.texts.get(first..first + TEXT_WORDS).unwrap_or_default()
    }

    /// SQL_TEXT, of which at most `bound` bytes are kept.
    #[inline(always)]
    pub(crate) fn set_text(&self, sql: &[u8], bound: usize) {
        self.version.change(|| {
            let lengths = self.lengths.own() & !(TEXT_CUT | TEXT_PREPARED);
            let len = text::write(self.text(lengths), &sql[..sql.len().min(bound)]);
            let cut = if len < sql.len() { TEXT_CUT } else { 0 };
            self.lengths.store(TEXT.set(lengths, len) | cut, Relaxed);
        });
    }

    /// As [`OpenStatement::set_text`], of a text in words that is itself `cut` or not.
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

    /// It is not an event any more.
    pub(crate) fn hide(&self) {
        self.version.change(|| self.what.store(self.what.own() & ((1 << ID) - 1), Relaxed));
    }

    #[inline(always)]
    pub(crate) fn values(&self) -> Values<'_, VALUES> {
        Values { set: &self.set, words: &self.values }
    }

    /// Counts it, once for each that wants to know: the same few lines of code each time. Few counters are not zero.
    #[inline(never)]
    pub(super) fn count(&self, stat: &Counts, counters: &Counters) {
        if self.is_timed() {
            stat.add(1, self.taken());
        } else {
            cold_path();
            stat.add_untimed(1);
        }
        let set = self.set.own();
        let mut left = set & ((1 << COUNTERS) - 1) & !(1 << LARGEST);
        while left != 0 {
            let at = left.trailing_zeros() as usize % 64;
            left &= left - 1;
            if let Some(counter) = self.values.get(at) {
                counters.add(at, counter.own());
            }
        }
        if set & 1 << LARGEST != 0 {
            cold_path();
            counters.raise(LARGEST, self.values[LARGEST].own());
        }
    }

    /// Counts it again, so many times more than once.
    #[cold]
    #[inline(never)]
    pub(super) fn count_again(&self, times: u64, stat: &Counts, counters: &Counters) {
        let taken = if self.is_timed() { self.taken() } else { 0 };
        stat.add_weighted(times, taken.wrapping_mul(times), Weight::ONE);
        let set = self.set.own();
        for at in (0..COUNTERS).filter(|at| *at != LARGEST && set & 1 << at != 0) {
            counters.add(at, self.values[at].own().wrapping_mul(times));
        }
    }

    /// EVENT_ID; 0: it is not recorded.
    #[inline(always)]
    pub(crate) fn id(&self) -> u64 {
        self.what.own() >> ID
    }

    pub(crate) fn nesting_level(&self) -> u64 {
        self.what.own() >> NESTING_LEVEL & 0x7F
    }

    /// When its clock started, in ticks; 0: it has not, or it has none.
    #[inline(always)]
    pub(super) fn started(&self) -> u64 {
        self.start.own()
    }

    /// When it ended; see [`OpenStatement::end`].
    #[inline(always)]
    pub(super) fn ended(&self) -> u64 {
        self.end.own()
    }

    /// How long it took, if it was timed.
    #[inline(always)]
    pub(super) fn taken(&self) -> u64 {
        self.taken_until(self.end.own())
    }

    /// How long it has taken until then.
    #[inline(always)]
    pub(super) fn taken_until(&self, end: u64) -> u64 {
        end.saturating_sub(self.start.own())
    }

    /// The current schema: its words, and how many bytes.
    #[inline(always)]
    pub(crate) fn schema(&self) -> (&[AtomicU64], usize) {
        (&self.texts[..NAME_WORDS], SCHEMA.of(self.lengths.own()))
    }

    /// How it ended.
    pub(super) fn fail(&self, errno: u32, sqlstate: Option<[u8; 5]>, message: &[u8]) {
        self.version.change(|| {
            if !message.is_empty() {
                let len = text::write(&self.message, message);
                self.lengths.store(MESSAGE.set(self.lengths.own(), len), Relaxed);
            }
            let state = sqlstate.map_or(0, |[a, b, c, d, e]| u64::from_le_bytes([a, b, c, d, e, 0, 0, 0]));
            self.values().put(ERROR, state | u64::from(errno) << ERRNO);
        });
    }

    /// STATEMENT_ID.
    #[inline(always)]
    pub(super) fn set_statement_id(&self, id: u64) {
        self.values().put(STATEMENT_ID, id);
    }

    /// Its text, how many bytes, the number of its character set, and whether it was cut.
    pub(crate) fn sql(&self) -> (&[AtomicU64], usize, u32, bool) {
        let lengths = self.lengths.own();
        (
            self.text(lengths),
            TEXT.of(lengths),
            (self.set.own() >> CHARSET) as u32 & 0xFFFF,
            lengths & TEXT_CUT != 0,
        )
    }

    /// Its digest, and the number of the character set of the identifiers.
    pub(super) fn set_digest(&self, slot: Offset, generation: u32, charset: u32) {
        self.version.change(|| {
            self.values[DIGEST].store(u64::from(slot) | u64::from(generation) << 32, Relaxed);
            let set = self.set.own() | 1 << DIGEST | u64::from(charset as u16) << DIGEST_CHARSET;
            self.set.store(set, Relaxed);
        });
    }

    /// It ends, in ticks, or 1 where it was not timed. Who sees the end sees the id.
    #[inline(always)]
    pub(super) fn end(&self, end: u64, end_event_id: u64) {
        self.class.store(u64::from(self.class()) | end_event_id << END_ID, Relaxed);
        self.end.store(end, Release);
    }

    /// Records it for these histories, as a record's flags have them, if it has nothing of what few statements have. False:
    /// it has, or the block is full.
    #[inline(always)]
    pub(super) fn write(&self, ring: &Ring, base: Base, histories: u8) -> bool {
        let lengths = self.lengths.own();
        if lengths & RARE != 0 {
            cold_path();
            return false;
        }
        self.write_with(ring, base, histories, lengths, [])
    }

    /// As [`OpenStatement::write`], if the only such thing is the program that was named last in the block.
    pub(super) fn write_of_same(&self, ring: &Ring, base: Base, histories: u8) -> bool {
        let lengths = self.lengths.own();
        lengths & RARE & !PROGRAM_NAMES == 0
            && self.write_with(ring, base, histories, lengths & !PROGRAM_NAMES | SAME_PROGRAM, [])
    }

    /// Whether it names a program.
    pub(super) fn names_program(&self) -> bool {
        self.lengths.own() & PROGRAM_NAMES != 0
    }

    /// Records it, whatever it has. False: the block is full.
    pub(super) fn write_long(&self, ring: &Ring, base: Base, histories: u8) -> bool {
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
