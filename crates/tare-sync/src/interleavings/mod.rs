//! Every interleaving of the shipped protocols, and every stale value that the memory model allows: `make loom`.

mod backlog;
mod circle;
mod digests;
mod folds;
mod free_list;
mod index;
mod journal;
mod queue;
mod settings;
mod shown;
mod slots;
mod space;
mod stamp;
mod version;

use crate::atomic::AtomicU64;

/// Checks a model; three involuntary switches of threads find what there is to find in protocols this small.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// Words of zeros.
fn words<const COUNT: usize>() -> [AtomicU64; COUNT] {
    std::array::from_fn(|_| AtomicU64::new(0))
}
