//! Effects of statements, judged by their words. In doubt, the worse effect is assumed.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::token::{Dialect, Token, is_open, tokens};

/// The effect of a statement, from harmless to severe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatementEffect {
    /// It reads, or affects only its session: SELECT, SHOW, SET of a session's variable, BEGIN, COMMIT.
    Reads,
    /// It changes rows, or may: INSERT, UPDATE, DELETE, CALL, EXECUTE.
    Writes,
    /// It changes tables and schemas: CREATE, ALTER, DROP, TRUNCATE.
    Definitions,
    /// It changes the server: GRANT, SET GLOBAL, FLUSH, ANALYZE TABLE, and everything unknown.
    Administration,
    /// It is never replayed: KILL (its number belongs to another connection by now), SHUTDOWN, replication.
    Never,
}

/// All kinds.
pub const KINDS: [StatementEffect; 5] = [
    StatementEffect::Reads,
    StatementEffect::Writes,
    StatementEffect::Definitions,
    StatementEffect::Administration,
    StatementEffect::Never,
];

impl StatementEffect {
    /// Returns the kind of a text; of several statements, the worst. The text is parsed in every `sql_mode`
    /// in which its quotes close, and the worst result counts.
    pub fn of(text: &[u8]) -> StatementEffect {
        let usual = Dialect::default();
        let others = [
            Dialect { no_backslash_escapes: true, ..usual },
            Dialect { ansi_quotes: true, ..usual },
            Dialect { wide: true, ..usual },
        ];
        let has_backslash = text.contains(&b'\\');
        let others = others.into_iter().filter(|dialect| has_backslash && !is_open(text, *dialect));
        others
            .map(|dialect| StatementEffect::read(text, dialect))
            .fold(StatementEffect::read(text, usual), StatementEffect::max)
    }

    fn read(text: &[u8], dialect: Dialect) -> StatementEffect {
        let all: Vec<Token<'_>> = tokens(text, dialect).collect();
        if is_program(&all) {
            return StatementEffect::Definitions;
        }
        all.split(|t| *t == Token::End).map(of_statement).max().unwrap_or(StatementEffect::Reads)
    }

    /// Returns the name of the kind, such as `reads`.
    pub fn name(self) -> &'static str {
        match self {
            StatementEffect::Reads => "reads",
            StatementEffect::Writes => "writes",
            StatementEffect::Definitions => "definitions",
            StatementEffect::Administration => "administration",
            StatementEffect::Never => "never",
        }
    }
}

impl fmt::Display for StatementEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The kinds of statements to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent([bool; KINDS.len()]);

impl Sent {
    /// Returns the set with reads only.
    pub fn reads() -> Sent {
        Sent(KINDS.map(|kind| kind == StatementEffect::Reads))
    }

    /// Returns whether statements of this kind are sent.
    pub fn has(self, kind: StatementEffect) -> bool {
        self.0[kind as usize]
    }
}

impl FromStr for Sent {
    type Err = String;

    /// Parses a list such as `reads,writes`.
    fn from_str(text: &str) -> Result<Sent, String> {
        let mut sent = Sent([false; KINDS.len()]);
        for name in text.split(',').map(str::trim) {
            let known =
                KINDS.iter().filter(|kind| **kind != StatementEffect::Never).find(|kind| kind.name() == name);
            let kind = known.ok_or_else(|| {
                format!("`{name}`: some of reads, writes, definitions, administration are allowed, with commas between them")
            })?;
            sent.0[*kind as usize] = true;
        }
        Ok(sent)
    }
}

impl fmt::Display for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = KINDS.iter().filter(|k| self.has(**k)).map(|k| k.name()).collect();
        f.write_str(&names.join(","))
    }
}

/// Returns whether it creates or changes a stored program, whose statements do not run now.
fn is_program(all: &[Token<'_>]) -> bool {
    let is_one_of = |t: &Token<'_>, words: &[&str]| words.iter().any(|word| t.is(word));
    all.first().is_some_and(|t| is_one_of(t, &["CREATE", "ALTER"]))
        && all
            .iter()
            .take(14)
            .take_while(|t| !is_one_of(t, &["TABLE", "VIEW", "INDEX", "USER", "ROLE"]) && **t != Token::End)
            .any(|t| is_one_of(t, &["PROCEDURE", "FUNCTION", "TRIGGER", "EVENT", "PACKAGE"]))
}

fn of_statement(all: &[Token<'_>]) -> StatementEffect {
    let brackets = all.iter().take_while(|t| **t == Token::Other(b'(')).count();
    let Some((first, rest)) = all[brackets..].split_first() else { return StatementEffect::Reads };
    let Token::Word(first) = first else { return StatementEffect::Administration };
    let next = rest.first().copied().unwrap_or(Token::End);
    match String::from_utf8_lossy(first).to_ascii_uppercase().as_str() {
        "SELECT" | "VALUES" | "TABLE" => of_select(rest),
        "WITH" => verb_outside_brackets(rest),
        // A block of statements rather than a transaction's start: `BEGIN NOT ATOMIC …`; with `sql_mode =
        // ORACLE` without these words.
        "BEGIN" if rest.first().is_some_and(|t| !t.is("WORK")) => StatementEffect::Administration,
        "SHOW" | "HELP" | "USE" | "DO" | "HANDLER" | "BEGIN" | "COMMIT" | "ROLLBACK" | "SAVEPOINT"
        | "RELEASE" | "LOCK" | "UNLOCK" | "CHECKSUM" | "PREPARE" | "DEALLOCATE" | "END" => {
            StatementEffect::Reads
        }
        "START" if next.is("TRANSACTION") => StatementEffect::Reads,
        "EXPLAIN" | "DESCRIBE" | "DESC" if next.is("ANALYZE") => verb_outside_brackets(rest),
        "EXPLAIN" | "DESCRIBE" | "DESC" => StatementEffect::Reads,
        "ANALYZE" if ["TABLE", "LOCAL", "NO_WRITE_TO_BINLOG"].iter().all(|word| !next.is(word)) => {
            verb_outside_brackets(rest)
        }
        "SET" => of_set(rest),
        "INSERT" | "UPDATE" | "DELETE" | "REPLACE" | "LOAD" | "CALL" | "EXECUTE" | "XA" => {
            StatementEffect::Writes
        }
        "CREATE" | "ALTER" | "DROP" | "RENAME" | "TRUNCATE" => of_definition(rest),
        "KILL" | "SHUTDOWN" | "RESTART" | "STOP" | "START" | "CHANGE" | "RESET" | "PURGE" | "CLONE" => {
            StatementEffect::Never
        }
        _ => StatementEffect::Administration,
    }
}

/// Returns the kind of a SELECT, which may write a file.
fn of_select(rest: &[Token<'_>]) -> StatementEffect {
    let writes_a_file = rest.iter().any(|t| t.is("OUTFILE") || t.is("DUMPFILE"));
    if writes_a_file { StatementEffect::Administration } else { StatementEffect::Reads }
}

/// Returns the kind of a statement inside another: `WITH x AS (…) DELETE …`, `ANALYZE FORMAT=JSON UPDATE …`.
fn verb_outside_brackets(rest: &[Token<'_>]) -> StatementEffect {
    const VERBS: [&str; 7] = ["SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE", "TABLE", "VALUES"];
    let mut depth = 0_i32;
    let verb = rest.iter().position(|token| {
        match token {
            Token::Other(b'(') => depth += 1,
            Token::Other(b')') => depth -= 1,
            _ => {}
        }
        depth == 0 && VERBS.iter().any(|verb| token.is(verb))
    });
    // Otherwise the verb is in brackets, as in `ANALYZE (SELECT …)`, whose content is not examined.
    verb.map_or(StatementEffect::Writes, |at| of_statement(&rest[at..]))
}

/// Returns the kind of a SET: `SET GLOBAL`, or `SET STATEMENT … FOR` another statement.
fn of_set(rest: &[Token<'_>]) -> StatementEffect {
    if rest.first().is_some_and(|t| t.is("STATEMENT")) {
        let behind = rest.iter().position(|t| t.is("FOR"));
        return behind.map_or(StatementEffect::Administration, |at| of_statement(&rest[at + 1..]));
    }
    let is_wide = |token: &Token<'_>| {
        let Token::Word(word) = token else { return false };
        let word = String::from_utf8_lossy(word).to_ascii_uppercase();
        ["GLOBAL", "PERSIST", "PERSIST_ONLY"].contains(&word.as_str())
            || ["@@GLOBAL.", "@@PERSIST"].iter().any(|beginning| word.starts_with(beginning))
    };
    let account = rest.first().is_some_and(|t| t.is("PASSWORD") || t.is("DEFAULT"));
    if account || rest.iter().any(is_wide) { StatementEffect::Administration } else { StatementEffect::Reads }
}

/// Returns the kind of a definition: `CREATE USER` and the like affect the server, not tables.
fn of_definition(rest: &[Token<'_>]) -> StatementEffect {
    let what =
        rest.iter().find(|t| !["OR", "REPLACE", "IF", "EXISTS", "NOT", "UNDO"].iter().any(|w| t.is(w)));
    let about = ["USER", "ROLE", "SERVER", "INSTANCE", "TABLESPACE", "LOGFILE", "RESOURCE"];
    let about_server = what.is_none_or(|t| about.iter().any(|word| t.is(word)));
    if about_server { StatementEffect::Administration } else { StatementEffect::Definitions }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_told_by_what_they_do() {
        let cases: &[(StatementEffect, &[&str])] = &[
            (
                StatementEffect::Reads,
                &[
                    "select 'drop table t; delete from t'",
                    "(select 1) union (select 2)",
                    "/* app */ select * from t for update",
                    "with x as (select 1) select * from x for update",
                    "set autocommit = 0",
                    "set @@session.sort_buffer_size = 1, @a = 'global'",
                    "begin",
                    "begin work;",
                    "begin -- a transaction",
                    "start transaction read only",
                    "explain delete from t",
                    "desc t",
                    "use shop",
                    "analyze format=json select 1",
                    "commit;",
                    "",
                    "-- nothing",
                ],
            ),
            (
                StatementEffect::Writes,
                &[
                    "INSERT INTO t VALUES (1)",
                    "with x as (select 1) delete from t",
                    "analyze update t set a = 1",
                    "explain analyze delete from t",
                    "set statement max_statement_time = 1 for delete from t",
                    "call p()",
                    "execute s using @a",
                    "select 1; replace into t values (1)",
                    "load data infile 'x' into table t",
                    "xa prepare 'x'",
                ],
            ),
            (
                StatementEffect::Definitions,
                &[
                    "create table user (a int)",
                    "truncate t",
                    "drop table if exists t",
                    "/*!40000 drop table t */",
                    "create or replace definer=`a`@`b` procedure p() begin grant all on *.* to x; kill 1; end",
                    "create trigger t before insert on x for each row set @a = 1",
                    "select 1; drop table t",
                    "alter table t add b int",
                ],
            ),
            (
                StatementEffect::Administration,
                &[
                    "grant all on *.* to x",
                    "create user x",
                    "drop role if exists x",
                    "set global sort_buffer_size = 1",
                    "set @@global.sort_buffer_size = 1",
                    "set password = ''",
                    "flush tables",
                    "analyze table t",
                    "select 1 into outfile '/tmp/x'",
                    "frobnicate",
                    "create table t (a int); flush tables",
                    "begin not atomic delete from t; end",
                    "BEGIN /* a block */ NOT ATOMIC select 1; end",
                    "begin delete from t; end",
                    "'drop'",
                ],
            ),
            (
                StatementEffect::Never,
                &["kill 7", "shutdown", "start slave", "reset master", "select 1; kill query 3"],
            ),
        ];
        for (kind, texts) in cases {
            for text in *texts {
                assert_eq!(StatementEffect::of(text.as_bytes()), *kind, "{text}");
            }
        }
    }

    #[test]
    fn what_may_end_otherwise_is_the_worst_it_may_be() {
        let of = |text: &[u8]| StatementEffect::of(text);
        assert_eq!(
            of(br"select 'don\'t; delete from t'"),
            StatementEffect::Reads,
            "no mode else closes its quotes"
        );
        assert_eq!(of(br"select 'c:\'; delete from t; -- '"), StatementEffect::Writes);
        assert_eq!(of(b"select '\x95\\' ; drop table t; -- '"), StatementEffect::Definitions);
        assert_eq!(of(b"select '\xff'"), StatementEffect::Reads);
    }

    #[test]
    fn what_is_sent_is_said_in_words() {
        let sent: Sent = "reads, writes".parse().expect("kinds");
        assert!(
            sent.has(StatementEffect::Writes)
                && !sent.has(StatementEffect::Definitions)
                && !sent.has(StatementEffect::Never)
        );
        assert_eq!(sent.to_string(), "reads,writes");
        assert!("reads,drops".parse::<Sent>().is_err_and(|why| why.contains("`drops`")));
        assert!("never".parse::<Sent>().is_err());
    }
}
