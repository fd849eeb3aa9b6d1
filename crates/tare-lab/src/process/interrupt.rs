//! A flag that asks for an early end. Every wait checks it, so that everything that was started is also
//! stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::{Error, Result};

/// The interval at which a wait looks at the flag.
const STEP: Duration = Duration::from_millis(20);

/// A flag shared with a signal handler or another thread.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Returns the flag, to be registered with a signal handler.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// Returns whether the flag is set.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns [`Error::Interrupted`] once the flag is set.
    pub fn check(&self) -> Result<()> {
        if self.is_set() { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Calls `ready` every few milliseconds until it returns a value; `None` after `limit`.
    pub fn wait_for<T>(
        &self,
        limit: Duration,
        mut ready: impl FnMut() -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let end = Instant::now() + limit;
        loop {
            self.check()?;
            if let Some(value) = ready()? {
                return Ok(Some(value));
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            std::thread::sleep(left.min(STEP));
        }
    }

    /// Sleeps that long; returns [`Error::Interrupted`] when the flag is set.
    pub fn sleep(&self, time: Duration) -> Result<()> {
        self.wait_for(time, || Ok(None::<()>)).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_when_interrupted() {
        let interrupt = Interrupt::default();
        let flag = interrupt.flag();
        let mut calls = 0;
        let waited = interrupt.wait_for(Duration::from_secs(3600), || {
            calls += 1;
            flag.store(calls == 3, Ordering::Relaxed);
            Ok(None::<()>)
        });
        assert!(matches!(waited, Err(Error::Interrupted)));
        assert_eq!(calls, 3);
    }

    #[test]
    fn a_wait_gives_what_it_waited_for() {
        let waited = Interrupt::default().wait_for(Duration::ZERO, || Ok(Some(7)));
        assert!(matches!(waited, Ok(Some(7))));
    }
}
