//! HOT PATH: bounded texts in words of the arena: copied in by their only writer, copied out by readers.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Returns the number of words that `bytes` take.
#[inline(always)]
pub(crate) const fn words(bytes: usize) -> usize {
    // No text is long enough to overflow.
    bytes.wrapping_add(7) >> 3
}

/// Returns the last bytes, which do not fill a word, as a word padded with zeros.
#[inline(always)]
fn rest(bytes: &[u8]) -> u64 {
    let len = bytes.len() % 8;
    if let Some(last) = bytes.last_chunk() {
        rest_of(*last, bytes.len())
    } else if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        // Where the two overlap, they are equal.
        u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << (8 * (len - 4))
    } else {
        bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
    }
}

/// Returns the last bytes of a text of `len` bytes as a padded word, given its last eight bytes.
#[inline(always)]
pub(crate) const fn rest_of(last: [u8; 8], len: usize) -> u64 {
    // Shifted twice, because a shift by 64 bits at once is not possible.
    u64::from_le_bytes(last) >> 1 >> (63 - 8 * (len % 8))
}

/// Copies as much of `bytes` as fits, pads the last word with zeros, and returns the number of bytes copied.
/// Not inlined and without a loop to unroll, so that all texts share few lines of code.
#[inline(never)]
pub(crate) fn write(to: &[AtomicU64], bytes: &[u8]) -> usize {
    let mut left = bytes;
    for word in to {
        let Some((chunk, behind)) = left.split_first_chunk() else {
            if !left.is_empty() {
                word.store(rest(bytes), Relaxed);
            }
            return bytes.len();
        };
        word.store(u64::from_le_bytes(*chunk), Relaxed);
        left = behind;
    }
    bytes.len() - left.len()
}

/// A text in words that a reader has copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CopiedText<'a> {
    words: &'a [u64],
    len: usize,
}

impl<'a> CopiedText<'a> {
    /// Returns the text of `len` bytes at the beginning of these words, and the words behind it.
    pub(crate) fn first(words: &'a [u64], len: usize) -> Option<(CopiedText<'a>, &'a [u64])> {
        let (words, rest) = words.split_at_checked(self::words(len))?;
        Some((CopiedText { words, len }, rest))
    }

    pub(crate) fn bytes(self) -> &'a [u8] {
        const { assert!(cfg!(target_endian = "little")) };
        let len = self.len.min(size_of_val(self.words));
        // SAFETY: `len` was just bounded by the words, which live as long as the slice. Any byte is valid.
        #[allow(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts(self.words.as_ptr().cast(), len)
        }
    }
}

impl AsRef<[u8]> for CopiedText<'_> {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

/// Copies `len` bytes out.
pub(crate) fn read(from: &[AtomicU64], len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len.min(from.len() * 8) + 8);
    append(from, len, &mut bytes);
    bytes
}

/// Appends a copy of `len` bytes to `to`.
pub(crate) fn append(from: &[AtomicU64], len: usize, to: &mut Vec<u8>) {
    let end = to.len() + len.min(from.len() * 8);
    for word in from.get(..words(len)).unwrap_or(from) {
        to.extend_from_slice(&word.load(Relaxed).to_le_bytes());
    }
    to.truncate(end);
}

/// Copies `len` bytes into a buffer, or as many as fit.
pub(crate) fn copy<'a>(from: &[AtomicU64], len: usize, to: &'a mut [u8]) -> &'a [u8] {
    let len = len.min(to.len()).min(from.len() * 8);
    for (chunk, word) in to[..len].chunks_mut(8).zip(from) {
        chunk.copy_from_slice(&word.load(Relaxed).to_le_bytes()[..chunk.len()]);
    }
    &to[..len]
}

/// Copies `len` bytes out, as text that tables show.
pub(crate) fn read_string(from: &[AtomicU64], len: usize) -> String {
    shown(&read(from, len))
}

/// Returns text as tables show it. Names and messages are UTF-8 in the host. A byte that belongs to no
/// character becomes `?`, as where the built-in stores one.
pub fn shown(bytes: &[u8]) -> String {
    readable(bytes).into_owned()
}

/// Returns text as tables show it, without a copy if all of it is UTF-8.
pub(crate) fn readable(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len());
    show(&mut text, bytes);
    Cow::Owned(text)
}

/// Appends text as tables show it.
pub(crate) fn show(text: &mut String, mut bytes: &[u8]) {
    loop {
        match std::str::from_utf8(bytes) {
            Ok(rest) => return text.push_str(rest),
            Err(error) => {
                let (valid, rest) = bytes.split_at(error.valid_up_to());
                text.push_str(&String::from_utf8_lossy(valid));
                text.push('?');
                bytes = &rest[1..];
            }
        }
    }
}

/// Returns whether the stored text equals `bytes`.
#[inline]
pub(crate) fn equals(stored: &[AtomicU64], stored_len: usize, bytes: &[u8]) -> bool {
    let (chunks, last) = bytes.as_chunks();
    let Some((whole, behind)) = stored.split_at_checked(chunks.len()) else { return false };
    let is = |(word, chunk): (&AtomicU64, &[u8; 8])| word.load(Relaxed) == u64::from_le_bytes(*chunk);
    stored_len == bytes.len()
        && whole.iter().zip(chunks).all(is)
        // `write` padded the last word with zeros.
        && (last.is_empty() || behind.first().is_some_and(|word| word.load(Relaxed) == rest(bytes)))
}

/// Returns whether the stored text begins with `bytes`.
pub(crate) fn begins(stored: &[AtomicU64], bytes: &[u8]) -> bool {
    let (chunks, last) = bytes.as_chunks();
    let Some((whole, behind)) = stored.split_at_checked(chunks.len()) else { return false };
    let is = |(word, chunk): (&AtomicU64, &[u8; 8])| word.load(Relaxed) == u64::from_le_bytes(*chunk);
    let begins = |word: &AtomicU64| word.load(Relaxed).to_le_bytes().starts_with(last);
    whole.iter().zip(chunks).all(is) && (last.is_empty() || behind.first().is_some_and(begins))
}

/// Returns whether two texts, both padded with zeros, are equal.
#[inline]
pub(crate) fn same(one: &[AtomicU64], one_len: usize, other: &[AtomicU64], other_len: usize) -> bool {
    let (Some(one), Some(other)) = (one.get(..words(one_len)), other.get(..words(one_len))) else {
        return false;
    };
    one_len == other_len && one.iter().zip(other).all(|(one, other)| one.load(Relaxed) == other.load(Relaxed))
}

#[inline(always)]
fn halves(pair: &[u8; 16]) -> (u64, u64) {
    let pair = u128::from_le_bytes(*pair);
    (pair as u64, (pair >> 64) as u64)
}

const K: u64 = 0x9E37_79B9_7F4A_7C15;

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64
}

/// Returns a 64-bit hash of bytes: multiply and fold, 16 bytes at a time. It is never 0. A hash says where to
/// look, never that two texts are equal.
#[inline]
pub(crate) fn hash(seed: u64, bytes: &[u8]) -> u64 {
    // The length is spread over the whole word, so that it cannot cancel out against a byte.
    let mut h = seed ^ K ^ (bytes.len() as u64).wrapping_mul(0xE703_7ED1_A0B4_28DB);
    let (pairs, last) = bytes.as_chunks::<16>();
    for pair in pairs {
        let (one, other) = halves(pair);
        h = fold(h ^ one, other ^ 0xD6E8_FEB8_6659_FD93);
    }
    if let Some(one) = last.first_chunk() {
        h = fold(h ^ u64::from_le_bytes(*one), 0xD6E8_FEB8_6659_FD93);
    }
    h = fold(h ^ rest(bytes), 0xA076_1D64_78BD_642F);
    h | u64::from(h == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out_up_to_the_bound() {
        let to: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(u64::MAX)).collect();
        for len in 0..40 {
            let bytes: Vec<u8> = (0..len).collect();
            let written = write(&to, &bytes);
            assert_eq!(written, bytes.len().min(32));
            assert_eq!(read(&to, written), bytes[..written]);
            assert!(equals(&to, written, &bytes[..written]));
            assert!((0..=written).all(|end| begins(&to, &bytes[..end])));
            assert!(!begins(&to, &[1; 40]), "it is longer");
            if written > 0 {
                let mut other = bytes[..written].to_vec();
                other[written - 1] ^= 1;
                assert!(!equals(&to, written, &other));
                assert!(!begins(&to, &other));
            }
        }
    }

    #[test]
    fn hashes_differ_in_every_byte_and_in_length() {
        let mut seen = std::collections::HashSet::new();
        for len in 0..64 {
            let mut bytes = vec![0u8; len];
            assert!(seen.insert(hash(0, &bytes)));
            for at in 0..len {
                bytes[at] = 1;
                assert!(seen.insert(hash(0, &bytes)), "{len} {at}");
                bytes[at] = 0;
            }
        }
    }
}
