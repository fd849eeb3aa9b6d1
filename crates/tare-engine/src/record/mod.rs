//! What is recorded: one module for each type of event, with what begins and ends it.

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

/// What a fast path made of an event that begins.
#[derive(Clone, Copy, Debug)]
pub enum Start<T = ()> {
    /// It has begun.
    Began(T),
    /// Nobody wants it: there is nothing to end.
    Off,
    /// Not all is as usual. Nothing has happened: the slow path begins it.
    Slow,
}

/// The rings of the four types of events, by type minus one.
pub(crate) const RINGS: [&RingKind; 4] =
    [&transaction::TRANSACTIONS, &statement::STATEMENTS, &stage::STAGES, &wait::WAITS];
