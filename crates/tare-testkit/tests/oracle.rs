//! The same scripts through the built-in Performance Schema and through the provider under test.

#![allow(clippy::unwrap_used)] // in a test a failure is a panic

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tare_testkit::capture::Pass;
use tare_testkit::declaration::Declaration;
use tare_testkit::difference::{ComparisonVerdict, Explanations, Misnamed};
use tare_testkit::figure::{Capture, CaptureComparison, compare, report};
use tare_testkit::history::ClockSources;
use tare_testkit::host::HostProgram;
use tare_testkit::script::{self, Script};
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::subject::TestProvider;
use tare_testkit::turn;

/// How often both sides are passed at first: of the faults in half of all passes, 7 of 8 show in one of them.
const FIRST_ROUNDS: usize = 3;
/// How often both sides are passed once more where the subject was not always as the reference. Of ten
/// passes, a fault in half of them shows in three or more 95 times in 100; what happens in every twentieth
/// pass on both sides, not once in a hundred.
const FURTHER_ROUNDS: usize = 7;

/// How often the reference is passed for one that does not contradict itself.
const REFERENCE_TRIES: usize = 3;

/// Whether executions of prepared statements count for the digests of what was prepared: the built-in's do
/// not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Executions {
    AsTheBuiltIn,
    WithDigests,
}

/// Histories long enough for a whole script.
fn settings(provider: TestProvider, executions: Executions) -> StartSettings {
    let sizes = [("waits", 400_000), ("stages", 40_000), ("statements", 20_000), ("transactions", 5_000)];
    let settings = StartSettings::compared(provider).tare_option("memory-max", "4G");
    let settings = match executions {
        Executions::AsTheBuiltIn => settings.tare_option("prepared-digests", "OFF"),
        Executions::WithDigests => settings,
    };
    sizes.into_iter().fold(settings, |settings, (kind, size)| {
        settings.provider_option(&format!("events-{kind}-history-long-size"), size)
    })
}

fn pass(
    provider: TestProvider,
    scripts: &[Script],
    explanations: &Explanations,
    declaration: &Declaration,
    executions: Executions,
) -> Capture {
    let clocks = if provider.is_tare() { ClockSources::One } else { ClockSources::WaitsApart };
    // What the built-in misnames tare has to name right.
    let misnamed = if provider.is_tare() { &[][..] } else { &explanations.misnamed };
    let mut server = Server::start(settings(provider, executions)).unwrap();
    let capture = Pass { server: &server, scripts, clocks, misnamed, declaration }.capture();
    let capture = capture.unwrap_or_else(|e| panic!("{e}\n{}", server.log()));
    server.stop().unwrap();
    capture
}

fn expected(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("expected").join(name)
}

/// What the declaration is silent about is a failure on every host. What it says of tables and columns and
/// the reference does not bear out is one on the series it was written for; others are told.
fn check_declaration(declaration: &Declaration, reference: &Capture, host: &HostProgram) {
    let (undeclared, mut unmet) = declaration.disagreements(&reference.schema);
    assert_eq!(undeclared, Vec::<String>::new());
    let mut filled = reference.filled();
    // What is in these has been held against the long history.
    filled.extend(reference.read.iter().map(|table| (table.clone(), BTreeSet::new())));
    unmet.extend(declaration.empty(&reference.schema, &filled));
    unmet.extend(declaration.blanks(&reference.schema, &filled));
    if host.version.starts_with(DECLARED) && host.has_federated() {
        assert_eq!(unmet, Vec::<String>::new());
    } else {
        println!("\n{} lines of comparison.toml are otherwise than on {DECLARED}:", unmet.len());
        unmet.iter().for_each(|line| println!("{line}"));
    }
}

fn selected() -> Vec<Script> {
    let mut scripts = script::all().unwrap();
    if let Ok(part) = std::env::var("TARE_ORACLE_SCRIPT") {
        scripts.retain(|script| script.name.contains(&part));
    }
    scripts
}

/// The series whose tables comparison.toml was written for.
const DECLARED: &str = "10.11.";

#[test]
fn scripts_leave_the_figures_the_built_in_leaves() {
    let _turn = turn();
    hold(&selected(), Executions::AsTheBuiltIn);
}

#[test]
fn executions_of_prepared_statements_differ_as_is_listed() {
    let _turn = turn();
    let mut scripts = script::all().unwrap();
    scripts.retain(|script| script.name == "prepared");
    let comparison = hold(&scripts, Executions::WithDigests);
    let listed = Explanations::read(&expected("prepared.toml")).unwrap();
    let stale = listed.judge(&comparison, |_| false).stale;
    assert!(stale.is_empty() || !TestProvider::under_test().is_tare(), "they no longer occur: {stale:?}");
}

/// Holds what scripts leave against what they leave with the built-in; returns the comparison.
fn hold(scripts: &[Script], executions: Executions) -> CaptureComparison {
    let host = HostProgram::find().unwrap();
    let mut explanations = Explanations::read(&expected("differences.toml")).unwrap().for_host(&host);
    if executions == Executions::WithDigests {
        explanations.difference.extend(Explanations::read(&expected("prepared.toml")).unwrap().difference);
    }
    let is_whole = executions == Executions::AsTheBuiltIn && std::env::var_os("TARE_ORACLE_SCRIPT").is_none();
    let declaration = Declaration::read(&expected("comparison.toml")).unwrap();
    let declaration = if host.has_federated() { declaration } else { declaration.on_endpoint() };
    let pass = |provider: TestProvider| pass(provider, scripts, &explanations, &declaration, executions);
    // Now and then the built-in has less in a history than it has counted; such a pass proves nothing.
    let refer = || {
        let whole = |capture: &Capture| capture.violations.is_empty();
        let mut passes = (0..REFERENCE_TRIES).map(|_| pass(TestProvider::BuiltIn));
        let first = passes.next().unwrap();
        if whole(&first) { first } else { passes.find(whole).unwrap_or(first) }
    };
    let judged = |reference: &[Capture], subject: &[Capture]| {
        let comparison = compare(reference, subject);
        let verdict = explanations.judge(&comparison, |table| declaration.repeats(table));
        (comparison, verdict)
    };
    let compared = || {
        let mut reference: Vec<Capture> = (0..FIRST_ROUNDS).map(|_| refer()).collect();
        let mut subject: Vec<Capture> = (0..FIRST_ROUNDS).map(|_| pass(TestProvider::under_test())).collect();
        let (mut comparison, mut verdict) = judged(&reference, &subject);
        for _ in 0..FURTHER_ROUNDS {
            if verdict.is_settled() {
                break;
            }
            println!("not always equal, and both are passed once more:");
            for differences in [&verdict.unexplained, &verdict.unsteady, &verdict.seldom] {
                print!("{}", report(differences, 40));
            }
            reference.push(refer());
            subject.push(pass(TestProvider::under_test()));
            (comparison, verdict) = judged(&reference, &subject);
        }
        (reference, subject, comparison, verdict)
    };
    let (mut reference, mut subject, mut comparison, mut verdict) = compared();
    // For once the built-in did otherwise, as when its purge was in the way of a DDL statement. It has to
    // repeat anew.
    if !verdict.wavering.is_empty() {
        println!(
            "{} figures of the built-in's own do not repeat, and all begins anew:",
            verdict.wavering.len()
        );
        print!("{}", report(&verdict.wavering, 40));
        (reference, subject, comparison, verdict) = compared();
    }
    let unused = |entry: &&Misnamed| reference.iter().all(|c| c.misnamed.get(&entry.name) == Some(&0));
    let unused: Vec<&Misnamed> = explanations.misnamed.iter().filter(unused).collect();
    println!("{} passes over the built-in, {} over the subject", reference.len(), subject.len());
    show(&comparison, &verdict);
    // What the built-in of some server does is no fault of the subject's, but worth seeing: a rule may be
    // wrong.
    let own: usize = reference.iter().map(|c| c.violations.len()).sum();
    println!(
        "\n{own} rows of the built-in contradict themselves, such as {:?}",
        reference[0].violations.first()
    );
    let violations: Vec<&String> = subject.iter().flat_map(|c| &c.violations).collect();
    println!("{} of the subject do:", violations.len());
    violations.iter().take(30).for_each(|violation| println!("{violation}"));
    if is_whole {
        check_declaration(&declaration, &reference[0], &host);
    }
    assert!(comparison.equal > 1000, "only {} figures were compared", comparison.equal);
    assert_eq!(verdict.unexplained.len(), 0, "differences nobody explained");
    assert_eq!(verdict.unsteady.len(), 0, "figures that are wrong in some passes, which nobody explained");
    assert_eq!(verdict.wavering.len(), 0, "figures that must repeat and do not");
    assert!(
        violations.is_empty() || !TestProvider::under_test().is_tare(),
        "rows that contradict themselves"
    );
    // The explanations are about tare; held against itself the reference has no differences to explain.
    if TestProvider::under_test().is_tare() && is_whole {
        assert_eq!(verdict.stale, Vec::<String>::new(), "explanations of what no longer occurs");
        assert!(unused.is_empty(), "no longer misnamed: {unused:?}");
    }
    comparison
}

fn show(comparison: &CaptureComparison, verdict: &ComparisonVerdict) {
    println!("{} figures equal, {} differences explained", comparison.equal, verdict.explained);
    println!("\n{} figures the built-in does not repeat:", comparison.unrepeatable.len());
    print!("{}", report(&comparison.unrepeatable, 40));
    if !verdict.wavering.is_empty() {
        println!("\n{} of them in tables that must repeat:", verdict.wavering.len());
        print!("{}", report(&verdict.wavering, 100));
    }
    println!("\n{} differences of chance in what the built-in is known not to repeat:", verdict.chance.len());
    print!("{}", report(&verdict.chance, 50));
    println!("\n{} figures that were wrong for once, with all passes:", verdict.seldom.len());
    print!("{}", report(&verdict.seldom, 50));
    println!("\n{} figures that are wrong in some passes, which nobody explained:", verdict.unsteady.len());
    print!("{}", report(&verdict.unsteady, 100));
    println!("\n{} differences nobody explained:", verdict.unexplained.len());
    print!("{}", report(&verdict.unexplained, 200));
    let all = Path::new(env!("CARGO_TARGET_TMPDIR")).join("oracle-differences.txt");
    let lines = verdict.unexplained.iter().chain(&verdict.unsteady);
    let lines = lines.map(|u| format!("{} | {:?} | {:?}\n", u.figure, u.reference, u.subject));
    std::fs::write(&all, lines.collect::<String>()).unwrap();
    println!("each of them is in {}", all.display());
}
