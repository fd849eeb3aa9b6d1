//! Texts that the running server keeps in variables that it exports: its data directory and its version.
#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::symbol;

/// Returns the data directory of the running server, absolute; `None` before it has read its options and in
/// other programs.
pub fn data_directory() -> Option<PathBuf> {
    let path = Path::new(OsStr::from_bytes(text(c"mysql_real_data_home")?));
    path.is_absolute().then(|| path.to_owned())
}

/// Returns the version of the running server in its own words; empty before it has read its options.
pub fn server_version() -> Option<String> {
    Some(String::from_utf8_lossy(text(c"server_version")?).into_owned())
}

/// Returns the text of a variable of the server's.
fn text(name: &CStr) -> Option<&'static [u8]> {
    let text = symbol(name)?;
    // SAFETY: the server's variables of these names are character arrays with a zero at the end, filled once,
    // before any thread but the first exists.
    Some(unsafe { CStr::from_ptr(text.cast::<c_char>()) }.to_bytes())
}
