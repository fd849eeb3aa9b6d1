//! Reads the server's own memory while its threads continue to work.
//!
//! A reader takes no lock of the server and calls none of its functions. The kernel copies the memory, so
//! unmapped memory is an answer and not a fault. A copy proves nothing: the reader checks afterwards, by what
//! it knows from elsewhere, that it read what it was looking for.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::AtomicU64;
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
        if through_pipe(&[remote(at, piece)], &[local(&mut to[copied..copied + piece])]) != piece {
            break;
        }
        copied += piece;
    }
    copied
}

/// Copies memory at two addresses, first the one and then the other. Returns `None` if not all of it is
/// mapped.
pub fn two<const N: usize, const M: usize>(first: usize, second: usize) -> Option<([u8; N], [u8; M])> {
    let (mut one, mut other) = ([0; N], [0; M]);
    if first != 0 && second != 0 {
        let from = [remote(first, N), remote(second, M)];
        if through_pipe(&from, &[local(&mut one), local(&mut other)]) == N + M {
            return Some((one, other));
        }
    }
    // What is not mapped is found out in single steps.
    Some((bytes(first)?, bytes(second)?))
}

fn local(to: &mut [u8]) -> libc::iovec {
    libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() }
}

fn remote(address: usize, len: usize) -> libc::iovec {
    libc::iovec { iov_base: address as *mut _, iov_len: len }
}

/// Copies by writing into a pipe, which fails if nothing is mapped, and reading from it. `from` has at most a
/// page, as much as any pipe holds. `process_vm_readv` takes three times as long, and a sandbox may refuse
/// it.
fn through_pipe(from: &[libc::iovec], to: &[libc::iovec]) -> usize {
    static PIPE: Mutex<Option<[OwnedFd; 2]>> = Mutex::new(None);
    let mut pipe = PIPE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if pipe.is_none() {
        *pipe = open_pipe();
    }
    let Some([out, into]) = pipe.as_ref() else { return 0 };
    // SAFETY: the kernel only reads the memory, and checks it.
    let written = unsafe { libc::writev(into.as_raw_fd(), from.as_ptr(), from.len() as i32) };
    let Ok(written @ 1..) = usize::try_from(written) else { return 0 };
    // SAFETY: callers pass buffers of their own, as long as they say.
    let read = unsafe { libc::readv(out.as_raw_fd(), to.as_ptr(), to.len() as i32) };
    let read = usize::try_from(read).unwrap_or(0);
    if read != written {
        // What has stayed in the pipe would be taken for the next copy.
        *pipe = None;
    }
    read
}

fn open_pipe() -> Option<[OwnedFd; 2]> {
    let mut ends = [0; 2];
    // SAFETY: the call fills the array.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
        return None;
    }
    // SAFETY: both descriptors were just created, and nobody else has them.
    Some(ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) }))
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
    use std::sync::atomic::Ordering::Relaxed;

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
        let (edge, mut buffer) = (edge(), [0; 16]);
        assert_eq!((copy(edge, &mut buffer), buffer), (16, [7; 16]));
        assert_eq!(copy(edge + PAGE - 16, &mut buffer), 16);
        assert_eq!(copy(edge + PAGE, &mut buffer), 0);
        assert_eq!(copy(usize::MAX - 7, &mut buffer[..8]), 0);
        assert_eq!(copy(16, &mut buffer), 0);
        assert_eq!(copy(edge + PAGE - 8, &mut buffer), 8, "up to the end");
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
