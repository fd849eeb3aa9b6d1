//! Tare's start-up options: the group `[tare]` of the server's own option files.
//!
//! The server ignores groups it does not know, so `[tare]` is safe in any of its files. The environment
//! variable `TARE_OPTIONS` (`key=value;key=value`) is read after the files and takes precedence.

mod definition;
mod document;
mod error;
mod file;
mod pattern;
mod root;
mod value;

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tare_budget::Budget;
use tare_engine::{Lost, ObjectLimits, Recording, SampleRate};
use tare_tables::Shape;

pub use definition::SAMPLES;
pub use definition::{OPTIONS, OptionDef, OptionType};
pub use document::markdown;
pub use error::{OptionError, OptionOrigin};
pub use file::{GivenOption, OptionFiles};
pub use pattern::wildcard_matches;
pub use root::Root;
pub use value::{show_duration, show_interval, show_sample_rate, size as parse_size};

use crate::socket::check_socket_path;

/// The level of instruments that no rule matches.
pub const DEFAULT_LEVEL: Recording = Recording::Sampled;

/// The pattern of all instruments.
pub const ALL: &str = "%";

/// The smallest budget that allows instrumented locks. With a smaller one the server's calls alone would
/// exhaust it, recorded or not.
pub const BUDGET_WITH_LOCKS: f64 = 0.03;
/// The prefixes of the names of locks' instruments.
const LOCKS: [&str; 3] = ["wait/synch/mutex/", "wait/synch/rwlock/", "wait/synch/sxlock/"];

/// A size for each type of event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventSizes {
    /// The size for waits.
    pub waits: u32,
    /// The size for stages.
    pub stages: u32,
    /// The size for statements.
    pub statements: u32,
    /// The size for transactions.
    pub transactions: u32,
}

/// The setting that an `instrument` rule gives to the instruments it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstrumentSetting {
    /// Not enabled.
    Off,
    /// Enabled, not timed.
    Counted,
    /// Enabled and timed.
    On,
}

/// A rule `instrument=pattern=ON|OFF|COUNTED`. The last rule that matches a name decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstrumentRule {
    /// The pattern of names, for [`wildcard_matches`].
    pub pattern: String,
    /// The setting of the matching instruments.
    pub setting: InstrumentSetting,
}

/// The setting that a `level` rule gives to the instruments it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelSetting {
    /// Not enabled.
    Off,
    /// Enabled, unless an `instrument` rule says otherwise, at this level.
    At(Recording),
}

/// A rule `level=LEVEL` or `level=pattern=LEVEL`. The last rule that matches a name decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelRule {
    /// The pattern of names, for [`wildcard_matches`].
    pub pattern: String,
    /// The setting of the matching instruments.
    pub setting: LevelSetting,
}

impl LevelRule {
    /// Parses `LEVEL` or `pattern=LEVEL`.
    pub fn read(text: &str) -> Option<LevelRule> {
        let (pattern, setting) = value::rule(text).unwrap_or((ALL, text.trim()));
        Some(LevelRule { pattern: pattern.to_owned(), setting: value::level_setting(setting)? })
    }

    /// Returns the rule that decides about the instrument `name`.
    pub fn deciding<'a>(rules: &'a [LevelRule], name: &str) -> Option<&'a LevelRule> {
        rules.iter().rev().find(|rule| wildcard_matches(&rule.pattern, name))
    }

    /// Returns whether the rule is for some instruments. A rule for all of them sets the initial level; named
    /// instruments are meant to keep their level.
    pub fn names(&self) -> bool {
        self.pattern != ALL
    }
}

impl fmt::Display for LevelRule {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.names() {
            write!(to, "{}=", self.pattern)?;
        }
        to.write_str(match self.setting {
            LevelSetting::Off => "off",
            LevelSetting::At(level) => level.name(),
        })
    }
}

/// A rule `consumer=pattern=ON|OFF`. The last rule that matches a name decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerRule {
    /// The pattern of names, for [`wildcard_matches`].
    pub pattern: String,
    /// The setting of the matching consumers.
    pub on: bool,
}

/// The prefix of the names of the built-in's options.
pub const BUILT_IN_PREFIX: &str = "performance-schema-";

/// The settings of the server's own Performance Schema that hold for tare, too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuiltInSettings {
    /// The sizes given as `performance_schema_*`: the name, which tare's option shares, and the number;
    /// `None` leaves it to the provider.
    pub sizes: Vec<(&'static str, Option<u64>)>,
    /// The rules of `performance_schema_instrument` and `performance_schema_consumer_*`, as tare's own
    /// options.
    pub rules: Vec<GivenOption>,
}

/// The settings that can be made before the server starts. [`OPTIONS`] describes each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `enabled`: false disables tare.
    pub enabled: bool,
    /// `memory-max`: the most bytes that tare may allocate.
    pub memory_max: u64,
    /// `events-*-history-size`: the events kept per thread.
    pub history_size: EventSizes,
    /// `events-*-history-long-size`: the events kept of all threads together.
    pub history_long_size: EventSizes,
    /// `digests-size`: the statement digests kept.
    pub digests_size: u32,
    /// `accounts-size`, `users-size`, `hosts-size`: the numbers kept.
    pub parties_size: [u32; 3],
    /// `source`: whether SOURCE is filled.
    pub source: bool,
    /// `setup-actors-size`, `setup-objects-size`: the rules kept.
    pub rules_size: [u32; 2],
    /// `max-*`: the limits of everything else.
    pub limits: ObjectLimits,
    /// `max-digest-length`: the bytes of a digest's token sequence.
    pub max_digest_length: u32,
    /// `max-sql-text-length`: the bytes of a statement's text.
    pub max_sql_text_length: u32,
    /// `max-digest-sample-age`: the seconds after which a digest's sample is replaced.
    pub max_digest_sample_age: u32,
    /// `session-connect-attrs-size`, in bytes.
    pub session_connect_attrs_size: u32,
    /// `prepared-digests`: whether executions of prepared statements have text and digest.
    pub prepared_digests: bool,
    /// `monitoring`: whether statements that use tare's tables are recorded.
    pub monitoring: bool,
    /// `synch-waits-by-instance`: whether waits for mutexes, rwlocks and condition variables are also counted
    /// for each one.
    pub synch_waits_by_instance: bool,
    /// `instrument`: the rules, in the order given.
    pub instruments: Vec<InstrumentRule>,
    /// `level`: the rules, in the order given.
    pub levels: Vec<LevelRule>,
    /// `sample`: how statements are sampled; see [`Options::sample_rate`].
    pub sample: Option<SampleRate>,
    /// `slow-after`: how long a statement runs until everything that follows in it is recorded.
    pub slow_after: Duration,
    /// `ash-interval`: how often the active session history is sampled; zero: never.
    pub ash_interval: Duration,
    /// `ash-budget`: the share of one processor that samples of the active session history may take.
    pub ash_budget: Option<Budget>,
    /// `ash-memory`: the bytes of the active session history.
    pub ash_memory: u64,
    /// `consumer`: the rules, in the order given.
    pub consumers: Vec<ConsumerRule>,
    /// `budget`: the allowed overhead.
    pub budget: Option<Budget>,
    /// `budget-p95`: the allowed slowdown of connections.
    pub budget_p95: Option<Budget>,
    /// `budget-strict`: whether statements, transactions and errors may be given up for a budget.
    pub budget_strict: bool,
    /// `budget-every`: the fewest seconds between two samples of the governor.
    pub budget_every: u32,
    /// `prices`: a file of prices; `None` for those that ship.
    pub prices: Option<PathBuf>,
    /// `socket`: the path of the endpoint; `None` for `tare.sock` in the server's data directory.
    pub socket: Option<PathBuf>,
    /// `tables`: whether the tables are installed under `performance_schema`.
    pub tables: bool,
    /// `shape`: which tables there are.
    pub shape: Shape,
    /// `server-variables`: whether the server's own variables report tare.
    pub server_variables: bool,
    /// The settings of the server's own Performance Schema that tare cannot use.
    pub ignored: Vec<OptionError>,
}

impl Options {
    /// The environment variable whose options are read after the files.
    pub const ENVIRONMENT: &'static str = "TARE_OPTIONS";
    /// The group of the option files.
    pub const GROUP: &'static str = "tare";

    /// Reads the options: the defaults, then the settings of the server's own Performance Schema (sizes,
    /// instruments, consumers), then the `[tare]` groups in the order in which the server reads its files,
    /// then the environment. A rule of the server that cannot be used is skipped, as the server does.
    ///
    /// # Errors
    ///
    /// At the first of tare's own options that cannot be used.
    pub fn read(
        built_in: &BuiltInSettings,
        files: &OptionFiles,
        environment: Option<&OsStr>,
    ) -> Result<Options, OptionError> {
        let mut options = Options::defaults();
        for (name, count) in &built_in.sizes {
            definition::apply_size(&mut options, name, *count);
        }
        for entry in &built_in.rules {
            if let Err(error) = definition::apply(&mut options, entry) {
                options
                    .ignored
                    .push(OptionError { key: format!("{}{}", BUILT_IN_PREFIX, error.key), ..error });
            }
        }
        for entry in files.in_groups(&[Options::GROUP]) {
            definition::apply(&mut options, entry)?;
        }
        let environment = environment.map(|text| text.to_string_lossy().into_owned()).unwrap_or_default();
        for (position, item) in environment.split(';').enumerate() {
            if let Some(entry) =
                GivenOption::parse(Options::GROUP, item, OptionOrigin::Environment { item: position + 1 })
            {
                definition::apply(&mut options, &entry)?;
            }
        }
        Ok(options)
    }

    /// Returns every option at its default.
    pub fn defaults() -> Options {
        definition::defaults()
    }

    /// Returns the path of the endpoint of a server with this data directory.
    ///
    /// # Errors
    ///
    /// When the default path is too long for the endpoint. (A given path was checked when it was read.)
    pub fn endpoint(&self, datadir: &Path) -> Result<PathBuf, OptionError> {
        if let Some(path) = &self.socket {
            return Ok(path.clone());
        }
        let path = datadir.join("tare.sock");
        check_socket_path(&path).map_err(|error| OptionError {
            origin: OptionOrigin::Default,
            key: "socket".to_owned(),
            problem: format!("'{}': {error}", path.display()),
            allowed: OptionDef::find("socket").map(OptionDef::allowed).unwrap_or_default(),
        })?;
        Ok(path)
    }

    /// Returns the setting that the rules give to the instrument `name`; `None` if no rule matches it.
    pub fn instrument(&self, name: &str) -> Option<InstrumentSetting> {
        let rules = self.instruments.iter().rev();
        rules.into_iter().find(|rule| wildcard_matches(&rule.pattern, name)).map(|rule| rule.setting)
    }

    /// Returns how statements are sampled.
    pub fn sample_rate(&self) -> SampleRate {
        self.sample.unwrap_or(SampleRate::OneIn(1))
    }

    /// Sets an option from its text, as a file would. The error says what is wrong.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), String> {
        OptionDef::find(name).ok_or_else(|| "no such option".to_owned())?.set(self, text)
    }

    /// Returns the level that the rules give to the instrument `name`; `None` if no rule matches it.
    pub fn level(&self, name: &str) -> Option<LevelSetting> {
        LevelRule::deciding(&self.levels, name).map(|rule| rule.setting)
    }

    /// Returns whether a rule for some instruments decides about this one. A rule for all of them (`%`, or a
    /// level alone) sets the initial setting; named instruments keep theirs.
    pub fn is_named(&self, name: &str) -> bool {
        let instrument = self.instruments.iter().rev().find(|rule| wildcard_matches(&rule.pattern, name));
        instrument.is_some_and(|rule| rule.pattern != ALL)
            || LevelRule::deciding(&self.levels, name).is_some_and(LevelRule::names)
    }

    /// Returns whether locks that no rule names are left to the server: with a budget too small for them,
    /// unless their number is limited explicitly.
    pub fn leaves_locks(&self) -> bool {
        let of = [Lost::MutexInstances, Lost::RwlockInstances];
        let is_limited = of.into_iter().any(|what| self.limits.of(what) != ObjectLimits::default().of(what));
        !is_limited && self.budget.is_some_and(|budget| budget.share() < BUDGET_WITH_LOCKS)
    }

    /// Returns whether the instrument `name` is left to the server: it starts off, and locks are created
    /// without it.
    pub fn is_left(&self, name: &str) -> bool {
        self.leaves_locks() && LOCKS.iter().any(|lock| name.starts_with(lock)) && !self.is_named(name)
    }

    /// Returns the setting that the rules give to the consumer `name`; `None` if no rule matches it.
    pub fn consumer(&self, name: &str) -> Option<bool> {
        let rules = self.consumers.iter().rev();
        rules.into_iter().find(|rule| wildcard_matches(&rule.pattern, name)).map(|rule| rule.on)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoint_lies_in_the_data_directory_unless_told_otherwise() {
        let mut options = Options::defaults();
        assert_eq!(options.endpoint(Path::new("/var/lib/mysql/")), Ok("/var/lib/mysql/tare.sock".into()));
        let deep = format!("/{}", "x".repeat(100));
        let error = options.endpoint(Path::new(&deep)).expect_err("too long");
        assert!(error.to_string().starts_with("default: option socket: "), "{error}");
        assert!(error.to_string().contains("at most 103 bytes"), "{error}");
        options.socket = Some("/run/t.sock".into());
        assert_eq!(options.endpoint(Path::new(&deep)), Ok("/run/t.sock".into()));
    }

    #[test]
    fn a_small_budget_leaves_locks_to_the_server_unless_somebody_asks_for_them() {
        let read = |text: &str| {
            Options::read(&BuiltInSettings::default(), &OptionFiles::default(), Some(OsStr::new(text)))
                .unwrap()
        };
        let (mutex, sxlock, cond) =
            ("wait/synch/mutex/sql/a", "wait/synch/sxlock/innodb/b", "wait/synch/cond/sql/c");
        let left = |text: &str| [mutex, sxlock, cond].map(|name| read(text).is_left(name));
        assert_eq!(left("budget=1%"), [true, true, false]);
        assert_eq!(left("instrument=%=ON;level=exact;budget=2.9%"), [true, true, false], "none is named");
        assert_eq!(left("level=wait/synch/mutex/%=counts;budget=1%"), [false, true, false]);
        for all in ["", "budget=3%", "budget-p95=1%", "budget=1%;max-mutex-instances=10000"] {
            assert_eq!(left(all), [false; 3], "{all}");
            assert!(!read(all).leaves_locks(), "{all}");
        }
    }

    #[test]
    fn a_rule_of_the_servers_that_cannot_be_used_is_left_out_and_one_of_tares_own_is_an_error() {
        let rule = |text: &str| GivenOption {
            group: Options::GROUP.to_owned(),
            key: "instrument".to_owned(),
            value: Some(text.to_owned()),
            origin: OptionOrigin::CommandLine,
        };
        let rules = ["wait/%=OFF", "%=FOO", "", "'"].map(rule).into();
        let built_in = BuiltInSettings { rules, ..Default::default() };
        let read = |environment: &str| {
            Options::read(&built_in, &OptionFiles::default(), Some(OsStr::new(environment)))
        };
        let options = read("instrument=wait/io/%=ON").unwrap();
        assert_eq!(options.instrument("wait/synch/x"), Some(InstrumentSetting::Off));
        assert_eq!(options.instrument("wait/io/x"), Some(InstrumentSetting::On), "tare's own come later");
        let said: Vec<String> = options.ignored.iter().map(OptionError::to_string).collect();
        assert_eq!(said.len(), 3);
        let expected = "command line: option performance-schema-instrument: wrong value '%=FOO'; allowed: ";
        assert!(said[0].starts_with(expected), "{}", said[0]);
        assert!(read("instrument=%=FOO").is_err());
    }

    #[test]
    fn the_servers_sizes_come_first_and_the_environment_last() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("my.cnf");
        std::fs::write(&file, "[tare]\ndigests-size=10\nmax_sql_text_length=20\n").unwrap();
        let files =
            OptionFiles::of_server(&["m".into(), format!("--defaults-file={}", file.display()).into()]);
        let sizes =
            vec![("digests-size", Some(9)), ("accounts-size", Some(3)), ("users-size", Some(1 << 40))];
        let built_in = BuiltInSettings { sizes, ..Default::default() };
        let read = |environment: &str| Options::read(&built_in, &files, Some(OsStr::new(environment)));
        let options = read("digests-size=11; instrument='wait/%=OFF' ;;").unwrap();
        assert_eq!((options.digests_size, options.max_sql_text_length), (11, 20));
        assert_eq!(
            options.parties_size,
            [3, 65_536, 1000],
            "the server's, as near as it may be, and the default"
        );
        assert_eq!(options.instrument("wait/x"), Some(InstrumentSetting::Off));
        let error = read("digests-size=11;digests-size=x").expect_err("no number");
        assert!(
            error.to_string().starts_with("environment variable TARE_OPTIONS, item 2: option digests-size: "),
            "{error}"
        );
    }
}
