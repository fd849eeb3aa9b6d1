//! SHOW, DESCRIBE and SELECT without a table.

use std::borrow::Cow;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use tare_tables::{Column, SqlType, Table, sql_type_text};

use super::{ClientSession, ServedData, Stop, read, text_rows};
use crate::failure::ErrorPacket;
use crate::protocol::field::ResultColumn;
use crate::protocol::packet::{MAX_COMMAND, PacketWriter};
use crate::protocol::reply::{self, ResultWriter};
use crate::sql::catalog::SCHEMA;
use crate::sql::filter::Constant;
use crate::sql::statement::{Expression, Show};
use crate::text::calendar;
use crate::text::collation::{ColumnCollation, Pattern};

/// The bytes per row in SHOW TABLE STATUS. 0 as in the built-in: no rows are stored, and tools sum up sizes.
const ROW_LENGTH: &str = "0";
/// The fewest rows reported to the host's optimizer, which treats a table of 0 or 1 rows as constant.
const FEWEST_ROWS: u64 = 2;

/// Answers a SHOW.
pub(super) fn show(
    source: &ServedData,
    session: &ClientSession,
    writer: &mut PacketWriter<'_>,
    show: &Show,
) -> Result<(), Stop> {
    let mut page = ShowResult { writer, narrow: session.narrow };
    match show {
        Show::Databases { like } => {
            let rows = [SCHEMA].into_iter().filter(|name| is_like(name, like)).map(|name| vec![Some(name)]);
            page.send(&["Database"], rows)?;
        }
        Show::Tables { full, like } => {
            let names = source.tables.iter().map(|table| table.name()).filter(|name| is_like(name, like));
            let titles: &[&str] = &["Tables_in_performance_schema", "Table_type"];
            let width = if *full { 2 } else { 1 };
            page.send(
                &titles[..width],
                names.map(|name| [Some(name), Some("BASE TABLE")][..width].to_vec()),
            )?;
        }
        // FEDERATED asks for the status of one table by its name.
        Show::TableStatus { like: Some(name) } if source.is_inside(session) => {
            let table = source.catalog(session).find(SCHEMA, &String::from_utf8_lossy(name))?;
            let rows = source.sizes.rows(table, source.engine).max(FEWEST_ROWS).to_string();
            page.send(&TABLE_STATUS, [table_status(table, &rows)])?;
        }
        Show::TableStatus { like } => {
            let named = source.tables.iter().filter(|table| is_like(table.name(), like));
            let sized =
                |table: &&'static dyn Table| (*table, source.sizes.rows(*table, source.engine).to_string());
            let named: Vec<_> = named.map(sized).collect();
            page.send(&TABLE_STATUS, named.iter().map(|(table, rows)| table_status(*table, rows)))?;
        }
        Show::Columns { table, full, like } => page.columns(*table, *full, like)?,
        Show::Create(table) => {
            let text = tare_tables::ddl(*table);
            page.send(&["Table", "Create Table"], [vec![Some(table.name()), Some(&text)]])?;
        }
        Show::Indexes(table) => page.indexes(*table)?,
        Show::Variables { like } => {
            let all: Vec<_> = VARIABLES.iter().filter(|name| is_like(name, like)).collect();
            let values: Vec<_> =
                all.iter().filter_map(|name| Some((**name, variable(source, name)?))).collect();
            let rows = values.iter().map(|(name, value)| vec![Some(*name), Some(value.as_ref())]);
            page.send(&["Variable_name", "Value"], rows)?;
        }
        Show::Empty(titles) => page.send(titles, [])?,
    }
    Ok(())
}

/// Answers COM_FIELD_LIST with the columns of a table.
pub(crate) fn field_list(
    source: &ServedData,
    session: &ClientSession,
    writer: &mut PacketWriter<'_>,
    table: &str,
) -> Result<(), Stop> {
    let table = source.catalog(session).find(SCHEMA, table)?;
    let mut packet = Vec::new();
    for (at, column) in table.columns().iter().enumerate() {
        packet.clear();
        ResultColumn::of_table(table, at, column.name.to_owned()).put(&mut packet);
        // The default value is NULL.
        packet.push(0xfb);
        writer.packet(&packet)?;
    }
    Ok(writer.packet(&reply::eof())?)
}

struct ShowResult<'p, 'a> {
    writer: &'p mut PacketWriter<'a>,
    narrow: bool,
}

impl ShowResult<'_, '_> {
    fn send<'r>(
        &mut self,
        titles: &[&str],
        values: impl IntoIterator<Item = Vec<Option<&'r str>>>,
    ) -> io::Result<()> {
        let fields: Vec<ResultColumn> = titles.iter().map(|title| ResultColumn::text(*title)).collect();
        let mut rows = ResultWriter::begin(self.writer, &fields, self.narrow)?;
        text_rows(&mut rows, values)?;
        rows.finish()
    }

    fn columns(&mut self, table: &dyn Table, full: bool, like: &Option<Vec<u8>>) -> io::Result<()> {
        const SHORT: [&str; 6] = ["Field", "Type", "Null", "Key", "Default", "Extra"];
        const FULL: [&str; 9] =
            ["Field", "Type", "Collation", "Null", "Key", "Default", "Extra", "Privileges", "Comment"];
        let columns: Vec<_> =
            table.columns().iter().enumerate().filter(|(_, column)| is_like(column.name, like)).collect();
        let types: Vec<String> = columns.iter().map(|(_, column)| sql_type_text(column.sql_type)).collect();
        let rows = columns.iter().zip(&types).map(|((at, column), sql_type)| {
            let null = if column.nullable { "YES" } else { "NO" };
            let key = if is_indexed(table, *at) { "MUL" } else { "" };
            let (name, sql_type) = (Some(column.name), Some(sql_type.as_str()));
            if full {
                let (collation, rights) = (collation_name(table, column), Some("select"));
                vec![
                    name,
                    sql_type,
                    collation,
                    Some(null),
                    Some(key),
                    None,
                    Some(""),
                    rights,
                    Some(column.doc),
                ]
            } else {
                vec![name, sql_type, Some(null), Some(key), None, Some("")]
            }
        });
        self.send(if full { &FULL } else { &SHORT }, rows)
    }

    fn indexes(&mut self, table: &dyn Table) -> io::Result<()> {
        const TITLES: [&str; 6] =
            ["Table", "Non_unique", "Key_name", "Seq_in_index", "Column_name", "Index_type"];
        let columns = table.columns();
        let parts = table.indexes().iter().flat_map(|index| {
            let name = columns[index[0]].name;
            index
                .iter()
                .enumerate()
                .map(move |(at, column)| (name, (at + 1).to_string(), columns[*column].name))
        });
        let parts: Vec<_> = parts.collect();
        let rows = parts.iter().map(|(name, at, column)| {
            vec![Some(table.name()), Some("1"), Some(*name), Some(at), Some(*column), Some("HASH")]
        });
        self.send(&TITLES, rows)
    }
}

fn is_like(name: &str, like: &Option<Vec<u8>>) -> bool {
    let pattern = like.as_ref().map(|pattern| Pattern::new(pattern, '\\'));
    pattern.is_none_or(|pattern| ColumnCollation::GeneralCi.like(name.as_bytes(), &pattern))
}

fn is_indexed(table: &dyn Table, column: usize) -> bool {
    table.indexes().iter().any(|index| index.first() == Some(&column))
}

fn collation_name(table: &dyn Table, column: &Column) -> Option<&'static str> {
    match column.sql_type {
        SqlType::Char(_) | SqlType::VarChar(_) | SqlType::LongText | SqlType::Enum(_) | SqlType::Set(_) => {
            match ColumnCollation::of(table.name(), column) {
                ColumnCollation::GeneralCi => Some("utf8mb3_general_ci"),
                ColumnCollation::Bin => Some("utf8mb3_bin"),
                ColumnCollation::Binary => None,
            }
        }
        _ => None,
    }
}

const TABLE_STATUS: [&str; 18] = [
    "Name",
    "Engine",
    "Version",
    "Row_format",
    "Rows",
    "Avg_row_length",
    "Data_length",
    "Max_data_length",
    "Index_length",
    "Data_free",
    "Auto_increment",
    "Create_time",
    "Update_time",
    "Check_time",
    "Collation",
    "Checksum",
    "Create_options",
    "Comment",
];

fn table_status<'r>(table: &'static dyn Table, rows: &'r str) -> Vec<Option<&'r str>> {
    let mut row = vec![None; TABLE_STATUS.len()];
    row[0] = Some(table.name());
    row[1] = Some("tare");
    row[2] = Some("10");
    row[3] = Some("Dynamic");
    row[4] = Some(rows);
    row[5] = Some(ROW_LENGTH);
    row[14] = Some("utf8mb3_general_ci");
    row[16] = Some("");
    row[17] = Some(table.doc());
    row
}

// Values.

/// Answers a SELECT without FROM.
pub(super) fn values(
    source: &ServedData,
    session: &ClientSession,
    writer: &mut PacketWriter<'_>,
    values: &[(String, Expression)],
) -> Result<(), Stop> {
    let constants = values.iter().map(|(name, it)| Ok((name.clone(), evaluate(source, session, it)?)));
    let constants = constants.collect::<Result<Vec<_>, ErrorPacket>>()?;
    let fields: Vec<ResultColumn> =
        constants.iter().map(|(name, constant)| read::constant_field(name.clone(), constant)).collect();
    let mut rows = ResultWriter::begin(writer, &fields, session.narrow)?;
    constants.iter().for_each(|(_, constant)| read::put_constant(&mut rows, constant));
    rows.end_row()?;
    Ok(rows.finish()?)
}

fn evaluate(
    source: &ServedData,
    session: &ClientSession,
    expression: &Expression,
) -> Result<Constant, ErrorPacket> {
    let text = |text: String| Constant::Text(text.into_bytes());
    Ok(match expression {
        Expression::Constant(constant) => constant.clone(),
        Expression::Variable(name) => {
            let value = variable(source, name).ok_or_else(|| ErrorPacket::unknown_variable(name))?;
            value.parse().map_or_else(|_| text(value.into_owned()), Constant::Integer)
        }
        Expression::Database if session.has_database => text(SCHEMA.into()),
        Expression::Database => Constant::Null,
        Expression::User => text(format!("{}@localhost", session.user)),
        Expression::ConnectionId => Constant::Integer(session.id.into()),
        Expression::Now => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            text(calendar::text(u64::try_from(now.as_micros()).unwrap_or(0), 0))
        }
    })
}

/// The variables that clients ask for when they connect.
const VARIABLES: [&str; 24] = [
    "auto_increment_increment",
    "autocommit",
    "character_set_client",
    "character_set_connection",
    "character_set_database",
    "character_set_results",
    "character_set_server",
    "collation_connection",
    "collation_database",
    "collation_server",
    "interactive_timeout",
    "license",
    "lower_case_table_names",
    "max_allowed_packet",
    "max_connections",
    "net_write_timeout",
    "sql_mode",
    "system_time_zone",
    "time_zone",
    "transaction_isolation",
    "tx_isolation",
    "version",
    "version_comment",
    "wait_timeout",
];

fn variable(source: &ServedData, name: &str) -> Option<Cow<'static, str>> {
    let name = name.to_ascii_lowercase();
    Some(Cow::Borrowed(match name.as_str() {
        "version" => return Some(source.server_version.clone().into()),
        "max_allowed_packet" => return Some(MAX_COMMAND.to_string().into()),
        "max_connections" => return Some(source.max_connections.to_string().into()),
        "version_comment" => "tare",
        "license" => "MIT OR Apache-2.0",
        "auto_increment_increment" | "autocommit" => "1",
        "lower_case_table_names" => "0",
        "interactive_timeout" | "wait_timeout" => "31536000",
        "net_write_timeout" => "30",
        "sql_mode" => "",
        "time_zone" => "+00:00",
        "system_time_zone" => "UTC",
        "transaction_isolation" | "tx_isolation" => "READ-UNCOMMITTED",
        _ if name.starts_with("character_set_") => "utf8mb3",
        _ if name.starts_with("collation_") => "utf8mb3_general_ci",
        _ => return None,
    }))
}
