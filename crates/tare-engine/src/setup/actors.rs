//! `setup_actors`: which accounts' connections are instrumented. Decided when a connection gets its account.

use crate::Engine;
use crate::setup::rules::{Rules, SetupRule};

/// A row of `setup_actors`; `%` matches any value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ActorRule {
    pub host: String,
    pub user: String,
    pub role: String,
    pub enabled: bool,
    pub history: bool,
}

const ANY: &str = "%";

impl ActorRule {
    /// Returns the built-in's initial rows.
    pub(crate) fn initial() -> Vec<ActorRule> {
        let any = || ANY.to_owned();
        vec![ActorRule { host: any(), user: any(), role: any(), enabled: true, history: true }]
    }
}

impl SetupRule for ActorRule {
    fn has_key_of(&self, other: &Self) -> bool {
        (&self.user, &self.host, &self.role) == (&other.user, &other.host, &other.role)
    }

    fn held_by(engine: &Engine) -> &Rules<Self> {
        &engine.actors
    }

    /// Does nothing: existing connections keep what was decided when they began.
    fn act(_engine: &Engine, _rules: &[Self]) {}
}

/// Returns INSTRUMENTED and HISTORY of an account. The most specific rule decides, and a user is more
/// specific than a host. Without a matching rule both are false. Rules for a particular role are ignored.
pub(crate) fn decide(rules: &[ActorRule], user: &[u8], host: &[u8]) -> (bool, bool) {
    let any = ANY.as_bytes();
    let rule = |(user, host): (&[u8], &[u8])| {
        rules
            .iter()
            .find(|rule| rule.user.as_bytes() == user && rule.host.as_bytes() == host && rule.role == ANY)
    };
    let best = [(user, host), (user, any), (any, host), (any, any)].into_iter().find_map(rule);
    best.map_or((false, false), |rule| (rule.enabled, rule.history))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(user: &str, host: &str, role: &str, enabled: bool, history: bool) -> ActorRule {
        ActorRule { host: host.to_owned(), user: user.to_owned(), role: role.to_owned(), enabled, history }
    }

    #[test]
    fn a_user_is_more_specific_than_a_host() {
        let mut rules = ActorRule::initial();
        assert_eq!(decide(&rules, b"ann", b"h"), (true, true));
        rules.push(rule("%", "h", "%", false, true));
        assert_eq!(decide(&rules, b"ann", b"h"), (false, true));
        rules.push(rule("ann", "%", "%", true, false));
        assert_eq!(decide(&rules, b"ann", b"h"), (true, false));
        rules.push(rule("ann", "h", "%", false, false));
        assert_eq!(decide(&rules, b"ann", b"h"), (false, false));
        assert_eq!(decide(&rules, b"Ann", b"H"), (true, true), "letter case tells names apart");
    }

    #[test]
    fn rules_about_a_role_decide_nothing_and_no_rule_means_not_watched() {
        let rules = [rule("ann", "h", "boss", true, true)];
        assert_eq!(decide(&rules, b"ann", b"h"), (false, false));
        assert_eq!(decide(&[], b"ann", b"h"), (false, false));
    }
}
