//! A host in miniature: it registers instruments, runs events on threads of its own, and looks rows up.
//!
//! Threads of the engine are not bound to threads of the system: one test thread plays several of them with
//! [`Rig::on`], so that what happens to whom is deterministic.
//! [`callgrind`] counts what a program costs.

pub mod callgrind;
mod double;
mod rows;

use std::ops::ControlFlow;

use tare_engine::snapshot::*;
use tare_engine::*;

pub use double::{Double, last_bytes};

/// The instruments that every rig registers.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // their names say it
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

/// Name of the instrument `wait/synch/mutex/test/m`.
pub const MUTEX: &str = "wait/synch/mutex/test/m";
/// Name of the instrument `wait/synch/rwlock/test/rw`.
pub const RWLOCK: &str = "wait/synch/rwlock/test/rw";
/// Name of the instrument `wait/synch/cond/test/c`.
pub const COND: &str = "wait/synch/cond/test/c";
/// Name of the instrument `wait/io/file/test/f`.
pub const FILE: &str = "wait/io/file/test/f";
/// Name of the instrument `wait/io/socket/test/s`.
pub const SOCKET: &str = "wait/io/socket/test/s";
/// Name of the instrument `stage/test/one`.
pub const STAGE: &str = "stage/test/one";
/// Name of the instrument `stage/test/two`.
pub const STAGE_TWO: &str = "stage/test/two";
/// Name of the instrument `stage/test/progressing`.
pub const STAGE_WITH_PROGRESS: &str = "stage/test/progressing";
/// Name of the instrument `statement/sql/select`.
pub const STATEMENT: &str = "statement/sql/select";
/// Name of the instrument `statement/sql/insert`.
pub const STATEMENT_TWO: &str = "statement/sql/insert";
/// Name of the instrument `statement/sp/stmt`.
pub const NESTED: &str = "statement/sp/stmt";
/// Name of the instrument `memory/test/heap`.
pub const MEMORY: &str = "memory/test/heap";
/// Name of the instrument `memory/test/shared`.
pub const SERVER_MEMORY: &str = "memory/test/shared";
/// Name of the instrument `wait/io/table/sql/handler`.
pub const TABLE_IO: &str = "wait/io/table/sql/handler";
/// Name of the instrument `wait/lock/table/sql/handler`.
pub const TABLE_LOCK: &str = "wait/lock/table/sql/handler";
/// Name of the instrument `idle`.
pub const IDLE: &str = "idle";
/// Name of the instrument `wait/lock/metadata/sql/mdl`.
pub const METADATA: &str = "wait/lock/metadata/sql/mdl";
/// Name of the instrument `transaction`.
pub const TRANSACTION: &str = "transaction";

/// The source file every event of the rig is in.
pub const SOURCE_FILE: &std::ffi::CStr = c"/build/sql/place.cc";
/// The line that every event of the rig is in.
pub const SOURCE_LINE: u32 = 42;

/// Operations of files and sockets in the interface's numbers.
#[allow(missing_docs)] // their names say it
pub mod io {
    pub const FILE_READ: u8 = 6;
    pub const FILE_WRITE: u8 = 7;
    pub const FILE_OPEN: u8 = 2;
    pub const SOCKET_SEND: u8 = 4;
    pub const SOCKET_RECV: u8 = 5;
    pub const SOCKET_OPT: u8 = 11;
}

/// An engine with a host and with instruments.
#[derive(Clone, Copy)]
pub struct Rig {
    /// The engine.
    pub engine: &'static Engine,
    /// Its host.
    pub host: &'static Double,
    /// Its instruments.
    pub class: Classes,
}

impl std::ops::Deref for Rig {
    type Target = Engine;
    fn deref(&self) -> &Engine {
        self.engine
    }
}

/// Returns the place in the source where every event of a rig happens.
pub fn here() -> Source {
    Source::new(SOURCE_FILE.as_ptr(), SOURCE_LINE)
}

/// Returns sizes that a test reaches quickly.
pub fn small() -> Config {
    Config { memory_max: 16 << 20, history_size: [10; 4], history_long_size: [100; 4], ..Config::default() }
}

impl Rig {
    /// Starts an engine with [`small`] sizes.
    pub fn new() -> Rig {
        Rig::with(small())
    }

    /// Starts an engine that is never dropped, like that of a server.
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

    /// Returns every digest, whole.
    pub fn digests(&self) -> Vec<DigestRow> {
        self.digests_of(Parts::ALL)
    }

    /// Returns every digest, with these parts.
    pub fn digests_of(&self, parts: Parts) -> Vec<DigestRow> {
        let mut rows = Vec::new();
        self.engine.digests(parts, &mut |row| {
            rows.push(row.clone());
            ControlFlow::Continue(())
        });
        rows
    }

    /// Creates a thread of the engine, which no thread of the system is yet.
    pub fn thread(&self) -> ThreadRef {
        self.new_thread(self.class.thread, Some(77), None).expect("memory for a thread")
    }

    /// Creates a thread of the engine, which the calling thread is from now on.
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

/// Events, reported whole.
impl Rig {
    /// Reports a wait without an instance; returns `false` if nothing was recorded.
    pub fn wait(&self, class: ClassId) -> bool {
        self.wait_around(class, || ()).is_some()
    }

    /// Reports a wait around other events.
    pub fn wait_around<T>(&self, class: ClassId, f: impl FnOnce() -> T) -> Option<T> {
        let wait = self.start_wait(class, WaitObject::new(0x1234, operation::MUTEX), here());
        let value = f();
        self.end_wait(&wait?, 1, None);
        Some(value)
    }

    /// Reports that a mutex is taken.
    pub fn lock(&self, mutex: SynchRef) {
        let wait = self.start_synch_wait(mutex, operation::MUTEX, here());
        if let Some(wait) = &wait {
            self.set_synch_owner(mutex, wait.thread());
            self.end_synch_wait(wait);
        }
    }

    /// Starts a stage.
    pub fn stage(&self, class: ClassId) -> Option<Progress> {
        self.start_stage(class, here())
    }

    /// Reports a statement around other events.
    pub fn statement<T>(&self, class: ClassId, sql: &str, f: impl FnOnce(Statement) -> T) -> Option<T> {
        let statement = self.begin(class, sql)?;
        let value = f(statement);
        self.finish(statement, sql);
        Some(value)
    }

    /// Reports a statement. The tokens of its digest are its text with every digit replaced.
    pub fn query(&self, sql: &str) {
        self.statement(self.class.statement, sql, |_| ());
    }

    /// Starts a statement.
    pub fn begin(&self, class: ClassId, sql: &str) -> Option<Statement> {
        let statement = self.open_statement(class, 33, None)?;
        self.start_statement(statement, b"db", here());
        self.set_statement_text(statement, sql.as_bytes());
        Some(statement)
    }

    /// Ends a statement, with its digest.
    pub fn finish(&self, statement: Statement, sql: &str) {
        let mut bytes = [0; 1024];
        let tokens = tokens_of(sql, &mut bytes);
        let tokens = DigestTokens { bytes: tokens, charset: 33, cut: false, hash: last_bytes };
        self.end_statement(statement, Some(&tokens));
    }

    /// Reports a transaction around other events.
    pub fn transaction<T>(&self, read_only: bool, f: impl FnOnce(&Transaction) -> T) -> Option<T> {
        let mut transaction = self.open_transaction(&transaction_start(read_only))?;
        self.start_transaction(&mut transaction, here());
        let value = f(&transaction);
        self.end_transaction(&transaction, true);
        Some(value)
    }

    /// Reports an operation on a file.
    pub fn file_io(&self, file: FileRef, operation: u8, bytes: u64) {
        if let Some(mut wait) = self.start_file_wait(self.class.file, Some(file), operation) {
            self.restart_wait(&mut wait, here(), bytes);
            self.end_file_wait(&wait, Some(file), operation, bytes);
        }
    }

    /// Reports an operation on a socket.
    pub fn socket_io(&self, socket: SocketRef, operation: u8, bytes: u64) {
        if let Some(wait) = self.start_socket_wait(socket, operation, here()) {
            self.end_socket_wait(socket, &wait, operation, bytes);
        }
    }

    /// Reports an allocation, in the engine's shape.
    pub fn memory_alloc(&self, class: ClassId, bytes: u64) -> Option<Option<ThreadRef>> {
        match self.is_extended() {
            false => self.engine.memory_alloc::<false>(class, bytes),
            true => self.engine.memory_alloc::<true>(class, bytes),
        }
    }

    /// Reports that memory is freed, in the engine's shape.
    pub fn memory_free(&self, class: ClassId, bytes: u64) {
        match self.is_extended() {
            false => self.engine.memory_free::<false>(class, bytes),
            true => self.engine.memory_free::<true>(class, bytes),
        }
    }

    /// Reports a reallocation, in the engine's shape.
    pub fn memory_realloc(&self, class: ClassId, old: u64, new: u64) -> Option<Option<ThreadRef>> {
        match self.is_extended() {
            false => self.engine.memory_realloc::<false>(class, old, new),
            true => self.engine.memory_realloc::<true>(class, old, new),
        }
    }

    /// Reports an operation on a table.
    pub fn table_io(&self, table: TableRef, operation: u8, index: usize, rows: u64) {
        if let Some(wait) = self.start_table_io_wait(table, operation, index, here()) {
            self.end_table_io_wait(table, &wait, operation, index, rows);
        }
    }

    /// Reports that a table is locked.
    pub fn table_lock(&self, table: TableRef, kind: u8) {
        if let Some(wait) = self.start_table_lock_wait(table, kind, here()) {
            self.end_table_lock_wait(table, &wait, kind);
        }
    }

    /// Reports a table's definition, with its keys.
    pub fn share(&self, schema: &str, name: &str, keys: &[&str]) -> TableShareRef {
        let table = TableName { temporary: false, schema: schema.as_bytes(), name: name.as_bytes() };
        self.table_share(&table, keys.iter().map(|key| key.as_bytes())).expect("memory for a table")
    }
}

/// Returns the tokens of a statement's digest, its text with digits replaced, without allocating.
pub fn tokens_of<'a>(sql: &str, bytes: &'a mut [u8; 1024]) -> &'a [u8] {
    let len = sql.len().min(bytes.len());
    for (to, from) in bytes.iter_mut().zip(sql.as_bytes()) {
        *to = if from.is_ascii_digit() { b'?' } else { *from };
    }
    &bytes[..len]
}

/// Returns the start of a transaction without XA.
pub fn transaction_start(read_only: bool) -> TransactionStart {
    TransactionStart { trx_id: 0, isolation: 2, read_only, autocommit: true }
}
