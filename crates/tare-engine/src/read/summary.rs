//! Summaries by event name: sums over live and ended threads.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::parties::SeenParty;
use super::{Scale, SummarySink};
use crate::Engine;
use crate::count::account::{ACCOUNT, HOST, USER};
use crate::count::peak::Branch;
use crate::instance::{File, SocketSlot};
use crate::layout::balance::{MemoryCell, Span, Spans};
use crate::layout::bank::Bank;
use crate::layout::cell::{
    ByteCounts, Cell, IoCell, IoCounts, Plain, StatCell, StatementCell, SummaryFamily, TransactionCell,
    Viewer,
};
use crate::layout::counters::{COUNTERS, PlainCounters};
use crate::layout::error::{ErrorCell, PlainError};
use crate::memory::arena::Arena;
use crate::memory::pool::Pool;
use crate::setup::instrument::SERVER_WIDE;
use crate::snapshot::*;
use crate::thread::{BANK_OWN, BANK_THREAD_ONLY, BANK_UNATTRIBUTED, Thread};

/// Viewers of a thread's cells for its account, its user and its host.
const VIEWERS_OF: [Viewer; 3] = [Viewer::Account, Viewer::User, Viewer::Host];

/// Mergeable plain values of a cell.
trait Tally: Default + Clone {
    type Cell: Cell;
    fn add(&mut self, arena: &Arena, cell: &Self::Cell);
    /// Adds what a cell shows after a reset that its writer has not seen yet; for most kinds nothing.
    fn add_stale(&mut self, _cell: &Self::Cell) {}
    /// Adds a thread's own cell, including deferred events.
    fn add_own(&mut self, engine: &Engine, _thread: &Thread, cell: &Self::Cell) {
        self.add(&engine.arena, cell);
    }
    fn merge(&mut self, other: &Self);
    /// Sets the low and high marks of a sum, which are not the sums of its parts' marks. For memory only.
    fn mark(&mut self, _spans: Spans) {}
}

#[derive(Default, Clone)]
struct WaitTally(Plain);

impl Tally for WaitTally {
    type Cell = StatCell;
    fn add(&mut self, arena: &Arena, cell: &StatCell) {
        self.0.merge(cell.plain(arena));
    }
    fn add_own(&mut self, engine: &Engine, thread: &Thread, cell: &StatCell) {
        let plain = |words: &[AtomicU64]| {
            let plain = cell.plain(&engine.arena);
            Plain { max: plain.max.max(engine.longest_deferred(words, &cell.head)), ..plain }
        };
        self.0.merge(engine.with_deferred(thread, plain));
    }
    fn merge(&mut self, other: &Self) {
        self.0.merge(other.0);
    }
}

#[derive(Default, Clone)]
struct StatementTally(Plain, PlainCounters);

impl Tally for StatementTally {
    type Cell = StatementCell;
    fn add(&mut self, _: &Arena, cell: &StatementCell) {
        self.0.merge(cell.stat.plain());
        self.1.merge(&cell.counters.plain());
    }
    fn merge(&mut self, other: &Self) {
        self.0.merge(other.0);
        self.1.merge(&other.1);
    }
}

#[derive(Default, Clone)]
struct TransactionTally(Plain, Plain);

impl Tally for TransactionTally {
    type Cell = TransactionCell;
    fn add(&mut self, _: &Arena, cell: &TransactionCell) {
        self.0.merge(cell.read_write.plain());
        self.1.merge(cell.read_only.plain());
    }
    fn merge(&mut self, other: &Self) {
        self.0.merge(other.0);
        self.1.merge(other.1);
    }
}

#[derive(Default, Clone)]
struct MemoryTally(MemoryStat);

impl Tally for MemoryTally {
    type Cell = MemoryCell;
    fn add(&mut self, _: &Arena, cell: &MemoryCell) {
        let [count, bytes] = cell.spans();
        self.merge(&MemoryTally(MemoryStat {
            count_alloc: cell.count_alloc.load(Relaxed),
            count_free: cell.count_free.load(Relaxed),
            bytes_alloc: cell.bytes_alloc.load(Relaxed),
            bytes_free: cell.bytes_free.load(Relaxed),
            low_count: count.low,
            current_count: count.now,
            high_count: count.high,
            low_bytes: bytes.low,
            current_bytes: bytes.now,
            high_bytes: bytes.high,
        }));
    }

    fn add_stale(&mut self, cell: &MemoryCell) {
        let (count, bytes) = cell.current();
        self.merge(&MemoryTally(MemoryStat {
            count_alloc: count.max(0).cast_unsigned(),
            count_free: count.min(0).unsigned_abs(),
            bytes_alloc: bytes.max(0).cast_unsigned(),
            bytes_free: bytes.min(0).unsigned_abs(),
            low_count: count,
            current_count: count,
            high_count: count,
            low_bytes: bytes,
            current_bytes: bytes,
            high_bytes: bytes,
        }));
    }

    fn merge(&mut self, other: &Self) {
        let (sum, other) = (&mut self.0, &other.0);
        for (sum, other) in [
            (&mut sum.count_alloc, other.count_alloc),
            (&mut sum.count_free, other.count_free),
            (&mut sum.bytes_alloc, other.bytes_alloc),
            (&mut sum.bytes_free, other.bytes_free),
        ] {
            *sum = sum.wrapping_add(other);
        }
        for (sum, other) in [
            (&mut sum.low_count, other.low_count),
            (&mut sum.current_count, other.current_count),
            (&mut sum.high_count, other.high_count),
            (&mut sum.low_bytes, other.low_bytes),
            (&mut sum.current_bytes, other.current_bytes),
            (&mut sum.high_bytes, other.high_bytes),
        ] {
            *sum = sum.wrapping_add(other);
        }
    }

    fn mark(&mut self, [count, bytes]: Spans) {
        let MemoryTally(stat) = self;
        // Memory may have been allocated or freed between the two reads.
        let bounded = |span: Span, now: i64| (span.low.min(now), span.high.max(now));
        (stat.low_count, stat.high_count) = bounded(count, stat.current_count);
        (stat.low_bytes, stat.high_bytes) = bounded(bytes, stat.current_bytes);
    }
}

#[derive(Default, Clone)]
struct ErrorTally(PlainError);

impl Tally for ErrorTally {
    type Cell = ErrorCell;
    fn add(&mut self, _: &Arena, cell: &ErrorCell) {
        self.0.merge(cell.plain());
    }
    fn merge(&mut self, other: &Self) {
        self.0.merge(other.0);
    }
}

/// Converts counters to those of a row. LOCK_TIME comes in microseconds from the host, CPU_TIME in
/// nanoseconds from the system.
pub(crate) fn counters(PlainCounters(values): PlainCounters) -> StatementCounters {
    let [
        max_total_memory,
        max_controlled_memory,
        lock_time,
        rows_sent,
        rows_examined,
        select_range,
        errors,
        warnings,
        rows_affected,
        created_tmp_disk_tables,
        created_tmp_tables,
        select_full_join,
        select_full_range_join,
        select_range_check,
        select_scan,
        sort_merge_passes,
        sort_range,
        sort_rows,
        sort_scan,
        no_index_used,
        no_good_index_used,
        cpu_time,
    ]: [u64; COUNTERS] = values;
    StatementCounters {
        lock_time_ps: lock_time.wrapping_mul(1_000_000),
        errors,
        warnings,
        rows_affected,
        rows_sent,
        rows_examined,
        created_tmp_disk_tables,
        created_tmp_tables,
        select_full_join,
        select_full_range_join,
        select_range,
        select_range_check,
        select_scan,
        sort_merge_passes,
        sort_range,
        sort_rows,
        sort_scan,
        no_index_used,
        no_good_index_used,
        cpu_time_ps: cpu_time.wrapping_mul(1000),
        max_total_memory,
        max_controlled_memory,
    }
}

impl Engine {
    /// Emits a row for every wait instrument and owner, zeros included, in the order of registration. Only
    /// the grouping by thread can be restricted to one thread.
    pub fn wait_summary(&self, asked: impl Into<ReadRequest<Grouping>>, sink: SummarySink<'_, Stat>) {
        let scale = Scale::of(self);
        self.summarise::<WaitTally, _>(SummaryFamily::Waits, asked.into(), |_, t| scale.stat(t.0), sink);
    }

    /// Emits a row for every stage instrument and owner. See also [`Engine::wait_summary`].
    pub fn stage_summary(&self, asked: impl Into<ReadRequest<Grouping>>, sink: SummarySink<'_, Stat>) {
        let scale = Scale::of(self);
        self.summarise::<WaitTally, _>(SummaryFamily::Stages, asked.into(), |_, t| scale.stat(t.0), sink);
    }

    /// Emits a row for every statement instrument and owner. See also [`Engine::wait_summary`].
    pub fn statement_summary(
        &self,
        asked: impl Into<ReadRequest<Grouping>>,
        sink: SummarySink<'_, StatementStat>,
    ) {
        let scale = Scale::of(self);
        let stat = |_, t: StatementTally| StatementStat { stat: scale.stat(t.0), sum: counters(t.1) };
        self.summarise::<StatementTally, _>(SummaryFamily::Statements, asked.into(), stat, sink);
    }

    /// Emits a row for the transaction instrument and every owner. See also [`Engine::wait_summary`].
    pub fn transaction_summary(
        &self,
        asked: impl Into<ReadRequest<Grouping>>,
        sink: SummarySink<'_, TransactionStat>,
    ) {
        let scale = Scale::of(self);
        let stat = |_, t: TransactionTally| TransactionStat {
            read_write: scale.stat(t.0),
            read_only: scale.stat(t.1),
        };
        self.summarise::<TransactionTally, _>(SummaryFamily::Transactions, asked.into(), stat, sink);
    }

    /// Emits a row for every memory instrument and owner. See also [`Engine::wait_summary`].
    pub fn memory_summary(&self, asked: impl Into<ReadRequest<Grouping>>, sink: SummarySink<'_, MemoryStat>) {
        self.summarise::<MemoryTally, _>(SummaryFamily::Memory, asked.into(), |_, t| t.0, sink);
    }

    /// Emits a row for every error and owner, zeros included, by number. Errors that the host does not know
    /// come first.
    pub fn error_summary(&self, asked: impl Into<ReadRequest<Grouping>>, sink: SummarySink<'_, ErrorStat>) {
        let scale = Scale::of(self);
        let stat = |class, ErrorTally(plain): ErrorTally| ErrorStat {
            error: self.errors.of_class(class).copied(),
            raised: plain.raised.saturating_sub(plain.handled),
            handled: plain.handled,
            seen_us: plain.seen().map(|(first, last)| (scale.wall_us(first), scale.wall_us(last))),
        };
        self.summarise::<ErrorTally, _>(SummaryFamily::Errors, asked.into(), stat, sink);
    }

    /// Returns the instruments, or errors, that a family's summary has rows for.
    fn counted(&self, family: SummaryFamily, grouping: Grouping) -> Vec<SummarizedClass> {
        if family == SummaryFamily::Errors {
            let name = |id| self.errors.of_class(id).map_or("", |error| error.name);
            return self.errors.classes().map(|id| SummarizedClass { id, name: name(id) }).collect();
        }
        let instruments = self.registry.all_of(|kind| SummaryFamily::of(kind) == family).into_iter();
        let summarised = instruments.filter(|it| self.summarised(it, grouping));
        summarised.map(|Instrument { id, name, .. }| SummarizedClass { id, name }).collect()
    }

    /// Returns whether an instrument has rows at this grouping. Abstract statements have none, and memory of
    /// the server as a whole belongs to no thread.
    pub(super) fn summarised(&self, instrument: &Instrument, grouping: Grouping) -> bool {
        match instrument.kind {
            Kind::Thread => false,
            Kind::Statement => !instrument.name.starts_with("statement/abstract/"),
            Kind::Memory => {
                grouping == Grouping::Global || self.registry.switches(instrument.id) & SERVER_WIDE == 0
            }
            _ => true,
        }
    }

    fn summarise<T: Tally, S>(
        &self,
        family: SummaryFamily,
        asked: ReadRequest<Grouping>,
        stat: impl Fn(ClassId, T) -> S,
        sink: SummarySink<'_, S>,
    ) {
        let ReadRequest { what: grouping, thread, parts } = asked;
        let instruments = self.counted(family, grouping);
        match grouping {
            Grouping::Global => {
                let tallies = self.unfolding(|| self.global_tallies::<T>(family, parts, &instruments));
                let owner = Owner::default();
                let _ = emit(&owner, &instruments, tallies, &stat, sink);
            }
            Grouping::Thread => {
                for (thread_id, thread) in self.live_threads_of(thread) {
                    let owner = Owner { thread_id, ..Owner::default() };
                    let tallies = self.unfolding(|| {
                        let mut tallies = vec![T::default(); instruments.len()];
                        let own = self.thread_tallies::<T>(family, Viewer::Thread, thread, &instruments);
                        merge(&mut tallies, &own);
                        tallies
                    });
                    if self.still_lives(thread, owner.thread_id)
                        && emit(&owner, &instruments, tallies, &stat, sink).is_break()
                    {
                        return;
                    }
                }
            }
            Grouping::Account => {
                self.summarise_parties::<T, S>(family, (ACCOUNT, parts), &instruments, &stat, sink)
            }
            Grouping::User => {
                self.summarise_parties::<T, S>(family, (USER, parts), &instruments, &stat, sink)
            }
            Grouping::Host => {
                self.summarise_parties::<T, S>(family, (HOST, parts), &instruments, &stat, sink)
            }
        }
    }

    fn summarise_parties<T: Tally, S>(
        &self,
        family: SummaryFamily,
        (kind, parts): (usize, Parts),
        of: &[SummarizedClass],
        stat: &impl Fn(ClassId, T) -> S,
        sink: SummarySink<'_, S>,
    ) {
        // Threads that connect from here on are missing. Those that leave are in the party's sums by then.
        let threads = self.live_threads();
        for party in self.parties(kind) {
            let tallies = self.unfolding(|| {
                let mut tallies = self.sums_tallies::<T>(family, &party, of);
                let belongs =
                    |thread: &Thread| thread.parties[kind].load(Relaxed) == self.arena.offset_of(party.slot);
                for (id, thread) in threads.iter().filter(|(_, thread)| belongs(thread)) {
                    let own = self.thread_tallies::<T>(family, VIEWERS_OF[kind], thread, of);
                    if belongs(thread) && self.still_lives(thread, *id) {
                        merge(&mut tallies, &own);
                    }
                }
                self.mark_sums((family, parts), || self.branch(kind, party.slot, &threads), of, &mut tallies);
                tallies
            });
            if party.is_still() && emit(&party.owner, of, tallies, stat, sink).is_break() {
                return;
            }
        }
    }

    /// Returns the sums of a party's closed connections. A user's and a host's include those of their
    /// accounts.
    fn sums_tallies<T: Tally>(
        &self,
        family: SummaryFamily,
        party: &SeenParty,
        of: &[SummarizedClass],
    ) -> Vec<T> {
        let mut tallies = vec![T::default(); of.len()];
        let add = |tally: &mut T, cell: &T::Cell| tally.add(&self.arena, cell);
        merge(&mut tallies, &self.bank_tallies(&[&party.slot.sums(family).bank], of, add));
        for account in &party.accounts {
            let own = self.bank_tallies(&[&account.slot.sums(family).bank], of, add);
            if account.is_still() {
                merge(&mut tallies, &own);
            }
        }
        tallies
    }

    fn global_tallies<T: Tally>(
        &self,
        family: SummaryFamily,
        parts: Parts,
        of: &[SummarizedClass],
    ) -> Vec<T> {
        let mut tallies = vec![T::default(); of.len()];
        let add = |tally: &mut T, cell: &T::Cell| tally.add(&self.arena, cell);
        merge(&mut tallies, &self.bank_tallies(&[&self.ended_sums(family).bank], of, add));
        for (id, thread) in self.live_threads() {
            let own = self.thread_tallies::<T>(family, Viewer::Global, thread, of);
            if self.still_lives(thread, id) {
                merge(&mut tallies, &own);
            }
        }
        self.mark_sums((family, parts), || self.trunk(&self.found_threads()), of, &mut tallies);
        tallies
    }

    /// Sets the marks of memory sums, if they are requested: they need all parts of a sum.
    fn mark_sums<'a, T: Tally>(
        &self,
        (family, parts): (SummaryFamily, Parts),
        branch: impl FnOnce() -> Branch<'a>,
        of: &[SummarizedClass],
        tallies: &mut [T],
    ) {
        if family == SummaryFamily::Memory && parts.has(MemoryStat::MARKS) {
            let branch = branch();
            tallies.iter_mut().zip(of).for_each(|(tally, it)| tally.mark(self.spans(&branch, it.id)));
        }
    }

    /// Returns the values of a thread's cells. The caller checks afterwards that the thread still lives, else
    /// they are meaningless.
    fn thread_tallies<T: Tally>(
        &self,
        family: SummaryFamily,
        viewer: Viewer,
        thread: &Thread,
        of: &[SummarizedClass],
    ) -> Vec<(usize, T)> {
        let [own, other, kept] = [BANK_OWN, BANK_UNATTRIBUTED, BANK_THREAD_ONLY].map(|it| &thread.banks[it]);
        let banks: &[&Bank] = match (family, viewer) {
            (SummaryFamily::Errors, _) => &[&thread.errors],
            (_, Viewer::Global) => &[own, other],
            _ => &[own, kept],
        };
        self.bank_tallies(banks, of, |tally: &mut T, cell| {
            if self.counts_for(family, viewer, cell.head().epoch.load(Relaxed)) {
                tally.add_own(self, thread, cell);
            } else {
                tally.add_stale(cell);
            }
        })
    }

    /// Returns the values of all cells in the banks, with the position of their instruments. Most instruments
    /// have none.
    fn bank_tallies<T: Tally>(
        &self,
        banks: &[&Bank],
        of: &[SummarizedClass],
        add: impl Fn(&mut T, &T::Cell),
    ) -> Vec<(usize, T)> {
        let mut cells = Vec::new();
        for bank in banks {
            bank.peek_places(&self.arena, of.iter().map(|it| it.id), |at, cell| {
                // The cells are scattered: prefetch all of them before reading the first.
                self.arena.expect_read(cell, size_of::<T::Cell>());
                cells.push((at, cell));
            });
        }
        let tally = |(at, cell)| {
            let mut tally = T::default();
            add(&mut tally, self.arena.get(cell)?);
            Some((at, tally))
        };
        cells.into_iter().filter_map(tally).collect()
    }

    /// Returns READ, WRITE and MISC of every file instrument.
    pub fn file_summary(&self) -> Vec<(&'static str, IoStat)> {
        self.io_summary(Kind::File, |add| {
            self.pools.each::<File>(&self.arena, Pool::Files, |file| add(file.head.class(), &file.io));
        })
    }

    /// Returns READ, WRITE and MISC of every socket instrument.
    pub fn socket_summary(&self) -> Vec<(&'static str, IoStat)> {
        self.io_summary(Kind::Socket, |add| {
            self.pools.each::<SocketSlot>(&self.arena, Pool::Sockets, |socket| {
                self.each_io(socket, |io| add(socket.head.class(), io));
            });
        })
    }

    /// Sums picoseconds rather than ticks, so that the result equals the sum of the rows by instance.
    fn io_summary(
        &self,
        kind: Kind,
        each: impl Fn(&mut dyn FnMut(ClassId, &IoCounts)),
    ) -> Vec<(&'static str, IoStat)> {
        let scale = Scale::of(self);
        let instruments: Vec<Instrument> = self.registry.all_of(|it| it == kind);
        let stats = self.unfolding(|| {
            let mut stats: std::collections::HashMap<ClassId, IoStat> = Default::default();
            let mut add = |class, io: &IoCounts| {
                let mut plain = PlainIo::default();
                plain.add(io);
                stats.entry(class).or_default().merge(plain.stat(scale));
            };
            for instrument in &instruments {
                if let Some(cell) = self.ended_io.bank.cell::<IoCell>(&self.arena, instrument.id) {
                    add(instrument.id, &cell.io);
                }
            }
            each(&mut add);
            stats
        });
        let row = |instrument: &Instrument| {
            (instrument.name, stats.get(&instrument.id).copied().unwrap_or_default())
        };
        instruments.iter().map(row).collect()
    }
}

/// Plain values of an [`IoCounts`].
#[derive(Default, Clone)]
pub(crate) struct PlainIo([(Plain, u64); 3]);

impl PlainIo {
    pub(crate) fn add(&mut self, io: &IoCounts) {
        for ((plain, bytes), part) in self.0.iter_mut().zip(&io.parts) {
            plain.merge(part.stat.plain());
            *bytes += ByteCounts::bytes_of(part);
        }
    }

    pub(crate) fn stat(&self, scale: Scale) -> IoStat {
        let [read, write, misc] = self.0.map(|(plain, bytes)| ByteStat { stat: scale.stat(plain), bytes });
        IoStat { read, write, misc }
    }

    /// Returns all operations together.
    pub(crate) fn all(&self) -> Plain {
        let mut all = Plain::default();
        self.0.iter().for_each(|(plain, _)| all.merge(*plain));
        all
    }
}

impl ByteCounts {
    fn bytes_of(part: &ByteCounts) -> u64 {
        part.bytes.load(Relaxed)
    }
}

/// An instrument, or an error, in a summary.
struct SummarizedClass {
    id: ClassId,
    name: &'static str,
}

/// Adds the values of cells to the sums at their positions.
fn merge<T: Tally>(sums: &mut [T], own: &[(usize, T)]) {
    own.iter().for_each(|(at, own)| sums[*at].merge(own));
}

fn emit<T, S>(
    owner: &Owner,
    instruments: &[SummarizedClass],
    tallies: Vec<T>,
    stat: &impl Fn(ClassId, T) -> S,
    sink: SummarySink<'_, S>,
) -> ControlFlow<()> {
    for (instrument, tally) in instruments.iter().zip(tallies) {
        sink(Summary { owner: owner.clone(), name: instrument.name, stat: stat(instrument.id, tally) })?;
    }
    ControlFlow::Continue(())
}
