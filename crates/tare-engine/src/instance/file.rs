//! HOT PATH: files, open or not, and the map from descriptors to files.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use tare_sync::Seqlock;

use crate::Engine;
use crate::layout::cell::{IoCell, IoCounts, MISC, READ, SampleWeight, WRITE};
use crate::memory::arena::Offset;
use crate::memory::index::Inserted;
use crate::memory::lost::Lost;
use crate::memory::pool::{self, Pool, SlotHead, USED};
use crate::memory::text;
use crate::record::operation;
use crate::record::wait::{Source, Wait, WaitObject};
use crate::snapshot::ClassId;

use crate::layout::reference::reference;

/// Words of a file name (512 bytes, as in the built-in).
pub(crate) const FILE_WORDS: usize = 64;

/// A file, open or not.
#[repr(C)]
pub(crate) struct File {
    pub(crate) head: SlotHead,
    pub(crate) hash: AtomicU64,
    pub(crate) open_count: AtomicU32,
    pub(crate) temporary: AtomicU32,
    pub(crate) name_len: AtomicU32,
    /// Seqlock of name and hash; odd while the file is renamed.
    version: Seqlock,
    pub(crate) io: IoCounts,
    pub(crate) name: [AtomicU64; FILE_WORDS],
}

impl File {
    /// Returns the name. `None`: it is being changed.
    pub(crate) fn name(&self) -> Option<String> {
        self.version.read(|_| text::read_string(&self.name, self.name_len.load(Relaxed) as usize))
    }
}

reference! {
    /// Reference to a file.
    FileRef, FileHandle, File
}

/// Returns the object of a wait for a file.
#[inline(always)]
fn object_of(file: Option<FileRef>, operation: u8) -> WaitObject {
    let (address, name) = match file {
        Some(file) => (file.address().addr(), pool::name(&file.slot.head)),
        None => (0, 0),
    };
    WaitObject { address, name, index: 255, operation: operation::FILE + operation }
}

impl Engine {
    /// Finds the file of this name. `create` makes it if needed and counts an open.
    pub fn find_file(&self, class: ClassId, name: &[u8], create: bool) -> Option<FileRef> {
        let name = &name[..name.len().min(FILE_WORDS * 8)];
        let hash = text::hash(1, name);
        let is = |offset: Offset| {
            let file: &File = self.arena.at(offset);
            file.head.state() == USED && text::equals(&file.name, file.name_len.load(Relaxed) as usize, name)
        };
        let found = match self.files.find(hash, is) {
            Some(offset) => Some(self.arena.at::<FileHandle>(offset)),
            None if create => self.enter_file(class, name, hash, is),
            None => None,
        };
        if let Some(file) = found.filter(|_| create)
            && let Some(_held) = self.arena.hold(Pool::Files, file)
        {
            file.slot.open_count.fetch_add(1, Relaxed);
        }
        found
    }

    fn enter_file(
        &self,
        class: ClassId,
        name: &[u8],
        hash: u64,
        is: impl Fn(Offset) -> bool,
    ) -> Option<FileRef> {
        let Some(handle) = self.pools.take::<FileHandle>(&self.arena, Pool::Files, class) else {
            self.losses.count(Lost::FileInstances);
            return None;
        };
        handle.slot.hash.store(hash, Relaxed);
        handle.slot.name_len.store(text::write(&handle.slot.name, name) as u32, Relaxed);
        handle.slot.head.publish();
        match self.files.insert(hash, self.arena.offset_of(handle), is) {
            Inserted::Here => Some(handle),
            Inserted::There(first) => {
                self.pools.give(&self.arena, Pool::Files, handle);
                Some(self.arena.at(first))
            }
            Inserted::Full => {
                self.pools.give(&self.arena, Pool::Files, handle);
                self.losses.count(Lost::FileInstances);
                None
            }
        }
    }

    /// Returns the file of a descriptor.
    #[inline(always)]
    pub fn file_of(&self, fd: i32) -> Option<FileRef> {
        match self.descriptors.words().get(usize::try_from(fd).ok()?)?.load(Relaxed) {
            0 => None,
            offset => Some(self.arena.at(offset as Offset)),
        }
    }

    /// Binds a descriptor to `file`, or to nothing. If the descriptor is too large, the file is released and
    /// the loss is counted.
    pub fn bind_file(&self, fd: i32, file: Option<FileRef>) {
        let words = self.descriptors.words();
        match usize::try_from(fd).ok().and_then(|fd| words.get(fd)) {
            Some(word) => {
                let offset = file.map_or(0, |file| self.arena.offset_of(file));
                word.store(u64::from(offset), Relaxed);
            }
            None => {
                if let Some(file) = file {
                    self.release_file(file);
                    self.losses.count(Lost::FileHandles);
                }
            }
        }
    }

    /// Returns the instrument of a file.
    pub fn file_class(&self, file: FileRef) -> ClassId {
        file.slot.head.class()
    }

    /// Marks a file as temporary: it is forgotten when closed.
    pub fn set_file_temporary(&self, file: FileRef) {
        if let Some(_held) = self.arena.hold(Pool::Files, file) {
            file.slot.temporary.store(1, Relaxed);
        }
    }

    /// Returns whether the file is temporary.
    pub fn file_is_temporary(&self, file: FileRef) -> bool {
        file.slot.temporary.load(Relaxed) != 0
    }

    /// Counts one close of the file.
    pub fn release_file(&self, file: FileRef) {
        let count = &file.slot.open_count;
        if let Some(_held) = self.arena.hold(Pool::Files, file)
            && count.load(Relaxed) > 0
        {
            count.fetch_sub(1, Relaxed);
        }
    }

    /// Forgets a deleted file. Its I/O remains counted for its instrument.
    pub fn destroy_file(&self, file: FileRef) {
        let slot = &file.slot;
        let Some(_held) = self.arena.hold(Pool::Files, file).filter(|_| slot.head.state() == USED) else {
            return;
        };
        self.files.remove(slot.hash.load(Relaxed), self.arena.offset_of(file));
        self.folds.begin();
        if let Some(ended) = self.ended_io.bank.cell::<IoCell>(&self.arena, slot.head.class()) {
            slot.io.fold(&ended.io);
        }
        self.pools.give(&self.arena, Pool::Files, file);
        self.folds.end();
    }

    /// Renames a file.
    pub fn rename_file(&self, from: &[u8], to: &[u8]) {
        if let Some(file) = self.find_file(0, from, false) {
            self.rename_file_to(file, to);
        }
    }

    /// Renames this file.
    pub fn rename_file_to(&self, file: FileRef, to: &[u8]) {
        let Some(_held) = self.arena.hold(Pool::Files, file) else { return };
        // The rename has replaced the file that had the new name.
        if let Some(replaced) = self.find_file(0, to, false).filter(|other| !std::ptr::eq(*other, file)) {
            self.destroy_file(replaced);
        }
        let slot = &file.slot;
        let to = &to[..to.len().min(FILE_WORDS * 8)];
        let offset = self.arena.offset_of(file);
        self.files.remove(slot.hash.load(Relaxed), offset);
        let hash = text::hash(1, to);
        slot.version.change(|| {
            slot.name_len.store(text::write(&slot.name, to) as u32, Relaxed);
            slot.hash.store(hash, Relaxed);
        });
        self.files.insert(hash, offset, |at| at == offset);
    }

    /// Begins a file operation. The clock starts at [`Engine::restart_wait`].
    #[inline(always)]
    pub fn start_file_wait(&self, class: ClassId, file: Option<FileRef>, operation: u8) -> Option<Wait> {
        self.start_wait(class, object_of(file, operation), Source(0))
    }

    /// Begins a file operation that is counted but not timed.
    pub fn start_untimed_file_wait(
        &self,
        class: ClassId,
        file: Option<FileRef>,
        operation: u8,
    ) -> Option<Wait> {
        self.start_untimed_wait(class, object_of(file, operation), Source(0))
    }

    /// Ends a file operation. `operation` is a number of the PSI interface.
    #[inline(always)]
    pub fn end_file_wait(&self, wait: &Wait, file: Option<FileRef>, operation: u8, bytes: u64) {
        if let Some(file) = file {
            self.set_wait_object(wait, file.address().addr(), pool::name(&file.slot.head));
        }
        let taken = self.end_wait(wait, 1, Some(bytes));
        let part = match operation {
            6 => READ,
            7 => WRITE,
            _ => MISC,
        };
        let held = file.and_then(|file| Some((self.arena.hold(Pool::Files, file)?, file)));
        match held {
            Some((_held, file)) if file.slot.head.state() == USED => {
                file.slot.io.add_shared(part, taken, bytes, SampleWeight::ONE);
            }
            // Deleted while open, or unknown: counted for the instrument only.
            _ => {
                if let Some(ended) = self.ended_io.bank.cell::<IoCell>(&self.arena, wait.class()) {
                    ended.io.add_shared(part, taken, bytes, SampleWeight::ONE);
                }
            }
        }
    }
}
