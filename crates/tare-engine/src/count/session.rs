//! The counters that the host itself keeps for its sessions.
//!
//! While a session lasts, its counters stay with the host, and a reader has the host copy them. When it ends,
//! they are added to the sums of its account, or, if the account has no slot, to those of its user and host.
//! So nothing is counted here while a session works.

use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::Engine;
use crate::count::account::{ACCOUNT, HOST, Party, USER};
use crate::layout::cell::add_shared;
use crate::memory::arena::ArenaView;
use crate::memory::lost::Lost;
use crate::setup::instrument::lock;
use crate::snapshot::Grouping;
use crate::thread::{Thread, ThreadRef};

/// The maximum number of counters of a session.
pub const MAX_SESSION_COUNTERS: usize = 128;

/// The counters of one session, or sums of many. Only as many are valid as the host has names.
pub type SessionCounters = [u64; MAX_SESSION_COUNTERS];

/// The definition of a session counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionCounter {
    /// The name.
    pub name: String,
    /// The interpretation of its word.
    pub form: CounterForm,
}

/// The interpretation of a counter's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterForm {
    /// A count. Only counts are summed up, as in the built-in.
    Count,
    /// A floating-point number.
    Fraction,
    /// A number of microseconds, shown as seconds.
    Microseconds,
    /// A count in the lower 32 bits; the other bits mean something else.
    Small,
}

/// A session about which the host can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// The host's handle, see [`Engine::begin_session`].
    pub handle: u64,
    /// PROCESSLIST_ID.
    pub processlist_id: u64,
    /// PROCESSLIST_COMMAND, as the host numbers commands; `None`: unknown.
    pub command: Option<u32>,
}

/// Sums of counters.
#[repr(transparent)]
struct SessionSums([AtomicU64; MAX_SESSION_COUNTERS]);

// SAFETY: meets `ArenaView`: atomics only, alignment 8, less than a block.
#[allow(unsafe_code)]
unsafe impl ArenaView for SessionSums {}

/// The place of the sums of a party's ended sessions, in the party's memory; 0: there are none yet.
#[repr(transparent)]
pub(crate) struct EndedSessions(AtomicU32);

impl EndedSessions {
    /// Forgets the sums, whose memory is given back with the party's.
    pub(crate) fn forget(&self) {
        self.0.store(0, Relaxed);
    }
}

/// Sessions that begin and end; called by their own threads.
impl Engine {
    /// Notes that the thread runs this session from now on. Only the host follows the handle, and only while
    /// the session lasts.
    pub fn begin_session(&self, thread: ThreadRef, handle: u64) {
        thread.slab().session.store(handle, Release);
    }

    /// Adds the counters of the thread's session to the sums, if it runs one. The session must still exist.
    pub fn end_session(&self, thread: ThreadRef) {
        let thread = thread.slab();
        if thread.session.load(Relaxed) == 0 {
            return;
        }
        if self.host.get().is_some_and(|host| host.may_have_flushed()) {
            self.notice_flush();
        }
        let counters = self.counters_of(thread);
        self.folds.begin();
        thread.session.store(0, Release);
        match &counters {
            Some(counters) => self.add_above(thread, counters),
            None if self.has_session_counters() => self.losses.count(Lost::Sessions),
            None => {}
        }
        self.folds.end();
    }

    fn add_above(&self, thread: &Thread, counters: &SessionCounters) {
        let parties = match self.party(thread, ACCOUNT) {
            Some(account) => [Some(account), None],
            None => [USER, HOST].map(|kind| self.party(thread, kind)),
        };
        for party in parties.into_iter().flatten() {
            self.add_counters(party, counters);
        }
    }

    pub(super) fn add_counters(&self, party: &Party, counters: &SessionCounters) {
        let (groups, _) = counters.as_chunks::<4>();
        let is_empty = |group: &[u64; 4]| group[0] | group[1] | group[2] | group[3] == 0;
        if groups.iter().all(is_empty) {
            return;
        }
        let Some(sums) = self.ended_counters(party) else {
            self.losses.count(Lost::PartyCells);
            return;
        };
        // Of most groups all are 0.
        let (sums, _) = sums.0.as_chunks::<4>();
        for (sums, group) in sums.iter().zip(groups).filter(|(_, group)| !is_empty(group)) {
            sums.iter().zip(group).for_each(|(sum, counter)| add_shared(sum, *counter));
        }
    }

    /// Returns the party's sums, created if necessary; `None`: there is no memory to spare.
    fn ended_counters(&self, party: &Party) -> Option<&'static SessionSums> {
        if party.sessions.0.load(Acquire) == 0 && !self.arena.is_scarce() {
            let place = party.sums.words(&self.arena, MAX_SESSION_COUNTERS as u32)?;
            tare_sync::keep_first(&party.sessions.0, place);
        }
        self.peek_sums(party)
    }

    fn peek_sums(&self, party: &Party) -> Option<&'static SessionSums> {
        self.arena.get(party.sessions.0.load(Acquire))
    }

    /// Returns whether the host has readable session counters.
    fn has_session_counters(&self) -> bool {
        self.host.get().is_some_and(|host| !host.session_counters().is_empty())
    }

    /// Returns the counters of a thread's session; `None` if it has ended or cannot be read.
    pub(crate) fn counters_of(&self, thread: &Thread) -> Option<SessionCounters> {
        let session = self.session_of(thread)?;
        let mut counters = [0; MAX_SESSION_COUNTERS];
        let read = self.host.get()?.read_session_counters(session, &mut counters);
        (read && self.session_of(thread).is_some_and(|now| now.handle == session.handle)).then_some(counters)
    }

    /// Returns the session that a thread runs.
    pub(crate) fn session_of(&self, thread: &Thread) -> Option<Session> {
        let handle = thread.session.load(Acquire);
        (handle != 0).then(|| Session {
            handle,
            processlist_id: thread.processlist_id.load(Relaxed),
            command: thread.command.load(Relaxed).checked_sub(1),
        })
    }
}

/// TRUNCATE, and the host's own flush of what ended sessions left.
impl Engine {
    /// Moves what ended sessions left to the parties that still count it. Open sessions keep their counters,
    /// which are the host's.
    pub(crate) fn reset_sessions(&self, grouping: Grouping) {
        self.notice_flush();
        let _one_at_a_time = lock(&self.parties.lock);
        self.folds.begin();
        if grouping != Grouping::Thread {
            self.each_party(ACCOUNT, |account| {
                let counters = self.take_sums(account);
                let of = self.of_account(account);
                of.into_iter().flatten().for_each(|of| self.add_counters(of, &counters));
            });
        }
        for (kind, of) in [(USER, Grouping::User), (HOST, Grouping::Host)] {
            if grouping == of || grouping == Grouping::Global {
                self.each_party(kind, |party| _ = self.take_sums(party));
            }
        }
        self.folds.end();
    }

    pub(super) fn take_sums(&self, party: &Party) -> SessionCounters {
        let mut counters = [0; MAX_SESSION_COUNTERS];
        if let Some(sums) = self.peek_sums(party) {
            counters.iter_mut().zip(&sums.0).for_each(|(counter, sum)| *counter = sum.swap(0, Relaxed));
        }
        counters
    }

    /// Empties all sums if the host has flushed its own since the last call.
    pub(crate) fn notice_flush(&self) {
        let Some(host) = self.host.get() else { return };
        if host.flushes() == self.parties.flushes.load(Acquire) {
            return;
        }
        let _one_at_a_time = lock(&self.parties.lock);
        let now = host.flushes();
        if now == self.parties.flushes.load(Relaxed) {
            return;
        }
        self.folds.begin();
        for kind in [ACCOUNT, USER, HOST] {
            self.each_party(kind, |party| _ = self.take_sums(party));
        }
        self.folds.end();
        self.parties.flushes.store(now, Release);
    }

    /// Adds what ended sessions of a party left.
    pub(crate) fn add_ended(&self, party: &Party, into: &mut SessionCounters) {
        if let Some(ended) = self.peek_sums(party) {
            into.iter_mut().zip(&ended.0).for_each(|(sum, it)| *sum = sum.wrapping_add(it.load(Relaxed)));
        }
    }
}
