//! HOT PATH: the guard of every shim. If tare panics, the server still gets a result and continues.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use tare_engine::snapshot::Consumer;

use crate::process::ENGINE;

static FAILURE: OnceLock<String> = OnceLock::new();

/// Returns the text of the panic that disabled instrumentation; `None` if there was none.
pub(crate) fn failure() -> Option<&'static str> {
    FAILURE.get().map(String::as_str)
}

/// Runs a shim's body. A panic disables instrumentation and yields the fallback.
#[inline(always)]
pub(super) fn guard<R>(fallback: R, body: impl FnOnce() -> R) -> R {
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
    let _ = catch_unwind(AssertUnwindSafe(|| {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or(payload.downcast_ref::<String>().map(String::as_str));
        let text = text.unwrap_or("panic without a message");
        if FAILURE.set(text.to_owned()).is_ok() {
            let line = format!("instrumentation is off, the server goes on: internal error: {text}");
            crate::process::log::line(crate::process::log::Severity::Error, &line);
        }
        ENGINE.set_consumer(Consumer::GlobalInstrumentation, false);
    }));
    // Dropping a payload may panic, too.
    std::mem::forget(payload);
}
