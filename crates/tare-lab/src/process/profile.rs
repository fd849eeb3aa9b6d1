//! CPU profiles of a server: stacks sampled by `perf`.
//!
//! The event is `cpu-clock`, the kernel's own timer, which works in virtual machines without hardware
//! counters.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use tare_server::Error;
use tare_server::process::as_pid;
use tare_server::program::{find_program, last_lines, run};

use crate::Result;
use crate::error::Tried;

/// Samples per second and processor; not a round number, so that they do not coincide with timers.
const FREQUENCY: &str = "199";
/// Method of unwinding. Distributions build servers without frame pointers, so this much of the stack is
/// saved and unwound later.
const UNWIND: &str = "dwarf,16384";

/// The sampler.
#[derive(Clone, Debug)]
pub struct Perf {
    program: PathBuf,
}

/// A profile being recorded.
#[derive(Debug)]
pub struct Sampling {
    child: Child,
    perf: PathBuf,
    data: PathBuf,
}

impl Perf {
    /// Finds the installed `perf` and checks that it may sample here.
    pub fn find(scratch: &Path) -> Result<Perf> {
        let program = find_program("perf", &[]).ok_or_else(|| Error::Missing {
            program: "perf".into(),
            hint: "on Debian, `apt-get install linux-perf` brings it".into(),
        })?;
        let data = scratch.join("perf.try");
        let mut command = Command::new(&program);
        command.args(["record", "-q", "-e", "cpu-clock", "-o"]).arg(&data).args(["--", "true"]);
        run(&mut command)?;
        Ok(Perf { program })
    }

    /// Starts to sample all threads of a process.
    pub fn start(&self, pid: u32, scratch: &Path) -> Result<Sampling> {
        let data = scratch.join("perf.data");
        let mut command = Command::new(&self.program);
        command.args([
            "record",
            "-q",
            "--call-graph",
            UNWIND,
            "-e",
            "cpu-clock",
            "-F",
            FREQUENCY,
            "-p",
            &pid.to_string(),
            "-o",
        ]);
        command.arg(&data).env("TMPDIR", scratch).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().tried(|| "starting perf".into())?;
        Ok(Sampling { child, perf: self.program.clone(), data })
    }
}

impl Sampling {
    /// Ends the recording and returns the stacks, a line `frame;frame;frame count` each.
    pub fn finish(mut self) -> Result<String> {
        // On this signal `perf` writes its samples and ends.
        let _ = kill(as_pid(self.child.id()), Signal::SIGINT);
        self.child.wait().tried(|| "waiting for perf".into())?;
        let mut command = Command::new(&self.perf);
        command.args([OsStr::new("script"), "-F".as_ref(), "comm,ip,sym".as_ref(), "-i".as_ref()]);
        let output = command.arg(&self.data).output().tried(|| "running perf script".into())?;
        if !output.status.success() {
            let error = Error::Program {
                program: "perf script".into(),
                status: output.status.to_string(),
                output: last_lines(&String::from_utf8_lossy(&output.stderr), 5),
            };
            return Err(error.into());
        }
        Ok(fold(&String::from_utf8_lossy(&output.stdout)))
    }
}

impl Drop for Sampling {
    fn drop(&mut self) {
        // Both fail once it has ended, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Folds equal stacks into one line each. A sample is a line with the thread's name, then its frames,
/// innermost first, indented.
fn fold(script: &str) -> String {
    let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
    for sample in script.split("\n\n") {
        let mut lines = sample.lines().skip_while(|l| l.is_empty());
        let Some(thread) = lines.next() else { continue };
        let frames: Vec<&str> = lines.filter_map(frame).collect();
        if frames.is_empty() {
            continue;
        }
        let outermost = std::iter::once(thread.trim()).chain(frames.into_iter().rev());
        let stack: Vec<String> = outermost.map(|f| f.replace([';', '\n'], ":")).collect();
        *stacks.entry(stack.join(";")).or_default() += 1;
    }
    stacks.into_iter().map(|(stack, count)| format!("{stack} {count}\n")).collect()
}

/// Returns the function in ` 55d0c0ffee main`, without its arguments, which make C++ names long.
fn frame(line: &str) -> Option<&str> {
    let (_, name) = line.trim_start().split_once(' ')?;
    let name = name.trim();
    // `operator()` and `(anonymous namespace)` have parentheses of their own.
    let own = |before: &str| before.is_empty() || before.ends_with("operator") || before.ends_with("::");
    let end = name.match_indices('(').find(|&(i, _)| !own(&name[..i])).map_or(name.len(), |(i, _)| i);
    Some(name[..end].trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_folded_outermost_first() {
        let script = "\nconnection \n\t    5580 JOIN::exec()\n\t    5581 do_command(THD*, bool)\n\n\
                      connection \n\t    5580 JOIN::exec()\n\t    5581 do_command(THD*, bool)\n\n\
                      mariadbd \n\t    7f00 [unknown]\n\n";
        assert_eq!(fold(script), "connection;do_command;JOIN::exec 2\nmariadbd;[unknown] 1\n");
    }

    #[test]
    fn arguments_are_cut_off_and_names_are_not() {
        assert_eq!(frame("\t 12ab a::(anonymous namespace)::f(int)"), Some("a::(anonymous namespace)::f"));
        assert_eq!(frame("\t 12ab Less::operator()(int, int)"), Some("Less::operator()"));
        assert_eq!(frame("\t 12ab __libc_send (inlined)"), Some("__libc_send"));
    }
}
