//! The lab, weighed: does it find costs of known size, and how exact is it beside a measurement one after the
//! other?
//!
//!     cargo run --release -p tare-lab --example calibrate -- truth [RUNS] [BLOCKS]
//!     cargo run --release -p tare-lab --example calibrate -- precision [RUNS] [MINUTES AT MOST]
//!     cargo run --release -p tare-lab --example calibrate -- simulation [STUDIES]
//!     cargo run --release -p tare-lab --example calibrate -- record [BLOCKS]
//!
//! The first three write their result into `docs/lab-notes/method.md`, between the marks of that name. What
//! has been run is kept in `target/calibrate/` and not run again; remove it to begin anew. `record` measures
//! servers that are all alike, and writes their turns to `tests/injection/turns.txt`, into which a test
//! injects costs.

mod handicap;
mod judgement;
mod precision;
mod truth;
mod turns;

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use tare_lab::analysis::Analysis;
use tare_lab::bench::Bench;
use tare_lab::definition::Definition;
use tare_lab::interrupt::Interrupt;
use tare_lab::load::{DriverEvent, Load};
use tare_lab::process::Usage;
use tare_lab::runner::{self, StudyEvent, StudyOrder};
use tare_lab::sequential::Errors;
use tare_lab::server::LaunchedServer;
use tare_lab::setting::Setting;
use tare_lab::simulation::{ErrorDistribution, misses};
use tare_lab::workload;
use tare_server::installation::Installation;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Connections of the load.
const USERS: u32 = 2;
/// Half-width of an interval that is enough.
const PRECISION: f64 = 0.005;
/// Where results are kept.
const KEPT: &str = "target/calibrate";
/// What is written into.
const DOCUMENT: &str = "docs/lab-notes/method.md";
const SERVER: &str = r#"
[[server]]
name = "mariadb"
program = "mariadbd"
options = ["--innodb-buffer-pool-size=256M", "--innodb-flush-log-at-trx-commit=0"]
"#;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize, otherwise| arguments.get(place).map_or(Ok(otherwise), |text| text.parse());
    match arguments.first().map(String::as_str) {
        Some("truth") => truth::find(number(1, 20)?, number(2, 9)?),
        Some("precision") => precision::compare(number(1, 10)?, number(2, 10)?),
        Some("simulation") => simulation(number(1, 4000)? as usize),
        Some("record") => turns::record(number(1, 60)?),
        _ => Err("say `truth [RUNS] [BLOCKS]`, `precision [RUNS] [MINUTES]`, `simulation [STUDIES]` or `record [BLOCKS]`".into()),
    }
}

/// How often intervals miss the truth when errors have known shapes.
#[allow(clippy::cast_precision_loss)] // some thousands
fn simulation(studies: usize) -> Result<()> {
    let mut text = format!(
        "Of {studies} simulated studies each, looked at after every value, the share in which an interval of any look misses the \
         truth, which is the mean of all errors there can be. As shipped, in bold; the signed ranks beside it.\n\n\
         | errors | 8 starts | 14 starts | 20 starts | 40 blocks | signed ranks: 8 | 14 | 20 | 40 |\n|---|---|---|---|---|---|---|---|---|\n"
    );
    for shape in ErrorDistribution::ALL {
        let _ = write!(text, "| {} |", shape.name());
        for errors in [Errors::Skewed, Errors::Symmetric] {
            for most in [8, 14, 20, 40] {
                let share = misses(errors, shape, most, studies) as f64 / studies as f64 * 100.0;
                let bold = if errors == Errors::Skewed { "**" } else { "" };
                let _ = write!(text, " {bold}{share:.1}%{bold} |");
            }
        }
        text.push('\n');
    }
    print!("{text}");
    document("simulation", &text)
}

/// Runs a study, or takes what was kept of it; `each` hears after every block how much of it is done, and how
/// many blocks there are. `here` puts in what may be another one when the study goes on.
fn study(
    name: &str,
    text: String,
    here: &dyn Fn(&str) -> String,
    folder: &Path,
    seed: u64,
    each: &mut dyn FnMut(f64, usize),
) -> Result<Analysis> {
    let definition = Definition::read(&here(&text), name, false)?;
    let order = StudyOrder {
        credentials: tare_lab::target::AccountPasswords::default(),
        name: name.into(),
        text,
        definition,
        quick: false,
        folder: folder.into(),
        programs: [].into(),
        preloads: [].into(),
        seed: Some(seed),
        budget: None,
        profile: false,
    };
    let mut tell = |event: StudyEvent<'_>| {
        if let StudyEvent::Block { analysis, done, .. } = event {
            each(done, analysis.cells[0].settings[0].blocks);
        }
    };
    Ok(runner::run(&order, &Interrupt::default(), &mut tell)?)
}

/// A server of its own with the study's data, and its load.
fn alone(setting: &Setting) -> Result<(Bench, LaunchedServer, Load)> {
    let bench = Bench::new(Interrupt::default())?;
    let handicap = workload::find("handicap").ok_or("no workload `handicap`")?;
    let options = [("table-size".to_owned(), "20000".to_owned())].into();
    let load = Load {
        script: handicap.data.script,
        schema: "lab".into(),
        users: USERS,
        options: handicap.options(&options),
        prepared: true,
        arrivals: None,
    };
    let own = ["--innodb-buffer-pool-size=256M", "--innodb-flush-log-at-trx-commit=0"].map(Into::into);
    let template =
        bench.prepare(&Installation::find(None)?, &own, std::slice::from_ref(&load), &mut |_| {})?;
    let server = bench.start_copy(&template, setting)?;
    Ok((bench, server, Load { script: handicap.script, ..load }))
}

/// CPU time of the server per transaction, in seconds.
#[allow(clippy::cast_precision_loss)] // counts far below 2^53
fn per_transaction(bench: &Bench, server: &LaunchedServer, load: &Load, seconds: u32) -> Result<f64> {
    let (mut before, mut after) = (Duration::ZERO, Duration::ZERO);
    let report = bench.driver.run(load, &server.target(), seconds, &bench.interrupt, &mut |moment| {
        match moment {
            DriverEvent::Started => before = Usage::now(server.pid())?.cpu,
            DriverEvent::Ended => after = Usage::now(server.pid())?.cpu,
            DriverEvent::Second(_) => {}
        }
        Ok(())
    })?;
    Ok(after.saturating_sub(before).as_secs_f64() / report.transactions as f64)
}

fn machine() -> String {
    let machine = tare_lab::machine::facts();
    format!("{} × {}", machine.cpus, machine.cpu_model)
}

/// Puts a text between the marks of that name in the document.
fn document(name: &str, text: &str) -> Result<()> {
    let document = fs::read_to_string(DOCUMENT)?;
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
    let (before, rest) = document.split_once(&begin).ok_or(format!("{DOCUMENT} has no mark {begin}"))?;
    let (_, after) = rest.split_once(&end).ok_or(format!("{DOCUMENT} has no mark {end}"))?;
    fs::write(DOCUMENT, format!("{before}{begin}{text}{end}{after}"))?;
    println!("written into {DOCUMENT}");
    Ok(())
}
