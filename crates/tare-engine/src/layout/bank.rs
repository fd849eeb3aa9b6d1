//! HOT PATH: banks: the cells of one owner, found by instrument; and sums, banks that many threads fold into.

use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};

use tare_sync::{Space, keep_first};

use crate::layout::cell::Cell;
use crate::memory::arena::{Arena, ArenaView, Base, BlockId, BlockUse, LINE, Offset, Own, WORDS};
use crate::setup::instrument::MAX_INSTRUMENTS;
use crate::snapshot::{ClassId, Kind};

/// The mark of an entry whose instrument takes the fast path: its owner has seen the current configuration,
/// the cell is of the current epoch, and events are recorded.
pub(crate) const READY: u32 = 1;
/// The mark of an entry like [`READY`] whose events are summed up and not recorded. An entry has at most one
/// of the two.
pub(crate) const SUMMED: u32 = 2;

/// The mark of an instrument counted without a clock. With [`READY`] or [`SUMMED`] it applies to uncontended
/// locks; alone, to all events.
pub(crate) const UNTIMED: u32 = 4;
/// All marks.
pub(crate) const MARKS: u32 = READY | SUMMED | UNTIMED;
/// The position of the cell's place in an entry. The marks are below it.
const PLACE: u32 = 3;

const _: () = assert!(MARKS < 1 << PLACE);

/// The bytes of the arena that entries can address.
pub(crate) const REACH_BYTES: usize = 8 << (32 - PLACE);

/// Returns the place of the cell in an entry; 0 means none.
#[inline(always)]
pub(crate) const fn place(entry: u32) -> Offset {
    entry >> PLACE
}

/// Returns the entry of a cell with these marks.
pub(crate) const fn entry_of(cell: Offset, marks: u32) -> u32 {
    cell << PLACE | marks
}

/// The entries of one map block.
pub(crate) const MAP_ENTRIES: usize = 1024;
/// The map blocks of a bank, one entry for each instrument.
pub(crate) const MAPS: usize = MAX_INSTRUMENTS / MAP_ENTRIES;
const _: () = assert!(MAX_INSTRUMENTS == MAPS * MAP_ENTRIES);

/// A map from instrument to cell, for 1,024 instruments.
#[repr(C)]
pub(crate) struct MapBlock {
    pub(crate) cells: [AtomicU32; MAP_ENTRIES],
}
// SAFETY: meets `ArenaView`: atomics only, alignment 4, exactly one block.
#[allow(unsafe_code)]
unsafe impl ArenaView for MapBlock {}

/// The cells of one owner, found by instrument. Map blocks are created when first needed.
#[repr(C)]
pub(crate) struct Bank {
    pub(crate) maps: [AtomicU32; MAPS],
}

impl Bank {
    pub(crate) const fn new() -> Bank {
        Bank { maps: [const { AtomicU32::new(0) }; MAPS] }
    }

    /// Returns the entry of `class`; `None` if its map block does not exist.
    #[inline(always)]
    pub(crate) fn entry(&self, arena: &Arena, class: ClassId) -> Option<&'static AtomicU32> {
        let class = class as usize;
        let map: Offset = self.maps[(class / MAP_ENTRIES) % MAPS].load(Relaxed);
        if map == 0 {
            return None;
        }
        Some(&arena.at::<MapBlock>(map).cells[class % MAP_ENTRIES])
    }

    /// Returns the cell of `class`, if it exists.
    #[inline(always)]
    pub(crate) fn cell<C: Cell>(&self, arena: &Arena, class: ClassId) -> Option<&'static C> {
        match place(self.entry(arena, class)?.load(Acquire)) {
            0 => None,
            offset => Some(arena.at::<C>(offset)),
        }
    }

    /// Returns the cell of `class` for a reader: the bank's thread may end meanwhile and its memory be
    /// reused.
    pub(crate) fn peek<C: Cell>(&self, arena: &Arena, class: ClassId) -> Option<&'static C> {
        let class = class as usize;
        let map = self.maps[(class / MAP_ENTRIES) % MAPS].load(Acquire);
        let map: &MapBlock = arena.get(map)?;
        arena.get(place(map.cells[class % MAP_ENTRIES].load(Acquire)))
    }

    /// Calls `f` with the position of each class that has a cell, and the cell's place. For readers, see
    /// [`Bank::peek`].
    pub(crate) fn peek_places(
        &self,
        arena: &Arena,
        classes: impl Iterator<Item = ClassId>,
        mut f: impl FnMut(usize, Offset),
    ) {
        let maps = self.maps.each_ref().map(|map| arena.get::<MapBlock>(map.load(Acquire)));
        if maps.iter().all(Option::is_none) {
            return;
        }
        for (at, class) in classes.enumerate() {
            let class = class as usize;
            let map = maps[(class / MAP_ENTRIES) % MAPS];
            let cell = map.map_or(0, |map| place(map.cells[class % MAP_ENTRIES].load(Acquire)));
            if cell != 0 {
                f(at, cell);
            }
        }
    }

    /// Calls `f` with every class that has a cell, and the cell's place. For readers, see [`Bank::peek`].
    pub(crate) fn peek_each(&self, arena: &Arena, f: &mut dyn FnMut(ClassId, Offset)) {
        for (block, map) in self.maps.iter().enumerate() {
            let Some(map) = arena.get::<MapBlock>(map.load(Acquire)) else { continue };
            for (entry, cell) in map.cells.iter().enumerate() {
                let cell = place(cell.load(Acquire));
                if cell != 0 {
                    f((block * MAP_ENTRIES + entry) as ClassId, cell);
                }
            }
        }
    }

    /// Returns the entry of `class` to the bank's owner, which has seen the current configuration. A missing
    /// map is read as block 0 of the arena, which is never handed out and all zeros. That saves a branch.
    #[inline(always)]
    pub(crate) fn settled_entry(&self, base: Base, class: ClassId) -> u32 {
        let class = class as usize;
        let map: Offset = self.maps[(class / MAP_ENTRIES) % MAPS].own();
        base.at_or_zero::<MapBlock>(map).cells[class % MAP_ENTRIES].own()
    }

    /// Returns the place of `class`'s cell if its entry has `mark`, to the bank's owner, which has seen the
    /// current configuration.
    #[inline(always)]
    pub(crate) fn marked_cell(&self, base: Base, class: ClassId, mark: u32) -> Option<Offset> {
        let entry = self.settled_entry(base, class);
        (entry & mark != 0).then_some(place(entry))
    }
}

/// The entries of a cache line of a map.
const LINE_ENTRIES: usize = LINE / size_of::<AtomicU32>();

const _: () = assert!(MAP_ENTRIES / LINE_ENTRIES == u64::BITS as usize);

/// The cache lines of a bank's maps that have cells, one bit each. Most banks have few, and whoever visits
/// all cells reads only these lines.
#[repr(C)]
struct FilledLines([AtomicU64; MAPS]);

impl FilledLines {
    const fn new() -> FilledLines {
        FilledLines([const { AtomicU64::new(0) }; MAPS])
    }

    /// Notes that `class` is about to have a cell.
    fn add(&self, class: ClassId) {
        let (map, line) = FilledLines::place(class);
        self.0[map].fetch_or(line, Relaxed);
    }

    fn place(class: ClassId) -> (usize, u64) {
        let class = class as usize;
        ((class / MAP_ENTRIES) % MAPS, 1 << (class % MAP_ENTRIES / LINE_ENTRIES))
    }

    /// Calls `f` with the class and offset of every cell.
    fn each(&self, bank: &Bank, arena: &Arena, mut f: impl FnMut(ClassId, Offset)) {
        for (block, (map, lines)) in bank.maps.iter().zip(&self.0).enumerate() {
            let mut left = lines.load(Relaxed);
            let map = map.load(Relaxed);
            while left != 0 && map != 0 {
                let first = left.trailing_zeros() as usize * LINE_ENTRIES;
                left &= left - 1;
                let entries = &arena.at::<MapBlock>(map).cells[first..first + LINE_ENTRIES];
                for (entry, cell) in entries.iter().enumerate() {
                    let cell = place(cell.load(Relaxed));
                    if cell != 0 {
                        f((block * MAP_ENTRIES + first + entry) as ClassId, cell);
                    }
                }
            }
        }
    }
}

/// A bank that many threads fold into: what has ended, of all or of one account. Its cells lie in blocks of
/// its own, each of which begins with the number of the previous one. The first thread that needs a cell
/// creates it, without a lock. It stays until the whole is given back.
#[repr(C)]
pub(crate) struct SharedBank {
    pub(crate) bank: Bank,
    lines: FilledLines,
    space: Space,
}

/// The words of a block that its link takes, a cache line, so that cells are aligned to lines.
const LINK: u32 = (LINE / 8) as u32;

impl SharedBank {
    pub(crate) const fn new() -> SharedBank {
        SharedBank { bank: Bank::new(), lines: FilledLines::new(), space: Space::new() }
    }

    /// Returns the cell of `class`, created if necessary. `None`: there is no memory left.
    #[cold]
    pub(crate) fn make<C: Cell>(&self, arena: &Arena, class: ClassId) -> Option<&'static C> {
        let map = &self.bank.maps[(class as usize / MAP_ENTRIES) % MAPS];
        if map.load(Acquire) == 0 {
            let block = arena.take(BlockUse::Map, 0)?;
            if map.compare_exchange(0, block * WORDS as u32, AcqRel, Acquire).is_err() {
                arena.give(block);
            }
        }
        let entry = self.bank.entry(arena, class)?;
        let offset = cut(&self.space, arena, line_words::<C>() as u32)?;
        self.lines.add(class);
        // If another thread was first, the words cut for this cell stay unused.
        Some(arena.at(place(keep_first(entry, entry_of(offset, 0)))))
    }

    /// Calls `f` with the class and offset of every cell.
    pub(crate) fn each(&self, arena: &Arena, f: impl FnMut(ClassId, Offset)) {
        self.lines.each(&self.bank, arena, f);
    }

    /// Cuts words for another purpose of the owner. They are given back with all the rest.
    pub(crate) fn words(&self, arena: &Arena, words: u32) -> Option<Offset> {
        cut(&self.space, arena, words)
    }

    /// Gives all memory back. Nobody folds here any more. Readers check afterwards whether their data was
    /// still valid.
    pub(crate) fn release(&self, arena: &Arena) {
        for map in &self.bank.maps {
            let block = map.swap(0, Relaxed) / WORDS as u32;
            if block != 0 {
                arena.give(block);
            }
        }
        self.lines.0.iter().for_each(|lines| lines.store(0, Relaxed));
        let mut block = self.space.clear();
        while block != 0 {
            let before = arena.words(block)[0].load(Relaxed) as BlockId;
            arena.give(block);
            block = before;
        }
    }
}

/// Cuts a piece of a shared space. `None`: there is no memory left.
pub(crate) fn cut(space: &Space, arena: &Arena, words: u32) -> Option<Offset> {
    let take = |newest| {
        let fresh = arena.take(BlockUse::Cells, 0)?;
        arena.words(fresh)[0].store(u64::from(newest), Relaxed);
        Some(fresh)
    };
    let piece = space.cut(words, WORDS as u32, LINK, take, |unseen| arena.give(unseen))?;
    Some(piece.block * WORDS as u32 + piece.at)
}

/// Evaluates an expression with a name for the cell type that banks keep for a kind of instrument.
macro_rules! with_cell {
    ($kind:expr, $C:ident => $run:expr) => {
        match $kind {
            $crate::snapshot::Kind::Statement => {
                type $C = $crate::layout::cell::StatementCell;
                $run
            }
            $crate::snapshot::Kind::Transaction => {
                type $C = $crate::layout::cell::TransactionCell;
                $run
            }
            $crate::snapshot::Kind::Memory => {
                type $C = $crate::layout::balance::MemoryCell;
                $run
            }
            $crate::snapshot::Kind::Error => {
                type $C = $crate::layout::error::ErrorCell;
                $run
            }
            _ => {
                type $C = $crate::layout::cell::StatCell;
                $run
            }
        }
    };
}
pub(crate) use with_cell;

/// Returns the words of a cell that several threads write: whole cache lines.
pub(crate) const fn line_words<C>() -> usize {
    size_of::<C>().div_ceil(LINE) * LINE / 8
}

/// Returns the words of a thread's own cell for this kind of instrument. Such cells share cache lines, as no
/// other thread writes there.
pub(crate) const fn cell_words(kind: Kind) -> usize {
    with_cell!(kind, C => size_of::<C>() / 8)
}
