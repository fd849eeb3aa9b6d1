//! The process at the other end of a TCP connection, if it is on this machine.
//!
//! The kernel lists connections (`/proc/net/tcp`) by both addresses, with the inode of the socket; the
//! process has that among its open files. Processes in other network namespaces, or whose files this account
//! may not see, are not found.

use std::io::Read;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use procfs::net::TcpNetEntry;
use procfs::process::{FDTarget, Process};

/// Time limit for a server's greeting.
const PATIENCE: Duration = Duration::from_secs(5);
/// Names of server programs. A container's proxy, which also accepts connections, is none.
const SERVERS: [&str; 2] = ["mariadbd", "mysqld"];

/// Returns the process of the server at an address.
#[must_use]
pub fn of_address(host: &str, port: u16) -> Option<u32> {
    let address = (host, port).to_socket_addrs().ok()?.next()?;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    // Only a process that greets has accepted the connection; before that its socket belongs to none.
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.read_exact(&mut [0]).ok()?;
    let inode = inode_of(stream.peer_addr().ok()?, stream.local_addr().ok()?)?;
    let mut processes = procfs::process::all_processes().ok()?.flatten();
    let found = processes.find(|process| is_server(process) && has_socket(process, inode))?;
    Some(found.pid().cast_unsigned())
}

fn is_server(process: &Process) -> bool {
    process.stat().is_ok_and(|stat| SERVERS.contains(&stat.comm.as_str()))
}

fn has_socket(process: &Process, inode: u64) -> bool {
    let files = process.fd().into_iter().flatten().flatten();
    files.into_iter().any(|file| matches!(file.target, FDTarget::Socket(socket) if socket == inode))
}

/// Returns the inode of the socket at `local` that is connected to `remote`.
fn inode_of(local: SocketAddr, remote: SocketAddr) -> Option<u64> {
    let lists = [procfs::net::tcp(), procfs::net::tcp6()];
    let mut connections = lists.into_iter().flatten().flatten();
    let found = connections.find(|it: &TcpNetEntry| {
        is_same(it.local_address, local) && is_same(it.remote_address, remote) && it.inode > 0
    });
    found.map(|it| it.inode)
}

/// Returns whether two addresses are the same, one of which may be an IPv4 address written as IPv6.
fn is_same(a: SocketAddr, b: SocketAddr) -> bool {
    a.ip().to_canonical() == b.ip().to_canonical() && a.port() == b.port()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_connection_is_found_by_both_its_ends() {
        let own = Process::myself().expect("this process");
        for place in ["127.0.0.1:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(place) else {
                println!("skipped: this machine has no {place}");
                continue;
            };
            let port = listener.local_addr().expect("an address").port();
            let client = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
            let (server, from) = listener.accept().expect("a connection");
            let here = client.peer_addr().expect("an address");
            let inode = inode_of(here, from).expect("the server's end");
            assert_ne!(Some(inode), inode_of(from, here), "each end has its own");
            assert!(has_socket(&own, inode));
            drop(server);
            assert!(!has_socket(&own, inode), "it is closed");
        }
    }

    #[test]
    fn an_address_may_be_written_as_ipv6() {
        let [plain, mapped, other] = ["127.0.0.1:3306", "[::ffff:127.0.0.1]:3306", "127.0.0.1:3307"]
            .map(|it| it.parse().expect("one"));
        assert!(is_same(plain, mapped) && !is_same(plain, other));
    }
}
