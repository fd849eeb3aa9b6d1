//! Packets over a stream, with bounded memory in both directions.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::net::SendFlags;

/// The longest command in bytes; reported to clients as `max_allowed_packet`.
pub(crate) const MAX_COMMAND: usize = 1 << 20;
/// The longest payload of one packet in bytes; the next packet continues a payload of exactly this length.
const MAX_PAYLOAD: usize = 0xFF_FFFF;
/// The bytes read, or written, at once.
const READ_PIECE: usize = 8 << 10;
const WRITE_PIECE: usize = 64 << 10;
/// The largest buffer in bytes that is kept between commands.
const KEEP: usize = 16 << 10;

/// The reason no packet was read.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The peer closed the connection between packets.
    Closed,
    /// A packet began and did not end in time.
    TimedOut,
    /// The header announced a packet longer than [`MAX_COMMAND`].
    TooBig,
    /// The sequence number is not the expected one, so the peer does not speak this protocol.
    OutOfOrder,
    /// The connection broke.
    Io,
}

/// The deadline of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// The packet must be complete within the limit from now.
    FromNow,
    /// The packet must be complete within the limit from its first byte, which may come at any time.
    FromFirstByte,
}

/// A buffered reader of packets.
pub(crate) struct PacketReader<'a> {
    stream: &'a UnixStream,
    buffer: Vec<u8>,
    /// The bytes of `buffer` that the last packet took.
    taken: usize,
    limit: Duration,
    timed: bool,
}

impl<'a> PacketReader<'a> {
    pub(crate) fn new(stream: &'a UnixStream, limit: Duration) -> Self {
        PacketReader { stream, buffer: Vec::new(), taken: 0, limit, timed: false }
    }

    /// Returns the payload of the next packet, which must have this sequence number.
    pub(crate) fn next(&mut self, sequence: u8, patience: Patience) -> Result<&[u8], ReadError> {
        self.forget_last();
        let mut deadline = (patience == Patience::FromNow).then(|| Instant::now() + self.limit);
        let length = loop {
            if let Some(header) = self.buffer.first_chunk::<4>() {
                let length =
                    usize::from(header[0]) | usize::from(header[1]) << 8 | usize::from(header[2]) << 16;
                if header[3] != sequence {
                    return Err(ReadError::OutOfOrder);
                }
                if length > MAX_COMMAND {
                    return Err(ReadError::TooBig);
                }
                if self.buffer.len() >= 4 + length {
                    break length;
                }
            }
            if !self.buffer.is_empty() && deadline.is_none() {
                deadline = Some(Instant::now() + self.limit);
            }
            self.fill(deadline)?;
        };
        self.taken = 4 + length;
        Ok(&self.buffer[4..self.taken])
    }

    fn forget_last(&mut self) {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        if self.buffer.is_empty() && self.buffer.capacity() > KEEP {
            self.buffer = Vec::new();
        }
    }

    /// Reads once. The buffer grows by the bytes that arrived, never by what a header announces.
    fn fill(&mut self, deadline: Option<Instant>) -> Result<(), ReadError> {
        self.set_deadline(deadline)?;
        let mut piece = [0; READ_PIECE];
        loop {
            match (&mut &*self.stream).read(&mut piece) {
                Ok(0) if self.buffer.is_empty() => return Err(ReadError::Closed),
                Ok(0) => return Err(ReadError::Io),
                Ok(count) => {
                    self.buffer.extend_from_slice(&piece[..count]);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(ReadError::TimedOut),
                Err(_) => return Err(ReadError::Io),
            }
        }
    }

    /// Sets the read timeout. This costs a system call only if a packet comes in pieces, which is rare.
    fn set_deadline(&mut self, deadline: Option<Instant>) -> Result<(), ReadError> {
        let left = match deadline {
            None if !self.timed => return Ok(()),
            None => None,
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(ReadError::TimedOut);
                }
                Some(left)
            }
        };
        self.timed = left.is_some();
        self.stream.set_read_timeout(left).map_err(|_| ReadError::Io)
    }
}

/// A buffered writer of packets. It sends as soon as [`WRITE_PIECE`] bytes are queued and blocks while the
/// peer does not read, until the stream's own write timeout.
pub(crate) struct PacketWriter<'a> {
    stream: &'a UnixStream,
    pending: Vec<u8>,
    sequence: u8,
}

impl<'a> PacketWriter<'a> {
    pub(crate) fn new(stream: &'a UnixStream) -> Self {
        PacketWriter { stream, pending: Vec::new(), sequence: 0 }
    }

    /// Sets the sequence number of the next packet.
    pub(crate) fn set_sequence(&mut self, sequence: u8) {
        self.sequence = sequence;
    }

    /// Queues a payload, in as many packets as its length needs.
    pub(crate) fn packet(&mut self, payload: &[u8]) -> io::Result<()> {
        let mut rest = payload;
        loop {
            let (part, after) = rest.split_at(rest.len().min(MAX_PAYLOAD));
            let length = part.len().to_le_bytes();
            self.queue(&[length[0], length[1], length[2], self.sequence])?;
            self.sequence = self.sequence.wrapping_add(1);
            self.queue(part)?;
            // A full packet announces another one, so an empty packet ends a payload whose last packet is
            // full.
            if part.len() < MAX_PAYLOAD {
                return Ok(());
            }
            rest = after;
        }
    }

    /// Begins a packet and returns its start for [`PacketWriter::end`], which fills in the length and queues
    /// it.
    pub(crate) fn begin(&mut self) -> usize {
        let start = self.pending.len();
        self.pending.extend_from_slice(&[0; 4]);
        start
    }

    /// Returns the buffer to which the payload of a begun packet is appended.
    pub(crate) fn payload(&mut self) -> &mut Vec<u8> {
        &mut self.pending
    }

    /// Ends the packet that began at `start`.
    pub(crate) fn end(&mut self, start: usize) -> io::Result<()> {
        let length = self.pending.len() - start - 4;
        if length >= MAX_PAYLOAD {
            let payload = self.pending.split_off(start).split_off(4);
            return self.packet(&payload);
        }
        let bytes = length.to_le_bytes();
        self.pending[start..start + 4].copy_from_slice(&[bytes[0], bytes[1], bytes[2], self.sequence]);
        self.sequence = self.sequence.wrapping_add(1);
        if self.pending.len() >= WRITE_PIECE { self.send() } else { Ok(()) }
    }

    /// Sends what is queued and releases a large buffer.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let sent = self.send();
        if self.pending.capacity() > KEEP {
            self.pending = Vec::new();
        }
        sent
    }

    fn queue(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let room = WRITE_PIECE.saturating_sub(self.pending.len());
            let (now, later) = bytes.split_at(bytes.len().min(room));
            self.pending.extend_from_slice(now);
            bytes = later;
            if self.pending.len() >= WRITE_PIECE {
                self.send()?;
            }
        }
        Ok(())
    }

    fn send(&mut self) -> io::Result<()> {
        let mut rest = &self.pending[..];
        while !rest.is_empty() {
            // `send` instead of `write`: a closed peer must not raise SIGPIPE in the host's process.
            match rustix::net::send(self.stream, rest, SendFlags::NOSIGNAL) {
                Ok(count) => rest = &rest[count..],
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    self.pending.clear();
                    return Err(error.into());
                }
            }
        }
        self.pending.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};

    use super::*;

    /// Uses a socket type that preserves message boundaries: one system call is one piece.
    #[test]
    fn rows_are_sent_many_at_once() {
        const ROWS: usize = 5_000;
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let (ours, theirs) = pair.expect("sockets");
        let reading = std::thread::spawn(move || {
            let mut piece = vec![0; 1 << 20];
            let mut pieces = Vec::new();
            loop {
                let (_, length) = recv(&theirs, &mut piece[..], RecvFlags::empty()).expect("a piece");
                if length == 0 {
                    return pieces;
                }
                pieces.push(length);
            }
        });
        let stream = UnixStream::from(ours);
        let mut writer = PacketWriter::new(&stream);
        for row in 0..ROWS {
            let start = writer.begin();
            writer.payload().extend_from_slice(&vec![b'x'; 200 + row % 200]);
            writer.end(start).expect("sent");
        }
        writer.flush().expect("sent");
        drop(stream);
        let pieces = reading.join().expect("a reader");
        let bytes: usize = (0..ROWS).map(|row| 204 + row % 200).sum();
        assert_eq!(pieces.iter().sum::<usize>(), bytes);
        assert_eq!(pieces.len(), bytes.div_ceil(WRITE_PIECE), "{pieces:?}");
    }
}
