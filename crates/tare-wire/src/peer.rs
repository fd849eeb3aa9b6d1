//! Who is at the other end of a connection: a session of a server, or another program.
//!
//! `/proc` is read here without the crate `procfs`: this runs in the server, where three links and names are
//! no reason for a dependency.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::fs::{AtFlags, CWD, StatxFlags, Uid, statx};

/// The names of a server's program.
const SERVERS: [&str; 2] = ["mariadbd", "mysqld"];
/// The beginning of the name of a dynamic loader, which loads and runs another program.
const LOADER: &str = "ld-linux";
/// The suffix that the kernel adds to the path of a deleted program.
const DELETED: &str = " (deleted)";

/// The kind of process at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A session of a server, which may ask on behalf of an account without a grant. The server is the host
    /// (this process) or another one.
    Inside,
    /// A process of this user or of root that is not a server.
    Outside,
}

/// Returns the kind of the connection's peer; `None` if it may not connect.
pub(crate) fn peer(stream: &UnixStream) -> Option<Peer> {
    // rustix is not used because it takes a process id for nonzero; the id of a process in a PID namespace
    // that is invisible from here is 0.
    let credentials = getsockopt(stream, PeerCredentials).ok()?;
    let process = u32::try_from(credentials.pid()).ok().filter(|process| *process != 0);
    judge(process, Uid::from_raw(credentials.uid()), PeerProgram::of)
}

/// Classifies a process by its id (`None` if it is invisible from here), its user and its program.
fn judge(process: Option<u32>, user: Uid, program: impl Fn(u32) -> PeerProgram) -> Option<Peer> {
    let own = std::process::id();
    if process == Some(own) {
        return Some(Peer::Inside);
    }
    if !may_use(user, rustix::process::geteuid()) {
        return None;
    }
    let is_server = process.is_some_and(|process| program(process).is_server(&program(own)));
    Some(if is_server { Peer::Inside } else { Peer::Outside })
}

fn may_use(peer: Uid, own: Uid) -> bool {
    peer == own || peer.is_root()
}

/// The visible facts of the program a process runs; empty where the system hides them.
#[derive(Debug)]
struct PeerProgram {
    /// The device and inode of its file.
    file: Option<(u64, u64)>,
    /// The names of its file and of the process. For a process that gave up root only the latter is visible.
    names: [Option<String>; 2],
}

impl PeerProgram {
    fn of(process: u32) -> PeerProgram {
        let place = Path::new("/proc").join(process.to_string());
        let exe = place.join("exe");
        // Uses cached attributes: an unresponsive remote file system must not block the accepting thread.
        let file = statx(CWD, &exe, AtFlags::STATX_DONT_SYNC, StatxFlags::INO).ok();
        let file =
            file.map(|it| (u64::from(it.stx_dev_major) << 32 | u64::from(it.stx_dev_minor), it.stx_ino));
        let path = fs::read_link(&exe).ok();
        let name = path.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        let title = fs::read_to_string(place.join("comm")).ok();
        PeerProgram { file, names: [name, title] }
    }

    /// Returns whether the program is a server: this process's own program, or one with a server's name.
    fn is_server(&self, own: &PeerProgram) -> bool {
        let is_known = |name: &String| {
            let name = name.trim_end();
            SERVERS.contains(&name.strip_suffix(DELETED).unwrap_or(name))
        };
        let is_own = self.file.is_some() && self.file == own.file && own.is_itself();
        is_own || self.names.iter().flatten().any(is_known)
    }

    /// Returns whether the process runs this file itself. A loader runs another file, and so does an
    /// emulator, whose process has the other file's name.
    fn is_itself(&self) -> bool {
        let [Some(name), Some(title)] = &self.names else { return false };
        // The kernel truncates the process name.
        !name.starts_with(LOADER) && name.starts_with(title.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixListener;
    use std::process::{Command, Stdio};

    use super::*;

    /// The variable that tells a test's child processes which socket to connect to.
    const SOCKET: &str = "TARE_TEST_SOCKET";

    #[test]
    fn only_the_owner_and_root_are_welcome() {
        let [mysql, nobody] = [106, 65534].map(Uid::from_raw);
        assert!(may_use(mysql, mysql) && may_use(Uid::ROOT, mysql));
        assert!(!may_use(nobody, mysql) && !may_use(mysql, Uid::ROOT));
    }

    /// Creates a program; an empty name stands for one that is not visible.
    fn program(file: Option<(u64, u64)>, names: [&str; 2]) -> PeerProgram {
        PeerProgram { file, names: names.map(|name| (!name.is_empty()).then(|| name.to_owned())) }
    }

    #[test]
    fn a_server_is_known_by_its_file_or_by_a_name() {
        let own = program(Some((1, 7)), ["host", "host\n"]);
        for (peer, is_server) in [
            (program(Some((1, 7)), ["another-name", "x\n"]), true),
            (program(Some((1, 8)), ["mariadbd", "x\n"]), true),
            (program(Some((1, 8)), ["mysqld (deleted)", "x\n"]), true),
            (program(None, ["", "mariadbd\n"]), true),
            (program(Some((2, 7)), ["mariadb", "mariadb\n"]), false),
            (program(Some((1, 8)), ["mysqldump", "mysqld_safe\n"]), false),
            (program(None, ["", ""]), false),
        ] {
            assert_eq!(peer.is_server(&own), is_server, "{peer:?}");
        }
        for runner in [["qemu-x86_64", "mariadbd\n"], ["ld-linux-x86-64.so.2", "ld-linux-x86-64\n"]] {
            let client = program(Some((1, 7)), [runner[0], "tare\n"]);
            assert!(!client.is_server(&program(Some((1, 7)), runner)), "{runner:?} runs both");
        }
        let unseen = program(None, ["", ""]);
        assert!(!unseen.is_server(&unseen), "nothing seen of either is no likeness");
    }

    #[test]
    fn number_user_and_program_say_who_it_is() {
        let own = rustix::process::geteuid();
        let stranger = Uid::from_raw(own.as_raw() + 1);
        let server = |_| program(None, ["mariadbd", ""]);
        let client = |_| program(None, ["mariadb", ""]);
        let another = Some(u32::MAX);
        assert_eq!(judge(Some(std::process::id()), stranger, client), Some(Peer::Inside), "this process");
        assert_eq!(judge(another, own, client), Some(Peer::Outside));
        assert_eq!(judge(another, own, server), Some(Peer::Inside));
        assert_eq!(judge(another, Uid::ROOT, server), Some(Peer::Inside));
        assert_eq!(judge(another, Uid::ROOT, client), Some(Peer::Outside));
        assert_eq!(judge(another, stranger, server), None);
        // Of a process in another namespace only the user is known.
        assert_eq!(judge(None, own, server), Some(Peer::Outside));
        assert_eq!(judge(None, stranger, server), None);
    }

    #[test]
    fn another_process_is_told_by_its_program() {
        if let Some(path) = std::env::var_os(SOCKET) {
            // This is a child of the test below: it stays until it has been inspected.
            UnixStream::connect(path).unwrap().read_to_end(&mut Vec::new()).unwrap();
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let own = std::env::current_exe().unwrap();
        let [client, server] = ["client", "mariadbd"].map(|name| {
            let copy = folder.path().join(name);
            fs::copy(&own, &copy).unwrap();
            copy
        });
        for (program, expected) in [(&own, Peer::Inside), (&client, Peer::Outside), (&server, Peer::Inside)] {
            let mut child = Command::new(program)
                .args(["--exact", "peer::tests::another_process_is_told_by_its_program"])
                .env(SOCKET, &path)
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            let (stream, _) = listener.accept().unwrap();
            assert_eq!(peer(&stream), Some(expected), "{}", program.display());
            drop(stream);
            assert!(child.wait().unwrap().success());
        }
    }
}
