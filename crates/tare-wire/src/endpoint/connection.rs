//! The life of one client connection, from greeting to close.

use std::collections::HashMap;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::answer::{self, ClientSession, HostStatement, ServedData, Stop};
use crate::failure::ErrorPacket;
use crate::peer::Peer;
use crate::protocol::handshake::{self, UTF8MB3};
use crate::protocol::packet::{PacketReader, PacketWriter, Patience, ReadError};
use crate::protocol::reply;

/// The supported commands, by their first byte.
mod command {
    pub(super) const QUIT: u8 = 1;
    pub(super) const INIT_DB: u8 = 2;
    pub(super) const QUERY: u8 = 3;
    pub(super) const FIELD_LIST: u8 = 4;
    pub(super) const STATISTICS: u8 = 9;
    pub(super) const PING: u8 = 14;
    pub(super) const STMT_SEND_LONG_DATA: u8 = 24;
    pub(super) const STMT_CLOSE: u8 = 25;
    pub(super) const SET_OPTION: u8 = 27;
    pub(super) const RESET_CONNECTION: u8 = 31;
}

/// Serves a connection until it ends. Runs on the connection's own thread.
pub(super) fn serve(source: &ServedData, stall_limit: Duration, stream: &UnixStream, id: u32, peer: Peer) {
    if stream.set_write_timeout(Some(stall_limit)).is_err() {
        return;
    }
    let mut reader = PacketReader::new(stream, stall_limit);
    let mut writer = PacketWriter::new(stream);
    let Some(mut session) = greet(source, &mut reader, &mut writer, id, peer) else { return };
    loop {
        let packet = match reader.next(0, Patience::FromFirstByte) {
            Ok(packet) => packet,
            Err(error) => {
                writer.set_sequence(1);
                return complain(&mut writer, &error);
            }
        };
        writer.set_sequence(1);
        if !answer(source, &mut session, &mut writer, packet) || source.is_stopping() {
            return;
        }
    }
}

fn greet(
    source: &ServedData,
    reader: &mut PacketReader<'_>,
    writer: &mut PacketWriter<'_>,
    id: u32,
    peer: Peer,
) -> Option<ClientSession> {
    writer.packet(&handshake::greeting(&source.server_version, id)).ok()?;
    writer.flush().ok()?;
    let packet = match reader.next(1, Patience::FromNow) {
        Ok(packet) => packet,
        Err(error) => {
            writer.set_sequence(2);
            complain(writer, &error);
            return None;
        }
    };
    writer.set_sequence(2);
    let welcomed = welcome(packet, id, peer);
    let (packet, session) = match welcomed {
        Ok(session) => (reply::ok(0, ""), Some(session)),
        Err(failure) => (reply::error(&failure), None),
    };
    writer.packet(&packet).ok()?;
    writer.flush().ok()?;
    session
}

fn welcome(packet: &[u8], id: u32, peer: Peer) -> Result<ClientSession, ErrorPacket> {
    let answer = handshake::answer(packet).ok_or_else(ErrorPacket::bad_handshake)?;
    let mut session = ClientSession {
        id,
        peer,
        user: answer.user,
        narrow: u16::from(answer.charset) == UTF8MB3,
        found_rows: answer.found_rows,
        has_database: false,
        whole_sums: false,
        readings: HashMap::new(),
        host_statement: HostStatement::default(),
    };
    if let Some(database) = answer.database {
        session.use_database(&database)?;
    }
    Ok(session)
}

/// Reports a protocol violation to the client, if the connection still works.
fn complain(writer: &mut PacketWriter<'_>, error: &ReadError) {
    let failure = match error {
        ReadError::Closed | ReadError::Io => return,
        ReadError::TimedOut => ErrorPacket::read_timeout(),
        ReadError::TooBig => ErrorPacket::packet_too_big(),
        ReadError::OutOfOrder => ErrorPacket::out_of_order(),
    };
    let _ = writer.packet(&reply::error(&failure)).and_then(|()| writer.flush());
}

/// Answers a command. Returns whether the connection continues.
fn answer(
    source: &ServedData,
    session: &mut ClientSession,
    writer: &mut PacketWriter<'_>,
    packet: &[u8],
) -> bool {
    let attempt = catch_unwind(AssertUnwindSafe(|| dispatch(source, session, writer, packet)));
    let (failure, goes_on) = match attempt {
        Ok(Ok(goes_on)) => return writer.flush().is_ok() && goes_on,
        Ok(Err(Stop::Lost)) => return false,
        Ok(Err(Stop::Failed(failure))) => (failure, true),
        // A table's reader panicked between two rows, where an error packet is still valid. The connection
        // ends because the state the panic left behind is unknown.
        Err(_) => (ErrorPacket::internal(), false),
    };
    writer.packet(&reply::error(&failure)).and_then(|()| writer.flush()).is_ok() && goes_on
}

fn dispatch(
    source: &ServedData,
    session: &mut ClientSession,
    writer: &mut PacketWriter<'_>,
    packet: &[u8],
) -> Result<bool, Stop> {
    let Some((command, body)) = packet.split_first() else { return Err(ErrorPacket::out_of_order().into()) };
    match *command {
        command::QUIT => return Ok(false),
        command::QUERY => answer::query(source, session, writer, body)?,
        command::PING => writer.packet(&reply::ok(0, ""))?,
        command::RESET_CONNECTION => {
            session.readings.clear();
            session.host_statement = HostStatement::default();
            writer.packet(&reply::ok(0, ""))?;
        }
        command::INIT_DB => {
            session.use_database(&String::from_utf8_lossy(body))?;
            writer.packet(&reply::ok(0, ""))?;
        }
        command::FIELD_LIST => {
            let name = body.split(|byte| *byte == 0).next().unwrap_or_default();
            answer::field_list(source, session, writer, &String::from_utf8_lossy(name))?;
        }
        command::STATISTICS => writer.packet(format!("Tables: {}", source.tables.len()).as_bytes())?,
        command::SET_OPTION => writer.packet(&reply::eof())?,
        // These two commands have no answer.
        command::STMT_SEND_LONG_DATA | command::STMT_CLOSE => {}
        other => return Err(ErrorPacket::unknown_command(other).into()),
    }
    Ok(true)
}
