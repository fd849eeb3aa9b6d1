//! Options and commands as version 0.1 spelt them. They are still read, for one release, and shown nowhere.

use std::ffi::OsString;

/// How an option was spelt.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Was {
    /// Without a value, what has one now.
    Flag(&'static str),
    /// By another name.
    Name(&'static str),
    /// By another name, with a value of these.
    OneOf(&'static str, &'static [&'static str]),
    /// By another name or the same one, with a number that had no unit.
    Number(&'static str, &'static str),
}

/// An old spelling: the command, how the option was spelt, and the option now.
pub(crate) type OldSpelling = (&'static str, Was, &'static str);

/// Formats of version 0.1, which `--output` chose.
const FORMATS: &[&str] = &["text", "json"];

/// All of them.
pub(crate) const SPELLINGS: &[OldSpelling] = &[
    ("status", Was::Flag("--json"), "--format=json"),
    ("top", Was::Flag("--json"), "--format=json"),
    ("weigh", Was::Flag("--json"), "--format=json"),
    ("doctor", Was::OneOf("--output", FORMATS), "--format"),
    ("install", Was::OneOf("--output", FORMATS), "--format"),
    ("uninstall", Was::OneOf("--output", FORMATS), "--format"),
    ("probe", Was::OneOf("--output", FORMATS), "--format"),
    ("report", Was::OneOf("--output", &["text", "html", "json"]), "--format"),
    ("report", Was::Name("--out"), "--output"),
    ("slowlog", Was::Name("--file"), "--output"),
    ("lab bench", Was::Name("--json"), "--output"),
    ("govern", Was::Name("--json"), "--output"),
    ("lab price", Was::Name("--out"), "--output"),
    ("lab run", Was::Name("--out"), "--output"),
    ("demo", Was::Name("--threads"), "--connections"),
    ("lab bench", Was::Name("--threads"), "--connections"),
    ("lab replay", Was::Name("--sessions"), "--connections"),
    ("demo", Was::Number("--secs", "s"), "--for"),
    ("lab bench", Was::Number("--secs", "s"), "--slice"),
    ("price", Was::Number("--secs", "s"), "--for"),
    ("lab price", Was::Number("--secs", "s"), "--for"),
    ("lab price", Was::Number("--minutes", "m"), "--for"),
    ("weigh", Was::Number("--secs", "s"), "--for"),
    ("weigh", Was::Number("--window", "ms"), "--window"),
    ("lab replay", Was::Number("--seconds", "s"), "--for"),
    ("top", Was::Number("--interval", "s"), "--interval"),
    ("govern", Was::Number("--every", "s"), "--interval"),
    ("export", Was::Number("--otlp-interval", "s"), "--otlp-interval"),
    ("install", Was::Number("--limit", "s"), "--limit"),
    ("uninstall", Was::Number("--limit", "s"), "--limit"),
];

/// What `tare price` measured, which is `tare lab price` now: how its option was spelt, and what stands
/// beside its value instead.
const MEASURED: [(&str, Option<&str>); 2] = [("--measure", None), ("--check", Some("--check"))];

/// Returns the program's arguments, without its own name, with commands as they are called now.
pub(crate) fn command(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let at = usize::from(arguments.first().is_some_and(|it| it == "help"));
    match arguments.get(at).and_then(|it| it.to_str()) {
        Some("bench") => arguments.insert(at, "lab".into()),
        Some("price") => {
            let of = |it: &OsString| {
                let text = it.to_str().unwrap_or_default();
                let (name, value) =
                    text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
                let found = MEASURED.iter().find(|(option, _)| *option == name)?;
                Some((found.1, value.map(OsString::from)))
            };
            let found = arguments.iter().enumerate().find_map(|(place, it)| Some((place, of(it)?)));
            if let Some((place, (beside, value))) = found {
                arguments.remove(place);
                let whose = value.or_else(|| (place < arguments.len()).then(|| arguments.remove(place)));
                let new = whose.into_iter().chain(beside.map(OsString::from));
                arguments.splice(at + 1..at + 1, new);
                arguments.insert(at, "lab".into());
            }
        }
        _ => {}
    }
    arguments
}

/// Returns a command's arguments with options as they are spelt now. `command` is the command's name without
/// the program's, such as `lab run`.
pub(crate) fn now(command: &str, arguments: Vec<OsString>) -> Vec<OsString> {
    let mut arguments = arguments.into_iter().peekable();
    let mut all = vec![];
    while let Some(argument) = arguments.next() {
        if argument == "--" {
            all.push(argument);
            all.extend(arguments);
            break;
        }
        let text = argument.to_str().unwrap_or_default();
        let (name, joined) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        let is_joined = joined.is_some();
        let next = arguments.peek().and_then(|it| it.to_str()).filter(|it| !it.starts_with('-'));
        let value = joined.or_else(|| next.map(str::to_owned));
        let spelling = SPELLINGS.iter().find(|it| it.0 == command && it.1.is(name, value.as_deref()));
        match (spelling, value) {
            (None, _) => all.push(argument),
            (Some((_, Was::Flag(_), now)), _) => all.push(now.into()),
            (Some((_, was, now)), Some(value)) => {
                all.push(format!("{now}={}", was.value(&value)).into());
                if !is_joined {
                    arguments.next();
                }
            }
            // Its value is missing or begins with a dash, which is judged as everywhere.
            (Some((_, _, now)), None) => all.push(now.into()),
        }
    }
    all
}

impl Was {
    /// Returns whether an option with this value is spelt so.
    fn is(self, option: &str, value: Option<&str>) -> bool {
        match self {
            Was::Flag(name) | Was::Name(name) => option == name,
            Was::OneOf(name, values) => option == name && value.is_some_and(|it| values.contains(&it)),
            Was::Number(name, _) => option == name,
        }
    }

    /// Returns the value as it is spelt now.
    fn value(self, value: &str) -> String {
        match self {
            Was::Number(_, unit) if value.parse::<f64>().is_ok_and(f64::is_finite) => {
                format!("{value}{unit}")
            }
            _ => value.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelt(command: &str, line: &str) -> String {
        let words = line.split(' ').map(OsString::from).collect();
        let now: Vec<String> =
            now(command, words).iter().map(|it| it.to_string_lossy().into_owned()).collect();
        now.join(" ")
    }

    #[test]
    fn commands_that_are_studies_of_the_lab_are_called_so() {
        for (line, expected) in [
            ("bench --rounds 6", "lab bench --rounds 6"),
            ("help bench", "help lab bench"),
            ("lab bench", "lab bench"),
            ("status bench", "status bench"),
            ("price --measure tare -o x", "lab price tare -o x"),
            ("price -o x --measure=tare --for 5m", "lab price tare -o x --for 5m"),
            ("price --check mysql --prices x", "lab price mysql --check --prices x"),
            ("price --check=mysql", "lab price mysql --check"),
            ("price --measure", "lab price"),
            ("price --for 10s", "price --for 10s"),
        ] {
            let words = line.split(' ').map(OsString::from).collect();
            let now: Vec<String> =
                super::command(words).iter().map(|it| it.to_string_lossy().into_owned()).collect();
            assert_eq!(now.join(" "), expected);
        }
    }

    #[test]
    fn old_spellings_are_read_and_others_left_alone() {
        for (command, line, expected) in [
            ("status", "--json --datadir x", "--format=json --datadir x"),
            ("doctor", "--output json --pid 1", "--format=json --pid 1"),
            ("doctor", "--output json.txt", "--output json.txt"),
            ("doctor", "--output=text", "--format=text"),
            ("report", "a b --out x.html", "a b --output=x.html"),
            ("lab bench", "--json slices.jsonl", "--output=slices.jsonl"),
            ("lab price", "--minutes 0.5", "--for=0.5m"),
            ("top", "--interval 0.5 --once", "--interval=0.5s --once"),
            ("top", "--interval 2s", "--interval=2s"),
            ("top", "--interval --once", "--interval --once"),
            ("top", "--interval -1", "--interval -1"),
            ("weigh", "--window=15", "--window=15ms"),
            ("demo", "--secs", "--for"),
            ("run", "-- --json --secs 1", "-- --json --secs 1"),
            ("run", "--json", "--json"),
        ] {
            assert_eq!(spelt(command, line), expected, "{command}");
        }
    }
}
