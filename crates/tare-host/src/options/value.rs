//! The parsing and formatting of values in option files.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tare_engine::{Recording, SampleRate};
use tare_tables::Shape;

use super::{InstrumentSetting, LevelSetting};
use crate::socket;

/// Parses `ON`, `OFF` and their common other spellings.
pub(crate) fn switch(text: &str) -> Option<bool> {
    let is_one_of = |words: &[&str]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    if is_one_of(&["ON", "TRUE", "YES", "1"]) {
        Some(true)
    } else if is_one_of(&["OFF", "FALSE", "NO", "0"]) {
        Some(false)
    } else {
        None
    }
}

/// Parses digits, optionally followed by `K`, `M` or `G` (powers of 1024).
pub fn size(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()?.to_ascii_uppercase() {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        b'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    count(digits)?.checked_mul(1 << shift)
}

/// Parses digits only: no sign, no spaces.
pub(crate) fn count(text: &str) -> Option<u64> {
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// Formats a size: `64M`, `1536K`, `1000`.
pub(crate) fn show_size(bytes: u64) -> String {
    for (shift, suffix) in [(30, "G"), (20, "M"), (10, "K")] {
        if bytes >= 1 << shift && bytes.is_multiple_of(1 << shift) {
            return format!("{}{suffix}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// Splits `pattern=setting` at the last `=` and trims both parts.
pub(crate) fn rule(text: &str) -> Option<(&str, &str)> {
    let (pattern, setting) = text.rsplit_once('=')?;
    let pattern = pattern.trim();
    if pattern.is_empty() { None } else { Some((pattern, setting.trim())) }
}

pub(crate) fn instrument_setting(text: &str) -> Option<InstrumentSetting> {
    if text.eq_ignore_ascii_case("COUNTED") {
        return Some(InstrumentSetting::Counted);
    }
    Some(if switch(text)? { InstrumentSetting::On } else { InstrumentSetting::Off })
}

pub(crate) fn level_setting(text: &str) -> Option<LevelSetting> {
    if text.eq_ignore_ascii_case(OFF) {
        return Some(LevelSetting::Off);
    }
    Recording::named(text).map(LevelSetting::At)
}

/// The level of an instrument that is off.
const OFF: &str = "off";

/// Returns the names of levels, as [`level_setting`] parses them, the highest first.
pub(crate) fn levels() -> impl Iterator<Item = &'static str> {
    Recording::ALL.into_iter().rev().map(Recording::name).chain([OFF])
}

/// Parses a duration such as `10ms` or `2s`.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let count = count(digits)?;
    match unit {
        "us" => Some(Duration::from_micros(count)),
        "ms" => Some(Duration::from_millis(count)),
        "s" => Some(Duration::from_secs(count)),
        _ => None,
    }
}

/// Formats a duration.
pub fn show_duration(duration: Duration) -> String {
    match duration.as_micros() {
        micros if micros.is_multiple_of(1_000_000) => format!("{}s", duration.as_secs()),
        micros if micros.is_multiple_of(1000) => format!("{}ms", duration.as_millis()),
        micros => format!("{micros}us"),
    }
}

/// Parses an interval such as `1s`; `OFF` and `0` are zero.
pub(crate) fn interval(text: &str) -> Option<Duration> {
    if switch(text) == Some(false) { Some(Duration::ZERO) } else { duration(text) }
}

/// Formats an interval; zero is `OFF`.
pub fn show_interval(interval: Duration) -> String {
    if interval.is_zero() { "OFF".to_owned() } else { show_duration(interval) }
}

/// Returns the allowed intervals as a text for people.
pub(crate) fn allowed_interval(min: Duration, max: Duration) -> String {
    format!("OFF, or {} to {}, such as 100ms or 1s", show_duration(min), show_duration(max))
}

/// Parses a sample rate such as `1000/s` or `1/64`.
pub(crate) fn sample_rate(text: &str) -> Option<SampleRate> {
    let (number, of) = text.split_once('/')?;
    let bounded =
        |text| count(text).and_then(|n| u32::try_from(n).ok()).filter(|n| (1..=1_000_000).contains(n));
    match (number.trim(), of.trim()) {
        (number, "s") => bounded(number).map(SampleRate::PerSecond),
        ("1", of) => bounded(of).map(SampleRate::OneIn),
        _ => None,
    }
}

/// Formats a sample rate.
pub fn show_sample_rate(rate: SampleRate) -> String {
    match rate {
        SampleRate::PerSecond(rate) => format!("{rate}/s"),
        SampleRate::OneIn(weight) => format!("1/{weight}"),
    }
}

pub(crate) fn shape(text: &str) -> Option<Shape> {
    [("strict", Shape::Strict), ("extended", Shape::Extended)]
        .into_iter()
        .find_map(|(name, shape)| text.eq_ignore_ascii_case(name).then_some(shape))
}

pub(crate) fn socket(text: &str) -> Result<PathBuf, String> {
    let path = Path::new(text);
    socket::check_socket_path(path).map_err(|error| format!("'{text}': {error}"))?;
    absolute(text)
}

pub(crate) fn absolute(text: &str) -> Result<PathBuf, String> {
    let path = Path::new(text);
    if path.is_absolute() { Ok(path.to_owned()) } else { Err(format!("'{text}' is not an absolute path")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_written() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("1000", Some(1000)),
            ("64M", Some(64 << 20)),
            ("64m", Some(64 << 20)),
            ("2g", Some(2 << 30)),
            ("3K", Some(3072)),
            ("17179869184G", None),
            ("18446744073709551616", None),
            ("", None),
            ("M", None),
            ("-1", None),
            ("+1", None),
            ("1 M", None),
            ("1MB", None),
            ("1.5M", None),
            ("٣", None),
        ] {
            assert_eq!(size(text), bytes, "{text:?}");
        }
    }

    #[test]
    fn a_shown_size_reads_back() {
        for bytes in [0, 1, 1023, 1024, 1025, 1 << 20, (1 << 20) + 1, 3 << 30, u64::MAX] {
            assert_eq!(size(&show_size(bytes)), Some(bytes));
        }
    }

    #[test]
    fn durations_and_rates_are_read_as_written() {
        for text in ["10ms", "250us", "2s", "3600s"] {
            assert_eq!(duration(text).map(show_duration).as_deref(), Some(text));
        }
        assert_eq!(duration("1000ms"), Some(Duration::from_secs(1)));
        for (text, shown) in [("0", "OFF"), ("off", "OFF"), ("0s", "OFF"), ("100ms", "100ms"), ("60s", "60s")]
        {
            assert_eq!(interval(text).map(show_interval).as_deref(), Some(shown), "{text:?}");
        }
        assert_eq!((interval("on"), interval(""), interval("1")), (None, None, None));
        for text in ["", "10", "ms", "-1ms", "1.5s", "1h", "10 ms"] {
            assert_eq!(duration(text), None, "{text:?}");
        }
        for text in ["1000/s", "1/64", "1/1", "1/s"] {
            assert_eq!(sample_rate(text).map(show_sample_rate).as_deref(), Some(text));
        }
        for text in ["", "1000", "0/s", "1/0", "2/64", "1/x", "/s", "-1/s", "1000000000000/s"] {
            assert_eq!(sample_rate(text), None, "{text:?}");
        }
    }

    #[test]
    fn switches_know_their_spellings() {
        for (text, on) in
            [("on", Some(true)), ("Yes", Some(true)), ("0", Some(false)), ("", None), ("2", None)]
        {
            assert_eq!(switch(text), on, "{text:?}");
        }
    }
}
