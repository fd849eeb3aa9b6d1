//! Observation: the server's own memory, read while its threads go on working.
//!
//! Whoever looks takes no lock of the server's and calls none of its functions. The kernel copies, so what has been
//! unmapped is an answer and no fault. A copy proves nothing: the reader checks afterwards, by what it knows from
//! elsewhere, that what it read was what it looked for.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex};

use crate::startup::segments::Segments;

/// Bytes of a page; a mapping ends at the end of one.
const PAGE: usize = 4096;

/// Copies memory of this process that may have been unmapped. Returns how many bytes were copied: fewer at the end of a
/// mapping, none where nothing is mapped.
pub(crate) fn copy(address: usize, to: &mut [u8]) -> usize {
    if address == 0 {
        return 0;
    }
    let mut copied = 0;
    // Up to the page's end first: what follows may not be mapped.
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

/// The same; `None`: the system says why in `errno`.
fn through_kernel(address: usize, to: &mut [u8]) -> Option<usize> {
    let local = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    let remote = libc::iovec { iov_base: address as *mut _, iov_len: to.len() };
    // SAFETY: the local vector is a buffer of ours; the remote one is only read, by the kernel, which checks it.
    let copied = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    usize::try_from(copied).ok()
}

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// The same without that call: `write` into a pipe says no where nothing is mapped, too. A pipe holds a page.
fn through_pipe(address: usize, to: &mut [u8]) -> usize {
    static PIPE: Mutex<Option<[OwnedFd; 2]>> = Mutex::new(None);
    let mut pipe = PIPE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if pipe.is_none() {
        let mut ends = [0; 2];
        // SAFETY: the call fills the array.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
            return 0;
        }
        // SAFETY: both descriptors were just made, and nobody else has them.
        *pipe = Some(ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) }));
    }
    let Some([out, into]) = pipe.as_ref() else { return 0 };
    // SAFETY: the kernel checks the memory it reads.
    let written = unsafe { libc::write(into.as_raw_fd(), address as *const _, to.len()) };
    let Ok(written) = usize::try_from(written) else { return 0 };
    // SAFETY: the buffer is ours, and as long as said.
    let read = unsafe { libc::read(out.as_raw_fd(), to.as_mut_ptr().cast(), written) };
    usize::try_from(read).unwrap_or(0)
}

/// `N` bytes at an address.
pub(crate) fn bytes<const N: usize>(address: usize) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    (copy(address, &mut bytes) == N).then_some(bytes)
}

/// The word at an address.
pub(crate) fn word(address: usize) -> Option<u64> {
    bytes(address).map(u64::from_le_bytes)
}

/// The word at an address of the program's own data, which is there as long as the process is: nothing has to be asked. `None`:
/// it is none.
pub(crate) fn static_word(address: usize) -> Option<&'static AtomicU64> {
    static SEGMENTS: LazyLock<Option<Segments>> = LazyLock::new(Segments::of_program);
    let is_word = address.is_multiple_of(size_of::<u64>());
    let has_it = |segments: &Segments| segments.have_data(address, size_of::<u64>());
    // SAFETY: aligned, in a segment that is mapped to be read and written and is never unmapped. The server's threads write to it
    // as a whole.
    let word = || unsafe { AtomicU64::from_ptr(address as *mut u64) };
    (is_word && SEGMENTS.as_ref().is_some_and(has_it)).then(word)
}

/// The word at an address, as an address.
pub(crate) fn pointer(address: usize) -> Option<usize> {
    usize::try_from(word(address)?).ok()
}

/// The text at an address, up to its zero, of fewer than `N` bytes.
pub(crate) fn text<const N: usize>(address: usize) -> Option<String> {
    let mut bytes = [0; N];
    copy(address, &mut bytes);
    until_zero(&bytes)
}

/// The text in a copy, up to its zero.
pub(crate) fn until_zero(copy: &[u8]) -> Option<String> {
    CStr::from_bytes_until_nul(copy).ok()?.to_str().ok().map(str::to_owned)
}

/// The word at a place of a copy.
pub(crate) fn field(copy: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*copy.get(at..)?.first_chunk()?))
}

/// `len` bytes at an address.
pub(crate) fn block(address: usize, len: usize) -> Option<Vec<u8>> {
    let mut block = Vec::new();
    // What stands for a length may be anything.
    block.try_reserve_exact(len).ok()?;
    block.resize(len, 0);
    (copy(address, &mut block) == len).then_some(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page of this test's own, followed by one that nobody may read, nor another test map.
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
