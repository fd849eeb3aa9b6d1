//! tare's own socket: the tables for which the engine has the truth, for clients without an account.
//!
//! [`start_handle_manager`] stands in front of the server's function of this name, which `mysqld_main` calls
//! once (compared at every start), and begins. In the machine code of 9.7.4 that call comes after the server
//! has become a daemon, has changed its user and its directory, and has started InnoDB and its plugins; it
//! comes before the line `ready for connections` and the first connection. A server that makes its data
//! (`--initialize`) does not get there, nor does one that only checks its options.
#![allow(unsafe_code)]

mod levels;
mod locks;
mod sessions;
mod setup;

use std::sync::OnceLock;

use tare_host::options::Options;
use tare_host::process::log::{Severity, line};
use tare_host::process::panic::caught;
use tare_host::process::{data_directory, failure, guard, server_version};
use tare_host::{active, governor, sampling, service};
use tare_tables::active::HISTORY;
use tare_tables::budget::{DECISIONS, PRICES};
use tare_tables::status::STATUS;
use tare_tables::{StatusRow, Table};
use tare_wire::Endpoint;

use crate::original::Original;
use crate::server::presence::while_there;
use crate::server::{self, ServerHost, threads};
use crate::tables::served;

/// The server's function of the same name.
pub(crate) static START_HANDLE_MANAGER: Original = Original::new();

/// What the endpoint and tare's threads are started with.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The options.
    pub(crate) options: Options,
    /// Whether memory is counted.
    pub(crate) has_memory: bool,
    /// Whether the built-in's sessions can be read.
    pub(crate) has_sessions: bool,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// Sets with what [`start_handle_manager`] will begin.
pub(crate) fn set(settings: Settings) {
    let _set_once = SETTINGS.set(settings);
}

pub(crate) unsafe extern "C" fn start_handle_manager() {
    // SAFETY: the function's own type.
    unsafe { START_HANDLE_MANAGER.function::<unsafe extern "C" fn()>()() };
    guard((), begin);
}

/// Starts tare's threads and the endpoint. Never fails the server: one line of the error log says what does
/// not work, and why.
fn begin() {
    let Some(settings) = SETTINGS.get() else { return };
    match caught(|| serve(settings)).unwrap_or_else(|why| Err(format!("internal error: {why}"))) {
        Ok(endpoint) => service::keep(endpoint),
        Err(reason) => line(Severity::Warning, &format!("the socket answers nobody: {reason}")),
    }
}

fn serve(settings: &'static Settings) -> Result<Endpoint, String> {
    let options = &settings.options;
    tare_tables::set_status_source(status_rows);
    if let Err(error) = sampling::begin(options) {
        let text = format!("no thread for the rate of samples: {error}; the weight stays as it is");
        line(Severity::Warning, &text);
    }
    if let Err(error) = active::begin(options, refresh) {
        line(Severity::Warning, &format!("there is no active session history: {error}"));
    }
    let datadir = data_directory().ok_or("the server does not tell its data directory")?;
    let socket = service::socket_path(options, &datadir)?;
    server::meet_all();
    server::routing::settle();
    governor::begin(options, &ServerHost);
    service::start(&socket, tables(settings), &server_version().unwrap_or_default(), None)
}

/// Prepares a sample of the active session history.
fn refresh() {
    guard(None, || while_there(threads::refresh));
}

/// Returns the tables that the endpoint serves: those of which tare knows what they show.
fn tables(settings: &Settings) -> &'static [&'static dyn Table] {
    static TABLES: OnceLock<Vec<&'static dyn Table>> = OnceLock::new();
    TABLES.get_or_init(|| {
        let own: [&'static dyn Table; 7] =
            [&STATUS, &HISTORY, &setup::Instruments, &setup::Consumers, &levels::Levels, &PRICES, &DECISIONS];
        let of_sessions = sessions::TABLES.into_iter().filter(|_| settings.has_sessions);
        own.into_iter().chain(of_sessions).chain(served::tables_with(settings.has_memory)).collect()
    })
}

/// Returns the rows of `tare_status` that the engine does not know: the server, tare's state, levels,
/// sampling, the active session history, the budget, the endpoint.
fn status_rows() -> Vec<StatusRow> {
    let socket = SETTINGS.get().and_then(|settings| {
        let path = service::socket_path(&settings.options, &data_directory()?).ok()?;
        Some(path.display().to_string())
    });
    let mut rows = vec![
        ("server_version", server_version().unwrap_or_default()),
        ("state", failure().map_or("active".to_owned(), |why| format!("off: {why}"))),
        ("stopped", service::stopped_threads()),
        ("pid", std::process::id().to_string()),
        ("socket", socket.unwrap_or_default()),
    ];
    rows.extend(
        SETTINGS.get().map(|settings| (governor::levels::ROW, governor::levels::shown(&settings.options))),
    );
    rows.extend(sampling::status_rows());
    rows.extend(active::status_rows());
    let known = |(name, value): (&'static str, String)| -> StatusRow { (name.into(), value.into()) };
    let mut rows: Vec<StatusRow> = rows.into_iter().map(known).collect();
    rows.extend(governor::status_rows());
    rows.extend(service::answered().into_iter().map(known));
    rows
}
