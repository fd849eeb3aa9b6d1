//! The order of the modules inside every crate: `layers.toml` against what the modules use.
//!
//! A top-level module of `src/` uses only modules of earlier lines. What `lib.rs` and `main.rs` define or
//! export is everybody's. Unit tests (`#[cfg(test)] mod`) may use anything.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use quote::ToTokens;
use serde::Deserialize;
use syn::visit::{self, Visit};
use syn::{Attribute, ItemMod, ItemUse, Macro, UseName, UseRename, UseTree};

/// A crate's `layers.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Layers {
    /// Top-level modules from the bottom up; those of one line do not use each other.
    order: Vec<Vec<String>>,
}

/// For each top-level module, the others it uses, and a file where it does.
type Uses = BTreeMap<String, BTreeMap<String, String>>;

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of all crates").to_owned()
}

/// Names of all crates.
fn names() -> Vec<String> {
    let entries = fs::read_dir(crates()).expect("a folder").map(|entry| entry.expect("an entry"));
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().into_string().expect("UTF-8")).collect();
    names.sort();
    names
}

/// Source files below a folder, as paths from there.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path.strip_prefix(folder).expect("inside").to_owned());
            }
        }
    }
    found.sort();
    found
}

/// Module path of a source file: its folders and its name; empty for the crate's root.
fn module_of(file: &Path) -> Vec<String> {
    let mut module: Vec<_> =
        file.with_extension("").iter().map(|part| part.to_str().expect("UTF-8").to_owned()).collect();
    let last = module.last().map(String::as_str);
    if last == Some("mod") || module.len() == 1 && matches!(last, Some("lib" | "main")) {
        module.pop();
    }
    module
}

/// Collects the top-level modules that a file's paths from `crate` and `super` lead to.
struct Reader {
    /// Depth of the module that is read: 1 for a top-level one.
    depth: usize,
    found: BTreeSet<String>,
}

impl Reader {
    /// Notes where a path leads.
    fn note(&mut self, path: &[String]) {
        let ups = path.iter().take_while(|part| *part == "super").count();
        let is_from_root = path.first().is_some_and(|part| part == "crate") || ups == self.depth && ups > 0;
        self.found.extend(path.get(ups.max(1)).filter(|_| is_from_root).cloned());
    }

    /// Notes where every path of a `use` leads.
    fn note_tree(&mut self, path: &mut Vec<String>, tree: &UseTree) {
        match tree {
            UseTree::Path(part) => {
                path.push(part.ident.to_string());
                self.note_tree(path, &part.tree);
                path.pop();
            }
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.note_tree(path, tree)),
            UseTree::Name(UseName { ident }) | UseTree::Rename(UseRename { ident, .. }) => {
                path.push(ident.to_string());
                self.note(path);
                path.pop();
            }
            UseTree::Glob(_) => self.note(path),
        }
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes
        .iter()
        .any(|it| it.path().is_ident("cfg") && it.meta.to_token_stream().to_string().contains("test"))
}

impl<'a> Visit<'a> for Reader {
    fn visit_item_mod(&mut self, item: &'a ItemMod) {
        if is_test(&item.attrs) {
            return;
        }
        self.depth += 1;
        visit::visit_item_mod(self, item);
        self.depth -= 1;
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        if !is_test(&item.attrs) {
            self.note_tree(&mut Vec::new(), &item.tree);
        }
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        self.note(&path.segments.iter().map(|part| part.ident.to_string()).collect::<Vec<_>>());
        visit::visit_path(self, path);
    }

    /// What a macro is given is not parsed: any `a::b` in it is a path.
    fn visit_macro(&mut self, of: &'a Macro) {
        let text = of.tokens.to_string().replace(" :: ", "::");
        for words in text.split(|c: char| !c.is_alphanumeric() && !"_:".contains(c)) {
            self.note(&words.split("::").map(str::to_owned).collect::<Vec<_>>());
        }
        visit::visit_macro(self, of);
    }
}

/// The top-level modules that a module's code uses.
fn used_in(code: &str, depth: usize) -> BTreeSet<String> {
    let mut reader = Reader { depth, found: BTreeSet::new() };
    reader.visit_file(&syn::parse_file(code).expect("Rust"));
    reader.found
}

/// What the top-level modules of a crate use of each other.
fn uses(name: &str) -> Uses {
    let src = crates().join(name).join("src");
    let files = sources(&src);
    let tops: BTreeSet<_> = files.iter().filter_map(|file| module_of(file).first().cloned()).collect();
    let mut uses: Uses = tops.iter().map(|top| (top.clone(), BTreeMap::new())).collect();
    for file in files {
        let module = module_of(&file);
        let Some(top) = module.first() else { continue };
        let text = fs::read_to_string(src.join(&file)).expect("UTF-8");
        for used in used_in(&text, module.len()) {
            if used != *top && tops.contains(&used) {
                uses.entry(top.clone())
                    .or_default()
                    .entry(used)
                    .or_insert_with(|| file.display().to_string());
            }
        }
    }
    uses
}

/// Modules that lead back to themselves.
fn in_rings(uses: &Uses) -> BTreeSet<&str> {
    let reaches = |from: &str| {
        let (mut seen, mut left) = (BTreeSet::new(), vec![from]);
        while let Some(next) = left.pop() {
            left.extend(uses[next].keys().map(String::as_str).filter(|used| seen.insert(*used)));
        }
        seen.contains(from)
    };
    uses.keys().map(String::as_str).filter(|module| reaches(module)).collect()
}

/// What breaks an order: a line each.
fn broken(uses: &Uses, layers: &Layers) -> Vec<String> {
    let mut place = BTreeMap::new();
    let mut faults = Vec::new();
    for (at, module) in
        layers.order.iter().enumerate().flat_map(|(at, line)| line.iter().map(move |m| (at, m)))
    {
        if !uses.contains_key(module) {
            faults.push(format!("there is no module `{module}`"));
        }
        if place.insert(module.as_str(), at).is_some() {
            faults.push(format!("`{module}` is there twice"));
        }
    }
    for (module, used) in uses {
        let Some(at) = place.get(module.as_str()) else {
            faults.push(format!("`{module}` has no place"));
            continue;
        };
        for (other, file) in used.iter().filter(|(other, _)| place.get(other.as_str()) >= Some(at)) {
            faults.push(format!("src/{file}: `{module}` uses `{other}`, which is not below it"));
        }
    }
    faults
}

#[test]
fn modules_use_only_what_is_below_them() {
    let mut faults = Vec::new();
    for name in names() {
        let uses = uses(&name);
        let rings = in_rings(&uses);
        if !rings.is_empty() {
            faults.push(format!("{name}: modules in rings: {rings:?}"));
        }
        match fs::read_to_string(crates().join(&name).join("layers.toml")) {
            Ok(text) => {
                let layers: Layers = toml::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
                faults.extend(broken(&uses, &layers).into_iter().map(|fault| format!("{name}: {fault}")));
            }
            Err(error) => faults.push(format!("{name}: layers.toml: {error}")),
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_ring_is_found_however_it_is_written() {
    let text = "use super::b;\nuse crate::{c::{self, D}, e};\n// crate::no\nfn f() -> crate::g::H { super::i::j() }\n\
                fn m() { n!(super::o::p) }\nmod q { use super::r; use super::super::s; }\n\
                #[cfg(test)]\nmod tests {\n    use crate::k;\n}\n";
    assert_eq!(used_in(text, 1), ["b", "c", "e", "g", "i", "o", "s"].map(str::to_owned).into());
    let file = "x.rs".to_owned();
    let uses: Uses = [("a", "b"), ("b", "c"), ("c", "b")]
        .map(|(from, to)| (from.to_owned(), BTreeMap::from([(to.to_owned(), file.clone())])))
        .into();
    assert_eq!(in_rings(&uses), ["b", "c"].into());
    let order = |lines: &[&[&str]]| Layers {
        order: lines.iter().map(|line| line.iter().map(|module| (*module).to_owned()).collect()).collect(),
    };
    assert_eq!(
        broken(&uses, &order(&[&["c"], &["b"], &["a"]])),
        ["src/x.rs: `c` uses `b`, which is not below it"]
    );
    assert_eq!(broken(&uses, &order(&[&["b", "c"]])).len(), 3, "one has no place, two are on one line");
}
