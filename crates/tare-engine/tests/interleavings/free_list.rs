//! `arena`: the free list, whose head carries a tag. Nobody gets what another one holds, however often a block comes back
//! meanwhile, and whoever gets it sees it as it was given.

use loom::thread;

use super::{check, leak};
use crate::arena::{Arena, BlockId, Use};
use crate::atomic::Ordering::Relaxed;

/// An arena of which two blocks are left, both in the list.
fn arena() -> &'static Arena {
    let arena = leak(Arena::new());
    // Block 0 is never handed out.
    arena.map(3 * 4096).expect("address space");
    let both = [take(arena), take(arena)].map(|block| block.expect("a block"));
    arena.free.watch();
    for block in both {
        arena.meta(block).next.watch();
        arena.words(block)[0].watch();
        arena.give(block);
    }
    arena
}

fn take(arena: &Arena) -> Option<BlockId> {
    arena.take(Use::Cells, 0)
}

/// Holds a block for a moment, as its only owner.
fn use_one(arena: &Arena) -> Option<BlockId> {
    let block = take(arena)?;
    let word = &arena.words(block)[0];
    assert_eq!(word.load(Relaxed), 0, "somebody else holds {block}");
    word.store(1, Relaxed);
    assert_eq!(word.load(Relaxed), 1, "somebody else holds {block}");
    Some(block)
}

#[test]
fn a_block_has_one_owner_and_none_is_lost() {
    check(|| {
        let arena = arena();
        let other = thread::spawn(move || {
            // The first one comes back behind the second: the reason for the tag.
            let (first, second) = (use_one(arena), use_one(arena));
            first.into_iter().for_each(|id| arena.give(id));
            second.into_iter().for_each(|id| arena.give(id));
        });
        if let Some(block) = use_one(arena) {
            arena.give(block);
        }
        other.join().expect("a thread");
        let mut left = [take(arena), take(arena)];
        left.sort_unstable();
        assert_eq!((left, take(arena)), ([Some(1), Some(2)], None));
    });
}
