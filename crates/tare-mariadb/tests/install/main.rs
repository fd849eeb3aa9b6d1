//! The tables' files: their bytes, what a server makes of them, and what is left of them.

// Helpers of tests end a test as tests do.
#![allow(clippy::unwrap_used)]

mod bytes;
mod folder;
mod live;
mod reference;
mod sample;

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tare_mariadb::install::TableFile;
use tare_testkit::host::HostProgram;
use tare_testkit::server::StartSettings;
use tare_testkit::subject::TestProvider;

/// A server with temporary files of its own: at its start a server clears those of all others in the same
/// folder. (The path is relative to the data directory.)
fn settings(provider: TestProvider) -> StartSettings {
    StartSettings::new(provider).option("--tmpdir=.")
}

/// Puts files into a data directory, as earlier versions did, for its owner to read and remove.
fn leave(datadir: &Path, files: &[TableFile]) {
    let folder = datadir.join("performance_schema");
    let owner = std::fs::metadata(&folder).unwrap();
    for file in files {
        let path = folder.join(file.name());
        std::fs::write(&path, &file.content).unwrap();
        std::os::unix::fs::chown(&path, Some(owner.uid()), Some(owner.gid())).unwrap();
    }
}

/// Upstream's bare archives carry no plugins: a server of theirs cannot serve an installed table.
fn without_federated() -> bool {
    let without = !HostProgram::find().unwrap().has_federated();
    if without {
        println!("skipped: the server has no FEDERATED plugin");
    }
    without
}
