//! Peaks: the least and the most memory that an account, a user, a host or all had in use.
//!
//! Threads do not tell each other how much they use. So a sum assumes that all its threads are at their marks
//! at the same time, as the built-in does: its *spans* are those of its threads added up. Spans grow with a
//! thread's marks, and shrink when a thread ends or a reset passes its marks. Whoever shrinks them notes them
//! before. A sum's marks are the widest of what was noted and what is now. So successive connections are as
//! high as the highest of them, and simultaneous ones as high as all together, however they end. The spans of
//! a user or host are those of its accounts added up; the spans of all are those of the hosts.
//!
//! A thread that ends leaves its marks in the sums above it, where they count as if it were still there until
//! the spans are noted. That reads every other thread, so it is done once for several ended threads: an
//! eighth of those that stay.

use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed},
};

use crate::Engine;
use crate::count::account::{ACCOUNT, HOST, Party, USER};
use crate::layout::balance::{MemoryCell, Peaks, Span, Spans};
use crate::layout::bank::SharedBank;
use crate::layout::cell::{Cell, SummaryFamily, Viewer};
use crate::layout::cell_list::ListedCell;
use crate::memory::arena::Own;
use crate::setup::instrument::lock;
use crate::snapshot::{ClassId, Kind};
use crate::thread::{BANK_OWN, BANK_UNATTRIBUTED, FoundThread, Thread};

/// The number of remaining threads per thread that may end without noting spans.
const STAYING: u32 = 8;

/// A sum and its parts.
pub(crate) struct Branch<'a> {
    sums: &'a SharedBank,
    /// The sums it consists of, with the generations in which they were found: of a user or host its
    /// accounts, of all the hosts.
    parts: Vec<(&'static Party, u32, Branch<'static>)>,
    /// Threads that are in none of the parts.
    threads: Vec<FoundThread>,
    /// Of the sum of all: threads that are in parts. What they use now is added here and not in the parts, as
    /// the sum of all already has what ended threads of the parts use.
    in_parts: Vec<FoundThread>,
}

impl Engine {
    /// Returns every thread that has not left its sums.
    pub(crate) fn found_threads(&self) -> Vec<FoundThread> {
        let stays = |thread: &&Thread| thread.alive.load(Acquire) != 0;
        self.slabs().filter(stays).map(Thread::found).collect()
    }

    /// Returns the sum of all, with its parts.
    pub(crate) fn trunk(&self, threads: &[FoundThread]) -> Branch<'_> {
        let mut parts = Vec::new();
        self.each_party(HOST, |host| parts.push(self.part(HOST, host, threads)));
        let has_host = |(_, thread): &FoundThread| thread.parties[HOST].load(Relaxed) != 0;
        let (in_parts, threads) = threads.iter().copied().partition(has_host);
        Branch { sums: &self.ended, parts, threads, in_parts }
    }

    /// Returns the sums of a party, with their parts.
    pub(crate) fn branch(
        &self,
        kind: usize,
        party: &'static Party,
        threads: &[FoundThread],
    ) -> Branch<'static> {
        let place = self.arena.offset_of(party);
        let mut parts = Vec::new();
        if kind != ACCOUNT {
            self.each_party(ACCOUNT, |account| {
                let of = if kind == USER { &account.user } else { &account.host };
                if of.load(Relaxed) == place {
                    parts.push(self.part(ACCOUNT, account, threads));
                }
            });
        }
        let is_own = |(_, thread): &FoundThread| {
            thread.parties[kind].load(Relaxed) == place
                && (kind == ACCOUNT || thread.parties[ACCOUNT].load(Relaxed) == 0)
        };
        let threads = threads.iter().copied().filter(is_own).collect();
        Branch { sums: party.sums(SummaryFamily::Memory), parts, threads, in_parts: Vec::new() }
    }

    fn part(
        &self,
        kind: usize,
        party: &'static Party,
        threads: &[FoundThread],
    ) -> (&'static Party, u32, Branch<'static>) {
        (party, party.head.generation(), self.branch(kind, party, threads))
    }

    /// Returns the spans of a sum for one class.
    pub(crate) fn spans(&self, branch: &Branch<'_>, class: ClassId) -> Spans {
        let own = branch.sums.bank.peek::<MemoryCell>(&self.arena, class);
        let mut spans = own.map_or_else(Spans::default, MemoryCell::spans);
        let mut add = |other: Spans| spans.iter_mut().zip(other).for_each(|(span, other)| span.add(other));
        let is_trunk = std::ptr::eq(branch.sums, &self.ended);
        for (party, generation, part) in &branch.parts {
            let spans = self.spans(part, class);
            if party.head.is_still(*generation) {
                add(if is_trunk { spans.map(Span::room) } else { spans });
            }
        }
        let threads = branch.threads.iter().map(|found| (found, false));
        for ((id, thread), in_part) in threads.chain(branch.in_parts.iter().map(|found| (found, true))) {
            let spans = self.thread_spans(thread, class);
            if self.still_counts(thread, *id) {
                add(if in_part { spans.map(|span| Span::flat(span.now)) } else { spans });
            }
        }
        own.map_or(spans, |cell| Peaks::of(&self.arena, cell).widen(spans))
    }

    fn thread_spans(&self, thread: &Thread, class: ClassId) -> Spans {
        let Some(cell) = thread.banks[BANK_OWN].peek::<MemoryCell>(&self.arena, class) else {
            return Spans::default();
        };
        match self.counts_for(SummaryFamily::Memory, Viewer::Thread, cell.head.epoch.load(Relaxed)) {
            true => cell.spans(),
            false => cell.flat_spans(),
        }
    }

    /// Notes a sum's spans, and drops the marks that ended threads left in it.
    fn note_spans(&self, branch: &Branch<'_>, class: ClassId) {
        let spans = self.spans(branch, class);
        if branch.sums.bank.peek::<MemoryCell>(&self.arena, class).is_none()
            && spans.iter().all(Span::is_flat)
        {
            return;
        }
        if let Some(cell) = self.sum_cell::<MemoryCell>(branch.sums, class) {
            Peaks::of(&self.arena, cell).note(spans);
            cell.flatten();
        }
    }

    /// Notes all spans before a reset of memory, which lowers the marks of threads or accounts. Sums that are
    /// reset themselves drop them again.
    pub(crate) fn note_all(&self) {
        let _one_at_a_time = lock(&self.parties.lock);
        let threads = self.found_threads();
        let instruments = self.registry.all_of(|kind| kind == Kind::Memory).into_iter();
        let classes: Vec<ClassId> = instruments.map(|it| it.id).collect();
        let note = |branch: Branch<'_>| classes.iter().for_each(|class| self.note_spans(&branch, *class));
        // From the top down, because each sum consists of those below.
        note(self.trunk(&threads));
        for kind in [HOST, USER, ACCOUNT] {
            self.each_party(kind, |party| note(self.branch(kind, party, &threads)));
        }
    }

    /// Notes an account's spans of one class before the cell of an ended thread is folded, with the marks of
    /// that thread, and drops these. It is the only one that ended since the last note. Callers hold the lock
    /// of the parties, so that no other thread leaves.
    pub(super) fn note_member(&self, account: &Party, listed: &ListedCell) {
        let class = listed.class();
        let own: &MemoryCell = match listed.account.own() {
            0 => {
                let sums = account.sums(SummaryFamily::Memory);
                let Some(made) = self.known_sum_cell(&listed.account, sums, class) else { return };
                made
            }
            place => self.arena.at(place),
        };
        let now = own.spans();
        let mut spans = now;
        for member in self.members(account) {
            let of_member = self.thread_spans(member, class);
            spans.iter_mut().zip(of_member).for_each(|(span, more)| span.add(more));
        }
        Peaks::of(&self.arena, own).note(spans);
        if !now.iter().all(Span::is_flat) {
            own.flatten();
        }
        self.arena.at::<MemoryCell>(listed.cell()).forget_marks();
    }

    /// Notes the spans of the sums above an ended thread, which has been folded into them, if it is time.
    /// `of_account` is the number of threads of its account that ended without a note, if it is time there;
    /// of a single one [`Engine::note_member`] has noted the spans. Callers hold the lock of the parties; the
    /// thread leaves them afterwards.
    pub(super) fn note_above(&self, thread: &Thread, of_account: Option<u32>) {
        let [account, user, host] = [ACCOUNT, USER, HOST].map(|kind| self.party(thread, kind));
        match account {
            Some(account) => {
                if let Some(ended) = of_account.filter(|ended| *ended > 1) {
                    let found = || self.members(account).map(Thread::found).collect::<Vec<_>>();
                    let branch = || self.branch(ACCOUNT, account, &found());
                    self.note_ended(account.sums(SummaryFamily::Memory), thread, ended, branch);
                }
            }
            None => {
                for (kind, party) in [(USER, user), (HOST, host)] {
                    if let Some(party) = party
                        && let Some(ended) = party.ended_unnoted()
                    {
                        let branch = || self.branch(kind, party, &self.found_threads());
                        self.note_ended(party.sums(SummaryFamily::Memory), thread, ended, branch);
                    }
                }
            }
        }
        if host.is_none()
            && let Some(ended) = due(&self.parties.unnoted, &self.threads)
        {
            self.note_ended(&self.ended, thread, ended, || self.trunk(&self.found_threads()));
        }
    }

    /// Notes the spans of the classes that a thread has left in a sum or, if others ended before it, of all
    /// classes there.
    fn note_ended<'a>(
        &'a self,
        sums: &SharedBank,
        thread: &Thread,
        ended: u32,
        branch: impl Fn() -> Branch<'a>,
    ) {
        let mut found = None;
        let mut note = |class| {
            if self.registry.kind(class) == Kind::Memory {
                let branch = found.get_or_insert_with(&branch);
                self.note_spans(branch, class);
            }
        };
        if ended == 1 {
            let own = [BANK_OWN, BANK_UNATTRIBUTED].into_iter().flat_map(|bank| thread.cells(self, bank));
            own.for_each(|cell| note(cell.class()));
        } else {
            sums.each(&self.arena, |class, _| note(class));
        }
    }
}

/// Counts a thread that ended without a note. Returns the number of such threads, and restarts it, if there
/// are enough of them compared with those that stay.
pub(super) fn due(unnoted: &AtomicU32, staying: &AtomicU32) -> Option<u32> {
    let ended = unnoted.load(Relaxed) + 1;
    let is_due = ended >= staying.load(Relaxed) / STAYING;
    unnoted.store(if is_due { 0 } else { ended }, Relaxed);
    is_due.then_some(ended)
}
