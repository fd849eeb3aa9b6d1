//! The way from the loader to the provider: decides whether this process is a server that tare can serve, and
//! disables tare in everything else.
//!
//! The constructor runs before the server's `main`. It recognizes the server, keeps tare out of child
//! processes, reads the options and sets the server's hook. The server reads its own options and then asks
//! the hook for a provider (`answer`), unless its built-in one is on.

mod constructor;
mod environment;
pub mod program;
mod provider;

use std::ffi::{OsStr, OsString, c_int, c_void};

use crate::abi::{INTERFACE_VERSION, Series};
pub use crate::host::running::server_is_up;
use crate::settings::ServerSettings;
use crate::status::{self, ProviderState};
pub use crate::status::{DisableReason, StartPlan};
use program::ServerSymbols;
use tare_host::options::{OptionFiles, Options};
use tare_host::process::log::{self, Severity};
use tare_host::process::panic::caught;

/// Decides whether to serve `server`, started with `arguments` (the program's name first).
fn plan(server: &ServerSymbols, arguments: &[OsString]) -> Result<StartPlan, DisableReason> {
    let version = server.version();
    status::set_server(version.clone(), version.as_deref().and_then(Series::of));
    let files = OptionFiles::of_server(arguments);
    let groups = server.option_groups();
    let settings = ServerSettings::resolve(arguments, &files, &groups);
    if settings.logs_to_file {
        log::expect_file();
    }
    let plan = decide(version, &settings, &files, std::env::var_os(Options::ENVIRONMENT).as_deref())?;
    for file in files.left() {
        let text = format!("leaves {} to the server: it is no regular file", file.display());
        log::line(Severity::Note, &text);
    }
    Ok(plan)
}

/// Decides whether to serve a server of this version and with these settings. `environment` is its value of
/// [`Options::ENVIRONMENT`]. Also works before a start, to predict the decision.
///
/// # Errors
///
/// The reason not to serve.
pub fn decide(
    version: Option<String>,
    settings: &ServerSettings,
    files: &OptionFiles,
    environment: Option<&OsStr>,
) -> Result<StartPlan, DisableReason> {
    if let Some(option) = settings.ends_early {
        return Err(DisableReason::NotServing { option });
    }
    let version = version.ok_or(DisableReason::NoVersion)?;
    let Some(series) = Series::of(&version) else { return Err(DisableReason::UnknownVersion { version }) };
    if settings.bootstrap {
        return Err(DisableReason::Bootstrap);
    }
    if let Some(origin) = settings.performance_schema.clone() {
        return Err(DisableReason::BuiltIn { origin });
    }
    let options = Options::read(&settings.built_in, files, environment)?;
    if !options.enabled {
        return Err(DisableReason::SwitchedOff);
    }
    Ok(StartPlan { series, options })
}

/// Returns the function table when the server asks for its provider, or null to run without one.
fn answer(version: c_int) -> *const c_void {
    let Some(plan) = status::plan() else { return std::ptr::null() };
    let started = caught(|| {
        if version != INTERFACE_VERSION {
            return Err(DisableReason::InterfaceVersion(version));
        }
        provider::start(plan.series, &plan.options)
    })
    .unwrap_or_else(|why| Err(DisableReason::Panic(why)));
    match started {
        Ok(table) => {
            status::set_state(ProviderState::Active);
            for error in &plan.options.ignored {
                log::line(Severity::Warning, &format!("leaves out a rule of the server's: {error}"));
            }
            log::line(
                Severity::Note,
                &format!("{} serves MariaDB {}", status::TareStatus::TARE_VERSION, plan.series.name()),
            );
            table
        }
        Err(reason) => {
            disable(reason);
            std::ptr::null()
        }
    }
}

/// Notes in the status and in the error log why tare does nothing.
fn disable(reason: DisableReason) {
    if reason.serves() {
        log::line(reason.level(), &format!("disables itself, the server runs without it: {reason}"));
    }
    status::set_state(ProviderState::Disabled(reason));
}
