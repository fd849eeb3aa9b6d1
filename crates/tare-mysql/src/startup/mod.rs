//! The way from the loader to the server's calls.
//!
//! The constructor leads one function, `initialize_performance_schema`, through a stub: the server calls it
//! once, on its only thread, before the built-in makes anything. The stub checks that everything looks as
//! expected, leads the server's calls here and points the tables' shares at this library. In any doubt it
//! writes one line into the log, and the server runs as if tare were not there.

mod checks;
mod constructor;
mod disable_reason;
mod functions;
mod parts;
mod program;
mod shares;

use std::ffi::{CStr, OsString};

use tare_engine::snapshot::Consumer;
use tare_engine::{Config, Initial, Recording};
use tare_host::options::{EventSizes, LevelSetting, OptionFiles, Options};
use tare_host::process::log::{Form, Severity, line, set_form};
use tare_host::process::panic::caught;
use tare_host::process::{ENGINE, Image};

use crate::entry::{statement, transaction};
use crate::serve::{self, Settings};
use crate::server::ServerHost;
use checks::Program;
use disable_reason::DisableReason;
use functions::{Families, Functions};
use parts::{Part, Parts};
use shares::Shares;

/// Returns what would be missing in a server with this program, each as a sentence. `symbol` returns the
/// address and the size of an exported symbol.
///
/// # Errors
///
/// Why the library would change nothing there, as a sentence.
pub fn losses_in(
    image: Image<'_>,
    symbol: &dyn Fn(&'static CStr) -> Option<(usize, usize)>,
) -> Result<Vec<String>, String> {
    let program = Program::new(image, symbol);
    let layout = checks::layout_of(&program).map_err(|why| why.to_string())?;
    checks::clone_of_set_text(&program).map_err(|why| why.to_string())?;
    Ok(parts::losses(&program, layout))
}

/// Takes the server's waits, unless something is not as expected. `is_on` is called if it is, and tells
/// whether the built-in is on.
fn prepare(is_on: impl FnOnce() -> bool) {
    set_form(Form::MySql);
    match caught(|| begin(is_on)).unwrap_or_else(|why| Err(DisableReason::Panic(why))) {
        Ok(missing) => {
            let has_memory = missing.iter().all(|(part, _)| *part != Part::Memory);
            let counted = if has_memory {
                "statements, transactions and memory"
            } else {
                "statements and transactions"
            };
            let version = env!("CARGO_PKG_VERSION");
            let text = format!(
                "{version} (experimental) counts waits, stages, {counted}; all else is the server's own"
            );
            // The tools take the last line for what tare does.
            parts::tell(&missing);
            line(Severity::Note, &text);
        }
        Err(DisableReason::SwitchedOff) => {}
        Err(reason @ DisableReason::BuiltInOff) => {
            line(Severity::Note, &format!("does nothing: {reason}"));
        }
        Err(reason) => {
            line(Severity::Warning, &format!("does nothing, the server runs without it: {reason}"));
        }
    }
}

/// Checks everything, then changes the server. Returns the parts that are missing, with the reasons.
fn begin(is_on: impl FnOnce() -> bool) -> Result<Vec<(Part, DisableReason)>, DisableReason> {
    let environment = std::env::var_os(Options::ENVIRONMENT);
    let built_in = Default::default();
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let options = Options::read(&built_in, &OptionFiles::of_server(&arguments), environment.as_deref())
        .map_err(|error| DisableReason::Option(error.to_string()))?;
    if !options.enabled {
        return Err(DisableReason::SwitchedOff);
    }
    let Found { parts, missing, shares, functions } = Program::of_process(|program| find(program, is_on))??;
    program::connect()?;
    let config = config(options.clone());
    ENGINE.start(config, &ServerHost).map_err(|error| DisableReason::Memory(error.to_string()))?;
    ENGINE.set_sampling(options.sample_rate(), options.slow_after);
    let [has_memory, has_sessions] = [Part::Memory, Part::Sessions].map(|part| parts.have(part));
    serve::set(Settings { options, has_memory, has_sessions });
    functions.lead()?;
    // From here on nothing fails.
    shares.serve();
    Ok(missing)
}

/// What of a server is to lead here.
struct Found {
    parts: Parts,
    missing: Vec<(Part, DisableReason)>,
    shares: Shares,
    functions: Functions,
}

/// Checks the program and finds everything in it. Nothing of the server is changed.
fn find(program: &Program<'_>, is_on: impl FnOnce() -> bool) -> Result<Found, DisableReason> {
    program::set_layout(checks::layout_of(program)?);
    let [has_numbers, has_xids] = checks::calls_of_setters(program);
    if !has_numbers {
        statement::inlined::set_without_number();
    }
    if !has_xids {
        transaction::inlined::set_without_calls();
    }
    if !is_on() {
        return Err(DisableReason::BuiltInOff);
    }
    let families = Families::find()?;
    families.check_events()?;
    let (parts, missing) = Parts::find(program, &families);
    let shares = Shares::find(parts.have(Part::Memory))?;
    let functions = Functions::find(parts, checks::clone_of_set_text(program)?)?;
    Ok(Found { parts, missing, shares, functions })
}

/// Returns the engine's sizes and levels. The built-in decides which instruments are on.
fn config(options: Options) -> Config {
    let by_type = |sizes: &EventSizes| [sizes.transactions, sizes.statements, sizes.stages, sizes.waits];
    Config {
        memory_max: usize::try_from(options.memory_max).unwrap_or(usize::MAX),
        history_size: by_type(&options.history_size),
        history_long_size: by_type(&options.history_long_size),
        sources: options.source,
        digests_size: options.digests_size,
        parties_size: options.parties_size,
        max_digest_length: options.max_digest_length,
        max_sql_text_length: options.max_sql_text_length,
        max_digest_sample_age: options.max_digest_sample_age,
        extended: true,
        reports_free_locks: true,
        // Until the built-in has read its options.
        consumers: vec![Consumer::GlobalInstrumentation, Consumer::ThreadInstrumentation],
        instruments: Box::new(move |name| initial(&options, name)),
        ..Config::default()
    }
}

/// Returns the level of an instrument that the built-in has on, and whether a person has set it.
fn initial(options: &Options, name: &str) -> Initial {
    let setting = options.level(name);
    let level = match setting {
        Some(LevelSetting::At(level)) => level,
        _ => Recording::Lean,
    };
    let enabled = setting != Some(LevelSetting::Off);
    Initial { enabled, level, held: options.is_named(name), ..Initial::default() }
}
