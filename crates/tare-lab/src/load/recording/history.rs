//! The latest statements of a server, from its Performance Schema: `events_statements_history_long`.

use mysql::prelude::Queryable;

use super::take::{Sighting, Take};
use crate::server::target::ServerTarget;
use crate::{Error, Result};

/// Statements without those of stored programs, which belong to their CALL, and without this connection's.
const STATEMENTS: &str = "
    SELECT THREAD_ID, TIMER_START, TIMER_WAIT, CURRENT_SCHEMA, EVENT_NAME, SQL_TEXT
        FROM performance_schema.events_statements_history_long
        WHERE COALESCE(NESTING_EVENT_LEVEL, 0) = 0 AND OBJECT_TYPE IS NULL AND THREAD_ID <> (
            SELECT THREAD_ID FROM performance_schema.threads WHERE PROCESSLIST_ID = CONNECTION_ID())
        ORDER BY TIMER_START, THREAD_ID, EVENT_ID";
/// Picoseconds in a second.
const PICOSECONDS: f64 = 1e12;

type EndedStatementRow = (u64, Option<u64>, Option<u64>, Option<String>, String, Option<Vec<u8>>);

/// Counts 1 if a server with tare may have left statements unrecorded: it has chosen some since it started,
/// and instruments of statements are at that level.
const SAMPLED: &str = "
    SELECT COUNT(*) FROM performance_schema.tare_status
        WHERE NAME = 'sample_weight_max' AND VALUE > 1 AND EXISTS (
            SELECT 1 FROM performance_schema.tare_levels WHERE NAME LIKE 'statement/%' AND LEVEL = 'sampled')";

/// Returns whether a server may remember only some of its latest statements, because it samples them. Of a
/// server without tare the answer is no.
pub fn is_sampled(target: &ServerTarget) -> Result<bool> {
    let answer: std::result::Result<Option<u64>, _> = target.connect()?.query_first(SAMPLED);
    Ok(answer.is_ok_and(|count| count.is_some_and(|count| count > 0)))
}

/// Reads the statements that a server remembers.
pub fn read(target: &ServerTarget) -> Result<Take> {
    let mut connection = target.connect()?;
    let rows: Vec<EndedStatementRow> = connection.query(STATEMENTS).map_err(|e| target.refused(e))?;
    if rows.is_empty() {
        return Err(Error::NothingRemembered { server: target.name() });
    }
    let mut take = Take::default();
    for (thread, begun, took, schema, event, text) in rows {
        // A prepared statement is sent when it is executed; commands have no text.
        let Some(text) = text.filter(|_| event != "statement/com/Prepare") else {
            if event == "statement/com/Execute" {
                take.leave_out_execution();
            }
            continue;
        };
        let Some(begun) = begun else {
            take.leave_out("when they ran is not told", 1);
            continue;
        };
        let took = took.map(in_seconds);
        let session = take.session(thread);
        take.add(in_seconds(begun), Sighting { session, took, schema, text, ..Sighting::default() });
    }
    Ok(take)
}

#[allow(clippy::cast_precision_loss)] // a year of picoseconds to the ten nanoseconds
fn in_seconds(picoseconds: u64) -> f64 {
    picoseconds as f64 / PICOSECONDS
}
