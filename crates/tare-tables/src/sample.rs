//! Sample rows made by hand, and what must hold for every table's getters on them.

use std::collections::BTreeMap;

use tare_engine::Spelling;
use tare_engine::histogram::{Bucket, Histogram};
use tare_engine::objects::{self, ObjectRule};
use tare_engine::snapshot::*;
use tare_engine::{ActorRule, Engine};
use tare_engine::{
    ApplierRow, CachedHost, Recording, Replica, ReplicaError, ReplicaRow, ReplicaThread, ReplicaWorker,
    SessionVariableRow,
};

use crate::budget::{Between, DecisionRow, PriceRow};
use crate::definition::TableDef;
use crate::handle::{InstanceRow, NamedIo};
use crate::histogram::{OfDigest, OfInstrument};
use crate::log::{LogRow, Priority};
use crate::object::{ObjectRow, TableIoRow, TableLockRow};
use crate::session::SessionStatusRow;
use crate::setup::ConsumerState;
use crate::status::StatusRow;
use crate::table::{Column, SqlType, Table, Value};

/// An engine in which nothing has happened.
pub(crate) fn engine() -> Engine {
    Engine::new()
}

/// Rows of a kind: one with everything there can be, one with nothing that need not be.
trait Sample: Sized + 'static {
    fn full() -> Self;
    fn bare() -> Self;
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn head(full: bool) -> EventHead {
    EventHead {
        thread_id: 7,
        event_id: 11,
        end_event_id: full.then_some(13),
        name: "stage/sql/init",
        source: full.then(|| "sql_parse.cc:1".to_owned()),
        timer: Timer {
            start_ps: full.then_some(100),
            end_ps: full.then_some(300),
            wait_ps: full.then_some(200),
        },
        nesting: full.then_some((5, EventType::Statement)),
    }
}

fn object(full: bool) -> ObjectName {
    if !full {
        return ObjectName::default();
    }
    ObjectName { object_type: Some("TABLE"), schema: some("test"), name: some("t"), index: some("PRIMARY") }
}

/// Distinct numbers in the order of the columns, so that a getter of a neighbour shows.
pub(crate) const COUNTERS: StatementCounters = StatementCounters {
    lock_time_ps: 1,
    errors: 2,
    warnings: 3,
    rows_affected: 4,
    rows_sent: 5,
    rows_examined: 6,
    created_tmp_disk_tables: 7,
    created_tmp_tables: 8,
    select_full_join: 9,
    select_full_range_join: 10,
    select_range: 11,
    select_range_check: 12,
    select_scan: 13,
    sort_merge_passes: 14,
    sort_range: 15,
    sort_rows: 16,
    sort_scan: 17,
    no_index_used: 18,
    no_good_index_used: 19,
    cpu_time_ps: 20,
    max_total_memory: 21,
};

/// COUNT `count`, times of 10, 20 and 30 where there are three.
const fn stat(count: u64) -> Stat {
    Stat { count, sum_ps: count * 20, min_ps: 10, max_ps: 30 }
}

const IO: IoStat = IoStat {
    read: ByteStat { stat: stat(1), bytes: 100 },
    write: ByteStat { stat: stat(2), bytes: 200 },
    misc: ByteStat { stat: stat(4), bytes: 0 },
};

const TABLE_IO: TableIoStat =
    TableIoStat { fetch: stat(1), insert: stat(2), update: stat(4), delete: stat(8) };

fn digest() -> DigestText {
    DigestText { digest: "0123456789abcdef0123456789abcdef".to_owned(), text: "SELECT ?".to_owned() }
}

impl Sample for WaitRow {
    fn full() -> Self {
        WaitRow {
            head: head(true),
            object: object(true),
            object_instance_begin: 0x7f00,
            operation: "fetch",
            number_of_bytes: Some(3),
            flags: Some(1),
        }
    }
    fn bare() -> Self {
        WaitRow {
            head: head(false),
            object: object(false),
            number_of_bytes: None,
            flags: None,
            ..Self::full()
        }
    }
}

impl Sample for StageRow {
    fn full() -> Self {
        StageRow { head: head(true), progress: Some((1, 2)) }
    }
    fn bare() -> Self {
        StageRow { head: head(false), progress: None }
    }
}

impl Sample for StatementRow {
    fn full() -> Self {
        StatementRow {
            head: head(true),
            sql_text: some("SELECT 1"),
            sql_text_cut: false,
            digest: Some(digest().into()),
            current_schema: some("test"),
            object: object(true),
            mysql_errno: 1146,
            returned_sqlstate: some("42S02"),
            message_text: some("no such table"),
            counters: COUNTERS,
            nesting_level: 1,
            statement_id: 99,
        }
    }
    fn bare() -> Self {
        StatementRow {
            head: head(false),
            sql_text: None,
            sql_text_cut: false,
            digest: None,
            current_schema: None,
            object: object(false),
            mysql_errno: 0,
            returned_sqlstate: None,
            message_text: None,
            counters: StatementCounters::default(),
            nesting_level: 0,
            statement_id: 0,
        }
    }
}

impl Sample for TransactionRow {
    fn full() -> Self {
        TransactionRow {
            head: head(true),
            state: TransactionState::RolledBack,
            trx_id: Some(42),
            gtid: some("0-0-0"),
            xid_format_id: Some(1),
            xid_gtrid: some("g"),
            xid_bqual: some("b"),
            xa_state: Some("ACTIVE"),
            read_only: true,
            isolation_level: Some("REPEATABLE READ"),
            autocommit: true,
            savepoints: 1,
            rollback_to_savepoint: 2,
            release_savepoint: 3,
        }
    }
    fn bare() -> Self {
        TransactionRow {
            head: head(false),
            state: TransactionState::Active,
            trx_id: None,
            gtid: None,
            xid_format_id: None,
            xid_gtrid: None,
            xid_bqual: None,
            xa_state: None,
            read_only: false,
            isolation_level: None,
            autocommit: false,
            ..Self::full()
        }
    }
}

impl<S: Sample> Sample for Summary<S> {
    fn full() -> Self {
        let owner = Owner { thread_id: 7, user: some("root"), host: some("localhost") };
        Summary { owner, name: "idle", stat: S::full() }
    }
    fn bare() -> Self {
        Summary { owner: Owner::default(), name: "idle", stat: S::bare() }
    }
}

macro_rules! statistics {
    ($($stat:ty: $full:expr;)*) => {
        $(impl Sample for $stat {
            fn full() -> Self {
                $full
            }
            fn bare() -> Self {
                Self::default()
            }
        })*
    };
}

statistics! {
    Stat: stat(3);
    StatementStat: StatementStat { stat: stat(3), sum: COUNTERS };
    TransactionStat: TransactionStat { read_write: stat(2), read_only: stat(1) };
    MemoryStat: MemoryStat {
        count_alloc: 9, count_free: 4, bytes_alloc: 900, bytes_free: 400,
        low_count: -1, current_count: 5, high_count: 6,
        low_bytes: -100, current_bytes: 500, high_bytes: 600,
    };
    ErrorStat: ErrorStat {
        error: Some(KnownError { number: 1062, name: "ER_DUP_ENTRY", sqlstate: "23000" }),
        raised: 5, handled: 2, seen_us: Some((1_700_000_000_000_000, 1_700_000_001_000_000)),
    };
}

impl Sample for LogRow {
    fn full() -> Self {
        LogRow {
            logged_us: 1_700_000_000_000_000,
            thread_id: Some(7),
            prio: Priority::Warning,
            error_code: "MY-001062".to_owned(),
            subsystem: "InnoDB",
            data: "InnoDB: text".to_owned(),
        }
    }
    fn bare() -> Self {
        LogRow { thread_id: None, data: String::new(), ..Self::full() }
    }
}

impl Sample for DigestRow {
    fn full() -> Self {
        DigestRow {
            schema: some("test"),
            digest: Some(Spelling::known(&digest().digest, &digest().text)),
            stat: StatementStat::full(),
            first_seen_us: 1_700_000_000_000_000,
            last_seen_us: 1_700_000_001_000_000,
            histogram: Histogram::new([(0, 95), (2, 4), (449, 1)]),
            sample: Some(StatementSample {
                text: some("SELECT 1"),
                seen_us: 1_700_000_000_500_000,
                wait_ps: 30,
            }),
        }
    }
    fn bare() -> Self {
        DigestRow {
            schema: None,
            digest: None,
            histogram: Histogram::default(),
            sample: None,
            ..Self::full()
        }
    }
}

impl Sample for Bucket {
    fn full() -> Self {
        DigestRow::full().histogram.filled().last().expect("it holds something")
    }
    fn bare() -> Self {
        DigestRow::bare().histogram.all().next().expect("a bucket")
    }
}

impl Sample for OfDigest {
    fn full() -> Self {
        OfDigest { schema: Some("test".into()), digest: Some("0123".into()), bucket: Bucket::full() }
    }
    fn bare() -> Self {
        OfDigest { schema: None, digest: None, bucket: Bucket::bare() }
    }
}

impl Sample for OfInstrument {
    fn full() -> Self {
        OfInstrument { name: "wait/io/file/sql/FRM", bucket: Bucket::full() }
    }
    fn bare() -> Self {
        OfInstrument { name: "idle", bucket: Bucket::bare() }
    }
}

impl Sample for NamedIo {
    fn full() -> Self {
        ("wait/io/file/sql/FRM", IO)
    }
    fn bare() -> Self {
        ("wait/io/file/sql/FRM", IoStat::default())
    }
}

impl Sample for FileRow {
    fn full() -> Self {
        FileRow {
            file_name: "./test/t.frm".to_owned(),
            event_name: "wait/io/file/sql/FRM",
            object_instance_begin: 0x7f00,
            open_count: 1,
            io: IO,
        }
    }
    fn bare() -> Self {
        FileRow { open_count: 0, io: IoStat::default(), ..Self::full() }
    }
}

impl Sample for SocketRow {
    fn full() -> Self {
        SocketRow {
            event_name: "wait/io/socket/sql/client_connection",
            object_instance_begin: 0x7f00,
            thread_id: Some(7),
            socket_id: 33,
            ip: "127.0.0.1".to_owned(),
            port: 65535,
            idle: true,
            io: IO,
        }
    }
    fn bare() -> Self {
        SocketRow { thread_id: None, ip: String::new(), port: 0, idle: false, ..Self::full() }
    }
}

/// A table with an index of its own and access without one; every lock kind counted differently.
pub(crate) fn table() -> TableRow {
    let mut locks = TableLockStat::default();
    for (kind, lock) in locks.0.iter_mut().enumerate() {
        *lock = stat(1 << kind);
    }
    let index = |name: Option<&str>| IndexRow { name: name.map(str::to_owned), io: TABLE_IO };
    TableRow {
        enabled: true,
        object_type: "TABLE",
        schema: "test".to_owned(),
        name: "t".to_owned(),
        indexes: vec![index(Some("PRIMARY")), index(None)],
        locks,
    }
}

macro_rules! object_rows {
    ($($row:ty: $full:expr, $bare:expr;)*) => {
        $(impl Sample for $row {
            fn full() -> Self {
                $full(&table())
            }
            fn bare() -> Self {
                $bare(&TableRow { indexes: vec![], locks: TableLockStat::default(), ..table() })
            }
        })*
    };
}

object_rows! {
    TableIoRow: first_index, TableIoRow::whole;
    TableLockRow: TableLockRow::of, TableLockRow::of;
    ObjectRow: ObjectRow::of, ObjectRow::of;
}

fn first_index(table: &TableRow) -> TableIoRow {
    TableIoRow::shown_indexes(table).next().expect("the sample has an index")
}

impl Sample for SyncRow {
    fn full() -> Self {
        SyncRow {
            kind: Kind::Rwlock,
            name: "wait/synch/rwlock/sql/LOCK_grant",
            object_instance_begin: 0x7f00,
            locked_by_thread_id: Some(7),
            read_locked_by_count: 2,
            waits: Stat::full(),
        }
    }
    fn bare() -> Self {
        SyncRow { locked_by_thread_id: None, read_locked_by_count: 0, ..Self::full() }
    }
}

impl Sample for Instrument {
    fn full() -> Self {
        Instrument {
            id: 1,
            kind: Kind::Memory,
            name: "memory/sql/THD::main_mem_root",
            enabled: true,
            timed: true,
            level: Recording::Lean,
            held: true,
            properties: Properties { global: true, user: true, ..Properties::default() },
        }
    }
    fn bare() -> Self {
        Instrument {
            enabled: false,
            timed: false,
            held: false,
            properties: Properties::default(),
            ..Self::full()
        }
    }
}

impl Sample for PriceRow {
    fn full() -> Self {
        PriceRow {
            name: "wait/synch/mutex/sql/LOCK_open".to_owned(),
            kind: Some("mutex"),
            level: Some("lean"),
            events: 7,
            nanoseconds: Between { value: 9.0, low: 4.5, high: 18.0 },
            share: Between { value: 0.01, low: 0.005, high: 0.02 },
        }
    }
    fn bare() -> Self {
        PriceRow { name: "(reading the counts)".to_owned(), kind: None, level: None, ..Self::full() }
    }
}

impl Sample for DecisionRow {
    fn full() -> Self {
        DecisionRow {
            id: 3,
            time_us: 1_700_000_000_000_000,
            name: some("wait/synch/mutex/sql/LOCK_open"),
            from: Some("lean"),
            to: Some("off"),
            why: "over budget".to_owned(),
            share: 0.02,
            budget: 0.01,
        }
    }
    fn bare() -> Self {
        DecisionRow { name: None, from: None, to: None, ..Self::full() }
    }
}

impl Sample for ThreadInstrument {
    fn full() -> Self {
        let properties = Properties { global: true, ..Properties::default() };
        ThreadInstrument { id: 1, name: "thread/sql/main", enabled: true, history: true, properties }
    }
    fn bare() -> Self {
        ThreadInstrument { enabled: false, history: false, properties: Properties::default(), ..Self::full() }
    }
}

impl Sample for ConsumerState {
    fn full() -> Self {
        (Consumer::StatementsDigest, true)
    }
    fn bare() -> Self {
        (Consumer::EventsStagesCurrent, false)
    }
}

impl Sample for ActorRule {
    fn full() -> Self {
        let text = str::to_owned;
        ActorRule { host: text("h"), user: text("ann"), role: text("%"), enabled: true, history: true }
    }
    fn bare() -> Self {
        ActorRule { user: String::new(), enabled: false, history: false, ..Self::full() }
    }
}

impl Sample for ObjectRule {
    fn full() -> Self {
        let (schema, name) = ("test".to_owned(), "%".to_owned());
        ObjectRule { object_type: objects::TABLE, schema, name, enabled: true, timed: true }
    }
    fn bare() -> Self {
        ObjectRule { schema: String::new(), enabled: false, timed: false, ..Self::full() }
    }
}

impl Sample for MetadataLockRow {
    fn full() -> Self {
        MetadataLockRow {
            object: object(true),
            object_instance_begin: 0x7f00,
            lock_type: "SHARED_READ",
            duration: "TRANSACTION",
            status: "GRANTED",
            source: some("sql_base.cc:1"),
            owner_thread_id: 7,
            owner_event_id: 11,
        }
    }
    fn bare() -> Self {
        let object = ObjectName { object_type: Some("BACKUP"), ..object(false) };
        MetadataLockRow { object, source: None, ..Self::full() }
    }
}

impl Sample for TableHandleRow {
    fn full() -> Self {
        TableHandleRow {
            object_type: "TABLE",
            schema: "test".to_owned(),
            name: "t".to_owned(),
            object_instance_begin: 0x7f00,
            owner_thread_id: 7,
            owner_event_id: 11,
            internal_lock: Some("WRITE"),
            external_lock: Some("WRITE EXTERNAL"),
        }
    }
    fn bare() -> Self {
        TableHandleRow {
            owner_thread_id: 0,
            owner_event_id: 0,
            internal_lock: None,
            external_lock: None,
            ..Self::full()
        }
    }
}

impl Sample for ProgramRow {
    fn full() -> Self {
        ProgramRow {
            object_type: "PROCEDURE",
            schema: "test".to_owned(),
            name: "p".to_owned(),
            calls: stat(2),
            statements: StatementStat::full(),
        }
    }
    fn bare() -> Self {
        let (calls, statements) = Default::default();
        ProgramRow { object_type: "PACKAGE BODY", calls, statements, ..Self::full() }
    }
}

impl Sample for PreparedRow {
    fn full() -> Self {
        PreparedRow {
            object_instance_begin: 0x7f00,
            statement_id: 3,
            name: some("p"),
            sql_text: "SELECT ?".to_owned(),
            owner_thread_id: 7,
            owner_event_id: 11,
            owner: object(true),
            prepare: stat(1),
            reprepare: stat(1),
            execute: StatementStat::full(),
        }
    }
    fn bare() -> Self {
        PreparedRow { name: None, owner: object(false), owner_event_id: 0, ..Self::full() }
    }
}

impl Sample for ThreadRow {
    fn full() -> Self {
        ThreadRow {
            thread_id: 7,
            name: "thread/sql/one_connection",
            foreground: true,
            processlist_id: Some(3),
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

impl Sample for TimerRow {
    fn full() -> Self {
        TimerRow {
            name: "CYCLE",
            frequency: Some(2_000_000_000),
            resolution: Some(1),
            overhead: Some(u64::MAX),
        }
    }
    fn bare() -> Self {
        TimerRow { name: "TICK", frequency: None, resolution: None, overhead: None }
    }
}

impl Sample for TimerSetting {
    fn full() -> Self {
        TimerSetting { name: "idle", timer: "TICK" }
    }
    fn bare() -> Self {
        Self::full()
    }
}

impl Sample for InstanceRow {
    fn full() -> Self {
        InstanceRow::of_file(&FileRow::full())
    }
    fn bare() -> Self {
        InstanceRow::of_socket(&SocketRow::bare())
    }
}

impl Sample for StatusRow {
    fn full() -> Self {
        ("version".into(), "0".to_owned())
    }
    fn bare() -> Self {
        ("x".repeat(100).into(), "y".repeat(2000))
    }
}

/// Columns that hold NULL in every row, in the reference too.
fn always_null(table: &str, column: &str) -> bool {
    match column {
        "SPINS" => true,
        "DOCUMENTATION" => table.starts_with("setup_"),
        "RESOURCE_GROUP" => table == "threads",
        "COLUMN_NAME" => table == "metadata_locks",
        "ROLE" => table == "threads",
        "OBJECT_INSTANCE_BEGIN" => {
            table.starts_with("events_statements") || table.starts_with("events_transactions")
        }
        _ => false,
    }
}

/// Whether a value may stand in a column.
fn fits(column: &Column, value: &Value) -> bool {
    match (column.sql_type, value) {
        (_, Value::Null) => column.nullable,
        (SqlType::BigIntUnsigned, Value::Unsigned(_)) | (SqlType::BigInt, Value::Signed(_)) => true,
        // Declared wider in the extended shape.
        (SqlType::BigIntUnsigned, Value::Signed(figure)) => *figure >= 0,
        (SqlType::IntUnsigned, Value::Unsigned(figure)) => u32::try_from(*figure).is_ok(),
        (SqlType::Int, Value::Signed(figure)) => i32::try_from(*figure).is_ok(),
        (SqlType::Double(..), Value::Double(_)) => true,
        (SqlType::DoubleUnsigned(..), Value::Double(figure)) => *figure >= 0.0,
        (SqlType::Char(limit) | SqlType::VarChar(limit), Value::Text(text)) => {
            text.chars().count() <= limit.into()
        }
        (SqlType::Text | SqlType::MediumText | SqlType::LongText, Value::Text(_))
        | (SqlType::LongBlob, Value::Bytes(_)) => true,
        (SqlType::Enum(members), Value::Text(text)) => members.contains(&text.as_ref()),
        (SqlType::Set(members), Value::Text(text)) => {
            text.is_empty() || text.split(',').all(|member| members.contains(&member))
        }
        (SqlType::Timestamp | SqlType::TimestampMicros, Value::Timestamp(_)) => true,
        _ => false,
    }
}

/// Runs every getter of a table in both shapes on the sample rows; gives the table's name.
fn checked<R: Sample>(def: &TableDef<R>) -> &'static str {
    read(def);
    read(&def.mysqls());
    def.name()
}

fn read<R: Sample>(def: &TableDef<R>) {
    for (row, full) in [(R::full(), true), (R::bare(), false)] {
        let values = def.read(&row);
        assert_eq!(values.len(), def.columns().len(), "{}", def.name());
        for (column, value) in def.columns().iter().zip(&values) {
            let at = format!("{}.{} = {value:?}", def.name(), column.name);
            assert!(fits(column, value), "{at}");
            if full && column.doc != crate::mysql::ABSENT {
                assert_eq!(*value == Value::Null, always_null(def.name(), column.name), "{at}");
            }
        }
    }
}

/// The values of a row by column name.
fn by_name<R>(def: &TableDef<R>, row: &R) -> BTreeMap<&'static str, Value<'static>> {
    def.columns().iter().map(|column| column.name).zip(def.read(row)).collect()
}

macro_rules! checked {
    ($($table:path),* $(,)?) => {
        vec![$(checked(&$table)),*]
    };
}

fn checked_levels() -> Vec<&'static str> {
    use crate::summary::{memory, stage, statement, transaction, wait};
    checked![
        wait::GLOBAL,
        wait::THREAD,
        wait::ACCOUNT,
        wait::USER_NAME,
        wait::HOST_NAME,
        stage::GLOBAL,
        stage::THREAD,
        stage::ACCOUNT,
        stage::USER_NAME,
        stage::HOST_NAME,
        statement::GLOBAL,
        statement::THREAD,
        statement::ACCOUNT,
        statement::USER_NAME,
        statement::HOST_NAME,
        transaction::GLOBAL,
        transaction::THREAD,
        transaction::ACCOUNT,
        transaction::USER_NAME,
        transaction::HOST_NAME,
        memory::GLOBAL,
        memory::THREAD,
        memory::ACCOUNT,
        memory::USER_NAME,
        memory::HOST_NAME,
    ]
}

#[test]
fn every_getter_of_every_table_gives_a_value_of_its_columns_type() {
    use crate::{
        account, budget, digest, error, event, handle, histogram, host_cache, level, log, object, program,
        replication, session, setup, status, sync, thread, timer,
    };
    let mut names = checked_levels();
    names.extend(checked![
        status::STATUS,
        setup::INSTRUMENTS,
        level::LEVELS,
        budget::PRICES,
        budget::DECISIONS,
        setup::CONSUMERS,
        setup::ACTORS,
        setup::OBJECTS,
        setup::THREADS,
        error::GLOBAL,
        error::THREAD,
        error::ACCOUNT,
        error::USER_NAME,
        error::HOST_NAME,
        log::ERROR_LOG,
        thread::THREADS,
        thread::PROCESSLIST,
        account::ACCOUNTS,
        account::USERS,
        account::HOSTS,
        account::CONNECT_ATTRIBUTES,
        timer::PERFORMANCE_TIMERS,
        timer::SETUP_TIMERS,
        event::wait::CURRENT,
        event::wait::HISTORY,
        event::wait::HISTORY_LONG,
        event::stage::CURRENT,
        event::stage::HISTORY,
        event::stage::HISTORY_LONG,
        event::statement::CURRENT,
        event::statement::HISTORY,
        event::statement::HISTORY_LONG,
        event::transaction::CURRENT,
        event::transaction::HISTORY,
        event::transaction::HISTORY_LONG,
        digest::BY_DIGEST,
        histogram::STATEMENTS,
        histogram::BY_DIGEST,
        histogram::STATEMENTS_BY_EVENT_NAME,
        histogram::STAGES_BY_EVENT_NAME,
        histogram::WAITS_BY_EVENT_NAME,
        histogram::TRANSACTIONS_BY_EVENT_NAME,
        program::BY_PROGRAM,
        program::PREPARED,
        handle::FILE_INSTANCES,
        handle::FILE_BY_EVENT_NAME,
        handle::FILE_BY_INSTANCE,
        handle::SOCKET_INSTANCES,
        handle::SOCKET_BY_EVENT_NAME,
        handle::SOCKET_BY_INSTANCE,
        handle::WAITS_BY_INSTANCE,
        object::IO_BY_TABLE,
        object::IO_BY_INDEX,
        object::LOCK_BY_TABLE,
        object::OBJECTS,
        object::HANDLES,
        sync::METADATA_LOCKS,
        sync::MUTEX_INSTANCES,
        sync::RWLOCK_INSTANCES,
        sync::COND_INSTANCES,
        session::STATUS_BY_THREAD,
        session::STATUS_BY_ACCOUNT,
        session::STATUS_BY_USER,
        session::STATUS_BY_HOST,
        session::USER_VARIABLES_BY_THREAD,
        host_cache::HOST_CACHE,
        replication::CONNECTION_CONFIGURATION,
        replication::CONNECTION_STATUS,
        replication::APPLIER_CONFIGURATION,
        replication::APPLIER_STATUS,
        replication::APPLIER_STATUS_BY_COORDINATOR,
        replication::APPLIER_STATUS_BY_WORKER,
    ]);
    // No value of their row type exists, so there is nothing their getters could be run on.
    names.extend(crate::mysql::absent::TABLES.iter().map(|table| table.name()));
    for table in crate::Shape::Extended.served() {
        assert!(names.contains(&table.name()), "{} has no sample rows", table.name());
    }
}

#[test]
fn statement_counters_stand_in_their_own_columns() {
    let numbers = |values: Vec<Value<'static>>, skip| -> Vec<Value<'static>> {
        values.into_iter().skip(skip).take(18).collect()
    };
    let wanted: Vec<Value> = (2..=19).map(Value::Unsigned).collect();
    let statement = crate::event::statement::CURRENT.read(&StatementRow::full());
    let digest = crate::digest::BY_DIGEST.read(&DigestRow::full());
    let summary = crate::summary::statement::GLOBAL.read(&Summary::full());
    assert_eq!(numbers(statement, 20), wanted, "after MESSAGE_TEXT");
    assert_eq!(numbers(digest, 9), wanted, "after SUM_LOCK_TIME");
    assert_eq!(numbers(summary, 7), wanted, "after SUM_LOCK_TIME");
}

#[test]
fn quantiles_stand_in_their_own_columns() {
    let row = by_name(&crate::digest::BY_DIGEST.mysqls(), &DigestRow::full());
    let quantiles = ["QUANTILE_95", "QUANTILE_99", "QUANTILE_999"].map(|name| row[name].clone());
    assert_eq!(quantiles, [10_000_000, 10_964_781, u64::MAX].map(Value::Unsigned));
}

#[test]
fn file_and_socket_columns_add_up() {
    let file = by_name(&crate::handle::FILE_BY_INSTANCE, &FileRow::full());
    let socket = by_name(&crate::handle::SOCKET_BY_INSTANCE, &SocketRow::full());
    for (row, read, write) in
        [(file, Value::Signed(100), Value::Signed(200)), (socket, Value::Unsigned(100), Value::Unsigned(200))]
    {
        let counts = ["COUNT_READ", "COUNT_WRITE", "COUNT_MISC", "COUNT_STAR"].map(|name| row[name].clone());
        assert_eq!(counts, [1, 2, 4, 7].map(Value::Unsigned));
        assert_eq!(row["SUM_TIMER_WAIT"], Value::Unsigned(140));
        assert_eq!(
            (&row["MIN_TIMER_WAIT"], &row["AVG_TIMER_WAIT"]),
            (&Value::Unsigned(10), &Value::Unsigned(20))
        );
        assert_eq!(row["MAX_TIMER_WAIT"], Value::Unsigned(30));
        assert_eq!((&row["SUM_NUMBER_OF_BYTES_READ"], &row["SUM_NUMBER_OF_BYTES_WRITE"]), (&read, &write));
    }
}

#[test]
fn table_columns_add_up() {
    let count =
        |row: &BTreeMap<&str, Value<'static>>, name: &str| row[format!("COUNT_{name}").as_str()].clone();
    let whole = by_name(&crate::object::IO_BY_TABLE, &TableIoRow::whole(&table()));
    let counts = ["STAR", "READ", "WRITE", "FETCH", "INSERT", "UPDATE", "DELETE"].map(|it| count(&whole, it));
    assert_eq!(counts, [30, 2, 28, 2, 4, 8, 16].map(Value::Unsigned), "two indexes");

    let locks = by_name(&crate::object::LOCK_BY_TABLE, &TableLockRow::of(&table()));
    assert_eq!(count(&locks, "STAR"), Value::Unsigned(0b111_1111_1111));
    assert_eq!(count(&locks, "READ"), Value::Unsigned(0b1_1111));
    assert_eq!(count(&locks, "WRITE"), Value::Unsigned(0b111_1110_0000));
    let kinds =
        crate::object::LOCK_BY_TABLE.columns()[18..].iter().step_by(5).map(|it| locks[it.name].clone());
    assert!(kinds.eq((0..11).map(|kind| Value::Unsigned(1 << kind))), "each kind in its own column");

    let object = by_name(&crate::object::OBJECTS, &ObjectRow::of(&table()));
    assert_eq!(object["COUNT_STAR"], Value::Unsigned(30 + 0b111_1111_1111));
}

#[test]
fn transactions_add_up() {
    let row = by_name(&crate::summary::transaction::GLOBAL, &Summary::full());
    assert_eq!(row["COUNT_STAR"], Value::Unsigned(3));
    assert_eq!(row["COUNT_READ_WRITE"], Value::Unsigned(2));
    assert_eq!(row["COUNT_READ_ONLY"], Value::Unsigned(1));
    assert_eq!(row["SUM_TIMER_WAIT"], Value::Unsigned(60));
}

#[test]
fn every_index_the_engine_has_appears_used_or_not() {
    let mut table = table();
    for index in &mut table.indexes {
        index.io = TableIoStat::default();
    }
    let names: Vec<Value> = TableIoRow::shown_indexes(&table)
        .map(|row| by_name(&crate::object::IO_BY_INDEX, &row)["INDEX_NAME"].clone())
        .collect();
    assert_eq!(names, ["PRIMARY".into(), Value::Null]);
}
