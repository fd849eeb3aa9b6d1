//! Results have the form that `docs/reference/*.schema.json` say.

use std::fs;
use std::path::{Path, PathBuf};

use boon::{Compiler, Schemas};
use serde_json::Value;
use tare_lab::{report, schema};

fn docs(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name)
}

fn json(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Holds values against a schema of `docs/reference/`; gives what is wrong with the first that has not its
/// form.
fn refused(name: &str, values: &[Value]) -> Option<String> {
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    let place = format!("file:///{name}");
    compiler.add_resource(&place, json(&docs(name))).expect("a schema");
    let schema = compiler.compile(&place, &mut schemas).expect("a schema that can be used");
    values
        .iter()
        .find_map(|value| schemas.validate(value, schema).err().map(|error| format!("{error:#}\n{value}")))
}

/// Lines of a study's results, and its report.
fn results() -> (Vec<Value>, Value) {
    let folder = tempfile::tempdir().expect("a folder");
    tare_lab_sample::write(folder.path(), 7);
    let paths = report::write(folder.path()).expect("a report");
    let lines = fs::read_to_string(folder.path().join("results.jsonl")).expect("results");
    (lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect(), json(&paths.json))
}

/// `TARE_WRITE=1` writes the files anew.
#[test]
fn the_files_in_docs_are_those_of_the_declarations() {
    for (name, made) in
        [("record.schema.json", schema::of_record()), ("report.schema.json", schema::of_report())]
    {
        if std::env::var_os("TARE_WRITE").is_some() {
            let text = serde_json::to_string_pretty(&made).expect("JSON");
            fs::write(docs(name), text + "\n").expect("written");
        }
        assert_eq!(
            json(&docs(name)),
            made,
            "{name} is old: TARE_WRITE=1 cargo test -p tare-lab --test schema"
        );
    }
}

#[test]
fn results_have_the_form_and_others_are_refused() {
    let (lines, report) = results();
    assert_eq!(refused("record.schema.json", &lines), None);
    assert_eq!(refused("report.schema.json", std::slice::from_ref(&report)), None);

    let slice = lines.iter().find(|line| line["kind"] == "slice").expect("a slice");
    let broken = |key: &str, value: Value| {
        let mut line = slice.clone();
        line[key] = value;
        refused("record.schema.json", &[line])
    };
    assert!(broken("cpu_user", "much".into()).is_some() && broken("kind", "piece".into()).is_some());
    assert!(broken("transactions", Value::Null).is_some() && broken("users", (-1).into()).is_some());
    let mut short = slice.clone();
    short.as_object_mut().expect("an object").remove("latency");
    assert!(refused("record.schema.json", &[short]).is_some());
    let mut wrong = report;
    wrong["cells"][0]["settings"][0]["blocks"] = "24".into();
    assert!(refused("report.schema.json", &[wrong]).is_some());
}
