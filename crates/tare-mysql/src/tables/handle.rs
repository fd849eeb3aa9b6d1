//! The adapter: an open table, its rows, and the callbacks through which the server reads them.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::{c_int, c_uint, c_void};
use std::hash::{Hash, Hasher};
use std::ops::ControlFlow;

use tare_host::process::{ENGINE, guard};
use tare_tables::{ColumnSet, Query, Table, Value};

use super::field;
use super::key::{self, Part};
use crate::abi::{Callbacks, Position, answer};

/// The most rows of index look-ups that are kept. A position before the kept ones leads to no row.
const MOST_KEPT: usize = 1 << 16;

/// An open table.
pub(crate) struct Handle {
    table: &'static dyn Table,
    indexes: &'static [&'static [&'static str]],
    /// The columns of the index in use.
    index: &'static [&'static str],
    rows: Vec<Vec<Value<'static>>>,
    /// The position of the first of `rows`.
    first: u64,
    /// The position of the current row, which the server copies and writes back: possibly into another handle
    /// of the table, because it closes one after a scan and opens one to fetch rows by position.
    position: Box<Position>,
    /// The position of the first row of the scan or look-up.
    start: u64,
    /// The position of its next row.
    next: u64,
    /// The rows of a handle that is asked for positions of another one, by what identifies them.
    found: HashMap<u64, usize>,
}

impl Handle {
    pub(super) fn new(table: &'static dyn Table, indexes: &'static [&'static [&'static str]]) -> Handle {
        Handle {
            table,
            indexes,
            index: &[],
            rows: Vec::new(),
            first: 0,
            position: Box::default(),
            start: 0,
            next: 0,
            found: HashMap::new(),
        }
    }

    /// Returns what identifies a row: the columns of the first index. The rows without one are events.
    fn identity(&self, row: &[Value<'static>]) -> u64 {
        let key = self.indexes.first().copied().unwrap_or(&["THREAD_ID", "EVENT_ID"]);
        let mut hasher = std::hash::DefaultHasher::new();
        for (column, value) in self.table.columns().iter().zip(row) {
            if key.contains(&column.name) {
                match value {
                    Value::Unsigned(number) => number.hash(&mut hasher),
                    Value::Text(text) => text.hash(&mut hasher),
                    _ => u8::MAX.hash(&mut hasher),
                }
            }
        }
        hasher.finish()
    }

    /// Returns where the position of the current row is.
    pub(super) fn position(&mut self) -> *mut Position {
        &raw mut *self.position
    }

    /// Reads rows behind those that are kept, and makes the first of them the next one.
    fn read(&mut self, parts: &[Part]) {
        self.start = self.first + self.rows.len() as u64;
        self.next = self.start;
        let conditions: Vec<_> = parts.iter().filter_map(Part::condition).collect();
        let query = Query { columns: ColumnSet::ALL, conditions: &conditions };
        let columns = self.table.columns().len();
        let rows = &mut self.rows;
        self.table.scan(&ENGINE, &query, &mut |row| {
            if parts.iter().all(|part| part.fits(|column| row.value(column))) {
                rows.push((0..columns).map(|column| row.value(column).into_owned()).collect());
            }
            ControlFlow::Continue(())
        });
    }

    /// Forgets all rows. Their positions are not used again.
    fn forget(&mut self) {
        self.first += self.rows.len() as u64;
        self.rows.clear();
        self.found.clear();
        self.start = self.first;
        self.next = self.start;
    }

    /// Makes the next row the current one.
    fn advance(&mut self) -> c_int {
        let number = self.next;
        self.position.number = number;
        let Some(row) = self.row(number) else { return answer::NO_MORE_ROWS };
        self.position.identity = self.identity(row);
        self.next += 1;
        answer::ROW
    }

    fn row(&self, number: u64) -> Option<&Vec<Value<'static>>> {
        self.rows.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    fn current(&self) -> Option<&Vec<Value<'static>>> {
        self.row(self.position.number)
    }

    /// Makes the row at the position that the server has written back the current one.
    fn go_to_position(&mut self) -> c_int {
        let Position { number, identity } = *self.position;
        if self.row(number).is_some_and(|row| self.identity(row) == identity) {
            return answer::ROW;
        }
        if self.found.is_empty() {
            // Another handle has read the row.
            self.read(&[]);
            let found = self.rows.iter().enumerate().map(|(at, row)| (self.identity(row), at)).collect();
            self.found = found;
        }
        match self.found.get(&identity) {
            Some(at) => {
                self.position.number = self.first + *at as u64;
                answer::ROW
            }
            None => answer::NO_SUCH_ROW,
        }
    }

    fn begin_scan(&mut self, is_scan: bool) {
        // Rows that are fetched by position are those that were read before.
        if is_scan {
            self.forget();
            self.read(&[]);
        }
    }

    fn begin_lookups(&mut self, index: c_uint) -> c_int {
        self.forget();
        self.index = self.indexes.get(index as usize).copied().unwrap_or_default();
        if self.index.is_empty() { answer::NO_MORE_ROWS } else { answer::ROW }
    }

    fn look_up(&mut self, parts: &[Part]) {
        if self.rows.len() > MOST_KEPT {
            self.forget();
        }
        self.read(parts);
    }
}

/// Returns the callbacks of a table that `open` opens.
pub(super) fn callbacks(open: unsafe extern "C" fn(*mut *mut Position) -> *mut Handle) -> Callbacks<Handle> {
    Callbacks {
        rnd_next: Some(next),
        rnd_init: Some(rnd_init),
        rnd_pos: Some(rnd_pos),
        index_init: Some(index_init),
        index_read: Some(index_read),
        index_next: Some(next),
        read_column_value: Some(read_column_value),
        reset_position: Some(reset_position),
        writes: [std::ptr::null(); 5],
        open_table: Some(open),
        close_table: Some(close_table),
    }
}

/// Runs a callback's body on its handle.
///
/// # Safety
///
/// The server's: a handle that `open` has returned, which one thread uses until it is closed.
unsafe fn on<R>(handle: *mut Handle, fallback: R, body: impl FnOnce(&mut Handle) -> R) -> R {
    // SAFETY: the caller's promise.
    match unsafe { handle.as_mut() } {
        Some(handle) => guard(None, || Some(body(handle))).unwrap_or(fallback),
        None => fallback,
    }
}

unsafe extern "C" fn rnd_init(handle: *mut Handle, is_scan: bool) -> c_int {
    // SAFETY: the server's promise.
    unsafe {
        on(handle, answer::OUT_OF_MEMORY, |handle| {
            handle.begin_scan(is_scan);
            answer::ROW
        })
    }
}

unsafe extern "C" fn next(handle: *mut Handle) -> c_int {
    // SAFETY: the server's promise.
    unsafe { on(handle, answer::NO_MORE_ROWS, Handle::advance) }
}

unsafe extern "C" fn rnd_pos(handle: *mut Handle) -> c_int {
    // SAFETY: the server's promise.
    unsafe { on(handle, answer::NO_SUCH_ROW, Handle::go_to_position) }
}

unsafe extern "C" fn index_init(
    handle: *mut Handle,
    index: c_uint,
    _is_sorted: bool,
    lookup: *mut *mut Handle,
) -> c_int {
    // SAFETY: the server passes a place for what it passes back to `index_read`.
    unsafe { lookup.write(handle) };
    // SAFETY: the server's promise.
    unsafe { on(handle, answer::OUT_OF_MEMORY, |handle| handle.begin_lookups(index)) }
}

unsafe extern "C" fn index_read(
    handle: *mut Handle,
    reader: *mut c_void,
    _index: c_uint,
    find_flag: c_int,
) -> c_int {
    // SAFETY: the server's promise: the reader is for a key of the index of `index_init`.
    unsafe {
        on(handle, answer::OUT_OF_MEMORY, |handle| {
            let parts = key::read(reader, handle.table.columns(), handle.index, find_flag);
            handle.look_up(&parts);
            answer::ROW
        })
    }
}

unsafe extern "C" fn read_column_value(handle: *mut Handle, field: *mut c_void, column: c_uint) -> c_int {
    // SAFETY: the server's promise: a field of the column of this number.
    unsafe {
        on(handle, answer::NO_SUCH_ROW, |handle| {
            let column = column as usize;
            let declared = handle.table.columns().get(column);
            let (Some(declared), Some(value)) = (declared, handle.current().and_then(|row| row.get(column)))
            else {
                return answer::NO_SUCH_ROW;
            };
            field::set(field, declared, value);
            answer::ROW
        })
    }
}

unsafe extern "C" fn reset_position(handle: *mut Handle) {
    // SAFETY: the server's promise.
    unsafe {
        on(handle, (), |handle| {
            // The server calls this after `index_read`, too: rows of earlier look-ups stay behind.
            handle.next = handle.start;
            handle.position.number = handle.start;
        });
    }
}

unsafe extern "C" fn close_table(handle: *mut Handle) {
    if !handle.is_null() {
        // SAFETY: the server closes each handle once, and does not use it again.
        let handle = unsafe { Box::from_raw(handle) };
        guard((), || drop(handle));
    }
}
