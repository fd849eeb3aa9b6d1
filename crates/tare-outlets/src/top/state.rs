//! What is shown and how: looks, keys and nothing else change it.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::keys::Action;
use super::look::{About, Ask, Content, Head, INDEXES, Look, PREPARED, THREAD_WAITS, View};
use super::page::{Block, Cell, Kind, Page};
use super::rate::{Between, between};
use super::view::{self, Seen, Sparks, Texts};

/// Values of a class that are kept.
const HISTORY: usize = 240;
/// Looks that a message stays for.
const STAYS: u32 = 5;
/// What `+` and `-` choose from, in milliseconds.
const INTERVALS: [u64; 8] = [500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000];

/// What a key leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing but another picture.
    Draw,
    /// The server is to be looked at, now.
    Look,
    /// The end.
    Quit,
}

/// What is shown.
#[derive(Debug)]
pub struct State {
    ask: Ask,
    interval: Duration,
    paused: bool,
    help: bool,
    background: bool,
    filter: String,
    typing: bool,
    /// The column each view's rows are in the order of.
    sorts: HashMap<View, usize>,
    /// The chosen row's key; none: the first.
    chosen: Option<Vec<String>>,
    /// How far a detail is scrolled.
    pub(super) scrolled: usize,
    /// Rows on the screen, for pages.
    pub(super) height: usize,
    shown: Option<Shown>,
    /// The last look for each question.
    bases: HashMap<Ask, Look>,
    texts: Texts,
    sparks: Sparks,
    message: Option<(String, u32)>,
    trouble: Option<String>,
    /// How many statements there had been, and when that was.
    queries: Option<(Duration, u64)>,
    /// Statements a second between the last two looks.
    queries_per_s: Option<f64>,
}

#[derive(Debug)]
struct Shown {
    look: Look,
    between: Option<Between>,
    buckets: Vec<(u64, u64)>,
}

impl State {
    /// Nothing has been read yet.
    #[must_use]
    pub fn new(view: View, interval: Duration, filter: &str) -> Self {
        Self {
            ask: Ask { view, about: None },
            interval,
            paused: false,
            help: false,
            background: false,
            filter: filter.to_owned(),
            typing: false,
            sorts: HashMap::new(),
            chosen: None,
            scrolled: 0,
            height: 10,
            shown: None,
            bases: HashMap::new(),
            texts: Texts::new(),
            sparks: Sparks::new(),
            message: None,
            trouble: None,
            queries: None,
            queries_per_s: None,
        }
    }

    /// What the next look is for.
    #[must_use]
    pub fn ask(&self) -> &Ask {
        &self.ask
    }

    /// Whether there is more to read: while paused only what was never read.
    #[must_use]
    pub fn wants_look(&self) -> bool {
        !self.paused || !self.has_rates()
    }

    /// Whether what is shown stays.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Time between looks.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// Whether the last look has one before it, and so rates.
    #[must_use]
    pub fn has_rates(&self) -> bool {
        let Some(shown) = &self.shown else { return false };
        shown.look.ask == self.ask && (shown.between.is_some() || shown.look.content.counted().is_empty())
    }

    pub(super) fn is_typing(&self) -> bool {
        self.typing
    }

    pub(super) fn shows_help(&self) -> bool {
        self.help
    }

    pub(super) fn filter(&self) -> &str {
        &self.filter
    }

    pub(super) fn view(&self) -> View {
        self.ask.view
    }

    pub(super) fn head(&self) -> Option<&Head> {
        self.shown.as_ref().map(|shown| &shown.look.head)
    }

    pub(super) fn notes(&self) -> &[String] {
        self.shown.as_ref().map_or(&[], |shown| &shown.look.notes)
    }

    /// Seconds between the looks, and whether the table began anew in between.
    pub(super) fn between(&self) -> Option<(f64, bool)> {
        let shown = self.shown.as_ref().filter(|shown| shown.look.ask == self.ask)?;
        let between = shown.between.as_ref()?;
        Some((between.seconds, between.reset))
    }

    /// What went wrong or happened, in one line.
    pub(super) fn message(&self) -> Option<&str> {
        let message = self.message.as_ref().map(|(text, _)| text.as_str());
        self.trouble.as_deref().or(message)
    }

    /// Takes a look in.
    pub fn take(&mut self, mut look: Look) {
        if self.trouble.take().is_some() {
            self.say("The server answers again: rates begin anew.".into());
        } else if let Some((_, left)) = &mut self.message {
            *left = left.saturating_sub(1);
            self.message.take_if(|(_, left)| *left == 0);
        }
        self.remember_texts(&mut look);
        self.count_queries(&look);
        self.bases.retain(|ask, _| ask.about.is_none() || *ask == look.ask);
        let before = self.bases.get(&look.ask);
        let seconds = before.and_then(|before| look.moment.checked_sub(before.moment));
        let seconds = seconds.map(|it| it.as_secs_f64()).filter(|it| *it > 0.0);
        let between = before.zip(seconds).filter(|_| counts(&look.content)).map(|(before, seconds)| {
            between(look.ask.view, before.content.counted(), look.content.counted(), seconds)
        });
        let buckets = match before.map(|before| &before.content) {
            Some(Content::Digest(_, digest)) => digest.buckets.clone(),
            _ => vec![],
        };
        if let Some(between) = &between {
            self.note_reset(&look.ask, between);
            self.remember_waits(&look.ask, between);
        }
        self.bases.insert(look.ask.clone(), look.clone());
        if look.ask == self.ask {
            self.shown = Some(Shown { look, between, buckets });
        }
    }

    /// The server does not answer; what was read stays on the screen.
    pub fn lose(&mut self, why: String) {
        self.trouble = Some(format!("No answer, trying again: {why}"));
        self.bases.clear();
        (self.queries, self.queries_per_s) = (None, None);
    }

    /// Whatever the looks are for, each says how many statements there have been.
    #[allow(clippy::cast_precision_loss)] // shown with four digits
    fn count_queries(&mut self, look: &Look) {
        let now = look.head.queries.map(|count| (look.moment, count));
        if let (Some((then, before)), Some((now, count))) = (self.queries, now) {
            let seconds = now.checked_sub(then).map_or(0.0, |it| it.as_secs_f64());
            let grown = count.checked_sub(before);
            self.queries_per_s = grown.filter(|_| seconds > 0.0).map(|it| it as f64 / seconds);
        }
        self.queries = now;
    }

    fn say(&mut self, text: String) {
        self.message = Some((text, STAYS));
    }

    fn note_reset(&mut self, ask: &Ask, between: &Between) {
        if between.reset {
            self.say(format!("{} was emptied: figures are what was counted since.", table(ask)));
        }
    }

    fn remember_texts(&mut self, look: &mut Look) {
        self.texts.extend(look.texts.drain(..));
        if let (Content::Counted(rows), View::Statements) = (&look.content, look.ask.view)
            && self.texts.len() > rows.len() * 2
        {
            let there: HashSet<_> = rows.iter().map(|row| &row.key).collect();
            self.texts.retain(|key, _| there.contains(key));
        }
    }

    fn remember_waits(&mut self, ask: &Ask, between: &Between) {
        if ask.view != View::Waits || ask.about.is_some() {
            return;
        }
        for (class, (_, time)) in view::classes(&between.rows) {
            let values = self.sparks.entry(class.to_owned()).or_default();
            values.push_back(time / between.seconds);
            if values.len() > HISTORY {
                values.pop_front();
            }
        }
    }

    /// The page, in order and filtered.
    #[must_use]
    pub fn page(&self) -> Page {
        let Some(seen) = self.seen() else { return Page::default() };
        let mut page = view::page(&seen);
        if self.ask.about.is_some() {
            return page;
        }
        if let Some(Block::Sheet(sheet)) =
            page.blocks.iter_mut().rev().find(|block| matches!(block, Block::Sheet(_)))
        {
            let mut listed = sheet.clone().with_text(&self.filter);
            if let Some(column) = self.sort() {
                listed = listed.sorted_by(column);
            }
            *sheet = listed;
        }
        page
    }

    pub(super) fn totals(&self) -> Vec<(&'static str, Cell)> {
        self.seen().map(|seen| view::totals(&seen)).unwrap_or_default()
    }

    /// Statements a second; none at the first look.
    pub(super) fn queries_per_s(&self) -> Option<f64> {
        self.queries_per_s
    }

    /// The head's second line: how long the server runs, how busy it is, what watching costs.
    pub(super) fn remarks(&self) -> Vec<String> {
        self.head().map(|head| view::remarks(head, self.queries_per_s)).unwrap_or_default()
    }

    fn seen(&self) -> Option<Seen<'_>> {
        let shown = self.shown.as_ref().filter(|shown| shown.look.ask == self.ask)?;
        Some(Seen {
            look: &shown.look,
            between: shown.between.as_ref(),
            texts: &self.texts,
            sparks: &self.sparks,
            buckets: &shown.buckets,
            background: self.background,
        })
    }

    fn sort(&self) -> Option<usize> {
        let (_, first) = view::columns(self.ask.view);
        first.map(|first| self.sorts.get(&self.ask.view).copied().unwrap_or(first))
    }

    /// Which row is chosen.
    #[must_use]
    pub fn place(&self, page: &Page) -> usize {
        let found = |key: &Vec<String>| page.sheet()?.rows.iter().position(|row| row.key == *key);
        self.chosen.as_ref().and_then(found).unwrap_or(0)
    }

    /// Does what a key asks for.
    pub fn apply(&mut self, action: Action) -> Effect {
        match action {
            Action::Quit => return Effect::Quit,
            Action::Help => self.help = !self.help,
            Action::Pause => self.paused = !self.paused,
            Action::View(view) => return self.go(Ask { view, about: None }),
            Action::Turn(by) => {
                let at = View::ALL.iter().position(|view| *view == self.ask.view).unwrap_or(0);
                return self.go(Ask { view: View::ALL[step(at, by, View::ALL.len())], about: None });
            }
            Action::Move(by) => self.choose(|at, _| at.saturating_add_signed(by)),
            Action::Page(by) => {
                let rows = isize::try_from(self.height.max(1)).unwrap_or(1);
                self.choose(|at, _| at.saturating_add_signed(by * rows));
            }
            Action::End(last) => self.choose(|_, count| if last { count } else { 0 }),
            Action::Enter if self.typing => self.typing = false,
            Action::Enter => return self.enter(),
            Action::Back => return self.back(),
            Action::Sort(by) => self.turn_sort(by),
            Action::Interval(by) => self.turn_interval(by),
            Action::Filter if self.ask.about.is_none() => (self.typing, self.help) = (true, false),
            Action::Filter => {}
            Action::Type(letter) => self.filter.push(letter),
            Action::Erase => {
                self.filter.pop();
            }
            Action::Background => self.background = !self.background,
        }
        Effect::Draw
    }

    fn go(&mut self, ask: Ask) -> Effect {
        if self.ask.view != ask.view {
            (self.chosen, self.filter) = (None, String::new());
        }
        (self.ask, self.help, self.scrolled) = (ask, false, 0);
        Effect::Look
    }

    fn choose(&mut self, to: impl Fn(usize, usize) -> usize) {
        if self.ask.about.is_some() {
            self.scrolled = to(self.scrolled, usize::MAX / 2);
            return;
        }
        let page = self.page();
        let rows = page.sheet().map_or(&[][..], |sheet| &sheet.rows[..]);
        let at = to(self.place(&page), rows.len()).min(rows.len().saturating_sub(1));
        self.chosen = rows.get(at).map(|row| row.key.clone());
    }

    fn enter(&mut self) -> Effect {
        let page = self.page();
        let row = page.sheet().and_then(|sheet| sheet.rows.get(self.place(&page)));
        let Some(row) = row.filter(|_| self.ask.about.is_none() && !self.help) else { return Effect::Draw };
        let about = match self.ask.view {
            View::Statements if row.key.len() == 3 => About::Prepared { text: row.key[2].clone() },
            View::Statements if !row.key[1].is_empty() => {
                // The sheet's key has no NULL: the look's rows tell it from an empty name.
                let found = self.shown.as_ref().and_then(|shown| {
                    let rows = shown.look.content.counted();
                    rows.iter().find(|it| it.named(1) == row.key[1] && it.named(0) == row.key[0])
                });
                let schema = found.and_then(|it| it.key[0].clone());
                About::Digest { schema, digest: row.key[1].clone() }
            }
            View::Tables => About::Table { schema: row.key[0].clone(), name: row.key[1].clone() },
            View::Threads | View::Locks => match row.key[0].parse() {
                Ok(thread) => About::Thread(thread),
                Err(_) => return Effect::Draw,
            },
            _ => return Effect::Draw,
        };
        self.chosen = Some(row.key.clone());
        self.go(Ask { about: Some(about), ..self.ask })
    }

    fn back(&mut self) -> Effect {
        if self.typing || !self.filter.is_empty() && self.ask.about.is_none() && !self.help {
            (self.typing, self.filter) = (false, String::new());
        } else if self.help {
            self.help = false;
        } else if self.ask.about.is_some() {
            return self.go(Ask { about: None, ..self.ask });
        }
        Effect::Draw
    }

    fn turn_sort(&mut self, by: isize) {
        let (columns, _) = view::columns(self.ask.view);
        let Some(at) = self.sort() else { return };
        let figures: Vec<usize> = (0..columns.len()).filter(|at| columns[*at].kind == Kind::Figure).collect();
        let place = figures.iter().position(|it| *it == at).unwrap_or(0);
        self.sorts.insert(self.ask.view, figures[step(place, by, figures.len())]);
    }

    #[allow(clippy::cast_possible_truncation)] // no interval is that long
    fn turn_interval(&mut self, by: isize) {
        let now = self.interval.as_millis() as u64;
        let next = if by > 0 {
            INTERVALS.iter().find(|it| **it > now)
        } else {
            INTERVALS.iter().rfind(|it| **it < now)
        };
        self.interval = next.map_or(self.interval, |it| Duration::from_millis(*it));
    }
}

/// Whether a look's figures are rates.
fn counts(content: &Content) -> bool {
    !matches!(content, Content::Threads(_) | Content::Locks(_))
}

/// The table whose rows count.
fn table(ask: &Ask) -> &'static str {
    match &ask.about {
        Some(About::Table { .. }) => INDEXES.table,
        Some(About::Thread(_)) => THREAD_WAITS.table,
        Some(About::Prepared { .. }) => PREPARED.table,
        _ => ask.view.tally().map_or("", |tally| tally.table),
    }
}

/// A step to a neighbour; the last's is the first.
fn step(at: usize, by: isize, count: usize) -> usize {
    (at + count).saturating_add_signed(by) % count
}

#[cfg(test)]
mod tests;
