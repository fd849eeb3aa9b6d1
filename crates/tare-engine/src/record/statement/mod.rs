//! HOT PATH: statements: a level of the thread's stack while they run. Their end is in `end`.

mod cpu;
pub(crate) mod decode;
pub(crate) mod end;
pub(crate) mod outline;
mod packet;
pub(crate) mod parsed;

use std::ffi::c_void;
use std::sync::atomic::{
    AtomicU32,
    Ordering::{Relaxed, Release},
};

use crate::Engine;
use crate::clock::{cycles, ticks};
use crate::layout::counters::{COUNTERS, MAXIMA};
use crate::layout::journal::parent;
use crate::layout::owner::StatementOwner;
use crate::layout::program::ProgramRef;
use crate::layout::statement::{BegunStatement, OpenStatement};
use crate::layout::statement_flags::StatementFlags;
use crate::memory::arena::{Base, BlockUse, Offset, Own, WORDS};
use crate::memory::lost::Lost;
use crate::record::wait::Source;
use crate::setup::filter::{ATTRIBUTED, SESSION_MEMORY, UNATTRIBUTED, is_event};
use crate::setup::instrument::{ENABLED, SAMPLED, STATEMENT, TIMED, UNRECORDED};
use crate::snapshot::{ClassId, EventType};
use crate::thread::{Thread, ThreadRef, current, local};

pub use end::EndedStatement;

/// The counters that a host reports while a statement runs. The numbers are positions in the record. Those
/// that most statements have come first and share a cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Counter {
    /// The most bytes that the session had while it ran; counted by the engine.
    TotalMemory,
    /// The most bytes of them whose use the host can limit.
    ControlledMemory,
    /// The time in microseconds, as the host counts it.
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
    /// The time in nanoseconds; counted by the engine.
    CpuTime,
}

const _: () = assert!(Counter::ControlledMemory as usize + 1 == MAXIMA);
const _: () = assert!(Counter::CpuTime as usize + 1 == COUNTERS);

/// The outcome of a statement, from the host's diagnostics area.
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

/// A statement in progress: what the host keeps between its calls.
#[derive(Clone, Copy)]
pub struct Statement {
    pub(crate) open: &'static OpenStatement,
    pub(crate) thread: &'static Thread,
}

impl Statement {
    /// Returns two addresses for the host to keep; neither is null.
    #[inline(always)]
    pub fn pack(self) -> (*mut c_void, ThreadRef) {
        (std::ptr::from_ref(self.open).cast_mut().cast(), self.thread.handle())
    }

    /// Restores a statement from the values of [`Statement::pack`]; `None` if the first one is null.
    ///
    /// # Safety
    /// The first one is null, or both came from one `pack`, of a statement that has not ended, in this
    /// process. The calling thread is the one that runs it: no other thread writes to its slab and to the
    /// place meanwhile.
    #[allow(unsafe_code)]
    #[inline(always)]
    pub unsafe fn unpack(place: *const c_void, thread: *const c_void) -> Option<Statement> {
        if place.is_null() {
            return None;
        }
        // SAFETY: the caller promises that both came from one `pack` of a statement in progress. Levels and
        // slabs lie in the arena, which is never unmapped.
        let (open, thread) = unsafe { (&*place.cast::<OpenStatement>(), &*thread.cast::<Thread>()) };
        Some(Statement { open, thread })
    }

    /// Sets the peak of the session's memory while the statement ran, for hosts that count it themselves.
    /// Called before [`Engine::end_statement`].
    #[inline(always)]
    pub fn set_memory_peak(self, bytes: u64) {
        self.thread.memory.set_peak(bytes);
    }

    /// Returns whether the digest is wanted.
    #[inline(always)]
    pub fn wants_digest(self) -> bool {
        self.open.flags().has(StatementFlags::WITH_DIGEST)
    }

    #[inline(always)]
    pub(crate) fn thread(self) -> &'static Thread {
        self.thread
    }

    /// Returns the schema that was current when it began: its words, and its length in bytes.
    pub(crate) fn schema(self) -> (&'static [std::sync::atomic::AtomicU64], usize) {
        self.open.schema()
    }

    /// Returns the number of its client's character set.
    pub fn charset(self) -> u32 {
        self.open.sql().2
    }

    /// Notes that the host has parsed the statement and keeps its tokens at this address until it ends.
    /// Readers of the running statement find them there ([`crate::Host::running_tokens`]).
    #[inline(always)]
    pub fn set_tokens(self, address: usize) {
        self.open.set_tokens(address as u64);
    }

    /// Returns whether it counts for the digest of a prepared statement and no other.
    #[inline(always)]
    pub fn is_execution(self) -> bool {
        self.open.is_execution()
    }

    /// Returns whether it is recorded with all that is told of it.
    #[inline(always)]
    pub fn is_recorded(self) -> bool {
        self.open.flags().has(StatementFlags::RECORDED)
    }

    /// Returns STATEMENT_ID; 0: it is not known yet.
    pub fn statement_id(self) -> u64 {
        self.open.statement_id()
    }

    /// Returns the EVENT_ID of the statement's event.
    pub fn event_id(self) -> u64 {
        self.open.id()
    }

    /// Returns NESTING_EVENT_ID of the statement's event; 0: it nests in none.
    pub fn nesting_event_id(self) -> u64 {
        self.open.nesting_id()
    }
}

/// Returns the parent of events in the statement with this id, encoded by [`parent`].
#[inline(always)]
const fn in_statement(id: u64) -> u64 {
    parent(id, EventType::Statement as u32)
}

/// Returns the id that a statement nests in when it begins inside `outer`, and its nesting level.
#[inline(always)]
fn nesting_in(outer: &OpenStatement) -> (u64, u64) {
    (outer.id(), outer.nesting_level() + 1)
}

#[inline(always)]
fn begin_statement(
    base: Base,
    thread: &'static Thread,
    open: &'static OpenStatement,
    flags: StatementFlags,
    begun: &BegunStatement<'_>,
) -> Statement {
    thread.statement_depth.store(begun.depth as u32 + 1, Relaxed);
    open.set_flags(flags.at_level(begun.depth as u32));
    let (mut id, mut parent) = (0, in_statement(0));
    if flags.has(StatementFlags::RECORDED) {
        id = thread.next_event_id();
        parent = in_statement(id);
        if !flags.has(StatementFlags::UNCHOSEN) {
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

/// Begins a statement on the fast path that nests in another one.
#[inline(always)]
fn begin_nested<const EXTENDED: bool>(
    base: Base,
    thread: &'static Thread,
    open: &'static OpenStatement,
    begun: &BegunStatement<'_>,
) -> Statement {
    if EXTENDED {
        thread.memory.begin_nested(&open.memory);
    }
    let flags = usual_flags::<EXTENDED>(begun.switches).with(unchosen_within(begun.switches));
    begin_statement(base, thread, open, flags, begun)
}

/// Returns the flag of a statement inside another one: if its instrument is sampled, it is chosen if that one
/// is.
#[inline(always)]
fn unchosen_within(switches: u8) -> StatementFlags {
    let is_unchosen = local::skips() > 0 && switches & SAMPLED != 0;
    if is_unchosen { StatementFlags::UNCHOSEN } else { StatementFlags::NONE }
}

/// Returns whether a statement with these switches, in a thread with this mask, takes the fast path.
#[inline(always)]
fn is_usual<const EXTENDED: bool>(switches: u8, mask: u32) -> bool {
    switches & (ENABLED | STATEMENT) == ENABLED | STATEMENT && StatementFlags::is_usual_mask(mask, EXTENDED)
}

/// Returns the flag of a statement that is an event, or none.
#[inline(always)]
fn recorded(is_recorded: bool) -> StatementFlags {
    if is_recorded { StatementFlags::RECORDED } else { StatementFlags::NONE }
}

/// Returns the flags of a statement that begins on the fast path.
#[inline(always)]
fn usual_flags<const EXTENDED: bool>(switches: u8) -> StatementFlags {
    let is_recorded = switches & UNRECORDED == 0;
    StatementFlags::of_switches(switches).with(recorded(is_recorded)).with(StatementFlags::usual(EXTENDED))
}

/// Returns the flags of a statement that begins.
fn flags_of(thread: &Thread, open: &OpenStatement, mask: u32, begun: &BegunStatement<'_>) -> StatementFlags {
    if mask & SESSION_MEMORY != 0 {
        match begun.depth {
            0 => thread.memory.begin(),
            _ => thread.memory.begin_nested(&open.memory),
        }
    }
    let recorded = recorded(is_event(mask, EventType::Statement, begun.switches));
    StatementFlags::of_switches(begun.switches).with(recorded).with(StatementFlags::of_mask(mask))
}

/// Reads the clocks of a statement that is not only timed in cycles. Returns its start in ticks; 0: it is not
/// timed.
#[cold]
#[inline(never)]
fn start_unusual(open: &OpenStatement, flags: StatementFlags) -> u64 {
    if flags.has(StatementFlags::WITH_CPU) {
        open.cpu_start.store(cpu::thread_ns(), Relaxed);
    }
    if open.is_timed() { ticks() } else { 0 }
}

impl Engine {
    /// Begins a statement of the calling thread. `None`: there is nothing to do for it.
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

    /// Begins any statement, on the slow path.
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
            // Like in the built-in, an event that finds no place on the stack has used its id.
            if is_event(mask, EventType::Statement, switches) {
                thread.expect_stage_ids();
                thread.next_event_id();
            }
            return None;
        };
        let outer = depth.checked_sub(1).and_then(|outer| self.level(thread, outer));
        let nesting = outer.map_or((0, 0), nesting_in);
        let owner = program.map(|program| StatementOwner {
            program: program.slot(self),
            identity: self.identity_of(program.slot(self)),
            named: &thread.named_levels[depth],
        });
        let begun = BegunStatement { class, charset, switches, depth, nesting, owner };
        let flags = flags_of(thread, open, mask, &begun);
        let unchosen = if depth == 0 { self.unchosen(thread, switches) } else { unchosen_within(switches) };
        let flags = flags.with(unchosen);
        Some(begin_statement(self.arena.base(), thread, open, flags, &begun))
    }

    /// Begins a statement on the fast path that nests in no other. `None`: nothing has happened; call
    /// [`Engine::open_unusual_statement`].
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
        let begun = BegunStatement { class, charset, switches, depth: 0, nesting: (0, 0), owner: None };
        if EXTENDED {
            thread.memory.begin();
        }
        let flags = usual_flags::<EXTENDED>(switches).with(self.unchosen(thread, switches));
        Some(begin_statement(base, thread, base.at(level), flags, &begun))
    }

    /// Returns the flag of a client's statement that says whether it is chosen.
    #[inline(always)]
    fn unchosen(&self, thread: &Thread, switches: u8) -> StatementFlags {
        let is_chosen = self.choose(thread);
        if is_chosen || switches & SAMPLED == 0 { StatementFlags::NONE } else { StatementFlags::UNCHOSEN }
    }

    /// Makes the statements in progress of the calling thread recorded at their end although they were not
    /// chosen.
    pub(crate) fn keep_unchosen(&self, thread: &Thread) {
        let depth = thread.statement_depth.own() as usize;
        let levels = thread.statement_levels.iter().take(depth).map(Own::own).filter(|level| *level != 0);
        for open in levels.map(|level| self.arena.at::<OpenStatement>(level)) {
            open.set_flags(open.flags().without(StatementFlags::UNCHOSEN));
        }
    }

    /// Returns when the outermost statement of a thread began, in ticks; 0: unknown.
    pub(crate) fn outermost_start(&self, thread: &Thread) -> u64 {
        match thread.statement_levels[0].own() {
            level if level != 0 && thread.statement_depth.own() != 0 => {
                self.arena.at::<OpenStatement>(level).started()
            }
            _ => 0,
        }
    }

    /// Begins a statement of a program on the fast path. Either it follows another one of its program, as
    /// most do, or it is not recorded, so that the program's names are not needed. `None`: nothing has
    /// happened; call [`Engine::open_unusual_statement`].
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
        // The outer level has a statement in progress, and therefore a block.
        let base = self.arena.base();
        let open: &OpenStatement = base.at(level);
        let nesting = nesting_in(base.at(thread.statement_levels[outer].own()));
        let begun = BegunStatement { class, charset, switches, depth, nesting, owner: None };
        if switches & UNRECORDED != 0 {
            return Some(begin_nested::<EXTENDED>(base, thread, open, &begun));
        }
        let (program, named) = (program.slot(self), &thread.named_levels[depth]);
        let identity = self.identity_of(program);
        if named.program.own() != identity {
            return None;
        }
        let begun = BegunStatement { owner: Some(StatementOwner { program, identity, named }), ..begun };
        Some(begin_nested::<EXTENDED>(base, thread, open, &begun))
    }

    /// Returns the level at `depth`, created when first used.
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
        let made = self.arena.take(BlockUse::Statement, 0)? * WORDS as u32;
        self.own_level(thread, made);
        level.store(made, Release);
        Some(self.arena.at(made))
    }

    /// Makes a new thread, or one with a new number, the owner of the level that the previous thread has
    /// left, if there is one.
    pub(crate) fn own_kept_level(&self, thread: &Thread) {
        let level = thread.statement_levels[0].own();
        if level != 0 {
            self.own_level(thread, level);
        }
    }

    /// Makes the thread the owner of a level's block, which was taken or left by the previous thread.
    fn own_level(&self, thread: &Thread, level: Offset) {
        let block = level / WORDS as u32;
        self.arena.meta(block).owner.store(thread.thread_id.load(Relaxed), Relaxed);
    }

    /// Changes the class of a statement once it is parsed. Returns false if the new instrument is disabled:
    /// the statement is discarded.
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

    /// Discards a statement.
    #[inline(always)]
    pub fn discard_statement(&self, statement: Statement) {
        let flags = statement.open.flags();
        if flags.has(StatementFlags::WITH_MEMORY) && flags.level() != 0 {
            statement.thread.memory.end_nested(&statement.open.memory);
        }
        statement.thread.statement_depth.store(flags.level(), Relaxed);
    }

    /// Starts the statement's clock.
    #[inline(always)]
    pub fn start_statement(&self, statement: Statement, schema: &[u8], source: Source) {
        let Statement { open, thread } = statement;
        let start = open.start(schema, source.0, || match open.flags() {
            flags if flags.needs_only_cycles() => cycles(),
            flags => start_unusual(open, flags),
        });
        thread.statement_start.store(start, Relaxed);
        if open.flags().level() == 0 {
            thread.slow_at.store(start.wrapping_add(self.sampling.slow_after_ticks()), Relaxed);
        }
    }

    /// Sets STATEMENT_ID, the host's number of the statement.
    #[inline(always)]
    pub fn set_statement_id(&self, statement: Statement, id: u64) {
        statement.open.set_statement_id(id);
    }

    /// Sets SQL_TEXT. A text longer than the bound is cut and marked as such.
    pub fn set_statement_text(&self, statement: Statement, sql: &[u8]) {
        if !statement.open.flags().has(StatementFlags::RECORDED) {
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

    /// Sets a counter of rows. It is hardly ever 0, as the host reports each row.
    #[inline(always)]
    pub fn set_statement_rows(&self, statement: Statement, counter: Counter, to: u64) {
        statement.open.values().set(counter as usize, to);
    }

    /// Sets how the statement ended, unless it ended like a query whose result was sent. Called before
    /// [`Engine::end_statement`].
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
            let open = statement.open;
            open.set_flags(open.flags().without(StatementFlags::UNCHOSEN));
        }
        statement.open.fail(outcome.errno, outcome.sqlstate, outcome.message);
    }

    /// Returns the innermost running statement of the calling thread.
    pub fn current_statement(&self) -> Option<Statement> {
        let thread = current()?;
        let depth = thread.statement_depth.own().checked_sub(1)? as usize;
        let level = thread.statement_levels.get(depth)?.own();
        (level != 0).then(|| Statement { open: self.arena.at::<OpenStatement>(level), thread })
    }

    /// Makes the statement at `depth` no event any more.
    pub(crate) fn hide_statement(&self, thread: &Thread, depth: usize) {
        if let Some(open) = self.level(thread, depth) {
            open.hide();
        }
        if depth == 0 {
            thread.outermost.store(in_statement(0), Relaxed);
        }
    }

    /// Returns the EVENT_ID of the statement at `depth`, running or the last one; 0: there is none.
    pub(crate) fn statement_event_id(&self, thread: &Thread, depth: usize) -> u64 {
        match thread.statement_levels.get(depth).map_or(0, |level| level.load(Relaxed)) {
            0 => 0,
            level => self.arena.at::<OpenStatement>(level).id(),
        }
    }
}
