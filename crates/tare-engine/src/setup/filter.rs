//! Filters, resolved when they change: consumers and thread flags become one mask per thread.

use crate::setup::instrument::UNRECORDED;
use crate::snapshot::{Consumer, EventType, Kind};

/// Consumers of each event type: current, history, history_long.
const EVENT_CONSUMERS: [(EventType, [Consumer; 3]); 4] = [
    (
        EventType::Wait,
        [Consumer::EventsWaitsCurrent, Consumer::EventsWaitsHistory, Consumer::EventsWaitsHistoryLong],
    ),
    (
        EventType::Stage,
        [Consumer::EventsStagesCurrent, Consumer::EventsStagesHistory, Consumer::EventsStagesHistoryLong],
    ),
    (
        EventType::Statement,
        [
            Consumer::EventsStatementsCurrent,
            Consumer::EventsStatementsHistory,
            Consumer::EventsStatementsHistoryLong,
        ],
    ),
    (
        EventType::Transaction,
        [
            Consumer::EventsTransactionsCurrent,
            Consumer::EventsTransactionsHistory,
            Consumer::EventsTransactionsHistoryLong,
        ],
    ),
];

/// Mask bit: count into the thread's own bank.
pub(crate) const ATTRIBUTED: u32 = 1 << 0;
/// Mask bit: count globally only, because `thread_instrumentation` is off.
pub(crate) const UNATTRIBUTED: u32 = 1 << 1;
/// Mask bit: count statements by digest.
pub(crate) const DIGEST: u32 = 1 << 2;

/// Mask bit: ticks are cycles, so the fast path may be taken.
pub(crate) const CYCLES: u32 = 1 << 3;

/// Mask bits of the shape `extended`: memory of sessions and statements, CPU time of statements, histograms.
pub(crate) const SESSION_MEMORY: u32 = 1 << 4;
pub(crate) const CPU_TIME: u32 = 1 << 5;
pub(crate) const HISTOGRAM: u32 = 1 << 6;

/// Bits of one event type: record the event, keep it in the thread's history, keep it in the long history.
pub(crate) const CURRENT: u32 = 1;
pub(crate) const HISTORY: u32 = 2;
pub(crate) const LONG: u32 = 4;

const _: () = assert!(HISTOGRAM < 1 << shift(EventType::Transaction));

/// Returns the position of the three bits of an event type.
pub(crate) const fn shift(of: EventType) -> u32 {
    4 + 4 * (of as u32)
}

/// Returns whether an event of type `of` is recorded, at least while it lasts: in a thread with this mask, by
/// an instrument with these switches.
#[inline(always)]
pub(crate) const fn is_event(mask: u32, of: EventType, switches: u8) -> bool {
    mask >> shift(of) & CURRENT != 0 && switches & UNRECORDED == 0
}

/// How the fast path records a thread's events of one type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Usual {
    /// The fast path is not available.
    Not,
    /// Events are summed and not recorded.
    Summed,
    /// Events are recorded with these flags. CURRENT, HISTORY and LONG stand where a record's flags do.
    /// CURRENT takes the place of TIMED, because events on the fast path are timed.
    Recorded(u8),
}

/// Returns how the fast path records events of type `of` with this mask.
pub(crate) fn usual(mask: u32, of: EventType) -> Usual {
    let wanted = ATTRIBUTED | CYCLES;
    if mask & wanted != wanted {
        return Usual::Not;
    }
    match (mask >> shift(of)) as u8 & 7 {
        bits if bits & CURRENT as u8 == 0 => Usual::Summed,
        bits => Usual::Recorded(bits),
    }
}

/// Returns the mask of a thread, given the consumers that are on and the thread's own flags.
pub(crate) fn mask(consumers: u32, instrumented: bool, history: bool) -> u32 {
    let on = |consumer: Consumer| consumers & (1 << consumer as u32) != 0;
    if !on(Consumer::GlobalInstrumentation) {
        return 0;
    }
    let digest = if on(Consumer::StatementsDigest) { DIGEST } else { 0 };
    let statements = if on(Consumer::EventsStatementsCpu) { digest | CPU_TIME } else { digest };
    if !on(Consumer::ThreadInstrumentation) {
        return UNATTRIBUTED | statements;
    }
    if !instrumented {
        return 0;
    }
    let mut mask = ATTRIBUTED | statements;
    for (event, [current, thread, long]) in EVENT_CONSUMERS {
        if on(current) {
            let mut bits = CURRENT;
            if history && on(thread) {
                bits |= HISTORY;
            }
            if history && on(long) {
                bits |= LONG;
            }
            mask |= bits << shift(event);
        }
    }
    mask
}

/// Returns whether these consumers record events of `kind`, in threads that are not excluded.
pub(crate) fn is_recorded(consumers: u32, kind: Kind) -> bool {
    let event = match kind {
        Kind::Stage => EventType::Stage,
        Kind::Statement => EventType::Statement,
        Kind::Transaction => EventType::Transaction,
        // These have no event type.
        Kind::Memory | Kind::Error | Kind::Thread => return true,
        _ => EventType::Wait,
    };
    mask(consumers, true, true) >> shift(event) & CURRENT != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u32 = (1 << 15) - 1;

    fn without(consumer: Consumer) -> u32 {
        ALL & !(1 << consumer as u32)
    }

    #[test]
    fn the_hierarchy_is_global_then_thread_then_current_then_history() {
        assert_eq!(mask(without(Consumer::GlobalInstrumentation), true, true), 0);
        assert_eq!(mask(ALL, false, true), 0);
        assert_eq!(mask(without(Consumer::ThreadInstrumentation), true, true), UNATTRIBUTED | DIGEST);
        let bits = |mask: u32| mask >> shift(EventType::Wait) & 7;
        assert_eq!(bits(mask(ALL, true, true)), CURRENT | HISTORY | LONG);
        assert_eq!(bits(mask(ALL, true, false)), CURRENT);
        assert_eq!(bits(mask(without(Consumer::EventsWaitsCurrent), true, true)), 0);
        assert_eq!(bits(mask(without(Consumer::EventsWaitsHistory), true, true)), CURRENT | LONG);
    }

    #[test]
    fn events_that_nobody_wants_are_summed_and_what_counts_for_nobody_is_not_usual() {
        let usual = |consumers, of| usual(mask(consumers, true, true) | CYCLES, of);
        assert_eq!(usual(ALL, EventType::Wait), Usual::Recorded(7));
        assert_eq!(usual(without(Consumer::EventsWaitsCurrent), EventType::Wait), Usual::Summed);
        assert_eq!(usual(without(Consumer::EventsWaitsCurrent), EventType::Stage), Usual::Recorded(7));
        assert_eq!(usual(without(Consumer::ThreadInstrumentation), EventType::Wait), Usual::Not);
    }
}
