//! Rows of instances: files, sockets, tables, synchronisation objects, prepared statements.

use std::collections::HashMap;
use std::sync::atomic::{
    AtomicU8, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed},
    fence,
};

use super::summary::{PlainIo, counters};
use super::{Scale, persistently};
use crate::instance::{
    File, KEYS_PER_SLOT, KeyNames, LOCK_KINDS, MAX_INDEXES, MetadataSlot, Prepared, ShareSlot, SocketSlot,
    Synch, TableHandle, TableIo, TableLocks,
};
use crate::layout::cell::{Counts, Plain, SummaryFamily, Viewer};
use crate::layout::program::Program;
use crate::memory::arena::Offset;
use crate::memory::lost::Lost;
use crate::memory::pool::{Pool, SYNCHS, USED, held};
use crate::memory::text;
use crate::record::operation::table_lock_name;
use crate::setup::instrument::{ENABLED, lock};
use crate::setup::objects::type_name;
use crate::snapshot::*;
use crate::{Engine, FileRef, Host, SocketRef, TableShareHandle, TableShareRef};

/// Returns schema and name of a metadata lock's object, where it has them.
pub(crate) fn lock_names(lock: &MetadataSlot) -> [Option<String>; 2] {
    let names = text::read(&lock.names, lock.names_len.load(Relaxed).into());
    let (schema, name) = names.split_at(names.len().min(lock.schema_len.load(Relaxed).into()));
    let name = name.get(1..).unwrap_or_default();
    [schema, name].map(|name| (!name.is_empty()).then(|| text::shown(name)))
}

/// Returns type, schema and name of a metadata lock's object.
pub(crate) fn lock_object(lock: &MetadataSlot, host: &dyn Host) -> ObjectName {
    let object_type = host.lock_namespace_name(lock.namespace.load(Relaxed));
    let [schema, name] = lock_names(lock);
    ObjectName { object_type, schema, name, index: None }
}

impl Engine {
    /// Returns every known file.
    pub fn files(&self) -> Vec<FileRow> {
        let scale = Scale::of(self);
        let mut rows = Vec::new();
        self.pools.each::<File>(&self.arena, Pool::Files, |file| {
            let Some(generation) = file.head.generation_in_use() else { return };
            let Some(file_name) = (0..64).find_map(|_| file.name()) else { return };
            let mut io = PlainIo::default();
            io.add(&file.io);
            let row = FileRow {
                file_name,
                event_name: self.registry.name(file.head.class()),
                object_instance_begin: std::ptr::from_ref(file).addr() as u64,
                open_count: file.open_count.load(Relaxed),
                io: io.stat(scale),
            };
            if file.head.is_still(generation) {
                rows.push(row);
            }
        });
        rows
    }

    /// Returns every known socket.
    pub fn sockets(&self) -> Vec<SocketRow> {
        let scale = Scale::of(self);
        let mut rows = Vec::new();
        self.pools.each::<SocketSlot>(&self.arena, Pool::Sockets, |socket| {
            let Some(generation) = socket.head.generation_in_use() else { return };
            let mut io = PlainIo::default();
            self.each_io(socket, |counts| io.add(counts));
            let thread_id = socket.thread_id.load(Relaxed);
            let row = SocketRow {
                event_name: self.registry.name(socket.head.class()),
                object_instance_begin: socket.identity.load(Relaxed),
                thread_id: (thread_id != 0).then_some(thread_id),
                socket_id: socket.fd.load(Relaxed),
                ip: text::read_string(&socket.ip, socket.ip_len.load(Relaxed) as usize),
                port: socket.port.load(Relaxed),
                idle: socket.idle.load(Relaxed) != 0,
                io: io.stat(scale),
            };
            if socket.head.is_still(generation) {
                rows.push(row);
            }
        });
        rows
    }

    /// Returns count, sum, minimum and maximum of a file's operations, in ticks.
    pub fn file_ticks(&self, file: FileRef) -> [u64; 4] {
        let mut io = PlainIo::default();
        io.add(&file.slot(self).io);
        io.all().ticks()
    }

    /// Returns count, sum, minimum and maximum of a socket's operations, in ticks.
    pub fn socket_ticks(&self, socket: SocketRef) -> [u64; 4] {
        let mut io = PlainIo::default();
        self.each_io(socket.slot(self), |counts| io.add(counts));
        io.all().ticks()
    }

    /// Returns each table with count, sum, minimum and maximum of its I/O and locks, in ticks.
    pub fn tables_ticks(&self) -> Vec<(TableShareRef, [u64; 4])> {
        let tallies = self.unfolding(|| self.table_tallies());
        let all = |tally: &TableTally| {
            let mut all = Plain::default();
            tally.io.iter().flatten().flatten().chain(&tally.locks).for_each(|plain| all.merge(*plain));
            all.ticks()
        };
        tallies.iter().map(|(share, tally)| (self.arena.at::<TableShareHandle>(*share), all(tally))).collect()
    }

    /// Returns every mutex, rwlock and cond.
    pub fn synchs(&self) -> Vec<SyncRow> {
        let scale = Scale::of(self);
        let threads = self.live_threads().into_iter();
        let readers: Vec<(u32, Vec<u64>)> = threads
            .filter_map(|(id, thread)| {
                let locks = &thread.read_locks;
                let read = (locks.activation(), locks.objects(&self.arena).collect());
                self.still_lives(thread, id).then_some(read)
            })
            .collect();
        let mut seen = Vec::new();
        let mut read = |synch: &'static Synch| {
            let Some(generation) = synch.head.generation_in_use() else { return };
            let class = synch.head.class();
            let row = SyncRow {
                kind: self.registry.kind(class),
                name: self.registry.name(class),
                object_instance_begin: synch.identity.load(Relaxed),
                locked_by_thread_id: None,
                read_locked_by_count: 0,
                waits: scale.stat(synch.waits.plain()),
            };
            let held = (synch.head.object().0, synch.owner.load(Relaxed));
            if synch.head.is_still(generation) {
                seen.push((row, held));
            }
        };
        for pool in SYNCHS {
            self.pools.each(&self.arena, pool, &mut read);
        }
        // Read owners last: after a switch of the kind nobody knows who holds what.
        let _as_switched = lock(&self.filters);
        let heard = |activation: u32| self.demands.was_on_since(Kind::Rwlock, activation);
        let mut counts: HashMap<u64, u32> = HashMap::new();
        for object in
            readers.into_iter().filter(|(activation, _)| heard(*activation)).flat_map(|(_, locks)| locks)
        {
            *counts.entry(object).or_default() += 1;
        }
        let whose = |(mut row, (object, owner)): (SyncRow, (u64, u64))| {
            row.locked_by_thread_id = self.demands.owner(row.kind, owner);
            row.read_locked_by_count = counts.get(&object).copied().unwrap_or(0);
            row
        };
        seen.into_iter().map(whose).collect()
    }

    /// Returns every known table.
    pub fn tables(&self) -> Vec<TableRow> {
        let scale = Scale::of(self);
        let tallies = self.unfolding(|| self.table_tallies());
        let mut rows: Vec<TableRow> =
            tallies.into_iter().filter_map(|(share, tally)| self.table_row(share, &tally, scale)).collect();
        rows.sort_by(|a, b| (&a.schema, &a.name).cmp(&(&b.schema, &b.name)));
        rows
    }

    fn table_tallies(&self) -> HashMap<Offset, TableTally> {
        let mut tallies: HashMap<Offset, TableTally> = HashMap::new();
        self.pools.each::<ShareSlot>(&self.arena, Pool::Tables, |share| {
            let Some(generation) = share.head.generation_in_use() else { return };
            // Keys change within a fold, and all is read again then.
            let Some(keys) = share.key_version.read(|version| version) else { return };
            let mut tally = TableTally::new(generation, keys);
            self.add_table(&mut tally, &share.io, &share.locks);
            tallies.insert(self.arena.offset_of(share), tally);
        });
        self.pools.each::<TableHandle>(&self.arena, Pool::Handles, |table| {
            let offset = table.share.load(Relaxed);
            if offset == 0 {
                return;
            }
            if let Some(tally) = tallies.get_mut(&offset)
                && tally.generation == table.share_generation.load(Relaxed)
            {
                self.add_table(tally, &table.io, &table.locks);
            }
        });
        tallies
    }

    fn add_table(&self, tally: &mut TableTally, io: &[AtomicU32], locks: &AtomicU32) {
        for (tally, io) in tally.io.iter_mut().zip(io) {
            let Some((_held, io)) = held::<TableIo>(&self.arena, Pool::TableIo, io.load(Acquire)) else {
                continue;
            };
            let tally = tally.get_or_insert_default();
            if self.counts_for(SummaryFamily::TableIo, Viewer::Global, io.epoch.load(Relaxed)) {
                for (tally, part) in tally.iter_mut().zip(&io.parts) {
                    tally.merge(part.plain());
                }
            }
        }
        let locks = held::<TableLocks>(&self.arena, Pool::TableLocks, locks.load(Acquire));
        if let Some((_held, locks)) = locks
            && self.counts_for(SummaryFamily::TableLock, Viewer::Global, locks.epoch.load(Relaxed))
        {
            for (tally, part) in tally.locks.iter_mut().zip(&locks.parts) {
                tally.merge(part.plain());
            }
        }
    }

    fn table_row(&self, share: Offset, tally: &TableTally, scale: Scale) -> Option<TableRow> {
        let (_held, share) = held::<ShareSlot>(&self.arena, Pool::Tables, share)?;
        let read = || share.key_version.read(|version| (version, self.key_names(share)));
        let (version, names) = persistently(read, || share.key_version.is_odd())?;
        // What was counted for other keys is not theirs, and starts anew.
        let counted = |key: usize| tally.io[key].filter(|_| version == tally.keys);
        let io = |key: usize| {
            let [fetch, insert, update, delete] =
                counted(key).unwrap_or_default().map(|plain| scale.stat(plain));
            TableIoStat { fetch, insert, update, delete }
        };
        // If there is no room for more counts, an index without any may have lost them: it has no row rather
        // than zeros.
        let has_room = self
            .losses
            .allow(Lost::IndexStats, self.table_stats[SummaryFamily::TableIo as usize].load(Relaxed));
        let mut indexes: Vec<IndexRow> = (0..)
            .zip(names)
            .filter(|(key, _)| has_room || counted(*key).is_some())
            .map(|(key, name)| IndexRow { name, io: io(key) })
            .collect();
        if counted(MAX_INDEXES).is_some() {
            indexes.push(IndexRow { name: None, io: io(MAX_INDEXES) });
        }
        let row = TableRow {
            object_type: share.type_name(),
            schema: text::read_string(&share.schema, share.schema_len.load(Relaxed) as usize),
            name: text::read_string(&share.name, share.name_len.load(Relaxed) as usize),
            is_shown: share.watch.load(Relaxed) & ENABLED != 0 || share.is_of_host.load(Relaxed) != 0,
            indexes,
            locks: TableLockStat(tally.locks.map(|plain| scale.stat(plain))),
        };
        share.head.is_still(tally.generation).then_some(row)
    }

    /// Returns the name of a table's key; `None` if the table no longer has it.
    pub(crate) fn key_name(&self, share: &ShareSlot, key: usize) -> Option<String> {
        let read = || share.key_version.read(|_| self.read_key_name(share, key));
        let name = persistently(read, || share.key_version.is_odd()).flatten();
        fence(Acquire);
        // The slot of a dropped table's names may have another one's by now.
        name.filter(|_| share.head.state() == USED)
    }

    /// Returns the names of a table's keys. The caller checks afterwards that they are still the table's.
    fn key_names(&self, share: &ShareSlot) -> Vec<Option<String>> {
        let keys = (share.keys.load(Relaxed) as usize).min(MAX_INDEXES);
        (0..keys).map(|key| self.read_key_name(share, key)).collect()
    }

    fn read_key_name(&self, share: &ShareSlot, key: usize) -> Option<String> {
        let names = share.key_names.get(key / KEYS_PER_SLOT)?.load(Acquire);
        let (_held, names) = held::<KeyNames>(&self.arena, Pool::Names, names)?;
        let at = key % KEYS_PER_SLOT;
        Some(text::read_string(&names.names[at], names.lens[at].load(Relaxed) as usize))
    }

    /// Returns every metadata lock that is granted or waited for.
    pub fn metadata_locks(&self) -> Vec<MetadataLockRow> {
        let mut rows = Vec::new();
        self.pools.each::<MetadataSlot>(&self.arena, Pool::MetadataLocks, |lock| {
            let Some(generation) = lock.head.generation_in_use() else { return };
            let row = self.metadata_lock_row(lock);
            if lock.head.is_still(generation) {
                rows.extend(row);
            }
        });
        rows
    }

    /// Returns a row that may be inconsistent, so the caller checks the generation. `None` if a number has no
    /// name.
    fn metadata_lock_row(&self, lock: &MetadataSlot) -> Option<MetadataLockRow> {
        let host = self.host.get()?;
        let namespace = lock.namespace.load(Relaxed);
        let [schema, name] = lock_names(lock);
        Some(MetadataLockRow {
            object: ObjectName {
                object_type: Some(host.lock_namespace_name(namespace)?),
                schema,
                name,
                index: None,
            },
            object_instance_begin: lock.identity.load(Relaxed),
            lock_type: host.lock_type_name(namespace, lock.lock_type.load(Relaxed))?,
            duration: host.lock_duration_name(lock.duration.load(Relaxed))?,
            status: host.lock_status_name(lock.status.load(Relaxed))?,
            source: self.source(lock.source.load(Relaxed)),
            owner_thread_id: lock.owner_thread.load(Relaxed),
            owner_event_id: lock.owner_event.load(Relaxed),
        })
    }

    /// Returns every open table.
    pub fn table_handles(&self) -> Vec<TableHandleRow> {
        let mut rows = Vec::new();
        self.pools.each::<TableHandle>(&self.arena, Pool::Handles, |handle| {
            let Some(generation) = handle.head.generation_in_use() else { return };
            let row = self.table_handle_row(handle);
            if handle.head.is_still(generation) {
                rows.extend(row);
            }
        });
        rows
    }

    /// Returns a row that may be inconsistent, so the caller checks the generation. `None` if the table is
    /// dropped or disabled.
    fn table_handle_row(&self, handle: &TableHandle) -> Option<TableHandleRow> {
        let (_held, share) = held::<ShareSlot>(&self.arena, Pool::Tables, handle.share.load(Relaxed))?;
        let lock = |kind: &AtomicU8| kind.load(Relaxed).checked_sub(1).and_then(table_lock_name);
        let row = TableHandleRow {
            object_type: share.type_name(),
            schema: text::read_string(&share.schema, share.schema_len.load(Relaxed) as usize),
            name: text::read_string(&share.name, share.name_len.load(Relaxed) as usize),
            object_instance_begin: handle.identity.load(Relaxed),
            owner_thread_id: handle.owner_thread.load(Relaxed),
            owner_event_id: handle.owner_event.load(Relaxed),
            internal_lock: lock(&handle.internal_lock),
            external_lock: lock(&handle.external_lock),
        };
        let watched = share.watch.load(Relaxed) != 0;
        (watched && share.head.is_still(handle.share_generation.load(Relaxed))).then_some(row)
    }

    /// Returns every prepared statement.
    pub fn prepared_statements(&self) -> Vec<PreparedRow> {
        let scale = Scale::of(self);
        let mut rows = Vec::new();
        self.pools.each::<Prepared>(&self.arena, Pool::Prepared, |prepared| {
            let Some(generation) = prepared.head.generation_in_use() else { return };
            let row = self.prepared_row(prepared, scale);
            if prepared.head.is_still(generation) {
                rows.push(row);
            }
        });
        rows
    }

    fn prepared_row(&self, prepared: &Prepared, scale: Scale) -> PreparedRow {
        let today = self.counts_for(SummaryFamily::Prepared, Viewer::Global, prepared.epoch.load(Relaxed));
        let stat = |counts: &Counts| if today { scale.stat(counts.plain()) } else { Stat::default() };
        PreparedRow {
            object_instance_begin: prepared.identity.load(Relaxed),
            statement_id: prepared.statement_id.load(Relaxed),
            name: nonempty(&prepared.name, prepared.name_len.load(Relaxed) as usize),
            sql_text: text::read_string(&prepared.text, prepared.text_len.load(Relaxed) as usize),
            owner_thread_id: prepared.owner_thread.load(Relaxed),
            owner_event_id: prepared.owner_event.load(Relaxed),
            owner: self.program_name(prepared).unwrap_or_default(),
            prepare: stat(&prepared.prepare),
            reprepare: stat(&prepared.reprepare),
            execute: StatementStat {
                stat: stat(&prepared.execute),
                sum: if today { counters(prepared.counters.plain()) } else { StatementCounters::default() },
            },
        }
    }

    /// Returns the program a statement was prepared in, if it still exists.
    fn program_name(&self, prepared: &Prepared) -> Option<ObjectName> {
        let (_held, program) = held::<Program>(&self.arena, Pool::Programs, prepared.program.load(Relaxed))?;
        let (schema, schema_len, name, name_len) = program.name_words();
        let owner = ObjectName {
            object_type: type_name(program.object_type()),
            schema: nonempty(schema, schema_len),
            name: nonempty(name, name_len),
            index: None,
        };
        program.head.is_still(prepared.program_generation.load(Relaxed)).then_some(owner)
    }
}

impl ShareSlot {
    fn type_name(&self) -> &'static str {
        if self.temporary.load(Relaxed) != 0 { "TEMPORARY TABLE" } else { "TABLE" }
    }
}

/// Returns a text, or `None` if it is empty.
fn nonempty(words: &[AtomicU64], len: usize) -> Option<String> {
    (len != 0).then(|| text::read_string(words, len))
}

struct TableTally {
    generation: u32,
    /// Version of the keys.
    keys: u32,
    io: Vec<Option<[Plain; 4]>>,
    locks: [Plain; LOCK_KINDS],
}

impl TableTally {
    fn new(generation: u32, keys: u32) -> TableTally {
        let (io, locks) = (vec![None; MAX_INDEXES + 1], [Plain::default(); LOCK_KINDS]);
        TableTally { generation, keys, io, locks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_a_table_that_is_being_dropped_have_no_names() {
        let engine = Engine::small();
        let share = engine.pools.take::<ShareSlot>(&engine.arena, Pool::Tables, 0).expect("memory");
        let names = engine.pools.take::<KeyNames>(&engine.arena, Pool::Names, 0).expect("memory");
        names.lens[0].store(text::write(&names.names[0], b"key") as u16, Relaxed);
        names.head.publish();
        share.keys.store(1, Relaxed);
        share.key_names[0].store(engine.arena.offset_of(names), Relaxed);
        share.head.publish();
        assert_eq!(engine.key_name(share, 0).as_deref(), Some("key"));
        // From here on the slot of the names may be given to another table.
        assert!(share.head.end());
        assert_eq!(engine.key_name(share, 0), None);
    }
}
