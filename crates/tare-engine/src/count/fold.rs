//! HOT PATH: where figures go that leave their thread, because it ends or because a reset has passed them.
//!
//! They go to every sum above the thread that still counts them, and so that nothing is counted twice: to the account's,
//! which is its user's and its host's, too; where the account has no place or has been reset, to those two themselves;
//! and to the sum of all.

use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::Engine;
use crate::count::account::{ACCOUNT, HOST, Party, USER};
use crate::count::bank::{Sums, with_cell};
use crate::count::cell::{Cell, Family, Viewer};
use crate::count::error::ErrorCell;
use crate::count::register::Registered;
use crate::count::spread;
use crate::memory::arena::Own;
use crate::memory::lost::Lost;
use crate::snapshot::{ClassId, Kind};
use crate::thread::{BANK_ERRORS, BANK_OWN, BANK_THREAD_ONLY, BANK_UNATTRIBUTED, Thread};

impl Engine {
    /// Whether a cell begun in epoch `then` still counts for `viewer`.
    #[inline]
    pub(crate) fn counts_for(&self, family: Family, viewer: Viewer, then: u32) -> bool {
        let reset = self.resets[family as usize][viewer as usize].load(Acquire);
        // Epochs rise by one; the difference survives wrapping round.
        then.wrapping_sub(reset).cast_signed() >= 0
    }

    /// What has ended, of all.
    pub(crate) fn ended_sums(&self, family: Family) -> &Sums {
        if family == Family::Errors { &self.ended_errors } else { &self.ended }
    }

    /// What the number of a cell stands for: an instrument, or in the sums of errors an error.
    pub(crate) fn kind_in(&self, family: Family, class: ClassId) -> Kind {
        if family == Family::Errors { Kind::Error } else { self.registry.kind(class) }
    }

    /// The sums above one of a thread's banks, of those viewers that `count`.
    fn above(
        &self,
        thread: &Thread,
        bank: usize,
        family: Family,
        counts: impl Fn(Viewer) -> bool,
    ) -> [Option<&Sums>; 3] {
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

    /// An instrument's cells above one of a thread's banks.
    fn cells_above<C: Cell>(
        &self,
        thread: &Thread,
        bank: usize,
        class: ClassId,
        family: Family,
        counts: impl Fn(Viewer) -> bool,
    ) -> [Option<&'static C>; 3] {
        self.above(thread, bank, family, counts).map(|sums| self.sum_cell(sums?, class))
    }

    /// The cell of `class`, made if need be. A party's sums leave a part of the memory to those who are connected.
    pub(crate) fn sum_cell<C: Cell>(&self, sums: &Sums, class: ClassId) -> Option<&'static C> {
        // What another thread has made is seen whole: as a reader sees it.
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

    /// Adds all a thread that ends has counted to what is above it.
    pub(crate) fn fold_thread(&self, thread: &Thread) {
        self.catch_up(thread);
        self.flush_digests(thread);
        self.fold_programs(thread);
        let account = self.known_account(thread);
        for bank in [BANK_OWN, BANK_UNATTRIBUTED, BANK_THREAD_ONLY] {
            let known = account.filter(|_| bank == BANK_OWN);
            for cell in thread.cells(self, bank) {
                let kind = self.registry.kind(cell.class());
                with_cell!(kind, C => self.fold_ended::<C>(thread, bank, known, cell, Family::of(kind)));
            }
        }
        let errors = thread.cells(self, BANK_ERRORS);
        errors.for_each(|cell| self.fold_ended::<ErrorCell>(thread, BANK_OWN, None, cell, Family::Errors));
    }

    /// The account of a thread that ends. Another one than before has other sums: nobody has looked for cells there.
    fn known_account(&self, thread: &Thread) -> Option<&'static Party> {
        let account = self.party(thread, ACCOUNT);
        let now = account.map_or([0; 2], |it| [self.arena.offset_of(it), it.head.generation()]);
        if thread.folds_into.each_ref().map(Own::own) != now {
            thread.cells(self, BANK_OWN).for_each(|cell| cell.account.store(0, Relaxed));
            thread.folds_into.iter().zip(now).for_each(|(word, now)| word.store(now, Relaxed));
        }
        account
    }

    /// Folds a cell to where it counts. `known`: the account in whose sums the cells of this bank have been looked up. One that no
    /// reset has passed counts there and in the sum of all, and need not be looked up again.
    #[inline(always)]
    fn fold_ended<C: Cell>(
        &self,
        thread: &Thread,
        bank: usize,
        known: Option<&Party>,
        registered: &Registered,
        family: Family,
    ) {
        let (cell, class): (&C, _) = (self.arena.at(registered.cell()), registered.class());
        spread::end_counting(&self.arena, cell);
        if cell.is_untouched() {
            if cell.holds_vain_time() {
                cell.clear(&self.arena);
            }
            return;
        }
        let is_of_today = cell.head().epoch.own() == self.epochs[family as usize].load(Relaxed);
        let of = |place: &AtomicU32, sums: &Sums| match place.own() {
            0 => self.known_sum_cell::<C>(place, sums, class),
            place => Some(self.arena.at(place)),
        };
        let into = match known.filter(|_| is_of_today) {
            Some(account) => {
                let account = of(&registered.account, account.sums(family));
                [account, None, of(&registered.all, self.ended_sums(family))]
            }
            None => self.cells_above_ended(thread, bank, cell, class, family),
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

    /// As [`Engine::sum_cell`], which is known from then on.
    #[cold]
    #[inline(never)]
    fn known_sum_cell<C: Cell>(&self, known: &AtomicU32, sums: &Sums, class: ClassId) -> Option<&'static C> {
        let found = self.sum_cell::<C>(sums, class)?;
        known.store(self.arena.offset_of(found), Relaxed);
        Some(found)
    }

    /// Where a cell of a thread that ends is to be folded. What its memory dropped before a reset is there already.
    #[inline(never)]
    fn cells_above_ended<C: Cell>(
        &self,
        thread: &Thread,
        bank: usize,
        cell: &C,
        class: ClassId,
        family: Family,
    ) -> [Option<&'static C>; 3] {
        let then = cell.head().epoch.load(Relaxed);
        let counts = |viewer| self.counts_for(family, viewer, then);
        if family != Family::Memory {
            return self.cells_above(thread, bank, class, family, counts);
        }
        // What is in use counts on, whatever has been reset.
        if !counts(Viewer::Thread) {
            cell.drain(&self.arena, &self.cells_above(thread, bank, class, family, counts));
        }
        self.cells_above(thread, bank, class, family, |_| true)
    }

    /// Adds a cell's histogram to that of all, if it counts there, of the cells above it: nobody else has one.
    fn fold_histogram<C: Cell>(&self, cell: &C, [.., all]: [Option<&C>; 3]) {
        if let Some(all) = all {
            self.fold_spread(cell.head(), &all.head().histogram);
        }
    }

    /// A cell of an older epoch: what it holds goes to where it still counts, and it begins anew.
    #[cold]
    pub(crate) fn renew<C: Cell>(
        &self,
        thread: &'static Thread,
        bank: usize,
        class: ClassId,
        family: Family,
        cell: &'static C,
    ) -> Option<&'static C> {
        let then = cell.head().epoch.load(Relaxed);
        let now = self.epochs[family as usize].load(Relaxed);
        let counts = |viewer| self.counts_for(family, viewer, then);
        self.catch_up(thread);
        self.folds.begin();
        spread::end_counting(&self.arena, cell);
        if bank == BANK_OWN && counts(Viewer::Thread) && !counts(Viewer::Global) {
            // Only the global summary of waits is reset without the threads'.
            if let Some(kept) = self.kept_cell::<C>(thread, class, family) {
                cell.append(&self.arena, kept);
            }
            cell.clear(&self.arena);
        } else {
            let above = self.cells_above(thread, bank, class, family, counts);
            cell.drain(&self.arena, &above);
            self.fold_histogram(cell, above);
            spread::clear(&self.arena, cell.head());
        }
        cell.head().epoch.store(now, Release);
        self.folds.end();
        Some(cell)
    }

    /// Where a thread keeps what the global summary no longer counts.
    fn kept_cell<C: Cell>(
        &self,
        thread: &'static Thread,
        class: ClassId,
        family: Family,
    ) -> Option<&'static C> {
        match thread.banks[BANK_THREAD_ONLY].cell::<C>(&self.arena, class) {
            Some(kept) => {
                self.renew_kept(thread, class, family, kept);
                Some(kept)
            }
            None => self.make_cell(thread, BANK_THREAD_ONLY, class, family),
        }
    }

    fn renew_kept<C: Cell>(&self, thread: &Thread, class: ClassId, family: Family, kept: &C) {
        let then = kept.head().epoch.load(Relaxed);
        let counts = |viewer| self.counts_for(family, viewer, then);
        if !counts(Viewer::Thread) {
            kept.drain(&self.arena, &self.cells_above(thread, BANK_THREAD_ONLY, class, family, counts));
        }
        kept.head().epoch.store(self.epochs[family as usize].load(Relaxed), Relaxed);
    }

    /// Renews every cell that a reset has passed, before its thread gets another account.
    pub(crate) fn fold_stale(&self, thread: &'static Thread) {
        for bank in [BANK_OWN, BANK_THREAD_ONLY] {
            for cell in thread.cells(self, bank) {
                let kind = self.registry.kind(cell.class());
                with_cell!(kind, C => self.fold_stale_cell::<C>(thread, bank, cell, Family::of(kind)));
            }
        }
        let errors = thread.cells(self, BANK_ERRORS);
        errors.for_each(|cell| self.fold_stale_cell::<ErrorCell>(thread, BANK_OWN, cell, Family::Errors));
    }

    fn fold_stale_cell<C: Cell>(
        &self,
        thread: &'static Thread,
        bank: usize,
        registered: &Registered,
        family: Family,
    ) {
        let (cell, class): (&C, _) = (self.arena.at(registered.cell()), registered.class());
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
