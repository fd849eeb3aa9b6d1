//! A statement in a stream: of what was recorded is made what is asked for, where it lies, and the rest is not looked at.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::ControlFlow;
use std::sync::Arc;

use super::statements::readable;
use super::stream::{Open, Streamed};
use super::{Seen, Sources, nesting_of, timer};
use crate::Engine;
use crate::memory::text::Text;
use crate::read::Scale;
use crate::read::summary::counters;
use crate::record::ring::RECORD_TIMED;
use crate::record::statement::decode::{StatementEvent, Texts, decode};
use crate::record::statement::record::Digest;
use crate::snapshot::*;

/// Digests a cursor remembers the spelling of.
const SPELLED: usize = 1024;

/// How digests and instruments are spelled: asked for under a lock, and remembered.
#[derive(Debug, Default)]
pub(super) struct Spelled {
    digests: Numbered<Digest, Option<Arc<DigestText>>>,
    names: Numbered<ClassId, &'static str>,
    /// What was asked for last, which is mostly what is asked for next.
    last: (ClassId, Digest),
}

impl Spelled {
    /// The spelling of a statement's digest, which may not be known any more.
    pub(super) fn digest(&mut self, engine: &Engine, digest: Digest) -> Option<&Arc<DigestText>> {
        if self.digests.len() >= SPELLED && !self.digests.contains_key(&digest) {
            self.digests.clear();
        }
        self.digests.entry(digest).or_insert_with(|| engine.statement_digest(digest)).as_ref()
    }

    /// The spelling of a digest that was not asked for before.
    pub(super) fn new_digest(&mut self, engine: &Engine, digest: Digest) -> Option<Arc<DigestText>> {
        if digest == self.last.1 && !self.digests.is_empty() {
            return None;
        }
        self.last.1 = digest;
        let is_new = !self.digests.contains_key(&digest);
        if is_new { self.digest(engine, digest).cloned() } else { None }
    }

    /// The name of an instrument that was not asked for before.
    #[inline]
    pub(super) fn new_name(&mut self, engine: &Engine, class: ClassId) -> Option<&'static str> {
        if class == self.last.0 && !self.names.is_empty() {
            return None;
        }
        self.last.0 = class;
        let is_new = !self.names.contains_key(&class);
        if is_new { Some(self.name(engine, class)) } else { None }
    }

    /// The name of an instrument, which stays its own for ever.
    #[inline]
    pub(super) fn name(&mut self, engine: &Engine, class: ClassId) -> &'static str {
        self.names.entry(class).or_insert_with(|| engine.registry.name(class))
    }
}

/// A map by the engine's own numbers.
pub(super) type Numbered<K, V> = HashMap<K, V, BuildHasherDefault<Mixed>>;

/// A hash of a few numbers that nobody chooses, to collide.
#[derive(Default)]
pub(super) struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32((*byte).into()));
    }
    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }
    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(29) ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

/// A statement where it was copied to.
pub(super) type Statement<'w> = (StatementEvent, Texts<Text<'w>>);

/// The stream of statements.
pub(super) struct Statements;

impl Streamed for Statements {
    const TYPE: EventType = EventType::Statement;
    type Event<'w> = Statement<'w>;
    type Open = ();
    fn ended((event, _): &Statement<'_>) -> Option<u64> {
        (event.flags & RECORD_TIMED != 0).then_some(event.end)
    }
    #[inline]
    fn read<'w>(
        _: &mut Open<()>,
        first: u64,
        words: &'w [u64],
        mut each: impl FnMut(u64, Option<Statement<'w>>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let (mut next, mut flow) = (first, ControlFlow::Continue(()));
        decode(words, |event, texts| {
            if flow.is_continue() {
                flow = each(next, Some((event, texts)));
                next += 1;
            }
        });
        flow
    }
}

/// A statement that has ended.
pub struct StreamedStatement<'a> {
    engine: &'a Engine,
    scale: Scale,
    sources: &'a Sources<'a>,
    name: &'static str,
    digest: Option<&'a Arc<DigestText>>,
    thread_id: u64,
    event: StatementEvent,
    texts: Texts<Text<'a>>,
    lock_time_ps: u64,
    counts: [u64; 18],
}

impl<'a> StreamedStatement<'a> {
    #[inline]
    pub(super) fn new(
        engine: &'a Engine,
        seen: Seen<Statement<'a>>,
        scale: Scale,
        sources: &'a Sources<'a>,
        name: &'static str,
        digest: Option<&'a Arc<DigestText>>,
    ) -> Self {
        let Seen { thread_id, event: (event, texts), .. } = seen;
        let counters = counters(event.counters);
        let (lock_time_ps, counts) = (counters.lock_time_ps, counters.counts());
        StreamedStatement {
            engine,
            scale,
            sources,
            name,
            digest,
            thread_id,
            event,
            texts,
            lock_time_ps,
            counts,
        }
    }

    /// THREAD_ID.
    pub fn thread_id(&self) -> u64 {
        self.thread_id
    }

    /// EVENT_ID.
    pub fn event_id(&self) -> u64 {
        self.event.id
    }

    /// END_EVENT_ID.
    pub fn end_event_id(&self) -> u64 {
        self.event.end_event_id
    }

    /// EVENT_NAME.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// TIMER_START, TIMER_END and TIMER_WAIT.
    pub fn timer(&self) -> Timer {
        timer(self.scale, self.event.start, self.event.end, self.event.flags)
    }

    /// LOCK_TIME, in picoseconds.
    pub fn lock_time_ps(&self) -> u64 {
        self.lock_time_ps
    }

    /// What is counted behind it: ERRORS to NO_GOOD_INDEX_USED, in the order of the columns.
    pub fn counts(&self) -> &[u64; 18] {
        &self.counts
    }

    /// SQL_TEXT.
    pub fn sql_text(&self) -> Option<Cow<'_, str>> {
        self.engine.sql_text(self.texts.sql.bytes(), self.event.charset, self.event.text_cut)
    }

    /// DIGEST and DIGEST_TEXT, if there are any still, and it was asked for.
    pub fn digest(&self) -> Option<&DigestText> {
        self.digest.map(Arc::as_ref)
    }

    /// CURRENT_SCHEMA.
    pub fn current_schema(&self) -> Option<Cow<'_, str>> {
        readable(&self.texts.schema)
    }

    /// OBJECT_TYPE of the program it belongs to.
    pub fn object_type(&self) -> Option<&'static str> {
        crate::setup::objects::type_name(self.event.object_type)
    }

    /// OBJECT_SCHEMA.
    pub fn object_schema(&self) -> Option<Cow<'_, str>> {
        readable(&self.texts.object_schema)
    }

    /// OBJECT_NAME.
    pub fn object_name(&self) -> Option<Cow<'_, str>> {
        readable(&self.texts.object_name)
    }

    /// MYSQL_ERRNO.
    pub fn errno(&self) -> u32 {
        self.event.errno
    }

    /// RETURNED_SQLSTATE.
    pub fn sqlstate(&self) -> Option<Cow<'_, str>> {
        self.event.state()
    }

    /// MESSAGE_TEXT.
    pub fn message_text(&self) -> Option<Cow<'_, str>> {
        readable(&self.texts.message)
    }

    /// NESTING_EVENT_ID and NESTING_EVENT_TYPE.
    pub fn nesting(&self) -> Option<(u64, EventType)> {
        nesting_of(self.event.nesting.0, self.event.nesting.1)
    }

    /// NESTING_EVENT_LEVEL.
    pub fn nesting_level(&self) -> u64 {
        self.event.nesting_level.into()
    }

    /// SOURCE, if it was asked for.
    pub fn source(&self) -> Option<String> {
        self.sources.name(self.event.source)
    }

    /// All of it.
    pub fn row(&self) -> StatementRow {
        let seen = (self.thread_id, &self.event, &self.texts);
        let digest = |_| self.digest.cloned();
        self.engine.statement_row(seen, Parts::ALL, self.scale, self.sources, digest)
    }
}
