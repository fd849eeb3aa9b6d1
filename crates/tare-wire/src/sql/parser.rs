//! The parser: tokens to statements.

use tare_tables::Table;

use super::catalog::{Catalog, SCHEMA};
use super::filter::Constant;
use super::items::{Aggregate, ColumnName, ColumnScope, Unresolved, UnresolvedItem};
use super::lexer::{SqlLexer, SqlToken};
use super::session;
use super::statement::*;
use crate::failure::ErrorPacket;
use crate::text::collation::Pattern;

/// The most tokens in one statement, which bounds its memory: a token takes at most about a hundred bytes. An
/// INSERT of as many rules as a table holds (1,024 of twelve tokens) fits several times; for more rules the
/// table reports that it is full.
const MAX_TERMS: u32 = 1 << 16;

/// The most columns of an answer, as in MySQL; a single `*` adds many.
const MAX_COLUMNS: usize = 4096;

/// Parses one statement.
pub(crate) fn parse(sql: &[u8], catalog: Catalog) -> Result<SqlStatement, ErrorPacket> {
    let mut parser = SqlParser::new(sql, catalog)?;
    let statement = parser.statement()?;
    parser.accept(";")?;
    match parser.token {
        SqlToken::End => Ok(statement),
        _ => Err(parser.unexpected("the end of the statement")),
    }
}

pub(super) struct SqlParser<'a> {
    lexer: SqlLexer<'a>,
    pub(super) token: SqlToken,
    catalog: Catalog,
    /// The number of open conditions.
    pub(super) depth: u32,
    terms: u32,
}

impl<'a> SqlParser<'a> {
    fn new(sql: &'a [u8], catalog: Catalog) -> Result<Self, ErrorPacket> {
        let mut lexer = SqlLexer::new(sql);
        let token = lexer.next()?;
        Ok(SqlParser { lexer, token, catalog, depth: 0, terms: 0 })
    }

    fn statement(&mut self) -> Result<SqlStatement, ErrorPacket> {
        let SqlToken::Word(word) = &self.token else {
            return match self.token {
                SqlToken::End | SqlToken::Symbol(";") => Ok(SqlStatement::Nothing),
                SqlToken::Symbol("(") => self.union(),
                _ => Err(self.unexpected("a statement")),
            };
        };
        let word = word.to_ascii_uppercase();
        self.advance()?;
        match word.as_str() {
            "SELECT" => self.select(),
            "UPDATE" => self.update(),
            // REPLACE adds new rows and refuses existing ones, as in the built-in.
            "INSERT" | "REPLACE" => self.insert(),
            "DELETE" => self.delete(),
            "TRUNCATE" => {
                self.accept_word("TABLE")?;
                Ok(SqlStatement::Truncate(self.table_name()?))
            }
            _ => session::statement(self, &word),
        }
    }

    // Tokens.

    /// Goes to the next token and returns the current one.
    pub(super) fn advance(&mut self) -> Result<SqlToken, ErrorPacket> {
        self.terms += 1;
        if self.terms > MAX_TERMS {
            return Err(ErrorPacket::syntax(format_args!("more than {MAX_TERMS} words in one statement")));
        }
        let next = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.token, next))
    }

    /// Skips the rest of the statement.
    pub(super) fn skip_rest(&mut self) -> Result<(), ErrorPacket> {
        while !matches!(self.token, SqlToken::End | SqlToken::Symbol(";")) {
            self.advance()?;
        }
        Ok(())
    }

    pub(super) fn at(&self, symbol: &str) -> bool {
        matches!(&self.token, SqlToken::Symbol(it) if *it == symbol)
    }

    pub(super) fn accept(&mut self, symbol: &str) -> Result<bool, ErrorPacket> {
        let found = self.at(symbol);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    pub(super) fn expect(&mut self, symbol: &str) -> Result<(), ErrorPacket> {
        if self.accept(symbol)? { Ok(()) } else { Err(self.unexpected(symbol)) }
    }

    pub(super) fn at_word(&self, word: &str) -> bool {
        matches!(&self.token, SqlToken::Word(it) if it.eq_ignore_ascii_case(word))
    }

    pub(super) fn accept_word(&mut self, word: &str) -> Result<bool, ErrorPacket> {
        let found = self.at_word(word);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    pub(super) fn expect_word(&mut self, word: &str) -> Result<(), ErrorPacket> {
        if self.accept_word(word)? { Ok(()) } else { Err(self.unexpected(word)) }
    }

    pub(super) fn unexpected(&self, wanted: &str) -> ErrorPacket {
        let near = match &self.token {
            SqlToken::End => "the end".to_owned(),
            SqlToken::Word(word) | SqlToken::Name(word) => format!("'{word:.40}'"),
            SqlToken::Symbol(symbol) => format!("'{symbol}'"),
            _ => {
                let rest = self.lexer.rest();
                format!("the value before '{}'", String::from_utf8_lossy(&rest[..rest.len().min(40)]))
            }
        };
        ErrorPacket::syntax(format_args!("expected {wanted}, found {near}"))
    }

    pub(super) fn name(&mut self) -> Result<String, ErrorPacket> {
        match &self.token {
            SqlToken::Word(_) | SqlToken::Name(_) => match self.advance()? {
                SqlToken::Word(name) | SqlToken::Name(name) => Ok(name),
                _ => Err(self.unexpected("a name")),
            },
            _ => Err(self.unexpected("a name")),
        }
    }

    pub(super) fn database_name(&mut self) -> Result<(), ErrorPacket> {
        let name = self.name()?;
        if name.eq_ignore_ascii_case(SCHEMA) { Ok(()) } else { Err(ErrorPacket::unknown_database(&name)) }
    }

    pub(super) fn table_name(&mut self) -> Result<&'static dyn Table, ErrorPacket> {
        let mut schema = SCHEMA.to_owned();
        let mut name = self.name()?;
        if self.accept(".")? {
            schema = std::mem::replace(&mut name, self.name()?);
        }
        self.catalog.find(&schema, &name)
    }

    // SELECT.

    pub(super) fn select(&mut self) -> Result<SqlStatement, ErrorPacket> {
        for word in ["SQL_NO_CACHE", "ALL", "STRAIGHT_JOIN"] {
            self.accept_word(word)?;
        }
        if self.accept_word("DISTINCT")? {
            return Err(ErrorPacket::unsupported("DISTINCT"));
        }
        let mut items = Vec::new();
        loop {
            items.push(self.item()?);
            if !self.accept(",")? {
                break;
            }
        }
        if !self.accept_word("FROM")? {
            let values = items.into_iter().map(Unresolved::value).collect::<Result<_, _>>()?;
            self.limit()?;
            return Ok(SqlStatement::Values(values));
        }
        let table = self.table_name()?;
        let scope = ColumnScope { table, alias: self.alias()? };
        if self.at(",")
            || ["JOIN", "LEFT", "RIGHT", "INNER", "CROSS", "NATURAL"].iter().any(|it| self.at_word(it))
        {
            return Err(ErrorPacket::unsupported("a join"));
        }
        let mut resolved = Vec::new();
        for item in items {
            item.resolve(&scope, &mut resolved)?;
            if resolved.len() > MAX_COLUMNS {
                return Err(ErrorPacket::syntax(format_args!(
                    "more than {MAX_COLUMNS} columns in one statement"
                )));
            }
        }
        let filter = self.filter(&scope)?;
        if self.at_word("GROUP") || self.at_word("HAVING") {
            return Err(ErrorPacket::unsupported("GROUP BY"));
        }
        let order = self.order(&scope, &resolved)?;
        let limit = self.limit()?;
        let aggregates = resolved.iter().filter(|item| item.of.is_aggregate()).count();
        let columns = resolved.iter().any(|item| matches!(item.of, ItemOf::Column(_)));
        if aggregates > 0 && columns {
            return Err(ErrorPacket::unsupported("a column beside an aggregate"));
        }
        Ok(SqlStatement::Select(Select { table, items: resolved, filter, order, limit }))
    }

    /// Parses `[AS] name`; a bare keyword that may follow is not a name.
    fn alias(&mut self) -> Result<Option<String>, ErrorPacket> {
        const FOLLOWERS: [&str; 16] = [
            "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "JOIN", "LEFT", "RIGHT", "INNER", "CROSS",
            "NATURAL", "UNION", "FOR", "LOCK", "SET",
        ];
        if self.accept_word("AS")? {
            return match self.token {
                SqlToken::Text(_) => match self.advance()? {
                    SqlToken::Text(text) => Ok(Some(String::from_utf8_lossy(&text).into_owned())),
                    _ => Err(self.unexpected("a name")),
                },
                _ => self.name().map(Some),
            };
        }
        match &self.token {
            SqlToken::Word(word) if FOLLOWERS.iter().any(|it| word.eq_ignore_ascii_case(it)) => Ok(None),
            SqlToken::Word(_) | SqlToken::Name(_) => self.name().map(Some),
            _ => Ok(None),
        }
    }

    fn item(&mut self) -> Result<Unresolved, ErrorPacket> {
        if self.accept("*")? {
            return Ok(Unresolved::All);
        }
        let (what, name) = match &self.token {
            SqlToken::Word(word) if !is_literal_word(word) => {
                let word = word.clone();
                self.advance()?;
                self.named_item(word)?
            }
            SqlToken::Name(_) => {
                let first = self.name()?;
                let name = self.qualified(first)?;
                let text = name.1.clone();
                (UnresolvedItem::Column(name), text)
            }
            SqlToken::System(name) => {
                let (name, shown) = (name.clone(), format!("@@{name}"));
                self.advance()?;
                (UnresolvedItem::Value(Expression::Variable(name)), shown)
            }
            SqlToken::User(name) => {
                let shown = format!("@{name}");
                self.advance()?;
                (UnresolvedItem::Value(Expression::Constant(Constant::Null)), shown)
            }
            _ => {
                let constant = self.constant()?;
                let shown = constant.shown();
                (UnresolvedItem::Value(Expression::Constant(constant)), shown)
            }
        };
        if matches!(what, UnresolvedItem::AllOf) {
            return Ok(Unresolved::All);
        }
        let name = self.alias()?.unwrap_or(name);
        Ok(Unresolved::One(name, what))
    }

    /// Parses an item that begins with a word: a column or a function.
    fn named_item(&mut self, word: String) -> Result<(UnresolvedItem, String), ErrorPacket> {
        let upper = word.to_ascii_uppercase();
        if !self.at("(") {
            if matches!(upper.as_str(), "CURRENT_USER" | "CURRENT_TIMESTAMP") {
                let value = if upper == "CURRENT_USER" { Expression::User } else { Expression::Now };
                return Ok((UnresolvedItem::Value(value), word));
            }
            if self.at(".") {
                let name = self.qualified_or_all(word)?;
                let Some(name) = name else { return Ok((UnresolvedItem::AllOf, String::new())) };
                let text = name.1.clone();
                return Ok((UnresolvedItem::Column(name), text));
            }
            return Ok((UnresolvedItem::Column((None, word.clone())), word));
        }
        self.advance()?;
        let what = match upper.as_str() {
            "COUNT" if self.accept("*")? => UnresolvedItem::Aggregate(Aggregate::CountRows, None),
            "COUNT" | "SUM" | "MIN" | "MAX" => {
                let first = self.name()?;
                let name = self.qualified(first)?;
                let shown = format!("{word}({})", name.1);
                self.expect(")")?;
                let aggregate = match upper.as_str() {
                    "COUNT" => Aggregate::Count,
                    "SUM" => Aggregate::Sum,
                    "MIN" => Aggregate::Min,
                    _ => Aggregate::Max,
                };
                return Ok((UnresolvedItem::Aggregate(aggregate, Some(name)), shown));
            }
            "VERSION" => UnresolvedItem::Value(Expression::Variable("version".into())),
            "DATABASE" | "SCHEMA" => UnresolvedItem::Value(Expression::Database),
            "USER" | "CURRENT_USER" | "SESSION_USER" | "SYSTEM_USER" => {
                UnresolvedItem::Value(Expression::User)
            }
            "CONNECTION_ID" => UnresolvedItem::Value(Expression::ConnectionId),
            "NOW" | "CURRENT_TIMESTAMP" | "UTC_TIMESTAMP" | "SYSDATE" => {
                UnresolvedItem::Value(Expression::Now)
            }
            _ => return Err(ErrorPacket::unsupported(format_args!("the function {word:.40}"))),
        };
        self.expect(")")?;
        let shown = if matches!(what, UnresolvedItem::Aggregate(..)) {
            format!("{word}(*)")
        } else {
            format!("{word}()")
        };
        Ok((what, shown))
    }

    /// Parses the rest of a column's name. The last part is the column, the one before it the table.
    pub(super) fn qualified(&mut self, first: String) -> Result<ColumnName, ErrorPacket> {
        self.qualified_or_all(first)?.ok_or_else(|| self.unexpected("a column"))
    }

    /// Parses the rest of a column's name; `None` is `table.*`.
    fn qualified_or_all(&mut self, first: String) -> Result<Option<ColumnName>, ErrorPacket> {
        let mut name = (None, first);
        for _ in 0..2 {
            if !self.accept(".")? {
                break;
            }
            if self.accept("*")? {
                return Ok(None);
            }
            name = (Some(name.1), self.name()?);
        }
        Ok(Some(name))
    }

    fn order(&mut self, scope: &ColumnScope, items: &[SelectItem]) -> Result<Vec<OrderBy>, ErrorPacket> {
        let mut order = Vec::new();
        if !self.accept_word("ORDER")? {
            return Ok(order);
        }
        self.expect_word("BY")?;
        loop {
            let column = self.order_column(scope, items)?;
            let descending = self.accept_word("DESC")?;
            if !descending {
                self.accept_word("ASC")?;
            }
            order.push(OrderBy { column, descending });
            if !self.accept(",")? {
                return Ok(order);
            }
        }
    }

    /// Resolves a position in the list of items, an item's name, or a column.
    fn order_column(&mut self, scope: &ColumnScope, items: &[SelectItem]) -> Result<usize, ErrorPacket> {
        let item = if let SqlToken::Integer(position) = self.token {
            self.advance()?;
            let item = usize::try_from(position - 1).ok().and_then(|at| items.get(at));
            Some(item.ok_or_else(|| ErrorPacket::unknown_column(&position.to_string()))?)
        } else {
            let first = self.name()?;
            let name = self.qualified(first)?;
            let named = items.iter().find(|item| name.0.is_none() && item.name.eq_ignore_ascii_case(&name.1));
            match named {
                Some(item) => Some(item),
                None => return scope.column(&name),
            }
        };
        match item.map(|item| &item.of) {
            Some(ItemOf::Column(column)) => Ok(*column),
            _ => Err(ErrorPacket::unsupported("ORDER BY something other than a column")),
        }
    }

    fn limit(&mut self) -> Result<RowLimit, ErrorPacket> {
        if !self.accept_word("LIMIT")? {
            return Ok(RowLimit::NONE);
        }
        let first = self.count()?;
        if self.accept(",")? {
            return Ok(RowLimit { skip: first, rows: self.count()? });
        }
        let skip = if self.accept_word("OFFSET")? { self.count()? } else { 0 };
        Ok(RowLimit { skip, rows: first })
    }

    fn count(&mut self) -> Result<u64, ErrorPacket> {
        let SqlToken::Integer(count) = self.token else { return Err(self.unexpected("a number of rows")) };
        let count = u64::try_from(count).map_err(|_| self.unexpected("a number of rows"))?;
        self.advance()?;
        Ok(count)
    }

    // Writes.

    fn update(&mut self) -> Result<SqlStatement, ErrorPacket> {
        self.accept_word("LOW_PRIORITY")?;
        self.accept_word("IGNORE")?;
        let table = self.table_name()?;
        let scope = ColumnScope { table, alias: self.alias()? };
        self.expect_word("SET")?;
        let mut set = Vec::new();
        loop {
            let first = self.name()?;
            let column = scope.column(&self.qualified(first)?)?;
            if !self.accept("=")? && !self.accept(":=")? {
                return Err(self.unexpected("="));
            }
            set.push((column, self.constant()?));
            if !self.accept(",")? {
                break;
            }
        }
        let filter = self.filter(&scope)?;
        let limit = self.limit()?.rows;
        Ok(SqlStatement::Update(UpdateStatement { table, set, filter, limit }))
    }

    fn insert(&mut self) -> Result<SqlStatement, ErrorPacket> {
        let ignore = self.accept_word("IGNORE")?;
        self.accept_word("INTO")?;
        let table = self.table_name()?;
        let scope = ColumnScope { table, alias: None };
        let mut columns: Vec<usize> = (0..table.columns().len()).collect();
        if self.accept("(")? {
            columns.clear();
            while !self.accept(")")? {
                let first = self.name()?;
                columns.push(scope.column(&self.qualified(first)?)?);
                if !self.at(")") {
                    self.expect(",")?;
                }
            }
        }
        if !self.accept_word("VALUE")? {
            self.expect_word("VALUES")?;
        }
        let mut rows = Vec::new();
        loop {
            let row = self.row()?;
            rows.push(row);
            // `VALUES ()` is a row of defaults.
            if rows.last().is_some_and(|row| !row.is_empty() && row.len() != columns.len()) {
                return Err(ErrorPacket::value_count(rows.len()));
            }
            if !self.accept(",")? {
                break;
            }
        }
        if self.at_word("ON") {
            return Err(ErrorPacket::unsupported("ON DUPLICATE KEY UPDATE"));
        }
        Ok(SqlStatement::Insert(Insert { table, columns, rows, ignore }))
    }

    fn delete(&mut self) -> Result<SqlStatement, ErrorPacket> {
        self.accept_word("IGNORE")?;
        self.expect_word("FROM")?;
        let table = self.table_name()?;
        let filter = self.filter(&ColumnScope { table, alias: None })?;
        let limit = self.limit()?.rows;
        Ok(SqlStatement::Delete(Delete { table, filter, limit }))
    }

    // WHERE.

    pub(super) fn constant(&mut self) -> Result<Constant, ErrorPacket> {
        let negative = self.accept("-")?;
        if !negative {
            self.accept("+")?;
        }
        let sign = if negative { -1 } else { 1 };
        let constant = match &self.token {
            SqlToken::Integer(number) => Constant::Integer(number * sign),
            SqlToken::Double(number) => Constant::Double(number * sign as f64),
            _ if negative => return Err(self.unexpected("a number")),
            SqlToken::Text(_) => match self.advance()? {
                SqlToken::Text(text) => return Ok(Constant::Text(text)),
                _ => return Err(self.unexpected("a value")),
            },
            SqlToken::Word(word) if word.eq_ignore_ascii_case("NULL") => Constant::Null,
            SqlToken::Word(word) if word.eq_ignore_ascii_case("TRUE") => Constant::Integer(1),
            SqlToken::Word(word) if word.eq_ignore_ascii_case("FALSE") => Constant::Integer(0),
            _ => return Err(self.unexpected("a value")),
        };
        self.advance()?;
        Ok(constant)
    }

    /// Parses `LIKE 'pattern'` after SHOW.
    pub(super) fn show_like(&mut self) -> Result<Option<Vec<u8>>, ErrorPacket> {
        if self.at_word("WHERE") {
            return Err(ErrorPacket::unsupported("SHOW … WHERE"));
        }
        if !self.accept_word("LIKE")? {
            return Ok(None);
        }
        match self.advance()? {
            SqlToken::Text(text) if text.len() <= Pattern::MAX => Ok(Some(text)),
            _ => Err(ErrorPacket::syntax("LIKE needs a short string")),
        }
    }
}

pub(super) fn is_literal_word(word: &str) -> bool {
    ["NULL", "TRUE", "FALSE"].iter().any(|it| word.eq_ignore_ascii_case(it))
}
