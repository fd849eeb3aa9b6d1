//! Model checks of all protocols with loom: every interleaving, and every stale value that the memory model
//! allows.

mod circle;
mod deferred;
mod digests;
mod folds;
mod index;
mod journal;
mod overwriting;
mod queue;
mod seqlock;
mod settings;
mod shown;
mod slots;
mod space;
mod stamp;
mod treiber_stack;

use crate::atomic::AtomicU64;

/// Checks a model. Three preemptions are enough for protocols this small.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// Returns words of zeros.
fn words<const COUNT: usize>() -> [AtomicU64; COUNT] {
    std::array::from_fn(|_| AtomicU64::new(0))
}
