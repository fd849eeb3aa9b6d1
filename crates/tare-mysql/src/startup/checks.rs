//! What must hold before anything is changed: each layout of [`crate::abi`], in the machine code of a small
//! exported function that uses it. The server has not set its version yet, and other builds of a version may
//! differ.

mod events;
mod io;
mod memory;
mod sessions;

use std::ffi::CStr;

use tare_host::jumps::{DetourError, Function};

use super::constructor::INITIALIZE;
use super::disable_reason::DisableReason;

/// Returns the bytes of a symbol of the program.
pub(super) fn code(name: &'static CStr) -> Result<&'static [u8], DisableReason> {
    Function::find(name).map(Function::code).map_err(|error| match error {
        DetourError::Missing(name) => DisableReason::Missing(name.to_owned()),
        DetourError::Unexpected(name) => DisableReason::Unexpected(name.to_owned()),
        DetourError::Refused(_) => DisableReason::Code(error.to_string()),
    })
}

/// A function of the program, and instructions that it must contain within its first bytes.
type Evidence = (&'static CStr, &'static [&'static [u8]], usize);

/// The evidence for each number in [`crate::abi`] itself.
const EVIDENCE: [Evidence; 15] = [
    // movq $0, 0x48(%rdi): the owner of a mutex.
    (c"_Z19pfs_unlock_mutex_v1P9PSI_mutex", &[b"\x48\xC7\x47\x48\0\0\0\0"], 16),
    // cmpq $0, 0x48(%rdi): the writer of a rwlock.
    (c"_Z20pfs_unlock_rwlock_v2P10PSI_rwlock20PSI_rwlock_operation", &[b"\x48\x83\x7F\x48\0"], 16),
    // addl $1, 0x50(%rdx): its readers; addq $1, 0x28(%rdx): the waits of an instance; 0x20(%rdx): its class,
    // of which 0x14 is the number.
    (
        c"_Z24pfs_end_rwlock_rdwait_v2P17PSI_rwlock_lockeri",
        &[b"\x83\x42\x50\x01", b"\x48\x83\x42\x28\x01", b"\x48\x8B\x52\x20\x8B\x52\x14"],
        128,
    ),
    // 0x48(%rdx) ← the thread; cmp $9, cmp $6: the operations that leave readers; 0x28(%rcx): the last word
    // of its locker.
    (
        c"_Z24pfs_end_rwlock_wrwait_v2P17PSI_rwlock_lockeri",
        &[b"\x48\x89\x5A\x48", b"\x83\xFF\x09", b"\x83\xFF\x06", b"\x48\x8B\x41\x28"],
        160,
    ),
    // cmpb $0, 0x1e8(%rdx): a thread is instrumented; cmpb $0, 0x8(%r12): an instance is timed; 0x18(%r12):
    // its identity; 0x258(%rdx): the thread's number.
    (
        c"_Z23pfs_start_mutex_wait_v1P25PSI_mutex_locker_state_v1P9PSI_mutex19PSI_mutex_operationPKcj",
        &[
            b"\x80\xBA\xE8\x01\0\0\0",
            b"\x41\x80\x7C\x24\x08\0",
            b"\x49\x8B\x7C\x24\x18",
            b"\x4C\x8B\x8A\x58\x02\0\0",
            // 0x28(%rbx): the last word of its locker.
            b"\x48\x89\x43\x28",
        ],
        336,
    ),
    // mov 0x258(%rdi), %rax
    (c"_Z29pfs_get_thread_internal_id_vcP10PSI_thread", &[b"\x48\x8B\x87\x58\x02\0\0"], 24),
    // mov %rsi, 0x268(%rdi): PROCESSLIST_ID.
    (c"_Z20pfs_set_thread_id_vcP10PSI_thready", &[b"\x48\x89\xB7\x68\x02\0\0"], 24),
    // mov %rax, 0x270(%rbx): THREAD_OS_ID.
    (c"_Z23pfs_set_thread_os_id_vcP10PSI_thread", &[b"\x48\x89\x83\x70\x02\0\0"], 64),
    // mov %ebx, 0xa08(%rax): the command.
    (c"_Z25pfs_set_thread_command_vci", &[b"\x89\x98\x08\x0A\0\0"], 64),
    // mov 0x278(%rsi), %rdi: a thread's instrument; lea 0x18(%rax), %r13: its name.
    (c"_ZN13table_threads8make_rowEP10PFS_thread", &[b"\x48\x8B\xBE\x78\x02\0\0", b"\x4C\x8D\x68\x18"], 96),
    // movzbl 0x1e9(%rdi): a thread has histories.
    (c"_ZN10PFS_thread25set_history_derived_flagsEv", &[b"\x0F\xB6\x87\xE9\x01\0\0"], 16),
    // 0x10 and 0x30 of the locker of a cond.
    (
        c"_Z22pfs_start_cond_wait_v1P24PSI_cond_locker_state_v1P8PSI_condP9PSI_mutex18PSI_cond_operationPKcj",
        &[b"\x48\x89\x43\x30", b"\x41\x80\x7D\x08\0", b"\x49\x8B\x7D\x18"],
        320,
    ),
    // cmpb $0, 4(%rax): an instrument is on; cmpb $0, 5(%rsi): timed; 0x20(%rdx): the last word of the
    // locker.
    (
        c"_Z22pfs_start_idle_wait_v1P24PSI_idle_locker_state_v1PKcj",
        &[b"\x80\x78\x04\0", b"\x80\x7E\x05\0", b"\x48\x89\x72\x20"],
        224,
    ),
    // cmpb $0, 4(%rsi) and 5(%r12): a metadata lock's flags; 0x10(%r12): its identity; 0x28(%rbx): its
    // locker.
    (
        c"_Z26pfs_start_metadata_wait_vcP28PSI_metadata_locker_state_v1P17PSI_metadata_lockPKcj",
        &[b"\x80\x7E\x04\0", b"\x41\x80\x7C\x24\x05\0", b"\x49\x8B\x44\x24\x10", b"\x48\x89\x4B\x28"],
        240,
    ),
    // movzbl (%rdi), %edx, and %dl becomes a flag: whether the built-in is on is the first byte of its sizes.
    (INITIALIZE, &[b"\x0F\xB6\x17", b"\x88\x10\xE8"], 256),
];

/// The evidence for what storage engines say of their waits.
const OF_ROW_LOCKS: [Evidence; 3] = [
    // Calls the first function of those that the pointer leads to, and nothing else.
    (
        c"_Z14thd_wait_beginP3THDi",
        &[b"\x48\x8B\0\x48\x85\xC0\x74\x0D\x48\x8B\0\x48\x85\xC0\x74\x05\xFF\xE0"],
        40,
    ),
    // … and the second.
    (
        c"_Z12thd_wait_endP3THD",
        &[b"\x48\x8B\0\x48\x85\xC0\x74\x0D\x48\x8B\x40\x08\x48\x85\xC0\x74\x04\xFF\xE0"],
        40,
    ),
    // lea 3(%rsi, %rsi, 2), %esi: the kinds 3 and 6 of waits for locks.
    (c"_Z24lock_wait_suspend_threadP9que_thr_t", &[b"\x8D\x74\x76\x03"], 600),
];

/// The evidence for whom a transaction waits for.
const OF_ROW_OWNERS: [Evidence; 4] = [
    // mov (%rax), %rsi, mov (%rcx), %rdx: the transactions of the lock that waits and of the one in its
    // way; xchg %rdx, 0x98(%rsi): what the former waits for; mov 0x198(%rcx), %rsi: the session of the
    // latter.
    (
        c"_ZN7RecLock12add_to_waitqEPK9ib_lock_tPK9lock_prdt",
        &[b"\x48\x8B\x30", b"\x48\x8B\x11\x48\x87\x96\x98\0\0\0", b"\x48\x8B\xB1\x98\x01\0\0"],
        128,
    ),
    // mov 0x198(%rbx), %rdi: the session for which a thread is said to wait is that of the transaction.
    (c"_Z24lock_wait_suspend_threadP9que_thr_t", &[b"\x48\x8B\xBB\x98\x01\0\0"], 600),
    // pop %rbp; mov (%rax), %rax; ret: the transaction is the first member of what InnoDB keeps of a session.
    (c"_Z10thd_to_trxP3THD", &[b"\x5D\x48\x8B\0\xC3"], 24),
    // mov %rsi, 0x1050(%rdi): the session of a thread.
    (c"_Z21pfs_set_thread_THD_vcP10PSI_threadP3THD", &[b"\x48\x89\xB7\x50\x10\0\0"], 24),
];

/// Checks every layout, but those that only a part needs.
pub(super) fn layouts() -> Result<(), DisableReason> {
    check(EVIDENCE.into_iter().chain(events::EVIDENCE).chain(io::EVIDENCE).chain(memory::OF_ALL))?;
    io::calls(&io::CALLS)
}

/// Checks what only the socket needs.
pub(super) fn socket() -> Result<(), DisableReason> {
    io::calls(&io::OF_SOCKET)
}

/// Checks what only waits for rows need.
pub(super) fn row_locks() -> Result<(), DisableReason> {
    check(OF_ROW_LOCKS.into_iter())?;
    io::calls(&io::OF_ROW_LOCKS)
}

/// Checks what only the owners of locks within InnoDB need.
pub(super) fn row_owners() -> Result<(), DisableReason> {
    check(OF_ROW_OWNERS.into_iter())
}

/// Checks the layouts that only tables of sessions, and who is in the way of whom, need.
pub(super) fn sessions() -> Result<(), DisableReason> {
    check(sessions::EVIDENCE.into_iter().chain(sessions::OF_LOCKS))?;
    io::calls(&io::OF_SESSIONS)
}

/// Checks the layouts that only memory needs.
pub(super) fn memory() -> Result<(), DisableReason> {
    check(memory::EVIDENCE.into_iter())
}

fn check(evidence: impl Iterator<Item = Evidence>) -> Result<(), DisableReason> {
    for (name, instructions, within) in evidence {
        let code = code(name)?;
        let code = &code[..code.len().min(within)];
        let has = |wanted: &&[u8]| code.windows(wanted.len()).any(|window| window == *wanted);
        if !instructions.iter().all(has) {
            return Err(DisableReason::Unexpected(name.to_string_lossy().into_owned()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_no_server_is_left_alone() {
        let missing = "_Z19pfs_unlock_mutex_v1P9PSI_mutex";
        assert_eq!(layouts(), Err(DisableReason::Missing(missing.to_owned())));
        let missing = "_Z19pfs_memory_alloc_vcjmPP10PSI_thread";
        assert_eq!(memory(), Err(DisableReason::Missing(missing.to_owned())));
    }
}
