//! HOT PATH: the end of statements: they are counted, by class and by digest, and recorded.

use std::hint::cold_path;
use std::sync::atomic::Ordering::Relaxed;

use super::{Counter, Statement, cpu};
use crate::Engine;
use crate::clock::{cycles, ticks};
use crate::count::digest::DigestCell;
use crate::count::digest_key::DigestTokens;
use crate::count::sample::SampleCandidate;
use crate::layout::cell::{CellHead, Counts, StatementCell, SummaryFamily};
use crate::layout::counters::StatementSums;
use crate::layout::ring::STATEMENTS;
use crate::layout::statement::OpenStatement;
use crate::layout::statement_flags::StatementFlags;
use crate::memory::arena::Own;
use crate::record::wait::kept;
use crate::setup::instrument::{INSTRUCTION, SAMPLED};
use crate::snapshot::EventType;
use crate::thread::choice::NOW;
use crate::thread::{BANK_OWN, BANK_UNATTRIBUTED, Thread};

/// A statement that has ended, until its thread's next one begins: for the program or the prepared statement
/// it belongs to.
#[derive(Clone, Copy)]
pub struct EndedStatement {
    open: &'static OpenStatement,
    /// How many times more it is counted, if it is an instruction of a program in a chosen statement.
    again: u32,
}

impl EndedStatement {
    /// Creates one that is counted once, as the counts of SQL statements are not estimated.
    #[inline(always)]
    pub(crate) fn of_sql(open: &'static OpenStatement) -> EndedStatement {
        EndedStatement { open, again: 0 }
    }

    /// Returns its time in ticks; `None`: it was not timed.
    #[inline(always)]
    pub(crate) fn taken(self) -> Option<u64> {
        self.open.is_timed().then(|| self.open.taken())
    }

    /// Returns its CPU time in nanoseconds; 0: it was not measured.
    pub fn cpu_time(self) -> u64 {
        self.open.values().get(Counter::CpuTime as usize)
    }

    /// Returns the peaks of the session's controlled memory and of all its memory, in bytes.
    pub fn memory(self) -> [u64; 2] {
        let counters = [Counter::ControlledMemory, Counter::TotalMemory];
        counters.map(|counter| self.open.values().get(counter as usize))
    }

    /// Counts it. The caller is the only writer.
    #[inline(always)]
    pub(crate) fn count(self, stat: &Counts, counters: &StatementSums) {
        self.open.count(stat, counters);
        if self.again != 0 {
            cold_path();
            self.open.count_again(self.again.into(), stat, counters);
        }
    }
}

/// Returns the program whose names the statement's level has; 0: none.
#[inline(always)]
fn named_at(thread: &Thread, open: &OpenStatement) -> u64 {
    let depth = open.flags().level() as usize;
    thread.named_levels.get(depth).map_or(0, |named| named.program.own())
}

/// Returns the time at which an ended statement was seen, in ticks: its end, or now if it was not timed.
#[inline(always)]
pub(crate) fn seen_at(open: &OpenStatement) -> u64 {
    if open.is_timed() { open.ended() } else { ticks() }
}

/// Measures what a statement used besides its time, at its end.
#[inline(never)]
fn measure_all(thread: &Thread, open: &OpenStatement, flags: StatementFlags) {
    if flags.has(StatementFlags::WITH_CPU) {
        let taken = cpu::thread_ns().saturating_sub(open.cpu_start.own());
        open.values().put(Counter::CpuTime as usize, taken);
    }
    if flags.has(StatementFlags::WITH_MEMORY) {
        open.values().put(Counter::TotalMemory as usize, most_memory(thread, open, flags));
    }
}

/// Returns the most memory that a session had while a statement ran, at its end, in bytes.
#[inline(always)]
fn most_memory(thread: &Thread, open: &OpenStatement, flags: StatementFlags) -> u64 {
    match flags.level() {
        0 => thread.memory.end(),
        _ => {
            cold_path();
            thread.memory.end_nested(&open.memory)
        }
    }
}

impl Engine {
    /// Returns the time of an ended statement in nanoseconds; `None`: it was not timed.
    pub fn nanoseconds_of(&self, ended: EndedStatement) -> Option<u64> {
        let rate = u128::from(self.clock.rate());
        ended.taken().map(|taken| (((u128::from(taken) * rate) >> 32) / 1000) as u64)
    }

    /// Ends a statement.
    pub fn end_statement(&self, statement: Statement, digest: Option<&DigestTokens<'_>>) -> EndedStatement {
        let count_digest = |_| self.count_any_digest(statement, digest);
        let is_done = match self.is_extended() {
            true => self.end_statement_fast::<true>(statement, count_digest),
            false => self.end_statement_fast::<false>(statement, count_digest),
        };
        if !is_done {
            return self.end_unusual_statement(statement, digest);
        }
        self.ended_statement(statement)
    }

    /// Returns a statement that has ended, and how often it counts.
    #[inline(always)]
    fn ended_statement(&self, Statement { open, thread }: Statement) -> EndedStatement {
        let again = if thread.is_weighted() { self.counted_again(thread, open) } else { 0 };
        EndedStatement { open, again }
    }

    #[cold]
    #[inline(never)]
    fn counted_again(&self, thread: &Thread, open: &OpenStatement) -> u32 {
        const ESTIMATED: u8 = SAMPLED | INSTRUCTION;
        let is_estimated = self.registry.switches(open.class()) & ESTIMATED == ESTIMATED;
        if !is_estimated {
            return 0;
        }
        let began = if open.is_timed() { open.started() } else { NOW };
        u32::try_from(thread.weight_at(began) - 1).unwrap_or(u32::MAX)
    }

    /// Counts an ended statement under the digest of the prepared statement it executes, or else of these
    /// tokens.
    #[inline(always)]
    fn count_any_digest(&self, statement: Statement, digest: Option<&DigestTokens<'_>>) {
        if statement.is_execution() {
            self.count_execution_digest(statement);
        } else if let Some(tokens) = digest {
            self.count_statement_digest(statement, tokens);
        }
    }

    /// Ends a statement on the fast path. `count` adds it to further statistics, its digest's first. Returns
    /// false if nothing has happened: call [`Engine::end_unusual_statement`].
    #[inline(always)]
    pub fn end_statement_fast<const EXTENDED: bool>(
        &self,
        statement: Statement,
        count: impl FnOnce(EndedStatement),
    ) -> bool {
        let Statement { open, thread } = statement;
        let (flags, base) = (open.flags(), self.arena.base());
        let Some(place) = self.usual_cell(base, thread, open.class(), SummaryFamily::Statements) else {
            cold_path();
            return false;
        };
        // Events without times are noted in histograms elsewhere.
        let timed = if EXTENDED { StatementFlags::TIMED } else { StatementFlags::NONE };
        let usual = StatementFlags::usual(EXTENDED).with(timed);
        if flags.among(StatementFlags::OF_MASK.with(timed)) != usual {
            cold_path();
            return false;
        }
        thread.statement_depth.store(flags.level(), Relaxed);
        let end = if EXTENDED || flags.has(StatementFlags::TIMED) { cycles() } else { 1 };
        open.end(end, thread.event_id.own() - 1);
        if EXTENDED {
            open.values().set(Counter::TotalMemory as usize, most_memory(thread, open, flags));
        }
        let ended = self.ended_statement(statement);
        let taken = if EXTENDED { open.taken_until(end) } else { 0 };
        let cell: &StatementCell = base.at(place);
        ended.count(&cell.stat, &cell.counters);
        if EXTENDED {
            // The cell keeps its maximum itself, but noting it again does no harm.
            self.bucket_event(thread, (place, &cell.head), taken, 0);
        }
        count(ended);
        if self.is_recorded(open) {
            self.record_statement(thread, open);
        }
        true
    }

    /// Ends any statement, on the slow path.
    #[inline(never)]
    pub fn end_unusual_statement(
        &self,
        statement: Statement,
        digest: Option<&DigestTokens<'_>>,
    ) -> EndedStatement {
        let Statement { open, thread } = statement;
        let flags = open.flags();
        let timed = flags.has(StatementFlags::TIMED);
        open.end(if timed { ticks() } else { 1 }, thread.event_id.own() - 1);
        if flags.has(StatementFlags::WITH_MEMORY.with(StatementFlags::WITH_CPU)) {
            measure_all(thread, open, flags);
        }
        let ended = self.ended_statement(statement);
        let bank = if flags.has(StatementFlags::UNATTRIBUTED) { BANK_UNATTRIBUTED } else { BANK_OWN };
        let cell: Option<&StatementCell> = self.cell(thread, bank, open.class(), SummaryFamily::Statements);
        if let Some(cell) = cell {
            ended.count(&cell.stat, &cell.counters);
            self.bucket_statement(thread, &cell.head, open);
        }
        if flags.has(StatementFlags::WITH_DIGEST) {
            self.count_any_digest(statement, digest);
        }
        if self.is_recorded(open) {
            self.record_statement(thread, open);
        }
        thread.statement_depth.store(flags.level(), Relaxed);
        ended
    }

    /// Puts a statement into its bucket, if histograms are enabled, of the cell that has counted it.
    #[inline(always)]
    fn bucket_statement(&self, thread: &Thread, head: &CellHead, open: &OpenStatement) {
        let flags = open.flags();
        if !flags.has(StatementFlags::WITH_HISTOGRAM) {
            return;
        }
        if !flags.has(StatementFlags::TIMED) {
            cold_path();
            return self.bucket_untimed(thread, head, 1);
        }
        self.bucket_event(thread, (self.arena.offset_of(head), head), open.taken(), 0);
    }

    /// Counts an ended statement under its digest.
    #[inline(never)]
    pub fn count_statement_digest(&self, statement: Statement, tokens: &DigestTokens<'_>) {
        let Statement { open, thread } = statement;
        let now = seen_at(open);
        if let Some(digest) = self.digest_seen(thread, tokens, open.schema(), now) {
            self.count_under_digest(thread, EndedStatement::of_sql(open), digest, tokens.charset, now);
        }
    }

    /// Counts an ended statement in the cell of its digest. `charset` is the character set in which the
    /// statement shows it.
    #[inline(always)]
    pub(crate) fn count_under_digest(
        &self,
        thread: &Thread,
        ended: EndedStatement,
        digest: &DigestCell,
        charset: u32,
        now: u64,
    ) {
        let EndedStatement { open, .. } = ended;
        ended.count(&digest.cell.stat, &digest.cell.counters);
        open.set_digest(digest.slot.own(), digest.generation.own(), charset);
        if open.taken() >= digest.sample_from.own() {
            self.offer_as_sample(digest, ended, now);
        }
        self.bucket_statement(thread, &digest.cell.head, open);
    }

    /// Offers an ended statement as the sample of its digest, if its text was kept.
    #[cold]
    #[inline(never)]
    fn offer_as_sample(&self, digest: &DigestCell, ended: EndedStatement, now: u64) {
        if ended.open.flags().has(StatementFlags::RECORDED) {
            let wait = ended.taken().unwrap_or(0);
            self.offer_sample(digest, &SampleCandidate { open: ended.open, wait, seen: now });
        }
    }

    /// Records an ended statement, if it is an event and a history wants it. Not inlined, so that callers
    /// keep no registers for it.
    #[inline(never)]
    fn record_statement(&self, thread: &'static Thread, open: &'static OpenStatement) {
        let histories = kept(Thread::bits(thread.mask(), EventType::Statement));
        if !open.flags().has(StatementFlags::RECORDED) || histories == 0 {
            return;
        }
        if !open.write(&thread.statements, self.arena.base(), histories) {
            self.record_long_statement(thread, open, histories);
        }
    }

    /// Returns whether an ended statement is recorded: it was chosen, it failed, it waited, it was slow, or
    /// somebody reads statements that take as long.
    #[inline(always)]
    pub(crate) fn is_recorded(&self, open: &OpenStatement) -> bool {
        !open.flags().has(StatementFlags::UNCHOSEN) || self.is_long_enough(open)
    }

    /// Returns whether an ended statement took so long that it is recorded, chosen or not. One that was not
    /// timed took no more than a tick.
    #[inline(always)]
    fn is_long_enough(&self, open: &OpenStatement) -> bool {
        open.taken() >= self.sampling.record_from_ticks()
    }

    /// Records an ended statement that has rare texts, or for which the block is full.
    #[inline(never)]
    fn record_long_statement(&self, thread: &'static Thread, open: &'static OpenStatement, histories: u8) {
        let (ring, base) = (&thread.statements, self.arena.base());
        let program = if open.names_program() { named_at(thread, open) } else { 0 };
        if program != 0 && program == thread.named_program.own() && open.write_of_same(ring, base, histories)
        {
            return;
        }
        if !open.write_long(ring, base, histories) {
            // Each block names its programs itself, so that it can be read alone.
            thread.named_program.store(0, Relaxed);
            if !self.advance(thread, ring, &STATEMENTS) || !open.write_long(ring, base, histories) {
                return;
            }
        }
        if program != 0 {
            thread.named_program.store(program, Relaxed);
        }
    }
}
