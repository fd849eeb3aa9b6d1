//! Memory and what is built on it: blocks, slots, queues, hash tables, texts. Knows nothing of events.

pub(crate) mod arena;
pub(crate) mod history;
pub(crate) mod index;
pub(crate) mod lost;
pub(crate) mod pool;
pub(crate) mod queue;
pub(crate) mod shares;
pub(crate) mod text;
