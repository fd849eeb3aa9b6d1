//! Pictures of every view as files: `TARE_UPDATE_PICTURES=1` rewrites them.

mod picture;

use std::path::Path;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;

use super::*;
use crate::sessions::history_tests;
use crate::top::keys::Action;
use crate::top::look::{Content, Look, Overview, Replication};
use crate::top::recorded;

const SIZES: [(u16, u16); 2] = [(80, 24), (200, 50)];

fn state(view: View, looks: impl IntoIterator<Item = Look>) -> State {
    let mut state = State::new(view, Duration::from_secs(2), "");
    looks.into_iter().for_each(|look| state.take(look));
    state
}

fn drawn(state: &mut State, (width, height): (u16, u16), paint: Paint) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal.draw(|frame| draw(frame, state, paint)).expect("drawn");
    terminal.backend().buffer().clone()
}

fn text(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width);
    let lines = buffer.content().chunks(width).map(|line| {
        let text: String = line.iter().map(|cell| cell.symbol()).collect();
        format!("{}\n", text.trim_end())
    });
    lines.collect()
}

fn check(name: &str, state: &mut State) {
    for size in SIZES {
        let picture = text(&drawn(state, size, Paint(true)));
        hold(&format!("tests/pictures/{name}-{}x{}.txt", size.0, size.1), &picture);
    }
}

/// Compares a picture with its file.
fn hold(file: &str, picture: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if std::env::var_os("TARE_UPDATE_PICTURES").is_some() {
        std::fs::write(&file, picture).expect("written");
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(picture, expected, "{} (TARE_UPDATE_PICTURES=1 writes it anew)", file.display());
}

#[test]
fn statements() {
    let looks = [recorded::statements(10, true), recorded::statements(12, true)];
    check("statements", &mut state(View::Statements, looks));
}

#[test]
fn statements_without_histograms_on_a_server_with_a_budget() {
    let looks = [10, 12].map(|at| {
        let mut look = recorded::statements(at, false);
        let rows = [
            ("budget", "1%"),
            (
                "budget_state",
                "cannot be kept: 1.2% was used, and 1.1% is left when all is given up that may be",
            ),
            (
                "budget_share",
                "1.2% (0.9% to 1.6%) of the CPU time in the 5.0 s of the last sample; the governor takes 0.04% of it",
            ),
            ("budget_cut", "nothing"),
        ];
        look.head.budget = rows.map(|(name, value)| (name.into(), value.into())).to_vec();
        look.head.lost = 1234;
        look.notes = vec![
            "Off: consumers. UPDATE performance_schema.setup_consumers SET ENABLED = 'YES' WHERE NAME IN \
             ('statements_digest')"
                .into(),
        ];
        look
    });
    check("budget", &mut state(View::Statements, looks));
}

/// Nothing ends while everybody waits: the head still says that they do.
#[test]
fn statements_that_hang() {
    let looks = [10, 12].map(|at| {
        let mut look = recorded::look(at, View::Statements, None, Content::Counted(vec![]));
        look.head.active = Some(11);
        look
    });
    check("hang", &mut state(View::Statements, looks));
}

#[test]
fn a_first_look() {
    check("first", &mut state(View::Statements, [recorded::statements(10, true)]));
}

#[test]
fn nothing_yet() {
    check("nothing", &mut state(View::Statements, []));
}

#[test]
fn waits() {
    check("waits", &mut state(View::Waits, (1..40).map(recorded::waits)));
}

#[test]
fn locks() {
    check("locks", &mut state(View::Locks, [recorded::locks()]));
}

/// The picture of the README and the documents, once for each theme.
#[test]
fn the_documents_picture_is_what_top_draws() {
    let mut state = state(View::Locks, [recorded::lock_tree(10), recorded::lock_tree(12)]);
    let buffer = drawn(&mut state, (112, 15), Paint(true));
    let title = "tare top, view locks: who waits for whom, and which connection to end";
    for theme in &picture::THEMES {
        let file = format!("../../docs/pictures/top-{}.svg", theme.name);
        hold(&file, &picture::svg(&buffer, theme, title));
    }
}

/// A state with an hour's active sessions and an overview.
fn with_sessions() -> State {
    let mut look = recorded::statements(12, true);
    look.history = Some(history_tests::incident());
    look.head.overview = Overview {
        pool_used: Some(0.914),
        pool_requests: Some((1_000_000, 1234)),
        checkpoint_age: Some((61_865_984, Some(80_826_164))),
        history_list: Some(1742),
        replication: vec![Replication { behind: Some(2), ..Replication::default() }],
    };
    state(View::Statements, [recorded::statements(10, true), look])
}

#[test]
fn active_sessions_above_a_view() {
    check("sessions", &mut with_sessions());
}

#[test]
fn a_stretch_of_the_active_sessions() {
    let mut state = with_sessions();
    for action in [Action::Along(-1), Action::Page(-5), Action::Sort(1), Action::Sort(1)] {
        state.apply(action);
    }
    check("stretch", &mut state);
}

/// The picture of a stretch in the documents, once for each theme.
#[test]
fn the_documents_picture_of_a_stretch_is_what_top_draws() {
    let mut state = with_sessions();
    for action in [Action::Along(-1), Action::Page(-5), Action::Sort(1), Action::Sort(1)] {
        state.apply(action);
    }
    let buffer = drawn(&mut state, (112, 25), Paint(true));
    let title = "tare top: active sessions of 12 minutes, and statements, waits and blockers of a stretch of 30 seconds";
    for theme in &picture::THEMES {
        let file = format!("../../docs/pictures/top-sessions-{}.svg", theme.name);
        hold(&file, &picture::svg(&buffer, theme, title));
    }
}

#[test]
fn a_file_is_shown_without_a_server() {
    let history = history_tests::incident();
    let place = "db1:3306".to_owned();
    let mut state = State::of_file("monday.jsonl.gz", "MariaDB 10.11.19".into(), place, history);
    for action in [Action::Along(1), Action::End(true), Action::Back, Action::Along(-9), Action::Turn(1)] {
        state.apply(action);
        assert!(state.shows_stretch() && !state.wants_look(), "{action:?}");
    }
    check("file", &mut state);
}

#[test]
fn no_width_is_too_small_for_a_stretch() {
    let mut state = with_sessions();
    state.apply(Action::Along(-1));
    for size in [(1, 1), (5, 30), (9, 22), (20, 25), (500, 200)] {
        drawn(&mut state, size, Paint(true));
    }
}

#[test]
fn a_picture_is_for_every_viewer() {
    let mut state = state(View::Locks, [recorded::lock_tree(10)]);
    state.lose("an answer <without> & end".into());
    let buffer = drawn(&mut state, (112, 15), Paint(true));
    for theme in &picture::THEMES {
        let svg = picture::svg(&buffer, theme, "locks");
        for feature in ["style", "class=", "var(", "currentColor", "<script"] {
            assert!(!svg.contains(feature), "{feature}");
        }
        assert!(svg.contains(">&lt;without&gt;</text>") && svg.contains(">&amp;</text>"), "{svg}");
    }
}

#[test]
fn tables() {
    check("tables", &mut state(View::Tables, [recorded::tables(3), recorded::tables(5)]));
}

#[test]
fn files() {
    check("files", &mut state(View::Files, [recorded::files(3), recorded::files(5)]));
}

#[test]
fn memory() {
    check("memory", &mut state(View::Memory, [recorded::memory(3), recorded::memory(5)]));
}

#[test]
fn threads() {
    let mut state = state(View::Threads, [recorded::threads()]);
    state.apply(Action::Background);
    check("threads", &mut state);
}

#[test]
fn a_digest() {
    let mut state = state(View::Statements, [recorded::statements(10, true)]);
    state.apply(Action::Sort(-1));
    state.take(recorded::statements(12, true));
    state.apply(Action::Enter);
    state.take(recorded::digest_detail(12));
    state.take(recorded::digest_detail(14));
    check("digest", &mut state);
}

#[test]
fn help_over_everything() {
    let mut state = state(View::Statements, [recorded::statements(10, true)]);
    state.apply(Action::Help);
    check("help", &mut state);
    let picture = text(&drawn(&mut state, SIZES[0], Paint(true)));
    for (key, what) in HELP {
        assert!(picture.contains(what), "{key} is cut, or has no line: {picture}");
    }
}

#[test]
fn what_happened_stands_at_the_foot() {
    let mut state = state(View::Statements, [recorded::statements(10, true)]);
    state.lose("/var/lib/mysql/tare.sock: no answer: Connection refused".into());
    let picture = text(&drawn(&mut state, (80, 24), Paint(true)));
    assert!(picture.contains("\nNo answer, trying again: /var/lib/mysql/tare.sock"), "{picture}");
    state.apply(Action::Filter);
    state.apply(Action::Type('x'));
    let picture = text(&drawn(&mut state, (80, 24), Paint(true)));
    assert!(picture.ends_with("\n/x\n"), "{picture}");
}

#[test]
fn without_colours_there_are_none() {
    let colours = |paint: Paint| {
        let mut state = state(View::Waits, (1..40).map(recorded::waits));
        let buffer = drawn(&mut state, (80, 24), paint);
        let coloured = |it: &&ratatui::buffer::Cell| it.fg != Color::Reset || it.bg != Color::Reset;
        buffer.content().iter().filter(coloured).count()
    };
    assert_eq!(colours(Paint(false)), 0);
    assert!(colours(Paint(true)) > 0);
}

#[test]
fn no_size_is_too_small_and_the_chosen_row_stays_in_sight() {
    let mut state = state(View::Waits, (1..4).map(recorded::waits));
    state.apply(Action::End(true));
    for size in [(1, 1), (5, 3), (20, 5), (40, 10), (80, 24), (500, 200)] {
        drawn(&mut state, size, Paint(true));
    }
    let buffer = drawn(&mut state, (80, 12), Paint(false));
    let reversed = |it: &&ratatui::buffer::Cell| it.modifier.contains(Modifier::REVERSED);
    let chosen: String = buffer.content().iter().filter(reversed).map(|cell| cell.symbol()).collect();
    assert!(chosen.contains("metadata"), "{chosen}");
}

#[test]
fn texts_are_broken_at_blanks_and_long_words_anywhere() {
    assert_eq!(broken("one two\tthree", 9), ["one two", "three"]);
    assert_eq!(broken("größergrößer", 5), ["größe", "rgröß", "er"]);
    assert_eq!(broken("", 5), [""]);
    // A word that is longer by one column, or by a double-width character, and the text after it.
    assert_eq!(broken("sechse r", 5), ["sechs", "e r"]);
    assert_eq!(broken("数数数 r", 5), ["数数", "数 r"]);
    assert_eq!(broken("数数", 3), ["数", "数"]);
    assert_eq!(broken("数数", 1), ["数数"], "there is no room for a letter");
}
