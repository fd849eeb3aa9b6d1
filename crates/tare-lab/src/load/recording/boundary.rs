//! Detection of the ends of statements: at a `;`, except inside stored programs and blocks.

use super::token::{Dialect, Lexer, Piece, Token};

/// Words that start a block with an END of its own.
const BLOCKS: [&str; 6] = ["IF", "CASE", "LOOP", "WHILE", "REPEAT", "FOR"];
/// Words after which a statement of a program starts.
const BEFORE_A_STATEMENT: [&str; 7] = ["BEGIN", "ATOMIC", "THEN", "ELSE", "DO", "LOOP", "REPEAT"];
/// Words of a program's head after which its only statement may start.
const BEFORE_A_BODY: [&str; 9] =
    ["ROW", "DO", "DETERMINISTIC", "SQL", "DATA", "DEFINER", "INVOKER", "COMPLETE", "ENABLE"];
/// Words that start a program's only statement.
const VERBS: [&str; 9] = ["SELECT", "INSERT", "REPLACE", "UPDATE", "DELETE", "SET", "CALL", "WITH", "DO"];
/// Most tokens before the word that names what CREATE makes.
const HEAD: usize = 14;

/// The form of a statement, as far as its end depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum StatementForm {
    /// It has not started.
    #[default]
    Empty,
    /// CREATE or ALTER, followed by so many tokens.
    Defines(usize),
    /// `BEGIN`, of a transaction or of a block.
    Begins,
    /// A word that may be a label.
    Named,
    /// It ends at the first `;`.
    Plain,
    /// A program or block, which ends at the `;` after its last END.
    Program,
}

/// The previous token, as far as it matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Before {
    /// Nothing, `;`, or a word after which a statement starts.
    #[default]
    Start,
    /// `END`
    End,
    /// A closing bracket, something quoted, or a word of a program's head.
    Head,
    /// `RETURN`, an operator, or any other word.
    Other,
}

/// The parser's state between the tokens of a text.
#[derive(Clone, Copy, Debug, Default)]
struct Outline {
    form: StatementForm,
    before: Before,
    depth: usize,
    brackets: usize,
    /// Whether the declarations before a program's BEGIN are being read.
    declares: bool,
    /// Whether the program's only statement has started, so that `AS` makes an alias.
    in_body: bool,
    is_package: bool,
}

impl Outline {
    fn is_nested(&self) -> bool {
        self.form == StatementForm::Program && (self.depth > 0 || self.declares)
    }

    /// Processes a token; returns whether it ends the statement.
    fn take(&mut self, piece: &Piece<'_>) -> bool {
        let token = piece.token;
        if token == Token::End {
            if self.is_nested() || piece.in_executable {
                self.before = Before::Start;
                return false;
            }
            *self = Outline::default();
            return true;
        }
        match token {
            Token::Other(b'(') => self.brackets += 1,
            Token::Other(b')') => self.brackets = self.brackets.saturating_sub(1),
            _ => {}
        }
        self.classify(token);
        if self.form == StatementForm::Program {
            self.nest(token);
        }
        false
    }

    /// Determines the statement's form.
    fn classify(&mut self, token: Token<'_>) {
        self.form = match self.form {
            StatementForm::Empty if token.is("BEGIN") => StatementForm::Begins,
            StatementForm::Empty if token.is_any(&["CREATE", "ALTER"]) => StatementForm::Defines(0),
            StatementForm::Empty if token.is("DECLARE") => {
                self.declares = true;
                StatementForm::Program
            }
            StatementForm::Empty if token.is_any(&BLOCKS) => StatementForm::Program,
            StatementForm::Empty if matches!(token, Token::Word(_) | Token::Quoted(_)) => {
                StatementForm::Named
            }
            StatementForm::Empty => StatementForm::Plain,
            StatementForm::Begins if token.is("WORK") => StatementForm::Plain,
            StatementForm::Begins => {
                self.depth = 1;
                StatementForm::Program
            }
            StatementForm::Named if token == Token::Other(b':') => {
                self.before = Before::Start;
                StatementForm::Program
            }
            StatementForm::Named => StatementForm::Plain,
            StatementForm::Defines(_)
                if token.is_any(&["PROCEDURE", "FUNCTION", "TRIGGER", "EVENT", "PACKAGE"]) =>
            {
                self.is_package = token.is("PACKAGE");
                self.before = Before::Other;
                StatementForm::Program
            }
            StatementForm::Defines(count)
                if count >= HEAD
                    || token.is_any(&["TABLE", "VIEW", "INDEX", "USER", "ROLE", "DATABASE", "SCHEMA"]) =>
            {
                StatementForm::Plain
            }
            StatementForm::Defines(count) => StatementForm::Defines(count + 1),
            form => form,
        };
    }

    /// Tracks the nesting of a program's blocks.
    fn nest(&mut self, token: Token<'_>) {
        let before = std::mem::replace(&mut self.before, Before::Other);
        let is_start = before == Before::Start;
        let is_body = self.depth == 0 && before == Before::Head && !token.is("FOR");
        let is_block = token.is_any(&BLOCKS) && before != Before::End;
        if token.is("END") {
            self.depth = self.depth.saturating_sub(1);
            self.before = Before::End;
        } else if token.is("BEGIN") || is_block && (is_start || is_body || token.is("CASE")) {
            self.depth += 1;
            self.declares = false;
            self.before = if token.is_any(&BEFORE_A_STATEMENT) { Before::Start } else { Before::Other };
        } else if token == Token::Other(b':') || token.is_any(&BEFORE_A_STATEMENT) && !token.is("REPEAT") {
            self.before = Before::Start;
        } else if token.is_any(&["AS", "IS"]) && self.depth == 0 && self.brackets == 0 && !self.in_body {
            // A package has an END and no BEGIN.
            self.declares = !self.is_package;
            self.depth += usize::from(self.is_package);
        } else if self.depth == 0 && ends_a_head(token) {
            self.before = Before::Head;
        }
        self.in_body |= self.depth == 0 && token.is_any(&VERBS);
    }
}

/// Returns whether a program's only statement may start after this token.
fn ends_a_head(token: Token<'_>) -> bool {
    token == Token::Other(b')') || matches!(token, Token::Quoted(_)) || token.is_any(&BEFORE_A_BODY)
}

/// A parser of a text that grows by whole lines, which tells whether it ends with a statement.
#[derive(Clone, Debug, Default)]
pub struct BoundaryParser {
    lexer: Lexer,
    outline: Outline,
    /// Whether a statement has started that has not ended.
    has_begun: bool,
    ended: usize,
}

impl BoundaryParser {
    /// Creates a reader at the start of a text.
    #[must_use]
    pub fn new(dialect: Dialect) -> BoundaryParser {
        BoundaryParser { lexer: Lexer::new(dialect), ..BoundaryParser::default() }
    }

    /// Reads on; `each` gets the end of every non-empty statement, before its `;`.
    pub fn read(&mut self, text: &[u8], mut each: impl FnMut(usize)) {
        while let Some(piece) = self.lexer.next(text) {
            if !self.outline.take(&piece) {
                self.has_begun = true;
            } else if std::mem::take(&mut self.has_begun) {
                self.ended += 1;
                each(piece.end - 1);
            }
        }
    }

    /// Returns the number of statements that have ended.
    #[must_use]
    pub fn ended(&self) -> usize {
        self.ended
    }

    /// Returns whether the text ends inside quotes or a comment.
    #[must_use]
    pub fn is_quoting(&self) -> bool {
        self.lexer.is_open()
    }

    /// Returns whether the text ends inside a stored program or a block.
    #[must_use]
    pub fn is_nested(&self) -> bool {
        self.outline.is_nested()
    }

    /// Returns whether a statement has started and not ended.
    #[must_use]
    pub fn is_within(&self) -> bool {
        self.has_begun || self.lexer.is_open()
    }
}

/// Splits a text at the `;` between statements. Empty ones and comments are left out.
#[must_use]
pub fn split(text: &[u8], dialect: Dialect) -> Vec<&[u8]> {
    let (mut statements, mut from) = (vec![], 0);
    let mut reader = BoundaryParser::new(dialect);
    reader.read(text, |end| {
        statements.push(text[from..end].trim_ascii());
        from = end + 1;
    });
    if reader.is_within() {
        let rest = text[from..].trim_ascii();
        // An empty statement before it was skipped, with its `;`.
        statements.push(rest);
    }
    statements.iter_mut().for_each(|it| *it = without_ends(it));
    statements
}

/// Splits a text in the default dialect. See [`split`].
#[must_use]
pub fn statements(text: &str) -> Vec<&str> {
    let of = |it: &[u8]| std::str::from_utf8(it).map(str::len).unwrap_or_default();
    let mut rest = text;
    let mut found = vec![];
    for statement in split(text.as_bytes(), Dialect::default()) {
        let Ok(statement) = std::str::from_utf8(statement) else { continue };
        let Some(at) = rest.find(statement) else { continue };
        let end = at + of(statement.as_bytes());
        found.push(&rest[at..end]);
        rest = &rest[end..];
    }
    found
}

/// Strips the `;` and blanks at the start.
fn without_ends(mut text: &[u8]) -> &[u8] {
    while let [b';', rest @ ..] = text {
        text = rest.trim_ascii_start();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<&str> {
        statements(text)
    }

    #[test]
    fn statements_are_told_from_what_only_looks_like_an_end() {
        let names = "UPDATE t SET a = 'NO' WHERE name = 'one binlog; the next'";
        assert_eq!(of(&format!("{names};\n DO 1 ;; -- ;\n /* ; */")), [names, "DO 1"]);
        assert_eq!(of("USE `a;b`; SELECT \"c;d\" -- ;"), ["USE `a;b`", "SELECT \"c;d\" -- ;"]);
        assert_eq!(of(" ; -- nothing"), [""; 0]);
        assert_eq!(of("do 1; do 1; do 1"), ["do 1"; 3]);
        assert_eq!(of("a /*! ; */; b"), ["a /*! ; */", "b"]);
        assert_eq!(of("begin; select 1; commit"), ["begin", "select 1", "commit"]);
        assert_eq!(
            of("begin work; select case 1 when 1 then 2 end; end"),
            ["begin work", "select case 1 when 1 then 2 end", "end"]
        );
    }

    #[test]
    fn programs_and_blocks_are_one_statement() {
        let programs = [
            "begin not atomic insert into t values (1); insert into t values (2); end",
            "BEGIN insert into t values (1); END",
            "create procedure p(x int) begin declare v int default 3; if x then set v = 1; else begin set v = 2; end; end if; end",
            "create procedure p() begin declare exit handler for sqlexception begin rollback; end; start transaction; commit; end",
            "create definer=`a`@`b` procedure if not exists p() case 1 when 1 then select 1; else select 2; end case",
            "create function f(x int) returns int return if(x, 1, 2)",
            "create function f(x int) returns int deterministic if x then return 1; end if",
            "create function f() returns text return repeat('a', 2)",
            "create or replace trigger tr after insert on t for each row begin insert into l values (new.n); end",
            "create trigger tr before insert on t for each row if (new.n) then set new.n = 1; end if",
            "create event e on schedule every 1 day do begin select 1; select 2; end",
            "create event if not exists e on schedule at now() do insert into l values (1)",
            "alter event e do begin select 1; select 2; end",
            "create procedure p() l: loop leave l; end loop l",
            "create procedure p() repeat set @a = 1; until 1 end repeat",
            "create procedure p() while 1 do select if(a, b, c), case when 1 then 2 end from t; end while",
            "create procedure p() begin w: while 1 do leave w; end while w; for i in 1..2 do select i; end for; end",
            "create procedure p() select 1 as x",
            "create procedure p(a int) as x int; begin x := 1; end",
            "declare x int; begin select x; end",
            "create package k as procedure p; function f return int; end",
            "if 1 then select 1; end if",
            "a: begin not atomic select 1; end",
            "create procedure p() begin select * from t for update; insert into t select 1; end",
            "/*!50003 CREATE*/ /*!50017 DEFINER=`r`@`l`*/ /*!50003 TRIGGER a BEFORE INSERT ON t FOR EACH ROW begin set @a = 1; end */",
        ];
        for program in programs {
            let text = format!("select 1; {program}; drop table if exists x; create table y (a int)");
            let expected = ["select 1", program, "drop table if exists x", "create table y (a int)"];
            assert_eq!(of(&text), expected, "{program}");
        }
    }

    #[test]
    fn a_text_that_grows_says_whether_it_is_whole() {
        let text = b"begin not atomic\nselect ';\n';\n# User@Host: x\nend;\n";
        let mut reader = BoundaryParser::new(Dialect::default());
        let mut said = vec![];
        for end in (1..=text.len()).filter(|end| text[end - 1] == b'\n') {
            reader.read(&text[..end], |_| {});
            said.push((reader.is_quoting(), reader.is_nested(), reader.ended()));
        }
        assert_eq!(
            said,
            [(false, true, 0), (true, true, 0), (false, true, 0), (false, true, 0), (false, false, 1)]
        );
    }
}
