//! Accounts, users and hosts, and the connection attributes of clients.

use std::sync::atomic::Ordering::Relaxed;

use crate::Engine;
use crate::count::account::{ACCOUNT, HOST, Party, USER};
use crate::memory::text;
use crate::snapshot::{AttributeRow, ConnectionsRow, Grouping, Owner, ThreadKey};
use crate::thread::FoundThread;

/// An account, user or host at the time it was found. Its slot may belong to another one by the time it has
/// been read.
pub(super) struct SeenParty {
    pub(super) slot: &'static Party,
    pub(super) owner: Owner,
    /// Accounts of a user or a host.
    pub(super) accounts: Vec<SeenParty>,
    generation: u32,
}

impl SeenParty {
    /// Returns whether the slot still belongs to it. Called after reading.
    pub(super) fn is_still(&self) -> bool {
        self.slot.head.is_still(self.generation)
    }
}

impl Engine {
    /// Returns every account, user or host, sorted by name. Background threads come first.
    pub(super) fn parties(&self, kind: usize) -> Vec<SeenParty> {
        let mut parties = self.seen_parties(kind);
        if kind != ACCOUNT {
            for account in self.seen_parties(ACCOUNT) {
                let of = self.of_account(account.slot)[kind - USER];
                let party =
                    parties.iter_mut().find(|party| of.is_some_and(|of| std::ptr::eq(party.slot, of)));
                if let Some(party) = party {
                    party.accounts.push(account);
                }
            }
        }
        parties.sort_by(|a, b| (&a.owner.user, &a.owner.host).cmp(&(&b.owner.user, &b.owner.host)));
        parties
    }

    fn seen_parties(&self, kind: usize) -> Vec<SeenParty> {
        let mut parties = Vec::new();
        self.each_party(kind, |slot| {
            let Some(generation) = slot.head.generation_in_use() else { return };
            let (user, host) = match kind {
                ACCOUNT => {
                    let [user, host] = self.of_account(slot);
                    (user.and_then(Party::name), host.and_then(Party::name))
                }
                USER => (slot.name(), None),
                _ => (None, slot.name()),
            };
            let owner = Owner { user, host, ..Owner::default() };
            let party = SeenParty { slot, owner, accounts: Vec::new(), generation };
            if slot.is_listed() && party.is_still() {
                parties.push(party);
            }
        });
        parties
    }

    /// Returns the rows of `accounts`, `users` or `hosts`. Empty for other groupings.
    pub fn connections(&self, grouping: Grouping) -> Vec<ConnectionsRow> {
        let kind = match grouping {
            Grouping::Account => ACCOUNT,
            Grouping::User => USER,
            Grouping::Host => HOST,
            Grouping::Thread | Grouping::Global => return Vec::new(),
        };
        let threads = if self.is_extended() { self.live_threads() } else { Vec::new() };
        let row = |party: SeenParty| {
            let (current, closed, most) = self.unfolding(|| {
                let place = self.arena.offset_of(party.slot);
                let most = |(id, thread): &FoundThread| {
                    let is_present = thread.parties[kind].load(Relaxed) == place;
                    let most = thread.memory.most();
                    (is_present && self.still_lives(thread, *id)).then_some(most)
                };
                let most = threads.iter().filter_map(most).max().unwrap_or(0);
                let most = party.slot.most_memory.load(Relaxed).max(most);
                (u64::from(party.slot.current.load(Relaxed)), party.slot.closed.load(Relaxed), most)
            });
            party.is_still().then(|| ConnectionsRow {
                owner: party.owner,
                current,
                total: current + closed,
                max_session_memory: most,
            })
        };
        self.parties(kind).into_iter().filter_map(row).collect()
    }

    /// Returns the connection attributes of all clients, as far as they were kept.
    pub fn connect_attributes(&self) -> Vec<AttributeRow> {
        self.live_threads().into_iter().flat_map(|found| self.attributes_of(found)).collect()
    }

    /// Returns the connection attributes of one connection.
    pub fn connect_attributes_of(&self, key: ThreadKey) -> Vec<AttributeRow> {
        self.live_threads_with(key).into_iter().flat_map(|found| self.attributes_of(found)).collect()
    }

    fn attributes_of(&self, (id, thread): FoundThread) -> Vec<AttributeRow> {
        let (Some(texts), Some(host)) = (thread.text(self), self.host.get()) else { return Vec::new() };
        let (bytes, charset) = thread.read_texts(|| {
            let len = texts.attributes_len.load(Relaxed) as usize;
            (text::read(&texts.attributes, len), texts.attributes_charset.load(Relaxed))
        });
        let processlist_id = thread.processlist_id.load(Relaxed);
        if !self.still_lives(thread, id) {
            return Vec::new();
        }
        let row = |(ordinal, (name, value)): (u32, (&[u8], &[u8]))| AttributeRow {
            processlist_id,
            name: host.to_utf8(name, charset, NAME_CHARACTERS),
            value: Some(host.to_utf8(value, charset, VALUE_CHARACTERS)).filter(|value| !value.is_empty()),
            ordinal,
        };
        // A nameless attribute ends the list, as in the built-in.
        (0..).zip(pairs(&bytes)).map(row).take_while(|row| !row.name.is_empty()).collect()
    }
}

/// Maximum number of characters shown of an attribute's name.
const NAME_CHARACTERS: usize = 32;
/// Maximum number of characters shown of an attribute's value.
const VALUE_CHARACTERS: usize = 1024;

/// Yields names and values of an attribute block, without a truncated last one.
fn pairs(mut bytes: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    std::iter::from_fn(move || Some((length_encoded(&mut bytes)?, length_encoded(&mut bytes)?)))
}

/// Removes a length-prefixed text, in the protocol's encoding, from the beginning of `bytes`.
fn length_encoded<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (&first, rest) = bytes.split_first()?;
    let (len, rest) = match first {
        0..=250 => (usize::from(first), rest),
        252..=254 => {
            let width = [2, 3, 8][usize::from(first) - 252];
            let (number, rest) = rest.split_at_checked(width)?;
            let mut value = [0; 8];
            value[..width].copy_from_slice(number);
            (usize::try_from(u64::from_le_bytes(value)).ok()?, rest)
        }
        _ => return None,
    };
    let (text, rest) = rest.split_at_checked(len)?;
    *bytes = rest;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::pairs;

    fn read(bytes: &[u8]) -> Vec<(Vec<u8>, usize)> {
        pairs(bytes).map(|(name, value)| (name.to_vec(), value.len())).collect()
    }

    #[test]
    fn a_block_is_read_up_to_where_it_was_cut() {
        let mut block = b"\x01a\x02bc\x00\x00\x01l\xfc\x2c\x01".to_vec();
        block.extend([b'x'; 300]);
        let whole = vec![(b"a".to_vec(), 2), (Vec::new(), 0), (b"l".to_vec(), 300)];
        assert_eq!(read(&block), whole);
        for cut in 0..block.len() {
            let left = match cut {
                0..5 => 0,
                5..7 => 1,
                _ => 2,
            };
            assert_eq!(read(&block[..cut]), whole[..left], "cut at {cut}");
        }
        assert_eq!(read(b"\x01a\xfb"), [], "NULL is no value");
        assert_eq!(read(b"\x01a\xfe\xff\xff\xff\xff\xff\xff\xff\xff"), [], "longer than there is");
    }
}
