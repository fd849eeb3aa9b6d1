//! Who is let in: certificates, passwords, and the file that says so, which counts as it is now.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion, version};
use tare_outlets::Address;
use tare_outlets::export::web_config::WebConfigFile;
use tempfile::TempDir;

use crate::client::{Exporter, ask};

const BOTH: [&SupportedProtocolVersion; 2] = [&version::TLS12, &version::TLS13];

/// A folder with authorities, certificates and a web configuration.
pub(crate) struct Place {
    folder: TempDir,
    pub(crate) authority: CertifiedIssuer<'static, KeyPair>,
    stranger: CertifiedIssuer<'static, KeyPair>,
}

fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(vec![]).expect("parameters");
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority")
}

impl Place {
    pub(crate) fn new() -> Self {
        let place = Place {
            folder: tempfile::tempdir().expect("a folder"),
            authority: authority("ours"),
            stranger: authority("another"),
        };
        fs::write(place.path("ca.pem"), place.authority.pem()).expect("written");
        let (certificate, key) = place.certificate(&place.authority, "localhost", 2099);
        fs::write(place.path("cert.pem"), certificate).expect("written");
        fs::write(place.path("key.pem"), key).expect("written");
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A certificate that ends with a year, and its key, in PEM.
    pub(crate) fn certificate(
        &self,
        by: &CertifiedIssuer<'static, KeyPair>,
        name: &str,
        until: i32,
    ) -> (String, String) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(until, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, by).expect("signed");
        (certificate.pem(), key.serialize_pem())
    }

    /// A server that wants certificates of the authority's.
    pub(crate) fn server_config(&self) -> Arc<ServerConfig> {
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.der().clone()).expect("an authority");
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        let chain = CertificateDer::pem_file_iter(self.path("cert.pem")).expect("a file");
        let chain = chain.collect::<Result<_, _>>().expect("a certificate");
        let key = PrivateKeyDer::from_pem_file(self.path("key.pem")).expect("a key");
        let config = ServerConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().expect("versions");
        let config = config.with_client_cert_verifier(clients.build().expect("a verifier"));
        Arc::new(config.with_single_cert(chain, key).expect("a server"))
    }

    fn write(&self, config: &str) -> PathBuf {
        let path = self.path("web.yml");
        fs::write(&path, config).expect("written");
        path
    }

    fn exporter(&self, config: &str) -> Exporter {
        Exporter::without_server(self.write(config))
    }

    fn client(&self, versions: &[&'static SupportedProtocolVersion]) -> Arc<ClientConfig> {
        self.client_with(versions, None)
    }

    fn client_with(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        certificate: Option<(String, String)>,
    ) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.der().clone()).expect("an authority");
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder =
            builder.with_protocol_versions(versions).expect("versions").with_root_certificates(roots);
        Arc::new(match certificate {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = CertificateDer::pem_slice_iter(certificate.as_bytes());
                let chain = chain.collect::<Result<_, _>>().expect("a certificate");
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
                builder.with_client_auth_cert(chain, key).expect("a client")
            }
        })
    }
}

const TLS: &str = "tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n";

fn basic(user: &str, password: &str) -> String {
    let encoded = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    format!("Basic {encoded}")
}

fn hash(password: &str) -> String {
    bcrypt::hash_with_salt(password, 4, [3; 16]).expect("a hash").to_string()
}

#[test]
fn tls_is_spoken_from_1_2_on_and_from_1_3_on_where_that_is_wanted() {
    let place = Place::new();
    let exporter = place.exporter(TLS);
    for one in BOTH {
        let answer = exporter.get_encrypted(&place.client(&[one]), "/-/healthy", &[]).expect("TLS");
        assert_eq!(answer.status, 200);
    }
    place.write(&format!("{TLS}  min_version: TLS13\n"));
    let refused = exporter.get_encrypted(&place.client(&[&version::TLS12]), "/-/healthy", &[]);
    assert!(refused.is_err(), "the file counts at once");
    assert!(exporter.get_encrypted(&place.client(&BOTH), "/metrics", &[]).is_ok());
}

#[test]
fn plain_http_where_tls_is_spoken_is_refused_with_a_word() {
    let place = Place::new();
    let exporter = place.exporter(TLS);
    let answer = exporter.get("/metrics", &[]);
    assert_eq!(answer.status, 400);
    assert_eq!(answer.text(), "Client sent an HTTP request to an HTTPS server.\n");
}

#[test]
fn a_client_needs_a_certificate_that_is_good() {
    let place = Place::new();
    let required = "  client_ca_file: ca.pem\n  client_auth_type: RequireAndVerifyClientCert\n";
    let exporter = place.exporter(&format!("{TLS}{required}"));
    let reaches = |certificate: Option<(String, String)>| {
        // In TLS 1.3 a client learns of its refusal only when it reads.
        BOTH.map(|one| {
            let client = place.client_with(&[one], certificate.clone());
            exporter.get_encrypted(&client, "/metrics", &[]).is_ok_and(|answer| answer.status == 200)
        })
    };
    assert_eq!(reaches(Some(place.certificate(&place.authority, "prometheus", 2099))), [true, true]);
    assert_eq!(reaches(None), [false, false], "without one");
    assert_eq!(
        reaches(Some(place.certificate(&place.authority, "prometheus", 2011))),
        [false, false],
        "expired"
    );
    assert_eq!(
        reaches(Some(place.certificate(&place.stranger, "prometheus", 2099))),
        [false, false],
        "another's"
    );
    place.write(&format!("{TLS}  client_ca_file: ca.pem\n  client_auth_type: VerifyClientCertIfGiven\n"));
    assert_eq!(reaches(None), [true, true]);
    assert_eq!(reaches(Some(place.certificate(&place.stranger, "prometheus", 2099))), [false, false]);
    place.write(&format!("{TLS}  client_auth_type: RequireAnyClientCert\n"));
    assert_eq!(reaches(Some(place.certificate(&place.stranger, "prometheus", 2011))), [true, true]);
    assert_eq!(reaches(None), [false, false]);
    place.write(&format!("{TLS}  client_auth_type: RequestClientCert\n"));
    assert_eq!(reaches(None), [true, true]);
}

#[test]
fn a_new_certificate_counts_from_the_next_connection_on() {
    let place = Place::new();
    let exporter = place.exporter(TLS);
    let client = place.client(&BOTH);
    assert!(exporter.get_encrypted(&client, "/-/healthy", &[]).is_ok());
    let (certificate, key) = place.certificate(&place.stranger, "localhost", 2099);
    fs::write(place.path("cert.pem"), certificate).expect("written");
    fs::write(place.path("key.pem"), key).expect("written");
    let fresh = place.client(&BOTH);
    assert!(exporter.get_encrypted(&fresh, "/-/healthy", &[]).is_err(), "signed by one it does not trust");
    fs::remove_file(place.path("key.pem")).expect("removed");
    assert!(exporter.get_encrypted(&fresh, "/-/healthy", &[]).is_err());
    let (certificate, key) = place.certificate(&place.authority, "localhost", 2099);
    fs::write(place.path("cert.pem"), certificate).expect("written");
    fs::write(place.path("key.pem"), key).expect("written");
    assert!(exporter.get_encrypted(&fresh, "/-/healthy", &[]).is_ok(), "it goes on");
}

#[test]
fn a_password_is_asked_for_every_page_and_headers_are_set() {
    let place = Place::new();
    let headers = "http_server_config:\n  headers:\n    X-Frame-Options: deny\n";
    let users = |password: &str| format!("{headers}basic_auth_users:\n  agent: {}\n", hash(password));
    let exporter = place.exporter(&users("secret"));
    for path in ["/metrics", "/", "/-/healthy", "/nothing"] {
        let answer = exporter.get(path, &[]);
        assert_eq!(answer.status, 401, "{path}");
        assert!(answer.head.contains("www-authenticate: basic"), "{}", answer.head);
    }
    let status = |user: &str, password: &str| {
        exporter.get("/metrics", &[("Authorization", &basic(user, password))]).status
    };
    assert_eq!(
        (status("agent", "secret"), status("agent", "wrong"), status("nobody", "secret")),
        (200, 401, 401)
    );
    let answer = exporter.get("/metrics", &[("Authorization", &basic("agent", "secret"))]);
    assert!(answer.head.contains("x-frame-options: deny"), "{}", answer.head);
    place.write(&users("another"));
    assert_eq!(
        (status("agent", "secret"), status("agent", "another")),
        (401, 200),
        "the file counts at once"
    );
    place.write("basic_auth_users: [");
    let answer = ask(&mut exporter.connect(), "/metrics", &[]).expect("an answer");
    assert_eq!(answer.status, 500, "nobody is let in by a file that cannot be read");
}

#[test]
fn what_is_not_known_is_an_error_that_names_it() {
    let place = Place::new();
    let error = |config: &str| {
        let path = place.write(config);
        let error = WebConfigFile::new(Some(path)).read().expect_err(config).to_string();
        assert!(error.contains("web.yml") && !error.contains("$2b$"), "{error}");
        error
    };
    for (config, wanted) in [
        ("tls_server_confg:\n  cert_file: cert.pem\n", "tls_server_confg"),
        ("rate_limit:\n  interval: 1s\n", "rate_limit"),
        (&*format!("{TLS}  client_allowed_sans: [a]\n"), "client_allowed_sans"),
        (&*format!("{TLS}  min_version: TLS10\n"), "min_version: TLS10"),
        (&*format!("{TLS}  client_auth_type: Sometimes\n"), "client_auth_type: Sometimes"),
        (&*format!("{TLS}  client_auth_type: RequireAndVerifyClientCert\n"), "client_ca_file"),
        (&*format!("{TLS}  client_ca_file: ca.pem\n"), "client_ca_file"),
        (
            &*format!("{TLS}  cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]\n"),
            "cipher_suites: TLS_RSA_WITH_RC4_128_SHA",
        ),
        (&*format!("{TLS}  curve_preferences: [CurveP521]\n"), "curve_preferences: CurveP521"),
        (&*format!("{TLS}  cert: x\n"), "cert: cert_file"),
        ("tls_server_config:\n  cert_file: cert.pem\n", "key_file"),
        ("tls_server_config:\n  cert_file: key.pem\n  key_file: key.pem\n", "cert_file"),
        ("http_server_config:\n  headers:\n    Server: x\n", "Server"),
        ("http_server_config:\n  headers:\n    X-Frame-Options: \"a\\nb\"\n", "X-Frame-Options"),
        ("basic_auth_users:\n  agent: secret\n", "agent"),
        ("basic_auth_users:\n  a: [1]\n", "line 2"),
    ] {
        let error = error(config);
        assert!(error.contains(wanted), "{wanted}: {error}");
    }
    let missing = place.write("tls_server_config:\n  cert_file: cert.pem\n  key_file: nowhere.pem\n");
    let missing = WebConfigFile::new(Some(missing)).read().expect_err("no such file").to_string();
    assert!(missing.contains("nowhere.pem"), "{missing}");
    assert!(WebConfigFile::new(Some(Path::new("/no/such/web.yml").into())).read().is_err());
    for nothing in ["", "# nothing yet\n", "tls_server_config:\n"] {
        let config = WebConfigFile::new(Some(place.write(nothing))).read().expect(nothing);
        assert!(config.tls.is_none() && config.users.is_empty());
    }
}

#[test]
fn what_exporter_toolkit_takes_is_taken() {
    let place = Place::new();
    let config = format!(
        "{TLS}  client_ca_file: ca.pem\n  client_auth_type: RequireAndVerifyClientCert\n  min_version: TLS12\n  \
         max_version: TLS13\n  cipher_suites:\n    - TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384\n    - TLS_AES_128_GCM_SHA256\n  \
         prefer_server_cipher_suites: true\n  curve_preferences: [CurveP256, X25519]\n\
         http_server_config:\n  http2: true\n  headers:\n    Strict-Transport-Security: max-age=31536000\n\
         basic_auth_users:\n  agent: {}\n",
        hash("secret").replace("$2b$", "$2y$")
    );
    let read = WebConfigFile::new(Some(place.write(&config))).read().expect("all is known");
    assert!(read.tls.is_some() && read.asks_for_http2);
    assert_eq!((read.headers.len(), read.users.len()), (1, 1));
    let inline = |text: &str| text.lines().map(|line| format!("    {line}\n")).collect::<String>();
    let (certificate, key) = place.certificate(&place.authority, "localhost", 2099);
    let config = format!("tls_server_config:\n  cert: |\n{}  key: |\n{}", inline(&certificate), inline(&key));
    let exporter = place.exporter(&config);
    assert!(exporter.get_encrypted(&place.client(&BOTH), "/-/healthy", &[]).is_ok());
}

#[test]
fn an_address_whose_host_was_forgotten_keeps_its_password() {
    for given in ["mysql://exporter:secret", "mysql://exporter:secret/", "mysql://exporter:secret?socket=/x"]
    {
        let error = Address::dsn(given).expect_err(given).to_string();
        assert!(error.starts_with("mysql://exporter: ") && !error.contains("secret"), "{error}");
    }
}
