//! The symbols of the program and of other loaded objects, as the loader tells them.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};

/// Returns the address of a symbol that any loaded object exports.
pub fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a plain symbol lookup with a NUL-terminated name.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if found.is_null() { None } else { Some(found) }
}

/// A symbol of a loaded object.
pub struct Symbol<'a> {
    /// The name; empty if none is known.
    pub name: &'a CStr,
    /// The address of its first byte.
    pub start: usize,
    /// The symbol's size in bytes.
    pub size: usize,
    /// The object's path.
    pub object: &'a CStr,
}

impl<'a> Symbol<'a> {
    /// Returns the symbol that covers an address in an object that stays loaded during `'a`; its name is
    /// empty if none does.
    // The loader looks the address up; nobody reads what is there.
    #[allow(clippy::not_unsafe_ptr_arg_deref)]
    pub fn at(address: *const c_void) -> Option<Symbol<'a>> {
        unsafe extern "C" {
            /// Extends `dladdr` (glibc): with flag 1 it also returns the symbol's entry.
            fn dladdr1(
                address: *const c_void,
                info: *mut libc::Dl_info,
                entry: *mut *const libc::Elf64_Sym,
                flags: c_int,
            ) -> c_int;
        }
        // SAFETY: plain pointers, for which null is valid.
        let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
        let mut entry: *const libc::Elf64_Sym = std::ptr::null();
        // SAFETY: the function takes any address and fills both places.
        if unsafe { dladdr1(address, &mut info, &mut entry, 1) } == 0 {
            return None;
        }
        // SAFETY: texts of the loader, which live as long as the object is loaded; `entry` is null or one of
        // the loader's.
        let (text, size) = unsafe {
            let text = |text: *const c_char| if text.is_null() { c"" } else { CStr::from_ptr(text) };
            (
                [text(info.dli_sname), text(info.dli_fname)],
                entry.as_ref().map_or(0, |entry| entry.st_size as usize),
            )
        };
        Some(Symbol { name: text[0], start: info.dli_saddr.addr(), size, object: text[1] })
    }

    /// Returns the address of another symbol of the same object; 0 if there is none.
    pub fn neighbour(&self, name: &CStr) -> usize {
        // SAFETY: a path, and flags that load nothing; the object stays loaded, this only adds a reference to
        // it.
        let object = unsafe { libc::dlopen(self.object.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if object.is_null() {
            return 0;
        }
        // SAFETY: a loaded object and a NUL-terminated name; then the reference is released.
        unsafe {
            let found = libc::dlsym(object, name.as_ptr());
            libc::dlclose(object);
            found.addr()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_is_found_by_its_address() {
        let write = libc::write as *const c_void;
        let symbol = Symbol::at(write).expect("libc is loaded");
        assert!(symbol.size > 0 && symbol.start == write.addr(), "{:?}", symbol.name);
        assert!(symbol.object.to_bytes().starts_with(b"/"));
        let read = libc::read as *const () as usize;
        assert_eq!((symbol.neighbour(c"read"), symbol.neighbour(c"no such function")), (read, 0));
        assert!(Symbol::at(std::ptr::null()).is_none());
    }
}
