//! Memory: balances, who is charged, resets that keep what is in use.

use tare_engine::snapshot::*;

use tare_rig::*;

#[test]
fn a_balance_has_its_high_water_mark() {
    let rig = Rig::new();
    let thread = rig.connect();
    for _ in 0..3 {
        assert!(rig.memory_alloc(rig.class.memory, 100).unwrap().is_some(), "owned by the thread");
    }
    for _ in 0..2 {
        rig.memory_free(rig.class.memory, 100);
    }
    let expected = MemoryStat {
        count_alloc: 3,
        count_free: 2,
        bytes_alloc: 300,
        bytes_free: 200,
        low_count: 0,
        current_count: 1,
        high_count: 3,
        low_bytes: 0,
        current_bytes: 100,
        high_bytes: 300,
    };
    assert_eq!(rig.thread_memory(thread, MEMORY), expected);
    assert_eq!(rig.global_memory(MEMORY), expected);
}

#[test]
fn a_reallocation_is_a_free_and_an_allocation() {
    let rig = Rig::new();
    let thread = rig.connect();
    rig.memory_alloc(rig.class.memory, 100);
    rig.memory_realloc(rig.class.memory, 100, 250);
    let stat = rig.thread_memory(thread, MEMORY);
    assert_eq!((stat.count_alloc, stat.count_free, stat.bytes_alloc, stat.bytes_free), (2, 1, 350, 100));
    assert_eq!((stat.current_count, stat.current_bytes), (1, 250));
    assert_eq!((stat.low_count, stat.high_count), (0, 1));
    // What another has allocated: never less of it in use than after the exchange.
    let other = rig.thread();
    rig.on(other, || _ = rig.memory_realloc(rig.class.memory, 250, 200));
    let stat = rig.thread_memory(other, MEMORY);
    assert_eq!((stat.low_count, stat.current_count, stat.high_count), (0, 0, 0));
    assert_eq!((stat.low_bytes, stat.current_bytes, stat.high_bytes), (-50, -50, 0));
}

#[test]
fn what_one_thread_allocates_another_may_free() {
    let rig = Rig::new();
    let (one, other) = (rig.thread(), rig.thread());
    rig.on(one, || rig.memory_alloc(rig.class.memory, 64));
    rig.on(other, || rig.memory_free(rig.class.memory, 64));
    assert_eq!(rig.thread_memory(one, MEMORY).current_bytes, 64);
    let stat = rig.thread_memory(other, MEMORY);
    assert_eq!((stat.current_bytes, stat.low_bytes), (-64, -64));
    let global = rig.global_memory(MEMORY);
    assert_eq!((global.count_alloc, global.count_free, global.current_bytes), (1, 1, 0));
    assert!(global.low_bytes <= 0 && global.high_bytes >= 64);
}

#[test]
fn memory_that_changes_hands_moves_from_one_to_the_other() {
    let rig = Rig::new();
    let (one, other) = (rig.thread(), rig.thread());
    let owner = rig.on(one, || rig.memory_alloc(rig.class.memory, 64)).unwrap();
    let owner = rig.on(other, || rig.memory_claim::<false>(rig.class.memory, 64, owner));
    assert!(owner.is_some_and(|owner| std::ptr::eq(owner, other)));
    assert_eq!(rig.thread_memory(other, MEMORY).current_bytes, 64);
    assert_eq!(rig.global_memory(MEMORY).current_bytes, 64);
    assert_eq!(rig.global_memory(MEMORY).current_count, 1);
    let owner = rig.on(other, || rig.memory_claim::<false>(rig.class.memory, 64, owner));
    assert!(owner.is_some());
    assert_eq!(rig.global_memory(MEMORY).count_alloc, 2, "its own memory is not claimed");
}

#[test]
fn the_servers_own_memory_is_no_threads() {
    let rig = Rig::new();
    let thread = rig.connect();
    assert!(rig.memory_alloc(rig.class.server_memory, 10).unwrap().is_none());
    rig.memory_free(rig.class.server_memory, 10);
    let rows = rig.memory_rows(Grouping::Thread);
    assert!(rows.iter().all(|row| row.name != SERVER_MEMORY), "no row of {}", thread.thread_id());
    let global = rig.global_memory(SERVER_MEMORY);
    assert_eq!((global.count_alloc, global.count_free, global.high_bytes), (1, 1, 10));
}

#[test]
fn a_free_is_counted_whatever_is_switched_off_meanwhile() {
    let rig = Rig::new();
    rig.connect();
    rig.memory_alloc(rig.class.memory, 10);
    rig.set_instrument(rig.class.memory, Some(false), None);
    assert!(rig.memory_alloc(rig.class.memory, 10).is_none());
    rig.memory_free(rig.class.memory, 10);
    assert_eq!(rig.global_memory(MEMORY).current_bytes, 0);
    assert_eq!(rig.global_memory(MEMORY).count_free, 1);
}

#[test]
fn what_an_ended_thread_did_counts_on_and_its_peak_is_not_forgotten() {
    let rig = Rig::new();
    let thread = rig.connect();
    for _ in 0..5 {
        rig.memory_alloc(rig.class.memory, 100);
    }
    for _ in 0..4 {
        rig.memory_free(rig.class.memory, 100);
    }
    let before = rig.global_memory(MEMORY);
    rig.delete_thread(thread);
    let after = rig.global_memory(MEMORY);
    assert_eq!((after.count_alloc, after.count_free), (5, 4));
    assert_eq!((after.current_count, after.current_bytes), (1, 100));
    assert_eq!((after.high_count, after.high_bytes), (before.high_count, before.high_bytes));
    rig.connect();
    rig.memory_free(rig.class.memory, 100);
    assert_eq!(rig.global_memory(MEMORY).current_bytes, 0);
}

#[test]
fn a_global_reset_keeps_what_is_in_use() {
    let rig = Rig::new();
    let thread = rig.connect();
    for _ in 0..5 {
        rig.memory_alloc(rig.class.memory, 100);
    }
    for _ in 0..3 {
        rig.memory_free(rig.class.memory, 100);
    }
    let kept = MemoryStat {
        count_alloc: 2,
        bytes_alloc: 200,
        low_count: 2,
        current_count: 2,
        high_count: 2,
        low_bytes: 200,
        current_bytes: 200,
        high_bytes: 200,
        ..MemoryStat::default()
    };
    rig.reset(Reset::Memory(Grouping::Global));
    assert_eq!(rig.thread_memory(thread, MEMORY), kept, "before the thread's next event");
    assert_eq!(rig.global_memory(MEMORY), kept);
    rig.memory_alloc(rig.class.memory, 1);
    let stat = rig.thread_memory(thread, MEMORY);
    assert_eq!((stat.count_alloc, stat.bytes_alloc, stat.count_free), (3, 201, 0));
    assert_eq!((stat.low_bytes, stat.current_bytes, stat.high_bytes), (200, 201, 201));
    assert_eq!(rig.global_memory(MEMORY), stat);
}

#[test]
fn a_reset_by_thread_leaves_the_global_figures() {
    let rig = Rig::new();
    let thread = rig.connect();
    for _ in 0..5 {
        rig.memory_alloc(rig.class.memory, 100);
    }
    for _ in 0..3 {
        rig.memory_free(rig.class.memory, 100);
    }
    let sums = |stat: MemoryStat| (stat.count_alloc, stat.count_free, stat.bytes_alloc, stat.bytes_free);
    let before = rig.global_memory(MEMORY);
    rig.reset(Reset::Memory(Grouping::Thread));
    assert_eq!(sums(rig.thread_memory(thread, MEMORY)), (2, 0, 200, 0));
    assert_eq!(sums(rig.global_memory(MEMORY)), sums(before));
    rig.memory_alloc(rig.class.memory, 100);
    rig.memory_free(rig.class.memory, 100);
    assert_eq!(sums(rig.thread_memory(thread, MEMORY)), (3, 1, 300, 100));
    assert_eq!(sums(rig.global_memory(MEMORY)), (6, 4, 600, 400));
    rig.delete_thread(thread);
    assert_eq!(sums(rig.global_memory(MEMORY)), (6, 4, 600, 400));
    assert_eq!(rig.global_memory(MEMORY).current_bytes, 200);
}

/// A stock server hands in keys of other kinds (`FLUSH TABLES WITH READ LOCK` does).
#[test]
fn a_key_of_another_kind_is_not_counted_as_memory() {
    let rig = Rig::new();
    let thread = rig.connect();
    let (mutex, before) = (rig.class.mutex, rig.thread_wait(thread, MUTEX));
    assert!(rig.memory_alloc(mutex, 32).is_none());
    rig.memory_free(mutex, 32);
    rig.memory_claim::<false>(mutex, 32, None);
    assert!(rig.memory_realloc(mutex, 32, 64).is_none());
    assert_eq!(rig.thread_wait(thread, MUTEX), before);
}

/// What MySQL does: an account does not keep what its ended threads had.
#[test]
fn memory_that_is_disowned_stays_in_the_whole_and_leaves_the_account() {
    let rig = Rig::new();
    let thread = rig.connect();
    rig.set_thread_account(thread, b"ann", b"home");
    for _ in 0..5 {
        rig.memory_alloc(rig.class.memory, 100);
    }
    for _ in 0..3 {
        rig.memory_free(rig.class.memory, 100);
    }
    rig.disown_memory(thread);
    assert_eq!(rig.thread_memory(thread, MEMORY).current_bytes, 0);
    let whole = rig.global_memory(MEMORY);
    assert_eq!((whole.count_alloc, whole.count_free, whole.current_count), (5, 3, 2));
    rig.delete_thread(thread);
    let of_account = rig.memory_rows(Grouping::Account).into_iter().filter(|row| row.name == MEMORY);
    let stats: Vec<_> = of_account.map(|row| (row.stat.count_alloc, row.stat.current_bytes)).collect();
    assert!(stats.contains(&(3, 0)) && stats.iter().all(|(_, bytes)| *bytes == 0), "{stats:?}");
    let whole = rig.global_memory(MEMORY);
    assert_eq!((whole.count_alloc, whole.count_free, whole.current_bytes), (5, 3, 200));
    rig.memory_free_unowned(rig.class.memory, 100);
    rig.memory_free_unowned(rig.class.memory, 100);
    assert_eq!(rig.global_memory(MEMORY).current_bytes, 0);
}

#[test]
fn memory_without_an_owner_counts_if_it_is_the_servers_or_threads_are_not_instrumented() {
    let rig = Rig::new();
    rig.connect();
    assert!(rig.memory_alloc_unowned(rig.class.server_memory, 10));
    assert!(
        !rig.memory_alloc_unowned(rig.class.memory, 10),
        "it belongs to a thread, but to none that is known"
    );
    rig.set_consumer(Consumer::ThreadInstrumentation, false);
    assert!(rig.memory_alloc_unowned(rig.class.memory, 10));
    rig.set_instrument(rig.class.memory, Some(false), None);
    assert!(!rig.memory_alloc_unowned(rig.class.memory, 10));
    rig.memory_disowned(rig.class.memory, 5);
    let whole = rig.global_memory(MEMORY);
    assert_eq!((whole.count_alloc, whole.bytes_alloc), (2, 15));
}

/// The fast paths of a host that knows the calling thread count as the others do.
#[test]
fn a_host_may_name_the_calling_thread() {
    let rig = Rig::new();
    let thread = rig.connect();
    assert!(!rig.memory_alloc_own(thread, rig.class.memory, 30), "there is no cell yet");
    rig.memory_alloc(rig.class.memory, 30);
    assert!(rig.memory_alloc_own(thread, rig.class.memory, 40));
    assert!(rig.memory_free_own(thread, rig.class.memory, 30));
    let stat = rig.thread_memory(thread, MEMORY);
    assert_eq!((stat.count_alloc, stat.count_free, stat.current_bytes, stat.high_bytes), (2, 1, 40, 70));
    rig.set_instrument(rig.class.memory, Some(false), None);
    assert!(!rig.memory_alloc_own(thread, rig.class.memory, 40));
    assert!(rig.memory_free_own(thread, rig.class.memory, 40), "what was counted");
}

/// A host that knows an instrument's switches counts without asking for them.
#[test]
fn a_host_may_know_the_instrument() {
    let rig = Rig::new();
    let thread = rig.connect();
    assert!(!rig.memory_alloc_known(thread, rig.class.memory, 30), "there is no cell yet");
    rig.memory_alloc(rig.class.memory, 30);
    assert!(rig.memory_alloc_known(thread, rig.class.memory, 40));
    assert!(rig.memory_free_known(thread, rig.class.memory, 30));
    let stat = rig.thread_memory(thread, MEMORY);
    assert_eq!((stat.count_alloc, stat.count_free, stat.current_bytes, stat.high_bytes), (2, 1, 40, 70));
    assert!(rig.is_memory_of_threads(rig.class.memory));
    for other in [rig.class.server_memory, rig.class.mutex] {
        assert!(!rig.is_memory_of_threads(other));
    }
}
