//! Where an installed table finds its rows, spelled the way FEDERATED wants it.

use std::net::SocketAddrV4;

use crate::redirect::{HOST, PORT};

/// Whom FEDERATED connects to.
///
/// FEDERATED can name a Unix socket only through `mysql.servers`, a table of the user's. So the connect string holds
/// a loopback address, which [`crate::redirect`] turns into the endpoint's Unix socket.
pub const ENDPOINT: SocketAddrV4 = SocketAddrV4::new(HOST, PORT);

/// The user name FEDERATED logs in with. There is no password: who may connect is decided by who asks, not by what
/// they know.
pub const USER: &str = "tare";

/// The schema of the tables, at both ends.
pub const SCHEMA: &str = "performance_schema";

/// The connect string of a table.
pub fn connection(endpoint: SocketAddrV4, table: &str) -> String {
    format!("mysql://{USER}@{endpoint}/{SCHEMA}/{table}")
}

/// Whether [`connection`] may have made this string for this table, whatever the endpoint.
pub(super) fn is_connection(text: &[u8], table: &str) -> bool {
    let text = String::from_utf8_lossy(text);
    let Some(rest) = text.strip_prefix("mysql://").and_then(|rest| rest.strip_prefix(USER)) else {
        return false;
    };
    let Some((endpoint, path)) = rest.strip_prefix('@').and_then(|rest| rest.split_once('/')) else {
        return false;
    };
    endpoint.parse::<SocketAddrV4>().is_ok() && path.split_once('/') == Some((SCHEMA, table))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_known_again_for_its_own_table_only() {
        let text = connection(ENDPOINT, "threads");
        assert_eq!(text, "mysql://tare@127.84.65.82:16969/performance_schema/threads");
        assert!(is_connection(text.as_bytes(), "threads"));
        assert!(!is_connection(text.as_bytes(), "thread"));
        for other in [
            "mysql://tare@127.0.0.1:3306/test/threads",
            "mysql://tare@example:3306/performance_schema/threads",
            "mysql://root@127.0.0.1:3306/performance_schema/threads",
            "mysql://tare2@127.0.0.1:3306/performance_schema/threads",
            "server/threads",
            "",
        ] {
            assert!(!is_connection(other.as_bytes(), "threads"), "{other}");
        }
    }
}
