//! `tare run`: a server with tare in the foreground.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use console::style;
use tare_lab::interrupt::Interrupt;
use tare_lab::server::{Launch, LaunchedServer};
use tare_lab::setting::FEDERATED;
use tare_server::datadir::{self, Account, Scratch};
use tare_server::installation::Installation;

use crate::provider::{self, ProviderPrograms};
use crate::{endpoint, page};

/// Run a server of your own with tare loaded
///
/// The server runs in the foreground until Ctrl-C, which shuts it down cleanly. Without --datadir its data is
/// in a temporary folder and gone afterwards. A data directory that is absent or empty is made with
/// mariadb-install-db (`root` without a password, reachable only through the socket); one that exists is used
/// as it is. Run as root, the server runs as the account `mysql`.
///
/// --mariadbd can also name a server of MySQL's (experimental: `tare probe` says what tare can take from it).
/// It makes its data itself and gets the provider for MySQL.
///
/// What follows `--` is given to the server. The system's option files are not read unless they are named
/// there.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare run\n  \
    tare run --datadir /srv/try -- --innodb-buffer-pool-size=1G\n  \
    tare run --datadir /srv/try -- --defaults-file=/srv/try.cnf --port=3307   # reads its group [tare]\n  \
    tare run --mariadbd /opt/mariadb-11.4/bin/mariadbd\n  \
    tare run --mariadbd /usr/sbin/mysqld                     # MySQL")]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) programs: ProviderPrograms,
    /// Data directory [default: a temporary folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) datadir: Option<PathBuf>,
    /// Options for the server; with `--port` among them it also listens on the network
    #[arg(last = true, value_name = "SERVER OPTIONS")]
    pub(crate) options: Vec<OsString>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Run, interrupt: &Interrupt) -> Result<ExitCode> {
    let installation = arguments.programs.installation()?;
    let provider = provider::find_for(installation.is_mysql(), arguments.programs.provider.as_deref())?;
    let account = Account::of_servers()?;
    // Declared before the server, so that it is removed after it.
    let scratch = Scratch::new(&account)?;
    let datadir = place(arguments.datadir.as_deref(), &scratch)?;
    prepare(&installation, &account, &scratch, &datadir)?;

    let mut launch = Launch::new(&datadir, &scratch).keeping_log().preload(Some(provider));
    if installation.has_federated() {
        launch = launch.options([FEDERATED]);
    }
    let mut server = with_options(launch, &arguments.options)?.start(&installation, &account, interrupt)?;
    greet(&server, &installation, arguments.datadir.is_none());
    follow(&mut server, interrupt)
}

/// Passes the user's options to the server, and applies those that determine its address.
fn with_options(mut launch: Launch, options: &[OsString]) -> Result<Launch> {
    let given = |name: &str| options.iter().rev().find_map(|o| o.to_str()?.strip_prefix(name));
    if given("--datadir").is_some() {
        bail!("name the data directory before the two dashes: tare run --datadir DIR -- …");
    }
    if let Some(socket) = given("--socket=") {
        launch = launch.listening(Path::new(socket));
    }
    if let Some(log) = given("--log-error=") {
        launch = launch.logging(Path::new(log));
    }
    if given("--port").is_some() {
        launch = launch.networking();
    }
    Ok(launch.options(options))
}

/// Returns the data directory as an absolute path: the given one, or one in the scratch folder.
fn place(named: Option<&Path>, scratch: &Scratch) -> Result<PathBuf> {
    let Some(path) = named else { return Ok(scratch.path().join("data")) };
    std::path::absolute(path).with_context(|| format!("--datadir {}", path.display()))
}

fn prepare(installation: &Installation, account: &Account, scratch: &Scratch, datadir: &Path) -> Result<()> {
    if datadir::is_initialised(datadir) {
        return Ok(());
    }
    if !datadir::is_vacant(datadir) {
        bail!(
            "{} is neither empty nor a data directory (it has no folder `mysql`); name another one with --datadir",
            datadir.display()
        );
    }
    page::note(&format!("making a data directory in {}", datadir.display()));
    Ok(datadir::create(installation, account, scratch.path(), datadir, &[])?)
}

fn greet(server: &LaunchedServer, installation: &Installation, temporary: bool) {
    let (datadir, socket) = (server.datadir().display(), server.socket().display());
    let product = if installation.is_mysql() { "MySQL" } else { "MariaDB" };
    println!("{} {}", style(product).bold(), installation.version);
    println!("  socket     {socket}");
    println!("  data       {datadir}{}", if temporary { "  (removed at the end)" } else { "" });
    println!("  error log  {}", server.log().display());
    match endpoint::last_line(&server.said()) {
        Some(line) => println!("  tare       {line}"),
        None => {
            println!("  tare       no word of it in the error log; see `tare status --datadir {datadir}`")
        }
    }
    if !installation.is_mysql() && !installation.has_federated() {
        page::note(&format!(
            "The plugin ha_federatedx.so is not in {}: tare's tables cannot be read through SQL on this server, \
             only with `tare status`.",
            installation.plugin_dir.display()
        ));
    }
    println!("\nTo look around, in another terminal:");
    let client = if installation.is_mysql() { "mysql" } else { "mariadb" };
    println!("  {client} --socket={socket} --user=root performance_schema");
    println!("  tare status --datadir {datadir}\n");
    page::note("Ctrl-C shuts the server down.");
}

/// Waits for Ctrl-C or for the end of the server.
fn follow(server: &mut LaunchedServer, interrupt: &Interrupt) -> Result<ExitCode> {
    while !interrupt.is_set() {
        if let Some(status) = server.ended()? {
            if status.success() {
                println!("the server was shut down");
                return Ok(ExitCode::SUCCESS);
            }
            bail!("the server ended ({status}); its last words:\n{}", last_words(&server.said()));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    println!("\nshutting down …");
    let status = server.stop()?;
    if !status.success() {
        bail!(
            "the server did not shut down cleanly ({status}); its last words:\n{}",
            last_words(&server.said())
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn last_words(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    if lines.is_empty() {
        return "(none: it wrote nothing to its error log)".to_owned();
    }
    lines[lines.len().saturating_sub(10)..].join("\n")
}
