//! Replies: OK, an error, or rows sent as they come.

use std::borrow::Cow;
use std::io;

use tare_tables::Value;

use super::field::ResultColumn;
use super::handshake::STATUS;
use super::packet::PacketWriter;
use crate::failure::ErrorPacket;
use crate::text::calendar::Calendar;

/// Returns an OK packet with the number of rows a write touched and a line of text about it.
pub(crate) fn ok(affected: u64, info: &str) -> Vec<u8> {
    let mut packet = vec![0];
    put_length(&mut packet, affected);
    packet.push(0);
    packet.extend_from_slice(&STATUS.to_le_bytes());
    packet.extend_from_slice(&[0, 0]);
    if !info.is_empty() {
        put_text(&mut packet, info.as_bytes());
    }
    packet
}

/// Returns the packet that ends a list of columns or rows.
pub(crate) fn eof() -> [u8; 5] {
    let status = STATUS.to_le_bytes();
    [0xfe, 0, 0, status[0], status[1]]
}

/// Returns an error packet.
pub(crate) fn error(failure: &ErrorPacket) -> Vec<u8> {
    let mut packet = vec![0xff];
    packet.extend_from_slice(&failure.code.to_le_bytes());
    packet.push(b'#');
    packet.extend_from_slice(failure.state.as_bytes());
    packet.extend_from_slice(failure.message.as_bytes());
    packet
}

/// Appends a length-encoded integer.
pub(crate) fn put_length(packet: &mut Vec<u8>, length: u64) {
    let bytes = length.to_le_bytes();
    match length {
        0..=250 => packet.push(bytes[0]),
        251..=0xffff => {
            packet.push(252);
            packet.extend_from_slice(&bytes[..2]);
        }
        0x1_0000..=0xff_ffff => {
            packet.push(253);
            packet.extend_from_slice(&bytes[..3]);
        }
        _ => {
            packet.push(254);
            packet.extend_from_slice(&bytes);
        }
    }
}

/// Appends a length-encoded string. Most are short, and reading a large table spends most of its time here.
#[inline]
pub(crate) fn put_text(packet: &mut Vec<u8>, text: &[u8]) {
    packet.reserve(text.len() + 9);
    match text.len() {
        length @ 0..=250 => packet.push(length as u8),
        length => put_length(packet, length as u64),
    }
    packet.extend_from_slice(text);
}

/// A result being sent: its columns, then row after row. Each value is written directly into the send buffer.
pub(crate) struct ResultWriter<'w, 'a> {
    writer: &'w mut PacketWriter<'a>,
    /// The start of the current row in the send buffer; `None` between rows.
    start: Option<usize>,
    narrow: bool,
    calendar: Calendar,
    count: u64,
}

impl<'w, 'a> ResultWriter<'w, 'a> {
    /// Sends the columns. `narrow` means that the client reads utf8mb3, which has no characters beyond the
    /// first plane.
    pub(crate) fn begin(
        writer: &'w mut PacketWriter<'a>,
        fields: &[ResultColumn],
        narrow: bool,
    ) -> io::Result<Self> {
        let start = writer.begin();
        put_length(writer.payload(), fields.len() as u64);
        writer.end(start)?;
        for field in fields {
            let start = writer.begin();
            field.put(writer.payload());
            writer.end(start)?;
        }
        writer.packet(&eof())?;
        Ok(ResultWriter { writer, start: None, narrow, calendar: Calendar::new(), count: 0 })
    }

    /// Appends a value to the current row. `decimals` is the number of decimals of a double or a time; with
    /// `None` a double has as many as it needs and a time has none.
    #[inline]
    pub(crate) fn value(&mut self, value: &Value<'_>, decimals: Option<u8>) {
        match value {
            Value::Null => self.null(),
            Value::Unsigned(number) => self.unsigned(*number),
            Value::Signed(number) => match u64::try_from(*number) {
                Ok(number) => self.unsigned(number),
                Err(_) => self.integer(*number),
            },
            Value::Double(number) => match decimals {
                Some(decimals) => self.text(&format!("{number:.*}", usize::from(decimals))),
                None => self.text(&format!("{number}")),
            },
            Value::Text(text) => self.text(text),
            Value::Bytes(bytes) => put_text(self.row(), bytes),
            Value::Timestamp(microseconds) => {
                self.row();
                put_text(self.writer.payload(), self.calendar.text(*microseconds, decimals.unwrap_or(0)));
            }
        }
    }

    /// Appends text.
    pub(crate) fn text(&mut self, text: &str) {
        let text = if self.narrow { narrowed(text) } else { Cow::Borrowed(text) };
        put_text(self.row(), text.as_bytes());
    }

    /// Appends a number. Most values are numbers: tables of sums have a million of them, nearly all 0.
    #[inline(always)]
    pub(crate) fn unsigned(&mut self, number: u64) {
        match number {
            digit @ 0..=9 => self.row().extend_from_slice(&[1, b'0' + digit as u8]),
            _ => put_text(self.row(), itoa::Buffer::new().format(number).as_bytes()),
        }
    }

    /// Appends NULL.
    #[inline]
    pub(crate) fn null(&mut self) {
        self.row().push(0xfb);
    }

    /// Appends `count` NULLs.
    #[inline]
    pub(crate) fn nulls(&mut self, count: usize) {
        let row = self.row();
        row.resize(row.len() + count, 0xfb);
    }

    /// Appends several numbers; runs of one-digit numbers are appended together.
    pub(crate) fn numbers(&mut self, mut numbers: &[u64]) {
        const MOST: usize = 32;
        while !numbers.is_empty() {
            let mut digits = [[1, b'0']; MOST];
            let small = numbers.iter().zip(&mut digits).take_while(|(number, _)| **number <= 9);
            let count = small.map(|(number, [_, digit])| *digit += *number as u8).count();
            self.row().extend_from_slice(digits[..count].as_flattened());
            numbers = &numbers[count..];
            if let Some((number, rest)) = numbers.split_first()
                && *number > 9
            {
                self.integer(*number);
                numbers = rest;
            }
        }
    }

    #[inline(never)]
    fn integer(&mut self, number: impl itoa::Integer) {
        put_text(self.row(), itoa::Buffer::new().format(number).as_bytes());
    }

    /// Returns the buffer of the current row and begins the row if needed.
    #[inline]
    fn row(&mut self) -> &mut Vec<u8> {
        if self.start.is_none() {
            self.start = Some(self.writer.begin());
        }
        self.writer.payload()
    }

    /// Sends the current row.
    pub(crate) fn end_row(&mut self) -> io::Result<()> {
        self.count += 1;
        let start = self.start.take().unwrap_or_else(|| self.writer.begin());
        self.writer.end(start)
    }

    /// Returns the number of rows sent so far.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Ends the result.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.writer.packet(&eof())
    }
}

impl Drop for ResultWriter<'_, '_> {
    /// Discards a row that was not ended because of a panic.
    fn drop(&mut self) {
        if let Some(start) = self.start {
            self.writer.payload().truncate(start);
        }
    }
}

/// Converts text to utf8mb3. Each byte of a character beyond the first plane becomes a `?`, as when the
/// built-in stores one.
fn narrowed(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || text.bytes().all(|byte| byte < 0xf0) {
        return Cow::Borrowed(text);
    }
    let mut narrowed = String::with_capacity(text.len());
    for char in text.chars() {
        if char > '\u{ffff}' { narrowed.push_str("????") } else { narrowed.push(char) }
    }
    Cow::Owned(narrowed)
}
