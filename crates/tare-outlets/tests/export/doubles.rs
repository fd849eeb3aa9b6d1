//! Rows that become the same labels, and sums that outgrow 64 bits: whatever a server says, no series comes
//! twice and none falls.

use std::time::SystemTime;

use tare_outlets::export::collector::{CollectorGroup, CollectorOptions, TableSource};
use tare_outlets::export::{collectors, scrape, text};
use tare_outlets::{Error, Row};

use crate::client::everything;
use crate::page::Page;

/// A server whose tables have the same few rows each: of names what it says here, of numbers all the same.
struct Said {
    /// Of each row.
    names: Vec<&'static str>,
    number: u128,
}

impl Said {
    fn value(&self, column: &str, row: usize, columns: &[&str]) -> String {
        match column {
            "EVENT_NAME" if columns.contains(&"FILE_NAME") => "wait/io/file".to_owned(),
            "BUCKET_NUMBER" => row.to_string(),
            "LAST_SEEN" => "2999-12-31 00:00:00".to_owned(),
            _ if column.ends_with("_TIMESTAMP") => "2020-01-01 00:00:00".to_owned(),
            _ if ["_NAME", "_SCHEMA", "DIGEST", "DIGEST_TEXT"].iter().any(|it| column.ends_with(it)) => {
                self.names[row].to_owned()
            }
            _ => self.number.to_string(),
        }
    }
}

impl TableSource for Said {
    fn each(&mut self, _: &str, columns: &[&str], _: &str, take: &mut dyn FnMut(Row)) -> Result<(), Error> {
        for row in 0..self.names.len() {
            let values: Vec<String> = columns.iter().map(|column| self.value(column, row, columns)).collect();
            take(Row::of(&values.iter().map(|it| Some(it.as_str())).collect::<Vec<_>>()));
        }
        Ok(())
    }
}

fn page(said: &mut Said, group: &CollectorGroup, options: &CollectorOptions) -> Page {
    let on: Vec<&'static str> = group.collectors.iter().map(|it| it.name).collect();
    let (samples, _) = scrape::read(said, group, options, &on, SystemTime::now()).expect("rows");
    Page::parse(&format!("{}\n", text::page(&samples).trim_end()))
}

/// The groups that give samples of rows.
fn groups() -> impl Iterator<Item = &'static CollectorGroup> {
    collectors::GROUPS.iter().filter(|group| group.collectors.iter().all(|it| it.name != "tare.status"))
}

#[test]
fn rows_with_the_same_labels_are_one_series() {
    let options = everything();
    for group in groups() {
        // `Page::parse` panics at a series that is there twice.
        let once = page(&mut Said { names: vec!["a", "b"], number: 7 }, group, &options);
        let twice = page(&mut Said { names: vec!["a", "b", "b", "a", "b"], number: 7 }, group, &options);
        let name = group.collectors[0].name;
        let is_sum = |name: &str| name.ends_with("_total") || name.ends_with("_count");
        for sample in twice.samples.iter().filter(|it| is_sum(&it.name)) {
            let before = once.samples.iter().find(|it| it.key() == sample.key());
            let before = before.unwrap_or_else(|| panic!("{name}: {}", sample.key()));
            if sample.labels.values().any(|it| it == "a") {
                assert_eq!(sample.value, 2.0 * before.value, "{name}: {}", sample.key());
            } else if sample.labels.values().any(|it| it == "b") {
                assert_eq!(sample.value, 3.0 * before.value, "{name}: {}", sample.key());
            }
        }
    }
}

#[test]
fn what_is_cut_off_a_name_makes_no_series_twice() {
    let options = CollectorOptions { file_prefix: "/srv/".into(), ..everything() };
    let names =
        ["/srv/a.ibd", "a.ibd", "memory/x", "x", "NONE", "none", "é", "e\u{301}", "\u{fffd}", "\u{fffd}"];
    for group in groups() {
        let page = page(&mut Said { names: names.into(), number: 1 }, group, &options);
        for sample in page.of("mysql_perf_schema_file_instances_total") {
            let doubled = ["a.ibd", "\u{fffd}"].contains(&sample.label("file_name"));
            assert_eq!(sample.value, if doubled { 2.0 } else { 1.0 }, "{}", sample.key());
        }
        for sample in page.of("mysql_perf_schema_memory_events_alloc_bytes_total") {
            let doubled = ["x", "\u{fffd}"].contains(&sample.label("event_name"));
            assert_eq!(sample.value, if doubled { 2.0 } else { 1.0 }, "{}", sample.key());
        }
    }
}

#[test]
fn sums_of_more_than_64_bits_are_no_smaller_than_their_parts() {
    let options = everything();
    let names = ["wait/io/a/1", "wait/io/a/2", "wait/io/a/3"];
    let most = u128::from(u64::MAX);
    // What a column holds at most, and what tare's endpoint says of a sum that outgrew it.
    for (group, number) in groups().flat_map(|group| [(group, most), (group, 5 * most)]) {
        let of =
            |rows: usize, number| page(&mut Said { names: names[..rows].into(), number }, group, &options);
        let (less, one, all) = (of(1, number - 1), of(1, number), of(3, number));
        for sample in all.samples.iter().filter(|it| it.name.contains("seconds") || it.name.contains("_sum"))
        {
            let of_page =
                |page: &Page| page.samples.iter().find(|it| it.key() == sample.key()).map(|it| it.value);
            if let (Some(of_less), Some(of_one)) = (of_page(&less), of_page(&one)) {
                assert!(of_less <= of_one && of_one <= sample.value && of_one > 0.0, "{}", sample.key());
            }
        }
        let seconds = |rows: u128| (rows * number) as f64 / 1e12;
        let times = [
            ("mysql_perf_schema_events_waits_seconds_total", 1),
            ("mysql_perf_schema_events_statements_seconds_total", 1),
            ("tare_waits_seconds_total", 3),
            ("tare_statements_duration_seconds_sum", 3),
        ];
        for (name, rows) in times {
            all.of(name).for_each(|sample| assert_eq!(sample.value, seconds(rows), "{}", sample.key()));
        }
        for sample in all.of("tare_waits_total") {
            assert_eq!(sample.value, (3 * number) as f64, "{}", sample.key());
        }
    }
}
