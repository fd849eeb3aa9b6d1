//! The lab beside a measurement as it is usually done: one server after the other.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use tare_lab::analysis::Difference;
use tare_lab::load::Load;
use tare_lab::setting::Setting;
use tare_lab::workload;

use crate::{KEPT, PRECISION, Result, SERVER, USERS, alone, document, machine, per_transaction, study};

/// Measures so many times, for so many minutes at most, paired and one after the other.
pub(crate) fn compare(runs: u32, minutes: u32) -> Result<()> {
    let (mut paired, mut sequential) = (vec![], vec![]);
    let mut longest = 0.0;
    for run in 1..=runs {
        let folder = PathBuf::from(format!("{KEPT}/precision-{minutes}-{run}"));
        let analysis = study(
            "precision",
            two_settings(minutes),
            &str::to_owned,
            &folder,
            u64::from(run),
            &mut |done, _| eprint!("\r{:.0}% ", done * 100.0),
        )?;
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
    fs::write("docs/lab-notes/precision.svg", picture(&paired, &sequential))?;
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
        blocks = (minutes * 8).min(240)
    )
}

fn switched(enabled: &str) -> String {
    format!(
        "UPDATE performance_schema.setup_consumers SET ENABLED = '{enabled}' WHERE NAME = 'global_instrumentation'"
    )
}

/// Measures in the usual way: load on one server for half of the time, then on another one for the rest.
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
        let load = Load { script: workload::SysbenchScript::Stock("oltp_read_only"), ..load };
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

fn told(cost: &Option<Difference>) -> String {
    let Some(Difference { share, interval: Some((low, high)) }) = cost else { return "nothing".into() };
    format!("{:+.2}% ({:+.2} … {:+.2})", share * 100.0, low * 100.0, high * 100.0)
}
