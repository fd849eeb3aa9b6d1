//! Far more digests than there is room for, from several threads at once: every statement is counted in its
//! own row or in the one without a digest.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use tare_engine::snapshot::*;
use tare_engine::{Config, Counter, Spelling};

use crate::rows::*;
use tare_rig::*;

const WRITERS: u64 = 4;
const DIGESTS: u64 = 3000;

/// A statement that is a digest of its own and says so in a counter, too.
fn query(rig: Rig, n: u64) {
    let sql = format!("select {}", "x".repeat(n as usize % 60) + &"yz".repeat(n as usize / 60));
    let statement = rig.begin(rig.class.statement, &sql).expect("a level");
    rig.add_statement_counter(statement, Counter::RowsSent, number(sql.as_bytes()));
    rig.finish(statement, &sql);
}

/// What a digest's statements send.
fn number(text: &[u8]) -> u64 {
    text.iter().fold(7, |sum, byte| (sum * 31 + u64::from(*byte)) % 1_000_003)
}

/// Each row counts what its digest's statements did and nothing else; returns how many there were.
fn check_rows(rows: &[DigestRow], size: usize) -> u64 {
    assert!(rows.iter().filter(|row| row.digest.is_some()).count() <= size);
    for row in rows {
        if let Some(digest) = &row.digest {
            let wanted = row.stat.stat.count * number(digest.text().expect("a text").as_bytes());
            assert_eq!(row.stat.sum.rows_sent, wanted, "{row:?}");
        }
    }
    check_samples(rows);
    rows.iter().map(|row| row.stat.stat.count).sum()
}

/// Each row's sample is whole, and one of its digest's statements: also while they are added to.
fn check_samples(rows: &[DigestRow]) {
    for row in rows {
        if let (Some(digest), Some(sample)) = (&row.digest, &row.sample) {
            assert_eq!(sample.text.as_deref(), digest.text(), "another digest's");
        }
    }
}

/// Lets writers loose until each has issued `statements`, while `other` goes on.
fn load(rig: Rig, seed: u64, statements: u64, other: impl Fn() + Sync) {
    let left = AtomicU64::new(WRITERS);
    let failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (left, failed, other) = (&left, &failed, &other);
        for writer in 0..WRITERS {
            scope.spawn(move || {
                let mut random = RowRandom::new(seed * 10 + writer);
                let mut thread = rig.connect();
                for at in 0..statements {
                    // Some are seen all the time.
                    let n = if random.below(3) == 0 { random.below(8) } else { random.below(DIGESTS) };
                    query(rig, n);
                    if at % 700 == 699 {
                        rig.delete_thread(thread);
                        thread = rig.connect();
                    }
                }
                rig.set_current_thread(None);
                left.fetch_sub(1, Relaxed);
            });
        }
        scope.spawn(move || {
            while left.load(Relaxed) > 0 && !failed.load(Relaxed) {
                other();
            }
        });
    });
}

#[test]
fn each_row_counts_its_own_digest_whoever_evicts_it_meanwhile() {
    for size in [1, 10, 200] {
        let rig = Rig::with(Config { digests_size: 1 + size as u32, extended: size != 200, ..small() });
        let mut issued = 0;
        for round in 0..6 {
            load(rig, round, 1500, || {
                let rows = rig.digests();
                check_samples(&rows);
                let texts = rows.iter().map(|row| row.digest.as_ref().map(Spelling::text));
                assert_eq!(texts.collect::<HashSet<_>>().len(), rows.len(), "a row each");
            });
            issued += WRITERS * 1500;
            assert_eq!(check_rows(&rig.digests(), size), issued, "{size}, round {round}");
        }
        println!("{size}: {} evicted, {} lost", rig.evicted_digests(), rig.losses());
        assert!(rig.evicted_digests() > 1000);
    }
}

/// Rows of which no histogram is asked for: what is known of a place is not read again.
fn rows_without_histograms(rig: Rig) -> Vec<DigestRow> {
    rig.digests_of(DigestRow::DIGEST.and(DigestRow::DIGEST_TEXT).and(DigestRow::COUNTERS))
}

#[test]
fn what_is_known_of_a_place_is_what_it_counts() {
    for size in [10, 200, 2000] {
        let rig = Rig::with(Config { digests_size: 1 + size as u32, extended: true, ..small() });
        let mut issued = 0;
        for round in 0..6 {
            // Whoever reads meanwhile keeps what it reads.
            load(rig, 200 + round, 1500, || drop(rows_without_histograms(rig)));
            issued += WRITERS * 1500;
            for _ in 0..2 {
                let rows = rows_without_histograms(rig);
                assert_eq!(check_rows(&rows, size), issued, "{size}, round {round}");
            }
        }
        rig.reset(Reset::Digests);
        assert!(rows_without_histograms(rig).is_empty());
    }
}

#[test]
fn evictions_and_truncates_leave_each_row_its_own() {
    let rig = Rig::with(Config { digests_size: 21, extended: true, ..small() });
    for round in 0..4 {
        load(rig, 100 + round, 1500, || rig.reset(Reset::Digests));
        let rows = rig.digests();
        assert!(check_rows(&rows, 20) <= WRITERS * 1500);
        rig.reset(Reset::Digests);
        assert!(rig.digests().is_empty());
    }
}
