//! Peaks of memory: of connections at the same time, one after the other, and across resets.

use std::collections::VecDeque;

use tare_engine::snapshot::*;
use tare_engine::*;

use tare_rig::*;

/// What one connection does: `count` blocks are in use at once, and none at its end.
fn use_memory(rig: Rig, count: usize) {
    (0..count).for_each(|_| _ = rig.memory_alloc(rig.class.memory, 10));
    (0..count).for_each(|_| rig.memory_free(rig.class.memory, 10));
}

fn marks(rig: Rig) -> [(i64, i64, i64); 4] {
    let levels = [Grouping::Account, Grouping::User, Grouping::Host];
    let of = |level| {
        let is_it = |row: &Summary<MemoryStat>| {
            row.name == MEMORY && (row.owner.user.as_deref(), row.owner.host.as_deref()) != (None, None)
        };
        rig.memory_rows(level).into_iter().find(is_it).map_or(MemoryStat::default(), |row| row.stat)
    };
    let [account, user, host] = levels.map(of);
    [account, user, host, rig.global_memory(MEMORY)].map(|it| (it.low_bytes, it.current_bytes, it.high_bytes))
}

fn connect_as(rig: Rig) -> ThreadRef {
    let thread = rig.thread();
    rig.set_thread_account(thread, b"a", b"x");
    thread
}

#[test]
fn connections_at_the_same_time_are_as_high_as_all_of_them_when_they_have_ended_too() {
    let rig = Rig::new();
    let threads: Vec<ThreadRef> = (0..5).map(|_| connect_as(rig)).collect();
    for thread in &threads {
        rig.on(thread, || use_memory(rig, 3));
    }
    assert_eq!(marks(rig), [(0, 0, 150); 4]);
    for thread in threads {
        rig.delete_thread(thread);
        assert_eq!(marks(rig), [(0, 0, 150); 4]);
    }
}

#[test]
fn connections_one_after_the_other_are_as_high_as_the_highest() {
    let rig = Rig::new();
    for count in [3, 5, 1, 4] {
        let thread = connect_as(rig);
        rig.on(thread, || use_memory(rig, count));
        rig.delete_thread(thread);
    }
    assert_eq!(marks(rig), [(0, 0, 50); 4]);
    let (one, other) = (connect_as(rig), connect_as(rig));
    rig.on(one, || use_memory(rig, 3));
    assert_eq!(marks(rig), [(0, 0, 50); 4], "there was more");
    rig.on(other, || use_memory(rig, 4));
    assert_eq!(marks(rig), [(0, 0, 70); 4]);
}

#[test]
fn an_account_is_as_high_as_those_who_were_there_at_the_same_time() {
    let rig = Rig::new();
    let (names, mut number) = (["a", "b", "c"], 1u64);
    let mut random = |below: usize| {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (number >> 33) as usize % below
    };
    // Of each account the connections, with how many blocks each had at most, and the most that all of them
    // had together.
    let mut accounts: [(Vec<(ThreadRef, usize)>, usize); 3] = Default::default();
    for round in 0..800 {
        let at = random(3);
        let (open, most) = &mut accounts[at];
        match random(12) {
            choice if choice < open.len() => {
                let (gone, _) = open.remove(random(open.len()));
                rig.delete_thread(gone);
            }
            _ => {
                let (thread, count) = (rig.thread(), random(9));
                rig.set_thread_account(thread, names[at].as_bytes(), b"x");
                rig.on(thread, || use_memory(rig, count));
                open.push((thread, count));
            }
        }
        *most = open.iter().map(|(_, count)| count).sum::<usize>().max(*most);
        let rows = rig.memory_rows(Grouping::Account).into_iter().filter(|row| row.name == MEMORY);
        for Summary { owner, stat, .. } in rows {
            let Some(at) = names.iter().position(|name| owner.user.as_deref() == Some(name)) else {
                continue;
            };
            assert_eq!(stat.high_bytes, 10 * accounts[at].1 as i64, "{round}: {owner:?}");
        }
    }
}

#[test]
fn the_marks_of_many_that_come_and_go_stay_within_an_eighth() {
    let rig = Rig::new();
    let mut threads: VecDeque<ThreadRef> = (0..64).map(|_| connect_as(rig)).collect();
    threads.iter().for_each(|thread| rig.on(thread, || use_memory(rig, 1)));
    for _ in 0..500 {
        rig.delete_thread(threads.pop_front().expect("a thread"));
        threads.push_back(connect_as(rig));
        rig.on(threads[63], || use_memory(rig, 1));
        for (low, now, high) in marks(rig) {
            assert!(low == 0 && now == 0 && (640..=720).contains(&high), "{high}");
        }
    }
}

#[test]
fn a_reset_leaves_the_marks_of_what_is_above() {
    let rig = Rig::new();
    let thread = connect_as(rig);
    rig.on(thread, || use_memory(rig, 3));
    rig.reset(Reset::Memory(Grouping::Thread));
    assert_eq!(rig.thread_memory(thread, MEMORY).high_bytes, 0);
    assert_eq!(marks(rig), [(0, 0, 30); 4]);
    rig.on(thread, || use_memory(rig, 2));
    assert_eq!(marks(rig), [(0, 0, 30); 4]);
    rig.reset(Reset::Memory(Grouping::Account));
    assert_eq!(marks(rig), [(0, 0, 0), (0, 0, 30), (0, 0, 30), (0, 0, 30)]);
    rig.delete_thread(thread);
    rig.reset(Reset::Memory(Grouping::User));
    assert_eq!(marks(rig), [(0, 0, 0), (0, 0, 0), (0, 0, 30), (0, 0, 30)]);
    rig.reset(Reset::Memory(Grouping::Host));
    assert_eq!(marks(rig), [(0, 0, 0), (0, 0, 0), (0, 0, 0), (0, 0, 30)]);
    rig.reset(Reset::Memory(Grouping::Global));
    assert_eq!(marks(rig), [(0, 0, 0); 4]);
}
