//! Transaction ids as the server passes them: XID and GTID.
#![allow(unsafe_code)]

use std::ffi::c_void;

/// `xid_t`: the same in all series (debug information of 10.11.5 and 11.4.5; on 10.11.19 and 11.8.9 an `XA
/// START` with a known XID was read back at `set_transaction_xid`).
#[repr(C)]
struct RawXid {
    format_id: i64,
    gtrid_length: i64,
    bqual_length: i64,
    data: [u8; 128],
}

/// The id of a distributed transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerXid<'a> {
    /// The column XID_FORMAT_ID.
    pub format_id: i64,
    /// The bytes of XID_GTRID.
    pub gtrid: &'a [u8],
    /// The bytes of XID_BQUAL.
    pub bqual: &'a [u8],
}

/// Reads an XID; returns `None` for NULL, the null XID (format −1) and lengths out of range.
///
/// Autocommit transactions carry a server-made XID (format 1, 24 bytes that begin with `MySQLXid`). The
/// built-in shows XIDs of transactions marked XA only (`set_transaction_xid`, `set_transaction_xa_state`).
///
/// # Safety
///
/// `xid` is NULL or points at a `xid_t` of the server for the duration of the call.
pub unsafe fn xid<'a>(xid: *const c_void) -> Option<ServerXid<'a>> {
    // SAFETY: the caller's promise; every bit pattern is a value of the members.
    let raw = unsafe { xid.cast::<RawXid>().as_ref() }?;
    let length = |n: i64| usize::try_from(n).ok().filter(|n| *n <= 64);
    let (gtrid, rest) = raw.data.split_at(length(raw.gtrid_length)?);
    let bqual = &rest[..length(raw.bqual_length)?];
    (raw.format_id != -1).then_some(ServerXid { format_id: raw.format_id, gtrid, bqual })
}

/// The beginning of the server-made XIDs of autocommit transactions.
const MADE_UP: u64 = u64::from_le_bytes(*b"MySQLXid");

/// Returns whether the XID is server-made or missing (NULL, format −1).
///
/// # Safety
///
/// See [`xid`].
#[inline(always)]
pub unsafe fn is_made_up(xid: *const c_void) -> bool {
    // SAFETY: the caller's promise; every bit pattern is a value of the members.
    let Some(raw) = (unsafe { xid.cast::<RawXid>().as_ref() }) else { return true };
    match raw.format_id {
        -1 => true,
        1 => {
            raw.gtrid_length >= 8 && raw.data.first_chunk().map(|it| u64::from_le_bytes(*it)) == Some(MADE_UP)
        }
        _ => false,
    }
}

/// The argument of `set_transaction_gtid`, printed by the built-in as `domain-server-sequence`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gtid {
    /// The replication domain.
    pub domain: u32,
    /// The server id.
    pub server: u32,
    /// The sequence number.
    pub sequence: u64,
}

/// Copies a GTID; the built-in shows `0-0-0` for transactions that never got one.
///
/// No supported server was seen to call `set_transaction_gtid`; the layout is that of the debug information.
///
/// # Safety
///
/// `gtid` is NULL or points at the server's `rpl_gtid` for the duration of the call.
pub unsafe fn gtid(gtid: *const c_void) -> Gtid {
    // SAFETY: the caller's promise.
    unsafe { gtid.cast::<Gtid>().as_ref() }.copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(format_id: i64, gtrid_length: i64, bqual_length: i64) -> RawXid {
        let mut data = [0; 128];
        data[..4].copy_from_slice(b"g1b1");
        RawXid { format_id, gtrid_length, bqual_length, data }
    }

    fn read(raw: &RawXid) -> Option<ServerXid<'_>> {
        // SAFETY: a whole xid.
        unsafe { xid(std::ptr::from_ref(raw).cast()) }
    }

    #[test]
    fn an_xid_is_its_two_parts_or_nothing() {
        let one = raw(7, 2, 2);
        let seen = read(&one).expect("an xid");
        assert_eq!((seen.format_id, seen.gtrid, seen.bqual), (7, &b"g1"[..], &b"b1"[..]));
        assert_eq!(read(&raw(-1, 0, 0)), None);
        assert_eq!(read(&raw(1, 65, 0)), None);
        assert_eq!(read(&raw(1, 2, -1)), None);
        // SAFETY: NULL is allowed.
        assert_eq!(unsafe { xid(std::ptr::null()) }, None);
    }

    #[test]
    fn an_xid_the_server_makes_up_is_told_by_its_first_bytes() {
        let is_made_up = |format_id, gtrid_length, data: &[u8; 8]| {
            let mut raw = raw(format_id, gtrid_length, 0);
            raw.data[..8].copy_from_slice(data);
            // SAFETY: a whole xid.
            unsafe { is_made_up(std::ptr::from_ref(&raw).cast()) }
        };
        assert!(is_made_up(1, 24, b"MySQLXid") && is_made_up(-1, 0, b"MySQLXid"));
        assert!(!is_made_up(1, 24, b"MySQLXyd") && !is_made_up(2, 24, b"MySQLXid"));
        assert!(!is_made_up(1, 4, b"MySQLXid"), "these are not all its own");
        // SAFETY: NULL is allowed.
        assert!(unsafe { super::is_made_up(std::ptr::null()) });
    }
}
