//! Study files: what is compared, under which load, how long and how exactly.
//!
//! A study is TOML; `studies/` has those that ship, and `docs/reference/study-file.md` explains every key. What is wrong in a file is said
//! with file, line, key and what is allowed.

mod check;

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::Result;
use crate::outpost::DriverDef;
use crate::record::{Cell, Measure};
use crate::study_file::{Step, Wrong, error, locate};
use crate::workload::{self, Options, Workload};

/// What the setting is called that a study gets for the base's twin.
const TWIN: &str = " again";

/// A study as its file says it.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// What it asks, in a sentence.
    pub question: String,
    /// The published study it repeats, or a part of it.
    pub stands_for: Option<String>,
    /// What the verdicts are about.
    #[serde(default)]
    pub measure: Measure,
    /// Length of a slice of load. At a stretch it takes whole seconds.
    pub slice_seconds: f64,
    /// Length of the turns in which the slices of a block are taken, at least; 0: each at a stretch.
    #[serde(default = "twenty_five")]
    pub turn_milliseconds: u32,
    /// Slices of every setting in every cell, at most.
    pub blocks: u32,
    /// Blocks of a cell before the servers are started anew.
    #[serde(default = "three")]
    pub blocks_per_start: u32,
    /// When to end whatever has been reached.
    pub minutes: f64,
    /// Half-width of the interval that is enough.
    pub precision: f64,
    /// Differences below this share do not matter.
    pub margin: f64,
    /// Names of the settings that get an unmeasured slice before a cell's first block; all, if none are named. For settings
    /// that are switched on one server a few warm it for all.
    #[serde(default)]
    pub warm_ups: Vec<String>,
    /// Blocks that every cell gets, also when the time is over before.
    #[serde(default)]
    pub least_blocks: u32,
    /// Whether it ends when all of this is reached, before its time and blocks are used up.
    #[serde(default = "yes")]
    pub stop_early: bool,
    /// The servers.
    #[serde(rename = "server")]
    pub servers: Vec<ServerDef>,
    /// What is compared; the first is the base of those that name none.
    #[serde(rename = "setting")]
    pub settings: Vec<SettingDef>,
    /// The load.
    #[serde(rename = "workload")]
    pub workloads: Vec<WorkloadDef>,
    /// Where it comes from, if not from here.
    pub driver: Option<DriverDef>,
    /// What `--quick` changes.
    pub quick: Option<Quick>,
}

/// A server: a program to start, or one that runs.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ServerDef {
    /// Unique in the study.
    pub name: String,
    /// Path or name of the program of a server to start.
    pub program: Option<String>,
    /// Where a running server is: `mysql://user@host:3306` or `mysql://user@localhost?socket=/run/mysqld/mysqld.sock`. Its
    /// password comes from the environment.
    pub dsn: Option<String>,
    /// Options of every setting's server.
    #[serde(default)]
    pub options: Vec<String>,
    /// What brings the program, for those who do not have it.
    pub install: Option<String>,
}

/// A setting: what is compared.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct SettingDef {
    /// Unique in the study.
    pub name: String,
    /// What it means, in words.
    #[serde(default)]
    pub meaning: String,
    /// The server it runs on; the first if none is named.
    pub server: Option<String>,
    /// The setting it is compared with; the first if none is named.
    pub base: Option<String>,
    /// Server options.
    #[serde(default)]
    pub options: Vec<String>,
    /// A shared object to preload: a path, or the name of one given on the command line (`tare`).
    pub preload: Option<String>,
    /// Variables of the server's environment.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Statements that switch a running server to the setting. Settings that otherwise agree share a server.
    #[serde(default)]
    pub switch: Vec<String>,
    /// A query whose first value must be a number other than 0, `ON` or `YES`: whether the setting is what it says.
    pub require: Option<String>,
    /// Programs that run beside the server while it has load.
    #[serde(default, rename = "sidecar")]
    pub sidecars: Vec<SidecarDef>,
    /// Files in the data directory that the setting writes; their growth is counted, and they are emptied after each slice.
    #[serde(default)]
    pub logs: Vec<String>,
    /// Length of the unmeasured slice before a cell's first block after a start, unless transactions come too seldom for it. Where
    /// the load writes, the longest of the settings that are compared is that of all.
    #[serde(default = "one")]
    pub warm_up_seconds: u32,
    /// Whether slices are taken at a stretch because of it, and not in turns; if it is not said, where it has sidecars or logs, and
    /// where its server works while nobody asks it anything.
    pub stretch: Option<bool>,
    /// Whether it is the base's twin, which every study gets.
    #[serde(skip)]
    pub twin: bool,
}

/// A program beside the server, such as an exporter, and who asks it.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct SidecarDef {
    /// Path or name of the program. One that lies beside the program that runs comes first: `tare`.
    pub program: String,
    /// Its arguments; `{socket}`, `{datadir}`, `{port}` (a free one), `{folder}` (one of its own) stand for themselves.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// Variables of its environment; the same placeholders.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Files made in its folder before it starts: name and content.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// What is asked of it over and over, such as `http://127.0.0.1:{port}/metrics`.
    pub scrape: Option<String>,
    /// Seconds of load between two scrapes.
    #[serde(default = "fifteen")]
    pub scrape_seconds: f64,
    /// Whether it serves TLS, with a certificate made for it (`{folder}/cert.pem`, `{folder}/key.pem`).
    #[serde(default)]
    pub tls: bool,
    /// Whether its CPU time is part of the cost; or else it is reported beside.
    #[serde(default = "yes")]
    pub charged: bool,
    /// What brings the program.
    pub install: Option<String>,
}

/// A load.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct WorkloadDef {
    /// Unique in the study.
    pub name: String,
    /// What is driven: the name of one of [`crate::workload::WORKLOADS`].
    pub run: String,
    /// The server it runs on; all of them if none is named.
    pub server: Option<String>,
    /// Options of its script, over those it starts from.
    #[serde(default)]
    pub options: BTreeMap<String, Value>,
    /// Numbers of connections.
    pub users: Vec<u32>,
    /// At which shares of the most it can do transactions arrive, in percent; none: as fast as every connection goes on.
    #[serde(default)]
    pub rates: Vec<u32>,
    /// Statements are prepared once and executed, or sent as text each time.
    #[serde(default = "yes")]
    pub prepared: bool,
}

/// An option's value; numbers and switches may stand without quotes.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(untagged)]
pub enum Value {
    /// As text.
    Text(String),
    /// A whole number.
    Number(i64),
    /// `on` or `off`.
    Switch(bool),
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Text(text) => f.write_str(text),
            Value::Number(number) => number.fmt(f),
            Value::Switch(on) => f.write_str(if *on { "on" } else { "off" }),
        }
    }
}

impl SettingDef {
    /// Whether what it does goes by the clock, or is put off, as far as the study says: turns would count too much of it, or too
    /// little.
    pub fn is_at_a_stretch(&self) -> bool {
        self.stretch.unwrap_or(!self.sidecars.is_empty() || !self.logs.is_empty())
    }

    /// Whether sidecars run while others have their turns. Its server is then its own, so that what they ask of it is charged to it.
    pub fn goes_on_between_turns(&self) -> bool {
        !self.sidecars.is_empty() && !self.is_at_a_stretch()
    }
}

impl WorkloadDef {
    /// What is driven.
    pub fn workload(&self) -> &'static Workload {
        workload::find(&self.run).unwrap_or(&workload::WORKLOADS[0]) // checked when the study was read
    }

    /// The options given to it.
    pub fn given(&self) -> Options {
        self.options.iter().map(|(name, value)| (name.clone(), value.to_string())).collect()
    }
}

/// What `--quick` changes: whatever is named replaces what the study says.
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
    /// Names of the settings that stay.
    settings: Option<Vec<String>>,
    /// Names of the workloads that stay.
    workloads: Option<Vec<String>>,
    /// Options of workloads, by their name, over those they have.
    #[serde(default)]
    options: BTreeMap<String, BTreeMap<String, Value>>,
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

/// What the twin of a base is called.
fn twin_of(base: &str) -> String {
    format!("{base}{TWIN}")
}

impl Definition {
    /// Length of a slice at a stretch, which takes whole seconds.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // from 1 to 3600
    pub fn whole_slice_seconds(&self) -> u32 {
        self.slice_seconds.ceil() as u32
    }

    /// Reads a study; `file` names it in errors. With `quick` its overrides hold. The base gets its twin.
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

    /// A setting's server.
    pub fn server_of(&self, setting: &SettingDef) -> &ServerDef {
        let named = setting.server.as_ref().and_then(|name| self.servers.iter().find(|s| &s.name == name));
        named.unwrap_or(&self.servers[0])
    }

    /// Whether a setting gets an unmeasured slice before it is measured.
    pub(crate) fn warms_up(&self, setting: &SettingDef) -> bool {
        self.warm_ups.is_empty() || self.warm_ups.contains(&setting.name)
    }

    /// The name of what a setting is compared with.
    pub fn base_of<'a>(&'a self, setting: &'a SettingDef) -> &'a str {
        setting.base.as_deref().unwrap_or(&self.settings[0].name)
    }

    fn apply(&mut self, quick: Quick) -> std::result::Result<(), Wrong> {
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
            place.insert(0, Step::Key("quick"));
            (place, why)
        })
    }

    /// Keeps the named settings; what they are compared with must be among them.
    fn keep(&mut self, names: Option<&[String]>) -> std::result::Result<(), Wrong> {
        let Some(names) = names else { return Ok(()) };
        let kept = |name: &str| names.iter().any(|n| n == name);
        let lost = self.settings.iter().find(|s| kept(&s.name) && !kept(self.base_of(s)));
        if let Some(setting) = lost {
            let why = format!(
                "`{}` is compared with `{}`, which is missing here",
                setting.name,
                self.base_of(setting)
            );
            return Err((vec![Step::Key("quick"), Step::Key("settings")], why));
        }
        self.settings.retain(|s| names.contains(&s.name));
        Ok(())
    }

    /// Every server's first base gets a twin.
    fn add_twin(&mut self) {
        let mut settings: Vec<SettingDef> = vec![];
        for setting in &self.settings {
            let server = &self.server_of(setting).name;
            let has_twin = |s: &SettingDef| s.twin && &self.server_of(s).name == server;
            let is_base = self.base_of(setting) == setting.name;
            let twin = (is_base && !settings.iter().any(has_twin)).then(|| SettingDef {
                name: twin_of(&setting.name),
                meaning: format!("the same as `{}`, so its difference is noise", setting.name),
                base: Some(setting.name.clone()),
                twin: true,
                ..setting.clone()
            });
            settings.extend([setting.clone()].into_iter().chain(twin));
        }
        self.settings = settings;
    }

    /// Every workload at every number of connections, and at every rate where it has some.
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

    /// Whether a workload runs on a setting's server.
    pub fn runs(&self, workload: &WorkloadDef, setting: &SettingDef) -> bool {
        workload.server.as_ref().is_none_or(|server| *server == self.server_of(setting).name)
    }
}

/// Where the password of a running server is looked for.
pub const PASSWORD: &str = "TARE_LAB_PASSWORD";

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
        assert!(study.settings[1].twin && study.base_of(&study.settings[2]) == "off");
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
        // Of servers of their own a start is an observation: these are three.
        let said = refused(&with("blocks = 6\nblocks_per_start = 2"));
        let expected = "started 3 times, and an interval needs 6 starts where settings have servers of their own: write \
                        `blocks = 11` or more, or `blocks_per_start = 1`";
        assert!(said.contains("line 3, `blocks`") && said.contains(expected), "{said}");
        assert!(Definition::read(&with("blocks = 11\nblocks_per_start = 2"), "s.toml", false).is_ok());
        // What is written is what helps.
        let said = refused(&with("blocks = 17\nblocks_per_start = 4"));
        assert!(said.contains("`blocks = 21` or more, or `blocks_per_start = 3`"), "{said}");
        // On one server each block is an observation.
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
