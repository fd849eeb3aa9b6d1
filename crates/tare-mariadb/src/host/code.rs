//! Analysis of the server's instructions: the functions they call and the offsets of the members they use.
//!
//! The analysed functions are exported and short. A search succeeds only if it finds exactly one offset: an
//! instruction that is missing, or present twice with different offsets, is not an answer.

use tare_host::code::calls;

/// Returns the only value that `at` finds in the code up to its first `ret`.
fn single(code: &[u8], at: impl Fn(&[u8]) -> Option<usize>) -> Option<usize> {
    let end = code.iter().position(|byte| *byte == 0xC3).unwrap_or(code.len());
    let mut found = (0..end).filter_map(|from| at(&code[from..end]));
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

/// Returns the four-byte displacement after the first three bytes of an instruction.
fn distance(code: &[u8], instruction: [u8; 3]) -> Option<usize> {
    let distance = code.strip_prefix(&instruction)?.first_chunk()?;
    usize::try_from(i32::from_le_bytes(*distance)).ok()
}

/// Returns the offset of the member that the second argument is added to: `add %rsi, place(%rdi)`.
pub(super) fn added_to(code: &[u8]) -> Option<usize> {
    single(code, |code| distance(code, [0x48, 0x01, 0xB7]))
}

/// Returns the offset of the member that is returned: `mov place(%rdi), %rax`.
pub(super) fn loaded(code: &[u8]) -> Option<usize> {
    single(code, |code| distance(code, [0x48, 0x8B, 0x87]))
}

/// Returns the offset of a four-byte member that a function reads shortly before the eight-byte member in
/// front of it, from the same base register: `mov place(base), %eax` and, some instructions later, `mov
/// place-8(base), %rax`, in any registers.
pub(super) fn read_with_one_before(code: &[u8]) -> Option<usize> {
    single(code, |code| {
        let (is_wide, place, base) = loaded_from(code)?;
        let mut behind = (6..20).filter_map(|from| loaded_from(code.get(from..)?));
        let is_before = |(wide, before, of)| wide && of == base && before + 8 == place;
        (!is_wide && behind.any(is_before)).then_some(place)
    })
}

/// Decodes a leading `mov place(base), register`: whether it reads eight bytes, the offset, and the base.
fn loaded_from(code: &[u8]) -> Option<(bool, usize, u8)> {
    let (is_wide, rest) = code.strip_prefix(&[0x48]).map_or((false, code), |rest| (true, rest));
    let &[0x8B, form, a, b, c, d, ..] = rest else { return None };
    let place = usize::try_from(i32::from_le_bytes([a, b, c, d])).ok()?;
    (form & 0xC0 == 0x80 && form & 7 != 4).then_some((is_wide, place, form & 7))
}

/// Returns the offset from `%fs:0` of the pointer that a function returns: `mov %fs:0, %rax` and `mov
/// place(%rax), %rax`, with or without a frame. The function must contain nothing else.
pub(super) fn thread_local(code: &[u8]) -> Option<isize> {
    const FRAME: [u8; 4] = [0x55, 0x48, 0x89, 0xE5];
    const LEAVE: u8 = 0x5D;
    const THREAD: [u8; 9] = [0x64, 0x48, 0x8B, 0x04, 0x25, 0, 0, 0, 0];
    let code = code.strip_prefix(&[0xF3, 0x0F, 0x1E, 0xFA]).unwrap_or(code);
    let (code, is_framed) = code.strip_prefix(&FRAME).map_or((code, false), |rest| (rest, true));
    // Prefixes without meaning, which the linker uses as padding.
    let prefixes = code.iter().take_while(|byte| **byte == 0x66).count();
    let code = code[prefixes..].strip_prefix(&THREAD)?;
    let code = if is_framed { code.strip_prefix(&[LEAVE])? } else { code };
    let (place, rest) = code.strip_prefix(&[0x48, 0x8B, 0x80])?.split_first_chunk()?;
    (rest.first() == Some(&0xC3)).then_some(i32::from_le_bytes(*place) as isize)
}

/// Returns where a function finds the pointer of a storage engine in its first argument: the offset of the
/// first engine's, and how far apart they are, as a power of two. `mov place(%rsi), %eax` or `mov (%rsi),
/// %eax`, `shl $power, %rax`, `mov place(%rax,%rdi), %rax` and nothing else but what upstream's builds add: a
/// frame around the first, and in 11.4 `add $first, %rax` before the second.
pub(super) fn of_engine(code: &[u8]) -> Option<(usize, u8)> {
    let code = code.strip_prefix(&[0xF3, 0x0F, 0x1E, 0xFA]).unwrap_or(code);
    let (has_frame, code) = code.strip_prefix(&[0x55]).map_or((false, code), |code| (true, code));
    let code = match code.strip_prefix(&[0x8B])?.split_first()? {
        (0x46, rest) => rest.get(1..)?,
        // 11.8: the number is what the second argument begins with.
        (0x06, rest) => rest,
        _ => return None,
    };
    let code = if has_frame { code.strip_prefix(&[0x48, 0x89, 0xE5, 0x5D])? } else { code };
    let (first, code) = match code.strip_prefix(&[0x48, 0x05]) {
        Some(code) => code.split_first_chunk().map(|(first, code)| (i32::from_le_bytes(*first), code))?,
        None => (0, code),
    };
    let (power, code) = code.strip_prefix(&[0x48, 0xC1, 0xE0])?.split_first()?;
    let ([form, 0x38 | 0x07], code) = code.strip_prefix(&[0x48, 0x8B])?.split_first_chunk()? else {
        return None;
    };
    // The place has four bytes, or one.
    let (place, rest) = match form {
        0x84 => code.split_first_chunk().map(|(place, rest)| (i32::from_le_bytes(*place), rest))?,
        0x44 => code.split_first_chunk().map(|(place, rest)| (i8::from_le_bytes(*place).into(), rest))?,
        _ => return None,
    };
    if rest.first() != Some(&0xC3) || *power >= 12 {
        return None;
    }
    let place = i64::from(place) + (i64::from(first) << power);
    Some((usize::try_from(place).ok()?, *power))
}

/// Returns the offset of the member whose address is the first argument of the only call to `callee` in the
/// code at `address`: `lea place(register), %rdi` and the call after it.
pub(super) fn handed_to(code: &[u8], address: usize, callee: usize) -> Option<usize> {
    let mut found = calls(code, address)
        .filter(|(_, to)| *to == callee)
        .filter_map(|(at, _)| address_of_member(&code[at.checked_sub(8)?..at]));
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

/// Decodes a trailing `lea place(register), %rdi`.
fn address_of_member(before: &[u8]) -> Option<usize> {
    let place = i32::from_le_bytes(*before.last_chunk()?);
    let is_lea = match before[..before.len() - 4] {
        [.., 0x48 | 0x49, 0x8D, form] => form & 0xF8 == 0xB8 && form & 7 != 4,
        _ => false,
    } || matches!(before[..before.len() - 4], [.., 0x48 | 0x49, 0x8D, 0xBC, 0x24]);
    usize::try_from(place).ok().filter(|_| is_lea)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `thd_increment_bytes_sent` of Debian's 10.11.19, and the bytes after it.
    const SENT: [u8; 19] = [
        0x48, 0x85, 0xFF, 0x74, 0x07, 0x48, 0x01, 0xB7, 0x78, 0x14, 0x00, 0x00, 0xC3, 0x0F, 0x1F, 0x00, 0x48,
        0x01, 0xB7,
    ];

    /// The middle of `Item_func_set_user_var::set_entry` of Debian's 10.11.19.
    const SET_ENTRY: [u8; 16] =
        [0x90, 0x90, 0x90, 0x49, 0x8D, 0xBC, 0x24, 0x68, 0x07, 0, 0, 0xE8, 0x20, 0xF6, 0xFF, 0xFF];

    #[test]
    fn a_member_handed_to_a_function_is_in_the_instruction_before_the_call() {
        let end = 0x1000 + SET_ENTRY.len();
        assert_eq!(handed_to(&SET_ENTRY, 0x1000, end - 0x9E0), Some(0x768));
        assert_eq!(handed_to(&SET_ENTRY, 0x1000, end - 0x9E1), None, "another function");
        let mut other = SET_ENTRY;
        other[5] = 0xB4;
        assert_eq!(handed_to(&other, 0x1000, end - 0x9E0), None, "another argument");
        other[3..7].copy_from_slice(&[0x90, 0x48, 0x8D, 0xBB]);
        assert_eq!(handed_to(&other, 0x1000, end - 0x9E0), Some(0x768));
    }

    /// `_current_thd` of Debian's 10.11.19.
    const CURRENT: [u8; 25] = [
        0x55, 0x48, 0x89, 0xE5, 0x66, 0x66, 0x66, 0x64, 0x48, 0x8B, 0x04, 0x25, 0, 0, 0, 0, 0x5D, 0x48, 0x8B,
        0x80, 0x98, 0xFF, 0xFF, 0xFF, 0xC3,
    ];

    #[test]
    fn a_thread_local_pointer_is_all_that_its_function_reads() {
        assert_eq!(thread_local(&CURRENT), Some(-0x68));
        let plain = [&CURRENT[7..16], &CURRENT[17..]].concat();
        assert_eq!(thread_local(&plain), Some(-0x68));
        assert_eq!(thread_local(&[&[0xF3, 0x0F, 0x1E, 0xFA][..], &plain].concat()), Some(-0x68));
        assert_eq!(thread_local(&CURRENT[..24]), None, "cut off");
        assert_eq!(thread_local(&CURRENT[4..]), None, "a frame that nobody made");
        for at in (0..CURRENT.len()).filter(|at| !(4..7).contains(at) && !(20..24).contains(at)) {
            let mut other = CURRENT;
            other[at] ^= 0x88;
            assert_eq!(thread_local(&other), None, "byte {at}");
        }
    }

    /// The first use of a session in `set_thd_stage_info` of Debian's 10.11.19; Ubuntu's 11.4.7 has it at
    /// another offset.
    const BACKUP: [u8; 22] = [
        0x8B, 0x83, 0x08, 0x26, 0, 0, 0x41, 0x89, 0x04, 0x24, 0x48, 0x8B, 0x83, 0x00, 0x26, 0, 0, 0x49, 0x89,
        0x44, 0x24, 0x08,
    ];
    const OTHER_BACKUP: [u8; 19] = [
        0x8B, 0x8B, 0x90, 0x26, 0, 0, 0x89, 0x0A, 0x48, 0x8B, 0x8B, 0x88, 0x26, 0, 0, 0x48, 0x89, 0x4A, 0x08,
    ];

    #[test]
    fn a_member_is_known_by_the_one_before_it_that_is_read_next() {
        assert_eq!(read_with_one_before(&BACKUP), Some(0x2608));
        assert_eq!(read_with_one_before(&OTHER_BACKUP), Some(0x2690));
        assert_eq!(read_with_one_before(&BACKUP[1..]), None);
        assert_eq!(read_with_one_before(&BACKUP[..16]), None, "cut off");
        // Another offset, another base, four bytes only.
        for (at, byte) in [(13, 0x10), (12, 0x82), (10, 0x90)] {
            let mut other = BACKUP;
            other[at] = byte;
            assert_eq!(read_with_one_before(&other), None, "byte {at}");
        }
        assert_eq!(read_with_one_before(&[&BACKUP[..], &OTHER_BACKUP].concat()), None, "two of them");
    }

    #[test]
    fn a_members_place_is_in_the_instruction() {
        assert_eq!(added_to(&SENT), Some(0x1478));
        assert_eq!(loaded(&SENT), None);
        assert_eq!(loaded(&[0x48, 0x8B, 0x87, 0x68, 0x3E, 0, 0, 0xC3]), Some(0x3E68));
        let behind_an_entry = [&[0xF3, 0x0F, 0x1E, 0xFA][..], &SENT].concat();
        assert_eq!(added_to(&behind_an_entry), Some(0x1478));
        let twice = [&SENT[5..12], &SENT[5..13]].concat();
        assert_eq!(added_to(&twice), None);
        assert_eq!(added_to(&SENT[..10]), None, "cut off");
        assert_eq!(loaded(&[0x48, 0x8B, 0x87, 0xFF, 0xFF, 0xFF, 0xFF, 0xC3]), None, "before the structure");
    }

    #[test]
    fn the_place_of_a_storage_engine_is_found_in_its_getter() {
        // `thd_get_ha_data` of Debian's 10.11.19.
        let code = [
            0x8B, 0x46, 0x04, 0x48, 0xC1, 0xE0, 0x06, 0x48, 0x8B, 0x84, 0x38, 0x80, 0x28, 0x00, 0x00, 0xC3,
            0x55,
        ];
        assert_eq!(of_engine(&code), Some((0x2880, 6)));
        let mut other = code;
        other[10] = 0x07;
        assert_eq!(of_engine(&other), Some((0x2880, 6)), "both registers in the other order");
        other[15] = 0x90;
        assert_eq!(of_engine(&other), None);
        assert_eq!(of_engine(&code[..12]), None);
        let first = [&[0xF3, 0x0F, 0x1E, 0xFA, 0x8B, 0x06][..], &code[3..]].concat();
        assert_eq!(of_engine(&first), Some((0x2880, 6)), "11.8: it begins with its number");
        // push %rbp; mov 4(%rsi),%eax; mov %rsp,%rbp; pop %rbp; shl $6,%rax;
        // mov 0x2838(%rdi,%rax,1),%rax; ret
        let upstream = [
            0x55, 0x8B, 0x46, 0x04, 0x48, 0x89, 0xE5, 0x5D, 0x48, 0xC1, 0xE0, 0x06, 0x48, 0x8B, 0x84, 0x07,
            0x38, 0x28, 0x00, 0x00, 0xC3,
        ];
        assert_eq!(of_engine(&upstream), Some((0x2838, 6)), "10.11.5");
        assert_eq!(of_engine(&upstream[1..]), None, "the end of a frame without its beginning");
        // The same with add $0xa4,%rax before the shift; mov 8(%rdi,%rax,1),%rax; ret
        let upstream = [
            0x55, 0x8B, 0x46, 0x04, 0x48, 0x89, 0xE5, 0x5D, 0x48, 0x05, 0xA4, 0x00, 0x00, 0x00, 0x48, 0xC1,
            0xE0, 0x06, 0x48, 0x8B, 0x44, 0x07, 0x08, 0xC3,
        ];
        assert_eq!(of_engine(&upstream), Some((0x2908, 6)), "11.4.5");
        assert_eq!(of_engine(&upstream[..23]), None);
        let mut negative = upstream;
        negative[10..14].copy_from_slice(&(-1_i32).to_le_bytes());
        assert_eq!(of_engine(&negative), None, "before the session");
        assert_eq!(of_engine(&SENT), None);
    }
}
