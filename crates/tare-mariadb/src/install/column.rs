//! A column in the format: its place in a record, its flags, its default.

use tare_tables::SqlType;

use super::definition::{Collation, Default, FrmField};
use super::frm::Bytes;

/// The size of a column's description in bytes.
pub(super) const DESCRIPTION: usize = 17;
/// The bytes per character of utf8mb3.
const WIDTH: u16 = 3;

/// The numbers of the column types in the format.
mod kind {
    pub(super) const TINY: u8 = 1;
    pub(super) const SHORT: u8 = 2;
    pub(super) const LONG: u8 = 3;
    pub(super) const DOUBLE: u8 = 5;
    pub(super) const LONGLONG: u8 = 8;
    pub(super) const MEDIUM: u8 = 9;
    pub(super) const DATE: u8 = 14;
    pub(super) const VARCHAR: u8 = 15;
    pub(super) const TIMESTAMP: u8 = 17;
    pub(super) const ENUM: u8 = 247;
    pub(super) const SET: u8 = 248;
    pub(super) const MEDIUM_BLOB: u8 = 250;
    pub(super) const LONG_BLOB: u8 = 251;
    pub(super) const BLOB: u8 = 252;
    pub(super) const CHAR: u8 = 254;
}

/// The bits of a field's flags.
mod flag {
    /// A signed number, or a text compared by its bytes.
    pub(super) const SIGNED_OR_BINARY: u16 = 1;
    pub(super) const NUMBER: u16 = 2;
    pub(super) const ENUM: u16 = 0x100;
    pub(super) const SET: u16 = 0x200;
    pub(super) const BLOB: u16 = 0x400;
    pub(super) const NO_DEFAULT: u16 = 0x4000;
    pub(super) const MAYBE_NULL: u16 = 0x8000;

    /// Returns the flag bits of a value's packing, given as the number of a type.
    pub(super) const fn packed(kind: u8) -> u16 {
        (kind as u16) << 3
    }
}

/// A column with its place in a record.
pub(super) struct Packed<'d> {
    pub(super) field: &'d FrmField<'d>,
    /// The offset from the record's start.
    pub(super) offset: usize,
    /// The size in the record in bytes.
    pub(super) size: usize,
    /// The number of its list of members, from 1; 0 if it has none.
    pub(super) interval: u8,
}

impl Packed<'_> {
    pub(super) fn describe(&self) -> [u8; DESCRIPTION] {
        let mut bytes = Bytes::zeroed(DESCRIPTION);
        bytes.put16(3, width(self.field));
        // The field has three bytes; a record is shorter than 64 KiB.
        bytes.put16(5, self.offset as u16 + 1);
        bytes.put16(8, self.flags());
        // The number 0x17 means "default and on update: now".
        bytes.0[10] = if self.field.default == Default::Now { 0x17 } else { 0 };
        bytes.0[12] = self.interval;
        let (kind, charset) = kind_and_charset(self.field);
        bytes.0[13] = kind;
        bytes.0[14] = charset;
        bytes.put16(15, self.field.comment.len() as u16);
        let mut described = [0; DESCRIPTION];
        described.copy_from_slice(&bytes.0);
        described
    }

    pub(super) fn flags(&self) -> u16 {
        let field = self.field;
        let binary = u16::from(field.collation == Collation::Bin);
        let own = match field.sql_type {
            SqlType::BigInt => flag::NUMBER | flag::SIGNED_OR_BINARY | flag::packed(kind::LONGLONG),
            SqlType::BigIntUnsigned => flag::NUMBER | flag::packed(kind::LONGLONG),
            SqlType::Int => flag::NUMBER | flag::SIGNED_OR_BINARY | flag::packed(kind::LONG),
            SqlType::IntUnsigned => flag::NUMBER | flag::packed(kind::LONG),
            SqlType::MediumIntUnsigned => flag::NUMBER | flag::packed(kind::MEDIUM),
            SqlType::SmallInt => flag::NUMBER | flag::SIGNED_OR_BINARY | flag::packed(kind::SHORT),
            SqlType::TinyInt => flag::NUMBER | flag::SIGNED_OR_BINARY | flag::packed(kind::TINY),
            SqlType::Double(_, decimals) => {
                flag::NUMBER
                    | flag::SIGNED_OR_BINARY
                    | flag::packed(kind::DOUBLE)
                    | (u16::from(decimals) << 8)
            }
            SqlType::DoubleUnsigned(_, decimals) => {
                flag::NUMBER | flag::packed(kind::DOUBLE) | (u16::from(decimals) << 8)
            }
            SqlType::Char(_) | SqlType::VarChar(_) => binary,
            // Packed like the number of the length's bytes: types 2 and 9.
            SqlType::Text => flag::BLOB | flag::packed(kind::SHORT) | binary,
            SqlType::MediumText => flag::BLOB | flag::packed(kind::MEDIUM) | binary,
            SqlType::LongText => flag::BLOB | flag::packed(kind::LONG) | binary,
            SqlType::LongBlob => flag::BLOB | flag::packed(kind::LONG) | flag::SIGNED_OR_BINARY,
            // Packed like a TINY or a SHORT: types 1 and 2.
            SqlType::Enum(_) => flag::ENUM | flag::packed(self.size as u8) | binary,
            SqlType::Set(_) => flag::SET | flag::packed(self.size as u8) | binary,
            SqlType::Timestamp | SqlType::TimestampMicros => flag::NUMBER | flag::packed(kind::TIMESTAMP),
            SqlType::Date => flag::packed(kind::DATE),
        };
        let null = if field.nullable { flag::MAYBE_NULL } else { 0 };
        let required = if field.default == Default::None { flag::NO_DEFAULT } else { 0 };
        own | null | required
    }

    /// Returns the flags as a key repeats them, without decimals.
    pub(super) fn key_flags(&self) -> u16 {
        match self.field.sql_type {
            SqlType::Double(_, decimals) | SqlType::DoubleUnsigned(_, decimals) => {
                self.flags() & !(u16::from(decimals) << 8)
            }
            _ => self.flags(),
        }
    }

    /// Writes the default value.
    pub(super) fn default(&self, value: &mut [u8]) {
        let text = match self.field.default {
            Default::Text(text) => text.as_bytes(),
            _ => &[],
        };
        match self.field.sql_type {
            SqlType::Char(_) => {
                value.fill(b' ');
                value[..text.len()].copy_from_slice(text);
            }
            SqlType::VarChar(_) => {
                let length = length_bytes(self.size);
                value[0] = text.len() as u8;
                value[length..length + text.len()].copy_from_slice(text);
            }
            SqlType::Enum(members) => {
                let named = members.iter().position(|member| member.as_bytes() == text);
                // The default of a NOT NULL enum without one is its first member.
                let first = usize::from(!self.field.nullable);
                let number = named.map_or(first, |at| at + 1);
                value.copy_from_slice(&number.to_le_bytes()[..self.size]);
            }
            // A bit for each member; without a default no bit is set.
            SqlType::Set(members) => {
                value[0] =
                    members.iter().position(|member| member.as_bytes() == text).map_or(0, |at| 1 << at);
            }
            _ => {}
        }
    }
}

/// Returns the size of a column in a record in bytes.
pub(super) fn record_size(field: &FrmField<'_>) -> usize {
    let value = value_size(field);
    match field.sql_type {
        SqlType::VarChar(_) => value + if value < 256 { 1 } else { 2 },
        // A length and a pointer.
        SqlType::Text => 2 + 8,
        SqlType::MediumText => 3 + 8,
        SqlType::LongText | SqlType::LongBlob => 4 + 8,
        _ => value,
    }
}

/// Returns the size in bytes of the length before a VARCHAR of this size in a record.
fn length_bytes(record_size: usize) -> usize {
    if record_size <= 256 { 1 } else { 2 }
}

/// Returns the size in bytes of a column's value, and of a key's part.
pub(super) fn value_size(field: &FrmField<'_>) -> usize {
    match field.sql_type {
        SqlType::BigInt | SqlType::BigIntUnsigned | SqlType::Double(..) | SqlType::DoubleUnsigned(..) => 8,
        SqlType::TimestampMicros => 7,
        SqlType::MediumIntUnsigned | SqlType::Date => 3,
        SqlType::SmallInt => 2,
        SqlType::TinyInt => 1,
        SqlType::Int | SqlType::IntUnsigned | SqlType::Timestamp => 4,
        SqlType::Char(characters) | SqlType::VarChar(characters) => usize::from(characters * WIDTH),
        SqlType::Enum(members) => 1 + usize::from(members.len() > 255),
        SqlType::Set(_) => 1,
        SqlType::Text | SqlType::MediumText | SqlType::LongText | SqlType::LongBlob => 0,
    }
}

/// Returns the width of a column as the format counts it: digits, bytes, or the size of a pointer.
pub(super) fn width(field: &FrmField<'_>) -> u16 {
    match field.sql_type {
        SqlType::BigInt | SqlType::BigIntUnsigned => 20,
        SqlType::Int => 11,
        SqlType::IntUnsigned => 10,
        SqlType::MediumIntUnsigned => 8,
        SqlType::SmallInt => 6,
        SqlType::TinyInt => 4,
        SqlType::Double(digits, _) | SqlType::DoubleUnsigned(digits, _) => u16::from(digits),
        SqlType::Char(characters) | SqlType::VarChar(characters) => characters * WIDTH,
        SqlType::Text | SqlType::MediumText | SqlType::LongText | SqlType::LongBlob => 8,
        SqlType::Enum(members) => {
            members.iter().map(|it| it.chars().count() as u16).max().unwrap_or(0) * WIDTH
        }
        SqlType::Set(members) => members.join(",").chars().count() as u16 * WIDTH,
        SqlType::Timestamp => 19,
        SqlType::TimestampMicros => 26,
        SqlType::Date => 10,
    }
}

fn kind_and_charset(field: &FrmField<'_>) -> (u8, u8) {
    /// The character sets of printed numbers and times, and of blobs.
    const NUMERIC: u8 = 8;
    const BINARY: u8 = 63;
    let text = field.collation as u8;
    match field.sql_type {
        SqlType::BigInt | SqlType::BigIntUnsigned => (kind::LONGLONG, NUMERIC),
        SqlType::Int | SqlType::IntUnsigned => (kind::LONG, NUMERIC),
        SqlType::MediumIntUnsigned => (kind::MEDIUM, NUMERIC),
        SqlType::SmallInt => (kind::SHORT, NUMERIC),
        SqlType::TinyInt => (kind::TINY, NUMERIC),
        SqlType::Double(..) | SqlType::DoubleUnsigned(..) => (kind::DOUBLE, 0),
        SqlType::Char(_) => (kind::CHAR, text),
        SqlType::VarChar(_) => (kind::VARCHAR, text),
        SqlType::Text => (kind::BLOB, text),
        SqlType::MediumText => (kind::MEDIUM_BLOB, text),
        SqlType::LongText => (kind::LONG_BLOB, text),
        SqlType::LongBlob => (kind::LONG_BLOB, BINARY),
        SqlType::Enum(_) => (kind::ENUM, text),
        SqlType::Set(_) => (kind::SET, text),
        SqlType::Timestamp | SqlType::TimestampMicros => (kind::TIMESTAMP, NUMERIC),
        SqlType::Date => (kind::DATE, NUMERIC),
    }
}
