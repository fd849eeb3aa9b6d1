//! Waiting for what another process or thread does: asked again and again, with a limit.

use std::time::{Duration, Instant};

/// The first pause between two questions; each is twice as long as the one before.
const FIRST: Duration = Duration::from_millis(1);
/// The longest pause.
const LONGEST: Duration = Duration::from_millis(20);

/// An answer that may come later: `true`, or `Some` value.
pub trait Answer {
    /// The value that is known once the answer has come.
    type Value;

    /// Returns the value, if the answer has come.
    fn value(self) -> Option<Self::Value>;
}

impl Answer for bool {
    type Value = ();

    fn value(self) -> Option<()> {
        self.then_some(())
    }
}

impl<T> Answer for Option<T> {
    type Value = T;

    fn value(self) -> Option<T> {
        self
    }
}

/// Asks every few milliseconds until the answer comes; `None` after `limit`. It asks once more at the limit,
/// so a machine that stood still in between makes nothing late.
pub fn poll<A: Answer>(limit: Duration, ask: impl FnMut() -> A) -> Option<A::Value> {
    asked(limit, std::iter::successors(Some(FIRST), |step| Some((*step * 2).min(LONGEST))), ask)
}

/// Asks until the answer comes, with the same pause after each question: for questions that are a load, or
/// whose answer is renewed only now and then. `None` after `limit`.
pub fn poll_every<A: Answer>(pause: Duration, limit: Duration, ask: impl FnMut() -> A) -> Option<A::Value> {
    asked(limit, std::iter::repeat(pause), ask)
}

fn asked<A: Answer>(
    limit: Duration,
    pauses: impl Iterator<Item = Duration>,
    mut ask: impl FnMut() -> A,
) -> Option<A::Value> {
    let end = Instant::now() + limit;
    for pause in pauses {
        // The time is taken before the question: what is true at the limit counts.
        let is_last = Instant::now() >= end;
        if let Some(value) = ask().value() {
            return Some(value);
        }
        if is_last {
            break;
        }
        std::thread::sleep(pause.min(end.saturating_duration_since(Instant::now())));
    }
    None
}

/// Returns the answer once it comes; for tests.
///
/// # Panics
///
/// After `limit`, with the name of what was waited for.
#[track_caller]
pub fn eventually<A: Answer>(what: &str, limit: Duration, ask: impl FnMut() -> A) -> A::Value {
    match poll(limit, ask) {
        Some(value) => value,
        None => panic!("not within {limit:?}: {what}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn what_comes_in_time_is_returned() {
        let mut asked = 0;
        let third = eventually("the third time", LONG, || {
            asked += 1;
            (asked == 3).then_some(asked)
        });
        assert_eq!(third, 3);
        eventually("the truth", Duration::ZERO, || true);
    }

    #[test]
    fn what_does_not_come_is_asked_for_at_least_once_and_named() {
        let mut asked = 0;
        let never = poll(Duration::ZERO, || {
            asked += 1;
            false
        });
        assert_eq!((never, asked), (None, 1));
        let said = std::panic::catch_unwind(|| eventually("a miracle", Duration::ZERO, || None::<u8>));
        let said = said.expect_err("it gives up");
        assert_eq!(said.downcast_ref::<String>().expect("a text"), "not within 0ns: a miracle");
    }
}
