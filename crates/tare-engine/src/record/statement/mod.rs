//! HOT PATH: statements: a level of the thread's stack while they run; how they end is in `end`.

mod cpu;
pub(crate) mod decode;
mod end;
pub(crate) mod execution;
pub(crate) mod outline;
mod owner;
mod packet;
pub(crate) mod parsed;
pub(crate) mod record;

use std::ffi::c_void;
use std::sync::atomic::{
    AtomicU32,
    Ordering::{Relaxed, Release},
};

use crate::Engine;
use crate::clock::{cycles, ticks};
use crate::count::counters::{COUNTERS, LARGEST};
use crate::instance::ProgramRef;
use crate::memory::arena::{Base, Offset, Own, Use, WORDS};
use crate::memory::lost::Lost;
use crate::record::journal::parent;
use crate::record::ring::RingKind;
use crate::record::wait::Source;
use crate::setup::instrument::{ENABLED, SAMPLED, STATEMENT, TIMED, UNRECORDED};
use crate::snapshot::{ClassId, EventType};
use crate::thread::filter::{
    ATTRIBUTED, CPU_TIME, CURRENT, CYCLES, DIGEST, SESSION_MEMORY, SPREAD, UNATTRIBUTED, is_event, shift,
};
use crate::thread::{Thread, ThreadRef, current, local};
use owner::Owner;
use record::{Begun, OpenStatement};

pub use end::EndedStatement;
pub(crate) use owner::NamedProgram;
pub use record::MAX_SQL_TEXT;
pub(crate) use record::NAME_WORDS;

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
/// It is not recorded at its end, unless it fails or becomes slow: see [`crate::thread::choice`].
const UNCHOSEN: u32 = 1;
/// What they have of the mask, and where.
const WANTED: u32 = UNATTRIBUTED | DIGEST | CYCLES | SESSION_MEMORY | CPU_TIME | SPREAD;
const MASK: u32 = 2;
/// What the mask has of it where a statement is as usual: its thread's, with its digest, and nothing is measured but its time,
/// in cycles, and in the shape `extended` its memory.
const fn usual_wanted(extended: bool) -> u32 {
    DIGEST | CYCLES | if extended { SESSION_MEMORY | SPREAD } else { 0 }
}
/// What decides whether it is.
const USUAL_MASK: u32 = CURRENT << shift(EventType::Statement) | WANTED;
const OF_NOBODY: u32 = UNATTRIBUTED << MASK;
/// Timed, in cycles.
const IN_CYCLES: u32 = TIMED as u32 | CYCLES << MASK;
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

    /// The schema that was current when it began: its words, and how many bytes.
    pub(crate) fn schema(self) -> (&'static [std::sync::atomic::AtomicU64], usize) {
        self.open.schema()
    }

    /// Number of its client's character set.
    pub fn charset(self) -> u32 {
        self.open.sql().2
    }

    /// EVENT_ID of the statement's event.
    pub fn event_id(self) -> u64 {
        self.open.id()
    }
}

/// What nests in the statement of this id, as [`parent`] makes it.
#[inline(always)]
const fn in_statement(id: u64) -> u64 {
    parent(id, EventType::Statement as u32)
}

/// What a statement nests in that begins while this one is the innermost: its id, and how deep.
#[inline(always)]
fn nesting_in(outer: &OpenStatement) -> (u64, u64) {
    (outer.id(), outer.nesting_level() + 1)
}

#[inline(always)]
fn begin_statement(
    base: Base,
    thread: &'static Thread,
    open: &'static OpenStatement,
    flags: u32,
    begun: &Begun<'_>,
) -> Statement {
    thread.statement_depth.store(begun.depth as u32 + 1, Relaxed);
    open.flags.store(flags | (begun.depth as u32) << LEVEL, Relaxed);
    let (mut id, mut parent) = (0, in_statement(0));
    if flags & RECORDED != 0 {
        id = thread.next_event_id();
        parent = in_statement(id);
        if flags & UNCHOSEN == 0 {
            thread.set_stage_parent(base, parent);
        }
        thread.parent.store(parent, Relaxed);
    }
    if begun.depth == 0 {
        thread.outermost.store(parent, Relaxed);
    }
    open.begin(begun, id, thread.transaction.open_id());
    Statement { open, thread }
}

/// Begins a statement that is as usual and nests in another one.
#[inline(always)]
fn begin_nested<const EXTENDED: bool>(
    base: Base,
    thread: &'static Thread,
    open: &'static OpenStatement,
    begun: &Begun<'_>,
) -> Statement {
    if EXTENDED {
        thread.memory.begin_nested(&open.memory);
    }
    let flags = usual_flags::<EXTENDED>(begun.switches) | unchosen_within(begun.switches);
    begin_statement(base, thread, open, flags, begun)
}

/// What its flags have of a statement inside another one: if its instrument is sampled, it is chosen as that one is.
#[inline(always)]
fn unchosen_within(switches: u8) -> u32 {
    if local::skips() > 0 && switches & SAMPLED != 0 { UNCHOSEN } else { 0 }
}

/// Whether a statement of an instrument with these switches, in a thread with this mask, is as usual.
#[inline(always)]
fn is_usual<const EXTENDED: bool>(switches: u8, mask: u32) -> bool {
    switches & (ENABLED | STATEMENT) == ENABLED | STATEMENT
        && mask & USUAL_MASK == CURRENT << shift(EventType::Statement) | usual_wanted(EXTENDED)
}

/// The flags of a statement that begins and is as usual.
#[inline(always)]
fn usual_flags<const EXTENDED: bool>(switches: u8) -> u32 {
    let recorded = if switches & UNRECORDED == 0 { RECORDED } else { 0 };
    u32::from(switches & TIMED) | recorded | usual_wanted(EXTENDED) << MASK
}

/// The flags of a statement that begins.
fn flags_of(thread: &Thread, open: &OpenStatement, mask: u32, begun: &Begun<'_>) -> u32 {
    if mask & SESSION_MEMORY != 0 {
        match begun.depth {
            0 => thread.memory.begin(),
            _ => thread.memory.begin_nested(&open.memory),
        }
    }
    let recorded = if is_event(mask, EventType::Statement, begun.switches) { RECORDED } else { 0 };
    u32::from(begun.switches & TIMED) | recorded | (mask & WANTED) << MASK
}

/// When the clock of a statement starts that is timed otherwise than usual; 0: it has none.
#[cold]
#[inline(never)]
fn start_unusual(open: &OpenStatement, flags: u32) -> u64 {
    if flags & WITH_CPU != 0 {
        open.cpu_start.store(cpu::thread_ns(), Relaxed);
    }
    if open.is_timed() { ticks() } else { 0 }
}

impl Engine {
    /// Begins a statement of the calling thread. `None`: nothing to do for it.
    pub fn open_statement(
        &self,
        class: ClassId,
        charset: u32,
        program: Option<ProgramRef>,
    ) -> Option<Statement> {
        let usual = match (program, self.is_extended()) {
            (None, true) => self.open_statement_fast::<true>(class, charset),
            (None, false) => self.open_statement_fast::<false>(class, charset),
            (Some(program), true) => self.open_next_statement_fast::<true>(class, charset, program),
            (Some(program), false) => self.open_next_statement_fast::<false>(class, charset, program),
        };
        usual.or_else(|| self.open_unusual_statement(class, charset, program))
    }

    /// As [`Engine::open_statement`], of any statement.
    pub fn open_unusual_statement(
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
        let depth = thread.statement_depth.own() as usize;
        let Some(open) = self.level(thread, depth) else {
            self.losses.count(Lost::NestedStatements);
            // Like the built-in, an event that finds no place on the stack has used up its id.
            if is_event(mask, EventType::Statement, switches) {
                thread.expect_stage_ids();
                thread.next_event_id();
            }
            return None;
        };
        let outer = depth.checked_sub(1).and_then(|outer| self.level(thread, outer));
        let nesting = outer.map_or((0, 0), nesting_in);
        let owner = program.map(|program| Owner {
            program: program.slot(self),
            identity: self.identity_of(program.slot(self)),
            named: &thread.named_levels[depth],
        });
        let begun = Begun { class, charset, switches, depth, nesting, owner };
        let flags = flags_of(thread, open, mask, &begun);
        let flags =
            flags | if depth == 0 { self.unchosen(thread, switches) } else { unchosen_within(switches) };
        Some(begin_statement(self.arena.base(), thread, open, flags, &begun))
    }

    /// As [`Engine::open_statement`], of one that nests in no other and is as usual, on whatever level. Fast path only; on
    /// `None` call [`Engine::open_unusual_statement`]: nothing has happened.
    #[inline(always)]
    pub fn open_statement_fast<const EXTENDED: bool>(
        &self,
        class: ClassId,
        charset: u32,
    ) -> Option<Statement> {
        let switches = self.registry.switches(class);
        let thread = current()?;
        let level = thread.statement_levels[0].own();
        if !is_usual::<EXTENDED>(switches, thread.mask()) || thread.statement_depth.own() != 0 || level == 0 {
            return None;
        }
        let base = self.arena.base();
        let begun = Begun { class, charset, switches, depth: 0, nesting: (0, 0), owner: None };
        if EXTENDED {
            thread.memory.begin();
        }
        let flags = usual_flags::<EXTENDED>(switches) | self.unchosen(thread, switches);
        Some(begin_statement(base, thread, base.at(level), flags, &begun))
    }

    /// What its flags have of a client's statement: whether it is chosen.
    #[inline(always)]
    fn unchosen(&self, thread: &Thread, switches: u8) -> u32 {
        let is_chosen = self.choose(thread);
        if is_chosen || switches & SAMPLED == 0 { 0 } else { UNCHOSEN }
    }

    /// The statements that the calling thread runs are recorded at their ends, although they were not chosen.
    pub(crate) fn keep_unchosen(&self, thread: &Thread) {
        let depth = thread.statement_depth.own() as usize;
        let levels = thread.statement_levels.iter().take(depth).map(Own::own).filter(|level| *level != 0);
        for open in levels.map(|level| self.arena.at::<OpenStatement>(level)) {
            open.flags.store(open.flags.own() & !UNCHOSEN, Relaxed);
        }
    }

    /// When the outermost statement of a thread began, in ticks; 0: nobody knows.
    pub(crate) fn outermost_start(&self, thread: &Thread) -> u64 {
        match thread.statement_levels[0].own() {
            level if level != 0 && thread.statement_depth.own() != 0 => {
                self.arena.at::<OpenStatement>(level).started()
            }
            _ => 0,
        }
    }

    /// As [`Engine::open_statement`], of one that is as usual and either follows another one of its program, as most of them do,
    /// or is not recorded, so that nobody asks for the program's names. Fast path only; on `None` call
    /// [`Engine::open_unusual_statement`]: nothing has happened.
    #[inline(always)]
    pub fn open_next_statement_fast<const EXTENDED: bool>(
        &self,
        class: ClassId,
        charset: u32,
        program: ProgramRef,
    ) -> Option<Statement> {
        let switches = self.registry.switches(class);
        let thread = current()?;
        let depth = thread.statement_depth.own() as usize;
        let outer = depth.checked_sub(1)?;
        let level = thread.statement_levels.get(depth)?.own();
        if !is_usual::<EXTENDED>(switches, thread.mask()) || level == 0 {
            return None;
        }
        // A statement is in progress on the level around it, which so has a block.
        let base = self.arena.base();
        let open: &OpenStatement = base.at(level);
        let nesting = nesting_in(base.at(thread.statement_levels[outer].own()));
        let begun = Begun { class, charset, switches, depth, nesting, owner: None };
        if switches & UNRECORDED != 0 {
            return Some(begin_nested::<EXTENDED>(base, thread, open, &begun));
        }
        let (program, named) = (program.slot(self), &thread.named_levels[depth]);
        let identity = self.identity_of(program);
        if named.program.own() != identity {
            return None;
        }
        let begun = Begun { owner: Some(Owner { program, identity, named }), ..begun };
        Some(begin_nested::<EXTENDED>(base, thread, open, &begun))
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
        let made = self.arena.take(Use::Statement, 0)? * WORDS as u32;
        self.own_level(thread, made);
        level.store(made, Release);
        Some(self.arena.at(made))
    }

    /// The block of a level, taken or had from the thread before, is the thread's.
    pub(crate) fn own_level(&self, thread: &Thread, level: Offset) {
        let block = level / WORDS as u32;
        self.arena.meta(block).owner.store(thread.thread_id.load(Relaxed), Relaxed);
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
    #[inline(always)]
    pub fn start_statement(&self, statement: Statement, schema: &[u8], source: Source) {
        let Statement { open, thread } = statement;
        let start = open.start(schema, source.0, || match open.flags.own() {
            flags if flags & (IN_CYCLES | WITH_CPU) == IN_CYCLES => cycles(),
            flags => start_unusual(open, flags),
        });
        thread.statement_start.store(start, Relaxed);
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

    /// Sets a counter of rows, which is hardly ever 0: the host tells of each row.
    #[inline(always)]
    pub fn set_statement_rows(&self, statement: Statement, counter: Counter, to: u64) {
        statement.open.values().set(counter as usize, to);
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
        if outcome.errno != 0 {
            let flags = &statement.open.flags;
            flags.store(flags.own() & !UNCHOSEN, Relaxed);
        }
        statement.open.fail(outcome.errno, outcome.sqlstate, outcome.message);
    }

    /// The statement at `depth` is not an event any more.
    pub(crate) fn hide_statement(&self, thread: &Thread, depth: usize) {
        if let Some(open) = self.level(thread, depth) {
            open.hide();
        }
        if depth == 0 {
            thread.outermost.store(in_statement(0), Relaxed);
        }
    }

    /// EVENT_ID of the statement at `depth`, running or the last; 0: there is none.
    pub(crate) fn statement_event_id(&self, thread: &Thread, depth: usize) -> u64 {
        match thread.statement_levels.get(depth).map_or(0, |level| level.load(Relaxed)) {
            0 => 0,
            level => self.arena.at::<OpenStatement>(level).id(),
        }
    }
}
