//! What must not hurt: garbage, half packets, slow readers, panics, crowds.

mod fixture;

use std::io::Read;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use fixture::*;
use mysql::prelude::Queryable;
use tare_server::eventually;

/// Time limit for the ends of connections.
const LIMIT: Duration = Duration::from_secs(60);

/// A small generator (xorshift), so that a failure repeats.
struct PacketRandom(u64);

impl PacketRandom {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}

/// Waits until all connections are over, which the end of their clients must bring about.
fn wait_until_empty(served: &Served) {
    eventually("the connections are over", LIMIT, || served.endpoint.connections() == 0);
}

fn assert_alive(served: &Served) {
    assert_eq!(rows(&mut served.client(), "SELECT COUNT(*) FROM things").len(), 1);
}

#[test]
fn garbage_ends_its_own_connection_only() {
    let served = served();
    let mut random = PacketRandom(0x9e37_79b9_7f4a_7c15);
    for round in 0..300 {
        let mut stream = served.raw();
        let count = (random.next() % 3000) as usize;
        let mut garbage = random.bytes(count);
        if round % 3 == 0 {
            // Garbage in a well-formed packet, after a proper login.
            packet(&mut stream).unwrap();
            send(&mut stream, &login());
            assert_eq!(packet(&mut stream).unwrap().1[0], 0);
            if let Some(command) = garbage.first_mut() {
                *command %= 32;
            }
            garbage = framed(0, &garbage);
        } else if round % 3 == 1 {
            garbage = framed(1, &garbage);
        }
        send(&mut stream, &garbage);
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
    }
    assert_alive(&served);
    wait_until_empty(&served);
}

#[test]
fn mangled_statements_are_answered() {
    let served = served();
    let mut stream = served.raw();
    packet(&mut stream).unwrap();
    send(&mut stream, &login());
    packet(&mut stream).unwrap();
    let mut random = PacketRandom(42);
    let seeds = [
        "SELECT `NAME`, `ENABLED` FROM `things` WHERE  ( (`AMOUNT` >= 1)  AND  (`NAME` LIKE 'a%') ) OR NOT x IN (1,2)",
        "UPDATE `things` SET `ENABLED` = 'NO' WHERE `NAME` = 'it\\'s' AND `DELTA` IS NULL  LIMIT 1",
        "INSERT INTO `things` (`NAME`) VALUES ('\\0', NULL, -1.5e3, x'ff') , (1)",
        "SHOW FULL COLUMNS FROM things LIKE '%a_'; SET @@a.b = 'x' /* c */ -- d",
        "SELECT @@x, COUNT(*), sum(a.b), t.* FROM a.b AS c ORDER BY 1 DESC LIMIT 1, 2",
    ];
    for _ in 0..3000 {
        let mut sql = seeds[(random.next() % 5) as usize].as_bytes().to_vec();
        for _ in 0..=random.next() % 4 {
            let at = (random.next() as usize) % sql.len();
            match random.next() % 3 {
                0 => sql[at] = random.next() as u8,
                1 if sql.len() > 1 => drop(sql.remove(at)),
                _ => sql.truncate(at.max(1)),
            }
        }
        sql.insert(0, 3);
        send(&mut stream, &framed(0, &sql));
        read_answer(&mut stream).unwrap_or_else(|| panic!("no answer to {}", String::from_utf8_lossy(&sql)));
    }
}

/// Reads OK, an error, or a whole result.
fn read_answer(stream: &mut std::os::unix::net::UnixStream) -> Option<()> {
    let (_, first) = packet(stream)?;
    if matches!(first[0], 0 | 0xff) {
        return Some(());
    }
    let mut ends = 0;
    while ends < 2 {
        let (_, part) = packet(stream)?;
        match part[0] {
            0xfe if part.len() < 9 => ends += 1,
            0xff => return Some(()),
            _ => {}
        }
    }
    Some(())
}

#[test]
fn a_login_cut_at_any_byte_is_dropped_in_time() {
    let served = served_with(|config| config.stall_limit = Duration::from_millis(300));
    let login = login();
    let mut cut: Vec<_> = (0..login.len())
        .map(|end| {
            let mut stream = served.raw();
            packet(&mut stream).unwrap();
            send(&mut stream, &login[..end]);
            stream
        })
        .collect();
    for stream in &mut cut {
        let (_, answer) = packet(stream).unwrap();
        assert_eq!(answer[..3], [0xff, 0x87, 0x04], "1159, timeout");
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    }
    // And cut by closing.
    for end in 0..login.len() {
        let mut stream = served.raw();
        send(&mut stream, &login[..end]);
    }
    assert_alive(&served);
    wait_until_empty(&served);
}

#[test]
fn half_a_command_is_dropped_in_time_but_silence_between_commands_is_not() {
    let served = served_with(|config| config.stall_limit = Duration::from_millis(200));
    // Again if the machine makes a login take longer than that.
    let mut idle = eventually("a client", LIMIT, || served.client_of("root").ok());
    let logged_in = || {
        let mut stream = served.raw();
        packet(&mut stream)?;
        send(&mut stream, &login());
        (packet(&mut stream)?.1[0] == 0).then_some(stream)
    };
    let command = framed(0, b"\x03SELECT 1");
    for end in 1..command.len() {
        let mut stream = eventually("a login", LIMIT, logged_in);
        send(&mut stream, &command[..end]);
        assert_eq!(packet(&mut stream).unwrap().1[..3], [0xff, 0x87, 0x04]);
        assert!(packet(&mut stream).is_none());
    }
    // All that took much longer than the limit.
    idle.ping().unwrap();
}

#[test]
fn a_packet_too_big_is_refused_before_it_is_read() {
    let served = served();
    for header in [[0xff, 0xff, 0xff, 0], [1, 0, 0x10, 0]] {
        let mut stream = served.raw();
        packet(&mut stream).unwrap();
        send(&mut stream, &login());
        packet(&mut stream).unwrap();
        send(&mut stream, &header);
        assert_eq!(packet(&mut stream).unwrap().1[..3], [0xff, 0x81, 0x04], "1153, packet too big");
    }
    // A long statement that is allowed.
    let mut client = served.client();
    let text = "x".repeat(900_000);
    assert_eq!(rows(&mut client, &format!("SELECT '{text}'"))[0][0].as_ref().unwrap().len(), text.len());
}

#[test]
fn slow_readers_hold_up_nobody_else() {
    let served = served();
    let mut slow: Vec<_> = (0..20)
        .map(|_| {
            let mut stream = served.raw();
            packet(&mut stream).unwrap();
            send(&mut stream, &login());
            packet(&mut stream).unwrap();
            send(&mut stream, &framed(0, b"\x03SELECT * FROM big"));
            // Begins to read, and stops.
            packet(&mut stream).unwrap();
            stream
        })
        .collect();
    for _ in 0..100 {
        assert_alive(&served);
    }
    // One of them goes on and gets every row, in order.
    let stream = &mut slow[7];
    for _ in 0..3 {
        packet(stream).unwrap();
    }
    for id in 0..BIG {
        let (_, row) = packet(stream).unwrap();
        let length = usize::from(row[0]);
        assert_eq!(row[1..=length], *id.to_string().as_bytes());
    }
    assert_eq!(packet(stream).unwrap().1[0], 0xfe);
    drop(slow);
    wait_until_empty(&served);
}

#[test]
fn a_reader_that_stops_for_good_is_dropped() {
    let served = served_with(|config| config.stall_limit = Duration::from_millis(200));
    let mut stream = served.raw();
    packet(&mut stream).unwrap();
    send(&mut stream, &login());
    packet(&mut stream).unwrap();
    send(&mut stream, &framed(0, b"\x03SELECT * FROM big"));
    wait_until_empty(&served);
    assert_alive(&served);
}

#[test]
fn a_client_that_leaves_during_a_result_is_forgotten() {
    let served = served();
    for _ in 0..50 {
        let mut stream = served.raw();
        packet(&mut stream).unwrap();
        send(&mut stream, &login());
        packet(&mut stream).unwrap();
        send(&mut stream, &framed(0, b"\x03SELECT * FROM big"));
        packet(&mut stream).unwrap();
    }
    wait_until_empty(&served);
    assert_alive(&served);
}

#[test]
fn a_panic_in_a_table_ends_one_connection_with_an_error() {
    let served = served();
    for _ in 0..10 {
        let mut client = served.client();
        assert_eq!(error(&mut client, "SELECT COUNT(*) FROM broken").0, 1815);
        assert!(client.ping().is_err());
        let mut client = served.client();
        assert!(client.query::<mysql::Row, _>("SELECT * FROM broken").is_err());
    }
    wait_until_empty(&served);
    assert_alive(&served);
}

#[test]
fn one_connection_too_many_is_told_so() {
    let served = served_with(|config| config.max_connections = 5);
    let clients: Vec<_> = (0..5).map(|_| served.client()).collect();
    for _ in 0..3 {
        let mut stream = served.raw();
        assert_eq!(packet(&mut stream).unwrap().1[..9], *b"\xff\x10\x04#08004");
        assert!(packet(&mut stream).is_none());
    }
    assert_eq!(served.endpoint.connections(), 5);
    drop(clients);
    wait_until_empty(&served);
    assert_alive(&served);
}

#[test]
fn three_hundred_come_and_go_ten_times() {
    let served = served_with(|config| config.max_connections = 400);
    for _ in 0..10 {
        let mut clients: Vec<_> = (0..300).map(|_| served.client()).collect();
        assert_eq!(served.endpoint.connections(), 300);
        for client in &mut clients {
            client.ping().unwrap();
        }
        drop(clients);
        wait_until_empty(&served);
    }
    // Descriptors and threads are given back, too (other tests of this process have some of their own).
    let (sender, receiver) = mpsc::channel();
    let workers: Vec<_> = (0..8)
        .map(|_| {
            let (path, sender) = (served.path.clone(), sender.clone());
            thread::spawn(move || {
                for _ in 0..100 {
                    let options = mysql::OptsBuilder::new().socket(path.to_str()).prefer_socket(false);
                    let mut client = mysql::Conn::new(options).unwrap();
                    sender
                        .send(client.query_first::<u64, _>("SELECT COUNT(*) FROM things").unwrap())
                        .unwrap();
                }
            })
        })
        .collect();
    drop(sender);
    assert!(receiver.iter().all(|count| count == Some(4)));
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    wait_until_empty(&served);
}
