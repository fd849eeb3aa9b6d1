//! HOT PATH: the identity of a digest, tokens and schema, and the hash that leads to it.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::count::digest_table::DigestSlot;
use crate::memory::arena::Own;
use crate::memory::text;

/// A statement's normalised tokens, from the host.
#[derive(Clone, Copy, Debug)]
pub struct DigestTokens<'a> {
    /// The token array.
    pub bytes: &'a [u8],
    /// The number of the identifiers' character set. If a digest is seen in several, it is shown in the
    /// first.
    pub charset: u32,
    /// Whether the statement had more tokens than the host kept.
    pub cut: bool,
    /// The host's hash function for tokens. It is called when the engine keeps only the first of the tokens:
    /// those alone cannot tell two digests apart.
    pub hash: fn(&[u8]) -> [u8; 16],
}

/// The bytes of tokens that a digest keeps.
pub const MAX_DIGEST: usize = 1024;

/// Returns the host's hash of all tokens, as words.
#[cold]
fn hash_of(tokens: &DigestTokens<'_>) -> [u64; 2] {
    let hash = u128::from_le_bytes((tokens.hash)(tokens.bytes));
    [hash as u64, (hash >> 64) as u64]
}

/// The identity of a digest: its tokens and the current schema.
#[derive(Clone, Copy)]
pub(crate) struct DigestKey<'a> {
    pub(crate) tokens: &'a [u8],
    /// The hash of all tokens if not all are kept, otherwise zeros.
    pub(crate) whole: [u64; 2],
    pub(crate) charset: u32,
    pub(crate) cut: bool,
    pub(crate) schema: &'a [AtomicU64],
    pub(crate) schema_len: usize,
}

impl<'a> DigestKey<'a> {
    /// Returns the key of a statement in this schema, keeping `size` bytes of its tokens.
    #[inline(always)]
    pub(crate) fn of(
        tokens: &DigestTokens<'a>,
        size: usize,
        (schema, schema_len): (&'a [AtomicU64], usize),
    ) -> DigestKey<'a> {
        let (bytes, whole) = match tokens.bytes.get(..size) {
            Some(kept) if tokens.bytes.len() > size => (kept, hash_of(tokens)),
            _ => (tokens.bytes, [0; 2]),
        };
        let cut = tokens.cut || bytes.len() < tokens.bytes.len();
        DigestKey { tokens: bytes, whole, charset: tokens.charset, cut, schema, schema_len }
    }

    /// Returns whether the slot holds this digest. Valid only if the slot has an owner and does not change
    /// meanwhile.
    #[inline(always)]
    pub(crate) fn is(&self, slot: &DigestSlot) -> bool {
        let [tokens_len, schema_len] =
            [&slot.tokens_len, &slot.schema_len].map(|len| len.load(Relaxed) as usize);
        text::equals(&slot.tokens, tokens_len, self.tokens)
            && text::same(&slot.schema, schema_len, self.schema, self.schema_len)
            && slot.whole() == self.whole
    }
}

/// A key and its hash.
pub(crate) struct Hashed<'a> {
    pub(crate) hash: u64,
    pub(crate) key: DigestKey<'a>,
}

impl<'a> std::ops::Deref for Hashed<'a> {
    type Target = DigestKey<'a>;
    fn deref(&self) -> &DigestKey<'a> {
        &self.key
    }
}

impl<'a> Hashed<'a> {
    #[inline(always)]
    pub(crate) fn of(key: DigestKey<'a>) -> Hashed<'a> {
        let mut hash = text::hash(key.whole[0] ^ key.schema_len as u64, key.tokens);
        for word in key.schema.iter().take(text::words(key.schema_len)) {
            hash = (hash.rotate_left(5) ^ word.own()).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
        Hashed { hash, key }
    }

    /// Returns whether the slot's owner is this digest, and stores its generation then.
    pub(crate) fn owner_is(&self, slot: &DigestSlot, generation: &Cell<u32>) -> bool {
        let found = slot.read(|| self.is(slot)).filter(|(_, is)| *is);
        found.inspect(|(owner, _)| generation.set(*owner)).is_some()
    }

    pub(crate) fn fill(&self, slot: &DigestSlot, now: u64) {
        slot.hash.store(self.hash, Relaxed);
        slot.charset.store(self.charset, Relaxed);
        slot.cut.store(u32::from(self.cut), Relaxed);
        for (to, word) in slot.whole.iter().zip(self.whole) {
            to.store(word, Relaxed);
        }
        slot.schema_len.store(self.schema_len as u32, Relaxed);
        for (to, from) in slot.schema.iter().zip(self.schema).take(text::words(self.schema_len)) {
            to.store(from.load(Relaxed), Relaxed);
        }
        slot.tokens_len.store(text::write(&slot.tokens, self.tokens) as u32, Relaxed);
        slot.own.first_seen.store(now, Relaxed);
    }
}
