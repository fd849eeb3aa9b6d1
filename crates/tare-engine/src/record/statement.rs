//! HOT PATH: statements: a level of the thread's stack while they run, a record when they end.

use std::sync::atomic::{
    AtomicU16, AtomicU32, AtomicU64,
    Ordering::{Relaxed, Release},
};

use tare_sync::{Version, record};

use crate::clock::ticks;
use crate::count::cell::{Counters, Family, StatementCell};
use crate::count::digest::DigestTokens;
use crate::instance::ProgramRef;
use crate::memory::arena::{Offset, Own, Use, View, WORDS};
use crate::memory::lost::Lost;
use crate::memory::text::{self, copy_own};
use crate::record::journal::parent;
use crate::record::ring::{LINE_WORDS, RECORD_TIMED, RingKind, STATEMENT_WORDS, StatementRecord};
use crate::record::wait::{Source, kept};
use crate::setup::instrument::{ENABLED, STATEMENT, TIMED, UNRECORDED};
use crate::snapshot::{ClassId, EventType};
use crate::thread::filter::{ATTRIBUTED, CURRENT, DIGEST, HISTORY, LONG, UNATTRIBUTED};
use crate::thread::{BANK_OWN, BANK_UNATTRIBUTED, Thread, ThreadHandle, ThreadRef, current};

/// The ring of statements.
pub(crate) const STATEMENTS: RingKind =
    RingKind { used: Use::Statements, event: EventType::Statement, lost: Lost::StatementEvents };

/// Words of a schema or object name (64 characters of up to 3 bytes).
pub(crate) const NAME_WORDS: usize = 24;
/// Words of a message.
pub(crate) const MESSAGE_WORDS: usize = 48;
/// Words of SQL text.
const TEXT_WORDS: usize = WORDS - STATEMENT_WORDS - 2 - 3 * NAME_WORDS - MESSAGE_WORDS;
/// The longest SQL text that can be kept, in bytes.
pub const MAX_SQL_TEXT: usize = TEXT_WORDS * 8;

/// A statement in progress or just ended: one block.
#[repr(C)]
pub(crate) struct Level {
    pub(crate) record: StatementRecord,
    /// Odd while more than one word changes.
    pub(crate) version: Version,
    _pad: AtomicU32,
    /// Which counters may be other than zero.
    counters_set: AtomicU64,
    pub(crate) schema: [AtomicU64; NAME_WORDS],
    pub(crate) object_schema: [AtomicU64; NAME_WORDS],
    pub(crate) object_name: [AtomicU64; NAME_WORDS],
    pub(crate) message: [AtomicU64; MESSAGE_WORDS],
    pub(crate) text: [AtomicU64; TEXT_WORDS],
}

// SAFETY: atomics only, alignment 8, exactly a block.
#[allow(unsafe_code)]
unsafe impl View for Level {}
const _: () = assert!(size_of::<Level>() == WORDS * 8);

/// Counters a host reports while a statement runs; the numbers are positions in the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Counter {
    /// In ticks of the engine's clock? No: in the host's microseconds.
    LockTime,
    Errors,
    Warnings,
    RowsAffected,
    RowsSent,
    RowsExamined,
    CreatedTmpDiskTables,
    CreatedTmpTables,
    SelectFullJoin,
    SelectFullRangeJoin,
    SelectRange,
    SelectRangeCheck,
    SelectScan,
    SortMergePasses,
    SortRange,
    SortRows,
    SortScan,
    NoIndexUsed,
    NoGoodIndexUsed,
}

/// How a statement ended, as the host's diagnostics area says.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome<'a> {
    /// MYSQL_ERRNO, 0 for none.
    pub errno: u32,
    /// RETURNED_SQLSTATE.
    pub sqlstate: Option<[u8; 5]>,
    /// MESSAGE_TEXT; empty: none.
    pub message: &'a [u8],
    /// 1 for a statement that failed.
    pub errors: u64,
    /// WARNINGS.
    pub warnings: u64,
    /// ROWS_AFFECTED.
    pub rows_affected: u64,
}

const RECORDED: u32 = 1 << 2;
const WITH_DIGEST: u32 = 1 << 3;
const OF_NOBODY: u32 = 1 << 4;

/// A statement in progress: what the host keeps between its calls.
#[derive(Clone, Copy)]
pub struct Statement {
    thread: &'static Thread,
    /// Switches, flags above, level << 8, class << 16.
    flags: u32,
    /// Where its level is.
    place: Offset,
}

impl Statement {
    /// Flags, place and thread, to be kept by the host.
    #[inline(always)]
    pub fn pack(self) -> (u32, u32, ThreadRef) {
        (self.flags, self.place, self.thread.handle())
    }

    /// The reverse of [`Statement::pack`].
    #[inline(always)]
    pub fn unpack(flags: u32, place: u32, thread: &'static ThreadHandle) -> Statement {
        Statement { thread: thread.slab(), flags, place }
    }

    /// Whether the digest is wanted.
    #[inline(always)]
    pub fn wants_digest(self) -> bool {
        self.flags & WITH_DIGEST != 0
    }

    #[inline(always)]
    pub(crate) fn thread(self) -> &'static Thread {
        self.thread
    }

    fn level_number(self) -> usize {
        (self.flags >> 8) as usize & 0xFF
    }

    #[inline(always)]
    fn level(self, engine: &Engine) -> &'static Level {
        engine.arena.at(self.place)
    }

    fn timed(self) -> bool {
        self.flags & u32::from(TIMED) != 0
    }

    /// EVENT_ID of the statement's event.
    pub fn event_id(self, engine: &Engine) -> u64 {
        self.level(engine).record.event_id.load(Relaxed)
    }
}

impl Level {
    fn change(&self, change: impl FnOnce()) {
        self.version.change(change);
    }

    #[inline(always)]
    fn set_counter(&self, counter: Counter, to: u64) {
        self.counters_set.store(self.counters_set.own() | 1 << counter as u8, Relaxed);
        self.record.counters[counter as usize].store(to, Relaxed);
    }

    #[inline(always)]
    fn counters(&'static self) -> Counters {
        Counters { words: &self.record.counters, set: self.counters_set.own() as u32 }
    }
}

use crate::Engine;

impl Engine {
    /// Begins a statement of the calling thread. `None`: nothing to do for it.
    pub fn open_statement(
        &self,
        class: ClassId,
        charset: u32,
        program: Option<ProgramRef>,
    ) -> Option<Statement> {
        let switches = self.registry.switches(class);
        if switches & (ENABLED | STATEMENT) != ENABLED | STATEMENT {
            return None;
        }
        let thread = current()?;
        let mask = thread.mask();
        if mask & (ATTRIBUTED | UNATTRIBUTED) == 0 {
            return None;
        }
        let recorded = Thread::bits(mask, EventType::Statement) & CURRENT != 0 && switches & UNRECORDED == 0;
        // Like the reference, an event that finds no place on the stack has used up its id.
        let event_id = if recorded { thread.next_event_id() } else { 0 };
        let depth = thread.statement_depth.load(Relaxed) as usize;
        let Some(level) = self.level(thread, depth) else {
            self.losses.count(Lost::NestedStatements);
            return None;
        };
        let mut flags = u32::from(class) << 16 | (depth as u32) << 8;
        flags |= u32::from(switches & (ENABLED | TIMED));
        flags |= if mask & DIGEST != 0 { WITH_DIGEST } else { 0 };
        flags |= if mask & UNATTRIBUTED != 0 { OF_NOBODY } else { 0 };
        level.change(|| self.reset_level(thread, level, depth, event_id, class, charset, switches));
        if recorded {
            flags |= RECORDED;
            if let Some(program) = program {
                level.change(|| self.set_statement_program(level, program));
            }
            let parent = parent(event_id, EventType::Statement as u32);
            thread.set_stage_parent(parent);
            thread.parent.store(parent, Relaxed);
        }
        thread.statement_depth.store(depth as u32 + 1, Relaxed);
        Some(Statement { thread, flags, place: self.arena.offset_of(level) })
    }

    /// The level at `depth`, made at its first use.
    fn level(&self, thread: &Thread, depth: usize) -> Option<&'static Level> {
        let level = thread.statement_levels.get(depth)?;
        if level.load(Relaxed) == 0 {
            if !self.losses.allow(Lost::NestedStatements, depth as u32) {
                return None;
            }
            let block = self.arena.take(Use::Statement, 0)?;
            self.arena.meta(block).owner.store(thread.thread_id.load(Relaxed), Relaxed);
            level.store(block * WORDS as u32, Release);
        }
        Some(self.arena.at(level.load(Relaxed)))
    }

    #[allow(clippy::too_many_arguments)]
    fn reset_level(
        &self,
        thread: &Thread,
        level: &'static Level,
        depth: usize,
        event_id: u64,
        class: ClassId,
        charset: u32,
        switches: u8,
    ) {
        let record = &level.record;
        let (mut nesting_id, mut nesting_type, mut nesting_level) = (0, EventType::Statement, 0);
        if depth > 0
            && let Some(outer) = self.level(thread, depth - 1)
        {
            nesting_id = outer.record.event_id.load(Relaxed);
            nesting_level = outer.record.nesting_level.load(Relaxed) + 1;
        }
        if thread.transaction_open.load(Relaxed) != 0 {
            let transaction = thread.transaction.event_id.load(Relaxed);
            if transaction > nesting_id {
                (nesting_id, nesting_type) = (transaction, EventType::Transaction);
            }
        }
        record.event_id.store(event_id, Relaxed);
        record.nesting_level.store(nesting_level, Relaxed);
        record.nesting_type.store(nesting_type as u8, Relaxed);
        record.flags.store(if switches & TIMED != 0 { RECORD_TIMED } else { 0 }, Relaxed);
        for word in [&record.start, &record.end, &record.source, &record.end_event_id, &record.sqlstate] {
            word.store(0, Relaxed);
        }
        record.nesting_id.store(nesting_id, Relaxed);
        record.class.store(class, Relaxed);
        record.sqlstate_len.store(0, Relaxed);
        record.object_type.store(0, Relaxed);
        record.errno.store(0, Relaxed);
        record.digest.store(0, Relaxed);
        for len in
            [&record.schema_len, &record.message_len, &record.object_schema_len, &record.object_name_len]
        {
            len.store(0, Relaxed);
        }
        record.text_len.store(0, Relaxed);
        record.text_cut.store(0, Relaxed);
        level.counters().each(|at, _| record.counters[at].store(0, Relaxed));
        level.counters_set.store(0, Relaxed);
        record.charset.store(charset, Relaxed);
    }

    fn set_statement_program(&self, level: &Level, program: ProgramRef) {
        let program = program.slot(self);
        let record = &level.record;
        record.object_type.store(program.object_type(), Relaxed);
        let copy = |to: &[AtomicU64], from: &[AtomicU64], len: usize| {
            for (to, from) in to.iter().zip(from).take(text::words(len)) {
                to.store(from.load(Relaxed), Relaxed);
            }
            len.min(to.len() * 8) as u16
        };
        let (schema, schema_len, name, name_len) = program.name_words();
        record.object_schema_len.store(copy(&level.object_schema, schema, schema_len), Relaxed);
        record.object_name_len.store(copy(&level.object_name, name, name_len), Relaxed);
    }

    /// Changes what the statement is, once it is parsed. `None`: the instrument it became is off, and the
    /// statement is forgotten.
    pub fn refine_statement(&self, statement: Statement, class: ClassId) -> Option<Statement> {
        let switches = self.registry.switches(class);
        if switches & (ENABLED | STATEMENT) != ENABLED | STATEMENT {
            self.discard_statement(statement);
            return None;
        }
        let mut flags = statement.flags & 0xFFFF | u32::from(class) << 16;
        if switches & TIMED == 0 {
            flags &= !u32::from(TIMED);
        }
        let record = &statement.level(self).record;
        record.class.store(class, Relaxed);
        if switches & TIMED == 0 {
            record.flags.store(0, Relaxed);
        }
        Some(Statement { flags, ..statement })
    }

    /// Forgets a statement.
    pub fn discard_statement(&self, statement: Statement) {
        statement.thread.statement_depth.store(statement.level_number() as u32, Relaxed);
    }

    /// The statement's clock starts.
    pub fn start_statement(&self, statement: Statement, schema: &[u8], source: Source) {
        let level = statement.level(self);
        let start = if statement.timed() { ticks() } else { 0 };
        statement.thread.statement_start.store(start, Relaxed);
        level.change(|| {
            let record = &level.record;
            record.start.store(start, Relaxed);
            record.source.store(source.0, Relaxed);
            record.schema_len.store(text::write(&level.schema, schema) as u16, Relaxed);
        });
    }

    /// SQL_TEXT; what is longer than the bound is cut, and says so.
    pub fn set_statement_text(&self, statement: Statement, sql: &[u8]) {
        if statement.flags & RECORDED == 0 {
            return;
        }
        let level = statement.level(self);
        let bound = self.sql_text_size.load(Relaxed) as usize;
        level.change(|| {
            let written = text::write(&level.text, &sql[..sql.len().min(bound)]);
            level.record.text_len.store(written as u32, Relaxed);
            level.record.text_cut.store(u32::from(written < sql.len()), Relaxed);
        });
    }

    /// Adds to a counter.
    #[inline(always)]
    pub fn add_statement_counter(&self, statement: Statement, counter: Counter, by: u64) {
        let level = statement.level(self);
        level.set_counter(counter, level.record.counters[counter as usize].own().wrapping_add(by));
    }

    /// Sets a counter.
    #[inline(always)]
    pub fn set_statement_counter(&self, statement: Statement, counter: Counter, to: u64) {
        statement.level(self).set_counter(counter, to);
    }

    /// Ends a statement. Returns its duration in ticks (0 where untimed) and its counters, for the program
    /// or the prepared statement it belongs to.
    pub fn end_statement(
        &self,
        statement: Statement,
        outcome: &Outcome<'_>,
        digest: Option<&DigestTokens<'_>>,
    ) -> (Option<u64>, Counters) {
        let Statement { thread, flags, .. } = statement;
        let level = statement.level(self);
        let record = &level.record;
        let end = if statement.timed() { ticks() } else { 0 };
        let taken = end.saturating_sub(record.start.load(Relaxed));
        let ticks = statement.timed().then_some(taken);
        for (counter, value) in [
            (Counter::Errors, outcome.errors),
            (Counter::Warnings, outcome.warnings),
            (Counter::RowsAffected, outcome.rows_affected),
        ] {
            if value != 0 {
                level.set_counter(counter, value);
            }
        }
        let counters = level.counters();
        let class = (flags >> 16) as ClassId;
        let bank = if flags & OF_NOBODY == 0 { BANK_OWN } else { BANK_UNATTRIBUTED };
        if let Some(cell) = self.cell::<StatementCell>(thread, bank, class, Family::Statements) {
            cell.add(ticks, counters);
        }
        if let Some(tokens) = digest.filter(|_| flags & WITH_DIGEST != 0) {
            let schema = (&level.schema[..], record.schema_len.load(Relaxed) as usize);
            let now = if end == 0 { crate::clock::ticks() } else { end };
            let slot = self.count_digest(thread, tokens, schema, now, ticks, counters);
            if let Some((slot, generation)) = slot {
                record.digest_generation.store(generation, Relaxed);
                record.digest.store(slot, Relaxed);
                record.digest_charset.store(tokens.charset, Relaxed);
            }
        }
        if flags & RECORDED != 0 {
            level.change(|| {
                let message = text::write(&level.message, outcome.message);
                record.message_len.store(message as u16, Relaxed);
                record.errno.store(outcome.errno, Relaxed);
                if let Some(state) = outcome.sqlstate {
                    let [a, b, c, d, e] = state;
                    record.sqlstate.store(u64::from_le_bytes([a, b, c, d, e, 0, 0, 0]), Relaxed);
                    record.sqlstate_len.store(5, Relaxed);
                }
                record.end_event_id.store(thread.event_id.load(Relaxed) - 1, Relaxed);
                record.end.store(end | u64::from(end == 0), Relaxed);
            });
            self.record_statement(thread, level);
        }
        thread.statement_depth.store(statement.level_number() as u32, Relaxed);
        (ticks, counters)
    }

    /// Copies an ended statement to the thread's ring.
    fn record_statement(&self, thread: &'static Thread, level: &Level) {
        let bits = Thread::bits(thread.mask(), EventType::Statement);
        if bits & (HISTORY | LONG) == 0 {
            return;
        }
        let record = &level.record;
        record.flags.store(record.flags.load(Relaxed) | kept(bits), Relaxed);
        let base = self.arena.base();
        let len = |len: &AtomicU16| text::words(usize::from(len.load(Relaxed)));
        let texts: [(&[AtomicU64], usize); 5] = [
            (&level.schema, len(&record.schema_len)),
            (&level.object_schema, len(&record.object_schema_len)),
            (&level.object_name, len(&record.object_name_len)),
            (&level.message, len(&record.message_len)),
            (&level.text, text::words(record.text_len.load(Relaxed) as usize)),
        ];
        let words = STATEMENT_WORDS + texts.iter().map(|(_, words)| words).sum::<usize>();
        let lines = (words as u32).div_ceil(LINE_WORDS);
        let Some(offset) = self.statement_lines(thread, lines * LINE_WORDS) else { return };
        record.lines.store(lines, Relaxed);
        let place = self.arena.slice(offset, words);
        let (head, mut rest) = place.split_at(STATEMENT_WORDS);
        let from = self.arena.slice(self.arena.offset_of(level), STATEMENT_WORDS);
        copy_own(&head[1..], &from[1..]);
        for (text, words) in texts {
            let (to, after) = rest.split_at(words.min(rest.len()));
            copy_own(to, text);
            rest = after;
        }
        record::publish(&place[0], thread.statements.stamp(record.event_id.load(Relaxed)));
        // The next one will be of about the same size.
        for line in 0..lines {
            base.expect_write_behind(offset + (lines + line - 2) * LINE_WORDS);
        }
    }

    fn statement_lines(&self, thread: &'static Thread, words: u32) -> Option<Offset> {
        let ring = &thread.statements;
        ring.lines(&self.arena, words).or_else(|| {
            if self.advance(thread, ring, &STATEMENTS) { ring.lines(&self.arena, words) } else { None }
        })
    }

    /// The statement at `depth` is not an event any more.
    pub(crate) fn hide_statement(&self, thread: &Thread, depth: usize) {
        if let Some(level) = self.level(thread, depth) {
            level.change(|| level.record.event_id.store(0, Relaxed));
        }
    }

    /// The outermost statement of the thread's stack, running or the last: what new waits nest in when no
    /// stage runs, as [`parent`] makes it.
    pub(crate) fn outermost_statement(&self, thread: &Thread) -> u64 {
        match thread.statement_levels[0].load(Relaxed) {
            0 => parent(0, 0),
            level => {
                let level: &Level = self.arena.at(level);
                parent(level.record.event_id.load(Relaxed), EventType::Statement as u32)
            }
        }
    }
}
