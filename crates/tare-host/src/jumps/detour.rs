//! Detours: tare's functions that are called before functions of the server, which still do all their work.
//!
//! The beginning of such a function is replaced by a jump to tare's (`write_jumps` or `lead`). The
//! overwritten instructions are copied to a page of tare first, followed by a jump to the rest: calling the
//! copy calls the original function. Only whole instructions are copied, so that each does the same in its
//! new place, and only from a function that never jumps back into them. Any other function is left alone.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Decoder, DecoderOptions, FlowControl, Instruction, InstructionBlock,
};

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

    /// Returns the instructions that a jump replaces, if they do the same in another place, and their length.
    fn beginning(self, jump: ReplacedStart) -> Result<(Vec<Instruction>, usize), DetourError> {
        let unexpected = DetourError::Unexpected(self.name);
        if jump == ReplacedStart::Long && !self.start().is_multiple_of(16) {
            return Err(unexpected);
        }
        let (first, jump) = match jump {
            ReplacedStart::Long => (0, JUMP),
            ReplacedStart::Short => (self.code.len() - code::without_entry_mark(self.code).len(), SHORT_JUMP),
        };
        let mut decoder = Decoder::with_ip(64, self.code, self.start() as u64, DecoderOptions::NONE);
        let mut instructions = Vec::new();
        while decoder.position() < first + jump {
            let instruction = decoder.decode();
            if !is_movable(&instruction) {
                return Err(unexpected);
            }
            instructions.push(instruction);
        }
        let len = decoder.position();
        // What is copied behind the jump stays there as well.
        if jumps_into(self.code, first, first + jump) { Err(unexpected) } else { Ok((instructions, len)) }
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
    let refused = |error: std::io::Error| DetourError::Refused(error.to_string());
    let mut copies = Vec::with_capacity(functions.len());
    for functions in functions.chunks(PAGE / COPY) {
        // Near, because instructions name variables by their distance.
        let page = take_pages_near(functions[0].start(), 1).map_err(refused)?;
        let mut code = [0xCC; PAGE];
        for (at, (function, copy)) in functions.iter().zip(code.chunks_mut(COPY)).enumerate() {
            if let Err(error) = copy_beginning(*function, jump, page.addr() + at * COPY, copy) {
                give_pages(page, 1);
                return Err(error);
            }
        }
        let at = fill_code(page, 1, &code).map_err(refused)?;
        copies.extend((0..functions.len()).map(|copy| at + copy * COPY));
    }
    Ok(copies)
}

/// Writes the code of a copy that will be at an address.
fn copy_beginning(
    function: Function,
    jump: ReplacedStart,
    at: usize,
    copy: &mut [u8],
) -> Result<(), DetourError> {
    let (instructions, len) = function.beginning(jump)?;
    let block = InstructionBlock::new(&instructions, at as u64);
    let beginning = BlockEncoder::encode(64, block, BlockEncoderOptions::NONE)
        .map_err(|_| DetourError::Unexpected(function.name))?
        .code_buffer;
    let code = [&beginning[..], &jump_on_to(function.start() + len)].concat();
    let place = copy.get_mut(..code.len()).ok_or(DetourError::Unexpected(function.name))?;
    place.copy_from_slice(&code);
    Ok(())
}

/// Creates a page of executable code that is never freed.
#[cfg(test)]
pub(super) fn make_code(page: &[u8; PAGE]) -> std::io::Result<usize> {
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

/// Returns whether an instruction does the same in another place: it goes on with the next one, or jumps if a
/// condition holds.
fn is_movable(instruction: &Instruction) -> bool {
    let goes_on = matches!(instruction.flow_control(), FlowControl::Next | FlowControl::ConditionalBranch);
    !instruction.is_invalid()
        && goes_on
        && !instruction.is_jcx_short()
        && !instruction.is_loop()
        && !instruction.is_loopcc()
}

/// Returns whether a jump or a call of a function leads behind its byte `first`, where the jump that replaces
/// the beginning is, and before the byte `len`.
fn jumps_into(code: &[u8], first: usize, len: usize) -> bool {
    let replaced = first as u64 + 1..len as u64;
    let mut instructions = Decoder::new(64, code, DecoderOptions::NONE).into_iter();
    instructions.any(|it| replaced.contains(&it.near_branch_target()))
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
        let decoder = Decoder::new(64, code, DecoderOptions::NONE).into_iter();
        decoder.take_while(is_movable).map(|instruction| instruction.len()).collect()
    }

    #[test]
    fn whole_instructions_are_told_apart() {
        assert_eq!(lengths(KNOWN[0])[..8], [1, 3, 2, 2, 2, 2, 3, 1]);
        assert_eq!(lengths(KNOWN[1]), [1, 3, 2, 3, 2, 3, 2]);
        assert_eq!(lengths(KNOWN[2]), [4, 1, 3, 2, 2, 2, 2]);
    }

    #[test]
    fn what_leads_elsewhere_or_is_cut_off_is_not_movable() {
        // call, jmp, ret, jrcxz, loop, two that are cut off.
        for code in
            [&[0xE8, 0, 0, 0, 0][..], &[0xEB, 5], &[0xC3], &[0xE3, 5], &[0xE2, 5], &[0x48, 0x83], &[0x89]]
        {
            assert!(lengths(code).is_empty(), "{code:x?}");
        }
    }

    #[test]
    fn a_copy_reads_the_variable_and_jumps_where_the_function_does() {
        // cmp byte [rip + flag], 0; je other; mov eax, 1; ret; other: mov eax, 2; ret. The flag is behind it.
        let mut page = [0xCC; PAGE];
        let function: &[u8] =
            &[0x80, 0x3D, 0xF9, 0, 0, 0, 0, 0x74, 0x06, 0xB8, 1, 0, 0, 0, 0xC3, 0xB8, 2, 0, 0, 0, 0xC3];
        for (place, flag) in [(0, 0), (512, 1)] {
            page[place..][..function.len()].copy_from_slice(function);
            page[place + 256] = flag;
        }
        let at = make_code(&page).expect("memory for code");
        let functions = [0, 512].map(|place| {
            // SAFETY: the page created above, which is never freed.
            let code = unsafe { std::slice::from_raw_parts((at + place) as *const u8, function.len()) };
            Function { name: "flag", code }
        });
        let copies = copies_for_lead(&functions).expect("a movable beginning");
        // SAFETY: code that returns a number, by the C ABI.
        let results = copies
            .iter()
            .map(|copy| unsafe { std::mem::transmute::<usize, extern "C" fn() -> u32>(*copy) }());
        assert_eq!(results.collect::<Vec<_>>(), [2, 1]);
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
