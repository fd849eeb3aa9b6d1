//! HOT PATH: one statement of a digest for people to look at: the slowest, until it is too old.
//!
//! A sample is written whole into a buffer nobody else has, and then takes the place of the one that is shown ([`Shown`]),
//! whose buffer is used again for the next one. So nobody waits, no sample is torn, and of two that come at once the
//! slower one stays.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use tare_sync::{FreeList, Shown, Space};

use crate::clock::monotonic_ns;
use crate::memory::arena::{Arena, Offset, Own, Use, View, WORDS};
use crate::memory::text;
use crate::record::statement::record::OpenStatement;

/// What stands before the text.
#[repr(C)]
pub(crate) struct SampleHead {
    /// Of a buffer that is free: the next one.
    next: AtomicU32,
    /// Bytes of the text.
    pub(crate) len: AtomicU32,
    /// Number of its character set.
    pub(crate) charset: AtomicU32,
    /// 1: the text was longer.
    pub(crate) cut: AtomicU32,
    /// How long the statement took, in ticks; 0: it was not timed.
    pub(crate) wait: AtomicU64,
    /// When it ended, in ticks.
    pub(crate) seen: AtomicU64,
    /// When it was taken, in nanoseconds of the monotonic clock.
    taken_ns: AtomicU64,
}

// SAFETY: atomics only, alignment 8, less than a block.
#[allow(unsafe_code)]
unsafe impl View for SampleHead {}

const HEAD_WORDS: usize = size_of::<SampleHead>() / 8;

/// A statement that may become a sample.
pub(crate) struct Candidate<'a> {
    pub(crate) open: &'a OpenStatement,
    /// How long it took, in ticks; 0: it was not timed.
    pub(crate) wait: u64,
    /// When it ended, in ticks.
    pub(crate) seen: u64,
}

/// The buffers.
pub(crate) struct Samples {
    space: Space,
    free: FreeList,
    /// Words of a text.
    text_words: AtomicU32,
    /// How long a sample is good, in nanoseconds; 0: for ever.
    age_ns: AtomicU64,
}

impl Samples {
    pub(crate) const fn new() -> Samples {
        Samples {
            space: Space::new(),
            free: FreeList::new(),
            text_words: AtomicU32::new(0),
            age_ns: AtomicU64::new(0),
        }
    }

    /// Texts have at most `bytes`, and a sample is good for `age_s` seconds.
    pub(crate) fn start(&self, bytes: u32, age_s: u32) {
        self.text_words.store(text::words(bytes as usize) as u32, Relaxed);
        self.age_ns.store(u64::from(age_s) * 1_000_000_000, Relaxed);
    }

    /// What a statement must have taken to become the sample, in ticks: 0 where any will do.
    pub(crate) fn least(&self, arena: &Arena, shown: &Shown) -> u64 {
        shown.read(|buffer| self.least_after(arena, buffer)).unwrap_or(0)
    }

    /// As [`Samples::least`], after this sample; 0: there is none.
    fn least_after(&self, arena: &Arena, buffer: Offset) -> u64 {
        let Some(head) = arena.get::<SampleHead>(buffer) else { return 0 };
        let age_ns = self.age_ns.load(Relaxed);
        let is_old = age_ns != 0 && monotonic_ns().saturating_sub(head.taken_ns.load(Relaxed)) > age_ns;
        if is_old { 0 } else { head.wait.load(Relaxed).saturating_add(1) }
    }

    /// Makes a statement the sample, unless a slower one comes first. False: there was no memory for it.
    pub(crate) fn take(&self, arena: &Arena, shown: &Shown, candidate: &Candidate<'_>) -> bool {
        let Some(mine) = self.buffer(arena) else { return false };
        self.fill(arena, mine, candidate);
        let is_wanted = |now| candidate.wait >= self.least_after(arena, now);
        self.give(arena, shown.replace(mine, is_wanted));
        true
    }

    /// Forgets the sample of a place whose tenant is gone: who takes one for that tenant has pinned it.
    pub(crate) fn forget(&self, arena: &Arena, shown: &Shown) {
        self.give(arena, shown.replace(0, |now| now != 0));
    }

    /// What `read` makes of the sample and its text, if there is one.
    pub(crate) fn read<T>(
        &self,
        arena: &Arena,
        shown: &Shown,
        read: impl Fn(&SampleHead, &[AtomicU64]) -> T,
    ) -> Option<T> {
        shown.read(|buffer| Some(read(arena.get(buffer)?, self.text(arena, buffer)))).flatten()
    }

    fn fill(&self, arena: &Arena, mine: Offset, candidate: &Candidate<'_>) {
        Shown::begin_to_fill();
        let head: &SampleHead = arena.at(mine);
        let (sql, len, charset, cut) = candidate.open.sql();
        let to = self.text(arena, mine);
        for (to, from) in to.iter().zip(sql).take(text::words(len)) {
            to.store(from.own(), Relaxed);
        }
        head.len.store(len.min(to.len() * 8) as u32, Relaxed);
        head.charset.store(charset, Relaxed);
        head.cut.store(u32::from(cut), Relaxed);
        head.wait.store(candidate.wait, Relaxed);
        head.seen.store(candidate.seen, Relaxed);
        head.taken_ns.store(monotonic_ns(), Relaxed);
    }

    fn text(&self, arena: &Arena, buffer: Offset) -> &'static [AtomicU64] {
        arena.slice(buffer + HEAD_WORDS as u32, self.text_words.load(Relaxed) as usize)
    }

    /// A buffer of the caller's own. Samples leave a part of the memory to what is counted.
    fn buffer(&self, arena: &Arena) -> Option<Offset> {
        if let Some(free) = self.free.pop(|buffer| &arena.at::<SampleHead>(buffer).next) {
            return Some(free);
        }
        let words = HEAD_WORDS as u32 + self.text_words.load(Relaxed);
        let take = |_newest| if arena.is_scarce() { None } else { arena.take(Use::Samples, 0) };
        let piece = self.space.cut(words, WORDS as u32, 0, take, |unseen| arena.give(unseen))?;
        Some(piece.block * WORDS as u32 + piece.at)
    }

    fn give(&self, arena: &Arena, buffer: Offset) {
        if buffer != 0 {
            self.free.push(buffer, |buffer| &arena.at::<SampleHead>(buffer).next);
        }
    }
}
