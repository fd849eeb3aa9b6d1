//! The pages docs/reference/command-line.md and docs/reference/exit-statuses.md, which a test brings up to
//! date.

use std::fmt::Write;

use clap::{Arg, Command};

use super::{GROUPS, arguments, each, environment, files};
use crate::exit;

/// The command that brings the pages up to date.
const UPDATE: &str = "TARE_UPDATE_DOCS=1 cargo test -p tare --bin tare markdown";

/// The heading of options that select a server. Commands share them, so that they are described once.
const CONNECTION: &str = "Connection";

/// Returns the page of all commands.
pub(crate) fn commands(command: &Command) -> String {
    let mut command = command.clone().disable_help_subcommand(true);
    command.build();
    let mut page = format!(
        "# Command line\n\n\
         For users of the tools: every command, its options, examples and exit statuses.\n\n\
         ```\n$ tare status --datadir /srv/try --format json | jq .status.lost\n0\n```\n\n\
         The same everywhere:\n\n\
         - `--format` chooses the format, such as `table` or `json`; `-o`, `--output` names the file.\n\
         - A duration has a unit: `500ms`, `10s`, `1h 30m`.\n\
         - `--connections` is how many connections a load has.\n\
         - `-h` is the host in commands that connect to a server, as in MySQL's clients; `--help` and `-?` print help.\n\
         - Errors go to standard error. [Exit statuses](exit-statuses.md) are the same for all commands, but for those named there.\n\n\
         `tare completions SHELL` prints completions for bash, zsh, fish and others; packages install them, and a manual page for \
         each command.\n\n\
         Generated from the command line's declaration; do not edit. To bring it up to date: `{UPDATE}`.\n"
    );
    for (group, names) in GROUPS {
        let _ = write!(page, "\n| {} | |\n|---|---|\n", group.to_lowercase());
        for below in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let (name, about) =
                (below.get_name(), below.get_about().map(ToString::to_string).unwrap_or_default());
            let _ = writeln!(page, "| [`tare {name}`](#tare-{name}) | {} |", cell(&about));
        }
    }
    connection(&mut page, &command);
    for (_, names) in GROUPS {
        for below in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let name = below.get_name().to_owned();
            let _ = each(below, &mut |path: &str, command: &Command| {
                let path = format!("{name} {path}");
                one(&mut page, path.trim(), command);
                Ok(())
            });
        }
    }
    page
}

/// Writes the options that select a server, once.
fn connection(page: &mut String, command: &Command) {
    let Some(any) = command.find_subcommand("status") else { return };
    page.push_str(
        "\n## Connection options\n\n\
         All commands that connect to a server have them. [Connect](../how-to/connect.md) says which one wins.\n\n| option | meaning |\n|---|---|\n",
    );
    arguments(any).filter(|arg| is_connection(arg)).for_each(|arg| option(page, arg));
}

fn is_connection(arg: &Arg) -> bool {
    arg.get_help_heading() == Some(CONNECTION)
}

/// Writes a command.
fn one(page: &mut String, path: &str, command: &Command) {
    let level = if path.contains(' ') { "###" } else { "##" };
    let _ = write!(page, "\n{level} tare {path}\n\n");
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let mut about = about.split("\n\n");
    if let Some(first) = about.next() {
        let _ = write!(page, "{first}{}\n\n", if first.ends_with('.') { "" } else { "." });
    }
    for paragraph in about {
        let _ = write!(page, "{paragraph}\n\n");
    }
    let usage = command.clone().render_usage().to_string();
    let _ = write!(page, "```\n{}\n```\n", usage.trim_start_matches("Usage: ").trim_end());
    let own: Vec<&Arg> =
        arguments(command).filter(|arg| !is_connection(arg) && arg.get_id() != "help").collect();
    if !own.is_empty() {
        page.push_str("\n| option | meaning |\n|---|---|\n");
        own.iter().for_each(|arg| option(page, arg));
    }
    if arguments(command).any(is_connection) {
        page.push_str("\nAnd [connection options](#connection-options).\n");
    }
    if let Some(examples) = command.get_after_help() {
        let text = examples.to_string();
        let (examples, remarks) = text.split_once("\n\n").unwrap_or((&text, ""));
        let lines = examples.lines().skip_while(|line| line.starts_with("Example"));
        let lines = lines.map(|line| line.strip_prefix("  ").unwrap_or(line).trim_end());
        let _ = write!(page, "\n```\n{}\n```\n", lines.collect::<Vec<_>>().join("\n"));
        if !remarks.is_empty() {
            let _ = write!(page, "\n{}\n", remarks.lines().map(str::trim).collect::<Vec<_>>().join("\n"));
        }
    }
    rest(page, path, command);
}

/// Writes files, variables and exit statuses, in a line each.
fn rest(page: &mut String, path: &str, command: &Command) {
    let is_shared = |named: &str| named.starts_with("MYSQL_") || named == "TARE_DSN";
    let files = files(path, command).into_iter().filter(|(name, _)| !name.contains("my.cnf"));
    let files: Vec<String> = files.map(|(name, what)| format!("`{name}` ({what})")).collect();
    let variables = environment(path, command).into_iter().filter(|(name, _)| !is_shared(name));
    let variables: Vec<String> = variables.map(|(name, what)| format!("`{name}` ({what})")).collect();
    let own = exit::OWN.iter().find(|(name, _)| *name == path).map_or(&[][..], |(_, own)| *own);
    let own: Vec<String> = own.iter().map(|(status, what)| format!("`{status}` {what}")).collect();
    for (title, all) in [("Files", files), ("Environment", variables)] {
        if !all.is_empty() {
            let _ = write!(page, "\n{title}: {}.\n", all.join("; "));
        }
    }
    if !own.is_empty() {
        let _ = write!(page, "\n[Exit status](exit-statuses.md): {}.\n", own.join("; "));
    }
}

/// Writes the row of an option.
fn option(page: &mut String, arg: &Arg) {
    let names = arg.get_value_names().unwrap_or_default().iter().map(ToString::to_string);
    let value = names.collect::<Vec<_>>().join(" ");
    let takes = arg.get_action().takes_values();
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    let name = match (short, long) {
        (Some(short), Some(long)) => format!("`{short}`, `{long}{}`", valued(&value, takes)),
        (Some(name), None) | (None, Some(name)) => format!("`{name}{}`", valued(&value, takes)),
        (None, None) => format!("`{value}`"),
    };
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut meaning = help.replace("\n\n", " ").replace('\n', " ");
    let defaults: Vec<_> =
        arg.get_default_values().iter().map(|it| it.to_string_lossy().into_owned()).collect();
    if takes && !defaults.is_empty() && !arg.is_hide_default_value_set() {
        let _ = write!(meaning, " [default: {}]", defaults.join(","));
    }
    let values = arg.get_possible_values();
    if takes && !values.is_empty() && !arg.is_hide_possible_values_set() {
        let each = values.iter().filter(|it| !it.is_hide_set()).map(|it| match it.get_help() {
            Some(help) => format!("`{}` ({help})", it.get_name()),
            None => format!("`{}`", it.get_name()),
        });
        let _ = write!(meaning, ". One of {}", each.collect::<Vec<_>>().join(", "));
    }
    let _ = writeln!(page, "| {name} | {} |", cell(&meaning));
}

fn valued(value: &str, takes: bool) -> String {
    if takes && !value.is_empty() { format!(" {value}") } else { String::new() }
}

/// Escapes a text for a table's cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('*', "\\*").replace('<', "&lt;")
}

/// Returns the page of exit statuses.
pub(crate) fn exit_statuses() -> String {
    let row = |(status, what): &exit::Meaning| format!("| {status} | {what} |\n");
    let mut page = format!(
        "# Exit statuses\n\n\
         For authors of scripts: what each command's exit status means.\n\n\
         ```\n$ tare doctor >/dev/null; echo $?\n1\n```\n\n\
         | status | means |\n|---|---|\n{}\n\
         Output that could not be written, as to a full disk, is status 1. These commands have statuses of their own:\n\n\
         | command | status | means |\n|---|---|---|\n",
        exit::COMMON.iter().map(row).collect::<String>()
    );
    for (command, own) in exit::OWN {
        for (status, what) in *own {
            let _ = writeln!(page, "| `tare {command}` | {status} | {what} |");
        }
    }
    let _ = write!(
        page,
        "\nThe same table is in each command's `--help` and manual page. Generated from `crates/tare/src/exit.rs`; do not edit. \
         To bring it up to date: `{UPDATE}`.\n"
    );
    page
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::super::is_shown;
    use super::*;

    fn docs(path: &str) -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(path)
    }

    /// With `TARE_UPDATE_DOCS` set, brings the files up to date instead.
    #[test]
    fn the_pages_are_up_to_date() {
        let pages = [
            ("reference/command-line.md", commands(&crate::command_line::command())),
            ("reference/exit-statuses.md", exit_statuses()),
        ];
        for (path, wanted) in pages {
            let path = docs(path);
            if std::env::var_os("TARE_UPDATE_DOCS").is_some() {
                fs::write(&path, &wanted).expect("writing the page");
            }
            let held = fs::read_to_string(&path).unwrap_or_default();
            assert!(held == wanted, "{} is stale; run: {UPDATE}", path.display());
        }
    }

    #[test]
    fn the_page_of_gates_says_what_the_table_says() {
        let page = fs::read_to_string(docs("how-to/gate-in-ci.md")).expect("the page");
        for (status, what) in exit::of("lab run").iter().filter(|(status, _)| *status != exit::CLOSED) {
            assert!(page.contains(&format!("| {status} | {what} |\n")), "no row: | {status} | {what} |");
        }
    }

    /// Everything in the examples of a command can be copied into a shell: prose begins with `#`.
    #[test]
    fn examples_can_be_copied() {
        let page = commands(&crate::command_line::command());
        let blocks: Vec<&str> = page.split("```\n").skip(1).step_by(2).collect();
        let is_usage = |block: &str| block.contains("[OPTIONS]") || block.contains("<COMMAND>");
        let examples = blocks.iter().filter(|block| !block.starts_with("$ ") && !is_usage(block));
        let mut seen = 0;
        for line in examples.flat_map(|block| block.lines()) {
            let words: Vec<&str> = line.split_whitespace().skip_while(|word| word.contains('=')).collect();
            let begins = words.first().is_some_and(|word| ["tare", "sudo", "#"].contains(word));
            assert!(begins || line.starts_with("  --"), "{line}");
            // Help has 100 columns, 2 of them margin: a line that is broken cannot be copied.
            assert!(line.chars().count() <= 98, "{line}");
            if let Some((_, prose)) = line.trim_start().split_once("  ") {
                assert!(prose.trim_start().starts_with('#'), "{line}");
            }
            seen += 1;
        }
        assert!(seen > 60, "{seen} lines");
    }

    #[test]
    fn every_command_that_is_shown_is_in_the_page() {
        let (command, page) = (crate::command_line::command(), commands(&crate::command_line::command()));
        for below in command.get_subcommands().filter(|it| is_shown(it)) {
            assert!(page.contains(&format!("\n## tare {}\n", below.get_name())), "{}", below.get_name());
        }
        assert!(
            page.contains("\n### tare lab replay\n") && page.contains("| `-o`, `--output FILE` |"),
            "{page}"
        );
    }
}
