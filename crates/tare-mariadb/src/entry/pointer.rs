//! HOT PATH: the only place where the server's pointers become references.
//!
//! Each macro names the promise it relies on (SAFETY.md, "What is assumed of the server"). They are macros so
//! that a shim's body stays free of `unsafe` and of types it does not need.

/// Returns the locker state: memory on the server's stack that belongs to the provider between start and end.
macro_rules! state {
    ($pointer:expr, $type:ty) => {{
        // SAFETY: the server passes its own state or null; nobody else uses it between start and end, and
        // all its fields are integers and pointers, for which any bits are valid.
        unsafe { $pointer.cast::<$type>().as_mut() }
    }};
}

/// Returns an instance that the engine gave the server before; `None` for null.
macro_rules! instance {
    ($handle:ty, $pointer:expr) => {{
        // SAFETY: the server passes back what an init or create slot returned to it, or null; slots are
        // never unmapped.
        unsafe { <$handle>::from_address($pointer.cast()) }
    }};
}

/// Returns an instance that a locker state keeps.
macro_rules! known {
    ($handle:ty, $pointer:expr) => {{
        // SAFETY: see `instance!`; the state was filled when the instance existed, so it is not null.
        unsafe { <$handle>::from_address($pointer.cast()).unwrap_unchecked() }
    }};
}

/// Returns the bytes of a call's argument; empty for null or a negative length.
macro_rules! bytes {
    ($pointer:expr, $len:expr) => {{
        let (pointer, len) = ($pointer, usize::try_from($len).unwrap_or(0));
        if pointer.is_null() {
            &[][..]
        } else {
            // SAFETY: the server passes a text of that length that stays valid during the call.
            unsafe { std::slice::from_raw_parts(pointer.cast::<u8>(), len) }
        }
    }};
}

/// Returns a NUL-terminated text of a call's argument; empty for null.
macro_rules! text {
    ($pointer:expr) => {{
        let pointer = $pointer;
        if pointer.is_null() {
            &[][..]
        } else {
            // SAFETY: the server passes a NUL-terminated text that stays valid during the call.
            unsafe { std::ffi::CStr::from_ptr(pointer) }.to_bytes()
        }
    }};
}

/// Returns the value behind a pointer of a call's argument; `None` for null.
macro_rules! value {
    ($pointer:expr) => {{
        // SAFETY: the server passes null or a pointer to an initialised value of this plain type.
        unsafe { $pointer.as_ref() }.copied()
    }};
}

/// Writes a result through a pointer of a call's argument, unless it is null.
macro_rules! write {
    ($pointer:expr, $value:expr) => {{
        let value = $value;
        // SAFETY: the server passes null or a place of its own for the result.
        if let Some(place) = unsafe { $pointer.as_mut() } {
            *place = value;
        }
    }};
}

/// Stores a wait in a locker state.
macro_rules! keep {
    ($state:expr, $wait:expr) => {{
        let (flags, places, thread, start) = $wait.pack();
        $state.flags = flags;
        // Numbers, not an address: the server does not look at them.
        $state.wait = std::ptr::without_provenance_mut(places as usize);
        $state.thread = thread.address().cast();
        $state.timer_start = start;
    }};
}

/// Returns the wait that a locker state keeps, if it keeps one.
macro_rules! kept {
    ($state:expr) => {
        $crate::entry::pointer::instance!(tare_engine::ThreadHandle, $state.thread)
            .map(|thread| $crate::entry::pointer::unpacked!($state, thread))
    };
}

/// Returns the wait of a locker state that was returned as a locker, and so keeps one.
macro_rules! begun {
    ($state:expr) => {
        $crate::entry::pointer::unpacked!(
            $state,
            $crate::entry::pointer::known!(tare_engine::ThreadHandle, $state.thread)
        )
    };
}

macro_rules! unpacked {
    ($state:expr, $thread:expr) => {{
        let (thread, places, start) = ($thread, $state.wait.addr() as u64, $state.timer_start);
        // SAFETY: the server passes back a state that `keep!` filled, once, and ends what it began.
        unsafe { tare_engine::Wait::unpack($state.flags, places, thread, start) }
    }};
}

/// Returns the statement that a locker state keeps.
macro_rules! statement {
    ($state:expr) => {
        // SAFETY: the shims store the result of one `pack`, or null, in a state whose locker they return; the
        // server ends it once, and until then passes it back from the thread that runs the statement.
        unsafe { tare_engine::Statement::unpack($state.place, $state.thread) }
    };
}

/// Returns the transaction of a locker state that was returned as a locker, and so keeps one.
macro_rules! begun_transaction {
    ($state:expr) => {{
        let thread = $crate::entry::pointer::known!(tare_engine::ThreadHandle, $state.thread);
        // SAFETY: see the statement.
        unsafe { tare_engine::Transaction::unpack($state.flags, thread, $state.timer_start) }
    }};
}

pub(super) use {
    begun, begun_transaction, bytes, instance, keep, kept, known, state, statement, text, unpacked, value,
    write,
};
