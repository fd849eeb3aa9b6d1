//! The server's read-only system variables of the Performance Schema: `@@performance_schema` and its sizes.
//!
//! `intern_find_sys_var` is exported and returns the object of a name; the object contains the address of the
//! value. The layout of its first 224 bytes is the same in debug information of 10.11.5 and 11.4.5. On every
//! server it is verified before it is used: the name twice, its length, a known type, and the value's
//! location twice, as an address and as an offset from the exported `global_system_variables`.
//!
//! The server itself reads the flag before it asks for its provider, and passes all values to its built-in if
//! that is on. The code that runs later reads none of them (SAFETY.md says how that was verified).
#![allow(unsafe_code)]

use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};

use tare_host::process::{observation, symbol};

/// The words of the object that are read.
const WORDS: usize = 25;
/// The positions of words in the object.
mod at {
    pub(super) const NAME: usize = 2;
    pub(super) const NAME_LENGTH: usize = 3;
    pub(super) const OPTION_NAME: usize = 6;
    pub(super) const VALUE: usize = 9;
    pub(super) const TYPE: usize = 12;
    pub(super) const OFFSET: usize = 24;
}
/// The bits of a type that say what a value is.
const TYPE_MASK: u64 = 63;
/// The value's type for `@@performance_schema`: a byte, 0 or 1.
const SWITCH: u64 = 2;
/// The sizes' types, signed and unsigned: eight bytes.
const SIZES: [u64; 2] = [5, 6];
/// The largest distance between the values. All of them lie in one structure, of some 500 bytes on every
/// server.
const STRUCTURE: u64 = 4096;

/// The reason the variables are left unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum VariableError {
    /// The server does not export a needed symbol.
    #[error("the server does not export {0}")]
    NoSymbol(&'static str),
    /// There is no variable of this name.
    #[error("the server has no variable {0}")]
    Unknown(String),
    /// The variable's object is not laid out as in the known servers.
    #[error("the server's variable {0} is not where it was expected")]
    Layout(String),
    /// The variable holds a value that is impossible while the built-in is off.
    #[error("the server's variable {0} does not hold what was expected")]
    Value(String),
    /// The server accepts no further status variable.
    #[error("the server takes no further status variable")]
    Refused,
}

/// The location of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct VariableLocation {
    address: u64,
    is_switch: bool,
}

/// Finds the value's location in an object's words. `name_at` returns the name at an address, if any.
fn place(
    words: &[u64; WORDS],
    name: &str,
    variables: u64,
    name_at: impl Fn(u64) -> Option<String>,
) -> Option<VariableLocation> {
    let kind = words[at::TYPE] & TYPE_MASK;
    let address = words[at::VALUE];
    let known = name_at(words[at::NAME]).as_deref() == Some(name)
        && words[at::NAME_LENGTH] == name.len() as u64
        && words[at::OPTION_NAME] == words[at::NAME]
        && (kind == SWITCH || (SIZES.contains(&kind) && address.is_multiple_of(8)))
        && variables.wrapping_add(words[at::OFFSET]) == address;
    known.then_some(VariableLocation { address, is_switch: kind == SWITCH })
}

/// Returns the `N` bytes at an address.
fn copied<const N: usize>(address: u64) -> Option<[u8; N]> {
    observation::bytes(usize::try_from(address).ok()?)
}

/// Returns the name at an address; names of variables have fewer than 80 bytes.
fn name_at(address: u64) -> Option<String> {
    observation::text::<80>(usize::try_from(address).ok()?)
}

/// Looks a variable up.
fn find(name: &str) -> Result<VariableLocation, VariableError> {
    type Find = unsafe extern "C" fn(*const c_char, usize) -> *const c_void;
    let missing = |name| move || VariableError::NoSymbol(name);
    let function = symbol(c"_Z19intern_find_sys_varPKcm").ok_or_else(missing("intern_find_sys_var"))?;
    let variables = symbol(c"global_system_variables").ok_or_else(missing("global_system_variables"))?;
    // SAFETY: the mangled name says that it is a function taking a char pointer and an unsigned long; it
    // returns a pointer (an object of the server, or null).
    let function = unsafe { std::mem::transmute::<*mut c_void, Find>(function) };
    // SAFETY: the function reads `name.len()` bytes, and a hash that only changes when plugins come and go:
    // `assign` runs on the server's main thread before the first session exists.
    let object = unsafe { function(name.as_ptr().cast(), name.len()) };
    if object.is_null() {
        return Err(VariableError::Unknown(name.to_owned()));
    }
    let layout = || VariableError::Layout(name.to_owned());
    let bytes: [u8; WORDS * 8] = copied(object.addr() as u64).ok_or_else(layout)?;
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().map_err(|_| layout())?);
    }
    place(&words, name, variables.addr() as u64, name_at).ok_or_else(layout)
}

/// The locations found and verified, with the values to store.
#[derive(Debug)]
pub(crate) struct Assignments {
    switch: u64,
    sizes: Vec<(u64, i64)>,
}

/// Finds `@@performance_schema`, which is to be ON, and its sizes, which are to have these values. The names
/// are those after `performance_schema_`.
///
/// Call it on the server's main thread, when its options are read and no connection exists.
///
/// # Errors
///
/// When one of the variables is not exactly as expected.
pub(crate) fn assign(sizes: &[(String, i64)]) -> Result<Assignments, VariableError> {
    const SWITCH_NAME: &str = "performance_schema";
    let switch = find(SWITCH_NAME)?;
    if !switch.is_switch {
        return Err(VariableError::Layout(SWITCH_NAME.to_owned()));
    }
    if copied::<1>(switch.address) != Some([0]) {
        return Err(VariableError::Value(SWITCH_NAME.to_owned()));
    }
    let place = |(name, size): &(String, i64)| {
        let name = format!("{SWITCH_NAME}_{name}");
        let place = find(&name)?;
        if place.is_switch || !(1..STRUCTURE).contains(&place.address.wrapping_sub(switch.address)) {
            return Err(VariableError::Layout(name));
        }
        let held = copied(place.address).map(i64::from_le_bytes);
        // -1 lets the built-in choose. No allowed value is larger than 2^31.
        if !held.is_some_and(|held| (-1..=1 << 31).contains(&held)) {
            return Err(VariableError::Value(name));
        }
        Ok((place.address, *size))
    };
    let sizes = sizes.iter().map(place).collect::<Result<_, _>>()?;
    Ok(Assignments { switch: switch.address, sizes })
}

impl Assignments {
    /// Stores the values.
    pub(crate) fn make(self) {
        for (address, size) in self.sizes {
            // SAFETY: `find` verified that the server has eight aligned bytes there, whose address is in its
            // own object. They are one of its variables; a concurrent reader sees the old value or the new
            // one.
            let value =
                unsafe { AtomicI64::from_ptr(std::ptr::with_exposed_provenance_mut(address as usize)) };
            value.store(size, Ordering::Relaxed);
        }
        // SAFETY: as above, one byte.
        let value =
            unsafe { AtomicU8::from_ptr(std::ptr::with_exposed_provenance_mut(self.switch as usize)) };
        value.store(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "performance_schema_digests_size";
    const NAME_ADDRESS: u64 = 0x1000;
    const VARIABLES: u64 = 0x9000;

    /// Returns an object as the servers have it.
    fn words() -> [u64; WORDS] {
        let mut words = [0x77; WORDS];
        words[at::NAME] = NAME_ADDRESS;
        words[at::NAME_LENGTH] = NAME.len() as u64;
        words[at::OPTION_NAME] = NAME_ADDRESS;
        words[at::VALUE] = 0x8ff8;
        words[at::TYPE] = 5 | 128;
        words[at::OFFSET] = 8_u64.wrapping_neg();
        words
    }

    fn found(words: &[u64; WORDS]) -> Option<VariableLocation> {
        place(words, NAME, VARIABLES, |address| (address == NAME_ADDRESS).then(|| NAME.to_owned()))
    }

    #[test]
    fn a_place_is_believed_only_when_everything_agrees() {
        assert_eq!(found(&words()), Some(VariableLocation { address: 0x8ff8, is_switch: false }));
        for (at, wrong) in [
            (at::NAME, 0x2000),
            (at::NAME_LENGTH, 3),
            (at::OPTION_NAME, 0x2000),
            (at::VALUE, 0x9000),
            (at::TYPE, 9),
            (at::OFFSET, 0),
        ] {
            let mut words = words();
            words[at] = wrong;
            assert_eq!(found(&words), None, "word {at}");
        }
        let mut unaligned = words();
        unaligned[at::VALUE] -= 1;
        unaligned[at::OFFSET] -= 1;
        assert_eq!(found(&unaligned), None);
        unaligned[at::TYPE] = SWITCH;
        assert_eq!(found(&unaligned), Some(VariableLocation { address: 0x8ff7, is_switch: true }));
    }

    #[test]
    fn a_program_without_the_servers_symbols_is_left_alone() {
        assert_eq!(assign(&[]).err(), Some(VariableError::NoSymbol("intern_find_sys_var")));
    }
}
