//! Loads that failed on servers that are well: some are left out, or done again, and the study goes on.

use super::{Event, Run};
use crate::Result;
use crate::error::Error;
use crate::record::{Note, Record};

/// So many blocks and unmeasured slices are done again, or left out, because the driver failed. Then the study ends.
const MOST_FAILURES: u32 = 5;
/// What a note says of each.
const CUT_SHORT: &str = "was cut short, as load failed on setting";

impl Run<'_> {
    /// What becomes of something whose load failed while its server is well: it is left out, so often at most, and a note says
    /// so. Every other error ends the study.
    pub(super) fn spare(&mut self, what: &str, error: Error, tell: &mut dyn FnMut(Event<'_>)) -> Result<()> {
        let Error::Load { setting, source } = &error else { return Err(error) };
        if self.failures == MOST_FAILURES {
            return Err(error);
        }
        self.failures += 1;
        let said = source.to_string();
        let why = said.lines().next().unwrap_or_default();
        let fatal =
            said.lines().find(|l| l.contains("FATAL")).map_or(String::new(), |l| format!(": {}", l.trim()));
        let text = format!("{what} {CUT_SHORT} `{setting}`: {why}{fatal}");
        tell(Event::Note(&text));
        self.note(text)
    }
}

/// How many were spared since the study began, before it went on, too.
pub(super) fn spared(records: &[Record]) -> usize {
    records
        .iter()
        .filter(|r| matches!(r, Record::Note(Note { text, .. }) if text.contains(CUT_SHORT)))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_spared_is_counted_by_its_notes() {
        let note = |text: String| Record::Note(Note { at: 1.0, text });
        let spoken = format!("block 3 of points, 2 connections {CUT_SHORT} `off`: it counts no transactions");
        let records = [note(spoken.clone()), note("cut off and resumed here".into()), note(spoken)];
        assert_eq!(spared(&records), 2);
    }
}
