//! What must hold before anything is changed: each layout of [`crate::abi`], in the machine code of a small
//! exported function that uses it. The server has not set its version yet, and other builds of a version may
//! differ.

mod events;
mod io;
mod memory;
mod sessions;

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::CStr;
use std::rc::Rc;

use tare_host::instructions::Fact::{self, Address, Element, Number, Reads, Writes};
use tare_host::instructions::Facts;
use tare_host::jumps::{DetourError, Function};
use tare_host::process::{Image, Segments};

use super::disable_reason::DisableReason;
use crate::abi::layout::{LAYOUTS, Layout};

/// Returns the bytes of a symbol of the program.
pub(super) fn code(name: &'static CStr) -> Result<&'static [u8], DisableReason> {
    Function::find(name).map(Function::code).map_err(|error| match error {
        DetourError::Missing(name) => DisableReason::Missing(name.to_owned()),
        DetourError::Unexpected(name) => DisableReason::Unexpected(name.to_owned()),
        DetourError::Refused(_) => DisableReason::Code(error.to_string()),
    })
}

/// A function of the program, and what its instructions must do.
type Evidence = (&'static CStr, Vec<Fact>);

/// The server's program: its code and its exported symbols.
pub(super) struct Program<'a> {
    pub(super) image: Image<'a>,
    /// Returns the address of a symbol, and its size in bytes.
    pub(super) symbol: &'a dyn Fn(&'static CStr) -> Option<(usize, usize)>,
    facts: RefCell<HashMap<&'static CStr, Rc<Facts>>>,
}

impl Program<'_> {
    /// Calls `check` with the program in which this library is.
    pub(super) fn of_process<T>(check: impl FnOnce(&Program<'_>) -> T) -> Result<T, DisableReason> {
        let segments =
            Segments::of_program().ok_or_else(|| DisableReason::Unexpected("the code".to_owned()))?;
        let symbol = |name| Function::find(name).ok().map(|found| (found.start(), found.code().len()));
        Ok(check(&Program::new(segments.image(), &symbol)))
    }

    /// Returns a program, whose exported symbols `symbol` finds.
    pub(super) fn new<'a>(
        image: Image<'a>,
        symbol: &'a dyn Fn(&'static CStr) -> Option<(usize, usize)>,
    ) -> Program<'a> {
        Program { image, symbol, facts: RefCell::default() }
    }

    /// Returns the address of a symbol, and its size in bytes.
    fn symbol(&self, name: &'static CStr) -> Result<(usize, usize), DisableReason> {
        (self.symbol)(name).ok_or_else(|| DisableReason::missing(name))
    }

    /// Returns what a function does.
    fn facts(&self, name: &'static CStr) -> Result<Rc<Facts>, DisableReason> {
        let (at, size) = self.symbol(name)?;
        let mut facts = self.facts.borrow_mut();
        Ok(facts.entry(name).or_insert_with(|| Rc::new(Facts::of(&self.image, at, size))).clone())
    }
}

/// Returns the evidence for each number in [`crate::abi`] itself.
fn evidence(layout: &Layout) -> Vec<Evidence> {
    vec![
    // movq $0, 0x48(%rdi): the owner of a mutex.
    (c"_Z19pfs_unlock_mutex_v1P9PSI_mutex", vec![Writes(0x48, 8)]),
    // cmpq $0, 0x48(%rdi): the writer of a rwlock.
    (c"_Z20pfs_unlock_rwlock_v2P10PSI_rwlock20PSI_rwlock_operation", vec![Reads(0x48, 8)]),
    // addl $1, 0x50(%rdx): its readers; addq $1, 0x28(%rdx): the waits of an instance; 0x20(%rdx): its class,
    // of which 0x14 is the number.
    (c"_Z24pfs_end_rwlock_rdwait_v2P17PSI_rwlock_lockeri", vec![
            Reads(0x50, 4),
            Writes(0x50, 4),
            Number(1),
            Reads(0x28, 8),
            Writes(0x28, 8),
            Reads(0x20, 8),
            Reads(0x14, 4),
        ],
    ),
    // 0x48(%rdx) ← the thread; cmp $9, cmp $6: the operations that leave readers; 0x28(%rcx): the last word
    // of its locker.
    (c"_Z24pfs_end_rwlock_wrwait_v2P17PSI_rwlock_lockeri", vec![Writes(0x48, 8), Number(9), Number(6), Reads(0x28, 8)],
    ),
    // cmpb $0, 0x1e8(%rdx): a thread is instrumented; cmpb $0, 0x8(%r12): an instance is timed; 0x18(%r12):
    // its identity; 0x258(%rdx): the thread's number.
    (c"_Z23pfs_start_mutex_wait_v1P25PSI_mutex_locker_state_v1P9PSI_mutex19PSI_mutex_operationPKcj", vec![Reads(layout.thread.instrumented, 1), Reads(8, 1), Reads(0x18, 8), Reads(layout.thread.id, 8), Writes(0x28, 8)],
    ),
    // mov 0x258(%rdi), %rax
    (c"_Z29pfs_get_thread_internal_id_vcP10PSI_thread", vec![Reads(layout.thread.id, 8)]),
    // mov %rsi, 0x268(%rdi): PROCESSLIST_ID.
    (c"_Z20pfs_set_thread_id_vcP10PSI_thready", vec![Writes(layout.thread.processlist_id, 8)]),
    // mov %rax, 0x270(%rbx): THREAD_OS_ID.
    (c"_Z23pfs_set_thread_os_id_vcP10PSI_thread", vec![Writes(layout.thread.os_id, 8)]),
    // mov %ebx, 0xa08(%rax): the command.
    (c"_Z25pfs_set_thread_command_vci", vec![Writes(layout.thread.command, 4)]),
    // mov 0x278(%rsi), %rdi: a thread's instrument; lea 0x18(%rax), %r13: its name.
    (c"_ZN13table_threads8make_rowEP10PFS_thread", vec![Reads(layout.thread.class, 8), Address(0x18)]),
    // movzbl 0x1e9(%rdi): a thread has histories.
    (c"_ZN10PFS_thread25set_history_derived_flagsEv", vec![Reads(layout.thread.history, 1)]),
    // 0x10 and 0x30 of the locker of a cond.
    (c"_Z22pfs_start_cond_wait_v1P24PSI_cond_locker_state_v1P8PSI_condP9PSI_mutex18PSI_cond_operationPKcj", vec![Writes(0x30, 8), Reads(8, 1), Reads(0x18, 8)],
    ),
    // An instrument is on, and timed; of an instance: the first byte, whether it is timed, its instrument.
    (
        c"_Z26update_mutex_derived_flagsv",
        vec![Reads(4, 1), Reads(5, 1), Reads(0x20, 8), Writes(0, 1), Writes(8, 1)],
    ),
    // The last word of the locker.
    (c"_Z22pfs_start_idle_wait_v1P24PSI_idle_locker_state_v1PKcj", vec![Writes(0x20, 8)]),
    // cmpb $0, 4(%rsi) and 5(%r12): a metadata lock's flags; 0x10(%r12): its identity; 0x28(%rbx): its
    // locker.
    (c"_Z26pfs_start_metadata_wait_vcP28PSI_metadata_locker_state_v1P17PSI_metadata_lockPKcj", vec![Reads(4, 1), Reads(5, 1), Reads(0x10, 8), Writes(0x28, 8)],
    ),
    // movzbl (%rdi), %edx, and %dl becomes a flag: whether the built-in is on is the first byte of its sizes.
    (layout.initialize, vec![Reads(0, 1), Writes(0, 1)]),
    ]
}

/// The variable that leads to the functions of the pool of threads.
pub(super) const POOL_FUNCTIONS: &CStr = c"_ZN26Connection_handler_manager15event_functionsE";

/// Returns the evidence for what storage engines say of their waits.
fn of_row_locks() -> Vec<Evidence> {
    vec![
        // Calls the first function of those that the variable leads to …
        (c"_Z14thd_wait_beginP3THDi", vec![Reads(0, 8)]),
        // … and the second.
        (c"_Z12thd_wait_endP3THD", vec![Reads(8, 8)]),
        // lea 3(%rsi, %rsi, 2), %esi: the kinds 3 and 6 of waits for locks.
        (c"_Z24lock_wait_suspend_threadP9que_thr_t", vec![Element(3, 2)]),
    ]
}

/// Returns the evidence for whom a transaction waits for.
fn of_row_owners(layout: &Layout) -> Vec<Evidence> {
    vec![
        // mov (%rax), %rsi, mov (%rcx), %rdx: the transactions of the lock that waits and of the one in its
        // way; xchg %rdx, 0x98(%rsi): what the former waits for; mov 0x198(%rcx), %rsi: the session of the
        // latter.
        (
            c"_ZN7RecLock12add_to_waitqEPK9ib_lock_tPK9lock_prdt",
            vec![Reads(0, 8), Reads(0x98, 8), Writes(0x98, 8), Reads(0x198, 8)],
        ),
        // mov 0x198(%rbx), %rdi: the session for which a thread is said to wait is that of the transaction.
        (c"_Z24lock_wait_suspend_threadP9que_thr_t", vec![Reads(0x198, 8)]),
        // pop %rbp; mov (%rax), %rax; ret: the transaction is the first member of what InnoDB keeps of a
        // session.
        (c"_Z10thd_to_trxP3THD", vec![Reads(0, 8)]),
        // mov %rsi, 0x1050(%rdi): the session of a thread.
        (c"_Z21pfs_set_thread_THD_vcP10PSI_threadP3THD", vec![Writes(layout.thread.thd, 8)]),
    ]
}

/// Returns the layout of the server, which all its code is found to have, but for what only a part needs.
pub(super) fn layout_of(program: &Program<'_>) -> Result<&'static Layout, DisableReason> {
    // If there is none, the one that came furthest says best what is amiss.
    let mut furthest: Option<(usize, DisableReason)> = None;
    for layout in &LAYOUTS {
        let all = [evidence(layout), events::evidence(layout), io::evidence(layout), memory::of_all(layout)];
        match passed(program, &all.concat()) {
            Ok(()) => return io::calls(program, &io::calls_of_all(layout)).map(|()| layout),
            Err(failed) if furthest.as_ref().is_none_or(|it| it.0 < failed.0) => furthest = Some(failed),
            Err(_) => {}
        }
    }
    Err(furthest.map_or(DisableReason::Unexpected("the program".to_owned()), |(_, why)| why))
}

/// Returns the address of the function to which a compiler has moved what sets the text of a statement;
/// `None`: it is the exported one.
pub(super) fn clone_of_set_text(program: &Program<'_>) -> Result<Option<usize>, DisableReason> {
    let caller = events::SETS_TEXT;
    let (exported, _) = program.symbol(events::SET_TEXT)?;
    let (longest, _) = program.symbol(events::LONGEST_TEXT)?;
    let sets_text = |at: &usize| {
        let facts = Facts::of(&program.image, *at, 0);
        facts.use_variable(longest) && events::TEXT.iter().all(|fact| facts.have(*fact))
    };
    match program.facts(caller)?.called().filter(sets_text).collect::<Vec<_>>()[..] {
        [at] => Ok((at != exported).then_some(at)),
        _ => Err(DisableReason::unexpected(caller)),
    }
}

/// Returns whether the server tells the numbers of statements by a call, and the identifiers of distributed
/// transactions.
pub(super) fn calls_of_setters(program: &Program<'_>) -> [bool; 2] {
    [io::STATEMENT_NUMBER, io::TRANSACTION_XID].map(|call| io::calls(program, &[call]).is_ok())
}

/// Checks what only the socket needs.
pub(super) fn socket(program: &Program<'_>, _: &Layout) -> Result<(), DisableReason> {
    io::calls(program, &io::OF_SOCKET)
}

/// Checks what only waits for rows need.
pub(super) fn row_locks(program: &Program<'_>, _: &Layout) -> Result<(), DisableReason> {
    check(program, &of_row_locks())?;
    let (pool, _) = program.symbol(POOL_FUNCTIONS)?;
    for function in [c"_Z14thd_wait_beginP3THDi", c"_Z12thd_wait_endP3THD"] {
        if !program.facts(function)?.use_variable(pool) {
            return Err(DisableReason::unexpected(function));
        }
    }
    io::calls(program, &io::OF_ROW_LOCKS)
}

/// Checks what only the owners of locks within InnoDB need.
pub(super) fn row_owners(program: &Program<'_>, layout: &Layout) -> Result<(), DisableReason> {
    check(program, &of_row_owners(layout))
}

/// Checks the layouts that only tables of sessions, and who is in the way of whom, need.
pub(super) fn sessions(program: &Program<'_>, layout: &Layout) -> Result<(), DisableReason> {
    sessions::lists(program)?;
    check(program, &sessions::evidence(layout))?;
    check(program, &sessions::of_locks(layout))?;
    io::calls(program, &io::OF_SESSIONS)
}

/// Checks the layouts that only memory needs.
pub(super) fn memory(program: &Program<'_>, layout: &Layout) -> Result<(), DisableReason> {
    check(program, &memory::evidence(layout))
}

fn check(program: &Program<'_>, evidence: &[Evidence]) -> Result<(), DisableReason> {
    passed(program, evidence).map_err(|(_, why)| why)
}

/// Checks all evidence. Returns what is not so, and how many pieces before that are.
fn passed(program: &Program<'_>, evidence: &[Evidence]) -> Result<(), (usize, DisableReason)> {
    for (at, (name, wanted)) in evidence.iter().enumerate() {
        let facts = program.facts(name).map_err(|why| (at, why))?;
        if !wanted.iter().all(|fact| facts.have(*fact)) {
            return Err((at, DisableReason::unexpected(name)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use object::{Object, ObjectSegment, ObjectSymbol, SegmentFlags};
    use tare_host::instructions::Fact::Member;

    use crate::abi::layout::PROGRESS_AFTER_STAGE;

    use super::*;

    #[test]
    fn a_program_that_is_no_server_is_left_alone() {
        let missing = "_Z19pfs_unlock_mutex_v1P9PSI_mutex";
        let found = Program::of_process(|program| layout_of(program).map(|it| it.series));
        assert_eq!(found, Ok(Err(DisableReason::Missing(missing.to_owned()))));
        let missing = "_Z19pfs_memory_alloc_vcjmPP10PSI_thread";
        let found = Program::of_process(|program| memory(program, &LAYOUTS[0]));
        assert_eq!(found, Ok(Err(DisableReason::Missing(missing.to_owned()))));
    }

    /// The hosts that `scripts/hosts.sh mysql` brings, with the series of their layouts.
    const HOSTS: [(&str, &str); 5] = [
        ("mysql-9", "9.7"),
        ("mysql-9-ubuntu", "9.7"),
        ("mysql-8.4", "8.4"),
        ("mysql-8", "8.0"),
        ("mysql-8-22.04", "8.0"),
    ];

    /// Calls `check` with the program of a host, as it is in its file; not if there is no such host.
    fn with_program(host: &str, check: impl FnOnce(&Program<'_>)) {
        let hosts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.hosts");
        let Ok(bytes) = std::fs::read(hosts.join(host).join("root/usr/sbin/mysqld")) else {
            println!("skipped: no {host} here; scripts/hosts.sh mysql brings it");
            return;
        };
        let file = object::File::parse(&*bytes).expect("a program");
        let range = |symbol: &object::Symbol<'_, '_>| (symbol.address() as usize, symbol.size() as usize);
        let defined = file.dynamic_symbols().filter(|symbol| symbol.is_definition());
        let symbols: HashMap<String, (usize, usize)> =
            defined.map(|symbol| (symbol.name().expect("a name").to_owned(), range(&symbol))).collect();
        let is_code = |segment: &object::Segment<'_, '_>| matches!(segment.flags(), SegmentFlags::Elf { p_flags, .. } if p_flags.0 & 1 != 0);
        let code = file.segments().find(is_code).expect("code");
        let image =
            Image { address: code.address() as usize, code: code.data().expect("bytes"), data: vec![] };
        let symbol = |name: &'static CStr| symbols.get(name.to_str().expect("a name")).copied();
        check(&Program::new(image, &symbol));
    }

    #[test]
    fn the_code_of_every_host_proves_the_layout_of_its_series_and_no_other() {
        for (host, series) in HOSTS {
            with_program(host, |program| {
                let layout = layout_of(program).expect("a known layout");
                assert_eq!(layout.series, series, "{host}");
                for part in [socket, row_locks, row_owners, sessions, memory] {
                    assert_eq!(part(program, layout), Ok(()), "{host}");
                }
                assert!(clone_of_set_text(program).is_ok(), "{host}");
                for other in LAYOUTS.iter().filter(|layout| layout.series != series) {
                    let all = [evidence(other), events::evidence(other)].concat();
                    assert!(check(program, &all).is_err(), "{host} is not {}", other.series);
                }
            });
        }
    }

    /// Which number is what, no instruction tells alone: a wrong one must not go unnoticed.
    #[test]
    fn every_member_of_a_thread_is_in_the_evidence() {
        for layout in &LAYOUTS {
            let all = [
                evidence(layout),
                of_row_owners(layout),
                events::evidence(layout),
                io::evidence(layout),
                memory::of_all(layout),
                memory::evidence(layout),
                sessions::evidence(layout),
            ];
            let used: Vec<usize> =
                all.concat().into_iter().flat_map(|(_, facts)| facts).map(offset).collect();
            let it = &layout.thread;
            let members = [
                it.instrumented,
                it.history,
                it.next_wait,
                it.event_id,
                it.id,
                it.parent,
                it.processlist_id,
                it.os_id,
                it.class,
                it.session_version,
                it.user.0,
                it.user.1,
                it.host.0,
                it.host.1,
                it.schema.0,
                it.schema.1,
                it.group,
                it.group_length,
                it.command,
                it.connection,
                it.since,
                it.statement_version,
                it.stage,
                it.stage + PROGRESS_AFTER_STAGE,
                it.info,
                it.info_length,
                it.secondary,
                it.thd,
                it.memory_session,
                it.owners[0],
                it.owners[1],
                it.owners[2],
                it.memory,
                it.telemetry,
                layout.query_id,
            ];
            for member in members {
                assert!(used.contains(&member), "{}: {member:#x}", layout.series);
            }
        }
    }

    fn offset(fact: Fact) -> usize {
        match fact {
            Reads(at, _) | Writes(at, _) | Element(at, _) | Address(at) | Member(at) | Number(at) => at,
        }
    }
}
