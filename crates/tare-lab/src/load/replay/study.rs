//! A recording as a workload of a study: its options, its data, and the command that replays it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::Pace;
use crate::load::recording::kind::{Sent, StatementEffect};
use crate::load::recording::{StatementRecording, data, file};
use crate::load::workload::DriverOptions;
use crate::server::target::ServerTarget;
use crate::{Error, Result};

/// The options of a workload `replay`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReplayOptions {
    pub(crate) recording: PathBuf,
    pub(crate) data: Option<PathBuf>,
    pub(crate) pace: Pace,
    pub(crate) sent: Option<Sent>,
}

impl ReplayOptions {
    /// Parses a workload's options.
    pub(crate) fn of(options: &DriverOptions) -> std::result::Result<ReplayOptions, String> {
        const KNOWN: [&str; 4] = ["recording", "data", "pace", "send"];
        if let Some(other) = options.keys().find(|name| !KNOWN.contains(&name.as_str())) {
            return Err(format!("`{other}`: {} are allowed", KNOWN.join(", ")));
        }
        let recording =
            options.get("recording").ok_or("`recording` is missing: the file that `tare lab record` made")?;
        Ok(ReplayOptions {
            recording: recording.into(),
            data: options.get("data").map(PathBuf::from),
            pace: options.get("pace").map_or(Ok(Pace::default()), |text| text.parse())?,
            sent: options.get("send").map(|text| text.parse()).transpose()?,
        })
    }
}

/// Returns an error if a recording has more than reads; other kinds must be requested with `key`.
pub fn refuse_unasked(recording: &StatementRecording, path: &Path, key: &str) -> Result<()> {
    let others: Vec<String> = recording
        .kinds()
        .into_iter()
        .filter(|(kind, _)| ![StatementEffect::Reads, StatementEffect::Never].contains(kind))
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    if others.is_empty() {
        return Ok(());
    }
    Err(Error::NotAsked { path: path.into(), others: others.join(", "), key: key.into() })
}

/// Returns the arguments of `tare` that replay a recording on a server.
pub(crate) fn arguments(
    options: &DriverOptions,
    users: u32,
    target: &ServerTarget,
    seconds: u32,
) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = ["lab", "replay", "--as-driver"].map(OsString::from).into();
    let path = options.get("recording").map(|path| std::path::absolute(path).unwrap_or_else(|_| path.into()));
    arguments.extend(path.map(PathBuf::into_os_string));
    for name in ["pace", "send"] {
        arguments.extend(options.get(name).map(|value| format!("--{name}={value}").into()));
    }
    let rest =
        [format!("--dsn={}", target.dsn()), format!("--connections={users}"), format!("--for={seconds}s")];
    arguments.extend(rest.map(OsString::from));
    arguments
}

/// Loads a recording's data, if the study has it.
pub(crate) fn prepare(options: &DriverOptions, target: &ServerTarget) -> Result<()> {
    let (Some(recording), Some(dump)) = (options.get("recording"), options.get("data")) else {
        return Ok(());
    };
    data::load(&file::read(Path::new(recording))?, Path::new(dump), target)
}
