//! A client that speaks the protocol itself: it says what a library would not.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use tare_testkit::server::Server;

/// A client that says bytes, not text, on a connection of its own.
pub(crate) struct Raw {
    stream: UnixStream,
    pub(crate) connection_id: u32,
}

/// A text with its length before it.
fn counted(text: &[u8]) -> Vec<u8> {
    let len = text.len() as u16;
    let mut counted = if len < 251 { vec![len as u8] } else { [&[0xfc][..], &len.to_le_bytes()].concat() };
    counted.extend(text);
    counted
}

impl Raw {
    /// Connects with the collation of this number and these attributes.
    pub(crate) fn connect(server: &Server, collation: u8, attributes: &[(&[u8], &[u8])]) -> Raw {
        // PROTOCOL_41, SECURE_CONNECTION, PLUGIN_AUTH, CONNECT_ATTRS
        const CAPABILITIES: u32 = 1 << 9 | 1 << 15 | 1 << 19 | 1 << 20;
        let mut raw = Raw { stream: UnixStream::connect(server.socket()).unwrap(), connection_id: 0 };
        let greeting = raw.packet();
        let version_end = greeting.iter().position(|byte| *byte == 0).unwrap();
        raw.connection_id = u32::from_le_bytes(*greeting[version_end + 1..].first_chunk().unwrap());
        let attributes: Vec<u8> =
            attributes.iter().flat_map(|(name, value)| [counted(name), counted(value)].concat()).collect();
        let mut answer = CAPABILITIES.to_le_bytes().to_vec();
        answer.extend((16u32 << 20).to_le_bytes());
        answer.push(collation);
        answer.extend([0; 23]);
        answer.extend(b"root\0\0mysql_native_password\0");
        answer.extend(counted(&attributes));
        raw.write(1, &answer);
        let reply = raw.packet();
        assert_eq!(reply[0], 0, "let in: {}", reply.escape_ascii());
        raw
    }

    fn write(&mut self, number: u8, packet: &[u8]) {
        let head = (packet.len() as u32 | u32::from(number) << 24).to_le_bytes();
        self.stream.write_all(&[&head[..], packet].concat()).unwrap();
    }

    fn packet(&mut self) -> Vec<u8> {
        let mut head = [0; 4];
        self.stream.read_exact(&mut head).unwrap();
        let mut packet = vec![0; u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize];
        self.stream.read_exact(&mut packet).unwrap();
        packet
    }

    /// Sends a statement, whether or not it makes sense. Returns the rows as the protocol has them; none
    /// after an error.
    pub(crate) fn query(&mut self, sql: &[u8]) -> Vec<Vec<u8>> {
        self.write(0, &[b"\x03", sql].concat());
        let ends = |packet: &[u8]| packet[0] == 0xff || packet[0] == 0xfe && packet.len() < 9;
        let first = self.packet();
        if ends(&first) || first[0] == 0 {
            return Vec::new();
        }
        while !ends(&self.packet()) {}
        std::iter::from_fn(|| Some(self.packet()).filter(|packet| !ends(packet))).collect()
    }

    /// Prepares a statement without columns or parameters of interest; returns its number.
    pub(crate) fn prepare(&mut self, sql: &str) -> u32 {
        self.write(0, &[b"\x16", sql.as_bytes()].concat());
        let answer = self.packet();
        assert_eq!(answer[0], 0, "prepared: {}", answer.escape_ascii());
        let number = |at: usize| u16::from_le_bytes([answer[at], answer[at + 1]]);
        // Parameters, then columns, each kind with an end.
        for count in [number(7), number(5)].into_iter().filter(|count| *count > 0) {
            for _ in 0..=count {
                self.packet();
            }
        }
        u32::from_le_bytes([answer[1], answer[2], answer[3], answer[4]])
    }

    /// Executes a statement without parameters; with a cursor no row is sent.
    pub(crate) fn execute(&mut self, statement: u32, cursor: bool) {
        let mut packet = vec![0x17];
        packet.extend(statement.to_le_bytes());
        packet.push(u8::from(cursor));
        packet.extend(1u32.to_le_bytes());
        self.write(0, &packet);
        let first = self.packet();
        assert_ne!(first[0], 0xff, "executed: {}", first.escape_ascii());
        if first[0] == 0 {
            return;
        }
        let is_end = |packet: &[u8]| packet[0] == 0xfe && packet.len() < 9;
        while !is_end(&self.packet()) {}
        if !cursor {
            while !is_end(&self.packet()) {}
        }
    }

    /// Fetches as many rows by a cursor; returns how many came.
    pub(crate) fn fetch(&mut self, statement: u32, rows: u32) -> usize {
        let mut packet = vec![0x1c];
        packet.extend(statement.to_le_bytes());
        packet.extend(rows.to_le_bytes());
        self.write(0, &packet);
        let ends = |packet: &[u8]| packet[0] == 0xff || packet[0] == 0xfe && packet.len() < 9;
        std::iter::from_fn(|| Some(self.packet()).filter(|packet| !ends(packet))).count()
    }

    /// `COM_STMT_RESET`.
    pub(crate) fn reset(&mut self, statement: u32) {
        self.write(0, &[&[0x1a][..], &statement.to_le_bytes()].concat());
        assert_eq!(self.packet()[0], 0);
    }
}
