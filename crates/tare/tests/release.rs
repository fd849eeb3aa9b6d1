//! What is given to others besides the program: the apt repository, apt's hook, the alerts, and the workflow
//! that publishes.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tare_testkit::host::HostProgram;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

fn done(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", said(&output));
    output
}

/// Returns whether a program is here; prints why a test is skipped otherwise.
fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        println!("skipped: {program} is not here");
    }
    found
}

/// Makes a package of a file in a folder.
fn package(folder: &Path, name: &str, version: &str, file: Option<(&str, &Path)>) -> PathBuf {
    let tree = folder.join(format!("{name}-{version}"));
    fs::create_dir_all(tree.join("DEBIAN")).expect("a folder");
    let control = format!(
        "Package: {name}\nVersion: {version}\nArchitecture: amd64\nMaintainer: nobody <nobody@example.invalid>\n\
         Description: for a test\n"
    );
    fs::write(tree.join("DEBIAN/control"), control).expect("written");
    if let Some((place, from)) = file {
        fs::create_dir_all(tree.join(place).parent().expect("a folder")).expect("a folder");
        fs::copy(from, tree.join(place)).expect("copied");
    }
    let deb = folder.join(format!("{name}_{version}_amd64.deb"));
    done(Command::new("dpkg-deb").args(["--root-owner-group", "-Znone", "-b"]).arg(&tree).arg(&deb));
    deb
}

/// Runs apt's hook for packages.
fn hook(mode: &str, packages: &[&Path]) -> Output {
    let mut command = Command::new(root().join("scripts/deb-files/apt-probe"));
    command.env("TARE", env!("CARGO_BIN_EXE_tare")).env("TARE_APT_PROBE", mode);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the hook runs");
    let list: String = packages.iter().map(|it| format!("{}\n", it.display())).collect();
    // A hook that is off reads nothing.
    let _ = child.stdin.take().expect("piped").write_all(list.as_bytes());
    child.wait_with_output().expect("it ends")
}

#[test]
fn apt_is_told_of_a_server_that_tare_would_not_serve_and_of_no_other() {
    if !has("dpkg-deb") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let server = HostProgram::find().expect("a server");
    let fine = Some(("usr/sbin/mariadbd", server.mariadbd.as_path()));
    let wrong = Some(("usr/sbin/mariadbd", Path::new("/bin/true")));
    let served = package(folder.path(), "mariadb-server-core", "1.0", fine);
    let other = package(folder.path(), "mariadb-server-core", "2.0", wrong);
    let empty = package(folder.path(), "mariadb-server", "2.0", None);
    let unrelated = package(folder.path(), "coreutils", "2.0", wrong);

    for mode in ["warn", "stop"] {
        let output =
            hook(mode, &[&served, &empty, &unrelated, Path::new("/nowhere/mariadb-server_3_amd64.deb")]);
        assert_eq!((output.status.code(), said(&output).as_str()), (Some(0), ""), "{mode}");
    }
    let warned = hook("warn", &[&served, &other]);
    assert_eq!(warned.status.code(), Some(0), "{}", said(&warned));
    let text = said(&warned);
    assert!(text.contains("in the server of mariadb-server-core_2.0_amd64.deb"), "{text}");
    assert!(text.contains("tare:   ") && text.contains("apt goes on"), "{text}");
    let stopped = hook("stop", &[&other]);
    assert_eq!(stopped.status.code(), Some(1), "{}", said(&stopped));
    assert!(said(&stopped).contains("nothing has been installed"), "{}", said(&stopped));
    assert_eq!(hook("off", &[&other]).status.code(), Some(0));
}

/// Both providers are built, and are in the package and in the tarball.
#[test]
fn both_providers_are_shipped() {
    let script = read("scripts/package.sh");
    assert!(script.contains("for provider in mariadb mysql; do"), "built");
    assert!(
        script.contains(r#"cp "$files"/libtare_{mariadb,mysql}.so "$target/$name/lib/tare/""#),
        "in the tarball"
    );
    let manifest: toml::Table = read("crates/tare/Cargo.toml").parse().expect("TOML");
    let assets = manifest["package"]["metadata"]["deb"]["assets"].as_array().expect("assets");
    for name in ["libtare_mariadb.so", "libtare_mysql.so"] {
        let is_it = |asset: &toml::Value| {
            asset[0].as_str().is_some_and(|it| it.ends_with(name))
                && asset[1].as_str() == Some("usr/lib/tare/")
        };
        assert!(assets.iter().any(is_it), "{name} is not in the package");
    }
}

/// The package's file has apt call the hook, and only while the hook is there.
#[test]
fn apt_calls_the_hook() {
    let configuration = read("scripts/deb-files/90tare");
    assert!(
        configuration.contains("DPkg::Pre-Install-Pkgs") && configuration.contains("/usr/lib/tare/apt-probe")
    );
    let manifest: toml::Table = read("crates/tare/Cargo.toml").parse().expect("TOML");
    let deb = &manifest["package"]["metadata"]["deb"];
    let assets = deb["assets"].as_array().expect("assets");
    for (file, to) in [("apt-probe", "usr/lib/tare/"), ("90tare", "etc/apt/apt.conf.d/")] {
        let is_it = |asset: &toml::Value| {
            asset[0].as_str().is_some_and(|it| it.ends_with(file)) && asset[1].as_str() == Some(to)
        };
        assert!(assets.iter().any(is_it), "{file} is not packaged in {to}");
    }
    assert_eq!(deb["conf-files"][0].as_str(), Some("/etc/apt/apt.conf.d/90tare"));
    if !has("apt-config") {
        return;
    }
    let file = root().join("scripts/deb-files/90tare");
    let dump = done(Command::new("apt-config").arg("dump").arg("-c").arg(file));
    assert!(
        said(&dump).contains("DPkg::Pre-Install-Pkgs:: \"if [ -x /usr/lib/tare/apt-probe ]"),
        "{}",
        said(&dump)
    );
}

#[test]
fn a_repository_is_what_apt_installs_from() {
    if !has("gpg") || !has("dpkg-scanpackages") || !has("apt-get") {
        return;
    }
    let folder = tempfile::Builder::new().prefix("t").tempdir_in("/tmp").expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let keys = at("keys");
    fs::create_dir(&keys).expect("a folder");
    fs::set_permissions(&keys, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("permissions");
    let gpg = || {
        let mut command = Command::new("gpg");
        command.env("GNUPGHOME", &keys).args(["--batch", "--passphrase", ""]);
        command
    };
    done(gpg().args(["--quick-generate-key", "test <test@example.invalid>", "ed25519", "sign"]));
    let listed = said(&done(gpg().args(["--with-colons", "--list-secret-keys"])));
    let key = listed
        .lines()
        .find_map(|line| line.strip_prefix("fpr:"))
        .expect("a key")
        .trim_matches(':')
        .to_owned();

    let [first, second] = ["0.1.0-1", "0.2.0-1"].map(|version| package(folder.path(), "tare", version, None));
    // Whatever the file is called.
    fs::rename(second, at("next.deb")).expect("renamed");
    let debs = [first, at("next.deb")];
    let make = |key: &str| {
        let mut command = Command::new(root().join("scripts/repository.sh"));
        command.args(&debs).env("GNUPGHOME", &keys).env("TARE_SIGNING_KEY", key);
        command.env("TARE_REPOSITORY", at("repository")).env("SOURCE_DATE_EPOCH", "1700000000");
        command.output().expect("the script runs")
    };
    for (key, why) in [("", "TARE_SIGNING_KEY names no key"), ("ABCD", "no secret key ABCD")] {
        let refused = make(key);
        assert!(!refused.status.success() && said(&refused).contains(why), "{}", said(&refused));
    }
    let made = make(&key);
    assert!(made.status.success(), "{}", said(&made));
    let _ = Command::new("gpgconf").env("GNUPGHOME", &keys).args(["--kill", "all"]).output();

    for name in ["state/lists/partial", "cache/archives/partial", "etc"] {
        fs::create_dir_all(at(name)).expect("a folder");
    }
    fs::write(at("state/status"), "").expect("written");
    let source = format!(
        "deb [arch=amd64 signed-by={}] file://{} stable main\n",
        at("repository/tare.asc").display(),
        at("repository").display()
    );
    fs::write(at("etc/sources.list"), source).expect("written");
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        let options = [
            format!("Dir::State={}", at("state").display()),
            format!("Dir::State::status={}", at("state/status").display()),
            format!("Dir::Cache={}", at("cache").display()),
            format!("Dir::Etc::SourceList={}", at("etc/sources.list").display()),
            format!("Dir::Etc::SourceParts={}", at("etc").display()),
            format!("Dir::Etc::PreferencesParts={}", at("etc").display()),
            "APT::Sandbox::User=root".to_owned(),
            "APT::Architecture=amd64".to_owned(),
        ];
        for option in options {
            command.args(["-o", &option]);
        }
        command.args(arguments).current_dir(folder.path()).output().expect("apt runs")
    };
    let updated = apt(&["update"]);
    assert!(updated.status.success() && !said(&updated).contains("W:"), "{}", said(&updated));
    let uris = said(&apt(&["install", "--print-uris", "-y", "--no-install-recommends", "tare"]));
    assert!(uris.contains("pool/main/t/tare/tare_0.2.0-1_amd64.deb"), "{uris}");

    // What was tampered with is refused.
    let index = at("repository/dists/stable/main/binary-amd64/Packages");
    fs::write(&index, fs::read_to_string(&index).expect("read").replace("0.2.0", "0.3.0")).expect("written");
    fs::remove_file(index.with_extension("gz")).expect("removed");
    fs::remove_dir_all(at("state/lists")).expect("removed");
    fs::create_dir_all(at("state/lists/partial")).expect("a folder");
    let refused = apt(&["update"]);
    assert!(!refused.status.success(), "{}", said(&refused));
}

#[test]
fn alerts_fire_when_tare_is_away_and_the_server_is_not() {
    if !has("promtool") {
        return;
    }
    let rules = root().join("docs/grafana/tare.rules.yml");
    done(Command::new("promtool").args(["check", "rules"]).arg(&rules));
    let folder = tempfile::tempdir().expect("a folder");
    let tests = folder.path().join("tests.yml");
    let text = format!(
        "rule_files: [{}]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {{ series: 'tare_up{{job=\"tare\",instance=\"a\"}}', values: '0x30' }}
      - {{ series: 'mysql_up{{job=\"tare\",instance=\"a\"}}', values: '1x30' }}
      - {{ series: 'tare_up{{job=\"tare\",instance=\"b\"}}', values: '0x30' }}
      - {{ series: 'mysql_up{{job=\"tare\",instance=\"b\"}}', values: '0x30' }}
      - {{ series: 'tare_up{{job=\"tare\",instance=\"c\"}}', values: '1x30' }}
      - {{ series: 'mysql_up{{job=\"tare\",instance=\"c\"}}', values: '1x30' }}
      - {{ series: 'tare_lost_total{{job=\"tare\",instance=\"c\",what=\"x\"}}', values: '0x10 1x20' }}
    alert_rule_test:
      - {{ eval_time: 5m, alertname: TareAway }}
      - eval_time: 20m
        alertname: TareAway
        exp_alerts:
          - exp_labels: {{ severity: warning, job: tare, instance: a }}
            exp_annotations:
              summary: a runs without tare
              description: The server answers, but tare is not active in it. `tare doctor` there says why and what to do.
      - eval_time: 20m
        alertname: TareServerAway
        exp_alerts:
          - exp_labels: {{ severity: critical, job: tare, instance: b }}
            exp_annotations:
              summary: \"b: the server does not answer\"
              description: The exporter reaches neither tare nor the server. It connects again by itself.
      - eval_time: 20m
        alertname: TareLost
        exp_alerts:
          - exp_labels: {{ severity: info, job: tare, instance: c }}
            exp_annotations:
              summary: \"c: something did not fit into tare's memory\"
              description: \"`tare doctor` there names what was lost, and the option that makes room.\"
",
        rules.canonicalize().expect("the rules").display()
    );
    fs::write(&tests, text).expect("written");
    done(Command::new("promtool").args(["test", "rules"]).arg(&tests));
}

/// What a workflow calls is there.
#[test]
fn workflows_call_what_there_is() {
    let makefile = read("Makefile");
    for workflow in ["ci", "release"] {
        let text = read(&format!(".github/workflows/{workflow}.yml"));
        let mut seen = 0;
        for line in text.lines().map(str::trim) {
            let command = line.trim_start_matches("- ").trim_start_matches("run: ");
            if let Some(rest) = command.strip_prefix("make ") {
                let target = rest.split_whitespace().next().expect("a target");
                assert!(makefile.contains(&format!("\n{target}:")), "{workflow}: no target {target}");
                seen += 1;
            } else if let Some(script) =
                command.split_whitespace().next().filter(|it| it.starts_with("scripts/"))
            {
                assert!(root().join(script).is_file(), "{workflow}: no {script}");
                seen += 1;
            }
        }
        assert!(seen >= 3, "{workflow}: {seen} commands were found");
    }
}

#[test]
fn a_tag_that_is_not_the_version_is_no_release() {
    let tag = |tag: &str| {
        let mut command = Command::new(root().join("scripts/package.sh"));
        command.args(["tag", tag]).env("SOURCE_DATE_EPOCH", "1").output().expect("the script runs")
    };
    for (name, why) in [("v9.9.9", "the tag v9.9.9 is not v"), ("", "the tag  is not v")] {
        let refused = tag(name);
        assert!(!refused.status.success() && said(&refused).contains(why), "{}", said(&refused));
    }
    let own = tag(&format!("v{}", env!("CARGO_PKG_VERSION")));
    let is_cut = !read("CHANGELOG.md").contains("## [Unreleased]\n\n###");
    assert_eq!(own.status.success(), is_cut, "{}", said(&own));
}

/// What the package holds, as Cargo.toml says: each file's place in it, and where it comes from.
fn packaged() -> Vec<(PathBuf, PathBuf)> {
    let manifest: toml::Table = read("crates/tare/Cargo.toml").parse().expect("TOML");
    let assets = manifest["package"]["metadata"]["deb"]["assets"].as_array().expect("assets").iter();
    let mut all = vec![];
    for asset in assets {
        let (from, to) = (asset[0].as_str().expect("a path"), asset[1].as_str().expect("a path"));
        let from = Path::new(from.trim_start_matches("../"));
        let (before, after) =
            from.file_name().and_then(|it| it.to_str()).and_then(|it| it.split_once('*')).unwrap_or_default();
        let is_pattern = from.to_string_lossy().contains('*');
        let files: Vec<PathBuf> = match is_pattern && !from.starts_with("target") {
            false => vec![from.to_owned()],
            true => fs::read_dir(root().join(from.parent().expect("a folder")))
                .expect("a folder")
                .map(|entry| entry.expect("an entry").file_name())
                .filter(|name| name.to_str().is_some_and(|it| it.starts_with(before) && it.ends_with(after)))
                .map(|name| from.with_file_name(name))
                .collect(),
        };
        assert!(!files.is_empty(), "nothing is {}", from.display());
        for file in files {
            let place = if to.ends_with('/') {
                Path::new(to).join(file.file_name().expect("a name"))
            } else {
                to.into()
            };
            all.push((place, file));
        }
    }
    all
}

/// Licences are in `copyright`, the changelog is compressed, the reports are too large, and sources are no
/// part of it.
const LEFT_OUT: [&str; 6] = ["COPYING", "CHANGELOG.md", "docs/reports/", "crates/", "scripts/", "Cargo.toml"];

#[test]
fn links_of_packaged_pages_lead_to_what_is_packaged() {
    let all = packaged();
    let home = Path::new("usr/share/doc/tare");
    let mut seen = 0;
    for (place, from) in all.iter().filter(|(place, _)| place.extension().is_some_and(|it| it == "md")) {
        let text = fs::read_to_string(root().join(from)).expect("a page");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#', ' ']).next()) {
            if link.is_empty() || link.contains(':') {
                continue;
            }
            let mut leads = place.parent().expect("a folder").to_owned();
            for part in Path::new(link) {
                if part == ".." {
                    leads.pop();
                } else {
                    leads.push(part);
                }
            }
            let is_there = all.iter().any(|(place, _)| *place == leads || place.starts_with(&leads));
            let name = leads.strip_prefix(home).unwrap_or(&leads).to_string_lossy().into_owned();
            let is_left_out = LEFT_OUT.iter().any(|it| name.starts_with(it));
            assert!(is_there || is_left_out, "{}: {link}", place.display());
            seen += 1;
        }
    }
    assert!(seen > 300, "{seen} links");
}
