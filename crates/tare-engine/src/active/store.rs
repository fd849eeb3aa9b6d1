//! Records and their texts in two rings, in memory of their own. One thread writes; whoever reads copies.

use std::ops::ControlFlow;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use tare_sync::OverwritingRing;

use super::ROW_LOCK;
use super::names::{ReadNames, Texts};
use super::record::{NO_OPERATION, Record, WAIT_ROW_LOCK, WORDS, thread_of};
use crate::Engine;
use crate::memory::arena::Table;
use crate::record::operation;
use crate::snapshot::{ActiveHistoryState, ActiveRow, ClassId, Parts, WaitClass};

/// One part in so many of the memory is for texts.
const TEXTS: usize = 8;

/// The active session history of an engine.
pub(crate) struct ActiveHistory {
    records: OverwritingRing,
    record_words: Table,
    texts: OverwritingRing,
    text_words: Table,
    /// Number of samples taken.
    samples: AtomicU64,
    /// Time of all rows ever appended, in microseconds, by wait class.
    times_us: [AtomicU64; WaitClass::ALL.len()],
    /// Position of the first record that TRUNCATE has left.
    shown_from: AtomicU64,
}

impl ActiveHistory {
    pub(crate) const fn new() -> ActiveHistory {
        ActiveHistory {
            records: OverwritingRing::new(),
            record_words: Table::new(),
            texts: OverwritingRing::new(),
            text_words: Table::new(),
            samples: AtomicU64::new(0),
            times_us: [const { AtomicU64::new(0) }; WaitClass::ALL.len()],
            shown_from: AtomicU64::new(0),
        }
    }

    /// Reserves memory, once.
    fn map(&self, bytes: usize) -> Result<(), std::io::Error> {
        let words = bytes / 8;
        // Whole records, so that none lies at both ends.
        let records = (words - words / TEXTS) / WORDS * WORDS;
        self.text_words.map(words / TEXTS)?;
        self.record_words.map(records)
    }

    pub(super) fn texts(&self) -> Texts<'_> {
        Texts { ring: &self.texts, words: self.text_words.words() }
    }

    /// Appends a record. Only the sampler calls it.
    pub(super) fn append(&self, record: &Record) {
        self.records.append(self.record_words.words(), &record.pack());
        let time = &self.times_us[record.class as usize];
        time.store(time.load(Relaxed) + record.row_us, Relaxed);
    }

    /// Counts a sample. Only the sampler calls it.
    pub(super) fn count_sample(&self) {
        self.samples.store(self.samples.load(Relaxed) + 1, Relaxed);
    }

    /// Hides all records that are there now.
    pub(crate) fn truncate(&self) {
        self.shown_from.fetch_max(self.records.end(), Release);
    }

    /// Returns the position of the oldest record that is still there and shown, and the one behind the last.
    fn range(&self) -> (u64, u64) {
        let oldest = self.records.oldest(self.record_words.words());
        // A record that is just being overwritten cuts into the next one.
        let oldest = oldest.next_multiple_of(WORDS as u64).max(self.shown_from.load(Acquire));
        (oldest, self.records.end())
    }

    fn copy(&self, at: u64) -> Option<[u64; WORDS]> {
        let mut words = [0; WORDS];
        self.records.copy(self.record_words.words(), at, &mut words).then_some(words)
    }
}

impl Engine {
    /// Reserves memory for the active session history, apart from all other memory: at most `bytes`. Must be
    /// called once, before the first sample.
    ///
    /// # Errors
    /// Fails if the system refuses the address space.
    pub fn start_active_history(&self, bytes: usize) -> Result<(), std::io::Error> {
        self.active.map(bytes)
    }

    /// Calls `each` with every row of the active session history, or with those of one thread, the oldest
    /// first. Rows that are overwritten meanwhile are left out, as are those whose texts have been.
    pub fn active_history(
        &self,
        thread: Option<u64>,
        parts: Parts,
        each: &mut dyn FnMut(&ActiveRow) -> ControlFlow<()>,
    ) {
        let mut names = ReadNames::of(self.active.texts());
        let classes = self.registry.names();
        let (oldest, end) = self.active.range();
        for at in (oldest..end).step_by(WORDS) {
            let mut row = || {
                let words = self.active.copy(at)?;
                if thread.is_some_and(|thread| thread_of(&words) != thread) {
                    return None;
                }
                active_row(&Record::unpack(&words)?, parts, &classes, &mut names)
            };
            if let Some(row) = row()
                && each(&row).is_break()
            {
                return;
            }
        }
    }

    /// Returns how much the active session history holds.
    pub fn active_history_state(&self) -> ActiveHistoryState {
        let (from, end) = self.active.range();
        let oldest = (from..end).step_by(WORDS).find_map(|at| self.active.copy(at));
        ActiveHistoryState {
            samples: self.active.samples.load(Relaxed),
            rows: end.saturating_sub(from) / WORDS as u64,
            capacity: self.active.record_words.words().len() as u64 / WORDS as u64,
            oldest_us: oldest.map(|[time_us, ..]| time_us),
            times_us: self.active.times_us.each_ref().map(|time| time.load(Relaxed)),
        }
    }
}

/// Returns the row of a record. `None`: one of its texts has been overwritten. `classes` are the names of
/// instruments.
fn active_row(
    record: &Record,
    parts: Parts,
    classes: &[Option<&'static str>],
    names: &mut ReadNames<'_>,
) -> Option<ActiveRow> {
    let nonzero = |number: u64| (number != 0).then_some(number);
    let class = |class: ClassId| classes.get(usize::from(class).wrapping_sub(1)).copied().flatten();
    let is_named = parts.has(ActiveRow::NAMES);
    let [user, host, ..] = if is_named { names.parts(record.account)? } else { Default::default() };
    let [schema, ..] = if is_named { names.parts(record.schema)? } else { Default::default() };
    Some(ActiveRow {
        time_us: record.time_us,
        row_us: record.row_us,
        thread_id: record.thread_id,
        processlist_id: nonzero(record.processlist_id.into()),
        thread_name: class(record.thread).unwrap_or("unknown"),
        user,
        host,
        schema,
        digest: if is_named { names.digest(record.digest)? } else { None },
        event_id: nonzero(record.event_id),
        statement_us: record.statement_us,
        stage: class(record.stage),
        state: record.state,
        class: record.class,
        wait: if record.wait == WAIT_ROW_LOCK { Some(ROW_LOCK) } else { class(record.wait) },
        operation: (record.operation != NO_OPERATION).then(|| operation::name(record.operation)),
        object: if is_named { names.parts(record.object)? } else { Default::default() },
        wait_us: record.wait_us,
        blocking_thread_id: nonzero(record.blocking_thread_id),
        blocking_processlist_id: nonzero(record.blocking_processlist_id.into()),
        trx_id: nonzero(record.trx_id),
        trx_us: record.trx_us,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::active::names::{KnownNames, joined};
    use crate::snapshot::SessionState;

    fn record(number: u64, account: u32) -> Record {
        Record {
            time_us: number,
            row_us: 1_000_000,
            thread_id: number % 3 + 1,
            processlist_id: 0,
            blocking_processlist_id: 0,
            event_id: number,
            account,
            schema: 0,
            digest: 0,
            object: 0,
            thread: 0,
            stage: 0,
            wait: WAIT_ROW_LOCK,
            operation: NO_OPERATION,
            class: WaitClass::RowLock,
            state: SessionState::Waiting,
            statement_us: None,
            wait_us: None,
            trx_us: None,
            blocking_thread_id: 0,
            trx_id: 0,
        }
    }

    /// An engine whose history has room for few rows: with more, Miri takes long.
    fn engine() -> &'static Engine {
        let engine = Engine::small();
        engine.start_active_history(2 << 10).expect("address space");
        engine
    }

    fn rows(engine: &Engine, thread: Option<u64>) -> Vec<ActiveRow> {
        let mut rows = Vec::new();
        engine.active_history(thread, Parts::ALL, &mut |row| {
            rows.push(row.clone());
            ControlFlow::Continue(())
        });
        rows
    }

    #[test]
    fn the_oldest_rows_give_way_and_truncate_hides_all() {
        let engine = engine();
        let capacity = engine.active_history_state().capacity;
        assert_eq!(capacity, 18);
        let mut known = KnownNames::default();
        for number in 0..50 {
            let account = known.name(engine.active.texts(), &joined([b"ann", b"here"]));
            engine.active.append(&record(number, account));
        }
        let seen = rows(engine, None);
        let numbers: Vec<u64> = seen.iter().map(|row| row.time_us).collect();
        assert_eq!(numbers, (50 - capacity..50).collect::<Vec<_>>());
        assert!(seen.iter().all(|row| row.user.as_deref() == Some("ann") && row.wait == Some(ROW_LOCK)));
        let state = engine.active_history_state();
        assert_eq!((state.rows, state.oldest_us), (capacity, Some(50 - capacity)));
        assert_eq!(state.times_us[WaitClass::RowLock as usize], 50_000_000, "of all rows ever");
        let of_one = rows(engine, Some(2));
        assert!(of_one.len() as u64 >= capacity / 3 && of_one.iter().all(|row| row.thread_id == 2));
        engine.active.truncate();
        assert_eq!((rows(engine, None).len(), engine.active_history_state().rows), (0, 0));
        engine.active.append(&record(50, 0));
        assert_eq!(rows(engine, None).iter().map(|row| row.time_us).collect::<Vec<_>>(), [50]);
    }

    #[test]
    fn a_row_whose_texts_are_gone_is_gone() {
        let engine = engine();
        let mut known = KnownNames::default();
        let names: Vec<u32> =
            (0..18u32).map(|it| known.name(engine.active.texts(), &[it as u8 + 1; 16])).collect();
        names.iter().zip(0..).for_each(|(name, number)| engine.active.append(&record(number, *name)));
        let seen = rows(engine, None);
        assert!(!seen.is_empty() && seen.len() < 18, "{}", seen.len());
        assert!(seen.iter().all(|row| row.user.as_deref().map(str::len).is_some()));
        assert_eq!(seen.last().map(|row| row.time_us), Some(17));
    }

    #[test]
    fn a_history_without_memory_is_empty() {
        let engine = Engine::small();
        engine.active.append(&record(1, 0));
        let state = engine.active_history_state();
        assert_eq!((rows(engine, None).len(), state.rows, state.capacity, state.oldest_us), (0, 0, 0, None));
    }
}
