//! The choice of statements to log.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::str::FromStr;
use std::time::Duration;

use tare_server::sql::literals;

/// Most digests whose counters are remembered.
const DIGESTS: usize = 100_000;

/// Conditions on a statement, all of which must hold; of several names one must match.
#[derive(Clone, Debug, Default)]
pub struct StatementFilter {
    /// Least duration, exclusive.
    pub over: Option<Duration>,
    /// Users of the account.
    pub users: Vec<String>,
    /// Hosts of the account.
    pub hosts: Vec<String>,
    /// Current schemas.
    pub schemas: Vec<String>,
    /// Digests.
    pub digests: Vec<String>,
    /// Least number of rows examined.
    pub rows_examined: Option<u64>,
    /// Whether only failed statements are logged.
    pub errors: bool,
    /// Whether statements of stored programs are left out.
    pub outermost: bool,
    /// Share of the matching statements of each digest to log.
    pub share: Share,
}

/// A share: one in so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share(u64);

impl Share {
    /// Returns how many statements a logged one stands for.
    #[must_use]
    pub fn weight(self) -> u64 {
        self.0
    }
}

impl Default for Share {
    fn default() -> Self {
        Share(1)
    }
}

/// The error for a text that is no share.
#[derive(Debug, thiserror::Error)]
#[error("a share is written 1/N, such as 1/100")]
pub struct ParseShare;

impl FromStr for Share {
    type Err = ParseShare;

    fn from_str(text: &str) -> Result<Self, ParseShare> {
        let of = text.strip_prefix("1/").and_then(|of| of.parse().ok()).filter(|of| *of > 0);
        of.map(Share).ok_or(ParseShare)
    }
}

/// Chooses statements.
pub(super) struct Chooser {
    choice: StatementFilter,
    /// Number of statements of each digest to skip before the next one is logged.
    turns: HashMap<String, u64>,
}

impl Chooser {
    pub(super) fn new(choice: &StatementFilter) -> Chooser {
        Chooser { choice: choice.clone(), turns: HashMap::new() }
    }

    /// Returns the conditions that the server itself can check, so that less is sent.
    pub(super) fn filter(&self) -> String {
        let StatementFilter {
            over, users, hosts, schemas, digests, rows_examined, errors, outermost, ..
        } = &self.choice;
        let mut all = Vec::new();
        if let Some(over) = over {
            all.push(format!("TIMER_WAIT > {}", over.as_nanos() * 1000));
        }
        for (column, names) in [
            ("PROCESSLIST_USER", users),
            ("PROCESSLIST_HOST", hosts),
            ("CURRENT_SCHEMA", schemas),
            ("DIGEST", digests),
        ] {
            if !names.is_empty() {
                all.push(format!("{column} IN ({})", literals(names)));
            }
        }
        if let Some(rows) = rows_examined {
            all.push(format!("ROWS_EXAMINED >= {rows}"));
        }
        if *errors {
            all.push("ERRORS > 0".to_owned());
        }
        if *outermost {
            all.push("NESTING_EVENT_LEVEL = 0".to_owned());
        }
        if all.is_empty() { String::new() } else { format!("WHERE {}", all.join(" AND ")) }
    }

    /// Returns whether to log a statement among those of its digest, whose name is only computed if needed.
    /// The first one logged depends on the digest's name, so rare digests are neither all logged nor all left
    /// out.
    pub(super) fn chooses<'r>(&mut self, digest: impl FnOnce() -> Cow<'r, str>) -> bool {
        let of = self.choice.share.weight();
        if of == 1 {
            return true;
        }
        let name = digest();
        if let Some(left) = self.turns.get_mut(&*name) {
            let is_next = *left == 0;
            *left = if is_next { of - 1 } else { *left - 1 };
            return is_next;
        }
        if self.turns.len() >= DIGESTS {
            self.turns.clear();
        }
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        let left = hasher.finish() % of;
        self.turns.insert(name.into_owned(), if left == 0 { of - 1 } else { left - 1 });
        left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_so_many_of_each_digest_is_chosen() {
        let mut chooser = Chooser::new(&StatementFilter {
            share: "1/7".parse().expect("a share"),
            ..StatementFilter::default()
        });
        for name in ["a", "b", "c", "d"] {
            let chosen = (0..700).filter(|_| chooser.chooses(|| name.into())).count();
            assert_eq!(chosen, 100, "{name}");
        }
        assert!(["2/7", "1/0", "7", "1/x", ""].iter().all(|text| text.parse::<Share>().is_err()));
    }

    #[test]
    fn what_the_server_can_leave_out_is_asked_of_it() {
        assert_eq!(Chooser::new(&StatementFilter::default()).filter(), "");
        let choice = StatementFilter {
            over: Some(Duration::from_millis(10)),
            users: vec!["o'neil".to_owned(), "b\\".to_owned()],
            errors: true,
            ..StatementFilter::default()
        };
        assert_eq!(
            Chooser::new(&choice).filter(),
            "WHERE TIMER_WAIT > 10000000000 AND PROCESSLIST_USER IN ('o''neil', 'b\\\\') AND ERRORS > 0"
        );
    }
}
