//! A report of generated results: its files, and its page in a browser.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use tare_lab::analysis::Analysis;
use tare_lab::report::wording;
use tare_lab::{Error, journal, report};
use tare_server::program::find_program;

const SEED: u64 = 7;
/// The sample's settings.
const SETTINGS_IN_ORDER: [&str; 6] =
    ["off", "off again", "tare, all", "built-in, none", "built-in, default", "built-in, all"];

/// Writes a sample study and its report into a folder that stays, to be looked at.
fn made(name: &str) -> report::Paths {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder); // of an earlier run
    fs::create_dir_all(&folder).expect("a folder");
    tare_lab_sample::write(&folder, SEED);
    report::write(&folder).expect("a report")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What stands between the first of a mark and the next of another one.
fn between<'a>(text: &'a str, mark: &str, end: &str) -> &'a str {
    let (_, behind) = text.split_once(mark).unwrap_or_else(|| panic!("no {mark:?}: {text}"));
    behind.split_once(end).unwrap_or_else(|| panic!("no {end:?} after {mark:?}: {behind}")).0
}

/// Lines of a CSV file by their heads.
fn table(path: &Path) -> Vec<BTreeMap<String, String>> {
    let text = read(path);
    let mut lines = text.lines().map(fields);
    let head = lines.next().expect("a head");
    let row = |line: Vec<String>| {
        assert_eq!(line.len(), head.len(), "{line:?}");
        head.iter().cloned().zip(line).collect()
    };
    lines.map(row).collect()
}

fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            c => fields.last_mut().expect("one").push(c),
        }
    }
    fields
}

/// What a transaction makes a server do stands in the tables and in the page, by how much it is more there.
#[test]
fn why_a_setting_costs_is_told() {
    let paths = made("why");
    let rows = table(&paths.csv);
    let of = |setting: &str| {
        let found = rows
            .iter()
            .find(|r| r["setting"] == setting && r["workload"] == "oltp_read_only" && r["users"] == "2");
        found.unwrap_or_else(|| panic!("{setting}")).clone()
    };
    let (off, all) = (of("off"), of("built-in, all"));
    assert!(
        (number(&all, "instructions_per_transaction") / number(&off, "instructions_per_transaction") - 1.145)
            .abs()
            < 1e-9
    );
    assert_eq!(
        (all["instructions_per_cycle"].as_str(), all["bytes_sent_per_transaction"].as_str()),
        ("1.5", "21000")
    );
    assert_eq!(all["branch_misses_per_transaction"], "", "what is not known is nothing, not 0");
    let json: serde_json::Value = serde_json::from_str(&read(&paths.json)).expect("JSON");
    assert_eq!(json["cells"][0]["settings"][5]["effort"]["cache_misses"], 900.0 * 1.29);
    let page = read(&paths.html);
    let section = between(&page, "id=\"effort\"", "</section>");
    assert!(
        section.contains("IPC") && section.contains("+14.5%") && section.contains("cache misses"),
        "{section}"
    );
    assert!(!section.contains("branch misses"), "{section}");
    let row = between(&page, "instruments on</th>", "</tr>");
    assert_eq!(row.matches("1000 of 1000").count(), 2, "{row}");
    assert!(row.contains("300 of 1000"), "{row}");
}

fn number(row: &BTreeMap<String, String>, name: &str) -> f64 {
    row[name].parse().unwrap_or_else(|error| panic!("{name} is {:?}: {error}", row[name]))
}

#[test]
fn figures_are_those_that_were_put_in() {
    let paths = made("figures");
    let rows = table(&paths.csv);
    assert_eq!(rows.len(), 3 * 2 * 6, "a line for each setting under each workload");
    let mut missed = 0;
    for row in rows.iter().filter(|r| r["setting"] != r["base"]) {
        let truth = tare_lab_sample::cost(&row["setting"]);
        let (low, high) = (number(row, "cost_low_share"), number(row, "cost_high_share"));
        missed += usize::from(truth < low || truth > high);
        assert!((number(row, "cost_share") - truth).abs() < 0.008, "{row:?}");
        assert_eq!(row["control"], (row["setting"] == "off again").to_string());
    }
    // 30 intervals that miss one time in twenty.
    assert!(missed <= 5, "{missed} of 30 intervals miss the truth");
    let all =
        rows.iter().find(|r| r["setting"] == "built-in, all" && r["workload"] == "tpcc").expect("a line");
    assert_eq!(all["verdict_kind"], "costs");
    assert!(number(all, "notpm") > 0.0);

    let slices = table(&paths.slices);
    assert_eq!(slices.len(), 6 * 24 * 6);
    assert!(slices.windows(2).all(|pair| number(&pair[0], "at_s") < number(&pair[1], "at_s")), "in order");

    let json: serde_json::Value = serde_json::from_str(&read(&paths.json)).expect("JSON");
    assert_eq!(json["cells"].as_array().map(Vec::len), Some(6));
    let of_json = json["cells"][0]["settings"][2]["cost"]["share"].as_f64().expect("a share");
    assert!((of_json - number(&rows[2], "cost_share")).abs() < 1e-12);
}

/// The share of processors, the memory, and means with their standard errors, all found again from the
/// slices.
#[test]
fn shares_memory_and_standard_errors_are_those_of_the_slices() {
    let paths = made("again");
    let (rows, slices) = (table(&paths.csv), table(&paths.slices));
    let is_tpcc = |row: &&BTreeMap<String, String>, setting: &str| {
        row["workload"] == "tpcc" && row["users"] == "2" && row["setting"] == setting
    };
    for (place, setting) in SETTINGS_IN_ORDER.into_iter().enumerate() {
        let row = rows.iter().find(|r| is_tpcc(r, setting)).expect("a line");
        let own: Vec<_> = slices.iter().filter(|r| is_tpcc(r, setting)).collect();
        let close = |name: &str, truth: f64| {
            assert!(
                (number(row, name) / truth - 1.0).abs() < 1e-9,
                "{setting}: {name} is {}, not {truth}",
                row[name]
            );
        };
        let mut shares: Vec<f64> = own
            .iter()
            .map(|s| (number(s, "cpu_user_s") + number(s, "cpu_system_s")) / number(s, "seconds") / 2.0)
            .collect();
        shares.sort_by(f64::total_cmp);
        close("cpu_share", f64::midpoint(shares[shares.len() / 2 - 1], shares[shares.len() / 2]));

        for (name, each) in [
            (
                "transactions_per_s",
                own.iter().map(|s| number(s, "transactions") / number(s, "seconds")).collect::<Vec<_>>(),
            ),
            ("notpm", own.iter().map(|s| number(s, "notpm")).collect()),
        ] {
            let (count, mean) = (each.len() as f64, each.iter().sum::<f64>() / each.len() as f64);
            let square = each.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (count - 1.0);
            close(&format!("{name}_mean"), mean);
            close(&format!("{name}_standard_error"), (square / count).sqrt());
        }

        if setting == "off" {
            assert_eq!(row["memory_change_bytes"], "", "the base does not differ from itself");
            continue;
        }
        let truth = tare_lab_sample::memory(place) as f64;
        let (low, high) = (number(row, "memory_change_low_bytes"), number(row, "memory_change_high_bytes"));
        let found = number(row, "memory_change_bytes");
        assert!(low < truth && truth < high && (low..high).contains(&found), "{low} to {high}, not {truth}");
        assert!((found - truth).abs() < 500_000.0, "{setting}: {found}");
    }
    let page = read(&paths.html);
    assert!(page.contains("+110 MiB") || page.contains("+109 MiB"), "the page says so, too");
    assert!(
        page.contains("Means and standard errors") && page.contains("class=\"interval\">(0."),
        "with the share of the base's"
    );
}

/// A server's memory is nobody's alone where settings are switched on one process; of a server that nobody
/// sees no share is known.
#[test]
fn what_cannot_be_known_of_memory_and_processors_is_not_said() {
    let paths = made("unknown");
    let folder = paths.html.parent().expect("a folder");
    let results = folder.join("results.jsonl");
    let text = read(&results);
    let lines = text.lines().map(|line| {
        let mut record: serde_json::Value = serde_json::from_str(line).expect("JSON");
        match record["kind"].as_str() {
            Some("slice") => record["process"] = 1.into(),
            Some("header") => record["servers"][0]["cpu"] = "statements".into(),
            _ => {}
        }
        record.to_string() + "\n"
    });
    fs::write(&results, lines.collect::<String>()).expect("written");
    report::write(folder).expect("a report");
    for row in table(&paths.csv) {
        assert_eq!((row["memory_change_bytes"].as_str(), row["cpu_share"].as_str()), ("", ""), "{row:?}");
    }
    let page = read(&paths.html);
    assert!(!page.contains("memory against base") && !page.contains("CPU share"), "no empty columns");
}

/// Of a workload at two numbers of connections: a line for each setting, in both pictures.
#[test]
fn throughput_is_drawn_over_connections() {
    let page = read(&made("curves").html);
    let tpcc = page.split("id=\"workload-tpcc\"").nth(1).expect("a workload");
    let figure = between(tpcc, "<figure", "</figure>");
    let panels: Vec<&str> = figure.split("class=\"panel\"").skip(1).collect();
    assert_eq!(panels.len(), 2, "throughput, and its difference");
    let drawn =
        |panel: &str, of: &str| panel.split("figcaption").next().expect("the picture").matches(of).count();
    let (line, point) = ("<line class=\"curve\"", "<svg class=\"point\"");
    assert_eq!((drawn(panels[0], line), drawn(panels[0], point)), (6, 12));
    assert_eq!(
        (drawn(panels[1], line), drawn(panels[1], point)),
        (5, 10),
        "the base does not differ from itself"
    );
    let said = between(panels[1], "aria-label=\"", "\"");
    assert!(said.starts_with("difference from the base by connections. off again: "), "{said}");
    assert!(said.contains("built-in, all: \u{2212}1"), "{said}");
}

/// Every second is drawn; those in which a sidecar was asked are told from the others.
#[test]
fn scrapes_are_marked_in_the_seconds_of_the_setting_that_was_asked() {
    let page = read(&made("scrapes").html);
    let table = between(&page, "table class=\"plot courses\"", "</table>");
    let rows: Vec<&str> = table.split("<tr>").skip(1).take(SETTINGS_IN_ORDER.len()).collect();
    for (row, setting) in rows.iter().zip(SETTINGS_IN_ORDER) {
        assert_eq!(row.matches("h0").count(), 24 * 5, "{setting}: a point for each second");
        let asked = between(row, "dots asked", "</path>");
        let (points, marks) = (asked.matches("h0").count(), row.matches("v1").count());
        // Two a slice, in seconds of their own.
        let expected = if setting == tare_lab_sample::ASKED { (48, 48) } else { (0, 0) };
        assert_eq!((points, marks), expected, "{setting}");
        assert_eq!(row.contains("with a scrape"), setting == tare_lab_sample::ASKED);
        assert!(row.contains(">p99 ") && row.matches("class=\"limit\"").count() == 2, "{row}");
    }
    let median = |row: &str, words: &str| -> f64 {
        let figure = between(row, words, "/s");
        figure.replace('\u{202f}', "").parse().expect("a number")
    };
    let row = rows[4];
    let ratio = median(row, "with a scrape ") / median(row, ", without ");
    assert!((0.86..0.90).contains(&ratio), "what a scrape takes is seen: {ratio}");
}

#[test]
fn the_page_needs_nothing_else_and_names_are_text() {
    let page = read(&made("alone").html);
    let head = page.split("<div hidden id=\"data-0\"").next().expect("what comes before the data");
    for word in ["http:", "https:", " src=", "url(", "@import", "<link", "NaN"] {
        assert!(!head.contains(word), "the page holds {word}");
    }
    assert!(
        head.contains("every instrument &amp; consumer on &lt;all&gt;"),
        "what the study says is not markup"
    );
    assert!(!page.contains("<all>") && !page.contains("<every>"));
}

#[test]
fn the_page_says_no_more_than_is_known_and_of_what() {
    let page = read(&made("words").html);
    let text: String =
        page.split("<div hidden id=\"data-0\"").next().expect("what comes before the data").into();
    // Ranges of estimates were passed off as intervals, and intervals shown as ± half of their width.
    // Standard errors are called so, in a table of their own.
    let intervals: String = text
        .split("<details class=\"runs\"")
        .map(|part| part.split_once("</details>").map_or(part, |(_, rest)| rest))
        .collect();
    assert!(
        !intervals.contains("with 95% confidence:") && !intervals.contains('±'),
        "intervals have two ends"
    );
    for said in [
        "built-in, all</strong> costs 14.2% to 14.6%, intervals from ",
        "against off on mariadb 10.11.19-MariaDB",
        "Warning: this machine is busy: other processes take 87% of its processors' time",
        "3000 MHz, governor performance",
        "kernel 6.1.0",
        "mitigated: spectre_v2; vulnerable: srso; not affected by 1",
    ] {
        assert!(text.contains(said), "no {said:?}");
    }
    let last = page.split("<footer>").nth(1).expect("an end");
    let of = "This is server CPU per transaction against off on mariadb 10.11.19-MariaDB; noise within ";
    assert!(last.starts_with("<p>In short: tare, all ") && last.contains(of), "{last}");
    let lowest = text.split("Every second, from ").nth(1).expect("a scatter");
    assert!(!lowest.starts_with('\u{2212}'), "nothing is done less than never: {}", &lowest[..40]);
    let json = read(&made("words").json);
    for key in ["cpu_model", "clock_mhz", "governor", "kernel", "vulnerabilities", "others"] {
        assert!(json.contains(&format!("\"{key}\"")), "no {key} is exported");
    }
}

#[test]
fn medians_that_contradict_a_verdict_get_a_word() {
    let paths = made("contradiction");
    let records = journal::read(paths.html.parent().expect("a folder")).expect("records");
    let mut analysis = Analysis::of(&records).expect("an analysis");
    let (header, cell) = (analysis.header.clone(), &mut analysis.cells[0]);
    let place = |name: &str| SETTINGS_IN_ORDER.iter().position(|n| *n == name).expect("a setting");
    let (base, dear) = (place("off"), place("built-in, all"));
    assert_eq!(wording::contradiction(&header, cell, &cell.settings[dear]), None);
    cell.settings[dear].medians.tps = cell.settings[base].medians.tps * 1.02;
    let said = wording::contradiction(&header, cell, &cell.settings[dear]).expect("a word");
    assert!(
        said.contains("2.0% above the base's") && said.contains("within blocks the difference is \u{2212}1"),
        "{said}"
    );
    // What is within the margin may not look like more.
    let control = place("off again");
    cell.settings[control].medians.tps = cell.settings[base].medians.tps * 0.95;
    let said = wording::contradiction(&header, cell, &cell.settings[control]).expect("a word");
    assert!(said.contains("5.0% below the base's"), "{said}");
}

#[test]
fn a_study_that_runs_has_a_report_and_an_empty_folder_has_none() {
    let paths = made("running");
    let folder = paths.html.parent().expect("a folder");
    let results = folder.join("results.jsonl");
    // The header and 40 slices: of the first workload some, of the others nothing.
    let some: String = read(&results).lines().take(41).map(|l| format!("{l}\n")).collect();
    fs::write(&results, &some).expect("written");
    report::write(folder).expect("a report");
    let page = read(&paths.html);
    assert!(page.contains("not ended") && page.contains("inconclusive"), "what is not known is said");
    assert!(!page.contains("id=\"workload-tpcc\""), "nothing is said of what was not measured");
    // The header alone.
    let header: String = some.lines().take(1).map(|l| format!("{l}\n")).collect();
    fs::write(&results, header).expect("written");
    report::write(folder).expect("a report");
    assert!(read(&paths.html).contains("was not measured"));

    let empty = tempfile::tempdir().expect("a folder");
    assert!(matches!(report::write(empty.path()), Err(Error::NoResults(_))));
}

/// Widths of screens: telephones, a tablet, desks.
const WIDTHS: [&str; 6] = ["360", "400", "800", "1080", "1400", "2000"];

/// A page that opens the report in narrow and wide frames, uses it, and writes down what it saw.
const VISITOR: &str = r##"<!doctype html><title>visitor</title><body><script>
const seen = [];
// The contrast of a text with what is behind it, as the Web's guidelines for accessibility define it.
const rgb = (colour) => colour.match(/[\d.]+/g).map(Number);
const luminance = (colour) => {
  const [r, g, b] = rgb(colour).map((c) => c / 255).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (element) => {
  const style = (e) => e.ownerDocument.defaultView.getComputedStyle(e);
  let behind = element;
  while (behind.parentElement && rgb(style(behind).backgroundColor)[3] === 0) behind = behind.parentElement;
  const [one, other] = [style(element).color, style(behind).backgroundColor].map(luminance);
  return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
};
const visit = (width) => new Promise((resolve) => {
  const frame = document.createElement("iframe");
  frame.width = width; frame.height = 900; frame.src = "report.html";
  frame.onload = () => {
    const page = frame.contentDocument;
    const say = (what, value) => seen.push(`${width} ${what}: ${value}`);
    say("ready", page.documentElement.dataset.ready);
    say("too wide by", page.documentElement.scrollWidth - page.documentElement.clientWidth);
    // Boxes that hide a part of what is in them, and cells whose text lies over their neighbours'.
    const hides = (e) => e.scrollWidth > e.clientWidth + 1;
    const name = (e) => `${e.className || e.tagName}: ${e.textContent.slice(0, 40)}`;
    say("clipped boxes", [...page.querySelectorAll(".wide")].filter(hides).map(name).join("; "));
    const cells = [...page.querySelectorAll("th, td, dd, p, li, caption, h1, h2, h3, .what, .key .series, .scale span, .ticks span")].filter((e) => e.clientWidth > 1);
    say("overflowing", cells.filter(hides).map(name).slice(0, 5).join("; "));
    const beyond = cells.filter((e) => e.getBoundingClientRect().right > page.documentElement.clientWidth + 1);
    const labels = [...page.querySelectorAll(".scale span, .ticks span")].map((e) => [e, e.getBoundingClientRect()]).filter(([, box]) => box.width > 0);
    const over = ([, a], [, b]) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
    const clash = labels.filter((one, i) => i > 0 && over(labels[i - 1], one));
    say("labels over each other", clash.map(([e]) => name(e)).slice(0, 5).join("; "));
    say("curves", page.querySelectorAll("figure.curves svg.chart").length);
    say("beyond the page", beyond.map(name).slice(0, 5).join("; "));
    say("dark", page.defaultView.matchMedia("(prefers-color-scheme: dark)").matches);
    say("faint", [...page.querySelectorAll(".sign, .figure, .interval, .said, .warning, .meaning, .note, th, td, p, a")]
      .filter((e) => contrast(e) < 4.5).map(name).slice(0, 5).join("; "));
    say("sections", [...page.querySelectorAll("section")].map((s) => s.id).join(" "));
    say("plots", page.querySelectorAll("table.plot svg.chart").length);
    const flat = [...page.querySelectorAll("table.plot svg.chart")].filter((s) => s.getBoundingClientRect().width < 100);
    say("plots too small", flat.length);
    const marks = [...page.querySelectorAll("svg.chart rect, svg.chart circle")];
    say("marks not seen", marks.filter((m) => m.getBoundingClientRect().width === 0).length);
    const frameOf = page.querySelectorAll("svg.flame svg.frame")[1];
    frameOf.querySelector("rect").dispatchEvent(new page.defaultView.MouseEvent("click", { bubbles: true }));
    say("widened", frameOf.getAttribute("width"));
    const texts = [...page.querySelectorAll("button[data-from]")].map((b) => page.getElementById(b.dataset.from).textContent.length);
    say("downloads", texts.join(" "));
    resolve();
  };
  document.body.append(frame);
});
(async () => {
  for (const width of [360, 400, 800, 1080, 1400, 2000]) await visit(width);
  document.body.textContent = seen.join("\n") + "\nvisited";
})();
</script>"##;

#[test]
fn a_browser_shows_it() {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let Some(chromium) = names.iter().find_map(|name| find_program(name, &[])) else {
        eprintln!(
            "skipped: no Chromium here to open the report with (scripts/setup.sh chromium installs it)"
        );
        return;
    };
    let paths = made("browser");
    let visitor = paths.html.with_file_name("visitor.html");
    fs::write(&visitor, VISITOR).expect("written");
    for dark in [false, true] {
        let seen = visited(&chromium, &visitor, dark);
        looked_at(&seen, dark, &paths);
    }
}

/// What the visitor writes down.
fn visited(chromium: &Path, visitor: &Path, dark: bool) -> String {
    let (seen, said) = opened(chromium, visitor, dark);
    assert!(seen.contains("visited"), "the visitor did not come to its end: {seen}\n{said}");
    assert!(!said.contains("CONSOLE"), "the browser has something to say: {said}");
    seen
}

fn looked_at(seen: &str, dark: bool, paths: &report::Paths) {
    let line = |what: &str| {
        let line = seen.lines().find_map(|l| l.split_once(&format!("{what}: "))).map(|(_, value)| value);
        line.unwrap_or_else(|| panic!("no {what} in {seen}")).to_owned()
    };
    for width in WIDTHS {
        assert_eq!(line(&format!("{width} ready")), "yes", "the script ran to its end");
        assert_eq!(line(&format!("{width} too wide by")), "0", "at {width} pixels");
        for nothing in ["clipped boxes", "overflowing", "beyond the page", "labels over each other", "faint"]
        {
            assert_eq!(line(&format!("{width} {nothing}")), "", "{nothing} at {width} pixels");
        }
        assert_eq!(line(&format!("{width} dark")), dark.to_string());
        assert_eq!(line(&format!("{width} plots too small")), "0", "at {width} pixels");
        assert_eq!(line(&format!("{width} marks not seen")), "0", "at {width} pixels");
        let sections = "verdicts workload-oltp-read-only workload-oltp-point-select workload-tpcc effort events flame-graphs \
                        method machine data";
        assert_eq!(line(&format!("{width} sections")), sections);
        // Of each workload and number of connections: five intervals, six boxes, six courses, six
        // distributions.
        assert_eq!(line(&format!("{width} plots")), (6 * 23).to_string());
        assert_eq!(line(&format!("{width} curves")), "6", "two of each workload");
        assert_eq!(line(&format!("{width} widened")), "100%");
        let files = [&paths.csv, &paths.slices, &paths.json, &paths.html.with_file_name("results.jsonl")];
        let sizes = files.map(|path| read(path).encode_utf16().count().to_string());
        assert_eq!(
            line(&format!("{width} downloads")),
            sizes.join(" "),
            "what can be taken away is what lies beside"
        );
    }
}

/// The text of a page after its scripts ran, and what the browser printed meanwhile.
fn opened(chromium: &Path, page: &Path, dark: bool) -> (String, String) {
    let profile = tempfile::tempdir().expect("a folder");
    let output = Command::new("timeout")
        .arg("120")
        .arg(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--enable-logging=stderr"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--allow-file-access-from-files", "--window-size=2200,1000", "--virtual-time-budget=20000"])
        .args(dark.then_some("--blink-settings=preferredColorScheme=0"))
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg("--dump-dom")
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("Chromium runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}
