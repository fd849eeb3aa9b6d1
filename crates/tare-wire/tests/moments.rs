//! Digests asked for at one moment: lists, sums and counts together are what each of them is alone.

#![allow(clippy::unwrap_used)] // in a test a failure is a panic

mod fixture;

use fixture::*;
use tare_engine::Config;
use tare_rig::{Rig, small};
use tare_tables::Shape;

const TABLE: &str = "events_statements_summary_by_digest";

/// Forty digests, of which each was seen once more than the one before, and of fifty there is room for all.
fn filled(extended: bool) -> Rig {
    let rig = Rig::with(Config { digests_size: 50, extended, ..small() });
    let thread = rig.thread();
    rig.on(thread, || {
        for digest in 0..40_usize {
            for _ in 0..=digest {
                rig.query(&format!("SELECT {}", "a, ".repeat(digest)));
            }
        }
    });
    rig
}

fn served_of(rig: &Rig, shape: Shape) -> Served {
    served_with(|config| {
        config.engine = rig.engine;
        config.tables = shape.served();
    })
}

type Rows = Vec<Vec<Option<String>>>;

#[test]
fn parts_of_one_moment_are_what_each_is_alone() {
    for (shape, extended) in [(Shape::Strict, false), (Shape::Extended, true)] {
        let rig = filled(extended);
        let served = served_of(&rig, shape);
        let mut client = served.client();
        let mut ask = |sql: &str| -> Rows { rows(&mut client, sql) };
        let quantile = if extended { "QUANTILE_95" } else { "MAX_TIMER_WAIT" };
        let columns =
            format!("SCHEMA_NAME, DIGEST, DIGEST_TEXT, COUNT_STAR, SUM_TIMER_WAIT, LAST_SEEN, {quantile}");
        let conditions = [
            "",
            "WHERE COUNT_STAR > 20 AND LAST_SEEN > '2024-01-01 00:00:00'",
            "WHERE DIGEST IS NOT NULL AND NOT DIGEST_TEXT LIKE '%z%' AND LAST_SEEN < '2100-01-01'",
            "WHERE LAST_SEEN > '2100-01-01 00:00:00'",
        ];
        for condition in conditions {
            let all = ask(&format!("SELECT {columns} FROM {TABLE} {condition}"));
            let mut by_count = all.clone();
            by_count.sort_by_key(|row| row[3].as_ref().unwrap().parse::<u64>().unwrap());
            for (order, sorted) in
                [("", by_count.clone()), ("DESC", by_count.iter().rev().cloned().collect())]
            {
                for (skip, count) in [(0, 5), (3, 7), (0, 100), (38, 10), (0, 0)] {
                    let list = format!(
                        "SELECT {columns} FROM {TABLE} {condition} ORDER BY COUNT_STAR {order} LIMIT {count} OFFSET {skip}"
                    );
                    let first: Rows = sorted.iter().skip(skip).take(count).cloned().collect();
                    assert_eq!(ask(&list), first, "{list}");
                    let nulls = "NULL, ".repeat(5);
                    let union = format!(
                        "({list}) UNION ALL (SELECT 'all', SUM(COUNT_STAR), SUM(SUM_TIMER_WAIT), SUM(SUM_LOCK_TIME), NULL, NULL, \
                         SUM(SUM_ROWS_EXAMINED) FROM {TABLE}) UNION ALL (SELECT COUNT(*), {nulls} 'found' FROM {TABLE} {condition});"
                    );
                    let mut expected = first;
                    let sums = format!(
                        "SELECT SUM(COUNT_STAR), SUM(SUM_TIMER_WAIT), SUM(SUM_LOCK_TIME), SUM(SUM_ROWS_EXAMINED) FROM {TABLE}"
                    );
                    let sums = ask(&sums).remove(0);
                    let [calls, time, lock, examined] = &sums[..] else { panic!("{sums:?}") };
                    assert_eq!(calls.as_deref(), Some("820"));
                    let (calls, time) = (calls.clone(), time.clone());
                    expected.push(vec![
                        Some("all".into()),
                        calls,
                        time,
                        lock.clone(),
                        None,
                        None,
                        examined.clone(),
                    ]);
                    let mut found = vec![None; 7];
                    (found[0], found[6]) = (Some(all.len().to_string()), Some("found".into()));
                    expected.push(found);
                    assert_eq!(ask(&union), expected, "{union}");
                }
            }
        }
    }
}

#[test]
fn what_cannot_be_told_at_one_moment_is_refused() {
    let rig = filled(false);
    let served = served_of(&rig, Shape::Strict);
    let mut client = served.client();
    let list = format!("(SELECT DIGEST FROM {TABLE} ORDER BY COUNT_STAR DESC LIMIT 1)");
    for (sql, code, says) in [
        (format!("{list} UNION {list}"), 1235, "UNION without ALL"),
        (
            format!("{list} UNION ALL (SELECT DIGEST, DIGEST FROM {TABLE} ORDER BY COUNT_STAR)"),
            1222,
            "number of columns",
        ),
        (format!("{list} UNION ALL (SELECT SUM(COUNT_STAR) FROM events_waits_current)"), 1054, "COUNT_STAR"),
        (
            format!("{list} UNION ALL (SELECT EVENT_ID FROM events_waits_current ORDER BY EVENT_ID)"),
            1235,
            "two tables",
        ),
        (format!("{list} UNION ALL (SELECT 1)"), 1235, "without a table"),
        (format!("{list} UNION ALL (SELECT DIGEST FROM {TABLE})"), 1235, "UNION of anything but"),
        (
            format!("{list} UNION ALL (SELECT DIGEST FROM {TABLE} ORDER BY DIGEST)"),
            1235,
            "UNION of anything but",
        ),
        (
            format!("{list} UNION ALL (SELECT SUM(COUNT_STAR) FROM {TABLE} WHERE COUNT_STAR > 1)"),
            1235,
            "UNION of anything but",
        ),
        (format!("{list} UNION ALL (SELECT 1 FROM {TABLE})"), 1235, "UNION of anything but"),
        (format!("{list} UNION ALL (SELECT MAX(COUNT_STAR) FROM {TABLE})"), 1235, "UNION of anything but"),
        (format!("{list} UNION ALL (SELECT SUM(MAX_TIMER_WAIT) FROM {TABLE})"), 1235, "SUM of anything but"),
        (
            "(SELECT TIMER_WAIT FROM events_waits_current ORDER BY EVENT_ID)".into(),
            1235,
            "UNION of events_waits_current",
        ),
        (format!("({list})"), 1064, "expected SELECT"),
        (format!("{list} UNION ALL"), 1064, "expected ("),
        (format!("(SELECT DIGEST FROM {TABLE} ORDER BY COUNT_STAR"), 1064, "expected )"),
    ] {
        let (number, text) = error(&mut client, &sql);
        assert!(number == code && text.contains(says), "{sql}: {number} {text}");
    }
    assert_eq!(rows(&mut client, &list).len(), 1, "the connection goes on");
    let ordered = format!("{list} UNION ALL (SELECT COUNT(*) FROM {TABLE} ORDER BY COUNT_STAR)");
    assert_eq!(names(&mut client, &ordered)[1], "40", "an order of one row means nothing");
}

#[test]
fn conditions_mean_the_same_in_a_list_as_elsewhere() {
    let rig = filled(false);
    let served = served_of(&rig, Shape::Strict);
    let mut client = served.client();
    for condition in [
        "DIGEST_TEXT IN ('x', 'SELECT `a` , ')",
        "SCHEMA_NAME NOT IN ('mysql', 'Shop')",
        "SCHEMA_NAME IN ('mysql', NULL)",
        "SCHEMA_NAME NOT IN ('mysql', NULL)",
        "SCHEMA_NAME IS NOT NULL",
        "COUNT_STAR IN (1, '7', 39.0)",
        "COUNT_STAR = 7 OR DIGEST IS NULL",
        "'2024-01-01' < LAST_SEEN",
        "LAST_SEEN IN ('2024-01-01 00:00:00')",
        "LAST_SEEN > 'no time'",
        "1 = 1",
        "1 = 0",
    ] {
        let plain = names(&mut client, &format!("SELECT COUNT_STAR FROM {TABLE} WHERE {condition}"));
        let mut listed = names(
            &mut client,
            &format!("SELECT COUNT_STAR FROM {TABLE} WHERE {condition} ORDER BY COUNT_STAR"),
        );
        let mut plain: Vec<u64> = plain.iter().map(|it| it.parse().unwrap()).collect();
        plain.sort_unstable();
        let listed: Vec<u64> = listed.drain(..).map(|it| it.parse().unwrap()).collect();
        assert_eq!(listed, plain, "{condition}");
    }
}
