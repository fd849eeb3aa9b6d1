//! The scrape of a server: it connects if needed, and reads the groups of tables one after the other.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::collector::{CollectorGroup, CollectorOptions, Scrape, TableSource};
use super::collectors;
use super::process;
use super::sample::{MetricDescription, MetricNumber, Samples};
use super::text;
use crate::notice;
use crate::source::{Address, Error, Kind, Source};

static UP: MetricDescription = MetricDescription::gauge("mysql_up", "Whether the MySQL server is up.");
static TARE_UP: MetricDescription = MetricDescription::gauge("tare_up", "Whether tare answers.");
static SUCCESS: MetricDescription = MetricDescription::gauge(
    "mysql_exporter_collector_success",
    "mysqld_exporter: Whether a collector succeeded.",
);
static DURATION: MetricDescription =
    MetricDescription::gauge("mysql_exporter_collector_duration_seconds", "Collector time duration.");
static LEFT_OUT: MetricDescription = MetricDescription::gauge(
    "tare_export_rows_left_out",
    "Rows that a collector left out of this scrape because of its limit.",
);
static BUILD: MetricDescription =
    MetricDescription::gauge("tare_export_build_info", "The exporter's version, as a label.");

/// The result of a scrape.
pub struct ScrapeResult {
    /// Samples of the server. Its counters started with the server.
    pub server: Samples,
    /// Samples of the exporter and of the scrape itself. Their counters started with the exporter.
    pub own: Samples,
    /// Start of the server, if known.
    pub started: Option<SystemTime>,
    /// End of the scrape.
    pub at: SystemTime,
}

impl ScrapeResult {
    /// Renders the page in Prometheus's text format.
    #[must_use]
    pub fn page(&self) -> String {
        text::page(&self.server) + &text::page(&self.own)
    }
}

/// The reason why a request that names collectors is refused.
#[derive(Debug, thiserror::Error)]
pub enum NotCollected {
    /// There is no such collector.
    #[error("collect[]={name}: there is no such collector; on are {on}; off are {off}")]
    Unknown {
        /// The given name.
        name: String,
        /// Names of the collectors that are on.
        on: String,
        /// Names of the collectors that are off.
        off: String,
    },
    /// The collector is off.
    #[error(
        "collect[]={name}: the collector is off; start tare export with --collect.{name}, or name one of {on}"
    )]
    Off {
        /// The given name.
        name: String,
        /// Names of the collectors that are on.
        on: String,
    },
}

/// Reads a server, one scrape after the other, over a persistent connection.
pub struct ServerScraper {
    address: Address,
    options: CollectorOptions,
    state: Mutex<ScraperState>,
}

#[derive(Default)]
struct ScraperState {
    source: Option<Source>,
    /// Start of the server.
    started: Option<SystemTime>,
    /// The last message about the server (under "") and about each collector, so that it is not repeated.
    said: BTreeMap<&'static str, String>,
}

impl ServerScraper {
    /// Creates a reader of this server, without connecting.
    #[must_use]
    pub fn new(address: Address, options: CollectorOptions) -> Self {
        Self { address, options, state: Mutex::default() }
    }

    /// Returns the server's address.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Returns the names of the collectors that are on.
    pub fn on(&self) -> Vec<&'static str> {
        collectors::all().filter(|it| self.options.has(it)).map(|it| it.name).collect()
    }

    /// Returns the collectors of a request: those it names, or all that are on.
    ///
    /// # Errors
    ///
    /// [`NotCollected`] if a name is not that of a collector that is on, because its missing metrics would
    /// not be noticed.
    pub fn choose(&self, named: &[String]) -> Result<Vec<&'static str>, NotCollected> {
        let mut wanted = self.on();
        if let Some(name) = named.iter().find(|name| !wanted.contains(&name.as_str())) {
            let (name, on) = (name.clone(), wanted.join(", "));
            let all = || collectors::all().map(|it| it.name);
            let off: Vec<&str> = all().filter(|it| !wanted.contains(it)).collect();
            return Err(match all().find(|it| *it == name) {
                Some(_) => NotCollected::Off { name, on },
                None => NotCollected::Unknown { name, on, off: off.join(", ") },
            });
        }
        wanted.retain(|name| named.is_empty() || named.iter().any(|it| it == name));
        Ok(wanted)
    }

    /// Reads what these collectors need. What cannot be read before the deadline is left out, and reported as
    /// a failure of its collectors.
    pub fn look(&self, wanted: &[&'static str], deadline: Instant) -> ScrapeResult {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut server, mut own) = (Samples::default(), Samples::default());
        let mut answers = Answers::default();
        let mut kind = None;
        for group in collectors::GROUPS {
            if !group.collectors.iter().any(|it| wanted.contains(&it.name)) {
                continue;
            }
            let begin = Instant::now();
            let read = if begin < deadline {
                self.read(&mut state, group, wanted)
            } else {
                Err(format!("{}: out of time", self.address))
            };
            let (found, failure) = match read {
                Ok(read) => {
                    kind = Some(read.kind);
                    server.extend(read.samples);
                    answers.left_out.extend(read.left_out);
                    (true, String::new())
                }
                Err(why) => (false, why),
            };
            let names = group.collectors.iter().map(|it| it.name).filter(|name| wanted.contains(name));
            for name in names {
                state.say(name, &failure);
                answers.collectors.push((name, found, begin.elapsed()));
            }
            if state.source.is_none() {
                break;
            }
        }
        let up = state.source.is_some();
        own.add(&UP, &[], up);
        own.add(&TARE_UP, &[], up && kind == Some(Kind::Tare));
        answers.add_to(&mut own);
        own.add(&BUILD, &[("version", env!("CARGO_PKG_VERSION"))], 1_u64);
        process::add_to(&mut own);
        ScrapeResult { server, own, started: state.started, at: SystemTime::now() }
    }

    /// Reads a group. A connection from an earlier scrape may have broken with its server, so there is one
    /// retry on a new one.
    fn read(
        &self,
        state: &mut ScraperState,
        group: &CollectorGroup,
        wanted: &[&'static str],
    ) -> Result<Read, String> {
        let kept = state.source.is_some();
        match self.try_read(state, group, wanted) {
            Err(error) if error.is_passing() && kept => self.try_read(state, group, wanted),
            read => read,
        }
        .map_err(|error| error.to_string())
    }

    fn try_read(
        &self,
        state: &mut ScraperState,
        group: &CollectorGroup,
        wanted: &[&'static str],
    ) -> Result<Read, Error> {
        let mut source = match state.source.take() {
            Some(source) => source,
            None => self.open(state)?,
        };
        let kind = source.kind();
        let read = read(&mut source, group, &self.options, wanted, SystemTime::now());
        // A connection cannot be reused in the middle of an answer.
        if !read.as_ref().is_err_and(Error::is_passing) {
            state.source = Some(source);
        }
        read.map(|(samples, left_out)| Read { kind, samples, left_out })
    }

    fn open(&self, state: &mut ScraperState) -> Result<Source, Error> {
        let opened = Source::open(self.address.clone()).and_then(|mut source| {
            // Tare's endpoint sends sums that exceed 64 bits; for an account they wrap around.
            source.execute(match self.address {
                Address::Account(_) => "SET time_zone = '+00:00'",
                Address::Socket(_) => "SET tare_whole_sums = 1",
            })?;
            let started = source.started()?;
            Ok((source, started))
        });
        match opened {
            Ok((source, started)) => {
                state.started = started;
                state.say("", "");
                Ok(source)
            }
            Err(error) => {
                state.say("", &error.to_string());
                Err(error)
            }
        }
    }
}

struct Read {
    kind: Kind,
    samples: Samples,
    left_out: BTreeMap<&'static str, u64>,
}

impl ScraperState {
    /// Reports a problem of a collector or, under "", of the server, once; and its end.
    fn say(&mut self, of: &'static str, failure: &str) {
        let before = self.said.insert(of, failure.to_owned()).unwrap_or_default();
        if failure == before {
            return;
        }
        // One line is enough for an unreachable server.
        let is_away = self.said.get("").is_some_and(|why| !why.is_empty());
        match (of, failure) {
            ("", "") => notice::write("tare export: the server answers again"),
            ("", why) => notice::write(format_args!("tare export: {why}")),
            _ if is_away => {}
            (name, "") => notice::write(format_args!("tare export: {name}: well again")),
            (name, why) => notice::write(format_args!("tare export: {name}: {why}")),
        }
    }
}

/// Reads a group of tables; `now` is the current time.
///
/// # Errors
///
/// Those of [`Source::each`].
pub fn read(
    tables: &mut dyn TableSource,
    group: &CollectorGroup,
    options: &CollectorOptions,
    wanted: &[&'static str],
    now: SystemTime,
) -> Result<(Samples, BTreeMap<&'static str, u64>), Error> {
    let since = now.checked_sub(Duration::from_secs(options.time_limit)).unwrap_or(SystemTime::UNIX_EPOCH);
    let since = humantime::format_rfc3339_seconds(since).to_string().replace('T', " ").replace('Z', "");
    let mut scrape = Scrape {
        tables,
        options,
        wanted,
        since: &since,
        samples: Samples::default(),
        left_out: BTreeMap::new(),
    };
    (group.read)(&mut scrape)?;
    Ok((scrape.samples, scrape.left_out))
}

/// The results of the collectors.
#[derive(Default)]
struct Answers {
    collectors: Vec<(&'static str, bool, Duration)>,
    left_out: BTreeMap<&'static str, u64>,
}

impl Answers {
    fn add_to(&self, samples: &mut Samples) {
        for (name, success, duration) in &self.collectors {
            let labels = [("collector", &*format!("collect.{name}"))];
            samples.add(&SUCCESS, &labels, *success);
            samples.add(&DURATION, &labels, MetricNumber::Real(duration.as_secs_f64()));
        }
        for (name, rows) in &self.left_out {
            samples.add(&LEFT_OUT, &[("collector", &format!("collect.{name}"))], *rows);
        }
    }
}
