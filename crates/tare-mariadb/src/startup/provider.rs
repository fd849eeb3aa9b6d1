//! Where the start-up hands over to the provider.

use std::ffi::c_void;

use super::StandBack;
use crate::abi::Series;
use crate::options::Options;

/// Starts the provider and returns its function table in the layout of `series`.
///
/// Runs once, on the server's main thread, before any other thread exists.
///
/// # Errors
/// When the provider cannot start; the server then runs without it.
pub(crate) fn start(series: Series, _options: &Options) -> Result<*const c_void, StandBack> {
    Err(StandBack::NoInterface(series))
}
