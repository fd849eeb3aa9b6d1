//! Functions of the server that lead elsewhere while all instruments of their kind are sampled: to one that
//! begins nothing in a statement that is not chosen, and looks at one thread-local word for that.

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
    /// While all instruments are sampled.
    pub(crate) sampled: usize,
}

static ROUTES: OnceLock<Vec<Route>> = OnceLock::new();

impl Route {
    fn follow(&self, demand: Demand) {
        let target = if demand == Demand::Sampled { self.sampled } else { self.usual };
        self.target.store(target, Relaxed);
    }
}

/// Sets the functions, which follow the demand from now on.
pub(crate) fn set(routes: impl Iterator<Item = Route>) {
    let routes: Vec<Route> = routes.collect();
    routes.iter().for_each(|route| route.follow(ENGINE.demand(route.kind)));
    let _set_once = ROUTES.set(routes);
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
    fn only_where_all_are_sampled_a_function_leads_elsewhere() {
        static TARGET: AtomicUsize = AtomicUsize::new(0);
        let route = Route { kind: Kind::Mutex, target: &TARGET, usual: 1, sampled: 2 };
        for (demand, target) in [
            (Demand::Nothing, 1),
            (Demand::Sampled, 2),
            (Demand::Some, 1),
            (Demand::Sampled, 2),
            (Demand::Sums, 1),
            (Demand::All, 1),
        ] {
            route.follow(demand);
            assert_eq!(TARGET.load(Relaxed), target, "{demand:?}");
        }
    }
}
