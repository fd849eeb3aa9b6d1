//! Basic authentication with bcrypt, which is slow by design. Results are cached by a hash, and passwords are
//! checked one at a time, so that guessing uses one processor at most.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};

/// Number of cached results.
const REMEMBERED: usize = 100;
/// A hash without a password, so that the check of an unknown user takes as long as any other.
const NOBODY: &str = "$2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi";

/// The cached results.
#[derive(Debug, Default)]
pub(super) struct CheckedPasswords {
    /// Hash and result, the latest last.
    known: Mutex<VecDeque<([u8; 32], bool)>>,
    /// Held while a password is checked.
    turn: Mutex<()>,
}

/// The user and password of a request.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Credentials {
    pub(super) user: String,
    password: String,
}

impl Credentials {
    /// Parses the value of a header `Authorization`.
    pub(super) fn parse(header: &[u8]) -> Option<Self> {
        let (scheme, encoded) = std::str::from_utf8(header).ok()?.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("basic") {
            return None;
        }
        let text = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
        let (user, password) = text.split_once(':')?;
        Some(Self { user: user.to_owned(), password: password.to_owned() })
    }
}

impl CheckedPasswords {
    /// Returns whether the password is the user's. The first check takes a tenth of a second or more, and
    /// waits for other checks.
    pub(super) fn is_right(&self, users: &BTreeMap<String, String>, given: &Credentials) -> bool {
        let known = users.get(&given.user);
        let hash = known.map_or(NOBODY, String::as_str);
        let key = key(&[&given.user, hash, &given.password]);
        let right = self.remembered(&key).unwrap_or_else(|| {
            let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
            // Another request may have checked the same meanwhile.
            self.remembered(&key).unwrap_or_else(|| {
                let right = bcrypt::verify(&given.password, hash).unwrap_or(false);
                self.remember(key, right);
                right
            })
        });
        right && known.is_some()
    }

    /// Adds a result. The oldest wrong password is dropped first, so that guesses do not evict right ones.
    fn remember(&self, key: [u8; 32], right: bool) {
        let mut list = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if list.len() >= REMEMBERED {
            let oldest = list.iter().position(|(_, right)| !right).unwrap_or(0);
            list.remove(oldest);
        }
        list.push_back((key, right));
    }

    fn remembered(&self, key: &[u8; 32]) -> Option<bool> {
        let list = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        list.iter().find(|(it, _)| it == key).map(|(_, right)| *right)
    }
}

/// Hashes texts, each with its length, so that different lists have different input.
fn key(texts: &[&str]) -> [u8; 32] {
    let all: Vec<u8> =
        texts.iter().flat_map(|text| [&text.len().to_le_bytes()[..], text.as_bytes()].concat()).collect();
    let mut key = [0; 32];
    key.copy_from_slice(digest(&SHA256, &all).as_ref());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_checked_and_remembered_with_its_hash() {
        let hash = |password: &str| bcrypt::hash_with_salt(password, 4, [7; 16]).expect("a hash").to_string();
        let mut users = BTreeMap::from([("agent".to_owned(), hash("secret"))]);
        let given = |user: &str, password: &str| {
            let text = STANDARD.encode(format!("{user}:{password}"));
            Credentials::parse(format!("Basic {text}").as_bytes()).expect("credentials")
        };
        let memory = CheckedPasswords::default();
        for _ in 0..2 {
            assert!(memory.is_right(&users, &given("agent", "secret")));
            assert!(!memory.is_right(&users, &given("agent", "wrong")));
            assert!(!memory.is_right(&users, &given("nobody", "secret")));
        }
        users.insert("agent".to_owned(), hash("new"));
        assert!(!memory.is_right(&users, &given("agent", "secret")), "the file has changed");
        assert!(memory.is_right(&users, &given("agent", "new")));
        assert!(NOBODY.parse::<bcrypt::HashParts>().is_ok(), "it takes as long as a real one");
    }

    #[test]
    fn guesses_do_not_drive_out_who_has_the_right_password() {
        let memory = CheckedPasswords::default();
        let key = |number: usize| key(&[&number.to_string()]);
        (0..REMEMBERED / 2).for_each(|number| memory.remember(key(number), true));
        (1000..1000 + 3 * REMEMBERED).for_each(|number| memory.remember(key(number), false));
        assert!((0..REMEMBERED / 2).all(|number| memory.remembered(&key(number)) == Some(true)));
        assert_eq!(memory.remembered(&key(1000)), None, "the oldest guess");
        // When the file of users changes often, right ones are dropped as well, the oldest first.
        (2000..2000 + REMEMBERED).for_each(|number| memory.remember(key(number), true));
        assert_eq!(memory.remembered(&key(0)), None);
        assert_eq!(memory.known.lock().expect("nobody panicked").len(), REMEMBERED);
    }

    #[test]
    fn only_basic_credentials_are_any() {
        for header in ["", "Basic", "Bearer abc", "Basic ???", "Basic YWdlbnQ="] {
            assert!(Credentials::parse(header.as_bytes()).is_none(), "{header}");
        }
    }
}
