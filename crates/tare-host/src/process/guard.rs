//! HOT PATH: the guard of every shim. If tare panics, the server still gets a result and continues.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::failure::switch_off;

/// Runs a shim's body. A panic disables instrumentation and yields the fallback.
#[inline(always)]
pub fn guard<R, F: FnOnce() -> R>(fallback: R, body: F) -> R {
    #[cfg(debug_assertions)]
    let body = || {
        super::panic::fault(std::any::type_name::<F>());
        body()
    };
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(answer) => answer,
        Err(payload) => {
            switch_off(payload);
            fallback
        }
    }
}
