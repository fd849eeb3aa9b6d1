//! Calls in machine code.

/// The instruction at the entry of functions that may be called by address: `endbr64`.
const ENTRY_MARK: [u8; 4] = [0xF3, 0x0F, 0x1E, 0xFA];

/// Returns a function's code after its entry mark, if it has one.
pub fn without_entry_mark(code: &[u8]) -> &[u8] {
    code.strip_prefix(&ENTRY_MARK).unwrap_or(code)
}

/// Returns what looks like direct calls in code at `address`: the offset of each call in the code, and its
/// target.
pub fn calls(code: &[u8], address: usize) -> impl Iterator<Item = (usize, usize)> {
    code.windows(5).enumerate().filter_map(move |(at, code)| {
        let &[0xE8, a, b, c, d] = code else { return None };
        let distance = i32::from_le_bytes([a, b, c, d]);
        Some((at, address.wrapping_add(at + 5).wrapping_add_signed(distance as isize)))
    })
}

/// Returns the displacement with which a direct call at `call` reaches `target`; `None` if it is out of
/// range.
pub fn distance_of_call(call: usize, target: usize) -> Option<i32> {
    i32::try_from(target.wrapping_sub(call + 5).cast_signed()).ok()
}
