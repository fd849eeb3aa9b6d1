//! Random sessions on the built-in and on tare, held against each other: `make test-random`.

use std::process::ExitCode;
use std::time::Instant;

use tare_testkit::random::Trial;

const USAGE: &str = "random [--seed FIRST] [--count SESSIONS]";

/// The number after an option, or what it is without one.
fn option(arguments: &[String], name: &str, usual: u64) -> Result<u64, String> {
    let Some(at) = arguments.iter().position(|argument| argument == name) else { return Ok(usual) };
    let number = arguments.get(at + 1).and_then(|text| text.parse().ok());
    number.ok_or_else(|| format!("{name} takes a number; usage: {USAGE}"))
}

fn run() -> Result<u64, String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let known = |at: usize| at % 2 == 1 || ["--seed", "--count"].contains(&arguments[at].as_str());
    if let Some(at) = (0..arguments.len()).find(|at| !known(*at)) {
        return Err(format!("{} is not known; usage: {USAGE}", arguments[at]));
    }
    let (first, count) = (option(&arguments, "--seed", 1)?, option(&arguments, "--count", 2_000)?);
    let begin = Instant::now();
    let mut trial = Trial::new().map_err(|e| e.to_string())?;
    let mut differences = 0;
    for seed in first..first + count {
        if let Some(difference) = trial.compare(seed).map_err(|e| e.to_string())? {
            differences += 1;
            println!("{difference}\n");
        }
        let done = seed - first + 1;
        if done % 20 == 0 {
            println!("{done} of {count} sessions, {differences} differ, {} s", begin.elapsed().as_secs());
        }
    }
    println!("{count} sessions compared, {differences} differences found");
    Ok(differences)
}

fn main() -> ExitCode {
    match run() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::from(2)
        }
    }
}
