//! The endpoint in its server's process: where it listens, what ends with it, and rows of `tare_status` about
//! it.
#![allow(unsafe_code)]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use tare_tables::Table;
use tare_wire::{Endpoint, EndpointConfig, LISTENER, NameInside};

use crate::options::Options;
use crate::process::panic::caught;
use crate::process::{ENGINE, Stopped, spawn, spawn_guarded, stopped};
use crate::socket::check_socket_path;
use crate::{active, governor, sampling};

/// The endpoint; it runs until the process exits.
static SERVICE: Mutex<Option<Endpoint>> = Mutex::new(None);
/// The process in which [`keep`] ran.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Returns the path of the socket: the option's, or `tare.sock` in the data directory.
///
/// # Errors
///
/// When no socket can have it; the text says what to do.
pub fn socket_path(options: &Options, datadir: &Path) -> Result<PathBuf, String> {
    let socket = options.socket.clone().unwrap_or_else(|| datadir.join("tare.sock"));
    check_socket_path(&socket)
        .map_err(|error| format!("{error}; set `socket` in [tare] to a shorter path"))?;
    Ok(socket)
}

/// Starts the endpoint. `version` is the server's, and `name_inside` is that of [`EndpointConfig`].
///
/// # Errors
///
/// When it cannot listen there.
pub fn start(
    socket: &Path,
    tables: &'static [&'static dyn Table],
    version: &str,
    name_inside: Option<NameInside>,
) -> Result<Endpoint, String> {
    let config = EndpointConfig {
        socket_path: socket.to_owned(),
        tables,
        engine: &ENGINE,
        server_version: format!("{version}-tare"),
        name_inside,
        spawn: spawn_for_endpoint,
        max_connections: EndpointConfig::MAX_CONNECTIONS,
        stall_limit: EndpointConfig::STALL_LIMIT,
    };
    Endpoint::start(config).map_err(|error| error.to_string())
}

/// Keeps the endpoint until the process exits. Then it and the threads of this crate end. Call it once.
pub fn keep(endpoint: Endpoint) {
    *SERVICE.lock().unwrap_or_else(PoisonError::into_inner) = Some(endpoint);
    OWNER.store(std::process::id(), Ordering::Relaxed);
    // SAFETY: `at_exit` is a plain function of this library, which is never unloaded.
    unsafe { libc::atexit(at_exit) };
}

/// Starts a thread of the endpoint. A connection's thread catches its own panics, which end that connection
/// only.
fn spawn_for_endpoint(name: &str, work: Box<dyn FnOnce() + Send>) -> std::io::Result<()> {
    if name == LISTENER {
        spawn_guarded(LISTENER, "the endpoint accepts no connection any more", work)
    } else {
        spawn(name, work)
    }
}

extern "C" fn at_exit() {
    // A forked child has none of the threads, and the socket belongs to its parent.
    if std::process::id() != OWNER.load(Ordering::Relaxed) {
        return;
    }
    let _ = caught(|| {
        let kept = SERVICE.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut endpoint) = kept {
            endpoint.stop();
            governor::end();
        }
        sampling::end();
        active::end();
    });
}

/// Returns the rows of `tare_status` about what the endpoint has answered; none before it is kept.
pub fn answered() -> Vec<(&'static str, String)> {
    // Nobody holds this lock for long.
    let service = SERVICE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((selects, sent)) = service.as_ref().map(Endpoint::answered) else { return vec![] };
    vec![("endpoint_selects", selects.to_string()), ("endpoint_rows", sent.to_string())]
}

/// Returns the row `stopped`: each thread that a panic has ended, with what no longer works and why.
pub fn stopped_threads() -> String {
    let words = |it: Stopped| format!("{}: {} ({})", it.name, it.loss, it.why);
    let threads: Vec<String> = stopped().into_iter().map(words).collect();
    if threads.is_empty() { "none".to_owned() } else { threads.join("; ") }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_child_that_exits_leaves_the_endpoint_to_its_parent() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("tare.sock");
        let endpoint = start(&socket, &[], "", None).unwrap();
        *SERVICE.lock().unwrap() = Some(endpoint);
        OWNER.store(std::process::id(), Ordering::Relaxed);
        // SAFETY: the child runs only the code below and exits.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "a child");
        if child == 0 {
            at_exit();
            // SAFETY: `_exit` takes a number.
            unsafe { libc::_exit(0) };
        }
        // SAFETY: waits for a child of this test and writes nothing.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        UnixStream::connect(&socket).expect("the parent's endpoint answers");
        drop(SERVICE.lock().unwrap().take());
        assert!(!socket.exists());
    }
}
