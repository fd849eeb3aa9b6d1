//! Streams of waits and stages, which have a number when they begin and are read once they have ended: each
//! once, in order, and what was missed counted.

use std::ops::ControlFlow;

use proptest::prelude::*;
use tare_engine::snapshot::*;
use tare_engine::*;

use tare_rig::*;

/// Thread and id of an event.
type Key = (u64, u64);

#[derive(Clone, Copy)]
enum LastingEvents {
    Waits,
    Stages,
}

/// A reader and what it has come to.
struct Reader {
    of: LastingEvents,
    cursor: Cursor,
    keys: Vec<Key>,
    lost: u64,
    position: u64,
}

impl Reader {
    fn begin(rig: Rig, of: LastingEvents) -> Reader {
        let mut reader = Reader { of, cursor: Cursor::default(), keys: Vec::new(), lost: 0, position: 0 };
        assert_eq!(reader.read(rig).read, 0);
        reader
    }

    fn read(&mut self, rig: Rig) -> StreamPart {
        let Reader { of, cursor, keys, .. } = self;
        let mut take = |head: &EventHead| {
            let Timer { wait_ps, end_ps, .. } = head.timer;
            assert!(head.end_event_id.is_some() && wait_ps.is_some() && end_ps.is_some(), "{head:?}");
            keys.push((head.thread_id, head.event_id));
            ControlFlow::Continue(())
        };
        let piece = match of {
            LastingEvents::Waits => rig.stream_waits(cursor, Parts::ALL, &mut |row, _| take(&row.head)),
            LastingEvents::Stages => rig.stream_stages(cursor, Parts::ALL, &mut |row, _| take(&row.head)),
        };
        self.lost += piece.lost;
        self.position = piece.position;
        piece
    }

    fn catch_up(&mut self, rig: Rig) {
        while self.read(rig).more {}
    }

    fn ids(&self) -> Vec<u64> {
        self.keys.iter().map(|(_, id)| *id).collect()
    }

    fn what(&self, rig: Rig) -> String {
        let of = if matches!(self.of, LastingEvents::Waits) { "waits" } else { "stages" };
        let losses: Vec<_> = rig.lost().into_iter().filter(|row| row.lost > 0).collect();
        format!("{of}: {} read, {} lost up to {}; {losses:?}", self.keys.len(), self.lost, self.position)
    }

    /// Each once, and in the order of its thread.
    fn check_order(&self) {
        let mut last = std::collections::HashMap::new();
        for (thread, id) in &self.keys {
            let before = last.insert(*thread, *id);
            assert!(before.is_none_or(|before| before < *id), "{before:?} {id} of {thread}");
        }
    }
}

/// How many have ended, as the sums have it.
fn ended(rig: Rig, of: LastingEvents) -> u64 {
    match of {
        LastingEvents::Waits => rig.wait_rows(Grouping::Global).iter().map(|row| row.stat.count).sum(),
        LastingEvents::Stages => rig.stage_rows(Grouping::Global).iter().map(|row| row.stat.count).sum(),
    }
}

#[test]
fn a_wait_is_read_when_it_has_ended() {
    let rig = Rig::new();
    let thread = rig.connect();
    let mutex = rig.init_synch(rig.class.mutex, 0xABCD).expect("memory");
    rig.lock(mutex);
    let mut reader = Reader::begin(rig, LastingEvents::Waits);
    rig.lock(mutex);
    let wait = rig.start_synch_wait(mutex, operation::MUTEX, here()).expect("recorded");
    assert_eq!(reader.read(rig).read, 1);
    assert_eq!(reader.read(rig), StreamPart { position: 2, ..StreamPart::default() });
    rig.end_synch_wait(&wait);
    rig.wait_around(rig.class.file, || rig.lock(mutex));
    reader.catch_up(rig);
    assert_eq!((reader.lost, reader.position), (0, 5));
    assert_eq!(reader.ids(), rig.wait_ids(thread, Scope::HistoryLong)[1..]);
}

/// A thread of the host's own runs no statements.
#[test]
fn waits_outside_of_any_statement_nest_and_are_all_seen() {
    let rig = Rig::new();
    let thread = rig.connect();
    let mutex = rig.init_synch(rig.class.mutex, 0xABCD).expect("memory");
    let mut reader = Reader::begin(rig, LastingEvents::Waits);
    for _ in 0..3 {
        rig.wait_around(rig.class.file, || rig.lock(mutex));
    }
    rig.lock(mutex);
    let expected = [2, 1, 4, 3, 6, 5, 7];
    assert_eq!(rig.wait_ids(thread, Scope::HistoryLong), expected);
    reader.catch_up(rig);
    assert_eq!((reader.ids(), reader.lost), (expected.to_vec(), 0));
}

#[test]
fn a_wait_of_seconds_is_one_wait() {
    let rig = Rig::new();
    let thread = rig.connect();
    let mutex = rig.init_synch(rig.class.mutex, 0xABCD).expect("memory");
    rig.lock(mutex);
    let [mut reader, mut slow] = [(); 2].map(|()| Reader::begin(rig, LastingEvents::Waits));
    let wait = rig.start_synch_wait(mutex, operation::MUTEX, here()).expect("recorded");
    let began = ticks();
    reader.read(rig);
    // So long that its record has no room for it, and another one takes its place.
    while (ticks() - began) >> 32 == 0 {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    rig.end_synch_wait(&wait);
    rig.lock(mutex);
    for reader in [&mut reader, &mut slow] {
        reader.catch_up(rig);
        assert_eq!(reader.ids(), rig.wait_ids(thread, Scope::HistoryLong)[1..]);
        assert_eq!((reader.keys.len(), reader.lost, reader.position), (2, 0, 3));
    }
}

#[test]
fn a_stage_is_read_when_the_next_begins_in_whichever_block() {
    let rig = Rig::with(Config { history_long_size: [20_000; 4], ..small() });
    let thread = rig.connect();
    let mut reader = Reader::begin(rig, LastingEvents::Stages);
    for n in 0..5_000 {
        rig.stage(if n % 2 == 0 { rig.class.stage } else { rig.class.stage_two });
        if n % 7 == 0 {
            reader.read(rig);
            assert_eq!((reader.keys.len(), reader.lost, reader.position), (n, 0, n as u64));
        }
    }
    rig.end_stage();
    reader.catch_up(rig);
    assert_eq!((reader.lost, reader.position), (0, 5_000));
    assert_eq!(reader.ids(), rig.stage_ids(thread, Scope::HistoryLong));
}

#[test]
fn a_stage_that_never_ended_is_neither_read_nor_lost() {
    let rig = Rig::new();
    let thread = rig.connect();
    let mut reader = Reader::begin(rig, LastingEvents::Stages);
    rig.statement(rig.class.statement, "select 1", |_| {
        rig.stage(rig.class.stage);
        // What monitors is left out.
        rig.exclude_statement();
    });
    rig.set_current_thread(None);
    rig.delete_thread(thread);
    let thread = rig.connect();
    rig.stage(rig.class.stage);
    rig.stage(rig.class.stage_two);
    reader.catch_up(rig);
    assert_eq!((reader.keys.len(), reader.lost), (1, 0));
    rig.set_current_thread(None);
    rig.delete_thread(thread);
    reader.catch_up(rig);
    assert_eq!(
        (reader.keys.len(), reader.lost, reader.position),
        (1, 0, 3),
        "the last one went with its thread"
    );
}

/// The reader holds the block in which a stage began, and while it hands that out, the one in which it ended
/// goes.
#[test]
fn a_stage_that_ended_in_a_block_that_has_gone_is_lost() {
    let rig = Rig::with(Config { history_long_size: [1_000; 4], ..small() });
    let run_stages = |count| {
        let thread = rig.connect();
        (0..count).for_each(|_| _ = rig.stage(rig.class.stage));
        rig.end_stage();
        rig.set_current_thread(None);
        rig.delete_thread(thread);
    };
    let mut cursor = Cursor::default();
    rig.stream_stages(&mut cursor, Parts::NONE, &mut |_, _| ControlFlow::Continue(()));
    run_stages(400);
    let mut ids = Vec::new();
    let mut read_on = |cursor: &mut Cursor| {
        rig.stream_stages(cursor, Parts::NONE, &mut |row, _| {
            if ids.is_empty() {
                run_stages(20_000);
            }
            ids.push(row.head.event_id);
            ControlFlow::Continue(())
        })
    };
    let unknown = read_on(&mut cursor);
    assert_eq!((unknown.read, unknown.more), (0, true), "a thread that has come and gone is read next");
    let first = read_on(&mut cursor);
    assert!((100..300).contains(&first.read), "of two blocks one was read: {first:?}");
    assert_eq!(first.read + first.lost, 400, "{first:?}");
    let mut totals = [first.read, first.lost];
    while totals.iter().sum::<u64>() < ended(rig, LastingEvents::Stages) {
        let piece = read_on(&mut cursor);
        assert!(piece.more || piece.read + piece.lost > 0, "{totals:?} {piece:?}");
        totals = [totals[0] + piece.read, totals[1] + piece.lost];
    }
    assert_eq!(totals.iter().sum::<u64>(), 20_400, "{totals:?}");
}

/// More threads than an answer has blocks, each in a stage that lasts.
#[test]
fn what_lasts_everywhere_holds_nothing_up() {
    let rig = Rig::with(Config { memory_max: 256 << 20, ..small() });
    let mut reader = Reader::begin(rig, LastingEvents::Stages);
    let threads: Vec<ThreadRef> = (0..600).map(|_| rig.thread()).collect();
    let begin = |class| threads.iter().for_each(|thread| rig.on(thread, || _ = rig.stage(class)));
    begin(rig.class.stage);
    for round in 0..3 {
        reader.catch_up(rig);
        assert_eq!((reader.keys.len(), reader.lost), (600 * round, 0));
        begin(rig.class.stage_two);
    }
}

/// What may happen between two moments.
#[derive(Clone, Debug)]
enum Step {
    Lock {
        thread: usize,
        times: u64,
    },
    Nested {
        thread: usize,
    },
    /// A lock during which the settings change.
    Disturbed {
        thread: usize,
    },
    Stage {
        thread: usize,
        times: u64,
    },
    EndStage {
        thread: usize,
    },
    Reconnect {
        thread: usize,
    },
    Read {
        reader: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let thread = || 0..4usize;
    prop_oneof![
        3 => (thread(), 1..200u64).prop_map(|(thread, times)| Step::Lock { thread, times }),
        2 => thread().prop_map(|thread| Step::Nested { thread }),
        1 => thread().prop_map(|thread| Step::Disturbed { thread }),
        3 => (thread(), 1..300u64).prop_map(|(thread, times)| Step::Stage { thread, times }),
        1 => thread().prop_map(|thread| Step::EndStage { thread }),
        1 => thread().prop_map(|thread| Step::Reconnect { thread }),
        3 => (0..4usize).prop_map(|reader| Step::Read { reader }),
    ]
}

fn run(rig: Rig, mutex: SynchRef, threads: &mut [ThreadRef], step: &Step) {
    match *step {
        Step::Lock { thread, times } => rig.on(threads[thread], || (0..times).for_each(|_| rig.lock(mutex))),
        Step::Nested { thread } => rig.on(threads[thread], || {
            rig.wait_around(rig.class.file, || rig.wait_around(rig.class.cond, || rig.lock(mutex)));
        }),
        Step::Disturbed { thread } => rig.on(threads[thread], || {
            let wait = rig.start_synch_wait(mutex, operation::MUTEX, here()).expect("recorded");
            rig.set_consumer(Consumer::EventsWaitsHistory, true);
            rig.end_synch_wait(&wait);
        }),
        Step::Stage { thread, times } => rig.on(threads[thread], || {
            for n in 0..times {
                rig.stage(if n % 3 == 0 { rig.class.stage_with_progress } else { rig.class.stage });
            }
        }),
        Step::EndStage { thread } => rig.on(threads[thread], || rig.end_stage()),
        Step::Reconnect { thread } => {
            rig.on(threads[thread], || rig.end_stage());
            rig.delete_thread(threads[thread]);
            threads[thread] = rig.thread();
        }
        Step::Read { .. } => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn read_and_lost_add_up_whatever_happens(steps in prop::collection::vec(step(), 1..80)) {
        let rig = Rig::new();
        let mutex = rig.init_synch(rig.class.mutex, 0xABCD).expect("memory");
        let mut threads: Vec<ThreadRef> = (0..4).map(|_| rig.thread()).collect();
        let mut readers: Vec<Reader> =
            [LastingEvents::Waits, LastingEvents::Waits, LastingEvents::Stages, LastingEvents::Stages].map(|of| Reader::begin(rig, of)).into();
        for step in &steps {
            run(rig, mutex, &mut threads, step);
            if let Step::Read { reader } = step {
                let reader = &mut readers[*reader];
                reader.catch_up(rig);
                prop_assert_eq!(reader.keys.len() as u64 + reader.lost, ended(rig, reader.of), "{}", reader.what(rig));
            }
        }
        for reader in &mut readers {
            reader.catch_up(rig);
            prop_assert_eq!(reader.keys.len() as u64 + reader.lost, ended(rig, reader.of), "{}", reader.what(rig));
            prop_assert_eq!(reader.position, ended(rig, reader.of));
            if matches!(reader.of, LastingEvents::Stages) {
                reader.check_order();
            }
            let mut keys = reader.keys.clone();
            keys.sort_unstable();
            keys.dedup();
            prop_assert_eq!(keys.len(), reader.keys.len(), "each once");
        }
    }
}
