//! Tables that are joined by thread: what a statement was shown of one moment, the next one is not.

use mysql::prelude::Queryable;
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::shared_turn;
use tare_testkit::subject::TestProvider;

/// What a session has done it sees in its next statement.
#[test]
fn a_later_statement_sees_what_is_there() {
    let _turn = shared_turn();
    let server = Server::start(StartSettings::new(TestProvider::under_test())).unwrap();
    let Some(server) = server.on_its_port() else {
        return println!("skipped: the tables are not on this server's port");
    };
    let mut conn = server.client().unwrap();
    conn.query_drop("UPDATE performance_schema.setup_consumers SET ENABLED = 'YES'").unwrap();
    let sql = "SELECT s.SQL_TEXT FROM performance_schema.threads t JOIN performance_schema.events_statements_current s USING (THREAD_ID) \
               WHERE t.PROCESSLIST_ID = CONNECTION_ID()";
    for turn in 0..20 {
        // Each has a text of its own.
        let sql = format!("{sql} AND {turn} = {turn}");
        let texts: Vec<String> = conn.query(&sql).unwrap();
        assert_eq!(texts, [sql]);
    }
    let prepared = conn.prep("SELECT s.EVENT_ID FROM performance_schema.threads t JOIN performance_schema.events_statements_current s USING \
        (THREAD_ID) WHERE t.PROCESSLIST_ID = CONNECTION_ID()").unwrap();
    let mut last = 0;
    for _ in 0..20 {
        let ids: Vec<u64> = conn.exec(&prepared, ()).unwrap();
        assert!(matches!(ids[..], [id] if id > last), "{ids:?} after {last}");
        last = ids[0];
    }
}
