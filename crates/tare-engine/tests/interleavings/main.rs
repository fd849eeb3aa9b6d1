//! Every interleaving, and every stale value the memory model allows, of the protocols between threads.
//!
//! The engine lays its atomics over a mapping, where `loom` can't follow. So each protocol is written down here
//! once more, in the size of a model: the same loads, stores and orderings as in the file it names. Whoever
//! changes an ordering there changes it here first.

mod block;
mod digests;
mod fold;
mod free_list;
mod index;
mod queue;
mod settings;
mod sums;
mod version;

/// Checks a model; three involuntary switches of threads find what there is to find in protocols this small.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}
