//! `tare top`: its arguments, and its output to the screen, as text or as JSON.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use tare_lab::interrupt::Interrupt;
use tare_outlets::report::visible;
use tare_outlets::sessions;
use tare_outlets::top::draw::Paint;
use tare_outlets::top::look;
use tare_outlets::top::read::Reader;
use tare_outlets::top::state::State;
use tare_outlets::top::{once, terminal};

use crate::durations;
use crate::endpoint::file_to_read;
use crate::exit::misuse;
use crate::outlet::Reach;
use crate::output::{self, CommandOutput};

/// Width of a line of text without a terminal.
const WIDTH: usize = 160;

/// Show what a server does now: statements, waits, locks, tables, files, memory, threads
///
/// Reads the Performance Schema at intervals and shows what was counted in between: of a server with tare
/// over its socket, or of any MariaDB 10.6 or MySQL 5.7 and newer over --dsn. Each sample reads only the few
/// tables that the view shows. `?` shows the keys. What is switched off, or what a server lacks, is reported,
/// with what to do. Colours are left out when NO_COLOR is set.
///
/// For a server with tare it also shows the active sessions of the last hour; the keys ← → go back to a
/// stretch of it, with its statements, waits and blocking sessions. With FILE it shows those of a snapshot,
/// without a server.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare top                                          # the server in /var/lib/mysql\n  \
    tare top --datadir /srv/try --view waits --interval 1s\n  \
    tare top --dsn 'mysql://agent@db1:3306'           # MariaDB's or MySQL's own Performance Schema\n  \
    tare top yesterday.jsonl.gz                       # the active sessions that a snapshot has\n  \
    tare top --once --view threads                    # one sample as text\n  \
    tare top --once --format json | jq '.sheets.statements[0]'\n\n\
    An account needs GRANT SELECT ON performance_schema.*, and PROCESS for MariaDB's locks on rows.")]
pub(crate) struct Top {
    /// Show the active sessions of this snapshot instead of a server
    #[arg(value_name = "FILE", value_parser = file_to_read(), conflicts_with_all = ["view", "interval", "filter"])]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) reach: Reach,
    /// What to show first
    #[arg(long, value_enum, default_value_t = ViewName::Statements, value_name = "VIEW")]
    pub(crate) view: ViewName,
    /// Time between samples
    #[arg(long, default_value = "2s", value_name = "TIME", value_parser = durations::between("500ms", "1h"))]
    pub(crate) interval: Duration,
    /// Show only rows with this text
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) filter: String,
    /// Print what is counted in one interval, and exit
    #[arg(long)]
    pub(crate) once: bool,
    #[command(flatten)]
    pub(crate) answer: CommandOutput,
    /// Most rows of each list [default: all]
    #[arg(long, requires = "once", value_name = "N")]
    pub(crate) rows: Option<usize>,
}

/// The views, as the command line names them.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ViewName {
    /// Statements by digest
    Statements,
    /// Waits by class and by instrument
    Waits,
    /// Waits between threads for locks
    Locks,
    /// Rows read and changed
    Tables,
    /// Bytes read and written
    Files,
    /// Memory by instrument
    Memory,
    /// Threads and their activity
    Threads,
}

impl ViewName {
    fn shown(self) -> look::View {
        match self {
            ViewName::Statements => look::View::Statements,
            ViewName::Waits => look::View::Waits,
            ViewName::Locks => look::View::Locks,
            ViewName::Tables => look::View::Tables,
            ViewName::Files => look::View::Files,
            ViewName::Memory => look::View::Memory,
            ViewName::Threads => look::View::Threads,
        }
    }
}

/// Runs the command.
pub(crate) fn top(arguments: &Top, interrupt: &Interrupt) -> Result<ExitCode> {
    let answer = &arguments.answer;
    if !arguments.once && (answer.format.is_json() || answer.output.is_some()) {
        misuse!("--format json and --output are for one sample: with --once");
    }
    let has_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if !arguments.once && !has_terminal {
        bail!("this is not a terminal: --once prints one sample as text, --once --format json for programs");
    }
    let colours = Paint(std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()));
    let stop = interrupt.flag();
    if let Some(file) = &arguments.file {
        let mut state = recorded(file)?;
        if arguments.once {
            state.show_whole();
            return answer.written(|| print(&state, arguments).map(|()| ExitCode::SUCCESS));
        }
        terminal::show_file(state, colours, &stop).context("the terminal")?;
        return Ok(ExitCode::SUCCESS);
    }
    let address = arguments.reach.address()?;
    let mut reader = Reader::open(address.clone()).context("no server to read")?;
    let mut state = State::new(arguments.view.shown(), arguments.interval, &arguments.filter);
    if arguments.once {
        if !once::look_twice(&mut reader, &mut state, &stop)? {
            return Err(tare_lab::Error::Interrupted.into());
        }
        return answer.written(|| print(&state, arguments).map(|()| ExitCode::SUCCESS));
    }
    terminal::show(reader, address, state, colours, &stop).context("the terminal")?;
    Ok(ExitCode::SUCCESS)
}

/// Reads the active sessions of a file.
fn recorded(file: &Path) -> Result<State> {
    let read = sessions::read(file, &|_, _| false)?;
    if read.history.is_empty() {
        bail!(
            "{}: no rows of {} are in it: take a snapshot of a server with tare, while sessions are active or within \
             the time that its history reaches back",
            file.display(),
            sessions::TABLE
        );
    }
    let header = &read.snapshot.header;
    let server = format!("{}, taken {}", visible(&header.version), header.taken_at);
    let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
    Ok(State::of_file(&name, server, visible(&header.address), read.history))
}

fn print(state: &State, arguments: &Top) -> Result<()> {
    let rows = arguments.rows.unwrap_or(usize::MAX);
    if arguments.answer.format.is_json() {
        return output::print(&(serde_json::to_string_pretty(&once::json(state, rows))? + "\n"));
    }
    let width = console::Term::stdout().size_checked().map_or(WIDTH, |(_, columns)| columns.into());
    output::print(&once::text(state, width, rows))
}
