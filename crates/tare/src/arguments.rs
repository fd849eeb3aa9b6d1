//! The declaration of the command line and its help.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use tare_lab::Error;
use tare_lab::budget::Budget;
use tare_lab::installation::Installation;

use crate::slowlog::SlowLog;
use crate::top::Top;
use crate::weigh::Weigh;

use crate::export::Export;

use crate::govern::Govern;
use crate::outlet::{LabAccount, Reach};
use crate::price::Price;
use crate::report::Report;
use crate::snapshot::Snapshot;

/// A drop-in performance_schema for stock MariaDB, at a fraction of the cost of MariaDB's own.
///
/// tare is loaded into an unmodified server and serves its `performance_schema` tables, with every instrument
/// on. This program starts servers with it, asks running ones about it, and measures what it costs.
#[derive(Debug, Parser)]
#[command(
    name = "tare",
    version,
    after_help = "First steps:\n  \
        tare demo          see it work, in about a minute\n  \
        tare run           start a server with it and look around\n  \
        tare help COMMAND  more on a command, with examples"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(Demo),
    Run(Run),
    Status(Box<Status>),
    Top(Box<Top>),
    #[command(name = "slowlog")]
    SlowLog(Box<SlowLog>),
    Doctor(Doctor),
    Snapshot(Box<Snapshot>),
    Report(Report),
    Install(Install),
    Uninstall(Uninstall),
    Probe(Probe),
    Tables(Tables),
    Export(Box<Export>),
    Bench(Bench),
    Lab(Box<Lab>),
    Govern(Box<Govern>),
    Price(Box<Price>),
    Weigh(Box<Weigh>),
    #[command(hide = true)]
    Preload(Preload),
    #[command(hide = true)]
    Documents(Documents),
}

/// The server to start, and the provider to load into it.
#[derive(Args, Debug)]
pub(crate) struct Programs {
    /// The server's program [default: the system's mariadbd]
    #[arg(long, value_name = "PATH", env = "TARE_MARIADBD")]
    pub(crate) mariadbd: Option<PathBuf>,
    /// The provider to load [default: libtare_mariadb.so beside this program or in ../lib/tare]
    #[arg(long, value_name = "PATH", env = "TARE_PROVIDER")]
    pub(crate) provider: Option<PathBuf>,
}

/// Show what tare sees, on a server of its own under load
///
/// Starts a stock server with tare loaded and everything instrumented, drives sysbench's oltp_read_write
/// against it, and shows by SQL, through the server's normal socket, what was seen: statements, waits,
/// tables, files, memory, what was lost, and what it cost. The server's data is in a temporary folder;
/// nothing of the system's is touched, no port is opened, and everything is removed at the end and on Ctrl-C.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare demo\n  \
    tare demo --secs 60 --threads 16\n  \
    tare demo --cost-rounds 0     leave the comparison of costs out")]
pub(crate) struct Demo {
    #[command(flatten)]
    pub(crate) programs: Programs,
    /// Seconds of load
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(crate) secs: u32,
    /// Connections of the load
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) threads: u32,
    /// Rounds of the paired comparison of costs, 6 to 240; 0 leaves it out
    #[arg(long, default_value_t = 9, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=240))]
    pub(crate) cost_rounds: u32,
}

/// Run a server of your own with tare loaded
///
/// The server runs in the foreground until Ctrl-C, which shuts it down cleanly. Without --datadir its data is
/// in a temporary folder and gone afterwards. A data directory that is absent or empty is made with
/// mariadb-install-db (`root` without a password, reachable only through the socket); one that exists is used
/// as it is. Run as root, the server runs as the account `mysql`.
///
/// What follows `--` is given to the server. The system's option files are not read unless they are named
/// there.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare run\n  \
    tare run --datadir /srv/try -- --innodb-buffer-pool-size=1G\n  \
    tare run --datadir /srv/try -- --defaults-file=/srv/try.cnf --port=3307   a [tare] group in it is read\n  \
    tare run --mariadbd /opt/mariadb-11.4/bin/mariadbd")]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) programs: Programs,
    /// Data directory [default: a temporary folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) datadir: Option<PathBuf>,
    /// Options for the server; with `--port` among them it also listens on the network
    #[arg(last = true, value_name = "SERVER OPTIONS")]
    pub(crate) options: Vec<OsString>,
}

/// Show the state of tare in a running server
///
/// Tells whether tare is loaded, in which server and with which ABI, the memory it uses, what was lost for
/// lack of room, and what is enabled. It is queried through the socket `tare.sock` in the server's data
/// directory, which only the server's own account and root may open; the server's SQL is not involved.
///
/// Exit status: 0 when tare is active, 3 when it is not, 1 on any other error.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare status                                  the server in /var/lib/mysql\n  \
    tare status --datadir /srv/try --json\n  \
    tare status --log /var/log/mysql/error.log   also tells why it is not loaded\n\n\
    In SQL: SELECT * FROM performance_schema.tare_status;")]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) reach: Reach,
    /// The server's error log, to find out why tare is not active [default: *.err and error.log beside the
    /// socket]
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// The format of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Lines for people
    Text,
    /// One JSON object
    Json,
}

impl Output {
    /// Returns whether it is for programs.
    pub(crate) fn is_json(self) -> bool {
        self == Output::Json
    }
}

/// Explain why tare is not active in a server, or not complete, and what to do
///
/// Checks the units that start a server and the running servers: whether the provider is loaded and can be,
/// whether tare disables itself and why, whether the server's SQL shows the tables, what was lost and which
/// option makes room for it. Prints a line for each problem. Nothing is changed. Root sees everything; --dsn
/// checks a server through its SQL alone.
///
/// Exit status: 0 all is well, 1 a problem was found, 2 something could not be checked.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare doctor                             every server of this machine\n  \
    tare doctor --unit mariadb@a\n  \
    tare doctor --socket /run/mysqld/mysqld.sock --output json\n  \
    tare doctor --dsn mysql://agent:secret@db1:3306")]
pub(crate) struct Doctor {
    /// The server of this systemd unit
    #[arg(long, value_name = "NAME", group = "which")]
    pub(crate) unit: Option<String>,
    /// The server that runs as this process
    #[arg(long, value_name = "PID", group = "which")]
    pub(crate) pid: Option<u32>,
    /// The server that listens on this socket
    #[arg(long, value_name = "PATH", group = "which")]
    pub(crate) socket: Option<PathBuf>,
    /// The server there, through SQL: mysql://ACCOUNT:PASSWORD@HOST:PORT
    #[arg(long, value_name = "URL", group = "which")]
    pub(crate) dsn: Option<String>,
    /// The server's error log [default: where its standard error goes]
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Look for units and files below this folder, as in an image
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(crate) root: PathBuf,
    /// Format of the output
    #[arg(long, value_enum, default_value_t = Output::Text, value_name = "FORMAT")]
    pub(crate) output: Output,
}

/// Make the servers of this machine load tare
///
/// Finds the systemd units that start a server, including instances such as mariadb@a, and checks each as
/// `tare doctor` does. If nothing is in the way it writes a drop-in, which makes the loader preload the
/// provider, before other preloaded objects; a unit that tries that before each start, so that a provider
/// that breaks later keeps no server from starting; and an option file, which loads the plugin ha_federatedx
/// and has room for the group `tare`. Without --restart it takes effect at the server's next start. With it
/// the server is restarted, also if it runs with an older provider than the installed one, and everything is
/// undone if tare does not answer within the limit.
///
/// Exit status: 0 done or nothing to do, 1 a server was left alone or restored, with the reason; 130
/// interrupted.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare install --dry-run                what would be written, and what is in the way\n  \
    tare install --restart\n  \
    tare install --unit mariadb@a --restart --output json")]
pub(crate) struct Install {
    #[command(flatten)]
    pub(crate) servers: Servers,
    /// The provider to load [default: libtare_mariadb.so beside this program or in ../lib/tare]
    #[arg(long, value_name = "PATH", env = "TARE_PROVIDER")]
    pub(crate) provider: Option<PathBuf>,
}

/// Remove what `tare install` has written
///
/// Removes the drop-in, the unit of the trial, the option file including later settings in it, and files that
/// earlier versions of tare left in the data directory. Nothing else is touched. Without --restart the server
/// continues with tare until it is restarted.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare uninstall --dry-run\n  \
    tare uninstall --restart\n  \
    tare uninstall --unit mariadb@a")]
pub(crate) struct Uninstall {
    #[command(flatten)]
    pub(crate) servers: Servers,
}

/// The servers to change, and how.
#[derive(Args, Debug)]
pub(crate) struct Servers {
    /// Only the server of this unit; may be repeated [default: every unit that starts a server]
    #[arg(long = "unit", value_name = "NAME")]
    pub(crate) units: Vec<String>,
    /// Only show what would be written
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Restart the servers that need it, and check that they start correctly
    #[arg(long)]
    pub(crate) restart: bool,
    /// What restarts a server instead of systemctl: a shell command; the unit's name is in TARE_UNIT
    #[arg(long, value_name = "COMMAND", requires = "restart")]
    pub(crate) restart_command: Option<String>,
    /// Seconds a server may take to restart before everything is undone
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(crate) limit: u32,
    /// Find units and files below this folder, as in an image
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(crate) root: PathBuf,
    /// Format of the output
    #[arg(long, value_enum, default_value_t = Output::Text, value_name = "FORMAT")]
    pub(crate) output: Output,
}

/// Try to load what a unit's server will preload, before it starts
///
/// The unit tare-preload@.service, which `tare install` writes, runs this before each start of a server. A
/// program that does nothing loads what the server is to load, as the server's account. If it succeeds,
/// /run/tare/UNIT.env sets LD_PRELOAD for the server; if not, that file has the reason, and the server starts
/// without tare.
///
/// Exit status: 0 the server starts with tare, 1 without.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare preload mariadb                  as mariadb would be started now\n  \
    tare preload mariadb@a.service")]
pub(crate) struct Preload {
    /// The server's unit
    #[arg(value_name = "UNIT")]
    pub(crate) unit: String,
    /// Find units and files below this folder, as in an image
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(crate) root: PathBuf,
}

/// Say whether tare supports a server, from its program's file
///
/// The program is read, not run: its version, its exported symbols, and whether it is laid out like the
/// servers tare knows, by the checks of tare's own start-up. Options and the system around a server may still
/// disable tare: `tare doctor`.
///
/// Exit status: 0 supported, 1 not supported, 2 the file could not be read.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare probe /usr/sbin/mariadbd\n  \
    tare probe /opt/mariadb-12.0/bin/mariadbd --output json")]
pub(crate) struct Probe {
    /// The server's program
    #[arg(value_name = "PROGRAM")]
    pub(crate) mariadbd: PathBuf,
    /// Format of the output
    #[arg(long, value_enum, default_value_t = Output::Text, value_name = "FORMAT")]
    pub(crate) output: Output,
}

/// Write manual pages and completions, as packages hold them
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  tare documents target/documents")]
pub(crate) struct Documents {
    /// The folder to write into
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

/// Remove or list what earlier versions of tare left in a data directory
///
/// Earlier versions put their tables into the folder `performance_schema`, as small files that a crash left
/// there, and that backups contain. This version puts nothing there, and removes the old files whenever a
/// server starts with it. This command is for a server that is to run without tare from then on. Only tare's
/// files are touched.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare tables list --datadir /var/lib/mysql\n  \
    tare tables remove --datadir /var/lib/mysql")]
pub(crate) struct Tables {
    #[command(subcommand)]
    pub(crate) command: TablesCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TablesCommand {
    /// Remove tare's files
    Remove(Place),
    /// Show which of tare's table files exist, and which version wrote them
    List(Place),
}

/// A data directory.
#[derive(Args, Debug)]
pub(crate) struct Place {
    /// Data directory of the server
    #[arg(long, value_name = "DIR")]
    pub(crate) datadir: PathBuf,
}

/// Measure the overhead of tare and of the server's own Performance Schema
///
/// A short study of the lab (see `tare help lab`): one server per setting on copies of the same data, load on
/// one at a time in short slices, compared within blocks of one slice each. Every one to three blocks the
/// servers are restarted, because the layout of its memory makes a process faster or slower. `off again` is
/// the A/A control: it equals `off`, so its difference is noise.
///
/// CPU time is that of the server's process, read from its CPU clock in nanoseconds (user and system, all
/// threads).
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare bench\n  \
    tare bench --rounds 60 --workloads oltp_point_select\n  \
    tare bench --rounds 6 --secs 1 --json slices.jsonl     quick, and every slice to look into")]
pub(crate) struct Bench {
    #[command(flatten)]
    pub(crate) programs: Programs,
    /// Rounds, 6 to 240: an interval needs 6, and is made of 240 at most; each gives every setting one slice
    #[arg(long, default_value_t = 30, value_name = "N", value_parser = clap::value_parser!(u32).range(6..=240))]
    #[arg(overrides_with = "rounds")]
    pub(crate) rounds: u32,
    /// Seconds of a slice
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) secs: u32,
    /// Connections of the load
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) threads: u32,
    /// Rows of the load's table
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1000..))]
    pub(crate) rows: u32,
    /// sysbench workloads
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "oltp_read_only,oltp_point_select,oltp_read_write"
    )]
    pub(crate) workloads: Vec<String>,
    /// Also write every slice to a file, as JSON Lines
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// Measure the cost of an observability setting, on any MariaDB or MySQL server
///
/// A study is a file: servers, settings, workloads, precision and duration. `tare lab run` starts a server
/// per setting (or switches a running one), gives load to one at a time in short slices, and compares slices
/// of the same block, so that drift affects all alike. An A/A control, identical to the base, shows the
/// noise. Each setting gets a verdict: it costs this much, no more than this much, or it is inconclusive and
/// how long a result would take. docs/explanation/measuring.md explains how.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare lab list\n  \
    tare lab run pfs-default --quick        a first answer in ten minutes\n  \
    tare lab run my-study.toml --out results/monday")]
pub(crate) struct Lab {
    #[command(subcommand)]
    pub(crate) command: LabCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Show the studies that ship
    List,
    /// Run a study, or resume one that was interrupted
    Run(LabRun),
    /// Write the report of a folder of results again, and show its figures
    Report(LabReport),
    /// Show several runs side by side, over time, versions or machines, and where a cost changes
    Compare(LabCompare),
    /// Undo what a killed study left on running servers
    PutBack(LabPutBack),
    Record(crate::lab_record::LabRecord),
    Replay(crate::lab_record::LabReplay),
}

/// Undo what a killed study left on running servers
///
/// Before a study changes anything on a running server (a dsn), it saves the original state in its folder of
/// results. This command drops the schemas that the study made, and restores global variables and the
/// Performance Schema's settings. The same study does so by itself when it is continued.
#[derive(Args, Debug)]
pub(crate) struct LabPutBack {
    /// Folder of results
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    #[command(flatten)]
    pub(crate) account: LabAccount,
}

/// Run a study, or continue an interrupted one
///
/// Every slice is written to results.jsonl in the results' folder as soon as it is measured. After Ctrl-C, a
/// crash or kill -9 the same command with the same --out continues. Servers are started in a temporary folder
/// (TMPDIR), unless the study names a running one; its password comes from -p, the environment variable
/// TARE_LAB_PASSWORD, or option files.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare lab run tare --quick\n  \
    tare lab run versions --server newer=/opt/mariadb-11.8/bin/mariadbd --out results/versions\n  \
    tare lab run my-study.toml\n  \
    tare lab run pfs-default --quick --driver 'ssh load1'       load from another machine\n  \
    tare lab run pfs-default --quick --fail-above 3% --junit budget.xml\n\n\
Exit status: 0 done (with --fail-above: all is below); 1 an error; 2 wrong arguments; 3 something is above; 4 not known;\n\
130 interrupted. docs/how-to/gate-in-ci.md explains how a budget is judged.")]
pub(crate) struct LabRun {
    /// Name of a study that ships, or a file
    #[arg(value_name = "STUDY")]
    pub(crate) study: String,
    /// A first answer in at most ten minutes: apply the study's section `[quick]`
    #[arg(long)]
    pub(crate) quick: bool,
    /// Folder for results [default: lab/STUDY-DATE-TIME]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Program to use for one of the study's servers; may be repeated
    #[arg(long = "server", value_name = "NAME=PATH", value_parser = name_and_path)]
    pub(crate) servers: Vec<(String, PathBuf)>,
    /// The provider that settings preload as `tare` [default: libtare_mariadb.so beside this program or in
    /// ../lib/tare]
    #[arg(long, value_name = "PATH", env = "TARE_PROVIDER")]
    pub(crate) provider: Option<PathBuf>,
    /// Start the load driver with these words before it, on another machine or in another network: 'ssh
    /// load1' [default: the study's]. It needs sysbench
    #[arg(long, value_name = "PREFIX")]
    pub(crate) driver: Option<String>,
    /// This machine's address as seen from there [default: the address that ssh came to]
    #[arg(long, value_name = "ADDRESS", requires = "driver")]
    pub(crate) driver_address: Option<String>,
    /// Also take a CPU profile of every setting's server after measuring (with perf)
    #[arg(long)]
    pub(crate) profile: bool,
    /// Seed of the order of slices [default: random, and recorded in the results]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) account: LabAccount,
    #[command(flatten)]
    pub(crate) budget: LabBudget,
}

/// The budget for results, and where its outcome is written.
#[derive(Args, Debug)]
pub(crate) struct LabBudget {
    /// Judge the cost of settings: 3%. Exit status 0: all intervals are below; 3: one is above; 4: neither is
    /// known. A running study continues until it is known, or its blocks or minutes are used up
    #[arg(long, value_name = "PERCENT")]
    pub(crate) fail_above: Option<Budget>,
    /// File to write the outcome to, as JUnit's XML
    #[arg(long, value_name = "FILE", requires = "fail_above")]
    pub(crate) junit: Option<PathBuf>,
    /// File to write a summary to, in Markdown
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
}

/// Rewrite the report of a folder of results, and show its figures
///
/// The report is made from results.jsonl alone, also for a study that is running or was killed: report.html
/// (one self-contained page with the raw data), report.csv, slices.csv, report.json, all in the folder of
/// results.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare lab report results/monday\n  \
    tare lab report results/monday --publish docs/reports/pfs-default     to be given away, without the raw data\n  \
    tare lab report results/monday --fail-above 3% --markdown summary.md")]
pub(crate) struct LabReport {
    /// Folder of results
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Also write the report for publication into another folder: report.html without the raw data,
    /// report.csv, report.json, picture.svg
    #[arg(long, value_name = "TO")]
    pub(crate) publish: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) budget: LabBudget,
}

/// Show several runs side by side, over time, versions or machines, and where a cost changes
///
/// Runs are ordered by their start. The last one defines the comparison: an earlier one counts if setting,
/// base, load and measure are the same; otherwise the reason is given. Changes from one run to the next,
/// trends, and other differences between runs (machine, server's version, method) are described.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare lab compare results/monday results/tuesday results/wednesday\n  \
    tare lab compare lab/pfs-default-*")]
pub(crate) struct LabCompare {
    /// Folders of results, two or more
    #[arg(value_name = "DIR", num_args = 2.., required = true)]
    pub(crate) folders: Vec<PathBuf>,
}

impl Programs {
    /// Finds the server's programs: those named, or the system's.
    pub(crate) fn installation(&self) -> tare_lab::Result<Installation> {
        Installation::find(self.mariadbd.as_deref()).map_err(|error| match error {
            Error::Missing { program, hint } => {
                Error::Missing { program, hint: format!("{hint} (or name it with --mariadbd PATH)") }
            }
            error => error,
        })
    }
}

fn name_and_path(text: &str) -> Result<(String, PathBuf), String> {
    let (name, path) = text.split_once('=').ok_or("NAME=PATH is allowed, such as newer=/opt/bin/mariadbd")?;
    Ok((name.into(), path.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_examples() {
        for command in crate::command_line::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains(&format!("tare {}", command.get_name())), "{}", command.get_name());
        }
    }

    #[test]
    fn the_servers_options_follow_two_dashes() {
        let words = ["tare", "run", "--", "--port=3307", "--datadir=x"];
        let parsed = crate::command_line::read(words.map(OsString::from));
        let Ok(Arguments { command: Command::Run(run) }) = parsed else { panic!("{parsed:?}") };
        assert_eq!(run.options, ["--port=3307", "--datadir=x"]);
        assert_eq!(run.datadir, None);
    }
}
