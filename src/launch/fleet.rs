//! Workers on other machines. Without the feature `fleet`, they say that this build cannot.

use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::domain::device::{DeviceInfo, TimeSource};
use crate::error::{Error, usage};
use crate::runner::compile::Compiler;
use crate::runner::worker::Arrivals;

/// Where a NATS server is, and how to prove to it who this is.
#[derive(Debug, Clone, Default)]
pub struct NatsServer {
    /// Its address. None for that of the project.
    pub url: Option<String>,
    /// A file with credentials.
    pub credentials: Option<PathBuf>,
    /// A file with the certificate of the authority that signed the server's.
    pub ca: Option<PathBuf>,
    /// Files with this client's certificate and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

impl NatsServer {
    /// Returns the server's address: that of the command line, or that of the project.
    pub fn url(&self, config: Option<&Config>) -> Option<String> {
        let of_project = || config.map(|config| config.fleet.nats.clone()).filter(|url| !url.is_empty());
        self.url.clone().or_else(of_project)
    }
}

/// Refuses what this build cannot do.
#[cfg(not(feature = "fleet"))]
pub fn missing() -> anyhow::Error {
    usage(
        Error::new("this build of optloop has no fleet").hint("build it with `cargo build --release --features fleet`"),
    )
}

/// What a session needs to know of itself to find its workers.
pub struct FleetRequest<'a> {
    /// The server that the command line names.
    pub server: &'a NatsServer,
    /// Whether `[fleet]` in config.toml counts, too.
    pub of_project: bool,
    /// Whether an unreachable server is ignored. A session of a service then uses its own device alone.
    pub is_optional: bool,
    /// The settings in force.
    pub config: &'a Config,
    /// The session's first device.
    pub home: &'a DeviceInfo,
    /// The file of its store.
    pub store: &'a Path,
}

impl FleetRequest<'_> {
    /// Returns the address of the server. None for a session without a fleet.
    fn url(&self) -> anyhow::Result<Option<String>> {
        let Some(url) = self.server.url(Some(self.config).filter(|_| self.of_project)) else { return Ok(None) };
        if self.home.time_source() == TimeSource::Recorded {
            if self.is_optional {
                return Ok(None);
            }
            return Err(usage(Error::new("a recording needs no other machines").hint("leave out --nats")));
        }
        Ok(Some(url))
    }
}

/// The workers of a session on other machines. Most sessions have none.
#[derive(Default)]
pub struct Fleet {
    #[cfg(feature = "fleet")]
    found: Option<crate::fleet::Fleet>,
    #[cfg(feature = "fleet")]
    running: Option<crate::fleet::Running>,
}

#[cfg(not(feature = "fleet"))]
impl Fleet {
    /// Finds no workers.
    pub async fn find(request: FleetRequest<'_>) -> anyhow::Result<Self> {
        match request.url()? {
            Some(_) => Err(missing()),
            None => Ok(Self::default()),
        }
    }

    /// Returns their number.
    pub fn size(&self) -> usize {
        0
    }

    /// Makes lanes of them.
    pub async fn lanes(&mut self, _: &DeviceInfo, _: &Compiler) -> anyhow::Result<Arrivals> {
        Ok(Arrivals::default())
    }

    /// Leaves the fleet.
    pub async fn leave(self) {}
}

#[cfg(feature = "fleet")]
pub use with_fleet::connect;

#[cfg(feature = "fleet")]
mod with_fleet {
    use anyhow::Context;

    use super::{Arrivals, Compiler, DeviceInfo, Error, Fleet, FleetRequest, NatsServer, usage};
    use crate::config;
    use crate::domain::text::counted::counted;
    use crate::error::usage_sentence;
    use crate::fleet::{self, Link, OwnKey, PublicKey, Server, Terms};
    use crate::notices::say;
    use crate::runner::self_check;

    /// Connects to a server.
    pub async fn connect(args: &NatsServer, url: String) -> anyhow::Result<Link> {
        if url.contains('@') {
            return Err(usage(Error::new("--nats takes no name and password").hint("use --nats-credentials FILE")));
        }
        let NatsServer { credentials, ca, certificate, .. } = args.clone();
        let server = Server { url, credentials, ca, certificate };
        // Only one of the crypto libraries may be the process's own. reqwest chooses the same.
        let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        Ok(Link::open(&server, "optloop").await?)
    }

    impl Fleet {
        /// Finds the workers that a session may use.
        pub async fn find(request: FleetRequest<'_>) -> anyhow::Result<Self> {
            let Some(url) = request.url()? else { return Ok(Self::default()) };
            let settings = &request.config.fleet;
            let trusts: crate::error::Result<Vec<PublicKey>> = settings.workers.iter().map(|key| key.parse()).collect();
            let trusts =
                trusts.map_err(|problem| usage_sentence(format!("fleet.workers in config.toml: {problem}")))?;
            let link = match connect(request.server, url.clone()).await {
                Err(error) if request.is_optional => {
                    say(&format!("{error:#}. This session goes on with its own device"));
                    return Ok(Self::default());
                }
                link => link?,
            };
            let key = OwnKey::open()?;
            let session = session(&key, request.store);
            let public = key.public();
            let job_timeout = config::duration("fleet.job_timeout", &settings.job_timeout)?;
            let terms = Terms { key, trusts, session, most: settings.lanes, job_timeout };
            let fleet = fleet::Fleet::find(link, terms, request.home.clone(), fleet::build()?).await?;
            match fleet.size() {
                0 => say(&format!(
                    "no worker at {url} can screen for this session, so it goes on with its own device: \
                     `optloop workers --nats {url}` shows why"
                )),
                size => {
                    say(&format!("{} at {url} screen for this session, whose key is {public}", counted(size, "worker")))
                }
            }
            Ok(Self { found: Some(fleet), running: None })
        }

        /// Returns their number.
        pub fn size(&self) -> usize {
            self.found.as_ref().map_or(0, fleet::Fleet::size)
        }

        /// Makes lanes of them.
        pub async fn lanes(&mut self, home: &DeviceInfo, compiler: &Compiler) -> anyhow::Result<Arrivals> {
            let Some(fleet) = self.found.take().filter(|fleet| fleet.size() > 0) else {
                return Ok(Arrivals::default());
            };
            let self_check = self_check::compiled(compiler).await.context("Failed to compile the self-check")?;
            let (arrivals, running) = fleet.lanes(self_check, &home.peaks);
            self.running = Some(running);
            Ok(arrivals)
        }

        /// Leaves the fleet.
        pub async fn leave(self) {
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
