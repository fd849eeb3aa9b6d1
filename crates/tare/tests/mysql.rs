//! Servers of MySQL's: what the command line says of their programs, and what it does with one that runs.

use std::ffi::CStr;
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use mysql::prelude::Queryable;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tare_host::families::FAMILIES;
use tempfile::TempDir;

/// A folder that the server's account may pass through.
fn folder() -> TempDir {
    let folder = tempfile::Builder::new().prefix("t").tempdir().expect("a folder");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("permissions");
    folder
}

fn tare(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tare"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn output(arguments: &[&str]) -> Output {
    tare(arguments).output().expect("tare runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A file of MySQL 9, if it is there.
fn of_mysql(path: &str) -> Option<PathBuf> {
    let host = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.hosts/mysql-9").join(path);
    let found = host.canonicalize().ok();
    if found.is_none() {
        println!("skipped: no MySQL 9 here; scripts/hosts.sh mysql brings one");
    }
    found
}

/// Compiles C code with these arguments of the compiler's.
fn compiled(folder: &TempDir, name: &str, source: &str, arguments: &[&str]) -> PathBuf {
    let (file, result) = (folder.path().join(format!("{name}.c")), folder.path().join(name));
    fs::write(&file, source).expect("file");
    let mut compiler = Command::new("cc");
    compiler.args(arguments).arg("-o").args([&result, &file]);
    assert!(compiler.status().expect("a C compiler, which `make setup` installs").success());
    result
}

/// C code that exports the functions of all families, calls each twice but `uncalled`, and holds the address
/// of each. A function whose name has `absent` is not there.
fn server(version: &str, uncalled: &str, absent: &str) -> String {
    let names =
        FAMILIES.iter().flat_map(|family| family.functions.iter().copied()).map(CStr::to_string_lossy);
    let mut source = format!("const char creator[] = \"MySQL {version}\";\n");
    source += "void begin(void) __asm__(\"_Z29initialize_performance_schemaP16PFS_global_param\");\nvoid begin(void) {}\n";
    let (mut calls, mut table) = (String::new(), String::new());
    for (at, name) in names.filter(|name| absent.is_empty() || !name.contains(absent)).enumerate() {
        writeln!(source, "void f{at}(void) __asm__(\"{name}\");\nvoid f{at}(void) {{}}").expect("text");
        if uncalled.is_empty() || !name.contains(uncalled) {
            write!(calls, "f{at}(); f{at}(); ").expect("text");
        }
        write!(table, "f{at}, ").expect("text");
    }
    source + &format!("void (*table[])(void) = {{ {table} }};\nint main(void) {{ {calls} return 0; }}\n")
}

fn probed(program: &Path) -> (Option<i32>, Value) {
    let probed = output(&["probe", program.to_str().expect("UTF-8"), "--format", "json"]);
    let report = serde_json::from_slice(&probed.stdout);
    (probed.status.code(), report.unwrap_or_else(|_| panic!("no JSON: {}", text(&probed.stderr))))
}

/// The families that stay with the server, and why.
fn that_stay(report: &Value) -> Vec<String> {
    let families = report["families"].as_array().expect("families").iter();
    let stay =
        families.filter_map(|it| Some(format!("{}: {}", it["family"].as_str()?, it["hindrance"].as_str()?)));
    stay.collect()
}

#[test]
fn a_family_whose_functions_nobody_calls_by_name_stays_with_the_server() {
    let folder = folder();
    // Direct calls; calls by stubs; calls by slots of addresses.
    for (name, how) in [
        ("direct", &["-rdynamic"][..]),
        ("by-stub", &["-shared", "-fPIC", "-fplt"]),
        ("by-slot", &["-shared", "-fPIC", "-fno-plt"]),
    ] {
        let (status, report) = probed(&compiled(&folder, name, &server("9.7.4", "", ""), how));
        // Its functions do nothing, so no layout is found in them.
        assert_eq!(
            (status, &report["product"], &report["version"]),
            (Some(1), &"MySQL".into(), &"9.7.4".into())
        );
        assert_eq!(that_stay(&report), Vec::<String>::new(), "{name}");
        for function in
            report["families"].as_array().expect("families").iter().flat_map(|it| it["functions"].as_array())
        {
            for function in function {
                assert_eq!(function["calls"], 2, "{name}: {function}");
                assert!(function["in_tables"].as_u64() >= Some(1), "{name}: {function}");
            }
        }
        let program = compiled(&folder, name, &server("9.7.4", "pfs_end_stage", "pfs_end_idle"), how);
        let (status, report) = probed(&program);
        let expected = [
            "idle: the server does not export pfs_end_idle_wait_v1",
            "stage: nobody in the server calls pfs_end_stage_v1 by name, so link-time optimisation has made it part of its callers",
        ];
        assert_eq!((status, that_stay(&report)), (Some(1), expected.map(str::to_owned).into()), "{name}");
        let said = text(&output(&["probe", program.to_str().expect("UTF-8")]).stdout);
        assert!(said.contains("it can take 11 of 13 families of events"), "{said}");
        assert!(said.contains("stage: stays with MySQL's own Performance Schema: nobody"), "{said}");
    }
}

#[test]
fn a_build_of_another_layout_or_without_the_functions_is_not_supported() {
    let folder = folder();
    let (status, report) = probed(&compiled(&folder, "layout", &server("8.0.46", "", ""), &["-rdynamic"]));
    let said = report["hindrances"][0].as_str().expect("a hindrance");
    assert!(status == Some(1) && said.contains("docs/reference/mysql.md says which builds"), "{report}");
    let (status, report) = probed(&compiled(&folder, "bare", &server("9.7.4", "pfs_", ""), &["-rdynamic"]));
    let said = report["hindrances"].as_array().and_then(|all| all.last()?.as_str()).expect("a hindrance");
    assert!(status == Some(1) && said.contains("no family of events"), "{report}");
    // A client has the version, too.
    let client = "const char version[] = \"MySQL 9.7.4\"; int main(void) { return 0; }";
    let (status, report) = probed(&compiled(&folder, "client", client, &["-rdynamic"]));
    assert!(status == Some(1) && report["product"].is_null(), "{report}");
    let said = report["hindrances"][0].as_str().expect("a hindrance");
    assert!(said.contains("no server of MariaDB or MySQL"), "{said}");
}

#[test]
fn all_families_of_a_build_that_inlines_none_can_be_taken() {
    let Some(program) = of_mysql("root/usr/sbin/mysqld") else { return };
    let (status, report) = probed(&program);
    assert_eq!((status, &report["product"]), (Some(0), &"MySQL".into()), "{report}");
    assert_eq!(that_stay(&report), Vec::<String>::new());
    assert_eq!(report["families"].as_array().map(Vec::len), Some(FAMILIES.len()));
}

/// A stand-in for the provider: it only says that it is there, as the provider does.
fn stand_in(folder: &TempDir, line: &str) -> PathBuf {
    let source = format!(
        "#include <unistd.h>\nstatic const char line[] = \"2026-01-31T07:05:09.000042Z 0 [Note] [MY-000000] [Server] tare: {line}\\n\";\n\
         __attribute__((constructor)) static void begin(void) {{ if (write(2, line, sizeof line - 1)) {{}} }}\n"
    );
    let built = compiled(folder, "libtare_mysql.so", &source, &["-shared", "-fPIC"]);
    fs::set_permissions(&built, Permissions::from_mode(0o755)).expect("permissions");
    built
}

/// A running `tare`, which is stopped when the test fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.interrupt();
        let _ended = self.0.wait();
    }
}

impl Running {
    fn interrupt(&self) {
        let pid = i32::try_from(self.0.id()).expect("a pid");
        let _gone = kill(Pid::from_raw(pid), Signal::SIGINT);
    }
}

/// Reads what a running `tare` prints until a line begins with `mark`; returns all of it.
fn said_until(child: &mut Child, mark: &str) -> String {
    let mut said = String::new();
    for line in BufReader::new(child.stdout.as_mut().expect("piped")).lines().map_while(Result::ok) {
        said += &(line.clone() + "\n");
        if line.trim_start().starts_with(mark) {
            return said;
        }
    }
    panic!("it ended without a line {mark:?}: {said}");
}

#[test]
fn a_server_that_runs_with_tare_is_told_from_one_that_tare_left_alone() {
    let Some(program) = of_mysql("bin/mysqld") else { return };
    let program = program.to_str().expect("UTF-8");
    for (line, active) in [
        ("0.1.0 (experimental) counts waits", true),
        ("does nothing, the server runs without it: the server exports no x", false),
    ] {
        let folder = folder();
        let provider = stand_in(&folder, line);
        let provider = provider.to_str().expect("UTF-8");
        let data = folder.path().join("data");
        let datadir = data.to_str().expect("UTF-8");
        let arguments = ["run", "--mariadbd", program, "--provider", provider, "--datadir", datadir];
        let mut running = Running(tare(&arguments).spawn().expect("tare runs"));
        let said = said_until(&mut running.0, "Ctrl-C");
        assert!(said.contains("MySQL 9") && said.contains(&format!("tare       {line}")), "{said}");
        let socket =
            said.lines().find_map(|line| line.trim().strip_prefix("socket")).expect("a socket").trim();
        let options = mysql::OptsBuilder::new().socket(Some(socket)).user(Some("root")).prefer_socket(false);
        let mut client = mysql::Conn::new(options).expect("the server answers");
        let on: Option<u8> = client.query_first("SELECT @@performance_schema").expect("an answer");
        assert_eq!(on, Some(1));

        let status = output(&["status", "--datadir", datadir]);
        let expected = if active {
            "tare is active: it is loaded into"
        } else {
            "tare is not active: it is loaded into"
        };
        assert!(
            text(&status.stdout).starts_with(expected),
            "{}{}",
            text(&status.stdout),
            text(&status.stderr)
        );
        assert_eq!(status.status.success(), active);
        let status = output(&["status", "--dsn", &format!("mysql://root@localhost?socket={socket}")]);
        assert!(
            text(&status.stdout).contains("is MySQL's"),
            "{}{}",
            text(&status.stdout),
            text(&status.stderr)
        );

        let doctor = output(&["doctor", "--socket", socket, "--format", "json"]);
        let report: Value =
            serde_json::from_slice(&doctor.stdout).unwrap_or_else(|_| panic!("{}", text(&doctor.stderr)));
        let server = &report["servers"][0];
        assert_eq!(server["active"], active, "{report}");
        assert_eq!(server["does"] == line, active, "{report}");
        let said = text(&output(&["doctor", "--socket", socket]).stdout);
        assert!(!said.contains("complete") && said.contains(line), "{said}");
        let found = server["findings"].as_array().expect("findings");
        let log = found.iter().find(|it| it["check"] == "log").and_then(|it| it["what"].as_str());
        assert_eq!(log.is_some_and(|what| what.ends_with(line)), !active, "{report}");

        running.interrupt();
        assert!(running.0.wait().expect("it ends").success());
    }
}

/// A machine below a folder: a unit, a server's program, the C library, this program and both providers.
/// `None`: there is no MySQL 9 here.
fn machine(options: &str) -> Option<TempDir> {
    let program = of_mysql("root/usr/sbin/mysqld")?;
    let root = folder();
    let write = |path: &str, text: &[u8]| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        fs::write(path, text).expect("a file");
    };
    write("usr/sbin/mysqld", &fs::read(program).expect("the program"));
    write("lib/systemd/system/mysql.service", b"[Service]\nExecStart=/usr/sbin/mysqld\n");
    write("etc/mysql/my.cnf", b"!includedir /etc/mysql/conf.d\n");
    write("etc/mysql/conf.d/own.cnf", options.as_bytes());
    write("var/lib/mysql/ibdata1", b"");
    write("usr/bin/tare", b"");
    let maps = fs::read_to_string("/proc/self/maps").expect("maps");
    let libc = maps
        .lines()
        .find_map(|line| line.split_whitespace().last().filter(|path| path.ends_with("/libc.so.6")));
    write("lib/x86_64-linux-gnu/libc.so.6", &fs::read(libc.expect("a C library")).expect("it"));
    let built = compiled(&root, "provider", "int nothing;", &["-shared", "-fPIC"]);
    for name in ["libtare_mysql.so", "libtare_mariadb.so"] {
        write(&format!("usr/lib/tare/{name}"), &fs::read(&built).expect("it"));
    }
    Some(root)
}

/// Runs `tare` on the machine below a folder; returns its exit status and what it says of the first server.
fn at(root: &TempDir, arguments: &[&str]) -> (Option<i32>, Value) {
    let ran =
        output(&[arguments, &["--root", root.path().to_str().expect("UTF-8"), "--format", "json"]].concat());
    let mut report: Value =
        serde_json::from_slice(&ran.stdout).unwrap_or_else(|_| panic!("{}", text(&ran.stderr)));
    (ran.status.code(), report["servers"][0].take())
}

const DROP_IN: &str = "etc/systemd/system/mysql.service.d/zz-tare.conf";
const OPTIONS: &str = "etc/mysql/conf.d/90-tare.cnf";

#[test]
fn install_makes_a_unit_of_mysqls_load_the_provider_for_mysql_and_uninstall_takes_it_away() {
    let Some(root) = machine("") else { return };
    let provider = root.path().join("usr/lib/tare/libtare_mysql.so");
    let provider = provider.to_str().expect("UTF-8");
    let said = text(&output(&["doctor", "--root", root.path().to_str().expect("UTF-8")]).stdout);
    assert!(said.contains("mysql.service (9.7.4): tare is not active"), "{said}");
    assert!(said.contains("does not name libtare_mysql.so. To do: tare install"), "{said}");

    let (status, server) = at(&root, &["install", "--provider", provider]);
    assert_eq!(
        (status, &server["server"], &server["state"]),
        (Some(0), &"mysql.service".into(), &"changed".into()),
        "{server}"
    );
    let read = |path: &str| {
        fs::read_to_string(root.path().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    assert!(read(DROP_IN).contains("TARE_PRELOAD=/usr/lib/tare/libtare_mysql.so\n"), "{}", read(DROP_IN));
    let options = read(OPTIONS);
    assert!(options.contains("\n[tare]\n") && !options.contains("plugin-load"), "{options}");
    let (_, server) = at(&root, &["doctor"]);
    let checks: Vec<&str> = server["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .filter_map(|it| it["check"].as_str())
        .collect();
    assert_eq!(checks, ["process"], "it does not run, and nothing is wrong: {server}");

    let (status, server) = at(&root, &["uninstall"]);
    assert_eq!((status, &server["state"]), (Some(0), &"changed".into()), "{server}");
    assert!(!root.path().join(DROP_IN).exists() && !root.path().join(OPTIONS).exists());
}

#[test]
fn install_names_what_is_in_the_way_on_a_server_of_mysqls() {
    for (options, provider, check, word) in [
        ("[mysqld]\nperformance_schema=OFF\n", "libtare_mysql.so", "performance-schema", "works inside it"),
        ("[tare]\nlevel=sometimes\n", "libtare_mysql.so", "options", "level"),
        ("[tare]\nenabled=OFF\n", "libtare_mysql.so", "options", "switched off"),
        ("", "libtare_mariadb.so", "provider", "is for MariaDB's servers"),
    ] {
        let Some(root) = machine(options) else { return };
        let provider = root.path().join("usr/lib/tare").join(provider);
        let (status, server) = at(&root, &["install", "--provider", provider.to_str().expect("UTF-8")]);
        assert_eq!((status, &server["state"]), (Some(1), &"refused".into()), "{server}");
        assert_eq!(server["changes"], serde_json::json!([]), "{server}");
        let finding = &server["findings"][0];
        let what = finding["what"].as_str().expect("a finding");
        assert!(finding["check"] == check && what.contains(word), "{server}");
    }
}
