//! The Treiber stack: no element has two owners, however often it comes back, and the next owner sees it as
//! it was given back.

use loom::sync::Arc;
use loom::thread;

use super::check;
use crate::TreiberStack;
use crate::atomic::{AtomicU32, Ordering::Relaxed};

struct Things {
    free: TreiberStack,
    next: [AtomicU32; 3],
    content: [AtomicU32; 3],
}

impl Things {
    fn new() -> Things {
        let words = || std::array::from_fn(|_| AtomicU32::new(0));
        Things { free: TreiberStack::new(), next: words(), content: words() }
    }

    fn push(&self, item: u32) {
        self.free.push(item, |item| &self.next[item as usize]);
    }

    fn pop(&self) -> Option<u32> {
        self.free.pop(|item| &self.next[item as usize])
    }

    /// Takes an element and uses it as its only owner.
    fn use_one(&self) -> Option<u32> {
        let item = self.pop()?;
        let content = &self.content[item as usize];
        let before = content.load(Relaxed);
        content.store(before + 1, Relaxed);
        assert_eq!(content.load(Relaxed), before + 1, "somebody else holds {item}");
        Some(item)
    }
}

#[test]
fn a_thing_has_one_owner_and_none_is_lost() {
    check(|| {
        let things = Arc::new(Things::new());
        things.push(1);
        things.push(2);
        let other = {
            let things = Arc::clone(&things);
            thread::spawn(move || {
                // The first one comes back after the second. This is the case the tag is for.
                let (first, second) = (things.use_one(), things.use_one());
                first.into_iter().for_each(|item| things.push(item));
                second.into_iter().for_each(|item| things.push(item));
            })
        };
        if let Some(item) = things.use_one() {
            things.push(item);
        }
        other.join().expect("a thread");
        let mut left = vec![things.pop(), things.pop()];
        left.sort_unstable();
        assert_eq!((left, things.pop()), (vec![Some(1), Some(2)], None));
        let uses: u32 = things.content.iter().map(|content| content.load(Relaxed)).sum();
        assert!((1..=3).contains(&uses), "{uses}");
    });
}
