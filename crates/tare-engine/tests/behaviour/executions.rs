//! Executions of prepared statements that were not chosen: their text stays where it was prepared until it is
//! needed.

use std::time::Duration;

use tare_engine::snapshot::*;
use tare_engine::*;

use tare_rig::*;

const SQL: &str = "SELECT c FROM t WHERE id = ?";

/// A server that chooses one statement in a million, and a statement it has prepared.
struct PreparedText {
    rig: Rig,
    prepared: PreparedRef,
}

impl PreparedText {
    fn new(slow_after: Duration) -> PreparedText {
        let rig = Rig::with(Config {
            instruments: Box::new(|_| Initial { level: Recording::Sampled, ..Initial::default() }),
            extended: true,
            ..small()
        });
        rig.set_sampling(SampleRate::OneIn(1_000_000), slow_after);
        rig.adjust_sampling();
        rig.connect();
        let prepared = rig.create_prepared(1, 1, b"", 1, None).expect("memory");
        rig.set_prepared_text(prepared, SQL.as_bytes());
        let mut bytes = [0; 1024];
        let tokens =
            DigestTokens { bytes: tokens_of(SQL, &mut bytes), charset: 33, cut: false, hash: last_bytes };
        let class = rig.class.statement;
        let statement = rig.begin(class, "PREPARE").expect("an event");
        rig.set_prepared_digest(prepared, statement, &tokens);
        rig.end_statement(statement, None);
        PreparedText { rig, prepared }
    }

    /// Executes it. What the text of the event in progress has been before does not matter.
    fn execute(&self, before: &str, inside: impl FnOnce(Statement)) {
        let statement = self.rig.begin(self.rig.class.statement, before).expect("an event");
        assert!(self.rig.is_skipping(), "one in a million is chosen");
        self.rig.execute_prepared(statement, self.prepared);
        inside(statement);
        self.rig.end_statement(statement, None);
    }

    fn texts(&self, scope: Scope) -> Vec<Option<String>> {
        self.rig.statements(scope).into_iter().map(|row| row.sql_text).collect()
    }
}

const NEVER: Duration = Duration::from_secs(3600);

#[test]
fn it_is_shown_while_it_runs_and_afterwards() {
    let host = PreparedText::new(NEVER);
    for before in ["", "EXECUTE s"] {
        host.execute(before, |_| assert_eq!(host.texts(Scope::Current), [Some(SQL.to_owned())], "{before}"));
        assert_eq!(host.texts(Scope::Current), [Some(SQL.to_owned())], "the last one, after {before:?}");
        assert!(host.texts(Scope::History).is_empty());
    }
}

#[test]
fn it_is_recorded_of_one_that_fails_waits_or_is_slow() {
    let host = PreparedText::new(NEVER);
    host.execute("", |statement| {
        host.rig.set_statement_outcome(statement, &Outcome { errno: 1054, errors: 1, ..Outcome::default() });
    });
    assert_eq!(host.texts(Scope::History), [Some(SQL.to_owned())]);
    host.execute("EXECUTE s", |_| host.rig.has_waited());
    assert_eq!(host.texts(Scope::History), [Some(SQL.to_owned()), Some(SQL.to_owned())]);
    let host = PreparedText::new(Duration::from_micros(1));
    host.execute("", |_| std::thread::sleep(Duration::from_millis(1)));
    assert_eq!(host.texts(Scope::History).last(), Some(&Some(SQL.to_owned())));
}

#[test]
fn it_is_recorded_for_a_reader_of_statements() {
    let host = PreparedText::new(NEVER);
    host.execute("", |_| {});
    let reader = host.rig.engine.read_statements_from(0);
    host.execute("EXECUTE s", |_| {});
    drop(reader);
    host.execute("", |_| {});
    assert_eq!(host.texts(Scope::History), [Some(SQL.to_owned())]);
}

#[test]
fn it_is_the_sample_of_its_digest() {
    let host = PreparedText::new(NEVER);
    for _ in 0..3 {
        host.execute("", |_| {});
    }
    let digests = host.rig.digests();
    let row = digests.iter().find(|row| row.stat.stat.count == 3).expect("its digest");
    assert_eq!(row.sample.as_ref().and_then(|sample| sample.text.as_deref()), Some(SQL));
}

#[test]
fn a_statement_that_is_deallocated_leaves_no_text_of_another_one() {
    let host = PreparedText::new(NEVER);
    host.execute("", |_| {});
    host.rig.destroy_prepared(host.prepared);
    let other = host.rig.create_prepared(2, 2, b"", 1, None).expect("memory");
    host.rig.set_prepared_text(other, b"DELETE FROM u");
    assert!(host.texts(Scope::Current).iter().flatten().all(|text| text == SQL));
}
