//! The endpoint: a thread that accepts connections, a thread per connection, and an orderly stop.
//!
//! There is a thread per connection instead of an event loop because tables hand their rows to a callback: a
//! slow client blocks only its own thread inside its own scan. An idle thread waits in `read` and costs a few
//! touched pages of stack. The number of threads is bounded.

mod connection;
mod error;
mod socket;

use std::collections::HashMap;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tare_engine::Engine;
use tare_tables::Table;

pub use self::error::EndpointError;
use self::socket::{EndpointSocket, UNBORN};
use crate::answer::{ServedData, Sizes, Traffic};
use crate::failure::ErrorPacket;
use crate::peer::{Peer, peer};
use crate::protocol::packet::PacketWriter;
use crate::protocol::reply;
use crate::sql::catalog::NameInside;

/// The pause in accepting after the process runs out of descriptors or memory.
const ACCEPT_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// The longest that [`Endpoint::stop`] waits for busy connections.
const STOP_BOUND: Duration = Duration::from_secs(2);

/// Name of the thread that accepts connections. A panic in it reaches [`EndpointConfig::spawn`]'s thread
/// after the socket is gone.
pub const LISTENER: &str = "tare-listen";

/// A function that starts a named thread, which runs `work` with all signals blocked, because signals belong
/// to the host.
pub type Spawn = fn(name: &str, work: Box<dyn FnOnce() + Send>) -> io::Result<()>;

/// The configuration of an endpoint.
#[derive(Clone)]
pub struct EndpointConfig {
    /// The path to listen at. At least [`EndpointConfig::SPARE_PATH`] bytes shorter than the longest path of
    /// a Unix socket.
    pub socket_path: PathBuf,
    /// The tables to serve.
    pub tables: &'static [&'static dyn Table],
    /// The engine that holds the rows.
    pub engine: &'static Engine,
    /// The version that the greeting reports, such as `10.11.19-MariaDB-tare`.
    pub server_version: String,
    /// Translates the table names used by connections from this process and from other servers. Such a
    /// connection belongs to a session, and any session may have been told to connect here: it must know a
    /// name that only the tables' own files contain. `None` treats these connections like all others.
    pub name_inside: Option<NameInside>,
    /// Starts a thread. A stack of 256 KiB is enough.
    pub spawn: Spawn,
    /// The most connections at a time; one more is refused with "Too many connections". With
    /// [`EndpointConfig::name_inside`], sessions of servers leave [`EndpointConfig::KEPT_OUTSIDE`] of them
    /// free.
    pub max_connections: usize,
    /// The longest a client may take to finish a packet it began, or to read its answer, before it is
    /// disconnected.
    pub stall_limit: Duration,
}

impl EndpointConfig {
    /// The default of [`EndpointConfig::max_connections`].
    pub const MAX_CONNECTIONS: usize = 256;
    /// The connections reserved for clients other than servers' sessions. FEDERATED keeps idle connections
    /// indefinitely, and a client outside the server must still find a place.
    pub const KEPT_OUTSIDE: usize = 16;
    /// The bytes by which the name the socket is created under is longer than
    /// [`EndpointConfig::socket_path`].
    pub const SPARE_PATH: usize = UNBORN.len();
    /// The default of [`EndpointConfig::stall_limit`].
    pub const STALL_LIMIT: Duration = Duration::from_secs(30);
}

/// A running endpoint. Dropping it stops it.
#[derive(Debug)]
pub struct Endpoint {
    shared: Arc<EndpointState>,
    /// Wakes the accepting thread when it is closed.
    wake: Option<UnixStream>,
    socket: Arc<EndpointSocket>,
}

impl Endpoint {
    /// Listens at the configured path and serves.
    ///
    /// # Errors
    ///
    /// When the socket belongs to another server or cannot be created, or when no thread can be started.
    /// Nothing is left behind then.
    pub fn start(config: EndpointConfig) -> Result<Endpoint, EndpointError> {
        let socket = Arc::new(EndpointSocket::listen(&config.socket_path)?);
        let (wake, woken) = UnixStream::pair().map_err(EndpointError::Thread)?;
        let shared = Arc::new(EndpointState::new(&config));
        let (theirs, listening) = (Arc::clone(&shared), Arc::clone(&socket));
        shared.enter_thread();
        let accept = Box::new(move || {
            let accepting = || accept_all(&theirs, &listening.listener, &woken);
            let ended = catch_unwind(AssertUnwindSafe(accepting));
            if ended.is_err() {
                // Nobody accepts any more. No socket is better than one that hangs.
                listening.unlink();
            }
            drop(listening);
            theirs.leave_thread();
            // The host says what has stopped.
            ended.unwrap_or_else(|panic| resume_unwind(panic));
        });
        if let Err(error) = (config.spawn)(LISTENER, accept) {
            return Err(EndpointError::Thread(error));
        }
        Ok(Endpoint { shared, wake: Some(wake), socket })
    }

    /// Returns the number of open connections.
    pub fn connections(&self) -> usize {
        self.shared.open().len()
    }

    /// Returns how many SELECTs from tables were answered, and the total of their rows.
    pub fn answered(&self) -> (u64, u64) {
        self.shared.source.traffic.answered()
    }

    /// Closes the listener, removes the socket, disconnects all clients, and waits up to two seconds for
    /// their threads. Returns how many threads are still busy; they end when their scan hands out its next
    /// row.
    pub fn stop(&mut self) -> usize {
        self.shared.source.stopping.store(true, Ordering::SeqCst);
        self.socket.unlink();
        drop(self.wake.take());
        for open in self.shared.open().values() {
            let _ = open.stream.shutdown(std::net::Shutdown::Both);
        }
        self.shared.wait_for_threads(STOP_BOUND)
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.stop();
    }
}

/// An open connection.
struct OpenConnection {
    stream: Arc<UnixStream>,
    peer: Peer,
}

/// The state shared by all threads of an endpoint.
struct EndpointState {
    source: ServedData,
    stall_limit: Duration,
    spawn: Spawn,
    /// The open connections by id, for [`Endpoint::stop`] to shut down.
    open: Mutex<HashMap<u32, OpenConnection>>,
    threads: Mutex<usize>,
    thread_left: Condvar,
}

impl std::fmt::Debug for EndpointState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("open", &self.open().len()).finish_non_exhaustive()
    }
}

/// Locks a mutex, ignoring poison. Nothing panics while holding these locks, and their maps and counts are
/// never left half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl EndpointState {
    fn new(config: &EndpointConfig) -> Self {
        EndpointState {
            source: ServedData {
                tables: config.tables,
                engine: config.engine,
                server_version: config.server_version.clone(),
                name_inside: config.name_inside,
                max_connections: config.max_connections,
                stopping: AtomicBool::new(false),
                traffic: Traffic::default(),
                sizes: Sizes::default(),
            },
            stall_limit: config.stall_limit,
            spawn: config.spawn,
            open: Mutex::new(HashMap::new()),
            threads: Mutex::new(0),
            thread_left: Condvar::new(),
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u32, OpenConnection>> {
        lock(&self.open)
    }

    /// Returns whether one more connection of such a peer is allowed.
    fn has_place(&self, open: &HashMap<u32, OpenConnection>, peer: Peer) -> bool {
        let most = self.source.max_connections;
        let is_bounded = peer == Peer::Inside && self.source.name_inside.is_some();
        let inside = || open.values().filter(|open| open.peer == Peer::Inside).count();
        open.len() < most && (!is_bounded || inside() < most.saturating_sub(EndpointConfig::KEPT_OUTSIDE))
    }

    fn enter_thread(&self) {
        *lock(&self.threads) += 1;
    }

    fn leave_thread(&self) {
        *lock(&self.threads) -= 1;
        self.thread_left.notify_all();
    }

    fn wait_for_threads(&self, bound: Duration) -> usize {
        let end = Instant::now() + bound;
        let mut threads = lock(&self.threads);
        while *threads > 0 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.thread_left.wait_timeout(threads, left);
            threads = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *threads
    }
}

/// Accepts connections until the other end of `woken` is closed.
fn accept_all(shared: &Arc<EndpointState>, listener: &UnixListener, woken: &UnixStream) {
    let mut next_id = 1;
    loop {
        let mut waited_for = [PollFd::new(listener, PollFlags::IN), PollFd::new(woken, PollFlags::IN)];
        match poll(&mut waited_for, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
        if !waited_for[1].revents().is_empty() {
            return;
        }
        match listener.accept() {
            Ok((stream, _)) => {
                admit(shared, stream, next_id);
                next_id = next_id.wrapping_add(1).max(1);
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {
                }
                _ => {
                    // The connection stays in the listen backlog, so polling the listener would return at
                    // once.
                    let _ = poll(&mut [PollFd::new(woken, PollFlags::IN)], Some(&ACCEPT_PAUSE));
                }
            },
        }
    }
}

/// Starts the thread of a connection, or refuses it with the reason.
fn admit(shared: &Arc<EndpointState>, stream: UnixStream, id: u32) {
    let Some(peer) = peer(&stream) else { return refuse(&stream, &ErrorPacket::not_a_peer()) };
    let stream = Arc::new(stream);
    let Some(place) = ConnectionGuard::take(shared, &stream, id, peer) else {
        if !shared.source.is_stopping() {
            refuse(&stream, &ErrorPacket::too_many_connections());
        }
        return;
    };
    let serve = Box::new(move || {
        // The panic hook has reported the panic; here it ends one connection.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let ConnectionGuard { shared, stream, .. } = &place;
            connection::serve(&shared.source, shared.stall_limit, stream, id, peer);
        }));
    });
    if (shared.spawn)(&format!("tare-conn-{id}"), serve).is_err() {
        refuse(&stream, &ErrorPacket::no_thread());
    }
}

/// One connection's place in [`EndpointState::open`]; dropping it gives the place back, even if its thread
/// did not start. The stream closes with its last reference.
struct ConnectionGuard {
    shared: Arc<EndpointState>,
    stream: Arc<UnixStream>,
    id: u32,
}

impl ConnectionGuard {
    /// Claims a place; returns `None` if none is free for such a peer or the endpoint is stopping.
    fn take(
        shared: &Arc<EndpointState>,
        stream: &Arc<UnixStream>,
        id: u32,
        peer: Peer,
    ) -> Option<ConnectionGuard> {
        {
            let mut open = shared.open();
            // `stop` shuts down the connections it finds in the map and would miss this one.
            if shared.source.is_stopping() || !shared.has_place(&open, peer) {
                return None;
            }
            open.insert(id, OpenConnection { stream: Arc::clone(stream), peer });
        }
        shared.enter_thread();
        Some(ConnectionGuard { shared: Arc::clone(shared), stream: Arc::clone(stream), id })
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.shared.open().remove(&self.id);
        self.shared.leave_thread();
    }
}

/// Sends an error without waiting: it fits into the buffer of a fresh socket.
fn refuse(stream: &UnixStream, failure: &ErrorPacket) {
    if stream.set_nonblocking(true).is_ok() {
        let mut writer = PacketWriter::new(stream);
        let _ = writer.packet(&reply::error(failure)).and_then(|()| writer.flush());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static ENGINE: Engine = Engine::new();

    fn shared(name_inside: Option<NameInside>) -> Arc<EndpointState> {
        Arc::new(EndpointState::new(&EndpointConfig {
            socket_path: PathBuf::new(),
            tables: &[],
            engine: &ENGINE,
            server_version: String::new(),
            name_inside,
            spawn: |_, _| Ok(()),
            max_connections: EndpointConfig::KEPT_OUTSIDE + 2,
            stall_limit: EndpointConfig::STALL_LIMIT,
        }))
    }

    /// Claims a place for each of these peers and returns those claimed.
    fn taken(shared: &Arc<EndpointState>, peers: usize, peer: Peer) -> Vec<ConnectionGuard> {
        let first = shared.open().keys().max().map_or(1, |id| id + 1);
        let take = |id| {
            let (stream, _far_end) = UnixStream::pair().unwrap();
            ConnectionGuard::take(shared, &Arc::new(stream), id, peer)
        };
        (first..).take(peers).filter_map(take).collect()
    }

    #[test]
    fn sessions_leave_places_to_others() {
        let shared = shared(Some(|_| None));
        let inside = taken(&shared, EndpointConfig::KEPT_OUTSIDE + 2, Peer::Inside);
        assert_eq!(inside.len(), 2, "the others' are kept");
        let outside = taken(&shared, EndpointConfig::KEPT_OUTSIDE + 1, Peer::Outside);
        assert_eq!(outside.len(), EndpointConfig::KEPT_OUTSIDE);
        drop(inside);
        assert_eq!(taken(&shared, 3, Peer::Outside).len(), 2, "others may have all");
        assert_eq!(taken(&shared, 3, Peer::Inside).len(), 2, "a place that was given back");
        drop(outside);
        assert_eq!((shared.open().len(), *lock(&shared.threads)), (0, 0));
    }

    #[test]
    fn where_sessions_are_as_good_as_others_they_may_have_all_places() {
        let shared = shared(None);
        let most = EndpointConfig::KEPT_OUTSIDE + 2;
        assert_eq!(taken(&shared, most + 1, Peer::Inside).len(), most);
    }
}
