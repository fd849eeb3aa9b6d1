//! Jumps in the server's code: leads its direct calls of the built-in provider to the shims, and detours the
//! few functions whose work no instrumentation point reports.

pub mod built_in;
pub(crate) mod conditions;
pub(crate) mod direct_calls;
mod error;
pub mod locks;
pub(crate) mod preparation;

pub use error::{DirectCallsError, PreparationError};
pub use tare_host::jumps::DetourError;
