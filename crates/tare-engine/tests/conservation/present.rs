//! What a thread is doing, in several tables: rows of one moment, while it goes on.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tare_engine::snapshot::*;

use tare_rig::*;

/// Statements, each with enough waits to be there for a while, until it is told to stop.
fn work(rig: Rig, thread: tare_engine::ThreadRef, is_over: &AtomicBool) {
    rig.on(thread, || {
        while !is_over.load(Relaxed) {
            rig.statement(rig.class.statement, "SELECT 1", |_| {
                for _ in 0..2000 {
                    rig.wait(rig.class.mutex);
                }
            });
        }
    });
}

/// Whether a wait was, or is, a thread's last one while a statement was its last one: one of its own or,
/// while it lasts, one from before its first.
fn are_of_one_moment(wait: &EventHead, statement: &EventHead) -> bool {
    match wait.nesting {
        Some((of, EventType::Statement)) if of < statement.event_id => statement.end_event_id.is_none(),
        of => of == Some((statement.event_id, EventType::Statement)),
    }
}

/// Says that it is over when the one who looks is done, or has failed.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn a_wait_and_its_statement_are_of_one_moment() {
    let rig = Rig::new();
    let thread = rig.thread();
    let id = rig.threads()[0].thread_id;
    let mut tables = PresentTables::default();
    for table in [PresentTable::Threads, PresentTable::Statements, PresentTable::Waits] {
        tables.add(table);
    }
    let is_over = AtomicBool::new(false);
    let (mut inside, mut seen) = (0, std::collections::BTreeSet::new());
    std::thread::scope(|scope| {
        scope.spawn(|| work(rig, thread, &is_over));
        let _over = Over(&is_over);
        let mut looks = 0;
        // Until enough was seen: of many statements, and of each how its waits go on.
        while looks < 500 || seen.len() < 10 {
            looks += 1;
            let present = rig.present(id, tables);
            assert_eq!(present.threads.len(), 1);
            assert_eq!((present.stages.len(), present.transactions.len()), (0, 0), "nobody asked for them");
            let ([wait], [statement]) = (&*present.waits, &*present.statements) else { continue };
            assert!(are_of_one_moment(&wait.head, &statement.head), "{wait:?}\n{statement:?}");
            inside += usize::from(wait.head.event_id > statement.head.event_id);
            seen.insert(statement.head.event_id);
        }
    });
    assert!(inside > 20, "{inside}");
}

#[test]
fn a_thread_that_has_ended_does_nothing() {
    let rig = Rig::new();
    let thread = rig.thread();
    rig.on(thread, || rig.query("SELECT 1"));
    let [id] = rig.live_thread_ids()[..] else { panic!("one thread") };
    let mut tables = PresentTables::default();
    tables.add(PresentTable::Statements);
    assert!(
        !tables.are_several() && tables.has(PresentTable::Statements) && !tables.has(PresentTable::Waits)
    );
    let present = rig.present(id, tables);
    assert_eq!(present.statements.len(), 1);
    assert!(present.size() > size_of::<StatementRow>(), "with its text");
    rig.delete_thread(thread);
    assert_eq!((rig.present(id, tables).statements.len(), rig.live_thread_ids().len()), (0, 0));
}
