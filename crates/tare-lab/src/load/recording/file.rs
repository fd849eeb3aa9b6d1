//! The file of a recording: lines of JSON, first a header, then one per statement in the order of their
//! starts.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::kind::StatementEffect;
use super::{SessionStatement, StatementRecording, hex};
use crate::error::Tried;
use crate::{Error, Result};

/// Number of the format.
const FORMAT: u32 = 1;

/// Longest recording in seconds: thirty years.
const LONGEST: f64 = 1e9;

/// The first line. Except for source, start and what was left out, it repeats what the statements say, for
/// people who look into the file.
#[derive(Debug, Serialize, Deserialize)]
struct RecordingHeader {
    tare_recording: u32,
    source: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    begun: Option<f64>,
    seconds: f64,
    sessions: usize,
    statements: usize,
    kinds: BTreeMap<StatementEffect, u64>,
    #[serde(default)]
    left_out: BTreeMap<String, u64>,
}

/// Writes a recording. An existing file is replaced once the new one is complete.
pub fn write(recording: &StatementRecording, path: &Path) -> Result<()> {
    let what = || format!("writing {}", path.display());
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let file = tempfile::NamedTempFile::new_in(folder).tried(what)?;
    let mut out = BufWriter::new(&file);
    let header = RecordingHeader {
        tare_recording: FORMAT,
        source: recording.source.clone(),
        begun: recording.begun,
        seconds: recording.seconds(),
        sessions: recording.sessions(),
        statements: recording.statements.len(),
        kinds: recording.kinds(),
        left_out: recording.left_out.clone(),
    };
    line(&mut out, &header).tried(what)?;
    recording
        .statements
        .iter()
        .try_for_each(|statement| line(&mut out, &StatementLine::of(statement)))
        .tried(what)?;
    out.flush().tried(what)?;
    drop(out);
    // It may hold secrets, so it stays readable for its owner only.
    file.persist(path).map_err(|e| e.error).tried(what).map(drop)
}

/// The line of a statement. JSON is UTF-8: of other texts, `text` is an approximation and `text_hex` has the
/// bytes.
#[derive(Debug, Default, Serialize, Deserialize)]
struct StatementLine {
    session: u32,
    at: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    took: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    schema: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    charset: Option<String>,
    #[serde(default, skip_serializing_if = "is_false")]
    joined: bool,
    text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text_hex: Option<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_false(it: &bool) -> bool {
    !*it
}

impl StatementLine {
    fn of(it: &SessionStatement) -> StatementLine {
        let text = it.shown();
        let is_utf8 = matches!(text, std::borrow::Cow::Borrowed(_));
        StatementLine {
            session: it.session,
            at: it.at,
            took: it.took,
            schema: it.schema.clone(),
            charset: it.charset.clone(),
            joined: it.is_joined,
            text_hex: (!is_utf8).then(|| hex::of(&it.text)),
            text: text.into_owned(),
        }
    }

    fn statement(self) -> std::result::Result<SessionStatement, String> {
        let text = match self.text_hex {
            Some(digits) => hex::read(&digits).ok_or("`text_hex` must be pairs of hexadecimal digits")?,
            None => self.text.into_bytes(),
        };
        let StatementLine { session, at, took, schema, charset, joined, .. } = self;
        Ok(SessionStatement { session, at, took, schema, charset, is_joined: joined, text })
    }
}

fn line(out: &mut impl Write, it: &impl Serialize) -> std::io::Result<()> {
    serde_json::to_writer(&mut *out, it)?;
    out.write_all(b"\n")
}

/// Reads a recording.
pub fn read(path: &Path) -> Result<StatementRecording> {
    let what = || format!("reading the recording {}", path.display());
    let wrong = |line: usize, why: String| Error::Recording { path: path.into(), line, why };
    let mut lines = BufReader::new(File::open(path).tried(what)?).lines();
    let first = lines.next().transpose().tried(what)?.unwrap_or_default();
    let header: RecordingHeader = serde_json::from_str(&first)
        .map_err(|e| wrong(1, format!("this is no recording: `tare lab record` makes one ({e})")))?;
    if header.tare_recording != FORMAT {
        let why =
            format!("its format is {}, and only {FORMAT} is known: record it again", header.tare_recording);
        return Err(wrong(1, why));
    }
    let mut statements: Vec<SessionStatement> = Vec::with_capacity(header.statements.min(1 << 20));
    for (number, text) in (2..).zip(lines) {
        let text = text.tried(what)?;
        let line: StatementLine =
            serde_json::from_str(&text).map_err(|e| wrong(number, format!("this is no statement: {e}")))?;
        let statement = line.statement().map_err(|why| wrong(number, why))?;
        let latest = statements.last().map_or(0.0, |last| last.at);
        let took = statement.took.unwrap_or(0.0);
        if !((latest..=LONGEST).contains(&statement.at) && (0.0..=LONGEST).contains(&took)) {
            let why = format!("`at` must be from {latest} to {LONGEST}, and `took` from 0 to {LONGEST}");
            return Err(wrong(number, why));
        }
        statements.push(statement);
    }
    if statements.len() != header.statements {
        let why =
            format!("{} statements were announced and {} are there", header.statements, statements.len());
        return Err(wrong(1, why));
    }
    Ok(StatementRecording {
        source: header.source,
        begun: header.begun,
        statements,
        left_out: header.left_out,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording() -> StatementRecording {
        let of = |session, at, text: &[u8]| SessionStatement {
            session,
            at,
            text: text.into(),
            ..SessionStatement::default()
        };
        let first = SessionStatement {
            took: Some(0.25),
            schema: Some("shop".into()),
            ..of(1, 0.0, "select 'ü\n'".as_bytes())
        };
        let charset = Some("latin1".to_owned());
        let raw = SessionStatement { charset, is_joined: true, ..of(2, 0.25, b"select '\xff\n\0'") };
        StatementRecording {
            source: "a test".into(),
            begun: Some(1_795_427_669.5),
            statements: vec![first, of(2, 0.125, b"delete from t"), raw],
            left_out: BTreeMap::from([("cut".into(), 3)]),
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("r.jsonl");
        write(&recording(), &path).expect("it is written");
        assert_eq!(read(&path).expect("it is read"), recording());
    }

    #[test]
    fn what_is_wrong_in_a_file_is_said_with_its_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("r.jsonl");
        write(&recording(), &path).expect("it is written");
        let text = std::fs::read_to_string(&path).expect("a text");
        let cut = text.lines().take(2).collect::<Vec<_>>().join("\n");
        let cases = [
            ("", "line 1: this is no recording"),
            ("# Time: 261123  9:54:29\n", "line 1: this is no recording"),
            (&text.replace("recording\":1", "recording\":9"), "its format is 9"),
            (&text.replace("\"at\":0.125", "\"at\":-1"), "line 3: `at` must be from 0 to 1000000000"),
            (&text.replace("\"at\":0.125", "\"at\":1e300"), "line 3: `at` must be from 0 to 1000000000"),
            (&text.replace("\"took\":0.25", "\"took\":-1"), "line 2: `at` must be"),
            (&text.replace("\"session\":2,\"at\":0.125", "\"at\":0.125"), "line 3: this is no statement"),
            (&text.replace("0a0027\"", "0a002\""), "line 4: `text_hex` must be"),
            (&cut, "3 statements were announced and 1 are there"),
        ];
        for (text, expected) in cases {
            std::fs::write(&path, text).expect("a file");
            let said = read(&path).expect_err("it is wrong").to_string();
            assert!(said.contains(expected), "{said}");
        }
    }
}
