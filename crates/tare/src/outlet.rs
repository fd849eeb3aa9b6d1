//! Which server an outlet reads: what `tare snapshot`, `tare top` and the like have in common on the command line.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use tare_outlets::Address;

use crate::status::SOCKET;

/// Where a server's data is unless it is said.
const DATADIR: &str = "/var/lib/mysql";
/// The variable that may name the server: unlike an argument, other users cannot see it.
const DSN_VARIABLE: &str = "TARE_DSN";

/// The server to read: tare's socket, or any server through an account.
#[derive(Args, Clone, Debug, Default)]
#[group(multiple = false)]
pub(crate) struct Reach {
    /// The socket tare listens on [default: tare.sock in the data directory]
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Data directory of a server with tare [default: /var/lib/mysql]
    #[arg(long, value_name = "DIR")]
    pub(crate) datadir: Option<PathBuf>,
    /// Any server with a Performance Schema: mysql://ACCOUNT:PASSWORD@HOST:PORT, or
    /// mysql://ACCOUNT:PASSWORD@localhost?socket=/PATH. Other users see arguments: the variable TARE_DSN and --dsn-file
    /// keep the password from them
    #[arg(long, value_name = "URL")]
    pub(crate) dsn: Option<String>,
    /// A file whose first line is such a URL
    #[arg(long, value_name = "FILE")]
    pub(crate) dsn_file: Option<PathBuf>,
}

impl Reach {
    /// The server's address: as the arguments say, else as the environment does, else tare's usual socket.
    pub(crate) fn address(&self) -> Result<Address> {
        self.address_with(std::env::var(DSN_VARIABLE).ok())
    }

    fn address_with(&self, environment: Option<String>) -> Result<Address> {
        if let Some(socket) = &self.socket {
            return Ok(Address::Socket(socket.clone()));
        }
        if let Some(datadir) = &self.datadir {
            return Ok(Address::Socket(datadir.join(SOCKET)));
        }
        if let Some(file) = &self.dsn_file {
            let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
            let line = text.lines().next().unwrap_or_default().trim();
            return Address::dsn(line).with_context(|| format!("the first line of {}", file.display()));
        }
        if let Some(dsn) = &self.dsn {
            return Address::dsn(dsn).context("--dsn");
        }
        match environment.filter(|dsn| !dsn.is_empty()) {
            Some(dsn) => Address::dsn(&dsn).context(DSN_VARIABLE),
            None => Ok(Address::Socket(PathBuf::from(DATADIR).join(SOCKET))),
        }
    }
}

#[cfg(test)]
mod tests {
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
        let reach = Reach { datadir: Some("/srv/try".into()), ..Reach::default() };
        assert_eq!(shown(&reach, dsn), "/srv/try/tare.sock");
        let reach = Reach { dsn: Some("mysql://a:b@db2:3306".into()), ..Reach::default() };
        assert_eq!(shown(&reach, dsn), "db2:3306");
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
