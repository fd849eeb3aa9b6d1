//! HOT PATH: the program a statement belongs to: the statement's block has its names, which stay for the next one.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::instance::Program;
use crate::memory::arena::Own;
use crate::memory::text;
use crate::record::statement::record::{OBJECT_NAME, OBJECT_SCHEMA, OBJECT_TYPE, OpenStatement};

/// Whose statement it is.
pub(super) struct Owner<'a> {
    pub(super) program: &'a Program,
    /// [`Program`] and generation in one word; not 0.
    pub(super) identity: u64,
    /// Of its level.
    pub(super) named: &'a NamedProgram,
}

/// Which program's names a level's block has: its thread's alone.
#[repr(C)]
pub(crate) struct NamedProgram {
    /// 0: none.
    pub(crate) program: AtomicU64,
    /// As a record's word of lengths has them.
    lengths: AtomicU64,
}

impl OpenStatement {
    /// What the statement before it had, most likely: then its names are there.
    pub(super) fn set_owner(&self, Owner { program, identity, named }: &Owner<'_>) {
        if named.program.own() != *identity {
            named.lengths.store(self.copy_names(program), Relaxed);
            named.program.store(*identity, Relaxed);
        }
        self.lengths.store(named.lengths.own(), Relaxed);
    }

    /// Returns the lengths.
    #[cold]
    fn copy_names(&self, program: &Program) -> u64 {
        let copy = |to: &[AtomicU64], from: &[AtomicU64], len: usize| {
            for (to, from) in to.iter().zip(from).take(text::words(len)) {
                to.store(from.load(Relaxed), Relaxed);
            }
            len.min(to.len() * 8)
        };
        let (schema, schema_len, name, name_len) = program.name_words();
        let lengths = u64::from(program.object_type()) << OBJECT_TYPE;
        let lengths = OBJECT_SCHEMA.set(lengths, copy(&self.object_schema, schema, schema_len));
        OBJECT_NAME.set(lengths, copy(&self.object_name, name, name_len))
    }
}
