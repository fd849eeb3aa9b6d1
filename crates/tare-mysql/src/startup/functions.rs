//! The server's functions that lead here.
#![allow(unsafe_code)]

mod events;
mod io;
mod memory;

use std::ffi::CStr;

use tare_engine::snapshot::Kind;
use tare_host::code::without_entry_mark;
use tare_host::families::{self, FoundFamily};
use tare_host::jumps::{Function, copies_for_lead, lead};
use tare_host::process::{Segments, symbol};

use super::checks;
use super::disable_reason::DisableReason;
use super::parts::{Part, Parts};
use crate::entry::{lives, lock_waits, off, short, sizes, sockets, stage, statement, synch, tables};
use crate::original::Original;
use crate::serve;
use crate::server::routing::{self, Route};

/// A function of the server by its mangled name, and where it leads.
type Led = (&'static CStr, usize);

/// A function that still does its work as well.
type Told = (&'static CStr, usize, &'static Original);

/// Returns the functions that this library's stand in for.
fn replaced() -> [Led; 10] {
    [
        (
            c"_Z23pfs_start_mutex_wait_v1P25PSI_mutex_locker_state_v1P9PSI_mutex19PSI_mutex_operationPKcj",
            synch::start_mutex_wait as *const () as usize,
        ),
        (c"_Z21pfs_end_mutex_wait_v1P16PSI_mutex_lockeri", synch::end_mutex_wait as *const () as usize),
        (c"_Z24pfs_end_rwlock_rdwait_v2P17PSI_rwlock_lockeri", synch::end_rwlock_rdwait as *const () as usize),
        (c"_Z24pfs_end_rwlock_wrwait_v2P17PSI_rwlock_lockeri", synch::end_rwlock_wrwait as *const () as usize),
        (
            c"_Z22pfs_start_cond_wait_v1P24PSI_cond_locker_state_v1P8PSI_condP9PSI_mutex18PSI_cond_operationPKcj",
            synch::start_cond_wait as *const () as usize,
        ),
        (c"_Z20pfs_end_cond_wait_v1P15PSI_cond_lockeri", synch::end_cond_wait as *const () as usize),
        (
            c"_Z22pfs_start_idle_wait_v1P24PSI_idle_locker_state_v1PKcj",
            short::start_idle_wait as *const () as usize,
        ),
        (c"_Z20pfs_end_idle_wait_v1P15PSI_idle_locker", short::end_idle_wait as *const () as usize),
        (
            c"_Z26pfs_start_metadata_wait_vcP28PSI_metadata_locker_state_v1P17PSI_metadata_lockPKcj",
            short::start_metadata_wait as *const () as usize,
        ),
        (c"_Z24pfs_end_metadata_wait_vcP19PSI_metadata_lockeri", short::end_metadata_wait as *const () as usize),
    ]
}

/// Returns the functions that still do their work as well.
fn told() -> [Told; 12] {
    [
        (
            c"_Z14destroy_threadP10PFS_thread",
            lives::destroy_thread as *const () as usize,
            &lives::DESTROY_THREAD,
        ),
        (
            c"_Z25pfs_set_thread_account_vcPKciS0_i",
            lives::set_account as *const () as usize,
            &lives::SET_ACCOUNT,
        ),
        (c"_Z22pfs_set_thread_user_vcPKci", lives::set_user as *const () as usize, &lives::SET_USER),
        (
            c"_ZN21table_setup_consumers17update_row_valuesEP5TABLEPKhPhPP5Field",
            lives::update_consumer as *const () as usize,
            &lives::UPDATE_CONSUMER,
        ),
        (
            c"_ZN13table_threads17update_row_valuesEP5TABLEPKhPhPP5Field",
            lives::update_thread as *const () as usize,
            &lives::UPDATE_THREAD,
        ),
        (
            c"_Z16init_instrumentsPK16PFS_global_param",
            sizes::first_sizes as *const () as usize,
            &sizes::FIRST_SIZES,
        ),
        (c"_Z10init_errorPK16PFS_global_param", sizes::last_sizes as *const () as usize, &sizes::LAST_SIZES),
        (
            c"_Z10pfs_mallocP24PFS_builtin_memory_classmi",
            sizes::allocate as *const () as usize,
            &sizes::ALLOCATE,
        ),
        (
            c"_ZN20PFS_thread_allocator11alloc_arrayEP16PFS_thread_array",
            sizes::make_array::<0> as *const () as usize,
            &sizes::MAKE_ARRAY[0],
        ),
        (
            c"_ZN21PFS_account_allocator11alloc_arrayEP17PFS_account_array",
            sizes::make_array::<1> as *const () as usize,
            &sizes::MAKE_ARRAY[1],
        ),
        (
            c"_ZN18PFS_user_allocator11alloc_arrayEP14PFS_user_array",
            sizes::make_array::<2> as *const () as usize,
            &sizes::MAKE_ARRAY[2],
        ),
        (
            c"_ZN18PFS_host_allocator11alloc_arrayEP14PFS_host_array",
            sizes::make_array::<3> as *const () as usize,
            &sizes::MAKE_ARRAY[3],
        ),
    ]
}

/// Returns those of waits for rows.
fn of_row_locks() -> [Led; 2] {
    [
        (c"_Z14thd_wait_beginP3THDi", lock_waits::thd_wait_begin as *const () as usize),
        (c"_Z12thd_wait_endP3THD", lock_waits::thd_wait_end as *const () as usize),
    ]
}

/// The function that is called before the server is ready, and its copy.
pub(super) static OF_SOCKET: (&CStr, &Original) =
    (c"_Z20start_handle_managerv", &serve::START_HANDLE_MANAGER);
/// The function by which the built-in frees its accounts, before anything else that is read of it, and its
/// copy.
pub(super) static OF_SESSIONS: (&CStr, &Original) =
    (c"_ZN21PFS_account_allocator10free_arrayEP17PFS_account_array", &lives::FREE_ACCOUNTS);

/// Returns the functions of all families, and of these parts, that this library's stand in for.
fn all_replaced(parts: Parts) -> impl Iterator<Item = Led> {
    let of_memory = memory::replaced().into_iter().filter(move |_| parts.have(Part::Memory));
    let of_row_locks = of_row_locks().into_iter().filter(move |_| parts.have(Part::RowLocks));
    let of_events = replaced().into_iter().chain(events::replaced()).chain(io::replaced());
    let of_newer = events::of_newer().into_iter().filter(|(name, _)| symbol(name).is_some());
    of_events.chain(of_memory).chain(of_row_locks).chain(of_newer)
}

/// Returns the functions of all families, and of these parts, that still do their work as well.
fn all_told(parts: Parts) -> impl Iterator<Item = Told> {
    let (socket, sessions) = (OF_SOCKET, OF_SESSIONS);
    let of_parts = [
        (Part::Socket, (socket.0, serve::start_handle_manager as *const () as usize, socket.1)),
        (Part::Sessions, (sessions.0, lives::free_accounts as *const () as usize, sessions.1)),
    ];
    let of_parts = of_parts.into_iter().filter(move |(part, _)| parts.have(*part)).map(|(_, told)| told);
    told().into_iter().chain(events::told()).chain(io::told()).chain(of_parts)
}

/// The two functions that begin a wait for a rwlock: each is a jump to one that is not exported.
const START_RWLOCK: [&CStr; 2] = [
    c"_Z26pfs_start_rwlock_rdwait_v2P26PSI_rwlock_locker_state_v1P10PSI_rwlock20PSI_rwlock_operationPKcj",
    c"_Z26pfs_start_rwlock_wrwait_v2P26PSI_rwlock_locker_state_v1P10PSI_rwlock20PSI_rwlock_operationPKcj",
];

/// The functions that lead here, found and checked.
pub(super) struct Functions {
    parts: Parts,
    leads: Vec<(usize, usize)>,
    copies: Vec<usize>,
}

impl Functions {
    /// Finds every function, and those of these parts, with what [`checks::clone_of_set_text`] has returned.
    /// Nothing is changed.
    pub(super) fn find(parts: Parts, set_text: Option<usize>) -> Result<Functions, DisableReason> {
        let mut leads = vec![(start_rwlock()?, synch::start_rwlock_wait as *const () as usize)];
        leads.extend(set_text.map(|clone| (clone, statement::set_statement_text as *const () as usize)));
        for (name, to) in all_replaced(parts) {
            leads.push((checks::code(name)?.as_ptr().addr(), to));
        }
        let code = |error: &dyn std::fmt::Display| DisableReason::Code(error.to_string());
        let mut originals = Vec::new();
        for (name, to, _) in all_told(parts) {
            let function = Function::find(name).map_err(|error| code(&error))?;
            leads.push((function.start(), to));
            originals.push(function);
        }
        let copies = copies_for_lead(&originals).map_err(|error| code(&error))?;
        Ok(Functions { parts, leads, copies })
    }

    /// Leads every function here.
    pub(super) fn lead(self) -> Result<(), DisableReason> {
        for ((_, _, original), copy) in all_told(self.parts).zip(self.copies) {
            original.set(copy);
        }
        // SAFETY: functions of the program, each with room for a jump (the layouts' checks have read more of
        // it, or its beginning was copied). Only this thread exists, and it is in none of them. Each leads to
        // one of its own type, which its mangled name tells.
        let led = unsafe { lead(&self.leads) }.map_err(|error| DisableReason::Code(error.to_string()))?;
        // SAFETY: routes are functions of one type.
        let targets = unsafe { led.targets() };
        routing::set(routed().into_iter().filter_map(|(kind, usual, [filtered, sampled, off])| {
            let at = self.leads.iter().position(|(_, to)| *to == usual)?;
            Some(Route { kind, target: &targets[at], usual, filtered, sampled, off })
        }));
        // The functions lead here for good.
        std::mem::forget(led);
        Ok(())
    }
}

/// Returns the functions of a kind in whose place others of the same type stand: while some of its
/// instruments are off or sampled, while all are sampled, and while all are off.
fn routed() -> [(Kind, usize, [usize; 3]); 9] {
    let nothing = off::nothing as *const () as usize;
    let only_off = |kind, usual: usize| (kind, usual, [usual, usual, nothing]);
    [
        (
            Kind::Mutex,
            synch::start_mutex_wait as *const () as usize,
            [
                synch::filter_mutex_wait as *const () as usize,
                synch::start_sampled_mutex_wait as *const () as usize,
                nothing,
            ],
        ),
        (
            Kind::Rwlock,
            synch::start_rwlock_wait as *const () as usize,
            [
                synch::filter_rwlock_wait as *const () as usize,
                synch::start_sampled_rwlock_wait as *const () as usize,
                nothing,
            ],
        ),
        (
            Kind::Stage,
            stage::start_stage as *const () as usize,
            [
                stage::filter_stage as *const () as usize,
                stage::start_sampled_stage as *const () as usize,
                off::start_stage as *const () as usize,
            ],
        ),
        (
            Kind::Stage,
            stage::end_stage as *const () as usize,
            [
                stage::filter_end as *const () as usize,
                stage::end_stage as *const () as usize,
                off::end_stage as *const () as usize,
            ],
        ),
        (
            Kind::Socket,
            sockets::start_socket_wait as *const () as usize,
            [
                sockets::filter_socket_wait as *const () as usize,
                sockets::start_socket_wait as *const () as usize,
                nothing,
            ],
        ),
        only_off(Kind::Cond, synch::start_cond_wait as *const () as usize),
        only_off(Kind::Idle, short::start_idle_wait as *const () as usize),
        only_off(Kind::Metadata, short::start_metadata_wait as *const () as usize),
        only_off(Kind::TableIo, tables::start_table_io_wait as *const () as usize),
    ]
}

/// The families of events that are taken. Events nest in each other, so none is taken without the others.
const FAMILIES: [&str; 11] = [
    "mutex",
    "rwlock",
    "cond",
    "file",
    "socket",
    "table",
    "idle",
    "metadata",
    "stage",
    "statement",
    "transaction",
];

/// What the server does with the functions of every family.
pub(super) struct Families(Vec<FoundFamily>);

impl Families {
    /// Looks for the calls of every function.
    pub(super) fn find() -> Result<Families, DisableReason> {
        let program =
            Segments::of_program().ok_or_else(|| DisableReason::Unexpected("the code".to_owned()))?;
        Ok(Families(families::found(&program.image(), |name| symbol(name).map(|at| at.addr()))))
    }

    /// Checks that the server calls the functions of all events by name.
    pub(super) fn check_events(&self) -> Result<(), DisableReason> {
        FAMILIES.iter().try_for_each(|name| self.check(name))
    }

    /// Checks that the server calls the functions of memory by name.
    pub(super) fn check_memory(&self) -> Result<(), DisableReason> {
        self.check("memory")
    }

    fn check(&self, name: &str) -> Result<(), DisableReason> {
        let family = self.0.iter().find(|it| it.family.name == name);
        let why = family.and_then(|it| Some((it.family.name, it.hindrance()?)));
        why.map_or(Ok(()), |(name, why)| Err(DisableReason::Family { name, why: why.to_string() }))
    }
}

/// Returns the address of the function to which both of [`START_RWLOCK`] jump.
fn start_rwlock() -> Result<usize, DisableReason> {
    let target = |name: &'static CStr| {
        let code = checks::code(name)?;
        let jump = without_entry_mark(code);
        let &[0xE9, a, b, c, d] = jump.get(..5).unwrap_or_default() else {
            return Err(DisableReason::unexpected(name));
        };
        let distance = i32::from_le_bytes([a, b, c, d]);
        Ok((jump.as_ptr().addr() + 5).wrapping_add_signed(distance as isize))
    };
    let [read, write] = [target(START_RWLOCK[0])?, target(START_RWLOCK[1])?];
    if read == write { Ok(read) } else { Err(DisableReason::unexpected(START_RWLOCK[1])) }
}
