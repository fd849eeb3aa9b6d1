//! What hot files must not even mention.

use std::path::{Path, PathBuf};

/// What allocates, locks, speaks or panics.
const FORBIDDEN: [&str; 24] = [
    "Mutex<",
    "Mutex::",
    "RwLock<",
    "instrument::lock(",
    " lock(&",
    ".lock()",
    "println!",
    "eprintln!",
    "format!",
    "Vec<",
    "Vec::",
    "vec!",
    "Box<",
    "Box::",
    "String",
    ".to_owned()",
    ".to_vec()",
    ".collect()",
    "unwrap()",
    ".expect(",
    "panic!",
    "unreachable!",
    "todo!",
    "thread::sleep",
];

/// Functions of hot files that are not hot, and why they may.
const ALLOWED: &[(&str, &str, &str)] = &[
    ("clock.rs", "measure_rate", "the first question for the rate; it waits only within 20 ms of the start"),
    ("thread/mod.rs", "delete_thread", "the end of a thread"),
    ("thread/mod.rs", "refresh_mask", "the beginning of a thread, or a filter that changes"),
    ("instance/file.rs", "name", "a reader's copy"),
    ("memory/text.rs", "append", "a reader's copy"),
    ("memory/text.rs", "read", "a reader's copy"),
    ("memory/text.rs", "read_string", "a reader's copy"),
    ("memory/text.rs", "readable", "a reader's copy"),
    ("memory/text.rs", "show", "a reader's copy"),
    ("memory/text.rs", "shown", "a reader's copy"),
];

/// Name of the function a line belongs to: the last `fn` before it.
fn function_of<'a>(lines: &[&'a str], at: usize) -> &'a str {
    let name = |line: &'a str| {
        let code = line.split("//").next().unwrap_or_default();
        let (before, rest) = code.split_once("fn ")?;
        let is_item = before.trim_start().is_empty() || before.ends_with([' ', ')']);
        is_item.then(|| rest.split(['(', '<']).next().unwrap_or_default())
    };
    lines[..=at].iter().rev().find_map(|line| name(line)).unwrap_or("")
}

/// The hot part of a file: up to its tests.
fn hot_lines(source: &str) -> Vec<&str> {
    source
        .lines()
        .take_while(|line| !line.starts_with("#[cfg(test)]") && !line.starts_with("#[cfg(all(test"))
        .collect()
}

fn violations(file: &str, source: &str) -> Vec<String> {
    let lines = hot_lines(source);
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        let is_use = code.trim_start().starts_with("use ") || code.contains("debug_assert");
        let Some(what) = FORBIDDEN.iter().find(|what| mentions(code, what)).filter(|_| !is_use) else {
            continue;
        };
        let function = function_of(&lines, at);
        if !ALLOWED.iter().any(|(f, name, _)| *f == file && *name == function) {
            found.push(format!("{file}:{}: {what} in {function}: {}", at + 1, line.trim()));
        }
    }
    found
}

/// Whether code mentions a word, and not only a longer one that ends with it.
fn mentions(code: &str, what: &str) -> bool {
    let is_whole = |at: usize| {
        let begins = what.starts_with(char::is_alphanumeric);
        !begins || !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_')
    };
    code.match_indices(what).any(|(at, _)| is_whole(at))
}

/// Paths of the sources in a folder and below.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder of sources");
    let below = |path: PathBuf| if path.is_dir() { sources(&path) } else { vec![path] };
    let paths = entries.flat_map(|entry| below(entry.expect("an entry").path()));
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}

/// Hot files of the engine, by their paths in its `src`, of the protocols it is made of, by `sync/` and
/// theirs, and of the host's shims, by `entry/` and theirs.
fn hot_files() -> Vec<(String, String)> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for (folder, prefix) in
        [("src", ""), ("../tare-sync/src", "sync/"), ("../tare-mariadb/src/entry", "entry/")]
    {
        let folder = manifest.join(folder);
        for path in sources(&folder) {
            let name = path.strip_prefix(&folder).expect("inside").display();
            files.push((format!("{prefix}{name}"), std::fs::read_to_string(&path).expect("a source file")));
        }
    }
    files.retain(|(_, source)| source.starts_with("//! HOT PATH"));
    files.sort();
    files
}

#[test]
fn hot_files_do_not_mention_what_allocates_locks_or_panics() {
    let files = hot_files();
    assert!(
        ["sync/", "entry/"]
            .iter()
            .all(|it| files.iter().filter(|(name, _)| name.starts_with(it)).count() >= 8)
            && files.len() >= 40,
        "hot files say so: {:?}",
        files.iter().map(|(name, _)| name).collect::<Vec<_>>()
    );
    let found: Vec<String> = files.iter().flat_map(|(name, source)| violations(name, source)).collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn every_permission_is_needed() {
    let files = hot_files();
    for (file, function, why) in ALLOWED {
        let (_, source) = files.iter().find(|(name, _)| name == file).expect("a hot file");
        let lines = hot_lines(source);
        let uses = lines.iter().enumerate().any(|(at, line)| {
            FORBIDDEN.iter().any(|what| mentions(line, what)) && function_of(&lines, at) == *function
        });
        assert!(uses, "{file} {function} ({why}) needs no permission any more");
    }
}

#[test]
fn a_violation_is_found_where_it_is() {
    let source =
        "//! HOT PATH\nfn cold() {}\npub(crate) fn hot() {\n    x.unwrap();\n}\n#[cfg(test)]\nx.unwrap();\n";
    let found = violations("wait.rs", source);
    assert_eq!(found, ["wait.rs:4: unwrap() in hot: x.unwrap();"]);
    let longer = "//! HOT PATH\nfn hot() -> TakeMutex<true> { instance!() }";
    assert!(violations("wait.rs", longer).is_empty());
    assert_eq!(violations("wait.rs", "//! HOT PATH\nfn hot(x: &Mutex<u8>) { }").len(), 1);
    assert!(violations("wait.rs", "//! HOT PATH\n// panic! is not here\nuse std::sync::Mutex;").is_empty());
}
