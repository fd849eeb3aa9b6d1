//! Slots of the function table that lead elsewhere while nobody wants events of their kind: then nothing is asked, and what is
//! off costs the call. (Of stages that is so once none is in progress: until then each is its thread's state.) While some
//! instruments of a kind are off, slots may lead to a function that sifts: it asks first whether the event's is, and goes on as
//! usual if not. While none of a kind is recorded, they may lead to one that only sums up.
//!
//! Calls by name go through the same slots (`startup::direct_calls`). Most lead to [`nothing`], one function for all of them, so
//! that its line of code is at hand.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use tare_engine::Demand;
use tare_engine::snapshot::Kind;

use super::{ENGINE, socket, stage, statement, synch, table};
use crate::abi::{v10_6, v10_11, v11_4, v11_8};

/// A slot, and where it leads.
pub(super) struct Lead {
    kind: Kind,
    slot: &'static AtomicPtr<c_void>,
    wanted: *mut c_void,
    /// Where it leads while none is recorded.
    summed: *mut c_void,
    /// Where it leads while some instruments are off, or sampled.
    sifted: *mut c_void,
    /// Where it leads while all are sampled.
    sampled: *mut c_void,
    unwanted: *mut c_void,
}

// SAFETY: the pointers are functions' addresses, which are only stored.
unsafe impl Send for Lead {}
// SAFETY: as above.
unsafe impl Sync for Lead {}

static LEADS: OnceLock<Vec<Lead>> = OnceLock::new();

/// What the server gets where nobody wants an event: no locker, so that it does not tell how it ends. It stands for functions of
/// any arguments: where these are is the caller's concern.
extern "C" fn nothing() -> *mut c_void {
    null_mut()
}

/// A function table of a series.
pub(super) trait Table: 'static {
    /// The slots that lead elsewhere.
    fn leads(&'static mut self) -> Vec<Lead>;
}

macro_rules! leads {
    ($($slot:ident, $kind:ident => {$($state:ident: $function:path),*};)*) => {
        leads!(v10_6, v10_11, v11_4, v11_8: {$($slot, $kind => {$($state: $function),*};)*});
    };
    ($($series:ident),*: $slots:tt) => {$(leads!(@$series $slots);)*};
    (@$series:ident {$($slot:ident, $kind:ident => {$($state:ident: $function:path),*};)*}) => {
        impl Table for $series::Vtable {
            fn leads(&'static mut self) -> Vec<Lead> {
                vec![$({
                    let as_it_is = self.$slot as *mut c_void;
                    // SAFETY: a function pointer of a table that stays; from here on nobody but `Lead` writes to it.
                    let slot = unsafe { AtomicPtr::from_ptr((&raw mut self.$slot).cast()) };
                    Lead { $($state: $function as *mut c_void,)* ..Lead::to(Kind::$kind, slot, as_it_is) }
                }),*]
            }
        }
    };
}

// What begins an event returns null where it is not wanted, and what is told then returns nothing.
leads! {
    start_stage, Stage => {
        unwanted: stage::pass_stage, sifted: stage::sift_stage, summed: stage::sum_stage, sampled: stage::sample_stage
    };
    end_stage, Stage => {
        unwanted: stage::pass_no_stage, sifted: stage::pass_no_stage, summed: stage::end_unrecorded_stage,
        sampled: stage::end_sampled_stage
    };
    get_thread_statement_locker, Statement => {sifted: statement::sift_statement};
    get_thread_transaction_locker, Transaction => {};
    start_idle_wait, Idle => {sampled: socket::sample_idle_wait};
    start_socket_wait, Socket => {sifted: socket::sift_socket_wait, sampled: socket::sample_socket_wait};
    start_table_io_wait, TableIo => {sampled: table::sample_table_io_wait};
    end_table_io_wait, TableIo => {unwanted: table::end_table_io_wait, sampled: table::end_sampled_table_io_wait};
    start_metadata_wait, Metadata => {};
    get_thread_file_name_locker, File => {};
    get_thread_file_stream_locker, File => {};
    start_mutex_wait, Mutex => {};
    unlock_mutex, Mutex => {sifted: synch::sift_unlocked_mutex, sampled: synch::unlock_sampled_mutex};
    start_rwlock_rdwait, Rwlock => {sifted: synch::sift_rwlock_wait, sampled: synch::sample_rwlock_wait};
    start_rwlock_wrwait, Rwlock => {sifted: synch::sift_rwlock_wait, sampled: synch::sample_rwlock_wait};
    unlock_rwlock, Rwlock => {sifted: synch::sift_unlocked_rwlock, sampled: synch::unlock_sampled_rwlock};
    start_cond_wait, Cond => {};
}

impl Lead {
    /// A slot that leads to a function as it is, or nowhere where nobody wants its events.
    fn to(kind: Kind, slot: &'static AtomicPtr<c_void>, wanted: *mut c_void) -> Lead {
        let unwanted = nothing as *mut c_void;
        Lead { kind, slot, wanted, summed: wanted, sifted: wanted, sampled: wanted, unwanted }
    }

    fn decide(&self, demand: Demand) {
        let to = match demand {
            Demand::Nothing => self.unwanted,
            Demand::Some => self.sifted,
            Demand::Sums => self.summed,
            Demand::Sampled => self.sampled,
            Demand::All => self.wanted,
        };
        self.slot.store(to, Relaxed);
    }
}

/// Begins a line: slots that are read one after the other are on few.
#[repr(align(64))]
struct OnLines<T>(T);

/// Keeps a function table for good, whose slots lead where [`decide`] says from now on. Wherever they lead, it is right whenever it
/// is called. Once.
pub(super) fn keep<T: Table>(table: T) -> *const c_void {
    let table = std::ptr::from_mut(&mut Box::leak(Box::new(OnLines(table))).0);
    // SAFETY: the table is there for good, and this is all that refers to it.
    let leads = LEADS.get_or_init(|| unsafe { &mut *table }.leads());
    leads.iter().for_each(|lead| lead.decide(ENGINE.demand(lead.kind)));
    if ENGINE.are_stages_untold() {
        leave_stages_untold();
    }
    table.cast_const().cast()
}

/// So much is wanted of the events of a kind from now on.
pub(crate) fn decide(kind: Kind, demand: Demand) {
    LEADS.get().into_iter().flatten().filter(|lead| lead.kind == kind).for_each(|lead| lead.decide(demand));
}

/// Nobody hears of stages until some are wanted.
pub(crate) fn leave_stages_untold() {
    let stages = LEADS.get().into_iter().flatten().filter(|lead| lead.kind == Kind::Stage);
    stages.for_each(|lead| lead.slot.store(nothing as *mut c_void, Relaxed));
}

/// Whether a slot may lead elsewhere later.
pub(crate) fn may_change(slot: *const usize) -> bool {
    LEADS.get().into_iter().flatten().any(|lead| lead.slot.as_ptr().addr() == slot.addr())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Series;
    use crate::options::Options;

    #[test]
    fn a_slot_leads_to_what_asks_no_more_than_is_wanted() {
        let table: *const usize = super::super::vtable(Series::V10_11, &Options::defaults()).cast();
        let slot = |name| {
            let at = Series::V10_11.slot_names().iter().position(|slot| *slot == name).expect("a slot");
            table.wrapping_add(at)
        };
        // SAFETY: a slot of the table, which stays.
        let leads_to =
            |name| unsafe { AtomicPtr::from_ptr(slot(name).cast_mut().cast::<*mut c_void>()) }.load(Relaxed);
        let nothing = nothing as *mut c_void;
        let (unlock, wait) = ("unlock_mutex", "start_rwlock_rdwait");
        assert_eq!((leads_to(unlock), leads_to(wait)), (nothing, nothing), "no engine is there");
        decide(Kind::Mutex, Demand::All);
        assert!(leads_to(unlock) != nothing && leads_to(wait) == nothing);
        decide(Kind::Mutex, Demand::Nothing);
        assert_eq!(leads_to(unlock), nothing);
        let (sift, start) = (stage::sift_stage as *mut c_void, stage::start_stage as *mut c_void);
        let [sum, pass] = [stage::sum_stage as *mut c_void, stage::pass_stage as *mut c_void];
        for (demand, expected) in
            [(Demand::Some, sift), (Demand::Sums, sum), (Demand::All, start), (Demand::Nothing, pass)]
        {
            decide(Kind::Stage, demand);
            assert_eq!(leads_to("start_stage"), expected, "{demand:?}");
        }
        leave_stages_untold();
        assert_eq!([leads_to("start_stage"), leads_to("end_stage")], [nothing; 2]);
        decide(Kind::Stage, Demand::Some);
        assert_eq!(leads_to("start_stage"), sift, "one is wanted again");
        assert!(
            may_change(slot(unlock)) && may_change(slot("end_stage")) && !may_change(slot("end_mutex_wait"))
        );
        assert_eq!(table.addr() % 64, 0, "it begins a line");
    }
}
