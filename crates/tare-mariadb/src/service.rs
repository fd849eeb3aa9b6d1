//! From a running server to its tables: the endpoint, the files that lead to it, and their end.
//!
//! [`begin`] runs when the server has finished its start-up but for the first connection; [`end`] when the
//! process exits. Between them FEDERATED's connections come in through [`crate::redirect`].
#![allow(unsafe_code)]

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

use tare_wire::{Endpoint, EndpointConfig};

use crate::entry::{self, ENGINE};
use crate::install::{self, federated};
use crate::startup::data_directory;
use crate::startup::error_log::{Level, line};
use crate::{error_hook, redirect, startup, status, variables};

/// What runs between `begin` and `end`.
struct Service {
    endpoint: Endpoint,
    datadir: PathBuf,
    installed: bool,
}

static BEGUN: AtomicBool = AtomicBool::new(false);
static SERVICE: Mutex<Option<Service>> = Mutex::new(None);
/// The names by which the server's sessions may ask for tables; set before the endpoint listens.
static NAMES: OnceLock<install::Names> = OnceLock::new();

/// Starts the endpoint and installs the tables; once, whoever calls. Never fails the server: what can't be
/// served is said in one line of the error log.
pub(crate) fn begin() {
    if BEGUN.swap(true, Ordering::AcqRel) {
        return;
    }
    let begun = catch_unwind(AssertUnwindSafe(serve));
    match begun {
        Ok(Ok(service)) => {
            *SERVICE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(service);
            // SAFETY: `at_exit` is a plain function of this library, which is never unloaded.
            unsafe { libc::atexit(at_exit) };
            let watch = Box::new(|| {
                // The server writes this variable itself until it is up.
                while !error_hook::server_is_up() {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
                error_hook::install(current_account);
            });
            let _only_error_numbers_suffer = spawn("tare-start", watch);
        }
        Ok(Err(reason)) => line(Level::Warning, &format!("the tables are not served: {reason}")),
        Err(_) => line(Level::Warning, "the tables are not served: internal error"),
    }
}

fn serve() -> Result<Service, String> {
    let options = startup::options().ok_or("no options")?;
    let datadir = data_directory().ok_or("the server does not tell its data directory")?;
    let socket = options.socket.clone().unwrap_or_else(|| datadir.join("tare.sock"));
    redirect::check_socket_path(&socket)
        .map_err(|error| format!("{error}; set `socket` in [tare] to a shorter path"))?;
    tare_tables::set_status_source(status_rows);
    let names = NAMES.get_or_init(|| install::Names::new(datadir.clone()));
    let version = status::current().server_version.unwrap_or_default();
    let config = EndpointConfig {
        socket_path: socket.clone(),
        tables: options.shape.served(),
        engine: &ENGINE,
        server_version: format!("{version}-tare"),
        name_inside: Some(|name| NAMES.get()?.table(name)),
        spawn,
        max_connections: EndpointConfig::MAX_CONNECTIONS,
        stall_limit: EndpointConfig::STALL_LIMIT,
    };
    let endpoint = Endpoint::start(config).map_err(|error| error.to_string())?;
    redirect::lead_to(&socket).map_err(|error| error.to_string())?;
    let mut service = Service { endpoint, datadir, installed: false };
    if options.tables {
        match install::install(&service.datadir, options.shape.tables(), federated::ENDPOINT) {
            Ok(report) => {
                service.installed = true;
                let _read_when_asked_for_instead = names.learn();
                for table in report.foreign {
                    let text = format!("performance_schema.{table} is somebody else's file, left alone");
                    line(Level::Warning, &text);
                }
            }
            Err(error) => line(Level::Warning, &format!("the tables are not installed: {error}")),
        }
    }
    if service.installed
        && options.server_variables
        && let Err(reason) = variables::speak_of_tare(options)
    {
        line(Level::Warning, &format!("@@performance_schema stays OFF: {reason}"));
    }
    Ok(service)
}

/// A clean exit leaves no trace in the data directory.
extern "C" fn at_exit() {
    let _ = catch_unwind(|| {
        let service = SERVICE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        let Some(mut service) = service else { return };
        if service.installed
            && let Err(error) = install::remove(&service.datadir)
        {
            line(Level::Warning, &format!("the tables are not removed: {error}"));
        }
        service.endpoint.stop();
    });
}

/// Starts a thread of the endpoint: its signals are the server's to handle.
fn spawn(name: &str, work: Box<dyn FnOnce() + Send>) -> std::io::Result<()> {
    /// Blocks every signal for the calling thread; the old mask comes back when it is dropped.
    struct Blocked(libc::sigset_t);
    impl Blocked {
        fn all() -> Blocked {
            // SAFETY: sigset_t is plain integers, for which zero is valid; the calls fill and read it.
            unsafe {
                let mut all: libc::sigset_t = std::mem::zeroed();
                let mut old: libc::sigset_t = std::mem::zeroed();
                libc::sigfillset(&mut all);
                libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
                Blocked(old)
            }
        }
    }
    impl Drop for Blocked {
        fn drop(&mut self) {
            // SAFETY: the mask was filled by pthread_sigmask.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
        }
    }
    let _blocked = Blocked::all();
    std::thread::Builder::new().name(name.to_owned()).stack_size(256 << 10).spawn(work).map(drop)
}

/// The account of the session that runs on this thread.
fn current_account(to: &mut dyn std::io::Write) -> bool {
    let Some(thread) = ENGINE.current_thread() else { return false };
    ENGINE.with_account(thread, |user, host| {
        write!(to, "'").is_ok()
            && to.write_all(user).is_ok()
            && write!(to, "'@'").is_ok()
            && to.write_all(host).is_ok()
            && write!(to, "'").is_ok()
    })
}

/// What `tare_status` shows of the host.
fn status_rows() -> Vec<(Cow<'static, str>, String)> {
    let status = status::current();
    let mut rows: Vec<(Cow<'static, str>, String)> = vec![
        ("server_version".into(), status.server_version.unwrap_or_default()),
        ("abi".into(), status.series.map_or("unknown", crate::abi::Series::name).to_owned()),
        ("state".into(), entry::failure().map_or("active".to_owned(), |why| format!("off: {why}"))),
        ("pid".into(), std::process::id().to_string()),
    ];
    if let Some(options) = startup::options() {
        let socket = options.socket.clone().or_else(|| Some(data_directory()?.join("tare.sock")));
        rows.push(("socket".into(), socket.map(|path| path.display().to_string()).unwrap_or_default()));
        for (name, on) in [
            ("tables", options.tables),
            ("monitoring", options.monitoring),
            ("synch_waits_by_instance", options.synch_waits_by_instance),
        ] {
            rows.push((name.into(), if on { "ON" } else { "OFF" }.to_owned()));
        }
        let variables = match variables::outcome() {
            None => "OFF".to_owned(),
            Some(Ok(())) => "ON".to_owned(),
            Some(Err(reason)) => format!("OFF: {reason}"),
        };
        rows.push(("server_variables".into(), variables));
    }
    // Nobody keeps the lock.
    let service = SERVICE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some((selects, sent)) = service.as_ref().map(|service| service.endpoint.answered()) {
        rows.push(("endpoint_selects".into(), selects.to_string()));
        rows.push(("endpoint_rows".into(), sent.to_string()));
    }
    rows
}
