//! What the servers' own counts do that says nothing of what is switched.

use tare_budget::Done;
use tare_outlets::Source;
use tare_outlets::govern::ServerCounts;

use super::*;

#[test]
fn a_count_that_falls_when_a_connection_ends_does_not_say_that_what_is_off_goes_on() {
    let _turn = tare_testkit::turn();
    for host in Host::all() {
        let mut connection = Some(host.root());
        let (events, done) = run(&host.dear_orders(), 8, false, |nth| {
            host.load();
            if nth == 0
                && let Some(connection) = &mut connection
            {
                (0..10_000).for_each(|_| connection.query_drop("DO 1").expect("a statement"));
            }
            if nth == 4 {
                // The servers leave part of its idle events out from now on: there are less than before.
                drop(connection.take());
            }
        });
        done.expect("it governs");
        let is_off = |it: &&Decision| it.moves.iter().any(|it| it.switch == "idle" && it.to == Level::Off);
        assert!(
            decisions(&events).iter().take(4).any(is_off),
            "it is switched off before the connection ends"
        );
        let fixed = Notice::Fixed { name: "idle".to_owned() };
        assert!(!notices(&events).contains(&&fixed), "{:?}", notices(&events));
    }
}

/// Of each kind.
const QUERIES: u32 = 2_000;

#[test]
fn a_range_of_rows_is_one_call_of_the_storage_engine_as_a_point_select_is() {
    let _turn = tare_testkit::turn();
    for host in Host::all() {
        let mut root = host.root();
        for statement in [
            "CREATE TABLE load_of_test.ordered (id INT PRIMARY KEY, value INT) ENGINE = InnoDB",
            "INSERT INTO load_of_test.ordered SELECT a.n * 25 + b.n * 5 + c.n, 1
             FROM load_of_test.rows_of_test a, load_of_test.rows_of_test b, load_of_test.rows_of_test c",
        ] {
            root.query_drop(statement).expect("a table");
        }
        let mut source = Source::open(host.address("root")).expect("a source");
        let mut done = |statement: &str| {
            let before = ServerCounts::read(&mut source).expect("counts");
            (0..QUERIES).for_each(|_| root.query_drop(statement).expect("a query"));
            let now = ServerCounts::read(&mut source).expect("counts");
            let Done { calls, writes } = now.done_since(&before);
            (now.since(&before)["wait/io/table/sql/handler"], calls.expect("no reset"), writes)
        };
        // The reading of status variables is some hundred calls itself.
        let as_many = f64::from(QUERIES)..1.5 * f64::from(QUERIES);
        let (rows, calls, writes) = done("SELECT value FROM load_of_test.ordered WHERE id = 100");
        assert!(as_many.contains(&rows) && as_many.contains(&calls), "{rows} rows in {calls} calls");
        assert_eq!(writes, Some(0.0));
        let (rows, calls, _) =
            done("SELECT SUM(value) FROM load_of_test.ordered WHERE id BETWEEN 31 AND 130");
        assert!(
            rows >= 100.0 * f64::from(QUERIES) && as_many.contains(&calls),
            "{rows} rows in {calls} calls"
        );
        let (_, _, writes) = done("UPDATE load_of_test.ordered SET value = value + 1 WHERE id = 100");
        assert_eq!(writes, Some(f64::from(QUERIES)));
    }
}
