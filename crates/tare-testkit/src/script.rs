//! Scripts of the oracle: SQL with a few directives, read from `scripts/*.sql`.
//!
//! A statement ends with `;` at the end of a line; `-- @block` … `-- @end` hold one statement with semicolons
//! inside. Further directives, each on a line of its own:
//!
//! | directive | meaning |
//! |---|---|
//! | `-- @connection N` | the following statements go to connection N (1 unless told) |
//! | `-- @user NAME` | this connection is that user's, who may do everything (`root` unless told) |
//! | `-- @disconnect` | closes this connection |
//! | `-- @error E` | the next statement must fail with error E |
//! | `-- @lenient` | from here on a statement may fail or not: how it ended is one of the figures |
//! | `-- @send` | the next statement is sent, its answer awaited by `-- @reap` |
//! | `-- @reap` | waits for the answer of what this connection sent |
//! | `-- @until SQL` | waits until a control connection gets 1 from SQL |
//! | `-- @control SQL` | a control connection, which nobody watches, executes SQL |
//! | `-- @prepare NAME` | the next statement is prepared by the binary protocol |
//! | `-- @execute NAME [JSON-like list]` | executes it: numbers, `'text'`, `NULL`, by commas |
//! | `-- @close NAME` | closes it |
//! | `-- @repeat N` | the next statement runs N times |

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::{Failure, Result};

/// A script: a name and its steps.
#[derive(Clone, Debug)]
pub struct Script {
    /// Name of the file without `.sql`; also the schema it runs in.
    pub name: String,
    /// Steps, in order.
    pub steps: Vec<ScriptStep>,
    /// Users of connections that are not `root`'s.
    pub users: BTreeMap<usize, String>,
}

/// A step on one connection.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptStep {
    /// Number of the connection, from 1.
    pub connection: usize,
    /// What it does.
    pub action: StepAction,
    /// How it must end.
    pub ending: ExpectedEnding,
    /// Whether the answer is awaited later.
    pub send: bool,
    /// Line of the script, for messages.
    pub line: usize,
}

/// How a step must end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExpectedEnding {
    /// Successfully.
    #[default]
    Success,
    /// With the error of this number.
    Error(u16),
    /// In any way.
    Any,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq)]
pub enum StepAction {
    /// Sends a statement by the text protocol.
    Query(String),
    /// Prepares a statement under a name.
    Prepare(String, String),
    /// Executes a prepared statement.
    Execute(String, Vec<Parameter>),
    /// Closes a prepared statement.
    Close(String),
    /// Awaits the answer to what was sent.
    Reap,
    /// Closes the connection.
    Disconnect,
    /// Waits until the control connection gets 1.
    Until(String),
    /// Runs a statement on the control connection.
    Control(String),
}

/// A parameter of an execution.
#[derive(Clone, Debug, PartialEq)]
pub enum Parameter {
    /// NULL
    Null,
    /// An integer.
    Number(i64),
    /// Text.
    Text(String),
}

/// Returns the folder of the scripts.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts")
}

/// Returns every script, by name.
///
/// # Errors
/// When one cannot be read or has an unknown directive.
pub fn all() -> Result<Vec<Script>> {
    let folder = folder();
    let entries = std::fs::read_dir(&folder).map_err(Failure::io(folder.display().to_string()))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|e| e.ok().map(|e| e.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "sql"));
    paths.sort();
    paths.iter().map(|path| read(path)).collect()
}

fn read(path: &Path) -> Result<Script> {
    let text = std::fs::read_to_string(path).map_err(Failure::io(path.display().to_string()))?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Script::parse(&name, &text)
}

impl Script {
    /// Parses a script in the syntax above.
    ///
    /// # Errors
    /// When it has an unknown directive, or a statement without an end.
    pub fn parse(name: &str, text: &str) -> Result<Script> {
        let (steps, users) = parse(text).map_err(|e| Failure::Setup(format!("{name}.sql: {e}")))?;
        Ok(Script { name: name.to_owned(), steps, users })
    }
}

/// Writes the script in the syntax of its file.
impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (connection, user) in &self.users {
            writeln!(f, "-- @connection {connection}\n-- @user {user}")?;
        }
        let (mut connection, mut ending) = (usize::from(self.users.is_empty()), ExpectedEnding::Success);
        for step in &self.steps {
            if step.connection != connection {
                connection = step.connection;
                writeln!(f, "-- @connection {connection}")?;
            }
            match step.ending {
                ExpectedEnding::Any if ending != ExpectedEnding::Any => writeln!(f, "-- @lenient")?,
                ExpectedEnding::Error(number) => writeln!(f, "-- @error {number}")?,
                _ => {}
            }
            ending = step.ending;
            if step.send {
                writeln!(f, "-- @send")?;
            }
            writeln!(f, "{}", step.action)?;
        }
        Ok(())
    }
}

impl fmt::Display for StepAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let statement = |sql: &str| match sql.contains(";\n") {
            true => format!("-- @block\n{sql}\n-- @end"),
            false => format!("{sql};"),
        };
        match self {
            StepAction::Query(sql) => f.write_str(&statement(sql)),
            StepAction::Prepare(name, sql) => write!(f, "-- @prepare {name}\n{}", statement(sql)),
            StepAction::Execute(name, parameters) => {
                let list: Vec<String> = parameters.iter().map(Parameter::to_string).collect();
                write!(f, "-- @execute {name} {}", list.join(", "))
            }
            StepAction::Close(name) => write!(f, "-- @close {name}"),
            StepAction::Reap => f.write_str("-- @reap"),
            StepAction::Disconnect => f.write_str("-- @disconnect"),
            StepAction::Until(sql) => write!(f, "-- @until {sql}"),
            StepAction::Control(sql) => write!(f, "-- @control {sql}"),
        }
    }
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Parameter::Null => f.write_str("NULL"),
            Parameter::Number(number) => write!(f, "{number}"),
            Parameter::Text(text) => write!(f, "'{text}'"),
        }
    }
}

struct Parser {
    steps: Vec<ScriptStep>,
    users: BTreeMap<usize, String>,
    connection: usize,
    /// How the next statement must end, if a directive says so, and how others must.
    ending: Option<ExpectedEnding>,
    usual: ExpectedEnding,
    send: bool,
    repeat: usize,
    prepare: Option<String>,
    text: String,
    begin: usize,
    block: bool,
}

/// The steps of a script, and the users of its connections.
type ParsedScript = (Vec<ScriptStep>, BTreeMap<usize, String>);

fn parse(text: &str) -> std::result::Result<ParsedScript, String> {
    let mut parser = Parser {
        steps: Vec::new(),
        users: BTreeMap::new(),
        connection: 1,
        ending: None,
        usual: ExpectedEnding::Success,
        send: false,
        repeat: 1,
        prepare: None,
        text: String::new(),
        begin: 0,
        block: false,
    };
    for (at, line) in text.lines().enumerate() {
        parser.line(at + 1, line).map_err(|e| format!("line {}: {e}", at + 1))?;
    }
    if parser.text.trim().is_empty() {
        return Ok((parser.steps, parser.users));
    }
    Err(format!("line {}: the statement does not end", parser.begin))
}

impl Parser {
    fn line(&mut self, at: usize, line: &str) -> std::result::Result<(), String> {
        if let Some(directive) = line.trim().strip_prefix("-- @") {
            return self.directive(at, directive);
        }
        if self.text.is_empty() && (line.trim().is_empty() || line.starts_with("-- ")) {
            return Ok(());
        }
        if self.text.is_empty() {
            self.begin = at;
        } else {
            self.text.push('\n');
        }
        self.text.push_str(line);
        if !self.block && line.trim_end().ends_with(';') {
            self.statement();
        }
        Ok(())
    }

    fn directive(&mut self, at: usize, directive: &str) -> std::result::Result<(), String> {
        let (word, rest) = directive.split_once(' ').unwrap_or((directive, ""));
        let number = || rest.parse::<usize>().map_err(|_| format!("{rest} is not a number"));
        match word {
            "connection" => self.connection = number()?,
            "error" => {
                self.ending =
                    Some(ExpectedEnding::Error(u16::try_from(number()?).map_err(|e| e.to_string())?));
            }
            "lenient" => self.usual = ExpectedEnding::Any,
            "repeat" => self.repeat = number()?,
            "user" => _ = self.users.insert(self.connection, rest.to_owned()),
            "disconnect" => self.step(StepAction::Disconnect, at),
            "send" => self.send = true,
            "prepare" => self.prepare = Some(rest.to_owned()),
            "block" => self.block = true,
            "end" => {
                self.block = false;
                self.statement();
            }
            "reap" => self.step(StepAction::Reap, at),
            "until" => self.step(StepAction::Until(rest.trim_end_matches(';').to_owned()), at),
            "control" => self.step(StepAction::Control(rest.trim_end_matches(';').to_owned()), at),
            "close" => self.step(StepAction::Close(rest.to_owned()), at),
            "execute" => {
                let (name, list) = rest.split_once(' ').unwrap_or((rest, ""));
                self.step(StepAction::Execute(name.to_owned(), parameters(list)?), at);
            }
            other => return Err(format!("there is no directive {other}")),
        }
        Ok(())
    }

    fn statement(&mut self) {
        let text = std::mem::take(&mut self.text);
        let text = text.trim_end().trim_end_matches(';').to_owned();
        let action = match self.prepare.take() {
            Some(name) => StepAction::Prepare(name, text),
            None => StepAction::Query(text),
        };
        self.step(action, self.begin);
    }

    fn step(&mut self, action: StepAction, line: usize) {
        let step = ScriptStep {
            connection: self.connection,
            action,
            ending: self.ending.take().unwrap_or(self.usual),
            send: std::mem::take(&mut self.send),
            line,
        };
        for _ in 0..std::mem::replace(&mut self.repeat, 1) {
            self.steps.push(step.clone());
        }
    }
}

fn parameters(list: &str) -> std::result::Result<Vec<Parameter>, String> {
    let list = list.trim();
    if list.is_empty() {
        return Ok(Vec::new());
    }
    list.split(',').map(|item| parameter(item.trim())).collect()
}

fn parameter(item: &str) -> std::result::Result<Parameter, String> {
    if item == "NULL" {
        return Ok(Parameter::Null);
    }
    if let Some(text) = item.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        return Ok(Parameter::Text(text.to_owned()));
    }
    item.parse().map(Parameter::Number).map_err(|_| format!("{item} is not a parameter"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_apply_to_the_next_statement_only() {
        let text = "-- @error 1062\nINSERT\n INTO t;\n-- @connection 2\n-- @send\nSELECT 1;\n-- @reap\n";
        let (steps, _) = parse(text).expect("a good script");
        assert_eq!(steps.len(), 3);
        assert_eq!(steps[0].ending, ExpectedEnding::Error(1062));
        assert_eq!(steps[0].action, StepAction::Query("INSERT\n INTO t".into()));
        assert_eq!((steps[1].connection, steps[1].send, steps[1].ending), (2, true, ExpectedEnding::Success));
        assert_eq!(steps[2].action, StepAction::Reap);
    }

    #[test]
    fn a_block_keeps_its_semicolons() {
        let (steps, _) = parse("-- @block\nBEGIN\n a;\n b;\nEND\n-- @end\nc;").expect("a good script");
        assert_eq!(steps[0].action, StepAction::Query("BEGIN\n a;\n b;\nEND".into()));
        assert_eq!(steps[1].action, StepAction::Query("c".into()));
    }

    #[test]
    fn parameters_are_typed() {
        let (steps, _) = parse("-- @execute s 1, 'a b', NULL").expect("a good script");
        let expected = vec![Parameter::Number(1), Parameter::Text("a b".into()), Parameter::Null];
        assert_eq!(steps[0].action, StepAction::Execute("s".into(), expected));
    }

    #[test]
    fn a_connection_may_be_a_users_and_may_end() {
        let (steps, users) = parse("-- @connection 2\n-- @user ann\na;\n-- @disconnect\n").expect("a script");
        assert_eq!(users, BTreeMap::from([(2, "ann".to_owned())]));
        assert_eq!((steps[1].connection, &steps[1].action), (2, &StepAction::Disconnect));
    }

    #[test]
    fn what_is_written_reads_as_the_same() {
        let text = "-- @user ann\na;\n-- @error 7\nb;\n-- @connection 2\n-- @lenient\n-- @block\nBEGIN\n c;\nEND\n\
                    -- @end\n-- @send\nd;\n-- @reap\n-- @prepare s\ne;\n-- @execute s 1, 'x', NULL\n-- @close s\n\
                    -- @control f\n-- @disconnect\n";
        let script = Script::parse("s", text).expect("a good script");
        let again = Script::parse("s", &script.to_string()).expect("a good script, too");
        let what = |script: &Script| {
            script.steps.iter().map(|step| ScriptStep { line: 0, ..step.clone() }).collect::<Vec<_>>()
        };
        assert_eq!(script.steps.len(), 10);
        assert_eq!(what(&script), what(&again));
        assert_eq!(script.users, again.users);
    }

    #[test]
    fn mistakes_name_their_line() {
        assert_eq!(
            parse("\n-- @nonsense").expect_err("no such directive"),
            "line 2: there is no directive nonsense"
        );
        assert_eq!(parse("SELECT 1").expect_err("no end"), "line 1: the statement does not end");
    }
}
