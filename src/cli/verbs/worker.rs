//! `optloop worker`: holds a device, for the session that has started it or for sessions on other machines.

use crate::cli::nats_args::NatsArgs;
use crate::runner::device::DeviceChoice;
use crate::runner::fake_worker::serve_fake;
#[cfg(feature = "fleet")]
use crate::runner::worker::Worker;
use crate::runner::worker::serve;

/// Arguments of `optloop worker`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Device to open
    #[arg(short = 'd', long)]
    device: DeviceChoice,

    /// Public key of a user whose sessions are served; can be repeated (`optloop workers --key` prints it)
    #[arg(long = "trust", value_name = "KEY")]
    trusts: Vec<String>,

    /// Run an oracle in Python with this hash, which a session sends; can be repeated
    #[arg(long = "oracle", value_name = "HASH")]
    oracles: Vec<String>,

    /// Name of this machine in records [default: its host name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    #[command(flatten)]
    nats: NatsArgs,
}

impl Args {
    /// Tells whether it serves sessions on other machines.
    pub fn is_of_a_fleet(&self) -> bool {
        self.nats.is_given()
    }
}

/// Serves until standard input ends.
pub fn run(args: &Args) -> anyhow::Result<()> {
    match &args.device {
        DeviceChoice::Fake(number) => serve_fake(*number),
        device => serve(device),
    }
}

/// Serves sessions on other machines until it is stopped, or until the device fails.
#[cfg(not(feature = "fleet"))]
pub async fn serve_fleet(_: &Args) -> anyhow::Result<()> {
    Err(crate::launch::fleet::missing())
}

#[cfg(feature = "fleet")]
pub use with_fleet::serve_fleet;

#[cfg(feature = "fleet")]
mod with_fleet {
    use std::path::Path;

    use super::{Args, Worker};
    use crate::cli::signals;
    use crate::config::Config;
    use crate::error::usage_sentence;
    use crate::fleet::{self, Consent, Identity, OwnKey, PublicKey};
    use crate::launch::fleet::connect;
    use crate::launch::own_executable;
    use crate::locks::Locks;
    use crate::notices::say;

    /// The longest name of a machine, in characters.
    const MAX_NAME: usize = 64;

    /// Serves sessions on other machines until it is stopped, or until the device fails.
    pub async fn serve_fleet(args: &Args) -> anyhow::Result<()> {
        let trusts: crate::error::Result<Vec<PublicKey>> = args.trusts.iter().map(|key| key.parse()).collect();
        let trusts = trusts.map_err(|problem| usage_sentence(format!("--trust: {problem}")))?;
        if trusts.is_empty() {
            return Err(usage_sentence(
                "name whom to serve: --trust KEY, which `optloop workers --key` prints on the machine of the session",
            ));
        }
        let key = OwnKey::open()?;
        let host = args.name.clone().unwrap_or_else(host);
        if host.is_empty()
            || host.len() > MAX_NAME
            || !host.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        {
            return Err(usage_sentence(format!(
                "`{host}` is no name of a machine: use letters, digits, - _ and ., at most {MAX_NAME}"
            )));
        }
        let server = args.nats.server();
        let url = server.url(None).unwrap_or_default();
        let mut locks = Locks::none(Path::new("."), "worker")?;
        let timeouts = Config::default().worker_timeouts();
        let claim = Worker::claim(own_executable()?, &args.device, timeouts, |info| locks.lane(info));
        let mut device = signals::or_stop(async { Ok(claim.await?) }).await?;
        let link = signals::or_stop(connect(&server, url.clone())).await?;
        let (info, public) = (device.info().clone(), key.public());
        let consent = Consent(args.oracles.clone());
        let identity = Identity { key, trusts, host, build: fleet::build()?, consent };
        let ready = || say(&format!("serving {} ({}) at {url}; this worker's key is {public}", info.name, info.id));
        fleet::serve(&link, &identity, &mut device, ready, signals::requested()).await
    }

    /// Returns the name of this machine, as Linux tells it.
    fn host() -> String {
        let told = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        if told.trim().is_empty() { "worker".to_owned() } else { told.trim().to_owned() }
    }
}
