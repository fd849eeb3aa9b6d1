//! What is released: the list of what it is made of, and the compiler it takes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What `scripts/package.sh` prints of this.
fn packaged(what: &str) -> String {
    let mut command = Command::new(root().join("scripts/package.sh"));
    let output = command.arg(what).env("SOURCE_DATE_EPOCH", "1").output().expect("the script runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The components of the list that `make release` writes.
fn listed() -> Vec<Value> {
    let list: Value = serde_json::from_str(&packaged("sbom")).expect("JSON");
    assert_eq!((&list["bomFormat"], &list["specVersion"]), (&"CycloneDX".into(), &"1.6".into()));
    assert_eq!(list["metadata"]["component"]["version"], env!("CARGO_PKG_VERSION"));
    list["components"].as_array().expect("components").clone()
}

fn text<'a>(component: &'a Value, field: &str) -> &'a str {
    component[field].as_str().unwrap_or_else(|| panic!("no {field}: {component}"))
}

/// Of each crate in Cargo.lock, by name and version, the checksum, which the project's own do not have.
fn locked() -> BTreeMap<(String, String), Option<String>> {
    let text = fs::read_to_string(root().join("Cargo.lock")).expect("Cargo.lock");
    let lock: toml::Table = text.parse().expect("TOML");
    let packages = lock["package"].as_array().expect("packages").iter();
    let field = |package: &toml::Value, name: &str| package.get(name)?.as_str().map(str::to_owned);
    packages
        .map(|p| {
            let key = (field(p, "name").expect("a name"), field(p, "version").expect("a version"));
            (key, field(p, "checksum"))
        })
        .collect()
}

/// Crates of crates.io whose sources the program names, as NAME-VERSION: in paths that messages and debug
/// information have.
fn named_by_the_program() -> BTreeSet<String> {
    let program = fs::read(env!("CARGO_BIN_EXE_tare")).expect("the program");
    let program = String::from_utf8_lossy(&program);
    let paths = program.split("/registry/src/").skip(1);
    paths
        .filter_map(|path| path.get(..200).unwrap_or(path).split('/').nth(1))
        .filter(|name| name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.+".contains(&b)))
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_crate_is_listed_with_its_licence_and_the_checksum_that_is_locked() {
    let (listed, locked) = (listed(), locked());
    let mut required = BTreeSet::new();
    for component in &listed {
        let (name, version) = (text(component, "name"), text(component, "version"));
        let licence = component["licenses"][0]["expression"].as_str().unwrap_or_default();
        assert!(!licence.is_empty() && !licence.contains('/'), "{name}: {licence:?}");
        if text(component, "scope") == "required" {
            required.insert(format!("{name}-{version}"));
        }
        if name == "std" {
            continue;
        }
        let checksum = locked.get(&(name.to_owned(), version.to_owned()));
        let checksum = checksum.unwrap_or_else(|| panic!("{name} {version} is not in Cargo.lock"));
        assert_eq!(component["hashes"][0]["content"].as_str(), checksum.as_deref(), "{name} {version}");
        assert_eq!(component.get("purl").is_some(), checksum.is_some(), "{name}: only crates.io's have one");
    }
    let named = named_by_the_program();
    assert!(named.len() > 50, "the program names its crates: {named:?}");
    // Cargo builds the program for its tests with the features that those want of its dependencies.
    let by_tests = |name: &&String| name.starts_with("toml_writer-");
    let missing: Vec<_> = named.difference(&required).filter(|name| !by_tests(name)).collect();
    assert!(missing.is_empty(), "in the program, and not listed as such: {missing:?}");
    let tests_only = ["vt100", "tare-testkit", "loom"];
    assert!(!listed.iter().any(|c| tests_only.contains(&text(c, "name"))), "what only tests need is listed");
}

#[test]
fn the_terms_of_every_crate_that_is_shipped_go_along() {
    let listed = listed();
    let shipped = listed.iter().filter(|c| c.get("purl").is_some() && text(c, "scope") == "required");
    let shipped: BTreeSet<_> =
        shipped.map(|c| format!("{}-{}", text(c, "name"), text(c, "version"))).collect();
    let notices = packaged("notices");
    let entries: BTreeMap<_, _> = notices
        .split("\n==== ")
        .map(|e| e.trim_start_matches("==== ").split_once(" (").expect("a licence"))
        .collect();
    assert_eq!(entries.keys().map(|&k| k.to_owned()).collect::<BTreeSet<_>>(), shipped);
    // A few crates have their licence's name in the manifest, and no text.
    let has_text = |entry: &str| entry.contains(":\n\n") || entry.contains(": as of ");
    let without: Vec<_> = entries.iter().filter(|(_, entry)| !has_text(entry)).collect();
    assert!(
        without.len() < 10 && without.iter().all(|(_, entry)| entry.contains("Apache-2.0)")),
        "{without:?}"
    );
}

/// Runs the set-up with a compiler that says this of itself, and without a package manager: it cannot get
/// far.
fn set_up(compiler: &str) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    for program in ["bash", "dirname", "head", "sed", "sort"] {
        let found = ["/usr/bin", "/bin"].iter().map(|p| Path::new(p).join(program)).find(|p| p.exists());
        symlink(found.unwrap_or_else(|| panic!("no {program}")), folder.path().join(program))
            .expect("a link");
    }
    for (program, says) in [("cargo", ""), ("rustc", compiler)] {
        let path = folder.path().join(program);
        fs::write(&path, format!("#!/bin/bash\necho '{says}'\n")).expect("a program");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("permissions");
    }
    let script = root().join("scripts/setup.sh");
    Command::new("/bin/bash").arg(script).env("PATH", folder.path()).output().expect("it runs")
}

#[test]
fn a_compiler_that_is_too_old_is_named_before_anything_is_installed() {
    let oldest = env!("CARGO_PKG_RUST_VERSION");
    for (says, expected) in [
        ("rustc 1.63.0", format!("Rust {oldest} or newer is needed, and this is 1.63.0")),
        ("rustc 1.9.0 (old)", format!("Rust {oldest} or newer is needed, and this is 1.9.0")),
        ("", format!("a Rust toolchain is needed, {oldest} or newer")),
        (&format!("rustc {oldest}.0 (5980 2026-04-14)"), "there is no apt-get".to_owned()),
        ("rustc 2.0.0-nightly (abc)", "there is no apt-get".to_owned()),
    ] {
        let output = set_up(says);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(&expected), "of {says:?}: {said}");
    }
}
