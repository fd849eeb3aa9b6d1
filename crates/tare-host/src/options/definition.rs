//! The options as data: one table for the parser, the defaults, the error texts and
//! `docs/reference/options.md`.

use std::path::PathBuf;
use std::time::Duration;

use tare_budget::Budget;
use tare_engine::snapshot::Consumer;
use tare_engine::{
    DESCRIPTORS, Lost, MAX_CONNECT_ATTRS, MAX_DIGEST, MAX_INSTRUMENTS, MAX_RULES, MAX_SQL_TEXT,
    STATEMENT_DEPTH, SampleRate,
};
use tare_tables::Shape;
use tare_words::misspelt::meant;

use super::error::{OptionError, OptionOrigin};
use super::file::GivenOption;
use super::value;
use super::{ConsumerRule, InstrumentRule, LevelRule, Options, wildcard_matches};
use crate::socket;

/// The type of an option's value, and the field it is stored in.
#[derive(Clone, Copy, Debug)]
pub enum OptionType {
    /// `ON` or `OFF`.
    Switch(fn(&mut Options) -> &mut bool),
    /// A number of bytes, with the smallest and the largest.
    Size(u64, u64, fn(&mut Options) -> &mut u64),
    /// A number of things, with the smallest and the largest.
    Count(u32, u32, fn(&mut Options) -> &mut u32),
    /// A number of seconds, with the smallest and the largest.
    Seconds(u32, u32, fn(&mut Options) -> &mut u32),
    /// A duration, with the shortest and the longest.
    Duration(Duration, Duration, fn(&mut Options) -> &mut Duration),
    /// A duration, with the shortest and the longest, or `OFF`, which is zero.
    Interval(Duration, Duration, fn(&mut Options) -> &mut Duration),
    /// How statements are sampled: a number per second, or one in a number.
    Sample(fn(&mut Options) -> &mut Option<SampleRate>),
    /// `strict` or `extended`.
    Shape(fn(&mut Options) -> &mut Shape),
    /// `OFF`, or a share of the server's CPU time.
    Budget(fn(&mut Options) -> &mut Option<Budget>),
    /// An absolute path of a Unix socket.
    Socket(fn(&mut Options) -> &mut Option<PathBuf>),
    /// An absolute path of a file.
    File(fn(&mut Options) -> &mut Option<PathBuf>),
    /// `pattern=ON|OFF|COUNTED`; may be repeated.
    Instrument(fn(&mut Options) -> &mut Vec<InstrumentRule>),
    /// `LEVEL` or `pattern=LEVEL`; may be repeated.
    Level(fn(&mut Options) -> &mut Vec<LevelRule>),
    /// `pattern=ON|OFF`; may be repeated.
    Consumer(fn(&mut Options) -> &mut Vec<ConsumerRule>),
}

/// The definition of an option of the group `[tare]`.
#[derive(Clone, Copy, Debug)]
pub struct OptionDef {
    /// The name as written in a file; `_` may stand for `-`.
    pub name: &'static str,
    /// The type of the value.
    pub kind: OptionType,
    /// The default as it would be written; empty if there is none.
    pub default: &'static str,
    /// The description for `docs/reference/options.md`.
    pub doc: &'static str,
}

/// Defines a number of instruments; one registry holds those of all kinds.
const fn classes(name: &'static str, doc: &'static str, field: fn(&mut Options) -> &mut u32) -> OptionDef {
    OptionDef { name, kind: OptionType::Count(0, MAX_INSTRUMENTS as u32, field), default: "2048", doc }
}

/// Defines a number of things that only memory limits unless the option is set.
const fn instances(name: &'static str, doc: &'static str, field: fn(&mut Options) -> &mut u32) -> OptionDef {
    OptionDef { name, kind: OptionType::Count(0, 1_048_576, field), default: "", doc }
}

/// The error text that lists the allowed values of `sample`.
pub const SAMPLES: &str =
    "a rate such as 1000/s, from 1/s to 1000000/s, or one statement in so many, from 1/1 to 1/1000000";

const HISTORY_MAX: u32 = 65_536;
const HISTORY_LONG_MAX: u32 = 1_048_576;

/// Every option, in the order of the documentation.
pub static OPTIONS: &[OptionDef] = &[
    OptionDef {
        name: "enabled",
        kind: OptionType::Switch(|o| &mut o.enabled),
        default: "ON",
        doc: "OFF: tare disables itself, and the server runs as if it were absent.",
    },
    OptionDef {
        name: "memory-max",
        kind: OptionType::Size(8 << 20, 4 << 30, |o| &mut o.memory_max),
        default: "64M",
        doc: "Memory tare takes at most; what does not fit is counted as lost.",
    },
    OptionDef {
        name: "events-waits-history-size",
        kind: OptionType::Count(0, HISTORY_MAX, |o| &mut o.history_size.waits),
        default: "64",
        doc: "Waits kept per thread.",
    },
    OptionDef {
        name: "events-stages-history-size",
        kind: OptionType::Count(0, HISTORY_MAX, |o| &mut o.history_size.stages),
        default: "64",
        doc: "Stages kept per thread.",
    },
    OptionDef {
        name: "events-statements-history-size",
        kind: OptionType::Count(0, HISTORY_MAX, |o| &mut o.history_size.statements),
        default: "16",
        doc: "Statements kept per thread.",
    },
    OptionDef {
        name: "events-transactions-history-size",
        kind: OptionType::Count(0, HISTORY_MAX, |o| &mut o.history_size.transactions),
        default: "16",
        doc: "Transactions kept per thread.",
    },
    OptionDef {
        name: "events-waits-history-long-size",
        kind: OptionType::Count(0, HISTORY_LONG_MAX, |o| &mut o.history_long_size.waits),
        default: "10000",
        doc: "Waits kept of all threads together.",
    },
    OptionDef {
        name: "events-stages-history-long-size",
        kind: OptionType::Count(0, HISTORY_LONG_MAX, |o| &mut o.history_long_size.stages),
        default: "10000",
        doc: "Stages kept of all threads together.",
    },
    OptionDef {
        name: "events-statements-history-long-size",
        kind: OptionType::Count(0, HISTORY_LONG_MAX, |o| &mut o.history_long_size.statements),
        default: "10000",
        doc: "Statements kept of all threads together.",
    },
    OptionDef {
        name: "events-transactions-history-long-size",
        kind: OptionType::Count(0, HISTORY_LONG_MAX, |o| &mut o.history_long_size.transactions),
        default: "10000",
        doc: "Transactions kept of all threads together.",
    },
    OptionDef {
        name: "digests-size",
        kind: OptionType::Count(0, 1_048_576, |o| &mut o.digests_size),
        default: "5000",
        doc: "Statement digests kept; a new one takes the place of the one seen least recently. One row is for statements \
              whose digest found no place. 0: nothing is counted by digest.",
    },
    OptionDef {
        name: "accounts-size",
        kind: OptionType::Count(0, 65_536, |o| &mut o.parties_size[0]),
        default: "1000",
        doc: "Accounts kept; connections of further accounts count for their user and host only.",
    },
    OptionDef {
        name: "users-size",
        kind: OptionType::Count(0, 65_536, |o| &mut o.parties_size[1]),
        default: "1000",
        doc: "Users kept; connections of further users count for their account and host only.",
    },
    OptionDef {
        name: "hosts-size",
        kind: OptionType::Count(0, 65_536, |o| &mut o.parties_size[2]),
        default: "1000",
        doc: "Hosts kept; connections from further hosts count for their account and user only.",
    },
    OptionDef {
        name: "max-digest-length",
        kind: OptionType::Count(16, MAX_DIGEST as u32, |o| &mut o.max_digest_length),
        default: "1024",
        doc: "Bytes kept of a digest's token sequence.",
    },
    OptionDef {
        name: "max-sql-text-length",
        kind: OptionType::Count(0, MAX_SQL_TEXT as u32, |o| &mut o.max_sql_text_length),
        default: "1024",
        doc: "Bytes kept of a statement's text.",
    },
    OptionDef {
        name: "max-digest-sample-age",
        kind: OptionType::Seconds(0, 1_048_576, |o| &mut o.max_digest_sample_age),
        default: "60",
        doc: "After so many seconds the next statement of a digest replaces its sample, even if it is faster. 0: only a \
              slower one does. There are samples in the shape extended only.",
    },
    OptionDef {
        name: "session-connect-attrs-size",
        kind: OptionType::Count(0, MAX_CONNECT_ATTRS as u32, |o| &mut o.session_connect_attrs_size),
        default: "512",
        doc: "Bytes kept of the attributes that a client sends when it connects.",
    },
    classes("max-cond-classes", "Instruments of conditions.", |o| o.limits.of_mut(Lost::CondClasses)),
    classes("max-file-classes", "Instruments of files.", |o| o.limits.of_mut(Lost::FileClasses)),
    classes("max-memory-classes", "Instruments of memory.", |o| o.limits.of_mut(Lost::MemoryClasses)),
    classes("max-mutex-classes", "Instruments of mutexes.", |o| o.limits.of_mut(Lost::MutexClasses)),
    classes("max-rwlock-classes", "Instruments of rwlocks.", |o| o.limits.of_mut(Lost::RwlockClasses)),
    classes("max-socket-classes", "Instruments of sockets.", |o| o.limits.of_mut(Lost::SocketClasses)),
    classes("max-stage-classes", "Instruments of stages.", |o| o.limits.of_mut(Lost::StageClasses)),
    classes("max-statement-classes", "Instruments of statements.", |o| {
        o.limits.of_mut(Lost::StatementClasses)
    }),
    classes("max-thread-classes", "Instruments of threads.", |o| o.limits.of_mut(Lost::ThreadClasses)),
    instances("max-cond-instances", "Conditions kept.", |o| o.limits.of_mut(Lost::CondInstances)),
    instances("max-file-instances", "Files kept.", |o| o.limits.of_mut(Lost::FileInstances)),
    instances("max-index-stat", "Indexes whose figures are kept when their table is closed.", |o| {
        o.limits.of_mut(Lost::IndexStats)
    }),
    instances(
        "max-metadata-locks",
        "Metadata locks kept, including free places that a connection keeps for its next lock.",
        |o| o.limits.of_mut(Lost::MetadataLocks),
    ),
    instances("max-mutex-instances", "Mutexes kept.", |o| o.limits.of_mut(Lost::MutexInstances)),
    instances("max-prepared-statements-instances", "Prepared statements kept.", |o| {
        o.limits.of_mut(Lost::PreparedStatements)
    }),
    instances("max-program-instances", "Stored programs kept.", |o| o.limits.of_mut(Lost::Programs)),
    instances("max-rwlock-instances", "Rwlocks kept.", |o| o.limits.of_mut(Lost::RwlockInstances)),
    instances("max-socket-instances", "Sockets kept.", |o| o.limits.of_mut(Lost::SocketInstances)),
    instances("max-table-handles", "Open tables kept.", |o| o.limits.of_mut(Lost::TableHandles)),
    instances("max-table-instances", "Tables kept.", |o| o.limits.of_mut(Lost::TableInstances)),
    instances(
        "max-table-lock-stat",
        "Tables whose figures of locks are kept when the table is closed.",
        |o| o.limits.of_mut(Lost::TableLockStats),
    ),
    instances("max-thread-instances", "Threads kept.", |o| o.limits.of_mut(Lost::ThreadInstances)),
    OptionDef {
        name: "max-file-handles",
        kind: OptionType::Count(0, DESCRIPTORS as u32, |o| o.limits.of_mut(Lost::FileHandles)),
        default: "65536",
        doc: "Open files recorded one by one.",
    },
    OptionDef {
        name: "max-statement-stack",
        kind: OptionType::Count(1, STATEMENT_DEPTH as u32, |o| o.limits.of_mut(Lost::NestedStatements)),
        default: "10",
        doc: "Depth to which statements inside statements are recorded.",
    },
    OptionDef {
        name: "setup-actors-size",
        kind: OptionType::Count(0, MAX_RULES as u32, |o| &mut o.rules_size[0]),
        default: "1024",
        doc: "Rules in setup_actors.",
    },
    OptionDef {
        name: "setup-objects-size",
        kind: OptionType::Count(0, MAX_RULES as u32, |o| &mut o.rules_size[1]),
        default: "1024",
        doc: "Rules in setup_objects.",
    },
    OptionDef {
        name: "monitoring",
        kind: OptionType::Switch(|o| &mut o.monitoring),
        default: "ON",
        doc: "ON: statements that use the tables of performance_schema are recorded like any others. OFF: from the moment \
              at which such a statement locks the first of these tables, nothing of it is recorded or counted.",
    },
    OptionDef {
        name: "prepared-digests",
        kind: OptionType::Switch(|o| &mut o.prepared_digests),
        default: "ON",
        doc: "ON: executions of a prepared statement count for the digest of its text. The text has ? in place of values, \
              unless the server has the values for its own logs. OFF: as in the server's own Performance Schema, EXECUTE has a \
              digest of its own, and executions by the binary protocol have none.",
    },
    OptionDef {
        name: "synch-waits-by-instance",
        kind: OptionType::Switch(|o| &mut o.synch_waits_by_instance),
        default: "OFF",
        doc: "ON: events_waits_summary_by_instance also has each mutex, rwlock and condition. This costs more, because \
              all threads that use a lock then write to the same memory.",
    },
    OptionDef {
        name: "instrument",
        kind: OptionType::Instrument(|o| &mut o.instruments),
        default: "",
        doc: "Switches instruments whose names match: % stands for any text, ? for any character. The last match decides.",
    },
    OptionDef {
        name: "level",
        kind: OptionType::Level(|o| &mut o.levels),
        default: "",
        doc: "How much is kept of the events of all instruments, or of those whose names match: exact, lean, sampled, sums, \
              counts, off. Only exact times uncontended locks. The last match decides.",
    },
    OptionDef {
        name: "sample",
        kind: OptionType::Sample(|o| &mut o.sample),
        default: "1000/s",
        doc: "How many statements are recorded with everything inside them, at level sampled. 1000/s: about 1,000 a second of the \
              whole server, and every one while there are fewer. 1/64: one in 64, whatever the load.",
    },
    OptionDef {
        name: "slow-after",
        kind: OptionType::Duration(Duration::from_millis(1), Duration::from_secs(3600), |o| {
            &mut o.slow_after
        }),
        default: "10ms",
        doc: "At level sampled, once a statement has run for so long, everything that follows in it is recorded.",
    },
    OptionDef {
        name: "ash-interval",
        kind: OptionType::Interval(Duration::from_millis(10), Duration::from_secs(60), |o| {
            &mut o.ash_interval
        }),
        default: "1s",
        doc: "How often the active session history samples what sessions are doing; OFF or 0: not at all. Less often where that \
              would take more than ash-budget. May be changed while the server runs.",
    },
    OptionDef {
        name: "ash-budget",
        kind: OptionType::Budget(|o| &mut o.ash_budget),
        default: "0.3%",
        doc: "CPU time that the samples of the active session history may take, as a share of one processor; OFF: whatever \
              ash-interval takes. A busy server loses up to three times as much, because samples keep its threads waiting and its \
              caches busy.",
    },
    OptionDef {
        name: "ash-memory",
        kind: OptionType::Size(64 << 10, 1 << 30, |o| &mut o.ash_memory),
        default: "8M",
        doc: "Memory of the active session history, apart from memory-max. When it is full the oldest samples give way: 8M has an hour \
              of 20 active sessions, sampled every second.",
    },
    OptionDef {
        name: "consumer",
        kind: OptionType::Consumer(|o| &mut o.consumers),
        default: "",
        doc: "Switches consumers whose names match: % stands for any text, ? for any character. The last match decides.",
    },
    OptionDef {
        name: "budget",
        kind: OptionType::Budget(|o| &mut o.budget),
        default: "OFF",
        doc: "What tare may cost, as a share of the CPU time that the server uses. To keep it, the governor first lowers the rate of \
              samples and then levels. Statements are always counted and timed, unless budget-strict is ON. Levels that options give \
              to some instruments, or that are set in SQL, stay. Below 3% mutexes and rwlocks are not instrumented, unless \
              options name them, or max-mutex-instances or max-rwlock-instances is set.",
    },
    OptionDef {
        name: "budget-p95",
        kind: OptionType::Budget(|o| &mut o.budget_p95),
        default: "OFF",
        doc: "How much tare may slow connections, as a share of the CPU time that they use themselves. Connections that are \
              slowed by no more then use 95% of that time. May be set with budget, or alone.",
    },
    OptionDef {
        name: "budget-strict",
        kind: OptionType::Switch(|o| &mut o.budget_strict),
        default: "OFF",
        doc: "OFF: statements, transactions and errors are counted and timed even if that exceeds the budget. ON: they may be given \
              up, too, like all other events.",
    },
    OptionDef {
        name: "budget-every",
        kind: OptionType::Seconds(1, 3600, |o| &mut o.budget_every),
        default: "5",
        doc: "Least number of seconds between two readings of the governor.",
    },
    OptionDef {
        name: "prices",
        kind: OptionType::File(|o| &mut o.prices),
        default: "",
        doc: "Price file: the cost per event of each kind at each level, as measured on this machine. By default that of tare is used.",
    },
    OptionDef {
        name: "socket",
        kind: OptionType::Socket(|o| &mut o.socket),
        default: "",
        doc: "Path of tare's socket, over which the tables are read.",
    },
    OptionDef {
        name: "tables",
        kind: OptionType::Switch(|o| &mut o.tables),
        default: "ON",
        doc: "ON: SQL shows the tables in performance_schema. OFF: they can be read at tare's socket only.",
    },
    OptionDef {
        name: "shape",
        kind: OptionType::Shape(|o| &mut o.shape),
        default: "strict",
        doc: "strict: MariaDB's tables with MariaDB's columns, and the tables of tare itself. extended: MySQL's tables and columns as well.",
    },
    OptionDef {
        name: "source",
        kind: OptionType::Switch(|o| &mut o.source),
        default: "ON",
        doc: "ON: the column SOURCE says from which line of the server's source an event comes. OFF: it is empty, as in the \
              server's own Performance Schema.",
    },
    OptionDef {
        name: "server-variables",
        kind: OptionType::Switch(|o| &mut o.server_variables),
        default: "ON",
        doc: "ON: @@performance_schema, performance_schema_* and Performance_schema_*_lost have tare's values. \
              OFF: they have those of the server's own Performance Schema, which is off.",
    },
];

impl OptionDef {
    /// Finds the option called `key`, in which `_` and `-` are the same.
    pub fn find(key: &str) -> Option<&'static OptionDef> {
        let same = |a: u8, b: u8| a == b || (a == b'_' && b == b'-');
        OPTIONS.iter().find(|def| {
            def.name.len() == key.len() && key.bytes().zip(def.name.bytes()).all(|(a, b)| same(a, b))
        })
    }

    /// Returns the allowed values as a text for people.
    pub fn allowed(&self) -> String {
        match self.kind {
            OptionType::Switch(_) => "ON or OFF".to_owned(),
            OptionType::Shape(_) => "strict or extended".to_owned(),
            OptionType::Duration(min, max, _) => {
                format!("{} to {}, such as 10ms or 2s", value::show_duration(min), value::show_duration(max))
            }
            OptionType::Interval(min, max, _) => value::allowed_interval(min, max),
            OptionType::Sample(_) => SAMPLES.to_owned(),
            OptionType::Size(min, max, _) => {
                format!("{} to {} (bytes, or with K, M or G)", value::show_size(min), value::show_size(max))
            }
            OptionType::Count(min, max, _) | OptionType::Seconds(min, max, _) => format!("{min} to {max}"),
            OptionType::Budget(_) => format!("OFF, or {}", Budget::ALLOWED),
            OptionType::File(_) => "an absolute path".to_owned(),
            OptionType::Socket(_) => format!("an absolute path of at most {} bytes", socket::MAX_SOCKET_PATH),
            OptionType::Instrument(_) => "pattern=ON, pattern=OFF or pattern=COUNTED".to_owned(),
            OptionType::Level(_) => {
                "exact, lean, sampled, sums, counts or off, alone or as pattern=LEVEL".to_owned()
            }
            OptionType::Consumer(_) => {
                format!(
                    "pattern=ON or pattern=OFF for one of {}",
                    Consumer::ALL.map(Consumer::name).join(", ")
                )
            }
        }
    }

    /// Sets the option from its text. The error says what is wrong with it.
    pub(super) fn set(&self, options: &mut Options, text: &str) -> Result<(), String> {
        let wrong = || format!("wrong value '{text}'");
        match self.kind {
            OptionType::Switch(field) => *field(options) = value::switch(text).ok_or_else(wrong)?,
            OptionType::Size(min, max, field) => {
                let size = value::size(text).filter(|size| (min..=max).contains(size));
                *field(options) = size.ok_or_else(wrong)?;
            }
            OptionType::Count(min, max, field) | OptionType::Seconds(min, max, field) => {
                let count = value::count(text).and_then(|count| u32::try_from(count).ok());
                *field(options) = count.filter(|count| (min..=max).contains(count)).ok_or_else(wrong)?;
            }
            OptionType::Duration(min, max, field) => {
                let duration = value::duration(text).filter(|duration| (min..=max).contains(duration));
                *field(options) = duration.ok_or_else(wrong)?;
            }
            OptionType::Interval(min, max, field) => {
                let interval = value::interval(text).filter(|it| it.is_zero() || (min..=max).contains(it));
                *field(options) = interval.ok_or_else(wrong)?;
            }
            OptionType::Sample(field) => *field(options) = Some(value::sample_rate(text).ok_or_else(wrong)?),
            OptionType::Shape(field) => *field(options) = value::shape(text).ok_or_else(wrong)?,
            OptionType::Budget(field) if text.eq_ignore_ascii_case("OFF") => *field(options) = None,
            OptionType::Budget(field) => *field(options) = Some(Budget::read(text).ok_or_else(wrong)?),
            OptionType::Socket(field) => *field(options) = Some(value::socket(text)?),
            OptionType::File(field) => *field(options) = Some(value::absolute(text)?),
            OptionType::Instrument(field) => {
                let (pattern, setting) = value::rule(text).ok_or_else(wrong)?;
                let setting = value::instrument_setting(setting).ok_or_else(wrong)?;
                field(options).push(InstrumentRule { pattern: pattern.to_owned(), setting });
            }
            OptionType::Level(field) => {
                let level = value::rule(text).map_or(text, |(_, level)| level);
                let meant = || format!("{}{}", wrong(), meant(level, value::levels(), '\''));
                field(options).push(LevelRule::read(text).ok_or_else(meant)?);
            }
            OptionType::Consumer(field) => {
                let (pattern, on) = value::rule(text).ok_or_else(wrong)?;
                let on = value::switch(on).ok_or_else(wrong)?;
                if !Consumer::ALL.iter().any(|consumer| wildcard_matches(pattern, consumer.name())) {
                    return Err(format!("no consumer is called '{pattern}'"));
                }
                field(options).push(ConsumerRule { pattern: pattern.to_owned(), on });
            }
        }
        Ok(())
    }
}

/// Returns every option at its default. The tests parse each default, so none is lost here.
pub(crate) fn defaults() -> Options {
    let mut options = Options::default();
    for def in OPTIONS.iter().filter(|def| !def.default.is_empty()) {
        let set = def.set(&mut options, def.default);
        debug_assert!(set.is_ok(), "{}", def.name);
    }
    options
}

/// Sets the option `name`, which counts things, as close to `count` as it allows; `None` sets its default.
pub(crate) fn apply_size(options: &mut Options, name: &str, count: Option<u64>) {
    let Some(def) = OptionDef::find(name) else { return };
    if let OptionType::Count(min, max, field) = def.kind {
        let nearest = |count| u32::try_from(count).unwrap_or(u32::MAX).clamp(min, max);
        *field(options) = count.map_or_else(|| *field(&mut defaults()), nearest);
    }
}

/// Sets the option named by an entry of a `[tare]` group.
pub(crate) fn apply(options: &mut Options, entry: &GivenOption) -> Result<(), OptionError> {
    let (key, loose) = match entry.key.strip_prefix("loose-").or(entry.key.strip_prefix("loose_")) {
        Some(key) => (key, true),
        None => (entry.key.as_str(), false),
    };
    let Some((def, switched)) = find_with_prefix(key) else {
        if loose {
            return Ok(());
        }
        let allowed = OPTIONS.iter().map(|def| def.name).collect::<Vec<_>>().join(", ");
        let meant = meant(key, OPTIONS.iter().map(|def| def.name), '\'');
        return Err(refuse(entry, format!("no such option{meant}"), allowed));
    };
    let text = match (switched, &entry.value, def.kind) {
        (Some(_), Some(_), _) => {
            return Err(refuse(entry, "takes no value in this form".to_owned(), def.allowed()));
        }
        (Some(on), None, _) => on,
        (None, Some(text), _) => text.as_str(),
        (None, None, OptionType::Switch(_)) => "ON",
        (None, None, _) => return Err(refuse(entry, "needs a value".to_owned(), def.allowed())),
    };
    def.set(options, text).map_err(|problem| refuse(entry, problem, def.allowed()))
}

/// Finds the option that a key names, and the value implied by its prefix: for switches the server's files
/// allow `skip-x`, `disable-x` and `enable-x`.
fn find_with_prefix(key: &str) -> Option<(&'static OptionDef, Option<&'static str>)> {
    if let Some(def) = OptionDef::find(key) {
        return Some((def, None));
    }
    for (prefix, on) in [("skip", "OFF"), ("disable", "OFF"), ("enable", "ON")] {
        let rest = key.strip_prefix(prefix).and_then(|rest| rest.strip_prefix(['-', '_']));
        if let Some(def) = rest.and_then(OptionDef::find)
            && matches!(def.kind, OptionType::Switch(_))
        {
            return Some((def, Some(on)));
        }
    }
    None
}

fn refuse(entry: &GivenOption, problem: String, allowed: String) -> OptionError {
    let origin: OptionOrigin = entry.origin.clone();
    OptionError { origin, key: entry.key.clone(), problem, allowed }
}

#[cfg(test)]
mod tests;
