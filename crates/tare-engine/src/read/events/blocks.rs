//! Streams of statements in the blocks they were recorded in. The reader, in another process, decodes them,
//! so a statement costs the server little more than its copy.
//!
//! What records only refer to (instruments, digests) is sent before the first block that uses it, once per
//! cursor. Texts that only the host can read (not ASCII, or truncated) are sent before their block.

use std::borrow::Cow;
use std::ops::ControlFlow;

use super::ended::{CopiedStatements, Spelled, sent};
use super::stream::{Accounts, Cursor, Fresh, StreamPart};
use crate::Engine;
use crate::clock::Scale;
use crate::layout::ring::RECORD_TIMED;
use crate::layout::statement::DigestRef;
use crate::memory::text::{CopiedText, readable};
use crate::read::summary::counters;
use crate::record::statement::decode::{StatementEvent, StatementTexts, decode};
use crate::record::statement::outline::{StatementOutline, outlines};
use crate::snapshot::*;

/// Statements of one thread, as recorded.
#[derive(Clone, Copy, Debug)]
pub struct StatementBlock<'a> {
    /// THREAD_ID.
    pub thread_id: u64,
    /// PROCESSLIST_ID; `None`: a background thread.
    pub processlist_id: Option<u64>,
    /// User of the account; `None`: a background thread, or the account has been forgotten.
    pub user: Option<&'a str>,
    /// Host of the account; `None`: a background thread, or the account has been forgotten.
    pub host: Option<&'a str>,
    /// Start of the block in ticks: used in place of the end of untimed statements.
    pub opened: u64,
    /// Number of the block's first statement among those of the thread.
    pub first: u64,
    /// Number of the first statement that this cursor has not read.
    pub new_from: u64,
    /// The records.
    pub words: &'a [u64],
}

/// A row of a stream of blocks.
#[derive(Clone, Copy, Debug)]
pub enum BlockRow<'a> {
    /// The name of an instrument, by the id that records use.
    Name(ClassId, &'static str),
    /// DIGEST and DIGEST_TEXT, by the key from [`RecordedStatement::digest`].
    Digest([u64; 2], &'a DigestText),
    /// SQL_TEXT of a statement in the next block, by the statement's number, where it differs from the
    /// recorded text.
    Text(u64, Option<&'a str>),
    /// A block of statements.
    Block(StatementBlock<'a>),
}

/// Texts of statements that a reader wants.
#[derive(Clone, Copy, Debug)]
pub struct BlockTexts {
    /// SQL_TEXT.
    pub sql: bool,
    /// DIGEST and DIGEST_TEXT.
    pub digest: bool,
}

impl<'a> StatementBlock<'a> {
    /// Returns the records as bytes, least significant byte of each word first.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        CopiedText::first(self.words, size_of_val(self.words)).map_or(&[], |(all, _)| all.bytes())
    }
}

impl Engine {
    /// Reads the next blocks of the stream of statements.
    pub fn stream_statement_blocks(
        &self,
        cursor: &mut Cursor,
        texts: BlockTexts,
        each: &mut dyn FnMut(BlockRow<'_>) -> ControlFlow<()>,
    ) -> StreamPart {
        let mut spelled = std::mem::take(&mut cursor.spelled);
        let mut accounts = Accounts::default();
        let piece = self.read_blocks::<CopiedStatements>(cursor, |mut fresh| {
            let new_from = *fresh.next;
            let words = self.tell(&mut fresh, texts, &mut spelled, each)?;
            let origin = self.origin(fresh.block.session, &mut accounts);
            each(BlockRow::Block(StatementBlock {
                thread_id: fresh.block.thread_id,
                processlist_id: origin.processlist_id,
                user: origin.user.as_deref(),
                host: origin.host.as_deref(),
                opened: fresh.block.opened,
                first: fresh.block.first,
                new_from,
                words,
            }))
        });
        cursor.spelled = spelled;
        piece
    }

    /// Marks the new statements of a block as read, sends what the reader lacks for them, and returns the
    /// block's records.
    fn tell<'w, T>(
        &self,
        fresh: &mut Fresh<'w, '_, T>,
        texts: BlockTexts,
        spelled: &mut Spelled,
        each: &mut dyn FnMut(BlockRow<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<(), &'w [u64]> {
        let mut flow = ControlFlow::Continue(());
        let mut number = fresh.block.first;
        let rest = outlines(fresh.words, |of| {
            if number >= *fresh.next && flow.is_continue() {
                *fresh.next = number + 1;
                fresh.handed.read += 1;
                flow = self.tell_of(number, &of, texts, spelled, each);
            }
            number += 1;
        });
        flow.map_continue(|()| &fresh.words[..fresh.words.len() - rest.len()])
    }

    /// Sends what the reader of a statement lacks.
    #[inline(always)]
    fn tell_of(
        &self,
        number: u64,
        of: &StatementOutline<'_>,
        texts: BlockTexts,
        spelled: &mut Spelled,
        each: &mut dyn FnMut(BlockRow<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if let Some(name) = spelled.new_name(self, of.class) {
            each(BlockRow::Name(of.class, name))?;
        }
        if texts.digest
            && let Some(digest) = spelled.new_digest(self, of.digest)
        {
            each(BlockRow::Digest(of.digest.key(), &digest))?;
        }
        let sql = of.sql.bytes();
        if texts.sql && (of.text_cut || !sql.is_ascii()) {
            let text = self.sql_text(sql, of.charset, of.text_cut);
            each(BlockRow::Text(number, text.as_deref()))?;
        }
        ControlFlow::Continue(())
    }

    /// Returns the conversion from ticks to times.
    pub fn scale(&self) -> Scale {
        self.clock.scale()
    }
}

/// A statement decoded from a block.
#[derive(Clone, Copy, Debug)]
pub struct RecordedStatement<'a> {
    /// Number among the statements of its thread.
    pub number: u64,
    event: StatementEvent,
    texts: StatementTexts<CopiedText<'a>>,
}

impl<'a> RecordedStatement<'a> {
    /// Number of the record layout. A reader must decode only blocks of this version.
    pub const FORMAT: u64 = 2;

    /// Calls `each` with the statements in a block's words, in the order of their ends; `first` is the number
    /// of the first one. Stops at words that are not a record and returns them.
    #[inline]
    pub fn read(words: &'a [u64], first: u64, mut each: impl FnMut(RecordedStatement<'a>)) -> &'a [u64] {
        let mut number = first;
        decode(words, |event, texts| {
            each(RecordedStatement { number, event, texts });
            number += 1;
        })
    }

    /// Returns the id of the instrument.
    #[must_use]
    pub fn class(&self) -> ClassId {
        self.event.class
    }

    /// Returns the key under which the digest was sent; `None`: no digest.
    #[must_use]
    pub fn digest(&self) -> Option<[u64; 2]> {
        (self.event.digest.slot != 0).then(|| self.event.digest.key())
    }

    /// Returns TIMER_WAIT in ticks; `None`: not timed.
    #[must_use]
    pub fn wait(&self) -> Option<u64> {
        self.end().filter(|_| self.event.start != 0).map(|end| end.saturating_sub(self.event.start))
    }

    /// Returns the end in ticks; `None`: not timed.
    #[must_use]
    pub fn end(&self) -> Option<u64> {
        (self.event.flags & RECORD_TIMED != 0).then_some(self.event.end)
    }

    /// Returns LOCK_TIME and the other counters.
    #[must_use]
    pub fn counters(&self) -> StatementCounters {
        counters(self.event.counters)
    }

    /// Returns SQL_TEXT as recorded. A [`BlockRow::Text`] of this statement overrides it.
    #[must_use]
    pub fn sql_text(&self) -> Option<Cow<'a, str>> {
        text(self.texts.sql)
    }

    /// Returns SQL_BYTES: what the client sent, byte by byte.
    #[must_use]
    pub fn sql_bytes(&self) -> Option<Cow<'a, [u8]>> {
        sent(self.texts.sql.bytes(), self.event.text_cut)
    }

    /// Returns SQL_CHARSET: the number of the collation of the client's character set.
    #[must_use]
    pub fn charset(&self) -> u32 {
        self.event.charset
    }

    /// Returns CURRENT_SCHEMA.
    #[must_use]
    pub fn current_schema(&self) -> Option<Cow<'a, str>> {
        text(self.texts.schema)
    }

    /// Returns OBJECT_SCHEMA and OBJECT_NAME of the stored program the statement belongs to.
    #[must_use]
    pub fn program(&self) -> Option<[Option<Cow<'a, str>>; 2]> {
        crate::setup::objects::type_name(self.event.object_type)
            .map(|_| [text(self.texts.object_schema), text(self.texts.object_name)])
    }

    /// Returns MYSQL_ERRNO.
    #[must_use]
    pub fn errno(&self) -> u32 {
        self.event.errno
    }

    /// Returns MESSAGE_TEXT.
    #[must_use]
    pub fn message_text(&self) -> Option<Cow<'a, str>> {
        text(self.texts.message)
    }

    /// Returns NESTING_EVENT_LEVEL.
    #[must_use]
    pub fn nesting_level(&self) -> u64 {
        self.event.nesting_level.into()
    }
}

fn text(recorded: CopiedText<'_>) -> Option<Cow<'_, str>> {
    let bytes = recorded.bytes();
    (!bytes.is_empty()).then(|| readable(bytes))
}

impl DigestRef {
    /// Returns the key of the digest in a stream of blocks.
    fn key(self) -> [u64; 2] {
        [u64::from(self.generation) << 32 | u64::from(self.slot), self.charset.into()]
    }
}
