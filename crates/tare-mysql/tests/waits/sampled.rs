//! Level `sampled`: statements are counted exactly, and what happens inside is estimated from those chosen.

use mysql::prelude::Queryable;
use tare_testkit::mysql_server::Mysql;

use crate::{library, number};

const STATEMENTS: u64 = 8000;
/// One statement in so many is chosen.
const WEIGHT: u64 = 8;

#[test]
fn what_chosen_statements_do_stands_for_the_others() {
    let settings = format!("level=sampled; sample=1/{WEIGHT}; slow-after=3600s");
    let options = ["--performance-schema-consumer-events-statements-history-long=ON"];
    let Some(server) = Mysql::preloaded(&library(), &settings, &options).expect("a server") else { return };
    let (mut worker, mut reader) = (server.client().expect("a client"), server.client().expect("a client"));
    let thread = number(&mut worker, "SELECT ps_current_thread_id()");
    let mut count = |table: &str, name: &str| {
        let sql = format!(
            "SELECT COUNT_STAR FROM performance_schema.events_{table}_summary_by_thread_by_event_name \
             WHERE THREAD_ID = {thread} AND EVENT_NAME = '{name}'"
        );
        number(&mut reader, &sql)
    };
    let mutex = "wait/synch/mutex/sql/THD::LOCK_thd_data";
    let seen = |count: &mut dyn FnMut(&str, &str) -> u64| {
        let [of, stage, lock] =
            [("statements", "statement/sql/do"), ("stages", "stage/sql/executing"), ("waits", mutex)]
                .map(|(table, name)| count(table, name));
        [of, stage, lock]
    };
    let before = seen(&mut count);
    for _ in 0..STATEMENTS {
        worker.query_drop("DO 1").expect("a statement");
    }
    let after = seen(&mut count);
    let [statements, stages, locks] = [0, 1, 2].map(|at| after[at] - before[at]);
    println!("{statements} statements, {stages} stages, {locks} locks");
    assert_eq!(statements, STATEMENTS, "statements are counted exactly");
    // The standard deviation of the number of chosen statements is 3%.
    let is_about = |of: u64, each: u64| of.abs_diff(STATEMENTS * each) < STATEMENTS * each / 5;
    assert!(is_about(stages, 1), "one stage each");
    let each = (locks + STATEMENTS / 2) / STATEMENTS;
    assert!(each > 0 && is_about(locks, each), "a whole number of locks each");
    let recorded = number(
        &mut reader,
        &format!(
            "SELECT COUNT(*) FROM performance_schema.events_statements_history_long \
             WHERE THREAD_ID = {thread} AND SQL_TEXT = 'DO 1'"
        ),
    );
    println!("{recorded} recorded");
    assert!(recorded > 0 && recorded < STATEMENTS / WEIGHT * 2, "only chosen ones are recorded");
}
