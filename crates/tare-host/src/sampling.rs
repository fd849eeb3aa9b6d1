//! Statement sampling: the options `sample` and `slow-after`, also at run time, and the thread that keeps the
//! sample rate.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tare_tables::TableError;

use crate::options::{Options, SAMPLES, show_duration, show_sample_rate};
use crate::process::{ENGINE, spawn_guarded};

/// The rows of `tare_status` that can be set.
pub(crate) const SAMPLE: &str = "sample";
pub(crate) const SLOW_AFTER: &str = "slow_after";

/// The interval at which the sampling weight is adapted to the load.
const EVERY: Duration = Duration::from_millis(250);

/// Set when the process exits.
static ENDS: AtomicBool = AtomicBool::new(false);

/// Starts sampling as the options say, and the thread that keeps the rate.
pub fn begin(options: &Options) -> std::io::Result<()> {
    ENGINE.set_sampling(options.sample_rate(), options.slow_after);
    spawn_guarded("tare-sampling", "the weight of sampled statements stays as it is", || {
        while !ENDS.load(Ordering::Relaxed) {
            ENGINE.adjust_sampling();
            std::thread::sleep(EVERY);
        }
    })
}

/// Stops the adjustment; the weight stays as it is.
pub fn end() {
    ENDS.store(true, Ordering::Relaxed);
}

/// Returns the rows of `tare_status` about sampling.
pub fn status_rows() -> Vec<(&'static str, String)> {
    let state = ENGINE.sampling();
    vec![
        (SAMPLE, show_sample_rate(state.rate)),
        ("sample_now", show_sample_rate(state.rate_now)),
        ("sample_weight", state.weight.to_string()),
        ("sample_weight_max", state.largest_weight.to_string()),
        (SLOW_AFTER, show_duration(state.slow_after)),
        ("recorded_from", show_duration(state.recorded_from)),
    ]
}

/// Sets one of the sampling rows; `None` if there is no row of this name.
pub fn set(name: &str, value: &str) -> Option<Result<(), TableError>> {
    let state = ENGINE.sampling();
    let mut options = Options::defaults();
    let option = match name {
        SAMPLE => "sample",
        SLOW_AFTER => "slow-after",
        _ => return None,
    };
    let allowed = if name == SAMPLE { SAMPLES } else { "a duration such as 10ms, from 1ms to 3600s" };
    if options.set(option, value.trim()).is_err() {
        let (name, value) = (name.to_owned(), value.to_owned());
        return Some(Err(TableError::WrongValue { name, value, allowed }));
    }
    match name {
        SAMPLE => ENGINE.set_sampling(options.sample_rate(), state.slow_after),
        _ => ENGINE.set_sampling(state.rate, options.slow_after),
    }
    Some(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_rows_are_set_as_the_options_are() {
        let row = |name| status_rows().into_iter().find(|(row, _)| *row == name).map(|(_, value)| value);
        assert!(set("other", "1").is_none());
        assert!(set(SAMPLE, "1/16").is_some_and(|set| set.is_ok()));
        assert!(set(SLOW_AFTER, "20ms").is_some_and(|set| set.is_ok()));
        assert_eq!(row(SAMPLE).as_deref(), Some("1/16"));
        assert_eq!(row(SLOW_AFTER).as_deref(), Some("20ms"));
        for (name, wrong) in [(SAMPLE, "some"), (SAMPLE, ""), (SLOW_AFTER, "-1ms"), (SLOW_AFTER, "0ms")] {
            assert!(set(name, wrong).is_some_and(|set| set.is_err()), "{name} {wrong}");
        }
        assert_eq!(row(SAMPLE).as_deref(), Some("1/16"), "what is wrong changes nothing");
    }
}
