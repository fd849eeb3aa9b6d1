//! The addresses of the tables' rows, in the form that FEDERATED requires.

use std::net::SocketAddrV4;

use super::secret::NameSecret;
use crate::endpoint::{HOST, PORT};

/// The address that FEDERATED connects to.
///
/// FEDERATED can name a Unix socket only through `mysql.servers`, a table of the user's. So the connect
/// string has a loopback address, which [`crate::interpose::redirect`] turns into the endpoint's Unix socket.
pub const ENDPOINT: SocketAddrV4 = SocketAddrV4::new(HOST, PORT);

/// The user name that FEDERATED logs in with. There is no password: it would be in the same connect string as
/// the secret in the table's name, and protect nothing more ([`NameSecret`]).
pub const USER: &str = "tare";

/// The schema of the tables, at both ends.
pub const SCHEMA: &str = "performance_schema";

/// Returns the name by which the endpoint is asked for a table. The secret is in the connect string's table
/// part, not in its user, because FEDERATED keeps connections per user: so all tables share a few.
pub(super) fn name(table: &str, secret: &NameSecret) -> String {
    format!("{table}-{}", secret.text())
}

/// Returns the table and the secret of a [`name`].
pub(super) fn named(name: &str) -> Option<(&str, NameSecret)> {
    let (table, secret) = name.split_once('-')?;
    Some((table, NameSecret::parse(secret)?))
}

/// Returns the connect string of a table.
pub fn connection(endpoint: SocketAddrV4, table: &str, secret: &NameSecret) -> String {
    format!("mysql://{USER}@{endpoint}/{SCHEMA}/{}", name(table, secret))
}

/// Returns whether [`connection`] may have created this string for this table, for any endpoint, also in a
/// version without secrets.
pub(super) fn is_of(connection: &str, table: &str) -> bool {
    let path = || {
        let rest = connection.strip_prefix("mysql://")?.strip_prefix(USER)?;
        let (endpoint, path) = rest.strip_prefix('@')?.split_once('/')?;
        endpoint.parse::<SocketAddrV4>().ok()?;
        path.split_once('/')
    };
    let is_its = |name: &str| name == table || named(name).is_some_and(|(named, _)| named == table);
    path().is_some_and(|(schema, name)| schema == SCHEMA && is_its(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_known_again_for_its_own_table_only() {
        let secret = NameSecret::parse(&"0f".repeat(16)).expect("a secret");
        let text = connection(ENDPOINT, "threads", &secret);
        let name = format!("threads-{}", "0f".repeat(16));
        assert_eq!(text, format!("mysql://tare@127.84.65.82:16969/performance_schema/{name}"));
        assert!(is_of(&text, "threads"));
        assert_eq!(named(&name), Some(("threads", secret)));
        assert!(!is_of(&text, "thread"));
        let before_secrets = "mysql://tare@127.84.65.82:16969/performance_schema/threads";
        assert!(is_of(before_secrets, "threads"));
        for other in [
            "mysql://tare@127.0.0.1:3306/test/threads",
            "mysql://tare@example:3306/performance_schema/threads",
            "mysql://root@127.0.0.1:3306/performance_schema/threads",
            "mysql://tare2@127.0.0.1:3306/performance_schema/threads",
            "mysql://tare@127.0.0.1:3306/performance_schema/threads-",
            "mysql://tare@127.0.0.1:3306/performance_schema/threads-0",
            "server/threads",
            "",
        ] {
            assert!(!is_of(other, "threads"), "{other}");
        }
    }
}
