//! Threads by the number of their connection: found as a scan has them.

use std::ops::ControlFlow;

use tare_rig::Rig;
use tare_tables::thread::{PROCESSLIST, THREADS};
use tare_tables::{Condition, Operator, Query, Table, Value};

/// A column of the rows in which it may be this number, or of all.
fn values(rig: &Rig, table: &dyn Table, name: &str, number: Option<u64>) -> Vec<Value<'static>> {
    let column = table.columns().iter().position(|it| it.name == name).expect("a column");
    let equal = |number| Condition { column, operator: Operator::Equal, value: Value::Unsigned(number) };
    let conditions: Vec<Condition> = number.into_iter().map(equal).collect();
    let mut values = Vec::new();
    table.scan(rig.engine, &Query { conditions: &conditions, ..Query::ALL }, &mut |row| {
        values.push(row.value(column).into_owned());
        ControlFlow::Continue(())
    });
    values
}

#[test]
fn a_thread_in_the_background_is_no_process() {
    let rig = Rig::new();
    rig.new_thread(rig.class.thread, None, None).expect("memory for a thread");
    // Number 77.
    rig.thread();
    let processes = |number| values(&rig, &PROCESSLIST, "ID", number);
    assert_eq!(processes(None), [Value::Unsigned(77)]);
    assert_eq!(processes(Some(77)), [Value::Unsigned(77)]);
    assert!(processes(Some(0)).is_empty());
    assert_eq!(values(&rig, &THREADS, "PROCESSLIST_ID", None).len(), 2);
}
