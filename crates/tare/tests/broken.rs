//! Ten broken set-ups of a server that has tare installed: each starts and serves, and `tare doctor` names
//! the cause and what to do.

mod tree;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use mysql::prelude::Queryable;
use nix::unistd::Uid;
use serde_json::Value;
use tare_testkit::server::{Server, StartSettings};
use tare_testkit::subject::TestProvider;
use tree::{DROP_IN, PROGRAM, PROVIDER, SERVICE, Tree, UNIT, needing_newer};

/// Exit status of a doctor who has found something.
const FOUND: i32 = 1;

/// What one comes upon on a machine.
struct SetUp {
    name: &'static str,
    /// What is to be found of it in the server that runs.
    running: Finding,
    /// What is to be found of it in the unit, where its files show it.
    unit: Option<Finding>,
    breaks: fn(&Tree, &mut Server) -> Outcome,
}

/// A check, a part of what it says is wrong, and of what to do.
struct Finding(&'static str, &'static str, &'static str);

/// Why a set-up cannot be had here.
type Outcome = Result<(), &'static str>;

const ROOT_ONLY: &str = "only root can";
/// The loader does not survive the file, so it is not given to the server.
const NOT_LOADED: &str = "install tare's package, or its file, anew, and restart";

const SET_UPS: [SetUp; 10] = [
    SetUp {
        name: "no plugin",
        running: Finding("plugin", "ha_federatedx is not loaded", "plugin-load-add = ha_federatedx"),
        unit: None,
        breaks: without_plugin,
    },
    SetUp {
        name: "wrong owner",
        running: Finding(
            "provider",
            "belongs to nobody, who can put code of theirs into the server",
            "chown root:root",
        ),
        unit: Some(Finding("provider", "belongs to nobody", "chown root:root")),
        breaks: of_somebody_else,
    },
    SetUp {
        name: "cut off",
        running: Finding("provider", "is cut off: by its own headers", NOT_LOADED),
        unit: Some(Finding("provider", "a server that loads it does not start", NOT_LOADED)),
        breaks: cut_off,
    },
    SetUp {
        name: "a C library too old",
        running: Finding(
            "provider",
            "needs GLIBC_2.99 of the C library, which has no more than GLIBC_2.",
            "take a tare built on this system, or on an older one",
        ),
        unit: Some(Finding(
            "provider",
            "a server that loads it does not start",
            "take a tare built on this system",
        )),
        breaks: for_a_newer_library,
    },
    SetUp {
        name: "the built-in on",
        running: Finding(
            "performance-schema",
            "performance_schema=ON, command line",
            "set it to OFF, and restart",
        ),
        unit: None,
        breaks: with_the_built_in,
    },
    SetUp {
        name: "an unknown version",
        running: Finding(
            "program",
            "tare disables itself: server version 9",
            "take a server of one of the series 10.6",
        ),
        unit: None,
        breaks: of_another_version,
    },
    SetUp {
        name: "AppArmor denies",
        running: Finding("preload", "the loader did not take tare into the server", "see what else is found"),
        unit: Some(Finding(
            "confinement",
            "AppArmor's profile mariadbd does not let the server read the provider",
            "libtare_mariadb.so mr,` to /etc/apparmor.d/local/mariadbd",
        )),
        breaks: denied,
    },
    SetUp {
        name: "MemoryDenyWriteExecute=yes",
        running: Finding("log", "refuses to redirect", "SAFETY.md"),
        unit: Some(Finding(
            "hardening",
            "MemoryDenyWriteExecute=yes",
            "MemoryDenyWriteExecute=no in a drop-in",
        )),
        breaks: hardened,
    },
    SetUp {
        name: "a wrong option",
        running: Finding("options", "wrong.cnf, line 2: option digests-size", "correct the option"),
        unit: None,
        breaks: with_a_wrong_option,
    },
    SetUp {
        name: "a data directory that can only be read",
        running: Finding("socket", "tare's socket cannot be made", "set `socket` in [tare]"),
        unit: None,
        breaks: reading_only,
    },
];

fn without_plugin(_: &Tree, server: &mut Server) -> Outcome {
    if !server.host().has_federated() {
        return Err("this server has no plugin at all: tests/doctor.rs");
    }
    server.settings.options.push("--plugin-load=".to_owned());
    Ok(())
}

fn of_somebody_else(tree: &Tree, _: &mut Server) -> Outcome {
    chown(tree.at(PROVIDER), Some(65534), None).map_err(|_| ROOT_ONLY)
}

fn cut_off(tree: &Tree, _: &mut Server) -> Outcome {
    tree.replace_provider(|bytes| bytes[..1 << 16].to_vec());
    assert!(kills_what_loads_it(tree));
    Ok(())
}

fn for_a_newer_library(tree: &Tree, _: &mut Server) -> Outcome {
    tree.replace_provider(needing_newer);
    assert!(kills_what_loads_it(tree));
    Ok(())
}

/// Without the trial no server would start.
fn kills_what_loads_it(tree: &Tree) -> bool {
    let any = Command::new("true").env("LD_PRELOAD", tree.at(PROVIDER)).output().expect("it begins");
    !any.status.success()
}

fn with_the_built_in(_: &Tree, server: &mut Server) -> Outcome {
    server.settings.options.push("--performance-schema=ON".to_owned());
    Ok(())
}

fn of_another_version(tree: &Tree, server: &mut Server) -> Outcome {
    let version = server.host().version.split('-').next().expect("a number").to_owned() + "-MariaDB";
    let mut bytes = fs::read(&server.host().mariadbd).expect("file");
    let places: Vec<usize> =
        (0..bytes.len()).filter(|at| bytes[*at..].starts_with(version.as_bytes())).collect();
    places.into_iter().for_each(|at| bytes[at] = b'9');
    fs::write(tree.at("/mariadbd"), bytes).expect("file");
    fs::set_permissions(tree.at("/mariadbd"), Permissions::from_mode(0o755)).expect("permissions");
    under(server, &format!("shift; exec {} \"$@\"", tree.at("/mariadbd").display()));
    let probe = Command::new(env!("CARGO_BIN_EXE_tare")).arg("probe").arg(tree.at("/mariadbd")).output();
    let probe = probe.expect("tare runs");
    let said = String::from_utf8_lossy(&probe.stdout);
    assert!(probe.status.code() == Some(FOUND) && said.contains("is not supported"), "{said}");
    Ok(())
}

/// What AppArmor refuses is not there to the server, and to the server alone.
fn denied(tree: &Tree, server: &mut Server) -> Outcome {
    let own_mounts = ["unshare", "--mount", "sh", "-c"];
    if !Command::new(own_mounts[0]).args(&own_mounts[1..]).arg("true").status().is_ok_and(|it| it.success()) {
        return Err("only root mounts file systems, and not everywhere");
    }
    println!(
        "AppArmor denies: no profile is loaded into this kernel; a mount and a made-up profile stand for it"
    );
    tree.write("/etc/apparmor.d/mariadbd", "/usr/sbin/mariadbd {\n  /data/** rwk,\n}\n");
    let folder = tree.at(PROVIDER).parent().expect("a folder").display().to_string();
    // The shell is not the server: only that is to be told to load it.
    let script = format!("mount -t tmpfs none {folder}; LD_PRELOAD=$KEPT exec \"$@\"");
    server.settings.under = own_mounts.iter().chain(&[&*script, "sh"]).map(|it| (*it).to_owned()).collect();
    Ok(())
}

/// What MemoryDenyWriteExecute asks the kernel for, with the same call.
fn hardened(tree: &Tree, server: &mut Server) -> Outcome {
    let deny = "syscall(157, 65, 1, 0, 0, 0) == 0 or exit 99; exec @ARGV";
    if !Command::new("perl").args(["-e", deny, "true"]).status().is_ok_and(|status| status.success()) {
        return Err("no perl, or a kernel before 6.3, which has no PR_SET_MDWE");
    }
    tree.write(UNIT, &format!("{SERVICE}MemoryDenyWriteExecute=yes\n"));
    server.settings.under = ["perl", "-e", deny].map(str::to_owned).to_vec();
    Ok(())
}

fn with_a_wrong_option(tree: &Tree, server: &mut Server) -> Outcome {
    tree.write("/wrong.cnf", "[tare]\ndigests-size = many\n");
    let file = tree.at("/wrong.cnf");
    under(
        server,
        &format!("program=$1; shift 2; exec \"$program\" --defaults-file={} \"$@\"", file.display()),
    );
    Ok(())
}

fn reading_only(_: &Tree, server: &mut Server) -> Outcome {
    if !Uid::effective().is_root() {
        return Err("only root starts a server as somebody who may not write");
    }
    let elsewhere = server.temporary();
    for option in ["--log-tc", "--log-ddl-recovery"] {
        server.settings.options.push(format!("{option}={}/{}", elsewhere.display(), &option[2..]));
    }
    server.settings.options.push("--innodb-temp-data-file-path=../tmp/ibtmp1:12M:autoextend".to_owned());
    fs::set_permissions(server.data(), Permissions::from_mode(0o555)).expect("permissions");
    Ok(())
}

/// Has a shell start the server.
fn under(server: &mut Server, script: &str) {
    server.settings.under = ["sh", "-c", script, "sh"].map(str::to_owned).to_vec();
}

/// The exit status, and check, what, and remedy of every finding.
fn doctor(arguments: &[&str]) -> (i32, Vec<[String; 3]>) {
    let notes = tempfile::tempdir().expect("a folder");
    let output = Command::new(env!("CARGO_BIN_EXE_tare"))
        .env("STATE_DIRECTORY", notes.path())
        .args(["doctor", "--format", "json"])
        .args(arguments)
        .output()
        .expect("tare runs");
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    let findings = report["servers"][0]["findings"].as_array().expect("findings");
    let text = |finding: &Value, name: &str| finding[name].as_str().expect("a text").to_owned();
    let findings = findings.iter().map(|finding| ["check", "what", "remedy"].map(|name| text(finding, name)));
    (output.status.code().expect("it ends by itself"), findings.collect())
}

/// Why the doctor has not found it.
fn missed(expected: &Finding, (status, findings): (i32, Vec<[String; 3]>)) -> Result<(), String> {
    let Finding(check, what, remedy) = expected;
    let is = |it: &[String; 3]| it[0] == *check && it[1].contains(what) && it[2].contains(remedy);
    match findings.iter().any(is) && status == FOUND {
        true => Ok(()),
        false => {
            Err(format!("exit status {status}, and no {check} with {what:?} and {remedy:?} in {findings:#?}"))
        }
    }
}

/// Starts the stopped server as it would be started in this set-up, and has it looked at.
fn attempt(set_up: &SetUp, server: &mut Server) -> Result<(), String> {
    let tree = Tree::new();
    assert_eq!(tree.outcome(&["install"]).0, 0);
    server.settings = StartSettings::new(TestProvider::Off);
    if let Err(why) = (set_up.breaks)(&tree, server) {
        println!("skipped: {}: {why}", set_up.name);
        return Ok(());
    }
    for (name, value) in tree.environment() {
        let shell = set_up.name.starts_with("AppArmor") && name == "LD_PRELOAD";
        let name = if shell { "KEPT" } else { &name };
        server.settings = server.settings.clone().environment(name, &value);
    }
    server.resume().map_err(|error| format!("the server does not start: {error}"))?;
    let one: Option<u32> = server.client().expect("a connection").query_first("SELECT 1").expect("an answer");
    assert_eq!(one, Some(1));
    missed(&set_up.running, doctor(&["--socket", &server.socket().to_string_lossy()]))?;
    server.stop().map_err(|error| error.to_string())?;
    let root = tree.0.path().to_string_lossy().into_owned();
    set_up.unit.as_ref().map_or(Ok(()), |unit| missed(unit, doctor(&["--unit", "mariadb", "--root", &root])))
}

#[test]
fn ten_broken_set_ups_start_and_serve_and_are_named() {
    let tree = Tree::new();
    assert!(Path::new(&tree.at(PROGRAM)).exists() && !tree.at(DROP_IN).exists());
    let mut server = Server::start(StartSettings::new(TestProvider::Off)).expect("a server");
    server.stop().expect("it ends");
    let mut failed = vec![];
    for set_up in &SET_UPS {
        if let Err(why) = attempt(set_up, &mut server) {
            failed.push(format!("{}: {why}", set_up.name));
        }
        server.kill();
        fs::set_permissions(server.data(), Permissions::from_mode(0o755)).expect("permissions");
    }
    assert!(failed.is_empty(), "{failed:#?}");
}
