//! The program's code and data in memory, as the loader mapped them.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::ops::Range;

/// The address ranges of code and data; they stay mapped until the process ends.
#[derive(Clone, Debug)]
pub struct Segments {
    code: Range<usize>,
    data: Vec<Range<usize>>,
}

impl Segments {
    /// Returns the segments of the program itself; `None` if its code is not in one piece.
    pub fn of_program() -> Option<Segments> {
        unsafe extern "C" fn first(
            info: *mut libc::dl_phdr_info,
            _size: usize,
            program: *mut c_void,
        ) -> c_int {
            // SAFETY: the loader passes its own record; `program` is the option below.
            let (info, program) = unsafe { (&*info, &mut *program.cast::<Option<Segments>>()) };
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
                *program = Some(Segments { code: range(code), data: data.map(range).collect() });
            }
            // The program itself comes first; one call is enough.
            1
        }
        let mut program: Option<Segments> = None;
        // SAFETY: the callback takes the option as its data.
        unsafe { libc::dl_iterate_phdr(Some(first), std::ptr::from_mut(&mut program).cast()) };
        program
    }

    /// Returns the program's memory. It is read while no other thread runs.
    pub fn image(&self) -> Image<'_> {
        // SAFETY: a loaded segment is readable from its first to its last byte, and the program stays loaded.
        let code = unsafe { std::slice::from_raw_parts(self.code.start as *const u8, self.code.len()) };
        let words = |range: &Range<usize>| {
            let start = range.start.next_multiple_of(8);
            let count = range.end.saturating_sub(start) / 8;
            // SAFETY: as above, and the address is a multiple of 8.
            (start, unsafe { std::slice::from_raw_parts(start as *const usize, count) })
        };
        Image { address: self.code.start, code, data: self.data.iter().map(words).collect() }
    }

    /// Returns whether `len` bytes at an address are writable data.
    pub fn have_data(&self, address: usize, len: usize) -> bool {
        let end = address.saturating_add(len);
        self.data.iter().any(|range| range.start <= address && end <= range.end)
    }
}

/// The code and data of a program.
#[derive(Clone, Debug)]
pub struct Image<'a> {
    /// The address of the code.
    pub address: usize,
    /// The bytes of the code.
    pub code: &'a [u8],
    /// The writable data in words, each piece with its address.
    pub data: Vec<(usize, &'a [usize])>,
}

impl<'a> Image<'a> {
    /// Returns whether the address lies in the code.
    pub fn holds(&self, address: usize) -> bool {
        address.checked_sub(self.address).is_some_and(|at| at < self.code.len())
    }

    /// Returns the words of the data, each with its address.
    pub fn words(&self) -> impl Iterator<Item = (usize, usize)> {
        let piece = |(start, words): &(usize, &'a [usize])| {
            let start = *start;
            words.iter().enumerate().map(move |(at, word)| (start + at * size_of::<usize>(), *word))
        };
        self.data.iter().flat_map(piece)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn what_the_program_may_write_to_is_told_from_all_else() {
        static DATA: AtomicU64 = AtomicU64::new(7);
        static CONSTANT: u64 = 7;
        let segments = Segments::of_program().expect("a program");
        let local = 7u64;
        let has = |address: usize| segments.have_data(address, size_of::<u64>());
        assert!(has(DATA.as_ptr().addr()));
        assert!(!has(std::ptr::from_ref(&CONSTANT).addr()) && !has(std::ptr::from_ref(&local).addr()));
        assert!(!has(0) && !has(usize::MAX));
    }
}
