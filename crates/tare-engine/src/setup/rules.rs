//! Rules one can change in SQL: the rows of `setup_actors` and `setup_objects`. A rule acts when it changes or when
//! what it is about becomes known, never when an event happens.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::Engine;
use crate::setup::instrument::lock;

/// Rules of a kind that there can be, at most.
pub const MAX_RULES: usize = 1024;

/// A rule that is told from others by a key.
pub trait Rule: Clone + Sized {
    /// Whether `other` has the same key, byte for byte.
    fn has_key_of(&self, other: &Self) -> bool;

    #[doc(hidden)]
    fn held_by(engine: &Engine) -> &Rules<Self>;

    #[doc(hidden)]
    fn act(engine: &Engine, rules: &[Self]);
}

/// Why a rule was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// There is one with the same key.
    Duplicate,
    /// There are as many as there may be.
    Full,
}

/// The rules of a kind, in the order in which they came.
pub struct Rules<R> {
    rules: Mutex<Vec<R>>,
    size: AtomicUsize,
}

impl<R: Clone> Rules<R> {
    pub(crate) const fn new() -> Rules<R> {
        Rules { rules: Mutex::new(Vec::new()), size: AtomicUsize::new(MAX_RULES) }
    }

    /// The initial rules, as many as there may be, before anything can be decided.
    pub(crate) fn start(&self, mut rules: Vec<R>, size: u32) {
        let size = MAX_RULES.min(size as usize);
        rules.truncate(size);
        *lock(&self.rules) = rules;
        self.size.store(size, Relaxed);
    }

    /// Calls `f` with the rules, which stay as they are meanwhile.
    pub(crate) fn with<T>(&self, f: impl FnOnce(&[R]) -> T) -> T {
        f(&lock(&self.rules))
    }
}

/// Rules, whatever they are about; changes act before the call returns.
impl Engine {
    /// Every rule, in the order in which they came.
    pub fn rules<R: Rule>(&self) -> Vec<R> {
        R::held_by(self).with(<[R]>::to_vec)
    }

    /// Adds a rule.
    ///
    /// # Errors
    /// When there is one with its key, or no room.
    pub fn add_rule<R: Rule>(&self, rule: R) -> Result<(), RuleError> {
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

    /// Puts a rule in the place of the one with its key. False when that is gone.
    pub fn replace_rule<R: Rule>(&self, rule: R) -> bool {
        self.change_rules(|rules: &mut Vec<R>| {
            let known = rules.iter_mut().find(|known| known.has_key_of(&rule));
            known.map(|known| *known = rule).is_some()
        })
    }

    /// Takes the rule with this one's key away. False when it is gone.
    pub fn remove_rule<R: Rule>(&self, rule: &R) -> bool {
        self.change_rules(|rules: &mut Vec<R>| {
            let before = rules.len();
            rules.retain(|known| !known.has_key_of(rule));
            rules.len() < before
        })
    }

    /// Takes every rule away.
    pub(crate) fn clear_rules<R: Rule>(&self) {
        self.change_rules(Vec::<R>::clear);
    }

    fn change_rules<R: Rule, T>(&self, change: impl FnOnce(&mut Vec<R>) -> T) -> T {
        let mut rules = lock(&R::held_by(self).rules);
        let done = change(&mut rules);
        R::act(self, &rules);
        done
    }
}
