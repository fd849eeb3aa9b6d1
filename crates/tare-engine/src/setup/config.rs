//! What an engine is started with.

use crate::memory::lost::ObjectLimits;
use crate::setup::instrument::{Initial, InitialSwitches};
use crate::setup::rules::MAX_RULES;
use crate::snapshot::{Consumer, KnownError};

/// Sizes and initial switches of an engine.
pub struct Config {
    /// Cap of all memory in bytes: 1 MiB to 4 GiB.
    pub memory_max: usize,
    /// Rows of `events_{transactions,statements,stages,waits}_history` per thread, in this order.
    pub history_size: [u32; 4],
    /// Rows of `events_*_history_long`, in the same order.
    pub history_long_size: [u32; 4],
    /// Rows of `events_statements_summary_by_digest`, one of which is for digests without a place. 0: no
    /// digests.
    pub digests_size: u32,
    /// Bytes of tokens kept per digest.
    pub max_digest_length: u32,
    /// Bytes of SQL_TEXT kept.
    pub max_sql_text_length: u32,
    /// Bytes of connection attributes kept.
    pub session_connect_attrs_size: u32,
    /// Whether SOURCE is filled.
    pub sources: bool,
    /// Whether to record what only the shape `extended` shows.
    pub extended: bool,
    /// Seconds after which the sample of a digest is replaced by the next statement, even a faster one. 0:
    /// never.
    pub max_digest_sample_age: u32,
    /// Full names of instruments with frequent events, in about the order of their events. What a thread
    /// needs to find their cells then lies together.
    pub frequent: &'static [&'static str],
    /// Rows of `accounts`, `users` and `hosts`, in this order.
    pub parties_size: [u32; 3],
    /// Whether waits for mutexes, rwlocks and conds are counted by object. See
    /// [`end_counted_synch_wait`](crate::Engine::end_counted_synch_wait).
    pub synch_waits_by_instance: bool,
    /// Whether the host reports locks that were free like those for which it had to wait, so that level
    /// `sampled` estimates both.
    pub reports_free_locks: bool,
    /// Rows of `setup_actors` and `setup_objects`.
    pub rules_size: [u32; 2],
    /// Limits on the number of all other objects.
    pub limits: ObjectLimits,
    /// Initial switches of instruments.
    pub instruments: InitialSwitches,
    /// Consumers that are on at the start.
    pub consumers: Vec<Consumer>,
    /// The host's errors in ascending order of number, at most [`MAX_ERRORS`](crate::MAX_ERRORS). If empty,
    /// there is no instrument `error`.
    pub errors: &'static [KnownError],
}

impl Default for Config {
    fn default() -> Config {
        Config {
            memory_max: 64 << 20,
            history_size: [32; 4],
            history_long_size: [10_000; 4],
            digests_size: 5_000,
            max_digest_length: 1024,
            max_sql_text_length: 1024,
            session_connect_attrs_size: 512,
            sources: true,
            extended: false,
            max_digest_sample_age: 60,
            frequent: &[],
            parties_size: [1_000; 3],
            synch_waits_by_instance: false,
            reports_free_locks: false,
            rules_size: [MAX_RULES as u32; 2],
            limits: ObjectLimits::default(),
            instruments: Box::new(|_| Initial::default()),
            consumers: Consumer::ALL.into_iter().filter(|consumer| !consumer.is_further()).collect(),
            errors: &[],
        }
    }
}
