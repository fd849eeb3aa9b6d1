//! Serves the tests' tables at the socket given, until standard input ends: for trying clients by hand.

#[path = "../tests/fixture/mod.rs"]
mod fixture;

use std::io::Read;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: serve SOCKET")?;
    let mut endpoint = tare_wire::Endpoint::start(fixture::config(path.into()))?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    match endpoint.stop() {
        0 => Ok(()),
        busy => Err(format!("{busy} threads are still busy").into()),
    }
}
