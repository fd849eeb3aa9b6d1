//! Checks of a study's file: each value, and references to names.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use serde::de::{Deserialize, Deserializer, Error as _};

use super::processes::starts_several;
use super::{Definition, PASSWORD, ServerDef, SettingDef, SidecarDef, WorkloadDef, recordings, twin_of};
use crate::definition::place::{DefinitionMistake, FilePosition, PositionStep, at};
use crate::error::meant;
use crate::load::workload::{self, Workload};
use crate::results::record::Measure;
use crate::statistics::sequential::{Errors, Looks, MOST};

impl Definition {
    pub(super) fn check(&self) -> std::result::Result<(), DefinitionMistake> {
        self.check_figures()?;
        let servers = names("server", self.servers.iter().map(|s| &s.name))?;
        let settings = names("setting", self.settings.iter().map(|s| &s.name))?;
        let workloads = names("workload", self.workloads.iter().map(|w| &w.name))?;
        for (i, server) in self.servers.iter().enumerate() {
            server.check().map_err(|(key, why)| (at("server", i, key), why))?;
            if let Some(other) = self.servers[..i].iter().find(|it| it.dsn.is_some() && it.dsn == server.dsn)
            {
                let why = format!("it is `{}`'s: a server that runs is named once", other.name);
                return Err((at("server", i, "dsn"), why));
            }
        }
        for (i, setting) in self.settings.iter().enumerate() {
            let place = |key| at("setting", i, key);
            known(setting.server.as_ref(), &servers, || place("server"))?;
            known(setting.base.as_ref(), &settings, || place("base"))?;
            self.check_name(setting).map_err(|why| (place("name"), why))?;
            self.check_former_names(i).map_err(|why| (place("formerly"), why))?;
            self.check_setting(setting).map_err(|(key, why)| (place(key), why))?;
            for (nth, sidecar) in setting.sidecars.iter().enumerate() {
                let place =
                    |key| [place("sidecar"), vec![PositionStep::Nth(nth), PositionStep::Key(key)]].concat();
                sidecar.check().map_err(|(key, why)| (place(key), why))?;
            }
        }
        for (i, workload) in self.workloads.iter().enumerate() {
            known(workload.server.as_ref(), &servers, || at("workload", i, "server"))?;
            self.check_bases(workload).map_err(|why| (at("workload", i, "server"), why))?;
            check_users(&workload.users).map_err(|why| (at("workload", i, "users"), why))?;
            recordings::check(workload).map_err(|(key, why)| (at("workload", i, key), why))?;
            check_rates(&workload.rates).map_err(|why| (at("workload", i, "rates"), why))?;
        }
        self.check_measure()?;
        for name in &self.warm_ups {
            known(Some(name), &settings, || vec![PositionStep::Key("warm_ups")])?;
        }
        self.check_observations()?;
        let Some(quick) = &self.quick else { return Ok(()) };
        let place = |key| vec![PositionStep::Key("quick"), PositionStep::Key(key)];
        for name in quick.settings.iter().flatten() {
            known(Some(name), &settings, || place("settings"))?;
        }
        for name in quick.workloads.iter().flatten() {
            known(Some(name), &workloads, || place("workloads"))?;
        }
        for name in quick.options.keys() {
            known(Some(name), &workloads, || place("options"))?;
        }
        quick.users.as_ref().map_or(Ok(()), |users| check_users(users)).map_err(|why| (place("users"), why))
    }

    pub(super) fn check_figures(&self) -> std::result::Result<(), DefinitionMistake> {
        let wrong = |key, why: &str| Err((vec![PositionStep::Key(key)], why.to_owned()));
        let share = |value: f64| value > 0.0 && value < 1.0;
        match () {
            () if !(0.1..=3600.0).contains(&self.slice_seconds) => {
                wrong("slice_seconds", "0.1 to 3600 are allowed")
            }
            () if !(self.turn_milliseconds == 0 || (20..=60_000).contains(&self.turn_milliseconds)) => {
                wrong("turn_milliseconds", "20 to 60000 are allowed, or 0 for slices at a stretch")
            }
            () if self.blocks < least_observations() => wrong(
                "blocks",
                &format!("{0} or more are allowed: an interval needs {0}", least_observations()),
            ),
            () if self.least_blocks > self.blocks => wrong(
                "blocks",
                &format!(
                    "`least_blocks` asks for {0} of every cell: write `blocks = {0}` or more, or fewer `least_blocks`",
                    self.least_blocks
                ),
            ),
            () if !(1..=self.blocks).contains(&self.blocks_per_start) => {
                wrong("blocks_per_start", "1 to `blocks` are allowed")
            }
            () if !(self.minutes > 0.0 && self.minutes.is_finite()) => {
                wrong("minutes", "a number above 0 is allowed")
            }
            () if !share(self.precision) => wrong("precision", SHARE),
            () if !share(self.margin) => wrong("margin", SHARE),
            () => Ok(()),
        }
    }

    /// Checks that there are as many observations as an interval needs, and no more than it is made of. Where
    /// settings have servers of their own, each start of these is one, not each block.
    pub(super) fn check_observations(&self) -> std::result::Result<(), DefinitionMistake> {
        let starts = self.blocks.div_ceil(self.blocks_per_start);
        let why = match () {
            () if starts_several(self) && starts < least_observations() => self.too_few_starts(starts),
            () if self.blocks > most_observations() && self.observes_blocks() => format!(
                "an interval is made of {0} blocks at most where settings are switched on one server: write `blocks = {0}` or \
                 less, and longer slices (`slice_seconds`) to measure for longer",
                most_observations()
            ),
            () if starts > most_observations() => self.too_many_starts(starts),
            () => return Ok(()),
        };
        Err((vec![PositionStep::Key("blocks")], why))
    }

    fn too_few_starts(&self, starts: u32) -> String {
        let (least, per_start) = (least_observations(), self.blocks_per_start);
        // More starts come from more blocks, or from fewer blocks per start.
        let (needed, less) = ((least - 1) * per_start + 1, (self.blocks - 1) / (least - 1));
        format!(
            "with {per_start} blocks per start the servers would be started {starts} times, and an interval needs {least} starts where \
             settings have servers of their own: write `blocks = {needed}` or more, or `blocks_per_start = {less}`"
        )
    }

    fn too_many_starts(&self, starts: u32) -> String {
        let (most, per_start) = (most_observations(), self.blocks_per_start);
        // Fewer starts come from fewer blocks, or from more blocks per start.
        let (allowed, more) = (most * per_start, self.blocks.div_ceil(most));
        format!(
            "with {per_start} blocks per start the servers would be started {starts} times, and an interval is made of {most} starts \
             at most where settings have servers of their own: write `blocks = {allowed}` or less, or `blocks_per_start = {more}` or \
             more"
        )
    }

    /// Returns whether each block of some setting is an observation, because it shares a process with its
    /// base.
    fn observes_blocks(&self) -> bool {
        let on = |server: &ServerDef| {
            let settings = self.settings.iter().filter(|s| self.server_of(s).name == server.name);
            let settings: Vec<SettingDef> = settings.cloned().collect();
            if !settings.iter().any(|s| self.base_of(s) == s.name) {
                return false;
            }
            let (is_theirs, are_compared) = (server.dsn.is_some(), settings.len() > 1);
            let alone = Definition { settings, ..self.clone() };
            is_theirs || are_compared && !starts_several(&alone)
        };
        self.servers.iter().any(on)
    }

    /// Refuses the measure `time` for transactions that come at a given rate, which no setting changes.
    fn check_measure(&self) -> std::result::Result<(), DefinitionMistake> {
        let is_given =
            |workload: &&WorkloadDef| !workload.rates.is_empty() || recordings::goes_by_the_clock(workload);
        match self.workloads.iter().find(is_given) {
            Some(workload) if self.measure == Measure::Time => {
                let why = format!(
                    "transactions of `{}` come at a given rate, whatever a setting costs: use `cpu` or `p95`",
                    workload.name
                );
                Err((vec![PositionStep::Key("measure")], why))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a name that the A/A control of some base will get, also with `--quick`, which may leave out
    /// the first base.
    fn check_name(&self, setting: &SettingDef) -> std::result::Result<(), String> {
        let is_base = |other: &&SettingDef| self.base_of(other) == other.name;
        match self.settings.iter().filter(is_base).find(|base| twin_of(&base.name) == setting.name) {
            None => Ok(()),
            Some(base) => Err(format!(
                "`{}` is the name of the A/A control of `{}`: choose another name",
                setting.name, base.name
            )),
        }
    }

    /// Refuses a former name that more than one setting has or had: results would belong to both.
    fn check_former_names(&self, nth: usize) -> std::result::Result<(), String> {
        let had_before = self.settings[..nth].iter().flat_map(|s| &s.formerly);
        let mut taken: BTreeSet<&String> = self.settings.iter().map(|s| &s.name).chain(had_before).collect();
        match self.settings[nth].formerly.iter().find(|name| name.is_empty() || !taken.insert(name)) {
            None => Ok(()),
            Some(name) => Err(format!("`{name}`: a name that no setting has or had is allowed")),
        }
    }

    /// Checks that every setting under a load has its base under the same load.
    fn check_bases(&self, workload: &WorkloadDef) -> std::result::Result<(), String> {
        for setting in self.settings.iter().filter(|s| self.runs(workload, s)) {
            let Some(base) = self.settings.iter().find(|s| s.name == self.base_of(setting)) else { continue };
            if !self.runs(workload, base) {
                let (server, elsewhere) = (&self.server_of(setting).name, &self.server_of(base).name);
                return Err(format!(
                    "`{}` is on `{server}`, and compared with `{}`, which is on `{elsewhere}` and would not have this load: leave \
                     `server` out, or give `{}` a `base` on `{server}`",
                    setting.name, base.name, setting.name
                ));
            }
        }
        Ok(())
    }

    fn check_setting(&self, setting: &SettingDef) -> std::result::Result<(), (&'static str, String)> {
        let server = self.server_of(setting);
        let start_only = [
            ("options", !setting.options.is_empty()),
            ("preload", setting.preload.is_some()),
            ("environment", !setting.environment.is_empty()),
            ("logs", !setting.logs.is_empty()),
        ];
        if let Some((key, _)) = start_only.into_iter().find(|(_, given)| *given && server.dsn.is_some()) {
            let why = format!(
                "server `{}` already runs (dsn); only `switch` and sidecars are allowed",
                server.name
            );
            return Err((key, why));
        }
        if setting.warm_up_seconds == 0 {
            return Err(("warm_up_seconds", "a whole number of seconds, 1 or more".to_owned()));
        }
        let goes_on = setting.goes_on_between_turns();
        if goes_on && server.dsn.is_some() {
            let why = format!(
                "server `{}` already runs (dsn): with sidecars its slices are taken at a stretch",
                server.name
            );
            return Err(("stretch", why));
        }
        if goes_on && setting.sidecars.iter().any(|sidecar| sidecar.charged) {
            let why = "in turns the server alone is charged: write `charged = false` for its sidecars";
            return Err(("stretch", why.to_owned()));
        }
        let base =
            self.settings.iter().find(|s| s.name == self.base_of(setting)).unwrap_or(&self.settings[0]);
        if self.base_of(base) != base.name {
            return Err(("base", format!("`{}` has a base itself; name that one", base.name)));
        }
        Ok(())
    }
}

/// Returns the fewest observations that give an interval.
fn least_observations() -> u32 {
    static LEAST: OnceLock<u32> = OnceLock::new();
    *LEAST.get_or_init(|| {
        (1..).find(|&n| Looks::at_most(Errors::Skewed, n as usize).first() <= n as usize).unwrap_or(u32::MAX)
    })
}

/// Returns the most observations that an interval is made of.
fn most_observations() -> u32 {
    u32::try_from(MOST).unwrap_or(u32::MAX)
}

const SHARE: &str = "a share between 0 and 1 is allowed, such as 0.005 for half a percent";

impl ServerDef {
    fn check(&self) -> std::result::Result<(), (&'static str, String)> {
        match (&self.program, &self.dsn) {
            (Some(_), Some(_)) => Err(("dsn", "either `program` or `dsn` is allowed, not both".into())),
            (None, None) => Err(("name", "it needs `program` (to start) or `dsn` (of one that runs)".into())),
            (None, Some(dsn)) => {
                let dsn = tare_connect::Dsn::read(dsn).map_err(|why| ("dsn", why.to_string()))?;
                if dsn.password.is_some_and(|password| !password.reveal().is_empty()) {
                    let why = format!(
                        "no password is allowed here, as results repeat the study; put it into the environment variable {PASSWORD}"
                    );
                    return Err(("dsn", why));
                }
                Ok(())
            }
            (Some(_), None) => Ok(()),
        }
    }
}

impl SidecarDef {
    fn check(&self) -> std::result::Result<(), (&'static str, String)> {
        if (0.1..=3600.0).contains(&self.scrape_seconds) {
            return Ok(());
        }
        Err(("scrape_seconds", "0.1 to 3600 are allowed".into()))
    }
}

/// Returns the names of a list's entries; refuses empty lists, empty names and duplicates.
fn names<'a>(
    list: &'static str,
    all: impl Iterator<Item = &'a String>,
) -> std::result::Result<BTreeSet<&'a str>, DefinitionMistake> {
    let mut names = BTreeSet::new();
    for (i, name) in all.enumerate() {
        if name.is_empty() || !names.insert(name.as_str()) {
            return Err((
                at(list, i, "name"),
                format!("`{name}`: a name that no other {list} has is allowed"),
            ));
        }
    }
    if names.is_empty() {
        return Err((vec![PositionStep::Key(list)], format!("at least one [[{list}]] is needed")));
    }
    Ok(names)
}

/// Reads the name of a workload.
pub(super) fn workload<'de, D: Deserializer<'de>>(
    name: D,
) -> std::result::Result<&'static Workload, D::Error> {
    let name = String::deserialize(name)?;
    let names = || workload::WORKLOADS.iter().map(|w| w.name).collect();
    workload::find(&name).ok_or_else(|| D::Error::custom(unknown(&name, &names())))
}

fn known(
    name: Option<&String>,
    names: &BTreeSet<&str>,
    place: impl Fn() -> FilePosition,
) -> std::result::Result<(), DefinitionMistake> {
    match name {
        Some(name) if !names.contains(name.as_str()) => Err((place(), unknown(name, names))),
        _ => Ok(()),
    }
}

fn unknown(name: &str, names: &BTreeSet<&str>) -> String {
    let allowed: Vec<String> = names.iter().map(|n| format!("`{n}`")).collect();
    let meant = meant(name, names.iter().copied());
    format!("there is no `{name}`{meant}; allowed: {}", allowed.join(", "))
}

fn check_users(users: &[u32]) -> std::result::Result<(), String> {
    let allowed = "one or more numbers from 1 to 4096, none twice, are allowed";
    let distinct: BTreeSet<&u32> = users.iter().collect();
    let fine =
        !users.is_empty() && distinct.len() == users.len() && users.iter().all(|u| (1..=4096).contains(u));
    if fine { Ok(()) } else { Err(allowed.into()) }
}

fn check_rates(rates: &[u32]) -> std::result::Result<(), String> {
    let distinct: BTreeSet<&u32> = rates.iter().collect();
    let fine = distinct.len() == rates.len() && rates.iter().all(|rate| (1..=100).contains(rate));
    if fine {
        Ok(())
    } else {
        Err("percentages from 1 to 100, none twice, are allowed, such as [30, 60, 90]".into())
    }
}

#[cfg(test)]
mod tests {
    use crate::definition::Definition;

    const STUDY: &str = r#"question = "What does it cost?"
slice_seconds = 5
blocks = 30
minutes = 60
precision = 0.005
margin = 0.01

[[server]]
name = "A"
program = "mariadbd"

[[server]]
name = "B"
program = "mariadbd"

[[setting]]
name = "off"

[[setting]]
name = "strict"
server = "B"
base = "strict"

[[setting]]
name = "on"
server = "B"
base = "strict"

[[workload]]
name = "reads"
run = "oltp_read_only"
users = [1]
server = "B"

[quick]
settings = ["strict", "on"]
"#;

    fn refused(text: &str, quick: bool) -> String {
        Definition::read(text, "s.toml", quick).expect_err("wrong").to_string()
    }

    #[test]
    fn a_setting_is_not_called_like_a_twin() {
        Definition::read(STUDY, "s.toml", false).expect("a study");
        for (base, quick) in [("off", false), ("strict", false), ("strict", true)] {
            let said = refused(&STUDY.replace("\"on\"", &format!("\"{base} again\"")), quick);
            let expected = format!(
                "line 25, `name`: `{base} again` is the name of the A/A control of `{base}`: choose another name"
            );
            assert!(said.contains(&expected), "{said}");
        }
    }

    /// `--quick` makes another base the first one of its server, which so gets the A/A control.
    #[test]
    fn a_setting_is_not_called_like_a_twin_that_quick_makes() {
        let text = STUDY.replace("server = \"B\"\n", "").replace("\"on\"", "\"strict again\"");
        for quick in [false, true] {
            assert!(refused(&text, quick).contains("the A/A control of `strict`"), "quick: {quick}");
        }
    }

    #[test]
    fn a_former_name_belongs_to_one_setting() {
        let with =
            |formerly: &str| STUDY.replace("name = \"on\"", &format!("name = \"on\"\nformerly = {formerly}"));
        let study = Definition::read(&with("[\"built-in\", \"all\"]"), "s.toml", false).expect("a study");
        assert_eq!(study.settings[4].formerly, ["built-in", "all"]);
        // The A/A control had the name of its base's control.
        let text = STUDY.replace("name = \"off\"", "name = \"off\"\nformerly = [\"none\"]");
        let study = Definition::read(&text, "s.toml", false).expect("a study");
        assert_eq!(
            (study.settings[1].name.as_str(), &study.settings[1].formerly[..]),
            ("off again", &["none again".to_owned()][..])
        );
        for wrong in ["[\"on\"]", "[\"off\"]", "[\"all\", \"all\"]", "[\"\"]"] {
            let said = refused(&with(wrong), false);
            assert!(
                said.contains("line 26, `formerly`") && said.contains("no setting has or had"),
                "{wrong}: {said}"
            );
        }
        let said = refused(
            &with("[\"all\"]").replace("name = \"off\"", "name = \"off\"\nformerly = [\"all\"]"),
            false,
        );
        assert!(said.contains("line 27, `formerly`: `all`"), "{said}");
    }

    #[test]
    fn a_base_has_the_load_of_what_is_compared_with_it() {
        let said = refused(&STUDY.replace("base = \"strict\"", "base = \"off\""), false);
        let expected = "line 33, `server`: `strict` is on `B`, and compared with `off`, which is on `A`";
        assert!(said.contains(expected) && said.contains("leave `server` out"), "{said}");
        let everywhere = STUDY.replace("users = [1]\nserver = \"B\"", "users = [1]");
        let everywhere = everywhere.replace("base = \"strict\"", "base = \"off\"");
        assert!(Definition::read(&everywhere, "s.toml", false).is_ok());
    }

    #[test]
    fn time_is_no_measure_where_transactions_come_at_a_given_rate() {
        let with = |measure: &str| {
            STUDY.replace("slice_seconds = 5", &format!("measure = \"{measure}\"\nslice_seconds = 5"))
        };
        let read = |text: &str| Definition::read(text, "s.toml", false).map(drop);
        let replayed =
            |pace: &str| format!("\"replay\"\noptions = {{ recording = \"r\", pace = \"{pace}\" }}");
        for (from, to) in
            [("users = [1]", "users = [1]\nrates = [30]".to_owned()), ("\"oltp_read_only\"", replayed("own"))]
        {
            let said = refused(&with("time").replace(from, &to), false);
            let expected = "line 2, `measure`: transactions of `reads` come at a given rate";
            assert!(said.contains(expected) && said.contains("use `cpu` or `p95`"), "{said}");
            for measure in ["cpu", "p95"] {
                read(&with(measure).replace(from, &to)).unwrap_or_else(|e| panic!("{measure}: {e}"));
            }
        }
        // Without a rate, `time` is allowed.
        read(&with("time")).expect("a study");
        read(&with("time").replace("\"oltp_read_only\"", &replayed("fast"))).expect("a study");
    }

    #[test]
    fn a_study_of_more_observations_than_an_interval_is_made_of_is_refused() {
        let with = |blocks: u32, per_start: u32, own_servers: bool| {
            let blocks = format!("blocks = {blocks}\nblocks_per_start = {per_start}");
            let options = "name = \"on\"\noptions = [\"--performance-schema=ON\"]\n";
            let text = STUDY.replace("blocks = 30", &blocks);
            if own_servers { text.replace("name = \"on\"\n", options) } else { text }
        };
        let read = |text: &str| Definition::read(text, "s.toml", false).map(drop);
        read(&with(240, 1, false)).expect("a study");
        read(&with(720, 3, true)).expect("a study");
        // On a shared server each block is an observation, however few starts there are.
        let said = refused(&with(241, 3, false), false);
        assert!(said.contains("line 3, `blocks`") && said.contains("write `blocks = 240` or less"), "{said}");
        let said = refused(&with(721, 3, true), false);
        let expected = "started 241 times, and an interval is made of 240 starts at most where settings have servers of their \
                        own: write `blocks = 720` or less, or `blocks_per_start = 4` or more";
        assert!(said.contains("line 3, `blocks`") && said.contains(expected), "{said}");
        read(&with(721, 4, true)).expect("what is written helps");
        // The same holds for a running server with one setting and its control, whatever else is started.
        let started = with(241, 3, true).replace("server = \"B\"\nbase = \"strict\"\n\n[[work", "\n[[work");
        read(&started).expect("81 starts");
        let theirs = "name = \"B\"\ndsn = \"mysql://u@h\"";
        let theirs = started.replace("name = \"B\"\nprogram = \"mariadbd\"", theirs);
        assert!(refused(&theirs, false).contains("write `blocks = 240` or less"));
        let quick = STUDY.replace("[quick]", "[quick]\nblocks = 241");
        let said = refused(&quick, true);
        assert!(said.contains("line 36, `blocks`") && said.contains("240"), "{said}");
        read(&quick).expect("without --quick it is as it was");
    }

    #[test]
    fn no_cell_gets_more_blocks_than_there_are() {
        let with = |least: u32| STUDY.replace("blocks = 30", &format!("blocks = 30\nleast_blocks = {least}"));
        let said = refused(&with(31), false);
        assert!(said.contains("line 3, `blocks`: `least_blocks` asks for 31 of every cell"), "{said}");
        let quick = with(30).replace("[quick]", "[quick]\nblocks = 29");
        let said = refused(&quick, true);
        assert!(said.contains("line 37, `blocks`: `least_blocks` asks for 30 of every cell"), "{said}");
        for (least, blocks) in [(30, 30), (29, 29)] {
            let text = with(least).replace("[quick]", &format!("[quick]\nblocks = {blocks}"));
            assert!(Definition::read(&text, "s.toml", true).is_ok(), "{least} of {blocks}");
        }
    }

    #[test]
    fn what_is_asked_is_asked_every_so_often() {
        let with = |seconds: &str| {
            let sidecar = format!("[[setting.sidecar]]\nprogram = \"agent\"\nscrape_seconds = {seconds}\n");
            STUDY.replace("[[workload]]", &format!("{sidecar}\n[[workload]]"))
        };
        for seconds in ["-1", "0", "nan", "inf", "1e300", "0.0001"] {
            let said = refused(&with(seconds), false);
            assert!(said.contains("line 31, `scrape_seconds`: 0.1 to 3600"), "{seconds}: {said}");
        }
        for seconds in ["0.1", "2", "15.5"] {
            assert!(Definition::read(&with(seconds), "s.toml", false).is_ok(), "{seconds}");
        }
    }
}
