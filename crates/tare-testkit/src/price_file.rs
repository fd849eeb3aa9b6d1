//! Price files for a governor: what it decides follows from which events there are, however slow the machine
//! is.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;

use tempfile::NamedTempFile;

/// The kinds of events that have prices.
pub const KINDS: [&str; 16] = [
    "query",
    "statement",
    "program",
    "transaction",
    "error",
    "table-io",
    "file-io",
    "metadata-lock",
    "table-lock",
    "memory",
    "stage",
    "socket",
    "idle",
    "condition",
    "rwlock",
    "mutex",
];

/// Returns a file by which an event of these kinds costs so many nanoseconds, and any other nothing.
///
/// # Panics
/// When the file cannot be written.
pub fn prices_of(dear: &BTreeMap<&str, u64>) -> NamedTempFile {
    let mut text = "[origin]\nprovider = \"tare\"\nserver = \"made up\"\nmachine = \"any\"\nmeasured = true\nhow = \"by hand\"\n"
        .to_owned();
    for kind in KINDS {
        let ns = dear.get(kind).copied().unwrap_or(0);
        writeln!(text, "[price.{kind}]\noff = {{ ns = 0, low = 0, high = 0 }}").expect("a price file");
        writeln!(text, "exact = {{ ns = {ns}, low = {ns}, high = {ns} }}").expect("a price file");
    }
    readable(&text)
}

/// Returns a file of this text that the server's account, which may not be this one, can read.
///
/// # Panics
/// When the file cannot be written.
pub fn readable(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("a file");
    file.as_file().set_permissions(PermissionsExt::from_mode(0o644)).expect("a file");
    file
}
