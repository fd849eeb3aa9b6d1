//! A recording as a workload of a study: its options, and the checks before anything is started.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::Pace;
use crate::definition::{Definition, WorkloadDef};
use crate::error::Tried;
use crate::load::recording::kind::{Kind, Sent};
use crate::load::recording::{Recording, data, file};
use crate::load::workload::{Options, Script};
use crate::server::target::Target;
use crate::study::preparation::used_servers;
use crate::{Error, Result};

/// The options of a workload `replay`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Told {
    recording: PathBuf,
    data: Option<PathBuf>,
    pace: Pace,
    sent: Option<Sent>,
}

impl Told {
    /// Parses a workload's options.
    fn of(options: &Options) -> std::result::Result<Told, String> {
        const KNOWN: [&str; 4] = ["recording", "data", "pace", "send"];
        if let Some(other) = options.keys().find(|name| !KNOWN.contains(&name.as_str())) {
            return Err(format!("`{other}`: {} are allowed", KNOWN.join(", ")));
        }
        let recording =
            options.get("recording").ok_or("`recording` is missing: the file that `tare lab record` made")?;
        Ok(Told {
            recording: recording.into(),
            data: options.get("data").map(PathBuf::from),
            pace: options.get("pace").map_or(Ok(Pace::default()), |text| text.parse())?,
            sent: options.get("send").map(|text| text.parse()).transpose()?,
        })
    }
}

/// Checks a workload that is a recording; the error names the key.
pub(crate) fn check(workload: &WorkloadDef) -> std::result::Result<(), (&'static str, String)> {
    if workload.workload().script != Script::Recorded {
        return Ok(());
    }
    Told::of(&workload.given()).map_err(|why| ("options", why))?;
    if !workload.rates.is_empty() {
        let why = "a recording has its own times: options = { pace = \"own\" }";
        return Err(("rates", why.into()));
    }
    Ok(())
}

/// Returns whether a workload keeps the recording's times, so that its driver must not be stopped.
pub(crate) fn goes_by_the_clock(workload: &WorkloadDef) -> bool {
    workload.workload().script == Script::Recorded
        && Told::of(&workload.given()).is_ok_and(|told| told.pace == Pace::Own)
}

/// Reads the recordings of a study, and refuses unrequested kinds of statements, before anything is started.
pub(crate) fn check_recordings(definition: &Definition, study: &str) -> Result<()> {
    for workload in definition.workloads.iter().filter(|w| w.workload().script == Script::Recorded) {
        let Ok(told) = Told::of(&workload.given()) else { continue }; // checked when the study was read
        let recording = file::read(&told.recording)?;
        if told.sent.is_none() {
            refuse_unasked(&recording, &told.recording, "the workload's option `send`")?;
        }
        let Some(dump) = told.data else { continue };
        std::fs::metadata(&dump).tried(|| format!("reading the workload's data {}", dump.display()))?;
        let runs_on = |server: &str| workload.server.as_deref().is_none_or(|only| only == server);
        if let Some(server) =
            used_servers(definition).into_iter().find(|s| s.dsn.is_some() && runs_on(&s.name))
        {
            let what = format!(
                "no `data` for workload `{}`: the server `{}` runs, and loading a dump would replace what it has; leave it out, and \
                 the recording is replayed on what is there",
                workload.name, server.name
            );
            return Err(Error::Needs { study: study.into(), what });
        }
    }
    Ok(())
}

/// Returns an error if a recording has more than reads; other kinds must be requested with `key`.
pub fn refuse_unasked(recording: &Recording, path: &Path, key: &str) -> Result<()> {
    let others: Vec<String> = recording
        .kinds()
        .into_iter()
        .filter(|(kind, _)| ![Kind::Reads, Kind::Never].contains(kind))
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    if others.is_empty() {
        return Ok(());
    }
    Err(Error::NotAsked { path: path.into(), others: others.join(", "), key: key.into() })
}

/// Returns the arguments of `tare` that replay a recording on a server.
pub(crate) fn arguments(options: &Options, users: u32, target: &Target, seconds: u32) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = ["lab", "replay", "--as-driver"].map(OsString::from).into();
    let path = options.get("recording").map(|path| std::path::absolute(path).unwrap_or_else(|_| path.into()));
    arguments.extend(path.map(PathBuf::into_os_string));
    for name in ["pace", "send"] {
        arguments.extend(options.get(name).map(|value| format!("--{name}={value}").into()));
    }
    let rest =
        [format!("--dsn={}", target.dsn()), format!("--sessions={users}"), format!("--seconds={seconds}")];
    arguments.extend(rest.map(OsString::from));
    arguments
}

/// Loads a recording's data, if the study has it.
pub(crate) fn prepare(options: &Options, target: &Target) -> Result<()> {
    let (Some(recording), Some(dump)) = (options.get("recording"), options.get("data")) else {
        return Ok(());
    };
    data::load(&file::read(Path::new(recording))?, Path::new(dump), target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::recording::Statement;

    const STUDY: &str = r#"
question = "?"
slice_seconds = 1
blocks = 6
minutes = 1
precision = 0.01
margin = 0.01

[[server]]
name = "theirs"
dsn = "mysql://u@h"

[[setting]]
name = "off"

[[workload]]
name = "mine"
run = "replay"
options = OPTIONS
users = [1]
"#;

    fn read(options: &str) -> Result<Definition> {
        Definition::read(&STUDY.replace("OPTIONS", options), "mine.toml", false)
    }

    #[test]
    fn what_is_wrong_in_a_workload_is_said_when_the_study_is_read() {
        assert!(read(r#"{ recording = "x" }"#).is_ok());
        let cases = [
            ("{}", "`recording` is missing"),
            (r#"{ recording = "x", times = 2 }"#, "`times`: recording, data, pace, send are allowed"),
            (r#"{ recording = "x", pace = "slow" }"#, "`own` is allowed"),
            (r#"{ recording = "x", send = "drops" }"#, "`drops`: some of reads, writes"),
            ("{ recording = \"x\" }\nrates = [30]", "a recording has its own times"),
        ];
        for (options, expected) in cases {
            let said = read(options).expect_err("it is wrong").to_string();
            assert!(said.contains(expected), "{said}");
        }
    }

    #[test]
    fn nothing_is_done_to_a_server_that_nobody_asked_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("r.rec");
        let statement = |text: &&str| Statement { session: 1, text: (*text).into(), ..Statement::default() };
        let write = |texts: &[&str]| {
            let statements = texts.iter().map(statement).collect();
            file::write(&Recording { statements, ..Recording::default() }, &path).expect("a file");
        };
        let checked = |more: &str| {
            let options = format!("{{ recording = \"{}\"{more} }}", path.display());
            check_recordings(&read(&options).expect("a study"), "mine").map_err(|error| error.to_string())
        };
        write(&["select 1", "drop table t", "delete from t", "kill 3"]);
        let said = checked("").expect_err("it drops");
        assert!(said.contains("more than reads: 1 writes, 1 definitions. Name what"), "{said}");
        assert_eq!(checked(", send = \"reads\""), Ok(()));
        write(&["select 1", "kill 3"]);
        assert_eq!(checked(""), Ok(()));
        let said = checked(&format!(", data = \"{}\"", path.display())).expect_err("it would replace data");
        assert!(said.contains("the server `theirs` runs"), "{said}");
    }
}
