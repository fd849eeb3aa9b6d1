//! What a server's Performance Schema collects of what a sample needs, and what to say of the rest.

use std::collections::{BTreeMap, HashMap};

use super::{AshError, shape};
use crate::source::{Error, Kind, Source};
use tare_words::stage;

/// What the server collects.
#[derive(Clone, Debug, Default)]
pub(super) struct Coverage {
    pub(super) waits: bool,
    pub(super) statements: bool,
    pub(super) stages: bool,
    pub(super) transactions: bool,
    /// Whether waits for tables are instrumented. Then a session that waits for a row is in one.
    pub(super) table_waits: bool,
    pub(super) metadata_locks: bool,
    /// SQL of a statement's shape, where digests are told only of statements that have ended, and can be
    /// looked up then.
    pub(super) shape: Option<String>,
    /// MySQL's table of row locks.
    pub(super) data_lock_waits: bool,
    /// Full name of each state's stage.
    pub(super) stages_by_state: HashMap<String, String>,
    /// Lines for the user about what is missing.
    pub(super) notes: Vec<String>,
}

/// Kinds of wait instruments: beginning of their names, and what is missing without them.
const WAITS: [(&str, &str); 5] = [
    ("wait/synch/", "sessions that wait for mutexes and conditions"),
    ("wait/io/file/", "sessions that wait for files"),
    ("wait/io/socket/", "sessions that wait for the network"),
    ("wait/io/table/", "the tables of row locks that are waited for"),
    ("wait/lock/table/", "the tables of table locks that are waited for"),
];
/// Longest text of a statement that a server has which does not tell it.
const LONGEST_TEXT: u64 = 1024;
const METADATA: &str = "wait/lock/metadata/sql/mdl";

impl Coverage {
    /// Asks a server what it collects.
    ///
    /// # Errors
    /// When the Performance Schema is off, the account may not read it, or the server does not answer.
    pub(super) fn of(source: &mut Source) -> Result<Coverage, AshError> {
        let address = source.address().to_string();
        let is_on = source.ask("SELECT @@performance_schema");
        match is_on {
            Ok(rows) if rows.first().and_then(|row| row.number(0)) == Some(0) => {
                return Err(AshError::Off(address));
            }
            Err(error @ (Error::Gone { .. } | Error::Refused { .. })) => return Err(error.into()),
            // A server that does not know the variable says what it is below.
            _ => {}
        }
        let mut coverage = Coverage::default();
        coverage.ask_consumers(source)?;
        coverage.ask_instruments(source)?;
        coverage.data_lock_waits = !source.columns("data_lock_waits")?.is_empty();
        Ok(coverage)
    }

    fn ask_consumers(&mut self, source: &mut Source) -> Result<(), Error> {
        let is_mariadb = source.kind() == Kind::MariaDb;
        let rows = source.ask("SELECT `NAME`, `ENABLED` FROM `performance_schema`.`setup_consumers`")?;
        let on: BTreeMap<String, bool> = rows
            .iter()
            .map(|row| (row.text(0).unwrap_or_default(), row.text(1).as_deref() == Some("YES")))
            .collect();
        let is_on = |name: &str| on.get(name) == Some(&true);
        let notes = &mut self.notes;
        for name in ["global_instrumentation", "thread_instrumentation"] {
            if !is_on(name) {
                notes.push(consumer(name, "neither statements nor waits are known, and all counts as CPU"));
                return Ok(());
            }
        }
        let mut current = |name: &str, lacking: &str| {
            let is_on = is_on(name);
            if !is_on && on.contains_key(name) {
                notes.push(consumer(name, lacking));
            } else if !is_on {
                notes.push(format!("the server has no {name}: {lacking}"));
            }
            is_on
        };
        self.statements = current("events_statements_current", "digests and ages of statements are unknown");
        self.stages = current("events_stages_current", "stages are told from the list of processes");
        self.waits = current(
            "events_waits_current",
            "waits for files, mutexes, conditions and the network are unknown, and count as CPU",
        );
        self.transactions =
            current("events_transactions_current", "numbers and ages of transactions are unknown");
        let has_digests = current("statements_digest", "statements have no digests");
        if is_mariadb && self.statements && has_digests {
            // A short statement has been followed by others before its digest is asked for.
            let is_told = current(
                "events_statements_history",
                "MariaDB tells digests only of statements that have ended, and without their history the statements have none",
            );
            self.shape = is_told.then(|| longest_text(source)).transpose()?.map(shape::of_text);
        }
        Ok(())
    }

    fn ask_instruments(&mut self, source: &mut Source) -> Result<(), Error> {
        let sql = "SELECT `NAME`, `ENABLED` FROM `performance_schema`.`setup_instruments` \
                   WHERE `NAME` LIKE 'wait/%' OR `NAME` LIKE 'stage/%'";
        let mut of_kinds = [(0, 0); WAITS.len()];
        let mut metadata = None;
        for row in source.ask(sql)? {
            let (name, is_on) = (row.text(0).unwrap_or_default(), row.text(1).as_deref() == Some("YES"));
            if name.starts_with("stage/") {
                let state = stage::state(&name).to_owned();
                // Where a state is a stage of several engines, it is mostly the server's.
                let known = self.stages_by_state.entry(state).or_insert_with(|| name.clone());
                if name.starts_with("stage/sql/") {
                    *known = name;
                }
            } else if name == METADATA {
                metadata = Some(is_on);
            } else if let Some(at) = WAITS.iter().position(|(begin, _)| name.starts_with(begin)) {
                of_kinds[at].0 += usize::from(is_on);
                of_kinds[at].1 += 1;
            }
        }
        for ((begin, lacking), (on, all)) in WAITS.iter().zip(of_kinds) {
            if self.waits && on < all {
                let some = if on == 0 { "all".to_owned() } else { format!("{} of {all}", all - on) };
                self.notes.push(format!(
                    "{some} instruments {begin}% are off, so {lacking} may be unknown: UPDATE \
                     performance_schema.setup_instruments SET ENABLED = 'YES', TIMED = 'YES' WHERE NAME LIKE '{begin}%'"
                ));
            }
        }
        self.table_waits = self.waits && of_kinds[3] == (1, 1);
        self.metadata_locks = metadata == Some(true);
        match metadata {
            Some(true) => {}
            Some(false) => self.notes.push(format!(
                "the instrument {METADATA} is off, so holders of metadata locks are unknown: UPDATE \
                 performance_schema.setup_instruments SET ENABLED = 'YES' WHERE NAME = '{METADATA}'"
            )),
            None => self.notes.push("the server does not tell who holds metadata locks".to_owned()),
        }
        Ok(())
    }

    /// Returns the full name of a state's stage.
    pub(super) fn stage(&self, state: &str) -> Option<&str> {
        self.stages_by_state.get(state).map(String::as_str)
    }
}

fn consumer(name: &str, lacking: &str) -> String {
    format!(
        "the consumer {name} is off: {lacking}. To change that: UPDATE performance_schema.setup_consumers SET ENABLED = 'YES' \
         WHERE NAME = '{name}'"
    )
}

/// Returns the most bytes of a statement's text that the server keeps.
fn longest_text(source: &mut Source) -> Result<u64, Error> {
    let rows = source.ask("SHOW GLOBAL VARIABLES LIKE 'performance_schema_max_sql_text_length'")?;
    let told = rows.first().and_then(|row| row.text(1)).and_then(|text| text.parse().ok());
    Ok(told.unwrap_or(LONGEST_TEXT))
}
