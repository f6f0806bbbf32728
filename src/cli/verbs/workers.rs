//! `optloop workers`: lists the workers of a fleet.

use std::io::Write;
use std::path::Path;

use crate::cli::nats_args::NatsArgs;
use crate::cli::terminal::screen::Screen;

/// Arguments of `optloop workers`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print this user's public key, which sessions and workers of other machines have to trust
    #[arg(long)]
    key: bool,

    /// Print JSON
    #[arg(long, conflicts_with = "key")]
    json: bool,

    #[command(flatten)]
    nats: NatsArgs,
}

/// Lists the workers that are there.
#[cfg(not(feature = "fleet"))]
pub async fn run(_: &Args, _: Option<&Path>, _: Screen, _: &mut impl Write) -> anyhow::Result<()> {
    Err(crate::launch::fleet::missing())
}

#[cfg(feature = "fleet")]
pub use with_fleet::run;

#[cfg(feature = "fleet")]
mod with_fleet {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use serde::Serialize;

    use super::{Args, Path, Screen, Write};
    use crate::catalog::Project;
    use crate::cli::terminal::table::Table;
    use crate::config::Config;
    use crate::error::{usage, usage_sentence};
    use crate::fleet::{self, OwnKey, Present, PublicKey};
    use crate::launch::fleet::connect;

    /// A worker in the list.
    #[derive(Debug, Serialize)]
    struct Row {
        host: String,
        device: String,
        card: Option<String>,
        model: String,
        driver: Option<String>,
        state: &'static str,
        jobs: u64,
        /// The messages that it has dropped.
        dropped: u64,
        up_s: u64,
        /// Whether it takes jobs of this user.
        serves_you: bool,
        /// Whether the project takes its results. None outside a project.
        is_trusted: Option<bool>,
        /// Whether it is the same build of optloop as this one.
        is_same_build: bool,
        key: PublicKey,
    }

    /// Lists the workers that are there.
    pub async fn run(args: &Args, project: Option<&Path>, screen: Screen, out: &mut impl Write) -> anyhow::Result<()> {
        let own = OwnKey::open()?.public();
        if args.key {
            return Ok(writeln!(out, "{own}")?);
        }
        let config = match Project::find(project) {
            Ok(found) => Some(Config::load(found.root()).map_err(usage)?),
            Err(error) if project.is_some() => return Err(usage(error)),
            Err(_) => None,
        };
        let server = args.nats.server();
        let url =
            server.url(config.as_ref()).ok_or_else(|| usage_sentence("name the server: --nats nats://HOST:4222"))?;
        let link = connect(&server, url).await?;
        let workers = fleet::present(&link).await?;
        let build = fleet::build()?;
        let rows: Vec<Row> = workers.into_iter().map(|present| row(present, &own, config.as_ref(), build)).collect();
        if args.json {
            return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?);
        }
        let mut text = Vec::new();
        table(&rows).print_on(screen, &mut text)?;
        screen.show(&text, out)?;
        Ok(())
    }

    fn row(present: Present, own: &PublicKey, config: Option<&Config>, build: &str) -> Row {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let is_trusted = |config: &Config| config.fleet.workers.contains(&present.key.to_string());
        Row {
            state: if present.is_busy { "busy" } else { "idle" },
            up_s: now.saturating_sub(present.since_unix_s),
            serves_you: present.trusts.contains(own),
            is_trusted: config.map(is_trusted),
            is_same_build: present.build == build,
            host: present.host,
            device: present.device.id,
            card: present.device.uuid,
            model: present.device.name,
            driver: present.device.driver,
            jobs: present.jobs,
            dropped: present.dropped,
            key: present.key,
        }
    }

    fn table(rows: &[Row]) -> Table {
        let headings = ["host", "device", "model", "state", ">jobs", "?>dropped", "?up", "use", "key"];
        let mut table = Table::new(&headings).with_whole_cells();
        for row in rows {
            let up = humantime::format_duration(Duration::from_secs(row.up_s)).to_string();
            let cells = [&row.host, &row.device, &row.model].map(String::clone).into_iter();
            let (jobs, dropped) = (row.jobs.to_string(), row.dropped.to_string());
            let rest = [row.state.to_owned(), jobs, dropped, up, row.usable().to_owned(), row.key.to_string()];
            table.row(cells.chain(rest));
        }
        table
    }

    impl Row {
        /// Says whether a session can use the worker, or why not.
        fn usable(&self) -> &'static str {
            match (self.is_same_build, self.serves_you, self.is_trusted) {
                (false, ..) => "no: another build",
                (_, false, _) => "no: it does not trust your key",
                (_, _, Some(false)) => "no: fleet.workers lacks its key",
                _ => "yes",
            }
        }
    }
}
