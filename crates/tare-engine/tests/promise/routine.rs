//! Everything a host may call while it works, over and over, without help of its own: no allocation, no call.

use tare_engine::snapshot::*;
use tare_engine::*;

use tare_rig::*;

/// What exists before the hot calls begin.
pub(crate) struct EventRoutine {
    pub(crate) rig: Rig,
    pub(crate) thread: ThreadRef,
    mutex: SynchRef,
    rwlock: SynchRef,
    file: FileRef,
    socket: SocketRef,
    tables: [TableRef; 2],
    program: ProgramRef,
    prepared: PreparedRef,
}

const ERRORS: &[KnownError] = &[KnownError { number: 1062, name: "ER_DUP_ENTRY", sqlstate: "23000" }];

/// Texts of many statements, made beforehand: each a digest of its own.
const QUERIES: usize = 700;

impl EventRoutine {
    pub(crate) fn new() -> EventRoutine {
        EventRoutine::of_shape(false)
    }

    /// In both shapes.
    pub(crate) fn both() -> [EventRoutine; 2] {
        [false, true].map(EventRoutine::of_shape)
    }

    fn of_shape(extended: bool) -> EventRoutine {
        let rig = Rig::with(Config {
            extended,
            // Fewer digests than queries: some are evicted.
            digests_size: 500,
            history_size: [5; 4],
            history_long_size: [200; 4],
            errors: ERRORS,
            ..small()
        });
        let thread = rig.connect();
        let share = rig.share("db", "t", &["PRIMARY", "second"]);
        let table = || rig.open_table(share, 1).expect("memory");
        EventRoutine {
            rig,
            thread,
            mutex: rig.init_synch(rig.class.mutex, 1).expect("memory"),
            rwlock: rig.init_synch(rig.class.rwlock, 2).expect("memory"),
            file: rig.find_file(rig.class.file, b"/data/t.ibd", true).expect("memory"),
            socket: rig.init_socket(rig.class.socket, Some(3), b"::1", 3306).expect("memory"),
            tables: [table(), table()],
            program: rig.program(objects::PROCEDURE, b"db", b"p").expect("memory"),
            prepared: rig.create_prepared(1, 1, b"stmt", 1, None).expect("memory"),
        }
    }

    /// One command of a connection, every kind of event in it; `n` chooses its digest.
    pub(crate) fn command(&self, n: usize) {
        let rig = self.rig;
        self.idle();
        let mut sql = [b'a'; 8 + QUERIES];
        sql[..7].copy_from_slice(b"select ");
        let sql = &sql[..8 + n % QUERIES];
        let Some(statement) = rig.open_statement(rig.class.statement, 33, None) else { return };
        rig.start_statement(statement, b"db", here());
        rig.set_statement_text(statement, sql);
        self.stages(n);
        self.transaction(n);
        self.memory(n);
        rig.add_statement_counter(statement, Counter::RowsSent, 3);
        rig.set_statement_counter(statement, Counter::RowsExamined, 9);
        if !rig.refine_statement(statement, rig.class.statement_two) {
            return;
        }
        let tokens = DigestTokens { bytes: sql, charset: 33, cut: false, hash: last_bytes };
        let outcome = Outcome { message: b"done", sqlstate: Some(*b"00000"), ..Outcome::default() };
        rig.set_statement_outcome(statement, &outcome);
        let ended = rig.end_statement(statement, Some(&tokens));
        rig.count_prepared(self.prepared, false, ended);
        // An error that is known, handled, and one that is not.
        rig.error_raised(1062);
        rig.handler_sought();
        rig.handler_found(1062);
        rig.error_handled();
        rig.error_raised(7);
        rig.end_stage();
        rig.set_thread_command(self.thread, 0);
        rig.set_thread_info(self.thread, None);
    }

    fn idle(&self) {
        let rig = self.rig;
        rig.set_socket_idle(self.socket, true);
        let idle = rig.start_idle_wait(here());
        idle.iter().for_each(|idle| rig.end_idle_wait(idle));
        rig.set_socket_idle(self.socket, false);
        rig.socket_io(self.socket, io::SOCKET_RECV, 17);
        rig.set_thread_command(self.thread, 3);
        rig.set_thread_info(self.thread, Some(b"select"));
        rig.set_thread_db(self.thread, b"db");
        rig.set_thread_start_time(self.thread, 1);
    }

    fn stages(&self, n: usize) {
        let rig = self.rig;
        rig.stage(rig.class.stage);
        self.synch();
        rig.stage(rig.class.stage_two);
        self.io(n);
        if let Some(progress) = rig.stage(rig.class.stage_with_progress) {
            progress[0].store(1, std::sync::atomic::Ordering::Relaxed);
        }
        rig.stage(rig.class.stage);
        self.nested_statement();
    }

    fn synch(&self) {
        let rig = self.rig;
        rig.lock(self.mutex);
        rig.unlock_mutex(self.mutex);
        for exclusive in [false, true] {
            let operation = operation::RWLOCK + u8::from(exclusive);
            if let Some(wait) = rig.start_synch_wait(self.rwlock, operation, here()) {
                match exclusive {
                    true => rig.set_synch_owner(self.rwlock, wait.thread()),
                    false => rig.add_synch_reader(self.rwlock, wait.thread()),
                }
                rig.end_synch_wait(&wait);
            }
            rig.unlock_rwlock(self.rwlock);
        }
        let object = WaitObject::new(1, operation::METADATA);
        if let Some(wait) = rig.start_wait(fixed::METADATA, object, here()) {
            // A wait that lasts while the ring goes on: its record moves.
            (0..60).for_each(|_| rig.lock(self.mutex));
            rig.end_wait(&wait, 1, None);
        }
        rig.wait(rig.class.cond);
    }

    fn io(&self, n: usize) {
        let rig = self.rig;
        for operation in [io::FILE_READ, io::FILE_WRITE, io::FILE_OPEN] {
            rig.file_io(self.file, operation, 4096);
        }
        // Opening by name, of a file that is known, and of one that comes and goes.
        if let Some(file) = rig.find_file(rig.class.file, b"/data/t.ibd", true) {
            rig.bind_file(5, Some(file));
            rig.file_of(5).iter().for_each(|file| rig.file_io(file, io::FILE_READ, 1));
            rig.bind_file(5, None);
            rig.release_file(file);
        }
        if let Some(file) = rig.find_file(rig.class.file, b"/tmp/one", true) {
            rig.rename_file(b"/tmp/one", b"/tmp/other");
            rig.destroy_file(file);
        }
        for table in self.tables {
            rig.table_lock(table, 0);
            rig.table_io(table, 0, n % 2, 20);
            rig.table_io(table, 1, MAX_INDEXES, 1);
            rig.table_lock(table, 9);
        }
        rig.socket_io(self.socket, io::SOCKET_SEND, 100);
        self.metadata();
    }

    fn metadata(&self) {
        let rig = self.rig;
        let name = MetadataName {
            namespace: 3,
            names: b"db.t",
            schema_len: 2,
            lock_type: 1,
            duration: 1,
            status: 0,
        };
        if let Some(lock) = rig.create_metadata_lock(7, || Some(name), here()) {
            if let Some(wait) = rig.start_metadata_wait(lock, here()) {
                rig.end_wait(&wait, 1, None);
            }
            rig.set_metadata_lock_status(lock, 1);
            rig.destroy_metadata_lock(lock);
        }
    }

    fn nested_statement(&self) {
        let rig = self.rig;
        let Some(start) = rig.start_program(self.program) else { return };
        if let Some(inner) = rig.open_statement(rig.class.nested_statement, 33, Some(self.program)) {
            rig.start_statement(inner, b"db", here());
            let ended = rig.end_statement(inner, None);
            rig.count_program_statement(self.program, ended);
        }
        rig.end_program(self.program, start);
    }

    fn transaction(&self, n: usize) {
        let rig = self.rig;
        rig.transaction(n.is_multiple_of(2), |transaction| {
            rig.set_transaction_trx_id(transaction, n as u64 + 1);
            rig.set_transaction_gtid(transaction, 0, 1, n as u64);
            let xid = Xid { format_id: 1, gtrid: b"global", bqual: b"branch" };
            rig.set_transaction_xid(transaction, &xid, 1);
            rig.set_transaction_xa_state(transaction, 2);
            rig.add_savepoints(transaction, Savepoint::Set, 1);
            rig.lock(self.mutex);
        });
    }

    fn memory(&self, n: usize) {
        let rig = self.rig;
        for class in [rig.class.memory, rig.class.server_memory] {
            let owner = rig.memory_alloc(class, 64).flatten();
            rig.memory_claim::<false>(class, 64, owner);
            rig.memory_realloc(class, 64, 128 + n as u64 % 7);
            rig.memory_free(class, 128 + n as u64 % 7);
        }
    }

    /// TRUNCATE of every summary: the next event of each kind begins a new epoch. A reader's call, not hot.
    pub(crate) fn truncate(&self, level: Grouping) {
        for of in [EventType::Wait, EventType::Stage, EventType::Statement, EventType::Transaction] {
            self.rig.reset(Reset::Summary(of, level));
        }
        for reset in [
            Reset::Memory(level),
            Reset::Errors(level),
            Reset::Digests,
            Reset::Files,
            Reset::Sockets,
            Reset::TableIo,
            Reset::TableLock,
        ] {
            self.rig.reset(reset);
        }
    }
}

/// Commands that see every digest twice.
pub(crate) const COMMANDS: usize = 2 * QUERIES;
