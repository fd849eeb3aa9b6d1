//! The report's active sessions: a chart, and what their time went to in a stretch.

use std::fmt::Write;

use super::chart::Chart;
use super::{Cell, Figures, ROWS, Section, SummaryFigure};
use crate::sessions::{
    Digest, GROUPS, History, Moment, Recorded, Stretch, Sums, TABLE, average, clock, day, seconds, step,
};

/// Most columns of the chart.
const MOST: u64 = 240;
/// A second in microseconds.
const SECOND: u64 = 1_000_000;
/// The group of [`GROUPS`] with what ran or could run.
const CPU: usize = 0;

/// The stretch that a report shows of the active session history.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct When {
    /// Its beginning; `None`: that of the report.
    pub from: Option<Moment>,
    /// Its end; `None`: that of the report.
    pub to: Option<Moment>,
}

impl When {
    fn is_given(&self) -> bool {
        self.from.is_some() || self.to.is_some()
    }
}

/// The active sessions of a stretch.
pub(super) struct Active {
    history: History,
    pub(super) stretch: Stretch,
    sums: Sums,
    /// A part of it of which the files have no rows, although sessions may have been active.
    gap: Option<Stretch>,
}

impl Active {
    /// Returns those of a part of `whole`; `None` if the server has no history and nobody asks for a stretch
    /// of it.
    ///
    /// # Errors
    /// When a stretch is given and there is no row of it, with what there is.
    pub(super) fn of(
        inputs: &[&Recorded],
        whole: Option<Stretch>,
        when: When,
    ) -> Result<Option<Self>, String> {
        let mut history = History::default();
        inputs.iter().for_each(|input| history.merge(&input.history));
        let there = inputs.iter().any(|input| input.table(TABLE).is_some());
        let Some(reach) = history.whole() else {
            let why = if there { "it is empty" } else { "they are not in these files" };
            return match when.is_given() {
                true => Err(format!("no rows of {TABLE} to report a stretch of: {why}")),
                false => Ok(None),
            };
        };
        let asked =
            Moment::stretch(when.from, when.to, whole.unwrap_or(reach)).map_err(|why| why.to_string())?;
        let gap = gap(inputs, asked);
        // A stretch that begins with the gap, or nearly so, begins after it.
        let stretch = match gap {
            Some(gap) if (gap.from - asked.from) * 20 <= asked.length() => Stretch { from: gap.to, ..asked },
            _ => asked,
        };
        let sums = history.sums(stretch);
        if sums.us == 0 && when.is_given() {
            return Err(format!(
                "no session was active from {} to {} (UTC): the rows of {TABLE} here are from {} to {}",
                day(asked.from),
                day(asked.to),
                day(reach.from),
                day(reach.to)
            ));
        }
        Ok(Some(Active { history, stretch, sums, gap }))
    }

    pub(super) fn figures(&self) -> Vec<SummaryFigure> {
        let sessions = Cell::Number(self.sessions(self.sums.us));
        vec![SummaryFigure { key: "active_sessions", title: "active sessions on average", value: sessions }]
    }

    pub(super) fn section(&self) -> Section {
        let each = step(self.stretch.length(), MOST).max(self.history.interval(self.stretch));
        let columns = self.history.columns(self.stretch, each);
        let chart = Chart { processors: self.history.processors, columns };
        let tables =
            vec![self.classes(), self.statements(), self.waits(), self.blockers(), self.sessions_of()];
        let chart = (self.sums.us > 0).then_some(chart);
        Section { key: "sessions", title: "Active sessions", note: self.note(), chart, tables }
    }

    fn note(&self) -> String {
        let Stretch { from, to } = self.stretch;
        let mut note = format!(
            "From {} to {} UTC, on average {} sessions were active, by the samples in {TABLE}. Times \
             are the sum over all sessions. If more sessions are active than there are processors, some of them wait.",
            day(from),
            clock(to),
            tare_page::unit::plain(self.sessions(self.sums.us)),
        );
        if let Some(gap) = self.gap {
            let _ = write!(
                note,
                " There are no rows from {} to {}: they had been overwritten (ash-memory in [tare] makes room for more), or \
                 were left out (--sessions-from).",
                day(gap.from),
                day(gap.to)
            );
        }
        note
    }

    /// Returns the average number of sessions.
    fn sessions(&self, us: u64) -> f64 {
        average(us, self.stretch.length())
    }

    /// Returns the cells that all tables have: average sessions, time, and share.
    fn cells(&self, us: u64) -> [Cell; 3] {
        [Cell::Number(self.sessions(us)), Cell::Time(seconds(us)), Cell::share(us, self.sums.us)]
    }

    fn classes(&self) -> Figures {
        const COLUMNS: &[(&str, &str)] =
            &[("class", "class"), ("sessions", "sessions"), ("total_seconds", "time"), ("share", "share")];
        let row =
            |(class, us): &(String, u64)| [vec![Cell::Name(class.clone())], self.cells(*us).into()].concat();
        let rows = self.sums.classes.iter().map(row).collect();
        Figures::new("session_classes", "By wait class", COLUMNS, rows, ROWS)
    }

    fn statements(&self) -> Figures {
        const COLUMNS: &[(&str, &str)] = &[
            ("digest_text", "statement"),
            ("schema", "schema"),
            ("digest", "digest"),
            ("sessions", "sessions"),
            ("total_seconds", "time"),
            ("share", "share"),
            ("cpu_share", "of it CPU"),
            ("most", "most of the rest"),
            ("threads", "by threads"),
        ];
        let rows = self.sums.statements.iter().map(|it| {
            let name = match (&it.text, &it.digest) {
                (Some(text), _) => Cell::Code(text.clone()),
                (None, Some(digest)) => Cell::Name(format!("digest {digest}")),
                (None, None) if it.is_background => Cell::Name("(background threads)".into()),
                (None, None) => Cell::Name("(no digest yet)".into()),
            };
            let names = [name, Cell::name(it.schema.as_deref()), Cell::name(it.digest.as_deref())];
            let rest =
                [Cell::share(it.times[CPU], it.us), most_of_rest(&it.times), Cell::Count(it.sessions as u64)];
            [&names[..], &self.cells(it.us), &rest].concat()
        });
        Figures::new("session_statements", "Top statements", COLUMNS, rows.collect(), ROWS)
    }

    fn waits(&self) -> Figures {
        const COLUMNS: &[(&str, &str)] = &[
            ("what", "wait"),
            ("class", "class"),
            ("sessions", "sessions"),
            ("total_seconds", "time"),
            ("share", "share"),
            ("threads", "by threads"),
            ("object", "mostly for"),
        ];
        let rows = self.sums.waits.iter().map(|it| {
            let names = [Cell::Name(it.what.clone()), Cell::Name(it.class.clone())];
            let rest = [Cell::Count(it.sessions as u64), object(it.object.as_ref())];
            [&names[..], &self.cells(it.us), &rest].concat()
        });
        Figures::new("session_waits", "Top waits", COLUMNS, rows.collect(), ROWS)
    }

    fn blockers(&self) -> Figures {
        const COLUMNS: &[(&str, &str)] = &[
            ("connection", "blocking connection"),
            ("account", "account"),
            ("class", "others waited for a"),
            ("object", "mostly for"),
            ("sessions", "sessions"),
            ("total_seconds", "time"),
            ("share", "share"),
            ("waiting", "threads"),
            ("digest_text", "what it did"),
        ];
        let rows = self.sums.blockers.iter().map(|it| {
            let did = match &it.statement {
                Some(statement) => code(statement),
                None if it.was_active => Cell::None,
                None => Cell::Name("(idle)".into()),
            };
            let names = [
                Cell::Name(who(it.connection, it.thread)),
                Cell::name(it.account.as_deref()),
                Cell::Name(it.class.to_lowercase()),
                object(it.object.as_ref()),
            ];
            [&names[..], &self.cells(it.us), &[Cell::Count(it.waiting as u64), did]].concat()
        });
        Figures::new("session_blockers", "Top blockers", COLUMNS, rows.collect(), ROWS)
    }

    fn sessions_of(&self) -> Figures {
        const COLUMNS: &[(&str, &str)] = &[
            ("connection", "connection"),
            ("account", "account"),
            ("active_share", "active"),
            ("total_seconds", "time"),
            ("share", "share"),
            ("cpu_share", "of it CPU"),
            ("most", "most of the rest"),
            ("digest_text", "mostly in"),
        ];
        let length = self.stretch.length();
        let rows = self.sums.sessions.iter().map(|it| {
            vec![
                Cell::Name(who(it.connection, it.thread)),
                Cell::Name(it.account.clone()),
                Cell::share(it.us.min(length), length),
                Cell::Time(seconds(it.us)),
                Cell::share(it.us, self.sums.us),
                Cell::share(it.times[CPU], it.us),
                most_of_rest(&it.times),
                it.statement.as_ref().map_or(Cell::None, code),
            ]
        });
        Figures::new("sessions", "Top sessions", COLUMNS, rows.collect(), ROWS)
    }
}

/// Returns the part of a stretch before the rows of the last file that no earlier file has; `None` if nothing
/// is missing.
fn gap(inputs: &[&Recorded], asked: Stretch) -> Option<Stretch> {
    let (last, earlier) = inputs.split_last()?;
    let (rows, most) = last.status("ash_rows").zip(last.status("ash_rows_max"))?;
    let is_full = rows + most / 20 >= most;
    let has_all = last.history.len() as u64 + most / 20 >= rows;
    let until = earlier.iter().filter_map(|input| Some(input.history.whole()?.to)).max();
    let from = until.unwrap_or(0).max(asked.from);
    let to = last.history.whole()?.from;
    // A sample may lie between.
    let is_gap = to > from + last.history.interval(asked).max(SECOND) && to < asked.to;
    (is_gap && (is_full || !has_all)).then_some(Stretch { from, to })
}

/// Returns the group with most time of those besides the processor's.
fn most_of_rest(times: &[u64; GROUPS.len()]) -> Cell {
    let rest = times.iter().enumerate().filter(|(group, us)| *group != CPU && **us > 0);
    let most = rest.max_by_key(|(group, us)| (**us, std::cmp::Reverse(*group)));
    most.map_or(Cell::None, |(group, _)| Cell::Name(GROUPS[group].0.to_owned()))
}

fn who(connection: Option<u64>, thread: u64) -> String {
    connection.map_or_else(|| format!("thread {thread}"), |connection| connection.to_string())
}

fn object(object: Option<&(String, usize)>) -> Cell {
    match object {
        None => Cell::None,
        Some((name, 0)) => Cell::Name(name.clone()),
        Some((name, others)) => Cell::Name(format!("{name} and {others} more")),
    }
}

fn code(statement: &Digest) -> Cell {
    match &statement.text {
        Some(text) => Cell::Code(text.clone()),
        None => Cell::Name(format!("digest {}", statement.digest)),
    }
}
