//! Two threads insert the same key. One wins, both know which, and a place that is found is complete.

use loom::sync::Arc;
use loom::thread;

use super::{check, words};
use crate::atomic::{AtomicU64, Ordering::Relaxed};
use crate::{Index, Inserted};

const KEY: u64 = 7;
const HASH: u64 = KEY << 32;

struct IndexModel {
    entries: [AtomicU64; 4],
    /// The contents of the places, by number.
    places: [AtomicU64; 8],
}

impl IndexModel {
    fn new() -> Arc<IndexModel> {
        Arc::new(IndexModel { entries: words(), places: words() })
    }

    fn is(&self) -> impl Fn(u32) -> bool {
        |place| self.places[place as usize].load(Relaxed) == KEY
    }

    /// Inserts a place of the caller's and returns the place that stays.
    fn insert(&self, place: u32) -> u32 {
        self.places[place as usize].store(KEY, Relaxed);
        match Index(&self.entries).insert(HASH, place, self.is()) {
            Inserted::Here => place,
            Inserted::There(first) => first,
            Inserted::Full => panic!("there is room"),
        }
    }

    fn find(&self) -> Option<u32> {
        Index(&self.entries).find(HASH, self.is())
    }
}

#[test]
fn of_two_with_one_key_one_stays_and_both_know() {
    check(|| {
        let shared = IndexModel::new();
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.insert(3))
        };
        let mine = shared.insert(4);
        let others = other.join().expect("a thread");
        assert_eq!(mine, others);
        assert_eq!(shared.find(), Some(mine));
        assert_eq!(Index(&shared.entries).len(), 1);
    });
}

#[test]
fn what_is_found_is_filled() {
    check(|| {
        let shared = IndexModel::new();
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.insert(3))
        };
        if let Some(found) = Index(&shared.entries).find(HASH, |_| true) {
            assert_eq!(shared.places[found as usize].load(Relaxed), KEY);
        }
        other.join().expect("a thread");
        assert_eq!(shared.find(), Some(3));
    });
}
