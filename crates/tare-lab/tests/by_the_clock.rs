//! A server that works by the clock: its slices are taken at a stretch, or what it does between its turns is
//! charged to it. One test at a time: where transactions are slow there is no room for turns, and slices are
//! taken at a stretch.
//!
//! ALONE: what others do would be taken for what a server does by itself, and makes transactions too slow for
//! turns.

use std::path::Path;

use tare_lab::definition::Definition;
use tare_lab::interrupt::Interrupt;
use tare_lab::journal;
use tare_lab::record::{Record, Slice};
use tare_lab::runner::{self, StudyOrder};
use tare_testkit::turn;

/// An event that burns CPU every second. Every setting makes it; what they switch is whether events run.
const MAKE: [&str; 2] = [
    "CREATE DATABASE IF NOT EXISTS by_the_clock",
    "CREATE EVENT IF NOT EXISTS by_the_clock.burn ON SCHEDULE EVERY 1 SECOND DO DO BENCHMARK(3000000, RAND())",
];

/// A setting in which events run, or do not.
fn setting(name: &str, events: &str, keys: &str) -> String {
    let make = MAKE.map(|sql| format!("\"{sql}\"")).join(", ");
    format!(
        "[[setting]]\nname = \"{name}\"\nswitch = [{make}, \"SET GLOBAL event_scheduler = {events}\"]\n{keys}\n"
    )
}

/// The records of a study of a quiet setting and a busy one.
fn measured(folder: &Path, busy: &str) -> Vec<Record> {
    let text = format!(
        "question = \"?\"\nslice_seconds = 1\nblocks = 6\nblocks_per_start = 1\nminutes = 0.01\nprecision = 0.01\nmargin = 0.01\n\n\
         [[server]]\nname = \"mariadb\"\nprogram = \"mariadbd\"\n\n{}{}[[workload]]\nname = \"ro\"\nrun = \"oltp_point_select\"\n\
         options = {{ table-size = 1000 }}\nusers = [1]\n",
        setting("quiet", "OFF", "stretch = false"),
        busy,
    );
    let definition = Definition::read(&text, "by_the_clock.toml", false).expect("a study");
    let order = StudyOrder {
        credentials: tare_lab::target::AccountPasswords::default(),
        name: "by-the-clock".into(),
        text,
        definition,
        quick: false,
        folder: folder.into(),
        programs: [].into(),
        preloads: [].into(),
        seed: Some(1),
        budget: None,
        profile: false,
    };
    runner::run(&order, &Interrupt::default(), &mut |_| {}).expect("a block");
    journal::read(folder).expect("records")
}

fn slices<'a>(records: &'a [Record], setting: &'a str) -> impl Iterator<Item = &'a Slice> {
    records.iter().filter_map(move |record| match record {
        Record::Slice(slice) if slice.setting == setting => Some(slice.as_ref()),
        _ => None,
    })
}

#[test]
fn a_server_that_works_by_itself_is_measured_at_a_stretch_and_a_note_says_why() {
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a folder");
    let records = measured(folder.path(), &setting("busy", "ON", ""));
    let says =
        |record: &Record| matches!(record, Record::Note(n) if n.text.contains("busy makes its server work"));
    assert!(records.iter().any(says), "{records:?}");
    let mut all = records.iter().filter_map(|r| if let Record::Slice(s) = r { Some(s) } else { None });
    assert!(all.all(|slice| slice.turns.is_empty()), "taken in turns");
}

#[test]
fn what_a_server_does_between_its_turns_is_charged_to_it() {
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a folder");
    // Servers of their own, and the study says that they take turns.
    let keys = "stretch = false\noptions = [\"--performance-schema=OFF\"]";
    holds_between_turns(&measured(folder.path(), &setting("busy", "ON", keys)));
}

#[test]
fn what_sidecars_ask_between_turns_is_charged_to_their_server() {
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a folder");
    let sidecar = r#"stretch = false

[[setting.sidecar]]
program = "sh"
arguments = ["-c", "while sleep 0.1; do mariadb --socket={socket} --user={user} -e 'DO BENCHMARK(1000000, RAND())'; done"]
charged = false
"#;
    // Nothing else differs, and it gets a server of its own.
    let records = measured(folder.path(), &setting("busy", "OFF", sidecar));
    holds_between_turns(&records);
    assert!(slices(&records, "busy").all(|slice| slice.cpu_beside > 0.0 && slice.cpu_sidecars == 0.0));
}

/// The busy setting's server worked between its turns, and the quiet one's did not.
fn holds_between_turns(records: &[Record]) {
    let after = |setting: &str| -> f64 {
        let turns = slices(records, setting).flat_map(|slice| &slice.turns);
        turns.map(|turn| turn.after).sum()
    };
    let (quiet, busy) = (after("quiet"), after("busy"));
    assert!(busy > 0.0 && busy > 5.0 * quiet, "between turns: quiet {quiet} s, busy {busy} s");
}
