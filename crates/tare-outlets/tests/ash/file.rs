//! The file: rotation, a cut, a server that goes away and comes back.

use std::cell::OnceCell;
use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use mysql::prelude::Queryable;
use tare_outlets::ash::file::HistoryReader;
use tare_outlets::ash::{Destination, Rotation};
use tare_outlets::sessions;
use tare_testkit::active_load::{ActiveSessions, Until};
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::subject::TestProvider;

use super::{Hand, account, await_samples, options, record, rows};

const INTERVAL: Duration = Duration::from_millis(20);
const SLEEPS: Until = Until::State("User sleep");

fn server() -> Server {
    Server::start(StartSettings::new(TestProvider::BuiltIn)).expect("a server")
}

#[test]
fn a_file_rotates_and_is_read_as_one() {
    let _turn = tare_testkit::shared_turn();
    let server = server();
    let mut load = ActiveSessions::new(&server);
    load.busy(&[], "SELECT SLEEP(600)", &SLEEPS, "SLEEP");
    load.row_locks(1);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ash.jsonl");
    let mut options = options(account("root", &server.socket()), &file, INTERVAL);
    options.destination =
        Destination::File(file.clone(), Rotation { size: Some(8 << 10), time: None, keep: 100 });
    let hand = Hand::default();
    let (totals, ()) = record(&options, &hand, || await_samples(&file, 60));
    let totals = totals.expect("it records");
    let files = fs::read_dir(folder.path()).expect("a folder").count();
    assert!(files >= 3, "{files} files");
    let rows = rows(&file);
    assert_eq!(totals.rows, rows.len() as u64, "none is lost, none is there twice");
    let times: Vec<&str> = rows.iter().filter_map(|row| row.text("SAMPLE_TIME")).collect();
    assert!(times.is_sorted(), "{times:?}");
    let first = fs::read_to_string(folder.path().join("ash.jsonl.1")).expect("a file");
    assert!(first.starts_with("{\"snapshot\":") && first.ends_with("}}\n"), "each file is whole");
    assert!(first.contains("SLEEP"), "each has the texts of its digests");
    assert!(first.contains("\"PROCESSLIST_USER\":\"root\""), "and who held what others waited for");
    let shown = sessions::read(&file, &|_, _| false).expect("what top and report read").history;
    assert_eq!(shown.len(), rows.len(), "the same rows");
    let whole = shown.whole().expect("rows");
    let spent: u64 = rows.iter().map(|row| row.number("USECS_PER_ROW").expect("a number")).sum();
    assert_eq!(shown.times(whole).iter().sum::<u64>(), spent, "and their time");
    let waits = shown.sums(whole).waits;
    assert!(waits.iter().any(|wait| wait.class == "SLEEP"), "{waits:?}");
}

#[test]
fn it_waits_for_a_server_that_is_restarted_and_goes_on() {
    let _turn = tare_testkit::shared_turn();
    let folder = tempfile::tempdir().expect("a folder");
    let (file, socket) = (folder.path().join("ash.jsonl"), folder.path().join("socket"));
    // Both servers outlive the recording.
    let (mut first, second) = (server(), OnceCell::new());
    symlink(first.socket(), &socket).expect("a link");
    let options = options(account("root", &socket), &file, INTERVAL);
    let hand = Hand::default();
    let (totals, ()) = record(&options, &hand, || {
        {
            hand.wait_for("samples ");
            let mut client = first.client().expect("a client");
            let own: Vec<u64> = client
                .query(
                    "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'root' AND ID <> CONNECTION_ID()",
                )
                .expect("connections");
            let mut load = ActiveSessions::new(&first);
            load.busy(&[], "SELECT SLEEP(600)", &SLEEPS, "SLEEP");
            await_samples(&file, 5);
            // A connection that is killed is made again.
            for id in own {
                drop(client.query_drop(format!("KILL {id}")));
            }
            hand.wait_for("answers again");
            let before = super::samples(&file);
            await_samples(&file, before + 5);
        }
        first.kill();
        fs::remove_file(&socket).expect("removed");
        let second = second.get_or_init(server);
        symlink(second.socket(), &socket).expect("a link");
        let mut load = ActiveSessions::new(second);
        load.busy(&[], "SELECT SLEEP(600)", &SLEEPS, "SLEEP");
        let before = super::samples(&file);
        await_samples(&file, before + 5);
    });
    totals.expect("it records");
    let text = fs::read_to_string(&file).expect("a file");
    assert!(text.matches("{\"snapshot\":").count() >= 3, "a header for each connection");
    let interval = INTERVAL.as_micros();
    let longest = rows(&file).iter().filter_map(|row| row.number("USECS_PER_ROW")).max();
    // While nobody was connected, nobody knows what sessions did.
    assert!(longest.is_some_and(|us| u128::from(us) < interval + 5_000_000), "{longest:?}");
}

#[test]
fn a_file_that_was_cut_is_read_and_gone_on_with() {
    let _turn = tare_testkit::shared_turn();
    let server = server();
    let mut load = ActiveSessions::new(&server);
    load.busy(&[], "SELECT SLEEP(600)", &SLEEPS, "SLEEP");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ash.jsonl");
    let options = options(account("root", &server.socket()), &file, INTERVAL);
    record(&options, &Hand::default(), || await_samples(&file, 5)).0.expect("it records");
    let whole = fs::read_to_string(&file).expect("a file");
    let last = whole.rfind("\"SAMPLE_TIME\"").expect("a row");
    fs::write(&file, &whole[..last + 20]).expect("cut");
    let before = rows(&file).len();
    record(&options, &Hand::default(), || await_samples(&file, before + 5)).0.expect("it goes on");
    assert!(rows(&file).len() >= before + 5);
    assert!(HistoryReader::open(&file).is_ok_and(|reader| reader.header().history));
}
