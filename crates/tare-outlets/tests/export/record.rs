//! A record of a server's tables, and what mysqld_exporter made of the same server.
//!
//! `TARE_RECORD=1` with `TARE_MYSQLD_EXPORTER=/path/to/mysqld_exporter` writes it anew (see `same`).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tare_outlets::export::collector::{CollectorOptions, TableSource};
use tare_outlets::export::collectors;
use tare_outlets::export::sample::Samples;
use tare_outlets::export::scrape;
use tare_outlets::export::text;
use tare_outlets::{Error, Row, Source};

/// Tables by name: their columns, and rows of texts.
type Contents = BTreeMap<String, (Vec<String>, Vec<Vec<Option<String>>>)>;

/// A server's tables.
#[derive(Debug, Default)]
pub(crate) struct Record {
    tables: Contents,
    /// How often each was asked for.
    pub(crate) asked: BTreeMap<String, u32>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/export/recorded")
}

/// What mysqld_exporter said.
pub(crate) fn reference_path() -> PathBuf {
    folder().join("mysqld_exporter.txt")
}

fn tables_path() -> PathBuf {
    folder().join("tables.json")
}

impl Record {
    pub(crate) fn read() -> Self {
        let text = fs::read_to_string(tables_path()).expect("the record");
        let tables: Contents = serde_json::from_str(&text).expect("a record");
        Self { tables, asked: BTreeMap::new() }
    }

    /// Writes it, a row a line.
    pub(crate) fn write(&self) {
        let mut text = String::from("{\n");
        for (number, (name, (columns, rows))) in self.tables.iter().enumerate() {
            let comma = if number == 0 { "" } else { ",\n" };
            let rows: Vec<String> = rows.iter().map(|row| json!(row).to_string()).collect();
            text.push_str(&format!("{comma}{}: [{}, [\n", Value::from(name.as_str()), json!(columns)));
            text.push_str(&rows.join(",\n"));
            text.push_str("]]");
        }
        text.push_str("\n}\n");
        fs::create_dir_all(folder()).expect("a folder");
        fs::write(tables_path(), text).expect("the record is written");
    }

    /// The page of all that is recorded.
    pub(crate) fn page(&mut self, options: &CollectorOptions) -> String {
        text::page(&self.samples(options))
    }

    /// All that is recorded.
    pub(crate) fn samples(&mut self, options: &CollectorOptions) -> Samples {
        let wanted: Vec<&'static str> =
            collectors::all().filter(|it| options.has(it)).map(|it| it.name).collect();
        let mut all = Samples::default();
        // What was seen at any time was seen since.
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(options.time_limit);
        for group in collectors::GROUPS {
            if group.collectors.iter().any(|it| wanted.contains(&it.name)) {
                let (samples, _) = scrape::read(self, group, options, &wanted, now).expect("it is recorded");
                all.extend(samples);
            }
        }
        all
    }
}

impl TableSource for Record {
    fn each(
        &mut self,
        table: &str,
        columns: &[&str],
        _filter: &str,
        take: &mut dyn FnMut(Row),
    ) -> Result<(), Error> {
        *self.asked.entry(table.to_owned()).or_default() += 1;
        let Some((known, rows)) = self.tables.get(table) else {
            return Err(Error::Absent { address: "the record".to_owned(), why: format!("no {table}") });
        };
        let places: Vec<Option<usize>> =
            columns.iter().map(|name| known.iter().position(|it| it == name)).collect();
        for row in rows {
            let texts: Vec<Option<&str>> =
                places.iter().map(|at| at.and_then(|at| row[at].as_deref())).collect();
            take(Row::of(&texts));
        }
        Ok(())
    }
}

/// Writes down what a server answers while it is passed on.
pub(crate) struct Recorder<'a> {
    pub(crate) source: &'a mut Source,
    pub(crate) record: Record,
}

impl TableSource for Recorder<'_> {
    fn each(
        &mut self,
        table: &str,
        columns: &[&str],
        filter: &str,
        take: &mut dyn FnMut(Row),
    ) -> Result<(), Error> {
        let mut rows = vec![];
        self.source.each(table, columns, filter, &mut |row| {
            rows.push((0..columns.len()).map(|at| row.text(at)).collect());
            take(row);
        })?;
        let columns = columns.iter().map(|it| (*it).to_owned()).collect();
        self.record.tables.insert(table.to_owned(), (columns, rows));
        Ok(())
    }
}
