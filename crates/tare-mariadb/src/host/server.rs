//! The server as the engine's readers see it: names for numbers, texts for tokens.
#![allow(unsafe_code)]

use std::sync::OnceLock;

use tare_engine::Host;
use tare_engine::snapshot::DigestText;

use super::digest::Tokens;
use super::{charset, digest, names};

/// The running server.
pub(crate) struct ServerHost;

/// The server's digest functions, found at the first question: the server is up then.
fn digests() -> Option<&'static digest::Functions> {
    static FUNCTIONS: OnceLock<Option<digest::Functions>> = OnceLock::new();
    FUNCTIONS.get_or_init(digest::Functions::resolve).as_ref()
}

/// Its functions for character sets, likewise.
fn charsets() -> Option<&'static charset::Functions> {
    static FUNCTIONS: OnceLock<Option<charset::Functions>> = OnceLock::new();
    FUNCTIONS.get_or_init(charset::Functions::resolve).as_ref()
}

impl Host for ServerHost {
    fn digest_text(
        &self,
        tokens: &[u8],
        whole: Option<[u8; 16]>,
        charset: u32,
        cut: bool,
    ) -> Option<DigestText> {
        let mut digest = digests()?.digest(Tokens { bytes: tokens, charset, full: cut });
        if let Some(whole) = whole {
            digest.digest = digest::hex(&whole);
        }
        Some(digest)
    }

    fn command_name(&self, command: u32) -> Option<&'static str> {
        Some(names::command(command.cast_signed()))
    }

    fn connection_type_name(&self, connection_type: u8) -> Option<&'static str> {
        names::connection_type(i32::from(connection_type))
    }

    fn isolation_name(&self, isolation: u8) -> Option<&'static str> {
        names::isolation_level(i32::from(isolation))
    }

    fn xa_state_name(&self, state: u8) -> Option<&'static str> {
        Some(names::xa_state(i32::from(state)))
    }

    fn lock_namespace_name(&self, namespace: u8) -> Option<&'static str> {
        names::mdl_namespace(namespace)
    }

    fn lock_type_name(&self, namespace: u8, lock_type: u8) -> Option<&'static str> {
        names::mdl_type(namespace, i32::from(lock_type))
    }

    fn lock_duration_name(&self, duration: u8) -> Option<&'static str> {
        names::mdl_duration(i32::from(duration))
    }

    fn lock_status_name(&self, status: u8) -> Option<&'static str> {
        names::mdl_status(i32::from(status))
    }

    fn characters(&self, text: &[u8], charset: u32, most: usize) -> usize {
        charsets().map_or(text.len().min(most), |charsets| charsets.characters(text, charset, most))
    }

    fn to_utf8(&self, text: &[u8], charset: u32, most: usize) -> String {
        let converted = charsets().and_then(|charsets| charsets.to_utf8(text, charset, most));
        converted.unwrap_or_else(|| tare_engine::shown(text).chars().take(most).collect())
    }

    fn source_file(&self, address: usize) -> Option<String> {
        let mut name = [0; SOURCE_FILE_MAX];
        let len = read_own_memory(address, &mut name);
        let name = name[..len].split(|byte| *byte == 0).next().unwrap_or_default();
        let printable = name.iter().all(|byte| byte.is_ascii_graphic());
        (!name.is_empty() && printable).then(|| String::from_utf8_lossy(name).into_owned())
    }
}

/// The longest source file's name that is read; the base name, which is shown, is at its end.
const SOURCE_FILE_MAX: usize = 256;

/// Copies memory of this process that may have been unmapped: the name of a source file lies in a plugin, and
/// plugins are unloaded. The kernel copies and says no where there is nothing; a load would be a fault.
/// Returns how many bytes were copied: fewer at the end of a mapping, none where nothing is mapped.
pub(super) fn read_own_memory(address: usize, to: &mut [u8]) -> usize {
    if address == 0 {
        return 0;
    }
    // Up to the page's end first: what follows may not be mapped.
    let page = 4096 - address % 4096;
    let first = page.min(to.len());
    let copied = copy(address, &mut to[..first]);
    if copied == first && first < to.len() {
        copied + copy(address + first, &mut to[first..])
    } else {
        copied
    }
}

fn copy(address: usize, to: &mut [u8]) -> usize {
    let local = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    let remote = libc::iovec { iov_base: address as *mut _, iov_len: to.len() };
    // SAFETY: the local vector is a buffer of ours; the remote one is only read, by the kernel, which checks it.
    let copied = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    usize::try_from(copied).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_where_there_are_some_and_nothing_faults() {
        let name = c"/build/sql/sql_class.cc";
        let read = |address: usize| ServerHost.source_file(address);
        assert_eq!(read(name.as_ptr().addr()).as_deref(), Some("/build/sql/sql_class.cc"));
        assert_eq!(read(0), None);
        assert_eq!(read(16), None);
        assert_eq!(read(usize::MAX - 4095), None);
        // SAFETY: a mapping of this test's own, taken away again before it is read.
        let gone = unsafe {
            let at = libc::mmap(
                std::ptr::null_mut(),
                4096,
                libc::PROT_READ,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            libc::munmap(at, 4096);
            at.addr()
        };
        assert_eq!(read(gone), None);
    }
}
