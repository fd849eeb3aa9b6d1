//! Texts that many records share: accounts, schemas, digests and objects, in a ring of their own.
//!
//! A record refers to a text by the lower half of its position. The writer appends a text again when half of
//! the ring has been written since, so a text that is used lives as long as the records that use it. Records
//! whose text has been overwritten all the same, because more texts than usual came along, are not read any
//! more.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tare_sync::OverwritingRing;

use crate::memory::text;
use crate::spelling::push_hex;

/// A reference to a text; 0: none.
pub(super) type Name = u32;

/// The longest text in bytes; the rest is cut off.
const LONGEST: usize = 1024;
/// What stands between the parts of a text. No name contains it.
const BETWEEN: u8 = 0;

/// The parts of a text, as they are shown.
pub(super) type NameParts = [Option<Arc<str>>; 4];

/// A ring of texts.
#[derive(Clone, Copy)]
pub(super) struct Texts<'a> {
    pub(super) ring: &'a OverwritingRing,
    pub(super) words: &'a [AtomicU64],
}

/// The texts in a ring, as their writer knows them.
#[derive(Default)]
pub(super) struct KnownNames {
    /// Position of each text.
    places: HashMap<Box<[u8]>, u64>,
    record: Vec<u64>,
}

impl KnownNames {
    /// Returns the reference to a text, which is appended unless it is there. 0: the text is empty, or the
    /// ring too small.
    pub(super) fn name(&mut self, texts: Texts<'_>, bytes: &[u8]) -> Name {
        let bytes = &bytes[..bytes.len().min(LONGEST)];
        if bytes.is_empty() {
            return 0;
        }
        let (end, room) = (texts.ring.end(), texts.words.len() as u64);
        let is_young = |at: u64| end - at < room / 2;
        if let Some(at) = self.places.get(bytes).copied().filter(|at| is_young(*at)) {
            return at as Name;
        }
        let Some(at) = self.append(texts, bytes) else { return 0 };
        // What the writer would append again need not be known.
        if self.places.len() as u64 >= room / 2 {
            self.places.retain(|_, at| is_young(*at));
        }
        self.places.insert(bytes.into(), at);
        at as Name
    }

    /// Appends a text, at a position whose lower half is not 0, which would be no reference.
    fn append(&mut self, Texts { ring, words }: Texts<'_>, bytes: &[u8]) -> Option<u64> {
        self.record.clear();
        self.record.push(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.record.push(u64::from_le_bytes(word));
        }
        if ring.end() as Name == 0 {
            ring.append(words, &[0])?;
        }
        ring.append(words, &self.record)
    }
}

/// Returns the bytes of a text; `None`: it has been overwritten.
fn bytes_of(Texts { ring, words }: Texts<'_>, name: Name) -> Option<Vec<u8>> {
    let end = ring.end();
    let at = end.checked_sub(u64::from((end as Name).wrapping_sub(name)))?;
    let mut len = [0];
    if !ring.copy(words, at, &mut len) {
        return None;
    }
    let len = usize::try_from(len[0]).ok().filter(|len| *len <= LONGEST)?;
    let mut copied = [0; LONGEST / 8];
    let copied = &mut copied[..len.div_ceil(8)];
    if !ring.copy(words, at + 1, copied) {
        return None;
    }
    let mut bytes: Vec<u8> = copied.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.truncate(len);
    Some(bytes)
}

/// The texts that a reader has read.
pub(super) struct ReadNames<'a> {
    texts: Texts<'a>,
    parts: HashMap<Name, Option<NameParts>>,
    digests: HashMap<Name, Option<Arc<str>>>,
}

impl<'a> ReadNames<'a> {
    pub(super) fn of(texts: Texts<'a>) -> ReadNames<'a> {
        ReadNames { texts, parts: HashMap::new(), digests: HashMap::new() }
    }

    /// Returns the parts of a text that [`joined`] made. `None`: it has been overwritten.
    pub(super) fn parts(&mut self, name: Name) -> Option<NameParts> {
        if name == 0 {
            return Some(NameParts::default());
        }
        let texts = self.texts;
        let read = || {
            let bytes = bytes_of(texts, name)?;
            let mut parts = bytes.split(|byte| *byte == BETWEEN).map(shown);
            Some(std::array::from_fn(|_| parts.next().flatten()))
        };
        self.parts.entry(name).or_insert_with(read).clone()
    }

    /// Returns a hash in the format of DIGEST; `Some(None)`: there is none. `None`: it has been overwritten.
    pub(super) fn digest(&mut self, name: Name) -> Option<Option<Arc<str>>> {
        if name == 0 {
            return Some(None);
        }
        let texts = self.texts;
        let read = || {
            let mut hex = String::new();
            push_hex(&mut hex, &bytes_of(texts, name)?);
            Some(hex.into())
        };
        self.digests.entry(name).or_insert_with(read).clone().map(Some)
    }
}

fn shown(bytes: &[u8]) -> Option<Arc<str>> {
    (!bytes.is_empty()).then(|| text::shown(bytes).into())
}

/// Returns a text of several parts; empty if all of them are.
pub(super) fn joined<const N: usize>(parts: [&[u8]; N]) -> Vec<u8> {
    if parts.iter().all(|part| part.is_empty()) { Vec::new() } else { parts.join(&BETWEEN) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(count: usize) -> Vec<AtomicU64> {
        std::iter::repeat_with(|| AtomicU64::new(0)).take(count).collect()
    }

    #[test]
    fn texts_are_read_as_they_were_written() {
        let (ring, words) = (OverwritingRing::new(), words(64));
        let texts = Texts { ring: &ring, words: &words };
        let mut known = KnownNames::default();
        let account = known.name(texts, &joined([b"ann", b"here"]));
        let of_nobody = known.name(texts, &joined([b"", b"there"]));
        assert_eq!(known.name(texts, &joined([b"ann", b"here"])), account, "once");
        assert_eq!(known.name(texts, &joined([b"", b""])), 0);
        let table = known.name(texts, &joined([b"TABLE", b"shop", b"orders", b""]));
        let digest = known.name(texts, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]);
        let mut read = ReadNames::of(texts);
        let parts = |parts: [&str; 4]| Some(parts.map(|part| (!part.is_empty()).then(|| Arc::from(part))));
        assert_eq!(read.parts(account), parts(["ann", "here", "", ""]));
        assert_eq!(read.parts(of_nobody), parts(["", "there", "", ""]));
        assert_eq!(read.parts(table), parts(["TABLE", "shop", "orders", ""]));
        assert_eq!(read.parts(0), parts([""; 4]));
        assert_eq!(read.digest(digest), Some(Some("000102030405060708090a0b0c0d0eff".into())));
        assert_eq!(read.digest(0), Some(None));
    }

    #[test]
    fn a_text_in_use_stays_and_another_is_gone() {
        let (ring, words) = (OverwritingRing::new(), words(32));
        let texts = Texts { ring: &ring, words: &words };
        let mut known = KnownNames::default();
        let used_once = known.name(texts, b"once");
        for number in 0..100u32 {
            let used = known.name(texts, b"used");
            let other = known.name(texts, number.to_string().as_bytes());
            let mut read = ReadNames::of(texts);
            assert_eq!(read.parts(used).unwrap()[0].as_deref(), Some("used"));
            assert_eq!(read.parts(other).unwrap()[0].as_deref(), Some(&*number.to_string()));
        }
        assert_eq!(ReadNames::of(texts).parts(used_once), None);
        assert!(known.places.len() <= 17, "no more than fit: {}", known.places.len());
    }

    #[test]
    fn a_long_text_is_cut_and_a_ring_without_room_has_none() {
        let (ring, words) = (OverwritingRing::new(), words(200));
        let texts = Texts { ring: &ring, words: &words };
        let mut known = KnownNames::default();
        let long = known.name(texts, &[b'x'; 2000]);
        assert_eq!(ReadNames::of(texts).parts(long).unwrap()[0].as_deref().map(str::len), Some(LONGEST));
        assert_eq!(known.name(Texts { ring: &OverwritingRing::new(), words: &[] }, b"x"), 0);
    }
}
