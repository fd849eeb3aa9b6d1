//! The parser of WHERE conditions.

use tare_tables::SqlType;

use super::filter::{ComparisonOperator, Constant, RowFilter, Term};
use super::items::ColumnScope;
use super::lexer::SqlToken;
use super::parser::{SqlParser, is_literal_word};
use crate::failure::ErrorPacket;
use crate::text::calendar;
use crate::text::collation::{ColumnCollation, Pattern};

/// The deepest nesting of parentheses and NOT; the stack of a connection's thread allows many times more.
const MAX_DEPTH: u32 = 24;

impl SqlParser<'_> {
    pub(super) fn filter(&mut self, scope: &ColumnScope) -> Result<RowFilter, ErrorPacket> {
        if self.accept_word("WHERE")? { self.any(scope) } else { Ok(RowFilter::TRUE) }
    }

    fn any(&mut self, scope: &ColumnScope) -> Result<RowFilter, ErrorPacket> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(ErrorPacket::syntax(format_args!("conditions nested deeper than {MAX_DEPTH}")));
        }
        let mut parts = vec![self.all(scope)?];
        while self.accept_word("OR")? || self.accept("||")? {
            parts.push(self.all(scope)?);
        }
        self.depth -= 1;
        Ok(one_or(parts, RowFilter::Any))
    }

    fn all(&mut self, scope: &ColumnScope) -> Result<RowFilter, ErrorPacket> {
        let mut parts = vec![self.not(scope)?];
        while self.accept_word("AND")? || self.accept("&&")? {
            parts.push(self.not(scope)?);
        }
        Ok(one_or(parts, RowFilter::All))
    }

    fn not(&mut self, scope: &ColumnScope) -> Result<RowFilter, ErrorPacket> {
        let mut negated = false;
        while self.accept_word("NOT")? || self.accept("!")? {
            negated = !negated;
        }
        let filter = self.predicate(scope)?;
        Ok(if negated { RowFilter::Not(Box::new(filter)) } else { filter })
    }

    fn predicate(&mut self, scope: &ColumnScope) -> Result<RowFilter, ErrorPacket> {
        if self.accept("(")? {
            let inner = self.any(scope)?;
            self.expect(")")?;
            return Ok(inner);
        }
        let left = self.term(scope)?;
        if let Some(operator) = self.comparison()? {
            let right = self.parenthesised_term(scope)?;
            return Ok(compare(scope, left, operator, right));
        }
        if self.accept_word("IS")? {
            let negated = self.accept_word("NOT")?;
            self.expect_word("NULL")?;
            return Ok(negate(negated, RowFilter::IsNull(left)));
        }
        let negated = self.accept_word("NOT")?;
        if self.accept_word("LIKE")? {
            return Ok(negate(negated, self.like(scope, left)?));
        }
        if self.accept_word("IN")? {
            let Term::Column(column) = left else {
                return Err(ErrorPacket::unsupported("IN after something other than a column"));
            };
            let member = |constant| scope.compared(&left, Term::Constant(constant));
            let list = self.row()?.into_iter().map(member).collect();
            return Ok(negate(
                negated,
                RowFilter::In { column, list, collation: scope.collation(&left, &left) },
            ));
        }
        if self.accept_word("BETWEEN")? {
            let low = self.term(scope)?;
            self.expect_word("AND")?;
            let high = self.term(scope)?;
            let from = compare(scope, left.clone(), ComparisonOperator::GreaterOrEqual, low);
            let to = compare(scope, left, ComparisonOperator::LessOrEqual, high);
            return Ok(negate(negated, RowFilter::All(vec![from, to])));
        }
        if negated { Err(self.unexpected("LIKE, IN or BETWEEN")) } else { Ok(RowFilter::Holds(left)) }
    }

    /// Parses literals in parentheses.
    pub(super) fn row(&mut self) -> Result<Vec<Constant>, ErrorPacket> {
        self.expect("(")?;
        let mut row = Vec::new();
        while !self.accept(")")? {
            row.push(self.constant()?);
            if !self.at(")") {
                self.expect(",")?;
            }
        }
        Ok(row)
    }

    fn like(&mut self, scope: &ColumnScope, term: Term) -> Result<RowFilter, ErrorPacket> {
        let SqlToken::Text(text) = self.advance()? else {
            return Err(ErrorPacket::syntax("LIKE needs a string"));
        };
        if text.len() > Pattern::MAX {
            return Err(ErrorPacket::syntax(format_args!(
                "a LIKE pattern longer than {} bytes",
                Pattern::MAX
            )));
        }
        let mut escape = '\\';
        if self.accept_word("ESCAPE")? {
            let SqlToken::Text(text) = self.advance()? else {
                return Err(ErrorPacket::syntax("ESCAPE needs a string"));
            };
            escape = String::from_utf8_lossy(&text).chars().next().unwrap_or('\\');
        }
        let collation = scope.collation(&term, &term);
        Ok(RowFilter::Like { term, pattern: Box::new(Pattern::new(&text, escape)), collation })
    }

    fn comparison(&mut self) -> Result<Option<ComparisonOperator>, ErrorPacket> {
        let SqlToken::Symbol(symbol) = self.token else { return Ok(None) };
        let comparison = match symbol {
            "=" => ComparisonOperator::Equal,
            "<>" | "!=" => ComparisonOperator::NotEqual,
            "<" => ComparisonOperator::Less,
            "<=" => ComparisonOperator::LessOrEqual,
            ">" => ComparisonOperator::Greater,
            ">=" => ComparisonOperator::GreaterOrEqual,
            "<=>" => ComparisonOperator::NullSafeEqual,
            _ => return Ok(None),
        };
        self.advance()?;
        Ok(Some(comparison))
    }

    fn parenthesised_term(&mut self, scope: &ColumnScope) -> Result<Term, ErrorPacket> {
        if !self.accept("(")? {
            return self.term(scope);
        }
        if self.at_word("SELECT") {
            return Err(ErrorPacket::unsupported("a subquery"));
        }
        let term = self.term(scope)?;
        self.expect(")")?;
        Ok(term)
    }

    fn term(&mut self, scope: &ColumnScope) -> Result<Term, ErrorPacket> {
        match &self.token {
            SqlToken::Word(word) if is_literal_word(word) => self.constant().map(Term::Constant),
            SqlToken::Word(_) | SqlToken::Name(_) => {
                let first = self.name()?;
                if self.at("(") {
                    return Err(ErrorPacket::unsupported(format_args!("the function {first:.40}")));
                }
                let name = self.qualified(first)?;
                Ok(Term::Column(scope.column(&name)?))
            }
            _ => self.constant().map(Term::Constant),
        }
    }
}

impl ColumnScope {
    /// Returns the collation of a comparison: that of the left column, else of the right one, else
    /// `GeneralCi`.
    fn collation(&self, left: &Term, right: &Term) -> ColumnCollation {
        match (left, right) {
            (Term::Column(column), _) | (_, Term::Column(column)) => {
                ColumnCollation::of(self.table.name(), &self.table.columns()[*column])
            }
            _ => ColumnCollation::GeneralCi,
        }
    }

    /// Converts a literal that is compared with a time column into a time, so that it is parsed only once.
    fn compared(&self, with: &Term, term: Term) -> Term {
        match (with, &term) {
            (Term::Column(column), Term::Constant(Constant::Text(text)))
                if matches!(
                    self.table.columns()[*column].sql_type,
                    SqlType::Timestamp | SqlType::TimestampMicros
                ) =>
            {
                calendar::parse(text).map_or(term, Term::Moment)
            }
            _ => term,
        }
    }
}

fn one_or(mut parts: Vec<RowFilter>, many: fn(Vec<RowFilter>) -> RowFilter) -> RowFilter {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        last => {
            parts.extend(last);
            many(parts)
        }
    }
}

fn compare(scope: &ColumnScope, left: Term, operator: ComparisonOperator, right: Term) -> RowFilter {
    let collation = scope.collation(&left, &right);
    let (left, right) = (scope.compared(&right, left.clone()), scope.compared(&left, right));
    RowFilter::Compare { left, operator, right, collation }
}

fn negate(negated: bool, filter: RowFilter) -> RowFilter {
    if negated { RowFilter::Not(Box::new(filter)) } else { filter }
}
