//! The handshake of a connection: greeting and response.
//!
//! The socket's mode and the peer's user id decide before the handshake who may connect. So every user name
//! is accepted and a password is ignored. What a session of a server may ask for depends on the table names
//! it knows (`catalog`).

/// The capability bits of the protocol.
pub(crate) mod capability {
    /// The first bit; without it a client reads the next field as MariaDB's own extensions.
    pub(crate) const MYSQL: u32 = 1;
    pub(crate) const FOUND_ROWS: u32 = 1 << 1;
    pub(crate) const LONG_FLAG: u32 = 1 << 2;
    pub(crate) const CONNECT_WITH_DB: u32 = 1 << 3;
    pub(crate) const PROTOCOL_41: u32 = 1 << 9;
    pub(crate) const SSL: u32 = 1 << 11;
    pub(crate) const TRANSACTIONS: u32 = 1 << 13;
    pub(crate) const SECURE_CONNECTION: u32 = 1 << 15;
    pub(crate) const PLUGIN_AUTH: u32 = 1 << 19;
    pub(crate) const CONNECT_ATTRS: u32 = 1 << 20;
    pub(crate) const PLUGIN_AUTH_LENENC: u32 = 1 << 21;
}

const OFFERED: u32 = capability::MYSQL
    | capability::FOUND_ROWS
    | capability::LONG_FLAG
    | capability::CONNECT_WITH_DB
    | capability::PROTOCOL_41
    | capability::TRANSACTIONS
    | capability::SECURE_CONNECTION
    | capability::PLUGIN_AUTH
    | capability::CONNECT_ATTRS
    | capability::PLUGIN_AUTH_LENENC;

const PLUGIN: &[u8] = b"mysql_native_password\0";
/// The fixed scramble; no secret depends on it, because passwords are ignored.
const SCRAMBLE: &[u8; 20] = b"tare-serves-its-peer";
/// The server status `SERVER_STATUS_AUTOCOMMIT`.
pub(crate) const STATUS: u16 = 2;
/// The id of `utf8mb3_general_ci`, the collation of all text sent.
pub(crate) const UTF8MB3: u16 = 33;

/// Returns the server's first packet.
pub(crate) fn greeting(version: &str, connection_id: u32) -> Vec<u8> {
    let mut packet = Vec::with_capacity(96 + version.len());
    packet.push(10);
    packet.extend_from_slice(version.as_bytes());
    packet.push(0);
    packet.extend_from_slice(&connection_id.to_le_bytes());
    packet.extend_from_slice(&SCRAMBLE[..8]);
    packet.push(0);
    let offered = OFFERED.to_le_bytes();
    packet.extend_from_slice(&offered[..2]);
    packet.push(UTF8MB3 as u8);
    packet.extend_from_slice(&STATUS.to_le_bytes());
    packet.extend_from_slice(&offered[2..]);
    packet.push(SCRAMBLE.len() as u8 + 1);
    packet.extend_from_slice(&[0; 10]);
    packet.extend_from_slice(&SCRAMBLE[8..]);
    packet.push(0);
    packet.extend_from_slice(PLUGIN);
    packet
}

/// The client's handshake response.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct HandshakeResponse {
    pub(crate) found_rows: bool,
    pub(crate) charset: u8,
    pub(crate) user: String,
    pub(crate) database: Option<String>,
}

/// Parses the client's first packet; returns `None` if it is not of the 4.1 protocol without TLS.
pub(crate) fn answer(packet: &[u8]) -> Option<HandshakeResponse> {
    let mut rest = packet;
    let said = u32::from_le_bytes(take(&mut rest, 4)?.try_into().ok()?);
    if said & capability::PROTOCOL_41 == 0 || said & capability::SSL != 0 {
        return None;
    }
    let agreed = said & OFFERED;
    take(&mut rest, 4)?;
    let charset = take(&mut rest, 1)?[0];
    take(&mut rest, 23)?;
    let user = zero_ended(&mut rest)?;
    if agreed & capability::PLUGIN_AUTH_LENENC != 0 {
        let length = length_encoded(&mut rest)?;
        take(&mut rest, length)?;
    } else if agreed & capability::SECURE_CONNECTION != 0 {
        let length = usize::from(take(&mut rest, 1)?[0]);
        take(&mut rest, length)?;
    } else {
        zero_ended(&mut rest)?;
    }
    let named = agreed & capability::CONNECT_WITH_DB != 0;
    let database = if named { Some(zero_ended(&mut rest)?) } else { None };
    let database = database.filter(|name| !name.is_empty());
    Some(HandshakeResponse { found_rows: agreed & capability::FOUND_ROWS != 0, charset, user, database })
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(count)?;
    *rest = left;
    Some(taken)
}

/// Takes text up to a zero byte, or up to the end where the client omits the last zero.
fn zero_ended(rest: &mut &[u8]) -> Option<String> {
    let end = rest.iter().position(|byte| *byte == 0);
    let text = take(rest, end.unwrap_or(rest.len()))?;
    let text = String::from_utf8_lossy(text).into_owned();
    if end.is_some() {
        take(rest, 1)?;
    }
    Some(text)
}

fn length_encoded(rest: &mut &[u8]) -> Option<usize> {
    let bytes = match take(rest, 1)?[0] {
        short @ 0..=250 => return Some(usize::from(short)),
        252 => take(rest, 2)?,
        253 => take(rest, 3)?,
        _ => return None,
    };
    Some(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
}
