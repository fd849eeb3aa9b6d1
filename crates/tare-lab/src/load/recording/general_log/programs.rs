//! Statements of stored programs: a general log has them next to the statement that runs them, without a
//! mark.
//!
//! Some can be told from their text: `NAME_CONST(…)` instead of a variable, or `NEW.` and `OLD.` of a
//! trigger. Others are recognized by the program's text, if it is known: the log has its CREATE, or a dump is
//! given. They follow the statement that runs the program, in its session.

use std::io::BufRead;
use std::rc::Rc;

use crate::load::recording::token::{Dialect, Token, tokens};

/// Most tokens before the word that names what CREATE makes.
const HEAD: usize = 16;

/// Statements that by themselves change no row of a table.
const READS: [&str; 9] = ["SELECT", "SHOW", "SET", "DO", "EXPLAIN", "DESCRIBE", "DESC", "VALUES", "HANDLER"];

/// The known stored programs.
#[derive(Clone, Debug, Default)]
pub struct Programs {
    all: Vec<Rc<LoggedProgram>>,
}

#[derive(Debug)]
struct LoggedProgram {
    is_trigger: bool,
    /// Name of the routine, or table of the trigger, in lower case.
    name: Vec<u8>,
    body: Vec<Vec<u8>>,
}

/// The programs that a statement may run.
#[derive(Clone, Debug, Default)]
pub(super) struct ProgramScope {
    bodies: Vec<Rc<LoggedProgram>>,
    /// The statements that are blocks themselves.
    blocks: Vec<Vec<Vec<u8>>>,
}

impl Programs {
    /// Reads the programs in a dump of `mariadb-dump --no-data --routines --triggers --events`, or any other
    /// script of the stock client.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(dump: impl BufRead, dialect: Dialect) -> std::io::Result<Programs> {
        let (mut programs, mut delimiter, mut statement) = (Programs::default(), b";".to_vec(), vec![]);
        for line in dump.split(b'\n') {
            let line = line?;
            let words: Vec<&[u8]> =
                line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
            if let [first, new] = words[..]
                && first.eq_ignore_ascii_case(b"DELIMITER")
            {
                delimiter = new.to_vec();
                statement.clear();
                continue;
            }
            statement.extend_from_slice(&line);
            statement.push(b'\n');
            if let Some(text) = statement.trim_ascii_end().strip_suffix(&delimiter[..]) {
                programs.learn(text, dialect);
                statement.clear();
            }
        }
        Ok(programs)
    }

    /// Returns whether no program is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Remembers the program that the statement creates, if it does.
    pub(super) fn learn(&mut self, text: &[u8], dialect: Dialect) {
        let mut all = tokens(text, dialect);
        if !all.next().is_some_and(|first| first.is_any(&["CREATE", "ALTER"])) {
            return;
        }
        let all: Vec<Token<'_>> = all.collect();
        let kinds = ["PROCEDURE", "FUNCTION", "TRIGGER", "EVENT"];
        let Some(at) = all.iter().take(HEAD).position(|token| token.is_any(&kinds)) else { return };
        let mut named = &all[at + 1..];
        let is_trigger = all[at].is("TRIGGER");
        if is_trigger {
            let Some(on) = named.iter().position(|token| token.is("ON")) else { return };
            named = &named[on + 1..];
        }
        let conditional = ["IF", "NOT", "EXISTS"];
        let skipped = named.iter().take_while(|token| token.is_any(&conditional)).count();
        let named = &named[skipped..];
        let is_name = |token: &&Token<'_>| matches!(token, Token::Word(_) | Token::Quoted(_));
        let mut parts: Vec<&Token<'_>> = vec![];
        for token in named.iter().take_while(is_name) {
            let goes_on = parts
                .last()
                .is_some_and(|last| last.is(".") || matches!(last, Token::Word(it) if it.ends_with(b".")));
            if !(parts.is_empty() || goes_on || matches!(token, Token::Word(it) if it.starts_with(b"."))) {
                break;
            }
            parts.push(token);
        }
        let Some(name) = parts.last().map(|name| last_part(**name)) else { return };
        let body = named.iter().map(|token| normalised(*token)).collect();
        self.all.push(Rc::new(LoggedProgram { is_trigger, name, body }));
    }

    /// Returns the programs that the statements of a packet may run: those whose names or tables occur, and
    /// those that these run.
    pub(super) fn scope(&self, statements: &[&[u8]], dialect: Dialect) -> ProgramScope {
        let mut scope = ProgramScope::default();
        let mut names: Vec<(Vec<u8>, bool)> = vec![];
        for text in statements {
            let first = tokens(text, dialect).next();
            let is_one_of = |words: &[&str]| first.is_some_and(|first| first.is_any(words));
            if is_one_of(&["CREATE", "ALTER", "DROP"]) {
                continue; // it runs nothing
            }
            if is_block(text, dialect) {
                scope.blocks.push(tokens(text, dialect).map(normalised).collect());
            }
            if !self.all.is_empty() {
                // A statement that only reads fires no trigger, but a function that it calls may.
                let fires = !is_one_of(&READS);
                names.extend(tokens(text, dialect).map(|token| (last_part(token), fires)));
            }
        }
        while let Some((name, fires)) = names.pop() {
            let is_run =
                |program: &&Rc<LoggedProgram>| program.name == name && (fires || !program.is_trigger);
            for program in self.all.iter().filter(is_run) {
                if !scope.bodies.iter().any(|known| Rc::ptr_eq(known, program)) {
                    scope.bodies.push(Rc::clone(program));
                    names.extend(program.body.iter().map(|token| (last_name(token), true)));
                }
            }
        }
        scope
    }
}

impl ProgramScope {
    /// Returns whether a statement belongs to one of these programs.
    pub(super) fn has(&self, text: &[u8], dialect: Dialect) -> bool {
        if self.bodies.is_empty() && self.blocks.is_empty() {
            return false;
        }
        let statement: Vec<Vec<u8>> = tokens(text, dialect).map(normalised).collect();
        let bodies = self.bodies.iter().map(|program| &program.body).chain(&self.blocks);
        bodies.into_iter().any(|body| has_statement(body, &statement))
    }
}

/// Returns whether a body contains a statement that is followed by its end and is not the whole body.
fn has_statement(body: &[Vec<u8>], statement: &[Vec<u8>]) -> bool {
    if statement.is_empty() || body.len() <= statement.len() {
        return false;
    }
    body.windows(statement.len()).enumerate().any(|(at, part)| {
        let behind = body.get(at + statement.len()).map(Vec::as_slice);
        at > 0 && part == statement && matches!(behind, None | Some(b";" | b"end"))
    })
}

/// Returns whether a statement can only belong to a stored program.
pub(super) fn is_inner(text: &[u8], dialect: Dialect) -> bool {
    let all: Vec<Token<'_>> = tokens(text, dialect).collect();
    if all.first().is_some_and(|first| first.is_any(&["CREATE", "ALTER", "BEGIN"])) {
        return false;
    }
    let is_constant = |pair: &[Token<'_>]| pair[0].is("NAME_CONST") && pair[1] == Token::Other(b'(');
    if all.windows(2).any(is_constant) {
        return true;
    }
    if all.iter().any(|token| token.is_any(&["NEW", "OLD"])) {
        return false; // somebody's alias
    }
    all.windows(2).any(|pair| {
        let is_row = |word: &[u8]| {
            word.get(..4)
                .is_some_and(|it| it.eq_ignore_ascii_case(b"new.") || it.eq_ignore_ascii_case(b"old."))
        };
        let before_table = ["FROM", "JOIN", "INTO", "UPDATE", "TABLE", "USE", "EXISTS"];
        matches!(pair[1], Token::Word(word) if is_row(word)) && !pair[0].is_any(&before_table)
    })
}

/// Returns whether it is an EXECUTE; a log also has what that ran.
pub(super) fn executes(text: &[u8], dialect: Dialect) -> bool {
    tokens(text, dialect).next().is_some_and(|first| first.is("EXECUTE"))
}

/// Returns whether it is a block of statements.
fn is_block(text: &[u8], dialect: Dialect) -> bool {
    let mut all = tokens(text, dialect);
    let first = all.next();
    let next = all.next();
    first.is_some_and(|first| first.is("BEGIN"))
        && next.is_some_and(|next| !next.is("WORK") && next != Token::End)
        || first
            .is_some_and(|first| first.is_any(&["IF", "CASE", "LOOP", "WHILE", "REPEAT", "FOR", "DECLARE"]))
}

/// Returns a token's form for comparison.
fn normalised(token: Token<'_>) -> Vec<u8> {
    match token {
        Token::Word(word) => word.to_ascii_lowercase(),
        Token::Quoted(quoted) => quoted.to_vec(),
        Token::Placeholder => b"?".to_vec(),
        Token::End => b";".to_vec(),
        Token::Other(byte) => vec![byte],
    }
}

/// Returns the last part of a name.
fn last_part(token: Token<'_>) -> Vec<u8> {
    last_name(&normalised(token))
}

fn last_name(name: &[u8]) -> Vec<u8> {
    let plain = name.strip_prefix(b"`").and_then(|name| name.strip_suffix(b"`"));
    let name = plain.unwrap_or_else(|| name.rsplit(|b| *b == b'.').next().unwrap_or_default());
    name.to_ascii_lowercase()
}
