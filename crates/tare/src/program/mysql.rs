//! A program of MySQL's: which families of events tare can take from it, by the search that runs at the
//! server's start.

use serde::Serialize;
use tare_host::families::{self, FoundFamily};

use super::elf::{Elf, ProgramSegments};
use super::{Product, ServerProgram, are_three_numbers};

/// How the mangled name of the function that starts the server's own Performance Schema begins. Only servers
/// export it.
const START: &str = "_Z29initialize_performance_schema";
/// How the constant begins that a server of MySQL's writes into its redo logs; its version follows.
const CREATOR: &str = "MySQL ";

/// A family of events in a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ProgramFamily {
    /// The family's name.
    pub(crate) family: &'static str,
    /// Why it has to stay with the server's own Performance Schema; `None` if tare can take it.
    pub(crate) hindrance: Option<String>,
    /// Its functions.
    pub(crate) functions: Vec<EventFunction>,
}

/// A function that the server calls for events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct EventFunction {
    /// The name.
    pub(crate) function: String,
    /// How many places call it by name; `None` if it is not exported.
    pub(crate) calls: Option<usize>,
    /// How many words of the data hold its address: tables of functions, which plugins and libraries call
    /// through.
    pub(crate) in_tables: Option<usize>,
}

/// Analyses a program; `None` if it is no server of MySQL's.
pub(super) fn look(file: &Elf, loaded: &ProgramSegments) -> Option<ServerProgram> {
    if !file.exports_beginning(START) {
        return None;
    }
    let version = loaded.constant(CREATOR, |text| version(text).is_some())?;
    let version = version[CREATOR.len()..].to_owned();
    let found = families::found(&loaded.image(), |name| file.symbol(name));
    let families: Vec<ProgramFamily> = found.iter().map(family).collect();
    let mut hindrances = vec![];
    let losses = tare_mysql::startup::losses_in(loaded.image(), &|name| file.symbol_and_size(name));
    let notes = losses.unwrap_or_else(|why| {
        hindrances.push(why);
        vec![]
    });
    if families.iter().all(|family| family.hindrance.is_some()) {
        hindrances.push("tare can take no family of events from it".to_owned());
    }
    let supported = hindrances.is_empty();
    let product = Some(Product::MySQL);
    Some(ServerProgram {
        product,
        version: Some(version),
        supported,
        hindrances,
        families,
        notes,
        ..ServerProgram::default()
    })
}

/// Returns the version in a text such as `MySQL 9.7.4`.
fn version(text: &str) -> Option<&str> {
    let version = text.strip_prefix(CREATOR)?;
    are_three_numbers(version.split('-').next().unwrap_or(version)).then_some(version)
}

fn family(found: &FoundFamily) -> ProgramFamily {
    let functions = found.functions.iter().map(|function| EventFunction {
        function: function.to_string(),
        calls: function.sites.map(|sites| sites.by_name),
        in_tables: function.sites.map(|sites| sites.in_data),
    });
    ProgramFamily {
        family: found.family.name,
        hindrance: found.hindrance().map(|why| why.to_string()),
        functions: functions.collect(),
    }
}

impl ProgramFamily {
    /// Returns the family as a line: what calls its functions, or why it stays with the server.
    pub(crate) fn line(&self) -> String {
        let calls = |function: &EventFunction| match function.calls {
            Some(calls) => format!("{} {calls}", function.function),
            None => format!("{} -", function.function),
        };
        match &self.hindrance {
            Some(why) => format!("{}: stays with MySQL's own Performance Schema: {why}", self.family),
            None => {
                let functions = self.functions.iter().map(calls).collect::<Vec<_>>().join(", ");
                format!("{}: tare can take it; calls: {functions}", self.family)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_told_from_other_texts() {
        assert_eq!(version("MySQL 9.7.4"), Some("9.7.4"));
        assert_eq!(version("MySQL 8.0.46-38"), Some("8.0.46-38"));
        for other in ["MySQL 8.0", "MySQL", "MySQL 8.0.x", "9.7.4", "MySQL client 9.7.4", ""] {
            assert_eq!(version(other), None, "{other}");
        }
    }

    #[test]
    fn a_line_says_what_calls_a_family_or_why_it_stays() {
        let function = |calls| EventFunction { function: "pfs_end".to_owned(), calls, in_tables: Some(1) };
        let mut family =
            ProgramFamily { family: "stage", hindrance: None, functions: vec![function(Some(7))] };
        assert_eq!(family.line(), "stage: tare can take it; calls: pfs_end 7");
        family.hindrance = Some("the server does not export pfs_end".to_owned());
        assert_eq!(
            family.line(),
            "stage: stays with MySQL's own Performance Schema: the server does not export pfs_end"
        );
    }
}
