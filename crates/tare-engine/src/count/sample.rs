//! HOT PATH: the sample of a digest, one statement for people to read: the slowest, until it is too old.
//!
//! A sample is written into a private buffer, which then replaces the published one ([`Shown`]). The replaced
//! buffer is used for the next sample. So nobody waits, no sample is torn, and of two at the same time the
//! slower one stays.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use tare_sync::{Shown, Space, TreiberStack};

use crate::clock::monotonic_ns;
use crate::layout::statement::OpenStatement;
use crate::memory::arena::{Arena, ArenaView, BlockUse, Offset, Own, WORDS};
use crate::memory::text;

/// The header of a sample, before its text.
#[repr(C)]
pub(crate) struct SampleHead {
    /// The next free buffer, while this one is free.
    next: AtomicU32,
    /// Length of the text in bytes.
    pub(crate) len: AtomicU32,
    /// Number of the text's character set.
    pub(crate) charset: AtomicU32,
    /// 1 if the text was longer.
    pub(crate) cut: AtomicU32,
    /// Time that the statement took, in ticks; 0: not timed.
    pub(crate) wait: AtomicU64,
    /// When the statement ended, in ticks.
    pub(crate) seen: AtomicU64,
    /// When the sample was taken, in nanoseconds of the monotonic clock.
    taken_ns: AtomicU64,
}

// SAFETY: meets `ArenaView`: atomics only, alignment 8, less than a block.
#[allow(unsafe_code)]
unsafe impl ArenaView for SampleHead {}

const HEAD_WORDS: usize = size_of::<SampleHead>() / 8;

/// A statement that may become a sample.
pub(crate) struct SampleCandidate<'a> {
    pub(crate) open: &'a OpenStatement,
    /// Time that it took, in ticks; 0: not timed.
    pub(crate) wait: u64,
    /// When it ended, in ticks.
    pub(crate) seen: u64,
}

/// The buffers of all samples.
pub(crate) struct DigestSamples {
    space: Space,
    free: TreiberStack,
    /// Words of a text.
    text_words: AtomicU32,
    /// The maximum age of a sample, in nanoseconds; 0: unlimited.
    age_ns: AtomicU64,
}

impl DigestSamples {
    pub(crate) const fn new() -> DigestSamples {
        DigestSamples {
            space: Space::new(),
            free: TreiberStack::new(),
            text_words: AtomicU32::new(0),
            age_ns: AtomicU64::new(0),
        }
    }

    /// Sets the maximum length of texts and the maximum age of samples.
    pub(crate) fn start(&self, bytes: u32, age_s: u32) {
        self.text_words.store(text::words(bytes as usize) as u32, Relaxed);
        self.age_ns.store(u64::from(age_s) * 1_000_000_000, Relaxed);
    }

    /// Returns the least time of a statement that may become the sample, in ticks; 0 if any may.
    pub(crate) fn least(&self, arena: &Arena, shown: &Shown) -> u64 {
        shown.read(|buffer| self.least_after(arena, buffer)).unwrap_or(0)
    }

    /// Returns the least time of a statement that may replace the sample in this buffer (0: there is none),
    /// in ticks.
    fn least_after(&self, arena: &Arena, buffer: Offset) -> u64 {
        let Some(head) = arena.get::<SampleHead>(buffer) else { return 0 };
        let age_ns = self.age_ns.load(Relaxed);
        let is_old = age_ns != 0 && monotonic_ns().saturating_sub(head.taken_ns.load(Relaxed)) > age_ns;
        if is_old { 0 } else { head.wait.load(Relaxed).saturating_add(1) }
    }

    /// Makes a statement the sample, unless a slower one comes first. Returns false if there was no memory
    /// for it.
    pub(crate) fn take(&self, arena: &Arena, shown: &Shown, candidate: &SampleCandidate<'_>) -> bool {
        let Some(mine) = self.buffer(arena) else { return false };
        self.fill(arena, mine, candidate);
        let is_wanted = |now| candidate.wait >= self.least_after(arena, now);
        self.give(arena, shown.replace(mine, is_wanted));
        true
    }

    /// Removes the sample of a slot whose digest is gone. Threads that take a sample for that digest pin the
    /// slot first.
    pub(crate) fn forget(&self, arena: &Arena, shown: &Shown) {
        self.give(arena, shown.replace(0, |now| now != 0));
    }

    /// Returns what `read` makes of the sample and its text; `None` if there is no sample.
    pub(crate) fn read<T>(
        &self,
        arena: &Arena,
        shown: &Shown,
        read: impl Fn(&SampleHead, &[AtomicU64]) -> T,
    ) -> Option<T> {
        shown.read(|buffer| Some(read(arena.get(buffer)?, self.text(arena, buffer)))).flatten()
    }

    fn fill(&self, arena: &Arena, mine: Offset, candidate: &SampleCandidate<'_>) {
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

    /// Returns a private buffer. Samples leave part of the memory to what is counted.
    fn buffer(&self, arena: &Arena) -> Option<Offset> {
        if let Some(free) = self.free.pop(|buffer| &arena.at::<SampleHead>(buffer).next) {
            return Some(free);
        }
        let words = HEAD_WORDS as u32 + self.text_words.load(Relaxed);
        let take = |_newest| if arena.is_scarce() { None } else { arena.take(BlockUse::Samples, 0) };
        let piece = self.space.cut(words, WORDS as u32, 0, take, |unseen| arena.give(unseen))?;
        Some(piece.block * WORDS as u32 + piece.at)
    }

    fn give(&self, arena: &Arena, buffer: Offset) {
        if buffer != 0 {
            self.free.push(buffer, |buffer| &arena.at::<SampleHead>(buffer).next);
        }
    }
}
