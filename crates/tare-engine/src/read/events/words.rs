//! Records that are read by position: statements and transactions. What a record is made of is said in `ring`.

use tare_sync::record;

use crate::memory::text;

/// Words of a record, copied out; what it is made of by position is said in `ring`.
pub(super) struct Words(pub(super) Vec<u64>);

impl Words {
    pub(super) fn u32(&self, at: usize, half: usize) -> u32 {
        (self.0[at] >> (32 * half)) as u32
    }
    pub(super) fn u16(&self, at: usize, quarter: usize) -> u16 {
        (self.0[at] >> (16 * quarter)) as u16
    }
    pub(super) fn u8(&self, at: usize, byte: usize) -> u8 {
        (self.0[at] >> (8 * byte)) as u8
    }
    pub(super) fn text(&self, from: usize, len: usize) -> Vec<u8> {
        let words = self.0.get(from..).unwrap_or_default();
        let mut bytes: Vec<u8> = words.iter().take(text::words(len)).flat_map(|w| w.to_le_bytes()).collect();
        bytes.truncate(len);
        bytes
    }
    pub(super) fn string(&self, from: usize, len: usize) -> Option<String> {
        (len != 0).then(|| text::shown(&self.text(from, len)))
    }
}

impl Words {
    /// The record at the beginning of a block's words, or of what is left of them; `None`: it has none.
    pub(super) fn first(words: &[u64], size: usize) -> Option<Words> {
        let words = words.get(..size).filter(|words| words.first().is_some_and(|first| *first != 0))?;
        let mut words = words.to_vec();
        words[0] = record::id(words[0]);
        Some(Words(words))
    }
}
