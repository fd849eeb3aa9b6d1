//! Threads that come and go by the thousand.

use tare_engine::snapshot::{Grouping, Scope};
use tare_engine::{WaitObject, operation};

use crate::rows::*;
use tare_rig::*;

/// Some threads at once, many one after the other, while somebody reads.
fn churn(rig: Rig, things: &RowThings, cycles: u64) -> Issued {
    let one = |worker: u64| {
        let mut random = RowRandom::new(worker + 1);
        let mut issued = Issued::default();
        for _ in 0..cycles {
            let own = OwnRows::connect(rig, things);
            for _ in 0..random.below(30) {
                event(rig, things, &own, &mut random, &mut issued);
            }
            own.disconnect(rig);
        }
        issued
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4).map(|worker| scope.spawn(move || one(worker))).collect();
        for _ in 0..20 {
            check(rig);
        }
        let mut total = Issued::default();
        workers.into_iter().for_each(|worker| total.add(worker.join().expect("a worker")));
        total
    })
}

#[test]
fn memory_returns_to_where_it_was_and_counts_add_up() {
    let rig = Rig::with(tare_engine::Config { memory_max: 32 << 20, ..small() });
    let things = RowThings::new(rig);
    // Once, so that histories, digests and pools are as full as they get.
    let mut issued = churn(rig, &things, 600);
    let before = rig.memory().0;
    for _ in 0..3 {
        issued.add(churn(rig, &things, 600));
    }
    for level in ABOVE_THREADS {
        assert_eq!(Issued::at(rig, level), issued, "{level:?}");
    }
    for level in [Grouping::Account, Grouping::User, Grouping::Host] {
        let rows = rig.connections(level);
        assert!(rows.iter().all(|row| row.current == 0), "{rows:?}");
        assert_eq!(rows.iter().map(|row| row.total).sum::<u64>(), 4 * 4 * 600, "{rows:?}");
    }
    assert!(rig.threads().is_empty());
    // Pools keep the slots of the most that ever lived at once, which differs from run to run.
    let spare = 64 * 4096;
    assert!(rig.memory().0 <= before + spare, "{} then, {} now", before, rig.memory().0);
    assert_eq!(rig.losses(), 0, "{:?}", rig.lost());
    check(rig);
}

/// A slab is used anew while who reads puts them in order: an order whose keys change would be none.
#[test]
fn threads_are_read_in_order_while_slabs_change_hands() {
    let rig = Rig::with(small());
    let round = |worker| {
        let mut random = RowRandom::new(worker);
        // Many at once, which end in another order than they began in.
        let mut threads: Vec<_> = (0..32).map(|_| rig.connect()).collect();
        while !threads.is_empty() {
            let thread = threads.swap_remove(random.below(threads.len() as u64) as usize);
            rig.set_current_thread(Some(thread));
            rig.set_current_thread(None);
            rig.delete_thread(thread);
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> =
            (0..4).map(|worker| scope.spawn(move || (0..500).for_each(|_| round(worker)))).collect();
        while workers.iter().any(|worker| !worker.is_finished()) {
            rig.connect_attributes();
        }
    });
    assert!(rig.threads().is_empty());
}

/// A wait in progress names the thread that waits, also where its slab has had another one since it was
/// looked for.
#[test]
fn a_wait_in_progress_is_its_threads() {
    let rig = Rig::with(small());
    let one = || {
        for _ in 0..20_000 {
            let thread = rig.connect();
            let object = WaitObject::new(thread.thread_id() as usize, operation::MUTEX);
            let wait = rig.start_wait(rig.class.mutex, object, here());
            assert!(wait.is_some());
            rig.set_current_thread(None);
            rig.delete_thread(thread);
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(one)).collect();
        while workers.iter().any(|worker| !worker.is_finished()) {
            for row in rig.waits(Scope::Current) {
                assert_eq!(row.object_instance_begin, row.head.thread_id, "{row:?}");
            }
        }
    });
}
