//! Recording: one module for each type of event, with what begins and ends it.

pub(crate) mod exclusion;
pub mod operation;
pub(crate) mod stage;
pub(crate) mod statement;
pub(crate) mod transaction;
pub(crate) mod wait;

/// The result of a fast path that begins an event.
#[derive(Clone, Copy, Debug)]
pub enum Start<T = ()> {
    /// The event has begun.
    Began(T),
    /// There is no demand for the event, and nothing to end.
    Off,
    /// The fast path does not apply and has done nothing: call the slow path.
    Slow,
}
