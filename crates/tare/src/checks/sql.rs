//! Checks of a server through its SQL alone, from anywhere, with the rights of an account.

use anyhow::{Context, Result};
use tare_outlets::{Address, Error, Kind, Source};

use super::{Diagnosis, Finding, service};
use crate::endpoint::NamedValue;

/// Checks the server of `mysql://account:password@host:port`.
pub(crate) fn of_account(dsn: &str) -> Result<Diagnosis> {
    let address = Address::dsn(dsn).context("--dsn")?;
    let name = address.to_string();
    let mut server = Source::open(address)?;
    let facts = server.ask("SELECT @@performance_schema, CURRENT_USER()")?;
    let fact = |at| facts.first().and_then(|row| row.text(at)).unwrap_or_default();
    let (schema, account) = (fact(0), fact(1));
    if server.kind() == Kind::MySql {
        let what = "this is a server of MySQL's, where tare has no table tare_status: SQL does not tell whether it is active";
        let findings = vec![Finding::unseen("tables", what, ON_THE_HOST)];
        let version = Some(server.version().to_owned());
        return Ok(Diagnosis { server: name, version, active: false, update: None, does: None, findings });
    }
    let (active, findings) = match server.ask("SELECT NAME, VALUE FROM performance_schema.tare_status") {
        Ok(rows) => {
            let text = |at, row: &tare_outlets::Row| row.text(at).unwrap_or_default();
            let rows: Vec<NamedValue> =
                rows.iter().map(|row| NamedValue { name: text(0, row), value: text(1, row) }).collect();
            (true, service::check_rows(&rows, |_| false))
        }
        Err(error) => (false, vec![explain(&error, &schema, &account)]),
    };
    Ok(Diagnosis {
        server: name,
        version: Some(server.version().to_owned()),
        active,
        update: None,
        does: None,
        findings,
    })
}

/// What to do where SQL does not tell.
const ON_THE_HOST: &str = "run `tare doctor` as root on the server's machine, which sees why";

fn explain(error: &Error, schema: &str, account: &str) -> Finding {
    match error {
        Error::Refused { .. } => {
            let what = format!("the account {account} may not read performance_schema.tare_status");
            Finding::unseen(
                "grants",
                what,
                format!("GRANT SELECT ON performance_schema.* TO the account {account}"),
            )
        }
        Error::Absent { .. } if schema == "1" => {
            let what = "the server's own Performance Schema is on, so tare disables itself";
            Finding::problem(
                "performance-schema",
                what,
                "set performance_schema=OFF in its option file, and restart",
            )
        }
        Error::Absent { .. } => {
            let what = "tare is not loaded, has disabled itself, or its tables are not shown: there is no performance_schema.tare_status";
            Finding::problem("tables", what, ON_THE_HOST)
        }
        error => Finding::unseen(
            "tables",
            format!("performance_schema.tare_status cannot be read: {error}"),
            ON_THE_HOST,
        ),
    }
}
