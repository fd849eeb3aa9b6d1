//! Whether the built-in's memory is there. It is never unmapped while the server runs, but freed at its end,
//! when threads of tare's may still read it.

use std::sync::{PoisonError, RwLock};

static IS_GONE: RwLock<bool> = RwLock::new(false);

/// Calls `read`, which may read the built-in's memory and neither calls this function nor waits for anybody.
/// `None`: that memory is gone.
pub(crate) fn while_there<R>(read: impl FnOnce() -> R) -> Option<R> {
    let is_gone = IS_GONE.read().unwrap_or_else(PoisonError::into_inner);
    (!*is_gone).then(read)
}

/// Notes that the built-in's memory is about to be freed, and waits until nobody reads it.
pub(crate) fn end() {
    *IS_GONE.write().unwrap_or_else(PoisonError::into_inner) = true;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_reads_after_the_end() {
        assert_eq!(while_there(|| 7), Some(7));
        end();
        assert_eq!(while_there(|| 7), None);
    }
}
