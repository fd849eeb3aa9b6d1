//! Programs: found, run to their end, and what they said.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Result;
use crate::error::{Error, Tried};

/// Finds a program by name: in the given folders, in `PATH`, then in the folders of system programs.
pub fn find_program(name: &str, first: &[PathBuf]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from);
    let mut folders = first.iter().cloned().chain(std::env::split_paths(&path)).chain(system);
    folders.find_map(|folder| Some(folder.join(name)).filter(|p| p.is_file()))
}

/// Returns a program next to the running one, or else an installed one.
pub fn beside(program: &str) -> Option<PathBuf> {
    let folder = std::env::current_exe().ok().and_then(|it| Some(it.parent()?.to_owned()));
    find_program(program, folder.as_slice())
}

/// Returns `name` followed by a path, which need not be UTF-8.
pub fn option(name: &str, path: &Path) -> OsString {
    let mut option = OsString::from(name);
    option.push(path);
    option
}

/// Runs a program and waits for its end. If it fails, the error has the last lines of its output.
pub fn run(command: &mut Command) -> Result<()> {
    let program = PathBuf::from(command.get_program());
    let output = command.output().tried(|| format!("running {}", program.display()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(Error::Program {
        program: program.display().to_string(),
        status: output.status.to_string(),
        output: last_lines(&String::from_utf8_lossy(&said), 15),
    })
}

/// Returns the last lines of a text.
pub fn last_lines(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.trim_end().lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_program_says_what_it_printed() {
        let error =
            run(Command::new("sh").args(["-c", "echo first; echo why >&2; exit 3"])).expect_err("fails");
        let text = error.to_string();
        assert!(text.contains("why") && text.contains("exit status: 3"), "{text}");
    }

    #[test]
    fn only_the_end_of_a_long_text_is_kept() {
        assert_eq!(last_lines("a\nb\nc\n", 2), "b\nc");
        assert_eq!(last_lines("", 2), "");
    }
}
