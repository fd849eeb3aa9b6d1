//! HOT PATH: statements: a level of the thread's stack while they run, a record when they end.

mod cpu;
pub(crate) mod record;

use std::ffi::c_void;
use std::hint::cold_path;
use std::sync::atomic::{
    AtomicU32,
    Ordering::{Relaxed, Release},
};

use crate::Engine;
use crate::clock::ticks;
use crate::count::bank::place;
use crate::count::cell::{CellHead, Counts, Family, StatementCell};
use crate::count::counters::{COUNTERS, Counters, LARGEST};
use crate::count::digest::{DigestCell, DigestTokens};
use crate::count::sample::Candidate;
use crate::instance::ProgramRef;
use crate::memory::arena::{Base, Own, Use, WORDS};
use crate::memory::lost::Lost;
use crate::record::journal::parent;
use crate::record::ring::RingKind;
use crate::record::stage::record::REACH;
use crate::record::wait::{Source, kept};
use crate::setup::instrument::{ENABLED, STATEMENT, TIMED, UNRECORDED};
use crate::snapshot::{ClassId, EventType};
use crate::thread::filter::{
    ATTRIBUTED, CPU_TIME, CURRENT, DIGEST, HISTORY, LONG, SESSION_MEMORY, SPREAD, UNATTRIBUTED,
};
use crate::thread::{BANK_OWN, BANK_UNATTRIBUTED, Thread, ThreadRef, current};
use record::{Begun, OpenStatement, Owner};

pub use record::MAX_SQL_TEXT;
pub(crate) use record::{NAME_WORDS, NamedProgram};

/// The ring of statements.
pub(crate) const STATEMENTS: RingKind =
    RingKind { used: Use::Statements, event: EventType::Statement, lost: Lost::StatementEvents };

/// Counters a host reports while a statement runs; the numbers are positions in the record. Those that most statements have
/// come first: they share a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Counter {
    /// The most bytes its session had while it ran; counted by the engine.
    TotalMemory,
    /// In microseconds, as the host counts it.
    LockTime,
    RowsSent,
    RowsExamined,
    SelectRange,
    Errors,
    Warnings,
    RowsAffected,
    CreatedTmpDiskTables,
    CreatedTmpTables,
    SelectFullJoin,
    SelectFullRangeJoin,
    SelectRangeCheck,
    SelectScan,
    SortMergePasses,
    SortRange,
    SortRows,
    SortScan,
    NoIndexUsed,
    NoGoodIndexUsed,
    /// In nanoseconds; counted by the engine.
    CpuTime,
}

const _: () = assert!(WANTED << MASK < 1 << LEVEL);
const _: () = assert!(Counter::TotalMemory as usize == LARGEST && Counter::CpuTime as usize + 1 == COUNTERS);

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

// A statement's flags: TIMED, and these.
const RECORDED: u32 = 1 << 2;
/// What they have of the mask, and where.
const WANTED: u32 = UNATTRIBUTED | DIGEST | SESSION_MEMORY | CPU_TIME | SPREAD;
const MASK: u32 = 2;
const OF_NOBODY: u32 = UNATTRIBUTED << MASK;
const WITH_DIGEST: u32 = DIGEST << MASK;
const WITH_MEMORY: u32 = SESSION_MEMORY << MASK;
const WITH_CPU: u32 = CPU_TIME << MASK;
const WITH_HISTOGRAM: u32 = SPREAD << MASK;
/// Where a statement's flags have the level.
const LEVEL: u32 = 9;

/// A statement in progress: what the host keeps between its calls.
#[derive(Clone, Copy)]
pub struct Statement {
    open: &'static OpenStatement,
    thread: &'static Thread,
}

/// A statement that has ended, until its thread's next one begins: for the program or the prepared statement it belongs to.
#[derive(Clone, Copy)]
pub struct EndedStatement {
    open: &'static OpenStatement,
    /// How long it took, in ticks.
    taken: u64,
}

impl EndedStatement {
    /// How long it took, in ticks; `None`: nobody asked.
    #[inline(always)]
    pub(crate) fn taken(self) -> Option<u64> {
        self.open.is_timed().then_some(self.taken)
    }

    /// Counts it. The caller is the only writer.
    #[inline(always)]
    pub(crate) fn count(self, stat: &Counts, counters: &Counters) {
        self.open.count(self.taken, stat, counters);
    }
}

impl Statement {
    /// Two addresses, to be kept by the host; neither is null.
    #[inline(always)]
    pub fn pack(self) -> (*mut c_void, ThreadRef) {
        (std::ptr::from_ref(self.open).cast_mut().cast(), self.thread.handle())
    }

    /// The reverse of [`Statement::pack`]; `None` where the first one is null.
    ///
    /// # Safety
    /// The first one is null, or both came from one `pack`, of a statement that has not ended, in this process. The calling
    /// thread is the one that runs it: nobody else writes to its slab and to the place meanwhile.
    #[allow(unsafe_code)]
    #[inline(always)]
    pub unsafe fn unpack(place: *const c_void, thread: *const c_void) -> Option<Statement> {
        if place.is_null() {
            return None;
        }
        // SAFETY: the caller's promise; levels and slabs lie in the arena, which is never unmapped.
        let (open, thread) = unsafe { (&*place.cast::<OpenStatement>(), &*thread.cast::<Thread>()) };
        Some(Statement { open, thread })
    }

    /// Whether the digest is wanted.
    #[inline(always)]
    pub fn wants_digest(self) -> bool {
        self.open.flags.own() & WITH_DIGEST != 0
    }

    #[inline(always)]
    pub(crate) fn thread(self) -> &'static Thread {
        self.thread
    }

    /// EVENT_ID of the statement's event.
    pub fn event_id(self) -> u64 {
        self.open.id()
    }
}

/// Whether a statement is an event.
#[inline(always)]
fn is_recorded(mask: u32, switches: u8) -> bool {
    Thread::bits(mask, EventType::Statement) & CURRENT != 0 && switches & UNRECORDED == 0
}

#[inline(always)]
fn begin_statement(
    base: Base,
    thread: &'static Thread,
    open: &'static OpenStatement,
    mask: u32,
    begun: &Begun<'_>,
) -> Statement {
    let mut flags = u32::from(begun.switches & TIMED) | (begun.depth as u32) << LEVEL;
    flags |= (mask & WANTED) << MASK;
    if mask & SESSION_MEMORY != 0 {
        cold_path();
        match begun.depth {
            0 => thread.memory.begin(),
            _ => thread.memory.begin_nested(&open.memory),
        }
    }
    thread.statement_depth.store(begun.depth as u32 + 1, Relaxed);
    let mut id = 0;
    if is_recorded(mask, begun.switches) {
        flags |= RECORDED;
        id = thread.next_event_id();
        let parent = parent(id, EventType::Statement as u32);
        thread.set_stage_parent(base, parent);
        thread.parent.store(parent, Relaxed);
    }
    open.flags.store(flags, Relaxed);
    open.begin(begun, id, thread.transaction.open_id());
    Statement { open, thread }
}

/// The program whose names the statement's level has; 0: none.
#[inline(always)]
fn named_at(thread: &Thread, open: &OpenStatement) -> u64 {
    let depth = (open.flags.own() >> LEVEL) as usize;
    thread.named_levels.get(depth).map_or(0, |named| named.program.own())
}

/// What a statement took besides its time, at its end.
#[inline(never)]
fn measure_all(thread: &Thread, open: &OpenStatement, flags: u32) {
    if flags & WITH_CPU != 0 {
        let taken = cpu::thread_ns().saturating_sub(open.cpu_start.own());
        open.values().put(Counter::CpuTime as usize, taken);
    }
    if flags & WITH_MEMORY != 0 {
        let most = match flags >> LEVEL {
            0 => thread.memory.end(),
            _ => thread.memory.end_nested(&open.memory),
        };
        open.values().put(Counter::TotalMemory as usize, most);
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
        let level = thread.statement_levels[0].own();
        if thread.statement_depth.own() != 0 || level == 0 || program.is_some() {
            return self.open_nested_statement(thread, class, charset, program);
        }
        let begun = Begun { class, charset, depth: 0, switches, nesting: (0, 0), owner: None };
        Some(begin_statement(self.arena.base(), thread, self.arena.at(level), mask, &begun))
    }

    /// As [`Engine::open_statement`], of one that nests in another, or belongs to a program, or is the first of its level.
    #[inline(never)]
    fn open_nested_statement(
        &self,
        thread: &'static Thread,
        class: ClassId,
        charset: u32,
        program: Option<ProgramRef>,
    ) -> Option<Statement> {
        let (switches, depth) = (self.registry.switches(class), thread.statement_depth.own() as usize);
        let Some(open) = self.level(thread, depth) else {
            self.losses.count(Lost::NestedStatements);
            // Like the built-in, an event that finds no place on the stack has used up its id.
            if is_recorded(thread.mask(), switches) {
                thread.stages.expect_ids(thread.next_event_id(), &REACH);
            }
            return None;
        };
        let outer = depth.checked_sub(1).and_then(|outer| self.level(thread, outer));
        let nesting = outer.map_or((0, 0), |outer| (outer.id(), outer.nesting_level() + 1));
        let owner = program.map(|program| Owner {
            program: program.slot(self),
            identity: self.identity_of(program.slot(self)),
            named: &thread.named_levels[depth],
        });
        let begun = Begun { class, charset, switches, depth, nesting, owner };
        Some(begin_statement(self.arena.base(), thread, open, thread.mask(), &begun))
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

    /// Changes what the statement is, once it is parsed. False: the instrument it became is off, and the statement is
    /// forgotten.
    #[inline(always)]
    pub fn refine_statement(&self, statement: Statement, class: ClassId) -> bool {
        const USUAL: u8 = ENABLED | STATEMENT | TIMED;
        if self.registry.switches(class) & USUAL != USUAL {
            return self.refine_statement_slow(statement, class);
        }
        statement.open.refine(class);
        true
    }

    #[cold]
    #[inline(never)]
    fn refine_statement_slow(&self, statement: Statement, class: ClassId) -> bool {
        let is_wanted = self.registry.switches(class) & (ENABLED | STATEMENT) == ENABLED | STATEMENT;
        if is_wanted {
            statement.open.refine(class);
            statement.open.forget_time();
        } else {
            self.discard_statement(statement);
        }
        is_wanted
    }

    /// Forgets a statement.
    #[inline(always)]
    pub fn discard_statement(&self, statement: Statement) {
        let flags = statement.open.flags.own();
        if flags & WITH_MEMORY != 0 && flags >> LEVEL != 0 {
            statement.thread.memory.end_nested(&statement.open.memory);
        }
        statement.thread.statement_depth.store(flags >> LEVEL, Relaxed);
    }

    /// The statement's clock starts.
    pub fn start_statement(&self, statement: Statement, schema: &[u8], source: Source) {
        let start = statement.open.start(schema, source.0);
        statement.thread.statement_start.store(start, Relaxed);
        if statement.open.flags.own() & WITH_CPU != 0 {
            statement.open.cpu_start.store(cpu::thread_ns(), Relaxed);
        }
    }

    /// STATEMENT_ID: the host's number of the statement.
    #[inline(always)]
    pub fn set_statement_id(&self, statement: Statement, id: u64) {
        statement.open.set_statement_id(id);
    }

    /// SQL_TEXT; what is longer than the bound is cut, and says so.
    pub fn set_statement_text(&self, statement: Statement, sql: &[u8]) {
        if statement.open.flags.own() & RECORDED == 0 {
            return;
        }
        statement.open.set_text(sql, self.sql_text_size.load(Relaxed) as usize);
    }

    /// Adds to a counter.
    #[inline(always)]
    pub fn add_statement_counter(&self, statement: Statement, counter: Counter, by: u64) {
        statement.open.values().add(counter as usize, by);
    }

    /// Sets a counter.
    #[inline(always)]
    pub fn set_statement_counter(&self, statement: Statement, counter: Counter, to: u64) {
        statement.open.values().put(counter as usize, to);
    }

    /// How the statement ended, if not as a query does whose result was sent; before [`Engine::end_statement`].
    pub fn set_statement_outcome(&self, statement: Statement, outcome: &Outcome<'_>) {
        for (counter, value) in [
            (Counter::Errors, outcome.errors),
            (Counter::Warnings, outcome.warnings),
            (Counter::RowsAffected, outcome.rows_affected),
        ] {
            if value != 0 {
                statement.open.values().put(counter as usize, value);
            }
        }
        statement.open.fail(outcome.errno, outcome.sqlstate, outcome.message);
    }

    /// Ends a statement.
    pub fn end_statement(&self, statement: Statement, digest: Option<&DigestTokens<'_>>) -> EndedStatement {
        let Statement { open, thread } = statement;
        let flags = open.flags.own();
        let end = if flags & u32::from(TIMED) != 0 { ticks() } else { 1 };
        let ended = EndedStatement { open, taken: end.saturating_sub(open.started()) };
        if flags & (WITH_MEMORY | WITH_CPU) != 0 {
            cold_path();
            if flags & WITH_CPU != 0 || flags >> LEVEL != 0 {
                cold_path();
                measure_all(thread, open, flags);
            } else {
                // Of one that nests in none usually only this is asked for.
                open.values().put(Counter::TotalMemory as usize, thread.memory.end());
            }
        }
        let bank = if flags & OF_NOBODY == 0 { BANK_OWN } else { BANK_UNATTRIBUTED };
        let cell = self.statement_cell(thread, bank, open.class());
        if let Some(cell) = cell {
            ended.count(&cell.stat, &cell.counters);
            self.spread_statement(thread, &cell.head, flags, ended.taken);
        }
        if let Some(tokens) = digest
            && flags & WITH_DIGEST != 0
        {
            self.count_digest(thread, ended, tokens, end);
        }
        if flags & RECORDED != 0 {
            let bits = Thread::bits(thread.mask(), EventType::Statement);
            open.end(end, thread.event_id.own() - 1, kept(bits));
            if bits & (HISTORY | LONG) != 0 {
                self.record_statement(thread, open);
            }
        }
        thread.statement_depth.store(flags >> LEVEL, Relaxed);
        ended
    }

    /// A statement with these flags gets into its bucket, in a cell that has counted it.
    #[inline(always)]
    fn spread_statement(&self, thread: &Thread, head: &CellHead, flags: u32, taken: u64) {
        if flags & WITH_HISTOGRAM == 0 {
            return;
        }
        cold_path();
        if flags & u32::from(TIMED) == 0 {
            cold_path();
            return self.spread_untimed(thread, head, 1);
        }
        // A cell that knows its longest event does not mind being told.
        self.spread_event(thread, head, taken, 0);
    }

    /// As [`Engine::cell`], with one call for all that is unusual.
    #[inline(always)]
    fn statement_cell(
        &self,
        thread: &'static Thread,
        bank: usize,
        class: ClassId,
    ) -> Option<&'static StatementCell> {
        let base = self.arena.base();
        let place = place(thread.banks[bank].settled_entry(base, class));
        let cell: &StatementCell = base.at_or_zero(place);
        if place == 0 || cell.head.epoch.own() != self.epochs[Family::Statements as usize].load(Relaxed) {
            return self.make_statement_cell(thread, bank, class);
        }
        Some(cell)
    }

    #[cold]
    #[inline(never)]
    fn make_statement_cell(
        &self,
        thread: &'static Thread,
        bank: usize,
        class: ClassId,
    ) -> Option<&'static StatementCell> {
        self.cell(thread, bank, class, Family::Statements)
    }

    /// Counts an ended statement under its digest.
    #[inline(never)]
    fn count_digest(
        &self,
        thread: &'static Thread,
        ended: EndedStatement,
        tokens: &DigestTokens<'_>,
        end: u64,
    ) {
        let now = if ended.open.is_timed() { end } else { ticks() };
        let Some(digest) = self.digest_seen(thread, tokens, ended.open.schema(), now) else { return };
        ended.count(&digest.cell.stat, &digest.cell.counters);
        ended.open.set_digest(digest.slot.own(), digest.generation.own(), tokens.charset);
        if ended.taken >= digest.sample_from.own() {
            self.offer_as_sample(digest, ended, now);
        }
        self.spread_statement(thread, &digest.cell.head, ended.open.flags.own(), ended.taken);
    }

    /// An ended statement may become the sample of its digest, if its text was kept.
    #[cold]
    #[inline(never)]
    fn offer_as_sample(&self, digest: &DigestCell, ended: EndedStatement, now: u64) {
        if ended.open.flags.own() & RECORDED != 0 {
            let wait = ended.taken().unwrap_or(0);
            self.offer_sample(digest, &Candidate { open: ended.open, wait, seen: now });
        }
    }

    /// Records an ended statement.
    #[inline(always)]
    fn record_statement(&self, thread: &'static Thread, open: &'static OpenStatement) {
        let named_last = || named_at(thread, open) == thread.named_program.own();
        if !open.write(&thread.statements, self.arena.base(), named_last) {
            self.record_long_statement(thread, open);
        }
    }

    /// As [`Engine::record_statement`], of one with rare texts, or where the block is full.
    #[inline(never)]
    fn record_long_statement(&self, thread: &'static Thread, open: &'static OpenStatement) {
        let (ring, base) = (&thread.statements, self.arena.base());
        if !open.write_long(ring, base) {
            // A block can be read alone.
            thread.named_program.store(0, Relaxed);
            if !self.advance(thread, ring, &STATEMENTS) || !open.write_long(ring, base) {
                return;
            }
        }
        if open.names_program() {
            thread.named_program.store(named_at(thread, open), Relaxed);
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
