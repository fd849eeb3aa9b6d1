//! Statements by digest: which are one, and which go when there is no place for another.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use proptest::collection::vec;
use proptest::prelude::*;
use tare_engine::snapshot::*;
use tare_engine::*;

use tare_rig::*;

/// A statement that is a digest of its own.
fn query(n: usize) -> String {
    let letter = |n: usize| (b'a' + (n % 26) as u8) as char;
    format!("select {}{}{}", letter(n / 676), letter(n / 26), letter(n))
}

/// How often each digest was counted, and how often those without a place.
fn counts(rig: Rig) -> (BTreeMap<String, u64>, u64) {
    let mut counts = BTreeMap::new();
    let mut rest = 0;
    for row in rig.digests() {
        match row.digest {
            Some(digest) => {
                let text = digest.text().expect("a text").to_owned();
                assert_eq!(counts.insert(text, row.stat.stat.count), None, "a row each");
            }
            None => {
                assert_eq!((rest, row.schema), (0, None), "one row");
                rest = row.stat.stat.count;
            }
        }
    }
    (counts, rest)
}

#[test]
fn a_full_table_gives_the_place_of_what_was_seen_least_recently() {
    let rig = Rig::with(Config { digests_size: 4, ..small() });
    rig.connect();
    for n in [0, 1, 2, 3, 1, 2] {
        rig.query(&query(n));
    }
    let expected = |counted: &[(usize, u64)]| counted.iter().map(|(n, count)| (query(*n), *count)).collect();
    assert_eq!(counts(rig), (expected(&[(1, 2), (2, 2), (3, 1)]), 1));
    rig.query(&query(4));
    assert_eq!(counts(rig), (expected(&[(1, 2), (2, 2), (4, 1)]), 2));
    // What comes back begins anew.
    rig.query(&query(3));
    assert_eq!(counts(rig), (expected(&[(2, 2), (3, 1), (4, 1)]), 4));
    assert_eq!(rig.evicted_digests(), 3);
    assert_eq!(rig.losses(), 0, "nothing is lost: it is in the row without a digest");
}

#[test]
fn the_row_without_a_digest_holds_all_of_what_was_evicted() {
    let rig = Rig::with(Config { digests_size: 2, ..small() });
    rig.connect();
    for n in 0..5 {
        let statement = rig.begin(rig.class.statement, &query(n)).unwrap();
        rig.add_statement_counter(statement, Counter::RowsSent, n as u64);
        rig.finish(statement, &query(n));
    }
    let rows = rig.digests();
    let [rest, last] = &rows[..] else { panic!("two rows, not {rows:?}") };
    assert_eq!((rest.stat.stat.count, rest.stat.sum.rows_sent), (4, 1 + 2 + 3));
    assert_eq!((last.stat.stat.count, last.stat.sum.rows_sent), (1, 4));
    let (rest, last) = (rest.stat.stat, last.stat.stat);
    assert!(rest.min_ps <= rest.max_ps && u128::from(rest.max_ps) <= rest.sum_ps && last.sum_ps > 0);
    let rows = rig.digests();
    assert!(rows[0].first_seen_us <= rows[0].last_seen_us && rows[0].last_seen_us <= rows[1].last_seen_us);
    rig.reset(Reset::Digests);
    assert!(rig.digests().is_empty());
    rig.query(&query(9));
    assert_eq!(counts(rig), ([(query(9), 1)].into(), 0));
    assert_eq!(rig.evicted_digests(), 4, "TRUNCATE evicts none");
}

#[test]
fn of_one_row_all_digests_share_it_and_of_none_nothing_is_counted() {
    for (digests_size, rest, losses) in [(1, 5, true), (0, 0, false)] {
        let rig = Rig::with(Config { digests_size, ..small() });
        let thread = rig.connect();
        (0..5).for_each(|n| rig.query(&query(n)));
        assert_eq!(counts(rig), ([].into(), rest), "{digests_size}");
        rig.delete_thread(thread);
        assert_eq!(counts(rig), ([].into(), rest), "{digests_size}, moved to the table");
        assert_eq!(rig.losses() > 0, losses, "{digests_size}");
        assert_eq!((rig.global_statement(STATEMENT).stat.count, rig.evicted_digests()), (5, 0));
        rig.reset(Reset::Digests);
        assert_eq!(counts(rig), ([].into(), 0));
    }
}

#[test]
fn an_event_whose_digest_was_evicted_has_no_other_ones() {
    let rig = Rig::with(Config { digests_size: 3, ..small() });
    rig.connect();
    (0..5).for_each(|n| rig.query(&query(n)));
    let rows = rig.statements(Scope::History);
    let digests: Vec<_> = rows.iter().map(|row| row.digest.as_ref().map(|digest| &*digest.text)).collect();
    assert_eq!(digests, [None, None, None, Some(&*query(3)), Some(&*query(4))]);
}

/// Keeps digests as the table should: the least recently seen goes.
struct DigestBook {
    /// Digests with their counts, least recently seen first.
    kept: Vec<(usize, u64)>,
    rest: u64,
}

impl DigestBook {
    const SIZE: usize = 10;

    fn query(&mut self, n: usize) {
        let count = match self.kept.iter().position(|(kept, _)| *kept == n) {
            Some(at) => self.kept.remove(at).1,
            None => {
                if self.kept.len() == DigestBook::SIZE {
                    self.rest += self.kept.remove(0).1;
                }
                0
            }
        };
        self.kept.push((n, count + 1));
    }
}

#[test]
fn of_thousands_the_ten_last_seen_are_kept_and_the_others_counted() {
    let rig = Rig::with(Config { digests_size: 1 + DigestBook::SIZE as u32, ..small() });
    let threads = [rig.thread(), rig.thread(), rig.thread()];
    let mut model = DigestBook { kept: Vec::new(), rest: 0 };
    let mut issued = 0;
    let mut query_in = |model: &mut DigestBook, thread: usize, n: usize| {
        rig.on(threads[thread], || rig.query(&query(n)));
        model.query(n);
        issued += 1;
        issued
    };
    for round in 0..4000 {
        // A few that are known, by whichever thread, and a new one, or one that went a while ago.
        for hit in 0..(round % 5).min(model.kept.len()) {
            let (n, _) = model.kept[(round * 7 + hit * 3) % model.kept.len()];
            query_in(&mut model, (round + hit) % 3, n);
        }
        let issued = query_in(&mut model, round % 3, 11 + round * 31 % 3000);
        if round % 50 == 0 {
            let (kept, rest) = counts(rig);
            assert_eq!(kept, model.kept.iter().map(|(n, count)| (query(*n), *count)).collect(), "{round}");
            assert_eq!((rest, rest + kept.values().sum::<u64>()), (model.rest, issued), "{round}");
        }
    }
    assert!(rig.evicted_digests() > 3000);
    assert_eq!(rig.losses(), 0);
    // What threads have not moved yet goes where it belongs when they end.
    let before = counts(rig);
    threads.into_iter().for_each(|thread| rig.delete_thread(thread));
    assert_eq!(counts(rig), before);
}

#[test]
fn what_is_seen_again_and_again_keeps_its_place_while_the_table_fills() {
    let rig = Rig::with(Config { digests_size: 10, ..small() });
    let [one, other] = [rig.thread(), rig.thread()];
    let again_and_again = |n: usize| [n, 0].into_iter().for_each(|n| rig.query(&query(n)));
    rig.on(one, || (1..=8).for_each(again_and_again));
    // Before the first thread has told again what it has seen.
    rig.on(other, || (9..=15).for_each(|n| rig.query(&query(n))));
    let (kept, rest) = counts(rig);
    assert_eq!((kept.get(&query(0)), rest), (Some(&8), 7), "{kept:?}");
}

#[test]
fn statements_with_the_same_tokens_and_schema_are_one_digest() {
    let rig = Rig::new();
    rig.connect();
    rig.query("select 1");
    rig.query("select 2");
    rig.query("select a");
    let other = rig.open_statement(rig.class.statement, 33, None).unwrap();
    rig.start_statement(other, b"other_db", here());
    rig.finish(other, "select 3");
    let rows = rig.digests();
    let seen: Vec<_> = rows
        .iter()
        .map(|row| {
            (
                row.schema.as_deref().unwrap(),
                row.digest.as_ref().unwrap().text().unwrap(),
                row.stat.stat.count,
            )
        })
        .collect();
    assert_eq!(seen, [("db", "select ?", 2), ("db", "select a", 1), ("other_db", "select ?", 1)]);
    assert!(rows.iter().all(|row| row.first_seen_us <= row.last_seen_us));
}

#[test]
fn a_thread_with_more_digests_than_its_map_holds_loses_none() {
    let rig = Rig::with(Config { digests_size: 2_000, ..small() });
    let thread = rig.connect();
    let query = |n: usize| format!("select {}", "x".repeat(n));
    for _ in 0..3 {
        for n in 0..900 {
            rig.query(&query(n));
        }
    }
    let check = |rig: Rig| {
        let rows = rig.digests();
        assert_eq!(rows.len(), 900);
        for row in rows {
            assert_eq!(row.stat.stat.count, 3, "{:?}", row.digest);
        }
    };
    check(rig);
    rig.delete_thread(thread);
    check(rig);
    assert_eq!(rig.losses(), 0);
}

#[test]
fn a_statement_without_tokens_has_no_digest() {
    let rig = Rig::new();
    rig.connect();
    let statement = rig.begin(rig.class.statement, "").unwrap();
    rig.end_statement(
        statement,
        Some(&DigestTokens { bytes: b"", charset: 33, cut: false, hash: last_bytes }),
    );
    assert!(rig.digests().is_empty());
    assert_eq!(rig.global_statement(STATEMENT).stat.count, 1);
}

/// Ends a statement with these tokens in this schema, of a client with this character set.
fn count(rig: Rig, schema: &[u8], tokens: &[u8], charset: u32) {
    let statement = rig.open_statement(rig.class.statement, charset, None).expect("a level");
    rig.start_statement(statement, schema, here());
    let tokens = DigestTokens { bytes: tokens, charset, cut: false, hash: last_bytes };
    rig.end_statement(statement, Some(&tokens));
}

/// How often each digest was counted. Tokens are ASCII here, so their text is what they are.
fn counts_by_key(rig: Rig) -> BTreeMap<(String, String), u64> {
    let rows = rig.digests();
    let key = |row: &DigestRow| {
        let text = row.digest.as_ref().and_then(Spelling::text).expect("a text");
        (row.schema.clone().unwrap_or_default(), text.to_owned())
    };
    let counts: BTreeMap<_, _> = rows.iter().map(|row| (key(row), row.stat.stat.count)).collect();
    assert_eq!(counts.len(), rows.len(), "a row each");
    counts
}

#[test]
fn digests_that_follow_each_other_are_counted_as_themselves_also_in_another_order() {
    let rig = Rig::with(Config { digests_size: 2_000, ..small() });
    rig.connect();
    let mut expected = BTreeMap::new();
    let run = |expected: &mut BTreeMap<(String, String), u64>, numbers: &[usize]| {
        for n in numbers {
            let schema = ["a", "b"][n % 2];
            count(rig, schema.as_bytes(), query(n / 2).as_bytes(), 33);
            *expected.entry((schema.to_owned(), query(n / 2))).or_insert(0) += 1;
        }
    };
    let orders = [[0, 1, 2, 3], [0, 1, 2, 3], [0, 2, 1, 3], [0, 1, 0, 1], [3, 3, 3, 0]].concat();
    run(&mut expected, &orders);
    run(&mut expected, &orders);
    assert_eq!(counts_by_key(rig), expected);
    // More than a thread's map holds, and the same again.
    run(&mut expected, &(4..400).collect::<Vec<_>>());
    run(&mut expected, &orders);
    assert_eq!(counts_by_key(rig), expected);
    rig.reset(Reset::Digests);
    expected.clear();
    run(&mut expected, &orders);
    assert_eq!(counts_by_key(rig), expected);
}

#[test]
fn no_character_set_makes_one_statement_another() {
    // Statements of one token, as BEGIN and COMMIT are.
    let statements: Vec<[u8; 2]> = (0..128).flat_map(|low| [1, 2, 3].map(|high| [low, high])).collect();
    // All collations of MariaDB: numbers below 256, their variants without padding, and those of UCA 14.0.0.
    let charsets: Vec<u32> = (1..256).chain(1025..1280).chain(2048..2560).collect();
    let rig = Rig::with(Config { digests_size: 1000, ..small() });
    for slice in statements.chunks(100) {
        // A thread of its own, whose map holds them all.
        rig.connect();
        for charset in &charsets {
            slice.iter().for_each(|tokens| count(rig, b"", tokens, *charset));
        }
        let last = rig.statements(Scope::HistoryLong).pop().unwrap().digest.unwrap();
        assert_eq!(last.text.as_bytes(), slice.last().unwrap(), "and so says its event");
    }
    let counts = counts_by_key(rig);
    assert_eq!(counts.len(), statements.len());
    assert!(counts.values().all(|count| *count == charsets.len() as u64), "{counts:?}");
}

#[test]
fn one_statement_of_clients_with_several_character_sets_is_one_row_spelled_as_it_was_seen_first() {
    let rig = Rig::new();
    let charsets = [45, 8, 33];
    for charset in charsets {
        rig.on(rig.thread(), || count(rig, b"db", b"select ?", charset));
    }
    let rows = rig.digests();
    let [row] = &rows[..] else { panic!("one row, not {rows:?}") };
    assert_eq!(row.stat.stat.count, 3);
    // The double names the character set in the hash: 45.
    assert_eq!(row.digest.as_ref().unwrap().digest()[..8], *"0000002d");
    let of_event = |row: StatementRow| u32::from_str_radix(&row.digest.unwrap().digest[..8], 16).unwrap();
    let seen: Vec<u32> = rig.statements(Scope::HistoryLong).into_iter().map(of_event).collect();
    assert_eq!(seen, charsets, "an event's own");
}

fn hex(bytes: &[u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(*bytes))
}

#[test]
fn digests_of_which_not_all_is_kept_are_told_apart_by_the_whole() {
    for (extended, dots) in [(false, ""), (true, "...")] {
        let rig = Rig::with(Config { max_digest_length: 20, extended, ..small() });
        rig.connect();
        let statements =
            ["twenty bytes of toke", "twenty bytes of tokens", "twenty bytes of tokens, and more"];
        for statement in statements.repeat(2) {
            count(rig, b"db", statement.as_bytes(), 33);
        }
        let rows = rig.digests();
        let digests = rows.iter().map(|row| (row.stat.stat.count, row.digest.clone().unwrap()));
        let spelled = |(count, digest): (u64, Spelling)| {
            (count, digest.digest().to_owned(), digest.text().unwrap().to_owned())
        };
        let digests: Vec<_> = digests.map(spelled).collect();
        let cut = format!("{}{dots}", statements[0]);
        let row = |digest: &str, text: &str| (2, digest.to_owned(), text.to_owned());
        assert_eq!(
            digests,
            [
                row("00000021000000000000000000000014", statements[0]),
                row(&hex(b" bytes of tokens"), &cut),
                row(&hex(b"tokens, and more"), &cut),
            ]
        );
        let last = rig.statements(Scope::History).pop().unwrap();
        assert_eq!(last.digest.unwrap().digest, hex(b"tokens, and more"));
    }
}

#[test]
fn a_reader_pays_for_what_it_asks_of_a_digest() {
    let rig = Rig::with(Config { extended: true, ..small() });
    rig.connect();
    (0..5).for_each(|n| rig.query(&query(n)));
    let asked = || (rig.host.hashed.swap(0, Relaxed), rig.host.spelled.swap(0, Relaxed));
    asked();
    let figures = rig.digests_of(Parts::NONE);
    assert_eq!(figures.iter().map(|row| row.stat.stat.count).sum::<u64>(), 5);
    assert!(figures.iter().all(|row| row.digest.is_none() && row.schema.is_none() && row.sample.is_none()));
    assert_eq!(asked(), (0, 0));
    let hashes = rig.digests_of(DigestRow::DIGEST);
    assert!(hashes.iter().all(|row| row.digest.as_ref().is_some_and(|it| it.text().is_none())));
    assert_eq!(asked(), (5, 0), "hashes, and no text");
    let texts = rig.digests_of(DigestRow::DIGEST.and(DigestRow::DIGEST_TEXT));
    assert_eq!(asked(), (0, 0), "hashes are known, and nobody has read a text");
    assert_eq!(texts[3].digest.as_ref().and_then(Spelling::text), Some(&*query(3)));
    assert_eq!(asked(), (0, 1), "one was read");
    let [hashes, texts] = [hashes, texts].map(|rows| {
        rows.iter().map(|row| row.digest.as_ref().unwrap().digest().to_owned()).collect::<Vec<_>>()
    });
    assert_eq!(hashes, texts);
}

#[test]
fn a_hash_that_was_made_of_a_digest_is_not_taken_for_that_of_the_next_tenant() {
    let rig = Rig::with(Config { digests_size: 3, ..small() });
    rig.connect();
    for n in 0..20 {
        let statement = "s".repeat(n + 1);
        count(rig, b"db", statement.as_bytes(), 33);
        for row in rig.digests() {
            let Some(digest) = row.digest else { continue };
            // The double names the length in the hash.
            let length = u64::from_str_radix(&digest.digest()[8..], 16).unwrap();
            assert_eq!(length as usize, digest.text().unwrap().len(), "{digest:?}");
        }
    }
    assert_eq!(rig.evicted_digests(), 18);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Of any statements, in any schemas, by clients with any character sets, each is counted as itself.
    #[test]
    fn every_digest_is_counted_as_itself(
        statements in vec((vec(0..3u8, 1..40), vec(0..2u8, 0..20), 0..2304u32, 0..3usize), 1..400),
        size in prop_oneof![Just(1000u32), 1..20u32],
    ) {
        let rig = Rig::with(Config { digests_size: size, ..small() });
        let threads = [(); 3].map(|()| rig.thread());
        let mut expected = BTreeMap::new();
        for (tokens, schema, charset, thread) in &statements {
            // Few letters, so that many are alike.
            let [tokens, schema] = [tokens, schema].map(|text| text.iter().map(|n| n + b'a').collect::<Vec<_>>());
            rig.on(threads[*thread], || count(rig, &schema, &tokens, *charset));
            let key = [schema, tokens].map(|text| String::from_utf8(text).unwrap());
            *expected.entry(key.into()).or_insert(0) += 1;
        }
        if size == 1000 {
            prop_assert_eq!(counts_by_key(rig), expected);
        } else {
            // With places taken away, none counts what is another's.
            let rows = rig.digests();
            prop_assert_eq!(rows.iter().map(|row| row.stat.stat.count).sum::<u64>(), statements.len() as u64);
            for row in rows {
                if let Some(digest) = row.digest {
                    let text = digest.text().expect("a text").to_owned();
                    let most = expected[&(row.schema.unwrap_or_default(), text)];
                    prop_assert!(row.stat.stat.count <= most);
                }
            }
        }
    }
}

/// What is looked at again is what it was, whatever happened since; sums come to what all rows come to.
#[test]
fn digests_of_a_moment_stay_as_they_are() {
    let rig = Rig::with(Config { digests_size: 4, ..small() });
    let thread = rig.thread();
    let run = |names: &[&str]| {
        rig.on(thread, || names.iter().for_each(|name| rig.query(&format!("SELECT {name}"))));
    };
    // One more than there is room for: what one counted is in the row without a digest.
    run(&["a", "b", "c", "d", "d"]);
    let rows = rig.digests();
    let mut now = rig.engine.digests_now(Parts::ALL);
    run(&["e", "f", "a"]);
    rig.engine.reset(Reset::Digests);
    let shown = |row: &DigestRow| format!("{row:?}");
    let mut again: Vec<String> = (0..now.count()).map(|at| shown(now.row(at, Parts::ALL).unwrap())).collect();
    let figures = |at: usize, now: &mut DigestSnapshot<'_>| now.row(at, Parts::NONE).unwrap().stat.stat;
    let count: u64 = (0..now.count()).map(|at| figures(at, &mut now).count).sum();
    assert_eq!((count, now.count()), (5, rows.len()));
    let mut rows_shown: Vec<String> = rows.iter().map(shown).collect();
    again.sort();
    rows_shown.sort();
    assert_eq!(again, rows_shown);
    let totals = now.totals();
    let [total] = &totals[..] else { panic!("{totals:?}") };
    let sum = |of: fn(&DigestRow) -> u64| rows.iter().map(of).sum::<u64>();
    assert_eq!(total.stat.stat.count, 5);
    assert_eq!(total.stat.stat.sum_ps, rows.iter().map(|row| row.stat.stat.sum_ps).sum::<u128>());
    assert_eq!(total.stat.sum.rows_examined, sum(|row| row.stat.sum.rows_examined));
}

/// Who is in a place is read once, and again when another one has it.
#[test]
fn a_place_is_told_under_the_name_of_who_has_it() {
    let rig = Rig::with(Config { digests_size: 4, ..small() });
    let thread = rig.thread();
    for round in 0..20_u8 {
        let schema: &[u8] = if round % 3 == 0 { b"" } else { &[b'k' + round % 5] };
        rig.on(thread, || count(rig, schema, &[b'a' + round], 45));
        let named = rig.digests_of(DigestRow::SCHEMA.and(DigestRow::DIGEST));
        let names = |rows: &[DigestRow]| -> Vec<(Option<String>, Option<String>)> {
            let digest = |row: &DigestRow| row.digest.as_ref().map(|it| it.digest().to_owned());
            rows.iter().map(|row| (row.schema.clone(), digest(row))).collect()
        };
        let whole = rig.digests();
        assert_eq!(names(&named), names(&whole), "{round}");
        let newest = whole.iter().find(|row| {
            row.digest.as_ref().and_then(Spelling::text) == Some(&*char::from(b'a' + round).to_string())
        });
        let expected = (!schema.is_empty()).then(|| String::from_utf8_lossy(schema).into_owned());
        assert_eq!(newest.expect("it is there").schema, expected);
    }
}

/// Histograms of a moment are read of the rows that are expected; what has lost its place meanwhile has none.
#[test]
fn histograms_are_read_of_rows_that_are_expected() {
    let rig = Rig::with(Config { digests_size: 10, extended: true, ..small() });
    let thread = rig.thread();
    let run = |names: &[&str]| {
        rig.on(thread, || names.iter().for_each(|name| rig.query(&format!("SELECT {name}"))));
    };
    run(&["a", "b", "b", "c", "c", "c"]);
    let parts = DigestRow::DIGEST.and(DigestRow::HISTOGRAM);
    let mut now = rig.engine.digests_now(parts);
    assert!(now.row(0, parts).is_none(), "nobody expected it");
    assert!(now.row(0, DigestRow::DIGEST).is_some());
    now.expect(&[1], parts);
    assert!(now.row(0, parts).is_none());
    let one = now.row(1, parts).expect("it was expected").clone();
    now.expect(&[0, 1, 2], parts);
    // Those that come later are in none.
    run(&["a", "b", "c"]);
    for at in 0..3 {
        let row = now.row(at, parts).expect("it was expected");
        assert_eq!(row.histogram.total(), row.stat.stat.count);
    }
    assert_eq!(now.row(1, parts).map(|row| row.histogram.clone()), Some(one.histogram));
    let mut late = rig.engine.digests_now(parts);
    rig.engine.reset(Reset::Digests);
    run(&["c"]);
    late.expect(&[0, 1, 2], parts);
    assert_eq!((0..3).filter(|at| late.row(*at, parts).is_some()).count(), 0);
}
