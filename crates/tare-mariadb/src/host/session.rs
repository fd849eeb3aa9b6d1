//! The server's sessions: the counters that each keeps for `SHOW SESSION STATUS`, and the detection of FLUSH
//! STATUS.
//!
//! A session is a `THD`. Its counters are words of the structure `status_var` in it, which only its own
//! thread writes. The server itself says where they are: `status_vars`, the list behind SHOW STATUS, has the
//! offset of each in the structure, and short exported functions for plugins contain the offsets of two of
//! them in the THD. Both must agree. A session's own number, whose offset another such function contains,
//! must be the one the server reported.

#![allow(unsafe_code)]

use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use tare_engine::{CounterForm, MAX_SESSION_COUNTERS, Session, SessionCounter, SessionCounters};
use tare_host::process::observation::{self, field, pointer, text, word};
use tare_host::process::symbol;

use super::{code, warning};

/// The size in bytes of an entry of the list: name, value, kind.
const ENTRY: usize = 24;
/// The most entries of the list; there are some 400.
const MOST_ENTRIES: usize = 2048;
/// The largest size in bytes of the structure of counters; it has some 2,100.
const MOST_BYTES: u64 = 8192;

/// The reason sessions are not read. Their tables are empty then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LayoutError {
    /// The server does not export a symbol.
    #[error("the server does not export {0}")]
    NoSymbol(&'static str),
    /// A function of the server is none of the known ones.
    #[error("the server's function {0} is not as expected")]
    Code(&'static str),
    /// The list of status variables is none of the known ones.
    #[error("the server's list of status variables is not as expected")]
    List,
    /// The layout is known for another series only.
    #[error("where this series of servers keeps it is not known")]
    Series,
    /// The offsets of two counters contradict each other.
    #[error("the server's functions and its list of status variables place the counters differently")]
    Disagreement,
}

/// The offsets of what is read of a session.
#[derive(Debug)]
pub(crate) struct SessionLayout {
    /// The session's number.
    id: usize,
    /// The structure of counters.
    status: usize,
    counters: Vec<SessionCounter>,
    /// The offset of each counter in the structure.
    places: Vec<usize>,
    /// The bytes of the structure that contain all counters.
    len: usize,
}

/// A status variable of the list whose value is an offset in a session's counters.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StatusVariable {
    name: String,
    place: u64,
    kind: u32,
}

/// Returns an exported function's address.
pub(super) fn function(name: &'static CStr) -> Result<usize, LayoutError> {
    let missing = || LayoutError::NoSymbol(name.to_str().unwrap_or_default());
    symbol(name).map(|found| found.addr()).ok_or_else(missing)
}

/// Returns what `instruction` finds in the code of a short exported function, usually a member's offset.
pub(super) fn member<T>(name: &'static CStr, instruction: fn(&[u8]) -> Option<T>) -> Result<T, LayoutError> {
    let code = observation::bytes::<32>(function(name)?);
    let unknown = || LayoutError::Code(name.to_str().unwrap_or_default());
    code.and_then(|code| instruction(&code)).ok_or_else(unknown)
}

impl SessionLayout {
    fn prove() -> Result<SessionLayout, LayoutError> {
        let sent = member(c"thd_increment_bytes_sent", code::added_to)?;
        let received = member(c"thd_increment_bytes_received", code::added_to)?;
        let id = member(c"thd_get_thread_id", code::loaded)?;
        SessionLayout::of(&list(function(c"status_vars")?)?, sent, received, id)
    }

    fn of(
        list: &[StatusVariable],
        sent: usize,
        received: usize,
        id: usize,
    ) -> Result<SessionLayout, LayoutError> {
        let named = |name: &str| list.iter().find(|it| it.name == name).ok_or(LayoutError::List);
        let questions = named("Questions")?;
        let (listed_sent, listed_received) = (named("Bytes_sent")?, named("Bytes_received")?);
        let base = |at: usize, listed: &StatusVariable| at.checked_sub(listed.place as usize);
        let status =
            base(sent, listed_sent).filter(|status| base(received, listed_received) == Some(*status));
        let status = status.ok_or(LayoutError::Disagreement)?;
        // The kinds' numbers differ between series, so they are taken from variables that every server has.
        let kinds = [
            (questions.kind, CounterForm::Count),
            (listed_sent.kind, CounterForm::Count),
            (named("Last_query_cost")?.kind, CounterForm::Fraction),
            (named("Busy_time")?.kind, CounterForm::Microseconds),
            (named("Threads_running")?.kind, CounterForm::Small),
        ];
        let form =
            |it: &StatusVariable| kinds.iter().find(|(kind, _)| *kind == it.kind).map(|(_, form)| *form);
        let mut shown: Vec<(&StatusVariable, CounterForm)> =
            list.iter().filter_map(|it| Some((it, form(it)?))).collect();
        let in_structure = |(it, form): &(&StatusVariable, CounterForm)| {
            it.place.is_multiple_of(if *form == CounterForm::Small { 4 } else { 8 }) && it.place < MOST_BYTES
        };
        if shown.len() > MAX_SESSION_COUNTERS || !shown.iter().all(in_structure) {
            return Err(LayoutError::List);
        }
        shown.sort_by_key(|(it, _)| it.name.to_ascii_lowercase());
        let places: Vec<usize> = shown.iter().map(|(it, _)| it.place as usize).collect();
        let len = places.iter().max().map_or(0, |last| last + 8);
        let counter = |(it, form): &(&StatusVariable, CounterForm)| SessionCounter {
            name: it.name.clone(),
            form: *form,
        };
        Ok(SessionLayout { id, status, counters: shown.iter().map(counter).collect(), places, len })
    }

    fn read(&self, session: Session, into: &mut SessionCounters) -> Option<()> {
        let thd = usize::try_from(session.handle).ok()?;
        if warning::session().is_some_and(|own| own.addr().get() == thd) {
            return self.read_current(session, into);
        }
        let status = observation::block(thd.checked_add(self.status)?, self.len)?;
        for (counter, place) in into.iter_mut().zip(&self.places) {
            *counter = field(&status, *place)?;
        }
        self.is(session).then_some(())
    }

    /// Copies the counters of the calling thread's own session, without a system call.
    fn read_current(&self, session: Session, into: &mut SessionCounters) -> Option<()> {
        let thd = warning::session()?;
        // SAFETY: the session that the server calls the thread's own exists, its members lie in it, and
        // nobody else writes to these.
        let word = |place: usize| unsafe { thd.byte_add(place).cast::<u64>().read_unaligned() };
        if word(self.id) != session.processlist_id {
            return None;
        }
        into.iter_mut().zip(&self.places).for_each(|(counter, place)| *counter = word(self.status + place));
        Some(())
    }

    /// Returns whether the session still has the number that the server reported.
    fn is(&self, session: Session) -> bool {
        let id = usize::try_from(session.handle).ok().and_then(|thd| word(thd.checked_add(self.id)?));
        id == Some(session.processlist_id)
    }
}

/// Reads the entries of the list of status variables that belong to a session.
fn list(address: usize) -> Result<Vec<StatusVariable>, LayoutError> {
    let mut listed = Vec::new();
    for at in 0..MOST_ENTRIES {
        let entry = address + at * ENTRY;
        let name = pointer(entry).ok_or(LayoutError::List)?;
        if name == 0 {
            return Ok(listed);
        }
        let name = text::<80>(name).ok_or(LayoutError::List)?;
        let (place, kind) = (word(entry + 8), observation::bytes(entry + 16).map(u32::from_le_bytes));
        let (Some(place), Some(kind)) = (place, kind) else { return Err(LayoutError::List) };
        // The values of other variables are addresses.
        if place < MOST_BYTES {
            listed.push(StatusVariable { name, place, kind });
        }
    }
    Err(LayoutError::List)
}

/// Returns the offsets of this server's sessions, which are found at the first call.
pub(crate) fn layout() -> Result<&'static SessionLayout, &'static LayoutError> {
    static LAYOUT: OnceLock<Result<SessionLayout, LayoutError>> = OnceLock::new();
    LAYOUT.get_or_init(SessionLayout::prove).as_ref()
}

/// Returns the counters of sessions; empty if their offsets are not known.
pub(crate) fn counters() -> &'static [SessionCounter] {
    layout().map_or(&[], |layout| &layout.counters)
}

/// Copies a session's counters; returns false if it is no longer that session.
pub(crate) fn read_counters(session: Session, into: &mut SessionCounters) -> bool {
    layout().is_ok_and(|layout| layout.read(session, into).is_some())
}

/// Returns the number of the session at an address.
pub(crate) fn number(session: u64) -> Option<u64> {
    let place = usize::try_from(session).ok()?.checked_add(layout().ok()?.id)?;
    word(place).filter(|number| *number != 0)
}

/// Returns the offset of its number in a session.
pub(super) fn number_place() -> Option<usize> {
    layout().ok().map(|layout| layout.id)
}

/// Returns whether it is still that session.
pub(super) fn is(session: Session) -> bool {
    layout().is_ok_and(|layout| layout.is(session))
}

/// The server's own counters that FLUSH STATUS sets to zero and that nothing else lowers. One of them, the
/// most connections at a time, is set to the current number.
const FLUSHED: [&str; 11] = [
    "Aborted_clients",
    "Aborted_connects",
    "Binlog_cache_use",
    "Binlog_stmt_cache_use",
    "Created_tmp_files",
    "Max_used_connections",
    "Opened_plugin_libraries",
    "Subquery_cache_hit",
    "Subquery_cache_miss",
    "Table_locks_immediate",
    "Table_locks_waited",
];

/// The indicators of FLUSH STATUS: the second of its last execution, and the server's own counters.
struct Flushes {
    time: Option<&'static AtomicU64>,
    counters: Vec<&'static AtomicU64>,
    seen: Mutex<SeenIndicators>,
    /// The second of the last execution, once it was seen after that second; else [`UNSETTLED`].
    settled: AtomicU64,
}

/// No second: the next execution may have the second of the last one.
const UNSETTLED: u64 = u64::MAX;

/// The indicators seen last, and how many executions were noticed.
#[derive(Default)]
struct SeenIndicators {
    time: u64,
    counters: Vec<u64>,
    flushes: u64,
}

/// The most that a counter raised without a lock may fall because one thread overwrites another's addition.
/// It does not fall to zero.
const OVERWRITTEN: u64 = 2;

impl SeenIndicators {
    fn look(&mut self, time: u64, counters: impl Iterator<Item = u64>) -> u64 {
        let mut is_flushed = time != self.time;
        self.time = time;
        for (at, now) in counters.enumerate() {
            match self.counters.get_mut(at) {
                Some(last) => {
                    let before = std::mem::replace(last, now);
                    is_flushed |= now < before && (now == 0 || before - now > OVERWRITTEN);
                }
                None => self.counters.push(now),
            }
        }
        self.flushes += u64::from(is_flushed);
        self.flushes
    }
}

impl Flushes {
    /// Returns the indicators of this server, found once.
    fn get() -> &'static Flushes {
        static FLUSHES: OnceLock<Flushes> = OnceLock::new();
        FLUSHES.get_or_init(Flushes::new)
    }

    fn new() -> Flushes {
        let address = |name: &str| {
            let entries = (0..MOST_ENTRIES).map(|at| Some(function(c"status_vars").ok()? + at * ENTRY));
            let named = |entry: &usize| text::<80>(pointer(*entry)?);
            let entry = entries.map_while(|entry| entry.filter(|entry| named(entry).is_some()));
            let kind = |entry: &usize| observation::bytes(entry + 16).map(u32::from_le_bytes);
            let is_it = |entry: &usize| named(entry).as_deref() == Some(name) && kind(entry) == Some(LONG);
            entry.into_iter().find(is_it).and_then(|entry| observation::static_word(pointer(entry + 8)?))
        };
        Flushes {
            time: symbol(c"flush_status_time").and_then(|found| observation::static_word(found.addr())),
            counters: FLUSHED.into_iter().filter_map(address).collect(),
            seen: Mutex::default(),
            settled: AtomicU64::new(UNSETTLED),
        }
    }

    /// Looks at all indicators. Returns how many executions were noticed.
    fn look(&self, now_s: u64) -> u64 {
        // One reader at a time: a reader that looked earlier and reported later would make the counters fall.
        let mut seen = self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let time = self.time.map(|time| time.load(Relaxed));
        let flushes = seen.look(time.unwrap_or(0), self.counters.iter().map(|counter| counter.load(Relaxed)));
        let settled = time.filter(|time| time.saturating_add(1) < now_s).unwrap_or(UNSETTLED);
        self.settled.store(settled, Relaxed);
        flushes
    }

    /// Returns whether FLUSH STATUS may have been executed since the last look. The second alone says so once
    /// it is over; the counters are on lines that other threads write all the time.
    fn may_have_happened(&self) -> bool {
        self.time.is_none_or(|time| time.load(Relaxed) != self.settled.load(Relaxed))
    }
}

/// The kind of an unsigned long that the server sets to zero, from the plugin interface.
const LONG: u32 = 3;

/// Returns how many executions of FLUSH STATUS were noticed.
pub(crate) fn flushes() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    Flushes::get().look(now.map_or(0, |now| now.as_secs()))
}

/// Returns whether FLUSH STATUS may have been executed since [`flushes`] was called last. False although it
/// was if sessions that set `timestamp` gave two executions the same second.
pub(crate) fn may_have_flushed() -> bool {
    Flushes::get().may_have_happened()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: usize = 0xcc8;

    fn listed() -> Vec<StatusVariable> {
        let entry =
            |(name, place, kind): (&str, u64, u32)| StatusVariable { name: name.to_owned(), place, kind };
        [
            ("Questions", 16, 30),
            ("Bytes_sent", 32, 31),
            ("Bytes_received", 24, 31),
            ("Last_query_cost", 40, 32),
            ("Threads_running", 52, 33),
            ("Busy_time", 56, 34),
            ("handler_commit", 8, 30),
            ("Uptime", 64, 35),
        ]
        .into_iter()
        .map(entry)
        .collect()
    }

    #[test]
    fn counters_are_placed_only_where_everything_agrees() {
        let layout = SessionLayout::of(&listed(), STATUS + 32, STATUS + 24, 0x3f18).expect("a layout");
        let names: Vec<(&str, CounterForm)> =
            layout.counters.iter().map(|it| (it.name.as_str(), it.form)).collect();
        use CounterForm::{Count, Fraction, Microseconds, Small};
        let [busy, received, sent, commit] = [
            ("Busy_time", Microseconds),
            ("Bytes_received", Count),
            ("Bytes_sent", Count),
            ("handler_commit", Count),
        ];
        let [cost, questions, running] =
            [("Last_query_cost", Fraction), ("Questions", Count), ("Threads_running", Small)];
        assert_eq!(names, [busy, received, sent, commit, cost, questions, running]);
        assert_eq!((layout.status, layout.places, layout.len), (STATUS, vec![56, 24, 32, 8, 40, 16, 52], 64));
        let error =
            |list: &[StatusVariable], sent, received| SessionLayout::of(list, sent, received, 0).err();
        assert_eq!(error(&listed(), STATUS + 32, STATUS + 16), Some(LayoutError::Disagreement));
        assert_eq!(error(&listed(), 8, 0), Some(LayoutError::Disagreement));
        assert_eq!(error(&listed()[1..], STATUS + 32, STATUS + 24), Some(LayoutError::List));
        let mut odd = listed();
        odd[6].place = 9;
        assert_eq!(error(&odd, STATUS + 32, STATUS + 24), Some(LayoutError::List));
    }

    #[test]
    fn a_session_is_read_where_it_has_its_number() {
        let layout = SessionLayout::of(&listed(), 72, 64, 0).expect("a layout");
        let mut thd: Vec<u64> = (100..120).collect();
        let session =
            |processlist_id| Session { handle: thd.as_ptr().addr() as u64, processlist_id, command: None };
        let mut counters = [0; MAX_SESSION_COUNTERS];
        assert!(layout.read(session(100), &mut counters).is_some());
        assert_eq!(counters[..8], [112, 108, 109, 106, 110, 107, u64::from(0u32) | 112 << 32, 0]);
        assert!(layout.read(session(101), &mut counters).is_none());
        assert!(layout.read(Session { handle: 16, ..session(100) }, &mut counters).is_none());
        thd.clear();
    }

    #[test]
    fn a_program_without_the_servers_symbols_has_no_sessions() {
        assert_eq!(layout().err(), Some(&LayoutError::NoSymbol("thd_increment_bytes_sent")));
        assert!(counters().is_empty());
    }

    #[test]
    fn a_flush_is_told_by_its_second_or_by_a_counter_that_fell() {
        let mut seen = SeenIndicators::default();
        let mut look = |time, counters: [u64; 2]| seen.look(time, counters.into_iter());
        let first = look(100, [5, 7]);
        assert_eq!(look(100, [5, 9]), first);
        assert_eq!(look(100, [5, 7]), first, "an addition may be overwritten");
        assert_eq!(look(100, [6, 4]), first + 1);
        assert_eq!(look(100, [6, 0]), first + 2);
        assert_eq!(look(100, [1, 0]), first + 3);
        assert_eq!(look(101, [1, 0]), first + 4);
        assert_eq!(look(101, [1, 0]), first + 4);
    }

    #[test]
    fn counters_are_looked_at_until_the_second_of_the_last_flush_is_over() {
        let leaked = |value| -> &'static AtomicU64 { Box::leak(Box::new(AtomicU64::new(value))) };
        let (time, counter) = (leaked(100), leaked(50));
        let flushes = Flushes {
            time: Some(time),
            counters: vec![counter],
            seen: Mutex::default(),
            settled: AtomicU64::new(UNSETTLED),
        };
        assert!(flushes.may_have_happened());
        let before = flushes.look(100);
        assert!(flushes.may_have_happened(), "another may come within this second");
        counter.store(0, Relaxed);
        assert_eq!(flushes.look(101), before + 1, "it came, and the counter says so");
        assert!(flushes.may_have_happened(), "one that began in that second may still come");
        assert_eq!(flushes.look(102), before + 1);
        assert!(!flushes.may_have_happened(), "the second is over");
        time.store(102, Relaxed);
        assert!(flushes.may_have_happened());
        assert_eq!(flushes.look(102), before + 2);

        // A server that does not say when it was.
        let timeless = Flushes { time: None, ..flushes };
        timeless.look(1_000);
        assert!(timeless.may_have_happened());
    }
}
