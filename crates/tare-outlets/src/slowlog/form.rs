//! How a statement is written: as the server's own slow log has it, or as a line of JSON.

use std::fmt::Write as _;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::choice::Share;
use super::statement::Statement;

/// The form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// MariaDB's slow log, as with `log_slow_verbosity=query_plan`.
    Slow,
    /// One JSON object a line.
    Json,
}

/// What is written of a statement's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// As it was sent.
    Full,
    /// Its digest's text, in which no literal is.
    Normalised,
    /// Nothing.
    None,
}

/// Makes records of statements. It remembers what the log says already.
pub(super) struct Writer {
    form: Form,
    text: Text,
    share: Share,
    time_zone: TimeZone,
    /// The second and the schema that the log was last told.
    second: Option<i64>,
    schema: Option<String>,
    /// Statements that are missing before the next one.
    lost: u64,
    record: String,
}

impl Writer {
    pub(super) fn new(form: Form, text: Text, share: Share) -> Writer {
        Writer {
            form,
            text,
            share,
            time_zone: TimeZone::system(),
            second: None,
            schema: None,
            lost: 0,
            record: String::new(),
        }
    }

    /// The next record is the first of its file.
    pub(super) fn begin_anew(&mut self) {
        (self.second, self.schema) = (None, None);
    }

    /// As many statements will not be in the log.
    pub(super) fn lose(&mut self, lost: u64) {
        self.lost += lost;
    }

    /// The record of a statement, with what is to be said before it.
    pub(super) fn record(&mut self, statement: &Statement) -> &[u8] {
        let mut record = std::mem::take(&mut self.record);
        record.clear();
        let lost = std::mem::take(&mut self.lost);
        // Writing to a text cannot fail.
        let _infallible = match self.form {
            Form::Slow => self.slow(&mut record, statement, lost),
            Form::Json => self.json(&mut record, statement, lost),
        };
        self.record = record;
        self.record.as_bytes()
    }

    fn slow(&mut self, to: &mut String, it: &Statement, lost: u64) -> std::fmt::Result {
        let second = i64::try_from(it.ended_us / 1_000_000).unwrap_or_default();
        if self.second != Some(second) {
            let local = Timestamp::from_second(second).unwrap_or_default().to_zoned(self.time_zone.clone());
            writeln!(to, "{}", local.strftime("# Time: %y%m%d %k:%M:%S"))?;
            self.second = Some(second);
        }
        let (user, host) = (it.user.as_deref().unwrap_or_default(), it.host.as_deref().unwrap_or_default());
        let address = if host == "localhost" { "" } else { host };
        writeln!(to, "# User@Host: {user}[{user}] @ {host} [{address}]")?;
        let (id, schema) =
            (it.connection_id.unwrap_or(it.thread_id), it.schema.as_deref().unwrap_or_default());
        writeln!(to, "# Thread_id: {id}  Schema: {schema}  QC_hit: No")?;
        writeln!(
            to,
            "# Query_time: {}  Lock_time: {}  Rows_sent: {}  Rows_examined: {}",
            seconds(it.time_ps.unwrap_or(0)),
            seconds(it.lock_ps),
            it.rows_sent,
            it.rows_examined,
        )?;
        writeln!(to, "# Rows_affected: {}", it.rows_affected)?;
        if it.tmp_tables > 0 {
            writeln!(to, "# Tmp_tables: {}  Tmp_disk_tables: {}", it.tmp_tables, it.tmp_disk_tables)?;
        }
        if let Some(program) = &it.program {
            writeln!(to, "# Stored_routine: {program}")?;
        }
        Self::slow_plan(to, it)?;
        if lost > 0 {
            writeln!(to, "# Lost: {lost}")?;
        }
        if self.share.weight() > 1 {
            let of = self.share.weight();
            writeln!(to, "# Log_slow_rate_type: query  Log_slow_rate_limit: {of}")?;
        }
        if let Some(schema) = it.schema.as_deref()
            && self.schema.as_deref() != Some(schema)
        {
            writeln!(to, "use {};", identifier(schema))?;
            self.schema = Some(schema.to_owned());
        }
        writeln!(to, "SET timestamp={second};")?;
        match (self.text(it), it.command()) {
            (Some(text), _) => writeln!(to, "{};", text.trim_end().trim_end_matches(';')),
            (None, Some(command)) => writeln!(to, "# administrator command: {command};"),
            (None, None) => {
                let digest = it.digest.as_deref().unwrap_or("none");
                writeln!(to, "/* {} digest {digest} */;", it.event_name)
            }
        }
    }

    /// What the plan was, if it was worth a word.
    fn slow_plan(to: &mut String, it: &Statement) -> std::fmt::Result {
        if [it.full_scan, it.full_join, it.tmp_tables, it.tmp_disk_tables, it.sorts, it.merge_passes]
            == [0; 6]
        {
            return Ok(());
        }
        writeln!(
            to,
            "# Full_scan: {}  Full_join: {}  Tmp_table: {}  Tmp_table_on_disk: {}",
            yes(it.full_scan),
            yes(it.full_join),
            yes(it.tmp_tables),
            yes(it.tmp_disk_tables),
        )?;
        writeln!(
            to,
            "# Filesort: {}  Filesort_on_disk: {}  Merge_passes: {}  Priority_queue: No",
            yes(it.sorts),
            yes(it.merge_passes),
            it.merge_passes,
        )
    }

    fn json(&self, to: &mut String, it: &Statement, lost: u64) -> std::fmt::Result {
        let ended = i64::try_from(it.ended_us).ok().and_then(|us| Timestamp::from_microsecond(us).ok());
        let line = Line {
            time: format!("{:.6}", ended.unwrap_or_default()),
            thread_id: it.thread_id,
            connection_id: it.connection_id,
            user: it.user.as_deref(),
            host: it.host.as_deref(),
            schema: it.schema.as_deref(),
            event_name: &it.event_name,
            query_time_s: it.time_ps.map(as_seconds),
            lock_time_s: as_seconds(it.lock_ps),
            rows_sent: it.rows_sent,
            rows_examined: it.rows_examined,
            rows_affected: it.rows_affected,
            errors: it.errors,
            warnings: it.warnings,
            errno: it.errno,
            message: it.message.as_deref().filter(|_| self.text == Text::Full),
            tmp_tables: it.tmp_tables,
            tmp_disk_tables: it.tmp_disk_tables,
            full_scan: it.full_scan > 0,
            full_join: it.full_join > 0,
            filesort: it.sorts > 0,
            merge_passes: it.merge_passes,
            no_index_used: it.no_index_used > 0,
            program: it.program.as_deref(),
            level: it.level,
            digest: it.digest.as_deref(),
            text: self.text(it),
            weight: self.share.weight(),
            lost_before: lost,
        };
        let line = serde_json::to_string(&line).map_err(|_| std::fmt::Error)?;
        writeln!(to, "{line}")
    }

    fn text<'s>(&self, it: &'s Statement) -> Option<&'s str> {
        match self.text {
            Text::Full => it.sql.as_deref(),
            Text::Normalised => it.digest_text.as_deref(),
            Text::None => None,
        }
    }
}

/// A line of JSON.
#[derive(Serialize)]
struct Line<'s> {
    time: String,
    thread_id: u64,
    connection_id: Option<u64>,
    user: Option<&'s str>,
    host: Option<&'s str>,
    schema: Option<&'s str>,
    event_name: &'s str,
    query_time_s: Option<f64>,
    lock_time_s: f64,
    rows_sent: u64,
    rows_examined: u64,
    rows_affected: u64,
    errors: u64,
    warnings: u64,
    errno: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'s str>,
    tmp_tables: u64,
    tmp_disk_tables: u64,
    full_scan: bool,
    full_join: bool,
    filesort: bool,
    merge_passes: u64,
    no_index_used: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<&'s str>,
    level: u64,
    digest: Option<&'s str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'s str>,
    weight: u64,
    #[serde(skip_serializing_if = "is_none")]
    lost_before: u64,
}

fn is_none(lost: &u64) -> bool {
    *lost == 0
}

fn yes(count: u64) -> &'static str {
    if count > 0 { "Yes" } else { "No" }
}

/// Seconds with six decimals, rounded.
fn seconds(ps: u64) -> String {
    let us = ps.saturating_add(500_000) / 1_000_000;
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}

fn as_seconds(ps: u64) -> f64 {
    ps as f64 / 1e12
}

/// A schema's name as `use` takes it.
fn identifier(name: &str) -> String {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$');
    if is_plain { name.to_owned() } else { format!("`{}`", name.replace('`', "``")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement() -> Statement {
        Statement {
            thread_id: 40,
            event_name: "statement/sql/select".to_owned(),
            time_ps: Some(1_234_567_890_000),
            lock_ps: 1_600_000,
            sql: Some("select *\nfrom t where a = 'secret';".to_owned()),
            digest: Some("0123".to_owned()),
            digest_text: Some("SELECT * FROM `t` WHERE `a` = ?".to_owned()),
            schema: Some("shop".to_owned()),
            rows_sent: 3,
            rows_examined: 1000,
            tmp_tables: 1,
            full_scan: 1,
            sorts: 5,
            connection_id: Some(8),
            user: Some("root".to_owned()),
            host: Some("localhost".to_owned()),
            ended_us: 1_696_929_303_250_000,
            ..Statement::default()
        }
    }

    fn writer(form: Form, text: Text) -> Writer {
        Writer { time_zone: TimeZone::UTC, ..Writer::new(form, text, "1/100".parse().expect("a share")) }
    }

    fn record(writer: &mut Writer, statement: &Statement) -> String {
        String::from_utf8(writer.record(statement).to_vec()).expect("UTF-8")
    }

    #[test]
    fn a_record_is_the_servers_own() {
        let mut writer = writer(Form::Slow, Text::Full);
        let first = "# Time: 231010  9:15:03\n\
            # User@Host: root[root] @ localhost []\n\
            # Thread_id: 8  Schema: shop  QC_hit: No\n\
            # Query_time: 1.234568  Lock_time: 0.000002  Rows_sent: 3  Rows_examined: 1000\n\
            # Rows_affected: 0\n\
            # Tmp_tables: 1  Tmp_disk_tables: 0\n\
            # Full_scan: Yes  Full_join: No  Tmp_table: Yes  Tmp_table_on_disk: No\n\
            # Filesort: Yes  Filesort_on_disk: No  Merge_passes: 0  Priority_queue: No\n\
            # Log_slow_rate_type: query  Log_slow_rate_limit: 100\n\
            use shop;\n\
            SET timestamp=1696929303;\n\
            select *\nfrom t where a = 'secret';\n";
        assert_eq!(record(&mut writer, &statement()), first);
        writer.lose(7);
        let second = record(&mut writer, &statement());
        assert!(!second.contains("# Time") && !second.contains("use shop"), "{second}");
        assert!(second.contains("# Lost: 7\n"), "{second}");
        assert!(!record(&mut writer, &statement()).contains("Lost"));
        writer.begin_anew();
        assert_eq!(record(&mut writer, &statement()), first);
    }

    #[test]
    fn what_is_not_to_be_seen_is_not_written() {
        for form in [Form::Slow, Form::Json] {
            for (text, expected) in [(Text::Normalised, "WHERE `a` = ?"), (Text::None, "0123")] {
                let mut unknown = Statement { message: Some("no 'secret'".to_owned()), ..statement() };
                let written = record(&mut writer(form, text), &unknown);
                assert!(written.contains(expected) && !written.contains("secret"), "{written}");
                // One that could not be parsed has no digest.
                (unknown.digest, unknown.digest_text) = (None, None);
                assert!(!record(&mut writer(form, text), &unknown).contains("secret"));
            }
        }
    }

    #[test]
    fn a_command_without_text_is_named() {
        let ping = Statement { event_name: "statement/com/Ping".to_owned(), sql: None, ..statement() };
        let written = record(&mut writer(Form::Slow, Text::Full), &ping);
        assert!(written.ends_with("# administrator command: Ping;\n"), "{written}");
    }

    #[test]
    fn a_line_is_an_object() {
        let mut writer = writer(Form::Json, Text::Full);
        writer.lose(2);
        let line = record(&mut writer, &statement());
        assert_eq!(line.lines().count(), 1, "{line}");
        let value: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(value["time"], "2023-10-10T09:15:03.250000Z");
        assert_eq!(value["query_time_s"], 1.23456789);
        assert_eq!((&value["weight"], &value["lost_before"]), (&100.into(), &2.into()));
        assert_eq!(value["text"], "select *\nfrom t where a = 'secret';");
    }
}
