//! HOT PATH: the program a statement belongs to. The statement's block has its names, which stay for the next
//! statement.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::layout::program::Program;
use crate::layout::statement::{OBJECT_NAME, OBJECT_SCHEMA, OBJECT_TYPE, OpenStatement};
use crate::memory::arena::Own;
use crate::memory::text;

/// The program of a statement.
pub(crate) struct StatementOwner<'a> {
    pub(crate) program: &'a Program,
    /// [`Program`] and generation in one word; not 0.
    pub(crate) identity: u64,
    /// The names in the block of its level.
    pub(crate) named: &'a NamedProgram,
}

/// The program whose names the block of a level has. Only its thread uses this.
#[repr(C)]
pub(crate) struct NamedProgram {
    /// The identity of the program, see [`StatementOwner`]; 0: none.
    pub(crate) program: AtomicU64,
    /// The lengths, at their positions in a record's word of lengths.
    lengths: AtomicU64,
}

impl OpenStatement {
    /// Sets the program the statement belongs to. Its names are copied only if the previous statement had
    /// another program.
    pub(crate) fn set_owner(&self, StatementOwner { program, identity, named }: &StatementOwner<'_>) {
        if named.program.own() != *identity {
            named.lengths.store(self.copy_names(program), Relaxed);
            named.program.store(*identity, Relaxed);
        }
        self.lengths.store(named.lengths.own(), Relaxed);
    }

    /// Copies the names of a program and returns their lengths, for the word of lengths.
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
