//! Which server an outlet reads: what `tare snapshot`, `tare top` and the like have in common on the command line.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use tare_outlets::Address;

use crate::status::SOCKET;

/// Where a server's data is unless it is said.
const DATADIR: &str = "/var/lib/mysql";
/// The variable that may name the server: unlike an argument, other users cannot see it.
pub(crate) const DSN_VARIABLE: &str = "TARE_DSN";

/// A server with tare: its endpoint.
#[derive(Args, Clone, Debug, Default)]
#[group(multiple = false)]
pub(crate) struct Endpoint {
    /// The socket tare listens on [default: tare.sock in the data directory]
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Data directory of a server with tare [default: /var/lib/mysql]
    #[arg(long, value_name = "DIR")]
    pub(crate) datadir: Option<PathBuf>,
}

impl Endpoint {
    /// The socket, where the arguments name one.
    fn named(&self) -> Option<PathBuf> {
        self.socket.clone().or_else(|| self.datadir.as_ref().map(|datadir| datadir.join(SOCKET)))
    }

    /// The socket: as the arguments say, else the usual one.
    pub(crate) fn path(&self) -> PathBuf {
        self.named().unwrap_or_else(|| Path::new(DATADIR).join(SOCKET))
    }
}

/// The server to read: tare's endpoint, or any server through an account.
#[derive(Args, Clone, Debug, Default)]
#[group(skip)]
pub(crate) struct Reach {
    #[command(flatten)]
    endpoint: Endpoint,
    /// Any server with a Performance Schema: mysql://ACCOUNT:PASSWORD@HOST:PORT, or
    /// mysql://ACCOUNT:PASSWORD@localhost?socket=/PATH. Other users see arguments: the variable TARE_DSN and --dsn-file
    /// keep the password from them
    #[arg(long, value_name = "URL", conflicts_with_all = ["socket", "datadir"])]
    pub(crate) dsn: Option<String>,
    /// A file whose first line is such a URL
    #[arg(long, value_name = "FILE", conflicts_with_all = ["socket", "datadir", "dsn"])]
    pub(crate) dsn_file: Option<PathBuf>,
}

impl Reach {
    /// The server's address: as the arguments say, else as the environment does, else tare's usual socket.
    pub(crate) fn address(&self) -> Result<Address> {
        self.address_with(std::env::var(DSN_VARIABLE).ok())
    }

    fn address_with(&self, environment: Option<String>) -> Result<Address> {
        if let Some(socket) = self.endpoint.named() {
            return Ok(Address::Socket(socket));
        }
        if let Some(file) = &self.dsn_file {
            return Address::dsn(&dsn_in(file)?)
                .with_context(|| format!("the first line of {}", file.display()));
        }
        if let Some(dsn) = &self.dsn {
            return Address::dsn(dsn).context("--dsn");
        }
        match environment.filter(|dsn| !dsn.is_empty()) {
            Some(dsn) => Address::dsn(&dsn).context(DSN_VARIABLE),
            None => Ok(Address::Socket(self.endpoint.path())),
        }
    }
}

/// The URL in a file's first line.
pub(crate) fn dsn_in(file: &Path) -> Result<String> {
    let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn shown(reach: &Reach, environment: Option<&str>) -> String {
        reach.address_with(environment.map(Into::into)).expect("an address").to_string()
    }

    #[test]
    fn arguments_come_before_the_environment_and_that_before_the_usual_place() {
        let dsn = Some("mysql://agent:secret@db1:3307");
        assert_eq!(shown(&Reach::default(), None), "/var/lib/mysql/tare.sock");
        assert_eq!(shown(&Reach::default(), Some("")), "/var/lib/mysql/tare.sock");
        assert_eq!(shown(&Reach::default(), dsn), "db1:3307");
        let endpoint = Endpoint { datadir: Some("/srv/try".into()), ..Endpoint::default() };
        let reach = Reach { endpoint, ..Reach::default() };
        assert_eq!(shown(&reach, dsn), "/srv/try/tare.sock");
        let reach = Reach { dsn: Some("mysql://a:b@db2:3306".into()), ..Reach::default() };
        assert_eq!(shown(&reach, dsn), "db2:3306");
    }

    #[test]
    fn a_server_is_named_once() {
        #[derive(clap::Parser)]
        struct Command {
            #[command(flatten)]
            reach: Reach,
        }
        let arguments = ["--socket=/s", "--datadir=/d", "--dsn=mysql://a@h", "--dsn-file=/f"];
        for one in arguments {
            assert!(Command::try_parse_from(["tare", one]).is_ok(), "{one}");
            for other in arguments.iter().filter(|other| **other != one) {
                let error = Command::try_parse_from(["tare", one, other]).err().expect("two servers");
                assert_eq!(error.kind(), clap::error::ErrorKind::ArgumentConflict, "{one} {other}");
            }
        }
        let command = Command::try_parse_from(["tare"]).expect("the usual server");
        assert_eq!(shown(&command.reach, None), "/var/lib/mysql/tare.sock");
    }

    #[test]
    fn a_file_may_hold_the_address_and_no_error_shows_a_password() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), "  mysql://agent:secret@db3:3306 \n# of the monitoring\n").expect("written");
        let reach = Reach { dsn_file: Some(file.path().into()), ..Reach::default() };
        assert_eq!(shown(&reach, None), "db3:3306");
        fs::write(file.path(), "mysqlx://agent:secret@db3:3306").expect("written");
        let error = format!("{:#}", reach.address_with(None).expect_err("no such scheme"));
        assert!(error.contains("the first line of") && !error.contains("secret"), "{error}");
    }
}
