//! Identifies who listens on a socket by the first packet it sends.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// The longest wait for a server's first packet.
const PATIENCE: Duration = Duration::from_secs(10);
/// The suffix of the version that tare's endpoint reports.
const TARE: &str = "-tare";
/// The longest first packet accepted, in bytes; real ones are far smaller.
const MOST: usize = 4096;
/// The version of the client/server protocol.
const PROTOCOL: u8 = 10;
/// The first byte of a packet by which a server refuses the connection.
const REFUSAL: u8 = 0xff;
/// The capability bit of encrypted connections.
const SSL: u32 = 1 << 11;

/// Who listens on a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listener {
    /// Tare's own endpoint.
    Tare,
    /// A MySQL or MariaDB server.
    Server,
}

/// The first packet of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Greeting {
    /// The packet, including its header.
    pub(crate) bytes: Vec<u8>,
    /// The server's version; `None` if the server refuses the connection.
    version: Option<String>,
    /// Whether the server offers TLS.
    pub(crate) offers_tls: bool,
}

/// Returns who listens on a Unix socket.
///
/// # Errors
///
/// When nobody listens, the socket may not be opened, or the listener speaks another protocol.
pub fn listener(socket: &Path) -> io::Result<Listener> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let greeting = Greeting::read(&mut stream)?;
    let is_tare = greeting.version.is_some_and(|version| version.ends_with(TARE));
    Ok(if is_tare { Listener::Tare } else { Listener::Server })
}

impl Greeting {
    /// Returns whether the server accepts the connection.
    pub(crate) fn takes_somebody(&self) -> bool {
        self.version.is_some()
    }

    /// Reads a server's first packet.
    pub(crate) fn read(from: &mut impl Read) -> io::Result<Greeting> {
        let other = || {
            io::Error::new(io::ErrorKind::InvalidData, "who listens there is no server of MySQL or MariaDB")
        };
        let mut bytes = vec![0; 4];
        from.read_exact(&mut bytes)?;
        let length = usize::from(bytes[0]) | usize::from(bytes[1]) << 8 | usize::from(bytes[2]) << 16;
        if length == 0 || length > MOST {
            return Err(other());
        }
        bytes.resize(4 + length, 0);
        from.read_exact(&mut bytes[4..])?;
        let packet = &bytes[4..];
        match packet[0] {
            REFUSAL => Ok(Greeting { bytes, version: None, offers_tls: false }),
            PROTOCOL => {
                let (version, capabilities) = told(packet).ok_or_else(other)?;
                Ok(Greeting { bytes, version: Some(version), offers_tls: capabilities & SSL != 0 })
            }
            _ => Err(other()),
        }
    }
}

/// Returns the version and the lower half of the capabilities; `None` if the packet is too short.
fn told(packet: &[u8]) -> Option<(String, u32)> {
    let end = 1 + packet[1..].iter().position(|byte| *byte == 0)?;
    // The version is followed by the connection's number, 8 bytes of the scramble and a 0.
    let at = end + 1 + 4 + 8 + 1;
    let low = packet.get(at..at + 2)?;
    let version = String::from_utf8_lossy(&packet[1..end]).into_owned();
    Some((version, u32::from(low[0]) | u32::from(low[1]) << 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(version: &str, capabilities: u16) -> Vec<u8> {
        let mut payload = vec![PROTOCOL];
        payload.extend_from_slice(version.as_bytes());
        payload.extend_from_slice(&[0; 14]);
        payload.extend_from_slice(&capabilities.to_le_bytes());
        payload.extend_from_slice(&[0; 20]);
        let mut bytes = vec![u8::try_from(payload.len()).expect("short"), 0, 0, 0];
        bytes.append(&mut payload);
        bytes
    }

    #[test]
    fn a_first_packet_tells_who_it_is_and_what_it_can() {
        let greeting = Greeting::read(&mut &packet("10.11.6-MariaDB", 0xf7ff)[..]).expect("a server");
        assert_eq!((greeting.version.as_deref(), greeting.offers_tls), (Some("10.11.6-MariaDB"), false));
        assert!(Greeting::read(&mut &packet("8.0.36", 0xffff)[..]).expect("a server").offers_tls);
        let refusal = [9, 0, 0, 0, REFUSAL, 16, 4, b'T', b'o', b'o', b' ', b'm', b'a'];
        assert!(!Greeting::read(&mut &refusal[..]).expect("a server").offers_tls);
        for other in [
            &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
            b"SSH-2.0-x\r\n",
            b"",
            &[1, 0, 0, 0, 9],
            &[2, 0, 0, 0, 10, 65],
        ] {
            assert!(Greeting::read(&mut &other[..]).is_err(), "{other:?}");
        }
    }
}
