//! What only an installed table's file holds: the secret in the name its rows are asked for by.
//!
//! Any account that may create tables can make a FEDERATED one that leads to the endpoint, and the endpoint cannot tell
//! whose statement it answers. So to the server's sessions a table goes by a name nobody can guess. The file is the one
//! place that holds it: files are written with the secret they had, and the endpoint reads them when it is asked
//! by a name it does not know yet.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use super::{Content, Folder, InstallError, federated};

/// The system's random bytes.
const RANDOM: &str = "/dev/urandom";
/// Bytes of a secret.
const LENGTH: usize = 16;
/// Secrets remembered for a table: it has more than one when its file was removed and written anew while the server
/// holds the table open.
const REMEMBERED: usize = 4;

/// A secret. Shows itself in a table's connect string only.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; LENGTH]);

impl Secret {
    /// A new one, of the system's randomness.
    ///
    /// # Errors
    /// When the system gives none.
    pub fn random() -> Result<Secret, InstallError> {
        let mut bytes = [0; LENGTH];
        let read = File::open(RANDOM).and_then(|mut random| random.read_exact(&mut bytes));
        read.map_err(super::failure("read", RANDOM.as_ref()))?;
        Ok(Secret(bytes))
    }

    /// The secret in its hexadecimal form.
    pub(super) fn parse(text: &str) -> Option<Secret> {
        let digits = text.as_bytes();
        let lower = |digit: &u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
        if digits.len() != 2 * LENGTH || !digits.iter().all(lower) {
            return None;
        }
        let number = u128::from_str_radix(text, 16).ok()?;
        Some(Secret(number.to_be_bytes()))
    }

    /// Whether both are the same, in a time that does not depend on where they differ.
    fn is(&self, other: &Secret) -> bool {
        let difference = self.0.iter().zip(&other.0).fold(0, |all, (left, right)| all | (left ^ right));
        std::hint::black_box(difference) == 0
    }

    /// As it stands in a connect string.
    pub(super) fn text(&self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The names by which the server's own sessions may ask for tables.
#[derive(Debug)]
pub struct Names {
    datadir: PathBuf,
    known: Mutex<Vec<(String, Secret)>>,
}

impl Names {
    /// The names in this data directory's files.
    pub fn new(datadir: PathBuf) -> Names {
        Names { datadir, known: Mutex::new(Vec::new()) }
    }

    /// Takes note of the tables installed now: they keep their names as long as this lives, whatever becomes of the files.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn learn(&self) -> Result<(), InstallError> {
        for installed in super::list(&self.datadir)? {
            if let Some(secret) = installed.secret() {
                self.remember(&installed.table, secret);
            }
        }
        Ok(())
    }

    /// The table that goes by this name.
    pub fn table(&self, name: &str) -> Option<String> {
        let (table, secret) = federated::named(name)?;
        if !self.knows(table, &secret) {
            let Ok(Content::Ours(_, installed)) = Folder::open(&self.datadir).ok()?.read(table) else {
                return None;
            };
            self.remember(table, installed.secret()?);
        }
        self.knows(table, &secret).then(|| table.to_owned())
    }

    fn knows(&self, table: &str, secret: &Secret) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().filter(|(name, _)| name == table).fold(false, |found, (_, it)| it.is(secret) | found)
    }

    fn remember(&self, table: &str, secret: Secret) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let of_table = || known.iter().enumerate().filter(|(_, (name, _))| name == table);
        if of_table().any(|(_, (_, it))| it.is(&secret)) {
            return;
        }
        let oldest = of_table().map(|(at, _)| at).next().filter(|_| of_table().count() >= REMEMBERED);
        if let Some(oldest) = oldest {
            known.remove(oldest);
        }
        known.push((table.to_owned(), secret));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_as_it_was_written_and_no_other_way() {
        let secret = Secret::random().expect("random bytes");
        assert_eq!(Secret::parse(&secret.text()), Some(secret.clone()));
        assert!(!secret.is(&Secret::random().expect("random bytes")), "two random secrets");
        assert_eq!(Secret([1; LENGTH]).text().len(), 2 * LENGTH, "zeros in front stay");
        for wrong in ["", "00", &secret.text()[1..], &format!("+{}", &secret.text()[1..]), &"G".repeat(32)] {
            assert_eq!(Secret::parse(wrong), None, "{wrong}");
        }
        assert_eq!(format!("{secret:?}"), "Secret(..)");
    }

    #[test]
    fn each_byte_decides() {
        let secret = Secret([7; LENGTH]);
        for at in 0..LENGTH {
            let mut other = secret.clone();
            other.0[at] ^= 0x80;
            assert!(!secret.is(&other), "byte {at}");
        }
        assert!(secret.is(&secret.clone()));
    }

    #[test]
    fn old_names_are_kept_a_few_of_each_table() {
        let names = Names::new("/nowhere".into());
        let secrets: Vec<Secret> = (0..=REMEMBERED as u8).map(|it| Secret([it; LENGTH])).collect();
        names.remember("users", secrets[0].clone());
        secrets.iter().for_each(|secret| names.remember("threads", secret.clone()));
        let name = |secret: &Secret| federated::name("threads", secret);
        assert_eq!(names.table(&name(&secrets[0])), None);
        assert!(secrets[1..].iter().all(|it| names.table(&name(it)).as_deref() == Some("threads")));
        assert_eq!(names.table("threads"), None);
    }
}
