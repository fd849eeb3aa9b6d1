//! The server's connections to its primaries and the threads that apply their events, read while they work.
//!
//! They are `Master_info` objects in a hash table, and the workers of a pool. Their members lie where the
//! headers of 10.11 put them (10.11.18's, compiled; the offsets of a session's members, computed likewise,
//! are those that the server's code uses). An object is believed only if it, and the applier inside it, begin
//! with the addresses of their classes' functions, the applier points back to the object, and the arrays at
//! its end have the expected element size. Otherwise, and on other series, the tables stay empty. A read
//! counts only if the locks that protect the data were free before and after, and a second read sees the
//! same.
#![allow(unsafe_code)]

use tare_engine::{Replica, ReplicaError, ReplicaThread, ReplicaWorker};
use tare_host::process::observation::{block, bytes, field, pointer, until_zero, word};

use super::session::{LayoutError, function};
use crate::abi::Series;
use std::sync::OnceLock;

/// The most primaries read, and the most workers.
const MOST: u64 = 4096;

/// `Master_info`.
mod primary {
    pub(super) const BYTES: usize = 20_384;
    /// The receiver's members that the applier has, too.
    pub(super) const ERROR_LOCK: usize = 8;
    pub(super) const ERROR: usize = 64;
    pub(super) const HOST: usize = 1694;
    pub(super) const USER: usize = 2460;
    pub(super) const NAME: usize = 2944;
    pub(super) const SSL: usize = 2976;
    /// CA, folder of CAs, certificate, cipher, key, revoked certificates, folder of those: 512 bytes each.
    pub(super) const SSL_TEXTS: usize = 2977;
    pub(super) const SSL_TEXT: usize = 512;
    pub(super) const SSL_VERIFY: usize = 6561;
    pub(super) const RUN_LOCK: usize = 6872;
    pub(super) const SESSION: usize = 7336;
    pub(super) const APPLIER: usize = 7360;
    pub(super) const PORT: usize = 19_200;
    pub(super) const RETRY: usize = 19_220;
    /// 0: the receiver does not run; 1: it is connecting.
    pub(super) const RECEIVES: usize = 19_228;
    pub(super) const HEARTBEAT: usize = 19_252;
    pub(super) const HEARTBEATS: usize = 19_256;
    pub(super) const IGNORED_SERVERS: usize = 19_264;
    pub(super) const GTID: usize = 19_336;
    pub(super) const QUEUED: usize = 19_536;
    pub(super) const DOMAINS: [usize; 2] = [20_160, 20_216];
}

/// `Relay_log_info` in it, with offsets from the object's beginning.
mod applier {
    use super::primary::APPLIER;

    pub(super) const ERROR_LOCK: usize = APPLIER + 8;
    pub(super) const ERROR: usize = APPLIER + 64;
    pub(super) const RUN_LOCK: usize = APPLIER + 6728;
    pub(super) const PRIMARY: usize = APPLIER + 6944;
    pub(super) const SESSION: usize = APPLIER + 9232;
    pub(super) const RUNS: usize = APPLIER + 9248;
    pub(super) const RETRIED: usize = APPLIER + 9976;
    pub(super) const SEEN: usize = APPLIER + 11_784;
    pub(super) const LAST_RETRIES: usize = APPLIER + 11_800;
    pub(super) const DELAY: usize = APPLIER + 11_808;
    pub(super) const DELAYED_UNTIL: usize = APPLIER + 11_816;
}

/// `Slave_reporting_capability::Error`.
mod error {
    pub(super) const MESSAGE: std::ops::Range<usize> = 4..1028;
    /// Seconds since the epoch.
    pub(super) const TIME: usize = 1096;
    pub(super) const BYTES: usize = 1104;
}

/// `rpl_parallel_thread_pool`, including the data it keeps to be shown after its threads have ended.
mod pool {
    pub(super) const LOCK: usize = 16;
    pub(super) const COUNT: usize = 120;
    pub(super) const STANDS: usize = 124;
    pub(super) const KEPT_COUNT: usize = 136;
    pub(super) const KEPT_STANDS: usize = 140;
    pub(super) const KEPT: usize = 144;
    pub(super) const BYTES: usize = 152;
}

/// `rpl_parallel_thread`.
mod worker {
    pub(super) const BYTES: usize = 1688;
    pub(super) const RUNS: usize = 1;
    pub(super) const SESSION: usize = 256;
    pub(super) const NAME: usize = 408;
    pub(super) const NAME_MOST: u32 = 192;
    pub(super) const NAME_BYTES: usize = 600;
    pub(super) const SEEN: usize = 608;
    pub(super) const ERROR: usize = 624;
    pub(super) const MESSAGE: std::ops::Range<usize> = 628..1652;
    pub(super) const ERROR_TIME: usize = 1656;
    pub(super) const IDLE: usize = 1664;
    pub(super) const LAST_RETRIES: usize = 1672;
    pub(super) const IDLE_SINCE: usize = 1680;
}

/// `DYNAMIC_ARRAY`; its elements are single words here.
mod array {
    pub(super) const ELEMENTS: usize = 8;
    pub(super) const SIZE: usize = 32;
}

/// `HASH` of the connections, in `Master_info_index`.
mod index {
    pub(super) const RECORDS: usize = 752 + 24;
    pub(super) const LINKS: usize = 752 + 40;
    pub(super) const LINK_BYTES: usize = 752 + 72;
}
const LINK: usize = 16;

/// The offset in a session of the instrumentation's thread.
const SESSION_THREAD: usize = 9744;

/// The addresses in the server that lead to its replicas.
#[derive(Debug)]
pub(crate) struct ReplicaLayout {
    index: usize,
    lock: usize,
    pool: usize,
    retries: usize,
    /// The first words of a `Master_info` and of a `Relay_log_info`.
    classes: [u64; 2],
}

/// The functions of a class follow two words of its vtable.
const FUNCTIONS: u64 = 16;

impl ReplicaLayout {
    fn prove(series: Series) -> Result<ReplicaLayout, LayoutError> {
        if series != Series::V10_11 {
            return Err(LayoutError::Series);
        }
        let class = |name| function(name).map(|table| table as u64 + FUNCTIONS);
        Ok(ReplicaLayout {
            index: function(c"master_info_index")?,
            lock: function(c"LOCK_active_mi")?,
            pool: function(c"global_rpl_thread_pool")?,
            retries: function(c"master_retry_count")?,
            classes: [class(c"_ZTV11Master_info")?, class(c"_ZTV14Relay_log_info")?],
        })
    }

    /// Reads all connections that name a primary.
    fn replicas(&self) -> Option<Vec<Replica>> {
        let index = pointer(self.index)?;
        if index == 0 {
            return Some(Vec::new());
        }
        let table = || Some([word(index + index::RECORDS)?, word(index + index::LINKS)?]);
        let before = table().filter(|_| is_free(self.lock))?;
        let [records, links] = before;
        let plausible = records == 0 || word(index + index::LINK_BYTES)? == LINK as u64;
        if records > MOST || !plausible {
            return None;
        }
        let links = match records {
            0 => Vec::new(),
            records => block(usize::try_from(links).ok()?, records as usize * LINK)?,
        };
        let mut replicas = Vec::new();
        for link in links.chunks_exact(LINK) {
            replicas.extend(self.replica(usize::try_from(field(link, 8)?).ok()?)?);
        }
        (table()? == before && is_free(self.lock)).then_some(replicas)
    }

    /// Reads a connection; `Some(None)` if it names no primary.
    fn replica(&self, at: usize) -> Option<Option<Replica>> {
        let free = || {
            let locks = [primary::RUN_LOCK, primary::ERROR_LOCK, applier::RUN_LOCK, applier::ERROR_LOCK];
            locks.into_iter().all(|lock| is_free(at + lock))
        };
        let copy = Some(block(at, primary::BYTES)?).filter(|_| free())?;
        let it = Copy(&copy);
        let is_one = it.word(0)? == self.classes[0]
            && it.word(primary::APPLIER)? == self.classes[1]
            && [primary::IGNORED_SERVERS, primary::DOMAINS[0], primary::DOMAINS[1]]
                .into_iter()
                .all(|array| it.word(array + array::SIZE) == Some(8));
        let host = it.text(primary::HOST).filter(|_| is_one)?;
        // The connection that every server has is linked to its applier only once it names a primary.
        match (it.word(applier::PRIMARY)?, host.is_empty()) {
            (0, true) => return Some(None),
            (primary, _) if primary != at as u64 => return None,
            (_, true) => return Some(None),
            (_, false) => {}
        }
        let name_len = it.word(primary::NAME + 8).filter(|len| *len <= u64::from(worker::NAME_MOST))?;
        let name = block(usize::try_from(it.word(primary::NAME)?).ok()?, name_len as usize)?;
        let ssl = |at: usize| it.text(primary::SSL_TEXTS + at * primary::SSL_TEXT);
        let (runs, receives) = (it.number(applier::RUNS)? != 0, it.number(primary::RECEIVES)?);
        let retries = word(self.retries)?;
        let replica = Replica {
            name: String::from_utf8(name).ok()?,
            host,
            port: it.number(primary::PORT)?,
            user: it.text(primary::USER)?,
            gtid: it.number(primary::GTID)?,
            ssl: it.flag(primary::SSL)?,
            ssl_texts: [ssl(0)?, ssl(1)?, ssl(2)?, ssl(3)?, ssl(4)?, ssl(5)?, ssl(6)?],
            ssl_verify: it.flag(primary::SSL_VERIFY)?,
            retry_interval: it.number(primary::RETRY)?,
            retry_count: retries,
            heartbeat: f32::from_bits(it.number(primary::HEARTBEAT)?).into(),
            ignored_servers: it.numbers(primary::IGNORED_SERVERS)?,
            domains: it.numbers(primary::DOMAINS[0])?,
            ignored_domains: it.numbers(primary::DOMAINS[1])?,
            delay: it.number(applier::DELAY)?,
            delayed_until: it.word(applier::DELAYED_UNTIL)?,
            retried: it.word(applier::RETRIED)?,
            applier: ReplicaThread {
                handle: if runs { thread(it.word(applier::SESSION)?) } else { 0 },
                number: if runs { listed_number(it.word(applier::SESSION)?) } else { 0 },
                runs,
                seen: it.gtid(applier::SEEN)?,
                retries: it.word(applier::LAST_RETRIES)?,
                error: it.error(applier::ERROR)?,
            },
            receiver: ReplicaThread {
                handle: if receives != 0 { thread(it.word(primary::SESSION)?) } else { 0 },
                number: if receives != 0 { listed_number(it.word(primary::SESSION)?) } else { 0 },
                runs: receives != 0,
                seen: it.gtid(primary::QUEUED)?,
                retries: 0,
                error: it.error(primary::ERROR)?,
            },
            connected: receives > 1,
            heartbeats: it.word(primary::HEARTBEATS)?,
        };
        free().then_some(Some(replica))
    }

    /// Reads the workers of the pool, or those of the last time it was in use.
    fn workers(&self) -> Option<Vec<(ReplicaWorker, u64)>> {
        let copy = Some(block(self.pool, pool::BYTES)?).filter(|_| is_free(self.pool + pool::LOCK))?;
        let it = Copy(&copy);
        let kept = it.number(pool::KEPT_COUNT)?;
        let [kept_made, kept_valid] = [it.flag(pool::KEPT_STANDS)?, it.flag(pool::KEPT_STANDS + 1)?];
        let (count, threads) = if kept_made && kept_valid && kept > 0 {
            (kept, it.word(pool::KEPT)?)
        } else if it.flag(pool::STANDS)? {
            (it.number(pool::COUNT)?, it.word(0)?)
        } else {
            (0, 0)
        };
        if u64::from(count) > MOST {
            return None;
        }
        let places = match count {
            0 => Vec::new(),
            count => block(usize::try_from(threads).ok()?, count as usize * 8)?,
        };
        let mut workers = Vec::new();
        for place in places.chunks_exact(8) {
            workers.push(worker_at(usize::try_from(field(place, 0)?).ok()?)?);
        }
        (block(self.pool, pool::BYTES)? == copy).then_some(workers)
    }
}

/// Reads a worker, and the time since which it has been idle; 0 if it is busy.
fn worker_at(at: usize) -> Option<(ReplicaWorker, u64)> {
    let copy = block(at, worker::BYTES)?;
    let it = Copy(&copy);
    let name_len = it.number(worker::NAME_BYTES).filter(|len| *len <= worker::NAME_MOST)?;
    let name = copy.get(worker::NAME..)?.get(..name_len as usize)?;
    let runs = it.flag(worker::RUNS)?;
    let number = it.number(worker::ERROR)?;
    let error = match number {
        0 => None,
        number => Some(ReplicaError {
            number,
            message: until_zero(copy.get(worker::MESSAGE)?)?,
            time_us: it.word(worker::ERROR_TIME)?,
        }),
    };
    let worker = ReplicaWorker {
        name: String::from_utf8(name.to_vec()).ok()?,
        idle_s: it.word(worker::IDLE)?,
        thread: ReplicaThread {
            handle: if runs { thread(it.word(worker::SESSION)?) } else { 0 },
            number: if runs { listed_number(it.word(worker::SESSION)?) } else { 0 },
            runs,
            seen: it.gtid(worker::SEEN)?,
            retries: it.word(worker::LAST_RETRIES)?,
            error,
        },
    };
    Some((worker, it.word(worker::IDLE_SINCE)?))
}

/// Returns the instrumentation's thread of a session; 0 if there is none.
fn thread(session: u64) -> u64 {
    let session = usize::try_from(session).ok().filter(|session| *session != 0);
    session.and_then(|session| word(session.checked_add(SESSION_THREAD)?)).unwrap_or(0)
}

/// Returns the number of a session; 0 if there is none.
fn listed_number(session: u64) -> u64 {
    Some(session).filter(|session| *session != 0).and_then(super::session::number).unwrap_or(0)
}

/// Returns whether nobody holds a mutex.
fn is_free(mutex: usize) -> bool {
    bytes::<4>(mutex) == Some([0; 4])
}

/// A copy of an object.
struct Copy<'a>(&'a [u8]);

impl Copy<'_> {
    fn word(&self, at: usize) -> Option<u64> {
        field(self.0, at)
    }

    fn number(&self, at: usize) -> Option<u32> {
        Some(u32::from_le_bytes(*self.0.get(at..)?.first_chunk()?))
    }

    fn flag(&self, at: usize) -> Option<bool> {
        match self.0.get(at)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn text(&self, at: usize) -> Option<String> {
        until_zero(self.0.get(at..)?)
    }

    /// Reads a GTID as text; empty if there is none.
    fn gtid(&self, at: usize) -> Option<String> {
        let (domain, server, sequence) = (self.number(at)?, self.number(at + 4)?, self.word(at + 8)?);
        Some(if sequence == 0 { String::new() } else { format!("{domain}-{server}-{sequence}") })
    }

    /// Reads the numbers of a dynamic array.
    fn numbers(&self, at: usize) -> Option<Vec<u64>> {
        let count = self.word(at + array::ELEMENTS).filter(|count| *count <= MOST)?;
        if count == 0 {
            return Some(Vec::new());
        }
        let numbers = block(usize::try_from(self.word(at)?).ok()?, count as usize * 8)?;
        numbers.chunks_exact(8).map(|number| field(number, 0)).collect()
    }

    /// Reads a thread's last error.
    fn error(&self, at: usize) -> Option<Option<ReplicaError>> {
        let error = Copy(self.0.get(at..)?.get(..error::BYTES)?);
        Some(match error.number(0)? {
            0 => None,
            number => Some(ReplicaError {
                number,
                message: until_zero(error.0.get(error::MESSAGE)?)?,
                time_us: error.word(error::TIME)?.checked_mul(1_000_000)?,
            }),
        })
    }
}

/// Returns the clock by which the server notes since when a worker is idle, in microseconds.
fn monotonic_us() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills a local.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    (now.tv_sec * 1_000_000 + now.tv_nsec / 1000).cast_unsigned()
}

static LAYOUT: OnceLock<Result<ReplicaLayout, LayoutError>> = OnceLock::new();

/// Finds the layout. Must run before the first connection.
pub(crate) fn select(series: Series) -> Result<(), &'static LayoutError> {
    LAYOUT.get_or_init(|| ReplicaLayout::prove(series)).as_ref().map(|_| ())
}

fn seen<T: PartialEq>(look: impl Fn(&ReplicaLayout) -> Option<Vec<T>>) -> Option<Vec<T>> {
    let Some(Ok(layout)) = LAYOUT.get() else { return Some(Vec::new()) };
    let first = look(layout)?;
    (look(layout)? == first).then_some(first)
}

/// Reads the connections to primaries; `None` if they changed meanwhile.
pub(crate) fn replicas() -> Option<Vec<Replica>> {
    seen(ReplicaLayout::replicas)
}

/// Reads the workers that apply in parallel; `None` if they changed meanwhile.
pub(crate) fn workers() -> Option<Vec<ReplicaWorker>> {
    let now = monotonic_us();
    let with_the_present = |(worker, since): (ReplicaWorker, u64)| {
        let lapsed = if since == 0 { 0 } else { now.saturating_sub(since) / 1_000_000 };
        ReplicaWorker { idle_s: worker.idle_s + lapsed, ..worker }
    };
    Some(seen(ReplicaLayout::workers)?.into_iter().map(with_the_present).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first words of the classes' objects in this test.
    const CLASSES: [u64; 2] = [0x1111, 0x2222];
    const NAME: &[u8] = b"main";

    /// A connection owned by this test, laid out like the server's, with its lock.
    struct OwnReplicas {
        object: Box<[u64; primary::BYTES / 8]>,
        numbers: Box<[u64; 3]>,
        lock: Box<u64>,
    }

    impl OwnReplicas {
        fn new() -> OwnReplicas {
            let mut own =
                OwnReplicas { object: Box::new([0; _]), numbers: Box::new([5, 6, 70]), lock: Box::new(0) };
            let (at, numbers) = (own.at() as u64, own.numbers.as_ptr().addr() as u64);
            for (place, word) in [
                (0, CLASSES[0]),
                (primary::APPLIER, CLASSES[1]),
                (applier::PRIMARY, at),
                (primary::NAME, NAME.as_ptr().addr() as u64),
                (primary::NAME + 8, NAME.len() as u64),
                (primary::IGNORED_SERVERS, numbers),
                (primary::IGNORED_SERVERS + array::ELEMENTS, 3),
                (primary::IGNORED_SERVERS + array::SIZE, 8),
                (primary::DOMAINS[0] + array::SIZE, 8),
                (primary::DOMAINS[1] + array::SIZE, 8),
                (primary::PORT, 3307),
                (applier::SEEN, 1 | 2 << 32),
                (applier::SEEN + 8, 3),
                (applier::ERROR, 1062 | 0x6F64 << 32),
                (applier::ERROR + error::TIME, 100),
            ] {
                own.object[place / 8] = word;
            }
            // "primary" at an offset that is not a multiple of eight.
            own.object[primary::HOST / 8] = u64::from_le_bytes(*b"\0\0\0\0\0\0pr");
            own.object[primary::HOST / 8 + 1] = u64::from_le_bytes(*b"imary\0\0\0");
            own
        }

        fn at(&self) -> usize {
            self.object.as_ptr().addr()
        }

        fn read(&self) -> Option<Option<Replica>> {
            let lock = std::ptr::from_ref(&*self.lock).addr();
            ReplicaLayout { index: 0, lock, pool: 0, retries: lock, classes: CLASSES }.replica(self.at())
        }
    }

    #[test]
    fn a_connection_is_read_where_everything_agrees() {
        let replica = OwnReplicas::new().read().expect("one").expect("with a primary");
        assert_eq!((replica.name.as_str(), replica.host.as_str(), replica.port), ("main", "primary", 3307));
        assert_eq!((replica.ignored_servers, replica.domains), (vec![5, 6, 70], vec![]));
        assert_eq!(replica.applier.seen, "1-2-3");
        let error = ReplicaError { number: 1062, message: "do".to_owned(), time_us: 100_000_000 };
        assert_eq!((replica.applier.error, replica.applier.handle), (Some(error), 0));
        let mut nobodys = OwnReplicas::new();
        nobodys.object[primary::HOST / 8] = 0;
        assert_eq!(nobodys.read(), Some(None), "it names no primary");
        nobodys.object[applier::PRIMARY / 8] = 0;
        assert_eq!(nobodys.read(), Some(None), "nor did it ever");
        nobodys.object[applier::PRIMARY / 8] = 8;
        assert_eq!(nobodys.read(), None);
    }

    #[test]
    fn what_is_no_connection_or_changes_is_not_read() {
        for (place, word) in [
            (0, CLASSES[1]),
            (primary::APPLIER, 0),
            (applier::PRIMARY, 1),
            (applier::PRIMARY, 0),
            (primary::DOMAINS[1] + array::SIZE, 4),
            (primary::NAME, 16),
            (primary::NAME + 8, 1 << 40),
            (primary::IGNORED_SERVERS + array::ELEMENTS, u64::MAX),
            (primary::RUN_LOCK, 1),
            (primary::ERROR_LOCK, 1),
            (applier::RUN_LOCK, 1),
            (applier::ERROR_LOCK, 1),
        ] {
            let mut own = OwnReplicas::new();
            own.object[place / 8] = word;
            assert_eq!(own.read(), None, "{place}");
        }
    }

    #[test]
    fn other_series_are_not_looked_at() {
        assert_eq!(ReplicaLayout::prove(Series::V11_4).err(), Some(LayoutError::Series));
        assert_eq!(
            ReplicaLayout::prove(Series::V10_11).err(),
            Some(LayoutError::NoSymbol("master_info_index"))
        );
    }
}
