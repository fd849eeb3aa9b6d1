//! The end of what runs beside a test.

use std::sync::atomic::{AtomicBool, Ordering};

/// Dropped, it sets the flag that ends a load, also where an assertion fails: else everybody waits for it for ever.
#[derive(Debug)]
pub struct Ending<'a>(pub &'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
