//! How verbs reach workers on other machines. Without the feature `fleet`, they say that this build cannot.

use std::path::{Path, PathBuf};

use super::error::usage_sentence;
use crate::config::Config;
use crate::domain::device::{DeviceInfo, TimeSource};
use crate::runner::compile::Compiler;
use crate::runner::worker::Arrivals;

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
    pub(super) fn is_given(&self) -> bool {
        self.url.is_some()
    }

    /// Returns the server's address: that of the command line, or that of the project.
    pub(super) fn url(&self, config: Option<&Config>) -> Option<String> {
        let of_project = || config.map(|config| config.fleet.nats.clone()).filter(|url| !url.is_empty());
        self.url.clone().or_else(of_project)
    }
}

/// Refuses what this build cannot do.
#[cfg(not(feature = "fleet"))]
pub(super) fn missing() -> anyhow::Error {
    usage_sentence("this build of optloop has no fleet: build it with `cargo build --release --features fleet`")
}

/// What a session needs to know of itself to find its workers.
pub(super) struct Asking<'a> {
    pub(super) args: &'a NatsArgs,
    /// Whether `[fleet]` in config.toml counts, too.
    pub(super) of_project: bool,
    pub(super) config: &'a Config,
    pub(super) home: &'a DeviceInfo,
    #[cfg_attr(not(feature = "fleet"), expect(dead_code, reason = "only a fleet needs the session's name"))]
    pub(super) store: &'a Path,
}

impl Asking<'_> {
    /// Returns the address of the server. None for a session without a fleet.
    fn url(&self) -> anyhow::Result<Option<String>> {
        let Some(url) = self.args.url(Some(self.config).filter(|_| self.of_project)) else { return Ok(None) };
        if self.home.time_source() == TimeSource::Recorded {
            return Err(usage_sentence("a recording needs no other machines: leave out --nats"));
        }
        Ok(Some(url))
    }
}

/// The workers of a session on other machines. Most sessions have none.
#[derive(Default)]
pub(super) struct Joined {
    #[cfg(feature = "fleet")]
    fleet: Option<crate::fleet::Fleet>,
    #[cfg(feature = "fleet")]
    running: Option<crate::fleet::Running>,
}

#[cfg(not(feature = "fleet"))]
impl Joined {
    /// Finds no workers.
    pub(super) async fn find(asking: Asking<'_>) -> anyhow::Result<Self> {
        match asking.url()? {
            Some(_) => Err(missing()),
            None => Ok(Self::default()),
        }
    }

    /// Returns their number.
    pub(super) fn size(&self) -> usize {
        0
    }

    /// Makes lanes of them.
    pub(super) async fn lanes(&mut self, _: &DeviceInfo, _: &Compiler) -> anyhow::Result<Arrivals> {
        Ok(Arrivals::default())
    }

    /// Leaves the fleet.
    pub(super) async fn leave(self) {}
}

#[cfg(feature = "fleet")]
pub(super) use with_fleet::connect;

#[cfg(feature = "fleet")]
mod with_fleet {
    use anyhow::Context;

    use super::{Arrivals, Asking, Compiler, DeviceInfo, Joined, NatsArgs, usage_sentence};
    use crate::cli::talk::say;
    use crate::config;
    use crate::domain::counted::counted;
    use crate::fleet::{self, Fleet, Link, OwnKey, PublicKey, Server, Terms};
    use crate::runner::self_check;

    /// Connects to a server.
    pub(in crate::cli) async fn connect(args: &NatsArgs, url: String) -> anyhow::Result<Link> {
        if url.contains('@') {
            return Err(usage_sentence("--nats takes no name and password: use --nats-credentials FILE"));
        }
        let certificate = args.certificate.clone().zip(args.certificate_key.clone());
        let server = Server { url, credentials: args.credentials.clone(), ca: args.ca.clone(), certificate };
        // Only one of the crypto libraries may be the process's own. reqwest chooses the same.
        let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        Ok(Link::open(&server, "optloop").await?)
    }

    impl Joined {
        /// Finds the workers that a session may use.
        pub(in crate::cli) async fn find(asking: Asking<'_>) -> anyhow::Result<Self> {
            let Some(url) = asking.url()? else { return Ok(Self::default()) };
            let settings = &asking.config.fleet;
            let trusts: Result<Vec<PublicKey>, String> = settings.workers.iter().map(|key| key.parse()).collect();
            let trusts =
                trusts.map_err(|problem| usage_sentence(format!("fleet.workers in config.toml: {problem}")))?;
            let link = connect(asking.args, url.clone()).await?;
            let key = OwnKey::open()?;
            let session = session(&key, asking.store);
            let public = key.public();
            let job_timeout = config::duration("fleet.job_timeout", &settings.job_timeout)?;
            let terms = Terms { key, trusts, session, most: settings.lanes, job_timeout };
            let fleet = Fleet::find(link, terms, asking.home.clone(), fleet::build()?).await?;
            match fleet.size() {
                0 => say(&format!(
                    "no worker at {url} can screen for this session, so it goes on with its own device: \
                     `optloop workers --nats {url}` shows why"
                )),
                size => {
                    say(&format!("{} at {url} screen for this session, whose key is {public}", counted(size, "worker")))
                }
            }
            Ok(Self { fleet: Some(fleet), running: None })
        }

        /// Returns their number.
        pub(in crate::cli) fn size(&self) -> usize {
            self.fleet.as_ref().map_or(0, Fleet::size)
        }

        /// Makes lanes of them.
        pub(in crate::cli) async fn lanes(
            &mut self,
            home: &DeviceInfo,
            compiler: &Compiler,
        ) -> anyhow::Result<Arrivals> {
            let Some(fleet) = self.fleet.take().filter(|fleet| fleet.size() > 0) else {
                return Ok(Arrivals::default());
            };
            let self_check = self_check::compiled(compiler).await.context("Failed to compile the self-check")?;
            let (arrivals, running) = fleet.lanes(self_check, &home.peaks);
            self.running = Some(running);
            Ok(arrivals)
        }

        /// Leaves the fleet.
        pub(in crate::cli) async fn leave(self) {
            let Some(running) = self.running else { return };
            let dropped = running.end().await;
            if dropped > 0 {
                say(&format!(
                    "{} from other machines changed nothing: late, sent twice, or not signed by a worker that was asked",
                    counted(dropped, "result")
                ));
            }
        }
    }

    /// Returns the name of a session on the server: the same when it is resumed. A store has one session at a time.
    fn session(key: &OwnKey, store: &std::path::Path) -> String {
        let folder = store.parent().and_then(|folder| folder.canonicalize().ok());
        let path = folder.unwrap_or_default().join(store.file_name().unwrap_or_default());
        let text = format!("{} {}", key.public(), path.display());
        blake3::hash(text.as_bytes()).to_hex()[..16].to_owned()
    }
}
