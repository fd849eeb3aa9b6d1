//! Statements of a stream in the blocks they were recorded in: who reads them in another process decodes them there. So a
//! statement costs the server little more than its copy.
//!
//! What records only point to (instruments, digests) is told before the first block that has it, once for each cursor. Texts that
//! only the host can read (no ASCII, or cut) are told before their block.

use std::borrow::Cow;
use std::ops::ControlFlow;

use super::ended::{Spelled, Statements};
use super::stream::{Accounts, Cursor, Fresh, Piece};
use crate::Engine;
use crate::clock::Scale;
use crate::memory::text::{Text, readable};
use crate::read::summary::counters;
use crate::record::ring::RECORD_TIMED;
use crate::record::statement::decode::{StatementEvent, Texts, decode};
use crate::record::statement::outline::{Outline, outlines};
use crate::record::statement::record::Digest;
use crate::snapshot::*;

/// Statements of one thread, as they were recorded.
#[derive(Clone, Copy, Debug)]
pub struct StatementBlock<'a> {
    /// THREAD_ID.
    pub thread_id: u64,
    /// PROCESSLIST_ID; `None`: of a background thread.
    pub processlist_id: Option<u64>,
    /// The account's user; `None`: of a background thread, or the account has been forgotten.
    pub user: Option<&'a str>,
    /// Its host, likewise.
    pub host: Option<&'a str>,
    /// When the block was begun, in ticks: stands in for the end of what was not timed.
    pub opened: u64,
    /// The number of its first statement among those of the thread.
    pub first: u64,
    /// The number of the first one that this cursor has not read.
    pub new_from: u64,
    /// Its records.
    pub words: &'a [u64],
}

/// A row of a stream of blocks.
#[derive(Clone, Copy, Debug)]
pub enum BlockRow<'a> {
    /// The name of an instrument, by its number in records.
    Name(ClassId, &'static str),
    /// The spelling of a digest, by what records say in its place.
    Digest([u64; 2], &'a DigestText),
    /// SQL_TEXT of a statement of the next block, by its number, where it is not what was recorded.
    Text(u64, Option<&'a str>),
    /// Statements.
    Block(StatementBlock<'a>),
}

/// Which texts of statements are wanted.
#[derive(Clone, Copy, Debug)]
pub struct BlockTexts {
    /// SQL_TEXT.
    pub sql: bool,
    /// DIGEST and DIGEST_TEXT.
    pub digest: bool,
}

impl<'a> StatementBlock<'a> {
    /// Its records as bytes, lowest first.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        Text::first(self.words, size_of_val(self.words)).map_or(&[], |(all, _)| all.bytes())
    }
}

impl Engine {
    /// Reads on in the stream of statements, by blocks.
    pub fn stream_statement_blocks(
        &self,
        cursor: &mut Cursor,
        texts: BlockTexts,
        each: &mut dyn FnMut(BlockRow<'_>) -> ControlFlow<()>,
    ) -> Piece {
        let mut spelled = std::mem::take(&mut cursor.spelled);
        let mut accounts = Accounts::default();
        let piece = self.read_blocks::<Statements>(cursor, |mut fresh| {
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

    /// Counts what is new in a block, tells what its reader cannot know, and returns its records.
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

    /// Tells what the reader of a statement cannot know.
    #[inline(always)]
    fn tell_of(
        &self,
        number: u64,
        of: &Outline<'_>,
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

    /// How ticks are told as times.
    pub fn scale(&self) -> Scale {
        self.clock.scale()
    }
}

/// A statement of a block.
#[derive(Clone, Copy, Debug)]
pub struct RecordedStatement<'a> {
    /// Its number among those of its thread.
    pub number: u64,
    event: StatementEvent,
    texts: Texts<Text<'a>>,
}

impl<'a> RecordedStatement<'a> {
    /// What these words record must say, or this is not the version that recorded them.
    pub const FORMAT: u64 = 1;

    /// Calls `each` with the statements in a block's words, in the order in which they ended; `first`: the number of the first
    /// one. Words that are no record are the end; returns them.
    #[inline]
    pub fn read(words: &'a [u64], first: u64, mut each: impl FnMut(RecordedStatement<'a>)) -> &'a [u64] {
        let mut number = first;
        decode(words, |event, texts| {
            each(RecordedStatement { number, event, texts });
            number += 1;
        })
    }

    /// The number of its instrument.
    #[must_use]
    pub fn class(&self) -> ClassId {
        self.event.class
    }

    /// What a digest's spelling is told by; `None`: it has none.
    #[must_use]
    pub fn digest(&self) -> Option<[u64; 2]> {
        (self.event.digest.slot != 0).then(|| self.event.digest.key())
    }

    /// TIMER_WAIT, in ticks; `None`: it was not timed.
    #[must_use]
    pub fn wait(&self) -> Option<u64> {
        self.end().filter(|_| self.event.start != 0).map(|end| end.saturating_sub(self.event.start))
    }

    /// When it ended, in ticks; `None`: it was not timed.
    #[must_use]
    pub fn end(&self) -> Option<u64> {
        (self.event.flags & RECORD_TIMED != 0).then_some(self.event.end)
    }

    /// LOCK_TIME and what else is counted.
    #[must_use]
    pub fn counters(&self) -> StatementCounters {
        counters(self.event.counters)
    }

    /// SQL_TEXT as it was recorded: what it says unless something else was told.
    #[must_use]
    pub fn sql_text(&self) -> Option<Cow<'a, str>> {
        text(self.texts.sql)
    }

    /// CURRENT_SCHEMA.
    #[must_use]
    pub fn current_schema(&self) -> Option<Cow<'a, str>> {
        text(self.texts.schema)
    }

    /// OBJECT_SCHEMA and OBJECT_NAME of the program it belongs to.
    #[must_use]
    pub fn program(&self) -> Option<[Option<Cow<'a, str>>; 2]> {
        crate::setup::objects::type_name(self.event.object_type)
            .map(|_| [text(self.texts.object_schema), text(self.texts.object_name)])
    }

    /// MYSQL_ERRNO.
    #[must_use]
    pub fn errno(&self) -> u32 {
        self.event.errno
    }

    /// MESSAGE_TEXT.
    #[must_use]
    pub fn message_text(&self) -> Option<Cow<'a, str>> {
        text(self.texts.message)
    }

    /// NESTING_EVENT_LEVEL.
    #[must_use]
    pub fn nesting_level(&self) -> u64 {
        self.event.nesting_level.into()
    }
}

fn text(recorded: Text<'_>) -> Option<Cow<'_, str>> {
    let bytes = recorded.bytes();
    (!bytes.is_empty()).then(|| readable(bytes))
}

impl Digest {
    /// What stands for it in a stream of blocks.
    fn key(self) -> [u64; 2] {
        [u64::from(self.generation) << 32 | u64::from(self.slot), self.charset.into()]
    }
}
