//! The listening socket: who may have it.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::error::EndpointError;

/// Connections the kernel holds until they are accepted.
const BACKLOG: i32 = 128;
/// What a socket's name ends in while the socket is made.
pub(super) const UNBORN: &str = ".new";

/// A listening socket in the file system; dropping it removes the file, if it is still this socket's.
#[derive(Debug)]
pub(super) struct EndpointSocket {
    pub(super) listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the file.
    identity: (u64, u64),
}

impl EndpointSocket {
    /// Listens at `path`, in place of a socket nobody listens at any more.
    ///
    /// The socket is made under another name and renamed: it never exists at `path` with rights wider than
    /// its owner's, nor without a listener.
    pub(super) fn listen(path: &Path) -> Result<Self, EndpointError> {
        refuse_if_taken(path)?;
        let mut unborn = path.as_os_str().to_owned();
        unborn.push(UNBORN);
        let unborn = PathBuf::from(unborn);
        if is_socket(&unborn)? {
            // One that died before the rename left it. What stays all the same, `bind` refuses.
            let _ = fs::remove_file(&unborn);
        }
        let failed = |error: io::Error| EndpointError::Socket { path: path.to_owned(), error };
        let socket = bind(&unborn).map_err(failed)?;
        let made = begin(socket, &unborn).and_then(|made| {
            fs::rename(&unborn, path)?;
            Ok(made)
        });
        let (listener, identity) = made.map_err(|error| {
            let _ = fs::remove_file(&unborn);
            failed(error)
        })?;
        Ok(EndpointSocket { listener, path: path.to_owned(), identity })
    }

    /// Removes the file, unless it is another socket's by now.
    pub(super) fn unlink(&self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|file| (file.dev(), file.ino()) == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Drop for EndpointSocket {
    fn drop(&mut self) {
        self.unlink();
    }
}

/// Makes the file, at which nobody listens yet.
fn bind(path: &Path) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Listens, and returns the listener with its file's device and inode.
fn begin(socket: OwnedFd, path: &Path) -> io::Result<(UnixListener, (u64, u64))> {
    // Before listening: until then nobody can connect, whatever the umask left.
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    rustix::net::listen(&socket, BACKLOG)?;
    let file = fs::symlink_metadata(path)?;
    Ok((UnixListener::from(socket), (file.dev(), file.ino())))
}

/// Returns whether a socket is there. A file that is none must not be replaced, and is an error.
fn is_socket(path: &Path) -> Result<bool, EndpointError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(EndpointError::Socket { path: path.to_owned(), error }),
        Ok(file) if file.file_type().is_socket() => Ok(true),
        Ok(_) => Err(EndpointError::NotASocket { path: path.to_owned() }),
    }
}

/// Fails if somebody listens at the socket, which must not be replaced either.
fn refuse_if_taken(path: &Path) -> Result<(), EndpointError> {
    if !is_socket(path)? {
        return Ok(());
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn only_a_socket_is_removed_to_make_room() {
        let folder = tempfile::tempdir().unwrap();
        let [path, beside, file] = ["s", "s.new", "file"].map(|name| folder.path().join(name));
        let refused = || match EndpointSocket::listen(&path) {
            Err(EndpointError::NotASocket { path }) => assert_eq!(path, beside),
            other => panic!("{other:?}"),
        };
        fs::write(&beside, "precious").unwrap();
        refused();
        fs::rename(&beside, &file).unwrap();
        symlink(&file, &beside).unwrap();
        refused();
        assert_eq!(fs::read(&beside).unwrap(), b"precious");
        fs::remove_file(&beside).unwrap();
        // Closing a listener leaves its file behind.
        drop(UnixListener::bind(&beside).unwrap());
        let socket = EndpointSocket::listen(&path).unwrap();
        assert!(!beside.exists() && path.exists());
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn the_longest_path_leaves_room_for_the_name_it_is_made_under() {
        /// Of `sockaddr_un`, without the terminating zero.
        const MOST: usize = 107;
        let folder = tempfile::tempdir().unwrap();
        let path = |length: usize| {
            let name = length - folder.path().as_os_str().len() - 1;
            folder.path().join("x".repeat(name))
        };
        let longest = path(MOST - UNBORN.len());
        let socket = EndpointSocket::listen(&longest).unwrap();
        UnixStream::connect(&longest).unwrap();
        drop(socket);
        // One byte more may have no terminating zero; two do not fit.
        let too_long = EndpointSocket::listen(&path(MOST - UNBORN.len() + 2));
        assert!(matches!(too_long, Err(EndpointError::Socket { .. })), "{too_long:?}");
    }
}
