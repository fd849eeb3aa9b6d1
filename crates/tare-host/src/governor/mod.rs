//! The governor of this server: keeps the overhead below the options `budget` and `budget-p95`, and shows the
//! account.
//!
//! With a budget, a thread of tare samples every few seconds. Without one there is no thread, and whoever
//! reads the account takes the sample. [`tare_budget`] decides, as for `tare govern`. A sample reads what the
//! engine counted, like any reader: it takes no lock of the server and calls none of its functions. What the
//! engine does not know of the server, [`Governed`] tells.

mod connections;
mod counts;
#[cfg(test)]
mod course;
mod governed;
mod hand;
mod ledger;
pub mod levels;
mod shown;
mod watch;

pub use counts::ServerWork;
pub use governed::Governed;

use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tare_budget::board::percent;
use tare_budget::{Budget, PricedProvider, Prices, Resampled};
use tare_tables::budget::{DecisionRow, Keeper, PriceRow};
use tare_tables::{StatusRow, StatusValue, TableError};

use crate::options::Options;
use crate::process::log::{Severity, line};
use crate::process::panic::caught;
use crate::process::{ENGINE, clock, guarded, spawn};
use crate::{active, sampling};
use ledger::Ledger;
use watch::{Budgets, GovernorWatch, SampleFindings, SampleStart};

/// The shortest time between two samples taken by readers of the account.
const LEAST: Duration = Duration::from_secs(1);
/// The longest that the server's end waits for a sample.
const STOP_BOUND: Duration = Duration::from_secs(2);
/// The rows of `tare_status` that set budgets, and whether statements may be given up for them.
const BUDGET: &str = "budget";
const BUDGET_P95: &str = "budget_p95";
const BUDGET_STRICT: &str = "budget_strict";

/// The state of sampling. Locked before [`SHARED`] by whoever needs both; held for the duration of a sample.
static WATCH: Mutex<Option<GovernorWatch>> = Mutex::new(None);
/// What is shown and set; held only briefly.
static SHARED: Mutex<GovernorState> = Mutex::new(GovernorState {
    budgets: Budgets { all: None, p95: None, is_strict: false },
    every: Duration::ZERO,
    is_running: false,
    is_stopping: false,
    prices: None,
    ledger: Ledger::new(),
    looks: 0,
    last: None,
    is_over: false,
    server: None,
});
/// Signals a change of [`SHARED`] to the governor and to whoever waits for its end.
static CHANGED: Condvar = Condvar::new();

/// What readers see, and what they set.
struct GovernorState {
    budgets: Budgets,
    every: Duration,
    is_running: bool,
    is_stopping: bool,
    /// The prices, and their origin.
    prices: Option<(Prices, String)>,
    ledger: Ledger,
    /// The number of samples taken.
    looks: u64,
    last: Option<SampleFindings>,
    /// Whether it was reported that a budget cannot be kept.
    is_over: bool,
    server: Option<&'static dyn Governed>,
}

/// Locks a mutex, ignoring poison: a panic leaves the numbers of one sample, which the next one replaces.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads the prices, starts showing the account and, if a budget is set, starts keeping it. From now on the
/// rows of `tare_status` that can be updated are set here.
pub fn begin(options: &Options, server: &'static dyn Governed) {
    tare_tables::budget::set_keeper(&Here);
    lock(&SHARED).server = Some(server);
    let (prices, origin) = match prices(options) {
        Ok(found) => found,
        Err(error) => return line(Severity::Warning, &format!("no prices, no account: {error}")),
    };
    *lock(&WATCH) = Some(GovernorWatch::new(prices.clone(), server, clock::of_thread, clock::now()));
    {
        let mut shared = lock(&SHARED);
        shared.prices = Some((prices, origin));
        shared.every = Duration::from_secs(options.budget_every.into());
        shared.budgets.is_strict = options.budget_strict;
    }
    set(BUDGET, options.budget);
    set(BUDGET_P95, options.budget_p95);
}

/// Returns the server; `None`: nothing has begun.
fn server() -> Option<&'static dyn Governed> {
    lock(&SHARED).server
}

/// Returns the prices of the option's file, or those that ship, with a text about their origin.
fn prices(options: &Options) -> Result<(Prices, String), tare_budget::PriceError> {
    let named = options.prices.as_ref().map(|path| {
        let name = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
        let prices = Prices::read(&text).map_err(|error| format!("{name}: {error}"))?;
        match prices.origin.provider {
            PricedProvider::Tare => Ok((prices, name.to_string())),
            _ => Err(format!(
                "{name}: origin.provider is not \"tare\": these are costs of MariaDB's or MySQL's own events"
            )),
        }
    });
    let (prices, mut origin) = match named {
        Some(Ok(found)) => found,
        named => {
            let shipped = Prices::shipped(PricedProvider::Tare)?;
            match named {
                Some(Err(error)) => {
                    let text = format!("the option prices: {error}; the prices that ship are used instead");
                    line(Severity::Warning, &text);
                    (shipped, format!("those that ship, because of {error}"))
                }
                _ => (shipped, "those that ship".to_owned()),
            }
        }
    };
    let how = if prices.origin.measured { "measured" } else { "ESTIMATED" };
    origin = format!("{origin}; {how} with {}, {}", prices.origin.server, prices.origin.machine);
    Ok((prices, origin))
}

/// Sets the budget of this name. Without any budget, all levels are restored.
fn set(name: &str, budget: Option<Budget>) {
    let mut shared = lock(&SHARED);
    let mut budgets = shared.budgets;
    *(if name == BUDGET { &mut budgets.all } else { &mut budgets.p95 }) = budget;
    if shared.is_stopping || shared.budgets == budgets {
        return;
    }
    shared.budgets = budgets;
    shared.is_over = false;
    shared.note(match budget {
        Some(budget) => format!("the {name} is {budget} from now on"),
        None => format!("there is no {name} from now on"),
    });
    if !budgets.are_none() && !shared.is_running {
        shared.is_running = true;
        if let Err(error) = spawn(THREAD, Box::new(run)) {
            shared.is_running = false;
            shared.budgets = Budgets { is_strict: budgets.is_strict, ..Budgets::default() };
            shared.note(format!("no thread can be started: {error}; there is no {name}"));
            line(Severity::Warning, &format!("the {name} is not kept: no thread can be started: {error}"));
        }
    }
    CHANGED.notify_all();
}

/// Sets whether statements may be given up. If they no longer may, everything is restored and decided anew.
fn set_strict(is_strict: bool) {
    let mut shared = lock(&SHARED);
    if shared.is_stopping || shared.budgets.is_strict == is_strict {
        return;
    }
    shared.budgets.is_strict = is_strict;
    shared.is_over = false;
    let may = if is_strict { "may be given up" } else { "are not given up" };
    shared.note(format!("statements, transactions and errors {may} from now on"));
    CHANGED.notify_all();
}

/// Ends the governor within two seconds; levels stay as they are.
pub(crate) fn end() {
    let mut shared = lock(&SHARED);
    shared.is_stopping = true;
    CHANGED.notify_all();
    let ended = CHANGED.wait_timeout_while(shared, STOP_BOUND, |shared| shared.is_running);
    drop(ended.unwrap_or_else(PoisonError::into_inner));
}

/// Name of the governor's thread.
const THREAD: &str = "tare-governor";

/// Runs the governor's thread.
fn run() {
    if guarded(THREAD, "the budget is not kept any more and all levels go back", govern).is_none() {
        // Levels must not stay lowered without a governor.
        if caught(|| lock(&WATCH).as_mut().map(|watch| watch.put_back(&ENGINE))).is_err() {
            line(Severity::Warning, "levels stay as the governor left them: internal error");
        }
        let mut shared = lock(&SHARED);
        shared.budgets = Budgets::default();
        shared.is_running = false;
        shared.note("internal error: the budget is not kept any more".to_owned());
    }
    CHANGED.notify_all();
}

/// Samples until there is no budget or the server ends. Whoever finds [`GovernorState::is_running`] false may
/// start the next thread.
fn govern() {
    let mut budgets = Budgets::default();
    loop {
        let shared = lock(&SHARED);
        let (every, known) = (shared.every, budgets);
        let unchanged = |shared: &mut GovernorState| !shared.is_stopping && shared.budgets == known;
        let waited = CHANGED.wait_timeout_while(shared, every, unchanged);
        let mut shared = waited.unwrap_or_else(PoisonError::into_inner).0;
        if shared.is_stopping {
            shared.is_running = false;
            return;
        }
        let (is_new, was_strict) = (budgets.are_none(), budgets.is_strict);
        budgets = shared.budgets;
        drop(shared);
        let mut watch = lock(&WATCH);
        let Some(watch) = watch.as_mut() else { return };
        if was_strict && !budgets.is_strict {
            watch.put_back(&ENGINE);
        }
        if budgets.are_none() {
            let given_back = watch.put_back(&ENGINE);
            let mut shared = lock(&SHARED);
            if given_back > 0 {
                shared.note(format!("{given_back} instruments have the level back they had"));
            }
            if shared.budgets.are_none() {
                shared.is_running = false;
                return;
            }
        } else if is_new {
            // The time before there was a budget does not count.
            timed(watch, |watch, at| watch.begin(&ENGINE, at, budgets));
        } else if watch.is_due(moment(), budgets) {
            let seen = timed(watch, |watch, at| watch.look(&ENGINE, at, budgets));
            lock(&SHARED).show(seen, budgets);
        }
    }
}

fn moment() -> SampleStart {
    SampleStart { now: clock::now(), cpu: clock::process() }
}

/// Takes a sample and records its cost.
fn timed<T>(watch: &mut GovernorWatch, look: impl FnOnce(&mut GovernorWatch, SampleStart) -> T) -> T {
    let begin = clock::thread();
    let seen = look(watch, moment());
    watch.took(clock::thread().saturating_sub(begin));
    seen
}

/// Takes a sample if there is no governor, unless another thread is taking one or has just done so.
fn look_if_nobody_does() {
    if lock(&SHARED).is_running {
        return;
    }
    let Ok(mut watch) = WATCH.try_lock() else { return };
    let Some(watch) = watch.as_mut() else { return };
    if watch.last().is_none_or(|last| clock::now().saturating_sub(last.now) >= LEAST) {
        let seen = timed(watch, |watch, at| watch.look(&ENGINE, at, Budgets::default()));
        lock(&SHARED).show(seen, Budgets::default());
    }
}

impl GovernorState {
    /// Adds a decision about all instruments.
    fn note(&mut self, why: String) {
        let share = self.last.as_ref().map_or(0.0, |seen| seen.account.share().ns);
        self.note_at(wall_us(), share, why);
    }

    /// Adds a decision about all instruments, at a sample with this total share.
    fn note_at(&mut self, time_us: u64, share: f64, why: String) {
        let budget = self.budgets.all.map_or(0.0, Budget::share);
        self.ledger.add(DecisionRow { id: 0, time_us, name: None, from: None, to: None, why, share, budget });
    }

    /// Stores what a sample saw.
    fn show(&mut self, seen: SampleFindings, budgets: Budgets) {
        self.looks += 1;
        let share = seen.account.share().ns;
        let time_us = wall_us();
        for it in &seen.moves {
            self.ledger.add(DecisionRow {
                id: 0,
                time_us,
                name: Some(it.switch.clone()),
                from: Some(it.from.name()),
                to: Some(it.to.name()),
                why: it.why.to_string(),
                share,
                budget: budgets.all.map_or(0.0, Budget::share),
            });
        }
        if let Some(Resampled { from, to, why }) = seen.resampled {
            self.note_at(time_us, share, format!("sample: {from:.0}/s to {to:.0}/s; {why}"));
        }
        let (is_over, was_over) = (!seen.can_be_kept, self.is_over);
        let (is_kept, text) = (shown::is_kept(&seen, budgets), shown::over(&seen, budgets));
        self.last = Some(seen);
        match (was_over, is_over) {
            (false, true) => {
                self.is_over = true;
                self.note(text.clone());
                let names = shown::names(budgets);
                line(Severity::Warning, &format!("the {names} {text}; tare_status says more"));
            }
            (true, false) if is_kept == Some(true) => {
                self.is_over = false;
                self.note(format!("can be kept again: {}", percent(share)));
            }
            _ => {}
        }
    }
}

fn wall_us() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Returns the rows of `tare_status` about the budget. A sample is taken only if a value is read, because it
/// takes longer than everything else there.
pub fn status_rows() -> Vec<StatusRow> {
    if lock(&SHARED).prices.is_none() {
        return vec![];
    }
    let values: Rc<OnceCell<[String; shown::STATUS.len()]>> = Rc::default();
    let row = |(at, name): (usize, &'static str)| {
        let values = values.clone();
        let value = move || values.get_or_init(looked_at)[at].clone();
        (name.into(), StatusValue::Asked(Rc::new(value)))
    };
    shown::STATUS.into_iter().enumerate().map(row).collect()
}

fn looked_at() -> [String; shown::STATUS.len()] {
    look_if_nobody_does();
    shown::status(&lock(&SHARED))
}

/// This server's governor, as the tables know it.
struct Here;

impl Keeper for Here {
    fn prices(&self) -> Vec<PriceRow> {
        look_if_nobody_does();
        let shared = lock(&SHARED);
        shown::prices(&shared)
    }

    fn decisions(&self) -> Vec<DecisionRow> {
        lock(&SHARED).ledger.rows()
    }

    fn set(&self, name: &str, value: &str) -> Option<Result<(), TableError>> {
        if name == levels::ROW {
            return Some(levels::set(value));
        }
        if let Some(set) = sampling::set(name, value).or_else(|| active::set(name, value)) {
            return Some(set);
        }
        if name == BUDGET_STRICT {
            return Some(set_switch(value));
        }
        if ![BUDGET, BUDGET_P95].contains(&name) {
            return None;
        }
        let is_off = value.trim().eq_ignore_ascii_case("OFF");
        let budget = if is_off { None } else { Budget::read(value) };
        if budget.is_none() && !is_off {
            let (name, value) = (name.to_owned(), value.to_owned());
            return Some(Err(TableError::WrongValue { name, value, allowed: ALLOWED }));
        }
        set(name, budget);
        Some(Ok(()))
    }
}

/// Sets the row [`BUDGET_STRICT`].
fn set_switch(value: &str) -> Result<(), TableError> {
    let is = |name: &str| value.trim().eq_ignore_ascii_case(name);
    if !is("ON") && !is("OFF") {
        let (name, value) = (BUDGET_STRICT.to_owned(), value.to_owned());
        return Err(TableError::WrongValue { name, value, allowed: "it may be ON or OFF" });
    }
    set_strict(is("ON"));
    Ok(())
}

/// The error text that lists the allowed budgets.
const ALLOWED: &str = "it may be OFF, or a share such as 1% or 0.5%";
