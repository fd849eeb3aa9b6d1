//! Panics: caught where they would reach the server, and injected where a test asks for one.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Returns the text of a panic.
pub fn text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or(payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("panic without a message").to_owned()
}

/// Runs `body`. Returns the text of its panic if it panics; the panic hook has then written it to standard
/// error, too, with the place.
pub fn caught<R>(body: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(body)).map_err(|payload| {
        let text = catch_unwind(AssertUnwindSafe(|| text(payload.as_ref()))).unwrap_or_default();
        // Dropping a payload may panic, too.
        std::mem::forget(payload);
        text
    })
}

/// Panics if the environment variable `TARE_FAULT` names a part of this place: a list with commas of threads
/// (`tare-ash`) and shims (`entry::table::open_table`). Compiled only into builds with debug assertions, for
/// the tests of what a panic does (`tests/faults.rs`).
#[cfg(debug_assertions)]
#[cold]
#[inline(never)]
pub fn fault(place: &str) {
    static FAULT: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    let fault = FAULT.get_or_init(|| std::env::var("TARE_FAULT").ok().filter(|fault| !fault.is_empty()));
    let is_named = |fault: &str| fault.split(',').any(|part| place.contains(part));
    if fault.as_deref().is_some_and(is_named) {
        panic!("fault injected at {place}");
    }
}
