//! Tables of the server's own `performance_schema` whose rows come from the engine.
//!
//! The share of such a table opens what a component's table opens, with callbacks of this library. So names,
//! columns, grants, keys and the optimizer stay the server's. One adapter ([`handle`]) serves every table of
//! `tare-tables`.

mod field;
mod handle;
mod key;
pub(crate) mod refreshed;
pub(crate) mod served;

pub(crate) use field::{SETTERS, SetDouble, SetEnded, SetNumber, SetText, SetTimestamp, Setters};
pub(crate) use handle::Handle;
pub(crate) use key::{READERS, ReadNumber, ReadText, Readers};
