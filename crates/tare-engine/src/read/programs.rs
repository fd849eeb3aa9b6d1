//! Stored programs.

use std::collections::HashMap;

use super::Scale;
use crate::Engine;
use crate::layout::program::Program;
use crate::layout::program::ProgramTally;
use crate::memory::arena::Offset;
use crate::memory::pool::Pool;
use crate::memory::text;
use crate::setup::objects::type_name;
use crate::snapshot::*;

impl Engine {
    /// Returns stored programs with the sums of their calls and statements.
    pub fn programs(&self) -> Vec<ProgramRow> {
        let scale = Scale::of(self);
        let tallies = self.unfolding(|| self.program_tallies());
        let mut rows = Vec::new();
        self.pools.each::<Program>(&self.arena, Pool::Programs, |program| {
            let Some(generation) = program.head.generation_in_use() else { return };
            let tally =
                tallies.get(&(self.arena.offset_of(program), generation)).copied().unwrap_or_default();
            let (schema, schema_len, name, name_len) = program.name_words();
            let Some(object_type) = type_name(program.object_type()) else { return };
            let row = ProgramRow {
                object_type,
                schema: text::read_string(schema, schema_len),
                name: text::read_string(name, name_len),
                calls: scale.stat(tally.calls),
                statements: StatementStat {
                    stat: scale.stat(tally.statements),
                    sum: super::summary::counters(tally.counters),
                },
            };
            if program.head.is_still(generation) {
                rows.push(row);
            }
        });
        rows
    }

    /// Returns the counts by program and generation: those of live threads and those moved to the program.
    fn program_tallies(&self) -> HashMap<(Offset, u32), ProgramTally> {
        let mut tallies: HashMap<(Offset, u32), ProgramTally> = HashMap::new();
        self.pools.each::<Program>(&self.arena, Pool::Programs, |program| {
            let Some(generation) = program.head.generation_in_use() else { return };
            tallies.insert((self.arena.offset_of(program), generation), program.counts.plain());
        });
        for (id, thread) in self.live_threads() {
            let mut own = Vec::new();
            self.program_cells(thread, |cell| {
                own.extend(self.counted_program(cell).map(|program| (program, cell.counts.plain())));
            });
            if self.still_lives(thread, id) {
                own.iter().for_each(|(program, tally)| tallies.entry(*program).or_default().merge(tally));
            }
        }
        tallies
    }
}
