//! Jumps at the entries of the program's functions, written at start-up, while there is only one thread.
//!
//! - [`write_jumps`]: a jump of 13 bytes to any address, or to the address that a slot holds;
//! - [`lead`]: a jump of five bytes, for short functions, by way of a page nearby;
//! - [`copies`], [`copies_for_lead`]: a *detour*, in which the original function can still be called;
//! - [`overwrite`]: any other bytes.

mod detour;
mod error;
mod near;
mod write;

pub use detour::{Function, JUMP_ON, PAGE, copies, copies_for_lead, jump_on_to, make_code_near};
pub use error::{DetourError, LeadError};
pub use near::{MOST_LED, RedirectedFunctions, SHORT_JUMP, behind_entry_mark, lead};
pub use write::{JUMP, JumpTarget, overwrite, write_jumps};
