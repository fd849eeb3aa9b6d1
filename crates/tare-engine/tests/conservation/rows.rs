//! Events that say themselves what their rows must look like, and the check that they do.

use tare_engine::operation;
use tare_engine::snapshot::*;
use tare_engine::*;

use tare_rig::*;

/// A small generator of random numbers (xorshift64*), the same for a seed on every machine.
pub(crate) struct RowRandom(u64);

impl RowRandom {
    pub(crate) fn new(seed: u64) -> RowRandom {
        RowRandom(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound
    }
}

/// What a writer has issued.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct Issued {
    pub mutexes: u64,
    pub rwlocks: u64,
    pub files: u64,
    pub sockets: u64,
    pub rows: u64,
    pub stages: u64,
    pub statements: u64,
    pub transactions: u64,
    pub allocations: u64,
    pub frees: u64,
}

impl Issued {
    pub(crate) fn add(&mut self, other: Issued) {
        self.mutexes += other.mutexes;
        self.rwlocks += other.rwlocks;
        self.files += other.files;
        self.sockets += other.sockets;
        self.rows += other.rows;
        self.stages += other.stages;
        self.statements += other.statements;
        self.transactions += other.transactions;
        self.allocations += other.allocations;
        self.frees += other.frees;
    }

    /// The same figures as the global summaries have them.
    pub(crate) fn counted(rig: Rig) -> Issued {
        Issued::at(rig, Grouping::Global)
    }

    /// The same figures as all rows of a level have them together.
    pub(crate) fn at(rig: Rig, level: Grouping) -> Issued {
        let waits = rig.wait_rows(level);
        let wait = |name| sum(&waits, name, |stat| stat.count);
        let memory = rig.memory_rows(level);
        Issued {
            mutexes: wait(MUTEX),
            rwlocks: wait(RWLOCK),
            files: wait(FILE),
            sockets: wait(SOCKET),
            rows: wait(TABLE_IO),
            stages: sum(&rig.stage_rows(level), STAGE, |stat| stat.count),
            statements: sum(&rig.statement_rows(level), STATEMENT, |stat| stat.stat.count),
            transactions: sum(&rig.transaction_rows(level), TRANSACTION, |stat| {
                stat.read_only.count + stat.read_write.count
            }),
            allocations: sum(&memory, MEMORY, |stat| stat.count_alloc),
            frees: sum(&memory, MEMORY, |stat| stat.count_free),
        }
    }
}

fn sum<S>(rows: &[Summary<S>], name: &str, count: impl Fn(&S) -> u64) -> u64 {
    rows.iter().filter(|row| row.name == name).map(|row| count(&row.stat)).sum()
}

/// Levels at which everything is found again that happened after its thread had got its account.
pub(crate) const ABOVE_THREADS: [Grouping; 4] =
    [Grouping::Account, Grouping::User, Grouping::Host, Grouping::Global];

/// User and host of a thread: not many, so that threads share them.
fn names(thread_id: u64) -> [String; 2] {
    [format!("user{}", thread_id % 7), format!("host{}", thread_id % 5)]
}

/// The things all writers share, and those that each has.
pub(crate) struct RowThings {
    pub mutex: SynchRef,
    pub rwlock: SynchRef,
    pub files: [FileRef; 3],
    pub share: TableShareRef,
}

pub(crate) const FILES: [&str; 3] = ["/f/one", "/f/three", "/f/thirteen"];
const MUTEX_AT: usize = 0x1000;
const RWLOCK_AT: usize = 0x2000;

impl RowThings {
    pub(crate) fn new(rig: Rig) -> RowThings {
        RowThings {
            mutex: rig.init_synch(rig.class.mutex, MUTEX_AT).expect("memory"),
            rwlock: rig.init_synch(rig.class.rwlock, RWLOCK_AT).expect("memory"),
            files: FILES.map(|name| rig.find_file(rig.class.file, name.as_bytes(), true).expect("memory")),
            share: rig.share("db", "t", &["PRIMARY", "second"]),
        }
    }
}

/// What the calling thread has opened.
pub(crate) struct OwnRows {
    pub(crate) id: u64,
    socket: Option<SocketRef>,
    table: Option<TableRef>,
}

impl OwnRows {
    pub(crate) fn connect(rig: Rig, things: &RowThings) -> OwnRows {
        rig.connect();
        OwnRows::of(rig, things)
    }

    /// What the calling thread opens first.
    pub(crate) fn of(rig: Rig, things: &RowThings) -> OwnRows {
        let thread = rig.current_thread().expect("a thread");
        let id = thread.thread_id();
        let [user, host] = names(id);
        rig.set_thread_account(thread, user.as_bytes(), host.as_bytes());
        let socket = rig.init_socket(rig.class.socket, Some(7), b"::1", 3306);
        OwnRows { id, socket, table: rig.open_table(things.share, 1) }
    }

    /// Closes what it has opened and ends the calling thread.
    pub(crate) fn disconnect(self, rig: Rig) {
        self.socket.into_iter().for_each(|socket| rig.destroy_socket(socket));
        self.table.into_iter().for_each(|table| rig.close_table(table));
        rig.delete_thread(rig.current_thread().expect("a thread"));
    }
}

/// One random event, with others inside.
pub(crate) fn event(
    rig: Rig,
    things: &RowThings,
    own: &OwnRows,
    random: &mut RowRandom,
    issued: &mut Issued,
) {
    match random.below(12) {
        0 | 1 => {
            rig.lock(things.mutex);
            rig.unlock_mutex(things.mutex);
            issued.mutexes += 1;
        }
        2 => {
            let wait = rig.start_synch_wait(things.rwlock, operation::RWLOCK + 1, here());
            rig.wait(rig.class.mutex);
            if let Some(wait) = wait {
                rig.set_synch_owner(things.rwlock, wait.thread());
                rig.end_synch_wait(&wait);
            }
            rig.unlock_rwlock(things.rwlock);
            issued.rwlocks += 1;
            issued.mutexes += 1;
        }
        3 => {
            let which = random.below(3) as usize;
            // The bytes are the length of the name.
            rig.file_io(things.files[which], io::FILE_READ, FILES[which].len() as u64);
            issued.files += 1;
        }
        4 => {
            if let Some(socket) = own.socket {
                rig.socket_io(socket, io::SOCKET_SEND, 77);
                issued.sockets += 1;
            }
        }
        5 => {
            if let Some(table) = own.table {
                let rows = 1 + random.below(50);
                rig.table_io(table, 0, random.below(2) as usize, rows);
                issued.rows += rows;
            }
        }
        6 | 7 => {
            rig.stage(rig.class.stage);
            rig.wait(rig.class.mutex);
            rig.end_stage();
            issued.stages += 1;
            issued.mutexes += 1;
        }
        8 | 9 => {
            statement(rig, own, random.below(100));
            issued.statements += 1;
        }
        10 => {
            transaction(rig, own, random.below(1000) + 1);
            issued.transactions += 1;
            issued.statements += 1;
        }
        _ => {
            rig.memory_alloc(rig.class.memory, 64);
            issued.allocations += 1;
            if random.below(3) > 0 {
                rig.memory_free(rig.class.memory, 64);
                issued.frees += 1;
            }
        }
    }
}

/// A statement whose text says its thread and its counters.
fn statement(rig: Rig, own: &OwnRows, n: u64) {
    let sql = format!("select t{} n{n} {}", own.id, "x".repeat(n as usize * 3));
    let Some(statement) = rig.begin(rig.class.statement, &sql) else { return };
    rig.add_statement_counter(statement, Counter::RowsSent, n);
    rig.set_statement_counter(statement, Counter::RowsExamined, 2 * n);
    let mut bytes = [0; 1024];
    let tokens =
        DigestTokens { bytes: tokens_of(&sql, &mut bytes), charset: 33, cut: false, hash: last_bytes };
    let message = format!("message {n}");
    let outcome = Outcome { message: message.as_bytes(), warnings: 3 * n, ..Outcome::default() };
    rig.set_statement_outcome(statement, &outcome);
    rig.end_statement(statement, Some(&tokens));
}

/// A transaction whose id says everything else.
fn transaction(rig: Rig, own: &OwnRows, n: u64) {
    let start = TransactionStart { trx_id: n, ..transaction_start(n.is_multiple_of(2)) };
    let Some(mut transaction) = rig.open_transaction(&start) else { return };
    rig.start_transaction(&mut transaction, here());
    rig.set_transaction_gtid(&transaction, 1, 2, n);
    rig.add_savepoints(&transaction, Savepoint::Set, n % 7);
    statement(rig, own, n % 100);
    rig.end_transaction(&transaction, n.is_multiple_of(3));
}

fn check_head(head: &EventHead, names: &[&str]) {
    assert!(names.contains(&head.name), "{head:?}");
    assert!(head.event_id > 0, "{head:?}");
    assert!(head.end_event_id.is_none_or(|end| end >= head.event_id), "{head:?}");
    assert!(head.nesting.is_none_or(|(id, _)| id < head.event_id), "{head:?}");
    assert!(matches!(head.source.as_deref(), Some("place.cc:42") | None), "{head:?}");
    if let Timer { start_ps: Some(start), end_ps: Some(end), wait_ps: Some(wait) } = head.timer {
        assert!(end >= start && end - start == wait, "{head:?}");
        // No event lasts an hour here: a start and an end of two events would.
        assert!(wait < 3_600_000_000_000_000, "{head:?}");
    }
}

/// Reads everything a reader can read, and holds every row against what its event said.
pub(crate) fn check(rig: Rig) {
    for scope in [Scope::Current, Scope::History, Scope::HistoryLong] {
        rig.waits(scope).iter().for_each(check_wait);
        for row in rig.stages(scope) {
            check_head(&row.head, &[STAGE]);
            assert!(matches!(row.head.nesting, None | Some((_, EventType::Statement))), "{row:?}");
        }
        rig.statements(scope).iter().for_each(check_statement);
        rig.transactions(scope).iter().for_each(check_transaction);
    }
    for row in rig.digests() {
        assert!(row.stat.stat.count > 0, "{row:?}");
        assert!(row.first_seen_us <= row.last_seen_us, "{row:?}");
        if let Some(digest) = row.digest {
            assert!(digest.text().is_some_and(|text| text.starts_with("select t?")), "{digest:?}");
            assert_eq!(row.schema.as_deref(), Some("db"));
        }
    }
    for row in rig.threads() {
        let [user, host] = names(row.thread_id);
        let mine = |text: &Option<String>, name: &str| text.as_ref().is_none_or(|text| text == name);
        assert!(mine(&row.user, &user) && mine(&row.host, &host), "{row:?}");
    }
    check_objects(rig);
    for level in ABOVE_THREADS {
        for row in rig.connections(level) {
            assert!(row.total >= row.current && row.owner.thread_id == 0, "{row:?}");
            let named = |name: &Option<String>, prefix| name.as_ref().is_none_or(|it| it.starts_with(prefix));
            assert!(named(&row.owner.user, "user") && named(&row.owner.host, "host"), "{row:?}");
        }
    }
    for level in [Grouping::Thread, Grouping::Account, Grouping::User, Grouping::Host, Grouping::Global] {
        rig.wait_rows(level);
        rig.stage_rows(level);
        rig.statement_rows(level);
        rig.transaction_rows(level);
        rig.memory_rows(level);
    }
    rig.timers();
    rig.lost();
    assert!(rig.memory().0 <= rig.memory().1);
}

fn check_objects(rig: Rig) {
    for row in rig.files() {
        assert!(FILES.contains(&&*row.file_name), "{row:?}");
        assert_eq!(row.event_name, FILE);
    }
    for row in rig.sockets() {
        assert_eq!(row.event_name, SOCKET);
    }
    for row in rig.tables() {
        assert_eq!((&*row.schema, &*row.name), ("db", "t"));
    }
    for row in rig.synchs() {
        let at = if row.name == MUTEX { MUTEX_AT } else { RWLOCK_AT };
        assert_eq!(row.object_instance_begin, at as u64, "{row:?}");
    }
    rig.file_summary();
    rig.socket_summary();
    rig.programs();
}

pub(crate) fn check_wait(row: &WaitRow) {
    check_head(&row.head, &[MUTEX, RWLOCK, FILE, SOCKET, TABLE_IO]);
    let ended = row.head.end_event_id.is_some();
    let object = row.object.name.as_deref();
    match row.head.name {
        MUTEX => assert_eq!((row.operation, object), ("lock", None), "{row:?}"),
        RWLOCK => {
            assert_eq!((row.operation, object), ("write_lock", None), "{row:?}");
            assert_eq!(row.object_instance_begin, RWLOCK_AT as u64);
        }
        FILE => {
            assert_eq!(row.operation, "read", "{row:?}");
            if let Some(name) = object.filter(|_| ended) {
                assert!(FILES.contains(&name), "{row:?}");
                assert_eq!(row.number_of_bytes, Some(name.len() as i64), "{row:?}");
            }
        }
        SOCKET => {
            assert_eq!(row.operation, "send", "{row:?}");
            assert!(matches!(object, None | Some("::1:3306")), "{row:?}");
            assert!(!ended || row.number_of_bytes == Some(77), "{row:?}");
        }
        _ => {
            assert_eq!((row.operation, object), ("fetch", Some("t")), "{row:?}");
            assert!(!ended || row.number_of_bytes.is_some_and(|rows| (1..=50).contains(&rows)), "{row:?}");
        }
    }
}

pub(crate) fn check_statement(row: &StatementRow) {
    check_head(&row.head, &[STATEMENT]);
    // A statement that was begun has no text yet.
    let Some(sql) = &row.sql_text else {
        assert_eq!(row.head.end_event_id, None, "{row:?}");
        return;
    };
    let mut words = sql.split(' ');
    assert_eq!(words.next(), Some("select"), "{row:?}");
    let number = |word: Option<&str>| word.expect("a word")[1..].parse::<u64>().expect("a number");
    assert_eq!(number(words.next()), row.head.thread_id, "another thread's text: {row:?}");
    let n = number(words.next());
    assert_eq!(words.next().expect("a word"), "x".repeat(n as usize * 3), "{row:?}");
    assert_eq!(row.current_schema.as_deref(), Some("db"), "{row:?}");
    if row.head.end_event_id.is_some() {
        assert_eq!(row.message_text, Some(format!("message {n}")), "{row:?}");
        let counters = row.counters;
        let seen = (counters.rows_sent, counters.rows_examined, counters.warnings);
        assert_eq!(seen, (n, 2 * n, 3 * n), "{row:?}");
        if let Some(digest) = &row.digest {
            let mut bytes = [0; 1024];
            assert_eq!(digest.text.as_bytes(), tokens_of(sql, &mut bytes), "{row:?}");
        }
    }
}

pub(crate) fn check_transaction(row: &TransactionRow) {
    check_head(&row.head, &[TRANSACTION]);
    let n = row.trx_id.expect("every one has an id");
    assert_eq!(row.read_only, n.is_multiple_of(2), "{row:?}");
    let gtid = row.gtid.as_deref();
    let is_known = gtid.is_some_and(|gtid| gtid == format!("1-2-{n}"));
    // It becomes known in the middle.
    assert!(is_known || row.head.end_event_id.is_none() && matches!(gtid, None | Some("0-0-0")), "{row:?}");
    let state = match row.head.end_event_id {
        None => TransactionState::Active,
        Some(_) if n.is_multiple_of(3) => TransactionState::Committed,
        Some(_) => TransactionState::RolledBack,
    };
    assert_eq!(row.state, state, "{row:?}");
    assert!(row.head.end_event_id.is_none() || row.savepoints == n % 7, "{row:?}");
}
