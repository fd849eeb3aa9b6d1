//! Events of all four types: current, history, history_long. This module has what is common to all types.

mod blocks;
mod ended;
mod in_progress;
mod running;
mod stages;
mod statements;
mod stream;
mod transactions;
mod waits;

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;

use tare_sync::journal;

use super::Scale;
use crate::Engine;
use crate::clock;
use crate::layout::ring::{RECORD_HISTORY, RECORD_LONG, RECORD_TIMED, RINGS};
use crate::memory::arena::WORDS;
use crate::record::wait::Source;
use crate::snapshot::*;
use crate::thread::Thread;

pub use blocks::{BlockRow, BlockTexts, RecordedStatement, StatementBlock};
pub use ended::StreamedStatement;
pub(crate) use in_progress::{RunningStatement, RunningTransaction};
pub use running::RunningTokens;
pub use stream::{Cursor, Each, EachStatement, EventOrigin, StreamPart};

/// Common facts of an event of any type.
trait EventFacts: Sized {
    const TYPE: EventType;
    /// Returns EVENT_ID.
    fn id(&self) -> u64;
    /// Returns the end in ticks: 0 while in progress, 1 if untimed.
    fn end(&self) -> u64;
    /// Returns END_EVENT_ID of an event that has ended.
    fn end_event_id(&self) -> u64;
    /// Returns the flags [`RECORD_TIMED`], [`RECORD_HISTORY`] and [`RECORD_LONG`].
    fn flags(&self) -> u8;
    /// Decodes the blocks of one thread, oldest first. Returns each event with the index of its block. The
    /// last event may be in progress.
    fn decode(blocks: &[CopiedBlock]) -> Vec<(usize, Self)>;
}

/// Copy of a block of records.
struct CopiedBlock {
    thread_id: u64,
    /// Start of the block, in ticks.
    opened: u64,
    words: Vec<u64>,
}

/// An event with the facts of its thread and block.
struct PlacedEvent<E> {
    thread_id: u64,
    /// End in ticks, as well as it is known.
    moment: u64,
    /// Start of the event's block, in ticks.
    opened: u64,
    event: E,
}

impl<E: EventFacts> PlacedEvent<E> {
    fn has_ended(&self) -> bool {
        self.event.end() != 0
    }

    /// Returns the sort key of a thread's events by their ends. Of two with the same END_EVENT_ID the inner
    /// one comes first. Times would not do: not every event has them.
    fn ending(&self) -> (u64, Reverse<u64>) {
        (self.event.end_event_id(), Reverse(self.event.id()))
    }
}

/// Cache of SOURCE for the rows of one answer. Reading one calls the kernel, because it may lie in an
/// unloaded plugin. Many events share theirs.
struct Sources<'a> {
    engine: &'a Engine,
    are_asked: bool,
    known: RefCell<HashMap<u64, Option<String>>>,
}

impl<'a> Sources<'a> {
    fn of(engine: &'a Engine, parts: Parts) -> Sources<'a> {
        Sources { engine, are_asked: parts.has(EventHead::SOURCE), known: RefCell::default() }
    }

    fn name(&self, source: u64) -> Option<String> {
        if !self.are_asked {
            return None;
        }
        self.known.borrow_mut().entry(source).or_insert_with(|| self.engine.source(source)).clone()
    }
}

/// Filter for the events of a type and scope that TRUNCATE has left.
struct EventFilter<'e> {
    engine: &'e Engine,
    of: EventType,
    scope: usize,
    hidden_before: u64,
    live: HashMap<u64, &'static Thread>,
}

impl EventFilter<'_> {
    fn shows<E: EventFacts>(&self, seen: &PlacedEvent<E>) -> bool {
        if self.hidden_before == 0 || seen.event.flags() & RECORD_TIMED != 0 {
            return seen.event.end() >= self.hidden_before;
        }
        // Judge an untimed event by its id, or, if the thread has ended, by its block.
        match self.first_shown(seen.thread_id) {
            Some(first) => seen.event.end_event_id() >= first,
            None => seen.opened >= self.hidden_before,
        }
    }

    /// Returns whether an event in progress is shown. After TRUNCATE it is no longer current, as in the
    /// built-in.
    fn shows_running<E: EventFacts>(&self, seen: &PlacedEvent<E>) -> bool {
        self.first_shown(seen.thread_id).is_some_and(|first| seen.event.id() >= first)
    }

    /// Returns the first event id of a thread that TRUNCATE has left; `None`: the thread has ended.
    fn first_shown(&self, thread_id: u64) -> Option<u64> {
        let thread = self.live.get(&thread_id)?;
        let first = thread.hidden[self.of as usize - 1][self.scope].load(Relaxed);
        self.engine.still_lives(thread, thread_id).then_some(first)
    }
}

impl Engine {
    fn shown(&self, of: EventType, asked: ReadRequest<Scope>) -> EventFilter<'_> {
        let scope = asked.what as usize;
        EventFilter {
            engine: self,
            of,
            scope,
            hidden_before: self.hidden_before[of as usize - 1][scope].load(Relaxed),
            live: self.live_threads_of(asked.thread).into_iter().collect(),
        }
    }

    /// Returns every block with records of one event type, of one thread or of all. A thread's blocks are
    /// adjacent, oldest first.
    fn blocks(&self, of: EventType, thread: Option<u64>) -> Vec<CopiedBlock> {
        let used = RINGS[of as usize - 1].used;
        let mut blocks = Vec::new();
        for block in 1..self.arena.high() {
            let meta = self.arena.meta(block);
            if self.arena.used(block) != used as u8 {
                continue;
            }
            // A thread that has just taken the block has hardly written to it. The copy tells the owner
            // reliably.
            if thread.is_some_and(|id| meta.owner.load(Relaxed) != id) {
                continue;
            }
            let copy = |_| {
                // Check again: the block may have been reused in between.
                (self.arena.used(block) == used as u8).then(|| {
                    let mut words = vec![0; WORDS];
                    journal::copy(self.arena.words(block), &mut words);
                    // The first record is published after the owner, so whoever saw a record sees its owner.
                    (words, meta.owner.load(Relaxed), meta.opened.load(Relaxed))
                })
            };
            // A block that was refilled during the copy is skipped: the copy may be a mixture.
            if let Some((words, thread_id, opened)) = meta.generation.read(copy).flatten() {
                blocks.push(CopiedBlock { thread_id, opened, words });
            }
        }
        blocks.retain(|block| thread.is_none_or(|id| block.thread_id == id));
        // Two blocks of a thread begin with different ids, and the first word of a block has its first id.
        blocks.sort_by_key(|block| (block.thread_id, block.words[0]));
        blocks
    }

    /// Returns every complete record of one event type, of one thread or of all. A thread's events are in the
    /// order in which they were written.
    fn records<E: EventFacts>(&self, thread: Option<u64>) -> Vec<PlacedEvent<E>> {
        let blocks = self.blocks(E::TYPE, thread);
        let mut all = Vec::new();
        for blocks in blocks.chunk_by(|one, other| one.thread_id == other.thread_id) {
            let mut moment = 0;
            all.extend(E::decode(blocks).into_iter().map(|(block, event)| {
                let CopiedBlock { thread_id, opened, .. } = blocks[block];
                // An untimed event ended no earlier than the timed one before it, and no earlier than its
                // block began.
                moment = moment.max(opened);
                let timed = event.flags() & RECORD_TIMED != 0;
                moment = if timed { moment.max(event.end()) } else { moment };
                let ended = if timed { event.end() } else { moment };
                PlacedEvent { thread_id, moment: ended, opened, event }
            }));
        }
        all
    }

    /// Returns the ended events of a scope, the newest last within a thread.
    fn ended<E: EventFacts>(&self, asked: ReadRequest<Scope>) -> Vec<PlacedEvent<E>> {
        let scope = asked.what;
        // What the long history still has of one thread depends on what the others have done since.
        let narrow = if scope == Scope::HistoryLong { None } else { asked.thread };
        let shown = self.shown(E::TYPE, ReadRequest { thread: narrow, ..asked });
        let wanted = if scope == Scope::HistoryLong { RECORD_LONG } else { RECORD_HISTORY };
        let mut records = self.records::<E>(narrow);
        records.retain(|seen| seen.has_ended() && seen.event.flags() & wanted != 0 && shown.shows(seen));
        match scope {
            Scope::HistoryLong => {
                records.sort_by_key(|seen| (seen.moment, seen.thread_id, seen.ending()));
                let size = self.history_long_size[E::TYPE as usize - 1].load(Relaxed) as usize;
                records.drain(..records.len().saturating_sub(size));
                records.retain(|seen| asked.thread.is_none_or(|id| seen.thread_id == id));
            }
            _ => {
                records.retain(|seen| shown.live.contains_key(&seen.thread_id));
                self.keep_history(&mut records);
            }
        }
        records
    }

    /// Keeps the latest events of every thread, as many as its history has.
    fn keep_history<E: EventFacts>(&self, records: &mut Vec<PlacedEvent<E>>) {
        let size = self.history_size[E::TYPE as usize - 1].load(Relaxed) as usize;
        records.sort_by_key(|seen| (seen.thread_id, seen.ending()));
        let mut left: HashMap<u64, usize> = HashMap::new();
        for seen in records.iter() {
            *left.entry(seen.thread_id).or_default() += 1;
        }
        records.retain(|seen| {
            let left = left.entry(seen.thread_id).or_default();
            *left -= 1;
            *left < size
        });
    }

    /// Returns SOURCE: base name and line.
    pub(super) fn source(&self, source: u64) -> Option<String> {
        if !self.sources.load(Relaxed) {
            return Some(String::new());
        }
        let (file, line) = Source(source).parts();
        let file = self.host.get()?.source_file(file)?;
        let base = file.rsplit('/').next().unwrap_or(&file);
        Some(format!("{base}:{line}"))
    }
}

fn timer(scale: Scale, start: u64, end: u64, flags: u8) -> Timer {
    if flags & RECORD_TIMED == 0 || start == 0 {
        return Timer::default();
    }
    let end = if end == 0 { clock::ticks() } else { end };
    let start_ps = scale.moment_ps(start);
    let wait_ps = scale.ps(end.saturating_sub(start));
    Timer { start_ps: Some(start_ps), end_ps: Some(start_ps.wrapping_add(wait_ps)), wait_ps: Some(wait_ps) }
}

fn nesting_of(id: u64, of: u8) -> Option<(u64, EventType)> {
    let of = match of {
        1 => EventType::Transaction,
        2 => EventType::Statement,
        3 => EventType::Stage,
        4 => EventType::Wait,
        _ => return None,
    };
    (id != 0).then_some((id, of))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::memory::arena::{BlockId, BlockUse};
    use crate::{Config, Host};

    /// A host that knows nothing.
    struct SilentHost;

    impl Host for SilentHost {
        fn digest(&self, _: &[u8], _: u32) -> Option<crate::DigestHash> {
            None
        }
        fn digest_text(&self, _: &[u8], _: u32, _: bool) -> Option<String> {
            None
        }
        fn command_name(&self, _: u32) -> Option<&'static str> {
            None
        }
        fn connection_type_name(&self, _: u8) -> Option<&'static str> {
            None
        }
        fn isolation_name(&self, _: u8) -> Option<&'static str> {
            None
        }
        fn xa_state_name(&self, _: u8) -> Option<&'static str> {
            None
        }
        fn lock_namespace_name(&self, _: u8) -> Option<&'static str> {
            None
        }
        fn lock_type_name(&self, _: u8, _: u8) -> Option<&'static str> {
            None
        }
        fn lock_duration_name(&self, _: u8) -> Option<&'static str> {
            None
        }
        fn lock_status_name(&self, _: u8) -> Option<&'static str> {
            None
        }
        fn characters(&self, text: &[u8], _: u32, most: usize) -> usize {
            text.len().min(most)
        }
        fn to_utf8(&self, text: &[u8], _: u32, _: usize) -> String {
            String::from_utf8_lossy(text).into_owned()
        }
        fn source_file(&self, _: usize) -> Option<String> {
            None
        }
    }

    /// Creates an engine with a thread, one block per event type, and one for a statement in progress.
    fn engine() -> (&'static Engine, &'static Thread, [BlockId; 4], BlockId) {
        let engine: &'static Engine = Box::leak(Box::new(Engine::new()));
        engine
            .start(Config { memory_max: 4 << 20, ..Config::default() }, &SilentHost)
            .expect("address space");
        let thread = engine.new_thread(0, None, None).expect("memory").slab();
        let take = |used| {
            let block = engine.arena.take(used, 0).expect("memory");
            engine.arena.meta(block).owner.store(thread.thread_id.load(Relaxed), Relaxed);
            block
        };
        let level = take(BlockUse::Statement);
        thread.statement_levels[0].store(level * WORDS as u32, Relaxed);
        (engine, thread, RINGS.map(|kind| take(kind.used)), level)
    }

    /// Generates a word: anything, or what looks like the beginning of a record.
    fn word() -> impl Strategy<Value = u64> {
        let first =
            (0..8u64, 0..64u64, any::<u64>()).prop_map(|(kind, low, high)| high << 9 | low << 3 | kind);
        prop_oneof![
            any::<u64>(),
            0..4096u64,
            first,
            (0..8u64, 3..6u64).prop_map(|(low, kind)| low << 61 | kind)
        ]
    }

    fn fill(to: &[AtomicU64], words: &[u64]) {
        for (to, word) in to.iter().zip(words.iter().cycle()) {
            to.store(*word, Relaxed);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

        #[test]
        #[cfg_attr(miri, ignore = "a case takes Miri a quarter of an hour: a reader looks at every block of the arena")]
        fn any_words_are_rows_or_nothing(words in vec(word(), 1..600)) {
            let (engine, thread, blocks, level) = engine();
            for block in blocks.into_iter().chain([level]) {
                fill(engine.arena.words(block), &words);
            }
            let transaction = engine.arena.offset_of(&thread.transaction);
            let size = size_of_val(&thread.transaction) / 8;
            fill(engine.arena.slice(transaction, size), &words);
            for scope in [Scope::Current, Scope::History, Scope::HistoryLong] {
                let rows = [
                    engine.waits(scope).len(),
                    engine.stages(scope).len(),
                    engine.statements(scope).len(),
                    engine.transactions(scope).len(),
                ];
                // The shortest record is one word.
                prop_assert!(rows.iter().all(|rows| *rows <= WORDS), "{rows:?}");
            }
        }
    }
}
