//! What a panic in a shim leaves: instrumentation that is off, and the reason.

use std::any::Any;
use std::sync::OnceLock;

use tare_engine::snapshot::Consumer;

use super::log::{Severity, line};
use super::{ENGINE, panic};

static FAILURE: OnceLock<String> = OnceLock::new();

/// Returns the text of the panic that disabled instrumentation; `None` if there was none.
pub fn failure() -> Option<&'static str> {
    FAILURE.get().map(String::as_str)
}

/// Disables instrumentation after a panic. The first one is a line of the error log.
#[cold]
#[inline(never)]
pub fn switch_off(payload: Box<dyn Any + Send>) {
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
