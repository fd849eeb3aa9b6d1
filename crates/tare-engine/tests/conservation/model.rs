//! Random sequences of operations against a model made of maps: what counts for whom after which TRUNCATE.

use proptest::prelude::*;

use tare_engine::ThreadRef;
use tare_engine::snapshot::*;

use tare_rig::*;

/// The four summaries that count one thing each here.
const SUMMARIES: [EventType; 4] =
    [EventType::Wait, EventType::Stage, EventType::Statement, EventType::Transaction];

#[derive(Clone, Debug)]
enum Step {
    /// Of which account.
    Connect(usize),
    Disconnect(usize),
    /// Another account.
    Change(usize, usize),
    /// That many events of a type, of a thread.
    Events(usize, usize, u64),
    Reset(usize, Grouping),
    Forget(Grouping),
    Enable(usize, bool),
    Consumer(Consumer, bool),
    Instrumented(usize, bool),
}

/// Accounts by user and host.
const ACCOUNTS: [(&str, &str); 4] = [("", ""), ("a", "x"), ("a", "y"), ("b", "y")];
/// Users and hosts in the order of their rows, and which of them an account has.
const USERS: [&str; 3] = ["", "a", "b"];
const HOSTS: [&str; 3] = ["", "x", "y"];
const USER_OF: [usize; 4] = [0, 1, 1, 2];
const HOST_OF: [usize; 4] = [0, 1, 2, 2];

fn step() -> impl Strategy<Value = Step> {
    let party = prop_oneof![Just(Grouping::Account), Just(Grouping::User), Just(Grouping::Host)];
    let level = prop_oneof![Just(Grouping::Thread), Just(Grouping::Global), party.clone()];
    // Without the last two events are only summed up.
    let consumer = prop_oneof![
        Just(Consumer::GlobalInstrumentation),
        Just(Consumer::ThreadInstrumentation),
        Just(Consumer::EventsWaitsCurrent),
        Just(Consumer::EventsStagesCurrent),
    ];
    prop_oneof![
        2 => (0..4usize).prop_map(Step::Connect),
        1 => (0..8usize).prop_map(Step::Disconnect),
        1 => (0..8usize, 0..4usize).prop_map(|(thread, account)| Step::Change(thread, account)),
        8 => (0..8usize, 0..4usize, 1..4u64).prop_map(|(thread, of, n)| Step::Events(thread, of, n)),
        4 => (0..4usize, level).prop_map(|(of, level)| Step::Reset(of, level)),
        1 => party.prop_map(Step::Forget),
        1 => (0..4usize, any::<bool>()).prop_map(|(of, on)| Step::Enable(of, on)),
        1 => (consumer, any::<bool>()).prop_map(|(consumer, on)| Step::Consumer(consumer, on)),
        1 => (0..8usize, any::<bool>()).prop_map(|(thread, on)| Step::Instrumented(thread, on)),
    ]
}

type Counts = [u64; 4];

struct ModelThread {
    thread: ThreadRef,
    counts: Counts,
    instrumented: bool,
    account: usize,
}

/// What the engine must say. Figures lie where the built-in keeps them: the threads' own, the accounts' of
/// threads that have ended or were reset, the users' and the hosts' of accounts that were.
#[derive(Default)]
struct Model {
    threads: Vec<ModelThread>,
    accounts: [Counts; 4],
    users: [Counts; 3],
    hosts: [Counts; 3],
    global: Counts,
    off: [bool; 4],
    consumers_off: Vec<Consumer>,
}

impl Model {
    fn events(&mut self, thread: usize, of: usize, n: u64) {
        let off = |consumer| self.consumers_off.contains(&consumer);
        let (global, by_thread) =
            (!off(Consumer::GlobalInstrumentation), !off(Consumer::ThreadInstrumentation));
        let thread = &mut self.threads[thread];
        if self.off[of] || !global || by_thread && !thread.instrumented {
            return;
        }
        self.global[of] += n;
        if by_thread {
            thread.counts[of] += n;
        }
    }

    fn reset(&mut self, of: usize, level: Grouping) {
        // The global summary of waits is independent of the threads'; the others take all along.
        if level == Grouping::Global {
            self.global[of] = 0;
            if of == 0 {
                return;
            }
        }
        for thread in &mut self.threads {
            self.accounts[thread.account][of] += std::mem::take(&mut thread.counts[of]);
        }
        if level == Grouping::Thread {
            return;
        }
        for (at, account) in self.accounts.iter_mut().enumerate() {
            let counts = std::mem::take(&mut account[of]);
            self.users[USER_OF[at]][of] += counts;
            self.hosts[HOST_OF[at]][of] += counts;
        }
        if matches!(level, Grouping::User | Grouping::Global) {
            self.users.iter_mut().for_each(|user| user[of] = 0);
        }
        if matches!(level, Grouping::Host | Grouping::Global) {
            self.hosts.iter_mut().for_each(|host| host[of] = 0);
        }
    }

    fn disconnect(&mut self, thread: usize) -> ThreadRef {
        let thread = self.threads.remove(thread);
        (0..4).for_each(|of| self.accounts[thread.account][of] += thread.counts[of]);
        thread.thread
    }

    /// What accounts, users and hosts must show.
    fn rows(&self) -> ([Counts; 4], [Counts; 3], [Counts; 3]) {
        let mut accounts = self.accounts;
        for thread in &self.threads {
            (0..4).for_each(|of| accounts[thread.account][of] += thread.counts[of]);
        }
        let (mut users, mut hosts) = (self.users, self.hosts);
        for (at, account) in accounts.iter().enumerate() {
            (0..4).for_each(|of| users[USER_OF[at]][of] += account[of]);
            (0..4).for_each(|of| hosts[HOST_OF[at]][of] += account[of]);
        }
        (accounts, users, hosts)
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
        Step::Connect(account) if live < 8 => {
            let thread = rig.thread();
            enter(rig, thread, account);
            model.threads.push(ModelThread { thread, counts: [0; 4], instrumented: true, account });
        }
        Step::Disconnect(thread) if thread < live => rig.delete_thread(model.disconnect(thread)),
        Step::Change(thread, account) if thread < live => {
            model.threads[thread].account = account;
            enter(rig, model.threads[thread].thread, account);
        }
        Step::Forget(level) => {
            rig.reset(Reset::Connections(level));
            (0..4).for_each(|of| model.reset(of, level));
        }
        Step::Events(thread, of, n) if thread < live => {
            issue(rig, model.threads[thread].thread, of, n);
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
            assert!(rig.set_thread(model.threads[thread].thread.thread_id(), Some(on), None));
            model.threads[thread].instrumented = on;
        }
        _ => {}
    }
}

fn enter(rig: Rig, thread: ThreadRef, account: usize) {
    let (user, host) = ACCOUNTS[account];
    rig.set_thread_account(thread, user.as_bytes(), host.as_bytes());
}

/// Counts of those rows that `is` says are meant.
fn seen(rig: Rig, level: Grouping, is: impl Fn(&Owner) -> bool) -> Counts {
    fn sum<S>(
        rows: Vec<Summary<S>>,
        name: &str,
        is: impl Fn(&Owner) -> bool,
        count: impl Fn(&S) -> u64,
    ) -> u64 {
        let mut rows = rows.into_iter().filter(|row| row.name == name && is(&row.owner));
        let sum = rows.next().map_or(0, |row| count(&row.stat));
        assert!(rows.next().is_none(), "one row of each");
        sum
    }
    [
        sum(rig.wait_rows(level), MUTEX, &is, |stat| stat.count),
        sum(rig.stage_rows(level), STAGE, &is, |stat| stat.count),
        sum(rig.statement_rows(level), STATEMENT, &is, |stat| stat.stat.count),
        sum(rig.transaction_rows(level), TRANSACTION, &is, |stat| stat.read_write.count),
    ]
}

fn check(rig: Rig, model: &Model, step: &Step) {
    assert_eq!(seen(rig, Grouping::Global, |_| true), model.global, "global after {step:?}");
    for thread in &model.threads {
        let id = thread.thread.thread_id();
        assert_eq!(
            seen(rig, Grouping::Thread, |owner| owner.thread_id == id),
            thread.counts,
            "after {step:?}"
        );
    }
    let (accounts, users, hosts) = model.rows();
    let is = |name: &Option<String>, wanted: &str| name.as_deref().unwrap_or_default() == wanted;
    for ((user, host), wanted) in ACCOUNTS.into_iter().zip(accounts) {
        let mine = |owner: &Owner| is(&owner.user, user) && is(&owner.host, host);
        assert_eq!(seen(rig, Grouping::Account, mine), wanted, "{user}@{host} after {step:?}");
    }
    for (user, wanted) in USERS.into_iter().zip(users) {
        assert_eq!(seen(rig, Grouping::User, |owner| is(&owner.user, user)), wanted, "{user} after {step:?}");
    }
    for (host, wanted) in HOSTS.into_iter().zip(hosts) {
        assert_eq!(seen(rig, Grouping::Host, |owner| is(&owner.host, host)), wanted, "{host} after {step:?}");
    }
    for (level, kinds) in [(Grouping::Account, 4), (Grouping::User, 3), (Grouping::Host, 3)] {
        let rows = rig.connections(level);
        assert!(rows.len() <= kinds, "{rows:?}");
        assert_eq!(rows.iter().map(|row| row.current).sum::<u64>(), model.threads.len() as u64, "{rows:?}");
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
            check(rig, &model, step);
        }
        prop_assert_eq!(rig.losses(), 0, "{:?}", rig.lost());
    }
}
