//! What watching slows connections by: the price of a connection's events over the CPU time it used itself.
//!
//! A budget of all CPU time says nothing of one connection: a loop in a procedure has hundreds of times as many events per
//! second as a long scan beside it, and its statements pay for all of them.

use std::borrow::Cow;

use crate::governor::Board;

/// What a connection did between two looks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Connection {
    /// CPU time it used, in nanoseconds.
    pub cpu: f64,
    /// Its events, by instrument.
    pub events: Vec<(Cow<'static, str>, f64)>,
}

/// So much of the CPU time of all connections may be of such as are slowed by more: what is left is the 95th percentile.
const BEYOND: f64 = 0.05;

/// Nanoseconds in which rates count events.
pub(crate) const SECOND: f64 = 1e9;

/// Connections as the board sees them: events a nanosecond, by place on the board.
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
    /// `unseen`: by place on the board, events a nanosecond of what is off and would have some.
    pub(crate) fn of(board: &Board, connections: &[Connection], unseen: &[(usize, f64)]) -> Crowd {
        let mut places: Vec<(&str, usize)> =
            board.iter().enumerate().map(|(at, switch)| (&*switch.name, at)).collect();
        places.sort_unstable();
        let place = |name: &str| places.binary_search_by(|it| it.0.cmp(name)).ok().map(|at| places[at].1);
        let member = |it: &Connection| {
            let seen = it.events.iter().filter_map(|(name, count)| Some((place(name)?, count / it.cpu)));
            let seen = seen.filter(|(at, _)| unseen.iter().all(|(unseen, _)| unseen != at));
            Member { cpu: it.cpu, rates: seen.chain(unseen.iter().copied()).collect() }
        };
        Crowd { each: connections.iter().filter(|it| it.cpu > 0.0).map(member).collect() }
    }

    /// What connections are slowed by where an event costs so many nanoseconds, by place: the 95th percentile, weighed by
    /// their CPU time, and whose that is. `None`: there are none.
    pub(crate) fn slowed(&self, prices: &[f64]) -> Option<(f64, usize)> {
        let share = |member: &Member| member.rates.iter().map(|(at, rate)| prices[*at] * rate).sum::<f64>();
        let mut shares: Vec<(f64, usize)> =
            self.each.iter().enumerate().map(|(nth, it)| (share(it), nth)).collect();
        shares.sort_by(|a, b| b.0.total_cmp(&a.0));
        let beyond = BEYOND * self.each.iter().map(|it| it.cpu).sum::<f64>();
        let mut used = 0.0;
        shares.into_iter().find(|(_, nth)| {
            used += self.each[*nth].cpu;
            used > beyond
        })
    }

    /// Events of one of them in a second of its CPU time, by place of a board of that length.
    pub(crate) fn in_a_second(&self, nth: usize, places: usize) -> Vec<f64> {
        let mut events = vec![0.0; places];
        self.each[nth].rates.iter().for_each(|(at, rate)| events[*at] += rate * SECOND);
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::governor::{Switch, Switched};
    use crate::kind::{Kind, Level};

    fn crowd(each: &[(f64, f64)], unseen: &[(usize, f64)]) -> Crowd {
        let switch = |name: &str| Switch {
            name: name.to_owned(),
            of: Switched::Instrument(Kind::Stage),
            levels: vec![Level::Off, Level::Sums],
            present: Level::Sums,
            held: None,
        };
        let connection = |&(cpu, events): &(f64, f64)| Connection {
            cpu,
            events: vec![("b".into(), events), ("unknown".into(), 1e9)],
        };
        let connections: Vec<Connection> = each.iter().map(connection).collect();
        Crowd::of(&[switch("b"), switch("a")], &connections, unseen)
    }

    #[test]
    fn the_slowest_twentieth_of_the_cpu_time_is_beyond_the_percentile() {
        let prices = [10.0, 0.0];
        let slowed = |each: &[(f64, f64)]| crowd(each, &[]).slowed(&prices).map(|(share, _)| share);
        assert_eq!(slowed(&[]), None);
        assert_eq!(slowed(&[(0.0, 5.0)]), None, "it did nothing");
        assert_eq!(slowed(&[(1000.0, 5.0)]), Some(0.05));
        assert_eq!(slowed(&[(960.0, 0.0), (40.0, 2.0)]), Some(0.0), "a twenty-fifth is slowed by half");
        assert_eq!(slowed(&[(940.0, 0.0), (60.0, 3.0)]), Some(0.5), "a sixteenth is");
        assert_eq!(slowed(&[(900.0, 9.0), (50.0, 5.0), (50.0, 2.5)]), Some(0.5), "a twentieth is beyond");
    }

    #[test]
    fn what_is_off_has_the_events_it_would_have() {
        let crowd = crowd(&[(1000.0, 5.0)], &[(1, 0.25)]);
        assert_eq!(crowd.slowed(&[0.0, 2.0]), Some((0.5, 0)));
        assert_eq!(crowd.in_a_second(0, 2), [5e6, 2.5e8]);
    }
}
