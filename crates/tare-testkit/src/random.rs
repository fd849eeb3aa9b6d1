//! Random sessions, and what they leave in the tables of the built-in and of the provider under test.
//!
//! A seed makes a session from `scripts/sessions.grammar`: a script in the oracle's syntax. Both servers run
//! it side by side, and their figures are compared as by the oracle. If they differ, the session is repeated,
//! because what the built-in does not repeat proves nothing. What remains is a finding, whose script is
//! reduced to the necessary statements.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use crate::capture::Pass;
use crate::declaration::Declaration;
use crate::difference::{ComparisonVerdict, Explanations};
use crate::figure::{Capture, Unequal, compare, report};
use crate::grammar::{Grammar, Random};
use crate::history::ClockSources;
use crate::script::{self, Script};
use crate::server::{Server, StartSettings};
use crate::subject::TestProvider;
use crate::{Failure, Result};

/// Most runs of a session to see whether a difference is by chance.
const ROUNDS: usize = 5;

/// Kinds of sessions and their rules, in rotation. A known difference of one kind is expected in that only.
const KINDS: [(&str, &str); 8] = [
    ("random", "session"),
    ("random", "session"),
    ("random", "session"),
    ("random_charset", "charset_session"),
    ("random", "session"),
    ("random", "session"),
    ("random", "session"),
    ("random_flush", "flush_session"),
];

/// A generator of sessions.
#[derive(Debug)]
struct Sessions(Grammar);

impl Sessions {
    /// Reads the shipped grammar.
    fn read() -> Result<Sessions> {
        let path = script::folder().join("sessions.grammar");
        let text = std::fs::read_to_string(&path).map_err(Failure::io(path.display().to_string()))?;
        let grammar = Grammar::parse(&text, &["place"]);
        grammar.map(Sessions).map_err(|e| Failure::Setup(format!("{}: {e}", path.display())))
    }

    /// Returns the session of a seed.
    fn session(&self, seed: u64) -> Result<Script> {
        let (kind, rule) = KINDS[(seed % KINDS.len() as u64) as usize];
        let name = format!("{kind}_{seed}");
        let text = self.0.expand(rule, &[("place", &format!("o_{name}"))], &mut Random::new(seed));
        Script::parse(&name, &format!("-- @lenient\n{text}\n"))
    }
}

/// Two servers side by side.
#[derive(Debug)]
struct ServerPair {
    reference: Side,
    subject: Side,
}

/// A server, and the thread that queries it.
#[derive(Debug)]
struct Side {
    /// Its process, sent once when it answers; closed without one if it does not start.
    process: Receiver<u32>,
    scripts: Option<Sender<Script>>,
    captures: Receiver<Result<Capture>>,
    thread: Option<JoinHandle<()>>,
}

/// What is compared, and how.
#[derive(Debug)]
struct ComparisonRules {
    /// What is compared.
    declaration: Declaration,
    /// Known differences.
    explanations: Explanations,
}

impl ServerPair {
    fn start(rules: &'static ComparisonRules) -> ServerPair {
        // Repeated if the ids passed a power of 16 between the two: then both are beyond it.
        let mut pairs = (0..STARTS).map(|_| ServerPair::start_once(rules));
        pairs.find(ServerPair::names_alike).unwrap_or_else(|| ServerPair::start_once(rules))
    }

    fn start_once(rules: &'static ComparisonRules) -> ServerPair {
        ServerPair {
            reference: Side::start(TestProvider::BuiltIn, rules),
            subject: Side::start(TestProvider::under_test(), rules),
        }
    }

    /// Waits for both. Returns whether names of temporary tables have equal length on both: they contain the
    /// process id in hexadecimal, which affects allocated memory.
    fn names_alike(&self) -> bool {
        let digits = |side: &Side| side.process.recv().map(|id| format!("{id:x}").len());
        digits(&self.reference) == digits(&self.subject)
    }

    /// Runs a script on both.
    fn pass(&self, script: &Script) -> Result<(Capture, Capture)> {
        self.reference.send(script);
        self.subject.send(script);
        let reference = self.reference.capture();
        Ok((reference?, self.subject.capture()?))
    }

    /// Returns the unexplained differences of a script.
    fn compare(&self, script: &Script, rules: &ComparisonRules) -> Result<SessionFinding> {
        let (mut references, mut subjects) = (Vec::new(), Vec::new());
        loop {
            let (reference, subject) = self.pass(script)?;
            references.push(reference);
            subjects.push(subject);
            let comparison = compare(&references, &subjects);
            let verdict = rules.explanations.judge(&comparison, |table| rules.declaration.repeats(table));
            // A row that contradicts itself is wrong, however often it occurs, unless the server itself
            // causes it.
            let passes = references.iter().zip(&subjects);
            let violations: Vec<String> = passes.flat_map(|(own, it)| beyond(own, it)).collect();
            if subjects.len() == ROUNDS || verdict.is_settled() {
                return Ok(SessionFinding { verdict, violations });
            }
        }
    }
}

/// Returns contradictions of the subject, of kinds of which the reference has fewer.
fn beyond(reference: &Capture, subject: &Capture) -> Vec<String> {
    // The script's connection and the problem, without the row.
    let kind = |violation: &str| -> String {
        let said = violation.split(" [").next().unwrap_or_default();
        said.split(": ").take(2).collect::<Vec<_>>().join(": ")
    };
    let count = |of: &Capture, wanted: &str| of.violations.iter().filter(|v| kind(v) == wanted).count();
    let more = |violation: &&String| {
        let kind = kind(violation);
        count(subject, &kind) > count(reference, &kind)
    };
    subject.violations.iter().filter(more).cloned().collect()
}

/// The result of comparing a session.
#[derive(Debug)]
struct SessionFinding {
    /// Figures that differ.
    verdict: ComparisonVerdict,
    /// Rows of the subject that contradict themselves.
    violations: Vec<String>,
}

impl SessionFinding {
    /// Returns whether nothing is left to explain.
    fn is_clean(&self) -> bool {
        self.differences().next().is_none() && self.violations.is_empty()
    }

    /// Describes the differences.
    fn report(&self) -> String {
        let differences: Vec<Unequal> = self.differences().cloned().collect();
        report(&differences, 20) + &self.violations.join("\n")
    }

    /// Returns the tables that differ.
    fn tables(&self) -> Vec<&str> {
        self.differences().map(|unequal| unequal.figure.table.as_str()).collect()
    }

    /// Returns what is wrong, always or in some passes.
    fn differences(&self) -> impl Iterator<Item = &Unequal> {
        self.verdict.unexplained.iter().chain(&self.verdict.unsteady)
    }

    /// Returns whether one of the tables that differ here differs there, too.
    fn is_like(&self, other: &SessionFinding) -> bool {
        let tables = other.tables();
        self.tables().iter().any(|table| tables.contains(table))
            || (!self.violations.is_empty() && !other.violations.is_empty())
    }
}

impl Side {
    fn start(provider: TestProvider, rules: &'static ComparisonRules) -> Side {
        let (scripts, work) = channel();
        let (done, captures) = channel();
        let (started, process) = channel();
        let thread = std::thread::spawn(move || {
            if let Err(failure) = serve(provider, rules, &started, &work, &done) {
                // The receiver may be gone.
                let _ = done.send(Err(failure));
            }
        });
        Side { process, scripts: Some(scripts), captures, thread: Some(thread) }
    }

    fn send(&self, script: &Script) {
        // A side that has ended has left its reason, which is found when its answer is requested.
        let _ = self.scripts.as_ref().map(|scripts| scripts.send(script.clone()));
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

/// Returns settings with histories long enough for a session and for the queries about it.
fn settings(provider: TestProvider) -> StartSettings {
    let sizes = [("waits", 200_000), ("stages", 40_000), ("statements", 20_000), ("transactions", 5_000)];
    let settings = StartSettings::compared(provider)
        // Executions in the built-in do not have the digest of what was prepared.
        .tare_option("prepared-digests", "OFF")
        // Nobody waits for locks that will not be released. While a session waits for a metadata lock,
        // InnoDB's purge requests the table again and again, with a million stages per second, for which no
        // history is long enough.
        .option("--innodb-lock-wait-timeout=0")
        .option("--lock-wait-timeout=0")
        // Nothing has to survive the server.
        .option("--innodb-flush-log-at-trx-commit=0")
        .option("--innodb-flush-method=nosync")
        .option("--sync-frm=OFF")
        .tare_option("memory-max", "2G");
    sizes.into_iter().fold(settings, |settings, (kind, size)| {
        settings.provider_option(&format!("events-{kind}-history-long-size"), size)
    })
}

fn serve(
    provider: TestProvider,
    rules: &ComparisonRules,
    started: &Sender<u32>,
    work: &Receiver<Script>,
    done: &Sender<Result<Capture>>,
) -> Result<()> {
    let clocks = if provider.is_tare() { ClockSources::One } else { ClockSources::WaitsApart };
    let misnamed = if provider.is_tare() { &[][..] } else { &rules.explanations.misnamed };
    let server = Server::start(settings(provider.clone()))?;
    // Nobody receives it if the pair is given up.
    let _ = started.send(server.process()?.id());
    let pass = Pass { server: &server, scripts: &[], clocks, misnamed, declaration: &rules.declaration };
    let watch = pass.watch()?;
    let mut schema = server.schema()?;
    for script in work {
        let mut capture = Capture::default();
        let ran = watch.script(&script, &mut schema, &mut capture);
        let ran = ran.and_then(|()| watch.clear(&script, &mut schema));
        let ran = ran.map_err(|e| Failure::Setup(format!("{provider:?}: {e}\n{}", end_of(&server.log()))));
        let failed = ran.is_err();
        if done.send(ran.map(|()| capture)).is_err() || failed {
            break;
        }
    }
    Ok(())
}

/// Returns the last lines of a log, where a failed server gives the reason.
fn end_of(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

/// Runs session after session on a pair, which is restarted now and then.
#[derive(Debug)]
pub struct Trial {
    sessions: Sessions,
    rules: &'static ComparisonRules,
    pair: ServerPair,
    /// Number of sessions that the pair has run.
    seen: u64,
}

/// Sessions that a pair runs before it is restarted.
const LIFE: u64 = 100;

/// Most starts of a pair before its names may differ.
const STARTS: usize = 3;

impl Trial {
    /// Reads the shipped grammar and expectations.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn new() -> Result<Trial> {
        // Lives as long as the threads of the last pair; there is one trial per process.
        let rules: &'static ComparisonRules = Box::leak(Box::new(rules()?));
        Ok(Trial { sessions: Sessions::read()?, rules, pair: ServerPair::start(rules), seen: 0 })
    }

    /// Compares the session of a seed. `None` if it leaves equal figures; else a description for people.
    ///
    /// # Errors
    /// When the grammar makes an invalid script.
    pub fn compare(&mut self, seed: u64) -> Result<Option<String>> {
        let script = self.sessions.session(seed)?;
        if self.seen == LIFE {
            self.renew();
        }
        self.seen += 1;
        let first = self.pair.compare(&script, self.rules);
        if first.as_ref().is_ok_and(SessionFinding::is_clean) {
            return Ok(None);
        }
        // Earlier sessions may be the cause, so it is repeated on new servers.
        let before = self.seen - 1;
        self.renew();
        let told = match self.pair.compare(&script, self.rules) {
            Ok(finding) if finding.is_clean() => {
                let differs = first.map_or_else(|failure| failure.to_string(), |finding| finding.report());
                format!("only after the {before} sessions before it:\n{differs}\n{script}")
            }
            Ok(finding) => self.smallest(&script, &finding),
            Err(failure) => format!("{failure}\n{script}"),
        };
        self.renew();
        Ok(Some(format!("seed {seed} (alone: make test-random ARGS=\"--seed {seed} --count 1\")\n{told}")))
    }

    fn renew(&mut self) {
        self.pair = ServerPair::start(self.rules);
        self.seen = 0;
    }

    /// Returns the script, reduced to the steps that are needed for a similar difference, and that
    /// difference.
    fn smallest(&mut self, script: &Script, finding: &SessionFinding) -> String {
        let mut smallest = script.clone();
        let mut differs = finding.report();
        let mut cut = script.steps.len() / 2;
        while cut > 0 {
            let mut at = 0;
            while at + cut <= smallest.steps.len() {
                let mut shorter = smallest.clone();
                shorter.steps.drain(at..at + cut);
                match self.pair.compare(&shorter, self.rules) {
                    Ok(seen) if seen.is_like(finding) => {
                        differs = seen.report();
                        smallest = shorter;
                    }
                    Ok(_) => at += cut,
                    Err(_) => {
                        self.renew();
                        at += cut;
                    }
                }
            }
            cut /= 2;
        }
        format!("{differs}\nin {} of its {} steps:\n{smallest}", smallest.steps.len(), script.steps.len())
    }
}

/// Reads the oracle's files.
fn rules() -> Result<ComparisonRules> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("expected");
    let host = crate::host::HostProgram::find()?;
    let declaration = Declaration::read(&folder.join("comparison.toml"))?;
    Ok(ComparisonRules {
        declaration: if host.has_federated() { declaration } else { declaration.on_endpoint() },
        explanations: Explanations::read(&folder.join("differences.toml"))?.for_host(&host),
    })
}
