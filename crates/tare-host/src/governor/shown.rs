//! The governor's state as rows and texts.

use tare_budget::account::{CONNECTIONS, OWN};
use tare_budget::board::percent;
use tare_budget::governor::Slowed;
use tare_budget::{Budget, Cost, CostAccount, Level};
use tare_tables::budget::{NumberWithInterval, PriceRow};

use super::watch::{Budgets, SampleFindings};
use super::{BUDGET, BUDGET_P95, BUDGET_STRICT, GovernorState};
use crate::options::BUDGET_WITH_LOCKS;

/// The rows of `tare_status` that exist if there are prices.
pub(super) const STATUS: [&str; 10] = [
    BUDGET,
    BUDGET_P95,
    BUDGET_STRICT,
    "budget_state",
    "budget_share",
    "budget_slowed",
    "budget_cut",
    "budget_looks",
    "budget_prices",
    "budget_machine",
];

/// Returns the values of the rows [`STATUS`], in the same order.
pub(super) fn status(shared: &GovernorState) -> [String; STATUS.len()] {
    let origin = shared.prices.as_ref().map(|(_, origin)| origin.clone());
    let budget = |budget: Option<Budget>| budget.map_or("OFF".to_owned(), |it| it.to_string());
    let of_last = |say: fn(&SampleFindings) -> String, otherwise: &str| {
        shared.last.as_ref().map_or_else(|| otherwise.to_owned(), say)
    };
    let Budgets { all, p95, is_strict } = shared.budgets;
    [
        budget(all),
        budget(p95),
        (if is_strict { "ON" } else { "OFF" }).to_owned(),
        state(shared),
        of_last(share, "unknown: no sample yet"),
        of_last(slowed, "unknown: no sample yet"),
        cut(shared.last.as_ref(), shared.server.is_some_and(|server| server.lacks_locks())),
        shared.looks.to_string(),
        origin.unwrap_or_default(),
        of_last(machine, "unknown: no sample yet"),
    ]
}

/// Returns the names of the budgets that are set.
pub(super) fn names(Budgets { all, p95, .. }: Budgets) -> String {
    let names = [all.map(|it| format!("budget of {it}")), p95.map(|it| format!("budget-p95 of {it}"))];
    names.into_iter().flatten().collect::<Vec<_>>().join(" and the ")
}

/// Returns whether a sample found all budgets kept; `None` if it could not tell.
pub(super) fn is_kept(seen: &SampleFindings, Budgets { all, p95, .. }: Budgets) -> Option<bool> {
    let is_within = |share: f64, budget: Option<Budget>| budget.is_none_or(|it| share <= it.share());
    if !is_within(seen.account.share().ns, all) {
        return Some(false);
    }
    match (seen.slowed, p95) {
        _ if seen.is_idle => None,
        (None, Some(_)) => None,
        (slowed, p95) => Some(is_within(slowed.map_or(0.0, |it| it.share), p95)),
    }
}

/// Returns whether the budgets are kept, as a text.
fn state(shared: &GovernorState) -> String {
    if shared.budgets.are_none() {
        return "OFF: nothing is decided".to_owned();
    }
    let Some(seen) = &shared.last else { return "starting: no sample yet".to_owned() };
    match is_kept(seen, shared.budgets) {
        _ if seen.is_idle => "idle: nothing is decided while the server does next to nothing".to_owned(),
        _ if !seen.can_be_kept => over(seen, shared.budgets),
        None => "unknown: there is no connection to go by, or threads serve several (budget_p95)".to_owned(),
        Some(false) => {
            let now = percent(seen.account.share().ns);
            format!("over: {now}; from now on it is to be {}{}", percent(seen.predicted), connections(seen))
        }
        Some(true) => "kept".to_owned(),
    }
}

/// Returns that a budget cannot be kept, and why.
pub(super) fn over(seen: &SampleFindings, Budgets { is_strict, .. }: Budgets) -> String {
    let persons = match seen.by_persons {
        share if share > 0.0 => {
            format!(
                "; {} is what persons have set, which is left alone (HELD in tare_levels)",
                percent(share)
            )
        }
        _ => String::new(),
    };
    let used = percent(seen.account.share().ns);
    let left = match is_strict {
        true => format!(
            "{used} was used, and {} is left when all is given up that may be",
            percent(seen.predicted)
        ),
        false => {
            let counted = percent((seen.predicted - seen.by_persons).max(0.0));
            format!("what is always counted costs {counted}, with the calls of what is off; {used} was used")
        }
    };
    format!("cannot be kept: {left}{}{persons}", connections(seen))
}

/// Returns what to add about connections, if anything.
fn connections(seen: &SampleFindings) -> String {
    let say = |it: Slowed| {
        format!(
            "; connections were slowed by {}, and are to be by {}",
            percent(it.share),
            percent(it.predicted)
        )
    };
    seen.slowed.map(say).unwrap_or_default()
}

/// Returns by how much connections are slowed.
fn slowed(seen: &SampleFindings) -> String {
    match seen.slowed {
        Some(it) => format!("{} by the CPU time of connections, 95th percentile", percent(it.share)),
        None => "unknown: there is no budget_p95, or no connection to go by".to_owned(),
    }
}

/// Returns the machine's speed relative to the one that the prices are from.
fn machine(seen: &SampleFindings) -> String {
    match seen.account.machine {
        None => "unknown: the prices do not say how fast theirs was ([work])".to_owned(),
        Some(factor) => {
            format!("prices times {factor:.2}, for the speed of this machine of late")
        }
    }
}

/// Returns the total cost with its range, and the governor's part of it.
fn share(seen: &SampleFindings) -> String {
    let of = seen.account.share();
    format!(
        "{} ({} to {}) of the CPU time in the {:.1} s of the last sample; the governor takes {} of it",
        percent(of.ns),
        percent(of.low),
        percent(of.high),
        seen.elapsed.as_secs_f64(),
        percent(seen.account.share_of(Cost { ns: seen.account.own, ..Cost::NOTHING }).ns)
    )
}

/// Returns that locks were never instrumented.
fn left() -> String {
    let least = percent(BUDGET_WITH_LOCKS);
    format!("mutexes and rwlocks since the server's start, as the budget was below {least}")
}

/// Returns what is given up, by kind and level, and the kinds that sleep.
fn cut(seen: Option<&SampleFindings>, lacks_locks: bool) -> String {
    let part = |((kind, level), count): (&(_, _), &usize)| format!("{count} {kind} to {level}");
    let of_look = |seen: &SampleFindings| {
        let asleep = seen.asleep.iter().map(|kind| format!("{kind}, all others, to {}", Level::Off));
        seen.cut.iter().map(part).chain(asleep).collect()
    };
    let mut parts: Vec<String> = seen.map_or_else(Vec::new, of_look);
    if lacks_locks {
        parts.push(left());
    }
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
}

/// Returns the rows of `tare_prices`.
pub(super) fn prices(shared: &GovernorState) -> Vec<PriceRow> {
    let Some(seen) = shared.last.as_ref().filter(|_| shared.prices.is_some()) else { return vec![] };
    let own = Cost { ns: seen.account.own, low: seen.account.own, high: seen.account.own };
    let row = |name: &str, events: f64, cost: Cost| PriceRow {
        name: name.to_owned(),
        kind: None,
        level: None,
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a count
        events: events.round() as u64,
        nanoseconds: between(cost.times(1.0 / events)),
        share: between(seen.account.share_of(cost)),
    };
    let looking = row(OWN, 1.0, own);
    let CostAccount { connected, connecting, .. } = seen.account;
    let connections = (connected > 0.0).then(|| row(CONNECTIONS, connected, connecting));
    std::iter::once(looking).chain(connections).chain(instruments(seen)).collect()
}

fn instruments(seen: &SampleFindings) -> impl Iterator<Item = PriceRow> {
    seen.account.shares.iter().map(|it| PriceRow {
        name: it.entry.name.clone(),
        kind: Some(it.entry.kind.name()),
        level: Some(it.entry.level.name()),
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a count
        events: it.entry.events.round() as u64,
        // The cost as it was calculated: it may depend on the distance between events.
        nanoseconds: between(it.cost.times(1.0 / it.entry.events)),
        share: between(seen.account.share_of(it.cost)),
    })
}

fn between(cost: Cost) -> NumberWithInterval {
    NumberWithInterval { value: cost.ns, low: cost.low, high: cost.high }
}
