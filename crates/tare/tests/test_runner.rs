//! How `make test` runs programs and sums them up: scripts/side_by_side.py and scripts/test.awk, on a package
//! made for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// The files of the package: what passes, fails, is skipped, and what no line of results tells of.
const FILES: &[(&str, &str)] = &[
    ("Cargo.toml", "[package]\nname = \"sample\"\nversion = \"1.2.3\"\nedition = \"2024\"\n[workspace]\n"),
    ("src/lib.rs", "//! ```\n//! assert_eq!(1, 1);\n//! ```\n#[test]\nfn of_the_library() {}\n"),
    (
        "tests/good.rs",
        "#[test]\nfn has_what_cargo_gives() {\n    let told = |name| std::env::var(name).unwrap();\n    \
         assert_eq!(told(\"CARGO_MANIFEST_DIR\"), std::env::current_dir().unwrap().display().to_string());\n    \
         assert_eq!(told(\"CARGO_PKG_NAME\") + &told(\"CARGO_PKG_VERSION_MINOR\"), \"sample2\");\n}\n\
         #[test]\nfn cannot() {\n    println!(\"skipped: no such thing here\");\n}\n\
         #[test]\n#[ignore = \"too long\"]\nfn long() {}\n",
    ),
    (
        "tests/fails/main.rs",
        "#[test]\nfn wrong() {\n    assert_eq!(1, 2, \"one is not two\");\n}\n#[test]\nfn right() {}\n",
    ),
    (
        "tests/aborts.rs",
        "#[test]\nfn aborts() {\n    use std::io::Write;\n    let _ = std::io::stderr().write_all(b\"its last words\\n\");\n    std::process::abort();\n}\n",
    ),
    ("tests/exits.rs", "#[test]\nfn exits() {\n    std::process::exit(3);\n}\n"),
    (
        "tests/hangs.rs",
        "#[test]\nfn hangs() {\n    let mut child = std::process::Command::new(\"sleep\").arg(\"6543\").spawn().unwrap();\n    \
         std::fs::write(\"child\", child.id().to_string()).unwrap();\n    child.wait().unwrap();\n}\n",
    ),
    ("tests/meets.rs", MEETS),
    ("tests/met.rs", MEETS),
    (
        "tests/alone.rs",
        "//! ALONE: it minds others.\n#[test]\nfn others_have_ended() {\n    for name in [\"meets\", \"met\"] {\n        \
         assert!(std::path::Path::new(&format!(\"{name} ended\")).exists());\n    }\n}\n",
    ),
];

/// Ends when two programs of this code have run at a time.
const MEETS: &str = "#[test]\nfn meet() {\n    \
    fs(concat!(env!(\"CARGO_CRATE_NAME\"), \" began\"));\n    \
    while ![\"meets began\", \"met began\"].iter().all(|name| std::path::Path::new(name).exists()) {\n        \
    std::thread::sleep(std::time::Duration::from_millis(10));\n    }\n    \
    fs(concat!(env!(\"CARGO_CRATE_NAME\"), \" ended\"));\n}\n\
    fn fs(name: &str) {\n    std::fs::write(name, \"\").unwrap();\n}\n";

/// Tests that fail when they run first, as many as there are numbers below `last`, and one that always does.
fn wavering(last: usize) -> String {
    let test = |number: usize| {
        format!(
            "#[test]\nfn wavers_{number}() {{\n    let was = std::path::Path::new(\"was_{number}\");\n    \
             if !was.exists() {{\n        std::fs::write(was, \"\").unwrap();\n        panic!(\"at first\");\n    }}\n}}\n"
        )
    };
    let tests: String = (0..last).map(test).collect();
    tests
        + "#[test]\nfn steady() {\n    assert!(!std::path::Path::new(\"fails\").exists(), \"steadily\");\n}\n"
}

fn package() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in FILES {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
    let locked = Command::new(env!("CARGO"))
        .args(["generate-lockfile", "--offline"])
        .current_dir(folder.path())
        .output()
        .expect("cargo runs");
    assert!(locked.status.success(), "{locked:?}");
    folder
}

/// Runs what `scripts/test.sh` runs of the workspace, with these arguments.
fn run(folder: &Path, arguments: &str) -> Output {
    run_beside(folder, arguments, "")
}

/// Does so with a command beside it.
fn run_beside(folder: &Path, arguments: &str, beside: &str) -> Output {
    let scripts = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scripts");
    let scripts = scripts.canonicalize().expect("the scripts").display().to_string();
    let mut command = Command::new("bash");
    let script = format!("{scripts}/side_by_side.py {arguments} 2>&1 | awk -f {scripts}/test.awk");
    command.args(["-o", "pipefail", "-c", &script]).current_dir(folder);
    command.env("CARGO", env!("CARGO")).env("CARGO_TARGET_DIR", folder.join("target"));
    command.env("TARE_TEST_BESIDE", beside);
    command.env("TARE_TEST_SECONDS", "10").env_remove("CARGO_MANIFEST_DIR").output().expect("bash runs")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn what_fails_hangs_dies_or_is_skipped_is_said_and_counted() {
    if Command::new("python3").arg("--version").output().is_err() {
        return println!("skipped: python3 is not there");
    }
    let package = package();
    let ended = run(package.path(), "");
    let said = text(&ended);
    assert!(!ended.status.success(), "{said}");
    for line in [
        "tests: 7 passed, 4 failed, 2 skipped",
        "skipped: tests/good.rs: cannot: no such thing here",
        "skipped: tests/good.rs: long: too long",
        "error: test failed, to rerun pass `-p sample --test fails`",
        "error: test failed, to rerun pass `-p sample --test exits`",
        "error: test program was killed by SIGABRT, to rerun pass `-p sample --test aborts`",
        "error: test program was killed: it had not ended after 10 s (TARE_TEST_SECONDS), to rerun pass `-p sample --test hangs`",
        "error: 4 targets failed:",
        "its last words",
    ] {
        assert!(said.lines().any(|it| it == line), "no {line:?} in:\n{said}");
    }
    for word in ["one is not two", "unittests src/lib.rs ", "Doc-tests sample ", "tests/alone.rs "] {
        assert!(said.contains(word), "no {word:?} in:\n{said}");
    }
    // A program killed for its time is in the table with the others.
    let table = said.lines().skip_while(|it| !it.starts_with("the slowest programs"));
    let listed: Vec<&str> = table.filter(|it| it.ends_with(" s")).collect();
    let has = |choice: &str| listed.iter().any(|it| it.starts_with(&format!("{choice} ")));
    assert!(has("-p sample --test hangs") && has("--doc") && has("all"), "{listed:?} in:\n{said}");
    let child = fs::read_to_string(package.path().join("child")).expect("a number");
    let line = fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
    assert!(!line.contains("6543"), "what a hanging program has started goes with it");

    let ended = run(package.path(), "-p sample --test good --test fails -- right has");
    let said = text(&ended);
    assert!(ended.status.success() && said.ends_with("tests: 2 passed, 0 failed, 0 skipped\n"), "{said}");
    let ended = run(package.path(), "--test=good has_what");
    let said = text(&ended);
    assert!(ended.status.success() && said.ends_with("tests: 1 passed, 0 failed, 0 skipped\n"), "{said}");
    let ended = run_beside(package.path(), "--test=good has_what", "cargo check --locked --nothing");
    let said = text(&ended);
    let call = "error: test failed, to rerun call `cargo check --locked --nothing`";
    assert!(
        !ended.status.success() && said.lines().any(|it| it == call) && said.contains("'--nothing'"),
        "{said}"
    );
    assert!(said.ends_with("tests: 1 passed, 1 failed, 0 skipped\n"), "{said}");
    let ended = run_beside(package.path(), "--test=good has_what", "cargo check --locked");
    let said = text(&ended);
    assert!(ended.status.success() && said.ends_with("tests: 1 passed, 0 failed, 0 skipped\n"), "{said}");
    let ended = run(package.path(), "--doc");
    let said = text(&ended);
    assert!(ended.status.success() && said.ends_with("tests: 1 passed, 0 failed, 0 skipped\n"), "{said}");
    let ended = run(package.path(), "--lib -- nothing");
    assert!(!ended.status.success(), "a run without a test is no success: {}", text(&ended));
    fs::write(package.path().join("tests/good.rs"), "no Rust").expect("a file");
    let ended = run(package.path(), "");
    assert!(!ended.status.success() && text(&ended).contains("could not compile"), "{}", text(&ended));
}

#[test]
fn a_few_tests_that_fail_are_repeated_once_and_said() {
    if Command::new("python3").arg("--version").output().is_err() {
        return println!("skipped: python3 is not there");
    }
    let package = package();
    let folder = package.path();
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).expect("a file");
    write("tests/wavers.rs", &wavering(2));
    let ended = run(folder, "--test=wavers --test=good");
    let said = text(&ended);
    assert!(ended.status.success(), "{said}");
    assert!(said.ends_with("tests: 2 passed, 0 failed, 2 wavered, 2 skipped\n"), "{said}");
    let line = "wavered: tests/wavers.rs: wavers_1 (failed beside others, passed when it was repeated alone)";
    assert!(said.lines().any(|it| it == line) && said.contains("at first"), "{said}");

    // One that fails again is a failure, whatever else wavers.
    write("fails", "");
    fs::remove_file(folder.join("was_0")).expect("the file of the first run");
    let ended = run(folder, "--test=wavers");
    let said = text(&ended);
    assert!(!ended.status.success() && said.contains("steady failed again"), "{said}");
    assert!(said.contains("tests: 1 passed, 1 failed, 1 wavered, 0 skipped\n"), "{said}");

    // Where more fail, none is repeated.
    fs::remove_file(folder.join("fails")).expect("the file");
    write("tests/wavers.rs", &wavering(6));
    let ended = run(folder, "--test=wavers");
    let said = text(&ended);
    assert!(!ended.status.success() && !said.contains("wavered"), "{said}");
    assert!(said.contains("tests: 3 passed, 4 failed, 0 skipped\n"), "{said}");
}
