//! The path of tare's Unix socket.

use std::mem::size_of;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use libc::sockaddr_un;
use tare_wire::EndpointConfig;

/// The longest path of the endpoint's socket, in bytes: the kernel's limit without the terminating zero and
/// without the suffix that the name has while the socket is created.
pub const MAX_SOCKET_PATH: usize =
    size_of::<sockaddr_un>() - std::mem::offset_of!(sockaddr_un, sun_path) - 1 - EndpointConfig::SPARE_PATH;

/// The reason a path cannot be the socket's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SocketPathError {
    /// The path, or the longer one under which the socket is created, does not fit into `sockaddr_un`.
    #[error("the socket's path has {length} bytes, and the endpoint's may have at most {MAX_SOCKET_PATH}")]
    TooLong {
        /// The length of the refused path in bytes.
        length: usize,
    },
    /// A zero byte would end the path early; an empty path names no socket.
    #[error("the socket's path is empty or holds a zero byte")]
    NotAPath,
}

/// Checks whether the endpoint's socket can have this path.
///
/// # Errors
///
/// When the path is too long, is empty or contains a zero byte.
pub fn check_socket_path(path: &Path) -> Result<(), SocketPathError> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.is_empty() || bytes.contains(&0) {
        return Err(SocketPathError::NotAPath);
    }
    if bytes.len() > MAX_SOCKET_PATH {
        return Err(SocketPathError::TooLong { length: bytes.len() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_no_socket_can_have_is_refused() {
        assert_eq!(MAX_SOCKET_PATH, 103, "the kernel's 107, less `.new`");
        assert_eq!(check_socket_path(Path::new("")), Err(SocketPathError::NotAPath));
        assert_eq!(check_socket_path(Path::new("/a\0b")), Err(SocketPathError::NotAPath));
        let longest = format!("/{}", "x".repeat(MAX_SOCKET_PATH - 1));
        assert_eq!(check_socket_path(Path::new(&longest)), Ok(()));
        let longer = check_socket_path(Path::new(&format!("{longest}x")));
        assert_eq!(longer, Err(SocketPathError::TooLong { length: MAX_SOCKET_PATH + 1 }));
    }
}
