//! The explained differences between reference and subject: a short file, checked in both directions.

use std::path::Path;

use serde::Deserialize;

use crate::figure::{CaptureComparison, Unequal, ValueId};
use crate::host::HostProgram;
use crate::schema::SchemaRow;
use crate::{Failure, Result};

/// The content of `expected/differences.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Explanations {
    /// Where the subject may differ; each must occur.
    #[serde(default)]
    pub difference: Vec<Explanation>,
    /// What the reference does not repeat, whatever one run shows; also in tables that must be repeatable.
    #[serde(default)]
    pub unrepeatable: Vec<Explanation>,
    /// Events that the reference shows under the name of another instrument; each must occur.
    #[serde(default)]
    pub misnamed: Vec<Misnamed>,
}

/// Events with a wrong name on the reference, as another column and its own summaries show. The name is
/// corrected before anything is compared: a wrong one shifts the positions of all other events of both names,
/// and so the parents of all events nested in them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Misnamed {
    /// Kind of events, as in the table's name.
    pub events: String,
    /// The name that is shown.
    pub name: String,
    /// The column that identifies the event.
    pub column: String,
    /// Its identifying values.
    pub values: Vec<String>,
    /// The right name.
    pub meant: String,
    /// Why the shown name is wrong.
    pub reason: String,
    /// Pattern of the server's version; all if empty.
    #[serde(default = "any")]
    pub host: String,
}

impl Misnamed {
    /// Corrects the names; returns how many were wrong.
    pub fn correct(&self, events: &str, rows: &mut [SchemaRow]) -> usize {
        let mut wrong = 0;
        for row in rows.iter_mut().filter(|_| self.events == events) {
            let tells = row.get(&self.column).is_some_and(|value| self.values.iter().any(|v| v == value));
            if tells && row.text("EVENT_NAME") == self.name {
                row.set("EVENT_NAME", &self.meant);
                wrong += 1;
            }
        }
        wrong
    }
}

/// An entry: patterns (`*` stands for any text) and the reason.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Explanation {
    /// Pattern of the table.
    pub table: String,
    /// Pattern of the script, all if empty.
    #[serde(default = "any")]
    pub script: String,
    /// Pattern of the row's key.
    pub key: String,
    /// Patterns of the columns.
    pub columns: Vec<String>,
    /// Why the difference is right.
    pub reason: String,
    /// Pattern of the server's version; all if empty.
    #[serde(default = "any")]
    pub host: String,
    /// True: only where the tables are on the server's own port; false: only where they are on the endpoint.
    #[serde(default)]
    pub federated: Option<bool>,
    /// Whether it occurs by chance; such an entry may be absent in a run.
    #[serde(default)]
    pub sometimes: bool,
}

fn any() -> String {
    "*".into()
}

impl Explanation {
    fn explains(&self, figure: &ValueId) -> bool {
        matches(&self.table, &figure.table)
            && matches(&self.script, &figure.script)
            && matches(&self.key, &figure.key)
            && self.columns.iter().any(|column| matches(column, &figure.column))
    }
}

/// A figure that was wrong in so many passes over the subject, while the reference never wavered, is a fault.
/// Less may be chance: something that seldom happens on either side.
pub const RECURS: usize = 3;

/// The differences without the explained ones.
#[derive(Debug)]
pub struct ComparisonVerdict {
    /// Unexplained differences.
    pub unexplained: Vec<Unequal>,
    /// Unexplained figures on which the subject wavers and the reference does not: wrong in [`RECURS`] passes
    /// or more.
    pub unsteady: Vec<Unequal>,
    /// Unexplained figures on which the subject wavers, wrong in fewer passes: no fault yet, and not equal
    /// either.
    pub seldom: Vec<Unequal>,
    /// Unexplained figures that are not repeatable, in tables that must be.
    pub wavering: Vec<Unequal>,
    /// Explanations of differences that do not occur any more.
    pub stale: Vec<String>,
    /// Number of explained differences.
    pub explained: usize,
    /// Differences of what the reference is known not to repeat, although it did this time.
    pub chance: Vec<Unequal>,
}

impl ComparisonVerdict {
    /// Returns whether the subject was as the reference in every pass, or as is explained: more passes would
    /// show no more.
    pub fn is_settled(&self) -> bool {
        self.unexplained.is_empty() && self.unsteady.is_empty() && self.seldom.is_empty()
    }
}

impl Explanations {
    /// Reads the file.
    ///
    /// # Errors
    /// When it cannot be read or has an entry without a reason.
    pub fn read(path: &Path) -> Result<Explanations> {
        let text = std::fs::read_to_string(path).map_err(Failure::io(path.display().to_string()))?;
        let read: Explanations =
            toml::from_str(&text).map_err(|e| Failure::Setup(format!("{}: {e}", path.display())))?;
        let all = read.difference.iter().chain(&read.unrepeatable);
        let named = all.map(|entry| (&entry.table, &entry.key, &entry.reason));
        let mut named = named.chain(read.misnamed.iter().map(|m| (&m.events, &m.name, &m.reason)));
        match named.find(|(_, _, reason)| reason.trim().is_empty()) {
            Some((table, key, _)) => Err(Failure::Setup(format!("{table} {key} has no reason"))),
            None => Ok(read),
        }
    }

    /// Removes the explained differences. `strict` tells which tables must be repeatable on the reference.
    pub fn judge(&self, comparison: &CaptureComparison, strict: impl Fn(&str) -> bool) -> ComparisonVerdict {
        let mut used = vec![false; self.difference.len()];
        let (mut unexplained, mut unsteady) = (Vec::new(), Vec::new());
        let (mut chance, mut explained) = (Vec::new(), 0);
        let different = comparison.different.iter().map(|unequal| (unequal, false));
        for (unequal, wavers) in different.chain(comparison.unsteady.iter().map(|unequal| (unequal, true))) {
            let mut known = false;
            for (entry, used) in self.difference.iter().zip(&mut used) {
                if entry.explains(&unequal.figure) {
                    *used = true;
                    known = true;
                }
            }
            if known {
                explained += 1;
            } else if self.is_unrepeatable(&unequal.figure) {
                chance.push(unequal.clone());
            } else if wavers {
                unsteady.push(unequal.clone());
            } else {
                unexplained.push(unequal.clone());
            }
        }
        let (unsteady, seldom) = unsteady.into_iter().partition(|unequal| unequal.wrong() >= RECURS);
        let wavering = comparison.unrepeatable.iter().filter(|u| strict(&u.figure.table));
        let wavering = wavering.filter(|u| !self.is_unrepeatable(&u.figure));
        let stale = self.difference.iter().zip(&used).filter(|(entry, used)| !**used && !entry.sometimes);
        ComparisonVerdict {
            unexplained,
            unsteady,
            seldom,
            wavering: wavering.cloned().collect(),
            stale: stale
                .map(|(e, _)| format!("{} | {} | {:?}: {}", e.table, e.key, e.columns, e.reason))
                .collect(),
            explained,
            chance,
        }
    }

    /// Leaves out entries about other servers.
    #[must_use]
    pub fn for_host(mut self, host: &HostProgram) -> Explanations {
        let concerns = |entry: &Explanation| {
            matches(&entry.host, &host.version)
                && entry.federated.is_none_or(|wanted| wanted == host.has_federated())
        };
        self.difference.retain(concerns);
        self.unrepeatable.retain(concerns);
        self.misnamed.retain(|entry| matches(&entry.host, &host.version));
        self
    }

    fn is_unrepeatable(&self, figure: &ValueId) -> bool {
        self.unrepeatable.iter().any(|entry| entry.explains(figure))
    }
}

/// Returns whether `text` matches `pattern`, in which `*` stands for any text.
pub fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let Some(last) = pattern.contains('*').then(|| parts.next_back()).flatten() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_star_is_any_text() {
        assert!(matches("*", ""));
        assert!(matches("wait/io/*", "wait/io/file"));
        assert!(matches("a*b*c", "a-b-b-c"));
        assert!(matches("*c", "abc"));
        assert!(!matches("a*b", "abc"));
        assert!(!matches("abc", "abcd"));
        assert!(!matches("ab*ba", "aba"));
    }

    fn unequal(key: &str) -> Unequal {
        let figure = ValueId { table: "t".into(), script: "s".into(), key: key.into(), column: "N".into() };
        Unequal { figure, reference: BTreeSet::new(), subject: Vec::new() }
    }

    fn wrong(key: &str, passes: usize) -> Unequal {
        let subject = (0..6).map(|pass| if pass < passes { "2" } else { "1" }.to_owned()).collect();
        Unequal { reference: ["1".to_owned()].into(), subject, ..unequal(key) }
    }

    #[test]
    fn what_is_wrong_now_and_then_fails_or_is_explained() {
        let text = "[[difference]]\ntable='t'\nkey='known'\ncolumns=['N']\nreason='r'\n\
                    [[unrepeatable]]\ntable='t'\nkey='by chance'\ncolumns=['*']\nreason='r'";
        let explanations: Explanations = toml::from_str(text).expect("good entries");
        let unsteady = [("half", 3), ("once", 1), ("known", 3), ("by chance", 3)];
        let unsteady = unsteady.into_iter().map(|(key, passes)| wrong(key, passes)).collect();
        let comparison = CaptureComparison { unsteady, ..CaptureComparison::default() };
        let verdict = explanations.judge(&comparison, |_| true);
        let keys = |list: &[Unequal]| list.iter().map(|u| u.figure.key.clone()).collect::<Vec<_>>();
        assert_eq!(keys(&verdict.unsteady), ["half"]);
        assert_eq!(keys(&verdict.seldom), ["once"]);
        assert_eq!(keys(&verdict.chance), ["by chance"]);
        assert_eq!(
            (verdict.explained, verdict.stale.len()),
            (1, 0),
            "an entry that explains one still occurs"
        );
        assert!(!verdict.is_settled() && verdict.unexplained.is_empty());
    }

    #[test]
    fn one_more_difference_and_one_less_are_both_seen() {
        let text = "[[difference]]\ntable='t'\nkey='a*'\ncolumns=['N']\nreason='r'\n\
                    [[difference]]\ntable='t'\nkey='gone'\ncolumns=['*']\nreason='r'";
        let explanations: Explanations = toml::from_str(text).expect("good entries");
        let comparison = CaptureComparison {
            equal: 0,
            different: vec![unequal("ab"), unequal("b")],
            unrepeatable: vec![unequal("w")],
            ..CaptureComparison::default()
        };
        let verdict = explanations.judge(&comparison, |_| true);
        assert_eq!(verdict.unexplained.len(), 1);
        assert_eq!(verdict.unexplained[0].figure.key, "b");
        assert_eq!(verdict.wavering.len(), 1);
        assert_eq!(verdict.stale.len(), 1);
        assert!(explanations.judge(&comparison, |_| false).wavering.is_empty());
    }
}
