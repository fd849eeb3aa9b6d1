//! Detection of servers that work while idle. Periodic work cannot be measured in turns.
//!
//! The work of a server between two turns of its setting is charged to the first of them. That is right for
//! the aftermath of the load. Periodic work, such as a server's scheduled events, would be charged in
//! proportion to the turns of others. So the slices of such a setting do not take turns.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::Result;
use crate::definition::Definition;
use crate::process::interrupt::Interrupt;
use crate::results::record::Measure;
use crate::study::servers::fleet::Fleet;

/// How long a server is observed: long enough to see work that happens every second.
const WATCHED: Duration = Duration::from_millis(2500);
/// The share of time, beyond the base's, above which a server counts as working while idle. An idle server
/// uses 0.0002 to 0.0004.
const BY_ITSELF: f64 = 0.0005;
/// Number of observations that must agree, because a server may have to finish its start.
const TIMES: usize = 2;

/// Returns the settings whose servers work while idle, more than the base's, among those for which the study
/// does not choose. All servers of the fleet must be running without load.
pub(crate) fn working<'d>(
    definition: &'d Definition,
    fleet: &mut Fleet<'_>,
    interrupt: &Interrupt,
) -> Result<Vec<&'d str>> {
    if definition.turn_milliseconds == 0 || definition.measure == Measure::P95 {
        return Ok(vec![]); // at a stretch anyway
    }
    let mut working: Vec<usize> = (0..definition.settings.len()).collect();
    working.retain(|&place| definition.settings[place].stretch.is_none());
    for _ in 0..TIMES {
        working = busier_than_base(definition, &working, fleet, interrupt)?;
    }
    Ok(working.into_iter().map(|place| definition.settings[place].name.as_str()).collect())
}

fn busier_than_base(
    definition: &Definition,
    places: &[usize],
    fleet: &mut Fleet<'_>,
    interrupt: &Interrupt,
) -> Result<Vec<usize>> {
    let base_of = |place: usize| {
        let name = definition.base_of(&definition.settings[place]);
        definition.settings.iter().position(|s| s.name == name).unwrap_or(0)
    };
    let all: BTreeSet<usize> = places.iter().flat_map(|&place| [place, base_of(place)]).collect();
    let shares = shares(&all, fleet, interrupt)?;
    let busier = |&place: &usize| {
        let of_both = shares.get(&place).zip(shares.get(&base_of(place)));
        of_both.is_some_and(|(own, base)| *own > base + BY_ITSELF)
    };
    Ok(places.iter().copied().filter(busier).collect())
}

/// Returns the share of time in which the servers of these settings work. Separate servers are observed in
/// parallel, a shared one in each of its settings in turn.
fn shares(
    places: &BTreeSet<usize>,
    fleet: &mut Fleet<'_>,
    interrupt: &Interrupt,
) -> Result<BTreeMap<usize, f64>> {
    let (shared, alone): (Vec<usize>, Vec<usize>) = places.iter().partition(|&&place| fleet.is_shared(place));
    let mut shares = BTreeMap::new();
    for mut together in std::iter::once(alone).chain(shared.into_iter().map(|place| vec![place])) {
        together.retain(|&place| fleet.is_running(place));
        let mut before = vec![];
        for place in together {
            let ready = fleet.ready(place)?;
            before.push((place, ready.cpu()?, Instant::now(), ready));
        }
        if !before.is_empty() {
            interrupt.sleep(WATCHED)?;
        }
        for (place, cpu, since, ready) in before {
            let worked = ready.cpu()?.saturating_sub(cpu);
            shares.insert(place, worked.as_secs_f64() / since.elapsed().as_secs_f64());
        }
    }
    Ok(shares)
}
