//! Recording: one module for each type of event, with what begins and ends it.

pub(crate) mod exclusion;
pub(crate) mod journal;
pub mod operation;
pub(crate) mod ring;
pub(crate) mod stage;
pub(crate) mod statement;
pub(crate) mod transaction;
pub(crate) mod values;
pub(crate) mod wait;

use ring::RingKind;

/// The result of a fast path that begins an event.
#[derive(Clone, Copy, Debug)]
pub enum Start<T = ()> {
    /// The event has begun.
    Began(T),
    /// Nobody wants the event: there is nothing to end.
    Off,
    /// The fast path does not apply and has done nothing: call the slow path.
    Slow,
}

/// The rings of the four types of events, by type minus one.
pub(crate) const RINGS: [&RingKind; 4] =
    [&transaction::TRANSACTIONS, &statement::STATEMENTS, &stage::STAGES, &wait::WAITS];
