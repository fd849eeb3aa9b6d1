//! Stored programs and prepared statements.

use tare_engine::snapshot::*;
use tare_engine::*;

use crate::driver::*;

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
    assert_eq!(rig.programs()[0].calls.count, 1, "that is about tables, as in the reference");
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
