//! A machine below a folder, with a server that is not started by systemd but as it would be.
#![allow(dead_code, unreachable_pub)] // each test program uses its part

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tare_testkit::host::HostProgram;
use tare_testkit::subject::provider_library;
use tempfile::TempDir;

pub const PROVIDER: &str = "/usr/lib/tare/libtare_mariadb.so";
pub const DROP_IN: &str = "/etc/systemd/system/mariadb.service.d/zz-tare.conf";
pub const OPTIONS: &str = "/etc/mysql/mariadb.conf.d/90-tare.cnf";
pub const UNIT: &str = "/lib/systemd/system/mariadb.service";
/// Where `tare preload` says what came of its trial.
pub const VARIABLES: &str = "/run/tare/mariadb.env";
/// The unit of the trial.
pub const TRIAL: &str = "/etc/systemd/system/tare-preload@.service";
/// This program.
pub const PROGRAM: &str = "/usr/bin/tare";
/// A stand-in for systemd.
const START: &str = include_str!("start.sh");
/// The unit of the tree's server, which runs as whoever starts it.
pub const SERVICE: &str = "[Service]\nExecStart=/usr/sbin/mariadbd --datadir=/data $MYSQLD_OPTS\n";

/// What a file holds, of which a failed test shows the length. Comparing bytes is quick where a hash is not
/// optimised.
#[derive(PartialEq, Eq)]
pub struct Content(Vec<u8>);

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// A machine below a folder: a unit, a server's program, its plugin, the C library and a provider.
pub struct Tree(pub TempDir);

impl Tree {
    pub fn new() -> Tree {
        let host = HostProgram::find().expect("a server");
        let tree = Tree(host.new_home().expect("a data directory"));
        let plugin =
            host.plugins().map(|folder| folder.join("ha_federatedx.so")).filter(|path| path.exists());
        let maps = fs::read_to_string("/proc/self/maps").expect("maps");
        let libc =
            maps.lines().find(|line| line.ends_with("/libc.so.6")).expect("libc").split_whitespace().last();
        tree.copy(&host.mariadbd, "/usr/sbin/mariadbd");
        tree.copy(Path::new(libc.expect("a path")), "/lib/x86_64-linux-gnu/libc.so.6");
        tree.copy(&provider_library().expect("a provider"), PROVIDER);
        plugin.iter().for_each(|path| tree.copy(path, "/usr/lib/mysql/plugin/ha_federatedx.so"));
        tree.write("/etc/mysql/my.cnf", "!includedir /etc/mysql/mariadb.conf.d\n");
        tree.write("/etc/mysql/mariadb.conf.d/50-server.cnf", "[mariadbd]\nskip-networking\n");
        tree.write(UNIT, SERVICE);
        tree.program(PROGRAM, &format!("exec {} \"$@\"", env!("CARGO_BIN_EXE_tare")));
        tree.write("/run/start.sh", START);
        fs::set_permissions(tree.0.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
        fs::create_dir_all(tree.at("/etc/systemd/system")).expect("folder");
        tree
    }

    pub fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path.trim_start_matches('/'))
    }

    pub fn copy(&self, from: &Path, to: &str) {
        self.write(to, "");
        fs::copy(from, self.at(to)).expect("a copy");
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folder");
        fs::write(path, text).expect("file");
    }

    /// A shell's script.
    pub fn program(&self, path: &str, script: &str) {
        self.write(path, &format!("#!/bin/sh\n{script}\n"));
        fs::set_permissions(self.at(path), fs::Permissions::from_mode(0o755)).expect("permissions");
    }

    /// Puts another file in the provider's place, as packages do: a server that has loaded it keeps what it
    /// has.
    pub fn replace_provider(&self, change: impl Fn(Vec<u8>) -> Vec<u8>) {
        let (path, new) = (self.at(PROVIDER), self.at("/usr/lib/tare/.new"));
        fs::write(&new, change(fs::read(&path).expect("file"))).expect("file");
        fs::rename(new, path).expect("renamed");
    }

    /// Has the C compiler make the provider.
    pub fn compile_provider(&self, code: &str) {
        self.write("/provider.c", code);
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-o"]).arg(self.at("/provider.so")).arg(self.at("/provider.c"));
        assert!(compiler.status().expect("a C compiler, which `make setup` installs").success());
        let bytes = fs::read(self.at("/provider.so")).expect("file");
        self.replace_provider(|_| bytes.clone());
    }

    /// What systemd does before it starts the server: the trial. The environment the server has then.
    pub fn environment(&self) -> BTreeMap<String, String> {
        let output = Command::new("sh").arg(self.at("/run/start.sh")).arg(self.0.path()).output();
        let output = output.expect("sh runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let lines = String::from_utf8(output.stdout).expect("text");
        let variables = lines.lines().filter_map(|line| line.split_once('='));
        variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub fn tare(&self, arguments: &[&str]) -> (i32, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tare"));
        command.args(arguments).arg("--root").arg(self.0.path());
        let output = command.env("TARE_PROVIDER", self.at(PROVIDER)).output().expect("tare runs");
        let said =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code().expect("it ends by itself"), said)
    }

    /// What became of the first server.
    pub fn outcome(&self, arguments: &[&str]) -> (i32, Value) {
        let (status, said) = self.tare(&[arguments, &["--format", "json"]].concat());
        let mut report: Value =
            serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}:\n{said}"));
        (status, report["servers"][0].take())
    }

    /// Every file of the configuration and the libraries with what it holds, and every folder.
    pub fn listing(&self) -> BTreeMap<PathBuf, Option<Content>> {
        let mut listing = self.configuration();
        listing.extend(self.below(&["/lib", "/usr/lib"]));
        listing
    }

    pub fn configuration(&self) -> BTreeMap<PathBuf, Option<Content>> {
        self.below(&["/etc", "/run"])
    }

    fn below(&self, folders: &[&str]) -> BTreeMap<PathBuf, Option<Content>> {
        let mut listing = BTreeMap::new();
        let mut open: Vec<PathBuf> = folders.iter().map(|folder| self.at(folder)).collect();
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(&folder).expect("folder").flatten() {
                let path = entry.path();
                let content = path.is_file().then(|| Content(fs::read(&path).expect("file")));
                if content.is_none() {
                    open.push(path.clone());
                }
                listing.insert(path, content);
            }
        }
        listing
    }
}

/// An object that needs a C library nobody has.
pub fn needing_newer(mut bytes: Vec<u8>) -> Vec<u8> {
    // The hash is what the loader compares first.
    for (from, to) in
        [(&b"GLIBC_2.34\0"[..], &b"GLIBC_2.99\0"[..]), (&hash_of("GLIBC_2.34"), &hash_of("GLIBC_2.99"))]
    {
        let at = bytes.windows(from.len()).position(|window| window == from);
        let at = at.expect("what every program built today needs");
        bytes[at..at + from.len()].copy_from_slice(to);
    }
    bytes
}

/// Returns the ELF hash of a name.
fn hash_of(name: &str) -> [u8; 4] {
    let step = |hash: u32, byte: u8| {
        let hash = (hash << 4).wrapping_add(byte.into());
        let top = hash & 0xf000_0000;
        (hash ^ (top >> 24)) & !top
    };
    name.bytes().fold(0, step).to_le_bytes()
}
