//! HOT PATH: bounded texts in arena words: copied in by their one writer, copied out by readers.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::arena::Own;

/// Words that `bytes` take.
pub(crate) const fn words(bytes: usize) -> usize {
    bytes.div_ceil(8)
}

/// Copies as much of `bytes` as fits; returns how many bytes that is.
#[inline]
pub(crate) fn write(to: &[AtomicU64], bytes: &[u8]) -> usize {
    let len = bytes.len().min(to.len() * 8);
    let mut chunks = bytes[..len].chunks_exact(8);
    let mut at = to.iter();
    for (word, chunk) in (&mut at).zip(&mut chunks) {
        let mut value = [0; 8];
        value.copy_from_slice(chunk);
        word.store(u64::from_le_bytes(value), Relaxed);
    }
    let rest = chunks.remainder();
    if !rest.is_empty()
        && let Some(word) = to.get(len / 8)
    {
        let mut value = [0; 8];
        value[..rest.len()].copy_from_slice(rest);
        word.store(u64::from_le_bytes(value), Relaxed);
    }
    len
}

/// Copies words of the calling thread's own.
#[inline(always)]
pub(crate) fn copy_own(to: &[AtomicU64], from: &[AtomicU64]) {
    for (to, from) in to.iter().zip(from) {
        to.store(from.own(), Relaxed);
    }
}

/// Copies `len` bytes out.
pub(crate) fn read(from: &[AtomicU64], len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        from.iter().take(words(len)).flat_map(|word| word.load(Relaxed).to_le_bytes()).collect();
    bytes.truncate(len);
    bytes
}

/// Copies `len` bytes into a buffer, or as much as fits.
pub(crate) fn copy<'a>(from: &[AtomicU64], len: usize, to: &'a mut [u8]) -> &'a [u8] {
    let len = len.min(to.len()).min(from.len() * 8);
    for (chunk, word) in to[..len].chunks_mut(8).zip(from) {
        chunk.copy_from_slice(&word.load(Relaxed).to_le_bytes()[..chunk.len()]);
    }
    &to[..len]
}

/// As [`read`], with what is not UTF-8 replaced (identifiers and most texts are UTF-8 in the host).
pub(crate) fn read_string(from: &[AtomicU64], len: usize) -> String {
    String::from_utf8_lossy(&read(from, len)).into_owned()
}

/// True when the stored text equals `bytes`.
pub(crate) fn equals(stored: &[AtomicU64], stored_len: usize, bytes: &[u8]) -> bool {
    stored_len == bytes.len()
        && stored_len <= stored.len() * 8
        && stored.iter().zip(bytes.chunks(8)).all(|(word, chunk)| {
            let mut value = [0; 8];
            value[..chunk.len()].copy_from_slice(chunk);
            let mask = if chunk.len() == 8 { u64::MAX } else { (1 << (8 * chunk.len())) - 1 };
            word.load(Relaxed) & mask == u64::from_le_bytes(value)
        })
}

/// A 64-bit hash of bytes: multiply and fold, 8 bytes at a time. Never 0.
#[inline]
pub(crate) fn hash(seed: u64, bytes: &[u8]) -> u64 {
    const K: u64 = 0x9E37_79B9_7F4A_7C15;
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        (product as u64) ^ (product >> 64) as u64
    };
    // The length is spread over the word: it must not cancel out against a byte.
    let mut h = seed ^ K ^ (bytes.len() as u64).wrapping_mul(0xE703_7ED1_A0B4_28DB);
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        let mut value = [0; 8];
        value.copy_from_slice(chunk);
        h = fold(h ^ u64::from_le_bytes(value), 0xD6E8_FEB8_6659_FD93);
    }
    let mut value = [0; 8];
    value[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
    h = fold(h ^ u64::from_le_bytes(value), 0xA076_1D64_78BD_642F);
    h = fold(h, K);
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
            if written > 0 {
                let mut other = bytes[..written].to_vec();
                other[written - 1] ^= 1;
                assert!(!equals(&to, written, &other));
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
