//! Reads the server's own error log for the table `error_log`.
//!
//! The server writes the log to its standard error, which it redirects to the file of `log_error` if there is
//! one. So the log is whatever file descriptor 2 refers to, under any name: a log that was moved away is read
//! until the server opens another one. The file is opened separately, so nothing of the server's is touched.
//! At most [`BOUND`] bytes are read.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use tare_tables::log::{LogRow, Priority};

/// The most bytes read of a log, from its end.
const BOUND: u64 = 5 << 20;
/// The most bytes kept of a message.
const MESSAGE: usize = 16 << 10;

/// Returns the newest messages, oldest first; empty if the log is not a file or the server's account may not
/// read it.
pub(crate) fn rows() -> Vec<LogRow> {
    end_of("/proc/self/fd/2", BOUND)
        .map(|end| messages(&String::from_utf8_lossy(&end), moment))
        .unwrap_or_default()
}

/// Returns the last `bound` bytes of a file from the beginning of a line; `None` if it is not a readable
/// file.
fn end_of(path: &str, bound: u64) -> Option<Vec<u8>> {
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut file = File::open(path).ok()?;
    let start = file.metadata().ok()?.len().saturating_sub(bound);
    file.seek(SeekFrom::Start(start)).ok()?;
    let mut end = Vec::new();
    file.take(bound).read_to_end(&mut end).ok()?;
    if start > 0 {
        let line = end.iter().position(|byte| *byte == b'\n').map_or(end.len(), |at| at + 1);
        end.drain(..line);
    }
    Some(end)
}

/// Year, month, day, hour, minute and second of the server's local time.
type Wall = [i32; 6];

/// Splits a text into messages. Lines before the first one that begins with a time belong to a message whose
/// beginning is missing; they are skipped.
fn messages(text: &str, moment: impl Fn(Wall) -> Option<u64>) -> Vec<LogRow> {
    let mut rows: Vec<LogRow> = Vec::new();
    // The second of the last message, and how many messages had it before.
    let (mut second, mut nth) = (0, 0);
    for line in text.lines() {
        match MessageHead::of(line).and_then(|head| Some((moment(head.wall)?, head))) {
            Some((at, head)) => {
                nth = if at == second { nth + 1 } else { 0 };
                second = at;
                let logged_us = at * 1_000_000 + nth.min(999_999);
                rows.push(head.row(logged_us));
            }
            None => {
                if let Some(row) = rows.last_mut()
                    && row.data.len() + line.len() < MESSAGE
                {
                    row.data.push('\n');
                    row.data.push_str(line);
                }
            }
        }
    }
    rows
}

/// The first line of a message.
struct MessageHead<'a> {
    wall: Wall,
    thread_id: Option<u64>,
    prio: Priority,
    message: &'a str,
}

impl<'a> MessageHead<'a> {
    /// Parses `2026-11-23  0:02:22 7 [Warning] message`, or `261123  0:02:22 [ERROR] message` as at the start
    /// of a crash report.
    fn of(line: &'a str) -> Option<MessageHead<'a>> {
        let (date, rest) = line.split_once(' ')?;
        let (time, rest) = rest.trim_start().split_once(' ')?;
        let (thread_id, rest) = match rest.strip_prefix('[') {
            Some(rest) => (None, rest),
            None => {
                let (number, rest) = rest.split_once(" [")?;
                (Some(number.parse().ok()?), rest)
            }
        };
        let (prio, message) = rest.split_once("] ")?;
        let prio = match prio {
            "ERROR" => Priority::Error,
            "Warning" => Priority::Warning,
            "Note" => Priority::Note,
            _ => return None,
        };
        let [year, month, day] = match numbers(date, '-') {
            Some(date) => date,
            None if date.len() == 6 => {
                let date: u32 = date.parse().ok()?;
                [2000 + date / 10_000, date / 100 % 100, date % 100].map(u32::cast_signed)
            }
            None => return None,
        };
        let [hour, minute, second] = numbers(time, ':')?;
        Some(MessageHead { wall: [year, month, day, hour, minute, second], thread_id, prio, message })
    }

    fn row(&self, logged_us: u64) -> LogRow {
        let cut = (0..=MESSAGE.min(self.message.len())).rev().find(|at| self.message.is_char_boundary(*at));
        LogRow {
            logged_us,
            thread_id: self.thread_id,
            prio: self.prio,
            error_code: format!("MY-{:06}", error_number(self.message).unwrap_or(0)),
            subsystem: subsystem(self.message),
            data: self.message[..cut.unwrap_or(0)].to_owned(),
        }
    }
}

/// Parses three numbers separated by `sign`.
fn numbers(text: &str, sign: char) -> Option<[i32; 3]> {
    let mut parts = text.split(sign).map(|part| part.parse::<u16>().ok().map(i32::from));
    let numbers = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(numbers)
}

/// Returns the error number that a message names: `Internal MariaDB error code: 1062`, `Error_code: 1032`.
fn error_number(message: &str) -> Option<u32> {
    let (_, rest) = message.split_once("rror code: ").or_else(|| message.split_once("rror_code: "))?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().ok().filter(|number| *number <= 999_999)
}

/// Returns the part of the server that wrote a message.
fn subsystem(message: &str) -> &'static str {
    const BEGINNINGS: [(&str, &str); 6] = [
        ("InnoDB: ", "InnoDB"),
        ("Slave ", "Repl"),
        ("Master ", "Repl"),
        ("Semi-sync ", "Repl"),
        ("Start binlog_dump ", "Repl"),
        ("Stop asynchronous binlog_dump ", "Repl"),
    ];
    // The mark of a fatal error comes before the subsystem.
    let message = message.strip_prefix("[FATAL] ").unwrap_or(message);
    BEGINNINGS.iter().find(|(beginning, _)| message.starts_with(beginning)).map_or("Server", |(_, name)| name)
}

/// Returns the seconds since the epoch of a local time in the server's time zone.
fn moment([year, month, day, hour, minute, second]: Wall) -> Option<u64> {
    // SAFETY: plain integers and a pointer, for which zero is valid.
    let mut time: libc::tm = unsafe { std::mem::zeroed() };
    (time.tm_year, time.tm_mon, time.tm_mday) = (year - 1900, month - 1, day);
    (time.tm_hour, time.tm_min, time.tm_sec, time.tm_isdst) = (hour, minute, second, -1);
    // SAFETY: a whole `tm`, which is this function's.
    u64::try_from(unsafe { libc::mktime(&raw mut time) }).ok()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Converts a time without a time zone.
    fn utc(wall: Wall) -> Option<u64> {
        let [_, _, day, hour, minute, second] = wall.map(i32::unsigned_abs).map(u64::from);
        Some(((day * 24 + hour) * 60 + minute) * 60 + second)
    }

    const AT: u64 = (23 * 24 * 3600 + 2 * 60 + 22) * 1_000_000;

    #[test]
    fn a_message_is_taken_apart() {
        let text = "\
            the end of something\n\
            2026-11-23  0:02:22 0 [Note] InnoDB: Buffer pool(s) load completed at 261123  0:02:22\n\
            2026-11-23  0:02:22 7 [Warning] Aborted connection 7 to db: 'e' (Got an error reading packets)\n\
            2026-11-23  0:02:23 12 [ERROR] Slave SQL: Error 'Duplicate entry' on query. Internal MariaDB error code: 1062\n\
            2026-11-23  0:02:23 0 [ERROR] [FATAL] InnoDB: Unable to find the record\n\
            261123  0:02:24 [ERROR] mysqld got signal 11 ;\n\
            This could be because you hit a bug.\n\
            \n\
            Attempting backtrace.\n\
            2026-11-23 10:02:22 0 [Info] no such priority\n";
        let row = |logged_us, thread_id, prio, code: &str, subsystem, data: &str| LogRow {
            logged_us,
            thread_id,
            prio,
            error_code: code.to_owned(),
            subsystem,
            data: data.to_owned(),
        };
        let none = "MY-000000";
        let loaded = "InnoDB: Buffer pool(s) load completed at 261123  0:02:22";
        let aborted = "Aborted connection 7 to db: 'e' (Got an error reading packets)";
        let stopped = "Slave SQL: Error 'Duplicate entry' on query. Internal MariaDB error code: 1062";
        let fatal = "[FATAL] InnoDB: Unable to find the record";
        let crash = "mysqld got signal 11 ;\nThis could be because you hit a bug.\n\nAttempting backtrace.\n\
                     2026-11-23 10:02:22 0 [Info] no such priority";
        let expected = [
            row(AT, Some(0), Priority::Note, none, "InnoDB", loaded),
            row(AT + 1, Some(7), Priority::Warning, none, "Server", aborted),
            row(AT + 1_000_000, Some(12), Priority::Error, "MY-001062", "Repl", stopped),
            row(AT + 1_000_001, Some(0), Priority::Error, none, "InnoDB", fatal),
            row(AT + 2_000_000, None, Priority::Error, none, "Server", crash),
        ];
        assert_eq!(messages(text, utc), expected);
    }

    #[test]
    fn nothing_that_only_resembles_a_message_is_one() {
        for line in [
            "",
            " ",
            "2026-11-23",
            "2026-11-23 0:02:22",
            "2026-11-23 0:02:22 0 [Note]",
            "2026-11 0:02:22 0 [Note] x",
            "2026-11-23 0:02 0 [Note] x",
            "2026-11-23 0:02:22 x [Note] x",
            "26112x 0:02:22 [ERROR] x",
            "2026-11-23 0:02:22 0x7f INNODB MONITOR OUTPUT",
            "a-b-c d:e:f 0 [Note] x",
        ] {
            assert!(messages(line, utc).is_empty(), "{line}");
        }
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let text =
            format!("2026-11-23  0:02:22 0 [Note] x{}\n{}\n", "é".repeat(MESSAGE), "y".repeat(MESSAGE));
        let rows = messages(&text, utc);
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].data.len(), MESSAGE - 1);
    }

    #[test]
    fn of_a_long_log_the_end_is_read_from_a_line_on() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap().to_owned();
        assert_eq!(end_of(&path, 10), Some(Vec::new()));
        file.write_all(b"one\ntwo\nthree\n").unwrap();
        assert_eq!(end_of(&path, 100).as_deref(), Some(&b"one\ntwo\nthree\n"[..]));
        assert_eq!(end_of(&path, 8).as_deref(), Some(&b"three\n"[..]));
        assert_eq!(end_of(&path, 3).as_deref(), Some(&b""[..]), "no line begins there");
        file.as_file().set_len(0).unwrap();
        assert_eq!(end_of(&path, 100), Some(Vec::new()), "cut off");
        assert_eq!(end_of("/dev/null", 100), None);
        assert_eq!(end_of("/nowhere", 100), None);
    }

    #[test]
    fn a_moment_is_one_of_the_time_zone() {
        let at = moment([2026, 1, 15, 12, 0, 0]).unwrap();
        let noon = 1_768_478_400;
        assert!(at.abs_diff(noon) <= 14 * 3600 && at.is_multiple_of(900), "{at}");
        assert_eq!(moment([2026, 1, 15, 12, 0, 1]), Some(at + 1));
    }
}
