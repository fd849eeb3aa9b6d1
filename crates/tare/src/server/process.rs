//! Running servers, as `/proc` shows them.
//!
//! Arguments, environment, mapped files and sockets are read here and not by the crate `procfs`, which
//! refuses or cuts what is not UTF-8 or has blanks, and does not tell sockets that listen: a diagnosis must
//! not fail because of a name.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::Uid;
use tare_host::options::Root;

use super::{PRELOAD, TRIED};
use crate::provider::FILES;

/// Names of a running server's program.
const PROGRAMS: [&str; 2] = ["mariadbd", "mysqld"];
/// Options of the dynamic loader that are followed by a value.
const LOADER_OPTIONS: [&str; 7] = [
    "--library-path",
    "--glibc-hwcaps-prepend",
    "--glibc-hwcaps-mask",
    "--inhibit-rpath",
    "--audit",
    "--preload",
    "--argv0",
];

/// A process.
#[derive(Clone, Debug)]
pub(crate) struct ServerProcess {
    pub(crate) pid: u32,
    /// The program and its arguments, without the loader if that started it.
    pub(crate) arguments: Vec<OsString>,
    /// File of the program if it was started through the loader, which is `exe` then.
    loaded: Option<PathBuf>,
    /// Environment at its start, as `NAME=VALUE`.
    pub(crate) environment: Vec<OsString>,
    /// Paths of the files mapped as code. The loader leaves a part of a file that it may not execute.
    pub(crate) mapped: Vec<String>,
    /// Mapping of tare's code: addresses as in `/proc/PID/map_files`, and the file's inode.
    provider: Option<(String, u64)>,
    /// Working directory: a server's data directory.
    pub(crate) folder: Option<PathBuf>,
    /// File of its standard error: a server's error log.
    pub(crate) log: Option<PathBuf>,
    /// Account it runs as.
    pub(crate) user: u32,
    /// Service of the system that it belongs to.
    pub(crate) unit: Option<String>,
    /// Profile of AppArmor or label of SELinux that confines it.
    pub(crate) confinement: Option<String>,
}

impl ServerProcess {
    /// Reads a process.
    ///
    /// # Errors
    /// When there is none, or it may not be read.
    pub(crate) fn look(pid: u32) -> io::Result<ServerProcess> {
        let text = |name: &str| {
            Ok::<_, io::Error>(String::from_utf8_lossy(&fs::read(place(pid, name))?).into_owned())
        };
        let link = |name: &str| fs::read_link(place(pid, name)).ok();
        let maps = text("maps")?;
        let provider = maps.lines().find(|line| mapped_file(line).is_some_and(|path| is_provider(&path)));
        let provider = provider.and_then(|line| {
            let mut columns = line.split_whitespace();
            Some((columns.next()?.to_owned(), columns.nth(3)?.parse().ok()?))
        });
        let mut mapped: Vec<String> = maps.lines().filter_map(mapped_file).collect();
        mapped.sort();
        mapped.dedup();
        let mut arguments = parts(fs::read(place(pid, "cmdline"))?);
        let loaded = link("exe").filter(|exe| is_loader(exe)).and_then(|_| {
            arguments.drain(..program_after_loader(&arguments));
            let name = Path::new(arguments.first()?).file_name()?;
            mapped.iter().map(PathBuf::from).find(|path| path.file_name() == Some(name))
        });
        let of_first = fs::read_to_string(place(1, "cgroup")).unwrap_or_default();
        let unit = system_unit(&text("cgroup").unwrap_or_default(), &of_first);
        let confinement = text("attr/current").unwrap_or_default();
        let confinement = confinement.trim_end_matches(['\0', '\n']);
        Ok(ServerProcess {
            pid,
            arguments,
            loaded,
            environment: parts(fs::read(place(pid, "environ"))?),
            mapped,
            provider,
            folder: link("cwd"),
            log: link("fd/2").filter(|path| path.is_absolute() && self::root(pid).at(path).is_file()),
            user: effective_user(&text("status")?).ok_or(ErrorKind::InvalidData)?,
            unit: unit.filter(|_| is_at_home(pid)),
            confinement: (!["", "unconfined"].contains(&confinement)).then(|| confinement.to_owned()),
        })
    }

    /// Returns every running server that is visible from here.
    pub(crate) fn all() -> Vec<u32> {
        let mut pids: Vec<u32> = tare_server::process::all().filter(|pid| is_server(*pid)).collect();
        pids.sort_unstable();
        pids
    }

    /// Returns the process that listens on a socket: the server, even if another process, such as systemd,
    /// has opened it for the server.
    pub(crate) fn listening(socket: &Path) -> io::Result<u32> {
        match tare_connect::listener(socket) {
            Ok(pid) if is_server(pid) => Ok(pid),
            Err(error) if error.kind() != ErrorKind::Unsupported => Err(error),
            opener => {
                let sockets = listening_sockets(socket);
                ServerProcess::all()
                    .into_iter()
                    .find(|server| has_socket(*server, &sockets))
                    .map_or(opener, Ok)
            }
        }
    }

    /// Returns a variable of its environment.
    pub(crate) fn variable(&self, name: &str) -> Option<OsString> {
        let of_name = |variable: &OsString| {
            let value = variable.as_bytes().strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            Some(OsString::from_vec(value.to_vec()))
        };
        self.environment.iter().find_map(of_name)
    }

    /// Returns what it was to preload, whether or not the trial succeeded.
    pub(crate) fn preload(&self) -> Option<OsString> {
        self.variable(TRIED).or_else(|| self.variable(PRELOAD))
    }

    /// Returns the path of tare's object in its memory, with [`DELETED`] if the file is gone.
    pub(crate) fn provider(&self) -> Option<&str> {
        self.mapped.iter().map(String::as_str).find(|path| is_provider(path))
    }

    /// Returns whether tare's object in its memory differs from the installed file; false if it has none.
    pub(crate) fn is_outdated(&self, installed: &Path) -> bool {
        let number = fs::metadata(installed).ok().map(|file| file.ino());
        self.provider.as_ref().is_some_and(|(_, mapped)| number.is_some_and(|number| number != *mapped))
    }

    /// Opens the file of tare's object in its memory, even if it has no name any more. Only root may. Refused
    /// for a container, whose root is not root here.
    pub(crate) fn open_provider(&self) -> io::Result<File> {
        let provider = self.provider.as_ref().filter(|_| is_at_home(self.pid));
        let (addresses, _) = provider.ok_or(ErrorKind::NotFound)?;
        File::open(place(self.pid, "map_files").join(addresses))
    }

    /// Returns its root directory.
    pub(crate) fn root(&self) -> Root {
        root(self.pid)
    }

    /// Returns its program's file, even if it was replaced since.
    pub(crate) fn program(&self) -> PathBuf {
        self.loaded.as_ref().map_or_else(|| place(self.pid, "exe"), |path| self.root().at(path))
    }
}

/// Returns whether a program is glibc's loader: `ld-linux-x86-64.so.2`, or `ld-2.31.so` where that is a link.
fn is_loader(program: &Path) -> bool {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("ld-") && name.contains(".so")
}

/// Returns the index after the loader's own arguments.
fn program_after_loader(arguments: &[OsString]) -> usize {
    let mut at = 1;
    while let Some(option) = arguments.get(at).filter(|argument| argument.as_bytes().starts_with(b"--")) {
        at += if LOADER_OPTIONS.iter().any(|known| option == known) { 2 } else { 1 };
    }
    at.min(arguments.len())
}

fn is_server(pid: u32) -> bool {
    let name = fs::read_to_string(place(pid, "comm")).unwrap_or_default();
    PROGRAMS.contains(&name.trim_end()) || is_server_in_loader(pid)
}

fn is_server_in_loader(pid: u32) -> bool {
    if !fs::read_link(place(pid, "exe")).is_ok_and(|program| is_loader(&program)) {
        return false;
    }
    let arguments = parts(fs::read(place(pid, "cmdline")).unwrap_or_default());
    let program = arguments.get(program_after_loader(&arguments)).map(Path::new);
    program.and_then(Path::file_name).is_some_and(|name| PROGRAMS.iter().any(|known| name == *known))
}

/// Returns the targets in `/proc/PID/fd` of the listening sockets at a path.
fn listening_sockets(socket: &Path) -> Vec<PathBuf> {
    /// The flags of a listening socket in a line.
    const LISTENS: &str = "00010000";
    let wanted = fs::canonicalize(socket);
    let table = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let listed = table.lines().filter_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let (&flags, &inode) = (columns.get(3)?, columns.get(6)?);
        let path = fs::canonicalize(&line[line.find('/')?..]);
        let is = flags == LISTENS && path.ok().as_ref() == wanted.as_ref().ok();
        is.then(|| format!("socket:[{inode}]").into())
    });
    listed.collect()
}

fn has_socket(pid: u32, sockets: &[PathBuf]) -> bool {
    let files = fs::read_dir(place(pid, "fd")).into_iter().flatten().flatten();
    files.filter_map(|file| fs::read_link(file.path()).ok()).any(|file| sockets.contains(&file))
}

/// Returns the service of the system that a process is in, by its control group; `first` is the group of
/// process 1, next to which the system has its units. Units of an account's own systemd, or of a container,
/// are below a unit of the system and do not count, whatever their name.
fn system_unit(groups: &str, first: &str) -> Option<String> {
    let first = systemd_group(first).unwrap_or_default();
    let system = first.strip_suffix("/init.scope").unwrap_or(first).trim_end_matches('/');
    let mut parts = systemd_group(groups)?.strip_prefix(system)?.strip_prefix('/')?.split('/');
    let unit = parts.next_back().filter(|unit| unit.ends_with(".service"))?;
    parts.all(|part| part.ends_with(".slice") && part != "user.slice").then(|| unit.to_owned())
}

/// Returns the group in systemd's own hierarchy: the one of that name, or the only one of cgroups v2.
fn systemd_group(groups: &str) -> Option<&str> {
    let of = |kind: &str| groups.lines().find_map(|line| line.split_once(':')?.1.strip_prefix(kind));
    of("name=systemd:").or_else(|| of(":"))
}

/// Returns whether a process has this one's root and pid namespace, unlike those of containers. If that is
/// unknown, root assumes that it has not; for other accounts it does not matter.
fn is_at_home(pid: u32) -> bool {
    let of = |path: PathBuf| fs::metadata(path).map(|it| (it.dev(), it.ino()));
    let same = |name: &str| match (of(place(pid, name)), of(Path::new("/proc/self").join(name))) {
        (Ok(theirs), Ok(ours)) => theirs == ours,
        _ => !Uid::effective().is_root(),
    };
    ["root", "ns/pid"].into_iter().all(same)
}

/// Returns the account a process runs as. The owner of its folder in `/proc` is root if it has changed its
/// account itself.
fn effective_user(status: &str) -> Option<u32> {
    status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().nth(1)?.parse().ok())
}

/// The kernel's suffix of a deleted file's name.
pub(crate) const DELETED: &str = " (deleted)";

/// Returns whether a mapped file is tare's object, which may have been renamed or deleted since:
/// `libtare_mariadb.so (deleted)`.
fn is_provider(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| FILES.iter().any(|file| name.starts_with(file)))
}

fn place(pid: u32, name: &str) -> PathBuf {
    Path::new("/proc").join(pid.to_string()).join(name)
}

/// Returns the root of a process; `/` if it is this process's own, so that paths look familiar.
fn root(pid: u32) -> Root {
    let of = |path: PathBuf| fs::metadata(path).map(|it| (it.dev(), it.ino())).ok();
    let theirs = place(pid, "root");
    if of(theirs.clone()).is_none_or(|it| Some(it) == of("/".into())) {
        Root::default()
    } else {
        Root::new(theirs)
    }
}

fn mapped_file(line: &str) -> Option<String> {
    let rights = line.split(' ').nth(1)?;
    line.find('/').filter(|_| rights.contains('x')).map(|at| line[at..].to_owned())
}

fn parts(bytes: Vec<u8>) -> Vec<OsString> {
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
    if bytes.is_empty() {
        return vec![];
    }
    bytes.split(|byte| *byte == 0).map(|part| OsString::from_vec(part.to_vec())).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::process::Stdio;
    use std::time::Duration;

    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    use super::*;

    #[test]
    fn this_process_is_seen() {
        let process = ServerProcess::look(std::process::id()).expect("it runs");
        let arguments: Vec<OsString> = std::env::args_os().collect();
        assert_eq!(process.arguments, arguments);
        assert_eq!(process.variable("PATH"), std::env::var_os("PATH"));
        assert_eq!(process.folder, std::env::current_dir().ok());
        assert!(process.mapped.iter().any(|path| path.contains("libc.so")), "{:?}", process.mapped);
        assert!(process.root().is_own());
    }

    #[test]
    fn only_a_service_of_the_system_s_is_the_unit_of_a_process() {
        let of = |group: &str| system_unit(&format!("0::{group}\n"), "0::/init.scope\n");
        for group in ["/system.slice", "/system.slice/system-mariadb.slice", "/database.slice", ""] {
            assert_eq!(
                of(&format!("{group}/mariadb.service")).as_deref(),
                Some("mariadb.service"),
                "{group}"
            );
        }
        for above in [
            "/user.slice/user-1000.slice/user@1000.service/app.slice",
            "/user.slice",
            "/machine.slice/systemd-nspawn@x.service/payload/system.slice",
            "/machine.slice/machine-x.scope/system.slice",
            "/lxc.payload.x/system.slice",
            "/docker/0123456789ab",
            "/../system.slice",
        ] {
            assert_eq!(of(&format!("{above}/mariadb.service")), None, "{above}");
        }
        assert_eq!(of("/system.slice/mariadb.service/payload"), None);
        assert_eq!((of("/"), system_unit("", ""), system_unit("0::nothing", "")), (None, None, None));
    }

    #[test]
    fn a_system_s_units_lie_beside_its_first_process() {
        let inside = "0::/lxc.payload.x/system.slice/mariadb.service\n";
        let unit = Some("mariadb.service".to_owned());
        assert_eq!(system_unit(inside, "0::/lxc.payload.x/init.scope\n"), unit);
        assert_eq!(system_unit(inside, "0::/lxc.payload/init.scope\n"), None);
        assert_eq!(system_unit("0::/system.slice/mariadb.service\n", "0::/lxc.payload.x/init.scope\n"), None);
        // In version 1 only systemd's own hierarchy counts, with an empty one of version 2 or none.
        let first = "9:name=systemd:/init.scope\n4:memory:/\n0::/\n";
        assert_eq!(
            system_unit("4:memory:/\n9:name=systemd:/system.slice/mariadb.service\n0::/\n", first),
            unit
        );
        assert_eq!(system_unit("9:name=systemd:/\n4:memory:/system.slice/mariadb.service\n", first), None);
    }

    /// Time limit for a process to get its name, or a child.
    const LIMIT: Duration = Duration::from_secs(10);

    /// Returns the file opened for a process whose program stands for the provider.
    fn opened(pid: u32) -> Option<File> {
        let maps = fs::read_to_string(place(pid, "maps")).ok()?;
        let addresses = maps.lines().find(|line| mapped_file(line).is_some())?.split(' ').next()?;
        let process =
            ServerProcess { provider: Some((addresses.to_owned(), 0)), ..ServerProcess::look(pid).ok()? };
        process.open_provider().ok()
    }

    #[test]
    fn a_process_is_at_home_where_this_one_is() {
        assert!(is_at_home(std::process::id()));
        assert_eq!(is_at_home(u32::MAX), !Uid::effective().is_root(), "there is none");
        assert_eq!(effective_user("Name:\tx\nUid:\t0\t27\t0\t27\n"), Some(27));
        let mut outer = std::process::Command::new("unshare");
        let Ok(mut outer) = outer.args(["--pid", "--fork", "sleep", "60"]).stderr(Stdio::null()).spawn()
        else {
            println!("skipped: there is no unshare");
            return;
        };
        let children = format!("/proc/{0}/task/{0}/children", outer.id());
        let inner: Option<u32> = tare_server::poll(LIMIT, || {
            let inner = fs::read_to_string(&children).ok().and_then(|pid| pid.trim().parse().ok());
            let is_over = outer.try_wait().expect("its state").is_some();
            (inner.is_some() || is_over).then_some(inner)
        })
        .flatten();
        let at_home = inner.map(is_at_home);
        let opened = inner.and_then(opened);
        let pid = inner.unwrap_or(outer.id()).try_into().expect("a number");
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        outer.wait().expect("it ends");
        match at_home {
            Some(at_home) => assert!(!at_home && opened.is_none(), "it has process numbers of its own"),
            None => println!("skipped: only root makes namespaces"),
        }
    }

    #[test]
    fn the_loader_s_own_arguments_are_told_from_the_program_s() {
        let at = |line: &str| {
            let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            program_after_loader(&arguments)
        };
        assert_eq!(at("ld.so /usr/sbin/mariadbd --user=mysql"), 1);
        assert_eq!(at("ld.so --library-path /a:/b --argv0 x --inhibit-cache mariadbd --argv0 y"), 6);
        assert_eq!(at("ld.so --preload"), 2);
        assert!(
            is_loader(Path::new("/usr/lib64/ld-linux-x86-64.so.2"))
                && is_loader(Path::new("/lib/ld-2.31.so"))
        );
        assert!(!is_loader(Path::new("/usr/bin/ld")) && !is_loader(Path::new("/usr/sbin/mariadbd")));
    }

    #[test]
    fn who_listens_is_known_by_the_socket() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("s");
        assert!(ServerProcess::listening(&path).is_err());
        let _listener = UnixListener::bind(&path).expect("bind");
        assert_eq!(ServerProcess::listening(&path).expect("a process"), std::process::id());
    }

    #[test]
    fn a_server_is_known_by_the_socket_that_another_process_has_opened_for_it() {
        let folder = tempfile::tempdir().expect("folder");
        let (path, program) = (folder.path().join("s"), folder.path().join("mariadbd"));
        let listener = UnixListener::bind(&path).expect("bind");
        std::os::unix::fs::symlink("/bin/sleep", &program).expect("a program of that name");
        let input: std::os::fd::OwnedFd = listener.try_clone().expect("a socket").into();
        let mut server =
            std::process::Command::new(&program).arg("60").stdin(input).spawn().expect("it starts");
        // `spawn` returns when the child has memory of its own, which is shortly before the kernel gives it
        // its name.
        tare_server::poll(LIMIT, || is_server(server.id()));
        let found = ServerProcess::listening(&path);
        server.kill().and_then(|()| server.wait()).expect("it ends");
        assert_eq!(found.expect("a process"), server.id());
        assert_eq!(ServerProcess::listening(&path).expect("a process"), std::process::id());
    }
}
