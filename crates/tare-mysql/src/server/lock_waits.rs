//! HOT PATH: which sessions wait for a lock within InnoDB: on a row, or on a table there; and for whom.
//!
//! InnoDB keeps in a transaction that waits the one that it waits for, for its own search for deadlocks. It
//! sets that when the wait begins, changes it when the lock gets another owner, and clears it when the wait
//! is over, each before the owner's transaction ends. So a session that is read of the owner, between two
//! looks at who that is, is the owner's.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use tare_engine::RowLockWait;
use tare_host::process::observation::pointer;

use super::lists::THREADS;
use super::thread::ServerThread;
use crate::abi::layout::layout;
use crate::abi::{TRX_SESSION, TRX_WAITS_FOR};

/// The number of places. Of two sessions that wait and share one, the first is not known to wait.
const PLACES: usize = 1 << 16;

/// A thread that waits, by number, and the address of its transaction; 0: unknown.
struct Waiting(AtomicU64, AtomicUsize);

/// The threads that wait, each at the rest of its number by [`PLACES`].
static WAITING: [Waiting; PLACES] = [const { Waiting(AtomicU64::new(0), AtomicUsize::new(0)) }; PLACES];

fn place(id: u64) -> &'static Waiting {
    &WAITING[id as usize % PLACES]
}

/// Notes that a thread begins to wait. `transaction` is the address of its transaction; 0: unknown.
pub(crate) fn begin(thread: ServerThread, transaction: usize) {
    let id = thread.id();
    let Waiting(waits, of) = place(id);
    of.store(transaction, Relaxed);
    waits.store(id, Relaxed);
}

/// Notes that a thread does not wait any more, if it did.
pub(crate) fn end(thread: ServerThread) {
    let id = thread.id();
    let Waiting(waits, _) = place(id);
    if waits.load(Relaxed) == id {
        waits.store(0, Relaxed);
    }
}

/// Returns the wait of a thread, if it waits. Call it within [`super::presence::while_there`].
pub(crate) fn wait(thread: ServerThread) -> Option<RowLockWait> {
    let id = thread.id();
    let Waiting(waits, transaction) = place(id);
    let does_wait = || waits.load(Relaxed) == id;
    if !does_wait() {
        return None;
    }
    let session = session_in_the_way(transaction.load(Relaxed));
    let holder = session.filter(|_| does_wait()).and_then(thread_of);
    Some(RowLockWait { holder: holder.filter(|holder| *holder != thread.address().addr() as u64) })
}

/// Returns the session whose transaction another one waits for.
fn session_in_the_way(transaction: usize) -> Option<usize> {
    if transaction == 0 {
        return None;
    }
    let owner = || pointer(transaction + TRX_WAITS_FOR).filter(|owner| *owner != 0);
    let first = owner()?;
    let session = pointer(first.checked_add(TRX_SESSION)?).filter(|session| *session != 0)?;
    (owner() == Some(first)).then_some(session)
}

/// Returns the address of the thread that runs a session.
fn thread_of(session: usize) -> Option<u64> {
    let mut found = None;
    THREADS.each(|record| {
        if record.word(layout().thread.thd) == session as u64 {
            found = Some(record.address as u64);
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_of_the_transaction_that_is_waited_for_is_found() {
        let mut transactions = vec![[0usize; 128]; 2];
        let [waiter, owner] = [0, 1].map(|at: usize| transactions[at].as_ptr().expose_provenance());
        assert_eq!(session_in_the_way(waiter), None, "it waits for nobody");
        transactions[0][TRX_WAITS_FOR / 8] = owner;
        assert_eq!(session_in_the_way(waiter), None, "it has no session");
        transactions[1][TRX_SESSION / 8] = 4711;
        assert_eq!(session_in_the_way(waiter), Some(4711));
        transactions[0][TRX_WAITS_FOR / 8] = 16;
        assert_eq!(session_in_the_way(waiter), None, "nothing is mapped there");
        assert_eq!(session_in_the_way(0), None);
    }
}
