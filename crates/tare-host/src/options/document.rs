//! The options as a document: `docs/reference/options.md` is generated from their definitions.

use std::fmt::Write;

use super::{OPTIONS, OptionDef, OptionType, value as written};
use crate::socket;

const HEAD: &str = "\
# Options

For administrators: every option of the group `[tare]` with its values and its default, and how to change it at run time.

```ini
# /etc/mysql/mariadb.conf.d/90-tare.cnf
[tare]
memory-max = 256M
budget = 1%
level = stage/%=counts
```

Put the group into an option file of the server; the server itself ignores it. In names `_` and `-` are the same. The environment
variable `TARE_OPTIONS` (`key=value;key=value`) is read after the files and wins.

**If an option is wrong, tare disables itself:** the server starts without tare, and one line of the error log names the file and
the line. Put `loose-` before the name of an option that an older version may not know; it is then ignored.

tare also reads the sizes that are set for the server's own Performance Schema (`performance_schema_*_size` and the like). An option
of the same name without `performance_schema_` in `[tare]` wins. With -1 tare chooses the size. A size out of bounds becomes the
nearest that is allowed.

Generated from `crates/tare-host/src/options`; do not edit. To bring it up to date:
`TARE_UPDATE_DOCS=1 cargo test -p tare-host --test options`.

";

/// Returns the whole of `docs/reference/options.md`.
pub fn markdown() -> String {
    let mut text = String::from(HEAD);
    for group in PageSection::ALL {
        let _ = writeln!(text, "\n## {}\n\n{TABLE}", group.title());
        for OptionDef { name, kind, default, doc } in OPTIONS.iter().filter(|it| PageSection::of(it) == group)
        {
            let default = if default.is_empty() { unset(kind) } else { &format!("`{default}`") };
            let doc = doc.replace('|', "\\|");
            let _ =
                writeln!(text, "| `{name}` | {} | {default} | {} | {doc} |", value(kind), at_run_time(name));
        }
    }
    text
}

const TABLE: &str = "| option | value | default | at run time | what it does |\n|---|---|---|---|---|";

/// A section of the page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PageSection {
    /// What is recorded, and how much of it.
    Recording,
    /// What recording may cost.
    Budget,
    /// What is shown, and where.
    Tables,
    /// How much room there is.
    Sizes,
}

impl PageSection {
    const ALL: [Self; 4] = [Self::Recording, Self::Budget, Self::Tables, Self::Sizes];

    fn title(self) -> &'static str {
        match self {
            Self::Recording => "What is recorded",
            Self::Budget => "What it may cost",
            Self::Tables => "What is shown",
            Self::Sizes => "Sizes",
        }
    }

    fn of(option: &OptionDef) -> Self {
        match option.name {
            "socket" | "tables" | "shape" | "source" | "server-variables" => Self::Tables,
            "ash-memory" => Self::Recording,
            name if name == "prices" || name.starts_with("budget") => Self::Budget,
            _ => match option.kind {
                OptionType::Size(..) | OptionType::Count(..) | OptionType::Seconds(..) => Self::Sizes,
                _ => Self::Recording,
            },
        }
    }
}

/// Returns what holds while an option without a default is not set.
fn unset(kind: &OptionType) -> &'static str {
    match kind {
        OptionType::Count(..) => "as memory allows",
        OptionType::Socket(_) => "`tare.sock` in the data directory",
        OptionType::File(_) => "those that ship",
        OptionType::Instrument(_) => "all on",
        OptionType::Level(_) => "`sampled`",
        OptionType::Consumer(_) => "all on but `events_statements_cpu`",
        _ => "none",
    }
}

/// Returns how an option is changed while the server runs.
fn at_run_time(name: &str) -> &'static str {
    match name {
        "level" => "`tare_status`, `tare_levels`",
        "sample" | "slow-after" | "ash-interval" | "budget" | "budget-p95" | "budget-strict" => {
            "`tare_status`"
        }
        "instrument" => "`setup_instruments`",
        "consumer" => "`setup_consumers`",
        _ => "no",
    }
}

/// Returns the values an option allows, as Markdown.
fn value(kind: &OptionType) -> String {
    let numbers = |what: &str, least: &dyn std::fmt::Display, most: &dyn std::fmt::Display| {
        format!("{what}, {least} to {most}")
    };
    match kind {
        OptionType::Switch(_) => "`ON`, `OFF`".into(),
        OptionType::Size(least, most, _) => numbers("bytes", &bytes(*least), &bytes(*most)),
        OptionType::Count(least, most, _) => numbers("a number", least, most),
        OptionType::Seconds(least, most, _) => numbers("seconds", least, most),
        OptionType::Duration(least, most, _) => {
            format!("a duration, `{}` to `{}`", written::show_duration(*least), written::show_duration(*most))
        }
        OptionType::Interval(least, most, _) => format!(
            "`OFF`, or a duration, `{}` to `{}`",
            written::show_duration(*least),
            written::show_duration(*most)
        ),
        OptionType::Sample(_) => "a rate such as `1000/s`, or one in so many such as `1/64`".into(),
        OptionType::Shape(_) => "`strict`, `extended`".into(),
        OptionType::Budget(_) => "`OFF`, or a share such as `1%`".into(),
        OptionType::Socket(_) => format!("an absolute path of at most {} bytes", socket::MAX_SOCKET_PATH),
        OptionType::File(_) => "an absolute path".into(),
        OptionType::Instrument(_) => "`PATTERN=ON`, `=OFF` or `=COUNTED`; repeated as needed".into(),
        OptionType::Level(_) => "`LEVEL` or `PATTERN=LEVEL`; repeated as needed".into(),
        OptionType::Consumer(_) => "`PATTERN=ON` or `=OFF`; repeated as needed".into(),
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
