//! Names that are misspelt.

/// Words the known name that a misspelt one is nearest to, ` (did you mean 'level'?)`, with `quote` around
/// it. Returns an empty text if none is near.
///
/// # Examples
///
/// ```
/// use tare_words::misspelt::meant;
///
/// assert_eq!(meant("levle", ["enabled", "level"], '\''), " (did you mean 'level'?)");
/// assert_eq!(meant("elephant", ["enabled", "level"], '\''), "");
/// ```
#[must_use]
pub fn meant<'a>(name: &str, known: impl IntoIterator<Item = &'a str>, quote: char) -> String {
    let distances = known.into_iter().map(|it| (strsim::damerau_levenshtein(name, it), it));
    let near = distances.filter(|(distance, _)| *distance <= 1 + name.len() / 4).min();
    near.map_or(String::new(), |(_, it)| format!(" (did you mean {quote}{it}{quote}?)"))
}
