//! HOT PATH: where counts go that leave their thread, because it ends or because a reset has passed them.
//!
//! They go to every sum above the thread that still counts them, but to none twice. First the account's sums,
//! which its user and host share; if the account has no slot or has been reset, the user's and the host's own
//! sums instead. Then the sum of all.

use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::Engine;
use crate::count::account::{ACCOUNT, HOST, Party, USER};
use crate::layout::bank::{SharedBank, with_cell};
use crate::layout::cell::{Cell, RETIRED, SummaryFamily, Viewer};
use crate::layout::cell_list::ListedCell;
use crate::layout::error::ErrorCell;
use crate::layout::histograms;
use crate::memory::arena::Own;
use crate::memory::lost::Lost;
use crate::snapshot::{ClassId, Kind};
use crate::thread::{BANK_ERRORS, BANK_OWN, BANK_THREAD_ONLY, BANK_UNATTRIBUTED, Thread};

impl Engine {
    /// Returns whether a cell begun in epoch `then` still counts for `viewer`.
    #[inline]
    pub(crate) fn counts_for(&self, family: SummaryFamily, viewer: Viewer, then: u32) -> bool {
        let reset = self.resets[family as usize][viewer as usize].load(Acquire);
        // Epochs rise by one; the difference is correct even after they wrap around.
        then.wrapping_sub(reset).cast_signed() >= 0
    }

    /// Returns the sums over everything that has ended.
    pub(crate) fn ended_sums(&self, family: SummaryFamily) -> &SharedBank {
        if family == SummaryFamily::Errors { &self.ended_errors } else { &self.ended }
    }

    /// Returns the kind that a cell's number stands for: that of an instrument, or `Error` in the sums of
    /// errors.
    pub(crate) fn kind_in(&self, family: SummaryFamily, class: ClassId) -> Kind {
        if family == SummaryFamily::Errors { Kind::Error } else { self.registry.kind(class) }
    }

    /// Returns the sums above one of a thread's banks, for those viewers for whom `counts` is true.
    fn above(
        &self,
        thread: &Thread,
        bank: usize,
        family: SummaryFamily,
        counts: impl Fn(Viewer) -> bool,
    ) -> [Option<&SharedBank>; 3] {
        let of = |kind, viewer| {
            let counts = bank != BANK_UNATTRIBUTED && counts(viewer);
            self.party(thread, kind).filter(|_| counts).map(|party| party.sums(family))
        };
        let all = (bank != BANK_THREAD_ONLY && counts(Viewer::Global)).then(|| self.ended_sums(family));
        match of(ACCOUNT, Viewer::Account) {
            Some(account) => [Some(account), None, all],
            None => [of(USER, Viewer::User), of(HOST, Viewer::Host), all],
        }
    }

    /// Returns an instrument's cells above one of a thread's banks.
    fn cells_above<C: Cell>(
        &self,
        thread: &Thread,
        bank: usize,
        class: ClassId,
        family: SummaryFamily,
        counts: impl Fn(Viewer) -> bool,
    ) -> [Option<&'static C>; 3] {
        self.above(thread, bank, family, counts).map(|sums| self.sum_cell(sums?, class))
    }

    /// Returns the cell of `class`, created if necessary. A party's sums leave part of the memory to
    /// connections.
    pub(crate) fn sum_cell<C: Cell>(&self, sums: &SharedBank, class: ClassId) -> Option<&'static C> {
        // `peek`, since another thread may have created it.
        if let Some(cell) = sums.bank.peek(&self.arena, class) {
            return Some(cell);
        }
        let is_global = [&self.ended, &self.ended_errors].into_iter().any(|all| std::ptr::eq(sums, all));
        let made = if is_global || !self.arena.is_scarce() { sums.make(&self.arena, class) } else { None };
        if made.is_none() {
            self.losses.count(if is_global { Lost::Cells } else { Lost::PartyCells });
        }
        made
    }

    /// Adds everything that an ended thread has counted to the sums above it, and notes their spans of memory
    /// if it is time. Callers hold the lock of the parties.
    pub(crate) fn fold_thread(&self, thread: &Thread) {
        self.catch_up(thread);
        self.fold_seen_digests(thread);
        self.fold_programs(thread);
        let account = self.known_account(thread);
        let ended = account.and_then(Party::ended_unnoted);
        let noting = account.filter(|_| ended == Some(1));
        for bank in [BANK_OWN, BANK_UNATTRIBUTED, BANK_THREAD_ONLY, BANK_ERRORS] {
            let known = account.filter(|_| bank == BANK_OWN);
            thread.retain_cells(self, bank, |listed| {
                with_cell!(listed.kind(), C => {
                    let cell: &C = self.arena.at(listed.cell());
                    if cell.is_empty() {
                        let stays = listed.note_use(false) || bank != BANK_OWN;
                        if !stays {
                            self.retire_cell(thread, listed.class(), cell.head());
                        }
                        return stays;
                    }
                    listed.note_use(true);
                    if listed.kind() == Kind::Memory && let Some(account) = noting && known.is_some() {
                        self.note_member(account, listed);
                    }
                    self.fold_ended::<C>(thread, bank, known, listed);
                    true
                })
            });
        }
        self.note_above(thread, ended);
    }

    /// Returns the account of an ended thread. If it is not the one from before, the places of cells in its
    /// sums are forgotten.
    fn known_account(&self, thread: &Thread) -> Option<&'static Party> {
        let account = self.party(thread, ACCOUNT);
        let now = account.map_or([0; 2], |it| [self.arena.offset_of(it), it.head.generation()]);
        if thread.folds_into.each_ref().map(Own::own) != now {
            thread.cells(self, BANK_OWN).for_each(|cell| cell.account.store(0, Relaxed));
            thread.folds_into.iter().zip(now).for_each(|(word, now)| word.store(now, Relaxed));
        }
        account
    }

    /// Folds a cell of one of a thread's banks to where it counts. `known` is the account in whose sums this
    /// bank's cells have been looked up. A cell that no reset has passed counts there and in the sum of all,
    /// and needs no further lookup.
    #[inline(never)]
    fn fold_ended<C: Cell>(&self, thread: &Thread, bank: usize, known: Option<&Party>, listed: &ListedCell) {
        let (cell, class, family): (&C, _, _) =
            (self.arena.at(listed.cell()), listed.class(), SummaryFamily::of(listed.kind()));
        histograms::end_counting(&self.arena, cell);
        if cell.is_untouched() {
            if cell.holds_vain_time() {
                cell.clear(&self.arena);
            }
            return;
        }
        let is_of_today = cell.head().epoch.own() == self.epochs[family as usize].load(Relaxed);
        let of = |place: &AtomicU32, sums: &SharedBank| match place.own() {
            0 => self.known_sum_cell::<C>(place, sums, class),
            place => Some(self.arena.at(place)),
        };
        let into = match known.filter(|_| is_of_today) {
            Some(account) => {
                let account = of(&listed.account, account.sums(family));
                [account, None, of(&listed.all, self.ended_sums(family))]
            }
            None => {
                let bank = if bank == BANK_ERRORS { BANK_OWN } else { bank };
                self.cells_above_ended(thread, bank, cell, class, family)
            }
        };
        let [parties @ .., all] = into;
        parties.into_iter().flatten().for_each(|to| cell.fold(&self.arena, to));
        if self.party(thread, HOST).is_some() {
            cell.forget_marks();
        }
        all.into_iter().for_each(|to| cell.fold(&self.arena, to));
        self.fold_histogram(cell, into);
        cell.clear(&self.arena);
    }

    /// Returns the cell of `class` in `sums`, created if necessary, and stores its place in `known`.
    #[cold]
    #[inline(never)]
    pub(super) fn known_sum_cell<C: Cell>(
        &self,
        known: &AtomicU32,
        sums: &SharedBank,
        class: ClassId,
    ) -> Option<&'static C> {
        let found = self.sum_cell::<C>(sums, class)?;
        known.store(self.arena.offset_of(found), Relaxed);
        Some(found)
    }

    /// Returns the cells into which to fold a cell of an ended thread. What its memory dropped before a reset
    /// is moved there first.
    #[inline(never)]
    fn cells_above_ended<C: Cell>(
        &self,
        thread: &Thread,
        bank: usize,
        cell: &C,
        class: ClassId,
        family: SummaryFamily,
    ) -> [Option<&'static C>; 3] {
        let then = cell.head().epoch.load(Relaxed);
        let counts = |viewer| self.counts_for(family, viewer, then);
        if family != SummaryFamily::Memory {
            return self.cells_above(thread, bank, class, family, counts);
        }
        // Memory in use goes on counting, whatever has been reset.
        if !counts(Viewer::Thread) {
            cell.drain(&self.arena, &self.cells_above(thread, bank, class, family, counts));
        }
        self.cells_above(thread, bank, class, family, |_| true)
    }

    /// Adds a cell's histogram to that of all, if it counts there. No other cell above has one.
    fn fold_histogram<C: Cell>(&self, cell: &C, [.., all]: [Option<&C>; 3]) {
        if let Some(all) = all {
            self.fold_buckets(cell.head(), &all.head().histogram);
        }
    }

    /// Restarts a cell of an older epoch, after folding it to where it still counts.
    #[cold]
    pub(crate) fn renew<C: Cell>(
        &self,
        thread: &'static Thread,
        bank: usize,
        class: ClassId,
        family: SummaryFamily,
        cell: &'static C,
    ) -> Option<&'static C> {
        let then = cell.head().epoch.load(Relaxed);
        if then == RETIRED {
            return self.list_again(thread, class, family, cell);
        }
        let now = self.epochs[family as usize].load(Relaxed);
        let counts = |viewer| self.counts_for(family, viewer, then);
        self.catch_up(thread);
        self.folds.begin();
        histograms::end_counting(&self.arena, cell);
        if bank == BANK_OWN && counts(Viewer::Thread) && !counts(Viewer::Global) {
            // Only the global summary of waits is reset without those of threads.
            if let Some(kept) = self.kept_cell::<C>(thread, class, family) {
                cell.append(&self.arena, kept);
            }
            cell.clear(&self.arena);
        } else {
            let above = self.cells_above(thread, bank, class, family, counts);
            cell.drain(&self.arena, &above);
            self.fold_histogram(cell, above);
            histograms::clear(&self.arena, cell.head());
        }
        cell.head().epoch.store(now, Release);
        self.folds.end();
        Some(cell)
    }

    /// Returns the cell in which a thread keeps what the global summary no longer counts.
    fn kept_cell<C: Cell>(
        &self,
        thread: &'static Thread,
        class: ClassId,
        family: SummaryFamily,
    ) -> Option<&'static C> {
        match thread.banks[BANK_THREAD_ONLY].cell::<C>(&self.arena, class) {
            Some(kept) => {
                self.renew_kept(thread, class, family, kept);
                Some(kept)
            }
            None => self.make_cell(thread, BANK_THREAD_ONLY, class, family),
        }
    }

    fn renew_kept<C: Cell>(&self, thread: &Thread, class: ClassId, family: SummaryFamily, kept: &C) {
        let then = kept.head().epoch.load(Relaxed);
        let counts = |viewer| self.counts_for(family, viewer, then);
        if !counts(Viewer::Thread) {
            kept.drain(&self.arena, &self.cells_above(thread, BANK_THREAD_ONLY, class, family, counts));
        }
        kept.head().epoch.store(self.epochs[family as usize].load(Relaxed), Relaxed);
    }

    /// Renews every cell that a reset has passed, before its thread moves to another account.
    #[cold]
    #[inline(never)]
    pub(crate) fn fold_stale(&self, thread: &'static Thread) {
        for bank in [BANK_OWN, BANK_THREAD_ONLY] {
            for cell in thread.cells(self, bank) {
                let kind = self.registry.kind(cell.class());
                with_cell!(kind, C => self.fold_stale_cell::<C>(thread, bank, cell, SummaryFamily::of(kind)));
            }
        }
        let errors = thread.cells(self, BANK_ERRORS);
        errors.for_each(|cell| {
            self.fold_stale_cell::<ErrorCell>(thread, BANK_OWN, cell, SummaryFamily::Errors)
        });
    }

    fn fold_stale_cell<C: Cell>(
        &self,
        thread: &'static Thread,
        bank: usize,
        listed: &ListedCell,
        family: SummaryFamily,
    ) {
        let (cell, class): (&C, _) = (self.arena.at(listed.cell()), listed.class());
        if cell.head().epoch.load(Relaxed) == self.epochs[family as usize].load(Relaxed) {
            return;
        }
        if bank == BANK_OWN {
            self.renew(thread, bank, class, family, cell);
        } else {
            self.folds.begin();
            self.renew_kept(thread, class, family, cell);
            self.folds.end();
        }
    }
}
