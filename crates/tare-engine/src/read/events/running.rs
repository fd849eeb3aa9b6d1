//! Digests of running statements. Such a statement has no digest place yet, but its tokens are known once it
//! is parsed.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::instance::{Prepared, PreparedDigest};
use crate::memory::pool::{Object, Pool, read_named};
use crate::memory::text;
use crate::read::names::{KeptTokens, as_hash};
use crate::record::statement::parsed::TokenLocation;
use crate::snapshot::{Consumer, DigestText};
use crate::{DigestHash, Engine};

/// A statement's tokens, copied from the host's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunningTokens {
    /// All tokens that the host kept.
    pub bytes: Vec<u8>,
    /// Number of the character set of identifiers.
    pub charset: u32,
    /// Whether the statement had more tokens than the host kept.
    pub cut: bool,
}

impl Engine {
    /// Returns DIGEST and DIGEST_TEXT of a running statement. Calls `runs` after copying the tokens, to check
    /// whether it still runs. If not, the copy may be of another statement, and the result is `None`.
    pub(super) fn running_digest(
        &self,
        parsed: TokenLocation,
        runs: impl FnOnce() -> bool,
    ) -> Option<Arc<DigestText>> {
        if !self.consumer(Consumer::StatementsDigest) {
            return None;
        }
        let tokens = match parsed {
            TokenLocation::Host(address) => self.host_tokens(address)?,
            TokenLocation::Prepared(object) => self.prepared_tokens(object)?,
        };
        if runs() { self.spell(&tokens).map(Arc::new) } else { None }
    }

    /// Returns the hash that DIGEST of a running statement shows, like [`Engine::running_digest`], without
    /// calling any of the host's own functions.
    pub(super) fn running_hash(
        &self,
        parsed: TokenLocation,
        runs: impl FnOnce() -> bool,
    ) -> Option<DigestHash> {
        if !self.consumer(Consumer::StatementsDigest) {
            return None;
        }
        let host = self.host.get()?;
        let (bytes, whole) = match parsed {
            TokenLocation::Host(address) => {
                (host.running_tokens(usize::try_from(address).ok()?)?.bytes, None)
            }
            TokenLocation::Prepared(object) => {
                let KeptTokens { bytes, whole, .. } = self.prepared_tokens(object)?;
                (bytes, whole)
            }
        };
        if !runs() || bytes.is_empty() {
            return None;
        }
        whole.or_else(|| host.hash_of_tokens(&bytes))
    }

    fn host_tokens(&self, address: u64) -> Option<KeptTokens> {
        let host = self.host.get()?;
        let RunningTokens { mut bytes, charset, mut cut } =
            host.running_tokens(usize::try_from(address).ok()?)?;
        let size = self.digest_size.load(Relaxed) as usize;
        let whole = if bytes.len() > size { host.digest(&bytes, charset) } else { None };
        cut |= bytes.len() > size;
        bytes.truncate(size);
        Some(KeptTokens { bytes, whole, charset, cut })
    }

    fn prepared_tokens(&self, object: Object) -> Option<KeptTokens> {
        let tokens = |prepared: &Prepared| self.prepared_digest(prepared).map(tokens_of);
        read_named(&self.arena, Pool::Prepared, object.name(), tokens)?
    }
}

/// Copies the digest key of a prepared statement.
fn tokens_of(digest: &PreparedDigest) -> KeptTokens {
    KeptTokens {
        bytes: text::read(&digest.tokens, digest.tokens_len.load(Relaxed) as usize),
        whole: as_hash(digest.whole.each_ref().map(|word| word.load(Relaxed))),
        charset: digest.charset.load(Relaxed),
        cut: digest.cut.load(Relaxed) != 0,
    }
}
