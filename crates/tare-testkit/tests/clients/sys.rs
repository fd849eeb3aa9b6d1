//! MariaDB's own schema `sys`: its views can be read and show what they show on the built-in, its routines
//! work.

use std::collections::BTreeMap;

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_testkit::known::KnownFailures;
use tare_testkit::server::Server;
use tare_testkit::subject::TestProvider;
use tare_testkit::turn;

use crate::{run_scripts, start, subject};

/// What runs before the views are read.
const SCRIPTS: [&str; 4] = ["dml", "programs", "sorting", "transactions"];

/// What a view or a routine came to: rows or a value as text, or an error.
type Outcome = Result<String, String>;

fn ask(conn: &mut Conn, sql: &str) -> Outcome {
    let mut answer = conn.query_iter(sql).map_err(|error| error.to_string())?;
    let mut text = String::new();
    while let Some(result) = answer.iter() {
        for row in result {
            for value in row.map_err(|error| error.to_string())?.unwrap() {
                text += &value.as_sql(true);
                text += " ";
            }
        }
    }
    Ok(text)
}

/// The view that tells what was lost: on the built-in of a small server something always is.
const LOSSES: &str = "ps_check_lost_instrumentation";

/// Whether each view has rows.
fn views(server: &Server) -> BTreeMap<String, Outcome> {
    run_scripts(server, &SCRIPTS);
    let mut conn = server.client().unwrap();
    let names: Vec<String> =
        conn.query("SELECT table_name FROM information_schema.views WHERE table_schema = 'sys'").unwrap();
    let read = |name: String| {
        let least = u8::from(name != LOSSES);
        let rows =
            ask(&mut conn, &format!("SELECT COUNT(*) >= {least} FROM (SELECT * FROM sys.`{name}`) AS it"));
        (name, rows)
    };
    names.into_iter().map(read).collect()
}

/// Every routine of 10.11, called. What it answers is compared where it can be the same.
const ROUTINES: &[(&str, Answer)] = &[
    ("CALL sys.create_synonym_db('dml', 'synonym')", Answer::Equal),
    ("CALL sys.diagnostics(1, 1, 'current')", Answer::Any),
    ("CALL sys.diagnostics(1, 1, 'medium')", Answer::Any),
    ("CALL sys.diagnostics(1, 1, 'full')", Answer::Any),
    ("CALL sys.execute_prepared_stmt('SELECT 1')", Answer::Equal),
    ("SELECT sys.extract_schema_from_file_name('/var/lib/mysql/a/b.ibd')", Answer::Equal),
    ("SELECT sys.extract_table_from_file_name('/var/lib/mysql/a/b.ibd')", Answer::Equal),
    ("SELECT sys.format_bytes(12345678)", Answer::Equal),
    ("SELECT sys.format_path(CONCAT(@@datadir, 'a/b.ibd'))", Answer::Equal),
    ("SELECT sys.format_statement(REPEAT('x', 200))", Answer::Equal),
    ("SELECT sys.format_time(12345678)", Answer::Equal),
    ("SELECT sys.list_add('a,b', 'c')", Answer::Equal),
    ("SELECT sys.list_drop('a,b', 'b')", Answer::Equal),
    ("SELECT sys.ps_is_account_enabled('localhost', 'root')", Answer::Equal),
    ("SELECT sys.ps_is_consumer_enabled('statements_digest')", Answer::Equal),
    ("SELECT sys.ps_is_instrument_default_enabled('wait/io/file/sql/map')", Answer::Equal),
    ("SELECT sys.ps_is_instrument_default_timed('wait/io/file/sql/map')", Answer::Equal),
    ("SELECT sys.ps_is_thread_instrumented(CONNECTION_ID())", Answer::Equal),
    ("SELECT sys.ps_thread_account(sys.ps_thread_id(CONNECTION_ID()))", Answer::Equal),
    ("SELECT sys.ps_thread_id(CONNECTION_ID()) = sys.ps_thread_id(NULL)", Answer::Equal),
    (
        "SELECT JSON_VALID(sys.ps_thread_stack(sys.ps_thread_id(CONNECTION_ID()), TRUE)), \
         sys.ps_thread_stack(sys.ps_thread_id(CONNECTION_ID()), TRUE) LIKE '%ps_thread_stack%'",
        Answer::Equal,
    ),
    ("SELECT sys.ps_thread_trx_info(sys.ps_thread_id(CONNECTION_ID())) IS NOT NULL", Answer::Equal),
    ("SELECT sys.quote_identifier('a`b')", Answer::Equal),
    ("SELECT sys.sys_get_config('statement_truncate_len', 1)", Answer::Equal),
    ("SELECT sys.version_major(), sys.version_minor(), sys.version_patch()", Answer::Equal),
    ("CALL sys.table_exists('dml', 't', @exists)", Answer::Equal),
    ("SELECT @exists", Answer::Equal),
    ("CALL sys.ps_setup_save(0)", Answer::Equal),
    ("CALL sys.ps_setup_disable_background_threads()", Answer::Threads),
    ("CALL sys.ps_setup_disable_consumer('waits')", Answer::Setup),
    ("CALL sys.ps_setup_disable_instrument('wait')", Answer::Setup),
    ("CALL sys.ps_setup_disable_thread(CONNECTION_ID())", Answer::Threads),
    ("CALL sys.ps_setup_enable_background_threads()", Answer::Threads),
    ("CALL sys.ps_setup_enable_consumer('waits')", Answer::Setup),
    ("CALL sys.ps_setup_enable_instrument('wait')", Answer::Setup),
    ("CALL sys.ps_setup_enable_thread(CONNECTION_ID())", Answer::Threads),
    ("CALL sys.ps_setup_disable_consumer('stages')", Answer::Setup),
    ("CALL sys.ps_setup_reload_saved()", Answer::Setup),
    ("CALL sys.ps_setup_disable_instrument('statement/sql/do')", Answer::Setup),
    ("CALL sys.ps_setup_show_disabled_instruments()", Answer::Equal),
    ("CALL sys.ps_setup_disable_consumer('events_waits_history_long')", Answer::Setup),
    ("CALL sys.ps_setup_show_disabled_consumers()", Answer::Equal),
    ("CALL sys.ps_setup_show_enabled_consumers()", Answer::Equal),
    ("CALL sys.ps_setup_show_enabled_instruments()", Answer::Any),
    ("CALL sys.ps_setup_show_disabled(FALSE, FALSE)", Answer::Any),
    ("CALL sys.ps_setup_show_enabled(TRUE, TRUE)", Answer::Any),
    ("CALL sys.ps_setup_reset_to_default(FALSE)", Answer::Any),
    ("CALL sys.ps_statement_avg_latency_histogram()", Answer::Any),
    ("CALL sys.ps_trace_statement_digest('none', 1, 0.2, TRUE, TRUE)", Answer::Any),
    (
        "CALL sys.ps_trace_thread(sys.ps_thread_id(NULL), CONCAT(@@datadir, 'trace.dot'), 1, 0.2, TRUE, TRUE, FALSE)",
        Answer::Any,
    ),
    ("CALL sys.statement_performance_analyzer('create_tmp', 'sys.kept', NULL)", Answer::Any),
    ("CALL sys.statement_performance_analyzer('snapshot', NULL, NULL)", Answer::Any),
    (
        "CALL sys.statement_performance_analyzer('overall', NULL, 'with_runtimes_in_95th_percentile')",
        Answer::Any,
    ),
    ("CALL sys.ps_truncate_all_tables(FALSE)", Answer::Any),
];

/// What of a routine's answer must be as on the built-in.
#[derive(Clone, Copy, PartialEq)]
enum Answer {
    /// Only that there is one.
    Any,
    /// The answer.
    Equal,
    /// What is switched on afterwards: consumers and statements' instruments, which both have alike.
    Setup,
    /// Whether this connection and how many threads in the background are watched afterwards.
    Threads,
}

impl Answer {
    fn of(self, conn: &mut Conn, answer: String) -> Outcome {
        match self {
            Answer::Any => Ok(String::new()),
            Answer::Equal => Ok(answer),
            Answer::Setup => ask(
                conn,
                "SELECT (SELECT GROUP_CONCAT(NAME, ENABLED ORDER BY NAME) FROM performance_schema.setup_consumers), \
                 (SELECT GROUP_CONCAT(DISTINCT SUBSTRING_INDEX(NAME, '/', 2), ENABLED, TIMED ORDER BY 1) \
                  FROM performance_schema.setup_instruments WHERE NAME NOT LIKE 'memory/%')",
            ),
            // A pool's threads come and go: one that came after the others were switched off is on.
            Answer::Threads => ask(
                conn,
                "SELECT COUNT(DISTINCT INSTRUMENTED), MAX(INSTRUMENTED), (SELECT INSTRUMENTED FROM \
                 performance_schema.threads WHERE PROCESSLIST_ID = CONNECTION_ID()) \
                 FROM performance_schema.threads WHERE TYPE = 'BACKGROUND' AND NAME NOT LIKE '%pool%'",
            ),
        }
    }
}

/// What each statement of [`ROUTINES`] came to. The names are the routines', numbered where one is called
/// again.
fn routines(server: &Server) -> BTreeMap<String, Outcome> {
    run_scripts(server, &["dml"]);
    let mut outcomes = BTreeMap::new();
    let mut conn = server.client().unwrap();
    for (sql, answer) in ROUTINES {
        let name = sql.split("sys.").nth(1).and_then(|rest| rest.split('(').next()).unwrap_or("variable");
        let times = outcomes.keys().filter(|key: &&String| key.split('.').next() == Some(name)).count();
        let outcome = ask(&mut conn, sql).and_then(|text| answer.of(&mut conn, text));
        outcomes.insert(format!("{name}.{}", times + 1), outcome);
    }
    outcomes
}

/// What differs from the reference: an error, or another outcome.
fn failing(
    reference: &BTreeMap<String, Outcome>,
    subject: &BTreeMap<String, Outcome>,
) -> BTreeMap<String, String> {
    let differs = |(name, expected): (&String, &Outcome)| {
        let got = subject.get(name)?;
        let expected =
            expected.as_ref().unwrap_or_else(|error| panic!("{name} fails on the built-in: {error}"));
        match got {
            Err(error) => Some((name.clone(), error.clone())),
            Ok(got) if got != expected => Some((name.clone(), format!("{got}, the built-in: {expected}"))),
            Ok(_) => None,
        }
    };
    reference.iter().filter_map(differs).collect()
}

#[test]
fn every_view_can_be_read_and_has_rows_where_the_built_ins_has() {
    let _turn = turn();
    let Some(server) = subject() else { return };
    let seen = views(&server);
    drop(server);
    let reference = views(&start(TestProvider::BuiltIn));
    assert!(reference.len() >= 100, "{} views", reference.len());
    assert_eq!(reference.keys().collect::<Vec<_>>(), seen.keys().collect::<Vec<_>>());
    let filled = reference.values().filter(|outcome| outcome.as_deref() == Ok("'1' ")).count();
    assert!(filled > 80, "only {filled} of the built-in's views have rows");
    let disagreements = KnownFailures::read("sys-views").unwrap().disagreements(&failing(&reference, &seen));
    assert_eq!(disagreements, Vec::<String>::new(), "see expected/sys-views");
}

#[test]
fn every_routine_does_what_it_does_on_the_built_in() {
    let _turn = turn();
    let Some(server) = subject() else { return };
    let seen = routines(&server);
    let mut conn = server.client().unwrap();
    let names: Vec<String> = conn
        .query(
            "SELECT routine_name FROM information_schema.routines WHERE routine_schema = 'sys' \
             AND routine_definition LIKE '%performance_schema%'",
        )
        .unwrap();
    assert!(names.len() > 20, "{names:?}");
    for name in &names {
        assert!(
            ROUTINES.iter().any(|(sql, _)| sql.contains(&format!("sys.{name}("))),
            "{name} is not called"
        );
    }
    let known = if server.host().version.starts_with("10.6") { "sys-routines-10.6" } else { "sys-routines" };
    drop(server);
    let reference = routines(&start(TestProvider::BuiltIn));
    let disagreements = KnownFailures::read(known).unwrap().disagreements(&failing(&reference, &seen));
    assert_eq!(disagreements, Vec::<String>::new(), "see expected/{known}");
}
