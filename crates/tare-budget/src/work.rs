//! A fixed piece of work, whose CPU time says how fast a machine is at the moment.
//!
//! It resembles a server's work: short pieces of code, together larger than a processor's first cache, in an
//! order that depends on the data, each with its own line of data. What slows a server slows this as well: a
//! neighbour on the same core, a lower clock, caches that others fill. The caller reads a clock before and
//! after.

use std::fmt;

/// Number of lines of data, of 64 bytes each.
const LINES: usize = 2048;
/// Number of pieces of code in each dimension of [`CODE`].
const SIDE: usize = 8;
/// Number of pieces that one run executes.
const ROUNDS: u64 = 2048;
/// Number of runs of which [`Work::time`] returns the median. The first one finds the caches as others left
/// them.
const RUNS: usize = 3;

type CacheLine = [u64; 8];
type WorkFn = fn(u64, &mut CacheLine) -> u64;

/// The work and its data.
pub struct Work {
    lines: Box<[CacheLine]>,
    state: u64,
}

impl Work {
    /// Creates the work.
    #[must_use]
    pub fn new() -> Work {
        Work { lines: vec![[1; 8]; LINES].into(), state: 1 }
    }

    /// Returns the CPU time of a run: the median of three, measured with `clock`, which returns the calling
    /// thread's CPU time in nanoseconds. Takes about 0.2 ms in total.
    pub fn time(&mut self, mut clock: impl FnMut() -> f64) -> f64 {
        let mut times = [0.0; RUNS];
        for time in &mut times {
            let begin = clock();
            self.run();
            *time = clock() - begin;
        }
        times.sort_unstable_by(f64::total_cmp);
        times[RUNS / 2]
    }

    fn run(&mut self) {
        for round in 0..ROUNDS {
            let stretch =
                CODE[place(self.state ^ round, 6)][place(self.state ^ round, 3)][place(self.state, 0)];
            let line = place_of_line(self.state);
            self.state = std::hint::black_box(stretch)(self.state, &mut self.lines[line]);
        }
    }
}

impl Default for Work {
    fn default() -> Work {
        Work::new()
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work").finish_non_exhaustive()
    }
}

#[allow(clippy::cast_possible_truncation)] // below SIDE
fn place(state: u64, shift: u32) -> usize {
    (state >> shift) as usize % SIDE
}

#[allow(clippy::cast_possible_truncation)] // below LINES
fn place_of_line(state: u64) -> usize {
    (state >> 32) as usize % LINES
}

/// Executes some forty instructions on three lines of code. Each `N` makes a separate function.
#[inline(never)]
#[allow(clippy::cast_possible_truncation)] // remainders
fn stretch<const N: u64>(state: u64, line: &mut CacheLine) -> u64 {
    let odd = N.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let [read, write] = [(N % 8) as usize, ((N + 5) % 8) as usize];
    let mut a = (state ^ odd).wrapping_mul(odd) ^ line[read];
    let b = state.rotate_left((N % 61) as u32 + 1);
    let mut b = (b ^ (b >> (N % 29 + 3))).wrapping_add(odd.rotate_left(17));
    let mut c = line[read].wrapping_add(b).rotate_left((N % 53) as u32 + 2);
    let d = (line[write] ^ a).wrapping_mul(odd.rotate_left(33) | 1);
    if d & (1 << (N % 40 + 8)) == 0 {
        b ^= d >> 11;
    } else {
        c = c.wrapping_sub(a ^ (N << 7));
    }
    line[read] = c;
    line[write] = b ^ d;
    a ^= b.rotate_left(23);
    a.wrapping_add(c ^ d)
}

macro_rules! eight {
    ($n:expr) => {
        [
            stretch::<{ $n }>,
            stretch::<{ $n + 1 }>,
            stretch::<{ $n + 2 }>,
            stretch::<{ $n + 3 }>,
            stretch::<{ $n + 4 }>,
            stretch::<{ $n + 5 }>,
            stretch::<{ $n + 6 }>,
            stretch::<{ $n + 7 }>,
        ]
    };
}

macro_rules! sixty_four {
    ($n:expr) => {
        [
            eight!($n),
            eight!($n + 8),
            eight!($n + 16),
            eight!($n + 24),
            eight!($n + 32),
            eight!($n + 40),
            eight!($n + 48),
            eight!($n + 56),
        ]
    };
}

static CODE: [[[WorkFn; SIDE]; SIDE]; SIDE] = [
    sixty_four!(0),
    sixty_four!(64),
    sixty_four!(128),
    sixty_four!(192),
    sixty_four!(256),
    sixty_four!(320),
    sixty_four!(384),
    sixty_four!(448),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_work_is_the_same_and_goes_through_all_its_code_and_data() {
        let states = || {
            let mut work = Work::new();
            let mut states = vec![];
            for _ in 0..8 {
                work.run();
                states.push(work.state);
            }
            (states, work.lines.iter().filter(|line| **line == [1; 8]).count())
        };
        let (once, untouched) = states();
        assert_eq!((once.clone(), untouched), states());
        assert!(untouched < 10, "{untouched} lines were not touched");
        let mut places = std::collections::BTreeSet::new();
        let mut work = Work::new();
        for _ in 0..20_000 {
            places.insert([place(work.state, 6), place(work.state, 3), place(work.state, 0)]);
            let [x, y, z] = [place(work.state, 6), place(work.state, 3), place(work.state, 0)];
            work.state = CODE[x][y][z](work.state, &mut work.lines[place_of_line(work.state)]);
        }
        assert_eq!(places.len(), SIDE.pow(3));
    }

    #[test]
    fn the_middle_time_counts() {
        let mut times = [0.0, 900.0, 1000.0, 1040.0, 2000.0, 2050.0].into_iter();
        assert_eq!(Work::new().time(|| times.next().expect("two for each run")), 50.0);
    }
}
