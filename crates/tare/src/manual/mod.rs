//! What the manual pages and docs/reference/command-line.md say of a command besides its options: files,
//! variables of the environment, exit statuses, related commands. The rest is the command line's declaration.

#[cfg(test)]
mod markdown;
pub(crate) mod page;

use std::io;

use clap::{Arg, Command};

/// The commands by what they are for, in the order of display.
pub(crate) const GROUPS: [(&str, &[&str]); 3] = [
    ("Observe", &["demo", "status", "top", "ash", "slowlog", "snapshot", "report", "export"]),
    ("Operate", &["run", "install", "uninstall", "doctor", "probe", "govern", "completions"]),
    ("Measure", &["price", "weigh", "lab"]),
];

/// A file or a variable, and what it is for.
pub(crate) type NamedPurpose = (&'static str, &'static str);

/// Which commands something is about.
#[derive(Clone, Copy, Debug)]
enum CommandsAbout {
    /// Commands that have this argument.
    Argument(&'static str),
    /// Commands whose names begin so.
    Names(&'static [&'static str]),
}

impl CommandsAbout {
    fn is(self, path: &str, command: &Command) -> bool {
        match self {
            CommandsAbout::Argument(id) => command.get_arguments().any(|it| it.get_id() == id),
            CommandsAbout::Names(names) => {
                names.iter().any(|name| path == *name || path.starts_with(&format!("{name} ")))
            }
        }
    }
}

const SERVERS: &[&str] = &["demo", "run", "lab run", "lab bench", "lab price"];
const ENDPOINT: &[&str] = &["status", "top", "ash", "slowlog", "snapshot", "export"];
const INSTALL: &[&str] = &["install", "uninstall"];
const NOTES: &[&str] = &["install", "uninstall", "doctor"];

const FILES: &[(CommandsAbout, NamedPurpose)] = &[
    (
        CommandsAbout::Names(ENDPOINT),
        ("/var/lib/mysql/tare.sock", "tare's socket, which is asked by default"),
    ),
    (
        CommandsAbout::Argument("defaults_file"),
        (
            "/etc/my.cnf, /etc/mysql/my.cnf, ~/.my.cnf",
            "option files: the groups client, client-server, client-mariadb and tare",
        ),
    ),
    (
        CommandsAbout::Argument("state"),
        ("/var/lib/tare, ~/.local/state/tare", "settings that are to be restored, of root and of others"),
    ),
    (
        CommandsAbout::Names(INSTALL),
        ("/etc/systemd/system/UNIT.service.d/zz-tare.conf", "the drop-in that has a unit's server load tare"),
    ),
    (
        CommandsAbout::Names(INSTALL),
        ("/etc/systemd/system/tare-preload@.service", "the unit that tries the provider before each start"),
    ),
    (
        CommandsAbout::Names(INSTALL),
        ("90-tare.cnf", "tare's options, in the folder of the server's option files"),
    ),
    (CommandsAbout::Names(INSTALL), ("/run/tare/UNIT.env", "the outcome of the last trial")),
    (
        CommandsAbout::Names(NOTES),
        (
            "/var/lib/tare/last-runs.json",
            "what servers ran with when tare was last seen active in them; in ~/.local/state/tare for others than root",
        ),
    ),
    (CommandsAbout::Names(&["lab run"]), ("lab/STUDY-DATE-TIME/", "results of a study, by default")),
];

const ENVIRONMENT: &[(CommandsAbout, NamedPurpose)] = &[
    (
        CommandsAbout::Argument("dsn_file"),
        ("TARE_DSN", "the server as a URL, as for --dsn; other users do not see it"),
    ),
    (CommandsAbout::Argument("dsn_file"), ("MYSQL_TCP_PORT", "the port, if nothing else says it")),
    (
        CommandsAbout::Argument("dsn_file"),
        ("MYSQL_UNIX_PORT", "the server's socket, if nothing else says it"),
    ),
    (CommandsAbout::Argument("dsn_file"), ("MYSQL_PWD", "the password, if nothing else says it")),
    (CommandsAbout::Names(&["lab"]), ("TARE_LAB_PASSWORD", "the password of accounts on running servers")),
    (CommandsAbout::Names(SERVERS), ("TMPDIR", "the folder below which servers are started")),
    (
        CommandsAbout::Argument("state"),
        ("STATE_DIRECTORY", "the folder of settings that are to be restored; systemd sets it"),
    ),
    (
        CommandsAbout::Argument("state"),
        ("XDG_STATE_HOME", "the folder that is used instead of ~/.local/state"),
    ),
    (CommandsAbout::Names(NOTES), ("STATE_DIRECTORY", "the folder that is used instead of /var/lib/tare")),
    (CommandsAbout::Names(&["top"]), ("NO_COLOR", "if it is set, colours are left out")),
    (
        CommandsAbout::Names(&["export"]),
        (
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "the OpenTelemetry collector to push to; OTEL_EXPORTER_OTLP_HEADERS, _TIMEOUT, _COMPRESSION, _CERTIFICATE and the like are read, too",
        ),
    ),
    (CommandsAbout::Names(&["export"]), ("OTEL_METRIC_EXPORT_INTERVAL", "milliseconds between two pushes")),
    (
        CommandsAbout::Names(INSTALL),
        ("TARE_UNIT", "set for the command of --restart-command: the unit to restart"),
    ),
];

/// Returns the files of a command. `path` is its name without the program's, such as `lab run`.
fn files(path: &str, command: &Command) -> Vec<NamedPurpose> {
    FILES.iter().filter(|(of, _)| of.is(path, command)).map(|(_, named)| *named).collect()
}

/// Returns the variables of the environment that a command reads, those of its options first.
fn environment(path: &str, command: &Command) -> Vec<(String, String)> {
    let of_options = command.get_arguments().filter(|arg| !arg.is_hide_set()).filter_map(|arg| {
        let variable = arg.get_env()?.to_str()?.to_owned();
        Some((variable, format!("as --{}", arg.get_long()?)))
    });
    let others = ENVIRONMENT.iter().filter(|(of, _)| of.is(path, command));
    of_options.chain(others.map(|(_, (name, what))| ((*name).to_owned(), (*what).to_owned()))).collect()
}

/// Returns the commands to read about next: those of the same group, and what a command consists of.
fn related(path: &str, command: &Command) -> Vec<String> {
    let page = |name: &str| if name.is_empty() { "tare".to_owned() } else { format!("tare {name}") };
    let own = command.get_subcommands().filter(|it| is_shown(it));
    let below = own.map(|it| page(format!("{path} {}", it.get_name()).trim()));
    let first = path.split(' ').next().unwrap_or_default();
    let group = GROUPS.iter().find(|(_, names)| names.contains(&first)).map_or(&[][..], |(_, names)| names);
    let parents = (!path.is_empty()).then(|| page(""));
    let parent = path.rsplit_once(' ').map(|(parent, _)| page(parent));
    let others = group.iter().filter(|name| **name != first).map(|name| page(name));
    parents.into_iter().chain(parent).chain(below).chain(others).collect()
}

/// Returns whether a command is for users.
fn is_shown(command: &Command) -> bool {
    !command.is_hide_set() && command.get_name() != "help"
}

/// Passes every command to `act`, the program itself first, with its name without the program's.
fn each(command: &Command, act: &mut impl FnMut(&str, &Command) -> io::Result<()>) -> io::Result<()> {
    fn below(
        path: &str,
        command: &Command,
        act: &mut impl FnMut(&str, &Command) -> io::Result<()>,
    ) -> io::Result<()> {
        act(path, command)?;
        for command in command.get_subcommands().filter(|it| is_shown(it)) {
            below(format!("{path} {}", command.get_name()).trim(), command, act)?;
        }
        Ok(())
    }
    below("", command, act)
}

/// Returns the arguments of a command that are shown.
fn arguments(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| !arg.is_hide_set())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let command = crate::command_line::command();
        for shown in command.get_subcommands().filter(|it| is_shown(it)) {
            let groups = GROUPS.iter().filter(|(_, names)| names.contains(&shown.get_name())).count();
            assert_eq!(groups, 1, "{}", shown.get_name());
        }
        let named = GROUPS.iter().flat_map(|(_, names)| names.iter());
        for name in named {
            assert!(command.find_subcommand(name).is_some_and(is_shown), "{name}");
        }
    }
}
