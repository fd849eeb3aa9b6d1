//! Accounts, users and hosts: who connects, whose figures are whose, what TRUNCATE leaves.

use tare_engine::snapshot::*;
use tare_engine::*;

use tare_rig::*;

const PARTIES: [Grouping; 3] = [Grouping::Account, Grouping::User, Grouping::Host];

fn connect(rig: Rig, user: &str, host: &str) -> ThreadRef {
    let thread = rig.thread();
    rig.set_thread_account(thread, user.as_bytes(), host.as_bytes());
    thread
}

fn owner(level: Grouping, user: &str, host: &str) -> Owner {
    let name = |name: &str| (!name.is_empty()).then(|| name.to_owned());
    Owner {
        thread_id: 0,
        user: if level == Grouping::Host { None } else { name(user) },
        host: if level == Grouping::User { None } else { name(host) },
    }
}

/// (USER, HOST, CURRENT, TOTAL) of a level's rows.
fn connections(rig: Rig, level: Grouping) -> Vec<(String, String, u64, u64)> {
    let row = |row: ConnectionsRow| {
        (row.owner.user.unwrap_or_default(), row.owner.host.unwrap_or_default(), row.current, row.total)
    };
    rig.connections(level).into_iter().map(row).collect()
}

fn row(user: &str, host: &str, current: u64, total: u64) -> (String, String, u64, u64) {
    (user.to_owned(), host.to_owned(), current, total)
}

fn waits(rig: Rig, level: Grouping, user: &str, host: &str) -> Option<u64> {
    let owner = owner(level, user, host);
    let rows = rig.wait_rows(level);
    rows.into_iter().find(|row| row.owner == owner && row.name == MUTEX).map(|row| row.stat.count)
}

fn memory(rig: Rig, level: Grouping, user: &str, host: &str) -> MemoryStat {
    let owner = owner(level, user, host);
    let rows = rig.memory_rows(level);
    rows.into_iter().find(|row| row.owner == owner && row.name == MEMORY).expect("a row").stat
}

#[test]
fn connections_are_counted_open_and_closed() {
    let rig = Rig::new();
    let background = rig.thread();
    let (one, two) = (connect(rig, "a", "x"), connect(rig, "a", "y"));
    let three = connect(rig, "a", "x");
    assert_eq!(
        connections(rig, Grouping::Account),
        [row("", "", 1, 1), row("a", "x", 2, 2), row("a", "y", 1, 1)]
    );
    rig.delete_thread(one);
    rig.delete_thread(two);
    rig.delete_thread(two);
    assert_eq!(
        connections(rig, Grouping::Account),
        [row("", "", 1, 1), row("a", "x", 1, 2), row("a", "y", 0, 1)]
    );
    assert_eq!(connections(rig, Grouping::User), [row("", "", 1, 1), row("a", "", 1, 3)]);
    assert_eq!(connections(rig, Grouping::Host), [row("", "", 1, 1), row("", "x", 1, 2), row("", "y", 0, 1)]);
    assert!(connections(rig, Grouping::Global).is_empty());
    rig.delete_thread(three);
    rig.delete_thread(background);
    assert_eq!(connections(rig, Grouping::User), [row("", "", 0, 1), row("a", "", 0, 3)]);
}

#[test]
fn names_that_run_together_are_told_apart() {
    let rig = Rig::new();
    for (user, host) in [("ab", "c"), ("a", "bc"), ("abc", ""), ("", "abc")] {
        connect(rig, user, host);
    }
    assert_eq!(connections(rig, Grouping::Account).len(), 5, "and that of the threads' first moment");
    assert!(connections(rig, Grouping::Account).contains(&row("a", "bc", 1, 1)));
}

#[test]
fn figures_of_closed_connections_stay_with_their_account() {
    let rig = Rig::new();
    let (one, two, three) = (connect(rig, "a", "x"), connect(rig, "a", "y"), connect(rig, "b", "y"));
    for (thread, n) in [(one, 1), (two, 10), (three, 100)] {
        rig.on(thread, || (0..n).for_each(|_| _ = rig.wait(rig.class.mutex)));
    }
    for gone in [None, Some(two), Some(one), Some(three)] {
        gone.into_iter().for_each(|gone| rig.delete_thread(gone));
        let account = |user, host| waits(rig, Grouping::Account, user, host);
        assert_eq!([account("a", "x"), account("a", "y"), account("b", "y")], [Some(1), Some(10), Some(100)]);
        assert_eq!(waits(rig, Grouping::User, "a", ""), Some(11));
        assert_eq!(waits(rig, Grouping::User, "b", ""), Some(100));
        assert_eq!(waits(rig, Grouping::Host, "", "x"), Some(1));
        assert_eq!(waits(rig, Grouping::Host, "", "y"), Some(110));
        assert_eq!(rig.global_wait(MUTEX).count, 111);
    }
    let names = |rows: Vec<Summary<Stat>>| rows.iter().map(|row| row.name).collect::<Vec<_>>();
    let global = names(rig.wait_rows(Grouping::Global));
    assert_eq!(
        names(rig.wait_rows(Grouping::Host)),
        [&*global, &*global, &*global].concat(),
        "zeros included"
    );
}

#[test]
fn a_thread_takes_its_figures_along_to_another_account() {
    let rig = Rig::new();
    let thread = connect(rig, "a", "x");
    rig.on(thread, || rig.wait(rig.class.mutex));
    rig.set_thread_account(thread, b"b", b"x");
    assert_eq!(connections(rig, Grouping::Account)[1..], [row("a", "x", 0, 0), row("b", "x", 1, 1)]);
    assert_eq!(waits(rig, Grouping::Account, "a", "x"), Some(0));
    assert_eq!(waits(rig, Grouping::Account, "b", "x"), Some(1));
    rig.delete_thread(thread);
    assert_eq!(connections(rig, Grouping::Account)[1..], [row("a", "x", 0, 0), row("b", "x", 0, 1)]);
    assert_eq!(waits(rig, Grouping::User, "b", ""), Some(1));
}

#[test]
fn what_was_reset_before_the_change_of_account_stays_with_the_former() {
    let rig = Rig::new();
    let thread = connect(rig, "a", "x");
    rig.on(thread, || rig.wait(rig.class.mutex));
    rig.reset(Reset::Summary(EventType::Wait, Grouping::Global));
    rig.on(thread, || rig.wait(rig.class.mutex));
    rig.reset(Reset::Summary(EventType::Wait, Grouping::Thread));
    rig.set_thread_account(thread, b"b", b"x");
    assert_eq!(waits(rig, Grouping::Account, "a", "x"), Some(2));
    assert_eq!(waits(rig, Grouping::Account, "b", "x"), Some(0));
    assert_eq!(rig.global_wait(MUTEX).count, 1);
}

#[test]
fn truncated_connections_are_forgotten_unless_they_are_open() {
    for level in PARTIES {
        let rig = Rig::new();
        let (open, gone) = (connect(rig, "a", "x"), connect(rig, "b", "y"));
        for thread in [open, gone] {
            rig.on(thread, || rig.wait(rig.class.mutex));
        }
        rig.delete_thread(gone);
        rig.delete_thread(connect(rig, "a", "x"));
        rig.reset(Reset::Connections(level));
        assert_eq!(connections(rig, Grouping::Account), [row("a", "x", 1, 1)], "{level:?}");
        let user_reset = level == Grouping::User;
        let users = if user_reset {
            vec![row("a", "", 1, 1)]
        } else {
            vec![row("", "", 0, 0), row("a", "", 1, 2), row("b", "", 0, 1)]
        };
        assert_eq!(connections(rig, Grouping::User), users, "{level:?}");
        let host_reset = level == Grouping::Host;
        let hosts = if host_reset {
            vec![row("", "x", 1, 1)]
        } else {
            vec![row("", "", 0, 0), row("", "x", 1, 2), row("", "y", 0, 1)]
        };
        assert_eq!(connections(rig, Grouping::Host), hosts, "{level:?}");
        assert_eq!(waits(rig, Grouping::Account, "a", "x"), Some(0));
        assert_eq!(waits(rig, Grouping::User, "a", ""), Some(u64::from(!user_reset)));
        assert_eq!(waits(rig, Grouping::User, "b", ""), (!user_reset).then_some(1));
        assert_eq!(waits(rig, Grouping::Host, "", "x"), Some(u64::from(!host_reset)));
        assert_eq!(waits(rig, Grouping::Host, "", "y"), (!host_reset).then_some(1));
        assert_eq!(rig.global_wait(MUTEX).count, 2);
        rig.delete_thread(connect(rig, "b", "y"));
        assert_eq!(
            connections(rig, Grouping::Account),
            [row("", "", 0, 0), row("a", "x", 1, 1), row("b", "y", 0, 1)]
        );
    }
}

#[test]
fn memory_in_use_outlives_the_account_it_was_allocated_by() {
    let rig = Rig::new();
    let thread = connect(rig, "a", "x");
    rig.on(thread, || {
        for _ in 0..3 {
            rig.memory_alloc(rig.class.memory, 10);
        }
        rig.memory_free(rig.class.memory, 10);
    });
    let user = |rig| memory(rig, Grouping::User, "a", "");
    assert_eq!((user(rig).count_alloc, user(rig).current_count, user(rig).high_count), (3, 2, 3));
    rig.reset(Reset::Memory(Grouping::Account));
    let account = memory(rig, Grouping::Account, "a", "x");
    assert_eq!((account.count_alloc, account.count_free, account.current_count), (2, 0, 2));
    rig.delete_thread(thread);
    let account = memory(rig, Grouping::Account, "a", "x");
    assert_eq!((account.count_alloc, account.count_free, account.current_count), (2, 0, 2), "after the end");
    assert_eq!((user(rig).count_alloc, user(rig).count_free, user(rig).current_count), (3, 1, 2));
    rig.reset(Reset::Connections(Grouping::Account));
    assert!(!rig.memory_rows(Grouping::Account).iter().any(|row| row.owner.user.is_some()));
    assert_eq!((user(rig).count_alloc, user(rig).count_free, user(rig).current_count), (3, 1, 2));
    rig.reset(Reset::Connections(Grouping::User));
    assert_eq!(memory(rig, Grouping::Host, "", "x").current_count, 2);
    assert_eq!(rig.global_memory(MEMORY).current_count, 2);
}

#[test]
fn peaks_of_memory_go_to_whoever_still_counts_them() {
    let rig = Rig::new();
    let thread = connect(rig, "a", "x");
    let (alloc, free) = (
        || (0..5).for_each(|_| _ = rig.memory_alloc(rig.class.memory, 10)),
        || (0..4).for_each(|_| rig.memory_free(rig.class.memory, 10)),
    );
    rig.on(thread, || {
        alloc();
        free();
    });
    rig.reset(Reset::Memory(Grouping::Thread));
    rig.on(thread, || rig.memory_alloc(rig.class.memory, 10));
    assert_eq!(rig.thread_memory(thread, MEMORY).high_count, 2);
    for level in PARTIES {
        let stat = memory(rig, level, "a", "x");
        assert!((5..=6).contains(&stat.high_count), "{level:?}: {stat:?}");
        assert_eq!((stat.count_alloc, stat.count_free, stat.current_count), (6, 4, 2), "{level:?}");
    }
}

#[test]
fn an_account_without_a_place_is_counted_as_lost_and_its_user_and_host_go_on() {
    let rig = Rig::with(Config { parties_size: [2, 10, 10], ..small() });
    let threads = [connect(rig, "a", "x"), connect(rig, "b", "x")];
    assert_eq!(rig.losses_of("accounts_lost"), 1);
    for thread in threads {
        rig.on(thread, || rig.wait(rig.class.mutex));
        rig.delete_thread(thread);
    }
    assert_eq!(connections(rig, Grouping::Account), [row("", "", 0, 0), row("a", "x", 0, 1)]);
    assert_eq!(connections(rig, Grouping::User)[1..], [row("a", "", 0, 1), row("b", "", 0, 1)]);
    assert_eq!(waits(rig, Grouping::User, "b", ""), Some(1));
    assert_eq!(waits(rig, Grouping::Host, "", "x"), Some(2));
    assert_eq!(rig.global_wait(MUTEX).count, 2);
    assert_eq!(rig.losses(), 1, "{:?}", rig.lost());
    rig.reset(Reset::Connections(Grouping::Account));
    connect(rig, "b", "x");
    assert_eq!(connections(rig, Grouping::Account), [row("", "", 0, 0), row("b", "x", 1, 1)], "room again");
}

#[test]
fn an_account_needs_no_place_for_its_user_or_host() {
    let rig = Rig::with(Config { parties_size: [10, 2, 0], ..small() });
    let threads =
        [connect(rig, "a", "x"), connect(rig, "b", "x"), connect(rig, "b", "x"), connect(rig, "b", "y")];
    for thread in threads {
        rig.on(thread, || rig.wait(rig.class.mutex));
    }
    rig.delete_thread(threads[2]);
    let accounts = [row("", "", 0, 0), row("a", "x", 1, 1), row("b", "x", 1, 2), row("b", "y", 1, 1)];
    assert_eq!(connections(rig, Grouping::Account), accounts);
    assert_eq!(waits(rig, Grouping::Account, "b", "x"), Some(2));
    assert_eq!(connections(rig, Grouping::User), [row("", "", 0, 0), row("a", "", 1, 1)]);
    assert_eq!(connections(rig, Grouping::Host), []);
    assert_eq!(waits(rig, Grouping::User, "b", ""), None);
    let lost = ["accounts_lost", "users_lost", "hosts_lost"].map(|name| rig.losses_of(name));
    assert_eq!(lost, [0, 1, 3], "each once");
    threads.into_iter().for_each(|thread| rig.delete_thread(thread));
    let used = rig.memory().0;
    for _ in 0..300 {
        rig.reset(Reset::Connections(Grouping::Account));
        rig.delete_thread(connect(rig, "b", "z"));
    }
    assert!(rig.memory().0 <= used, "what had no row is forgotten with its accounts");
    rig.reset(Reset::Connections(Grouping::User));
    connect(rig, "b", "x");
    assert_eq!(connections(rig, Grouping::User), [row("", "", 0, 0), row("b", "", 1, 1)], "room again");
}

#[test]
fn without_room_for_any_party_everything_is_counted_globally() {
    let rig = Rig::with(Config { parties_size: [0; 3], ..small() });
    let thread = connect(rig, "a", "x");
    rig.on(thread, || rig.wait(rig.class.mutex));
    rig.delete_thread(thread);
    assert!(PARTIES.into_iter().all(|level| connections(rig, level).is_empty()));
    assert_eq!(rig.global_wait(MUTEX).count, 1);
    for name in ["accounts_lost", "users_lost", "hosts_lost"] {
        assert_eq!(rig.losses_of(name), 2, "{name}: without names, and with them");
    }
}

#[test]
fn many_accounts_leave_memory_to_those_who_are_connected() {
    let rig = Rig::with(Config { memory_max: 8 << 20, parties_size: [2_000; 3], ..small() });
    // One is that of the threads' first moment.
    for n in 0..1_999 {
        let thread = connect(rig, &format!("u{n}"), &format!("h{n}"));
        rig.on(thread, || {
            rig.wait(rig.class.mutex);
            rig.query("select 1");
        });
        rig.delete_thread(thread);
    }
    let kept: u64 = (rig.wait_rows(Grouping::Account).iter().filter(|row| row.name == MUTEX))
        .map(|row| row.stat.count)
        .sum();
    assert!(kept > 100 && kept < 1_999, "{kept}");
    let statements = rig.statement_rows(Grouping::Account).into_iter();
    let statements: u64 = statements.map(|row| row.stat.stat.count).sum();
    assert_eq!(rig.losses_of("party_cells_lost"), 2 * 1_999 - kept - statements);
    assert_eq!(rig.losses(), rig.losses_of("party_cells_lost"), "{:?}", rig.lost());
    assert_eq!(rig.global_wait(MUTEX).count, 1_999);
    assert_eq!(rig.global_statement(STATEMENT).stat.count, 1_999);
    let (used, cap) = rig.memory();
    rig.reset(Reset::Connections(Grouping::User));
    rig.reset(Reset::Connections(Grouping::Host));
    assert!(PARTIES.into_iter().all(|level| rig.connections(level).is_empty()));
    assert!(rig.memory().0 < used - cap / 4, "{used} of {cap}, then {}", rig.memory().0);
}

#[test]
fn what_a_client_says_of_itself_is_read_in_order() {
    let rig = Rig::new();
    let (one, other) = (rig.thread(), rig.thread());
    // What follows a nameless one is not read.
    rig.set_thread_connect_attrs(one, b"\x03_os\x05Linux\x04name\x00\x00\x01x\x01y\x01z", 33);
    rig.set_thread_processlist_id(other, 78);
    rig.set_thread_connect_attrs(other, b"\x01a\x01b\x05cut o", 33);
    let rows = rig.connect_attributes();
    let row = |id, name: &str, value: &str, ordinal| AttributeRow {
        processlist_id: id,
        name: name.to_owned(),
        value: (!value.is_empty()).then(|| value.to_owned()),
        ordinal,
    };
    assert_eq!(rows, [row(77, "_os", "Linux", 0), row(77, "name", "", 1), row(78, "a", "b", 0)]);
    rig.delete_thread(one);
    assert_eq!(rig.connect_attributes().len(), 1);
}

#[test]
fn what_has_no_row_stays_while_a_connection_belongs_to_it() {
    // The third party of users has no row, and the fourth account no place.
    let rig = Rig::with(Config { parties_size: [2, 1, 10], ..small() });
    let again = || {
        let (with_account, without) = (connect(rig, "u", "x"), connect(rig, "u", "y"));
        rig.on(without, || rig.wait(rig.class.mutex));
        rig.delete_thread(with_account);
        rig.reset(Reset::Connections(Grouping::Account));
        rig.on(without, || rig.wait(rig.class.mutex));
        rig.delete_thread(without);
        rig.memory().0
    };
    let used = (0..10).map(|_| again()).max();
    assert!((0..300).map(|_| again()).max() <= used, "what is folded into it does not lie about");
    assert_eq!(rig.global_wait(MUTEX).count, 620);
}
