//! TLS modes, named as MySQL clients name them, and the checks of a server's certificate in each mode.
//!
//! webpki checks certificates. In addition, two kinds are accepted that webpki rejects and that recipes for
//! private authorities produce: a version 1 certificate signed directly by an authority of `--ssl-ca`, and a
//! certificate that is itself in that file. A certificate that names a host only in its subject (CN) is valid
//! for that host.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::{CertifiedKey, SigningKey, SingleCertAndKey};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer as _;
use x509_parser::x509::X509Version;

/// Whether a connection is encrypted and how the server's certificate is checked; ordered from lax to strict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Never encrypted.
    Disabled,
    /// Encrypted if the server offers it and the connection leaves the machine; its certificate is not
    /// checked.
    #[default]
    Preferred,
    /// Always encrypted; the server's certificate is not checked.
    Required,
    /// Always encrypted; the certificate must be signed by a trusted authority.
    VerifyCa,
    /// Like `VerifyCa`, and the certificate must be valid for the host.
    VerifyIdentity,
}

impl Mode {
    /// The error text that lists the allowed values.
    pub const ALLOWED: &str = "DISABLED, PREFERRED, REQUIRED, VERIFY_CA or VERIFY_IDENTITY is allowed";

    /// Parses a mode's name, in any case; `None` if there is no such mode.
    #[must_use]
    pub fn read(name: &str) -> Option<Mode> {
        Some(match name.to_uppercase().replace('-', "_").as_str() {
            "DISABLED" => Mode::Disabled,
            "PREFERRED" => Mode::Preferred,
            "REQUIRED" => Mode::Required,
            "VERIFY_CA" => Mode::VerifyCa,
            "VERIFY_IDENTITY" => Mode::VerifyIdentity,
            _ => return None,
        })
    }

    /// Returns the mode's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mode::Disabled => "DISABLED",
            Mode::Preferred => "PREFERRED",
            Mode::Required => "REQUIRED",
            Mode::VerifyCa => "VERIFY_CA",
            Mode::VerifyIdentity => "VERIFY_IDENTITY",
        }
    }

    fn checks(self) -> bool {
        self >= Mode::VerifyCa
    }
}

/// The encryption settings of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// The TLS mode.
    pub mode: Mode,
    /// The file of trusted authorities; `None`: those of the system.
    pub ca: Option<PathBuf>,
    /// The file of the client's certificate, for accounts that require one.
    pub cert: Option<PathBuf>,
    /// The file of the client certificate's private key.
    pub key: Option<PathBuf>,
}

impl Tls {
    /// Creates the TLS library's configuration. The error is a sentence.
    pub(crate) fn config(&self) -> Result<ClientConfig, String> {
        let provider = Arc::new(ring::default_provider());
        let judge = CertificateVerifier::new(self, &provider)?;
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(judge));
        match (&self.cert, &self.key) {
            (None, None) => Ok(builder.with_no_client_auth()),
            (Some(cert), Some(key)) => {
                let chain = certificates(cert, "--ssl-cert")?;
                let private = PrivateKeyDer::from_pem_file(key)
                    .map_err(|error| format!("--ssl-key {}: {}", key.display(), of_pem(&error)))?;
                let private = provider
                    .key_provider
                    .load_private_key(private)
                    .map_err(|error| format!("--ssl-key {}: {error}", key.display()))?;
                if !is_pair(&chain[0], &*private) {
                    return Err(format!(
                        "--ssl-key {} is no key to --ssl-cert {}: name the key that the certificate was made with",
                        key.display(),
                        cert.display()
                    ));
                }
                let pair = SingleCertAndKey::from(CertifiedKey::new(chain, private));
                Ok(builder.with_client_cert_resolver(Arc::new(pair)))
            }
            (Some(_), None) => Err("--ssl-cert needs the certificate's key: --ssl-key FILE".to_owned()),
            (None, Some(_)) => Err("--ssl-key needs its certificate: --ssl-cert FILE".to_owned()),
        }
    }

    /// Explains a failed handshake and what to do, as a sentence.
    pub(crate) fn explain(&self, host: &str, error: &rustls::Error) -> String {
        let mode = self.mode.name();
        let trusted = self.ca.as_ref().map_or("the system".to_owned(), |ca| ca.display().to_string());
        let refused = format!("the certificate that {host} shows is refused ({mode}): ");
        match error {
            rustls::Error::InvalidCertificate(why) => match why {
                CertificateError::UnknownIssuer | CertificateError::BadSignature => format!(
                    "{refused}no authority of {trusted} has signed it. Name the file of the authority that has with --ssl-ca, or \
                     encrypt without a check: --ssl-mode=REQUIRED"
                ),
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                    format!(
                        "{refused}it has expired. It has to be made anew; --ssl-mode=REQUIRED encrypts without a check"
                    )
                }
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                    format!("{refused}it is not valid yet. Are the clocks of both machines right?")
                }
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                    format!(
                        "{refused}{why}. Name the host as the certificate does (-h), or check the authority alone: --ssl-mode=VERIFY_CA"
                    )
                }
                other => format!("{refused}{other}. --ssl-mode=REQUIRED encrypts without a check"),
            },
            rustls::Error::AlertReceived(
                alert @ (AlertDescription::BadCertificate
                | AlertDescription::UnknownCA
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateUnknown
                | AlertDescription::CertificateRequired
                | AlertDescription::CertificateRevoked
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::AccessDenied
                | AlertDescription::DecryptError),
            ) => {
                let shown = match &self.cert {
                    Some(cert) => format!("the client's certificate {}", cert.display()),
                    None => "a client without a certificate (--ssl-cert, --ssl-key)".to_owned(),
                };
                format!("{host} refuses {shown}: {alert:?}")
            }
            rustls::Error::AlertReceived(alert) => format!("{host} ends the handshake: {alert:?}"),
            other => format!("{other}; TLS 1.2 or 1.3 is spoken here"),
        }
    }
}

/// Returns whether a certificate, of any version, belongs to this key; false if it cannot be read.
fn is_pair(certificate: &CertificateDer<'_>, key: &dyn SigningKey) -> bool {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return false };
    key.public_key().is_none_or(|public| public.as_ref() == certificate.public_key().raw)
}

/// Reads the certificates of a PEM or DER file. `option` names the option in an error.
fn certificates(path: &Path, option: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let failed = |why: String| format!("{option} {}: {why}", path.display());
    let bytes = fs::read(path).map_err(|error| failed(error.to_string()))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let found = found.map_err(|error| failed(of_pem(&error)))?;
    if !found.is_empty() {
        return Ok(found);
    }
    match X509Certificate::from_der(&bytes) {
        Ok(_) => Ok(vec![CertificateDer::from(bytes)]),
        Err(_) => Err(failed("there is no certificate in it, neither PEM nor DER".to_owned())),
    }
}

fn of_pem(error: &rustls::pki_types::pem::Error) -> String {
    match error {
        rustls::pki_types::pem::Error::NoItemsFound => "there is none in it".to_owned(),
        other => other.to_string(),
    }
}

/// The verifier of a server's certificate.
#[derive(Debug)]
struct CertificateVerifier {
    mode: Mode,
    provider: Arc<CryptoProvider>,
    /// webpki's verifier; `None` where the mode checks nothing.
    usual: Option<Arc<WebPkiServerVerifier>>,
    /// The certificates of `--ssl-ca`.
    named: Vec<CertificateDer<'static>>,
}

impl CertificateVerifier {
    fn new(tls: &Tls, provider: &Arc<CryptoProvider>) -> Result<CertificateVerifier, String> {
        let mut judge =
            CertificateVerifier { mode: tls.mode, provider: provider.clone(), usual: None, named: vec![] };
        if !tls.mode.checks() {
            return Ok(judge);
        }
        let mut roots = RootCertStore::empty();
        match &tls.ca {
            Some(path) => {
                judge.named = certificates(path, "--ssl-ca")?;
                roots.add_parsable_certificates(judge.named.iter().cloned());
            }
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        if roots.is_empty() {
            let what = tls.ca.as_ref().map_or("the system".to_owned(), |path| path.display().to_string());
            return Err(format!(
                "{what} has no certificate of an authority: name a file of them with --ssl-ca"
            ));
        }
        let usual = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
        judge.usual = Some(usual.map_err(|error| error.to_string())?);
        Ok(judge)
    }

    /// Returns whether a certificate that webpki rejects is trusted all the same: it is in `--ssl-ca`, or it
    /// is of version 1 or 2 and signed by an authority in that file.
    fn is_trusted(&self, shown: &CertificateDer<'_>, now: UnixTime) -> Result<bool, rustls::Error> {
        let Ok((_, certificate)) = X509Certificate::from_der(shown) else { return Ok(false) };
        let is_named = self.named.iter().any(|it| it.as_ref() == shown.as_ref());
        let has_signed = |authority: &X509Certificate<'_>| {
            authority.subject() == certificate.issuer()
                && certificate.verify_signature(Some(authority.public_key())).is_ok()
                && valid(authority, now).is_ok()
        };
        let is_signed = || {
            certificate.version() != X509Version::V3
                && self
                    .named
                    .iter()
                    .filter_map(|it| Some(X509Certificate::from_der(it).ok()?.1))
                    .any(|it| has_signed(&it))
        };
        if !is_named && !is_signed() {
            return Ok(false);
        }
        valid(&certificate, now).map(|()| true)
    }
}

/// Checks that a certificate is valid at `now`.
fn valid(certificate: &X509Certificate<'_>, now: UnixTime) -> Result<(), rustls::Error> {
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let validity = certificate.validity();
    if now < validity.not_before.timestamp() {
        return Err(CertificateError::NotValidYet.into());
    }
    if now > validity.not_after.timestamp() {
        return Err(CertificateError::Expired.into());
    }
    Ok(())
}

/// Returns whether a certificate is valid for a name that webpki does not find in it. The subject counts only
/// where the certificate lists no other hosts.
fn is_for(shown: &CertificateDer<'_>, name: &ServerName<'_>) -> bool {
    let Ok((_, certificate)) = X509Certificate::from_der(shown) else { return false };
    let host = name.to_str();
    let others = certificate.subject_alternative_name().ok().flatten();
    let names = others.iter().flat_map(|it| &it.value.general_names);
    let mut hosts = names.filter_map(|it| match it {
        GeneralName::DNSName(host) => Some(is_host(host, &host_of(name))),
        GeneralName::IPAddress(bytes) => Some(host.parse().is_ok_and(|ip: std::net::IpAddr| match ip {
            std::net::IpAddr::V4(ip) => ip.octets() == *bytes,
            std::net::IpAddr::V6(ip) => ip.octets() == *bytes,
        })),
        _ => None,
    });
    if let Some(first) = hosts.next() {
        return first || hosts.any(|it| it);
    }
    let mut subjects = certificate.subject().iter_common_name().filter_map(|it| it.as_str().ok());
    subjects.any(|subject| is_host(subject, &host))
}

fn host_of(name: &ServerName<'_>) -> String {
    match name {
        ServerName::DnsName(name) => name.as_ref().to_owned(),
        // An IP address is not a host's name.
        _ => String::new(),
    }
}

/// Returns whether a certificate's name, whose first label may be `*`, matches this host.
fn is_host(name: &str, host: &str) -> bool {
    if host.is_empty() {
        return false;
    }
    match (name.strip_prefix("*."), host.split_once('.')) {
        (Some(domain), Some((_, of_host))) => domain.contains('.') && domain.eq_ignore_ascii_case(of_host),
        _ => name.eq_ignore_ascii_case(host),
    }
}

impl ServerCertVerifier for CertificateVerifier {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(usual) = &self.usual else { return Ok(ServerCertVerified::assertion()) };
        let refusal = match usual.verify_server_cert(shown, between, name, ocsp, now) {
            Ok(verified) => return Ok(verified),
            Err(refusal) => refusal,
        };
        let is_name = matches!(
            refusal,
            rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
            )
        );
        // webpki checks the name last.
        if !is_name && !self.is_trusted(shown, now)? {
            return Err(refusal);
        }
        if self.mode == Mode::VerifyIdentity && !is_for(shown, name) {
            return Err(if is_name { refusal } else { CertificateError::NotValidForName.into() });
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, signed, known)
            .or_else(|error| self.by_old(message, cert, signed, error))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, signed, known)
            .or_else(|error| self.by_old(message, cert, signed, error))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl CertificateVerifier {
    /// Verifies a signature by the key of a certificate older than version 3, which the library cannot read.
    fn by_old(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
        error: rustls::Error,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let Ok((_, certificate)) = X509Certificate::from_der(cert) else { return Err(error) };
        if certificate.version() == X509Version::V3 {
            return Err(error);
        }
        let key = certificate.public_key().subject_public_key.data.as_ref();
        let known = self.provider.signature_verification_algorithms.mapping;
        let algorithms = known.iter().filter(|(scheme, _)| *scheme == signed.scheme).flat_map(|(_, it)| *it);
        let mut right = algorithms.filter(|it| it.verify_signature(key, message, signed.signature()).is_ok());
        right.next().map(|_| HandshakeSignatureValid::assertion()).ok_or(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_one_of_a_certificate() {
        for (name, host, expected) in [
            ("db1.example", "DB1.example", true),
            ("db1.example", "db2.example", false),
            ("*.example.org", "db1.example.org", true),
            ("*.example.org", "a.db1.example.org", false),
            ("*.org", "example.org", false),
            ("*", "db1", false),
            ("", "", false),
        ] {
            assert_eq!(is_host(name, host), expected, "{name} {host}");
        }
    }

    #[test]
    fn modes_are_named_as_clients_name_them() {
        assert_eq!(Mode::read("verify-ca"), Some(Mode::VerifyCa));
        for mode in [Mode::Disabled, Mode::Preferred, Mode::Required, Mode::VerifyCa, Mode::VerifyIdentity] {
            assert_eq!(Mode::read(mode.name()), Some(mode));
        }
        assert_eq!(Mode::read(""), None);
    }

    #[test]
    fn a_file_that_will_not_do_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let empty = folder.path().join("empty.pem");
        fs::write(&empty, "nothing").expect("a file");
        let of = |tls: Tls| tls.config().expect_err("it cannot be").to_string();
        let ca = |path: &Path| Tls { mode: Mode::VerifyCa, ca: Some(path.into()), ..Tls::default() };
        assert!(of(ca(&empty)).contains("there is no certificate in it"));
        assert!(of(ca(&folder.path().join("none"))).contains("No such file"));
        let half = Tls { cert: Some(empty.clone()), ..Tls::default() };
        assert!(of(half).contains("--ssl-key FILE"));
        let both = Tls { cert: Some(empty.clone()), key: Some(empty), ..Tls::default() };
        assert!(of(both).contains("--ssl-cert"));
    }
}
