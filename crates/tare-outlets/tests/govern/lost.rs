//! A connection that is lost: what is remembered, what is put back without it, and that one is kept alive.

use super::*;

/// Ends the governor's connection as the server does that of a client which was silent for too long.
fn cut(host: &Host) {
    let mut root = host.root();
    let found = "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'governor'";
    let connections: Vec<u64> = root.query(found).expect("connections");
    assert_eq!(connections.len(), 1, "the governor's");
    root.query_drop(format!("KILL {}", connections[0])).expect("killed");
}

fn is_back(events: &[GovernorEvent]) -> bool {
    events.iter().any(|it| matches!(it, GovernorEvent::Back { restarted: false }))
}

/// An instrument without events here, so that no governor has a reason to move it.
const UNUSED: &str = "statement/sql/alter_db";

#[test]
fn who_loses_only_the_connection_goes_on_and_nothing_comes_back_for_it() {
    let _turn = tare_testkit::turn();
    let host = Host::mariadb();
    let before = host.settings();
    let set = |sql: &str, name: &str| {
        let sql = format!("UPDATE performance_schema.setup_instruments SET {sql} WHERE NAME = '{name}'");
        host.root().query_drop(&sql).expect(&sql);
    };
    let handler = "wait/io/table/sql/handler";
    let (events, done) = run(&host.dear_orders(), 12, false, |nth| {
        host.load();
        match nth {
            2 => set("ENABLED = 'YES'", handler),
            4 => {
                cut(&host);
                // Nobody looks just then.
                set("ENABLED = 'NO'", UNUSED);
            }
            _ => {}
        }
    });
    done.expect("it governs");
    let lost =
        events.iter().position(|it| matches!(it, GovernorEvent::Lost(_))).expect("it lost the connection");
    assert!(is_back(&events), "{events:?}");
    let begins = events.iter().filter(|it| matches!(it, GovernorEvent::Began { .. })).count();
    assert_eq!(begins, 1, "it goes on");
    let person = |name: &str| Notice::Person { name: name.to_owned() };
    let persons = notices(&events).into_iter().filter(|it| matches!(it, Notice::Person { .. }));
    assert_eq!(persons.collect::<Vec<_>>(), [&person(handler), &person(UNUSED)]);
    // Who begins anew knows of nothing that what is off had events, and switches all of it on in the second
    // look.
    let later = decisions(&events[lost..]);
    assert!(later.len() >= 3, "{}", later.len());
    let moved: Vec<_> = later.iter().flat_map(|it| &it.moves).collect();
    assert!(!moved.iter().any(|it| matches!(it.why, Why::Room { .. })), "{moved:?}");
    assert!(put_backs(&events)[0].rows > 20, "{events:?}");
    let expected = before.into_iter().map(|row| match row.0.as_str() {
        UNUSED => (row.0, "NO".to_owned(), row.2),
        _ => row,
    });
    assert_eq!(host.settings(), expected.collect::<Vec<_>>());
    assert!(host.nothing_owed());
}

#[test]
fn a_governor_that_has_nothing_to_look_at_lets_the_server_hear_of_it() {
    let _turn = tare_testkit::turn();
    let host = Host::mariadb();
    // A server that uses nothing pays for no look.
    let still = ServerMachine { cpu: |_| Some(Duration::from_secs(1)), ..machine() };
    let (mut events, mut nth) = (vec![], 0);
    let mut wait = |_| {
        if nth == 1 {
            cut(&host);
        }
        // Longer than it is silent for, which goes by how often it looks.
        std::thread::sleep(Duration::from_millis(50));
        nth += 1;
        nth <= 6
    };
    let done = govern(&host.dear_orders(), &still, false, &mut wait, &mut |event| events.push(event));
    done.expect("it governs");
    assert!(decisions(&events).is_empty(), "{events:?}");
    assert!(matches!(events[1], GovernorEvent::Lost(_)) && is_back(&events), "{events:?}");
}

#[test]
fn who_is_told_to_end_without_a_connection_puts_back_over_another_one() {
    let _turn = tare_testkit::turn();
    let host = Host::mariadb();
    let before = host.settings();
    let cut_after_two = |nth: usize| {
        if nth == 2 {
            cut(&host);
        } else if nth < 2 {
            host.load();
        }
    };
    // The fourth wait is for the connection, and is told that it is enough.
    let (events, done) = run(&host.dear_orders(), 3, false, cut_after_two);
    done.expect("it ends");
    assert!(events.iter().any(|it| matches!(it, GovernorEvent::Lost(_))) && !is_back(&events), "{events:?}");
    assert!(notices(&events).is_empty(), "it was not killed: {events:?}");
    assert!(put_backs(&events)[0].rows > 20, "{events:?}");
    assert_eq!(host.settings(), before);
    assert!(host.nothing_owed());

    let (events, done) = run(&host.dear_orders(), 3, true, cut_after_two);
    done.expect("it ends");
    assert!(matches!(events.last(), Some(GovernorEvent::Left(rows)) if *rows > 20), "{events:?}");
    assert_ne!(host.settings(), before);
    assert!(host.nothing_owed());
}

#[test]
fn who_is_told_to_end_without_a_server_says_what_is_owed_and_where() {
    let _turn = tare_testkit::turn();
    let host = RefCell::new(Host::mariadb());
    let orders = host.borrow().dear_orders();
    let (events, done) = run(&orders, 3, false, |nth| match nth {
        0 | 1 => host.borrow().load(),
        2 => host.borrow_mut().mariadb.as_mut().expect("MariaDB").kill(),
        _ => {}
    });
    let said = done.expect_err("nothing could be put back").to_string();
    let folder = host.borrow().folder.path().display().to_string();
    assert!(said.contains(&folder) && said.contains("--put-back"), "{said}");
    assert!(events.iter().any(|it| matches!(it, GovernorEvent::Lost(_))) && put_backs(&events).is_empty());
    assert!(!host.borrow().nothing_owed());
}
