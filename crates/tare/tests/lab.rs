//! `tare lab` as a user runs it: killed and resumed, stopped, refused; and what it leaves behind.

mod place;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::Value;
use tare_lab::analysis::Analysis;
use tare_lab::journal;
use tare_lab::record::{Reason, Record};

use place::{Place, STUDY, Theirs, send, text};

#[test]
fn killed_and_resumed_it_gives_the_same_kind_of_result() {
    let place = Place::new(STUDY);
    let mut study = place.command().spawn().expect("tare runs");
    place.wait_for_slices(&mut study, 4);
    send(study.id(), Signal::SIGKILL);
    study.wait().expect("it ends");
    place.wait_until_nothing_is_left();
    let before = place.records();

    let ended = place.run();
    let said = text(&ended.stdout);
    assert!(ended.status.success(), "{said}{}", text(&ended.stderr));
    let after = place.records();
    assert_eq!(after[..before.len()], before, "what was measured is kept");
    let resumed =
        |r: &&Value| r["kind"] == "note" && r["text"].as_str().is_some_and(|t| t.contains("resumed"));
    assert_eq!(after.iter().filter(resumed).count(), 1);
    assert_eq!(after.last().expect("records")["reason"], "all_blocks");
    for word in ["short again", "long", "points, 2 connections", "resumed", "all blocks measured"] {
        assert!(said.contains(word), "no {word} in:\n{said}");
    }
    let blocks: Vec<u64> = after.iter().filter_map(|r| r["block"].as_u64()).collect();
    assert_eq!(blocks.iter().max(), Some(&5));
    let processes: Vec<u64> = after.iter().filter_map(|r| r["process"].as_u64()).collect();
    assert!(processes.is_sorted() && processes.last() > processes.first(), "{processes:?}");
    place.wait_until_nothing_is_left();

    let again = place.run();
    assert!(again.status.success() && place.records() == after, "a study that is over is only shown");
    let lab = |command: &str, folders: usize| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_tare"));
        program.args(["lab", command]).args(vec![place.results(); folders]);
        let ended = program.output().expect("tare runs");
        assert!(ended.status.success(), "{}", text(&ended.stderr));
        text(&ended.stdout)
    };
    assert!(lab("report", 1).contains("all blocks measured"));
    assert!(lab("compare", 2).contains("short again"));
}

/// On one server each block is an observation, and none is measured for nothing: not even to the end of the
/// server's life. Which block that is depends on the machine; the records say after which one enough was
/// known.
#[test]
fn it_ends_with_the_block_after_which_enough_is_known() {
    const BLOCKS: u32 = 12;
    let study = STUDY.replace("blocks = 6", &format!("blocks = {BLOCKS}\nblocks_per_start = {BLOCKS}"));
    let place = Place::new(&study.replace("precision = 0.001", "precision = 0.9"));
    let ended = place.run();
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    let records = journal::read(&place.results()).expect("records");
    let is_known = |last: &u32| {
        let is_later = |record: &&Record| match record {
            Record::Slice(slice) => slice.block > *last,
            other => matches!(other, Record::End(_)),
        };
        let until: Vec<Record> = records.iter().filter(|record| !is_later(record)).cloned().collect();
        Analysis::of(&until).is_some_and(|analysis| analysis.reached())
    };
    let enough = (0..BLOCKS).find(is_known);
    println!("enough is known after block {enough:?}");
    let Some(Record::End(end)) = records.last() else { panic!("{:?}", records.last()) };
    assert_eq!(end.reason == Reason::TargetsReached, enough.is_some(), "{end:?}, {enough:?}");
    assert_eq!(place.slices(), (enough.unwrap_or(BLOCKS - 1) + 1) as usize * 3);
}

#[test]
fn interrupted_it_stops_everything_and_says_how_to_go_on() {
    let place = Place::new(STUDY);
    let mut study = place.command().spawn().expect("tare runs");
    place.wait_for_slices(&mut study, 1);
    send(study.id(), Signal::SIGINT);
    let ended = study.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(130), "{}", text(&ended.stderr));
    assert!(
        text(&ended.stderr).contains("the same command with the same --output continues"),
        "{}",
        text(&ended.stderr)
    );
    assert_eq!(place.records().last().expect("records")["reason"], "interrupted");
    place.wait_until_nothing_is_left();

    // Unless the server's program is another one meanwhile.
    let results = place.results().join("results.jsonl");
    let written = fs::read_to_string(&results).expect("results");
    let sum = place.records()[0]["files"]["server mariadb"].as_str().expect("its checksum").to_owned();
    fs::write(&results, written.replace(&sum, "another")).expect("written");
    let ended = place.run();
    let said = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("mariadbd is now (`server mariadb`)") && said.contains("--output"), "{said}");
}

#[test]
fn a_server_that_dies_is_named_with_its_last_words() {
    let place = Place::new(STUDY);
    let mut study = place.command().spawn().expect("tare runs");
    place.wait_for_slices(&mut study, 1);
    send(place.server(), Signal::SIGKILL);
    let ended = study.wait_with_output().expect("it ends");
    let said = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("ended (signal: 9") && said.contains("ready for connections"), "{said}");
    place.wait_until_nothing_is_left();
}

#[test]
fn a_running_server_is_left_as_it_was() {
    let theirs = Theirs::start(&[]);
    let place = Place::new(&theirs.study());
    let before = theirs.state();
    assert_ne!(before[1], ["262144"], "it is not what the base has");
    let ended = place.run();
    assert!(ended.status.success(), "{}{}", text(&ended.stdout), text(&ended.stderr));
    assert!(place.records().iter().all(|r| r["process"].is_null()));
    assert_eq!(theirs.state(), before);
    place.wait_until_nothing_is_left();

    let denied = Place::new(&theirs.study().replace("root@", "nobody@"));
    let ended = denied.run();
    assert!(text(&ended.stderr).contains("TARE_LAB_PASSWORD"), "{}", text(&ended.stderr));
    denied.wait_until_nothing_is_left();
}

/// After kill -9 the schema and a switched variable are still there; the same command puts them back and goes
/// on.
#[test]
fn what_a_kill_left_on_a_running_server_is_put_back_by_the_study_that_goes_on() {
    let theirs = Theirs::start(&[]);
    let switch = "SET GLOBAL sort_buffer_size = 2097152";
    let study = theirs.study().replace(switch, &format!("{switch}, GLOBAL userstat = ON"));
    let place = Place::new(&study);
    let before = theirs.state();
    let mut killed = place.command().spawn().expect("tare runs");
    place.wait_for_slices(&mut killed, 3);
    send(killed.id(), Signal::SIGKILL);
    killed.wait().expect("it ends");
    place.wait_until_nothing_is_left();
    let schema = "lab_oltp_1".to_owned();
    let [schemas, _, userstat] = theirs.state();
    assert!(schemas.contains(&schema) && userstat == ["1"], "so a kill leaves it");

    // Elsewhere it is not known whose the schema is.
    let elsewhere = Place::new(&study).run();
    assert!(
        text(&elsewhere.stderr).contains("`tare lab put-back` takes it off"),
        "{}",
        text(&elsewhere.stderr)
    );
    assert!(theirs.state()[0].contains(&schema), "what is not known to be its own it leaves alone");

    let ended = place.run();
    assert!(ended.status.success(), "{}{}", text(&ended.stdout), text(&ended.stderr));
    assert!(text(&ended.stderr).contains("has been put back"), "{}", text(&ended.stderr));
    assert_eq!(place.records().last().expect("records")["reason"], "all_blocks");
    assert_eq!(theirs.state(), before);
    let files = fs::read_dir(place.results()).expect("results").flatten().map(|f| f.file_name());
    assert!(!files.into_iter().any(|f| f.to_string_lossy().starts_with("to-put-back")), "nothing is owed");
}

/// What has our name and is not ours stays, even if a file says that it goes.
#[test]
fn a_schema_that_somebody_else_made_meanwhile_is_not_dropped() {
    let theirs = Theirs::start(&[]);
    let place = Place::new(&theirs.study());
    let mut killed = place.command().spawn().expect("tare runs");
    place.wait_for_slices(&mut killed, 3);
    send(killed.id(), Signal::SIGKILL);
    killed.wait().expect("it ends");
    place.wait_until_nothing_is_left();
    for statement in [
        "DROP DATABASE lab_oltp_1",
        "CREATE DATABASE lab_oltp_1",
        "CREATE TABLE lab_oltp_1.precious (id INT)",
    ] {
        theirs.server.execute(statement).expect("done");
    }
    let ended = place.run();
    assert_eq!(ended.status.code(), Some(1));
    assert!(text(&ended.stderr).contains("somebody else may have made it"), "{}", text(&ended.stderr));
    theirs.server.execute("SELECT * FROM lab_oltp_1.precious").expect("it is there");
}

/// A driver in place of sysbench: the real one, but that the runs of these numbers end early.
fn failing_sysbench(place: &Place, runs: &str) -> String {
    let folder = place.own.path().join("bin");
    fs::create_dir_all(&folder).expect("a folder");
    let script = format!(
        "#!/bin/sh\ncase \" $* \" in *\" run \"*)\n\
         echo >> {0}/runs; n=$(wc -l < {0}/runs)\n\
         case \" {runs} \" in *\" $n \"*|*\" all \"*) echo 'Threads started!'; sleep 0.1; echo 'FATAL: it is tired' >&2; exit 1;; esac;;\n\
         esac\nexec /usr/bin/sysbench \"$@\"\n",
        folder.display()
    );
    let program = folder.join("sysbench");
    fs::write(&program, script).expect("a script");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("permissions");
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default())
}

#[test]
fn a_driver_that_ends_early_costs_a_block_and_not_the_study() {
    let place = Place::new(STUDY);
    // Three of warming up, three of the first block: of the second and the third block one each.
    let path = failing_sysbench(&place, "2 8 12");
    let ended = place.command().env("PATH", path).output().expect("tare runs");
    let said = format!("{}{}", text(&ended.stdout), text(&ended.stderr));
    assert!(ended.status.success(), "{said}");
    let records = place.records();
    let notes: Vec<&str> =
        records.iter().filter(|r| r["kind"] == "note").filter_map(|r| r["text"].as_str()).collect();
    let short: Vec<_> =
        notes.iter().filter(|n| n.contains("was cut short") && n.contains("it is tired")).collect();
    assert_eq!(short.len(), 3, "{notes:?}");
    assert!(
        short[1].contains("of points, 2 connections") && short[1].contains("FATAL: it is tired"),
        "{notes:?}"
    );
    assert_eq!(place.slices(), 6 * 3, "the others are all there");
    assert!(said.contains("it is tired"), "it is told while it runs, and in the end: {said}");
    place.wait_until_nothing_is_left();
}

#[test]
fn a_driver_that_always_ends_early_ends_the_study() {
    let place = Place::new(STUDY);
    let path = failing_sysbench(&place, "all");
    let ended = place.command().env("PATH", path).output().expect("tare runs");
    let said = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("load on setting `") && said.contains("FATAL: it is tired"), "{said}");
    let tries = place
        .records()
        .iter()
        .filter(|r| r["text"].as_str().is_some_and(|t| t.contains("cut short")))
        .count();
    assert_eq!(tries, 5);
    place.wait_until_nothing_is_left();
}

#[test]
fn a_setting_that_does_not_work_is_named_with_what_does_not() {
    let own_server = "switch = [\"SET GLOBAL sort_buffer_size = 2097152\"]\nrequire";
    let options = "options = [\"--sort-buffer-size=2M\", \"--no-such-option=1\"]\nrequire";
    let cases = [
        (
            STUDY.replace("= 2097152\"]", "= 2097152\", \"SET GLOBAL no_such_variable = 1\"]"),
            [
                "setting `long`",
                "its `switch` fails: SET GLOBAL no_such_variable = 1",
                "Unknown system variable",
            ],
        ),
        (
            STUDY.replace(own_server, options).replace("blocks = 6", "blocks = 18"),
            [
                "setting `long`",
                "because of its option --no-such-option=1",
                "unknown variable 'no-such-option=1'",
            ],
        ),
        (
            STUDY.replace("--performance-schema=OFF", "--nothing-like-it"),
            [
                "server `mariadb`",
                "because of its option --nothing-like-it",
                "unknown option '--nothing-like-it'",
            ],
        ),
    ];
    for (study, expected) in cases {
        let place = Place::new(&study);
        let ended = place.run();
        let said = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{said}");
        for words in expected {
            assert!(said.contains(words), "no {words:?} in: {said}");
        }
        place.wait_until_nothing_is_left();
    }
}

#[test]
fn a_program_for_a_server_that_the_study_does_not_have_is_refused() {
    let place = Place::new(STUDY);
    let ended = place.command().args(["--server", "maria=/usr/sbin/mariadbd"]).output().expect("tare runs");
    let said = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(2), "{said}");
    assert!(said.contains("`maria`") && said.contains("it starts `mariadb`"), "{said}");
    assert!(!place.results().exists(), "nothing was begun");
}

#[test]
fn what_is_missing_or_wrong_is_said_before_anything_starts() {
    let cases = [
        // The study as it is written is wrong.
        (2, STUDY.replace("name = \"points\"", "nam = \"points\""), "tiny.toml, line 27, `nam`"),
        (
            1,
            STUDY.replace("program = \"mariadbd\"", "program = \"/nowhere/mariadbd\""),
            "apt-get install mariadb-server` brings it; or name one with --server mariadb=PATH",
        ),
        (1, STUDY.replace("= 2097152\"", "= 1\""), "setting `long` is not what it says"),
    ];
    for (status, study, expected) in cases {
        let place = Place::new(&study);
        let ended = place.run();
        assert_eq!(ended.status.code(), Some(status), "{}", text(&ended.stderr));
        assert!(text(&ended.stderr).contains(expected), "{}", text(&ended.stderr));
        place.wait_until_nothing_is_left();
    }
}

#[test]
fn without_sysbench_it_says_what_to_install() {
    let place = Place::new(STUDY);
    // A PATH with everything but it.
    let programs = tempfile::tempdir().expect("a folder");
    for folder in ["/usr/bin", "/usr/sbin"] {
        for program in fs::read_dir(folder).expect("programs").flatten() {
            let link = programs.path().join(program.file_name());
            if program.file_name() != "sysbench" && !link.exists() {
                std::os::unix::fs::symlink(program.path(), link).expect("a link");
            }
        }
    }
    let ended = place.command().env("PATH", programs.path()).output().expect("tare runs");
    assert!(text(&ended.stderr).contains("apt-get install sysbench"), "{}", text(&ended.stderr));
    place.wait_until_nothing_is_left();
}
