//! Accounts, users and hosts: who connects, how often, and what their closed connections did.
//!
//! A thread belongs to an account from its start and may change it; background threads have one without
//! names. While a thread lives, its cells go with it to a new account, as in the built-in. When it ends, they
//! are folded into the account. The user and host of an account share its sums. Their own sums hold only what
//! no account has any more. An account has no name of its own: it is a pair of user and host.
//!
//! Connections, disconnections and resets hold one lock. Folding needs none: an account exists as long as a
//! thread belongs to it.

use std::sync::Mutex;
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::Engine;
use crate::count::peak;
use crate::count::session::EndedSessions;
use crate::layout::balance::{MemoryCell, Peaks};
use crate::layout::bank::{SharedBank, with_cell};
use crate::layout::cell::{Cell, SummaryFamily, Viewer};
use crate::layout::error::ErrorCell;
use crate::layout::histograms;
use crate::memory::arena::{ArenaView, Offset};
use crate::memory::index::{Inserted, NameIndex};
use crate::memory::lost::Lost;
use crate::memory::pool::{self, Pool, SlotHead};
use crate::memory::text;
use crate::setup::instrument::lock;
use crate::snapshot::{EventType, Grouping, Kind};
use crate::thread::Thread;

/// The words of a name, enough for 128 characters.
const PARTY_WORDS: usize = 48;

/// The indexes of the three kinds of parties in [`Parties`] and in a thread.
pub(crate) const ACCOUNT: usize = 0;
pub(crate) const USER: usize = 1;
pub(crate) const HOST: usize = 2;

/// The pool of each kind, and the loss that is counted when there is no slot.
const KINDS: [(Pool, Lost); 3] =
    [(Pool::Accounts, Lost::Accounts), (Pool::Users, Lost::Users), (Pool::Hosts, Lost::Hosts)];

/// The flag of a user or host beyond the configured size, which readers are not shown.
const UNLISTED: u8 = 1;

/// An account, a user or a host.
#[repr(C)]
pub(crate) struct Party {
    pub(crate) head: SlotHead,
    /// Open connections; changed under the lock.
    pub(crate) current: AtomicU32,
    /// Accounts of this user or host; changed under the lock.
    accounts: AtomicU32,
    /// Connections closed since the last reset.
    pub(crate) closed: AtomicU64,
    /// The highest memory use of one closed connection, in bytes.
    pub(crate) most_memory: AtomicU64,
    /// Connections closed since the memory spans were last noted; changed under the lock. See
    /// [`crate::count::peak`].
    pub(crate) unnoted: AtomicU32,
    /// Newest thread of an account, the head of the list in [`Engine::members`].
    latest: AtomicU32,
    /// What closed connections did, except for errors.
    pub(crate) sums: SharedBank,
    /// The errors of closed connections.
    errors: SharedBank,
    /// The host's counters of ended sessions.
    pub(crate) sessions: EndedSessions,
    /// Places of the user and the host of an account.
    pub(crate) user: AtomicU32,
    pub(crate) host: AtomicU32,
    /// Length of the name, in bytes; of a user or host it is 0 for background threads.
    name_len: AtomicU32,
    name: [AtomicU64; PARTY_WORDS],
}

// SAFETY: meets `ArenaView`: atomics only, alignment 8, less than a block.
#[allow(unsafe_code)]
unsafe impl ArenaView for Party {}

impl Party {
    /// Returns the name of a user or host; `None` stands for SQL NULL.
    pub(crate) fn name(&self) -> Option<String> {
        let name = text::read_string(&self.name, self.name_len.load(Relaxed) as usize);
        (!name.is_empty()).then_some(name)
    }

    /// Returns what its closed connections did, of one family.
    pub(crate) fn sums(&self, family: SummaryFamily) -> &SharedBank {
        if family == SummaryFamily::Errors { &self.errors } else { &self.sums }
    }

    /// Counts a connection that ended and whose marks of memory are to be noted. Returns the number of such
    /// connections if it is time; callers hold the lock.
    pub(crate) fn ended_unnoted(&self) -> Option<u32> {
        peak::due(&self.unnoted, &self.current)
    }

    /// Returns whether readers are shown it.
    pub(crate) fn is_listed(&self) -> bool {
        self.head.flags.load(Relaxed) & UNLISTED == 0
    }

    fn is_named(&self, name: &[u8]) -> bool {
        text::equals(
            &self.name,
            self.name_len.load(Relaxed) as usize,
            &name[..name.len().min(PARTY_WORDS * 8)],
        )
    }

    fn key<'a>(&self, kind: usize, name: &'a mut [u8; PARTY_WORDS * 8]) -> PartyKey<'a> {
        match kind {
            ACCOUNT => PartyKey::Pair(self.user.load(Relaxed), self.host.load(Relaxed)),
            _ => PartyKey::Name(text::copy(&self.name, self.name_len.load(Relaxed) as usize, name)),
        }
    }
}

/// All accounts, users and hosts.
pub(crate) struct Parties {
    pub(crate) lock: Mutex<()>,
    /// The host's number of flushes when the sums of ended sessions were last emptied.
    pub(crate) flushes: AtomicU64,
    /// Threads that ended since all memory spans were last noted; changed under the lock.
    pub(crate) unnoted: AtomicU32,
    /// Places of the accounts that were found last, of a thread without user and of one with: most
    /// connections are of the same account as the one before. 0: none; changed under the lock.
    recent: [AtomicU32; 2],
    index: [NameIndex; 3],
    count: [AtomicU32; 3],
    size: [AtomicU32; 3],
}

impl Parties {
    pub(crate) const fn new() -> Parties {
        Parties {
            lock: Mutex::new(()),
            flushes: AtomicU64::new(0),
            unnoted: AtomicU32::new(0),
            recent: [const { AtomicU32::new(0) }; 2],
            index: [const { NameIndex::new() }; 3],
            count: [const { AtomicU32::new(0) }; 3],
            size: [const { AtomicU32::new(0) }; 3],
        }
    }

    /// Reserves room for these numbers of accounts, users and hosts.
    pub(crate) fn map(&self, sizes: [u32; 3]) -> Result<(), std::io::Error> {
        for ((index, bound), size) in self.index.iter().zip(&self.size).zip(sizes) {
            // Every account may need an unlisted user and host.
            index.map(size as usize + sizes[ACCOUNT] as usize)?;
            bound.store(size, Relaxed);
        }
        Ok(())
    }

    fn has_room(&self, kind: usize) -> bool {
        self.count[kind].load(Relaxed) < self.size[kind].load(Relaxed)
    }
}

/// The identity of a party within its kind.
#[derive(Clone, Copy)]
enum PartyKey<'a> {
    Name(&'a [u8]),
    Pair(Offset, Offset),
}

impl PartyKey<'_> {
    fn hash(self, kind: usize) -> u64 {
        match self {
            PartyKey::Name(name) => text::hash(kind as u64, name),
            PartyKey::Pair(user, host) => {
                text::hash(kind as u64, &(u64::from(user) << 32 | u64::from(host)).to_le_bytes())
            }
        }
    }

    fn is(self, party: &Party) -> bool {
        match self {
            PartyKey::Name(name) => party.is_named(name),
            PartyKey::Pair(user, host) => {
                (party.user.load(Relaxed), party.host.load(Relaxed)) == (user, host)
            }
        }
    }
}

/// Connections that begin, change their account, or end.
impl Engine {
    /// Returns a thread's session: a weak name of its account in the upper half, its PROCESSLIST_ID in the
    /// lower. 0: it has neither.
    pub(crate) fn session_name(&self, thread: &Thread) -> u64 {
        let account = self.party(thread, ACCOUNT).map_or(0, |account| pool::name(&account.head));
        u64::from(account) << 32 | thread.processlist_id.load(Relaxed) & 0xFFFF_FFFF
    }

    /// Moves the thread, with all it has counted, to the account of these names. Called by the thread itself
    /// or before it runs, so that no other thread has an event of it in progress.
    pub(crate) fn enter(&self, thread: &'static Thread, user: &[u8], host: &[u8]) {
        // A thread may be told more than once whose it is.
        if self.party(thread, ACCOUNT).is_some_and(|account| self.is_of(account, user, host)) {
            return;
        }
        // Cells that a reset has passed still count for the former account.
        let settings = self.settings.number();
        if thread.fresh_at.load(Relaxed) != settings {
            self.fold_stale(thread);
            thread.fresh_at.store(settings, Relaxed);
        }
        self.folds.begin();
        {
            let _one_at_a_time = lock(&self.parties.lock);
            let [account, user, host] = self.find_parties(user, host);
            // New parties are counted before the old ones are left, so that none disappears in between.
            let old = [ACCOUNT, USER, HOST].map(|kind| self.party(thread, kind));
            let is_another = old[ACCOUNT].map(std::ptr::from_ref) != account.map(std::ptr::from_ref);
            for (kind, new) in [account, user, host].into_iter().enumerate() {
                if let Some(new) = new {
                    new.current.fetch_add(1, Relaxed);
                }
                thread.parties[kind].store(new.map_or(0, |new| self.arena.offset_of(new)), Release);
            }
            if is_another {
                old[ACCOUNT].into_iter().for_each(|old| self.unlink(old, thread));
                account.into_iter().for_each(|new| self.link(new, thread));
                self.begin_new_blocks(thread, old[USER]);
            }
            for (kind, old) in old.into_iter().enumerate() {
                old.into_iter().for_each(|old| self.lose_connection(kind, old));
            }
        }
        self.folds.end();
    }

    /// Ends the blocks of records of the former account, because a block belongs to one account. A connection
    /// that has only now said whose it is keeps its block: what it did before counts for the new account.
    fn begin_new_blocks(&self, thread: &Thread, user: Option<&Party>) {
        thread.statements.seal();
        thread.transactions.seal();
        let lasting = [EventType::Wait, EventType::Stage].map(|of| thread.rings()[of as usize - 1]);
        if user.is_some_and(|user| user.name_len.load(Relaxed) == 0) {
            let current = lasting.iter().filter_map(|(_, blocks)| blocks.pinned().last());
            let session = self.session_name(thread);
            current.for_each(|block| self.arena.meta(block).session.store(session, Relaxed));
        } else {
            lasting.iter().for_each(|(ring, _)| ring.seal());
            thread.stages.limit.close();
        }
    }

    /// Returns the threads of an account, newest first. Callers hold the lock, which keeps the list
    /// unchanged.
    pub(crate) fn members(&self, account: &Party) -> impl Iterator<Item = &'static Thread> {
        let latest = self.linked(&account.latest);
        let members = std::iter::successors(latest, |thread| self.linked(&thread.mates.next));
        members.take(account.current.load(Relaxed) as usize)
    }

    fn linked(&self, place: &AtomicU32) -> Option<&'static Thread> {
        let place: Offset = place.load(Relaxed);
        (place != 0).then(|| self.arena.at(place))
    }

    fn link(&self, account: &Party, thread: &Thread) {
        let place = self.arena.offset_of(thread);
        if let Some(next) = self.linked(&account.latest) {
            next.mates.before.store(place, Relaxed);
        }
        thread.mates.before.store(0, Relaxed);
        thread.mates.next.store(account.latest.load(Relaxed), Relaxed);
        account.latest.store(place, Relaxed);
    }

    fn unlink(&self, account: &Party, thread: &Thread) {
        let [before, next] = [&thread.mates.before, &thread.mates.next].map(|it| self.linked(it));
        let place = |of: Option<&Thread>| of.map_or(0, |of| self.arena.offset_of(of));
        before.map_or(&account.latest, |before| &before.mates.next).store(place(next), Relaxed);
        if let Some(next) = next {
            next.mates.before.store(place(before), Relaxed);
        }
    }

    /// Takes an ended thread out of its account, user and host, and counts its connection as closed. Callers
    /// hold the lock.
    pub(crate) fn leave(&self, thread: &Thread) {
        for kind in [ACCOUNT, USER, HOST] {
            let party = self.party(thread, kind);
            thread.parties[kind].store(0, Relaxed);
            if let Some(party) = party {
                if kind == ACCOUNT {
                    self.unlink(party, thread);
                }
                party.closed.fetch_add(1, Relaxed);
                party.most_memory.fetch_max(thread.memory.most(), Relaxed);
                self.lose_connection(kind, party);
            }
        }
    }

    /// Counts one connection less; callers hold the lock. An unlisted user or host is removed with its last
    /// one.
    fn lose_connection(&self, kind: usize, party: &'static Party) {
        let is_last = party.current.fetch_sub(1, Relaxed) == 1;
        if is_last && !party.is_listed() && party.accounts.load(Relaxed) == 0 {
            self.forget_party(kind, party);
        }
    }

    /// Returns the party of a kind that the thread belongs to.
    pub(crate) fn party(&self, thread: &Thread, kind: usize) -> Option<&'static Party> {
        self.arena.get(thread.parties[kind].load(Acquire))
    }

    /// Returns whether an account is that of these names.
    fn is_of(&self, account: &Party, user: &[u8], host: &[u8]) -> bool {
        let names = self.of_account(account).into_iter().zip([user, host]);
        names.into_iter().all(|(of, name)| of.is_some_and(|of| of.is_named(name)))
    }

    /// Finds or creates the account, the user and the host of these names; callers hold the lock.
    fn find_parties(&self, user: &[u8], host: &[u8]) -> [Option<&'static Party>; 3] {
        let recent = &self.parties.recent[usize::from(!user.is_empty())];
        match self.arena.get::<Party>(recent.load(Relaxed)) {
            Some(account) if self.is_of(account, user, host) => {
                let [user, host] = self.of_account(account);
                [Some(account), user, host]
            }
            _ => {
                let found = self.find_parties_by_name(user, host);
                recent.store(found[ACCOUNT].map_or(0, |account| self.arena.offset_of(account)), Relaxed);
                found
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn find_parties_by_name(&self, user: &[u8], host: &[u8]) -> [Option<&'static Party>; 3] {
        let [user, host] =
            [(USER, user), (HOST, host)].map(|(kind, name)| self.find_party(kind, PartyKey::Name(name)));
        let account = match (user, host) {
            (Some(user), Some(host)) => self
                .find_party(ACCOUNT, PartyKey::Pair(self.arena.offset_of(user), self.arena.offset_of(host))),
            _ => {
                self.losses.count(Lost::Accounts);
                None
            }
        };
        [account, user, host]
    }

    /// Finds or creates a party; callers hold the lock. `None`: there is no slot, and the loss is counted.
    fn find_party(&self, kind: usize, key: PartyKey<'_>) -> Option<&'static Party> {
        let (pool, lost) = KINDS[kind];
        let key = match key {
            PartyKey::Name(name) => PartyKey::Name(&name[..name.len().min(PARTY_WORDS * 8)]),
            pair @ PartyKey::Pair(..) => pair,
        };
        let hash = key.hash(kind);
        let is = |offset: Offset| key.is(self.arena.at(offset));
        if let Some(found) = self.parties.index[kind].find(hash, is) {
            return Some(self.arena.at(found));
        }
        let listed = self.parties.has_room(kind);
        let made = (listed || self.parties.has_room(ACCOUNT))
            .then(|| self.pools.take::<Party>(&self.arena, pool, 0))
            .flatten();
        if !listed || made.is_none() {
            self.losses.count(lost);
        }
        let party = made?;
        party.head.flags.store(if listed { 0 } else { UNLISTED }, Relaxed);
        self.fill_party(party, key);
        if !matches!(self.parties.index[kind].insert(hash, self.arena.offset_of(party), is), Inserted::Here) {
            self.pools.give(&self.arena, pool, party);
            if listed {
                self.losses.count(lost);
            }
            return None;
        }
        if kind == ACCOUNT {
            self.of_account(party).into_iter().flatten().for_each(|of| _ = of.accounts.fetch_add(1, Relaxed));
        }
        self.parties.count[kind].fetch_add(u32::from(listed), Relaxed);
        Some(party)
    }

    fn fill_party(&self, party: &Party, key: PartyKey<'_>) {
        match key {
            PartyKey::Name(name) => party.name_len.store(text::write(&party.name, name) as u32, Relaxed),
            PartyKey::Pair(user, host) => {
                party.user.store(user, Relaxed);
                party.host.store(host, Relaxed);
            }
        }
        party.head.publish();
    }

    /// Returns the user and host of an account, which exist as long as the account.
    pub(crate) fn of_account(&self, account: &Party) -> [Option<&'static Party>; 2] {
        [&account.user, &account.host].map(|of| self.arena.get(of.load(Relaxed)))
    }

    /// Calls `f` with every party of a kind.
    pub(crate) fn each_party(&self, kind: usize, f: impl FnMut(&'static Party)) {
        self.pools.each::<Party>(&self.arena, KINDS[kind].0, f);
    }
}

/// TRUNCATE.
impl Engine {
    /// Empties a family's sums for these viewers, and moves their contents to the parties that still count
    /// them.
    pub(crate) fn reset_sums(&self, family: SummaryFamily, viewers: &[Viewer]) {
        let resets = |viewer| viewers.contains(&viewer);
        let _one_at_a_time = lock(&self.parties.lock);
        if resets(Viewer::Account) {
            self.each_party(ACCOUNT, |account| {
                let [user, host] = self.of_account(account).map(|of| of.map(|of| of.sums(family)));
                let into = [user.filter(|_| !resets(Viewer::User)), host.filter(|_| !resets(Viewer::Host))];
                self.drain_sums(account.sums(family), family, into);
            });
        }
        for (kind, viewer) in [(USER, Viewer::User), (HOST, Viewer::Host)] {
            if resets(viewer) {
                self.each_party(kind, |party| self.drain_sums(party.sums(family), family, [None; 2]));
            }
        }
        if resets(Viewer::Global) {
            self.drain_sums(self.ended_sums(family), family, [None; 2]);
        }
    }

    fn drain_sums(&self, sums: &SharedBank, family: SummaryFamily, into: [Option<&SharedBank>; 2]) {
        sums.each(&self.arena, |class, cell| {
            let kind = self.kind_in(family, class);
            if SummaryFamily::of(kind) == family {
                with_cell!(kind, C => {
                    let into = into.map(|to| self.sum_cell::<C>(to?, class));
                    let cell = self.arena.at::<C>(cell);
                    cell.drain(&self.arena, &into);
                    histograms::clear_shared(&self.arena, &cell.head().histogram);
                });
                if kind == Kind::Memory {
                    Peaks::of(&self.arena, self.arena.at::<MemoryCell>(cell)).clear();
                }
            }
        });
    }

    /// Removes parties without connections, and restarts the connection counts of the others. `grouping` says
    /// which: accounts, or users or hosts together with the accounts.
    pub(crate) fn reset_connections(&self, grouping: Grouping) {
        for family in [
            SummaryFamily::Waits,
            SummaryFamily::Stages,
            SummaryFamily::Statements,
            SummaryFamily::Transactions,
            SummaryFamily::Memory,
            SummaryFamily::Errors,
        ] {
            self.reset_summary(family, grouping);
        }
        self.reset_sessions(grouping);
        let _one_at_a_time = lock(&self.parties.lock);
        self.folds.begin();
        self.forget(ACCOUNT);
        match grouping {
            Grouping::User => self.forget(USER),
            Grouping::Host => self.forget(HOST),
            _ => {}
        }
        self.folds.end();
    }

    fn forget(&self, kind: usize) {
        self.each_party(kind, |party| {
            party.closed.store(0, Relaxed);
            party.most_memory.store(0, Relaxed);
            if party.current.load(Relaxed) == 0 && party.accounts.load(Relaxed) == 0 {
                self.forget_party(kind, party);
            }
        });
    }

    #[cold]
    #[inline(never)]
    fn forget_party(&self, kind: usize, party: &'static Party) {
        let (pool, _) = KINDS[kind];
        let hash = party.key(kind, &mut [0; PARTY_WORDS * 8]).hash(kind);
        self.parties.index[kind].remove(hash, self.arena.offset_of(party));
        if kind == ACCOUNT {
            self.parties.recent.iter().for_each(|recent| recent.store(0, Relaxed));
            let of = self.of_account(party);
            self.leave_sums(party, of);
            for (kind, of) in [USER, HOST].into_iter().zip(of) {
                let Some(of) = of else { continue };
                // A connection whose account has no slot can still belong to it.
                let is_last = of.accounts.fetch_sub(1, Relaxed) == 1 && of.current.load(Relaxed) == 0;
                if is_last && !of.is_listed() {
                    self.forget_party(kind, of);
                }
            }
        }
        self.parties.count[kind].fetch_sub(u32::from(party.is_listed()), Relaxed);
        self.pools.give(&self.arena, pool, party);
        party.sessions.forget();
        party.sums.release(&self.arena);
        party.errors.release(&self.arena);
    }

    /// Moves what a removed account still has to its user and host: memory in use, and what its last
    /// connection added since the resets.
    fn leave_sums(&self, account: &Party, of: [Option<&'static Party>; 2]) {
        account.sums.each(&self.arena, |class, cell| {
            with_cell!(self.registry.kind(class), C => {
                for to in of.iter().flatten().filter_map(|of| self.sum_cell::<C>(&of.sums, class)) {
                    self.arena.at::<C>(cell).fold(&self.arena, to);
                }
            });
        });
        account.errors.each(&self.arena, |class, cell| {
            let cell: &ErrorCell = self.arena.at(cell);
            if cell.is_untouched() {
                return;
            }
            for to in of.iter().flatten().filter_map(|of| self.sum_cell::<ErrorCell>(&of.errors, class)) {
                cell.fold(&self.arena, to);
            }
        });
        let counters = self.take_sums(account);
        of.into_iter().flatten().for_each(|of| self.add_counters(of, &counters));
    }
}
