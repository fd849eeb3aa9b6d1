//! Short jumps: five bytes at a function's entry, which lead anywhere by way of a page near the program.
//!
//! A function that is shorter than [`JUMP`](super::JUMP), or that does not begin at a multiple of 16, has no
//! room for a jump to any address. A jump of five bytes reaches two gigabytes: as far as a page of tare's, of
//! jumps on to where the page behind it says. So each takes one instruction, and can lead elsewhere later.
#![allow(unsafe_code)]

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::detour::{PAGE, make_code_and_data_near};
use super::error::LeadError;
use super::write::with_writable_code;
use crate::code::{distance_of_call, without_entry_mark};

/// The size in bytes of a short jump.
pub const SHORT_JUMP: usize = 5;

/// The distance in bytes between two jumps in the page, and between the addresses they jump to.
const APART: usize = 8;
/// The most functions of one call of [`lead`].
pub const MOST_LED: usize = PAGE / APART;

/// The code of a jump in the page: `jmp [rip + distance]`, to the address that lies a page behind it.
const JUMP_ON: [u8; APART] = {
    let [a, b, c, d] = (PAGE as u32 - 6).to_le_bytes();
    [0xFF, 0x25, a, b, c, d, 0xCC, 0xCC]
};

/// Functions that lead elsewhere, and what their entries held before.
#[derive(Debug)]
#[must_use = "what was overwritten is known here only"]
pub struct RedirectedFunctions {
    places: Vec<(usize, [u8; SHORT_JUMP])>,
    targets: &'static [AtomicUsize],
}

/// Returns where a function's first instruction after its entry mark (`endbr64`) is, if it has one.
///
/// # Safety
///
/// At least four bytes of code are at this address.
pub unsafe fn behind_entry_mark(function: usize) -> usize {
    // SAFETY: the caller's.
    let code = unsafe { std::slice::from_raw_parts(function as *const u8, 4) };
    function + 4 - without_entry_mark(code).len()
}

/// Makes each function a jump to its replacement. Each pair is a function of the program and its replacement;
/// an entry mark stays as it is.
///
/// # Errors
///
/// Nothing is changed then.
///
/// # Safety
///
/// Each function lies in the program's code, has [`SHORT_JUMP`] bytes of its own behind its entry mark, into
/// which nobody jumps, and nobody runs it meanwhile. Each replacement is a function of the same type.
pub unsafe fn lead(functions: &[(usize, usize)]) -> Result<RedirectedFunctions, LeadError> {
    let places: Vec<usize> =
        // SAFETY: a function of the program (the caller's).
        functions.iter().map(|(from, _)| unsafe { behind_entry_mark(*from) }).collect();
    let (Some(first), Some(last)) = (places.iter().min(), places.iter().max()) else {
        return Ok(RedirectedFunctions { places: Vec::new(), targets: &[] });
    };
    let (first, last) = (*first, *last);
    if functions.len() > MOST_LED {
        return Err(LeadError::OutOfReach);
    }
    let mut page = [0xCC; PAGE];
    page.as_chunks_mut().0[..functions.len()].fill(JUMP_ON);
    let page = make_code_and_data_near(&page, first).map_err(|error| LeadError::NoPage(error.to_string()))?;
    let targets = std::ptr::with_exposed_provenance::<AtomicUsize>(page + PAGE);
    // SAFETY: the page behind the code's has room for as many addresses as that has for jumps. It is never
    // unmapped.
    let targets = unsafe { std::slice::from_raw_parts(targets, functions.len()) };
    functions.iter().zip(targets).for_each(|((_, to), target)| target.store(*to, Relaxed));
    let jump = |(at, place): (usize, &usize)| {
        // A jump's distance is counted as a call's.
        let distance = distance_of_call(*place, page + at * APART).ok_or(LeadError::OutOfReach)?;
        let [a, b, c, d] = distance.to_le_bytes();
        // SAFETY: the function's own bytes (the caller's).
        let old = unsafe { (*place as *const [u8; SHORT_JUMP]).read_unaligned() };
        Ok((*place, [0xE9, a, b, c, d], old))
    };
    let jumps = places.iter().enumerate().map(jump).collect::<Result<Vec<_>, LeadError>>()?;
    with_writable_code(first, last + SHORT_JUMP, || {
        for (place, code, _) in &jumps {
            // SAFETY: the function's own bytes, which nobody runs (the caller's). The pages are writable.
            unsafe { (*place as *mut [u8; SHORT_JUMP]).write_unaligned(*code) };
        }
    })
    .map_err(|error| LeadError::Refused(error.to_string()))?;
    Ok(RedirectedFunctions {
        places: jumps.into_iter().map(|(place, _, old)| (place, old)).collect(),
        targets,
    })
}

impl RedirectedFunctions {
    /// Returns how many functions lead elsewhere.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns where the addresses are to which the functions lead, in the order of [`lead`].
    ///
    /// # Safety
    ///
    /// Whatever is stored there is the address of a function of the same type.
    pub unsafe fn targets(&self) -> &'static [AtomicUsize] {
        self.targets
    }

    /// Returns whether no function leads elsewhere.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Restores the functions. The page stays, because a thread may still be there.
    ///
    /// # Errors
    ///
    /// When the system refuses it. The functions then lead elsewhere as before.
    ///
    /// # Safety
    ///
    /// Nobody runs the functions' entries meanwhile.
    pub unsafe fn undo(self) -> io::Result<()> {
        let places = || self.places.iter().map(|(place, _)| *place);
        let (Some(first), Some(last)) = (places().min(), places().max()) else { return Ok(()) };
        with_writable_code(first, last + SHORT_JUMP, || {
            for (place, old) in &self.places {
                // SAFETY: what `lead` has overwritten; nobody runs it (the caller's). The pages are writable.
                unsafe { (*place as *mut [u8; SHORT_JUMP]).write_unaligned(*old) };
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::c_int;
    use std::mem::transmute;

    use super::super::detour::make_code;
    use super::*;

    extern "C" fn hundred() -> c_int {
        100
    }

    extern "C" fn thousand() -> c_int {
        1000
    }

    /// `mov $n, %eax` and `ret`: six bytes.
    fn returns(n: u8) -> [u8; 6] {
        [0xB8, n, 0, 0, 0, 0xC3]
    }

    #[test]
    fn short_functions_lead_elsewhere_until_they_are_restored() {
        let mut page = [0xCC; PAGE];
        page[..6].copy_from_slice(&returns(1));
        // Behind an entry mark, and not at a multiple of 16.
        page[8..12].copy_from_slice(&[0xF3, 0x0F, 0x1E, 0xFA]);
        page[12..18].copy_from_slice(&returns(2));
        let at = make_code(&page).expect("memory for code");
        // SAFETY: the functions in the page, which have this type.
        let call = |offset: usize| unsafe { transmute::<usize, extern "C" fn() -> c_int>(at + offset)() };
        assert_eq!((call(0), call(8)), (1, 2));
        let functions = [(at, hundred as *const () as usize), (at + 8, thousand as *const () as usize)];
        // SAFETY: the functions have six bytes each, and nobody else knows them.
        let led = unsafe { lead(&functions) }.expect("a page nearby");
        assert_eq!((led.len(), call(0), call(8)), (2, 100, 1000));
        // SAFETY: a function of this type.
        let targets = unsafe { led.targets() };
        targets[0].store(thousand as *const () as usize, Relaxed);
        assert_eq!((call(0), call(8)), (1000, 1000));
        // SAFETY: nobody else knows them.
        assert!(unsafe { led.undo() }.is_ok());
        assert_eq!((call(0), call(8)), (1, 2));
    }

    #[test]
    fn more_functions_than_a_page_has_room_for_are_left_alone() {
        let page = [0x90; PAGE];
        let at = make_code(&page).expect("memory for code");
        let functions = vec![(at, at); MOST_LED + 1];
        // SAFETY: the page created above.
        let refused = unsafe { lead(&functions) };
        assert_eq!(refused.err(), Some(LeadError::OutOfReach));
        // SAFETY: no function at all.
        assert!(unsafe { lead(&[]) }.is_ok_and(|led| led.is_empty()));
    }
}
