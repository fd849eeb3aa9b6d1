//! ARCHITECTURE.md and SAFETY.md against the tree: dependencies, the engine's ignorance of hosts, hot
//! modules, unsafe code.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// What a crate may use of tare, apart from its tests. A new crate takes its place here first.
const MAY_USE: [(&str, &[&str]); 19] = [
    ("tare-sync", &[]),
    ("tare-engine", &["tare-sync"]),
    ("tare-tables", &["tare-engine"]),
    ("tare-wire", &["tare-engine", "tare-tables"]),
    ("tare-host", &["tare-budget", "tare-engine", "tare-tables", "tare-wire", "tare-words"]),
    ("tare-mariadb", &["tare-engine", "tare-host", "tare-tables", "tare-wire", "tare-words"]),
    ("tare-mysql", &["tare-engine", "tare-host", "tare-tables", "tare-wire", "tare-words"]),
    ("tare-words", &[]),
    ("tare-rig", &["tare-engine"]),
    ("tare-counted", &["tare-engine", "tare-rig", "tare-tables", "tare-wire"]),
    ("tare-lab-sample", &["tare-lab"]),
    ("tare-page", &[]),
    ("tare-connect", &["tare-words"]),
    ("tare-server", &[]),
    ("tare-lab", &["tare-budget", "tare-connect", "tare-page", "tare-server", "tare-words"]),
    ("tare-budget", &[]),
    (
        "tare-outlets",
        &["tare-budget", "tare-connect", "tare-engine", "tare-page", "tare-server", "tare-words"],
    ),
    (
        "tare",
        &[
            "tare-budget",
            "tare-connect",
            "tare-host",
            "tare-lab",
            "tare-mariadb",
            "tare-mysql",
            "tare-outlets",
            "tare-server",
            "tare-tables",
            "tare-words",
        ],
    ),
    ("tare-testkit", &["tare-server"]),
];

/// Where unsafe code may be.
const UNSAFE_CRATES: [&str; 5] = ["tare-engine", "tare-host", "tare-mariadb", "tare-mysql", "tare-sync"];
/// Longest line of a comment, in characters: `max_width` of code in rustfmt.toml.
const WIDTH: usize = 110;
/// Share of type names, in percent, of which fewer may be declared in more than one place.
const SHARED_NAMES: usize = 10;
/// Words of hosts.
const HOSTS: [&str; 6] = ["mariadb", "mariadbd", "mysqld", "psi", "innodb", "federated"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Paths of the `.rs` files in a folder and below, from the workspace.
fn sources(folder: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let path = path.strip_prefix(root()).expect("inside");
                found.insert(path.to_str().expect("UTF-8").to_owned());
            }
        }
    }
    found
}

/// A file's code: its lines without comments.
fn code(path: &str) -> String {
    let lines: Vec<String> =
        read(path).lines().map(|line| line.split("//").next().unwrap_or("").to_owned()).collect();
    lines.join("\n")
}

/// Words of a text, lower-cased, identifiers taken apart at `_`.
fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase)
}

/// Text between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The tables under headings that name a folder: paths of the modules in the first cell, and the second cell.
fn modules(document: &str) -> BTreeMap<String, String> {
    let mut folder = None;
    let mut found = BTreeMap::new();
    for line in document.lines() {
        if line.starts_with('#') {
            folder = line.strip_prefix("### ").and_then(|heading| quoted(heading).next()).map(str::to_owned);
        }
        let (Some(folder), Some(row)) = (&folder, line.strip_prefix("| ")) else { continue };
        let mut cells = row.split('|');
        let (first, second) = (cells.next().unwrap_or(""), cells.next().unwrap_or(""));
        for name in quoted(first) {
            let known = found.insert(format!("{folder}{name}.rs"), second.trim().to_owned());
            assert!(known.is_none(), "{folder}{name}.rs is listed twice");
        }
    }
    assert!(!found.is_empty(), "no modules found in the document");
    found
}

#[test]
fn dependencies_point_towards_the_engine() {
    let allowed: BTreeMap<_, _> = MAY_USE.into_iter().collect();
    let mut seen = BTreeSet::new();
    for entry in fs::read_dir(root().join("crates")).expect("crates") {
        let folder = entry.expect("an entry").file_name().into_string().expect("UTF-8");
        let manifest: toml::Table = read(&format!("crates/{folder}/Cargo.toml")).parse().expect("TOML");
        let name = manifest["package"]["name"].as_str().expect("a name").to_owned();
        let allowed = allowed.get(name.as_str()).unwrap_or_else(|| panic!("{name} has no place in MAY_USE"));
        for used in used_of_tare(&manifest) {
            assert!(allowed.contains(&used.as_str()), "{name} must not depend on {used}");
        }
        let lints = manifest.get("lints").and_then(|lints| lints.get("workspace"));
        assert_eq!(lints.and_then(toml::Value::as_bool), Some(true), "{name} goes by the workspace's lints");
        seen.insert(name);
    }
    assert_eq!(seen, allowed.keys().map(|name| (*name).to_owned()).collect());
}

/// Crates of tare among the dependencies of all targets, builds included, tests not.
fn used_of_tare(manifest: &toml::Table) -> BTreeSet<String> {
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let targets = targets.into_iter().flat_map(|targets| targets.values().filter_map(toml::Value::as_table));
    let mut used = BTreeSet::new();
    for table in std::iter::once(manifest).chain(targets) {
        for kind in ["dependencies", "build-dependencies"] {
            for (name, value) in table.get(kind).and_then(toml::Value::as_table).into_iter().flatten() {
                let package = value.get("package").and_then(toml::Value::as_str).unwrap_or(name);
                used.insert(package.to_owned());
            }
        }
    }
    used.retain(|name| name == "tare" || name.starts_with("tare-"));
    used
}

#[test]
fn the_engine_knows_no_host() {
    for path in sources("crates/tare-engine/src") {
        let code = code(&path);
        let host = words(&code).find(|word| HOSTS.contains(&word.as_str()));
        assert_eq!(host, None, "{path} names a host");
    }
    for folder in ["crates/tare-tables/src", "crates/tare-wire/src"] {
        for path in sources(folder) {
            // What a table shows and what a client sends may name the host; the interface to it may not
            // appear.
            let code = code(&path);
            assert_eq!(words(&code).find(|word| word == "psi"), None, "{path} names the host's interface");
        }
    }
}

#[test]
fn the_map_lists_every_module_and_which_are_hot() {
    let map = modules(&read("ARCHITECTURE.md"));
    let direct = |path: &String| !path.contains("/interleavings/");
    let mut there = sources("crates/tare-engine/src");
    there.extend(sources("crates/tare-sync/src").into_iter().filter(direct));
    there.extend(sources("crates/tare-host/src"));
    there.extend(sources("crates/tare-mariadb/src/entry"));
    there.extend(sources("crates/tare-mysql/src"));
    assert_eq!(map.keys().cloned().collect::<BTreeSet<_>>(), there, "modules in ARCHITECTURE.md, and files");
    let hot: BTreeSet<String> =
        sources("crates").into_iter().filter(|path| read(path).starts_with("//! HOT PATH")).collect();
    let said = map.into_iter().filter(|(_, cell)| cell == "hot").map(|(path, _)| path);
    assert_eq!(said.collect::<BTreeSet<_>>(), hot, "hot in ARCHITECTURE.md, and in the modules' first lines");
}

#[test]
fn unsafe_code_is_where_safety_md_says() {
    let workspace: toml::Table = read("Cargo.toml").parse().expect("TOML");
    assert_eq!(workspace["workspace"]["lints"]["rust"]["unsafe_code"].as_str(), Some("deny"));
    // The lint makes the compiler refuse unsafe code wherever it is not lifted by this text.
    let lifted = |path: &String| code(path).contains("allow(unsafe_code)");
    let lifting: BTreeSet<String> = sources("crates")
        .into_iter()
        .filter(|path| !path.ends_with("tests/architecture.rs"))
        .filter(lifted)
        .collect();
    for path in &lifting {
        let home = path.split('/').nth(1).unwrap_or("");
        assert!(UNSAFE_CRATES.contains(&home), "{path}: no unsafe code in {home}");
    }
    let shipped: BTreeSet<String> = lifting.into_iter().filter(|path| path.contains("/src/")).collect();
    let listed: BTreeSet<String> = modules(&read("SAFETY.md")).into_keys().collect();
    assert_eq!(listed, shipped, "modules in SAFETY.md, and modules that lift the lint");
}

#[test]
fn no_file_is_compiled_into_two_crates() {
    for path in sources("crates") {
        let crate_of = |path: &Path| path.components().nth(1).map(|it| it.as_os_str().to_owned());
        for line in code(&path).lines() {
            let Some(rest) = line.trim().strip_prefix("#[path = \"") else { continue };
            let folder =
                root().join(&path).parent().expect("a folder").join(rest.split('"').next().unwrap_or(""));
            let file = folder.canonicalize().unwrap_or_else(|error| panic!("{path}: {rest}: {error}"));
            let file = file.strip_prefix(root()).expect("inside");
            assert_eq!(crate_of(file), crate_of(Path::new(&path)), "{path} includes {}", file.display());
        }
    }
}

/// First words of doc comments of functions, and the lines they are in; without tests' own names, and without
/// slots of the function table, which are described as such.
fn first_words_of_functions(path: &str) -> Vec<(String, String)> {
    let text = read(path);
    let shipped = text.split("\n#[cfg(test)]").next().unwrap_or("");
    let mut found = Vec::new();
    let mut first: Option<&str> = None;
    for line in shipped.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix("///") {
            first.get_or_insert(comment.trim());
            continue;
        }
        if line.starts_with("#[") {
            continue;
        }
        let head = line.replace("(crate)", "").replace("(super)", "");
        // A name follows, unlike in the type of a function.
        let is_function = head.split(['(', '<']).next().unwrap_or("").split(' ').rev().nth(1) == Some("fn");
        if let Some(comment) =
            first.take().filter(|it| is_function && !it.contains("` slot") && !it.starts_with("The slots "))
        {
            let word = comment.split([' ', ',', ';', '.', ':']).next().unwrap_or("");
            found.push((word.to_owned(), format!("{path}: {comment}")));
        }
    }
    found
}

#[test]
fn comments_of_functions_begin_with_a_verb() {
    let is_verb = |word: &str| {
        word.starts_with(char::is_uppercase)
            && word.ends_with('s')
            && !["Its", "This", "As", "Whose"].contains(&word)
    };
    let shipped =
        sources("crates").into_iter().filter(|path| path.contains("/src/") && !path.contains("tests"));
    let words = shipped.flat_map(|path| first_words_of_functions(&path));
    let others: Vec<String> = words.filter(|(word, _)| !is_verb(word)).map(|(_, line)| line).collect();
    assert!(
        others.is_empty(),
        "a comment says what the function does, such as \"Returns …\":\n{}",
        others.join("\n")
    );
}

#[test]
fn comments_keep_the_width_of_code() {
    let mut wide = Vec::new();
    for path in sources("crates") {
        let text = read(&path);
        if text.lines().take(5).any(|line| line.starts_with("//! Generated by ")) {
            continue;
        }
        let mut is_example = false;
        for (line, number) in text.lines().zip(1..) {
            let Some(comment) = line.trim_start().strip_prefix("//") else {
                is_example = false;
                continue;
            };
            let comment = comment.trim_start_matches(['/', '!']).trim_start();
            is_example ^= comment.starts_with("```");
            if !is_example && !comment.starts_with('|') && line.chars().count() > WIDTH {
                wide.push(format!("{path}:{number}"));
            }
        }
    }
    assert!(wide.is_empty(), "comments wider than {WIDTH} characters:\n{}", wide.join("\n"));
}

#[test]
fn text_is_quoted_for_sql_in_one_place() {
    let quotes = |path: &String| read(path).contains(r#"replace('\'', "''")"#);
    let found: Vec<String> = sources("crates").into_iter().filter(quotes).collect();
    let here = "crates/tare-testkit/tests/architecture.rs";
    assert_eq!(found, ["crates/tare-server/src/sql.rs", here], "tare_server::sql does it");
}

#[test]
fn the_documents_name_files_that_exist() {
    for document in ["ARCHITECTURE.md", "SAFETY.md"] {
        let text = read(document);
        let paths = quoted(&text).filter(|path| path.starts_with("crates/") || path.starts_with("scripts/"));
        let missing: Vec<&str> = paths.filter(|path| !root().join(path).exists()).collect();
        assert_eq!(missing, Vec::<&str>::new(), "{document}");
    }
}

/// Items of which a text says that they are in a source file, "`a` in `crates/….rs`" or "`a` and `b` in …",
/// and that file.
fn items_in_files(text: &str) -> Vec<(&str, &str)> {
    let parts: Vec<&str> = text.split('`').collect();
    let is_between = |at: usize, word: &str| parts[at].split_whitespace().eq([word]);
    let mut found = Vec::new();
    for at in (3..parts.len()).step_by(2) {
        let is_source = parts[at].starts_with("crates/") && parts[at].ends_with(".rs");
        if !is_source || !is_between(at - 1, "in") {
            continue;
        }
        let mut item = at - 2;
        found.push((parts[item], parts[at]));
        while item > 2 && is_between(item - 1, "and") {
            item -= 2;
            found.push((parts[item], parts[at]));
        }
    }
    found
}

#[test]
fn the_documents_name_items_that_are_in_their_files() {
    let mut seen = 0;
    for document in ["ARCHITECTURE.md", "SAFETY.md"] {
        let text = read(document);
        for (item, path) in items_in_files(&text) {
            let name = item.trim_end_matches(['(', ')', '!']).rsplit([':', '.']).next().unwrap_or(item);
            let code = read(path);
            let mut words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
            assert!(words.any(|word| word == name), "{document}: {path} has no `{item}`");
            seen += 1;
        }
    }
    assert!(seen > 30, "{seen} items were found in the documents");
    assert_eq!(
        items_in_files("`a::b` and `c` in\n`crates/x.rs`, `d`"),
        [("c", "crates/x.rs"), ("a::b", "crates/x.rs")]
    );
}

/// The name of the type that a line of code declares outside of any block.
fn declared_type(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().skip_while(|word| {
        *word == "unsafe"
            || *word == "pub"
            || word.starts_with("pub(")
            || *word == "in"
            || word.ends_with(')')
    });
    let is_type = |word: &str| matches!(word, "struct" | "enum" | "union" | "trait" | "type");
    if line.starts_with(char::is_whitespace) || !words.next().is_some_and(is_type) {
        return None;
    }
    words.next()?.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

/// Where types of each name are declared; tests are left out.
fn declared_types() -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in sources("crates") {
        if path.split('/').nth(2) != Some("src") || path.contains("/tests") {
            continue;
        }
        for name in code(&path).lines().filter_map(declared_type) {
            found.entry(name.to_owned()).or_default().push(path.clone());
        }
    }
    found
}

/// One word, one meaning: who reads a name that has several types has to find out which one is meant.
#[test]
fn few_names_belong_to_several_types() {
    let all = declared_types();
    assert!(all.len() > 1000, "only {} names of types were found", all.len());
    let mut shared: Vec<_> = all.iter().filter(|(_, places)| places.len() > 1).collect();
    shared.sort_by_key(|(_, places)| std::cmp::Reverse(places.len()));
    let worst: Vec<String> =
        shared.iter().take(20).map(|(name, places)| format!("{name}: {}", places.join(", "))).collect();
    assert!(
        shared.len() * 100 < all.len() * SHARED_NAMES,
        "{} of {} names of types are declared more than once; fewer than {SHARED_NAMES}% may be. Rename some \
         to what they are. Most often:\n{}",
        shared.len(),
        all.len(),
        worst.join("\n")
    );
}

#[test]
fn declarations_of_types_are_recognised() {
    assert_eq!(declared_type("pub(crate) struct Ring<T>(T);"), Some("Ring"));
    assert_eq!(declared_type("pub(in crate::a) enum Level {"), Some("Level"));
    assert_eq!(declared_type("pub unsafe trait View: Sync {"), Some("View"));
    assert_eq!(declared_type("type Sink<'a> = &'a str;"), Some("Sink"));
    assert_eq!(declared_type("    type Item = u8;"), None);
    assert_eq!(declared_type("impl Ring<u8> {"), None);
}
