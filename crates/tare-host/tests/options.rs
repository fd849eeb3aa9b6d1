//! Option files are read as the server reads them: the server itself is asked.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use tare_host::options::{GivenOption, OptionFiles};
use tare_testkit::host::HostProgram;

/// What the server would take from the file, as it prints it.
fn server_says(host: &HostProgram, file: &Path) -> String {
    let output = Command::new(&host.mariadbd)
        .arg(format!("--defaults-file={}", file.display()))
        .arg("--print-defaults")
        .output()
        .expect("the server runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && text.contains('\n'),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text.split_once('\n')
        .map(|(_, arguments)| arguments.trim_end_matches('\n').to_owned())
        .unwrap_or_default()
}

/// The same from our reader.
fn reader_says(file: &Path) -> String {
    let only = OsString::from(format!("--defaults-file={}", file.display()));
    let files = OptionFiles::of_server(&["mariadbd".into(), only]);
    let show = |entry: &GivenOption| match &entry.value {
        Some(value) => format!("--{}={value} ", entry.key),
        None => format!("--{} ", entry.key),
    };
    files.in_groups(&["mysqld", "server"]).map(show).collect()
}

/// A small generator of the same numbers every time (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

#[test]
fn any_line_is_read_as_the_server_reads_it() {
    const PIECES: [&str; 22] = [
        "a", "b-c", "d_e", "=", "=", "=", " ", "\t", "'", "\"", "\\", "\\\\", "\\n", "\\s", "\\'", "#", ";",
        "1", "%", "/", "x y", "!",
    ];
    let host = HostProgram::find().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("my.cnf");
    let mut numbers = Numbers(0x0074_6172_6500_0001);
    for round in 0..40 {
        let mut text = "[mysqld]\n".to_owned();
        for _ in 0..25 {
            let line: String = (0..numbers.below(9)).map(|_| PIECES[numbers.below(PIECES.len())]).collect();
            // '!' begins a directive; for an empty key the server reads in front of its line.
            let other = line.trim_start().starts_with(['!', '=']);
            text.push_str(if other { "plain" } else { &line });
            text.push('\n');
        }
        text.push_str(["[server]\n", "[client]\n", "[ mysqld]\n", "[MYSQLD  ]\n"][round % 4]);
        text.push_str("last=1\n");
        std::fs::write(&file, &text).unwrap();
        assert_eq!(reader_says(&file), server_says(&host, &file), "round {round}:\n{text}");
    }
}

/// With `TARE_UPDATE_DOCS` set, brings the file up to date instead.
#[test]
fn the_document_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/options.md");
    let wanted = tare_host::options::markdown();
    if std::env::var_os("TARE_UPDATE_DOCS").is_some() {
        std::fs::write(&path, &wanted).expect("docs/reference/options.md can be written");
    }
    let held = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(held == wanted, "stale; run: TARE_UPDATE_DOCS=1 cargo test -p tare-host --test options");
}
