//! Waits for InnoDB's locks on rows and tables, read from InnoDB's own transactions.
//!
//! A session keeps a pointer for each storage engine, at a place that an exported function tells; InnoDB's
//! leads to its transaction. That names its session, and while it waits the lock it waits for and the
//! transaction that has it or is to get it first, side by side. InnoDB keeps both for its own search for
//! deadlocks, and sets both to NULL when the wait is over. Where in a transaction they are no function tells.
//! So they are looked for in the first session that waits, and taken only if everything agrees: a pointer to
//! what names a session, whose pointer leads back to it. Every answer is checked in the same way, so what is
//! not another session's transaction is never taken for one.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tare_engine::{RowLockWait, Session};
use tare_host::process::observation::{self, field, pointer, text};

use super::{code, session};

/// The most storage engines a server has.
const MOST_ENGINES: usize = 64;
/// The name of the storage engine.
const NAME: &str = "InnoDB";
/// The part of a transaction in which its session is looked for, and that in which its wait is. The latter
/// began at 0xC0 to 0x1C0 in all servers seen.
const SEARCHED: usize = 4096;
const SEARCHED_FOR_WAIT: usize = 1024;
/// A transaction begins with the links of a list, which lead to other transactions.
const LINKS: usize = 16;

/// Returns the offset in a session of the pointer to its transaction.
fn engine_place() -> Option<usize> {
    static PLACE: OnceLock<Option<usize>> = OnceLock::new();
    *PLACE.get_or_init(|| {
        session::layout().ok()?;
        let (place, power) = session::member(c"thd_get_ha_data", code::of_engine).ok()?;
        Some(place + (slot()? << power))
    })
}

/// Returns InnoDB's number among the storage engines.
fn slot() -> Option<usize> {
    let plugins = session::function(c"hton2plugin").ok()?;
    // A plugin begins with its name.
    let name = |slot: &usize| text::<16>(pointer(pointer(plugins + slot * 8)?)?);
    (0..MOST_ENGINES).find(|slot| name(slot).as_deref() == Some(NAME))
}

/// The offsets in a transaction of its session, and of the lock it waits for; 0: not known yet.
#[derive(Debug, Default)]
struct Layout {
    session: AtomicUsize,
    wait: AtomicUsize,
}

static LAYOUT: Layout = Layout { session: AtomicUsize::new(0), wait: AtomicUsize::new(0) };

/// Returns the wait of a session for a lock of InnoDB's. `None`: it waits for none, or that is unknown.
/// `may_learn`: the place of waits may be looked for, if it is not known yet.
pub(crate) fn wait(session: Session, may_learn: bool) -> Option<RowLockWait> {
    let wait = LAYOUT.wait_of(engine_place()?, usize::try_from(session.handle).ok()?, may_learn)?;
    session::is(session).then_some(wait)
}

impl Layout {
    fn wait_of(&self, place: usize, thd: usize, may_learn: bool) -> Option<RowLockWait> {
        let known = Some(self.wait.load(Relaxed)).filter(|at| *at != 0);
        if known.is_none() && !may_learn {
            return None;
        }
        let trx = transaction(place, thd)?;
        let at = known.or_else(|| self.learn(place, thd, trx))?;
        let words = observation::bytes::<16>(trx.checked_add(at)?)?;
        let [lock, holder] = [0, 8].map(|at| field(&words, at).unwrap_or(0));
        if lock == 0 || transaction(place, thd) != Some(trx) {
            return None;
        }
        let holder = usize::try_from(holder).ok().and_then(|holder| self.session_of(place, holder));
        Some(RowLockWait { holder: holder.filter(|it| *it != thd).map(|it| it as u64) })
    }

    /// Returns the session of a transaction; `None`: it has none, or this is no transaction.
    fn session_of(&self, place: usize, trx: usize) -> Option<usize> {
        session_at(place, trx, self.session.load(Relaxed))
    }

    /// Looks for the wait in the transaction of a session that may be waiting, and returns its offset.
    /// `None`: there is none, or more than one.
    fn learn(&self, place: usize, thd: usize, trx: usize) -> Option<usize> {
        let mut copied = [0; SEARCHED];
        let len = observation::copy(trx, &mut copied);
        let word = |at: usize| usize::try_from(field(&copied[..len], at)?).ok();
        let offsets = |from: usize, to: usize| (from..to.min(len)).step_by(8);
        let sessions = offsets(LINKS, SEARCHED).filter(|at| word(*at) == Some(thd));
        let mut found = None;
        for own in sessions {
            for at in offsets(LINKS + 8, SEARCHED_FOR_WAIT) {
                let (lock, holder) = (word(at - 8)?, word(at)?);
                let is_wait = is_pointer(lock)
                    && is_pointer(holder)
                    && holder != trx
                    && session_at(place, holder, own).is_some_and(|it| it != thd);
                if is_wait && found.replace((own, at - 8)).is_some() {
                    return None;
                }
            }
        }
        let (own, at) = found?;
        self.session.store(own, Relaxed);
        self.wait.store(at, Relaxed);
        Some(at)
    }
}

fn is_pointer(word: usize) -> bool {
    word.is_multiple_of(8) && (0x1_0000..1 << 47).contains(&word)
}

/// Returns the address of a session's transaction.
fn transaction(place: usize, thd: usize) -> Option<usize> {
    pointer(thd.checked_add(place)?).filter(|trx| is_pointer(*trx))
}

/// Returns the session that a transaction names at an offset, if that session's transaction is this one.
fn session_at(place: usize, trx: usize, at: usize) -> Option<usize> {
    let thd = pointer(trx.checked_add(at)?).filter(|thd| is_pointer(*thd))?;
    (transaction(place, thd) == Some(trx)).then_some(thd)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The place of the storage engine's pointer in the sessions of these tests.
    const PLACE: usize = 24;
    const SESSION: usize = 640;
    const WAIT: usize = 192;

    /// A session and its transaction, in memory of the test's own.
    struct Pair {
        thd: Vec<usize>,
        trx: Vec<usize>,
    }

    impl Pair {
        fn new() -> Pair {
            let mut pair = Pair { thd: vec![0; 8], trx: vec![0; 512] };
            pair.thd[PLACE / 8] = pair.trx();
            pair.trx[SESSION / 8] = pair.thd();
            pair
        }

        fn thd(&self) -> usize {
            self.thd.as_ptr().addr()
        }

        fn trx(&self) -> usize {
            self.trx.as_ptr().addr()
        }

        fn waits_for(&mut self, other: usize) {
            // Where its own locks lie, as far as anybody knows.
            (self.trx[WAIT / 8], self.trx[WAIT / 8 + 1]) = (self.trx() + 1024, other);
        }
    }

    #[test]
    fn a_wait_is_learnt_from_the_first_that_waits_and_then_known() {
        let layout = Layout::default();
        let (holder, mut waiter, mut other) = (Pair::new(), Pair::new(), Pair::new());
        waiter.trx[0] = holder.trx();
        waiter.trx[1] = other.trx();
        assert_eq!(layout.wait_of(PLACE, waiter.thd(), true), None, "nobody waits; the list does not count");
        waiter.waits_for(holder.trx());
        assert_eq!(layout.wait_of(PLACE, waiter.thd(), false), None, "not looked for");
        let for_holder = Some(RowLockWait { holder: Some(holder.thd() as u64) });
        assert_eq!(layout.wait_of(PLACE, waiter.thd(), true), for_holder);
        assert_eq!((layout.session.load(Relaxed), layout.wait.load(Relaxed)), (SESSION, WAIT));
        assert_eq!(layout.wait_of(PLACE, holder.thd(), true), None);
        other.waits_for(waiter.trx());
        assert_eq!(
            layout.wait_of(PLACE, other.thd(), true),
            Some(RowLockWait { holder: Some(waiter.thd() as u64) })
        );
        (waiter.trx[WAIT / 8], waiter.trx[WAIT / 8 + 1]) = (0, 0);
        assert_eq!(layout.wait_of(PLACE, waiter.thd(), true), None, "it is over");
    }

    #[test]
    fn a_holder_without_a_session_is_not_named() {
        let layout = Layout::default();
        let (mut holder, mut waiter) = (Pair::new(), Pair::new());
        waiter.waits_for(holder.trx());
        assert!(layout.wait_of(PLACE, waiter.thd(), true).is_some_and(|wait| wait.holder.is_some()));
        holder.trx[SESSION / 8] = 0;
        assert_eq!(layout.wait_of(PLACE, waiter.thd(), true), Some(RowLockWait { holder: None }));
        waiter.waits_for(16);
        assert_eq!(layout.wait_of(PLACE, waiter.thd(), true), Some(RowLockWait { holder: None }));
    }

    #[test]
    fn what_is_ambiguous_is_not_learnt() {
        let layout = Layout::default();
        let (holder, mut waiter) = (Pair::new(), Pair::new());
        waiter.waits_for(holder.trx());
        (waiter.trx[20], waiter.trx[21]) = (waiter.trx(), holder.trx());
        assert_eq!(layout.wait_of(PLACE, waiter.thd(), true), None);
        assert_eq!(layout.wait_of(PLACE, 16, true), None, "no session");
    }
}
