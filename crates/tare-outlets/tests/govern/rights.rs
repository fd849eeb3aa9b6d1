//! Rights: what is refused for want of one, and what may be done all the same.

use super::*;

/// Prices by which memory is dear however it is counted, and all else only where it is recorded: so that rows
/// of both tables move.
fn dear_memory_and_records() -> Prices {
    let price = |kind: Kind| {
        let ns = if matches!(kind, Kind::Memory) { 1e9 } else { 0.0 };
        let cost =
            |level: &str, ns: f64| format!("{level} = {{ ns = {ns:?}, low = {ns:?}, high = {ns:?} }}\n");
        let levels = [cost("off", 0.0), cost("counts", ns), cost("sums", ns), cost("exact", 1e9)].concat();
        format!("[price.{kind}]\n{levels}")
    };
    let origin = "[origin]\nprovider = 'mysql'\nserver = ''\nmachine = ''\nmeasured = false\nhow = ''\n";
    Prices::read(&format!("{origin}{}", Kind::ALL.map(price).concat())).expect("prices")
}

type Row = (String, String, Option<String>);

/// Instruments and consumers that are not as they were.
fn moved(before: &[Row], now: &[Row]) -> (usize, usize) {
    let (before, now) = (before.iter(), now.iter());
    let differs: Vec<&Row> = before.zip(now).filter(|(was, is)| was != is).map(|(was, _)| was).collect();
    let consumers = differs.iter().filter(|row| row.0.starts_with("events_")).count();
    (differs.len() - consumers, consumers)
}

#[test]
fn what_a_right_is_left_for_is_put_back_though_another_is_lost() {
    let _turn = tare_testkit::turn();
    let host = Host::mariadb();
    let before = host.settings();
    let orders = Orders { prices: Some(dear_memory_and_records()), ..host.orders(BUDGET) };
    let revoke = "REVOKE UPDATE ON performance_schema.setup_instruments FROM governor@localhost";
    let (_, done) = run(&orders, 3, false, |nth| {
        host.load();
        if nth == 3 {
            let (instruments, consumers) = moved(&before, &host.settings());
            assert!(instruments > 0 && consumers > 0, "{instruments} instruments, {consumers} consumers");
            host.root().query_drop(revoke).expect("revoked");
        }
    });
    let said = done.expect_err("it may not").to_string();
    assert!(said.contains("GRANT UPDATE") && said.contains("--put-back"), "{said}");
    let (instruments, consumers) = moved(&before, &host.settings());
    assert!(instruments > 0 && consumers == 0, "{instruments} instruments, {consumers} consumers");
    let file =
        std::fs::read_dir(host.folder.path()).expect("the folder").next().expect("a file").expect("it");
    let owed = std::fs::read_to_string(file.path()).expect("what is owed");
    assert!(owed.contains("memory/") && !owed.contains("consumers"), "{owed}");
    host.put_back_with_the_right(&before);
}

#[test]
fn a_server_that_is_read_only_takes_another_right_which_is_said() {
    let _turn = tare_testkit::turn();
    let host = Host::mariadb();
    let before = host.settings();
    host.root().query_drop("SET GLOBAL read_only = ON").expect("read-only");
    let (events, done) = run(&host.dear_orders(), 2, false, |_| host.load());
    let said = done.expect_err("it may not").to_string();
    assert!(said.contains("governor@localhost") && said.contains("GRANT READ_ONLY ADMIN"), "{said}");
    assert!(events.is_empty() && host.nothing_owed());
    host.root().query_drop("GRANT READ_ONLY ADMIN ON *.* TO governor@localhost").expect("granted");
    let (events, done) = run(&host.dear_orders(), 2, false, |_| host.load());
    done.expect("it governs");
    assert!(put_backs(&events)[0].rows > 20, "{events:?}");
    assert_eq!(host.settings(), before);
}
