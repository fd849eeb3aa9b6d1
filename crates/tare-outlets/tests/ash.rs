//! `tare ash` on servers whose sessions' doings are known: MariaDB with its own Performance Schema, with
//! tare, and MySQL.
//!
//! ALONE: where every processor is taken, a sampler from outside gets one when a statement ends, and then
//! sees the long ones too often.

#[path = "ash/file.rs"]
mod file;
#[path = "ash/hostile.rs"]
mod hostile;
#[path = "ash/lacking.rs"]
mod lacking;
#[path = "ash/truth.rs"]
mod truth;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use tare_outlets::Address;
use tare_outlets::ash::columns::{COLUMNS, HISTORY};
use tare_outlets::ash::{self, AshError, Control, Destination, Options, Rotation, Totals, file::read};
use tare_outlets::snapshot::{Snapshot, Value};
use tare_testkit::eventually;
use tare_testkit::server::LIMIT;

/// A control that the test holds.
#[derive(Default)]
struct Hand {
    over: AtomicBool,
    told: Mutex<Vec<String>>,
}

impl Hand {
    fn told(&self) -> String {
        self.told.lock().expect("no panic").join("\n")
    }

    fn wait_for(&self, text: &str) {
        eventually(text, LIMIT, || self.told().contains(text));
    }
}

impl Control for Hand {
    fn is_over(&self) -> bool {
        self.over.load(SeqCst)
    }

    fn reopens(&self) -> bool {
        false
    }

    fn tell(&self, line: &str) {
        self.told.lock().expect("no panic").push(line.to_owned());
    }
}

/// The address of an account on a server's socket.
fn account(user: &str, socket: &Path) -> Address {
    let socket = socket.to_str().expect("UTF-8").replace('/', "%2F");
    Address::dsn(&format!("mysql://{user}@localhost?socket={socket}")).expect("an address")
}

fn options(address: Address, file: &Path, interval: Duration) -> Options {
    let destination = Destination::File(file.to_owned(), Rotation::default());
    Options { address, interval, destination }
}

/// Records while `work` is done. An error comes back when the recording ends by itself.
fn record<T>(options: &Options, hand: &Hand, work: impl FnOnce() -> T) -> (Result<Totals, AshError>, T) {
    std::thread::scope(|scope| {
        let recording = scope.spawn(|| ash::run(options, hand));
        // It ends also if the work panics.
        let _end = End(hand);
        let done = work();
        hand.over.store(true, SeqCst);
        (recording.join().expect("no panic"), done)
    })
}

struct End<'h>(&'h Hand);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, SeqCst);
    }
}

fn whole(path: &Path) -> Snapshot {
    read(path, &|_, _| true).unwrap_or_else(|error| panic!("{error}"))
}

/// A row of the file.
#[derive(Clone, Debug)]
struct Row(Vec<Value>);

impl Row {
    fn of(&self, column: &str) -> &Value {
        &self.0[COLUMNS.iter().position(|(name, _)| *name == column).expect("a column")]
    }

    fn text(&self, column: &str) -> Option<&str> {
        self.of(column).text()
    }

    fn number(&self, column: &str) -> Option<u64> {
        self.of(column).count()
    }

    fn connection(&self) -> Option<u32> {
        self.number("PROCESSLIST_ID").map(|id| u32::try_from(id).expect("a connection's number"))
    }
}

/// All rows of a recording.
fn rows(path: &Path) -> Vec<Row> {
    let table = whole(path).tables.remove(HISTORY).expect("the history");
    table.rows.into_iter().map(Row).collect()
}

/// The number of samples in a file that may still be written.
fn samples(path: &Path) -> usize {
    let Ok(snapshot) = read(path, &|head, _| head.table == HISTORY) else { return 0 };
    let mut times: Vec<&Value> =
        snapshot.table(HISTORY).map_or(vec![], |it| it.rows.iter().map(|row| &row[0]).collect());
    times.dedup();
    times.len()
}

/// Waits until so many samples are in a file.
fn await_samples(path: &Path, count: usize) {
    tare_testkit::poll_every(Duration::from_millis(200), LIMIT, || (samples(path) >= count).then_some(()))
        .unwrap_or_else(|| panic!("{count} samples in {}: {}", path.display(), samples(path)));
}
