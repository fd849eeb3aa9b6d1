//! The board as a choice, without what is held, negligible or not allowed.

use super::cause::Cause;
use super::choice::{self, Bound, Item, ItemGroup, LevelChoice, LevelStep};
use crate::account::{presence, recording};
use crate::board::{Board, Move, Switch, Switched, Why};
use crate::kind::{HistoryFamily, Kind, Level};
use crate::price::Prices;

/// Part of every budget below which a cost is not worth a decision.
const NEGLIGIBLE: f64 = 1e-4;
/// Part of the budget below which a saving is not worth a loss, where nothing fits.
const VAIN: f64 = 0.05;

/// CPU time of which the budget is a share, and the events that count against it. The first view is that of
/// the server. In the others, of connections, what is off costs nothing.
#[derive(Clone, Debug)]
pub(crate) struct BudgetView {
    /// CPU time in nanoseconds.
    pub(crate) cpu: f64,
    /// Part of `cpu` that no choice saves, in nanoseconds.
    pub(crate) fixed: f64,
    /// Number of connections that were made.
    pub(crate) connected: f64,
    /// The budget as a share.
    pub(crate) budget: f64,
    /// Expected number of events, by place on the board.
    pub(crate) events: Vec<f64>,
}

/// The choices, and their costs in each view.
pub(crate) struct LevelPlan {
    views: Vec<BudgetView>,
    /// Extra cost of connections while an instrument is on, by view and place on the board.
    connecting: Vec<Vec<f64>>,
    /// Groups, by view.
    groups: Vec<Vec<ItemGroup>>,
    /// The switches of each group: that of its histories, if it has one, and those of its instruments.
    places: Vec<(Option<PlannedSwitch>, Vec<PlannedSwitch>)>,
}

/// A switch of the plan: its position on the board, and the levels it may get, the highest first.
struct PlannedSwitch {
    at: usize,
    levels: Vec<Level>,
}

impl PlannedSwitch {
    /// Creates the place with its allowed levels, the highest first.
    fn new(at: usize, allowed: &[Vec<Level>]) -> PlannedSwitch {
        PlannedSwitch { at, levels: allowed[at].iter().rev().copied().collect() }
    }
}

impl LevelPlan {
    pub(crate) fn new(
        prices: &Prices,
        board: &Board,
        views: &[BudgetView],
        allowed: &[Vec<Level>],
    ) -> LevelPlan {
        let connecting = views.iter().map(|view| connecting(prices, board, view)).collect();
        let groups = vec![vec![]; views.len()];
        let mut plan = LevelPlan { views: views.to_vec(), connecting, groups, places: vec![] };
        for family in HistoryFamily::ALL.into_iter().map(Some).chain([None]) {
            plan.add(prices, board, allowed, family);
        }
        plan
    }

    fn add(&mut self, prices: &Prices, board: &Board, allowed: &[Vec<Level>], family: Option<HistoryFamily>) {
        let is_recording = |it: &Switch| matches!(it.of, Switched::Recording(of) if Some(of) == family);
        let recording = board.iter().position(is_recording).map(|at| PlannedSwitch::new(at, allowed));
        let (ways, losses) = match &recording {
            Some(place) => (
                place.levels.iter().copied().map(Some).collect(),
                place.levels.iter().map(|level| board[place.at].loss(*level)).collect(),
            ),
            None => (vec![None], vec![0]),
        };
        let mut groups = vec![ItemGroup { recording: losses, items: vec![] }; self.views.len()];
        let mut places = vec![];
        for (at, switch) in board.iter().enumerate() {
            let Switched::Instrument(kind) = switch.of else { continue };
            if kind.family() != family {
                continue;
            }
            let mut place = PlannedSwitch::new(at, allowed);
            if self.is_negligible(prices, kind, &place, &ways) {
                // It gets its highest level: only its worth counts.
                place.levels.truncate(1);
            }
            for (nth, (view, group)) in self.views.iter().zip(&mut groups).enumerate() {
                let of = |level: Level, way: Option<Level>| match level {
                    Level::Off if nth > 0 => 0.0,
                    Level::Off => cost(prices, kind, (level, way)) * view.events[at],
                    _ => cost(prices, kind, (level, way)) * view.events[at] + self.connecting[nth][at],
                };
                let step = |level: &Level| LevelStep {
                    loss: switch.loss(*level),
                    costs: ways.iter().map(|way| of(*level, *way)).collect(),
                };
                group.items.push(Item { steps: place.levels.iter().map(step).collect() });
            }
            places.push(place);
        }
        self.groups.iter_mut().zip(groups).for_each(|(all, group)| all.push(group));
        self.places.push((recording, places));
    }

    fn is_negligible(
        &self,
        prices: &Prices,
        kind: Kind,
        place: &PlannedSwitch,
        ways: &[Option<Level>],
    ) -> bool {
        let all = place.levels.iter().flat_map(|level| ways.iter().map(move |way| (*level, *way)));
        let dearest = all.map(|it| cost(prices, kind, it)).fold(0.0, f64::max);
        let is_one = |(view, connecting): (&BudgetView, &Vec<f64>)| {
            dearest * view.events[place.at] + connecting[place.at] < NEGLIGIBLE * view.budget * view.cpu
        };
        self.views.iter().zip(&self.connecting).all(is_one)
    }

    /// Returns the limit of each view: this part of its budget, or the present cost if the cause concerns
    /// another view.
    pub(crate) fn bounds(&self, board: &Board, part: f64, cause: Cause) -> Vec<Bound> {
        let present = self.present(board);
        let bound = |(nth, (view, groups)): (usize, (&BudgetView, &Vec<ItemGroup>))| {
            let budget = view.budget * view.cpu;
            let (limit, now) = (budget * part - view.fixed, choice::cost(groups, &present));
            let may_stay = match cause {
                Cause::Over { .. } => nth > 0 && now <= budget,
                Cause::Slow { .. } => nth == 0 && now + view.fixed <= budget,
                // What is given back does not slow connections, and what slows them anyway does not matter
                // here.
                Cause::Room { .. } => nth > 0,
            };
            Bound {
                groups: groups.clone(),
                limit: if may_stay { limit.max(now) } else { limit },
                slack: budget * VAIN,
            }
        };
        self.views.iter().zip(&self.groups).enumerate().map(bound).collect()
    }

    /// Returns the present levels as a choice.
    fn present(&self, board: &Board) -> LevelChoice {
        let of = |place: &PlannedSwitch| position(&place.levels, board[place.at].present);
        let recording = self.places.iter().map(|(recording, _)| recording.as_ref().map_or(0, of)).collect();
        let steps = self.places.iter().map(|(_, places)| places.iter().map(of).collect()).collect();
        LevelChoice { recording, steps, loss: 0, cost: 0.0, fits: true }
    }

    /// Returns the levels of the whole board after a choice, by place.
    pub(crate) fn levels(&self, board: &Board, choice: &LevelChoice) -> Vec<Level> {
        let mut levels: Vec<Level> = board.iter().map(|switch| switch.present).collect();
        for (nth, (recording, places)) in self.places.iter().enumerate() {
            if let Some(place) = recording {
                levels[place.at] = place.levels[choice.recording[nth]];
            }
            for (place, step) in places.iter().zip(&choice.steps[nth]) {
                levels[place.at] = place.levels[*step];
            }
        }
        levels
    }

    /// Returns the moves for a choice. Their shares are those of the view that the cause concerns.
    pub(crate) fn moves(&self, board: &Board, choice: &LevelChoice, cause: Cause) -> Vec<Move> {
        let of = usize::from(matches!(cause, Cause::Slow { .. }) && self.views.len() > 1);
        let (groups, cpu) = (&self.groups[of], self.views[of].cpu);
        let mut moves = vec![];
        for (nth, (recording, places)) in self.places.iter().enumerate() {
            let way = choice.recording[nth];
            let now = recording.iter().map(|it| position(&it.levels, board[it.at].present)).sum::<usize>();
            let items = &groups[nth].items;
            if let Some(place) = recording {
                let at_way = |way: usize| -> f64 {
                    let steps = items.iter().zip(&choice.steps[nth]);
                    steps.map(|(item, step)| item.steps[*step].costs[way]).sum()
                };
                let change = at_way(way) - at_way(now);
                moves.extend(moved(&board[place.at], place.levels[way], change / cpu, cause));
            }
            for ((place, item), step) in places.iter().zip(items).zip(&choice.steps[nth]) {
                let present = position(&place.levels, board[place.at].present);
                let from = item.steps.get(present).map_or(item.steps[*step].costs[now], |it| it.costs[now]);
                let change = item.steps[*step].costs[now] - from;
                moves.extend(moved(&board[place.at], place.levels[*step], change / cpu, cause));
            }
        }
        moves
    }
}

/// Returns the extra cost of connections compared with everything off, distributed over the instruments they
/// have events of, by place.
fn connecting(prices: &Prices, board: &Board, view: &BudgetView) -> Vec<f64> {
    let presence = |(switch, events): (&Switch, &f64)| match switch.of {
        Switched::Instrument(_) => presence(*events, view.connected),
        Switched::Recording(_) | Switched::Rest(_) => 0.0,
    };
    let presences: Vec<f64> = board.iter().zip(&view.events).map(presence).collect();
    let more = (prices.connection.on.ns - prices.connection.off.ns) * view.connected;
    let each = more / presences.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    presences.into_iter().map(|it| it * each).collect()
}

/// Returns the cost per event in nanoseconds at a level, where its family is recorded at `way`.
fn cost(prices: &Prices, kind: Kind, (level, way): (Level, Option<Level>)) -> f64 {
    recording::cost(prices, kind, level, way).ns
}

fn position(levels: &[Level], level: Level) -> usize {
    levels.iter().position(|it| *it == level).unwrap_or(0)
}

fn moved(switch: &Switch, to: Level, change: f64, cause: Cause) -> Option<Move> {
    let from = switch.present;
    let why = match (to < from, cause) {
        (true, Cause::Over { share, budget }) => Why::Over { share, budget, saves: -change },
        (true, Cause::Slow { share, budget }) => Why::Slow { share, budget, saves: -change },
        (true, Cause::Room { .. }) => Why::Exchanged { saves: -change },
        (
            false,
            Cause::Over { share, budget } | Cause::Slow { share, budget } | Cause::Room { share, budget },
        ) => Why::Room { share, budget, costs: change },
    };
    (to != from).then(|| Move { switch: switch.name.clone(), from, to, why })
}
