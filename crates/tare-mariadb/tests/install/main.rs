//! Tables in a data directory: their bytes, what a server makes of them, and whose files are whose.

// Helpers of tests end a test as tests do.
#![allow(clippy::unwrap_used)]

mod bytes;
mod folder;
mod live;
mod reference;
mod sample;

use tare_testkit::host::Host;
use tare_testkit::server::Settings;
use tare_testkit::subject::Provider;

/// A server with temporary files of its own: at its start a server clears those of all others in the same folder.
/// (The path is relative to the data directory.)
fn settings(provider: Provider) -> Settings {
    Settings::new(provider).option("--tmpdir=.")
}

/// Upstream's bare archives carry no plugins: a server of theirs cannot serve an installed table.
fn without_federated() -> bool {
    let without = !Host::find().unwrap().has_federated();
    if without {
        println!("skipped: the server has no FEDERATED plugin");
    }
    without
}
