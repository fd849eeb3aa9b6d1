//! The options that select a server, common to all commands and equal to those of MySQL's clients.
//!
//! The command line overrides the environment, which overrides option files; later files override earlier
//! ones. The rules are in the crate `tare_connect`; this module applies them to the command line.

use std::fs;
use std::io::{self, IsTerminal as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use tare_connect::greeting::{Listener, listener};
use tare_connect::option_file::{self, Found, OptionFileChoice};
use tare_connect::{Dsn, Mode, PasswordOption, Secret, ServerAccount, ServerOptions};
use tare_lab::target::AccountPasswords;
use tare_outlets::{Address, Source, notice};

use crate::endpoint::SOCKET;

/// The data directory by default.
const DATADIR: &str = "/var/lib/mysql";
/// The environment variable that may name the server; unlike arguments, other users cannot see it.
pub(crate) const DSN_VARIABLE: &str = "TARE_DSN";
/// Names of servers' own sockets.
const OF_SERVERS: [&str; 2] = ["mysqld.sock", "mysql.sock"];
const HEADING: &str = "Connection";

/// The server to connect to: tare's endpoint, or any server through an account.
#[derive(Args, Clone, Debug, Default)]
#[group(skip)]
pub(crate) struct Reach {
    /// The socket tare listens on, or the server's own [default: tare.sock in the data directory]
    #[arg(short = 'S', long, value_name = "PATH", help_heading = HEADING)]
    pub(crate) socket: Option<PathBuf>,
    /// Data directory of a server with tare [default: /var/lib/mysql]
    #[arg(long, value_name = "DIR", conflicts_with = "socket", help_heading = HEADING)]
    pub(crate) datadir: Option<PathBuf>,
    /// The server's host; this machine's server is reached by its socket
    #[arg(short = 'h', long, value_name = "HOST", conflicts_with = "datadir", help_heading = HEADING)]
    pub(crate) host: Option<String>,
    /// The server's port [default: 3306]
    #[arg(
        short = 'P',
        long,
        value_name = "PORT",
        conflicts_with = "datadir",
        value_parser = clap::value_parser!(u16).range(1..),
        help_heading = HEADING
    )]
    pub(crate) port: Option<u16>,
    /// The account [default: the user's name]
    #[arg(short = 'u', long, value_name = "NAME", conflicts_with = "datadir", help_heading = HEADING)]
    pub(crate) user: Option<String>,
    /// Its password; without a value, it is prompted for. Other users see arguments: an option file or -p
    /// alone hides it from them
    #[arg(
        short = 'p',
        long,
        value_name = "PASSWORD",
        num_args = 0..=1,
        require_equals = true,
        conflicts_with = "datadir",
        value_parser = secret,
        help_heading = HEADING
    )]
    pub(crate) password: Option<Option<Secret>>,
    /// DISABLED, PREFERRED, REQUIRED, VERIFY_CA or VERIFY_IDENTITY [default: VERIFY_CA with --ssl-ca, else
    /// PREFERRED]
    #[arg(long, value_name = "MODE", value_parser = mode, help_heading = HEADING)]
    pub(crate) ssl_mode: Option<Mode>,
    /// The authorities whose certificates are trusted [default: the system's]
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub(crate) ssl_ca: Option<PathBuf>,
    /// The client's certificate
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub(crate) ssl_cert: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub(crate) ssl_key: Option<PathBuf>,
    /// Everything as a URL: mysql://ACCOUNT:PASSWORD@HOST:PORT, or
    /// mysql://ACCOUNT:PASSWORD@localhost?socket=/PATH. Other users see arguments: the variable TARE_DSN,
    /// --dsn-file and option files hide the password from them
    #[arg(
        long,
        value_name = "URL",
        conflicts_with_all = ["socket", "datadir", "host", "port"],
        value_parser = secret,
        help_heading = HEADING
    )]
    pub(crate) dsn: Option<Secret>,
    /// A file whose first line is such a URL
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["socket", "datadir", "host", "port", "dsn"],
        help_heading = HEADING
    )]
    pub(crate) dsn_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) files: Files,
}

/// Option files.
#[derive(Args, Clone, Debug, Default)]
#[group(skip)]
pub(crate) struct Files {
    /// Read only this option file: its groups client, client-server, client-mariadb and tare
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub(crate) defaults_file: Option<PathBuf>,
    /// Also read this option file, before ~/.my.cnf
    #[arg(long, value_name = "FILE", conflicts_with = "defaults_file", help_heading = HEADING)]
    pub(crate) defaults_extra_file: Option<PathBuf>,
    /// Read no other option files
    #[arg(long, conflicts_with = "defaults_file", help_heading = HEADING)]
    pub(crate) no_defaults: bool,
}

/// The password for accounts on a study's servers, whose addresses are in the study's file.
#[derive(Args, Clone, Debug, Default)]
#[group(skip)]
pub(crate) struct LabAccount {
    /// The password of accounts on running servers; without a value, it is prompted for
    #[arg(
        short = 'p',
        long,
        value_name = "PASSWORD",
        num_args = 0..=1,
        require_equals = true,
        value_parser = secret,
        help_heading = HEADING
    )]
    password: Option<Option<Secret>>,
    #[command(flatten)]
    files: Files,
}

impl LabAccount {
    /// Returns the known passwords.
    ///
    /// # Errors
    ///
    /// An option file cannot be read, or the user cannot be prompted.
    pub(crate) fn credentials(&self) -> Result<AccountPasswords> {
        let found = self.files.find(ProgramEnvironment::of_the_program().home)?;
        let said = found.chosen.over(found.machine);
        let given = match &self.password {
            None => None,
            Some(Some(password)) => Some(password.clone()),
            Some(None) => Some(ask("the study's accounts")?),
        };
        let filed = match said.password {
            Some(PasswordOption::Said(password)) => Some((said.user, password)),
            _ => None,
        };
        Ok(AccountPasswords { given, filed })
    }
}

#[allow(clippy::unnecessary_wraps)] // a parser's form
fn secret(text: &str) -> Result<Secret, String> {
    Ok(Secret::new(text))
}

fn mode(text: &str) -> Result<Mode, String> {
    Mode::read(text).ok_or_else(|| Mode::ALLOWED.to_owned())
}

/// The program's environment.
#[derive(Clone, Debug, Default)]
struct ProgramEnvironment {
    dsn: Option<Secret>,
    home: Option<PathBuf>,
    /// Values of the variables of MySQL's clients, which have the lowest priority.
    clients: ServerOptions,
}

impl ProgramEnvironment {
    fn of_the_program() -> ProgramEnvironment {
        let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        ProgramEnvironment {
            dsn: variable(DSN_VARIABLE).map(Secret::new),
            home: std::env::var_os("HOME").filter(|it| !it.is_empty()).map(PathBuf::from),
            clients: ServerOptions {
                port: variable("MYSQL_TCP_PORT").and_then(|port| port.parse().ok()),
                socket: variable("MYSQL_UNIX_PORT").map(PathBuf::from),
                password: variable("MYSQL_PWD").map(|it| PasswordOption::Said(Secret::new(it))),
                ..ServerOptions::default()
            },
        }
    }
}

impl Files {
    /// Returns the user's own option file: the given one, or the one in the home directory.
    pub(crate) fn own(&self) -> Option<PathBuf> {
        let named = self.defaults_file.as_ref().or(self.defaults_extra_file.as_ref()).cloned();
        let at_home = || ProgramEnvironment::of_the_program().home.map(|home| home.join(".my.cnf"));
        named.or_else(|| if self.no_defaults { None } else { at_home() })
    }

    fn find(&self, home: Option<PathBuf>) -> Result<Found> {
        let choice = OptionFileChoice {
            only: self.defaults_file.clone(),
            extra: self.defaults_extra_file.clone(),
            none: self.no_defaults,
            home,
        };
        let found = option_file::find(&choice).context("option files")?;
        found.notes.iter().for_each(|note| notice::write(format_args!("tare: {note}")));
        Ok(found)
    }
}

impl Reach {
    /// Returns whether the command line or the environment names a server or an account.
    pub(crate) fn is_said(&self) -> bool {
        let said = self.said();
        said.names_server()
            || said.names_account()
            || self.datadir.is_some()
            || self.dsn.is_some()
            || self.dsn_file.is_some()
            || self.files.defaults_file.is_some()
            || self.files.defaults_extra_file.is_some()
            || std::env::var(DSN_VARIABLE).is_ok_and(|it| !it.is_empty())
    }

    /// Returns the server's address: tare's endpoint, or a server through an account.
    ///
    /// # Errors
    ///
    /// The options are invalid, or a password cannot be prompted for.
    pub(crate) fn address(&self) -> Result<Address> {
        self.address_with(ProgramEnvironment::of_the_program(), &mut ask)
    }

    /// Returns the server through an account, for what tare's own socket does not support.
    ///
    /// # Errors
    ///
    /// Those of [`Reach::address`], or the address is tare's own socket.
    pub(crate) fn account(&self) -> Result<ServerAccount> {
        self.account_with(ProgramEnvironment::of_the_program(), &mut ask)
    }

    /// Returns tare's socket, for what only that supports. Another address is queried for it.
    ///
    /// # Errors
    ///
    /// Those of [`Reach::address`], or the server has no tare, or is not on this machine.
    pub(crate) fn endpoint(&self) -> Result<PathBuf> {
        let server = match self.address()? {
            Address::Socket(path) => return Ok(path),
            account => account,
        };
        let at = server.to_string();
        let mut source = Source::open(server)?;
        let rows = source.rows("tare_status", &["VALUE"], "WHERE NAME = 'socket'");
        let socket = rows.with_context(|| format!("asking {at} for tare's socket"))?;
        let socket = socket.first().and_then(|row| row.text(0)).map(PathBuf::from);
        match socket.filter(|it| it.exists()) {
            Some(socket) => Ok(socket),
            None => bail!(
                "tare's socket of the server at {at} is not on this machine, and only there this command runs"
            ),
        }
    }

    fn account_with(&self, environment: ProgramEnvironment, ask: &mut Asking<'_>) -> Result<ServerAccount> {
        let needed = "this command needs an account on the server, which tare's own socket does not have: name the server's socket \
                      (--socket), its host (-h) or an address (--dsn)";
        if let Some(datadir) = &self.datadir {
            bail!("--datadir {}: {needed}", datadir.display());
        }
        if let Some(socket) = &self.socket
            && let Address::Socket(path) = self.by_socket(socket, &ServerOptions::default(), ask)?
        {
            bail!("{} is tare's socket, and {needed}", path.display());
        }
        let (these, files) = self.all(environment)?;
        ServerOptions::server(these, files.chosen.over(files.machine), ask)
    }

    fn address_with(&self, environment: ProgramEnvironment, ask: &mut Asking<'_>) -> Result<Address> {
        if let Some(datadir) = &self.datadir {
            return Ok(Address::Socket(datadir.join(SOCKET)));
        }
        let (these, files) = self.all(environment)?;
        let Found { chosen, machine, .. } = files;
        let below = chosen.clone().over(machine);
        if let Some(socket) = &self.socket {
            return self.by_socket(socket, &below, ask);
        }
        let account = |these: ServerOptions, ask: &mut Asking<'_>| {
            Ok(Address::Account(Box::new(ServerOptions::server(these, below.clone(), ask)?)))
        };
        if these.names_server() || these.names_account() {
            return account(these, ask);
        }
        let usual = Path::new(DATADIR).join(SOCKET);
        match &chosen.socket {
            Some(socket) if chosen.host.is_none() => {
                match listener(socket).unwrap_or_else(|_| by_name(socket, chosen.names_account())) {
                    Listener::Tare => Ok(Address::Socket(socket.clone())),
                    Listener::Server => account(these, ask),
                }
            }
            _ if chosen.names_server() => account(these, ask),
            // Files that only name an account are used if tare's own socket may not be opened.
            _ if chosen.names_account() && UnixStream::connect(&usual).is_err() => account(these, ask),
            _ => Ok(Address::Socket(usual)),
        }
    }

    /// Returns the address of a socket, after finding out who listens, if its name does not tell.
    fn by_socket(&self, socket: &Path, below: &ServerOptions, ask: &mut Asking<'_>) -> Result<Address> {
        let these = self.said();
        if these.host.as_deref().is_some_and(|host| !host.eq_ignore_ascii_case("localhost")) {
            bail!("--host and --socket name two servers: leave one of them out");
        }
        let is_named = socket.file_name().is_some_and(|name| name == SOCKET);
        if is_named && !these.names_account() {
            return Ok(Address::Socket(socket.to_owned()));
        }
        let listens = listener(socket);
        let is_found = listens.is_ok();
        let tell = |whose: &str| {
            if is_found && !is_named {
                notice::write(format_args!("tare: {} is {whose}", socket.display()));
            }
        };
        match listens.unwrap_or_else(|_| by_name(socket, these.names_account())) {
            Listener::Tare => {
                tell("tare's socket");
                Ok(Address::Socket(socket.to_owned()))
            }
            Listener::Server => {
                let server = ServerOptions::server(these, below.clone(), ask)?;
                tell(&format!("the server's own socket: through the account `{}`", server.user));
                Ok(Address::Account(Box::new(server)))
            }
        }
    }

    /// Returns the values of the command line and an address, and those of the files.
    fn all(&self, environment: ProgramEnvironment) -> Result<(ServerOptions, Found)> {
        let these = self.said();
        let mut files = self.files.find(environment.home)?;
        files.machine = files.machine.over(environment.clients);
        let dsn = match (&self.dsn, &self.dsn_file) {
            (Some(dsn), _) => Some(Dsn::read(dsn.reveal()).context("--dsn")?),
            (None, Some(file)) => {
                let read = Dsn::read(&dsn_in(file)?);
                Some(read.with_context(|| format!("the first line of {}", file.display()))?)
            }
            // An address is a unit: naming another server does not imply its account.
            (None, None) if these.names_server() => None,
            (None, None) => match &environment.dsn {
                Some(dsn) => Some(Dsn::read(dsn.reveal()).context(DSN_VARIABLE)?),
                None => None,
            },
        };
        Ok((dsn.iter().fold(these, |these, dsn| these.over(ServerOptions::of_dsn(dsn))), files))
    }

    /// Returns the values of the command line's options.
    fn said(&self) -> ServerOptions {
        let password = self.password.clone().map(|it| it.map_or(PasswordOption::User, PasswordOption::Said));
        ServerOptions {
            host: self.host.clone(),
            port: self.port,
            socket: self.socket.clone(),
            tcp: None,
            user: self.user.clone(),
            password,
            mode: self.ssl_mode,
            ca: self.ssl_ca.clone(),
            cert: self.ssl_cert.clone(),
            key: self.ssl_key.clone(),
        }
    }
}

/// Returns whose socket it is, by its name and the options, if nothing listens.
fn by_name(socket: &Path, is_account: bool) -> Listener {
    let is_servers = OF_SERVERS.iter().any(|name| socket.ends_with(name));
    if is_account || is_servers { Listener::Server } else { Listener::Tare }
}

/// Prompts for the password of an account.
type Asking<'a> = dyn FnMut(&str) -> Result<Secret> + 'a;

/// Prompts the user without echo.
fn ask(account: &str) -> Result<Secret> {
    let typed = rpassword::prompt_password("Enter password: ");
    let what = || {
        let way = if io::stdin().is_terminal() {
            ""
        } else {
            "; there is no terminal: put it into an option file (--defaults-file)"
        };
        format!("asking for the password of {account}{way}")
    };
    Ok(Secret::new(typed.with_context(what)?))
}

/// Returns the URL in a file's first line.
pub(crate) fn dsn_in(file: &Path) -> Result<String> {
    let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[derive(clap::Parser)]
    #[command(disable_help_flag = true)]
    struct Command {
        #[command(flatten)]
        reach: Reach,
    }

    fn reach(arguments: &[&str]) -> Reach {
        let arguments = [&["tare"], arguments].concat();
        <Command as clap::Parser>::try_parse_from(arguments).unwrap_or_else(|error| panic!("{error}")).reach
    }

    fn environment(dsn: &str, home: Option<&Path>) -> ProgramEnvironment {
        ProgramEnvironment {
            dsn: Some(dsn).filter(|it| !it.is_empty()).map(Secret::new),
            home: home.map(Into::into),
            clients: ServerOptions::default(),
        }
    }

    fn shown(arguments: &[&str], dsn: &str, home: Option<&Path>) -> String {
        let mut ask = |_: &str| Ok(Secret::new("typed"));
        match reach(arguments).address_with(environment(dsn, home), &mut ask).expect("an address") {
            Address::Socket(path) => path.display().to_string(),
            Address::Account(server) => {
                let password = server.password.as_ref().map_or("", Secret::reveal);
                format!("{}:{password}@{server}", server.user)
            }
        }
    }

    #[test]
    fn arguments_come_before_the_environment_and_that_before_files() {
        let home = tempfile::tempdir().expect("a folder");
        let file = home.path().join(".my.cnf");
        fs::write(&file, "[client]\nhost=db9\nuser=filed\npassword=f\n").expect("a file");
        let (dsn, no) = ("mysql://agent:secret@db1:3307", None);
        let here = Some(home.path());
        for (arguments, dsn, home, expected) in [
            (&[][..], "", no, "/var/lib/mysql/tare.sock"),
            (&[], dsn, no, "agent:secret@db1:3307"),
            (&[], "", here, "filed:f@db9:3306"),
            (&[], dsn, here, "agent:secret@db1:3307"),
            (&["--datadir=/srv/try"], dsn, here, "/srv/try/tare.sock"),
            (&["--socket=/srv/tare.sock"], dsn, here, "/srv/tare.sock"),
            (&["--dsn=mysql://a:b@db2"], dsn, here, "a:b@db2:3306"),
            (&["-u", "other"], dsn, here, "other:secret@db1:3307"),
            (&["-h", "db3"], dsn, here, "filed:f@db3:3306"),
            (&["-hdb3", "-P3310", "-ume", "--password=x"], dsn, here, "me:x@db3:3310"),
            (&["--password"], "", here, "filed:typed@db9:3306"),
            (&["-h", "db3", "-u", "me", "--no-defaults"], dsn, here, "me:@db3:3306"),
        ] {
            assert_eq!(shown(arguments, dsn, home), expected, "{arguments:?}");
        }
        let other = home.path().join("other.cnf");
        fs::write(&other, "[tare]\nuser=own\nport=3311\n").expect("a file");
        let only = format!("--defaults-file={}", other.display());
        assert_eq!(shown(&["-h", "db3", &only], "", here), "own:@db3:3311");
        let extra = format!("--defaults-extra-file={}", other.display());
        assert_eq!(shown(&[&extra], "", here), "filed:f@db9:3311", "the file at home is later");
    }

    #[test]
    fn a_socket_is_whose_it_is_found_to_be() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name).display().to_string();
        let serve = |name: &str, version: &'static str| {
            let listener = UnixListener::bind(folder.path().join(name)).expect("a socket");
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let mut payload = vec![10];
                    payload.extend_from_slice(version.as_bytes());
                    payload.extend_from_slice(&[0; 40]);
                    let header = [u8::try_from(payload.len()).expect("short"), 0, 0, 0];
                    let _ = io::Write::write_all(&mut &stream, &[&header[..], &payload].concat());
                }
            });
        };
        serve("one", "10.11.6-MariaDB-tare");
        serve("other", "10.11.6-MariaDB");
        let (one, other) = (at("one"), at("other"));
        assert_eq!(shown(&["--socket", &one], "", None), one);
        assert_eq!(shown(&["-S", &other, "-u", "me"], "", None), format!("me:@{other}"));
        assert_eq!(shown(&["-S", &one, "-u", "me"], "", None), one, "tare's asks nobody who it is");
        let none = at("none");
        assert_eq!(shown(&["--socket", &none], "", None), none);
        let mysqld = at("mysqld.sock");
        assert_eq!(shown(&["--socket", &mysqld, "-u", "me"], "", None), format!("me:@{mysqld}"));
        let mut ask = |_: &str| Ok(Secret::new(""));
        let mut account =
            |path: &str| reach(&["--socket", path]).account_with(ProgramEnvironment::default(), &mut ask);
        let refused = account(&one).expect_err("tare's").to_string();
        assert!(refused.contains("is tare's socket") && refused.contains("needs an account"), "{refused}");
        assert_eq!(account(&other).expect("the server's").socket(), Some(Path::new(&other)));
    }

    #[test]
    fn a_server_is_named_once() {
        let arguments = ["--socket=/s", "--datadir=/d", "--dsn=mysql://a@h", "--dsn-file=/f", "--host=h"];
        for one in arguments {
            let parse = |other: &str| <Command as clap::Parser>::try_parse_from(["tare", one, other]);
            for other in arguments.iter().filter(|other| **other != one) {
                if [one, other].iter().all(|it| ["--socket=/s", "--host=h"].contains(it)) {
                    continue;
                }
                let error = parse(other).err().expect("two servers");
                assert_eq!(error.kind(), clap::error::ErrorKind::ArgumentConflict, "{one} {other}");
            }
        }
        let both = reach(&["--socket=/s", "--host=h"]);
        assert!(both.address_with(ProgramEnvironment::default(), &mut |_| Ok(Secret::new(""))).is_err());
    }

    #[test]
    fn a_file_may_hold_the_address_and_no_error_shows_a_password() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), "  mysql://agent:secret@db3:3306 \n# of the monitoring\n").expect("written");
        let argument = format!("--dsn-file={}", file.path().display());
        assert_eq!(shown(&[&argument], "", None), "agent:secret@db3:3306");
        fs::write(file.path(), "mysqlx://agent:secret@db3:3306").expect("written");
        let mut none = |_: &str| Ok(Secret::new(""));
        let error = reach(&[&argument])
            .address_with(ProgramEnvironment::default(), &mut none)
            .expect_err("no such scheme");
        let error = format!("{error:#}");
        assert!(error.contains("the first line of") && !error.contains("secret"), "{error}");
        let debug = format!("{:?}", reach(&["--dsn=mysql://a:secret@h", "--password=secret"]));
        assert!(!debug.contains("secret"), "{debug}");
    }
}
