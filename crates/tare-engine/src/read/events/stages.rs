//! `events_stages_*`.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Relaxed;

use super::stream::{Open, Streamed};
use super::{CopiedBlock, EventFacts, PlacedEvent, Sources, nesting_of, timer};
use crate::Engine;
use crate::layout::ring::RECORD_TIMED;
use crate::layout::stage::{Decoder, StageEvent, StageStep};
use crate::read::Scale;
use crate::snapshot::*;
use crate::thread::FoundThread;
use crate::thread::choice::UNKNOWN_STAGE;

impl EventFacts for StageEvent {
    const TYPE: EventType = EventType::Stage;
    fn id(&self) -> u64 {
        self.id
    }
    fn end(&self) -> u64 {
        self.end
    }
    fn end_event_id(&self) -> u64 {
        self.end_event_id
    }
    fn flags(&self) -> u8 {
        self.flags
    }
    fn decode(blocks: &[CopiedBlock]) -> Vec<(usize, Self)> {
        let (mut decoder, mut events) = (Decoder::default(), Vec::new());
        for (at, block) in blocks.iter().enumerate() {
            decoder.decode(&block.words, |step| {
                if let StageStep::Ended(stage) = step {
                    events.push((at, stage));
                }
            });
        }
        events.extend(decoder.open().map(|stage| (blocks.len() - 1, stage)));
        events
    }
}

impl Streamed for StageEvent {
    const TYPE: EventType = EventType::Stage;
    type Event<'w> = StageEvent;
    type ThreadProgress = Decoder;
    fn ended(event: &StageEvent) -> Option<u64> {
        (event.flags & RECORD_TIMED != 0).then_some(event.end)
    }
    fn read<'w>(
        open: &mut Open<Decoder>,
        first: u64,
        words: &'w [u64],
        mut each: impl FnMut(u64, Option<Self::Event<'w>>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let (mut numbers, mut flow) = (first.., ControlFlow::Continue(()));
        let Open { number, known, .. } = open;
        known.decode(words, |step| {
            let stage = match step {
                StageStep::Began => {
                    *number = numbers.next();
                    return;
                }
                StageStep::Ended(stage) => Some(stage),
                StageStep::Left => None,
            };
            if let Some(number) = number.take()
                && flow.is_continue()
            {
                flow = each(number, stage);
            }
        });
        flow
    }
}

impl Engine {
    /// Returns the rows of `events_stages_*`.
    pub fn stages(&self, asked: impl Into<ReadRequest<Scope>>) -> Vec<StageRow> {
        let asked = asked.into();
        let scale = Scale::of(self);
        let stages = match asked.what {
            Scope::Current => self.current_stages(asked),
            _ => self.ended(asked),
        };
        let progress: HashMap<u64, (u64, u64)> = match asked.what {
            Scope::Current => self.current_progress(asked.thread),
            _ => HashMap::new(),
        };
        let sources = Sources::of(self, asked.parts);
        let mut rows: Vec<StageRow> =
            stages.iter().map(|seen| self.stage_row(seen, scale, &progress, &sources)).collect();
        if asked.what == Scope::Current {
            let skipped =
                self.live_threads_of(asked.thread).into_iter().filter_map(|it| self.skipped_stage(it));
            let further: Vec<StageRow> = skipped
                .filter(|row| rows.iter().all(|recorded| recorded.head.thread_id != row.head.thread_id))
                .collect();
            rows.extend(further);
            rows.sort_by_key(|row| row.head.thread_id);
        }
        rows
    }

    /// Returns the stage of a thread whose statement was not chosen, as the host knows it. It has no times,
    /// and the id that the thread's next event gets.
    fn skipped_stage(&self, (thread_id, thread): FoundThread) -> Option<StageRow> {
        let depth = thread.statement_depth.load(Relaxed) as usize;
        if depth == 0 || thread.stage_label.load(Relaxed) != UNKNOWN_STAGE || !self.has_demand(Kind::Stage) {
            return None;
        }
        let class = self.stage_of(thread);
        if class == 0 || self.registry.kind(class) != Kind::Stage || !self.is_class_sampled(class) {
            return None;
        }
        let statement = self.statement_event_id(thread, depth - 1);
        let row = StageRow {
            head: EventHead {
                thread_id,
                event_id: thread.event_id.load(Relaxed),
                end_event_id: None,
                name: self.registry.name(class),
                source: None,
                timer: Timer::default(),
                nesting: (statement != 0).then_some((statement, EventType::Statement)),
            },
            progress: None,
        };
        self.still_lives(thread, thread_id).then_some(row)
    }

    /// Returns the stage in progress of each live thread. An ended stage is not current, as in the built-in.
    fn current_stages(&self, asked: ReadRequest<Scope>) -> Vec<PlacedEvent<StageEvent>> {
        let shown = self.shown(EventType::Stage, asked);
        let mut running = self.records::<StageEvent>(asked.thread);
        running.retain(|seen| !seen.has_ended() && shown.shows_running(seen));
        running
    }

    fn current_progress(&self, thread: Option<u64>) -> HashMap<u64, (u64, u64)> {
        let progress = |(thread_id, thread): FoundThread| {
            let [completed, estimated] = thread.progress.each_ref().map(|it| it.load(Relaxed));
            (thread.has_progress.load(Relaxed) != 0 && self.still_lives(thread, thread_id))
                .then_some((thread_id, (completed, estimated)))
        };
        self.live_threads_of(thread).into_iter().filter_map(progress).collect()
    }

    pub(super) fn stage_row(
        &self,
        seen: &PlacedEvent<StageEvent>,
        scale: Scale,
        current: &HashMap<u64, (u64, u64)>,
        sources: &Sources<'_>,
    ) -> StageRow {
        let stage = &seen.event;
        StageRow {
            head: EventHead {
                thread_id: seen.thread_id,
                event_id: stage.id,
                end_event_id: seen.has_ended().then_some(stage.end_event_id),
                name: self.registry.name(stage.class),
                source: sources.name(stage.source),
                timer: timer(scale, stage.start, stage.end, stage.flags),
                nesting: nesting_of(stage.nesting.0, stage.nesting.1),
            },
            progress: if seen.has_ended() { stage.progress } else { current.get(&seen.thread_id).copied() },
        }
    }
}
