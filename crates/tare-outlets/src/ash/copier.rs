//! The history that a server with tare keeps itself, read as it grows. The server is not sampled a second time.

use std::collections::{BTreeMap, HashSet};

use tare_server::sql::{literal, literals};

use super::columns::{COLUMNS, HISTORY, place};
use super::tools::Tools;
use super::{AshError, Sample};
use crate::snapshot::Value;
use crate::source::{Address, Error, Kind, Source};

/// Most digests whose texts are asked for in one query.
const MOST_DIGESTS: usize = 200;

/// A connection that reads the history.
pub(super) struct Copier {
    source: Source,
    /// Time of the last sample that has been returned.
    written: Option<String>,
    /// Digests whose texts have been asked for.
    asked: HashSet<String>,
    /// Connections of tare's tools; over tare's socket there are none.
    tools: Option<Tools>,
}

/// Returns whether a server keeps a history of its own that grows.
pub(super) fn has_history(source: &mut Source) -> Result<bool, Error> {
    if source.kind() != Kind::Tare || source.columns(HISTORY)?.is_empty() {
        return Ok(false);
    }
    Ok(source.status("ash_interval")?.is_some_and(|interval| !interval.starts_with("OFF")))
}

impl Copier {
    /// Begins at the present moment: what is older stays in the server.
    pub(super) fn new(mut source: Source) -> Result<Copier, AshError> {
        let tools = match source.address() {
            Address::Socket(_) => None,
            Address::Account(_) => Some(Tools::of(&mut source)?),
        };
        let mut copier = Copier { source, written: None, asked: HashSet::new(), tools };
        let rows = copier.source.rows(HISTORY, &["SAMPLE_TIME"], "ORDER BY `SAMPLE_TIME` DESC LIMIT 1")?;
        copier.written = rows.first().and_then(|row| row.text(0));
        Ok(copier)
    }

    pub(super) fn source(&mut self) -> &mut Source {
        &mut self.source
    }

    /// Returns what a status row says of the server: `processors`, `ash_interval`.
    pub(super) fn status(&mut self, name: &str) -> Result<Option<String>, Error> {
        self.source.status(name)
    }

    /// Returns the samples that are complete: all but the last one, unless this is the last time.
    pub(super) fn samples(&mut self, is_last: bool) -> Result<Vec<Sample>, Error> {
        let filter = match &self.written {
            Some(time) => format!("WHERE `SAMPLE_TIME` > {}", literal(time)),
            None => String::new(),
        };
        let names = COLUMNS.map(|(name, _)| name);
        let mut samples: BTreeMap<String, Sample> = BTreeMap::new();
        for row in self.source.rows(HISTORY, &names, &filter)? {
            let value = |(at, (_, kind)): (usize, &(&str, crate::snapshot::Type))| kind.value(row.bytes(at));
            let row: Vec<Value> = COLUMNS.iter().enumerate().map(value).collect();
            let time = row[0].text().unwrap_or_default().to_owned();
            samples.entry(time).or_default().rows.push(row);
        }
        if !is_last {
            // More rows of it may come.
            samples.pop_last();
        }
        if let Some((last, _)) = samples.last_key_value() {
            self.written = Some(last.clone());
        }
        let mut samples: Vec<Sample> = samples.into_values().collect();
        self.leave_out_tools(&mut samples)?;
        self.add_texts(&mut samples)?;
        Ok(samples)
    }

    fn leave_out_tools(&mut self, samples: &mut [Sample]) -> Result<(), Error> {
        let Some(tools) = &mut self.tools else { return Ok(()) };
        let connection = |row: &Vec<Value>| row[place("PROCESSLIST_ID")].count();
        let connections =
            samples.iter().flat_map(|sample| sample.rows.iter().filter_map(connection)).collect();
        tools.look(&mut self.source, &connections)?;
        for sample in samples {
            sample.rows.retain(|row| !connection(row).is_some_and(|it| tools.has(it)));
        }
        Ok(())
    }

    /// Adds the texts of digests that have not been asked for.
    fn add_texts(&mut self, samples: &mut [Sample]) -> Result<(), Error> {
        let digest = |row: &Vec<Value>| row[place("DIGEST")].text().map(str::to_owned);
        let mut unknown: Vec<String> = vec![];
        for digest in samples.iter().flat_map(|sample| sample.rows.iter().filter_map(digest)) {
            if unknown.len() < MOST_DIGESTS && self.asked.insert(digest.clone()) {
                unknown.push(digest);
            }
        }
        if unknown.is_empty() {
            return Ok(());
        }
        let filter = format!("WHERE `DIGEST` IN ({})", literals(&unknown));
        let columns = ["DIGEST", "DIGEST_TEXT"];
        let rows = self.source.rows("events_statements_summary_by_digest", &columns, &filter)?;
        let texts = rows.iter().filter_map(|row| Some((row.text(0)?, row.text(1)?)));
        if let Some(sample) = samples.first_mut() {
            sample.texts.extend(texts);
        }
        Ok(())
    }
}
