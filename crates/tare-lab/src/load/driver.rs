//! Load on a server, driven by sysbench.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use tare_server::program::{beside, find_program, last_lines};

use crate::error::PASSWORD;
use crate::error::Tried;
use crate::load::arrivals::Arrivals;
use crate::load::outpost::{self, OBEYED, Outpost};
use crate::load::replay::study;
use crate::load::sysbench::{DriverEvent, DriverReport, moment_of, report_of};
use crate::load::workload::{self, DriverOptions, SysbenchScript};
use crate::process::as_pid;
use crate::process::interrupt::Interrupt;
use crate::process::priority::Ahead;
use crate::server::target::ServerTarget;
use crate::{Error, Result};

/// How often a waiting reader checks the interrupt flag.
const STEP: Duration = Duration::from_millis(50);
/// How long a load may exceed its time before it is aborted.
const OVERTIME: Duration = Duration::from_secs(120);
/// Name of the file with the password, in the scripts' folder.
const PASSWORD_FILE: &str = "password.cnf";

/// Name of the program that replays recordings.
const TARE: &str = "tare";

/// The load driver, with the lab's scripts in a folder or on another machine.
#[derive(Clone, Debug)]
pub struct Driver {
    sysbench: PathBuf,
    folder: PathBuf,
    outpost: Option<Outpost>,
}

/// A load to run.
#[derive(Clone, Debug)]
pub struct Load {
    /// The script.
    pub script: SysbenchScript,
    /// The schema of its tables.
    pub schema: String,
    /// Number of connections, each a thread.
    pub users: u32,
    /// Options of the script.
    pub options: DriverOptions,
    /// Whether statements are prepared once and executed, rather than sent as text each time. MariaDB makes
    /// no digest of an execution.
    pub prepared: bool,
    /// Arrivals of transactions; `None`: each connection starts the next transaction when its last one ends.
    pub arrivals: Option<Arrivals>,
}

impl Driver {
    /// Finds the installed sysbench, or uses that of an outpost; the lab's scripts go to a folder in
    /// `scratch`.
    pub fn new(scratch: &Path, outpost: Option<Outpost>) -> Result<Driver> {
        let here = || find_program("sysbench", &[]);
        let sysbench = if outpost.is_some() { Some("sysbench".into()) } else { here() };
        let sysbench = sysbench.ok_or_else(|| tare_server::Error::Missing {
            program: "sysbench".into(),
            hint: "on Debian, `apt-get install sysbench` brings it".into(),
        })?;
        let folder = scratch.join("workloads");
        fs::create_dir_all(&folder).tried(|| format!("making {}", folder.display()))?;
        workload::install(&folder)?;
        Ok(Driver { sysbench, folder, outpost })
    }

    /// Returns the other machine, if the load comes from one.
    pub(crate) fn outpost(&self) -> Option<&Outpost> {
        self.outpost.as_ref()
    }

    /// Runs a command of the load's script, such as `prepare` or `check`; passes its output to `line`.
    pub fn command(
        &self,
        load: &Load,
        target: &ServerTarget,
        command: &str,
        interrupt: &Interrupt,
        line: &mut dyn FnMut(&str),
    ) -> Result<()> {
        if load.script == SysbenchScript::Recorded {
            return study::prepare(&load.options, target); // the only command it has
        }
        let (mut program, input) = self.program(load, target, &[command], None)?;
        Drive::start(&mut program, None, input)?.collect(interrupt, line).map(drop)
    }

    /// Runs a load for `seconds`; passes its events to `moment` as they happen.
    pub fn run(
        &self,
        load: &Load,
        target: &ServerTarget,
        seconds: u32,
        interrupt: &Interrupt,
        moment: &mut dyn FnMut(DriverEvent) -> Result<()>,
    ) -> Result<DriverReport> {
        let drive = self.start(load, target, seconds)?;
        let _ahead = Ahead::of_others();
        drive.finish(interrupt, moment)
    }

    /// Starts a load of `seconds` in the background.
    pub fn start(&self, load: &Load, target: &ServerTarget, seconds: u32) -> Result<Drive> {
        let limit = Some(Duration::from_secs(seconds.into()) + OVERTIME);
        if load.script == SysbenchScript::Recorded {
            return Drive::start(&mut self.replay(load, target, seconds)?, limit, Input::Nothing);
        }
        // A paced load ends when all its arrivals have been served.
        let time = format!("--time={}", if load.arrivals.is_some() { 0 } else { seconds });
        let run = [&time, "--report-interval=1", "--histogram=on", "--percentile=95", "run"];
        let arrivals = load.arrivals.map(|arrivals| (arrivals, seconds));
        let (mut program, input) = self.program(load, target, &run, arrivals)?;
        Drive::start(&mut program, limit, input)
    }

    /// Returns the command that replays a recording; its program is next to the one that runs the study.
    fn replay(&self, load: &Load, target: &ServerTarget, seconds: u32) -> Result<Command> {
        let mut command = Command::new(beside(TARE).ok_or_else(|| tare_server::Error::Missing {
            program: TARE.into(),
            hint: "it replays recordings, and lies beside the program that runs the study".into(),
        })?);
        command.args(study::arguments(&load.options, load.users, target, seconds));
        command.env(PASSWORD, target.password.as_ref().map_or("", |it| it.reveal()));
        // The watchdog finds the processes of its folder by this variable.
        command.env("TMPDIR", self.folder.parent().unwrap_or(&self.folder));
        Ok(command)
    }

    /// Returns the command to start, and its input.
    fn program(
        &self,
        load: &Load,
        target: &ServerTarget,
        last: &[&str],
        arrivals: Option<(Arrivals, u32)>,
    ) -> Result<(Command, Input)> {
        let script = if arrivals.is_some() { workload::PACED } else { load.script };
        let target = &self.outpost.as_ref().map_or_else(|| target.clone(), |outpost| outpost.seen(target));
        let secret =
            target.password.as_ref().map(|password| format!("mysql-password={}\n", password.reveal()));
        let (mut command, input) = match &self.outpost {
            Some(outpost) => {
                let arguments = arguments(script, load, target, Path::new("."), last);
                let files =
                    script.file().into_iter().chain(secret.as_deref().map(|text| (PASSWORD_FILE, text)));
                let text = outpost::script(&files.collect::<Vec<_>>(), &arguments);
                (outpost.command(), Input::Script(text))
            }
            None => {
                secret.map_or(Ok(()), |text| self.write_secret(&text))?;
                let mut command = Command::new(&self.sysbench);
                command.args(arguments(script, load, target, &self.folder, last));
                (
                    command,
                    arrivals.map_or(Input::Nothing, |(arrivals, seconds)| Input::Arrivals(arrivals, seconds)),
                )
            }
        };
        command.current_dir(&self.folder).env("TARE_WORKLOAD", load.script.module());
        // The watchdog finds the processes of its folder by this variable.
        command.env("TMPDIR", self.folder.parent().unwrap_or(&self.folder));
        Ok((command, input))
    }

    /// Writes the password to a file that only this account can read, because command lines are public.
    fn write_secret(&self, text: &str) -> Result<()> {
        let path = self.folder.join(PASSWORD_FILE);
        let what = || format!("writing {}", path.display());
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&path).tried(what)?;
        file.set_permissions(fs::Permissions::from_mode(0o600)).tried(what)?;
        (&file).write_all(text.as_bytes()).tried(what)
    }
}

/// Returns the driver's arguments, with the lab's scripts and the password in `folder`.
fn arguments(
    script: SysbenchScript,
    load: &Load,
    target: &ServerTarget,
    folder: &Path,
    last: &[&str],
) -> Vec<String> {
    let path = |path: PathBuf| path.display().to_string();
    let mut arguments = vec![path(script.argument(folder)), "--db-driver=mysql".into()];
    arguments.extend(target.driver_options());
    if target.password.is_some() {
        arguments.push(format!("--config-file={}", path(folder.join(PASSWORD_FILE))));
    }
    arguments.push(format!("--mysql-db={}", load.schema));
    arguments.push(format!("--threads={}", load.users));
    arguments.push(format!("--db-ps-mode={}", if load.prepared { "auto" } else { "disable" }));
    arguments.extend(load.options.iter().map(|(name, value)| format!("--{name}={value}")));
    arguments.extend(last.iter().map(|&argument| argument.to_owned()));
    arguments
}

/// The standard input of the driver.
#[derive(Debug)]
enum Input {
    Nothing,
    /// The arrivals of so many seconds.
    Arrivals(Arrivals, u32),
    /// A script for a shell on another machine, which then reads orders.
    Script(String),
}

/// A running driver, which is killed when dropped.
#[derive(Debug)]
pub struct Drive {
    process: DriverProcess,
    lines: Receiver<String>,
    errors: JoinHandle<String>,
    output: String,
    begun: Instant,
    limit: Option<Duration>,
    /// Its arrivals, until it has started.
    arrivals: Option<(Arrivals, u32)>,
    /// The pipe for orders to a driver on another machine.
    orders: Option<ChildStdin>,
}

impl Drive {
    fn start(command: &mut Command, limit: Option<Duration>, input: Input) -> Result<Drive> {
        // In a process group of its own: Ctrl-C in a terminal must reach only this process, which then ends
        // the driver.
        let stdin = if matches!(input, Input::Nothing) { Stdio::null() } else { Stdio::piped() };
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let program = command.get_program().to_owned();
        let what = || format!("starting {}", program.display());
        let mut child = command.spawn().tried(what)?;
        let pipes = child.stdout.take().zip(child.stderr.take());
        let process = DriverProcess { child };
        let (out, mut said) = pipes.ok_or_else(|| std::io::Error::other("it has no pipes")).tried(what)?;
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = said.read_to_string(&mut text); // what cannot be read is not shown
            text
        });
        let mut drive = Drive {
            process,
            lines: lines_of(out),
            errors,
            output: String::new(),
            begun: Instant::now(),
            limit,
            arrivals: None,
            orders: None,
        };
        match input {
            Input::Nothing => {}
            Input::Arrivals(arrivals, seconds) => drive.arrivals = Some((arrivals, seconds)),
            Input::Script(text) => {
                drive.orders = drive.process.child.stdin.take();
                drive.say(&text);
            }
        }
        Ok(drive)
    }

    /// Sends an order to a shell on another machine. A failure means that the shell ends; collecting its
    /// report returns the reason.
    fn say(&mut self, words: &str) {
        let _ = self.orders.as_mut().map(|pipe| pipe.write_all(words.as_bytes()).and_then(|()| pipe.flush()));
    }

    /// Waits until all connections exist and the load's clock has started.
    pub fn until_started(&mut self, interrupt: &Interrupt) -> Result<()> {
        while let Some(line) = self.line(interrupt)? {
            if moment_of(&line) == Some(DriverEvent::Started) {
                return Ok(());
            }
        }
        Ok(()) // it ended; whoever collects its report hears why
    }

    /// Stops it from sending anything; the server finishes what it has received. The load's clock continues.
    pub fn hold(&mut self, interrupt: &Interrupt) -> Result<()> {
        self.signal(Signal::SIGSTOP);
        // An order to another machine takes a moment to arrive.
        let obeyed = format!("{OBEYED} STOP");
        while self.orders.is_some()
            && let Some(line) = self.line(interrupt)?
            && !line.ends_with(&obeyed)
        {}
        Ok(())
    }

    /// Lets it continue.
    pub fn release(&mut self) {
        self.signal(Signal::SIGCONT);
    }

    fn signal(&mut self, signal: Signal) {
        if self.orders.is_some() {
            return self.say(&format!("{}\n", signal.as_str().trim_start_matches("SIG")));
        }
        // A child keeps its process id until it is waited for; after that the id may belong to another
        // process.
        if matches!(self.process.child.try_wait(), Ok(None)) {
            let _ = kill(as_pid(self.process.child.id()), signal);
        }
    }

    /// Returns whether it has ended, because its time is over or something failed.
    pub fn ended(&mut self) -> Result<bool> {
        Ok(self.process.child.try_wait().tried(|| "waiting for sysbench".into())?.is_some())
    }

    /// Waits for its end and parses its report; passes its events to `moment` as they happen.
    pub fn finish(
        self,
        interrupt: &Interrupt,
        moment: &mut dyn FnMut(DriverEvent) -> Result<()>,
    ) -> Result<DriverReport> {
        let mut failed = Ok(());
        let output = self.collect(interrupt, &mut |line| {
            if let (Some(m), true) = (moment_of(line), failed.is_ok()) {
                failed = moment(m);
            }
        });
        let output = output.map_err(|error| match error {
            Error::Server(tare_server::Error::Program { status, output, .. }) => {
                Error::LoadEnded { status, output }
            }
            error => error,
        })?;
        failed.and_then(|()| report_of(output))
    }

    /// Waits for its end and passes each line of output to `each`; kills it on an interrupt or after its
    /// limit.
    fn collect(mut self, interrupt: &Interrupt, each: &mut dyn FnMut(&str)) -> Result<String> {
        while let Some(line) = self.line(interrupt)? {
            each(&line);
        }
        let status = self.process.child.wait().tried(|| "waiting for sysbench".into())?;
        let said = self.errors.join().unwrap_or_default();
        // A script's command that fails in one of several threads exits with 0 and prints FATAL.
        if status.success() && !self.output.contains("FATAL") && !said.contains("FATAL") {
            return Ok(self.output);
        }
        let output = last_lines(&format!("{}\n{said}", self.output), 12);
        let program = "sysbench".into();
        Err(tare_server::Error::Program { program, status: status.to_string(), output }.into())
    }

    /// Starts to send its arrivals, if it has any.
    fn feed(&mut self) {
        if let (Some(pipe), Some((arrivals, seconds))) =
            (self.process.child.stdin.take(), self.arrivals.take())
        {
            arrivals.feed(seconds, pipe);
        }
    }

    /// Returns the next line of its output; `None` at the end.
    fn line(&mut self, interrupt: &Interrupt) -> Result<Option<String>> {
        loop {
            interrupt.check()?;
            if self.limit.is_some_and(|limit| self.begun.elapsed() > limit) {
                return Err(Error::LoadHangs { output: last_lines(&self.output, 12) });
            }
            match self.lines.recv_timeout(STEP) {
                Ok(line) => {
                    if moment_of(&line) == Some(DriverEvent::Started) {
                        self.feed();
                    }
                    self.output.push_str(&line);
                    self.output.push('\n');
                    return Ok(Some(line));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
    }
}

/// The driver's process, which is killed when dropped, even while it is stopped.
#[derive(Debug)]
struct DriverProcess {
    child: Child,
}

impl Drop for DriverProcess {
    fn drop(&mut self) {
        // Both fail once it has ended, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines_of(pipe: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let _ahead = Ahead::of_others();
        let lines = BufReader::new(pipe).lines().map_while(std::result::Result::ok);
        lines.map(|l| sender.send(l)).take_while(std::result::Result::is_ok).for_each(drop);
    });
    receiver
}

#[cfg(test)]
mod tests {
    use tare_server::eventually;

    use super::*;

    #[test]
    fn an_interrupt_ends_the_driver() {
        let interrupt = Interrupt::default();
        let flag = interrupt.flag();
        let mut seen = vec![];
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo $$; exec sleep 3600"]);
        let driven = Drive::start(&mut command, None, Input::Nothing).expect("a shell").collect(
            &interrupt,
            &mut |line| {
                seen.push(line.to_owned());
                flag.store(true, std::sync::atomic::Ordering::Relaxed);
            },
        );
        assert!(matches!(driven, Err(Error::Interrupted)), "{driven:?}");
        let pid: i32 = seen[0].parse().expect("the shell's pid");
        assert!(nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None).is_err(), "{pid} still runs");
    }

    #[test]
    fn a_driver_that_is_held_does_nothing_until_it_is_released() {
        // It ends as soon as it may.
        let script = "echo 'Threads started!'; until [ -e may-end ]; do sleep 0.02; done; echo on";
        let folder = tempfile::tempdir().expect("a folder");
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", script]).current_dir(&folder);
        let mut drive = Drive::start(&mut shell, None, Input::Nothing).expect("a shell");
        let interrupt = Interrupt::default();
        drive.until_started(&interrupt).expect("it starts");
        drive.hold(&interrupt).expect("it is held");
        fs::write(folder.path().join("may-end"), "").expect("written");
        std::thread::sleep(Duration::from_millis(600));
        assert!(!drive.ended().expect("its state"), "it went on");
        drive.release();
        let output = drive.collect(&interrupt, &mut |_| {}).expect("it ends");
        assert_eq!(output, "Threads started!\non\n");
    }

    #[test]
    fn a_driver_that_hangs_is_given_up() {
        let drive = Drive::start(Command::new("sleep").arg("3600"), Some(Duration::ZERO), Input::Nothing)
            .expect("a sleep");
        let driven = drive.collect(&Interrupt::default(), &mut |_| {});
        assert!(matches!(driven, Err(Error::LoadHangs { .. })), "{driven:?}");
    }

    /// A driver on another machine is stopped and continued, ends when its orders end, and its folder is
    /// removed.
    #[test]
    fn a_driver_elsewhere_obeys_and_ends_with_us() {
        let folder = tempfile::tempdir().expect("a folder");
        let sysbench = folder.path().join("sysbench");
        let script = "#!/bin/sh\necho 'Threads started!'; cat here; echo $$ \"$1\"; while sleep 0.02; do echo on; done\n";
        fs::write(&sysbench, script).expect("a script");
        fs::set_permissions(&sysbench, fs::Permissions::from_mode(0o755)).expect("permissions");
        let temporary = folder.path().join("t");
        fs::create_dir(&temporary).expect("a folder");
        let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new("sh");
        command.env("PATH", path).env("TMPDIR", &temporary);
        let words = outpost::script(&[("here", "it's $here\n")], &["--a b='c'".into()]);
        let mut drive = Drive::start(&mut command, None, Input::Script(words)).expect("a shell");
        let interrupt = Interrupt::default();
        drive.until_started(&interrupt).expect("it starts");
        // Output of the script's child arrives whether the script is stopped or not.
        while drive.line(&interrupt).expect("a line").is_some_and(|line| line != "on") {}
        drive.hold(&interrupt).expect("it is held");
        // What it said before may come later.
        eventually("it says nothing", Duration::from_secs(60), || {
            std::thread::sleep(Duration::from_millis(200));
            drive.lines.try_iter().count() == 0
        });
        drive.release();
        let said: Vec<String> = (0..20).filter_map(|_| drive.line(&interrupt).expect("a line")).collect();
        assert!(said.len() == 20 && said.iter().any(|line| line == "on"), "{said:?}");
        assert!(
            drive.output.contains("it's $here\n") && drive.output.contains(" --a b='c'\n"),
            "{}",
            drive.output
        );
        // Only the input of the shell has ended; the shell still runs.
        drop(drive.orders.take());
        let ended = drive.collect(&interrupt, &mut |_| {});
        assert!(matches!(ended, Err(Error::Server(tare_server::Error::Program { .. }))), "{ended:?}");
        assert_eq!(fs::read_dir(&temporary).expect("a folder").count(), 0, "its folder is left");
    }
}
