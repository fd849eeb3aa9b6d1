use super::*;

#[test]
fn a_server_that_takes_nobody_now_may_answer_later() {
    let address = Address::Socket("/run/tare.sock".into());
    let said = |code, message: &str| {
        let error = mysql::MySqlError { state: "08S01".into(), message: message.into(), code };
        explain(&address, "SELECT 1", error.into())
    };
    for (code, message) in [
        (1040, "Too many connections"),
        (1053, "Server shutdown in progress"),
        (1203, "User tare already has more than 'max_user_connections' active connections"),
        (1226, "User 'tare' has exceeded the 'max_user_connections' resource"),
        (1927, "Connection was killed"),
        (3169, "This session was killed"),
        (4031, "The client was disconnected by the server because of inactivity"),
    ] {
        let error = said(code, message);
        assert!(error.is_passing() && error.to_string().contains(message), "{code}: {error}");
    }
    assert!(!said(1064, "You have an error in your SQL syntax").is_passing());
    assert!(!said(1045, "Access denied").is_passing());
}

#[test]
fn a_server_that_is_read_only_is_told_from_other_options_in_the_way() {
    let address = Address::Socket("/run/tare.sock".into());
    let said = |option: &str| {
        let message =
            format!("The MariaDB server is running with the {option} option so it cannot execute this");
        let error = mysql::MySqlError { state: "HY000".into(), message, code: 1290 };
        explain(&address, "UPDATE t SET n = 1", error.into())
    };
    let error = said("--read-only");
    assert!(matches!(&error, Error::ReadOnly { why, .. } if why.contains("--read-only")), "{error}");
    assert!(!error.is_passing());
    assert!(matches!(said("--skip-grant-tables"), Error::Statement { .. }));
}
