//! Stored programs and prepared statements.

use tare_engine::snapshot::*;
use tare_engine::*;

use tare_rig::*;

#[test]
fn a_prepared_statement_counts_until_it_is_truncated_and_on_after_it() {
    let rig = Rig::new();
    let thread = rig.connect();
    let program = rig.program(objects::PROCEDURE, b"db", b"p").unwrap();
    let prepared = rig.create_prepared(0x55, 3, b"stmt", 12, Some(program)).unwrap();
    rig.set_prepared_text(prepared, b"select ?");
    let run = |preparing| {
        let statement = rig.begin(rig.class.statement, "select 1").unwrap();
        rig.add_statement_counter(statement, Counter::RowsSent, 2);
        let ended = rig.end_statement(statement, None);
        rig.count_prepared(prepared, preparing, ended);
    };
    run(true);
    run(false);
    run(false);
    rig.count_reprepare(prepared);
    let row = rig.prepared_statements().remove(0);
    assert_eq!((row.object_instance_begin, row.statement_id), (0x55, 3));
    assert_eq!((row.name.as_deref(), &*row.sql_text), (Some("stmt"), "select ?"));
    assert_eq!((row.owner_thread_id, row.owner_event_id), (thread.thread_id(), 12));
    assert_eq!((row.owner.object_type, row.owner.name.as_deref()), (Some("PROCEDURE"), Some("p")));
    assert!(row.prepare.sum_ps > 0);
    assert_eq!((row.prepare.count, row.reprepare.count), (1, 1));
    assert_eq!((row.execute.stat.count, row.execute.sum.rows_sent), (2, 4));
    rig.reset(Reset::Prepared);
    let row = rig.prepared_statements().remove(0);
    assert_eq!((row.prepare, row.reprepare, row.execute), Default::default());
    assert_eq!(row.sql_text, "select ?", "the statement is still there");
    run(false);
    rig.drop_program(objects::PROCEDURE, b"db", b"p");
    let row = rig.prepared_statements().remove(0);
    assert_eq!((row.prepare.count, row.execute.stat.count, row.execute.sum.rows_sent), (0, 1, 2));
    assert_eq!(row.owner.name, None);
    rig.destroy_prepared(prepared);
    assert!(rig.prepared_statements().is_empty());
}

#[test]
fn truncate_forgets_what_programs_did_and_leaves_the_programs() {
    let rig = Rig::new();
    rig.connect();
    let program = rig.program(objects::PROCEDURE, b"db", b"p").unwrap();
    let call = || {
        let start = rig.start_program(program).unwrap();
        let statement = rig.begin(rig.class.nested_statement, "set x = 1").unwrap();
        let ended = rig.end_statement(statement, None);
        rig.count_program_statement(program, ended);
        rig.end_program(program, start);
    };
    call();
    rig.reset(Reset::Objects);
    assert_eq!(rig.programs()[0].calls.count, 1, "that is about tables, as in the built-in");
    rig.reset(Reset::Programs);
    let row = rig.programs().remove(0);
    assert_eq!((row.calls, row.statements), Default::default());
    call();
    assert_eq!((rig.programs()[0].calls.count, rig.programs()[0].statements.stat.count), (1, 1));
}

#[test]
fn a_program_counts_its_calls_and_its_statements() {
    let rig = Rig::new();
    rig.connect();
    let program = rig.program(objects::FUNCTION, b"db", b"f").unwrap();
    assert!(std::ptr::eq(program, rig.program(objects::FUNCTION, b"db", b"f").unwrap()));
    assert!(!std::ptr::eq(program, rig.program(objects::PROCEDURE, b"db", b"f").unwrap()));
    for _ in 0..3 {
        let start = rig.start_program(program).unwrap();
        let statement = rig.begin(rig.class.nested_statement, "set x = 1").unwrap();
        rig.add_statement_counter(statement, Counter::RowsSent, 2);
        let ended = rig.end_statement(statement, None);
        rig.count_program_statement(program, ended);
        rig.end_program(program, start);
    }
    let row = rig.programs().into_iter().find(|row| row.object_type == "FUNCTION").unwrap();
    assert_eq!((&*row.schema, &*row.name), ("db", "f"));
    assert_eq!((row.calls.count, row.statements.stat.count, row.statements.sum.rows_sent), (3, 3, 6));
    rig.drop_program(objects::FUNCTION, b"db", b"f");
    assert_eq!(rig.programs().len(), 1);
    assert!(rig.program(objects::FUNCTION, b"mysql", b"f").is_some());
    let unwatched = rig.program(objects::FUNCTION, b"mysql", b"f").unwrap();
    assert!(rig.start_program(unwatched).is_none());
}

#[test]
fn prepared_statements_come_and_go_without_taking_memory() {
    let rig = Rig::new();
    rig.connect();
    let mut before = None;
    for round in 0..1_500 {
        let prepared = rig.create_prepared(1, round, b"stmt", 1, None).unwrap();
        rig.set_prepared_text(prepared, b"select ?");
        let statement = rig.begin(rig.class.statement, "select 1").unwrap();
        let ended = rig.end_statement(statement, None);
        rig.count_prepared(prepared, true, ended);
        rig.count_prepared(prepared, false, ended);
        rig.count_reprepare(prepared);
        rig.destroy_prepared(prepared);
        if round == 1_400 {
            before = Some(rig.memory().0);
        }
    }
    assert_eq!(before, Some(rig.memory().0));
}

#[test]
fn a_prepared_statement_that_is_gone_when_its_execution_ends_counts_for_nobody() {
    let rig = Rig::new();
    rig.connect();
    let first = rig.create_prepared(1, 1, b"stmt", 1, None).unwrap();
    let statement = rig.begin(rig.class.statement, "execute immediate 'select 1'").unwrap();
    rig.destroy_prepared(first);
    let ended = rig.end_statement(statement, None);
    rig.count_prepared(first, false, ended);
    // Another one gets its place.
    let others: Vec<_> = (0..40).map(|id| rig.create_prepared(2, id, b"stmt", 1, None).unwrap()).collect();
    let place = |of: PreparedRef| of.address().addr() >> 40;
    assert!(others.iter().any(|other| place(*other) == place(first) && *other != first));
    rig.count_prepared(first, false, ended);
    rig.count_prepared(first, true, ended);
    let counted = |row: &PreparedRow| (row.execute.stat.count, row.prepare.count) != (0, 0);
    assert!(!rig.prepared_statements().iter().any(counted));
}

/// A statement of a program, counted for it and recorded.
fn run_in(rig: &Rig, program: ProgramRef) {
    let statement = rig.open_statement(rig.class.nested_statement, 33, Some(program)).expect("memory");
    rig.start_statement(statement, b"db", here());
    rig.add_statement_counter(statement, Counter::RowsSent, 2);
    let ended = rig.end_statement(statement, None);
    rig.count_program_statement(program, ended);
}

/// What a program's row says: calls, statements, rows sent.
fn counted(rig: &Rig, name: &str) -> (u64, u64, u64) {
    let row = rig.programs().into_iter().find(|row| row.name == name).expect("the program");
    (row.calls.count, row.statements.stat.count, row.statements.sum.rows_sent)
}

#[test]
fn more_programs_than_a_thread_counts_at_a_time_lose_nothing() {
    let rig = Rig::new();
    rig.connect();
    let names: Vec<String> = (0..50).map(|n| format!("p{n}")).collect();
    let programs: Vec<_> =
        names.iter().map(|name| rig.program(objects::PROCEDURE, b"db", name.as_bytes()).unwrap()).collect();
    for round in 0..3 {
        for (at, program) in programs.iter().enumerate() {
            for _ in 0..=at % 3 + round {
                let start = rig.start_program(program).unwrap();
                run_in(&rig, program);
                rig.end_program(program, start);
            }
        }
    }
    for (at, name) in names.iter().enumerate() {
        let times = (3 * (at % 3 + 1) + 3) as u64;
        assert_eq!(counted(&rig, name), (times, times, 2 * times), "{name}");
    }
}

#[test]
fn what_threads_counted_of_a_program_outlives_them_and_not_the_program() {
    let rig = Rig::new();
    rig.connect();
    let program = rig.program(objects::PROCEDURE, b"db", b"p").unwrap();
    let threads: Vec<_> = (0..3).map(|_| rig.thread()).collect();
    for thread in &threads {
        rig.on(thread, || (0..4).for_each(|_| run_in(&rig, program)));
    }
    run_in(&rig, program);
    assert_eq!(counted(&rig, "p"), (0, 13, 26));
    rig.delete_thread(threads[0]);
    assert_eq!(counted(&rig, "p"), (0, 13, 26));
    // TRUNCATE takes what lives and what has ended; what a thread still holds of before counts no more.
    rig.reset(Reset::Programs);
    assert_eq!(counted(&rig, "p"), (0, 0, 0));
    rig.delete_thread(threads[1]);
    assert_eq!(counted(&rig, "p"), (0, 0, 0));
    rig.on(threads[2], || run_in(&rig, program));
    assert_eq!(counted(&rig, "p"), (0, 1, 2));
    // A program that is dropped and made anew begins anew, also where its place is the same.
    rig.drop_program(objects::PROCEDURE, b"db", b"p");
    run_in(&rig, program);
    let anew = rig.program(objects::PROCEDURE, b"db", b"p").unwrap();
    assert!(std::ptr::eq(anew, program), "the same place");
    assert_eq!(counted(&rig, "p"), (0, 0, 0));
    rig.delete_thread(threads[2]);
    assert_eq!(counted(&rig, "p"), (0, 0, 0));
    run_in(&rig, anew);
    assert_eq!(counted(&rig, "p"), (0, 1, 2));
}

#[test]
fn every_statement_of_a_program_names_it_in_every_block_of_the_history() {
    let rig = Rig::with(Config { history_size: [10, 1_000, 10, 10], ..Config::default() });
    rig.connect();
    let [p, q] = [&b"p"[..], b"q"].map(|name| rig.program(objects::PROCEDURE, b"db", name).unwrap());
    let name_of = |row: &StatementRow| row.object.name.clone().unwrap_or_default();
    let expected: Vec<&str> = (0..600)
        .map(|n| match n {
            // Runs of one program, then in turns, then with statements of none between, then one that fails.
            0..200 => "p",
            200..400 if n % 2 == 0 => "p",
            200..400 => "q",
            400..500 if n % 3 == 0 => "",
            _ => "q",
        })
        .collect();
    for (n, name) in expected.iter().enumerate() {
        let program = [("p", p), ("q", q)].into_iter().find(|(of, _)| of == name).map(|(_, program)| program);
        let statement = rig.open_statement(rig.class.nested_statement, 33, program).unwrap();
        rig.start_statement(statement, b"db", here());
        if n % 50 == 49 {
            rig.set_statement_outcome(statement, &Outcome { errno: 1, message: b"no", ..Outcome::default() });
        }
        rig.end_statement(statement, None);
    }
    let rows = rig.statements(Scope::History);
    assert!(rows.len() > 300, "{}", rows.len());
    let expected = &expected[expected.len() - rows.len()..];
    let seen: Vec<String> = rows.iter().map(name_of).collect();
    assert_eq!(seen, expected);
    for row in rows.iter().filter(|row| row.object.name.is_some()) {
        let object = (row.object.object_type, row.object.schema.as_deref());
        assert_eq!(object, (Some("PROCEDURE"), Some("db")));
    }
    // A place that another program has got is not taken for the one before.
    rig.drop_program(objects::PROCEDURE, b"db", b"q");
    let r = rig.program(objects::FUNCTION, b"other", b"r").unwrap();
    assert!(std::ptr::eq(q, r), "the same place");
    run_in(&rig, r);
    let last = rig.statements(Scope::History).pop().unwrap();
    assert_eq!((last.object.object_type, last.object.schema.as_deref()), (Some("FUNCTION"), Some("other")));
    assert_eq!(name_of(&last), "r");
}

#[test]
fn statements_of_a_program_that_are_not_recorded_are_counted_and_those_within_them_know_none() {
    let rig = Rig::new();
    rig.connect();
    let [p, q] = [&b"p"[..], b"q"].map(|name| rig.program(objects::PROCEDURE, b"db", name).unwrap());
    let level = |level| rig.set_levels(&[(rig.class.nested_statement, Some(level), true)]);
    level(Recording::Sums);
    let call = rig.begin(rig.class.statement, "call p()").unwrap();
    // One after the other, of either, and one within another one: the first of a level has none before it.
    (0..3).for_each(|_| run_in(&rig, p));
    run_in(&rig, q);
    let outer = rig.open_statement(rig.class.nested_statement, 33, Some(p)).expect("memory");
    rig.start_statement(outer, b"db", here());
    (0..2).for_each(|_| run_in(&rig, q));
    assert_eq!((counted(&rig, "p"), counted(&rig, "q")), ((0, 3, 6), (0, 3, 6)));
    assert_eq!(rig.statements(Scope::Current).len(), 1, "the call");
    level(Recording::Lean);
    (0..2).for_each(|_| run_in(&rig, q));
    let ended = rig.end_statement(outer, None);
    rig.count_program_statement(p, ended);
    rig.finish(call, "call p()");
    assert_eq!((counted(&rig, "p").1, counted(&rig, "q").1), (4, 5));
    let nested =
        |row: &StatementRow| (row.nesting_level, row.head.nesting.is_some(), row.object.name.clone());
    let rows = rig.statements(Scope::History);
    assert_eq!(
        rows.iter().map(nested).collect::<Vec<_>>(),
        [(2, false, Some("q".into())), (2, false, Some("q".into())), (0, false, None)],
        "only the last two have a record, in one that has none"
    );
}
