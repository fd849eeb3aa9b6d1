//! Every interleaving, and every stale value the memory model allows, of the protocols between threads.
//!
//! `queue`, `index`, `slots` and `free_list` run what ships. The others write a protocol down once more, in the size of a
//! model: it is part of functions that do much besides, or of threads' slabs, whose words are too many for `loom`. Whoever
//! changes an ordering there changes it here first.

pub(crate) mod atomic;
mod block;
mod digests;
mod fold;
mod free_list;
mod index;
mod queue;
mod settings;
mod slots;
mod sums;
mod version;

/// Checks a model; three involuntary switches of threads find what there is to find in protocols this small.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        atomic::begin();
        model();
    });
}

/// What threads of a model share. It stays, as what the engine shares stays.
fn leak<T>(shared: T) -> &'static T {
    Box::leak(Box::new(shared))
}
