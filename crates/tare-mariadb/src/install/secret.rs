//! The secret names by which the server's own sessions ask for tables.
//!
//! Any account that may create tables can create a FEDERATED one that leads to the endpoint, and the endpoint
//! cannot tell whose statement it answers. So for the server's sessions a table has a name that nobody can
//! guess. It is new at each start, and only the table's file contains it.
#![allow(unsafe_code)]

use std::fmt;
use std::fs::File;
use std::io::Read;

use super::{InstallError, federated};

/// The file of the system's random bytes, if there is a `/dev`.
const RANDOM: &str = "/dev/urandom";
/// The length of a secret in bytes.
const LENGTH: usize = 16;

/// A secret. Only a table's connect string shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct NameSecret([u8; LENGTH]);

impl NameSecret {
    /// Creates a secret from the system's random bytes.
    ///
    /// # Errors
    ///
    /// When the system has none.
    pub fn random() -> Result<NameSecret, InstallError> {
        let mut bytes = [0; LENGTH];
        if !draw(&mut bytes) {
            let read = File::open(RANDOM).and_then(|mut random| random.read_exact(&mut bytes));
            read.map_err(super::failure("read", RANDOM.as_ref()))?;
        }
        Ok(NameSecret(bytes))
    }

    /// Parses the hexadecimal form of a secret.
    pub(super) fn parse(text: &str) -> Option<NameSecret> {
        let digits = text.as_bytes();
        let lower = |digit: &u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
        if digits.len() != 2 * LENGTH || !digits.iter().all(lower) {
            return None;
        }
        let number = u128::from_str_radix(text, 16).ok()?;
        Some(NameSecret(number.to_be_bytes()))
    }

    /// Returns whether both are equal, in a time that does not depend on where they differ.
    fn is(&self, other: &NameSecret) -> bool {
        let difference = self.0.iter().zip(&other.0).fold(0, |all, (left, right)| all | (left ^ right));
        std::hint::black_box(difference) == 0
    }

    /// Returns the form of a connect string.
    pub(super) fn text(&self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.0))
    }
}

/// Fills the array without a file, because the server's root may have no `/dev`. Returns false if the system
/// lacks this call or would wait for randomness.
fn draw(bytes: &mut [u8; LENGTH]) -> bool {
    // SAFETY: the call writes no more than the array's length into the array.
    let drawn = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), LENGTH, libc::GRND_NONBLOCK) };
    usize::try_from(drawn) == Ok(LENGTH)
}

impl fmt::Debug for NameSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The names by which the server's own sessions may ask for tables.
#[derive(Debug, Default)]
pub struct SecretNames(Vec<(&'static str, NameSecret)>);

impl SecretNames {
    /// Creates the secret of a table.
    pub(super) fn add(&mut self, table: &'static str) -> Result<&NameSecret, InstallError> {
        self.0.push((table, NameSecret::random()?));
        Ok(&self.0[self.0.len() - 1].1)
    }

    /// Returns the table that has this name.
    pub fn table(&self, name: &str) -> Option<&'static str> {
        let (table, secret) = federated::named(name)?;
        let (table, its) = self.0.iter().find(|(known, _)| *known == table)?;
        its.is(&secret).then_some(*table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_as_it_was_written_and_no_other_way() {
        let secret = NameSecret::random().expect("random bytes");
        assert_eq!(NameSecret::parse(&secret.text()), Some(secret.clone()));
        assert!(!secret.is(&NameSecret::random().expect("random bytes")), "two random secrets");
        assert_eq!(NameSecret([1; LENGTH]).text().len(), 2 * LENGTH, "zeros in front stay");
        for wrong in ["", "00", &secret.text()[1..], &format!("+{}", &secret.text()[1..]), &"G".repeat(32)] {
            assert_eq!(NameSecret::parse(wrong), None, "{wrong}");
        }
        assert_eq!(format!("{secret:?}"), "Secret(..)");
    }

    #[test]
    fn a_secret_takes_no_file() {
        // SAFETY: the child runs only the code below and exits.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "a child");
        if child == 0 {
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: `setrlimit` reads a whole limit, and it applies to the child only.
            unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &none) };
            let code = if File::open(RANDOM).is_ok() { 2 } else { i32::from(NameSecret::random().is_err()) };
            // SAFETY: `_exit` takes a number.
            unsafe { libc::_exit(code) };
        }
        let mut status = -1;
        // SAFETY: `waitpid` writes the status of a child of this test.
        unsafe { libc::waitpid(child, &mut status, 0) };
        assert!(libc::WIFEXITED(status), "{status}");
        assert_eq!(libc::WEXITSTATUS(status), 0, "1: no secret; 2: the child could open files");
    }

    #[test]
    fn each_byte_decides() {
        let secret = NameSecret([7; LENGTH]);
        for at in 0..LENGTH {
            let mut other = secret.clone();
            other.0[at] ^= 0x80;
            assert!(!secret.is(&other), "byte {at}");
        }
        assert!(secret.is(&secret.clone()));
    }

    #[test]
    fn a_table_goes_by_its_own_name_only() {
        let mut names = SecretNames::default();
        let [threads, users] = ["threads", "users"].map(|table| {
            let secret = names.add(table).expect("random bytes").clone();
            federated::name(table, &secret)
        });
        assert_eq!([&threads, &users].map(|name| names.table(name)), [Some("threads"), Some("users")]);
        for stranger in [
            "threads",
            &threads.replace("threads", "users"),
            &threads.replace("threads", "hosts"),
            &format!("threads-{}", "0".repeat(32)),
            &threads.to_uppercase(),
            "",
        ] {
            assert_eq!(names.table(stranger), None, "{stranger}");
        }
    }
}
