//! Numbers of a server's errors that say what a client can do about them. MariaDB and MySQL share them, where
//! nothing else is said.

/// `ER_CON_COUNT_ERROR`: too many connections.
pub const TOO_MANY_CONNECTIONS: u16 = 1040;
/// `ER_DBACCESS_DENIED_ERROR`: the account lacks the right to the schema.
pub const SCHEMA_DENIED: u16 = 1044;
/// `ER_ACCESS_DENIED_ERROR`: no such account, or a wrong password.
pub const LOGIN_DENIED: u16 = 1045;
/// `ER_BAD_DB_ERROR`: no such schema.
pub const NO_SCHEMA: u16 = 1049;
/// `ER_SERVER_SHUTDOWN`: the server ends.
pub const SHUTDOWN: u16 = 1053;
/// `ER_BAD_FIELD_ERROR`: no such column.
pub const NO_COLUMN: u16 = 1054;
/// `ER_TABLEACCESS_DENIED_ERROR`: the account lacks the right to the table.
pub const TABLE_DENIED: u16 = 1142;
/// `ER_COLUMNACCESS_DENIED_ERROR`: the account lacks the right to the column.
pub const COLUMN_DENIED: u16 = 1143;
/// `ER_NO_SUCH_TABLE`: no such table.
pub const NO_TABLE: u16 = 1146;
/// `ER_TOO_MANY_USER_CONNECTIONS`: too many connections of the account.
pub const TOO_MANY_OF_ACCOUNT: u16 = 1203;
/// `ER_USER_LIMIT_REACHED`: a limit of the account is reached.
pub const ACCOUNT_LIMIT: u16 = 1226;
/// `ER_SPECIFIC_ACCESS_DENIED_ERROR`: the account lacks a privilege.
pub const PRIVILEGE_DENIED: u16 = 1227;
/// `ER_OPTION_PREVENTS_STATEMENT`: an option of the server is in the way, such as `read_only`.
pub const PREVENTED: u16 = 1290;
/// `ER_ACCESS_DENIED_NO_PASSWORD_ERROR`: the account cannot log in this way.
pub const LOGIN_DENIED_WITHOUT_PASSWORD: u16 = 1698;
/// `ER_CONNECTION_KILLED` of MariaDB: somebody killed the connection.
pub const KILLED: u16 = 1927;
/// `ER_SESSION_WAS_KILLED` of MySQL: somebody killed the connection.
pub const KILLED_IN_MYSQL: u16 = 3169;
/// `ER_CLIENT_INTERACTION_TIMEOUT` of MySQL: the connection was idle for too long.
pub const IDLE_IN_MYSQL: u16 = 4031;

/// Errors of a server that does not know the account or rejects its password.
pub const LOGIN: [u16; 2] = [LOGIN_DENIED, LOGIN_DENIED_WITHOUT_PASSWORD];
/// Errors for an account without the right to the schema, a table, a column, or anything.
pub const RIGHTS: [u16; 4] = [SCHEMA_DENIED, TABLE_DENIED, COLUMN_DENIED, PRIVILEGE_DENIED];
/// Errors that pass: too many connections, in total or of the account, a shutdown, a killed connection, or
/// one that was idle for too long.
pub const PASSING: [u16; 7] = [
    TOO_MANY_CONNECTIONS,
    SHUTDOWN,
    TOO_MANY_OF_ACCOUNT,
    ACCOUNT_LIMIT,
    KILLED,
    KILLED_IN_MYSQL,
    IDLE_IN_MYSQL,
];
