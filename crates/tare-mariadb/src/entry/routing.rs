//! Slot routing: the slots of the function table change their targets with the demand for events of their
//! kind. Slots of disabled instruments point to a no-op, so a disabled kind costs one call that returns
//! immediately. (For stages this holds once none is in progress; until then each stage is also its thread's
//! state.) If only some instruments of a kind are off, slots may point to a filtered path, which first checks
//! the event's instrument. If none of a kind is recorded, they may point to a function that only sums.
//!
//! Calls by name use the same slots (`jumps::direct_calls`). Most disabled slots point to [`nothing`], one
//! function for all of them, so that its cache line stays warm.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use tare_engine::Demand;
use tare_engine::snapshot::Kind;
use tare_host::process::ENGINE;

use super::{socket, stage, statement, synch, table};
use crate::abi::{vtable_135, vtable_136};

/// A slot and its possible targets.
pub(super) struct SlotRoute {
    kind: Kind,
    slot: &'static AtomicPtr<c_void>,
    /// The target while all instruments are recorded.
    recorded: *mut c_void,
    /// The target while no instrument is recorded.
    summed: *mut c_void,
    /// The target while some instruments are off or sampled.
    filtered: *mut c_void,
    /// The target while all instruments are sampled.
    sampled: *mut c_void,
    /// The target while all instruments are off.
    off: *mut c_void,
}

// SAFETY: the pointers are functions' addresses, which are only stored.
unsafe impl Send for SlotRoute {}
// SAFETY: as above.
unsafe impl Sync for SlotRoute {}

static ROUTES: OnceLock<Vec<SlotRoute>> = OnceLock::new();

/// Returns null, the result for an event of a disabled instrument: without a locker the server does not
/// report the end. Stands in for functions of any arguments, which are the caller's concern under the C
/// calling convention.
extern "C" fn nothing() -> *mut c_void {
    null_mut()
}

/// A function table in one of the layouts.
pub(super) trait RoutedTable: 'static {
    /// Returns the slots that are routed.
    fn routes(&'static mut self) -> Vec<SlotRoute>;
}

macro_rules! routes {
    ($($slot:ident, $kind:ident => {$($state:ident: $function:path),*};)*) => {
        routes!(vtable_135, vtable_136: {$($slot, $kind => {$($state: $function),*};)*});
    };
    ($($layout:ident),*: $slots:tt) => {$(routes!(@$layout $slots);)*};
    (@$layout:ident {$($slot:ident, $kind:ident => {$($state:ident: $function:path),*};)*}) => {
        impl RoutedTable for $layout::Vtable {
            fn routes(&'static mut self) -> Vec<SlotRoute> {
                vec![$({
                    let as_it_is = self.$slot as *mut c_void;
                    // SAFETY: a function pointer of a table that is never freed; from here on only
                    // `SlotRoute` writes to it.
                    let slot = unsafe { AtomicPtr::from_ptr((&raw mut self.$slot).cast()) };
                    SlotRoute { $($state: $function as *mut c_void,)* ..SlotRoute::to(Kind::$kind, slot, as_it_is) }
                }),*]
            }
        }
    };
}

// A function that begins an event of a disabled instrument returns null, and one that only notes something
// returns nothing.
routes! {
    start_stage, Stage => {
        off: stage::pass_stage, filtered: stage::filter_stage, summed: stage::sum_stage, sampled: stage::sample_stage
    };
    end_stage, Stage => {
        off: stage::pass_no_stage, filtered: stage::pass_no_stage, summed: stage::end_unrecorded_stage,
        sampled: stage::end_sampled_stage
    };
    get_thread_statement_locker, Statement => {filtered: statement::filter_statement};
    get_thread_transaction_locker, Transaction => {};
    start_idle_wait, Idle => {sampled: socket::sample_idle_wait};
    start_socket_wait, Socket => {filtered: socket::filter_socket_wait, sampled: socket::sample_socket_wait};
    start_table_io_wait, TableIo => {sampled: table::sample_table_io_wait};
    end_table_io_wait, TableIo => {off: table::end_table_io_wait, sampled: table::end_sampled_table_io_wait};
    start_metadata_wait, Metadata => {};
    get_thread_file_name_locker, File => {};
    get_thread_file_stream_locker, File => {};
    start_mutex_wait, Mutex => {};
    unlock_mutex, Mutex => {filtered: synch::filter_unlocked_mutex, sampled: synch::unlock_sampled_mutex};
    start_rwlock_rdwait, Rwlock => {filtered: synch::filter_rwlock_wait, sampled: synch::sample_rwlock_wait};
    start_rwlock_wrwait, Rwlock => {filtered: synch::filter_rwlock_wait, sampled: synch::sample_rwlock_wait};
    unlock_rwlock, Rwlock => {filtered: synch::filter_unlocked_rwlock, sampled: synch::unlock_sampled_rwlock};
    start_cond_wait, Cond => {};
}

impl SlotRoute {
    /// Creates a route with one target while any instrument is on, and the no-op while all are off.
    fn to(kind: Kind, slot: &'static AtomicPtr<c_void>, recorded: *mut c_void) -> SlotRoute {
        let off = nothing as *mut c_void;
        SlotRoute { kind, slot, recorded, summed: recorded, filtered: recorded, sampled: recorded, off }
    }

    fn decide(&self, demand: Demand) {
        let to = match demand {
            Demand::Nothing => self.off,
            Demand::Some => self.filtered,
            Demand::Sums => self.summed,
            Demand::Sampled => self.sampled,
            Demand::All => self.recorded,
        };
        self.slot.store(to, Relaxed);
    }
}

/// Alignment to a cache line: slots that are read together share few lines.
#[repr(align(64))]
struct OnLines<T>(T);

/// Leaks a function table whose slots [`decide`] routes from now on. Every target is correct at any time,
/// whenever it is called. Call it once.
pub(super) fn keep<T: RoutedTable>(table: T) -> *const c_void {
    let table = std::ptr::from_mut(&mut Box::leak(Box::new(OnLines(table))).0);
    // SAFETY: the table is never freed, and this is the only reference to it.
    let routes = ROUTES.get_or_init(|| unsafe { &mut *table }.routes());
    routes.iter().for_each(|route| route.decide(ENGINE.demand(route.kind)));
    if ENGINE.are_stages_unreported() {
        stop_reporting_stages();
    }
    table.cast_const().cast()
}

/// Routes the slots of a kind according to the demand for its events.
pub(crate) fn decide(kind: Kind, demand: Demand) {
    ROUTES
        .get()
        .into_iter()
        .flatten()
        .filter(|route| route.kind == kind)
        .for_each(|route| route.decide(demand));
}

/// Points the slots of stages to the no-op until some stages are wanted.
pub(crate) fn stop_reporting_stages() {
    let stages = ROUTES.get().into_iter().flatten().filter(|route| route.kind == Kind::Stage);
    stages.for_each(|route| route.slot.store(nothing as *mut c_void, Relaxed));
}

/// Returns whether a slot may be routed elsewhere later.
pub(crate) fn may_change(slot: *const usize) -> bool {
    ROUTES.get().into_iter().flatten().any(|route| route.slot.as_ptr().addr() == slot.addr())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Series;
    use tare_host::options::Options;

    #[test]
    fn a_slot_points_to_what_the_demand_needs() {
        let table: *const usize = super::super::vtable(Series::V10_11, &Options::defaults()).cast();
        let slot = |name| {
            let at = Series::V10_11.slot_names().iter().position(|slot| *slot == name).expect("a slot");
            table.wrapping_add(at)
        };
        // SAFETY: a slot of the table, which is never freed.
        let target_of =
            |name| unsafe { AtomicPtr::from_ptr(slot(name).cast_mut().cast::<*mut c_void>()) }.load(Relaxed);
        let nothing = nothing as *mut c_void;
        let (unlock, wait) = ("unlock_mutex", "start_rwlock_rdwait");
        assert_eq!((target_of(unlock), target_of(wait)), (nothing, nothing), "no engine is there");
        decide(Kind::Mutex, Demand::All);
        assert!(target_of(unlock) != nothing && target_of(wait) == nothing);
        decide(Kind::Mutex, Demand::Nothing);
        assert_eq!(target_of(unlock), nothing);
        let (filter, start) = (stage::filter_stage as *mut c_void, stage::start_stage as *mut c_void);
        let [sum, pass] = [stage::sum_stage as *mut c_void, stage::pass_stage as *mut c_void];
        for (demand, expected) in
            [(Demand::Some, filter), (Demand::Sums, sum), (Demand::All, start), (Demand::Nothing, pass)]
        {
            decide(Kind::Stage, demand);
            assert_eq!(target_of("start_stage"), expected, "{demand:?}");
        }
        stop_reporting_stages();
        assert_eq!([target_of("start_stage"), target_of("end_stage")], [nothing; 2]);
        decide(Kind::Stage, Demand::Some);
        assert_eq!(target_of("start_stage"), filter, "one is wanted again");
        assert!(
            may_change(slot(unlock)) && may_change(slot("end_stage")) && !may_change(slot("end_mutex_wait"))
        );
        assert_eq!(table.addr() % 64, 0, "it begins a line");
    }
}
