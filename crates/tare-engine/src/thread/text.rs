//! HOT PATH: the block with the texts of a thread.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::memory::arena::{ArenaView, WORDS};

/// Maximum number of bytes of connection attributes kept per thread.
pub const MAX_CONNECT_ATTRS: usize = 2048;

/// Names and attributes of a thread, in a block of their own.
#[repr(C)]
pub(crate) struct ThreadText {
    pub(crate) user_len: AtomicU32,
    pub(crate) host_len: AtomicU32,
    pub(crate) db_len: AtomicU32,
    pub(crate) attributes_len: AtomicU32,
    pub(crate) attributes_charset: AtomicU32,
    pub(crate) user: [AtomicU64; 48],
    pub(crate) host: [AtomicU64; 32],
    pub(crate) db: [AtomicU64; 24],
    pub(crate) info: [AtomicU64; 128],
    pub(crate) attributes: [AtomicU64; MAX_CONNECT_ATTRS / 8],
}

// SAFETY: consists of atomics only, alignment 8; the assertion below checks that it fits a block.
unsafe impl ArenaView for ThreadText {}
const _: () = assert!(size_of::<ThreadText>() <= WORDS * 8);
