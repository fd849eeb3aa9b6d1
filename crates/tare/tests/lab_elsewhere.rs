//! `tare lab` with servers and drivers that are not where it runs: in network namespaces, over ssh. What
//! needs root, `ip` or `sshd` says so where it is not there.

#[allow(dead_code)] // some of it is for other tests
mod place;

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mysql::prelude::Queryable;
use nix::sys::signal::Signal;
use tare_lab::target::ServerTarget;

use place::{Place, STUDY, Theirs, send, text};
use tare_testkit::eventually;
use tare_testkit::server::LIMIT;

/// Options of a server that listens at an address, and its port.
fn listening_at(address: &str) -> (Vec<String>, u16) {
    let free = TcpListener::bind((address, 0)).and_then(|l| l.local_addr()).expect("a free port");
    let options = [
        "--skip-networking=0",
        &format!("--bind-address={address}"),
        &format!("--port={}", free.port()),
        "--skip-name-resolve",
        "--performance-schema=ON",
    ];
    (options.map(str::to_owned).to_vec(), free.port())
}

/// A server at an address, with an account for the lab, and the study on it.
fn theirs_at(address: &str) -> (Theirs, String) {
    let (options, port) = listening_at(address);
    let theirs = Theirs::start(&options);
    for statement in ["CREATE USER lab@'%' IDENTIFIED BY 'secret'", "GRANT ALL ON *.* TO lab@'%'"] {
        theirs.server.execute(statement).expect("done");
    }
    let study = theirs.study_at(&format!("lab@{address}:{port}"));
    (theirs, study)
}

/// What the Performance Schema is set to, and schemas and variables.
fn settings(theirs: &Theirs) -> Vec<Vec<String>> {
    let queries = [
        "SELECT CONCAT_WS(' ', NAME, ENABLED) FROM performance_schema.setup_consumers ORDER BY 1",
        "SELECT CONCAT_WS(' ', NAME, ENABLED, TIMED) FROM performance_schema.setup_instruments ORDER BY 1",
        "SELECT CONCAT_WS(' ', HOST, USER, ROLE, ENABLED, HISTORY) FROM performance_schema.setup_actors ORDER BY 1",
        "SELECT CONCAT_WS(' ', OBJECT_TYPE, OBJECT_SCHEMA, OBJECT_NAME, ENABLED, TIMED) \
         FROM performance_schema.setup_objects ORDER BY 1",
    ];
    let mut connection = theirs.server.connect().expect("a connection");
    let tables = queries.map(|query| connection.query::<String, _>(query).expect("an answer"));
    theirs.state().into_iter().chain(tables).collect()
}

/// A study that switches what is watched.
fn switching(study: &str) -> String {
    study
        .replace(
            "switch = [\"SET GLOBAL sort_buffer_size = 262144\"]\nrequire = \"SELECT @@GLOBAL.sort_buffer_size = 262144\"",
            "switch = [\"UPDATE performance_schema.setup_consumers SET ENABLED = 'YES'\", \
             \"DELETE FROM performance_schema.setup_objects WHERE OBJECT_TYPE = 'TRIGGER'\"]",
        )
        .replace(
            "switch = [\"SET GLOBAL sort_buffer_size = 2097152\"]\nrequire = \"SELECT @@GLOBAL.sort_buffer_size = 2097152\"",
            "switch = [\"UPDATE performance_schema.setup_instruments SET ENABLED = 'YES', TIMED = 'NO' WHERE NAME LIKE 'wait/%'\", \
             \"TRUNCATE TABLE performance_schema.setup_actors\", \
             \"INSERT INTO performance_schema.setup_actors VALUES ('%', 'app', '%', 'YES', 'NO')\"]",
        )
}

/// Whether it ends, is asked to end or is killed: the Performance Schema is set as it was.
#[test]
fn what_a_study_switches_on_a_running_server_is_put_back_whatever_ends_it() {
    let (theirs, study) = theirs_at("127.0.0.1");
    let before = settings(&theirs);
    assert!(before.iter().all(|rows| !rows.is_empty()), "nothing to be put back: {before:?}");
    let study = switching(&study).replace("slice_seconds = 0.5", "slice_seconds = 0.3");
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let place = Place::new(&study);
        let mut running = place.command().env("TARE_LAB_PASSWORD", "secret").spawn().expect("tare runs");
        place.wait_for_slices(&mut running, 3);
        send(running.id(), signal);
        let ended = running.wait_with_output().expect("it ends");
        place.wait_until_nothing_is_left();
        if signal == Signal::SIGKILL {
            assert_ne!(settings(&theirs), before, "so a kill leaves it");
            put_back(&place);
        }
        let now = settings(&theirs);
        let differ: Vec<_> = now.iter().zip(&before).filter(|(now, before)| now != before).collect();
        assert!(differ.is_empty(), "{signal}: {differ:?}\n{}", text(&ended.stderr));
    }
    let place = Place::new(&study);
    let ended = place.command().env("TARE_LAB_PASSWORD", "secret").output().expect("tare runs");
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    assert_eq!(settings(&theirs), before);
    // It listens on this machine, so its process is found, through TCP, too.
    assert_eq!(place.records()[0]["servers"][0]["cpu"], "process");
    let cpu = |r: &serde_json::Value| {
        r["cpu_user"].as_f64().unwrap_or(0.0) + r["cpu_system"].as_f64().unwrap_or(0.0)
    };
    assert!(place.records().iter().filter(|r| r["kind"] == "slice").all(|slice| cpu(slice) > 0.0));
}

/// The next study beside it says how, and the command does it, once.
fn put_back(place: &Place) {
    let refused = Command::new(env!("CARGO_BIN_EXE_tare"))
        .args(["lab", "run"])
        .arg(place.own.path().join("tiny.toml"))
        .arg("--output")
        .arg(place.own.path().join("other"))
        .env("TARE_LAB_PASSWORD", "secret")
        .output()
        .expect("tare runs");
    let said = text(&refused.stderr);
    let results = place.results().canonicalize().expect("results");
    assert!(said.contains(&format!("tare lab put-back {}", results.display())), "{said}");
    let back = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tare"));
        command.args(["lab", "put-back"]).arg(place.results()).env("TARE_LAB_PASSWORD", "secret");
        let ended = command.output().expect("tare runs");
        assert!(ended.status.success(), "{}", text(&ended.stderr));
        text(&ended.stdout)
    };
    assert!(back().contains("put back as it was"));
    assert!(back().contains("nothing is owed"));
    let nothing = Command::new(env!("CARGO_BIN_EXE_tare")).args(["lab", "put-back", "/nowhere"]).output();
    assert!(text(&nothing.expect("tare runs").stderr).contains("has no results"));
}

/// Another network, joined to ours by a cable. It goes when dropped.
struct Network {
    name: String,
    cable: String,
    /// Our address, and that at the other end.
    ours: String,
    theirs: String,
}

impl Network {
    /// `None`, with the reason said, where there can be none.
    fn new(nth: u32) -> Option<Network> {
        let pid = std::process::id();
        let name = format!("tare-lab-{pid}-{nth}");
        if !run("ip", &["netns", "add", &name]) {
            println!("skipped: `ip netns add` is refused here (it needs root, and iproute2)");
            return None;
        }
        let net = format!("10.{}.{}", 200 + pid % 50, (pid / 50 * 4 + nth) % 250);
        let cable = format!("tl{nth}-{pid}");
        let network = Network { cable, ours: format!("{net}.1"), theirs: format!("{net}.2"), name };
        let other_end = format!("{}x", network.cable);
        for words in [
            format!("link add {} type veth peer name {other_end}", network.cable),
            format!("link set {other_end} netns {}", network.name),
            format!("addr add {}/24 dev {}", network.ours, network.cable),
            format!("link set {} up", network.cable),
            format!("-n {} addr add {}/24 dev {other_end}", network.name, network.theirs),
            format!("-n {} link set {other_end} up", network.name),
            format!("-n {} link set lo up", network.name),
        ] {
            assert!(run("ip", &words.split(' ').collect::<Vec<_>>()), "ip {words}");
        }
        Some(network)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        run("ip", &["link", "del", &self.cable]);
        run("ip", &["netns", "del", &self.name]);
    }
}

fn run(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// The lab in one network, the server in another: its process is not to be seen, so it is asked for its CPU
/// time.
#[test]
fn a_server_on_another_machine_counts_its_cpu_time_itself() {
    let Some(network) = Network::new(1) else { return };
    let (theirs, study) = theirs_at(&network.ours);
    let before = settings(&theirs);
    let place = Place::new(&study);
    let own = place.command();
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &network.name]).arg(own.get_program()).args(own.get_args());
    command.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ended = command.env("TARE_LAB_PASSWORD", "secret").output().expect("tare runs");
    let said = text(&ended.stdout);
    assert!(ended.status.success(), "{said}{}", text(&ended.stderr));
    let records = place.records();
    assert_eq!(records[0]["servers"][0]["cpu"], "statements");
    assert!(said.contains("what its statements used, as it says (Cpu_time)"), "{said}");
    let slices: Vec<_> = records.iter().filter(|r| r["kind"] == "slice").collect();
    assert!(!slices.is_empty() && slices.iter().all(|s| s["turns"].is_null()), "asked in every turn");
    // A point select takes some microseconds, and less than a millisecond.
    for slice in slices {
        let cpu =
            slice["cpu_user"].as_f64().expect("a figure") + slice["cpu_system"].as_f64().expect("a figure");
        let each = cpu / slice["transactions"].as_f64().expect("a figure");
        assert!((1e-6..1e-3).contains(&each), "{each}: {slice}");
    }
    assert_eq!(settings(&theirs), before, "userstat, too");
    place.wait_until_nothing_is_left();
}

/// Addresses that drivers of the study's server have; none while it has no server.
fn drivers_of(place: &Place) -> Vec<String> {
    let socket = |pid: &u32| {
        let arguments = text(&fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default());
        let socket = |a: &str| a.strip_prefix("--socket=").map(PathBuf::from);
        arguments.split('\0').find_map(socket)
    };
    let sockets: Vec<PathBuf> = place.processes().iter().filter_map(socket).collect();
    let connections = sockets.iter().filter_map(|socket| ServerTarget::of_socket(socket).connect().ok());
    let query = "SELECT HOST FROM information_schema.processlist WHERE USER = 'tare_lab_driver'";
    connections.flat_map(|mut c| c.query::<String, _>(query).unwrap_or_default()).collect()
}

/// Runs a study whose driver is at the other end of a cable; sees that its connections come from there, that
/// turns are taken, and that nothing is left after kill -9. `driving` tells how many drivers run there.
fn driven_from(network: &Network, driver: &str, driving: &dyn Fn() -> usize) {
    let place = Place::new(&format!("{STUDY}\n[driver]\n{driver}\n"));
    let mut running = place.command().spawn().expect("tare runs");
    let mut seen = vec![];
    while place.slices() < 3 {
        if running.try_wait().expect("its state").is_some() {
            let ended = running.wait_with_output().expect("it ended");
            panic!("{}{}", text(&ended.stdout), text(&ended.stderr));
        }
        seen.extend(drivers_of(&place));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!seen.is_empty() && seen.iter().all(|host| host.starts_with(&network.theirs)), "{seen:?}");
    send(running.id(), Signal::SIGKILL);
    running.wait().expect("it ends");
    place.wait_until_nothing_is_left();
    eventually("no driver outlives the lab", LIMIT, || driving() == 0);

    let ended = place.run();
    assert!(ended.status.success(), "{}{}", text(&ended.stdout), text(&ended.stderr));
    let records = place.records();
    assert!(driver.contains(records[0]["driver"].as_str().expect("a driver")), "{}", records[0]);
    let slices: Vec<_> = records.iter().filter(|r| r["kind"] == "slice").collect();
    assert_eq!(slices.len(), 6 * 3);
    // How many turns there are depends on the machine.
    let turns: Vec<_> = slices.iter().filter_map(|s| s["turns"].as_array()).flatten().collect();
    assert!(turns.iter().any(|turn| turn["queries"].as_u64() > Some(0)), "{turns:?}");
    let here = place.command().args(["--driver", "true"]).output().expect("tare runs");
    assert!(text(&here.stderr).contains("name another folder"), "{}", text(&here.stderr));
    place.wait_until_nothing_is_left();
}

#[test]
fn load_comes_from_another_network() {
    let Some(network) = Network::new(2) else { return };
    let driver = format!("prefix = \"ip netns exec {}\"\naddress = \"{}\"", network.name, network.ours);
    driven_from(&network, &driver, &|| sysbenches_in(&network));
}

/// How many sysbench run in a network.
fn sysbenches_in(network: &Network) -> usize {
    let pids = Command::new("ip").args(["netns", "pids", &network.name]).output().expect("ip runs");
    let name = |pid: &&str| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    text(&pids.stdout).lines().filter(|pid| name(pid).trim() == "sysbench").count()
}

/// sshd in another network, for a key made for it.
struct Ssh {
    daemon: Child,
    folder: PathBuf,
}

impl Ssh {
    fn start(network: &Network, folder: &Path) -> Option<Ssh> {
        let daemon = Path::new("/usr/sbin/sshd");
        if !daemon.exists() || !Path::new("/usr/bin/ssh").exists() {
            println!("skipped: ssh and sshd are not there (apt-get install openssh-client openssh-server)");
            return None;
        }
        fs::create_dir_all("/run/sshd").expect("a folder for sshd");
        let file = |name: &str| folder.join(name).display().to_string();
        for key in ["host", "user"] {
            assert!(run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", &file(key)]), "a key");
        }
        let (host, user) = (file("host"), file("user.pub"));
        let config = format!(
            "Port 22\nListenAddress {}\nHostKey {host}\nAuthorizedKeysFile {user}\nStrictModes no\nUsePAM no\n\
             PermitRootLogin yes\nPidFile none\n",
            network.theirs
        );
        fs::write(folder.join("sshd"), config).expect("a file");
        let key = fs::read_to_string(folder.join("host.pub")).expect("a key");
        fs::write(folder.join("known"), format!("{} {key}", network.theirs)).expect("a file");
        let config = format!(
            "Host load1\nHostName {}\nUser root\nIdentityFile {}\nIdentitiesOnly yes\nUserKnownHostsFile {}\n",
            network.theirs,
            file("user"),
            file("known")
        );
        fs::write(folder.join("ssh"), config).expect("a file");
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &network.name]).arg(daemon).args(["-D", "-e", "-f", &file("sshd")]);
        let daemon = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("sshd runs");
        let ssh = Ssh { daemon, folder: folder.into() };
        let config = ssh.folder.join("ssh").display().to_string();
        let answers = || run("ssh", &["-F", &config, "-o", "BatchMode=yes", "load1", "true"]);
        eventually("sshd answers", LIMIT, answers);
        Some(ssh)
    }
}

impl Drop for Ssh {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

/// Over ssh the driver is nobody's child here: it must end all the same. Which address is ours ssh's daemon
/// says.
#[test]
fn load_comes_from_another_machine_over_ssh() {
    let Some(network) = Network::new(3) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let Some(ssh) = Ssh::start(&network, folder.path()) else { return };
    let driver = format!("prefix = \"ssh -F {} load1\"", ssh.folder.join("ssh").display());
    driven_from(&network, &driver, &|| sysbenches_in(&network));
}

#[test]
fn a_driver_that_cannot_be_is_refused_before_anything_starts() {
    let rates = STUDY.replace("users = [2]", "users = [2]\nrates = [50]");
    let socket = STUDY.replace(
        "program = \"mariadbd\"\noptions = [\"--innodb-buffer-pool-size=64M\", \"--performance-schema=OFF\"]",
        "dsn = \"mysql://root@localhost?socket=/nowhere\"",
    );
    let cases = [
        (STUDY, ["--driver", "no-such-program"], "`no-such-program`"),
        (STUDY, ["--driver", "env"], "say this machine's address"),
        (&rates, ["--driver", "env"], "come at a rate, by this machine's clock"),
        (&socket, ["--driver", "env"], "server `mariadb` at an address"),
    ];
    for (study, arguments, expected) in cases {
        let place = Place::new(study);
        let ended = place.command().args(arguments).output().expect("tare runs");
        let said = text(&ended.stderr);
        assert!(!ended.status.success() && said.contains(expected), "no {expected:?} in: {said}");
        place.wait_until_nothing_is_left();
    }
}
