//! HOT PATH: the decoder of statements, for the words of a record and for those of a statement in progress.

use std::array::from_fn;
use std::borrow::Cow;
use std::mem::offset_of;

use super::parsed::TokenLocation;
use crate::layout::counters::PlainCounters;
use crate::layout::journal::kind;
use crate::layout::statement::{
    CHARSET, DIGEST, DigestRef, END_ID, ERRNO, ERROR, FLAGS, HEAD, ID, LENGTHS, NAME_WORDS, NESTING,
    NESTING_LEVEL, NESTING_TYPE, OBJECT_TYPE, OpenStatement, PROGRAM_NAMES, SAME_PROGRAM, SCHEMA, STATEMENT,
    STATEMENT_ID, TEXT_CUT, TEXT_PREPARED, VALUES,
};
use crate::layout::values;
use crate::memory::arena::WORDS;
use crate::memory::pool::Object;
use crate::memory::text::{self, CopiedText};
use crate::snapshot::ClassId;

/// A statement, as a reader sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StatementEvent {
    pub(crate) id: u64,
    pub(crate) end_event_id: u64,
    /// Id and type of the event it nests in.
    pub(crate) nesting: (u64, u8),
    pub(crate) nesting_level: u8,
    pub(crate) class: ClassId,
    /// The flag [`RECORD_TIMED`](crate::layout::ring::RECORD_TIMED) and its neighbours.
    pub(crate) flags: u8,
    pub(crate) start: u64,
    /// The end in ticks; 0 while it lasts, 1 if it was not timed.
    pub(crate) end: u64,
    pub(crate) source: u64,
    pub(crate) counters: PlainCounters,
    pub(crate) digest: DigestRef,
    pub(crate) statement_id: u64,
    pub(crate) errno: u32,
    /// The five characters, or zeros.
    pub(crate) sqlstate: [u8; 5],
    pub(crate) object_type: u8,
    /// The number of the text's character set.
    pub(crate) charset: u32,
    pub(crate) text_cut: bool,
}

impl StatementEvent {
    /// Returns RETURNED_SQLSTATE.
    pub(crate) fn state(&self) -> Option<Cow<'_, str>> {
        (self.sqlstate != [0; 5]).then(|| text::readable(&self.sqlstate))
    }
}

/// The texts of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StatementTexts<T> {
    pub(crate) schema: T,
    pub(crate) sql: T,
    pub(crate) object_schema: T,
    pub(crate) object_name: T,
    pub(crate) message: T,
}

impl<T> StatementTexts<T> {
    /// Creates the texts from their order in a record.
    fn in_order([schema, sql, object_schema, object_name, message]: [T; LENGTHS.len()]) -> StatementTexts<T> {
        StatementTexts { schema, sql, object_schema, object_name, message }
    }

    pub(crate) fn map<U>(self, f: impl FnMut(T) -> U) -> StatementTexts<U> {
        let StatementTexts { schema, sql, object_schema, object_name, message } = self;
        StatementTexts::in_order([schema, sql, object_schema, object_name, message].map(f))
    }
}

/// Decodes the statements in a block's words, from its first record on, in the order in which they ended.
/// Returns the words behind them.
#[inline]
pub(crate) fn decode<'a>(
    mut words: &'a [u64],
    mut each: impl FnMut(StatementEvent, StatementTexts<CopiedText<'a>>),
) -> &'a [u64] {
    let mut named = Default::default();
    while let Some((event, texts, rest)) = read(words, &mut named) {
        each(event, texts);
        words = rest;
    }
    words
}

/// Returns the statement in the record at the beginning of these words, and the words behind it; `None`:
/// there is none. `named` is the program named last, by its schema and name.
fn read<'a>(
    words: &'a [u64],
    named: &mut (CopiedText<'a>, CopiedText<'a>),
) -> Option<(StatementEvent, StatementTexts<CopiedText<'a>>, &'a [u64])> {
    let (head, rest) = words.split_first_chunk()?;
    if kind(head[0]) != STATEMENT {
        return None;
    }
    let (values, mut rest) = values::read(set_of(head), rest)?;
    let [.., lengths] = *head;
    let mut texts = [CopiedText::default(); LENGTHS.len()];
    for (text, length) in texts.iter_mut().zip(LENGTHS) {
        (*text, rest) = CopiedText::first(rest, length.of(lengths))?;
    }
    let mut texts = StatementTexts::in_order(texts);
    if lengths & SAME_PROGRAM != 0 {
        (texts.object_schema, texts.object_name) = *named;
    } else if lengths & PROGRAM_NAMES != 0 {
        *named = (texts.object_schema, texts.object_name);
    }
    Some((event(head, &values), texts, rest))
}

/// The position of the first texts of an [`OpenStatement`].
const TEXTS: usize = offset_of!(OpenStatement, texts) / 8;
/// The words of an [`OpenStatement`] up to its schema.
pub(crate) const OUTLINE_WORDS: usize = TEXTS + NAME_WORDS;

/// Returns the statement of an [`OpenStatement`] whose words a reader has copied.
pub(crate) fn read_open(words: &[u64; WORDS]) -> Option<(StatementEvent, StatementTexts<CopiedText<'_>>)> {
    const RARE_TEXTS: [usize; 3] = [
        offset_of!(OpenStatement, object_schema) / 8,
        offset_of!(OpenStatement, object_name) / 8,
        offset_of!(OpenStatement, message) / 8,
    ];
    let (event, lengths) = event_of(words)?;
    let mut texts = [CopiedText::default(); LENGTHS.len()];
    let [object_schema, object_name, message] = RARE_TEXTS;
    // In the order of a record.
    let places = [TEXTS, TEXTS + SCHEMA.words(lengths), object_schema, object_name, message];
    for ((text, length), place) in texts.iter_mut().zip(LENGTHS).zip(places) {
        (*text, _) = CopiedText::first(words.get(place..)?, length.of(lengths))?;
    }
    Some((event, StatementTexts::in_order(texts)))
}

/// Returns the statement of an [`OpenStatement`] and its schema, from a reader's copy of the first words.
pub(crate) fn read_outline(words: &[u64; OUTLINE_WORDS]) -> Option<(StatementEvent, CopiedText<'_>)> {
    let (event, lengths) = event_of(words)?;
    let (schema, _) = CopiedText::first(&words[TEXTS..], SCHEMA.of(lengths))?;
    Some((event, schema))
}

/// Returns the facts of an [`OpenStatement`], and its word of lengths.
fn event_of(words: &[u64]) -> Option<(StatementEvent, u64)> {
    let head = words.first_chunk()?;
    let values = words.get(offset_of!(OpenStatement, values) / 8..)?;
    let values = values::known(set_of(head), values.first_chunk()?);
    let [.., lengths] = *head;
    Some((event(head, &values), lengths))
}

/// Returns where the tokens of a statement in progress are, from a reader's copy of its [`OpenStatement`].
/// `None`: it is not parsed, or it already has a digest.
pub(crate) fn parsed(words: &[u64]) -> Option<TokenLocation> {
    let at = offset_of!(OpenStatement, values) / 8 + DIGEST;
    TokenLocation::of(set_of(words.first_chunk()?), *words.get(at)?)
}

/// Returns the prepared statement that has the text of a recorded execution; `None` if the record has a text
/// of its own.
pub(crate) fn prepared_text(words: &[u64; WORDS]) -> Option<Object> {
    let [.., lengths] = *words.first_chunk::<HEAD>()?;
    let text = offset_of!(OpenStatement, texts) / 8 + SCHEMA.words(lengths);
    words.get(text).filter(|_| lengths & TEXT_PREPARED != 0).map(|object| Object(*object))
}

fn set_of([.., set, _lengths]: &[u64; HEAD]) -> u64 {
    *set
}

fn event(head: &[u64; HEAD], values: &[u64; VALUES]) -> StatementEvent {
    let [what, start, source, end, class, set, lengths] = *head;
    let (digest, error) = (values[DIGEST], values[ERROR]);
    let [a, b, c, d, e, ..] = error.to_le_bytes();
    StatementEvent {
        id: what >> ID,
        end_event_id: class >> END_ID,
        nesting: (values[NESTING], (what >> NESTING_TYPE) as u8 & 7),
        nesting_level: (what >> NESTING_LEVEL) as u8 & 0x7F,
        class: class as ClassId,
        flags: (what >> FLAGS) as u8 & 7,
        start,
        end,
        source,
        counters: PlainCounters(from_fn(|at| values[at])),
        digest: DigestRef::of(digest, set),
        statement_id: values[STATEMENT_ID],
        errno: (error >> ERRNO) as u32,
        sqlstate: [a, b, c, d, e],
        object_type: (lengths >> OBJECT_TYPE) as u8,
        charset: (set >> CHARSET) as u32 & 0xFFFF,
        text_cut: lengths & TEXT_CUT != 0,
    }
}
