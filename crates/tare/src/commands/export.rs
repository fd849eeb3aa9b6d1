//! `tare export`: the command line of the exporter in `tare_outlets::export`.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use regex::Regex;
use signal_hook::low_level::pipe;
use tare_lab::interrupt::Interrupt;
use tare_outlets::export::collector::CollectorOptions;
use tare_outlets::export::collectors;
use tare_outlets::export::otlp;
use tare_outlets::export::probe::Probes;
use tare_outlets::export::scrape::ServerScraper;
use tare_outlets::export::web::{Web, serve};
use tare_outlets::export::web_config::WebConfigFile;
use tare_outlets::notice;

use crate::durations;
use crate::exit::misuse;
use crate::outlet::Reach;
use crate::signals::ending;

/// Serve a server's Performance Schema to Prometheus
///
/// Metrics have the names and labels of mysqld_exporter's perf_schema collectors, so its dashboards and rules
/// work; additional metrics have names that begin with tare_. A scrape reads each table once, over a
/// persistent connection. While the server is unreachable, mysql_up is 0. No text of a statement leaves the
/// server unless --collect.perf_schema.eventsstatements.digest_text is given.
///
/// TLS, client certificates and passwords are set in the file of --web.config.file, in the format of all
/// Prometheus exporters, which is read for every request.
///
/// With --otlp-endpoint, or if OpenTelemetry's environment variables name an endpoint, the same figures are
/// also pushed to an OpenTelemetry collector. Headers with keys, certificates, compression and the like are
/// set by those variables.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare export                                           # the server in /var/lib/mysql, on port 9105\n  \
    tare export --socket /srv/try/tare.sock --web.listen-address 127.0.0.1:9105\n  \
    tare export --web.config.file /etc/tare/web.yml             # HTTPS, users\n  \
    tare export --dsn-file /etc/tare/dsn --no-collect.perf_schema.tablelocks\n  \
    tare export --no-web --otlp-endpoint http://collector:4318  # push only")]
pub(crate) struct Export {
    #[command(flatten)]
    reach: Reach,
    /// Option file, as mysqld_exporter names it: instead of --defaults-file, and for /probe, whose
    /// auth_module=NAME is a section [client.NAME] of it [default: ~/.my.cnf]
    #[arg(long = "config.my-cnf", value_name = "FILE", conflicts_with_all = ["defaults_file", "defaults_extra_file", "no_defaults"])]
    my_cnf: Option<PathBuf>,
    /// Address to listen on, HOST:PORT or :PORT; may be repeated
    #[arg(long = "web.listen-address", value_name = "ADDRESS", default_value = ":9105", value_parser = listen_address)]
    listen: Vec<String>,
    /// TLS, users and headers: a file in exporter-toolkit's format
    #[arg(long = "web.config.file", value_name = "FILE")]
    web_config: Option<PathBuf>,
    /// Path of the metrics
    #[arg(long = "web.telemetry-path", value_name = "PATH", default_value = "/metrics")]
    metrics_path: String,
    /// Concurrent requests for metrics; further ones are told to retry
    #[arg(long = "web.max-requests", value_name = "N", default_value_t = 8, value_parser = value_parser!(u16).range(1..=64))]
    max_requests: u16,
    /// Time before Prometheus's timeout at which a scrape is answered with what was read; a number alone is
    /// in seconds, as for mysqld_exporter
    #[arg(long = "timeout-offset", value_name = "TIME", default_value = "250ms", value_parser = bare)]
    timeout_offset: Duration,
    /// Also push to this OpenTelemetry collector: OTLP over HTTP, to ADDRESS/v1/metrics [default:
    /// OTEL_EXPORTER_OTLP_ENDPOINT]
    #[arg(long, value_name = "URL")]
    otlp_endpoint: Option<String>,
    /// Time between two pushes [default: OTEL_METRIC_EXPORT_INTERVAL, or 60s]
    #[arg(long, value_name = "TIME", value_parser = durations::between("1s", "1d"))]
    otlp_interval: Option<Duration>,
    /// Only push, without a web server
    #[arg(long, conflicts_with_all = ["listen", "web_config"])]
    no_web: bool,
    /// Add the normalised text of statements as the label digest_text
    #[arg(long = "collect.perf_schema.eventsstatements.digest_text", help_heading = COLLECTORS)]
    digest_text: bool,
    /// Most characters of it
    #[arg(
        long = "collect.perf_schema.eventsstatements.digest_text_limit",
        value_name = "N",
        default_value_t = 120,
        help_heading = COLLECTORS
    )]
    digest_text_limit: usize,
    /// Leave out digests that were not seen for this time; a number alone is in seconds, as for
    /// mysqld_exporter
    #[arg(
        long = "collect.perf_schema.eventsstatements.timelimit",
        value_name = "TIME",
        default_value = "1d",
        value_parser = bare,
        help_heading = COLLECTORS
    )]
    time_limit: Duration,
    /// Leave out a schema's statements, like those of mysql, performance_schema and information_schema; may
    /// be repeated
    #[arg(
        long = "collect.perf_schema.eventsstatements.exclude_schemas",
        value_name = "SCHEMA",
        help_heading = COLLECTORS
    )]
    exclude_schemas: Vec<String>,
    /// Files to include: a regular expression for their names
    #[arg(
        long = "collect.perf_schema.file_instances.filter",
        value_name = "REGEX",
        default_value = ".*",
        help_heading = COLLECTORS
    )]
    file_filter: Regex,
    /// Prefix to strip from the names of files
    #[arg(
        long = "collect.perf_schema.file_instances.remove_prefix",
        value_name = "TEXT",
        default_value = "/var/lib/mysql/",
        help_heading = COLLECTORS
    )]
    file_prefix: String,
    /// Prefix to strip from the instruments of memory
    #[arg(
        long = "collect.perf_schema.memory_events.remove_prefix",
        value_name = "TEXT",
        default_value = "memory/",
        help_heading = COLLECTORS
    )]
    memory_prefix: String,
    #[command(flatten)]
    collectors: Collectors,
}

/// Parses a duration; a number without a unit is in seconds, as mysqld_exporter has it.
fn bare(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.map_or_else(|| durations::any(text), Ok)
}

const COLLECTORS: &str = "Collectors";

/// The switches and limits of collectors, derived from the collectors' declarations.
#[derive(Debug, Default)]
struct Collectors {
    options: CollectorOptions,
}

fn on(name: &str) -> String {
    format!("collect.{name}")
}

fn off(name: &str) -> String {
    format!("no-collect.{name}")
}

fn limit(name: &str) -> String {
    format!("collect.{name}.limit")
}

impl Args for Collectors {
    fn augment_args(mut command: Command) -> Command {
        for it in collectors::all() {
            let name = it.name;
            let state = if it.on { format!("on; --{} turns it off", off(name)) } else { "off".to_owned() };
            let flag = |id: String| Arg::new(id.clone()).long(id).action(ArgAction::SetTrue);
            let heading = |arg: Arg| arg.help_heading(COLLECTORS);
            let switch = flag(on(name)).overrides_with(off(name)).help(format!("{} [{state}]", it.help));
            command = command.arg(heading(switch));
            let switch = flag(off(name)).overrides_with(on(name)).hide(true);
            command = command.arg(heading(switch.help(format!("Without {}", on(name)))));
            if let Some(usual) = it.limit {
                let rows = Arg::new(limit(name)).long(limit(name)).value_name("N");
                let rows = rows.value_parser(clap::builder::ValueParser::new(str::parse::<usize>));
                let help = format!("How many rows of it, the largest first [default: {usual}]");
                command = command.arg(heading(rows.help(help)));
            }
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Collectors {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut collectors = Collectors::default();
        collectors.update_from_arg_matches(matches)?;
        Ok(collectors)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for it in collectors::all() {
            for (id, state) in [(on(it.name), true), (off(it.name), false)] {
                if matches.get_flag(&id) {
                    self.options.switched.insert(it.name, state);
                }
            }
            let rows = it.limit.and_then(|_| matches.get_one::<usize>(&limit(it.name)));
            if let Some(rows) = rows {
                self.options.limits.insert(it.name, *rows);
            }
        }
        Ok(())
    }
}

/// Reads an address to listen on; the host's name is looked up later.
fn listen_address(text: &str) -> Result<String, String> {
    let port = text.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    port.map(|_| text.to_owned())
        .ok_or_else(|| "HOST:PORT or :PORT is allowed, such as 127.0.0.1:9105".to_owned())
}

/// Runs the command.
pub(crate) fn export(arguments: Export, interrupt: &Interrupt) -> Result<ExitCode> {
    let mut reach = arguments.reach;
    reach.files.defaults_file = reach.files.defaults_file.or_else(|| arguments.my_cnf.clone());
    let accounts = arguments.my_cnf.or_else(|| reach.files.own());
    let address = reach.address()?;
    if !arguments.metrics_path.starts_with('/') || arguments.metrics_path == "/" {
        misuse!("--web.telemetry-path {}: it begins with / and is longer", arguments.metrics_path);
    }
    let timeout_offset = arguments.timeout_offset;
    let options = CollectorOptions {
        digest_text: arguments.digest_text,
        digest_text_limit: arguments.digest_text_limit,
        time_limit: arguments.time_limit.as_secs(),
        exclude_schemas: arguments.exclude_schemas,
        file_filter: arguments.file_filter,
        file_prefix: arguments.file_prefix,
        memory_prefix: arguments.memory_prefix,
        ..arguments.collectors.options
    };
    let interval = arguments.otlp_interval;
    let variable = |name: &str| std::env::var(name).ok();
    let collector = otlp::OtlpSettings::read(arguments.otlp_endpoint.as_deref(), interval, &variable)?;
    if collector.is_none() && (arguments.no_web || interval.is_some()) {
        misuse!("where to push to is not said: --otlp-endpoint, or the variable OTEL_EXPORTER_OTLP_ENDPOINT");
    }
    let web = Web {
        listen: if arguments.no_web { vec![] } else { arguments.listen },
        config: WebConfigFile::new(arguments.web_config),
        metrics_path: arguments.metrics_path.clone(),
        max_requests: arguments.max_requests.into(),
        timeout_offset,
        probes: Probes::new(accounts, options.clone()),
    };
    let reader = ServerScraper::new(address.clone(), options);
    let pushed = collector.as_ref().map(|it| format!("to {} every {:?}", it.endpoint, it.interval));
    let ready = |addresses: &[std::net::SocketAddr], is_tls: bool| {
        let (scheme, path) = (if is_tls { "https" } else { "http" }, &arguments.metrics_path);
        for at in addresses {
            notice::write(format_args!("tare export: {address} at {scheme}://{at}{path}"));
        }
        if let Some(pushed) = &pushed {
            notice::write(format_args!("tare export: {address} {pushed}"));
        }
    };
    let stop = signalled(ending(true)).context("listening for signals")?;
    // A signal that came before is known by the flag only.
    if !interrupt.is_set() {
        serve(web, reader, collector, ready, stop)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns a stream that becomes readable at one of these signals.
fn signalled(signals: impl Iterator<Item = i32>) -> io::Result<UnixStream> {
    let (stop, written) = UnixStream::pair()?;
    for signal in signals {
        pipe::register(signal, written.try_clone()?)?;
    }
    Ok(stop)
}
