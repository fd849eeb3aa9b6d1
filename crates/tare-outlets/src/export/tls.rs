//! TLS by rustls, as `tls_server_config` describes it.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, SupportedKxGroup, WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    DigitallySignedStruct, DistinguishedName, NamedGroup, RootCertStore, ServerConfig, SignatureScheme,
    SupportedCipherSuite, SupportedProtocolVersion, version,
};

use super::web_config::TlsKeys;

/// The key that cannot be used, and the reason.
type Bad = (&'static str, String);

/// The only application protocol.
const ALPN: &[u8] = b"http/1.1";

/// Makes rustls's settings from the file's keys.
pub(super) fn config(keys: &TlsKeys) -> Result<ServerConfig, Bad> {
    let provider = Arc::new(provider(keys)?);
    let algorithms = provider.signature_verification_algorithms;
    let builder = ServerConfig::builder_with_provider(provider.clone());
    let builder = builder
        .with_protocol_versions(&versions(keys)?)
        .map_err(|error| ("tls_server_config", error.to_string()))?;
    let builder = match client_verifier(keys, provider, algorithms)? {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let (chain, key) = (chain(keys)?, key(keys)?);
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(|error| ("cert_file", format!("certificate and key cannot be used: {error}")))?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.ignore_client_order = keys.prefer_server_cipher_suites.unwrap_or(true);
    Ok(config)
}

fn versions(keys: &TlsKeys) -> Result<Vec<&'static SupportedProtocolVersion>, Bad> {
    let number = |name: &'static str, text: &Option<String>, usual: u8| match text.as_deref() {
        None | Some("") => Ok(usual),
        Some("TLS12") => Ok(12),
        Some("TLS13") => Ok(13),
        Some(other) => Err((name, format!("{other}: TLS12 and TLS13 are spoken"))),
    };
    let lowest = number("min_version", &keys.min_version, 12)?;
    let highest = number("max_version", &keys.max_version, 13)?;
    let all = [(12, &version::TLS12), (13, &version::TLS13)];
    let found: Vec<_> =
        all.into_iter().filter(|(it, _)| (lowest..=highest).contains(it)).map(|(_, it)| it).collect();
    if found.is_empty() {
        return Err(("max_version", "it is below min_version".to_owned()));
    }
    Ok(found)
}

fn provider(keys: &TlsKeys) -> Result<CryptoProvider, Bad> {
    let mut provider = ring::default_provider();
    if !keys.cipher_suites.is_empty() {
        provider.cipher_suites = suites(&provider.cipher_suites, &keys.cipher_suites)?;
    }
    if !keys.curve_preferences.is_empty() {
        let named = keys.curve_preferences.iter().map(|name| curve(&provider.kx_groups, name));
        provider.kx_groups = named.collect::<Result<_, Bad>>()?;
    }
    Ok(provider)
}

/// Returns the named cipher suites, and all of TLS 1.3, which cannot be chosen.
fn suites(known: &[SupportedCipherSuite], named: &[String]) -> Result<Vec<SupportedCipherSuite>, Bad> {
    let name = |it: &SupportedCipherSuite| format!("{:?}", it.suite());
    let is_tls12 = |it: &&SupportedCipherSuite| it.tls13().is_none();
    let mut wanted: Vec<_> = known.iter().filter(|it| it.tls13().is_some()).copied().collect();
    for asked in named {
        // Go's names of TLS 1.3's suites are accepted, as in the original.
        if known.iter().any(|it| it.tls13().is_some() && name(it).replace("TLS13_", "TLS_") == *asked) {
            continue;
        }
        let found = known.iter().filter(is_tls12).find(|it| name(it) == *asked).copied();
        wanted.push(found.ok_or_else(|| {
            let all: Vec<String> = known.iter().filter(is_tls12).map(name).collect();
            ("cipher_suites", format!("{asked}: these are known: {}", all.join(", ")))
        })?);
    }
    Ok(wanted)
}

fn curve(known: &[&'static dyn SupportedKxGroup], name: &str) -> Result<&'static dyn SupportedKxGroup, Bad> {
    let group = match name {
        "X25519" => NamedGroup::X25519,
        "CurveP256" => NamedGroup::secp256r1,
        "CurveP384" => NamedGroup::secp384r1,
        _ => {
            return Err((
                "curve_preferences",
                format!("{name}: these are known: X25519, CurveP256, CurveP384"),
            ));
        }
    };
    let found = known.iter().find(|it| it.name() == group).copied();
    found.ok_or_else(|| ("curve_preferences", format!("{name} is not there")))
}

fn chain(keys: &TlsKeys) -> Result<Vec<CertificateDer<'static>>, Bad> {
    let (name, text) = pem("cert", "cert_file", keys.cert.as_ref(), keys.cert_file.as_ref())?
        .ok_or_else(|| ("cert_file", "there is none".to_owned()))?;
    certificates(name, &text)
}

fn certificates(name: &'static str, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, Bad> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let found = found.map_err(|error| (name, error.to_string()))?;
    if found.is_empty() { Err((name, "there is no certificate in it".to_owned())) } else { Ok(found) }
}

fn key(keys: &TlsKeys) -> Result<PrivateKeyDer<'static>, Bad> {
    let (name, text) = pem("key", "key_file", keys.key.as_ref(), keys.key_file.as_ref())?
        .ok_or_else(|| ("key_file", "there is none".to_owned()))?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| (name, error.to_string()))
}

/// Returns a text in PEM, which settings give inline or as a file, with the name of the setting that gave it.
/// `None`: neither setting is there.
fn pem(
    inline_key: &'static str,
    file_key: &'static str,
    inline: Option<&String>,
    file: Option<&std::path::PathBuf>,
) -> Result<Option<(&'static str, Vec<u8>)>, Bad> {
    match (inline, file) {
        (Some(_), Some(_)) => Err((inline_key, format!("{file_key} says it, too"))),
        (Some(text), None) => Ok(Some((inline_key, text.clone().into_bytes()))),
        (None, Some(path)) => {
            let text =
                std::fs::read(path).map_err(|error| (file_key, format!("{}: {error}", path.display())))?;
            Ok(Some((file_key, text)))
        }
        (None, None) => Ok(None),
    }
}

// Certificates of clients.

fn client_verifier(
    keys: &TlsKeys,
    provider: Arc<CryptoProvider>,
    algorithms: WebPkiSupportedAlgorithms,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, Bad> {
    let ca = pem("client_ca", "client_ca_file", keys.client_ca.as_ref(), keys.client_ca_file.as_ref())?;
    let authority = |why: &str| ca.clone().ok_or_else(|| ("client_ca_file", why.to_owned()));
    let verified = || {
        let (name, text) = authority("there is none, and client_auth_type wants one")?;
        let mut roots = RootCertStore::empty();
        for certificate in certificates(name, &text)? {
            roots.add(certificate).map_err(|error| (name, error.to_string()))?;
        }
        Ok::<_, Bad>((name, WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)))
    };
    match keys.client_auth_type.as_deref() {
        None | Some("" | "NoClientCert") if ca.is_some() => {
            Err(("client_ca_file", "it has no effect without client_auth_type".to_owned()))
        }
        None | Some("" | "NoClientCert") => Ok(None),
        Some("RequestClientCert") => Ok(Some(Arc::new(AnyCertificate { required: false, algorithms }))),
        Some("RequireAnyClientCert" | "RequireClientCert") => {
            Ok(Some(Arc::new(AnyCertificate { required: true, algorithms })))
        }
        Some("VerifyClientCertIfGiven") => {
            let (name, builder) = verified()?;
            Ok(Some(builder.allow_unauthenticated().build().map_err(|error| (name, error.to_string()))?))
        }
        Some("RequireAndVerifyClientCert") => {
            let (name, builder) = verified()?;
            Ok(Some(builder.build().map_err(|error| (name, error.to_string()))?))
        }
        Some(other) => Err((
            "client_auth_type",
            format!(
                "{other}: these are known: NoClientCert, RequestClientCert, RequireAnyClientCert, \
                 VerifyClientCertIfGiven, RequireAndVerifyClientCert"
            ),
        )),
    }
}

/// A verifier that accepts any certificate whose key the client has, without checking who signed it, for
/// client authentication types that require no verification.
#[derive(Debug)]
struct AnyCertificate {
    required: bool,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for AnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        self.required
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _chain: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
