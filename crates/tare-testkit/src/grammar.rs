//! Random texts from a grammar, equal for equal seeds on every machine.
//!
//! A rule's name is on a line of its own before a colon. Its alternatives follow, indented, one per line; a
//! number before an alternative is its relative weight. In an alternative `\n` is the end of a line, `{name}`
//! an expansion of the rule, `{name 2..5}` as many of them on lines of their own, and `{2..5}` a number; `""`
//! at its beginning is nothing, and keeps blanks that follow. `#` starts a comment line.

use std::collections::HashMap;
use std::ops::RangeInclusive;

/// A pseudo-random generator (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates the generator of a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Returns the next number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound.max(1)
    }

    fn within(&mut self, range: &RangeInclusive<u64>) -> u64 {
        range.start() + self.below(range.end() - range.start() + 1)
    }
}

/// Rules by name.
#[derive(Debug)]
pub struct Grammar(HashMap<String, Rule>);

#[derive(Debug, Default)]
struct Rule {
    alternatives: Vec<(u64, Vec<GrammarPart>)>,
    /// Weight of all alternatives.
    weight: u64,
}

#[derive(Debug)]
enum GrammarPart {
    Text(String),
    Number(RangeInclusive<u64>),
    Rule(String, RangeInclusive<u64>),
}

impl Grammar {
    /// Parses a grammar. `given` are names of rules whose text is given at expansion.
    ///
    /// # Errors
    /// With the line of a mistake, or the name of a missing rule.
    pub fn parse(text: &str, given: &[&str]) -> Result<Grammar, String> {
        let mut rules: HashMap<String, Rule> = HashMap::new();
        let mut current = None;
        for (at, line) in text.lines().enumerate() {
            let fail = |what: String| format!("line {}: {what}", at + 1);
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            if !line.starts_with(' ') {
                let name =
                    line.strip_suffix(':').ok_or_else(|| fail(format!("{line} ends without a colon")))?;
                if rules.insert(name.to_owned(), Rule::default()).is_some() {
                    return Err(fail(format!("{name} is there twice")));
                }
                current = Some(name.to_owned());
                continue;
            }
            let rule = current.as_ref().and_then(|name| rules.get_mut(name));
            let rule = rule.ok_or_else(|| fail("an alternative before any rule".into()))?;
            let (weight, parts) = alternative(line.trim()).map_err(fail)?;
            rule.weight += weight;
            rule.alternatives.push((weight, parts));
        }
        let used = rules.values().flat_map(|rule| &rule.alternatives).flat_map(|(_, parts)| parts);
        for part in used {
            match part {
                GrammarPart::Rule(name, _)
                    if !rules.contains_key(name) && !given.contains(&name.as_str()) =>
                {
                    return Err(format!("there is no rule {name}"));
                }
                _ => {}
            }
        }
        Ok(Grammar(rules))
    }

    /// Expands a rule; `given` are texts of further rules.
    pub fn expand(&self, rule: &str, given: &[(&str, &str)], random: &mut Random) -> String {
        let mut text = String::new();
        self.append(rule, given, random, &mut text);
        text
    }

    fn append(&self, name: &str, given: &[(&str, &str)], random: &mut Random, text: &mut String) {
        if let Some((_, value)) = given.iter().find(|(given, _)| *given == name) {
            text.push_str(value);
            return;
        }
        let Some(rule) = self.0.get(name) else { return };
        let mut chosen = random.below(rule.weight);
        let alternative = rule.alternatives.iter().find(|(weight, _)| {
            let found = chosen < *weight;
            chosen = chosen.saturating_sub(*weight);
            found
        });
        for part in alternative.map(|(_, parts)| parts).into_iter().flatten() {
            match part {
                GrammarPart::Text(part) => text.push_str(part),
                GrammarPart::Number(range) => text.push_str(&random.within(range).to_string()),
                GrammarPart::Rule(name, times) => {
                    for time in 0..random.within(times) {
                        if time > 0 {
                            text.push('\n');
                        }
                        self.append(name, given, random, text);
                    }
                }
            }
        }
    }
}

fn alternative(line: &str) -> Result<(u64, Vec<GrammarPart>), String> {
    let weighted =
        line.split_once(' ').and_then(|(word, rest)| Some((word.parse().ok()?, rest.trim_start())));
    let (weight, rest) = weighted.unwrap_or((1, line));
    let mut rest = rest.strip_prefix("\"\"").unwrap_or(rest);
    let mut parts = Vec::new();
    while let Some((text, more)) = rest.split_once('{') {
        let (inside, after) = more.split_once('}').ok_or_else(|| format!("a brace stays open: {line}"))?;
        parts.push(literal(text));
        parts.push(part(inside)?);
        rest = after;
    }
    parts.push(literal(rest));
    Ok((weight, parts))
}

fn literal(text: &str) -> GrammarPart {
    GrammarPart::Text(text.replace("\\n", "\n"))
}

fn part(inside: &str) -> Result<GrammarPart, String> {
    match inside.split_once(' ') {
        Some((name, times)) => Ok(GrammarPart::Rule(name.to_owned(), range(times)?)),
        None if inside.contains("..") => Ok(GrammarPart::Number(range(inside)?)),
        None => Ok(GrammarPart::Rule(inside.to_owned(), 1..=1)),
    }
}

fn range(text: &str) -> Result<RangeInclusive<u64>, String> {
    let bounds = text.split_once("..").and_then(|(low, high)| Some((low.parse().ok()?, high.parse().ok()?)));
    match bounds {
        Some((low, high)) if low <= high => Ok(low..=high),
        _ => Err(format!("{text} is no range")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_a_text_again() {
        let grammar =
            Grammar::parse("s:\n  {w 3..3} {1..9}\nw:\n  9 a{place}\n  b\n", &["place"]).expect("good");
        let text = |seed| grammar.expand("s", &[("place", "!")], &mut Random::new(seed));
        assert_eq!(text(7), text(7));
        let texts: Vec<String> = (0..200).map(text).collect();
        assert!(texts.iter().any(|other| *other != texts[0]));
        let often = texts.iter().map(|text| text.matches("a!").count()).sum::<usize>();
        assert!((500..=580).contains(&often), "{often} of 600");
        assert!(texts.iter().all(|text| text.lines().count() == 3));
    }

    #[test]
    fn mistakes_are_named() {
        let fail = |text| Grammar::parse(text, &[]).expect_err("a mistake");
        assert_eq!(fail("s:\n  {t}\n"), "there is no rule t");
        assert_eq!(fail("s:\n  {t\n"), "line 2: a brace stays open: {t");
        assert_eq!(fail("s\n"), "line 1: s ends without a colon");
        assert_eq!(fail("s:\n  {5..2}\n"), "line 2: 5..2 is no range");
    }
}
