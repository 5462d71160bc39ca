//! TLS on connections (`--tls`): which suites the cipher's name stands for, and the two sides' settings.
//!
//! `certificate` makes what the server shows, `session` turns messages into records and back. Nobody's identity is
//! checked: both sides are parts of one benchmark.

mod certificate;
mod session;

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, UnbufferedClientConnection};
use rustls::crypto::ring::cipher_suite as known;
use rustls::crypto::{CipherSuiteCommon, CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, UnbufferedServerConnection};
use rustls::{
    CipherSuite, ClientConfig, DigitallySignedStruct, Error, ServerConfig, SignatureScheme,
    SupportedCipherSuite, Tls12CipherSuite,
};

use crate::exit::{Code, Failure, Result};
use crate::settings::Mode;
pub use session::{Outgoing, RECORDS, Session};

/// The original's default.
pub const DEFAULT_CIPHER: &str = "AES128-GCM-SHA256";

type Suites = &'static [&'static SupportedCipherSuite];

/// Names as OpenSSL writes them. Each stands for one version of TLS. rustls exchanges keys by elliptic curves only, so
/// the two names without a key exchange stand for whichever of these suites fits the server's certificate: records
/// are the same, only the handshake differs.
static CIPHERS: [(&str, Suites); 11] = [
    (
        "AES128-GCM-SHA256",
        &[&known::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, &known::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256],
    ),
    (
        "AES256-GCM-SHA384",
        &[&known::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, &known::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384],
    ),
    ("ECDHE-ECDSA-AES128-GCM-SHA256", &[&known::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256]),
    ("ECDHE-ECDSA-AES256-GCM-SHA384", &[&known::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384]),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", &[&known::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256]),
    ("ECDHE-RSA-AES128-GCM-SHA256", &[&known::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]),
    ("ECDHE-RSA-AES256-GCM-SHA384", &[&known::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384]),
    ("ECDHE-RSA-CHACHA20-POLY1305", &[&known::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256]),
    ("TLS_AES_128_GCM_SHA256", &[&known::TLS13_AES_128_GCM_SHA256]),
    ("TLS_AES_256_GCM_SHA384", &[&known::TLS13_AES_256_GCM_SHA384]),
    ("TLS_CHACHA20_POLY1305_SHA256", &[&known::TLS13_CHACHA20_POLY1305_SHA256]),
];

/// What every session of this process is made from.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The cipher as it was asked for.
    pub cipher: &'static str,
    role: Role,
}

#[derive(Clone, Debug)]
enum Role {
    Client(Arc<ClientConfig>),
    Server(Arc<ServerConfig>),
}

impl Tls {
    /// Settings for the side that `mode` is on. A server makes its certificate here.
    pub fn new(mode: Mode, cipher: &str) -> Result<Tls> {
        let refused = |why: String| Failure::new(Code::Unsupported, why);
        let Some((cipher, suites)) = CIPHERS.iter().find(|(name, _)| *name == cipher) else {
            let names: Vec<&str> = CIPHERS.iter().map(|(name, _)| *name).collect();
            return Err(refused(format!(
                "--tls cannot do the cipher '{cipher}'; there are {}",
                names.join(" ")
            )));
        };
        if mode == Mode::Server && cipher.starts_with("ECDHE-RSA") {
            let other = cipher.replace("RSA", "ECDSA");
            return Err(refused(format!(
                "--tls={cipher} wants a server with an RSA certificate, and ours makes one for ECDSA: \
                 use --tls={other}"
            )));
        }
        let suites = suites.iter().map(|suite| lasting(suite)).collect();
        let role =
            role(mode, suites).map_err(|e| Failure::new(Code::Fatal, format!("--tls={cipher}: {e}")))?;
        Ok(Tls { cipher, role })
    }

    /// A session that has not begun yet.
    pub fn session(&self) -> std::result::Result<Session, Error> {
        Ok(match &self.role {
            Role::Client(config) => {
                // A name is required; it is neither sent nor compared.
                let name = ServerName::try_from("sockperf").map_err(|_| Error::General(String::new()))?;
                Session::client(UnbufferedClientConnection::new(Arc::clone(config), name)?)
            }
            Role::Server(config) => Session::server(UnbufferedServerConnection::new(Arc::clone(config))?),
        })
    }
}

fn role(mode: Mode, suites: Vec<SupportedCipherSuite>) -> std::result::Result<Role, Error> {
    let versions: Vec<_> = suites.iter().take(1).map(|suite| suite.version()).collect();
    let provider = Arc::new(CryptoProvider { cipher_suites: suites, ..ring::default_provider() });
    if mode != Mode::Server {
        let mut config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&versions)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anyone(provider)))
            .with_no_client_auth();
        // Every connection of a test costs the same.
        config.resumption = Resumption::disabled();
        config.enable_sni = false;
        return Ok(Role::Client(Arc::new(config)));
    }
    let (certificate, key) = certificate::make().ok_or(Error::FailedToGetRandomBytes)?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)?
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(certificate)], PrivateKeyDer::Pkcs8(key.into()))?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Role::Server(Arc::new(config)))
}

/// The suite without rustls's limit of 2^24 records for one key, at which TLS 1.2, which cannot change keys, would end
/// the connection: that is half a minute of small messages. TLS 1.3 changes its keys and keeps the limit.
fn lasting(suite: &SupportedCipherSuite) -> SupportedCipherSuite {
    let SupportedCipherSuite::Tls12(suite) = suite else { return *suite };
    let copy = Tls12CipherSuite {
        common: CipherSuiteCommon {
            suite: suite.common.suite,
            hash_provider: suite.common.hash_provider,
            confidentiality_limit: u64::MAX,
        },
        prf_provider: suite.prf_provider,
        kx: suite.kx,
        sign: suite.sign,
        aead_alg: suite.aead_alg,
    };
    // rustls wants it for ever; there are at most two for each process.
    SupportedCipherSuite::Tls12(Box::leak(Box::new(copy)))
}

/// OpenSSL's name of a suite.
fn name_of(suite: CipherSuite) -> &'static str {
    CIPHERS.iter().find(|(_, suites)| matches!(suites, [only] if only.suite() == suite)).map_or("", |c| c.0)
}

/// Believes every certificate. Not even its form is looked at: the original's is of X.509's first version.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests;
