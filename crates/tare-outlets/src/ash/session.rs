//! A connection to the server whose history is written: it samples, or reads what tare in the server has
//! sampled.

use std::time::{Duration, Instant};

use tare_connect::ServerLocation;

use super::copier::{Copier, has_history};
use super::cost::Cost;
use super::sampler::Sampler;
use super::{AshError, Sample};
use crate::snapshot::{SnapshotHeader, TableChoice, header};
use crate::source::{Address, Error, Source};

/// Seconds that the connection may be idle: longer than the longest interval.
const PATIENCE: u32 = 3600;

/// Where rows come from.
enum Feed {
    Sampler(Box<Sampler>),
    Copier(Box<Copier>),
}

/// An open connection.
pub(super) struct Session {
    feed: Feed,
    pub(super) header: SnapshotHeader,
    /// Rows of `tare_status` for the file.
    pub(super) status: Vec<(&'static str, String)>,
    /// Number of answers so far.
    pub(super) answers: u64,
    cost: Cost,
    /// When the costs were said last, or the connection was made.
    pub(super) reported: Instant,
    interval: Duration,
}

impl Session {
    /// Connects, and finds out what the server has.
    pub(super) fn open(address: &Address, interval: Duration) -> Result<Session, AshError> {
        let mut source = Source::open(address.clone())?;
        if matches!(address, Address::Account(_)) {
            source.execute(&format!("SET time_zone = '+00:00', SESSION wait_timeout = {PATIENCE}"))?;
        }
        let mut header = header(&mut source, &TableChoice { tables: vec![], text: false })?;
        header.history = true;
        let is_copied = has_history(&mut source)?;
        if !is_copied && matches!(address, Address::Socket(_)) {
            return Err(AshError::NoHistory(address.to_string()));
        }
        let cost = Cost::of(&mut source)?;
        let (feed, status) =
            if is_copied { copier(source, interval)? } else { sampler(source, interval, address)? };
        Ok(Session { feed, header, status, answers: 0, cost, reported: Instant::now(), interval })
    }

    /// Returns what it does, for the user.
    pub(super) fn said(&self) -> String {
        let interval = humantime::format_duration(self.interval);
        let SnapshotHeader { address, version, .. } = &self.header;
        match &self.feed {
            Feed::Sampler(_) => format!("samples {address} ({version}) every {interval}"),
            Feed::Copier(_) => format!(
                "reads the history that tare keeps in {address} ({version}) every {interval}; the server is not sampled a second \
                 time"
            ),
        }
    }

    /// Returns lines for the user about what is missing, which have not been returned yet.
    pub(super) fn notes(&mut self) -> Vec<String> {
        match &mut self.feed {
            Feed::Sampler(sampler) => sampler.notes(),
            Feed::Copier(_) => vec![],
        }
    }

    /// Returns lines for the user about what has happened since the last call.
    pub(super) fn events(&mut self) -> Vec<String> {
        match &mut self.feed {
            Feed::Sampler(_) => vec![],
            Feed::Copier(copier) => std::mem::take(&mut copier.events),
        }
    }

    /// Returns new samples.
    pub(super) fn samples(&mut self, is_last: bool) -> Result<Vec<Sample>, Error> {
        let samples = match &mut self.feed {
            Feed::Sampler(_) if is_last => vec![],
            Feed::Sampler(sampler) => vec![sampler.sample(self.interval)?],
            Feed::Copier(copier) => copier.samples(is_last)?,
        };
        self.answers += 1;
        Ok(samples)
    }

    /// Returns a sentence about what this has cost since the connection was made.
    pub(super) fn costs(&mut self) -> Result<String, Error> {
        self.reported = Instant::now();
        let source = match &mut self.feed {
            Feed::Sampler(sampler) => sampler.source(),
            Feed::Copier(copier) => copier.source(),
        };
        self.cost.said(source)
    }
}

type Opened = (Feed, Vec<(&'static str, String)>);

fn sampler(source: Source, interval: Duration, address: &Address) -> Result<Opened, AshError> {
    let mut sampler = Sampler::new(source)?;
    let processors = sampler.processors()?.or_else(|| processors_here(address));
    let mut status = vec![("ash_interval", humantime::format_duration(interval).to_string())];
    status.extend(processors.map(|processors| ("processors", processors.to_string())));
    Ok((Feed::Sampler(Box::new(sampler)), status))
}

fn copier(source: Source, _interval: Duration) -> Result<Opened, AshError> {
    let mut copier = Copier::new(source)?;
    let mut status = vec![];
    for name in ["ash_interval", "processors"] {
        status.extend(copier.status(name)?.map(|value| (name, value)));
    }
    Ok((Feed::Copier(Box::new(copier)), status))
}

/// Returns the number of this machine's processors, if the server is on it.
fn processors_here(address: &Address) -> Option<u64> {
    let Address::Account(server) = address else { return None };
    let is_here = matches!(server.place, ServerLocation::Socket(_));
    is_here.then(|| std::thread::available_parallelism().ok()).flatten().map(|it| it.get() as u64)
}
