//! HOT PATH: from the built-in's stored programs to the engine's, which name the statements of a program.
#![allow(unsafe_code)]

use tare_engine::{ProgramHandle, ProgramRef};
use tare_host::process::ENGINE;

use super::carriers::PROGRAMS;
use crate::abi::events::Program;

/// Returns the engine's program for one of the built-in's; `None`: there was no room.
#[inline(always)]
pub(crate) fn known(program: *const Program) -> Option<ProgramRef> {
    let known = PROGRAMS.get(program.addr());
    // SAFETY: 0, or the address of one of the engine's programs, which `meet` has set.
    unsafe { ProgramHandle::from_address(std::ptr::with_exposed_provenance(known)) }
}

/// Makes a program of the built-in's known. Its place may have been that of another one.
pub(crate) fn meet(program: &Program) {
    let make = || {
        let known = ENGINE.program(program.object_type, program.schema.get(), program.name.get());
        known.map_or(0, |known| known.address().expose_provenance())
    };
    PROGRAMS.set(std::ptr::from_ref(program).addr(), true, make);
}

/// Forgets a program that has been dropped.
pub(crate) fn forget(object_type: u8, schema: &[u8], name: &[u8]) {
    ENGINE.drop_program(object_type, schema, name);
}
