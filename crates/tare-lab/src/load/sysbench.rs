//! What a driver reports while it runs and at its end, parsed from sysbench's output.

use tare_server::program::last_lines;

use crate::load::arrivals;
use crate::results::latency::latency;
use crate::results::record::Latency;
use crate::{Error, Result};

/// The driver's counts of a load.
#[derive(Clone, Debug, PartialEq)]
pub struct DriverReport {
    /// Transactions committed.
    pub transactions: u64,
    /// Statements.
    pub queries: u64,
    /// Errors that the driver ignored.
    pub errors: u64,
    /// Duration in seconds.
    pub seconds: f64,
    /// Latency of transactions.
    pub latency: Latency,
    /// Transactions per second, second by second.
    pub per_second: Vec<f64>,
    /// The driver's whole output.
    pub output: String,
}

/// An event that the driver reports while it runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DriverEvent {
    /// All connections exist and the clock starts.
    Started,
    /// A second has passed.
    Second(DriverSecond),
    /// The load's time is over.
    Ended,
}

/// The driver's report of a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DriverSecond {
    /// Seconds since the load's start.
    pub second: u64,
    /// Recent transactions per second.
    pub transactions_per_second: f64,
    /// Recent statements per second.
    pub queries_per_second: f64,
}

/// Parses a line of the output; `None` if it reports no event.
pub(crate) fn moment_of(line: &str) -> Option<DriverEvent> {
    match line {
        "Threads started!" => Some(DriverEvent::Started),
        // The first line after the time is over.
        "Latency histogram (values are in milliseconds)" => Some(DriverEvent::Ended),
        _ => progress_of(line).map(DriverEvent::Second),
    }
}

/// Parses `[ 3s ] thds: 2 tps: 512.01 qps: 10240.20 (r/w/o: …) …`.
fn progress_of(line: &str) -> Option<DriverSecond> {
    let (second, rest) = line.strip_prefix('[')?.split_once("s ]")?;
    let number = |name: &str| rest.split_once(name)?.1.split_whitespace().next()?.parse().ok();
    Some(DriverSecond {
        second: second.trim().parse().ok()?,
        transactions_per_second: number("tps:")?,
        queries_per_second: number("qps:")?,
    })
}

/// Parses the final report: `transactions: 1234 (617.00 per sec.)`.
pub(crate) fn report_of(output: String) -> Result<DriverReport> {
    let missing = |why| Error::LoadReport { why, output: last_lines(&output, 20) };
    let first = |name: &str| {
        let rest = output.lines().find_map(|l| l.trim().strip_prefix(name))?;
        rest.split_whitespace().next()
    };
    let count = |name: &str| first(name).and_then(|number| number.parse().ok());
    Ok(DriverReport {
        transactions: count("transactions:")
            .filter(|&n| n > 0)
            .ok_or_else(|| missing("it counts no transactions"))?,
        queries: count("queries:").ok_or_else(|| missing("it counts no queries"))?,
        errors: count("ignored errors:").ok_or_else(|| missing("it counts no errors"))?,
        seconds: first("total time:")
            .and_then(|time| time.trim_end_matches('s').parse().ok())
            .ok_or_else(|| missing("it has no line `total time:`"))?,
        latency: arrivals::latency_of(&output)
            .or_else(|| latency_of(&output))
            .ok_or_else(|| missing("it has no latency histogram"))?,
        per_second: output.lines().filter_map(progress_of).map(|p| p.transactions_per_second).collect(),
        output,
    })
}

/// Parses `0.499 |*************** 417`: the middle of a bucket in milliseconds and its count.
fn latency_of(output: &str) -> Option<Latency> {
    let lines = output.lines().skip_while(|l| !l.starts_with("Latency histogram")).skip(2);
    let buckets = lines.map_while(|line| {
        let (value, rest) = line.split_once('|')?;
        let milliseconds: f64 = value.trim().parse().ok()?;
        Some((milliseconds / 1000.0, rest.trim_start_matches(['*', ' ']).trim().parse().ok()?))
    });
    // Bounds are printed with three digits, so those of short latencies repeat.
    let mut histogram: Vec<(f64, u64)> = vec![];
    for (bound, count) in buckets {
        match histogram.last_mut().filter(|last| last.0 == bound) {
            Some(last) => last.1 += count,
            None => histogram.push((bound, count)),
        }
    }
    // The mean is printed with two digits; the sum has more.
    let number =
        |name: &str| output.lines().find_map(|l| l.trim().strip_prefix(name))?.trim().parse::<f64>().ok();
    let mean = number("sum:")? / number("total number of events:")?;
    latency(mean / 1000.0, histogram)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "Threads started!

[ 1s ] thds: 2 tps: 600.00 qps: 9600.00 (r/w/o: 1/0/1) lat (ms,95%): 5.1 err/s: 0.00 reconn/s: 0.00
[ 2s ] thds: 2 tps: 636.00 qps: 10176.00 (r/w/o: 1/0/1) lat (ms,95%): 5.1 err/s: 0.00 reconn/s: 0.00
Latency histogram (values are in milliseconds)
       value  ------------- distribution ------------- count
       0.490 |                                         36
       1.000 |*************************                400
       1.000 |*************************                600
       6.250 |****                                     200

SQL statistics:
    queries performed:
        read:                            17304
        total:                           19776
    transactions:                        1236   (617.65 per sec.)
    queries:                             19776  (9882.33 per sec.)
    ignored errors:                      3      (0.00 per sec.)

General statistics:
    total time:                          2.0017s
    total number of events:              1236

Latency (ms):
         avg:                                    0.62
         sum:                                 1545.00
";

    #[test]
    fn the_report_is_read() {
        let report = report_of(REPORT.into()).expect("a report");
        assert_eq!((report.transactions, report.queries, report.errors), (1236, 19776, 3));
        assert_eq!((report.seconds, report.per_second), (2.0017, vec![600.0, 636.0]));
        let latency = report.latency;
        assert_eq!(latency.histogram, [(0.000_49, 36), (0.001, 1000), (0.006_25, 200)]);
        assert!((0.000_98..0.001).contains(&latency.p50) && latency.mean == 0.001_25, "{latency:?}");
        assert!((0.006_12..0.006_25).contains(&latency.p95) && latency.p99 > latency.p95, "{latency:?}");
    }

    #[test]
    fn a_load_that_did_nothing_is_an_error() {
        assert!(report_of(String::new()).is_err());
        assert!(report_of(REPORT.replace("1236 ", "0 ")).is_err());
    }

    #[test]
    fn moments_are_told_from_other_lines() {
        let moments: Vec<DriverEvent> = REPORT.lines().filter_map(moment_of).collect();
        let second = DriverSecond { second: 2, transactions_per_second: 636.0, queries_per_second: 10176.0 };
        assert_eq!(moments.len(), 4);
        assert_eq!(
            (moments[0], moments[2], moments[3]),
            (DriverEvent::Started, DriverEvent::Second(second), DriverEvent::Ended)
        );
    }

    #[test]
    fn what_was_held_up_is_not_taken_for_latency() {
        let report = report_of(REPORT.into()).expect("a report");
        let without = |limit, at_most| report.latency.without(limit, at_most).histogram;
        assert_eq!(without(0.006, 500), [(0.000_49, 36), (0.001, 1000)]);
        assert_eq!(without(0.006, 50), [(0.000_49, 36), (0.001, 1000), (0.006_25, 150)]);
        assert_eq!(without(0.01, 500), report.latency.histogram);
        let latency = report.latency.without(0.006, 500);
        assert!(latency.p99 <= 0.001 && latency.mean < 0.001, "{latency:?}");
    }
}
