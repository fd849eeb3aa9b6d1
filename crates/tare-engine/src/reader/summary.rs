//! Summaries by event name: threads' cells, and what has ended.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{Scale, Sink};
use crate::Engine;
use crate::cell::{
    ByteCounts, COUNTERS, Cell, Family, IoCell, IoCounts, MemoryCell, Plain, StatCell, StatementCell,
    TransactionCell, Viewer,
};
use crate::instance::{File, Socket};
use crate::pool::Pool;
use crate::snapshot::*;
use crate::thread::{BANK_OWN, BANK_THREAD_ONLY, BANK_UNATTRIBUTED, Thread};

/// A statistic that merges: the plain values of a cell.
trait Tally: Default + Clone {
    type Cell: Cell;
    fn add(&mut self, cell: &Self::Cell);
    /// What a cell shows that a reset has passed since its writer last looked; most show nothing.
    fn add_stale(&mut self, _cell: &Self::Cell) {}
}

#[derive(Default, Clone)]
struct WaitTally(Plain);

impl Tally for WaitTally {
    type Cell = StatCell;
    fn add(&mut self, cell: &StatCell) {
        self.0.merge(cell.stat.plain());
    }
}

#[derive(Default, Clone)]
struct StatementTally(Plain, [u64; COUNTERS]);

impl Tally for StatementTally {
    type Cell = StatementCell;
    fn add(&mut self, cell: &StatementCell) {
        self.0.merge(cell.stat.plain());
        for (sum, counter) in self.1.iter_mut().zip(&cell.counters) {
            *sum += counter.load(Relaxed);
        }
    }
}

#[derive(Default, Clone)]
struct TransactionTally(Plain, Plain);

impl Tally for TransactionTally {
    type Cell = TransactionCell;
    fn add(&mut self, cell: &TransactionCell) {
        self.0.merge(cell.read_write.plain());
        self.1.merge(cell.read_only.plain());
    }
}

#[derive(Default, Clone)]
struct MemoryTally(MemoryStat);

impl Tally for MemoryTally {
    type Cell = MemoryCell;
    fn add(&mut self, cell: &MemoryCell) {
        let stat = &mut self.0;
        let (count, bytes) = cell.current();
        stat.count_alloc = stat.count_alloc.wrapping_add(cell.count_alloc.load(Relaxed));
        stat.count_free = stat.count_free.wrapping_add(cell.count_free.load(Relaxed));
        stat.bytes_alloc = stat.bytes_alloc.wrapping_add(cell.bytes_alloc.load(Relaxed));
        stat.bytes_free = stat.bytes_free.wrapping_add(cell.bytes_free.load(Relaxed));
        stat.current_count += count;
        stat.current_bytes += bytes;
        stat.low_count += cell.low_count.load(Relaxed);
        stat.high_count += cell.high_count.load(Relaxed);
        stat.low_bytes += cell.low_bytes.load(Relaxed);
        stat.high_bytes += cell.high_bytes.load(Relaxed);
    }

    fn add_stale(&mut self, cell: &MemoryCell) {
        let stat = &mut self.0;
        let (count, bytes) = cell.current();
        stat.count_alloc = stat.count_alloc.wrapping_add_signed(count.max(0));
        stat.count_free = stat.count_free.wrapping_add_signed((-count).max(0));
        stat.bytes_alloc = stat.bytes_alloc.wrapping_add_signed(bytes.max(0));
        stat.bytes_free = stat.bytes_free.wrapping_add_signed((-bytes).max(0));
        for (sum, now) in [
            (&mut stat.current_count, count),
            (&mut stat.low_count, count),
            (&mut stat.high_count, count),
            (&mut stat.current_bytes, bytes),
            (&mut stat.low_bytes, bytes),
            (&mut stat.high_bytes, bytes),
        ] {
            *sum += now;
        }
    }
}

/// Counters as a row has them. LOCK_TIME comes in microseconds from the host.
pub(crate) fn counters(words: &[AtomicU64; COUNTERS]) -> StatementCounters {
    plain_counters(&std::array::from_fn(|at| words[at].load(Relaxed)))
}

pub(crate) fn plain_counters(values: &[u64; COUNTERS]) -> StatementCounters {
    let [
        lock_time,
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
    ] = *values;
    StatementCounters {
        lock_time_ps: lock_time.saturating_mul(1_000_000),
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
    }
}

impl Engine {
    /// Every wait instrument, for every owner, zeros included, in the order of registration.
    pub fn wait_summary(&self, level: Level, sink: Sink<'_, Stat>) {
        let scale = Scale::of(self);
        self.summarise::<WaitTally, _>(Family::Waits, level, |t| scale.stat(t.0), sink);
    }

    /// As [`Engine::wait_summary`], for stages.
    pub fn stage_summary(&self, level: Level, sink: Sink<'_, Stat>) {
        let scale = Scale::of(self);
        self.summarise::<WaitTally, _>(Family::Stages, level, |t| scale.stat(t.0), sink);
    }

    /// As [`Engine::wait_summary`], for statements.
    pub fn statement_summary(&self, level: Level, sink: Sink<'_, StatementStat>) {
        let scale = Scale::of(self);
        let stat = |t: StatementTally| StatementStat { stat: scale.stat(t.0), sum: plain_counters(&t.1) };
        self.summarise::<StatementTally, _>(Family::Statements, level, stat, sink);
    }

    /// As [`Engine::wait_summary`], for transactions.
    pub fn transaction_summary(&self, level: Level, sink: Sink<'_, TransactionStat>) {
        let scale = Scale::of(self);
        let stat =
            |t: TransactionTally| TransactionStat { read_write: scale.stat(t.0), read_only: scale.stat(t.1) };
        self.summarise::<TransactionTally, _>(Family::Transactions, level, stat, sink);
    }

    /// As [`Engine::wait_summary`], for memory.
    pub fn memory_summary(&self, level: Level, sink: Sink<'_, MemoryStat>) {
        self.summarise::<MemoryTally, _>(Family::Memory, level, |t| t.0, sink);
    }

    fn summarise<T: Tally, S>(&self, family: Family, level: Level, stat: impl Fn(T) -> S, sink: Sink<'_, S>) {
        let instruments: Vec<Instrument> = (self.registry.all().into_iter())
            .filter(|instrument| Family::of(instrument.kind) == family && instrument.kind != Kind::Thread)
            .collect();
        match level {
            Level::Global => {
                let tallies = self.unfolding(|| self.global_tallies::<T>(family, &instruments));
                let owner = Owner::default();
                let _ = emit(&owner, &instruments, tallies, &stat, sink);
            }
            Level::Thread => {
                for thread in self.live_threads() {
                    let owner = Owner { thread_id: thread.thread_id.load(Relaxed), ..Owner::default() };
                    let tallies = self.unfolding(|| self.thread_tallies::<T>(family, thread, &instruments));
                    let gone =
                        thread.alive.load(Relaxed) != 1 || thread.thread_id.load(Relaxed) != owner.thread_id;
                    if !gone && emit(&owner, &instruments, tallies, &stat, sink).is_break() {
                        return;
                    }
                }
            }
            // Accounts, users and hosts are kept apart from the next version on.
            Level::Account | Level::User | Level::Host => {}
        }
    }

    fn thread_tallies<T: Tally>(&self, family: Family, thread: &Thread, of: &[Instrument]) -> Vec<T> {
        let mut tallies = vec![T::default(); of.len()];
        for (tally, instrument) in tallies.iter_mut().zip(of) {
            for bank in [BANK_OWN, BANK_THREAD_ONLY] {
                self.tally_cell(family, Viewer::Thread, thread, bank, instrument.id, tally);
            }
        }
        tallies
    }

    fn global_tallies<T: Tally>(&self, family: Family, of: &[Instrument]) -> Vec<T> {
        let mut tallies = vec![T::default(); of.len()];
        for (tally, instrument) in tallies.iter_mut().zip(of) {
            if let Some(cell) = self.ended.cell::<T::Cell>(&self.arena, instrument.id) {
                tally.add(cell);
            }
        }
        for thread in self.live_threads() {
            for (tally, instrument) in tallies.iter_mut().zip(of) {
                for bank in [BANK_OWN, BANK_UNATTRIBUTED] {
                    self.tally_cell(family, Viewer::Global, thread, bank, instrument.id, tally);
                }
            }
        }
        tallies
    }

    fn tally_cell<T: Tally>(
        &self,
        family: Family,
        viewer: Viewer,
        thread: &Thread,
        bank: usize,
        class: ClassId,
        tally: &mut T,
    ) {
        let Some(cell) = thread.banks[bank].cell::<T::Cell>(&self.arena, class) else { return };
        if cell.head().class.load(Relaxed) != class {
            return;
        }
        if self.counts_for(family, viewer, cell.head().epoch.load(Relaxed)) {
            tally.add(cell);
        } else {
            tally.add_stale(cell);
        }
    }

    /// READ, WRITE, MISC of every file instrument.
    pub fn file_summary(&self) -> Vec<(&'static str, IoStat)> {
        self.io_summary(Kind::File, |add| {
            self.pools.each::<File>(&self.arena, Pool::Files, |file| add(file.head.class(), &file.io));
        })
    }

    /// READ, WRITE, MISC of every socket instrument.
    pub fn socket_summary(&self) -> Vec<(&'static str, IoStat)> {
        self.io_summary(Kind::Socket, |add| {
            self.pools.each::<Socket>(&self.arena, Pool::Sockets, |socket| {
                if self.counts_for(Family::Sockets, Viewer::Global, socket.epoch.load(Relaxed)) {
                    add(socket.head.class(), &socket.io);
                }
            });
        })
    }

    fn io_summary(
        &self,
        kind: Kind,
        each: impl Fn(&mut dyn FnMut(ClassId, &IoCounts)),
    ) -> Vec<(&'static str, IoStat)> {
        let scale = Scale::of(self);
        let instruments: Vec<Instrument> =
            self.registry.all().into_iter().filter(|instrument| instrument.kind == kind).collect();
        let tallies = self.unfolding(|| {
            let mut tallies: std::collections::HashMap<ClassId, PlainIo> = Default::default();
            for instrument in &instruments {
                if let Some(cell) = self.ended_io.cell::<IoCell>(&self.arena, instrument.id) {
                    tallies.entry(instrument.id).or_default().add(&cell.io);
                }
            }
            each(&mut |class, io| tallies.entry(class).or_default().add(io));
            tallies
        });
        let row = |instrument: &Instrument| {
            let tally = tallies.get(&instrument.id).cloned().unwrap_or_default();
            (instrument.name, tally.stat(scale))
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

    pub(crate) fn stat(&self, scale: Scale<'_>) -> IoStat {
        let [read, write, misc] = self.0.map(|(plain, bytes)| ByteStat { stat: scale.stat(plain), bytes });
        IoStat { read, write, misc }
    }
}

impl ByteCounts {
    fn bytes_of(part: &ByteCounts) -> u64 {
        part.bytes.load(Relaxed)
    }
}

fn emit<T, S>(
    owner: &Owner,
    instruments: &[Instrument],
    tallies: Vec<T>,
    stat: &impl Fn(T) -> S,
    sink: Sink<'_, S>,
) -> ControlFlow<()> {
    for (instrument, tally) in instruments.iter().zip(tallies) {
        sink(Summary { owner: owner.clone(), name: instrument.name, stat: stat(tally) })?;
    }
    ControlFlow::Continue(())
}
