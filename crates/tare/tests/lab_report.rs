//! What `tare lab report` and `compare` print of generated results, in terminals of several widths.

use std::path::Path;
use std::process::Command;

const SEED: u64 = 7;

/// What a command of the lab prints of a folder in a terminal of so many columns, without colours.
fn printed(command: &str, folder: &Path, columns: u32) -> String {
    let (tare, folder) = (env!("CARGO_BIN_EXE_tare"), format!("'{}'", folder.display()));
    let folders = if command == "compare" { format!("{folder} {folder}") } else { folder };
    let report = format!("stty cols {columns} rows 50; '{tare}' lab {command} {folders}");
    let ended = Command::new("script")
        .args(["-qec", &report, "/dev/null"])
        .env("NO_COLOR", "1")
        .output()
        .expect("script runs");
    let text = String::from_utf8_lossy(&ended.stdout).replace('\r', "");
    assert!(ended.status.success(), "{text}");
    console::strip_ansi_codes(&text).into_owned()
}

/// Makes one of the settings so unsteady that nothing can be said of it for hours.
fn unsettle(folder: &Path) {
    let path = folder.join("results.jsonl");
    let text = std::fs::read_to_string(&path).expect("results");
    let lines = text.lines().map(|line| {
        let mut record: serde_json::Value = serde_json::from_str(line).expect("JSON");
        if record["setting"] == "built-in, default" && record["kind"] == "slice" {
            let first = (record["process"].as_u64().expect("a number") / 6).is_multiple_of(2);
            for cpu in ["cpu_user", "cpu_system"] {
                record[cpu] = (record[cpu].as_f64().expect("seconds") * if first { 0.6 } else { 1.6 }).into();
            }
        }
        record.to_string() + "\n"
    });
    std::fs::write(&path, lines.collect::<String>()).expect("written");
}

#[test]
fn tables_fit_the_terminal() {
    let folder = tempfile::Builder::new().prefix("t").tempdir_in("/tmp").expect("a folder");
    tare_lab_sample::write(folder.path(), SEED);
    unsettle(folder.path());
    for columns in [80, 120] {
        let text = printed("report", folder.path(), columns);
        let compared = printed("compare", folder.path(), columns);
        let width = |line: &&str| console::measure_text_width(line) > columns as usize;
        let wide: Vec<&str> = text.lines().chain(compared.lines()).filter(width).collect();
        assert!(wide.is_empty(), "wider than {columns}: {wide:#?}");
        assert!(text.contains("NOTPM") && text.contains("built-in, default"), "{text}");
        assert!(
            text.contains("inconclusive: ") && text.contains(" days more"),
            "the widest verdict is there: {text}"
        );
    }
}

/// For programs: the whole report, and nothing else.
#[test]
fn a_report_is_printed_for_programs() {
    let folder = tempfile::Builder::new().prefix("t").tempdir_in("/tmp").expect("a folder");
    tare_lab_sample::write(folder.path(), SEED);
    let run = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tare"));
        command.args(["lab", "report", "--format", "json"]).arg(folder.path()).args(more);
        let ended = command.output().expect("tare runs");
        (ended.status.code(), String::from_utf8(ended.stdout).expect("UTF-8"))
    };
    let (status, printed) = run(&[]);
    let report = std::fs::read_to_string(folder.path().join("report.json")).expect("the report");
    assert!(status == Some(0) && printed == report, "{printed}");
    // A budget is still told by the status.
    let (status, printed) = run(&["--fail-above", "1%"]);
    assert!(status == Some(3) && printed == report, "{status:?}: {printed}");
}

/// A study about throughput says it as others do, too: a mean and its standard error.
#[test]
fn a_study_of_time_has_standard_errors_beside_its_intervals() {
    let folder = tempfile::Builder::new().prefix("t").tempdir_in("/tmp").expect("a folder");
    tare_lab_sample::write(folder.path(), SEED);
    assert!(!printed("report", folder.path(), 80).contains('±'), "one about CPU time does not");
    let results = folder.path().join("results.jsonl");
    let text = std::fs::read_to_string(&results).expect("results");
    std::fs::write(&results, text.replace("\"measure\":\"cpu\"", "\"measure\":\"time\"")).expect("written");
    let text = printed("report", folder.path(), 80);
    let wide: Vec<&str> = text.lines().filter(|line| console::measure_text_width(line) > 80).collect();
    assert!(wide.is_empty(), "wider than 80: {wide:#?}");
    let tables: Vec<&str> = text.split("MEAN ± ERROR").skip(1).collect();
    assert_eq!(tables.len(), 6, "one for each cell");
    let row = |table: &str, of: &str| {
        let line = table.lines().find(|line| line.trim_start().starts_with(of));
        line.unwrap_or_else(|| panic!("no {of} in {table}")).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    // The dearest costs 14.5%: 0.87 of the base's throughput.
    let dear = row(tables[4], "built-in, all");
    assert!(dear.contains(" ± ") && dear.contains(" 0.8") && dear.contains("% -1"), "{dear}");
    assert!(
        row(tables[4], "off ").ends_with(|c: char| c.is_ascii_digit()),
        "the base has no share of itself"
    );
    assert!(row(tables[4], "NOTPM").contains(" ± ") && !tables[0].contains("NOTPM ±"), "{}", tables[4]);
}

/// What is given away has the figures, and not the raw data.
#[test]
fn a_report_is_published_without_the_raw_data() {
    let folder = tempfile::Builder::new().prefix("t").tempdir_in("/tmp").expect("a folder");
    tare_lab_sample::write(folder.path(), SEED);
    let to = folder.path().join("reports/tare");
    let publish = |to: &Path| judged(folder.path(), &["--publish", to.to_str().expect("a path")]);
    let (status, said) = publish(&to);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("reports/tare/report.html"), "{said}");
    let read =
        |path: &Path| std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut names: Vec<_> = std::fs::read_dir(&to)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["picture.svg", "report.csv", "report.html", "report.json"]);
    for name in ["report.csv", "report.json"] {
        assert_eq!(read(&to.join(name)), read(&folder.path().join(name)), "{name}");
    }
    let (page, whole) = (read(&to.join("report.html")), read(&folder.path().join("report.html")));
    assert!(
        !page.contains("\"kind\":") && !page.contains("id=\"data-0\"") && whole.contains("id=\"data-0\"")
    );
    assert!(page.contains("href=\"report.csv\"") && page.contains("href=\"report.json\""));
    let picture = read(&to.join("picture.svg"));
    // Three workloads at two numbers of connections each.
    for (what, times) in [(">tare, all</text>", 3), (">off again</text>", 0), ("class=\"heading\"", 3)] {
        assert_eq!(picture.matches(what).count(), times, "{what}: {picture}");
    }
    // A viewer without custom properties, and one without style sheets, shows its colours, too.
    let (_, drawn) = picture.split_once("</style>").expect("a style sheet");
    assert!(!drawn.contains("var(") && picture.contains("@supports (fill: var(--ink))"), "{picture}");
    for class in ["page", "grid", "zero", "range", "estimate"] {
        let elements = drawn.matches(&format!("class=\"{class}\"")).count();
        let coloured =
            [" fill=\"#", " stroke=\"#"].map(|it| drawn.matches(&format!("\"{class}\"{it}")).count());
        assert!(elements > 0 && elements == coloured.iter().sum::<usize>(), "{class}: {picture}");
    }
    let figures =
        |page: &str| page.split("<section id=\"data\"").next().expect("what comes before").to_owned();
    assert_eq!(figures(&page), figures(&whole), "all else is the same");

    let (status, said) = publish(folder.path());
    assert!(status == Some(1) && said.contains("name another folder"), "{said}");
    assert!(
        read(&folder.path().join("report.html")).contains("id=\"data-0\""),
        "the results' own report is left alone"
    );
}

#[test]
fn it_ends_with_all_of_it_in_a_line() {
    let folder = tempfile::Builder::new().prefix("t").tempdir_in("/tmp").expect("a folder");
    tare_lab_sample::write(folder.path(), SEED);
    let text = printed("report", folder.path(), 120);
    // Lines are broken at words.
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    for said in [
        "2 × Generated CPU @ 3.00GHz; 3000 MHz; governor performance; kernel 6.1.0; mitigated: spectre_v2; vulnerable: srso",
        "Warning: this machine is busy: other processes take 87% of its processors' time",
        "This is server CPU per transaction against off on mariadb 10.11.19-MariaDB; noise within ",
    ] {
        assert!(text.contains(said), "no {said:?} in:\n{text}");
    }
    let last = text.split("In short:").last().expect("the last line");
    assert!(last.starts_with(" tare, all ") && last.contains("built-in, all costs 14.2% to 14.6%"), "{last}");
    assert!(!last.contains("intervals"), "they are in the tables: {last}");
    assert!(!text.contains('±'), "intervals are printed as such: {text}");
}

/// Judges results against a budget; gives the exit status and what was printed.
fn judged(folder: &Path, budget: &[&str]) -> (Option<i32>, String) {
    let mut tare = Command::new(env!("CARGO_BIN_EXE_tare"));
    let ended = tare.args(["lab", "report"]).arg(folder).args(budget).output().expect("tare runs");
    (ended.status.code(), String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned())
}

/// Of what was put in, the dearest costs 14.5%.
#[test]
fn a_budget_passes_fails_or_stays_unknown() {
    let folder = tempfile::Builder::new().prefix("t").tempdir_in("/tmp").expect("a folder");
    tare_lab_sample::write(folder.path(), SEED);
    let (status, said) = judged(folder.path(), &["--fail-above", "20%"]);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.trim_end().ends_with("Budget of 20%: passed (24 below it)."), "{said}");
    let (status, said) = judged(folder.path(), &["--fail-above", "10%"]);
    assert_eq!(status, Some(3), "{said}");
    assert!(said.trim_end().ends_with("Budget of 10%: failed (6 above it, 18 below it)."), "{said}");

    unsettle(folder.path());
    let (status, said) = judged(folder.path(), &["--fail-above", "20%"]);
    assert_eq!(status, Some(4), "{said}");
    assert!(said.contains("(6 unknown, 18 below it)"), "{said}");
    // What is above is told even where something else is unknown.
    assert_eq!(judged(folder.path(), &["--fail-above", "10%"]).0, Some(3));

    let (status, said) = judged(folder.path(), &["--fail-above", "3"]);
    assert!(status == Some(2) && said.contains("such as 3%"), "{said}");
    assert_eq!(judged(folder.path(), &["--junit", "/tmp/never"]).0, Some(2), "nothing to judge by");
    let (status, said) = judged(folder.path(), &["--fail-above", "20%", "--junit", "/nowhere/at/all.xml"]);
    assert!(status == Some(1) && said.contains("writing /nowhere/at/all.xml"), "{said}");
}

#[test]
fn what_came_out_is_written_for_those_who_read_it() {
    let folder = tempfile::Builder::new().prefix("t").tempdir_in("/tmp").expect("a folder");
    tare_lab_sample::write(folder.path(), SEED);
    unsettle(folder.path());
    let files = ["junit.xml", "summary.md"].map(|name| folder.path().join(name));
    let names = files.each_ref().map(|f| f.to_str().expect("a path"));
    let (status, said) =
        judged(folder.path(), &["--fail-above", "10%", "--junit", names[0], "--markdown", names[1]]);
    assert_eq!(status, Some(3), "{said}");
    let [junit, summary] = files.each_ref().map(|file| std::fs::read_to_string(file).expect("written"));

    let count = |part: &str| junit.matches(part).count();
    assert!(
        junit.starts_with(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"tare\" tests=\"24\""
        ),
        "{junit}"
    );
    assert!(junit.contains(" failures=\"6\" errors=\"0\" skipped=\"6\""), "{junit}");
    assert_eq!(
        [count("<testsuite "), count("<testcase "), count("<failure "), count("<skipped ")],
        [6, 24, 6, 6]
    );
    assert_eq!(count("<testcase "), count("</testcase>"));
    assert!(junit.contains(", all of it above 10%\">"), "{junit}");
    // Every quote and bracket of ours is one of the form's.
    let checked = Command::new("python3")
        .args(["-c", "import sys, xml.dom.minidom as m; m.parse(sys.argv[1])", names[0]])
        .output();
    match checked {
        Ok(checked) => assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr)),
        Err(error) => println!("not parsed by another program: python3: {error}"),
    }

    let rows: Vec<&str> = summary.lines().filter(|line| line.starts_with("| ")).collect();
    assert_eq!(rows.len(), 1 + 6 * 5, "{summary}");
    assert!(rows.iter().all(|row| row.matches(" |").count() == 8), "{summary}");
    assert!(summary.contains("**Budget of 10%: failed (6 above it, 6 unknown, 12 below it).**"), "{summary}");
    let dear = rows.iter().find(|row| row.contains("tpcc, 2 connections | built-in, all")).expect("a row");
    assert!(dear.contains("% → 7") && dear.contains(" | +110 MiB | "), "processors and memory: {dear}");
    assert!(summary.contains("✗ failed: +14.") && summary.contains("? unknown: "), "{summary}");
}

#[test]
fn a_change_between_runs_is_told_with_what_else_differs() {
    let folders =
        [(); 3].map(|()| tempfile::Builder::new().prefix("t").tempdir_in("/tmp").expect("a folder"));
    for (seed, folder) in (1..).zip(&folders) {
        tare_lab_sample::write(folder.path(), seed);
    }
    // The last run is on another kernel, and one of the settings costs 5% more there.
    let path = folders[2].path().join("results.jsonl");
    let text = std::fs::read_to_string(&path).expect("results").replace("\"6.1.0\"", "\"6.12.0\"");
    let lines = text.lines().map(|line| {
        let mut record: serde_json::Value = serde_json::from_str(line).expect("JSON");
        if record["setting"] == "built-in, all" && record["kind"] == "slice" {
            record["cpu_user"] = (record["cpu_user"].as_f64().expect("seconds") * 1.07).into();
        }
        record.to_string() + "\n"
    });
    std::fs::write(&path, lines.collect::<String>()).expect("written");
    let mut tare = Command::new(env!("CARGO_BIN_EXE_tare"));
    let ended = tare
        .args(["lab", "compare"])
        .args(folders.iter().map(tempfile::TempDir::path))
        .output()
        .expect("tare runs");
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let words: Vec<&str> = said.split_whitespace().collect();
    let said = words.join(" ");
    assert!(said.contains("From run 2 to 3: kernel 6.1.0 → 6.12.0."), "{said}");
    assert_eq!(said.matches("built-in, all: changes from run 2 to 3 by +5.").count(), 6, "{said}");
    assert!(said.contains("; there, too: kernel 6.1.0 → 6.12.0"), "{said}");
    assert!(said.contains("tare, all: no change; +1."), "{said}");

    // The same for programs.
    let object = json(
        Command::new(env!("CARGO_BIN_EXE_tare"))
            .args(["lab", "compare", "--format", "json"])
            .args(folders.iter().map(tempfile::TempDir::path)),
    );
    assert_eq!(object["runs"][2]["differs_from_previous"], serde_json::json!(["kernel 6.1.0 → 6.12.0"]));
    let series = |setting: &str| {
        let all = object["series"].as_array().expect("series");
        all.iter().filter(|it| it["setting"] == setting).cloned().collect::<Vec<_>>()
    };
    let changed = series("built-in, all");
    assert_eq!(changed.len(), 6);
    for one in changed {
        assert_eq!((&one["course"], &one["changes"][0]["run"]), (&"changes".into(), &3.into()), "{one}");
        let by = one["changes"][0]["by"]["value"].as_f64().expect("a figure");
        assert!((0.04..0.08).contains(&by), "{one}");
        assert_eq!(one["points"].as_array().map(Vec::len), Some(3));
    }
    assert!(series("tare, all").iter().all(|it| it["course"] == "steady" && it["control"] == false));
    assert!(series("off again").iter().all(|it| it["control"] == true));

    let alone =
        Command::new(env!("CARGO_BIN_EXE_tare")).args(["lab", "compare"]).arg(folders[0].path()).output();
    assert_eq!(alone.expect("tare runs").status.code(), Some(2), "one folder is no history");
}

fn json(command: &mut Command) -> serde_json::Value {
    let ended = command.output().expect("tare runs");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    serde_json::from_slice(&ended.stdout).expect("JSON")
}

#[test]
fn the_studies_that_ship_are_listed_for_people_and_programs() {
    let tare = || Command::new(env!("CARGO_BIN_EXE_tare"));
    let file = tempfile::NamedTempFile::new().expect("a file");
    let arguments = ["lab", "list", "--format", "json", "--output", &file.path().display().to_string()];
    let ended = tare().args(arguments).output().expect("tare runs");
    assert!(ended.status.success() && ended.stdout.is_empty());
    let object: serde_json::Value =
        serde_json::from_slice(&std::fs::read(file.path()).expect("read")).expect("JSON");
    assert_eq!(object, json(tare().args(["lab", "list", "--format", "json"])));
    let people =
        String::from_utf8(tare().args(["lab", "list"]).output().expect("tare runs").stdout).expect("UTF-8");
    let studies = object["studies"].as_array().expect("studies");
    assert!(studies.len() > 8, "{studies:?}");
    for study in studies {
        let name = study["name"].as_str().expect("a name");
        let line = people.lines().find(|line| line.split_whitespace().next() == Some(name));
        let most = format!(" {:.0} min", study["minutes"].as_f64().expect("minutes"));
        assert!(line.is_some_and(|line| line.contains(&most)), "{name} in:\n{people}");
        assert!(study["question"].as_str().is_some_and(|it| it.ends_with('?')), "{study}");
    }
}
