//! JSON Schemas of the results, generated from the declarations in [`crate::record`] and [`crate::analysis`].
//!
//! `docs/reference/record.schema.json` describes a line of `results.jsonl`,
//! `docs/reference/report.schema.json` describes `report.json`. A test compares both files with what is
//! generated here, and validates results against them.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

use super::record::Record;

/// Returns the schema of a line of `results.jsonl`.
pub fn of_record() -> Value {
    of::<Record>("A line of results.jsonl, which `tare lab run` writes")
}

/// Returns the schema of a type under a title.
pub(crate) fn of<T: JsonSchema>(title: &str) -> Value {
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
    schema.insert("title".into(), title.into());
    schema.to_value()
}

/// Allows null for figures, as JSON cannot express NaN.
pub(crate) fn figures_may_be_missing(schema: &mut Schema) {
    let figures = schema.pointer_mut("/properties").and_then(Value::as_object_mut);
    for figure in figures.into_iter().flat_map(|all| all.values_mut()) {
        if figure["type"] == "number" {
            figure["type"] = json!(["number", "null"]);
        }
    }
}
