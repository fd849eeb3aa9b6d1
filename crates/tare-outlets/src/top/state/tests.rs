//! Tests of the state with samples and keys.

use super::*;
use crate::top::look::{Counted, Key, Locks, PREPARED_MARK};
use crate::top::page::Sheet;
use crate::top::recorded;

fn state(view: View) -> State {
    State::new(view, Duration::from_secs(2), "")
}

fn sheet(state: &State) -> Sheet {
    state.page().sheet().expect("a sheet").clone()
}

fn cell(sheet: &Sheet, row: usize, name: &str) -> Cell {
    let at = sheet.columns.iter().position(|column| column.name == name).expect("a column");
    sheet.rows[row].cells[at].clone()
}

fn size(sheet: &Sheet, row: usize, name: &str) -> f64 {
    cell(sheet, row, name).size().expect("a figure")
}

fn close(one: f64, other: f64) -> bool {
    (one - other).abs() <= other.abs() * 1e-9
}

/// Returns the key of a connection's prepared statement.
fn prepared(owner: u64) -> Key {
    vec![None, Some(PREPARED_MARK.to_owned()), Some(format!("{owner}/1"))]
}

#[test]
fn rates_are_by_the_servers_seconds() {
    let mut state = state(View::Statements);
    state.take(recorded::statements(10, true));
    assert!(!state.has_rates() && state.between().is_none());
    assert_eq!(cell(&sheet(&state), 0, "rate_per_s"), Cell::Empty);
    // Four of the server's seconds, whatever the interval is.
    state.take(recorded::statements(14, true));
    assert_eq!(state.between(), Some((4.0, false)));
    let sheet = sheet(&state);
    // Sorted by time: 40 × 3.12 ms, 400 × 62.5 µs, 40 × 281 µs per second.
    let rates: Vec<f64> = (0..3).map(|row| size(&sheet, row, "rate_per_s")).collect();
    assert_eq!(rates, [40.0, 400.0, 40.0]);
    let all = 40.0 * 3.12e-3 + 400.0 * 62.5e-6 + 40.0 * 281e-6;
    assert!(close(size(&sheet, 0, "time_share"), 40.0 * 3.12e-3 / all));
    assert!(close(size(&sheet, 1, "avg_ps"), 62_500_000.0));
    assert!(close(size(&sheet, 2, "examined_per_sent"), 3.0));
    assert_eq!(cell(&sheet, 0, "examined_per_sent"), Cell::Empty, "an UPDATE sends no rows");
    assert!(close(size(&sheet, 2, "tmp_disk_per_s"), 40.0));
    assert_eq!(state.totals()[0], ("statements/s", Cell::Count(480.0)));
}

#[test]
fn an_emptied_table_is_said_and_no_rate_is_negative() {
    let mut state = state(View::Statements);
    state.take(recorded::statements(100, true));
    let mut emptied = recorded::statements(1, true);
    emptied.moment = Duration::from_secs(102);
    state.take(emptied);
    assert_eq!(state.between(), Some((2.0, true)));
    let message = state.message().expect("a message").to_owned();
    assert!(message.contains("events_statements_summary_by_digest was emptied"), "{message}");
    let sheet = sheet(&state);
    for row in &sheet.rows {
        assert!(row.cells.iter().filter_map(Cell::size).all(|size| size >= 0.0), "{row:?}");
    }
    assert_eq!(size(&sheet, 1, "rate_per_s"), 200.0, "400 in two seconds, as far as one can know");
    for at in 3..10 {
        let mut later = recorded::statements(at, true);
        later.moment = Duration::from_secs(100 + at);
        state.take(later);
    }
    assert_eq!(state.message(), None, "it goes by itself");
}

#[test]
fn what_ends_with_its_connection_is_no_emptied_table() {
    let mut state = state(View::Statements);
    let mut pool = recorded::statements(100, true);
    let Content::Counted(rows) = &mut pool.content else { panic!("{pool:?}") };
    let one = rows[0].clone();
    rows.extend((1..=50).map(|owner| Counted { key: prepared(owner), ..one.clone() }));
    state.take(pool);
    state.take(recorded::statements(102, true));
    assert_eq!((state.between(), state.message()), (Some((2.0, false)), None));
    assert_eq!(size(&sheet(&state), 1, "rate_per_s"), 400.0);

    let about = || Some(About::Thread(45));
    let waits = recorded::waits(103).content.counted().to_vec();
    let working = Box::new(Some(recorded::thread(45, "Query", "SELECT 1")));
    state.take(recorded::look(103, View::Threads, about(), Content::Thread(waits, working)));
    state.take(recorded::look(105, View::Threads, about(), Content::Thread(vec![], Box::new(None))));
    assert_eq!(state.message(), None, "the thread has ended");
}

#[test]
fn a_clock_that_goes_back_gives_no_rates() {
    let mut state = state(View::Statements);
    state.take(recorded::statements(10, true));
    let mut later = recorded::statements(12, true);
    later.moment = Duration::from_secs(9);
    state.take(later);
    assert!(state.between().is_none());
    assert_eq!(cell(&sheet(&state), 0, "rate_per_s"), Cell::Empty);
}

#[test]
fn a_server_that_went_away_begins_anew() {
    let mut state = state(View::Statements);
    state.take(recorded::statements(100, true));
    state.take(recorded::statements(102, true));
    state.lose("/tmp/tare.sock: no answer: Connection refused".into());
    assert!(state.message().expect("a message").starts_with("No answer, trying again"));
    assert_eq!(sheet(&state).rows.len(), 3, "what was read stays");
    state.take(recorded::statements(1, true));
    assert!(state.message().expect("a message").contains("answers again"));
    assert!(state.between().is_none(), "nothing is compared with what was before");
    state.take(recorded::statements(2, true));
    assert_eq!(size(&sheet(&state), 1, "rate_per_s"), 400.0);
}

#[test]
fn keys_go_through_views_filters_and_details() {
    let mut state = state(View::Statements);
    state.take(recorded::statements(10, true));
    state.take(recorded::statements(12, true));
    assert_eq!(state.apply(Action::Move(1)), Effect::Draw);
    assert_eq!(state.place(&state.page()), 1);
    // The chosen row is followed when the order changes.
    state.apply(Action::Sort(1));
    state.apply(Action::Sort(-1));
    state.apply(Action::Sort(-1));
    assert_eq!(sheet(&state).sorted, Some(0));
    assert_eq!(state.place(&state.page()), 0, "400 a second are the most");
    assert_eq!(state.apply(Action::Enter), Effect::Look);
    let about = About::Digest { schema: Some("sbtest".into()), digest: recorded::POINT.into() };
    assert_eq!(state.ask().about, Some(about));
    assert!(!state.has_rates() && state.page().blocks.is_empty(), "nothing is known of it yet");
    state.take(recorded::statements(13, true));
    assert!(state.page().blocks.is_empty(), "an answer to the question before is not shown");
    state.take(recorded::digest_detail(12));
    state.take(recorded::digest_detail(14));
    assert_eq!(state.apply(Action::Back), Effect::Look);
    assert_eq!(state.ask().about, None);

    for action in [Action::Filter, Action::Type('G'), Action::Type('R'), Action::Type('Ö')] {
        state.apply(action);
    }
    state.take(recorded::statements(16, true));
    assert_eq!(sheet(&state).rows.len(), 1);
    state.apply(Action::Enter);
    assert!(!state.is_typing() && state.filter() == "GRÖ");
    state.apply(Action::Back);
    assert_eq!(sheet(&state).rows.len(), 3);
    assert_eq!(state.apply(Action::Turn(-1)), Effect::Look);
    assert_eq!(state.view(), View::Threads);
    assert_eq!(state.apply(Action::Quit), Effect::Quit);
}

#[test]
fn the_mark_of_the_order_has_room_in_every_column() {
    for view in View::ALL {
        let (columns, _) = view::columns(view);
        for column in columns.iter().filter(|column| column.kind == Kind::Figure) {
            let needed = column.title.chars().count() + usize::from(view != View::Locks);
            assert!(column.width >= needed, "{view:?}: {}", column.title);
        }
    }
}

#[test]
fn pausing_asks_for_nothing_but_what_was_never_read() {
    let mut state = state(View::Statements);
    assert!(state.wants_look());
    state.apply(Action::Pause);
    assert!(state.wants_look(), "there is nothing on the screen");
    state.take(recorded::statements(10, true));
    state.take(recorded::statements(12, true));
    assert!(!state.wants_look());
    state.apply(Action::View(View::Locks));
    assert!(state.wants_look());
    state.take(recorded::locks());
    assert!(!state.wants_look(), "locks need one look");
    state.apply(Action::Pause);
    assert!(state.wants_look());
}

#[test]
fn the_interval_goes_through_its_steps_and_stays_within_them() {
    let mut state = state(View::Waits);
    state.apply(Action::Interval(1));
    assert_eq!(state.interval(), Duration::from_secs(5));
    for _ in 0..20 {
        state.apply(Action::Interval(-1));
    }
    assert_eq!(state.interval(), Duration::from_millis(500));
}

#[test]
fn classes_of_waits_have_their_past() {
    let mut state = state(View::Waits);
    for at in 1..=6 {
        state.take(recorded::waits(at));
    }
    let page = state.page();
    let Block::Sheet(classes) = &page.blocks[0] else { panic!("{page:?}") };
    let names: Vec<&Cell> = classes.rows.iter().map(|row| &row.cells[0]).collect();
    let expected = ["io/file", "io/table", "synch/mutex", "lock/metadata"].map(|it| Cell::Text(it.into()));
    assert_eq!(names, expected.iter().collect::<Vec<_>>(), "and no idle connections");
    let Cell::Spark(past) = &classes.rows[0].cells[5] else { panic!("{classes:?}") };
    // n² − (n − 1)² twentieths.
    let twentieths: Vec<f64> = past.iter().map(|value| value / 5e10).collect();
    assert_eq!(twentieths, [3.0, 5.0, 7.0, 9.0, 11.0]);
}

#[test]
fn who_waits_stands_below_who_is_in_the_way() {
    let mut state = state(View::Locks);
    state.take(recorded::locks());
    let who: Vec<String> = sheet(&state)
        .rows
        .iter()
        .map(|row| match &row.cells[0] {
            Cell::Text(text) => text.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        who,
        [
            "24 app@localhost",
            "└─25 app@localhost",
            "\u{a0}\u{a0}├─26 app@localhost",
            "\u{a0}\u{a0}└─thread 47",
            "thread 48",
            "└─thread 49",
            "\u{a0}\u{a0}└─thread 48 (in a circle)",
        ]
    );
    assert_eq!(state.totals(), [("waiting", Cell::Count(5.0))]);
    assert_eq!(
        sheet(&state).rows[0].cells[8],
        Cell::Text("(idle 35 s, last: UPDATE orders SET note = NULL WHERE id = 7)".into())
    );
}

#[test]
fn quantiles_of_a_digest_are_those_of_the_interval() {
    let mut state = state(View::Statements);
    state.take(recorded::statements(10, true));
    state.apply(Action::Enter);
    state.apply(Action::Back);
    state.apply(Action::Sort(-1));
    state.apply(Action::Enter);
    state.take(recorded::digest_detail(12));
    state.take(recorded::digest_detail(14));
    let told = |it: &Block| *it == Block::Text("P95 95.5 µs and P99 1.00 ms in this interval".into());
    assert!(state.page().blocks.iter().any(told), "{:?}", state.page());
}

#[test]
fn prepared_statements_of_one_text_are_one_row() {
    let mut state = state(View::Statements);
    for at in [10, 12] {
        let mut look = recorded::statements(at, false);
        let Content::Counted(rows) = &mut look.content else { panic!("{look:?}") };
        let one = rows[0].clone();
        // One on connection 5 from the start; one on connection 6 that was prepared in between.
        for owner in [5, 6].iter().take(if at == 10 { 1 } else { 2 }) {
            let key = prepared(*owner);
            look.texts.push((key.clone(), "SELECT c FROM sbtest1 WHERE id = ?".into()));
            let counters = if *owner == 6 { vec![7; one.counters.len()] } else { one.counters.clone() };
            rows.push(Counted { key, counters, ..one.clone() });
        }
        state.take(look);
    }
    let sheet = sheet(&state);
    assert_eq!(sheet.rows.len(), 4);
    let place = sheet.rows.iter().position(|row| row.key.len() == 3).expect("the prepared one");
    assert_eq!(size(&sheet, place, "rate_per_s"), (800.0 + 7.0) / 2.0);
    assert_eq!(state.totals()[0].1, Cell::Count(480.0 + 400.0 + 3.5));
    state.chosen = Some(sheet.rows[place].key.clone());
    assert_eq!(state.apply(Action::Enter), Effect::Look);
    let about = About::Prepared { text: "SELECT c FROM sbtest1 WHERE id = ?".into() };
    assert_eq!(state.ask().about, Some(about));
}

#[test]
fn threads_of_the_background_come_when_they_are_asked_for() {
    let mut state = state(View::Threads);
    state.take(recorded::threads());
    assert_eq!(sheet(&state).rows.len(), 2);
    assert_eq!(cell(&sheet(&state), 0, "time_ps"), Cell::Time(35e12), "who works stands first");
    assert_eq!(cell(&sheet(&state), 1, "time_ps"), Cell::Empty, "who sleeps takes no time");
    state.apply(Action::Background);
    assert_eq!(sheet(&state).rows.len(), 3);
}

#[test]
fn what_could_not_be_read_is_not_counted_as_nothing() {
    let mut unread = state(View::Threads);
    unread.take(recorded::look(1, View::Threads, None, Content::Threads(vec![])));
    assert_eq!(unread.totals(), []);
    let mut locks = state(View::Locks);
    let partial = Locks { partial: true, ..Locks::default() };
    locks.take(recorded::look(1, View::Locks, None, Content::Locks(partial)));
    assert_eq!(locks.totals(), []);
    let mut nobody = state(View::Locks);
    nobody.take(recorded::look(1, View::Locks, None, Content::Locks(Locks::default())));
    assert_eq!(nobody.totals(), [("waiting", Cell::Count(0.0))]);
}

#[test]
fn memory_that_shrinks_changes_by_less_than_nothing() {
    let mut state = state(View::Memory);
    state.take(recorded::memory(10));
    state.take(recorded::memory(12));
    let sheet = sheet(&state);
    assert_eq!(cell(&sheet, 0, "changed_bytes_per_s"), Cell::Bytes(10_240.0));
    assert_eq!(cell(&sheet, 1, "changed_bytes_per_s"), Cell::Bytes(-5120.0));
    assert_eq!(cell(&sheet, 1, "bytes"), Cell::Bytes(-512.0), "others have freed it");
}

#[test]
fn texts_of_digests_that_are_gone_are_forgotten() {
    let mut state = state(View::Statements);
    state.take(recorded::statements(10, true));
    let mut fewer = recorded::statements(12, true);
    fewer.texts.clear();
    if let Content::Counted(rows) = &mut fewer.content {
        rows.truncate(1);
    }
    state.take(fewer);
    assert_eq!(state.texts.len(), 1);
}

/// Returns the state after two statement samples of a server that reports its overhead; the second one has
/// `queries` more statements.
fn watched(queries: u64, budget: &str) -> State {
    let mut state = state(View::Statements);
    for (at, count) in [(10, 1000), (12, 1000 + queries)] {
        let mut look = recorded::statements(at, true);
        look.head.queries = Some(count);
        let share =
            "51% (0.2% to 97%) of the CPU time in the 5.0 s of the last sample; the governor takes 40% of it";
        let rows = [("budget", budget), ("budget_state", "OFF: nothing is decided"), ("budget_share", share)];
        look.head.budget = rows.map(|(name, value)| (name.into(), value.into())).to_vec();
        state.take(look);
    }
    state
}

#[test]
fn the_head_says_how_busy_the_server_is_and_what_watching_costs() {
    let busy = ["up 3 d 4 h", "12 connections, 4 active", "480 QPS", "overhead 51%"];
    assert_eq!(watched(960, "OFF").remarks(), busy);
    assert_eq!(watched(960, "1%").remarks()[3], "overhead 51% of 1%");
}

#[test]
fn the_overhead_of_an_idle_server_says_nothing_and_is_not_shown() {
    let idle = ["up 3 d 4 h", "12 connections, 4 active", "2.00 QPS", "overhead –"];
    assert_eq!(watched(4, "OFF").remarks(), idle);
    assert_eq!(watched(4, "1%").remarks()[3], "overhead – of 1%");
    // 29 in two seconds may be 9 besides those of the sample.
    assert_eq!(watched(29, "OFF").remarks()[3], "overhead –");
    assert_eq!(watched(30, "OFF").remarks()[3], "overhead 51%");
    let mut first = state(View::Statements);
    first.take(recorded::statements(10, true));
    assert_eq!(first.remarks()[2], "– QPS");
}

#[test]
fn locks_that_are_counted_more_often_than_timed_have_no_mean() {
    let looks = |untimed: &[&str]| {
        let mut state = state(View::Waits);
        for at in 1..=2 {
            let mut look = recorded::waits(at);
            look.untimed = untimed.iter().map(|it| (*it).to_owned()).collect();
            state.take(look);
        }
        let page = state.page();
        let Block::Sheet(classes) = page.blocks[0].clone() else { panic!("{page:?}") };
        (classes, sheet(&state))
    };
    let mean = |sheet: &Sheet, name: &str| {
        let has = |row: &&super::super::page::Row| row.cells.contains(&Cell::Text(name.into()));
        let row = sheet.rows.iter().find(has).unwrap_or_else(|| panic!("no {name} in {sheet:?}"));
        let at = sheet.columns.iter().position(|column| column.name == "avg_ps").expect("a column");
        row.cells[at].clone()
    };
    let (lock, file) = ("wait/synch/mutex/sql/THD::LOCK_thd_data", "io/file/innodb/innodb_log_file");
    let (classes, events) = looks(&[lock]);
    assert_eq!(mean(&events, lock.trim_start_matches("wait/")), Cell::Empty);
    assert_eq!(mean(&classes, "synch/mutex"), Cell::Empty);
    assert!(mean(&events, file).size().is_some() && mean(&classes, "io/file").size().is_some());
    let (classes, events) = looks(&[]);
    assert!(mean(&events, lock.trim_start_matches("wait/")).size().is_some(), "at level exact");
    assert!(mean(&classes, "synch/mutex").size().is_some());
}
