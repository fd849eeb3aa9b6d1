//! The tables of the demo: one SQL query each, sent to the server as a client does.

use anyhow::Result;
use mysql::Value;
use mysql::prelude::Queryable;
use tare_outlets::units;

use crate::page::{self, Column, Grid};

/// The format of a value.
#[derive(Clone, Copy, Debug)]
enum ValueFormat {
    /// A name or text, truncated at its end.
    Text,
    /// A path, truncated at its beginning.
    Path,
    /// A count.
    Count,
    /// Picoseconds.
    Time,
    /// Bytes.
    Bytes,
}

/// A table of the demo.
#[derive(Debug)]
pub(crate) struct DemoSection {
    title: &'static str,
    /// The server's table that it reads.
    pub(crate) source: &'static str,
    sql: &'static str,
    columns: &'static [(&'static str, ValueFormat)],
}

/// The tables in the order of display.
pub(crate) const SECTIONS: &[DemoSection] = &[
    DemoSection {
        title: "Top statements",
        source: "events_statements_summary_by_digest",
        sql: "SELECT DIGEST_TEXT, COUNT_STAR, SUM_TIMER_WAIT, AVG_TIMER_WAIT, MAX_TIMER_WAIT, SUM_ROWS_EXAMINED
              FROM performance_schema.events_statements_summary_by_digest
              WHERE SCHEMA_NAME = 'sbtest' ORDER BY SUM_TIMER_WAIT DESC LIMIT 12",
        columns: &[
            ("STATEMENT", ValueFormat::Text),
            ("CALLS", ValueFormat::Count),
            ("TOTAL", ValueFormat::Time),
            ("AVERAGE", ValueFormat::Time),
            ("MAXIMUM", ValueFormat::Time),
            ("ROWS READ", ValueFormat::Count),
        ],
    },
    DemoSection {
        title: "Top waits, without idle connections and sleeping threads",
        source: "events_waits_summary_global_by_event_name",
        sql: "SELECT EVENT_NAME, COUNT_STAR, SUM_TIMER_WAIT, AVG_TIMER_WAIT, MAX_TIMER_WAIT
              FROM performance_schema.events_waits_summary_global_by_event_name
              WHERE COUNT_STAR > 0 AND EVENT_NAME <> 'idle' AND EVENT_NAME NOT LIKE 'wait/synch/cond/%'
              ORDER BY SUM_TIMER_WAIT DESC LIMIT 12",
        columns: &[
            ("EVENT", ValueFormat::Path),
            ("COUNT", ValueFormat::Count),
            ("TOTAL", ValueFormat::Time),
            ("AVERAGE", ValueFormat::Time),
            ("MAXIMUM", ValueFormat::Time),
        ],
    },
    DemoSection {
        title: "Busiest tables, in rows",
        source: "table_io_waits_summary_by_table",
        sql: "SELECT CONCAT(OBJECT_SCHEMA, '.', OBJECT_NAME), COUNT_FETCH, COUNT_INSERT, COUNT_UPDATE, COUNT_DELETE,
                     SUM_TIMER_WAIT
              FROM performance_schema.table_io_waits_summary_by_table
              WHERE COUNT_STAR > 0 ORDER BY SUM_TIMER_WAIT DESC LIMIT 6",
        columns: &[
            ("TABLE", ValueFormat::Text),
            ("FETCHED", ValueFormat::Count),
            ("INSERTED", ValueFormat::Count),
            ("UPDATED", ValueFormat::Count),
            ("DELETED", ValueFormat::Count),
            ("TIME", ValueFormat::Time),
        ],
    },
    DemoSection {
        title: "Busiest files",
        source: "file_summary_by_instance",
        sql: "SELECT REPLACE(FILE_NAME, @@datadir, ''), COUNT_READ, SUM_NUMBER_OF_BYTES_READ, COUNT_WRITE, SUM_NUMBER_OF_BYTES_WRITE, COUNT_MISC,
                     SUM_TIMER_WAIT
              FROM performance_schema.file_summary_by_instance
              ORDER BY SUM_TIMER_WAIT DESC LIMIT 6",
        columns: &[
            ("FILE", ValueFormat::Path),
            ("READS", ValueFormat::Count),
            ("READ", ValueFormat::Bytes),
            ("WRITES", ValueFormat::Count),
            ("WRITTEN", ValueFormat::Bytes),
            ("OTHER", ValueFormat::Count),
            ("TIME", ValueFormat::Time),
        ],
    },
    DemoSection {
        title: "Memory by instrument",
        source: "memory_summary_global_by_event_name",
        sql: "SELECT EVENT_NAME, COUNT_ALLOC, COUNT_FREE, CURRENT_NUMBER_OF_BYTES_USED, HIGH_NUMBER_OF_BYTES_USED
              FROM performance_schema.memory_summary_global_by_event_name
              ORDER BY CURRENT_NUMBER_OF_BYTES_USED DESC LIMIT 8",
        columns: &[
            ("INSTRUMENT", ValueFormat::Path),
            ("ALLOCATED", ValueFormat::Count),
            ("FREED", ValueFormat::Count),
            ("NOW", ValueFormat::Bytes),
            ("HIGHEST", ValueFormat::Bytes),
        ],
    },
];

impl DemoSection {
    /// Queries the server and prints the answer.
    pub(crate) fn show(&self, session: &mut mysql::Conn) -> Result<()> {
        let rows: Vec<mysql::Row> = session.query(self.sql)?;
        page::heading(self.title, self.source);
        let columns: Vec<_> = self.columns.iter().map(|&(title, shown)| (title, shown.column())).collect();
        let mut grid = Grid::new(&columns);
        for row in rows {
            let values = row.unwrap().into_iter();
            grid.row(values.zip(self.columns).map(|(value, (_, shown))| shown.text(value)));
        }
        if grid.is_empty() {
            println!("(no rows)");
        } else {
            grid.print();
        }
        Ok(())
    }
}

impl ValueFormat {
    fn column(self) -> Column {
        match self {
            ValueFormat::Text => Column::CutEnd,
            ValueFormat::Path => Column::CutStart,
            ValueFormat::Count | ValueFormat::Time | ValueFormat::Bytes => Column::Right,
        }
    }

    fn text(self, value: Value) -> String {
        let number = |of: fn(u64) -> String| match mysql::from_value_opt::<i64>(value.clone()) {
            Ok(n) if n < 0 => format!("-{}", of(n.unsigned_abs())),
            _ => mysql::from_value_opt::<u64>(value.clone()).map_or_else(|_| "NULL".into(), of),
        };
        match self {
            ValueFormat::Text | ValueFormat::Path => mysql::from_value_opt::<Option<String>>(value.clone())
                .ok()
                .flatten()
                .unwrap_or_else(|| "NULL".into()),
            ValueFormat::Count => number(units::count),
            ValueFormat::Time => number(units::picoseconds),
            ValueFormat::Bytes => number(units::bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_by_kind() {
        assert_eq!(ValueFormat::Count.text(Value::Bytes(b"12345".to_vec())), "12,345");
        assert_eq!(ValueFormat::Time.text(Value::UInt(1500)), "1.50 ns");
        assert_eq!(ValueFormat::Bytes.text(Value::Int(-2048)), "-2.00 KiB");
        assert_eq!(ValueFormat::Text.text(Value::NULL), "NULL");
        assert_eq!(ValueFormat::Count.text(Value::UInt(u64::MAX)), "18,446,744,073,709,551,615");
    }

    #[test]
    fn every_section_reads_the_table_it_names_and_names_its_columns() {
        for section in SECTIONS {
            assert!(
                section.sql.contains(&format!("performance_schema.{}\n", section.source)),
                "{}",
                section.title
            );
            let selected = section
                .sql
                .split("FROM")
                .next()
                .unwrap_or_default()
                .replace("CONCAT(OBJECT_SCHEMA, '.', ", "")
                .replace(", @@datadir, ''", "");
            assert_eq!(selected.split(',').count(), section.columns.len(), "{}", section.title);
        }
    }
}
