//! What the governor asks of its server.

use tare_engine::Engine;

use super::ServerWork;

/// A server whose overhead is kept below a budget: what the engine does not know of it.
pub trait Governed: Sync {
    /// Returns what its clients and sessions did.
    fn work(&self, engine: &Engine) -> ServerWork {
        ServerWork::of_sessions(engine)
    }

    /// Returns whether it has created locks without their instruments, because the budget is too small.
    fn lacks_locks(&self) -> bool {
        false
    }
}
