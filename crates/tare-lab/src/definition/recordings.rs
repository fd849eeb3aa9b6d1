//! Checks of the workloads that are recordings.

use super::processes::used_servers;
use super::{Definition, WorkloadDef};
use crate::error::Tried;
use crate::load::recording::file;
use crate::load::replay::Pace;
use crate::load::replay::study::{ReplayOptions, refuse_unasked};
use crate::load::workload::SysbenchScript;
use crate::{Error, Result};

/// Checks a workload that is a recording; the error names the key.
pub(crate) fn check(workload: &WorkloadDef) -> std::result::Result<(), (&'static str, String)> {
    if workload.run.script != SysbenchScript::Recorded {
        return Ok(());
    }
    ReplayOptions::of(&workload.given()).map_err(|why| ("options", why))?;
    if !workload.rates.is_empty() {
        let why = "a recording has its own times: options = { pace = \"own\" }";
        return Err(("rates", why.into()));
    }
    Ok(())
}

/// Returns whether a workload keeps the recording's times, so that its driver must not be stopped.
pub(crate) fn goes_by_the_clock(workload: &WorkloadDef) -> bool {
    workload.run.script == SysbenchScript::Recorded
        && ReplayOptions::of(&workload.given()).is_ok_and(|told| told.pace == Pace::Own)
}

/// Reads the recordings of a study, and refuses unrequested kinds of statements, before anything is started.
pub(crate) fn check_recordings(definition: &Definition, study: &str) -> Result<()> {
    for workload in definition.workloads.iter().filter(|w| w.run.script == SysbenchScript::Recorded) {
        let Ok(told) = ReplayOptions::of(&workload.given()) else { continue }; // checked when the study was read
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::recording::{SessionStatement, StatementRecording};

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
        let statement = |text: &&str| SessionStatement {
            session: 1,
            text: (*text).into(),
            ..SessionStatement::default()
        };
        let write = |texts: &[&str]| {
            let statements = texts.iter().map(statement).collect();
            file::write(&StatementRecording { statements, ..StatementRecording::default() }, &path)
                .expect("a file");
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
