//! What a thread does, from what the query saw of it, and its row of the history.

use tare_engine::snapshot::{self, Kind, SessionState, WaitClass};
use tare_words::stage;

use super::class::{self, ROW_LOCK};
use super::coverage::Coverage;
use super::seen::{SeenThread, SeenWait};
use crate::snapshot::Value;

/// Names of waits that the state alone tells.
const METADATA_LOCK: &str = "wait/lock/metadata/sql/mdl";
const TABLE_LOCK: &str = "wait/lock/table/sql/handler";

/// Type, schema, name and index of what is waited for.
pub(super) type Object = [Option<String>; 4];

/// Thread and connection of a session that another waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Blocker {
    pub(super) thread: u64,
    pub(super) connection: Option<u64>,
}

/// What a thread does.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Doing {
    pub(super) class: WaitClass,
    /// Instrument of the wait.
    pub(super) wait: Option<String>,
    /// The wait, or the table access that the thread is in.
    pub(super) noted: Option<SeenWait>,
    pub(super) object: Option<Object>,
    pub(super) blocker: Option<Blocker>,
}

impl Doing {
    fn of(class: WaitClass) -> Doing {
        Doing { class, wait: None, noted: None, object: None, blocker: None }
    }

    /// Returns what a thread does that is in this wait; `told`: what its stage says it waits for.
    fn of_wait(told: Option<WaitClass>, wait: &SeenWait) -> Doing {
        let class = class::of_wait(&wait.instrument, told);
        let object = Some(wait.object.clone()).filter(|[kind, ..]| kind.is_some());
        Doing { wait: Some(wait.instrument.clone()), noted: Some(wait.clone()), object, ..Doing::of(class) }
    }

    /// Returns whether it may turn out to wait for a row: it seems to run, in a table if that can be known.
    pub(super) fn may_wait_for_row(&self, coverage: &Coverage) -> bool {
        let is_in_table = self.noted.as_ref().is_some_and(|it| it.kind() == Some(Kind::TableIo));
        self.class == WaitClass::Cpu && (is_in_table || !coverage.table_waits)
    }

    /// Returns whether it waits for a lock of which `metadata_locks` may know the holder.
    pub(super) fn waits_for_metadata(&self) -> bool {
        matches!(self.class, WaitClass::MetadataLock | WaitClass::UserLock)
    }

    /// Makes it a wait for a row lock. What is known of the table access stays.
    pub(super) fn make_row_lock(&mut self, object: Option<Object>, blocker: Option<Blocker>) {
        self.class = WaitClass::RowLock;
        self.wait = Some(ROW_LOCK.to_owned());
        let accessed = self.noted.as_ref().map(|wait| wait.object.clone());
        self.object = accessed.filter(|[kind, ..]| kind.is_some()).or(object);
        self.blocker = blocker;
    }
}

/// Returns what a thread does; `None`: it has nothing to do.
pub(super) fn judge(thread: &SeenThread) -> Option<Doing> {
    let state = thread.stage.as_deref().map(stage::state).or(thread.state.as_deref()).unwrap_or_default();
    let is_session = thread.connection.is_some();
    let is_in_statement = !thread.statements.is_empty() && !thread.command.starts_with("Binlog Dump");
    let works = is_in_statement || is_session && class::is_working(&thread.command);
    let wait = snapshot::waited_for(&thread.waits, SeenWait::kind);
    if !works || class::is_idle_state(state) {
        let is_work = |wait: &&SeenWait| wait.kind().is_some_and(|kind| !kind.is_rest());
        return wait.filter(is_work).map(|wait| Doing::of_wait(None, wait));
    }
    let told = class::of_state(state);
    if let Some(wait) = wait {
        return Some(Doing::of_wait(told, wait));
    }
    // Whatever a session in a waiting state waits for, it does not run.
    let unnamed = if stage::is_waiting(state) { WaitClass::Other } else { WaitClass::Cpu };
    let mut doing = Doing::of(told.unwrap_or(unnamed));
    doing.noted = thread.waits.last().cloned();
    doing.wait = match doing.class {
        WaitClass::MetadataLock | WaitClass::UserLock => Some(METADATA_LOCK.to_owned()),
        WaitClass::TableLock => Some(TABLE_LOCK.to_owned()),
        _ => None,
    };
    Some(doing)
}

/// Returns a thread's row of the history, in the order of its columns.
pub(super) fn row(
    time: &str,
    us: u64,
    thread: &SeenThread,
    doing: &Doing,
    coverage: &Coverage,
) -> Vec<Value> {
    let text = |text: Option<&str>| text.map_or(Value::Null, |text| Value::Text(text.to_owned()));
    let number = |number: Option<u64>| number.map_or(Value::Null, Value::Unsigned);
    let statement = thread.statements.last();
    let digest = thread.statements.iter().rev().find_map(|statement| statement.digest.as_deref());
    let schema = statement.and_then(|it| it.schema.as_deref()).or(thread.schema.as_deref());
    let of_state = || coverage.stage(thread.state.as_deref()?);
    let runs = doing.class == WaitClass::Cpu;
    let state = if runs { SessionState::OnCpu } else { SessionState::Waiting };
    let wait = doing.noted.as_ref().filter(|_| doing.wait.is_some());
    let [kind, object_schema, object, index] =
        doing.object.as_ref().map_or([None; 4], |object| object.each_ref().map(Option::as_deref));
    vec![
        Value::Text(time.to_owned()),
        Value::Unsigned(us),
        Value::Unsigned(thread.id),
        number(thread.connection),
        text(Some(&thread.name)),
        text(thread.user.as_deref()),
        text(thread.host.as_deref()),
        text(schema),
        text(digest),
        number(statement.map(|it| it.event_id)),
        number(statement.and_then(|it| it.age)),
        text(thread.stage.as_deref().or_else(of_state)),
        text(Some(state.name())),
        text(Some(doing.class.name())),
        text(doing.wait.as_deref()),
        text(wait.and_then(|wait| wait.operation.as_deref())),
        text(kind),
        text(object_schema),
        text(object),
        text(index),
        number(wait.and_then(|wait| wait.age)),
        number(doing.blocker.map(|it| it.thread)),
        number(doing.blocker.and_then(|it| it.connection)),
        number(thread.transaction.and_then(|it| it.id)),
        number(thread.transaction.and_then(|it| it.age)),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::columns::COLUMNS;
    use super::super::seen::{SeenStatement, SeenTransaction};
    use super::*;

    fn wait(instrument: &str) -> SeenWait {
        SeenWait { instrument: instrument.into(), age: Some(5), ..SeenWait::default() }
    }

    fn session(command: &str, state: &str, waits: &[&str]) -> SeenThread {
        SeenThread {
            id: 7,
            connection: Some(3),
            command: command.into(),
            state: Some(state.into()).filter(|state: &String| !state.is_empty()),
            waits: waits.iter().map(|name| wait(name)).collect(),
            ..SeenThread::default()
        }
    }

    /// Class and wait.
    fn does(thread: &SeenThread) -> Option<(&'static str, Option<String>)> {
        judge(thread).map(|doing| (doing.class.name(), doing.wait))
    }

    #[test]
    fn a_session_does_what_its_waits_and_its_state_say() {
        const MDL: &str = "wait/lock/metadata/sql/mdl";
        const COND: &str = "wait/synch/cond/sql/MDL_context::COND_wait_status";
        const HANDLER: &str = "wait/io/table/sql/handler";
        for (state, waits, class, event) in [
            ("updating", &[][..], "CPU", None),
            ("updating", &[HANDLER], "CPU", None),
            (
                "updating",
                &[HANDLER, "wait/io/file/innodb/innodb_data_file"],
                "FILE IO",
                Some("wait/io/file/innodb/innodb_data_file"),
            ),
            (
                "updating",
                &[HANDLER, "wait/synch/sxlock/innodb/x"],
                "MUTEX",
                Some("wait/synch/sxlock/innodb/x"),
            ),
            (
                "User sleep",
                &["wait/synch/cond/sql/Item_func_sleep::cond"],
                "SLEEP",
                Some("wait/synch/cond/sql/Item_func_sleep::cond"),
            ),
            ("User sleep", &[], "SLEEP", None),
            ("Waiting for table metadata lock", &[MDL, COND], "METADATA LOCK", Some(MDL)),
            ("Waiting for table metadata lock", &[], "METADATA LOCK", Some(MDL)),
            ("User lock", &[MDL, COND], "USER LOCK", Some(MDL)),
            ("User lock", &[], "USER LOCK", Some(MDL)),
            (
                "Waiting for table level lock",
                &[TABLE_LOCK, "wait/synch/cond/mysys/my_thread_var::suspend"],
                "TABLE LOCK",
                Some(TABLE_LOCK),
            ),
            ("Waiting for table level lock", &[], "TABLE LOCK", Some(TABLE_LOCK)),
            ("System lock", &[TABLE_LOCK], "CPU", None),
            ("x", &["wait/synch/cond/sql/COND_done"], "CONDITION", Some("wait/synch/cond/sql/COND_done")),
            (
                "Sending to client",
                &["wait/io/socket/sql/client_connection"],
                "NETWORK",
                Some("wait/io/socket/sql/client_connection"),
            ),
            ("waiting for handler commit", &[], "OTHER", None),
            (
                "Waiting for semi-sync ACK from replica",
                &["wait/synch/cond/semisync/COND_binlog_send"],
                "CONDITION",
                Some("wait/synch/cond/semisync/COND_binlog_send"),
            ),
            ("", &[], "CPU", None),
        ] {
            assert_eq!(
                does(&session("Query", state, waits)),
                Some((class, event.map(str::to_owned))),
                "{state} {waits:?}"
            );
        }
    }

    #[test]
    fn who_has_nothing_to_do_is_not_active() {
        assert_eq!(does(&session("Daemon", "Waiting on empty queue", &["wait/synch/cond/sql/x"])), None);
        assert_eq!(does(&session("Binlog Dump", "Master has sent all binlog to slave", &[])), None);
        assert_eq!(
            does(&session("Query", "Replica has read all relay log; waiting for more updates", &[])),
            None
        );
        let mut background =
            SeenThread { id: 1, name: "thread/innodb/io_read_thread".into(), ..SeenThread::default() };
        assert_eq!(does(&background), None);
        for (name, class) in [
            ("wait/synch/cond/sql/COND_manager", None),
            ("wait/io/socket/sql/server_tcpip_socket", None),
            ("wait/io/file/innodb/innodb_log_file", Some("FILE IO")),
            ("wait/synch/mutex/innodb/log_sys_mutex", Some("MUTEX")),
        ] {
            background.waits = vec![wait(name)];
            assert_eq!(does(&background).map(|(class, _)| class), class, "{name}");
        }
        background.waits.clear();
        background.statements.push(SeenStatement::default());
        assert_eq!(does(&background).map(|(class, _)| class), Some("CPU"), "a replica applies a statement");
    }

    #[test]
    fn only_who_seems_to_run_may_wait_for_a_row() {
        let all = Coverage { waits: true, table_waits: true, ..Coverage::default() };
        let may = |thread: &SeenThread, coverage: &Coverage| {
            judge(thread).is_some_and(|doing| doing.may_wait_for_row(coverage))
        };
        assert!(may(&session("Query", "updating", &["wait/io/table/sql/handler"]), &all));
        assert!(!may(&session("Query", "executing", &[]), &all), "it is in no table");
        assert!(may(&session("Query", "executing", &[]), &Coverage::default()), "nobody knows");
        assert!(!may(&session("Query", "User sleep", &[]), &Coverage::default()));
    }

    #[test]
    fn a_row_has_what_was_seen() {
        let mut thread = session("Query", "updating", &["wait/io/table/sql/handler"]);
        thread.waits[0].object = ["TABLE", "s", "t", "PRIMARY"].map(|part| Some(part.to_owned()));
        thread.waits[0].operation = Some("fetch".into());
        thread.schema = Some("other".into());
        let statement = |event_id, digest: Option<&str>| SeenStatement {
            event_id,
            age: Some(event_id * 10),
            schema: Some("s".into()),
            digest: digest.map(str::to_owned),
            digest_text: None,
            shape: None,
        };
        thread.statements = vec![statement(1, Some("outer")), statement(2, None)];
        thread.transaction = Some(SeenTransaction { id: Some(77), age: Some(99) });
        let mut coverage = Coverage::default();
        coverage.stages_by_state.insert("updating".into(), "stage/sql/updating".into());
        let mut doing = judge(&thread).expect("active");
        let of = |row: &[Value], name: &str| {
            row[COLUMNS.iter().position(|(column, _)| *column == name).expect(name)].clone()
        };
        let text = |text: &str| Value::Text(text.into());
        let running = row("2026-11-30 10:42:00.000000", 1000, &thread, &doing, &coverage);
        assert_eq!(running.len(), COLUMNS.len());
        for (name, value) in [
            ("STATE", text("ON CPU")),
            ("WAIT_EVENT", Value::Null),
            ("OBJECT_NAME", Value::Null),
            ("WAIT_AGE", Value::Null),
            ("STAGE", text("stage/sql/updating")),
            ("DIGEST", text("outer")),
            ("SCHEMA_NAME", text("s")),
            ("STATEMENT_EVENT_ID", Value::Unsigned(2)),
            ("STATEMENT_AGE", Value::Unsigned(20)),
            ("TRX_ID", Value::Unsigned(77)),
        ] {
            assert_eq!(of(&running, name), value, "{name}");
        }
        doing.make_row_lock(None, Some(Blocker { thread: 8, connection: Some(4) }));
        let waiting = row("2026-11-30 10:42:00.000000", 1000, &thread, &doing, &coverage);
        for (name, value) in [
            ("STATE", text("WAITING")),
            ("WAIT_CLASS", text("ROW LOCK")),
            ("WAIT_EVENT", text("wait/lock/row/handler")),
            ("OPERATION", text("fetch")),
            ("OBJECT_SCHEMA", text("s")),
            ("INDEX_NAME", text("PRIMARY")),
            ("WAIT_AGE", Value::Unsigned(5)),
            ("BLOCKING_THREAD_ID", Value::Unsigned(8)),
            ("BLOCKING_PROCESSLIST_ID", Value::Unsigned(4)),
        ] {
            assert_eq!(of(&waiting, name), value, "{name}");
        }
    }
}
