//! Scripts that bring packages: from which mirrors, and that none is built in.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn place(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, text).expect("a program");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("permissions");
}

/// A folder with the scripts and programs in the place of apt's and of upstream's servers. That apt has
/// `of_debian` and `of_ubuntu` in its configuration, and refuses to download.
struct Machine(tempfile::TempDir);

impl Machine {
    fn new(of_debian: &str, of_ubuntu: &str) -> Machine {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |path: &str| folder.path().join(path);
        for script in ["hosts.sh", "mirror.sh"] {
            let text = fs::read_to_string(root().join("scripts").join(script)).expect(script);
            place(&at("scripts").join(script), &text);
        }
        let apt = format!(
            "#!/bin/bash\ncase \"$*\" in\n*indextargets*Origin:\\ Debian*) printf '%s\\n' {of_debian};;\n\
             *indextargets*Origin:\\ Ubuntu*) printf '%s\\n' {of_ubuntu};;\n\
             *update*) for word; do case $word in *sourcelist=*) cat \"${{word#*sourcelist=}}\" >>'{0}/asked';; esac; done; \
             exit 1;;\n*) exit 1;;\nesac\n",
            folder.path().display()
        );
        place(&at("bin/apt-get"), &apt);
        for number in ["10.11.5", "11.4.5"] {
            let server = format!(".hosts/{number}/bin/mariadbd");
            place(&at(&server), &format!("#!/bin/sh\necho mariadbd Ver {number}-MariaDB\n"));
        }
        // The keys of Ubuntu would be brought from Debian first.
        fs::write(at(".hosts/ubuntu-archive-keyring.gpg"), "").expect("a file");
        Machine(folder)
    }

    fn run(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        let path = format!("{}:/usr/bin:/bin", self.0.path().join("bin").display());
        let mut command = Command::new(self.0.path().join("scripts/hosts.sh"));
        command.args(arguments).env_clear().env("PATH", path).envs(variables.iter().copied());
        command.output().expect("the script runs")
    }

    /// What apt was told to download from, each once.
    fn asked(&self) -> Vec<String> {
        let asked = fs::read_to_string(self.0.path().join("asked")).unwrap_or_default();
        let mut asked: Vec<String> = asked
            .split_whitespace()
            .filter(|word| word.starts_with("http"))
            .map(|word| word.trim_end_matches('/').to_owned())
            .collect();
        asked.dedup();
        asked
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn packages_come_from_the_mirrors_of_the_machine() {
    let machine = Machine::new("cdrom:x http://near.example/debian/", "''");
    let variables = [("TARE_UBUNTU_MIRRORS", "http://one.example/u/ http://two.example/u")];
    let output = machine.run(&["mysql"], &variables);
    assert!(!output.status.success(), "apt downloads nothing here");
    assert_eq!(machine.asked(), ["http://near.example/debian"], "{}", said(&output));

    let output = machine.run(&["bring"], &variables);
    assert!(said(&output).contains("TARE_UBUNTU_MIRRORS names other mirrors"), "{}", said(&output));
    let asked = ["http://near.example/debian", "http://one.example/u", "http://two.example/u"];
    assert_eq!(machine.asked(), asked);

    // What a variable says goes before what the machine has.
    let machine = Machine::new("http://near.example/debian", "http://near.example/ubuntu");
    machine.run(&["mysql"], &[("TARE_MIRROR", "http://mine.example/debian")]);
    machine.run(&["bring"], &[]);
    assert_eq!(machine.asked(), ["http://mine.example/debian", "http://near.example/ubuntu"]);
}

#[test]
fn what_has_no_mirror_is_left_out_and_said() {
    let machine = Machine::new("''", "''");
    for (arguments, left_out) in
        [(["bring"], &["10.6", "11.4", "11.8"]), (["mysql"], &["mysql-9", "mysql-8", "mysql-5.7"])]
    {
        let output = machine.run(&arguments, &[]);
        let said = said(&output);
        assert!(output.status.success(), "{said}");
        for host in left_out {
            assert!(said.contains(&format!("skipped: {host}, for want of a mirror")), "{said}");
        }
        assert!(said.contains("set TARE_UBUNTU_MIRRORS=") && said.contains("set TARE_MIRROR="), "{said}");
    }
    assert_eq!(machine.asked(), [""; 0]);
    let listed = machine.run(&["list"], &[]);
    assert_eq!(String::from_utf8_lossy(&listed.stdout).lines().count(), 2, "those that need none are there");
}

/// Addresses that scripts, recipes and workflows may name: pages to read, the toolchain's installer, and what
/// stands for one's own.
const NAMED: [&str; 5] = ["rustup.rs", "sh.rustup.rs", "cdla.dev", "HOST", "www.w3.org"];

#[test]
fn no_script_names_a_mirror() {
    let mut folders: Vec<PathBuf> =
        ["scripts", "docs/deploy", "docs/ci", ".github"].map(|folder| root().join(folder)).into();
    let mut files = vec![root().join("Makefile")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let entry = entry.expect("an entry");
            let is_folder = entry.file_type().expect("a type").is_dir();
            if is_folder { folders.push(entry.path()) } else { files.push(entry.path()) }
        }
    }
    assert!(files.len() > 20);
    for file in files {
        let text = fs::read(&file).expect("a file");
        let text = String::from_utf8_lossy(&text);
        for address in text.split("://").skip(1) {
            let end = address.find(|c: char| !(c.is_ascii_alphanumeric() || ".-".contains(c)));
            let host = &address[..end.unwrap_or(address.len())];
            assert!(
                NAMED.contains(&host.trim_end_matches('.')) || !host.contains('.'),
                "{} names {host}: take it from the machine's settings, or from a variable without a default",
                file.display()
            );
        }
    }
}
