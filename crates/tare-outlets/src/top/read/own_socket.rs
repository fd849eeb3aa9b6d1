//! The server's own socket beside tare's. InnoDB's locks and the server's status variables are read there:
//! tare's socket takes none of the server's locks.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::{User, geteuid};
use tare_connect::{ServerAccount, ServerLocation, Tls, listener};

use crate::source::{Address, Source};

/// `__SO_ACCEPTCON` in the flags of `/proc/net/unix`: somebody listens.
const LISTENS: &str = "00010000";

/// Keeps a connection's own statements out of all figures.
const UNSEEN: &str =
    "UPDATE performance_schema.threads SET INSTRUMENTED = 'NO' WHERE PROCESSLIST_ID = CONNECTION_ID()";

/// Opens the socket of the server that listens on tare's socket at `endpoint`, with the account named like
/// this process's user. `None`: the server has no socket that can be found, or does not let this user in.
pub(super) fn open(endpoint: &Path) -> Option<Source> {
    let endpoint = endpoint.canonicalize().ok()?;
    let (server, owner) = (listener(&endpoint).ok()?, fs::metadata(&endpoint).ok()?.uid());
    let is_owned = |path: &Path| fs::metadata(path).is_ok_and(|it| it.uid() == owner);
    let candidates = listened(&fs::read_to_string("/proc/net/unix").ok()?);
    let socket = candidates
        .into_iter()
        .find(|path| *path != endpoint && is_owned(path) && listener(path).is_ok_and(|it| it == server))?;
    let user = User::from_uid(geteuid()).ok()??.name;
    let (password, schema, tls) = (None, None, Tls::default());
    let mut source = Source::open(Address::Account(Box::new(ServerAccount {
        place: ServerLocation::Socket(socket),
        user,
        password,
        schema,
        tls,
    })))
    .ok()?;
    // What is shown should not be what showing it does. Without the right to, its statements are shown.
    let _ = source.execute(UNSEEN);
    Some(source)
}

/// Returns the paths on which somebody listens, from the text of `/proc/net/unix`.
fn listened(text: &str) -> Vec<PathBuf> {
    let path = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        fields.nth(3).filter(|flags| *flags == LISTENS)?;
        fields.nth(3).filter(|path| path.starts_with('/')).map(PathBuf::from)
    };
    text.lines().filter_map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_on_which_somebody_listens_are_found() {
        let text = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                    0000000000000000: 00000002 00000000 00010000 0001 01 31 /run/mysqld/mysqld.sock\n\
                    0000000000000000: 00000003 00000000 00000000 0001 03 32 /run/mysqld/mysqld.sock\n\
                    0000000000000000: 00000002 00000000 00010000 0001 01 33 @abstract\n\
                    0000000000000000: 00000002 00000000 00010000 0001 01 34\n";
        assert_eq!(listened(text), [PathBuf::from("/run/mysqld/mysqld.sock")]);
    }
}
