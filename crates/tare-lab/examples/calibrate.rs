//! The lab, weighed: does it find costs of known size, and how exact is it beside a measurement one after the other?
//!
//!     cargo run --release -p tare-lab --example calibrate -- truth [RUNS] [BLOCKS]
//!     cargo run --release -p tare-lab --example calibrate -- precision [RUNS] [MINUTES AT MOST]
//!
//! Both write their result into `docs/method.md`, between the marks of that name. What has been run is kept in
//! `target/calibrate/` and not run again; remove it to begin anew.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tare_lab::analysis::{Analysis, Difference, Verdict};
use tare_lab::bench::Bench;
use tare_lab::definition::Definition;
use tare_lab::installation::Installation;
use tare_lab::interrupt::Interrupt;
use tare_lab::journal;
use tare_lab::load::{Load, Moment};
use tare_lab::process::{Usage, cpu_time};
use tare_lab::record::{Measure, Record, Slice};
use tare_lab::runner::{self, Event, Order};
use tare_lab::server::Server;
use tare_lab::setting::Setting;
use tare_lab::statistics::median;
use tare_lab::target::Tally;
use tare_lab::workload;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Handicaps, as shares of a transaction's CPU time.
const HANDICAPS: [f64; 3] = [0.005, 0.01, 0.03];
/// Connections of the load.
const USERS: u32 = 2;
/// Evaluations at a time by which the price of one is measured.
const EVALUATIONS: u64 = 3_000_000;
/// Seconds in which it is measured, and how long transactions have their turn.
const PRICED: u32 = 12;
const TURN: Duration = Duration::from_millis(100);
/// Half-width of an interval that is enough.
const PRECISION: f64 = 0.005;
/// Where results are kept.
const KEPT: &str = "target/calibrate";
/// What is written into.
const DOCUMENT: &str = "docs/method.md";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize, otherwise| arguments.get(place).map_or(Ok(otherwise), |text| text.parse());
    match arguments.first().map(String::as_str) {
        Some("truth") => truth(number(1, 20)?, number(2, 20)?),
        Some("precision") => precision(number(1, 10)?, number(2, 10)?),
        _ => Err("say `truth [RUNS] [BLOCKS]` or `precision [RUNS] [MINUTES]`".into()),
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Handicaps of known size

fn truth(count: u32, blocks: u32) -> Result<()> {
    let mut runs = vec![];
    for number in 1..=count {
        let folder = PathBuf::from(format!("{KEPT}/truth-{blocks}-{number}"));
        let price = price(&folder)?;
        let evaluations: Vec<u64> = HANDICAPS.iter().map(|share| price.evaluations(*share)).collect();
        let analysis = study("handicap", handicaps(&evaluations, blocks), &folder, u64::from(number))?;
        let run = Run::of(&analysis, price, evaluations, calm(&journal::read(&folder)?, "none"));
        println!("run {number}: {}", run.costs.iter().map(told).collect::<Vec<_>>().join(", "));
        runs.push(run);
    }
    let table = summary(&runs, blocks);
    print!("{table}");
    document("truth", &table)
}

/// What an evaluation and a transaction cost in CPU time of the server, in seconds.
#[derive(Clone, Copy, Debug)]
struct Price {
    evaluation: f64,
    transaction: f64,
}

impl Price {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a small positive count
    fn evaluations(self, share: f64) -> u64 {
        (share * self.transaction / self.evaluation).round() as u64
    }
}

/// Measured on a server of its own, before the study and by other means than the study's: transactions and evaluations take
/// turns, so that both meet the same machine, and count by the lowest quarter of their turns.
#[allow(clippy::cast_precision_loss)] // counts far below 2^53
fn price(folder: &Path) -> Result<Price> {
    let kept = folder.join("price");
    if let Ok(text) = fs::read_to_string(&kept) {
        let mut numbers = text.split_whitespace().map(str::parse);
        if let (Some(evaluation), Some(transaction)) = (numbers.next(), numbers.next()) {
            return Ok(Price { evaluation: evaluation?, transaction: transaction? });
        }
    }
    let (bench, server, load) = alone(&Setting::plain("price", vec!["--performance-schema=OFF".into()]))?;
    PAY.iter().try_for_each(|sql| server.execute(sql))?;
    let mut drive = bench.driver.start(&load, &server.target(), PRICED)?;
    drive.until_started(&bench.interrupt)?;
    drive.hold();
    let ends = Instant::now() + Duration::from_secs(PRICED.into());
    let mut tally = Tally::of(&server.target())?;
    let (mut statements, mut evaluations) = (vec![], vec![]);
    while Instant::now() + TURN * 4 < ends {
        tally.since()?;
        let driven = cpu_time(server.pid())?;
        drive.release();
        std::thread::sleep(TURN);
        drive.hold();
        std::thread::sleep(Duration::from_millis(5));
        let before = cpu_time(server.pid())?;
        let had = Some(tally.since()?).filter(|had| *had > 0).ok_or("the server counted no statement")?;
        statements.push(before.saturating_sub(driven).as_secs_f64() / had as f64);
        let before = cpu_time(server.pid())?;
        burn(&server)?;
        let burnt = cpu_time(server.pid())?.saturating_sub(before);
        evaluations.push(burnt.as_secs_f64() / (EVALUATIONS * u64::from(USERS)) as f64);
    }
    drive.release();
    let report = drive.finish(&bench.interrupt, &mut |_| Ok(()))?;
    let evaluation = lowest(evaluations);
    // What a procedure does is not counted: a transaction's statements are the client's.
    let transaction = lowest(statements) * report.queries as f64 / report.transactions as f64;
    println!("an evaluation takes {:.2} ns, a transaction {:.1} µs", evaluation * 1e9, transaction * 1e6);
    fs::create_dir_all(folder)?;
    fs::write(kept, format!("{evaluation} {transaction}"))?;
    Ok(Price { evaluation, transaction })
}

/// Evaluates, on as many connections at once as the load has: so they share the processors as in the study.
fn burn(server: &Server) -> Result<()> {
    std::thread::scope(|scope| {
        let burn = || server.execute(&format!("DO BENCHMARK({EVALUATIONS}, RAND())"));
        let burning: Vec<_> = (0..USERS).map(|_| scope.spawn(burn)).collect();
        burning
            .into_iter()
            .try_for_each(|b| b.join().map_err(|_| "a thread panicked")?.map_err(|e| e.to_string().into()))
    })
}

/// What a transaction calls. How much it pays stands in a variable that means nothing to these connections, so that it can be
/// changed at once and for nothing.
const PAY: [&str; 3] = [
    "CREATE DATABASE IF NOT EXISTS lab_handicap",
    "CREATE PROCEDURE IF NOT EXISTS lab_handicap.pay() NO SQL DO BENCHMARK(@@global.interactive_timeout, RAND())",
    // Its least value.
    "SET GLOBAL interactive_timeout = 1",
];

fn handicaps(evaluations: &[u64], blocks: u32) -> String {
    let all = [("none".to_owned(), 0)].into_iter();
    let all =
        all.chain(HANDICAPS.iter().zip(evaluations).map(|(share, n)| (format!("{}%", share * 100.0), *n)));
    let settings: String = all.fold(String::new(), |mut text, (name, n)| {
        let [database, procedure, _] = PAY;
        let _ = write!(
            text,
            r#"
[[setting]]
name = "{name}"
meaning = "{n} evaluations more per transaction"
options = ["--performance-schema=OFF"]
switch = ["{database}", "{procedure}", "SET GLOBAL interactive_timeout = {}"]
"#,
            n + 1
        );
        text
    });
    format!(
        r#"question = "Is a handicap of known size found?"
slice_seconds = 1
blocks = {blocks}
blocks_per_start = {blocks}
minutes = 60
precision = {PRECISION}
margin = 0.01
{SERVER}{settings}
[[workload]]
name = "handicap"
run = "handicap"
options = {{ table-size = 20000 }}
users = [{USERS}]
"#
    )
}

const SERVER: &str = r#"
[[server]]
name = "mariadb"
program = "mariadbd"
options = ["--innodb-buffer-pool-size=256M", "--innodb-flush-log-at-trx-commit=0"]
"#;

/// The median of the lowest quarter: what it is when the machine adds nothing.
fn lowest(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    median(&values[..values.len().div_ceil(4)])
}

/// What a transaction of a setting was charged with in the calm quarter of its turns, in seconds: in these rounds the lab
/// compares.
#[allow(clippy::cast_precision_loss)] // counts far below 2^53
fn calm(records: &[Record], setting: &str) -> f64 {
    let of = |slice: &Slice| {
        let charges = slice.turns.iter().map(|turn| turn.charged(Measure::Cpu));
        lowest(charges.collect()) * slice.queries as f64 / slice.transactions as f64
    };
    let slices = records.iter().filter_map(|record| match record {
        Record::Slice(slice) if slice.setting == setting => Some(of(slice)),
        _ => None,
    });
    median(&slices.collect::<Vec<_>>())
}

/// A study of known handicaps.
#[derive(Debug)]
struct Run {
    /// Measured before it.
    price: Price,
    /// By handicap.
    evaluations: Vec<u64>,
    costs: Vec<Option<Difference>>,
    /// What a transaction without a handicap was charged with in it, in seconds.
    transaction: f64,
    /// Whether the base's twin was called a cost.
    false_alarm: bool,
}

impl Run {
    fn of(analysis: &Analysis, price: Price, evaluations: Vec<u64>, transaction: f64) -> Run {
        let settings = &analysis.cells[0].settings;
        Run {
            price,
            evaluations,
            costs: settings.iter().skip(2).map(|setting| setting.cost).collect(),
            transaction,
            false_alarm: matches!(settings[1].verdict, Some(Verdict::Costs { .. })),
        }
    }

    /// The true share of a handicap, of which an evaluation takes so long.
    #[allow(clippy::cast_precision_loss)] // counts far below 2^53
    fn truth(&self, handicap: usize, evaluation: f64) -> f64 {
        self.evaluations[handicap] as f64 * evaluation / self.transaction
    }

    fn covers(&self, handicap: usize, truth: f64) -> bool {
        let interval = self.costs[handicap].and_then(|cost| cost.interval);
        interval.is_some_and(|(low, high)| (low..=high).contains(&truth))
    }
}

fn told(cost: &Option<Difference>) -> String {
    let Some(Difference { share, interval: Some((low, high)) }) = cost else { return "nothing".into() };
    format!("{:+.2}% ({:+.2} … {:+.2})", share * 100.0, low * 100.0, high * 100.0)
}

fn summary(runs: &[Run], blocks: u32) -> String {
    let count = runs.len();
    let prices: Vec<f64> = runs.iter().map(|run| run.price.evaluation).collect();
    // It is the processor's, and the same in all runs; a dozen seconds tell it to some percent only.
    let evaluation = median(&prices);
    let mut text = format!(
        "{count} runs of at most {blocks} blocks of 1 s slices, {USERS} connections, handicaps switched on one server, until every \
         interval is ±{}% or narrower ({}). An evaluation takes {:.2} ns, the median of all runs' measurements, which lie between \
         {:.2} and {:.2}; a transaction what the base was charged with in the run's calm rounds.\n\n\
         | handicap | truth, mean | found, mean | ±, mean | interval covers the truth | covers it with the run's own price of an \
         evaluation |\n|---|---|---|---|---|---|\n",
        PRECISION * 100.0,
        machine(),
        evaluation * 1e9,
        prices.iter().copied().fold(f64::INFINITY, f64::min) * 1e9,
        prices.iter().copied().fold(0.0, f64::max) * 1e9,
    );
    let mean = |of: &dyn Fn(&Run) -> f64| runs.iter().map(of).sum::<f64>() / count as f64 * 100.0;
    for (i, share) in HANDICAPS.iter().enumerate() {
        let half_width = |run: &Run| run.costs[i].and_then(|cost| cost.plus_minus()).unwrap_or(f64::NAN);
        let covered = |price: &dyn Fn(&Run) -> f64| {
            runs.iter().filter(|run| run.covers(i, run.truth(i, price(run)))).count()
        };
        let _ = writeln!(
            text,
            "| {}% | {:.2}% | {:.2}% | {:.2} | {} of {count} | {} of {count} |",
            share * 100.0,
            mean(&|run| run.truth(i, evaluation)),
            mean(&|run| run.costs[i].map_or(f64::NAN, |cost| cost.share)),
            mean(&half_width),
            covered(&|_| evaluation),
            covered(&|run| run.price.evaluation),
        );
    }
    let alarms = runs.iter().filter(|run| run.false_alarm).count();
    let _ = writeln!(text, "\nThe base against itself was called a cost in {alarms} of {count} runs.");
    text
}

// ---------------------------------------------------------------------------------------------------------------------
// Precision, beside one after the other

fn precision(runs: u32, minutes: u32) -> Result<()> {
    let (mut paired, mut sequential) = (vec![], vec![]);
    let mut longest = 0.0;
    for run in 1..=runs {
        let folder = PathBuf::from(format!("{KEPT}/precision-{minutes}-{run}"));
        let analysis = study("precision", two_settings(minutes), &folder, u64::from(run))?;
        let cost = analysis.cells[0].settings[2].cost.ok_or("no cost")?;
        let (low, high) = cost.interval.ok_or("no interval: give it more minutes")?;
        let took = analysis.end.as_ref().ok_or("no end")?.at;
        println!("run {run}, paired: {} in {took:.0} s", told(&Some(cost)));
        longest = f64::max(longest, took);
        paired.push((cost.share, low, high));
        let share = one_after_the_other(&folder, took)?;
        println!("run {run}, one after the other: {:+.2}%", share * 100.0);
        sequential.push(share);
    }
    fs::write("docs/precision.svg", picture(&paired, &sequential))?;
    let half = |(_, low, high): &(f64, f64, f64)| (high - low) * 50.0;
    let widest = paired.iter().map(half).fold(0.0, f64::max);
    let text = format!(
        "The default Performance Schema against the same switched off (`global_instrumentation`), oltp_read_only, {USERS} \
         connections, {runs} times each way ({}). Paired, until the interval is ±{}%, which took at most {longest:.0} s: {}, \
         half-widths at most {widest:.2} percentage points. One after the other in the same time: {}.\n\n\
         ![Estimates of all runs](precision.svg)\n",
        machine(),
        PRECISION * 100.0,
        spread(&paired.iter().map(|p| p.0).collect::<Vec<_>>()),
        spread(&sequential)
    );
    print!("{text}");
    document("precision", &text)
}

fn two_settings(minutes: u32) -> String {
    let setting = |name: &str, enabled: &str| {
        format!(
            "\n[[setting]]\nname = \"{name}\"\noptions = [\"--performance-schema=ON\"]\nswitch = [\"{}\"]\n",
            switched(enabled)
        )
    };
    format!(
        r#"question = "How exact is it?"
slice_seconds = 2
blocks = {blocks}
blocks_per_start = {blocks}
minutes = {minutes}
precision = {PRECISION}
margin = 0.001
{SERVER}{}{}
[[workload]]
name = "oltp_read_only"
run = "oltp_read_only"
options = {{ table-size = 20000 }}
users = [{USERS}]
"#,
        setting("switched off", "NO"),
        setting("default", "YES"),
        // What fits into the time.
        blocks = minutes * 8
    )
}

fn switched(enabled: &str) -> String {
    format!(
        "UPDATE performance_schema.setup_consumers SET ENABLED = '{enabled}' WHERE NAME = 'global_instrumentation'"
    )
}

/// As it is usually done: a server, load for half of the time; another one, load for the other half.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // some minutes
fn one_after_the_other(folder: &Path, seconds: f64) -> Result<f64> {
    let kept = folder.join("sequential");
    if let Ok(text) = fs::read_to_string(&kept) {
        return Ok(text.trim().parse()?);
    }
    let mut charged = vec![];
    for enabled in ["NO", "YES"] {
        let (bench, server, load) =
            alone(&Setting::plain("sequential", vec!["--performance-schema=ON".into()]))?;
        server.execute(&switched(enabled))?;
        let load = Load { script: workload::Script::Stock("oltp_read_only"), ..load };
        charged.push(per_transaction(&bench, &server, &load, (seconds / 2.0).ceil() as u32)?);
    }
    let share = charged[1] / charged[0] - 1.0;
    fs::write(kept, share.to_string())?;
    Ok(share)
}

fn spread(values: &[f64]) -> String {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min) * 100.0;
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max) * 100.0;
    format!("{low:+.2}% to {high:+.2}%")
}

/// Two columns of runs on one scale: dots, and intervals where there are some.
fn picture(paired: &[(f64, f64, f64)], sequential: &[f64]) -> String {
    let all = paired.iter().flat_map(|p| [p.1, p.2]).chain(sequential.iter().copied());
    let (low, high) = all.fold((0.0_f64, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
    let (low, high) = ((low * 100.0).floor(), (high * 100.0).ceil());
    let x = |percent: f64| 160.0 + (percent - low) / (high - low) * 520.0;
    let mut svg = String::from(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 720 460' font-family='sans-serif' font-size='13'>\n\
         <rect width='720' height='460' fill='white'/>\n",
    );
    let step = ((high - low) / 10.0).ceil();
    let mut percent = (low / step).ceil() * step;
    while percent <= high {
        let at = x(percent);
        let _ = writeln!(
            svg,
            "<path d='M{at:.1} 20V420' stroke='#ddd'/><text x='{at:.1}' y='440' text-anchor='middle'>{percent:+}%</text>"
        );
        percent += step;
    }
    let _ = writeln!(svg, "<text x='10' y='40'>paired</text><text x='10' y='240'>one after the other</text>");
    for (i, (share, low, high)) in (0_u32..).zip(paired) {
        let y = 36.0 + f64::from(i) * 18.0;
        let (a, b, at) = (x(low * 100.0), x(high * 100.0), x(share * 100.0));
        let _ = writeln!(
            svg,
            "<path d='M{a:.1} {y}H{b:.1}' stroke='#2a6' stroke-width='3'/><circle cx='{at:.1}' cy='{y}' r='5' fill='#174'/>"
        );
    }
    for (i, share) in (0_u32..).zip(sequential) {
        let y = 236.0 + f64::from(i) * 18.0;
        let _ = writeln!(svg, "<circle cx='{:.1}' cy='{y}' r='5' fill='#b33'/>", x(share * 100.0));
    }
    svg + "</svg>\n"
}

// ---------------------------------------------------------------------------------------------------------------------
// What both need

/// Runs a study, or takes what was kept of it.
fn study(name: &str, text: String, folder: &Path, seed: u64) -> Result<Analysis> {
    let definition = Definition::read(&text, name, false)?;
    let order = Order {
        name: name.into(),
        text,
        definition,
        quick: false,
        folder: folder.into(),
        programs: [].into(),
        preloads: [].into(),
        seed: Some(seed),
        profile: false,
    };
    let mut tell = |event: Event<'_>| {
        if let Event::Block { done, .. } = event {
            eprint!("\r{:.0}% ", done * 100.0);
        }
    };
    let analysis = runner::run(&order, &Interrupt::default(), &mut tell)?;
    eprintln!();
    Ok(analysis)
}

/// A server of its own with the study's data, and its load.
fn alone(setting: &Setting) -> Result<(Bench, Server, Load)> {
    let bench = Bench::new(Interrupt::default())?;
    let handicap = workload::find("handicap").ok_or("no workload `handicap`")?;
    let options = [("table-size".to_owned(), "20000".to_owned())].into();
    let load = Load {
        script: handicap.data.script,
        schema: "lab".into(),
        users: USERS,
        options: handicap.options(&options),
        prepared: true,
    };
    let own = ["--innodb-buffer-pool-size=256M", "--innodb-flush-log-at-trx-commit=0"].map(Into::into);
    let template =
        bench.prepare(&Installation::find(None)?, &own, std::slice::from_ref(&load), &mut |_| {})?;
    let server = bench.start_copy(&template, setting)?;
    Ok((bench, server, Load { script: handicap.script, ..load }))
}

/// CPU time of the server per transaction, in seconds.
#[allow(clippy::cast_precision_loss)] // counts far below 2^53
fn per_transaction(bench: &Bench, server: &Server, load: &Load, seconds: u32) -> Result<f64> {
    let (mut before, mut after) = (Duration::ZERO, Duration::ZERO);
    let report = bench.driver.run(load, &server.target(), seconds, &bench.interrupt, &mut |moment| {
        match moment {
            Moment::Started => before = Usage::now(server.pid())?.cpu,
            Moment::Ended => after = Usage::now(server.pid())?.cpu,
            Moment::Second(_) => {}
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
