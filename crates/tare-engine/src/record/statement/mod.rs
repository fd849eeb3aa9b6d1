//! HOT PATH: statements: a level of the thread's stack while they run, a record when they end.

pub(crate) mod record;

use std::hint::cold_path;
use std::sync::atomic::{
    AtomicU32,
    Ordering::{Relaxed, Release},
};

use crate::Engine;
use crate::clock::ticks;
use crate::count::cell::{Counters, Family, StatementCell};
use crate::count::digest::DigestTokens;
use crate::instance::ProgramRef;
use crate::memory::arena::{Offset, Own, Use, WORDS};
use crate::memory::lost::Lost;
use crate::record::journal::parent;
use crate::record::ring::RingKind;
use crate::record::wait::{Source, kept};
use crate::setup::instrument::{ENABLED, STATEMENT, TIMED, UNRECORDED};
use crate::snapshot::{ClassId, EventType};
use crate::thread::filter::{ATTRIBUTED, CURRENT, DIGEST, HISTORY, LONG, UNATTRIBUTED};
use crate::thread::{BANK_OWN, BANK_UNATTRIBUTED, Thread, ThreadHandle, ThreadRef, current};
use record::{Begun, Digest, Ended, OpenStatement};

pub use record::MAX_SQL_TEXT;
pub(crate) use record::NAME_WORDS;

/// The ring of statements.
pub(crate) const STATEMENTS: RingKind =
    RingKind { used: Use::Statements, event: EventType::Statement, lost: Lost::StatementEvents };

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
    /// MYSQL_ERRNO, 0 for none; less than 2^24.
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
    /// Where its [`OpenStatement`] is.
    place: Offset,
}

impl Statement {
    /// Flags, place and thread, to be kept by the host.
    #[inline(always)]
    pub fn pack(self) -> (u32, u32, ThreadRef) {
        (self.flags, self.place, self.thread.handle())
    }

    /// The reverse of [`Statement::pack`].
    ///
    /// # Safety
    /// The three came from one `pack`, of a statement that has not ended, in this process. The calling thread is the one that
    /// runs it: nobody else writes to its slab and to the place meanwhile.
    #[allow(unsafe_code)]
    #[inline(always)]
    pub unsafe fn unpack(flags: u32, place: u32, thread: &'static ThreadHandle) -> Statement {
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
    fn open(self, engine: &Engine) -> &'static OpenStatement {
        engine.arena.at(self.place)
    }

    fn timed(self) -> bool {
        self.flags & u32::from(TIMED) != 0
    }

    /// EVENT_ID of the statement's event.
    pub fn event_id(self, engine: &Engine) -> u64 {
        self.open(engine).id()
    }
}

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
        let id = if recorded { thread.next_event_id() } else { 0 };
        let depth = thread.statement_depth.load(Relaxed) as usize;
        let Some(open) = self.level(thread, depth) else {
            self.losses.count(Lost::NestedStatements);
            return None;
        };
        let mut flags = u32::from(class) << 16 | (depth as u32) << 8;
        flags |= u32::from(switches & (ENABLED | TIMED));
        flags |= if mask & DIGEST != 0 { WITH_DIGEST } else { 0 };
        flags |= if mask & UNATTRIBUTED != 0 { OF_NOBODY } else { 0 };
        let (nesting, nesting_level) = self.statement_nesting(thread, depth);
        let timed = switches & TIMED != 0;
        let program = program.filter(|_| recorded).map(|program| program.slot(self));
        open.begin(&Begun { id, class, charset, timed, nesting, nesting_level, program });
        if recorded {
            flags |= RECORDED;
            let parent = parent(id, EventType::Statement as u32);
            thread.set_stage_parent(self.arena.base(), parent);
            thread.parent.store(parent, Relaxed);
        }
        thread.statement_depth.store(depth as u32 + 1, Relaxed);
        Some(Statement { thread, flags, place: self.arena.offset_of(open) })
    }

    /// The level at `depth`, made at its first use.
    #[inline(always)]
    fn level(&self, thread: &Thread, depth: usize) -> Option<&'static OpenStatement> {
        let level = thread.statement_levels.get(depth)?;
        match level.load(Relaxed) {
            0 => self.make_level(thread, level, depth),
            level => Some(self.arena.at(level)),
        }
    }

    #[cold]
    #[inline(never)]
    fn make_level(&self, thread: &Thread, level: &AtomicU32, depth: usize) -> Option<&'static OpenStatement> {
        if !self.losses.allow(Lost::NestedStatements, depth as u32) {
            return None;
        }
        let block = self.arena.take(Use::Statement, 0)?;
        self.arena.meta(block).owner.store(thread.thread_id.load(Relaxed), Relaxed);
        level.store(block * WORDS as u32, Release);
        Some(self.arena.at(block * WORDS as u32))
    }

    /// What a statement at `depth` nests in, and how deep.
    #[inline(always)]
    fn statement_nesting(&self, thread: &Thread, depth: usize) -> ((u64, EventType), u64) {
        let outer = depth.checked_sub(1).and_then(|outer| self.level(thread, outer));
        let (id, level) = outer.map_or((0, 0), |outer| (outer.id(), outer.nesting_level() + 1));
        match thread.transaction.open_id() {
            transaction if transaction > id => ((transaction, EventType::Transaction), level),
            _ => ((id, EventType::Statement), level),
        }
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
        statement.open(self).refine(class, switches & TIMED != 0);
        Some(Statement { flags, ..statement })
    }

    /// Forgets a statement.
    pub fn discard_statement(&self, statement: Statement) {
        statement.thread.statement_depth.store(statement.level_number() as u32, Relaxed);
    }

    /// The statement's clock starts.
    pub fn start_statement(&self, statement: Statement, schema: &[u8], source: Source) {
        let start = if statement.timed() { ticks() } else { 0 };
        statement.thread.statement_start.store(start, Relaxed);
        statement.open(self).start(start, schema, source.0);
    }

    /// SQL_TEXT; what is longer than the bound is cut, and says so.
    pub fn set_statement_text(&self, statement: Statement, sql: &[u8]) {
        if statement.flags & RECORDED == 0 {
            return;
        }
        statement.open(self).set_text(sql, self.sql_text_size.load(Relaxed) as usize);
    }

    /// Adds to a counter.
    #[inline(always)]
    pub fn add_statement_counter(&self, statement: Statement, counter: Counter, by: u64) {
        statement.open(self).values().add(counter as usize, by);
    }

    /// Sets a counter.
    #[inline(always)]
    pub fn set_statement_counter(&self, statement: Statement, counter: Counter, to: u64) {
        statement.open(self).values().put(counter as usize, to);
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
        let open = statement.open(self);
        let end = if statement.timed() { ticks() } else { 0 };
        let taken = statement.timed().then(|| end.saturating_sub(open.started()));
        for (counter, value) in [
            (Counter::Errors, outcome.errors),
            (Counter::Warnings, outcome.warnings),
            (Counter::RowsAffected, outcome.rows_affected),
        ] {
            if value != 0 {
                open.values().put(counter as usize, value);
            }
        }
        let counters = open.counters();
        let class = (flags >> 16) as ClassId;
        let bank = if flags & OF_NOBODY == 0 { BANK_OWN } else { BANK_UNATTRIBUTED };
        let cell = self.cell::<StatementCell>(thread, bank, class, Family::Statements);
        let digest = digest.filter(|_| flags & WITH_DIGEST != 0).and_then(|tokens| {
            let now = if end == 0 { ticks() } else { end };
            let cell = self.digest_seen(thread, tokens, open.schema(), now)?;
            Some((cell, tokens.charset))
        });
        StatementCell::add(cell, digest.map(|(digest, _)| &digest.cell), taken, counters);
        if flags & RECORDED != 0 {
            let bits = Thread::bits(thread.mask(), EventType::Statement);
            let digest = digest.map(|(digest, charset)| Digest {
                slot: digest.slot.own(),
                generation: digest.generation.own(),
                charset,
            });
            open.end(&Ended {
                end: end | u64::from(end == 0),
                end_event_id: thread.event_id.own() - 1,
                histories: kept(bits),
                errno: outcome.errno,
                sqlstate: outcome.sqlstate,
                message: outcome.message,
                digest,
            });
            if bits & (HISTORY | LONG) != 0 {
                self.record_statement(thread, open);
            }
        }
        thread.statement_depth.store(statement.level_number() as u32, Relaxed);
        (taken, counters)
    }

    /// Records an ended statement.
    #[inline(always)]
    fn record_statement(&self, thread: &'static Thread, open: &OpenStatement) {
        let (ring, base) = (&thread.statements, self.arena.base());
        if !open.write(ring, base) {
            cold_path();
            if self.advance(thread, ring, &STATEMENTS) {
                open.write(ring, base);
            }
        }
    }

    /// The statement at `depth` is not an event any more.
    pub(crate) fn hide_statement(&self, thread: &Thread, depth: usize) {
        if let Some(open) = self.level(thread, depth) {
            open.hide();
        }
    }

    /// EVENT_ID of the statement at `depth`, running or the last; 0: there is none.
    pub(crate) fn statement_event_id(&self, thread: &Thread, depth: usize) -> u64 {
        match thread.statement_levels.get(depth).map_or(0, |level| level.load(Relaxed)) {
            0 => 0,
            level => self.arena.at::<OpenStatement>(level).id(),
        }
    }

    /// The outermost statement of the thread's stack, running or the last: what new waits nest in when no
    /// stage runs, as [`parent`] makes it.
    #[inline(always)]
    pub(crate) fn outermost_statement(&self, thread: &Thread) -> u64 {
        match thread.statement_levels[0].load(Relaxed) {
            0 => parent(0, 0),
            level => parent(self.arena.at::<OpenStatement>(level).id(), EventType::Statement as u32),
        }
    }
}
