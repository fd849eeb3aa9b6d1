//! The priority of the thread that stops and continues drivers. With hundreds of connections, as many threads
//! wait for a processor, and with equal priority a turn would end seconds late.

use rustix::process::{getpriority_process, setpriority_process};

/// A nice value to which the kernel gives some ten times the weight of others.
const AHEAD: i32 = -10;

/// A guard that raises the priority of the calling thread, where the account may, and of what it starts
/// meanwhile.
pub(crate) struct Ahead {
    before: i32,
}

impl Ahead {
    /// Raises the priority; `None` if it stays unchanged.
    pub(crate) fn of_others() -> Option<Ahead> {
        let before = getpriority_process(None).ok()?;
        (before > AHEAD && setpriority_process(None, AHEAD).is_ok()).then(|| Ahead { before })
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        let _ = setpriority_process(None, self.before); // nobody is refused to fall back
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_lasts_as_long_as_it_lives_and_is_the_threads_own() {
        let now = || getpriority_process(None).expect("a number");
        let before = now();
        let Some(ahead) = Ahead::of_others() else {
            println!("skipped: this account may not run ahead of others");
            return;
        };
        assert_eq!(now(), AHEAD);
        assert!(Ahead::of_others().is_none(), "once is enough");
        drop(ahead);
        assert_eq!(now(), before);
        let ahead = Ahead::of_others();
        assert_eq!(std::thread::spawn(now).join().expect("a number"), AHEAD, "what it starts is, too");
        drop(ahead);
        assert_eq!(std::thread::spawn(now).join().expect("a number"), before);
    }
}
