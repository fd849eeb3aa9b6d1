//! A host in miniature: it registers instruments, runs events on threads of its own, and looks rows up.
//!
//! Threads of the engine are not bound to threads of the system: one test thread plays several of them with
//! [`Rig::on`], so that what happens to whom is deterministic.
#![allow(dead_code, unreachable_pub)] // each test binary uses a part of it

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex};

use tare_engine::snapshot::*;
use tare_engine::*;

/// The instruments every rig registers.
#[derive(Clone, Copy)]
pub struct Classes {
    pub mutex: ClassId,
    pub rwlock: ClassId,
    pub cond: ClassId,
    pub file: ClassId,
    pub socket: ClassId,
    pub stage: ClassId,
    pub stage_two: ClassId,
    pub stage_with_progress: ClassId,
    pub statement: ClassId,
    pub statement_two: ClassId,
    pub nested_statement: ClassId,
    pub memory: ClassId,
    pub server_memory: ClassId,
    pub thread: ClassId,
}

pub const MUTEX: &str = "wait/synch/mutex/test/m";
pub const RWLOCK: &str = "wait/synch/rwlock/test/rw";
pub const COND: &str = "wait/synch/cond/test/c";
pub const FILE: &str = "wait/io/file/test/f";
pub const SOCKET: &str = "wait/io/socket/test/s";
pub const STAGE: &str = "stage/test/one";
pub const STAGE_TWO: &str = "stage/test/two";
pub const STAGE_WITH_PROGRESS: &str = "stage/test/progressing";
pub const STATEMENT: &str = "statement/sql/select";
pub const STATEMENT_TWO: &str = "statement/sql/insert";
pub const NESTED: &str = "statement/sp/stmt";
pub const MEMORY: &str = "memory/test/heap";
pub const SERVER_MEMORY: &str = "memory/test/shared";
pub const TABLE_IO: &str = "wait/io/table/sql/handler";
pub const TABLE_LOCK: &str = "wait/lock/table/sql/handler";
pub const IDLE: &str = "idle";
pub const METADATA: &str = "wait/lock/metadata/sql/mdl";
pub const TRANSACTION: &str = "transaction";

/// The source file every event of the rig is in.
pub const SOURCE_FILE: &std::ffi::CStr = c"/build/sql/place.cc";
/// Its line.
pub const SOURCE_LINE: u32 = 42;

/// An instrument's operations in the interface's numbers.
pub mod io {
    pub const FILE_READ: u8 = 6;
    pub const FILE_WRITE: u8 = 7;
    pub const FILE_OPEN: u8 = 2;
    pub const SOCKET_SEND: u8 = 4;
    pub const SOCKET_RECV: u8 = 5;
    pub const SOCKET_OPT: u8 = 11;
}

/// The double's hash of tokens: the last sixteen bytes.
pub fn last_bytes(tokens: &[u8]) -> [u8; 16] {
    *tokens.last_chunk().expect("more than are kept")
}

/// Answers as a server would; a digest's text is its tokens.
#[derive(Default)]
pub struct Double {
    /// What it counts of its sessions, by handle.
    pub sessions: Mutex<HashMap<u64, Vec<u64>>>,
    /// How many times it has emptied its own sums of them.
    pub flush: AtomicU64,
    /// Whether it knows which stages its sessions are in; by handle, the instrument's id.
    pub knows_stages: AtomicBool,
    pub stages: Mutex<HashMap<u64, u32>>,
    /// Whether it tells of no stage.
    pub unreported: AtomicBool,
    /// How many hashes it has made, and how many texts.
    pub hashed: AtomicU64,
    pub spelled: AtomicU64,
}

impl Host for Double {
    fn demand_changed(&self, kind: Kind, demand: Demand) {
        if kind == Kind::Stage && demand != Demand::Nothing {
            self.unreported.store(false, Relaxed);
        }
    }
    fn stop_reporting_stages(&self) -> bool {
        let knows = self.knows_stages.load(Relaxed);
        self.unreported.store(knows, Relaxed);
        knows
    }
    fn session_stage(&self, session: StagedSession) -> Option<u32> {
        let at = match session {
            StagedSession::Named(session) => session.handle,
            StagedSession::At(place) => place,
        };
        self.stages.lock().expect("no panic").get(&at).copied()
    }
    fn digest(&self, tokens: &[u8], charset: u32) -> Option<[u8; 16]> {
        self.hashed.fetch_add(1, Relaxed);
        Some((u128::from(charset) << 96 | tokens.len() as u128).to_be_bytes())
    }
    fn digest_text(&self, tokens: &[u8], _: u32, cut: bool) -> Option<String> {
        self.spelled.fetch_add(1, Relaxed);
        Some(String::from_utf8_lossy(tokens).into_owned() + if cut { "..." } else { "" })
    }
    fn command_name(&self, command: u32) -> Option<&'static str> {
        ["Sleep", "Quit", "Init DB", "Query"].get(command as usize).copied()
    }
    fn connection_type_name(&self, connection_type: u8) -> Option<&'static str> {
        ["TCP/IP", "Socket"].get(connection_type as usize).copied()
    }
    fn isolation_name(&self, isolation: u8) -> Option<&'static str> {
        ["READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"]
            .get(isolation as usize)
            .copied()
    }
    fn xa_state_name(&self, state: u8) -> Option<&'static str> {
        ["NOTR", "ACTIVE", "IDLE", "PREPARED", "COMMITTED", "ROLLBACK ONLY"].get(state as usize).copied()
    }
    fn lock_namespace_name(&self, namespace: u8) -> Option<&'static str> {
        ["GLOBAL", "TABLESPACE", "SCHEMA", "TABLE"].get(namespace as usize).copied()
    }
    fn lock_type_name(&self, _namespace: u8, lock_type: u8) -> Option<&'static str> {
        ["INTENTION_EXCLUSIVE", "SHARED"].get(lock_type as usize).copied()
    }
    fn lock_duration_name(&self, duration: u8) -> Option<&'static str> {
        ["STATEMENT", "TRANSACTION"].get(duration as usize).copied()
    }
    fn lock_status_name(&self, status: u8) -> Option<&'static str> {
        ["PENDING", "GRANTED"].get(status as usize).copied()
    }
    fn characters(&self, text: &[u8], _charset: u32, most: usize) -> usize {
        text.len().min(most)
    }
    fn to_utf8(&self, text: &[u8], _charset: u32, _most: usize) -> String {
        String::from_utf8_lossy(text).into_owned()
    }
    fn source_file(&self, address: usize) -> Option<String> {
        (address == SOURCE_FILE.as_ptr().addr()).then(|| SOURCE_FILE.to_str().expect("ASCII").to_owned())
    }
    fn session_counters(&self) -> &[SessionCounter] {
        static NAMES: LazyLock<[SessionCounter; 2]> = LazyLock::new(|| {
            ["Questions", "Rows_sent"]
                .map(|name| SessionCounter { name: name.to_owned(), form: CounterForm::Count })
        });
        &*NAMES
    }
    fn read_session_counters(&self, session: Session, into: &mut SessionCounters) -> bool {
        let sessions = self.sessions.lock().expect("no panic");
        let counters = sessions.get(&session.handle);
        counters.inspect(|counters| into[..counters.len()].copy_from_slice(counters)).is_some()
    }
    fn flushes(&self) -> u64 {
        self.flush.load(Relaxed)
    }
}

/// An engine of its own, with instruments.
#[derive(Clone, Copy)]
pub struct Rig {
    pub engine: &'static Engine,
    pub host: &'static Double,
    pub class: Classes,
}

impl std::ops::Deref for Rig {
    type Target = Engine;
    fn deref(&self) -> &Engine {
        self.engine
    }
}

/// Where every event of the rig happens.
pub fn here() -> Source {
    Source::new(SOURCE_FILE.as_ptr(), SOURCE_LINE)
}

/// Sizes that a test reaches quickly.
pub fn small() -> Config {
    Config { memory_max: 16 << 20, history_size: [10; 4], history_long_size: [100; 4], ..Config::default() }
}

impl Rig {
    pub fn new() -> Rig {
        Rig::with(small())
    }

    /// The engine lives for ever, as a server's does.
    pub fn with(config: Config) -> Rig {
        let engine: &'static Engine = Box::leak(Box::new(Engine::new()));
        let host: &'static Double = Box::leak(Box::default());
        engine.start(config, host).expect("address space");
        let register = |kind, name| {
            let progress = name == STAGE_WITH_PROGRESS;
            let global = name == SERVER_MEMORY;
            let properties = Properties { progress, global, ..Properties::default() };
            engine.register(Registration { kind, name, properties })
        };
        let class = Classes {
            mutex: register(Kind::Mutex, MUTEX),
            rwlock: register(Kind::Rwlock, RWLOCK),
            cond: register(Kind::Cond, COND),
            file: register(Kind::File, FILE),
            socket: register(Kind::Socket, SOCKET),
            stage: register(Kind::Stage, STAGE),
            stage_two: register(Kind::Stage, STAGE_TWO),
            stage_with_progress: register(Kind::Stage, STAGE_WITH_PROGRESS),
            statement: register(Kind::Statement, STATEMENT),
            statement_two: register(Kind::Statement, STATEMENT_TWO),
            nested_statement: register(Kind::Statement, NESTED),
            memory: register(Kind::Memory, MEMORY),
            server_memory: register(Kind::Memory, SERVER_MEMORY),
            thread: register(Kind::Thread, "thread/test/one_connection"),
        };
        Rig { engine, host, class }
    }

    /// Every digest, whole.
    pub fn digests(&self) -> Vec<DigestRow> {
        self.digests_of(Parts::ALL)
    }

    /// Every digest, with these parts.
    pub fn digests_of(&self, parts: Parts) -> Vec<DigestRow> {
        let mut rows = Vec::new();
        self.engine.digests(parts, &mut |row| {
            rows.push(row.clone());
            ControlFlow::Continue(())
        });
        rows
    }

    /// A new thread of the engine, not yet the calling thread's.
    pub fn thread(&self) -> ThreadRef {
        self.new_thread(self.class.thread, Some(77), None).expect("memory for a thread")
    }

    /// A new thread that the calling thread is from now on.
    pub fn connect(&self) -> ThreadRef {
        let thread = self.thread();
        self.set_current_thread(Some(thread));
        thread
    }

    /// Runs `f` as `thread`.
    pub fn on<T>(&self, thread: ThreadRef, f: impl FnOnce() -> T) -> T {
        let before = self.current_thread();
        self.set_current_thread(Some(thread));
        let value = f();
        self.set_current_thread(before);
        value
    }
}

impl Default for Rig {
    fn default() -> Rig {
        Rig::new()
    }
}

/// Events, whole.
impl Rig {
    /// A wait without an instance; `false` where nothing was recorded.
    pub fn wait(&self, class: ClassId) -> bool {
        self.wait_around(class, || ()).is_some()
    }

    /// A wait around other events.
    pub fn wait_around<T>(&self, class: ClassId, f: impl FnOnce() -> T) -> Option<T> {
        let wait = self.start_wait(class, WaitObject::new(0x1234, operation::MUTEX), here());
        let value = f();
        self.end_wait(&wait?, 1, None);
        Some(value)
    }

    pub fn lock(&self, mutex: SynchRef) {
        let wait = self.start_synch_wait(mutex, operation::MUTEX, here());
        if let Some(wait) = &wait {
            self.set_synch_owner(mutex, wait.thread());
            self.end_synch_wait(wait);
        }
    }

    pub fn stage(&self, class: ClassId) -> Option<Progress> {
        self.start_stage(class, here())
    }

    /// A statement around other events.
    pub fn statement<T>(&self, class: ClassId, sql: &str, f: impl FnOnce(Statement) -> T) -> Option<T> {
        let statement = self.begin(class, sql)?;
        let value = f(statement);
        self.finish(statement, sql);
        Some(value)
    }

    /// A statement whose digest's tokens are its text with every digit replaced.
    pub fn query(&self, sql: &str) {
        self.statement(self.class.statement, sql, |_| ());
    }

    pub fn begin(&self, class: ClassId, sql: &str) -> Option<Statement> {
        let statement = self.open_statement(class, 33, None)?;
        self.start_statement(statement, b"db", here());
        self.set_statement_text(statement, sql.as_bytes());
        Some(statement)
    }

    pub fn finish(&self, statement: Statement, sql: &str) {
        let mut bytes = [0; 1024];
        let tokens = tokens_of(sql, &mut bytes);
        let tokens = DigestTokens { bytes: tokens, charset: 33, cut: false, hash: last_bytes };
        self.end_statement(statement, Some(&tokens));
    }

    /// A transaction around other events.
    pub fn transaction<T>(&self, read_only: bool, f: impl FnOnce(&Transaction) -> T) -> Option<T> {
        let mut transaction = self.open_transaction(&transaction_start(read_only))?;
        self.start_transaction(&mut transaction, here());
        let value = f(&transaction);
        self.end_transaction(&transaction, true);
        Some(value)
    }

    /// An operation on a file.
    pub fn file_io(&self, file: FileRef, operation: u8, bytes: u64) {
        if let Some(mut wait) = self.start_file_wait(self.class.file, Some(file), operation) {
            self.restart_wait(&mut wait, here(), bytes);
            self.end_file_wait(&wait, Some(file), operation, bytes);
        }
    }

    pub fn socket_io(&self, socket: SocketRef, operation: u8, bytes: u64) {
        if let Some(wait) = self.start_socket_wait(socket, operation, here()) {
            self.end_socket_wait(socket, &wait, operation, bytes);
        }
    }

    /// Memory of the shape's.
    pub fn memory_alloc(&self, class: ClassId, bytes: u64) -> Option<Option<ThreadRef>> {
        match self.is_extended() {
            false => self.engine.memory_alloc::<false>(class, bytes),
            true => self.engine.memory_alloc::<true>(class, bytes),
        }
    }

    pub fn memory_free(&self, class: ClassId, bytes: u64) {
        match self.is_extended() {
            false => self.engine.memory_free::<false>(class, bytes),
            true => self.engine.memory_free::<true>(class, bytes),
        }
    }

    pub fn memory_realloc(&self, class: ClassId, old: u64, new: u64) -> Option<Option<ThreadRef>> {
        match self.is_extended() {
            false => self.engine.memory_realloc::<false>(class, old, new),
            true => self.engine.memory_realloc::<true>(class, old, new),
        }
    }

    pub fn table_io(&self, table: TableRef, operation: u8, index: usize, rows: u64) {
        if let Some(wait) = self.start_table_io_wait(table, operation, index, here()) {
            self.end_table_io_wait(table, &wait, operation, index, rows);
        }
    }

    pub fn table_lock(&self, table: TableRef, kind: u8) {
        if let Some(wait) = self.start_table_lock_wait(table, kind, here()) {
            self.end_table_lock_wait(table, &wait, kind);
        }
    }

    pub fn share(&self, schema: &str, name: &str, keys: &[&str]) -> TableShareRef {
        let table = TableName { temporary: false, schema: schema.as_bytes(), name: name.as_bytes() };
        self.table_share(&table, keys.iter().map(|key| key.as_bytes())).expect("memory for a table")
    }
}

/// The digest tokens of a statement of the rig: its text, digits replaced, without allocating.
pub fn tokens_of<'a>(sql: &str, bytes: &'a mut [u8; 1024]) -> &'a [u8] {
    let len = sql.len().min(bytes.len());
    for (to, from) in bytes.iter_mut().zip(sql.as_bytes()) {
        *to = if from.is_ascii_digit() { b'?' } else { *from };
    }
    &bytes[..len]
}

/// A transaction without XA.
pub fn transaction_start(read_only: bool) -> TransactionStart {
    TransactionStart { trx_id: 0, isolation: 2, read_only, autocommit: true }
}

/// Rows of a summary.
macro_rules! summaries {
    ($($method:ident, $reader:ident, $stat:ty;)*) => {
        $(
            pub fn $method(&self, level: Grouping) -> Vec<Summary<$stat>> {
                let mut rows = Vec::new();
                self.engine.$reader(level, &mut |row| {
                    rows.push(row);
                    ControlFlow::Continue(())
                });
                rows
            }
        )*
    };
}

/// Rows, looked up.
impl Rig {
    summaries! {
        wait_rows, wait_summary, Stat;
        stage_rows, stage_summary, Stat;
        statement_rows, statement_summary, StatementStat;
        transaction_rows, transaction_summary, TransactionStat;
        memory_rows, memory_summary, MemoryStat;
        error_rows, error_summary, ErrorStat;
    }

    pub fn global_wait(&self, name: &str) -> Stat {
        find(self.wait_rows(Grouping::Global), None, name)
    }
    pub fn thread_wait(&self, thread: ThreadRef, name: &str) -> Stat {
        find(self.wait_rows(Grouping::Thread), Some(thread), name)
    }
    pub fn global_stage(&self, name: &str) -> Stat {
        find(self.stage_rows(Grouping::Global), None, name)
    }
    pub fn thread_stage(&self, thread: ThreadRef, name: &str) -> Stat {
        find(self.stage_rows(Grouping::Thread), Some(thread), name)
    }
    pub fn global_statement(&self, name: &str) -> StatementStat {
        find(self.statement_rows(Grouping::Global), None, name)
    }
    pub fn thread_statement(&self, thread: ThreadRef, name: &str) -> StatementStat {
        find(self.statement_rows(Grouping::Thread), Some(thread), name)
    }
    pub fn global_transaction(&self) -> TransactionStat {
        find(self.transaction_rows(Grouping::Global), None, TRANSACTION)
    }
    pub fn thread_transaction(&self, thread: ThreadRef) -> TransactionStat {
        find(self.transaction_rows(Grouping::Thread), Some(thread), TRANSACTION)
    }
    pub fn global_memory(&self, name: &str) -> MemoryStat {
        find(self.memory_rows(Grouping::Global), None, name)
    }
    pub fn thread_memory(&self, thread: ThreadRef, name: &str) -> MemoryStat {
        find(self.memory_rows(Grouping::Thread), Some(thread), name)
    }

    pub fn losses_of(&self, name: &str) -> u64 {
        let rows = self.lost();
        rows.iter().find(|row| row.name == name).expect("a known loss").lost
    }

    /// Everything lost, for whatever reason.
    pub fn losses(&self) -> u64 {
        self.lost().iter().map(|row| row.lost).sum()
    }

    /// Event ids of a thread's rows, in the order in which they come.
    pub fn wait_ids(&self, thread: ThreadRef, scope: Scope) -> Vec<u64> {
        ids(thread, self.waits(scope).iter().map(|row| &row.head))
    }
    pub fn stage_ids(&self, thread: ThreadRef, scope: Scope) -> Vec<u64> {
        ids(thread, self.stages(scope).iter().map(|row| &row.head))
    }
    pub fn statement_ids(&self, thread: ThreadRef, scope: Scope) -> Vec<u64> {
        ids(thread, self.statements(scope).iter().map(|row| &row.head))
    }
    pub fn transaction_ids(&self, thread: ThreadRef, scope: Scope) -> Vec<u64> {
        ids(thread, self.transactions(scope).iter().map(|row| &row.head))
    }
}

fn ids<'a>(thread: ThreadRef, heads: impl Iterator<Item = &'a EventHead>) -> Vec<u64> {
    heads.filter(|head| head.thread_id == thread.thread_id()).map(|head| head.event_id).collect()
}

fn find<S>(rows: Vec<Summary<S>>, thread: Option<ThreadRef>, name: &str) -> S {
    let owner = thread.map_or(0, |thread| thread.thread_id());
    let mut found = rows.into_iter().filter(|row| row.name == name && row.owner.thread_id == owner);
    let row = found.next().unwrap_or_else(|| panic!("no row of {name} for thread {owner}"));
    assert!(found.next().is_none(), "two rows of {name} for thread {owner}");
    row.stat
}
