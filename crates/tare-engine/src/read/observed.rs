//! Facts that the host never reports: read from it on request, again while they change.

use crate::Engine;
use crate::memory::lost::Lost;
use crate::read::patiently;
use crate::thread::{FoundThread, Thread};

/// An address in the host's cache of clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CachedHost {
    /// IP.
    pub ip: String,
    /// HOST; `None`: no name was found.
    pub host: Option<String>,
    /// HOST_VALIDATED.
    pub validated: bool,
    /// SUM_CONNECT_ERRORS, then all COUNT_ columns except the last, in their order.
    pub errors: [u64; 21],
    /// FIRST_SEEN and LAST_SEEN, microseconds since the Unix epoch.
    pub seen_us: [u64; 2],
    /// FIRST_ERROR_SEEN and LAST_ERROR_SEEN, microseconds since the Unix epoch; 0: never.
    pub error_seen_us: [u64; 2],
}

/// The live thread of an applier or receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApplierRow {
    /// THREAD_ID.
    pub thread_id: u64,
    /// Name of its current stage; empty: none.
    pub stage: &'static str,
}

/// A connection to a primary, with its applier and receiver.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replica {
    /// CHANNEL_NAME.
    pub name: String,
    /// HOST, PORT and USER.
    pub host: String,
    #[allow(missing_docs)]
    pub port: u32,
    #[allow(missing_docs)]
    pub user: String,
    /// USING_GTID in the host's numbering: no, the current position, the replica's position.
    pub gtid: u32,
    /// SSL_ALLOWED.
    pub ssl: bool,
    /// SSL_CA_FILE, SSL_CA_PATH, SSL_CERTIFICATE, SSL_CIPHER, SSL_KEY, SSL_CRL_FILE, SSL_CRL_PATH.
    pub ssl_texts: [String; 7],
    /// SSL_VERIFY_SERVER_CERTIFICATE.
    pub ssl_verify: bool,
    /// CONNECTION_RETRY_INTERVAL, seconds.
    pub retry_interval: u32,
    /// CONNECTION_RETRY_COUNT.
    pub retry_count: u64,
    /// HEARTBEAT_INTERVAL, seconds.
    pub heartbeat: f64,
    /// IGNORE_SERVER_IDS, REPL_DO_DOMAIN_IDS, REPL_IGNORE_DOMAIN_IDS.
    pub ignored_servers: Vec<u64>,
    #[allow(missing_docs)]
    pub domains: Vec<u64>,
    #[allow(missing_docs)]
    pub ignored_domains: Vec<u64>,
    /// DESIRED_DELAY, seconds.
    pub delay: u32,
    /// Time when the delayed event is due, seconds since the Unix epoch.
    pub delayed_until: u64,
    /// COUNT_TRANSACTIONS_RETRIES.
    pub retried: u64,
    /// The thread that applies events or distributes them to workers.
    pub applier: ReplicaThread,
    /// The thread that receives events. Its `seen` is the last transaction written to the relay log.
    pub receiver: ReplicaThread,
    /// Whether the receiver is connected.
    pub connected: bool,
    /// COUNT_RECEIVED_HEARTBEATS.
    pub heartbeats: u64,
}

/// A connection to a primary, with its live threads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplicaRow {
    /// The connection.
    pub replica: Replica,
    /// The thread that applies events or distributes them to workers; `None`: not running.
    pub applier: Option<ApplierRow>,
    /// The thread that receives events; `None`: not running.
    pub receiver: Option<ApplierRow>,
}

/// A worker of a parallel applier.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplicaWorker {
    /// CHANNEL_NAME of the connection it works for, or worked for last.
    pub name: String,
    /// WORKER_IDLE_TIME, seconds.
    pub idle_s: u64,
    /// The thread of the worker.
    pub thread: ReplicaThread,
}

/// A replication thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplicaThread {
    /// Address of the thread, see [`ThreadHandle::address`](crate::ThreadHandle::address); 0: none.
    pub handle: u64,
    /// Number of its session in the host's list; 0: none, or unknown.
    pub number: u64,
    /// SERVICE_STATE.
    pub runs: bool,
    /// LAST_SEEN_TRANSACTION.
    pub seen: String,
    /// LAST_TRANS_RETRY_COUNT.
    pub retries: u64,
    /// The last error.
    pub error: Option<ReplicaError>,
}

/// The last error of a replication thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaError {
    /// LAST_ERROR_NUMBER.
    pub number: u32,
    /// LAST_ERROR_MESSAGE.
    pub message: String,
    /// LAST_ERROR_TIMESTAMP, microseconds since the Unix epoch.
    pub time_us: u64,
}

impl Engine {
    /// Returns the connections to primaries, each with its threads.
    pub fn replicas(&self) -> Vec<ReplicaRow> {
        let live = self.live_threads();
        let row = |replica: Replica| {
            let [applier, receiver] =
                [&replica.applier, &replica.receiver].map(|thread| self.applier(&live, thread.handle));
            ReplicaRow { replica, applier, receiver }
        };
        self.observe(|| self.host.get()?.replicas()).into_iter().map(row).collect()
    }

    /// Returns the workers of parallel appliers, each with its thread.
    pub fn replica_workers(&self) -> Vec<(ReplicaWorker, Option<ApplierRow>)> {
        let live = self.live_threads();
        let workers = self.observe(|| self.host.get()?.replica_workers());
        workers.into_iter().map(|it| (it.clone(), self.applier(&live, it.thread.handle))).collect()
    }

    /// Returns the live thread at an address from the host's memory. The address is compared and never
    /// followed. `live` are the threads from before the host was asked: one that lives still was at its
    /// address all the time, so the host meant it and not another one before or after.
    fn applier(&self, live: &[FoundThread], handle: u64) -> Option<ApplierRow> {
        let is_it = |(_, thread): &&FoundThread| std::ptr::from_ref(*thread).addr() as u64 == handle;
        let &(thread_id, thread) = live.iter().find(is_it)?;
        let stage = self.stage_name(thread).unwrap_or_default();
        self.still_lives(thread, thread_id).then_some(ApplierRow { thread_id, stage })
    }

    /// Returns the number in the host's list of a thread that works for a connection to a primary.
    pub(super) fn number_of_replicas_thread(&self, thread: &Thread) -> Option<u64> {
        let address = std::ptr::from_ref(thread).addr() as u64;
        let replicas = patiently(|| self.host.get()?.replicas())?;
        let mut threads = replicas.iter().flat_map(|replica| [&replica.applier, &replica.receiver]);
        threads.find(|it| it.handle == address).map(|it| it.number).filter(|number| *number != 0)
    }

    /// Returns the addresses in the host's cache, most recently used first.
    pub fn cached_hosts(&self) -> Vec<CachedHost> {
        self.observe(|| self.host.get()?.cached_hosts())
    }

    /// Returns the host's answer once it is consistent. If that takes too long, the result is empty and a
    /// loss is counted.
    fn observe<T>(&self, ask: impl Fn() -> Option<Vec<T>>) -> Vec<T> {
        if self.host.get().is_none() {
            return Vec::new();
        }
        patiently(ask).unwrap_or_else(|| {
            self.losses.count(Lost::Observations);
            Vec::new()
        })
    }
}
