//! HOT PATH: stored programs.

use std::sync::atomic::Ordering::Relaxed;

use crate::Engine;
use crate::layout::program::{Program, ProgramHandle, ProgramRef};
use crate::memory::arena::Offset;
use crate::memory::index::Inserted;
use crate::memory::lost::Lost;
use crate::memory::pool::{Pool, USED};
use crate::memory::text;
use crate::record::statement::EndedStatement;
use crate::setup::instrument::{ENABLED, TIMED};
use crate::thread::current;

use super::add;

impl Engine {
    /// Returns the program of this name; makes it if needed. `object_type` is a number of
    /// [`crate::setup::objects`]. `None`: no room.
    pub fn program(&self, object_type: u8, schema: &[u8], name: &[u8]) -> Option<ProgramRef> {
        let hash = program_hash(object_type, schema, name);
        let is = |offset: Offset| is_program(self.arena.at(offset), object_type, schema, name);
        if let Some(offset) = self.programs.find(hash, is) {
            return Some(self.arena.at(offset));
        }
        let Some(program) = self.pools.take::<ProgramHandle>(&self.arena, Pool::Programs, 0) else {
            self.losses.count(Lost::Programs);
            return None;
        };
        let slot = program.slot(self);
        slot.hash.store(hash, Relaxed);
        slot.object_type.store(object_type, Relaxed);
        slot.schema_len.store(text::write(&slot.schema, schema) as u32, Relaxed);
        slot.name_len.store(text::write(&slot.name, name) as u32, Relaxed);
        slot.head.publish();
        self.decide_object(&slot.watch, object_type, schema, name);
        match self.programs.insert(hash, self.arena.offset_of(program), is) {
            Inserted::Here => Some(program),
            Inserted::There(first) => {
                self.pools.give(&self.arena, Pool::Programs, program);
                Some(self.arena.at(first))
            }
            Inserted::Full => {
                self.losses.count(Lost::Programs);
                self.pools.give(&self.arena, Pool::Programs, program);
                None
            }
        }
    }

    /// Forgets a program that is dropped.
    pub fn drop_program(&self, object_type: u8, schema: &[u8], name: &[u8]) {
        let hash = program_hash(object_type, schema, name);
        let is = |offset: Offset| is_program(self.arena.at(offset), object_type, schema, name);
        if let Some(offset) = self.programs.find(hash, is) {
            self.programs.remove(hash, offset);
            self.pools.give(&self.arena, Pool::Programs, self.arena.at::<ProgramHandle>(offset));
        }
    }

    /// Returns the program's place and generation in one word; never 0.
    #[inline(always)]
    pub(crate) fn identity_of(&self, program: &Program) -> u64 {
        u64::from(self.arena.offset_of(program)) << 32 | u64::from(program.head.generation())
    }

    /// Begins a call. Returns its start in ticks, 0 if untimed. `None`: the program is not instrumented.
    pub fn start_program(&self, program: ProgramRef) -> Option<u64> {
        let watch = program.slot(self).watch.load(Relaxed);
        if current()?.mask() == 0 || watch & ENABLED == 0 {
            return None;
        }
        Some(if watch & TIMED != 0 { crate::clock::ticks() } else { 0 })
    }

    /// Ends a call that began at `start`, in ticks.
    pub fn end_program(&self, program: ProgramRef, start: u64) {
        let taken = (start != 0).then(|| crate::clock::ticks().saturating_sub(start));
        if let Some(cell) = self.program_cell(program.slot(self)) {
            add(&cell.counts.calls, 1, taken);
        }
    }

    /// Counts an ended statement for the program it belongs to.
    #[inline(always)]
    pub fn count_program_statement(&self, program: ProgramRef, ended: EndedStatement) {
        if let Some(cell) = self.program_cell(program.slot(self)) {
            ended.count(&cell.counts.statements, &cell.counts.counters);
        }
    }
}

fn program_hash(object_type: u8, schema: &[u8], name: &[u8]) -> u64 {
    text::hash(text::hash(16 + u64::from(object_type), schema), name)
}

fn is_program(program: &Program, object_type: u8, schema: &[u8], name: &[u8]) -> bool {
    program.head.state() == USED
        && program.object_type() == object_type
        && text::equals(&program.name, program.name_len.load(Relaxed) as usize, name)
        && text::equals(&program.schema, program.schema_len.load(Relaxed) as usize, schema)
}
