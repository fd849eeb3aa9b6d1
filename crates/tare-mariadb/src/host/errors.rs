//! The server's errors: numbers and names from `errors.txt`, SQLSTATEs from the server itself.
//!
//! `scripts/errors/generate.py` writes `errors.txt` from the headers of the servers' packages, because the
//! server does not export the names. The server's function `mysql_errno_to_sqlstate` returns a number's
//! SQLSTATE from a constant table.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_uint, c_void};

use tare_engine::snapshot::KnownError;
use tare_host::process::symbol;

use crate::abi::Series;

/// The error list. A line has a number, a name and, unless all series have the error, the series that do.
const ERRORS: &str = include_str!("errors.txt");

/// The SQLSTATE of an error without one of its own.
const GENERAL: &str = "HY000";

/// Returns the errors of a series, sorted by number. Leaks the list, which is requested only once.
pub(crate) fn known(series: Series) -> &'static [KnownError] {
    let states = States::find();
    let error = |line: &'static str| {
        let mut words = line.split(' ');
        let (number, name) = (words.next()?.parse().ok()?, words.next()?);
        let has = words.next().is_none_or(|all| all.split(',').any(|it| it == series.name()));
        let sqlstate = || states.as_ref().and_then(|states| states.of(number)).unwrap_or(GENERAL);
        has.then(|| KnownError { number, name, sqlstate: sqlstate() })
    };
    let mut errors: Vec<KnownError> = ERRORS.lines().filter_map(error).collect();
    errors.sort_by_key(|error| error.number);
    errors.leak()
}

/// The server's `const char *mysql_errno_to_sqlstate(uint)`.
struct States(unsafe extern "C" fn(c_uint) -> *const c_char);

impl States {
    fn find() -> Option<States> {
        let function = symbol(c"mysql_errno_to_sqlstate")?;
        // SAFETY: the server's function of this name has this type, in its client library, too.
        Some(States(unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(c_uint) -> *const c_char>(function)
        }))
    }

    fn of(&self, number: u32) -> Option<&'static str> {
        // SAFETY: the function looks the number up in a constant table.
        let state = unsafe { (self.0)(number) };
        if state.is_null() {
            return None;
        }
        // SAFETY: the result is one of the program's string constants.
        unsafe { CStr::from_ptr(state) }.to_str().ok().filter(|state| state.len() == GENERAL.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_series_has_its_errors_once_and_in_order() {
        for series in Series::ALL {
            let errors = known(series);
            assert!(errors.is_sorted_by(|a, b| a.number < b.number), "{}", series.name());
            assert!((1150..tare_engine::MAX_ERRORS).contains(&errors.len()), "{}", series.name());
            let name = |number| errors.iter().find(|error| error.number == number).map(|error| error.name);
            assert_eq!(name(1062), Some("ER_DUP_ENTRY"));
            assert_eq!((name(1000), name(3061)), (Some("ER_HASHCHK"), None));
            let null = if series == Series::V11_8 {
                "ER_INDEX_CANNOT_HAVE_NULL"
            } else {
                "ER_SPATIAL_CANT_HAVE_NULL"
            };
            assert_eq!(name(1252), Some(null));
            assert_eq!(name(4208).is_some(), series == Series::V11_8);
        }
    }

    #[test]
    fn every_line_is_read() {
        let all: std::collections::BTreeSet<u32> =
            Series::ALL.iter().flat_map(|series| known(*series)).map(|error| error.number).collect();
        let numbers: std::collections::BTreeSet<&str> =
            ERRORS.lines().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(all.len(), numbers.len());
    }
}
