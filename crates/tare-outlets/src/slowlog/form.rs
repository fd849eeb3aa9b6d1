//! The format of a logged statement: the server's own slow log, or a line of JSON.

use std::borrow::Cow;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::charset;
use super::choice::Share;
use super::statement::LoggedStatement;

/// The format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlowLogFormat {
    /// MariaDB's slow log with `log_slow_verbosity=query_plan`.
    Slow,
    /// One JSON object per line.
    Json,
}

/// The part of a statement's text that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// The text as it was sent.
    Full,
    /// The text of its digest, without literals.
    Normalised,
    /// Nothing.
    None,
}

/// Appends parts of a line; `core::fmt` took half of the time of a record.
macro_rules! put {
    ($to:expr, $($part:expr),+ $(,)?) => {{ $($part.put($to);)+ }};
}

/// A formatted statement, and the number of missing statements it reports.
pub(super) struct FormattedStatement<'w> {
    pub(super) text: &'w [u8],
    pub(super) lost: u64,
}

/// Formats statements, and remembers what the log has said already.
pub(super) struct StatementFormatter {
    form: SlowLogFormat,
    text: Text,
    share: Share,
    time_zone: TimeZone,
    /// Second and schema last written to the log.
    second: Option<u64>,
    schema: Option<String>,
    /// Statements that are missing before the next one.
    lost: u64,
    record: Vec<u8>,
}

impl StatementFormatter {
    pub(super) fn new(form: SlowLogFormat, text: Text, share: Share) -> StatementFormatter {
        StatementFormatter {
            form,
            text,
            share,
            time_zone: TimeZone::system(),
            second: None,
            schema: None,
            lost: 0,
            record: Vec::new(),
        }
    }

    /// Marks the next record as the first of its file.
    pub(super) fn begin_anew(&mut self) {
        (self.second, self.schema) = (None, None);
    }

    /// Adds missing statements, which the next record will report.
    pub(super) fn lose(&mut self, lost: u64) {
        self.lost += lost;
    }

    /// Formats the record of a statement, with the lines before it.
    pub(super) fn record(&mut self, statement: &LoggedStatement<'_>) -> FormattedStatement<'_> {
        let mut record = std::mem::take(&mut self.record);
        record.clear();
        let lost = std::mem::take(&mut self.lost);
        match self.form {
            SlowLogFormat::Slow => self.slow(&mut record, statement, lost),
            SlowLogFormat::Json => self.json(&mut record, statement, lost),
        }
        self.record = record;
        FormattedStatement { text: &self.record, lost }
    }

    fn slow(&mut self, to: &mut Vec<u8>, it: &LoggedStatement<'_>, lost: u64) {
        let second = it.ended_us / 1_000_000;
        if self.second != Some(second) {
            let local = Timestamp::from_second(i64::try_from(second).unwrap_or_default()).unwrap_or_default();
            let local = local.to_zoned(self.time_zone.clone());
            put!(to, local.strftime("# Time: %y%m%d %k:%M:%S").to_string().as_str(), "\n");
            self.second = Some(second);
        }
        let (user, host) = (it.user.as_deref().unwrap_or_default(), it.host.as_deref().unwrap_or_default());
        let address = if host == "localhost" { "" } else { host };
        put!(to, "# User@Host: ", user, "[", user, "] @ ", host, " [", address, "]\n");
        let (id, schema) = (it.connection_id.unwrap_or(it.thread_id), it.schema.as_deref());
        put!(to, "# Thread_id: ", id, "  Schema: ", schema.unwrap_or_default(), "  QC_hit: No\n");
        put!(
            to,
            "# Query_time: ",
            FormattedSeconds(it.time_ps.unwrap_or(0)),
            "  Lock_time: ",
            FormattedSeconds(it.lock_ps)
        );
        put!(to, "  Rows_sent: ", it.rows_sent, "  Rows_examined: ", it.rows_examined);
        put!(to, "\n# Rows_affected: ", it.rows_affected, "\n");
        if it.tmp_tables > 0 {
            put!(to, "# Tmp_tables: ", it.tmp_tables, "  Tmp_disk_tables: ", it.tmp_disk_tables, "\n");
        }
        if it.program.is_some() || it.level > 0 {
            // The server writes this for a block without a name.
            put!(to, "# Stored_routine: ", it.program.as_deref().unwrap_or("."), "\n");
        }
        Self::slow_plan(to, it);
        if lost > 0 {
            put!(to, "# Lost: ", lost, "\n");
        }
        if self.share.weight() > 1 {
            put!(to, "# Log_slow_rate_type: query  Log_slow_rate_limit: ", self.share.weight(), "\n");
        }
        let text = self.text(it).map(|text| without_ends(text).to_owned());
        if let Some(name) = charset::told(it.charset, text.as_deref().unwrap_or_default()) {
            put!(to, "# Character_set: ", name, "\n");
        }
        let is_clear = |text: &[u8]| it.errors == 0 && !text.contains(&b'\n') && !text.ends_with(b"...");
        if let Some(text) = text.as_deref().filter(|text| !is_clear(text)) {
            put!(to, "# Text_bytes: ", text.len() as u64, "\n");
        }
        if let Some(schema) = schema
            && self.schema.as_deref() != Some(schema)
        {
            put!(to, "use ", plain_identifier(schema).as_str(), ";\n");
            self.schema = Some(schema.to_owned());
        }
        put!(to, "SET timestamp=", second, ";\n");
        match (text, it.command(), &it.digest) {
            (Some(text), ..) => put!(to, &text[..], ";\n"),
            (None, Some(command), _) => put!(to, "# administrator command: ", command, ";\n"),
            (None, None, Some(digest)) => put!(to, "/* ", &*it.event_name, " digest ", &**digest, " */;\n"),
            (None, None, None) => put!(to, "/* ", &*it.event_name, " */;\n"),
        }
    }

    /// Writes the query plan, if it has anything notable.
    fn slow_plan(to: &mut Vec<u8>, it: &LoggedStatement<'_>) {
        if [it.full_scan, it.full_join, it.tmp_tables, it.tmp_disk_tables, it.sorts, it.merge_passes]
            == [0; 6]
        {
            return;
        }
        put!(to, "# Full_scan: ", yes(it.full_scan), "  Full_join: ", yes(it.full_join));
        put!(to, "  Tmp_table: ", yes(it.tmp_tables), "  Tmp_table_on_disk: ", yes(it.tmp_disk_tables));
        put!(to, "\n# Filesort: ", yes(it.sorts), "  Filesort_on_disk: ", yes(it.merge_passes));
        put!(to, "  Merge_passes: ", it.merge_passes, "  Priority_queue: No\n");
    }

    fn json(&self, to: &mut Vec<u8>, it: &LoggedStatement<'_>, lost: u64) {
        let text = self.text(it);
        let shown = text.map(String::from_utf8_lossy);
        let is_utf8 = !matches!(shown, Some(Cow::Owned(_)));
        let ended = i64::try_from(it.ended_us).ok().and_then(|us| Timestamp::from_microsecond(us).ok());
        let line = JsonStatement {
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
            charset: charset::told(it.charset, text.unwrap_or_default()),
            text_hex: text.filter(|_| !is_utf8).map(hexadecimal),
            text: shown,
            weight: self.share.weight(),
            lost_before: lost,
        };
        // Texts and numbers can always be written.
        let _infallible = serde_json::to_writer(&mut *to, &line);
        put!(to, "\n");
    }

    fn text<'s>(&self, it: &'s LoggedStatement<'_>) -> Option<&'s [u8]> {
        match self.text {
            Text::Full => it.sql.as_deref(),
            Text::Normalised => it.digest_text.as_deref().map(str::as_bytes),
            Text::None => None,
        }
    }
}

/// A line of JSON.
#[derive(Serialize)]
struct JsonStatement<'s> {
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
    charset: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'s, str>>,
    /// Bytes of a text that is not UTF-8, as JSON must be.
    #[serde(skip_serializing_if = "Option::is_none")]
    text_hex: Option<String>,
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

/// A part of a line.
trait LinePart {
    fn put(self, to: &mut Vec<u8>);
}

impl LinePart for &str {
    fn put(self, to: &mut Vec<u8>) {
        to.extend_from_slice(self.as_bytes());
    }
}

impl LinePart for &[u8] {
    fn put(self, to: &mut Vec<u8>) {
        to.extend_from_slice(self);
    }
}

impl LinePart for u64 {
    fn put(self, to: &mut Vec<u8>) {
        to.extend_from_slice(itoa::Buffer::new().format(self).as_bytes());
    }
}

/// Picoseconds, formatted as seconds with six decimals, rounded.
struct FormattedSeconds(u64);

impl LinePart for FormattedSeconds {
    fn put(self, to: &mut Vec<u8>) {
        let us = self.0.saturating_add(500_000) / 1_000_000;
        // The first digit keeps the zeros of the others.
        let decimals = us % 1_000_000 + 1_000_000;
        put!(to, us / 1_000_000, ".", &itoa::Buffer::new().format(decimals)[1..]);
    }
}

fn as_seconds(ps: u64) -> f64 {
    ps as f64 / 1e12
}

/// Returns a text without the `;` and blanks at its end.
fn without_ends(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| *byte != b';' && !byte.is_ascii_whitespace());
    &text[..end.map_or(0, |end| end + 1)]
}

/// Formats bytes as hexadecimal digits.
fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let of = |byte: &u8| [byte >> 4, byte & 15].map(|digit| char::from(DIGITS[usize::from(digit)]));
    bytes.iter().flat_map(of).collect()
}

/// Quotes a schema's name for `use`, if it needs quotes.
fn plain_identifier(name: &str) -> String {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$');
    if is_plain { name.to_owned() } else { tare_server::sql::identifier(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement() -> LoggedStatement<'static> {
        LoggedStatement {
            thread_id: 40,
            event_name: "statement/sql/select".into(),
            time_ps: Some(1_234_567_890_000),
            lock_ps: 1_600_000,
            sql: Some(b"select *\nfrom t where a = 'secret';".into()),
            digest: Some("0123".into()),
            digest_text: Some("SELECT * FROM `t` WHERE `a` = ?".into()),
            schema: Some("shop".into()),
            rows_sent: 3,
            rows_examined: 1000,
            tmp_tables: 1,
            full_scan: 1,
            sorts: 5,
            connection_id: Some(8),
            user: Some("root".into()),
            host: Some("localhost".into()),
            ended_us: 1_696_929_303_250_000,
            ..LoggedStatement::default()
        }
    }

    fn writer(form: SlowLogFormat, text: Text) -> StatementFormatter {
        StatementFormatter {
            time_zone: TimeZone::UTC,
            ..StatementFormatter::new(form, text, "1/100".parse().expect("a share"))
        }
    }

    fn record(writer: &mut StatementFormatter, statement: &LoggedStatement<'_>) -> String {
        String::from_utf8_lossy(writer.record(statement).text).into_owned()
    }

    #[test]
    fn a_record_is_the_servers_own() {
        let mut writer = writer(SlowLogFormat::Slow, Text::Full);
        let first = "# Time: 231010  9:15:03\n\
            # User@Host: root[root] @ localhost []\n\
            # Thread_id: 8  Schema: shop  QC_hit: No\n\
            # Query_time: 1.234568  Lock_time: 0.000002  Rows_sent: 3  Rows_examined: 1000\n\
            # Rows_affected: 0\n\
            # Tmp_tables: 1  Tmp_disk_tables: 0\n\
            # Full_scan: Yes  Full_join: No  Tmp_table: Yes  Tmp_table_on_disk: No\n\
            # Filesort: Yes  Filesort_on_disk: No  Merge_passes: 0  Priority_queue: No\n\
            # Log_slow_rate_type: query  Log_slow_rate_limit: 100\n\
            # Text_bytes: 34\n\
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
        for form in [SlowLogFormat::Slow, SlowLogFormat::Json] {
            for (text, expected) in [(Text::Normalised, "WHERE `a` = ?"), (Text::None, "0123")] {
                let mut unknown = LoggedStatement { message: Some("no 'secret'".into()), ..statement() };
                let written = record(&mut writer(form, text), &unknown);
                assert!(written.contains(expected) && !written.contains("secret"), "{written}");
                // A statement that could not be parsed has no digest.
                (unknown.digest, unknown.digest_text) = (None, None);
                assert!(!record(&mut writer(form, text), &unknown).contains("secret"));
            }
        }
    }

    #[test]
    fn a_command_without_text_is_named() {
        let ping = LoggedStatement { event_name: "statement/com/Ping".into(), sql: None, ..statement() };
        let written = record(&mut writer(SlowLogFormat::Slow, Text::Full), &ping);
        assert!(written.ends_with("# administrator command: Ping;\n"), "{written}");
    }

    #[test]
    fn a_part_of_a_block_without_a_name_says_that_it_is_one() {
        let inner = LoggedStatement { level: 1, ..statement() };
        let written = record(&mut writer(SlowLogFormat::Slow, Text::Full), &inner);
        assert!(written.contains("# Stored_routine: .\n"), "{written}");
        let named = LoggedStatement { program: Some("shop.p".into()), ..inner };
        assert!(
            record(&mut writer(SlowLogFormat::Slow, Text::Full), &named)
                .contains("# Stored_routine: shop.p\n")
        );
    }

    #[test]
    fn what_was_sent_is_written_byte_by_byte() {
        let sent = b"insert into t values (_binary '\xff\0')";
        let it = LoggedStatement { sql: Some(sent.into()), charset: 8, ..statement() };
        let mut slow = writer(SlowLogFormat::Slow, Text::Full);
        let written = slow.record(&it).text;
        assert!(written.ends_with(&[&b"SET timestamp=1696929303;\n"[..], sent, b";\n"].concat()));
        assert!(String::from_utf8_lossy(written).contains("# Character_set: latin1\n"));
        let line = record(&mut writer(SlowLogFormat::Json, Text::Full), &it);
        let value: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        let digits: String = sent.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!((&value["text_hex"], &value["charset"]), (&digits.into(), &"latin1".into()));
        assert_eq!(value["text"], "insert into t values (_binary '\u{fffd}\0')");
    }

    #[test]
    fn how_long_a_text_is_stands_where_it_cannot_be_told() {
        let of = |it: &LoggedStatement<'_>| record(&mut writer(SlowLogFormat::Slow, Text::Full), it);
        let plain = LoggedStatement { sql: Some(b"select 'it;s' ;".into()), ..statement() };
        assert!(!of(&plain).contains("Text_bytes"));
        let failed = LoggedStatement { errors: 1, ..plain };
        assert!(of(&failed).contains("# Text_bytes: 13\n"));
    }

    #[test]
    fn a_line_is_an_object() {
        let mut writer = writer(SlowLogFormat::Json, Text::Full);
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
