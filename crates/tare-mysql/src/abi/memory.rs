//! Layouts of what the built-in keeps for memory.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU8, AtomicU64};

/// Flag of an instrument: its memory is the server's, and no thread's.
pub const SERVER_WIDE: u32 = 0x80;
/// Flag of an instrument: `connection_memory_limit` controls its memory.
pub const CONTROLLED: u32 = 0x1000;
/// Flag of the key that the server keeps with a block: the block was controlled when it was allocated.
pub const CONTROLLED_KEY: u32 = 0x8000_0000;

/// The memory of a thread in bytes (`PFS_session_all_memory_stat`), which `threads` shows. Only the thread
/// itself writes.
#[repr(C)]
#[derive(Debug)]
pub struct SessionMemory {
    /// That of controlled instruments.
    pub controlled: MemoryUse,
    /// That of all.
    pub total: MemoryUse,
}

/// See [`SessionMemory`].
#[repr(C)]
#[derive(Debug)]
pub struct MemoryUse {
    pub(crate) used: AtomicU64,
    /// The peak since the last statement began, nested or not.
    pub(crate) peak: AtomicU64,
    /// The peak of the innermost statement before that.
    pub(crate) statement_peak: AtomicU64,
    /// The peak before that.
    pub(crate) most: AtomicU64,
}

/// The built-in's sums of an instrument's memory (`PFS_memory_shared_stat`).
#[repr(C)]
#[derive(Debug)]
pub struct MemorySums {
    /// Whether there are any.
    pub(crate) is_used: AtomicU8,
    /// Numbers of allocations and frees, then their bytes.
    pub(crate) sums: [AtomicU64; 4],
    /// By how much the number in use may rise before it is the highest, and fall before it is the lowest;
    /// then the bytes.
    pub(crate) room: [AtomicU64; 4],
}

/// Flag of an allocation of the built-in's: it is filled with zeros.
pub const ZEROED: i32 = 0x20;

const _: () = {
    assert!(offset_of!(MemoryUse, most) == 0x18 && size_of::<MemoryUse>() == 0x20);
    assert!(offset_of!(MemorySums, sums) == 8 && offset_of!(MemorySums, room) == 0x28);
    assert!(size_of::<MemorySums>() == 72);
};
