//! HOT PATH: the journal of stages: layout, writer and decoder.
//!
//! | record | words |
//! |---|---|
//! | begin: also ends the previous stage if that has no end of its own | what and when, source |
//! | progress: of the stage that ends next | what, completed, estimated |
//! | end | what and when |

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tare_sync::journal;

use crate::layout::journal::{EventJournal, Marks, OWN_KINDS, RecordReach, kind};
use crate::layout::ring::{RECORD_HISTORY, RECORD_LONG, RECORD_TIMED};
use crate::memory::arena::{Base, Offset, Own};
use crate::snapshot::ClassId;

const BEGIN: u64 = OWN_KINDS;
const PROGRESS: u64 = BEGIN + 1;
const END: u64 = BEGIN + 2;

/// The positions in the first word of a begin or an end: flags ([`RECORD_TIMED`] and its neighbours), class,
/// distances of id and time from the base.
const FLAGS: u32 = 3;
pub(crate) const CLASS: u32 = 6;
const ID: u32 = 17;
const TIME: u32 = 29;
/// The flag of an end, in place of the class: the stage is dropped as if it had never begun.
const DROPPED: u64 = 1 << CLASS;

/// The reach of a record from the last base.
pub(crate) const REACH: RecordReach = RecordReach { id_bits: TIME - ID, time_bits: 64 - TIME };

/// The words of progress and an end, the most that is written at once.
pub(crate) const MOST_WORDS: u32 = 4;

/// The most words that the fast path writes.
pub(crate) const USUAL_WORDS: u32 = 2;

/// A stage, as a reader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StageEvent {
    pub(crate) id: u64,
    pub(crate) end_event_id: u64,
    /// Id and type of the event it nests in.
    pub(crate) nesting: (u64, u8),
    pub(crate) class: ClassId,
    /// The flags [`RECORD_TIMED`], [`RECORD_HISTORY`] and [`RECORD_LONG`].
    pub(crate) flags: u8,
    pub(crate) start: u64,
    /// The end in ticks; 0 while it lasts, 1 if it was not timed.
    pub(crate) end: u64,
    pub(crate) source: u64,
    /// WORK_COMPLETED and WORK_ESTIMATED, once it has ended.
    pub(crate) progress: Option<(u64, u64)>,
}

/// Returns the part of a begin's first word that depends on the thread's mask, and its kind.
pub(crate) const fn begin_of(flags: u8) -> u32 {
    ((flags & (RECORD_TIMED | RECORD_HISTORY | RECORD_LONG)) as u32) << FLAGS | BEGIN as u32
}

/// A stage that begins.
#[derive(Clone, Copy)]
pub(crate) struct BegunStage {
    /// The kind and flags, encoded by [`begin_of`].
    pub(crate) what: u64,
    pub(crate) class: ClassId,
    pub(crate) id: u64,
    pub(crate) start: u64,
}

/// Writes the source of a stage that begins, as the second word of its record at `place`.
#[inline(always)]
pub(crate) fn write_source(base: Base, place: Offset, source: u64) {
    base.word(place as usize + 1).store(source, Relaxed);
}

/// Returns what [`write_source`] wrote for the next record.
pub(crate) fn written_source(journal: &EventJournal, base: Base) -> u64 {
    base.word(journal.ring.next() as usize + 1).own()
}

/// Writes that a stage begins, after [`write_source`], if it is within reach. That ends a timed stage in
/// progress.
#[inline(always)]
pub(crate) fn write_begin(journal: &EventJournal, base: Base, place: Offset, begun: BegunStage) -> bool {
    let BegunStage { what, class, id, start } = begun;
    let (id, time) = (journal.id(id), journal.time(start));
    if !REACH.has(id, time) {
        return false;
    }
    show_begin(journal, base, place, what | u64::from(class) << CLASS | id << ID | time << TIME);
    true
}

/// Writes that a stage begins whose id is known to be within reach (see [`EventJournal::expect_ids`]). `what`
/// includes the class. One part after the other is read and put into the word, by operations that stay in
/// this order, so that few registers are needed. No two parts share a bit.
#[inline(always)]
pub(crate) fn write_near_begin(
    journal: &EventJournal,
    base: Base,
    place: Offset,
    start: u64,
    what: impl FnOnce() -> u64,
    id: impl FnOnce() -> u64,
) -> bool {
    let time = journal.time(start);
    if !REACH.has(0, time) {
        return false;
    }
    let word = (time << TIME).wrapping_add(what());
    let id = journal.id(id());
    debug_assert!(REACH.has(id, 0));
    show_begin(journal, base, place, word ^ id << ID);
    true
}

#[inline(always)]
fn show_begin(journal: &EventJournal, base: Base, place: Offset, word: u64) {
    let words = base.at::<[AtomicU64; 3]>(place);
    journal::show(&words[0], word, &words[2]);
    journal.ring.set_next(journal.ring.next() + 2);
    journal.ring.count();
}

/// The end of a stage.
#[derive(Clone, Copy)]
pub(crate) struct EndedStage {
    pub(crate) next_id: u64,
    /// The time in ticks; `None`: unknown.
    pub(crate) time: Option<u64>,
    /// Whether readers leave the stage out, as if it had never begun.
    pub(crate) dropped: bool,
}

/// Writes that the stage in progress ends, if the journal is ready for it.
#[inline(always)]
pub(crate) fn write_end(journal: &EventJournal, base: Base, ended: EndedStage) -> bool {
    let Some(place) = journal.place(1) else { return false };
    let (id, time) = (journal.id(ended.next_id), ended.time.map_or(0, |now| journal.time(now)));
    if !REACH.has(id, time) {
        return false;
    }
    let flags = if ended.time.is_some() { u64::from(RECORD_TIMED) << FLAGS } else { 0 };
    let dropped = if ended.dropped { DROPPED } else { 0 };
    journal.append::<1, 2>(base, place, [END | flags | dropped | id << ID | time << TIME]);
    true
}

/// Writes at `place` that a timed stage ends, whose ids are known to be within reach.
#[inline(always)]
pub(crate) fn write_near_end(
    journal: &EventJournal,
    base: Base,
    place: Offset,
    end: u64,
    next_id: impl FnOnce() -> u64,
) -> bool {
    let time = journal.time(end);
    if !REACH.has(0, time) {
        return false;
    }
    let flags = u64::from(RECORD_TIMED) << FLAGS;
    journal.append::<1, 2>(base, place, [END | flags | journal.id(next_id()) << ID | time << TIME]);
    true
}

/// Writes the progress of the stage that is about to end, if there is room.
pub(crate) fn write_progress(journal: &EventJournal, base: Base, completed: u64, estimated: u64) -> bool {
    let Some(place) = journal.place(3) else { return false };
    journal.append::<3, 4>(base, place, [PROGRESS, completed, estimated]);
    true
}

/// What a record says of a stage.
pub(crate) enum StageStep {
    /// A stage has begun.
    Began,
    /// The previous stage has ended.
    Ended(StageEvent),
    /// The end of the previous stage is unknown, or it was dropped.
    Left,
}

/// The state of a decoder between two blocks of the same thread.
#[derive(Default)]
pub(crate) struct Decoder {
    open: Option<StageEvent>,
}

impl Decoder {
    /// Decodes a block's words, oldest first.
    pub(crate) fn decode(&mut self, mut words: &[u64], mut each: impl FnMut(StageStep)) {
        let mut marks = Marks::default();
        loop {
            let len = match marks.read(words) {
                Some(mark) => {
                    if mark.gap {
                        self.leave(&mut each);
                    }
                    mark.words
                }
                None => match self.read(words, &marks, &mut each) {
                    Some(len) => len,
                    None => return,
                },
            };
            words = &words[len..];
        }
    }

    /// Returns the stage in progress after the last block.
    pub(crate) fn open(self) -> Option<StageEvent> {
        self.open
    }

    /// Reads the record at the beginning of these words and returns its length; `None`: there is none.
    fn read(&mut self, words: &[u64], marks: &Marks, each: &mut impl FnMut(StageStep)) -> Option<usize> {
        let word = *words.first()?;
        let id = marks.base_id.wrapping_add(word >> ID & ((1 << (TIME - ID)) - 1));
        let time = marks.base_time.wrapping_add(word >> TIME);
        let flags = (word >> FLAGS & 7) as u8;
        match kind(word) {
            BEGIN => {
                let source = *words.get(1)?;
                self.end(id, time, each);
                each(StageStep::Began);
                self.open = Some(StageEvent {
                    id,
                    end_event_id: 0,
                    nesting: marks.parent,
                    class: (word >> CLASS & 0x7FF) as ClassId,
                    flags,
                    start: if flags & RECORD_TIMED != 0 { time } else { 0 },
                    end: 0,
                    source,
                    progress: None,
                });
                Some(2)
            }
            PROGRESS => {
                let progress = (*words.get(1)?, *words.get(2)?);
                self.open.iter_mut().for_each(|stage| stage.progress = Some(progress));
                Some(3)
            }
            END => {
                if word & DROPPED != 0 {
                    self.leave(each);
                }
                self.end(id, if flags & RECORD_TIMED != 0 { time } else { 1 }, each);
                Some(1)
            }
            _ => None,
        }
    }

    fn leave(&mut self, each: &mut impl FnMut(StageStep)) {
        if self.open.take().is_some() {
            each(StageStep::Left);
        }
    }

    fn end(&mut self, next_id: u64, time: u64, each: &mut impl FnMut(StageStep)) {
        if let Some(mut stage) = self.open.take() {
            stage.end_event_id = next_id.wrapping_sub(1);
            stage.end = if stage.flags & RECORD_TIMED != 0 { time.max(1) } else { 1 };
            each(StageStep::Ended(stage));
        }
    }
}
