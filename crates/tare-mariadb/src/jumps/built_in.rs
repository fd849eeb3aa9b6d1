//! Finds the built-in provider's function table in a program, either running or read from a file.
//!
//! The table is not exported. The server's exported `init_server_psi_keys` begins by calling four of the
//! built-in's functions in the order of the table's first four slots. The only place in the server's data
//! with these four addresses in a row is the table. Anything that is not exactly as expected is an error.

use std::ffi::CStr;

use tare_host::code;

pub use tare_host::process::Image;

use super::error::DirectCallsError;
use crate::abi::Series;

/// The function whose first calls lead to the table.
pub const KEYS: &CStr = c"_Z20init_server_psi_keysv";

/// The groups of slots that may share one function of the built-in; they do the same in tare, too.
const TWINS: [&[&str]; 2] = [
    &["signal_cond", "broadcast_cond", "release_sp_share", "set_thread_state"],
    &["start_rwlock_rdwait", "start_rwlock_wrwait"],
];

fn twins(one: &str, other: &str) -> bool {
    TWINS.iter().any(|group| group.contains(&one) && group.contains(&other))
}

/// Returns each function of the built-in with the first slot that contains it. `keys` is the address of
/// [`KEYS`].
///
/// # Errors
///
/// When the program is not laid out like the known servers.
pub fn functions(
    program: &Image<'_>,
    series: Series,
    keys: Option<usize>,
) -> Result<Vec<(usize, usize)>, DirectCallsError> {
    let slots = series.slot_names();
    let mut functions: Vec<(usize, usize)> = Vec::new();
    for (slot, function) in table(program, keys, slots.len())?.into_iter().enumerate() {
        if function % 16 != 0 {
            return Err(DirectCallsError::Unexpected("a function is not aligned"));
        }
        match functions.iter().find(|(_, known)| *known == function) {
            Some((twin, _)) if twins(slots[*twin], slots[slot]) => {}
            Some(_) => return Err(DirectCallsError::Unexpected("two slots share a function")),
            None => functions.push((slot, function)),
        }
    }
    Ok(functions)
}

/// Returns the built-in's table: `slots` addresses of functions.
fn table(program: &Image<'_>, keys: Option<usize>, slots: usize) -> Result<Vec<usize>, DirectCallsError> {
    let keys = keys
        .filter(|function| program.holds(*function))
        .ok_or(DirectCallsError::Unexpected("no init_server_psi_keys"))?;
    let calls = calls(program, keys);
    let mut found = calls.windows(4).flat_map(|first| tables(program, first, slots));
    match (found.next(), found.next()) {
        (Some(table), None) => Ok(table),
        (None, _) => {
            Err(DirectCallsError::Unexpected("no function table of MariaDB's own Performance Schema"))
        }
        _ => Err(DirectCallsError::Unexpected("more than one vtable")),
    }
}

/// Returns the targets of what looks like direct calls in the first bytes of a function.
fn calls(program: &Image<'_>, function: usize) -> Vec<usize> {
    const LOOK: usize = 192;
    let bytes = &program.code[function - program.address..];
    let bytes = &bytes[..LOOK.min(bytes.len())];
    let targets = code::calls(bytes, function).map(|(_, target)| target);
    targets.filter(|target| program.holds(*target)).collect()
}

/// Returns the places in the data that begin with these four addresses and continue with functions.
fn tables(program: &Image<'_>, first: &[usize], slots: usize) -> Vec<Vec<usize>> {
    let tables = program.data.iter().flat_map(|(_, words)| words.windows(slots));
    let tables = tables.filter(|table| table[..4] == *first);
    tables
        .filter(|table| table.iter().all(|function| program.holds(*function)))
        .map(<[usize]>::to_vec)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twins_exist_in_every_series() {
        for series in Series::ALL {
            for name in TWINS.iter().copied().flatten() {
                assert!(series.slot_names().contains(name), "{name} in {}", series.name());
            }
        }
    }

    /// Returns a program whose first function calls the first four of `slots` functions, which follow it with
    /// 16 bytes each.
    fn code(slots: usize) -> Vec<u8> {
        let mut code = vec![0x90; 256 + 16 * slots];
        for call in 0..4 {
            code[8 * call] = 0xE8;
            let distance = i32::try_from(256 + 16 * call - (8 * call + 5)).unwrap();
            code[8 * call + 1..8 * call + 5].copy_from_slice(&distance.to_le_bytes());
        }
        code
    }

    #[test]
    fn the_table_is_found_by_the_calls_to_its_first_functions() {
        let series = Series::V10_11;
        let slots = series.slot_names().len();
        let (address, code) = (0x1000, code(slots));
        let table: Vec<usize> = (0..slots).map(|slot| address + 256 + 16 * slot).collect();
        let functions = |data: &[usize]| {
            super::functions(
                &Image { address, code: &code, data: vec![(0, &[1, 2]), (0, data)] },
                series,
                Some(address),
            )
        };
        let expected: Vec<_> = table.iter().copied().enumerate().collect();
        assert_eq!(functions(&[&[7][..], &table, &[8]].concat()), Ok(expected));
        let unexpected = |data: &[usize]| match functions(data) {
            Err(DirectCallsError::Unexpected(what)) => what,
            other => panic!("{other:?}"),
        };
        assert_eq!(unexpected(&table[1..]), "no function table of MariaDB's own Performance Schema");
        assert_eq!(unexpected(&table.repeat(2)), "more than one vtable");
        let change = |slot: usize, function: usize| {
            let mut table = table.clone();
            table[slot] = function;
            table
        };
        assert_eq!(
            unexpected(&change(9, 1)),
            "no function table of MariaDB's own Performance Schema",
            "no function"
        );
        assert_eq!(unexpected(&change(9, table[8])), "two slots share a function");
        assert_eq!(unexpected(&change(9, table[9] + 1)), "a function is not aligned");
    }

    #[test]
    fn a_program_without_the_first_function_is_no_server() {
        let image = Image { address: 0x1000, code: &[0x90; 64], data: vec![] };
        for keys in [None, Some(0), Some(0x1040)] {
            let found = functions(&image, Series::V10_11, keys);
            assert_eq!(found, Err(DirectCallsError::Unexpected("no init_server_psi_keys")));
        }
    }
}
