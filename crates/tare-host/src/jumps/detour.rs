//! Detours: tare's functions that are called before functions of the server, which still do all their work.
//!
//! The beginning of such a function is replaced by a jump to tare's (`write_jumps` or `lead`). The
//! overwritten instructions are copied to a page of tare first, followed by a jump to the rest: calling the
//! copy calls the original function. Only whole, position-independent instructions are copied, and only from
//! a function that never jumps back into them. Any other function is left alone.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};

use super::error::DetourError;
use super::near::SHORT_JUMP;
use super::write::JUMP;
use crate::code;
use crate::process::{Symbol, symbol};

/// A function of the program.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    name: &'static str,
    code: &'static [u8],
}

impl Function {
    /// Finds the function of this mangled name, which carries its signature.
    ///
    /// # Errors
    ///
    /// When no loaded object exports it, or the loader does not know its size.
    pub fn find(name: &'static CStr) -> Result<Function, DetourError> {
        let shown = name.to_str().unwrap_or("function");
        let start = symbol(name).ok_or(DetourError::Missing(shown))?;
        let found = Symbol::at(start).filter(|found| found.start == start.addr() && found.size != 0);
        let size = found.ok_or(DetourError::Unexpected(shown))?.size;
        // SAFETY: the loader's table says that the function's code has this size; programs are never
        // unloaded.
        let code = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), size) };
        Ok(Function { name: shown, code })
    }

    /// Returns the function's bytes.
    pub fn code(self) -> &'static [u8] {
        self.code
    }

    /// Returns the function's address.
    pub fn start(self) -> usize {
        self.code.as_ptr().addr()
    }

    /// Checks that this function calls `other` directly.
    ///
    /// # Errors
    ///
    /// When it does not.
    pub fn calls(self, other: Function) -> Result<(), DetourError> {
        let calls = code::calls(self.code, self.start()).any(|(_, target)| target == other.start());
        if calls { Ok(()) } else { Err(DetourError::Unexpected(self.name)) }
    }

    /// Returns the address of the direct call to `other`.
    ///
    /// # Errors
    ///
    /// When there is none, or more than one.
    pub fn only_call(self, other: Function) -> Result<usize, DetourError> {
        let mut calls = code::calls(self.code, self.start()).filter(|(_, target)| *target == other.start());
        match (calls.next(), calls.next()) {
            (Some((at, _)), None) => Ok(self.start() + at),
            _ => Err(DetourError::Unexpected(self.name)),
        }
    }

    /// Returns the instructions that a jump replaces, if they are whole and position-independent.
    fn beginning(self, jump: ReplacedStart) -> Result<&'static [u8], DetourError> {
        let unexpected = DetourError::Unexpected(self.name);
        if jump == ReplacedStart::Long && !self.start().is_multiple_of(16) {
            return Err(unexpected);
        }
        let (first, jump) = match jump {
            ReplacedStart::Long => (0, JUMP),
            ReplacedStart::Short => (self.code.len() - code::without_entry_mark(self.code).len(), SHORT_JUMP),
        };
        let mut len = 0;
        while len < first + jump {
            len += movable(&self.code[len..]).ok_or(unexpected.clone())?;
        }
        // What is copied behind the jump stays there as well.
        if jumps_into(self.code, first, first + jump) { Err(unexpected) } else { Ok(&self.code[..len]) }
    }
}

/// The jump that replaces the beginning of a function.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReplacedStart {
    /// One of [`JUMP`] bytes at the function's first byte.
    Long,
    /// One of [`SHORT_JUMP`] bytes behind the entry mark.
    Short,
}

/// The size of a copy in bytes: the longest beginning and a jump.
const COPY: usize = 64;
/// The size in bytes of a page of code.
pub const PAGE: usize = 4096;

/// The size in bytes of a jump that changes no register.
pub const JUMP_ON: usize = 14;

/// Returns the code of a jump: `jmp [rip+0]` and the address. No register is used because the copied code may
/// have set any of them.
pub fn jump_on_to(target: usize) -> [u8; JUMP_ON] {
    let mut code = [0xFF, 0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    code[6..].copy_from_slice(&target.to_le_bytes());
    code
}

/// Copies the beginnings of functions that [`write_jumps`](super::write_jumps) changes, each followed by a
/// jump to the rest. Returns the copies' addresses, to be called instead of the functions.
///
/// # Errors
///
/// When a beginning cannot be copied, or the system refuses memory for code.
pub fn copies<const N: usize>(functions: [Function; N]) -> Result<[usize; N], DetourError> {
    let copies = copied(&functions, ReplacedStart::Long)?;
    Ok(std::array::from_fn(|at| copies[at]))
}

/// Copies the beginnings of functions that [`lead`](super::lead) changes, each followed by a jump to the
/// rest. Returns the copies' addresses, to be called instead of the functions.
///
/// # Errors
///
/// When a beginning cannot be copied, or the system refuses memory for code.
pub fn copies_for_lead(functions: &[Function]) -> Result<Vec<usize>, DetourError> {
    copied(functions, ReplacedStart::Short)
}

fn copied(functions: &[Function], jump: ReplacedStart) -> Result<Vec<usize>, DetourError> {
    let mut copies = Vec::with_capacity(functions.len());
    for functions in functions.chunks(PAGE / COPY) {
        let mut page = [0xCC; PAGE];
        for (function, copy) in functions.iter().zip(page.chunks_mut(COPY)) {
            let beginning = function.beginning(jump)?;
            copy[..beginning.len()].copy_from_slice(beginning);
            let on = jump_on_to(function.start() + beginning.len());
            copy[beginning.len()..][..JUMP_ON].copy_from_slice(&on);
        }
        let at = make_code(&page).map_err(|error| DetourError::Refused(error.to_string()))?;
        copies.extend((0..functions.len()).map(|copy| at + copy * COPY));
    }
    Ok(copies)
}

/// Creates a page of executable code that is never freed.
///
/// # Errors
///
/// When the system refuses it.
pub fn make_code(page: &[u8; PAGE]) -> std::io::Result<usize> {
    fill_code(take_pages(0, 1)?, 1, page)
}

/// Creates a page of executable code at an address that a call at `from` reaches.
///
/// # Errors
///
/// When no page is free there, or the system refuses it.
pub fn make_code_near(page: &[u8; PAGE], from: usize) -> std::io::Result<usize> {
    fill_code(take_pages_near(from, 1)?, 1, page)
}

/// Creates a page of executable code, as [`make_code_near`] does, and behind it a page of zeros that can be
/// written, which is never freed either.
///
/// # Errors
///
/// When no pages are free there, or the system refuses it.
pub(super) fn make_code_and_data_near(page: &[u8; PAGE], from: usize) -> std::io::Result<usize> {
    fill_code(take_pages_near(from, 2)?, 2, page)
}

/// Maps writable pages at an address that a call at `from` reaches.
fn take_pages_near(from: usize, count: usize) -> std::io::Result<*mut c_void> {
    let mut last = std::io::Error::from(std::io::ErrorKind::OutOfMemory);
    // The space below a program is usually free; its heap follows it.
    for step in 1..=NEAR / STEP {
        for hint in [from.saturating_sub(step * STEP), from + step * STEP] {
            match take_pages(hint / PAGE * PAGE, count) {
                Ok(at) if code::distance_of_call(from, at.addr()).is_some() => return Ok(at),
                Ok(at) => give_pages(at, count),
                Err(error) => last = error,
            }
        }
    }
    Err(last)
}

/// The largest distance from a call at which a page is looked for, and the step of the search.
const NEAR: usize = 1 << 30;
const STEP: usize = 16 << 20;

/// Maps writable pages at this address, or elsewhere if it is taken; 0 means anywhere.
fn take_pages(hint: usize, count: usize) -> std::io::Result<*mut c_void> {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let at = std::ptr::without_provenance_mut(hint);
    // SAFETY: a mapping of its own: an address without MAP_FIXED is only a hint.
    let at = unsafe { libc::mmap(at, count * PAGE, access, kind, -1, 0) };
    if at == libc::MAP_FAILED { Err(std::io::Error::last_os_error()) } else { Ok(at) }
}

fn give_pages(at: *mut c_void, count: usize) {
    // SAFETY: pages of `take_pages`, which nobody uses.
    unsafe { libc::munmap(at, count * PAGE) };
}

/// Fills the first of `count` pages of [`take_pages`] with code, and returns its address.
fn fill_code(at: *mut c_void, count: usize, page: &[u8; PAGE]) -> std::io::Result<usize> {
    // SAFETY: the mapping has at least this size, and nobody else knows it.
    let protected = unsafe {
        at.cast::<u8>().copy_from_nonoverlapping(page.as_ptr(), PAGE);
        libc::mprotect(at, PAGE, libc::PROT_READ | libc::PROT_EXEC)
    };
    if protected != 0 {
        let error = std::io::Error::last_os_error();
        give_pages(at, count);
        return Err(error);
    }
    Ok(at.expose_provenance())
}

/// Returns the length of the first instruction if it is position-independent.
fn movable(code: &[u8]) -> Option<usize> {
    match *code {
        // endbr64
        [0xF3, 0x0F, 0x1E, 0xFA, ..] => Some(4),
        // push r64
        [0x50..=0x57, ..] => Some(1),
        [0x41, 0x50..=0x57, ..] => Some(2),
        // mov between registers
        [0x89 | 0x8B, 0xC0..=0xFF, ..] => Some(2),
        [0x40..=0x4F, 0x89 | 0x8B, 0xC0..=0xFF, ..] => Some(3),
        // xor between registers, which is how one becomes 0
        [0x31 | 0x33, 0xC0..=0xFF, ..] => Some(2),
        [0x40..=0x4F, 0x31 | 0x33, 0xC0..=0xFF, ..] => Some(3),
        // test between registers: the jump to the rest keeps the flags
        [0x85, 0xC0..=0xFF, ..] => Some(2),
        // sub rsp, imm
        [0x48, 0x83, 0xEC, _, ..] => Some(4),
        [0x48, 0x81, 0xEC, _, _, _, _, ..] => Some(7),
        // mov r32, [register + imm8], where no index follows
        [0x8B, at @ 0x40..=0x7F, _, ..] if at & 7 != 4 => Some(3),
        // mov r64, [register + imm8], and lock sub dword [register + imm32], imm8, where no index follows
        [0x48, 0x8B, at @ 0x40..=0x7F, _, ..] if at & 7 != 4 => Some(4),
        // mov r64, [register + imm32]
        [0x48 | 0x4C, 0x8B, at @ 0x80..=0xBF, _, _, _, _, ..] if at & 7 != 4 => Some(7),
        [0xF0, 0x83, 0xA8..=0xAB | 0xAD..=0xAF, _, _, _, _, _, ..] => Some(8),
        _ => None,
    }
}

/// Returns whether anything that looks like a jump or a call leads behind the byte `first`, where the jump
/// that replaces the beginning is, and before the byte `len`. False positives count, too: the function is
/// then left alone.
fn jumps_into(code: &[u8], first: usize, len: usize) -> bool {
    let replaced = first as i64 + 1..len as i64;
    let leads_there = |end: usize, distance: i64| replaced.contains(&(end as i64 + distance));
    code.windows(2).enumerate().any(|(at, window)| {
        matches!(window[0], 0x70..=0x7F | 0xE0..=0xE3 | 0xEB)
            && leads_there(at + 2, i64::from(window[1].cast_signed()))
    }) || code.windows(5).enumerate().any(|(at, window)| {
        // The second byte of a conditional jump precedes its displacement like the first byte of the others.
        let &[0x80..=0x8F | 0xE8 | 0xE9, a, b, c, d] = window else { return false };
        leads_there(at + 5, i64::from(i32::from_le_bytes([a, b, c, d])))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The beginnings of `THD::handle_condition` on 10.11.19, 10.11.5 and 11.8.
    const KNOWN: [&[u8]; 3] = [
        &[
            0x55, 0x48, 0x89, 0xE5, 0x41, 0x57, 0x41, 0x56, 0x41, 0x55, 0x41, 0x54, 0x4D, 0x89, 0xCC, 0x53,
            0x48,
        ],
        &[0x55, 0x48, 0x89, 0xE5, 0x41, 0x57, 0x41, 0x89, 0xF7, 0x41, 0x56, 0x49, 0x89, 0xD6, 0x41, 0x55],
        &[0xF3, 0x0F, 0x1E, 0xFA, 0x55, 0x48, 0x89, 0xE5, 0x41, 0x57, 0x41, 0x56, 0x41, 0x55, 0x41, 0x54],
    ];

    fn lengths(code: &[u8]) -> Vec<usize> {
        let mut at = 0;
        std::iter::from_fn(|| {
            let len = movable(code.get(at..)?)?;
            at += len;
            Some(len)
        })
        .collect()
    }

    #[test]
    fn whole_instructions_are_told_apart() {
        assert_eq!(lengths(KNOWN[0]), [1, 3, 2, 2, 2, 2, 3, 1]);
        assert_eq!(lengths(KNOWN[1]), [1, 3, 2, 3, 2, 3, 2]);
        assert_eq!(lengths(KNOWN[2]), [4, 1, 3, 2, 2, 2, 2]);
        assert_eq!(lengths(&[0x48, 0x83, 0xEC, 0x18, 0x48, 0x81, 0xEC, 0, 1, 0, 0]), [4, 7]);
        // xor eax, eax; xor r8d, r8d
        assert_eq!(lengths(&[0x31, 0xC0, 0x45, 0x31, 0xC0]), [2, 3]);
        // mov eax, [rdx + 4]; test eax, eax; but not mov eax, [rsp + rdx + 4]
        assert_eq!(lengths(&[0x8B, 0x42, 4, 0x85, 0xC0]), [3, 2]);
        assert!(lengths(&[0x8B, 0x44, 0x14, 4]).is_empty());
        // mov rax, [rdi + 0x20]; lock sub dword [rax + 0x1b0], 1
        let counts = [0x48, 0x8B, 0x47, 0x20, 0xF0, 0x83, 0xA8, 0xB0, 1, 0, 0, 1];
        assert_eq!(lengths(&counts), [4, 8]);
    }

    #[test]
    fn what_depends_on_its_place_is_not_movable() {
        let lea_rip = [0x48, 0x8D, 0x05, 0, 0, 0, 0];
        let mov_rip = [0x48, 0x8B, 0x05, 0, 0, 0, 0];
        for code in [&lea_rip[..], &mov_rip, &[0xE8, 0, 0, 0, 0], &[0x74, 0x05], &[0x48, 0x83], &[0x89], &[]]
        {
            assert_eq!(movable(code), None, "{code:x?}");
        }
    }

    #[test]
    fn a_function_that_goes_back_into_its_beginning_is_known() {
        let with = |tail: &[u8]| [&[0x90; 32], tail].concat();
        assert!(!jumps_into(&with(&[0xC3]), 0, 16));
        // Jumps back to byte 4, byte 0 and byte 16.
        assert!(jumps_into(&with(&[0xEB, 4u8.wrapping_sub(34)]), 0, 16));
        assert!(
            !jumps_into(&with(&[0xEB, 0u8.wrapping_sub(34)]), 0, 16),
            "to its first byte, which is the detour"
        );
        assert!(!jumps_into(&with(&[0xEB, 16u8.wrapping_sub(34)]), 0, 16), "behind what is copied");
        assert!(jumps_into(&with(&[&[0x0F, 0x84][..], &(8i32 - 38).to_le_bytes()].concat()), 0, 16));
        assert!(jumps_into(&with(&[&[0xE9][..], &(8i32 - 37).to_le_bytes()].concat()), 0, 16));
    }

    #[test]
    fn a_copy_does_what_the_function_does() {
        // A function that adds its two arguments, with a beginning and alignment like those of the server's
        // functions.
        let mut page = [0xCC; PAGE];
        let function: &[u8] = &[
            0x55, 0x48, 0x89, 0xE5, 0x41, 0x57, 0x41, 0x56, 0x41, 0x55, 0x41, 0x54, 0x48, 0x89,
            0xF8, // mov rax, rdi
            0x48, 0x01, 0xF0, // add rax, rsi
            0x41, 0x5C, 0x41, 0x5D, 0x41, 0x5E, 0x41, 0x5F, 0x5D, 0xC3,
        ];
        page[..function.len()].copy_from_slice(function);
        let at = make_code(&page).expect("memory for code");
        // SAFETY: the page created above, which is never freed.
        let code = unsafe { std::slice::from_raw_parts(at as *const u8, function.len()) };
        let [copy] = copies([Function { name: "add", code }]).expect("a movable beginning");
        assert_ne!(copy, at);
        // SAFETY: code that takes two numbers and returns one, by the C ABI.
        let add = unsafe { std::mem::transmute::<usize, extern "C" fn(u64, u64) -> u64>(copy) };
        assert_eq!(add(40, 2), 42);
    }

    #[test]
    fn the_copy_of_a_short_function_goes_on_behind_its_short_jump() {
        // endbr64; push rbp; mov rbp, rsp; push rbx; lea eax, [rdi + 1]; pop rbx; pop rbp; ret. 15 bytes, and
        // not at a multiple of 16.
        let function: &[u8] =
            &[0xF3, 0x0F, 0x1E, 0xFA, 0x55, 0x48, 0x89, 0xE5, 0x53, 0x8D, 0x47, 0x01, 0x5B, 0x5D, 0xC3];
        let mut page = [0xCC; PAGE];
        page[8..][..function.len()].copy_from_slice(function);
        let at = make_code(&page).expect("memory for code") + 8;
        // SAFETY: the page created above, which is never freed.
        let code = unsafe { std::slice::from_raw_parts(at as *const u8, function.len()) };
        let function = Function { name: "next", code };
        assert_eq!(copies([function]), Err(DetourError::Unexpected("next")), "not for a long jump");
        let copies = copies_for_lead(&[function; PAGE / COPY + 1]).expect("a movable beginning");
        for copy in [copies[0], copies[PAGE / COPY]] {
            // SAFETY: code that takes a number and returns one, by the C ABI.
            let next = unsafe { std::mem::transmute::<usize, extern "C" fn(u32) -> u32>(copy) };
            assert_eq!(next(41), 42);
        }
    }

    #[test]
    fn a_function_that_is_not_there_is_named() {
        assert_eq!(Function::find(c"no_such_function").err(), Some(DetourError::Missing("no_such_function")));
    }
}
