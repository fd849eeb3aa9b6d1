//! Setup tables, threads, timers and losses: reading, changing and resetting.

use std::sync::atomic::{
    AtomicU8, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::Engine;
use crate::clock::{monotonic_ns, ticks};
use crate::instance::{File, ShareSlot, SocketSlot, Synch, TableIo, TableLocks};
use crate::layout::cell::{Counts, IoCell, SummaryFamily, Viewer};
use crate::layout::program::Program;
use crate::memory::pool::{Pool, SYNCHS, held};
use crate::memory::text;
use crate::read::persistently;
use crate::setup::actors::ActorRule;
use crate::setup::instrument::{KINDS, LevelMove, lock};
use crate::setup::objects::ObjectRule;
use crate::snapshot::Recording;
use crate::snapshot::*;
use crate::thread::FoundThread;

impl Engine {
    /// Returns every instrument of `setup_instruments`, in the built-in's order.
    pub fn instruments(&self) -> Vec<Instrument> {
        self.registry.all_of(|kind| kind != Kind::Thread)
    }

    /// Sets ENABLED and TIMED on behalf of a person; `None` leaves one unchanged. Takes effect at once in
    /// every thread.
    pub fn set_instrument(&self, id: ClassId, enabled: Option<bool>, timed: Option<bool>) {
        let _one_at_a_time = lock(&self.filters);
        self.registry.set(id, |now| {
            now.enabled = enabled.unwrap_or(now.enabled);
            now.timed = timed.unwrap_or(now.timed);
            now.held = true;
        });
        self.decide_demand(self.registry.kind(id));
        self.change_settings();
    }

    /// Switches ENABLED and TIMED off where the host has them off. Nobody has set the instrument then.
    pub fn restrict_instrument(&self, id: ClassId, enabled: bool, timed: bool) {
        let _one_at_a_time = lock(&self.filters);
        self.registry.restrict(id, enabled, timed);
        self.decide_demand(self.registry.kind(id));
        self.change_settings();
    }

    /// Returns ENABLED and TIMED of an instrument.
    pub fn instrument_flags(&self, id: ClassId) -> (bool, bool) {
        self.registry.flags(id)
    }

    /// Sets LEVEL of an instrument on behalf of a person. `None` sets ENABLED to NO, a level sets it to YES.
    pub fn set_level(&self, id: ClassId, level: Option<Recording>) {
        self.set_levels(&[(id, level, true)]);
    }

    /// Sets LEVEL and HELD of several instruments at once on behalf of a person.
    pub fn set_levels(&self, settings: &[(ClassId, Option<Recording>, bool)]) {
        let _one_at_a_time = lock(&self.filters);
        for &(id, level, held) in settings {
            self.registry.set(id, |now| {
                now.set_level(level);
                now.held = held;
            });
            self.decide_demand(self.registry.kind(id));
        }
        self.change_settings();
    }

    /// Sets HELD of an instrument: whether [`Engine::move_levels`] leaves it alone.
    pub fn set_held(&self, id: ClassId, held: bool) {
        self.registry.set(id, |now| now.held = held);
    }

    /// Moves the levels of several instruments on behalf of the governor. Instruments that are held, or that
    /// a person has set since the move was decided, stay. Returns those that were moved.
    pub fn move_levels(&self, moves: &[LevelMove]) -> Vec<ClassId> {
        let _one_at_a_time = lock(&self.filters);
        let mut moved = Vec::with_capacity(moves.len());
        for it in moves {
            if self.registry.move_level(*it) {
                moved.push(it.id);
            }
            self.decide_demand(self.registry.kind(it.id));
        }
        self.change_settings();
        moved
    }

    /// Returns every class of threads.
    pub fn thread_instruments(&self) -> Vec<ThreadInstrument> {
        self.registry.threads()
    }

    /// Sets ENABLED and HISTORY of a class of threads; `None` leaves one unchanged. Applies to threads that
    /// begin later.
    pub fn set_thread_instrument(&self, id: ClassId, enabled: Option<bool>, history: Option<bool>) {
        self.registry.set(id, |now| {
            now.enabled = enabled.unwrap_or(now.enabled);
            now.timed = history.unwrap_or(now.timed);
        });
    }

    /// Returns whether a consumer is on.
    #[inline(always)]
    pub fn consumer(&self, consumer: Consumer) -> bool {
        self.consumers.load(Relaxed) & (1 << consumer as u32) != 0
    }

    /// Returns every consumer of the current shape, in the order of `setup_consumers`.
    pub fn consumers(&self) -> impl Iterator<Item = Consumer> {
        let extended = self.is_extended();
        Consumer::ALL.into_iter().filter(move |consumer| extended || !consumer.is_further())
    }

    /// Switches a consumer. Takes effect at once in every thread.
    pub fn set_consumer(&self, consumer: Consumer, on: bool) {
        if consumer.is_further() && !self.is_extended() {
            return;
        }
        let _one_at_a_time = lock(&self.filters);
        let bit = 1 << consumer as u32;
        let old = self.consumers.load(Relaxed);
        self.consumers.store(if on { old | bit } else { old & !bit }, Relaxed);
        KINDS.into_iter().for_each(|kind| self.decide_demand(kind));
        // A new thread waits for the lock and computes its mask from the new consumers. A thread that ends
        // waits, too, so no slab is written that has become something else.
        for (_, thread) in self.live_threads() {
            self.store_mask(thread);
        }
    }

    /// Returns every live thread.
    pub fn threads(&self) -> Vec<ThreadRow> {
        self.thread_rows(self.live_threads())
    }

    /// Returns the live threads with this key, usually one or none.
    pub fn threads_of(&self, key: ThreadKey) -> Vec<ThreadRow> {
        self.thread_rows(self.live_threads_with(key))
    }

    pub(super) fn live_threads_with(&self, key: ThreadKey) -> Vec<FoundThread> {
        self.live_threads_where(|thread_id, thread| match key {
            ThreadKey::Thread(id) => thread_id == id,
            ThreadKey::Connection(id) => thread.processlist_id.load(Relaxed) == id,
        })
    }

    pub(super) fn thread_rows(&self, threads: Vec<FoundThread>) -> Vec<ThreadRow> {
        let now_s = (crate::clock::wall_us() / 1_000_000).cast_signed();
        threads.into_iter().filter_map(|found| self.thread_row(found, now_s)).collect()
    }

    fn thread_row(&self, (id, thread): FoundThread, now_s: i64) -> Option<ThreadRow> {
        let nonzero = |value: u64| (value != 0).then_some(value);
        let some = |bytes: String| (!bytes.is_empty()).then_some(bytes);
        let host = self.host.get()?;
        let texts = thread.text(self)?;
        let (user, host_name, db, info) = thread.read_texts(|| {
            let info = match thread.info_len.load(Relaxed) {
                u32::MAX => None,
                len => Some(text::read_string(&texts.info, len as usize)),
            };
            (
                text::read_string(&texts.user, texts.user_len.load(Relaxed) as usize),
                text::read_string(&texts.host, texts.host_len.load(Relaxed) as usize),
                text::read_string(&texts.db, texts.db_len.load(Relaxed) as usize),
                info,
            )
        });
        let state = self.stage_name(thread).and_then(|name| name.splitn(3, '/').nth(2)).map(str::to_owned);
        let foreground = thread.processlist_id.load(Relaxed) != 0;
        let name = self.registry.name(thread.class.load(Relaxed));
        // The built-in shows only what it was told, so this applies to `extended` only.
        let system = if self.extended.load(Relaxed) { host.system_thread(name) } else { None };
        let system_user = system.and_then(|it| Some((it.user?.to_owned(), it.host.to_owned())));
        let (user, host_name) =
            system_user.map_or((some(user), some(host_name)), |(user, host)| (Some(user), Some(host)));
        let listed = || match thread.session.load(Acquire) {
            // No session is reported for the threads of replicas.
            0 => self.number_of_replicas_thread(thread),
            session => host.session_number(session),
        };
        let number = nonzero(thread.processlist_id.load(Relaxed));
        // A connection that has not reported a command is asleep, which is command 0.
        let command =
            thread.command.load(Relaxed).checked_sub(1).or(system.map(|it| it.command)).unwrap_or(0);
        let command = if foreground || system.is_some() { host.command_name(command) } else { None };
        let start_s = thread.start_time_s.load(Relaxed);
        let connection_type = self.connection_type(thread);
        let row = ThreadRow {
            thread_id: id,
            name,
            foreground,
            processlist_id: number,
            listed_id: number.or_else(|| system.and_then(|_| listed())),
            user,
            host: host_name,
            db: some(db),
            command,
            time_s: (start_s != 0).then(|| (now_s - start_s).max(0)),
            state,
            info,
            parent_thread_id: nonzero(thread.parent_thread_id.load(Relaxed)),
            instrumented: thread.instrumented.load(Relaxed) != 0,
            history: thread.history.load(Relaxed) != 0,
            connection_type,
            os_id: nonzero(thread.os_id.load(Relaxed)),
            total_memory: thread.memory.used(),
            max_total_memory: thread.memory.most(),
        };
        self.still_lives(thread, id).then_some(row)
    }

    /// Sets INSTRUMENTED and HISTORY of a live thread; `None` leaves one unchanged. Returns false if the
    /// thread has ended.
    pub fn set_thread(&self, thread_id: u64, instrumented: Option<bool>, history: Option<bool>) -> bool {
        let _one_at_a_time = lock(&self.filters);
        let mut threads = self.live_threads().into_iter();
        let Some((_, thread)) = threads.find(|(id, _)| *id == thread_id) else {
            return false;
        };
        if let Some(on) = instrumented {
            thread.instrumented.store(u8::from(on), Relaxed);
        }
        if let Some(on) = history {
            thread.history.store(u8::from(on), Relaxed);
        }
        self.store_mask(thread);
        true
    }

    /// Returns the rows of `performance_timers`.
    pub fn timers(&self) -> Vec<TimerRow> {
        let rate = self.clock.rate();
        let hertz = ((1_000_000_000_000u128 << 32) / u128::from(rate.max(1))) as u64;
        let row = |name, frequency: u64, overhead| TimerRow {
            name,
            frequency: Some(frequency),
            resolution: Some(1),
            overhead: Some(overhead),
        };
        let clock = overhead(monotonic_ns);
        let mut rows = Vec::new();
        if self.clock.counts_cycles() {
            rows.push(row("CYCLE", hertz, overhead(ticks)));
        } else {
            rows.push(TimerRow { name: "CYCLE", frequency: None, resolution: None, overhead: None });
        }
        rows.push(row("NANOSECOND", 1_000_000_000, clock));
        rows.push(row("MICROSECOND", 1_000_000, clock));
        rows.push(row("MILLISECOND", 1_000, clock));
        rows.push(TimerRow { name: "TICK", frequency: None, resolution: None, overhead: None });
        rows
    }

    /// Returns the rows of `setup_timers`.
    pub fn timer_settings(&self) -> Vec<TimerSetting> {
        let timer = |at: &AtomicU8| TIMER_NAMES[at.load(Relaxed) as usize % TIMER_NAMES.len()];
        let setting = |(name, at)| TimerSetting { name, timer: timer(at) };
        TIMED_EVENTS.into_iter().zip(&self.timers).map(setting).collect()
    }

    /// Changes a row of `setup_timers`. Times do not change: there is one clock. Returns false if a name is
    /// unknown.
    pub fn set_timer(&self, setting: TimerSetting) -> bool {
        let place = TIMED_EVENTS.iter().zip(&self.timers).find(|(name, _)| **name == setting.name);
        let timer = TIMER_NAMES.iter().position(|timer| *timer == setting.timer);
        let (Some((_, place)), Some(timer)) = (place, timer) else { return false };
        place.store(timer as u8, Relaxed);
        true
    }

    /// Returns the number of objects that did not fit, by kind.
    pub fn lost(&self) -> Vec<LostRow> {
        self.losses.rows()
    }

    /// Returns the counters of losses for the host's status variables. The host may set them to zero.
    pub fn lost_counters(&self) -> impl Iterator<Item = (&'static str, &AtomicU64)> {
        self.losses.shown()
    }

    /// Returns the bytes of memory handed out, and the cap.
    pub fn memory(&self) -> (u64, u64) {
        self.arena.usage()
    }

    /// Implements TRUNCATE.
    pub fn reset(&self, what: Reset) {
        let _one_at_a_time = lock(&self.truncates);
        match what {
            Reset::Events(of, scope) => self.reset_events(of, scope),
            Reset::Summary(EventType::Wait, grouping) => {
                self.reset_summary(SummaryFamily::Waits, grouping);
                if grouping == Grouping::Global {
                    self.reset_instances();
                }
            }
            Reset::Summary(EventType::Stage, grouping) => self.reset_summary(SummaryFamily::Stages, grouping),
            Reset::Summary(EventType::Statement, grouping) => {
                self.reset_summary(SummaryFamily::Statements, grouping)
            }
            Reset::Summary(EventType::Transaction, grouping) => {
                self.reset_summary(SummaryFamily::Transactions, grouping)
            }
            Reset::Memory(grouping) => self.reset_summary(SummaryFamily::Memory, grouping),
            Reset::Errors(grouping) => self.reset_summary(SummaryFamily::Errors, grouping),
            Reset::Connections(grouping) => self.reset_connections(grouping),
            Reset::Sessions(grouping) => self.reset_sessions(grouping),
            Reset::Digests => self.reset_digests(),
            Reset::DigestHistograms => self.truncate_digest_histograms(),
            Reset::Histograms(of) => self.truncate_event_histograms(of),
            Reset::Files => self.reset_files(),
            Reset::Sockets => self.reset_sockets(),
            Reset::Instances => {
                self.reset_files();
                self.reset_sockets();
                self.reset_synchs();
            }
            Reset::TableIo => self.reset_table_io(),
            Reset::TableLock => self.reset_table_locks(),
            Reset::Objects => {
                self.reset_table_io();
                self.reset_table_locks();
            }
            Reset::Programs => self.reset_programs(),
            Reset::Prepared => self.bump_epoch(SummaryFamily::Prepared, &[Viewer::Global]),
            Reset::ActorRules => self.clear_rules::<ActorRule>(),
            Reset::ObjectRules => self.clear_rules::<ObjectRule>(),
            Reset::ActiveHistory => self.active.truncate(),
        }
    }

    fn reset_events(&self, of: EventType, scope: Scope) {
        let _one_at_a_time = lock(&self.filters);
        let (of, scope) = (of as usize - 1, scope as usize);
        for (_, thread) in self.live_threads() {
            thread.hidden[of][scope].store(thread.event_id.load(Relaxed), Relaxed);
        }
        self.hidden_before[of][scope].store(ticks(), Relaxed);
    }

    fn bump_epoch(&self, family: SummaryFamily, viewers: &[Viewer]) {
        let _one_at_a_time = lock(&self.filters);
        // No epoch is 0, which is what a missing cell reads as.
        let now = self.epochs[family as usize].load(Relaxed).wrapping_add(1).max(1);
        for viewer in viewers {
            self.resets[family as usize][*viewer as usize].store(now, Relaxed);
        }
        self.epochs[family as usize].store(now, Release);
        self.change_settings();
    }

    /// Waits until the caller's fold is the only one in progress. TRUNCATE calls it between the new epoch and
    /// the emptying of sums: a fold that began before may add to them what the new epoch does not count.
    pub(crate) fn await_other_folds(&self) {
        let _gave_up = persistently(|| self.folds.is_single().then_some(()), || true);
    }

    /// Resets a summary. The built-in resets a summary together with all it is made of, except that the
    /// global summary of waits is independent of those of threads.
    pub(crate) fn reset_summary(&self, family: SummaryFamily, grouping: Grouping) {
        use Viewer::*;
        let viewers: &[Viewer] = match (grouping, family) {
            (Grouping::Thread, _) => &[Thread],
            (Grouping::Account, _) => &[Thread, Account],
            (Grouping::User, _) => &[Thread, Account, User],
            (Grouping::Host, _) => &[Thread, Account, Host],
            (Grouping::Global, SummaryFamily::Waits) => &[Global],
            (Grouping::Global, _) => &[Thread, Account, User, Host, Global],
        };
        if family == SummaryFamily::Memory {
            self.note_all();
        }
        self.folds.begin();
        self.bump_epoch(family, viewers);
        self.await_other_folds();
        self.reset_sums(family, viewers);
        self.folds.end();
    }

    /// Resets the sums by instance that the global summary of waits is made of, as in the built-in.
    fn reset_instances(&self) {
        self.reset_files();
        self.reset_sockets();
        self.reset_synchs();
        self.reset_table_io();
        self.reset_table_locks();
    }

    fn reset_synchs(&self) {
        for pool in SYNCHS {
            self.pools.each::<Synch>(&self.arena, pool, |synch| synch.waits.clear_shared());
        }
    }

    fn reset_ended_io(&self, kind: Kind) {
        self.ended_io.each(&self.arena, |class, cell| {
            if self.registry.kind(class) == kind {
                self.arena.at::<IoCell>(cell).io.clear_shared();
            }
        });
    }

    fn reset_sockets(&self) {
        self.folds.begin();
        self.bump_epoch(SummaryFamily::Sockets, &[Viewer::Global]);
        self.pools.each::<SocketSlot>(&self.arena, Pool::Sockets, |socket| socket.others.clear_shared());
        self.await_other_folds();
        self.reset_ended_io(Kind::Socket);
        self.folds.end();
    }

    fn reset_files(&self) {
        self.folds.begin();
        self.pools.each::<File>(&self.arena, Pool::Files, |file| file.io.clear_shared());
        self.await_other_folds();
        self.reset_ended_io(Kind::File);
        self.folds.end();
    }

    fn reset_programs(&self) {
        self.folds.begin();
        self.bump_epoch(SummaryFamily::Programs, &[Viewer::Global]);
        self.await_other_folds();
        self.pools.each::<Program>(&self.arena, Pool::Programs, |program| program.counts.clear_shared());
        self.folds.end();
    }

    fn reset_table_io(&self) {
        // Whoever closes a table adds its counts to the share's with plain stores.
        let _turn = lock(&self.share_changes);
        self.bump_epoch(SummaryFamily::TableIo, &[Viewer::Global]);
        self.pools.each::<ShareSlot>(&self.arena, Pool::Tables, |share| self.clear_table_io(share));
    }

    fn reset_table_locks(&self) {
        let _turn = lock(&self.share_changes);
        self.bump_epoch(SummaryFamily::TableLock, &[Viewer::Global]);
        self.pools.each::<ShareSlot>(&self.arena, Pool::Tables, |share| self.clear_table_locks(share));
    }

    /// Clears the I/O counts of closed handles.
    pub(crate) fn clear_table_io(&self, share: &ShareSlot) {
        let held_io = |io: &AtomicU32| held::<TableIo>(&self.arena, Pool::TableIo, io.load(Acquire));
        for (_held, io) in share.io.iter().filter_map(held_io) {
            io.parts.iter().for_each(Counts::clear_shared);
            io.epoch.store(self.epochs[SummaryFamily::TableIo as usize].load(Relaxed), Relaxed);
        }
    }

    /// Clears the lock counts of closed handles.
    pub(crate) fn clear_table_locks(&self, share: &ShareSlot) {
        let locks = held::<TableLocks>(&self.arena, Pool::TableLocks, share.locks.load(Acquire));
        if let Some((_held, locks)) = locks {
            locks.parts.iter().for_each(Counts::clear_shared);
            locks.epoch.store(self.epochs[SummaryFamily::TableLock as usize].load(Relaxed), Relaxed);
        }
    }
}

/// Returns the smallest of 20 measured differences of two reads of a timer, in the timer's unit.
fn overhead(timer: impl Fn() -> u64) -> u64 {
    (0..20)
        .map(|_| {
            let start = timer();
            timer() - start
        })
        .min()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Registration;
    use crate::layout::cell::{IoCounts, READ, SampleWeight};

    /// Runs `reset` while a fold is in progress that has found before that what it moves counts, and that
    /// adds it once `has_begun` says that the reset is under way.
    fn reset_during_fold(
        engine: &'static Engine,
        reset: Reset,
        has_begun: impl Fn() -> bool,
        add: impl FnOnce(),
    ) {
        engine.folds.begin();
        std::thread::scope(|scope| {
            scope.spawn(move || engine.reset(reset));
            while !has_begun() {
                std::thread::yield_now();
            }
            (0..10).for_each(|_| std::thread::yield_now());
            add();
            engine.folds.end();
        });
    }

    #[test]
    fn truncate_empties_sums_when_folds_that_began_before_have_added_to_them() {
        let engine = Engine::small();
        let program = engine.pools.take::<Program>(&engine.arena, Pool::Programs, 0).expect("memory");
        program.head.publish();
        let epoch = || engine.epochs[SummaryFamily::Programs as usize].load(Relaxed);
        let (before, calls) = (epoch(), &program.counts.calls);
        reset_during_fold(engine, Reset::Programs, || epoch() != before, || calls.add_shared(1, None));
        assert_eq!(calls.plain().count, 0);

        let properties = Properties::default();
        let class = engine.register(Registration { kind: Kind::File, name: "wait/io/file/a", properties });
        let file = engine.pools.take::<File>(&engine.arena, Pool::Files, class).expect("memory");
        file.head.publish();
        let ended = engine.ended_io.bank.cell::<IoCell>(&engine.arena, class).expect("made");
        let count = |io: &IoCounts| io.parts[READ].stat.plain().count;
        let add = |io: &IoCounts| io.add_shared(READ, None, 1, SampleWeight::ONE);
        add(&file.io);
        reset_during_fold(engine, Reset::Files, || count(&file.io) == 0, || add(&ended.io));
        assert_eq!(count(&ended.io), 0);
    }
}
