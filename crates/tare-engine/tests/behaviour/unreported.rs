//! Stages that the host tells nothing of while all their instruments are off, as it knows itself which one a
//! session is in.

use std::sync::atomic::Ordering::Relaxed;

use tare_engine::snapshot::*;
use tare_engine::*;

use tare_rig::*;

/// A rig whose host knows the stages of its sessions.
fn knowing() -> Rig {
    let rig = Rig::new();
    rig.host.knows_stages.store(true, Relaxed);
    rig
}

/// A stage begins, as a host does it: it knows, and tells of it unless it need not. 0: none does, and the one
/// before ends.
fn stage(rig: Rig, class: ClassId) {
    let thread = rig.current_thread().expect("a thread");
    rig.host.stages.lock().expect("no panic").insert(thread.thread_id(), u32::from(class));
    if rig.are_stages_unreported() {
        return;
    }
    if rig.has_demand(Kind::Stage) || matches!(rig.pass_stage_fast(class), Start::Slow) {
        rig.stage(class);
    }
}

fn switch(rig: Rig, on: bool) {
    for class in [rig.class.stage, rig.class.stage_two, rig.class.stage_with_progress] {
        rig.set_instrument(class, Some(on), None);
    }
}

/// A thread with a session.
fn session(rig: Rig) -> ThreadRef {
    let thread = rig.thread();
    rig.begin_session(thread, thread.thread_id());
    thread
}

fn state(rig: Rig, thread: ThreadRef) -> Option<String> {
    let row = rig.threads().into_iter().find(|row| row.thread_id == thread.thread_id());
    row.expect("it lives").state
}

#[test]
fn the_host_tells_of_none_once_the_last_one_has_ended() {
    let rig = knowing();
    let (one, two) = (session(rig), session(rig));
    for thread in [one, two] {
        rig.on(thread, || stage(rig, rig.class.stage));
    }
    switch(rig, false);
    assert!(!rig.are_stages_unreported(), "two are in progress");
    rig.on(one, || stage(rig, rig.class.stage_two));
    assert!(!rig.are_stages_unreported() && !rig.host.unreported.load(Relaxed), "one is");
    rig.on(two, || stage(rig, rig.class.stage_two));
    assert!(rig.are_stages_unreported() && rig.host.unreported.load(Relaxed));
    assert_eq!([one, two].map(|thread| rig.thread_stage(thread, STAGE).count), [1; 2]);
    let three = session(rig);
    rig.on(one, || stage(rig, rig.class.stage));
    rig.on(two, || stage(rig, 0));
    rig.on(three, || stage(rig, rig.class.stage_two));
    let states = || [one, two, three].map(|thread| state(rig, thread));
    let expected = ["one", "", "two"].map(|state| (!state.is_empty()).then(|| state.to_owned()));
    assert_eq!(states(), expected);
    switch(rig, true);
    assert!(!rig.are_stages_unreported() && !rig.host.unreported.load(Relaxed));
    // None has told of a stage since.
    assert_eq!(states(), expected);
    // One looks anew, for another event: that is no stage, either.
    rig.on(one, || rig.wait(rig.class.mutex));
    assert_eq!(states(), expected);
    rig.on(one, || stage(rig, rig.class.stage_two));
    rig.on(one, || stage(rig, 0));
    assert_eq!((states()[0].as_deref(), rig.thread_stage(one, STAGE_TWO).count), (None, 1));
    assert_eq!(rig.thread_stage(one, STAGE).count, 1, "nobody told of it");
}

#[test]
fn a_thread_that_ends_in_the_last_one_is_the_last() {
    let rig = knowing();
    let (one, two) = (session(rig), session(rig));
    rig.on(one, || stage(rig, rig.class.stage));
    switch(rig, false);
    assert!(!rig.are_stages_unreported());
    rig.delete_thread(two);
    assert!(!rig.are_stages_unreported());
    rig.delete_thread(one);
    assert!(rig.are_stages_unreported());
}

#[test]
fn a_host_that_does_not_know_goes_on() {
    let rig = Rig::new();
    let thread = session(rig);
    rig.set_current_thread(Some(thread));
    switch(rig, false);
    assert!(!rig.are_stages_unreported());
    stage(rig, rig.class.stage);
    assert_eq!(state(rig, thread).as_deref(), Some("one"));
    switch(rig, true);
    assert_eq!(state(rig, thread).as_deref(), Some("one"));
}

#[test]
fn a_thread_whose_session_is_not_told_has_one_at_its_place() {
    let rig = knowing();
    let thread = rig.thread();
    switch(rig, false);
    rig.on(thread, || stage(rig, rig.class.stage));
    assert_eq!(state(rig, thread), None, "it has no place");
    rig.set_thread_place(thread, thread.thread_id());
    assert_eq!(state(rig, thread).as_deref(), Some("one"));
    rig.delete_thread(thread);
    let next = rig.thread();
    rig.on(next, || stage(rig, rig.class.stage));
    assert_eq!(state(rig, next), None, "it is another thread's");
}

#[test]
fn a_stage_of_no_instrument_is_none() {
    let rig = knowing();
    let thread = session(rig);
    switch(rig, false);
    for odd in [u32::MAX, 1 << 16 | u32::from(rig.class.stage), u32::from(rig.class.mutex), 60_000] {
        rig.host.stages.lock().expect("no panic").insert(thread.thread_id(), odd);
        assert_eq!(state(rig, thread), None, "{odd}");
    }
    rig.host.stages.lock().expect("no panic").clear();
    assert_eq!(state(rig, thread), None, "it is another session by now");
}
