//! Errors around a measured server, in words that say what to do.

use std::io;
use std::path::PathBuf;

/// The environment variable with the password of a running server.
pub const PASSWORD: &str = "TARE_LAB_PASSWORD";

/// The reason why a server, a load or a study failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The user pressed Ctrl-C, or the process was asked to end.
    #[error("interrupted")]
    Interrupted,
    /// The operating system refused an operation.
    #[error("{what}")]
    Io {
        /// The operation.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// The server ended or did not answer while starting.
    #[error("the server did not start: {why}{}", last_words(log, tail))]
    NotStarted {
        /// What was observed.
        why: String,
        /// Path of its error log.
        log: PathBuf,
        /// The log's last lines.
        tail: String,
    },
    /// The path of a Unix socket is longer than 107 bytes.
    #[error(
        "the socket path {} is too long for a Unix socket (107 bytes at most); use a shorter folder (--datadir, or TMPDIR)",
        .0.display()
    )]
    SocketPathTooLong(PathBuf),
    /// Another server answers where a new one is to listen.
    #[error(
        "a server listens at {} already; shut that one down first, or name another data directory with --datadir",
        .0.display()
    )]
    SocketInUse(PathBuf),
    /// The load driver failed or ended too early.
    #[error("sysbench ended before its time ({status})\n{output}")]
    LoadEnded {
        /// Exit status.
        status: String,
        /// The last lines it printed.
        output: String,
    },
    /// A load failed on a healthy server.
    #[error("load on setting `{setting}`")]
    Load {
        /// Name of the setting.
        setting: String,
        /// The failure.
        source: Box<Error>,
    },
    /// The load driver's output is not as expected.
    #[error("cannot read sysbench's report: {why}\n{output}")]
    LoadReport {
        /// What is missing.
        why: &'static str,
        /// The output.
        output: String,
    },
    /// A block with turns ended before every setting had one.
    #[error(
        "connecting took the {seconds} s that a block has: `slice_seconds` is too short for so many connections"
    )]
    NoTurns {
        /// Length of a block.
        seconds: u32,
    },
    /// No study has that name.
    #[error("there is no study `{study}`{meant}; name a file (*.toml), or one of {known}")]
    NoStudy {
        /// The given name.
        study: String,
        /// The name that was probably meant, in words.
        meant: String,
        /// The known names.
        known: String,
    },
    /// No workload has that name.
    #[error("there is no workload `{workload}`{meant}; the workloads are {known}")]
    NoWorkload {
        /// The given name.
        workload: String,
        /// The name that was probably meant, in words.
        meant: String,
        /// The known names.
        known: String,
    },
    /// A study's file is invalid.
    #[error("{file}, line {line}, `{key}`: {why}")]
    Study {
        /// Name of the file.
        file: String,
        /// Line, counted from 1.
        line: usize,
        /// The key or section.
        key: String,
        /// The fault, and what is allowed.
        why: String,
    },
    /// A running server ended.
    #[error("the server of setting `{setting}` ended ({status}); last lines of its log:\n{tail}")]
    Died {
        /// Name of the setting.
        setting: String,
        /// Exit status.
        status: String,
        /// The log's last lines.
        tail: String,
    },
    /// A requested server is not running.
    #[error("the server of setting `{0}` is not running")]
    NotRunning(String),
    /// Load cannot come from the machine that a study names.
    #[error("the driver cannot be started with `{prefix}` (the study's [driver], or --driver): {why}")]
    Outpost {
        /// The command that reaches it.
        prefix: String,
        /// What happened, and what to do.
        why: String,
    },
    /// A program beside a server ended, or never answered.
    #[error("`{program}` beside setting `{setting}`: {why}\n{tail}")]
    Sidecar {
        /// Name of the program.
        program: String,
        /// Name of the setting.
        setting: String,
        /// What happened.
        why: String,
        /// The end of its output.
        tail: String,
    },
    /// The query that verifies a setting says that it is not in effect.
    #[error("setting `{setting}` is not what it says: `{query}` answers {answer} (the study's `require`)")]
    NotAsSaid {
        /// Name of the setting.
        setting: String,
        /// The query.
        query: String,
        /// The answer.
        answer: String,
    },
    /// A server refused to switch to a setting.
    #[error("setting `{setting}` cannot be switched to, its `switch` fails: {statement}")]
    Switch {
        /// Name of the setting.
        setting: String,
        /// The statement.
        statement: String,
        /// The server's error.
        source: Box<Error>,
    },
    /// A server does not start with a setting.
    #[error("{whose} does not start {with}")]
    Start {
        /// The setting, in words.
        whose: String,
        /// The option that its log complains about, or all of them.
        with: String,
        /// What was observed.
        source: Box<Error>,
    },
    /// A program was named for a server that the study does not start.
    #[error("the study `{study}` starts no server `{server}` (--server): {known}")]
    NoServer {
        /// Name of the study.
        study: String,
        /// The given name.
        server: String,
        /// The names that are allowed, in words.
        known: String,
    },
    /// Changes on a running server cannot be undone now.
    #[error(
        "what was changed on the server at {server} cannot be put back now; {} says what it is, and the same command in the same \
         folder (--output, --state) tries again", path.display()
    )]
    Owed {
        /// Address of the server.
        server: String,
        /// The file that lists the changes.
        path: PathBuf,
        /// The reason.
        source: Box<Error>,
    },
    /// The CPU time of a server on another machine cannot be read.
    #[error(
        "the server at {0} was not found on this machine, and only here its CPU time can be read; weigh it there, or name its \
         process with --pid"
    )]
    Elsewhere(String),
    /// Another process weighs the server already.
    #[error("the server at {0} is being weighed already; two would count each other's switching")]
    Weighed(String),
    /// The server has too little load.
    #[error(
        "the server at {server} has too little load: in {rounds} of {all} rounds every setting had a statement, and {wanted} are \
         wanted; weigh it while it is busy, for longer (--for), or in longer windows (--window)"
    )]
    TooLittleLoad {
        /// Address of the server.
        server: String,
        /// Rounds that can be compared.
        rounds: usize,
        /// All rounds.
        all: usize,
        /// The number of rounds that is needed.
        wanted: usize,
    },
    /// A schema has a name that the lab uses, but tables of somebody else.
    #[error(
        "the schema `{schema}` has tables, but not the one by which this study knows its own, so somebody else may have made \
         it: DROP DATABASE {schema} if it may go, or take it out of {}", path.display()
    )]
    NotOurs {
        /// Name of the schema.
        schema: String,
        /// The file that names it.
        path: PathBuf,
    },
    /// A study needs something that is missing here.
    #[error("the study `{study}` needs {what}")]
    Needs {
        /// Name of the study.
        study: String,
        /// What is missing, and how to install it.
        what: String,
    },
    /// The file is no recording, or is damaged.
    #[error("{}, line {line}: {why}", path.display())]
    Recording {
        /// The file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
        /// The fault, and what to do.
        why: String,
    },
    /// A recording has kinds of statements that were not asked for.
    #[error(
        "{} has more than reads: {others}. Name what is to be sent with {key}, such as reads,writes; the rest is left out",
        path.display()
    )]
    NotAsked {
        /// The recording's file.
        path: PathBuf,
        /// Those kinds, in words.
        others: String,
        /// The option or key that asks for them.
        key: String,
    },
    /// A server's Performance Schema keeps no statements.
    #[error(
        "the server at {server} remembers no statements: its Performance Schema must be on, and the consumers \
         events_statements_current and events_statements_history_long (UPDATE performance_schema.setup_consumers SET \
         ENABLED = 'YES' WHERE NAME LIKE 'events_statements_%')"
    )]
    NothingRemembered {
        /// Address of the server.
        server: String,
    },
    /// The disk is full.
    #[error(
        "the disk of {} is full; make room, or name a folder on another one (--output for results, TMPDIR for servers), and \
         run the same command again: what was measured is kept", folder.display()
    )]
    DiskFull {
        /// A folder on that disk.
        folder: PathBuf,
    },
    /// Another process writes the results.
    #[error("another study is running into {}; wait for it, or name another folder with --output", .0.display())]
    InUse(PathBuf),
    /// There are no results to report.
    #[error("{} has no results of a study (results.jsonl)", .0.display())]
    NoResults(PathBuf),
    /// The file of results is damaged.
    #[error("{}, line {line}: {why}", path.display())]
    Results {
        /// The file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
        /// The fault.
        why: String,
    },
    /// The folder has the results of something else.
    #[error("{} holds results of {what}; name another folder with --output", folder.display())]
    OtherResults {
        /// The folder.
        folder: PathBuf,
        /// What they are results of.
        what: String,
    },
    /// A measured file is not the one that the study began with.
    #[error(
        "{} holds results of another file than {} is now (`{what}`), and builds are not mixed: put that one back, or name another \
         folder with --output", folder.display(), path.display()
    )]
    OtherFile {
        /// The folder.
        folder: PathBuf,
        /// The study's name for it.
        what: String,
        /// The file.
        path: PathBuf,
    },
    /// The load driver did not end in time.
    #[error(
        "sysbench did not end {} s after its time was over: does the server hang? Its last lines:\n{output}",
        120
    )]
    LoadHangs {
        /// The end of its output.
        output: String,
    },
    /// The account or its password is wrong, or it lacks a privilege.
    #[error(
        "the server at {server} does not let `{user}` in; give the right password (-p, an option file, or for a study the \
         environment variable {}), or name another account",
        PASSWORD
    )]
    Denied {
        /// Address of the server.
        server: String,
        /// The account.
        user: String,
        /// The server's error.
        source: tare_connect::ClientError,
    },
    /// A server's programs or its data failed.
    #[error(transparent)]
    Server(#[from] tare_server::Error),
    /// The connection to a server failed.
    #[error(transparent)]
    Connect(#[from] tare_connect::Error),
    /// The server refused a statement.
    #[error("the server at {server} refused")]
    Sql {
        /// Address of the server.
        server: String,
        /// The server's error.
        source: tare_connect::ClientError,
    },
}

/// Adds the attempted operation to an I/O error.
pub(crate) trait Tried<T> {
    fn tried(self, what: impl FnOnce() -> String) -> crate::Result<T>;
}

impl<T, E: Into<io::Error>> Tried<T> for std::result::Result<T, E> {
    fn tried(self, what: impl FnOnce() -> String) -> crate::Result<T> {
        self.map_err(|e| Error::Io { what: what(), source: e.into() })
    }
}

/// Words the known name that a misspelt one is nearest to; nothing if none is near.
pub(crate) fn meant<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    tare_words::misspelt::meant(name, known, '`')
}

/// Returns the last lines of a server's error log, or says that it is empty.
fn last_words(log: &std::path::Path, tail: &str) -> String {
    if tail.trim().is_empty() {
        return format!("; it wrote nothing to its error log, {}", log.display());
    }
    format!("\nlast lines of {}:\n{tail}", log.display())
}
