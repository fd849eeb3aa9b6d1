//! Failed loads on healthy servers: some are left out or repeated, and the study continues.

use super::{StudyEvent, StudyRun};
use crate::Result;
use crate::error::Error;
use crate::results::record::{Note, Record};

/// Number of blocks and unmeasured slices that may be repeated or left out after failures of the driver. Then
/// the study ends.
const MOST_FAILURES: u32 = 5;
/// Part of the note about each.
const CUT_SHORT: &str = "was cut short, as load failed on setting";

impl StudyRun<'_> {
    /// Handles a failed load on a healthy server: it is left out with a note, up to the limit. Every other
    /// error ends the study.
    pub(super) fn spare(
        &mut self,
        what: &str,
        error: Error,
        tell: &mut dyn FnMut(StudyEvent<'_>),
    ) -> Result<()> {
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
        tell(StudyEvent::Note(&text));
        self.note(text)
    }
}

/// Returns the number of such failures since the study began, including those before it was continued.
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
