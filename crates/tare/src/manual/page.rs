//! Manual pages.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use clap::Command;
use clap_mangen::Man;

use super::{each, environment, files, related};
use crate::exit;

/// Writes the page of every command into a folder.
pub(crate) fn write(command: &Command, folder: &Path) -> io::Result<()> {
    let mut command = command.clone().disable_help_subcommand(true);
    command.build();
    each(&command, &mut |path: &str, command: &Command| {
        let man = Man::new(command.clone()).source(format!("tare {}", env!("CARGO_PKG_VERSION")));
        let man = man.manual("tare");
        fs::write(folder.join(man.get_filename()), page(path, command, &man)?)
    })
}

/// Returns a command's page.
fn page(path: &str, command: &Command, man: &Man) -> io::Result<Vec<u8>> {
    let mut page = vec![];
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if super::arguments(command).next().is_some() {
        man.render_options_section(&mut page)?;
    }
    if command.get_subcommands().any(super::is_shown) {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(examples) = command.get_after_help() {
        writeln!(page, ".SH EXAMPLES\n.nf")?;
        let text = examples.to_string();
        let lines = text.lines().skip_while(|line| line.starts_with("Example"));
        lines
            .map(|line| line.strip_prefix("  ").unwrap_or(line))
            .try_for_each(|line| writeln!(page, "{}", line_of(line)))?;
        writeln!(page, ".fi")?;
    }
    let files = files(path, command).into_iter().map(|(name, what)| (name.to_owned(), what.to_owned()));
    list(&mut page, "FILES", files)?;
    list(&mut page, "ENVIRONMENT", environment(path, command))?;
    let statuses = exit::of(path).into_iter();
    list(&mut page, "EXIT STATUS", statuses.map(|(status, what)| (status.to_string(), what.to_owned())))?;
    let related: Vec<String> = related(path, command).iter().map(|it| reference(it)).collect();
    writeln!(page, ".SH \"SEE ALSO\"\n{}", related.join(",\n"))?;
    Ok(page)
}

/// Writes a section of names with their meanings, if there are some.
fn list(
    page: &mut Vec<u8>,
    section: &str,
    named: impl IntoIterator<Item = (String, String)>,
) -> io::Result<()> {
    let mut named = named.into_iter().peekable();
    if named.peek().is_some() {
        writeln!(page, ".SH \"{section}\"")?;
    }
    named.try_for_each(|(name, what)| writeln!(page, ".TP\n\\fB{}\\fR\n{}", escaped(&name), line_of(&what)))
}

/// Formats the name of a page with its section: `tare lab run` is tare-lab-run(1).
fn reference(name: &str) -> String {
    format!("\\fB{}\\fR(1)", escaped(&name.replace(' ', "-")))
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

/// Escapes a line, whose first character must not begin a request.
fn line_of(text: &str) -> String {
    let text = escaped(text);
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_what_man_pages_have() {
        let folder = tempfile::tempdir().expect("a folder");
        write(&crate::command_line::command(), folder.path()).expect("written");
        let page = |name: &str| fs::read_to_string(folder.path().join(name)).expect(name);
        let run = page("tare-lab-run.1");
        for text in [
            ".SH EXAMPLES",
            ".SH \"ENVIRONMENT\"",
            "TARE_LAB_PASSWORD",
            ".SH \"EXIT STATUS\"",
            "unknown: with \\-\\-fail\\-above",
            ".SH \"SEE ALSO\"",
            "\\fBtare\\-lab\\fR(1)",
        ] {
            assert!(run.contains(text), "no {text} in:\n{run}");
        }
        assert!(page("tare-install.1").contains("zz\\-tare.conf"));
        assert!(page("tare-top.1").contains("/var/lib/mysql/tare.sock"));
        let statuses = page("tare-status.1");
        assert!(statuses.contains("\\fB3\\fR\ntare is not active"), "{statuses}");
        assert!(
            page("tare.1").contains("\\fBtare\\-completions\\fR(1)")
                || page("tare.1").contains("tare\\-completions(1)")
        );
    }
}
