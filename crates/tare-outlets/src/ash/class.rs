//! What a session spends its time on, told from the names of its waits, its stage and its command.

use tare_engine::snapshot::WaitClass;

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

/// What a wait is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitKind {
    Mutex,
    Condition,
    File,
    Socket,
    /// Access to a table, which has waits of its own.
    TableIo,
    TableLock,
    Metadata,
    Idle,
    Other,
}

impl WaitKind {
    pub(super) fn of(instrument: &str) -> Self {
        let mut parts = instrument.split('/').skip(1);
        match (parts.next(), parts.next()) {
            (None, _) => WaitKind::Idle,
            (Some("synch"), Some("cond")) => WaitKind::Condition,
            (Some("synch"), _) => WaitKind::Mutex,
            (Some("io"), Some("file")) => WaitKind::File,
            (Some("io"), Some("socket")) => WaitKind::Socket,
            (Some("io"), Some("table")) => WaitKind::TableIo,
            (Some("lock"), Some("table")) => WaitKind::TableLock,
            (Some("lock"), Some("metadata")) => WaitKind::Metadata,
            _ => WaitKind::Other,
        }
    }

    /// Returns whether it says what a thread waits for. Access to a table does not: what is waited for in it has
    /// waits of its own.
    pub(super) fn is_wait(self) -> bool {
        !matches!(self, WaitKind::TableIo | WaitKind::TableLock | WaitKind::Idle)
    }

    /// Returns the class of a wait; `told`: what the stage says.
    pub(super) fn class(self, told: Option<WaitClass>) -> WaitClass {
        match self {
            WaitKind::Mutex => WaitClass::Mutex,
            WaitKind::Condition => told.unwrap_or(WaitClass::Condition),
            WaitKind::File => WaitClass::File,
            WaitKind::Socket => WaitClass::Network,
            WaitKind::TableLock => WaitClass::TableLock,
            WaitKind::Metadata if told == Some(WaitClass::UserLock) => WaitClass::UserLock,
            WaitKind::Metadata => WaitClass::MetadataLock,
            WaitKind::TableIo | WaitKind::Idle | WaitKind::Other => WaitClass::Other,
        }
    }
}

/// Returns whether a session with this command works for its client.
pub(super) fn is_working(command: &str) -> bool {
    !IDLE_COMMANDS.contains(&command) && !command.starts_with("Binlog Dump") && command != "Slave_SQL"
}

/// Returns whether a thread in this state has nothing to do, whatever its command.
pub(super) fn is_idle_state(state: &str) -> bool {
    IDLE_STATES.iter().any(|begin| state.starts_with(begin))
}

/// Returns what a thread waits for in this state, which is the last part of its stage's name; `None`: the state
/// does not say.
pub(super) fn of_state(state: &str) -> Option<WaitClass> {
    match state {
        "User sleep" => Some(WaitClass::Sleep),
        "User lock" => Some(WaitClass::UserLock),
        "Waiting for table level lock" => Some(WaitClass::TableLock),
        "Waiting for backup lock" | "Waiting for global read lock" | "Waiting for commit lock" => {
            Some(WaitClass::MetadataLock)
        }
        "Reading from net" | "Writing to net" | "Sending to client" | "Receiving from client" => {
            Some(WaitClass::Network)
        }
        _ if !state.get(..7).is_some_and(|begin| begin.eq_ignore_ascii_case("waiting")) => None,
        _ if state.ends_with("metadata lock") => Some(WaitClass::MetadataLock),
        // Whatever it is, it does not run. What is waited for here has a wait of its own, if it is instrumented.
        _ => Some(WaitClass::Other),
    }
}

/// Returns the state of a stage's name.
pub(super) fn state_of(stage: &str) -> &str {
    stage.splitn(3, '/').nth(2).unwrap_or(stage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_told_by_their_names() {
        for (name, kind, class) in [
            ("wait/synch/mutex/sql/LOCK_open", WaitKind::Mutex, WaitClass::Mutex),
            ("wait/synch/sxlock/innodb/index_tree_rw_lock", WaitKind::Mutex, WaitClass::Mutex),
            ("wait/synch/prlock/sql/MDL_lock::rwlock", WaitKind::Mutex, WaitClass::Mutex),
            ("wait/synch/cond/sql/COND_done", WaitKind::Condition, WaitClass::Condition),
            ("wait/io/file/innodb/innodb_data_file", WaitKind::File, WaitClass::File),
            ("wait/io/socket/sql/client_connection", WaitKind::Socket, WaitClass::Network),
            ("wait/lock/metadata/sql/mdl", WaitKind::Metadata, WaitClass::MetadataLock),
            ("wait/new/kind", WaitKind::Other, WaitClass::Other),
        ] {
            assert_eq!((WaitKind::of(name), kind.class(None)), (kind, class), "{name}");
            assert!(kind.is_wait(), "{name}");
        }
        for name in ["idle", "wait/io/table/sql/handler", "wait/lock/table/sql/handler"] {
            assert!(!WaitKind::of(name).is_wait(), "{name}");
        }
        let told = Some(WaitClass::UserLock);
        assert_eq!(WaitKind::Metadata.class(told), WaitClass::UserLock);
        assert_eq!(WaitKind::Condition.class(Some(WaitClass::Sleep)), WaitClass::Sleep);
    }

    #[test]
    fn states_say_what_is_waited_for() {
        for (state, class) in [
            ("User sleep", Some(WaitClass::Sleep)),
            ("Waiting for table metadata lock", Some(WaitClass::MetadataLock)),
            ("Waiting for stored function metadata lock", Some(WaitClass::MetadataLock)),
            ("Waiting for global read lock", Some(WaitClass::MetadataLock)),
            ("Waiting for table level lock", Some(WaitClass::TableLock)),
            ("Sending to client", Some(WaitClass::Network)),
            ("waiting for handler commit", Some(WaitClass::Other)),
            ("Waiting for semi-sync ACK from replica", Some(WaitClass::Other)),
            ("executing", None),
            ("Sending data", None),
            ("", None),
            ("größte", None),
        ] {
            assert_eq!(of_state(state), class, "{state}");
        }
        assert_eq!(state_of("stage/sql/User sleep"), "User sleep");
        assert_eq!(state_of("stage/innodb/alter table (flush)"), "alter table (flush)");
        assert!(is_idle_state("Waiting for source to send event") && !is_idle_state("updating"));
        assert!(is_working("Query") && is_working("Execute") && is_working("Quit"));
        assert!(!is_working("Sleep") && !is_working("Binlog Dump GTID") && !is_working("Slave_SQL"));
    }
}
