//! Names of digests. The owner of a place never changes its schema and hash, so these are read once and
//! cached for as long as it keeps the place. A scrape then touches nothing of a digest but its counts. Texts
//! and samples are read when requested.

use std::collections::HashMap;
use std::mem::offset_of;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use super::digests::{CopiedSample, expecting};
use super::tallies::{REST, Sum, Tallies};
use crate::Engine;
use crate::count::digest_table::DigestSlot;
use crate::memory::arena::{LINE, Offset};
use crate::memory::text;
use crate::setup::instrument::lock;
use crate::snapshot::{DigestRow, DigestText, Parts};
use crate::spelling::{DigestHash, push_hex};

/// Word offset of the schema's name in a slot.
const SCHEMA: Offset = (offset_of!(DigestSlot, schema) / 8) as Offset;

/// Cached owner of a place.
#[derive(Clone, Copy, Default)]
struct CachedOwner {
    /// Generation of the owner; 0: not read yet.
    generation: u32,
    /// 1-based number of its schema; 0: none.
    schema: u32,
    /// DIGEST; `None`: not requested from the host yet, or the host has none.
    hash: Option<DigestHash>,
}

/// Cache of owners.
pub(crate) struct OwnerCache(Mutex<Option<CachedNames>>);

impl OwnerCache {
    pub(crate) const fn new() -> OwnerCache {
        OwnerCache(Mutex::new(None))
    }
}

#[derive(Default)]
struct CachedNames {
    /// OwnerCache by number of the place.
    places: Vec<CachedOwner>,
    /// Schemas as they are shown.
    schemas: Arc<Vec<String>>,
    /// Number of each schema.
    numbers: HashMap<Vec<u8>, u32>,
}

impl CachedNames {
    /// Makes room for `places`. Schemas come and go: if there are more of them than places, the cache is
    /// emptied.
    fn make_room(&mut self, places: usize) {
        if self.schemas.len() > places {
            *self = CachedNames::default();
        }
        self.places.resize(places, CachedOwner::default());
    }

    fn number(&mut self, schema: &[u8]) -> u32 {
        if schema.is_empty() {
            return 0;
        }
        if let Some(number) = self.numbers.get(schema) {
            return *number;
        }
        // Readers that still use the list keep the old one.
        let schemas = Arc::make_mut(&mut self.schemas);
        schemas.push(text::shown(schema));
        let number = schemas.len() as u32;
        self.numbers.insert(schema.to_vec(), number);
        number
    }
}

/// Names of digests, by position in [`Tallies::sums`].
#[derive(Default)]
pub(super) struct DigestNames {
    owners: Vec<CachedOwner>,
    schemas: Arc<Vec<String>>,
    /// Positions of the tokens in `bytes`; empty if no text is requested.
    tokens: Vec<TokenPlace>,
    bytes: Vec<u8>,
    pub(super) samples: Vec<Option<CopiedSample>>,
}

/// Position of a digest's tokens, and their character set.
#[derive(Clone, Copy, Default)]
struct TokenPlace {
    part: (u32, u32),
    charset: u32,
    cut: bool,
}

impl DigestNames {
    fn part(&self, (from, to): (u32, u32)) -> &[u8] {
        &self.bytes[from as usize..to as usize]
    }

    fn copy_tokens(&mut self, slot: &DigestSlot) -> TokenPlace {
        let from = self.bytes.len() as u32;
        text::append(&slot.tokens, slot.tokens_len.load(Relaxed) as usize, &mut self.bytes);
        TokenPlace {
            part: (from, self.bytes.len() as u32),
            charset: slot.charset.load(Relaxed),
            cut: slot.cut.load(Relaxed) != 0,
        }
    }

    /// Takes the owners that are cached. Returns the positions in the tallies of those that must be read and
    /// have counted anything.
    fn take(&mut self, known: &CachedNames, tallies: &Tallies, parts: Parts) -> Vec<usize> {
        let asks_slot = parts.has(DigestRow::DIGEST_TEXT.and(DigestRow::SAMPLE));
        let mut others = Vec::new();
        let sums = tallies.sums.iter().zip(&mut self.owners).enumerate().skip(REST + 1);
        for (at, (sum, owner)) in sums.filter(|(_, (sum, _))| sum.tally.stat.count != 0) {
            *owner = known.places[sum.number as usize];
            let is_told = owner.hash.is_some() || !parts.has(DigestRow::DIGEST);
            if asks_slot || !is_told || owner.generation != sum.generation {
                others.push(at);
            }
        }
        others
    }

    /// Returns the number of a digest's schema; 0: none.
    pub(super) fn schema(&self, at: usize) -> u32 {
        self.owners.get(at).map_or(0, |owner| owner.schema)
    }

    /// Fills in schema and digest of a row. `schema` is the number of the schema that the row has already.
    #[inline]
    pub(super) fn fill(
        &self,
        engine: &Engine,
        (row, schema): (&mut DigestRow, &mut u32),
        at: usize,
        parts: Parts,
    ) {
        let Some(owner) = self.owners.get(at) else { return };
        if parts.has(DigestRow::SCHEMA) && *schema != owner.schema {
            *schema = owner.schema;
            match self.schemas.get((owner.schema as usize).wrapping_sub(1)) {
                Some(name) => row.schema.get_or_insert_default().clone_from(name),
                None => row.schema = None,
            }
        }
        if parts.has(DigestRow::DIGEST) {
            row.digest = owner.hash.map(|hash| {
                let mut digest = row.digest.take().unwrap_or_default();
                digest.begin(&hash);
                if parts.has(DigestRow::DIGEST_TEXT)
                    && let (Some(tokens), Some(host)) = (self.tokens.get(at), engine.host.get())
                {
                    let cut = tokens.cut && engine.is_extended();
                    digest.of(*host, self.part(tokens.part), tokens.charset, cut);
                }
                digest
            });
        }
    }
}

impl Engine {
    /// Reads the names of all digests that have counted anything. A digest that is not cached and was evicted
    /// meanwhile leaves its place.
    pub(super) fn digest_names(&self, tallies: &mut Tallies, parts: Parts) -> DigestNames {
        let mut names = DigestNames::default();
        if !parts.has(DigestRow::NAMED) {
            return names;
        }
        names.owners.resize(tallies.sums.len(), CachedOwner::default());
        if parts.has(DigestRow::DIGEST_TEXT) {
            names.tokens.resize(tallies.sums.len(), TokenPlace::default());
        }
        if parts.has(DigestRow::SAMPLE) {
            names.samples.resize_with(tallies.sums.len(), || None);
        }
        let mut known = lock(&self.owners.0);
        let known = known.get_or_insert_default();
        known.make_room(tallies.at.len());
        let others = names.take(known, tallies, parts);
        let place = |at: &usize| (*at, self.digests.place(tallies.sums[*at].number));
        let places: Vec<(usize, Offset)> = others.iter().map(place).collect();
        let expect = |(_, place)| {
            self.arena.expect_read(place, LINE);
            self.arena.expect_read(place + SCHEMA, LINE);
        };
        for (at, place) in expecting(places.iter().copied(), expect) {
            if !self.read_owner(&tallies.sums[at], (at, place), parts, known, &mut names) {
                tallies.leave(at);
            }
        }
        if let Some(overflow) = self.arena.get::<DigestSlot>(self.digests.overflow())
            && let Some(kept) = names.samples.get_mut(REST)
        {
            *kept = self.sample_of(overflow);
        }
        names.schemas = known.schemas.clone();
        names
    }

    /// Reads the owner of a place. Returns false if the owner has gone.
    fn read_owner(
        &self,
        sum: &Sum,
        (at, place): (usize, Offset),
        parts: Parts,
        known: &mut CachedNames,
        names: &mut DigestNames,
    ) -> bool {
        let Some(slot) = self.arena.get::<DigestSlot>(place) else { return false };
        let mut owner = known.places[sum.number as usize];
        if owner.generation != sum.generation {
            owner = CachedOwner { generation: sum.generation, ..CachedOwner::default() };
        }
        let from = names.bytes.len();
        let read = slot.read(|| {
            if let Some(sample) = names.samples.get_mut(at) {
                *sample = self.sample_of(slot);
            }
            let schema = text::read(&slot.schema, slot.schema_len.load(Relaxed) as usize);
            owner.hash = owner.hash.or_else(|| slot.whole_hash());
            let is_hashed = owner.hash.is_some() || !parts.has(DigestRow::DIGEST);
            let is_spelled = !is_hashed || parts.has(DigestRow::DIGEST_TEXT);
            (schema, if is_spelled { names.copy_tokens(slot) } else { TokenPlace::default() })
        });
        let Some((_, (schema, tokens))) = read.filter(|(now, _)| *now == sum.generation) else {
            return false;
        };
        if parts.has(DigestRow::DIGEST) && owner.hash.is_none() {
            owner.hash = self.hash_of(names.part(tokens.part), tokens.charset);
        }
        owner.schema = known.number(&schema);
        known.places[sum.number as usize] = owner;
        names.owners[at] = owner;
        match names.tokens.get_mut(at) {
            Some(kept) => *kept = tokens,
            None => names.bytes.truncate(from),
        }
        true
    }

    /// Returns the host's DIGEST for tokens; `None`: there are none, or the host has none.
    fn hash_of(&self, tokens: &[u8], charset: u32) -> Option<DigestHash> {
        if tokens.is_empty() { None } else { self.host.get()?.digest(tokens, charset) }
    }

    /// Returns DIGEST and DIGEST_TEXT from the host. Only in the shape `extended` a truncated text says so.
    pub(crate) fn spell(&self, tokens: &KeptTokens) -> Option<DigestText> {
        let KeptTokens { bytes, whole, charset, cut } = tokens;
        let hash = whole.or_else(|| self.hash_of(bytes, *charset))?;
        let text = self.host.get()?.digest_text(bytes, *charset, *cut && self.is_extended())?;
        let mut digest = String::new();
        push_hex(&mut digest, hash.as_bytes());
        Some(DigestText { digest, text })
    }
}

/// Copy of a slot's tokens. The host gets only what was read consistently.
pub(crate) struct KeptTokens {
    pub(crate) bytes: Vec<u8>,
    pub(crate) whole: Option<DigestHash>,
    /// Number of the character set.
    pub(crate) charset: u32,
    pub(crate) cut: bool,
}

impl KeptTokens {
    pub(crate) fn of(slot: &DigestSlot) -> KeptTokens {
        KeptTokens {
            whole: slot.whole_hash(),
            bytes: text::read(&slot.tokens, slot.tokens_len.load(Relaxed) as usize),
            charset: slot.charset.load(Relaxed),
            cut: slot.cut.load(Relaxed) != 0,
        }
    }
}

/// Returns a hash that was stored as words; `None` for zeros.
pub(crate) fn as_hash(words: [u64; 2]) -> Option<DigestHash> {
    let [low, high] = words.map(u128::from);
    (low | high != 0).then(|| (high << 64 | low).to_le_bytes().into())
}

impl DigestSlot {
    /// Returns the host's hash of all tokens, if there were more than the slot holds.
    fn whole_hash(&self) -> Option<DigestHash> {
        as_hash(self.whole())
    }
}
