//! HOT PATH: where the digest of a statement is, from its parsing to its end.
//!
//! A digest is looked up when the statement ends, and has no place before. Until then, the word for its place
//! says where the tokens are: in the host's memory, or beside the prepared statement that is executed. Two
//! bits of the word that says which values are set tell which.

use std::sync::atomic::Ordering::{Relaxed, Release};

use crate::layout::statement::{CHARSET, DIGEST, OpenStatement, TEXT, TEXT_CUT, TEXT_PREPARED, VALUES};
use crate::memory::arena::Own;
use crate::memory::pool::Object;

/// The bits that tell which, in the word that says which values are set.
const HOST: u64 = 1 << VALUES;
const EXECUTION: u64 = HOST << 1;
const _: () = assert!(EXECUTION < 1 << CHARSET);

/// The location of the tokens of a statement in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenLocation {
    /// At this address in the host's memory.
    Host(u64),
    /// Beside this prepared statement, which the statement executes.
    Prepared(Object),
}

impl TokenLocation {
    /// Returns what a copy of a running statement's words says, given those of the set and of the digest.
    pub(super) fn of(set: u64, value: u64) -> Option<TokenLocation> {
        match set & (HOST | EXECUTION | 1 << DIGEST) {
            HOST => Some(TokenLocation::Host(value)),
            EXECUTION => Some(TokenLocation::Prepared(Object(value))),
            _ => None,
        }
    }
}

impl OpenStatement {
    /// Notes that the host has parsed the statement, and keeps its tokens at this address until it ends.
    #[inline(always)]
    pub(crate) fn set_tokens(&self, address: u64) {
        self.values[DIGEST].store(address, Relaxed);
        // Release: whoever sees the bit sees the address.
        self.set.store(self.set.own() | HOST, Release);
    }

    /// Notes that the statement in progress executes `prepared`, beside which its tokens are. With
    /// `leaves_text` readers find its text there, too.
    #[inline(always)]
    pub(crate) fn set_execution(&self, prepared: Object, leaves_text: bool) {
        self.version.change(|| {
            self.values[DIGEST].store(prepared.0, Relaxed);
            self.set.store(self.set.own() & !HOST | EXECUTION, Relaxed);
            if leaves_text {
                let lengths = TEXT.set(self.lengths.own(), 0) & !TEXT_CUT;
                if let Some(first) = self.text(lengths).first() {
                    first.store(prepared.0, Relaxed);
                }
                self.lengths.store(lengths | TEXT_PREPARED, Relaxed);
            }
        });
    }

    /// Returns whether the statement's text has been left where it was prepared.
    #[inline(always)]
    pub(crate) fn has_left_text(&self) -> bool {
        self.lengths.own() & TEXT_PREPARED != 0
    }

    /// Returns whether the statement executes a prepared statement whose digest is known.
    #[inline(always)]
    pub(crate) fn is_execution(&self) -> bool {
        self.set.own() & EXECUTION != 0
    }

    /// Returns the prepared statement it executes, until it is counted.
    #[inline(always)]
    pub(crate) fn executed(&self) -> Option<Object> {
        match TokenLocation::of(self.set.own(), self.values[DIGEST].own()) {
            Some(TokenLocation::Prepared(object)) => Some(object),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_says_where_the_tokens_are_until_there_is_a_digest() {
        let address = 0x7F00_1234_5678;
        assert_eq!(TokenLocation::of(0, address), None);
        assert_eq!(TokenLocation::of(HOST | 5, address), Some(TokenLocation::Host(address)));
        assert_eq!(TokenLocation::of(EXECUTION, 7 << 32), Some(TokenLocation::Prepared(Object(7 << 32))));
        for bit in [HOST, EXECUTION] {
            assert_eq!(TokenLocation::of(bit | 1 << DIGEST, address), None, "it has one");
        }
    }
}
