//! Statements of a stream, decoded on request: only the requested columns of a copied record are made.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::ControlFlow;
use std::sync::Arc;

use super::statements::readable;
use super::stream::{Open, Streamed};
use super::{PlacedEvent, Sources, nesting_of, timer};
use crate::Engine;
use crate::layout::ring::RECORD_TIMED;
use crate::layout::statement::DigestRef;
use crate::memory::text::CopiedText;
use crate::read::Scale;
use crate::read::summary::counters;
use crate::record::statement::decode::{StatementEvent, StatementTexts, decode};
use crate::snapshot::*;

/// Maximum number of digests whose spelling a cursor caches.
const SPELLED: usize = 1024;

/// Cache of digest texts and instrument names, which are otherwise read under a lock.
#[derive(Debug, Default)]
pub(super) struct Spelled {
    digests: Numbered<DigestRef, Option<Arc<DigestText>>>,
    names: Numbered<ClassId, &'static str>,
    /// The instrument and the digest requested last, which the next statement mostly has, too.
    last: (ClassId, DigestRef),
}

impl Spelled {
    /// Returns the spelling of a statement's digest; `None`: the digest has been evicted.
    pub(super) fn digest(&mut self, engine: &Engine, digest: DigestRef) -> Option<&Arc<DigestText>> {
        if self.digests.len() >= SPELLED && !self.digests.contains_key(&digest) {
            self.digests.clear();
        }
        self.digests.entry(digest).or_insert_with(|| engine.statement_digest(digest)).as_ref()
    }

    /// Returns the spelling of a digest that was not requested before; `None` otherwise.
    pub(super) fn new_digest(&mut self, engine: &Engine, digest: DigestRef) -> Option<Arc<DigestText>> {
        if digest == self.last.1 && !self.digests.is_empty() {
            return None;
        }
        self.last.1 = digest;
        let is_new = !self.digests.contains_key(&digest);
        if is_new { self.digest(engine, digest).cloned() } else { None }
    }

    /// Returns the name of an instrument that was not requested before; `None` otherwise.
    #[inline]
    pub(super) fn new_name(&mut self, engine: &Engine, class: ClassId) -> Option<&'static str> {
        if class == self.last.0 && !self.names.is_empty() {
            return None;
        }
        self.last.0 = class;
        let is_new = !self.names.contains_key(&class);
        if is_new { Some(self.name(engine, class)) } else { None }
    }

    /// Returns the name of an instrument, which never changes.
    #[inline]
    pub(super) fn name(&mut self, engine: &Engine, class: ClassId) -> &'static str {
        self.names.entry(class).or_insert_with(|| engine.registry.name(class))
    }
}

/// A map by the engine's own numbers.
pub(super) type Numbered<K, V> = HashMap<K, V, BuildHasherDefault<Mixed>>;

/// A fast hash of a few numbers. Nobody can choose these, so it need not resist collisions.
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

/// Returns what a client sent, byte by byte, in its own character set. In a truncated text `...` replaces the
/// last three bytes, and a UTF-8 character that would be cut by that.
pub(super) fn sent(text: &[u8], is_cut: bool) -> Option<Cow<'_, [u8]>> {
    if text.is_empty() || !is_cut {
        return (!text.is_empty()).then_some(Cow::Borrowed(text));
    }
    let kept = &text[..text.len().saturating_sub(3)];
    let first = kept.iter().rposition(|byte| byte & 0xc0 != 0x80).unwrap_or(0);
    let is_whole = kept.get(first..).is_none_or(|last| std::str::from_utf8(last).is_ok());
    let kept = if is_whole { kept } else { &kept[..first] };
    Some(Cow::Owned([kept, b"..."].concat()))
}

/// A statement in the buffer it was copied to.
pub(super) type CopiedStatement<'w> = (StatementEvent, StatementTexts<CopiedText<'w>>);

/// The stream of statements.
pub(super) struct CopiedStatements;

impl Streamed for CopiedStatements {
    const TYPE: EventType = EventType::Statement;
    type Event<'w> = CopiedStatement<'w>;
    type ThreadProgress = ();
    fn ended((event, _): &CopiedStatement<'_>) -> Option<u64> {
        (event.flags & RECORD_TIMED != 0).then_some(event.end)
    }
    #[inline]
    fn read<'w>(
        _: &mut Open<()>,
        first: u64,
        words: &'w [u64],
        mut each: impl FnMut(u64, Option<CopiedStatement<'w>>) -> ControlFlow<()>,
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

/// A statement that has ended, whose columns are made on request.
pub struct StreamedStatement<'a> {
    engine: &'a Engine,
    scale: Scale,
    sources: &'a Sources<'a>,
    name: &'static str,
    digest: Option<&'a Arc<DigestText>>,
    thread_id: u64,
    event: StatementEvent,
    texts: StatementTexts<CopiedText<'a>>,
    lock_time_ps: u64,
    counts: [u64; 18],
}

impl<'a> StreamedStatement<'a> {
    #[inline]
    pub(super) fn new(
        engine: &'a Engine,
        seen: PlacedEvent<CopiedStatement<'a>>,
        scale: Scale,
        sources: &'a Sources<'a>,
        name: &'static str,
        digest: Option<&'a Arc<DigestText>>,
    ) -> Self {
        let PlacedEvent { thread_id, event: (event, texts), .. } = seen;
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

    /// Returns THREAD_ID.
    pub fn thread_id(&self) -> u64 {
        self.thread_id
    }

    /// Returns EVENT_ID.
    pub fn event_id(&self) -> u64 {
        self.event.id
    }

    /// Returns END_EVENT_ID.
    pub fn end_event_id(&self) -> u64 {
        self.event.end_event_id
    }

    /// Returns EVENT_NAME.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns TIMER_START, TIMER_END and TIMER_WAIT.
    pub fn timer(&self) -> Timer {
        timer(self.scale, self.event.start, self.event.end, self.event.flags)
    }

    /// Returns LOCK_TIME in picoseconds.
    pub fn lock_time_ps(&self) -> u64 {
        self.lock_time_ps
    }

    /// Returns ERRORS to NO_GOOD_INDEX_USED, in the order of the columns.
    pub fn counts(&self) -> &[u64; 18] {
        &self.counts
    }

    /// Returns SQL_TEXT.
    pub fn sql_text(&self) -> Option<Cow<'_, str>> {
        self.engine.sql_text(self.texts.sql.bytes(), self.event.charset, self.event.text_cut)
    }

    /// Returns SQL_BYTES.
    pub fn sql_bytes(&self) -> Option<Cow<'_, [u8]>> {
        sent(self.texts.sql.bytes(), self.event.text_cut)
    }

    /// Returns SQL_CHARSET.
    pub fn charset(&self) -> u32 {
        self.event.charset
    }

    /// Returns DIGEST and DIGEST_TEXT; `None`: not requested, or the digest has been evicted.
    pub fn digest(&self) -> Option<&DigestText> {
        self.digest.map(Arc::as_ref)
    }

    /// Returns CURRENT_SCHEMA.
    pub fn current_schema(&self) -> Option<Cow<'_, str>> {
        readable(&self.texts.schema)
    }

    /// Returns OBJECT_TYPE of the stored program the statement belongs to.
    pub fn object_type(&self) -> Option<&'static str> {
        crate::setup::objects::type_name(self.event.object_type)
    }

    /// Returns OBJECT_SCHEMA.
    pub fn object_schema(&self) -> Option<Cow<'_, str>> {
        readable(&self.texts.object_schema)
    }

    /// Returns OBJECT_NAME.
    pub fn object_name(&self) -> Option<Cow<'_, str>> {
        readable(&self.texts.object_name)
    }

    /// Returns MYSQL_ERRNO.
    pub fn errno(&self) -> u32 {
        self.event.errno
    }

    /// Returns RETURNED_SQLSTATE.
    pub fn sqlstate(&self) -> Option<Cow<'_, str>> {
        self.event.state()
    }

    /// Returns MESSAGE_TEXT.
    pub fn message_text(&self) -> Option<Cow<'_, str>> {
        readable(&self.texts.message)
    }

    /// Returns NESTING_EVENT_ID and NESTING_EVENT_TYPE.
    pub fn nesting(&self) -> Option<(u64, EventType)> {
        nesting_of(self.event.nesting.0, self.event.nesting.1)
    }

    /// Returns NESTING_EVENT_LEVEL.
    pub fn nesting_level(&self) -> u64 {
        self.event.nesting_level.into()
    }

    /// Returns SOURCE, if requested.
    pub fn source(&self) -> Option<String> {
        self.sources.name(self.event.source)
    }

    /// Returns the whole row.
    pub fn row(&self) -> StatementRow {
        let seen = (self.thread_id, &self.event, &self.texts);
        let digest = |_| self.digest.cloned();
        self.engine.statement_row(seen, Parts::ALL, self.scale, self.sources, digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_is_told_byte_by_byte() {
        let of = |text: &[u8], is_cut| sent(text, is_cut).map(Cow::into_owned);
        assert_eq!(of(b"", false), None);
        assert_eq!(of(b"select '\xff'", false), Some(b"select '\xff'".to_vec()));
        assert_eq!(of(b"select 'abcdef", true), Some(b"select 'abc...".to_vec()));
        assert_eq!(of("select 'aé123".as_bytes(), true), Some("select 'aé...".as_bytes().to_vec()));
        assert_eq!(of("select 'aé12".as_bytes(), true), Some(b"select 'a...".to_vec()), "half a character");
        assert_eq!(of(b"ab", true), Some(b"...".to_vec()));
    }
}
