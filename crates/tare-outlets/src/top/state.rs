//! The state of the screen, changed only by samples and keys.

mod active;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::keys::Action;
use super::look::{About, Ask, Content, Head, INDEXES, Look, PREPARED, THREAD_WAITS, View};
use super::page::{Block, Cell, Kind, Page};
use super::rate::{Between, between};
use super::strip::Strip;
use super::view::{self, Seen, Sparks, Texts, stretch};

/// Most values of a class that are kept.
const HISTORY: usize = 240;
/// Number of samples after which a message vanishes.
const STAYS: u32 = 5;
/// Intervals for `+` and `-`, in milliseconds.
const INTERVALS: [u64; 8] = [500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000];

/// The effect of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Draw again.
    Draw,
    /// Take a sample now.
    Look,
    /// End.
    Quit,
}

/// The state of the screen.
#[derive(Debug)]
pub struct State {
    ask: Ask,
    interval: Duration,
    paused: bool,
    help: bool,
    background: bool,
    filter: String,
    typing: bool,
    /// Column that each view is sorted by.
    sorts: HashMap<View, usize>,
    /// Key of the chosen row; `None`: the first.
    chosen: Option<Vec<String>>,
    /// Scroll offset of the details.
    pub(super) scrolled: usize,
    /// Number of visible rows, for paging.
    pub(super) height: usize,
    shown: Option<Shown>,
    /// Last sample for each subject.
    bases: HashMap<Ask, Look>,
    texts: Texts,
    sparks: Sparks,
    message: Option<(String, u32)>,
    trouble: Option<String>,
    /// Last number of statements, and its time.
    queries: Option<(Duration, u64)>,
    /// Statements per second between the last two samples.
    queries_per_s: Option<f64>,
    /// Whether the server did more between them than answer these samples.
    busy: bool,
    /// Last requests for pages of the buffer pool, and the share of those since that found them there.
    pool: Option<(u64, u64)>,
    pool_hits: Option<f64>,
    /// Active sessions, and the stretch that is chosen.
    pub(super) strip: Strip,
    /// Name of the file that is shown instead of a server.
    file: Option<String>,
    /// Whether all of the file is shown, and not a stretch.
    whole: bool,
}

/// Statements per second below which the overhead as a share is meaningless: a server without load does
/// little more than being observed.
const BUSY: f64 = 10.0;

/// The number of statements that a sample asks at most.
const OWN: f64 = 10.0;

#[derive(Debug)]
struct Shown {
    look: Look,
    between: Option<Between>,
    buckets: Vec<(u64, u64)>,
}

impl State {
    /// Creates a state before the first sample.
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
            busy: false,
            pool: None,
            pool_hits: None,
            strip: Strip::default(),
            file: None,
            whole: false,
        }
    }

    /// Returns the subject of the next sample.
    #[must_use]
    pub fn ask(&self) -> &Ask {
        &self.ask
    }

    /// Returns whether to take more samples: while paused only those that never were taken.
    #[must_use]
    pub fn wants_look(&self) -> bool {
        self.file.is_none() && (!self.paused || !self.has_rates())
    }

    /// Returns whether the display is paused.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Returns the interval between samples.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// Returns whether there were two samples, and so rates.
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

    /// Returns the seconds between the samples, and whether the table was reset in between.
    pub(super) fn between(&self) -> Option<(f64, bool)> {
        let shown = self.shown.as_ref().filter(|shown| shown.look.ask == self.ask)?;
        let between = shown.between.as_ref()?;
        Some((between.seconds, between.reset))
    }

    /// Returns the present message, in one line.
    pub(super) fn message(&self) -> Option<&str> {
        let message = self.message.as_ref().map(|(text, _)| text.as_str());
        self.trouble.as_deref().or(message)
    }

    /// Adds a sample.
    pub fn take(&mut self, mut look: Look) {
        if self.trouble.take().is_some() {
            self.say("The server answers again: rates begin anew.".into());
        } else if let Some((_, left)) = &mut self.message {
            *left = left.saturating_sub(1);
            self.message.take_if(|(_, left)| *left == 0);
        }
        self.remember_texts(&mut look);
        if let Some(fresh) = look.history.take() {
            self.strip.take(&fresh, look.now);
        }
        self.count_queries(&look);
        self.count_hits(&look);
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

    /// Notes that the server does not answer; the display stays.
    pub fn lose(&mut self, why: String) {
        self.trouble = Some(format!("No answer, trying again: {why}"));
        self.bases.clear();
        (self.queries, self.queries_per_s, self.busy) = (None, None, false);
    }

    /// Updates the rate of statements, which every sample has.
    #[allow(clippy::cast_precision_loss)] // shown with four digits
    fn count_queries(&mut self, look: &Look) {
        let now = look.head.queries.map(|count| (look.moment, count));
        if let (Some((then, before)), Some((now, count))) = (self.queries, now) {
            let seconds = now.checked_sub(then).map_or(0.0, |it| it.as_secs_f64());
            let grown = count.checked_sub(before);
            self.queries_per_s = grown.filter(|_| seconds > 0.0).map(|it| it as f64 / seconds);
            self.busy = grown.is_some_and(|it| it as f64 >= BUSY * seconds + OWN);
        }
        self.queries = now;
    }

    /// Updates the share of pages that were found in the buffer pool: since the last sample, or else since
    /// the start.
    #[allow(clippy::cast_precision_loss)] // shown with four digits
    fn count_hits(&mut self, look: &Look) {
        let now = look.head.overview.pool_requests;
        let (then, then_read) = self.pool.unwrap_or((0, 0));
        if let Some((requests, reads)) = now {
            let (requests, reads) = (requests.checked_sub(then), reads.checked_sub(then_read));
            let grown = requests.zip(reads).filter(|(requests, _)| *requests > 0);
            self.pool_hits =
                grown.map(|(requests, reads)| 1.0 - reads as f64 / requests as f64).or(self.pool_hits);
        }
        self.pool = now;
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

    /// Returns the page, sorted and filtered.
    #[must_use]
    pub fn page(&self) -> Page {
        if let Some((stretch, sums)) = self.sums() {
            return stretch::page(stretch, &sums);
        }
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

    /// Returns the statements per second; `None` after the first sample.
    pub(super) fn queries_per_s(&self) -> Option<f64> {
        self.queries_per_s
    }

    /// Returns the second line of the head: uptime, load, overhead.
    pub(super) fn remarks(&self) -> Vec<String> {
        self.head().map(|head| view::remarks(head, self.queries_per_s, self.busy)).unwrap_or_default()
    }

    /// Returns the overview of the server.
    pub(super) fn overview(&self) -> Vec<String> {
        self.head().map(|head| view::overview(&head.overview, self.pool_hits)).unwrap_or_default()
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

    /// Returns the index of the chosen row.
    #[must_use]
    pub fn place(&self, page: &Page) -> usize {
        let found = |key: &Vec<String>| page.sheet()?.rows.iter().position(|row| row.key == *key);
        self.chosen.as_ref().and_then(found).unwrap_or(0)
    }

    /// Applies the action of a key.
    pub fn apply(&mut self, action: Action) -> Effect {
        if self.shows_stretch() && self.apply_to_stretch(action) {
            return Effect::Draw;
        }
        match action {
            Action::View(_) | Action::Turn(_) if self.file.is_some() => {}
            Action::Along(by) if self.strip.is_empty() => return self.apply(Action::Turn(by.signum())),
            Action::Along(by) if self.ask.about.is_none() => {
                self.help = false;
                self.strip.step(by);
            }
            Action::Along(_) => {}
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
        self.strip.leave();
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
                // The sheet's key has no NULL, but the sample's rows distinguish it from an empty name.
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

/// Returns whether a sample's figures are rates.
fn counts(content: &Content) -> bool {
    !matches!(content, Content::Threads(_) | Content::Locks(_))
}

/// Returns the name of the table with the counters.
fn table(ask: &Ask) -> &'static str {
    match &ask.about {
        Some(About::Table { .. }) => INDEXES.table,
        Some(About::Thread(_)) => THREAD_WAITS.table,
        Some(About::Prepared { .. }) => PREPARED.table,
        _ => ask.view.tally().map_or("", |tally| tally.table),
    }
}

/// Returns the index of a neighbour, cyclically.
fn step(at: usize, by: isize, count: usize) -> usize {
    (at + count).saturating_add_signed(by) % count
}

#[cfg(test)]
mod tests;
