//! Flame graphs of folded stacks, drawn like the other charts: in percent of the page's width.
//!
//! A graph is upside down, as one reads: callers above, callees below. With the base's stacks a frame is coloured by how its share
//! of the samples differs: that is the difference graph.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::unit;

/// Height of a frame, in pixels.
const FRAME: f64 = 18.0;
/// Frames narrower than this share of the graph are left out.
const NARROWEST: f64 = 0.002;
/// Frames deeper than this are left out.
const DEEPEST: usize = 60;
/// A difference of this many percentage points has the full colour.
const FULL: f64 = 0.02;

/// Samples by stack.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    root: Frame,
}

/// A function as called from one place.
#[derive(Debug, Default)]
struct Frame {
    samples: u64,
    callees: BTreeMap<String, Frame>,
}

impl Stacks {
    /// Of folded stacks: `caller;callee;… count` a line. Other lines are passed over.
    pub(super) fn of(folded: &str) -> Stacks {
        let mut stacks = Stacks::default();
        for line in folded.lines() {
            let Some((stack, count)) = line.rsplit_once(' ') else { continue };
            let Ok(count) = count.parse::<u64>() else { continue };
            let mut frame = &mut stacks.root;
            frame.samples += count;
            for name in stack.split(';').take(DEEPEST) {
                frame = frame.callees.entry(name.to_owned()).or_default();
                frame.samples += count;
            }
        }
        stacks
    }

    /// Samples in all.
    pub(super) fn samples(&self) -> u64 {
        self.root.samples
    }

    /// The graph; with `base` the difference from it.
    pub(super) fn graph(&self, base: Option<&Stacks>) -> Markup {
        let base = base.filter(|b| b.samples() > 0);
        let mut drawing =
            Drawing { all: self.samples(), base: base.map(Stacks::samples), depth: 0, frames: vec![] };
        drawing.callees(&self.root, base.map(|b| &b.root), 0.0, 0);
        #[allow(clippy::cast_precision_loss)] // at most DEEPEST
        let height = (drawing.depth + 1) as f64 * FRAME;
        let said = format!("flame graph of {} samples", self.samples());
        html! {
            svg.flame height=(height) role="img" aria-label=(said) {
                @for frame in &drawing.frames { (frame.draw()) }
            }
        }
    }
}

struct Drawing {
    all: u64,
    base: Option<u64>,
    depth: usize,
    frames: Vec<Drawn>,
}

struct Drawn {
    name: String,
    left: f64,
    share: f64,
    depth: usize,
    /// Percentage points more than in the base, as a share; none without a base.
    more: Option<f64>,
}

#[allow(clippy::cast_precision_loss)] // samples
fn share(samples: u64, all: u64) -> f64 {
    samples as f64 / all as f64
}

impl Drawing {
    fn callees(&mut self, of: &Frame, base: Option<&Frame>, mut left: f64, depth: usize) {
        for (name, frame) in &of.callees {
            let wide = share(frame.samples, self.all);
            if wide >= NARROWEST {
                let base = base.and_then(|b| b.callees.get(name));
                let more = self.base.map(|all| wide - base.map_or(0.0, |b| share(b.samples, all)));
                self.depth = self.depth.max(depth);
                self.frames.push(Drawn { name: name.clone(), left, share: wide, depth, more });
                self.callees(frame, base, left, depth + 1);
            }
            left += wide;
        }
    }
}

impl Drawn {
    fn draw(&self) -> Markup {
        #[allow(clippy::cast_precision_loss)] // at most DEEPEST
        let y = self.depth as f64 * FRAME;
        let place = |share: f64| format!("{:.3}%", share * 100.0);
        let percent = format!("{:.2}%", self.share * 100.0);
        let title = match self.more {
            Some(more) => format!(
                "{}: {percent} of the samples, {} points",
                self.name,
                unit::change(more, Some(0.0005))
            ),
            None => format!("{}: {percent} of the samples", self.name),
        };
        let (class, strength) = match self.more {
            Some(more) if more >= 0.0 => ("more", (more / FULL).min(1.0)),
            Some(more) => ("less", (-more / FULL).min(1.0)),
            None => ("warm", warmth(&self.name)),
        };
        html! {
            svg.frame x=(place(self.left)) y=(y) width=(place(self.share)) height=(FRAME - 1.0) {
                title { (title) }
                rect width="100%" height="100%" class=(class) style=(format!("--strength:{strength:.2}")) {}
                text x="3" y="12.5" { (self.name) }
            }
        }
    }
}

/// A shade that a function has in every graph, so that one finds it again.
fn warmth(name: &str) -> f64 {
    let sum = name.bytes().fold(7u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
    f64::from(sum % 100) / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOLDED: &str =
        "mariadbd;handle;parse 30\nmariadbd;handle;execute 60\nmariadbd;idle 10\nbroken line\n";

    #[test]
    fn frames_are_as_wide_as_their_share() {
        let stacks = Stacks::of(FOLDED);
        assert_eq!(stacks.samples(), 100);
        let drawn = stacks.graph(None).into_string();
        assert!(drawn.contains("execute: 60.00% of the samples"), "{drawn}");
        assert!(drawn.contains("width=\"90.000%\""), "{drawn}");
    }

    #[test]
    fn a_difference_says_how_many_points() {
        let base = Stacks::of("mariadbd;handle;execute 50\nmariadbd;idle 50\n");
        let drawn = Stacks::of(FOLDED).graph(Some(&base)).into_string();
        assert!(drawn.contains("execute: 60.00% of the samples, +10.00% points"), "{drawn}");
        assert!(drawn.contains("class=\"less\""), "{drawn}");
    }

    #[test]
    fn names_are_text() {
        let drawn = Stacks::of("<script>alert(1)</script> 5").graph(None).into_string();
        assert!(!drawn.contains("<script>"), "{drawn}");
    }
}
