//! Events: current, history, history_long, of all four types.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed},
    fence,
};

use tare_sync::record;

use super::Scale;
use super::summary::plain_counters;
use crate::Engine;
use crate::count::cell::COUNTERS;
use crate::count::digest_table::DigestSlot;
use crate::instance::{File, MetadataLock, Socket, TableShare};
use crate::memory::arena::{Offset, Use, View, WORDS};
use crate::memory::pool::{self, Pool, USED};
use crate::memory::text;
use crate::read::objects::KeptTokens;
use crate::record::operation;
use crate::record::ring::{
    LINE_WORDS, RECORD_HISTORY, RECORD_LONG, RECORD_TIMED, RINGS, STATEMENT_WORDS, TRANSACTION_LINES,
    XID_BYTES,
};
use crate::record::stage::RECORD_PROGRESS;
use crate::record::statement::Level as StatementLevel;
use crate::snapshot::*;
use crate::thread::Thread;

/// Words of a record, copied out; what a record is made of by position is said in `ring`.
struct Copied {
    thread_id: u64,
    /// When it ended, as well as is known.
    moment: u64,
    /// When the block it lies in was begun.
    opened: u64,
    words: Vec<u64>,
}

impl Copied {
    fn new(thread_id: u64, words: Vec<u64>) -> Copied {
        Copied { thread_id, moment: 0, opened: 0, words }
    }
    fn u32(&self, at: usize, half: usize) -> u32 {
        (self.words[at] >> (32 * half)) as u32
    }
    fn u16(&self, at: usize, quarter: usize) -> u16 {
        (self.words[at] >> (16 * quarter)) as u16
    }
    fn u8(&self, at: usize, byte: usize) -> u8 {
        (self.words[at] >> (8 * byte)) as u8
    }
    fn text(&self, from: usize, len: usize) -> Vec<u8> {
        let words = self.words.get(from..).unwrap_or_default();
        let mut bytes: Vec<u8> = words.iter().take(text::words(len)).flat_map(|w| w.to_le_bytes()).collect();
        bytes.truncate(len);
        bytes
    }
    fn string(&self, from: usize, len: usize) -> Option<String> {
        (len != 0).then(|| text::shown(&self.text(from, len)))
    }
}

/// The event type's number of words, or that each record says it.
fn record_words(of: EventType) -> Option<usize> {
    match of {
        EventType::Wait | EventType::Stage => Some(LINE_WORDS as usize),
        EventType::Transaction => Some((TRANSACTION_LINES * LINE_WORDS) as usize),
        EventType::Statement => None,
    }
}

/// Where a record keeps start, end and flags.
fn record_flags(of: EventType, record: &Copied) -> u8 {
    match of {
        EventType::Wait => (record.words[7] >> 24) as u8,
        EventType::Stage => record.u8(7, 7),
        EventType::Statement => record.u8(1, 7),
        EventType::Transaction => record.u8(6, 3),
    }
}

fn record_end(of: EventType, record: &Copied) -> u64 {
    match of {
        EventType::Statement => record.words[3],
        _ => record.words[2],
    }
}

/// END_EVENT_ID of a record that has ended.
fn record_end_event_id(of: EventType, record: &Copied) -> u64 {
    match of {
        EventType::Wait => record.words[0] + u64::from(record.u32(6, 1)),
        EventType::Stage => record.words[0] + u64::from(record.u32(7, 0)),
        EventType::Statement => record.words[5],
        EventType::Transaction => record.words[4],
    }
}

/// The order in which a thread's events end: of two with one END_EVENT_ID the inner one is first. Times would
/// not do: not every event has one.
fn ending(of: EventType, record: &Copied) -> (u64, Reverse<u64>) {
    (record_end_event_id(of, record), Reverse(record.words[0]))
}

/// Of a thread's events that were copied while in progress the newest one and those it is nested in: others
/// have ended while the rest was copied, or were copied twice because they moved to another block.
fn stack(of: EventType, mut running: Vec<Copied>) -> Vec<Copied> {
    running.sort_by_key(|record| Reverse(record.words[0]));
    let mut wanted = running.first().map(|record| record.words[0]);
    running.retain(|record| {
        let is_wanted = wanted == Some(record.words[0]);
        if is_wanted {
            let in_wait = of == EventType::Wait && record.words[4] as u8 == EventType::Wait as u8;
            wanted = in_wait.then(|| record.words[0].wrapping_sub(u64::from(record.u32(6, 0))));
        }
        is_wanted
    });
    running
}

/// SOURCE of the rows of one answer. To read one asks the kernel, as it may lie in a plugin that is gone, and many events share
/// theirs.
struct Sources<'a> {
    engine: &'a Engine,
    known: RefCell<HashMap<u64, Option<String>>>,
}

impl<'a> Sources<'a> {
    fn of(engine: &'a Engine) -> Sources<'a> {
        Sources { engine, known: RefCell::default() }
    }

    fn name(&self, source: u64) -> Option<String> {
        self.known.borrow_mut().entry(source).or_insert_with(|| self.engine.source(source)).clone()
    }
}

/// What TRUNCATE has left of an event type in a scope.
struct Shown {
    of: EventType,
    scope: usize,
    hidden_before: u64,
    live: HashMap<u64, &'static Thread>,
}

impl Shown {
    fn shows(&self, record: &Copied) -> bool {
        if self.hidden_before == 0 || record_flags(self.of, record) & RECORD_TIMED != 0 {
            return record_end(self.of, record) >= self.hidden_before;
        }
        // An untimed event: by its id, or, if nobody knows the ids any more, by its block.
        match self.live.get(&record.thread_id) {
            Some(thread) => {
                let hidden = &thread.hidden[self.of as usize - 1][self.scope];
                record_end_event_id(self.of, record) >= hidden.load(Relaxed)
            }
            None => record.opened >= self.hidden_before,
        }
    }

    /// An event in progress is no longer current once TRUNCATE has passed, as in the reference.
    fn shows_running(&self, record: &Copied) -> bool {
        let hidden = |thread: &Thread| thread.hidden[self.of as usize - 1][self.scope].load(Relaxed);
        self.live.get(&record.thread_id).is_some_and(|thread| record.words[0] >= hidden(thread))
    }
}

impl Engine {
    fn shown(&self, of: EventType, asked: Asked<Scope>) -> Shown {
        let scope = asked.what as usize;
        let live = |thread: &'static Thread| (thread.thread_id.load(Relaxed), thread);
        Shown {
            of,
            scope,
            hidden_before: self.hidden_before[of as usize - 1][scope].load(Relaxed),
            live: self.live_threads_of(asked.thread).into_iter().map(live).collect(),
        }
    }

    /// Every whole record in the rings of one event type, of one thread or of all.
    fn records(&self, of: EventType, thread: Option<u64>) -> Vec<Copied> {
        let used = RINGS[of as usize - 1].used;
        let mut records = Vec::new();
        for block in 1..self.arena.high() {
            let meta = self.arena.meta(block);
            if self.arena.used(block) != used as u8 {
                continue;
            }
            // Who has taken it just now has hardly written to it; whose it is for sure is asked after copying.
            if thread.is_some_and(|id| meta.owner.load(Relaxed) != id) {
                continue;
            }
            let copy = |generation| {
                let copied = copy_block(self.arena.words(block), of, record::tag(generation));
                // The first record is published after the owner: whoever saw a record sees its owner.
                (copied, meta.owner.load(Relaxed), meta.opened.load(Relaxed))
            };
            // If the block was filled again meanwhile, what was copied may be a mixture, and is history anyway.
            if let Some((mut copied, owner, opened)) = meta.generation.read(copy) {
                attribute(of, &mut copied, owner, opened);
                records.extend(copied);
            }
        }
        records.retain(|record| thread.is_none_or(|id| record.thread_id == id));
        records
    }

    /// Ended records a scope shows: newest last within a thread.
    fn ended(&self, of: EventType, asked: Asked<Scope>) -> Vec<Copied> {
        let scope = asked.what;
        // What the long history still holds of one thread depends on what the others have done since.
        let narrow = if scope == Scope::HistoryLong { None } else { asked.thread };
        let shown = self.shown(of, Asked { what: scope, thread: narrow });
        let wanted = if scope == Scope::HistoryLong { RECORD_LONG } else { RECORD_HISTORY };
        let mut records = self.records(of, narrow);
        records.retain(|record| {
            record_end(of, record) != 0 && record_flags(of, record) & wanted != 0 && shown.shows(record)
        });
        match scope {
            Scope::HistoryLong => {
                records.sort_by_key(|record| (record.moment, record.thread_id, ending(of, record)));
                let size = self.history_long_size[of as usize - 1].load(Relaxed) as usize;
                records.drain(..records.len().saturating_sub(size));
                records.retain(|record| asked.thread.is_none_or(|id| record.thread_id == id));
            }
            _ => {
                records.retain(|record| shown.live.contains_key(&record.thread_id));
                self.keep_history(of, &mut records);
            }
        }
        records
    }

    /// The last ones of every thread.
    fn keep_history(&self, of: EventType, records: &mut Vec<Copied>) {
        let size = self.history_size[of as usize - 1].load(Relaxed) as usize;
        records.sort_by_key(|record| (record.thread_id, ending(of, record)));
        let mut left: HashMap<u64, usize> = HashMap::new();
        for record in records.iter() {
            *left.entry(record.thread_id).or_default() += 1;
        }
        records.retain(|record| {
            let left = left.entry(record.thread_id).or_default();
            *left -= 1;
            *left < size
        });
    }

    /// `events_waits_*`.
    pub fn waits(&self, asked: impl Into<Asked<Scope>>) -> Vec<WaitRow> {
        let asked = asked.into();
        let scale = Scale::of(self);
        let records = match asked.what {
            Scope::Current => self.current_lines(EventType::Wait, asked),
            _ => self.ended(EventType::Wait, asked),
        };
        let sources = Sources::of(self);
        records.iter().map(|record| self.wait_row(record, scale, &sources)).collect()
    }

    /// Of each live thread the events in progress; where none is, the last wait that ended. An ended stage is no longer
    /// current, as in the reference.
    fn current_lines(&self, of: EventType, asked: Asked<Scope>) -> Vec<Copied> {
        let shown = self.shown(of, asked);
        let mut by_thread: HashMap<u64, Vec<Copied>> = HashMap::new();
        let of_live = |record: &Copied| shown.live.contains_key(&record.thread_id);
        for record in self.records(of, asked.thread).into_iter().filter(of_live) {
            by_thread.entry(record.thread_id).or_default().push(record);
        }
        let mut rows = Vec::new();
        for (_, records) in by_thread {
            let (running, ended): (Vec<_>, Vec<_>) =
                records.into_iter().partition(|record| record_end(of, record) == 0);
            if !running.is_empty() {
                rows.extend(stack(of, running).into_iter().filter(|record| shown.shows_running(record)));
            } else if of == EventType::Wait {
                let last = ended.into_iter().max_by_key(|record| ending(of, record));
                rows.extend(last.filter(|record| shown.shows(record)));
            }
        }
        rows.sort_by_key(|record| (record.thread_id, record.words[0]));
        rows
    }

    fn wait_row(&self, record: &Copied, scale: Scale<'_>, sources: &Sources<'_>) -> WaitRow {
        let w = &record.words;
        let class = w[7] as ClassId;
        let kind = self.registry.kind(class);
        let flags = (w[7] >> 24) as u8;
        let operation = (w[4] >> 8) as u8;
        let nesting = u64::from(record.u32(6, 0));
        let amount = match kind {
            // A socket's is written when the event ends.
            Kind::Socket if w[2] == 0 => None,
            Kind::File | Kind::Socket | Kind::TableIo if w[5] != u64::MAX && operation::moves(operation) => {
                Some(w[5].cast_signed())
            }
            _ => None,
        };
        WaitRow {
            head: EventHead {
                thread_id: record.thread_id,
                event_id: w[0],
                end_event_id: (w[2] != 0).then(|| w[0] + u64::from(record.u32(6, 1))),
                name: self.registry.name(class),
                source: sources.name(w[3]),
                timer: timer(scale, w[1], w[2], flags),
                nesting: nesting_of(w[0].saturating_sub(nesting), w[4] as u8),
            },
            object: self.object_name(kind, record.u32(7, 1), (w[7] >> 16) as u8),
            object_instance_begin: w[4] >> 16,
            operation: operation::name(operation),
            number_of_bytes: amount,
            flags: None,
        }
    }

    /// What a weak reference of a wait means, if it still means anything.
    fn object_name(&self, kind: Kind, name: u32, index: u8) -> ObjectName {
        match kind {
            Kind::File => self.named(Pool::Files, name, |file: &File| ObjectName {
                object_type: Some("FILE"),
                name: (0..64).find_map(|_| file.name()),
                ..ObjectName::default()
            }),
            Kind::Socket => self.named(Pool::Sockets, name, |socket: &Socket| {
                let ip = text::read_string(&socket.ip, socket.ip_len.load(Relaxed) as usize);
                ObjectName {
                    object_type: Some("SOCKET"),
                    name: Some(format!("{ip}:{}", socket.port.load(Relaxed))),
                    ..ObjectName::default()
                }
            }),
            Kind::TableIo | Kind::TableLock => {
                self.named(Pool::Tables, name, |share| self.table_name(share, index))
            }
            Kind::Metadata => self.named(Pool::MetadataLocks, name, |lock| self.lock_name(lock)),
            _ => ObjectName::default(),
        }
    }

    /// What `read` makes of the slot that is meant.
    fn named<T: View>(&self, pool: Pool, name: u32, read: impl FnOnce(&T) -> ObjectName) -> ObjectName {
        let Some((_held, slot)) = pool::resolve::<T>(&self.arena, pool, name) else {
            return ObjectName::default();
        };
        let object = read(slot);
        fence(Acquire);
        // Taken again meanwhile: what was read is another's, or a mixture.
        let is_still = pool::resolve::<T>(&self.arena, pool, name).is_some();
        if is_still { object } else { ObjectName::default() }
    }

    fn lock_name(&self, lock: &MetadataLock) -> ObjectName {
        let some = |from, len: u16| match len {
            0 => None,
            len => Some(text::read_string(from, len as usize)),
        };
        let namespace = lock.namespace.load(Relaxed);
        ObjectName {
            object_type: self.host.get().and_then(|host| host.lock_namespace_name(namespace)),
            schema: some(&lock.schema, lock.schema_len.load(Relaxed)),
            name: some(&lock.name, lock.name_len.load(Relaxed)),
            index: None,
        }
    }

    fn table_name(&self, share: &TableShare, index: u8) -> ObjectName {
        let temporary = share.temporary.load(Relaxed) != 0;
        // A dropped table's indexes are gone with it; its name stays known for a while.
        let is_key = index != 255 && index < share.keys.load(Relaxed) && share.head.state() == USED;
        ObjectName {
            object_type: Some(if temporary { "TEMPORARY TABLE" } else { "TABLE" }),
            schema: Some(text::read_string(&share.schema, share.schema_len.load(Relaxed) as usize)),
            name: Some(text::read_string(&share.name, share.name_len.load(Relaxed) as usize)),
            index: if is_key { self.key_name(share, index as usize) } else { None },
        }
    }

    /// `events_stages_*`.
    pub fn stages(&self, asked: impl Into<Asked<Scope>>) -> Vec<StageRow> {
        let asked = asked.into();
        let scale = Scale::of(self);
        let records = match asked.what {
            Scope::Current => self.current_lines(EventType::Stage, asked),
            _ => self.ended(EventType::Stage, asked),
        };
        let progress: HashMap<u64, (u64, u64)> = match asked.what {
            Scope::Current => self.current_progress(asked.thread),
            _ => HashMap::new(),
        };
        let sources = Sources::of(self);
        let row = |record: &Copied| self.stage_row(record, scale, &progress, &sources);
        records.iter().map(row).collect()
    }

    fn current_progress(&self, thread: Option<u64>) -> HashMap<u64, (u64, u64)> {
        let progress = |thread: &'static Thread| {
            let [completed, estimated] = &thread.progress;
            (thread.has_progress.load(Relaxed) != 0)
                .then(|| (thread.thread_id.load(Relaxed), (completed.load(Relaxed), estimated.load(Relaxed))))
        };
        self.live_threads_of(thread).into_iter().filter_map(progress).collect()
    }

    fn stage_row(
        &self,
        record: &Copied,
        scale: Scale<'_>,
        current: &HashMap<u64, (u64, u64)>,
        sources: &Sources<'_>,
    ) -> StageRow {
        let w = &record.words;
        let flags = record.u8(7, 7);
        let ended = has_ended(record);
        StageRow {
            head: EventHead {
                thread_id: record.thread_id,
                event_id: w[0],
                end_event_id: ended.then(|| w[0] + u64::from(record.u32(7, 0))),
                name: self.registry.name(record.u16(7, 2)),
                source: sources.name(w[3]),
                timer: timer(scale, w[1], w[2], flags),
                nesting: nesting_of(w[6], record.u8(7, 6)),
            },
            progress: match ended {
                true => (flags & RECORD_PROGRESS != 0).then_some((w[4], w[5])),
                false => current.get(&record.thread_id).copied(),
            },
        }
    }

    /// `events_statements_*`.
    pub fn statements(&self, asked: impl Into<Asked<Scope>>) -> Vec<StatementRow> {
        let asked = asked.into();
        let (scale, sources) = (Scale::of(self), Sources::of(self));
        if asked.what != Scope::Current {
            let layout = |record: &Copied| StatementLayout::packed(record);
            let records = self.ended(EventType::Statement, asked);
            return records.iter().map(|r| self.statement_row(r, layout(r), scale, &sources)).collect();
        }
        let shown = self.shown(EventType::Statement, asked);
        let mut rows = Vec::new();
        for thread in self.live_threads_of(asked.thread) {
            // The running ones; the last one where none runs.
            let depth = (thread.statement_depth.load(Relaxed) as usize).max(1);
            for level in thread.statement_levels.iter().take(depth) {
                let Some(record) = self.copy_level(thread, level.load(Acquire)) else { break };
                let running = record.words[3] == 0;
                let is_shown = if running { shown.shows_running(&record) } else { shown.shows(&record) };
                if record.words[0] != 0 && is_shown {
                    rows.push(self.statement_row(&record, StatementLayout::level(), scale, &sources));
                }
            }
        }
        rows
    }

    fn copy_level(&self, thread: &Thread, level: Offset) -> Option<Copied> {
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
                return own.then(|| Copied::new(thread_id, copy));
            }
            std::hint::spin_loop();
        }
        None
    }

    fn statement_row(
        &self,
        record: &Copied,
        at: StatementLayout,
        scale: Scale<'_>,
        sources: &Sources<'_>,
    ) -> StatementRow {
        let w = &record.words;
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
                thread_id: record.thread_id,
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

    /// `events_transactions_*`.
    pub fn transactions(&self, asked: impl Into<Asked<Scope>>) -> Vec<TransactionRow> {
        let asked = asked.into();
        let scale = Scale::of(self);
        let records = match asked.what {
            Scope::Current => self.current_transactions(asked),
            _ => self.ended(EventType::Transaction, asked),
        };
        let sources = Sources::of(self);
        records.iter().map(|record| self.transaction_row(record, scale, &sources)).collect()
    }

    fn current_transactions(&self, asked: Asked<Scope>) -> Vec<Copied> {
        let shown = self.shown(EventType::Transaction, asked);
        let copy = |thread: &'static Thread| {
            let record = self.copy_transaction(thread)?;
            let running = record.words[2] == 0;
            let is_shown = if running { shown.shows_running(&record) } else { shown.shows(&record) };
            (record.words[0] != 0 && is_shown).then_some(record)
        };
        self.live_threads_of(asked.thread).into_iter().filter_map(copy).collect()
    }

    fn copy_transaction(&self, thread: &Thread) -> Option<Copied> {
        let thread_id = thread.thread_id.load(Relaxed);
        let offset = self.arena.offset_of(&thread.transaction);
        let words = self.arena.slice(offset, size_of_val(&thread.transaction) / 8);
        for _ in 0..64 {
            let copy =
                thread.transaction_version.read(|_| words.iter().map(record::copy).collect::<Vec<u64>>());
            if let Some(copy) = copy {
                return self.still_lives(thread, thread_id).then(|| Copied::new(thread_id, copy));
            }
            std::hint::spin_loop();
        }
        None
    }

    fn transaction_row(&self, record: &Copied, scale: Scale<'_>, sources: &Sources<'_>) -> TransactionRow {
        let w = &record.words;
        let host = self.host.get();
        let (gtrid, bqual) = (record.u16(12, 0) as usize, record.u16(12, 1) as usize);
        let xa = record.u8(6, 6) != 0;
        let has_gtid = record.u8(7, 2) != 0;
        TransactionRow {
            head: EventHead {
                thread_id: record.thread_id,
                event_id: w[0],
                end_event_id: (w[2] != 0).then_some(w[4]),
                name: self.registry.name(record.u16(6, 0)),
                source: sources.name(w[3]),
                timer: timer(scale, w[1], w[2], record.u8(6, 3)),
                nesting: nesting_of(w[5], record.u8(6, 2)),
            },
            state: match record.u8(6, 4) {
                2 => TransactionState::Committed,
                3 => TransactionState::RolledBack,
                _ => TransactionState::Active,
            },
            trx_id: (w[8] != 0).then_some(w[8]),
            // Shown for every transaction: zeros where none was given, as in the reference.
            gtid: Some(match has_gtid {
                true => format!("{}-{}-{}", record.u32(12, 1), w[13], w[14]),
                false => "0-0-0".to_owned(),
            }),
            xid_format_id: xa.then(|| record.u32(7, 1).cast_signed()),
            xid_gtrid: (xa && gtrid > 0).then(|| xid_text(&record.text(15, gtrid))),
            xid_bqual: (xa && bqual > 0).then(|| xid_text(&record.text(15 + XID_BYTES / 16, bqual))),
            xa_state: host.filter(|_| xa).and_then(|host| host.xa_state_name(record.u8(6, 7))),
            read_only: record.u8(7, 0) != 0,
            isolation_level: host.and_then(|host| host.isolation_name(record.u8(6, 5))),
            autocommit: record.u8(7, 1) != 0,
            savepoints: w[9],
            rollback_to_savepoint: w[10],
            release_savepoint: w[11],
        }
    }

    /// SOURCE: base name and line.
    pub(super) fn source(&self, source: u64) -> Option<String> {
        if !self.sources.load(Relaxed) {
            return Some(String::new());
        }
        let file = self.host.get()?.source_file((source >> 16) as usize)?;
        let base = file.rsplit('/').next().unwrap_or(&file);
        Some(format!("{base}:{}", source & 0xFFFF))
    }
}

/// An XA identifier's part: as it is where printable, in hexadecimal elsewhere.
fn xid_text(bytes: &[u8]) -> String {
    if bytes.iter().all(|byte| (b' '..=b'~').contains(byte)) {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let hex: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    format!("0x{hex}")
}

/// True when a copied stage or wait has its end.
fn has_ended(record: &Copied) -> bool {
    record.words[2] != 0
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
    fn packed(record: &Copied) -> StatementLayout {
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

/// Copies a block's records.
fn copy_block(words: &'static [AtomicU64; WORDS], of: EventType, tag: u32) -> Vec<Copied> {
    let mut records = Vec::new();
    let mut at = 0;
    while at < WORDS {
        let Some((stamp, end)) = record::begin_copy(&words[at], &words[at + 2], tag) else {
            // Lines of one size may follow a line that is being filled; longer records end the block.
            match record_words(of) {
                Some(size) => {
                    at += size;
                    continue;
                }
                None => break,
            }
        };
        let size = match record_words(of) {
            Some(size) => size,
            None => words[at + 1].load(Relaxed) as u32 as usize * LINE_WORDS as usize,
        };
        if size == 0 || at + size > WORDS {
            break;
        }
        let mut copy: Vec<u64> = words[at..at + size].iter().map(record::copy).collect();
        // It may have moved to another block since: it is still the record it was.
        copy[0] = record::id(stamp);
        if matches!(of, EventType::Wait | EventType::Stage) {
            copy[2] = end;
            unpack_ids(of, &mut copy);
        }
        records.push(Copied::new(0, copy));
        at += size;
    }
    records
}

/// Ids are kept short: the stamp's upper part is the event's own, the nesting event's and END_EVENT_ID are lower
/// halves of ids near it. Makes them what the rows are made of: id, distance back, distance on.
fn unpack_ids(of: EventType, record: &mut [u64]) {
    let id = record[0];
    let on = |end: u64| u64::from((end as u32).wrapping_sub(id as u32));
    match of {
        EventType::Wait => {
            let back = u64::from((id as u32).wrapping_sub(record[6] as u32));
            record[6] = back | on(record[6] >> 32) << 32;
        }
        _ => record[7] = record[7] & !0xFFFF_FFFF | on(record[7]),
    }
}

/// Says of a block's records whose they are and when they ended. An event without a time ended no earlier than
/// the timed one before it, and than its block began.
fn attribute(of: EventType, records: &mut [Copied], owner: u64, opened: u64) {
    let mut moment = opened;
    for record in records {
        if record_flags(of, record) & RECORD_TIMED != 0 {
            moment = moment.max(record_end(of, record));
            record.moment = record_end(of, record);
        } else {
            record.moment = moment;
        }
        (record.thread_id, record.opened) = (owner, opened);
    }
}

fn timer(scale: Scale<'_>, start: u64, end: u64, flags: u8) -> Timer {
    if flags & RECORD_TIMED == 0 || start == 0 {
        return Timer::default();
    }
    let end = if end == 0 { crate::clock::ticks() } else { end };
    let start_ps = scale.moment_ps(start);
    let wait_ps = scale.ps(end.saturating_sub(start));
    Timer { start_ps: Some(start_ps), end_ps: Some(start_ps + wait_ps), wait_ps: Some(wait_ps) }
}

fn nesting_of(id: u64, of: u8) -> Option<(u64, EventType)> {
    let of = match of {
        1 => EventType::Transaction,
        2 => EventType::Statement,
        3 => EventType::Stage,
        4 => EventType::Wait,
        _ => return None,
    };
    (id != 0).then_some((id, of))
}
