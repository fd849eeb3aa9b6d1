//! What one kind of thing has given back another kind can have: the memory is filled with one, emptied, and
//! filled with another, by several threads at once and beside a reader. What there was is either shown or
//! counted as lost.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use tare_engine::snapshot::*;
use tare_engine::*;

use tare_rig::*;

/// Threads that fill and empty at once.
const WORKERS: usize = 4;
/// How often a worker is refused before it gives up.
const REFUSALS: usize = 8;

/// Kinds of things that use memory up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stuff {
    Mutexes,
    Rwlocks,
    Conds,
    Sockets,
    Files,
    Tables,
    OpenTables,
    Programs,
    Prepared,
    MetadataLocks,
    Threads,
}

const STUFF: [Stuff; 11] = [
    Stuff::Mutexes,
    Stuff::Rwlocks,
    Stuff::Conds,
    Stuff::Sockets,
    Stuff::Files,
    Stuff::Tables,
    Stuff::OpenTables,
    Stuff::Programs,
    Stuff::Prepared,
    Stuff::MetadataLocks,
    Stuff::Threads,
];

impl Stuff {
    /// Where it is counted if it has no place.
    const fn loss(self) -> &'static str {
        match self {
            Stuff::Mutexes => "mutex_instances_lost",
            Stuff::Rwlocks => "rwlock_instances_lost",
            Stuff::Conds => "cond_instances_lost",
            Stuff::Sockets => "socket_instances_lost",
            Stuff::Files => "file_instances_lost",
            Stuff::Tables => "table_instances_lost",
            Stuff::OpenTables => "table_handles_lost",
            Stuff::Programs => "program_lost",
            Stuff::Prepared => "prepared_statements_lost",
            Stuff::MetadataLocks => "metadata_lock_lost",
            Stuff::Threads => "thread_instances_lost",
        }
    }

    /// How many of them readers see.
    fn shown(self, rig: Rig) -> usize {
        let synchs = |kind| rig.synchs().iter().filter(|row| row.kind == kind).count();
        match self {
            Stuff::Mutexes => synchs(Kind::Mutex),
            Stuff::Rwlocks => synchs(Kind::Rwlock),
            Stuff::Conds => synchs(Kind::Cond),
            Stuff::Sockets => rig.sockets().len(),
            Stuff::Files => rig.files().len(),
            // One is what all handles are of.
            Stuff::Tables => rig.tables().len() - 1,
            Stuff::OpenTables => rig.table_handles().len(),
            Stuff::Programs => rig.programs().len(),
            Stuff::Prepared => rig.prepared_statements().len(),
            Stuff::MetadataLocks => rig.metadata_locks().len(),
            Stuff::Threads => rig.threads().len(),
        }
    }
}

/// One of them, to be given back.
enum Thing {
    Synch(SynchRef),
    Socket(SocketRef),
    File(FileRef),
    Table(String),
    Open(TableRef),
    Program(String),
    Prepared(PreparedRef),
    Lock(MetadataRef),
    Thread(ThreadRef),
}

/// A name that says whether it is whole.
fn name(number: usize) -> String {
    format!("{number:->60}={number:->60}")
}

fn is_whole(name: &str) -> bool {
    name.split_once('=').is_some_and(|(one, other)| one == other)
}

fn table(name: &str) -> TableName<'_> {
    TableName { temporary: false, schema: b"db", name: name.as_bytes() }
}

/// An engine with little memory, and what its things need of others.
#[derive(Clone, Copy)]
struct Bench {
    rig: Rig,
    /// What open tables are of.
    open: TableShareRef,
}

impl Bench {
    fn new() -> Bench {
        let config = Config {
            memory_max: 4 << 20,
            digests_size: 11,
            history_size: [1; 4],
            history_long_size: [20_000; 4],
            ..Config::default()
        };
        let rig = Rig::with(config);
        let open = rig.table_share(&table(&name(0)), [b"PRIMARY".as_slice()].into_iter());
        Bench { rig, open: open.expect("memory for a table") }
    }

    fn make(&self, stuff: Stuff, number: usize) -> Option<Thing> {
        let (rig, name) = (self.rig, name(number));
        Some(match stuff {
            Stuff::Mutexes => Thing::Synch(rig.init_synch(rig.class.mutex, number)?),
            Stuff::Rwlocks => Thing::Synch(rig.init_synch(rig.class.rwlock, number)?),
            Stuff::Conds => Thing::Synch(rig.init_synch(rig.class.cond, number)?),
            Stuff::Sockets => Thing::Socket(rig.init_socket(rig.class.socket, None, b"", 0)?),
            Stuff::Files => Thing::File(rig.find_file(rig.class.file, name.as_bytes(), true)?),
            Stuff::Tables => {
                rig.table_share(&table(&name), [name.as_bytes()].into_iter())?;
                Thing::Table(name)
            }
            Stuff::OpenTables => {
                let open = rig.open_table(self.open, number)?;
                rig.table_io(open, 0, 0, 1);
                rig.table_lock(open, 0);
                Thing::Open(open)
            }
            Stuff::Programs => {
                rig.program(objects::FUNCTION, b"db", name.as_bytes())?;
                Thing::Program(name)
            }
            Stuff::Prepared => Thing::Prepared(rig.create_prepared(number, 1, name.as_bytes(), 1, None)?),
            Stuff::MetadataLocks => {
                let (schema, name) = (b"db".as_slice(), name.as_bytes());
                let (names, schema_len) = (&[schema, b".", name].concat()[..], schema.len() as u16);
                let what =
                    MetadataName { namespace: 3, names, schema_len, lock_type: 1, duration: 1, status: 1 };
                Thing::Lock(rig.create_metadata_lock(number, || Some(what), here())?)
            }
            Stuff::Threads => Thing::Thread(rig.new_thread(rig.class.thread, Some(1), None)?),
        })
    }

    fn end(&self, thing: Thing) {
        let rig = self.rig;
        match thing {
            Thing::Synch(synch) => rig.destroy_synch(synch),
            Thing::Socket(socket) => rig.destroy_socket(socket),
            Thing::File(file) => rig.destroy_file(file),
            Thing::Table(name) => rig.drop_table_share(&table(&name)),
            Thing::Open(table) => rig.close_table(table),
            Thing::Program(name) => rig.drop_program(objects::FUNCTION, b"db", name.as_bytes()),
            Thing::Prepared(prepared) => rig.destroy_prepared(prepared),
            Thing::Lock(lock) => rig.destroy_metadata_lock(lock),
            Thing::Thread(thread) => rig.delete_thread(thread),
        }
    }

    /// Makes things until there is no room, lets them be counted, and ends them. Returns how many were wanted
    /// and made.
    fn work(&self, stuff: Stuff, worker: usize, together: &Barrier, shown: &AtomicUsize) -> (usize, usize) {
        let thread = self.rig.connect();
        together.wait();
        let (mut things, mut wanted) = (Vec::new(), 0);
        while wanted - things.len() < REFUSALS {
            wanted += 1;
            things.extend(self.make(stuff, wanted * WORKERS + worker));
        }
        if together.wait().is_leader() {
            shown.store(stuff.shown(self.rig), Relaxed);
        }
        together.wait();
        let made = things.len();
        things.into_iter().for_each(|thing| self.end(thing));
        self.rig.delete_thread(thread);
        (wanted, made)
    }

    /// Fills the memory with things and empties it; how many there were at once.
    fn phase(&self, stuff: Stuff) -> usize {
        let lost = self.rig.losses_of(stuff.loss());
        let (together, shown, stop) = (Barrier::new(WORKERS), AtomicUsize::new(0), AtomicBool::new(false));
        let (wanted, made) = std::thread::scope(|scope| {
            let work = |worker| self.work(stuff, worker, &together, &shown);
            let workers: Vec<_> = (0..WORKERS).map(|worker| scope.spawn(move || work(worker))).collect();
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    self.check_names();
                }
            });
            let done = workers.into_iter().map(|worker| worker.join().expect("a worker"));
            let sum = done.fold((0, 0), |sum, done| (sum.0 + done.0, sum.1 + done.1));
            stop.store(true, Relaxed);
            sum
        });
        let lost = self.rig.losses_of(stuff.loss()) - lost;
        assert_eq!(made as u64 + lost, wanted as u64, "{stuff:?}: made or counted as lost");
        let own = if stuff == Stuff::Threads { WORKERS } else { 0 };
        assert_eq!(shown.into_inner() - own, made, "{stuff:?}: shown");
        made
    }

    /// What is read while memory changes hands is whole.
    fn check_names(&self) {
        let rig = self.rig;
        let names = (rig.files().into_iter().map(|row| row.file_name))
            .chain(rig.tables().into_iter().map(|row| row.name))
            .chain(rig.tables().into_iter().flat_map(|row| row.indexes).filter_map(|row| row.name))
            .chain(rig.programs().into_iter().map(|row| row.name))
            .chain(rig.prepared_statements().into_iter().filter_map(|row| row.name))
            .chain(rig.metadata_locks().into_iter().filter_map(|row| row.object.name));
        for name in names.filter(|name| name != "PRIMARY") {
            assert!(is_whole(&name), "{name}");
        }
    }
}

#[test]
fn every_kind_finds_room_after_every_other() {
    let alone = STUFF.map(|stuff| Bench::new().phase(stuff));
    for first in STUFF {
        for (second, alone) in STUFF.into_iter().zip(alone) {
            let bench = Bench::new();
            bench.phase(first);
            let after = bench.phase(second);
            // Blocks of locks, sockets and open tables stay theirs: at most a tenth of the memory each.
            assert!(after >= alone / 5 * 4, "{second:?} after {first:?}: {after}, alone {alone}");
        }
    }
}

#[test]
fn in_one_memory_phase_follows_phase() {
    let bench = Bench::new();
    let first = STUFF.map(|stuff| bench.phase(stuff));
    for round in 0..3 {
        for (stuff, first) in STUFF.into_iter().zip(first) {
            let now = bench.phase(stuff);
            // By then blocks of locks, sockets and open tables are theirs, which at first were free.
            assert!(now >= first / 3, "{stuff:?} in round {round}: {now}, at first {first}");
        }
    }
}

#[test]
fn connections_find_room_beside_everything_else_at_once() {
    let bench = Bench::new();
    let thread = bench.rig.connect();
    for stuff in STUFF.into_iter().filter(|stuff| *stuff != Stuff::Threads) {
        (1..).take_while(|number| bench.make(stuff, *number).is_some()).for_each(drop);
    }
    bench.rig.delete_thread(thread);
    let alone = Bench::new().phase(Stuff::Threads);
    let beside = bench.phase(Stuff::Threads);
    assert!(beside >= alone / 5, "{beside} connections, {alone} with nothing else");
}

#[test]
fn long_histories_give_way_to_everything() {
    let alone = STUFF.map(|stuff| Bench::new().phase(stuff));
    for (stuff, alone) in STUFF.into_iter().zip(alone) {
        let bench = Bench::new();
        let rig = bench.rig;
        let thread = rig.connect();
        for _ in 0..20_000 {
            rig.wait(rig.class.mutex);
            rig.stage(rig.class.stage);
            rig.query("select 1");
        }
        rig.end_stage();
        rig.delete_thread(thread);
        let (used, cap) = rig.memory();
        assert!(used > cap / 10 * 8, "the histories have {used} of {cap}");
        let now = bench.phase(stuff);
        assert!(now >= alone / 5 * 4, "{stuff:?}: {now}, alone {alone}");
        assert!(rig.losses_of("events_statements_lost") == 0);
    }
}

#[test]
fn late_calls_leave_what_came_after_alone() {
    let bench = Bench::new();
    let rig = bench.rig;
    let thread = rig.connect();
    let stuff = [Stuff::Tables, Stuff::Files, Stuff::Programs, Stuff::Prepared];
    let fill = |stuff| (1..400).filter_map(|number| bench.make(stuff, number)).collect::<Vec<_>>();
    let (mut programs, mut refs) = (Vec::new(), Vec::new());
    for thing in stuff.into_iter().flat_map(fill) {
        match &thing {
            Thing::Table(name) => _ = rig.table_share(&table(name), [].into_iter()),
            Thing::Program(name) => programs.extend(rig.program(objects::FUNCTION, b"db", name.as_bytes())),
            Thing::File(file) => refs.push((Some(*file), None)),
            Thing::Prepared(prepared) => refs.push((None, Some(*prepared))),
            _ => {}
        }
        bench.end(thing);
    }
    rig.delete_thread(thread);
    let threads: Vec<ThreadRef> = std::iter::from_fn(|| {
        let thread = rig.new_thread(rig.class.thread, Some(1), None)?;
        rig.on(thread, || rig.wait(rig.class.mutex));
        Some(thread)
    })
    .collect();
    let counts =
        || rig.wait_rows(Grouping::Thread).into_iter().filter(|row| row.name == MUTEX).map(|row| row.stat);
    let before: Vec<Stat> = counts().collect();
    for (file, prepared) in refs {
        if let Some(file) = file {
            rig.set_file_temporary(file);
            rig.on(threads[0], || rig.file_io(file, io::FILE_READ, 1));
            rig.release_file(file);
            rig.destroy_file(file);
        }
        if let Some(prepared) = prepared {
            rig.set_prepared_text(prepared, &[b'x'; 1024]);
            rig.count_reprepare(prepared);
            rig.destroy_prepared(prepared);
        }
    }
    programs.into_iter().for_each(|program| rig.end_program(program, 1));
    assert_eq!(counts().collect::<Vec<_>>(), before);
    assert_eq!(rig.threads().len(), threads.len());
    assert!(rig.files().is_empty() && rig.programs().is_empty() && rig.prepared_statements().is_empty());
    for thread in threads {
        rig.on(thread, || rig.wait(rig.class.mutex));
        rig.delete_thread(thread);
    }
    assert!(rig.threads().is_empty());
}
