//! HOT PATH: the object of a wait, and the place in the host's source.

/// The position of the line in a source. Addresses of a program have no more bits.
const LINE: u32 = 48;

/// A place in the host's source: the address of a static file name and a line, in one word.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Source(pub(crate) u64);

impl Source {
    /// Creates a place. `file` is a string constant of the host, or null; a line is less than 65,536.
    #[inline(always)]
    pub fn new(file: *const std::ffi::c_char, line: u32) -> Source {
        Source(file.addr() as u64 | u64::from(line) << LINE)
    }

    /// Returns the address of the file's name, and the line.
    pub(crate) const fn parts(self) -> (usize, u64) {
        ((self.0 & ((1 << LINE) - 1)) as usize, self.0 >> LINE)
    }
}

/// The object of a wait.
#[derive(Clone, Copy, Debug)]
pub struct WaitObject {
    /// OBJECT_INSTANCE_BEGIN.
    pub address: usize,
    /// The instance that knows the name: see `instance::Name`; 0: none.
    pub name: u32,
    /// The index of the table; 255: none.
    pub index: u8,
    /// The operation, see [`crate::operation`].
    pub operation: u8,
}

impl WaitObject {
    /// Creates an object without name and index.
    #[inline(always)]
    pub const fn new(address: usize, operation: u8) -> WaitObject {
        WaitObject { address, name: 0, index: 255, operation }
    }
}
