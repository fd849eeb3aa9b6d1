//! `docs/reference/tables.md` and the pages beside it are what the declarations say.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use tare_tables::{Shape, pages};

/// With `TARE_UPDATE_DOCS` set, brings the files up to date instead.
#[test]
fn the_documents_are_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    let pages = pages();
    if std::env::var_os("TARE_UPDATE_DOCS").is_some() {
        fs::create_dir_all(folder.join("tables")).expect("docs/reference/tables can be made");
        for page in &pages {
            fs::write(folder.join(&page.file), &page.text).expect("a page of docs/reference can be written");
        }
    }
    for page in &pages {
        let held = fs::read_to_string(folder.join(&page.file)).unwrap_or_default();
        let hint = "run: TARE_UPDATE_DOCS=1 cargo test -p tare-tables --test document";
        assert!(held == page.text, "docs/reference/{} is stale; {hint}", page.file);
    }
    let files = fs::read_dir(folder.join("tables")).expect("docs/reference/tables");
    let files: BTreeSet<String> =
        files.map(|file| format!("tables/{}", file.expect("a file").file_name().display())).collect();
    let wanted: BTreeSet<String> = pages.iter().skip(1).map(|page| page.file.clone()).collect();
    assert_eq!(files, wanted, "pages of groups");
}

/// Each table has one heading in the pages, and a link in the index leads to it.
#[test]
fn every_table_is_on_one_page_and_in_the_index() {
    let pages = pages();
    for table in Shape::Extended.tables() {
        let heading = format!("\n## {}\n", table.name());
        let on: Vec<&str> =
            pages.iter().filter(|page| page.text.contains(&heading)).map(|page| page.file.as_str()).collect();
        assert_eq!(on.len(), 1, "{} is on {on:?}", table.name());
        let link = format!("[`{0}`]({1}#{0})", table.name(), on[0]);
        assert!(pages[0].text.contains(&link), "{link} is not in the index");
    }
}
