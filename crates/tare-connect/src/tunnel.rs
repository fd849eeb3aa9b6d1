//! An encrypted connection to a server, for a client library that talks to a private Unix socket of ours.
//!
//! The client library's own TLS trusts authorities that nobody named, rejects certificates of private ones,
//! and hardly explains why. So a thread stands in between. It requests TLS with the first half of the
//! client's own handshake response and relays what both sides say. The client does not know of the packet
//! that requests TLS: until the client is logged in, packet numbers are shifted by one.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use tempfile::TempDir;

use crate::greeting::Greeting;
use crate::{Error, Manner, Mode, ServerAccount, ServerLocation, Tls};

/// The time limit of a handshake with a server, unless another is set.
const PATIENCE: Duration = Duration::from_secs(10);
/// The folder of the socket if a path below the default one is too long for a socket.
const SHORT: &str = "/tmp";
/// The length in bytes of a TLS request, with which every handshake response begins.
const HALF: usize = 32;
/// The capability bit that requests TLS, in the second byte.
const SSL: u8 = 0x08;
/// The first byte of a packet that accepts the login.
const LET_IN: u8 = 0;

/// A tunnel that waits for its client.
pub(crate) struct Tunnel {
    folder: TempDir,
    socket: PathBuf,
    failed: Arc<Mutex<Option<String>>>,
    thread: JoinHandle<()>,
}

/// The connection to the server, not yet encrypted.
enum ServerStream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Starts a tunnel; returns `None` if the server does not offer encryption and the mode does not require it.
pub(crate) fn begin(server: &ServerAccount, manner: Manner) -> Result<Option<Tunnel>, Error> {
    let at = || server.to_string();
    let wrong = |why: String| Error::Tls { at: at(), why };
    let config = server.tls.config().map_err(wrong)?;
    let lost = |why: io::Error| Error::NoAnswer { at: at(), why: why.to_string() };
    let mut way =
        ServerStream::to(server, manner.patience.unwrap_or(PATIENCE)).map_err(|why| match why.kind() {
            io::ErrorKind::PermissionDenied => Error::Forbidden { at: at() },
            _ => lost(why),
        })?;
    let greeting = Greeting::read(&mut way).map_err(lost)?;
    if !greeting.offers_tls {
        // If the server refuses the connection, the client library reads its message.
        return match server.tls.mode {
            Mode::Preferred => Ok(None),
            mode if greeting.takes_somebody() => Err(wrong(format!(
                "the server does not offer encryption, and --ssl-mode={} wants it: set ssl_cert and ssl_key on the server",
                mode.name()
            ))),
            _ => Ok(None),
        };
    }
    let (folder, socket, listener) =
        listen().map_err(|why| wrong(format!("a socket in the folder for temporary files: {why}")))?;
    let failed = Arc::default();
    let work = TunnelThread {
        way,
        greeting,
        config: Arc::new(config),
        server: server.clone(),
        failed: Arc::clone(&failed),
    };
    let thread = thread::Builder::new()
        .name("tunnel".to_owned())
        .spawn(move || work.run(&listener))
        .map_err(|why| wrong(format!("a thread: {why}")))?;
    Ok(Some(Tunnel { folder, socket, failed, thread }))
}

/// Creates a socket that only this user can connect to.
fn listen() -> io::Result<(TempDir, PathBuf, UnixListener)> {
    let at = |parent: &std::path::Path| {
        let only_us = std::fs::Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix("tare-").permissions(only_us).tempdir_in(parent)?;
        let socket = folder.path().join("s");
        let listener = UnixListener::bind(&socket)?;
        Ok((folder, socket, listener))
    };
    at(&std::env::temp_dir()).or_else(|_| at(std::path::Path::new(SHORT)))
}

impl Tunnel {
    /// Returns the socket's path for the client library.
    pub(crate) fn path(&self) -> Result<&str, Error> {
        self.socket.to_str().ok_or_else(|| Error::Path(self.socket.clone()))
    }

    /// Ends the tunnel and returns why it failed, if encryption was the reason.
    pub(crate) fn failure(self, server: &ServerAccount) -> Option<Error> {
        // A last connection ends a thread that still waits for its client.
        drop(UnixStream::connect(&self.socket));
        let _ = self.thread.join();
        drop(self.folder);
        let why = self.failed.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(Error::Tls { at: server.to_string(), why })
    }
}

impl ServerStream {
    fn to(server: &ServerAccount, patience: Duration) -> io::Result<ServerStream> {
        let way = match &server.place {
            ServerLocation::Socket(path) => ServerStream::Unix(UnixStream::connect(path)?),
            ServerLocation::Tcp { host, port } => {
                let mut last = io::Error::other("the host has no address");
                let mut addresses = (host.as_str(), *port).to_socket_addrs()?;
                let found = addresses.find_map(|address| {
                    TcpStream::connect_timeout(&address, patience).map_err(|error| last = error).ok()
                });
                let stream = found.ok_or(last)?;
                stream.set_nodelay(true)?;
                ServerStream::Tcp(stream)
            }
        };
        way.wait(Some(patience))?;
        Ok(way)
    }

    fn wait(&self, time: Option<Duration>) -> io::Result<()> {
        match self {
            ServerStream::Tcp(stream) => {
                stream.set_read_timeout(time).and_then(|()| stream.set_write_timeout(time))
            }
            ServerStream::Unix(stream) => {
                stream.set_read_timeout(time).and_then(|()| stream.set_write_timeout(time))
            }
        }
    }
}

impl AsFd for ServerStream {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        match self {
            ServerStream::Tcp(stream) => stream.as_fd(),
            ServerStream::Unix(stream) => stream.as_fd(),
        }
    }
}

impl Read for ServerStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            ServerStream::Tcp(stream) => stream.read(into),
            ServerStream::Unix(stream) => stream.read(into),
        }
    }
}

impl Write for ServerStream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            ServerStream::Tcp(stream) => stream.write(from),
            ServerStream::Unix(stream) => stream.write(from),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The state of the tunnel's thread.
struct TunnelThread {
    way: ServerStream,
    greeting: Greeting,
    config: Arc<ClientConfig>,
    server: ServerAccount,
    failed: Arc<Mutex<Option<String>>>,
}

impl TunnelThread {
    fn run(mut self, listener: &UnixListener) {
        let Ok((mut client, _)) = listener.accept() else { return };
        if let Err(error) = self.serve(&mut client) {
            let host = self.server.to_string();
            let tls: &Tls = &self.server.tls;
            if let Some(error) = error.get_ref().and_then(|it| it.downcast_ref::<rustls::Error>()) {
                let why = tls.explain(&host, error);
                *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
            }
        }
        // The client sees the end of the stream, even if its login failed.
        let _ = client.shutdown(std::net::Shutdown::Both);
    }

    /// Relays data in both directions until one side closes.
    fn serve(&mut self, client: &mut UnixStream) -> io::Result<()> {
        client.write_all(&self.greeting.bytes)?;
        let mut answer = packet(client)?;
        if answer.len() < 4 + HALF {
            return Err(io::ErrorKind::InvalidData.into());
        }
        answer[5] |= SSL;
        let mut request = answer[..4 + HALF].to_vec();
        request[..3].copy_from_slice(&[u8::try_from(HALF).unwrap_or(u8::MAX), 0, 0]);
        self.way.write_all(&request)?;
        let name = match &self.server.place {
            ServerLocation::Tcp { host, .. } => host.as_str(),
            ServerLocation::Socket(_) => "localhost",
        };
        let name = ServerName::try_from(name.to_owned())
            .map_err(|_| io::Error::other(rustls::Error::General(format!("{name} is no name of a host"))))?;
        let mut tls = ClientConnection::new(Arc::clone(&self.config), name).map_err(io::Error::other)?;
        while tls.is_handshaking() {
            tls.complete_io(&mut self.way)?;
        }
        let mut login = Login::default();
        tls.writer().write_all(&login.for_server(&answer))?;
        while tls.wants_write() {
            tls.write_tls(&mut self.way)?;
        }
        self.pass_on(client, &mut tls, &mut login)
    }

    fn pass_on(
        &mut self,
        client: &mut UnixStream,
        tls: &mut ClientConnection,
        login: &mut Login,
    ) -> io::Result<()> {
        let mut bytes = vec![0; 16 << 10];
        loop {
            let (from_client, from_server) = ready(client, &self.way)?;
            if from_server {
                if tls.read_tls(&mut self.way)? == 0 {
                    return Ok(());
                }
                let told = tls.process_new_packets().map_err(io::Error::other)?;
                let mut left = told.plaintext_bytes_to_read();
                while left > 0 {
                    let read = tls.reader().read(&mut bytes)?;
                    client.write_all(&login.for_client(&bytes[..read]))?;
                    left = left.saturating_sub(read);
                }
                if told.peer_has_closed() {
                    return Ok(());
                }
            }
            if from_client {
                let read = client.read(&mut bytes)?;
                if read == 0 {
                    tls.send_close_notify();
                    let _ = tls.write_tls(&mut self.way);
                    return Ok(());
                }
                tls.writer().write_all(&login.for_server(&bytes[..read]))?;
            }
            while tls.wants_write() {
                tls.write_tls(&mut self.way)?;
            }
        }
    }
}

/// Waits until the client or the server has sent something, or has closed. Returns whether the client has,
/// and whether the server has; both are false if a signal came first.
fn ready(client: &UnixStream, server: &ServerStream) -> io::Result<(bool, bool)> {
    let mut both =
        [PollFd::new(client.as_fd(), PollFlags::POLLIN), PollFd::new(server.as_fd(), PollFlags::POLLIN)];
    match poll(&mut both, PollTimeout::NONE) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => {}
        Err(error) => return Err(error.into()),
    }
    let is_ready = |fd: &PollFd<'_>| fd.revents().is_some_and(|events| !events.is_empty());
    Ok((is_ready(&both[0]), is_ready(&both[1])))
}

/// Reads a whole packet with its header.
fn packet(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 4];
    from.read_exact(&mut bytes)?;
    bytes.resize(4 + length(&bytes), 0);
    from.read_exact(&mut bytes[4..])?;
    Ok(bytes)
}

fn length(header: &[u8]) -> usize {
    usize::from(header[0]) | usize::from(header[1]) << 8 | usize::from(header[2]) << 16
}

/// Renumbers packets until the login is over.
#[derive(Default)]
struct Login {
    is_over: bool,
    from_client: Vec<u8>,
    from_server: Vec<u8>,
}

impl Login {
    /// Returns a client's packets with the server's numbering.
    fn for_server(&mut self, bytes: &[u8]) -> Vec<u8> {
        if self.is_over {
            return bytes.to_vec();
        }
        self.from_client.extend_from_slice(bytes);
        let mut whole = vec![];
        while let Some(mut packet) = next(&mut self.from_client) {
            packet[3] = packet[3].wrapping_add(1);
            whole.append(&mut packet);
        }
        whole
    }

    /// Returns a server's packets with the client's numbering.
    fn for_client(&mut self, bytes: &[u8]) -> Vec<u8> {
        if self.is_over {
            return bytes.to_vec();
        }
        self.from_server.extend_from_slice(bytes);
        let mut whole = vec![];
        while let Some(mut packet) = next(&mut self.from_server) {
            packet[3] = packet[3].wrapping_sub(1);
            self.is_over = packet.get(4) == Some(&LET_IN);
            whole.append(&mut packet);
            if self.is_over {
                whole.append(&mut self.from_server);
            }
        }
        whole
    }
}

/// Removes and returns the first whole packet; `None` if it is incomplete.
fn next(bytes: &mut Vec<u8>) -> Option<Vec<u8>> {
    let whole = 4 + length(bytes.get(..4)?);
    if bytes.len() < whole {
        return None;
    }
    let rest = bytes.split_off(whole);
    Some(std::mem::replace(bytes, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_renumbered_until_the_client_is_let_in() {
        let mut login = Login::default();
        assert!(login.for_server(&[1, 0]).is_empty(), "half a header waits");
        assert_eq!(login.for_server(&[0, 1, 9]), [1, 0, 0, 2, 9]);
        assert_eq!(login.for_client(&[1, 0, 0, 3, 0xfe, 2, 0, 0]), [1, 0, 0, 2, 0xfe]);
        assert_eq!(login.for_client(&[4, 1, 3]), [2, 0, 0, 3, 1, 3]);
        assert_eq!(login.for_client(&[1, 0, 0, 5, 0, 1, 0, 0, 0, 7]), [1, 0, 0, 4, 0, 1, 0, 0, 0, 7]);
        assert_eq!(login.for_server(&[1, 0, 0, 0, 3]), [1, 0, 0, 0, 3], "a statement is passed on as it is");
        assert_eq!(login.for_client(&[1, 0, 0, 1, 0]), [1, 0, 0, 1, 0]);
    }
}
