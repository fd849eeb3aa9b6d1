//! Option files (`my.cnf`) as MySQL and MariaDB clients read them.
//!
//! A file has groups in brackets and below them lines `name` or `name = value`; `-` and `_` are the same in
//! names. `#` and `;` begin a comment, `#` also after a value unless it is quoted. Quotes around a value are
//! removed and escapes such as `\n` and `\s` are replaced. `!include FILE` and `!includedir DIR` read further
//! files. A file that everybody may write to is not read.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tare_words::option_line;

use crate::{RejectedValue, ServerOptions};

/// The groups that every client reads.
const CLIENT: [&str; 3] = ["client", "client-server", "client-mariadb"];
/// The group that only tare's own commands read. In the server's own files this group is the provider's.
const OWN: &str = "tare";
/// The machine's option files, in the order in which they are read.
const OF_THE_MACHINE: [&str; 2] = ["/etc/my.cnf", "/etc/mysql/my.cnf"];
/// The deepest nesting of included files; a file may include itself.
const DEEPEST: usize = 10;

/// An option line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionLine {
    /// The group the option is in.
    pub group: String,
    /// The option's name, in lower case and with `-`.
    pub name: String,
    /// The text after `=`; `None` where there is no `=`.
    pub value: Option<String>,
}

/// The choice of files to read.
#[derive(Clone, Debug, Default)]
pub struct OptionFileChoice {
    /// The only file to read, if set.
    pub only: Option<PathBuf>,
    /// A file to read after the machine's files and before the user's.
    pub extra: Option<PathBuf>,
    /// Whether to read neither the machine's nor the user's files.
    pub none: bool,
    /// The user's home directory.
    pub home: Option<PathBuf>,
}

/// The options found, split into those of the machine's files and those of files the user named or has at
/// home.
#[derive(Debug, Default)]
pub struct Found {
    /// Options of files that the user chose; the later file wins.
    pub chosen: ServerOptions,
    /// Options of the machine's files.
    pub machine: ServerOptions,
    /// Messages for people about what was skipped and why.
    pub notes: Vec<String>,
}

/// The reason a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("{}: {why}", path.display())]
    Read {
        /// The file's path.
        path: PathBuf,
        /// The system's error.
        why: io::Error,
    },
    /// A line is not valid in an option file.
    #[error("{}, line {line}: {why}", path.display())]
    Line {
        /// The file's path.
        path: PathBuf,
        /// The line number, from 1.
        line: usize,
        /// The fault of the line; never its text, which may be a password.
        why: &'static str,
    },
    /// An option has an invalid value.
    #[error("{}: {why}", path.display())]
    Value {
        /// The file's path.
        path: PathBuf,
        /// The fault of the value.
        why: RejectedValue,
    },
}

/// Reads what the chosen files say of a server.
///
/// # Errors
///
/// When a named file does not exist, or an existing one cannot be used. A faulty file of the machine becomes
/// a note instead.
pub fn find(choice: &OptionFileChoice) -> Result<Found, Error> {
    let mut found = Found::default();
    if let Some(only) = &choice.only {
        found.chosen = said(only, true, true, &mut found.notes)?;
        return Ok(found);
    }
    if !choice.none {
        for path in OF_THE_MACHINE.map(Path::new) {
            let later = said(path, false, false, &mut found.notes)?;
            found.machine = later.over(found.machine);
        }
    }
    if let Some(extra) = &choice.extra {
        found.chosen = said(extra, true, true, &mut found.notes)?;
    }
    if let (false, Some(home)) = (choice.none, &choice.home) {
        let later = said(&home.join(".my.cnf"), true, false, &mut found.notes)?;
        found.chosen = later.over(found.chosen);
    }
    Ok(found)
}

/// Returns what one file says to clients and, if the file is one of the user's, to tare.
fn said(path: &Path, is_own: bool, is_needed: bool, notes: &mut Vec<String>) -> Result<ServerOptions, Error> {
    let groups = CLIENT.iter().copied().chain(is_own.then_some(OWN));
    let groups: Vec<&str> = groups.collect();
    let read = entries(path, notes).and_then(|entries| {
        of_groups(&entries, &groups).map_err(|why| Error::Value { path: path.to_owned(), why })
    });
    match read {
        Err(Error::Read { why, .. }) if !is_needed && why.kind() == io::ErrorKind::NotFound => {
            Ok(ServerOptions::default())
        }
        // A file that the user has not chosen must not keep them from working.
        Err(error) if !is_own => {
            notes.push(format!("not read: {error}"));
            Ok(ServerOptions::default())
        }
        read => read,
    }
}

/// Returns what these groups of a file say; a later line wins.
///
/// # Errors
///
/// When a value is invalid.
pub fn of_groups(entries: &[OptionLine], groups: &[&str]) -> Result<ServerOptions, RejectedValue> {
    let mut said = ServerOptions::default();
    for entry in entries.iter().filter(|entry| groups.contains(&entry.group.as_str())) {
        said.set(&entry.name, entry.value.as_deref())?;
    }
    Ok(said)
}

/// Returns all options of a file and of the files it includes, in order.
///
/// # Errors
///
/// When the file cannot be read or is not an option file.
pub fn entries(path: &Path, notes: &mut Vec<String>) -> Result<Vec<OptionLine>, Error> {
    let mut entries = vec![];
    let mut group = String::new();
    read(path, 0, &mut group, &mut entries, notes)?;
    Ok(entries)
}

fn read(
    path: &Path,
    depth: usize,
    group: &mut String,
    entries: &mut Vec<OptionLine>,
    notes: &mut Vec<String>,
) -> Result<(), Error> {
    let failed = |why| Error::Read { path: path.to_owned(), why };
    let facts = fs::metadata(path).map_err(failed)?;
    if facts.is_file() && facts.permissions().mode() & 0o002 != 0 {
        notes.push(format!("{} is not read: everybody may write to it (chmod o-w)", path.display()));
        return Ok(());
    }
    let text = fs::read(path).map_err(failed)?;
    let text = String::from_utf8_lossy(&text);
    for (number, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let wrong = |why| Error::Line { path: path.to_owned(), line: number + 1, why };
        match parse(line).map_err(wrong)? {
            OptionFileLine::Nothing => {}
            OptionFileLine::Group(name) => *group = name,
            OptionFileLine::Option(name, value) if !group.is_empty() => {
                entries.push(OptionLine { group: group.clone(), name, value });
            }
            OptionFileLine::Option(..) => return Err(wrong("an option before the first [group]")),
            OptionFileLine::Include(_) | OptionFileLine::IncludeFolder(_) if depth == DEEPEST => {
                return Err(wrong("too many files within files"));
            }
            OptionFileLine::Include(file) => read(Path::new(&file), depth + 1, group, entries, notes)?,
            OptionFileLine::IncludeFolder(folder) => {
                for file in
                    in_folder(Path::new(&folder)).map_err(|why| Error::Read { path: folder.into(), why })?
                {
                    read(&file, depth + 1, group, entries, notes)?;
                }
            }
        }
    }
    Ok(())
}

/// Returns the `.cnf` files of a folder, sorted by path.
fn in_folder(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|it| it == "cnf"));
    files.sort();
    Ok(files)
}

enum OptionFileLine {
    Nothing,
    Group(String),
    Option(String, Option<String>),
    Include(String),
    IncludeFolder(String),
}

fn parse(line: &str) -> Result<OptionFileLine, &'static str> {
    let line = line.trim_matches(option_line::is_space);
    if let Some(directive) = line.strip_prefix('!') {
        let (word, path) = directive.split_once(char::is_whitespace).unwrap_or((directive, ""));
        let path = path.trim().to_owned();
        return match word {
            _ if path.is_empty() => Err("a directive without a path"),
            "include" => Ok(OptionFileLine::Include(path)),
            "includedir" => Ok(OptionFileLine::IncludeFolder(path)),
            _ => Err("of directives, !include and !includedir are allowed"),
        };
    }
    if let Some(group) = line.strip_prefix('[') {
        let (name, _) = group.split_once(']').ok_or("a group without its ]")?;
        return Ok(OptionFileLine::Group(name.trim().to_owned()));
    }
    let Some((name, value)) = option_line::parse(line) else { return Ok(OptionFileLine::Nothing) };
    Ok(OptionFileLine::Option(name.to_lowercase().replace('_', "-"), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> (String, Option<String>) {
        match parse(line).expect("a line") {
            OptionFileLine::Option(name, value) => (name, value),
            _ => panic!("{line} is no option"),
        }
    }

    #[test]
    fn a_line_is_read_as_clients_read_it() {
        for (line, name, value) in [
            ("user=dba", "user", Some("dba")),
            ("  ssl_ca = /etc/ca.pem  # the firm's", "ssl-ca", Some("/etc/ca.pem")),
            ("password", "password", None),
            ("password=", "password", Some("")),
            ("password = \"a#b\" # c", "password", Some("a#b")),
            ("PORT = 3307", "port", Some("3307")),
        ] {
            assert_eq!(options(line), (name.to_owned(), value.map(str::to_owned)), "{line}");
        }
        for line in ["", "  ", "# a", "; b", "  #c"] {
            assert!(matches!(parse(line), Ok(OptionFileLine::Nothing)), "{line}");
        }
        for line in ["!incl x", "!include", "[client"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    fn place(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            fs::write(path, text.replace("HERE", &folder.path().display().to_string())).expect("a file");
        }
        folder
    }

    #[test]
    fn a_later_file_wins_and_groups_of_clients_are_read() {
        let home = place(&[
            ("extra.cnf", "[client]\nuser=extra\nport=3310\nssl-ca=/extra.pem\n[mysqld]\nport=1\n"),
            (
                ".my.cnf",
                "!includedir HERE/d\n[tare]\nport=3312\n[mysql]\nuser=no\n[client-mariadb]\nhost=db9\n!include HERE/more\n",
            ),
            ("d/a.cnf", "[client]\nuser=home\nport=3311\n"),
            ("d/b.txt", "[client]\nuser=no\n"),
            ("more", "[client-server]\nsocket=/run/s\n"),
        ]);
        let extra = Some(home.path().join("extra.cnf"));
        let choice = OptionFileChoice {
            extra: extra.clone(),
            home: Some(home.path().into()),
            ..OptionFileChoice::default()
        };
        let said = find(&choice).expect("files").chosen;
        assert_eq!(said.user.as_deref(), Some("home"));
        assert_eq!((said.port, said.host.as_deref()), (Some(3312), Some("db9")));
        assert_eq!(said.socket.as_deref(), Some(Path::new("/run/s")));
        assert_eq!(said.ca.as_deref(), Some(Path::new("/extra.pem")));
        let only =
            OptionFileChoice { only: extra, home: Some(home.path().into()), ..OptionFileChoice::default() };
        let said = find(&only).expect("a file").chosen;
        assert_eq!((said.user.as_deref(), said.port), (Some("extra"), Some(3310)));
        let none =
            OptionFileChoice { none: true, home: Some(home.path().into()), ..OptionFileChoice::default() };
        assert_eq!(find(&none).expect("no file").chosen, ServerOptions::default());
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said_without_what_it_holds() {
        let folder = place(&[
            ("early", "password=secret\n"),
            ("port", "[client]\nport=secret\n"),
            ("loop", "[client]\n!include HERE/loop\n"),
            ("open", "[client]\npassword=secret\n"),
        ]);
        let only = |name: &str| OptionFileChoice {
            only: Some(folder.path().join(name)),
            ..OptionFileChoice::default()
        };
        for (name, expected) in [
            ("early", "line 1: an option before"),
            ("port", "port: a number from 1 to 65535"),
            ("loop", "within files"),
            ("none", "No such file"),
        ] {
            let error = find(&only(name)).expect_err(name).to_string();
            assert!(error.contains(expected) && !error.contains("secret"), "{name}: {error}");
        }
        let open = folder.path().join("open");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o666)).expect("permissions");
        let found = find(&only("open")).expect("it is left out");
        assert!(found.chosen.password.is_none() && found.notes[0].contains("everybody"), "{found:?}");
    }
}
