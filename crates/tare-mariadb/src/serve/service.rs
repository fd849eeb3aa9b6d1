//! Starts and stops serving the tables: the endpoint, and the files through which the server finds the
//! tables.
//!
//! [`begin`] runs when the server is about to accept sessions; [`service`] ends it when the process exits. In
//! between, FEDERATED's connections arrive through [`crate::interpose::redirect`].

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use tare_host::governor::levels;
use tare_host::process::log::{Severity, line};
use tare_host::process::panic::caught;
use tare_host::process::{ENGINE, data_directory, failure, spawn_guarded};
use tare_host::{active, governor, sampling, service};
use tare_tables::{StatusRow, Table};
use tare_wire::Endpoint;

use super::{error_hook, error_log, variables};
use crate::entry::ServerHost;
use crate::install::{self, InstallError, federated};
use crate::interpose::folder::{self, FolderError, STORAGE_ENGINE_LOADED};
use crate::interpose::redirect;
use crate::jumps::{conditions, preparation};
use crate::status;

static BEGUN: AtomicBool = AtomicBool::new(false);
/// The names by which the server's sessions may ask for tables; set before the endpoint listens.
static NAMES: OnceLock<install::SecretNames> = OnceLock::new();
/// Whether the tables' files are shown to the server and, if not, why.
static SHOWN: OnceLock<Result<(), ShowHindrance>> = OnceLock::new();

/// The reason the server does not show the tables to its sessions. Each text says what to do.
#[derive(Debug, thiserror::Error)]
enum ShowHindrance {
    #[error("switched off by its option tables=OFF")]
    SwitchedOff,
    #[error("{0}")]
    Files(#[from] InstallError),
    #[error("{0}")]
    Folder(#[from] FolderError),
    #[error(
        "the data directory has no folder performance_schema, so that is no database to the server, and only who names a \
         table in full finds it: CREATE DATABASE performance_schema, and restart"
    )]
    NoFolder,
    #[error(
        "the plugin ha_federatedx is not loaded: put `plugin-load-add = ha_federatedx` into the option file and restart, or \
         INSTALL SONAME 'ha_federatedx' and FLUSH TABLES"
    )]
    NoStorageEngine,
}

/// Starts the endpoint and shows the tables to the server; only the first call does anything. Never fails the
/// server: if the tables cannot be served, one line of the error log says why.
pub(crate) fn begin() {
    if BEGUN.swap(true, Ordering::AcqRel) {
        return;
    }
    match caught(serve) {
        Ok(Ok(endpoint)) => {
            service::keep(endpoint);
            let watch = || {
                // The server sets this variable itself until it is up.
                while !error_hook::server_is_up() {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
                error_hook::install(current_account, views());
            };
            let loss = "errors of the tables have FEDERATED's numbers and texts";
            let _only_error_numbers_suffer = spawn_guarded("tare-start", loss, watch);
        }
        Ok(Err(reason)) => line(Severity::Warning, &format!("the tables are not served: {reason}")),
        Err(why) => line(Severity::Warning, &format!("the tables are not served: internal error: {why}")),
    }
}

fn serve() -> Result<Endpoint, String> {
    let options = status::options().ok_or("no options")?;
    let datadir = data_directory().ok_or("the server does not tell its data directory")?;
    let socket = service::socket_path(options, &datadir)?;
    tare_tables::set_status_source(status_rows);
    tare_tables::log::set_error_log_source(error_log::rows);
    governor::begin(options, &ServerHost);
    if let Err(error) = sampling::begin(options) {
        line(
            Severity::Warning,
            &format!("no thread for the rate of samples: {error}; every statement is recorded"),
        );
    }
    if let Err(error) = active::begin(options, || {}) {
        line(Severity::Warning, &format!("there is no active session history: {error}"));
    }
    let files = if options.tables {
        files(options.shape.tables(), &datadir)
    } else {
        Err(ShowHindrance::SwitchedOff)
    };
    let version = status::current().server_version.unwrap_or_default();
    let name_inside = |name: &str| NAMES.get()?.table(name).map(str::to_owned);
    let endpoint = service::start(&socket, options.shape.served(), &version, Some(name_inside))?;
    redirect::lead_to(&socket).map_err(|error| error.to_string())?;
    let _set_once = SHOWN.set(files.and_then(|files| Ok(folder::show(files)?)));
    match hindrance(&datadir) {
        Some(ShowHindrance::SwitchedOff) => {}
        Some(reason) => line(
            Severity::Warning,
            &format!(
                "the server's SQL does not show the tables, and @@performance_schema stays OFF: {reason}. `tare \
                 status` shows what there is, and the socket {} answers root and the server's own account",
                socket.display()
            ),
        ),
        None if options.server_variables => {
            if let Err(reason) = variables::speak_of_tare(options) {
                line(Severity::Warning, &format!("@@performance_schema stays OFF: {reason}"));
            }
        }
        None => {}
    }
    Ok(endpoint)
}

/// Returns the names of the tables that are views.
fn views() -> Vec<&'static str> {
    let tables = status::options().map_or(&[][..], |options| options.shape.tables());
    tables.iter().filter(|table| table.body().is_some()).map(|table| table.name()).collect()
}

/// Returns the files of the tables, except tables whose place is taken by a foreign file. Also sets
/// [`NAMES`].
fn files(tables: &[&dyn Table], datadir: &Path) -> Result<Vec<(String, Vec<u8>)>, ShowHindrance> {
    let (files, names) = install::files(tables, federated::ENDPOINT)?;
    let _set_once = NAMES.set(names);
    let is_free = |file: &install::TableFile| {
        let foreign = matches!(install::foreign(datadir, file.table), Ok(true));
        if foreign {
            let text = format!("performance_schema.{} is somebody else's file, left alone", file.table);
            line(Severity::Warning, &text);
        }
        !foreign
    };
    Ok(files.into_iter().filter(is_free).map(|file| (file.name(), file.content)).collect())
}

/// Returns why the server does not show the tables to its sessions now; `None` if it does.
fn hindrance(datadir: &Path) -> Option<&'static ShowHindrance> {
    match SHOWN.get()? {
        Err(reason) => Some(reason),
        Ok(()) if !datadir.join(federated::SCHEMA).is_dir() => Some(&ShowHindrance::NoFolder),
        Ok(()) if !STORAGE_ENGINE_LOADED.load(Ordering::Relaxed) => Some(&ShowHindrance::NoStorageEngine),
        Ok(()) => None,
    }
}

/// Writes the account of the session that runs on this thread; returns false if it has none.
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

/// Returns the rows of `tare_status` that the adapter knows: the server, tare's state and options, sampling,
/// the active session history, the budget, the endpoint. The crate `tare-tables` adds those of the engine.
fn status_rows() -> Vec<StatusRow> {
    let status = status::current();
    let mut rows: Vec<(&str, String)> = vec![
        ("server_version", status.server_version.unwrap_or_default()),
        ("abi", status.series.map_or("unknown", crate::abi::Series::name).to_owned()),
        ("state", failure().map_or("active".to_owned(), |why| format!("off: {why}"))),
        ("stopped", service::stopped_threads()),
        ("pid", std::process::id().to_string()),
    ];
    if let Some(options) = status::options() {
        let socket = data_directory().and_then(|datadir| service::socket_path(options, &datadir).ok());
        rows.push(("socket", socket.map(|path| path.display().to_string()).unwrap_or_default()));
        for (name, on) in
            [("monitoring", options.monitoring), ("synch_waits_by_instance", options.synch_waits_by_instance)]
        {
            rows.push((name, if on { "ON" } else { "OFF" }.to_owned()));
        }
        let prepared_digests = match preparation::hindrance() {
            None => "OFF".to_owned(),
            Some(None) => "ON".to_owned(),
            Some(Some(reason)) => format!("OFF: {reason}"),
        };
        rows.push(("prepared_digests", prepared_digests));
        rows.push((levels::ROW, levels::shown(options)));
        rows.extend(sampling::status_rows());
        rows.extend(active::status_rows());
        let hindrance = data_directory().and_then(|datadir| hindrance(&datadir));
        let tables = match hindrance {
            None if folder::failed() > 0 => format!(
                "ON, but {} times there was no descriptor left to open one: FLUSH TABLES, or the server goes on showing its \
                 own, empty table",
                folder::failed()
            ),
            None => "ON".to_owned(),
            Some(ShowHindrance::SwitchedOff) => "OFF".to_owned(),
            Some(reason) => format!("OFF: {reason}"),
        };
        rows.push(("tables", tables));
        let variables = match variables::outcome() {
            None if options.tables && options.server_variables => {
                "OFF: the tables could not be read through the server when it started".to_owned()
            }
            None => "OFF".to_owned(),
            Some(Ok(())) => "ON".to_owned(),
            Some(Err(reason)) => format!("OFF: {reason}"),
        };
        rows.push(("server_variables", variables));
        if let Some(hindrance) = conditions::hindrance() {
            let errors = hindrance.map_or("ON".to_owned(), |reason| format!("OFF: {reason}"));
            rows.push(("errors", errors));
        }
    }
    let known = |(name, value): (&'static str, String)| -> StatusRow { (name.into(), value.into()) };
    let mut rows: Vec<StatusRow> = rows.into_iter().map(known).collect();
    rows.extend(governor::status_rows());
    rows.extend(service::answered().into_iter().map(known));
    rows
}
