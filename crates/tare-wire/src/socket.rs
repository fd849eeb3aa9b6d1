//! The endpoint's socket: who may have it, who may use it.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::Uid;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::endpoint::EndpointError;

/// Connections the kernel holds until they are accepted.
const BACKLOG: i32 = 128;

/// A listening socket in the file system; dropping it removes the file, if it is still this socket's.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the file.
    identity: (u64, u64),
}

impl Socket {
    /// Listens at `path`, in place of a socket nobody listens at any more.
    ///
    /// The socket is made under another name and renamed: it never exists at `path` with rights wider than its
    /// owner's, nor without a listener.
    pub(crate) fn listen(path: &Path) -> Result<Self, EndpointError> {
        refuse_if_taken(path)?;
        let mut unborn = path.as_os_str().to_owned();
        unborn.push(".new");
        let unborn = PathBuf::from(unborn);
        let _ = fs::remove_file(&unborn);
        let failed = |error: io::Error| EndpointError::Socket { path: path.to_owned(), error };
        let made = make(&unborn).and_then(|socket| {
            fs::rename(&unborn, path)?;
            Ok(socket)
        });
        let (listener, identity) = made.map_err(|error| {
            let _ = fs::remove_file(&unborn);
            failed(error)
        })?;
        Ok(Socket { listener, path: path.to_owned(), identity })
    }

    /// Removes the file, unless it is another socket's by now.
    pub(crate) fn unlink(&self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|file| (file.dev(), file.ino()) == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.unlink();
    }
}

fn make(path: &Path) -> io::Result<(UnixListener, (u64, u64))> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    // Before listening: until then nobody can connect, whatever the umask left.
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    rustix::net::listen(&socket, BACKLOG)?;
    let file = fs::symlink_metadata(path)?;
    Ok((UnixListener::from(socket), (file.dev(), file.ino())))
}

/// A file that is no socket is not ours to replace, and neither is a socket somebody listens at.
fn refuse_if_taken(path: &Path) -> Result<(), EndpointError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(EndpointError::Socket { path: path.to_owned(), error }),
        Ok(file) if !file.file_type().is_socket() => {
            return Err(EndpointError::NotASocket { path: path.to_owned() });
        }
        Ok(_) => {}
    }
    match probe(path) {
        Err(rustix::io::Errno::CONNREFUSED | rustix::io::Errno::NOENT) => Ok(()),
        // A full backlog, too, is somebody's.
        Ok(()) | Err(rustix::io::Errno::AGAIN) => Err(EndpointError::InUse { path: path.to_owned() }),
        Err(error) => Err(EndpointError::Socket { path: path.to_owned(), error: error.into() }),
    }
}

fn probe(path: &Path) -> rustix::io::Result<()> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(socket.as_fd(), &SocketAddrUnix::new(path)?)
}

/// Who is at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// This very process: a session of the host's.
    Inside,
    /// Another process of this process's user, or root's.
    Outside,
}

/// Who is at the other end; `None` for those who may not be.
pub(crate) fn peer(stream: &UnixStream) -> Option<Peer> {
    let own = rustix::process::geteuid();
    let peer = rustix::net::sockopt::socket_peercred(stream).ok()?;
    if peer.pid == rustix::process::getpid() {
        return Some(Peer::Inside);
    }
    may_use(peer.uid, own).then_some(Peer::Outside)
}

fn may_use(peer: Uid, own: Uid) -> bool {
    peer == own || peer.is_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_and_root_are_welcome() {
        let [mysql, nobody] = [106, 65534].map(Uid::from_raw);
        assert!(may_use(mysql, mysql) && may_use(Uid::ROOT, mysql));
        assert!(!may_use(nobody, mysql) && !may_use(mysql, Uid::ROOT));
    }
}
