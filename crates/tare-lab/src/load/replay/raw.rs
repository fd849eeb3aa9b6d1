//! Sending of statements that are not UTF-8, directly on the socket, as the client library accepts only
//! UTF-8.
//!
//! The library has read all previous answers, and will read later ones. So the connection must be neither
//! encrypted nor compressed; the lab's never are.

use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsRawFd, RawFd};

use nix::sys::socket::{MsgFlags, recv, send};

/// The protocol's command for a query.
const QUERY: u8 = 3;
/// A packet of this length continues in the next one.
const MOST: usize = 0xff_ffff;
/// The status flag for another result that follows.
const MORE_RESULTS: u16 = 8;
/// Length of the packet that ends columns, or rows, on older servers.
const EOF: usize = 5;

/// Sends a text and reads the whole answer; returns the number of rows.
pub(super) fn rows_of(connection: &mysql::Conn, text: &[u8]) -> mysql::Result<u64> {
    let mut stream = ReplaySocket { socket: connection.as_raw_fd(), number: 0 };
    let packet = [&[QUERY][..], text].concat();
    stream.write(&packet)?;
    let mut rows = 0;
    loop {
        let answer = stream.read()?;
        let status = match answer.first() {
            Some(0x00) => status_of(&answer, 1)?,
            Some(0xff) => return Err(refusal(&answer)),
            // For LOCAL INFILE, no file is sent.
            Some(0xfb) => {
                stream.write(&[])?;
                continue;
            }
            _ => stream.result(&answer, &mut rows)?,
        };
        if status & MORE_RESULTS == 0 {
            return Ok(rows);
        }
    }
}

/// The socket of a connection.
struct ReplaySocket {
    socket: RawFd,
    /// Number of the next packet.
    number: u8,
}

impl ReplaySocket {
    /// Reads columns and rows; returns the status after them.
    fn result(&mut self, head: &[u8], rows: &mut u64) -> mysql::Result<u16> {
        let (columns, _) = number(head).ok_or_else(broken)?;
        for _ in 0..columns {
            self.read()?;
        }
        let mut is_first = true;
        loop {
            let packet = self.read()?;
            let is_end = packet.first() == Some(&0xfe) && packet.len() < MOST;
            if packet.first() == Some(&0xff) {
                return Err(refusal(&packet));
            } else if is_end && packet.len() == EOF && is_first {
                is_first = false; // behind the columns
                continue;
            } else if is_end && packet.len() == EOF {
                return Ok(u16::from_le_bytes([packet[3], packet[4]]));
            } else if is_end {
                return Ok(status_of(&packet, 1)?);
            }
            *rows += 1;
        }
    }

    fn write(&mut self, mut payload: &[u8]) -> Result<()> {
        loop {
            let (part, rest) = payload.split_at(payload.len().min(MOST));
            let length = u32::try_from(part.len()).unwrap_or_default();
            let head = (length | u32::from(self.number) << 24).to_le_bytes();
            self.number = self.number.wrapping_add(1);
            self.send_all(&head)?;
            self.send_all(part)?;
            if part.len() < MOST {
                return Ok(());
            }
            payload = rest;
        }
    }

    fn send_all(&self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            match send(self.socket, bytes, MsgFlags::MSG_NOSIGNAL) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(nix::errno::Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn read(&mut self) -> Result<Vec<u8>> {
        let mut payload = vec![];
        loop {
            let mut head = [0; 4];
            self.receive(&mut head)?;
            self.number = head[3].wrapping_add(1);
            let length = usize::from(head[0]) | usize::from(head[1]) << 8 | usize::from(head[2]) << 16;
            let from = payload.len();
            payload.resize(from + length, 0);
            self.receive(&mut payload[from..])?;
            if length < MOST {
                return Ok(payload);
            }
        }
    }

    fn receive(&self, mut to: &mut [u8]) -> Result<()> {
        while !to.is_empty() {
            match recv(self.socket, to, MsgFlags::empty()) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(received) => to = &mut to[received..],
                Err(nix::errno::Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Parses a length-encoded integer; returns it with its length in bytes.
fn number(bytes: &[u8]) -> Option<(u64, usize)> {
    let width = match *bytes.first()? {
        small @ ..=0xfa => return Some((small.into(), 1)),
        0xfc => 2,
        0xfd => 3,
        0xfe => 8,
        _ => return None,
    };
    let digits = bytes.get(1..=width)?;
    Some((digits.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte)), width + 1))
}

/// Returns the status in a packet that ends a result; `at` is the offset after its first byte.
fn status_of(packet: &[u8], at: usize) -> Result<u16> {
    let behind = |at: usize| packet.get(at..).and_then(number).map(|(_, length)| at + length);
    let at = behind(at).and_then(behind).ok_or_else(broken)?;
    let status = packet.get(at..at + 2).ok_or_else(broken)?;
    Ok(u16::from_le_bytes([status[0], status[1]]))
}

/// Makes the error of an error packet.
fn refusal(packet: &[u8]) -> mysql::Error {
    let Some([low, high, message @ ..]) = packet.get(1..) else { return broken().into() };
    let (state, message) = match message {
        [b'#', state @ ..] if state.len() >= 5 => state.split_at(5),
        _ => (&b"HY000"[..], message),
    };
    mysql::Error::MySqlError(mysql::MySqlError {
        state: String::from_utf8_lossy(state).into_owned(),
        message: String::from_utf8_lossy(message).into_owned(),
        code: u16::from_le_bytes([*low, *high]),
    })
}

fn broken() -> Error {
    Error::new(ErrorKind::InvalidData, "the server's answer is none of its protocol")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_read_by_the_protocol() {
        assert_eq!(
            (number(&[7]), number(&[0xfc, 1, 2]), number(&[0xfb])),
            (Some((7, 1)), Some((513, 3)), None)
        );
        assert_eq!(number(&[0xfe, 1]), None);
        assert_eq!(status_of(&[0, 1, 0xfc, 0, 1, 0x0a, 0, 0, 0], 1).expect("a status"), 10);
        assert!(status_of(&[0, 1], 1).is_err());
        let error = refusal(b"\xff\x28\x04#42000no");
        assert!(
            matches!(error, mysql::Error::MySqlError(e) if (e.code, e.message.as_str(), e.state.as_str()) == (1064, "no", "42000"))
        );
    }
}
