//! The `.frm` format: a table's definition as the server keeps it in a file.
//!
//! A file is, in this order (all numbers little-endian; *record* is a row in the server's own layout):
//!
//! | part | length | holds |
//! |---|---|---|
//! | header | 64 | kinds, sizes and positions of the other parts |
//! | extra2 | bytes 4–5 | tagged values: the definition's id, a flag byte per key; then the place of *form* |
//! | keys | bytes 47–50 | keys and their parts, names; padded to the size the format reserves |
//! | record | bytes 16–17 | the row of defaults |
//! | extra | bytes 55–58 | connect string, engine name, partitions (none) |
//! | form | 288 | counts and the table's comment |
//! | fields | 17 each | then names, enum members, comments |
//!
//! The layout is the same for every server this provider knows (10.6 to 11.8); the tests compare these bytes
//! with those the server writes for the same DDL.

use tare_tables::SqlType;

use super::column::{DESCRIPTION, Packed, record_size, value_size, width};
use super::definition::{Default, FrmField, KeyDefinition, TableDefinition};

/// The engine's name and its number in the header.
const ENGINE: (&[u8], u8) = (b"FEDERATED", 18);
/// The server version that a file claims to come from: old enough for every server, new enough to need no
/// conversion.
const SERVER_VERSION: u32 = 10_11_00;
/// The format's own version for tables without expressions.
const FORMAT_VERSION: u8 = 10;
const HEADER: usize = 64;
const FORM: usize = 288;
/// The bytes that the format reserves per key, however many parts it has: its head, 32 parts, a name of 64
/// characters.
const KEY_RESERVE: usize = 8 + 32 * 9 + 192 + 1;
const SEPARATOR: u8 = 0xFF;
/// The longest comment of a column, in characters.
const COLUMN_COMMENT: usize = 1024;
/// The longest comment of a table that is kept in *form*, in bytes.
const TABLE_COMMENT: usize = 180;
/// The longest key, in bytes.
const KEY_LENGTH: usize = 3072;
/// The length of a definition's id in bytes. FEDERATED accepts any id; the server writes sixteen bytes.
const ID_LENGTH: usize = 16;

/// The reason a definition does not fit the format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrmError {
    /// A comment is longer than the server accepts.
    #[error("the comment of {0} is too long")]
    Comment(String),
    /// A key is too long or contains a column that cannot be in one.
    #[error("the key {0} can't be: a text without length, or more than {KEY_LENGTH} bytes")]
    Key(String),
    /// The definition as a whole is too large.
    #[error("the definition is too large")]
    Size,
}

/// The bits of a key's flags; in the file the first is inverted.
mod key_flag {
    pub(super) const UNIQUE: u16 = 1;
    pub(super) const PACKED: u16 = 2;
    pub(super) const VARIABLE_LENGTH: u16 = 8;
    pub(super) const BINARY_PACKED: u16 = 32;
    pub(super) const NULL_PART: u16 = 64;
}

/// Writes a definition as the bytes of a file.
///
/// # Errors
///
/// When a comment, a key or the whole is too large for the format.
pub fn write(definition: &TableDefinition<'_>) -> Result<Vec<u8>, FrmError> {
    check(definition)?;
    let layout = FrmLayout::of(definition);
    let keys = layout.keys(definition);
    let record = layout.record(definition);
    let extra = extra(definition);
    let names = layout.names();

    let extra2_length = 2 + ID_LENGTH + key_flags(definition).len();
    let keys_at = HEADER + extra2_length + 4;
    let keys_length = definition.keys.len() * KEY_RESERVE + 16;
    let form_at = keys_at + keys_length + record.len() + extra.len();
    let form_length = FORM + layout.fields.len() * DESCRIPTION + names.len();
    let file_length = form_at + form_length;

    let mut file = Bytes(Vec::with_capacity(file_length));
    let mut header = header(definition, &layout);
    header.put16(4, fit16(extra2_length)?);
    header.put16(6, fit16(keys_at)?);
    header.put32(10, fit32(file_length)?);
    header.put16(14, u16::try_from(keys_length).unwrap_or(u16::MAX));
    header.put16(16, fit16(record.len())?);
    header.put16(28, fit16(keys.len())?);
    header.put32(47, fit32(keys_length)?);
    header.put32(55, fit32(extra.len())?);
    file.0.extend(header.0);
    file.0.extend([0, ID_LENGTH as u8]);
    let id_at = file.0.len();
    file.0.extend([0; ID_LENGTH]);
    file.0.extend(key_flags(definition));
    file.0.extend(fit32(form_at)?.to_le_bytes());
    file.0.extend(&keys);
    file.0.resize(keys_at + keys_length, 0);
    file.0.extend(record);
    file.0.extend(extra);
    file.0.extend(layout.form(definition, fit16(form_length)?)?.0);
    layout.fields.iter().for_each(|packed| file.0.extend(packed.describe()));
    file.0.extend(names);

    let id = id(&file.0);
    file.0[id_at..id_at + ID_LENGTH].copy_from_slice(&id);
    Ok(file.0)
}

/// The parts of a file that identify its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) connection: Vec<u8>,
    pub(super) comment: String,
}

/// Reads connection and comment of a FEDERATED table's file; returns `None` for any other file.
pub(super) fn read_mark(file: &[u8]) -> Option<Mark> {
    let get = |at: usize, length: usize| file.get(at..at.checked_add(length)?);
    let get16 = |at: usize| get(at, 2).map(|b| usize::from(u16::from_le_bytes([b[0], b[1]])));
    let get32 = |at: usize| get16(at + 2).zip(get16(at)).map(|(high, low)| (high << 16) | low);
    if get(0, 4)? != [254, 1, FORMAT_VERSION, ENGINE.1] {
        return None;
    }
    let extra = get16(6)? + get32(47)? + get16(16)?;
    let connection = get(extra + 2, get16(extra)?)?;
    let engine = extra + 2 + connection.len();
    if get(engine + 2, get16(engine)?)? != ENGINE.0 {
        return None;
    }
    let form = get32(HEADER + get16(4)?)?;
    let comment = get(form + 47, usize::from(*file.get(form + 46)?))?;
    Some(Mark { connection: connection.to_vec(), comment: String::from_utf8_lossy(comment).into_owned() })
}

fn check(definition: &TableDefinition<'_>) -> Result<(), FrmError> {
    if definition.comment.len() > TABLE_COMMENT {
        return Err(FrmError::Comment("the table".into()));
    }
    if let Some(field) = definition.fields.iter().find(|it| it.comment.chars().count() > COLUMN_COMMENT) {
        return Err(FrmError::Comment(field.name.into()));
    }
    let possible = |key: &&KeyDefinition| {
        let fields = || key.columns.iter().map(|column| &definition.fields[*column]);
        let text = |field: &FrmField<'_>| field.sql_type.is_blob();
        !fields().any(text) && fields().map(value_size).sum::<usize>() <= KEY_LENGTH
    };
    match definition.keys.iter().find(|key| !possible(key)) {
        Some(key) => Err(FrmError::Key(key.name.clone())),
        None => Ok(()),
    }
}

fn header(definition: &TableDefinition<'_>, layout: &FrmLayout<'_>) -> Bytes {
    let mut header = Bytes::zeroed(HEADER);
    header.0[..4].copy_from_slice(&[254, 1, FORMAT_VERSION, ENGINE.1]);
    header.put16(8, 1);
    // The packing of fields.
    header.0[27] = 2;
    // Portable blob pointers, and packed records if a value's length varies.
    header.put16(30, 8 | u16::from(layout.packed_record));
    header.0[33] = 5;
    header.0[38] = definition.collation as u8;
    header.put32(51, SERVER_VERSION);
    header
}

/// Returns one byte per key (0: not ignored by the optimizer); nothing if there are no keys.
fn key_flags(definition: &TableDefinition<'_>) -> Vec<u8> {
    match u8::try_from(definition.keys.len()) {
        Ok(keys @ 1..) => [vec![5, keys], vec![0; usize::from(keys)]].concat(),
        _ => Vec::new(),
    }
}

fn extra(definition: &TableDefinition<'_>) -> Vec<u8> {
    let mut extra = Vec::new();
    for text in [definition.connection.as_bytes(), ENGINE.0] {
        extra.extend((text.len() as u16).to_le_bytes());
        extra.extend(text);
    }
    // There are no partitions.
    extra.extend([0; 6]);
    extra
}

/// Returns the definition's id; the same definition has the same id on every server and at every start.
fn id(file: &[u8]) -> [u8; ID_LENGTH] {
    // FNV-1a with 128 bits.
    let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for byte in file {
        hash = (hash ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    }
    let mut id = hash.to_be_bytes();
    // Marks the id as a UUID of version 8 ("custom").
    id[6] = (id[6] & 0x0f) | 0x80;
    id[8] = (id[8] & 0x3f) | 0x80;
    id
}

/// The layout of a record.
struct FrmLayout<'d> {
    fields: Vec<Packed<'d>>,
    /// The distinct lists of enum and set members.
    intervals: Vec<&'static [&'static str]>,
    /// Whether values vary in length; the record's first bit is not a deletion mark then.
    packed_record: bool,
    /// The bytes of NULL bits before the first value.
    null_bytes: usize,
    length: usize,
}

impl<'d> FrmLayout<'d> {
    fn of(definition: &'d TableDefinition<'d>) -> FrmLayout<'d> {
        let varies = |it: &FrmField<'_>| matches!(it.sql_type, SqlType::VarChar(_)) || it.sql_type.is_blob();
        let packed_record = definition.fields.iter().any(varies);
        let nullable = definition.fields.iter().filter(|it| it.nullable).count();
        let null_bytes = (nullable + usize::from(!packed_record)).div_ceil(8);
        let mut intervals: Vec<&'static [&'static str]> = Vec::new();
        let mut offset = null_bytes;
        let fields = definition.fields.iter().map(|field| {
            let size = record_size(field);
            offset += size;
            Packed { field, offset: offset - size, size, interval: interval(&mut intervals, field) }
        });
        let fields = fields.collect();
        FrmLayout { fields, intervals, packed_record, null_bytes, length: offset }
    }

    fn keys(&self, definition: &TableDefinition<'_>) -> Vec<u8> {
        let parts: usize = definition.keys.iter().map(|key| key.columns.len()).sum();
        let mut names = vec![SEPARATOR];
        definition.keys.iter().for_each(|key| {
            names.extend(key.name.as_bytes());
            names.push(SEPARATOR);
        });
        names.push(0);
        let mut keys = Vec::new();
        // Up to 127 of each are counted in one byte, and no table here has that many.
        keys.extend([definition.keys.len() as u8, parts as u8, 0, 0]);
        keys.extend((names.len() as u16).to_le_bytes());
        definition.keys.iter().for_each(|key| keys.extend(self.key(key)));
        keys.extend(names);
        keys
    }

    fn key(&self, key: &KeyDefinition) -> Vec<u8> {
        // NULL flags are not counted, although they are present.
        let length: usize = key.columns.iter().map(|column| value_size(self.fields[*column].field)).sum();
        let mut bytes = Vec::new();
        bytes.extend((self.key_flags(key) ^ key_flag::UNIQUE).to_le_bytes());
        bytes.extend((length as u16).to_le_bytes());
        // The number of parts; then the default algorithm and block size.
        bytes.extend([key.columns.len() as u8, 0, 0, 0]);
        for column in &key.columns {
            let part = &self.fields[*column];
            // The highest bit says that parts are identified by field.
            bytes.extend((0x8000 | (*column as u16 + 1)).to_le_bytes());
            bytes.extend((part.offset as u16 + 1).to_le_bytes());
            bytes.push(0);
            bytes.extend(part.key_flags().to_le_bytes());
            bytes.extend((value_size(part.field) as u16).to_le_bytes());
        }
        bytes
    }

    fn key_flags(&self, key: &KeyDefinition) -> u16 {
        let mut flags = if key.primary { key_flag::UNIQUE } else { 0 };
        for (at, column) in key.columns.iter().enumerate() {
            let field = self.fields[*column].field;
            if field.nullable {
                flags |= key_flag::NULL_PART;
            }
            // Only texts longer than a number are worth packing.
            if value_size(field) > 8 {
                flags |= match (field.sql_type, at) {
                    (SqlType::VarChar(_), 0) => key_flag::BINARY_PACKED | key_flag::VARIABLE_LENGTH,
                    (SqlType::VarChar(_) | SqlType::Char(_), _) => key_flag::PACKED,
                    _ => 0,
                };
            }
        }
        flags
    }

    fn record(&self, definition: &TableDefinition<'_>) -> Vec<u8> {
        let mut record = vec![0; self.length];
        let mut bit = 0;
        let mut set = |record: &mut [u8], on: bool| {
            record[bit / 8] |= u8::from(on) << (bit % 8);
            bit += 1;
        };
        if !self.packed_record {
            set(&mut record, true);
        }
        for field in definition.fields.iter().filter(|field| field.nullable) {
            set(&mut record, field.default == Default::Null);
        }
        // The remaining bits are set.
        if bit % 8 != 0 {
            record[self.null_bytes - 1] |= u8::MAX << (bit % 8);
        }
        for packed in &self.fields {
            packed.default(&mut record[packed.offset..packed.offset + packed.size]);
        }
        record
    }

    fn form(&self, definition: &TableDefinition<'_>, length: u16) -> Result<Bytes, FrmError> {
        let fields = &definition.fields;
        let names: usize = fields.iter().map(|field| field.name.len() + 1).sum();
        let members: usize = self.intervals.iter().flat_map(|list| list.iter()).map(|it| it.len() + 1).sum();
        let comments: usize = fields.iter().map(|field| field.comment.len()).sum();
        let nullable = fields.iter().filter(|field| field.nullable).count();
        let mut form = Bytes::zeroed(FORM);
        form.put16(0, length);
        form.put16(2, length);
        form.0[46] = definition.comment.len() as u8;
        form.0[47..47 + definition.comment.len()].copy_from_slice(definition.comment.as_bytes());
        form.put16(258, fit16(fields.len())?);
        // The sum of the columns' widths; sixteen bits of it are kept, and nobody reads them.
        form.put16(262, fields.iter().fold(0, |sum, field| sum.wrapping_add(width(field))));
        form.put16(266, fit16(self.length)?);
        form.put16(268, fit16(names + 2)?);
        form.put16(270, fit16(self.intervals.len())?);
        form.put16(272, fit16(self.intervals.iter().map(|list| list.len() + 1).sum())?);
        form.put16(274, fit16(members + 2 * self.intervals.len())?);
        // The former size of a screen in columns and rows.
        form.put16(278, 80);
        form.put16(280, 22);
        form.put16(282, fit16(nullable)?);
        form.put16(284, fit16(comments)?);
        Ok(form)
    }

    /// Returns names, enum members and comments.
    fn names(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let names: Vec<&str> = self.fields.iter().map(|packed| packed.field.name).collect();
        for list in std::iter::once(names.as_slice()).chain(self.intervals.iter().copied()) {
            bytes.push(SEPARATOR);
            for name in list {
                bytes.extend(name.as_bytes());
                bytes.push(SEPARATOR);
            }
            bytes.push(0);
        }
        self.fields.iter().for_each(|packed| bytes.extend(packed.field.comment.as_bytes()));
        bytes
    }
}

/// Returns the number of a field's list of members, from 1; equal lists are stored once. 0 if the field has
/// none.
fn interval(intervals: &mut Vec<&'static [&'static str]>, field: &FrmField<'_>) -> u8 {
    let (SqlType::Enum(members) | SqlType::Set(members)) = field.sql_type else {
        return 0;
    };
    let at = intervals.iter().position(|list| *list == members).unwrap_or_else(|| {
        intervals.push(members);
        intervals.len() - 1
    });
    at as u8 + 1
}

fn fit16(size: usize) -> Result<u16, FrmError> {
    u16::try_from(size).map_err(|_| FrmError::Size)
}

fn fit32(size: usize) -> Result<u32, FrmError> {
    u32::try_from(size).map_err(|_| FrmError::Size)
}

/// A part of fixed length.
pub(super) struct Bytes(pub(super) Vec<u8>);

impl Bytes {
    pub(super) fn zeroed(length: usize) -> Bytes {
        Bytes(vec![0; length])
    }

    pub(super) fn put16(&mut self, at: usize, value: u16) {
        self.0[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }

    fn put32(&mut self, at: usize, value: u32) {
        self.0[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
}
