//! Layouts of what the server and the built-in pass for statements, stages and transactions.
//!
//! The server's own code, or parts of the built-in within it, write counters into the lockers of statements
//! and transactions at any time. So these stay where they are, and are read when the event ends.

use std::ffi::{c_char, c_void};
use std::mem::offset_of;
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::atomic::AtomicU64;

use super::Class;

/// Flag of an instrument: its stages report progress.
pub const PROGRESS: u32 = 8;

/// Flag of a statement's locker for the server: the text is wanted.
pub const COLLECT_TEXT: u32 = 4;
/// Flag of a statement's locker for the server: the digest is wanted.
pub const COLLECT_DIGEST: u32 = 8;

/// Flag of a transaction's locker: what is told of it is written into its record.
pub const EVENT: u32 = 4;

/// Where a size lies that is set aside within the name of the schema.
const ASIDE: usize = 192 - size_of::<usize>();

/// The locker of a statement (`PSI_statement_locker_state_v5`).
#[repr(C)]
#[derive(Debug)]
pub struct StatementLocker {
    /// Whether the prepared statement in `prepared` is being prepared.
    pub(crate) in_prepare: u8,
    pub(crate) is_secondary: u8,
    pub(crate) no_index_used: u8,
    pub(crate) no_good_index_used: u8,
    /// What the server is to tell: [`COLLECT_TEXT`] and [`COLLECT_DIGEST`].
    pub(crate) collect: u32,
    /// The built-in's flags; while they are 0, what it has inlined elsewhere writes only here.
    pub(crate) flags: u32,
    pub(crate) telemetry_flags: u32,
    pub(crate) class: *const Class,
    pub(crate) thread: *mut c_void,
    /// In the place of the built-in's clocks: see [`crate::server::thread::ServerThread::begin_memory`].
    pub(crate) controlled_before: [u64; 2],
    /// In the place of the built-in's sizes of memory: the statement here; null: it is not counted here. The
    /// built-in, which counts for a telemetry session, writes a size there at the start of a statement within
    /// a stored program.
    pub(crate) place: *mut c_void,
    /// The slab of its thread.
    pub(crate) slab: *mut c_void,
    /// See `controlled_before`.
    pub(crate) total_before: [u64; 2],
    pub(crate) event: *mut c_void,
    /// In microseconds.
    pub(crate) lock_time: u64,
    pub(crate) rows_sent: u64,
    pub(crate) rows_examined: u64,
    /// The counters from CREATED_TMP_DISK_TABLES to SORT_SCAN, in the order of the columns.
    pub(crate) counters: [u64; 11],
    pub(crate) digest: *const DigestStorage,
    schema: [u8; 192],
    pub(crate) schema_length: u32,
    /// The number of the client's character set.
    pub(crate) charset: u32,
    pub(crate) text: *const c_char,
    pub(crate) text_length: u32,
    pub(crate) is_text_cut: u8,
    /// The stored program to which it belongs, or null.
    pub(crate) program: *const Program,
    /// The prepared statement that is executed or prepared, or null.
    pub(crate) prepared: *const u8,
    pub(crate) telemetry_scope: u64,
    telemetry: [*mut c_void; 2],
    pub(crate) telemetry_session: *mut c_void,
}

impl StatementLocker {
    /// Moves the size that the built-in has written over `place` to the end of the name of the schema, unless
    /// that is full. For a statement that the built-in counts.
    #[cold]
    pub(crate) fn set_size_aside(&mut self) {
        if self.has_room_in_schema() {
            self.schema[ASIDE..].copy_from_slice(&self.place.addr().to_ne_bytes());
        }
        self.place = null_mut();
    }

    /// Undoes [`StatementLocker::set_size_aside`] before the built-in ends the statement. Of one that it does
    /// not count the built-in does not read the size.
    #[cold]
    pub(crate) fn put_size_back(&mut self) {
        if self.flags != 0 && self.has_room_in_schema() {
            let mut size = [0; size_of::<usize>()];
            size.copy_from_slice(&self.schema[ASIDE..]);
            self.place = without_provenance_mut(usize::from_ne_bytes(size));
        }
    }

    fn has_room_in_schema(&self) -> bool {
        self.schema_length as usize <= ASIDE
    }

    /// Returns whether one of the counters is not 0.
    #[inline(always)]
    pub(crate) fn has_counters(&self) -> bool {
        self.counters.iter().fold(0, |all, value| all | value) != 0
    }
}

/// The tokens of a statement (`sql_digest_storage`).
#[repr(C)]
#[derive(Debug)]
pub struct DigestStorage {
    /// Whether there were more tokens than fit.
    pub(crate) is_full: bool,
    /// The length of the tokens in bytes.
    pub(crate) length: usize,
    pub(crate) hash: [u8; 32],
    /// The number of the identifiers' character set.
    pub(crate) charset: u32,
    pub(crate) tokens: *mut u8,
    pub(crate) capacity: usize,
}

/// A text of the server's (`String`).
#[repr(C)]
#[derive(Debug)]
pub struct ServerText {
    pub(crate) start: *mut u8,
    pub(crate) length: usize,
    pub(crate) charset: *const c_void,
    pub(crate) capacity: u32,
    /// Whether whoever has it frees its bytes.
    pub(crate) is_owned: bool,
}

/// The built-in's sums of statements (`PFS_statement_stat`), in the order of the columns of
/// `events_statements_summary_by_program`, except that averages are not kept.
pub type StatementSums = [AtomicU64; 27];
/// Where a stored program has its sums of statements.
pub const PROGRAM_SUMS: usize = offset_of!(Program, sums);
/// Where a prepared statement has OWNER_EVENT_ID.
pub const PREPARED_OWNER: usize = 0x4F0;
/// Where a prepared statement has the sums of its preparations, of which there are the first four; those of
/// its later preparations follow.
pub const PREPARE_SUMS: usize = 0x690;
/// Where it has the sums of its executions.
pub const EXECUTE_SUMS: usize = 0x6D8;

/// A stored program (`PFS_program`).
#[repr(C)]
#[derive(Debug)]
pub struct Program {
    before: [u8; 0x10],
    /// OBJECT_TYPE: a number of [`tare_engine::objects`].
    pub(crate) object_type: u8,
    pub(crate) schema: ObjectName,
    pub(crate) name: ObjectName,
    sums: StatementSums,
}

/// The name of an object.
#[repr(C)]
#[derive(Debug)]
pub struct ObjectName {
    bytes: [u8; 192],
    length: usize,
}

impl ObjectName {
    /// Returns the name; empty if its length is not possible.
    pub(crate) fn get(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

/// How a statement ended (`Diagnostics_area`), as far as it is read.
#[repr(C)]
#[derive(Debug)]
pub struct Diagnostics {
    before: [u8; 0x8C],
    /// One of [`outcome`].
    pub(crate) status: u32,
    pub(crate) message: [u8; 0x200],
    pub(crate) message_length: u32,
    /// RETURNED_SQLSTATE.
    pub(crate) sqlstate: [u8; 5],
    end: u8,
    pub(crate) errno: u32,
    pub(crate) rows_affected: u64,
    insert_id: u64,
    pub(crate) warnings: u32,
}

/// The ways in which a statement ended.
pub mod outcome {
    /// It changed data, or did anything else without rows.
    pub const OK: u32 = 1;
    /// Its rows were sent.
    pub const EOF: u32 = 2;
    /// It failed.
    pub const ERROR: u32 = 3;
}

/// The locker of a transaction (`PSI_transaction_locker_state_v1`).
#[repr(C)]
#[derive(Debug)]
pub struct TransactionLocker {
    /// The built-in's flags; while they are 0, what it has inlined elsewhere writes only here. See [`EVENT`].
    pub(crate) flags: u32,
    padding: u32,
    /// In the place of the built-in's instrument: the state of the transaction here.
    pub(crate) state: u32,
    rest_of_class: u32,
    /// In the place of the built-in's thread: the slab; null: it is not counted here.
    pub(crate) slab: *mut c_void,
    pub(crate) start: u64,
    timer: u64,
    /// The built-in's record of the transaction, if it is to be written into.
    pub(crate) event: *mut c_void,
    is_read_only: bool,
    is_autocommit: bool,
    statement: u64,
    /// Savepoints set, rolled back to, and released.
    pub(crate) savepoints: [u64; 3],
}

/// The identifier of a distributed transaction (`xid_t`).
#[repr(C)]
#[derive(Debug)]
pub struct TransactionXid {
    /// XID_FORMAT_ID; -1: none.
    pub(crate) format: i64,
    pub(crate) gtrid_length: i64,
    pub(crate) bqual_length: i64,
    pub(crate) data: [u8; 128],
}

/// A fraction on its way to a column (`PSI_double`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Fraction {
    pub(crate) value: f64,
    pub(crate) is_null: bool,
}

const _: () = {
    assert!(offset_of!(StatementLocker, place) == 0x30 && offset_of!(StatementLocker, event) == 0x50);
    assert!(offset_of!(StatementLocker, counters) == 0x70 && offset_of!(StatementLocker, digest) == 0xC8);
    assert!(offset_of!(StatementLocker, schema) == 0xD0 && offset_of!(StatementLocker, charset) == 0x194);
    assert!(offset_of!(StatementLocker, is_text_cut) == 0x1A4);
    assert!(offset_of!(StatementLocker, program) == 0x1A8 && offset_of!(StatementLocker, prepared) == 0x1B0);
    assert!(offset_of!(StatementLocker, telemetry_session) == 0x1D0);
    assert!(offset_of!(Program, schema) == 0x18 && offset_of!(Program, name) == 0xE0);
    assert!(PROGRAM_SUMS == 0x1A8);
    assert!(offset_of!(DigestStorage, hash) == 0x10 && offset_of!(DigestStorage, tokens) == 0x38);
    assert!(offset_of!(DigestStorage, capacity) == 0x40 && size_of::<DigestStorage>() == 0x48);
    assert!(offset_of!(Diagnostics, message) == 0x90 && offset_of!(Diagnostics, message_length) == 0x290);
    assert!(offset_of!(Diagnostics, sqlstate) == 0x294 && offset_of!(Diagnostics, errno) == 0x29C);
    assert!(offset_of!(Diagnostics, rows_affected) == 0x2A0 && offset_of!(Diagnostics, warnings) == 0x2B0);
    assert!(offset_of!(TransactionLocker, state) == 8);
    assert!(offset_of!(TransactionLocker, slab) == 0x10 && offset_of!(TransactionLocker, start) == 0x18);
    assert!(offset_of!(TransactionLocker, event) == 0x28);
    assert!(offset_of!(TransactionLocker, is_read_only) == 0x30);
    assert!(offset_of!(TransactionLocker, savepoints) == 0x40);
    assert!(size_of::<TransactionXid>() == 0x98);
    assert!(offset_of!(ServerText, is_owned) == 0x1C);
};

#[cfg(test)]
mod tests {
    use std::ptr::null;

    use super::*;

    /// A statement that the built-in counts, with a size in `place`.
    fn of_built_in(schema_length: u32, flags: u32) -> StatementLocker {
        StatementLocker {
            in_prepare: 0,
            is_secondary: 0,
            no_index_used: 0,
            no_good_index_used: 0,
            collect: 0,
            flags,
            telemetry_flags: 0,
            class: null(),
            thread: null_mut(),
            controlled_before: [0; 2],
            place: without_provenance_mut(4711),
            slab: null_mut(),
            total_before: [0; 2],
            event: null_mut(),
            lock_time: 0,
            rows_sent: 0,
            rows_examined: 0,
            counters: [0; 11],
            digest: null(),
            schema: [b's'; 192],
            schema_length,
            charset: 0,
            text: null(),
            text_length: 0,
            is_text_cut: 0,
            program: null(),
            prepared: null(),
            telemetry_scope: 0,
            telemetry: [null_mut(); 2],
            telemetry_session: null_mut(),
        }
    }

    #[test]
    fn a_size_of_the_built_ins_is_not_taken_for_a_statement_and_comes_back() {
        for (schema_length, flags, back) in [(0, 1, 4711), (184, 1, 4711), (185, 1, 0), (0, 0, 0)] {
            let mut it = of_built_in(schema_length, flags);
            it.set_size_aside();
            assert!(it.place.is_null());
            assert!(it.schema[..schema_length as usize].iter().all(|byte| *byte == b's'), "the name stays");
            it.put_size_back();
            assert_eq!(it.place.addr(), back, "{schema_length} {flags}");
        }
    }
}
