//! The engine.

use tare_engine::Engine;

/// The engine of this process.
pub static ENGINE: Engine = Engine::new();
