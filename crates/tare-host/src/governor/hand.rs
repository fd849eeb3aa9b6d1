//! The governor's access to the engine: instruments as switches with a level, and levels as the engine sets
//! them.

use std::collections::{BTreeMap, BTreeSet};

use tare_budget::board::Switched;
use tare_budget::{Held, HistoryFamily, Kind, Level, Move, Switch, is_beginning, is_uncounted, may_sleep};
use tare_engine::snapshot::{ClassId, Consumer, Instrument};
use tare_engine::{Engine, LevelMove, Recording};

/// The instruments that can be moved, and those that were moved.
#[derive(Debug, Default)]
pub(super) struct MovedInstruments {
    /// The instruments that have had events. Nothing is decided about the others, except those that cost
    /// without events.
    seen: BTreeSet<String>,
    moved: BTreeMap<ClassId, Moved>,
}

/// The state of an instrument before it was moved.
#[derive(Clone, Copy, Debug)]
struct Moved {
    /// The level; `None` if it was off.
    base: Option<Recording>,
    /// How often people had set the level.
    changes: u32,
    /// Whether it was switched off together with its kind.
    sleeps: bool,
}

/// The state of all instruments at one sample.
pub(super) struct ServerSwitches {
    /// The instruments with events, and the kinds, as the governor sees them.
    pub(super) switches: Vec<Switch>,
    /// All instruments, as the engine reported them.
    instruments: Vec<Instrument>,
}

impl MovedInstruments {
    /// Returns the switches of the instruments that have had events so far, and of the kinds.
    pub(super) fn board(&mut self, engine: &Engine, events: &BTreeMap<String, f64>) -> ServerSwitches {
        self.seen
            .extend(events.keys().filter(|name| !self.seen.contains(*name)).cloned().collect::<Vec<_>>());
        let instruments = engine.instruments();
        for instrument in &instruments {
            // A level that a person has set since stays as that person wants it.
            if self.moved.get(&instrument.id).is_some_and(|it| it.changes != instrument.changes) {
                self.moved.remove(&instrument.id);
            }
        }
        let switches = instruments.iter().filter_map(|instrument| self.switch(engine, instrument));
        let kinds = Kind::ALL.into_iter().filter(|kind| may_sleep(*kind));
        let switches = switches.chain(kinds.filter_map(|kind| self.rest(&instruments, kind))).collect();
        ServerSwitches { switches, instruments }
    }

    /// Returns the switch of a kind as a whole, which is off while the kind sleeps; `None` if nothing can be
    /// switched off.
    fn rest(&self, instruments: &[Instrument], kind: Kind) -> Option<Switch> {
        let sleeps = of_kind(instruments, kind).any(|it| self.sleeps(it));
        let is_on = of_kind(instruments, kind).any(|it| it.enabled);
        let is_held = of_kind(instruments, kind).any(|it| it.held && it.enabled);
        let is_sampled = of_kind(instruments, kind).any(|it| self.base(it) == Some(Recording::Sampled));
        let awake = if is_sampled { Level::Sampled } else { Level::Lean };
        (is_on || sleeps).then(|| Switch {
            name: rest_name(kind),
            of: Switched::Rest(kind),
            levels: vec![Level::Off, awake],
            present: if sleeps { Level::Off } else { awake },
            held: is_held.then_some(Held::Person),
        })
    }

    /// Returns whether an instrument was switched off together with its kind.
    fn sleeps(&self, instrument: &Instrument) -> bool {
        self.moved.get(&instrument.id).is_some_and(|moved| moved.sleeps)
    }

    fn switch(&self, engine: &Engine, instrument: &Instrument) -> Option<Switch> {
        let name = instrument.name;
        let is_seen = self.seen.contains(name) || is_beginning(name) || is_uncounted(name);
        let kind = Kind::of(name).filter(|_| is_seen && !is_reference(name))?;
        let most = kind.family().map_or(Level::Exact, |family| most(engine, family));
        let base = match self.moved.get(&instrument.id) {
            Some(Moved { base, .. }) => {
                level(kind, base.is_some(), instrument.timed, base.unwrap_or_default())
            }
            None => Level::Off,
        };
        let present = at_most(level(kind, instrument.enabled, instrument.timed, instrument.level), most);
        let highest = at_most(base, most).max(present);
        Some(Switch {
            name: name.to_owned(),
            of: Switched::Instrument(kind),
            levels: levels(kind, highest),
            present,
            held: instrument.held.then_some(Held::Person),
        })
    }

    /// Moves levels and returns the moves that were made; what a person has set since stays.
    pub(super) fn apply(&mut self, engine: &Engine, board: &ServerSwitches, moves: Vec<Move>) -> Vec<Move> {
        let orders_of = |it: &Move| -> Vec<EngineOrder> {
            let Some(switch) = board.switches.iter().find(|switch| switch.name == it.switch) else {
                return vec![];
            };
            match switch.of {
                Switched::Rest(kind) => self.orders_of_rest(board, kind, it.to == Level::Off, &moves),
                _ => self.order(board, switch, it.to).into_iter().collect(),
            }
        };
        let wanted: Vec<Vec<EngineOrder>> = moves.iter().map(orders_of).collect();
        let orders: Vec<LevelMove> = wanted.iter().flatten().map(|order| order.level).collect();
        let done: BTreeSet<ClassId> = engine.move_levels(&orders).into_iter().collect();
        let mut made = vec![];
        for (it, orders) in moves.into_iter().zip(wanted) {
            let is_done = |order: &&EngineOrder| done.contains(&order.level.id);
            let orders: Vec<&EngineOrder> = orders.iter().filter(is_done).collect();
            if orders.is_empty() {
                continue;
            }
            orders.into_iter().for_each(|order| self.note(order));
            made.push(it);
        }
        made
    }

    /// Returns the order that moves an instrument to a level.
    fn order(&self, board: &ServerSwitches, switch: &Switch, to: Level) -> Option<EngineOrder> {
        let instrument = board.instruments.iter().find(|it| it.name == switch.name)?;
        let base = self.base(instrument);
        let is_highest = switch.levels.last() == Some(&to);
        Some(EngineOrder::new(instrument, if is_highest { base } else { recording(to) }, base, false))
    }

    /// Returns the orders that switch off what is on in a kind and not held, or restore what was switched off
    /// that way, except instruments with a move of their own.
    fn orders_of_rest(
        &self,
        board: &ServerSwitches,
        kind: Kind,
        sleeps: bool,
        moves: &[Move],
    ) -> Vec<EngineOrder> {
        let others =
            of_kind(&board.instruments, kind).filter(|it| moves.iter().all(|of| of.switch != it.name));
        let orders = others.filter_map(|it| {
            let base = self.base(it);
            match sleeps {
                true => (it.enabled && !it.held).then(|| EngineOrder::new(it, None, base, true)),
                false => self.sleeps(it).then(|| EngineOrder::new(it, base, base, false)),
            }
        });
        orders.collect()
    }

    /// Returns the level of an instrument before it was moved; `None` if it was off.
    fn base(&self, instrument: &Instrument) -> Option<Recording> {
        let present = instrument.enabled.then_some(instrument.level);
        self.moved.get(&instrument.id).map_or(present, |moved| moved.base)
    }

    /// Records an executed order.
    fn note(&mut self, EngineOrder { level: LevelMove { id, changes, level }, base, sleeps }: &EngineOrder) {
        if level == base {
            self.moved.remove(id);
        } else {
            self.moved.insert(*id, Moved { base: *base, changes: *changes, sleeps: *sleeps });
        }
    }

    /// Restores everything that was moved and that no person has set since. Returns the number of
    /// instruments.
    pub(super) fn put_back(&mut self, engine: &Engine) -> usize {
        let back = |(id, Moved { base, changes, .. })| LevelMove { id, changes, level: base };
        let orders: Vec<LevelMove> = std::mem::take(&mut self.moved).into_iter().map(back).collect();
        if orders.is_empty() { 0 } else { engine.move_levels(&orders).len() }
    }
}

/// An order to the engine, with what to remember after it.
struct EngineOrder {
    level: LevelMove,
    /// The level before the instrument was moved; `None` if it was off.
    base: Option<Recording>,
    sleeps: bool,
}

impl EngineOrder {
    fn new(of: &Instrument, level: Option<Recording>, base: Option<Recording>, sleeps: bool) -> EngineOrder {
        EngineOrder { level: LevelMove { id: of.id, changes: of.changes, level }, base, sleeps }
    }
}

fn of_kind(instruments: &[Instrument], kind: Kind) -> impl Iterator<Item = &Instrument> {
    instruments.iter().filter(move |it| Kind::of(it.name) == Some(kind))
}

/// Returns the name of a kind as a whole in decisions.
fn rest_name(kind: Kind) -> String {
    format!("{kind}, all others")
}

/// Returns whether the instrument is one of the built-in's own buffers, which are always counted.
fn is_reference(name: &str) -> bool {
    name.starts_with("memory/performance_schema/")
}

/// Returns the highest level of a family's events that the consumers allow.
fn most(engine: &Engine, family: HistoryFamily) -> Level {
    let current = match family {
        HistoryFamily::Statements => Consumer::EventsStatementsCurrent,
        HistoryFamily::Transactions => Consumer::EventsTransactionsCurrent,
        HistoryFamily::Stages => Consumer::EventsStagesCurrent,
        HistoryFamily::Waits => Consumer::EventsWaitsCurrent,
    };
    let is_recorded = engine.consumer(Consumer::ThreadInstrumentation) && engine.consumer(current);
    if is_recorded { Level::Exact } else { Level::Sums }
}

/// Limits a level to what the consumers allow. A sampled instrument costs about the same whatever they allow.
fn at_most(level: Level, most: Level) -> Level {
    if level == Level::Sampled { level } else { level.min(most) }
}

/// Returns the level of these settings. Recording without a time counts as timing without recording.
fn level(kind: Kind, enabled: bool, timed: bool, recording: Recording) -> Level {
    if !enabled {
        return Level::Off;
    }
    match recording {
        _ if !kind.is_timed() => Level::Counts,
        Recording::Counts => Level::Counts,
        Recording::Sums => Level::Sums,
        // Statements outside the sample are never timed.
        Recording::Sampled => Level::Sampled,
        Recording::Lean | Recording::Exact if !timed => Level::Sums,
        Recording::Lean => Level::Lean,
        Recording::Exact => Level::Exact,
    }
}

/// Returns the levels that an instrument can have up to `highest`. Lean costs less than exact for locks only.
/// A sampled instrument has at most that level.
fn levels(kind: Kind, highest: Level) -> Vec<Level> {
    let is_lock = matches!(kind, Kind::Mutex | Kind::RwLock | Kind::Condition);
    let is_one = |it: &Level| match it {
        Level::Current | Level::History => false,
        Level::Sampled => highest == Level::Sampled,
        Level::Lean => highest == Level::Lean || highest == Level::Exact && is_lock,
        _ => *it <= highest,
    };
    Level::ALL.into_iter().filter(is_one).collect()
}

/// Returns the setting of a level; `None` is off.
fn recording(level: Level) -> Option<Recording> {
    match level {
        Level::Off => None,
        Level::Counts => Some(Recording::Counts),
        Level::Sums => Some(Recording::Sums),
        Level::Sampled => Some(Recording::Sampled),
        Level::Current | Level::History | Level::Lean => Some(Recording::Lean),
        Level::Exact => Some(Recording::Exact),
    }
}
