//! What the command line says of a NATS server.

use std::path::PathBuf;

#[cfg(feature = "fleet")]
use crate::error::usage_sentence;
use crate::launch::fleet::NatsServer;

/// Where a NATS server is, and how to prove to it who this is.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct NatsArgs {
    /// NATS server of a fleet, such as nats://HOST:4222 or tls://HOST:4222 (`optloop docs fleet`)
    #[arg(long = "nats", value_name = "URL")]
    url: Option<String>,

    /// File with NATS credentials
    #[arg(long = "nats-credentials", value_name = "FILE")]
    credentials: Option<PathBuf>,

    /// File with the certificate of the authority that signed the server's [default: those of the system]
    #[arg(long = "nats-ca", value_name = "FILE")]
    ca: Option<PathBuf>,

    /// File with this client's certificate
    #[arg(long = "nats-certificate", value_name = "FILE", requires = "certificate_key")]
    certificate: Option<PathBuf>,

    /// File with the key of this client's certificate
    #[arg(long = "nats-certificate-key", value_name = "FILE", requires = "certificate")]
    certificate_key: Option<PathBuf>,
}

impl NatsArgs {
    /// Tells whether the command line names a server.
    pub fn is_given(&self) -> bool {
        self.url.is_some()
    }

    /// Returns the arguments that tell another verb the same, in whatever folder it runs.
    #[cfg(feature = "fleet")]
    pub fn arguments(&self) -> anyhow::Result<Vec<String>> {
        let mut arguments: Vec<String> = self.url.iter().map(|url| format!("--nats={url}")).collect();
        let files = [
            ("credentials", &self.credentials),
            ("ca", &self.ca),
            ("certificate", &self.certificate),
            ("certificate-key", &self.certificate_key),
        ];
        for (name, file) in files {
            if let Some(path) = file {
                let path = std::path::absolute(path)?;
                let refused = || usage_sentence(format!("{} is not UTF-8: rename the file", path.display()));
                arguments.push(format!("--nats-{name}={}", path.to_str().ok_or_else(refused)?));
            }
        }
        Ok(arguments)
    }

    /// Returns what is given of the server.
    pub fn server(&self) -> NatsServer {
        NatsServer {
            url: self.url.clone(),
            credentials: self.credentials.clone(),
            ca: self.ca.clone(),
            certificate: self.certificate.clone().zip(self.certificate_key.clone()),
        }
    }
}
