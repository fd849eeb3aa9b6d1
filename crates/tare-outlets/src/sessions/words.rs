//! Texts that occur many times, each stored once.

use std::collections::HashMap;
use std::sync::Arc;

/// The number of a text. Equal texts have equal numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Word(u32);

impl Word {
    /// Stands for NULL.
    pub(super) const NONE: Word = Word(0);
}

/// All texts of a history.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Words {
    texts: Vec<Arc<str>>,
    known: HashMap<Arc<str>, Word>,
}

impl Words {
    /// Returns the number of a text, which is stored if it is new.
    pub(super) fn word(&mut self, text: Option<&str>) -> Word {
        let Some(text) = text else { return Word::NONE };
        if let Some(word) = self.known.get(text) {
            return *word;
        }
        let text: Arc<str> = text.into();
        self.texts.push(text.clone());
        let word = Word(u32::try_from(self.texts.len()).unwrap_or(0));
        self.known.insert(text, word);
        word
    }

    /// Returns the number of a text that has been stored.
    pub(super) fn find(&self, text: Option<&str>) -> Option<Word> {
        text.map_or(Some(Word::NONE), |text| self.known.get(text).copied())
    }

    /// Returns a text by its number; `None` for NULL.
    pub(super) fn text(&self, word: Word) -> Option<&str> {
        let at = usize::try_from(word.0.checked_sub(1)?).ok()?;
        self.texts.get(at).map(AsRef::as_ref)
    }

    pub(super) fn len(&self) -> usize {
        self.texts.len()
    }
}
