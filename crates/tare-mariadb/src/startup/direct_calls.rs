//! The calls the server makes to its built-in provider without asking `PSI_server`.
//!
//! The server and the engines compiled into it call the built-in's functions for threads, mutexes, rwlocks,
//! conds, transactions and metadata locks by name (headers such as `pfs_thread_provider.h`); only plugins and
//! the libraries below go through the vtable for these. With the built-in off they do nothing. So every
//! function of the built-in's vtable gets a jump to tare's shim at its entry, once, on the main thread, before
//! any other thread exists: whoever calls it, by name or through the vtable, reaches tare.
//!
//! They are not exported. The server's exported `init_server_psi_keys` begins by calling four of them in the
//! order of the vtable's first four slots; the only place in the server's data where these four addresses
//! follow each other is the built-in's own vtable. Whatever is not exactly as expected: tare stands back.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::ops::Range;

use super::symbol;
use crate::abi::Series;

/// Groups of slots that may share one function of the built-in: what they do is the same here, too.
const TWINS: [&[&str]; 2] = [
    &["signal_cond", "broadcast_cond", "release_sp_share", "set_thread_state"],
    &["start_rwlock_rdwait", "start_rwlock_wrwait"],
];

fn twins(one: &str, other: &str) -> bool {
    TWINS.iter().any(|group| group.contains(&one) && group.contains(&other))
}

/// Why the calls could not be redirected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DirectCallsError {
    /// The server looks otherwise than the ones known.
    #[error("the server's own instrumentation is not where it is expected: {0}")]
    Unexpected(&'static str),
    /// The system does not let a program change its code.
    #[error("the system refuses to redirect the server's direct calls: {0}")]
    Refused(String),
}

/// A jump to any address: `jmp [rip+0]` and the address. Functions begin at multiples of 16, so it fits even
/// before the shortest one's neighbour.
pub(super) const JUMP: usize = 14;

/// The code of a jump.
pub(super) fn jump_to(target: usize) -> [u8; JUMP] {
    let mut code = [0xFF, 0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    code[6..].copy_from_slice(&target.to_le_bytes());
    code
}

/// Targets of what looks like direct calls in some code.
pub(super) fn call_targets(code: &[u8]) -> impl Iterator<Item = usize> {
    let start = code.as_ptr().addr();
    code.windows(5).enumerate().filter_map(move |(at, code)| {
        let &[0xE8, a, b, c, d] = code else { return None };
        let distance = i32::from_le_bytes([a, b, c, d]);
        Some((start + at + 5).wrapping_add_signed(distance as isize))
    })
}

/// Leads the direct calls to the functions in `table`, which has the layout of `series`; and of each pair of `further`, a
/// function of the program's and another one, the first to the second.
///
/// # Errors
/// Nothing is changed then.
pub(super) fn redirect(
    series: Series,
    table: *const c_void,
    further: &[(usize, usize)],
) -> Result<(), DirectCallsError> {
    let image = Image::of_program().ok_or(DirectCallsError::Unexpected("no program"))?;
    let slots = series.slot_names();
    let built_in = image.built_in(slots.len())?;
    let mut jumps: Vec<(usize, usize, &str)> = Vec::new();
    for (slot, name) in slots.iter().enumerate() {
        // SAFETY: the table has a function pointer for each of the series' slots.
        let to = unsafe { *table.cast::<usize>().add(slot) };
        let from = built_in[slot];
        if from % 16 != 0 {
            return Err(DirectCallsError::Unexpected("a function is not aligned"));
        }
        match jumps.iter().find(|(known, ..)| *known == from) {
            Some((.., twin)) if twins(twin, name) => {}
            Some(_) => return Err(DirectCallsError::Unexpected("two slots share a function")),
            None => jumps.push((from, to, name)),
        }
    }
    jumps.extend(further.iter().map(|(from, to)| (*from, *to, "further")));
    write_jumps(&jumps)
}

/// Makes the code's pages writable, writes every jump, makes them what they were.
fn write_jumps(jumps: &[(usize, usize, &str)]) -> Result<(), DirectCallsError> {
    // SAFETY: sysconf takes no pointers.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let first = jumps.iter().map(|(from, ..)| from / page * page).min().unwrap_or(0);
    let last = jumps.iter().map(|(from, ..)| (from + JUMP).next_multiple_of(page)).max().unwrap_or(0);
    let protect = |flags: c_int| {
        // SAFETY: the range lies within the program's own code segment (`built_in` checked every address).
        match unsafe { libc::mprotect(first as *mut c_void, last - first, flags) } {
            0 => Ok(()),
            _ => Err(DirectCallsError::Refused(std::io::Error::last_os_error().to_string())),
        }
    };
    protect(libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC)?;
    for (from, to, _) in jumps {
        let code = jump_to(*to);
        // SAFETY: 14 bytes at the entry of a function that is longer (`built_in`'s begin at multiples of 16, the caller
        // looked at more of a further one) and that nobody runs: this is the only thread, and it is here. The pages are writable; the processor sees its own stores to code before the next jump.
        unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), *from as *mut u8, JUMP) };
    }
    // Should the system refuse this, the pages stay writable; the jumps are right all the same.
    let _ = protect(libc::PROT_READ | libc::PROT_EXEC);
    Ok(())
}

/// Where the program's code and data lie.
struct Image {
    code: Range<usize>,
    data: Vec<Range<usize>>,
}

impl Image {
    fn of_program() -> Option<Image> {
        unsafe extern "C" fn first(info: *mut libc::dl_phdr_info, _size: usize, image: *mut c_void) -> c_int {
            // SAFETY: the loader passes its own record; `image` is the option below.
            let (info, image) = unsafe { (&*info, &mut *image.cast::<Option<Image>>()) };
            // SAFETY: the loader's record of the program's headers.
            let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
            let range = |header: &libc::Elf64_Phdr| {
                let start = (info.dlpi_addr + header.p_vaddr) as usize;
                start..start + header.p_memsz as usize
            };
            let loaded = headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
            let (code, data): (Vec<&libc::Elf64_Phdr>, Vec<_>) =
                loaded.partition(|header| header.p_flags & libc::PF_X != 0);
            if let [code] = code[..] {
                let data = data.into_iter().filter(|header| header.p_flags & libc::PF_W != 0);
                *image = Some(Image { code: range(code), data: data.map(range).collect() });
            }
            // The program itself comes first; one call is enough.
            1
        }
        let mut image: Option<Image> = None;
        // SAFETY: the callback takes the option as its data.
        unsafe { libc::dl_iterate_phdr(Some(first), std::ptr::from_mut(&mut image).cast()) };
        image
    }

    /// The built-in's vtable: `slots` addresses of functions.
    fn built_in(&self, slots: usize) -> Result<Vec<usize>, DirectCallsError> {
        let keys = symbol(c"_Z20init_server_psi_keysv")
            .map(|function| function as usize)
            .filter(|function| self.code.contains(function))
            .ok_or(DirectCallsError::Unexpected("no init_server_psi_keys"))?;
        let calls = self.calls(keys);
        let mut found = calls.windows(4).flat_map(|first| self.tables(first, slots));
        match (found.next(), found.next()) {
            (Some(table), None) => Ok(table),
            (None, _) => Err(DirectCallsError::Unexpected("no vtable of the built-in")),
            _ => Err(DirectCallsError::Unexpected("more than one vtable")),
        }
    }

    /// Targets of what looks like direct calls in the first bytes of a function.
    fn calls(&self, function: usize) -> Vec<usize> {
        const LOOK: usize = 192;
        let end = (function + LOOK).min(self.code.end);
        // SAFETY: the range lies within the program's code, which is readable.
        let bytes = unsafe { std::slice::from_raw_parts(function as *const u8, end - function) };
        call_targets(bytes).filter(|target| self.code.contains(target)).collect()
    }

    /// Places in the data that begin with these four addresses and go on with functions.
    fn tables(&self, first: &[usize], slots: usize) -> Vec<Vec<usize>> {
        let mut tables = Vec::new();
        for range in &self.data {
            let words = (range.end - range.start) / 8;
            // SAFETY: a loaded segment is readable from its first to its last byte; segments begin aligned
            // to pages but for their first object, whose address is a multiple of 8 in these programs.
            let words = unsafe {
                std::slice::from_raw_parts(range.start.next_multiple_of(8) as *const usize, words - 1)
            };
            for at in 0..words.len().saturating_sub(slots - 1) {
                let table = &words[at..at + slots];
                if table[..4] == *first && table.iter().all(|function| self.code.contains(function)) {
                    tables.push(table.to_vec());
                }
            }
        }
        tables
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twins_exist_in_every_series() {
        for series in Series::ALL {
            for name in TWINS.iter().copied().flatten() {
                assert!(series.slot_names().contains(name), "{name} in {}", series.name());
            }
        }
    }

    #[test]
    fn a_program_that_is_no_server_is_left_alone() {
        let table = [0usize; 160];
        let result = redirect(Series::V10_11, table.as_ptr().cast(), &[]);
        assert_eq!(result, Err(DirectCallsError::Unexpected("no init_server_psi_keys")));
    }
}
