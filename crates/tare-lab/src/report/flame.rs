//! Flame graphs of folded stacks, drawn like the other charts: in percent of the page's width.
//!
//! A graph grows downwards: callers are above callees. A frame's share of the samples is its share of the CPU
//! time of a transaction. In a difference graph, its colour shows how much more or less of that time it uses
//! than in the base.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::unit;

/// Height of a frame, in pixels.
const FRAME: f64 = 18.0;
/// Share of the graph's width below which frames are left out.
const NARROWEST: f64 = 0.002;
/// Depth below which frames are left out.
const DEEPEST: usize = 60;
/// Difference with the full colour, as a share of the base's time.
const FULL: f64 = 0.02;

/// A profile with the CPU time per transaction that it covers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Profiled<'a> {
    pub(super) stacks: &'a Stacks,
    /// CPU time in seconds.
    pub(super) cpu: f64,
}

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
    /// Parses folded stacks: a line `caller;callee;… count` each. Other lines are skipped.
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

    /// Returns the number of all samples.
    pub(super) fn samples(&self) -> u64 {
        self.root.samples
    }
}

/// Renders the graph; with a base, the difference from it.
pub(super) fn graph(own: Profiled<'_>, base: Option<Profiled<'_>>) -> Markup {
    let mut drawing = Drawing { own, base, depth: 0, frames: vec![] };
    drawing.callees(&own.stacks.root, base.map(|b| &b.stacks.root), 0.0, 0);
    #[allow(clippy::cast_precision_loss)] // at most DEEPEST
    let height = (drawing.depth + 1) as f64 * FRAME;
    let kind = if base.is_some() { "difference of flame graphs" } else { "flame graph" };
    html! {
        svg.flame height=(height) role="img" aria-label=(format!("{kind}, {} samples", own.stacks.samples())) {
            @for frame in &drawing.frames { (frame.draw()) }
        }
    }
}

struct Drawing<'a> {
    own: Profiled<'a>,
    base: Option<Profiled<'a>>,
    depth: usize,
    frames: Vec<FlameBox>,
}

struct FlameBox {
    name: String,
    left: f64,
    share: f64,
    depth: usize,
    /// CPU time per transaction, in seconds.
    cpu: f64,
    /// Difference of that from the base, and as a share of all of the base's; `None` without a base.
    more: Option<(f64, f64)>,
}

impl Profiled<'_> {
    #[allow(clippy::cast_precision_loss)] // samples
    fn share(&self, frame: &Frame) -> f64 {
        frame.samples as f64 / self.stacks.samples() as f64
    }

    fn time(&self, frame: &Frame) -> f64 {
        self.share(frame) * self.cpu
    }
}

impl Drawing<'_> {
    fn callees(&mut self, of: &Frame, base: Option<&Frame>, mut left: f64, depth: usize) {
        for (name, frame) in &of.callees {
            let wide = self.own.share(frame);
            if wide >= NARROWEST {
                let base = base.and_then(|b| b.callees.get(name));
                let cpu = self.own.time(frame);
                let more = self.base.map(|b| cpu - base.map_or(0.0, |frame| b.time(frame)));
                let more = more.zip(self.base).map(|(more, b)| (more, more / b.cpu));
                self.depth = self.depth.max(depth);
                self.frames.push(FlameBox { name: name.clone(), left, share: wide, depth, cpu, more });
                self.callees(frame, base, left, depth + 1);
            }
            left += wide;
        }
    }
}

impl FlameBox {
    fn draw(&self) -> Markup {
        #[allow(clippy::cast_precision_loss)] // at most DEEPEST
        let y = self.depth as f64 * FRAME;
        let place = |share: f64| format!("{:.3}%", share * 100.0);
        let mut title = format!(
            "{}: {:.2}% of the samples, {} of a transaction",
            self.name,
            self.share * 100.0,
            unit::time(self.cpu)
        );
        let (class, strength) = match self.more {
            Some((more, share)) => {
                let (class, word) = if more < 0.0 { ("less", "less") } else { ("more", "more") };
                title.push_str(&format!(", {} {word} than in the base", unit::time(more.abs())));
                (class, (share.abs() / FULL).min(1.0))
            }
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

/// Returns a shade that is the same for a function in every graph, so that it can be recognized.
fn warmth(name: &str) -> f64 {
    let sum = name.bytes().fold(7u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
    f64::from(sum % 100) / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOLDED: &str =
        "mariadbd;handle;parse 30\nmariadbd;handle;execute 60\nmariadbd;idle 10\nbroken line\n";

    fn drawn(own: &Stacks, base: Option<&Stacks>) -> String {
        let profiled = |stacks, cpu| Profiled { stacks, cpu };
        graph(profiled(own, 200e-6), base.map(|b| profiled(b, 100e-6))).into_string()
    }

    #[test]
    fn frames_are_as_wide_as_their_share() {
        let stacks = Stacks::of(FOLDED);
        assert_eq!(stacks.samples(), 100);
        let drawn = drawn(&stacks, None);
        assert!(drawn.contains("execute: 60.00% of the samples, 120 µs of a transaction"), "{drawn}");
        assert!(drawn.contains("width=\"90.000%\""), "{drawn}");
    }

    #[test]
    fn a_difference_is_one_of_time_not_of_shares() {
        let base = Stacks::of("mariadbd;handle;execute 50\nmariadbd;idle 50\n");
        let drawn = drawn(&Stacks::of(FOLDED), Some(&base));
        // 60% of 200 µs against 50% of 100 µs.
        assert!(
            drawn.contains("execute: 60.00% of the samples, 120 µs of a transaction, 70.0 µs more"),
            "{drawn}"
        );
        assert!(drawn.contains("30.0 µs less than in the base"), "{drawn}");
    }

    #[test]
    fn names_are_text() {
        let drawn = drawn(&Stacks::of("<script>alert(1)</script> 5"), None);
        assert!(!drawn.contains("<script>"), "{drawn}");
    }
}
