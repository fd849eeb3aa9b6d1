//! The accounts, users and hosts that the built-in knows, with their connections, as its tables of these
//! names show them.

use super::lists::{ACCOUNTS, HOSTS, List, USERS};
use super::sessions::{self, SessionRow};
use crate::abi::layout::layout;
use crate::abi::lists::Text;

/// What a table has a row of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Account,
    User,
    Host,
}

/// A row of `accounts`, `users` or `hosts`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PartyRow {
    /// `None`: of the server's own threads.
    pub(crate) user: Option<String>,
    /// See `user`.
    pub(crate) host: Option<String>,
    /// Connections that are open.
    pub(crate) current: u64,
    /// All connections.
    pub(crate) total: u64,
    /// The most controlled memory, and the most memory, that one of them had.
    pub(crate) memory: [u64; 2],
}

/// A record of the built-in's: an account, a user or a host.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Party {
    address: usize,
    user: Option<String>,
    host: Option<String>,
    /// The user and the host of an account, by address.
    owners: [usize; 2],
    /// The number of connections that have ended, and the peaks of their memory.
    ended: [u64; 3],
}

/// How often everything is read at most until no connection has ended meanwhile.
const READINGS: usize = 20;

fn parties(
    list: &List,
    user: Option<Text>,
    host: Option<Text>,
    ended: usize,
    has_owners: bool,
) -> Vec<Party> {
    let mut parties = Vec::new();
    let layout = layout().parties;
    let first = layout.user.0.min(layout.host.0);
    list.each(|record| {
        let Some(copied) = record.copy((first, ended + 24), &[]) else { return };
        parties.push(Party {
            address: record.address,
            user: user.and_then(|text| copied.text(text)),
            host: host.and_then(|text| copied.text(text)),
            owners: layout.account_owners.map(|at| if has_owners { copied.word(at) as usize } else { 0 }),
            ended: [0, 8, 16].map(|at| copied.word(ended + at)),
        });
    });
    parties
}

/// Returns the parties of a level.
fn of_level(level: Level) -> Vec<Party> {
    let layout = layout().parties;
    let [account, user, host] = layout.ended;
    match level {
        Level::Account => parties(&ACCOUNTS, Some(layout.user), Some(layout.account_host), account, true),
        Level::User => parties(&USERS, Some(layout.user), None, user, false),
        Level::Host => parties(&HOSTS, None, Some(layout.host), host, false),
    }
}

/// Returns the parties of a level, the accounts of which users and hosts are made, and the threads.
fn reading(level: Level) -> (Vec<Party>, Vec<Party>, Vec<SessionRow>) {
    let parties = of_level(level);
    let accounts = if level == Level::Account { Vec::new() } else { of_level(Level::Account) };
    (parties, accounts, sessions::all())
}

/// Returns the rows of a level. Call it within [`super::presence::while_there`].
pub(crate) fn all(level: Level) -> Vec<PartyRow> {
    let mut seen = reading(level);
    for _ in 1..READINGS {
        // A connection that ends is among the threads first and then among what has ended.
        let again = reading(level);
        let is_same = again.0 == seen.0 && again.1 == seen.1;
        seen = again;
        if is_same {
            break;
        }
    }
    let (parties, accounts, threads) = seen;
    parties.into_iter().map(|party| row(level, party, &accounts, &threads)).collect()
}

/// Returns the row of a party: what has ended is its own and, of a user or a host, its accounts'.
fn row(level: Level, party: Party, accounts: &[Party], threads: &[SessionRow]) -> PartyRow {
    let owns = |account: &&Party| match level {
        Level::Account => false,
        Level::User => account.owners[0] == party.address,
        Level::Host => account.owners[1] == party.address,
    };
    let own: Vec<&Party> = accounts.iter().filter(owns).collect();
    let is_own = |thread: &&SessionRow| {
        let [host, user, account] = thread.owners;
        match level {
            Level::Account => account == party.address,
            Level::User => user == party.address || own.iter().any(|it| it.address == account),
            Level::Host => host == party.address || own.iter().any(|it| it.address == account),
        }
    };
    let mut row = PartyRow { user: party.user, host: party.host, current: 0, total: 0, memory: [0; 2] };
    let mut add = |total: u64, memory: [u64; 2]| {
        row.total += total;
        row.memory = [row.memory[0].max(memory[0]), row.memory[1].max(memory[1])];
    };
    for [total, controlled, all] in own.iter().map(|account| account.ended).chain([party.ended]) {
        add(total, [controlled, all]);
    }
    let live: Vec<&SessionRow> = threads.iter().filter(is_own).collect();
    live.iter().for_each(|thread| add(1, [thread.memory[1], thread.memory[3]]));
    row.current = live.len() as u64;
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    fn party(address: usize, owners: [usize; 2], ended: [u64; 3]) -> Party {
        Party { address, user: Some(format!("u{address}")), host: None, owners, ended }
    }

    fn thread(owners: [usize; 3], peaks: [u64; 2]) -> SessionRow {
        SessionRow { owners, memory: [0, peaks[0], 0, peaks[1]], ..SessionRow::default() }
    }

    #[test]
    fn a_user_has_the_connections_of_its_accounts() {
        let accounts = [party(10, [1, 3], [5, 100, 400]), party(11, [2, 3], [7, 0, 0])];
        let threads = [thread([0, 0, 10], [50, 900]), thread([0, 1, 0], [200, 0]), thread([3, 0, 0], [0, 0])];
        let of = |level, of: &Party| row(level, of.clone(), &accounts, &threads);
        let counts = |row: PartyRow| (row.current, row.total, row.memory);
        assert_eq!(counts(of(Level::Account, &accounts[0])), (1, 6, [100, 900]));
        assert_eq!(counts(of(Level::Account, &accounts[1])), (0, 7, [0, 0]));
        assert_eq!(counts(of(Level::User, &party(1, [0; 2], [2, 0, 0]))), (2, 9, [200, 900]));
        assert_eq!(counts(of(Level::Host, &party(3, [0; 2], [0, 0, 0]))), (2, 14, [100, 900]));
    }
}
