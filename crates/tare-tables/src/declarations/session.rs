//! Facts of sessions: the server's counters of each, with sums for accounts, users and hosts, and the
//! variables that clients set.

use std::ops::ControlFlow;

use tare_engine::snapshot::{Grouping, Owner, Reset};
use tare_engine::{CounterForm, Engine, SessionCountersRow, SessionVariableRow};

use crate::framework::column::{ColumnDef, column, nullable};
use crate::framework::definition::{Emit, TableDef};
use crate::table::SqlType::{BigIntUnsigned, Char, LongBlob, VarChar};
use crate::table::Value;

/// One counter of a session, or its sum over all sessions of an account, a user or a host.
pub struct SessionStatusRow {
    pub(crate) owner: Owner,
    pub(crate) name: String,
    pub(crate) value: String,
}

/// The table `status_by_thread`.
pub static STATUS_BY_THREAD: TableDef<SessionStatusRow> = TableDef::new(
    "status_by_thread",
    "The status counters that each session has of its own, as SHOW SESSION STATUS shows them. Com_ counters are left out, as \
     in MariaDB's own. TRUNCATE is accepted but changes nothing, because the counters are the server's.",
    &[THREAD, STATUS],
    |engine, _, emit| by_thread(engine, None, emit),
)
.found(&[("THREAD_ID", |engine, id, _, emit| by_thread(engine, Some(id), emit))])
.indexed(&[&["THREAD_ID", "VARIABLE_NAME"]])
.truncated(Reset::Sessions(Grouping::Thread));

/// Declares the tables of sums, one per level.
macro_rules! sums_tables {
    ($($table:ident, $level:ident, $name:literal, $columns:expr;)*) => {
        $(
            #[doc = concat!("`", $name, "`")]
            pub static $table: TableDef<SessionStatusRow> =
                TableDef::new($name, SUMS, $columns, |engine, _, emit| sums(engine, Grouping::$level, emit))
                    .truncated(Reset::Sessions(Grouping::$level));
        )*
    };
}

const SUMS: &str = "The status counters of sessions, summed up over sessions that are connected and sessions that have ended. \
     After TRUNCATE or FLUSH STATUS, sessions that had ended before are no longer included.";

sums_tables! {
    STATUS_BY_ACCOUNT, Account, "status_by_account", &[USER, HOST, STATUS];
    STATUS_BY_USER, User, "status_by_user", &[USER, STATUS];
    STATUS_BY_HOST, Host, "status_by_host", &[HOST, STATUS];
}

fn by_thread(engine: &Engine, thread: Option<u64>, emit: Emit<'_, SessionStatusRow>) {
    for row in engine.session_counters(thread) {
        let counters = engine.session_counter_names().iter().zip(row.counters);
        let plain = row.connection_type.filter(|it| *it != ENCRYPTED).map_or(&[][..], |_| &UNENCRYPTED);
        let rows = counters
            .map(|(counter, word)| (counter.name.as_str(), shown(counter.form, word)))
            .chain(plain.iter().map(|name| (*name, String::new())));
        if each(&row, rows, emit).is_break() {
            return;
        }
    }
}

fn sums(engine: &Engine, level: Grouping, emit: Emit<'_, SessionStatusRow>) {
    for row in engine.session_sums(level) {
        let counters = engine.session_counter_names().iter().zip(row.counters);
        let counts = counters.filter(|(counter, _)| counter.form == CounterForm::Count);
        let rows = counts.map(|(counter, word)| (counter.name.as_str(), word.to_string()));
        if each(&row, rows, emit).is_break() {
            return;
        }
    }
}

/// Emits a row for each name and value in `rows`, with the session or account of `row` as its owner.
fn each<'a>(
    row: &SessionCountersRow,
    mut rows: impl Iterator<Item = (&'a str, String)>,
    emit: Emit<'_, SessionStatusRow>,
) -> ControlFlow<()> {
    rows.try_for_each(|(name, value)| {
        emit(&SessionStatusRow { owner: row.owner.clone(), name: name.to_owned(), value })
    })
}

/// Formats a counter as the server does.
fn shown(form: CounterForm, word: u64) -> String {
    match form {
        CounterForm::Count => word.to_string(),
        CounterForm::Fraction => format!("{:.6}", f64::from_bits(word)),
        CounterForm::Microseconds => format!("{}.{:06}", word / 1_000_000, word % 1_000_000),
        CounterForm::Small => (word as u32).to_string(),
    }
}

/// CONNECTION_TYPE of a session with a cipher.
const ENCRYPTED: &str = "SSL/TLS";
/// Variables that are empty in a session without a cipher. For other sessions the values are in structures of
/// the TLS library.
const UNENCRYPTED: [&str; 2] = ["Ssl_cipher", "Ssl_version"];

const THREAD: &[ColumnDef<SessionStatusRow>] =
    &[column("THREAD_ID", BigIntUnsigned, "Thread of the session.", |row| row.owner.thread_id.into())];
const USER: &[ColumnDef<SessionStatusRow>] = &[nullable(
    "USER",
    Char(32),
    "User name that the client gave; NULL for connections that were refused.",
    |row| row.owner.user.as_ref().into(),
)];
const HOST: &[ColumnDef<SessionStatusRow>] = &[nullable(
    "HOST",
    Char(60),
    "Host the clients come from; NULL for connections that were refused.",
    |row| row.owner.host.as_ref().into(),
)];
const STATUS: &[ColumnDef<SessionStatusRow>] = &[
    column("VARIABLE_NAME", VarChar(64), "Name of the status variable.", |row| (&row.name).into()),
    nullable("VARIABLE_VALUE", VarChar(4096), "Its value, of the session or summed up.", |row| {
        (&row.value).into()
    }),
];

/// The table `user_variables_by_thread`.
pub static USER_VARIABLES_BY_THREAD: TableDef<SessionVariableRow> = TableDef::new(
    "user_variables_by_thread",
    "The variables that clients have set in their sessions (SET @name = value). A text that a statement still running \
     may be changing is left out, and counted as sessions_lost in tare_status.",
    &[VARIABLE],
    |engine, _, emit| variables(engine, None, emit),
)
.found(&[("THREAD_ID", |engine, id, _, emit| variables(engine, Some(id), emit))])
.indexed(&[&["THREAD_ID", "VARIABLE_NAME"]]);

fn variables(engine: &Engine, thread: Option<u64>, emit: Emit<'_, SessionVariableRow>) {
    let _ = engine.session_variables(thread).iter().try_for_each(emit);
}

const VARIABLE: &[ColumnDef<SessionVariableRow>] = &[
    column("THREAD_ID", BigIntUnsigned, "Thread of the session.", |row| row.thread_id.into()),
    column("VARIABLE_NAME", VarChar(64), "Name of the variable, without its @.", |row| (&row.name).into()),
    nullable("VARIABLE_VALUE", LongBlob, "Its value, as the bytes of its text.", |row| {
        row.value.as_deref().map_or(Value::Null, |bytes| Value::Bytes(bytes.into()))
    }),
];
