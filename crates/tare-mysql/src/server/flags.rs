//! The built-in's flags ENABLED and TIMED of its instruments, as they were last seen. The engine's are not
//! compared with them: the governor may have switched an instrument off that the server has on.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use tare_engine::MAX_INSTRUMENTS;
use tare_engine::snapshot::ClassId;

use crate::abi::Class;

const SEEN: u8 = 1;
const ENABLED: u8 = 2;
const TIMED: u8 = 4;

/// By the engine's number; 0: not seen yet.
static LAST: [AtomicU8; MAX_INSTRUMENTS] = [const { AtomicU8::new(0) }; MAX_INSTRUMENTS];

/// The flags of an instrument that are news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// It is seen for the first time: the server's options say so.
    First { enabled: bool, timed: bool },
    /// A person has changed them.
    Changed { enabled: bool, timed: bool },
}

/// Returns the built-in's flags of an instrument of the engine's; `None`: they are as they were.
#[inline(always)]
pub(super) fn news(id: ClassId, class: &Class) -> Option<News> {
    note(id, [&class.enabled, &class.timed].map(|flag| flag.load(Relaxed) != 0))
}

/// Notes the flags ENABLED and TIMED of an instrument.
#[inline(always)]
fn note(id: ClassId, [enabled, timed]: [bool; 2]) -> Option<News> {
    let last = LAST.get(id as usize).filter(|_| id != 0)?;
    let now = SEEN | if enabled { ENABLED } else { 0 } | if timed { TIMED } else { 0 };
    if last.load(Relaxed) == now {
        return None;
    }
    match last.swap(now, Relaxed) {
        0 => Some(News::First { enabled, timed }),
        before if before == now => None,
        _ => Some(News::Changed { enabled, timed }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_as_it_was_is_no_news() {
        let (id, on, off) = (1, [true, true], [false, true]);
        assert_eq!(note(id, on), Some(News::First { enabled: true, timed: true }));
        assert_eq!(note(id, on), None);
        assert_eq!(note(id, off), Some(News::Changed { enabled: false, timed: true }));
        assert_eq!(note(id, off), None);
        assert_eq!(note(id + 1, off), Some(News::First { enabled: false, timed: true }));
        assert_eq!(note(0, on), None, "it is not known");
    }
}
