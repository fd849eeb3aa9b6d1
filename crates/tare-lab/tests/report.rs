//! A report of generated results: its files, and its page in a browser.

mod sample;

use std::fs;
use std::path::{Path, PathBuf};

use tare_lab::report;

const SEED: u64 = 7;

/// Writes a sample study and its report into a folder that stays, to be looked at.
fn made(name: &str) -> report::Paths {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder); // of an earlier run
    fs::create_dir_all(&folder).expect("a folder");
    sample::write(&folder, SEED);
    report::write(&folder).expect("a report")
}

fn read(path: &PathBuf) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn look() {
    let paths = made("look");
    println!("{} {}", paths.html.display(), read(&paths.html).len());
}
