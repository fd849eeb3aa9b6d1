//! Encrypted connections to a server with a private authority, made by the recipes that administrators use:
//! every mode, the certificates that are refused and why, and those of clients.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use mysql::prelude::Queryable;
use tare_connect::{Error, Manner, Mode, ServerAccount, ServerLocation, Tls};
use tare_testkit::server::StartSettings;
use tare_testkit::subject::TestProvider;
use tempfile::TempDir;

const MANNER: Manner = Manner { patience: Some(Duration::from_secs(20)), max_packet: None };

/// A folder with authorities and certificates, which the server's account may read.
struct Folder {
    folder: TempDir,
}

impl Folder {
    /// `None` where there is no openssl, which is said.
    fn new() -> Option<Folder> {
        if Command::new("openssl").arg("version").output().is_err() {
            println!("skipped: openssl is not there, which makes the certificates");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.path(), open).expect("permissions");
        let place = Folder { folder };
        for (name, subject) in [("ca", "/CN=ours"), ("other-ca", "/CN=another")] {
            place.openssl(&format!(
                "req -x509 -newkey rsa:2048 -nodes -days 9 -subj {subject} -keyout {name}.key -out {name}.pem"
            ));
        }
        Some(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn openssl(&self, arguments: &str) {
        let output =
            Command::new("openssl").args(arguments.split(' ')).current_dir(self.folder.path()).output();
        let output = output.expect("openssl runs");
        assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// A certificate that the authority has signed, with these extensions; without any it is of version 1, as
    /// in the server's manual.
    fn certificate(&self, name: &str, subject: &str, extensions: &str) {
        self.openssl(&format!(
            "req -newkey rsa:2048 -nodes -subj {subject} -keyout {name}.key -out {name}.csr"
        ));
        let mut sign = format!(
            "x509 -req -in {name}.csr -days 9 -CA ca.pem -CAkey ca.key -set_serial 7 -out {name}.pem"
        );
        if !extensions.is_empty() {
            std::fs::write(self.path("extensions"), extensions).expect("a file");
            sign += " -extfile extensions";
        }
        self.openssl(&sign);
        for file in [format!("{name}.key"), format!("{name}.pem")] {
            let open = std::os::unix::fs::PermissionsExt::from_mode(0o644);
            std::fs::set_permissions(self.path(&file), open).expect("permissions");
        }
    }

    /// A server with a certificate, and its port.
    fn server(&self, certificate: &str) -> (tare_testkit::server::Server, u16) {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        let mut settings = StartSettings::new(TestProvider::Off)
            .option("--skip-networking=0")
            .option("--bind-address=127.0.0.1")
            .option(format!("--port={port}"));
        if !certificate.is_empty() {
            let file = |name: &str| self.path(name).display().to_string();
            settings = settings
                .option("--ssl=1")
                .option(format!("--ssl-ca={}", file("ca.pem")))
                .option(format!("--ssl-cert={}", file(&format!("{certificate}.pem"))))
                .option(format!("--ssl-key={}", file(&format!("{certificate}.key"))));
        }
        let server = tare_testkit::server::Server::start(settings).expect("a server");
        let mut root = server.client().expect("a client");
        for statement in ["CREATE USER agent@'127.0.0.1'", "CREATE USER certified@'127.0.0.1' REQUIRE X509"] {
            root.query_drop(statement).expect("an account");
        }
        (server, port)
    }

    fn tls(&self, mode: Mode, ca: Option<&str>) -> Tls {
        Tls { mode, ca: ca.map(|name| self.path(name)), cert: None, key: None }
    }
}

/// The cipher of a connection as an account, empty where it is not encrypted.
fn cipher(port: u16, host: &str, user: &str, tls: Tls) -> Result<String, Error> {
    let place = ServerLocation::Tcp { host: host.into(), port };
    let server = ServerAccount { place, user: user.into(), password: None, schema: None, tls };
    let mut connection = server.connect(MANNER)?;
    let status: Option<(String, String)> =
        connection.query_first("SHOW SESSION STATUS LIKE 'Ssl_cipher'").expect("an answer");
    // More than one packet of each side, and more than a record of TLS holds.
    let long = "x".repeat(100_000);
    let echo: Option<String> = connection.exec_first("SELECT ?", (&long,)).expect("an answer");
    assert_eq!(echo.as_deref(), Some(long.as_str()));
    let refused = connection.query_drop("SELECT nothing").expect_err("no such column");
    assert!(matches!(refused, mysql::Error::MySqlError(_)), "{refused}");
    Ok(status.expect("a row").1)
}

fn refusal(result: Result<String, Error>) -> String {
    match result {
        Err(error @ Error::Tls { .. }) => error.to_string(),
        other => panic!("no refusal: {other:?}"),
    }
}

#[test]
fn each_mode_checks_what_its_name_says() {
    let _turn = tare_testkit::turn();
    let Some(place) = Folder::new() else { return };
    place.certificate("server", "/CN=db1", "subjectAltName=DNS:db1,DNS:localhost\n");
    place.certificate("client", "/CN=agent", "basicConstraints=CA:FALSE\n");
    let (_server, port) = place.server("server");
    let of = |mode, ca| cipher(port, "127.0.0.1", "agent", place.tls(mode, ca));
    assert_eq!(of(Mode::Disabled, None).expect("let in"), "");
    for (mode, ca) in [
        (Mode::Preferred, None),
        (Mode::Required, None),
        (Mode::Required, Some("other-ca.pem")),
        (Mode::VerifyCa, Some("ca.pem")),
    ] {
        assert_ne!(of(mode, ca).unwrap_or_else(|error| panic!("{mode:?}: {error}")), "", "{mode:?}");
    }
    let stranger = refusal(of(Mode::VerifyCa, Some("other-ca.pem")));
    for word in [&format!("127.0.0.1:{port}"), "other-ca.pem", "no authority", "--ssl-ca", "VERIFY_CA"] {
        assert!(stranger.contains(word), "{word}: {stranger}");
    }
    assert!(!stranger.contains("no answer"), "{stranger}");
    let stranger = refusal(of(Mode::VerifyCa, None));
    assert!(
        stranger.contains("no authority of the system") || stranger.contains("the system has no"),
        "{stranger}"
    );
    let name = refusal(of(Mode::VerifyIdentity, Some("ca.pem")));
    assert!(name.contains("--ssl-mode=VERIFY_CA") && name.contains("127.0.0.1"), "{name}");
    let by_name = cipher(port, "localhost", "agent", place.tls(Mode::VerifyIdentity, Some("ca.pem")));
    assert_ne!(by_name.expect("it is the certificate's name"), "");

    let plain =
        cipher(port, "127.0.0.1", "certified", place.tls(Mode::Required, None)).expect_err("no certificate");
    assert!(plain.to_string().contains("--ssl-cert"), "{plain}");
    let with = |name: &str| Tls {
        cert: Some(place.path(&format!("{name}.pem"))),
        key: Some(place.path(&format!("{name}.key"))),
        ..place.tls(Mode::VerifyCa, Some("ca.pem"))
    };
    assert_ne!(cipher(port, "127.0.0.1", "certified", with("client")).expect("let in"), "");
    let refused =
        cipher(port, "127.0.0.1", "certified", with("other-ca")).expect_err("a stranger's certificate");
    assert!(matches!(&refused, Error::Tls { .. }), "{refused}");
    assert!(refused.to_string().contains("other-ca.pem"), "{refused}");
    let mixed = Tls { key: Some(place.path("server.key")), ..with("client") };
    assert!(refusal(cipher(port, "127.0.0.1", "certified", mixed)).contains("is no key to"));
}

#[test]
fn certificates_that_recipes_make_are_taken() {
    let _turn = tare_testkit::turn();
    let Some(place) = Folder::new() else { return };
    place.certificate("old", "/CN=localhost", "");
    let (_server, port) = place.server("old");
    let of = |host: &str, mode, ca: &str| cipher(port, host, "agent", place.tls(mode, Some(ca)));
    for mode in [Mode::Required, Mode::VerifyCa, Mode::VerifyIdentity] {
        let cipher = of("localhost", mode, "ca.pem").unwrap_or_else(|error| panic!("{mode:?}: {error}"));
        assert_ne!(cipher, "", "{mode:?}");
    }
    assert_ne!(of("127.0.0.1", Mode::VerifyCa, "ca.pem").expect("let in"), "");
    refusal(of("127.0.0.1", Mode::VerifyIdentity, "ca.pem"));
    refusal(of("localhost", Mode::VerifyCa, "other-ca.pem"));
    // A client's, likewise; and one beside the key of another.
    place.certificate("client", "/CN=agent", "");
    let certified = |cert: &str, key: &str| {
        let pair = (Some(place.path(cert)), Some(place.path(key)));
        let tls = Tls { cert: pair.0, key: pair.1, ..place.tls(Mode::VerifyIdentity, Some("ca.pem")) };
        cipher(port, "localhost", "certified", tls)
    };
    assert_ne!(certified("client.pem", "client.key").expect("let in"), "");
    let refused = refusal(certified("client.pem", "old.key"));
    assert!(refused.contains("is no key to") && !refused.contains("OtherError"), "{refused}");
    // One that has signed itself, and is named.
    place.openssl(
        "req -x509 -newkey rsa:2048 -nodes -days 9 -subj /CN=localhost -keyout self.key -out self.pem",
    );
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(place.path("self.key"), open).expect("permissions");
    let (_server, port) = place.server("self");
    let of = |mode, ca: &str| cipher(port, "localhost", "agent", place.tls(mode, Some(ca)));
    assert_ne!(of(Mode::VerifyIdentity, "self.pem").expect("it is the one that is named"), "");
    refusal(of(Mode::VerifyCa, "ca.pem"));
}

#[test]
fn a_server_without_encryption_is_told_from_one_that_is_away() {
    let _turn = tare_testkit::turn();
    let Some(place) = Folder::new() else { return };
    let (_server, port) = place.server("");
    let of = |mode| cipher(port, "127.0.0.1", "agent", place.tls(mode, None));
    assert_eq!(of(Mode::Preferred).expect("let in"), "");
    let required = refusal(of(Mode::Required));
    assert!(required.contains("does not offer encryption") && required.contains("REQUIRED"), "{required}");
    let nobody =
        cipher(1, "127.0.0.1", "agent", place.tls(Mode::Required, None)).expect_err("nobody listens");
    assert!(matches!(nobody, Error::NoAnswer { .. }), "{nobody}");
}
