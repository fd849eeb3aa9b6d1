//! The server's own settings that decide whether tare may run, from its option files and command line.

use std::ffi::OsString;
use std::path::PathBuf;

use tare_host::options::{
    BUILT_IN_PREFIX, BuiltInSettings, GivenOption, OPTIONS, OptionFiles, OptionOrigin, OptionType, Options,
    parse_size,
};

/// The settings that tare must know before the server itself has read them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerSettings {
    /// The option that makes this run print something and end.
    pub ends_early: Option<&'static str>,
    /// Whether the server reads its statements from standard input, as under `mariadb-install-db`.
    pub bootstrap: bool,
    /// Where `performance_schema` was switched on; `None` if it is off.
    pub performance_schema: Option<String>,
    /// The data directory, if given. A running server's own variable is the better source.
    pub datadir: Option<PathBuf>,
    /// Whether the error log is a file, which the server opens later.
    pub logs_to_file: bool,
    /// What holds for tare, too.
    pub built_in: BuiltInSettings,
}

/// The server's one-letter options that take a value; the text after such a letter is its value.
const LETTERS_WITH_VALUE: &str = "bCLlmOPrTtuW#";

impl ServerSettings {
    /// Reads the settings of the files, then of the command line; the last occurrence of an option counts.
    pub fn resolve(arguments: &[OsString], files: &OptionFiles, groups: &[String]) -> ServerSettings {
        let mut settings = ServerSettings::default();
        let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
        for entry in files.in_groups(&groups) {
            settings.apply(&entry.key, entry.value.as_deref(), &entry.origin);
        }
        settings.apply_command_line(arguments);
        settings
    }

    fn apply_command_line(&mut self, arguments: &[OsString]) {
        let mut rest = arguments.iter().skip(1).map(|argument| argument.to_string_lossy()).peekable();
        while let Some(argument) = rest.next() {
            if argument == "--" {
                break;
            }
            if let Some(option) = argument.strip_prefix("--") {
                let (key, value) = match option.split_once('=') {
                    Some((key, value)) => (key, Some(value.to_owned())),
                    // Only an option that requires a value takes the next argument as its value.
                    None if named(option, "datadir", 4) || is_of_value(&plain(option)) => {
                        (option, rest.next().map(|next| next.into_owned()))
                    }
                    None => (option, None),
                };
                self.apply(key, value.as_deref(), &OptionOrigin::CommandLine);
            } else if let Some(letters) = argument.strip_prefix('-')
                && let Some(value_wanted) = self.apply_letters(letters)
            {
                let value = if value_wanted.is_empty() {
                    rest.next().map(|v| v.into_owned())
                } else {
                    Some(value_wanted)
                };
                self.datadir = value.map(PathBuf::from);
            }
        }
    }

    /// Reads a cluster of one-letter options. Returns what follows `h`, the data directory.
    fn apply_letters(&mut self, letters: &str) -> Option<String> {
        for (position, letter) in letters.char_indices() {
            match letter {
                '?' | 'I' => self.ends_early = Some("--help"),
                'V' => self.ends_early = Some("--version"),
                'h' => return Some(letters[position + 1..].to_owned()),
                letter if LETTERS_WITH_VALUE.contains(letter) => return None,
                _ => {}
            }
        }
        None
    }

    fn apply(&mut self, key: &str, value: Option<&str>, origin: &OptionOrigin) {
        let key = &*plain(key);
        let (key, on) = match key.strip_prefix("skip-").or(key.strip_prefix("disable-")) {
            Some(key) => (key, false),
            None => (key.strip_prefix("enable-").unwrap_or(key), true),
        };
        let flag = on && value.is_none_or(means_on);
        if named(key, "help", 2) {
            self.ends_early = flag.then_some("--help").or(self.ends_early);
        } else if key == "version" && value.is_none() {
            self.ends_early = Some("--version");
        } else if key == "print-defaults" {
            self.ends_early = Some("--print-defaults");
        } else if named(key, "wsrep-recover", 11) {
            self.ends_early = flag.then_some("--wsrep-recover");
        } else if named(key, "bootstrap", 4) {
            self.bootstrap = flag;
        } else if key == "performance-schema" {
            self.performance_schema = flag.then(|| origin.to_string());
        } else if named(key, "datadir", 4) {
            self.datadir = value.map(PathBuf::from);
        } else if named(key, "log-error", 5) {
            self.logs_to_file = on;
        } else if key == "console" {
            self.logs_to_file = false;
        } else if let Some(name) = size(key) {
            // -1 means as many as are needed.
            match value {
                Some(text) if text.starts_with('-') => self.built_in.sizes.push((name, None)),
                Some(text) => self.built_in.sizes.extend(parse_size(text).map(|size| (name, Some(size)))),
                None => {}
            }
        } else if let Some((name, text)) = rule(key, value, flag) {
            let [group, key] = [Options::GROUP, name].map(str::to_owned);
            self.built_in.rules.push(GivenOption { group, key, value: Some(text), origin: origin.clone() });
        }
    }
}

/// Converts an option of the built-in into tare's option and its value.
fn rule(key: &str, value: Option<&str>, flag: bool) -> Option<(&'static str, String)> {
    let key = key.strip_prefix(BUILT_IN_PREFIX)?;
    match key.strip_prefix("consumer-") {
        Some(consumer) => {
            Some(("consumer", format!("{}={}", consumer.replace('-', "_"), if flag { "ON" } else { "OFF" })))
        }
        None => value.filter(|_| is_instrument(key)).map(|rule| ("instrument", rule.to_owned())),
    }
}

fn is_instrument(key: &str) -> bool {
    named(key, "instrument", 2)
}

/// Returns whether an option of the built-in requires a value.
fn is_of_value(key: &str) -> bool {
    size(key).is_some() || key.strip_prefix(BUILT_IN_PREFIX).is_some_and(is_instrument)
}

/// Returns an option's name with hyphens and without a `loose-` prefix.
fn plain(key: &str) -> String {
    let key = key.replace('_', "-");
    key.strip_prefix("loose-").map(str::to_owned).unwrap_or(key)
}

/// Returns the size that an option of the server sets. The server also accepts the beginning of a name.
fn size(key: &str) -> Option<&'static str> {
    let key = key.strip_prefix(BUILT_IN_PREFIX)?;
    let names = || OPTIONS.iter().filter(|def| matches!(def.kind, OptionType::Count(..))).map(|def| def.name);
    let mut begun = names().filter(|name| name.starts_with(key));
    names().find(|name| *name == key).or_else(|| begun.next().filter(|_| begun.next().is_none()))
}

/// Returns whether a value means on. The server knows these words; any other value means off, with a warning.
fn means_on(value: &str) -> bool {
    ["on", "true", "1"].iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// Returns whether `key` abbreviates `name`. The server accepts the beginning of a name if no other option
/// begins with it: at least `shortest` characters.
fn named(key: &str, name: &str, shortest: usize) -> bool {
    key.len() >= shortest && name.starts_with(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(arguments: &[&str]) -> ServerSettings {
        let arguments: Vec<OsString> =
            std::iter::once(&"mariadbd").chain(arguments).map(OsString::from).collect();
        ServerSettings::resolve(&arguments, &OptionFiles::default(), &[])
    }

    #[test]
    fn runs_that_do_not_serve_are_recognised() {
        for (arguments, option) in [
            (&["--help"][..], Some("--help")),
            (&["--verbose", "--help"], Some("--help")),
            (&["--hel"], Some("--help")),
            (&["-?"], Some("--help")),
            (&["-v?"], Some("--help")),
            (&["-V"], Some("--version")),
            (&["--version"], Some("--version")),
            (&["--version=10.11.99-fork"], None),
            (&["--version-comment=x"], None),
            (&["--print-defaults"], Some("--print-defaults")),
            (&["--wsrep_recover"], Some("--wsrep-recover")),
            (&["-uV"], None),
            (&["-h/data/V?"], None),
            (&["--user=mysql", "--verbose"], None),
            (&["--help=0"], None),
        ] {
            assert_eq!(resolve(arguments).ends_early, option, "{arguments:?}");
        }
    }

    #[test]
    fn flags_follow_the_last_word() {
        for (arguments, on) in [
            (&["--performance-schema"][..], true),
            (&["--performance_schema=ON"], true),
            (&["--performance-schema=1"], true),
            (&["--loose-performance-schema=true"], true),
            (&["--performance-schema=OFF"], false),
            (&["--performance-schema=yes"], false),
            (&["--performance-schema", "--performance-schema=0"], false),
            (&["--skip-performance-schema"], false),
            (&["--disable-performance-schema"], false),
            (&["--enable-performance-schema"], true),
            (&["--performance-schema-digests-size=10"], false),
            (&["--", "--performance-schema"], false),
            (&[], false),
        ] {
            assert_eq!(resolve(arguments).performance_schema.is_some(), on, "{arguments:?}");
        }
        assert!(resolve(&["--bootstrap"]).bootstrap);
        assert!(resolve(&["--boot"]).bootstrap);
        assert!(!resolve(&["--bootstrap=OFF"]).bootstrap);
    }

    #[test]
    fn sizes_of_the_built_in_are_known_in_every_form() {
        for (arguments, sizes) in [
            (&["--performance-schema-digests-size=10"][..], &[("digests-size", Some(10))][..]),
            (&["--loose-performance_schema_digests_size=2K"], &[("digests-size", Some(2048))]),
            (&["--performance_schema_max_table_handles", "7"], &[("max-table-handles", Some(7))]),
            (&["--performance-schema-accounts=7"], &[("accounts-size", Some(7))]),
            (&["--performance-schema-max-mutex-inst=-1"], &[("max-mutex-instances", None)]),
            (&["--performance-schema-events-waits-history=3"], &[]),
            (
                &["--performance-schema-events-waits-history-size=3"],
                &[("events-waits-history-size", Some(3))],
            ),
            (&["--performance-schema-digests-size=many"], &[]),
            (&["--performance-schema-instrument=%=ON", "--performance-schema-consumer-x=ON"], &[]),
            (&["--performance-schema-max=3", "--digests-size=3", "--performance-schema"], &[]),
        ] {
            assert_eq!(resolve(arguments).built_in.sizes, sizes, "{arguments:?}");
        }
    }

    #[test]
    fn instruments_and_consumers_of_the_built_in_are_rules() {
        for (arguments, rule) in [
            (&["--performance-schema-instrument=wait/%=OFF"][..], Some(("instrument", "wait/%=OFF"))),
            (&["--loose-performance_schema_instrument", "%=ON"], Some(("instrument", "%=ON"))),
            (&["--performance-schema-instrument="], Some(("instrument", ""))),
            (
                &["--performance-schema-consumer-events-waits-history"],
                Some(("consumer", "events_waits_history=ON")),
            ),
            (&["--performance_schema_consumer_x=0"], Some(("consumer", "x=OFF"))),
            (&["--skip-performance-schema-consumer-x"], Some(("consumer", "x=OFF"))),
            (&["--performance-schema-digests-size=3", "--performance-schema=ON"], None),
        ] {
            let rules = resolve(arguments).built_in.rules;
            let found = rules.first().map(|entry| (&*entry.key, entry.value.as_deref().unwrap()));
            assert_eq!((found, rules.len()), (rule, usize::from(rule.is_some())), "{arguments:?}");
        }
    }

    #[test]
    fn the_data_directory_is_found_in_every_form() {
        for arguments in [
            &["--datadir=/d"][..],
            &["--datadir", "/d"],
            &["-h", "/d"],
            &["-h/d"],
            &["--datadir=/a", "-vh/d"],
        ] {
            assert_eq!(resolve(arguments).datadir, Some("/d".into()), "{arguments:?}");
        }
    }

    #[test]
    fn a_log_file_is_expected_when_one_is_asked_for() {
        for (arguments, file) in [
            (&["--log-error"][..], true),
            (&["--log_error=/x"], true),
            (&["--log-error=/x", "--skip-log-error"], false),
            (&["--log-error", "--console"], false),
            (&["--log-bin"], false),
        ] {
            assert_eq!(resolve(arguments).logs_to_file, file, "{arguments:?}");
        }
    }

    #[test]
    fn files_come_before_the_command_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("my.cnf");
        std::fs::write(
            &path,
            "[client]\nbootstrap\n[mariadb-10.11]\nperformance_schema = on\ndatadir=/f\n\
             performance_schema_digests_size = 5\n",
        )
        .unwrap();
        let mut arguments: Vec<OsString> =
            vec!["m".into(), format!("--defaults-file={}", path.display()).into()];
        let files = OptionFiles::of_server(&arguments);
        let groups = ["mysqld".to_owned(), "mariadb-10.11".to_owned()];
        let settings = ServerSettings::resolve(&arguments, &files, &groups);
        let origin = format!("{}, line 4", path.display());
        let expected = ServerSettings {
            performance_schema: Some(origin),
            datadir: Some("/f".into()),
            built_in: BuiltInSettings { sizes: vec![("digests-size", Some(5))], rules: vec![] },
            ..Default::default()
        };
        assert_eq!(settings, expected);
        arguments.push("--performance-schema=OFF".into());
        let settings = ServerSettings::resolve(&arguments, &files, &groups);
        assert_eq!(settings.performance_schema, None);
    }
}
