//! One `oltp_read_only` transaction of a server, as calls of the engine, over and over: what it costs to
//! record.
//!
//! The mix is what a server was seen to report for it: 16 statements with digests, 328 stages, 150 mutexes,
//! 20 rwlocks, 32 socket operations, 16 idle waits, 14 batches of table I/O with 414 rows, 28 table locks, 22
//! allocations and as many frees, 1 transaction. The order within a statement is a server's, too.
//!
//! `replay [transactions [sums | off | no-consumers | extended | prepared | executed | connections]]` prints
//! nanoseconds per transaction. With `sums` no event is recorded, all are counted and timed; with `off` no
//! instrument is on, with `no-consumers` nothing is that events could go to. With `extended` what only the
//! extended shape shows is counted, too. With `prepared` the statements are executions of prepared ones, with
//! their texts and digests; with `executed` they are, too, and have neither. With `connections` a connection
//! comes, runs one statement and goes instead, at level sampled, where hardly any statement is chosen. Under
//! `valgrind --tool=callgrind` the instructions of [`measured`] divided by the transactions are the exact
//! figure, and under `--tool=lackey` the lines that are written between two stores to [`BEGINNING`] (see
//! `tests/instructions.rs` of `tare-engine`).

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use tare_engine::snapshot::*;
use tare_engine::*;

/// A host that nobody asks anything.
struct MuteHost;

impl Host for MuteHost {
    fn digest(&self, _: &[u8], _: u32) -> Option<tare_engine::DigestHash> {
        None
    }
    fn digest_text(&self, _: &[u8], _: u32, _: bool) -> Option<String> {
        None
    }
    fn command_name(&self, _command: u32) -> Option<&'static str> {
        None
    }
    fn connection_type_name(&self, _connection_type: u8) -> Option<&'static str> {
        None
    }
    fn isolation_name(&self, _isolation: u8) -> Option<&'static str> {
        None
    }
    fn xa_state_name(&self, _state: u8) -> Option<&'static str> {
        None
    }
    fn lock_namespace_name(&self, _namespace: u8) -> Option<&'static str> {
        None
    }
    fn lock_type_name(&self, _namespace: u8, _lock_type: u8) -> Option<&'static str> {
        None
    }
    fn lock_duration_name(&self, _duration: u8) -> Option<&'static str> {
        None
    }
    fn lock_status_name(&self, _status: u8) -> Option<&'static str> {
        None
    }
    fn characters(&self, text: &[u8], _charset: u32, most: usize) -> usize {
        text.len().min(most)
    }
    fn to_utf8(&self, text: &[u8], _charset: u32, _most: usize) -> String {
        String::from_utf8_lossy(text).into_owned()
    }
    fn source_file(&self, _address: usize) -> Option<String> {
        None
    }
    fn stop_reporting_stages(&self) -> bool {
        true
    }
}

static ENGINE: Engine = Engine::new();

const STATEMENTS: usize = 16;
const STAGES: usize = 328;
const MUTEXES: usize = 150;
const RWLOCKS: usize = 20;
/// Rows of the batches of table I/O: ten of a point select, four of ranges of a hundred.
const BATCHES: [u64; 14] = [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 101, 101, 101, 101];
/// What the statements are: begin, ten point selects, four ranges, commit.
const TEXTS: [&str; 6] = [
    "BEGIN",
    "SELECT c FROM sbtest1 WHERE id=5024",
    "SELECT c FROM sbtest1 WHERE id BETWEEN 4984 AND 5083",
    "SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN 5036 AND 5135",
    "SELECT c FROM sbtest1 WHERE id BETWEEN 5031 AND 5130 ORDER BY c",
    "COMMIT",
];

fn here(line: u32) -> Source {
    Source::new(c"/build/sql/sql_parse.cc".as_ptr(), line)
}

/// Makes of a text what a host makes of it for its digest.
fn tokens(text: &str) -> DigestTokens<'_> {
    DigestTokens { bytes: text.as_bytes(), charset: 33, cut: false, hash: |_| [0; 16] }
}

/// What a connection has. Each kind of call is a function of its own, as a host's are: so the profile tells
/// them apart.
struct ReplayConnection {
    stages: Vec<ClassId>,
    mutexes: Vec<SynchRef>,
    rwlocks: Vec<SynchRef>,
    statements: [ClassId; 2],
    /// By text, where statements are executions of them.
    prepared: Vec<PreparedRef>,
    /// Whether these have texts and digests.
    with_digests: bool,
    memory: Vec<ClassId>,
    socket: SocketRef,
    /// A host asks for none while nothing of tables is wanted.
    table: Option<TableRef>,
    /// The class of the threads of further connections.
    clients: ClassId,
}

/// Does what a host's shims do of a lock: nothing without demand for it, what is usual at once, the rest
/// elsewhere.
#[inline(always)]
fn wait_for(kind: Kind, lock: SynchRef, operation: u8, source: Source, taken: impl Fn(SynchRef, ThreadRef)) {
    if !ENGINE.has_demand(kind) {
        return;
    }
    if let Some(untimed) = ENGINE.untimed_synch(lock) {
        // It is free, as nearly all are.
        ENGINE.count_free_synch(untimed, lock, operation, source);
        return taken(lock, untimed.thread());
    }
    let wait = match ENGINE.start_synch_wait_fast(lock, operation, source) {
        Start::Began(wait) => wait,
        Start::Off => return,
        Start::Slow => return wait_slowly(lock, operation, source, &taken),
    };
    // The host keeps it between the two calls.
    let wait = std::hint::black_box(wait);
    taken(lock, wait.thread());
    if !ENGINE.end_synch_wait_fast(&wait) {
        ENGINE.end_synch_wait(&wait);
    }
}

#[cold]
#[inline(never)]
fn wait_slowly(lock: SynchRef, operation: u8, source: Source, taken: &dyn Fn(SynchRef, ThreadRef)) {
    if let Some(wait) = ENGINE.start_synch_wait(lock, operation, source) {
        taken(lock, wait.thread());
        ENGINE.end_synch_wait(&wait);
    }
}

/// Does what a host's shims do of a stage: what is recorded at once, the rest elsewhere.
#[inline(always)]
fn start_stage(class: ClassId) {
    let is_slow = match ENGINE.has_demand(Kind::Stage) {
        true => matches!(ENGINE.start_stage_fast(class, here(800)), Start::Slow),
        // A host's calls lead elsewhere then, instead of asking.
        false if ENGINE.are_stages_unreported() => false,
        false => matches!(ENGINE.pass_stage_fast(class), Start::Slow),
    };
    if is_slow {
        start_unrecorded_stage(class);
    }
}

#[inline(never)]
fn start_unrecorded_stage(class: ClassId) {
    if matches!(ENGINE.start_unrecorded_stage_fast(class), Start::Slow) {
        ENGINE.start_stage(class, here(800));
    }
}

fn register(kind: Kind, name: &str) -> ClassId {
    ENGINE.register(Registration { kind, name, properties: Properties::default() })
}

impl ReplayConnection {
    fn new(mode: &str) -> ReplayConnection {
        let many = |kind, n: usize| -> Vec<ClassId> {
            (0..n).map(|n| register(kind, &format!("{kind:?}/server/{n}"))).collect()
        };
        let locks = |kind, n| -> Vec<SynchRef> {
            let lock = |class| ENGINE.init_synch(class, usize::from(class) * 64).expect("memory");
            many(kind, n).into_iter().map(lock).collect()
        };
        let thread = ENGINE.new_thread(register(Kind::Thread, "thread/sql/one_connection"), Some(1), None);
        ENGINE.set_current_thread(thread);
        let table = TableName { temporary: false, schema: b"sbtest", name: b"sbtest1" };
        let keys = [b"PRIMARY".as_slice(), b"k_1".as_slice()];
        let share = ENGINE.table_share(&table, keys.into_iter()).expect("memory");
        let has_demand_for_tables = ENGINE.has_demand(Kind::TableIo) || ENGINE.has_demand(Kind::TableLock);
        let socket = register(Kind::Socket, "wait/io/socket/sql/client_connection");
        ReplayConnection {
            stages: many(Kind::Stage, 40),
            mutexes: locks(Kind::Mutex, 30),
            rwlocks: locks(Kind::Rwlock, 8),
            statements: [
                register(Kind::Statement, "statement/com/Query"),
                register(Kind::Statement, "statement/sql/select"),
            ],
            prepared: Vec::new(),
            with_digests: mode == "prepared",
            memory: many(Kind::Memory, 6),
            socket: ENGINE.init_socket(socket, Some(5), b"", 0).expect("memory"),
            table: if has_demand_for_tables { ENGINE.open_table(share, 1) } else { None },
            clients: ENGINE.register(Registration {
                kind: Kind::Thread,
                name: "thread/sql/client",
                properties: Properties { user: true, ..Properties::default() },
            }),
        }
    }

    #[inline(never)]
    fn stage(&self, n: usize) {
        let class = self.stages[n % self.stages.len()];
        start_stage(class);
    }

    #[inline(never)]
    fn mutex(&self, n: usize) {
        let mutex = self.mutexes[n % self.mutexes.len()];
        wait_for(Kind::Mutex, mutex, operation::MUTEX, here(100), |lock, thread| {
            ENGINE.set_synch_owner(lock, thread)
        });
        ENGINE.unlock_mutex(mutex);
    }

    #[inline(never)]
    fn rwlock(&self, n: usize) {
        let lock = self.rwlocks[n % self.rwlocks.len()];
        wait_for(Kind::Rwlock, lock, operation::RWLOCK, here(200), |lock, thread| {
            ENGINE.add_synch_reader(lock, thread)
        });
        ENGINE.unlock_rwlock(lock);
    }

    #[inline(never)]
    fn socket(&self, operation: u8, bytes: u64) {
        if !ENGINE.has_demand(Kind::Socket) {
            return;
        }
        if let Some(wait) = ENGINE.start_socket_wait(self.socket, operation, here(300)) {
            ENGINE.end_socket_wait(self.socket, &wait, operation, bytes);
        }
    }

    #[inline(never)]
    fn idle(&self) {
        ENGINE.set_socket_idle(self.socket, true);
        if ENGINE.has_demand(Kind::Idle)
            && let Some(wait) = ENGINE.start_idle_wait(here(400))
        {
            ENGINE.end_idle_wait(&wait);
        }
        ENGINE.set_socket_idle(self.socket, false);
    }

    #[inline(never)]
    fn table(&self, rows: u64) {
        let Some(table) = self.table else { return };
        for kind in [0, 9] {
            if ENGINE.has_demand(Kind::TableLock)
                && let Some(wait) = ENGINE.start_table_lock_wait(table, kind, here(500))
            {
                ENGINE.end_table_lock_wait(table, &wait, kind);
            }
        }
        if ENGINE.has_demand(Kind::TableIo)
            && let Some(wait) = ENGINE.start_table_io_wait(table, 0, 0, here(600))
        {
            ENGINE.end_table_io_wait(table, &wait, 0, 0, rows);
        }
    }

    #[inline(never)]
    fn memory(&self, n: usize) {
        let class = self.memory[n % self.memory.len()];
        if !ENGINE.has_demand(Kind::Memory) {
            return;
        }
        let is_usual = ENGINE.memory_alloc_fast::<false>(class, 1024).is_some();
        let counted = is_usual || ENGINE.memory_alloc::<false>(class, 1024).is_some();
        if counted && !ENGINE.memory_free_fast::<false>(class, 1024) {
            ENGINE.memory_free::<false>(class, 1024);
        }
    }

    fn statement(&self, n: usize) {
        self.idle();
        self.socket(5, 40);
        let which = match n {
            0 => 0,
            1..=10 => 1,
            11..=14 => 2 + (n - 11).min(2),
            _ => 5,
        };
        let prepared = self.prepared.get(which).copied();
        let statement = match prepared {
            Some(prepared) => self.begin_execution(prepared),
            None => self.begin(TEXTS[which]),
        };
        self.work(n);
        self.socket(4, 80);
        ENGINE.end_stage();
        match (statement, prepared) {
            (Some(statement), Some(prepared)) => self.end_execution(statement, prepared),
            (Some(statement), None) => self.end(statement, TEXTS[which]),
            (None, _) => {}
        }
    }

    /// Prepares every text.
    fn prepare(&mut self) {
        let prepare = |(id, text): (usize, &&str)| {
            let statement = self.begin(text).expect("statements are wanted");
            let prepared = ENGINE.create_prepared(id, id as u64, b"", 0, None).expect("memory");
            ENGINE.set_prepared_text(prepared, text.as_bytes());
            ENGINE.set_prepared_digest(prepared, statement, &tokens(text));
            let ended = ENGINE.end_unusual_statement(statement, None);
            ENGINE.count_prepared(prepared, true, ended);
            prepared
        };
        self.prepared = TEXTS.iter().enumerate().map(prepare).collect();
    }

    /// Starts an execution as a host's shims do: through the fast path first.
    #[inline(never)]
    fn begin_execution(&self, prepared: PreparedRef) -> Option<Statement> {
        let statement = ENGINE.open_statement_fast::<false>(self.statements[0], 33);
        let statement = statement.or_else(|| ENGINE.open_unusual_statement(self.statements[0], 33, None))?;
        ENGINE.start_statement(statement, b"sbtest", here(700));
        if !ENGINE.refine_statement(statement, self.statements[1]) {
            return None;
        }
        ENGINE.expect_prepared(prepared);
        if self.with_digests {
            ENGINE.execute_prepared(statement, prepared);
        }
        Some(statement)
    }

    #[inline(never)]
    fn end_execution(&self, statement: Statement, prepared: PreparedRef) {
        ENGINE.set_statement_rows(statement, Counter::RowsSent, 1);
        ENGINE.set_statement_rows(statement, Counter::RowsExamined, 1);
        let count = |ended| {
            if statement.is_execution() {
                ENGINE.count_execution_digest(statement);
            }
            ENGINE.count_prepared(prepared, false, ended);
        };
        if !ENGINE.end_statement_fast::<false>(statement, count) {
            let ended = ENGINE.end_unusual_statement(statement, None);
            ENGINE.count_prepared(prepared, false, ended);
        }
    }

    #[inline(never)]
    fn begin(&self, text: &str) -> Option<Statement> {
        if !ENGINE.has_demand(Kind::Statement) {
            return None;
        }
        let statement = ENGINE.open_statement(self.statements[0], 33, None)?;
        ENGINE.start_statement(statement, b"sbtest", here(700));
        ENGINE.set_statement_text(statement, text.as_bytes());
        ENGINE.refine_statement(statement, self.statements[1]).then_some(statement)
    }

    #[inline(never)]
    fn end(&self, statement: Statement, text: &str) {
        ENGINE.set_statement_rows(statement, Counter::RowsSent, 1);
        ENGINE.set_statement_rows(statement, Counter::RowsExamined, 1);
        ENGINE.end_statement(statement, Some(&tokens(text)));
    }

    /// Records a statement's share of everything else, spread over its stages.
    fn work(&self, n: usize) {
        let share = |of: usize| of * n / STATEMENTS..of * (n + 1) / STATEMENTS;
        let (mut mutexes, mut rwlocks) = (share(MUTEXES), share(RWLOCKS));
        let stages = share(STAGES);
        let middle = stages.start + stages.len() / 2;
        for stage in stages {
            self.stage(stage);
            if stage.is_multiple_of(2) {
                mutexes.next().into_iter().for_each(|n| self.mutex(n));
            }
            if stage == middle && (1..=BATCHES.len()).contains(&n) {
                self.table(BATCHES[n - 1]);
            }
        }
        mutexes.for_each(|n| self.mutex(n));
        rwlocks.by_ref().for_each(|n| self.rwlock(n));
        share(22).for_each(|n| self.memory(n));
    }

    /// Has another connection come, run a statement, and go.
    fn come_and_go(&self) {
        let own = ENGINE.current_thread();
        let thread = ENGINE.new_thread(self.clients, Some(2), None).expect("memory");
        ENGINE.set_current_thread(Some(thread));
        ENGINE.set_thread_account(thread, b"ann", b"localhost");
        ENGINE.decide_actor(thread, b"ann", b"localhost");
        let mutexes =
            |range: std::ops::Range<usize>| range.filter(|_| !ENGINE.skips()).for_each(|n| self.mutex(n));
        mutexes(0..60);
        (0..12).for_each(|n| self.memory(n));
        let statement = self.begin(TEXTS[1]).expect("statements are wanted");
        mutexes(60..90);
        (0..20).filter(|_| !ENGINE.skips_stage()).for_each(|n| self.stage(n));
        self.end(statement, TEXTS[1]);
        mutexes(90..130);
        ENGINE.delete_thread(thread);
        ENGINE.set_current_thread(own);
    }

    fn transaction(&self) {
        let transaction = self.begin_transaction();
        (0..STATEMENTS).for_each(|n| self.statement(n));
        transaction.iter().for_each(|transaction| self.end_transaction(transaction));
    }

    #[inline(never)]
    fn begin_transaction(&self) -> Option<Transaction> {
        let start = TransactionStart { trx_id: 0, isolation: 2, read_only: false, autocommit: false };
        let wanted = ENGINE.has_demand(Kind::Transaction);
        let mut transaction = if wanted { ENGINE.open_transaction(&start) } else { None };
        transaction.iter_mut().for_each(|transaction| ENGINE.start_transaction(transaction, here(900)));
        transaction
    }

    #[inline(never)]
    fn end_transaction(&self, transaction: &Transaction) {
        ENGINE.end_transaction(transaction, true);
    }
}

/// Where it is told that a transaction begins, for whoever sees what is written.
static BEGINNING: AtomicU32 = AtomicU32::new(0);

/// Runs what is measured.
#[inline(never)]
fn measured(connection: &ReplayConnection, transactions: u32, act: fn(&ReplayConnection)) {
    for number in 0..transactions {
        BEGINNING.store(number, Relaxed);
        act(connection);
    }
}

/// Prints what the engine counted per transaction, so that the mix can be seen to be what it says.
fn print_mix(transactions: u64) {
    let mut counts = std::collections::BTreeMap::new();
    let mut add = |name: &str, count: u64| {
        let kind = name.split(['/', '.']).next().unwrap_or(name).to_owned();
        *counts.entry(kind).or_insert(0) += count;
    };
    let go_on = std::ops::ControlFlow::Continue(());
    ENGINE.wait_summary(Grouping::Global, &mut |row| {
        add(row.name, row.stat.count);
        go_on
    });
    ENGINE.stage_summary(Grouping::Global, &mut |row| {
        add(row.name, row.stat.count);
        go_on
    });
    ENGINE.statement_summary(Grouping::Global, &mut |row| {
        add("statement", row.stat.stat.count);
        go_on
    });
    for (kind, count) in counts {
        println!("{kind} {:.1}", count as f64 / transactions as f64);
    }
}

fn main() {
    println!("beginnings are written to {:p}", &BEGINNING);
    let transactions: u32 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(20_000);
    let mut config = Config::default();
    let mode = std::env::args().nth(2);
    match mode.as_deref() {
        None | Some("prepared" | "executed") => {}
        Some("connections") => {
            let level = Recording::Sampled;
            config.instruments = Box::new(move |_| Initial { level, ..Initial::default() });
        }
        Some("off") => {
            config.instruments = Box::new(|_| Initial { enabled: false, ..Initial::default() });
        }
        Some("no-consumers") => config.consumers.clear(),
        Some("extended") => config.extended = true,
        Some(name) => {
            let level = Recording::named(name).unwrap_or_else(|| {
                panic!("`{name}`: a level is asked for, `off`, `no-consumers`, `extended`, `prepared`, `executed` or `connections`")
            });
            config.instruments = Box::new(move |_| Initial { level, ..Initial::default() });
        }
    }
    ENGINE.start(config, &MuteHost).expect("address space");
    let mode = mode.unwrap_or_default();
    let mut connection = ReplayConnection::new(&mode);
    if matches!(mode.as_str(), "prepared" | "executed") {
        connection.prepare();
    }
    let mut act: fn(&ReplayConnection) = ReplayConnection::transaction;
    if mode == "connections" {
        act = ReplayConnection::come_and_go;
        ENGINE.set_sampling(SampleRate::OneIn(1_000_000), std::time::Duration::from_secs(3600));
        ENGINE.adjust_sampling();
    }
    // The first events make cells and rings; the long histories fill up.
    let warm_up = (transactions / 2).clamp(50, 1_000);
    (0..warm_up).for_each(|_| act(&connection));
    let start = std::time::Instant::now();
    measured(&connection, transactions, act);
    let nanoseconds = start.elapsed().as_nanos();
    println!("nanoseconds per transaction: {}", nanoseconds / u128::from(transactions));
    print_mix(u64::from(transactions + warm_up));
    let lost: u64 = ENGINE.lost().iter().map(|row| row.lost).sum();
    assert_eq!(lost, 0, "nothing is lost");
}
