//! Statements read from a stream over the endpoint's socket: what that costs the server.
//!
//! `answers stream [statements [blocks | full | normalised | none | polls]]` records statements with texts of
//! 100 to 300 bytes, of forty digests, on eight threads, and reads them as `tare slowlog` does: in the blocks
//! they were recorded in; or, where it leaves some out, as rows with their text, with their digest's, or with
//! none. With `polls` nothing is recorded, and so many SELECTs find nothing new. It prints nanoseconds of
//! processor time that the endpoint's thread took for each, the client's left out. Under `valgrind
//! --tool=callgrind --toggle-collect=*answer*query*` the instructions divided by the statements are the exact
//! figure (see `tests/cost.rs` of `tare-wire`).

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::LazyLock;
use std::sync::atomic::Ordering::Relaxed;

use tare_engine::snapshot::*;
use tare_engine::*;
use tare_rig::Double;
use tare_wire::{Endpoint, EndpointConfig};

static ENGINE: Engine = Engine::new();
/// Counts how often it was asked for a digest's text.
static HOST: LazyLock<Double> = LazyLock::new(Double::default);

/// What `tare slowlog` asks of blocks.
const BLOCKS: &str = "LOST, EVENTS, MORE, POSITION, TYPE, NUMBER, EVENT_NAME, THREAD_ID, PROCESSLIST_ID, PROCESSLIST_USER, \
    PROCESSLIST_HOST, OPENED, NEW_FROM, RECORDS, DIGEST_CHARSET, SQL_TEXT";

/// What `tare slowlog` asks of every statement.
const COLUMNS: &str = "THREAD_ID, EVENT_NAME, TIMER_WAIT, LOCK_TIME, DIGEST, CURRENT_SCHEMA, OBJECT_TYPE, OBJECT_SCHEMA, \
    OBJECT_NAME, MYSQL_ERRNO, ERRORS, WARNINGS, ROWS_AFFECTED, ROWS_SENT, ROWS_EXAMINED, CREATED_TMP_DISK_TABLES, \
    CREATED_TMP_TABLES, SELECT_FULL_JOIN, SELECT_SCAN, SORT_MERGE_PASSES, SORT_RANGE, SORT_ROWS, SORT_SCAN, NO_INDEX_USED, \
    NESTING_EVENT_LEVEL, PROCESSLIST_ID, PROCESSLIST_USER, PROCESSLIST_HOST, ENDED, LOST, EVENTS, MORE, POSITION";

const DIGESTS: usize = 40;

fn here() -> Source {
    Source::new(c"/build/sql/sql_parse.cc".as_ptr(), 700)
}

/// Records statements, as so many connections one after the other, round by round.
fn record(threads: &[ThreadRef], class: ClassId, statements: usize) {
    for n in 0..statements {
        // A connection runs some before the next one's turn.
        ENGINE.set_current_thread(Some(threads[n / 16 % threads.len()]));
        let digest = n * 7 % DIGESTS;
        let filler = "x".repeat(50 + n * 37 % 200);
        let sql = format!("SELECT c{digest} FROM sbtest1 WHERE id = {} AND name <> '{filler}'", n * 31);
        let statement = ENGINE.open_statement(class, 33, None).expect("memory");
        ENGINE.start_statement(statement, b"sbtest", here());
        ENGINE.set_statement_text(statement, sql.as_bytes());
        ENGINE.set_statement_counter(statement, Counter::LockTime, 3);
        ENGINE.set_statement_counter(statement, Counter::RowsSent, 1);
        ENGINE.set_statement_counter(statement, Counter::RowsExamined, (n % 100) as u64);
        let tokens =
            format!("SELECT `c{digest}` FROM `sbtest1` WHERE ID = ? AND NAME <> ?{}", " ".repeat(digest));
        let tokens = DigestTokens { bytes: tokens.as_bytes(), charset: 33, cut: false, hash: |_| [0; 16] };
        ENGINE.end_statement(statement, Some(&tokens));
    }
    ENGINE.set_current_thread(None);
}

/// A client that takes what comes and looks at as little of it as can be.
struct StreamClient {
    stream: UnixStream,
    buffer: Vec<u8>,
    from: usize,
}

impl StreamClient {
    fn connect(path: &std::path::Path) -> StreamClient {
        let stream = UnixStream::connect(path).expect("the endpoint");
        let mut client = StreamClient { stream, buffer: Vec::new(), from: 0 };
        client.packet();
        // CLIENT_PROTOCOL_41, SECURE_CONNECTION, utf8mb4.
        let mut answer = 0x8200u32.to_le_bytes().to_vec();
        answer.extend([0, 0, 0, 1, 45]);
        answer.extend([0; 23]);
        answer.extend(b"root\0\0");
        client.send(1, &answer);
        client.packet();
        client
    }

    fn send(&mut self, sequence: u8, payload: &[u8]) {
        let mut packet = (payload.len() as u32).to_le_bytes().to_vec();
        packet[3] = sequence;
        packet.extend(payload);
        self.stream.write_all(&packet).expect("sent");
    }

    /// Returns the next packet's payload.
    fn packet(&mut self) -> &[u8] {
        loop {
            if let Some([a, b, c, _]) = self.buffer[self.from..].first_chunk() {
                let end = self.from + 4 + (usize::from(*a) | usize::from(*b) << 8 | usize::from(*c) << 16);
                if self.buffer.len() >= end {
                    let begin = std::mem::replace(&mut self.from, end) + 4;
                    return &self.buffer[begin..end];
                }
            }
            self.buffer.drain(..std::mem::take(&mut self.from));
            let had = self.buffer.len();
            self.buffer.resize(had + (256 << 10), 0);
            let got = self.stream.read(&mut self.buffer[had..]).expect("an answer");
            assert!(got > 0, "the endpoint has gone");
            self.buffer.truncate(had + got);
        }
    }

    /// Asks, and says how many rows came and how many bytes; the last row's last value is its position.
    fn select(&mut self, sql: &str) -> (u64, u64) {
        self.send(0, &[&[3], sql.as_bytes()].concat());
        let is_end = |packet: &[u8]| packet.len() == 5 && packet[0] == 0xfe;
        let first = self.packet();
        assert!(first[0] != 0xff, "{}", String::from_utf8_lossy(first));
        while !is_end(self.packet()) {}
        let (mut rows, mut bytes) = (0, 0);
        loop {
            let packet = self.packet();
            if is_end(packet) {
                return (rows, bytes);
            }
            rows += 1;
            bytes += 4 + packet.len() as u64;
        }
    }
}

/// Returns the processor time of the thread of this name, in nanoseconds.
fn processor_time(name: &str) -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("tasks");
    let of = |task: std::fs::DirEntry| {
        let comm = std::fs::read_to_string(task.path().join("comm")).ok()?;
        let stat = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        comm.trim().starts_with(name).then(|| stat.split(' ').next()?.parse::<u64>().ok()).flatten()
    };
    tasks.filter_map(|task| of(task.ok()?)).sum()
}

pub(crate) fn run(arguments: &[String]) {
    let statements: usize = arguments.first().map_or(20_000, |n| n.parse().expect("a number"));
    let mode = arguments.get(1).map_or("full", String::as_str);
    let further = match mode {
        "full" => ", SQL_TEXT, MESSAGE_TEXT",
        "normalised" => ", DIGEST_TEXT",
        _ => "",
    };
    let config =
        Config { memory_max: 1 << 30, history_long_size: [2 * statements as u32; 4], ..Config::default() };
    ENGINE.start(config, &*HOST).expect("address space");
    let register =
        |kind, name| ENGINE.register(Registration { kind, name, properties: Properties::default() });
    let class = register(Kind::Statement, "statement/sql/select");
    let thread = register(Kind::Thread, "thread/sql/one_connection");
    let threads: Vec<ThreadRef> = (0..8)
        .map(|n| {
            let thread = ENGINE.new_thread(thread, Some(1), None).expect("memory");
            ENGINE.set_thread_account(thread, b"sbtest", b"localhost");
            ENGINE.set_thread_processlist_id(thread, 1000 + n);
            thread
        })
        .collect();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tare.sock");
    let _endpoint = Endpoint::start(EndpointConfig {
        socket_path: path.clone(),
        tables: &[],
        engine: &ENGINE,
        server_version: "10.11".to_owned(),
        name_inside: None,
        spawn: |name, work| std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop),
        max_connections: 8,
        stall_limit: EndpointConfig::STALL_LIMIT,
    })
    .expect("an endpoint");
    let mut client = StreamClient::connect(&path);
    let sql = match mode {
        "blocks" => format!("SELECT {BLOCKS} FROM tare_stream_statement_blocks"),
        _ => format!("SELECT {COLUMNS}{further} FROM tare_stream_statements"),
    };
    client.select(&sql);
    let (mut rows, mut bytes, mut answers) = (0, 0, 0);
    let before;
    if mode == "polls" {
        record(&threads, class, 100);
        client.select(&sql);
        before = processor_time("tare-conn");
        for _ in 0..statements {
            bytes += client.select(&sql).1;
        }
        (rows, answers) = (statements as u64, statements as u64);
    } else if mode == "blocks" {
        record(&threads, class, statements);
        before = processor_time("tare-conn");
        // Until an answer has no more than its last row.
        let has_some = |(some, long): (u64, u64)| (some > 1).then_some(long);
        while let Some(long) = has_some(client.select(&sql)) {
            (bytes, answers) = (bytes + long, answers + 1);
        }
        rows = statements as u64;
    } else {
        record(&threads, class, statements);
        before = processor_time("tare-conn");
        while rows < statements as u64 {
            let (some, long) = client.select(&sql);
            assert!(some > 1, "{rows} of {statements}");
            (rows, bytes, answers) = (rows + some - 1, bytes + long, answers + 1);
        }
    }
    let took = processor_time("tare-conn") - before;
    println!("rows {rows}, answers {answers}, bytes a row {}", bytes / rows);
    println!("nanoseconds of the endpoint's thread a row: {}", took / rows);
    println!("digests spelled {}", HOST.spelled.load(Relaxed));
}
