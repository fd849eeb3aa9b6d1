//! `tare install` and `tare uninstall`, in made-up trees of units and files, without systemd.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tare_testkit::host::Host;
use tare_testkit::subject::provider_library;
use tempfile::TempDir;

const PROVIDER: &str = "/usr/lib/tare/libtare_mariadb.so";
const DROP_IN: &str = "/etc/systemd/system/mariadb.service.d/zz-tare.conf";
const OPTIONS: &str = "/etc/mysql/mariadb.conf.d/90-tare.cnf";
const UNIT: &str = "/lib/systemd/system/mariadb.service";
/// The unit of the tree's server, which runs as whoever starts it.
const SERVICE: &str = "[Service]\nExecStart=/usr/sbin/mariadbd --datadir=/data $MYSQLD_OPTS\n";

/// A machine below a folder: a unit, a server's program, its plugin, the C library and a provider.
struct Tree(TempDir);

impl Tree {
    fn new() -> Tree {
        let host = Host::find().expect("a server");
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
        fs::create_dir_all(tree.at("/etc/systemd/system")).expect("folder");
        tree
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path.trim_start_matches('/'))
    }

    fn copy(&self, from: &Path, to: &str) {
        self.write(to, "");
        fs::copy(from, self.at(to)).expect("a copy");
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folder");
        fs::write(path, text).expect("file");
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn tare(&self, arguments: &[&str]) -> (i32, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tare"));
        command.args(arguments).arg("--root").arg(self.0.path());
        let output = command.env("TARE_PROVIDER", self.at(PROVIDER)).output().expect("tare runs");
        let said =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code().expect("it ends by itself"), said)
    }

    /// What became of the first server.
    fn outcome(&self, arguments: &[&str]) -> (i32, Value) {
        let (status, said) = self.tare(&[arguments, &["--output", "json"]].concat());
        let mut report: Value =
            serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}:\n{said}"));
        (status, report["servers"][0].take())
    }

    /// Every file of the configuration and the libraries with a hash of what it holds, and every folder.
    fn listing(&self) -> BTreeMap<PathBuf, Option<u64>> {
        let mut listing = self.configuration();
        listing.extend(self.below(&["/lib", "/usr/lib"]));
        listing
    }

    fn configuration(&self) -> BTreeMap<PathBuf, Option<u64>> {
        self.below(&["/etc"])
    }

    fn below(&self, folders: &[&str]) -> BTreeMap<PathBuf, Option<u64>> {
        let mut listing = BTreeMap::new();
        let mut open: Vec<PathBuf> = folders.iter().map(|folder| self.at(folder)).collect();
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(&folder).expect("folder").flatten() {
                let path = entry.path();
                let content = path.is_file().then(|| hash(&fs::read(&path).expect("file")));
                if content.is_none() {
                    open.push(path.clone());
                }
                listing.insert(path, content);
            }
        }
        listing
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

#[test]
fn a_dry_run_shows_what_would_be_written_and_writes_nothing() {
    let tree = Tree::new();
    let before = tree.listing();
    let (status, said) = tree.tare(&["install", "--dry-run"]);
    assert_eq!(status, 0, "{said}");
    for word in ["mariadb.service: would be changed", DROP_IN, OPTIONS, &format!("LD_PRELOAD={PROVIDER}")] {
        assert!(said.contains(word), "no {word} in:\n{said}");
    }
    assert_eq!(tree.listing(), before);
}

#[test]
fn what_is_installed_is_the_same_twice_and_nothing_is_left_of_it() {
    let tree = Tree::new();
    let before = tree.listing();
    let (status, outcome) = tree.outcome(&["install"]);
    assert_eq!((status, &outcome["state"]), (0, &"changed".into()), "{outcome}");
    let installed = tree.listing();
    let drop_in = tree.read(DROP_IN);
    assert!(drop_in.contains(&format!("[Service]\nEnvironment=LD_PRELOAD={PROVIDER}\n")), "{drop_in}");
    let has_plugin = tree.at("/usr/lib/mysql/plugin/ha_federatedx.so").exists();
    assert_eq!(tree.read(OPTIONS).contains("plugin-load-add = ha_federatedx"), has_plugin);
    // The dry run had said exactly this.
    let (_, planned) = tree.outcome(&["install", "--dry-run"]);
    assert_eq!(planned["changes"], outcome["changes"]);

    assert_eq!(tree.outcome(&["install"]).1["state"], "unchanged");
    assert_eq!(tree.listing(), installed);
    let (status, said) = tree.tare(&["doctor"]);
    assert!(said.contains("the server does not run"), "{said}");
    assert_eq!(status, 2, "nothing is wrong, and nothing is known: {said}");

    assert_eq!(tree.outcome(&["uninstall"]).1["state"], "changed");
    assert_eq!(tree.listing(), before);
    assert_eq!(tree.outcome(&["uninstall"]).1["state"], "unchanged");
}

#[test]
fn what_was_preloaded_and_set_before_stays() {
    let tree = Tree::new();
    let allocator = "/etc/systemd/system/mariadb.service.d/jemalloc.conf";
    tree.write(allocator, "[Service]\nEnvironment=\"LD_PRELOAD=/usr/lib/libjemalloc.so.2 /usr/lib/x.so\"\n");
    assert_eq!(tree.outcome(&["install"]).0, 0);
    let list = format!("LD_PRELOAD={PROVIDER}:/usr/lib/libjemalloc.so.2:/usr/lib/x.so\n");
    assert!(tree.read(DROP_IN).contains(&list), "{}", tree.read(DROP_IN));
    tree.write(OPTIONS, &(tree.read(OPTIONS) + "level = sums\n"));
    assert_eq!(tree.outcome(&["install"]).1["state"], "unchanged");
    assert!(tree.read(OPTIONS).ends_with("level = sums\n"));
    assert_eq!(tree.outcome(&["uninstall"]).0, 0);
    assert!(tree.at(allocator).is_file() && !tree.at(OPTIONS).exists());
}

#[test]
fn files_of_somebody_else_s_are_left_alone() {
    let tree = Tree::new();
    let by_hand = "/etc/systemd/system/mariadb.service.d/override.conf";
    tree.write(by_hand, &format!("[Service]\nEnvironment=LD_PRELOAD={PROVIDER}\n"));
    tree.write(OPTIONS, "[mariadbd]\nplugin-load-add = ha_federatedx\n[tare]\nlevel = sums\n");
    let before = tree.listing();
    assert_eq!(tree.outcome(&["install"]).0, 0);
    assert!(tree.read(DROP_IN).ends_with(&format!("LD_PRELOAD={PROVIDER}\n")), "{}", tree.read(DROP_IN));
    let (_, outcome) = tree.outcome(&["uninstall"]);
    let what = outcome["findings"][0]["what"].as_str().unwrap_or_default();
    assert!(what.starts_with(by_hand), "what still has the server load tare is named: {outcome:#}");
    assert_eq!(tree.listing(), before);
}

#[test]
fn instances_are_installed_one_by_one_and_share_the_option_file() {
    let tree = Tree::new();
    tree.write("/lib/systemd/system/mariadb@.service", SERVICE);
    tree.write(
        "/etc/systemd/system/mariadb@a.service.d/own.conf",
        "[Service]\nEnvironment=MYSQLD_OPTS=--port=1\n",
    );
    assert_eq!(tree.outcome(&["install"]).0, 0);
    let instance = "/etc/systemd/system/mariadb@a.service.d/zz-tare.conf";
    assert!(tree.at(instance).is_file() && tree.at(DROP_IN).is_file());
    assert_eq!(tree.outcome(&["uninstall", "--unit", "mariadb@a"]).0, 0);
    assert!(!tree.at(instance).exists());
    assert!(tree.at(DROP_IN).is_file() && tree.at(OPTIONS).is_file(), "the other server has tare");
    assert_eq!(tree.outcome(&["uninstall"]).0, 0);
    assert!(!tree.at(OPTIONS).exists());
    let (status, said) = tree.tare(&["install", "--unit", "none"]);
    assert!(status == 1 && said.contains("there is no unit none"), "{said}");
}

/// Asserts that nothing is written and this is named, after the tree was changed.
fn assert_refused(check: &str, text: &str, change: impl Fn(&Tree)) {
    let tree = Tree::new();
    change(&tree);
    let before = tree.listing();
    let (status, outcome) = tree.outcome(&["install", "--restart", "--restart-command", "exit 99"]);
    assert_eq!((status, &outcome["state"]), (1, &"refused".into()), "{outcome}");
    let findings = outcome["findings"].as_array().expect("findings");
    let named = findings
        .iter()
        .any(|it| it["check"] == check && it["what"].as_str().is_some_and(|it| it.contains(text)));
    assert!(named, "no {check} with {text:?} in {outcome:#}");
    assert_eq!(tree.listing(), before);
}

#[test]
fn a_server_that_would_not_have_tare_is_left_alone() {
    let truncate = |tree: &Tree| {
        let bytes = fs::read(tree.at(PROVIDER)).expect("file");
        fs::write(tree.at(PROVIDER), &bytes[..bytes.len() / 2]).expect("file");
    };
    assert_refused("provider", "is cut off", truncate);
    let harden = |tree: &Tree| tree.write(UNIT, &format!("{SERVICE}MemoryDenyWriteExecute=true\n"));
    assert_refused("hardening", "MemoryDenyWriteExecute=true", harden);
    let built_in =
        |tree: &Tree| tree.write("/etc/mysql/mariadb.conf.d/60.cnf", "[mysqld]\nperformance_schema\n");
    assert_refused("built-in", "/etc/mysql/mariadb.conf.d/60.cnf, line 2", built_in);
    let option =
        |tree: &Tree| tree.write("/etc/mysql/mariadb.conf.d/60.cnf", "[tare]\ndigests-size = many\n");
    assert_refused("options", "60.cnf, line 2: option digests-size", option);
    let late = |tree: &Tree| {
        tree.write(UNIT, &format!("{SERVICE}EnvironmentFile=/etc/default/mariadb\n"));
        tree.write("/etc/default/mariadb", "LD_PRELOAD=/usr/lib/libjemalloc.so.2\n");
    };
    assert_refused("preload", "/etc/default/mariadb sets LD_PRELOAD", late);
    let confine =
        |tree: &Tree| tree.write("/etc/apparmor.d/mariadbd", "/usr/sbin/mariadbd {\n  /data/** rwk,\n}\n");
    assert_refused("confinement", "AppArmor's profile mariadbd", confine);
    let others = |tree: &Tree| tree.copy(Path::new("/bin/true"), "/usr/sbin/mariadbd");
    assert_refused("program", "does not tell its version", others);
}

/// An object that needs a C library nobody has.
fn needing_newer(mut bytes: Vec<u8>) -> Vec<u8> {
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

/// As ELF hashes names.
fn hash_of(name: &str) -> [u8; 4] {
    let step = |hash: u32, byte: u8| {
        let hash = (hash << 4).wrapping_add(byte.into());
        let top = hash & 0xf000_0000;
        (hash ^ (top >> 24)) & !top
    };
    name.bytes().fold(0, step).to_le_bytes()
}

#[test]
fn a_provider_for_a_newer_c_library_is_refused() {
    let newer = |tree: &Tree| {
        let bytes = fs::read(tree.at(PROVIDER)).expect("file");
        fs::write(tree.at(PROVIDER), needing_newer(bytes)).expect("file");
    };
    assert_refused("provider", "needs GLIBC_2.99 of the C library", newer);
}

/// What the loader does not survive: the server cannot start with it, so it is named before, and taken off without it.
#[test]
fn a_provider_that_broke_after_its_installation_is_named_and_taken_off() {
    // Within what is loaded; debugging information that is missing behind it does no harm.
    let cut: fn(Vec<u8>) -> Vec<u8> = |bytes| bytes[..1 << 16].to_vec();
    for (broken, named) in [(cut, "is cut off"), (needing_newer, "needs GLIBC_2.99")] {
        let tree = Tree::new();
        let before = tree.configuration();
        assert_eq!(tree.outcome(&["install"]).0, 0);
        let bytes = fs::read(tree.at(PROVIDER)).expect("file");
        fs::write(tree.at(PROVIDER), broken(bytes)).expect("file");
        let any = Command::new("true").env("LD_PRELOAD", tree.at(PROVIDER)).output().expect("it begins");
        assert!(!any.status.success(), "if the loader survives it, so does a server: see tests/doctor.rs");
        let (status, said) = tree.tare(&["doctor"]);
        assert!(status == 1 && said.contains(named) && said.contains("cannot start"), "{said}");
        let (status, said) = tree.tare(&["install"]);
        assert!(status == 1 && said.contains(named), "{said}");
        assert_eq!(tree.outcome(&["uninstall"]).0, 0);
        assert_eq!(tree.configuration(), before);
    }
}

/// Starts the tree's server as its unit says: a stand-in for systemd.
const RESTART: &str = r#"
set -e
cd "$0"
if [ -f pid ]; then
    kill "$(cat pid)" 2>/dev/null || true
    while kill -0 "$(cat pid)" 2>/dev/null; do sleep 0.1; done
fi
preload=$(sed -n "s:^Environment=LD_PRELOAD=:$0:p" etc/systemd/system/mariadb.service.d/zz-tare.conf 2>/dev/null || true)
options=--no-defaults
[ ! -f etc/mysql/mariadb.conf.d/90-tare.cnf ] || options=--defaults-file=$0/etc/mysql/mariadb.conf.d/90-tare.cnf
user=
[ "$(id -u)" != 0 ] || user=--user=mysql
LD_PRELOAD=$preload setsid "$SERVER" "$options" $user --datadir="$0/data" --socket="$0/s" --pid-file="$0/data/pid" \
    --tmpdir="$0/tmp" --skip-networking --log-error="$0/data/log.err" --innodb-log-file-size=8M \
    --innodb-buffer-pool-size=64M </dev/null >/dev/null 2>&1 &
echo $! >pid
for _ in $(seq 300); do
    mariadb-admin --no-defaults --socket="$0/s" --user=root ping >/dev/null 2>&1 && exit 0
    sleep 0.1
done
exit 1
"#;

/// The server of a tree; it ends with this.
struct Running<'a>(&'a Tree);

impl Running<'_> {
    fn command(&self, script: &str) -> String {
        let server = Host::find().expect("a server").mariadbd;
        self.0.write("/restart.sh", script);
        let home = self.0.0.path().display();
        format!("SERVER={} sh -c '. {home}/restart.sh' {home}", server.display())
    }

    fn pid(&self) -> Option<i32> {
        fs::read_to_string(self.0.at("/pid")).ok()?.trim().parse().ok()
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let Some(pid) = self.pid() else { return };
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        while Path::new(&format!("/proc/{pid}")).exists() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

/// A tree whose server can be started: the account it runs as may pass.
fn startable() -> Option<Tree> {
    let tree = Tree::new();
    fs::set_permissions(tree.0.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
    if Host::find().expect("a server").basedir.is_some() {
        println!("skipped: the stand-in for systemd starts the system's own server only");
        return None;
    }
    Some(tree)
}

#[test]
fn a_restarted_server_has_tare_and_has_it_no_more_afterwards() {
    let Some(tree) = startable() else { return };
    let running = Running(&tree);
    let command = running.command(RESTART);
    let restart = ["--restart", "--restart-command", &command];
    let before = tree.listing();
    let (status, outcome) = tree.outcome(&[&["install"][..], &restart].concat());
    assert_eq!(
        (status, &outcome["state"], &outcome["restarted"]),
        (0, &"changed".into(), &true.into()),
        "{outcome:#}"
    );
    let pid = running.pid();
    let (status, said) = {
        let pid = pid.expect("it runs").to_string();
        let output =
            Command::new(env!("CARGO_BIN_EXE_tare")).args(["doctor", "--pid", &pid]).output().expect("runs");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    assert_eq!(status, Some(0), "{said}");
    // Nothing is to do: the server is left alone.
    let (_, outcome) = tree.outcome(&[&["install"][..], &restart].concat());
    assert_eq!((&outcome["state"], &outcome["restarted"]), (&"unchanged".into(), &false.into()));
    assert_eq!(running.pid(), pid);

    let (status, outcome) = tree.outcome(&[&["uninstall"][..], &restart].concat());
    assert_eq!((status, &outcome["restarted"]), (0, &true.into()), "{outcome:#}");
    assert_eq!(tree.listing(), before);
    assert!(!tree.at("/data/tare.sock").exists());
}

#[test]
fn a_server_that_does_not_come_up_with_tare_is_put_back() {
    let Some(tree) = startable() else { return };
    let running = Running(&tree);
    // Its unit's drop-in is not honoured: the server comes up without tare.
    let command = running.command(&RESTART.replace("LD_PRELOAD=$preload ", ""));
    let before = tree.listing();
    let restart = ["install", "--limit", "2", "--restart", "--restart-command", &command];
    let (status, outcome) = tree.outcome(&restart);
    assert_eq!((status, &outcome["state"]), (1, &"put-back".into()), "{outcome:#}");
    assert!(outcome["why"].as_str().is_some_and(|why| why.contains("did not answer")), "{outcome:#}");
    assert_eq!(tree.listing(), before);
    let mut ping = Command::new("mariadb-admin");
    ping.args(["--no-defaults", "--user=root", "ping"]).arg(format!("--socket={}", tree.at("/s").display()));
    assert!(ping.output().is_ok_and(|output| output.status.success()), "the server serves as before");

    let failing = ["install", "--restart", "--restart-command", "echo broken >&2; exit 3"];
    let (status, outcome) = tree.outcome(&failing);
    assert_eq!((status, &outcome["state"]), (1, &"put-back".into()));
    assert!(outcome["why"].as_str().is_some_and(|why| why.contains("broken")), "{outcome:#}");
    assert_eq!(tree.listing(), before);
}
