//! `tare govern`: a budget for the overhead of any server's Performance Schema.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Value, json};
use signal_hook::consts::SIGXFSZ;
use tare_budget::board::percent;
use tare_budget::governor::Slowed;
use tare_budget::{Budget, Decision, Kind};
use tare_lab::interrupt::Interrupt;
use tare_outlets::Address;
use tare_outlets::govern::{self, GovernorEvent, Notice, Orders};

use crate::durations;
use crate::exit::CLOSED;
use crate::outlet::Reach;
use crate::prices::{PriceClock, between, quality, times};
use crate::state;

/// Most moves of a decision that are shown to people; the file has all.
const SHOWN: usize = 20;

/// Keep the overhead of any MySQL's or MariaDB's Performance Schema within a budget
///
/// Connects to a server with its own Performance Schema switched on and takes a sample every few seconds:
/// events of each instrument since the last sample, times the cost per event, divided by the CPU time the
/// server used. While that exceeds the budget, it switches off what is worth least for its cost, and on again
/// when there is room. Statements, transactions and errors go last, if nothing else keeps the budget. On
/// every change, it reports what is "left visible" and what is "switched off", by kinds of instruments. What
/// was off at its start stays off; what somebody else sets meanwhile is left alone. Ctrl-C and SIGTERM
/// restore everything. So does an error when standard output or the --output file is written.
/// docs/explanation/budget.md describes the guarantees, and the order in which things are switched off.
///
/// It uses the server's own port or socket (--dsn, --dsn-file or TARE_DSN). A server with tare keeps a budget
/// itself: --socket and --datadir are refused.
///
/// The account needs SELECT on performance_schema.* and UPDATE on performance_schema.setup_instruments and
/// setup_consumers; while a MariaDB is read-only also READ_ONLY ADMIN (before 10.5: SUPER).
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare govern --dsn 'mysql://governor@localhost?socket=/run/mysqld/mysqld.sock' --budget 2%\n  \
    TARE_DSN=mysql://governor:secret@db1:3306 tare govern --budget 1% --cores 16 -o decisions.jsonl\n  \
    tare govern --dsn-file /etc/tare/db1 --keep 'wait/io/file/%' --keep statements_digest\n  \
    tare govern --dsn-file /etc/tare/db1 --put-back     # after a kill -9")]
pub(crate) struct Govern {
    #[command(flatten)]
    reach: Reach,
    /// Highest overhead, as a share of the CPU time the server uses
    #[arg(long, value_name = "SHARE", default_value = "2%", value_parser = budget)]
    budget: Budget,
    /// Highest overhead of connections, as a share of the CPU time they use themselves: 95% of that time is
    /// in connections with no more overhead than this. Kept together with --budget; only on the server's
    /// machine
    #[arg(long, value_name = "SHARE", value_parser = budget)]
    budget_p95: Option<Budget>,
    #[command(flatten)]
    clock: PriceClock,
    /// Least time between two samples
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = durations::between("1s", "10m"))]
    interval: Duration,
    /// Leave alone what this pattern matches, where `%` is any text; may be repeated
    #[arg(long, value_name = "PATTERN")]
    keep: Vec<String>,
    /// Also append every decision to this file, as JSON Lines
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Folder of the file with the original settings [default: /var/lib/tare for root, else
    /// ~/.local/state/tare; systemd's STATE_DIRECTORY, if that is set]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Leave the settings as they are at the end
    #[arg(long)]
    leave: bool,
    /// Only restore what a killed governor has left
    #[arg(long, conflicts_with_all = ["leave", "keep", "output"])]
    put_back: bool,
}

fn budget(text: &str) -> Result<Budget, String> {
    Budget::read(text).ok_or_else(|| format!("{} is allowed", Budget::ALLOWED))
}

/// Runs the command.
pub(crate) fn govern(arguments: &Govern, interrupt: &Interrupt) -> Result<ExitCode> {
    // A failed write returns an error instead of ending the program.
    signal_hook::flag::register(SIGXFSZ, Arc::default())?;
    let address = arguments.reach.address()?;
    let teller = RefCell::new(Teller::new(address.to_string(), arguments)?);
    run(arguments, address, &teller, interrupt)?;
    teller.into_inner().end()
}

fn run(arguments: &Govern, address: Address, teller: &RefCell<Teller>, interrupt: &Interrupt) -> Result<()> {
    let folder = arguments.state.clone().map_or_else(state::folder, Ok)?;
    let mut tell = |event| teller.borrow_mut().tell(event);
    if arguments.put_back {
        govern::put_back(address, &folder, &mut tell)?;
        return Ok(());
    }
    let orders = Orders {
        budget_p95: arguments.budget_p95.map(Budget::share),
        keep: arguments.keep.clone(),
        folder,
        ..arguments.clock.orders(address, arguments.budget.share(), arguments.interval)?
    };
    let machine = arguments.clock.machine()?;
    let mut wait = |time| goes_on(teller, interrupt, time);
    govern::govern(&orders, &machine, arguments.leave, &mut wait, &mut tell)?;
    Ok(())
}

/// Waits that long. Returns false if interrupted, or if output cannot be written any more.
fn goes_on(teller: &RefCell<Teller>, interrupt: &Interrupt, time: Duration) -> bool {
    teller.borrow().is_written() && interrupt.sleep(time).is_ok()
}

/// A destination of lines, until one cannot be written.
struct Channel {
    name: String,
    to: Box<dyn Write>,
    failed: Option<io::Error>,
}

impl Channel {
    fn new(name: impl Into<String>, to: impl Write + 'static) -> Channel {
        Channel { name: name.into(), to: Box::new(to), failed: None }
    }

    fn line(&mut self, text: &str) {
        if self.failed.is_none() {
            self.failed = self.to.write_all(format!("{text}\n").as_bytes()).err();
        }
    }
}

/// Reports the governor's events to people, and to a file. A failed write ends it.
struct Teller {
    server: String,
    budget: f64,
    budget_p95: Option<Budget>,
    people: Channel,
    json: Option<Channel>,
    /// Whether it was reported that a budget cannot be kept.
    said: bool,
    /// The last report of what is visible.
    visible: Option<String>,
}

/// Lists the kinds of which something is on: all, or so many of so many instruments.
fn left_visible(visible: &BTreeMap<Kind, (usize, usize)>) -> Vec<String> {
    let left = visible.iter().filter(|(_, (on, _))| *on > 0);
    left.map(|(kind, (on, all))| part_of(*kind, *on, *all)).collect()
}

/// Lists the kinds of which something is off.
fn switched_off(visible: &BTreeMap<Kind, (usize, usize)>) -> Vec<String> {
    let off = visible.iter().filter(|(_, (on, all))| on < all);
    off.map(|(kind, (on, all))| part_of(*kind, all - on, *all)).collect()
}

fn part_of(kind: Kind, count: usize, all: usize) -> String {
    if count == all { kind.to_string() } else { format!("{kind} ({count} of {all})") }
}

fn listed(kinds: &[String]) -> String {
    if kinds.is_empty() { "nothing".to_owned() } else { kinds.join(", ") }
}

impl Teller {
    fn new(server: String, arguments: &Govern) -> Result<Teller> {
        let open = |path: &PathBuf| {
            let file = OpenOptions::new().create(true).append(true).open(path);
            let file = file.with_context(|| format!("opening {}", path.display()))?;
            anyhow::Ok(Channel::new(path.display().to_string(), file))
        };
        let json = arguments.output.as_ref().map(open).transpose()?;
        let people = Channel::new("standard output", io::stdout());
        let (budget, budget_p95) = (arguments.budget.share(), arguments.budget_p95);
        Ok(Teller { server, budget, budget_p95, people, json, said: false, visible: None })
    }

    /// Returns whether everything was written so far.
    fn is_written(&self) -> bool {
        std::iter::once(&self.people).chain(&self.json).all(|channel| channel.failed.is_none())
    }

    /// Returns the command's result once everything is restored.
    fn end(self) -> Result<ExitCode> {
        let is_closed = |error: &io::Error| error.kind() == ErrorKind::BrokenPipe;
        if self.people.failed.as_ref().is_some_and(is_closed) {
            return Ok(ExitCode::from(CLOSED));
        }
        for Channel { name, failed, .. } in std::iter::once(self.people).chain(self.json) {
            if let Some(error) = failed {
                bail!("writing to {name}: {error}; it has ended for that, as on Ctrl-C");
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Formats the budgets.
    fn budgets(&self) -> String {
        let p95 = self.budget_p95.map(|it| format!(" and the budget-p95 of {it}"));
        format!("budget of {}{}", percent(self.budget), p95.unwrap_or_default())
    }

    fn tell(&mut self, event: GovernorEvent) {
        match event {
            GovernorEvent::Began { version, prices, instruments, held, meter, state } => {
                let first = format!("{} ({version}): a {}, of {meter}", self.server, self.budgets());
                self.people.line(&first);
                self.people.line(&quality(&prices, None));
                self.people.line(&format!(
                    "{instruments} instruments and families of consumers are on; {held} of them are left alone"
                ));
                self.people.line(&format!("what is to be put back is kept in {}", state.display()));
                self.write("began", json!({ "version": version, "on": instruments, "held": held }));
            }
            GovernorEvent::Noticed(notice) => self.notice(&notice),
            GovernorEvent::Looked { decision, by_persons, fixed, visible, idle } => {
                if !idle {
                    self.decision(&decision, by_persons, fixed);
                }
                self.visible(&visible);
            }
            GovernorEvent::Lost(why) => {
                self.line(&format!("{why}; waiting for it"));
                self.write("lost", json!({ "why": why }));
            }
            GovernorEvent::Back { restarted } => {
                let how =
                    if restarted { "it was restarted: its options count again" } else { "the same run" };
                self.line(&format!("the server is back: {how}"));
                self.write("back", json!({ "restarted": restarted }));
            }
            GovernorEvent::PutBack(done) => {
                self.line(&format!("{} rows put back as they were", done.rows));
                for name in &done.left {
                    self.line(&format!("{name}: left as somebody else has set it"));
                }
                self.write("put back", json!({ "rows": done.rows, "left": done.left }));
            }
            GovernorEvent::Left(rows) => {
                self.line(&format!("{rows} rows stay as they are"));
                self.write("left", json!({ "rows": rows }));
            }
        }
    }

    fn notice(&mut self, notice: &Notice) {
        let (name, what) = match notice {
            Notice::TakenOver { rows } => {
                self.line(&format!(
                    "a governor that was killed left {rows} rows: taken over, they are put back in the end (now: --put-back)"
                ));
                return self.write("taken over", json!({ "rows": rows }));
            }
            Notice::Person { name } => (name, "somebody else has set it: left alone from now on"),
            Notice::Fixed { name } => (name, "cannot be switched while the server runs: left alone"),
            Notice::Vanished { name } => (name, "is gone from the server"),
        };
        self.line(&format!("{name}: {what}"));
        self.write("noticed", json!({ "name": name, "what": what }));
    }

    fn decision(&mut self, decision: &Decision, by_persons: f64, fixed: f64) {
        let share = decision.account.share();
        let slowed = |it: Slowed| format!("; connections slowed by {}", percent(it.share));
        let slowed = decision.slowed.map(slowed).unwrap_or_default();
        if !decision.moves.is_empty() {
            let here =
                decision.account.machine.map(|it| format!("; prices {}", times(it))).unwrap_or_default();
            self.line(&format!("{}, budget {}{slowed}{here}", between(share), percent(self.budget)));
        }
        for (nth, it) in decision.moves.iter().enumerate() {
            if nth < SHOWN {
                self.people.line(&format!("  {}: {} to {}; {}", it.switch, it.from, it.to, it.why));
            }
            let figures = json!({
                "instrument": it.switch, "from": it.from.name(), "to": it.to.name(), "why": it.why.to_string(),
                "share": share.ns, "low": share.low, "high": share.high, "budget": self.budget,
                "slowed": decision.slowed.map(|it| it.share), "machine": decision.account.machine,
            });
            self.write("moved", figures);
        }
        if decision.moves.len() > SHOWN {
            let more = decision.moves.len() - SHOWN;
            self.people.line(&format!("  and {more} more, which make less of a difference"));
        }
        let is_known = self.budget_p95.is_none() || decision.slowed.is_some();
        if decision.can_be_kept {
            if is_known && std::mem::take(&mut self.said) {
                self.line("the budget can be kept again");
                self.write("can be kept", json!({ "share": share.ns }));
            }
        } else if !std::mem::replace(&mut self.said, true) {
            let own = decision.account.own / decision.account.cpu.max(1.0);
            self.line(&format!(
                "the {} cannot be kept under this load: {} is left when everything is off that may be; {} is what \
                 somebody has set, {} cannot be switched, {} is reading the counts, the rest is what an instrument costs that is off{slowed}",
                self.budgets(), percent(decision.predicted), percent(by_persons), percent(fixed), percent(own)
            ));
            let figures = json!({
                "predicted": decision.predicted, "persons": by_persons, "fixed": fixed, "own": own,
                "slowed": decision.slowed.map(|it| it.predicted),
            });
            self.write("cannot be kept", figures);
        }
    }

    /// Reports what is visible, if that has changed.
    fn visible(&mut self, visible: &BTreeMap<Kind, (usize, usize)>) {
        let (left, off) = (left_visible(visible), switched_off(visible));
        let text = format!("left visible: {}; switched off: {}", listed(&left), listed(&off));
        if self.visible.as_ref() != Some(&text) {
            self.line(&text);
            self.write("visible", json!({ "left": left, "off": off }));
            self.visible = Some(text);
        }
    }

    fn line(&mut self, text: &str) {
        self.people.line(&format!("{}  {text}", now()));
    }

    fn write(&mut self, event: &str, figures: Value) {
        let Some(file) = &mut self.json else { return };
        let mut line = json!({ "time": now(), "server": self.server, "event": event });
        if let (Value::Object(line), Value::Object(figures)) = (&mut line, figures) {
            line.extend(figures);
        }
        file.line(&line.to_string());
    }
}

fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    /// Accepts so many lines, and then fails with this error.
    struct Short {
        lines: usize,
        error: ErrorKind,
        taken: Rc<RefCell<String>>,
    }

    impl Write for Short {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.lines = self.lines.checked_sub(1).ok_or(self.error)?;
            self.taken.borrow_mut().push_str(&String::from_utf8_lossy(bytes));
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn teller(people: Short, json: Option<Short>) -> RefCell<Teller> {
        RefCell::new(Teller {
            server: "db1:3306".to_owned(),
            budget: 0.01,
            budget_p95: None,
            people: Channel::new("standard output", people),
            json: json.map(|json| Channel::new("/srv/decisions", json)),
            said: false,
            visible: None,
        })
    }

    fn short(lines: usize, error: ErrorKind) -> (Short, Rc<RefCell<String>>) {
        let taken = Rc::default();
        (Short { lines, error, taken: Rc::clone(&taken) }, taken)
    }

    /// Returns whether it continues after an event of one line.
    fn goes_on_after(teller: &RefCell<Teller>, rows: usize) -> bool {
        teller.borrow_mut().tell(GovernorEvent::Left(rows));
        goes_on(teller, &Interrupt::default(), Duration::ZERO)
    }

    #[test]
    fn a_standard_output_that_is_closed_ends_it_as_an_interrupt_does_and_the_file_goes_on() {
        let (people, said) = short(1, ErrorKind::BrokenPipe);
        let (json, written) = short(9, ErrorKind::StorageFull);
        let teller = teller(people, Some(json));
        assert!(goes_on_after(&teller, 1));
        assert!(!goes_on_after(&teller, 2));
        assert!(!goes_on_after(&teller, 3), "it has ended");
        assert!(said.borrow().ends_with("1 rows stay as they are\n"), "{}", said.borrow());
        assert_eq!(written.borrow().lines().count(), 3, "{}", written.borrow());
        let code = teller.into_inner().end().expect("no error");
        assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::from(CLOSED)));
    }

    #[test]
    fn a_file_that_is_full_ends_it_with_its_name_and_people_are_told_on() {
        let (people, said) = short(9, ErrorKind::BrokenPipe);
        let (json, written) = short(1, ErrorKind::StorageFull);
        let teller = teller(people, Some(json));
        assert!(goes_on_after(&teller, 1));
        assert!(!goes_on_after(&teller, 2));
        assert_eq!((said.borrow().lines().count(), written.borrow().lines().count()), (2, 1));
        let error = teller.into_inner().end().expect_err("it is full").to_string();
        assert!(error.starts_with("writing to /srv/decisions: "), "{error}");
    }

    #[test]
    fn an_output_that_is_full_is_an_error_and_one_that_took_everything_is_none() {
        let full = teller(short(0, ErrorKind::StorageFull).0, None);
        assert!(!goes_on_after(&full, 1));
        let error = full.into_inner().end().expect_err("it is full").to_string();
        assert!(error.starts_with("writing to standard output: "), "{error}");
        let roomy = teller(short(9, ErrorKind::StorageFull).0, None);
        assert!(goes_on_after(&roomy, 1));
        let code = roomy.into_inner().end().expect("no error");
        assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::SUCCESS));
    }

    #[test]
    fn what_is_seen_is_said_by_kind_and_once() {
        let (people, said) = short(9, ErrorKind::BrokenPipe);
        let (json, written) = short(9, ErrorKind::BrokenPipe);
        let teller = teller(people, Some(json));
        let all = BTreeMap::from([(Kind::Query, (2, 2)), (Kind::FileIo, (12, 40)), (Kind::Mutex, (0, 9))]);
        for _ in 0..2 {
            teller.borrow_mut().visible(&all);
        }
        teller.borrow_mut().visible(&BTreeMap::from([(Kind::Query, (2, 2))]));
        let lines: Vec<String> = said.borrow().lines().map(|line| line[22..].to_owned()).collect();
        assert_eq!(
            lines,
            [
                "left visible: query, file-io (12 of 40); switched off: file-io (28 of 40), mutex",
                "left visible: query; switched off: nothing",
            ]
        );
        assert!(written.borrow().contains(r#""off":["file-io (28 of 40)","mutex"]"#), "{}", written.borrow());
    }
}
