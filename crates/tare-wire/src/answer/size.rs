//! Row counts for SHOW TABLE STATUS.
//!
//! The host's optimizer asks for them before each query, and counting is a scan. So a count is reused for
//! [`RARELY`] times as long as it took.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tare_engine::Engine;
use tare_tables::{Query, Table};

/// The factor of a count's lifetime: counting one table takes at most one part in this many of the time.
const RARELY: u32 = 1000;

/// The last row counts of the tables, by name.
#[derive(Default)]
pub(crate) struct Sizes(Mutex<HashMap<&'static str, Size>>);

#[derive(Clone, Copy)]
struct Size {
    rows: u64,
    counted: Instant,
    took: Duration,
}

impl Size {
    fn of(table: &dyn Table, engine: &Engine) -> Size {
        let begin = Instant::now();
        let mut rows = 0;
        table.scan(engine, &Query::COUNT, &mut |_| {
            rows += 1;
            ControlFlow::Continue(())
        });
        Size { rows, counted: Instant::now(), took: begin.elapsed() }
    }

    fn serves(&self) -> bool {
        self.counted.elapsed() < self.took.saturating_mul(RARELY)
    }
}

impl Sizes {
    /// Returns the number of rows of a table, counted now or recently.
    pub(super) fn rows(&self, table: &dyn Table, engine: &Engine) -> u64 {
        let sizes = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = sizes().get(table.name()).copied().filter(Size::serves);
        let size = known.unwrap_or_else(|| {
            let size = Size::of(table, engine);
            sizes().insert(table.name(), size);
            size
        });
        size.rows
    }
}
