//! Level sampled: what is estimated is estimated without bias, and what is exact is exact.

use std::time::Duration;

use tare_engine::snapshot::*;
use tare_engine::*;

use tare_rig::*;

/// Never within a test.
const NEVER: Duration = Duration::from_secs(3600);

fn rig_at(level: Recording, rate: SampleRate, slow_after: Duration) -> Rig {
    let rig = Rig::with(Config {
        instruments: Box::new(move |_| Initial { level, ..Initial::default() }),
        ..small()
    });
    rig.set_sampling(rate, slow_after);
    // What is slow is known in ticks from here on.
    rig.adjust_sampling();
    rig
}

fn sampled(weight: u32) -> Rig {
    rig_at(Recording::Sampled, SampleRate::OneIn(weight), NEVER)
}

/// What a server does inside a statement, by way of a host's shims.
struct Host<'a> {
    rig: &'a Rig,
    mutex: SynchRef,
    table: TableRef,
    socket: SocketRef,
}

impl Host<'_> {
    fn new(rig: &Rig) -> Host<'_> {
        let mutex = rig.init_synch(rig.class.mutex, 0xABCD).expect("memory");
        let share = rig.share("db", "t", &["PRIMARY"]);
        let table = rig.open_table(share, 1).expect("memory");
        let socket = rig.init_socket(rig.class.socket, Some(5), b"", 0).expect("memory");
        Host { rig, mutex, table, socket }
    }

    fn stage(&self) {
        if !self.rig.skips_stage() {
            self.rig.stage(self.rig.class.stage);
        }
    }

    fn free_lock(&self) {
        if self.rig.skips() {
            return;
        }
        match self.rig.untimed_synch(self.mutex) {
            Some(untimed) => self.rig.count_free_synch(untimed, self.mutex, operation::MUTEX, here()),
            None => {
                self.rig.lock(self.mutex);
                if self.rig.is_weighing() {
                    self.rig.weigh_free_synch(self.mutex);
                }
            }
        }
    }

    /// Somebody else has it.
    fn contended_lock(&self) {
        self.rig.lock(self.mutex);
        self.rig.has_waited();
    }

    fn fetch(&self, rows: u64) {
        if !self.rig.skips() {
            return self.rig.table_io(self.table, 0, 0, rows);
        }
        let wait = self.rig.start_tallied_table_io(self.table, 0, 0).expect("a table that is watched");
        if !self.rig.end_tallied_table_io_fast(self.table, &wait, 0, 0, rows) {
            self.rig.end_table_io_wait(self.table, &wait, 0, 0, rows);
        }
    }

    fn send(&self, bytes: u64) {
        if !self.rig.skips_after_pause() {
            self.rig.socket_io(self.socket, io::SOCKET_SEND, bytes);
        }
    }

    fn statement(&self, inside: impl FnOnce()) {
        self.rig.statement(self.rig.class.statement, "SELECT 1", |_| inside());
        if !self.rig.is_skipping() {
            self.rig.end_stage();
        }
    }

    /// Statements that differ in what is inside them.
    fn statements(&self, number: u64) {
        for at in 0..number {
            self.statement(|| {
                for _ in 0..=at % 3 {
                    self.stage();
                    self.free_lock();
                }
                self.fetch(at % 4);
                self.send(100);
            });
        }
    }
}

#[test]
fn what_is_exact_is_exact_at_any_rate() {
    for weight in [1, 2, 16, 1000] {
        let rig = sampled(weight);
        let thread = rig.connect();
        let host = Host::new(&rig);
        host.statements(1200);
        host.statement(|| host.contended_lock());
        assert_eq!(rig.thread_statement(thread, STATEMENT).stat.count, 1201, "1 in {weight}");
        assert_eq!(rig.thread_wait(thread, TABLE_IO).count, 1800, "1 in {weight}");
        assert_eq!(rig.tables()[0].indexes[0].io.fetch.count, 1800, "1 in {weight}");
        assert!(rig.thread_wait(thread, MUTEX).max_ps > 0, "who waited has a time");
    }
}

#[test]
fn with_a_weight_of_one_nothing_is_estimated() {
    let rig = sampled(1);
    let thread = rig.connect();
    let host = Host::new(&rig);
    host.statements(300);
    assert_eq!(rig.thread_stage(thread, STAGE).count, 600);
    assert_eq!(rig.thread_wait(thread, MUTEX).count, 600);
    assert_eq!(rig.thread_wait(thread, SOCKET).count, 300);
    assert_eq!(rig.sampling().weight, 1);
}

/// What is estimated of one run, less what is true, in standard errors.
fn errors(weight: u32) -> [f64; 3] {
    const STATEMENTS: u64 = 3000;
    let rig = sampled(weight);
    let thread = rig.connect();
    let host = Host::new(&rig);
    host.statements(STATEMENTS);
    // Of a statement's number x of events: the variance of the sum over chosen ones is (weight - 1) times the
    // sum of x².
    let error = |estimate: u64, per_statement: [f64; 3]| {
        let each = STATEMENTS as f64 / 3.0;
        let truth: f64 = per_statement.iter().sum::<f64>() * each;
        let squares: f64 = per_statement.iter().map(|x| x * x).sum::<f64>() * each;
        (estimate as f64 - truth) / (f64::from(weight - 1) * squares).sqrt()
    };
    [
        error(rig.thread_stage(thread, STAGE).count, [1.0, 2.0, 3.0]),
        error(rig.thread_wait(thread, MUTEX).count, [1.0, 2.0, 3.0]),
        error(rig.thread_wait(thread, SOCKET).count, [1.0; 3]),
    ]
}

#[test]
fn estimates_have_no_bias_and_the_standard_error_that_is_documented() {
    const RUNS: usize = 100;
    let all: Vec<[f64; 3]> = (0..RUNS).map(|_| errors(16)).collect();
    for at in 0..3 {
        let of = |f: fn(f64) -> f64| all.iter().map(|errors| f(errors[at])).sum::<f64>() / RUNS as f64;
        // The mean of 100 has a standard error of 0.1, that of squares one of 0.14.
        let (mean, squares) = (of(|error| error), of(|error| error * error));
        assert!(mean.abs() < 0.5, "{at}: mean {mean}");
        assert!((0.4..1.8).contains(&squares), "{at}: mean square {squares}");
    }
}

/// Lets threads of a class begin and end, each with one stage, two free locks, a contended one and a
/// statement.
fn connections(rig: &Rig, class: ClassId, number: u64) {
    let host = Host::new(rig);
    for _ in 0..number {
        let thread = rig.new_thread(class, Some(1), None).expect("a slab");
        rig.set_current_thread(Some(thread));
        host.stage();
        host.free_lock();
        host.free_lock();
        host.contended_lock();
        if !rig.is_skipping() {
            rig.end_stage();
        }
        host.statement(|| {});
        rig.delete_thread(thread);
    }
}

#[test]
fn what_connections_do_before_their_first_statement_is_estimated_like_a_statement() {
    const CONNECTIONS: u64 = 3001;
    const WEIGHT: u32 = 4;
    let class_of = |rig: &Rig, user| {
        let properties = Properties { user, ..Properties::default() };
        rig.register(Registration { kind: Kind::Thread, name: "thread/test/of_a_kind", properties })
    };
    let counts = |weight, user| {
        let rig = sampled(weight);
        connections(&rig, class_of(&rig, user), CONNECTIONS);
        assert_eq!(rig.global_statement(STATEMENT).stat.count, CONNECTIONS);
        (rig.global_stage(STAGE).count, rig.global_wait(MUTEX).count)
    };
    assert_eq!(counts(1, true), (CONNECTIONS, 3 * CONNECTIONS), "nothing is estimated");
    assert_eq!(counts(WEIGHT, false), (CONNECTIONS, 3 * CONNECTIONS), "other threads are recorded");
    let (stages, locks) = counts(WEIGHT, true);
    let free = locks - CONNECTIONS;
    assert!(stages.is_multiple_of(WEIGHT.into()) && free == 2 * stages, "{stages} {free}");
    let off = (stages as f64 - CONNECTIONS as f64) / (f64::from(WEIGHT - 1) * CONNECTIONS as f64).sqrt();
    assert!(off.abs() < 5.0, "{stages} of {CONNECTIONS}: {off} standard errors");
}

#[test]
fn a_chosen_statement_is_recorded_with_all_that_is_inside_it_and_no_other_is() {
    let rig = sampled(4);
    rig.connect();
    let host = Host::new(&rig);
    let mut recorded = 0;
    for _ in 0..200 {
        let before = rig.statements(Scope::HistoryLong).len();
        let mut is_chosen = false;
        host.statement(|| {
            is_chosen = !rig.is_skipping();
            host.stage();
            host.free_lock();
        });
        assert_eq!(rig.statements(Scope::HistoryLong).len() - before, usize::from(is_chosen));
        recorded += usize::from(is_chosen);
    }
    assert!((20..=90).contains(&recorded), "{recorded} of 200");
    let ids: Vec<u64> = rig.statements(Scope::HistoryLong).iter().map(|row| row.head.event_id).collect();
    for stage in rig.stages(Scope::HistoryLong) {
        let (parent, of) = stage.head.nesting.expect("it nests");
        assert!(of == EventType::Statement && ids.contains(&parent), "{parent}");
    }
}

#[test]
fn a_join_shows_no_wait_of_a_statement_before_one_that_was_not_chosen() {
    let rig = sampled(4);
    rig.connect();
    let host = Host::new(&rig);
    let [id] = rig.live_thread_ids()[..] else { panic!("one thread") };
    let mut tables = PresentTables::default();
    [PresentTable::Statements, PresentTable::Stages, PresentTable::Waits]
        .into_iter()
        .for_each(|table| tables.add(table));
    let mut seen = [0, 0];
    for _ in 0..200 {
        let (mut is_chosen, mut present) = (false, Present::default());
        host.statement(|| {
            is_chosen = !rig.is_skipping();
            host.stage();
            host.free_lock();
            present = rig.present(id, tables);
        });
        let [statement] = &*present.statements else { panic!("one statement: {present:?}") };
        let inner =
            present.waits.iter().map(|row| &row.head).chain(present.stages.iter().map(|row| &row.head));
        assert!(inner.clone().all(|head| head.event_id > statement.head.event_id), "{present:?}");
        assert_eq!(present.waits.len(), usize::from(is_chosen), "{present:?}");
        seen[usize::from(is_chosen)] += 1;
    }
    assert!(seen.iter().all(|&seen| seen >= 20), "{seen:?}");
}

#[test]
fn a_statement_that_waited_or_failed_is_in_the_histories_chosen_or_not() {
    let rig = sampled(1_000_000);
    rig.connect();
    let host = Host::new(&rig);
    host.statement(|| host.stage());
    assert!(rig.is_skipping() && rig.statements(Scope::History).is_empty());
    host.statement(|| host.contended_lock());
    assert_eq!(rig.statements(Scope::History).len(), 1);
    rig.statement(rig.class.statement, "SELECT no", |statement| {
        rig.set_statement_outcome(statement, &Outcome { errno: 1054, errors: 1, ..Outcome::default() });
    });
    assert_eq!(rig.statements(Scope::History).len(), 2);
    let wait = &rig.waits(Scope::History)[0];
    let parent = rig.statements(Scope::History)[0].head.event_id;
    assert_eq!(wait.head.nesting, Some((parent, EventType::Statement)));
}

#[test]
fn a_slow_statement_is_recorded_from_then_on_with_weight_one() {
    let rig = rig_at(Recording::Sampled, SampleRate::OneIn(1_000_000), Duration::from_micros(1));
    let thread = rig.connect();
    let host = Host::new(&rig);
    host.statement(|| {
        assert!(rig.is_skipping(), "one in a million is chosen");
        std::thread::sleep(Duration::from_millis(1));
        // Whoever sends looks at the clock.
        host.send(10);
        assert!(!rig.is_skipping());
        for _ in 0..5 {
            host.stage();
            host.free_lock();
        }
    });
    assert_eq!(rig.statements(Scope::History).len(), 1);
    assert_eq!(rig.thread_stage(thread, STAGE).count, 5);
    assert_eq!(rig.thread_wait(thread, MUTEX).count, 5);
    assert_eq!(rig.thread_wait(thread, SOCKET).count, 1);
    let statement = rig.statements(Scope::History)[0].head.event_id;
    for stage in rig.stages(Scope::History) {
        assert_eq!(stage.head.nesting, Some((statement, EventType::Statement)));
    }
}

/// A chosen one would count for others that are recorded, too.
#[test]
fn what_begins_in_a_slow_statement_counts_once_whether_it_was_chosen_or_not() {
    const STATEMENTS: u64 = 2000;
    const WEIGHT: u32 = 16;
    let rig = rig_at(Recording::Sampled, SampleRate::OneIn(WEIGHT), Duration::from_micros(1));
    let thread = rig.connect();
    let host = Host::new(&rig);
    let mut chosen = 0;
    for _ in 0..STATEMENTS {
        host.statement(|| {
            chosen += u64::from(!rig.is_skipping());
            // In progress when the statement is found to be slow: it counts by the choice.
            host.stage();
            std::thread::sleep(Duration::from_micros(2));
            host.send(10);
            for _ in 0..5 {
                host.stage();
                host.free_lock();
            }
        });
    }
    assert!((1..STATEMENTS / 4).contains(&chosen), "{chosen}");
    assert_eq!(rig.thread_wait(thread, SOCKET).count, STATEMENTS);
    assert_eq!(rig.thread_wait(thread, MUTEX).count, 5 * STATEMENTS);
    assert_eq!(rig.thread_stage(thread, STAGE).count, 5 * STATEMENTS + u64::from(WEIGHT) * chosen);
}

/// Where the session says which stage it is in.
#[test]
fn a_stage_in_progress_is_recorded_from_when_its_statement_is_slow() {
    const STATEMENTS: u64 = 1000;
    let rig = rig_at(Recording::Sampled, SampleRate::OneIn(16), Duration::from_micros(1));
    let thread = rig.connect();
    rig.begin_session(thread, thread.thread_id());
    rig.host.stages.lock().expect("no panic").insert(thread.thread_id(), rig.class.stage.into());
    let host = Host::new(&rig);
    let mut chosen = 0;
    for at in 1..=STATEMENTS {
        let seen = rig.stages(Scope::History).len();
        host.statement(|| {
            chosen += u64::from(!rig.is_skipping());
            host.stage();
            std::thread::sleep(Duration::from_micros(2));
            host.send(10);
            assert!(!rig.is_skipping());
        });
        assert_eq!(rig.thread_stage(thread, STAGE).count, at, "each counts once");
        assert!(rig.stages(Scope::History).len() >= seen);
        let (parent, of) = rig.stages(Scope::History).last().expect("it").head.nesting.expect("it nests");
        let statement = rig.statements(Scope::History).last().expect("it is slow").head.event_id;
        assert_eq!((parent, of), (statement, EventType::Statement));
    }
    assert!((1..STATEMENTS / 4).contains(&chosen), "{chosen}");
}

/// Of a stage call by which a statement is found to be slow the stage before is not resumed: it ends there.
#[test]
fn a_stage_that_ends_where_its_statement_is_found_to_be_slow_counts_by_the_choice() {
    let rig = rig_at(Recording::Sampled, SampleRate::OneIn(2), Duration::from_micros(1));
    let thread = rig.connect();
    rig.begin_session(thread, thread.thread_id());
    rig.host.stages.lock().expect("no panic").insert(thread.thread_id(), rig.class.stage.into());
    let host = Host::new(&rig);
    for _ in 0..40 {
        let before = rig.thread_stage(thread, STAGE).count;
        let mut is_chosen = false;
        host.statement(|| {
            std::thread::sleep(Duration::from_micros(2));
            is_chosen = !rig.is_skipping();
            (0..64).for_each(|_| host.stage());
            assert!(!rig.is_skipping());
        });
        // The last one is the one by which it is found out.
        let expected = if is_chosen { 2 * 63 + 1 } else { 1 };
        assert_eq!(rig.thread_stage(thread, STAGE).count - before, expected);
    }
}

#[test]
fn a_stage_of_another_level_ends_where_one_begins_that_is_skipped() {
    let rig = sampled(1_000_000);
    let thread = rig.connect();
    let host = Host::new(&rig);
    rig.set_level(rig.class.stage, Some(Recording::Lean));
    host.statement(|| {
        rig.stage(rig.class.stage);
        rig.leave_stage();
        assert_eq!(rig.thread_stage(thread, STAGE).count, 1);
        assert_eq!(rig.stages(Scope::Current).iter().filter(|it| it.head.end_event_id.is_none()).count(), 0);
    });
}

/// Both look at the clock at the same calls.
#[test]
fn a_chosen_statement_becomes_slow_by_the_same_call_as_any_other() {
    let rig = rig_at(Recording::Sampled, SampleRate::OneIn(2), Duration::from_micros(1));
    let thread = rig.connect();
    let host = Host::new(&rig);
    let seen = || rig.thread_wait(thread, MUTEX).count;
    let mut by_choice = [Vec::new(), Vec::new()];
    for _ in 0..40 {
        host.statement(|| {
            std::thread::sleep(Duration::from_micros(2));
            let is_chosen = !rig.is_skipping();
            let counted = (0..100).map(|_| {
                let before = seen();
                host.free_lock();
                seen() - before
            });
            // A chosen one counts twice, any other not at all; a slow one once.
            by_choice[usize::from(is_chosen)].push(counted.take_while(|counted| *counted != 1).count());
        });
    }
    let [others, chosen] = by_choice;
    assert!(!others.is_empty() && !chosen.is_empty());
    assert!(
        others.iter().chain(&chosen).all(|calls| *calls == others[0] && *calls > 0),
        "{others:?} {chosen:?}"
    );
}

#[test]
fn skipped_calls_look_at_the_clock_by_themselves() {
    let rig = rig_at(Recording::Sampled, SampleRate::OneIn(1_000_000), Duration::from_micros(1));
    rig.connect();
    let host = Host::new(&rig);
    host.statement(|| {
        std::thread::sleep(Duration::from_millis(1));
        let calls = (0..1000).find(|_| !rig.skips());
        assert!(calls.is_some_and(|calls| (1..500).contains(&calls)), "{calls:?}");
    });
}

#[test]
fn what_is_not_sampled_keeps_a_weight_of_one() {
    let rig = sampled(16);
    let mutex = rig.class.mutex;
    rig.set_level(mutex, Some(Recording::Lean));
    let thread = rig.connect();
    let host = Host::new(&rig);
    for _ in 0..500 {
        host.statement(|| {
            let untimed = rig.untimed_synch(host.mutex);
            match untimed {
                Some(untimed) => rig.count_free_synch(untimed, host.mutex, operation::MUTEX, here()),
                None => rig.lock(host.mutex),
            }
        });
    }
    assert_eq!(rig.thread_wait(thread, MUTEX).count, 500);
}

#[test]
fn a_statement_that_is_not_sampled_is_recorded_within_one_that_was_not_chosen() {
    let rig = sampled(1_000_000);
    rig.connect();
    let host = Host::new(&rig);
    let nest = || host.statement(|| host.rig.query("SELECT 2"));
    host.statement(|| host.stage());
    assert!(rig.is_skipping());
    nest();
    assert_eq!(rig.statements(Scope::HistoryLong).len(), 0);
    rig.set_level(rig.class.statement, Some(Recording::Lean));
    for _ in 0..5 {
        nest();
    }
    assert!(rig.is_skipping(), "waits and stages are sampled on");
    let rows = rig.statements(Scope::HistoryLong);
    let nested =
        rows.iter().filter(|row| matches!(row.head.nesting, Some((_, EventType::Statement)))).count();
    assert_eq!((rows.len(), nested), (10, 5));
}

#[test]
fn where_nothing_is_sampled_any_more_every_statement_is_recorded_at_once() {
    let rig = sampled(1_000_000);
    rig.connect();
    let host = Host::new(&rig);
    host.statement(|| host.stage());
    assert!(rig.is_skipping());
    let all: Vec<_> = rig.instruments().into_iter().map(|it| (it.id, Some(Recording::Lean), false)).collect();
    rig.set_levels(&all);
    host.statement(|| host.stage());
    assert!(!rig.is_skipping());
    assert_eq!(rig.statements(Scope::History).len(), 1);
    assert_eq!(rig.stages(Scope::History).len(), 1);
}

#[test]
fn a_host_that_changes_the_threads_of_a_session_keeps_its_choice() {
    let rig = sampled(1_000_000);
    let thread = rig.connect();
    let statement = rig.begin(rig.class.statement, "SELECT 1").expect("memory");
    assert!(rig.is_skipping());
    rig.set_current_thread(None);
    assert!(!rig.is_skipping(), "a thread of nobody skips nothing");
    rig.set_current_thread(Some(thread));
    assert!(rig.is_skipping());
    rig.finish(statement, "SELECT 1");
}

#[test]
fn estimates_survive_resets_and_the_end_of_their_thread() {
    let rig = sampled(8);
    let thread = rig.connect();
    Host::new(&rig).statements(3000);
    let before = rig.global_stage(STAGE).count;
    assert_eq!(before, rig.thread_stage(thread, STAGE).count);
    assert!(before.is_multiple_of(8), "each chosen one stands for eight: {before}");
    rig.delete_thread(thread);
    assert_eq!(rig.global_stage(STAGE).count, before);
}

#[test]
fn histograms_add_up_to_their_counts() {
    let rig = Rig::with(Config {
        instruments: Box::new(|_| Initial { level: Recording::Sampled, ..Initial::default() }),
        extended: true,
        ..small()
    });
    rig.set_sampling(SampleRate::OneIn(4), NEVER);
    let thread = rig.connect();
    let host = Host::new(&rig);
    for _ in 0..200 {
        host.statement(|| {
            host.stage();
            if !rig.is_skipping() {
                std::thread::sleep(Duration::from_micros(150));
            }
        });
    }
    let count = rig.thread_stage(thread, STAGE).count;
    let histograms = rig.event_histograms(EventType::Stage);
    let (_, histogram) = histograms.into_iter().find(|(name, _)| *name == STAGE).expect("its histogram");
    let slow: u64 =
        histogram.filled().filter(|bucket| bucket.low_ps >= 100_000_000).map(|bucket| bucket.count).sum();
    assert!(count > 0 && count.is_multiple_of(4), "{count}");
    assert_eq!(slow, count, "each chosen one took as long as four of its kind are taken to have");
    assert_eq!(histogram.filled().map(|bucket| bucket.count).sum::<u64>(), count);
}

/// The governor's limit. By chosen ones alone an interval in which none was chosen would look as if nobody
/// had asked anything.
#[test]
fn a_limit_lowers_the_rate_at_once_and_every_statement_counts_for_it_chosen_or_not() {
    let rig = sampled(1_000_000);
    rig.connect();
    for round in 1..=2 {
        for _ in 0..200 {
            rig.query("SELECT 1");
        }
        rig.adjust_sampling();
        let state = rig.sampling();
        assert_eq!(state.begun, 200 * round);
        assert!((state.chosen - 200.0 * round as f64 / 1e6).abs() < 1e-9, "{state:?}");
    }
    rig.set_sampling(SampleRate::PerSecond(1_000_000), NEVER);
    assert_eq!(rig.sampling().rate_now, SampleRate::PerSecond(1_000_000));
    rig.limit_sampling(Some(1));
    let state = rig.sampling();
    assert_eq!((state.rate, state.rate_now), (SampleRate::PerSecond(1_000_000), SampleRate::PerSecond(1)));
    assert!(state.weight > 1, "{state:?}");
    rig.limit_sampling(None);
    assert_eq!(rig.sampling().rate_now, SampleRate::PerSecond(1_000_000));
}
