//! The engine.

use tare_engine::Engine;

/// The engine of this process.
pub(crate) static ENGINE: Engine = Engine::new();
