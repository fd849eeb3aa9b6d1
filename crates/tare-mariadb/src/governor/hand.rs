//! The governor's hand: the engine's instruments as things that have a level, and levels as the engine sets them.

use std::collections::{BTreeMap, BTreeSet};

use tare_budget::governor::Switched;
use tare_budget::{Family, Held, Kind, Level, Move, Switch, is_beginning};
use tare_engine::snapshot::{ClassId, Consumer, Instrument};
use tare_engine::{Engine, LevelMove, Recording};

/// What it has moved, and what there is to move.
#[derive(Debug, Default)]
pub(super) struct Hand {
    /// Instruments that have had events: of the others nothing is to be decided, but for those that begin statements.
    seen: BTreeSet<String>,
    /// What was moved.
    moved: BTreeMap<ClassId, Moved>,
}

/// What an instrument was before it was moved.
#[derive(Clone, Copy, Debug)]
struct Moved {
    /// Its level; `None`: off.
    base: Option<Recording>,
    /// How often persons had set it.
    changes: u32,
}

/// Instruments with events at one look.
pub(super) struct Board {
    /// As the governor sees them.
    pub(super) switches: Vec<Switch>,
    /// As the engine knew them, in the same order.
    instruments: Vec<Instrument>,
}

impl Hand {
    /// The instruments that have had events by now.
    pub(super) fn board(&mut self, engine: &Engine, events: &BTreeMap<String, f64>) -> Board {
        self.seen
            .extend(events.keys().filter(|name| !self.seen.contains(*name)).cloned().collect::<Vec<_>>());
        let mut board = Board { switches: vec![], instruments: vec![] };
        for instrument in engine.instruments() {
            // What a person has set since is as that person wants it.
            if self.moved.get(&instrument.id).is_some_and(|it| it.changes != instrument.changes) {
                self.moved.remove(&instrument.id);
            }
            if let Some(switch) = self.switch(engine, &instrument) {
                board.switches.push(switch);
                board.instruments.push(instrument);
            }
        }
        board
    }

    fn switch(&self, engine: &Engine, instrument: &Instrument) -> Option<Switch> {
        let name = instrument.name;
        let is_seen = self.seen.contains(name) || is_beginning(name);
        let kind = Kind::of(name).filter(|_| is_seen && !is_reference(name))?;
        let most = kind.family().map_or(Level::Exact, |family| most(engine, family));
        let base = match self.moved.get(&instrument.id) {
            Some(Moved { base, .. }) => {
                level(kind, base.is_some(), instrument.timed, base.unwrap_or_default())
            }
            None => Level::Off,
        };
        let present = level(kind, instrument.enabled, instrument.timed, instrument.level).min(most);
        let highest = base.min(most).max(present);
        Some(Switch {
            name: name.to_owned(),
            of: Switched::Instrument(kind),
            levels: levels(kind, highest),
            present,
            held: instrument.held.then_some(Held::Person),
        })
    }

    /// Moves levels, and says which moves were made: what a person has set since stays.
    pub(super) fn apply(&mut self, engine: &Engine, board: &Board, moves: Vec<Move>) -> Vec<Move> {
        let wanted = moves.into_iter().filter_map(|it| {
            let at = board.switches.iter().position(|switch| switch.name == it.switch)?;
            let Instrument { id, enabled, level, changes, .. } = board.instruments[at];
            let base = self.moved.get(&id).map_or(enabled.then_some(level), |moved| moved.base);
            let is_highest = board.switches[at].levels.last() == Some(&it.to);
            let level = if is_highest { base } else { recording(it.to, base) };
            Some((it, LevelMove { id, changes, level }, base))
        });
        let wanted: Vec<(Move, LevelMove, Option<Recording>)> = wanted.collect();
        let orders: Vec<LevelMove> = wanted.iter().map(|(_, order, _)| *order).collect();
        let done: BTreeSet<ClassId> = engine.move_levels(&orders).into_iter().collect();
        let mut made = vec![];
        for (it, LevelMove { id, changes, level }, base) in wanted {
            if !done.contains(&id) {
                continue;
            }
            if level == base {
                self.moved.remove(&id);
            } else {
                self.moved.insert(id, Moved { base, changes });
            }
            made.push(it);
        }
        made
    }

    /// Gives everything back that it has moved and no person has set since. Returns how many.
    pub(super) fn put_back(&mut self, engine: &Engine) -> usize {
        let back = |(id, Moved { base, changes })| LevelMove { id, changes, level: base };
        let orders: Vec<LevelMove> = std::mem::take(&mut self.moved).into_iter().map(back).collect();
        if orders.is_empty() { 0 } else { engine.move_levels(&orders).len() }
    }
}

/// The built-in's own buffers are always counted.
fn is_reference(name: &str) -> bool {
    name.starts_with("memory/performance_schema/")
}

/// What the consumers leave of a family's events.
fn most(engine: &Engine, family: Family) -> Level {
    let current = match family {
        Family::Statements => Consumer::EventsStatementsCurrent,
        Family::Transactions => Consumer::EventsTransactionsCurrent,
        Family::Stages => Consumer::EventsStagesCurrent,
        Family::Waits => Consumer::EventsWaitsCurrent,
    };
    let is_recorded = engine.consumer(Consumer::ThreadInstrumentation) && engine.consumer(current);
    if is_recorded { Level::Exact } else { Level::Sums }
}

/// How much is kept with these settings. What is recorded without a time is taken for what is timed and not recorded.
fn level(kind: Kind, enabled: bool, timed: bool, recording: Recording) -> Level {
    if !enabled {
        return Level::Off;
    }
    match recording {
        _ if !kind.is_timed() => Level::Counts,
        Recording::Counts => Level::Counts,
        Recording::Sums => Level::Sums,
        Recording::Lean | Recording::Exact if !timed => Level::Sums,
        Recording::Lean => Level::Lean,
        Recording::Exact => Level::Exact,
    }
}

/// The levels an instrument can have up to this one. Only of locks is lean less than exact.
fn levels(kind: Kind, highest: Level) -> Vec<Level> {
    let is_lock = matches!(kind, Kind::Mutex | Kind::RwLock | Kind::Condition);
    let all = [Level::Off, Level::Counts, Level::Sums, Level::Lean, Level::Exact];
    let is_one = |it: &Level| *it <= highest && (*it != Level::Lean || highest == Level::Lean || is_lock);
    all.into_iter().filter(is_one).collect()
}

/// The setting of a level. Memory and errors, which have no other, keep the one they had.
fn recording(level: Level, base: Option<Recording>) -> Option<Recording> {
    match level {
        Level::Off => None,
        Level::Counts => Some(Recording::Counts),
        Level::Sums => Some(Recording::Sums),
        Level::Current | Level::History | Level::Lean => Some(Recording::Lean),
        Level::Exact => base.max(Some(Recording::Exact)),
    }
}
