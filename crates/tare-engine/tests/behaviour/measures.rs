//! What only the extended shape shows of statements: samples of digests, CPU time, memory.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tare_engine::snapshot::*;
use tare_engine::*;

use tare_rig::*;

fn extended() -> Config {
    Config { extended: true, ..small() }
}

/// The only digest's row.
fn only_digest(rig: Rig) -> DigestRow {
    let [row] = &rig.digests()[..] else { panic!("one row, not {:?}", rig.digests()) };
    row.clone()
}

fn sample(rig: Rig) -> StatementSample {
    only_digest(rig).sample.expect("a sample")
}

/// The events of the calling thread's statements that have ended, oldest first.
fn ended(rig: Rig) -> Vec<StatementRow> {
    rig.statements(Scope::History)
}

#[test]
fn the_sample_is_the_slowest_and_is_what_its_event_says() {
    let rig = Rig::with(extended());
    rig.connect();
    for n in 0..10 {
        rig.query(&format!("select {n}"));
    }
    let events = ended(rig);
    let slowest = events.iter().max_by_key(|row| row.head.timer.wait_ps).expect("events");
    let row = only_digest(rig);
    let sample = row.sample.expect("a sample");
    assert_eq!(Some(sample.wait_ps), slowest.head.timer.wait_ps);
    assert_eq!(sample.wait_ps, row.stat.stat.max_ps);
    let as_slow = |row: &&StatementRow| row.head.timer.wait_ps == Some(sample.wait_ps);
    assert!(events.iter().filter(as_slow).any(|row| row.sql_text == sample.text), "{sample:?}");
    assert!((row.first_seen_us..=row.last_seen_us).contains(&sample.seen_us), "{sample:?}");
}

#[test]
fn the_strict_shape_takes_no_samples_and_measures_nothing() {
    let rig = Rig::new();
    rig.set_consumer(Consumer::EventsStatementsCpu, true);
    assert!(!rig.consumer(Consumer::EventsStatementsCpu));
    assert_eq!(rig.consumers().count(), 15);
    let thread = rig.connect();
    rig.statement(rig.class.statement, "select 1", |_| _ = rig.memory_alloc(rig.class.memory, 1000));
    let row = only_digest(rig);
    assert_eq!((row.sample, row.stat.sum.cpu_time_ps, row.stat.sum.max_total_memory), (None, 0, 0));
    let threads = rig.threads_of(ThreadKey::Thread(thread.thread_id()));
    assert_eq!((threads[0].total_memory, threads[0].max_total_memory), (0, 0));
    assert_eq!(ended(rig)[0].counters.max_total_memory, 0);
}

#[test]
fn without_a_text_there_is_no_sample_and_untimed_the_first_stays() {
    let rig = Rig::with(extended());
    rig.connect();
    rig.set_consumer(Consumer::EventsStatementsCurrent, false);
    rig.query("select 1");
    assert_eq!(only_digest(rig).sample, None);
    rig.set_consumer(Consumer::EventsStatementsCurrent, true);
    rig.set_instrument(rig.class.statement, None, Some(false));
    rig.query("select 2");
    rig.query("select 3");
    let sample = sample(rig);
    assert_eq!((sample.text.as_deref(), sample.wait_ps), (Some("select 2"), 0));
    // Any that takes time is slower than one that was not timed.
    rig.set_instrument(rig.class.statement, None, Some(true));
    rig.query("select 4");
    assert_eq!(self::sample(rig).text.as_deref(), Some("select 4"));
}

#[test]
fn a_sample_is_cut_where_its_event_is() {
    let rig = Rig::with(Config { max_sql_text_length: 20, ..extended() });
    rig.connect();
    let sql = format!("select {}", "x".repeat(30));
    rig.query(&sql);
    assert_eq!(sample(rig).text.as_deref(), Some("select xxxxxxxxxx..."));
    assert_eq!(ended(rig)[0].sql_text, sample(rig).text);
}

#[test]
fn the_longest_text_is_sampled_whole() {
    let rig = Rig::with(Config { max_sql_text_length: MAX_SQL_TEXT as u32, ..extended() });
    rig.connect();
    let sql = "x".repeat(MAX_SQL_TEXT);
    rig.query(&sql);
    assert_eq!(sample(rig).text, Some(sql));
}

#[test]
fn an_old_sample_gives_way_and_one_for_ever_does_not() {
    for (age, stays) in [(1, false), (0, true)] {
        let rig = Rig::with(Config { max_digest_sample_age: age, ..extended() });
        rig.connect();
        let begin = Instant::now();
        rig.statement(rig.class.statement, "select 1", |_| std::thread::sleep(Duration::from_millis(5)));
        let slowest = |rig| sample(rig).wait_ps;
        let slow = slowest(rig);
        let mut quick = 0;
        let gave_way = loop {
            rig.query("select 2");
            quick += 1;
            if slowest(rig) < slow {
                break true;
            }
            // For ever cannot be waited for. It is longer than twice the age that is tried first.
            if begin.elapsed() > if stays { Duration::from_millis(2500) } else { Duration::from_secs(60) } {
                break false;
            }
        };
        assert_eq!(gave_way, !stays, "age {age}, after {quick} quick statements");
    }
}

#[test]
fn a_sample_goes_with_its_digest() {
    let rig = Rig::with(Config { digests_size: 2, ..extended() });
    rig.connect();
    rig.query("select 1");
    rig.query("insert 1");
    let rows = rig.digests();
    let samples: Vec<_> = rows.iter().map(|row| row.sample.as_ref().and_then(|it| it.text.clone())).collect();
    assert_eq!(samples, [None, Some("insert 1".to_owned())], "what was evicted left none");
    rig.reset(Reset::Digests);
    rig.query("insert 2");
    assert_eq!(sample(rig).text.as_deref(), Some("insert 2"));
}

#[test]
fn of_many_threads_the_slowest_statement_stays_and_no_text_is_torn() {
    const WRITERS: u64 = 8;
    let rig = Rig::with(Config { max_sql_text_length: 400, ..extended() });
    let slowest = AtomicU64::new(0);
    let left = AtomicU64::new(WRITERS);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (slowest, left) = (&slowest, &left);
            scope.spawn(move || {
                let thread = rig.connect();
                for n in 0..300 {
                    // One digest, and a text that shows when it is of two.
                    let sql = format!("{}", writer).repeat(300);
                    rig.statement(rig.class.statement, &sql, |_| spin(n));
                    let row = rig.statements(ReadRequest {
                        thread: Some(thread.thread_id()),
                        ..Scope::Current.into()
                    });
                    slowest.fetch_max(row[0].head.timer.wait_ps.expect("timed"), Relaxed);
                }
                rig.set_current_thread(None);
                left.fetch_sub(1, Relaxed);
            });
        }
        scope.spawn(|| {
            while left.load(Relaxed) != 0 {
                for text in rig.digests().into_iter().filter_map(|row| row.sample?.text) {
                    assert!(text.len() == 300 && text.bytes().all(|it| it == text.as_bytes()[0]), "{text}");
                }
            }
        });
    });
    let row = only_digest(rig);
    assert_eq!(row.stat.stat.count, WRITERS * 300);
    assert_eq!(row.stat.stat.max_ps, slowest.load(Relaxed));
    assert_eq!(row.sample.expect("a sample").wait_ps, slowest.load(Relaxed));
    assert_eq!(rig.losses_of("digest_samples_lost"), 0);
}

/// Works for some microseconds.
fn spin(microseconds: u64) {
    let until = Instant::now() + Duration::from_micros(microseconds);
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

#[test]
fn cpu_time_is_counted_where_somebody_asks_for_it_and_adds_up() {
    let rig = Rig::with(extended());
    rig.connect();
    rig.query("select 1");
    assert_eq!(only_digest(rig).stat.sum.cpu_time_ps, 0, "off at first");
    rig.set_consumer(Consumer::EventsStatementsCpu, true);
    for n in 0..5 {
        rig.statement(rig.class.statement, "select 2", |_| spin(200 * n));
    }
    let events = ended(rig);
    let sum: u64 = events.iter().map(|row| row.counters.cpu_time_ps).sum();
    assert!(events[5].counters.cpu_time_ps > 0 && events[0].counters.cpu_time_ps == 0, "{events:?}");
    assert_eq!(only_digest(rig).stat.sum.cpu_time_ps, sum);
    assert_eq!(rig.global_statement(STATEMENT).sum.cpu_time_ps, sum);
    rig.set_consumer(Consumer::EventsStatementsCpu, false);
    rig.statement(rig.class.statement, "select 3", |_| spin(200));
    assert_eq!(only_digest(rig).stat.sum.cpu_time_ps, sum);
}

#[test]
fn who_sleeps_uses_no_cpu_time() {
    let rig = Rig::with(extended());
    rig.connect();
    rig.set_consumer(Consumer::EventsStatementsCpu, true);
    rig.statement(rig.class.statement, "select 1", |_| std::thread::sleep(Duration::from_millis(200)));
    let row = &ended(rig)[0];
    assert!(row.counters.cpu_time_ps < row.head.timer.wait_ps.expect("timed") / 4, "{row:?}");
}

/// MAX_TOTAL_MEMORY of each statement that has ended.
fn memory(rig: Rig) -> Vec<u64> {
    ended(rig).iter().map(|row| row.counters.max_total_memory).collect()
}

#[test]
fn a_statement_has_the_most_its_session_had_meanwhile() {
    let rig = Rig::with(extended());
    let thread = rig.connect();
    let heap = rig.class.memory;
    rig.memory_alloc(heap, 100);
    rig.statement(rig.class.statement, "select 1", |_| {
        rig.memory_alloc(heap, 5000);
        rig.memory_free(heap, 5000);
        rig.memory_alloc(heap, 10);
        rig.memory_realloc(heap, 10, 30);
        // The server's own is no session's.
        rig.memory_alloc(rig.class.server_memory, 1 << 30);
    });
    rig.query("select 2");
    assert_eq!(memory(rig), [5100, 130]);
    let row = only_digest(rig);
    assert_eq!((row.stat.sum.max_total_memory, row.stat.stat.count), (5100, 2), "the largest, not the sum");
    let thread = &rig.threads_of(ThreadKey::Thread(thread.thread_id()))[0];
    assert_eq!((thread.total_memory, thread.max_total_memory), (130, 5100));
}

#[test]
fn a_statement_in_another_has_what_it_added_and_the_outer_one_has_all() {
    // The outer one's own, before the others or what the last of them had.
    for (spare, most) in [(0, 8200), (20_000, 21_200)] {
        statements_in_another(spare, most);
    }
}

fn statements_in_another(spare: u64, most: u64) {
    let rig = Rig::with(extended());
    rig.connect();
    let heap = rig.class.memory;
    rig.memory_alloc(heap, 1000);
    rig.statement(rig.class.statement, "call 1", |_| {
        rig.memory_alloc(heap, 200);
        rig.memory_alloc(heap, spare);
        rig.memory_free(heap, spare);
        for bytes in [3000, 500] {
            rig.statement(rig.class.nested_statement, "set", |_| {
                rig.memory_alloc(heap, bytes);
                rig.memory_free(heap, bytes);
            });
        }
        // One that is forgotten leaves its memory to the one around it.
        let forgotten = rig.begin(rig.class.nested_statement, "set").expect("a level");
        rig.memory_alloc(heap, 7000);
        rig.memory_free(heap, 7000);
        rig.discard_statement(forgotten);
    });
    assert_eq!(memory(rig), [3000, 500, most]);
    assert_eq!(rig.global_statement(NESTED).sum.max_total_memory, 3000);
}

#[test]
fn nobody_has_less_than_no_memory() {
    let rig = Rig::with(extended());
    let thread = rig.connect();
    rig.memory_free(rig.class.memory, 64);
    rig.statement(rig.class.statement, "select 1", |_| _ = rig.memory_alloc(rig.class.memory, 10));
    assert_eq!(memory(rig), [10]);
    assert_eq!(rig.thread_memory(thread, MEMORY).current_bytes, -54, "the balance may be");
}

#[test]
fn figures_go_where_their_threads_went() {
    let rig = Rig::with(extended());
    rig.set_consumer(Consumer::EventsStatementsCpu, true);
    for bytes in [300, 4000, 200] {
        let thread = rig.connect();
        rig.statement(rig.class.statement, "select 1", |_| {
            spin(50);
            rig.memory_alloc(rig.class.memory, bytes);
            rig.memory_free(rig.class.memory, bytes);
        });
        rig.delete_thread(thread);
    }
    let cpu: u64 = rig.statements(Scope::HistoryLong).iter().map(|row| row.counters.cpu_time_ps).sum();
    let global = rig.global_statement(STATEMENT);
    assert_eq!((global.sum.max_total_memory, global.sum.cpu_time_ps), (4000, cpu));
    assert!(cpu > 0);
    assert_eq!(only_digest(rig).stat.sum, global.sum);
}

#[test]
fn a_statement_has_the_hosts_number() {
    let rig = Rig::with(extended());
    rig.connect();
    rig.statement(rig.class.statement, "select 1", |statement| rig.set_statement_id(statement, 4711));
    rig.query("select 2");
    let ids: Vec<u64> = ended(rig).iter().map(|row| row.statement_id).collect();
    assert_eq!(ids, [4711, 0]);
}

#[test]
fn an_account_has_the_most_memory_that_one_of_its_connections_had() {
    let rig = Rig::with(extended());
    let most = |level| {
        let rows = rig.connections(level);
        let of_ann =
            |row: &&ConnectionsRow| row.owner.user.as_deref() == Some("ann") || level == Grouping::Host;
        rows.iter().find(of_ann).map(|row| row.max_session_memory)
    };
    for (bytes, stays) in [(5000, false), (300, true), (200, true)] {
        let thread = rig.connect();
        rig.set_thread_account(thread, b"ann", b"here");
        rig.memory_alloc(rig.class.memory, bytes);
        rig.memory_free(rig.class.memory, bytes);
        if !stays {
            rig.delete_thread(thread);
        }
    }
    for level in [Grouping::Account, Grouping::User] {
        assert_eq!(most(level), Some(5000), "{level:?}");
    }
    rig.reset(Reset::Connections(Grouping::Account));
    assert_eq!((most(Grouping::Account), most(Grouping::User)), (Some(300), Some(5000)));
}
