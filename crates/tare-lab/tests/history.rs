//! Runs side by side: a change that was put in is found, and what cannot be compared is left out with a
//! reason.

use std::collections::BTreeMap;

use serde_json::Value;
use tare_lab::analysis::{Analysis, Difference, Verdict};
use tare_lab::course::SeriesShape;
use tare_lab::history::{CostSeries, PastRun, RunHistory};
use tare_lab::journal;

/// A run of the sample study, changed line by line before it is read.
fn run(name: &str, seed: u64, change: impl Fn(&mut Value)) -> PastRun {
    let folder = tempfile::tempdir().expect("a folder");
    tare_lab_sample::write(folder.path(), seed);
    let path = folder.path().join("results.jsonl");
    let text = std::fs::read_to_string(&path).expect("results");
    let lines = text.lines().map(|line| {
        let mut record: Value = serde_json::from_str(line).expect("JSON");
        change(&mut record);
        record.to_string() + "\n"
    });
    std::fs::write(&path, lines.collect::<String>()).expect("written");
    let records = journal::read(folder.path()).expect("records");
    PastRun::new(name.into(), Analysis::of(&records).expect("a header"))
}

fn nothing(_: &mut Value) {}

/// Makes a setting dearer by a share.
fn dearer(setting: &'static str, share: f64) -> impl Fn(&mut Value) {
    move |record| {
        if record["kind"] == "slice" && record["setting"] == setting {
            for cpu in ["cpu_user", "cpu_system"] {
                record[cpu] = (record[cpu].as_f64().expect("seconds") * (1.0 + share)).into();
            }
        }
    }
}

fn of<'a>(history: &'a RunHistory, setting: &str) -> Vec<&'a CostSeries> {
    let all: Vec<&CostSeries> = history.series.iter().filter(|s| s.setting == setting).collect();
    assert_eq!(all.len(), 6, "under each load");
    all
}

#[test]
fn a_change_that_was_put_in_is_found_and_nothing_else() {
    let third = run("third", 3, |record| {
        dearer("built-in, default", 0.05)(record);
        if record["kind"] == "header" {
            record["started"] = "2026-03-01T00:00:00Z".into();
            record["servers"][0]["version"] = "11.4.5-MariaDB".into();
        }
    });
    let history =
        RunHistory::of(vec![third, run("first", 1, nothing), run("second", 2, nothing)]).expect("a history");
    let names: Vec<&str> = history.runs.iter().map(|r| r.name.as_str()).collect();
    assert_eq!(names, ["first", "second", "third"], "in the order of their beginnings");
    for series in of(&history, "built-in, default") {
        assert_eq!((series.points.len(), series.left_out.len()), (3, 0));
        let SeriesShape::Changes(changes) = &series.course else {
            panic!("{}: {:?}", series.cell, series.course)
        };
        let [change] = changes.as_slice() else { panic!("{}: {changes:?}", series.cell) };
        let by = change.by();
        assert_eq!(change.at, 2, "{}", series.cell);
        // 5% of what it took: 1.031 × 0.05.
        assert!((by.value - 0.0516).abs() < by.plus_minus() && by.plus_minus() < 0.02, "{by:?}");
    }
    let others = history.series.iter().filter(|s| s.setting != "built-in, default");
    let found: Vec<&CostSeries> = others.filter(|s| !matches!(s.course, SeriesShape::Steady(_))).collect();
    // Of 24 histories noise may pass for a change in one or two.
    assert!(found.len() <= 3, "{found:?}");
    assert!(history.differences(0, 1).is_empty(), "{:?}", history.differences(0, 1));
    assert_eq!(history.differences(1, 2), ["server mariadb 10.11.19-MariaDB → 11.4.5-MariaDB"]);
}

/// It costs the same in both runs; only in the first one intervals are narrow enough to tell that it does so
/// in bursts.
#[test]
fn of_a_setting_in_bursts_runs_are_compared_by_one_figure() {
    let with = |name: &str, half: f64, bursty: bool| {
        let mut run = run(name, 1, nothing);
        for cell in &mut run.analysis.cells {
            let found = cell.settings.iter_mut().find(|s| s.name == "tare, all").expect("a setting");
            let of =
                |share: f64, half: f64| Difference { share, interval: Some((share - half, share + half)) };
            (found.cost, found.mean) = (Some(of(0.01, 0.002)), Some(of(0.05, half)));
            let told = if bursty { 0.05 } else { 0.01 };
            found.verdict = Some(Verdict::Costs { share: told, plus_minus: 0.002, bursty });
        }
        run
    };
    let history =
        RunHistory::of(vec![with("first", 0.002, true), with("second", 0.045, false)]).expect("a history");
    for series in of(&history, "tare, all") {
        let shares: Vec<f64> = series.points.iter().map(|(_, cost)| cost.share).collect();
        assert_eq!((shares, series.of_mean), (vec![0.05, 0.05], true), "{}", series.cell);
        assert!(matches!(series.course, SeriesShape::Steady(_)), "{:?}", series.course);
    }
    assert!(of(&history, "built-in, all").iter().all(|series| !series.of_mean), "calm rounds elsewhere");
}

/// The newer study calls everything by other names, and says which the settings had.
#[test]
fn a_setting_that_has_been_renamed_is_found_by_its_former_name() {
    const NAMES: [(&str, &str); 3] =
        [("off", "none"), ("off again", "none again"), ("built-in, all", "MariaDB's own: everything")];
    let study = "question = \"?\"\nslice_seconds = 5\nblocks = 24\nminutes = 60\nprecision = 0.005\nmargin = 0.01\n\
                 [[server]]\nname = \"mariadb\"\nprogram = \"mariadbd\"\n\
                 [[setting]]\nname = \"none\"\nformerly = [\"off\"]\n\
                 [[setting]]\nname = \"MariaDB's own: everything\"\nformerly = [\"everything\", \"built-in, all\"]\n\
                 [[setting]]\nname = \"new\"\n\
                 [[workload]]\nname = \"oltp_read_only\"\nrun = \"oltp_read_only\"\nusers = [2]\n";
    let renamed = |name: &str, study: String| {
        run(name, 2, move |record| {
            let new = |old: &Value| NAMES.iter().find(|(name, _)| old == name).map(|(_, new)| *new);
            match record["kind"].as_str() {
                Some("header") => {
                    record["definition"] = study.clone().into();
                    for setting in record["settings"].as_array_mut().expect("settings") {
                        for key in ["name", "base"] {
                            setting[key] = new(&setting[key]).map_or(setting[key].clone(), Value::from);
                        }
                    }
                }
                _ => {
                    record["setting"] = new(&record["setting"]).map_or(record["setting"].clone(), Value::from)
                }
            }
        })
    };
    let mut first = run("first", 1, nothing);
    // Its load is not told, because the test is about settings alone.
    first.analysis.header.definition = study.into();
    let history = RunHistory::of(vec![first.clone(), renamed("second", study.into())]).expect("a history");
    for (setting, control) in
        [("none again", true), ("MariaDB's own: everything", false), ("tare, all", false)]
    {
        for series in of(&history, setting) {
            assert_eq!(
                (series.points.len(), series.control),
                (2, control),
                "{setting}: {:?}",
                series.left_out
            );
        }
    }
    // Without a word of the former names they are others.
    let forgetful = study.replace("formerly", "# formerly");
    first.analysis.header.definition.clone_from(&forgetful);
    let history = RunHistory::of(vec![first, renamed("second", forgetful)]).expect("a history");
    let reason = |setting: &str| of(&history, setting)[0].left_out[0].1.clone();
    assert_eq!(reason("MariaDB's own: everything"), "it has no such setting");
    assert_eq!(reason("tare, all"), "`tare, all` was compared with `off`, not with `none`");
}

#[test]
fn what_is_not_the_same_is_left_out_with_a_reason() {
    let other = |change: fn(&mut Value)| {
        let first = run("first", 1, |record| {
            if record["kind"] == "header" {
                change(record);
            }
        });
        RunHistory::of(vec![first, run("second", 2, nothing)]).expect("a history")
    };
    let reasons = |history: &RunHistory, setting: &str| -> Vec<String> {
        of(history, setting).iter().flat_map(|s| s.left_out.iter().map(|(_, why)| why.clone())).collect()
    };
    let history =
        other(|header| header["settings"][3]["made_by"] = serde_json::json!(["--performance-schema=1"]));
    let said = reasons(&history, "built-in, none");
    assert_eq!(said.len(), 6);
    assert_eq!(said[0], "`built-in, none` was made otherwise: --performance-schema=1");
    assert!(reasons(&history, "built-in, all").is_empty());
    assert!(of(&history, "built-in, none").iter().all(|s| s.course == SeriesShape::Unknown));

    // What they are compared with is another one: nothing counts.
    let history = other(|header| header["settings"][0]["made_by"] = serde_json::json!([]));
    assert_eq!(reasons(&history, "tare, all")[0], "`off` was made otherwise: without options");
    let history = other(|header| header["measure"] = "time".into());
    assert!(reasons(&history, "tare, all")[0].contains("`measure`"));
    // A definition that cannot be read, and is not the same text.
    let history = other(|header| header["definition"] = "question = \"?\"".into());
    assert!(reasons(&history, "tare, all")[0].contains("cannot be told"));
    let machine = other(|header| header["machine"]["cpus"] = 64.into());
    assert!(reasons(&machine, "tare, all").is_empty(), "another machine is said, and no obstacle");
    assert!(
        machine.differences(0, 1)[0].starts_with("machine 64 × Generated CPU"),
        "{:?}",
        machine.differences(0, 1)
    );
}

#[test]
fn another_build_differs_and_so_does_where_cpu_time_is_read() {
    let with = |name: &str, sums: [(&str, &str); 2], cpu: &str| {
        run(name, 1, |record| {
            if record["kind"] == "header" {
                record["files"] = serde_json::json!(BTreeMap::from(sums));
                record["servers"][0]["cpu"] = cpu.into();
            }
        })
    };
    let program = "server mariadb";
    let first = with("first", [(program, "00112233445566aa"), ("sidecar tare", "aa")], "process");
    let second = with("second", [(program, "00112233445566aa"), ("preload tare", "bb")], "process");
    let third = with("third", [(program, "ffeeddccbbaa9988"), ("preload tare", "cc")], "statements");
    let history = RunHistory::of(vec![first, second, third]).expect("a history");
    let known = history.differences(0, 1);
    assert!(known.is_empty(), "each knows a file that the other does not: {known:?}");
    assert_eq!(
        history.differences(1, 2),
        [
            "CPU time of server mariadb from its process → its statements",
            "SHA-256 of preload tare bb → cc",
            "SHA-256 of server mariadb 001122334455 → ffeeddccbbaa",
        ]
    );
}

#[test]
fn a_load_with_other_options_is_another_load() {
    let study = |rows: u32| {
        format!(
            "question = \"?\"\nslice_seconds = 5\nblocks = 24\nminutes = 60\nprecision = 0.005\nmargin = 0.01\n\
             [[server]]\nname = \"mariadb\"\nprogram = \"mariadbd\"\n[[setting]]\nname = \"off\"\n\
             [[workload]]\nname = \"oltp_read_only\"\nrun = \"oltp_read_only\"\nusers = [2, 64]\n\
             options = {{ table-size = {rows} }}\n"
        )
    };
    let with = |name: &str, rows: u32, minutes: &str| {
        let text = study(rows).replace("minutes = 60", minutes);
        run(name, 1, move |record| {
            if record["kind"] == "header" {
                record["definition"] = text.clone().into();
            }
        })
    };
    let left_out = |first: PastRun| {
        let history = RunHistory::of(vec![first, with("second", 1000, "minutes = 60")]).expect("a history");
        let series = history.series.iter().find(|s| s.cell.workload == "oltp_read_only").expect("a load");
        series.left_out.clone()
    };
    assert!(left_out(with("first", 1000, "minutes = 30")).is_empty(), "how long it took is no obstacle");
    let said = left_out(with("first", 10_000, "minutes = 60"));
    assert!(said.len() == 1 && said[0].1.contains("its load was another one"), "{said:?}");
}
