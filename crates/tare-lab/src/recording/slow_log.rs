//! Slow logs: MariaDB's, MySQL's, and what `tare slowlog` writes, in either of its forms.
//!
//! MariaDB's says when a statement ended in whole seconds, so statements of a second are spread over it evenly, in their order;
//! MySQL's and JSON say it to the microsecond. A statement began when it ended less what it took.

use std::io::BufRead;

use serde::Deserialize;

use super::line::lines;
use super::moment::{Moment, Spread, moment_of};
use super::take::{Sighting, Take};

/// What a record's statement is when it is none.
const COMMAND: &[u8] = b"# administrator command: ";

/// Why a statement is not there that `tare slowlog` could not read any more.
const LOST: &str = "the log lacks them";

/// Reads a log; `None` if it is no slow log.
pub fn read(mut log: impl BufRead) -> std::io::Result<Option<Take>> {
    if log.fill_buf()?.first() == Some(&b'{') { read_json(log) } else { read_text(log) }
}

/// A record while it is read.
#[derive(Debug, Default)]
struct Record {
    connection: u64,
    seen: Sighting,
    /// When it ended, if its beginning says so to the microsecond.
    ended: Option<Moment>,
    /// The whole second in which it ended, by its `SET timestamp`.
    second: Option<f64>,
    /// Statements that are missing before it.
    lost: u64,
    /// Whether it was part of a stored program.
    inner: bool,
    /// Whether the lines that describe it are over.
    in_text: bool,
}

/// What a log has said so far.
#[derive(Debug, Default)]
struct Reader {
    take: Take,
    spread: Spread<Sighting>,
    /// The last `# Time:`; MariaDB writes it once for all records of a second.
    time: Option<Moment>,
    /// The last `use`.
    schema: Option<String>,
    record: Option<Record>,
}

fn read_text(log: impl BufRead) -> std::io::Result<Option<Take>> {
    let (mut reader, mut is_slow_log, mut in_banner) = (Reader::default(), false, false);
    for line in log.split(b'\n') {
        let line = line?;
        if let Some(time) = line.strip_prefix(b"# Time: ") {
            (is_slow_log, in_banner) = (true, false);
            reader.end_record();
            reader.time = moment_of(&String::from_utf8_lossy(time));
        } else if line.starts_with(b"# User@Host: ") {
            (is_slow_log, in_banner) = (true, false);
            reader.end_record();
            reader.begin_record(&line);
        } else if line.ends_with(b"started with:") && line.windows(11).any(|part| part == b", Version: ") {
            reader.end_record();
            reader.take.end_all();
            in_banner = true;
        } else if !in_banner {
            reader.line(&line);
        }
    }
    reader.end_record();
    let rest = reader.spread.rest();
    reader.place(rest);
    Ok(is_slow_log.then_some(reader.take))
}

impl Reader {
    fn begin_record(&mut self, line: &[u8]) {
        let exact = self.time.filter(|time| matches!(time, Moment::Exact(_)));
        let connection = number_behind(line, "Id:").unwrap_or(0.0);
        let mut record = Record { ended: exact, ..Record::default() };
        record.connection = as_number(connection);
        self.record = Some(record);
    }

    fn line(&mut self, line: &[u8]) {
        let Some(record) = &mut self.record else { return };
        if record.in_text {
            if !record.seen.text.is_empty() {
                record.seen.text.push(b'\n');
            }
            record.seen.text.extend_from_slice(line);
        } else if line.starts_with(b"#") && !line.starts_with(COMMAND) {
            record.describe(line);
        } else if let Some(second) = timestamp_of(line) {
            record.second = Some(second);
            record.in_text = true;
        } else if line.starts_with(b"use ") {
            self.schema = super::token::used_schema(&String::from_utf8_lossy(line));
        } else {
            record.in_text = true;
            record.seen.text.extend_from_slice(line);
        }
    }

    fn end_record(&mut self) {
        let Some(mut record) = self.record.take() else { return };
        if record.lost > 0 {
            self.take.leave_out(LOST, record.lost);
        }
        if record.inner {
            return; // the CALL that it is part of is there, too
        }
        if let Some(command) = record.seen.text.strip_prefix(COMMAND) {
            if command.starts_with(b"Quit") {
                self.take.end(record.connection);
            } else if command.starts_with(b"Execute") {
                self.take.leave_out_execution();
            }
            return;
        }
        if !record.is_whole() {
            return self.take.leave_out_cut();
        }
        record.seen.schema = record.seen.schema.or_else(|| self.schema.clone());
        let by_second = record.second.map(Moment::Second);
        let Some(ended) = record.ended.or(by_second).or(self.time) else {
            return self.take.leave_out("when they ran is not told", 1);
        };
        record.seen.session = self.take.session(record.connection);
        let placed = self.spread.add(ended, record.seen);
        self.place(placed);
    }

    fn place(&mut self, placed: Vec<(f64, Sighting)>) {
        for (ended, seen) in placed {
            self.take.add(ended - seen.took.unwrap_or(0.0), seen);
        }
    }
}

impl Record {
    /// Whether its text is: servers write `;` behind it, and a log may be cut off before.
    fn is_whole(&self) -> bool {
        self.seen.text.trim_ascii_end().ends_with(b";")
    }

    /// Reads `# Thread_id: 8  Schema: shop  QC_hit: No` and its like.
    fn describe(&mut self, line: &[u8]) {
        if let Some(connection) = number_behind(line, "Thread_id:") {
            self.connection = as_number(connection);
        }
        if let Some(took) = number_behind(line, "Query_time:") {
            self.seen.took = Some(took);
        }
        let text = String::from_utf8_lossy(line);
        if let Some((_, behind)) = text.split_once("Schema: ") {
            let schema = behind.split("  ").next().unwrap_or_default().trim_end();
            self.seen.schema = Some(schema.to_owned());
        }
        self.inner |= text.starts_with("# Stored_routine: ");
        if let Some(lost) = number_behind(line, "# Lost:") {
            self.lost = as_number(lost);
        }
    }
}

/// Reads `SET timestamp=1795427669;`, which may also set `last_insert_id` and `insert_id`.
fn timestamp_of(line: &[u8]) -> Option<f64> {
    let set = std::str::from_utf8(line).ok()?.strip_prefix("SET ")?.strip_suffix(';')?;
    let (before, value) = set.rsplit_once("timestamp=")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "_=,".contains(c);
    before.chars().all(plain).then(|| value.parse().ok())?
}

/// The number behind a word.
fn number_behind(line: &[u8], word: &str) -> Option<f64> {
    let text = std::str::from_utf8(line).ok()?;
    text.split_once(word)?.1.split_whitespace().next()?.parse().ok()
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // numbers of connections
fn as_number(number: f64) -> u64 {
    number as u64
}

/// A line of `tare slowlog --format json`, as far as it matters.
#[derive(Deserialize)]
struct Line {
    time: String,
    thread_id: u64,
    connection_id: Option<u64>,
    schema: Option<String>,
    event_name: String,
    query_time_s: Option<f64>,
    level: u64,
    text: Option<String>,
    #[serde(default)]
    lost_before: u64,
}

fn read_json(log: impl BufRead) -> std::io::Result<Option<Take>> {
    let (mut take, mut is_slow_log) = (Take::default(), false);
    for line in lines(log) {
        let line = line?;
        if line.text.is_empty() {
            continue;
        }
        let is_cut = is_slow_log && !line.is_whole;
        let line = match serde_json::from_slice::<Line>(&line.text) {
            Ok(line) => line,
            Err(_) if is_cut => {
                take.leave_out_cut();
                break;
            }
            Err(_) => return Ok(None),
        };
        is_slow_log = true;
        let Some(Moment::Exact(ended)) = moment_of(&line.time) else { return Ok(None) };
        let connection = line.connection_id.unwrap_or(line.thread_id);
        if line.lost_before > 0 {
            take.leave_out(LOST, line.lost_before);
        }
        if line.event_name == "statement/com/Quit" {
            take.end(connection);
        }
        // Parts of stored programs come with the CALL; commands have no text.
        let (is_inner, event) = (line.level > 0, line.event_name.as_str());
        let Some(text) = line.text.filter(|_| !is_inner && event != "statement/com/Prepare") else {
            if event == "statement/com/Execute" {
                take.leave_out_execution();
            }
            continue;
        };
        let session = take.session(connection);
        let seen =
            Sighting { session, took: line.query_time_s, schema: line.schema, text: text.into_bytes() };
        take.add(ended - seen.took.unwrap_or(0.0), seen);
    }
    Ok(Some(take))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::recording::Recording;

    fn recording(log: &str) -> Recording {
        read(log.as_bytes()).expect("it is read").expect("a slow log").finish("a test".into(), true)
    }

    fn texts(recording: &Recording) -> Vec<(u32, Option<&str>, &str)> {
        recording.statements.iter().map(|s| (s.session, s.schema.as_deref(), s.text.as_str())).collect()
    }

    const MARIADB: &str = "/usr/sbin/mariadbd, Version: 10.11.19-MariaDB-log (Debian 12). started with:
Tcp port: 0  Unix socket: /tmp/s
Time\t\t    Id Command\tArgument
# Time: 261123  9:54:29
# User@Host: root[root] @ localhost []
# Thread_id: 3  Schema: a shop  QC_hit: No
# Query_time: 0.000290  Lock_time: 0.000000  Rows_sent: 0  Rows_examined: 0
# Rows_affected: 1  Bytes_sent: 11
use `a shop`;
SET last_insert_id=5,insert_id=7,timestamp=1795427669;
insert into t values('x
# y'),
(';');
# User@Host: root[root] @ localhost []
# Thread_id: 4  Schema:   QC_hit: No
# Query_time: 2.000000  Lock_time: 0.000000  Rows_sent: 1  Rows_examined: 2
# Full_scan: Yes  Full_join: No  Tmp_table: No  Tmp_table_on_disk: No
SET timestamp=1795427669;
SET timestamp=1;
# User@Host: root[root] @ localhost []
# Thread_id: 4  Schema:   QC_hit: No
# Query_time: 0.000001  Lock_time: 0.000000  Rows_sent: 1  Rows_examined: 2
# Stored_routine: shop.p
SET timestamp=1795427669;
select inner;
# User@Host: root[root] @ localhost []
# Thread_id: 3  Schema: a shop  QC_hit: No
# Query_time: 0.000000  Lock_time: 0.000000  Rows_sent: 0  Rows_examined: 0
SET timestamp=1795427669;
# administrator command: Quit;
# Time: 261123  9:54:31
# User@Host: root[root] @ localhost []
# Thread_id: 3  Schema: b  QC_hit: No
# Query_time: 0.000100  Lock_time: 0.000000  Rows_sent: 1  Rows_examined: 2
SET timestamp=1795427671;
select 5;
/usr/sbin/mariadbd, Version: 10.11.19-MariaDB-log (Debian 12). started with:
Tcp port: 0  Unix socket: /tmp/s
Time\t\t    Id Command\tArgument
";

    #[test]
    fn mariadbs_log_is_read() {
        let recording = recording(MARIADB);
        assert_eq!(
            texts(&recording),
            [
                (1, None, "SET timestamp=1"),
                (2, Some("a shop"), "insert into t values('x\n# y'),\n(';')"),
                (3, Some("b"), "select 5"),
            ]
        );
        // Two ended in one second: after a quarter of it and after three.
        let at: Vec<f64> = recording.statements.iter().map(|s| s.at).collect();
        assert_eq!(recording.begun, Some(1_795_427_667.75));
        assert_eq!(at, [0.0, 1.49971, 3.7499], "{at:?}");
    }

    #[test]
    fn mysqls_log_is_read() {
        let log = "/usr/sbin/mysqld, Version: 8.0.36 (MySQL Community Server - GPL). started with:
Tcp port: 3306  Unix socket: /tmp/s
Time                 Id Command    Argument
# Time: 2026-11-23T09:54:29.250000Z
# User@Host: app[app] @ web1 [10.0.0.7]  Id:    12
# Query_time: 0.125000  Lock_time: 0.000002 Rows_sent: 1  Rows_examined: 1
use shop;
SET timestamp=1795427669;
select 'it''s';
# Time: 2026-11-23T09:54:29.500000Z
# User@Host: app[app] @ web1 [10.0.0.7]  Id:    13
# Query_time: 0.100000  Lock_time: 0.000002 Rows_sent: 1  Rows_examined: 1
SET timestamp=1795427669;
commit;
# Time: 2026-11-23T09:54:29.600000Z
# User@Host: app[app] @ web1 [10.0.0.7]  Id:    12
# Query_time: 0.000100  Lock_time: 0.000002 Rows_sent: 1  Rows_examined: 1
SET timestamp=1795427669;
# administrator command: Execute;
";
        let recording = recording(log);
        assert_eq!(texts(&recording), [(1, Some("shop"), "select 'it''s'"), (2, Some("shop"), "commit")]);
        assert_eq!((recording.statements[1].at, recording.statements[1].took), (0.275, Some(0.1)));
        assert_eq!(recording.left_out.values().sum::<u64>(), 1);
    }

    #[test]
    fn tares_log_is_read_in_both_forms() {
        let slow = "# Time: 261123  9:54:29
# User@Host: app[app] @ localhost []
# Thread_id: 8  Schema: shop  QC_hit: No
# Query_time: 0.000290  Lock_time: 0.000000  Rows_sent: 0  Rows_examined: 0
# Rows_affected: 1
# Lost: 3
use shop;
SET timestamp=1795427669;
select 'long...;
# User@Host: app[app] @ localhost []
# Thread_id: 8  Schema: shop  QC_hit: No
# Query_time: 0.000290  Lock_time: 0.000000  Rows_sent: 0  Rows_examined: 0
# Rows_affected: 1
SET timestamp=1795427669;
select 1;
";
        let recorded = recording(slow);
        assert_eq!(texts(&recorded), [(1, Some("shop"), "select 1")]);
        assert_eq!(
            recorded.left_out.values().copied().collect::<Vec<_>>(),
            [3, 1],
            "lost ones and a cut one"
        );
        let line = |text: &str, event: &str, level: u32, lost: u32| {
            format!(
                "{{\"time\":\"2026-11-23T09:54:29.250000Z\",\"thread_id\":40,\"connection_id\":8,\"schema\":\"shop\",\
                 \"event_name\":\"{event}\",\"query_time_s\":0.25,\"level\":{level},{text}\"lost_before\":{lost}}}\n"
            )
        };
        let json = [
            line("\"text\":\"call p()\",", "statement/sql/call_procedure", 0, 2),
            line("\"text\":\"select 1\",", "statement/sp/stmt", 1, 0),
            line("", "statement/com/Execute", 0, 0),
            line("", "statement/com/Ping", 0, 0),
        ];
        let recorded = recording(&json.concat());
        assert_eq!(texts(&recorded), [(1, Some("shop"), "call p()")]);
        assert_eq!((recorded.begun, recorded.left_out.values().sum::<u64>()), (Some(1_795_427_669.0), 3));
    }

    #[test]
    fn the_last_statement_of_a_log_that_is_cut_off_is_left_out() {
        let record = "# User@Host: app[app] @ localhost []
# Thread_id: 8  Schema: shop  QC_hit: No
# Query_time: 0.000290  Lock_time: 0.000000  Rows_sent: 0  Rows_examined: 0
SET timestamp=1795427669;
";
        let log = format!(
            "# Time: 261123  9:54:29\n{record}select 1;\n{record}delete from orders\nwhere id = 7;\n{record}select 2;\n"
        );
        let whole = ["select 1", "delete from orders\nwhere id = 7", "select 2"];
        for end in 0..=log.len() {
            let Some(take) = read(&log.as_bytes()[..end]).expect("it is read") else { continue };
            let recording = take.finish("a test".into(), true);
            let texts: Vec<&str> = recording.statements.iter().map(|s| s.text.as_str()).collect();
            assert!(whole.starts_with(&texts), "{:?}: {texts:?}", &log[..end]);
        }
        let cut = recording(log.split_once("where").expect("a condition").0);
        assert_eq!(texts(&cut), [(1, Some("shop"), "select 1")]);
        assert_eq!(cut.left_out, BTreeMap::from([("their text was cut short".to_owned(), 1)]));
        assert_eq!(texts(&recording(&log)).len(), 3);
    }

    #[test]
    fn the_last_half_line_of_json_is_left_out() {
        let line = |text: &str| {
            format!(
                "{{\"time\":\"2026-11-23T09:54:29.250000Z\",\"thread_id\":8,\"event_name\":\"statement/sql/x\",\"level\":0,\
                 \"text\":\"{text}\"}}"
            )
        };
        let (first, last) = (line("select 1") + "\n", line("delete from orders where id = 7"));
        for end in 1..last.len() {
            let cut = recording(&format!("{first}{}", &last[..end]));
            assert_eq!(texts(&cut), [(1, None, "select 1")]);
            assert_eq!(cut.left_out, BTreeMap::from([("their text was cut short".to_owned(), 1)]));
        }
        assert_eq!(texts(&recording(&format!("{first}{last}"))).len(), 2, "all of it is there but its end");
        for damaged in [format!("{first}{}\n{last}", &last[..20]), last[..20].to_owned()] {
            assert!(read(damaged.as_bytes()).expect("it is read").is_none(), "{damaged}");
        }
    }

    #[test]
    fn another_file_is_no_slow_log() {
        for other in ["", "select 1;\n", "{\"a\":1}\n", "\u{0}\u{1}\n# Timeless\n"] {
            assert!(read(other.as_bytes()).expect("it is read").is_none(), "{other:?}");
        }
    }
}
