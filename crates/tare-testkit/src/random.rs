//! Random sessions, and what they leave in the tables of the built-in and of the provider under test.
//!
//! A seed makes a session of `scripts/sessions.grammar`: a script in the words of the oracle's own. Both servers run it
//! side by side, and their figures are held against each other as the oracle's are. Where they differ the session is
//! run again, for what the built-in does not repeat says nothing; what stays is a finding, whose script is cut down to
//! the statements it takes.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use crate::capture::Pass;
use crate::declaration::Declaration;
use crate::difference::{Explanations, Verdict};
use crate::figure::{Capture, compare};
use crate::grammar::{Grammar, Random};
use crate::history::Clocks;
use crate::script::{self, Script};
use crate::server::{Server, Settings};
use crate::subject::Provider;
use crate::{Failure, Result};

/// How often a session is run at most to see whether a difference is one of chance.
const ROUNDS: usize = 5;

/// One session in so many changes character sets.
const CHARSETS: u64 = 8;

/// Makes sessions.
#[derive(Debug)]
pub struct Sessions(Grammar);

impl Sessions {
    /// Those of the grammar that ships.
    ///
    /// # Errors
    /// When there is a mistake in it.
    pub fn read() -> Result<Sessions> {
        let path = script::folder().join("sessions.grammar");
        let text = std::fs::read_to_string(&path).map_err(Failure::io(path.display().to_string()))?;
        let grammar = Grammar::parse(&text, &["place"]);
        grammar.map(Sessions).map_err(|e| Failure::Setup(format!("{}: {e}", path.display())))
    }

    /// The session of a seed.
    ///
    /// # Errors
    /// When the grammar makes what is no script.
    pub fn session(&self, seed: u64) -> Result<Script> {
        let (kind, rule) =
            if seed % CHARSETS == 0 { ("charset", "charset_session") } else { ("random", "session") };
        let name = format!("{kind}_{seed}");
        let text = self.0.expand(rule, &[("place", &format!("o_{name}"))], &mut Random::new(seed));
        Script::parse(&name, &format!("-- @lenient\n{text}\n"))
    }
}

/// Two servers side by side.
#[derive(Debug)]
pub struct Pair {
    reference: Side,
    subject: Side,
}

/// A server, and the thread that asks it.
#[derive(Debug)]
struct Side {
    scripts: Option<Sender<Script>>,
    captures: Receiver<Result<Capture>>,
    thread: Option<JoinHandle<()>>,
}

/// What is held against each other, and how.
#[derive(Debug)]
pub struct Rules {
    /// What is looked at.
    pub declaration: Declaration,
    /// What is known to differ.
    pub explanations: Explanations,
}

impl Pair {
    /// Starts both.
    pub fn start(rules: &'static Rules) -> Pair {
        Pair {
            reference: Side::start(Provider::BuiltIn, rules),
            subject: Side::start(Provider::under_test(), rules),
        }
    }

    /// Runs a script on both.
    ///
    /// # Errors
    /// When a server fails.
    pub fn pass(&self, script: &Script) -> Result<(Capture, Capture)> {
        self.reference.send(script)?;
        self.subject.send(script)?;
        let reference = self.reference.capture();
        Ok((reference?, self.subject.capture()?))
    }

    /// What a script's figures differ in that nobody explained.
    ///
    /// # Errors
    /// When a server fails.
    pub fn compare(&self, script: &Script, rules: &Rules) -> Result<Finding> {
        let (mut references, mut subjects) = (Vec::new(), Vec::new());
        let mut round = 0;
        loop {
            let (reference, subject) = self.pass(script)?;
            references.push(reference);
            subjects.push(subject);
            round += 1;
            let comparison = compare(&references, &subjects);
            let verdict = rules.explanations.judge(&comparison, |table| rules.declaration.repeats(table));
            let always = |violation: &String| subjects.iter().all(|c| c.violations.contains(violation));
            let violations: Vec<String> = match subjects.first() {
                Some(first) => first.violations.iter().filter(|v| always(v)).cloned().collect(),
                None => Vec::new(),
            };
            if round == ROUNDS || (verdict.unexplained.is_empty() && violations.is_empty()) {
                return Ok(Finding { equal: comparison.equal, verdict, violations, rounds: round });
            }
        }
    }
}

/// What comparing a session gave.
#[derive(Debug)]
pub struct Finding {
    /// Figures that are equal.
    pub equal: usize,
    /// Those that are not.
    pub verdict: Verdict,
    /// Rows of the subject that contradict themselves.
    pub violations: Vec<String>,
    /// How often the session was run.
    pub rounds: usize,
}

impl Finding {
    /// True when nothing is left to explain.
    pub fn is_clean(&self) -> bool {
        self.verdict.unexplained.is_empty() && self.violations.is_empty()
    }

    /// Tables that differ.
    fn tables(&self) -> Vec<&str> {
        self.verdict.unexplained.iter().map(|unequal| unequal.figure.table.as_str()).collect()
    }

    /// True when one of the tables that differ differs here, too.
    fn is_like(&self, other: &Finding) -> bool {
        let tables = other.tables();
        self.tables().iter().any(|table| tables.contains(table))
            || (!self.violations.is_empty() && !other.violations.is_empty())
    }
}

impl Side {
    fn start(provider: Provider, rules: &'static Rules) -> Side {
        let (scripts, work) = channel();
        let (done, captures) = channel();
        let thread = std::thread::spawn(move || {
            if let Err(failure) = serve(provider, rules, &work, &done) {
                // Nobody listens who does not want to know.
                let _ = done.send(Err(failure));
            }
        });
        Side { scripts: Some(scripts), captures, thread: Some(thread) }
    }

    fn send(&self, script: &Script) -> Result<()> {
        // A side that has ended has left its reason, which is found when its answer is asked for.
        let _ = self.scripts.as_ref().map(|scripts| scripts.send(script.clone()));
        Ok(())
    }

    fn capture(&self) -> Result<Capture> {
        self.captures.recv().map_err(|_| Failure::Setup("the server's side has ended".into()))?
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        self.scripts = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Histories long enough for a session, and no statistics that are made anew in the background.
fn settings(provider: Provider) -> Settings {
    let sizes = [("waits", 60_000), ("stages", 10_000), ("statements", 5_000), ("transactions", 2_000)];
    let settings = Settings::new(provider)
        .option("--innodb-stats-auto-recalc=OFF")
        // Nobody waits long for whom nobody will make way.
        .option("--innodb-lock-wait-timeout=0")
        .option("--lock-wait-timeout=1")
        .tare_option("memory-max", "2G");
    sizes.into_iter().fold(settings, |settings, (kind, size)| {
        settings.provider_option(&format!("events-{kind}-history-long-size"), size)
    })
}

fn serve(
    provider: Provider,
    rules: &Rules,
    work: &Receiver<Script>,
    done: &Sender<Result<Capture>>,
) -> Result<()> {
    let clocks = if provider.is_tare() { Clocks::One } else { Clocks::WaitsApart };
    let misnamed = if provider.is_tare() { &[][..] } else { &rules.explanations.misnamed };
    let server = Server::start(settings(provider))?;
    let pass =
        Pass { server: &server, scripts: &[], clocks, misnamed, declaration: &rules.declaration };
    let watch = pass.watch()?;
    let mut schema = server.schema()?;
    for script in work {
        let mut capture = Capture::default();
        let ran = watch.script(&script, &mut schema, &mut capture);
        let ran = ran.and_then(|()| watch.clear(&script, &mut schema));
        let ran = ran.map_err(|e| Failure::Setup(format!("{e}\n{}", server.log())));
        let failed = ran.is_err();
        if done.send(ran.map(|()| capture)).is_err() || failed {
            break;
        }
    }
    Ok(())
}

/// Cuts steps from a script as long as it goes on to differ in one of the same tables.
///
/// # Errors
/// When a server fails.
pub fn shrink(script: &Script, finding: &Finding, pair: &Pair, rules: &Rules) -> Result<(Script, Finding)> {
    let mut smallest = (script.clone(), None);
    let mut cut = script.steps.len() / 2;
    while cut > 0 {
        let mut at = 0;
        while at < smallest.0.steps.len() {
            let mut shorter = smallest.0.clone();
            shorter.steps.drain(at..(at + cut).min(shorter.steps.len()));
            let seen = pair.compare(&shorter, rules)?;
            if !shorter.steps.is_empty() && seen.is_like(finding) {
                smallest = (shorter, Some(seen));
            } else {
                at += cut;
            }
        }
        cut /= 2;
    }
    match smallest {
        (script, Some(finding)) => Ok((script, finding)),
        (script, None) => {
            let finding = pair.compare(&script, rules)?;
            Ok((script, finding))
        }
    }
}

/// What the oracle's files say.
///
/// # Errors
/// When they cannot be read.
pub fn rules() -> Result<Rules> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("expected");
    let host = crate::host::Host::find()?;
    let declaration = Declaration::read(&folder.join("comparison.toml"))?;
    Ok(Rules {
        declaration: if host.has_federated() { declaration } else { declaration.on_endpoint() },
        explanations: Explanations::read(&folder.join("differences.toml"))?.for_host(&host),
    })
}
