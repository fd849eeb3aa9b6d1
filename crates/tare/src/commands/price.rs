//! `tare price`: the present overhead on a server.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use tare_budget::account::CONNECTIONS;
use tare_budget::board::percent;
use tare_budget::price::PriceOrigin;
use tare_budget::{Cost, CostAccount, CostShare};
use tare_lab::interrupt::Interrupt;
use tare_outlets::units;
use tare_outlets::{Address, govern};

use crate::durations;
use crate::outlet::Reach;
use crate::output::CommandOutput;
use crate::page::{Column, Grid, paragraph};
use crate::prices::{PriceClock, between, quality};

/// Most instruments that are listed.
const LISTED: usize = 30;

/// Show what a server's Performance Schema costs now, by instrument
///
/// Reads the counts of a server's own Performance Schema twice, multiplies the events in between by their
/// prices, and compares that with the CPU time the server used meanwhile. Nothing is switched: `tare govern`
/// keeps this figure below a budget, `tare weigh` measures a setting by switching it. `tare lab price`
/// measures the prices on your machine.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare price --dsn 'mysql://agent@localhost?socket=/run/mysqld/mysqld.sock'\n  \
    TARE_DSN=mysql://agent:secret@db1:3306 tare price --for 60s --cores 16\n  \
    tare price --dsn-file db1.dsn --format json | jq '.instruments[0]'")]
pub(crate) struct Price {
    #[command(flatten)]
    reach: Reach,
    #[command(flatten)]
    clock: PriceClock,
    /// Time between the two readings
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = durations::between("1s", "1d"))]
    time: Duration,
    #[command(flatten)]
    answer: CommandOutput,
}

/// Runs the command.
pub(crate) fn price(arguments: &Price, interrupt: &Interrupt) -> Result<ExitCode> {
    arguments.answer.written(|| measured(arguments, interrupt))
}

fn measured(arguments: &Price, interrupt: &Interrupt) -> Result<ExitCode> {
    let address = Address::Account(Box::new(arguments.reach.account()?));
    let orders = arguments.clock.orders(address, 1.0, arguments.time)?;
    let machine = arguments.clock.machine()?;
    let mut wait = |time: Duration| interrupt.sleep(time).is_ok();
    if let Some((account, prices)) = govern::account(&orders, &machine, &mut wait)? {
        if arguments.answer.format.is_json() {
            println!("{}", serde_json::to_string_pretty(&object(&account, &prices.origin))?);
        } else {
            print_account(&account, &prices.origin);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes the object for programs. Shares are of the CPU time, 1 is all of it.
fn object(account: &CostAccount, prices: &PriceOrigin) -> serde_json::Value {
    let share = |cost: Cost| json!({ "share": cost.ns, "low": cost.low, "high": cost.high });
    let instrument = |it: &CostShare| {
        let mut object = share(account.share_of(it.cost));
        object["name"] = it.entry.name.clone().into();
        object["level"] = it.entry.level.to_string().into();
        object["events"] = it.entry.events.into();
        object["ns_each"] = (it.cost.ns / it.entry.events.max(1.0)).into();
        object
    };
    json!({
        "overhead": share(account.share()),
        "reading": share_of_total(account),
        "connections": { "made": account.connected, "cost": share(account.share_of(account.connecting)) },
        "prices": {
            "measured": prices.measured, "server": prices.server, "machine": prices.machine, "times": account.machine,
        },
        "instruments": account.shares.iter().map(instrument).collect::<Vec<_>>(),
    })
}

/// Returns the part of the overhead that reading the counts takes.
fn share_of_total(account: &CostAccount) -> f64 {
    if account.total.ns > 0.0 { account.own / account.total.ns } else { 0.0 }
}

fn print_account(account: &CostAccount, prices: &PriceOrigin) {
    paragraph(&format!(
        "The overhead is {} of the CPU time; {} of that is reading the counts.",
        between(account.share()),
        percent(share_of_total(account))
    ));
    paragraph(&quality(prices, account.machine));
    let mut grid = Grid::new(&[
        ("INSTRUMENT", Column::CutStart),
        ("LEVEL", Column::Left),
        ("EVENTS", Column::Right),
        ("NS EACH", Column::Right),
        ("SHARE", Column::Right),
        ("FROM", Column::Right),
        ("TO", Column::Right),
    ]);
    let mut row = |name: &str, level: String, events: f64, cost: Cost| {
        let of = account.share_of(cost);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a count
        grid.row([
            name.to_owned(),
            level,
            units::count(events as u64),
            format!("{:.0}", cost.ns / events.max(1.0)),
            percent(of.ns),
            percent(of.low),
            percent(of.high),
        ]);
    };
    if account.connecting.ns > 0.0 {
        row(CONNECTIONS, String::new(), account.connected, account.connecting);
    }
    for CostShare { entry, cost } in account.shares.iter().take(LISTED) {
        row(&entry.name, entry.level.to_string(), entry.events, *cost);
    }
    grid.print();
    let rest = account.shares.iter().skip(LISTED).fold(Cost::NOTHING, |sum, share| sum.plus(share.cost));
    if rest.ns > 0.0 {
        println!("and {} more: {}", account.shares.len() - LISTED, percent(account.share_of(rest).ns));
    }
}
