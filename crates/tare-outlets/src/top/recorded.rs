//! Recorded samples of a server under load, for tests.

use std::time::Duration;

use super::look::*;

pub(super) const SECOND: u64 = 1_000_000_000_000;

/// Rows of a tally: key, counters by name, gauges by name.
type RecordedRow<'a> = (&'a [Option<&'a str>], &'a [(&'a str, u64)], &'a [(&'a str, i64)]);

pub(super) fn counted(tally: &Tally, rows: &[RecordedRow<'_>]) -> Vec<Counted> {
    let row = |(key, counters, gauges): &RecordedRow<'_>| {
        let of = |name: &&str| counters.iter().find(|(it, _)| it == name).map_or(0, |(_, value)| *value);
        let gauge = |name: &&str| gauges.iter().find(|(it, _)| it == name).map(|(_, value)| *value);
        Counted {
            key: key.iter().map(|part| part.map(str::to_owned)).collect(),
            counters: tally.counters.iter().map(of).collect(),
            gauges: tally.gauges.iter().map(gauge).collect(),
        }
    };
    rows.iter().map(row).collect()
}

pub(super) fn look(seconds: u64, view: View, about: Option<About>, content: Content) -> Look {
    Look {
        ask: Ask { view, about },
        moment: Duration::from_secs(seconds),
        head: Head {
            place: "db1:3306".into(),
            server: "MariaDB 10.11.19, tare 0.1.0".into(),
            uptime: Some(Duration::from_secs(273_600 + seconds)),
            connections: Some(12),
            active: Some(4),
            queries: Some(seconds * 480),
            ..Head::default()
        },
        content,
        history: None,
        now: None,
        texts: vec![],
        untimed: vec![],
        notes: vec![],
    }
}

pub(super) const POINT: &str = "2b8e4a1d6f0c93755e7a41b2c8d90f13";
const TEXTS: [(&str, &str); 3] = [
    (POINT, "SELECT `c` FROM `sbtest1` WHERE ID = ?"),
    ("91c0ffee00", "SELECT DISTINCTROW `c` FROM `sbtest2` WHERE ID BETWEEN ? AND ? ORDER BY `c`"),
    (
        "c4d5",
        "UPDATE `größen` SET `k` = `k` + ? WHERE `name` = ? AND `änderung` < NOW ( ) AND `status` IN (...)",
    ),
];

/// Returns statements at the second `at` of a load: 400 point selects per second, 40 of the others.
pub(super) fn statements(at: u64, with_quantiles: bool) -> Look {
    let row = |digest, count: u64, time: u64, sent: u64, examined: u64, disk: u64| {
        let counters = vec![
            ("COUNT_STAR", count),
            ("SUM_TIMER_WAIT", time),
            ("SUM_LOCK_TIME", time / 20),
            ("SUM_ERRORS", count / 100),
            ("SUM_ROWS_SENT", sent),
            ("SUM_ROWS_EXAMINED", examined),
            ("SUM_CREATED_TMP_DISK_TABLES", disk),
            ("SUM_NO_INDEX_USED", disk),
        ];
        (digest, counters)
    };
    let rows = [
        row(POINT, 400 * at, 400 * at * 62_500_000, 400 * at, 400 * at, 0),
        row("91c0ffee00", 40 * at, 40 * at * 281_000_000, 4000 * at, 12_000 * at, 40 * at),
        row("c4d5", 40 * at, 40 * at * 3_120_000_000, 0, 40 * at, 0),
    ];
    let gauges: &[(&str, i64)] = if with_quantiles {
        &[("MAX_TIMER_WAIT", 70_200_000_000), ("QUANTILE_95", 95_500_000)]
    } else {
        &[("MAX_TIMER_WAIT", 70_200_000_000)]
    };
    let keys: Vec<[Option<&str>; 2]> =
        rows.iter().map(|(digest, _)| [Some("sbtest"), Some(*digest)]).collect();
    let figures: Vec<RecordedRow<'_>> =
        keys.iter().zip(&rows).map(|(key, (_, counters))| (&key[..], &counters[..], gauges)).collect();
    let mut look = look(at, View::Statements, None, Content::Counted(counted(&DIGESTS, &figures)));
    look.texts = TEXTS
        .iter()
        .map(|(digest, text)| (vec![Some("sbtest".into()), Some((*digest).into())], (*text).to_owned()))
        .collect();
    look
}

/// Returns waits after `at` seconds; those for files grow quadratically.
pub(super) fn waits(at: u64) -> Look {
    let rows = [
        ("wait/io/file/innodb/innodb_log_file", 90 * at, at * at * SECOND / 20),
        ("wait/io/table/sql/handler", 60_000 * at, at * SECOND / 3),
        ("wait/synch/mutex/sql/THD::LOCK_thd_data", 90_000 * at, at * SECOND / 500),
        ("wait/lock/metadata/sql/mdl", at / 10, at * SECOND / 10_000),
        ("idle", 1000 * at, at * 3 * SECOND),
    ];
    let keys: Vec<[Option<&str>; 1]> = rows.iter().map(|(name, ..)| [Some(*name)]).collect();
    let counters: Vec<[(&str, u64); 2]> =
        rows.iter().map(|(_, count, time)| [("COUNT_STAR", *count), ("SUM_TIMER_WAIT", *time)]).collect();
    let gauges: &[(&str, i64)] = &[("MAX_TIMER_WAIT", 15_900_000_000)];
    let figures: Vec<RecordedRow<'_>> =
        keys.iter().zip(&counters).map(|(key, counters)| (&key[..], &counters[..], gauges)).collect();
    look(at, View::Waits, None, Content::Counted(counted(&WAITS, &figures)))
}

pub(super) fn tables(at: u64) -> Look {
    let counters = [("COUNT_STAR", 5000 * at), ("COUNT_FETCH", 4900 * at), ("COUNT_UPDATE", 100 * at)];
    let figures: [RecordedRow<'_>; 2] =
        [(&[Some("sbtest"), Some("sbtest1")], &counters, &[]), (&[Some("sbtest"), Some("quiet")], &[], &[])];
    look(at, View::Tables, None, Content::Counted(counted(&TABLES, &figures)))
}

pub(super) fn files(at: u64) -> Look {
    let counters = [
        ("COUNT_STAR", 30 * at),
        ("SUM_TIMER_WAIT", at * SECOND / 50),
        ("COUNT_WRITE", 20 * at),
        ("SUM_NUMBER_OF_BYTES_WRITE", 20_480 * at),
        ("COUNT_MISC", 10 * at),
        ("SUM_TIMER_MISC", at * SECOND / 100),
    ];
    let key = [
        Some("/var/lib/mysql/a_schema_with_a_long_name/a_table_with_a_longer_name_than_fits_in_eighty.ibd"),
        Some("wait/io/file/innodb/innodb_data_file"),
    ];
    look(at, View::Files, None, Content::Counted(counted(&FILES, &[(&key, &counters, &[])])))
}

pub(super) fn memory(at: u64) -> Look {
    let grows = [("COUNT_ALLOC", 10 * at), ("SUM_NUMBER_OF_BYTES_ALLOC", 10_240 * at)];
    let shrinks = [("COUNT_FREE", 5 * at), ("SUM_NUMBER_OF_BYTES_FREE", 5120 * at)];
    let figures: [RecordedRow<'_>; 2] = [
        (
            &[Some("memory/innodb/buf_buf_pool")],
            &grows,
            &[("CURRENT_NUMBER_OF_BYTES_USED", 268_435_456), ("HIGH_NUMBER_OF_BYTES_USED", 268_435_456)],
        ),
        (
            &[Some("memory/sql/TABLE")],
            &shrinks,
            &[("CURRENT_NUMBER_OF_BYTES_USED", -512), ("HIGH_NUMBER_OF_BYTES_USED", 367_616)],
        ),
    ];
    look(at, View::Memory, None, Content::Counted(counted(&MEMORY, &figures)))
}

pub(super) fn thread(id: u64, command: &str, statement: &str) -> Thread {
    Thread {
        id,
        name: "thread/sql/one_connection".into(),
        connection: Some(id - 20),
        account: Some("app@localhost".into()),
        schema: Some("shop".into()),
        command: Some(command.into()),
        seconds: Some(35),
        state: Some("Waiting for table metadata lock".into()),
        statement: Some(statement.into()),
        ..Thread::default()
    }
}

pub(super) fn threads() -> Look {
    let mut busy = thread(45, "Query", "ALTER TABLE\n  orders ADD COLUMN note TEXT");
    busy.statement_time = Some(35 * SECOND);
    busy.wait = Some("wait/lock/metadata/sql/mdl".into());
    let background = Thread { id: 3, name: "thread/innodb/page_cleaner_thread".into(), ..Thread::default() };
    let all = vec![background, thread(44, "Sleep", "SELECT 1"), busy];
    look(1, View::Threads, None, Content::Threads(all))
}

/// Returns a sleeping transaction with a lock on a table, an ALTER that waits for it, and two SELECTs that
/// wait for the ALTER.
pub(super) fn locks() -> Look {
    let wait = |waiting, holding, wanted: &str, held: &str| Wait {
        waiting,
        holding: Holder::Thread(holding),
        object: "table shop.orders".into(),
        wanted: wanted.into(),
        held: held.into(),
    };
    let locks = Locks {
        waits: vec![
            wait(45, 44, "EXCLUSIVE", "SHARED_WRITE"),
            wait(46, 45, "SHARED_READ", "EXCLUSIVE, waiting"),
            wait(47, 45, "SHARED_READ", "EXCLUSIVE, waiting"),
            wait(48, 49, "X", "X"),
            wait(49, 48, "X", "X"),
        ],
        threads: vec![
            thread(44, "Sleep", "UPDATE orders SET note = NULL WHERE id = 7"),
            thread(45, "Query", "ALTER TABLE orders ADD COLUMN note TEXT"),
            thread(46, "Query", "SELECT * FROM orders"),
        ],
        partial: false,
    };
    look(1, View::Locks, None, Content::Locks(locks))
}

/// Returns two holders with those that wait for them, as a picture for people: the queue behind a waiting
/// ALTER, and an UPDATE behind a batch's row lock.
pub(super) fn lock_tree(at: u64) -> Look {
    let wait = |waiting, holding, object: &str, wanted: &str, held: &str| Wait {
        waiting,
        holding: Holder::Thread(holding),
        object: object.into(),
        wanted: wanted.into(),
        held: held.into(),
    };
    let of = |id, account: &str, command: &str, seconds, statement: &str| Thread {
        account: Some(account.into()),
        seconds: Some(seconds),
        ..thread(id, command, statement)
    };
    let locks = Locks {
        waits: vec![
            wait(45, 44, "table shop.orders", "EXCLUSIVE", "SHARED_WRITE"),
            wait(46, 45, "table shop.orders", "SHARED_READ", "EXCLUSIVE, waiting"),
            wait(47, 45, "table shop.orders", "SHARED_WRITE", "EXCLUSIVE, waiting"),
            wait(62, 61, "shop.stock PRIMARY (52)", "X", "X"),
        ],
        threads: vec![
            of(44, "app@10.0.0.5", "Sleep", 512, "UPDATE orders SET note = NULL WHERE id = 7"),
            of(45, "deploy@10.0.0.9", "Query", 35, "ALTER TABLE orders ADD COLUMN gift INT"),
            of(46, "app@10.0.0.5", "Query", 31, "SELECT * FROM orders WHERE id = 12"),
            of(47, "app@10.0.0.6", "Query", 29, "INSERT INTO orders VALUES (8, 3)"),
            of(61, "batch@10.0.0.7", "Query", 14, "UPDATE stock SET reserved = 0"),
            of(62, "app@10.0.0.6", "Query", 9, "UPDATE stock SET reserved = 1"),
        ],
        partial: false,
    };
    look(at, View::Locks, None, Content::Locks(locks))
}

pub(super) fn digest_detail(at: u64) -> Look {
    let list = statements(at, true);
    let row = list.content.counted()[..1].to_vec();
    let sample = |time| Sample {
        thread: 45,
        events: (100, 160),
        text: Some("SELECT c FROM sbtest1 WHERE id=5011".into()),
        time,
        sent: 1,
        examined: 1,
        ..Sample::default()
    };
    let stages = [("stage/sql/Sending data", 40), ("stage/sql/Opening tables", 12), ("stage/sql/Init", 10)];
    let named = |(name, time): (&str, u64)| (name.to_owned(), time * 1_000_000);
    let digest = Digest {
        text: Some("SELECT `c` FROM `sbtest1` WHERE ID = ?".into()),
        samples: vec![sample(61_000_000), sample(64_000_000)],
        stages: stages.map(named).to_vec(),
        waits: [("wait/io/table/sql/handler", 30), ("wait/io/socket/sql/client_connection", 9)]
            .map(named)
            .to_vec(),
        buckets: vec![(50_000_000, 100 * at), (95_500_000, 290 * at), (1_000_000_000, 10 * at)],
    };
    let about = About::Digest { schema: Some("sbtest".into()), digest: POINT.into() };
    look(at, View::Statements, Some(about), Content::Digest(row, Box::new(digest)))
}
