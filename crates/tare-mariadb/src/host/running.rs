//! The running server: whether it is up, and where its data is, by variables that it exports.
#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tare_host::process::symbol;

/// Returns whether the server has finished its start-up and accepts connections.
pub fn server_is_up() -> bool {
    let Some(flag) = symbol(c"mysqld_server_started") else { return false };
    // SAFETY: the server's variable of this name is an int, written once, from 0 to 1.
    unsafe { flag.cast::<c_int>().read_volatile() != 0 }
}

/// Returns the data directory of the running server, absolute; `None` before it has read its options and in
/// other programs.
pub fn data_directory() -> Option<PathBuf> {
    let text = symbol(c"mysql_real_data_home")?;
    // SAFETY: the server's variable of this name is a character array with a zero at its end, filled once,
    // before any thread but the first exists.
    let text = unsafe { CStr::from_ptr(text.cast::<c_char>()) }.to_bytes();
    let path = Path::new(OsStr::from_bytes(text));
    path.is_absolute().then(|| path.to_owned())
}
