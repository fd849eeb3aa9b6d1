//! Tare's start-up options: the group `[tare]` of the server's own option files, and the server's settings
//! that decide whether tare may run.
//!
//! The server ignores groups it does not know, so `[tare]` is safe in any of its files. The environment
//! variable `TARE_OPTIONS` (`key=value;key=value`) comes after the files and wins.

mod definition;
mod document;
mod error;
mod file;
mod pattern;
mod root;
mod server;
mod value;

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tare_budget::Budget;
use tare_engine::{Limits, Lost, Recording, SampleRate};
use tare_tables::Shape;

pub(crate) use definition::SAMPLES;
pub use definition::{Kind, OPTIONS, OptionDef};
pub use document::markdown;
pub use error::{OptionError, Origin};
pub use file::{Entry, OptionFiles};
pub use pattern::wildcard_matches;
pub use root::Root;
pub use server::ServerSettings;
pub(crate) use value::{show_duration, show_sample_rate};

use crate::redirect::check_socket_path;

/// The level of instruments of which no rule says another one.
pub(crate) const DEFAULT_LEVEL: Recording = Recording::Sampled;

/// The pattern of all instruments.
pub(crate) const ALL: &str = "%";

/// A smaller budget has no room for locks: that the server tells of each costs about as much, recorded or not.
pub(crate) const BUDGET_WITH_LOCKS: f64 = 0.03;
/// What the names of instruments of locks begin with.
const LOCKS: [&str; 3] = ["wait/synch/mutex/", "wait/synch/rwlock/", "wait/synch/sxlock/"];

/// A size for each type of event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventSizes {
    /// Of waits.
    pub waits: u32,
    /// Of stages.
    pub stages: u32,
    /// Of statements.
    pub statements: u32,
    /// Of transactions.
    pub transactions: u32,
}

/// What an `instrument` rule makes of the instruments it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstrumentSetting {
    /// Not enabled.
    Off,
    /// Enabled, not timed.
    Counted,
    /// Enabled and timed.
    On,
}

/// One `instrument=pattern=ON|OFF|COUNTED`. Of the rules that match a name, the last one decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstrumentRule {
    /// Of names, for [`wildcard_matches`].
    pub pattern: String,
    /// What the matching instruments become.
    pub setting: InstrumentSetting,
}

/// What a `level` rule makes of the instruments it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelSetting {
    /// Not enabled.
    Off,
    /// Enabled unless an `instrument` rule says otherwise, and at this level.
    At(Recording),
}

/// One `level=LEVEL` or `level=pattern=LEVEL`. Of the rules that match a name, the last one decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelRule {
    /// Of names, for [`wildcard_matches`].
    pub pattern: String,
    /// What the matching instruments become.
    pub setting: LevelSetting,
}

impl LevelRule {
    /// `LEVEL` or `pattern=LEVEL`.
    pub(crate) fn read(text: &str) -> Option<LevelRule> {
        let (pattern, setting) = value::rule(text).unwrap_or((ALL, text.trim()));
        Some(LevelRule { pattern: pattern.to_owned(), setting: value::level_setting(setting)? })
    }

    /// The rule among these that decides about the instrument `name`.
    pub(crate) fn deciding<'a>(rules: &'a [LevelRule], name: &str) -> Option<&'a LevelRule> {
        rules.iter().rev().find(|rule| wildcard_matches(&rule.pattern, name))
    }

    /// Whether it is for some instruments. One for all of them says how tare is to begin; what is named is meant to stay.
    pub(crate) fn names(&self) -> bool {
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

/// One `consumer=pattern=ON|OFF`. Of the rules that match a name, the last one decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerRule {
    /// Of names, for [`wildcard_matches`].
    pub pattern: String,
    /// What the matching consumers become.
    pub on: bool,
}

/// Everything one can set before the server starts. [`OPTIONS`] says what each means and allows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `enabled`: false makes tare stand back.
    pub enabled: bool,
    /// `memory-max`: bytes tare may take at most.
    pub memory_max: u64,
    /// `events-*-history-size`: events kept per thread.
    pub history_size: EventSizes,
    /// `events-*-history-long-size`: events kept of all threads together.
    pub history_long_size: EventSizes,
    /// `digests-size`: statement digests kept.
    pub digests_size: u32,
    /// `accounts-size`, `users-size`, `hosts-size`: how many are kept.
    pub parties_size: [u32; 3],
    /// `source`: whether SOURCE is filled.
    pub source: bool,
    /// `setup-actors-size`, `setup-objects-size`: rules kept.
    pub rules_size: [u32; 2],
    /// `max-*`: how many there may be of everything else.
    pub limits: Limits,
    /// `max-digest-length`: bytes of a digest's token sequence.
    pub max_digest_length: u32,
    /// `max-sql-text-length`: bytes of a statement's text.
    pub max_sql_text_length: u32,
    /// `max-digest-sample-age`: seconds after which a digest's sample is replaced.
    pub max_digest_sample_age: u32,
    /// `session-connect-attrs-size`, in bytes.
    pub session_connect_attrs_size: u32,
    /// `prepared-digests`: whether executions of prepared statements have text and digest.
    pub prepared_digests: bool,
    /// `monitoring`: whether statements that use tare's tables are recorded.
    pub monitoring: bool,
    /// `synch-waits-by-instance`: whether waits for mutexes, rwlocks and conditions are counted for each one.
    pub synch_waits_by_instance: bool,
    /// `instrument`, in the order given.
    pub instruments: Vec<InstrumentRule>,
    /// `level`, in the order given.
    pub levels: Vec<LevelRule>,
    /// `sample`: how statements are chosen; see [`Options::sample_rate`].
    pub sample: Option<SampleRate>,
    /// `slow-after`: how long a statement runs until all that follows in it is recorded.
    pub slow_after: Duration,
    /// `consumer`, in the order given.
    pub consumers: Vec<ConsumerRule>,
    /// `budget`: what watching may cost.
    pub budget: Option<Budget>,
    /// `budget-p95`: what it may slow connections by.
    pub budget_p95: Option<Budget>,
    /// `budget-strict`: whether statements, transactions and errors may be given up for a budget.
    pub budget_strict: bool,
    /// `budget-every`: seconds between two looks of the governor, at least.
    pub budget_every: u32,
    /// `prices`: a file of prices; `None` for those that ship.
    pub prices: Option<PathBuf>,
    /// `socket`: path of the endpoint; `None` for `tare.sock` in the server's data directory.
    pub socket: Option<PathBuf>,
    /// `tables`: whether the tables are installed under `performance_schema`.
    pub tables: bool,
    /// `shape`: which tables there are.
    pub shape: Shape,
    /// `server-variables`: whether the server's own variables speak of tare.
    pub server_variables: bool,
    /// Of what the server was told for its own Performance Schema, what cannot be used.
    pub ignored: Vec<OptionError>,
}

impl Options {
    /// The environment variable whose options come after the files'.
    pub const ENVIRONMENT: &'static str = "TARE_OPTIONS";
    /// The group of the option files.
    pub const GROUP: &'static str = "tare";

    /// The defaults, then what the server was told for its own Performance Schema (sizes, instruments, consumers), then
    /// the `[tare]` groups in the order the server reads its files, then the environment. A rule of the server's that
    /// cannot be used is left out, as the server does.
    ///
    /// # Errors
    /// At the first of tare's own options that cannot be used.
    pub fn read(
        server: &ServerSettings,
        files: &OptionFiles,
        environment: Option<&OsStr>,
    ) -> Result<Options, OptionError> {
        let mut options = Options::defaults();
        for (name, count) in &server.sizes {
            definition::apply_size(&mut options, name, *count);
        }
        for entry in &server.rules {
            if let Err(error) = definition::apply(&mut options, entry) {
                options
                    .ignored
                    .push(OptionError { key: format!("{}{}", server::PREFIX, error.key), ..error });
            }
        }
        for entry in files.in_groups(&[Options::GROUP]) {
            definition::apply(&mut options, entry)?;
        }
        let environment = environment.map(|text| text.to_string_lossy().into_owned()).unwrap_or_default();
        for (position, item) in environment.split(';').enumerate() {
            if let Some(entry) =
                Entry::parse(Options::GROUP, item, Origin::Environment { item: position + 1 })
            {
                definition::apply(&mut options, &entry)?;
            }
        }
        Ok(options)
    }

    /// Every option at its default.
    pub fn defaults() -> Options {
        definition::defaults()
    }

    /// Path of the endpoint of a server with this data directory.
    ///
    /// # Errors
    /// When the default path is longer than the endpoint's may be. (A path that was given was checked then.)
    pub fn endpoint(&self, datadir: &Path) -> Result<PathBuf, OptionError> {
        if let Some(path) = &self.socket {
            return Ok(path.clone());
        }
        let path = datadir.join("tare.sock");
        check_socket_path(&path).map_err(|error| OptionError {
            origin: Origin::Default,
            key: "socket".to_owned(),
            problem: format!("'{}': {error}", path.display()),
            allowed: OptionDef::find("socket").map(OptionDef::allowed).unwrap_or_default(),
        })?;
        Ok(path)
    }

    /// What the rules make of the instrument `name`; `None` when no rule matches it.
    pub fn instrument(&self, name: &str) -> Option<InstrumentSetting> {
        let rules = self.instruments.iter().rev();
        rules.into_iter().find(|rule| wildcard_matches(&rule.pattern, name)).map(|rule| rule.setting)
    }

    /// How statements are chosen.
    pub fn sample_rate(&self) -> SampleRate {
        self.sample.unwrap_or(SampleRate::OneIn(1))
    }

    /// Sets an option from its text, as a file would; what is wrong is said.
    pub(crate) fn set(&mut self, name: &str, text: &str) -> Result<(), String> {
        OptionDef::find(name).ok_or_else(|| "no such option".to_owned())?.set(self, text)
    }

    /// What the rules make of the level of the instrument `name`; `None` when no rule matches it.
    pub fn level(&self, name: &str) -> Option<LevelSetting> {
        LevelRule::deciding(&self.levels, name).map(|rule| rule.setting)
    }

    /// Whether a rule for some instruments decides about this one. A rule for all of them (`%`, or a level alone) says how
    /// tare is to begin; what is named is meant to stay.
    pub fn is_named(&self, name: &str) -> bool {
        let instrument = self.instruments.iter().rev().find(|rule| wildcard_matches(&rule.pattern, name));
        instrument.is_some_and(|rule| rule.pattern != ALL)
            || LevelRule::deciding(&self.levels, name).is_some_and(LevelRule::names)
    }

    /// Whether locks are left to the server that no rule names: with a budget too small for them, unless somebody says how many are
    /// to be kept.
    pub fn leaves_locks(&self) -> bool {
        let of = [Lost::MutexInstances, Lost::RwlockInstances];
        let is_limited = of.into_iter().any(|what| self.limits.of(what) != Limits::default().of(what));
        !is_limited && self.budget.is_some_and(|budget| budget.share() < BUDGET_WITH_LOCKS)
    }

    /// Whether the instrument `name` is one of those: it begins off, and locks are made without it.
    pub fn is_left(&self, name: &str) -> bool {
        self.leaves_locks() && LOCKS.iter().any(|lock| name.starts_with(lock)) && !self.is_named(name)
    }

    /// What the rules make of the consumer `name`; `None` when no rule matches it.
    pub fn consumer(&self, name: &str) -> Option<bool> {
        let rules = self.consumers.iter().rev();
        rules.into_iter().find(|rule| wildcard_matches(&rule.pattern, name)).map(|rule| rule.on)
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

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
            Options::read(&ServerSettings::default(), &OptionFiles::default(), Some(OsStr::new(text)))
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
        let arguments = ["m", "--performance-schema-instrument=wait/%=OFF"]
            .map(OsString::from)
            .into_iter()
            .chain(["%=FOO", "", "'"].map(|rule| format!("--performance-schema-instrument={rule}").into()));
        let server = ServerSettings::resolve(&arguments.collect::<Vec<_>>(), &OptionFiles::default(), &[]);
        let read = |environment: &str| {
            Options::read(&server, &OptionFiles::default(), Some(OsStr::new(environment)))
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
        let server = ServerSettings { sizes, ..Default::default() };
        let read = |environment: &str| Options::read(&server, &files, Some(OsStr::new(environment)));
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
