//! What the servers' own counts do that says nothing of what is switched.

use super::*;

#[test]
fn a_count_that_falls_when_a_connection_ends_does_not_say_that_what_is_off_goes_on() {
    let _turn = tare_testkit::turn();
    for host in Host::all() {
        let mut connection = Some(host.root());
        let (events, done) = run(&host.dear_orders(), 8, false, |nth| {
            host.load();
            if nth == 0
                && let Some(connection) = &mut connection
            {
                (0..10_000).for_each(|_| connection.query_drop("DO 1").expect("a statement"));
            }
            if nth == 4 {
                // The servers leave part of its idle events out from now on: there are less than before.
                drop(connection.take());
            }
        });
        done.expect("it governs");
        let is_off = |it: &&Decision| it.moves.iter().any(|it| it.switch == "idle" && it.to == Level::Off);
        assert!(
            decisions(&events).iter().take(4).any(is_off),
            "it is switched off before the connection ends"
        );
        let fixed = Notice::Fixed { name: "idle".to_owned() };
        assert!(!notices(&events).contains(&&fixed), "{:?}", notices(&events));
    }
}
