//! Streams under load: with many threads at once that come and go, and histories that are far too small, what
//! a reader read and what it was told it missed are what there was.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use tare_engine::snapshot::{EventHead, Grouping, Parts};
use tare_engine::{Config, Cursor};

use tare_rig::*;

const THREADS: u64 = 64;
const STATEMENTS: u64 = 1_500;
/// A connection's statements at most.
const CONNECTION: u64 = 300;

/// One connection after the other, until so many statements have been run.
fn work(rig: Rig, worker: u64) {
    let mut left = STATEMENTS;
    let mut random = worker;
    while left > 0 {
        let thread = rig.connect();
        rig.set_thread_account(thread, format!("user{worker}").as_bytes(), b"localhost");
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let mine = left.min(random >> 33).min(random % CONNECTION + 1);
        for n in 0..mine {
            rig.query(&format!("select {worker} {n} {}", "x".repeat((n % 50) as usize)));
        }
        left -= mine;
        rig.set_current_thread(None);
        rig.delete_thread(thread);
    }
}

/// Rows read and lost; every row is checked.
struct Reader {
    cursor: Cursor,
    read: u64,
    lost: u64,
    /// The last statement of each thread.
    last: HashMap<u64, u64>,
}

impl Reader {
    fn begin(rig: Rig) -> Reader {
        let mut reader = Reader { cursor: Cursor::default(), read: 0, lost: 0, last: HashMap::new() };
        assert!(!reader.read(rig, Duration::ZERO));
        reader
    }

    /// True: there is more.
    fn read(&mut self, rig: Rig, pause: Duration) -> bool {
        let Reader { cursor, read, last, .. } = self;
        let piece = rig.stream_statements(cursor, Parts::ALL, &mut |statement, origin| {
            let row = statement.row();
            let sql = row.sql_text.as_deref().expect("a text");
            let words: Vec<&str> = sql.split(' ').collect();
            let n: u64 = words[2].parse().expect("a number");
            assert_eq!(origin.user.as_deref(), Some(&*format!("user{}", words[1])), "{row:?}");
            assert_eq!(words[3], "x".repeat((n % 50) as usize), "a text that is not whole: {row:?}");
            let before = last.insert(row.head.thread_id, n);
            assert!(before.is_none_or(|before| before < n), "out of order or twice: {before:?} {row:?}");
            *read += 1;
            if !pause.is_zero() && read.is_multiple_of(500) {
                std::thread::sleep(pause);
            }
            ControlFlow::Continue(())
        });
        self.lost += piece.lost;
        piece.more
    }
}

fn check(history_long_size: u32) -> [(u64, u64); 3] {
    let rig =
        Rig::with(Config { memory_max: 128 << 20, history_long_size: [history_long_size; 4], ..small() });
    let done = AtomicBool::new(false);
    let paces = [Duration::ZERO, Duration::from_millis(1), Duration::from_millis(20)];
    let readers = paces.map(|pause| (Reader::begin(rig), pause));
    std::thread::scope(|scope| {
        let done = &done;
        let readers = readers.map(|(mut reader, pause)| {
            scope.spawn(move || {
                loop {
                    // Asked before reading: whatever was done by then is read.
                    let last = done.load(SeqCst);
                    let more = reader.read(rig, pause);
                    if last && !more {
                        return (reader.read, reader.lost);
                    }
                }
            })
        });
        let workers: Vec<_> = (0..THREADS).map(|worker| scope.spawn(move || work(rig, worker))).collect();
        workers.into_iter().for_each(|worker| worker.join().expect("a worker"));
        done.store(true, SeqCst);
        readers.map(|reader| reader.join().expect("a reader"))
    })
}

#[test]
fn what_was_read_and_what_was_missed_is_what_there_was() {
    for history_long_size in [100, 5_000, 2 * (THREADS * STATEMENTS) as u32] {
        for (read, lost) in check(history_long_size) {
            println!("long history of {history_long_size}: {read} read, {lost} lost");
            assert_eq!(
                read + lost,
                THREADS * STATEMENTS,
                "{read} read, {lost} lost of a history of {history_long_size}"
            );
        }
    }
}

#[test]
fn nothing_is_missed_where_the_history_holds_all() {
    for (read, lost) in check(2 * (THREADS * STATEMENTS) as u32) {
        assert_eq!((read, lost), (THREADS * STATEMENTS, 0));
    }
}

/// Reads waits, or stages, until `done`; what it read and what it was told it missed.
fn read_lasting(
    rig: Rig,
    stages: bool,
    pause: Duration,
    (mut cursor, done): (Cursor, &AtomicBool),
) -> [u64; 2] {
    let (mut last, mut totals) = (HashMap::new(), [0; 2]);
    loop {
        let is_over = done.load(SeqCst);
        let mut take = |head: &EventHead| {
            assert!(head.end_event_id.is_some(), "{head:?}");
            totals[0] += 1;
            if stages {
                let before = last.insert(head.thread_id, head.event_id);
                assert!(before.is_none_or(|before| before < head.event_id), "{before:?} {head:?}");
            }
            ControlFlow::Continue(())
        };
        let piece = match stages {
            true => rig.stream_stages(&mut cursor, Parts::NONE, &mut |row, _| take(&row.head)),
            false => rig.stream_waits(&mut cursor, Parts::NONE, &mut |row, _| take(&row.head)),
        };
        totals[1] += piece.lost;
        if is_over && !piece.more {
            return totals;
        }
        std::thread::sleep(pause);
    }
}

#[test]
fn waits_and_stages_that_were_read_and_missed_are_what_there_was() {
    for history_long_size in [100, 1_000_000] {
        let rig =
            Rig::with(Config { memory_max: 128 << 20, history_long_size: [history_long_size; 4], ..small() });
        let mutex = rig.init_synch(rig.class.mutex, 0xABCD).expect("memory");
        let done = AtomicBool::new(false);
        let paces = [false, true].map(|stages| [0, 20].map(|pause| (stages, Duration::from_millis(pause))));
        let readers = paces.concat().into_iter().map(|(stages, pause)| {
            let mut cursor = Cursor::default();
            match stages {
                true => rig.stream_stages(&mut cursor, Parts::NONE, &mut |_, _| ControlFlow::Continue(())),
                false => rig.stream_waits(&mut cursor, Parts::NONE, &mut |_, _| ControlFlow::Continue(())),
            };
            (stages, pause, cursor)
        });
        let readers: Vec<_> = readers.collect();
        std::thread::scope(|scope| {
            let done = &done;
            let readers: Vec<_> = readers
                .into_iter()
                .map(|(stages, pause, cursor)| {
                    (stages, scope.spawn(move || read_lasting(rig, stages, pause, (cursor, done))))
                })
                .collect();
            let work = |worker: u64| {
                for connection in 0..10 {
                    let thread = rig.connect();
                    for n in 0..(worker + connection) % 7 * 100 {
                        rig.stage(rig.class.stage);
                        rig.lock(mutex);
                        if n % 10 == 0 {
                            rig.wait_around(rig.class.file, || rig.lock(mutex));
                        }
                    }
                    rig.end_stage();
                    rig.set_current_thread(None);
                    rig.delete_thread(thread);
                }
            };
            let workers: Vec<_> = (0..16).map(|worker| scope.spawn(move || work(worker))).collect();
            workers.into_iter().for_each(|worker| worker.join().expect("a worker"));
            done.store(true, SeqCst);
            let rows = [rig.wait_rows(Grouping::Global), rig.stage_rows(Grouping::Global)];
            let counted = rows.map(|rows| rows.iter().map(|row| row.stat.count).sum::<u64>());
            for (stages, reader) in readers {
                let [read, lost] = reader.join().expect("a reader");
                println!("stages {stages}, history of {history_long_size}: {read} read, {lost} lost");
                assert_eq!(
                    read + lost,
                    counted[usize::from(stages)],
                    "stages {stages}: {read} read, {lost} lost"
                );
                assert!(lost == 0 || history_long_size == 100, "{lost} lost");
            }
        });
    }
}
