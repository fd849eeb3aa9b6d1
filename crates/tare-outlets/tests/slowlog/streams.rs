//! Streams say of an event what its history says of it.

use super::*;

/// Rows by thread and event.
type Rows = std::collections::HashMap<[Option<String>; 2], Vec<Option<String>>>;

fn rows(source: &mut Source, table: &str, columns: &[String]) -> Rows {
    let names: Vec<&str> = columns.iter().map(String::as_str).collect();
    let rows = source.rows(table, &names, "").expect("rows");
    let texts = rows.iter().map(|row| (0..names.len()).map(|at| row.text(at)).collect::<Vec<_>>());
    // Of a stream's last row all of these are NULL.
    texts.filter(|row| row[0].is_some()).map(|row| ([row[0].clone(), row[1].clone()], row)).collect()
}

#[test]
fn a_stream_says_what_the_history_says() {
    let _turn = tare_testkit::turn();
    let server = server("10000");
    let mut source = Source::open(Address::Socket(server.endpoint())).expect("the endpoint");
    let kinds = ["statements", "transactions", "waits", "stages"];
    for kind in kinds {
        source.rows(&format!("tare_stream_{kind}"), &["POSITION"], "").expect("a position");
    }
    let mut client = server.client().expect("a client");
    client.query_drop("CREATE DATABASE shop").expect("a schema");
    client.query_drop("CREATE TABLE shop.t (id INT PRIMARY KEY, name VARCHAR(20))").expect("a table");
    client
        .query_drop("CREATE PROCEDURE shop.fill() INSERT INTO shop.t VALUES (1, 'one'), (2, 'zwei')")
        .expect("a procedure");
    client.query_drop("USE shop").expect("a schema");
    client.query_drop("CALL fill()").expect("rows");
    client.query_drop("CALL fill()").expect_err("a duplicate");
    client.query_drop("SELECT name, 'größer' FROM t ORDER BY name").expect("rows");
    client.query_drop("BEGIN").expect("a transaction");
    client.query_drop("UPDATE t SET name = 'drei' WHERE id = 2").expect("a row");
    client.query_drop("COMMIT").expect("committed");
    for kind in kinds {
        let (stream, history) = (format!("tare_stream_{kind}"), format!("events_{kind}_history_long"));
        let mut columns = source.columns(&history).expect("columns").to_vec();
        // Where THREAD_ID and EVENT_ID are.
        columns.truncate(source.columns(&stream).expect("columns").len());
        let streamed = rows(&mut source, &stream, &columns);
        let known = rows(&mut source, &history, &columns);
        let mut compared = 0;
        for (key, row) in &streamed {
            if let Some(said) = known.get(key) {
                assert_eq!(row, said, "{kind}: {columns:?}");
                compared += 1;
            }
        }
        println!("{kind}: {} streamed, {compared} compared in {} columns", streamed.len(), columns.len());
        assert!(compared >= 3, "{kind}: {compared} of {}", streamed.len());
    }
}
