//! A server made of counts: what its instruments would have, and what it tells of it at the levels it has.

#![allow(dead_code)] // each test uses a part

use std::collections::BTreeMap;
use std::time::Duration;

use tare_budget::board::Switched;
use tare_budget::{
    ConnectionEvents, Decision, Governor, GovernorRules, GovernorSample, HistoryFamily, Kind, Level,
    PricedProvider, Prices, StatementSumsRule, Switch,
};

/// Events of a load in a second of the server's CPU time.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) statements: f64,
    pub(crate) events: BTreeMap<String, f64>,
}

impl Load {
    /// Recorded events, of as many transactions as take a second.
    pub(crate) fn recorded(text: &str, micros_a_transaction: f64) -> Load {
        let first = text.lines().next().expect("it is there");
        let transactions: f64 = first.split(' ').nth(3).expect("it is there").parse().expect("it is there");
        let in_a_second = 1e6 / micros_a_transaction;
        let line = |line: &str| {
            let (name, count) = line.split_once('\t').expect("it is there");
            (name.to_owned(), count.parse::<f64>().expect("it is there") / transactions * in_a_second)
        };
        let events: BTreeMap<String, f64> = text.lines().skip(1).map(line).collect();
        let statements = events.iter().filter(|(name, _)| name.starts_with("statement/"));
        Load { statements: statements.map(|(_, count)| count).sum(), events }
    }

    pub(crate) fn mysql_point_select() -> Load {
        Load::recorded(include_str!("../accounts/mysql-oltp_point_select.tsv"), 12.0)
    }

    pub(crate) fn mysql_read_only() -> Load {
        Load::recorded(include_str!("../accounts/mysql-oltp_read_only.tsv"), 300.0)
    }

    pub(crate) fn mariadb_point_select() -> Load {
        Load::recorded(include_str!("../accounts/mariadb-oltp_point_select.tsv"), 9.0)
    }

    pub(crate) fn mariadb_read_only() -> Load {
        Load::recorded(include_str!("../accounts/mariadb-oltp_read_only.tsv"), 265.0)
    }

    /// A loop in a procedure: hardly a statement of a client, and a million of the program's and their
    /// stages.
    pub(crate) fn procedure() -> Load {
        let events = [
            ("statement/sql/call_procedure", 200.0),
            ("statement/sp/set", 400_000.0),
            ("statement/sp/jump_if_not", 400_000.0),
            ("stage/sql/executing", 1_600_000.0),
            ("memory/sql/sp_head::main_mem_root", 400.0),
        ];
        Load { statements: 200.0, events: events.map(|(name, count)| (name.to_owned(), count)).into() }
    }

    /// Twenty statements a second, which sort what does not fit into memory: rows, files, hardly a lock.
    pub(crate) fn sorts() -> Load {
        let events = [
            ("statement/sql/select", 20.0),
            ("stage/sql/executing", 40.0),
            ("wait/io/table/sql/handler", 300_000.0),
            ("wait/io/file/sql/io_cache", 4_000.0),
            ("wait/synch/mutex/innodb/trx_mutex", 900.0),
            ("wait/synch/sxlock/innodb/index_tree_rw_lock", 60_000.0),
            ("memory/sql/Filesort_buffer::sort_keys", 400.0),
        ];
        Load { statements: 20.0, events: events.map(|(name, count)| (name.to_owned(), count)).into() }
    }
}

/// The server: all its switches, everything on.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) board: Vec<Switch>,
    pub(crate) prices: Prices,
    pub(crate) now: Duration,
}

impl Server {
    /// With the instruments that any of the loads has events of.
    pub(crate) fn new(provider: PricedProvider, loads: &[&Load]) -> Server {
        let mut names: Vec<&String> = loads.iter().flat_map(|load| load.events.keys()).collect();
        names.sort();
        names.dedup();
        let instrument = |name: &String| {
            let kind = Kind::of(name).expect("it is there");
            let levels = match (kind.is_timed(), provider) {
                (false, _) => vec![Level::Off, Level::Counts],
                (true, PricedProvider::Tare) => {
                    vec![Level::Off, Level::Counts, Level::Sums, Level::Lean, Level::Exact]
                }
                (true, _) => vec![Level::Off, Level::Counts, Level::Sums],
            };
            switch(name, Switched::Instrument(kind), levels)
        };
        let mut board: Vec<Switch> = names.into_iter().map(instrument).collect();
        if provider != PricedProvider::Tare {
            let levels = vec![Level::Sums, Level::Current, Level::History, Level::Exact];
            board.extend(HistoryFamily::ALL.map(|family| {
                switch(&format!("events_{}_%", family.name()), Switched::Recording(family), levels.clone())
            }));
        }
        Server { board, prices: prices(provider), now: Duration::ZERO }
    }

    pub(crate) fn governor(&self, budget: f64) -> Governor {
        self.governor_of(GovernorRules { budget, budget_p95: None, statements: StatementSumsRule::ByWorth })
    }

    pub(crate) fn governor_of(&self, rules: GovernorRules) -> Governor {
        Governor::new(rules, self.prices.clone())
    }

    /// What the server tells when each connection has used so many seconds for a load, in five seconds.
    pub(crate) fn look_at(&mut self, connections: &[(f64, &Load)]) -> GovernorSample {
        self.now += Duration::from_secs(5);
        let mut look = GovernorSample { now: self.now, ..GovernorSample::default() };
        for (seconds, load) in connections {
            let on = load.events.iter().filter(|(name, _)| self.level(name) > Level::Off);
            let events: Vec<(String, f64)> =
                on.map(|(name, count)| (name.clone(), count * seconds)).collect();
            look.cpu += seconds * 1e9;
            look.statements += load.statements * seconds;
            for (name, count) in &events {
                *look.events.entry(name.clone()).or_default() += count;
            }
            let events = events.into_iter().map(|(name, count)| (name.into(), count)).collect();
            look.connections.push(ConnectionEvents { cpu: seconds * 1e9, events });
        }
        look
    }

    /// What the server tells after some seconds, each of one of the loads.
    pub(crate) fn look(&mut self, seconds: &[&Load]) -> GovernorSample {
        self.now += Duration::from_secs(seconds.len() as u64);
        let mut look =
            GovernorSample { now: self.now, cpu: seconds.len() as f64 * 1e9, ..GovernorSample::default() };
        for load in seconds {
            look.statements += load.statements;
            for (name, count) in &load.events {
                if self.level(name) > Level::Off {
                    *look.events.entry(name.clone()).or_default() += count;
                }
            }
        }
        look
    }

    /// With everything off.
    pub(crate) fn switched_off(mut self) -> Server {
        self.board.iter_mut().for_each(|it| it.present = it.levels[0]);
        self
    }

    /// What events of instruments cost that are off, as a share.
    pub(crate) fn cost_off(&self, load: &Load) -> f64 {
        let of = |(name, count): (&String, &f64)| match self.level(name) {
            Level::Off => count * self.prices.cost(Kind::of(name).expect("it is there"), Level::Off).ns,
            _ => 0.0,
        };
        load.events.iter().map(of).sum::<f64>() / 1e9
    }

    pub(crate) fn level(&self, name: &str) -> Level {
        self.board.iter().find(|it| it.name == name).expect("it is there").present
    }

    /// Looks, and does what is decided.
    pub(crate) fn step(&mut self, governor: &mut Governor, seconds: &[&Load]) -> Decision {
        let look = self.look(seconds);
        self.decide(governor, &look)
    }

    pub(crate) fn decide(&mut self, governor: &mut Governor, look: &GovernorSample) -> Decision {
        let decision = governor.look(&self.board, look);
        for it in &decision.moves {
            let switch = self.board.iter_mut().find(|switch| switch.name == it.switch).expect("it is there");
            assert_eq!(switch.present, it.from, "{it:?}");
            assert!(switch.levels.contains(&it.to), "{it:?}");
            switch.present = it.to;
        }
        decision
    }
}

/// What decisions are held against: prices that do not change with what was measured last.
fn prices(provider: PricedProvider) -> Prices {
    let text = match provider {
        PricedProvider::Tare => include_str!("../prices/tare.toml"),
        PricedProvider::MariaDb => include_str!("../prices/mariadb.toml"),
        PricedProvider::MySql => include_str!("../prices/mysql.toml"),
    };
    Prices::read(text).expect("it is there")
}

fn switch(name: &str, of: Switched, levels: Vec<Level>) -> Switch {
    let present = *levels.last().expect("it is there");
    Switch { name: name.to_owned(), of, levels, present, held: None }
}
