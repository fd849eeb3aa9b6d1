//! How often a program's functions are called, by its code.
//!
//! Link-time optimisation can make a function part of its callers. The function is still there and still
//! exported, but nobody sees a jump at its entry then. A function that nobody calls by name is such a one.
//! Each place is counted at which code calls a function or jumps to it: directly, by way of a stub (*PLT*),
//! or through a slot of addresses (*GOT*). Every byte is looked at as if an instruction began there, so now
//! and then a count is one too high in a hundred megabytes.

use std::collections::HashMap;

use crate::code::without_entry_mark;
use crate::process::Image;

/// The places at which a function is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallSites {
    /// The calls and jumps that lead to it.
    pub by_name: usize,
    /// The words of the program's data that hold its address, such as slots of function tables.
    pub in_data: usize,
}

/// Returns the places at which each function, given by its address, is used. Of a function that only jumps to
/// another one, those of the other one count, too, because a compiler may have its callers go there.
pub fn call_sites(program: &Image<'_>, functions: &[usize]) -> Vec<CallSites> {
    let jumps_on: Vec<Option<usize>> =
        functions.iter().map(|function| jumps_on_to(program, *function)).collect();
    let targets = functions.iter().chain(jumps_on.iter().flatten());
    let mut sites: HashMap<usize, CallSites> = targets.map(|at| (*at, CallSites::default())).collect();
    let mut slots = HashMap::new();
    for (slot, word) in program.words() {
        if let Some(sites) = sites.get_mut(&word) {
            sites.in_data += 1;
            slots.insert(slot, word);
        }
    }
    let stubs = stubs(program, &slots);
    let mut count = |target: usize| {
        let function = stubs.get(&target).copied().unwrap_or(target);
        sites.entry(function).and_modify(|sites| sites.by_name += 1);
    };
    for (_, used) in uses(program) {
        match used {
            AddressUse::Direct(target) => count(target),
            AddressUse::CallBySlot(slot) => slots.get(&slot).copied().into_iter().for_each(&mut count),
            AddressUse::JumpBySlot(_) => {}
        }
    }
    let total = |(function, behind): (&usize, &Option<usize>)| {
        let own = sites[function];
        let Some(behind) = behind else { return own };
        let that = sites[behind];
        // The jumps of the functions themselves are no calls.
        let jumps = jumps_on.iter().filter(|it| **it == Some(*behind)).count();
        CallSites {
            by_name: own.by_name + that.by_name.saturating_sub(jumps),
            in_data: own.in_data + that.in_data,
        }
    };
    functions.iter().zip(&jumps_on).map(total).collect()
}

/// Returns where a function jumps to if that is all it does.
fn jumps_on_to(program: &Image<'_>, function: usize) -> Option<usize> {
    let code = program.code.get(function.checked_sub(program.address)?..)?;
    let rest = without_entry_mark(code);
    match *rest {
        [0xE9, a, b, c, d, ..] => {
            let end = function + (code.len() - rest.len()) + 5;
            Some(end.wrapping_add_signed(i32::from_le_bytes([a, b, c, d]) as isize))
        }
        _ => None,
    }
}

/// A use of an address by an instruction.
#[derive(Clone, Copy)]
enum AddressUse {
    /// A call or a jump to this address.
    Direct(usize),
    /// A call of the function whose address is in this slot.
    CallBySlot(usize),
    /// A jump to the function whose address is in this slot.
    JumpBySlot(usize),
}

/// Returns what looks like calls and jumps, each with the instruction's address.
fn uses<'a>(program: &'a Image<'_>) -> impl Iterator<Item = (usize, AddressUse)> + 'a {
    let may_begin = |byte: &u8| matches!(byte, 0xE8 | 0xE9 | 0x0F | 0xFF);
    let places = program.code.iter().enumerate().filter(move |(_, byte)| may_begin(byte));
    places.filter_map(|(at, _)| {
        let code = program.code[at..].first_chunk()?;
        let at = program.address + at;
        Some((at, decoded(code, at)?))
    })
}

/// Decodes what looks like a call or a jump at an address.
fn decoded(code: &[u8; 6], at: usize) -> Option<AddressUse> {
    let to =
        |len: usize, distance: [u8; 4]| (at + len).wrapping_add_signed(i32::from_le_bytes(distance) as isize);
    Some(match *code {
        // call; jmp
        [0xE8 | 0xE9, a, b, c, d, _] => AddressUse::Direct(to(5, [a, b, c, d])),
        // jcc
        [0x0F, 0x80..=0x8F, a, b, c, d] => AddressUse::Direct(to(6, [a, b, c, d])),
        // call *slot(%rip); jmp *slot(%rip)
        [0xFF, 0x15, a, b, c, d] => AddressUse::CallBySlot(to(6, [a, b, c, d])),
        [0xFF, 0x25, a, b, c, d] => AddressUse::JumpBySlot(to(6, [a, b, c, d])),
        _ => return None,
    })
}

/// Returns the addresses of stubs that jump by one of the slots, each with the function in the slot.
fn stubs(program: &Image<'_>, slots: &HashMap<usize, usize>) -> HashMap<usize, usize> {
    let mut stubs = HashMap::new();
    for (at, used) in uses(program) {
        let AddressUse::JumpBySlot(slot) = used else { continue };
        let Some(function) = slots.get(&slot) else { continue };
        stubs.insert(at, *function);
        // A stub can have an entry mark and a prefix, `bnd`.
        let before = &program.code[..at - program.address];
        let plain = before.strip_suffix(&[0xF2]).unwrap_or(before);
        if without_entry_mark(&plain[plain.len().saturating_sub(4)..]).is_empty() {
            stubs.insert(program.address + plain.len() - 4, *function);
        }
        stubs.insert(program.address + plain.len(), *function);
    }
    stubs
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: usize = 0x40_0000;
    const DATA: usize = 0x50_0000;

    /// Code at `AT` in which instructions are written at offsets.
    struct Code(Vec<u8>);

    impl Code {
        fn with(mut self, at: usize, opcode: &[u8], to: usize) -> Code {
            let end = AT + at + opcode.len() + 4;
            let distance = i32::try_from(to.wrapping_sub(end).cast_signed()).expect("near").to_le_bytes();
            self.0[at..][..opcode.len()].copy_from_slice(opcode);
            self.0[at + opcode.len()..][..4].copy_from_slice(&distance);
            self
        }
    }

    fn nothing() -> Code {
        Code(vec![0x90; 0x400])
    }

    fn sites(code: &Code, data: &[usize], functions: &[usize]) -> Vec<(usize, usize)> {
        let program = Image { address: AT, code: &code.0, data: vec![(DATA, data)] };
        call_sites(&program, functions).into_iter().map(|sites| (sites.by_name, sites.in_data)).collect()
    }

    #[test]
    fn calls_jumps_and_slots_are_counted_for_their_function() {
        let (one, two) = (AT + 0x100, AT + 0x200);
        let code = nothing()
            .with(0, &[0xE8], one)
            .with(10, &[0xE9], one)
            .with(20, &[0x0F, 0x84], one)
            .with(30, &[0xE8], two)
            .with(40, &[0xE8], two + 1);
        assert_eq!(sites(&code, &[7, two, two], &[one, two, AT + 0x300]), [(3, 0), (1, 2), (0, 0)]);
    }

    #[test]
    fn a_call_through_a_stub_or_a_slot_is_one_of_the_function_in_the_slot() {
        let one = AT + 0x100;
        let slot = DATA + 8;
        let mut code = nothing()
            .with(0, &[0xE8], AT + 0x300) // the stub's entry mark
            .with(10, &[0xE8], AT + 0x320) // a plain stub
            .with(20, &[0xFF, 0x15], slot)
            .with(30, &[0xFF, 0x15], slot + 8) // another's
            .with(0x304, &[0xF2, 0xFF, 0x25], slot)
            .with(0x320, &[0xFF, 0x25], slot);
        code.0[0x300..0x304].copy_from_slice(&[0xF3, 0x0F, 0x1E, 0xFA]);
        assert_eq!(sites(&code, &[0, one, 0], &[one]), [(3, 1)]);
    }

    #[test]
    fn functions_that_only_jump_share_the_calls_of_where_they_jump_to() {
        let (read, write, both) = (AT + 0x100, AT + 0x120, AT + 0x200);
        let mut code = nothing().with(0x104, &[0xE9], both).with(0x120, &[0xE9], both);
        code.0[0x100..0x104].copy_from_slice(&[0xF3, 0x0F, 0x1E, 0xFA]);
        assert_eq!(sites(&code, &[read, write], &[read, write]), [(0, 1), (0, 1)], "nobody calls them");
        let code = code.with(0, &[0xE8], both).with(10, &[0xE8], write);
        assert_eq!(sites(&code, &[read, write], &[read, write]), [(1, 1), (2, 1)]);
    }

    #[test]
    fn a_function_outside_the_code_is_called_by_nobody() {
        assert_eq!(sites(&nothing(), &[], &[0, usize::MAX]), [(0, 0), (0, 0)]);
    }
}
