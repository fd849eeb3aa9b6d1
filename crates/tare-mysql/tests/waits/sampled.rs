//! Level `sampled`: statements are counted exactly, and what happens inside is estimated from those chosen.

use mysql::prelude::Queryable;
use tare_testkit::mysql_server::Mysql;

use crate::{library, number};

const STATEMENTS: u64 = 8000;
/// How often so many are sent.
const RUNS: u64 = 3;
/// One statement in so many is chosen.
const WEIGHT: u64 = 8;

#[test]
fn what_chosen_statements_do_stands_for_the_others() {
    let settings = format!("level=sampled; sample=1/{WEIGHT}; slow-after=3600s");
    let options = ["--performance-schema-consumer-events-statements-history-long=ON"];
    let Some(server) = Mysql::preloaded(&library(), &settings, &options).expect("a server") else { return };
    let (mut worker, mut reader) = (server.client().expect("a client"), server.client().expect("a client"));
    let thread = number(&mut worker, "SELECT ps_current_thread_id()");
    let count = |reader: &mut mysql::Conn, table: &str, name: &str| {
        let sql = format!(
            "SELECT COUNT_STAR FROM performance_schema.events_{table}_summary_by_thread_by_event_name \
             WHERE THREAD_ID = {thread} AND EVENT_NAME = '{name}'"
        );
        number(reader, &sql)
    };
    let of = [
        ("statements", "statement/sql/do"),
        ("stages", "stage/sql/executing"),
        ("waits", "wait/synch/mutex/sql/THD::LOCK_thd_data"),
        ("stages", "stage/sql/query end"),
    ];
    let mut run = |reader: &mut mysql::Conn| {
        let before = of.map(|(table, name)| count(reader, table, name));
        for _ in 0..STATEMENTS {
            worker.query_drop("DO 1").expect("a statement");
        }
        // The last one has its answer before it has ended.
        worker.ping().expect("a ping");
        let after = of.map(|(table, name)| count(reader, table, name));
        let counted: [u64; 4] = std::array::from_fn(|at| after[at] - before[at]);
        println!("{counted:?}");
        counted
    };
    // The standard deviation of the number of chosen statements is 3%.
    let is_about = |of: u64, each: u64| of.abs_diff(STATEMENTS * each) < STATEMENTS * each / 5;
    let is_right = |[statements, stages, locks, _]: [u64; 4]| {
        assert_eq!(statements, STATEMENTS, "statements are counted exactly");
        assert!(is_about(stages, 1), "one stage each");
        let each = (locks + STATEMENTS / 2) / STATEMENTS;
        assert!(each > 0 && is_about(locks, each), "a whole number of locks each");
    };
    let all = run(&mut reader);
    is_right(all);
    assert!(is_about(all[3], 1), "one stage each");
    let switch = "UPDATE performance_schema.setup_instruments SET ENABLED = ";
    for (to, is_on) in [("NO", false), ("YES", true)] {
        // Stages are not all sampled any more, and are again.
        reader.query_drop(format!("{switch}'{to}' WHERE NAME = '{}'", of[3].1)).expect("an update");
        let counted = run(&mut reader);
        is_right(counted);
        let is_as_said = if is_on { is_about(counted[3], 1) } else { counted[3] == 0 };
        assert!(is_as_said, "the stage is switched {to}");
    }
    let recorded = number(
        &mut reader,
        &format!(
            "SELECT COUNT(*) FROM performance_schema.events_statements_history_long \
             WHERE THREAD_ID = {thread} AND SQL_TEXT = 'DO 1'"
        ),
    );
    println!("{recorded} recorded");
    assert!(recorded > 0 && recorded < RUNS * STATEMENTS / WEIGHT * 2, "only chosen ones are recorded");
}
