//! `events_statements_*`.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed},
    fence,
};

use tare_sync::journal;

use super::{CopiedBlock, EventFacts, PlacedEvent, Sources, nesting_of, timer};
use crate::Engine;
use crate::count::digest_table::DigestSlot;
use crate::instance::Prepared;
use crate::layout::statement::{DigestRef, OpenStatement};
use crate::memory::arena::{BlockUse, Offset, WORDS};
use crate::memory::pool::{Object, Pool, read_named};
use crate::memory::text::{self, CopiedText};
use crate::read::Scale;
use crate::read::names::KeptTokens;
use crate::read::summary::counters;
use crate::record::statement::decode::{
    OUTLINE_WORDS, StatementEvent, StatementTexts, decode, parsed, prepared_text, read_open, read_outline,
};
use crate::record::statement::parsed::TokenLocation;
use crate::snapshot::*;
use crate::thread::Thread;

/// A statement and its texts.
pub(super) struct ReadStatement {
    event: StatementEvent,
    texts: StatementTexts<Vec<u8>>,
    /// Place of its tokens while it runs.
    parsed: Option<TokenLocation>,
    /// The prepared statement that has its text.
    prepared_text: Option<Object>,
}

impl ReadStatement {
    fn new((event, texts): (StatementEvent, StatementTexts<CopiedText<'_>>)) -> ReadStatement {
        ReadStatement {
            event,
            texts: texts.map(|text| text.bytes().to_vec()),
            parsed: None,
            prepared_text: None,
        }
    }

    /// Decodes the statement in the words of a level.
    fn open(words: &[u64; WORDS]) -> Option<ReadStatement> {
        let (parsed, prepared_text) = (parsed(words), prepared_text(words));
        read_open(words).map(|read| ReadStatement { parsed, prepared_text, ..ReadStatement::new(read) })
    }
}

impl EventFacts for ReadStatement {
    const TYPE: EventType = EventType::Statement;
    fn id(&self) -> u64 {
        self.event.id
    }
    fn end(&self) -> u64 {
        self.event.end
    }
    fn end_event_id(&self) -> u64 {
        self.event.end_event_id
    }
    fn flags(&self) -> u8 {
        self.event.flags
    }
    fn decode(blocks: &[CopiedBlock]) -> Vec<(usize, Self)> {
        let mut events = Vec::new();
        for (at, block) in blocks.iter().enumerate() {
            decode(&block.words, |event, texts| events.push((at, ReadStatement::new((event, texts)))));
        }
        events
    }
}

/// Returns a text as UTF-8; `None` if it is empty.
pub(super) fn readable<T: AsRef<[u8]>>(text: &T) -> Option<Cow<'_, str>> {
    let text = text.as_ref();
    (!text.is_empty()).then(|| text::readable(text))
}

fn shown<T: AsRef<[u8]>>(text: &T) -> Option<String> {
    readable(text).map(Cow::into_owned)
}

impl Engine {
    /// Returns the rows of `events_statements_*`.
    pub fn statements(&self, asked: impl Into<ReadRequest<Scope>>) -> Vec<StatementRow> {
        let asked = asked.into();
        let (scale, sources) = (Scale::of(self), Sources::of(self, asked.parts));
        if asked.what != Scope::Current {
            let ended = self.ended::<ReadStatement>(asked);
            let digest = |digest| self.statement_digest(digest);
            let row = |seen: &PlacedEvent<ReadStatement>| {
                let ReadStatement { event, texts, .. } = &seen.event;
                self.statement_row((seen.thread_id, event, texts), asked.parts, scale, &sources, digest)
            };
            return ended.iter().map(row).collect();
        }
        let shown = self.shown(EventType::Statement, asked);
        let mut rows = Vec::new();
        for (thread_id, thread) in self.live_threads_of(asked.thread) {
            // The running statements; if none runs, the last one.
            let depth = (thread.statement_depth.load(Relaxed) as usize).max(1);
            for level in thread.statement_levels.iter().take(depth) {
                let Some(mut seen) = self.copy_level((thread_id, thread), level.load(Acquire)) else { break };
                let is_shown = if seen.has_ended() { shown.shows(&seen) } else { shown.shows_running(&seen) };
                if seen.event.id() != 0 && is_shown {
                    self.add_prepared_text(&mut seen.event);
                    let ReadStatement { event, texts, parsed, .. } = &seen.event;
                    let runs = || self.runs_still((thread_id, thread), level.load(Acquire), event);
                    let digest = |digest| match parsed {
                        Some(parsed) if event.end == 0 => self.running_digest(*parsed, runs),
                        _ => self.statement_digest(digest),
                    };
                    let seen = (seen.thread_id, event, texts);
                    rows.push(self.statement_row(seen, asked.parts, scale, &sources, digest));
                }
            }
        }
        rows
    }

    /// Gives a statement its text that has left it where it was prepared.
    fn add_prepared_text(&self, ReadStatement { event, texts, prepared_text, .. }: &mut ReadStatement) {
        let bound = self.sql_text_size.load(Relaxed) as usize;
        let copy = |prepared: &Prepared| {
            let (words, len, is_cut) = prepared.sql();
            (text::read(words, len.min(bound)), is_cut || bound < len)
        };
        if let Some(object) = *prepared_text
            && let Some(copied) = read_named(&self.arena, Pool::Prepared, object.name(), copy)
        {
            (texts.sql, event.text_cut) = copied;
        }
    }

    fn copy_level(&self, found: (u64, &Thread), level: Offset) -> Option<PlacedEvent<ReadStatement>> {
        let event = ReadStatement::open(&self.copy_words::<WORDS>(found, level)?)?;
        Some(PlacedEvent { thread_id: found.0, moment: 0, opened: 0, event })
    }

    /// Copies the first words of a level of a thread. `None`: the level is not there any more, or was changed
    /// again and again.
    fn copy_words<const N: usize>(
        &self,
        (thread_id, thread): (u64, &Thread),
        level: Offset,
    ) -> Option<[u64; N]> {
        let open: &OpenStatement = self.arena.get(level)?;
        let block = self.arena.offset_of(open) / WORDS as u32;
        let (words, meta): (&[AtomicU64; WORDS], _) = (self.arena.words(block), self.arena.meta(block));
        let mut copied = [0; N];
        for _ in 0..64 {
            if open.version.read(|_| journal::copy(words, &mut copied)).is_some() {
                // If the thread has ended meanwhile, the block belongs to another thread or serves another
                // purpose.
                let own = self.arena.used(block) == BlockUse::Statement as u8
                    && meta.owner.load(Relaxed) == thread_id
                    && self.still_lives(thread, thread_id);
                return own.then_some(copied);
            }
            std::hint::spin_loop();
        }
        None
    }

    /// Returns the statement in progress on a level of a thread: its facts, its schema, and where its tokens
    /// are. `None`: there is none, or one that has neither a number nor a time.
    pub(super) fn statement_on(
        &self,
        thread: &Thread,
        level: Offset,
    ) -> Option<(StatementEvent, Vec<u8>, Option<TokenLocation>)> {
        // A block has much more than that, most of it in the cache of another processor.
        let words = self.copy_words::<OUTLINE_WORDS>(thread.found(), level)?;
        let (event, schema) = read_outline(&words)?;
        let is_known = event.id != 0 || event.start != 0;
        (is_known && event.end == 0).then(|| (event, schema.bytes().to_vec(), parsed(&words)))
    }

    /// Returns whether a statement that was seen on a level of this thread still runs there.
    pub(super) fn runs_still(&self, found: (u64, &Thread), level: Offset, event: &StatementEvent) -> bool {
        let now = self.copy_words::<OUTLINE_WORDS>(found, level);
        now.as_ref()
            .and_then(read_outline)
            .is_some_and(|(now, _)| now.id == event.id && now.end == 0 && now.start == event.start)
    }

    pub(super) fn statement_row<T: AsRef<[u8]>>(
        &self,
        (thread_id, event, texts): (u64, &StatementEvent, &StatementTexts<T>),
        parts: Parts,
        scale: Scale,
        sources: &Sources<'_>,
        digest: impl FnOnce(DigestRef) -> Option<Arc<DigestText>>,
    ) -> StatementRow {
        let sql_text =
            || self.sql_text(texts.sql.as_ref(), event.charset, event.text_cut).map(Cow::into_owned);
        StatementRow {
            head: EventHead {
                thread_id,
                event_id: event.id,
                end_event_id: (event.end != 0).then_some(event.end_event_id),
                name: self.registry.name(event.class),
                source: sources.name(event.source),
                timer: timer(scale, event.start, event.end, event.flags),
                nesting: nesting_of(event.nesting.0, event.nesting.1),
            },
            sql_text: parts.has(StatementRow::SQL_TEXT).then(sql_text).flatten(),
            sql_text_cut: event.text_cut,
            digest: parts.has(StatementRow::DIGEST).then(|| digest(event.digest)).flatten(),
            current_schema: shown(&texts.schema),
            object: ObjectName {
                object_type: crate::setup::objects::type_name(event.object_type),
                schema: shown(&texts.object_schema),
                name: shown(&texts.object_name),
                index: None,
            },
            mysql_errno: event.errno,
            returned_sqlstate: event.state().map(Cow::into_owned),
            message_text: shown(&texts.message),
            counters: counters(event.counters),
            nesting_level: event.nesting_level.into(),
            statement_id: event.statement_id,
        }
    }

    /// Returns SQL_TEXT up to the first byte that is not a character of the client's character set. If
    /// anything is left out or was truncated, `...` replaces the last three characters. Bytes are not
    /// converted, as in the built-in.
    pub(crate) fn sql_text<'t>(&self, text: &'t [u8], charset: u32, cut: bool) -> Option<Cow<'t, str>> {
        // Every client's character set contains ASCII.
        let host = self.host.get().filter(|_| !text.is_ascii());
        let well_formed = host.map_or(text.len(), |host| host.characters(text, charset, usize::MAX));
        let cut = cut || well_formed < text.len();
        let text = &text[..well_formed.min(text.len())];
        if cut {
            // The end of the last character before the last three, if there is one.
            let end = match host {
                None => text.len().checked_sub(3),
                Some(host) => {
                    let mut ends = vec![0];
                    while let Some(end) = ends.last().copied().filter(|end| *end < text.len()) {
                        ends.push(end + host.characters(&text[end..], charset, 1).max(1));
                    }
                    ends.iter().rev().nth(3).copied()
                }
            };
            if let Some(end) = end.filter(|end| *end != 0) {
                return Some(Cow::Owned(text::shown(&text[..end]) + "..."));
            }
        }
        (!text.is_empty()).then(|| text::readable(text))
    }

    /// Returns the digest of an event, spelled in the character set it was seen in. `None`: the digest has
    /// been evicted.
    pub(super) fn statement_digest(&self, digest: DigestRef) -> Option<Arc<DigestText>> {
        let slot: &DigestSlot = self.arena.get(digest.slot)?;
        if slot.pinned_slot.generation() != digest.generation {
            return None;
        }
        let tokens = KeptTokens { charset: digest.charset, ..KeptTokens::of(slot) };
        fence(Acquire);
        (slot.pinned_slot.generation() == digest.generation).then(|| self.spell(&tokens).map(Arc::new))?
    }
}
