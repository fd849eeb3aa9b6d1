//! HOT PATH: the guard of every shim. If tare panics, the server still gets a result and continues.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use tare_engine::snapshot::Consumer;

use crate::process::log::{Severity, line};
use crate::process::{ENGINE, panic};

static FAILURE: OnceLock<String> = OnceLock::new();

/// Returns the text of the panic that disabled instrumentation; `None` if there was none.
pub(crate) fn failure() -> Option<&'static str> {
    FAILURE.get().map(String::as_str)
}

/// Runs a shim's body. A panic disables instrumentation and yields the fallback.
#[inline(always)]
pub(super) fn guard<R, F: FnOnce() -> R>(fallback: R, body: F) -> R {
    #[cfg(debug_assertions)]
    let body = || {
        panic::fault(std::any::type_name::<F>());
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

#[cold]
#[inline(never)]
fn switch_off(payload: Box<dyn std::any::Any + Send>) {
    let _ = panic::caught(|| {
        let text = panic::text(payload.as_ref());
        if FAILURE.set(text.clone()).is_ok() {
            let text = format!("instrumentation is off, the server goes on: internal error: {text}");
            line(Severity::Error, &text);
        }
        ENGINE.set_consumer(Consumer::GlobalInstrumentation, false);
    });
    // Dropping a payload may panic, too.
    std::mem::forget(payload);
}
