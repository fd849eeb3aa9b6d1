//! Parser of `tare slowlog --format json`: one object per line.

use std::io::BufRead;

use serde::Deserialize;

use super::LOST;
use crate::load::recording::hex;
use crate::load::recording::line::lines;
use crate::load::recording::moment::{LogTime, moment_of};
use crate::load::recording::take::{Sighting, Take};

/// The fields of a line that matter here.
#[derive(Deserialize)]
struct JsonLine {
    time: String,
    thread_id: u64,
    connection_id: Option<u64>,
    schema: Option<String>,
    event_name: String,
    query_time_s: Option<f64>,
    level: u64,
    program: Option<String>,
    charset: Option<String>,
    text: Option<String>,
    /// The text's bytes, if they are not UTF-8.
    text_hex: Option<String>,
    #[serde(default)]
    lost_before: u64,
}

impl JsonLine {
    /// Returns the text that was sent. Parts of stored programs belong to their CALL; commands have no text.
    fn sent(&mut self) -> Option<Vec<u8>> {
        let is_inner = self.level > 0 || self.program.is_some();
        if is_inner || self.event_name == "statement/com/Prepare" {
            return None;
        }
        let bytes = self.text_hex.as_deref().and_then(hex::read);
        bytes.or_else(|| self.text.take().map(String::into_bytes))
    }
}

pub(super) fn read(log: impl BufRead) -> std::io::Result<Option<Take>> {
    let (mut take, mut is_slow_log) = (Take::default(), false);
    for line in lines(log) {
        let line = line?;
        if line.text.is_empty() {
            continue;
        }
        let is_cut = is_slow_log && !line.is_whole;
        let mut line = match serde_json::from_slice::<JsonLine>(&line.text) {
            Ok(line) => line,
            Err(_) if is_cut => {
                take.leave_out_cut();
                break;
            }
            Err(_) => return Ok(None),
        };
        is_slow_log = true;
        let Some(LogTime::Exact(ended)) = moment_of(&line.time) else { return Ok(None) };
        let connection = line.connection_id.unwrap_or(line.thread_id);
        if line.lost_before > 0 {
            take.leave_out(LOST, line.lost_before);
        }
        if line.event_name == "statement/com/Quit" {
            take.end(connection);
        }
        let Some(text) = line.sent() else {
            if line.event_name == "statement/com/Execute" {
                take.leave_out_execution();
            }
            continue;
        };
        let JsonLine { query_time_s: took, schema, charset, .. } = line;
        let session = take.session(connection);
        let seen = Sighting { session, took, schema, charset, text, ..Sighting::default() };
        take.add(ended - took.unwrap_or(0.0), seen);
    }
    Ok(Some(take))
}
