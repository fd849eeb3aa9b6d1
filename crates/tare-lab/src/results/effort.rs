//! Records of effort, by cell and setting.

use super::record::{Cell, Effort, Record};

/// Returns whether it has been counted before.
pub(crate) fn is_known(records: &[Record], cell: &Cell, setting: &str) -> bool {
    of_cell(records, cell).any(|effort| effort.setting == setting)
}

/// Returns the latest count of a setting in a cell. Once some servers of a cell were warm, cold ones cannot
/// be compared with them and are left out.
pub(crate) fn last<'r>(records: &'r [Record], cell: &Cell, setting: &str) -> Option<&'r Effort> {
    let warm = of_cell(records, cell).any(|effort| effort.warm);
    of_cell(records, cell).filter(|effort| effort.setting == setting && effort.warm == warm).last()
}

fn of_cell<'r>(records: &'r [Record], cell: &Cell) -> impl Iterator<Item = &'r Effort> {
    records.iter().filter_map(move |record| match record {
        Record::Effort(effort) if effort.cell == *cell => Some(effort),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn warm_servers_are_compared_with_warm_ones() {
        let cell = |users| Cell { workload: "w".into(), users, percent: None };
        let of = |users, setting: &str, warm, faults| {
            let per_transaction = BTreeMap::from([("page_faults".to_owned(), faults)]);
            Record::Effort(Effort { cell: cell(users), setting: setting.into(), warm, per_transaction })
        };
        let mut records = vec![of(1, "off", false, 3.0), of(1, "on", false, 4.0), of(2, "off", false, 5.0)];
        let faults = |records: &[Record], users, setting| {
            last(records, &cell(users), setting).map(|effort| effort.per_transaction["page_faults"])
        };
        assert_eq!((faults(&records, 1, "off"), faults(&records, 1, "on")), (Some(3.0), Some(4.0)));
        records.push(of(1, "off", true, 1.0));
        assert_eq!((faults(&records, 1, "off"), faults(&records, 1, "on")), (Some(1.0), None));
        assert_eq!(faults(&records, 2, "off"), Some(5.0));
    }
}
