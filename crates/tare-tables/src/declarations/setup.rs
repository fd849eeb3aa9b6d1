//! Setup: what is instrumented and where events go. Users change these tables to control the engine.

use tare_engine::objects::{self, ObjectRule};
use tare_engine::snapshot::{Consumer, Instrument, Kind, Reset, ThreadInstrument};
use tare_engine::{ActorRule, Engine, RuleError};

use crate::framework::change::RowChanges;
use crate::framework::column::{ColumnDef, YES_NO, column, nullable, yes_no};
use crate::framework::definition::TableDef;
use crate::table::SqlType::{Char, Enum, Int, LongText, Set, VarChar};
use crate::table::{SqlType, TableError, Value};

/// A consumer and whether it is on.
pub type ConsumerState = (Consumer, bool);

/// The table `setup_instruments`.
pub static INSTRUMENTS: TableDef<Instrument> = TableDef::new(
    "setup_instruments",
    "The instruments of the server. An UPDATE takes effect at once, also on objects that already exist. This \
     includes mutexes and rwlocks, which in MariaDB's own must be switched on at start-up.",
    &[INSTRUMENT_COLUMNS],
    |engine, _, emit| {
        let _ = engine.instruments().iter().filter(|it| it.kind != Kind::Thread).try_for_each(emit);
    },
)
.indexed(&[&["NAME"]])
.extended(&[INSTRUMENT_FURTHER])
.updated(&["ENABLED", "TIMED"], update_instrument);

const INSTRUMENT_COLUMNS: &[ColumnDef<Instrument>] = &[
    column("NAME", VarChar(128), "Name of the instrument.", |row| row.name.into()),
    column("ENABLED", YES_NO, "Whether its events are recorded. May be updated.", |row| yes_no(row.enabled)),
    column(
        "TIMED",
        YES_NO,
        "Whether its events are timed. May be updated; stays NO for memory instruments.",
        |row| yes_no(row.timed),
    ),
];

/// Possible values of PROPERTIES.
const PROPERTIES: SqlType =
    Set(&["singleton", "progress", "user", "global_statistics", "mutable", "controlled_by_default"]);

const INSTRUMENT_FURTHER: &[ColumnDef<Instrument>] = &[
    column(
        "PROPERTIES",
        PROPERTIES,
        "Its properties, in MySQL's words. `singleton`: there is only one instance; `progress`: a stage that reports \
     progress; `user`: of a client; `global_statistics`: memory that belongs to no thread; `mutable`: a statement \
     whose instrument is known only once it is parsed.",
        |row| {
            let is_memory = row.kind == Kind::Memory;
            let properties = [
                ("singleton", row.properties.global && !is_memory),
                ("progress", row.properties.progress),
                ("user", row.properties.user),
                ("global_statistics", row.properties.global && is_memory),
                ("mutable", row.properties.mutable),
            ];
            set_of(properties)
        },
    ),
    nullable(
        "FLAGS",
        Set(&["controlled"]),
        "Empty for memory, because none is controlled; NULL for others.",
        |row| (row.kind == Kind::Memory).then_some("").into(),
    ),
    column("VOLATILITY", Int, "How long its instances live; always 0: the server does not say.", |_| {
        Value::Signed(0)
    }),
    nullable("DOCUMENTATION", LongText, "Always NULL: the server has none.", |_| Value::Null),
];

/// Returns the members that are set, in the spelling of a SET column.
fn set_of<const N: usize>(members: [(&'static str, bool); N]) -> Value<'static> {
    let set = members.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name);
    set.collect::<Vec<_>>().join(",").into()
}

fn update_instrument(engine: &Engine, changes: &RowChanges<'_>) -> Result<bool, TableError> {
    let enabled = changes.flag("ENABLED")?;
    let timed = changes.flag("TIMED")?;
    let Some(Value::Text(name)) = changes.held("NAME") else { return Ok(false) };
    let Some(instrument) = engine.instruments().into_iter().find(|it| it.name == *name) else {
        return Ok(false);
    };
    // Memory has no duration: the built-in accepts TIMED = 'YES' and leaves it at NO.
    let timed = timed.filter(|_| instrument.kind != Kind::Memory);
    engine.set_instrument(instrument.id, enabled, timed);
    Ok(true)
}

/// The table `setup_consumers`.
pub static CONSUMERS: TableDef<ConsumerState> = TableDef::new(
    "setup_consumers",
    "The consumers of events: which tables they go to. A consumer works only while those above it are on: global_instrumentation, then \
     thread_instrumentation, then `_current`, then `_history` and `_history_long`. `events_statements_cpu`, in the shape \
     `extended` only, is off by default, because it takes two system calls per statement.",
    &[CONSUMER_COLUMNS],
    |engine, _, emit| {
        let _ = engine.consumers().try_for_each(|it| emit(&(it, engine.consumer(it))));
    },
)
.indexed(&[&["NAME"]])
.updated(&["ENABLED"], update_consumer);

const CONSUMER_COLUMNS: &[ColumnDef<ConsumerState>] = &[
    column("NAME", VarChar(64), "Name of the consumer.", |(consumer, _)| consumer.name().into()),
    column("ENABLED", YES_NO, "Whether it is on. May be updated.", |(_, on)| yes_no(*on)),
];

fn update_consumer(engine: &Engine, changes: &RowChanges<'_>) -> Result<bool, TableError> {
    let enabled = changes.flag("ENABLED")?;
    let Some(Value::Text(name)) = changes.held("NAME") else { return Ok(false) };
    let consumer = engine.consumers().find(|consumer| consumer.name() == name);
    let (Some(consumer), Some(on)) = (consumer, enabled) else { return Ok(false) };
    engine.set_consumer(consumer, on);
    Ok(true)
}

/// The table `setup_actors`.
pub static ACTORS: TableDef<ActorRule> = TableDef::new(
    "setup_actors",
    "Whose connections are recorded: `%` stands for any. The most specific row decides; a row that names the user \
     comes before one that names only the host. Without a matching row INSTRUMENTED and HISTORY are off. A change \
     affects connections that are made later. Holds at most 1,024 rows. Rows about a role have no effect, as in \
     MariaDB's own.",
    &[ACTOR_COLUMNS],
    |engine, _, emit| {
        let _ = engine.rules().iter().try_for_each(emit);
    },
)
.indexed(&[&["HOST", "USER", "ROLE"]])
.truncated(Reset::ActorRules)
.updated(&["ENABLED", "HISTORY"], |engine, row| Ok(engine.replace_rule(actor(row)?)))
.edited(
    |engine, row| engine.add_rule(actor(row)?).map_err(refusal),
    |engine, row| Ok(engine.remove_rule(&actor(row)?)),
);

const ACTOR_COLUMNS: &[ColumnDef<ActorRule>] = &[
    column("HOST", Char(255), "Host the connection comes from.", |row: &ActorRule| (&row.host).into())
        .or("%"),
    column("USER", Char(128), "User of the connection.", |row: &ActorRule| (&row.user).into()).or("%"),
    column("ROLE", Char(128), "Only rows with `%` have an effect.", |row: &ActorRule| (&row.role).into())
        .or("%"),
    column(
        "ENABLED",
        YES_NO,
        "INSTRUMENTED of the connection's thread. May be updated.",
        |row: &ActorRule| yes_no(row.enabled),
    )
    .or("YES"),
    column("HISTORY", YES_NO, "HISTORY of the connection's thread. May be updated.", |row: &ActorRule| {
        yes_no(row.history)
    })
    .or("YES"),
];

fn actor(row: &RowChanges<'_>) -> Result<ActorRule, TableError> {
    Ok(ActorRule {
        host: row.text("HOST")?,
        user: row.text("USER")?,
        role: row.text("ROLE")?,
        enabled: row.state("ENABLED")?,
        history: row.state("HISTORY")?,
    })
}

/// The table `setup_objects`.
pub static OBJECTS: TableDef<ObjectRule> = TableDef::new(
    "setup_objects",
    "Which tables and stored programs are recorded: `%` stands for any. The row with the object's name decides; \
     without one, the row with its schema and OBJECT_NAME `%`; without that, the row of its type with `%` for both. \
     An object without any of these is not recorded. Names are case-sensitive, and names of programs are in lower \
     case. A change takes effect at once. \
     DELETE removes rows of every type, not those of TABLE only as MariaDB's own does. \
     Holds at most 1,024 rows.",
    &[OBJECT_COLUMNS],
    |engine, _, emit| {
        let _ = engine.rules().iter().try_for_each(emit);
    },
)
.indexed(&[&["OBJECT_TYPE", "OBJECT_SCHEMA", "OBJECT_NAME"], &["OBJECT_SCHEMA", "OBJECT_NAME", "OBJECT_TYPE"]])
.truncated(Reset::ObjectRules)
.updated(&["ENABLED", "TIMED"], |engine, row| Ok(engine.replace_rule(object(row)?)))
.edited(
    |engine, row| engine.add_rule(object(row)?).map_err(refusal),
    |engine, row| Ok(engine.remove_rule(&object(row)?)),
);

/// Types of objects that the built-in's tables list.
pub(crate) const OBJECT_TYPES: &[&str] = &["EVENT", "FUNCTION", "PROCEDURE", "TABLE", "TRIGGER"];

const OBJECT_COLUMNS: &[ColumnDef<ObjectRule>] = &[
    column("OBJECT_TYPE", Enum(OBJECT_TYPES), "Kind of the object.", |row: &ObjectRule| {
        objects::type_name(row.object_type).into()
    })
    .or("TABLE"),
    nullable(
        "OBJECT_SCHEMA",
        VarChar(64),
        "Schema that holds the object; an empty name is stored as NULL.",
        |row: &ObjectRule| Some(&row.schema).filter(|schema| !schema.is_empty()).into(),
    )
    .or("%"),
    column("OBJECT_NAME", VarChar(64), "Name of the object within its schema.", |row: &ObjectRule| {
        (&row.name).into()
    })
    .or("%"),
    column("ENABLED", YES_NO, "Whether the object is instrumented. May be updated.", |row: &ObjectRule| {
        yes_no(row.enabled)
    })
    .or("YES"),
    column("TIMED", YES_NO, "Whether its events are timed. May be updated.", |row: &ObjectRule| {
        yes_no(row.timed)
    })
    .or("YES"),
];

fn object(row: &RowChanges<'_>) -> Result<ObjectRule, TableError> {
    let object_type = row.text("OBJECT_TYPE")?;
    if object_type.is_empty() {
        return Err(TableError::NoReference);
    }
    Ok(ObjectRule {
        object_type: objects::type_of(&object_type).ok_or(TableError::BadValue("OBJECT_TYPE"))?,
        schema: row.text("OBJECT_SCHEMA")?,
        name: row.text("OBJECT_NAME")?,
        enabled: row.state("ENABLED")?,
        timed: row.state("TIMED")?,
    })
}

fn refusal(error: RuleError) -> TableError {
    match error {
        RuleError::Duplicate => TableError::Duplicate,
        RuleError::Full => TableError::Full,
    }
}

/// The table `setup_threads`.
pub static THREADS: TableDef<ThreadInstrument> = TableDef::new(
    "setup_threads",
    "The kinds of threads, as in MySQL 8; only in the shape `extended`, because MariaDB does not have this table. A \
     change affects background threads that begin later; for connections setup_actors decides.",
    &[THREAD_COLUMNS],
    |engine, _, emit| {
        let _ = engine.thread_instruments().iter().try_for_each(emit);
    },
)
.indexed(&[&["NAME"]])
.updated(&["ENABLED", "HISTORY"], update_thread_class);

const THREAD_COLUMNS: &[ColumnDef<ThreadInstrument>] = &[
    column("NAME", VarChar(128), "Name of the thread's instrument.", |row| row.name.into()),
    column("ENABLED", YES_NO, "INSTRUMENTED of threads that begin later. May be updated.", |row| {
        yes_no(row.enabled)
    }),
    column("HISTORY", YES_NO, "HISTORY of threads that begin later. May be updated.", |row| {
        yes_no(row.history)
    }),
    column(
        "PROPERTIES",
        Set(&["singleton", "user"]),
        "Their properties: `singleton`: there is only one; `user`: they belong to clients.",
        |row| set_of([("singleton", row.properties.global), ("user", row.properties.user)]),
    ),
    column("VOLATILITY", Int, "How long such threads live; always 0: the server does not say.", |_| {
        Value::Signed(0)
    }),
    nullable("DOCUMENTATION", LongText, "Always NULL: the server has none.", |_| Value::Null),
];

fn update_thread_class(engine: &Engine, changes: &RowChanges<'_>) -> Result<bool, TableError> {
    let enabled = changes.flag("ENABLED")?;
    let history = changes.flag("HISTORY")?;
    let name = changes.text("NAME")?;
    let Some(class) = engine.thread_instruments().into_iter().find(|it| it.name == name) else {
        return Ok(false);
    };
    engine.set_thread_instrument(class.id, enabled, history);
    Ok(true)
}
