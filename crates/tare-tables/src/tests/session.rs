//! Sample rows of threads, sessions and replicas.

use tare_engine::snapshot::*;
use tare_engine::{
    ApplierRow, CachedHost, Replica, ReplicaError, ReplicaRow, ReplicaThread, ReplicaWorker,
    SessionVariableRow,
};

use super::{Sample, some};
use crate::declarations::session::SessionStatusRow;

impl Sample for ThreadRow {
    fn full() -> Self {
        ThreadRow {
            thread_id: 7,
            name: "thread/sql/one_connection",
            foreground: true,
            processlist_id: Some(3),
            listed_id: Some(3),
            user: some("root"),
            host: some("localhost"),
            db: some("test"),
            command: Some("Query"),
            time_s: Some(-1),
            state: some("init"),
            info: some("SELECT 1"),
            parent_thread_id: Some(1),
            instrumented: true,
            history: true,
            connection_type: Some("Socket"),
            os_id: Some(1234),
            total_memory: 4096,
            max_total_memory: 8192,
        }
    }
    fn bare() -> Self {
        ThreadRow { thread_id: 1, name: "thread/sql/main", ..ThreadRow::default() }
    }
}

impl Sample for ActiveRow {
    fn full() -> Self {
        let text = |text: &str| Some(text.into());
        ActiveRow {
            time_us: 1_700_000_000_000_000,
            row_us: 1_000_000,
            thread_id: 7,
            processlist_id: Some(3),
            thread_name: "thread/sql/one_connection",
            user: text("root"),
            host: text("localhost"),
            schema: text("test"),
            digest: text("0123456789abcdef0123456789abcdef"),
            event_id: Some(11),
            statement_us: Some(12),
            stage: Some("stage/sql/Updating"),
            state: SessionState::Waiting,
            class: WaitClass::RowLock,
            wait: Some("wait/lock/row/handler"),
            operation: Some("fetch"),
            object: ["TABLE", "test", "t", "PRIMARY"].map(text),
            wait_us: Some(13),
            blocking_thread_id: Some(8),
            blocking_processlist_id: Some(4),
            trx_id: Some(14),
            trx_us: Some(15),
        }
    }
    fn bare() -> Self {
        ActiveRow {
            time_us: 0,
            row_us: 0,
            thread_id: 1,
            processlist_id: None,
            thread_name: "thread/sql/main",
            user: None,
            host: None,
            schema: None,
            digest: None,
            event_id: None,
            statement_us: None,
            stage: None,
            state: SessionState::OnCpu,
            class: WaitClass::Cpu,
            wait: None,
            operation: None,
            object: [const { None }; 4],
            wait_us: None,
            blocking_thread_id: None,
            blocking_processlist_id: None,
            trx_id: None,
            trx_us: None,
        }
    }
}

impl Sample for ConnectionsRow {
    fn full() -> Self {
        let owner = Owner { thread_id: 0, user: some("root"), host: some("localhost") };
        ConnectionsRow { owner, current: 1, total: 2, max_session_memory: 4096 }
    }
    fn bare() -> Self {
        ConnectionsRow::default()
    }
}

impl Sample for AttributeRow {
    fn full() -> Self {
        AttributeRow {
            processlist_id: 3,
            name: "_os".to_owned(),
            value: Some("Linux".to_owned()),
            ordinal: 1,
        }
    }
    fn bare() -> Self {
        AttributeRow { processlist_id: 0, name: "x".repeat(100), value: Some("y".repeat(2000)), ordinal: 0 }
    }
}

impl Sample for SessionStatusRow {
    fn full() -> Self {
        let owner = Owner { thread_id: 7, user: some("ann"), host: some("localhost") };
        SessionStatusRow { owner, name: "Questions".to_owned(), value: "12".to_owned() }
    }
    fn bare() -> Self {
        SessionStatusRow { owner: Owner::default(), name: "x".repeat(100), value: String::new() }
    }
}

impl Sample for SessionVariableRow {
    fn full() -> Self {
        SessionVariableRow { thread_id: 7, name: "x".to_owned(), value: Some(b"17".to_vec()) }
    }
    fn bare() -> Self {
        SessionVariableRow { thread_id: 0, name: "x".repeat(100), value: None }
    }
}

impl Sample for CachedHost {
    fn full() -> Self {
        CachedHost {
            ip: "10.0.0.1".to_owned(),
            host: some("one.example"),
            validated: true,
            errors: std::array::from_fn(|at| at as u64),
            seen_us: [1_600_000_000_000_000, 1_600_000_001_000_000],
            error_seen_us: [1_600_000_002_000_000, 1_600_000_003_000_000],
        }
    }
    fn bare() -> Self {
        CachedHost::default()
    }
}

impl Sample for ReplicaRow {
    fn full() -> Self {
        let error =
            ReplicaError { number: 1062, message: "duplicate".to_owned(), time_us: 1_600_000_000_000_000 };
        let applier = ReplicaThread {
            runs: true,
            seen: "0-1-2".to_owned(),
            error: Some(error),
            ..ReplicaThread::default()
        };
        let replica = Replica { name: "main".to_owned(), domains: vec![1, 2], applier, ..Replica::default() };
        let stage = "stage/sql/Waiting until MASTER_DELAY seconds after master executed event";
        let thread = Some(ApplierRow { thread_id: 9, stage });
        ReplicaRow { replica, applier: thread, receiver: thread }
    }
    fn bare() -> Self {
        ReplicaRow::default()
    }
}

impl Sample for (ReplicaWorker, Option<ApplierRow>) {
    fn full() -> Self {
        let ReplicaRow { replica, applier, .. } = ReplicaRow::full();
        (ReplicaWorker { name: replica.name, idle_s: 3, thread: replica.applier }, applier)
    }
    fn bare() -> Self {
        (ReplicaWorker::default(), None)
    }
}
