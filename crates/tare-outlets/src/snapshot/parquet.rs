//! A table of a snapshot as a Parquet file: an optional column for each of the table's.
//!
//! Rows are buffered in groups of a few megabytes, so that a table of any size needs no more memory than
//! that.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::record::Field;
use parquet::schema::types::Type as Schema;

use super::{SnapshotColumn, SnapshotHeader, TableHead, Tail, Type, Value};

/// Limits at which buffered rows are written, in rows and bytes.
const ROWS_OF_A_GROUP: usize = 65_536;
const BYTES_OF_A_GROUP: usize = 8 << 20;

/// A table that is being written.
pub(super) struct ParquetWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
    columns: Vec<Gathered>,
    rows: usize,
    bytes: usize,
}

impl<W: Write + Send> ParquetWriter<W> {
    pub(super) fn new(to: W, head: &TableHead, header: &SnapshotHeader) -> io::Result<Self> {
        let about = serde_json::to_string(header)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_key_value_metadata(Some(vec![KeyValue::new("tare.snapshot".to_owned(), about)]))
            .build();
        let schema = schema(head).map_err(failed)?;
        let file = SerializedFileWriter::new(to, Arc::new(schema), Arc::new(properties)).map_err(failed)?;
        let columns = head.columns.iter().map(|column| Gathered::new(column.kind)).collect();
        Ok(ParquetWriter { file, columns, rows: 0, bytes: 0 })
    }

    pub(super) fn row(&mut self, row: &[Value]) -> io::Result<()> {
        for (column, value) in self.columns.iter_mut().zip(row) {
            self.bytes += column.add(value);
        }
        self.rows += 1;
        if self.rows >= ROWS_OF_A_GROUP || self.bytes >= BYTES_OF_A_GROUP { self.group() } else { Ok(()) }
    }

    fn group(&mut self) -> io::Result<()> {
        let mut group = self.file.next_row_group().map_err(failed)?;
        for column in &mut self.columns {
            let mut writer =
                group.next_column().map_err(failed)?.ok_or_else(|| io::Error::other("no column"))?;
            column.write(&mut writer).and_then(|()| writer.close()).map_err(failed)?;
        }
        group.close().map_err(failed)?;
        (self.rows, self.bytes) = (0, 0);
        Ok(())
    }

    pub(super) fn finish(mut self, tail: &Tail) -> io::Result<W> {
        if self.rows > 0 {
            self.group()?;
        }
        self.file
            .append_key_value_metadata(KeyValue::new("tare.table".to_owned(), serde_json::to_string(tail)?));
        self.file.into_inner().map_err(failed)
    }
}

/// Returns the system's error about a file without the library's wrapper.
fn failed(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(error) => io::Error::other(error),
        },
        error => io::Error::other(error),
    }
}

fn schema(head: &TableHead) -> Result<Schema, ParquetError> {
    let field = |column: &SnapshotColumn| {
        let (physical, logical) = match column.kind {
            Type::Unsigned => (Physical::INT64, Some(LogicalType::integer(64, false))),
            Type::Signed => (Physical::INT64, Some(LogicalType::integer(64, true))),
            Type::Real => (Physical::DOUBLE, None),
            Type::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Type::Binary => (Physical::BYTE_ARRAY, None),
        };
        Schema::primitive_type_builder(&column.name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical)
            .build()
            .map(Arc::new)
    };
    let fields = head.columns.iter().map(field).collect::<Result<_, _>>()?;
    Schema::group_type_builder(&head.table).with_fields(fields).build()
}

/// Buffered values of a column, and whether each row has one.
struct Gathered {
    values: ColumnValues,
    levels: Vec<i16>,
}

enum ColumnValues {
    Whole(Vec<i64>),
    Real(Vec<f64>),
    Bytes(Vec<ByteArray>),
}

impl Gathered {
    fn new(kind: Type) -> Self {
        let values = match kind {
            Type::Unsigned | Type::Signed => ColumnValues::Whole(vec![]),
            Type::Real => ColumnValues::Real(vec![]),
            Type::Text | Type::Binary => ColumnValues::Bytes(vec![]),
        };
        Gathered { values, levels: vec![] }
    }

    /// Adds a value; returns its approximate size in bytes.
    fn add(&mut self, value: &Value) -> usize {
        let fixed = size_of::<u64>();
        let took = match (&mut self.values, value) {
            // Parquet stores unsigned numbers in the bits of signed ones.
            (ColumnValues::Whole(values), Value::Unsigned(number)) => {
                push(values, number.cast_signed(), fixed)
            }
            (ColumnValues::Whole(values), Value::Signed(number)) => push(values, *number, fixed),
            (ColumnValues::Real(values), Value::Real(number)) => push(values, *number, fixed),
            (ColumnValues::Bytes(values), Value::Text(text)) => {
                push(values, text.as_bytes().to_vec().into(), text.len() + 64)
            }
            (ColumnValues::Bytes(values), Value::Binary(bytes)) => {
                push(values, bytes.clone().into(), bytes.len() + 64)
            }
            _ => 0,
        };
        self.levels.push(i16::from(took > 0));
        took + size_of::<i16>()
    }

    fn write(&mut self, writer: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let levels = Some(self.levels.as_slice());
        match &mut self.values {
            ColumnValues::Whole(values) => {
                writer.typed::<Int64Type>().write_batch(values, levels, None)?;
                values.clear();
            }
            ColumnValues::Real(values) => {
                writer.typed::<DoubleType>().write_batch(values, levels, None)?;
                values.clear();
            }
            ColumnValues::Bytes(values) => {
                writer.typed::<ByteArrayType>().write_batch(values, levels, None)?;
                values.clear();
            }
        }
        self.levels.clear();
        Ok(())
    }
}

fn push<T>(values: &mut Vec<T>, value: T, took: usize) -> usize {
    values.push(value);
    took
}

/// Passes the rows of a file to `visit` in order, with a value for each column of `head`.
pub(super) fn read(
    path: &Path,
    head: &TableHead,
    mut visit: impl FnMut(Vec<Value>) -> Result<(), String>,
) -> Result<(), String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let reader = SerializedFileReader::new(file).map_err(|error| error.to_string())?;
    let fields = reader.metadata().file_metadata().schema().get_fields();
    if !fields.iter().map(|field| field.name()).eq(head.columns.iter().map(|column| column.name.as_str())) {
        return Err("its columns are not those that the snapshot names".into());
    }
    for row in reader.get_row_iter(None).map_err(|error| error.to_string())? {
        let row = row.map_err(|error| error.to_string())?;
        visit(row.into_columns().into_iter().map(|(_, field)| value(field)).collect::<Result<_, _>>()?)?;
    }
    Ok(())
}

fn value(field: Field) -> Result<Value, String> {
    Ok(match field {
        Field::Null => Value::Null,
        Field::ULong(number) => Value::Unsigned(number),
        Field::Long(number) => Value::Signed(number),
        Field::Double(number) => Value::Real(number),
        Field::Str(text) => Value::Text(text),
        Field::Bytes(bytes) => Value::Binary(bytes.data().to_vec()),
        other => return Err(format!("a value of no snapshot's: {other}")),
    })
}
