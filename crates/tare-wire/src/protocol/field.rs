//! Column definitions of a result.

use tare_tables::{Column, SqlType, Table};

use super::handshake::UTF8MB3;
use super::reply::put_text;

/// The id of the `binary` pseudo character set, used for numbers, times and bytes.
const BINARY: u16 = 63;

mod flag {
    pub(super) const NOT_NULL: u16 = 1;
    pub(super) const MULTIPLE_KEY: u16 = 8;
    pub(super) const BLOB: u16 = 16;
    pub(super) const UNSIGNED: u16 = 32;
    pub(super) const BINARY: u16 = 128;
    pub(super) const ENUM: u16 = 256;
    pub(super) const TIMESTAMP: u16 = 1024;
    pub(super) const SET: u16 = 2048;
}

/// The column types, by the protocol's numbers.
mod kind {
    pub(super) const TINY: u8 = 1;
    pub(super) const SHORT: u8 = 2;
    pub(super) const LONG: u8 = 3;
    pub(super) const DOUBLE: u8 = 5;
    pub(super) const TIMESTAMP: u8 = 7;
    pub(super) const LONGLONG: u8 = 8;
    pub(super) const INT24: u8 = 9;
    pub(super) const DATE: u8 = 10;
    pub(super) const NEWDECIMAL: u8 = 246;
    pub(super) const BLOB: u8 = 252;
    pub(super) const VAR_STRING: u8 = 253;
    pub(super) const STRING: u8 = 254;
}

/// The protocol's value for "as many decimals as the value has".
const ANY_DECIMALS: u8 = 31;

/// A column of a result.
#[derive(Clone, Debug)]
pub(crate) struct ResultColumn {
    name: String,
    /// The table and column it comes from; `None` for expressions.
    origin: Option<(&'static str, &'static str)>,
    kind: u8,
    charset: u16,
    length: u32,
    flags: u16,
    decimals: u8,
}

impl ResultColumn {
    /// Describes a column of a table, under the name the client chose.
    pub(crate) fn of_table(table: &dyn Table, index: usize, name: String) -> Self {
        let column = &table.columns()[index];
        let mut field = ResultColumn::of_column(column, name);
        if table.indexes().iter().any(|columns| columns.first() == Some(&index)) {
            field.flags |= flag::MULTIPLE_KEY;
        }
        field.origin = Some((table.name(), column.name));
        field
    }

    fn of_column(column: &Column, name: String) -> Self {
        let number = |kind, length, flags| (kind, BINARY, length, flags, 0);
        let text = |kind, characters, flags| (kind, UTF8MB3, characters * 3, flags, 0);
        let (kind, charset, length, flags, decimals) = match column.sql_type {
            SqlType::BigInt => number(kind::LONGLONG, 20, 0),
            SqlType::BigIntUnsigned => number(kind::LONGLONG, 20, flag::UNSIGNED),
            SqlType::Int => number(kind::LONG, 11, 0),
            SqlType::IntUnsigned => number(kind::LONG, 10, flag::UNSIGNED),
            SqlType::MediumIntUnsigned => number(kind::INT24, 8, flag::UNSIGNED),
            SqlType::SmallInt => number(kind::SHORT, 6, 0),
            SqlType::TinyInt => number(kind::TINY, 4, 0),
            SqlType::Double(length, decimals) => (kind::DOUBLE, BINARY, u32::from(length), 0, decimals),
            SqlType::DoubleUnsigned(length, decimals) => {
                (kind::DOUBLE, BINARY, u32::from(length), flag::UNSIGNED, decimals)
            }
            SqlType::Char(length) => text(kind::STRING, u32::from(length), flag::BINARY),
            SqlType::VarChar(length) => text(kind::VAR_STRING, u32::from(length), 0),
            SqlType::Text => (kind::BLOB, UTF8MB3, 0xffff * 3, flag::BLOB, 0),
            SqlType::MediumText => (kind::BLOB, UTF8MB3, 0xff_ffff * 3, flag::BLOB, 0),
            SqlType::LongText => (kind::BLOB, UTF8MB3, u32::MAX, flag::BLOB, 0),
            SqlType::LongBlob => (kind::BLOB, BINARY, u32::MAX, flag::BLOB | flag::BINARY, 0),
            SqlType::Enum(members) => {
                let longest = members.iter().map(|member| member.len()).max().unwrap_or(0);
                text(kind::STRING, longest as u32, flag::ENUM)
            }
            SqlType::Set(members) => text(kind::STRING, members.join(",").len() as u32, flag::SET),
            SqlType::Timestamp => number(kind::TIMESTAMP, 19, flag::BINARY | flag::TIMESTAMP),
            SqlType::TimestampMicros => (kind::TIMESTAMP, BINARY, 26, flag::BINARY | flag::TIMESTAMP, 6),
            SqlType::Date => number(kind::DATE, 10, flag::BINARY),
        };
        let not_null = if column.nullable { 0 } else { flag::NOT_NULL };
        ResultColumn { name, origin: None, kind, charset, length, flags: flags | not_null, decimals }
    }

    /// Describes a text that is not a table's column.
    pub(crate) fn text(name: impl Into<String>) -> Self {
        let (kind, length) = (kind::VAR_STRING, 1024 * 3);
        ResultColumn {
            name: name.into(),
            origin: None,
            kind,
            charset: UTF8MB3,
            length,
            flags: 0,
            decimals: 0,
        }
    }

    /// Describes an integer that is not a table's column.
    pub(crate) fn integer(name: impl Into<String>) -> Self {
        ResultColumn::numeric(name.into(), kind::LONGLONG, 21, 0)
    }

    /// Describes a sum of integers, which may need more than 64 bits.
    pub(crate) fn decimal(name: impl Into<String>) -> Self {
        ResultColumn::numeric(name.into(), kind::NEWDECIMAL, 42, 0)
    }

    /// Describes a floating-point number.
    pub(crate) fn double(name: impl Into<String>) -> Self {
        ResultColumn::numeric(name.into(), kind::DOUBLE, 23, ANY_DECIMALS)
    }

    fn numeric(name: String, kind: u8, length: u32, decimals: u8) -> Self {
        ResultColumn { name, origin: None, kind, charset: BINARY, length, flags: flag::BINARY, decimals }
    }

    /// Allows NULL although the column it comes from does not (MIN of no rows).
    pub(crate) fn nullable(mut self) -> Self {
        self.flags &= !flag::NOT_NULL;
        self
    }

    /// Appends the column definition packet.
    pub(crate) fn put(&self, packet: &mut Vec<u8>) {
        let (table, column) = self.origin.unwrap_or(("", ""));
        let schema = if table.is_empty() { "" } else { "performance_schema" };
        for text in ["def", schema, table, table, &self.name, column] {
            put_text(packet, text.as_bytes());
        }
        packet.push(0x0c);
        packet.extend_from_slice(&self.charset.to_le_bytes());
        packet.extend_from_slice(&self.length.to_le_bytes());
        packet.push(self.kind);
        packet.extend_from_slice(&self.flags.to_le_bytes());
        packet.push(self.decimals);
        packet.extend_from_slice(&[0, 0]);
    }
}
