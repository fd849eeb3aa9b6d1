//! JSON Schemas of the results, generated from the declarations in [`crate::record`] and [`crate::analysis`].
//!
//! `docs/reference/record.schema.json` describes a line of `results.jsonl`,
//! `docs/reference/report.schema.json` describes `report.json`. A test compares both files with what is
//! generated here, and validates results against them.

use serde_json::Value;

use crate::results::schema::of;
pub use crate::results::schema::of_record;
use crate::verdict::analysis::Analysis;

/// Returns the schema of `report.json`.
pub fn of_report() -> Value {
    of::<Analysis>("report.json, which `tare lab run` and `tare lab report` write")
}
