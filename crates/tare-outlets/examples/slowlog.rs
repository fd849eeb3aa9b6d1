//! What a statement costs `tare slowlog`: the CPU time that reading, decoding, formatting and writing one
//! takes.
//!
//! An endpoint made up, in a process of its own, answers rows as fast as they are taken. `slowlog
//! [STATEMENTS]` prints microseconds of each form; `slowlog STATEMENTS FORM` does one form alone, for
//! valgrind to count its instructions.

use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tare_outlets::slowlog::{
    self, Control, Destination, Rotation, SlowLogFormat, SlowLogOptions, StatementFilter, Text,
};

/// Statements of one answer, of so many threads, each thread's in a row as the endpoint has them.
const ANSWER: u64 = 10_000;
const THREADS: u64 = 20;
/// When the first one ended.
const BEGIN_US: u64 = 1_760_000_000_000_000;

/// What is measured: the form, what of the texts, the share.
const FORMS: [(&str, SlowLogFormat, Text, &str); 5] = [
    ("slow", SlowLogFormat::Slow, Text::Full, "1/1"),
    ("slow-normalised", SlowLogFormat::Slow, Text::Normalised, "1/1"),
    ("slow-sample", SlowLogFormat::Slow, Text::Full, "1/100"),
    ("json", SlowLogFormat::Json, Text::Full, "1/1"),
    ("json-none", SlowLogFormat::Json, Text::None, "1/1"),
];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", socket, statements] => serve(Path::new(socket), statements.parse()?),
        [statements, form] => log(statements.parse()?, form).map(drop),
        [] => all("2000000"),
        [statements] => all(statements),
        _ => Err("usage: slowlog [STATEMENTS [FORM]]".into()),
    }
}

/// Each form in a process of its own.
fn all(statements: &str) -> Result<(), Box<dyn Error>> {
    println!("{:<16} {:>14} {:>14}", "", "CPU a statement", "statements");
    for (name, ..) in FORMS {
        let status = Command::new(std::env::current_exe()?).args([statements, name]).status()?;
        if !status.success() {
            return Err(format!("{name}: {status}").into());
        }
    }
    Ok(())
}

/// Ends as soon as all has been read.
struct UntilRead;

impl Control for UntilRead {
    fn is_over(&self) -> bool {
        true
    }
    fn reopens(&self) -> bool {
        false
    }
    fn tell(&self, _line: &str) {}
}

/// Logs so many statements in one form, and prints what each took.
fn log(statements: u64, name: &str) -> Result<(), Box<dyn Error>> {
    let (_, form, text, share) = *FORMS.iter().find(|form| form.0 == name).ok_or("no such form")?;
    let folder = tempfile::tempdir()?;
    let options = SlowLogOptions {
        socket: folder.path().join("tare.sock"),
        choice: StatementFilter { share: share.parse()?, ..StatementFilter::default() },
        form,
        text,
        // A file of the usual length of a log that is rotated, and never more.
        destination: Destination::File(
            folder.path().join("slow.log"),
            Rotation { size: Some(100 << 20), time: None, keep: 0 },
        ),
        interval: std::time::Duration::ZERO,
    };
    let mut endpoint = endpoint(&options.socket, statements)?;
    let before = cpu_ns()?;
    let totals = slowlog::run(&options, &UntilRead)?;
    let took = cpu_ns()? - before;
    endpoint.kill()?;
    endpoint.wait()?;
    let read = totals.written + totals.left_out;
    println!("{name:<16} {:>11.2} µs {read:>14}", took as f64 / 1e3 / read as f64);
    Ok(())
}

/// CPU time of this process's first thread, which does it all.
fn cpu_ns() -> Result<u64, Box<dyn Error>> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text.split(' ').next().unwrap_or_default().parse()?)
}

/// Starts the endpoint made up, and waits until it listens.
fn endpoint(socket: &Path, statements: u64) -> Result<Child, Box<dyn Error>> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg("serve")
        .arg(socket)
        .arg(statements.to_string())
        .stdout(Stdio::piped())
        .spawn()?;
    let listens = child.stdout.take().ok_or("no output")?;
    BufReader::new(listens).read_line(&mut String::new())?;
    Ok(child)
}

/// A connection's worth of the protocol's server side: whatever is asked, rows of the columns that are named.
fn serve(socket: &Path, statements: u64) -> Result<(), Box<dyn Error>> {
    let listener = UnixListener::bind(socket)?;
    println!("listens");
    let (mut stream, _) = listener.accept()?;
    let greeting = b"\x0a5.5.5-10.11.0-MariaDB\0\x01\0\0\0salty-sa\0\x0b\xa2\x21\x02\0\x08\0\x15\0\0\0\0\0\0\0\0\0\0ltysaltysalt\0mysql_native_password\0";
    let mut packets = Vec::new();
    put_packet(&mut packets, 0, greeting);
    stream.write_all(&packets)?;
    read_packet(&mut stream)?;
    stream.write_all(b"\x07\0\0\x02\0\0\0\x02\0\0\0")?;
    let (mut answers, mut made) = (0, HashMap::new());
    while let Ok(command) = read_packet(&mut stream) {
        let sql = String::from_utf8_lossy(&command).into_owned();
        if sql.contains("SHOW COLUMNS") {
            let names = NAMES.map(|name| vec![Some(name.into()), Some("text".into())]);
            stream.write_all(&result(&["Field", "Type"], names.into_iter()))?;
        } else if sql.contains("tare_stream_statements") {
            let columns: Vec<&str> =
                sql.split('`').skip(1).step_by(2).take_while(|name| *name != "performance_schema").collect();
            let count = if answers == 0 { 0 } else { ANSWER };
            let more = answers > 0 && answers * ANSWER < statements;
            let packets = made.entry((count, more)).or_insert_with(|| {
                let rows = (0..=count).map(|number| {
                    columns
                        .iter()
                        .map(|name| if number < count { value(name, number) } else { last(name, more) })
                        .collect()
                });
                result(&columns, rows)
            });
            stream.write_all(packets)?;
            answers += 1;
        } else {
            stream.write_all(&result(&["NAME", "VALUE"], std::iter::empty()))?;
        }
    }
    Ok(())
}

/// The stream's columns that a slow log may ask for.
const NAMES: [&str; 36] = [
    "THREAD_ID",
    "EVENT_NAME",
    "TIMER_WAIT",
    "LOCK_TIME",
    "SQL_TEXT",
    "DIGEST",
    "DIGEST_TEXT",
    "CURRENT_SCHEMA",
    "OBJECT_TYPE",
    "OBJECT_SCHEMA",
    "OBJECT_NAME",
    "MYSQL_ERRNO",
    "MESSAGE_TEXT",
    "ERRORS",
    "WARNINGS",
    "ROWS_AFFECTED",
    "ROWS_SENT",
    "ROWS_EXAMINED",
    "CREATED_TMP_DISK_TABLES",
    "CREATED_TMP_TABLES",
    "SELECT_FULL_JOIN",
    "SELECT_SCAN",
    "SORT_MERGE_PASSES",
    "SORT_RANGE",
    "SORT_ROWS",
    "SORT_SCAN",
    "NO_INDEX_USED",
    "NESTING_EVENT_LEVEL",
    "PROCESSLIST_ID",
    "PROCESSLIST_USER",
    "PROCESSLIST_HOST",
    "ENDED",
    "LOST",
    "EVENTS",
    "MORE",
    "POSITION",
];

/// A column of a statement.
fn value(column: &str, number: u64) -> Option<String> {
    let (thread, nth) = (number / (ANSWER / THREADS), number % (ANSWER / THREADS));
    let filler = "0123456789".repeat(3 + (number * 7 % 21) as usize);
    Some(match column {
        "THREAD_ID" => (40 + thread).to_string(),
        "PROCESSLIST_ID" => (8 + thread).to_string(),
        "EVENT_NAME" => "statement/sql/select".into(),
        "TIMER_WAIT" => (45_123_456 + number * 1_234_567).to_string(),
        "LOCK_TIME" => "3000000".into(),
        "SQL_TEXT" => format!("SELECT c_discount, c_last, c_credit, w_tax FROM customer1 WHERE c_data = '{filler}' AND c_id = {number}"),
        "DIGEST" => format!("{:064x}", number % 37),
        "DIGEST_TEXT" => "SELECT `c_discount` , `c_last` , `c_credit` , `w_tax` FROM `customer1` WHERE `c_data` = ? AND `c_id` = ?".into(),
        "CURRENT_SCHEMA" => "sbtest".into(),
        "ROWS_SENT" | "ROWS_EXAMINED" => (number % 11).to_string(),
        "PROCESSLIST_USER" => "sbtest".into(),
        "PROCESSLIST_HOST" => "localhost".into(),
        "ENDED" => (BEGIN_US + nth * 200 + thread).to_string(),
        "OBJECT_TYPE" | "OBJECT_SCHEMA" | "OBJECT_NAME" | "MESSAGE_TEXT" | "LOST" | "EVENTS" | "MORE" | "POSITION" => return None,
        _ => "0".into(),
    })
}

/// A column of an answer's last row.
fn last(column: &str, more: bool) -> Option<String> {
    match column {
        "LOST" | "POSITION" => Some("0".into()),
        "EVENTS" => Some(ANSWER.to_string()),
        "MORE" => Some(if more { "YES" } else { "NO" }.into()),
        _ => None,
    }
}

/// The packets of a result.
fn result(columns: &[&str], rows: impl Iterator<Item = Vec<Option<String>>>) -> Vec<u8> {
    let (mut packets, mut sequence) = (Vec::new(), 0u8);
    let mut put = |packet: &[u8]| {
        sequence = sequence.wrapping_add(1);
        put_packet(&mut packets, sequence, packet);
    };
    put(&[columns.len() as u8]);
    for column in columns {
        let mut packet = b"\x03def\0\0\0".to_vec();
        put_text(&mut packet, column.as_bytes());
        packet.extend_from_slice(b"\0\x0c\x21\0\0\x01\0\0\xfd\0\0\0\0\0");
        put(&packet);
    }
    put(b"\xfe\0\0\x02\0");
    for row in rows {
        let mut packet = Vec::new();
        for value in row {
            match value {
                None => packet.push(0xfb),
                Some(text) => put_text(&mut packet, text.as_bytes()),
            }
        }
        put(&packet);
    }
    put(b"\xfe\0\0\x02\0");
    packets
}

fn put_packet(to: &mut Vec<u8>, sequence: u8, packet: &[u8]) {
    to.extend_from_slice(&(packet.len() as u32).to_le_bytes()[..3]);
    to.push(sequence);
    to.extend_from_slice(packet);
}

fn put_text(to: &mut Vec<u8>, text: &[u8]) {
    match u8::try_from(text.len()) {
        Ok(short @ 0..=250) => to.push(short),
        _ => {
            to.push(252);
            to.extend_from_slice(&(text.len() as u16).to_le_bytes());
        }
    }
    to.extend_from_slice(text);
}

fn read_packet(stream: &mut UnixStream) -> std::io::Result<Vec<u8>> {
    let mut head = [0; 4];
    stream.read_exact(&mut head)?;
    let mut packet = vec![0; u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize];
    stream.read_exact(&mut packet)?;
    Ok(packet)
}
