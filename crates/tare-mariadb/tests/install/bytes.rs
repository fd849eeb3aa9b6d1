//! The writer against the server: both write the file of the same DDL, and every byte is compared.

use mysql::Conn;
use mysql::prelude::Queryable;
use tare_mariadb::install::{Collation, Default, FrmField, KeyDefinition, TableDefinition, write};
use tare_server::sql::literal;
use tare_tables::{Access, SqlType, Table};
use tare_testkit::server::Server;
use tare_testkit::subject::TestProvider;

use crate::reference;
use crate::sample::{Sample, collation_sql, columns_sql, keys_sql};

/// A server that is its own far end: FEDERATED tables in `near`, the tables they point to in `far`.
struct Mirror {
    server: Server,
    conn: Conn,
}

impl Mirror {
    fn start() -> Mirror {
        let server = Server::start(crate::settings(TestProvider::BuiltIn)).unwrap();
        let mut conn = server.client().unwrap();
        conn.query_drop("CREATE DATABASE near; ").unwrap();
        conn.query_drop("CREATE DATABASE far").unwrap();
        // Of the built-in's zero timestamps.
        conn.query_drop("SET sql_mode='STRICT_TRANS_TABLES'").unwrap();
        conn.query_drop(format!(
            "CREATE SERVER mirror FOREIGN DATA WRAPPER mysql OPTIONS (SOCKET {}, USER 'root', DATABASE 'far')",
            literal(&server.socket().to_string_lossy())
        ))
        .unwrap();
        Mirror { server, conn }
    }

    /// The file the server writes for a definition.
    fn file(&mut self, name: &str, definition: &TableDefinition<'_>) -> Vec<u8> {
        let columns = columns_sql(definition);
        let charset = format!("DEFAULT CHARSET=utf8mb3 COLLATE={}", collation_sql(definition.collation));
        self.conn.query_drop(format!("CREATE TABLE far.`{name}` ({columns}) ENGINE=Aria {charset}")).unwrap();
        self.conn
            .query_drop(format!(
                "CREATE TABLE near.`{name}` ({columns}{}) ENGINE=FEDERATED {charset} COMMENT={} CONNECTION={}",
                keys_sql(definition),
                literal(definition.comment),
                literal(definition.connection)
            ))
            .unwrap();
        std::fs::read(self.server.data().join(format!("near/{name}.frm"))).unwrap()
    }

    fn assert_equal(&mut self, name: &str, definition: &TableDefinition<'_>) {
        let theirs = masked(self.file(name, definition));
        let ours = masked(write(definition).unwrap());
        if let Some(at) = theirs.iter().zip(&ours).position(|(theirs, ours)| theirs != ours) {
            let near = at.saturating_sub(8)..(at + 24).min(ours.len()).min(theirs.len());
            panic!(
                "{name} differs at {at}:\nserver {:02x?}\nours   {:02x?}",
                &theirs[near.clone()],
                &ours[near]
            );
        }
        assert_eq!(theirs.len(), ours.len(), "{name}: length");
    }
}

/// Without what cannot be equal: the definition's id (random in the server's) and the version of the server.
fn masked(mut file: Vec<u8>) -> Vec<u8> {
    file[66..82].fill(0);
    file[51..55].fill(0);
    file
}

fn connection(name: &str) -> String {
    format!("mirror/{name}")
}

#[test]
fn every_table_of_the_reference_is_the_server_s_own_file_byte_for_byte() {
    if crate::without_federated() {
        return;
    }
    let mut mirror = Mirror::start();
    for table in reference::tables(&mut mirror.conn) {
        let connection = connection(table.name);
        mirror.assert_equal(table.name, &TableDefinition::of(&table, &connection, "tare 0.1.0"));
    }
}

const MANY: usize = 300;

fn types() -> Vec<SqlType> {
    let many: Vec<&str> = (0..MANY).map(|n| crate::sample::leak(format!("member {n}"))).collect();
    vec![
        SqlType::BigInt,
        SqlType::BigIntUnsigned,
        SqlType::Int,
        SqlType::IntUnsigned,
        SqlType::MediumIntUnsigned,
        SqlType::SmallInt,
        SqlType::TinyInt,
        SqlType::Double(7, 6),
        SqlType::DoubleUnsigned(10, 3),
        SqlType::DoubleUnsigned(5, 0),
        SqlType::Char(1),
        SqlType::Char(255),
        SqlType::VarChar(2),
        SqlType::VarChar(3),
        SqlType::VarChar(85),
        SqlType::VarChar(86),
        SqlType::VarChar(1024),
        SqlType::Text,
        SqlType::MediumText,
        SqlType::LongText,
        SqlType::LongBlob,
        SqlType::Enum(&["YES", "NO"]),
        SqlType::Enum(&["NO", "YES"]),
        SqlType::Enum(Box::leak(many.into_boxed_slice())),
        SqlType::Set(&["singleton", "user"]),
        SqlType::Timestamp,
        SqlType::TimestampMicros,
        SqlType::Date,
    ]
}

/// Every type, with and without NULL, in both collations, with every default it can have.
fn every_field() -> Vec<FrmField<'static>> {
    let mut fields = Vec::new();
    for sql_type in types() {
        for (nullable, collation) in [
            (false, Collation::GeneralCi),
            (true, Collation::GeneralCi),
            (false, Collation::Bin),
            (true, Collation::Bin),
        ] {
            for default in defaults(sql_type, nullable) {
                let name = crate::sample::leak(format!("c{}", fields.len()));
                let comment = if fields.len() % 3 == 0 { "" } else { "größe, 'quoted' µs" };
                fields.push(FrmField { name, sql_type, nullable, default, collation, comment });
            }
        }
    }
    fields
}

fn defaults(sql_type: SqlType, nullable: bool) -> Vec<Default> {
    let own = if nullable { Default::Null } else { Default::None };
    match sql_type {
        SqlType::Timestamp if nullable => vec![Default::Zero, Default::Null],
        SqlType::Timestamp => vec![Default::Zero, Default::Now],
        SqlType::TimestampMicros if nullable => vec![Default::Zero, Default::Null],
        SqlType::TimestampMicros => vec![Default::Zero],
        SqlType::Char(_) | SqlType::VarChar(_) => vec![own, Default::Text("%")],
        SqlType::Enum(members) | SqlType::Set(members) => {
            vec![own, Default::Text(members[1]), Default::Text(members[members.len() - 1])]
        }
        _ => vec![own],
    }
}

fn definition<'a>(fields: Vec<FrmField<'a>>, connection: &'a str) -> TableDefinition<'a> {
    TableDefinition { fields, keys: vec![], collation: Collation::GeneralCi, comment: "tare", connection }
}

#[test]
fn every_type_is_the_server_s_own_file_byte_for_byte() {
    if crate::without_federated() {
        return;
    }
    let mut mirror = Mirror::start();
    let fields = every_field();
    for (at, field) in fields.iter().enumerate() {
        let name = format!("one_{at}");
        mirror.assert_equal(&name, &definition(vec![field.clone()], &connection(&name)));
    }
    for chunk in [3, 8, 9, 40] {
        for (at, some) in fields.chunks(chunk).enumerate() {
            let name = format!("some_{chunk}_{at}");
            mirror.assert_equal(&name, &definition(some.to_vec(), &connection(&name)));
        }
    }
}

#[test]
fn keys_are_the_server_s_own_byte_for_byte() {
    if crate::without_federated() {
        return;
    }
    let mut mirror = Mirror::start();
    let possible =
        |it: &FrmField<'_>| !it.sql_type.is_blob() && !matches!(it.sql_type, SqlType::VarChar(1024));
    let fields: Vec<FrmField<'_>> =
        every_field().into_iter().filter(|it| possible(it) && it.default != Default::Now).collect();
    for at in 0..fields.len() {
        let pick: Vec<FrmField<'_>> =
            [0, 5, 17, 29].iter().map(|n| fields[(at + n) % fields.len()].clone()).collect();
        let name = format!("keys_{at}");
        let connection = connection(&name);
        let mut definition = definition(pick, &connection);
        let key = |name: &str, columns: &[usize]| KeyDefinition {
            name: name.into(),
            columns: columns.into(),
            primary: false,
        };
        definition.keys =
            vec![key("a", &[0]), key("b", &[1, 2]), key("long name", &[3, 2, 1]), key("d", &[2, 0])];
        if definition.fields[2..].iter().all(|it| !it.nullable) {
            definition
                .keys
                .insert(0, KeyDefinition { name: "PRIMARY".into(), columns: vec![2, 3], primary: true });
        }
        if definition.fields.iter().map(|field| field.name).collect::<std::collections::HashSet<_>>().len()
            == 4
        {
            mirror.assert_equal(&name, &definition);
        }
    }
}

#[test]
fn a_table_s_indexes_become_keys_as_the_server_names_them() {
    if crate::without_federated() {
        return;
    }
    let mut mirror = Mirror::start();
    let columns = vec![
        crate::sample::column("THREAD_ID", SqlType::BigIntUnsigned, false),
        crate::sample::column("NAME", SqlType::VarChar(128), false),
        crate::sample::column("STATE", SqlType::VarChar(64), true),
    ];
    let mut table = Sample::new("threads", columns);
    table.indexes = &[&[0], &[0, 1], &[1], &[2], &[0, 2]];
    let names = |table: &Sample| -> Vec<String> {
        TableDefinition::of(table, "", "").keys.into_iter().map(|key| key.name).collect()
    };
    assert_eq!(names(&table), ["THREAD_ID", "THREAD_ID_2", "NAME", "STATE", "THREAD_ID_3"]);
    let connection = connection("threads");
    mirror.assert_equal("threads", &TableDefinition::of(&table, &connection, "tare"));

    table.access = Access::Update;
    assert_eq!(names(&table), ["PRIMARY", "THREAD_ID", "NAME", "STATE", "THREAD_ID_2"]);
    table.name = "writable";
    let connection = self::connection("writable");
    mirror.assert_equal("writable", &TableDefinition::of(&table as &dyn Table, &connection, "tare"));

    table.indexes = &[&[2], &[0]];
    assert_eq!(names(&table), ["STATE", "THREAD_ID"], "a nullable column cannot be in the primary key");
}
