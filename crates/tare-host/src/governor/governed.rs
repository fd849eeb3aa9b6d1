//! What the governor asks of its server.

use tare_engine::Engine;

use super::ServerWork;

/// A server whose overhead is kept below a budget: what the engine does not know of it.
pub trait Governed: Sync {
    /// Tells the engine what is new in the server. Called before each sample.
    fn refresh(&self) {}

    /// Returns what its clients and sessions did.
    fn work(&self, engine: &Engine) -> ServerWork {
        ServerWork::of_sessions(engine)
    }

    /// Returns whether the engine is told of every metadata lock; otherwise only of waits for one.
    fn reports_metadata_locks(&self) -> bool {
        true
    }

    /// Returns whether it has created locks without their instruments, because the budget is too small.
    fn lacks_locks(&self) -> bool {
        false
    }

    /// Adapts to new levels of instruments, which the governor has moved, or a person has set in a table of
    /// tare's.
    fn levels_changed(&self) {}
}
