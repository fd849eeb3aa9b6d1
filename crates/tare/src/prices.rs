//! The prices and the clock of an account, common to `tare govern` and `tare price`: their options, and how
//! they are shown.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use tare_budget::board::percent;
use tare_budget::price::PriceOrigin;
use tare_budget::{Cost, Prices, Work};
use tare_lab::prices::speed;
use tare_outlets::Address;
use tare_outlets::govern::{self, Orders, ServerMachine};

use crate::server::process::ServerProcess;

/// The source of the server's CPU time, and the cost per event.
#[derive(Args, Debug)]
pub(crate) struct PriceClock {
    /// The server's process on this machine [default: the one that listens on the address's socket]
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Processors of a server on another machine, whose CPU time is unknown: overhead and budget are then
    /// shares of their capacity
    #[arg(long, value_name = "N", value_parser = cores)]
    cores: Option<f64>,
    /// A file with the cost per event [default: the ones that ship]
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
}

fn cores(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.parse().ok();
    number
        .filter(|it| *it > 0.0 && *it <= 65536.0)
        .ok_or_else(|| "a number of processors is allowed".to_owned())
}

impl PriceClock {
    pub(crate) fn machine(&self) -> Result<ServerMachine> {
        let thread_cpu = govern::thread_cpu;
        let cpu = |pid| tare_lab::process::cpu_time(pid).ok();
        let work = RefCell::new(Work::new());
        let work_ns = Box::new(move || speed::now(&mut work.borrow_mut()));
        if let Some(pid) = self.pid {
            if cpu(pid).is_none() {
                bail!("--pid: there is no process {pid}");
            }
            return Ok(ServerMachine { find: Box::new(move |_| Some(pid)), cpu, thread_cpu, work_ns });
        }
        let listening = |address: &Address| match address {
            Address::Account(server) => ServerProcess::listening(server.socket()?).ok(),
            Address::Socket(_) => None,
        };
        Ok(ServerMachine { find: Box::new(listening), cpu, thread_cpu, work_ns })
    }

    pub(crate) fn orders(&self, address: Address, budget: f64, every: Duration) -> Result<Orders> {
        Ok(Orders {
            address,
            budget,
            budget_p95: None,
            prices: self.prices.as_deref().map(read).transpose()?,
            every,
            keep: vec![],
            folder: PathBuf::new(),
            cores: self.cores,
        })
    }
}

/// Reads a price file.
pub(crate) fn read(path: &Path) -> Result<Prices> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    Prices::read(&text).with_context(|| path.display().to_string())
}

/// Formats a share and its interval.
pub(crate) fn between(share: Cost) -> String {
    format!("{} ({} to {})", percent(share.ns), percent(share.low), percent(share.high))
}

/// Describes the origin of prices, and the machine's speed relative to theirs, if known.
pub(crate) fn quality(prices: &PriceOrigin, machine: Option<f64>) -> String {
    let how = if prices.measured { "measured" } else { "ESTIMATED, not measured, hence the wide intervals" };
    let here = machine.map(|it| format!("; {}", times(it))).unwrap_or_default();
    format!("prices: {how}; {}, {}{here}", prices.server, prices.machine)
}

pub(crate) fn times(machine: f64) -> String {
    format!("times {machine:.2}, for the speed of this machine now")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_processors_is_positive() {
        assert_eq!(cores("16"), Ok(16.0));
        assert!(cores("0").is_err() && cores("inf").is_err());
    }
}
