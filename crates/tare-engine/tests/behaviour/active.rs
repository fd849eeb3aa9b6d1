//! The active session history: who is active, doing what, and what a row says of it.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::time::Duration;

use tare_engine::snapshot::*;
use tare_engine::*;

use tare_rig::*;

/// A kernel that says of all threads the same.
#[derive(Default)]
struct Kernel {
    /// CPU time at the next question, in nanoseconds, and how much more at each one after that.
    cpu: Cell<(u64, u64)>,
    state: Option<ThreadState>,
}

impl Kernel {
    fn running() -> Kernel {
        Kernel { cpu: Cell::new((1, 1)), state: None }
    }

    fn in_state(state: ThreadState) -> Kernel {
        Kernel { cpu: Cell::new((1, 0)), state: Some(state) }
    }
}

impl Scheduler for Kernel {
    fn cpu_time(&mut self, _: u64) -> Option<Duration> {
        let (cpu, more) = self.cpu.get();
        self.cpu.set((cpu + more, more));
        Some(Duration::from_nanos(cpu))
    }
    fn state(&mut self, _: u64) -> Option<ThreadState> {
        self.state
    }
}

/// A kernel that says that a thread waits, which gets on while it says so.
struct Meanwhile<F>(Option<F>);

impl<F: FnOnce()> Scheduler for Meanwhile<F> {
    fn cpu_time(&mut self, _: u64) -> Option<Duration> {
        Some(Duration::from_nanos(1))
    }
    fn state(&mut self, _: u64) -> Option<ThreadState> {
        if let Some(gets_on) = self.0.take() {
            gets_on();
        }
        Some(ThreadState::Waits(None))
    }
}

/// A kernel that must not be asked.
struct Unasked;

impl Scheduler for Unasked {
    fn cpu_time(&mut self, _: u64) -> Option<Duration> {
        panic!("asked for a CPU time");
    }
    fn state(&mut self, _: u64) -> Option<ThreadState> {
        panic!("asked for a state");
    }
}

const SECOND: Duration = Duration::from_secs(1);

fn rig() -> Rig {
    let rig = Rig::new();
    rig.start_active_history(64 << 10).expect("address space");
    rig
}

/// Samples once; the rows of that sample.
fn sampled(rig: Rig, sampler: &mut Sampler, mut kernel: impl Scheduler) -> Vec<ActiveRow> {
    rig.reset(Reset::ActiveHistory);
    let count = rig.sample_active(sampler, &mut kernel, SECOND);
    let mut rows = Vec::new();
    rig.active_history(None, Parts::ALL, &mut |row| {
        rows.push(row.clone());
        ControlFlow::Continue(())
    });
    assert_eq!(rows.len(), count);
    rows
}

/// The only row of a sample.
fn only(rig: Rig, kernel: impl Scheduler) -> ActiveRow {
    let mut rows = sampled(rig, &mut Sampler::default(), kernel);
    assert_eq!(rows.len(), 1, "{rows:?}");
    rows.remove(0)
}

#[test]
fn a_session_is_active_while_it_is_in_a_statement() {
    let rig = rig();
    let thread = rig.connect();
    rig.set_thread_account(thread, b"ann", b"here");
    assert_eq!(sampled(rig, &mut Sampler::default(), Kernel::running()), []);
    rig.statement(rig.class.statement, "SELECT 1", |_| {
        let row = only(rig, Kernel::running());
        assert_eq!((row.state, row.class, row.wait), (SessionState::OnCpu, WaitClass::Cpu, None));
        assert_eq!((row.thread_id, row.processlist_id), (thread.thread_id(), Some(77)));
        assert_eq!((row.user.as_deref(), row.host.as_deref()), (Some("ann"), Some("here")));
        assert_eq!(row.schema.as_deref(), Some("db"));
        assert_eq!(row.thread_name, "thread/test/one_connection");
        assert_eq!(row.row_us, 1_000_000);
        let running = &rig.statements(Scope::Current)[0];
        assert_eq!(row.event_id, Some(running.head.event_id));
        assert!(row.statement_us.is_some());
    });
    assert_eq!(sampled(rig, &mut Sampler::default(), Kernel::running()), []);
}

#[test]
fn a_statement_that_is_only_summed_up_has_its_age_and_no_number() {
    for (level, is_timed) in [(Recording::Sums, true), (Recording::Counts, false)] {
        let rig = rig();
        rig.connect();
        rig.set_level(rig.class.statement, Some(level));
        let first = rig.begin(rig.class.statement, "SELECT 1").expect("on");
        let row = only(rig, Kernel::running());
        assert_eq!((row.event_id, row.statement_us.is_some()), (None, is_timed), "{level:?}");
        assert_eq!(row.schema.as_deref(), is_timed.then_some("db"), "{level:?}");
        // It gets on to one that has no number either.
        let gets_on = || {
            rig.finish(first, "SELECT 1");
            rig.begin(rig.class.statement, "SELECT 2").expect("on");
        };
        let row = only(rig, Meanwhile(Some(gets_on)));
        assert_eq!(row.class == WaitClass::Cpu, is_timed, "{level:?}: nobody can tell without a time");
    }
}

#[test]
fn the_kernel_says_whether_it_runs() {
    let rig = rig();
    rig.connect();
    rig.statement(rig.class.statement, "SELECT 1", |_| {
        for (state, expected) in [
            (ThreadState::Ready, (SessionState::Runnable, WaitClass::Cpu)),
            (ThreadState::Waits(None), (SessionState::Waiting, WaitClass::Other)),
            (ThreadState::Waits(Some(WaitClass::File)), (SessionState::Waiting, WaitClass::File)),
        ] {
            let row = only(rig, Kernel::in_state(state));
            assert_eq!((row.state, row.class), expected);
        }
        let row = only(rig, Kernel { cpu: Cell::new((1, 0)), state: None });
        assert_eq!(row.state, SessionState::OnCpu, "nobody knows");
        let row = only(rig, Kernel { cpu: Cell::new((1, 1)), state: Some(ThreadState::Ready) });
        assert_eq!(row.state, SessionState::OnCpu, "it has used a processor meanwhile");
        let row = only(rig, Kernel { cpu: Cell::new((1, 1)), state: Some(ThreadState::Waits(None)) });
        assert_eq!(row.state, SessionState::Waiting, "it ran until then");
    });
}

#[test]
fn a_row_has_no_wait_of_the_next_statement() {
    let rig = rig();
    rig.connect();
    let first = rig.begin(rig.class.statement, "SELECT 1").expect("on");
    let id = first.event_id();
    let gets_on = || {
        rig.finish(first, "SELECT 1");
        rig.begin(rig.class.statement, "SELECT 2").expect("on");
        rig.start_wait(rig.class.file, WaitObject::new(0x1234, operation::FILE), here()).expect("on");
    };
    let row = only(rig, Meanwhile(Some(gets_on)));
    assert_eq!((row.event_id, row.class, row.wait), (Some(id), WaitClass::Cpu, None), "it ran");
    let row = only(rig, Kernel::running());
    assert_eq!((row.event_id > Some(id), row.class, row.wait), (true, WaitClass::File, Some(FILE)));
}

#[test]
fn a_wait_says_what_it_is_for_and_who_has_it() {
    let rig = rig();
    let (owner, waiter) = (rig.thread(), rig.connect());
    let mutex = rig.init_synch(rig.class.mutex, 0x1000).expect("memory");
    rig.on(owner, || rig.lock(mutex));
    rig.statement(rig.class.statement, "SELECT 1", |_| {
        let wait = rig.start_synch_wait(mutex, operation::MUTEX, here()).expect("on");
        let row = only(rig, Kernel::in_state(ThreadState::Waits(None)));
        assert_eq!((row.state, row.class, row.wait), (SessionState::Waiting, WaitClass::Mutex, Some(MUTEX)));
        assert_eq!(row.operation, Some("lock"));
        assert_eq!(row.blocking_thread_id, Some(owner.thread_id()));
        assert_eq!(row.blocking_processlist_id, Some(77));
        assert!(row.wait_us.is_some() && row.wait_us <= row.statement_us);
        rig.end_synch_wait(&wait);
        let row = only(rig, Kernel::running());
        assert_eq!((row.wait, row.blocking_thread_id), (None, None), "it is over");
    });
    assert_eq!(waiter.thread_id(), owner.thread_id() + 1);
    // An owner that has given it back blocks nobody.
    rig.on(owner, || rig.unlock_mutex(mutex));
    rig.statement(rig.class.statement, "SELECT 1", |_| {
        let wait = rig.start_synch_wait(mutex, operation::MUTEX, here()).expect("on");
        assert_eq!(only(rig, Kernel::in_state(ThreadState::Waits(None))).blocking_thread_id, None);
        rig.end_synch_wait(&wait);
    });
}

#[test]
fn the_kernel_is_not_asked_about_who_is_idle_or_in_a_known_wait() {
    let rig = rig();
    rig.connect();
    assert_eq!(sampled(rig, &mut Sampler::default(), Unasked), []);
    let mutex = rig.init_synch(rig.class.mutex, 0x1000).expect("memory");
    rig.statement(rig.class.statement, "SELECT 1", |_| {
        let wait = rig.start_synch_wait(mutex, operation::MUTEX, here()).expect("on");
        assert_eq!(only(rig, Unasked).class, WaitClass::Mutex);
        rig.end_synch_wait(&wait);
        let file = WaitObject::new(0x1234, operation::FILE);
        let wait = rig.start_wait(rig.class.file, file, here()).expect("on");
        assert_eq!(only(rig, Unasked).class, WaitClass::File);
        rig.end_wait(&wait, 1, None);
        assert_eq!(only(rig, Kernel::running()).class, WaitClass::Cpu, "both are over");
    });
}

#[test]
fn access_to_a_table_is_no_wait_and_what_is_in_it_is_one() {
    let rig = rig();
    rig.connect();
    let table = {
        let share = rig.share("shop", "orders", &["PRIMARY"]);
        rig.open_table(share, 0x2000).expect("memory")
    };
    rig.statement(rig.class.statement, "SELECT 1", |_| {
        let wait = rig.start_table_io_wait(table, 0, 0, here()).expect("on");
        let row = only(rig, Kernel::running());
        assert_eq!((row.class, row.wait), (WaitClass::Cpu, None));
        let inner = rig.start_wait(rig.class.file, WaitObject::new(0x1234, operation::FILE), here());
        let row = only(rig, Kernel::running());
        assert_eq!((row.state, row.class, row.wait), (SessionState::Waiting, WaitClass::File, Some(FILE)));
        rig.end_wait(&inner.expect("on"), 1, None);
        rig.end_table_io_wait(table, &wait, 0, 0, 1);
    });
}

#[test]
fn a_background_thread_is_active_where_it_does_something() {
    let rig = rig();
    let thread = rig.new_thread(rig.class.thread, None, None).expect("memory");
    let mut sampler = Sampler::default();
    let sleeps = || Kernel::in_state(ThreadState::Waits(None));
    assert_eq!(sampled(rig, &mut sampler, sleeps()), []);
    assert_eq!(sampled(rig, &mut sampler, sleeps()), [], "it has not run since");
    let rows = sampled(rig, &mut sampler, Kernel { cpu: Cell::new((5, 1)), state: None });
    assert_eq!(
        rows.iter().map(|row| (row.state, row.processlist_id)).collect::<Vec<_>>(),
        [(SessionState::OnCpu, None)]
    );
    let rows = sampled(rig, &mut sampler, Kernel { cpu: Cell::new((9, 0)), state: Some(ThreadState::Ready) });
    assert_eq!(rows.iter().map(|row| row.state).collect::<Vec<_>>(), [SessionState::Runnable]);
    rig.on(thread, || {
        let mutex = rig.init_synch(rig.class.mutex, 0x1000).expect("memory");
        let wait = rig.start_synch_wait(mutex, operation::MUTEX, here()).expect("on");
        let rows = sampled(rig, &mut sampler, sleeps());
        assert_eq!(rows.iter().map(|row| row.class).collect::<Vec<_>>(), [WaitClass::Mutex]);
        rig.end_synch_wait(&wait);
        let cond = rig.init_synch(rig.class.cond, 0x1008).expect("memory");
        let wait = rig.start_synch_wait(cond, operation::COND, here()).expect("on");
        assert_eq!(sampled(rig, &mut sampler, sleeps()), [], "nobody has called it");
        rig.end_synch_wait(&wait);
    });
}

#[test]
fn a_transaction_has_its_number_and_its_age() {
    let rig = rig();
    rig.connect();
    rig.transaction(false, |_| {
        rig.statement(rig.class.statement, "SELECT 1", |_| {
            let row = only(rig, Kernel::running());
            assert!(row.trx_us.is_some() && row.trx_id.is_none());
        });
    });
    rig.statement(rig.class.statement, "SELECT 1", |_| {
        let row = only(rig, Kernel::running());
        assert_eq!((row.trx_us, row.trx_id), (None, None), "that one has ended");
    });
}

#[test]
fn a_row_stands_for_the_time_since_the_sample_before() {
    let rig = rig();
    rig.connect();
    rig.statement(rig.class.statement, "SELECT 1", |_| {
        let mut sampler = Sampler::default();
        assert_eq!(sampled(rig, &mut sampler, Kernel::running())[0].row_us, 1_000_000, "the first");
        assert!(sampled(rig, &mut sampler, Kernel::running())[0].row_us < 1_000_000);
        let state = rig.active_history_state();
        assert_eq!(state.samples, 2);
        assert!(state.times_us[WaitClass::Cpu as usize] >= 1_000_000);
    });
}
