//! An installation of MariaDB or MySQL: the server's program and the files that belong to it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Tried;
use crate::program::find_program;
use crate::{Error, Result};

/// The plugin that makes tare's tables readable through the server's own SQL.
const FEDERATED_PLUGIN: &str = "ha_federatedx.so";

/// Most characters of a program's output that are shown when it is not a server.
const MOST_SHOWN: usize = 80;

/// How to install the server's programs on Debian.
const SERVER_HINT: &str = "on Debian, `apt-get install mariadb-server` brings it";

/// The programs of one server version, and its plugin folder.
#[derive(Clone, Debug)]
pub struct Installation {
    /// Path of the server.
    pub mariadbd: PathBuf,
    /// Path of the script that makes a data directory; `None` for MySQL, whose server does it itself.
    pub install_db: Option<PathBuf>,
    /// Value of `--basedir`, where the server does not find its files without it.
    pub basedir: Option<PathBuf>,
    /// The version that the server prints, such as `10.11.6-MariaDB`.
    pub version: String,
    /// The folder from which it loads plugins.
    pub plugin_dir: PathBuf,
}

impl Installation {
    /// Finds the installation of `mariadbd`, or the system's.
    pub fn find(mariadbd: Option<&Path>) -> Result<Installation> {
        let mariadbd = match mariadbd {
            Some(path) => named(path).ok_or_else(|| missing(&path.display().to_string()))?,
            None => find_program("mariadbd", &[]).ok_or_else(|| missing("mariadbd"))?,
        };
        let home = mariadbd.parent().and_then(Path::parent).unwrap_or(Path::new("/")).to_owned();
        let beside = [home.join("bin"), home.join("scripts")];
        let said = said(&mariadbd, &["--no-defaults", "--version"])?;
        if !said.contains("Ver ") {
            return Err(no_server(&mariadbd, "--version", &said));
        }
        let install_db = if said.contains("MariaDB") {
            let script = find_program("mariadb-install-db", &beside)
                .or_else(|| find_program("mysql_install_db", &beside))
                .ok_or_else(|| missing("mariadb-install-db"))?;
            Some(script)
        } else {
            None
        };
        let basedir = (home != Path::new("/usr") && home.join("share").is_dir()).then_some(home);
        let help = variables(&mariadbd, basedir.as_deref())?;
        // Clients have a version, too, but no data directory.
        if value_of(&help, "datadir").is_none() {
            return Err(no_server(&mariadbd, "--verbose --help", &help));
        }
        let value = |name| value_of(&help, name).unwrap_or_default().to_owned();
        Ok(Installation {
            install_db,
            basedir,
            version: Some(value("version")).filter(|v| !v.is_empty()).unwrap_or_else(|| version_of(&said)),
            plugin_dir: value("plugin-dir").into(),
            mariadbd,
        })
    }

    /// Returns options that keep servers that are started here away from the system's: MySQL has a folder for
    /// exports and a second socket built in.
    pub fn own_options(&self) -> &[&'static str] {
        if self.is_mysql() { &["--secure-file-priv=NULL", "--mysqlx=OFF"] } else { &[] }
    }

    /// Returns whether it is MySQL's.
    pub fn is_mysql(&self) -> bool {
        self.install_db.is_none()
    }

    /// Returns whether the plugin that shows tare's tables on the server's port is installed.
    pub fn has_federated(&self) -> bool {
        self.plugin_dir.join(FEDERATED_PLUGIN).is_file()
    }
}

/// Finds a program by its path or its name.
fn named(path: &Path) -> Option<PathBuf> {
    let alone = path.components().count() == 1;
    path.canonicalize().ok().or_else(|| find_program(path.to_str()?, &[]).filter(|_| alone))
}

fn missing(program: &str) -> Error {
    Error::Missing { program: program.into(), hint: SERVER_HINT.into() }
}

/// Makes the error for a program that succeeded, but did not answer as a server does.
fn no_server(program: &Path, asked: &'static str, said: &str) -> Error {
    let printed = match said.trim().lines().next() {
        None => "printed nothing".to_owned(),
        Some(line) if asked == "--version" => {
            format!("printed `{}`", line.chars().take(MOST_SHOWN).collect::<String>())
        }
        Some(_) => "named no data directory among its variables".to_owned(),
    };
    Error::NotAServer {
        program: program.display().to_string(),
        asked,
        status: "exit status 0".to_owned(),
        printed,
    }
}

/// Returns the server's own list of its settings, a line `name value` each.
fn variables(mariadbd: &Path, basedir: Option<&Path>) -> Result<String> {
    let basedir = basedir.map(|b| format!("--basedir={}", b.display()));
    // Root must pass `--user`, even for help; the server does not become that user for it.
    let arguments =
        ["--no-defaults"].into_iter().chain(basedir.as_deref()).chain(["--user=root", "--verbose", "--help"]);
    said(mariadbd, &arguments.collect::<Vec<_>>())
}

/// Runs the server and returns its output.
fn said(mariadbd: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(mariadbd);
    command.args(arguments).env_remove("LD_PRELOAD");
    let output = command.output().tried(|| format!("running {}", mariadbd.display()))?;
    if !output.status.success() {
        return Err(Error::Program {
            program: mariadbd.display().to_string(),
            status: output.status.to_string(),
            output: Some(String::from_utf8_lossy(&output.stderr).into_owned())
                .filter(|said| !said.trim().is_empty())
                .unwrap_or_else(|| "it printed nothing".to_owned()),
        });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the version in `/usr/sbin/mysqld Ver 9.7.4 for Linux on x86_64`.
fn version_of(said: &str) -> String {
    let mut words = said.split_whitespace().skip_while(|word| *word != "Ver");
    words.nth(1).unwrap_or_default().to_owned()
}

fn value_of<'a>(help: &'a str, name: &str) -> Option<&'a str> {
    help.lines().find_map(|line| {
        let (first, rest) = line.split_once(char::is_whitespace)?;
        (first == name).then(|| rest.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_from_the_servers_list() {
        let help = "  --plugin-dir=name   Directory for plugins\nplugin-dir      /usr/lib/plugin/\nport  0\n";
        assert_eq!(value_of(help, "plugin-dir"), Some("/usr/lib/plugin/"));
        assert_eq!(value_of(help, "version"), None);
    }

    #[test]
    fn mysqls_version_is_read() {
        assert_eq!(version_of("/usr/sbin/mysqld  Ver 9.7.4 for Linux on x86_64 (Debian)"), "9.7.4");
        assert_eq!(version_of(""), "");
    }

    #[test]
    fn what_is_no_server_is_told_with_what_it_did() {
        let find =
            |program: &str| Installation::find(Some(Path::new(program))).expect_err(program).to_string();
        let said = find("/bin/true");
        for words in [
            "/true` does not look like a MariaDB or MySQL server",
            "exit status 0",
            "printed nothing",
            "--mariadbd",
        ] {
            assert!(said.contains(words), "{said}");
        }
        assert!(find("/bin/echo").contains("printed `--no-defaults --version`"), "{}", find("/bin/echo"));
        assert!(
            find("/bin/false").contains("failed (exit status: 1)\nit printed nothing"),
            "{}",
            find("/bin/false")
        );
        // A program with a version and variables, such as a client.
        let folder = tempfile::tempdir().expect("folder");
        let script = folder.path().join("mariadb");
        std::fs::write(&script, "#!/bin/sh\necho 'mariadb  Ver 15.1 Distrib 10.11.19-MariaDB'\n")
            .expect("a program");
        std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .expect("permissions");
        let said = find(&script.display().to_string());
        assert!(said.contains("named no data directory"), "{said}");
    }

    #[test]
    fn a_program_beside_the_server_comes_first() {
        let folder = tempfile::tempdir().expect("folder");
        std::fs::write(folder.path().join("sh"), "").expect("file");
        assert_eq!(find_program("sh", &[folder.path().into()]), Some(folder.path().join("sh")));
        assert_ne!(find_program("sh", &[]), None);
        assert_eq!(find_program("no such program", &[]), None);
    }

    #[test]
    fn a_server_that_is_not_there_is_named() {
        let error = Installation::find(Some(Path::new("/nowhere/mariadbd"))).expect_err("nothing there");
        assert!(error.to_string().contains("/nowhere/mariadbd"), "{error}");
    }
}
