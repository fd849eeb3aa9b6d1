//! The evidence for the layouts of memory.

use tare_host::instructions::Fact::{Member, Number, Reads, Writes};

use super::Evidence;
use crate::abi::layout::Layout;

/// Returns the evidence for each number in [`crate::abi::memory`] that is needed in any case.
pub(super) fn of_all(layout: &Layout) -> Vec<Evidence> {
    vec![
        // 0x110(%r12): the size of a thread's history of statements.
        (c"_Z16init_instrumentsPK16PFS_global_param", vec![Reads(layout.sizes[0], 8)]),
        // 0x118(%rbx): that of the long one.
        (layout.initialize, vec![Reads(layout.sizes[1], 8)]),
        // 0x120(%rdi): the number of digests.
        (c"_Z11init_digestPK16PFS_global_param", vec![Reads(layout.sizes[2], 8)]),
        // and $0x20: fill it with zeros.
        (c"_Z10pfs_mallocP24PFS_builtin_memory_classmi", vec![Number(0x20)]),
        // 0x1120(%r14): the memory of a thread, as its parts are written when a statement begins.
        (
            c"_Z22pfs_start_statement_vcP20PSI_statement_lockerPKcjS2_j",
            vec![
                Reads(layout.thread.memory, 8),
                Writes(layout.thread.memory + 8, 8),
                Writes(layout.thread.memory + 0x18, 8),
                Writes(layout.thread.memory + 0x28, 8),
                Writes(layout.thread.memory + 0x38, 8),
            ],
        ),
        // 0x20(%rdi), 0x28(%rdi): all memory, and its peak; 8(%rdi): the peak of controlled memory.
        (
            c"_ZN27PFS_session_all_memory_stat22count_controlled_allocEm",
            vec![Writes(8, 8), Reads(0x20, 8), Writes(0x28, 8)],
        ),
    ]
}

/// Returns the evidence for the others.
pub(super) fn evidence(layout: &Layout) -> Vec<Evidence> {
    vec![
        // 8(%rdx), $0x80: the server's memory; testb $0x10, 0xd(%rdx): controlled; or $0x80000000: so is the
        // block; 0x1058(%r8): the thread's session; 0x1120(%r8): its memory; 0x1e8(%r8): it is instrumented.
        (
            c"_Z19pfs_memory_alloc_vcjmPP10PSI_thread",
            vec![
                Reads(8, 4),
                Number(0x80),
                Reads(0xD, 1),
                Number(0x10),
                Number(0x80000000),
                Reads(layout.thread.memory_session, 8),
                Member(layout.thread.memory),
                Reads(layout.thread.instrumented, 1),
            ],
        ),
        // and $0x7fffffff: the key of a controlled block; cmp %r8, %r14: the owner is the calling thread.
        (c"_Z18pfs_memory_free_vcjmP10PSI_thread", vec![Number(0x7FFFFFFF)]),
        // and $0x7fffffff
        (c"_Z21pfs_memory_realloc_vcjmmPP10PSI_thread", vec![Number(0x7FFFFFFF)]),
        (c"_Z19pfs_memory_claim_vcjmPP10PSI_threadb", vec![Number(0x7FFFFFFF)]),
        // mov 0x1058(%rdi), %rdi: the session's limits are counted there.
        (c"_ZN10PFS_thread13mem_cnt_allocEm", vec![Reads(layout.thread.memory_session, 8)]),
        // The sums of an instrument: 8, 0x10, 0x18, 0x20, and the room 0x28 … 0x40; 72 bytes.
        (
            c"_Z27memory_monitoring_aggregatePK22PFS_memory_shared_statP26PFS_memory_monitoring_stat",
            vec![Reads(8, 8), Reads(0x10, 8), Reads(0x18, 8), Reads(0x20, 8), Reads(0x28, 8), Reads(0x40, 8)],
        ),
    ]
}
