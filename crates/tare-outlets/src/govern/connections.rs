//! Event counts of each connection, from the tables by thread, and the CPU time of its thread.

use tare_budget::Connections;

use super::meter::ServerMachine;
use crate::source::{Error, Source};

/// Tables, and the columns that are summed. Errors are left out: the tables by thread have them by number
/// only.
const TABLES: [(&str, &[&str]); 5] = [
    ("events_waits_summary_by_thread_by_event_name", &["COUNT_STAR"]),
    ("events_stages_summary_by_thread_by_event_name", &["COUNT_STAR"]),
    ("events_statements_summary_by_thread_by_event_name", &["COUNT_STAR"]),
    ("events_transactions_summary_by_thread_by_event_name", &["COUNT_STAR"]),
    ("memory_summary_by_thread_by_event_name", &["COUNT_ALLOC", "COUNT_FREE"]),
];

/// Reads the connections without the governor's own.
///
/// # Errors
///
/// Those of [`Source::rows`].
pub(super) fn read(source: &mut Source, machine: &ServerMachine, process: u32) -> Result<Connections, Error> {
    let filter = "WHERE PROCESSLIST_ID IS NOT NULL AND PROCESSLIST_ID <> CONNECTION_ID()";
    let threads = source.rows("threads", &["THREAD_ID", "THREAD_OS_ID"], filter)?;
    let threads = threads.iter().filter_map(|row| Some((row.number(0)?, row.number(1)?)));
    let mut connections = Connections::of(threads, |os_id| (machine.thread_cpu)(process, os_id));
    for (table, columns) in TABLES {
        count(source, table, columns, &mut connections)?;
    }
    Ok(connections)
}

/// Adds a table's counts to those of the known connections.
fn count(
    source: &mut Source,
    table: &str,
    columns: &[&str],
    connections: &mut Connections,
) -> Result<(), Error> {
    let asked: Vec<&str> = ["THREAD_ID", "EVENT_NAME"].iter().chain(columns).copied().collect();
    let rows = match source.rows(table, &asked, &format!("WHERE `{}` > 0", columns[0])) {
        Ok(rows) => rows,
        Err(Error::Absent { .. }) => return Ok(()), // an older server
        Err(error) => return Err(error),
    };
    for row in rows {
        let sum: u64 = (2..asked.len()).map(|at| row.count(at)).sum();
        connections.add(row.count(0), row.text(1).unwrap_or_default(), sum);
    }
    Ok(())
}
