//! The history that a server with tare keeps itself, read as it grows. The server is not sampled a second
//! time.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant, SystemTime};

use humantime::format_rfc3339_micros;
use tare_server::sql::{literal, literals};

use super::columns::{COLUMNS, DIGESTS, HISTORY, place};
use super::holders::Holders;
use super::tools::Tools;
use super::{AshError, Sample};
use crate::snapshot::Value;
use crate::source::{Address, Error, Kind, Source};

/// Most digests whose texts are asked for in one query.
const MOST_DIGESTS: usize = 200;

/// How often a server without a new row is asked whether it samples, at most.
const ASK_HALT: Duration = Duration::from_secs(1);

/// How long after an answer without its text a digest is asked for again.
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// A digest whose text has been asked for.
struct Asked {
    /// When to ask again; `None`: the text is in the file.
    again: Option<Instant>,
}

/// Time and THREAD_ID of a row.
type RowKey = (String, u64);

/// A time of the server's clock from which on samples are read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Since {
    time: String,
    /// Whether the sample of this very time is among them.
    is_included: bool,
}

impl Since {
    fn after(time: String) -> Since {
        Since { time, is_included: false }
    }
}

/// A connection that reads the history.
pub(super) struct Copier {
    source: Source,
    /// From which time on samples have not been returned.
    since: Option<Since>,
    /// Rows from before the server's clock was set back, whose time is yet to come.
    earlier: HashSet<RowKey>,
    /// Time of the last row that was read, returned or not.
    newest: Option<String>,
    /// Whether the server is known to sample no more, and when it was asked last.
    has_halted: bool,
    asked_halt: Option<Instant>,
    /// What has happened, for the user.
    pub(super) events: Vec<String>,
    /// Digests whose texts have been asked for.
    asked: HashMap<String, Asked>,
    holders: Holders,
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
        let mut copier = Copier {
            source,
            since: None,
            earlier: HashSet::new(),
            newest: None,
            has_halted: false,
            asked_halt: None,
            events: vec![],
            asked: HashMap::new(),
            holders: Holders::default(),
            tools,
        };
        let rows = copier.source.rows(HISTORY, &["SAMPLE_TIME"], "ORDER BY `SAMPLE_TIME` DESC LIMIT 1")?;
        copier.since = rows.first().and_then(|row| row.text(0)).map(Since::after);
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
        self.notice_clock()?;
        let filter = match &self.since {
            Some(Since { time, is_included }) => {
                format!("WHERE `SAMPLE_TIME` {} {}", if *is_included { ">=" } else { ">" }, literal(time))
            }
            None => String::new(),
        };
        let names = COLUMNS.map(|(name, _)| name);
        let mut samples: BTreeMap<String, Sample> = BTreeMap::new();
        for row in self.source.rows(HISTORY, &names, &filter)? {
            let value = |(at, (_, kind)): (usize, &(&str, crate::snapshot::Type))| kind.value(row.bytes(at));
            let row: Vec<Value> = COLUMNS.iter().enumerate().map(value).collect();
            let time = row[0].text().unwrap_or_default().to_owned();
            if !self.earlier.is_empty() && self.earlier.contains(&key(&time, row[place("THREAD_ID")].count()))
            {
                continue;
            }
            samples.entry(time).or_default().rows.push(row);
        }
        self.notice_halt(samples.last_key_value().map(|(time, _)| time.clone()))?;
        if !is_last && !self.has_halted {
            // More rows of it may come.
            samples.pop_last();
        }
        if let Some((last, _)) = samples.last_key_value() {
            self.earlier.retain(|(time, _)| time > last);
            self.since = Some(Since::after(last.clone()));
        }
        let mut samples: Vec<Sample> = samples.into_values().collect();
        self.leave_out_tools(&mut samples)?;
        self.add_texts(&mut samples)?;
        let rows = samples.iter().flat_map(|sample| &sample.rows);
        let holders = self.holders.ask(&mut self.source, rows)?;
        if let Some(first) = samples.first_mut() {
            first.holders = holders;
        }
        Ok(samples)
    }

    /// Finds out whether the server samples no more, or again. `newest` is the time of the last row that has
    /// not been returned; while there is a new one, it samples.
    fn notice_halt(&mut self, newest: Option<String>) -> Result<(), Error> {
        let grows = newest.is_some() && newest != self.newest;
        self.newest = newest.or(self.newest.take());
        if !grows && self.asked_halt.is_some_and(|asked| asked.elapsed() < ASK_HALT) {
            return Ok(());
        }
        let halt = if grows { None } else { self.halt()? };
        let address = self.source.address();
        match &halt {
            Some(why) if !self.has_halted => {
                self.events.push(format!("{address}: {why}; nothing is recorded until it goes on"));
            }
            None if self.has_halted => self.events.push(format!("{address} keeps its history again")),
            _ => {}
        }
        self.has_halted = halt.is_some();
        Ok(())
    }

    /// Returns why the server does not sample; `None`: it does.
    fn halt(&mut self) -> Result<Option<&'static str>, Error> {
        self.asked_halt = Some(Instant::now());
        let interval = self.status("ash_interval")?;
        Ok(interval.and_then(|interval| match interval.as_str() {
            "OFF" => Some(
                "tare's history was switched off (to switch it on: UPDATE performance_schema.tare_status SET VALUE = '1s' \
                 WHERE NAME = 'ash_interval')",
            ),
            off if off.starts_with("OFF") => {
                Some("tare samples no more because of an internal error; the server's error log has it")
            }
            _ => None,
        }))
    }

    /// Finds out whether the server's clock was set back. Then the samples that follow are earlier than those
    /// before.
    fn notice_clock(&mut self) -> Result<(), Error> {
        let Some(Since { time: before, .. }) = &self.since else { return Ok(()) };
        let now = match self.source.address() {
            // tare's endpoint tells no time, and is on this machine.
            Address::Socket(_) => Some(utc(SystemTime::now())),
            Address::Account(_) => self.source.ask("SELECT NOW(6)")?.first().and_then(|row| row.text(0)),
        };
        let Some(now) = now.filter(|now| now < before) else { return Ok(()) };
        let rows = self.source.rows(HISTORY, &["SAMPLE_TIME", "THREAD_ID"], "")?;
        let rows: Vec<RowKey> =
            rows.iter().map(|row| key(&row.text(0).unwrap_or_default(), row.number(1))).collect();
        let (since, earlier) = set_back(&rows, before, &now);
        self.events.push(format!(
            "the clock of {} was set back: after {before} UTC it is {} UTC; the history goes on with that time",
            self.source.address(),
            since.time
        ));
        self.since = Some(since);
        self.earlier.extend(earlier);
        Ok(())
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

    /// Adds the texts of digests that are not in the file yet. Of a statement that has not ended once, it is
    /// known while the statement is in progress.
    fn add_texts(&mut self, samples: &mut [Sample]) -> Result<(), Error> {
        let digest = |row: &Vec<Value>| row[place("DIGEST")].text().map(str::to_owned);
        let (now, mut unknown) = (Instant::now(), vec![]);
        for digest in samples.iter().flat_map(|sample| sample.rows.iter().filter_map(digest)) {
            let is_due = |asked: &Asked| asked.again.is_some_and(|again| again <= now);
            if unknown.len() < MOST_DIGESTS && self.asked.get(&digest).is_none_or(is_due) {
                self.asked.insert(digest.clone(), Asked { again: Some(now + ASK_AGAIN) });
                unknown.push(digest);
            }
        }
        for table in [DIGESTS, "events_statements_current"] {
            if unknown.is_empty() {
                break;
            }
            let filter = format!("WHERE `DIGEST` IN ({})", literals(&unknown));
            let rows = self.source.rows(table, &["DIGEST", "DIGEST_TEXT"], &filter)?;
            let texts: Vec<(String, String)> =
                rows.iter().filter_map(|row| Some((row.text(0)?, row.text(1)?))).collect();
            for (digest, _) in &texts {
                self.asked.insert(digest.clone(), Asked { again: None });
                unknown.retain(|it| it != digest);
            }
            if let Some(sample) = samples.first_mut() {
                sample.texts.extend(texts);
            }
        }
        Ok(())
    }
}

/// Returns a time as the history writes it.
fn utc(time: SystemTime) -> String {
    format_rfc3339_micros(time).to_string().replace('T', " ").replace('Z', "")
}

fn key(time: &str, thread: Option<u64>) -> RowKey {
    (time.to_owned(), thread.unwrap_or(0))
}

/// Returns where a history goes on whose rows, in the order in which they came, have been returned up to the
/// sample of time `before`, if the clock has been set back to about `now`; and the rows that were there
/// before and are later than that.
fn set_back(rows: &[RowKey], before: &str, now: &str) -> (Since, Vec<RowKey>) {
    let returned = rows.iter().rposition(|(time, _)| time == before).map(|last| last + 1);
    let (old, new) = match returned {
        // It was incomplete then, or more of the same follows: as long as time does not fall, it is as
        // before.
        Some(at) => {
            let more = rows[at..].iter().position(|(time, _)| time.as_str() < before);
            rows.split_at(at + more.unwrap_or(rows.len() - at))
        }
        None => (rows, &rows[rows.len()..]),
    };
    let since = match new.first() {
        Some((time, _)) => Since { time: time.clone(), is_included: true },
        None => Since::after(now.to_owned()),
    };
    (since.clone(), old.iter().filter(|(time, _)| *time >= since.time).cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(times: &[&str]) -> Vec<RowKey> {
        times.iter().map(|time| key(time, Some(7))).collect()
    }

    #[test]
    fn a_time_is_written_as_in_the_history() {
        assert_eq!(utc(SystemTime::UNIX_EPOCH), "1970-01-01 00:00:00.000000");
    }

    #[test]
    fn a_history_goes_on_with_what_came_after_the_clock_was_set_back() {
        // Returned up to 14; the clock went back from 15 to 11.
        let (since, earlier) = set_back(&rows(&["10", "12", "14", "15", "11", "13"]), "14", "13");
        assert_eq!(since, Since { time: "11".into(), is_included: true });
        assert_eq!(earlier, rows(&["12", "14", "15"]), "the last one was not complete, and is left out");
        let (since, earlier) = set_back(&rows(&["10", "12", "14"]), "14", "11");
        assert_eq!((since, earlier), (Since::after("11".into()), rows(&["12", "14"])), "nothing came yet");
        let (since, earlier) = set_back(&rows(&["10", "12"]), "14", "11");
        assert_eq!((since, earlier), (Since::after("11".into()), rows(&["12"])), "the last one is gone");
        assert_eq!(set_back(&[], "14", "11"), (Since::after("11".into()), vec![]), "all are gone");
    }
}
