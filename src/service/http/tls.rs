//! Encryption.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Reads a certificate with its chain and its key, both in PEM.
pub fn acceptor(certificate: &Path, key: &Path) -> anyhow::Result<TlsAcceptor> {
    let read = || format!("Failed to read {}", certificate.display());
    let chain = CertificateDer::pem_file_iter(certificate).with_context(read)?;
    let chain = chain.collect::<Result<Vec<_>, _>>().with_context(read)?;
    let secret = PrivateKeyDer::from_pem_file(key).with_context(|| format!("Failed to read {}", key.display()))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, secret))
        .with_context(|| format!("{} and {} do not fit", certificate.display(), key.display()))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
