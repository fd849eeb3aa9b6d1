//! What can go wrong around a measured server, in words that say what to do about it.

use std::io;
use std::path::PathBuf;

/// Why a server, a load or a study did not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The user pressed Ctrl-C, or the process was asked to end.
    #[error("interrupted")]
    Interrupted,
    /// A program that is needed is not installed.
    #[error("`{program}` was not found; {hint}")]
    Missing {
        /// Its name or path.
        program: String,
        /// What brings it.
        hint: String,
    },
    /// What is said to be a server does not answer as one.
    #[error(
        "`{program}` does not look like a MariaDB or MySQL server: asked for {asked} it ended at once ({status}) and {printed}; name \
         the server's program, such as /usr/sbin/mariadbd, with --mariadbd"
    )]
    NotAServer {
        /// Its path.
        program: String,
        /// What it was asked for, as an option.
        asked: &'static str,
        /// How it ended.
        status: String,
        /// What it printed, in words.
        printed: String,
    },
    /// The operating system refused something.
    #[error("{what}")]
    Io {
        /// What was tried.
        what: String,
        /// What it said.
        source: io::Error,
    },
    /// A program ran and failed.
    #[error("`{program}` failed ({status})\n{output}")]
    Program {
        /// Its name.
        program: String,
        /// How it ended.
        status: String,
        /// The last lines it printed.
        output: String,
    },
    /// The server ended or did not answer while starting.
    #[error("the server did not start: {why}{}", last_words(log, tail))]
    NotStarted {
        /// What was seen.
        why: String,
        /// Its error log.
        log: PathBuf,
        /// The log's last lines.
        tail: String,
    },
    /// A Unix socket's path may have 107 bytes.
    #[error(
        "the socket path {} is too long for a Unix socket (107 bytes at most); use a shorter folder (--datadir, or TMPDIR)",
        .0.display()
    )]
    SocketPathTooLong(PathBuf),
    /// Somebody answers where a server of ours is to listen.
    #[error(
        "a server listens at {} already; shut that one down first, or name another data directory with --datadir",
        .0.display()
    )]
    SocketInUse(PathBuf),
    /// Running as root needs an account to run the server as.
    #[error(
        "running as root needs an account `{0}` to run the server as; install the distribution's mariadb-server (which \
         makes it), or run as another user"
    )]
    NoAccount(String),
    /// The load driver ended before its time, or failed.
    #[error("sysbench ended before its time ({status})\n{output}")]
    LoadEnded {
        /// How it ended.
        status: String,
        /// The last lines it printed.
        output: String,
    },
    /// A load did not come to its end on a server that is well.
    #[error("load on setting `{setting}`")]
    Load {
        /// On which.
        setting: String,
        /// What happened to it.
        source: Box<Error>,
    },
    /// The load driver printed something else than expected.
    #[error("cannot read sysbench's report: {why}\n{output}")]
    LoadReport {
        /// What was missing.
        why: &'static str,
        /// What it printed.
        output: String,
    },
    /// A block in turns was over before its settings had theirs.
    #[error(
        "connecting took the {seconds} s that a block has: `slice_seconds` is too short for so many connections"
    )]
    NoTurns {
        /// How long a block takes.
        seconds: u32,
    },
    /// No study has that name.
    #[error("there is no study `{study}`: name a file (*.toml), or one of {known}")]
    NoStudy {
        /// What was asked for.
        study: String,
        /// What there is.
        known: String,
    },
    /// A study's file is wrong.
    #[error("{file}, line {line}, `{key}`: {why}")]
    Study {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The key, or the section.
        key: String,
        /// What is wrong, and what is allowed.
        why: String,
    },
    /// A running server ended.
    #[error("the server of setting `{setting}` ended ({status}); last lines of its log:\n{tail}")]
    Died {
        /// Whose.
        setting: String,
        /// How.
        status: String,
        /// The log's last lines.
        tail: String,
    },
    /// A server was asked for that is not running.
    #[error("the server of setting `{0}` is not running")]
    NotRunning(String),
    /// Load cannot come from where a study says.
    #[error("the driver cannot be started with `{prefix}` (the study's [driver], or --driver): {why}")]
    Outpost {
        /// How it was tried.
        prefix: String,
        /// What happened, and what to do.
        why: String,
    },
    /// A program beside a server ended, or never answered.
    #[error("`{program}` beside setting `{setting}`: {why}\n{tail}")]
    Sidecar {
        /// Its name.
        program: String,
        /// Whose.
        setting: String,
        /// What happened.
        why: String,
        /// What it printed last.
        tail: String,
    },
    /// A setting is not what it says.
    #[error("setting `{setting}` is not what it says: `{query}` answers {answer} (the study's `require`)")]
    NotAsSaid {
        /// Which.
        setting: String,
        /// What was asked.
        query: String,
        /// What came back.
        answer: String,
    },
    /// A server was asked to become what the setting says, and refused.
    #[error("setting `{setting}` cannot be switched to, its `switch` fails: {statement}")]
    Switch {
        /// Which.
        setting: String,
        /// The statement.
        statement: String,
        /// What the server said.
        source: Box<Error>,
    },
    /// A server does not start in a setting.
    #[error("{whose} does not start {with}")]
    Start {
        /// Of which setting, in words.
        whose: String,
        /// The option that its log complains of, or all of them.
        with: String,
        /// What was seen.
        source: Box<Error>,
    },
    /// A program was named for a server that the study does not start.
    #[error("the study `{study}` starts no server `{server}` (--server): {known}")]
    NoServer {
        /// The study.
        study: String,
        /// What was named.
        server: String,
        /// What can be named, in words.
        known: String,
    },
    /// What was changed on a server that is not ours cannot be put back.
    #[error(
        "what was changed on the server at {server} cannot be put back now; {} says what it is, and the same command in the same \
         folder (--out, --state) tries again", path.display()
    )]
    Owed {
        /// Where it is.
        server: String,
        /// The file with what is to be put back.
        path: PathBuf,
        /// Why.
        source: Box<Error>,
    },
    /// A server whose CPU time cannot be read.
    #[error(
        "the server at {0} was not found on this machine, and only here its CPU time can be read; weigh it there, or name its \
         process with --pid"
    )]
    Elsewhere(String),
    /// Somebody weighs the server already.
    #[error("the server at {0} is being weighed already; two would count each other's switching")]
    Weighed(String),
    /// The server has too little to do.
    #[error(
        "the server at {server} has too little load: in {rounds} of {all} rounds every setting had a statement, and {wanted} are \
         wanted; weigh it while it is busy, for longer (--secs), or in longer windows (--window)"
    )]
    TooLittleLoad {
        /// Where it is.
        server: String,
        /// Rounds that can be compared.
        rounds: usize,
        /// Rounds.
        all: usize,
        /// So many must be.
        wanted: usize,
    },
    /// A schema has a name of ours, and tables that are not.
    #[error(
        "the schema `{schema}` has tables, but not the one by which this study knows its own, so somebody else may have made \
         it: DROP DATABASE {schema} if it may go, or take it out of {}", path.display()
    )]
    NotOurs {
        /// Its name.
        schema: String,
        /// The file that names it.
        path: PathBuf,
    },
    /// A study needs what is not here.
    #[error("the study `{study}` needs {what}")]
    Needs {
        /// Which.
        study: String,
        /// What, and what brings it.
        what: String,
    },
    /// The file of a recording is none, or damaged.
    #[error("{}, line {line}: {why}", path.display())]
    Recording {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong, and what to do.
        why: String,
    },
    /// A recording has statements of kinds that nobody asked to send.
    #[error(
        "{} has more than reads: {others}. Name what is to be sent with {key}, such as reads,writes; the rest is left out",
        path.display()
    )]
    NotAsked {
        /// The recording's file.
        path: PathBuf,
        /// What it has, in words.
        others: String,
        /// How to ask for it.
        key: String,
    },
    /// A server has no statements in its memory.
    #[error(
        "the server at {server} remembers no statements: its Performance Schema must be on, and the consumers \
         events_statements_current and events_statements_history_long (UPDATE performance_schema.setup_consumers SET \
         ENABLED = 'YES' WHERE NAME LIKE 'events_statements_%')"
    )]
    NothingRemembered {
        /// Where it is.
        server: String,
    },
    /// No room is left.
    #[error(
        "the disk of {} is full; make room, or name a folder on another one (--out for results, TMPDIR for servers), and \
         run the same command again: what was measured is kept", folder.display()
    )]
    DiskFull {
        /// On it.
        folder: PathBuf,
    },
    /// Another process writes the results.
    #[error("another study is running into {}; wait for it, or name another folder with --out", .0.display())]
    InUse(PathBuf),
    /// There is nothing to report.
    #[error("{} has no results of a study (results.jsonl)", .0.display())]
    NoResults(PathBuf),
    /// The file of results is damaged.
    #[error("{}, line {line}: {why}", path.display())]
    Results {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// The results in a folder are of something else.
    #[error("{} holds results of {what}; name another folder with --out", folder.display())]
    OtherResults {
        /// The folder.
        folder: PathBuf,
        /// Of what.
        what: String,
    },
    /// A file that is measured is not the one that a study began with.
    #[error(
        "{} holds results of another file than {} is now (`{what}`), and builds are not mixed: put that one back, or name another \
         folder with --out", folder.display(), path.display()
    )]
    OtherFile {
        /// The folder.
        folder: PathBuf,
        /// What the study calls it.
        what: String,
        /// The file.
        path: PathBuf,
    },
    /// The load driver did not end when its time was over.
    #[error(
        "sysbench did not end {} s after its time was over: does the server hang? Its last lines:\n{output}",
        120
    )]
    LoadHangs {
        /// What it printed.
        output: String,
    },
    /// The account or its password is wrong, or it may not do what was asked.
    #[error(
        "the server at {server} does not let `{user}` in; give the right password (-p, an option file, or for a study the \
         environment variable {}), or name another account",
        crate::definition::PASSWORD
    )]
    Denied {
        /// Where it is.
        server: String,
        /// The account.
        user: String,
        /// What it said.
        source: tare_connect::Told,
    },
    /// There is no connection to a server.
    #[error(transparent)]
    Connect(#[from] tare_connect::Error),
    /// The server refused a statement.
    #[error("the server at {server} refused")]
    Sql {
        /// Where it is.
        server: String,
        /// What it said.
        source: tare_connect::Told,
    },
}

/// Adds what was tried to an I/O error.
pub(crate) trait Tried<T> {
    fn tried(self, what: impl FnOnce() -> String) -> crate::Result<T>;
}

impl<T, E: Into<io::Error>> Tried<T> for std::result::Result<T, E> {
    fn tried(self, what: impl FnOnce() -> String) -> crate::Result<T> {
        self.map_err(|e| Error::Io { what: what(), source: e.into() })
    }
}
/// What a server's error log had last, or that there is nothing in it.
fn last_words(log: &std::path::Path, tail: &str) -> String {
    if tail.trim().is_empty() {
        return format!("; it wrote nothing to its error log, {}", log.display());
    }
    format!("\nlast lines of {}:\n{tail}", log.display())
}
