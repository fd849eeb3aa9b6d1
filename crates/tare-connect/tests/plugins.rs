//! Ways to authenticate: those that are spoken, and all others, of which nothing becomes more than an error
//! that says what to do.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use mysql::prelude::Queryable;
use tare_connect::{Error, Manner, Mode, Secret, ServerAccount, ServerLocation, Tls};
use tare_testkit::server::StartSettings;
use tare_testkit::subject::TestProvider;

const MANNER: Manner = Manner { patience: Some(Duration::from_secs(10)), max_packet: Some(1 << 20) };
/// `CLIENT_PROTOCOL_41`, `CLIENT_SECURE_CONNECTION`, `CLIENT_PLUGIN_AUTH` and what else a server of today
/// has, but for `CLIENT_SSL`.
const CAPABILITIES: u32 = 0x000f_f7ff;

fn server(place: ServerLocation, user: &str, password: &str) -> ServerAccount {
    let password = Some(Secret::new(password)).filter(|it| !it.reveal().is_empty());
    ServerAccount { place, user: user.into(), password, schema: None, tls: Tls::default() }
}

fn packet(number: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![u8::try_from(payload.len()).expect("short"), 0, 0, number];
    bytes.extend_from_slice(payload);
    bytes
}

fn greeting(plugin: &str) -> Vec<u8> {
    let [low, high] = [CAPABILITIES.to_le_bytes()[..2].to_vec(), CAPABILITIES.to_le_bytes()[2..].to_vec()];
    let mut payload = vec![10];
    payload.extend_from_slice(b"8.0.36\0\x01\0\0\x0012345678\0");
    payload.extend_from_slice(&low);
    payload.extend_from_slice(&[33, 2, 0]);
    payload.extend_from_slice(&high);
    payload.push(21);
    payload.extend_from_slice(&[0; 10]);
    payload.extend_from_slice(b"123456789012\0");
    payload.extend_from_slice(plugin.as_bytes());
    payload.push(0);
    packet(0, &payload)
}

/// A server that answers a client's answers with these, whatever it says.
fn fake(plugin: &'static str, answers: Vec<Vec<u8>>) -> ServerLocation {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answers = answers.clone();
            std::thread::spawn(move || talk(stream, plugin, &answers));
        }
    });
    ServerLocation::Tcp { host: "127.0.0.1".into(), port }
}

fn talk(mut stream: TcpStream, plugin: &str, answers: &[Vec<u8>]) {
    let _ = stream.set_read_timeout(Some(Duration::from_millis(500)));
    let mut bytes = [0; 4096];
    let mut number = 0;
    if stream.write_all(&greeting(plugin)).is_err() {
        return;
    }
    for answer in answers {
        // Some of these a client does not answer.
        if stream.read(&mut bytes).is_ok_and(|read| read == 0) {
            return;
        }
        number = number.max(bytes[3]) + 1;
        if stream.write_all(&packet(number, answer)).is_err() {
            return;
        }
    }
    let _ = stream.read(&mut bytes);
}

fn switch(plugin: &str, data: &[u8]) -> Vec<u8> {
    [&[0xfe], plugin.as_bytes(), &[0], data, &[0]].concat()
}

#[test]
fn a_plugin_that_is_not_spoken_is_named() {
    for plugin in [
        "parsec",
        "dialog",
        "auth_gssapi_client",
        "mysql_old_password",
        "mysql_clear_password",
        "authentication_webauthn_client",
        "no_such",
    ] {
        let place = fake("mysql_native_password", vec![switch(plugin, b"12345678901234567890")]);
        let error = server(place, "agent", "secret").connect(MANNER).expect_err(plugin);
        assert!(matches!(&error, Error::Plugin { plugin: it, .. } if it == plugin), "{plugin}: {error}");
        let said = error.to_string();
        assert!(said.contains("`agent`") && said.contains("mistyped") && !said.contains("secret"), "{said}");
    }
}

#[test]
fn whatever_a_server_says_is_no_more_than_an_error() {
    let salt = &b"12345678901234567890"[..];
    for (number, answers) in [
        vec![vec![]],
        vec![vec![0xfe]],
        vec![vec![0x01]],
        vec![vec![0x01, 0x04]],
        vec![vec![0x02, 0x03]],
        vec![vec![0xff]],
        vec![switch("", salt)],
        vec![switch("client_ed25519", b"")],
        vec![switch("client_ed25519", b"1234"), vec![]],
        vec![switch("caching_sha2_password", b""), vec![]],
        vec![switch("caching_sha2_password", salt), vec![0x01]],
        vec![switch("caching_sha2_password", salt), vec![0x01, 0x04], vec![0x01]],
        vec![switch("caching_sha2_password", salt), vec![0x01, 0x04], [&[0x01], &b"no key"[..]].concat()],
        vec![switch("mysql_native_password", b""), vec![]],
        vec![switch("mysql_native_password", salt), switch("dialog", salt)],
        vec![switch("dialog", salt), switch("dialog", salt)],
    ]
    .into_iter()
    .enumerate()
    {
        for plugin in ["mysql_native_password", "caching_sha2_password", "client_ed25519", "dialog", ""] {
            let place = fake(plugin, answers.clone());
            let error = server(place, "agent", "secret").connect(MANNER).err();
            let said = error.unwrap_or_else(|| panic!("{number} {plugin}: it is let in")).to_string();
            assert!(!said.contains("secret") && !said.contains("Error {"), "{number} {plugin}: {said}");
        }
    }
}

#[test]
fn caching_sha2_password_is_spoken() {
    let ok = vec![0, 0, 0, 2, 0, 0, 0];
    let fast = || vec![0x01, 0x03];
    let place = fake("caching_sha2_password", vec![fast(), ok.clone()]);
    server(place, "agent", "secret").connect(MANNER).expect("it is let in");
    let place = fake(
        "mysql_native_password",
        vec![switch("caching_sha2_password", b"12345678901234567890"), fast(), ok],
    );
    server(place, "agent", "secret").connect(MANNER).expect("it is let in");
}

#[test]
fn a_password_that_is_refused_is_sent_once_more_and_no_third_time() {
    let denied = [&[0xff, 0x15, 0x04], &b"#28000Access denied"[..]].concat();
    for (refusals, let_in) in [(0, true), (1, true), (2, false)] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let denied = denied.clone();
        let served = std::thread::spawn(move || {
            let mut served = 0;
            for stream in listener.incoming().flatten() {
                let answer = if served < refusals { denied.clone() } else { vec![0, 0, 0, 2, 0, 0, 0] };
                talk(stream, "mysql_native_password", &[answer]);
                served += 1;
                if served > refusals || served == 2 {
                    break;
                }
            }
            served
        });
        let place = ServerLocation::Tcp { host: "127.0.0.1".into(), port };
        let mut server = server(place, "agent", "secret");
        server.tls.mode = Mode::Disabled;
        let result = server.connect(MANNER);
        assert_eq!(result.is_ok(), let_in, "{refusals} refusals: {:?}", result.as_ref().err());
        assert!(let_in || matches!(result, Err(Error::Denied { .. })));
        assert_eq!(served.join().expect("served"), 2.min(refusals + 1), "{refusals} refusals");
    }
    let place = fake("mysql_native_password", vec![denied]);
    server(place, "agent", "").connect(MANNER).expect_err("no password to send again");
}

#[test]
fn ed25519_is_spoken_and_a_mistyped_name_is_an_error() {
    let _turn = tare_testkit::turn();
    let settings = StartSettings::new(TestProvider::Off).option("--plugin-load-add=auth_ed25519");
    let server_ = match tare_testkit::server::Server::start(settings) {
        Ok(server) => server,
        Err(error) => return println!("skipped: no server with the plugin auth_ed25519: {error}"),
    };
    let mut root = server_.client().expect("a client");
    root.query_drop("CREATE USER agent@localhost IDENTIFIED VIA ed25519 USING PASSWORD('s3cret#/@')")
        .expect("an account");
    let place = || ServerLocation::Socket(server_.socket());
    let mut agent = server(place(), "agent", "s3cret#/@").connect(MANNER).expect("it is let in");
    let who: Option<String> = agent.query_first("SELECT CURRENT_USER()").expect("an answer");
    assert_eq!(who.as_deref(), Some("agent@localhost"));
    // Of 256 challenges one ends in a zero, which the client library drops.
    for number in 0..1000 {
        server(place(), "agent", "s3cret#/@").connect(MANNER).unwrap_or_else(|it| panic!("{number}: {it}"));
    }
    for password in ["", "wrong"] {
        let error = server(place(), "agent", password).connect(MANNER).expect_err("another password");
        assert!(matches!(error, Error::Denied { .. }), "{error}");
    }
    // Which plugin an unknown account is asked by hangs on its name.
    for number in 0..40 {
        let error = server(place(), &format!("agant{number}"), "secret")
            .connect(MANNER)
            .expect_err("no such account");
        assert!(matches!(error, Error::Denied { .. }), "{error}");
        let said = error.to_string();
        assert!(said.contains("no such account") && !said.contains("GRANT"), "{said}");
    }
}
