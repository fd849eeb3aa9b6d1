use tare_testkit::random::*;
fn main() {
    let mut args = std::env::args().skip(1);
    let first: u64 = args.next().unwrap().parse().unwrap();
    let count: u64 = args.next().unwrap().parse().unwrap();
    let sessions = Sessions::read().unwrap();
    if std::env::var_os("SHOW").is_some() { println!("{}", sessions.session(first).unwrap()); return; }
    let rules: &'static Rules = Box::leak(Box::new(rules().unwrap()));
    let pair = Pair::start(rules);
    let begin = std::time::Instant::now();
    for seed in first..first + count {
        let script = sessions.session(seed).unwrap();
        let finding = pair.compare(&script, rules).unwrap();
        println!("{seed} {} steps {} equal {} rounds {} unexplained {} violations {:?}", script.steps.len(), finding.equal, finding.rounds, finding.verdict.unexplained.len(), finding.violations.len(), begin.elapsed());
        if !finding.is_clean() {
            println!("{}", tare_testkit::figure::report(&finding.verdict.unexplained, 30));
            finding.violations.iter().take(5).for_each(|v| println!("  {v}"));
        }
    }
}
