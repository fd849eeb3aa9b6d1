//! `tare install` and `tare uninstall`, in made-up trees of units and files, without systemd.

mod tree;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid, User};
use tare_testkit::eventually;
use tare_testkit::host::HostProgram;
use tare_testkit::server::LIMIT;
use tree::{DROP_IN, OPTIONS, PROGRAM, PROVIDER, SERVICE, TRIAL, Tree, UNIT, VARIABLES, needing_newer};

/// How the drop-in says what is to be preloaded.
fn told(list: &str) -> String {
    format!("\n[Service]\nEnvironment=TARE_PRELOAD={list}\n")
}

#[test]
fn a_dry_run_shows_what_would_be_written_and_writes_nothing() {
    let tree = Tree::new();
    let before = tree.listing();
    let (status, said) = tree.tare(&["install", "--dry-run"]);
    assert_eq!(status, 0, "{said}");
    for word in
        ["mariadb.service: would be changed", DROP_IN, TRIAL, OPTIONS, &format!("TARE_PRELOAD={PROVIDER}")]
    {
        assert!(said.contains(word), "no {word} in:\n{said}");
    }
    assert!(said.lines().all(|line| line.trim_end() == line), "{said}");
    assert_eq!(tree.listing(), before);
}

#[test]
fn what_is_installed_is_the_same_twice_and_nothing_is_left_of_it() {
    let tree = Tree::new();
    let before = tree.listing();
    let (_, planned) = tree.outcome(&["install", "--dry-run"]);
    let (status, outcome) = tree.outcome(&["install"]);
    assert_eq!((status, &outcome["state"]), (0, &"changed".into()), "{outcome}");
    // The dry run had said exactly this.
    assert_eq!(planned["changes"], outcome["changes"]);
    let installed = tree.listing();
    let drop_in = tree.read(DROP_IN);
    assert!(drop_in.contains(&told(PROVIDER)), "{drop_in}");
    let has_plugin = tree.at("/usr/lib/mysql/plugin/ha_federatedx.so").exists();
    assert_eq!(tree.read(OPTIONS).contains("plugin-load-add = ha_federatedx"), has_plugin);

    assert_eq!(tree.outcome(&["install"]).1["state"], "unchanged");
    let (_, said) = tree.tare(&["install"]);
    assert!(said.starts_with("mariadb.service: ") && !said.contains(DROP_IN), "nothing is written: {said}");
    assert_eq!(tree.listing(), installed);
    let (status, said) = tree.tare(&["doctor"]);
    assert!(said.contains("the server does not run"), "{said}");
    assert_eq!(status, 2, "nothing is wrong, and nothing is known: {said}");

    let loaded = tree.at(PROVIDER).display().to_string();
    assert_eq!(tree.environment().get("LD_PRELOAD"), Some(&loaded), "it lives");
    assert_eq!(tree.outcome(&["install"]).1["state"], "unchanged");
    let (_, said) = tree.tare(&["uninstall", "--dry-run"]);
    assert!(said.contains(&format!("\n  removed: {DROP_IN}\n")), "{said}");
    assert_eq!(tree.outcome(&["uninstall"]).1["state"], "changed");
    assert_eq!(tree.listing(), before);
    let (_, again) = tree.outcome(&["uninstall"]);
    assert_eq!((&again["state"], again["changes"].as_array().map(Vec::len)), (&"unchanged".into(), Some(0)));
}

#[test]
fn what_was_preloaded_and_set_before_stays() {
    let tree = Tree::new();
    let allocator = "/etc/systemd/system/mariadb.service.d/jemalloc.conf";
    tree.write(allocator, "[Service]\nEnvironment=\"LD_PRELOAD=/usr/lib/libjemalloc.so.2 /usr/lib/x.so\"\n");
    assert_eq!(tree.outcome(&["install"]).0, 0);
    let list = format!("{PROVIDER}:/usr/lib/libjemalloc.so.2:/usr/lib/x.so");
    assert!(tree.read(DROP_IN).contains(&told(&list)), "{}", tree.read(DROP_IN));
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
    assert!(tree.read(DROP_IN).contains(&told(PROVIDER)), "{}", tree.read(DROP_IN));
    let (_, outcome) = tree.outcome(&["uninstall"]);
    let what = outcome["findings"][0]["what"].as_str().unwrap_or_default();
    assert!(what.starts_with(by_hand), "what still has the server load tare is named: {outcome:#}");
    assert_eq!(tree.listing(), before);
}

/// A comment in Latin-1 is in many an option file.
#[test]
fn files_that_are_not_utf_8_are_somebody_else_s_too_or_keep_what_they_hold() {
    const COMMENT: &[u8] = b"# f\xfcr uns\n[tare]\nlevel = sums\n";
    let tree = Tree::new();
    fs::write(tree.at(OPTIONS), COMMENT).expect("file");
    let before = tree.listing();
    assert_eq!(tree.outcome(&["install"]).0, 0);
    assert_eq!(fs::read(tree.at(OPTIONS)).expect("file"), COMMENT);
    let head = tree.read(DROP_IN).lines().next().expect("a line").to_owned() + "\n";
    assert_eq!(tree.outcome(&["uninstall"]).0, 0);
    assert_eq!(tree.listing(), before);

    fs::write(tree.at(OPTIONS), [head.as_bytes(), COMMENT].concat()).expect("file");
    assert_eq!(tree.outcome(&["install"]).0, 0);
    let kept = fs::read(tree.at(OPTIONS)).expect("file");
    assert!(kept.starts_with(head.as_bytes()) && kept.ends_with(COMMENT), "{kept:?}");
    assert_eq!(tree.outcome(&["install"]).1["state"], "unchanged");
    assert_eq!(tree.outcome(&["uninstall"]).0, 0);
    assert!(!tree.at(OPTIONS).exists(), "it was tare's own");

    tree.write(DROP_IN, "");
    fs::write(tree.at(DROP_IN), b"# f\xfcr uns\n[Service]\nNice=1\n").expect("file");
    let before = tree.listing();
    let (status, said) = tree.tare(&["install"]);
    assert!(status == 1 && said.contains("zz-tare.conf is there, and was not written by"), "{said}");
    assert_eq!(tree.outcome(&["uninstall"]).0, 0);
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
    assert!(status == 2 && said.contains("there is no unit none"), "{said}");
}

/// On Debian the server's unit has older names, too.
#[test]
fn a_unit_is_installed_by_an_alias_and_taken_off_without() {
    let tree = Tree::new();
    symlink("mariadb.service", tree.at("/lib/systemd/system/mysql.service")).expect("link");
    let allocator = "/etc/systemd/system/mysql.service.d/jemalloc.conf";
    tree.write(allocator, "[Service]\nEnvironment=LD_PRELOAD=/usr/lib/libjemalloc.so.2\n");
    let before = tree.listing();
    let (status, outcome) = tree.outcome(&["install", "--unit", "mysql"]);
    assert_eq!((status, &outcome["server"]), (0, &"mariadb.service".into()), "{outcome:#}");
    let list = format!("{PROVIDER}:/usr/lib/libjemalloc.so.2");
    assert!(tree.read(DROP_IN).contains(&told(&list)), "{}", tree.read(DROP_IN));
    let (_, said) = tree.tare(&["doctor", "--unit", "mysql"]);
    assert!(!said.contains("does not load tare"), "{said}");
    assert_eq!(tree.outcome(&["uninstall"]).0, 0);
    assert_eq!(tree.listing(), before);
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
    let writable = |path: &'static str| {
        move |tree: &Tree| {
            fs::set_permissions(tree.at(path), Permissions::from_mode(0o777)).expect("permissions");
        }
    };
    assert_refused("provider", "can be written by others", writable(PROVIDER));
    assert_refused("trial", "can have root run code of theirs", writable(PROGRAM));
    // Who may rename a folder has the file.
    assert_refused("provider", "/usr/lib/tare, on the way to", writable("/usr/lib/tare"));
    assert_refused("provider", "/usr, on the way to", writable("/usr"));
    assert_refused("trial", "/usr/bin, on the way to /usr/bin/tare, can be written", writable("/usr/bin"));
    let harden = |tree: &Tree| tree.write(UNIT, &format!("{SERVICE}MemoryDenyWriteExecute=true\n"));
    assert_refused("hardening", "MemoryDenyWriteExecute=true", harden);
    let built_in =
        |tree: &Tree| tree.write("/etc/mysql/mariadb.conf.d/60.cnf", "[mysqld]\nperformance_schema\n");
    assert_refused("performance-schema", "/etc/mysql/mariadb.conf.d/60.cnf, line 2", built_in);
    let option =
        |tree: &Tree| tree.write("/etc/mysql/mariadb.conf.d/60.cnf", "[tare]\ndigests-size = many\n");
    assert_refused("options", "60.cnf, line 2: option digests-size", option);
    let late = |tree: &Tree| {
        tree.write(
            "/etc/systemd/system/mariadb.service.d/zzz.conf",
            "[Service]\nEnvironmentFile=/etc/default/mariadb\n",
        );
        tree.write("/etc/default/mariadb", "LD_PRELOAD=/usr/lib/libjemalloc.so.2\n");
    };
    assert_refused("preload", "/etc/default/mariadb sets LD_PRELOAD", late);
    let unset = |tree: &Tree| tree.write(UNIT, &format!("{SERVICE}UnsetEnvironment=X LD_PRELOAD\n"));
    assert_refused("preload", "takes LD_PRELOAD from the server", unset);
    let confine =
        |tree: &Tree| tree.write("/etc/apparmor.d/mariadbd", "/usr/sbin/mariadbd {\n  /data/** rwk,\n}\n");
    assert_refused("confinement", "AppArmor's profile mariadbd", confine);
    let others = |tree: &Tree| tree.copy(Path::new("/bin/true"), "/usr/sbin/mariadbd");
    assert_refused("program", "does not tell its version", others);
}

#[test]
fn a_provider_for_a_newer_c_library_is_refused() {
    let newer = |tree: &Tree| {
        let bytes = fs::read(tree.at(PROVIDER)).expect("file");
        fs::write(tree.at(PROVIDER), needing_newer(bytes)).expect("file");
    };
    assert_refused("provider", "needs GLIBC_2.99 of the C library", newer);
}

/// A variable that a file of the unit's sets comes after those of the unit itself, and tare's file after it.
#[test]
fn what_a_file_of_variables_preloads_is_taken_over() {
    let tree = Tree::new();
    tree.write(UNIT, &format!("{SERVICE}EnvironmentFile=/etc/default/mariadb\n"));
    tree.write("/etc/default/mariadb", "LD_PRELOAD=/usr/lib/libjemalloc.so.2\n");
    assert_eq!(tree.outcome(&["install"]).0, 0);
    let list = format!("{PROVIDER}:/usr/lib/libjemalloc.so.2");
    assert!(tree.read(DROP_IN).contains(&told(&list)), "{}", tree.read(DROP_IN));
    assert_eq!(tree.environment()["LD_PRELOAD"].matches(':').count(), 1);
    assert_eq!(tree.outcome(&["install"]).1["state"], "unchanged");
}

#[test]
fn a_drop_in_of_version_0_1_0_is_replaced() {
    let tree = Tree::new();
    let head = "# Written by `tare install`; `tare uninstall` removes it.\n";
    tree.write(DROP_IN, &format!("{head}[Service]\nEnvironment=LD_PRELOAD={PROVIDER}:/usr/lib/x.so\n"));
    assert_eq!(tree.outcome(&["install"]).1["state"], "changed");
    assert!(tree.read(DROP_IN).contains(&told(PROVIDER)), "{}", tree.read(DROP_IN));
    assert!(!tree.read(DROP_IN).contains("Environment=LD_PRELOAD"));
}

/// What the loader does not survive is not loaded: see tests/broken.rs for servers that start.
#[test]
fn a_provider_that_broke_after_its_installation_is_not_loaded_and_named() {
    // Within what is loaded, behind the header; then nothing that can be seen from outside: a name that
    // nobody defines.
    let cut: fn(&Tree) = |tree| tree.replace_provider(|bytes| bytes[..1 << 16].to_vec());
    let newer: fn(&Tree) = |tree| tree.replace_provider(needing_newer);
    let undefined: fn(&Tree) = |tree| {
        let call = "void nobody_has_this(void); __attribute__((constructor)) static void go(void) { nobody_has_this(); }";
        tree.compile_provider(call);
    };
    let hangs: fn(&Tree) = |tree| {
        tree.compile_provider(
            "#include <unistd.h>\n__attribute__((constructor)) static void go(void) { for (;;) pause(); }",
        );
    };
    for (breaks, seen, named) in [
        (cut, true, "is cut off"),
        (newer, true, "needs GLIBC_2.99"),
        (undefined, false, "undefined symbol: nobody_has_this"),
        (hangs, false, "did not end within"),
    ] {
        let tree = Tree::new();
        let before = tree.configuration();
        assert_eq!(tree.outcome(&["install"]).0, 0);
        assert!(tree.environment().contains_key("LD_PRELOAD"));
        breaks(&tree);
        assert!(!tree.environment().contains_key("LD_PRELOAD"), "{named}");
        assert!(tree.read(VARIABLES).starts_with("# without tare: "), "{}", tree.read(VARIABLES));
        let said = tree.read("/trial.log");
        assert!(
            said.starts_with("tare: mariadb.service starts without tare: ") && said.contains(named),
            "{said}"
        );
        let (status, said) = tree.tare(&["doctor"]);
        assert!(status == 1 && said.contains(named), "{said}");
        if seen {
            let (status, said) = tree.tare(&["install"]);
            assert!(status == 1 && said.contains(named), "{said}");
        }
        assert_eq!(tree.outcome(&["uninstall"]).0, 0);
        assert_eq!(tree.configuration(), before);
    }
}

#[test]
fn a_provider_in_a_folder_of_everybody_s_is_not_loaded() {
    let tree = Tree::new();
    assert_eq!(tree.outcome(&["install"]).0, 0);
    let set = |mode| {
        fs::set_permissions(tree.at("/usr/lib/tare"), Permissions::from_mode(mode)).expect("permissions");
    };
    set(0o777);
    assert!(!tree.environment().contains_key("LD_PRELOAD"));
    assert!(tree.read(VARIABLES).contains("on the way to"), "{}", tree.read(VARIABLES));
    let (status, said) = tree.tare(&["doctor"]);
    assert!(status == 1 && said.contains("To do: chown root:root /usr/lib/tare; chmod go-w"), "{said}");
    set(0o755);
    assert!(tree.environment().contains_key("LD_PRELOAD"));
}

/// Root runs some of a unit's commands, with what the server preloads: only root may own that. And what the
/// server's account cannot load does not count.
#[test]
fn the_server_s_account_tries_the_provider_and_may_not_own_it() {
    let account = User::from_name("mysql").ok().flatten().filter(|_| Uid::effective().is_root());
    let Some(account) = account else {
        println!("skipped: only root can be somebody else, and the account mysql has to be there");
        return;
    };
    let tree = Tree::new();
    tree.write(UNIT, &format!("{SERVICE}User=mysql\n"));
    assert_eq!(tree.outcome(&["install"]).0, 0);
    tree.compile_provider(
        "#include <stdlib.h>\n#include <unistd.h>\n\
         __attribute__((constructor)) static void go(void) { if (getuid() == 0 || getgid() == 0) abort(); }",
    );
    assert!(tree.environment().contains_key("LD_PRELOAD"), "{}", tree.read(VARIABLES));
    chown(tree.at(PROVIDER), Some(account.uid.as_raw()), None).expect("chown");
    assert!(!tree.environment().contains_key("LD_PRELOAD"));
    assert!(tree.read(VARIABLES).contains("belongs to mysql"), "{}", tree.read(VARIABLES));
    let (status, said) = tree.tare(&["install"]);
    assert!(status == 1 && said.contains("belongs to mysql"), "{said}");
}

/// The environment of the start before does not count: it named a provider that may be broken by now.
#[test]
fn without_a_program_that_tries_it_the_provider_is_not_loaded() {
    let tree = Tree::new();
    assert_eq!(tree.outcome(&["install"]).0, 0);
    assert!(tree.environment().contains_key("LD_PRELOAD"));
    for script in ["kill -BUS $$", "exit 127"] {
        tree.program(PROGRAM, script);
        assert!(!tree.environment().contains_key("LD_PRELOAD"));
        assert!(!tree.at(VARIABLES).exists());
    }
    fs::remove_file(tree.at(PROGRAM)).expect("file");
    assert!(!tree.environment().contains_key("LD_PRELOAD"));
    let (status, said) = tree.tare(&["install"]);
    assert!(status == 1 && said.contains("there is no tare below --root"), "{said}");
}

/// Starts the tree's server as its unit says: a stand-in for systemd. Where tare will not answer, the file
/// `hasty` saves waiting: the time limit may be short then.
const RESTART: &str = r#"
set -e
cd "$0"
if [ -f pid ]; then
    signal=TERM
    [ ! -e hasty ] || signal=KILL
    kill -"$signal" "$(cat pid)" 2>/dev/null || true
    while kill -0 "$(cat pid)" 2>/dev/null; do sleep 0.1; done
fi
environment=$(sh run/start.sh "$0")
options=--no-defaults
[ ! -f etc/mysql/mariadb.conf.d/90-tare.cnf ] || options=--defaults-file=$0/etc/mysql/mariadb.conf.d/90-tare.cnf
user=
[ "$(id -u)" != 0 ] || user=--user=mysql
env $environment setsid "$SERVER" "$options" $user --datadir="$0/data" --socket="$0/s" --pid-file="$0/data/pid" \
    --tmpdir="$0/tmp" --skip-networking --log-error="$0/data/log.err" --innodb-log-file-size=8M \
    --innodb-buffer-pool-size=64M </dev/null >/dev/null 2>&1 &
echo $! >pid
[ ! -e hasty ] || exit 0
for _ in $(seq 300); do
    mariadb-admin --no-defaults --socket="$0/s" --user=root ping >/dev/null 2>&1 && exit 0
    sleep 0.1
done
exit 1
"#;

/// An installation whose server comes up without tare.
const HASTILY: [&str; 5] = ["install", "--limit", "5s", "--restart", "--restart-command"];

/// The server of a tree; it ends with this.
struct Running<'a>(&'a Tree);

impl Running<'_> {
    fn command(&self, script: &str) -> String {
        let server = HostProgram::find().expect("a server").mariadbd.clone();
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
        // A panic in a destructor would hide the test's own.
        tare_testkit::poll(LIMIT, || !Path::new(&format!("/proc/{pid}")).exists());
    }
}

/// A tree whose server can be started: the account it runs as may pass.
fn startable() -> Option<Tree> {
    if HostProgram::find().expect("a server").basedir.is_some() {
        println!("skipped: the stand-in for systemd starts the system's own server only");
        return None;
    }
    Some(Tree::new())
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
    let (status, said) = doctor(&running);
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
    let command = running.command(&RESTART.replace("env $environment ", ""));
    let before = tree.listing();
    tree.write("/hasty", "");
    let (status, outcome) = tree.outcome(&[&HASTILY[..], &[&command]].concat());
    assert_eq!((status, &outcome["state"]), (1, &"put-back".into()), "{outcome:#}");
    assert!(outcome["why"].as_str().is_some_and(|why| why.contains("did not answer")), "{outcome:#}");
    assert_eq!(tree.listing(), before);
    let mut ping = Command::new("mariadb-admin");
    ping.args(["--no-defaults", "--user=root", "ping"]).arg(format!("--socket={}", tree.at("/s").display()));
    let answers = || ping.output().is_ok_and(|output| output.status.success());
    eventually("the server serves as before", LIMIT, answers);

    let failing = ["install", "--restart", "--restart-command", "echo broken >&2; exit 3"];
    let (status, outcome) = tree.outcome(&failing);
    assert_eq!((status, &outcome["state"]), (1, &"put-back".into()));
    assert!(outcome["why"].as_str().is_some_and(|why| why.contains("broken")), "{outcome:#}");
    assert_eq!(tree.listing(), before);
}

/// What `tare doctor` says of the tree's server as it runs.
fn doctor(running: &Running<'_>) -> (Option<i32>, String) {
    let pid = running.pid().expect("it runs").to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tare"));
    let notes = tempfile::tempdir().expect("a folder");
    let output = command.args(["doctor", "--pid", &pid]).env("STATE_DIRECTORY", notes.path()).output();
    let output = output.expect("tare runs");
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn a_server_with_an_older_provider_is_restarted() {
    let Some(tree) = startable() else { return };
    let running = Running(&tree);
    let command = running.command(RESTART);
    let restart = ["install", "--restart", "--restart-command", &command];
    assert_eq!(tree.outcome(&restart).0, 0);
    let pid = running.pid();
    tree.replace_provider(|bytes| bytes);

    let (status, said) = doctor(&running);
    assert!(
        status == Some(1) && said.contains("runs with an older provider than the installed one"),
        "{said}"
    );
    for how in [["install"].as_slice(), &["install", "--dry-run"]] {
        let (status, outcome) = tree.outcome(how);
        assert_eq!((status, &outcome["state"]), (0, &"unchanged".into()));
        let what = outcome["findings"][0]["what"].as_str().unwrap_or_default();
        assert!(what.contains("older provider") && running.pid() == pid, "{outcome:#}");
    }
    let (status, outcome) = tree.outcome(&restart);
    assert_eq!((status, &outcome["restarted"]), (0, &true.into()), "{outcome:#}");
    assert!(running.pid() != pid);
    assert_eq!(doctor(&running).0, Some(0), "{}", doctor(&running).1);
    assert_eq!(tree.outcome(&restart).1["restarted"], false);
}

#[test]
fn a_newer_provider_that_does_not_answer_goes_and_the_one_before_is_put_back() {
    let Some(tree) = startable() else { return };
    let running = Running(&tree);
    let command = running.command(RESTART);
    assert_eq!(tree.outcome(&["install", "--restart", "--restart-command", &command]).0, 0);
    let before = tree.listing();
    // It can be loaded, and does nothing.
    tree.compile_provider("int nothing;");
    tree.write("/hasty", "");
    let (status, outcome) = tree.outcome(&[&HASTILY[..], &[&command]].concat());
    assert_eq!((status, &outcome["state"]), (1, &"put-back".into()), "{outcome:#}");
    let why = outcome["why"].as_str().unwrap_or_default();
    assert!(why.contains("did not answer") && why.contains("is again what the server had loaded"), "{why}");
    assert_eq!(tree.listing(), before);
    eventually("the server is well again", LIMIT, || doctor(&running).0 == Some(0));
}

/// It would come back as root's own, and is loaded as that.
#[test]
fn what_the_server_had_loaded_does_not_come_back_when_it_is_not_root_s_alone() {
    if !Uid::effective().is_root() {
        println!("skipped: only root gives files away");
        return;
    }
    let Some(tree) = startable() else { return };
    let running = Running(&tree);
    let command = running.command(RESTART);
    let gives: fn(&Path) = |path| chown(path, Some(65534), None).expect("chown");
    let opens: fn(&Path) =
        |path| fs::set_permissions(path, Permissions::from_mode(0o666)).expect("permissions");
    for spoils in [gives, opens] {
        let (status, outcome) = tree.outcome(&["install", "--restart", "--restart-command", &command]);
        assert_eq!(status, 0, "{outcome:#}");
        let good = fs::read(tree.at(PROVIDER)).expect("file");
        spoils(&tree.at(PROVIDER));
        tree.compile_provider("int nothing;");
        let before = tree.listing();
        tree.write("/hasty", "");
        let (status, outcome) = tree.outcome(&[&HASTILY[..], &[&command]].concat());
        fs::remove_file(tree.at("/hasty")).expect("file");
        assert_eq!((status, &outcome["state"]), (1, &"put-back".into()), "{outcome:#}");
        let why = outcome["why"].as_str().unwrap_or_default();
        assert!(why.contains("is the newer one still") && why.contains("somebody else than root"), "{why}");
        assert_eq!(tree.listing(), before);
        tree.replace_provider(|_| good.clone());
    }
}
