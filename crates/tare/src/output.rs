//! Standard output: written completely, or an error. A reader that stops, as in `tare doctor | head`, ends
//! the program without an error.

use std::any::Any;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::panic::{UnwindSafe, catch_unwind, resume_unwind, set_hook, take_hook};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use nix::unistd::dup2_stdout;

use crate::endpoint::SOCKET;
use crate::exit::CLOSED;

/// The format of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// Tables and lines for people
    #[value(alias = "text")]
    Table,
    /// One JSON object
    Json,
}

impl OutputFormat {
    /// Returns whether it is for programs.
    pub(crate) fn is_json(self) -> bool {
        self == OutputFormat::Json
    }
}

/// The format of a command's output, and where it goes.
#[derive(Args, Clone, Debug)]
#[group(skip)]
pub(crate) struct CommandOutput {
    /// Format of the output
    #[arg(long, value_enum, default_value_t = OutputFormat::Table, value_name = "FORMAT")]
    pub(crate) format: OutputFormat,
    /// Write the output to this file, all of it or nothing [default: standard output]
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

impl CommandOutput {
    /// Runs a command with its standard output in the file, if one is named.
    pub(crate) fn written(&self, run: impl FnOnce() -> Result<ExitCode>) -> Result<ExitCode> {
        let Some(path) = &self.output else { return run() };
        let failed = || format!("--output {}", path.display());
        let is_special = fs::metadata(path).is_ok_and(|it| !it.is_file());
        if is_special {
            dup2_stdout(File::options().write(true).open(path).with_context(failed)?).with_context(failed)?;
            return run();
        }
        let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let permissions = fs::Permissions::from_mode(0o644);
        let file = tempfile::Builder::new().permissions(permissions).tempfile_in(folder);
        let file = file.with_context(failed)?;
        dup2_stdout(file.as_file()).with_context(failed)?;
        let status = run()?;
        std::io::stdout().flush().with_context(failed)?;
        file.persist(path).with_context(failed)?;
        Ok(status)
    }
}

/// Runs a command until its output is closed. The standard library panics then: what was started is stopped
/// as after any panic, but without a message.
pub(crate) fn until_closed(run: impl FnOnce() -> ExitCode + UnwindSafe) -> ExitCode {
    let say = take_hook();
    set_hook(Box::new(move |panic| {
        if !is_closed(panic.payload()) {
            say(panic);
        }
    }));
    catch_unwind(run).unwrap_or_else(|payload| match is_closed(&*payload) {
        true => ExitCode::from(CLOSED),
        false => resume_unwind(payload),
    })
}

fn is_closed(payload: &(dyn Any + Send)) -> bool {
    let said = payload.downcast_ref::<String>();
    said.is_some_and(|said| said.starts_with("failed printing to stdout") && said.contains("Broken pipe"))
}

/// Writes a text to standard output.
pub(crate) fn print(text: &str) -> Result<()> {
    put(&mut std::io::stdout().lock(), text)
}

/// Ignores a closed pipe: a reader such as `head` has seen enough.
fn put(output: &mut impl Write, text: &str) -> Result<()> {
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("writing standard output"),
        _ => Ok(()),
    }
}

/// Formats an error with its causes as a sentence, which the client library's own format is not.
pub(crate) fn told(error: &anyhow::Error) -> String {
    let said = error.chain().map(|cause| match cause.downcast_ref::<mysql::Error>() {
        Some(error) => tare_connect::sentence(error),
        None => cause.to_string(),
    });
    said.collect::<Vec<_>>().join(": ") + advice(error)
}

/// Returns what to do if nothing listens on tare's socket, which the error itself does not say.
fn advice(error: &anyhow::Error) -> &'static str {
    let is_of_tare = |cause: &(dyn std::error::Error + 'static)| matches!(cause.downcast_ref(), Some(tare_outlets::Error::Gone { address, .. }) if address.ends_with(SOCKET));
    if error.chain().any(is_of_tare) {
        "; `tare doctor` says whether the server runs and has tare. For a server without tare name an account (-h, -u, --dsn)"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{BufWriter, Error};

    use super::*;

    #[test]
    fn output_that_is_not_written_is_an_error_and_a_reader_that_has_gone_is_none() {
        let full = || fs::File::options().write(true).open("/dev/full").expect("/dev/full");
        // What is buffered fails only when it is flushed.
        for error in [put(&mut full(), "a report"), put(&mut BufWriter::new(full()), "a report")] {
            let error = error.expect_err("it has no room");
            assert!(error.to_string().contains("standard output"), "{error:#}");
            let kind = error.downcast_ref::<Error>().map(Error::kind);
            assert_eq!(kind, Some(ErrorKind::StorageFull), "{error:#}");
        }
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        put(&mut writer, "a report").expect("nobody wants it");
        let mut kept: Vec<u8> = vec![];
        put(&mut kept, "a report").expect("written");
        assert_eq!(kept, b"a report");
    }
}
