//! The evidence for the layouts of memory.

use super::Evidence;
use crate::startup::constructor::INITIALIZE;

/// The evidence for each number in [`crate::abi::memory`] that is needed in any case.
pub(super) const OF_ALL: [Evidence; 6] = [
    // 0x110(%r12): the size of a thread's history of statements.
    (c"_Z16init_instrumentsPK16PFS_global_param", &[b"\x49\x8B\x94\x24\x10\x01\0\0"], 192),
    // 0x118(%rbx): that of the long one.
    (INITIALIZE, &[b"\x48\x8B\xBB\x18\x01\0\0\xE8"], 1024),
    // 0x120(%rdi): the number of digests.
    (c"_Z11init_digestPK16PFS_global_param", &[b"\x48\x8B\x87\x20\x01\0\0"], 24),
    // and $0x20: fill it with zeros.
    (c"_Z10pfs_mallocP24PFS_builtin_memory_classmi", &[b"\x41\x83\xE5\x20"], 96),
    // 0x1120(%r14): the memory of a thread, as its parts are written when a statement begins.
    (
        c"_Z22pfs_start_statement_vcP20PSI_statement_lockerPKcjS2_j",
        &[
            b"\xF3\x41\x0F\x6F\x86\x20\x11\0\0",
            b"\x41\x0F\x11\x86\x28\x11\0\0",
            b"\x49\x89\x86\x38\x11\0\0",
            b"\x41\x0F\x11\x86\x48\x11\0\0",
            b"\x49\x89\x86\x58\x11\0\0",
        ],
        1408,
    ),
    // 0x20(%rdi), 0x28(%rdi): all memory, and its peak; 8(%rdi): the peak of controlled memory.
    (
        c"_ZN27PFS_session_all_memory_stat22count_controlled_allocEm",
        &[b"\x48\x89\x47\x08", b"\x48\x03\x77\x20", b"\x48\x89\x77\x28"],
        48,
    ),
];

/// The evidence for the others.
pub(super) const EVIDENCE: [Evidence; 6] = [
    // 8(%rdx), $0x80: the server's memory; testb $0x10, 0xd(%rdx): controlled; or $0x80000000: so is the
    // block; 0x1058(%r8): the thread's session; 0x1120(%r8): its memory; 0x1e8(%r8): it is instrumented.
    (
        c"_Z19pfs_memory_alloc_vcjmPP10PSI_thread",
        &[
            b"\x8B\x4A\x08\x81\xE1\x80\0\0\0",
            b"\xF6\x42\x0D\x10",
            b"\x81\xC9\0\0\0\x80",
            b"\x49\x83\xB8\x58\x10\0\0\0",
            b"\x49\x8D\x80\x20\x11\0\0",
            b"\x41\x80\xB8\xE8\x01\0\0\0",
        ],
        544,
    ),
    // and $0x7fffffff: the key of a controlled block; cmp %r8, %r14: the owner is the calling thread.
    (c"_Z18pfs_memory_free_vcjmP10PSI_thread", &[b"\x81\xE7\xFF\xFF\xFF\x7F", b"\x4D\x39\xC6"], 176),
    // and $0x7fffffff
    (c"_Z21pfs_memory_realloc_vcjmmPP10PSI_thread", &[b"\x81\xE7\xFF\xFF\xFF\x7F"], 40),
    (c"_Z19pfs_memory_claim_vcjmPP10PSI_threadb", &[b"\x41\x81\xE5\xFF\xFF\xFF\x7F", b"\x45\x84\xF6"], 192),
    // mov 0x1058(%rdi), %rdi: the session's limits are counted there.
    (c"_ZN10PFS_thread13mem_cnt_allocEm", &[b"\x48\x8B\xBF\x58\x10\0\0"], 24),
    // The sums of an instrument: 8, 0x10, 0x18, 0x20, and the room 0x28 … 0x40; 72 bytes.
    (
        c"_Z27memory_monitoring_aggregatePK22PFS_memory_shared_statP26PFS_memory_monitoring_stat",
        &[
            b"\x4C\x8B\x47\x08",
            b"\x48\x8B\x57\x10",
            b"\x48\x8B\x4F\x18",
            b"\x48\x8B\x47\x20",
            b"\x4C\x8B\x4F\x28",
            b"\x48\x8B\x7F\x40",
        ],
        120,
    ),
];
