//! How many rows a table has, as SHOW TABLE STATUS says it.
//!
//! The host's optimizer asks before each query, and counting is a scan. So a count serves for as long as it took to make,
//! times [`RARELY`].

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tare_engine::Engine;
use tare_tables::{Query, Table};

/// Counting one table takes one part in so many of the time, at most.
const RARELY: u32 = 1000;

/// The tables' rows as they were last counted, by name.
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
    /// The rows of a table, now or not long ago.
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
