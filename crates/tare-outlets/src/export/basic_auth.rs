//! Basic authentication with bcrypt, which is slow by design: what was found out is remembered, by a hash of it, and passwords
//! are checked one at a time, so that who guesses takes one processor of the server's at most.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};

/// As many answers are remembered.
const REMEMBERED: usize = 100;
/// A hash that no password has, so that asking for a user that there is not takes as long as any other.
const NOBODY: &str = "$2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi";

/// What was found out.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// The latest last.
    known: Mutex<VecDeque<([u8; 32], bool)>>,
    /// Who checks a password has it.
    turn: Mutex<()>,
}

/// A user and a password, as a request has them.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Credentials {
    pub(super) user: String,
    password: String,
}

impl Credentials {
    /// Reads the value of a header `Authorization`.
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

impl Memory {
    /// Whether the password is the user's. Takes a tenth of a second and more when it is asked for the first time, and waits for
    /// others that are.
    pub(super) fn is_right(&self, users: &BTreeMap<String, String>, given: &Credentials) -> bool {
        let known = users.get(&given.user);
        let hash = known.map_or(NOBODY, String::as_str);
        let key = key(&[&given.user, hash, &given.password]);
        let right = self.remembered(&key).unwrap_or_else(|| {
            let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
            // Another one may have asked for the same meanwhile.
            self.remembered(&key).unwrap_or_else(|| {
                let right = bcrypt::verify(&given.password, hash).unwrap_or(false);
                self.remember(key, right);
                right
            })
        });
        right && known.is_some()
    }

    /// The oldest wrong password goes first, so that guesses do not drive out who has the right one.
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

/// A hash of texts, each with its length, so that no two lists of them are alike.
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
        let memory = Memory::default();
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
        let memory = Memory::default();
        let key = |number: usize| key(&[&number.to_string()]);
        (0..REMEMBERED / 2).for_each(|number| memory.remember(key(number), true));
        (1000..1000 + 3 * REMEMBERED).for_each(|number| memory.remember(key(number), false));
        assert!((0..REMEMBERED / 2).all(|number| memory.remembered(&key(number)) == Some(true)));
        assert_eq!(memory.remembered(&key(1000)), None, "the oldest guess");
        // A file of users that changes often: right ones go as well, the oldest first.
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
