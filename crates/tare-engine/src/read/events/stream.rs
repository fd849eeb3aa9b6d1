//! Streams: every event of a type that has ended, once, in the order of its thread; and how many could not be
//! read any more.
//!
//! A thread numbers what it records, and a block says the number of its first record. So a reader that remembers how far it
//! has come in each thread, in its [`Cursor`], sees what is new and what it has missed. Of threads that have ended only
//! the sum of their numbers is kept (`departed`): what their blocks do not account for was missed. The engine keeps nothing of
//! a reader, so there may be any number of them, and a slow one misses more and holds up nobody.
//!
//! Statements and transactions are recorded when they end. Waits and stages get their number when they begin: what lasts is
//! read when it has ended, and what never did has a number and is no event.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use tare_sync::journal;

use super::ended::{Numbered, Spelled, Statements, StreamedStatement};
use super::transactions::Transaction;
use super::{Seen, Sources};
use crate::Engine;
use crate::count::account::Party;
use crate::memory::arena::{BlockId, WORDS};
use crate::memory::pool::{Pool, resolve};
use crate::read::Scale;
use crate::record::RINGS;
use crate::record::stage::record::StageEvent;
use crate::record::wait::record::WaitEvent;
use crate::snapshot::*;

/// Blocks that one answer is made of at most: some ten thousand statements.
const PIECE: usize = 512;

/// How far a reader has come. A new one begins with what ends after it was first used.
#[derive(Debug, Default)]
pub struct Cursor {
    begun: bool,
    /// The number of the next record, of each thread that may have more.
    next: Numbered<u64, u64>,
    /// Threads that have ended and have no more, though there are blocks of theirs.
    finished: HashSet<u64>,
    /// Likewise those that are not in `next`, up to this THREAD_ID: they ended before the beginning.
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

/// What one read of a stream came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// Events handed out.
    pub read: u64,
    /// Events that have ended since the read before, and could not be read any more.
    pub lost: u64,
    /// Whether more could be read now.
    pub more: bool,
    /// How many events have been recorded up to here since the start: what two readings differ by was read or lost between
    /// them, or was a wait or a stage that never ended.
    pub position: u64,
}

/// Whose an event is, and when it ended.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// PROCESSLIST_ID; `None`: of a background thread.
    pub processlist_id: Option<u64>,
    /// The account's user; `None`: of a background thread, or the account has been forgotten.
    pub user: Option<Arc<str>>,
    /// Its host, likewise.
    pub host: Option<Arc<str>>,
    /// When it ended, in microseconds since the Unix epoch. Of one that was not timed: when its block was begun.
    pub ended_us: u64,
}

/// Takes events one by one until it breaks, which is the end of the cursor's use.
pub type Each<'a, R> = &'a mut dyn FnMut(&R, &Origin) -> ControlFlow<()>;

/// As [`Each`], of statements, which are not made before they are asked for something.
pub type EachStatement<'a> = &'a mut dyn FnMut(&StreamedStatement<'_>, &Origin) -> ControlFlow<()>;

/// A type of events, as a stream reads it block by block.
pub(super) trait Streamed {
    const TYPE: EventType;
    /// An event where it was read.
    type Event<'w>;
    /// What has to be known of a thread's block to read its next.
    type Open: Default;
    /// When it ended, if it was timed.
    fn ended(event: &Self::Event<'_>) -> Option<u64>;
    /// Calls `each` with the numbers of a block's events, in their order, and the events; `None`: it is none. What has not
    /// ended at the block's end is left open.
    fn read<'w>(
        open: &mut Open<Self::Open>,
        first: u64,
        words: &'w [u64],
        each: impl FnMut(u64, Option<Self::Event<'w>>) -> ControlFlow<()>,
    ) -> ControlFlow<()>;
}

/// What was not over where a thread's block was.
#[derive(Default)]
pub(super) struct Open<T> {
    /// The number of the event that lasts.
    pub(super) number: Option<u64>,
    /// It may have ended in the thread's next block.
    continued: bool,
    pub(super) known: T,
}

/// A block that has something new.
struct Candidate {
    block: BlockId,
    thread_id: u64,
    opened: u64,
    /// The number behind its last record; `None`: it is being filled.
    end: Option<u64>,
    /// It has one record that is new, which may be the beginning of something that lasts.
    is_rest: bool,
}

/// What one answer is made of.
#[derive(Default)]
pub(super) struct Handed {
    pub(super) read: u64,
    /// Numbers that were no events.
    void: u64,
}

/// What is said of a block, by whoever has copied it.
pub(super) struct Copied {
    pub(super) thread_id: u64,
    pub(super) opened: u64,
    /// The number of its first record.
    pub(super) first: u64,
    pub(super) session: u64,
    /// The thread has begun another block behind it.
    continued: bool,
}

/// A block that has something new, where it was copied to.
pub(super) struct Fresh<'w, 'c, T> {
    pub(super) block: Copied,
    pub(super) words: &'w [u64],
    /// The number of the first record that is new; who takes the block moves it behind the last one.
    pub(super) next: &'c mut u64,
    open: &'c mut Open<T>,
    pub(super) handed: &'c mut Handed,
}

/// The blocks of one answer, and those that are left for the next.
type Lists<'a> = [&'a [Candidate]; 2];

/// User and host of accounts, by their weak names.
pub(super) type Accounts = Numbered<u32, [Option<Arc<str>>; 2]>;

impl Engine {
    /// Reads on in the stream of statements.
    pub fn stream_statements(&self, cursor: &mut Cursor, parts: Parts, each: EachStatement<'_>) -> Piece {
        let (scale, sources) = (Scale::of(self), Sources::of(self, parts));
        let mut spelled = std::mem::take(&mut cursor.spelled);
        let piece = self.read_on::<Statements>(cursor, |seen, origin| {
            let (event, _) = &seen.event;
            let name = spelled.name(self, event.class);
            let is_asked = parts.has(StatementRow::DIGEST);
            let digest = if is_asked { spelled.digest(self, event.digest) } else { None };
            each(&StreamedStatement::new(self, seen, scale, &sources, name, digest), origin)
        });
        cursor.spelled = spelled;
        piece
    }

    /// Reads on in the stream of transactions.
    pub fn stream_transactions(
        &self,
        cursor: &mut Cursor,
        parts: Parts,
        each: Each<'_, TransactionRow>,
    ) -> Piece {
        let (scale, sources) = (Scale::of(self), Sources::of(self, parts));
        self.read_on::<Transaction>(cursor, |seen, origin| {
            each(&self.transaction_row(&seen, scale, &sources), origin)
        })
    }

    /// Reads on in the stream of waits.
    pub fn stream_waits(&self, cursor: &mut Cursor, parts: Parts, each: Each<'_, WaitRow>) -> Piece {
        let (scale, sources) = (Scale::of(self), Sources::of(self, parts));
        self.read_on::<WaitEvent>(cursor, |seen, origin| each(&self.wait_row(&seen, scale, &sources), origin))
    }

    /// Reads on in the stream of stages.
    pub fn stream_stages(&self, cursor: &mut Cursor, parts: Parts, each: Each<'_, StageRow>) -> Piece {
        let (scale, sources, nothing) = (Scale::of(self), Sources::of(self, parts), HashMap::new());
        self.read_on::<StageEvent>(cursor, |seen, origin| {
            each(&self.stage_row(&seen, scale, &nothing, &sources), origin)
        })
    }

    fn read_on<S: Streamed>(
        &self,
        cursor: &mut Cursor,
        mut each: impl FnMut(Seen<S::Event<'_>>, &Origin) -> ControlFlow<()>,
    ) -> Piece {
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
                each(Seen { thread_id, moment, opened, event }, &origin)
            })
        })
    }

    /// Reads on block by block.
    pub(super) fn read_blocks<S: Streamed>(
        &self,
        cursor: &mut Cursor,
        take: impl FnMut(Fresh<'_, '_, S::Open>) -> ControlFlow<()>,
    ) -> Piece {
        if !cursor.begun {
            self.begin(cursor, S::TYPE);
            return Piece { position: cursor.position(), ..Piece::default() };
        }
        let before = cursor.position();
        // Before the threads are looked at: who is counted here is not among them any more.
        let departed = self.departed[S::TYPE as usize - 1].load(Acquire);
        let live = self.recorded(S::TYPE);
        for id in live.keys() {
            cursor.next.entry(*id).or_insert(0);
        }
        // All that was ever recorded is behind the cursor, and nobody has ended that it still knows: no block is looked at.
        // Whoever ends in between is counted nowhere now, and is found the next time.
        if departed + live.values().sum::<u64>() == before && cursor.next.len() == live.len() {
            return Piece { position: before, ..Piece::default() };
        }
        let (mut candidates, unknown) = self.candidates(S::TYPE, cursor, &live);
        let mut left = candidates.split_off(piece(&candidates));
        let Handed { read, void } = self.hand_out::<S>(cursor, [&candidates, &left], &live, take);
        // Threads that have come since the last read, and perhaps have gone again, are the next one's: only who is known
        // before the blocks are looked at is known to have ended.
        cursor.next.extend(unknown.iter().map(|candidate| (candidate.thread_id, 0)));
        left.extend(unknown);
        pass_over(cursor, &live, candidates.iter().chain(&left));
        settle(cursor, departed, &live, &left);
        let position = cursor.position();
        Piece {
            read,
            lost: (position - before).saturating_sub(read + void),
            more: !left.is_empty(),
            position,
        }
    }

    /// What has been recorded so far is behind the cursor.
    fn begin(&self, cursor: &mut Cursor, of: EventType) {
        (cursor.next, cursor.settled, cursor.horizon) = self.unfolding(|| {
            let live = self.recorded(of);
            (live, self.departed[of as usize - 1].load(Acquire), self.next_thread_id.load(Acquire) - 1)
        });
        cursor.begun = true;
    }

    /// The number of every live thread's next record.
    fn recorded(&self, of: EventType) -> Numbered<u64, u64> {
        let number = |thread: &'static crate::thread::Thread| {
            let id = thread.thread_id.load(Relaxed);
            let (ring, blocks) = thread.rings()[of as usize - 1];
            let recorded = ring.recorded(blocks);
            self.still_lives(thread, id).then_some((id, recorded))
        };
        self.live_threads().into_iter().filter_map(number).collect()
    }

    /// The blocks that have something new, those that were begun first at the beginning; and those of threads the cursor
    /// does not know.
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

    /// Hands out what is new in these blocks. Those behind them are not read now.
    fn hand_out<S: Streamed>(
        &self,
        cursor: &mut Cursor,
        [candidates, left]: Lists<'_>,
        live: &Numbered<u64, u64>,
        mut take: impl FnMut(Fresh<'_, '_, S::Open>) -> ControlFlow<()>,
    ) -> Handed {
        let mut handed = Handed::default();
        let mut opens: Numbered<u64, Open<S::Open>> = Numbered::default();
        let mut words = vec![0; WORDS];
        for candidate in candidates {
            let Some(copied) = self.copy(candidate.block, S::TYPE, &mut words) else { continue };
            let Copied { thread_id, opened, first, continued, .. } = copied;
            if (thread_id, opened) != (candidate.thread_id, candidate.opened) {
                // It was begun anew meanwhile: what is in it now was recorded after the thread was looked at.
                continue;
            }
            let Some(next) = cursor.next.get_mut(&thread_id) else { continue };
            let open = opens.entry(thread_id).or_default();
            if open.number.is_some_and(|lasts| lasts + 1 != first) {
                // How it ended was between.
                *open = Open::default();
            }
            open.continued = continued;
            if open.number != Some(*next) {
                // What was between could not be read any more. Unless it was recorded after the thread was looked at: then
                // it may be in a block that was no candidate yet.
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
        // What a thread that has ended was in will not end any more. Where its next block has gone, nobody knows whether it did:
        // then it is lost, as all that was there.
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

    /// Copies a block's records of a type and says whose they are. `None`: it is being filled anew, or has something else by now,
    /// or nothing yet.
    fn copy(&self, block: BlockId, of: EventType, words: &mut [u64]) -> Option<Copied> {
        let meta = self.arena.meta(block);
        let copied = meta.generation.read(|_| {
            let is_still = self.arena.used(block) == RINGS[of as usize - 1].used as u8;
            journal::copy(self.arena.words(block), words);
            // As in `Engine::blocks`: whoever saw a record sees what was stored before it.
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

    pub(super) fn origin(&self, session: u64, accounts: &mut Accounts) -> Origin {
        let account = (session >> 32) as u32;
        let [user, host] = accounts.entry(account).or_insert_with(|| self.account_names(account)).clone();
        let processlist_id = Some(session & 0xFFFF_FFFF).filter(|id| *id != 0);
        Origin { processlist_id, user, host, ended_us: 0 }
    }

    /// User and host of the account of a weak name.
    fn account_names(&self, name: u32) -> [Option<Arc<str>>; 2] {
        let Some((_held, account)) = resolve::<Party>(&self.arena, Pool::Accounts, name) else {
            return [None, None];
        };
        let names = self.of_account(account).map(|of| of.and_then(Party::name).map(Arc::from));
        let is_still = account.head.generation() & 0xFF == name & 0xFF;
        if is_still { names } else { [None, None] }
    }
}

/// How many of these blocks one answer is made of. A block of which only the beginning of what lasts is new counts for nothing:
/// there may be one of every thread, for ever.
fn piece(candidates: &[Candidate]) -> usize {
    let mut whole = 0;
    let is_beyond = |candidate: &Candidate| {
        whole += usize::from(!candidate.is_rest);
        whole > PIECE
    };
    candidates.iter().position(is_beyond).unwrap_or(candidates.len())
}

/// What live threads have numbered and nothing is left of was missed: there was no memory for it, or not for long.
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

/// Of threads that have ended the cursor forgets those that have no more, and what was recorded beyond what there is to
/// be read of them was missed.
fn settle(cursor: &mut Cursor, departed: u64, live: &Numbered<u64, u64>, left: &[Candidate]) {
    let mut ends: Numbered<u64, Option<u64>> = Numbered::default();
    for candidate in left {
        let end = ends.entry(candidate.thread_id).or_insert(Some(0));
        // Who has just ended has not closed its last block yet.
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
        // Less: who is ending now is not counted among the departed yet.
        *settled += departed.saturating_sub(*settled + to_come);
    }
}
