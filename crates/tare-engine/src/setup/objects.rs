//! `setup_objects`: which tables and programs are instrumented. Decided once per object, when it becomes
//! known or when a rule changes.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use crate::Engine;
use crate::setup::instrument::{ENABLED, TIMED};
use crate::setup::rules::{Rules, SetupRule};

/// OBJECT_TYPE `EVENT`.
pub const EVENT: u8 = 1;
/// OBJECT_TYPE `FUNCTION`.
pub const FUNCTION: u8 = 2;
/// OBJECT_TYPE `PROCEDURE`.
pub const PROCEDURE: u8 = 3;
/// OBJECT_TYPE `TABLE`.
pub const TABLE: u8 = 4;
/// OBJECT_TYPE `TRIGGER`.
pub const TRIGGER: u8 = 5;
/// OBJECT_TYPE `PACKAGE`.
pub const PACKAGE: u8 = 6;
/// OBJECT_TYPE `PACKAGE BODY`.
pub const PACKAGE_BODY: u8 = 7;
/// OBJECT_TYPE `TEMPORARY TABLE`.
pub const TEMPORARY_TABLE: u8 = 8;

const NAMES: [&str; 8] =
    ["EVENT", "FUNCTION", "PROCEDURE", "TABLE", "TRIGGER", "PACKAGE", "PACKAGE BODY", "TEMPORARY TABLE"];

/// Returns the name of an object type.
pub fn type_name(object_type: u8) -> Option<&'static str> {
    NAMES.get((object_type as usize).wrapping_sub(1)).copied()
}

/// Returns the object type of a name.
pub fn type_of(name: &str) -> Option<u8> {
    NAMES.iter().position(|known| *known == name).map(|at| at as u8 + 1)
}

/// A row of `setup_objects`; `%` matches any value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ObjectRule {
    pub object_type: u8,
    pub schema: String,
    pub name: String,
    pub enabled: bool,
    pub timed: bool,
}

impl ObjectRule {
    /// Returns the built-in's initial rows.
    pub(crate) fn initial() -> Vec<ObjectRule> {
        let mut rules = Vec::new();
        for object_type in [EVENT, FUNCTION, PROCEDURE, TABLE, TRIGGER] {
            for schema in ["mysql", "performance_schema", "information_schema", "%"] {
                let on = schema == "%";
                rules.push(ObjectRule {
                    object_type,
                    schema: schema.to_owned(),
                    name: "%".to_owned(),
                    enabled: on,
                    timed: on,
                });
            }
        }
        rules
    }
}

impl SetupRule for ObjectRule {
    fn has_key_of(&self, other: &Self) -> bool {
        (self.object_type, &self.schema, &self.name) == (other.object_type, &other.schema, &other.name)
    }

    fn held_by(engine: &Engine) -> &Rules<Self> {
        &engine.objects
    }

    /// Applies the rules to every object. A table that is disabled by this loses the counts of closed
    /// handles, as in the built-in.
    fn act(engine: &Engine, rules: &[Self]) {
        engine.apply_object_rules(rules);
    }
}

/// Returns ENABLED and TIMED of an object, as switches. The rule for the object decides, else the one for its
/// schema, else the one for its type; without any, the object is off. Names are case-sensitive.
pub(crate) fn decide(rules: &[ObjectRule], object_type: u8, schema: &[u8], name: &[u8]) -> u8 {
    let rule = |(schema, name): (&[u8], &[u8])| {
        rules.iter().find(|rule| {
            rule.object_type == object_type
                && rule.schema.as_bytes() == schema
                && rule.name.as_bytes() == name
        })
    };
    let best = [(schema, name), (schema, b"%"), (b"%", b"%")].into_iter().find_map(rule);
    best.filter(|rule| rule.enabled).map_or(0, |rule| if rule.timed { ENABLED | TIMED } else { ENABLED })
}

impl Engine {
    /// Decides whether an object is instrumented. It must be visible to readers already: whoever changes the
    /// rules holds them while walking the objects, so either the walk meets this object, or the new rules are
    /// found here.
    pub(crate) fn decide_object(&self, watch: &AtomicU8, object_type: u8, schema: &[u8], name: &[u8]) {
        self.objects.with(|rules| watch.store(decide(rules, object_type, schema, name), Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: u8 = ENABLED | TIMED;

    #[test]
    fn the_most_specific_rule_decides() {
        assert_eq!(decide(&[], TABLE, b"a", b"b"), 0, "no rule, not watched");
        let mut rules = ObjectRule::initial();
        assert_eq!(decide(&rules, TABLE, b"test", b"t"), BOTH);
        assert_eq!(decide(&rules, TABLE, b"mysql", b"user"), 0);
        assert_eq!(decide(&rules, TEMPORARY_TABLE, b"test", b"t"), 0, "asked for as TABLE");
        let mut add = |schema: &str, name: &str, enabled, timed| {
            let (schema, name) = (schema.to_owned(), name.to_owned());
            rules.push(ObjectRule { object_type: TABLE, schema, name, enabled, timed });
            [b"t", b"u"].map(|table| decide(&rules, TABLE, b"test", table))
        };
        assert_eq!(add("%", "t", false, false), [BOTH, BOTH], "no rule is about a table in any schema");
        assert_eq!(add("TEST", "%", false, false), [BOTH, BOTH], "letter case tells names apart");
        assert_eq!(add("test", "%", true, false), [ENABLED, ENABLED]);
        assert_eq!(add("test", "t", false, true), [0, ENABLED], "what is not enabled is not timed");
    }
}
