//! The unit for systemd.

use std::path::Path;
use std::process::Command;

#[test]
fn systemd_accepts_the_unit() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/systemd/tare-export.service");
    let text = std::fs::read_to_string(&unit).expect("the unit");
    // It is checked where tare and its manual may not be installed.
    let text: String =
        text.lines().filter(|it| !it.starts_with("Documentation=")).map(|it| format!("{it}\n")).collect();
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("tare-export.service");
    std::fs::write(&copy, text.replace("/usr/bin/tare", "/bin/true")).expect("written");
    let Ok(output) = Command::new("systemd-analyze").arg("verify").arg(&copy).output() else {
        println!("skipped: there is no systemd-analyze");
        return;
    };
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let about: Vec<&str> = said.lines().filter(|line| line.contains("tare-export")).collect();
    assert!(about.is_empty() && (output.status.success() || said.contains("tare-export")), "{said}");
}
