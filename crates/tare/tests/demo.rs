//! `tare demo` as a user runs it, without its comparison of costs.

use std::process::{Command, Stdio};

use tare_server::installation::Installation;
use tare_testkit::subject::provider_library;

/// Figures mean little without what they leave out: that is said last.
#[test]
fn it_ends_with_the_level_at_which_it_recorded() {
    if !Installation::find(None).expect("a server").has_federated() {
        println!("skipped: this server has no plugin ha_federatedx");
        return;
    }
    let mut demo = Command::new(env!("CARGO_BIN_EXE_tare"));
    demo.args(["demo", "--for", "1s", "--connections", "1", "--cost-rounds", "0", "--provider"]);
    demo.arg(provider_library().expect("a provider")).stdin(Stdio::null());
    let ended = demo.output().expect("tare runs");
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{said}{}", String::from_utf8_lossy(&ended.stderr));
    let (before, last) = said.split_once("\ntare recorded at level ").expect("its level");
    assert!(
        before.contains("Top statements") && before.contains("\nLost"),
        "what it saw comes before: {said}"
    );
    let words: Vec<&str> = last.split_whitespace().collect();
    assert!(
        words
            .join(" ")
            .starts_with("sampled: every statement counted and timed, and some 1,000 a second recorded with all that is inside them.")
    );
    assert!(last.contains("Everything was stopped and removed."), "{last}");
}
