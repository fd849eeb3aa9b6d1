//! The folder `performance_schema` as the server sees it: it contains the files of tare's tables, which are
//! on no disk.
//!
//! A server looks for a table's definition in the file `./performance_schema/NAME.frm`, and asks its storage
//! engines only if there is none. This module overrides the libc functions it looks with. Opening exactly
//! these paths for reading yields a memory file with the definition, and a listing of the folder ends with
//! their names. Every other call passes to libc unchanged. So the folder on disk stays as a server made it,
//! however a server ends and whatever copies its data directory.
//!
//! The tables are read through a storage engine that is a plugin. While it is not loaded the files are
//! absent, and the server serves its own tables of these names.
//!
//! A statement that drops or replaces a table does not find its file. The server then refuses as it does for
//! its own table of that name, and logs nothing that a replica would repeat.
//!
//! `open64` and `stat64` may be called from any thread and from signal handlers: nothing on their path
//! allocates, locks or panics.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::io;
use std::mem::{MaybeUninit, transmute};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use libc::{DIR, dirent64, mode_t, stat64 as Status};
use tare_host::process::Next;

use crate::host::command::{self, TableCommand};
use crate::install::federated::SCHEMA;

/// The folder's path as the server spells it, relative to its data directory.
const FOLDER: &[u8] = b"./performance_schema";

/// The metadata lock for changing a definition: `MDL_EXCLUSIVE`, the strongest lock on a table.
const EXCLUSIVE: c_int = 9;

/// The flags of `open` that mean more than reading, or something other than a file.
const NOT_READING: c_int = libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC | libc::O_DIRECTORY | libc::O_PATH;

/// The seals of a complete memory file: nobody can write to it any more.
const SEALS: c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE | libc::F_SEAL_SEAL;

/// Whether the storage engine that reads the tables is loaded; set when it registers its first instrument.
pub(crate) static STORAGE_ENGINE_LOADED: AtomicBool = AtomicBool::new(false);

static FILES: OnceLock<FolderFiles> = OnceLock::new();
/// Set by the first call of `open64`. A server that opens its files by another function never finds one of
/// these.
static IN_FRONT: AtomicBool = AtomicBool::new(false);

/// The number of openings that failed for lack of a descriptor or of memory.
static FAILED: AtomicU64 = AtomicU64::new(0);

static OPEN: Next = Next::new(c"open64");
static STAT: Next = Next::new(c"stat64");
static XSTAT: Next = Next::new(c"__xstat64");
static OPENDIR: Next = Next::new(c"opendir");
static READDIR: Next = Next::new(c"readdir64");
static CLOSEDIR: Next = Next::new(c"closedir");

type OpenFn = unsafe extern "C" fn(*const c_char, c_int, ...) -> c_int;
type StatFunction = unsafe extern "C" fn(*const c_char, *mut Status) -> c_int;
type Xstat = unsafe extern "C" fn(c_int, *const c_char, *mut Status) -> c_int;
type OpenDir = unsafe extern "C" fn(*const c_char) -> *mut DIR;
type ReadDir = unsafe extern "C" fn(*mut DIR) -> *mut dirent64;
type CloseDir = unsafe extern "C" fn(*mut DIR) -> c_int;

/// The reason the server does not find the files.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FolderError {
    /// The system has no memory files, or denies them to this process.
    #[error("the system gives no file in memory: {0}")]
    NoMemoryFile(io::Error),
    /// The server does not call the functions that this module overrides.
    #[error("this server opens its files in a way tare does not know")]
    NotInFront,
    /// A name is too long for a directory entry, or contains a zero byte.
    #[error("{0:?} cannot be a file's name")]
    Name(String),
}

/// The files, sorted by name.
struct FolderFiles(Box<[FolderFile]>);

struct FolderFile {
    name: CString,
    content: Box<[u8]>,
    /// The file's entry in a listing of the folder.
    entry: dirent64,
}

/// Shows these files to the server, by name and content, for the lifetime of the process. Only the first call
/// counts.
///
/// # Errors
///
/// When the server would not find them; nothing has changed then.
pub(crate) fn show(files: Vec<(String, Vec<u8>)>) -> Result<(), FolderError> {
    if !IN_FRONT.load(Ordering::Relaxed) {
        return Err(FolderError::NotInFront);
    }
    let mut files = files.into_iter().map(FolderFile::new).collect::<Result<Vec<_>, _>>()?;
    files.sort_unstable_by(|left, right| left.name.cmp(&right.name));
    if let Some(first) = files.first() {
        let fd = first.open(libc::O_CLOEXEC).map_err(FolderError::NoMemoryFile)?;
        // SAFETY: a descriptor just made, owned by nobody else.
        unsafe { libc::close(fd) };
    }
    let _shown_before = FILES.set(FolderFiles(files.into_boxed_slice()));
    Ok(())
}

/// Returns whether this is the path of a file that exists only here.
pub(crate) fn holds(path: &[u8]) -> bool {
    path.strip_prefix(FOLDER).and_then(|rest| find(rest.strip_prefix(b"/")?)).is_some()
}

/// Returns how often the system had no descriptor or memory for a file. The server then used its own, empty
/// table and keeps it until the table leaves its cache.
pub(crate) fn failed() -> u64 {
    FAILED.load(Ordering::Relaxed)
}

/// Returns the files that the server finds now.
fn shown() -> Option<&'static [FolderFile]> {
    let files = FILES.get().filter(|_| STORAGE_ENGINE_LOADED.load(Ordering::Relaxed))?;
    Some(&files.0)
}

fn find(name: &[u8]) -> Option<&'static FolderFile> {
    let files = shown()?;
    let at = files.binary_search_by(|file| file.name.to_bytes().cmp(name)).ok()?;
    files.get(at)
}

/// Returns the file at this path. A path outside the folder is recognized by its first bytes.
///
/// # Safety
///
/// `path` is null or a NUL-terminated string.
unsafe fn file_at(path: *const c_char) -> Option<&'static FolderFile> {
    // SAFETY: this function's contract.
    let rest = unsafe { behind_folder(path) }?;
    find(rest.to_bytes().strip_prefix(b"/")?).filter(|file| !file.is_being_taken_away())
}

/// Returns what follows the folder's name in a path; `None` if the path does not begin with it.
///
/// # Safety
///
/// `path` is null or a NUL-terminated string.
unsafe fn behind_folder<'p>(path: *const c_char) -> Option<&'p CStr> {
    if path.is_null() {
        return None;
    }
    for (at, expected) in FOLDER.iter().enumerate() {
        // SAFETY: no earlier byte was the string's last: each equals a byte of the folder's name.
        if unsafe { path.add(at).read() }.cast_unsigned() != *expected {
            return None;
        }
    }
    // SAFETY: the bytes before are not zero, so the string continues here.
    Some(unsafe { CStr::from_ptr(path.add(FOLDER.len())) })
}

impl FolderFile {
    fn new((name, content): (String, Vec<u8>)) -> Result<FolderFile, FolderError> {
        // SAFETY: dirent64 is plain integers; all-zero is a valid value.
        let mut entry: dirent64 = unsafe { MaybeUninit::zeroed().assume_init() };
        let fits = name.len() < entry.d_name.len();
        let Some(named) = CString::new(name.as_str()).ok().filter(|_| fits) else {
            return Err(FolderError::Name(name));
        };
        // Any number except 0, which means "no file".
        entry.d_ino = 1;
        entry.d_reclen = size_of::<dirent64>() as u16;
        entry.d_type = libc::DT_REG;
        for (to, from) in entry.d_name.iter_mut().zip(name.bytes()) {
            *to = from.cast_signed();
        }
        Ok(FolderFile { name: named, content: content.into_boxed_slice(), entry })
    }

    /// Returns a descriptor of a new memory file with this content, positioned at its start.
    fn open(&self, flags: c_int) -> io::Result<c_int> {
        let fd = memory_file(flags & libc::O_CLOEXEC != 0)?;
        let mut written = 0;
        while written < self.content.len() {
            let rest = &self.content[written..];
            // SAFETY: `rest` is readable; the descriptor belongs to this function. Its position stays at the
            // start.
            let more = unsafe { libc::pwrite64(fd, rest.as_ptr().cast(), rest.len(), written as i64) };
            match usize::try_from(more) {
                Ok(more) if more > 0 => written += more,
                _ => {
                    let error = io::Error::last_os_error();
                    // SAFETY: the descriptor belongs to this function.
                    unsafe { libc::close(fd) };
                    return Err(error);
                }
            }
        }
        // SAFETY: integers only. If sealing fails, only this process can write to the file.
        unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, SEALS) };
        Ok(fd)
    }

    /// Returns whether the statement on this thread would drop or replace the table. A statement that creates
    /// a table may read others.
    fn is_being_taken_away(&self) -> bool {
        match command::current() {
            Some(TableCommand::Drop) => true,
            Some(TableCommand::Create) => REPLACED.get() == std::ptr::from_ref(self),
            Some(
                TableCommand::Truncate | TableCommand::Lock | TableCommand::Change | TableCommand::Handler,
            )
            | None => false,
        }
    }

    /// Returns the `stat` result of the file.
    fn status(&self) -> Status {
        // SAFETY: stat64 is plain integers; all-zero is a valid value.
        let mut status: Status = unsafe { MaybeUninit::zeroed().assume_init() };
        status.st_mode = libc::S_IFREG | 0o440;
        status.st_nlink = 1;
        status.st_size = self.content.len() as i64;
        status.st_blksize = 4096;
        status
    }
}

fn memory_file(close_on_exec: bool) -> io::Result<c_int> {
    let flags = libc::MFD_ALLOW_SEALING | if close_on_exec { libc::MFD_CLOEXEC } else { 0 };
    // Newer kernels may require the first flag; older ones do not know it.
    for flags in [flags | libc::MFD_NOEXEC_SEAL, flags] {
        // SAFETY: a NUL-terminated name; a new descriptor or -1.
        let fd = unsafe { libc::memfd_create(c"tare".as_ptr(), flags as c_uint) };
        if fd >= 0 {
            return Ok(fd);
        }
        if errno() != libc::EINVAL {
            break;
        }
    }
    Err(io::Error::last_os_error())
}

thread_local! {
    /// The file of the table that this thread's statement re-creates; null if there is none. It may belong to
    /// a statement that has ended, until another one locks a table of the folder or the thread leaves the
    /// session.
    static REPLACED: Cell<*const FolderFile> = const { Cell::new(null()) };
}

/// The number of threads whose [`REPLACED`] is not null.
static REPLACING: AtomicUsize = AtomicUsize::new(0);

/// Returns whether [`locks`] must be told of a metadata lock of this type.
pub(crate) fn looks_at(lock_type: c_int) -> bool {
    lock_type == EXCLUSIVE || REPLACING.load(Ordering::Relaxed) != 0
}

/// Notes that the calling thread's statement locks a table's definition.
pub(crate) fn locks(schema: &[u8], table: &[u8], lock_type: c_int) {
    if schema != SCHEMA.as_bytes() {
        return;
    }
    let is_of_table = |file: &&FolderFile| file.name.to_bytes().strip_suffix(b".frm") == Some(table);
    let file = if lock_type == EXCLUSIVE && command::current() == Some(TableCommand::Create) {
        shown().and_then(|files| files.iter().find(is_of_table))
    } else {
        None
    };
    replaces(file);
}

/// Forgets the session's statement, because the calling thread now serves another session or none.
pub(crate) fn leave_session() {
    if REPLACING.load(Ordering::Relaxed) != 0 {
        replaces(None);
    }
}

/// Notes the file of the table that the calling thread's statement re-creates.
#[cold]
#[inline(never)]
fn replaces(file: Option<&FolderFile>) {
    let before = REPLACED.replace(file.map_or(null(), std::ptr::from_ref));
    match (before.is_null(), file) {
        (true, Some(_)) => REPLACING.fetch_add(1, Ordering::Relaxed),
        (false, None) => REPLACING.fetch_sub(1, Ordering::Relaxed),
        _ => 0,
    };
}

/// A listing of the folder that continues with the files.
#[derive(Clone, Copy)]
struct Listing {
    /// The directory; null if there is none.
    dir: *mut DIR,
    next: usize,
}

impl Listing {
    const NONE: Listing = Listing { dir: null_mut(), next: 0 };
}

thread_local! {
    /// The listing that this thread has open. A server reads a folder on one thread, from beginning to end.
    static LISTING: Cell<Listing> = const { Cell::new(Listing::NONE) };
}

/// Looks up the functions that this module overrides.
pub(crate) fn resolve() {
    [&OPEN, &STAT, &XSTAT, &OPENDIR, &READDIR, &CLOSEDIR].into_iter().for_each(Next::resolve);
}

/// Overrides libc's `open64`.
///
/// # Safety
///
/// The contract of `open(2)`. `mode` is undefined if the flags need none, as in libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    if !IN_FRONT.load(Ordering::Relaxed) {
        IN_FRONT.store(true, Ordering::Relaxed);
    }
    if flags & NOT_READING == 0
        // SAFETY: the caller upholds open(2)'s contract.
        && let Some(file) = unsafe { file_at(path) }
    {
        return file.open(flags).unwrap_or_else(|error| {
            FAILED.fetch_add(1, Ordering::Relaxed);
            refused(error)
        });
    }
    let Some(next) = OPEN.address() else {
        // SAFETY: the caller upholds open(2)'s contract; this is what libc does.
        return unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path, flags, mode) as c_int };
    };
    // SAFETY: the next object's function of this name has this type.
    let next = unsafe { transmute::<*mut c_void, OpenFn>(next.as_ptr()) };
    // SAFETY: passed on unchanged.
    unsafe { next(path, flags, mode) }
}

/// Overrides libc's `stat64`, with which a server checks for a view's file.
///
/// # Safety
///
/// The contract of `stat(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stat64(path: *const c_char, status: *mut Status) -> c_int {
    // SAFETY: the caller upholds stat(2)'s contract.
    if let Some(file) = unsafe { file_at(path) } {
        // SAFETY: as above.
        unsafe { status.write(file.status()) };
        return 0;
    }
    let Some(next) = STAT.address() else {
        // SAFETY: as above.
        return unsafe { system_stat(path, status) };
    };
    // SAFETY: the next object's function of this name has this type.
    let next = unsafe { transmute::<*mut c_void, StatFunction>(next.as_ptr()) };
    // SAFETY: passed on unchanged.
    unsafe { next(path, status) }
}

/// Overrides the name of `stat64` in programs built for a glibc before 2.33.
///
/// # Safety
///
/// The contract of `stat(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __xstat64(version: c_int, path: *const c_char, status: *mut Status) -> c_int {
    // SAFETY: the caller upholds stat(2)'s contract.
    if let Some(file) = unsafe { file_at(path) } {
        // SAFETY: as above.
        unsafe { status.write(file.status()) };
        return 0;
    }
    let Some(next) = XSTAT.address() else {
        // A newer glibc hides the function from lookups. There is one version of the structure, the kernel's.
        // SAFETY: as above.
        return unsafe { system_stat(path, status) };
    };
    // SAFETY: the next object's function of this name has this type.
    let next = unsafe { transmute::<*mut c_void, Xstat>(next.as_ptr()) };
    // SAFETY: passed on unchanged.
    unsafe { next(version, path, status) }
}

/// Makes the system call behind `stat64`.
///
/// # Safety
///
/// The contract of `stat(2)`.
unsafe fn system_stat(path: *const c_char, status: *mut Status) -> c_int {
    // SAFETY: this function's contract; on x86-64 the kernel's structure is libc's.
    unsafe { libc::syscall(libc::SYS_newfstatat, libc::AT_FDCWD, path, status, 0) as c_int }
}

/// Overrides libc's `opendir`.
///
/// # Safety
///
/// The contract of `opendir(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn opendir(path: *const c_char) -> *mut DIR {
    let Some(next) = OPENDIR.address() else {
        refused(io::Error::from_raw_os_error(libc::ENOSYS));
        return null_mut();
    };
    // SAFETY: the next object's function of this name has this type.
    let next = unsafe { transmute::<*mut c_void, OpenDir>(next.as_ptr()) };
    // SAFETY: passed on unchanged.
    let dir = unsafe { next(path) };
    // SAFETY: the caller upholds opendir(3)'s contract.
    let rest = unsafe { behind_folder(path) };
    if !dir.is_null() && rest.is_some_and(|rest| matches!(rest.to_bytes(), b"" | b"/")) {
        LISTING.set(Listing { dir, next: 0 });
    } else if LISTING.get().dir == dir {
        LISTING.set(Listing::NONE);
    }
    dir
}

/// Overrides libc's `readdir64`: the folder's own entries come first, then the files.
///
/// # Safety
///
/// The contract of `readdir(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readdir64(dir: *mut DIR) -> *mut dirent64 {
    let Some(next) = READDIR.address() else {
        refused(io::Error::from_raw_os_error(libc::ENOSYS));
        return null_mut();
    };
    // SAFETY: the next object's function of this name has this type.
    let next = unsafe { transmute::<*mut c_void, ReadDir>(next.as_ptr()) };
    let listing = LISTING.get();
    if listing.dir != dir || dir.is_null() {
        // SAFETY: passed on unchanged.
        return unsafe { next(dir) };
    }
    // Only errno distinguishes the end from an error.
    let before = errno();
    set_errno(0);
    // SAFETY: passed on unchanged.
    let entry = unsafe { next(dir) };
    if !entry.is_null() || errno() != 0 {
        if errno() == 0 {
            set_errno(before);
        }
        return entry;
    }
    set_errno(before);
    let Some(file) = shown().and_then(|files| files.get(listing.next)) else { return null_mut() };
    LISTING.set(Listing { next: listing.next + 1, ..listing });
    // Callers only read entries; they are never freed.
    (&raw const file.entry).cast_mut()
}

/// Overrides libc's `closedir`, because another folder may get the same address.
///
/// # Safety
///
/// The contract of `closedir(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn closedir(dir: *mut DIR) -> c_int {
    if LISTING.get().dir == dir {
        LISTING.set(Listing::NONE);
    }
    let Some(next) = CLOSEDIR.address() else {
        return refused(io::Error::from_raw_os_error(libc::ENOSYS));
    };
    // SAFETY: the next object's function of this name has this type.
    let next = unsafe { transmute::<*mut c_void, CloseDir>(next.as_ptr()) };
    // SAFETY: passed on unchanged.
    unsafe { next(dir) }
}

/// Sets errno and returns -1.
fn refused(error: io::Error) -> c_int {
    set_errno(error.raw_os_error().unwrap_or(libc::EIO));
    -1
}

fn errno() -> c_int {
    // SAFETY: errno's location is valid for the calling thread.
    unsafe { *libc::__errno_location() }
}

fn set_errno(value: c_int) {
    // SAFETY: errno's location is valid for the calling thread.
    unsafe { *libc::__errno_location() = value };
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// Sets the calling thread's state as if its statement were about to replace a table.
    pub(crate) fn replace_a_table() {
        replaces(Some(&FolderFile::new(("threads.frm".to_owned(), Vec::new())).unwrap()));
    }

    /// Returns the results of both functions, with the size or errno.
    fn looked_at(path: &CStr) -> [(c_int, i64); 2] {
        let stat = |status: *mut Status| {
            // SAFETY: a NUL-terminated path, and a structure to fill.
            unsafe { stat64(path.as_ptr(), status) }
        };
        let xstat = |status: *mut Status| {
            // SAFETY: as above.
            unsafe { __xstat64(1, path.as_ptr(), status) }
        };
        let functions: [&dyn Fn(*mut Status) -> c_int; 2] = [&stat, &xstat];
        functions.map(|function| {
            // SAFETY: Status is plain integers; all-zero is a valid value.
            let mut status: Status = unsafe { MaybeUninit::zeroed().assume_init() };
            let code = function(&raw mut status);
            (code, if code == 0 { status.st_size } else { errno().into() })
        })
    }

    /// Returns the folder's entries as this process sees them.
    fn listed() -> Vec<String> {
        let names = fs::read_dir("./performance_schema").unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn flags_of(path: &CStr, flags: c_int) -> Result<c_int, c_int> {
        // SAFETY: a NUL-terminated path.
        let fd = unsafe { open64(path.as_ptr(), flags, 0o600) };
        if fd < 0 {
            return Err(errno());
        }
        // SAFETY: integers only; the descriptor belongs to this function.
        Ok(unsafe { (libc::fcntl(fd, libc::F_GETFD), libc::close(fd)).0 })
    }

    /// Tests everything at once, because the files and the directory are global to the process. The standard
    /// library opens and lists through the functions that this module defines.
    #[test]
    fn files_are_in_the_folder_once_they_are_shown_and_can_be_read_there() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("performance_schema")).unwrap();
        fs::write(place.path().join("performance_schema/db.opt"), "of the server").unwrap();
        fs::write(place.path().join("performance_schema/own.frm"), "of the user").unwrap();
        std::env::set_current_dir(place.path()).unwrap();
        let threads = Path::new("./performance_schema/threads.frm");
        let files = ["threads", "users"].map(|name| (format!("{name}.frm"), name.repeat(2000).into_bytes()));
        show(files.to_vec()).unwrap();
        assert_eq!(fs::read(threads).unwrap_err().raw_os_error(), Some(libc::ENOENT), "without the plugin");
        assert_eq!(listed(), ["db.opt", "own.frm"]);

        STORAGE_ENGINE_LOADED.store(true, Ordering::Relaxed);
        for _ in 0..2 {
            assert_eq!(fs::read(threads).unwrap(), "threads".repeat(2000).as_bytes());
            assert_eq!(listed(), ["db.opt", "own.frm", "threads.frm", "users.frm"]);
        }
        assert_eq!(looked_at(c"./performance_schema/threads.frm"), [(0, 14000); 2]);
        assert_eq!(looked_at(c"./performance_schema/own.frm"), [(0, 11); 2]);
        assert_eq!(looked_at(c"./performance_schema/none"), [(-1, libc::ENOENT.into()); 2]);

        let path = c"./performance_schema/threads.frm";
        assert_eq!(flags_of(path, libc::O_RDONLY), Ok(0));
        assert_eq!(flags_of(path, libc::O_RDONLY | libc::O_CLOEXEC), Ok(libc::FD_CLOEXEC));
        for flags in [libc::O_RDWR, libc::O_WRONLY | libc::O_TRUNC, libc::O_RDONLY | libc::O_DIRECTORY] {
            assert_eq!(flags_of(path, flags), Err(libc::ENOENT), "{flags:o}");
        }
        for other in [c"performance_schema/threads.frm", c"./performance_schemathreads.frm", c"./", c""] {
            assert!(flags_of(other, libc::O_RDWR).is_err(), "{other:?}");
        }
        assert!(holds(b"./performance_schema/users.frm") && !holds(b"./performance_schema/own.frm"));
        assert!(fs::metadata(threads).is_err(), "nothing is on the disk");
        // Nobody who has the file open can change it.
        let mut open = fs::File::open(threads).unwrap();
        assert!(io::Write::write(&mut open, b"x").is_err());
    }
}
