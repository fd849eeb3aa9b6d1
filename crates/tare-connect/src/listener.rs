//! The process behind a socket of this machine.

use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

/// Returns the process that listens on a socket, or has opened it for the one that does, as systemd may have.
///
/// # Errors
///
/// When nothing listens or this user may not connect; [`ErrorKind::Unsupported`] when the process cannot be
/// seen from here.
pub fn listener(socket: &Path) -> io::Result<u32> {
    let peer = UnixStream::connect(socket)?;
    let pid = getsockopt(&peer, PeerCredentials)?.pid();
    u32::try_from(pid).ok().filter(|pid| *pid != 0).ok_or_else(|| ErrorKind::Unsupported.into())
}
