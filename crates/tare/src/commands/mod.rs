//! The commands, and their declaration: each module has the arguments of its command and runs it.

pub(crate) mod ash;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod documents;
pub(crate) mod export;
pub(crate) mod govern;
pub(crate) mod install;
pub(crate) mod lab;
pub(crate) mod preload;
pub(crate) mod price;
pub(crate) mod probe;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod slowlog;
pub(crate) mod snapshot;
pub(crate) mod status;
pub(crate) mod tables;
pub(crate) mod top;
pub(crate) mod weigh;

use clap::{Parser, Subcommand};

/// A drop-in performance_schema for stock MariaDB, at a fraction of the cost of MariaDB's own.
///
/// tare is loaded into an unmodified server and serves its `performance_schema` tables, with every instrument
/// on. This program starts servers with it, asks running ones about it, and measures what it costs.
#[derive(Debug, Parser)]
#[command(
    name = "tare",
    version,
    after_help = "First steps:\n  \
        tare demo          see it work, in about a minute\n  \
        tare run           start a server with it and look around\n  \
        tare help COMMAND  more on a command, with examples"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(demo::Demo),
    Run(run::Run),
    Status(Box<status::Status>),
    Top(Box<top::Top>),
    Ash(Box<ash::Ash>),
    #[command(name = "slowlog")]
    SlowLog(Box<slowlog::SlowLog>),
    Doctor(doctor::Doctor),
    Snapshot(Box<snapshot::Snapshot>),
    Report(report::Report),
    Install(install::Install),
    Uninstall(install::Uninstall),
    Probe(probe::Probe),
    Completions(completions::Completions),
    #[command(hide = true)]
    Tables(tables::Tables),
    Export(Box<export::Export>),
    Lab(Box<lab::Lab>),
    Govern(Box<govern::Govern>),
    Price(Box<price::Price>),
    Weigh(Box<weigh::Weigh>),
    #[command(hide = true)]
    Preload(preload::Preload),
    #[command(hide = true)]
    Documents(documents::Documents),
}
