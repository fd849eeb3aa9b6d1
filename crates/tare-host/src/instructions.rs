//! What the machine code of a function does: the members that it reads and writes, whatever registers the
//! compiler chose, and the functions that it calls.
//!
//! The code is followed from the function's entry along its jumps, also those into parts that the compiler
//! has moved elsewhere. What it calls is not followed.

use std::collections::HashSet;

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};

use crate::process::Image;

/// The most instructions of a function that are looked at.
const MOST: usize = 20_000;

/// What a function does, as far as one instruction shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    /// Reads a member, by its offset and its size in bytes.
    Reads(usize, usize),
    /// Writes it.
    Writes(usize, usize),
    /// Computes the address of a member, by its offset.
    Address(usize),
    /// Uses a member at this offset, in any of these ways.
    Member(usize),
    /// Uses this number: to compare with it, to add it, or to write it.
    Number(usize),
    /// Uses an element of an array that begins at this offset, by the size of an element in bytes.
    Element(usize, usize),
}

/// The facts of a function.
#[derive(Debug, Default)]
pub struct Facts {
    accesses: HashSet<(Access, u64, u64)>,
    addresses: HashSet<u64>,
    numbers: HashSet<u32>,
    elements: HashSet<(u64, u32)>,
    /// The addresses of variables that it uses, or of members of these.
    variables: HashSet<u64>,
    /// The addresses that it calls or jumps to.
    calls: HashSet<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Access {
    Read,
    Write,
}

impl Facts {
    /// Collects the facts of the function at an address of the program, with the size that its symbol tells.
    pub fn of(program: &Image<'_>, function: usize, size: usize) -> Facts {
        let end = (function + size) as u64;
        let mut facts = Facts::default();
        let mut information = InstructionInfoFactory::new();
        let (mut seen, mut places) = (HashSet::new(), vec![function as u64]);
        while let Some(place) = places.pop() {
            let Some(code) = program.code.get((place as usize).wrapping_sub(program.address)..) else {
                continue;
            };
            let mut decoder = Decoder::with_ip(64, code, place, DecoderOptions::NONE);
            while seen.len() < MOST && decoder.can_decode() {
                let instruction = decoder.decode();
                if instruction.is_invalid() || !seen.insert(instruction.ip()) {
                    break;
                }
                facts.add(&instruction, &mut information);
                match instruction.flow_control() {
                    FlowControl::ConditionalBranch => {
                        places.push(instruction.near_branch_target());
                        continue;
                    }
                    FlowControl::UnconditionalBranch => {
                        facts.calls.insert(instruction.near_branch_target());
                        places.push(instruction.near_branch_target());
                    }
                    FlowControl::Return
                    | FlowControl::IndirectBranch
                    | FlowControl::Interrupt
                    | FlowControl::Exception => {}
                    _ => continue,
                }
                // What comes next belongs to the function up to its end: a table of addresses may lead there.
                if !(function as u64..end).contains(&instruction.next_ip()) {
                    break;
                }
            }
        }
        facts
    }

    /// Returns whether the function does this.
    pub fn have(&self, fact: Fact) -> bool {
        let access = |wanted: Access, at: usize, size: usize| {
            // A compiler may read or write neighbours together.
            let (at, end) = (at as u64, (at + size) as u64);
            let holds =
                |(access, from, to): &(Access, u64, u64)| *access == wanted && *from <= at && end <= *to;
            self.accesses.iter().any(holds)
        };
        match fact {
            Fact::Reads(at, size) => access(Access::Read, at, size),
            Fact::Writes(at, size) => access(Access::Write, at, size),
            Fact::Address(at) => self.addresses.contains(&(at as u64)) || self.numbers.contains(&(at as u32)),
            Fact::Member(at) => {
                self.have(Fact::Address(at)) || self.accesses.iter().any(|(_, from, _)| *from == at as u64)
            }
            Fact::Number(number) => self.numbers.contains(&(number as u32)),
            Fact::Element(at, size) => self.elements.contains(&(at as u64, size as u32)),
        }
    }

    /// Returns whether it uses the variable at an address.
    pub fn use_variable(&self, address: usize) -> bool {
        self.variables.contains(&(address as u64))
    }

    /// Returns whether it calls the function at an address, or ends with a jump to it.
    pub fn call(&self, function: usize) -> bool {
        self.calls.contains(&(function as u64))
    }

    /// Returns the addresses that it calls or jumps to.
    pub fn called(&self) -> impl Iterator<Item = usize> {
        self.calls.iter().map(|at| *at as usize)
    }

    fn add(&mut self, instruction: &Instruction, information: &mut InstructionInfoFactory) {
        if instruction.flow_control() == FlowControl::Call && instruction.op0_kind() == OpKind::NearBranch64 {
            self.calls.insert(instruction.near_branch_target());
        }
        if instruction.is_ip_rel_memory_operand() {
            self.variables.insert(instruction.ip_rel_memory_address());
        } else if instruction.mnemonic() == Mnemonic::Lea {
            self.addresses.insert(instruction.memory_displacement64());
            if instruction.memory_index() != Register::None {
                self.elements.insert((instruction.memory_displacement64(), instruction.memory_index_scale()));
            }
        }
        let operands =
            (0..instruction.op_count()).filter(|operand| is_immediate(instruction.op_kind(*operand)));
        // The lower half tells them apart, however long the compiler has made them.
        self.numbers.extend(operands.map(|operand| instruction.immediate(operand) as u32));
        if instruction.mnemonic() == Mnemonic::Leave {
            // It reads the stack, by a register that may be any other in other instructions.
            return;
        }
        for memory in information.info(instruction).used_memory() {
            if matches!(memory.base(), Register::None | Register::RSP | Register::RIP) {
                continue;
            }
            let from = memory.displacement();
            if memory.index() != Register::None {
                self.elements.insert((from, memory.scale()));
            }
            let to = from.saturating_add(memory.memory_size().size() as u64);
            for access in accesses(memory.access()) {
                self.accesses.insert((*access, from, to));
            }
        }
    }
}

fn is_immediate(kind: OpKind) -> bool {
    use OpKind::{
        Immediate8, Immediate8to16, Immediate8to32, Immediate8to64, Immediate16, Immediate32,
        Immediate32to64, Immediate64,
    };
    matches!(
        kind,
        Immediate8
            | Immediate8to16
            | Immediate8to32
            | Immediate8to64
            | Immediate16
            | Immediate32
            | Immediate32to64
            | Immediate64
    )
}

fn accesses(access: OpAccess) -> &'static [Access] {
    match access {
        OpAccess::Read | OpAccess::CondRead => &[Access::Read],
        OpAccess::Write | OpAccess::CondWrite => &[Access::Write],
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => &[Access::Read, Access::Write],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: usize = 0x40_0000;

    /// The facts of a function of `size` bytes at the beginning of this code.
    fn facts(code: &[u8], size: usize) -> Facts {
        Facts::of(&Image { address: AT, code, data: vec![] }, AT, size)
    }

    #[test]
    fn members_are_those_that_are_read_and_written_whatever_the_registers() {
        // mov rax, [rdi + 0x258]; mov [r12 + 0xa08], ebx; add qword [rdx + 0x28], 1; cmp byte [rsi + 4], 0
        let code = [
            0x48, 0x8B, 0x87, 0x58, 2, 0, 0, 0x41, 0x89, 0x9C, 0x24, 0x08, 0x0A, 0, 0, 0x48, 0x83, 0x42,
            0x28, 1, 0x80, 0x7E, 4, 0, 0xC3,
        ];
        let facts = facts(&code, code.len());
        assert!(facts.have(Fact::Reads(0x258, 8)) && facts.have(Fact::Reads(0x25C, 4)));
        assert!(!facts.have(Fact::Writes(0x258, 8)) && !facts.have(Fact::Reads(0x25C, 8)));
        assert!(facts.have(Fact::Writes(0xA08, 4)) && !facts.have(Fact::Reads(0xA08, 4)));
        assert!(facts.have(Fact::Reads(0x28, 8)) && facts.have(Fact::Writes(0x28, 8)));
        assert!(facts.have(Fact::Number(1)) && facts.have(Fact::Number(0)) && !facts.have(Fact::Number(2)));
        assert!(facts.have(Fact::Member(4)) && !facts.have(Fact::Member(5)));
    }

    #[test]
    fn addresses_elements_and_variables_are_told_apart() {
        // lea rdi, [rbx + 0x1e]; lea r8, [rdi + rcx * 8 + 0x1c0]; mov rax, [rip + 0x100]; add rsi, 0x90; ret
        let code = [
            0x48, 0x8D, 0x7B, 0x1E, 0x4C, 0x8D, 0x84, 0xCF, 0xC0, 1, 0, 0, 0x48, 0x8B, 0x05, 0, 1, 0, 0,
            0x48, 0x81, 0xC6, 0x90, 0, 0, 0, 0xC3,
        ];
        let facts = facts(&code, code.len());
        assert!(facts.have(Fact::Address(0x1E)) && facts.have(Fact::Address(0x90)));
        assert!(facts.have(Fact::Element(0x1C0, 8)) && !facts.have(Fact::Element(0x1C0, 4)));
        assert!(facts.use_variable(AT + 19 + 0x100) && !facts.use_variable(AT));
        assert!(!facts.have(Fact::Reads(0x100, 8)), "the distance of a variable is no offset");
    }

    #[test]
    fn the_stack_has_no_members() {
        // mov rax, [rsp + 8]; leave; ret
        let facts = facts(&[0x48, 0x8B, 0x44, 0x24, 8, 0xC9, 0xC3], 7);
        assert!(!facts.have(Fact::Reads(8, 8)) && !facts.have(Fact::Reads(0, 8)));
    }

    #[test]
    fn code_is_followed_into_parts_elsewhere_and_up_to_the_functions_end() {
        let mut code = [0xCC; 64];
        // je 32; ret; mov eax, [rdi + 0x10] (only a table leads there); ret
        code[..9].copy_from_slice(&[0x0F, 0x84, 26, 0, 0, 0, 0xC3, 0x90, 0x90]);
        code[9..13].copy_from_slice(&[0x8B, 0x47, 0x10, 0xC3]);
        // 32: mov eax, [rdi + 0x20]; call 48; jmp 56
        code[32..42].copy_from_slice(&[0x8B, 0x47, 0x20, 0xE8, 8, 0, 0, 0, 0xEB, 14]);
        // 48: mov eax, [rdi + 0x30]; ret, what is called; 56: mov eax, [rdi + 0x40]; ret
        code[48..52].copy_from_slice(&[0x8B, 0x47, 0x30, 0xC3]);
        code[56..60].copy_from_slice(&[0x8B, 0x47, 0x40, 0xC3]);
        let facts = facts(&code, 13);
        let reads = [0x10, 0x20, 0x30, 0x40].map(|at| facts.have(Fact::Reads(at, 4)));
        assert_eq!(reads, [true, true, false, true]);
        assert!(facts.call(AT + 48) && facts.call(AT + 56) && !facts.call(AT + 32));
        assert_eq!(facts.called().count(), 2);
    }

    #[test]
    fn a_function_that_is_no_code_has_no_facts() {
        assert!(!facts(&[0x06, 0x06], 2).have(Fact::Reads(0, 1)));
        assert!(!Facts::of(&Image { address: AT, code: &[], data: vec![] }, 7, 9).have(Fact::Number(0)));
    }
}
