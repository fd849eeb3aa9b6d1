//! The server side of the MySQL client/server protocol, version 4.1, as far as text queries need it.

pub(crate) mod field;
pub(crate) mod handshake;
pub(crate) mod packet;
pub(crate) mod reply;
