//! Rules that SQL can change: the rows of `setup_actors` and `setup_objects`. A rule acts when it changes or
//! when its object becomes known, never during an event.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::Engine;
use crate::setup::instrument::lock;

/// Maximum number of rules of a kind.
pub const MAX_RULES: usize = 1024;

/// A rule with a key.
pub trait SetupRule: Clone + Sized {
    /// Returns whether `other` has the same key, byte for byte.
    fn has_key_of(&self, other: &Self) -> bool;

    #[doc(hidden)]
    fn held_by(engine: &Engine) -> &Rules<Self>;

    #[doc(hidden)]
    fn act(engine: &Engine, rules: &[Self]);
}

/// Reason why a rule was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// A rule with the same key exists.
    Duplicate,
    /// The maximum number of rules exists.
    Full,
}

/// The rules of a kind, in the order in which they were added.
pub struct Rules<R> {
    rules: Mutex<Vec<R>>,
    size: AtomicUsize,
}

impl<R: Clone> Rules<R> {
    pub(crate) const fn new() -> Rules<R> {
        Rules { rules: Mutex::new(Vec::new()), size: AtomicUsize::new(MAX_RULES) }
    }

    /// Sets the initial rules, truncated to `size`. Called before anything is decided.
    pub(crate) fn start(&self, mut rules: Vec<R>, size: u32) {
        let size = MAX_RULES.min(size as usize);
        rules.truncate(size);
        *lock(&self.rules) = rules;
        self.size.store(size, Relaxed);
    }

    /// Calls `f` with the rules, which cannot change meanwhile.
    pub(crate) fn with<T>(&self, f: impl FnOnce(&[R]) -> T) -> T {
        f(&lock(&self.rules))
    }
}

/// Changes take effect before the call returns.
impl Engine {
    /// Returns every rule, in the order in which they were added.
    pub fn rules<R: SetupRule>(&self) -> Vec<R> {
        R::held_by(self).with(<[R]>::to_vec)
    }

    /// Adds a rule.
    ///
    /// # Errors
    /// Fails if a rule with the same key exists, or if there is no room.
    pub fn add_rule<R: SetupRule>(&self, rule: R) -> Result<(), RuleError> {
        self.change_rules(|rules: &mut Vec<R>| {
            if rules.iter().any(|known| known.has_key_of(&rule)) {
                return Err(RuleError::Duplicate);
            }
            if rules.len() >= R::held_by(self).size.load(Relaxed) {
                return Err(RuleError::Full);
            }
            rules.push(rule);
            Ok(())
        })
    }

    /// Replaces the rule with the same key. Returns false if there is none.
    pub fn replace_rule<R: SetupRule>(&self, rule: R) -> bool {
        self.change_rules(|rules: &mut Vec<R>| {
            let known = rules.iter_mut().find(|known| known.has_key_of(&rule));
            known.map(|known| *known = rule).is_some()
        })
    }

    /// Removes the rule with the same key. Returns false if there is none.
    pub fn remove_rule<R: SetupRule>(&self, rule: &R) -> bool {
        self.change_rules(|rules: &mut Vec<R>| {
            let before = rules.len();
            rules.retain(|known| !known.has_key_of(rule));
            rules.len() < before
        })
    }

    /// Removes every rule.
    pub(crate) fn clear_rules<R: SetupRule>(&self) {
        self.change_rules(Vec::<R>::clear);
    }

    fn change_rules<R: SetupRule, T>(&self, change: impl FnOnce(&mut Vec<R>) -> T) -> T {
        let mut rules = lock(&R::held_by(self).rules);
        let done = change(&mut rules);
        R::act(self, &rules);
        done
    }
}
