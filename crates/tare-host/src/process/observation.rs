//! Reads the server's own memory while its threads continue to work.
//!
//! A reader takes no lock of the server and calls none of its functions. The kernel copies the memory, so
//! unmapped memory is an answer and not a fault. A copy proves nothing: the reader checks afterwards, by what
//! it knows from elsewhere, that it read what it was looking for.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex};

use super::segments::Segments;

/// The size of a page in bytes; a mapping ends at the end of a page.
const PAGE: usize = 4096;

/// Copies memory of this process that may have been unmapped. Returns the number of bytes copied: fewer than
/// asked for at the end of a mapping, 0 if nothing is mapped.
pub fn copy(address: usize, to: &mut [u8]) -> usize {
    if address == 0 {
        return 0;
    }
    let mut copied = 0;
    // Copies up to the end of the page first, because what follows may not be mapped.
    while copied < to.len() {
        let at = address.wrapping_add(copied);
        let piece = (PAGE - at % PAGE).min(to.len() - copied);
        if copy_piece(at, &mut to[copied..copied + piece]) != piece {
            break;
        }
        copied += piece;
    }
    copied
}

/// Whether the system lets this process read its own memory by `process_vm_readv`; a sandbox may not.
static ALLOWED: AtomicBool = AtomicBool::new(true);

/// Copies within a page.
fn copy_piece(address: usize, to: &mut [u8]) -> usize {
    if !ALLOWED.load(Relaxed) {
        return through_pipe(address, to);
    }
    let copied = through_kernel(address, to);
    if copied.is_none() && matches!(errno(), libc::EPERM | libc::ENOSYS | libc::EACCES) {
        ALLOWED.store(false, Relaxed);
        return through_pipe(address, to);
    }
    copied.unwrap_or(0)
}

/// Copies by `process_vm_readv`; returns `None` with the reason in `errno`.
fn through_kernel(address: usize, to: &mut [u8]) -> Option<usize> {
    let local = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    let remote = libc::iovec { iov_base: address as *mut _, iov_len: to.len() };
    // SAFETY: the local vector is a buffer of ours; the kernel only reads the remote one, and checks it.
    let copied = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    usize::try_from(copied).ok()
}

/// Copies memory at two addresses, first the one and then the other, mostly in one call of the system.
/// Returns `None` if not all of it is mapped.
pub fn two<const N: usize, const M: usize>(first: usize, second: usize) -> Option<([u8; N], [u8; M])> {
    let (mut one, mut other) = ([0; N], [0; M]);
    if first != 0 && second != 0 && ALLOWED.load(Relaxed) {
        let local = |to: &mut [u8]| libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
        let local = [local(&mut one), local(&mut other)];
        let remote = |at: usize, len: usize| libc::iovec { iov_base: at as *mut _, iov_len: len };
        let remote = [remote(first, N), remote(second, M)];
        // SAFETY: the local vectors are buffers of ours, as long as they say; the kernel only reads the
        // remote ones, and checks them.
        let copied =
            unsafe { libc::process_vm_readv(libc::getpid(), local.as_ptr(), 2, remote.as_ptr(), 2, 0) };
        if usize::try_from(copied) == Ok(N + M) {
            return Some((one, other));
        }
    }
    // What is refused, or not mapped, is found out in single steps.
    Some((bytes(first)?, bytes(second)?))
}

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Copies through a pipe where `process_vm_readv` is denied: `write` also fails if nothing is mapped. A pipe
/// holds a page.
fn through_pipe(address: usize, to: &mut [u8]) -> usize {
    static PIPE: Mutex<Option<[OwnedFd; 2]>> = Mutex::new(None);
    let mut pipe = PIPE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if pipe.is_none() {
        let mut ends = [0; 2];
        // SAFETY: the call fills the array.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
            return 0;
        }
        // SAFETY: both descriptors were just created, and nobody else has them.
        *pipe = Some(ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) }));
    }
    let Some([out, into]) = pipe.as_ref() else { return 0 };
    // SAFETY: the kernel checks the memory it reads.
    let written = unsafe { libc::write(into.as_raw_fd(), address as *const _, to.len()) };
    let Ok(written) = usize::try_from(written) else { return 0 };
    // SAFETY: the buffer is ours and has the stated length.
    let read = unsafe { libc::read(out.as_raw_fd(), to.as_mut_ptr().cast(), written) };
    usize::try_from(read).unwrap_or(0)
}

/// Returns the `N` bytes at an address; `None` if they are not mapped.
pub fn bytes<const N: usize>(address: usize) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    (copy(address, &mut bytes) == N).then_some(bytes)
}

/// Returns the word at an address; `None` if it is not mapped.
pub fn word(address: usize) -> Option<u64> {
    bytes(address).map(u64::from_le_bytes)
}

/// Returns the word at an address of the program's own data, which stays mapped for the lifetime of the
/// process, so no copy is needed. Returns `None` if the address is not in that data or not aligned.
pub fn static_word(address: usize) -> Option<&'static AtomicU64> {
    static SEGMENTS: LazyLock<Option<Segments>> = LazyLock::new(Segments::of_program);
    let is_word = address.is_multiple_of(size_of::<u64>());
    let has_it = |segments: &Segments| segments.have_data(address, size_of::<u64>());
    // SAFETY: aligned, in a segment that is mapped for reading and writing and is never unmapped. The
    // server's threads write to it as a whole.
    let word = || unsafe { AtomicU64::from_ptr(address as *mut u64) };
    (is_word && SEGMENTS.as_ref().is_some_and(has_it)).then(word)
}

/// Returns the word at an address, as an address.
pub fn pointer(address: usize) -> Option<usize> {
    usize::try_from(word(address)?).ok()
}

/// Returns the text at an address, up to its zero, of fewer than `N` bytes.
pub fn text<const N: usize>(address: usize) -> Option<String> {
    let mut bytes = [0; N];
    copy(address, &mut bytes);
    until_zero(&bytes)
}

/// Returns the text in a copy, up to its zero.
pub fn until_zero(copy: &[u8]) -> Option<String> {
    CStr::from_bytes_until_nul(copy).ok()?.to_str().ok().map(str::to_owned)
}

/// Returns the word at an offset of a copy.
pub fn field(copy: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*copy.get(at..)?.first_chunk()?))
}

/// Returns the `len` bytes at an address; `None` if they are not all mapped.
pub fn block(address: usize, len: usize) -> Option<Vec<u8>> {
    let mut block = Vec::new();
    // The length may be garbage.
    block.try_reserve_exact(len).ok()?;
    block.resize(len, 0);
    (copy(address, &mut block) == len).then_some(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maps a page owned by this test, followed by one that nobody may read and that no other test can map.
    fn edge() -> usize {
        // SAFETY: mappings of this test's own.
        unsafe {
            let (read, private) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let at = libc::mmap(std::ptr::null_mut(), 2 * PAGE, read, private, -1, 0);
            assert_eq!(libc::mprotect(at.byte_add(PAGE), PAGE, libc::PROT_NONE), 0);
            at.cast::<u8>().write_bytes(7, PAGE);
            at.addr()
        }
    }

    #[test]
    fn what_is_mapped_is_copied_and_nothing_faults() {
        for way in [copy, |address, to: &mut [u8]| through_pipe(address, to)] {
            let (edge, mut buffer) = (edge(), [0; 16]);
            assert_eq!((way(edge, &mut buffer), buffer), (16, [7; 16]));
            assert_eq!(way(edge + PAGE - 16, &mut buffer), 16);
            assert_eq!(way(edge + PAGE, &mut buffer), 0);
            assert_eq!(way(usize::MAX - 7, &mut buffer[..8]), 0);
            assert_eq!(way(16, &mut buffer), 0);
        }
        assert_eq!(copy(edge() + PAGE - 8, &mut [0; 16]), 8, "up to the end");
        assert_eq!(copy(0, &mut [0; 16]), 0);
    }

    #[test]
    fn two_places_are_copied_if_both_are_mapped() {
        let (edge, other) = (edge(), 42_u64);
        let at = std::ptr::from_ref(&other).addr();
        assert_eq!(two::<16, 8>(edge, at), Some(([7; 16], other.to_le_bytes())));
        assert_eq!(two::<8, 16>(at, edge + PAGE - 16), Some((other.to_le_bytes(), [7; 16])));
        for (first, second) in [(edge + PAGE - 8, at), (at, edge + PAGE), (0, at), (at, 16)] {
            assert_eq!(two::<16, 8>(first, second), None);
        }
    }

    #[test]
    fn a_word_of_the_programs_data_needs_no_copy() {
        static WORD: AtomicU64 = AtomicU64::new(7);
        let at = WORD.as_ptr().addr();
        assert_eq!(static_word(at).map(|word| word.load(Relaxed)), Some(7));
        assert!(static_word(at + 4).is_none() && static_word(edge()).is_none());
    }

    #[test]
    fn words_texts_and_blocks_are_whole_or_not_there() {
        let edge = edge();
        assert_eq!(word(edge), Some(0x0707_0707_0707_0707));
        assert_eq!(word(edge + PAGE - 4), None);
        assert_eq!(block(edge, PAGE).map(|block| block.len()), Some(PAGE));
        assert_eq!((block(edge, PAGE + 1), block(edge, usize::MAX)), (None, None));
        let name = c"/build/sql/sql_class.cc";
        assert_eq!(text::<64>(name.as_ptr().addr()).as_deref(), Some("/build/sql/sql_class.cc"));
        assert_eq!(text::<8>(name.as_ptr().addr()), None, "longer than that");
    }
}
