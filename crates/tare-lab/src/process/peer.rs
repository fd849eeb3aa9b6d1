//! The process at the other end of a TCP connection, if it is on this machine.
//!
//! The kernel lists connections (`/proc/net/tcp`) by both addresses, with the inode of the socket; the
//! process has that among its open files. Processes in other network namespaces, or whose files this account
//! may not see, are not found.

use std::fs;
use std::io::Read;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Time limit for a server's greeting.
const PATIENCE: Duration = Duration::from_secs(5);
/// Names of server programs. A container's proxy, which also accepts connections, is none.
const SERVERS: [&str; 2] = ["mariadbd", "mysqld"];

/// Returns the process of the server at an address.
pub(crate) fn of_address(host: &str, port: u16) -> Option<u32> {
    let address = (host, port).to_socket_addrs().ok()?.next()?;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    // Only a process that greets has accepted the connection; before that its socket belongs to none.
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.read_exact(&mut [0]).ok()?;
    let (ours, theirs) = (stream.local_addr().ok()?, stream.peer_addr().ok()?);
    let inode = ["/proc/net/tcp", "/proc/net/tcp6"].iter().find_map(|list| {
        let list = fs::read_to_string(list).ok()?;
        list.lines().skip(1).find_map(|line| inode_of(line, theirs, ours))
    })?;
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|&pid| is_server(pid) && has_socket(pid, inode))
}

fn is_server(pid: u32) -> bool {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    SERVERS.contains(&name.trim())
}

fn has_socket(pid: u32, inode: u64) -> bool {
    let name = format!("socket:[{inode}]");
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files.filter_map(|file| fs::read_link(file.path()).ok()).any(|target| target.as_os_str() == name.as_str())
}

/// Returns the socket's inode in a line of the kernel's list, if the line is a connection from `local` to
/// `remote`.
fn inode_of(line: &str, local: SocketAddr, remote: SocketAddr) -> Option<u64> {
    let mut fields = line.split_whitespace().skip(1);
    let (here, there) = (address_of(fields.next()?)?, address_of(fields.next()?)?);
    let same =
        |a: SocketAddr, b: SocketAddr| a.ip().to_canonical() == b.ip().to_canonical() && a.port() == b.port();
    let inode = fields.nth(6)?.parse().ok().filter(|&inode| inode > 0)?;
    (same(here, local) && same(there, remote)).then_some(inode)
}

/// Parses `0100007F:0CEA`: words of four bytes in the machine's byte order, and the port.
fn address_of(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let words: Option<Vec<[u8; 4]>> = (0..address.len() / 8)
        .map(|i| u32::from_str_radix(&address[i * 8..i * 8 + 8], 16).ok().map(u32::to_ne_bytes))
        .collect();
    let bytes = words?.concat();
    let ip = match bytes.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
        16 => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?),
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_the_kernel_writes_them() {
        assert_eq!(address_of("0100007F:0CEA"), Some("127.0.0.1:3306".parse().expect("an address")));
        let mapped = "0000000000000000FFFF00000100007F:0CEA";
        assert_eq!(address_of(mapped), Some("[::ffff:127.0.0.1]:3306".parse().expect("an address")));
        assert_eq!(address_of("01:0CEA"), None);
    }

    #[test]
    fn a_connection_is_found_by_both_its_ends() {
        let line = "   5: 0100007F:0CEA 0100007F:D431 01 00000000:00000000 02:00000A 00000000   108        0 4711 2 0";
        let (server, client) =
            ("127.0.0.1:3306".parse().expect("an address"), "127.0.0.1:54321".parse().expect("an address"));
        assert_eq!(inode_of(line, server, client), Some(4711));
        assert_eq!(inode_of(line, client, server), None);
        assert_eq!(inode_of(&line.replace("4711", "0"), server, client), None);
    }
}
