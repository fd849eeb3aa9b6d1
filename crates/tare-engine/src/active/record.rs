//! A record of the active session history, and its layout in twelve words.
//!
//! | word | holds |
//! |---|---|
//! | 0 | time of the sample, in microseconds since the Unix epoch |
//! | 1 | time the row stands for, in microseconds (26 bits); THREAD_ID |
//! | 2 | PROCESSLIST_ID of the blocking thread, of the thread |
//! | 3 | EVENT_ID of the statement |
//! | 4 | names of schema and account |
//! | 5 | names of object and digest |
//! | 6 | thread's class, wait, stage, operation and wait class, state |
//! | 7, 8, 9 | ages of statement, wait and transaction, in microseconds, plus one; 0: unknown |
//! | 10 | THREAD_ID of the blocking thread |
//! | 11 | TRX_ID |

use crate::snapshot::{ClassId, SessionState, WaitClass};

/// The words of a record.
pub(super) const WORDS: usize = 12;
/// The bits of the time a row stands for: 67 seconds.
const ROW_BITS: u32 = 26;
const ROW_MOST: u64 = (1 << ROW_BITS) - 1;

/// The wait of a thread that waits for a lock of a storage engine's.
pub(super) const WAIT_ROW_LOCK: ClassId = ClassId::MAX;
/// The operation of a wait that has none.
pub(super) const NO_OPERATION: u8 = 0xFF;

/// One sample of one thread. Numbers are 0 where unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) time_us: u64,
    pub(super) row_us: u64,
    pub(super) thread_id: u64,
    pub(super) processlist_id: u32,
    pub(super) blocking_processlist_id: u32,
    pub(super) event_id: u64,
    /// Names, see [`super::names`].
    pub(super) account: u32,
    pub(super) schema: u32,
    pub(super) digest: u32,
    pub(super) object: u32,
    /// Class of the thread.
    pub(super) thread: ClassId,
    pub(super) stage: ClassId,
    /// Instrument of the wait, or [`WAIT_ROW_LOCK`].
    pub(super) wait: ClassId,
    pub(super) operation: u8,
    pub(super) class: WaitClass,
    pub(super) state: SessionState,
    pub(super) statement_us: Option<u64>,
    pub(super) wait_us: Option<u64>,
    pub(super) trx_us: Option<u64>,
    pub(super) blocking_thread_id: u64,
    pub(super) trx_id: u64,
}

impl Record {
    /// Returns the record's words.
    pub(super) fn pack(&self) -> [u64; WORDS] {
        let age = |age: Option<u64>| age.map_or(0, |age| age.saturating_add(1));
        let two = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        let facts = u64::from(self.operation) << 8 | (self.class as u64) << 4 | self.state as u64;
        let classes = u64::from(self.thread) << 48 | u64::from(self.wait) << 32 | u64::from(self.stage) << 16;
        [
            self.time_us,
            self.row_us.min(ROW_MOST) | self.thread_id << ROW_BITS,
            two(self.blocking_processlist_id, self.processlist_id),
            self.event_id,
            two(self.schema, self.account),
            two(self.object, self.digest),
            classes | facts,
            age(self.statement_us),
            age(self.wait_us),
            age(self.trx_us),
            self.blocking_thread_id,
            self.trx_id,
        ]
    }

    /// Returns the record in these words. `None`: they are none.
    pub(super) fn unpack(words: &[u64; WORDS]) -> Option<Record> {
        let [time_us, thread, connections, event_id, names, further, facts, ages @ ..] = words;
        let [statement, wait, trx, blocking_thread_id, trx_id] = ages;
        Some(Record {
            time_us: *time_us,
            row_us: thread & ROW_MOST,
            thread_id: thread_of(words),
            processlist_id: *connections as u32,
            blocking_processlist_id: (connections >> 32) as u32,
            event_id: *event_id,
            account: *names as u32,
            schema: (names >> 32) as u32,
            digest: *further as u32,
            object: (further >> 32) as u32,
            thread: (facts >> 48) as ClassId,
            wait: (facts >> 32) as ClassId,
            stage: (facts >> 16) as ClassId,
            operation: (facts >> 8) as u8,
            class: *WaitClass::ALL.get((facts >> 4 & 0xF) as usize)?,
            state: *SessionState::ALL.get((facts & 0xF) as usize)?,
            statement_us: statement.checked_sub(1),
            wait_us: wait.checked_sub(1),
            trx_us: trx.checked_sub(1),
            blocking_thread_id: *blocking_thread_id,
            trx_id: *trx_id,
        })
    }
}

/// Returns THREAD_ID of a record.
pub(super) const fn thread_of(words: &[u64; WORDS]) -> u64 {
    words[1] >> ROW_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            time_us: 1_790_000_000_000_000,
            row_us: 60_000_000,
            thread_id: (1 << 38) - 1,
            processlist_id: u32::MAX,
            blocking_processlist_id: u32::MAX - 1,
            event_id: u64::MAX,
            account: 1,
            schema: u32::MAX,
            digest: u32::MAX - 2,
            object: 2,
            thread: 2047,
            stage: 2046,
            wait: WAIT_ROW_LOCK,
            operation: NO_OPERATION,
            class: WaitClass::Other,
            state: SessionState::Waiting,
            statement_us: Some(0),
            wait_us: None,
            trx_us: Some(1 << 50),
            blocking_thread_id: 7,
            trx_id: u64::MAX - 1,
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        assert_eq!(Record::unpack(&record().pack()), Some(record()));
        for (class, state) in
            WaitClass::ALL.into_iter().flat_map(|it| SessionState::ALL.map(|state| (it, state)))
        {
            let record = Record { class, state, ..record() };
            assert_eq!(Record::unpack(&record.pack()), Some(record));
        }
        for (place, class) in WaitClass::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, place);
        }
    }

    #[test]
    fn too_long_an_interval_harms_no_neighbour() {
        let long = Record { row_us: u64::MAX, ..record() };
        assert_eq!(Record::unpack(&long.pack()), Some(Record { row_us: ROW_MOST, ..record() }));
    }

    #[test]
    fn words_that_are_no_record_are_none() {
        let mut words = record().pack();
        words[6] |= 0xF;
        assert_eq!(Record::unpack(&words), None);
    }
}
