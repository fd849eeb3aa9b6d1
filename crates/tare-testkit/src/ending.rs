//! The end of a test's background load.

use std::sync::atomic::{AtomicBool, Ordering};

/// Sets a flag that ends a load when dropped, also if an assertion fails; otherwise the test would wait
/// forever.
#[derive(Debug)]
pub struct EndingFlag<'a>(pub &'a AtomicBool);

impl Drop for EndingFlag<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
