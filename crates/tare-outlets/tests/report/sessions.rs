//! The active sessions of a report, from snapshots written by hand.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use tare_outlets::report::{self, Report, When, html};

use super::{between, by_hand, figure, row};

/// A snapshot written by hand with rows of the active session history: seconds after 03:04:00, thread, class,
/// microseconds.
fn with_sessions(folder: &Path, second: u32, name: &str, rows: &[(u32, u32, &str, u64)]) -> PathBuf {
    with_status(folder, second, name, rows, &[])
}

/// The same with rows of `tare_status`.
fn with_status(
    folder: &Path,
    second: u32,
    name: &str,
    rows: &[(u32, u32, &str, u64)],
    status: &[(&str, &str)],
) -> PathBuf {
    let path = folder.join(format!("sessions-{second}.jsonl"));
    let at = format!("2026-01-02T03:04:{second:02}.000Z");
    let history = "tare_active_session_history";
    let column = |(name, kind): (&str, &str)| serde_json::json!({"name": name, "type": kind});
    let columns: Vec<Json> = [
        ("SAMPLE_TIME", "text"),
        ("USECS_PER_ROW", "unsigned"),
        ("THREAD_ID", "unsigned"),
        ("PROCESSLIST_ID", "unsigned"),
        ("USER", "text"),
        ("SCHEMA_NAME", "text"),
        ("DIGEST", "text"),
        ("STATE", "text"),
        ("WAIT_CLASS", "text"),
        ("WAIT_EVENT", "text"),
        ("OBJECT_NAME", "text"),
        ("BLOCKING_THREAD_ID", "unsigned"),
        ("BLOCKING_PROCESSLIST_ID", "unsigned"),
    ]
    .map(column)
    .into();
    let row = |(second, thread, class, us): &(u32, u32, &str, u64)| {
        let is_waiting = *class != "CPU";
        serde_json::json!({"table": history, "row": {
            "SAMPLE_TIME": format!("2026-01-02 03:04:{second:02}.500000"), "USECS_PER_ROW": us, "THREAD_ID": thread,
            "PROCESSLIST_ID": thread + 100, "USER": name, "SCHEMA_NAME": name, "DIGEST": name,
            "STATE": if is_waiting { "WAITING" } else { "ON CPU" }, "WAIT_CLASS": class,
            "WAIT_EVENT": is_waiting.then_some(name), "OBJECT_NAME": is_waiting.then_some(name),
            "BLOCKING_THREAD_ID": is_waiting.then_some(7), "BLOCKING_PROCESSLIST_ID": is_waiting.then_some(107),
        }})
    };
    let mut lines = vec![
        serde_json::json!({"snapshot": {"format": 1, "tare": "0.1.0", "taken_at": at, "address": "db1",
            "provider": "tare", "version": "10.11.19", "started_at": null, "text": true}}),
        serde_json::json!({"table": "events_statements_summary_by_digest", "columns":
            [column(("SCHEMA_NAME", "text")), column(("DIGEST", "text")), column(("DIGEST_TEXT", "text"))]}),
        serde_json::json!({"table": "events_statements_summary_by_digest", "row":
            {"SCHEMA_NAME": name, "DIGEST": name, "DIGEST_TEXT": name}}),
        serde_json::json!({"table": "events_statements_summary_by_digest", "read_at": at, "seconds": 0.1, "rows": 1}),
        serde_json::json!({"table": history, "columns": columns}),
    ];
    lines.extend(rows.iter().map(row));
    lines.extend([
        serde_json::json!({"table": history, "read_at": at, "seconds": 0.1, "rows": rows.len()}),
        serde_json::json!({"table": "tare_status", "columns": [column(("NAME", "text")), column(("VALUE", "text"))]}),
        serde_json::json!({"table": "tare_status", "row": {"NAME": "processors", "VALUE": "2"}}),
    ]);
    lines.extend(status.iter().map(
        |(name, value)| serde_json::json!({"table": "tare_status", "row": {"NAME": name, "VALUE": value}}),
    ));
    lines.extend([
        serde_json::json!({"table": "tare_status", "read_at": at, "seconds": 0.1, "rows": 1 + status.len()}),
        serde_json::json!({"end": {"tables": 3, "rows": rows.len() + 2, "unread": 0}}),
    ]);
    let lines: Vec<String> = lines.iter().map(|line| line.to_string() + "\n").collect();
    fs::write(&path, lines.concat()).expect("written");
    path
}

/// Rows of thirty seconds: a session on a processor, and from second 10 on two that wait for it.
fn sessions_until(end: u32) -> Vec<(u32, u32, &'static str, u64)> {
    let at = |second: u32| {
        let mut rows = vec![(second, 7, "CPU", 1_000_017)];
        rows.extend(
            (second >= 10)
                .then_some([(second, 8, "ROW LOCK", 999_999), (second, 9, "ROW LOCK", 1_000_001)])
                .into_iter()
                .flatten(),
        );
        rows
    };
    (0..end).flat_map(at).collect()
}

fn when(from: &str, to: &str) -> When {
    let moment = |text: &str| (!text.is_empty()).then(|| text.parse().expect("a time"));
    When { from: moment(from), to: moment(to) }
}

/// Returns the time of a chart's columns by group, in microseconds, from their averages.
fn area(chart: &Json, group: &str) -> f64 {
    let columns = chart["columns"].as_array().expect("columns").iter();
    columns
        .map(|it| {
            it["sessions"][group].as_f64().expect("sessions") * it["seconds"].as_f64().expect("seconds") * 1e6
        })
        .sum()
}

#[test]
fn areas_of_the_chart_are_the_time_of_the_rows_between_the_snapshots() {
    let folder = tempfile::tempdir().expect("a folder");
    // Both snapshots have the history from its beginning: no row counts twice, and none from before the
    // first.
    let first = with_sessions(folder.path(), 5, "x", &sessions_until(5));
    let last = with_sessions(folder.path(), 30, "x", &sessions_until(30));
    let (_, json) = between(&first, &last);
    let section = &json["sections"][0];
    assert_eq!(section["key"], "sessions");
    let chart = &section["chart"];
    assert_eq!(chart["processors"], 2);
    // Half of the time of the first row lies before the first snapshot.
    let (cpu, locks) = (24.0 * 1_000_017.0 + 500_000.0, 20.0 * 2_000_000.0);
    for (group, us) in [("cpu", cpu), ("row locks", locks), ("other", 0.0)] {
        assert!((area(chart, group) - us).abs() < 1e-3, "{group}: {}", area(chart, group));
    }
    let class =
        |name| row(&json, "session_classes", "class", name).expect("a class")["total_seconds"].as_f64();
    assert_eq!([class("CPU"), class("ROW LOCK")], [Some(cpu / 1e6), Some(locks / 1e6)]);
    assert_eq!(figure(&json, "active_sessions").as_f64(), Some((cpu + locks) / 1e6 / 25.0));
}

#[test]
fn the_chart_and_every_table_have_the_same_time_in_any_stretch() {
    let folder = tempfile::tempdir().expect("a folder");
    // The last row came late: it stands for 9.5 seconds.
    let rows = [sessions_until(30), vec![(39, 8, "FILE IO", 9_500_000)]].concat();
    let file = report::read(&with_sessions(folder.path(), 45, "x", &rows)).expect("a snapshot");
    for (from, to) in [("00.000", "45.000"), ("05.000", "15.000"), ("10.123", "10.321"), ("09.499", "33.333")]
    {
        let when = when(&format!("03:04:{from}"), &format!("03:04:{to}"));
        let json = serde_json::to_value(Report::of_sessions(&file, when).expect("a report")).expect("JSON");
        let [from, to] = [from, to].map(|second| second.parse::<f64>().expect("seconds"));
        let inside = |(second, _, _, us): &(u32, u32, &str, u64)| {
            let at = f64::from(*second) + 0.5;
            #[allow(clippy::cast_precision_loss)] // small
            let begin = at - *us as f64 / 1e6;
            (at.min(to) - begin.max(from)).max(0.0)
        };
        let expected: f64 = rows.iter().map(inside).sum();
        let section = &json["sections"][0];
        let drawn =
            ["cpu", "row locks", "file I/O"].map(|group| area(&section["chart"], group)).iter().sum::<f64>();
        assert!((drawn / 1e6 - expected).abs() < 1e-3, "{from} to {to}: {drawn} and {expected}");
        for table in section["tables"].as_array().expect("tables") {
            let times = table["rows"].as_array().expect("rows").iter();
            let sum: f64 = times.map(|row| row["total_seconds"].as_f64().expect("a time")).sum();
            let waited = rows.iter().filter(|(_, _, class, _)| *class != "CPU").map(inside).sum();
            let expected = if table["key"] == "session_blockers" { waited } else { expected };
            assert!((sum - expected).abs() < 1e-3, "{from} to {to}, {}: {sum} and {expected}", table["key"]);
        }
        let average = figure(&json, "active_sessions").as_f64().expect("a figure");
        assert!((average - expected / (to - from)).abs() < 1e-3, "{from} to {to}: {average}");
    }
}

#[test]
fn a_stretch_has_the_time_in_it_and_no_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = report::read(&with_sessions(folder.path(), 30, "x", &sessions_until(30))).expect("a snapshot");
    let of = |from: &str, to: &str| {
        let report = Report::of_sessions(&file, when(from, to)).expect("a report");
        let page = html::page(&report);
        assert!(page.contains("<svg class=\"sessions\""), "a chart");
        serde_json::to_value(&report).expect("JSON")
    };
    let json = of("03:04:05", "03:04:15");
    assert_eq!(json["seconds"], 10.0);
    let blocker = row(&json, "session_blockers", "connection", "107").expect("a blocker");
    // The first of these samples is that of 10.5; half of the last one's time lies behind the stretch.
    assert_eq!([&blocker["total_seconds"], &blocker["waiting"]], [&Json::from(11.0), &Json::from(2)]);
    assert_eq!(blocker["digest_text"], "x", "what it ran");
    let session = row(&json, "sessions", "connection", "107").expect("a session");
    assert_eq!(session["total_seconds"].as_f64(), Some(10.00017));
    let wait = row(&json, "session_waits", "what", "x").expect("a wait");
    assert_eq!([&wait["class"], &wait["object"]], ["ROW LOCK", "x"]);
    let json = of("", "");
    assert_eq!(
        row(&json, "session_classes", "class", "CPU").expect("a class")["total_seconds"].as_f64(),
        Some(30.00051)
    );
    let json = of("10s", "");
    assert_eq!(row(&json, "session_statements", "digest_text", "x").expect("a statement")["threads"], 3);
    let none = |from, to| Report::of_sessions(&file, when(from, to)).expect_err("nothing");
    let error = none("05:00", "06:00");
    assert!(
        error.contains("no session was active from 2026-01-01 05:00:00") && error.contains("03:04:29"),
        "{error}"
    );
    assert!(none("03:04:20", "2026-01-02 03:04:10").contains("is not before"));
}

#[test]
fn what_was_overwritten_or_left_out_is_no_idle_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = with_sessions(folder.path(), 5, "x", &sessions_until(5));
    let late: Vec<_> = sessions_until(30).into_iter().filter(|row| row.0 >= 20).collect();
    let of = |rows: &str, most: &str| {
        let status = [("ash_rows", rows), ("ash_rows_max", most)];
        between(&first, &with_status(folder.path(), 30, "x", &late, &status)).1["sections"][0].clone()
    };
    // Seconds 4.5 to 19.5 are missing, from which on the average counts: the history is full, or has more
    // rows.
    for (rows, most) in [("30", "30"), ("90", "1000")] {
        let section = of(rows, most);
        let note = section["note"].as_str().expect("a note");
        assert!(note.contains("no rows from 2026-01-02 03:04:05 to 2026-01-02 03:04:19"), "{note}");
        let columns = section["chart"]["columns"].as_array().expect("columns");
        assert!(
            columns[0]["from"].as_str().expect("a time").starts_with("2026-01-02T03:04:19.499"),
            "{}",
            columns[0]
        );
    }
    // All rows are there: nobody was active before.
    let section = of("30", "1000");
    assert!(!section["note"].as_str().expect("a note").contains("no rows from"));
}

#[test]
fn names_of_sessions_are_no_markup() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = "</text><script>alert('\"&')</script>\u{202e}é";
    let file = with_sessions(folder.path(), 30, name, &sessions_until(30));
    let report =
        Report::of_sessions(&report::read(&file).expect("a snapshot"), When::default()).expect("a report");
    let page = html::page(&report);
    for word in ["<script", "\u{202e}", "http:", " src=", "url(", "NaN", "Infinity"] {
        assert!(!page.contains(word), "{word}");
    }
    assert!(page.contains("<code>&lt;/text&gt;&lt;script&gt;alert"), "{page}");
    let without = by_hand(folder.path(), 1, "x", 5);
    let error = Report::of_sessions(&report::read(&without).expect("a snapshot"), When::default());
    assert!(error.expect_err("no history").contains("no rows of tare_active_session_history"));
}
