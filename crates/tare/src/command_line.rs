//! Parsing of the command line: what all commands have in common, and what clap does not support.
//!
//! `-h` is the host in commands that connect to a server, as in MySQL's clients; `--help` and `-?` print help
//! everywhere. A value that begins with `-` is a value unless it is one of the command's options, so that the
//! option's own parser judges it. `-pPASSWORD` is a password, and `-p` alone prompts for one.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use clap::builder::Styles;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Command, CommandFactory, FromArgMatches};

use crate::commands::Arguments;
use crate::manual::GROUPS;
use crate::{exit, old_spellings};

/// Name of the option whose value may be left out.
const PASSWORD: &str = "password";

/// Returns the declaration of the command line.
pub(crate) fn command() -> Command {
    grouped(shaped(Arguments::command(), ""))
}

/// Lists the commands of the help by what they are for.
fn grouped(command: Command) -> Command {
    let widest = command.get_subcommands().map(|it| it.get_name().len()).max().unwrap_or(0);
    let mut groups = String::new();
    for (title, names) in GROUPS {
        groups += &format!("{}\n", heading(title));
        for below in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = below.get_about().map(ToString::to_string).unwrap_or_default();
            groups += &format!("  {:widest$}  {about}\n", below.get_name());
        }
        groups.push('\n');
    }
    let options = heading("Options");
    command.help_template(format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{options}\n{{options}}{{after-help}}"
    ))
}

/// Formats a heading as clap does.
fn heading(title: &str) -> String {
    let style = Styles::styled().get_header().to_owned();
    format!("{style}{title}:{style:#}")
}

/// Parses the program's arguments; exits if they are invalid, or help was requested.
pub(crate) fn parse() -> Arguments {
    read(std::env::args_os()).unwrap_or_else(|error| end(&error))
}

/// Parses arguments, the program's name first.
pub(crate) fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Arguments, clap::Error> {
    let mut command = command();
    command.build();
    let arguments = joined(&command, spelt_now(&command, arguments));
    let matches = command.clone().try_get_matches_from(arguments)?;
    Arguments::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// Replaces old spellings of commands and of their options.
fn spelt_now(command: &Command, arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments = arguments.into_iter();
    let mut all: Vec<OsString> = arguments.next().into_iter().collect();
    let mut arguments = old_spellings::command(arguments.collect()).into_iter().peekable();
    let mut command = command;
    let mut path: Vec<&str> = vec![];
    while let Some(below) = arguments.peek().and_then(|it| command.find_subcommand(it)) {
        path.push(below.get_name());
        command = below;
        all.extend(arguments.next());
    }
    all.extend(old_spellings::now(&path.join(" "), arguments.collect()));
    all
}

/// Prints what is wrong with the command line, or the help that was asked for, and ends the process.
/// Passwords in addresses are hidden.
fn end(error: &clap::Error) -> ! {
    let is_help = matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    let text = error.to_string();
    if is_help || !text.contains("://") {
        error.exit();
    }
    eprint!("{}", without_addresses(&text));
    std::process::exit(error.exit_code());
}

/// Removes possible passwords in addresses from a text.
fn without_addresses(text: &str) -> String {
    let words = text.split_inclusive([' ', '\n', '\'']);
    words
        .map(|word| {
            let end = word.len() - word.trim_end_matches([' ', '\n', '\'']).len();
            let (address, end) = word.split_at(word.len() - end);
            if address.contains("://") {
                format!("{}{end}", tare_connect::hide(address))
            } else {
                word.to_owned()
            }
        })
        .collect()
}

/// Adds the help options to a command and its subcommands.
fn shaped(command: Command, path: &str) -> Command {
    let has_host = command.get_arguments().any(|it| it.get_short() == Some('h'));
    let help = Arg::new("help").long("help").action(ArgAction::Help);
    let help = help.help("Print help (see more with '--help')");
    // -h prints help where it is not the host.
    let help = if has_host { help.short('?') } else { help.short('h').visible_short_alias('?') };
    let mut command = command.disable_help_flag(true).arg(help);
    if command.get_name() == "slowlog" {
        // The long options of `slowlog` choose statements.
        for name in ["host", "user"] {
            command = command.mut_arg(name, |arg| arg.long(clap::builder::Resettable::Reset));
        }
    }
    let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    // The program's own help is an overview.
    if !path.is_empty() && command.get_subcommands().next().is_none() {
        command = command.after_long_help(format!("{examples}\n\n{}", statuses(path)).trim().to_owned());
    }
    command.mut_subcommands(|below| {
        let path = format!("{path} {}", below.get_name());
        shaped(below, path.trim())
    })
}

/// Lists the exit statuses of a command.
fn statuses(path: &str) -> String {
    let all = exit::of(path).into_iter().map(|(status, what)| format!("\n  {status:<3}  {what}"));
    format!("Exit status:{}", all.collect::<String>())
}

/// Joins values that begin with `-` to their options.
fn joined(command: &Command, arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments = arguments.into_iter().peekable();
    let mut all: Vec<OsString> = arguments.next().into_iter().collect();
    let mut command = command;
    while let Some(argument) = arguments.next() {
        let bytes = argument.as_bytes();
        if bytes == b"--" {
            all.push(argument);
            all.extend(arguments);
            break;
        }
        if !bytes.starts_with(b"-") {
            command = argument.to_str().and_then(|name| command.find_subcommand(name)).unwrap_or(command);
            all.push(argument);
            continue;
        }
        if let Some(password) = password(command, bytes) {
            all.push(password);
            continue;
        }
        let takes = takes_next(command, bytes);
        let Some(value) = arguments.next_if(|_| takes).map(|it| (is_option(command, it.as_bytes()), it))
        else {
            all.push(argument);
            continue;
        };
        match value {
            // The option's value is missing, which clap reports.
            (true, option) => {
                all.push(argument);
                all.extend(password(command, option.as_bytes()).or(Some(option)));
            }
            (false, value) if value.as_bytes().starts_with(b"-") && value.len() > 1 => {
                all.push([argument.as_os_str(), OsStr::new("="), &value].into_iter().collect());
            }
            (false, value) => all.extend([argument, value]),
        }
    }
    all
}

/// Converts `-pPASSWORD` and `-p` in a command that has the option.
fn password(command: &Command, argument: &[u8]) -> Option<OsString> {
    let value = argument.strip_prefix(b"-p")?;
    command.get_arguments().find(|it| it.get_id() == PASSWORD && it.get_short() == Some('p'))?;
    let mut option = b"--password".to_vec();
    if !value.is_empty() {
        option.push(b'=');
        option.extend_from_slice(value);
    }
    Some(OsString::from_vec(option))
}

/// Returns whether an option takes its value from the next argument.
fn takes_next(command: &Command, argument: &[u8]) -> bool {
    let found = match argument.strip_prefix(b"--") {
        Some(name) => {
            command.get_arguments().find(|it| it.get_long().is_some_and(|long| long.as_bytes() == name))
        }
        None if argument.len() == 2 => short(command, argument[1]),
        None => None,
    };
    found.is_some_and(|it| {
        it.get_action().takes_values() && it.get_num_args().is_none_or(|count| count.min_values() > 0)
    })
}

fn short(command: &Command, letter: u8) -> Option<&Arg> {
    let is_it =
        |arg: &&Arg| arg.get_short_and_visible_aliases().is_some_and(|it| it.contains(&char::from(letter)));
    command.get_arguments().find(is_it)
}

/// Returns whether it is an option of the command, not a value.
fn is_option(command: &Command, argument: &[u8]) -> bool {
    if argument == b"--" {
        return true;
    }
    match argument.strip_prefix(b"--") {
        Some(name) => {
            let name = name.split(|byte| *byte == b'=').next().unwrap_or_default();
            command.get_arguments().any(|it| it.get_long().is_some_and(|long| long.as_bytes() == name))
        }
        None if argument.len() > 1 && argument[0] == b'-' => short(command, argument[1]).is_some(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    fn joins(line: &str) -> String {
        let mut command = command();
        command.build();
        let all = joined(&command, words(line));
        all.iter().map(|it| it.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn a_value_may_begin_with_a_dash() {
        for (line, expected) in [
            ("tare top --interval -1", "tare top --interval=-1"),
            ("tare top --interval --once", "tare top --interval --once"),
            ("tare top --filter -foo --once", "tare top --filter=-foo --once"),
            ("tare top -P -1", "tare top -P=-1"),
            ("tare slowlog --over -5ms", "tare slowlog --over=-5ms"),
            ("tare lab run --seed -1 x", "tare lab run --seed=-1 x"),
            ("tare run -- --port -1", "tare run -- --port -1"),
            ("tare snapshot -", "tare snapshot -"),
            ("tare top --filter - --once", "tare top --filter - --once"),
            ("tare top -psecret -u x", "tare top --password=secret -u x"),
            ("tare top -p -u -p", "tare top --password -u --password"),
            ("tare top -p-1", "tare top --password=-1"),
        ] {
            assert_eq!(joins(line), expected);
        }
    }

    /// Every option's own parser judges such a value.
    #[test]
    fn no_option_takes_a_negative_number_for_an_argument() {
        fn each(command: &Command, path: &[&str], seen: &mut usize) {
            let hidden = ["help", "version"];
            // A value that may be left out is never the next argument.
            for arg in command.get_arguments().filter(|it| {
                !it.is_positional() && !hidden.contains(&it.get_id().as_str()) && it.get_id() != PASSWORD
            }) {
                let Some(long) = arg.get_long().filter(|_| arg.get_action().takes_values()) else { continue };
                for value in ["-1", "-5ms"] {
                    let option = format!("--{long}");
                    let words = path.iter().copied().chain([option.as_str(), value]).map(OsString::from);
                    let result = read(words).map(drop);
                    let kind = result.as_ref().map_or_else(|error| Some(error.kind()), |()| None);
                    assert_ne!(
                        kind,
                        Some(ErrorKind::UnknownArgument),
                        "{path:?} --{long} {value}: {result:?}"
                    );
                    *seen += 1;
                }
            }
            for below in command.get_subcommands().filter(|it| it.get_name() != "help") {
                each(below, &[path, &[below.get_name()]].concat(), seen);
            }
        }
        let mut all = command();
        all.build();
        let mut seen = 0;
        each(&all, &["tare"], &mut seen);
        assert!(seen > 200, "{seen} options were tried");
    }

    /// Checks for each old spelling of an option that it is read as the option's present name.
    #[test]
    fn an_option_spelt_as_before_is_the_same_option() {
        use crate::old_spellings::{SPELLINGS, Was};
        // What an option needs beside it.
        let beside = |command: &str, now: &str| match (command, now) {
            ("lab price", _) => " tare",
            ("lab replay", _) => " x.rec",
            ("lab run", _) => " tare",
            ("report", _) => " a b",
            ("probe", _) => " mariadbd",
            ("top", _) => " --once",
            _ => "",
        };
        for (command, was, now) in SPELLINGS {
            let (old, new) = match was {
                Was::Flag(old) => ((*old).to_owned(), (*now).to_owned()),
                Was::Name(old) => (format!("{old} 7"), format!("{now} 7")),
                Was::OneOf(old, values) => (format!("{old} {}", values[0]), format!("{now} {}", values[0])),
                Was::Number(old, unit) => (format!("{old} 7"), format!("{now} 7{unit}")),
            };
            let beside = beside(command, now);
            let parsed = |options: &str| {
                let line = format!("tare {command}{beside} {options}");
                format!("{:?}", read(words(&line)).unwrap_or_else(|error| panic!("{line}: {error}")))
            };
            assert_eq!(parsed(&old), parsed(&new), "tare {command} {old}");
            let joined = old.replacen(' ', "=", 1);
            assert_eq!(parsed(&joined), parsed(&new), "tare {command} {joined}");
            let help = read(words(&format!("tare {command} --help"))).expect_err("help").to_string();
            let (option, _) = old.split_once(' ').unwrap_or((&old, ""));
            let shown = help.split_whitespace().any(|word| word.trim_matches(&['[', ']', ','][..]) == option);
            let stays = now.split('=').next() == Some(option) || *command == "report" || option == "--output";
            assert!(stays || !shown, "tare {command} --help shows {option}:\n{help}");
        }
    }

    #[test]
    fn minus_h_is_the_host_and_a_question_mark_helps() {
        let kind = |line: &str| read(words(line)).map(drop).map_err(|error| error.kind());
        for command in [
            "top",
            "status",
            "export",
            "snapshot x",
            "govern",
            "price",
            "weigh",
            "slowlog",
            "ash",
            "lab record x",
            "lab replay x",
        ] {
            assert_eq!(kind(&format!("tare {command} -h db1")), Ok(()), "{command}");
            assert_eq!(kind(&format!("tare {command} -?")), Err(ErrorKind::DisplayHelp), "{command}");
            assert_eq!(kind(&format!("tare {command} --help")), Err(ErrorKind::DisplayHelp), "{command}");
        }
        for line in ["tare -h", "tare run -h", "tare run -?", "tare lab list -h"] {
            assert_eq!(kind(line), Err(ErrorKind::DisplayHelp), "{line}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_without_the_password_of_an_address() {
        for line in [
            "tare top mysql://dba:secret@db1",
            "tare report mysql://dba:secret@db1",
            "tare report now.jsonl.gz mysql://dba:secret@db1",
            "tare top --interval mysql://dba:se#secret@db1",
            "tare status --dns=mysql://dba:secret@db1",
        ] {
            let error = read(words(line)).map(drop).expect_err(line).to_string();
            let said = without_addresses(&error);
            assert!(!said.contains("secret"), "{line}: {said}");
        }
    }

    #[test]
    fn every_command_has_examples() {
        for command in command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains(&format!("tare {}", command.get_name())), "{}", command.get_name());
        }
    }

    #[test]
    fn the_servers_options_follow_two_dashes() {
        let words = ["tare", "run", "--", "--port=3307", "--datadir=x"];
        let parsed = read(words.map(OsString::from));
        let Ok(Arguments { command: crate::commands::Command::Run(run) }) = parsed else {
            panic!("{parsed:?}")
        };
        assert_eq!(run.options, ["--port=3307", "--datadir=x"]);
        assert_eq!(run.datadir, None);
    }
}
