//! The functions of memory that lead here.

use super::Led;
use crate::entry::memory;

/// Returns the functions that this library's stand in for.
pub(super) fn replaced() -> [Led; 4] {
    [
        (c"_Z19pfs_memory_alloc_vcjmPP10PSI_thread", memory::memory_alloc as *const () as usize),
        (c"_Z21pfs_memory_realloc_vcjmmPP10PSI_thread", memory::memory_realloc as *const () as usize),
        (c"_Z19pfs_memory_claim_vcjmPP10PSI_threadb", memory::memory_claim as *const () as usize),
        (c"_Z18pfs_memory_free_vcjmP10PSI_thread", memory::memory_free as *const () as usize),
    ]
}
