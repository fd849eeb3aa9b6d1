//! The shares of the server's tables, pointed at this library.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};

use tare_host::process::symbol;

use super::checks;
use super::disable_reason::DisableReason;
use crate::abi::{Position, Share};
use crate::tables::Handle;
use crate::tables::refreshed::{self, refreshed_with};
use crate::tables::served::{self, served, served_with};

/// The server's function that opens a table of a component's.
const PLUGIN_TABLE: &CStr = c"_ZN18table_plugin_table6createEP22PFS_engine_table_share";

/// Every share that is to be changed, found and checked.
pub(super) struct Shares {
    shares: Vec<*mut Share<Handle>>,
    /// Those of [`refreshed_with`].
    refreshed: Vec<*mut Share<Handle>>,
    open: *const c_void,
}

impl Shares {
    /// Finds every share, with or without those of memory. Nothing is changed.
    pub(super) fn find(with_memory: bool) -> Result<Shares, DisableReason> {
        let open = symbol(PLUGIN_TABLE).ok_or_else(|| DisableReason::missing(PLUGIN_TABLE))?;
        if let Some(at) = (0..served().len()).find(|at| !served::can_serve(*at)) {
            return Err(DisableReason::Unexpected(served()[at].name.to_owned()));
        }
        let served = served_with(with_memory).iter();
        let shares = served.map(|table| find(table.symbols)).collect::<Result<_, _>>()?;
        let refreshed = refreshed_with(with_memory).iter();
        let refreshed = refreshed.map(|table| find(table.symbols)).collect::<Result<_, _>>()?;
        Ok(Shares { shares, refreshed, open })
    }

    /// Serves the tables.
    pub(super) fn serve(self) {
        for ((at, share), functions) in self.shares.into_iter().enumerate().zip(served::functions()) {
            // SAFETY: a share of the program's writable data, which `find` has checked. Nobody uses it before
            // the built-in starts, and the only thread is here.
            let share = unsafe { &mut *share };
            served::set_delete(at, share.delete_all_rows);
            share.callbacks = functions.callbacks;
            share.open_table = self.open;
            served::set_row_count(at, share.row_count);
            share.delete_all_rows = functions.delete_all_rows as *const c_void;
            share.row_count = functions.row_count as *const c_void;
            share.position_length = size_of::<Position>() as u32;
        }
        for (share, table) in self.refreshed.into_iter().zip(&refreshed::REFRESHED) {
            // SAFETY: as above.
            let share = unsafe { &mut *share };
            if let Some(open) = table.open_here {
                table.open.set(share.open_table.expose_provenance());
                share.open_table = open as *const c_void;
            }
            table.delete.set(share.delete_all_rows.expose_provenance());
            share.delete_all_rows = table.delete_here as *const c_void;
        }
    }
}

/// Returns the share of a table, if each of its members is as expected.
fn find(symbols: [&'static CStr; 4]) -> Result<*mut Share<Handle>, DisableReason> {
    let [share, open, count, delete] = symbols;
    let bytes = checks::code(share)?;
    let at = bytes.as_ptr().cast_mut().cast::<Share<Handle>>();
    let unexpected = DisableReason::unexpected(share);
    if bytes.len() != size_of::<Share<Handle>>() || !at.is_aligned() {
        return Err(unexpected);
    }
    let is =
        |function: *const c_void, name: &CStr| symbol(name).is_some_and(|it| it.addr() == function.addr());
    // SAFETY: a share has this size, and consists of pointers, numbers and flags; the callbacks are looked at
    // as bytes, so any value of theirs is valid. Only this thread exists.
    let (it, callbacks) = unsafe {
        let callbacks = (&raw const (*at).callbacks).cast::<[usize; 15]>().read();
        (&*at, callbacks)
    };
    let is_own = is(it.open_table, open) && is(it.row_count, count) && is(it.delete_all_rows, delete);
    let is_new = it.write_row.is_null() && !it.is_perpetual && it.references == 0 && !it.is_in_purgatory;
    if is_own && is_new && callbacks == [0; 15] { Ok(at) } else { Err(unexpected) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_such_tables_is_left_alone() {
        assert!(
            matches!(Shares::find(true).err(), Some(DisableReason::Missing(name)) if name.contains("table_plugin_table"))
        );
    }
}
