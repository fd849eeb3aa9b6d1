//! Statements about the session, and SHOW.

use super::lexer::SqlToken;
use super::parser::SqlParser;
use super::statement::{Show, SqlStatement};
use crate::failure::ErrorPacket;

/// Parses a statement that begins with `word` and reads or writes no rows.
pub(super) fn statement(parser: &mut SqlParser<'_>, word: &str) -> Result<SqlStatement, ErrorPacket> {
    match word {
        "SET" => set(parser),
        "USE" => parser.name().map(SqlStatement::Use),
        "SHOW" => show(parser).map(SqlStatement::Show),
        "DESC" | "DESCRIBE" => {
            let table = parser.table_name()?;
            Ok(SqlStatement::Show(Show::Columns { table, full: false, like: None }))
        }
        // Nothing can be rolled back, as in the built-in. OPTIMIZE and REPAIR have nothing to do.
        "START" | "BEGIN" | "COMMIT" | "ROLLBACK" | "SAVEPOINT" | "RELEASE" | "OPTIMIZE" | "REPAIR"
        | "FLUSH" => {
            parser.skip_rest()?;
            Ok(SqlStatement::Nothing)
        }
        other => Err(ErrorPacket::unsupported(format_args!("{other:.40}"))),
    }
}

/// The setting by which a client receives sums of picoseconds whole even where they exceed the 64 bits of
/// their column, as a text of more digits. Such a client adds them up and must not see one wrap around.
const WHOLE_SUMS: &str = "tare_whole_sums";

/// Parses SET. Settings are accepted without effect, except that times are always UTC, so another time zone
/// is an error. Leaving autocommit mode and asking for whole sums are statements of their own.
fn set(parser: &mut SqlParser<'_>) -> Result<SqlStatement, ErrorPacket> {
    let mut statement = SqlStatement::Nothing;
    let mut setting = String::new();
    while !matches!(parser.token, SqlToken::End | SqlToken::Symbol(";")) {
        match parser.advance()? {
            SqlToken::Word(name) | SqlToken::System(name) | SqlToken::Name(name) => {
                setting = name.to_ascii_lowercase()
            }
            SqlToken::Text(value) if setting == "time_zone" && !is_utc(&value) => {
                return Err(ErrorPacket::unknown_time_zone(&String::from_utf8_lossy(&value)));
            }
            SqlToken::Integer(0) if setting == "autocommit" => statement = SqlStatement::LeaveAutocommit,
            SqlToken::Integer(whole) if setting == WHOLE_SUMS => {
                statement = SqlStatement::WholeSums(whole != 0)
            }
            SqlToken::Symbol(",") => setting.clear(),
            _ => {}
        }
    }
    Ok(statement)
}

fn is_utc(zone: &[u8]) -> bool {
    [&b"+00:00"[..], b"-00:00", b"UTC", b"SYSTEM"].iter().any(|it| zone.eq_ignore_ascii_case(it))
}

fn show(parser: &mut SqlParser<'_>) -> Result<Show, ErrorPacket> {
    let full = parser.accept_word("FULL")?;
    if !full {
        let _ =
            parser.accept_word("GLOBAL")? || parser.accept_word("SESSION")? || parser.accept_word("LOCAL")?;
    }
    let SqlToken::Word(word) = parser.advance()? else { return Err(ErrorPacket::syntax("SHOW what?")) };
    match word.to_ascii_uppercase().as_str() {
        "DATABASES" | "SCHEMAS" => Ok(Show::Databases { like: parser.show_like()? }),
        "TABLES" => {
            from_schema(parser)?;
            Ok(Show::Tables { full, like: parser.show_like()? })
        }
        "TABLE" if parser.accept_word("STATUS")? => {
            from_schema(parser)?;
            Ok(Show::TableStatus { like: parser.show_like()? })
        }
        "COLUMNS" | "FIELDS" => {
            let table = from_table(parser)?;
            Ok(Show::Columns { table, full, like: parser.show_like()? })
        }
        "INDEX" | "INDEXES" | "KEYS" => from_table(parser).map(Show::Indexes),
        "CREATE" if parser.accept_word("TABLE")? => parser.table_name().map(Show::Create),
        "VARIABLES" => Ok(Show::Variables { like: parser.show_like()? }),
        "STATUS" => {
            parser.show_like()?;
            Ok(Show::Empty(&["Variable_name", "Value"]))
        }
        "WARNINGS" | "ERRORS" => {
            parser.skip_rest()?;
            Ok(Show::Empty(&["Level", "Code", "Message"]))
        }
        _ => Err(ErrorPacket::unsupported(format_args!("SHOW {word:.40}"))),
    }
}

fn from_table(parser: &mut SqlParser<'_>) -> Result<&'static dyn tare_tables::Table, ErrorPacket> {
    if !parser.accept_word("FROM")? && !parser.accept_word("IN")? {
        return Err(parser.unexpected("FROM"));
    }
    let table = parser.table_name()?;
    from_schema(parser)?;
    Ok(table)
}

/// Parses `[FROM schema]`.
fn from_schema(parser: &mut SqlParser<'_>) -> Result<(), ErrorPacket> {
    if parser.accept_word("FROM")? || parser.accept_word("IN")? { parser.database_name() } else { Ok(()) }
}
