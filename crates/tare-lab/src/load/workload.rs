//! The workloads that a study can name, driven by sysbench.
//!
//! A workload is a declaration: a script (sysbench's own, or one from `workloads/`, which is part of this
//! program), default options, the options that determine its data, and the figures it prints.
//! `docs/reference/workloads.md` describes each of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Tried, meant};
use crate::{Error, Result};

/// Options of a driver, `table-size` → `10000`; those of a study override a workload's defaults.
pub type DriverOptions = BTreeMap<String, String>;

/// A workload: what one transaction is.
#[derive(Debug, PartialEq, Eq)]
pub struct Workload {
    /// Its name in studies.
    pub name: &'static str,
    /// Its description, in a sentence.
    pub meaning: &'static str,
    /// The script that runs it.
    pub script: SysbenchScript,
    /// The data it needs.
    pub data: &'static WorkloadData,
    /// Default options.
    pub options: &'static [(&'static str, &'static str)],
    /// Whether it changes data, and so holds locks while its driver is stopped.
    pub writes: bool,
    /// Figures it prints after a run, each on a line: `notpm: 1234.5`.
    pub figures: &'static [WorkloadMetric],
}

/// A figure that a workload reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadMetric {
    /// A count per wall-clock time.
    Rate(&'static str),
    /// Any other figure.
    Plain(&'static str),
}

/// A script for sysbench.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SysbenchScript {
    /// One that comes with sysbench.
    Stock(&'static str),
    /// One of the lab's: the file's name, and its text.
    Own(&'static str, &'static str),
    /// No script: statements recorded by `tare lab record` are replayed.
    Recorded,
}

/// The data that a workload needs before it runs. Workloads with the same data of the same size can share it.
#[derive(Debug, PartialEq, Eq)]
pub struct WorkloadData {
    /// Its name.
    pub name: &'static str,
    /// The script whose command `prepare` creates it, in parallel.
    pub script: SysbenchScript,
    /// Options that determine its content.
    pub sized_by: &'static [&'static str],
    /// Whether the script's command `check` tells if the data is intact.
    pub checkable: bool,
}

/// The tables of sysbench's own workloads.
static OLTP: WorkloadData = WorkloadData {
    name: "oltp",
    script: SysbenchScript::Stock("oltp_read_write"),
    sized_by: &["tables", "table-size", "auto-inc", "create-secondary", "mysql-storage-engine"],
    checkable: false,
};

const TPCC_SCRIPT: SysbenchScript =
    SysbenchScript::Own("tpcc.lua", include_str!("../../../../workloads/tpcc.lua"));
const DBSTRESS_SCRIPT: SysbenchScript =
    SysbenchScript::Own("dbstress.lua", include_str!("../../../../workloads/dbstress.lua"));
const PROCEDURE_SCRIPT: SysbenchScript =
    SysbenchScript::Own("procedure_loop.lua", include_str!("../../../../workloads/procedure_loop.lua"));
const EVENTS_SCRIPT: SysbenchScript =
    SysbenchScript::Own("events.lua", include_str!("../../../../workloads/events.lua"));
const HANDICAP_SCRIPT: SysbenchScript =
    SysbenchScript::Own("handicap.lua", include_str!("../../../../workloads/handicap.lua"));

/// The script that drives any other script at a given rate.
pub(crate) const PACED: SysbenchScript =
    SysbenchScript::Own("paced.lua", include_str!("../../../../workloads/paced.lua"));

static TPCC: WorkloadData = WorkloadData {
    name: "tpcc",
    script: TPCC_SCRIPT,
    sized_by: &["warehouses", "scale", "foreign-keys", "mysql-storage-engine"],
    checkable: true,
};

static DBSTRESS: WorkloadData = WorkloadData {
    name: "dbstress",
    script: DBSTRESS_SCRIPT,
    sized_by: &["objects", "history", "mysql-storage-engine"],
    checkable: false,
};

/// A procedure without rows.
static PROCEDURE: WorkloadData =
    WorkloadData { name: "procedure_loop", script: PROCEDURE_SCRIPT, sized_by: &[], checkable: false };

/// The data of a recording.
static RECORDED: WorkloadData = WorkloadData {
    name: "replay",
    script: SysbenchScript::Recorded,
    sized_by: &["recording", "data"],
    checkable: false,
};

/// Many small tables, and a procedure.
static EVENTS: WorkloadData =
    WorkloadData { name: "events", script: EVENTS_SCRIPT, sized_by: &["tables", "rows"], checkable: false };

/// All workloads.
pub static WORKLOADS: &[Workload] = &[
    Workload {
        name: "oltp_read_only",
        meaning: "10 point selects and 4 range selects in a transaction",
        ..oltp("oltp_read_only")
    },
    Workload {
        name: "oltp_read_write",
        meaning: "10 point selects, 4 range selects, 2 updates, a delete and an insert in a transaction",
        writes: true,
        ..oltp("oltp_read_write")
    },
    Workload {
        name: "oltp_write_only",
        meaning: "2 updates, a delete and an insert in a transaction",
        writes: true,
        ..oltp("oltp_write_only")
    },
    Workload { name: "oltp_point_select", meaning: "a row by its key", ..oltp("oltp_point_select") },
    Workload {
        name: "oltp_update_index",
        meaning: "an update of an indexed column",
        writes: true,
        ..oltp("oltp_update_index")
    },
    Workload {
        name: "oltp_update_non_index",
        meaning: "an update of a column without index",
        writes: true,
        ..oltp("oltp_update_non_index")
    },
    Workload {
        name: "ro_simple_ranges",
        meaning: "a select of 100 rows by a range of keys",
        options: &[
            ("point-selects", "0"),
            ("simple-ranges", "1"),
            ("sum-ranges", "0"),
            ("order-ranges", "0"),
            ("distinct-ranges", "0"),
            ("skip-trx", "on"),
        ],
        ..oltp("oltp_read_only")
    },
    Workload {
        name: "mixed",
        meaning: "7 point selects and 3 updates in a transaction: 70% reads, 30% updates",
        options: &[
            ("point-selects", "7"),
            ("range-selects", "off"),
            ("index-updates", "1"),
            ("non-index-updates", "2"),
            ("delete-inserts", "0"),
        ],
        writes: true,
        ..oltp("oltp_read_write")
    },
    Workload {
        name: "tpcc",
        meaning: "TPC-C: its five transactions in the standard mix, without think times",
        script: TPCC_SCRIPT,
        data: &TPCC,
        options: &[("warehouses", "1")],
        writes: true,
        figures: &[WorkloadMetric::Rate("notpm"), WorkloadMetric::Plain("retries_per_transaction")],
    },
    Workload {
        name: "dbstress_ro",
        meaning: "dbSTRESS, read-only: an object with section and zone, then its history of 20 records",
        script: DBSTRESS_SCRIPT,
        data: &DBSTRESS,
        options: &[("scenario", "ro")],
        writes: false,
        figures: &[],
    },
    Workload {
        name: "dbstress_rw",
        meaning: "dbSTRESS, read-write: the two reads, then a record of the history changed and another one replaced",
        script: DBSTRESS_SCRIPT,
        data: &DBSTRESS,
        options: &[("scenario", "rw")],
        writes: true,
        figures: &[],
    },
    Workload {
        name: "procedure_loop",
        meaning: "1,000 turns of a loop in a stored procedure",
        script: PROCEDURE_SCRIPT,
        data: &PROCEDURE,
        options: &[("loops", "1000")],
        writes: false,
        figures: &[],
    },
    Workload {
        name: "events_connect",
        meaning: "a connection, a select without a table, and its end",
        ..events(&[("scenario", "connect")])
    },
    Workload {
        name: "events_temporary",
        meaning: "a select that groups 200 rows by way of a temporary table",
        ..events(&[("scenario", "temporary")])
    },
    Workload {
        name: "events_sort",
        meaning: "a select that sorts 200 rows",
        ..events(&[("scenario", "sort")])
    },
    Workload {
        name: "events_procedure",
        meaning: "a procedure of 400 instructions that reads 50 rows",
        ..events(&[("scenario", "procedure")])
    },
    Workload {
        name: "events_tables",
        meaning: "a row by its key, sent as text, of one of 120 tables",
        ..events(&[("scenario", "tables")])
    },
    Workload {
        name: "events_session",
        meaning: "a connection that sets a variable and reads 3 rows in a transaction, and its end",
        ..events(&[("scenario", "session")])
    },
    Workload {
        name: "events_ddl",
        meaning: "a table made, altered, filled with 2 rows and dropped",
        writes: true,
        ..events(&[("scenario", "ddl")])
    },
    Workload {
        name: "replay",
        meaning: "a statement of a recording",
        script: SysbenchScript::Recorded,
        data: &RECORDED,
        options: &[],
        writes: true, // what it does is in its file
        figures: &[WorkloadMetric::Plain("times_replayed"), WorkloadMetric::Plain("behind_seconds")],
    },
    Workload {
        name: "handicap",
        meaning: "oltp_read_only and a call of lab_handicap.pay(), for checking the lab itself",
        script: HANDICAP_SCRIPT,
        ..oltp("oltp_read_only")
    },
];

const fn oltp(script: &'static str) -> Workload {
    Workload {
        name: "",
        meaning: "",
        script: SysbenchScript::Stock(script),
        data: &OLTP,
        options: &[],
        writes: false,
        figures: &[],
    }
}

const fn events(options: &'static [(&'static str, &'static str)]) -> Workload {
    Workload {
        name: "",
        meaning: "",
        script: EVENTS_SCRIPT,
        data: &EVENTS,
        options,
        writes: false,
        figures: &[],
    }
}

/// Returns the workload of that name.
pub fn find(name: &str) -> Option<&'static Workload> {
    WORKLOADS.iter().find(|w| w.name == name)
}

/// Returns the workload of that name.
///
/// # Errors
///
/// There is none; the error says which there are.
///
/// # Examples
///
/// ```
/// use tare_lab::workload;
///
/// let workload = workload::named("oltp_read_only")?;
/// assert!(!workload.writes);
/// let error = workload::named("oltp_raed_only").expect_err("no such workload").to_string();
/// assert!(error.contains("did you mean `oltp_read_only`?"), "{error}");
/// # Ok::<(), tare_lab::Error>(())
/// ```
pub fn named(name: &str) -> Result<&'static Workload> {
    find(name).ok_or_else(|| {
        let known: Vec<&str> = WORKLOADS.iter().map(|it| it.name).collect();
        let meant = meant(name, known.iter().copied());
        Error::NoWorkload { workload: name.into(), meant, known: known.join(", ") }
    })
}

/// Writes the lab's scripts into a folder for the driver.
pub fn install(folder: &Path) -> Result<()> {
    let scripts = WORKLOADS.iter().flat_map(|w| [w.script, w.data.script]);
    for script in scripts.chain([PACED]) {
        if let SysbenchScript::Own(_, text) = script {
            let path = script.argument(folder);
            fs::write(&path, text).tried(|| format!("writing {}", path.display()))?;
        }
    }
    Ok(())
}

impl SysbenchScript {
    /// Returns the driver's first argument, with the lab's scripts in `folder`.
    pub fn argument(self, folder: &Path) -> PathBuf {
        match self {
            SysbenchScript::Stock(name) => name.into(),
            SysbenchScript::Own(file, _) => folder.join(file),
            SysbenchScript::Recorded => folder.into(),
        }
    }

    /// Returns the file of one of the lab's scripts: name and text.
    pub(crate) fn file(self) -> Option<(&'static str, &'static str)> {
        match self {
            SysbenchScript::Stock(_) | SysbenchScript::Recorded => None,
            SysbenchScript::Own(file, text) => Some((file, text)),
        }
    }

    /// Returns the module name by which another script can load it.
    pub fn module(self) -> &'static str {
        match self {
            SysbenchScript::Stock(name) => name,
            SysbenchScript::Own(file, _) => file.strip_suffix(".lua").unwrap_or(file),
            SysbenchScript::Recorded => "",
        }
    }
}

impl Workload {
    /// Returns the options to drive it with: its defaults, overridden by those given.
    pub fn options(&self, given: &DriverOptions) -> DriverOptions {
        let own = self.options.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
        own.chain(given.clone()).collect()
    }

    /// Returns the options that determine its data; equal for workloads that can share it.
    pub fn data_key(&self, given: &DriverOptions) -> (&'static str, DriverOptions) {
        let mut sizes = self.options(given);
        sizes.retain(|name, _| self.data.sized_by.contains(&name.as_str()));
        (self.data.name, sizes)
    }

    /// Parses its figures in the driver's output after a run that had load for a `share` of the time.
    pub fn figures(&self, output: &str, share: f64) -> BTreeMap<String, f64> {
        let value = |name: &str| {
            let mut pairs = output.lines().filter_map(|line| line.split_once(':'));
            pairs.find(|pair| pair.0 == name)?.1.trim().parse::<f64>().ok()
        };
        let known = self.figures.iter().filter_map(|figure| match figure {
            WorkloadMetric::Rate(name) => Some(((*name).to_owned(), value(name)? / share)),
            WorkloadMetric::Plain(name) => Some(((*name).to_owned(), value(name)?)),
        });
        known.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(pairs: &[(&str, &str)]) -> DriverOptions {
        pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn names_are_unique_and_described() {
        for (place, workload) in WORKLOADS.iter().enumerate() {
            assert!(!workload.name.is_empty() && !workload.meaning.is_empty(), "{workload:?}");
            assert!(WORKLOADS[..place].iter().all(|w| w.name != workload.name), "{}", workload.name);
        }
        assert!(find("oltp_read_only").is_some() && find("oltp").is_none());
    }

    #[test]
    fn what_writes_is_known_by_its_script() {
        for workload in WORKLOADS {
            let SysbenchScript::Stock(script) = workload.script else { continue };
            let reads = ["oltp_read_only", "oltp_point_select", "select_random_ranges"].contains(&script);
            assert_eq!(workload.writes, !reads, "{}", workload.name);
        }
    }

    #[test]
    fn what_is_given_wins() {
        let mixed = find("mixed").expect("mixed");
        let all = mixed.options(&options(&[("point-selects", "14"), ("table-size", "7")]));
        assert_eq!(all["point-selects"], "14");
        assert_eq!(all["index-updates"], "1");
        assert_eq!(all["table-size"], "7");
    }

    #[test]
    fn data_is_shared_by_what_decides_it() {
        let given = options(&[("table-size", "1000"), ("rand-type", "pareto")]);
        let key = |name: &str, given: &DriverOptions| find(name).expect("known").data_key(given);
        assert_eq!(key("oltp_read_only", &given), key("mixed", &given));
        assert_ne!(key("mixed", &given), key("mixed", &options(&[("table-size", "2000")])));
    }

    #[test]
    fn figures_are_read_from_lines_of_their_own() {
        let workload = Workload {
            figures: &[WorkloadMetric::Rate("notpm"), WorkloadMetric::Plain("kept")],
            ..oltp("oltp_read_only")
        };
        let output = "transactions: 12 (3 per sec.)\nnotpm: 1234.5\nother: 1\nkept: 2\n";
        let figures = |share| workload.figures(output, share).into_values().collect::<Vec<_>>();
        assert_eq!((figures(1.0), figures(0.5)), (vec![2.0, 1234.5], vec![2.0, 2469.0]));
    }
}
