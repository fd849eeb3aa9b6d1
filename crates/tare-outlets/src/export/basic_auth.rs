//! Basic authentication with bcrypt, which is slow by design: what was found out is remembered, by a hash of it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};

/// As many answers are remembered.
const REMEMBERED: usize = 100;
/// A hash that no password has, so that asking for a user that there is not takes as long as any other.
const NOBODY: &str = "$2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi";

/// What was found out, the latest last.
#[derive(Debug, Default)]
pub(super) struct Memory {
    known: Mutex<VecDeque<([u8; 32], bool)>>,
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
    /// Whether the password is the user's. Takes a tenth of a second and more when it is asked for the first time.
    pub(super) fn is_right(&self, users: &BTreeMap<String, String>, given: &Credentials) -> bool {
        let known = users.get(&given.user);
        let hash = known.map_or(NOBODY, String::as_str);
        let key = key(&[&given.user, hash, &given.password]);
        if let Some(right) = self.remembered(&key) {
            return right && known.is_some();
        }
        let right = bcrypt::verify(&given.password, hash).unwrap_or(false);
        let mut list = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if list.len() >= REMEMBERED {
            list.pop_front();
        }
        list.push_back((key, right));
        right && known.is_some()
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
    fn only_basic_credentials_are_any() {
        for header in ["", "Basic", "Bearer abc", "Basic ???", "Basic YWdlbnQ="] {
            assert!(Credentials::parse(header.as_bytes()).is_none(), "{header}");
        }
    }
}
