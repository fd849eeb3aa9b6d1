//! Sample rows of events, and of their sums.

use tare_engine::Spelling;
use tare_engine::histogram::{Histogram, HistogramBucket};
use tare_engine::snapshot::*;

use super::{COUNTERS, Sample, digest, head, object, some, stat};
use crate::declarations::histogram::{OfDigest, OfInstrument};
use crate::declarations::log::{LogRow, Priority};

impl Sample for WaitRow {
    fn full() -> Self {
        WaitRow {
            head: head(true),
            object: object(true),
            object_instance_begin: 0x7f00,
            operation: "fetch",
            number_of_bytes: Some(3),
            flags: Some(1),
        }
    }
    fn bare() -> Self {
        WaitRow {
            head: head(false),
            object: object(false),
            number_of_bytes: None,
            flags: None,
            ..Self::full()
        }
    }
}

impl Sample for StageRow {
    fn full() -> Self {
        StageRow { head: head(true), progress: Some((1, 2)) }
    }
    fn bare() -> Self {
        StageRow { head: head(false), progress: None }
    }
}

impl Sample for StatementRow {
    fn full() -> Self {
        StatementRow {
            head: head(true),
            sql_text: some("SELECT 1"),
            sql_text_cut: false,
            digest: Some(digest().into()),
            current_schema: some("test"),
            object: object(true),
            mysql_errno: 1146,
            returned_sqlstate: some("42S02"),
            message_text: some("no such table"),
            counters: COUNTERS,
            nesting_level: 1,
            statement_id: 99,
        }
    }
    fn bare() -> Self {
        StatementRow {
            head: head(false),
            sql_text: None,
            sql_text_cut: false,
            digest: None,
            current_schema: None,
            object: object(false),
            mysql_errno: 0,
            returned_sqlstate: None,
            message_text: None,
            counters: StatementCounters::default(),
            nesting_level: 0,
            statement_id: 0,
        }
    }
}

impl Sample for TransactionRow {
    fn full() -> Self {
        TransactionRow {
            head: head(true),
            state: TransactionState::RolledBack,
            trx_id: Some(42),
            gtid: some("0-0-0"),
            xid_format_id: Some(1),
            xid_gtrid: some("g"),
            xid_bqual: some("b"),
            xa_state: Some("ACTIVE"),
            read_only: true,
            isolation_level: Some("REPEATABLE READ"),
            autocommit: true,
            savepoints: 1,
            rollback_to_savepoint: 2,
            release_savepoint: 3,
        }
    }
    fn bare() -> Self {
        TransactionRow {
            head: head(false),
            state: TransactionState::Active,
            trx_id: None,
            gtid: None,
            xid_format_id: None,
            xid_gtrid: None,
            xid_bqual: None,
            xa_state: None,
            read_only: false,
            isolation_level: None,
            autocommit: false,
            ..Self::full()
        }
    }
}

impl<S: Sample> Sample for Summary<S> {
    fn full() -> Self {
        let owner = Owner { thread_id: 7, user: some("root"), host: some("localhost") };
        Summary { owner, name: "idle", stat: S::full() }
    }
    fn bare() -> Self {
        Summary { owner: Owner::default(), name: "idle", stat: S::bare() }
    }
}

macro_rules! statistics {
    ($($stat:ty: $full:expr;)*) => {
        $(impl Sample for $stat {
            fn full() -> Self {
                $full
            }
            fn bare() -> Self {
                Self::default()
            }
        })*
    };
}

statistics! {
    Stat: stat(3);
    StatementStat: StatementStat { stat: stat(3), sum: COUNTERS };
    TransactionStat: TransactionStat { read_write: stat(2), read_only: stat(1) };
    MemoryStat: MemoryStat {
        count_alloc: 9, count_free: 4, bytes_alloc: 900, bytes_free: 400,
        low_count: -1, current_count: 5, high_count: 6,
        low_bytes: -100, current_bytes: 500, high_bytes: 600,
    };
    ErrorStat: ErrorStat {
        error: Some(KnownError { number: 1062, name: "ER_DUP_ENTRY", sqlstate: "23000" }),
        raised: 5, handled: 2, seen_us: Some((1_700_000_000_000_000, 1_700_000_001_000_000)),
    };
}

impl Sample for LogRow {
    fn full() -> Self {
        LogRow {
            logged_us: 1_700_000_000_000_000,
            thread_id: Some(7),
            prio: Priority::Warning,
            error_code: "MY-001062".to_owned(),
            subsystem: "InnoDB",
            data: "InnoDB: text".to_owned(),
        }
    }
    fn bare() -> Self {
        LogRow { thread_id: None, data: String::new(), ..Self::full() }
    }
}

impl Sample for DigestRow {
    fn full() -> Self {
        DigestRow {
            schema: some("test"),
            digest: Some(Spelling::known(&digest().digest, &digest().text)),
            stat: StatementStat::full(),
            first_seen_us: 1_700_000_000_000_000,
            last_seen_us: 1_700_000_001_000_000,
            histogram: Histogram::new([(0, 95), (2, 4), (449, 1)]),
            sample: Some(StatementSample {
                text: some("SELECT 1"),
                seen_us: 1_700_000_000_500_000,
                wait_ps: 30,
            }),
        }
    }
    fn bare() -> Self {
        DigestRow {
            schema: None,
            digest: None,
            histogram: Histogram::default(),
            sample: None,
            ..Self::full()
        }
    }
}

impl Sample for HistogramBucket {
    fn full() -> Self {
        DigestRow::full().histogram.filled().last().expect("it holds something")
    }
    fn bare() -> Self {
        DigestRow::bare().histogram.all().next().expect("a bucket")
    }
}

impl Sample for OfDigest {
    fn full() -> Self {
        OfDigest { schema: Some("test".into()), digest: Some("0123".into()), bucket: HistogramBucket::full() }
    }
    fn bare() -> Self {
        OfDigest { schema: None, digest: None, bucket: HistogramBucket::bare() }
    }
}

impl Sample for OfInstrument {
    fn full() -> Self {
        OfInstrument { name: "wait/io/file/sql/FRM", bucket: HistogramBucket::full() }
    }
    fn bare() -> Self {
        OfInstrument { name: "idle", bucket: HistogramBucket::bare() }
    }
}
