//! HOT PATH: safe access to the server's own structures for the shims, read through [`crate::host`].
#![allow(unsafe_code)]

use std::ffi::{c_uint, c_void};
use std::fmt::{self, Write};

use tare_engine::objects;
use tare_engine::{DigestTokens, Outcome, Xid};

use crate::abi::Series;
use crate::abi::types::{DigestStorage, MdlKey, ServerTableShare};
use crate::host::{address, charset, diagnostics, digest, handler, metadata, names, share, transaction};

static SHARES: share::ShareReader = share::ShareReader::new();

/// Selects the series whose layouts are read. Must run before the first slot is called.
pub(crate) fn select(series: Series) {
    SHARES.select(series);
}

/// Returns the number of a character set.
pub(super) fn charset_number(charset: *const c_void) -> u32 {
    // SAFETY: the server passes null or one of its character sets, which are never freed.
    unsafe { charset::number(charset) }
}

/// Returns whether a statement's outcome is the empty one: see [`diagnostics::is_plain_result`].
#[inline(always)]
pub(super) fn is_plain_result(area: *const c_void) -> bool {
    // SAFETY: the server passes its own diagnostics area, unchanged during the call.
    unsafe { diagnostics::is_plain_result(area) }
}

/// Returns the number of a condition if it is an error.
pub(super) fn error_number(condition: *const c_void) -> Option<u32> {
    // SAFETY: the server passes a reference to a condition's identity.
    unsafe { diagnostics::error_number(condition) }
}

/// Returns whether a condition about to be raised repeats an error of its statement: see
/// [`diagnostics::is_repetition`].
pub(super) fn is_repetition(session: *const c_void, condition: *const c_void) -> bool {
    // SAFETY: the server's function that raises a condition is called with its session.
    unsafe { diagnostics::is_repetition(session, condition) }
}

/// Keeps the number of an error that counts: see [`diagnostics::keep_number`].
pub(super) fn keep_number(session: *const c_void, number: u32) {
    // SAFETY: the server's functions that raise a condition are called with its session.
    unsafe { diagnostics::keep_number(session, number) }
}

/// Returns whether the level of a condition is that of an error.
pub(super) fn is_error(level: *const c_void) -> bool {
    // SAFETY: the server's function that asks for handlers of a condition is called with its level.
    unsafe { diagnostics::is_error(level) }
}

/// Returns the outcome of a statement.
pub(super) fn outcome<'a>(area: *const c_void) -> Outcome<'a> {
    // SAFETY: the server passes its own diagnostics area, unchanged during the call.
    let outcome = unsafe { diagnostics::outcome(area) };
    Outcome {
        errno: outcome.sql_errno,
        sqlstate: outcome.sqlstate,
        message: outcome.message,
        errors: u64::from(outcome.errors),
        warnings: u64::from(outcome.warnings),
        rows_affected: outcome.rows_affected,
    }
}

/// Returns a statement's tokens; `None` if there are none.
pub(super) fn digest_tokens<'a>(storage: *const DigestStorage) -> Option<DigestTokens<'a>> {
    // SAFETY: the storage that the parser filled belongs to the session, which still runs this statement.
    let tokens = unsafe { digest::tokens(storage) }?;
    Some(DigestTokens { bytes: tokens.bytes, charset: tokens.charset, cut: tokens.full, hash: digest::hash })
}

/// Marks a table so that its changes stay out of the binary log.
///
/// See [`share::ShareReader::keep_from_binary_log`].
pub(super) fn keep_from_binary_log(share: *mut ServerTableShare) {
    // SAFETY: the server passes a share it has filled. Other sessions may see it by now; they only read it.
    let _where_the_layout_is_sure = unsafe { SHARES.keep_from_binary_log(share) };
}

/// Returns the names of a table and of its keys.
pub(super) fn table_share<'a>(share: *const ServerTableShare) -> Option<share::OpenShare<'a>> {
    // SAFETY: the server passes null or a share it has completed.
    unsafe { SHARES.read(share) }
}

/// Returns the names of a handler's table and of its keys; `None` for a table that is not in the server's
/// cache of definitions, such as a temporary one.
pub(super) fn cached_share<'a>(handler: *const c_void) -> Option<share::OpenShare<'a>> {
    // SAFETY: the server passes the handler it opens or reuses, with its share, which it has completed.
    unsafe { SHARES.read_cached(handler::share(handler)) }
}

/// Makes a handler of a table of this schema one of tare's (see [`handler`]), and keeps the table's changes
/// out of the binary log. The latter is repeated here because a session that got the share right after it
/// became visible may arrive here first.
pub(super) fn settle_handler(handler: *const c_void, schema: &[u8]) {
    // SAFETY: the server passes the handler it has just opened, with its share; only this thread knows it.
    let share = unsafe { handler::share(handler) };
    if let Some(names) = table_share(share).filter(|names| names.schema == schema) {
        keep_from_binary_log(share.cast_mut());
        // SAFETY: as above.
        unsafe { handler::settle(handler) };
        handler::note_deprecated(share, names.table);
    }
}

/// Returns the object of a metadata lock.
#[inline(always)]
pub(super) fn metadata_object<'a>(key: *const MdlKey) -> Option<metadata::LockedObject<'a>> {
    // SAFETY: the server passes a key that is valid during the call.
    unsafe { metadata::object(key) }
}

/// Returns the object of a metadata lock; `None` for a user lock.
#[inline(always)]
pub(super) fn usual_metadata_object<'a>(key: *const MdlKey) -> Option<metadata::LockedObject<'a>> {
    // SAFETY: see [`metadata_object`].
    unsafe { metadata::usual_object(key) }
}

/// Returns an XA identifier; `None` for a null one.
pub(super) fn xid<'a>(xid: *const c_void) -> Option<Xid<'a>> {
    // SAFETY: the server passes null or its own identifier, which it does not change during the call.
    let xid = unsafe { transaction::xid(xid) }?;
    Some(Xid { format_id: xid.format_id as i32, gtrid: xid.gtrid, bqual: xid.bqual })
}

/// Returns whether an XA identifier is missing or made up by the server for a transaction of its own; those
/// are not shown.
#[inline(always)]
pub(super) fn is_made_up(xid: *const c_void) -> bool {
    // SAFETY: see [`xid`].
    unsafe { transaction::is_made_up(xid) }
}

/// Returns a global transaction id.
pub(super) fn gtid(gtid: *const c_void) -> transaction::Gtid {
    // SAFETY: the server passes null or its own id.
    unsafe { transaction::gtid(gtid) }
}

/// A text of at most `N` bytes without heap memory: where the server calls, the heap may be exhausted.
pub(super) struct ShortText<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> ShortText<N> {
    pub(super) const EMPTY: ShortText<N> = ShortText { bytes: [0; N], length: 0 };

    /// Copies as many of the bytes as fit.
    pub(super) fn of(bytes: &[u8]) -> ShortText<N> {
        let mut text = ShortText::<N>::EMPTY;
        text.length = bytes.len().min(N);
        text.bytes[..text.length].copy_from_slice(&bytes[..text.length]);
        text
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Appends a part as a whole or not at all.
impl<const N: usize> Write for ShortText<N> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let end = self.length + part.len();
        self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?.copy_from_slice(part.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// The length of the longest IP address in bytes.
const LONGEST_IP: usize = "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255".len();

/// Returns IP and PORT of a socket; empty and 0 if it has none.
pub(super) fn peer(address: *const libc::sockaddr, len: c_uint) -> (ShortText<LONGEST_IP>, u16) {
    // SAFETY: the server passes null or an address of that length.
    let address = unsafe { address::socket(address, len) };
    let mut ip = ShortText::<LONGEST_IP>::EMPTY;
    let _fits = address.map(|address| write!(ip, "{}", address.ip()));
    (ip, address.map_or(0, |address| address.port()))
}

/// Returns OBJECT_TYPE of a stored program.
pub(super) fn program_type(number: c_uint) -> Option<u8> {
    Some(match names::program(number)? {
        "FUNCTION" => objects::FUNCTION,
        "PROCEDURE" => objects::PROCEDURE,
        "PACKAGE" => objects::PACKAGE,
        "PACKAGE BODY" => objects::PACKAGE_BODY,
        "TRIGGER" => objects::TRIGGER,
        _ => objects::EVENT,
    })
}

/// Returns the kind of a table lock; `None` if it is released.
pub(super) fn table_lock(op: c_uint, flags: u64) -> Option<u8> {
    match names::table_lock(op, flags) {
        names::TableLockRequest::Lock(kind) => Some(kind as u8),
        names::TableLockRequest::Unlock => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_keeps_what_fits() {
        let mut text: ShortText<5> = ShortText::of(b"abcdefg");
        assert_eq!(text.as_bytes(), b"abcde");
        text = ShortText::of(b"abc");
        assert!(text.write_str("xyz").is_err());
        assert_eq!(text.as_bytes(), b"abc", "nothing of what does not fit");
        assert!(text.write_char('\u{e9}').is_ok() && text.write_char('x').is_err());
        assert_eq!(text.as_bytes(), "abc\u{e9}".as_bytes());
    }

    #[test]
    fn every_ip_fits() {
        let longest = [0xff; 16];
        let mut mapped = [0xff; 16];
        mapped[..10].fill(0);
        for (octets, text) in [
            (longest, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            (mapped, "::ffff:255.255.255.255"),
            ([0; 16], "::"),
        ] {
            let address = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: 3306u16.to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: octets },
                sin6_scope_id: 1,
            };
            let length = size_of::<libc::sockaddr_in6>() as c_uint;
            let (ip, port) = peer(std::ptr::from_ref(&address).cast(), length);
            assert_eq!((std::str::from_utf8(ip.as_bytes()), port), (Ok(text), 3306));
        }
        let (ip, port) = peer(std::ptr::null(), 0);
        assert_eq!((ip.as_bytes(), port), (&b""[..], 0));
    }

    #[test]
    fn a_handler_that_is_opened_first_keeps_its_table_from_the_binary_log() {
        select(Series::V10_11);
        for (cache_key, marked) in
            [(&b"performance_schema\0threads\0"[..], 1), (b"a_schema_of_18_char\0threads\0", 0)]
        {
            let (mut words, flag) = share::tests::cached_share(cache_key, cache_key.len() - 9);
            let functions = [0_usize; 4];
            let handler = [functions[2..].as_ptr().addr(), words.as_mut_ptr().addr()];
            settle_handler(handler.as_ptr().cast(), b"performance_schema");
            // SAFETY: a byte of the share.
            assert_eq!(unsafe { words.as_mut_ptr().cast::<u8>().add(flag).read() }, marked);
        }
    }
}
