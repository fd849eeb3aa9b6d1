//! Study files: what is compared, under which load, how long and how precisely.
//!
//! A study is TOML. `studies/` has those that ship, and `docs/reference/study-file.md` explains every key. An
//! error in a file names the file, the line, the key and what is allowed.

pub mod catalogue;
mod check;
pub(crate) mod place;
pub(crate) mod processes;
pub(crate) mod recordings;

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::Result;
use crate::definition::place::{DefinitionMistake, PositionStep, error, locate};
pub use crate::error::PASSWORD;
use crate::load::outpost::DriverDef;
use crate::load::workload::{DriverOptions, Workload};
use crate::results::record::{Cell, Measure};

/// Suffix of the A/A control's name.
const CONTROL: &str = " again";

/// A study as its file describes it.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// The question it answers, in a sentence.
    pub question: String,
    /// The published study that it repeats, wholly or in part.
    pub stands_for: Option<String>,
    /// The measure that the verdicts are about.
    #[serde(default)]
    pub measure: Measure,
    /// Length of a slice of load. Without turns it is rounded up to whole seconds.
    pub slice_seconds: f64,
    /// Least length of the turns in which the slices of a block alternate; 0: no turns.
    #[serde(default = "twenty_five")]
    pub turn_milliseconds: u32,
    /// Highest number of slices of every setting in every cell.
    pub blocks: u32,
    /// Blocks of a cell between two restarts of the servers.
    #[serde(default = "three")]
    pub blocks_per_start: u32,
    /// Minutes after which the study ends in any case.
    pub minutes: f64,
    /// Half-width of the interval that is precise enough.
    pub precision: f64,
    /// Differences below this share do not matter.
    pub margin: f64,
    /// Names of the settings that get an unmeasured slice before a cell's first block; all, if empty. For
    /// settings that share a server, a few are enough to warm it up.
    #[serde(default)]
    pub warm_ups: Vec<String>,
    /// Blocks that every cell gets, even when the time is over.
    #[serde(default)]
    pub least_blocks: u32,
    /// Whether it ends as soon as all results are precise enough, before its time and blocks are used up.
    #[serde(default = "yes")]
    pub stop_early: bool,
    /// The servers.
    #[serde(rename = "server")]
    pub servers: Vec<ServerDef>,
    /// The settings; the first is the base of those that name none.
    #[serde(rename = "setting")]
    pub settings: Vec<SettingDef>,
    /// The loads.
    #[serde(rename = "workload")]
    pub workloads: Vec<WorkloadDef>,
    /// The machine that the load comes from, if not this one.
    pub driver: Option<DriverDef>,
    /// Changes that `--quick` makes.
    pub quick: Option<Quick>,
}

/// A server: a program to start, or a running server.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ServerDef {
    /// Name, unique in the study.
    pub name: String,
    /// Path or name of the program to start.
    pub program: Option<String>,
    /// Address of a running server: `mysql://user@host:3306` or
    /// `mysql://user@localhost?socket=/run/mysqld/mysqld.sock`. Its password comes from the environment.
    pub dsn: Option<String>,
    /// Options of the server in every setting.
    #[serde(default)]
    pub options: Vec<String>,
    /// How to install the program.
    pub install: Option<String>,
}

/// A setting: what is compared.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct SettingDef {
    /// Name, unique in the study.
    pub name: String,
    /// Names that it had in earlier versions of the study, whose results are compared with its own.
    #[serde(default)]
    pub formerly: Vec<String>,
    /// Its meaning in words.
    #[serde(default)]
    pub meaning: String,
    /// Name of its server; `None`: the first.
    pub server: Option<String>,
    /// Name of the setting it is compared with; `None`: the first.
    pub base: Option<String>,
    /// Server options.
    #[serde(default)]
    pub options: Vec<String>,
    /// A shared object to preload: a path, or the name of one given on the command line (`tare`).
    pub preload: Option<String>,
    /// Variables of the server's environment.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Statements that switch a running server to the setting. Settings that differ only in these share a
    /// server.
    #[serde(default)]
    pub switch: Vec<String>,
    /// A query that verifies the setting: its first value must be a number other than 0, `ON` or `YES`.
    pub require: Option<String>,
    /// Programs that run beside the server under load.
    #[serde(default, rename = "sidecar")]
    pub sidecars: Vec<SidecarDef>,
    /// Files in the data directory that the setting writes. Their growth is counted, and they are emptied
    /// after each slice.
    #[serde(default)]
    pub logs: Vec<String>,
    /// Length of the unmeasured slice before a cell's first block after a start; longer where transactions
    /// are too rare for it. Where the load writes, all compared settings use the longest one.
    #[serde(default = "one")]
    pub warm_up_seconds: u32,
    /// Whether slices are taken without turns. `None`: without turns if it has sidecars or logs, or if its
    /// server works while idle.
    pub stretch: Option<bool>,
    /// Whether it is the A/A control, which every study gets.
    #[serde(skip)]
    pub control: bool,
}

/// A program beside the server, such as an exporter, and how it is scraped.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct SidecarDef {
    /// Path or name of the program. A program next to the running one is preferred (`tare`).
    pub program: String,
    /// Arguments, with the placeholders `{socket}`, `{datadir}`, `{port}` (a free one) and `{folder}` (one of
    /// its own).
    #[serde(default)]
    pub arguments: Vec<String>,
    /// Variables of its environment, with the same placeholders.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Files created in its folder before it starts: name and content.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Address that is scraped, such as `http://127.0.0.1:{port}/metrics`.
    pub scrape: Option<String>,
    /// Seconds of load between two scrapes.
    #[serde(default = "fifteen")]
    pub scrape_seconds: f64,
    /// Whether it serves TLS, with a certificate made for it (`{folder}/cert.pem`, `{folder}/key.pem`).
    #[serde(default)]
    pub tls: bool,
    /// Whether its CPU time is part of the cost; otherwise it is reported separately.
    #[serde(default = "yes")]
    pub charged: bool,
    /// How to install the program.
    pub install: Option<String>,
}

/// A load.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct WorkloadDef {
    /// Name, unique in the study.
    pub name: String,
    /// One of [`crate::workload::WORKLOADS`], which the file names.
    #[serde(deserialize_with = "check::workload")]
    pub run: &'static Workload,
    /// Name of the server it runs on; `None`: all servers.
    pub server: Option<String>,
    /// Options of its script, which override its defaults.
    #[serde(default)]
    pub options: BTreeMap<String, OptionValue>,
    /// Numbers of connections.
    pub users: Vec<u32>,
    /// Rates of arrival in percent of the highest throughput; empty: each connection starts its next
    /// transaction at once.
    #[serde(default)]
    pub rates: Vec<u32>,
    /// Whether statements are prepared once and executed, rather than sent as text each time.
    #[serde(default = "yes")]
    pub prepared: bool,
}

/// The value of an option; numbers and switches need no quotes.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(untagged)]
pub enum OptionValue {
    /// A text.
    Text(String),
    /// A whole number.
    Number(i64),
    /// `on` or `off`.
    Switch(bool),
}

impl std::fmt::Display for OptionValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            OptionValue::Text(text) => f.write_str(text),
            OptionValue::Number(number) => number.fmt(f),
            OptionValue::Switch(on) => f.write_str(if *on { "on" } else { "off" }),
        }
    }
}

impl SettingDef {
    /// Returns whether the study says that slices are taken without turns, or implies it by sidecars or logs:
    /// work by the clock and deferred work would be counted wrongly in turns.
    pub fn is_at_a_stretch(&self) -> bool {
        self.stretch.unwrap_or(!self.sidecars.is_empty() || !self.logs.is_empty())
    }

    /// Returns whether sidecars run during the turns of other settings. It then has a server of its own, so
    /// that their queries are charged to it.
    pub fn goes_on_between_turns(&self) -> bool {
        !self.sidecars.is_empty() && !self.is_at_a_stretch()
    }
}

impl WorkloadDef {
    /// Returns the options given to it.
    pub fn given(&self) -> DriverOptions {
        self.options.iter().map(|(name, value)| (name.clone(), value.to_string())).collect()
    }
}

/// Changes of `--quick`: each replaces what the study says.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Quick {
    slice_seconds: Option<f64>,
    turn_milliseconds: Option<u32>,
    blocks: Option<u32>,
    blocks_per_start: Option<u32>,
    minutes: Option<f64>,
    precision: Option<f64>,
    margin: Option<f64>,
    /// Numbers of connections of every workload.
    users: Option<Vec<u32>>,
    /// Names of the remaining settings.
    settings: Option<Vec<String>>,
    /// Names of the remaining workloads.
    workloads: Option<Vec<String>>,
    /// Options of workloads, by workload name, which override the study's.
    #[serde(default)]
    options: BTreeMap<String, BTreeMap<String, OptionValue>>,
}

fn twenty_five() -> u32 {
    25
}

fn one() -> u32 {
    1
}

fn three() -> u32 {
    3
}

fn fifteen() -> f64 {
    15.0
}

fn yes() -> bool {
    true
}

/// Returns the name of a base's A/A control.
fn twin_of(base: &str) -> String {
    format!("{base}{CONTROL}")
}

impl Definition {
    /// Returns the length of a slice without turns, in whole seconds.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // from 1 to 3600
    pub fn whole_slice_seconds(&self) -> u32 {
        self.slice_seconds.ceil() as u32
    }

    /// Parses a study; `file` names it in errors. Applies the overrides if `quick`, and adds the A/A
    /// controls.
    ///
    /// # Examples
    ///
    /// ```
    /// use tare_lab::{catalogue, definition::Definition};
    ///
    /// let source = catalogue::find("pfs-default")?;
    /// let study = Definition::read(&source.text, &source.file, false)?;
    /// let quick = Definition::read(&source.text, &source.file, true)?;
    /// assert!(quick.minutes < study.minutes);
    ///
    /// // An error names the file, the line and the key.
    /// let text = source.text.replace("precision", "percision");
    /// let error = Definition::read(&text, &source.file, false).expect_err("no such key").to_string();
    /// assert!(error.contains("studies/pfs-default.toml") && error.contains("percision"), "{error}");
    /// # Ok::<(), tare_lab::Error>(())
    /// ```
    pub fn read(text: &str, file: &str, quick: bool) -> Result<Definition> {
        let mut definition: Definition =
            toml::from_str(text).map_err(|e| error(text, file, e.span(), e.message().to_owned()))?;
        let checked = definition.check().and_then(|()| {
            if let Some(overrides) = definition.quick.take().filter(|_| quick) {
                definition.apply(overrides)?;
            }
            Ok(())
        });
        checked.map_err(|(place, why)| error(text, file, locate(text, &place), why))?;
        definition.add_twin();
        Ok(definition)
    }

    /// Returns a setting's server.
    pub fn server_of(&self, setting: &SettingDef) -> &ServerDef {
        let named = setting.server.as_ref().and_then(|name| self.servers.iter().find(|s| &s.name == name));
        named.unwrap_or(&self.servers[0])
    }

    /// Returns whether a setting gets an unmeasured slice before it is measured.
    pub(crate) fn warms_up(&self, setting: &SettingDef) -> bool {
        self.warm_ups.is_empty() || self.warm_ups.contains(&setting.name)
    }

    /// Returns the name of the setting that a setting is compared with.
    pub fn base_of<'a>(&'a self, setting: &'a SettingDef) -> &'a str {
        setting.base.as_deref().unwrap_or(&self.settings[0].name)
    }

    fn apply(&mut self, quick: Quick) -> std::result::Result<(), DefinitionMistake> {
        let Quick {
            slice_seconds,
            turn_milliseconds,
            blocks,
            blocks_per_start,
            minutes,
            precision,
            margin,
            users,
            settings,
            workloads,
            options,
        } = quick;
        self.slice_seconds = slice_seconds.unwrap_or(self.slice_seconds);
        self.turn_milliseconds = turn_milliseconds.unwrap_or(self.turn_milliseconds);
        self.blocks = blocks.unwrap_or(self.blocks);
        self.blocks_per_start = blocks_per_start.unwrap_or(self.blocks_per_start);
        self.minutes = minutes.unwrap_or(self.minutes);
        self.precision = precision.unwrap_or(self.precision);
        self.margin = margin.unwrap_or(self.margin);
        self.workloads.retain(|w| workloads.as_ref().is_none_or(|names| names.contains(&w.name)));
        self.keep(settings.as_deref())?;
        if let Some(users) = users {
            self.workloads.iter_mut().for_each(|w| w.users.clone_from(&users));
        }
        for (name, options) in options {
            self.workloads
                .iter_mut()
                .filter(|w| w.name == name)
                .for_each(|w| w.options.extend(options.clone()));
        }
        self.check_figures().and_then(|()| self.check_observations()).map_err(|(mut place, why)| {
            place.insert(0, PositionStep::Key("quick"));
            (place, why)
        })
    }

    /// Keeps the named settings; their bases must be among them.
    fn keep(&mut self, names: Option<&[String]>) -> std::result::Result<(), DefinitionMistake> {
        let Some(names) = names else { return Ok(()) };
        let kept = |name: &str| names.iter().any(|n| n == name);
        let lost = self.settings.iter().find(|s| kept(&s.name) && !kept(self.base_of(s)));
        if let Some(setting) = lost {
            let why = format!(
                "`{}` is compared with `{}`, which is missing here",
                setting.name,
                self.base_of(setting)
            );
            return Err((vec![PositionStep::Key("quick"), PositionStep::Key("settings")], why));
        }
        self.settings.retain(|s| names.contains(&s.name));
        Ok(())
    }

    /// Adds an A/A control for every server's first base.
    fn add_twin(&mut self) {
        let mut settings: Vec<SettingDef> = vec![];
        for setting in &self.settings {
            let server = &self.server_of(setting).name;
            let has_control = |s: &SettingDef| s.control && &self.server_of(s).name == server;
            let is_base = self.base_of(setting) == setting.name;
            let control = (is_base && !settings.iter().any(has_control)).then(|| SettingDef {
                name: twin_of(&setting.name),
                formerly: setting.formerly.iter().map(|name| twin_of(name)).collect(),
                meaning: format!("the same as `{}`, so its difference is noise", setting.name),
                base: Some(setting.name.clone()),
                control: true,
                ..setting.clone()
            });
            settings.extend([setting.clone()].into_iter().chain(control));
        }
        self.settings = settings;
    }

    /// Returns every workload at every number of connections, and at every rate if it has any.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = vec![];
        for workload in &self.workloads {
            let rates: Vec<Option<u32>> = workload.rates.iter().copied().map(Some).collect();
            let rates = if rates.is_empty() { vec![None] } else { rates };
            for &users in &workload.users {
                let cell = |&percent| Cell { workload: workload.name.clone(), users, percent };
                cells.extend(rates.iter().map(cell));
            }
        }
        cells
    }

    /// Returns whether a workload runs on a setting's server.
    pub fn runs(&self, workload: &WorkloadDef, setting: &SettingDef) -> bool {
        workload.server.as_ref().is_none_or(|server| *server == self.server_of(setting).name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STUDY: &str = r#"question = "What does it cost?"
slice_seconds = 5
blocks = 30
minutes = 60
precision = 0.005
margin = 0.01

[[server]]
name = "mariadb"
program = "mariadbd"

[[setting]]
name = "off"

[[setting]]
name = "on"
options = ["--performance-schema=ON"]

[[workload]]
name = "OLTP_RO"
run = "oltp_read_only"
options = { table-size = 100000 }
users = [1, 64]

[quick]
blocks = 18
users = [2]
options.OLTP_RO = { table-size = 1000, tables = "2" }
"#;

    fn refused(text: &str) -> String {
        Definition::read(text, "s.toml", true).expect_err("wrong").to_string()
    }

    #[test]
    fn a_study_is_read_and_gets_its_twin() {
        let study = Definition::read(STUDY, "s.toml", false).expect("a study");
        let names: Vec<&str> = study.settings.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["off", "off again", "on"]);
        assert!(study.settings[1].control && study.base_of(&study.settings[2]) == "off");
        assert_eq!((study.blocks, study.blocks_per_start, study.workloads[0].users.len()), (30, 3, 2));
    }

    #[test]
    fn sidecars_go_on_between_turns_where_the_study_says_so_and_nobody_is_charged_for_them() {
        let keys =
            "name = \"on\"\nstretch = false\n[[setting.sidecar]]\nprogram = \"agent\"\ncharged = false\n";
        let with = |keys: &str| STUDY.replace("name = \"on\"\noptions = [\"--performance-schema=ON\"]", keys);
        let study = Definition::read(&with(keys), "s.toml", false).expect("a study");
        assert!(study.settings[2].goes_on_between_turns());
        assert!(!study.settings[2].is_at_a_stretch());
        let usual = Definition::read(&with(&keys.replace("stretch = false\n", "")), "s.toml", false);
        assert!(usual.expect("a study").settings[2].is_at_a_stretch());
        let charged = refused(&with(&keys.replace("charged = false\n", "")));
        assert!(charged.contains("write `charged = false`"), "{charged}");
        let theirs =
            with(keys).replace("program = \"mariadbd\"", "dsn = \"mysql://root@localhost?socket=/s\"");
        let theirs = refused(&theirs);
        assert!(theirs.contains("taken at a stretch"), "{theirs}");
    }

    #[test]
    fn a_workload_with_rates_is_driven_at_each() {
        let text = STUDY.replace("users = [1, 64]", "users = [1, 64]\nrates = [30, 90]");
        let cells = Definition::read(&text, "s.toml", false).expect("a study").cells();
        let words: Vec<String> = cells.iter().map(ToString::to_string).collect();
        let expected =
            ["1 connection at 30%", "1 connection at 90%", "64 connections at 30%", "64 connections at 90%"];
        assert_eq!(words, expected.map(|drive| format!("OLTP_RO, {drive}")));
    }

    #[test]
    fn quick_replaces_what_it_names() {
        let study = Definition::read(STUDY, "s.toml", true).expect("a study");
        assert_eq!((study.blocks, study.minutes, study.workloads[0].users[0]), (18, 60.0, 2));
        assert_eq!(study.workloads[0].given()["table-size"], "1000");
    }

    #[test]
    fn what_is_wrong_is_named_with_line_key_and_what_is_allowed() {
        let cases = [
            (("blocks = 30", "blokcs = 30"), "s.toml, line 3, `blokcs`", "`blocks_per_start`"),
            (("slice_seconds = 5", "slice_seconds = \"5\""), "line 2, `slice_seconds`", "expected f64"),
            (
                ("blocks = 30", "blocks = 30\nturn_milliseconds = 5"),
                "line 4, `turn_milliseconds`",
                "20 to 60000",
            ),
            (("slice_seconds = 5", "slice_seconds = 0"), "line 2, `slice_seconds`", "0.1 to 3600"),
            (("margin = 0.01", "margin = 1.0"), "line 6, `margin`", "between 0 and 1"),
            (("name = \"on\"", "name = \"off\""), "line 16, `name`", "no other setting"),
            (("users = [1, 64]", "users = []"), "line 23, `users`", "from 1 to 4096"),
            (("users = [1, 64]", "users = [1]\nrates = [30, 30]"), "line 24, `rates`", "from 1 to 100"),
            (("users = [1, 64]", "users = [1]\nrates = [0]"), "line 24, `rates`", "such as [30, 60, 90]"),
            (("run = \"oltp_read_only\"", "run = \"oltp\""), "line 21, `run`", "`oltp_read_only`, "),
            (("blocks = 18", "blocks = 1"), "line 26, `blocks`", "6 or more"),
            (
                ("name = \"on\"", "name = \"on\"\nwarm_up_seconds = 0"),
                "line 17, `warm_up_seconds`",
                "1 or more",
            ),
            (("blocks = 18", "settings = [\"on\"]"), "line 26, `settings`", "compared with `off`"),
            (("program = \"mariadbd\"", ""), "line 9, `name`", "`program`"),
            (("program = \"mariadbd\"", "dsn = \"mysql://u:secret@h\""), "line 10, `dsn`", PASSWORD),
            (("program = \"mariadbd\"", "dsn = \"mysql://u@h\""), "line 17, `options`", "already runs"),
            (
                (
                    "program = \"mariadbd\"",
                    "dsn = \"mysql://u@h\"\n[[server]]\nname = \"two\"\ndsn = \"mysql://u@h\"",
                ),
                "line 13, `dsn`",
                "is named once",
            ),
        ];
        for ((from, to), place, allowed) in cases {
            let said = refused(&STUDY.replacen(from, to, 1));
            assert!(said.contains(place) && said.contains(allowed), "{from} -> {to}: {said}");
        }
    }

    #[test]
    fn a_study_that_can_give_no_interval_is_refused() {
        let with = |blocks: &str| STUDY.replacen("blocks = 30", blocks, 1);
        let said = refused(&with("blocks = 4"));
        assert!(said.contains("line 3, `blocks`") && said.contains("6 or more"), "{said}");
        // With servers of their own, each start is an observation: these are three.
        let said = refused(&with("blocks = 6\nblocks_per_start = 2"));
        let expected = "started 3 times, and an interval needs 6 starts where settings have servers of their own: write \
                        `blocks = 11` or more, or `blocks_per_start = 1`";
        assert!(said.contains("line 3, `blocks`") && said.contains(expected), "{said}");
        assert!(Definition::read(&with("blocks = 11\nblocks_per_start = 2"), "s.toml", false).is_ok());
        // The proposed values are accepted.
        let said = refused(&with("blocks = 17\nblocks_per_start = 4"));
        assert!(said.contains("`blocks = 21` or more, or `blocks_per_start = 3`"), "{said}");
        // On a shared server each block is an observation.
        let one =
            with("blocks = 6\nblocks_per_start = 2").replace("options = [\"--perf", "switch = [\"--perf");
        assert!(Definition::read(&one, "s.toml", false).is_ok());
        let said = refused(&STUDY.replace("blocks = 18", "blocks = 15"));
        assert!(said.contains("line 26, `blocks`") && said.contains("started 5 times"), "{said}");
    }

    #[test]
    fn a_base_of_a_base_is_refused() {
        let text = STUDY.replace(
            "options = [\"--performance-schema=ON\"]",
            "[[setting]]\nname = \"more\"\nbase = \"on\"",
        );
        assert!(refused(&text).contains("`on` has a base itself"), "{}", refused(&text));
    }
}
