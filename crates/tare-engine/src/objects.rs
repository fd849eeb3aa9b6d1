//! `setup_objects`: which tables and programs are watched. Decided once per object, when it becomes known or
//! when a rule changes.

use std::sync::Mutex;

use crate::instrument::lock;

/// OBJECT_TYPE numbers: `EVENT`.
pub const EVENT: u8 = 1;
/// `FUNCTION`
pub const FUNCTION: u8 = 2;
/// `PROCEDURE`
pub const PROCEDURE: u8 = 3;
/// `TABLE`
pub const TABLE: u8 = 4;
/// `TRIGGER`
pub const TRIGGER: u8 = 5;
/// `PACKAGE`
pub const PACKAGE: u8 = 6;
/// `PACKAGE BODY`
pub const PACKAGE_BODY: u8 = 7;
/// `TEMPORARY TABLE`
pub const TEMPORARY_TABLE: u8 = 8;

/// The name of an object type.
pub(crate) fn type_name(object_type: u8) -> Option<&'static str> {
    let names =
        ["EVENT", "FUNCTION", "PROCEDURE", "TABLE", "TRIGGER", "PACKAGE", "PACKAGE BODY", "TEMPORARY TABLE"];
    names.get((object_type as usize).wrapping_sub(1)).copied()
}

/// A row of `setup_objects`; `%` stands for any.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ObjectRule {
    pub object_type: u8,
    pub schema: String,
    pub name: String,
    pub enabled: bool,
    pub timed: bool,
}

pub(crate) struct Objects {
    rules: Mutex<Vec<ObjectRule>>,
}

impl Objects {
    pub(crate) const fn new() -> Objects {
        Objects { rules: Mutex::new(Vec::new()) }
    }

    /// The reference's initial rows.
    pub(crate) fn start(&self) {
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
        *lock(&self.rules) = rules;
    }

    /// ENABLED and TIMED of an object: the most specific rule decides, none means off.
    pub(crate) fn decide(&self, object_type: u8, schema: &[u8], name: &[u8]) -> (bool, bool) {
        let matches = |pattern: &str, text: &[u8]| pattern.as_bytes().eq_ignore_ascii_case(text);
        let rank = |rule: &ObjectRule| {
            let schema_exact = matches(&rule.schema, schema);
            let name_exact = matches(&rule.name, name);
            let fits = rule.object_type == object_type
                && (schema_exact || rule.schema == "%")
                && (name_exact || rule.name == "%");
            fits.then_some((schema_exact, name_exact))
        };
        let rules = lock(&self.rules);
        let best = rules.iter().filter_map(|rule| Some((rank(rule)?, rule))).max_by_key(|(rank, _)| *rank);
        best.map_or((false, false), |(_, rule)| (rule.enabled, rule.timed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_rule_decides() {
        let objects = Objects::new();
        assert_eq!(objects.decide(TABLE, b"a", b"b"), (false, false), "no rule, not watched");
        objects.start();
        assert_eq!(objects.decide(TABLE, b"test", b"t"), (true, true));
        assert_eq!(objects.decide(TABLE, b"mysql", b"user"), (false, false));
        assert_eq!(objects.decide(TEMPORARY_TABLE, b"test", b"t"), (false, false), "asked for as TABLE");
    }
}
