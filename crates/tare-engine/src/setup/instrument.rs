//! Registry of instruments: names for readers, one byte of switches for the hot path.

use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};

use crate::memory::lost::{Losses, Lost};
use crate::setup::demand::Demand;
use crate::snapshot::{ClassId, Instrument, Kind, Properties, Recording, ThreadInstrument};

/// Capacity of a registry; id 0 means none.
pub const MAX_INSTRUMENTS: usize = 2048;

/// Switch: ENABLED.
pub(crate) const ENABLED: u8 = 1;
/// Switch: TIMED.
pub(crate) const TIMED: u8 = 2;
/// Switch: the stage reports progress.
pub(crate) const PROGRESS: u8 = 4;
/// Switch of a thread class, in the place of TIMED: its threads' events go to the histories.
pub(crate) const HISTORY: u8 = TIMED;
/// Switch of a thread class, in the place of PROGRESS: its threads serve clients.
pub(crate) const CLIENT: u8 = PROGRESS;
/// Switch: memory that belongs to the server and not to a thread, or a thread class with one thread.
pub(crate) const SERVER_WIDE: u8 = 8;
/// Switch of other kinds, in the place of [`SERVER_WIDE`]: the level is [`Recording::Sampled`] and the events
/// can be estimated.
pub(crate) const SAMPLED: u8 = SERVER_WIDE;
/// Switch of statements, in the place of [`PROGRESS`]: an instruction of a stored program that is not SQL.
pub(crate) const INSTRUCTION: u8 = PROGRESS;
/// Switches: an instrument of memory, or of statements, whose cells are larger than others. A server may pass
/// a key of another kind: stock ones allocate with one in `FLUSH TABLES WITH READ LOCK`. Counting that would
/// write past the other instrument's cell.
pub(crate) const MEMORY: u8 = 16;
pub(crate) const STATEMENT: u8 = 32;
/// Switch: on, timed, no progress. One bit to test for the fast path.
pub(crate) const USUAL: u8 = 64;
/// Switch: events are not recorded at the instrument's level.
pub(crate) const UNRECORDED: u8 = 128;

/// Instruments that are not registered through the PSI interface: the host calls their slots without a key.
pub mod fixed {
    use crate::snapshot::ClassId;
    /// `wait/io/table/sql/handler`
    pub const TABLE_IO: ClassId = 1;
    /// `wait/lock/table/sql/handler`
    pub const TABLE_LOCK: ClassId = 2;
    /// `idle`
    pub const IDLE: ClassId = 3;
    /// `wait/lock/metadata/sql/mdl`
    pub const METADATA: ClassId = 4;
    /// `transaction`
    pub const TRANSACTION: ClassId = 5;
}

/// Initial state of an instrument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Initial {
    /// ENABLED.
    pub enabled: bool,
    /// TIMED.
    pub timed: bool,
    /// LEVEL.
    pub level: Recording,
    /// HELD: set by a person.
    pub held: bool,
}

impl Default for Initial {
    fn default() -> Initial {
        Initial { enabled: true, timed: true, level: Recording::default(), held: false }
    }
}

impl Initial {
    /// Returns the index of [`Registry::numbers`] in which the instrument is counted.
    fn number(&self, kind: Kind) -> usize {
        match self.level {
            _ if !self.enabled => OFF,
            Recording::Counts | Recording::Sums => SUMMED,
            Recording::Sampled if is_estimated(kind) => ESTIMATED,
            Recording::Sampled | Recording::Lean | Recording::Exact => RECORDED,
        }
    }

    /// Sets the level and enables the instrument. `None` disables it and keeps the level for the next time.
    pub(crate) fn set_level(&mut self, level: Option<Recording>) {
        self.enabled = level.is_some();
        self.level = level.unwrap_or(self.level);
    }
}

/// A change of an instrument's level by the governor.
#[derive(Clone, Copy, Debug)]
pub struct LevelMove {
    /// The instrument.
    pub id: ClassId,
    /// Number of changes by persons when this one was decided.
    pub changes: u32,
    /// The new LEVEL with ENABLED; `None`: not ENABLED.
    pub level: Option<Recording>,
}

/// Function that returns the initial state of an instrument by its name.
pub type InitialSwitches = Box<dyn Fn(&str) -> Initial + Send + Sync>;

/// The host's description of an instrument at registration.
#[derive(Clone, Copy, Debug)]
pub struct Registration<'a> {
    /// Kind of the instrument.
    pub kind: Kind,
    /// Full name, such as `wait/synch/mutex/sql/LOCK_open`.
    pub name: &'a str,
    /// Properties as given by the host.
    pub properties: Properties,
}

impl Registration<'_> {
    /// Returns whether this is memory of the server and not of a thread, or a thread class with one thread.
    fn is_server_wide(&self) -> bool {
        self.properties.global && matches!(self.kind, Kind::Memory | Kind::Thread)
    }
}

/// Bit position of the level in `set`.
const LEVEL: u32 = 4;
/// Bit of `set`: a person has set the instrument.
const HELD: u8 = 128;
const _: () = assert!(Recording::ALL.len() << LEVEL <= HELD as usize);

// Indexes of [`Registry::numbers`], by what is kept of an instrument's events.
const OFF: usize = 0;
const SUMMED: usize = 1;
const ESTIMATED: usize = 2;
const RECORDED: usize = 3;

/// Returns whether level [`Recording::Sampled`] estimates events of this kind from chosen statements. All
/// others are counted exactly.
const fn is_estimated(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Stage
            | Kind::Mutex
            | Kind::Rwlock
            | Kind::Sxlock
            | Kind::Socket
            | Kind::Idle
            | Kind::TableIo
            | Kind::TableLock
            | Kind::Statement
    )
}

/// Returns whether a statement's instrument is an instruction of a stored program that is not SQL.
fn is_instruction(name: &str) -> bool {
    name.starts_with("statement/sp/") && name != "statement/sp/stmt"
}

struct Class {
    kind: Kind,
    name: &'static str,
    c_name: &'static CStr,
    properties: Properties,
}

/// Names for which ids are reserved, and the position of the first one among the classes.
struct Frequent {
    names: &'static [&'static str],
    first: usize,
}

pub(crate) struct Registry {
    /// Switches derived from ENABLED, TIMED and LEVEL, with the flags of the kind.
    switches: [AtomicU8; MAX_INSTRUMENTS],
    /// ENABLED, TIMED and HELD as set, and LEVEL from bit [`LEVEL`] on.
    set: [AtomicU8; MAX_INSTRUMENTS],
    /// Number of changes by persons. Written under the lock of `classes`.
    changes: [AtomicU32; MAX_INSTRUMENTS],
    kinds: [AtomicU8; MAX_INSTRUMENTS],
    /// Number of instruments of each kind that are off, summed, estimated and recorded, indexed by
    /// [`Initial::number`]. Written under the lock of `classes`.
    numbers: [[AtomicU32; 4]; KINDS.len()],
    /// Classes by id minus one; `None`: reserved for a frequent instrument that is not registered yet.
    classes: Mutex<Vec<Option<Class>>>,
    /// All ids in the built-in's order, which is read far more often than it changes. Written under the lock
    /// of `classes`.
    order: Mutex<Vec<ClassId>>,
    initial: OnceLock<InitialSwitches>,
    /// Names of instruments with frequent events, whose ids are reserved.
    frequent: OnceLock<Frequent>,
}

impl Registry {
    pub(crate) const fn new() -> Registry {
        Registry {
            switches: [const { AtomicU8::new(0) }; MAX_INSTRUMENTS],
            set: [const { AtomicU8::new(0) }; MAX_INSTRUMENTS],
            changes: [const { AtomicU32::new(0) }; MAX_INSTRUMENTS],
            kinds: [const { AtomicU8::new(0) }; MAX_INSTRUMENTS],
            numbers: [const { [const { AtomicU32::new(0) }; 4] }; KINDS.len()],
            classes: Mutex::new(Vec::new()),
            order: Mutex::new(Vec::new()),
            initial: OnceLock::new(),
            frequent: OnceLock::new(),
        }
    }

    pub(crate) fn start(&self, initial: InitialSwitches) {
        let _first_one_stays = self.initial.set(initial);
    }

    /// Reserves the next ids for instruments of these names, so that the entries of their cells lie on few
    /// lines.
    pub(crate) fn keep_ids(&self, frequent: &'static [&'static str]) {
        let mut classes = lock(&self.classes);
        if self.frequent.set(Frequent { names: frequent, first: classes.len() }).is_ok() {
            classes.extend(frequent.iter().map(|_| None));
        }
    }

    /// Returns the position of a new instrument among the classes.
    fn place(&self, classes: &[Option<Class>], name: &str) -> usize {
        let kept = self.frequent.get().and_then(|frequent| {
            let at = frequent.names.iter().position(|it| *it == name)?;
            Some(frequent.first + at)
        });
        // Two kinds may have an instrument of the same name.
        kept.filter(|at| classes[*at].is_none()).unwrap_or(classes.len())
    }

    /// Returns an instrument's switches, including the flags of its kind.
    #[inline(always)]
    pub(crate) fn switches(&self, id: ClassId) -> u8 {
        self.switches[id as usize % MAX_INSTRUMENTS].load(Relaxed)
    }

    pub(crate) fn kind(&self, id: ClassId) -> Kind {
        let kind = self.kinds[id as usize % MAX_INSTRUMENTS].load(Relaxed);
        KINDS[kind as usize % KINDS.len()]
    }

    /// Registers an instrument; registering a name of a kind again returns the same instrument. Returns its
    /// id and whether it is new. Id 0: the registry is full.
    pub(crate) fn register(&self, what: Registration<'_>, losses: &Losses) -> (ClassId, bool) {
        let mut classes = lock(&self.classes);
        let is_same = |class: &Class| class.kind == what.kind && class.name == what.name;
        let known = classes.iter().position(|class| class.as_ref().is_some_and(is_same));
        if let Some(at) = known {
            return (at as ClassId + 1, false);
        }
        let lost = classes_lost(what.kind).filter(|_| !what.name.starts_with(UNBOUND));
        let held =
            || classes.iter().flatten().filter(|it| is_bound(it) && classes_lost(it.kind) == lost).count();
        let allowed = lost.is_none_or(|lost| losses.allow(lost, held() as u32));
        if !allowed || classes.len() + 1 >= MAX_INSTRUMENTS {
            losses.count(lost.unwrap_or(Lost::MemoryClasses));
            return (0, false);
        }
        // Instruments are never unregistered, so their names may be leaked.
        let c_name = CString::new(what.name.replace('\0', "")).unwrap_or_default();
        let c_name: &'static CStr = Box::leak(c_name.into_boxed_c_str());
        let name: &'static str = c_name.to_str().unwrap_or_default();
        let class = Class { kind: what.kind, name, c_name, properties: what.properties };
        let at = self.place(&classes, name);
        match classes.get_mut(at) {
            Some(kept) => *kept = Some(class),
            None => classes.push(Some(class)),
        }
        let id = at + 1;
        self.kinds[id].store(what.kind as u8, Relaxed);
        let mut order = lock(&self.order);
        let rank = |kind: Kind| ORDER[kind as usize];
        let behind = order.partition_point(|other| rank(self.kind(*other)) <= rank(what.kind));
        order.insert(behind, id as ClassId);
        drop(order);
        // Thread classes are not listed in the built-in's tables, so they cannot be off from the start.
        let initial = self.initial.get().filter(|_| what.kind != Kind::Thread);
        let initial = initial.map_or_else(Initial::default, |initial| initial(name));
        self.numbers[what.kind as usize][initial.number(what.kind)].fetch_add(1, Relaxed);
        let kind = flag(MEMORY, what.kind == Kind::Memory) | flag(STATEMENT, what.kind == Kind::Statement);
        let flags = flag(PROGRESS, what.properties.progress && what.kind == Kind::Stage)
            | flag(SERVER_WIDE, what.is_server_wide())
            | flag(CLIENT, what.properties.user && what.kind == Kind::Thread)
            | flag(INSTRUCTION, what.kind == Kind::Statement && is_instruction(name))
            | kind;
        self.switches[id].store(flags, Relaxed);
        self.decide(id, what.kind, initial);
        (id as ClassId, true)
    }

    /// Changes switches and level on behalf of a person. Takes effect at the next event of any thread.
    pub(crate) fn set(&self, id: ClassId, change: impl FnOnce(&mut Initial)) {
        let _one_at_a_time = lock(&self.classes);
        let changes = &self.changes[id as usize % MAX_INSTRUMENTS];
        changes.store(changes.load(Relaxed).wrapping_add(1), Relaxed);
        self.change(id, change);
    }

    /// Switches ENABLED and TIMED off unless these are true, on behalf of nobody.
    pub(crate) fn restrict(&self, id: ClassId, enabled: bool, timed: bool) {
        let _one_at_a_time = lock(&self.classes);
        self.change(id, |now| {
            now.enabled &= enabled;
            now.timed &= timed;
        });
    }

    /// Moves the level on behalf of the governor. Returns false and does nothing if a person holds the
    /// instrument or has set it since the move was decided.
    pub(crate) fn move_level(&self, LevelMove { id, changes, level }: LevelMove) -> bool {
        let _one_at_a_time = lock(&self.classes);
        let at = id as usize % MAX_INSTRUMENTS;
        let may = !self.state(at).held && self.changes[at].load(Relaxed) == changes;
        if may {
            self.change(id, |now| now.set_level(level));
        }
        may
    }

    fn change(&self, id: ClassId, change: impl FnOnce(&mut Initial)) {
        let (kind, id) = (self.kind(id), id as usize % MAX_INSTRUMENTS);
        let mut now = self.state(id);
        let before = now.number(kind);
        change(&mut now);
        self.numbers[kind as usize][before].fetch_sub(1, Relaxed);
        self.numbers[kind as usize][now.number(kind)].fetch_add(1, Relaxed);
        self.decide(id, kind, now);
    }

    /// Stores what was set, and the switches derived from it.
    fn decide(&self, id: usize, kind: Kind, Initial { enabled, timed, level, held }: Initial) {
        let columns = switches(kind, enabled, timed);
        self.set[id].store(columns | (level as u8) << LEVEL | flag(HELD, held), Relaxed);
        let follows = match level {
            _ if kind == Kind::Thread => columns,
            Recording::Counts => columns & !TIMED | UNRECORDED,
            Recording::Sums => columns | UNRECORDED,
            Recording::Sampled => columns | flag(SAMPLED, is_estimated(kind)),
            Recording::Lean | Recording::Exact => columns,
        };
        let sampled = if is_estimated(kind) { SAMPLED } else { 0 };
        let kept = self.switches[id].load(Relaxed) & !(ENABLED | TIMED | USUAL | UNRECORDED | sampled);
        self.switches[id].store(with_usual(kept | follows), Relaxed);
    }

    /// Returns what was set.
    fn state(&self, id: usize) -> Initial {
        let set = self.set[id].load(Relaxed);
        Initial {
            enabled: set & ENABLED != 0,
            timed: set & TIMED != 0,
            level: Recording::ALL[((set & !HELD) >> LEVEL) as usize % Recording::ALL.len()],
            held: set & HELD != 0,
        }
    }

    /// Returns ENABLED and TIMED.
    pub(crate) fn flags(&self, id: ClassId) -> (bool, bool) {
        let state = self.state(id as usize % MAX_INSTRUMENTS);
        (state.enabled, state.timed)
    }

    /// Returns LEVEL.
    pub(crate) fn level(&self, id: ClassId) -> Recording {
        self.state(id as usize % MAX_INSTRUMENTS).level
    }

    /// Returns which events of these kinds are wanted, as far as instruments decide.
    pub(crate) fn demand(&self, kinds: &[Kind]) -> Demand {
        let has = |is: usize| kinds.iter().any(|kind| self.numbers[*kind as usize][is].load(Relaxed) != 0);
        match [OFF, SUMMED, ESTIMATED, RECORDED].map(has) {
            [_, false, false, false] => Demand::Nothing,
            [false, true, false, false] => Demand::Sums,
            [false, false, true, false] => Demand::Sampled,
            [true, ..] | [_, _, true, _] => Demand::Some,
            [false, _, false, true] => Demand::All,
        }
    }

    /// Returns whether any instrument is on whose events are estimated from chosen statements.
    pub(crate) fn has_sampled(&self) -> bool {
        self.numbers.iter().any(|numbers| numbers[ESTIMATED].load(Relaxed) != 0)
    }

    pub(crate) fn name(&self, id: ClassId) -> &'static str {
        match lock(&self.classes).get((id as usize).wrapping_sub(1)) {
            Some(Some(class)) => class.name,
            _ => "unknown",
        }
    }

    pub(crate) fn c_name(&self, id: ClassId) -> &'static CStr {
        match lock(&self.classes).get((id as usize).wrapping_sub(1)) {
            Some(Some(class)) => class.c_name,
            _ => c"unknown",
        }
    }

    /// Returns the names of all instruments by id minus one; `None`: no instrument has that id.
    pub(crate) fn names(&self) -> Vec<Option<&'static str>> {
        lock(&self.classes).iter().map(|class| Some(class.as_ref()?.name)).collect()
    }

    /// Returns every class of threads, in the order of registration.
    pub(crate) fn threads(&self) -> Vec<ThreadInstrument> {
        let classes = lock(&self.classes);
        let known = classes.iter().enumerate().filter_map(|(at, class)| Some((at, class.as_ref()?)));
        let threads = known.filter(|(_, class)| class.kind == Kind::Thread);
        let instrument = |(at, class): (usize, &Class)| {
            let switches = self.switches[at + 1].load(Relaxed);
            ThreadInstrument {
                id: at as ClassId + 1,
                name: class.name,
                enabled: switches & ENABLED != 0,
                history: switches & HISTORY != 0,
                properties: class.properties,
            }
        };
        threads.map(instrument).collect()
    }

    /// Returns every instrument whose kind satisfies `wanted`, in the built-in's order: by kind, then by
    /// registration.
    pub(crate) fn all_of(&self, wanted: impl Fn(Kind) -> bool) -> Vec<Instrument> {
        let (classes, order) = (lock(&self.classes), lock(&self.order));
        let wanted = order.iter().filter(|id| wanted(self.kind(**id)));
        let instrument = |id: &ClassId| {
            let &Class { kind, name, properties, .. } = classes.get(*id as usize - 1)?.as_ref()?;
            let Initial { enabled, timed, level, held } = self.state(*id as usize);
            let changes = self.changes[*id as usize].load(Relaxed);
            Some(Instrument { id: *id, kind, name, enabled, timed, level, held, changes, properties })
        };
        wanted.filter_map(instrument).collect()
    }
}

/// Locks a mutex, even a poisoned one: every critical section only appends or copies, so its data is whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

const fn flag(bit: u8, on: bool) -> u8 {
    if on { bit } else { 0 }
}

const fn with_usual(flags: u8) -> u8 {
    flags & !USUAL | flag(USUAL, flags & (ENABLED | TIMED | PROGRESS) == ENABLED | TIMED)
}

const fn switches(kind: Kind, enabled: bool, timed: bool) -> u8 {
    // Memory has sizes, and errors have points in time, not durations.
    flag(ENABLED, enabled) | flag(TIMED, timed && !matches!(kind, Kind::Memory | Kind::Error))
}

pub(crate) const KINDS: [Kind; 16] = [
    Kind::Mutex,
    Kind::Rwlock,
    Kind::Sxlock,
    Kind::Cond,
    Kind::Thread,
    Kind::File,
    Kind::Socket,
    Kind::TableIo,
    Kind::TableLock,
    Kind::Metadata,
    Kind::Idle,
    Kind::Stage,
    Kind::Statement,
    Kind::Transaction,
    Kind::Memory,
    Kind::Error,
];

/// Rank of each kind in `setup_instruments`.
const ORDER: [u8; KINDS.len()] = {
    let mut order = [0; KINDS.len()];
    let ranks = [
        (Kind::Mutex, 0),
        (Kind::Rwlock, 1),
        (Kind::Sxlock, 1),
        (Kind::Cond, 2),
        (Kind::File, 3),
        (Kind::TableIo, 4),
        (Kind::TableLock, 5),
        (Kind::Stage, 6),
        (Kind::Statement, 7),
        (Kind::Transaction, 8),
        (Kind::Socket, 9),
        (Kind::Idle, 10),
        (Kind::Memory, 11),
        (Kind::Metadata, 12),
        (Kind::Thread, 13),
        (Kind::Error, 14),
    ];
    let mut at = 0;
    while at < ranks.len() {
        order[ranks[at].0 as usize] = ranks[at].1;
        at += 1;
    }
    order
};

/// Name prefix of the built-in's own buffers, which no limit counts.
const UNBOUND: &str = "memory/performance_schema/";

fn is_bound(class: &Class) -> bool {
    !class.name.starts_with(UNBOUND)
}

/// Returns the limit of a kind; `None` where instruments are [`fixed`].
const fn classes_lost(kind: Kind) -> Option<Lost> {
    Some(match kind {
        Kind::Mutex => Lost::MutexClasses,
        Kind::Rwlock | Kind::Sxlock => Lost::RwlockClasses,
        Kind::Cond => Lost::CondClasses,
        Kind::Thread => Lost::ThreadClasses,
        Kind::Socket => Lost::SocketClasses,
        Kind::Stage => Lost::StageClasses,
        Kind::Statement => Lost::StatementClasses,
        Kind::Memory => Lost::MemoryClasses,
        Kind::File => Lost::FileClasses,
        Kind::TableIo | Kind::TableLock | Kind::Metadata | Kind::Idle | Kind::Transaction | Kind::Error => {
            return None;
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_survives_its_number() {
        for kind in KINDS {
            assert_eq!(KINDS[kind as usize], kind);
        }
    }

    #[test]
    fn the_configuration_decides_how_an_instrument_starts() {
        let registry = Registry::new();
        let initial = |name: &str| Initial {
            enabled: name.starts_with("wait/io/"),
            timed: false,
            ..Initial::default()
        };
        registry.start(Box::new(initial));
        let register = |name| {
            let what = Registration { kind: Kind::File, name, properties: Properties::default() };
            registry.register(what, &Losses::new()).0
        };
        assert_eq!(registry.switches(register("wait/io/file/sql/x")), ENABLED);
        assert_eq!(registry.switches(register("wait/lock/x")), 0);
        let again = register("wait/io/file/sql/x");
        assert_eq!(again, 1, "the same name twice is one instrument");
    }

    #[test]
    #[cfg_attr(
        miri,
        ignore = "thousands of names, which Miri takes half an hour for; no unsafe code is in the way"
    )]
    fn a_full_registry_counts_what_it_turns_away() {
        let (registry, losses) = (Registry::new(), Losses::new());
        for n in 0..MAX_INSTRUMENTS + 5 {
            let name = format!("wait/synch/mutex/x/{n}");
            let what = Registration { kind: Kind::Mutex, name: &name, properties: Properties::default() };
            registry.register(what, &losses);
        }
        let lost = losses.rows().into_iter().find(|row| row.name == "mutex_classes_lost");
        assert_eq!(lost.map(|row| row.lost), Some(6));
    }
}
