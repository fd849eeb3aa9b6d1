//! The running server: whether it is up, by a variable that it exports.
#![allow(unsafe_code)]

use std::ffi::c_int;

use tare_host::process::symbol;

/// Returns whether the server has finished its start-up and accepts connections.
pub fn server_is_up() -> bool {
    let Some(flag) = symbol(c"mysqld_server_started") else { return false };
    // SAFETY: the server's variable of this name is an int, written once, from 0 to 1.
    unsafe { flag.cast::<c_int>().read_volatile() != 0 }
}
