//! The overview: what the server's status variables say, and its replication.

use std::collections::BTreeMap;

use super::Reader;
use super::head::passing;
use crate::source::{Error, Kind, Row};
use crate::top::look::{Overview, Replication};

const STATUS: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Innodb_buffer_pool_pages_total', 'Innodb_buffer_pool_pages_free', 'Innodb_buffer_pool_read_requests', 'Innodb_buffer_pool_reads', \
     'Innodb_checkpoint_age', 'Innodb_checkpoint_max_age', 'Innodb_history_list_length', \
     'Innodb_redo_log_current_lsn', 'Innodb_redo_log_checkpoint_lsn')";

impl Reader {
    /// Returns the overview; parts are missing where the server or the account does not tell.
    pub(super) fn overview(&mut self) -> Result<Overview, Error> {
        let Some(source) = self.with_sql() else { return Ok(Overview::default()) };
        let rows = passing(source.ask(STATUS))?;
        let replication = self.replication()?;
        Ok(Overview { replication, ..of_status(&rows) })
    }

    fn replication(&mut self) -> Result<Vec<Replication>, Error> {
        if self.is_replica.is_none() {
            let table = "replication_connection_configuration";
            self.is_replica = Some(!passing(self.source.rows(table, &["CHANNEL_NAME"], ""))?.is_empty());
        }
        if self.is_replica == Some(false) {
            return Ok(vec![]);
        }
        let statements: &[&str] = match self.source.kind() {
            Kind::MySql => &["SHOW REPLICA STATUS", "SHOW SLAVE STATUS"],
            Kind::Tare | Kind::MariaDb => &["SHOW ALL SLAVES STATUS"],
        };
        let Some(source) = self.with_sql() else { return Ok(vec![]) };
        for statement in statements {
            match source.ask_by_name(statement) {
                Ok(rows) => return Ok(rows.iter().filter_map(of_source).collect()),
                Err(error @ Error::Gone { .. }) => return Err(error),
                Err(_) => {}
            }
        }
        Ok(vec![])
    }
}

#[allow(clippy::cast_precision_loss)] // shown with three digits
fn of_status(rows: &[Row]) -> Overview {
    let of = |name: &str| rows.iter().find(|row| row.str(0).as_deref() == Some(name))?.number(1);
    let pages = of("Innodb_buffer_pool_pages_total").filter(|total| *total > 0);
    let used =
        |total: u64| Some(total.saturating_sub(of("Innodb_buffer_pool_pages_free")?) as f64 / total as f64);
    let redo = || of("Innodb_redo_log_current_lsn")?.checked_sub(of("Innodb_redo_log_checkpoint_lsn")?);
    Overview {
        pool_used: pages.and_then(used),
        pool_requests: of("Innodb_buffer_pool_read_requests").zip(of("Innodb_buffer_pool_reads")),
        checkpoint_age: of("Innodb_checkpoint_age")
            .or_else(redo)
            .map(|age| (age, of("Innodb_checkpoint_max_age").filter(|most| *most > 0))),
        history_list: of("Innodb_history_list_length"),
        replication: vec![],
    }
}

/// Returns the replication of a row of SHOW REPLICA STATUS; `None` without a source.
fn of_source(row: &BTreeMap<String, String>) -> Option<Replication> {
    let of = |names: [&str; 2]| names.iter().find_map(|name| row.get(*name));
    of(["Master_Host", "Source_Host"]).filter(|host| !host.is_empty())?;
    let threads = [
        ("receiver", ["Slave_IO_Running", "Replica_IO_Running"]),
        ("applier", ["Slave_SQL_Running", "Replica_SQL_Running"]),
    ];
    let stopped = |(_, names): &(&str, [&str; 2])| of(*names).is_some_and(|state| state != "Yes");
    Some(Replication {
        channel: of(["Connection_name", "Channel_Name"]).cloned().unwrap_or_default(),
        stopped: threads.into_iter().filter(stopped).map(|(what, _)| what).collect(),
        behind: of(["Seconds_Behind_Master", "Seconds_Behind_Source"]).and_then(|it| it.parse().ok()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_variables_of_both_servers_are_understood() {
        let row = |(name, value): &(&str, &str)| Row::of(&[Some(*name), Some(*value)]);
        let of = |variables: &[(&str, &str)]| of_status(&variables.iter().map(row).collect::<Vec<_>>());
        let mariadb = of(&[
            ("Innodb_buffer_pool_pages_total", "8000"),
            ("Innodb_buffer_pool_pages_free", "2000"),
            ("Innodb_buffer_pool_read_requests", "100"),
            ("Innodb_buffer_pool_reads", "1"),
            ("Innodb_checkpoint_age", "1000"),
            ("Innodb_checkpoint_max_age", "4000"),
            ("Innodb_history_list_length", "17"),
        ]);
        assert_eq!(mariadb.pool_used, Some(0.75));
        assert_eq!((mariadb.pool_requests, mariadb.history_list), (Some((100, 1)), Some(17)));
        assert_eq!(mariadb.checkpoint_age, Some((1000, Some(4000))));
        let mysql = of(&[("Innodb_redo_log_current_lsn", "900"), ("Innodb_redo_log_checkpoint_lsn", "600")]);
        assert_eq!(mysql.checkpoint_age, Some((300, None)));
        assert_eq!(of(&[("Innodb_buffer_pool_pages_total", "0")]), Overview::default());
    }

    #[test]
    fn replication_says_what_does_not_run() {
        let of = |values: &[(&str, &str)]| {
            of_source(&values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
        };
        let running = of(&[
            ("Connection_name", "east"),
            ("Master_Host", "db1"),
            ("Slave_IO_Running", "Yes"),
            ("Slave_SQL_Running", "Yes"),
            ("Seconds_Behind_Master", "7"),
        ]);
        assert_eq!(running, Some(Replication { channel: "east".into(), stopped: vec![], behind: Some(7) }));
        let stopped = of(&[
            ("Source_Host", "db1"),
            ("Replica_IO_Running", "Connecting"),
            ("Replica_SQL_Running", "No"),
        ]);
        assert_eq!(stopped.expect("a source").stopped, ["receiver", "applier"]);
        assert_eq!(of(&[("Master_Host", "")]), None, "none is configured");
    }
}
