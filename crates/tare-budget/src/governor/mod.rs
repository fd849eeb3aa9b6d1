//! The decision: which levels move so that the total cost stays within the budget, the slowdown of
//! connections within theirs, and as little as possible is lost.
//!
//! Hysteresis prevents flapping:
//!
//! - Over the budget, levels are lowered until the predicted cost is [`CUT_TO`] of it.
//! - Under the budget, levels are raised only while the prediction stays below [`RAISE_TO`] of it, only under
//!   a load like that of the sample before, and only if they have rested for a minute. A prediction uses the
//!   highest rate of the last ten minutes, and for what is off the rate last seen.
//! - An instrument changes at most twice a minute: what has changed once in the last minute can only go to
//!   its lowest level, so no third change is needed.
//! - Where statements are sampled, the rate falls before any level does, and rises when no level is to.
//!   Levels are chosen as if the rate were the lowest; the rate gets the room that they leave. It rises at
//!   the earliest a minute after its last change.

mod asleep;
mod begun;
mod cause;
pub mod choice;
mod crowd;
mod decision;
mod follow;
mod machine;
mod memory;
mod plan;
mod rules;
pub mod sampling;
mod trial;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

pub use self::asleep::may_sleep;
use self::begun::Vain;
use self::cause::{Cause, Direction};
use self::choice::LevelChoice;
use self::crowd::Crowd;
pub use self::decision::{Decision, GovernorSample, Slowed};
use self::machine::MachineCosts;
use self::memory::{Likeness, RatesByLoad, SampledLoad};
use self::plan::{BudgetView, LevelPlan};
pub use self::rules::{CUT_TO, GovernorRules, RAISE_TO, REST, StatementSumsRule};
use self::sampling::{Resampled, SampleChance};
use self::trial::LevelTrial;
use crate::account::recording::{self, FamilyLevels, effective};
use crate::account::{CostAccount, InstrumentEvents, distance};
use crate::board::{Board, Move, Switch, Switched, losses, present};
use crate::connection::SECOND;
use crate::kind::{self, Level};
use crate::price::Prices;

/// Maximum number of attempts for a choice that puts further connections over their budget.
const TRIES: u32 = 4;

/// The governor. It remembers what it saw and what it changed. The present levels are passed to it each time.
#[derive(Clone, Debug)]
pub struct Governor {
    rules: GovernorRules,
    machine: MachineCosts,
    /// Costs for the distance of events in the last sample.
    now: Prices,
    memory: RatesByLoad,
    /// Memory of the slowest connections, per second of their CPU time.
    slow: RatesByLoad,
    changes: BTreeMap<String, VecDeque<Duration>>,
    before: Option<Likeness>,
    /// Time of the last trial.
    tried: Option<Duration>,
    /// Time of the last change of the sampling rate.
    resampled: Option<Duration>,
}

/// Everything that one sample sees.
struct Sight<'a> {
    board: &'a Board,
    look: &'a GovernorSample,
    load: SampledLoad,
    /// Connections, if there is a budget for them.
    crowd: Option<&'a Crowd>,
    /// State of sampling, while something is sampled.
    sampling: Option<SampleChance>,
    /// Costs while as few statements as possible are chosen.
    least: &'a Prices,
}

/// A choice of levels.
struct Chosen {
    plan: LevelPlan,
    choice: LevelChoice,
    /// Expected events, by place on the board.
    events: Vec<f64>,
}

impl Governor {
    /// Creates a governor.
    #[must_use]
    pub fn new(rules: GovernorRules, prices: Prices) -> Governor {
        let (memory, slow) = (RatesByLoad::default(), RatesByLoad::default());
        let (now, machine) = (prices.clone(), MachineCosts::new(prices));
        let changes = BTreeMap::new();
        Governor { rules, machine, now, memory, slow, changes, before: None, tried: None, resampled: None }
    }

    /// Replaces the rules from the next sample on.
    pub fn set_rules(&mut self, rules: GovernorRules) {
        self.rules = rules;
    }

    /// Returns the costs that were passed at the start, as measured.
    #[must_use]
    pub fn prices(&self) -> &Prices {
        self.machine.measured()
    }

    /// Takes a sample and returns what to do. Its moves count as changes, so the caller is expected to carry
    /// them out. The next board tells the levels that switches really have.
    pub fn look(&mut self, board: &Board, look: &GovernorSample) -> Decision {
        let load = SampledLoad { now: look.now, cpu: look.cpu, statements: look.statements };
        for switch in board.iter().filter(|it| it.present > Level::Off) {
            if let Switched::Instrument(_) = switch.of {
                self.memory.learn(&switch.name, events(look, &switch.name), load);
            }
        }
        self.machine.learn(look.work_ns);
        self.now = self.prices_of(board, look, load);
        let account = self.account(&self.now, board, look, load);
        let share = account.share().ns;
        let crowd = self.rules.budget_p95.and_then(|_| Crowd::of(board, &look.connections, look.cpu));
        let slowed = crowd.as_ref().map(|it| it.slowed(&prices_at(&self.now, board, &present(board))).0);
        let is_calm = self.before.replace(load.likeness()).is_some_and(|it| it.is_like(load.likeness()));
        let cause = self.cause(share, slowed);
        let slowed = slowed.map(|share| Slowed { share, predicted: share });
        let mut decision = Decision::nothing(account, slowed);
        if look.cpu <= 0.0 {
            return decision;
        }
        let sampling = look.sampling.filter(|it| it.seconds > 0.0 && sampling::may_be_any(board));
        let least = self.now.choosing(sampling.map_or(1.0, |it| it.least_part(look.statements)));
        let sight = Sight { board, look, load, crowd: crowd.as_ref(), sampling, least: &least };
        if cause.course() == Direction::Cut {
            self.cut(&sight, cause, &mut decision);
        }
        // Even if connections stay slow whatever is done, what does not slow them may come back.
        let is_over = matches!(cause, Cause::Over { .. });
        let is_less = losses(board) > 0 || sampling.is_some_and(|it| it.rate < it.most);
        if !is_over && decision.moves.is_empty() && decision.resampled.is_none() && is_calm && is_less {
            self.raise(&sight, Cause::Room { share, budget: self.rules.budget }, &mut decision);
        }
        let follow = self.followers(&sight, &decision);
        decision.moves.extend(follow);
        if decision.moves.is_empty() && decision.resampled.is_none() && is_calm {
            let trial = self.trial(&sight);
            decision.moves.extend(trial);
        }
        decision.moves.sort_by(|a, b| b.why.share().total_cmp(&a.why.share()));
        for it in &decision.moves {
            let changes = self.changes.entry(it.switch.clone()).or_default();
            changes.retain(|at| look.now.saturating_sub(*at) < REST);
            changes.push_back(look.now);
        }
        self.resampled = decision.resampled.map(|_| look.now).or(self.resampled);
        decision
    }

    /// Returns the moves that follow from a decision: of the abstract instruments, and of kinds with hardly
    /// anything left on.
    fn followers(&mut self, sight: &Sight<'_>, decision: &Decision) -> Vec<Move> {
        let Sight { board, look, load, .. } = *sight;
        let counted = |it: &Switch| self.memory.predict(&it.name, load).unwrap_or(0.0);
        let costs = begun::cost(self.machine.prices(), board, counted) * look.statements / look.cpu;
        let is_kept = self.rules.statements == StatementSumsRule::Kept;
        let vain = Vain { costs, budget: self.rules.budget, statements: look.statements, is_kept };
        let mut moves = begun::moves(board, decision, vain, counted);
        moves.extend(asleep::moves(&self.now, board, decision, (vain.budget, look.cpu), counted));
        moves.retain(|it| self.recent_changes(&it.switch, look.now) < if it.to > it.from { 1 } else { 2 });
        moves
    }

    /// Returns a trial: something that is off and whose events nobody has seen for long.
    fn trial<'a>(&mut self, sight: &Sight<'a>) -> Option<Move> {
        let Sight { board, look, load, .. } = *sight;
        if self.tried.is_some_and(|at| look.now.saturating_sub(at) < REST) {
            return None;
        }
        let of = |switch: &'a Switch| {
            let Switched::Instrument(kind) = switch.of else { return None };
            let ago = look.now.saturating_sub(self.memory.last_seen(&switch.name, load)?);
            if !trial::is_due(ago) {
                return None;
            }
            let to = *self
                .allowed(switch, look.now, Direction::Raise, false)
                .iter()
                .find(|it| **it > Level::Off)?;
            let more = self.now.cost(kind, to).ns - self.now.cost(kind, Level::Off).ns;
            let costs = more * self.unseen(switch, load) / look.cpu;
            Some(LevelTrial { switch: &switch.name, kind, to, ago, costs })
        };
        let off = board.iter().filter(|it| it.present == Level::Off);
        let trial = trial::of(board, off.filter_map(of), self.rules.budget);
        self.tried = trial.as_ref().map(|_| look.now).or(self.tried);
        trial
    }

    /// Decides what to give up.
    fn cut(&mut self, sight: &Sight<'_>, cause: Cause, decision: &mut Decision) {
        let Sight { board, look, crowd, .. } = *sight;
        let chosen = self.choose(sight, cause);
        let Chosen { plan, choice, .. } = &chosen;
        decision.moves = plan.moves(board, choice, cause);
        decision.resampled = self.rate(sight, &chosen, cause, !decision.moves.is_empty());
        let (part, more) = self.more(sight, &chosen, decision.resampled);
        decision.predicted = (choice.cost + self.fixed(look) + more) / look.cpu;
        decision.can_be_kept = decision.predicted <= self.rules.budget;
        if let (Some(slowed), Some(crowd)) = (&mut decision.slowed, crowd) {
            let prices = self.now.choosing(part);
            slowed.predicted = crowd.slowed(&prices_at(&prices, board, &plan.levels(board, choice))).0;
            let is_kept = self.rules.budget_p95.is_none_or(|budget| slowed.predicted <= budget);
            // Connections that were not considered are considered by the next sample.
            decision.can_be_kept &= is_kept || choice.fits;
        }
    }

    /// Decides what to give back.
    fn raise(&mut self, sight: &Sight<'_>, cause: Cause, decision: &mut Decision) {
        let chosen = self.choose(sight, cause);
        if !chosen.choice.fits {
            return;
        }
        if chosen.choice.loss < losses(sight.board) {
            decision.moves = chosen.plan.moves(sight.board, &chosen.choice, cause);
        }
        decision.resampled = self.rate(sight, &chosen, cause, !decision.moves.is_empty());
    }

    /// Returns the change to the rate that the levels leave room for; `None`: it stays.
    fn rate(&self, sight: &Sight<'_>, chosen: &Chosen, cause: Cause, is_moved: bool) -> Option<Resampled> {
        let (sampling, statements) = (sight.sampling?, sight.look.statements);
        let part = self.part_within(sight, chosen, cause);
        // If statements are few, every one is chosen, whatever the rate.
        let is_vain = sight.least.chosen >= 1.0;
        let to = match cause.course() {
            Direction::Cut if is_moved => sampling.lowered(0.0, statements)?,
            Direction::Cut if is_vain => return None,
            Direction::Cut => sampling.lowered(part, statements)?,
            // What comes back takes the room of chosen statements.
            Direction::Raise if part < sampling.chosen && is_moved => sampling.lowered(part, statements)?,
            Direction::Raise if is_vain && chosen.choice.loss > 0 => return None,
            Direction::Raise if sampling::has_rested(self.resampled, sight.look.now) => {
                sampling.raised(part, statements)?
            }
            Direction::Raise => return None,
        };
        let after =
            sampling.part_after(Some(Resampled { from: sampling.rate, to, why: cause.why(0.0) }), statements);
        let change = self.varying(sight, chosen) * (after - sampling.chosen) / sight.look.cpu;
        Some(Resampled { from: sampling.rate, to, why: cause.why(change) })
    }

    /// Returns the largest part of statements that may be chosen.
    fn part_within(&self, sight: &Sight<'_>, chosen: &Chosen, cause: Cause) -> f64 {
        let Sight { board, look, crowd, least, .. } = *sight;
        let part = if cause.course() == Direction::Cut { CUT_TO } else { RAISE_TO };
        let room = self.rules.budget * part * look.cpu - chosen.choice.cost - self.fixed(look);
        let varying = self.varying(sight, chosen).max(f64::MIN_POSITIVE);
        let within = (least.chosen + room / varying).clamp(least.chosen, 1.0);
        let (Some(budget), Some(crowd)) = (self.rules.budget_p95, crowd) else { return within };
        let levels = chosen.plan.levels(board, &chosen.choice);
        let slowed = |part: f64| crowd.slowed(&prices_at(&self.now.choosing(part), board, &levels)).0;
        sampling::largest_within(least.chosen, within, budget * part, slowed)
    }

    /// Returns the part of statements chosen after the change of the rate, and the extra cost of events
    /// compared with the lowest rate.
    fn more(&self, sight: &Sight<'_>, chosen: &Chosen, resampled: Option<Resampled>) -> (f64, f64) {
        let Some(sampling) = sight.sampling else { return (1.0, 0.0) };
        let part = sampling.part_after(resampled, sight.look.statements);
        (part, self.varying(sight, chosen) * (part - sight.least.chosen))
    }

    fn varying(&self, sight: &Sight<'_>, chosen: &Chosen) -> f64 {
        let levels = chosen.plan.levels(sight.board, &chosen.choice);
        sampling::varying(&self.now, sight.board, &levels, &chosen.events)
    }

    /// Returns what has to be done, and why.
    fn cause(&self, share: f64, slowed: Option<f64>) -> Cause {
        let budget = self.rules.budget;
        match (slowed, self.rules.budget_p95) {
            _ if share > budget => Cause::Over { share, budget },
            (Some(share), Some(budget)) if share > budget => Cause::Slow { share, budget },
            _ => Cause::Room { share, budget },
        }
    }

    /// Chooses levels. Where statements are given up last, that happens only if nothing fits otherwise.
    fn choose(&mut self, sight: &Sight<'_>, cause: Cause) -> Chosen {
        let kept = self.choose_of(sight, cause, self.rules.statements != StatementSumsRule::ByWorth);
        if self.rules.statements != StatementSumsRule::Last || kept.choice.fits {
            return kept;
        }
        self.choose_of(sight, cause, false)
    }

    /// Chooses levels, repeatedly for more connections while the choice leaves some over their budget.
    fn choose_of(&mut self, sight: &Sight<'_>, cause: Cause, are_kept: bool) -> Chosen {
        let Sight { board, look, load, crowd, least, .. } = *sight;
        let course = cause.course();
        let allowed: Vec<Vec<Level>> =
            board.iter().map(|switch| self.allowed(switch, look.now, course, are_kept)).collect();
        let expected: Vec<f64> =
            board.iter().map(|switch| self.expected(switch, look, load, course)).collect();
        let (cpu, fixed, connected) = (look.cpu, self.fixed(look), look.connected);
        let all = BudgetView { cpu, fixed, connected, budget: self.rules.budget, events: expected.clone() };
        let part = if course == Direction::Cut { CUT_TO } else { RAISE_TO };
        let mut views = vec![all];
        let Some(budget) = self.rules.budget_p95 else {
            let (plan, choice) = planned(sight, &views, &allowed, part, cause);
            return Chosen { plan, choice, events: expected };
        };
        let mut slowest = crowd.map(|it| it.slowed(&prices_at(least, board, &present(board))));
        let now = slowest.filter(|_| course == Direction::Raise).map_or(0.0, |it| it.0);
        let limit = (budget * part).max(now);
        for tries in 1.. {
            let events = self.events_of_slowest(board, load, crowd.zip(slowest), course);
            views.push(BudgetView { cpu: SECOND, fixed: 0.0, connected: 0.0, budget, events });
            let (plan, mut choice) = planned(sight, &views, &allowed, part, cause);
            let prices = prices_at(least, board, &plan.levels(board, &choice));
            slowest = crowd.map(|it| it.slowed(&prices)).filter(|it| it.0 > limit);
            if slowest.is_some() && choice.fits && tries < TRIES {
                continue;
            }
            // A raise never includes what is known to be too much.
            choice.fits &= slowest.is_none() || course == Direction::Cut;
            return Chosen { plan, choice, events: expected };
        }
        unreachable!("the last try returns")
    }

    /// Returns the events of the slowest connection per second of its CPU time, and remembers them. For a
    /// raise: at least the most that such connections had of late.
    fn events_of_slowest(
        &mut self,
        board: &Board,
        load: SampledLoad,
        slowest: Option<(&Crowd, (f64, usize))>,
        course: Direction,
    ) -> Vec<f64> {
        let load = load.of_a_second();
        let seen = slowest.map(|(crowd, (_, nth))| crowd.in_a_second(nth, board.len()));
        let mut events = seen.unwrap_or_else(|| vec![0.0; board.len()]);
        for (switch, events) in board.iter().zip(&mut events) {
            if switch.present > Level::Off && slowest.is_some() {
                self.slow.learn(&switch.name, *events, load);
            }
            if course == Direction::Raise {
                *events = events.max(self.slow.predict(&switch.name, load).unwrap_or(0.0));
            }
        }
        events
    }

    /// Returns the account only. Nothing is remembered or decided.
    #[must_use]
    pub fn account_of(&self, board: &Board, look: &GovernorSample) -> CostAccount {
        let load = SampledLoad { now: look.now, cpu: look.cpu, statements: look.statements };
        self.account(&self.prices_of(board, look, load), board, look, load)
    }

    /// Returns the costs for the distance that events have, or would have if all were on: that belongs to the
    /// load, whatever is off.
    fn prices_of(&self, board: &Board, look: &GovernorSample, load: SampledLoad) -> Prices {
        let had = |switch: &Switch| match switch.of {
            Switched::Instrument(kind) if switch.present > Level::Off => {
                Some((kind, events(look, &switch.name)))
            }
            Switched::Instrument(kind) => Some((kind, self.memory.recall(&switch.name, load)?)),
            Switched::Recording(_) | Switched::Rest(_) => None,
        };
        let apart = distance(board.iter().filter_map(had), look.cpu);
        let here = self.machine.at(look.work_ns);
        let prices = if look.is_capacity { here } else { here.at_distance(apart) };
        let chosen = look.sampling.map_or(1.0, |it| it.chosen);
        begun::prices(prices, board).choosing(chosen)
    }

    /// Returns the cost that no level saves: sampling the server, and connections with everything off.
    fn fixed(&self, look: &GovernorSample) -> f64 {
        look.own + self.now.connection.off.ns * look.connected
    }

    /// Returns the account: instruments that are on by their events, those that are off by what they would
    /// have had.
    fn account(
        &self,
        prices: &Prices,
        board: &Board,
        look: &GovernorSample,
        load: SampledLoad,
    ) -> CostAccount {
        let recording = FamilyLevels::of(board, &present(board));
        let entries = board.iter().filter_map(|switch| {
            let Switched::Instrument(kind) = switch.of else { return None };
            let is_off = switch.present == Level::Off;
            let events = if is_off { self.unseen(switch, load) } else { events(look, &switch.name) };
            let recording = recording.of_kind(kind);
            let level = effective(switch.present, recording);
            Some(InstrumentEvents { name: switch.name.clone(), kind, level, recording, events })
        });
        let prices = asleep::prices(prices, board, Direction::Cut);
        CostAccount::of(&prices, entries.collect(), look.connected, look.cpu, look.own)
    }

    /// Returns how often a switch has changed in the last minute.
    fn recent_changes(&self, switch: &str, now: Duration) -> usize {
        let recent = |at: &&Duration| now.saturating_sub(**at) < REST;
        self.changes.get(switch).map_or(0, |changes| changes.iter().filter(recent).count())
    }

    /// Returns the levels that a switch may get now, in ascending order, its present one included. With
    /// `are_kept` statements must not be given up.
    fn allowed(&self, switch: &Switch, now: Duration, course: Direction, are_kept: bool) -> Vec<Level> {
        let only_present = vec![switch.present];
        if switch.held.is_some() || kind::is_beginning(&switch.name) {
            return only_present;
        }
        let least = if are_kept { StatementSumsRule::least(switch) } else { Level::Off };
        let recent = self.recent_changes(&switch.name, now);
        let mut levels: Vec<Level> = switch.levels.iter().copied().filter(|it| *it >= least).collect();
        let lowest = levels.first().copied();
        levels.retain(|it| match (course, recent) {
            (Direction::Raise, 0) => true,
            // Sampled events may cost next to nothing under another load than the one they were given up
            // under.
            (Direction::Cut, 0) => *it < switch.present || sampling::is_estimated(switch, *it).is_some(),
            (Direction::Cut, 1) => *it < switch.present && Some(*it) == lowest,
            _ => false,
        });
        levels.push(switch.present);
        levels.sort_unstable();
        levels.dedup();
        levels
    }
}

/// Makes the plan and the choice.
fn planned(
    sight: &Sight<'_>,
    views: &[BudgetView],
    allowed: &[Vec<Level>],
    part: f64,
    cause: Cause,
) -> (LevelPlan, LevelChoice) {
    let prices = match sight.sampling {
        // What was sampled may wake up.
        Some(_) => sight.least.clone(),
        None => asleep::prices(sight.least, sight.board, cause.course()),
    };
    let plan = LevelPlan::new(&prices, sight.board, views, allowed);
    let choice = choice::best_of(&plan.bounds(sight.board, part, cause));
    (plan, choice)
}

/// Returns the cost per event in nanoseconds at these levels, by place on the board; 0 where it is off.
fn prices_at(prices: &Prices, board: &Board, levels: &[Level]) -> Vec<f64> {
    let recording = FamilyLevels::of(board, levels);
    let of = |(switch, level): (&Switch, &Level)| match switch.of {
        Switched::Instrument(kind) if *level > Level::Off => {
            recording::cost(prices, kind, *level, recording.of_kind(kind)).ns
        }
        _ => 0.0,
    };
    board.iter().zip(levels).map(of).collect()
}

fn events(look: &GovernorSample, name: &str) -> f64 {
    look.events.get(name).copied().unwrap_or(0.0)
}

impl Governor {
    /// Returns the events of something that is off: those it had when last seen.
    fn unseen(&self, switch: &Switch, load: SampledLoad) -> f64 {
        self.memory.recall(&switch.name, load).unwrap_or(0.0)
    }

    /// Returns the events by which a switch is judged. For a raise: the most there were of late.
    fn expected(&self, switch: &Switch, look: &GovernorSample, load: SampledLoad, course: Direction) -> f64 {
        let seen = events(look, &switch.name);
        match (switch.present, course) {
            (Level::Off, _) => self.unseen(switch, load),
            (_, Direction::Raise) => seen.max(self.memory.predict(&switch.name, load).unwrap_or(0.0)),
            (_, Direction::Cut) => seen,
        }
    }
}
