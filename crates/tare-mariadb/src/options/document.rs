//! The options as a document: `docs/options.md` is generated from their definitions.

use std::fmt::Write;

use super::{Kind, OPTIONS, OptionDef, value as written};
use crate::endpoint;

const HEAD: &str = "\
# Options

Generated from the definitions in `crates/tare-mariadb/src/options`; do not edit. To bring it up to date:
`TARE_UPDATE_DOCS=1 cargo test -p tare-mariadb --test options`.

They stand in the group `[tare]` of the server's own option files, such as `/etc/mysql/mariadb.conf.d/90-tare.cnf`,
which the server itself does not read. `_` may stand for `-`. Further ones may come in the environment variable
`TARE_OPTIONS` (`key=value;key=value`), which is read after the files and wins.

**With an option that is wrong tare stands back:** the server starts, without tare, and one line of the error log names
the file and the line. `loose-` before a name has the option left out instead, if it is unknown.

The sizes the server is told for its own Performance Schema (`performance_schema_*_size` and the like) are read, too.
The option here is called the same without `performance_schema_`, and wins.

";

/// Returns the whole of `docs/options.md`.
pub fn markdown() -> String {
    let mut text = String::from(HEAD);
    text.push_str("| option | value | default | what it does |\n|---|---|---|---|\n");
    for OptionDef { name, kind, default, doc } in OPTIONS {
        let default = if default.is_empty() { "" } else { &format!("`{default}`") };
        let doc = doc.replace('|', "\\|");
        let _ = writeln!(text, "| `{name}` | {} | {default} | {doc} |", value(kind));
    }
    text
}

/// Returns the values an option allows, as Markdown.
fn value(kind: &Kind) -> String {
    let numbers = |what: &str, least: &dyn std::fmt::Display, most: &dyn std::fmt::Display| {
        format!("{what}, {least} to {most}")
    };
    match kind {
        Kind::Switch(_) => "`ON`, `OFF`".into(),
        Kind::Size(least, most, _) => numbers("bytes", &bytes(*least), &bytes(*most)),
        Kind::Count(least, most, _) => numbers("a number", least, most),
        Kind::Seconds(least, most, _) => numbers("seconds", least, most),
        Kind::Duration(least, most, _) => {
            format!("a duration, `{}` to `{}`", written::show_duration(*least), written::show_duration(*most))
        }
        Kind::Sample(_) => "a rate such as `1000/s`, or one in so many such as `1/64`".into(),
        Kind::Shape(_) => "`strict`, `extended`".into(),
        Kind::Budget(_) => "`OFF`, or a share such as `1%`".into(),
        Kind::Socket(_) => format!("an absolute path of at most {} bytes", endpoint::MAX_SOCKET_PATH),
        Kind::File(_) => "an absolute path".into(),
        Kind::Instrument(_) => "`PATTERN=ON`, `=OFF` or `=COUNTED`; repeated as needed".into(),
        Kind::Level(_) => "`LEVEL` or `PATTERN=LEVEL`; repeated as needed".into(),
        Kind::Consumer(_) => "`PATTERN=ON` or `=OFF`; repeated as needed".into(),
    }
}

/// Formats a size with the largest fitting unit.
fn bytes(size: u64) -> String {
    let units = [(30, 'G'), (20, 'M'), (10, 'K')];
    let fits = |(shift, _): &(u32, char)| size != 0 && size.is_multiple_of(1 << shift);
    units
        .into_iter()
        .find(fits)
        .map_or_else(|| size.to_string(), |(shift, unit)| format!("{}{unit}", size >> shift))
}
