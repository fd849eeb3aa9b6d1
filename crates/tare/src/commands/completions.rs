//! `tare completions`: what a shell needs to complete commands, options and names.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::builder::PossibleValue;
use clap::{Arg, Args, Command};
use clap_complete::{Shell, generate};

use crate::output;

/// Print the completions of a shell: commands, options, names of studies and workloads
///
/// Packages install those of bash, zsh and fish already.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    tare completions bash > ~/.local/share/bash-completion/completions/tare\n  \
    tare completions zsh > ~/.zfunc/_tare                     # in a folder of $fpath\n  \
    tare completions fish > ~/.config/fish/completions/tare.fish")]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
}

/// Runs the command; `command` is the declaration of the command line.
pub(crate) fn completions(arguments: &Completions, command: &Command) -> Result<ExitCode> {
    output::print(&text(arguments.shell, command)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns what a shell needs.
pub(crate) fn text(shell: Shell, command: &Command) -> Result<String> {
    let mut command = shown(command);
    let mut text = vec![];
    generate(shell, &mut command, "tare", &mut text);
    let mut text = String::from_utf8(text).context("completions")?;
    if shell == Shell::Fish {
        arguments_for_fish(&command, "true", &mut text);
    }
    Ok(text)
}

/// Returns the command line without hidden commands, which the generators would offer.
fn shown(command: &Command) -> Command {
    Command::new("tare")
        .version(env!("CARGO_PKG_VERSION"))
        .about(command.get_about().cloned().unwrap_or_default())
        .disable_help_flag(true)
        .args(command.get_arguments().cloned())
        .subcommands(command.get_subcommands().filter(|it| !it.is_hide_set()).cloned())
}

/// Adds the values of arguments that are no options, which the generator leaves out. `condition` is fish's
/// for the command's name.
fn arguments_for_fish(command: &Command, condition: &str, text: &mut String) {
    for values in command.get_positionals().map(Arg::get_possible_values).filter(|it| !it.is_empty()) {
        let names: Vec<&str> = values.iter().map(PossibleValue::get_name).collect();
        text.push_str(&format!("complete -c tare -n \"{condition}\" -a \"{}\"\n", names.join(" ")));
    }
    for below in command.get_subcommands().filter(|it| it.get_name() != "help") {
        let condition = format!("{condition}; and __fish_seen_subcommand_from {}", below.get_name());
        arguments_for_fish(below, &condition, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_commands_are_not_offered() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let text = text(shell, &crate::command_line::command()).expect("completions");
            let offers = |name: &str| {
                [format!(" {name} "), format!("'{name}:"), format!("-a \"{name}\"")]
                    .iter()
                    .any(|it| text.contains(it))
            };
            assert!(offers("slowlog") && offers("completions"), "{shell}");
            // The other hidden names are words of descriptions, too.
            assert!(!offers("documents"), "{shell} offers a hidden command");
        }
    }
}
