//! What sampling costs: the server, as it says itself, and this process.

use std::time::{Duration, Instant};

use procfs::process::Process;

use crate::source::{Address, Error, Source};

/// Ticks per second in `/proc`, the same on every machine.
const TICKS: u64 = 100;

/// Costs since the connection was made.
pub(super) struct Cost {
    began: Instant,
    /// Time of the connection's statements when it began, in picoseconds; `None`: the server does not tell.
    before: Option<Statements>,
    own_before: Option<Duration>,
}

/// What a connection's statements have taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Statements {
    count: u64,
    time_ps: u64,
    /// 0 where the server does not measure it.
    cpu_ps: u64,
}

impl Cost {
    pub(super) fn of(source: &mut Source) -> Result<Cost, Error> {
        let before = statements(source)?;
        Ok(Cost { began: Instant::now(), before, own_before: own_cpu() })
    }

    /// Returns a sentence about the costs since the connection was made.
    pub(super) fn said(&self, source: &mut Source) -> Result<String, Error> {
        let now = statements(source)?;
        let span = self.began.elapsed();
        let own = self.own_before.and_then(|before| own_cpu()?.checked_sub(before));
        let own = own.map_or_else(
            || "what this process took is unknown".to_owned(),
            |own| format!("this process took {}", share(own, span)),
        );
        let server = match self.before.zip(now) {
            Some((before, now)) => of_server(before, now, span),
            None => "the server does not tell what its statements took".to_owned(),
        };
        Ok(format!("{server}; {own}"))
    }
}

/// Returns what a connection's statements took since `before`.
fn of_server(before: Statements, now: Statements, span: Duration) -> String {
    let count = now.count.saturating_sub(before.count);
    let (cpu, time) = (now.cpu_ps.saturating_sub(before.cpu_ps), now.time_ps.saturating_sub(before.time_ps));
    let (ps, what) = if cpu > 0 { (cpu, "of CPU time") } else { (time, "by its statement timer") };
    let time = Duration::from_nanos(ps / 1000);
    #[allow(clippy::cast_precision_loss)] // figures are shown with a few digits
    let each = time.as_secs_f64() * 1e3 / count.max(1) as f64;
    format!("sampling took the server {} {what}, in {count} statements of {each:.2} ms", share(time, span))
}

/// Shows a time as a share of one processor.
fn share(time: Duration, span: Duration) -> String {
    format!("{:.2}% of one processor", 100.0 * time.as_secs_f64() / span.as_secs_f64().max(1e-6))
}

/// Returns what the statements of this connection have taken; `None` if the server does not tell.
fn statements(source: &mut Source) -> Result<Option<Statements>, Error> {
    const TABLE: &str = "events_statements_summary_by_thread_by_event_name";
    if matches!(source.address(), Address::Socket(_)) {
        return Ok(None);
    }
    let has_cpu = source.columns(TABLE)?.iter().any(|column| column == "SUM_CPU_TIME");
    let cpu = if has_cpu { "SUM(`SUM_CPU_TIME`)" } else { "0" };
    let sql = format!(
        "SELECT SUM(`COUNT_STAR`), SUM(`SUM_TIMER_WAIT`), {cpu} FROM `performance_schema`.`{TABLE}` WHERE `THREAD_ID` = \
         (SELECT `THREAD_ID` FROM `performance_schema`.`threads` WHERE `PROCESSLIST_ID` = CONNECTION_ID())"
    );
    match source.ask(&sql) {
        Ok(rows) => Ok(rows.first().and_then(|row| {
            Some(Statements { count: row.number(0)?, time_ps: row.number(1)?, cpu_ps: row.count(2) })
        })),
        Err(error) if error.is_passing() => Err(error),
        Err(_) => Ok(None),
    }
}

/// Returns the CPU time of this process.
fn own_cpu() -> Option<Duration> {
    let stat = Process::myself().and_then(|process| process.stat()).ok()?;
    Some(Duration::from_millis((stat.utime + stat.stime) * 1000 / TICKS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_is_the_difference_as_a_share_of_one_processor() {
        let before = Statements { count: 10, time_ps: 1_000_000_000, cpu_ps: 0 };
        let now = Statements { count: 20, time_ps: 11_000_000_000, cpu_ps: 0 };
        let span = Duration::from_secs(10);
        assert_eq!(
            of_server(before, now, span),
            "sampling took the server 0.10% of one processor by its statement timer, in 10 statements of 1.00 ms"
        );
        let measured = Statements { cpu_ps: 5_000_000_000, ..now };
        assert!(of_server(before, measured, span).contains("0.05% of one processor of CPU time"));
        assert!(own_cpu().is_some());
    }
}
