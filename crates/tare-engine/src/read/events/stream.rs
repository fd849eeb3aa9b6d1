//! Streams: every ended event of a type, once, in the order of its thread, and the number of those that could
//! not be read any more.
//!
//! A thread numbers its records, and a block has the number of its first record. A reader remembers in its
//! [`Cursor`] how far it has come in each thread, so it sees what is new and what it has missed. For ended
//! threads only the sum of their numbers is kept (`departed`): what their blocks do not account for was
//! missed. The engine keeps no state of readers, so there may be any number of them, and a slow one only
//! misses more itself.
//!
//! Statements and transactions are recorded when they end. Waits and stages get their number when they begin:
//! those in progress are read once they have ended, and those that never end have a number but are no event.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{
    Ordering::{Acquire, Relaxed},
    fence,
};

use tare_sync::journal;

use super::ended::{CopiedStatements, Numbered, Spelled, StreamedStatement};
use super::transactions::RecordedTransaction;
use super::{PlacedEvent, Sources};
use crate::Engine;
use crate::count::account::Party;
use crate::layout::ring::RINGS;
use crate::layout::stage::StageEvent;
use crate::layout::wait::WaitEvent;
use crate::memory::arena::{BlockId, WORDS};
use crate::memory::pool::{Pool, USED, read_named};
use crate::read::Scale;
use crate::snapshot::*;
use crate::thread::FoundThread;

/// Maximum number of blocks in one answer: some ten thousand statements.
const PIECE: usize = 512;

/// Position of a reader. A new one begins with what ends after its first use.
#[derive(Debug, Default)]
pub struct Cursor {
    begun: bool,
    /// Number of the next record, for each thread that may have more.
    next: Numbered<u64, u64>,
    /// Ended threads that have no more records, although blocks of theirs remain.
    finished: HashSet<u64>,
    /// Threads up to this THREAD_ID that are not in `next` ended before the stream began.
    horizon: u64,
    /// Records of threads that have no more: read, missed, or from before the beginning.
    settled: u64,
    pub(super) spelled: Spelled,
}

impl Cursor {
    fn position(&self) -> u64 {
        self.settled + self.next.values().sum::<u64>()
    }
}

/// Result of one read of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamPart {
    /// Number of events handed out.
    pub read: u64,
    /// Number of events that ended since the previous read and could not be read any more.
    pub lost: u64,
    /// Whether more can be read now.
    pub more: bool,
    /// Number of events recorded up to here since the start. The difference between two readings is what was
    /// read or lost between them, or was a wait or stage that never ended.
    pub position: u64,
}

/// Owner and end of an event.
#[derive(Clone, Debug, Default)]
pub struct EventOrigin {
    /// PROCESSLIST_ID; `None`: a background thread.
    pub processlist_id: Option<u64>,
    /// User of the account; `None`: a background thread, or the account has been forgotten.
    pub user: Option<Arc<str>>,
    /// Host of the account; `None`: a background thread, or the account has been forgotten.
    pub host: Option<Arc<str>>,
    /// End in microseconds since the Unix epoch. For an untimed event: the start of its block.
    pub ended_us: u64,
}

/// Callback that receives events one by one. A break ends the use of the cursor.
pub type Each<'a, R> = &'a mut dyn FnMut(&R, &EventOrigin) -> ControlFlow<()>;

/// Callback that receives statements one by one, whose columns are made on request. A break ends the use of
/// the cursor.
pub type EachStatement<'a> = &'a mut dyn FnMut(&StreamedStatement<'_>, &EventOrigin) -> ControlFlow<()>;

/// A type of events, as a stream reads it block by block.
pub(super) trait Streamed {
    const TYPE: EventType;
    /// An event in the buffer it was copied to.
    type Event<'w>;
    /// State from a thread's block that is needed to read its next one.
    type ThreadProgress: Default;
    /// Returns the end in ticks, if the event was timed.
    fn ended(event: &Self::Event<'_>) -> Option<u64>;
    /// Calls `each` with the numbers of a block's events, in order, and the events; `None` means that the
    /// number has no event. An event that has not ended at the block's end stays in `open`.
    fn read<'w>(
        open: &mut Open<Self::ThreadProgress>,
        first: u64,
        words: &'w [u64],
        each: impl FnMut(u64, Option<Self::Event<'w>>) -> ControlFlow<()>,
    ) -> ControlFlow<()>;
}

/// State of a thread between two of its blocks.
#[derive(Default)]
pub(super) struct Open<T> {
    /// Number of the event in progress.
    pub(super) number: Option<u64>,
    /// Whether the thread has begun another block, in which that event may have ended.
    continued: bool,
    pub(super) known: T,
}

/// A block with something new.
struct Candidate {
    block: BlockId,
    thread_id: u64,
    opened: u64,
    /// Number after its last record; `None`: it is being filled.
    end: Option<u64>,
    /// Whether only one record is new, which may be the beginning of an event in progress.
    is_rest: bool,
}

/// Numbers handed out in one answer.
#[derive(Default)]
pub(super) struct Handed {
    pub(super) read: u64,
    /// Numbers without an event.
    void: u64,
}

/// Header of a block, as copied.
pub(super) struct Copied {
    pub(super) thread_id: u64,
    pub(super) opened: u64,
    /// Number of its first record.
    pub(super) first: u64,
    pub(super) session: u64,
    /// Whether the thread has begun another block after it.
    continued: bool,
}

/// Copy of a block with something new.
pub(super) struct Fresh<'w, 'c, T> {
    pub(super) block: Copied,
    pub(super) words: &'w [u64],
    /// Number of the first new record. Whoever takes the block moves it past the last one.
    pub(super) next: &'c mut u64,
    open: &'c mut Open<T>,
    pub(super) handed: &'c mut Handed,
}

/// The blocks of one answer, and those left for the next.
type Lists<'a> = [&'a [Candidate]; 2];

/// User and host of accounts, by weak name.
pub(super) type Accounts = Numbered<u32, [Option<Arc<str>>; 2]>;

impl Engine {
    /// Reads the next part of the stream of statements.
    pub fn stream_statements(
        &self,
        cursor: &mut Cursor,
        parts: Parts,
        each: EachStatement<'_>,
    ) -> StreamPart {
        let (scale, sources) = (Scale::of(self), Sources::of(self, parts));
        let mut spelled = std::mem::take(&mut cursor.spelled);
        let piece = self.read_on::<CopiedStatements>(cursor, |seen, origin| {
            let (event, _) = &seen.event;
            let name = spelled.name(self, event.class);
            let is_asked = parts.has(StatementRow::DIGEST);
            let digest = if is_asked { spelled.digest(self, event.digest) } else { None };
            each(&StreamedStatement::new(self, seen, scale, &sources, name, digest), origin)
        });
        cursor.spelled = spelled;
        piece
    }

    /// Reads the next part of the stream of transactions.
    pub fn stream_transactions(
        &self,
        cursor: &mut Cursor,
        parts: Parts,
        each: Each<'_, TransactionRow>,
    ) -> StreamPart {
        let (scale, sources) = (Scale::of(self), Sources::of(self, parts));
        self.read_on::<RecordedTransaction>(cursor, |seen, origin| {
            each(&self.transaction_row(&seen, scale, &sources), origin)
        })
    }

    /// Reads the next part of the stream of waits.
    pub fn stream_waits(&self, cursor: &mut Cursor, parts: Parts, each: Each<'_, WaitRow>) -> StreamPart {
        let (scale, sources) = (Scale::of(self), Sources::of(self, parts));
        self.read_on::<WaitEvent>(cursor, |seen, origin| each(&self.wait_row(&seen, scale, &sources), origin))
    }

    /// Reads the next part of the stream of stages.
    pub fn stream_stages(&self, cursor: &mut Cursor, parts: Parts, each: Each<'_, StageRow>) -> StreamPart {
        let (scale, sources, nothing) = (Scale::of(self), Sources::of(self, parts), HashMap::new());
        self.read_on::<StageEvent>(cursor, |seen, origin| {
            each(&self.stage_row(&seen, scale, &nothing, &sources), origin)
        })
    }

    fn read_on<S: Streamed>(
        &self,
        cursor: &mut Cursor,
        mut each: impl FnMut(PlacedEvent<S::Event<'_>>, &EventOrigin) -> ControlFlow<()>,
    ) -> StreamPart {
        let scale = Scale::of(self);
        let mut accounts = Accounts::default();
        self.read_blocks::<S>(cursor, |fresh| {
            let Fresh { block, words, next, open, handed } = fresh;
            let mut origin = self.origin(block.session, &mut accounts);
            S::read(open, block.first, words, |number, event| {
                if number < *next {
                    return ControlFlow::Continue(());
                }
                *next = number + 1;
                let Some(event) = event else {
                    handed.void += 1;
                    return ControlFlow::Continue(());
                };
                handed.read += 1;
                let Copied { thread_id, opened, .. } = block;
                let moment = S::ended(&event).unwrap_or(opened);
                origin.ended_us = scale.wall_us(moment);
                each(PlacedEvent { thread_id, moment, opened, event }, &origin)
            })
        })
    }

    /// Reads the next part of a stream, block by block.
    pub(super) fn read_blocks<S: Streamed>(
        &self,
        cursor: &mut Cursor,
        take: impl FnMut(Fresh<'_, '_, S::ThreadProgress>) -> ControlFlow<()>,
    ) -> StreamPart {
        if !cursor.begun {
            self.begin(cursor, S::TYPE);
            return StreamPart { position: cursor.position(), ..StreamPart::default() };
        }
        let before = cursor.position();
        // Read this before the threads: a thread that is counted here is not among them any more.
        let departed = self.departed[S::TYPE as usize - 1].load(Acquire);
        let live = self.recorded(S::TYPE);
        for id in live.keys() {
            cursor.next.entry(*id).or_insert(0);
        }
        // The cursor is past everything ever recorded, and no thread it knows has ended, so no block need be
        // read. A thread that ends in between is counted nowhere now and found the next time.
        if departed + live.values().sum::<u64>() == before && cursor.next.len() == live.len() {
            return StreamPart { position: before, ..StreamPart::default() };
        }
        let (mut candidates, unknown) = self.candidates(S::TYPE, cursor, &live);
        let mut left = candidates.split_off(piece(&candidates));
        let Handed { read, void } = self.hand_out::<S>(cursor, [&candidates, &left], &live, take);
        // Threads that came since the last read, and may have ended, are left for the next read: only a
        // thread known before the blocks are read is known to have ended.
        cursor.next.extend(unknown.iter().map(|candidate| (candidate.thread_id, 0)));
        left.extend(unknown);
        pass_over(cursor, &live, candidates.iter().chain(&left));
        settle(cursor, departed, &live, &left);
        let position = cursor.position();
        StreamPart {
            read,
            lost: (position - before).saturating_sub(read + void),
            more: !left.is_empty(),
            position,
        }
    }

    /// Moves a new cursor past everything recorded so far.
    fn begin(&self, cursor: &mut Cursor, of: EventType) {
        (cursor.next, cursor.settled, cursor.horizon) = self.unfolding(|| {
            let live = self.recorded(of);
            (live, self.departed[of as usize - 1].load(Acquire), self.next_thread_id.load(Acquire) - 1)
        });
        cursor.begun = true;
    }

    /// Returns the number of the next record of every live thread.
    fn recorded(&self, of: EventType) -> Numbered<u64, u64> {
        let number = |(id, thread): FoundThread| {
            let (ring, blocks) = thread.rings()[of as usize - 1];
            let recorded = ring.recorded(blocks);
            self.still_lives(thread, id).then_some((id, recorded))
        };
        self.live_threads().into_iter().filter_map(number).collect()
    }

    /// Returns the blocks with something new, oldest first, and those of threads unknown to the cursor.
    fn candidates(
        &self,
        of: EventType,
        cursor: &mut Cursor,
        live: &Numbered<u64, u64>,
    ) -> (Vec<Candidate>, Vec<Candidate>) {
        let used = RINGS[of as usize - 1].used as u8;
        let Cursor { next, finished, horizon, .. } = cursor;
        let mut still_there = HashSet::new();
        let candidate = |block| {
            let meta = self.arena.meta(block);
            let thread_id = meta.owner.load(Relaxed);
            let records = meta.records();
            let end = (records != 0).then(|| meta.first.load(Relaxed) + u64::from(records));
            let known_end = end.or(live.get(&thread_id).copied());
            let is_new = match next.get(&thread_id) {
                Some(next) => known_end.is_none_or(|end| end > *next),
                None if finished.contains(&thread_id) => {
                    still_there.insert(thread_id);
                    false
                }
                None => thread_id > *horizon,
            };
            let is_rest =
                known_end.is_some_and(|end| next.get(&thread_id).is_some_and(|next| end == next + 1));
            is_new.then(|| Candidate { block, thread_id, opened: meta.opened.load(Relaxed), end, is_rest })
        };
        let blocks = (1..self.arena.high()).filter(|block| self.arena.used(*block) == used);
        let is_known = |candidate: &Candidate| next.contains_key(&candidate.thread_id);
        let (mut known, unknown): (Vec<_>, Vec<_>) = blocks.filter_map(candidate).partition(is_known);
        *finished = still_there;
        known.sort_by_key(|candidate| candidate.opened);
        (known, unknown)
    }

    /// Hands out what is new in these blocks. Those in `left` are not read now.
    fn hand_out<S: Streamed>(
        &self,
        cursor: &mut Cursor,
        [candidates, left]: Lists<'_>,
        live: &Numbered<u64, u64>,
        mut take: impl FnMut(Fresh<'_, '_, S::ThreadProgress>) -> ControlFlow<()>,
    ) -> Handed {
        let mut handed = Handed::default();
        let mut opens: Numbered<u64, Open<S::ThreadProgress>> = Numbered::default();
        let mut words = vec![0; WORDS];
        for candidate in candidates {
            let Some(copied) = self.copy(candidate.block, S::TYPE, &mut words) else { continue };
            let Copied { thread_id, opened, first, continued, .. } = copied;
            if (thread_id, opened) != (candidate.thread_id, candidate.opened) {
                // It was begun anew meanwhile, so its records are newer than the look at the thread.
                continue;
            }
            let Some(next) = cursor.next.get_mut(&thread_id) else { continue };
            let open = opens.entry(thread_id).or_default();
            if open.number.is_some_and(|lasts| lasts + 1 != first) {
                // The record that ends the event was in between.
                *open = Open::default();
            }
            open.continued = continued;
            if open.number != Some(*next) {
                // What was in between is lost, unless it was recorded after the look at the thread: then it
                // may be in a block that was no candidate yet.
                let sure = live.get(&thread_id).map_or(first, |recorded| first.min(*recorded));
                *next = sure.max(*next);
                if first > *next {
                    continue;
                }
            }
            let fresh = Fresh { block: copied, words: &words, next, open, handed: &mut handed };
            if take(fresh).is_break() {
                return handed;
            }
        }
        // The open event of an ended thread never ends. If the thread's next block is gone, the event may
        // have ended there: then it is lost, like everything in that block.
        for (id, open) in opens {
            let is_over = !live.contains_key(&id) && left.iter().all(|left| left.thread_id != id);
            if let Some(next) = cursor.next.get_mut(&id)
                && is_over
                && !open.continued
                && open.number == Some(*next)
            {
                *next += 1;
                handed.void += 1;
            }
        }
        handed
    }

    /// Copies a block's records and returns its header. `None`: it is being refilled, is used for something
    /// else, or is empty.
    fn copy(&self, block: BlockId, of: EventType, words: &mut [u64]) -> Option<Copied> {
        let meta = self.arena.meta(block);
        let copied = meta.generation.read(|_| {
            let is_still = self.arena.used(block) == RINGS[of as usize - 1].used as u8;
            journal::copy(self.arena.words(block), words);
            // The first record is published after the header, so whoever saw a record sees the header.
            is_still.then(|| Copied {
                thread_id: meta.owner.load(Relaxed),
                opened: meta.opened.load(Relaxed),
                first: meta.first.load(Relaxed),
                session: meta.session.load(Relaxed),
                continued: meta.is_continued(),
            })
        });
        copied.flatten().filter(|_| words.first().is_some_and(|first| *first != 0))
    }

    pub(super) fn origin(&self, session: u64, accounts: &mut Accounts) -> EventOrigin {
        let account = (session >> 32) as u32;
        let [user, host] = accounts.entry(account).or_insert_with(|| self.account_names(account)).clone();
        let processlist_id = Some(session & 0xFFFF_FFFF).filter(|id| *id != 0);
        EventOrigin { processlist_id, user, host, ended_us: 0 }
    }

    /// Returns user and host of the account with a weak name. The user and the host of a forgotten account
    /// may be forgotten, too, and their slots may serve others.
    fn account_names(&self, name: u32) -> [Option<Arc<str>>; 2] {
        let names = |account: &Party| {
            let names = self.of_account(account).map(|of| of.and_then(Party::name).map(Arc::from));
            fence(Acquire);
            (account.head.state() == USED).then_some(names)
        };
        read_named(&self.arena, Pool::Accounts, name, names).flatten().unwrap_or_default()
    }
}

/// Returns how many of these blocks one answer takes. Blocks in which only the beginning of an event in
/// progress is new do not count: there may be one per thread, for ever.
fn piece(candidates: &[Candidate]) -> usize {
    let mut whole = 0;
    let is_beyond = |candidate: &Candidate| {
        whole += usize::from(!candidate.is_rest);
        whole > PIECE
    };
    candidates.iter().position(is_beyond).unwrap_or(candidates.len())
}

/// Moves the cursor past what live threads have numbered and of which nothing is left. It was missed, for
/// lack of memory or time.
fn pass_over<'a>(
    cursor: &mut Cursor,
    live: &Numbered<u64, u64>,
    candidates: impl Iterator<Item = &'a Candidate>,
) {
    let to_read: HashSet<u64> = candidates.map(|candidate| candidate.thread_id).collect();
    for (id, recorded) in live.iter().filter(|(id, _)| !to_read.contains(id)) {
        cursor.next.entry(*id).and_modify(|next| *next = (*next).max(*recorded));
    }
}

/// Forgets ended threads that have no more records. What was recorded beyond what is left of them was missed.
fn settle(cursor: &mut Cursor, departed: u64, live: &Numbered<u64, u64>, left: &[Candidate]) {
    let mut ends: Numbered<u64, Option<u64>> = Numbered::default();
    for candidate in left {
        let end = ends.entry(candidate.thread_id).or_insert(Some(0));
        // A thread that has just ended has not closed its last block yet.
        *end = end.zip(candidate.end).map(|(one, other)| one.max(other));
    }
    let mut to_come = Some(0);
    let Cursor { next, finished, settled, .. } = cursor;
    next.retain(|id, next| {
        if live.contains_key(id) {
            return true;
        }
        match ends.get(id) {
            None => {
                *settled += *next;
                finished.insert(*id);
            }
            Some(end) => to_come = to_come.zip(*end).map(|(sum, end)| sum + end.max(*next)),
        }
        ends.contains_key(id)
    });
    if let Some(to_come) = to_come {
        // The difference may be negative: a thread that is ending is not counted among the departed yet.
        *settled += departed.saturating_sub(*settled + to_come);
    }
}
