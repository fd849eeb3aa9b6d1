//! Readers of ended statements: while there is one, statements that were not chosen are recorded for it.

use std::time::Duration;

use tare_engine::snapshot::*;
use tare_engine::*;

use tare_rig::*;

const NEVER: Duration = Duration::from_secs(3600);
/// In picoseconds.
const HOUR: u64 = 3600 * 1_000_000_000_000;
const SECOND: u64 = 1_000_000_000_000;

/// Returns a server that chooses one statement in a million, in both shapes.
fn rigs() -> impl Iterator<Item = Rig> {
    [false, true].into_iter().map(|extended| {
        let rig = Rig::with(Config {
            instruments: Box::new(|_| Initial { level: Recording::Sampled, ..Initial::default() }),
            extended,
            ..small()
        });
        rig.set_sampling(SampleRate::OneIn(1_000_000), NEVER);
        rig.adjust_sampling();
        rig.connect();
        rig
    })
}

fn texts(rig: &Rig) -> Vec<String> {
    rig.statements(Scope::History).into_iter().filter_map(|row| row.sql_text).collect()
}

#[test]
fn statements_that_were_not_chosen_are_recorded_while_there_is_a_reader() {
    for rig in rigs() {
        rig.query("SELECT 'before'");
        let reader = rig.engine.read_statements_from(0);
        rig.query("SELECT 'read'");
        let row = rig.statements(Scope::History).pop().expect("it is recorded");
        assert_eq!(row.sql_text.as_deref(), Some("SELECT 'read'"));
        assert!(row.digest.is_some());
        drop(reader);
        rig.query("SELECT 'after'");
        assert_eq!(texts(&rig), ["SELECT 'read'"]);
    }
}

#[test]
fn one_that_began_before_the_reader_came_counts_and_none_that_ends_after_it_left() {
    for rig in rigs() {
        let sql = "SELECT 'long'";
        let statement = rig.begin(rig.class.statement, sql).expect("an event");
        assert!(rig.is_skipping(), "one in a million is chosen");
        let reader = rig.engine.read_statements_from(0);
        assert!(rig.is_skipping(), "what is inside stays out");
        rig.finish(statement, sql);
        let statement = rig.begin(rig.class.statement, "SELECT 'late'").expect("an event");
        drop(reader);
        rig.finish(statement, "SELECT 'late'");
        assert_eq!(texts(&rig), [sql]);
    }
}

#[test]
fn only_those_that_take_as_long_as_a_reader_wants_are_recorded() {
    for rig in rigs() {
        let state = || rig.sampling().recorded_from;
        assert_eq!(state(), NEVER);
        let patient = rig.engine.read_statements_from(SECOND);
        assert_eq!(state(), Duration::from_secs(1));
        rig.query("SELECT 'quick'");
        assert!(texts(&rig).is_empty());
        // The least of all counts, and it survives the regular adjustment.
        let reader = rig.engine.read_statements_from(0);
        rig.adjust_sampling();
        assert_eq!(state(), Duration::ZERO);
        rig.query("SELECT 'read'");
        reader.want_from(2 * SECOND);
        assert_eq!(state(), Duration::from_secs(1));
        rig.query("SELECT 'quick again'");
        drop(patient);
        assert_eq!(state(), Duration::from_secs(2));
        reader.want_from(u64::MAX);
        assert_eq!(state(), NEVER);
        reader.want_from(1000);
        rig.statement(rig.class.statement, "SELECT 'longer'", |_| {
            std::thread::sleep(Duration::from_millis(1));
        });
        drop(reader);
        assert_eq!(state(), NEVER);
        rig.query("SELECT 'after'");
        assert_eq!(texts(&rig), ["SELECT 'read'", "SELECT 'longer'"]);
    }
}

#[test]
fn a_reader_of_long_statements_does_not_raise_slow_after() {
    for rig in rigs() {
        rig.set_sampling(SampleRate::OneIn(1_000_000), Duration::from_micros(1));
        rig.adjust_sampling();
        let reader = rig.engine.read_statements_from(HOUR);
        rig.statement(rig.class.statement, "SELECT 'slow'", |_| {
            std::thread::sleep(Duration::from_millis(1));
        });
        drop(reader);
        assert_eq!(texts(&rig), ["SELECT 'slow'"]);
    }
}

#[test]
fn statements_that_are_not_timed_are_recorded_for_who_reads_all() {
    for rig in rigs() {
        rig.set_instrument(rig.class.statement, None, Some(false));
        rig.set_level(rig.class.statement_two, None);
        let switch = rig.instruments().into_iter().find(|it| it.id == rig.class.statement).expect("it");
        let reader = rig.engine.read_statements_from(SECOND);
        rig.query("SELECT 'longer only'");
        reader.want_from(0);
        rig.query("SELECT 'untimed'");
        rig.statement(rig.class.statement_two, "SELECT 'off'", |_| ());
        drop(reader);
        println!("level {:?}, timed {}", switch.level, switch.timed);
        assert_eq!(texts(&rig), ["SELECT 'untimed'"]);
    }
}

#[test]
fn statements_inside_others_are_recorded_and_what_is_only_counted_is_not() {
    for rig in rigs() {
        let reader = rig.engine.read_statements_from(0);
        rig.statement(rig.class.statement, "CALL p()", |_| {
            rig.statement(rig.class.nested_statement, "SELECT 'inside'", |_| ());
        });
        for level in [Recording::Sums, Recording::Counts] {
            rig.set_level(rig.class.statement, Some(level));
            rig.query("SELECT 'counted'");
        }
        drop(reader);
        let mut recorded = texts(&rig);
        recorded.sort();
        assert_eq!(recorded, ["CALL p()", "SELECT 'inside'"]);
    }
}
