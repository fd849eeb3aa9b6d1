//! The consumers: `setup_consumers` is the built-in's, and the engine follows it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use tare_engine::snapshot::Consumer;
use tare_host::process::{ENGINE, failure};

/// The consumers that decide about events.
pub(crate) const FOLLOWED: [Consumer; 16] = [
    Consumer::GlobalInstrumentation,
    Consumer::ThreadInstrumentation,
    Consumer::EventsWaitsCurrent,
    Consumer::EventsWaitsHistory,
    Consumer::EventsWaitsHistoryLong,
    Consumer::EventsStagesCurrent,
    Consumer::EventsStagesHistory,
    Consumer::EventsStagesHistoryLong,
    Consumer::EventsStatementsCurrent,
    Consumer::EventsStatementsHistory,
    Consumer::EventsStatementsHistoryLong,
    Consumer::EventsStatementsCpu,
    Consumer::EventsTransactionsCurrent,
    Consumer::EventsTransactionsHistory,
    Consumer::EventsTransactionsHistoryLong,
    Consumer::StatementsDigest,
];

static FLAGS: OnceLock<Vec<&'static AtomicU8>> = OnceLock::new();

/// Sets where the built-in keeps whether the consumers are on, in the order of [`FOLLOWED`].
pub(crate) fn set_places(flags: Vec<&'static AtomicU8>) {
    let _set_once = FLAGS.set(flags);
}

/// Returns every consumer, and whether the built-in has it on.
pub(crate) fn all() -> impl Iterator<Item = (Consumer, &'static AtomicU8)> {
    FOLLOWED.into_iter().zip(FLAGS.get().into_iter().flatten().copied())
}

/// Returns whether the built-in has the consumer `thread_instrumentation` on. While it is off, threads are
/// not told apart, and INSTRUMENTED of a thread has no meaning.
pub(crate) fn thread_instrumentation() -> bool {
    let mut all = all();
    all.any(|(consumer, flag)| consumer == Consumer::ThreadInstrumentation && flag.load(Relaxed) != 0)
}

/// Sets the engine's consumers to what the built-in's are, unless a panic has switched instrumentation off.
pub(crate) fn follow() {
    if failure().is_some() {
        return;
    }
    for (consumer, flag) in all() {
        let is_on = flag.load(Relaxed) != 0;
        if ENGINE.consumer(consumer) != is_on {
            ENGINE.set_consumer(consumer, is_on);
        }
    }
}
