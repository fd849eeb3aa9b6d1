//! The least and the most memory in use, of accounts, users, hosts and all: what ends leaves its marks, what begins takes
//! them over.

use proptest::collection::vec;
use proptest::prelude::*;
use tare_engine::snapshot::*;
use tare_engine::*;

use crate::driver::*;

/// Everybody who sees the memory of the account `a@x`, if there is no other one.
const LEVELS: [Level; 4] = [Level::Account, Level::User, Level::Host, Level::Global];

fn connect(rig: Rig, user: &str) -> ThreadRef {
    let thread = rig.thread();
    rig.set_thread_account(thread, user.as_bytes(), b"x");
    thread
}

/// Uses so much at once, and frees it again.
fn peak(rig: Rig, thread: ThreadRef, count: usize) {
    rig.on(thread, || {
        (0..count).for_each(|_| _ = rig.memory_alloc(rig.class.memory, 10));
        (0..count).for_each(|_| rig.memory_free(rig.class.memory, 10));
    });
}

fn memory(rig: Rig, level: Level, user: &str) -> MemoryStat {
    let is = |owner: &Owner| match level {
        Level::Global => true,
        Level::Host => owner.host.is_some(),
        _ => owner.user.as_deref() == Some(user),
    };
    rig.memory_rows(level).into_iter().find(|row| row.name == MEMORY && is(&row.owner)).expect("a row").stat
}

/// The marks of the count, which those of bytes follow.
fn marks(stat: MemoryStat) -> (i64, i64) {
    assert_eq!((stat.low_bytes, stat.high_bytes), (10 * stat.low_count, 10 * stat.high_count), "{stat:?}");
    (stat.low_count, stat.high_count)
}

fn check(rig: Rig, high: i64, when: &str) {
    for level in LEVELS {
        assert_eq!(marks(memory(rig, level, "a")), (0, high), "{level:?}: {when}");
    }
}

#[test]
fn connections_one_after_the_other_are_as_high_as_one() {
    let rig = Rig::new();
    for n in 0..5 {
        let thread = connect(rig, "a");
        peak(rig, thread, 3);
        check(rig, 3, &format!("connection {n} is there"));
        rig.delete_thread(thread);
        check(rig, 3, &format!("connection {n} has ended"));
    }
    let thread = connect(rig, "a");
    peak(rig, thread, 7);
    check(rig, 7, "higher than those before");
    assert_eq!(marks(rig.thread_memory(thread, MEMORY)), (0, 7), "a thread's marks are its own");
    rig.delete_thread(thread);
    let thread = connect(rig, "a");
    peak(rig, thread, 1);
    check(rig, 7, "and lower");
    assert_eq!(marks(rig.thread_memory(thread, MEMORY)), (0, 1));
}

#[test]
fn connections_at_once_are_as_high_as_all_of_them() {
    let rig = Rig::new();
    for (round, high) in [(3, 9), (3, 9), (2, 9), (4, 12), (4, 12)] {
        let threads: Vec<_> = (0..round).map(|_| connect(rig, "a")).collect();
        threads.iter().for_each(|thread| peak(rig, thread, 3));
        check(rig, high, "they are there");
        threads.into_iter().for_each(|thread| rig.delete_thread(thread));
        check(rig, high, "they have ended");
    }
}

#[test]
fn what_a_connection_had_before_it_had_an_account_it_brings_along() {
    let rig = Rig::new();
    for _ in 0..3 {
        let thread = rig.thread();
        peak(rig, thread, 3);
        rig.set_thread_account(thread, b"a", b"x");
        check(rig, 3, "it is there");
        peak(rig, thread, 2);
        // A change of the user, and back.
        rig.set_thread_account(thread, b"b", b"x");
        rig.set_thread_account(thread, b"a", b"x");
        check(rig, 3, "it is back");
        rig.delete_thread(thread);
        check(rig, 3, "it has ended");
    }
}

#[test]
fn what_was_truncated_by_thread_leaves_the_marks_above_where_they_are() {
    for parties_size in [[10; 3], [0, 10, 10], [0; 3]] {
        let rig = Rig::with(Config { parties_size, ..small() });
        let thread = connect(rig, "a");
        peak(rig, thread, 5);
        rig.on(thread, || (0..3).for_each(|_| _ = rig.memory_alloc(rig.class.memory, 10)));
        rig.reset(Reset::Memory(Level::Thread));
        assert_eq!(marks(rig.thread_memory(thread, MEMORY)), (3, 3));
        let check = |when: &str| {
            for level in LEVELS.into_iter().filter(|level| match level {
                Level::Account => parties_size[0] > 0,
                Level::User | Level::Host => parties_size[1] > 0,
                _ => true,
            }) {
                assert_eq!(marks(memory(rig, level, "a")), (0, 5), "{level:?} of {parties_size:?}: {when}");
            }
        };
        check("before its next event");
        rig.on(thread, || rig.memory_alloc(rig.class.memory, 10));
        check("after it");
        assert_eq!(marks(rig.thread_memory(thread, MEMORY)), (3, 4));
        rig.on(thread, || (0..4).for_each(|_| rig.memory_free(rig.class.memory, 10)));
        assert_eq!(marks(rig.thread_memory(thread, MEMORY)), (0, 4));
        check("back to nothing");
        rig.delete_thread(thread);
        check("it has ended");
    }
}

#[test]
fn what_was_truncated_by_thread_is_there_for_those_who_begin() {
    for parties_size in [[10; 3], [0, 10, 10], [0; 3]] {
        let rig = Rig::with(Config { parties_size, ..small() });
        let use_some = |thread| {
            peak(rig, thread, 5);
            rig.on(thread, || (0..2).for_each(|_| _ = rig.memory_alloc(rig.class.memory, 10)));
        };
        let global = || marks(rig.global_memory(MEMORY));
        let threads = [connect(rig, "a"), connect(rig, "a")];
        threads.into_iter().for_each(use_some);
        rig.reset(Reset::Memory(Level::Thread));
        rig.reset(Reset::Memory(Level::Thread));
        assert_eq!(global(), (0, 10), "{parties_size:?}");
        let third = connect(rig, "a");
        // Of the six that two have left it takes over the three of one.
        use_some(third);
        assert_eq!(global(), (0, 12), "{parties_size:?}");
        // What they have in use they free at their end, and the least is what it was.
        for thread in threads {
            rig.on(thread, || (0..2).for_each(|_| rig.memory_free(rig.class.memory, 10)));
            assert_eq!(global(), (0, 12), "{parties_size:?}");
            rig.delete_thread(thread);
        }
        rig.delete_thread(third);
        assert_eq!(global(), (0, 12), "{parties_size:?}");
        let stat = rig.global_memory(MEMORY);
        assert_eq!((stat.count_alloc, stat.count_free, stat.current_count), (21, 19, 2));
    }
}

#[test]
fn a_reset_of_all_after_one_by_thread_leaves_no_mark() {
    let rig = Rig::new();
    let thread = connect(rig, "a");
    peak(rig, thread, 5);
    rig.on(thread, || (0..2).for_each(|_| _ = rig.memory_alloc(rig.class.memory, 10)));
    rig.reset(Reset::Memory(Level::Thread));
    rig.reset(Reset::Memory(Level::Global));
    for level in LEVELS {
        assert_eq!(marks(memory(rig, level, "a")), (2, 2), "{level:?}");
    }
    rig.on(thread, || rig.memory_alloc(rig.class.memory, 10));
    for level in LEVELS {
        assert_eq!(marks(memory(rig, level, "a")), (2, 3), "{level:?}");
    }
}

#[test]
fn a_forgotten_account_leaves_its_marks_to_its_user_and_host() {
    let rig = Rig::new();
    let thread = connect(rig, "a");
    rig.on(thread, || (0..3).for_each(|_| _ = rig.memory_alloc(rig.class.memory, 10)));
    rig.delete_thread(thread);
    rig.reset(Reset::Connections(Level::Account));
    for level in [Level::User, Level::Host, Level::Global] {
        let stat = memory(rig, level, "a");
        assert_eq!((stat.current_count, marks(stat)), (3, (0, 3)), "{level:?}");
    }
}

/// The reference's rule: what those who ended have left is handed out with each new mark of a thread, to whoever needs it.
#[derive(Default)]
struct Model {
    /// Account, in use, least, most.
    threads: Vec<(usize, i64, i64, i64)>,
    accounts: [Account; 2],
    most_at_once: usize,
    highest: i64,
}

#[derive(Default)]
struct Account {
    /// What those who ended have in use, and the least and the most of it there was.
    ended: i64,
    least: i64,
    most: i64,
    left: [i64; 2],
}

impl Model {
    fn use_more(&mut self, thread: usize, by: i64) {
        let (account, current, low, high) = &mut self.threads[thread];
        *current += by;
        let [below, above] = &mut self.accounts[*account].left;
        *below -= (*low - *current).clamp(0, *below);
        *above -= (*current - *high).clamp(0, *above);
        *low = *current.min(low);
        *high = *current.max(high);
        self.highest = self.highest.max(*high - *low);
    }

    fn end(&mut self, thread: usize) {
        let (account, current, low, high) = self.threads.remove(thread);
        let account = &mut self.accounts[account];
        account.ended += current;
        account.least = account.least.min(account.ended);
        account.most = account.most.max(account.ended);
        account.left[0] += current - low;
        account.left[1] += high - current;
    }

    fn marks(&self, of: usize) -> (i64, i64) {
        let Account { ended, left: [below, above], .. } = self.accounts[of];
        let threads = || self.threads.iter().filter(|thread| thread.0 == of);
        let [low, high] = [threads().map(|it| it.2).sum::<i64>(), threads().map(|it| it.3).sum::<i64>()];
        (low + ended - below, high + ended + above)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Marks are as far apart as the reference's, or further, and bounded by what was there at once.
    #[test]
    fn marks_are_never_nearer_than_the_references(steps in vec((0..8u8, 0..2usize, 0..6usize, 1..9i64), 1..150)) {
        let rig = Rig::new();
        let mut threads = Vec::new();
        let mut model = Model::default();
        for (step, account, thread, by) in steps {
            match step {
                0 | 1 => {
                    threads.push(connect(rig, ["a", "b"][account]));
                    model.threads.push((account, 0, 0, 0));
                    model.most_at_once = model.most_at_once.max(threads.len());
                }
                _ if threads.is_empty() => {}
                2 => {
                    let thread = thread % threads.len();
                    rig.delete_thread(threads.remove(thread));
                    model.end(thread);
                }
                _ => {
                    let thread = thread % threads.len();
                    // Some free what others have allocated.
                    for _ in 0..by {
                        rig.on(threads[thread], || match step {
                            3..6 => _ = rig.memory_alloc(rig.class.memory, 10),
                            _ => rig.memory_free(rig.class.memory, 10),
                        });
                        model.use_more(thread, if step < 6 { 1 } else { -1 });
                    }
                }
            }
            let mut sums = (0, 0);
            for (at, user) in ["a", "b"].into_iter().enumerate() {
                if !rig.connections(Level::User).iter().any(|row| row.owner.user.as_deref() == Some(user)) {
                    continue;
                }
                let stat = memory(rig, Level::Account, user);
                let (found, expected) = (marks(stat), model.marks(at));
                prop_assert!(found.0 <= expected.0 && found.1 >= expected.1, "{user}: {found:?}, {expected:?}");
                let (account, at_once) = (&model.accounts[at], model.most_at_once as i64 * model.highest);
                let bound = (account.least - at_once, account.most + at_once);
                prop_assert!(found.0 >= bound.0 && found.1 <= bound.1, "{user}: {found:?}, {bound:?}");
                prop_assert_eq!(marks(memory(rig, Level::User, user)), found);
                sums = (sums.0 + found.0, sums.1 + found.1);
            }
            if !model.threads.is_empty() {
                prop_assert_eq!(marks(memory(rig, Level::Host, "")), sums);
                let (low, high) = marks(rig.global_memory(MEMORY));
                let current = rig.global_memory(MEMORY).current_count;
                prop_assert!(low >= sums.0 && low <= current && high <= sums.1 && high >= current);
            }
        }
    }
}
