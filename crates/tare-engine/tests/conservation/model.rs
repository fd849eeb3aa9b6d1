//! Random sequences of operations against a model made of maps: what counts for whom after which TRUNCATE.

use proptest::prelude::*;

use tare_engine::ThreadRef;
use tare_engine::snapshot::*;

use crate::driver::*;

/// The four summaries that count one thing each here.
const SUMMARIES: [EventType; 4] =
    [EventType::Wait, EventType::Stage, EventType::Statement, EventType::Transaction];

#[derive(Clone, Debug)]
enum Step {
    Connect,
    Disconnect(usize),
    /// That many events of a type, of a thread.
    Events(usize, usize, u64),
    Reset(usize, Level),
    Enable(usize, bool),
    Consumer(Consumer, bool),
    Instrumented(usize, bool),
}

fn step() -> impl Strategy<Value = Step> {
    let level = prop_oneof![Just(Level::Thread), Just(Level::Global), Just(Level::Account)];
    let consumer = prop_oneof![Just(Consumer::GlobalInstrumentation), Just(Consumer::ThreadInstrumentation)];
    prop_oneof![
        2 => Just(Step::Connect),
        1 => (0..8usize).prop_map(Step::Disconnect),
        8 => (0..8usize, 0..4usize, 1..4u64).prop_map(|(thread, of, n)| Step::Events(thread, of, n)),
        3 => (0..4usize, level).prop_map(|(of, level)| Step::Reset(of, level)),
        1 => (0..4usize, any::<bool>()).prop_map(|(of, on)| Step::Enable(of, on)),
        1 => (consumer, any::<bool>()).prop_map(|(consumer, on)| Step::Consumer(consumer, on)),
        1 => (0..8usize, any::<bool>()).prop_map(|(thread, on)| Step::Instrumented(thread, on)),
    ]
}

/// What the engine must say.
#[derive(Default)]
struct Model {
    threads: Vec<(ThreadRef, [u64; 4], bool)>,
    global: [u64; 4],
    off: [bool; 4],
    consumers_off: Vec<Consumer>,
}

impl Model {
    fn events(&mut self, thread: usize, of: usize, n: u64) {
        let off = |consumer| self.consumers_off.contains(&consumer);
        let (global, by_thread) =
            (!off(Consumer::GlobalInstrumentation), !off(Consumer::ThreadInstrumentation));
        let (_, counts, instrumented) = &mut self.threads[thread];
        if self.off[of] || !global || by_thread && !*instrumented {
            return;
        }
        self.global[of] += n;
        if by_thread {
            counts[of] += n;
        }
    }

    fn reset(&mut self, of: usize, level: Level) {
        // The global summary of waits is independent of the threads'; the others take them along.
        if level != Level::Global || of != 0 {
            self.threads.iter_mut().for_each(|(_, counts, _)| counts[of] = 0);
        }
        if level == Level::Global {
            self.global[of] = 0;
        }
    }
}

fn issue(rig: Rig, thread: ThreadRef, of: usize, n: u64) {
    rig.on(thread, || {
        for _ in 0..n {
            match of {
                0 => _ = rig.wait(rig.class.mutex),
                1 => {
                    rig.stage(rig.class.stage);
                    rig.end_stage();
                }
                2 => rig.query("select 1"),
                _ => _ = rig.transaction(false, |_| ()),
            }
        }
    });
}

fn apply(rig: Rig, model: &mut Model, step: &Step) {
    let classes = [rig.class.mutex, rig.class.stage, rig.class.statement, tare_engine::fixed::TRANSACTION];
    let live = model.threads.len();
    match *step {
        Step::Connect if live < 8 => model.threads.push((rig.thread(), [0; 4], true)),
        Step::Disconnect(thread) if thread < live => {
            let (thread, ..) = model.threads.remove(thread);
            rig.delete_thread(thread);
        }
        Step::Events(thread, of, n) if thread < live => {
            issue(rig, model.threads[thread].0, of, n);
            model.events(thread, of, n);
        }
        Step::Reset(of, level) => {
            rig.reset(Reset::Summary(SUMMARIES[of], level));
            model.reset(of, level);
        }
        Step::Enable(of, on) => {
            rig.set_instrument(classes[of], Some(on), None);
            model.off[of] = !on;
        }
        Step::Consumer(consumer, on) => {
            rig.set_consumer(consumer, on);
            model.consumers_off.retain(|off| *off != consumer);
            model.consumers_off.extend((!on).then_some(consumer));
        }
        Step::Instrumented(thread, on) if thread < live => {
            assert!(rig.set_thread(model.threads[thread].0.thread_id(), Some(on), None));
            model.threads[thread].2 = on;
        }
        _ => {}
    }
}

fn seen(rig: Rig, thread: Option<ThreadRef>) -> [u64; 4] {
    match thread {
        Some(thread) => [
            rig.thread_wait(thread, MUTEX).count,
            rig.thread_stage(thread, STAGE).count,
            rig.thread_statement(thread, STATEMENT).stat.count,
            rig.thread_transaction(thread).read_write.count,
        ],
        None => [
            rig.global_wait(MUTEX).count,
            rig.global_stage(STAGE).count,
            rig.global_statement(STATEMENT).stat.count,
            rig.global_transaction().read_write.count,
        ],
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn counts_are_the_models(steps in prop::collection::vec(step(), 1..60)) {
        let rig = Rig::with(tare_engine::Config { memory_max: 4 << 20, ..small() });
        let mut model = Model::default();
        for step in &steps {
            apply(rig, &mut model, step);
            prop_assert_eq!(seen(rig, None), model.global, "global after {:?}", step);
            for (thread, counts, _) in &model.threads {
                prop_assert_eq!(seen(rig, Some(thread)), *counts, "thread after {:?}", step);
            }
        }
    }
}
