//! Detection of governors. A governor takes switches by others for a person's choice and leaves them alone,
//! so what it had cut would stay cut. A server with a governor is not weighed.

use mysql::prelude::Queryable;
use tare_words::error_number::{NO_SCHEMA, NO_TABLE};

use crate::server::target::ServerTarget;

/// The named lock that `tare govern` holds.
const LOCK: &str = "tare_govern";
/// The budgets that a server with tare keeps itself.
const BUDGETS: &str =
    "SELECT NAME, VALUE FROM performance_schema.tare_status WHERE NAME IN ('budget', 'budget_p95')";
/// The value of a budget that is not set.
const OFF: &str = "OFF";
/// Errors of a server that has no tare.
const ABSENT: [u16; 2] = [NO_SCHEMA, NO_TABLE];

/// The reason why a server is not weighed.
#[derive(Debug, thiserror::Error)]
pub enum Obstacle {
    /// It cannot be reached or queried, or is being weighed.
    #[error(transparent)]
    Other(#[from] crate::Error),
    /// `tare govern` is connected to it.
    #[error(
        "`tare govern` is at work on the server at {server} (connection {connection}) and would take what is switched here for a \
         person's settings, which it leaves as they are: end it with Ctrl-C or SIGTERM, which puts back what it has switched off, \
         and start it again afterwards"
    )]
    Governed {
        /// Address of the server.
        server: String,
        /// Number of the governor's connection.
        connection: u64,
    },
    /// It keeps a budget.
    #[error(
        "the server at {server} keeps a budget ({budgets}), and its governor would take what is switched here for a person's \
         settings, which it leaves as they are: end it with UPDATE performance_schema.tare_status SET VALUE = 'OFF' WHERE NAME IN \
         ('budget', 'budget_p95'), and set it again afterwards"
    )]
    Budget {
        /// Address of the server.
        server: String,
        /// The rows of `tare_status` that set it, with their values.
        budgets: String,
    },
}

/// Refuses a server that `tare govern` is connected to.
pub(super) fn refuse_beside(target: &ServerTarget, connection: &mut mysql::Conn) -> Result<(), Obstacle> {
    let holder: Option<Option<u64>> =
        connection.exec_first("SELECT IS_USED_LOCK(?)", (LOCK,)).map_err(|e| target.refused(e))?;
    match holder.flatten() {
        Some(connection) => Err(Obstacle::Governed { server: target.name(), connection }),
        None => Ok(()),
    }
}

/// Refuses a server with tare that keeps a budget.
pub(super) fn refuse_within(target: &ServerTarget, connection: &mut mysql::Conn) -> Result<(), Obstacle> {
    let rows: Vec<(String, String)> = match connection.query(BUDGETS) {
        Err(mysql::Error::MySqlError(error)) if ABSENT.contains(&error.code) => return Ok(()),
        other => other.map_err(|e| target.refused(e))?,
    };
    match kept(&rows) {
        Some(budgets) => Err(Obstacle::Budget { server: target.name(), budgets }),
        None => Ok(()),
    }
}

/// Describes the budgets that are set; `None` if there are none.
fn kept(rows: &[(String, String)]) -> Option<String> {
    let set = rows.iter().filter(|(_, value)| !value.eq_ignore_ascii_case(OFF));
    let said: Vec<String> = set.map(|(row, value)| format!("{row} is {value}")).collect();
    (!said.is_empty()).then(|| said.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_kept_unless_it_is_off() {
        let of = |rows: &[(&str, &str)]| {
            let rows: Vec<(String, String)> =
                rows.iter().map(|(row, value)| ((*row).to_owned(), (*value).to_owned())).collect();
            kept(&rows)
        };
        assert_eq!(of(&[("budget", "OFF"), ("budget_p95", "OFF")]), None);
        assert_eq!(of(&[("budget", "1.5%"), ("budget_p95", "OFF")]).as_deref(), Some("budget is 1.5%"));
        assert_eq!(of(&[("budget", "OFF"), ("budget_p95", "5%")]).as_deref(), Some("budget_p95 is 5%"));
        assert_eq!(
            of(&[("budget", "1%"), ("budget_p95", "5%")]).as_deref(),
            Some("budget is 1%, budget_p95 is 5%")
        );
        assert_eq!(of(&[]), None, "a server without prices keeps none");
    }

    #[test]
    fn an_obstacle_says_how_to_end_it() {
        let server = || "db1:3306".to_owned();
        let beside = Obstacle::Governed { server: server(), connection: 7 }.to_string();
        assert!(beside.contains("(connection 7)") && beside.contains("SIGTERM"), "{beside}");
        let within = Obstacle::Budget { server: server(), budgets: "budget is 1%".to_owned() }.to_string();
        assert!(within.contains("budget is 1%") && within.contains("SET VALUE = 'OFF'"), "{within}");
    }
}
