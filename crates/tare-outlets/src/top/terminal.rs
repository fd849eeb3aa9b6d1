//! The screen: it takes keys and samples, and draws. A thread of its own queries the server, so that keys
//! work while the server is slow or unreachable.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};

use super::draw::{Paint, draw};
use super::keys;
use super::look::{Ask, Look};
use super::read::Reader;
use super::state::{Effect, State};
use crate::source::Address;

/// Time within which an interruption is noticed.
const PATIENCE: Duration = Duration::from_millis(250);
/// Time within which an answer is noticed.
const ANSWER: Duration = Duration::from_millis(40);
/// Longest wait for the second sample of a view, which brings rates, and for a retry.
const SOON: Duration = Duration::from_secs(1);

type Answer = Result<Look, String>;

/// Runs until the user ends it.
///
/// # Errors
///
/// When the terminal cannot be used.
pub fn show(
    reader: Reader,
    address: Address,
    state: State,
    paint: Paint,
    stop: &AtomicBool,
) -> io::Result<()> {
    let (ask, asked) = channel();
    let (answer, answers) = channel();
    std::thread::spawn(move || answer_all(Some(reader), &address, &asked, &answer));
    Screen { state, ask, answers, asked: None, due: Instant::now(), paint }.show(stop)
}

/// Runs until the user ends it, with the state of a file: nobody is asked.
///
/// # Errors
///
/// When the terminal cannot be used.
pub fn show_file(state: State, paint: Paint, stop: &AtomicBool) -> io::Result<()> {
    let ((ask, _), (_, answers)) = (channel(), channel());
    Screen { state, ask, answers, asked: None, due: Instant::now(), paint }.show(stop)
}

/// Answers questions, with a new connection if the last one is broken.
fn answer_all(
    mut reader: Option<Reader>,
    address: &Address,
    asked: &Receiver<Ask>,
    answers: &Sender<Answer>,
) {
    for ask in asked {
        let opened = reader.take().map_or_else(|| Reader::open(address.clone()), Ok);
        let answer = opened.and_then(|mut open| {
            let look = open.look(&ask)?;
            reader = Some(open);
            Ok(look)
        });
        if answers.send(answer.map_err(|error| error.to_string())).is_err() {
            return;
        }
    }
}

struct Screen {
    state: State,
    ask: Sender<Ask>,
    answers: Receiver<Answer>,
    /// Time of the question that is not answered yet.
    asked: Option<Instant>,
    /// Time of the next question.
    due: Instant,
    paint: Paint,
}

impl Screen {
    fn show(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut terminal = ratatui::try_init()?;
        std::thread::spawn(end_with_terminal);
        let result = self.run(&mut terminal, stop);
        ratatui::try_restore()?;
        result
    }

    fn run(&mut self, terminal: &mut DefaultTerminal, stop: &AtomicBool) -> io::Result<()> {
        let mut changed = true;
        while !stop.load(Ordering::Relaxed) {
            changed |= self.take_answers();
            self.ask_when_due();
            if changed {
                terminal.draw(|frame| draw(frame, &mut self.state, self.paint))?;
            }
            changed = event::poll(self.rest())?;
            if changed && self.read_event()? == Effect::Quit {
                return Ok(());
            }
        }
        Ok(())
    }

    fn read_event(&mut self) -> io::Result<Effect> {
        let Event::Key(key) = event::read()? else { return Ok(Effect::Draw) };
        let Some(action) = keys::action(key, self.state.is_typing()) else { return Ok(Effect::Draw) };
        let effect = self.state.apply(action);
        let now = Instant::now();
        // A shorter interval takes effect at once.
        let latest = if effect == Effect::Look { now } else { now + self.state.interval() };
        self.due = self.due.min(latest);
        Ok(effect)
    }

    fn take_answers(&mut self) -> bool {
        let mut any = false;
        while let Ok(answer) = self.answers.try_recv() {
            any = true;
            let now = Instant::now();
            let asked = self.asked.take().unwrap_or(now);
            match answer {
                Ok(look) => {
                    let is_shown = look.ask == *self.state.ask();
                    self.state.take(look);
                    let interval = self.state.interval();
                    let pause = if self.state.has_rates() { interval } else { interval.min(SOON) };
                    // A slow server is queried less often.
                    let due = (asked + pause).max(now + pause / 2);
                    self.due = if is_shown { due } else { now };
                }
                Err(why) => {
                    self.state.lose(why);
                    self.due = now + SOON;
                }
            }
        }
        any
    }

    fn ask_when_due(&mut self) {
        let now = Instant::now();
        if self.asked.is_none() && self.due <= now && self.state.wants_look() {
            self.asked = self.ask.send(self.state.ask().clone()).ok().map(|()| now);
        }
    }

    /// Returns how long to wait for keys.
    fn rest(&self) -> Duration {
        match self.asked {
            Some(_) => ANSWER,
            None if self.state.wants_look() => {
                self.due.saturating_duration_since(Instant::now()).min(PATIENCE)
            }
            None => PATIENCE,
        }
    }
}

/// Ends the process when its terminal vanishes: the window was closed, and the program was started with
/// SIGHUP ignored, as by `nohup`. Reading keys would loop forever without a result.
fn end_with_terminal() {
    let terminal = io::stdout();
    // Without requested events, only the end is reported.
    let mut seen = [PollFd::new(terminal.as_fd(), PollFlags::empty())];
    while poll(&mut seen, PollTimeout::NONE).is_err() {}
    std::process::exit(0);
}
