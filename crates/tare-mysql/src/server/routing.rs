//! Functions of the server that lead elsewhere while all instruments of their kind are sampled: to one that
//! begins nothing in a statement that is not chosen, and looks at one thread-local word for that. While all
//! are off, they lead to one that does nothing, and while some are off or sampled, to one that first asks for
//! the event's instrument.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tare_engine::Demand;
use tare_engine::snapshot::Kind;
use tare_host::process::ENGINE;

/// A function of the server and where it may lead.
pub(crate) struct Route {
    pub(crate) kind: Kind,
    /// The address to which it leads.
    pub(crate) target: &'static AtomicUsize,
    pub(crate) usual: usize,
    /// While some instruments are off or sampled.
    pub(crate) filtered: usize,
    /// While all instruments are sampled.
    pub(crate) sampled: usize,
    /// While all are off.
    pub(crate) off: usize,
}

static ROUTES: OnceLock<Vec<Route>> = OnceLock::new();

impl Route {
    fn follow(&self, demand: Demand) {
        let target = match demand {
            Demand::Sampled => self.sampled,
            Demand::Some => self.filtered,
            // One may be in progress; see `stop_reporting_stages`.
            Demand::Nothing if self.kind == Kind::Stage => self.filtered,
            Demand::Nothing => self.off,
            Demand::Sums | Demand::All => self.usual,
        };
        self.target.store(target, Relaxed);
    }
}

/// Sets the functions, which follow the demand from now on. The engine meets most instruments by their first
/// event, so before that no kind counts as off.
pub(crate) fn set(routes: impl Iterator<Item = Route>) {
    let routes: Vec<Route> = routes.collect();
    for route in &routes {
        let demand = ENGINE.demand(route.kind);
        route.follow(if demand == Demand::Nothing { Demand::Some } else { demand });
    }
    let _set_once = ROUTES.set(routes);
}

/// Follows the demand of kinds that are off from the start. Call it when every instrument is met.
pub(crate) fn settle() {
    for route in ROUTES.get().into_iter().flatten() {
        if ENGINE.demand(route.kind) == Demand::Nothing {
            route.follow(Demand::Nothing);
        }
    }
}

/// Leads the functions of stages to what only shows them, until some are wanted.
pub(super) fn stop_reporting_stages() {
    let stages = ROUTES.get().into_iter().flatten().filter(|route| route.kind == Kind::Stage);
    stages.for_each(|route| route.target.store(route.off, Relaxed));
}

/// Leads the functions of a kind where its demand says.
pub(super) fn decide(kind: Kind, demand: Demand) {
    let of_kind = ROUTES.get().into_iter().flatten().filter(|route| route.kind == kind);
    of_kind.for_each(|route| route.follow(demand));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_leads_where_the_demand_says() {
        static TARGET: AtomicUsize = AtomicUsize::new(0);
        let route = |kind| Route { kind, target: &TARGET, usual: 1, sampled: 2, off: 3, filtered: 4 };
        route(Kind::Stage).follow(Demand::Nothing);
        assert_eq!(TARGET.load(Relaxed), 4, "one may be in progress");
        let route = route(Kind::Mutex);
        for (demand, target) in [
            (Demand::Nothing, 3),
            (Demand::Sampled, 2),
            (Demand::Some, 4),
            (Demand::Sampled, 2),
            (Demand::Sums, 1),
            (Demand::All, 1),
        ] {
            route.follow(demand);
            assert_eq!(TARGET.load(Relaxed), target, "{demand:?}");
        }
    }
}
