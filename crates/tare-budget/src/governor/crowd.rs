//! Slowdown of connections: the cost of a connection's events as a part of the CPU time it used itself.
//! Disabled events are left out: nobody counts them, and no level saves their cost.
//!
//! A budget for all CPU time says nothing about one connection. A loop in a procedure has hundreds of times
//! as many events per second as a long scan beside it, and its statements pay for all of them.

use crate::board::Board;
use crate::connection::{ConnectionEvents, SECOND};

/// Part of the CPU time of all connections that may belong to slower ones. The rest defines the 95th
/// percentile.
const BEYOND: f64 = 0.05;

/// Event rates of connections, per nanosecond of their CPU time, by place on the board.
#[derive(Debug)]
pub(crate) struct Crowd {
    each: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    cpu: f64,
    rates: Vec<(usize, f64)>,
}

impl Crowd {
    /// Computes the rates. `None`: almost nothing of the server's CPU time is known to belong to connections.
    pub(crate) fn of(board: &Board, connections: &[ConnectionEvents], cpu: f64) -> Option<Crowd> {
        let mut places: Vec<(&str, usize)> =
            board.iter().enumerate().map(|(at, switch)| (&*switch.name, at)).collect();
        places.sort_unstable();
        let place = |name: &str| places.binary_search_by(|it| it.0.cmp(name)).ok().map(|at| places[at].1);
        let member = |it: &ConnectionEvents| {
            let rates = it.events.iter().filter_map(|(name, count)| Some((place(name)?, count / it.cpu)));
            Member { cpu: it.cpu, rates: rates.collect() }
        };
        let each: Vec<Member> = connections.iter().filter(|it| it.cpu > 0.0).map(member).collect();
        let known: f64 = each.iter().map(|it| it.cpu).sum();
        (known > 0.0 && known >= BEYOND * cpu).then_some(Crowd { each })
    }

    /// Returns the 95th percentile of the slowdown, weighed by CPU time, and the index of the connection with
    /// that. `prices` has the cost per event in nanoseconds, by place on the board.
    pub(crate) fn slowed(&self, prices: &[f64]) -> (f64, usize) {
        let share = |member: &Member| member.rates.iter().map(|(at, rate)| prices[*at] * rate).sum::<f64>();
        let mut shares: Vec<(f64, usize)> =
            self.each.iter().enumerate().map(|(nth, it)| (share(it), nth)).collect();
        shares.sort_by(|a, b| b.0.total_cmp(&a.0));
        let beyond = BEYOND * self.each.iter().map(|it| it.cpu).sum::<f64>();
        let mut used = 0.0;
        let at = shares.iter().position(|(_, nth)| {
            used += self.each[*nth].cpu;
            used > beyond
        });
        shares[at.unwrap_or(shares.len() - 1)]
    }

    /// Returns how many events the connection with the index `nth` has per second of its CPU time: a number
    /// for each of the `places` of the board.
    pub(crate) fn in_a_second(&self, nth: usize, places: usize) -> Vec<f64> {
        let mut events = vec![0.0; places];
        self.each[nth].rates.iter().for_each(|(at, rate)| events[*at] += rate * SECOND);
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::{Switch, Switched};
    use crate::kind::{Kind, Level};

    fn crowd(each: &[(f64, f64)], cpu: f64) -> Option<Crowd> {
        let switch = |name: &str| Switch {
            name: name.to_owned(),
            of: Switched::Instrument(Kind::Stage),
            levels: vec![Level::Off, Level::Sums],
            present: Level::Sums,
            held: None,
        };
        let connection = |&(cpu, events): &(f64, f64)| ConnectionEvents {
            cpu,
            events: vec![("b".into(), events), ("unknown".into(), 1e9)],
        };
        let connections: Vec<ConnectionEvents> = each.iter().map(connection).collect();
        Crowd::of(&[switch("b"), switch("a")], &connections, cpu)
    }

    #[test]
    fn the_slowest_twentieth_of_the_cpu_time_is_beyond_the_percentile() {
        let prices = [10.0, 0.0];
        let slowed = |each: &[(f64, f64)]| crowd(each, 1000.0).map(|it| it.slowed(&prices).0);
        assert_eq!(slowed(&[]), None);
        assert_eq!(slowed(&[(0.0, 5.0)]), None, "it did nothing");
        assert_eq!(slowed(&[(1000.0, 5.0)]), Some(0.05));
        assert_eq!(slowed(&[(960.0, 0.0), (40.0, 2.0)]), Some(0.0), "a twenty-fifth is slowed by half");
        assert_eq!(slowed(&[(940.0, 0.0), (60.0, 3.0)]), Some(0.5), "a sixteenth is");
        assert_eq!(slowed(&[(900.0, 9.0), (50.0, 5.0), (50.0, 2.5)]), Some(0.5), "a twentieth is beyond");
        assert_eq!(slowed(&[(49.0, 5.0)]), None, "all but a twentieth is nobody's that is known");
    }

    #[test]
    fn events_of_a_second_are_by_place() {
        let crowd = crowd(&[(1000.0, 5.0)], 1000.0).unwrap();
        assert_eq!(crowd.in_a_second(0, 2), [5e6, 0.0]);
    }
}
