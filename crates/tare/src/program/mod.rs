//! A server's program, read from its file, which is not run: whether tare supports it.

pub(crate) mod elf;
mod mysql;

use std::ffi::CStr;
use std::path::Path;

use serde::Serialize;
use tare_mariadb::abi::Series;
use tare_mariadb::jumps::{built_in, locks};
use tare_mariadb::startup::{DisableReason, program};

use elf::Elf;

pub(crate) use mysql::ProgramFamily;

/// Who makes a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Product {
    MariaDB,
    MySQL,
}

/// The analysis of a server's program.
#[derive(Debug, Default, Serialize)]
pub(crate) struct ServerProgram {
    /// Whose server it is; `None` if it is none that tare knows.
    pub(crate) product: Option<Product>,
    /// The version compiled into it.
    pub(crate) version: Option<String>,
    /// Whether tare supports it, as far as the program decides that.
    pub(crate) supported: bool,
    /// Reasons why it is not supported.
    pub(crate) hindrances: Vec<String>,
    /// What would be incomplete.
    pub(crate) notes: Vec<String>,
    /// MySQL's families of events, and which of them tare can take.
    pub(crate) families: Vec<ProgramFamily>,
    /// Groups of option files that it reads.
    #[serde(skip)]
    pub(crate) groups: Vec<String>,
}

/// Analyses a server's program.
pub(crate) fn look(path: &Path) -> Result<ServerProgram, elf::Error> {
    let file = Elf::read(path)?;
    let loaded = file.loaded()?;
    if let Some(program) = mysql::look(&file, &loaded) {
        return Ok(program);
    }
    let mut program =
        ServerProgram { version: loaded.constant(PRODUCT, is_version), ..ServerProgram::default() };
    let missing: Vec<_> = program::EXPORTS.iter().filter(|name| file.symbol(name).is_none()).collect();
    if !missing.is_empty() {
        let names = missing.iter().map(|name| name.to_string_lossy()).collect::<Vec<_>>().join(", ");
        program.hindrances.push(format!(
            "it does not export {names}: no server of MariaDB or MySQL, or one built without the interface"
        ));
        return Ok(program);
    }
    program.product = Some(Product::MariaDB);
    program.groups = file.symbol(program::GROUPS).map(|array| loaded.texts_at(array)).unwrap_or_default();
    match program.version.as_deref().map(|version| (version, Series::of(version))) {
        None => program.hindrances.push(DisableReason::NoVersion.to_string()),
        Some((version, None)) => {
            program
                .hindrances
                .push(DisableReason::UnknownVersion { version: version.to_owned() }.to_string());
        }
        Some((_, Some(series))) => {
            if let Err(error) = built_in::functions(&loaded.image(), series, file.symbol(built_in::KEYS)) {
                program.hindrances.push(error.to_string());
            }
            let code = |name: &CStr| file.symbol(name).and_then(|at| loaded.code_at(at, locks::LOOK));
            let other = locks::FUNCTIONS.iter().filter(|function| !function.is_known(series, code));
            let other: Vec<_> = other.map(|function| function.name.to_string_lossy()).collect();
            if !other.is_empty() {
                let names = other.join(", ");
                program
                    .notes
                    .push(format!("not the known ones: {names}: their locks are timed as at level exact"));
            }
        }
    }
    program.supported = program.hindrances.is_empty();
    Ok(program)
}

/// What follows the numbers in the version of a server of MariaDB's.
const PRODUCT: &str = "-MariaDB";

/// Returns whether a text is the server's version: three numbers and the product's name.
fn is_version(text: &str) -> bool {
    text.find('-').is_some_and(|end| text[end..].starts_with(PRODUCT) && are_three_numbers(&text[..end]))
}

/// Returns whether a text is three numbers such as 10.11.19.
fn are_three_numbers(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    parts.len() == 3 && parts.iter().all(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_told_from_other_texts() {
        assert!(is_version("10.11.19-MariaDB"));
        assert!(is_version("12.0.2-MariaDB-ubu2404"));
        for other in ["10.11-MariaDB", "5.5.5-", "8.4.0", "10.11.x-MariaDB", "a-MariaDB", ""] {
            assert!(!is_version(other), "{other}");
        }
    }
}
