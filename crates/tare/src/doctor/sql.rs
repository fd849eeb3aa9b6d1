//! A server looked at through its SQL alone, from anywhere, with an account's own rights.

use anyhow::{Context, Result};
use mysql::prelude::Queryable;
use mysql::{Conn, Opts};

use super::{Diagnosis, Finding, service};
use crate::status::Named;

/// No such table; no right to read it, or the schema.
const NO_TABLE: u16 = 1146;
const DENIED: [u16; 3] = [1044, 1142, 1370];

/// Looks at the server that `mysql://account:password@host:port` leads to.
pub(super) fn look(dsn: &str) -> Result<Diagnosis> {
    let options = Opts::from_url(dsn).context("--dsn: mysql://ACCOUNT:PASSWORD@HOST:PORT is allowed")?;
    let name = format!("{}:{}", options.get_ip_or_hostname(), options.get_tcp_port());
    let mut server = Conn::new(options).with_context(|| format!("connecting to {name}"))?;
    let facts: Option<(String, String, String)> = server
        .query_first("SELECT VERSION(), @@performance_schema, CURRENT_USER()")
        .with_context(|| format!("asking {name}"))?;
    let (version, schema, account) = facts.unwrap_or_default();
    let named = |(name, value): (String, Option<String>)| Named { name, value: value.unwrap_or_default() };
    let rows = server.query_map("SELECT NAME, VALUE FROM performance_schema.tare_status", named);
    let (active, findings) = match rows {
        Ok(rows) => (true, service::check_rows(&rows, |_| false)),
        Err(error) => (false, vec![explain(error, &schema, &account)]),
    };
    Ok(Diagnosis { server: name, version: Some(version), active, findings })
}

fn explain(error: mysql::Error, schema: &str, account: &str) -> Finding {
    let on_the_host = "run `tare doctor` as root on the server's machine, which sees why";
    match &error {
        mysql::Error::MySqlError(error) if DENIED.contains(&error.code) => {
            let what = format!("the account {account} may not read performance_schema.tare_status");
            Finding::unseen(
                "grants",
                what,
                format!("GRANT SELECT ON performance_schema.* TO the account {account}"),
            )
        }
        mysql::Error::MySqlError(error) if error.code == NO_TABLE && schema == "1" => {
            let what = "the server's own Performance Schema is on, and tare stands back";
            Finding::problem("built-in", what, "set performance_schema=OFF in its option file, and restart")
        }
        mysql::Error::MySqlError(error) if error.code == NO_TABLE => {
            let what = "tare is not loaded, stood back, or its tables are not shown: there is no performance_schema.tare_status";
            Finding::problem("tables", what, on_the_host)
        }
        error => Finding::unseen(
            "tables",
            format!("performance_schema.tare_status cannot be read: {error}"),
            on_the_host,
        ),
    }
}
