//! `tare doctor` beside servers that run. What breaks after tare was installed is in `broken.rs`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use mysql::prelude::Queryable;
use serde_json::Value;
use tare_testkit::host::HostProgram;
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::subject::{TestProvider, provider_library};

const WELL: i32 = 0;
const FOUND: i32 = 1;
const NOT_LOOKED: i32 = 2;

fn tare(arguments: &[&str]) -> (i32, String) {
    // Its notes are not those of this machine.
    let notes = folder();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tare"));
    let output = command.args(arguments).env("STATE_DIRECTORY", notes.path()).output().expect("tare runs");
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code().expect("it ends by itself"), said)
}

/// The exit status, and `check: what` of every finding about a server.
fn doctor(arguments: &[&str]) -> (i32, Vec<String>) {
    let (status, said) = tare(&[&["doctor", "--format", "json"], arguments].concat());
    let report: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}:\n{said}"));
    let servers = report["servers"].as_array().expect("servers");
    assert_eq!(servers.len(), 1, "{said}");
    let findings = servers[0]["findings"].as_array().expect("findings");
    let text = |finding: &Value, name: &str| finding[name].as_str().expect("a text").to_owned();
    for finding in findings {
        assert!(!text(finding, "remedy").is_empty(), "{said}");
    }
    (status, findings.iter().map(|it| text(it, "check") + ": " + &text(it, "what")).collect())
}

/// A server that serves, and what is found about it.
fn found(settings: StartSettings) -> (i32, Vec<String>) {
    let server = Server::start(settings).unwrap_or_else(|error| panic!("the server does not serve: {error}"));
    let one: Option<u32> = server.client().expect("a connection").query_first("SELECT 1").expect("an answer");
    assert_eq!(one, Some(1));
    doctor(&["--socket", &server.socket().to_string_lossy()])
}

/// Asserts that something of this check with this text was found.
fn assert_named((status, findings): (i32, Vec<String>), check: &str, text: &str) {
    let named = findings.iter().any(|it| it.starts_with(&format!("{check}: ")) && it.contains(text));
    assert!(named, "no {check} with {text:?} in {findings:#?}");
    assert_eq!(status, FOUND);
}

/// A folder the server's account may read.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
    folder
}

/// A provider of one's own to break.
fn own_provider(folder: &Path, change: impl Fn(Vec<u8>) -> Vec<u8>) -> PathBuf {
    let path = folder.join("libtare_mariadb.so");
    let bytes = fs::read(provider_library().expect("a provider")).expect("file");
    fs::write(&path, change(bytes)).expect("file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("permissions");
    path
}

fn preloading(path: &Path) -> StartSettings {
    StartSettings::new(TestProvider::tare()).environment("LD_PRELOAD", &path.to_string_lossy())
}

/// Whether the server can show the tables at all; upstream's archives come without the plugin.
fn has_plugin() -> bool {
    let has = HostProgram::find().expect("a server").has_federated();
    if !has {
        println!("skipped: this server has no plugin ha_federatedx");
    }
    has
}

#[test]
fn a_healthy_server_is_well() {
    if !has_plugin() {
        return;
    }
    let server = Server::start(StartSettings::new(TestProvider::tare())).expect("a server");
    let pid = server.process().expect("it runs").id().to_string();
    let socket = server.socket().display().to_string();
    for how in [["--pid", pid.as_str()], ["--socket", socket.as_str()]] {
        assert_eq!(doctor(&how), (WELL, vec![]));
    }
    let (status, said) = tare(&["doctor", "--pid", &pid]);
    assert_eq!(status, WELL);
    assert!(said.trim_end().ends_with("tare is active and complete"), "{said}");
}

#[test]
fn a_server_started_through_the_loader_is_known() {
    const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";
    if !has_plugin() {
        return;
    }
    if !Path::new(LOADER).exists() {
        println!("skipped: there is no {LOADER}");
        return;
    }
    let mut settings = StartSettings::new(TestProvider::tare());
    settings.under = [LOADER, "--inhibit-cache", "--argv0", "server"].map(str::to_owned).to_vec();
    let server = Server::start(settings).expect("a server");
    let pid = server.process().expect("it runs").id().to_string();
    assert_eq!(doctor(&["--pid", &pid]), (WELL, vec![]));
    let (_, said) = tare(&["doctor"]);
    let own = said.lines().find(|line| line.starts_with(&format!("process {pid} (")));
    assert!(own.is_some_and(|line| line.ends_with("tare is active and complete")), "{said}");
}

#[test]
fn a_server_without_tare_is_told_from_one_with_it() {
    assert_named(found(StartSettings::new(TestProvider::Off)), "preload", "tare is not loaded");
}

#[test]
fn a_full_table_is_named_with_the_option_to_raise() {
    let settings = StartSettings::new(TestProvider::tare()).tare_option("max-mutex-classes", 1);
    let server = Server::start(settings).expect("a server");
    let (status, said) = tare(&["doctor", "--socket", &server.socket().to_string_lossy()]);
    assert_eq!(status, FOUND);
    assert!(said.contains("mutex_classes_lost is "), "{said}");
    assert!(said.contains("raise max-mutex-classes in [tare]"), "{said}");
}

#[test]
fn a_cut_off_provider_is_named() {
    let folder = folder();
    // The loader looks at what is shorter than a header; more than that, and it dies of it, unless that was
    // tried before: broken.rs.
    let provider = own_provider(folder.path(), |bytes| bytes[..40].to_vec());
    let findings = found(preloading(&provider));
    assert_named(findings.clone(), "provider", "is cut off");
    assert_named(findings, "preload", "the loader did not take tare");
}

#[test]
fn a_provider_that_is_not_there_is_named() {
    let findings = found(preloading(Path::new("/nowhere/libtare_mariadb.so")));
    assert_named(findings.clone(), "provider", "No such file");
    assert_named(findings, "preload", "the loader did not take tare");
}

#[test]
fn a_provider_the_server_may_not_open_is_named() {
    if !nix::unistd::Uid::effective().is_root() {
        println!("skipped: only root has files that a server's account may not open");
        return;
    }
    let folder = folder();
    let provider = own_provider(folder.path(), |bytes| bytes);
    fs::set_permissions(&provider, fs::Permissions::from_mode(0o600)).expect("permissions");
    // To the loader it is what AppArmor's refusal is: the file cannot be opened.
    let mut settings = preloading(&provider);
    let account = ["setpriv", "--reuid=mysql", "--regid=mysql", "--clear-groups"];
    settings.under = account.map(str::to_owned).to_vec();
    let findings = found(settings);
    assert_named(findings.clone(), "provider", "the server's account mysql cannot read");
    assert_named(findings, "preload", "the loader did not take tare");
}

#[test]
fn a_provider_where_nothing_may_be_executed_is_named() {
    let own_mounts = ["unshare", "--mount", "sh", "-ec"];
    if !Command::new(own_mounts[0]).args([own_mounts[1], "true"]).status().is_ok_and(|it| it.success()) {
        println!("skipped: only root mounts file systems, and not everywhere");
        return;
    }
    let folder = folder();
    let place = folder.path().join("noexec");
    fs::create_dir(&place).expect("folder");
    let library = provider_library().expect("a provider");
    let script = format!(
        "mount -t tmpfs -o noexec,mode=755 none {place}; cp {} {place}/; LD_PRELOAD=$KEPT exec \"$@\"",
        library.display(),
        place = place.display()
    );
    let provider = place.join("libtare_mariadb.so");
    let mut settings = preloading(Path::new("")).environment("KEPT", &provider.to_string_lossy());
    settings.under = own_mounts.iter().chain(&[&*script, "sh"]).map(|it| (*it).to_owned()).collect();
    let server = Server::start(settings).expect("it serves");
    let pid = server.process().expect("it runs").id().to_string();
    // The mount is the server's alone: it is looked at from where the server is.
    let output = Command::new("nsenter")
        .args(["--mount", "--target", &pid, env!("CARGO_BIN_EXE_tare"), "doctor", "--pid", &pid])
        .env("STATE_DIRECTORY", folder.path())
        .output()
        .expect("nsenter runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("provider: ") && said.contains("noexec"), "{said}");
    assert!(said.contains("preload: the loader did not take tare"), "{said}");
    assert_eq!(output.status.code(), Some(FOUND));
}

#[test]
fn a_provider_of_somebody_else_s_is_named() {
    if !nix::unistd::Uid::effective().is_root() {
        println!("skipped: only root gives files away");
        return;
    }
    let folder = folder();
    let provider = own_provider(folder.path(), |bytes| bytes);
    chown(&provider, Some(65534), Some(65534)).expect("chown");
    assert_named(found(preloading(&provider)), "provider", "who can put code");
    chown(&provider, Some(0), Some(0)).expect("chown");
    fs::set_permissions(&provider, fs::Permissions::from_mode(0o666)).expect("permissions");
    assert_named(found(preloading(&provider)), "provider", "can be written by others");
}

/// What the doctor says of a server, with its notes in a folder.
fn with_notes(folder: &Path, arguments: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tare"));
    command.args(["doctor", "--format", "json"]).args(arguments).env("STATE_DIRECTORY", folder);
    let output = command.output().expect("tare runs");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    report["servers"][0].clone()
}

#[test]
fn an_update_is_told_with_the_versions_before() {
    let notes = folder();
    let file = notes.path().join("last-runs.json");
    let mut server = Server::start(StartSettings::new(TestProvider::tare())).expect("a server");
    let socket = server.socket().display().to_string();
    let said = with_notes(notes.path(), &["--socket", &socket]);
    assert_eq!((&said["active"], &said["update"]), (&Value::Bool(true), &Value::Null), "the first time");
    let now = said["version"].as_str().expect("a version").to_owned();

    // As if an earlier life had had another server and another tare.
    let older = |server: &str, tare: &str| {
        let mut all: Value = serde_json::from_slice(&fs::read(&file).expect("a note")).expect("JSON");
        for (_, note) in all.as_object_mut().expect("notes") {
            note["life"]["started"] = 1.into();
            note["versions"] = serde_json::json!({ "server": server, "tare": tare });
        }
        fs::write(&file, all.to_string()).expect("written");
    };
    older("10.11.0-MariaDB", "0.0.9");
    for _ in 0..2 {
        let update = &with_notes(notes.path(), &["--socket", &socket])["update"];
        let before = serde_json::json!({ "server": "10.11.0-MariaDB", "tare": "0.0.9" });
        assert_eq!(update["before"], before);
        assert_eq!(update["now"], serde_json::json!({ "server": now, "tare": env!("CARGO_PKG_VERSION") }));
    }
    let mut people = Command::new(env!("CARGO_BIN_EXE_tare"));
    people.args(["doctor", "--socket", &socket]).env("STATE_DIRECTORY", notes.path());
    let said = String::from_utf8(people.output().expect("tare runs").stdout).expect("UTF-8");
    let expected =
        format!("  update: since the start before, the server 10.11.0-MariaDB was replaced by {now}, and ");
    assert!(said.contains(&expected), "{said}");

    // Restarted as it was; then without tare, which is told as long as it lasts.
    older(&now, env!("CARGO_PKG_VERSION"));
    assert_eq!(with_notes(notes.path(), &["--socket", &socket])["update"], Value::Null);
    older("10.11.0-MariaDB", "0.0.9");
    server.stop().expect("it stops");
    server.settings.provider = TestProvider::Off;
    server.resume().expect("a server");
    for _ in 0..2 {
        let said = with_notes(notes.path(), &["--socket", &socket]);
        assert_eq!(
            (&said["active"], &said["update"]["before"]["server"]),
            (&false.into(), &"10.11.0-MariaDB".into())
        );
    }
    let data = server.data();
    drop(server);
    assert!(!data.exists() && fs::read_to_string(&file).is_ok_and(|notes| notes.contains("10.11.0")));
}

#[test]
fn sql_alone_tells_what_an_account_may_see() {
    if !has_plugin() {
        return;
    }
    let settings = StartSettings::new(TestProvider::tare())
        .option("--skip-networking=0")
        .option("--bind-address=127.0.0.1");
    let server = Server::start(settings.option("--port=0")).expect("a server");
    let mut root = server.client().expect("a connection");
    let port: Option<u16> = root.query_first("SELECT @@port").expect("a port");
    let Some(port) = port.filter(|port| *port != 0) else {
        println!("skipped: the server does not tell the port it chose");
        return;
    };
    root.query_drop("CREATE USER agent@'%' IDENTIFIED BY 'secret'").expect("an account");
    let dsn = format!("mysql://agent:secret@127.0.0.1:{port}");
    let (status, findings) = doctor(&["--dsn", &dsn]);
    assert_eq!(status, NOT_LOOKED);
    assert!(findings[0].starts_with("grants: "), "{findings:?}");
    root.query_drop("GRANT SELECT ON performance_schema.* TO agent@'%'").expect("a grant");
    assert_eq!(doctor(&["--dsn", &dsn]), (WELL, vec![]));
}

#[test]
fn what_is_not_there_cannot_be_looked_at() {
    for how in
        [["--pid", "4294967"], ["--socket", "/nowhere/s"], ["--unit", "no-such-unit"], ["--dsn", "nonsense"]]
    {
        let (status, said) = tare(&["doctor", how[0], how[1]]);
        assert_eq!(status, NOT_LOOKED, "{how:?}: {said}");
    }
    let empty = folder();
    let (status, said) = tare(&["doctor", "--root", &empty.path().to_string_lossy()]);
    assert_eq!(status, NOT_LOOKED);
    assert!(said.contains("no server was found"), "{said}");
}
