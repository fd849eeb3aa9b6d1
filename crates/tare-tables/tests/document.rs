//! `docs/reference/tables.md` is what the declarations say.

use std::fs;
use std::path::Path;

use tare_tables::markdown;

/// With `TARE_UPDATE_DOCS` set, brings the file up to date instead.
#[test]
fn the_document_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/tables.md");
    let wanted = markdown();
    if std::env::var_os("TARE_UPDATE_DOCS").is_some() {
        fs::write(&path, &wanted).expect("docs/reference/tables.md can be written");
    }
    let held = fs::read_to_string(&path).unwrap_or_default();
    assert!(held == wanted, "stale; run: TARE_UPDATE_DOCS=1 cargo test -p tare-tables --test document");
}
