//! The program that tare was loaded into, seen through its exported symbols.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};

use tare_host::process::symbol;

/// `PSI_bootstrap` of the server's `psi_base.h`, through which a server asks for its provider.
#[repr(C)]
pub(crate) struct PsiBootstrap {
    /// Returns the provider's function table for a version of the interface, or null for none.
    pub(crate) get_interface: extern "C" fn(c_int) -> *const c_void,
}

/// The symbols that every server that can ask for a provider exports, and no other program.
pub const EXPORTS: [&CStr; 3] = [c"PSI_hook", c"PSI_server", c"server_version"];
/// The symbol of the names of the option file groups that the server reads.
pub const GROUPS: &CStr = c"load_default_groups";

type SetServerVersion = unsafe extern "C" fn(*mut c_char, usize);

/// The symbols of a server. Only a program that exports all of [`EXPORTS`] is one.
pub(crate) struct ServerSymbols {
    hook: *mut *const PsiBootstrap,
}

/// The longest version string that the server writes (its `SERVER_VERSION_LENGTH`).
const VERSION_LENGTH: usize = 60;
/// The most groups of option files that are read of a server.
const MOST_GROUPS: usize = 64;

impl ServerSymbols {
    /// Returns the server that this process is; `None` if it is another program.
    pub(crate) fn find() -> Option<ServerSymbols> {
        let [hook, _, _] = EXPORTS.map(symbol);
        EXPORTS.iter().all(|name| symbol(name).is_some()).then_some(ServerSymbols { hook: hook?.cast() })
    }

    /// Returns the version compiled into the server. The exported variable `server_version` is still empty
    /// when the provider is chosen, and `--version=` can change it; so the function that fills it is called.
    pub(crate) fn version(&self) -> Option<String> {
        let function = symbol(c"_Z18set_server_versionPcm")?;
        // SAFETY: the mangled name says that it is a function taking a char pointer and an unsigned long.
        let function = unsafe { std::mem::transmute::<*mut c_void, SetServerVersion>(function) };
        let mut text = [0u8; VERSION_LENGTH + 1];
        // SAFETY: the server writes at most the given number of bytes; one more zero ends the text. The
        // function only reads constants and the server's (still unset) options.
        unsafe { function(text.as_mut_ptr().cast(), VERSION_LENGTH) };
        let text = CStr::from_bytes_until_nul(&text).ok()?.to_str().ok()?;
        if text.is_empty() { None } else { Some(text.to_owned()) }
    }

    /// Returns the groups of option files that the server reads, from its own list.
    pub(crate) fn option_groups(&self) -> Vec<String> {
        let Some(first) = symbol(GROUPS) else { return Vec::new() };
        let first = first.cast::<*const c_char>().cast_const();
        let mut groups = Vec::new();
        for position in 0..MOST_GROUPS {
            // SAFETY: the server's array ends with a null pointer; the loop ends there.
            let name = unsafe { *first.add(position) };
            if name.is_null() {
                break;
            }
            // SAFETY: the array holds NUL-terminated string constants of the server.
            let name = unsafe { CStr::from_ptr(name) };
            groups.push(name.to_string_lossy().into_owned());
        }
        groups
    }

    /// Makes the server ask `bootstrap` for its provider. If the built-in is on, it overwrites the hook and
    /// takes precedence.
    ///
    /// # Safety
    ///
    /// The server has not started its `main` yet.
    pub(crate) unsafe fn set_hook(&self, bootstrap: &'static PsiBootstrap) {
        // SAFETY: `hook` is the server's variable of this type, and nobody reads it before `main`.
        unsafe { self.hook.write(bootstrap) };
    }
}
