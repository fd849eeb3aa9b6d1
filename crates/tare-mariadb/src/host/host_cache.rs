//! The server's cache of host names, read while connections use it.
//!
//! It is a list of entries, most recently used first, and a hash table of the same entries; whoever changes
//! either holds a mutex. A read counts only if the mutex was free before and after, each entry names the one
//! before it as its predecessor, the number of entries matches the hash table, and a second read sees the
//! same. The times and counts of an entry only rise, so what two reads saw did not change in between.

use std::net::IpAddr;
use std::sync::OnceLock;

use tare_engine::CachedHost;
use tare_host::process::observation::{block, bytes, field, pointer, until_zero};

use super::session::{LayoutError, function};

/// The most entries read; `host_cache_size` cannot be larger.
const MOST: usize = 65_536;

/// `hash_filo` of the server's `hash_filo.h`: first and last entry, the mutex, the hash table.
mod cache {
    /// From the first entry to the mutex, whose first word is 0 while it is free.
    pub(super) const MUTEX: usize = 16;
    /// From the first entry to the hash table, which follows the mutex and its instance.
    pub(super) const RECORDS: usize = MUTEX + 48 + 24;
}

/// `Host_entry` of the server's `hostname.h`.
mod entry {
    pub(super) const NEXT: usize = 0;
    pub(super) const PREVIOUS: usize = 8;
    pub(super) const IP: std::ops::Range<usize> = 16..62;
    pub(super) const NAME: std::ops::Range<usize> = 62..318;
    pub(super) const NAME_BYTES: usize = 320;
    pub(super) const VALIDATED: usize = 324;
    pub(super) const TIMES: usize = 328;
    pub(super) const ERRORS: usize = 360;
    pub(super) const BYTES: usize = ERRORS + 21 * 8;
}

/// The location of the cache: a variable that holds its address, and the offset of its first entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostCacheLayout {
    variable: usize,
    first: usize,
}

impl HostCacheLayout {
    fn prove() -> Result<HostCacheLayout, LayoutError> {
        let address = function(c"_Z20hostname_cache_firstv")?;
        let code = bytes::<16>(address);
        code.and_then(|code| HostCacheLayout::of(&code, address))
            .ok_or(LayoutError::Code("hostname_cache_first"))
    }

    /// Decodes `mov variable(%rip), %rax`, `mov first(%rax), %rax`, `ret`; an `endbr64` may come first.
    fn of(code: &[u8], address: usize) -> Option<HostCacheLayout> {
        let mark = if code.starts_with(&[0xF3, 0x0F, 0x1E, 0xFA]) { 4 } else { 0 };
        let &[0x48, 0x8B, 0x05, a, b, c, d, 0x48, 0x8B, 0x40, first, 0xC3, ..] = code.get(mark..)? else {
            return None;
        };
        let distance = i32::from_le_bytes([a, b, c, d]);
        let variable = address.wrapping_add(mark + 7).wrapping_add(distance as usize);
        Some(HostCacheLayout { variable, first: first.into() })
    }

    fn look(self) -> Option<Vec<CachedHost>> {
        let head = pointer(self.variable)?.checked_add(self.first)?;
        let is_free = || bytes::<4>(head + cache::MUTEX) == Some([0; 4]);
        let records = || pointer(head + cache::RECORDS);
        let (free, count) = (is_free(), records()?);
        if !free || count > MOST {
            return None;
        }
        let mut hosts = Vec::new();
        let (mut previous, mut at) = (0, pointer(head)?);
        while at != 0 {
            if hosts.len() == count {
                return None;
            }
            let copy = block(at, entry::BYTES)?;
            if field(&copy, entry::PREVIOUS)? != previous as u64 {
                return None;
            }
            hosts.push(host(&copy)?);
            (previous, at) = (at, usize::try_from(field(&copy, entry::NEXT)?).ok()?);
        }
        let whole = hosts.len() == count && records()? == count && is_free();
        whole.then_some(hosts)
    }
}

/// Decodes an entry; `None` if it is not plausible.
fn host(copy: &[u8]) -> Option<CachedHost> {
    let ip = until_zero(copy.get(entry::IP)?)?;
    let _is_an_address: IpAddr = ip.parse().ok()?;
    let name_len = *copy.get(entry::NAME_BYTES..)?.first_chunk()?;
    let name_len = usize::try_from(u32::from_le_bytes(name_len)).ok()?;
    let name = until_zero(copy.get(entry::NAME)?).filter(|name| name.len() == name_len);
    // A name that was never set is not cleared; only its length is 0.
    let name = if name_len == 0 { String::new() } else { name? };
    let validated = *copy.get(entry::VALIDATED)?;
    let words = |from: usize, at: usize| field(copy, from + at * 8);
    let [first, last, first_error, last_error] = [0, 1, 2, 3].map(|at| words(entry::TIMES, at));
    let (seen_us, error_seen_us) = ([first?, last?], [first_error?, last_error?]);
    let mut errors = [0; 21];
    for (at, count) in errors.iter_mut().enumerate() {
        *count = words(entry::ERRORS, at)?;
    }
    let plausible = validated <= 1 && seen_us[0] <= seen_us[1] && error_seen_us[0] <= error_seen_us[1];
    plausible.then(|| CachedHost {
        ip,
        host: Some(name).filter(|name| !name.is_empty()),
        validated: validated == 1,
        errors,
        seen_us,
        error_seen_us,
    })
}

/// Returns the location of the cache, which is found at the first call.
pub(crate) fn layout() -> Result<HostCacheLayout, &'static LayoutError> {
    static LAYOUT: OnceLock<Result<HostCacheLayout, LayoutError>> = OnceLock::new();
    LAYOUT.get_or_init(HostCacheLayout::prove).as_ref().copied()
}

/// Returns the addresses in the server's cache; empty if its location is not known, `None` if it changed
/// meanwhile.
pub(crate) fn read() -> Option<Vec<CachedHost>> {
    let Ok(layout) = layout() else { return Some(Vec::new()) };
    let first = layout.look()?;
    (layout.look()? == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_where_the_function_says() {
        // `hostname_cache_first` of Debian's 10.11.19.
        let code =
            [0x48, 0x8B, 0x05, 0x21, 0xC1, 0xE8, 0x00, 0x48, 0x8B, 0x40, 0x30, 0xC3, 0x0F, 0x1F, 0x40, 0x00];
        assert_eq!(
            HostCacheLayout::of(&code, 0xA8_8770),
            Some(HostCacheLayout { variable: 0x191_4898, first: 0x30 })
        );
        let mut other = code;
        other[9] = 0x80;
        assert_eq!(HostCacheLayout::of(&other, 0xA8_8770), None);
        let marked = [&[0xF3, 0x0F, 0x1E, 0xFA][..], &code].concat();
        assert_eq!(
            HostCacheLayout::of(&marked, 0xA8_876C),
            Some(HostCacheLayout { variable: 0x191_4898, first: 0x30 })
        );
    }

    /// A cache owned by this test: the variable, the list's head with mutex and table, and two entries.
    struct OwnHostCache {
        variable: Box<usize>,
        head: Box<[u64; 16]>,
        entries: [Box<[u64; entry::BYTES / 8]>; 2],
    }

    impl OwnHostCache {
        fn new() -> OwnHostCache {
            let mut head = Box::new([0; 16]);
            let mut entries = [(); 2].map(|()| Box::new([0; entry::BYTES / 8]));
            let [one, two] = entries.each_ref().map(|entry| entry.as_ptr().addr() as u64);
            head[0] = one;
            head[1] = two;
            head[cache::RECORDS / 8] = 2;
            (entries[0][0], entries[1][1]) = (two, one);
            for (entry, (ip, name)) in entries.iter_mut().zip([("10.0.0.1", "one.example"), ("fe80::1", "")])
            {
                let mut copy: Vec<u8> = entry.iter().flat_map(|word| word.to_le_bytes()).collect();
                copy[entry::IP][..ip.len()].copy_from_slice(ip.as_bytes());
                copy[entry::NAME][..name.len()].copy_from_slice(name.as_bytes());
                copy[entry::NAME_BYTES] = name.len() as u8;
                copy[entry::VALIDATED] = u8::from(!name.is_empty());
                for (word, bytes) in entry.iter_mut().zip(copy.chunks_exact(8)) {
                    *word = u64::from_le_bytes(bytes.try_into().expect("eight"));
                }
                for (at, word) in entry[entry::TIMES / 8..].iter_mut().enumerate() {
                    *word = 100 + at as u64;
                }
            }
            OwnHostCache { variable: Box::new(head.as_ptr().addr()), head, entries }
        }

        fn look(&self) -> Option<Vec<CachedHost>> {
            HostCacheLayout { variable: std::ptr::from_ref(&*self.variable).addr(), first: 0 }.look()
        }
    }

    #[test]
    fn a_list_is_read_when_it_is_whole_and_nobody_changes_it() {
        let hosts = OwnHostCache::new().look().expect("whole");
        let [one, two] = &hosts[..] else { panic!("{hosts:?}") };
        assert_eq!(
            (one.ip.as_str(), one.host.as_deref(), one.validated),
            ("10.0.0.1", Some("one.example"), true)
        );
        assert_eq!((two.ip.as_str(), two.host.as_deref(), two.validated), ("fe80::1", None, false));
        assert_eq!((one.seen_us, one.error_seen_us), ([100, 101], [102, 103]));
        assert_eq!((one.errors[0], one.errors[20]), (104, 124));

        let broken = |change: fn(&mut OwnHostCache)| {
            let mut own = OwnHostCache::new();
            change(&mut own);
            assert_eq!(own.look(), None);
        };
        broken(|own| own.head[cache::MUTEX / 8] = 1);
        broken(|own| own.head[cache::RECORDS / 8] = 3);
        broken(|own| own.head[cache::RECORDS / 8] = 1);
        broken(|own| own.entries[1][1] = 0);
        broken(|own| own.entries[1][0] = 16);
        broken(|own| own.entries[0][2] = 0x7878_7878_7878_7878);
        broken(|own| own.entries[0][entry::NAME_BYTES / 8] = 5 | 1 << 32);
        broken(|own| own.entries[0][entry::TIMES / 8] = 1000);
        broken(|own| *own.variable = 16);
        let mut empty = OwnHostCache::new();
        (empty.head[0], empty.head[cache::RECORDS / 8]) = (0, 0);
        assert_eq!(empty.look(), Some(Vec::new()));
    }
}
