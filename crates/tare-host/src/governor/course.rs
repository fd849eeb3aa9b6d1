//! Tests of the governor on an engine whose events are counted one by one, at times that the test sets.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use tare_budget::board::Why;
use tare_budget::{Budget, Kind, Level, Prices, Resampled};
use tare_engine::snapshot::{ClassId, EventType, Kind as InstrumentKind, Properties, Reset};
use tare_engine::{Recording, Registration, SampleRate, ThreadRef};
use tare_rig::{IDLE, MUTEX, Rig, STAGE, STATEMENT, small};

use super::Governed;
use super::watch::{Budgets, GovernorWatch, SampleFindings, SampleStart};

/// Returns the same prices for all kinds, high enough that a test needs few events.
fn prices() -> Prices {
    let mut text =
        "[origin]\nprovider = \"tare\"\nserver = \"-\"\nmachine = \"-\"\nmeasured = true\nhow = \"-\"\n"
            .to_owned();
    for kind in Kind::ALL {
        writeln!(text, "[price.{kind}]").unwrap();
        for (level, ns) in [("off", 10), ("counts", 100), ("sums", 300), ("lean", 500), ("exact", 1000)] {
            writeln!(text, "{level} = {{ ns = {ns}, low = {ns}, high = {ns} }}").unwrap();
        }
    }
    Prices::read(&text).unwrap()
}

/// A server whose sessions have counters.
struct Counted;

impl Governed for Counted {}

/// A governor that samples every five seconds, with the same CPU time used in each interval.
struct Scenario {
    rig: Rig,
    watch: GovernorWatch,
    at: SampleStart,
    questions: u64,
    budgets: Budgets,
}

const LOCKS: &str = "wait/lock/metadata/sql/mdl";
const EVERY: Duration = Duration::from_secs(5);
const USED: Duration = Duration::from_millis(60);

impl Scenario {
    fn new(budget: &str) -> Scenario {
        let rig = Rig::with(small());
        let thread = rig.connect();
        rig.set_thread_account(thread, b"a", b"h");
        rig.begin_session(thread, thread.thread_id());
        let budgets = Budgets { all: Budget::read(budget), p95: None, is_strict: false };
        let watch = GovernorWatch::new(prices(), &Counted, |_| None, Duration::ZERO);
        let mut course = Scenario { rig, watch, at: SampleStart::default(), questions: 0, budgets };
        course.set_all(Recording::Lean);
        course.ask(0);
        course.watch.begin(&rig, course.at, budgets);
        course
    }

    fn ask(&mut self, questions: u64) {
        self.questions += questions;
        let thread = self.rig.current_thread().unwrap().thread_id();
        self.rig.host.sessions.lock().unwrap().insert(thread, vec![self.questions, 0]);
    }

    /// Produces the events of one interval.
    fn load(&mut self, mutexes: usize, stages: usize, statements: u64) {
        let rig = self.rig;
        for _ in 0..mutexes {
            rig.wait(rig.class.mutex);
        }
        for _ in 0..stages {
            rig.stage(rig.class.stage);
        }
        for _ in 0..statements {
            rig.query("SELECT 1");
        }
        self.ask(statements);
    }

    fn look(&mut self) -> SampleFindings {
        self.at.now += EVERY;
        self.at.cpu += USED;
        self.watch.look(&self.rig, self.at, self.budgets)
    }

    fn step(&mut self, mutexes: usize, stages: usize, statements: u64) -> SampleFindings {
        self.load(mutexes, stages, statements);
        self.look()
    }

    /// Registers another instrument.
    fn register(&self, kind: InstrumentKind, name: &'static str) {
        self.rig.register(Registration { kind, name, properties: Properties::default() });
        self.rig.set_levels(&[(self.id(name), Some(Recording::Lean), false)]);
    }

    /// Sets all instruments to this level.
    fn set_all(&self, level: Recording) {
        let all: Vec<_> = self.rig.instruments().iter().map(|it| (it.id, Some(level), false)).collect();
        self.rig.set_levels(&all);
    }

    fn setting(&self, name: &str) -> Option<Recording> {
        let found = self.rig.instruments().into_iter().find(|it| it.name == name).unwrap();
        found.enabled.then_some(found.level)
    }

    fn id(&self, name: &str) -> ClassId {
        self.rig.instruments().into_iter().find(|it| it.name == name).unwrap().id
    }

    fn share(&self, seen: &SampleFindings) -> f64 {
        seen.account.share().ns / self.budgets.all.unwrap().share()
    }
}

#[test]
fn the_account_is_events_times_price_over_cpu_time() {
    let mut course = Scenario::new("100%");
    let seen = course.step(1000, 10, 5);
    let of = |name: &str| {
        let share = seen.account.shares.iter().find(|it| it.entry.name == name).unwrap();
        (share.entry.level, share.entry.events)
    };
    assert_eq!(of(MUTEX), (Level::Lean, 1000.0));
    assert_eq!(of(STAGE), (Level::Lean, 9.0), "the last one goes on");
    assert_eq!(of(STATEMENT), (Level::Lean, 5.0));
    assert_eq!(of(LOCKS), (Level::Lean, 5.0), "each statement is taken for a transaction that makes one");
    assert!((seen.account.share().ns - 1019.0 * 500.0 / 60e6).abs() < 1e-12);
    assert!(seen.moves.is_empty() && seen.cut.is_empty() && seen.can_be_kept);
}

#[test]
fn a_load_that_changes_is_over_budget_for_one_look_and_nothing_flaps() {
    let mut course = Scenario::new("1%");
    let mut changes: BTreeMap<String, Vec<Duration>> = BTreeMap::new();
    let (mut raises, mut levels) = (0, BTreeMap::new());
    for look in 0..120 {
        let is_first = look / 6 % 2 == 0;
        let seen = if is_first { course.step(3000, 100, 30) } else { course.step(100, 3000, 1) };
        if look % 6 > 0 {
            assert!(course.share(&seen) <= 1.0, "look {look}: {seen:?}");
        }
        for it in &seen.moves {
            // There is exactly one row for every change.
            let known = levels.insert(it.switch.clone(), it.to).unwrap_or(Level::Lean);
            assert_eq!(known, it.from, "{it:?}");
            changes.entry(it.switch.clone()).or_default().push(course.at.now);
            raises += usize::from(matches!(it.why, Why::Room { .. }));
        }
        for (name, level) in &levels {
            let set = course.setting(name).map_or(Level::Off.name(), Recording::name);
            assert_eq!(set, level.name(), "{name}, look {look}");
        }
    }
    assert!(changes.contains_key(MUTEX) && changes.contains_key(STAGE), "{changes:?}");
    assert!(raises > 0, "what there is room for comes back");
    for (name, times) in changes {
        let in_a_minute =
            |from: &Duration| times.iter().filter(|it| *it >= from && **it - *from < 12 * EVERY).count();
        assert!(times.iter().all(|from| in_a_minute(from) <= 2), "{name}: {times:?}");
    }
}

#[test]
fn what_a_person_has_set_stays_and_is_said_to_be_in_the_way() {
    let mut course = Scenario::new("1%");
    course.rig.set_level(course.id(MUTEX), Some(Recording::Exact));
    let seen = course.step(3000, 3000, 10);
    assert_eq!(course.setting(MUTEX), Some(Recording::Exact));
    assert!(seen.moves.iter().any(|it| it.switch == STAGE) && seen.moves.iter().all(|it| it.switch != MUTEX));
    assert!(!seen.can_be_kept);
    assert!((seen.by_persons - 3000.0 * 1000.0 / 60e6).abs() < 1e-12, "{seen:?}");
    // A released instrument belongs to the governor.
    course.rig.set_held(course.id(MUTEX), false);
    let seen = course.step(3000, 3000, 10);
    assert!(seen.moves.iter().any(|it| it.switch == MUTEX) && seen.can_be_kept, "{seen:?}");
    assert!(seen.by_persons.abs() < 1e-12);
}

#[test]
fn what_somebody_sets_between_a_look_and_its_moves_is_not_overwritten_nor_put_back() {
    let mut course = Scenario::new("1%");
    course.step(3000, 3000, 10);
    let cut = course.setting(STAGE);
    assert!(cut < Some(Recording::Lean), "{cut:?}");
    course.rig.set_level(course.id(STAGE), Some(Recording::Sums));
    course.step(3000, 3000, 10);
    assert_eq!(course.setting(STAGE), Some(Recording::Sums));
    assert!(course.watch.put_back(&course.rig) > 0);
    assert_eq!(course.setting(STAGE), Some(Recording::Sums), "a person's");
    assert_eq!(course.setting(MUTEX), Some(Recording::Lean), "as it was");
    assert_eq!(course.watch.put_back(&course.rig), 0, "once");
}

/// Samples a thousand statements a second, of which `stages` had stages; the engine samples every statement.
fn sampled(budget: &str, stages: usize) -> (Scenario, SampleFindings) {
    let mut course = Scenario::new(budget);
    course.set_all(Recording::Sampled);
    // The metadata locks are not part of the test; there would be one per statement.
    course.rig.set_levels(&[(course.id(LOCKS), None, false)]);
    course.load(0, stages, 10);
    course.ask(4990);
    let seen = course.look();
    (course, seen)
}

#[test]
fn the_rate_falls_before_any_level_does() {
    let (mut course, seen) = sampled("1%", 3000);
    // 3,000 stages cost 490 ns more if they are recorded; statements and calls of disabled instruments cost
    // 33 of the 540 microseconds.
    let Resampled { from, to, why } = seen.resampled.unwrap();
    assert!(from == 1000.0 && (300.0..400.0).contains(&to), "{from} {to}");
    assert!(matches!(why, Why::Over { saves, .. } if saves > 0.01), "{why}");
    assert!(seen.moves.is_empty() && seen.can_be_kept && seen.predicted <= 0.01, "{seen:?}");
    let state = course.rig.sampling();
    assert_eq!((state.rate, state.rate_now), (SampleRate::PerSecond(1000), SampleRate::PerSecond(to as u32)));
    let of = seen.account.shares.iter().find(|it| it.entry.name == STAGE).unwrap();
    assert_eq!((of.entry.level, of.entry.level.name()), (Level::Sampled, "sampled"));
    course.watch.put_back(&course.rig);
    assert_eq!(course.rig.sampling().rate_now, SampleRate::PerSecond(1000));
}

#[test]
fn statements_stay_whatever_the_budget_unless_it_is_strict() {
    let (course, seen) = sampled("0.001%", 3000);
    assert_eq!(course.rig.sampling().rate_now, SampleRate::PerSecond(10));
    assert_eq!(
        course.setting(STATEMENT),
        Some(Recording::Sampled),
        "of one that is not chosen sums are kept"
    );
    assert!(!seen.can_be_kept && seen.predicted > 0.0, "{seen:?}");
    let text = super::shown::over(&seen, course.budgets);
    assert!(text.starts_with("cannot be kept: what is always counted costs 0."), "{text}");
    let (mut course, _) = sampled("100%", 3000);
    course.budgets = Budgets { all: Budget::read("0.001%"), is_strict: true, ..course.budgets };
    course.load(0, 3000, 10);
    course.ask(4990);
    let seen = course.look();
    assert_eq!(course.setting(STATEMENT), None, "{seen:?}");
    let text = super::shown::over(&seen, course.budgets);
    assert!(text.contains("is left when all is given up that may be"), "{text}");
}

#[test]
fn what_was_sampled_comes_back_so() {
    let mut course = Scenario::new("1%");
    course.set_all(Recording::Sampled);
    // With six statements a second no rate is too low to sample each of them.
    let seen = course.step(3000, 3000, 30);
    assert!(seen.moves.iter().any(|it| it.from == Level::Sampled && it.switch == STAGE), "{seen:?}");
    assert!(course.setting(STAGE) < Some(Recording::Sampled));
    assert!(seen.moves.iter().all(|it| it.to < Level::Sampled), "{seen:?}");
    course.budgets.all = Budget::read("100%");
    for _ in 0..30 {
        course.step(1, 1, 30);
    }
    for it in course.rig.instruments() {
        assert_eq!((it.enabled, it.level), (true, Recording::Sampled), "{}", it.name);
    }
    assert_eq!(course.rig.sampling().rate_now, SampleRate::PerSecond(1000));
}

#[test]
fn a_kind_that_was_sampled_sleeps_and_wakes_so() {
    const RARE: &str = "stage/sql/rare";
    let mut course = Scenario::new("0.01%");
    course.register(InstrumentKind::Stage, RARE);
    course.set_all(Recording::Sampled);
    let seen = course.step(0, 3000, 30);
    let row = seen.moves.iter().find(|it| it.switch == "stage, all others").unwrap();
    assert_eq!((row.from, row.to), (Level::Sampled, Level::Off));
    assert_eq!([STAGE, RARE].map(|name| course.setting(name)), [None; 2]);
    course.budgets.all = Budget::read("100%");
    for _ in 0..15 {
        course.step(0, 3000, 30);
    }
    assert_eq!([STAGE, RARE].map(|name| course.setting(name)), [Some(Recording::Sampled); 2]);
}

/// Sets levels like the row `level` of `tare_status` without a pattern.
#[test]
fn what_a_person_sets_without_holding_it_is_the_highest_it_has() {
    let mut course = Scenario::new("1%");
    course.step(3000, 3000, 10);
    let cut = course.setting(STAGE);
    assert!(cut < Some(Recording::Lean), "{cut:?}");
    course.rig.set_levels(&[(course.id(STAGE), None, false), (course.id(MUTEX), None, false)]);
    // There is room for everything now.
    for _ in 0..30 {
        course.step(0, 0, 1);
    }
    assert_eq!((course.setting(STAGE), course.setting(MUTEX)), (None, None), "nothing brings them back");
    course.watch.put_back(&course.rig);
    assert_eq!((course.setting(STAGE), course.setting(MUTEX)), (None, None));
}

#[test]
fn a_budget_that_cannot_be_kept_takes_nearly_everything_and_says_so() {
    let mut course = Scenario::new("0.01%");
    let seen = course.step(3000, 3000, 30);
    assert!(!seen.can_be_kept);
    assert_eq!(course.setting(MUTEX), None);
    assert_eq!(course.setting(STAGE), None);
    let cut: usize = seen.cut.values().sum();
    assert!(cut >= 3, "{:?}", seen.cut);
    // The calls of a disabled instrument are not counted any more, but are still in the account.
    let seen = course.step(3000, 3000, 30);
    let off = seen.account.shares.iter().find(|it| it.entry.name == MUTEX).unwrap();
    assert_eq!((off.entry.level, off.entry.events), (Level::Off, 3000.0));
}

/// Checks the beginnings of statements, which have no events of their own: their level follows that of the
/// statements.
#[test]
fn statements_are_not_begun_in_vain_where_the_budget_cannot_be_kept_otherwise() {
    const BEGINNING: &str = "statement/abstract/new_packet";
    let mut course = Scenario::new("0.01%");
    course.budgets.is_strict = true;
    course.register(InstrumentKind::Statement, BEGINNING);
    let settings = |course: &Scenario| [STATEMENT, BEGINNING].map(|name| course.setting(name));
    course.step(0, 0, 3000);
    assert_eq!(settings(&course), [None; 2]);
    course.budgets.all = Budget::read("100%");
    for _ in 0..15 {
        course.step(0, 0, 3000);
    }
    assert_eq!(settings(&course), [Some(Recording::Lean); 2]);
    let moved = course.step(0, 0, 3000).account.shares.into_iter().find(|it| it.entry.name == BEGINNING);
    assert!(moved.is_none_or(|it| it.entry.events == 0.0));
}

/// Checks that, if the budget cannot be kept, instruments without events are switched off with their kind's
/// others, and come back before those.
#[test]
fn a_kind_of_which_nothing_is_left_sleeps_and_wakes() {
    const RARE: &str = "stage/sql/rare";
    let mut course = Scenario::new("0.01%");
    course.register(InstrumentKind::Stage, RARE);
    let settings = |course: &Scenario| [STAGE, RARE].map(|name| course.setting(name));
    let seen = course.step(0, 3000, 30);
    assert_eq!(settings(&course), [None; 2]);
    let row = seen.moves.iter().find(|it| it.switch == "stage, all others").unwrap();
    assert_eq!((row.from, row.to), (Level::Lean, Level::Off));
    assert_eq!(seen.asleep, [Kind::Stage]);
    assert!(course.step(0, 3000, 30).moves.is_empty());
    // A person enables one: the kind is awake then, and its remaining instruments are off one by one.
    course.rig.set_level(course.id(RARE), Some(Recording::Sums));
    for _ in 0..15 {
        course.step(0, 3000, 30);
    }
    assert_eq!(settings(&course), [None, Some(Recording::Sums)]);
    course.rig.set_level(course.id(RARE), Some(Recording::Lean));
    course.rig.set_held(course.id(RARE), false);
    course.step(0, 3000, 30);
    assert_eq!(settings(&course), [None; 2]);
    course.budgets.all = Budget::read("100%");
    for _ in 0..15 {
        course.step(0, 3000, 30);
    }
    assert_eq!(settings(&course), [Some(Recording::Lean); 2]);
    // Sleeping instruments are restored with all others.
    course.budgets.all = Budget::read("0.01%");
    course.step(0, 3000, 30);
    assert_eq!(settings(&course), [None; 2]);
    course.watch.put_back(&course.rig);
    assert_eq!(settings(&course), [Some(Recording::Lean); 2]);
}

#[test]
fn truncated_summaries_and_consumers_that_are_off_are_no_events_and_no_records() {
    let mut course = Scenario::new("100%");
    course.step(1000, 0, 1);
    course.rig.reset(Reset::Summary(EventType::Wait, tare_engine::snapshot::Grouping::Global));
    let seen = course.step(10, 0, 1);
    let mutex = seen.account.shares.iter().find(|it| it.entry.name == MUTEX).unwrap();
    assert!((mutex.entry.events - 10.0).abs() < 1e-9, "{mutex:?}");
    course.rig.set_consumer(tare_engine::snapshot::Consumer::EventsWaitsCurrent, false);
    let seen = course.step(10, 0, 1);
    let mutex = seen.account.shares.iter().find(|it| it.entry.name == MUTEX).unwrap();
    assert_eq!(mutex.entry.level, Level::Sums, "that is what is kept of it");
    assert_eq!(course.setting(MUTEX), Some(Recording::Lean), "and that is its setting");
}

#[test]
fn nothing_is_decided_about_an_idle_server() {
    let mut course = Scenario::new("1%");
    course.load(3000, 3000, 10);
    course.at.now += Duration::from_secs(600);
    let seen = course.look();
    assert!(seen.is_idle && seen.moves.is_empty() && course.share(&seen) > 1.0);
    assert_eq!(course.setting(IDLE), Some(Recording::Lean));
}

#[test]
fn a_first_look_without_a_budget_is_as_long_as_the_server_is_up_not_its_machine() {
    let mut course = Scenario::new("1%");
    let start = Duration::from_secs(86_400);
    course.watch = GovernorWatch::new(prices(), &Counted, |_| None, start);
    course.budgets = Budgets::default();
    course.at = SampleStart { now: start, cpu: Duration::ZERO };
    assert_eq!(course.watch.last(), None, "no sample yet");
    let seen = course.step(10, 0, 1);
    assert_eq!(seen.elapsed, EVERY);
    assert!(!seen.is_idle && (seen.account.cpu - 60e6).abs() < 1.0, "{seen:?}");
    assert_eq!(course.watch.last(), Some(course.at));
}

#[test]
fn a_look_is_due_when_a_tenth_of_the_budget_has_paid_for_the_last() {
    let mut course = Scenario::new("1%");
    assert!(course.watch.is_due(course.at, course.budgets), "nobody knows what one takes");
    course.step(10, 0, 1);
    course.watch.took(Duration::from_millis(1));
    let after = |cpu| SampleStart { cpu: course.at.cpu + cpu, ..course.at };
    assert!(!course.watch.is_due(after(Duration::from_millis(999)), course.budgets));
    assert!(course.watch.is_due(after(Duration::from_millis(1001)), course.budgets));
    let seen = course.step(10, 0, 1);
    assert!((seen.account.own - 1e6).abs() < 1.0, "its own cost is in the account");
}

thread_local! {
    /// The CPU time that threads have used, by THREAD_OS_ID.
    static THREADS_USED: RefCell<BTreeMap<u64, Duration>> = RefCell::default();
}

/// Two connections: one has stages, the other waits. Each sample sees the CPU time they have used.
struct ConnectionPair {
    course: Scenario,
    threads: [ThreadRef; 2],
}

impl ConnectionPair {
    fn new(p95: &str) -> ConnectionPair {
        let mut course = Scenario::new("100%");
        course.budgets = Budgets { all: None, p95: Budget::read(p95), is_strict: false };
        let clock = |os_id: u64| THREADS_USED.with_borrow(|used| used.get(&os_id).copied());
        course.watch = GovernorWatch::new(prices(), &Counted, clock, Duration::ZERO);
        let threads = [course.rig.thread(), course.rig.thread()];
        threads.iter().zip(1..).for_each(|(thread, os_id)| course.rig.set_thread_os_id(thread, os_id));
        THREADS_USED.set([(1, Duration::ZERO), (2, Duration::ZERO)].into());
        course.watch.begin(&course.rig, course.at, course.budgets);
        ConnectionPair { course, threads }
    }

    /// Produces 3,000 stages in `ms` milliseconds of one connection, and 60 milliseconds of the other.
    fn step(&mut self, ms: u64) -> SampleFindings {
        let rig = self.course.rig;
        rig.on(self.threads[0], || {
            for _ in 0..3000 {
                rig.stage(rig.class.stage);
            }
        });
        rig.on(self.threads[1], || rig.wait(rig.class.mutex));
        THREADS_USED.with_borrow_mut(|used| {
            *used.get_mut(&1).unwrap() += Duration::from_millis(ms);
            *used.get_mut(&2).unwrap() += Duration::from_millis(60);
        });
        self.course.look()
    }
}

#[test]
fn one_connection_that_is_slowed_by_more_than_its_budget_is_relieved() {
    let mut pair = ConnectionPair::new("5%");
    let seen = pair.step(10);
    // The events cost 3,000 times 500 ns in 10 ms of 70.
    let slowed = seen.slowed.unwrap();
    assert!((slowed.share - 0.15).abs() < 1e-3, "{slowed:?}");
    assert!(seen.moves.iter().all(|it| matches!(it.why, Why::Slow { .. })), "{:?}", seen.moves);
    assert_eq!(pair.course.setting(STAGE), Some(Recording::Counts), "3% of it: {seen:?}");
    assert_eq!(pair.course.setting(MUTEX), Some(Recording::Lean), "the other's are not dear");
    let seen = pair.step(10);
    assert!(seen.slowed.unwrap().share <= 0.05 && seen.moves.is_empty(), "{seen:?}");
    pair.course.watch.put_back(&pair.course.rig);
    assert_eq!(pair.course.setting(STAGE), Some(Recording::Lean));
}

#[test]
fn a_twentieth_of_the_time_is_beyond_and_threads_that_cannot_be_told_apart_are_not_asked() {
    let mut pair = ConnectionPair::new("5%");
    let seen = pair.step(3);
    assert!(seen.slowed.unwrap().share < 0.001 && seen.moves.is_empty(), "{seen:?}");
    // A thread of a pool serves both.
    pair.threads.iter().for_each(|thread| pair.course.rig.set_thread_os_id(thread, 1));
    let seen = pair.step(10);
    assert!(seen.slowed.is_none() && seen.moves.is_empty(), "{seen:?}");
}
