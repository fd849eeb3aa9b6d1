//! The data of a recording: a dump, loaded before its statements are replayed.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use mysql::prelude::Queryable;
use tare_server::program::{find_program, option, run};
use tare_server::sql::identifier;

use super::StatementRecording;
use crate::Result;
use crate::error::Tried;
use crate::server::target::ServerTarget;

/// Loads a dump (of `mariadb-dump` or `mysqldump`) with the stock client, on a server that the lab started,
/// as it may drop existing data. Creates the recording's schemas; if there is only one, it is the default of
/// a dump that names none.
pub(crate) fn load(recording: &StatementRecording, dump: &Path, target: &ServerTarget) -> Result<()> {
    let client = ["mariadb", "mysql"].iter().find_map(|name| find_program(name, &[]));
    let client = client.ok_or_else(|| tare_server::Error::Missing {
        program: "mariadb".into(),
        hint: "it loads the workload's `data`; on Debian, `apt-get install mariadb-client` brings it".into(),
    })?;
    let schemas = recording.schemas();
    let mut connection = target.connect()?;
    for schema in &schemas {
        let made = connection.query_drop(format!("CREATE DATABASE IF NOT EXISTS {}", identifier(schema)));
        made.map_err(|e| target.refused(e))?;
    }
    let mut command = Command::new(client);
    command.args(["--no-defaults", "--batch", "--default-character-set=utf8mb4"]);
    command.arg(format!("--user={}", target.user));
    if let Some(socket) = &target.socket {
        command.arg(option("--socket=", socket));
    }
    if let (Some(schema), 1) = (schemas.first(), schemas.len()) {
        command.arg(format!("--database={schema}"));
    }
    let file = File::open(dump).tried(|| format!("reading {}", dump.display()))?;
    command.stdin(Stdio::from(file));
    Ok(run(&mut command)?)
}
