//! What it costs to answer a question about many digests:
//! `answers digests [rows [times [shape [question]]]]` prints milliseconds of the CPU of the thread that
//! answers, in one shape or in both. The question is `all`, `highest`, as `tare export` asks for the 250
//! digests that took most and for the sums of all, or names columns. Under
//! `valgrind --tool=callgrind --toggle-collect='*answer*query*'` the instructions are the exact figure:
//! `tests/cost.rs` of `tare-wire`.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use tare_engine::Config;
use tare_rig::{Rig, small};
use tare_tables::Shape;
use tare_wire::{Endpoint, EndpointConfig};

/// What `tare export` asks for in the shape `strict`.
const COLUMNS: &str = "SCHEMA_NAME, DIGEST, LAST_SEEN, COUNT_STAR, SUM_TIMER_WAIT, SUM_LOCK_TIME, SUM_ERRORS, SUM_WARNINGS, \
    SUM_ROWS_AFFECTED, SUM_ROWS_SENT, SUM_ROWS_EXAMINED, SUM_CREATED_TMP_TABLES, SUM_CREATED_TMP_DISK_TABLES, \
    SUM_SORT_MERGE_PASSES, SUM_SORT_ROWS, SUM_NO_INDEX_USED, SUM_NO_GOOD_INDEX_USED, SUM_SELECT_FULL_JOIN, \
    SUM_SELECT_FULL_RANGE_JOIN, SUM_SELECT_RANGE, SUM_SELECT_RANGE_CHECK, SUM_SELECT_SCAN, SUM_SORT_RANGE, SUM_SORT_SCAN";
/// And what it asks for besides in the shape `extended`.
const FURTHER: &str = ", SUM_CPU_TIME, QUANTILE_95, QUANTILE_99, QUANTILE_999";

const DIGESTS: &str = "performance_schema.events_statements_summary_by_digest";

/// Returns what `tare export` asks for the digests that took most, and for the sums of all.
fn highest(columns: &str) -> String {
    let condition = "`SCHEMA_NAME` NOT IN ('mysql', 'performance_schema', 'information_schema') \
                     AND `LAST_SEEN` > '2024-01-01 00:00:00'";
    let sum = |column: &str| match column {
        "SCHEMA_NAME" | "DIGEST" | "LAST_SEEN" | "QUANTILE_95" | "QUANTILE_99" | "QUANTILE_999" => {
            "NULL".to_owned()
        }
        figure => format!("SUM({figure})"),
    };
    let sums: Vec<String> = columns.split(", ").map(sum).collect();
    let count: Vec<&str> = columns.split(", ").skip(1).map(|_| "NULL").collect();
    format!(
        "(SELECT 0, {columns} FROM {DIGESTS} WHERE {condition} ORDER BY SUM_TIMER_WAIT DESC LIMIT 250) \
         UNION ALL (SELECT 1, {} FROM {DIGESTS}) \
         UNION ALL (SELECT 2, COUNT(*), {} FROM {DIGESTS} WHERE {condition})",
        sums.join(", "),
        count.join(", ")
    )
}

pub(crate) type BoxedError = Box<dyn std::error::Error>;

/// Makes an engine with so many digests, each counted by two of ten connections.
fn filled(digests: usize, extended: bool) -> Rig {
    let config = Config { digests_size: digests as u32 + 1, memory_max: 256 << 20, extended, ..small() };
    let rig = Rig::with(config);
    let threads: Vec<_> = (0..10).map(|_| rig.thread()).collect();
    for round in 0..2 {
        for digest in 0..digests {
            // Digits are the same to the rig.
            let name: String = digest.to_string().bytes().map(|digit| char::from(digit + 49)).collect();
            let sql = format!(
                "SELECT o.id AS {name}, o.customer, SUM(o.total) FROM orders o WHERE o.id = ? AND o.total > ? GROUP BY o.id"
            );
            rig.on(threads[(digest + round * 3) % threads.len()], || rig.query(&sql));
        }
    }
    rig
}

/// Returns the nanoseconds of CPU that the threads that answer have used.
fn spent() -> Result<u64, BoxedError> {
    let mut sum = 0;
    for task in std::fs::read_dir("/proc/self/task")? {
        let task = task?.path();
        if std::fs::read_to_string(task.join("comm"))?.starts_with("tare-conn") {
            let text = std::fs::read_to_string(task.join("schedstat"))?;
            sum += text.split(' ').next().unwrap_or_default().parse::<u64>()?;
        }
    }
    Ok(sum)
}

fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = (payload.len() as u32).to_le_bytes().to_vec();
    packet[3] = sequence;
    packet.extend_from_slice(payload);
    packet
}

/// Reads until an answer has ended; returns its length.
fn read(stream: &mut UnixStream, least: usize) -> Result<usize, BoxedError> {
    let (mut all, mut piece) = (0, vec![0; 1 << 20]);
    loop {
        let count = stream.read(&mut piece)?;
        all += count;
        let end = &piece[count.saturating_sub(9)..count];
        let is_end = end.len() == 9 && end[..3] == [5, 0, 0] && end[4] == 0xfe;
        if count == 0 || all >= least && (is_end || least == 0) {
            return Ok(all);
        }
    }
}

fn connect(path: &Path) -> Result<UnixStream, BoxedError> {
    let mut stream = UnixStream::connect(path)?;
    read(&mut stream, 0)?;
    let mut login = 0x0008_a201_u32.to_le_bytes().to_vec();
    login.extend_from_slice(&[0, 0, 0, 1, 45]);
    login.extend_from_slice(&[0; 23]);
    login.extend_from_slice(b"root\0\0mysql_native_password\0");
    stream.write_all(&packet(1, &login))?;
    read(&mut stream, 0)?;
    Ok(stream)
}

pub(crate) fn run(arguments: &[String]) -> Result<(), BoxedError> {
    let number = |at: usize, usual| arguments.get(at).map_or(Ok(usual), |text| text.parse::<usize>());
    let (digests, times) = (number(0, 5000)?, number(1, 100)?);
    let only = arguments.get(2).map(String::as_str);
    for (shape, name, extended) in [(Shape::Strict, "strict", false), (Shape::Extended, "extended", true)] {
        if only.is_some_and(|only| only != name) {
            continue;
        }
        let usual = format!("{COLUMNS}{}", if extended { FURTHER } else { "" });
        let sql = match arguments.get(3).map(String::as_str) {
            Some("highest") => highest(&usual),
            None | Some("all") => format!("SELECT {usual} FROM {DIGESTS}"),
            Some(columns) => format!("SELECT {columns} FROM {DIGESTS}"),
        };
        let rig = filled(digests, extended);
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("tare.sock");
        let mut endpoint = Endpoint::start(EndpointConfig {
            socket_path: path.clone(),
            tables: shape.served(),
            engine: rig.engine,
            server_version: "10.11.19-MariaDB-tare".to_owned(),
            name_inside: None,
            spawn: |name, work| std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop),
            max_connections: 8,
            stall_limit: EndpointConfig::STALL_LIMIT,
        })?;
        let mut stream = connect(&path)?;
        let mut least = u64::MAX;
        let mut length = 0;
        let begin = spent()?;
        for _ in 0..times {
            let before = spent()?;
            stream.write_all(&packet(0, &[b"\x03", sql.as_bytes()].concat()))?;
            length = read(&mut stream, 10)?;
            least = least.min(spent()? - before);
        }
        let mean = (spent()? - begin) as f64 / times as f64;
        println!(
            "{name}: {digests} digests, {length} bytes: {:.3} ms at least, {:.3} ms on average",
            least as f64 / 1e6,
            mean / 1e6
        );
        drop(stream);
        endpoint.stop();
    }
    Ok(())
}
