//! Statistics as columns: a count with its times, and the arithmetic that readers need.

use tare_engine::snapshot::{IoStat, Stat, TableIoStat, TableLockStat};

/// Declares the five columns of a [`Stat`]: `COUNT_<count>`, and SUM, MIN, AVG, MAX of `TIMER_<time>`.
///
/// In `stat_columns!("STAR", "WAIT", "events", row => row.stat)` the third argument says what is counted, the
/// last one where the row has it.
macro_rules! stat_columns {
    ($count:literal, $time:literal, $what:literal, $row:ident => $stat:expr) => {
        &[
            $crate::framework::column::number(
                concat!("COUNT_", $count),
                $crate::table::SqlType::BigIntUnsigned,
                concat!("Number of ", $what, ", timed or not."),
                |$row| $stat.count,
            ),
            $crate::framework::column::sum(
                concat!("SUM_TIMER_", $time),
                concat!("Total time of the timed ", $what, ", in picoseconds."),
                |$row| $stat.sum_ps,
            ),
            $crate::framework::column::number(
                concat!("MIN_TIMER_", $time),
                $crate::table::SqlType::BigIntUnsigned,
                concat!("Shortest time among the timed ", $what, ", in picoseconds; 0 when there is none."),
                |$row| $stat.min_ps,
            ),
            $crate::framework::column::number(
                concat!("AVG_TIMER_", $time),
                $crate::table::SqlType::BigIntUnsigned,
                concat!("Total time divided by the number of ", $what, ", in picoseconds."),
                |$row| $crate::framework::statistic::average(&$stat),
            ),
            $crate::framework::column::number(
                concat!("MAX_TIMER_", $time),
                $crate::table::SqlType::BigIntUnsigned,
                concat!("Longest time among the timed ", $what, ", in picoseconds."),
                |$row| $stat.max_ps,
            ),
        ]
    };
}
pub(crate) use stat_columns;

/// Returns AVG; 0 if nothing was counted.
pub(crate) const fn average(stat: &Stat) -> u64 {
    match stat.sum_ps.checked_div(stat.count as u128) {
        Some(average) => average as u64,
        None => 0,
    }
}

/// Merges statistics. Those without a timed event do not affect MIN.
pub(crate) fn merged(stats: impl IntoIterator<Item = Stat>) -> Stat {
    stats.into_iter().fold(Stat::default(), |all, stat| Stat {
        count: all.count + stat.count,
        sum_ps: all.sum_ps + stat.sum_ps,
        min_ps: match (timed(&all), timed(&stat)) {
            (true, true) => all.min_ps.min(stat.min_ps),
            (false, _) => stat.min_ps,
            (_, false) => all.min_ps,
        },
        max_ps: all.max_ps.max(stat.max_ps),
    })
}

/// Returns whether any of the counted events was timed.
const fn timed(stat: &Stat) -> bool {
    stat.count > 0 && stat.max_ps > 0
}

/// Returns the sum of reads, writes and other operations of a file or socket.
pub(crate) fn all_io(io: &IoStat) -> Stat {
    merged([io.read.stat, io.write.stat, io.misc.stat])
}

/// Returns the sum of rows inserted, updated and deleted.
pub(crate) fn written(io: &TableIoStat) -> Stat {
    merged([io.insert, io.update, io.delete])
}

/// Returns the sum of rows fetched and written.
pub(crate) fn all_table_io(io: &TableIoStat) -> Stat {
    merged([io.fetch, io.insert, io.update, io.delete])
}

/// Number of kinds in a [`TableLockStat`] that are read locks. They come first.
const READ_LOCKS: usize = 5;

/// Returns the sum of read locks.
pub(crate) fn read_locks(locks: &TableLockStat) -> Stat {
    merged(locks.0.into_iter().take(READ_LOCKS))
}

/// Returns the sum of write locks.
pub(crate) fn write_locks(locks: &TableLockStat) -> Stat {
    merged(locks.0.into_iter().skip(READ_LOCKS))
}

/// Returns the sum of locks of every kind.
pub(crate) fn all_locks(locks: &TableLockStat) -> Stat {
    merged(locks.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn stat(count: u64, sum_ps: u128, min_ps: u64, max_ps: u64) -> Stat {
        Stat { count, sum_ps, min_ps, max_ps }
    }

    #[test]
    fn min_of_merged_statistics_ignores_what_was_not_timed() {
        let untimed = stat(3, 0, 0, 0);
        let all = merged([Stat::default(), stat(2, 30, 10, 20), untimed, stat(1, 7, 7, 7)]);
        assert_eq!(all, stat(6, 37, 7, 20));
        assert_eq!(merged([untimed, untimed]), stat(6, 0, 0, 0));
        assert_eq!(merged([]), Stat::default());
    }

    #[test]
    fn average_of_nothing_is_zero() {
        assert_eq!(average(&Stat::default()), 0);
        assert_eq!(average(&stat(3, 10, 1, 5)), 3);
    }

    #[test]
    fn average_stays_true_when_the_sum_begins_anew() {
        let most = u128::from(u64::MAX);
        let all = merged([stat(2, most, 1, 5), stat(2, most, 1, 5)]);
        assert_eq!((all.sum_ps as u64, average(&all)), (u64::MAX - 1, u64::MAX / 2));
    }

    #[test]
    fn reads_and_writes_make_up_every_lock() {
        let mut locks = TableLockStat::default();
        for (kind, lock) in locks.0.iter_mut().enumerate() {
            *lock = stat(1 << kind, 1 << kind, 1, 1 << kind);
        }
        assert_eq!(read_locks(&locks).count, 0b1_1111);
        assert_eq!(write_locks(&locks).count, 0b111_1110_0000);
        assert_eq!(all_locks(&locks).count, 0b111_1111_1111);
    }

    #[test]
    fn write_is_insert_update_and_delete() {
        let io = TableIoStat {
            fetch: stat(1, 1, 1, 1),
            insert: stat(2, 2, 1, 1),
            update: stat(4, 4, 1, 1),
            delete: stat(8, 8, 1, 1),
        };
        assert_eq!(written(&io).count, 14);
        assert_eq!(all_table_io(&io).count, 15);
    }
}
