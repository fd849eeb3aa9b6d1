//! Handicaps of known size: their kinds, the functions inside the server that make them, and what they say
//! they burned.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;

/// How a handicap costs: what it is called in the table, and what it does.
pub(crate) const KINDS: [(&str, &str); 5] = [
    ("constant", "in every transaction"),
    ("bursty, by turns", "five times as much in one of five turns, nothing in the others"),
    ("bursty, by the second", "all that a second of load owes, at its end, by a thread of the server"),
    ("delayed", "what a turn owes, a millisecond after it, by a thread of the server"),
    ("drifting", "from nothing to double and back in 40 seconds"),
];
/// Sizes, as shares of what a transaction takes.
pub(crate) const SIZES: [f64; 3] = [0.01, 0.03, 0.06];

/// A handicap among the others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handicap {
    /// Place of its kind in [`KINDS`].
    pub(crate) kind: usize,
    pub(crate) size: f64,
}

impl Handicap {
    /// Every kind in every size.
    pub(crate) fn all() -> impl Iterator<Item = Handicap> {
        (0..KINDS.len()).flat_map(|kind| SIZES.map(|size| Handicap { kind, size }))
    }

    /// The setting's name.
    pub(crate) fn name(self) -> String {
        format!("{} {}%", KINDS[self.kind].0, self.size * 100.0)
    }
}

/// The functions, built, where a server may read them.
pub(crate) struct Plugin {
    folder: tempfile::TempDir,
}

impl Plugin {
    pub(crate) fn build() -> Result<Plugin> {
        let folder = tempfile::Builder::new().prefix("tare-handicap-").tempdir()?;
        // A server may run as somebody else, who reads the library and writes the log.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777))?;
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/calibrate/handicap.c");
        let library = folder.path().join("handicap.so");
        let mut compiler = Command::new("cc");
        compiler.args(["-O2", "-shared", "-fPIC", "-pthread", "-o"]).arg(&library).arg(source);
        if !compiler.status()?.success() {
            return Err("cc did not build the handicap".into());
        }
        fs::set_permissions(&library, fs::Permissions::from_mode(0o755))?;
        fs::write(
            folder.path().join("init.sql"),
            "CREATE DATABASE IF NOT EXISTS lab_handicap;\n\
             CREATE FUNCTION IF NOT EXISTS lab_handicap RETURNS INTEGER SONAME 'handicap.so';\n\
             CREATE FUNCTION IF NOT EXISTS lab_pay RETURNS INTEGER SONAME 'handicap.so';\n\
             CREATE DEFINER = root@localhost PROCEDURE IF NOT EXISTS lab_handicap.pay() NO SQL DO lab_pay();\n",
        )?;
        Ok(Plugin { folder })
    }

    /// Where they are.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// Options of a server that has the functions.
pub(crate) fn options(plugin: &Path) -> [String; 3] {
    let folder = plugin.display();
    [
        "--performance-schema=OFF".into(),
        format!("--plugin-dir={folder}"),
        format!("--init-file={folder}/init.sql"),
    ]
}

/// Where they say what was burned.
pub(crate) fn log(plugin: &Path) -> PathBuf {
    plugin.join("log")
}

/// What was burned, by block and place.
pub(crate) type Blocks = BTreeMap<u32, BTreeMap<usize, Burned>>;

/// What a place burned in a block.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Burned {
    pub(crate) payments: f64,
    pub(crate) seconds: f64,
}

impl Burned {
    /// The line of a log: the place, and what it burned.
    pub(crate) fn read(line: &str) -> Option<(usize, Burned)> {
        let mut numbers = line.split_whitespace();
        let place = numbers.next()?.parse().ok()?;
        let payments = numbers.next()?.parse().ok()?;
        let nanoseconds: f64 = numbers.next()?.parse().ok()?;
        Some((place, Burned { payments, seconds: nanoseconds / 1e9 }))
    }
}

impl std::ops::AddAssign for Burned {
    fn add_assign(&mut self, more: Burned) {
        self.payments += more.payments;
        self.seconds += more.seconds;
    }
}
