//! A strict reader of the text format: what it lets pass Prometheus does, too.

use std::collections::{BTreeMap, BTreeSet};

/// A sample: its name and labels as they identify it, and its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) value: f64,
}

impl Sample {
    pub(crate) fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }

    /// What no other sample has.
    pub(crate) fn key(&self) -> String {
        let labels: Vec<String> =
            self.labels.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
        format!("{}{{{}}}", self.name, labels.join(","))
    }
}

/// A page, by family.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) types: BTreeMap<String, String>,
    pub(crate) helps: BTreeMap<String, String>,
    pub(crate) samples: Vec<Sample>,
}

impl Page {
    /// Reads a page; panics at what is no such format.
    pub(crate) fn parse(text: &str) -> Self {
        assert!(text.ends_with('\n'), "the last line ends");
        let mut page = Page::default();
        let (mut family, mut seen, mut keys) = (String::new(), BTreeSet::new(), BTreeSet::new());
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, help) = help.split_once(' ').expect("a help");
                assert!(seen.insert(name.to_owned()), "{name}: a family stands in one place");
                assert!(page.helps.insert(name.to_owned(), help.to_owned()).is_none(), "{line}");
                name.clone_into(&mut family);
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').expect("a type");
                assert_eq!(name, family, "TYPE follows HELP");
                assert!(["counter", "gauge", "summary", "histogram", "untyped"].contains(&kind), "{line}");
                assert!(page.types.insert(name.to_owned(), kind.to_owned()).is_none(), "{line}");
            } else {
                assert!(!line.starts_with('#'), "{line}");
                let sample = sample(line);
                let kind = page.types.get(&family).map(String::as_str).unwrap_or_default();
                let parts: &[&str] = match kind {
                    "histogram" => &["_bucket", "_sum", "_count"],
                    "summary" => &["", "_sum", "_count"],
                    _ => &[""],
                };
                let part = sample.name.strip_prefix(&family).expect("a sample stands with its family");
                assert!(parts.contains(&part), "{line}: no part of a {kind}");
                assert!(keys.insert(sample.key()), "twice: {line}");
                page.samples.push(sample);
            }
        }
        page.check_histograms();
        page
    }

    /// Buckets do not fall, and the last one is the count.
    fn check_histograms(&self) {
        let mut last: BTreeMap<String, (f64, f64)> = BTreeMap::new();
        for bucket in self.samples.iter().filter(|it| it.name.ends_with("_bucket")) {
            let bound: f64 = bucket.label("le").parse().expect("a bound");
            let mut of = bucket.clone();
            of.labels.remove("le");
            if let Some((bound_before, count)) = last.get(&of.key()) {
                assert!(*bound_before < bound && *count <= bucket.value, "{}", bucket.key());
            }
            last.insert(of.key(), (bound, bucket.value));
        }
        for (key, (bound, total)) in last {
            assert!(bound.is_infinite(), "{key}");
            let count = key.replacen("_bucket", "_count", 1);
            let count = self.samples.iter().find(|it| it.key() == count).expect("a count");
            assert!((count.value - total).abs() < f64::EPSILON, "{key}");
        }
    }

    /// The value of a metric without labels.
    pub(crate) fn value(&self, name: &str) -> Option<f64> {
        self.samples.iter().find(|it| it.name == name && it.labels.is_empty()).map(|it| it.value)
    }

    /// The samples of this name.
    pub(crate) fn of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Sample> {
        self.samples.iter().filter(move |it| it.name == name)
    }
}

fn is_name(text: &str) -> bool {
    let mut letters = text.chars();
    letters.next().is_some_and(|it| it.is_ascii_alphabetic() || it == '_')
        && letters.all(|it| it.is_ascii_alphanumeric() || it == '_')
}

fn sample(line: &str) -> Sample {
    let end = line.find(['{', ' ']).expect("a name ends");
    let (name, rest) = line.split_at(end);
    assert!(is_name(name), "{line}");
    let (labels, value) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest, line),
        None => (BTreeMap::new(), rest),
    };
    let value = value.strip_prefix(' ').and_then(|it| it.parse().ok()).unwrap_or_else(|| panic!("{line}"));
    Sample { name: name.to_owned(), labels, value }
}

fn labels<'a>(mut rest: &'a str, line: &str) -> (BTreeMap<String, String>, &'a str) {
    let mut labels = BTreeMap::new();
    loop {
        let (name, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
        assert!(is_name(name), "{line}");
        let (mut value, mut letters) = (String::new(), after.char_indices());
        let end = loop {
            match letters.next().unwrap_or_else(|| panic!("{line}: a quote")) {
                (at, '"') => break at,
                (_, '\\') => match letters.next().map(|(_, it)| it) {
                    Some('n') => value.push('\n'),
                    Some(it @ ('\\' | '"')) => value.push(it),
                    it => panic!("{line}: \\{it:?}"),
                },
                (_, it) => value.push(it),
            }
        };
        assert!(labels.insert(name.to_owned(), value).is_none(), "{line}");
        rest = &after[end + 1..];
        match rest.split_at(1) {
            (",", after) => rest = after,
            ("}", after) => return (labels, after),
            _ => panic!("{line}"),
        }
    }
}
