//! What a session spends its time on, told from the names of its waits, its stage and its command.

use tare_engine::snapshot::{Kind, WaitClass};
use tare_words::stage;

/// Commands of sessions that wait for their client, or are the server's own.
const IDLE_COMMANDS: [&str; 9] = [
    "Sleep",
    "Daemon",
    "Connect",
    "Connect Out",
    "Delayed insert",
    "Register Slave",
    "Register Replica",
    "Slave_IO",
    "Slave_worker",
];
/// Beginnings of the states of threads that have nothing to do.
const IDLE_STATES: [&str; 14] = [
    "Has read all relay log",
    "Has sent all binlog",
    "Master has sent all binlog",
    "Source has sent all binlog",
    "Replica has read all relay log",
    "Slave has read all relay log",
    "Suspending",
    "Waiting for an event from Coordinator",
    "Waiting for master to send event",
    "Waiting for next activation",
    "Waiting for source to send event",
    "Waiting for the next event in relay log",
    "Waiting for work from SQL thread",
    "Waiting on empty queue",
];
/// Name of the wait for a lock of a storage engine's, which no instrument reports.
pub(super) const ROW_LOCK: &str = tare_engine::ROW_LOCK;

/// Returns the class of a wait by its instrument's name; `told`: what the stage says.
pub(super) fn of_wait(instrument: &str, told: Option<WaitClass>) -> WaitClass {
    Kind::of_wait(instrument).map_or(WaitClass::Other, |kind| WaitClass::of(kind, told))
}

/// Returns whether a session with this command works for its client.
pub(super) fn is_working(command: &str) -> bool {
    !IDLE_COMMANDS.contains(&command) && !command.starts_with("Binlog Dump") && command != "Slave_SQL"
}

/// Returns whether a session with this command, in this state, has something to do.
pub(crate) fn is_active(command: &str, state: &str) -> bool {
    is_working(command) && !is_idle_state(state)
}

/// Returns whether a thread in this state has nothing to do, whatever its command.
pub(super) fn is_idle_state(state: &str) -> bool {
    IDLE_STATES.iter().any(|begin| state.starts_with(begin))
}

/// Returns what a thread waits for in this state; `None`: the state does not say.
pub(super) fn of_state(state: &str) -> Option<WaitClass> {
    stage::wait_class(state).and_then(WaitClass::named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_that_nobody_knows_is_of_the_class_other() {
        assert_eq!(of_wait("wait/new/kind", Some(WaitClass::Sleep)), WaitClass::Other);
        assert_eq!(of_wait("wait/synch/cond/sql/COND_done", Some(WaitClass::Sleep)), WaitClass::Sleep);
    }

    #[test]
    fn states_and_commands_say_who_works() {
        assert_eq!(of_state("User lock"), Some(WaitClass::UserLock));
        assert_eq!(of_state("Sending data"), None);
        assert!(is_idle_state("Waiting for source to send event") && !is_idle_state("updating"));
        assert!(is_working("Query") && is_working("Execute") && is_working("Quit"));
        assert!(is_active("Query", "updating") && !is_active("Sleep", ""));
        assert!(!is_active("Query", "Waiting on empty queue"));
        assert!(!is_working("Sleep") && !is_working("Binlog Dump GTID") && !is_working("Slave_SQL"));
    }
}
