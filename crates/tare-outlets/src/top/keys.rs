//! Mapping of keys to actions, as in top and htop.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::look::View;
use super::strip::LARGE;

/// The action of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// End.
    Quit,
    /// Show the keys, or hide them.
    Help,
    /// Stop sampling, or continue.
    Pause,
    /// Show a view.
    View(View),
    /// Show the next view, or the previous one.
    Turn(isize),
    /// Move the choice down, or up.
    Move(isize),
    /// Move along the strip of active sessions by so many columns, to the left if negative.
    Along(isize),
    /// Move the choice by pages.
    Page(isize),
    /// Choose the first row, or the last.
    End(bool),
    /// Open the details of the chosen row.
    Enter,
    /// Leave the filter, the help, or the details.
    Back,
    /// Sort by the next column of figures, or the previous one.
    Sort(isize),
    /// Lengthen or shorten the interval.
    Interval(isize),
    /// Start to type a filter.
    Filter,
    /// Add a character to the filter.
    Type(char),
    /// Delete the last character of the filter.
    Erase,
    /// Show or hide background threads and conditions.
    Background,
}

/// The keys and their actions, for the help.
pub const HELP: [(&str, &str); 18] = [
    ("1 … 7, Tab", "statements, waits, locks, tables, files, memory, threads"),
    ("← →", "active sessions of the past; Shift, PgUp, PgDn: faster; Home"),
    ("then s S + -", "a longer time, a shorter; zoom in, out; End, Esc: now"),
    ("↑ ↓ PgUp PgDn", "choose a row (also j, k; Home and End, g and G)"),
    ("Enter, Esc", "look into it (a digest, a table's indexes, a thread); back"),
    ("s, S", "order: the next column of figures, the one before (also > <)"),
    ("/", "only rows with a text; Enter keeps it, Esc drops it"),
    ("p, space", "pause, and go on"),
    ("+ -", "sample less often, more often"),
    ("b", "threads of the background, and waits of those that sleep, too"),
    ("?, h; q, Ctrl-C", "this help; end"),
    ("TIME%", "share in the time of all rows in the last interval"),
    ("P95, MAX", "since the server counts, not of the last interval"),
    ("EXA/SENT", "rows examined for each row sent"),
    ("active", "sessions that have something to do now, also if they hang"),
    ("overhead", "tare's share of the server's CPU time; – below 10 QPS"),
    ("AVG of waits", "– of locks: uncontended ones are counted, timed only at exact"),
    ("KILL n", "n is the connection's number, as in the first column of locks"),
];

/// Returns the action of a key; while a filter is typed, characters belong to it.
#[must_use]
pub fn action(key: KeyEvent, typing: bool) -> Option<Action> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return matches!(key.code, KeyCode::Char('c')).then_some(Action::Quit);
    }
    if typing {
        return match key.code {
            KeyCode::Char(letter) => Some(Action::Type(letter)),
            KeyCode::Backspace => Some(Action::Erase),
            KeyCode::Enter => Some(Action::Enter),
            KeyCode::Esc => Some(Action::Back),
            _ => None,
        };
    }
    let is_fast = key.modifiers.contains(KeyModifiers::SHIFT);
    Some(match key.code {
        KeyCode::Char('q') => Action::Quit,
        KeyCode::Char('?' | 'h') | KeyCode::F(1) => Action::Help,
        KeyCode::Char('p' | ' ') => Action::Pause,
        KeyCode::Char(digit @ '1'..='7') => Action::View(View::ALL[digit as usize - '1' as usize]),
        KeyCode::Tab => Action::Turn(1),
        KeyCode::BackTab => Action::Turn(-1),
        KeyCode::Right => Action::Along(if is_fast { LARGE } else { 1 }),
        KeyCode::Left => Action::Along(if is_fast { -LARGE } else { -1 }),
        KeyCode::Up | KeyCode::Char('k') => Action::Move(-1),
        KeyCode::Down | KeyCode::Char('j') => Action::Move(1),
        KeyCode::PageUp => Action::Page(-1),
        KeyCode::PageDown => Action::Page(1),
        KeyCode::Home | KeyCode::Char('g') => Action::End(false),
        KeyCode::End | KeyCode::Char('G') => Action::End(true),
        KeyCode::Enter => Action::Enter,
        KeyCode::Esc | KeyCode::Backspace => Action::Back,
        KeyCode::Char('s' | '>') => Action::Sort(1),
        KeyCode::Char('S' | '<') => Action::Sort(-1),
        KeyCode::Char('+' | '=') => Action::Interval(1),
        KeyCode::Char('-') => Action::Interval(-1),
        KeyCode::Char('/') => Action::Filter,
        KeyCode::Char('b') => Action::Background,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(code: KeyCode, typing: bool) -> Option<Action> {
        action(KeyEvent::new(code, KeyModifiers::NONE), typing)
    }

    #[test]
    fn keys_are_those_of_top_and_letters_of_a_filter() {
        assert_eq!(press(KeyCode::Char('7'), false), Some(Action::View(View::Threads)));
        assert_eq!(press(KeyCode::Char('8'), false), None);
        assert_eq!(press(KeyCode::Char('q'), true), Some(Action::Type('q')));
        assert_eq!(press(KeyCode::Esc, true), Some(Action::Back));
        assert_eq!(press(KeyCode::Left, false), Some(Action::Along(-1)));
        let fast = KeyEvent::new(KeyCode::Right, KeyModifiers::SHIFT);
        assert_eq!(action(fast, false), Some(Action::Along(LARGE)));
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(action(interrupt, true), Some(Action::Quit));
        let end = KeyEvent::new_with_kind(KeyCode::Char('q'), KeyModifiers::NONE, KeyEventKind::Release);
        assert_eq!(action(end, false), None);
    }
}
