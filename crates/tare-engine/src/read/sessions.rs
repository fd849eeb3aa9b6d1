//! Facts about sessions: the host's counters by thread, account, user and host, and session variables.

use std::sync::atomic::Ordering::Relaxed;

use crate::Engine;
use crate::count::account::{ACCOUNT, HOST, Party, USER};
use crate::count::session::{MAX_SESSION_COUNTERS, SessionCounter, SessionCounters};
use crate::memory::lost::Lost;
use crate::read::parties::SeenParty;
use crate::read::patiently;
use crate::snapshot::{Grouping, Owner};
use crate::thread::{FoundThread, Thread};

/// Counters of a session, or sums over all sessions of an account, a user or a host.
#[derive(Clone, Debug)]
pub struct SessionCountersRow {
    /// Owner of the counters.
    pub owner: Owner,
    /// Values in the order of [`Engine::session_counter_names`].
    pub counters: SessionCounters,
    /// CONNECTION_TYPE of a session; `None` in sums.
    pub connection_type: Option<&'static str>,
}

/// The value of a variable a client has set in its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionValue {
    /// SQL NULL.
    Null,
    /// The value as text.
    Text(Vec<u8>),
    /// The session may be changing the value, so it is unknown.
    Changing,
}

/// A variable a client has set in its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionVariableRow {
    /// THREAD_ID.
    pub thread_id: u64,
    /// VARIABLE_NAME.
    pub name: String,
    /// VARIABLE_VALUE; `None`: SQL NULL.
    pub value: Option<Vec<u8>>,
}

impl Engine {
    /// Returns the meaning of each word of [`SessionCountersRow::counters`].
    pub fn session_counter_names(&self) -> &[SessionCounter] {
        self.host.get().map_or(&[], |host| host.session_counters())
    }

    /// Returns the counters of every session, or of the one with this THREAD_ID.
    pub fn session_counters(&self, thread: Option<u64>) -> Vec<SessionCountersRow> {
        let row = |(thread_id, thread): (u64, &Thread)| {
            let counters = self.counters_of(thread)?;
            let owner = Owner { thread_id, ..Owner::default() };
            let connection_type = self.connection_type(thread);
            let row = SessionCountersRow { owner, counters, connection_type };
            self.still_lives(thread, thread_id).then_some(row)
        };
        self.threads_with_sessions(thread).into_iter().filter_map(row).collect()
    }

    /// Returns sums over live and ended sessions for every account, user or host. Empty for other groupings.
    pub fn session_sums(&self, grouping: Grouping) -> Vec<SessionCountersRow> {
        let kind = match grouping {
            Grouping::Account => ACCOUNT,
            Grouping::User => USER,
            Grouping::Host => HOST,
            Grouping::Thread | Grouping::Global => return Vec::new(),
        };
        self.notice_flush();
        let parties = self.parties(kind);
        let sums = self.unfolding(|| self.sums_of(kind, &parties));
        let row = |(party, counters): (SeenParty, SessionCounters)| {
            let row = SessionCountersRow { owner: party.owner.clone(), counters, connection_type: None };
            party.is_still().then_some(row)
        };
        parties.into_iter().zip(sums).filter_map(row).collect()
    }

    fn sums_of(&self, kind: usize, parties: &[SeenParty]) -> Vec<SessionCounters> {
        let live: Vec<(&'static Party, SessionCounters)> = self
            .threads_with_sessions(None)
            .into_iter()
            .filter_map(|(_, thread)| Some((self.party(thread, kind)?, self.counters_of(thread)?)))
            .collect();
        let sum = |party: &SeenParty| {
            let mut sum = [0; MAX_SESSION_COUNTERS];
            self.add_ended(party.slot, &mut sum);
            for account in &party.accounts {
                let mut ended = [0; MAX_SESSION_COUNTERS];
                self.add_ended(account.slot, &mut ended);
                // What a forgotten account had is in its user's and its host's sums.
                if account.is_still() {
                    add(&mut sum, &ended);
                }
            }
            let own = live.iter().filter(|(of, _)| std::ptr::eq(*of, party.slot));
            own.for_each(|(_, counters)| add(&mut sum, counters));
            sum
        };
        parties.iter().map(sum).collect()
    }

    /// Returns the variables that clients have set, in every session or in the one with this THREAD_ID.
    pub fn session_variables(&self, thread: Option<u64>) -> Vec<SessionVariableRow> {
        let Some(host) = self.host.get() else { return Vec::new() };
        let mut rows = Vec::new();
        for (thread_id, thread) in self.threads_with_sessions(thread) {
            let read = || {
                let session = self.session_of(thread)?;
                let variables = host.session_variables(session)?;
                (self.session_of(thread) == Some(session)).then_some(variables)
            };
            let variables = patiently(read);
            // A session that has ended has none, and nothing is lost.
            if !self.still_lives(thread, thread_id) || self.session_of(thread).is_none() {
                continue;
            }
            match variables {
                Some(variables) => {
                    for (name, value) in variables {
                        match value {
                            SessionValue::Null => {
                                rows.push(SessionVariableRow { thread_id, name, value: None })
                            }
                            SessionValue::Text(text) => {
                                rows.push(SessionVariableRow { thread_id, name, value: Some(text) });
                            }
                            SessionValue::Changing => self.losses.count(Lost::Sessions),
                        }
                    }
                }
                None => self.losses.count(Lost::Sessions),
            }
        }
        rows
    }

    /// Returns CONNECTION_TYPE.
    pub(super) fn connection_type(&self, thread: &Thread) -> Option<&'static str> {
        let number = thread.connection_type.load(Relaxed).checked_sub(1)?;
        self.host.get()?.connection_type_name(number)
    }

    fn threads_with_sessions(&self, thread: Option<u64>) -> Vec<FoundThread> {
        let threads = self.live_threads_of(thread).into_iter();
        threads.filter(|(_, thread)| self.session_of(thread).is_some()).collect()
    }
}

fn add(sum: &mut SessionCounters, counters: &SessionCounters) {
    sum.iter_mut().zip(counters).for_each(|(sum, counter)| *sum = sum.wrapping_add(*counter));
}
