//! The report's load: statements by kind and account, transactions, connections, errors.

use super::changes::{Changes, RowChange, SnapshotPair};
use super::{Cell, FEW_ROWS, Figures, ROWS, Section, SummaryFigure};

/// The counters of statements, in the order of [`at`].
const COUNTERS: [&str; 6] =
    ["COUNT_STAR", "SUM_TIMER_WAIT", "SUM_ERRORS", "SUM_ROWS_SENT", "SUM_ROWS_EXAMINED", "SUM_ROWS_AFFECTED"];

mod at {
    pub(super) const COUNT: usize = 0;
    pub(super) const TIME: usize = 1;
    pub(super) const ERRORS: usize = 2;
    pub(super) const SENT: usize = 3;
    pub(super) const EXAMINED: usize = 4;
    pub(super) const AFFECTED: usize = 5;
}

/// The counters of all statements.
pub(super) struct LoadCounters<'a> {
    kinds: Option<Changes<'a>>,
    transactions: Option<Changes<'a>>,
    connections: Option<Changes<'a>>,
}

/// Returns whether a client sent it: statements within stored programs are part of a CALL, and are not
/// counted again.
fn is_sent(name: &str) -> bool {
    name.starts_with("statement/sql/") || name.starts_with("statement/com/")
}

impl<'a> LoadCounters<'a> {
    pub(super) fn of(between: &SnapshotPair<'a>) -> Self {
        let mut kinds =
            between.changes("events_statements_summary_global_by_event_name", &["EVENT_NAME"], &COUNTERS);
        if let Some(kinds) = &mut kinds {
            kinds.rows.retain(|row| is_sent(row.name(0)) && row.by[at::COUNT] > 0);
            kinds.rows.sort_by_key(|row| std::cmp::Reverse(row.by[at::TIME]));
        }
        let transactions = between.changes(
            "events_transactions_summary_global_by_event_name",
            &["EVENT_NAME"],
            &["COUNT_STAR", "SUM_TIMER_WAIT"],
        );
        let mut connections = between.changes("accounts", &["USER", "HOST"], &["TOTAL_CONNECTIONS"]);
        if let Some(connections) = &mut connections {
            // Rows without a name are the server's own threads.
            connections.rows.retain(|row| row.key[0].is_some());
        }
        LoadCounters { kinds, transactions, connections }
    }

    /// Returns the time of all statements in picoseconds.
    pub(super) fn time(&self) -> Option<u64> {
        self.kinds.as_ref().map(|kinds| kinds.sum(at::TIME))
    }

    /// Returns the summary.
    pub(super) fn figures(&self) -> Vec<SummaryFigure> {
        let mut figures = vec![];
        let mut add = |key, title, value| figures.push(SummaryFigure { key, title, value });
        if let Some(kinds) = &self.kinds {
            let count = kinds.sum(at::COUNT);
            add("statements", "statements", Cell::Count(count));
            add("statements_per_second", "statements a second", Cell::rate(count, kinds.seconds));
            add("average_seconds", "mean time of a statement", Cell::average(kinds.sum(at::TIME), count));
            add(
                "rows_examined_per_second",
                "rows read a second",
                Cell::rate(kinds.sum(at::EXAMINED), kinds.seconds),
            );
            add("errors", "statements failed", Cell::Count(kinds.sum(at::ERRORS)));
        }
        if let Some(transactions) = &self.transactions {
            add(
                "transactions_per_second",
                "transactions a second",
                Cell::rate(transactions.sum(0), transactions.seconds),
            );
        }
        if let Some(connections) = &self.connections {
            add("connections", "new connections", Cell::Count(connections.sum(0)));
        }
        figures
    }

    pub(super) fn section(&self, between: &SnapshotPair<'_>) -> Option<Section> {
        let kinds = self.kinds.as_ref()?;
        let mut tables = vec![by_kind(kinds)];
        tables.extend(by_account(between));
        let note = "Statements that clients sent. What a stored program runs is part of its CALL.".into();
        Some(Section { key: "load", title: "Load", note, chart: None, tables })
    }
}

fn by_kind(kinds: &Changes<'_>) -> Figures {
    const COLUMNS: &[(&str, &str)] = &[
        ("kind", "kind"),
        ("count", "count"),
        ("per_second", "a second"),
        ("total_seconds", "total"),
        ("share", "share"),
        ("average_seconds", "average"),
        ("errors", "errors"),
        ("rows_sent", "rows sent"),
        ("rows_examined", "rows read"),
        ("rows_affected", "rows changed"),
    ];
    let time = kinds.sum(at::TIME);
    let row = |row: &RowChange<'_>| {
        let kind = row.name(0).trim_start_matches("statement/").trim_start_matches("sql/");
        vec![
            Cell::Name(kind.to_owned()),
            Cell::Count(row.by[at::COUNT]),
            Cell::rate(row.by[at::COUNT], kinds.seconds),
            Cell::picoseconds(row.by[at::TIME]),
            Cell::share(row.by[at::TIME], time),
            Cell::average(row.by[at::TIME], row.by[at::COUNT]),
            Cell::Count(row.by[at::ERRORS]),
            Cell::Count(row.by[at::SENT]),
            Cell::Count(row.by[at::EXAMINED]),
            Cell::Count(row.by[at::AFFECTED]),
        ]
    };
    Figures::new("kinds", "Statements by kind", COLUMNS, kinds.rows.iter().map(row).collect(), ROWS)
}

fn by_account(between: &SnapshotPair<'_>) -> Option<Figures> {
    const COLUMNS: &[(&str, &str)] = &[
        ("account", "account"),
        ("count", "statements"),
        ("per_second", "a second"),
        ("total_seconds", "total"),
        ("share", "share"),
        ("average_seconds", "average"),
        ("errors", "errors"),
    ];
    let table = "events_statements_summary_by_account_by_event_name";
    let changes = between.changes(table, &["USER", "HOST", "EVENT_NAME"], &COUNTERS)?;
    let mut accounts: std::collections::BTreeMap<String, [u64; 3]> = std::collections::BTreeMap::new();
    for row in changes.rows.iter().filter(|row| is_sent(row.name(2)) && row.key[0].is_some()) {
        let sums = accounts.entry(format!("{}@{}", row.name(0), row.name(1))).or_default();
        for (sum, counter) in sums.iter_mut().zip([at::COUNT, at::TIME, at::ERRORS]) {
            *sum = sum.saturating_add(row.by[counter]);
        }
    }
    let mut accounts: Vec<(String, [u64; 3])> =
        accounts.into_iter().filter(|(_, sums)| sums[0] > 0).collect();
    accounts.sort_by_key(|(_, sums)| std::cmp::Reverse(sums[1]));
    let all = accounts.iter().map(|(_, sums)| sums[1]).fold(0, u64::saturating_add);
    let row = |(account, [count, time, errors]): (String, [u64; 3])| {
        vec![
            Cell::Name(account),
            Cell::Count(count),
            Cell::rate(count, changes.seconds),
            Cell::picoseconds(time),
            Cell::share(time, all),
            Cell::average(time, count),
            Cell::Count(errors),
        ]
    };
    let rows = accounts.into_iter().map(row).collect();
    Some(Figures::new("accounts", "By account", COLUMNS, rows, FEW_ROWS))
}

/// Makes the section of errors by number.
pub(super) fn errors(between: &SnapshotPair<'_>) -> Option<Section> {
    const COLUMNS: &[(&str, &str)] = &[
        ("name", "error"),
        ("number", "number"),
        ("raised", "raised"),
        ("per_second", "a second"),
        ("handled", "of these handled"),
    ];
    let table = "events_errors_summary_global_by_error";
    let key = ["ERROR_NUMBER", "ERROR_NAME"];
    let mut changes = between.changes(table, &key, &["SUM_ERROR_RAISED", "SUM_ERROR_HANDLED"])?;
    changes.rows.retain(|row| row.by[0] > 0);
    changes.rows.sort_by_key(|row| std::cmp::Reverse(row.by[0]));
    let row = |row: &RowChange<'_>| {
        vec![
            Cell::name(row.key[1].as_deref().or(Some("others"))),
            Cell::name(row.key[0].as_deref()),
            Cell::Count(row.by[0]),
            Cell::rate(row.by[0], changes.seconds),
            Cell::Count(row.by[1]),
        ]
    };
    let rows = changes.rows.iter().map(row).collect();
    let tables = vec![Figures::new("errors", "Errors and warnings by number", COLUMNS, rows, ROWS)];
    let note = "Handled are those that a handler in a stored program caught.".into();
    Some(Section { key: "errors", title: "Errors", note, chart: None, tables })
}
