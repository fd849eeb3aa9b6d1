//! Numbers of events per instrument, for readers that want nothing else of the global summaries.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use crate::Engine;
use crate::layout::balance::MemoryCell;
use crate::layout::bank::{Bank, with_cell};
use crate::layout::cell::{Cell, SummaryFamily, Viewer};
use crate::layout::error::ErrorCell;
use crate::memory::arena::Offset;
use crate::snapshot::{ClassId, ConnectionCounts, Kind};
use crate::thread::{BANK_OWN, BANK_UNATTRIBUTED, FoundThread, Thread};

/// Instrument name under which errors of all numbers are counted.
const ERROR: &str = "error";

impl Engine {
    /// Returns the instruments with events since their last reset, and the number of these. For memory these
    /// are allocations and frees, for errors those of all numbers. Reads only existing cells, so instruments
    /// without events cost next to nothing.
    pub fn event_counts(&self) -> Vec<(&'static str, u64)> {
        let names = self.registry.names();
        let (counts, errors) = self.unfolding(|| self.count_events(names.len()));
        let names = names.into_iter().map(Option::unwrap_or_default);
        let counts = names.zip(counts).chain([(ERROR, errors)]);
        counts.filter(|(_, count)| *count > 0).collect()
    }

    /// Returns the number of events per instrument, for each live connection.
    pub fn event_counts_by_connection(&self) -> Vec<ConnectionCounts> {
        let names = self.registry.names();
        let name = |class: ClassId| (class as usize).checked_sub(1).and_then(|at| *names.get(at)?);
        let of = |(thread_id, thread): FoundThread| {
            let (mut own, mut errors) = (Vec::new(), 0);
            self.count_thread(thread, &mut own, &mut errors);
            let os_id = thread.os_id.load(Relaxed);
            let named = own.into_iter().filter_map(|(class, count)| Some((name(class)?, count)));
            let events = named.chain([(ERROR, errors)]).filter(|(_, count)| *count > 0).collect();
            self.still_lives(thread, thread_id).then_some(ConnectionCounts { thread_id, os_id, events })
        };
        let connections = self.live_threads_where(|_, it| it.processlist_id.load(Relaxed) != 0);
        connections.into_iter().filter_map(of).collect()
    }

    /// Returns the number of events by instrument, in the order of ids, and that of errors.
    fn count_events(&self, instruments: usize) -> (Vec<u64>, u64) {
        let mut counts = vec![0; instruments];
        let mut errors = 0;
        self.count_bank(&self.ended.bank, &mut |class, count| add(&mut counts, class, count));
        self.count_errors(&self.ended_errors.bank, &mut errors);
        let mut own = Vec::new();
        for (id, thread) in self.live_threads() {
            let mut own_errors = 0;
            own.clear();
            self.count_thread(thread, &mut own, &mut own_errors);
            if self.still_lives(thread, id) {
                own.iter().for_each(|(class, count)| add(&mut counts, *class, *count));
                errors += own_errors;
            }
        }
        (counts, errors)
    }

    fn count_thread(&self, thread: &Thread, counts: &mut Vec<(ClassId, u64)>, errors: &mut u64) {
        for bank in [BANK_OWN, BANK_UNATTRIBUTED] {
            self.count_bank(&thread.banks[bank], &mut |class, count| counts.push((class, count)));
        }
        self.count_errors(&thread.errors, errors);
    }

    fn count_bank(&self, bank: &Bank, count: &mut dyn FnMut(ClassId, u64)) {
        bank.peek_each(&self.arena, &mut |class, cell| {
            let events = match self.registry.kind(class) {
                Kind::Memory => self.events_of::<MemoryCell>(SummaryFamily::Memory, cell, |cell| {
                    let [allocated, freed] = [&cell.count_alloc, &cell.count_free].map(|it| it.load(Relaxed));
                    allocated.wrapping_add(freed)
                }),
                kind => with_cell!(kind, C => self.events_of::<C>(SummaryFamily::of(kind), cell, C::events)),
            };
            count(class, events);
        });
    }

    fn count_errors(&self, bank: &Bank, errors: &mut u64) {
        bank.peek_each(&self.arena, &mut |_, cell| {
            let raised = self.events_of::<ErrorCell>(SummaryFamily::Errors, cell, ErrorCell::events);
            *errors = errors.wrapping_add(raised);
        });
    }

    /// Returns the events of a cell; 0 if a reset has passed since its writer last looked.
    fn events_of<C: Cell>(&self, family: SummaryFamily, cell: Offset, events: impl Fn(&C) -> u64) -> u64 {
        let Some(cell) = self.arena.get::<C>(cell) else { return 0 };
        let counts = self.counts_for(family, Viewer::Global, cell.head().epoch.load(Acquire));
        if counts { events(cell) } else { 0 }
    }
}

fn add(counts: &mut [u64], class: ClassId, count: u64) {
    if let Some(sum) = (class as usize).checked_sub(1).and_then(|at| counts.get_mut(at)) {
        *sum = sum.wrapping_add(count);
    }
}
