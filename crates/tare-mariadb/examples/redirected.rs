//! A library to preload for experiments and tests: leads tare's address to the Unix socket that the
//! environment variable `TARE_EXAMPLE_SOCKET` names, and translates errors, without a provider.
#![allow(unsafe_code)]

use std::path::Path;

use tare_mariadb::{error_hook, redirect, startup};

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = construct;

extern "C" fn construct() {
    let Some(socket) = std::env::var_os("TARE_EXAMPLE_SOCKET") else { return };
    if let Err(error) = redirect::lead_to(Path::new(&socket)) {
        eprintln!("{error}");
    }
    // A provider's endpoint does this when the server is up; here a thread waits for it.
    std::thread::spawn(|| {
        while !startup::server_is_up() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        error_hook::install(|_| false, Vec::new());
    });
}
