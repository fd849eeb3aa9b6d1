//! The thread that keeps the rate of sampled statements.

use std::sync::Once;
use std::time::Duration;

use tare_host::process::{ENGINE, spawn_guarded};

/// The interval at which the weight of sampled statements is adapted to the load.
const EVERY: Duration = Duration::from_millis(250);

static BEGUN: Once = Once::new();

/// Starts the thread, once. Called with the first statement: a server that becomes a daemon has done so by
/// then, and would have lost its threads.
pub(crate) fn begin() {
    BEGUN.call_once(|| {
        let loss = "the weight of sampled statements stays as it is";
        let _stays_as_it_is = spawn_guarded("tare-sampling", loss, || {
            loop {
                ENGINE.adjust_sampling();
                std::thread::sleep(EVERY);
            }
        });
    });
}
