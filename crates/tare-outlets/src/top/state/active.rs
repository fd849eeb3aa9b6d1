//! The part of the state about active sessions: the chosen stretch, and files.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Shown, State};
use crate::sessions::{GROUPS, History, Stretch, Sums, average};
use crate::top::keys::Action;
use crate::top::look::{Content, Head, Look, View};
use crate::top::strip::{LARGE, Strip};
use crate::top::view::stretch;

impl State {
    /// Creates a state that shows the active sessions of a file. `server` is its version, and `place` its
    /// address.
    #[must_use]
    pub fn of_file(file: &str, server: String, place: String, history: History) -> Self {
        let mut state = State::new(View::Statements, Duration::from_secs(1), "");
        let head = Head { server, place, ..Head::default() };
        let look = Look {
            ask: state.ask.clone(),
            moment: Duration::ZERO,
            head,
            content: Content::Counted(vec![]),
            history: None,
            now: None,
            texts: vec![],
            untimed: vec![],
            notes: vec![],
        };
        state.shown = Some(Shown { look, between: None, buckets: vec![] });
        state.strip = Strip::of_file(history);
        state.strip.last();
        state.file = Some(file.to_owned());
        state
    }

    /// Shows all of the file, not a stretch of it.
    pub fn show_whole(&mut self) {
        self.whole = self.file.is_some();
    }

    /// Returns the shown stretch of the active sessions, if that is what is shown.
    pub(super) fn sums(&self) -> Option<(Stretch, Sums)> {
        if self.whole { self.strip.all() } else { self.strip.sums().filter(|_| self.shows_stretch()) }
    }

    /// Returns the name of the file that is shown instead of a server.
    pub(in crate::top) fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// Returns whether the page is that of a stretch of the active sessions.
    pub(in crate::top) fn shows_stretch(&self) -> bool {
        self.strip.is_chosen() && self.ask.about.is_none()
    }

    /// Returns the average number of active sessions by group, over the last minute or the shown stretch;
    /// none where they are not known.
    pub(in crate::top) fn active_sessions(&self) -> BTreeMap<&'static str, f64> {
        let known = (!self.strip.is_empty()).then(|| self.sums());
        match known {
            None => BTreeMap::new(),
            Some(None) => self.strip.averages().into_iter().collect(),
            Some(Some((stretch, sums))) => {
                let of = |us| average(us, stretch.length());
                GROUPS.iter().zip(sums.times).map(|((name, _), us)| (*name, of(us))).collect()
            }
        }
    }

    /// Returns what the chosen stretch is, and its average number of sessions; `None` if none is chosen.
    pub(in crate::top) fn stretch(&self) -> Option<String> {
        let (stretch, sums) = self.sums()?;
        Some(stretch::heading(stretch, &sums))
    }

    /// Applies the action of a key while a stretch is chosen. Returns false if it has nothing to do with it.
    pub(super) fn apply_to_stretch(&mut self, action: Action) -> bool {
        if self.help {
            return false;
        }
        match action {
            Action::Along(by) => self.strip.step(by),
            Action::Page(by) => self.strip.step(by * LARGE),
            Action::End(false) => self.strip.first(),
            Action::End(true) | Action::Back => self.strip.leave(),
            Action::Interval(by) => self.strip.zoom(-by),
            Action::Sort(by) => self.strip.widen(by),
            Action::Move(_) | Action::Enter | Action::Filter | Action::Background => {}
            _ => return false,
        }
        if self.file.is_some() && !self.strip.is_chosen() {
            self.strip.last();
        }
        true
    }
}
