//! Programs counted by valgrind, and the figures on record that they are held against.

use std::path::PathBuf;
use std::process::Command;

/// What a test prints where it cannot count.
pub const NO_VALGRIND: &str = "skipped: valgrind is not installed; scripts/setup.sh installs it";

/// Figures on record: lines `key = value`.
#[derive(Clone, Copy, Debug)]
pub struct InstructionCounts(pub &'static str);

impl InstructionCounts {
    /// Returns the text of a key.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn text(&self, key: &str) -> String {
        let line = self.0.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix('='));
        line.unwrap_or_else(|| panic!("no {key}")).trim().trim_matches('"').to_owned()
    }

    /// Returns the number of a key.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn number(&self, key: &str) -> u64 {
        self.text(key).parse().unwrap_or_else(|_| panic!("{key} is no number"))
    }

    /// Returns whether they are of this compiler; says so if they are not.
    pub fn are_compared(&self) -> bool {
        let (rustc, of) =
            (output(Command::new("rustc").arg("--version")).expect("rustc"), self.text("rustc"));
        let are_compared = rustc.contains(&format!("rustc {of} "));
        if !are_compared {
            println!("skipped: the figures on record are of rustc {of}, this is {}", rustc.trim());
        }
        are_compared
    }

    /// Holds what something takes now against the figure on record, which is neither exceeded nor far too
    /// high. `what` begins with what is counted.
    pub fn hold(&self, what: &str, now: u64, on_record: u64) {
        println!("{what}: {now}, on record {on_record}");
        if !self.are_compared() {
            return;
        }
        let percent = |key| on_record * self.number(key) / 100;
        assert!(now <= on_record + percent("tolerance_percent"), "{what}: {now}, on record {on_record}");
        let least = on_record - percent("slack_percent");
        assert!(now >= least, "{what}: {now}, on record {on_record}: lower the record to {now}");
    }
}

/// Runs a program and returns what it printed; `None` if it is not installed.
pub fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned() + &said)
}

/// Builds a program of `tare-counted` as the provider is built, and returns its path.
pub fn counted(name: &str) -> PathBuf {
    let mut build = Command::new(env!("CARGO"));
    build.args([
        "build",
        "--quiet",
        "--locked",
        "--profile",
        "provider",
        "--package",
        "tare-counted",
        "--bin",
        name,
    ]);
    output(build.current_dir(env!("CARGO_MANIFEST_DIR"))).expect("cargo");
    // This test lies in <target>/<profile>/deps.
    let test = std::env::current_exe().expect("a path");
    test.ancestors().nth(3).expect("a target folder").join("provider").join(name)
}

/// Returns a command of valgrind that counts the instructions of functions of this name.
pub fn counting(functions: &str) -> Command {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    valgrind.arg(format!("--toggle-collect={functions}"));
    valgrind
}

/// Returns the number behind these words.
pub fn said(output: &str, words: &str) -> u64 {
    let rest = output.lines().find_map(|line| line.split_once(words)).unwrap_or_else(|| panic!("{output}")).1;
    rest.trim().parse().unwrap_or_else(|_| panic!("{rest}"))
}
