//! `events_statements_*`.

use std::sync::atomic::{
    Ordering::{Acquire, Relaxed},
    fence,
};

use tare_sync::record;

use super::words::Words;
use super::{Block, Event, Seen, Sources, nesting_of, timer};
use crate::Engine;
use crate::count::cell::COUNTERS;
use crate::count::digest_table::DigestSlot;
use crate::memory::arena::{Offset, Use, WORDS};
use crate::memory::text;
use crate::read::Scale;
use crate::read::objects::KeptTokens;
use crate::read::summary::plain_counters;
use crate::record::ring::{LINE_WORDS, STATEMENT_WORDS};
use crate::record::statement::Level as StatementLevel;
use crate::snapshot::*;
use crate::thread::Thread;

/// A statement's record, or a level of the stack, copied out.
struct StatementWords {
    words: Words,
    at: StatementLayout,
}

impl Event for StatementWords {
    const TYPE: EventType = EventType::Statement;
    fn id(&self) -> u64 {
        self.words.0[0]
    }
    fn end(&self) -> u64 {
        self.words.0[3]
    }
    fn end_event_id(&self) -> u64 {
        self.words.0[5]
    }
    fn flags(&self) -> u8 {
        self.words.u8(1, 7)
    }
    fn decode(blocks: &[Block]) -> Vec<(usize, Self)> {
        let mut events = Vec::new();
        for (number, block) in blocks.iter().enumerate() {
            let mut rest = &block.words[..];
            // Behind the end the words are anything.
            while let &[first, lines, ..] = rest
                && first != 0
                && let Some(words) =
                    Words::first(rest, (lines as u32 as usize).saturating_mul(LINE_WORDS as usize))
                && words.0.len() >= STATEMENT_WORDS
            {
                rest = &rest[words.0.len()..];
                events.push((number, StatementWords { at: StatementLayout::packed(&words), words }));
            }
        }
        events
    }
}

impl Engine {
    /// `events_statements_*`.
    pub fn statements(&self, asked: impl Into<Asked<Scope>>) -> Vec<StatementRow> {
        let asked = asked.into();
        let (scale, sources) = (Scale::of(self), Sources::of(self));
        if asked.what != Scope::Current {
            let ended = self.ended::<StatementWords>(asked);
            return ended.iter().map(|seen| self.statement_row(seen, scale, &sources)).collect();
        }
        let shown = self.shown(EventType::Statement, asked);
        let mut rows = Vec::new();
        for thread in self.live_threads_of(asked.thread) {
            // The running ones; the last one where none runs.
            let depth = (thread.statement_depth.load(Relaxed) as usize).max(1);
            for level in thread.statement_levels.iter().take(depth) {
                let Some(seen) = self.copy_level(thread, level.load(Acquire)) else { break };
                let is_shown = if seen.has_ended() { shown.shows(&seen) } else { shown.shows_running(&seen) };
                if seen.event.id() != 0 && is_shown {
                    rows.push(self.statement_row(&seen, scale, &sources));
                }
            }
        }
        rows
    }

    fn copy_level(&self, thread: &Thread, level: Offset) -> Option<Seen<StatementWords>> {
        let thread_id = thread.thread_id.load(Relaxed);
        let level: &StatementLevel = self.arena.get(level)?;
        let block = self.arena.offset_of(level) / WORDS as u32;
        let words = self.arena.words(block);
        let meta = self.arena.meta(block);
        for _ in 0..64 {
            let copy = level.version.read(|_| words.iter().map(record::copy).collect::<Vec<u64>>());
            if let Some(copy) = copy {
                // A thread that ended meanwhile has given the block to another, or to another purpose.
                let own = self.arena.used(block) == Use::Statement as u8
                    && meta.owner.load(Relaxed) == thread_id
                    && self.still_lives(thread, thread_id);
                let event = StatementWords { words: Words(copy), at: StatementLayout::level() };
                return own.then_some(Seen { thread_id, moment: 0, opened: 0, event });
            }
            std::hint::spin_loop();
        }
        None
    }

    fn statement_row(
        &self,
        seen: &Seen<StatementWords>,
        scale: Scale<'_>,
        sources: &Sources<'_>,
    ) -> StatementRow {
        let StatementWords { words: record, at } = &seen.event;
        let w = &record.0;
        let flags = record.u8(1, 7);
        let ended = w[3] != 0;
        let counters: [u64; COUNTERS] =
            std::array::from_fn(|counter| w.get(STATEMENT_COUNTERS + counter).copied().unwrap_or(0));
        let [charset, digest_charset] = [0, 1].map(|half| record.u32(STATEMENT_WORDS - 1, half));
        let cut = record.u32(11, 1) != 0;
        let text = record.text(at.text, record.u32(11, 0) as usize);
        let state = record.text(9, record.u8(7, 2) as usize);
        StatementRow {
            head: EventHead {
                thread_id: seen.thread_id,
                event_id: w[0],
                end_event_id: ended.then_some(w[5]),
                name: self.registry.name(record.u16(7, 0)),
                source: sources.name(w[4]),
                timer: timer(scale, w[2], w[3], flags),
                nesting: nesting_of(w[6], record.u8(1, 6)),
            },
            sql_text: self.sql_text(text, charset, cut),
            sql_text_cut: cut,
            digest: self.statement_digest(record.u32(8, 0), record.u32(8, 1), digest_charset),
            current_schema: record.string(at.schema, record.u16(10, 0) as usize),
            object: ObjectName {
                object_type: crate::setup::objects::type_name(record.u8(7, 3)),
                schema: record.string(at.object_schema, record.u16(10, 2) as usize),
                name: record.string(at.object_name, record.u16(10, 3) as usize),
                index: None,
            },
            mysql_errno: record.u32(7, 1),
            returned_sqlstate: (!state.is_empty()).then(|| String::from_utf8_lossy(&state).into_owned()),
            message_text: record.string(at.message, record.u16(10, 1) as usize),
            counters: plain_counters(&counters),
            nesting_level: u32::from(record.u16(1, 2)),
        }
    }

    /// SQL_TEXT. What follows a byte that is no character of the client's character set is left out, and where anything is
    /// left out or was cut, what says so takes the place of the last three characters. The bytes are shown as they are:
    /// the reference does not convert them either.
    fn sql_text(&self, mut text: Vec<u8>, charset: u32, cut: bool) -> Option<String> {
        // Every client's character set has ASCII.
        let host = self.host.get().filter(|_| !text.is_ascii());
        let well_formed = host.map_or(text.len(), |host| host.characters(&text, charset, usize::MAX));
        let cut = cut || well_formed < text.len();
        text.truncate(well_formed);
        if cut {
            // The end of the last one before the last three, if there is one.
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
                text.truncate(end);
                text.extend(b"...");
            }
        }
        (!text.is_empty()).then(|| text::shown(&text))
    }

    /// The digest of an event, spelled in the character set it was seen in.
    fn statement_digest(&self, slot: Offset, generation: u32, charset: u32) -> Option<DigestText> {
        if slot == 0 {
            return None;
        }
        let slot: &DigestSlot = self.arena.at(slot);
        if slot.tenancy.generation() != generation {
            return None;
        }
        let tokens = KeptTokens { charset, ..KeptTokens::of(slot) };
        fence(Acquire);
        if slot.tenancy.generation() == generation { self.spell(&tokens) } else { None }
    }
}

/// Position of the first counter in a statement's record.
const STATEMENT_COUNTERS: usize = STATEMENT_WORDS - 1 - COUNTERS;

/// Where the texts of a copied statement begin.
#[derive(Clone, Copy)]
struct StatementLayout {
    schema: usize,
    object_schema: usize,
    object_name: usize,
    message: usize,
    text: usize,
}

impl StatementLayout {
    /// In a ring: one behind the other.
    fn packed(record: &Words) -> StatementLayout {
        let words = |quarter| text::words(record.u16(10, quarter) as usize);
        let schema = STATEMENT_WORDS;
        let object_schema = schema + words(0);
        let object_name = object_schema + words(2);
        let message = object_name + words(3);
        StatementLayout { schema, object_schema, object_name, message, text: message + words(1) }
    }

    /// In a level of the stack: each at its place.
    fn level() -> StatementLayout {
        let at = |bytes: usize| bytes / 8;
        StatementLayout {
            schema: at(std::mem::offset_of!(StatementLevel, schema)),
            object_schema: at(std::mem::offset_of!(StatementLevel, object_schema)),
            object_name: at(std::mem::offset_of!(StatementLevel, object_name)),
            message: at(std::mem::offset_of!(StatementLevel, message)),
            text: at(std::mem::offset_of!(StatementLevel, text)),
        }
    }
}
