//! A figure: one value of one row of one table, as left by one run of one script.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The identity of a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ValueId {
    /// Name of the table.
    pub table: String,
    /// The script and, after a point, its connection; `-` for what no script changes.
    pub script: String,
    /// The row: its key columns joined by `.`; for events NAME or, for the n-th event of that name, NAME#n.
    pub key: String,
    /// The column; `rows` counts the events of one name, `ROW` stands for all columns of one event.
    pub column: String,
}

impl fmt::Display for ValueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}] {} {}", self.table, self.script, self.key, self.column)
    }
}

/// The column of a figure that is a whole row, as [`Capture::put_row`] writes it. Hardly any row differs, and
/// whole rows make the comparison ten times smaller; those that differ are compared by column.
const ROW: &str = "row";

/// The result of one pass of all scripts over one server.
#[derive(Clone, Debug, Default)]
pub struct Capture {
    /// All figures.
    pub figures: BTreeMap<ValueId, String>,
    /// Names of events in their order, by (table, script).
    pub orders: BTreeMap<(String, String), Vec<String>>,
    /// Rows that contradict themselves or each other.
    pub violations: Vec<String>,
    /// Tables and columns of the server.
    pub schema: BTreeMap<String, Vec<String>>,
    /// Tables with rows that were compared with others of the same server.
    pub read: BTreeSet<String>,
    /// Number of events whose name was corrected, by the right name.
    pub misnamed: BTreeMap<String, usize>,
}

impl Capture {
    /// Adds a figure.
    pub fn put(
        &mut self,
        table: &str,
        script: &str,
        key: impl Into<String>,
        column: &str,
        value: impl Into<String>,
    ) {
        let figure =
            ValueId { table: table.into(), script: script.into(), key: key.into(), column: column.into() };
        self.figures.insert(figure, value.into());
    }

    /// Adds all columns of a row.
    pub fn put_row<C: fmt::Display>(
        &mut self,
        table: &str,
        script: &str,
        key: String,
        cells: impl IntoIterator<Item = (C, String)>,
    ) {
        let cells = cells.into_iter().map(|(column, value)| format!("{column}{IS}{value}"));
        self.put(table, script, key, ROW, cells.collect::<Vec<_>>().join(AND));
    }

    /// Returns the columns in which anything was found, by table.
    pub fn filled(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut filled: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (figure, row) in self.figures.iter().filter(|(figure, _)| figure.column == ROW) {
            let cells = row.split(AND).filter_map(|cell| cell.split_once(IS));
            let something = cells.filter(|(_, value)| !["", "0", "NULL", "nothing"].contains(value));
            let columns = filled.entry(figure.table.clone()).or_default();
            for (column, _) in something {
                if !columns.contains(column) {
                    columns.insert(column.to_owned());
                }
            }
        }
        filled
    }
}

/// Separators between a column and its value, and between columns: control characters that do not occur
/// otherwise.
const IS: &str = "\u{1f}";
const AND: &str = "\u{1e}";

/// A figure whose values differ.
#[derive(Clone, Debug)]
pub struct Unequal {
    /// The figure.
    pub figure: ValueId,
    /// The values that the figure had in the passes over the reference; `-` stands for a row that was not
    /// there.
    pub reference: BTreeSet<String>,
    /// Values from the passes over the subject, one of each.
    pub subject: Vec<String>,
}

/// The result of comparing captures.
#[derive(Debug, Default)]
pub struct CaptureComparison {
    /// Number of figures that are repeatable on the reference and always equal on the subject.
    pub equal: usize,
    /// Figures for which the reference always has one value, and the subject never has it.
    pub different: Vec<Unequal>,
    /// Figures for which the reference always has one value, and the subject has it in some passes only.
    pub unsteady: Vec<Unequal>,
    /// Figures that vary on the reference itself, so that they prove nothing.
    pub unrepeatable: Vec<Unequal>,
}

/// Compares every figure of the passes over the subject with those over the reference.
pub fn compare(reference: &[Capture], subject: &[Capture]) -> CaptureComparison {
    let uneven = uneven_names(reference, subject);
    let with_orders = |captures: &[Capture]| captures.iter().map(|c| ordered(c.clone(), &uneven)).collect();
    let (reference, subject): (Vec<_>, Vec<_>) = (with_orders(reference), with_orders(subject));
    let every = reference.iter().chain(&subject).flat_map(|c| c.keys());
    let every: BTreeSet<&ValueId> = every.filter(|figure| !is_covered(figure, &uneven)).collect();
    let mut comparison = CaptureComparison::default();
    for figure in every {
        let unequal = Unequal {
            figure: figure.clone(),
            reference: values(&reference, figure).into_iter().collect(),
            subject: values(&subject, figure),
        };
        if figure.column == ROW && !unequal.is_equal() {
            unequal.by_column().into_iter().for_each(|one| comparison.add(one));
        } else {
            comparison.add(unequal);
        }
    }
    comparison
}

impl Unequal {
    fn is_equal(&self) -> bool {
        self.reference.len() == 1 && self.wrong() == 0
    }

    /// Returns the number of passes over the subject with a value that the reference never had.
    pub fn wrong(&self) -> usize {
        self.subject.iter().filter(|value| !self.reference.contains(*value)).count()
    }

    /// Splits a row into its different columns.
    fn by_column(&self) -> Vec<Unequal> {
        let columns = self.reference.iter().chain(&self.subject).flat_map(|row| row.split(AND));
        let columns: BTreeSet<&str> = columns.filter_map(|cell| Some(cell.split_once(IS)?.0)).collect();
        let cell = |row: &String, column: &str| {
            let value = row.split(AND).find_map(|cell| cell.strip_prefix(column)?.strip_prefix(IS));
            value.unwrap_or("-").to_owned()
        };
        let one = |column: &str| Unequal {
            figure: ValueId { column: column.to_owned(), ..self.figure.clone() },
            reference: self.reference.iter().map(|row| cell(row, column)).collect(),
            subject: self.subject.iter().map(|row| cell(row, column)).collect(),
        };
        columns.into_iter().map(one).collect()
    }
}

impl CaptureComparison {
    fn add(&mut self, unequal: Unequal) {
        let (wrong, passes) = (unequal.wrong(), unequal.subject.len());
        match unequal.reference.len() {
            1 if wrong == 0 => self.equal += 1,
            1 if wrong < passes => self.unsteady.push(unequal),
            1 => self.different.push(unequal),
            _ => self.unrepeatable.push(unequal),
        }
    }
}

/// Returns the `rows` figures that differ anywhere: comparing such events one by one would only repeat that.
fn uneven_names(reference: &[Capture], subject: &[Capture]) -> BTreeSet<ValueId> {
    let every = reference.iter().chain(subject);
    let figures: BTreeSet<&ValueId> =
        every.clone().flat_map(|c| c.figures.keys()).filter(|f| f.column == "rows").collect();
    let differs = |figure: &&ValueId| {
        let values: BTreeSet<Option<&String>> = every.clone().map(|c| c.figures.get(figure)).collect();
        values.len() > 1
    };
    figures.into_iter().filter(differs).cloned().collect()
}

fn is_covered(figure: &ValueId, uneven: &BTreeSet<ValueId>) -> bool {
    let Some((name, _)) = figure.key.rsplit_once('#') else { return false };
    uneven.contains(&rows_figure(&figure.table, &figure.script, name))
}

fn rows_figure(table: &str, script: &str, name: &str) -> ValueId {
    ValueId { table: table.into(), script: script.into(), key: name.into(), column: "rows".into() }
}

/// Returns the figures of a capture, with the order of the evenly counted events as an additional one.
fn ordered(capture: Capture, uneven: &BTreeSet<ValueId>) -> BTreeMap<ValueId, String> {
    let mut figures = capture.figures;
    for ((table, script), names) in capture.orders {
        let even: Vec<String> =
            names.into_iter().filter(|name| !uneven.contains(&rows_figure(&table, &script, name))).collect();
        let figure = ValueId { table, script, key: "order".into(), column: "EVENT_NAME".into() };
        figures.insert(figure, even.join(" → "));
    }
    figures
}

fn values(captures: &[BTreeMap<ValueId, String>], figure: &ValueId) -> Vec<String> {
    captures.iter().map(|c| c.get(figure).cloned().unwrap_or_else(|| "-".into())).collect()
}

/// Describes unequal figures, grouped by table and key without its position, the most frequent first.
pub fn report(unequal: &[Unequal], groups: usize) -> String {
    let mut grouped: BTreeMap<(&str, &str), Vec<&Unequal>> = BTreeMap::new();
    for one in unequal {
        let key = one.figure.key.split('#').next().unwrap_or_default();
        grouped.entry((&one.figure.table, key)).or_default().push(one);
    }
    let mut lines: Vec<(usize, String)> = Vec::new();
    for ((table, key), members) in grouped {
        let columns: BTreeSet<&str> = members.iter().map(|one| one.figure.column.as_str()).collect();
        let columns: Vec<&str> = columns.into_iter().collect();
        let first = members[0];
        let (expected, got) = excerpt(&first.reference, &first.subject);
        let line = format!(
            "{:5} × {table} | {key} | {} | in up to {} of {} passes, first in {} {} {}: reference {expected}, subject {got}",
            members.len(),
            columns.join(" "),
            members.iter().map(|one| one.wrong()).max().unwrap_or_default(),
            first.subject.len(),
            first.figure.script,
            first.figure.key,
            first.figure.column,
        );
        lines.push((members.len(), line));
    }
    lines.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let more = lines.len().saturating_sub(groups);
    let mut text: String = lines.into_iter().take(groups).map(|(_, line)| line + "\n").collect();
    if more > 0 {
        text += &format!("… and {more} more groups\n");
    }
    text
}

/// Returns both values; long ones from where they differ.
fn excerpt(reference: &BTreeSet<String>, subject: &[String]) -> (String, String) {
    let join = |values: &BTreeSet<String>| values.iter().cloned().collect::<Vec<_>>().join(" | ");
    let (a, b) = (join(reference), join(&subject.iter().cloned().collect()));
    let same = a.chars().zip(b.chars()).take_while(|(x, y)| x == y).count();
    let cut = |text: &str| {
        let from = same.saturating_sub(60);
        let part: String = text.chars().skip(from).take(200).flat_map(char::escape_debug).collect();
        if from > 0 { format!("`…{part}`") } else { format!("`{part}`") }
    };
    (cut(&a), cut(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture(values: &[(&str, &str, &str)], order: &[&str]) -> Capture {
        let mut capture = Capture::default();
        for (key, column, value) in values {
            capture.put("t", "s", *key, column, *value);
        }
        capture.orders.insert(("t".into(), "s".into()), order.iter().map(|n| (*n).to_owned()).collect());
        capture
    }

    #[test]
    fn one_more_value_is_a_difference_and_a_wavering_reference_is_not() {
        let reference = [
            capture(&[("a", "N", "1"), ("b", "N", "5")], &[]),
            capture(&[("a", "N", "1"), ("b", "N", "6")], &[]),
        ];
        let subject = [capture(&[("a", "N", "2"), ("b", "N", "7"), ("c", "N", "1")], &[])];
        let comparison = compare(&reference, &subject);
        let keys = |list: &[Unequal]| list.iter().map(|u| u.figure.key.clone()).collect::<Vec<_>>();
        assert_eq!(keys(&comparison.different), ["a", "c"]);
        assert_eq!(keys(&comparison.unrepeatable), ["b"]);
    }

    #[test]
    fn a_fault_in_some_passes_is_no_equality() {
        let of = |values: &[&str]| -> Vec<Capture> {
            let row = |value: &&str| {
                let mut one = capture(&[("a", "N", *value)], &[]);
                one.put_row("t", "s", "r".into(), [("SAME", "x".to_owned()), ("OTHER", (*value).to_owned())]);
                one
            };
            values.iter().map(row).collect()
        };
        let steady = of(&["1", "1", "1", "1"]);
        let comparison = compare(&steady, &of(&["2", "1", "1", "3"]));
        let unsteady: Vec<_> = comparison.unsteady.iter().map(|u| (&*u.figure.key, u.wrong())).collect();
        assert_eq!(unsteady, [("a", 2), ("r", 2)], "the value, and the column of the row");
        assert_eq!((comparison.equal, comparison.different.len()), (2, 0), "the order, and the other column");
        assert_eq!(compare(&steady, &steady).equal, 3, "each figure, and the order");
        // Where the reference wavers, too, nothing is proved.
        let comparison = compare(&of(&["1", "2"]), &of(&["2", "1", "3"]));
        assert_eq!((comparison.unsteady.len(), comparison.unrepeatable.len()), (0, 2));
    }

    #[test]
    fn events_of_a_name_counted_unevenly_differ_once() {
        let reference = [capture(&[("n", "rows", "1"), ("n#1", "X", "p"), ("m", "rows", "1")], &["n", "m"])];
        let subject = [capture(
            &[("n", "rows", "2"), ("n#1", "X", "q"), ("n#2", "X", "q"), ("m", "rows", "1")],
            &["n", "n", "m"],
        )];
        let comparison = compare(&reference, &subject);
        assert_eq!(comparison.different.len(), 1);
        assert_eq!(comparison.different[0].figure.column, "rows");
    }

    #[test]
    fn events_are_compared_by_column_where_they_differ() {
        let row = |value: &str| {
            let mut one = capture(&[("n", "rows", "1")], &["n"]);
            one.put_row("t", "s", "n#1".into(), [("SAME", "x".into()), ("OTHER", value.into())]);
            one
        };
        let comparison = compare(&[row("a"), row("a")], &[row("b")]);
        assert_eq!(comparison.different.len(), 1);
        assert_eq!(comparison.different[0].figure.column, "OTHER");
        assert!(compare(&[row("a")], &[row("a")]).different.is_empty());
        assert_eq!(compare(&[row("a"), row("b")], &[row("c")]).unrepeatable.len(), 1);
    }

    #[test]
    fn the_order_of_evenly_counted_events_is_a_figure() {
        let rows = [("n", "rows", "1"), ("m", "rows", "1")];
        let comparison = compare(&[capture(&rows, &["n", "m"])], &[capture(&rows, &["m", "n"])]);
        assert_eq!(comparison.different.len(), 1);
        assert_eq!(comparison.different[0].figure.key, "order");
    }
}
