use std::io::Write;

use super::*;
use crate::ash::columns::{COLUMNS, DIGEST_COLUMNS, DIGESTS, LATE_COLUMNS};
use crate::snapshot::Type;

fn header(taken_at: &str) -> String {
    let header = Header {
        format: 1,
        tare: "0".into(),
        taken_at: taken_at.into(),
        address: "db1".into(),
        provider: "mysql".into(),
        version: "9".into(),
        started_at: None,
        text: false,
        history: true,
    };
    serde_json::to_string(&Line::Header { snapshot: header }).expect("JSON") + "\n"
}

/// Header, heads and rows of these times.
fn segment(taken_at: &str, times: &[&str]) -> String {
    let line = |head| serde_json::to_string(&Line::Head(head)).expect("JSON") + "\n";
    let mut text = header(taken_at);
    text += &line(head(DIGESTS, &DIGEST_COLUMNS));
    text += &line(head(HISTORY, &COLUMNS));
    for time in times {
        text += &format!(
            "{{\"table\":\"{DIGESTS}\",\"row\":{{\"DIGEST\":\"d\",\"DIGEST_TEXT\":\"{taken_at}\"}}}}\n"
        );
        text += &row(time);
    }
    text
}

fn row(time: &str) -> String {
    format!(
        "{{\"table\":\"{HISTORY}\",\"row\":{{\"SAMPLE_TIME\":\"{time}\",\"USECS_PER_ROW\":1000000,\"THREAD_ID\":7}}}}\n"
    )
}

/// Times of the rows of the history.
fn times(path: &Path) -> Result<Vec<String>, Error> {
    let read = read(path, &|_, _| true)?;
    let rows = &read.table(HISTORY).expect("the table").rows;
    Ok(rows.iter().map(|row| row[0].text().expect("a time").to_owned()).collect())
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).expect("written");
}

#[test]
fn files_are_read_from_the_oldest_to_the_youngest() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let path = at("ash.jsonl");
    assert!(read(&path, &|_, _| true).is_err(), "there is none");
    for (name, taken, time) in [
        ("ash.jsonl.10", "a", "1"),
        ("ash.jsonl.2", "b", "2"),
        ("ash.jsonl.1", "c", "3"),
        ("ash.jsonl", "d", "4"),
    ] {
        write(&at(name), &segment(taken, &[time]));
    }
    // These are none of it.
    write(&at("ash.jsonl.01"), "x");
    write(&at("ash.jsonl.gz"), "x");
    write(&at("other.jsonl.3"), "x");
    assert_eq!(times(&path).expect("a history"), ["1", "2", "3", "4"]);
    assert_eq!(times(&at("ash.jsonl.2")).expect("one of them"), ["2"]);
    let whole = read(&path, &|head, _| head.table == DIGESTS).expect("a history");
    assert_eq!(whole.header.taken_at, "d", "the youngest");
    let texts = &whole.table(DIGESTS).expect("texts").rows;
    let text = |text: &str| Value::Text(text.into());
    assert_eq!(*texts, [vec![Value::Null, text("d"), text("d")]], "each once, the last one counts");
    assert_eq!(whole.table(HISTORY).expect("the table").rows.len(), 0, "not wanted");
    // Rotation has renamed the youngest, and not begun another one.
    fs::rename(&path, at("ash.jsonl.0")).expect("renamed");
    assert_eq!(times(&path).expect("a history"), ["1", "2", "3", "4"]);
    write(&path, "");
    assert_eq!(times(&path).expect("an empty one"), ["1", "2", "3", "4"]);
}

#[test]
fn a_cut_file_is_read_up_to_its_last_whole_row_at_every_length() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ash");
    let whole = segment("a", &["1", "2"]);
    let begin = header("a").len();
    let is_tried = |cut: &usize| cut.is_multiple_of(7) || whole[..*cut].ends_with(['}', '\n']);
    for cut in (begin - 1..whole.len()).filter(is_tried) {
        write(&path, &whole[..cut]);
        let complete = whole[..cut].matches(HISTORY).count();
        let read = times(&path).unwrap_or_else(|error| panic!("{cut}: {error}"));
        assert!(read.len() <= complete && read.len() + 2 >= complete, "{cut}: {read:?}");
        assert_eq!(read, ["1", "2"][..read.len()], "{cut}");
        // What goes on after a power loss begins a line and a header.
        let mut file = fs::OpenOptions::new().append(true).open(&path).expect("the file");
        let nothing = ["", "\0\0\0"][cut % 2];
        write!(file, "{nothing}\n{}", segment("b", &["3"])).expect("written");
        let expected: Vec<&str> = read.iter().map(String::as_str).chain(["3"]).collect();
        assert_eq!(times(&path).unwrap_or_else(|error| panic!("{cut}: {error}")), expected, "{cut}");
    }
    // Of a header that was cut nothing is left; the others are read.
    for cut in (0..begin - 2).step_by(5) {
        write(&path, &format!("{}\n{}", &whole[..cut], segment("b", &["3"])));
        assert_eq!(times(&path).unwrap_or_else(|error| panic!("{cut}: {error}")), ["3"]);
    }
}

#[test]
fn what_is_wrong_in_the_middle_is_an_error_with_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ash");
    for (text, said) in [
        (segment("a", &["1"]) + "{\"table\"\n" + &row("2"), "line 6: no line of a history"),
        (header("a") + &row("1"), "line 2: a row of tare_active_session_history, which has not begun"),
        (
            segment("a", &[]) + &row("1").replace("1000000", "\"x\""),
            "line 4: tare_active_session_history.USECS_PER_ROW: no such value",
        ),
    ] {
        write(&path, &text);
        let error = times(&path).expect_err(said).to_string();
        assert!(error.contains(said), "{error}");
        let mut reader = HistoryReader::open(&path).expect("it begins well");
        assert!(reader.by_ref().any(|row| row.is_err()) && reader.next().is_none());
    }
}

#[test]
fn a_digest_that_comes_late_is_filled_in() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ash");
    let line = |head| serde_json::to_string(&Line::Head(head)).expect("JSON") + "\n";
    let row = |event: u64| {
        row("1").replace("\"THREAD_ID\":7", &format!("\"THREAD_ID\":7,\"STATEMENT_EVENT_ID\":{event}"))
    };
    let late = |event: u64| {
        format!(
            "{{\"table\":\"{LATE}\",\"row\":{{\"THREAD_ID\":7,\"EVENT_ID\":{event},\"DIGEST\":\"of {event}\"}}}}\n"
        )
    };
    let heads = line(head(LATE, &LATE_COLUMNS)) + &line(head(HISTORY, &COLUMNS));
    let again = header("b").replace("\"started_at\":null", "\"started_at\":\"later\"");
    // The same numbers are other statements after a restart.
    write(
        &path,
        &[
            header("a"),
            heads.clone(),
            row(5),
            row(5),
            row(6),
            late(5),
            late(9),
            again,
            heads,
            late(6),
            row(5),
        ]
        .concat(),
    );
    let read = read(&path, &|_, _| true).expect("a history");
    let digests: Vec<_> =
        read.table(HISTORY).expect("the table").rows.iter().map(|row| row[place("DIGEST")].text()).collect();
    assert_eq!(digests, [Some("of 5"), Some("of 5"), None, None]);
    assert!(read.table(LATE).is_none());
}

#[test]
fn a_snapshot_is_no_history_and_is_read_as_what_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("snapshot.jsonl");
    let end = "{\"end\":{\"tables\":0,\"rows\":0,\"unread\":0}}\n";
    write(&path, &(header("a").replace(",\"history\":true", "") + end));
    assert!(!is_history(&path));
    assert_eq!(read(&path, &|_, _| true).expect("a snapshot").tables.len(), 0);
    write(&path, &(header("a") + end));
    assert!(is_history(&path) && times(&path).expect("a history").is_empty());
}

#[test]
fn the_columns_are_those_of_tares_own_table() {
    let all = tare_tables::TABLES.iter().chain(tare_tables::FURTHER);
    let declared = all.copied().find(|table| table.name() == HISTORY).expect("declared");
    let declared: Vec<(&str, Type)> = declared
        .columns()
        .iter()
        .map(|column| {
            let is_number = column.sql_type == tare_tables::SqlType::BigIntUnsigned;
            (column.name, if is_number { Type::Unsigned } else { Type::Text })
        })
        .collect();
    assert_eq!(declared, COLUMNS);
}
