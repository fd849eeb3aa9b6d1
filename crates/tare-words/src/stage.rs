//! Stages of statements: what a session waits for that does not run in one of them.
//!
//! A *state*, as process lists show it, is the last part of a stage's name.

/// States in which a session waits, and the WAIT_CLASS of that wait.
const WAITS: [(&str, &str); 10] = [
    ("User sleep", "SLEEP"),
    ("User lock", "USER LOCK"),
    ("Waiting for table level lock", "TABLE LOCK"),
    ("Waiting for backup lock", METADATA),
    ("Waiting for global read lock", METADATA),
    ("Waiting for commit lock", METADATA),
    ("Reading from net", NETWORK),
    ("Writing to net", NETWORK),
    // MySQL's words for the two.
    ("Receiving from client", NETWORK),
    ("Sending to client", NETWORK),
];
const METADATA: &str = "METADATA LOCK";
const NETWORK: &str = "NETWORK";

/// Returns the WAIT_CLASS of what is waited for in this state. `None`: the state does not say.
///
/// # Examples
/// ```
/// use tare_words::stage::wait_class;
/// assert_eq!(wait_class("Waiting for table metadata lock"), Some("METADATA LOCK"));
/// assert_eq!(wait_class("Sending data"), None);
/// ```
#[must_use]
pub fn wait_class(state: &str) -> Option<&'static str> {
    let named = WAITS.into_iter().find(|(name, _)| *name == state);
    // Each type of object has a state of its own.
    let is_metadata = || is_waiting(state) && state.ends_with("metadata lock");
    named.map(|(_, class)| class).or_else(|| is_metadata().then_some(METADATA))
}

/// Returns whether a session in this state waits, for whatever it is.
#[must_use]
pub fn is_waiting(state: &str) -> bool {
    state.get(..7).is_some_and(|begin| begin.eq_ignore_ascii_case("waiting"))
}

/// Returns the state of a stage's name: `User sleep` of `stage/sql/User sleep`.
#[must_use]
pub fn state(stage: &str) -> &str {
    stage.splitn(3, '/').nth(2).unwrap_or(stage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_say_what_is_waited_for() {
        for (state, class) in [
            ("User sleep", Some("SLEEP")),
            ("User lock", Some("USER LOCK")),
            ("Waiting for table metadata lock", Some("METADATA LOCK")),
            ("Waiting for stored function metadata lock", Some("METADATA LOCK")),
            ("Waiting for global read lock", Some("METADATA LOCK")),
            ("Waiting for table level lock", Some("TABLE LOCK")),
            ("Writing to net", Some("NETWORK")),
            ("Sending to client", Some("NETWORK")),
            ("waiting for handler commit", None),
            ("Waiting for semi-sync ACK from replica", None),
            ("executing", None),
            ("Sending data", None),
            ("", None),
        ] {
            assert_eq!(wait_class(state), class, "{state}");
        }
    }

    #[test]
    fn a_waiting_state_is_told_by_its_beginning() {
        assert!(is_waiting("waiting for handler commit") && is_waiting("Waiting for semi-sync ACK"));
        assert!(!is_waiting("executing") && !is_waiting("größte") && !is_waiting(""));
    }

    #[test]
    fn a_state_is_the_last_part_of_a_stage() {
        assert_eq!(state("stage/sql/User sleep"), "User sleep");
        assert_eq!(state("stage/innodb/alter table (flush)"), "alter table (flush)");
        assert_eq!(state("executing"), "executing");
    }
}
