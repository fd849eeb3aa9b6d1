//! HOT PATH: the digest of a prepared statement: its tokens, kept beside it from the time it is parsed, and
//! the cell in which its session counts executions.
//!
//! A digest is looked up once, at the first execution. Then the prepared statement keeps the cell of its
//! thread. An execution compares the place and checks that the cell still belongs to the digest. It does not
//! when the digest has lost its place, when the table was emptied, or when the thread has emptied its map.
//! Then the digest is looked up again by its tokens.

use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::Engine;
use crate::count::digest::DigestCell;
use crate::count::digest_key::{DigestKey, DigestTokens, Hashed, MAX_DIGEST};
use crate::layout::cell::SummaryFamily;
use crate::layout::statement::NAME_WORDS;
use crate::memory::arena::{ArenaView, Offset, Own};
use crate::memory::lost::Lost;
use crate::memory::pool::{Pool, SlotHead};
use crate::memory::text;
use crate::record::statement::Statement;
use crate::thread::Thread;

use super::{Prepared, PreparedRef};

/// The key of the digest that a prepared statement's executions count for.
#[repr(C)]
pub(crate) struct PreparedDigest {
    pub(crate) head: SlotHead,
    pub(crate) whole: [AtomicU64; 2],
    pub(crate) charset: AtomicU32,
    pub(crate) cut: AtomicU32,
    pub(crate) tokens_len: AtomicU32,
    /// Length of the schema that was current at prepare, which is also the one of each execution.
    schema_len: AtomicU32,
    schema: [AtomicU64; NAME_WORDS],
    pub(crate) tokens: [AtomicU64; MAX_DIGEST / 8],
}

// SAFETY: consists of atomics only, alignment 8; `Pools::carve` checks that it fits a block.
#[allow(unsafe_code)]
unsafe impl ArenaView for PreparedDigest {}

/// Place where executions are counted. Only the prepared statement's own session uses it, except for
/// `digest`.
#[repr(C)]
pub(crate) struct DigestPlace {
    /// The thread's cell; 0: not looked up yet.
    cell: AtomicU32,
    /// Place and generation that the cell had then.
    slot: AtomicU32,
    generation: AtomicU32,
    /// Place of the [`PreparedDigest`]; 0: unknown. Other threads read it too.
    digest: AtomicU32,
}

impl Prepared {
    /// Returns whether the host has reported the tokens.
    #[inline(always)]
    pub(crate) fn has_digest(&self) -> bool {
        self.place.digest.own() != 0
    }
}

impl PreparedDigest {
    fn fill(&self, key: &DigestKey<'_>) {
        for (to, word) in self.whole.iter().zip(key.whole) {
            to.store(word, Relaxed);
        }
        self.charset.store(key.charset, Relaxed);
        self.cut.store(u32::from(key.cut), Relaxed);
        self.schema_len.store(key.schema_len as u32, Relaxed);
        for (to, from) in self.schema.iter().zip(key.schema).take(text::words(key.schema_len)) {
            to.store(from.load(Relaxed), Relaxed);
        }
        self.tokens_len.store(text::write(&self.tokens, key.tokens) as u32, Relaxed);
    }

    /// Returns the key, whose tokens are copied to `room`.
    fn key<'a>(&'a self, room: &'a mut [u8; MAX_DIGEST]) -> DigestKey<'a> {
        DigestKey {
            tokens: text::copy(&self.tokens, self.tokens_len.own() as usize, room),
            whole: self.whole.each_ref().map(Own::own),
            charset: self.charset.own(),
            cut: self.cut.own() != 0,
            schema: &self.schema,
            schema_len: self.schema_len.own() as usize,
        }
    }
}

impl Engine {
    /// Stores the tokens of the prepared statement, which the host parsed during `statement`. Has no effect
    /// if it has a digest already.
    pub fn set_prepared_digest(
        &self,
        prepared: PreparedRef,
        statement: Statement,
        tokens: &DigestTokens<'_>,
    ) {
        let slot = prepared.slot(self);
        if tokens.bytes.is_empty() || slot.head.object() != prepared.object() || slot.has_digest() {
            return;
        }
        let Some(digest) = self.pools.take::<PreparedDigest>(&self.arena, Pool::PreparedDigests, 0) else {
            return self.losses.count(Lost::PreparedStatements);
        };
        digest.fill(&DigestKey::of(tokens, self.digest_size.load(Relaxed) as usize, statement.schema()));
        digest.head.publish();
        slot.place.digest.store(self.arena.offset_of(digest), Release);
    }

    /// Gives back the digest of a prepared statement that is deallocated.
    pub(super) fn give_prepared_digest(&self, prepared: &Prepared) {
        let digest = prepared.place.digest.swap(0, Relaxed);
        if let Some(digest) = self.arena.get::<PreparedDigest>(digest) {
            self.pools.give(&self.arena, Pool::PreparedDigests, digest);
        }
    }

    /// Returns the digest of a prepared statement, if it has one.
    pub(crate) fn prepared_digest(&self, prepared: &Prepared) -> Option<&'static PreparedDigest> {
        self.arena.get(prepared.place.digest.load(Acquire))
    }

    /// Returns the character set number of the digest. The prepared statement must have one.
    #[inline(always)]
    pub(crate) fn prepared_digest_charset(&self, prepared: &Prepared) -> u32 {
        self.arena.base().at::<PreparedDigest>(prepared.place.digest.own()).charset.own()
    }

    /// Returns the cell in which the thread counts an ended execution, and marks the digest as seen at `now`.
    #[inline(always)]
    pub(crate) fn prepared_digest_cell(
        &self,
        thread: &'static Thread,
        prepared: &Prepared,
        now: u64,
    ) -> Option<&'static DigestCell> {
        let place = &prepared.place;
        let epoch = self.epochs[SummaryFamily::Digests as usize].load(Relaxed);
        let known: Offset = place.cell.own();
        if known != 0 && thread.digest_epoch.own() == epoch {
            let cell: &DigestCell = self.arena.at(known);
            if cell.slot.own() == place.slot.own()
                && cell.generation.own() == place.generation.own()
                && self.is_known(cell, now)
            {
                cell.last_seen.store(now, Relaxed);
                return Some(cell);
            }
        }
        self.find_prepared_digest(thread, prepared, now)
    }

    /// Looks the cell up by the digest's tokens and remembers it.
    #[cold]
    #[inline(never)]
    fn find_prepared_digest(
        &self,
        thread: &'static Thread,
        prepared: &Prepared,
        now: u64,
    ) -> Option<&'static DigestCell> {
        let place = &prepared.place;
        let mut room = [0; MAX_DIGEST];
        let key = self.prepared_digest(prepared)?.key(&mut room);
        let cell = self.find_digest_cell(thread, &Hashed::of(key), now)?;
        cell.last_seen.store(now, Relaxed);
        place.slot.store(cell.slot.own(), Relaxed);
        place.generation.store(cell.generation.own(), Relaxed);
        place.cell.store(self.arena.offset_of(cell), Relaxed);
        Some(cell)
    }
}
