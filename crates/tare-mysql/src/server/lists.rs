//! The built-in's lists of its objects, read while its threads change them: a record is copied, and left out
//! if its version is another one afterwards. No lock of the server's is taken.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed},
    fence,
};

use crate::abi::layout::layout;
use crate::abi::lists::{
    self, IN_USE, ListLayout, PAGE_COUNT, PAGE_START, PAGES, ServerList, Text, VERSION_STATE,
};

/// A list, once it is found.
pub(crate) struct List {
    list: &'static ServerList,
    at: OnceLock<usize>,
}

/// The built-in's threads.
pub(crate) static THREADS: List = List::new(&lists::THREADS);
/// Its accounts.
pub(crate) static ACCOUNTS: List = List::new(&lists::ACCOUNTS);
/// Its users.
pub(crate) static USERS: List = List::new(&lists::USERS);
/// Its hosts.
pub(crate) static HOSTS: List = List::new(&lists::HOSTS);
/// Its metadata locks.
pub(crate) static METADATA_LOCKS: List = List::new(&lists::METADATA_LOCKS);

/// Every list.
pub(crate) static ALL: [&List; 5] = [&THREADS, &ACCOUNTS, &USERS, &HOSTS, &METADATA_LOCKS];

/// Returns the word at an address.
///
/// # Safety
///
/// The address of an aligned word that stays mapped.
unsafe fn word(address: usize) -> &'static AtomicUsize {
    // SAFETY: the caller's promise.
    unsafe { &*std::ptr::with_exposed_provenance(address) }
}

/// Returns whether a version says that its data may be read.
fn is_in_use(version: u32) -> bool {
    version & VERSION_STATE == IN_USE
}

impl List {
    const fn new(list: &'static ServerList) -> List {
        List { list, at: OnceLock::new() }
    }

    /// Returns the variable that has it.
    pub(crate) fn name(&self) -> &'static CStr {
        self.list.name
    }

    /// Sets where the list is.
    ///
    /// # Safety
    ///
    /// The built-in's list of this layout, of which it frees nothing before [`super::presence::end`].
    pub(crate) unsafe fn set(&self, at: *mut c_void) {
        let _set_once = self.at.set(at.expose_provenance());
    }

    /// Calls `f` with each record in use. Nothing is copied yet.
    pub(crate) fn each(&self, mut f: impl FnMut(Record)) {
        let Some(at) = self.at.get() else { return };
        let layout = (self.list.layout)(layout());
        for page in 0..self.list.most_pages {
            // SAFETY: a list has room for the addresses of so many pages; they are null, or pages that are
            // ready (the promise of `set`).
            let page = unsafe { word(at + PAGES + page * 8) }.load(Acquire);
            if page == 0 {
                continue;
            }
            // SAFETY: a page has these words.
            let [start, count] = [PAGE_START, PAGE_COUNT].map(|at| unsafe { word(page + at) }.load(Relaxed));
            for record in 0..count {
                let record = Record { address: start + record * layout.record, layout };
                if is_in_use(record.version()) {
                    f(record);
                }
            }
        }
    }
}

/// A record of a list, in which another object may be at any time.
#[derive(Clone, Copy)]
pub(crate) struct Record {
    pub(crate) address: usize,
    layout: ListLayout,
}

impl Record {
    /// Returns the record of a list at an address that [`List::each`] has told.
    pub(crate) fn at(list: &List, address: usize) -> Record {
        Record { address, layout: (list.list.layout)(layout()) }
    }

    /// Returns the number of 32 bits at an offset.
    pub(crate) fn number(self, at: usize) -> &'static AtomicU32 {
        // SAFETY: within a record of a list (`List::each`), at a multiple of 4.
        unsafe { &*std::ptr::with_exposed_provenance(self.address + at) }
    }

    /// Returns the word at an offset.
    pub(crate) fn word(self, at: usize) -> u64 {
        // SAFETY: within a record of a list (`List::each`), at a multiple of 8.
        unsafe { &*std::ptr::with_exposed_provenance::<AtomicU64>(self.address + at) }.load(Relaxed)
    }

    /// Returns the version, which changes with every object that is in the record.
    pub(crate) fn version(self) -> u32 {
        self.number(self.layout.version).load(Acquire)
    }

    /// Copies a part of the record, of which `versions` has the offsets of further versions. `None`: another
    /// object has come into the record meanwhile.
    pub(crate) fn copy(self, (from, to): (usize, usize), versions: &[usize]) -> Option<Copied> {
        let version = self.version();
        let seen: Vec<u32> = versions.iter().map(|at| self.number(*at).load(Acquire)).collect();
        let words = (from..to).step_by(8).map(|at| self.word(at)).collect();
        fence(Acquire);
        let is_same = |at: &usize, seen: u32| is_in_use(seen) && self.number(*at).load(Relaxed) == seen;
        let settled =
            versions.iter().zip(seen).filter(|(at, seen)| is_same(at, *seen)).map(|(at, _)| *at).collect();
        is_same(&self.layout.version, version).then_some(Copied { from, words, settled, version })
    }
}

/// A copy of a part of a record.
pub(crate) struct Copied {
    from: usize,
    words: Vec<u64>,
    settled: Vec<usize>,
    /// The version of the record.
    pub(crate) version: u32,
}

impl Copied {
    /// Returns whether the data of a further version are those of one moment.
    pub(crate) fn is_settled(&self, version: usize) -> bool {
        self.settled.contains(&version)
    }

    /// Returns the word at an offset of the record.
    pub(crate) fn word(&self, at: usize) -> u64 {
        self.words.get(at.wrapping_sub(self.from) / 8).copied().unwrap_or(0)
    }

    /// Returns the number of 32 bits at an offset of the record.
    pub(crate) fn number(&self, at: usize) -> u32 {
        (self.word(at & !7) >> (at % 8 * 8)) as u32
    }

    /// Returns the byte at an offset of the record.
    pub(crate) fn byte(&self, at: usize) -> u8 {
        self.word(at & !7).to_le_bytes()[at % 8]
    }

    /// Returns bytes of the record.
    pub(crate) fn bytes(&self, at: usize, length: usize) -> Vec<u8> {
        (at..at + length).map(|at| self.byte(at)).collect()
    }

    /// Returns a text of the record; `None`: it is empty, or longer than its place.
    pub(crate) fn text(&self, (at, length): Text) -> Option<String> {
        let most = (length - at) as u64;
        let length = Some(self.word(length)).filter(|length| (1..=most).contains(length))?;
        Some(self.characters(at, length as usize))
    }

    /// Returns characters of the record.
    pub(crate) fn characters(&self, at: usize, length: usize) -> String {
        String::from_utf8_lossy(&self.bytes(at, length)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static LAYOUT: ListLayout = ListLayout { record: 64, version: 8 };
    static LIST: ServerList = ServerList { name: c"a_test", most_pages: 2, layout: |_| LAYOUT };

    /// A list with a page of records, whose versions are those given; leaked, as the built-in's are never
    /// freed.
    fn list(versions: &[u32]) -> (List, &'static [[AtomicU64; 8]]) {
        let record = |version: &u32| {
            let words = [0, u64::from(*version), 5, 0x64_6362_6103, 4, 0x7A7A_7A7A_7A7A_7A7A, 0, 9];
            words.map(AtomicU64::new)
        };
        let records: Vec<[AtomicU64; 8]> = versions.iter().map(record).collect();
        let records = &*records.leak();
        let mut page = vec![0usize; 16];
        (page[PAGE_START / 8], page[PAGE_COUNT / 8]) = (records.as_ptr().expose_provenance(), records.len());
        let mut pages = vec![0usize; PAGES / 8 + 2];
        pages[PAGES / 8 + 1] = page.leak().as_ptr().expose_provenance();
        let list = List::new(&LIST);
        // SAFETY: a list of this layout that is never freed.
        unsafe { list.set(pages.leak().as_mut_ptr().cast()) };
        (list, records)
    }

    #[test]
    fn records_in_use_are_copied() {
        let (list, records) = list(&[4, 6, 5, 10]);
        let mut all = Vec::new();
        list.each(|record| all.push(record));
        let expected = [1, 3].map(|at| records[at].as_ptr().addr());
        assert_eq!(all.iter().map(|it| it.address).collect::<Vec<_>>(), expected);
        let copied = all[0].copy((16, 64), &[]).expect("nobody changes it");
        assert_eq!((copied.version, copied.word(16), copied.number(56), copied.byte(24)), (6, 5, 9, 3));
        assert_eq!(copied.text((25, 32)).as_deref(), Some("abcd"));
        assert_eq!(copied.text((40, 48)), None, "it is empty");
        assert_eq!(copied.text((49, 56)), None, "its length is wrong");
    }

    #[test]
    fn a_record_that_is_another_one_now_is_left_out() {
        let (list, records) = list(&[6]);
        let mut found = None;
        list.each(|record| found = Some(record));
        let found = found.expect("one");
        records[0][6].store(2, Relaxed);
        assert!(found.copy((16, 64), &[48]).is_some_and(|it| it.is_settled(48) && !it.is_settled(8)));
        records[0][6].store(1, Relaxed);
        assert!(found.copy((16, 64), &[48]).is_some_and(|it| !it.is_settled(48)), "somebody writes");
        records[0][1].store(8, Relaxed);
        assert!(found.copy((16, 64), &[]).is_none(), "it is free");
    }

    #[test]
    fn a_list_that_was_not_found_is_empty() {
        List::new(&LIST).each(|_| panic!("there is none"));
    }
}
