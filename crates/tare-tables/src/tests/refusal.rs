//! Tests of refused writes, table by table: the built-in's refusals, as tried on a running server.

use tare_engine::Engine;

use crate::declarations::{setup, thread, timer};
use crate::shape::TABLES;
use crate::table::{Access, Query, Table, TableError, Value};

/// Sets columns of a row by name.
fn update(
    engine: &Engine,
    table: &dyn Table,
    row: &[Value],
    set: &[(&str, Value)],
) -> Result<bool, TableError> {
    let position = |name| table.columns().iter().position(|column| column.name == name).expect(name);
    let set: Vec<(usize, Value)> = set.iter().map(|(name, value)| (position(*name), value.clone())).collect();
    table.update(engine, row, &set)
}

#[test]
fn commands_a_table_does_not_know_are_refused() {
    let engine = Engine::new();
    for table in TABLES.iter().filter(|table| table.access() != Access::Edit) {
        let row = vec![Value::Null; table.columns().len()];
        assert_eq!(table.insert(&engine, &row), Err(TableError::Denied("INSERT")), "{}", table.name());
        assert_eq!(table.delete(&engine, &row), Err(TableError::Denied("DELETE")), "{}", table.name());
        if table.access() != Access::Update {
            let set = [(0, Value::Unsigned(1))];
            assert_eq!(
                table.update(&engine, &row, &set),
                Err(TableError::Denied("UPDATE")),
                "{}",
                table.name()
            );
        }
    }
}

#[test]
fn truncate_is_refused_as_wrong_usage_where_there_is_nothing_to_reset() {
    let engine = Engine::new();
    for table in TABLES {
        let wanted = match table.access() {
            Access::Truncate | Access::Edit => Ok(()),
            _ => Err(TableError::WrongUsage),
        };
        assert_eq!(table.truncate(&engine), wanted, "{}", table.name());
    }
}

/// Returns every row of a table.
fn rows(engine: &Engine, table: &dyn Table) -> Vec<Vec<Value<'static>>> {
    let mut rows = Vec::new();
    let columns = 0..table.columns().len();
    table.scan(engine, &Query::ALL, &mut |row| {
        rows.push(columns.clone().map(|column| row.value(column).into_owned()).collect());
        std::ops::ControlFlow::Continue(())
    });
    rows
}

#[test]
fn rules_are_rows_that_come_change_and_go() {
    let engine = &Engine::new();
    for (table, new) in [
        (&setup::ACTORS as &dyn Table, ["h", "ann", "%", "YES", "NO"]),
        (&setup::OBJECTS, ["TABLE", "db", "t", "YES", "NO"]),
    ] {
        let row = new.map(Value::from);
        let name = table.name();
        assert_eq!(table.insert(engine, &row), Ok(()), "{name}");
        assert_eq!(table.insert(engine, &row), Err(TableError::Duplicate), "{name}");
        assert_eq!(rows(engine, table)[0], row, "{name}");
        assert_eq!(table.update(engine, &row, &[(0, "EVENT".into())]), Err(TableError::WrongUsage), "{name}");
        assert_eq!(table.update(engine, &row, &[(3, "maybe".into())]), Err(TableError::BadValue("ENABLED")));
        assert_eq!(table.update(engine, &row, &[(3, "NO".into())]), Ok(true), "{name}");
        let [row @ .., enabled, _] = &rows(engine, table)[0][..] else { panic!("five columns") };
        assert_eq!((row, enabled), (&new.map(Value::from)[..3], &"NO".into()), "{name}");
        assert_eq!(table.delete(engine, &rows(engine, table)[0]), Ok(true), "{name}");
        assert_eq!(table.delete(engine, &new.map(Value::from)), Ok(false), "{name} has it no more");
        assert_eq!(table.insert(engine, &new.map(Value::from)), Ok(()), "{name} has room for it again");
        assert_eq!(table.truncate(engine), Ok(()), "{name}");
        assert_eq!(rows(engine, table).len(), 0, "{name}");
    }
}

#[test]
fn a_schema_that_is_null_is_the_empty_one() {
    let engine = &Engine::new();
    let row = |schema: Value<'static>| ["TABLE".into(), schema, "t".into(), "YES".into(), "YES".into()];
    assert_eq!(setup::OBJECTS.insert(engine, &row(Value::Null)), Ok(()));
    assert_eq!(setup::OBJECTS.insert(engine, &row("".into())), Err(TableError::Duplicate));
    assert_eq!(rows(engine, &setup::OBJECTS).last(), Some(&row(Value::Null).to_vec()));
}

#[test]
fn only_enabled_and_timed_of_an_instrument_can_change() {
    let row: [Value; 3] = ["idle".into(), "YES".into(), "YES".into()];
    let update = |set: &[_]| update(&Engine::new(), &setup::INSTRUMENTS, &row, set);
    assert_eq!(update(&[("NAME", "x".into())]), Err(TableError::WrongUsage));
    assert_eq!(update(&[("NAME", "IDLE".into())]), Err(TableError::WrongUsage));
    assert_eq!(update(&[("NAME", "idle".into())]), Ok(false), "the row stays as it is");
    let mixed = [("NAME", "idle".into()), ("ENABLED", "NO".into())];
    assert_eq!(update(&mixed), Err(TableError::WrongUsage), "the name is named and the row changes");
    assert_eq!(update(&[("ENABLED", "perhaps".into())]), Err(TableError::BadValue("ENABLED")));
    assert_eq!(update(&[("TIMED", Value::Null)]), Err(TableError::BadValue("TIMED")));
}

#[test]
fn only_enabled_of_a_consumer_can_change() {
    let row: [Value; 2] = ["statements_digest".into(), "YES".into()];
    let update = |set: &[_]| update(&Engine::new(), &setup::CONSUMERS, &row, set);
    assert_eq!(update(&[("ENABLED", "NO".into())]), Ok(true));
    assert_eq!(update(&[("ENABLED", "YES".into())]), Ok(false));
    assert_eq!(update(&[("NAME", "x".into())]), Err(TableError::WrongUsage));
    assert_eq!(update(&[("ENABLED", "perhaps".into())]), Err(TableError::BadValue("ENABLED")));
}

#[test]
fn only_the_clock_of_a_timer_can_change() {
    let engine = Engine::new();
    let row: [Value; 2] = ["idle".into(), "MICROSECOND".into()];
    let update = |set: &[_]| update(&engine, &timer::SETUP_TIMERS, &row, set);
    assert_eq!(update(&[("NAME", "x".into())]), Err(TableError::WrongUsage));
    assert_eq!(update(&[("TIMER_NAME", "SUNDIAL".into())]), Err(TableError::BadValue("TIMER_NAME")));
    assert_eq!(update(&[("TIMER_NAME", "tick".into())]), Ok(true));
    let first = rows(&engine, &timer::SETUP_TIMERS).remove(0);
    assert_eq!(first, ["idle".into(), "TICK".into()]);
}

#[test]
fn only_instrumented_and_history_of_a_thread_can_change() {
    let row = thread::THREADS.read(&tare_engine::snapshot::ThreadRow {
        thread_id: 1,
        instrumented: true,
        history: true,
        ..Default::default()
    });
    let update = |set: &[_]| update(&Engine::new(), &thread::THREADS, &row, set);
    assert_eq!(update(&[("HISTORY", "NO".into())]), Ok(false), "the thread is gone");
    assert_eq!(update(&[("HISTORY", "YES".into())]), Ok(false), "the row stays as it is");
    assert_eq!(update(&[("ROLE", Value::Null)]), Ok(false), "the row stays as it is");
    for name in ["NAME", "TYPE", "PROCESSLIST_ID", "CONNECTION_TYPE", "THREAD_OS_ID", "THREAD_ID"] {
        assert_eq!(update(&[(name, Value::Unsigned(9))]), Err(TableError::WrongUsage), "{name}");
    }
    let mixed = [("HISTORY", "NO".into()), ("NAME", "x".into())];
    assert_eq!(update(&mixed), Err(TableError::WrongUsage));
}
