//! The functions of MySQL's own Performance Schema that its server calls for every event, by family of
//! events; and whether a build of the server calls them.
//!
//! Each name is mangled, so it tells the types of the arguments. All are exported, with the same names, by
//! the servers that were looked at: 8.0.46, 8.4.13, 9.7.2 and 9.7.4. A build that is optimised across files
//! may have made some of them parts of their callers.

use std::ffi::CStr;
use std::fmt;

use crate::call_sites::{CallSites, call_sites};
use crate::process::Image;

/// A family of events.
#[derive(Debug, PartialEq, Eq)]
pub struct Family {
    /// The name, as it is shown.
    pub name: &'static str,
    /// The mangled names of its functions.
    pub functions: &'static [&'static CStr],
}

/// The families, in the order in which they are shown.
pub static FAMILIES: [Family; 13] = [
    Family {
        name: "mutex",
        functions: &[
            c"_Z23pfs_start_mutex_wait_v1P25PSI_mutex_locker_state_v1P9PSI_mutex19PSI_mutex_operationPKcj",
            c"_Z21pfs_end_mutex_wait_v1P16PSI_mutex_lockeri",
        ],
    },
    Family {
        name: "rwlock",
        functions: &[
            c"_Z26pfs_start_rwlock_rdwait_v2P26PSI_rwlock_locker_state_v1P10PSI_rwlock20PSI_rwlock_operationPKcj",
            c"_Z26pfs_start_rwlock_wrwait_v2P26PSI_rwlock_locker_state_v1P10PSI_rwlock20PSI_rwlock_operationPKcj",
            c"_Z24pfs_end_rwlock_rdwait_v2P17PSI_rwlock_lockeri",
            c"_Z24pfs_end_rwlock_wrwait_v2P17PSI_rwlock_lockeri",
        ],
    },
    Family {
        name: "cond",
        functions: &[
            c"_Z22pfs_start_cond_wait_v1P24PSI_cond_locker_state_v1P8PSI_condP9PSI_mutex18PSI_cond_operationPKcj",
            c"_Z20pfs_end_cond_wait_v1P15PSI_cond_lockeri",
        ],
    },
    Family {
        name: "file",
        functions: &[
            c"_Z22pfs_start_file_wait_vcP15PSI_file_lockermPKcj",
            c"_Z20pfs_end_file_wait_vcP15PSI_file_lockerm",
        ],
    },
    Family {
        name: "socket",
        functions: &[
            c"_Z24pfs_start_socket_wait_v1P26PSI_socket_locker_state_v1P10PSI_socket20PSI_socket_operationmPKcj",
            c"_Z22pfs_end_socket_wait_v1P17PSI_socket_lockerm",
        ],
    },
    Family {
        name: "table",
        functions: &[
            c"_Z26pfs_start_table_io_wait_v1P22PSI_table_locker_stateP9PSI_table22PSI_table_io_operationjPKcj",
            c"_Z24pfs_end_table_io_wait_v1P16PSI_table_lockery",
            c"_Z28pfs_start_table_lock_wait_v1P22PSI_table_locker_stateP9PSI_table24PSI_table_lock_operationmPKcj",
            c"_Z26pfs_end_table_lock_wait_v1P16PSI_table_locker",
        ],
    },
    Family {
        name: "idle",
        functions: &[
            c"_Z22pfs_start_idle_wait_v1P24PSI_idle_locker_state_v1PKcj",
            c"_Z20pfs_end_idle_wait_v1P15PSI_idle_locker",
        ],
    },
    Family {
        name: "metadata",
        functions: &[
            c"_Z26pfs_start_metadata_wait_vcP28PSI_metadata_locker_state_v1P17PSI_metadata_lockPKcj",
            c"_Z24pfs_end_metadata_wait_vcP19PSI_metadata_lockeri",
        ],
    },
    Family { name: "stage", functions: &[c"_Z18pfs_start_stage_v1jPKci", c"_Z16pfs_end_stage_v1v"] },
    Family {
        name: "statement",
        functions: &[
            c"_Z22pfs_start_statement_vcP20PSI_statement_lockerPKcjS2_j",
            c"_Z20pfs_end_statement_vcP20PSI_statement_lockerPv",
        ],
    },
    Family {
        name: "transaction",
        functions: &[
            c"_Z36pfs_get_thread_transaction_locker_v1P31PSI_transaction_locker_state_v1PKvPKyibb",
            c"_Z24pfs_start_transaction_v1P22PSI_transaction_lockerPKcj",
            c"_Z22pfs_end_transaction_v1P22PSI_transaction_lockerb",
        ],
    },
    Family {
        name: "memory",
        functions: &[
            c"_Z19pfs_memory_alloc_vcjmPP10PSI_thread",
            c"_Z18pfs_memory_free_vcjmP10PSI_thread",
        ],
    },
    Family { name: "error", functions: &[c"_Z16pfs_log_error_v1j19PSI_error_operation"] },
];

/// A function of a family in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FamilyFunction {
    /// The mangled name.
    pub name: &'static CStr,
    /// Where it is used; `None` if the program does not export it.
    pub sites: Option<CallSites>,
}

/// A family in a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundFamily {
    /// The family.
    pub family: &'static Family,
    /// Its functions, in the family's order.
    pub functions: Vec<FamilyFunction>,
}

/// The reason why a family has to stay with the server's own Performance Schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Hindrance {
    /// The program does not export a function.
    #[error("the server does not export {0}")]
    Missing(String),
    /// Nobody calls a function by name.
    #[error(
        "nobody in the server calls {0} by name, so link-time optimisation has made it part of its callers"
    )]
    Inlined(String),
}

/// Returns each family with what a program does with its functions. `address` returns the address of an
/// exported function.
pub fn found(program: &Image<'_>, address: impl Fn(&CStr) -> Option<usize>) -> Vec<FoundFamily> {
    let names = || FAMILIES.iter().flat_map(|family| family.functions);
    let addresses: Vec<Option<usize>> = names().map(|name| address(name)).collect();
    let exported: Vec<usize> = addresses.iter().copied().flatten().collect();
    let mut sites = call_sites(program, &exported).into_iter();
    let mut functions = names()
        .zip(addresses)
        .map(|(name, address)| FamilyFunction { name, sites: address.and_then(|_| sites.next()) });
    let of = |family: &'static Family| FoundFamily {
        family,
        functions: functions.by_ref().take(family.functions.len()).collect(),
    };
    FAMILIES.iter().map(of).collect()
}

impl FoundFamily {
    /// Returns why the family has to stay with the server's own Performance Schema; `None` if it can be
    /// taken.
    pub fn hindrance(&self) -> Option<Hindrance> {
        self.functions.iter().find_map(|function| match function.sites {
            None => Some(Hindrance::Missing(function.to_string())),
            Some(CallSites { by_name: 0, .. }) => Some(Hindrance::Inlined(function.to_string())),
            Some(_) => None,
        })
    }
}

impl fmt::Display for FamilyFunction {
    /// Writes the name without its types: `pfs_end_stage_v1`.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.to_str().unwrap_or_default();
        to.write_str(plain(name).unwrap_or(name))
    }
}

/// Returns the name of a function in a mangled name such as `_Z3foov`.
fn plain(mangled: &str) -> Option<&str> {
    let counted = mangled.strip_prefix("_Z")?;
    let digits = counted.len() - counted.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (length, rest) = counted.split_at(digits);
    rest.get(..length.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_is_named_once_and_by_a_mangled_name() {
        let mut names: Vec<&str> =
            FAMILIES.iter().flat_map(|it| it.functions).map(|it| it.to_str().expect("ASCII")).collect();
        assert!(
            names.iter().all(|name| plain(name).is_some_and(|name| name.starts_with("pfs_"))),
            "{names:?}"
        );
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn a_family_is_taken_if_each_of_its_functions_is_called_by_name() {
        const AT: usize = 0x1000;
        // Each exported function has 16 bytes; the first call each of them, one after the other.
        let names: Vec<&CStr> = FAMILIES.iter().flat_map(|family| family.functions.iter().copied()).collect();
        let function = |at: usize| AT + 0x400 + 16 * at;
        let code = |uncalled: &str| {
            let mut code = vec![0x90; 0x400 + 16 * names.len()];
            for (at, name) in names.iter().enumerate() {
                if !name.to_str().expect("ASCII").contains(uncalled) {
                    let distance = i32::try_from(function(at) - (AT + 8 * at + 5)).expect("near");
                    code[8 * at] = 0xE8;
                    code[8 * at + 1..][..4].copy_from_slice(&distance.to_le_bytes());
                }
            }
            code
        };
        let hindrances = |uncalled: &str, missing: &str| {
            let code = code(uncalled);
            let program = Image { address: AT, code: &code, data: vec![] };
            let address = |name: &CStr| {
                let at = names.iter().position(|it| *it == name).expect("a name of a family");
                (!name.to_str().expect("ASCII").contains(missing)).then(|| function(at))
            };
            let found = found(&program, address);
            let said = found.iter().filter_map(|it| Some((it.family.name, it.hindrance()?.to_string())));
            said.map(|(family, why)| format!("{family}: {why}")).collect::<Vec<_>>()
        };
        assert_eq!(hindrances("nothing", "nothing"), Vec::<String>::new());
        let inlined = "stage: nobody in the server calls pfs_end_stage_v1 by name, so link-time optimisation has made it part of \
                       its callers";
        assert_eq!(hindrances("pfs_end_stage", "nothing"), [inlined]);
        let missing = "idle: the server does not export pfs_end_idle_wait_v1";
        assert_eq!(hindrances("pfs_end_idle", "pfs_end_idle"), [missing]);
    }
}
